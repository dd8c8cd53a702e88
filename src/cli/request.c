#include "cli/request.h"
#include "base/number.h"
#include "plan/fields.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD_DIM_MAX = 65536 };

/* Formats a text that lives as long as the request. */
__attribute__((format(printf, 2, 3))) static const char *keep(cli_request *r, const char *format,
                                                              ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    number_print_list(text, sizeof text, format, arguments);
    va_end(arguments);
    size_t bytes = strlen(text) + 1;
    if (r->copy_count == REQUEST_COPIES_MAX) return "";
    char *copy = malloc(bytes);
    if (!copy) cli_no_memory();
    memcpy(copy, text, bytes);
    r->copies[r->copy_count++] = copy;
    return copy;
}

static void collect_settings(cli *c, cli_request *r) {
    const cli_options *o = &c->options;
    if (o->causal) r->settings[r->setting_count++] = "causal";
    if (o->alibi) r->settings[r->setting_count++] = "alibi";
    if (o->lse) r->settings[r->setting_count++] = "lse";
    if (o->window) r->settings[r->setting_count++] = keep(r, "window=%s", o->window);
    if (o->softcap) r->settings[r->setting_count++] = keep(r, "softcap=%s", o->softcap);
    for (int i = 0; i < o->with.count; i++) r->settings[r->setting_count++] = o->with.items[i];
}

ftl_status request_sketch(cli *c, cli_request *r, char **out) {
    collect_settings(c, r);
    ftl_status status = ftl_sketch(c->context, c->options.op, r->settings, r->setting_count, out);
    if (!status) status = ftl_operator_family(c->context, c->options.op, r->family);
    bool is_alias = !status && strcmp(c->options.op, r->family) != 0;
    if (is_alias) r->settings[r->setting_count++] = c->options.op;
    return status;
}

/* --- the parts of a request ------------------------------------------------------------------- */

static int read_text(cli *c, cli_request *r) {
    if (c->options.op && c->options.file_count) {
        return cli_say(EXIT_USAGE, "give a file or '--op', not both");
    }
    if (c->options.op) {
        ftl_status status = request_sketch(c, r, &r->sketch);
        if (status) return cli_finish(c, status);
        r->source = (ftl_source){keep(r, "<%s>", c->options.op), r->sketch, strlen(r->sketch)};
        return EXIT_DONE;
    }
    if (c->options.causal || c->options.alibi || c->options.lse || c->options.window ||
        c->options.softcap || c->options.with.count) {
        return cli_say(EXIT_USAGE, "'--causal' and its like choose the sketch of an operator; "
                                   "they need '--op'");
    }
    const char *path = cli_one_file(c);
    if (!path) return EXIT_USAGE;
    return cli_read_source(c, path, &r->text, &r->source) ? EXIT_DONE : EXIT_ENVIRONMENT;
}

/* A type that products alone take: NULL where another one is wanted. */
static const char *narrow_type(const char *wanted) {
    for (const plan_word *w = plan_types; wanted && w->name; w++)
        if (ftl_type_bits((ftl_type)w->value) <= 8 && strcmp(w->name, wanted) == 0) return wanted;
    return NULL;
}

/* The text with the types of --type in it, and with that of --dtype where it has 8 bits or 4:
 * operands have it then, and all else that is open is f16.
 */
static int read_types(cli *c, cli_request *r) {
    ftl_pin types[CLI_LIST_MAX + 1];
    int count = 0, named = c->options.type.count;
    char *text;
    for (int i = 0; i < named; i++) {
        str value = str_from(c->options.type.items[i]), name = str_cut(&value, '=');
        if (!name.length || !value.length || r->setting_count == REQUEST_SETTINGS_MAX) {
            return cli_say(EXIT_USAGE, "'--type' is NAME=TYPE, as K=e4m3; found '%s'",
                           c->options.type.items[i]);
        }
        types[count++] =
            (ftl_pin){keep(r, "%.*s", STR_ARGS(name)), keep(r, "%.*s", STR_ARGS(value))};
        r->settings[r->setting_count++] = c->options.type.items[i];
    }
    const char *every = narrow_type(c->options.dtype);
    if (every && r->setting_count < REQUEST_SETTINGS_MAX) {
        types[count++] = (ftl_pin){FTL_EVERY_OPERAND, every};
        r->settings[r->setting_count++] = every;
    }
    if (!count) return EXIT_DONE;
    ftl_status status = ftl_set_types(c->context, &r->source, types, count, &text);
    if (status) return cli_finish(c, status);
    ftl_free(r->typed);
    r->typed = text;
    r->source.text = text, r->source.length = strlen(text);
    return EXIT_DONE;
}

