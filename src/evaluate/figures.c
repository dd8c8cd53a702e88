#include "evaluate/figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- reading ---------------------------------------------------------------------------------- */

static int32_t find_task(const evaluate_request *r, const char *hash) {
    for (int32_t i = 0; i < r->task_count; i++) {
        if (strcmp(r->tasks[i]->hash, hash) == 0) return i;
    }
    return -1;
}

static int32_t find_model(const evaluate_request *r, const char *name) {
    for (int32_t i = 0; i < r->model_count; i++) {
        if (strcmp(r->models[i].name, name) == 0) return i;
    }
    return -1;
}

static int32_t find_setting(const evaluate_request *r, const char *name) {
    for (int32_t i = 0; i < r->setting_count; i++) {
        if (strcmp(r->settings[i].name, name) == 0) return i;
    }
    return -1;
}

static void take_trial(void *user, const results_trial *trial, const results_row *row) {
    figures_table *t = user;
    const evaluate_request *r = t->request;
    figures_trial f = {find_task(r, trial->task_hash), find_model(r, trial->model),
                       find_setting(r, trial->setting), *row};
    bool is_wanted = f.task >= 0 && f.model >= 0 && f.setting >= 0 && trial->sample < r->samples;
    if (!is_wanted || t->count == t->capacity) return;
    t->trials[t->count++] = f;
}

bool figures_read(const evaluate_request *r, results *database, int64_t experiment,
                  figures_table *out) {
    *out = (figures_table){.request = r};
    out->capacity = r->task_count * r->model_count * r->setting_count * r->samples;
    out->trials = calloc((size_t)out->capacity + 1, sizeof *out->trials);
    out->references = calloc((size_t)r->task_count + 1, sizeof *out->references);
    out->is_out_of_memory = !out->trials || !out->references;
    bool is_read = !out->is_out_of_memory;
    for (int32_t i = 0; is_read && i < r->task_count; i++) {
        bool found;
        is_read = results_find_reference(database, experiment, r->tasks[i]->hash,
                                         &out->references[i], &found);
    }
    return is_read && results_each(database, experiment, take_trial, out);
}

void figures_done(figures_table *t) {
    free(t->trials);
    free(t->references);
    *t = (figures_table){0};
}

/* --- counting --------------------------------------------------------------------------------- */

double figures_pass_at(int32_t n, int32_t c, int32_t k) {
    double none = 1;
    if (n < k) return -1;
    if (n - c < k) return 1;
    for (int32_t i = n - c + 1; i <= n; i++) none *= 1 - (double)k / i;
    return 1 - none;
}

static bool is_in(const figures_table *t, figures_cell cell, const figures_trial *f) {
    return (cell.model < 0 || cell.model == f->model) &&
           (cell.setting < 0 || cell.setting == f->setting) &&
           (cell.task < 0 || cell.task == f->task) &&
           (cell.level < 0 || cell.level == (int32_t)t->request->tasks[f->task]->level);
}

/* Means over tasks, each by its own trials. */
static void add_pass_rates(const figures_table *t, figures_cell cell, figures *out) {
    double sums[2] = {0, 0};
    int32_t counts[2] = {0, 0};
    for (int32_t task = 0; task < t->request->task_count; task++) {
        int32_t n = 0, c = 0;
        if (cell.task >= 0 && cell.task != task) continue;
        for (int32_t i = 0; i < t->count; i++) {
            const figures_trial *f = &t->trials[i];
            if (f->task != task || f->row.state != RESULTS_DONE || !is_in(t, cell, f)) continue;
            n++, c += f->row.passed;
        }
        for (int i = 0; i < 2; i++) {
            double rate = figures_pass_at(n, c, i ? 5 : 1);
            if (rate >= 0) sums[i] += rate, counts[i]++;
        }
    }
    out->pass_1 = counts[0] ? sums[0] / counts[0] : -1;
    out->pass_5 = counts[1] ? sums[1] / counts[1] : -1;
}

/* A geometric mean on its way. */
typedef struct mean {
    double logarithms;
    int32_t count;
} mean;

