#include "base/number.h"
#include "base/os.h"
#include "verify/exact.h"
#include "verify/random.h"
#include "verify/tables.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const double SECONDS_MOST = 4;
static const double INTERPRETED_FLOPS_PER_S = 1e9, REFERENCE_FLOPS_PER_S = 8e9;
static const size_t MEMORY_MOST = (size_t)3 << 30; /* of one case */

/* Of an Output in some case: were most of its elements open, were most compared? */
enum { COVERED_OPEN = 1, COVERED_MOSTLY = 2 };

typedef struct run {
    ftl_context *context;
    const verify_program *program;
    const verify_runner *runner;
    const verify_options *options;
    verify_summary *summary;
    arena memory;
    const verify_case *cases;
    int32_t case_count;
    double reference_flops; /* most for a reference of one case */
    uint8_t *covered;       /* per tensor: COVERED_OPEN, COVERED_MOSTLY */
    bool must_end;          /* after a launch that the process cannot go on from */
    bool ran_out;           /* of memory, in a launch: that says nothing of the kernel */
} run;

/* --- one case --------------------------------------------------------------------------------- */

__attribute__((format(printf, 3, 4))) static void fail(verify_result *r, const char *rule,
                                                       const char *format, ...) {
    r->verdict = VERIFY_FAILED;
    r->rule = rule;
    va_list arguments;
    va_start(arguments, format);
    number_print_list(r->what, sizeof r->what, format, arguments);
    va_end(arguments);
    for (char *at = r->what; *at; at++) { /* it is one line */
        if (*at == '\n') *at = ' ';
    }
}

static bool launch(run *w, case_data *data, verify_result *r) {
    double milliseconds = 0;
    text_buffer detail;
    text_init(&detail, 1 << 16);
    ftl_status status =
        w->runner->launch(w->runner->user, w->context, &data->arguments, &milliseconds, &detail);
    w->ran_out |= status == FTL_NO_MEMORY;
    if (status && status != FTL_NO_MEMORY) {
        bool has_detail = detail.length > 0;
        fail(r, ftl_status_name(status), "%s%s%.*s", ftl_context_error(w->context),
             has_detail ? ": " : "", (int)detail.length, has_detail ? detail.data : "");
        w->must_end = status == FTL_KERNEL_FAULT || status == FTL_TIMEOUT;
    }
    text_done(&detail);
    r->milliseconds = milliseconds;
    return status == FTL_OK;
}

/* The first launch's bits of each output, dense. */
typedef struct taken {
    unsigned char *bits;
    uint8_t *unwritten;
    double *values;
} taken;

static taken *take_outputs(run *w, case_data *data, int poison) {
    int32_t count = data->program->plan->tensor_count;
    taken *all = arena_array(&w->memory, taken, count + 1);
    for (int32_t t = 0; t < count; t++) {
        const buffer *b = &data->tensors[t];
        if (b->of->role != FTL_OUTPUT) continue;
        all[t].unwritten = arena_array(&w->memory, uint8_t, b->rows * b->columns + 1);
        all[t].bits = buffer_copy(b, poison, &w->memory, all[t].unwritten);
        all[t].values = buffer_load(b, &w->memory);
    }
    return all;
}

/* What is no element of an output must still hold the poison; inputs must be as they were. */
static bool check_memory(case_data *data, int poison, const hash128 *hashes, verify_result *r) {
    char why[FTL_WHY_BYTES];
    for (int32_t t = 0; t < data->program->plan->tensor_count; t++) {
        buffer *b = &data->tensors[t];
        if (b->of->role == FTL_INPUT) {
            hash128 now = buffer_hash(b);
            if (now.high == hashes[t].high && now.low == hashes[t].low) continue;
            fail(r, "memory", "the Input '%s', or memory beside it, was written to", b->of->name);
            return false;
        }
        if (buffer_is_intact(b, poison, why)) continue;
        fail(r, "memory", "%s", why);
        return false;
    }
    return true;
}

