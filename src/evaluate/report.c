#include "evaluate/report.h"
#include "base/json.h"
#include "base/number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const figures_cell ALL = {-1, -1, -1, -1};

/* --- cells ------------------------------------------------------------------------------------ */

/* In a table a '|' would end the cell. */
static void add_name(text_buffer *out, const char *name) {
    for (const char *c = name; *c; c++) {
        if (*c == '|') text_add_z(out, "\\|");
        else text_format(out, "%c", *c == '\n' ? ' ' : *c);
    }
}

static void add_percent(text_buffer *out, double rate) {
    if (rate < 0) text_add_z(out, " –");
    else text_format(out, " %.1f %%", 100 * rate);
    text_add_z(out, " |");
}

static void add_number(text_buffer *out, const char *format, double value)
    __attribute__((format(printf, 2, 0)));

static void add_number(text_buffer *out, const char *format, double value) {
    char text[64];
    number_print(text, sizeof text, format, value);
    text_format(out, " %s |", text);
}

/* Measured where there is a GPU, else counted. */
static void add_speed(text_buffer *out, const figures *f) {
    if (f->speed > 0) text_format(out, " %.3f |", f->speed);
    else if (f->counted_speed > 0) text_format(out, " (%.3f) |", f->counted_speed);
    else text_add_z(out, " – |");
}

static bool has_prices(const evaluate_request *r) {
    bool is_any = false;
    for (int32_t i = 0; i < r->model_count; i++) {
        is_any |= r->models[i].prompt_price > 0 || r->models[i].answer_price > 0;
    }
    return is_any;
}

static void begin_row(const figures_table *t, int32_t model, int32_t setting, text_buffer *out) {
    text_add_z(out, "| ");
    add_name(out, t->request->models[model].name);
    text_format(out, " | %s |", t->request->settings[setting].name);
}

/* --- tables ----------------------------------------------------------------------------------- */

static void add_figures(const figures_table *t, const figures *f, text_buffer *out) {
    if (f->judged < f->wanted) text_format(out, " %d of %d |", (int)f->judged, (int)f->wanted);
    else text_format(out, " %d |", (int)f->judged);
    if (!f->judged) {
        text_add_z(out, has_prices(t->request) ? " – | – | – | – | – | – | – | – | – | – | – |\n"
                                               : " – | – | – | – | – | – | – | – | – | – |\n");
        return;
    }
    add_percent(out, f->read_rate);
    add_percent(out, f->check_rate);
    add_percent(out, f->first_rate);
    add_percent(out, f->pass_1);
    add_percent(out, f->pass_5);
    add_number(out, "%.2f", f->answers);
    add_number(out, "%.0f", f->tokens);
    if (has_prices(t->request)) add_number(out, "%.4g", f->price);
    add_number(out, "%.1f s", f->model_s);
    add_number(out, "%.1f s", f->judge_s);
    add_speed(out, f);
    text_add_z(out, "\n");
}

void report_table(const figures_table *t, text_buffer *out) {
    const evaluate_request *r = t->request;
    bool costs = has_prices(r);
    text_format(out,
                "| model | setting | trials | parse | check | first | pass@1 | pass@5 | answers | "
                "tokens |%s asking | judging | speed |\n|---|---|--:|--:|--:|--:|--:|--:|--:|--:|%s"
                "--:|--:|--:|\n",
                costs ? " cost |" : "", costs ? "--:|" : "");
    for (int32_t model = 0; model < r->model_count; model++) {
        for (int32_t setting = 0; setting < r->setting_count; setting++) {
            figures f = figures_of(t, (figures_cell){model, setting, -1, -1});
            begin_row(t, model, setting, out);
            add_figures(t, &f, out);
        }
    }
}

