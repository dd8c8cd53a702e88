#include "think/retry.h"
#include "base/number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double FIRST_S = 0.5, LONGEST_S = 8;

bool retry_is_about_money(const char *error_type) {
    static const char *const types[] = {"insufficient_quota",   "billing_hard_limit_reached",
                                        "billing_error",        "credit_balance_too_low",
                                        "insufficient_credits", "payment_required"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(error_type, types[i]) == 0) return true;
    }
    return false;
}

static bool read_seconds(const char *text, double *seconds) {
    return number_read(text, seconds) && *seconds >= 0;
}

/* "Sun, 06 Nov 1994 08:49:37 GMT" in seconds since 1970; false when it is none. */
static bool read_date(const char *text, int64_t *seconds) {
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    int day, year, hour, minute, second;
    char month[4], zone[4];
    int count = sscanf(text, "%*3[A-Za-z], %2d %3s %4d %2d:%2d:%2d %3s", &day, month, &year, &hour,
                       &minute, &second, zone);
    const char *at = count == 7 ? strstr(months, month) : NULL;
    bool is_date =
        at && (at - months) % 3 == 0 && year > 1970 && year < 10000 && !strcmp(zone, "GMT");
    if (!is_date) return false;
    int64_t m = (at - months) / 3 + 1, y = year - (m <= 2); /* years begin in March */
    int64_t days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 +
                   day - 1 - 719468;
    *seconds = ((days * 24 + hour) * 60 + minute) * 60 + second;
    return true;
}

/* What the headers ask for; negative when they say nothing. */
static double asked_seconds(const retry_facts *f) {
    double seconds;
    int64_t date;
    if (read_seconds(f->retry_after_ms, &seconds)) return seconds / 1000;
    if (read_seconds(f->retry_after, &seconds)) return seconds;
    if (!read_date(f->retry_after, &date)) return -1;
    return date > f->now_s ? (double)(date - f->now_s) : 0;
}

static bool is_worth_it(const retry_facts *f) {
    bool is_lost = f->result == FTL_NO_NETWORK || (f->result == FTL_BAD_ANSWER && f->status < 300);
    bool is_passing = f->status == 408 || f->status == 409 || f->status == 429 || f->status >= 500;
    if (f->result == FTL_STOPPED || f->result == FTL_TIMEOUT || f->result == FTL_NO_MEMORY)
        return false;
    if (f->status == 402 || retry_is_about_money(f->error_type)) return false;
    if (f->status >= 300 && strcmp(f->should_retry, "false") == 0) return false;
    if (f->status >= 300 && strcmp(f->should_retry, "true") == 0) return true;
    return is_lost || is_passing;
}

retry_decision retry_decide(const retry_facts *f, double *seconds) {
    *seconds = 0;
    if (f->result == FTL_OK || !is_worth_it(f)) return RETRY_NO;
    double asked = asked_seconds(f);
    if (asked > RETRY_SECONDS_MOST) {
        *seconds = asked;
        return RETRY_TOO_LATE;
    }
    double wait = FIRST_S * (double)(1 << (f->tries < 10 ? f->tries : 10));
    if (wait > LONGEST_S) wait = LONGEST_S;
    wait *= 1 - 0.25 * (double)(f->salt % 1000) / 1000;
    *seconds = asked >= 0 ? asked : wait;
    return RETRY_WAIT;
}
