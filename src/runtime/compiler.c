/* CUDA text to a cubin or to PTX: by NVRTC in this process, by nvcc or clang as a child process. */
#include "base/embedded.h"
#include "base/needs.h"
#include "runtime/driver.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPTIONS_MAX = 32, OUTPUT_BYTES_MAX = 64 << 20 };
static const double CHILD_TIMEOUT_S = 300;

/* --- what the compiler said ------------------------------------------------------------------- */

static int32_t number_before(const char *log, const char *words) {
    const char *at = strstr(log, words);
    if (!at) return -1;
    while (at > log && at[-1] == ' ') at--;
    while (at > log && at[-1] >= '0' && at[-1] <= '9') at--;
    return (int32_t)strtol(at, NULL, 10);
}

/* The figures of ptxas -v: "Used 128 registers", "0 bytes spill stores". */
static void read_figures(ftl_image *image) {
    const char *used = strstr(image->log, "Used ");
    image->registers = used ? (int32_t)strtol(used + 5, NULL, 10) : -1;
    image->stack_bytes = number_before(image->log, " bytes stack frame");
    int32_t stores = number_before(image->log, " bytes spill stores");
    int32_t loads = number_before(image->log, " bytes spill loads");
    image->spill_bytes = stores < 0 || loads < 0 ? -1 : stores + loads;
}

static bool holds(str line, const char *word) {
    size_t length = strlen(word);
    for (size_t i = 0; i + length <= line.length; i++)
        if (memcmp(line.data + i, word, length) == 0) return true;
    return false;
}

/* The first line of a log that speaks of an error; else the first line. */
static str first_error(str log) {
    str rest = log;
    while (rest.length) {
        str line = str_cut(&rest, '\n');
        if (holds(line, "error")) return str_trim(line);
    }
    rest = log;
    return str_trim(str_cut(&rest, '\n'));
}

/* Whether a child that failed found fault with the text: it crashed on it, or told an error that is
 * not of the program that drives the compiler's parts. "nvcc fatal   : Unsupported gpu
 * architecture", "sh: cicc: not found" and a part that was killed say nothing of the text.
 */
static bool rejects_text(str log, int code) {
    static const int crashes[] = {4, 6, 7, 8, 11};
    static const char *const drivers[] = {"nvcc", "clang",    "gcc", "g++",
                                          "cc1",  "collect2", "sh:", "/bin/sh:"};
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++)
        if (code == 128 + crashes[i]) return true;
    while (log.length) {
        str line = str_trim(str_cut(&log, '\n'));
        bool is_error = holds(line, "error") || holds(line, "fatal");
        bool has_crashed =
            holds(line, "died due to signal 11") || holds(line, "died due to signal 6");
        for (size_t i = 0; i < sizeof drivers / sizeof *drivers; i++)
            is_error &= has_crashed || !str_starts(line, str_from(drivers[i]));
        if (is_error) return true;
    }
    return false;
}

static bool is_cubin_target(const char *target) {
    return strncmp(target, "sm_", 3) == 0;
}

/* "sm_90a", "compute_80": it becomes a word of a command line. */
static bool is_target(const char *target) {
    const char *digits = strchr(target, '_');
    bool has_kind = is_cubin_target(target) || strncmp(target, "compute_", 8) == 0;
    size_t count = has_kind ? strspn(digits + 1, "0123456789") : 0;
    const char *end = has_kind ? digits + 1 + count : target;
    return count >= 2 && count <= 3 && (!*end || (strchr("af", *end) && !end[1]));
}

enum { NVRTC_WITH_CACHE = 129 }; /* 12.9, as 10 * major + minor */

/* --- NVRTC ------------------------------------------------------------------------------------ */