static void add_levels(const figures_table *t, text_buffer *out) {
    const evaluate_request *r = t->request;
    int32_t counts[TASK_LEVEL_COUNT] = {0};
    for (int32_t i = 0; i < r->task_count; i++) counts[r->tasks[i]->level]++;
    text_add_z(out, "\n## By level\n\npass@1\n\n| model | setting |");
    for (int level = 0; level < TASK_LEVEL_COUNT; level++) {
        text_format(out, " %s (%d tasks) |", task_level_name((task_level)level),
                    (int)counts[level]);
    }
    text_add_z(out, "\n|---|---|--:|--:|--:|\n");
    for (int32_t i = 0; i < r->model_count * r->setting_count; i++) {
        int32_t model = i / r->setting_count, setting = i % r->setting_count;
        begin_row(t, model, setting, out);
        for (int level = 0; level < TASK_LEVEL_COUNT; level++) {
            add_percent(out, figures_of(t, (figures_cell){model, setting, level, -1}).pass_1);
        }
        text_add_z(out, "\n");
    }
}

static void add_tasks(const figures_table *t, text_buffer *out) {
    const evaluate_request *r = t->request;
    text_add_z(out,
               "\n## By task\n\nTrials that passed, of those that were judged\n\n| task | level |");
    for (int32_t i = 0; i < r->model_count * r->setting_count; i++) {
        text_add_z(out, " ");
        add_name(out, r->models[i / r->setting_count].name);
        text_format(out, ", %s |", r->settings[i % r->setting_count].name);
    }
    text_add_z(out, "\n|---|---|");
    for (int32_t i = 0; i < r->model_count * r->setting_count; i++) text_add_z(out, "--:|");
    text_add_z(out, "\n");
    for (int32_t task = 0; task < r->task_count; task++) {
        text_format(out, "| %s | %s |", r->tasks[task]->name,
                    task_level_name(r->tasks[task]->level));
        for (int32_t i = 0; i < r->model_count * r->setting_count; i++) {
            figures f =
                figures_of(t, (figures_cell){i / r->setting_count, i % r->setting_count, -1, task});
            text_format(out, " %d/%d |", (int)f.passed, (int)f.judged);
        }
        text_add_z(out, "\n");
    }
}

static void add_failures(const figures_table *t, text_buffer *out) {
    enum { SHOWN = 20 };
    const evaluate_request *r = t->request;
    figures_finding findings[FIGURES_FINDINGS_MAX];
    int32_t count = figures_findings(t, findings);
    if (!count) return;
    text_add_z(
        out, "\n## What failed\n\nTrials without an answer that passed, by the rung that the last "
             "answer failed\n\n| model | setting |");
    for (int rung = 0; rung < THINK_RUNG_COUNT; rung++) {
        text_format(out, " %s |", think_rung_name((think_rung)rung));
    }
    text_add_z(out, "\n|---|---|");
    for (int rung = 0; rung < THINK_RUNG_COUNT; rung++) text_add_z(out, "--:|");
    text_add_z(out, "\n");
    for (int32_t i = 0; i < r->model_count * r->setting_count; i++) {
        int32_t by_rung[THINK_RUNG_COUNT];
        figures_cell cell = {i / r->setting_count, i % r->setting_count, -1, -1};
        figures_failures(t, cell, by_rung);
        begin_row(t, cell.model, cell.setting, out);
        for (int rung = 0; rung < THINK_RUNG_COUNT; rung++) {
            text_format(out, " %d |", (int)by_rung[rung]);
        }
        text_add_z(out, "\n");
    }
    text_add_z(out,
               "\nThe first thing that was wrong with the last answer\n\n| rung | finding | trials "
               "|\n|---|---|--:|\n");
    for (int32_t i = 0; i < count && i < SHOWN; i++) {
        text_format(out, "| %s | `%s` | %d |\n", findings[i].rung,
                    *findings[i].id ? findings[i].id : "–", (int)findings[i].count);
    }
}

/* --- the page --------------------------------------------------------------------------------- */

static void add_settings(const figures_table *t, text_buffer *out) {
    const evaluate_request *r = t->request;
    bool stages[SETTING_STAGES_COUNT] = {false};
    uint32_t without = 0;
    for (int32_t i = 0; i < r->setting_count; i++) {
        stages[r->settings[i].stages] = true;
        without |= r->settings[i].without;
    }
    text_add_z(out, "\n## What the words mean\n\n");
    for (int i = 0; i < SETTING_STAGES_COUNT; i++) {
        if (!stages[i]) continue;
        text_format(out, "* setting `%s`: the model writes %s.\n",
                    setting_stages_name((setting_stages)i),
                    setting_stages_meaning((setting_stages)i));
    }
    for (int i = 0; i < SETTING_PART_COUNT; i++) {
        if (!(without >> i & 1)) continue;
        text_format(out, "* `-%s`: %s.\n", setting_part_name((setting_part)i),
                    setting_part_meaning((setting_part)i));
    }
}