static bool check_repeated(run *w, case_data *data, const taken *first, const taken *second,
                           verify_result *r) {
    const ftl_plan *plan = data->program->plan;
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        const buffer *b = &data->tensors[t];
        if (b->of->role != FTL_OUTPUT) continue;
        size_t bytes = convert_size(b->format, 1);
        int64_t count = b->rows * b->columns, different = 0;
        uint8_t *bad = arena_array(&w->memory, uint8_t, count + 1);
        for (int64_t i = 0; i < count; i++) {
            size_t at = (size_t)i * bytes;
            bool is_both_unwritten = first[t].unwritten[i] && second[t].unwritten[i];
            bad[i] =
                !is_both_unwritten && memcmp(first[t].bits + at, second[t].bits + at, bytes) != 0;
            different += bad[i];
        }
        if (!different) continue;
        text_buffer where;
        text_init(&where, 4096);
        judge_pattern(plan, b, bad, &w->memory, &where);
        fail(r, "two launches differ", "%s: %" PRId64 " elements differ between two launches: %.*s",
             b->of->name, different, (int)where.length, where.data ? where.data : "");
        text_done(&where);
        return false;
    }
    return true;
}

/* Results beyond the type's largest number say more of the inputs than of the kernel. */
static void describe_overflow(const judged *output, text_buffer *out) {
    const buffer *of = output->expected->of;
    double peak = 0;
    for (int64_t i = 0; i < of->rows * of->columns; i++) {
        double want = fabs(output->expected->values[i]);
        bool is_known = output->expected->state[i] & EXPECTED_KNOWN;
        if (is_known && isfinite(want) && want > peak) peak = want;
    }
    if (isfinite(convert_round(of->format, peak))) return;
    text_format(
        out,
        "; the exact result reaches %.2g, more than its type holds: inputs as drawn here do "
        "not suit this program, `flashtl run` takes others",
        peak);
}

static void describe_failure(run *w, const case_data *data, const judged *output,
                             const judgement *j, verify_result *r) {
    text_buffer where, cause;
    text_init(&where, 4096);
    text_init(&cause, 4096);
    judge_pattern(data->program->plan, output->expected->of, j->bad, &w->memory, &where);
    judge_cause(data, output, j, &w->memory, &cause);
    describe_overflow(output, &cause);
    const char *name = output->expected->of->of->name;
    const char *place = where.data ? where.data : "", *guess = cause.data ? cause.data : "";
    if (j->bound > 0) {
        fail(r, j->rule, "%s: %s %.3g, at most %.3g allowed; wrong at %s%s", name, j->rule,
             j->error, j->bound, place, guess);
    } else {
        fail(r, j->rule, "%s: %" PRId64 " %s, at %s%s", name, (int64_t)j->error, j->rule, place,
             guess);
    }
    text_done(&where);
    text_done(&cause);
}

/* Keeps, of all outputs, the rule that is nearest to its bound. */
static void keep(verify_result *r, const char *name, const judgement *j) {
    double now = j->bound > 0 ? j->error / j->bound : 0;
    double before = r->bound > 0 ? r->error / r->bound : -1;
    if (now > before || !j->is_right) {
        r->tensor = name, r->rule = j->rule, r->error = j->error, r->bound = j->bound;
    }
    bool is_nearer =
        j->rms_bound > 0 && !(j->relative_rms / j->rms_bound <= r->relative_rms / r->rms_bound);
    if (is_nearer) r->relative_rms = j->relative_rms, r->rms_bound = j->rms_bound;
}

/* Right as far as it was compared, which is not far. */
static void note_coverage(run *w, const verify_case *c, int32_t t, const judgement *j,
                          verify_result *r) {
    bool is_empty = false; /* then a loop does nothing, and an Output may be all 0 */
    for (int32_t s = 0; s < w->program->plan->size_count; s++) is_empty |= c->sizes[s] == 0;
    r->compared += j->compared, r->open += j->open;
    if (j->open <= j->compared) {
        bool is_kept = w->program->plan->tensors[t].is_kept; /* all of it, if nothing is compared */
        if (j->compared && !is_empty) w->covered[t] |= COVERED_MOSTLY;
        else if (is_kept && !is_empty) w->covered[t] |= COVERED_OPEN;
        return;
    }
    w->covered[t] |= COVERED_OPEN;
    if (r->what[0]) return;
    number_print(r->what, sizeof r->what,
                 "only %" PRId64 " of %" PRId64
                 " elements of %s were compared: the others, or values on the way to them, may be "
                 "beyond their types",
                 j->compared, j->compared + j->open, w->program->plan->tensors[t].name);
}

