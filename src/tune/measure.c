/* One candidate: is it right, and how fast? */
#include "base/hash.h"
#include "tune/tuning.h"
#include "verify/plan_find.h"
#include "verify/verify.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Small cases that meet every edge, for programs with queries and keys. */
static const char edges[] = "1x1,113x203,128x64,65x129,70x3";

void measure_program(const tuning *t, const build_candidate *c, bench_program *out) {
    *out = t->request->shape;
    out->text.sketch = t->request->source;
    out->text.code =
        (ftl_source){t->request->source.name, c->product->code, strlen(c->product->code)};
    out->text.plan = c->product->kernels[0].plan;
    out->text.cuda = c->product->kernels[0].cuda;
    out->text.image = c->has_image ? &c->image : NULL;
}

/* The first case that failed; a fault or a hang is more than a wrong result. */
typedef struct first_failure {
    ftl_status status;
    char what[STORE_WHY_BYTES];
} first_failure;

static void keep_failure(void *user, const verify_result *result) {
    first_failure *f = user;
    if (result->verdict != VERIFY_FAILED || f->what[0]) return;
    const char *rule = result->rule ? result->rule : "";
    f->status = strcmp(rule, ftl_status_name(FTL_KERNEL_FAULT)) == 0 ? FTL_KERNEL_FAULT
                : strcmp(rule, ftl_status_name(FTL_TIMEOUT)) == 0    ? FTL_TIMEOUT
                                                                     : FTL_CHECK_FAILED;
    snprintf(f->what, sizeof f->what, "%.100s: %.120s", result->name, result->what);
}

static ftl_status verify(tuning *t, const bench_program *program, store_row *row) {
    verify_machine *machine = NULL;
    verify_summary summary = {0};
    bool has_edges = plan_find_size(program->text.plan, "q_len") >= 0 &&
                     plan_find_size(program->text.plan, "kv_len") >= 0;
    first_failure failure = {.what = ""};
    verify_options options = {.shapes = has_edges ? edges : NULL,
                              .seed = 1,
                              .stop = t->request->stop,
                              .on_result = keep_failure,
                              .user = &failure};
    ftl_status status =
        verify_machine_open(t->context, &program->text, VERIFY_GPU, t->runtime, &machine);
    if (!status) {
        status = verify_run(t->context, &program->text, verify_machine_runner(machine), &options,
                            &summary);
    }
    verify_machine_close(machine);
    if (status != FTL_CHECK_FAILED) return status;
    if (failure.status != FTL_CHECK_FAILED) {
        return ftl_context_fail(t->context, failure.status, "%s", failure.what);
    }
    row->state = STORE_WRONG;
    snprintf(row->why, sizeof row->why, "%d of %d small cases are wrong: %.180s", summary.failed,
             summary.total, failure.what);
    return FTL_OK;
}

static void take_figures(const bench_result *results, int count, store_row *row) {
    double sum = 0, tflops = 0, model = 0;
    row->state = STORE_MEASURED;
    row->spread = 0;
    for (int i = 0; i < count; i++) {
        const bench_figure *ours = &results[i].figures[0], *theirs = &results[i].figures[1];
        bool is_fine = ours->verdict == BENCH_FINE && theirs->verdict == BENCH_FINE &&
                       ours->milliseconds > 0 && theirs->milliseconds > 0;
        if (!is_fine) {
            row->state = ours->verdict == BENCH_ABSENT ? STORE_FAILED : STORE_WRONG;
            snprintf(row->why, sizeof row->why, "%.200s",
                     ours->verdict == BENCH_FINE ? theirs->why : ours->why);
            return;
        }
        sum += log(theirs->milliseconds / ours->milliseconds);
        tflops += log(fmax(ours->tflops, 1e-9));
        model += log(fmax(theirs->tflops, 1e-9));
        row->spread = fmax(row->spread, fmax(ours->spread, theirs->spread));
    }
    row->ratio = exp(sum / count);
    row->tflops = exp(tflops / count);
    row->model_tflops = exp(model / count);
}

static ftl_status time_candidate(tuning *t, const bench_program *program, int32_t rounds,
                                 store_row *row) {
    bench_case cases[TUNE_CASES_MAX];
    bench_result results[TUNE_CASES_MAX];
    int count = 0;
    ftl_status status =
        t->request->make_cases(t->request->user, t->context, program, cases, &count);
    if (status) return status;
    bench_rival rival = bench_kernel_rival(&t->rival, "model");
    bench_options options = t->request->timing;
    if (rounds) options.rounds = rounds;
    options.rivals = &rival;
    options.rival_count = 1;
    options.roofline_tflops = t->here.tensor_tflops;
    options.memory_gb_per_s = t->here.memory_gb_per_s;
    options.l2_bytes = t->device.l2_bytes;
    options.stop = t->request->stop;
    status = bench_run(t->context, t->runtime, cases, count, &options, results);
    if (!status) take_figures(results, count, row);
    return status;
}

static bool wait_for_device(tuning *t) {
    while (!store_take_device(t->database, t->device.name, t->owner)) {
        if (tuning_is_over(t)) return false;
        if (t->watch) t->watch->beats++;
        os_sleep_ns(100000000);
    }
    return true;
}