static void add_columns(const figures_table *t, text_buffer *out) {
    const evaluate_request *r = t->request;
    figures f = figures_of(t, ALL);
    text_format(out,
                "* A trial is a conversation of at most %d answers a step. It passes when one of "
                "them means "
                "what the task's reference means, on lengths that the model never sees, and its "
                "kernel passes "
                "every rung that can be climbed here.\n"
                "* parse, check: of how many trials the last answer could be read, and follows the "
                "rules of "
                "the language. first: of how many the first answer passed.\n"
                "* pass@k: the chance that one of k trials passes, estimated without bias from the "
                "n trials of "
                "each task, and averaged over tasks.\n"
                "* answers, tokens%s, asking and judging are means over trials; tokens count "
                "questions and answers, asking is the time that the model took, judging that of "
                "the judge.\n",
                (int)r->answers, has_prices(r) ? ", cost" : "");
    if (f.speed > 0) {
        text_format(
            out,
            "* speed: TFLOPS on %s over those of the built-in agent's kernel, timed in turns; "
            "geometric mean of trials that passed.\n",
            r->device ? r->device : "the GPU");
    } else if (f.counted_speed > 0) {
        text_add_z(out,
                   "* (speed): what a launch of the built-in agent's kernel takes on the emulator "
                   "(instructions and wavefronts) over that of the model's, geometric mean of "
                   "trials that passed. There is no GPU here that runs these kernels.\n");
    }
}

void report_page(const figures_table *t, const char *what, text_buffer *out) {
    const evaluate_request *r = t->request;
    figures f = figures_of(t, ALL);
    text_format(out,
                "# How well models write kernels\n\n%d tasks, %d trials each of %d %s in %d %s. ",
                (int)r->task_count, (int)r->samples, (int)r->model_count,
                r->model_count == 1 ? "model" : "models", (int)r->setting_count,
                r->setting_count == 1 ? "setting" : "settings");
    text_format(out, "%d of %d trials were judged; they took %.0f tokens", (int)f.judged,
                (int)f.wanted, f.total_tokens);
    if (has_prices(r)) text_format(out, " and cost %.4g", f.total_price);
    text_format(out, ".\n\n`%s`\n\n", what);
    report_table(t, out);
    add_levels(t, out);
    add_tasks(t, out);
    add_failures(t, out);
    add_settings(t, out);
    add_columns(t, out);
}

/* --- JSON ------------------------------------------------------------------------------------- */

static void set_rate(json_t *row, const char *name, double rate) {
    json_object_set_new(row, name, rate < 0 ? json_null() : json_real(rate));
}

static void add_object(const figures_table *t, figures_cell cell, text_buffer *out) {
    const evaluate_request *r = t->request;
    figures f = figures_of(t, cell);
    json_t *row = json_pack("{s:s,s:s}", "model", r->models[cell.model].name, "setting",
                            r->settings[cell.setting].name);
    if (cell.task >= 0) {
        const evaluate_task *its = r->tasks[cell.task];
        json_object_set_new(row, "task", json_string(its->name));
        json_object_set_new(row, "level", json_string(task_level_name(its->level)));
    }
    json_object_set_new(row, "trials", json_integer(f.wanted));
    json_object_set_new(row, "judged", json_integer(f.judged));
    json_object_set_new(row, "passed", json_integer(f.passed));
    set_rate(row, "parse", f.judged ? f.read_rate : -1);
    set_rate(row, "check", f.judged ? f.check_rate : -1);
    set_rate(row, "first", f.judged ? f.first_rate : -1);
    set_rate(row, "pass_1", f.pass_1);
    set_rate(row, "pass_5", f.pass_5);
    set_rate(row, "answers", f.judged ? f.answers : -1);
    set_rate(row, "tokens", f.judged ? f.tokens : -1);
    set_rate(row, "cost", f.judged ? f.price : -1);
    set_rate(row, "model_s", f.judged ? f.model_s : -1);
    set_rate(row, "judge_s", f.judged ? f.judge_s : -1);
    set_rate(row, "speed", f.speed > 0 ? f.speed : -1);
    set_rate(row, "counted_speed", f.counted_speed > 0 ? f.counted_speed : -1);
    json_write_line(NULL, row, JSON_COMPACT | JSON_REAL_PRECISION(9), out);
    json_decref(row);
}

