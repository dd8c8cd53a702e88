#include "think/device_text.h"

#include <stdlib.h>
#include <string.h>

static const char *const directives[] = {"include", "define", "undef", "if",     "ifdef", "ifndef",
                                         "else",    "elif",   "endif", "pragma", "error"};
static const char *const headers[] = {"cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h", "mma.h"};
static const char *const cute_headers[] = {"cute/*.hpp",
                                           "cutlass/numeric_types.h",
                                           "cutlass/numeric_conversion.h",
                                           "cutlass/array.h",
                                           "cuda_fp16.h",
                                           "cuda_bf16.h"};
static const char *const pragmas[] = {"unroll", "nounroll"};

/* Names that reach beyond the kernel: launches, files, the host, the compiler's own commands. */
static const char *const words[] = {"__host__",
                                    "main",
                                    "system",
                                    "popen",
                                    "execve",
                                    "fork",
                                    "fopen",
                                    "open",
                                    "dlopen",
                                    "cudaMalloc",
                                    "cudaLaunchKernel",
                                    "cudaMemcpy",
                                    "cuLaunchKernel",
                                    "__has_include",
                                    "__has_embed",
                                    "_Pragma",
                                    "__pragma",
                                    "import",
                                    "module",
                                    "__trap",
                                    "printf",
                                    "malloc",
                                    "new",
                                    "delete"};

typedef struct reader {
    str text;
    ftl_text_form form;
    size_t at;
    diag_list *diags;
    bool is_good;
} reader;

static diag_range here(size_t begin, size_t end) {
    return (diag_range){(uint32_t)begin, (uint32_t)(end > begin ? end : begin + 1)};
}

/* A backslash before a line's end joins two lines, anywhere. Bytes skipped. */
static size_t splice(const reader *r, size_t at) {
    const char *t = r->text.data;
    if (at >= r->text.length || t[at] != '\\') return 0;
    size_t end = at + 1;
    while (end < r->text.length && (t[end] == ' ' || t[end] == '\t' || t[end] == '\r')) end++;
    return end < r->text.length && t[end] == '\n' ? end + 1 - at : 0;
}

/* The character here, after splices; 0 at the end. */
static char peek(reader *r) {
    for (size_t skip; (skip = splice(r, r->at));) r->at += skip;
    return r->at < r->text.length ? r->text.data[r->at] : 0;
}

static char peek_next(const reader *r) {
    reader ahead = *r;
    ahead.at++;
    return peek(&ahead);
}

static void skip_comment(reader *r) {
    bool is_block = peek_next(r) == '*';
    r->at++, peek(r), r->at++;
    for (char c; (c = peek(r)); r->at++) {
        if (!is_block && c == '\n') return;
        if (is_block && c == '*' && peek_next(r) == '/') {
            r->at++, peek(r), r->at++;
            return;
        }
    }
}

/* Strings hold assembly: what may not be in the text may not be there. */
static void skip_string(reader *r) {
    char quote = peek(r);
    size_t begin = r->at++;
    for (char c; (c = peek(r)) && c != quote; r->at++) {
        if (c == '\\') r->at++;
        if (c == '\n') break;
    }
    size_t end = r->at < r->text.length ? ++r->at : r->at;
    static const char *const refused[] = {".incbin", ".include", ".file", ".section",
                                          ".entry",  ".visible", ".func", ".alias"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        size_t length = strlen(refused[i]);
        for (size_t k = begin; k + length <= end; k++) {
            if (memcmp(r->text.data + k, refused[i], length) != 0) continue;
            diag_report(r->diags, DIAG_DEVICE_WORD, here(k, k + length), str_from(refused[i]));
            r->is_good = false;
        }
    }
}

static bool skip_blank(reader *r) {
    for (;;) {
        char c = peek(r);
        if (c == '/' && (peek_next(r) == '*')) skip_comment(r);
        else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') r->at++;
        else return c && c != '\n';
    }
}

