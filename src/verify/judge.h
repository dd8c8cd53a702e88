/* The judgement of one output: is every element right, and if not, which are wrong in what manner?
 * docs/verification.md gives the rules and where their bounds come from.
 */
#ifndef FLASHTL_VERIFY_JUDGE_H
#define FLASHTL_VERIFY_JUDGE_H

#include "verify/expected.h"

/* What a launch left in an output. */
typedef struct judged {
    const expected *expected;
    const double *got;        /* dense */
    const uint8_t *unwritten; /* per element: still poison; NULL: none is */
    double tolerance;         /* of the relative rms error: judge_tolerance */
} judged;

typedef struct judgement {
    bool is_right;
    const char *rule;    /* that failed, or came closest to it */
    double error, bound; /* of that rule */
    double relative_rms; /* NAN when there was nothing to compare */
    double rms_bound;    /* of that */
    int64_t compared;    /* elements whose value is known */
    int64_t open;        /* for which anything may be right (EXPECTED_OPEN), or infinity is */
    uint8_t *bad;        /* per element; NULL when the output is right */
    int64_t bad_count;
    int64_t worst; /* element with the largest error against its row; -1: none */
} judgement;

/* Relative rms error that a kernel may have: 1e-3 where f16 is stored, 3e-3 for bf16, ... */
double judge_tolerance(const ftl_plan *plan, const ftl_plan_tensor *output);

void judge_output(const judged *output, arena *memory, judgement *out);

/* Describes where an output is wrong: "head 2..3 of 6, q 192..202 of 203 (the last tile of 64), all
 * d". */
void judge_pattern(const ftl_plan *plan, const buffer *of, const uint8_t *bad, arena *memory,
                   text_buffer *out);

/* For attention: adds a guess at the cause when the worst row is what a known mistake would give (a
 * mask off by one, keys that are missing or counted twice, another head's, stale values, no
 * rescaling).
 */
void judge_cause(const case_data *data, const judged *output, const judgement *judgement,
                 arena *memory, text_buffer *out);

#endif
