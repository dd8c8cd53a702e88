#define _DEFAULT_SOURCE /* fork, mmap */
/* The tuner against a driver that pretends: the walk, and its database. */
#include "sample.h"
#include "tune_world.h"

/* --- the search ------------------------------------------------------------------------------- */

static void choices_differ_in_one_decision(void **state) {
    (void)state;
    ftl_decisions *d = NULL;
    assert_int_equal(ftl_decide(context, &request.source, &request.options, &d), FTL_OK);
    search_space space;
    ftl_decisions_free(d);
    ftl_options options = request.options;
    options.pin_count = 2;
    assert_int_equal(ftl_decide(context, &request.source, &options, &d), FTL_OK);
    search_open(&space, d);
    assert_true(space.count > 4);
    search_choice none = {0}, around[SEARCH_CHOICES_MAX], again;
    int count = search_around(&space, &none, around, SEARCH_CHOICES_MAX), expected = 0;
    for (int i = 0; i < space.count; i++) expected += space.decisions[i]->value_count - 1;
    assert_int_equal(count, expected);
    char text[SEARCH_TEXT_BYTES];
    for (int i = 0; i < count; i++) {
        search_text(&space, &around[i], text);
        assert_null(strchr(text, ' '));
        assert_true(search_read(&space, text, &again));
        assert_memory_equal(&again, &around[i], sizeof again);
    }
    /* From a pinned one: other values, and back. */
    int further = search_around(&space, &around[0], around + count, SEARCH_CHOICES_MAX - count);
    assert_int_equal(further, expected + 1);
    assert_false(search_read(&space, "nothing=1", &again));
    assert_false(search_read(&space, "BN=x", &again));
    assert_int_equal(search_around(&space, &none, around, 3), 3);
    ftl_decisions_free(d);
}

/* --- the walk --------------------------------------------------------------------------------- */

static void best_decision_is_found_and_used(void **state) {
    (void)state;
    if (!sample_takes()) skip();
    world.fast = other_threads();
    assert_int_equal(tune_run(context, &request), FTL_OK);
    census c = look();
    assert_int_equal(c.best.state, STORE_MEASURED);
    assert_string_equal(c.best.why, "confirmed");
    assert_true(c.best.ratio > 1.9 && c.best.ratio < 2.1);
    assert_true(c.counts[STORE_MEASURED] > 1);
    assert_int_equal(c.counts[STORE_BUILT] + c.counts[STORE_MEASURING], 0);
    assert_int_equal(c.attempts_most, 1);
    /* The text that it leaves is used, and gives a kernel of that many threads. */
    text_buffer text;
    text_init(&text, 1 << 20);
    assert_int_equal(tune_export(context, database, "a100", &text), FTL_OK);
    ftl_options options = request.options;
    options.measured = text.data;
    options.pin_count = 2; /* any other pin leaves the record unused */
    ftl_product *tuned = NULL;
    assert_int_equal(ftl_build(context, &request.source, &options, &tuned), FTL_OK);
    assert_int_equal(tuned->kernels[0].plan->threads, world.fast);
    assert_non_null(strstr(tuned->reasons, "measured (tuning)"));
    ftl_product_free(tuned);
    text_done(&text);
    text_init(&text, 1 << 20);
    ftl_decisions *d = NULL;
    assert_int_equal(ftl_decide(context, &request.source, &request.options, &d), FTL_OK);
    assert_int_equal(tune_report(context, database, "a100", d->problem, 3, &text), FTL_OK);
    assert_non_null(strstr(text.data, "| 2.0"));
    assert_non_null(strstr(text.data, " measured"));
    text_done(&text);
    text_init(&text, 1 << 20);
    assert_int_equal(tune_report_json(context, database, "a100", d->problem, &text), FTL_OK);
    assert_int_equal(strncmp(text.data, "{\"state\":\"measured\",\"pins\":\"", 28), 0);
    assert_non_null(strstr(text.data, ",\"ratio\":2.00"));
    assert_non_null(strstr(text.data, "{\"state\":\"same\""));
    ftl_decisions_free(d);
    text_done(&text);
    /* Another run has nothing left to do but to confirm. */
    int measured = c.counts[STORE_MEASURED];
    assert_int_equal(tune_run(context, &request), FTL_OK);
    assert_int_equal(look().counts[STORE_MEASURED], measured);
}