void report_json(const figures_table *t, text_buffer *out) {
    const evaluate_request *r = t->request;
    for (int32_t i = 0; i < r->model_count * r->setting_count; i++) {
        figures_cell cell = {i / r->setting_count, i % r->setting_count, -1, -1};
        add_object(t, cell, out);
    }
    for (int32_t i = 0; i < r->model_count * r->setting_count; i++) {
        for (int32_t task = 0; task < r->task_count; task++) {
            figures_cell cell = {i / r->setting_count, i % r->setting_count, -1, task};
            add_object(t, cell, out);
        }
    }
}

/* --- the plot --------------------------------------------------------------------------------- */

void report_plot(const figures_table *t, const char *path, text_buffer *out) {
    enum { WIDTH_LEAST = 520, WIDTH_BAR = 28, HEIGHT = 380 };
    const evaluate_request *r = t->request;
    int width = WIDTH_BAR * (int)(r->setting_count * (r->model_count + 2)) + 160;
    text_format(out, "set terminal svg size %d,%d dynamic background 'white'\nset output ",
                width > WIDTH_LEAST ? width : WIDTH_LEAST, HEIGHT);
    text_add_quoted(out, path);
    text_add_z(out,
               "\nset style data histogram\nset style histogram clustered gap 1\n"
               "set style fill solid 0.8 border -1\nset boxwidth 0.9\nset yrange [0:100]\n"
               "set ylabel 'pass@1 (%)'\nset grid ytics\nset key outside top center horizontal\n"
               "set xtics rotate by -30 noenhanced\nplot");
    for (int32_t model = 0; model < r->model_count; model++) {
        text_format(out, "%s '-' using 2:xtic(1) title ", model ? "," : "");
        text_add_quoted(out, r->models[model].name);
        text_add_z(out, " noenhanced");
    }
    text_add_z(out, "\n");
    for (int32_t model = 0; model < r->model_count; model++) {
        for (int32_t setting = 0; setting < r->setting_count; setting++) {
            double rate = figures_of(t, (figures_cell){model, setting, -1, -1}).pass_1;
            text_format(out, "\"%s\" ", r->settings[setting].name);
            if (rate < 0) text_add_z(out, "NaN\n");
            else text_format(out, "%.2f\n", 100 * rate);
        }
        text_add_z(out, "e\n");
    }
}

/* --- tasks ------------------------------------------------------------------------------------ */

void report_tasks(const evaluate_request *r, text_buffer *out) {
    enum { SHOWN = 68 };
    for (int32_t i = 0; i < r->task_count; i++) {
        const evaluate_task *t = r->tasks[i];
        size_t length = strlen(t->words), end = length > SHOWN ? SHOWN : length;
        while (length > SHOWN && end > 0 && t->words[end] != ' ') end--;
        text_format(out, "%-22s %-7s %.*s%s\n", t->name, task_level_name(t->level), (int)end,
                    t->words, end < length ? " ..." : "");
    }
}

void report_tasks_json(const evaluate_request *r, text_buffer *out) {
    for (int32_t i = 0; i < r->task_count; i++) {
        const evaluate_task *t = r->tasks[i];
        json_t *sizes = json_object();
        for (int32_t k = 0; k < t->pin_count; k++) {
            json_object_set_new(sizes, t->pins[k].name, json_string(t->pins[k].value));
        }
        json_t *row = json_pack("{s:s,s:s,s:s*,s:s*,s:o}", "task", t->name, "level",
                                task_level_name(t->level), "request", t->words, "reference",
                                t->sketch, "sizes", sizes);
        json_write_line(NULL, row, JSON_COMPACT, out);
        json_decref(row);
    }
}