static char *nvrtc_text(void *program, int (*bytes)(void *, size_t *), int (*get)(void *, char *),
                        size_t *length) {
    size_t count = 0;
    if (bytes(program, &count) != 0 || count == 0) return NULL;
    char *text = malloc(count + 1);
    if (!text) return NULL;
    if (get(program, text) != 0) {
        free(text);
        return NULL;
    }
    text[count] = 0;
    *length = count;
    return text;
}

/* NVRTC's results that are told apart; all others are of NVRTC itself. */
enum { NVRTC_NO_MEMORY = 1, NVRTC_REJECTED = 6, NVRTC_CRASHED = 11 };

static ftl_status nvrtc_failed(ftl_context *context, const nvrtc_library *nvrtc, int result,
                               const char *name, const char *target, str log) {
    str error = first_error(log);
    if (result == NVRTC_NO_MEMORY)
        return ftl_context_fail(context, FTL_NO_MEMORY, "NVRTC is out of memory");
    bool is_rejected = result == NVRTC_REJECTED || result == NVRTC_CRASHED;
    char number[32];
    snprintf(number, sizeof number, "error %d", result);
    if (!error.length) error = str_from(number);
    return ftl_context_fail(context, is_rejected ? FTL_COMPILER_FAILED : FTL_COMPILER_BROKEN,
                            "NVRTC %d.%d %s %s for %s: %.*s", nvrtc->major, nvrtc->minor,
                            is_rejected ? "rejects" : "cannot compile", name, target,
                            STR_ARGS(error));
}

static ftl_status compile_by_nvrtc(ftl_context *context, ftl_runtime *runtime, const char *cuda,
                                   const char *name, const char *target, ftl_image *out) {
    nvrtc_library *nvrtc = &runtime->nvrtc;
    char arch[64];
    snprintf(arch, sizeof arch, "--gpu-architecture=%s", target);
    const char *options[8] = {arch, "--std=c++17", "--generate-line-info"};
    int count = 3;
    /* What its own cache gives back comes without the log, and so without registers and spills. */
    if (10 * nvrtc->major + nvrtc->minor >= NVRTC_WITH_CACHE) options[count++] = "--no-cache";
    if (is_cubin_target(target)) options[count++] = "-Xptxas", options[count++] = "-v";
    void *program = NULL;
    int created = nvrtc->create(&program, cuda, name, 0, NULL, NULL);
    if (created) return nvrtc_failed(context, nvrtc, created, name, target, STR(""));
    int result = nvrtc->compile(program, count, options);
    size_t length = 0;
    out->log = nvrtc_text(program, nvrtc->log_bytes, nvrtc->log, &length);
    if (!out->log) out->log = str_new(STR(""));
    out->ptx = result ? NULL : nvrtc_text(program, nvrtc->ptx_bytes, nvrtc->ptx, &length);
    if (!result && is_cubin_target(target)) {
        out->kind = FTL_CUBIN;
        out->bytes = nvrtc_text(program, nvrtc->cubin_bytes, nvrtc->cubin, &out->length);
    } else if (out->ptx) {
        out->kind = FTL_PTX;
        out->bytes = out->ptx;
        out->length = strlen(out->ptx);
        out->ptx = NULL;
    }
    nvrtc->destroy(&program);
    snprintf(out->compiler, sizeof out->compiler, "NVRTC %d.%d", nvrtc->major, nvrtc->minor);
    if (out->bytes && out->log) return FTL_OK;
    if (!result) return ftl_context_fail(context, FTL_NO_MEMORY, "NVRTC gave no result");
    return nvrtc_failed(context, nvrtc, result, name, target, str_from(out->log ? out->log : ""));
}

/* --- child processes -------------------------------------------------------------------------- */

/* The words of a child's command line, and room for those that are made. */
typedef struct command {
    const char *argv[OPTIONS_MAX + 1];
    int count;
    char architecture[64], definition[64];
} command;

static void add_word(command *c, const char *word) {
    if (c->count < OPTIONS_MAX) c->argv[c->count++] = word;
    c->argv[c->count] = NULL;
}

