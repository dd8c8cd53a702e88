/* The rung of the compiler: what it complains about, by the statement that it belongs to. */
#include "think/device_text.h"
#include "think/judge_internal.h"

#include "base/embedded.h"
#include "flashtl/execute.h"

#include <stdlib.h>
#include <string.h>

/* "kernel.cu(12): error: ..." or "kernel.cu:12:3: error: ...": the line in the compiler's file; 0
 * when there is none, or when it is a header that complains.
 */
static int line_of_message(str message) {
    static const char file[] = "kernel.cu";
    size_t length = sizeof file - 1;
    for (size_t i = 0; i + length + 1 < message.length; i++) {
        char c = message.data[i + length], next = message.data[i + length + 1];
        bool is_place = (c == '(' || c == ':') && next >= '1' && next <= '9';
        if (is_place && memcmp(message.data + i, file, length) == 0)
            return (int)strtol(message.data + i + length + 1, NULL, 10);
    }
    return 0;
}

/* Where the compiler worked is nobody's business, and differs from run to run: "kernel.cu(12):
 * ...", "cute/layout.hpp(7): ...".
 */
static str without_folder(str message) {
    size_t end = 0, begin = 0;
    while (end < message.length && message.data[end] != '(' && message.data[end] != ':') end++;
    for (size_t i = 0; i < end; i++) {
        if (message.data[i] == '/') begin = i + 1;
    }
    return (str){message.data + begin, message.length - begin};
}

static uint32_t offset_of_line(str text, int line, uint32_t *end) {
    str rest = text, at = {text.data, 0};
    for (int i = 1; i <= line && rest.length; i++) at = str_cut(&rest, '\n');
    *end = (uint32_t)(at.data + at.length - text.data);
    return (uint32_t)(at.data - text.data);
}

/* The TL statement that a block of emitted text is headed by: a comment above, whose further lines
 * are indented.
 */
static str statement_above(arena *memory, str text, uint32_t offset) {
    str found = STR(""), more = STR("//     ");
    bool goes_on = false;
    for (str rest = {text.data, offset}; rest.length;) {
        str line = str_trim(str_cut(&rest, '\n'));
        if (goes_on && str_starts(line, more)) {
            line = (str){line.data + more.length, line.length - more.length};
            found = str_format(memory, "%.*s %.*s", STR_ARGS(found), STR_ARGS(line));
            continue;
        }
        goes_on = false;
        if (!str_starts(line, STR("// "))) continue;
        str words = {line.data + 3, line.length - 3};
        static const char *const heads[] = {"Copy ", "Compute ", "Reshape ", "Wait ",    "Release ",
                                            "for ",  "if ",      "role ",    "Allocate "};
        for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
            if (str_starts(words, str_from(heads[i]))) found = words, goes_on = true;
        }
    }
    return found;
}

static int count_lines(const char *text) {
    int count = 0;
    for (; *text; text++) count += *text == '\n';
    return count;
}

/* A text of a model's, rather than what the translator made of its TL. */
static bool is_answer(const climb *c, const verify_program *p) {
    return p->cuda == c->text.data;
}

/* Every error of the compiler's log, mapped back to the statement it belongs to. Plain clang is
 * given a prelude in front of the text.
 */
static void take_compiler_errors(climb *c, const verify_program *p, const char *log) {
    enum { MOST = 8 };
    str cuda = str_from(p->cuda);
    bool is_own = is_answer(c, p); /* findings count lines in it */
    int count = 0;
    for (str rest = str_from(log); rest.length && count < MOST;) {
        str line = str_trim(str_cut(&rest, '\n'));
        bool is_error = false, is_clang = false;
        for (size_t i = 0; i + 6 <= line.length; i++)
            is_error |= memcmp(line.data + i, "error:", 6) == 0;
        for (size_t i = 0; i + 4 <= line.length; i++)
            is_clang |= memcmp(line.data + i, ".cu:", 4) == 0;
        if (!is_error) continue;
        int number = line_of_message(line);
        if (number && is_clang) number -= count_lines(embedded_runtime[0].data);
        uint32_t begin = 0, end = 0;
        if (number > 0) begin = offset_of_line(cuda, number, &end);
        diag_range range = is_own ? (diag_range){begin, end} : (diag_range){0, 0};
        diag_report(&c->diags, DIAG_KERNEL_COMPILE, range,
                    str_copy(&c->memory, without_folder(line)));
        str statement = statement_above(&c->memory, cuda, begin);
        if (statement.length) {
            diag_report(&c->diags, DIAG_KERNEL_STATEMENT, ((diag_range){0, 0}), statement);
        }
        count++;
    }
    if (count) return;
    diag_report(&c->diags, DIAG_KERNEL_COMPILE, ((diag_range){0, 0}),
                str_copy(&c->memory, str_from(ftl_context_error(c->context))));
}

const char *climb_headers(const climb *c, const verify_program *p) {
    return is_answer(c, p) && c->task->form == FTL_CUTE ? c->task->include_folder : NULL;
}

ftl_status climb_compile(climb *c, const verify_program *p, ftl_image *image,
                         ftl_emulator **emulator) {
    ftl_status status = ftl_compile_cuda_with(c->context, c->task->runtime, p->cuda, "kernel.cu",
                                              p->plan->target, climb_headers(c, p), image);
    if (status == FTL_NO_COMPILER) {
        climb_skips(c, THINK_RUNG_COMPILE, "there is no CUDA compiler here");
        climb_skips(c, THINK_RUNG_EMULATE, "there is no CUDA compiler here");
        return status;
    }
    if (status == FTL_COMPILER_FAILED) {
        take_compiler_errors(
            c, p, image->log && *image->log ? image->log : ftl_context_error(c->context));
        return status;
    }
    if (status) return status;
    const char *ptx = image->kind == FTL_PTX ? image->bytes : image->ptx;
    if (ptx && is_answer(c, p) && !device_ptx_check(str_from(ptx), &c->diags))
        return FTL_COMPILER_FAILED;
    status = ftl_emulator_open(c->context, p->plan, ptx ? ptx : "", ptx ? strlen(ptx) : 0,
                               "kernel.cu", emulator);
    if (status == FTL_REJECTED) climb_take_diagnostics(c);
    return status;
}
