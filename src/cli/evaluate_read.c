/* What is to be evaluated: tasks, models, settings and numbers of the command line. */
#include "cli/agents.h"

#ifdef FLASHTL_HAS_SQLITE

#include "cli/evaluate.h"

#include "base/embedded.h"

#include <stdio.h>
#include <string.h>

/* --- tasks ------------------------------------------------------------------------------------ */

static int read_tasks(evaluating *e) {
    cli *c = e->c;
    const embedded_file *shipped = &embedded_tasks[0];
    str text = {shipped->data, shipped->length};
    const char *path = "<tasks>";
    task_error where;
    os_error why;
    text_init(&e->file, TASKS_BYTES_MAX);
    if (c->options.file_count > 1) return cli_say(EXIT_USAGE, "one file of tasks is expected");
    if (c->options.file_count) {
        path = c->options.files[0];
        if (!os_read_file(path, TASKS_BYTES_MAX - 1, &e->file, &why)) {
            return cli_say(EXIT_ENVIRONMENT, "%s", why.text);
        }
        text = text_str(&e->file);
    }
    if (tasks_read(text, &e->all, &where)) return EXIT_DONE;
    if (where.is_out_of_memory) return cli_say(EXIT_ENVIRONMENT, "out of memory");
    return cli_say(EXIT_REJECTED, "%s:%d: %s", path, where.line, where.text);
}

static bool is_listed(const cli_list *list, const char *name) {
    for (int i = 0; i < list->count; i++) {
        if (strcmp(list->items[i], name) == 0) return true;
    }
    return !list->count;
}

static int check_names(const evaluating *e) {
    const cli_options *o = &e->c->options;
    task_level level;
    for (int i = 0; i < o->level.count; i++) {
        if (task_level_read(str_from(o->level.items[i]), &level)) continue;
        return cli_say(EXIT_USAGE, "'--level' is easy, medium or hard; found '%s'",
                       o->level.items[i]);
    }
    for (int i = 0; i < o->only.count; i++) {
        bool is_there = false;
        for (int32_t k = 0; k < e->all.count; k++) {
            is_there |= strcmp(e->all.items[k].name, o->only.items[i]) == 0;
        }
        if (is_there) continue;
        return cli_say(EXIT_USAGE, "there is no task '%s'; '--list' shows them", o->only.items[i]);
    }
    return EXIT_DONE;
}

static int choose_tasks(evaluating *e) {
    const cli_options *o = &e->c->options;
    int exit_status = check_names(e);
    if (exit_status) return exit_status;
    for (int32_t i = 0; i < e->all.count; i++) {
        const evaluate_task *t = &e->all.items[i];
        bool is_chosen =
            is_listed(&o->only, t->name) && is_listed(&o->level, task_level_name(t->level));
        if (is_chosen) e->tasks[e->what.task_count++] = t;
    }
    e->what.tasks = e->tasks;
    if (e->what.task_count) return EXIT_DONE;
    return cli_say(EXIT_USAGE, "no task is of these names and levels");
}

/* --- models and settings ---------------------------------------------------------------------- */

/* "NAME=MODEL": a name has no colon, and every model has one early. */
static const char *cut_name(const char *text, char name[PROVIDER_NAME_BYTES]) {
    size_t length = strcspn(text, "=:");
    bool has_name = text[length] == '=' && length && length < PROVIDER_NAME_BYTES;
    snprintf(name, PROVIDER_NAME_BYTES, "%.*s", has_name ? (int)length : 0, text);
    return has_name ? text + length + 1 : text;
}

/* Opened once, so that what is wrong with a model is said before anything is spent. */
static int name_model(evaluating *e, int i) {
    provider *p = NULL;
    evaluate_model *m = &e->models[i];
    m->spec = cut_name(e->c->options.models.items[i], e->names[i]);
    int exit_status =
        cli_finish(e->c, provider_open(e->c->context, m->spec, &e->agents.options, &p));
    if (exit_status) return exit_status;
    if (!e->names[i][0]) snprintf(e->names[i], PROVIDER_NAME_BYTES, "%s", provider_model(p));
    provider_close(p);
    m->name = e->names[i];
    for (int k = 0; k < i; k++) {
        if (strcmp(e->names[k], m->name) != 0) continue;
        return cli_say(EXIT_USAGE, "two models are called '%s': '--by NAME=MODEL' gives others",
                       m->name);
    }
    return EXIT_DONE;
}