static void add_nvcc_words(command *c, const char *target) {
    snprintf(c->architecture, sizeof c->architecture, "-arch=%s", target);
    add_word(c, c->architecture);
    add_word(c, is_cubin_target(target) ? "-cubin" : "-ptx");
    add_word(c, "-std=c++17");
    add_word(c, "-lineinfo");
    add_word(c, "-Xptxas");
    add_word(c, "-v");
}

/* Plain clang, without any of CUDA's files. Versions that are widely packaged know GPUs up to 8.6;
 * for later ones they write what 8.6 has, which is all that mma.sync kernels use.
 */
static void add_clang_words(command *c, const char *target) {
    enum { CLANG_KNOWS = 86 };
    const char *const fixed[] = {"-x",
                                 "cuda",
                                 "--cuda-device-only",
                                 "-nocudainc",
                                 "-nocudalib",
                                 "-O3",
                                 "-std=c++17",
                                 "-gline-tables-only",
                                 "-Xclang",
                                 "-target-feature",
                                 "-Xclang",
                                 "+ptx75",
                                 "-w",
                                 "-S",
                                 "-U__CUDA_ARCH__"};
    const char *digits = strchr(target, '_');
    int capability = digits ? (int)strtol(digits + 1, NULL, 10) : 0;
    snprintf(c->architecture, sizeof c->architecture, "--cuda-gpu-arch=sm_%d",
             capability < CLANG_KNOWS ? capability : CLANG_KNOWS);
    snprintf(c->definition, sizeof c->definition, "-D__CUDA_ARCH__=%d0", capability);
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) add_word(c, fixed[i]);
    add_word(c, c->architecture);
    add_word(c, c->definition);
}

typedef struct child_compiler {
    const char *name;
    bool makes_cubins;
    bool needs_prelude; /* clang_prelude.cuh in front of the text */
    void (*add_words)(command *c, const char *target);
} child_compiler;

typedef struct child_input {
    const char *cuda;
    const char *include_folder; /* or NULL */
    const char *target;
} child_input;

static const child_compiler children[] = {
    {"nvcc", true, false, add_nvcc_words},
    {"clang", false, true, add_clang_words},
};

static ftl_status child_failed(ftl_context *context, const child_compiler *child,
                               const char *target, int code, str log) {
    str error = first_error(log);
    char how[48];
    snprintf(how, sizeof how, code > 128 ? "it ended with signal %d" : "it ended with status %d",
             code > 128 ? code - 128 : code);
    if (!error.length) error = str_from(how);
    bool is_rejected = rejects_text(log, code);
    return ftl_context_fail(
        context, is_rejected ? FTL_COMPILER_FAILED : FTL_COMPILER_BROKEN, "%s %s for %s: %.*s",
        child->name, is_rejected ? "rejects the text" : "cannot compile", target, STR_ARGS(error));
}

/* Runs a compiler on 'input' in 'folder'; its result is read from 'output'. */
static ftl_status run_child(ftl_context *context, const child_compiler *child,
                            const child_input *text, const char *folder, const char *input,
                            const char *output, ftl_image *out) {
    command c = {{child->name}, 1, "", ""};
    const char *target = text->target;
    child->add_words(&c, target);
    if (text->include_folder) {
        add_word(&c, "-I");
        add_word(&c, text->include_folder);
    }
    add_word(&c, "-o");
    add_word(&c, output);
    add_word(&c, input);
    text_buffer words, errors, result;
    text_init(&words, OUTPUT_BYTES_MAX);
    text_init(&errors, OUTPUT_BYTES_MAX);
    text_init(&result, OUTPUT_BYTES_MAX);
    os_error why;
    int code = 0;
    ftl_status status = FTL_OK;
    if (!os_run_in(folder, c.argv, CHILD_TIMEOUT_S, &words, &errors, &code, &why)) {
        bool was_stopped = code > 128;
        status =
            ftl_context_fail(context, was_stopped ? FTL_TIMEOUT : FTL_NO_COMPILER, "%s", why.text);
    } else if (code != 0) {
        status = child_failed(context, child, target, code, text_str(&errors));
    } else if (!os_read_file(output, OUTPUT_BYTES_MAX, &result, &why)) {
        status = ftl_context_fail(context, FTL_NO_FILE, "%s", why.text);
    }
    out->log = str_new(text_str(&errors));
    if (!status) {
        out->kind = is_cubin_target(target) ? FTL_CUBIN : FTL_PTX;
        out->bytes = str_new(text_str(&result));
        out->length = result.length;
        snprintf(out->compiler, sizeof out->compiler, "%s", child->name);
    }
    if (!status && (!out->bytes || !out->log)) {
        status = ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
    }
    text_done(&words);
    text_done(&errors);
    text_done(&result);
    return status;
}