static void judge_all(run *w, case_data *data, const expected *wanted, const taken *got,
                      verify_result *r) {
    const ftl_plan *plan = data->program->plan;
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        if (plan->tensors[t].role != FTL_OUTPUT) continue;
        judged output = {.expected = &wanted[t],
                         .got = got[t].values,
                         .unwritten = got[t].unwritten,
                         .tolerance = judge_tolerance(plan, &plan->tensors[t])};
        judgement j;
        judge_output(&output, &w->memory, &j);
        keep(r, plan->tensors[t].name, &j);
        if (j.is_right) {
            note_coverage(w, data->of, t, &j, r);
            continue;
        }
        describe_failure(w, data, &output, &j, r);
        return;
    }
}

/* A drawn case that passes is run without rounding, too. Nothing is known where that does not come
 * to an end.
 */
static void judge_exactly(run *w, case_data *data, const expected *wanted, verify_result *r) {
    const ftl_plan *plan = data->program->plan;
    buffer *wide;
    if (!w->runner->is_interpreter || !data->of->draw.seed || !exact_is_known(data)) return;
    ftl_status status = exact_run(w->context, data, &w->memory, &wide);
    w->ran_out |= status == FTL_NO_MEMORY;
    for (int32_t t = 0; !status && t < plan->tensor_count; t++) {
        if (plan->tensors[t].role != FTL_OUTPUT) continue;
        judged output = {.expected = &wanted[t], .got = buffer_load(&wide[t], &w->memory)};
        judgement j;
        if (exact_is_right(&output, &w->memory, &j)) continue;
        keep(r, plan->tensors[t].name, &j);
        describe_failure(w, data, &output, &j, r);
        return;
    }
}

/* Two launches, with the outputs poisoned differently: what depends on them shows. */
static void run_launches(run *w, case_data *data, const expected *wanted, verify_result *r) {
    int32_t count = data->program->plan->tensor_count;
    hash128 *hashes = arena_array(&w->memory, hash128, count + 1);
    for (int32_t t = 0; t < count; t++) hashes[t] = buffer_hash(&data->tensors[t]);
    if (!launch(w, data, r)) return;
    const taken *first = take_outputs(w, data, BUFFER_POISON);
    if (!check_memory(data, BUFFER_POISON, hashes, r)) return;
    double most = w->runner->repeated_flops_most;
    if (most > 0 && data->of->flops > most) {
        judge_all(w, data, wanted, first, r);
        if (r->verdict == VERIFY_PASSED) judge_exactly(w, data, wanted, r);
        return;
    }
    for (int32_t t = 0; t < count; t++)
        if (data->program->plan->tensors[t].role != FTL_INPUT)
            buffer_poison(&data->tensors[t], BUFFER_POISON_AGAIN);
    if (!launch(w, data, r)) return;
    const taken *second = take_outputs(w, data, BUFFER_POISON_AGAIN);
    if (!check_memory(data, BUFFER_POISON_AGAIN, hashes, r)) return;
    judge_all(w, data, wanted, first, r);
    if (r->verdict == VERIFY_PASSED) check_repeated(w, data, first, second, r);
    if (r->verdict == VERIFY_PASSED) judge_exactly(w, data, wanted, r);
}

static void write_repro(const run *w, const verify_case *c, verify_result *r) {
    const verify_options *o = w->options;
    if (!o->command) return;
    char more[32] = "";
    if (o->more) snprintf(more, sizeof more, " --more %" PRId32, o->more);
    snprintf(r->repro, sizeof r->repro, "%s --shapes %s%s --seed %" PRIu64 " --case %" PRId32,
             o->command, o->shapes ? o->shapes : "small", more, o->seed, c->number);
}

