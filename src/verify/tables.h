/* Tables of integers: pages, lengths of ragged batches, where sequences begin. What an entry may be
 * comes from the plan, which has it from the program's own uses.
 */
#ifndef FLASHTL_VERIFY_TABLES_H
#define FLASHTL_VERIFY_TABLES_H

#include "verify/inputs.h"

/* Tables whose uses are too involved to say what they may hold are filled by trial: numbers up to
 * some size of the program, smaller ones in later attempts. Whether they fit, the interpretation
 * of the program says: it reads nothing beside a tensor.
 */
enum { TABLES_ATTEMPTS = 24 };
bool tables_are_tried(const ftl_plan *plan);

/* False, with a sentence, when it is not known what the entries may be. */
bool tables_fill(const case_data *data, buffer *table, int32_t position, arena *memory,
                 char why[FTL_WHY_BYTES]);

/* Whether some table's entry names the place of this row on each axis whose places tables name: a
 * page that is nobody's is not. For tensors laid out after the tables.
 */
bool tables_reach(const case_data *data, const buffer *b, int64_t row);

#endif