static ftl_status compile_by_child(ftl_context *context, const child_compiler *child,
                                   const child_input *from, ftl_image *out) {
    char folder[256], input[512], output[512];
    os_error why;
    if (!os_temporary_folder(folder, &why)) {
        return ftl_context_fail(context, FTL_NO_FILE, "%s", why.text);
    }
    snprintf(input, sizeof input, "%s/kernel.cu", folder);
    snprintf(output, sizeof output, "%s/kernel.out", folder);
    text_buffer text;
    text_init(&text, OUTPUT_BYTES_MAX);
    if (child->needs_prelude) text_add_z(&text, embedded_runtime[0].data);
    text_add_z(&text, from->cuda);
    ftl_status status;
    if (text.failed) {
        status = ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
    } else if (os_write_file(input, text_str(&text), &why)) {
        status = run_child(context, child, from, folder, input, output, out);
    } else {
        status = ftl_context_fail(context, FTL_NO_FILE, "%s", why.text);
    }
    text_done(&text);
    os_remove_folder(folder);
    return status;
}

/* NVRTC, or else the first child that is there and can; what was asked for is not replaced. */
static ftl_status compile_by_any(ftl_context *context, ftl_runtime *runtime,
                                 const child_input *from, const char *name, ftl_image *out) {
    bool is_cubin = is_cubin_target(from->target);
    char broken[FTL_WHY_BYTES] = "";
    ftl_status status = runtime_need_nvrtc(context, runtime);
    if (status == FTL_OK)
        status = compile_by_nvrtc(context, runtime, from->cuda, name, from->target, out);
    if (runtime->nvrtc_name && *runtime->nvrtc_name) return status;
    for (size_t i = 0; i < sizeof children / sizeof *children; i++) {
        if (status != FTL_NO_COMPILER && status != FTL_COMPILER_BROKEN) break;
        if (is_cubin && !children[i].makes_cubins) continue;
        if (status == FTL_COMPILER_BROKEN && !*broken)
            snprintf(broken, sizeof broken, "%s", ftl_context_error(context));
        ftl_image_done(out);
        status = compile_by_child(context, &children[i], from, out);
    }
    if (status == FTL_NO_COMPILER && *broken) {
        status = ftl_context_fail(context, FTL_COMPILER_BROKEN, "%s", broken);
    } else if (status == FTL_NO_COMPILER) {
        ftl_context_fail(context, status, "no CUDA compiler: neither NVRTC (%s) nor nvcc%s",
                         runtime->nvrtc_why.text, is_cubin ? "" : " nor clang");
    }
    return status;
}