static void spilling_kernels_are_not_measured(void **state) {
    (void)state;
    if (!sample_takes()) skip();
    compiler->log =
        "ptxas info : 0 bytes stack frame, 12 bytes spill stores, 4 bytes spill loads\n";
    assert_int_equal(tune_run(context, &request), FTL_OK);
    census c = look();
    assert_int_equal(c.counts[STORE_MEASURED],
                     1); /* the model's own, with which all are compared */
    assert_true(c.counts[STORE_SPILLS] > 1);
    assert_int_equal(c.last[STORE_SPILLS].spill_bytes, 16);
}

static void serialised_products_are_not_measured(void **state) {
    (void)state;
    if (!sample_takes()) skip();
    compiler->log =
        "ptxas info : (C7510) Potential Performance Loss: wgmma.mma_async instructions are "
        "serialized due to ...\n";
    assert_int_equal(tune_run(context, &request), FTL_OK);
    assert_int_equal(look().counts[STORE_MEASURED], 1);
    assert_non_null(strstr(look().last[STORE_SPILLS].why, "serialises"));
}

/* --- the database ----------------------------------------------------------------------------- */

static store_key key_of(const char *problem) {
    return (store_key){problem, "title", "a100", "a card", "driver", "lengths"};
}

static void row_goes_through_its_states(void **state) {
    (void)state;
    store *s = NULL;
    os_error why;
    assert_true(store_open(database, &s, &why));
    store_key key = key_of("p");
    int64_t problem = store_problem(s, &key);
    assert_true(problem > 0);
    assert_int_equal(store_problem(s, &key), problem);
    store_row row = {.pins = "BN=1", .kernel = "abc", .state = STORE_BUILT};
    assert_true(store_put(s, problem, &row));
    assert_true(store_claim(s, row.id, "1"));
    assert_false(store_claim(s, row.id, "2"));
    store_row other = {.pins = "BN=1", .kernel = "abc", .state = STORE_BUILT};
    assert_true(store_put(s, problem, &other)); /* left alone: it is being measured */
    assert_int_equal(other.state, STORE_MEASURING);
    row.state = STORE_MEASURED;
    row.ratio = 1.5;
    assert_true(store_finish(s, &row));
    assert_true(store_put(s, problem, &other));
    assert_int_equal(other.state, STORE_MEASURED);
    assert_true(other.ratio == 1.5);
    other.pins[0] = 'X';
    assert_true(store_knows_kernel(s, problem, &other));
    /* Another kernel under the same pins, since the passes changed: all anew. */
    other = (store_row){.pins = "BN=1", .kernel = "def", .state = STORE_BUILT};
    assert_true(store_put(s, problem, &other));
    assert_int_equal(other.state, STORE_BUILT);
    assert_true(other.ratio == 0);
    /* Owners that are no more. */
    for (int i = 0; i < STORE_ATTEMPTS; i++) {
        assert_true(store_claim(s, other.id, "2147483646"));
        assert_true(store_recover(s));
    }
    assert_true(store_put(s, problem, &other));
    assert_int_equal(other.state, STORE_ABANDONED);
    store_close(s);
}