static ftl_status run_case(run *w, const verify_case *c, verify_result *r) {
    *r = (verify_result){.number = c->number, .rule = "", .ran_on = w->runner->title};
    verify_case_name(w->program, c, r->name);
    case_data data = {.program = w->program,
                      .of = c,
                      .seed = random_bits(w->options->seed, 1, (uint64_t)c->number)};
    char why[FTL_WHY_BYTES];
    expected *wanted;
    ftl_status status;
    for (;; data.attempt++) {
        arena_mark mark = arena_here(&w->memory);
        if (!inputs_make(&data, &w->memory, why)) {
            r->verdict = VERIFY_SKIPPED;
            snprintf(r->what, sizeof r->what, "%s", why);
            return FTL_OK;
        }
        status = expected_make(w->context, &data, w->reference_flops, &w->memory, &wanted);
        bool is_tried = status == FTL_REJECTED && tables_are_tried(w->program->plan);
        if (!is_tried || data.attempt == TABLES_ATTEMPTS - 1) break;
        arena_reset(&w->memory, mark);
    }
    if (status == FTL_REJECTED && c->draw.seed) { /* a table without an entry, say */
        r->verdict = VERIFY_SKIPPED;
        snprintf(r->what, sizeof r->what,
                 "the sketch cannot be interpreted with these lengths and numbers");
        return FTL_OK;
    }
    if (status) return status;
    run_launches(w, &data, wanted, r);
    if (w->ran_out) return FTL_NO_MEMORY; /* with the sentence of who did */
    write_repro(w, c, r);
    return FTL_OK;
}

/* A case that does not fit leaves the others their memory. */
static ftl_status run_case_guarded(run *w, const verify_case *c, verify_result *r) {
    jmp_buf exhausted, *outer = w->memory.on_exhausted;
    arena_mark mark = arena_here(&w->memory);
    ftl_status status = FTL_OK;
    if (setjmp(exhausted)) {
        r->verdict = VERIFY_SKIPPED;
        snprintf(r->what, sizeof r->what, "it needs more than %zu MiB", MEMORY_MOST >> 20);
        if (!w->memory.is_over_limit)
            status = ftl_context_fail(w->context, FTL_NO_MEMORY, "out of memory");
    } else {
        w->memory.on_exhausted = &exhausted;
        status = run_case(w, c, r);
    }
    w->memory.on_exhausted = outer;
    arena_reset(&w->memory, mark);
    return status;
}

/* --- all of them ------------------------------------------------------------------------------ */

static void count_result(verify_summary *s, const verify_result *r) {
    if (r->verdict == VERIFY_PASSED) s->passed++;
    if (r->verdict == VERIFY_PASSED && r->compared) s->compared++;
    if (r->verdict == VERIFY_FAILED) s->failed++;
    if (r->verdict == VERIFY_SKIPPED) s->skipped++;
    bool is_worst = r->verdict == VERIFY_PASSED && r->rms_bound > 0 &&
                    r->relative_rms / r->rms_bound > s->worst_rms / s->rms_bound;
    if (is_worst) s->worst_rms = r->relative_rms, s->rms_bound = r->rms_bound;
}

static double cost(const verify_case *c) {
    return c->flops + 1e6; /* a launch costs something, too */
}

static void tell_progress(const run *w, int32_t done, double cost_done, double cost_total,
                          double seconds) {
    if (!w->options->on_progress) return;
    verify_progress progress = {.done = done, .total = w->summary->total, .seconds_left = -1};
    if (cost_done > 0) progress.seconds_left = seconds * (cost_total - cost_done) / cost_done;
    w->options->on_progress(w->options->user, &progress);
}

static ftl_status run_cases(run *w) {
    double total = 0, done = 0;
    int64_t begin = os_time_ns();
    int32_t count = 0;
    for (int32_t i = 0; i < w->case_count; i++) total += cost(&w->cases[i]);
    w->summary->total = w->case_count;
    for (int32_t i = 0; i < w->case_count && !w->must_end; i++) {
        const verify_case *c = &w->cases[i];
        if (w->options->stop && *w->options->stop) {
            return ftl_context_fail(w->context, FTL_STOPPED,
                                    "stopped after %" PRId32 " of %" PRId32 " cases", count,
                                    w->summary->total);
        }
        tell_progress(w, count, done, total, (double)(os_time_ns() - begin) / 1e9);
        verify_result result;
        ftl_status status = run_case_guarded(w, c, &result);
        if (status) return status;
        count_result(w->summary, &result);
        if (w->options->on_result) w->options->on_result(w->options->user, &result);
        count++, done += cost(c);
        w->summary->seconds = (double)(os_time_ns() - begin) / 1e9;
    }
    tell_progress(w, count, done, total, w->summary->seconds);
    return FTL_OK;
}