/* A word without the splices in it. */
static str read_word(reader *r, char word[64]) {
    size_t length = 0;
    for (char c; str_is_word(c = peek(r)); r->at++) {
        if (length < 63) word[length++] = c;
    }
    word[length] = 0;
    return (str){word, length};
}

static bool is_in(str word, const char *const *list, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (str_is(word, list[i])) return true;
    }
    return false;
}

static str joined(diag_list *diags, const char *const *list, size_t count) {
    str all = STR("");
    for (size_t i = 0; i < count; i++) {
        all = str_format(diags->memory, "%.*s%s%s", STR_ARGS(all), i ? ", " : "", list[i]);
    }
    return all;
}

#define LIST_OF(list) (list), sizeof(list) / sizeof *(list)

/* <cute/atom/mma_atom.hpp>: below CuTe's folder, and never out of it again. */
static bool is_of_cute(str header) {
    if (!str_starts(header, STR("cute/")) || header.length < 10) return false;
    for (size_t i = 0; i < header.length; i++) {
        char c = header.data[i];
        bool is_dot = c == '.' && i + 4 == header.length;
        if (!str_is_word(c) && c != '/' && !is_dot) return false;
    }
    return memcmp(header.data + header.length - 4, ".hpp", 4) == 0;
}

static void read_include(reader *r, size_t begin) {
    char name[96];
    size_t length = 0;
    skip_blank(r);
    char open = peek(r);
    bool is_angled = open == '<';
    if (is_angled) r->at++;
    for (char c; is_angled && (c = peek(r)) && c != '>' && c != '\n' && length < 95; r->at++) {
        name[length++] = c;
    }
    name[length] = 0;
    bool is_cute = r->form == FTL_CUTE;
    str header = {name, length};
    if (is_angled && !is_cute && is_in(header, LIST_OF(headers))) return;
    if (is_angled && is_cute && (is_in(header, LIST_OF(cute_headers)) || is_of_cute(header)))
        return;
    size_t end = r->at;
    while (end < r->text.length && r->text.data[end] != '\n') end++;
    str shown = {r->text.data + begin, end - begin};
    diag_report(r->diags, DIAG_DEVICE_INCLUDE, here(begin, end), str_trim(shown),
                is_cute ? joined(r->diags, LIST_OF(cute_headers))
                        : joined(r->diags, LIST_OF(headers)));
    r->is_good = false;
}

static void skip_line(reader *r) {
    for (char c; (c = peek(r)) && c != '\n';) {
        bool is_comment = c == '/' && (peek_next(r) == '/' || peek_next(r) == '*');
        if (is_comment) skip_comment(r);
        else r->at++;
    }
}

static void read_directive(reader *r) {
    char word[64];
    size_t begin = r->at++;
    if (!skip_blank(r)) return;
    str name = read_word(r, word);
    if (str_is(name, "include")) {
        read_include(r, begin);
        skip_line(r);
        return;
    }
    bool is_known = is_in(name, LIST_OF(directives));
    if (is_known && str_is(name, "pragma")) {
        skip_blank(r);
        name = read_word(r, word);
        is_known = is_in(name, LIST_OF(pragmas));
    }
    if (is_known) return; /* its words are looked at like all others */
    diag_report(r->diags, DIAG_DEVICE_DIRECTIVE, here(begin, r->at), name,
                joined(r->diags, LIST_OF(directives)));
    r->is_good = false;
}

/* `_Pragma("unroll")`, spelled so, is #pragma unroll in a macro; any other operand may be anything.
 */
static bool is_unroll(reader *r, str name) {
    str operand = STR("(\"unroll\")"), rest = {r->text.data + r->at, r->text.length - r->at};
    if (!str_is(name, "_Pragma") || !str_starts(rest, operand)) return false;
    r->at += operand.length;
    return true;
}

