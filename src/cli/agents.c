#include "cli/agents.h"

#include "base/number.h"
#include "think/isolate.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static volatile sig_atomic_t was_interrupted;

static void interrupt(int signal_number) {
    (void)signal_number;
    if (was_interrupted) _Exit(130); /* asked twice: at once */
    was_interrupted = 1;
}

/* --- options ---------------------------------------------------------------------------------- */

/* "A:B:C", each from 0; fewer leave the rest. */
static int read_parts(const char *text, const char *name, double *const *parts, int count,
                      int least) {
    int read = 0;
    if (!text) return EXIT_DONE;
    str rest = str_from(text);
    bool fits = true;
    for (; rest.length && fits; read++) {
        double value;
        fits = read < count && str_to_number(str_cut(&rest, ':'), &value) && value >= 0;
        if (fits) *parts[read] = value;
    }
    if (fits && read >= least) return EXIT_DONE;
    return cli_say(EXIT_USAGE, "'--%s' is up to %d numbers with colons between; found '%s'", name,
                   count, text);
}

int agents_read_highest(const cli *c, think_rung *highest) {
    const char *on = c->options.on;
    *highest = THINK_RUNG_GPU;
    if (!on || strcmp(on, "gpu") == 0) return EXIT_DONE;
    *highest = strcmp(on, "interpreter") == 0 ? THINK_RUNG_BUILD : THINK_RUNG_EMULATE;
    if (*highest == THINK_RUNG_BUILD || strcmp(on, "emulator") == 0) return EXIT_DONE;
    return cli_say(EXIT_USAGE, "'--on' is interpreter, emulator or gpu; found '%s'", on);
}

static int read_limits(agents *a) {
    static const int64_t TOKENS_MOST = 1000000000000;
    const cli_options *o = &a->c->options;
    think_limits *l = &a->limits;
    int64_t rounds = 0, improve = 0, retries = -1;
    double *const prices[] = {&l->prompt_price, &l->answer_price};
    double *const timeouts[] = {&a->options.total_timeout_s, &a->options.idle_timeout_s,
                                &a->options.connect_timeout_s};
    int exit_status = cli_read_integer("answers", o->answers, 1, 60, &rounds);
    if (!exit_status) exit_status = cli_read_integer("improve", o->improve, 0, 1000, &improve);
    if (!exit_status)
        exit_status =
            cli_read_integer("max-tokens", o->max_tokens, 1, TOKENS_MOST, &l->tokens_most);
    if (!exit_status) exit_status = cli_read_number("max-cost", o->max_cost, 0, &l->cost_most);
    if (!exit_status) exit_status = cli_read_integer("retries", o->retries, 0, 100, &retries);
    if (!exit_status) exit_status = read_parts(o->price, "price", prices, 2, 2);
    if (!exit_status) exit_status = read_parts(o->timeout, "timeout", timeouts, 3, 1);
    if (!exit_status && o->max_cost && !o->price) {
        exit_status =
            cli_say(EXIT_USAGE, "'--max-cost' needs '--price IN:OUT', what a million tokens of "
                                "prompt and of answer cost");
    }
    l->rounds = (int32_t)rounds;
    l->improvements = (int32_t)improve;
    a->options.retries = (int32_t)retries;
    return exit_status;
}

static int read_grammar(agents *a) {
    const char *wanted = a->c->options.send_grammar;
    static const struct {
        const char *name;
        provider_grammar grammar;
    } kinds[] = {
        {"gbnf", PROVIDER_GBNF}, {"structured", PROVIDER_STRUCTURED}, {"lark", PROVIDER_LARK}};
    for (size_t i = 0; wanted && i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].name, wanted) != 0) continue;
        a->options.grammar = kinds[i].grammar;
        return EXIT_DONE;
    }
    if (!wanted) return EXIT_DONE;
    return cli_say(EXIT_USAGE, "'--send-grammar' is gbnf, structured or lark; found '%s'", wanted);
}

/* --- keys ------------------------------------------------------------------------------------- */

static void add_key(agents *a, const char *base_url, const char *key) {
    if (!key || !*key || a->options.key_count == AGENT_KEYS_MAX) return;
    a->keys[a->options.key_count++] = (provider_key){base_url, key};
}