ftl_status ftl_compile_cuda_with(ftl_context *context, ftl_runtime *runtime, const char *cuda,
                                 const char *name, const char *target, const char *include_folder,
                                 ftl_image *out) {
    NEEDS(out);
    *out = (ftl_image){.registers = -1, .spill_bytes = -1, .stack_bytes = -1};
    NEEDS(runtime);
    NEEDS(cuda);
    NEEDS(name);
    NEEDS(target);
    if (!is_target(target)) {
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "'%s' is no target: expected sm_80 or compute_80, say", target);
    }
    const child_input from = {cuda, include_folder, target};
    ftl_status status = include_folder ? compile_by_child(context, &children[0], &from, out)
                                       : compile_by_any(context, runtime, &from, name, out);
    if (status && status != FTL_COMPILER_FAILED) ftl_image_done(out);
    if (!status && out->kind == FTL_CUBIN) read_figures(out);
    return status;
}

ftl_status ftl_compile_cuda(ftl_context *context, ftl_runtime *runtime, const char *cuda,
                            const char *name, const char *target, ftl_image *out) {
    ftl_status status = ftl_compile_cuda_with(context, runtime, cuda, name, target, NULL, out);
    if (status && out) ftl_image_done(out);
    return status;
}

void ftl_image_done(ftl_image *image) {
    if (!image) return;
    free(image->bytes);
    free(image->ptx);
    free(image->log);
    *image = (ftl_image){.registers = -1, .spill_bytes = -1, .stack_bytes = -1};
}

/* --- the version, for cache keys -------------------------------------------------------------- */

/* <cache>/nvrtc remembers: name asked for, file, its size and time, version. So that a cached
 * kernel starts without opening a library of a hundred megabytes.
 */
static bool recall_version(const char *memo, const char *asked, char version[32]) {
    text_buffer text;
    os_error ignored;
    text_init(&text, 4096);
    bool is_valid = false;
    if (os_read_own_file(memo, 4096, &text, &ignored)) {
        str rest = text_str(&text);
        str name = str_cut(&rest, '\n'), path = str_cut(&rest, '\n'), stamp = str_cut(&rest, '\n');
        str found = str_cut(&rest, '\n');
        char file[4096], expected[64];
        int64_t bytes, modified_s;
        snprintf(file, sizeof file, "%.*s", STR_ARGS(path));
        is_valid = str_is(name, asked) && os_file_info(file, &bytes, &modified_s);
        if (is_valid) {
            snprintf(expected, sizeof expected, "%" PRId64 " %" PRId64, bytes, modified_s);
            is_valid = str_is(stamp, expected) && found.length > 0 && found.length < 32;
        }
        if (is_valid) snprintf(version, 32, "%.*s", STR_ARGS(found));
    }
    text_done(&text);
    return is_valid;
}

static void remember_version(ftl_runtime *runtime, const char *memo, const char *asked,
                             const char *version) {
    void *function;
    memcpy(&function, &runtime->nvrtc.version, sizeof function);
    char path[512], text[2048];
    int64_t bytes, modified_s;
    os_error ignored;
    if (!os_symbol_path(function, path) || !os_file_info(path, &bytes, &modified_s)) return;
    snprintf(text, sizeof text, "%s\n%s\n%" PRId64 " %" PRId64 "\n%s\n", asked, path, bytes,
             modified_s, version);
    if (os_make_folders(runtime->cache_folder, &ignored) &&
        os_folder_is_ours(runtime->cache_folder, &ignored)) {
        os_replace_file(memo, str_from(text), &ignored);
    }
}

void runtime_compiler_version(ftl_runtime *runtime, char version[32]) {
    char memo[4096];
    const char *asked = runtime->nvrtc_name ? runtime->nvrtc_name : "";
    const char *folder = runtime->cache_folder;
    int length = folder ? snprintf(memo, sizeof memo, "%s/nvrtc", folder) : -1;
    bool has_memo = length > 0 && (size_t)length < sizeof memo;
    if (has_memo && recall_version(memo, asked, version)) return;
    snprintf(version, 32, "none");
    if (runtime_need_nvrtc(NULL, runtime) != FTL_OK) return;
    snprintf(version, 32, "%d.%d", runtime->nvrtc.major, runtime->nvrtc.minor);
    if (has_memo) remember_version(runtime, memo, asked, version);
}
