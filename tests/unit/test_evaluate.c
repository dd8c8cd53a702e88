/* The parts of an evaluation that decide figures: tasks as they are read, settings, the estimate of
 * pass@k, and the database that survives its users.
 */
#define _POSIX_C_SOURCE 200809L /* fork, kill */
#include "evaluate/figures.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* --- tasks ------------------------------------------------------------------------------------ */

static const char file_text[] =
    "# For readers\n\nNothing.\n\n## one (easy)\n\nDo this,\nand that.\n\nThen more."
    "\n\n```tl\nkernel one\nInput X (m, d)\n```\n\n## two-b (hard, d=32, n = "
    "7)\r\nWords.\r\n```tl\r\nkernel two\r\n"
    "uses d, dv\r\n```\r\n";

static void tasks_are_read_as_they_stand(void **state) {
    (void)state;
    task_list list;
    task_error why;
    assert_true(tasks_read(str_from(file_text), &list, &why));
    assert_int_equal(list.count, 2);
    const evaluate_task *one = &list.items[0], *two = &list.items[1];
    assert_string_equal(one->name, "one");
    assert_int_equal(one->level, TASK_EASY);
    assert_int_equal(one->line, 5);
    assert_string_equal(one->words, "Do this, and that.\n\nThen more.");
    assert_string_equal(one->sketch, "kernel one\nInput X (m, d)\n");
    assert_int_equal(one->pin_count, 1); /* it has d and no dv */
    assert_string_equal(one->pins[0].value, "64");
    assert_string_equal(two->sketch, "kernel two\nuses d, dv\n");
    assert_int_equal(two->pin_count, 3);
    assert_string_equal(two->pins[0].name, "d");
    assert_string_equal(two->pins[0].value, "32");
    assert_string_equal(two->pins[1].value, "7");
    assert_string_equal(two->pins[2].name, "dv");
    tasks_done(&list);
}

static void where_lines_break_does_not_change_a_task(void **state) {
    (void)state;
    static const char broken[] =
        "## one (easy)\nDo\nthis,   \nand that.\n\nThen\nmore.\n```tl\nkernel "
        "one\nInput X (m, d)\n```\n";
    task_list a, b;
    task_error why;
    assert_true(tasks_read(str_from(file_text), &a, &why));
    assert_true(tasks_read(str_from(broken), &b, &why));
    assert_string_equal(a.items[0].hash, b.items[0].hash);
    assert_string_not_equal(a.items[0].hash, a.items[1].hash);
    tasks_done(&a);
    tasks_done(&b);
}