static void add_ratio(mean *m, double ratio) {
    if (!(ratio > 0) || !isfinite(ratio)) return;
    m->logarithms += log(ratio);
    m->count++;
}

static double mean_of(const mean *m) {
    return m->count ? exp(m->logarithms / m->count) : 0;
}

static void add_speeds(const figures_table *t, figures_cell cell, figures *out) {
    mean measured = {0}, counted = {0};
    for (int32_t i = 0; i < t->count; i++) {
        const figures_trial *f = &t->trials[i];
        double own = t->references[f->task].launch_cost;
        if (!f->row.passed || f->row.state != RESULTS_DONE || !is_in(t, cell, f)) continue;
        add_ratio(&measured, f->row.relative);
        if (f->row.launch_cost > 0) add_ratio(&counted, own / f->row.launch_cost);
    }
    out->speed = mean_of(&measured);
    out->counted_speed = mean_of(&counted);
}

static void add_trial(figures *sum, const results_row *row) {
    sum->judged++;
    sum->passed += row->passed;
    sum->read_rate += row->read;
    sum->check_rate += row->checked;
    sum->first_rate += row->first_passed;
    sum->answers += row->answers;
    sum->total_tokens += (double)(row->question_tokens + row->answer_tokens);
    sum->total_price += row->price;
    sum->model_s += row->model_ms / 1e3;
    sum->judge_s += row->judge_ms / 1e3;
}

figures figures_of(const figures_table *t, figures_cell cell) {
    figures out = {0};
    for (int32_t i = 0; i < t->count; i++) {
        const figures_trial *f = &t->trials[i];
        if (!is_in(t, cell, f)) continue;
        out.wanted++;
        if (f->row.state == RESULTS_DONE) add_trial(&out, &f->row);
    }
    double n = out.judged ? out.judged : 1;
    out.read_rate /= n, out.check_rate /= n, out.first_rate /= n;
    out.answers /= n, out.model_s /= n, out.judge_s /= n;
    out.tokens = out.total_tokens / n, out.price = out.total_price / n;
    add_pass_rates(t, cell, &out);
    add_speeds(t, cell, &out);
    return out;
}

/* --- failures --------------------------------------------------------------------------------- */

static bool has_failed(const figures_trial *f) {
    return f->row.state == RESULTS_DONE && !f->row.passed;
}

void figures_failures(const figures_table *t, figures_cell cell,
                      int32_t by_rung[THINK_RUNG_COUNT]) {
    memset(by_rung, 0, THINK_RUNG_COUNT * sizeof *by_rung);
    for (int32_t i = 0; i < t->count; i++) {
        const figures_trial *f = &t->trials[i];
        if (!has_failed(f) || !is_in(t, cell, f)) continue;
        for (int rung = 0; rung < THINK_RUNG_COUNT; rung++) {
            by_rung[rung] += strcmp(f->row.rung, think_rung_name((think_rung)rung)) == 0;
        }
    }
}

static int by_count(const void *a, const void *b) {
    const figures_finding *x = a, *y = b;
    if (x->count != y->count) return x->count < y->count ? 1 : -1;
    int order = strcmp(x->rung, y->rung);
    return order ? order : strcmp(x->id, y->id);
}

int32_t figures_findings(const figures_table *t, figures_finding out[FIGURES_FINDINGS_MAX]) {
    int32_t count = 0;
    for (int32_t i = 0; i < t->count; i++) {
        const figures_trial *f = &t->trials[i];
        int32_t at = 0;
        if (!has_failed(f)) continue;
        while (at < count && (strcmp(out[at].id, f->row.finding) != 0 ||
                              strcmp(out[at].rung, f->row.rung) != 0)) {
            at++;
        }
        if (at == FIGURES_FINDINGS_MAX) continue;
        if (at == count) out[count++] = (figures_finding){f->row.rung, f->row.finding, 0};
        out[at].count++;
    }
    qsort(out, (size_t)count, sizeof *out, by_count);
    return count;
}