/* Lines "BASE_URL KEY"; both are ended by NULs in the buffer. */
static int read_key_file(agents *a) {
    const char *path = a->c->options.key_file ? a->c->options.key_file : getenv("FLASHTL_KEYS");
    os_error why;
    text_init(&a->key_file, 1 << 20);
    if (!path || !*path) return EXIT_DONE;
    if (!os_read_file(path, 1 << 19, &a->key_file, &why))
        return cli_say(EXIT_ENVIRONMENT, "%s", why.text);
    if (!os_file_is_private(path)) {
        return cli_say(EXIT_ENVIRONMENT, "'%s' holds keys and can be read by others: chmod 600 it",
                       path);
    }
    char *line = a->key_file.data;
    for (int number = 1; line && *line; number++) {
        char *next = strchr(line, '\n');
        if (next) *next++ = 0;
        char *space = strpbrk(line, " \t");
        bool is_blank = !line[strspn(line, " \t\r")] || *line == '#';
        if (!is_blank && !space) {
            return cli_say(EXIT_USAGE, "'%s': line %d is not 'BASE_URL KEY'", path, number);
        }
        if (!is_blank) {
            *space++ = 0;
            space += strspn(space, " \t");
            space[strcspn(space, " \t\r")] = 0;
            add_key(a, line, space);
        }
        line = next;
    }
    return EXIT_DONE;
}

/* A variable's key goes to its maker's base URL, or to what its variable names instead. */
static void read_variables(agents *a) {
    a->options.openai_base_url = getenv("OPENAI_BASE_URL");
    a->options.anthropic_base_url = getenv("ANTHROPIC_BASE_URL");
    a->options.curl_library = getenv("FLASHTL_CURL");
    const char *openai = a->options.openai_base_url, *anthropic = a->options.anthropic_base_url;
    add_key(a, openai && *openai ? openai : "https://api.openai.com/v1", getenv("OPENAI_API_KEY"));
    add_key(a, anthropic && *anthropic ? anthropic : "https://api.anthropic.com",
            getenv("ANTHROPIC_API_KEY"));
}

/* --- what is shown ---------------------------------------------------------------------------- */

static void clear_line(agents *a) {
    if (a->has_progress_line) fputs("\r\033[K", stderr);
    a->has_progress_line = false;
}

static void on_progress(void *user, const char *event, size_t bytes, const char *text) {
    agents *a = user;
    bool is_retry = strcmp(event, "retry") == 0;
    if (is_retry) {
        clear_line(a);
        cli_tell(stderr, "  %s\n", text);
        return;
    }
    if (!a->shows_progress) return;
    double seconds = (double)(os_time_ns() - a->begun_ns) / 1e9;
    number_write(stderr, "\r\033[K  %.0f s", seconds);
    if (bytes) fprintf(stderr, ", %zu bytes of the answer", bytes);
    a->has_progress_line = true;
}

/* What a kernel's judgement is at. */
static void on_doing(void *user, const char *what, double seconds_left) {
    agents *a = user;
    int64_t now_ns = os_time_ns();
    if (!a->shows_progress || now_ns - a->shown_ns < 200000000) return;
    a->shown_ns = now_ns;
    number_write(stderr, "\r\033[K  %.0f s, ", (double)(now_ns - a->begun_ns) / 1e9);
    cli_tell(stderr, "%s", what);
    if (seconds_left >= 1) number_write(stderr, ", about %.0f s left", seconds_left);
    a->has_progress_line = true;
}

void agents_watch(agents *a, judge_task *task) {
    task->stop = &was_interrupted;
    task->on_doing = on_doing;
    task->user = a;
}

static void show_skipped(const judge_verdict *v) {
    const char *rung;
    json_t *why;
    json_object_foreach(json_object_get(v->facts, "skipped"), rung, why) {
        cli_tell(stderr, "  not judged by '%s': %s\n", rung, json_string_value(why));
    }
}

static void show_verdict(const agents *a, const think_news *n) {
    const judge_verdict *v = n->verdict;
    if (v->passed) {
        fprintf(stderr, "  passed up to '%s'", think_rung_name(v->rung));
        if (v->tflops > 0) number_write(stderr, ", %.1f TFLOPS", v->tflops);
        number_write(stderr, "  (%.1f s)\n", v->ms / 1000);
        if (a->tells_skipped) show_skipped(v);
        return;
    }
    fprintf(stderr, "  failed '%s':\n", think_rung_name(v->rung));
    for (size_t i = 0; i < json_array_size(v->findings) && i < 5; i++) {
        const json_t *f = json_array_get(v->findings, i);
        int line = (int)json_number(f, "line");
        if (line) fprintf(stderr, "    line %d: ", line);
        else fputs("    ", stderr);
        cli_tell(stderr, "%s\n", json_text(f, "message"));
        const json_t *notes = json_object_get(f, "notes");
        for (size_t k = 0; k < json_array_size(notes) && k < 2; k++) {
            cli_tell(stderr, "      %s\n", json_text(json_array_get(notes, k), "message"));
        }
    }
}

