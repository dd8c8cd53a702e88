/* What the library's other rooms ask of plans beyond flashtl/plan.h. */
#ifndef FLASHTL_PLAN_PLAN_H
#define FLASHTL_PLAN_PLAN_H

#include "base/kept.h"

#include "flashtl/context.h"
#include "flashtl/plan.h"

/* Of C: what may be the name of a header's functions and of an entry. */
bool plan_is_identifier(const char *name);

/* numbers.c: what a plan's formulas give: the tiles, and the bytes of each derived parameter. */
enum { PLAN_TILES = 0, PLAN_DERIVED = 1, PLAN_NUMBERS_MAX = PLAN_DERIVED + 64 };

/* False with one sentence, where a condition does not hold or something cannot be computed.
 * Launches repeat their sizes and scalars, and formulas take longer than all else: 'table' keeps
 * the last results (plan_numbers_new; NULL without memory). NULL keeps nothing.
 */
kept *plan_numbers_new(const ftl_plan *plan);
bool plan_numbers(const ftl_plan *plan, kept *table, const int64_t *sizes, const double *scalars,
                  uint64_t found[PLAN_NUMBERS_MAX], char why[FTL_WHY_BYTES]);

/* ftl_plan_resolve for a plan that ftl_plan_check has taken and that has not changed since: what
 * every launch of a loaded module needs, without looking at the whole plan again. numbers: the
 * plan's table, or NULL.
 */
bool plan_resolve_checked(const ftl_plan *plan, const ftl_arguments *arguments, kept *numbers,
                          ftl_launch *launch, char why[FTL_WHY_BYTES]);

/* ftl_plan_read with its status: OK, INVALID_ARGUMENT, NO_MEMORY. */
ftl_status plan_read_json(const char *json, size_t length, char why[FTL_WHY_BYTES], ftl_plan **out);

/* The driver's CUtensorMapDataType of elements: bytes where it has no such type. */
int plan_map_type(ftl_type type);

#endif
