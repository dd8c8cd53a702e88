#define _DEFAULT_SOURCE /* fork, kill, mmap */
/* The tuner when things go wrong: candidates that are wrong, fault, hang or die with their tuner; a
 * tuner that is killed; two at once; a GPU that others use.
 */
#include "sample.h"
#include "tune_world.h"

static void wrong_kernels_are_found(void **state) {
    (void)state;
    if (!sample_takes()) skip();
    world.wrong = world.fast = other_threads();
    assert_int_equal(tune_run(context, &request), FTL_OK);
    census c = look();
    assert_true(c.counts[STORE_WRONG] > 0);
    assert_true(c.best.ratio < 1.1);
}

/* Another tuner on the database, whose candidates are as bad as ever: it tries none of them. */
static void nothing_is_tried_again(store_state state) {
    census before = look();
    assert_int_equal(tune_run(context, &request), FTL_OK);
    census after = look();
    assert_int_equal(after.counts[state], before.counts[state]);
    assert_int_equal(after.last[state].attempts, 1);
    assert_int_equal(after.attempts_most, 1);
    assert_string_equal(after.last[state].why, before.last[state].why);
}

static void faults_are_blamed_once(void **state) {
    (void)state;
    if (!sample_takes()) skip();
    world.faulty = other_threads();
    assert_int_equal(tune_run(context, &request), FTL_OK);
    census c = look();
    assert_true(c.counts[STORE_FAULT] > 0);
    assert_int_equal(c.attempts_most, 1);
    assert_true(c.counts[STORE_MEASURED] > 1);
    assert_non_null(strstr(c.last[STORE_FAULT].why, "illegal memory access"));
    nothing_is_tried_again(STORE_FAULT);
}

static void death_is_blamed_once(void **state) {
    (void)state;
    if (!sample_takes()) skip();
    world.deadly = other_threads();
    assert_int_equal(tune_run(context, &request), FTL_OK);
    census c = look();
    assert_true(c.counts[STORE_FAULT] > 0);
    assert_int_equal(c.attempts_most, 1);
    assert_non_null(strstr(c.last[STORE_FAULT].why, "signal 6"));
    nothing_is_tried_again(STORE_FAULT);
}

/* What the compiler or the machine lacks is no failure of a candidate, and nothing of it is kept.
 */
static void want_of_the_world_is_blamed_on_none(void **state) {
    (void)state;
    compiler->compile_result = 5; /* an option of its own that it does not know */
    assert_int_equal(tune_run(context, &request), FTL_COMPILER_BROKEN);
    compiler->compile_result = 0;
    driver->allocate_result = 2; /* out of memory */
    assert_int_equal(tune_run(context, &request), FTL_NO_MEMORY);
    driver->allocate_result = 0;
    assert_int_equal(look().counts[STORE_FAILED], 0);
    assert_int_equal(tune_run(context, &request), FTL_OK);
    census c = look();
    assert_true(c.counts[STORE_MEASURED] > 1);
    assert_int_equal(c.counts[STORE_FAILED], 0);
}

typedef struct sought {
    const char *pins;
    int attempts;
} sought;

static void seek(void *user, const store_row *row) {
    sought *s = user;
    if (strcmp(row->pins, s->pins) == 0) s->attempts = row->attempts;
}

static int attempts_at(const char *candidate) {
    sought s = {candidate, 0};
    visit(seek, &s);
    return s.attempts;
}

static void hangs_are_blamed_once(void **state) {
    (void)state;
    if (!sample_takes()) skip();
    world.hanging = other_threads();
    assert_int_equal(tune_run(context, &request), FTL_OK);
    census c = look();
    assert_true(c.counts[STORE_HANG] > 0);
    assert_int_equal(c.attempts_most, 1);
    /* One that hung is left alone; another one, of as many threads, may be met and hang, too. */
    char hung[sizeof c.last[STORE_HANG].pins];
    snprintf(hung, sizeof hung, "%s", c.last[STORE_HANG].pins);
    assert_int_equal(tune_run(context, &request), FTL_OK);
    assert_int_equal(attempts_at(hung), 1);
    assert_int_equal(look().attempts_most, 1);
}

