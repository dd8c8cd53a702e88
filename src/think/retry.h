/* Whether and when a failed request is sent again. Pure. */
#ifndef FLASHTL_THINK_RETRY_H
#define FLASHTL_THINK_RETRY_H

#include "flashtl/context.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct retry_facts {
    int status;              /* of HTTP; 0: no answer came */
    ftl_status result;       /* what the attempt ended with */
    const char *error_type;  /* the server's, "" when unknown */
    const char *retry_after; /* headers, "" when missing */
    const char *retry_after_ms, *should_retry;
    int32_t tries; /* that were made again already */
    int64_t now_s; /* seconds since 1970, for dates in headers */
    uint64_t salt; /* spreads the waits of several clients */
} retry_facts;

typedef enum retry_decision { RETRY_NO, RETRY_WAIT, RETRY_TOO_LATE } retry_decision;

enum { RETRY_SECONDS_MOST = 120 };

/* '*seconds' is how long to wait. RETRY_TOO_LATE: the server names a time beyond
 * RETRY_SECONDS_MOST.
 */
retry_decision retry_decide(const retry_facts *facts, double *seconds);

/* Whether a server's error is about money: another attempt costs, and changes nothing. */
bool retry_is_about_money(const char *error_type);

#endif