/* What a case may cost: where the kernel runs, and what judges it. */
static double flops_limit(const run *w) {
    double seconds = w->options->seconds_most > 0 ? w->options->seconds_most : SECONDS_MOST;
    double flops = w->runner->flops_per_s * seconds;
    double interpreted = INTERPRETED_FLOPS_PER_S * seconds;
    bool is_interpreted = expected_choose(w->program) == EXPECTED_INTERPRETATION;
    return is_interpreted && interpreted < flops ? interpreted : flops;
}

static ftl_status prepare(run *w) {
    char why[FTL_WHY_BYTES];
    const verify_options *o = w->options;
    bool is_named = o->shapes && strcmp(o->shapes, "all") != 0 && strcmp(o->shapes, "small") != 0;
    /* what was asked for by name, or by number, is run whatever it costs */
    double limit = is_named || o->cases ? INFINITY : flops_limit(w);
    double seconds = o->seconds_most > 0 ? o->seconds_most : SECONDS_MOST;
    const verify_case *all;
    int32_t count;
    w->covered = arena_array(&w->memory, uint8_t, w->program->plan->tensor_count + 1);
    w->reference_flops = REFERENCE_FLOPS_PER_S * seconds / 2;
    verify_list list = {o->shapes, o->more, o->seed};
    if (!verify_cases(w->program, &list, 0, &w->memory, &all, &count, why)) {
        return ftl_context_fail(w->context, FTL_INVALID_ARGUMENT, "%s", why);
    }
    verify_case *kept = arena_array(&w->memory, verify_case, count + 1);
    w->cases = kept;
    for (int32_t i = 0; i < count; i++) {
        if (!verify_cases_hold(o->cases, all[i].number)) continue;
        if (all[i].flops > limit) w->summary->left_out++;
        else kept[w->case_count++] = all[i];
    }
    if (w->case_count || w->summary->left_out) return FTL_OK;
    return ftl_context_fail(w->context, FTL_INVALID_ARGUMENT, "there is no case %s in shapes '%s'",
                            o->cases ? o->cases : "at all", o->shapes ? o->shapes : "small");
}

static double rms_bound(const ftl_plan *plan) {
    double bound = 0;
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        if (plan->tensors[t].role == FTL_OUTPUT)
            bound = fmax(bound, judge_tolerance(plan, &plan->tensors[t]));
    }
    return bound;
}

static ftl_status run_guarded(run *w) {
    jmp_buf exhausted;
    if (setjmp(exhausted)) {
        if (!w->memory.is_over_limit)
            return ftl_context_fail(w->context, FTL_NO_MEMORY, "out of memory");
        return ftl_context_fail(w->context, FTL_NO_MEMORY, "a case needs more than %zu MiB",
                                MEMORY_MOST >> 20);
    }
    w->memory.on_exhausted = &exhausted;
    ftl_status status = prepare(w);
    if (!status) status = run_cases(w);
    for (int32_t t = 0; !status && t < w->program->plan->tensor_count; t++)
        if (w->covered[t] == COVERED_OPEN) w->summary->open = w->program->plan->tensors[t].name;
    return status;
}

ftl_status verify_run(ftl_context *context, const verify_program *program,
                      const verify_runner *runner, const verify_options *options,
                      verify_summary *summary) {
    *summary = (verify_summary){.rms_bound = rms_bound(program->plan)};
    run w = {.context = context,
             .program = program,
             .runner = runner,
             .options = options,
             .summary = summary};
    arena_init(&w.memory, MEMORY_MOST);
    ftl_status status = run_guarded(&w);
    w.memory.on_exhausted = NULL;
    arena_done(&w.memory);
    if (status || !summary->failed) return status;
    return ftl_context_fail(context, FTL_CHECK_FAILED, "%" PRId32 " of %" PRId32 " cases failed",
                            summary->failed, summary->total);
}