static void on_news(void *user, const think_news *n) {
    agents *a = user;
    clear_line(a);
    a->begun_ns = os_time_ns();
    switch (n->kind) {
    case THINK_NEWS_ASK:
        cli_tell(stderr, "%s, %s %d: asking %s, about %lld tokens\n", think_step_name(n->step),
                 n->round > 100 ? "proposal" : "round",
                 (int)(n->round > 100 ? n->round - 100 : n->round), n->model, (long long)n->tokens);
        break;
    case THINK_NEWS_ANSWER:
        number_write(stderr, "  answered in %.1f s, %lld tokens\n", n->ms / 1000,
                     (long long)n->tokens);
        break;
    case THINK_NEWS_VERDICT: show_verdict(a, n); break;
    case THINK_NEWS_KEPT: cli_tell(stderr, "  kept: %s\n", n->text); break;
    }
}

/* --- opening ---------------------------------------------------------------------------------- */

int agents_open(cli *c, agents *a) {
    *a = (agents){.c = c, .shows_progress = os_is_terminal(2)};
    a->options = (provider_options){.keys = a->keys,
                                    .stop = &was_interrupted,
                                    .on_progress = on_progress,
                                    .user = a,
                                    .no_streaming = c->options.no_stream};
    a->begun_ns = os_time_ns();
    read_variables(a);
    int exit_status = read_key_file(a);
    if (!exit_status) exit_status = read_limits(a);
    if (!exit_status) exit_status = read_grammar(a);
    const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; !exit_status && i < sizeof ends / sizeof *ends; i++)
        signal(ends[i], interrupt);
    return exit_status;
}

void agents_done(agents *a) {
    clear_line(a);
    record_close(a->record);
    text_done(&a->key_file);
}

int agents_provider(agents *a, const char *spec, think_step step, provider **out) {
    provider_options options = a->options;
    options.step = think_step_name(step);
    return cli_finish(a->c, provider_open(a->c->context, spec, &options, out));
}

void agents_prepare(agents *a, think_run *run) {
    run->limits = a->limits;
    run->stop = &was_interrupted;
    run->on_news = on_news;
    run->user = a;
    run->record = a->record;
}

int agents_show_prompt(agents *a, const prompt_task *task) {
    text_buffer system, question, gbnf;
    text_init(&system, PROMPT_BYTES_MAX);
    text_init(&question, PROMPT_BYTES_MAX);
    text_init(&gbnf, PROMPT_BYTES_MAX);
    ftl_status status = prompt_system(a->c->context, task, &system);
    if (!status) status = prompt_question(a->c->context, task, &question);
    if (!status && a->options.grammar != PROVIDER_NO_GRAMMAR) {
        ftl_grammar_form form = a->options.grammar == PROVIDER_LARK ? FTL_LARK : FTL_GBNF;
        status = prompt_grammar(a->c->context, task, form, &gbnf);
    }
    int exit_status = cli_finish(a->c, status);
    if (!status) {
        int64_t stable = provider_estimate_tokens(text_str(&system));
        int64_t changing = provider_estimate_tokens(text_str(&question));
        printf("%s\n\n%s", system.data, question.data);
        if (gbnf.length) printf("\n--- the grammar of the answer ---\n\n%s", gbnf.data);
        fprintf(stderr,
                "%s prompt: about %lld tokens (%lld of them stay the same for every request)\n",
                think_step_name(task->step), (long long)stable + changing, (long long)stable);
    }
    text_done(&system);
    text_done(&question);
    text_done(&gbnf);
    return exit_status;
}

/* --- the machine ------------------------------------------------------------------------------ */

typedef struct device_question {
    ftl_context *context;
    ftl_runtime *runtime;
} device_question;

static json_t *find_device(void *user, os_watch *watch) {
    const device_question *q = user;
    ftl_device device = {0};
    int32_t count = 0;
    watch->beats++;
    bool is_there = ftl_device_count(q->context, q->runtime, &count) == FTL_OK && count > 0 &&
                    ftl_device_describe(q->context, q->runtime, 0, &device) == FTL_OK;
    return json_pack("{s:s,s:i}", "gpu", is_there ? device.name : "", "capability",
                     is_there ? (int)(10 * device.major + device.minor) : 0);
}

json_t *agents_find_device(const cli *c, ftl_runtime *runtime) {
    isolate_limits limits = {.silence_s = 30};
    device_question q = {c->context, runtime};
    json_t *device = NULL;
    os_error why;
    if (runtime) isolate_run(find_device, &q, &limits, &device, &why);
    return device ? device : json_pack("{s:s,s:i}", "gpu", "", "capability", 0);
}
