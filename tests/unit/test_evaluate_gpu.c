/* Evaluations where there is a GPU (one that is none): what passed on the emulator is verified and
 * timed there before it counts, one kernel at a time.
 */
#include "evaluate/figures.h"
#include "fake_scaled.h"
#include "sample.h"

#include <stdlib.h>
#include <string.h>

static const char TASKS[] =
    "## scaled (easy)\n\nB is factor times A.\n\n```tl\n" SCALED_SKETCH "```\n";

static fake_record *driver;
static fake_compiler *compiler;
static ftl_context *context;
static ftl_product *product;
static char *ptx;
static task_list tasks;
static char folder[256], path[300], model[400];

/* --- what the kernel does on the GPU ---------------------------------------------------------- */

/* 'user' says whether it is right. */
static void on_launch(void *user, const unsigned char *parameters) {
    const ftl_plan *plan = product->kernels[0].plan;
    const bool *is_right = user;
    driver->clock_ms += 0.5;
    for (int64_t i = 0; i < fake_size(plan, parameters, "n"); i++) {
        for (int64_t j = 0; j < fake_size(plan, parameters, "m"); j++) {
            double value = scaled_value(plan, parameters, i, j);
            scaled_put(plan, parameters, i, j, *is_right ? value : 2 * value + 1);
        }
    }
}

/* --- the world -------------------------------------------------------------------------------- */

static int setup(void **state) {
    (void)state;
    os_error why;
    task_error where;
    driver = record_of(FAKE_CUDA, "fake_cuda");
    compiler = record_of(FAKE_NVRTC, "fake_nvrtc");
    assert_int_equal(ftl_context_new(&context), FTL_OK);
    assert_true(tasks_read(str_from(TASKS), &tasks, &where));
    const char *sketch = tasks.items[0].sketch;
    ftl_source source = {"scaled", sketch, strlen(sketch)};
    assert_int_equal(ftl_build(context, &source, &scaled_options, &product), FTL_OK);
    ptx = scaled_ptx(context, product);
    assert_true(os_temporary_folder(folder, &why));
    snprintf(path, sizeof path, "%s/results.sqlite", folder);
    snprintf(model, sizeof model, "exec:cat %s/answer", folder);
    char answer[sizeof TASKS + 300];
    snprintf(answer, sizeof answer, "%s/answer", folder);
    assert_true(os_write_file(answer, str_from(strstr(TASKS, "```tl")), &why));
    return 0;
}

static int teardown(void **state) {
    (void)state;
    os_remove_folder(folder);
    free(ptx);
    tasks_done(&tasks);
    ftl_product_free(product);
    ftl_context_free(context);
    return 0;
}

/* --- evaluations ------------------------------------------------------------------------------ */

/* With a seed of its own, so that nothing is known of it yet. */
static evaluate_request make_request(uint64_t seed) {
    static const evaluate_task *chosen[1];
    static evaluate_setting sketch;
    static evaluate_model by;
    chosen[0] = &tasks.items[0];
    by = (evaluate_model){.spec = model, .name = "copy"};
    assert_true(setting_read(STR("sketch"), &sketch));
    return (evaluate_request){.tasks = chosen,
                              .task_count = 1,
                              .models = &by,
                              .model_count = 1,
                              .settings = &sketch,
                              .setting_count = 1,
                              .samples = 3,
                              .jobs = 2,
                              .answers = 2,
                              .options = scaled_options,
                              .seed = seed,
                              .highest = THINK_RUNG_GPU,
                              .device = "a GPU",
                              .runtime = {.struct_bytes = sizeof(ftl_runtime_options),
                                          .cuda_library = FAKE_CUDA,
                                          .nvrtc_library = FAKE_NVRTC},
                              .provider = {.total_timeout_s = 60}};
}

static void set_up_driver(bool *is_right) {
    if (!ptx) skip();
    scaled_set_up(driver, compiler, product, ptx, on_launch, is_right);
}

/* What the evaluation came to: the world's status, and its figures. */
static ftl_status evaluate(const evaluate_request *request, figures *out,
                           results_reference *reference, char rung[RESULTS_NAME_BYTES]) {
    results *database;
    os_error why;
    figures_table table;
    assert_true(results_open(path, &database, &why));
    char key[33];
    text_buffer what;
    text_init(&what, 4096);
    assert_int_equal(evaluate_key(context, request, key, &what), FTL_OK);
    int64_t experiment = results_experiment(database, key, what.data);
    text_done(&what);
    ftl_status status = evaluate_run(context, request, database, experiment);
    assert_true(figures_read(request, database, experiment, &table));
    *out = figures_of(&table, (figures_cell){-1, -1, -1, -1});
    *reference = table.references[0];
    rung[0] = 0;
    if (table.count) strcpy(rung, table.trials[0].row.rung);
    figures_done(&table);
    results_close(database);
    return status;
}

static void what_passes_is_measured(void **state) {
    (void)state;
    if (!sample_takes()) skip();
    bool is_right = true;
    figures f;
    results_reference reference;
    char rung[RESULTS_NAME_BYTES];
    set_up_driver(&is_right);
    evaluate_request request = make_request(1);
    assert_int_equal(evaluate(&request, &f, &reference, rung), FTL_OK);
    assert_true(reference.passed && reference.tflops > 0);
    assert_string_equal(reference.rung, "gpu");
    assert_int_equal(f.judged, 3);
    assert_int_equal(f.passed, 3);
    assert_string_equal(rung, "gpu");
    assert_true(f.speed > 0.99 && f.speed < 1.01); /* it is the same kernel */
    assert_true(f.counted_speed > 0.99 && f.counted_speed < 1.01);
}

static void what_a_gpu_finds_wrong_has_not_passed(void **state) {
    (void)state;
    if (!sample_takes()) skip();
    bool is_right = true;
    figures f;
    results_reference reference;
    char rung[RESULTS_NAME_BYTES];
    set_up_driver(&is_right);
    evaluate_request request = make_request(2);
    request.model_count = 0;
    assert_int_equal(evaluate(&request, &f, &reference, rung), FTL_OK);
    assert_true(reference.passed);
    is_right = false;
    request.model_count = 1;
    assert_int_equal(evaluate(&request, &f, &reference, rung), FTL_OK);
    assert_int_equal(f.judged, 3);
    assert_int_equal(f.passed, 0);
    assert_true(f.first_rate == 0 && f.check_rate == 1 && f.speed == 0);
    assert_string_equal(rung, "gpu");
}

static void a_reference_that_is_wrong_there_is_refused(void **state) {
    (void)state;
    if (!sample_takes()) skip();
    bool is_right = false;
    figures f;
    results_reference reference;
    char rung[RESULTS_NAME_BYTES];
    set_up_driver(&is_right);
    evaluate_request request = make_request(3);
    assert_int_equal(evaluate(&request, &f, &reference, rung), FTL_CHECK_FAILED);
    assert_int_equal(f.wanted, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_passes_is_measured),
        cmocka_unit_test(what_a_gpu_finds_wrong_has_not_passed),
        cmocka_unit_test(a_reference_that_is_wrong_there_is_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