/* Killed at any moment, with its child: the next one goes on. */
static void killed_tuner_loses_one_measurement(void **state) {
    (void)state;
    if (!sample_takes()) skip();
    pid_t pid = fork();
    if (pid == 0) {
        tune_run(context, &request);
        _exit(0);
    }
    while (waitpid(pid, NULL, WNOHANG) ==
           0) { /* it ends by itself where nothing is ever measured */
        os_sleep_ns(20000000);
        if (os_file_exists(database) && look().counts[STORE_MEASURED] >= 2) break;
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    os_sleep_ns(200000000); /* its child is killed by the system */
    census before = look();
    assert_true(before.counts[STORE_MEASURED] >= 2);
    assert_true(before.counts[STORE_MEASURING] <= 1);
    world.fast = other_threads();
    assert_int_equal(tune_run(context, &request), FTL_OK);
    census after = look();
    assert_int_equal(after.counts[STORE_MEASURING] + after.counts[STORE_BUILT], 0);
    assert_true(after.counts[STORE_MEASURED] >= before.counts[STORE_MEASURED]);
    assert_true(after.attempts_most <= 2);
}

static pid_t start_tuner(void) {
    pid_t pid = fork();
    if (pid == 0) _exit(tune_run(context, &request) == FTL_OK ? 0 : 1);
    return pid;
}

/* Wherever it is killed: what was measured stays, and at most one candidate is left in between. */
static void tuner_may_be_killed_at_any_moment(void **state) {
    (void)state;
    if (!sample_takes()) skip();
    int measured = 0;
    for (int i = 0; i < 5; i++) {
        pid_t pid = start_tuner();
        os_sleep_ns((i * i * 3 + 1) * 10000000);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        os_sleep_ns(50000000);
        if (!os_file_exists(database)) continue;
        census c = look();
        assert_true(c.counts[STORE_MEASURED] >= measured);
        assert_true(c.counts[STORE_MEASURING] <= 1);
        measured = c.counts[STORE_MEASURED];
    }
    assert_int_equal(tune_run(context, &request), FTL_OK);
    census c = look();
    assert_int_equal(c.counts[STORE_MEASURING] + c.counts[STORE_BUILT], 0);
    assert_true(c.counts[STORE_MEASURED] > 1);
}

/* Each candidate is measured by one of them, and both end with the same best. */
static void two_tuners_divide_the_work(void **state) {
    (void)state;
    if (!sample_takes()) skip();
    world.fast = other_threads();
    pid_t first = start_tuner(), second = start_tuner();
    int status;
    assert_int_equal(waitpid(first, &status, 0), first);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(waitpid(second, &status, 0), second);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    census c = look();
    assert_true(c.counts[STORE_MEASURED] > 1);
    assert_int_equal(c.counts[STORE_MEASURING] + c.counts[STORE_BUILT], 0);
    assert_int_equal(c.attempts_most, 1);
    assert_string_equal(c.best.why, "confirmed");
    assert_true(c.best.ratio > 1.9 && c.best.ratio < 2.1);
}

/* Rounds that differ are taken anew (test_bench.c); what still spreads stands beside the figure. */
static void busy_gpu_shows_as_spread(void **state) {
    (void)state;
    if (!sample_takes()) skip();
    request.timing.rounds = 3;
    request.seconds = 1; /* the model's own choice, and a few */
    world.is_noisy = true;
    assert_int_equal(tune_run(context, &request), FTL_OK);
    census c = look();
    assert_true(c.counts[STORE_MEASURED] > 0);
    assert_true(c.best.spread > 0.1);
}

int main(void) {
    const struct CMUnitTest tests[] = {WORLD_TEST(wrong_kernels_are_found),
                                       WORLD_TEST(faults_are_blamed_once),
                                       WORLD_TEST(death_is_blamed_once),
                                       WORLD_TEST(want_of_the_world_is_blamed_on_none),
                                       WORLD_TEST(hangs_are_blamed_once),
                                       WORLD_TEST(tuner_may_be_killed_at_any_moment),
                                       WORLD_TEST(two_tuners_divide_the_work),
                                       WORLD_TEST(busy_gpu_shows_as_spread),
                                       WORLD_TEST(killed_tuner_loses_one_measurement)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