static int read_dtype(cli *c, cli_request *r, bool has_text) {
    static const ftl_type types[] = {FTL_F16, FTL_BF16, FTL_F32};
    const char *wanted = c->options.dtype;
    for (size_t i = 0; wanted && i < sizeof types / sizeof *types; i++) {
        if (strcmp(ftl_type_name(types[i]), wanted) != 0) continue;
        r->options.dtype = types[i];
        return EXIT_DONE;
    }
    if (!wanted || (has_text && narrow_type(wanted))) return EXIT_DONE;
    if (narrow_type(wanted))
        return cli_say(EXIT_USAGE, "'--dtype %s' chooses for a sketch, and none is given", wanted);
    return cli_say(EXIT_USAGE, "'--dtype' is f16, bf16, f32, e4m3, e5m2, i8, i4 or u4; found '%s'",
                   wanted);
}

static void add_pin(cli_request *r, const char *name, const char *value) {
    r->pins[r->options.pin_count++] = (ftl_pin){name, value};
}

void request_pin(cli_request *r, const char *name, int64_t value) {
    for (int32_t i = 0; i < r->options.pin_count; i++) {
        if (strcmp(r->pins[i].name, name) == 0) return;
    }
    if (r->options.pin_count == REQUEST_PINS_MAX) return;
    const char *kept = keep(r, "%s", name);
    add_pin(r, kept, keep(r, "%lld", (long long)value));
}

static bool is_head_dim(str text, int64_t *value) {
    return str_to_integer(text, value) && *value >= 1 && *value <= HEAD_DIM_MAX;
}

/* "128" or "192:128". */
static int read_head_dim(cli *c, cli_request *r) {
    if (!c->options.head_dim) return EXIT_DONE;
    str value = str_from(c->options.head_dim), key = str_cut(&value, ':');
    bool has_second = memchr(c->options.head_dim, ':', strlen(c->options.head_dim)) != NULL;
    if (!has_second) value = key;
    int64_t d, dv;
    if (!is_head_dim(key, &d) || !is_head_dim(value, &dv)) {
        return cli_say(
            EXIT_USAGE,
            "'--head-dim' is a length or two, as 128 or 192:128, from 1 to %d; found '%s'",
            HEAD_DIM_MAX, c->options.head_dim);
    }
    add_pin(r, "d", keep(r, "%lld", (long long)d));
    add_pin(r, "dv", keep(r, "%lld", (long long)dv));
    return EXIT_DONE;
}

static int read_lets(cli *c, cli_request *r) {
    for (int i = 0; i < c->options.let.count; i++) {
        str value = str_from(c->options.let.items[i]), name = str_cut(&value, '=');
        double number;
        if (!name.length || !str_to_number(value, &number)) {
            return cli_say(EXIT_USAGE, "'--let' is NAME=VALUE; found '%s'",
                           c->options.let.items[i]);
        }
        add_pin(r, keep(r, "%.*s", STR_ARGS(name)), keep(r, "%.*s", STR_ARGS(value)));
    }
    return EXIT_DONE;
}

/* What a tuner wrote, for the reasoner. */
static int read_measured(cli *c, cli_request *r) {
    const char *path = c->options.measured;
    os_error why;
    if (!path) return EXIT_DONE;
    if (strcmp(path, "none") == 0) {
        r->options.measured = "";
        return EXIT_DONE;
    }
    text_init(&r->measured, 16 << 20);
    if (!os_read_file(path, (16 << 20) - 1, &r->measured, &why)) {
        return cli_say(EXIT_ENVIRONMENT,
                       "%s; '--measured' takes a file that 'flashtl tune --output' wrote, or none",
                       why.text);
    }
    r->options.measured = r->measured.data ? r->measured.data : "";
    return EXIT_DONE;
}

int request_open(cli *c, cli_request *r) {
    return request_open_options(c, r, true);
}

int request_open_options(cli *c, cli_request *r, bool has_text) {
    *r = (cli_request){.options = FTL_OPTIONS_INIT};
    r->options.stop_after = c->options.print_after;
    r->options.pins = r->pins;
    if (c->options.gpu.count) r->options.gpu = c->options.gpu.items[0];
    int exit_status = has_text ? read_text(c, r) : EXIT_DONE;
    if (!exit_status && has_text) exit_status = read_types(c, r);
    if (!exit_status) exit_status = read_dtype(c, r, has_text);
    if (!exit_status) exit_status = read_head_dim(c, r);
    if (!exit_status) exit_status = read_lets(c, r);
    if (!exit_status) exit_status = read_measured(c, r);
    return exit_status;
}

void request_done(cli_request *r) {
    for (int i = 0; i < r->copy_count; i++) free(r->copies[i]);
    if (r->text.limit_bytes) text_done(&r->text);
    if (r->measured.limit_bytes) text_done(&r->measured);
    ftl_free(r->sketch);
    ftl_free(r->typed);
    *r = (cli_request){0};
}

int request_one_gpu(cli *c, const cli_request *r) {
    if (cli_refuse_many_gpus(c)) return EXIT_USAGE;
    if (r->options.gpu) return EXIT_DONE;
    return cli_say(EXIT_USAGE, "for which GPU? '--gpu NAME'; 'flashtl gpus' lists them");
}
