#include "cli/cli.h"
#include "base/number.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SOURCE_BYTES_MAX = 16 << 20 };

static void write_shown(FILE *to, const char *format, va_list arguments) {
    enum { LONGEST = 8192 };
    char said[LONGEST];
    text_buffer shown;
    text_init(&shown, 6 * LONGEST);
    number_print_list(said, sizeof said, format, arguments);
    size_t length = strlen(said);
    bool ends_line = length && said[length - 1] == '\n';
    text_add_shown(&shown, (str){said, length - ends_line}, "");
    if (ends_line) text_add_z(&shown, "\n");
    if (!shown.failed) fwrite(shown.data ? shown.data : "", 1, shown.length, to);
    else fputs("(out of memory)", to);
    bool is_lost = shown.failed && to == stdout; /* a part of a result */
    text_done(&shown);
    if (is_lost) cli_no_memory();
}

void cli_tell(FILE *to, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    write_shown(to, format, arguments);
    va_end(arguments);
}

int cli_say(int exit_status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("flashtl: ", stderr);
    write_shown(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    return exit_status;
}

int cli_read_item(const char *name, str text, int64_t least, int64_t most, int64_t *out) {
    int64_t value;
    if (str_to_integer(text, &value) && value >= least && value <= most) {
        *out = value;
        return EXIT_DONE;
    }
    char limit[32] = "";
    if (most < INT64_MAX) snprintf(limit, sizeof limit, " to %lld", (long long)most);
    return cli_say(EXIT_USAGE, "'--%s' takes numbers from %lld%s; found '%.*s'", name,
                   (long long)least, limit, STR_ARGS(text));
}

int cli_read_integer(const char *name, const char *text, int64_t least, int64_t most,
                     int64_t *out) {
    return text ? cli_read_item(name, str_from(text), least, most, out) : EXIT_DONE;
}

int cli_read_number(const char *name, const char *text, double least, double *out) {
    double value;
    if (!text) return EXIT_DONE;
    if (str_to_number(str_from(text), &value) && value >= least) {
        *out = value;
        return EXIT_DONE;
    }
    return cli_say(EXIT_USAGE, "'--%s' takes numbers from %g; found '%s'", name, least, text);
}

int cli_read_seed(const cli *c, uint64_t *seed) {
    int64_t value = 1;
    int exit_status = cli_read_integer("seed", c->options.seed, 0, INT64_MAX, &value);
    *seed = (uint64_t)value;
    return exit_status;
}

int cli_read_more(const cli *c, int32_t *more) {
    enum { MOST = 10000 };
    int64_t value = 0;
    int exit_status = cli_read_integer("more", c->options.more, 0, MOST, &value);
    *more = (int32_t)value;
    return exit_status;
}

static int exit_status_of(ftl_status status) {
    switch (status) {
    case FTL_OK: return EXIT_DONE;
    case FTL_REJECTED:
    case FTL_COMPILER_FAILED:
    case FTL_CHECK_FAILED: return EXIT_REJECTED;
    case FTL_INVALID_ARGUMENT:
    case FTL_NOT_FOUND: return EXIT_USAGE;
    case FTL_NO_MEMORY:
    case FTL_NO_FILE:
    case FTL_NO_DRIVER:
    case FTL_NO_DEVICE:
    case FTL_DRIVER_TOO_OLD:
    case FTL_NO_COMPILER:
    case FTL_COMPILER_BROKEN:
    case FTL_DRIVER_FAILED:
    case FTL_KERNEL_FAULT:
    case FTL_TIMEOUT:
    case FTL_STOPPED:
    case FTL_NO_NETWORK:
    case FTL_REFUSED:
    case FTL_QUOTA:
    case FTL_BAD_ANSWER: return EXIT_ENVIRONMENT;
    }
    return EXIT_ENVIRONMENT;
}

int cli_finish(cli *c, ftl_status status) {
    bool has_diagnostics =
        ftl_context_error_count(c->context) > 0 || ftl_context_warning_count(c->context) > 0;
    if (has_diagnostics) {
        ftl_diagnostics_form form = c->options.json ? FTL_DIAGNOSTICS_JSON
                                    : c->colour     ? FTL_DIAGNOSTICS_COLOUR
                                                    : FTL_DIAGNOSTICS_TEXT;
        char *text = ftl_context_diagnostics(c->context, form);
        if (text) fputs(text, stderr);
        ftl_free(text);
    }
    const char *warning = ftl_context_take_warning(c->context);
    if (*warning) cli_say(0, "warning: %s", warning);
    bool is_said = status == FTL_REJECTED && ftl_context_error_count(c->context) > 0;
    if (status && !is_said) cli_say(0, "%s", ftl_context_error(c->context));
    return exit_status_of(status);
}

const char *cli_one_file(cli *c) {
    if (c->options.file_count == 0) return "-";
    if (c->options.file_count == 1) return c->options.files[0];
    cli_say(EXIT_USAGE, "one file is expected, found '%s' and '%s'", c->options.files[0],
            c->options.files[1]);
    return NULL;
}

int cli_refuse_model_options(cli *c) {
    const char *name = cli_model_option(&c->options);
    if (!name && c->options.against) name = "against";
    if (!name) return EXIT_DONE;
    return cli_say(EXIT_USAGE, "'--%s' is for a model's answers; it needs '--by MODEL'", name);
}

int cli_refuse_many_gpus(cli *c) {
    if (c->options.gpu.count <= 1) return EXIT_DONE;
    return cli_say(EXIT_USAGE, "one GPU is expected, found %d", c->options.gpu.count);
}

bool cli_read_source(cli *c, const char *path, text_buffer *text, ftl_source *out) {
    (void)c;
    os_error why;
    text_init(text, SOURCE_BYTES_MAX + 1);
    if (!os_read_file(path, SOURCE_BYTES_MAX, text, &why)) {
        text_done(text);
        cli_say(EXIT_ENVIRONMENT, "%s", why.text);
        return false;
    }
    bool is_input = strcmp(path, "-") == 0;
    *out = (ftl_source){is_input ? "<stdin>" : path, text->data ? text->data : "", text->length};
    return true;
}

int cli_put(cli *c, char *text) {
    os_error why;
    int exit_status = EXIT_DONE;
    if (c->options.output && strcmp(c->options.output, "-") != 0) {
        if (!os_write_file(c->options.output, str_from(text), &why)) {
            exit_status = cli_say(EXIT_ENVIRONMENT, "%s", why.text);
        }
    } else if (fputs(text, stdout) < 0 || fflush(stdout) != 0) {
        exit_status = cli_say(EXIT_ENVIRONMENT, "cannot write to standard output");
    }
    ftl_free(text);
    return exit_status;
}

int cli_put_text(cli *c, json_t *about, char *text) {
    if (!c->options.json) {
        json_decref(about);
        return cli_put(c, text);
    }
    json_writer w = {0};
    json_t *object = about ? about : json_object();
    text_buffer line;
    text_init(&line, 512 << 20);
    json_put(&w, object, "text", json_from(str_from(text)));
    json_write_line(&w, object, JSON_COMPACT | JSON_REAL_PRECISION(9), &line);
    json_decref(object);
    ftl_free(text);
    if (line.failed) {
        text_done(&line);
        return cli_say(EXIT_ENVIRONMENT, "out of memory");
    }
    return cli_put(c, line.data);
}

int cli_print_json(json_t *object) {
    text_buffer line;
    text_init(&line, 64 << 20);
    json_write_line(NULL, object, JSON_COMPACT | JSON_REAL_PRECISION(9), &line);
    json_decref(object);
    return cli_print(&line);
}

int cli_print(text_buffer *text) {
    text_buffer shown;
    text_init(&shown, SIZE_MAX);
    text_add_shown(&shown, text_str(text), "\n\t");
    bool is_whole = !text->failed && !shown.failed;
    if (is_whole && shown.length) fwrite(shown.data, 1, shown.length, stdout);
    text_done(&shown);
    text_done(text);
    if (!is_whole) cli_no_memory();
    fflush(stdout);
    return EXIT_DONE;
}

int cli_write(const char *path, text_buffer *text) {
    os_error why;
    int exit_status = EXIT_DONE;
    if (text->failed) exit_status = cli_say(EXIT_ENVIRONMENT, "out of memory");
    else if (!os_write_file(path, text_str(text), &why))
        exit_status = cli_say(EXIT_ENVIRONMENT, "%s", why.text);
    text_done(text);
    return exit_status;
}

_Noreturn void cli_no_memory(void) {
    exit(cli_say(EXIT_ENVIRONMENT, "out of memory"));
}

const char *cli_cache_folder(cli *c, char buffer[4096]) {
    if (c->options.cache_folder) return c->options.cache_folder;
    const char *folder = getenv("FLASHTL_CACHE");
    if (folder) return *folder ? folder : NULL;
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (base && base[0] == '/') snprintf(buffer, 4096, "%s/flashtl", base);
    else if (home && *home) snprintf(buffer, 4096, "%s/.cache/flashtl", home);
    else return NULL;
    return buffer;
}

int cli_find_data_file(const char *wanted, const char *variable, const char *name,
                       char path[CLI_PATH_BYTES]) {
    const char *given = wanted ? wanted : getenv(variable);
    const char *base = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    char folder[CLI_PATH_BYTES - 64];
    os_error why;
    if (given && *given) {
        snprintf(path, CLI_PATH_BYTES, "%s", given);
        return EXIT_DONE;
    }
    if (base && *base == '/') snprintf(folder, sizeof folder, "%s/flashtl", base);
    else if (home && *home) snprintf(folder, sizeof folder, "%s/.local/share/flashtl", home);
    else return cli_say(EXIT_USAGE, "where is the database? '--database FILE'");
    if (!os_make_folders(folder, &why)) return cli_say(EXIT_ENVIRONMENT, "%s", why.text);
    snprintf(path, CLI_PATH_BYTES, "%s/%s", folder, name);
    return EXIT_DONE;
}

ftl_runtime_options cli_runtime_options(cli *c, char buffer[CLI_PATH_BYTES]) {
    return (ftl_runtime_options){.struct_bytes = sizeof(ftl_runtime_options),
                                 .cuda_library = getenv("FLASHTL_CUDA"),
                                 .nvrtc_library = getenv("FLASHTL_NVRTC"),
                                 .cache_folder = cli_cache_folder(c, buffer)};
}

ftl_status cli_open_runtime(cli *c, ftl_runtime **out) {
    char buffer[CLI_PATH_BYTES];
    ftl_runtime_options options = cli_runtime_options(c, buffer);
    return ftl_runtime_open(c->context, &options, out);
}

/* The one thing that a signal may touch. */
static volatile sig_atomic_t was_interrupted;

static void interrupt(int signal_number) {
    (void)signal_number;
    was_interrupted = 1;
}

void cli_catch_interrupts(void) {
    signal(SIGINT, interrupt);
}

const volatile sig_atomic_t *cli_interrupted(void) {
    return &was_interrupted;
}