/* A name right before a quote is the prefix of a raw string, in which nothing is what it seems. */
static void read_name(reader *r) {
    char word[64];
    size_t begin = r->at;
    str name = read_word(r, word);
    if (is_unroll(r, name)) return;
    if (!is_in(name, LIST_OF(words)) && peek(r) != '"') return;
    diag_report(r->diags, DIAG_DEVICE_WORD, here(begin, r->at), str_copy(r->diags->memory, name));
    r->is_good = false;
}

static bool is_odd(reader *r) {
    char c = peek(r), next = peek_next(r);
    bool is_digraph = (c == '%' && next == ':') || (c == '?' && next == '?');
    return is_digraph || (c == '\\' && (next == 'u' || next == 'U'));
}

static void read_text(reader *r) {
    bool is_line_start = true;
    for (char c; (c = peek(r));) {
        if (c == '\n') {
            is_line_start = true;
            r->at++;
            continue;
        }
        bool is_comment = c == '/' && (peek_next(r) == '/' || peek_next(r) == '*');
        bool is_blank = c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v';
        if (is_comment) skip_comment(r);
        else if (is_blank) r->at++;
        else if (c == '#' && is_line_start) read_directive(r);
        else if (c == '"' || c == '\'') skip_string(r), is_line_start = false;
        else if (is_odd(r)) {
            diag_add(r->diags, DIAG_DEVICE_ODD, here(r->at, r->at + 2), NULL);
            r->is_good = false;
            r->at += 2;
        } else if (str_is_word(c)) read_name(r), is_line_start = false;
        else r->at++, is_line_start = false;
    }
}

/* The entry with this name, in C's linkage: NVRTC's and the plan's name for it. */
static bool has_entry(str text, const char *entry) {
    size_t length = strlen(entry);
    for (size_t i = 0; i + length < text.length; i++) {
        bool is_word = memcmp(text.data + i, entry, length) == 0 &&
                       (i == 0 || !str_is_word(text.data[i - 1])) &&
                       !str_is_word(text.data[i + length]);
        if (is_word) return true;
    }
    return false;
}

/* Clocks and the like tell a kernel whether it is watched. In PTX they have one name each, however
 * the text spelled them.
 */
bool device_ptx_check(str ptx, diag_list *diags) {
    static const char *const refused[] = {"%clock", "%globaltimer", "%envreg", "%pm",
                                          "%smid",  "%nsmid",       "%gridid"};
    bool is_good = true;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        size_t length = strlen(refused[i]);
        bool is_there = false;
        for (size_t k = 0; k + length <= ptx.length && !is_there; k++)
            is_there = ptx.data[k] == '%' && memcmp(ptx.data + k, refused[i], length) == 0;
        if (!is_there) continue;
        diag_report(diags, DIAG_DEVICE_WORD, ((diag_range){0, 0}), str_from(refused[i]));
        is_good = false;
    }
    return is_good;
}

/* Characters that a reader does not see, wherever they stand: a terminal obeys them. */
static void refuse_hidden(reader *r) {
    for (size_t i = 0; i < r->text.length;) {
        str rest = {r->text.data + i, r->text.length - i};
        size_t bytes = str_plain_bytes(rest);
        bool is_space = !bytes && *rest.data && strchr("\t\n\r\f\v", *rest.data);
        if (!bytes && !is_space) {
            diag_add(r->diags, DIAG_DEVICE_ODD, here(i, i + 1), NULL);
            r->is_good = false;
            return;
        }
        i += bytes ? bytes : 1;
    }
}

bool device_text_check(str text, const char *entry, ftl_text_form form, diag_list *diags) {
    reader r = {.text = text, .form = form, .diags = diags, .is_good = true};
    refuse_hidden(&r);
    read_text(&r);
    if (has_entry(text, entry)) return r.is_good;
    diag_report(diags, DIAG_DEVICE_ENTRY, ((diag_range){0, 0}), str_from(entry));
    return false;
}
