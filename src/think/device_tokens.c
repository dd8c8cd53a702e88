#include "think/device_tokens.h"

#include "base/hash.h"

/* Bytes that say nothing: blanks, comments, joined lines, and directives. */
static size_t blank(str t, size_t at, bool is_line_start) {
    char c = t.data[at], next = at + 1 < t.length ? t.data[at + 1] : 0;
    size_t end = at;
    if (c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f' || c == '\v') return 1;
    if (c == '\\' && (next == '\n' || next == '\r')) return 2;
    if (c == '/' && next == '*') {
        for (end += 2; end < t.length && !(t.data[end - 1] == '*' && t.data[end] == '/');) end++;
        return end + 1 - at;
    }
    if (!(c == '/' && next == '/') && !(c == '#' && is_line_start)) return 0;
    while (end < t.length && (t.data[end] != '\n' || t.data[end - 1] == '\\')) end++;
    return end - at;
}

static size_t sign_bytes(str t, size_t at) {
    static const char *const pairs[] = {"++", "--", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||",
                                        "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "->", "::"};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        if (at + 1 < t.length && memcmp(t.data + at, pairs[i], 2) == 0) return 2;
    }
    return 1;
}

/* One token, or a directive's words. */
static size_t token_bytes(str t, size_t at, token_kind *kind) {
    size_t end = at;
    char c = t.data[at];
    *kind = (c >= '0' && c <= '9') ? TOKEN_NUMBER : str_is_word(c) ? TOKEN_NAME : TOKEN_SIGN;
    if (c == '"' || c == '\'') {
        for (end++; end < t.length && t.data[end] != c && t.data[end] != '\n'; end++)
            end += t.data[end] == '\\';
        end++;
    } else if (*kind == TOKEN_SIGN) end += sign_bytes(t, at);
    else
        while (end < t.length &&
               (str_is_word(t.data[end]) || (*kind == TOKEN_NUMBER && t.data[end] == '.')))
            end++;
    return (end > t.length ? t.length : end) - at;
}

typedef struct names {
    str *slots; /* by hash; empty: free */
    int *numbers;
    size_t slot_count; /* a power of two, more than there can be names */
    int count;
} names;

static int number_of(names *n, str text) {
    size_t last = n->slot_count - 1, at = (size_t)hash_bytes(text).low & last;
    while (n->slots[at].length && !str_equal(n->slots[at], text)) at = (at + 1) & last;
    if (!n->slots[at].length) n->slots[at] = text, n->numbers[at] = n->count++;
    return n->numbers[at];
}

static names names_for(arena *memory, str text) {
    size_t count = 64;
    while (count <= text.length / 2 + 1) count *= 2; /* a name and what ends it are two bytes */
    return (names){arena_array(memory, str, count), arena_array(memory, int, count), count, 0};
}

/* The names in a #define, by number. */
static void note_macro(names *n, str directive, int *of_macro, int *count) {
    token_kind kind;
    for (size_t at = 0, bytes; at < directive.length; at += bytes) {
        bytes = blank(directive, at, false);
        if (bytes) continue;
        bytes = token_bytes(directive, at, &kind);
        if (kind == TOKEN_NAME)
            of_macro[(*count)++] = number_of(n, (str){directive.data + at, bytes});
    }
}

static const struct {
    const char *text;
    int meaning;
} words[] = {{"break", WORD_JUMP},
             {"continue", WORD_JUMP},
             {"return", WORD_JUMP | WORD_NO_TYPE},
             {"goto", WORD_JUMP | WORD_NO_TYPE},
             {"else", WORD_NO_TYPE},
             {"case", WORD_NO_TYPE},
             {"throw", WORD_NO_TYPE},
             {"operator", WORD_NO_TYPE},
             {"new", WORD_NO_TYPE},
             {"struct", WORD_TYPE},
             {"class", WORD_TYPE},
             {"union", WORD_TYPE},
             {"namespace", WORD_TYPE},
             {"enum", WORD_TYPE},
             {"const", WORD_CONSTANT},
             {"constexpr", WORD_CONSTANT},
             {"static", WORD_KEPT},
             {"extern", WORD_KEPT},
             {"typedef", WORD_KEPT},
             {"using", WORD_KEPT},
             {"thread_local", WORD_KEPT},
             {"__shared__", WORD_KEPT},
             {"__constant__", WORD_KEPT},
             {"__device__", WORD_KEPT},
             {"float", WORD_PLAIN},
             {"double", WORD_PLAIN},
             {"half", WORD_PLAIN},
             {"__half", WORD_PLAIN},
             {"__nv_bfloat16", WORD_PLAIN},
             {"bool", WORD_PLAIN},
             {"char", WORD_PLAIN},
             {"short", WORD_PLAIN},
             {"int", WORD_PLAIN},
             {"long", WORD_PLAIN},
             {"unsigned", WORD_PLAIN},
             {"int32_t", WORD_PLAIN},
             {"uint32_t", WORD_PLAIN},
             {"int64_t", WORD_PLAIN},
             {"uint64_t", WORD_PLAIN},
             {"threadIdx", WORD_INDEX},
             {"blockIdx", WORD_INDEX},
             {"blockDim", WORD_INDEX},
             {"gridDim", WORD_INDEX}};

static uint8_t meaning_of(str name) {
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (str_is(name, words[i].text)) return (uint8_t)words[i].meaning;
    }
    return 0;
}

void device_tokens_read(arena *memory, str t, token_list *tokens) {
    names n = names_for(memory, t);
    int *of_macro = arena_array(memory, int, t.length / 2 + 1), macro_count = 0;
    bool is_line_start = true;
    for (size_t at = 0, bytes; at < t.length; at += bytes) {
        bytes = blank(t, at, is_line_start);
        if (bytes && t.data[at] == '#')
            note_macro(&n, (str){t.data + at, bytes}, of_macro, &macro_count);
        if (bytes) {
            is_line_start |= t.data[at] == '\n';
            continue;
        }
        token new = {.name = -1};
        bytes = token_bytes(t, at, &new.kind);
        new.text = (str){t.data + at, bytes};
        if (new.kind == TOKEN_NAME) new.name = number_of(&n, new.text);
        list_push(memory, tokens, new);
        is_line_start = false;
    }
    list_push(memory, tokens, ((token){.kind = TOKEN_END, .name = -1, .text = STR("")}));
    tokens->name_count = n.count;
    tokens->is_of_macro = arena_array(memory, bool, n.count + 1);
    for (int i = 0; i < macro_count; i++) tokens->is_of_macro[of_macro[i]] = true;
    tokens->meanings = arena_array(memory, uint8_t, n.count + 1);
    for (size_t i = 0; i < n.slot_count; i++)
        if (n.slots[i].length) tokens->meanings[n.numbers[i]] = meaning_of(n.slots[i]);
}