static void several_tuners_share_one_database(void **state) {
    (void)state;
    enum { TUNERS = 4, ROWS = 40 };
    pid_t children[TUNERS];
    for (int i = 0; i < TUNERS; i++) {
        children[i] = fork();
        if (children[i] != 0) continue;
        store *s = NULL;
        os_error why;
        int claimed = 0;
        if (!store_open(database, &s, &why)) _exit(201);
        store_key key = key_of("shared");
        int64_t problem = store_problem(s, &key);
        for (int r = 0; r < ROWS; r++) {
            store_row row = {.kernel = "k", .state = STORE_BUILT};
            char owner[STORE_OWNER_BYTES];
            snprintf(row.pins, sizeof row.pins, "BN=%d", r);
            store_owner(owner);
            if (!store_put(s, problem, &row)) _exit(202);
            if (row.state != STORE_BUILT || !store_claim(s, row.id, owner)) continue;
            claimed++;
            row.state = STORE_MEASURED;
            row.ratio = 1;
            if (!store_finish(s, &row)) _exit(203);
        }
        store_close(s);
        _exit(claimed);
    }
    int all = 0;
    for (int i = 0; i < TUNERS; i++) {
        int status = 0;
        waitpid(children[i], &status, 0);
        assert_true(WIFEXITED(status));
        assert_true(WEXITSTATUS(status) <= ROWS);
        all += WEXITSTATUS(status);
    }
    assert_int_equal(all, ROWS);
}

/* All begin in the same moment, where there is no database yet. */
static void several_tuners_make_one_database(void **state) {
    (void)state;
    enum { TUNERS = 16, ROUNDS = 60 };
    for (int round = 0; round < ROUNDS; round++) {
        char path[400], go;
        int begin[2];
        pid_t children[TUNERS];
        snprintf(path, sizeof path, "%s/fresh%d.sqlite", folder, round);
        assert_int_equal(pipe(begin), 0);
        for (int i = 0; i < TUNERS; i++) {
            children[i] = fork();
            if (children[i] != 0) continue;
            store *s = NULL;
            os_error why;
            close(begin[1]);
            if (read(begin[0], &go, 1) != 0) _exit(2); /* the end of the pipe is the sign */
            bool is_open = store_open(path, &s, &why);
            if (!is_open) fprintf(stderr, "%s\n", why.text);
            store_close(s);
            _exit(is_open ? 0 : 1);
        }
        close(begin[0]), close(begin[1]);
        for (int i = 0; i < TUNERS; i++) {
            int status = 0;
            waitpid(children[i], &status, 0);
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        }
    }
}

static void device_has_one_owner(void **state) {
    (void)state;
    store *s = NULL;
    os_error why;
    assert_true(store_open(database, &s, &why));
    char own[STORE_OWNER_BYTES];
    store_owner(own);
    assert_true(store_take_device(s, "card", own));
    assert_true(store_take_device(s, "card", own));
    assert_false(store_take_device(s, "card", "1"));
    assert_true(store_leave_device(s, "card", own));
    assert_true(store_take_device(s, "card", "2147483646")); /* lives no more */
    assert_true(store_take_device(s, "card", own));
    store_close(s);
}

static void bad_databases_are_one_sentence(void **state) {
    (void)state;
    store *s = NULL;
    os_error why;
    assert_true(
        os_write_file(database, STR("this is no database, but long enough to be one ...."), &why));
    assert_false(store_open(database, &s, &why));
    assert_non_null(strstr(why.text, "the tuning database: cannot"));
    assert_int_equal(tune_run(context, &request), FTL_NO_FILE);
    assert_false(store_open("/no/such/folder/tuning.sqlite", &s, &why));
    assert_non_null(strstr(why.text, "/no/such/folder"));
    text_buffer text;
    text_init(&text, 1 << 10);
    assert_int_equal(tune_export(context, database, "a100", &text), FTL_NO_FILE);
    text_done(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {WORLD_TEST(choices_differ_in_one_decision),
                                       WORLD_TEST(best_decision_is_found_and_used),
                                       WORLD_TEST(spilling_kernels_are_not_measured),
                                       WORLD_TEST(serialised_products_are_not_measured),
                                       WORLD_TEST(row_goes_through_its_states),
                                       WORLD_TEST(several_tuners_share_one_database),
                                       WORLD_TEST(several_tuners_make_one_database),
                                       WORLD_TEST(device_has_one_owner),
                                       WORLD_TEST(bad_databases_are_one_sentence)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
