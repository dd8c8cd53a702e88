#include "think/extract.h"

#include <string.h>

static const char *const thinking_tags[] = {"think", "thinking", "thought", "reasoning",
                                            "analysis"};

static size_t find(str in, str what, size_t from) {
    for (size_t i = from; i + what.length <= in.length; i++) {
        if (memcmp(in.data + i, what.data, what.length) == 0) return i;
    }
    return in.length;
}

static str tail(str s, size_t from) {
    return from >= s.length ? (str){s.data + s.length, 0} : (str){s.data + from, s.length - from};
}

/* Cuts off everything up to the last end of thinking. False when thinking begins and never ends. */
static bool skip_thinking(str *answer) {
    for (size_t t = 0; t < sizeof thinking_tags / sizeof *thinking_tags; t++) {
        char open[24], close[24];
        size_t length = strlen(thinking_tags[t]);
        open[0] = '<', close[0] = '<', close[1] = '/';
        memcpy(open + 1, thinking_tags[t], length), memcpy(close + 2, thinking_tags[t], length);
        open[length + 1] = '>', close[length + 2] = '>';
        str begin = {open, length + 2}, end = {close, length + 3};
        size_t at = find(*answer, end, 0), last = answer->length;
        for (; at < answer->length; at = find(*answer, end, at + 1)) last = at;
        if (last < answer->length) *answer = tail(*answer, last + end.length);
        if (str_starts(str_trim(*answer), begin)) return false;
    }
    return true;
}

/* --- what looks like a program ---------------------------------------------------------------- */

static const char *const tl_words[] = {
    "kernel",  "input", "output",  "let",  "grid", "allocate", "copy", "compute",
    "reshape", "wait",  "release", "role", "for",  "if",       "end",  "..."};

static bool starts_with_word(str line, const char *word) {
    size_t length = strlen(word);
    if (line.length < length) return false;
    for (size_t i = 0; i < length; i++) {
        char c = line.data[i];
        if (c >= 'A' && c <= 'Z') c = (char)(c - 'A' + 'a');
        if (c != word[i]) return false;
    }
    return line.length == length || line.data[length] == ' ' || line.data[length] == '\t';
}

/* A line that begins as a statement does. Sentences begin with such words, too, so 'strict' asks
 * for more than the word.
 */
static bool is_statement(str line, bool is_strict) {
    line = str_trim(line);
    for (size_t i = 0; i < sizeof tl_words / sizeof *tl_words; i++) {
        if (!starts_with_word(line, tl_words[i])) continue;
        if (!is_strict) return true;
        bool ends_like_prose = str_ends(line, STR(".")) && !str_ends(line, STR("..."));
        return !ends_like_prose && !str_ends(line, STR(","));
    }
    return false;
}

static bool has_line(str text, const char *word) {
    while (text.length) {
        if (starts_with_word(str_trim(str_cut(&text, '\n')), word)) return true;
    }
    return false;
}

static int statement_count(str text) {
    int count = 0;
    while (text.length) count += is_statement(str_cut(&text, '\n'), true);
    return count;
}

static bool is_whole(str text, extract_kind kind) {
    if (kind == EXTRACT_CUDA) return find(text, STR("__global__"), 0) < text.length;
    return has_line(text, "output") && statement_count(text) >= 3;
}

static bool is_some(str text, extract_kind kind) {
    if (kind == EXTRACT_CUDA) return find(text, STR("__global__"), 0) < text.length;
    return statement_count(text) >= 2;
}

/* --- fenced blocks ---------------------------------------------------------------------------- */

typedef struct fence {
    char mark;
    size_t count; /* of marks; 0: no fence */
    str label;
} fence;

static fence read_fence(str line) {
    line = str_trim(line);
    fence f = {0};
    if (!line.length || (line.data[0] != '`' && line.data[0] != '~')) return f;
    size_t count = 0;
    while (count < line.length && line.data[count] == line.data[0]) count++;
    if (count < 3) return f;
    return (fence){line.data[0], count, str_trim(tail(line, count))};
}

static bool is_label(str label, extract_kind kind) {
    static const char *const tl[] = {"tl", "TL", "flashtl", "tl-code", "tlcode"};
    static const char *const cuda[] = {"cuda", "cu", "cpp", "c++", "CUDA"};
    const char *const *names = kind == EXTRACT_TL ? tl : cuda;
    for (int i = 0; i < 5; i++) {
        if (str_is(label, names[i])) return true;
    }
    return false;
}

typedef struct block {
    str text, label;
    bool is_open; /* the answer ends in it */
} block;

/* Cuts the next fenced block off *rest. */
static bool next_block(str *rest, block *out) {
    while (rest->length) {
        fence open = read_fence(str_cut(rest, '\n'));
        if (!open.count) continue;
        const char *begin = rest->data;
        *out = (block){{begin, rest->length}, open.label, true};
        while (rest->length) {
            const char *end = rest->data;
            fence close = read_fence(str_cut(rest, '\n'));
            bool closes =
                close.mark == open.mark && close.count >= open.count && close.label.length == 0;
            if (!closes) continue;
            out->text.length = (size_t)(end - begin);
            out->is_open = false;
            break;
        }
        return true;
    }
    return false;
}

typedef struct choice {
    str text;
    int count;
    bool is_labelled, is_open;
} choice;

static void consider(choice *best, const block *b, extract_kind kind) {
    bool is_labelled = is_label(b->label, kind);
    if (best->count && best->is_labelled && !is_labelled) return;
    bool is_better = best->count == 0 || (is_labelled && !best->is_labelled);
    if (is_better) best->count = 0;
    best->text = b->text, best->is_open = b->is_open, best->is_labelled = is_labelled;
    best->count++;
}

/* Prose around statements: from the first line that is one to the last. */
static bool find_bare(str answer, str *text) {
    const char *begin = NULL, *end = NULL;
    int count = 0;
    for (str rest = answer; rest.length;) {
        str line = str_cut(&rest, '\n');
        if (!is_statement(line, true)) continue;
        if (!begin) begin = line.data;
        end = line.data + line.length;
        count++;
    }
    if (count < 3) return false;
    *text = (str){begin, (size_t)(end - begin)};
    return true;
}

extract_result extract_program(str answer, extract_kind kind, bool is_cut_off, str *text) {
    *text = (str){answer.data, 0};
    if (!skip_thinking(&answer)) return EXTRACT_CUT_OFF;
    choice whole = {0}, part = {0};
    block b;
    for (str rest = answer; next_block(&rest, &b);) {
        if (is_whole(b.text, kind)) consider(&whole, &b, kind);
        else if (is_some(b.text, kind)) consider(&part, &b, kind);
    }
    const choice *best = whole.count ? &whole : part.count ? &part : NULL;
    if (best) {
        *text = best->text;
        return best->is_open ? EXTRACT_CUT_OFF : EXTRACT_FOUND;
    }
    bool is_bare = kind == EXTRACT_TL      ? find_bare(answer, text)
                   : is_some(answer, kind) ? (*text = answer, true)
                                           : false;
    if (is_cut_off) return EXTRACT_CUT_OFF;
    return is_bare ? EXTRACT_FOUND : EXTRACT_NOTHING;
}