static int read_price(const char *text, evaluate_model *m) {
    str out = str_from(text), in = str_cut(&out, ':');
    bool is_read = str_to_number(in, &m->prompt_price) && str_to_number(out, &m->answer_price) &&
                   m->prompt_price >= 0 && m->answer_price >= 0;
    if (is_read) return EXIT_DONE;
    return cli_say(EXIT_USAGE, "'--price' is two numbers with a colon between; found '%s'", text);
}

static int read_models(evaluating *e) {
    const cli_options *o = &e->c->options;
    int count = o->models.count, prices = o->prices.count;
    bool fits = prices == 0 || prices == 1 || prices == count;
    if (!fits) {
        return cli_say(EXIT_USAGE,
                       "'--price' stands once, or once for each of the %d models; found "
                       "%d times",
                       count, prices);
    }
    for (int i = 0; i < count; i++) {
        int exit_status = name_model(e, i);
        if (!exit_status && prices) {
            exit_status = read_price(o->prices.items[prices > 1 ? i : 0], &e->models[i]);
        }
        if (exit_status) return exit_status;
    }
    e->what.models = e->models;
    e->what.model_count = count;
    return EXIT_DONE;
}

static int read_setting(evaluating *e, const char *text) {
    evaluate_setting *s = &e->settings[e->what.setting_count];
    bool has_grammar = e->agents.options.grammar != PROVIDER_NO_GRAMMAR;
    if (!setting_read(str_from(text), s)) {
        return cli_say(EXIT_USAGE,
                       "a setting is sketch, two or one, then perhaps -grammar, -checker, "
                       "-interpreter; found '%s'",
                       text);
    }
    if (s->without >> SETTING_GRAMMAR & 1 && !has_grammar) {
        return cli_say(EXIT_USAGE, "'%s' leaves out a grammar, and none is sent: '--send-grammar'",
                       s->name);
    }
    for (int32_t i = 0; i < e->what.setting_count; i++) {
        if (strcmp(e->settings[i].name, s->name) == 0) return EXIT_DONE;
    }
    e->what.setting_count++;
    return EXIT_DONE;
}

static int read_settings(evaluating *e) {
    const cli_list *wanted = &e->c->options.settings;
    bool has_grammar = e->agents.options.grammar != PROVIDER_NO_GRAMMAR;
    int exit_status = EXIT_DONE;
    e->what.settings = e->settings;
    bool is_all = wanted->count == 1 && strcmp(wanted->items[0], "all") == 0;
    if (is_all) e->what.setting_count = settings_all(has_grammar, e->settings);
    if (!wanted->count) e->what.setting_count = settings_usual(has_grammar, e->settings);
    for (int i = 0; !is_all && !exit_status && i < wanted->count; i++) {
        exit_status = read_setting(e, wanted->items[i]);
    }
    return exit_status;
}

/* --- numbers ---------------------------------------------------------------------------------- */

static int read_numbers(evaluating *e) {
    const cli_options *o = &e->c->options;
    evaluate_request *w = &e->what;
    int64_t samples = 5, jobs = os_processor_count();
    if (jobs > 64) jobs = 64;
    int exit_status = cli_read_integer("samples", o->samples, 1, EVALUATE_SAMPLES_MAX, &samples);
    if (!exit_status) exit_status = cli_read_integer("jobs", o->trials_at_once, 1, 64, &jobs);
    if (!exit_status) exit_status = cli_read_seed(e->c, &w->seed);
    if (!exit_status) exit_status = agents_read_highest(e->c, &w->highest);
    w->samples = (int32_t)samples, w->jobs = (int32_t)jobs;
    w->answers = e->agents.limits.rounds ? e->agents.limits.rounds : 5;
    w->tokens_most = e->agents.limits.tokens_most;
    w->cost_most = e->agents.limits.cost_most;
    w->shapes = o->shapes;
    return exit_status;
}

/* --- all of it ----------------------------------------------------------------------------------
 */

int evaluating_read(evaluating *e) {
    cli *c = e->c;
    int exit_status = read_tasks(e);
    if (!exit_status) exit_status = choose_tasks(e);
    if (exit_status || c->options.list) return exit_status;
    c->options.file_count = 0;
    if (c->options.prices.count) c->options.price = c->options.prices.items[0];
    exit_status = agents_open(c, &e->agents);
    if (!exit_status) exit_status = request_open_options(c, &e->request, false);
    if (!exit_status) exit_status = request_one_gpu(c, &e->request);
    e->what.options = e->request.options;
    e->what.provider = e->agents.options;
    e->what.provider.on_progress = NULL; /* trials are many */
    e->what.stop = e->agents.options.stop;
    if (!exit_status) exit_status = read_models(e);
    if (!exit_status) exit_status = read_settings(e);
    if (!exit_status) exit_status = read_numbers(e);
    return exit_status;
}

#endif
