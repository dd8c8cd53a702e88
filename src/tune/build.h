/* Candidates as kernels: built and compiled by several threads. */
#ifndef FLASHTL_TUNE_BUILD_H
#define FLASHTL_TUNE_BUILD_H

#include "tune/search.h"
#include "tune/tune.h"

typedef struct build_candidate {
    search_choice choice;
    store_row row; /* state: OPEN, BUILT, or why not */
    ftl_product *product;
    ftl_image image;
    bool has_image;
    ftl_status world; /* not OK: what kept it from being compiled says nothing of it; then OPEN */
} build_candidate;

/* Reasons and translates every candidate; row.state is OPEN, or REJECTED with the first diagnostic.
 * Fills in the forecast and the hash of the kernel's text.
 */
void build_all(const tune_request *request, const search_space *space, build_candidate *candidates,
               int count);
/* Compiles those whose state is OPEN: then BUILT, FAILED, or SPILLS; or OPEN still, and 'world'. */
void build_compile(const tune_request *request, ftl_runtime *runtime, const char *target,
                   build_candidate *candidates, int count);
void build_free(build_candidate *candidates, int count);

/* The decisions as pins after the user's own: pins[] has room for SEARCH_DECISIONS_MAX more. Texts
 * live in 'storage'.
 */
int32_t build_pins(const tune_request *request, const char *text, ftl_pin *pins,
                   char storage[SEARCH_TEXT_BYTES]);

#endif