/* Adds NAME=VALUE unless the name is there. */
static void add_pin(char text[SEARCH_TEXT_BYTES], const char *name, const char *value) {
    size_t used = strlen(text), length = strlen(name);
    for (const char *at = text; at && *at; at = strchr(at, ' ') ? strchr(at, ' ') + 1 : NULL) {
        if (strncmp(at, name, length) == 0 && at[length] == '=') return;
    }
    if (used + length + strlen(value) + 3 > SEARCH_TEXT_BYTES) return;
    snprintf(text + used, SEARCH_TEXT_BYTES - used, "%s%s=%s", used ? " " : "", name, value);
}

/* Is a pin of the user's a part of the problem (d=128), or a decision? */
static bool is_length(const tuning *t, const ftl_pin *pin) {
    char words[SEARCH_TEXT_BYTES];
    snprintf(words, sizeof words, " %s=%s", pin->name, pin->value);
    const char *at = strstr(t->decisions->problem, words);
    return at && (at[strlen(words)] == ' ' || !at[strlen(words)]);
}

/* Every decision of a candidate, as pins that give the same kernel; else what it was pinned to. */
static void write_decided(tuning *t, build_candidate *c) {
    tune_request plain = *t->request; /* with the problem's lengths alone */
    ftl_pin lengths[256], pins[256];
    char storage[SEARCH_TEXT_BYTES], text[SEARCH_TEXT_BYTES] = "", kernel[33], value[24];
    ftl_decisions *all = NULL;
    ftl_product *product = NULL;
    ftl_options options = t->request->options;
    plain.options.pins = lengths;
    plain.options.pin_count = 0;
    options.pins = pins;
    options.measured = "";
    options.pin_count = build_pins(t->request, c->row.pins, pins, storage);
    if (ftl_decide(t->context, &t->request->source, &options, &all)) return;
    for (int32_t i = 0; i < options.pin_count; i++) {
        if (is_length(t, &pins[i])) lengths[plain.options.pin_count++] = pins[i];
        else add_pin(text, pins[i].name, pins[i].value);
    }
    snprintf(c->row.decided, sizeof c->row.decided, "%s", text);
    for (int32_t i = 0; i < all->count; i++) {
        snprintf(value, sizeof value, "%lld", (long long)all->items[i].value);
        add_pin(text, all->items[i].name, value);
    }
    ftl_decisions_free(all);
    options.pin_count = build_pins(&plain, text, pins, storage);
    if (ftl_build(t->context, &t->request->source, &options, &product)) return;
    hash_digits(hash_bytes(str_from(product->kernels[0].cuda)), kernel);
    bool is_same = strcmp(kernel, c->row.kernel) == 0;
    if (is_same) snprintf(c->row.decided, sizeof c->row.decided, "%s", text);
    ftl_product_free(product);
}

ftl_status measure_candidate(tuning *t, build_candidate *c, int32_t rounds) {
    bench_program program;
    store_row before = c->row;
    before.state = rounds ? before.state : STORE_BUILT;
    measure_program(t, c, &program);
    if (!wait_for_device(t)) {
        return store_finish(t->database, &before) ? FTL_OK : tuning_database_failure(t);
    }
    ftl_status status = rounds ? FTL_OK : verify(t, &program, &c->row);
    if (!status && c->row.state != STORE_WRONG)
        status = time_candidate(t, &program, rounds, &c->row);
    store_leave_device(t->database, t->device.name, t->owner);
    bool says_nothing = status == FTL_STOPPED || status == FTL_NO_MEMORY;
    if (says_nothing) c->row = before;
    else if (status) {
        c->row.state = status == FTL_TIMEOUT        ? STORE_HANG
                       : status == FTL_KERNEL_FAULT ? STORE_FAULT
                                                    : STORE_FAILED;
        snprintf(c->row.why, sizeof c->row.why, "%.200s", ftl_context_error(t->context));
    }
    if (c->row.state == STORE_MEASURED && !rounds) write_decided(t, c);
    if (!store_finish(t->database, &c->row)) return tuning_database_failure(t);
    return tuning_is_lost(status) || says_nothing ? status : FTL_OK;
}

ftl_status measure_model(tuning *t) {
    store_row *row = &t->model.row;
    row->state = STORE_BUILT;
    if (!store_put(t->database, t->problem, row)) return tuning_database_failure(t);
    if (row->state != STORE_BUILT || !store_claim(t->database, row->id, t->owner)) return FTL_OK;
    tuning_tell(t, 0, 0, 1, "measuring the model's choice");
    ftl_status status = measure_candidate(t, &t->model, 0);
    if (!status && row->state == STORE_MEASURED) {
        row->ratio = 1;
        if (!store_finish(t->database, row)) return tuning_database_failure(t);
    }
    if (!status && row->state != STORE_MEASURED && row->state != STORE_BUILT) {
        return ftl_context_fail(t->context, FTL_CHECK_FAILED, "the model's own choice: %s: %s",
                                store_state_sentence(row->state), row->why);
    }
    return status;
}