static void what_is_no_task_is_refused_with_its_line(void **state) {
    (void)state;
    static const struct {
        const char *text, *words;
        int line;
    } rows[] = {
        {"", "no task", 1},
        {"# title\nwords\n", "no task", 2},
        {"## a\nx\n```tl\nk\n```\n", "no level", 1},
        {"\n## a b (easy)\nx\n```tl\nk\n```\n", "letters, digits", 2},
        {"## ../a (easy)\nx\n```tl\nk\n```\n", "letters, digits", 1},
        {"## a (simple)\nx\n```tl\nk\n```\n", "found 'simple'", 1},
        {"## a (easy, d=x)\nx\n```tl\nk\n```\n", "NAME=NUMBER", 1},
        {"## a (easy, d=0)\nx\n```tl\nk\n```\n", "NAME=NUMBER", 1},
        {"## a (easy, d=1, d=2)\nx\n```tl\nk\n```\n", "twice", 1},
        {"## a (easy)\n```tl\nk\n```\n", "no request", 1},
        {"## a (easy)\nx\n", "no reference", 1},
        {"## a (easy)\nx\n## b (easy)\nx\n```tl\nk\n```\n", "no reference", 1},
        {"## a (easy)\nx\n```c\nk\n```\n", "marked tl", 3},
        {"## a (easy)\nx\n```tl\n```\n", "empty", 3},
        {"## a (easy)\nx\n```tl\nk\n", "does not end", 3},
        {"## a (easy)\nx\n```tl\nk\n```\nmore\n", "next task", 6},
        {"## a (easy)\nx\n```tl\nk\n```\n\n## a (hard)\nx\n```tl\nk\n```\n", "already, in line 1",
         7},
        {"## a (easy)\n\x01\n```tl\nk\n```\n", "byte 1", 2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        task_list list;
        task_error why = {0};
        assert_false(tasks_read(str_from(rows[i].text), &list, &why));
        if (!strstr(why.text, rows[i].words) || why.line != rows[i].line) {
            fail_msg("%zu: line %d: %s", i, why.line, why.text);
        }
        tasks_done(&list);
    }
}

/* --- settings --------------------------------------------------------------------------------- */

static void settings_have_one_name_each(void **state) {
    (void)state;
    evaluate_setting all[SETTINGS_MAX], again;
    assert_int_equal(settings_all(true, all), 24);
    for (int i = 0; i < 24; i++) {
        assert_true(setting_read(str_from(all[i].name), &again));
        assert_memory_equal(&again, &all[i], sizeof again);
        for (int k = 0; k < i; k++) assert_string_not_equal(all[k].name, all[i].name);
    }
    assert_int_equal(settings_all(false, all), 12);
    assert_true(setting_read(STR("two-interpreter-grammar"), &again));
    assert_string_equal(again.name, "two-grammar-interpreter");
    static const char *const wrong[] = {
        "", "three", "two-", "two-parser", "two-checker-checker", "-checker"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_false(setting_read(str_from(wrong[i]), &again));
    }
}

static void every_rung_is_of_one_part(void **state) {
    (void)state;
    evaluate_setting checker, interpreter, none;
    assert_true(setting_read(STR("sketch-checker"), &checker));
    assert_true(setting_read(STR("sketch-interpreter"), &interpreter));
    assert_true(setting_read(STR("sketch-grammar"), &none));
    uint32_t a = setting_muted_rungs(&checker), b = setting_muted_rungs(&interpreter);
    assert_int_equal(a & b, 0);
    assert_int_equal(a | b, (1u << THINK_RUNG_COUNT) - 1);
    assert_int_equal(setting_muted_rungs(&none), 0);
}

/* --- pass@k ----------------------------------------------------------------------------------- */

/* By its definition: every choice of k trials of n, the first c of which passed. */
static double pass_by_counting(int n, int c, int k) {
    int with = 0, all = 0;
    for (unsigned chosen = 0; chosen < 1u << n; chosen++) {
        if (__builtin_popcount(chosen) != k) continue;
        all++;
        with += (chosen & ((1u << c) - 1)) != 0;
    }
    return (double)with / all;
}

static void pass_at_k_is_what_choices_of_k_trials_give(void **state) {
    (void)state;
    for (int n = 1; n <= 10; n++) {
        for (int c = 0; c <= n; c++) {
            for (int k = 1; k <= n; k++) {
                double off = figures_pass_at(n, c, k) - pass_by_counting(n, c, k);
                if (off > 1e-12 || off < -1e-12) fail_msg("n %d, c %d, k %d", n, c, k);
            }
        }
    }
    assert_true(figures_pass_at(4, 2, 5) < 0);
    assert_true(figures_pass_at(0, 0, 1) < 0);
}

/* --- the database ----------------------------------------------------------------------------- */

static char folder[256], path[300];

static int make_folder(void **state) {
    (void)state;
    os_error why;
    if (!os_temporary_folder(folder, &why)) return 1;
    snprintf(path, sizeof path, "%s/results.sqlite", folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    os_remove_folder(folder);
    return 0;
}

static results *open_results(void) {
    results *r = NULL;
    os_error why;
    if (!results_open(path, &r, &why)) fail_msg("%s", why.text);
    return r;
}

static const results_trial first_trial = {"hash", "task", "model", "sketch", 0};

static results_row add_first(results *r, int64_t experiment) {
    results_row row;
    assert_true(results_add(r, experiment, &first_trial, &row));
    return row;
}

static void a_trial_is_run_by_one(void **state) {
    (void)state;
    results *a = open_results(), *b = open_results();
    int64_t experiment = results_experiment(a, "key", "what");
    assert_true(experiment > 0);
    assert_int_equal(results_experiment(b, "key", "what"), experiment);
    assert_int_not_equal(results_experiment(b, "another", "what"), experiment);
    results_row row = add_first(a, experiment), same = add_first(b, experiment);
    assert_int_equal(row.id, same.id);
    bool claimed;
    assert_true(results_claim(a, row.id, &claimed) && claimed);
    assert_true(results_claim(b, row.id, &claimed) && !claimed);
    row.passed = true, row.question_tokens = 10, row.answer_tokens = 5, row.price = 0.5;
    assert_true(results_finish(a, &row));
    assert_true(results_claim(b, row.id, &claimed) && !claimed);
    assert_int_equal(add_first(b, experiment).state, RESULTS_DONE);
    int64_t tokens;
    double price;
    assert_true(results_spent(b, experiment, &tokens, &price));
    assert_int_equal(tokens, 15);
    assert_true(price == 0.5);
    results_close(a);
    results_close(b);
}

static void lost_attempts_count_and_cost(void **state) {
    (void)state;
    results *r = open_results();
    int64_t experiment = results_experiment(r, "lost", "");
    results_row row = add_first(r, experiment);
    results_state its;
    bool claimed;
    int64_t tokens;
    double price;
    row.question_tokens = 100, row.price = 0.25;
    for (int i = 1; i <= RESULTS_ATTEMPTS; i++) {
        assert_true(results_claim(r, row.id, &claimed) && claimed);
        assert_true(results_give_back(r, &row, true));
        assert_true(results_state_of(r, row.id, &its));
        assert_int_equal(its, i < RESULTS_ATTEMPTS ? RESULTS_OPEN : RESULTS_FAILED);
    }
    assert_true(results_spent(r, experiment, &tokens, &price));
    assert_int_equal(tokens, 300);
    assert_true(results_recover(r, experiment));
    assert_true(results_claim(r, row.id, &claimed) && claimed);
    assert_true(results_give_back(r, &row, false)); /* not its fault */
    assert_true(results_state_of(r, row.id, &its));
    assert_int_equal(its, RESULTS_OPEN);
    results_close(r);
}

/* A process that is killed while it runs a trial leaves it to the next. */
static void what_the_dead_were_at_is_open_again(void **state) {
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        results *mine = open_results();
        bool claimed = false;
        results_row row;
        int64_t experiment = results_experiment(mine, "dead", "");
        bool is_ours = results_add(mine, experiment, &first_trial, &row) &&
                       results_claim(mine, row.id, &claimed) && claimed;
        if (is_ours) kill(getpid(), SIGKILL);
        _exit(1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    results *r = open_results();
    int64_t experiment = results_experiment(r, "dead", "");
    results_row row = add_first(r, experiment);
    assert_int_equal(row.state, RESULTS_RUNNING);
    assert_true(results_recover(r, experiment));
    assert_int_equal(add_first(r, experiment).state, RESULTS_OPEN);
    results_close(r);
}

static void what_is_no_database_is_refused(void **state) {
    (void)state;
    char other[300];
    os_error why;
    results *r;
    snprintf(other, sizeof other, "%s/text", folder);
    assert_true(
        os_write_file(other, STR("this is no database, but it is longer than its header"), &why));
    assert_false(results_open(other, &r, &why));
    assert_non_null(strstr(why.text, "not a database"));
    assert_false(results_open("/no/such/folder/x", &r, &why));
    assert_null(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tasks_are_read_as_they_stand),
        cmocka_unit_test(where_lines_break_does_not_change_a_task),
        cmocka_unit_test(what_is_no_task_is_refused_with_its_line),
        cmocka_unit_test(settings_have_one_name_each),
        cmocka_unit_test(every_rung_is_of_one_part),
        cmocka_unit_test(pass_at_k_is_what_choices_of_k_trials_give),
        cmocka_unit_test(a_trial_is_run_by_one),
        cmocka_unit_test(lost_attempts_count_and_cost),
        cmocka_unit_test(what_the_dead_were_at_is_open_again),
        cmocka_unit_test(what_is_no_database_is_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
