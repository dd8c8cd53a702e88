#include "think/device_arrays.h"

#include <string.h>

enum { DIMENSIONS_MAX = 4, DEPTH_MAX = 200, STEPS_MAX = 1 << 12, FOUND_MAX = 64 };

/* --- tokens ----------------------------------------------------------------------------------- */

typedef enum token_kind { TOKEN_END, TOKEN_NAME, TOKEN_NUMBER, TOKEN_SIGN } token_kind;

typedef struct token {
    token_kind kind;
    str text;
} token;

/* What a name stands for: an array of known lengths, a whole number with the values that a loop
 * gives it, or something that nothing is known of.
 */
typedef struct thing {
    str name;
    enum { THING_UNKNOWN, THING_ARRAY, THING_RANGE } kind;
    int dimensions;
    int64_t lengths[DIMENSIONS_MAX];
    int64_t first, end, step; /* a range */
    int64_t value;            /* of a range, while an index is followed */
} thing;

/* An index past its array. 'outermost' is the place of the first loop variable in it. */
typedef struct excess {
    str array;
    int64_t index, length;
    int outermost;
} excess;

typedef struct walk {
    diag_list *diags;
    LIST(token) tokens;
    LIST(thing) things;
    int at, depth;
    int jumps; /* what may end a loop before its last step, so far */
    excess found[FOUND_MAX];
    int found_count;
} walk;

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

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

static void read_tokens(walk *w, str t) {
    bool is_line_start = true;
    for (size_t at = 0; at < t.length;) {
        char c = t.data[at];
        size_t skip = blank(t, at, is_line_start), end = at;
        if (skip) {
            is_line_start |= c == '\n';
            at += skip;
            continue;
        }
        token_kind kind = (c >= '0' && c <= '9') ? TOKEN_NUMBER
                          : is_letter(c)         ? TOKEN_NAME
                                                 : TOKEN_SIGN;
        if (c == '"' || c == '\'') {
            for (end++; end < t.length && t.data[end] != c && t.data[end] != '\n'; end++)
                end += t.data[end] == '\\';
            end++;
        } else if (kind == TOKEN_SIGN) end += sign_bytes(t, at);
        else
            while (end < t.length &&
                   (is_letter(t.data[end]) || (kind == TOKEN_NUMBER && t.data[end] == '.')))
                end++;
        if (end > t.length) end = t.length;
        list_push(w->diags->memory, &w->tokens, ((token){kind, {t.data + at, end - at}}));
        is_line_start = false, at = end;
    }
    list_push(w->diags->memory, &w->tokens, ((token){.kind = TOKEN_END, .text = STR("")}));
}

static const token *token_at(const walk *w, int at) {
    bool is_there = at >= 0 && at < w->tokens.count;
    return &w->tokens.items[is_there ? at : w->tokens.count - 1];
}

static bool is_at(const walk *w, int at, const char *text) {
    return str_is(token_at(w, at)->text, text);
}

static bool is_here(const walk *w, const char *text) {
    return is_at(w, w->at, text);
}

static bool is_ended(const walk *w) {
    return w->depth > DEPTH_MAX || token_at(w, w->at)->kind == TOKEN_END;
}

static bool take(walk *w, const char *text) {
    if (!is_here(w, text)) return false;
    w->at++;
    return true;
}

/* --- values ----------------------------------------------------------------------------------- */

static thing *find(walk *w, str name) {
    for (int i = w->things.count - 1; i >= 0; i--) {
        if (str_equal(w->things.items[i].name, name)) return &w->things.items[i];
    }
    return NULL;
}

static void hide(walk *w, str name) {
    list_push(w->diags->memory, &w->things, ((thing){.name = name, .kind = THING_UNKNOWN}));
}

static bool sum(walk *w, int level, int64_t *v);

static bool unary(walk *w, int64_t *v) {
    const token *t = token_at(w, w->at++);
    if (w->depth > DEPTH_MAX) return false;
    if (t->kind == TOKEN_NUMBER) {
        str digits = t->text;
        while (digits.length && strchr("uUlL", digits.data[digits.length - 1])) digits.length--;
        return str_to_integer(digits, v) && *v <= INT32_MAX;
    }
    if (t->kind == TOKEN_NAME) {
        const thing *known = find(w, t->text);
        if (!known || known->kind != THING_RANGE) return false;
        *v = known->value;
        return true;
    }
    if (str_is(t->text, "(")) {
        w->depth++;
        bool is_good = sum(w, 0, v) && take(w, ")");
        w->depth--;
        return is_good;
    }
    if (!str_is(t->text, "-") || !unary(w, v)) return false;
    *v = -*v;
    return true;
}

/* One step of an expression of 32 bits; false: it has no value, or passes them. */
static bool apply(char sign, int64_t a, int64_t b, int64_t *v) {
    if ((sign == '/' || sign == '%') && b == 0) return false;
    if ((sign == '<' || sign == '>') && (b < 0 || b > 30 || a < 0)) return false;
    switch (sign) {
    case '|': *v = a | b; break;
    case '^': *v = a ^ b; break;
    case '&': *v = a & b; break;
    case '<': *v = a * ((int64_t)1 << b); break;
    case '>': *v = a >> b; break;
    case '+': *v = a + b; break;
    case '-': *v = a - b; break;
    case '*': *v = a * b; break;
    case '/': *v = a / b; break;
    default: *v = a % b; break;
    }
    return *v <= INT32_MAX && *v >= INT32_MIN;
}

/* By precedence: | ^ & shifts, sums, products. False: something else is there. */
static bool sum(walk *w, int level, int64_t *v) {
    static const char *const signs[][3] = {{"|"},        {"^"},      {"&"},
                                           {"<<", ">>"}, {"+", "-"}, {"*", "/", "%"}};
    if (level == (int)(sizeof signs / sizeof *signs)) return unary(w, v);
    if (!sum(w, level + 1, v)) return false;
    for (;;) {
        const char *sign = NULL;
        for (int i = 0; i < 3 && signs[level][i]; i++) {
            if (is_here(w, signs[level][i])) sign = signs[level][i];
        }
        int64_t right;
        if (!sign) return true;
        w->at++;
        if (!sum(w, level + 1, &right) || !apply(*sign, *v, right, v)) return false;
    }
}

static bool is_one(const thing *t) {
    return t->kind == THING_RANGE && t->end - t->first <= t->step;
}

/* A constant that ends before 'close'. Is after it then. */
static bool constant(walk *w, const char *close, int64_t *v) {
    for (int i = w->at; !is_at(w, i, close); i++) {
        const token *t = token_at(w, i);
        const thing *known = t->kind == TOKEN_NAME ? find(w, t->text) : NULL;
        if (t->kind == TOKEN_END || (known && !is_one(known))) return false;
    }
    return sum(w, 0, v) && take(w, close);
}

/* --- indices ---------------------------------------------------------------------------------- */

static void note(walk *w, str array, int64_t index, int64_t length, int outermost) {
    if (w->found_count == FOUND_MAX) return;
    w->found[w->found_count++] = (excess){array, index, length, outermost};
}

/* The index that begins here, for all values of the loops in it; is after its bracket. */
static void follow(walk *w, str array, int64_t length) {
    int begin = w->at, end = begin, deep = 0, count = 0, used[3], outermost = w->things.count;
    int64_t steps = 1;
    bool is_known = true;
    for (; token_at(w, end)->kind != TOKEN_END && (deep || !is_at(w, end, "]")); end++) {
        deep += is_at(w, end, "[") - is_at(w, end, "]");
        thing *t = token_at(w, end)->kind == TOKEN_NAME ? find(w, token_at(w, end)->text) : NULL;
        if (!t || t->kind != THING_RANGE) continue;
        int place = (int)(t - w->things.items);
        bool is_noted = false;
        for (int i = 0; i < count; i++) is_noted |= used[i] == place;
        t->value = t->first;
        if (is_noted || is_one(t)) continue;
        if (count == 3) is_known = false;
        else used[count++] = place;
        steps *= (t->end - t->first + t->step - 1) / t->step;
        if (place < outermost) outermost = place;
        is_known &= steps <= STEPS_MAX;
    }
    if (!count) outermost = 0;
    for (int64_t step = 0; is_known && step < steps; step++) {
        int64_t rest = step, index;
        for (int i = 0; i < count; i++) {
            thing *t = &w->things.items[used[i]];
            int64_t values = (t->end - t->first + t->step - 1) / t->step;
            t->value = t->first + rest % values * t->step;
            rest /= values;
        }
        w->at = begin;
        is_known = sum(w, 0, &index) && w->at == end;
        if (!is_known || (index >= 0 && index < length)) continue;
        note(w, array, index, length, outermost);
        break;
    }
    w->at = end + !is_ended(w);
}

/* The indices after an array's name. An address may be the one past the end. */
static void access(walk *w, bool is_certain) {
    str name = token_at(w, w->at)->text;
    const thing *known = find(w, name);
    bool is_address =
        is_at(w, w->at - 1, "&") || is_at(w, w->at - 1, ".") || is_at(w, w->at - 1, "->");
    if (!is_certain || is_address || !known || known->kind != THING_ARRAY) {
        w->at++;
        return;
    }
    thing array = *known;
    w->at++;
    for (int i = 0; i < array.dimensions && is_here(w, "["); i++) {
        w->at++;
        follow(w, name, array.lengths[i]);
    }
}

/* --- statements ------------------------------------------------------------------------------- */

static void statement(walk *w);

/* What a condition may skip is certain only where its loop is under the condition as well. */
static void forget_skipped(walk *w, int from, int until, int place) {
    int kept = from;
    for (int i = from; i < w->found_count; i++) {
        if (i >= until || w->found[i].outermost >= place) w->found[kept++] = w->found[i];
    }
    w->found_count = kept;
}

static void block(walk *w) {
    int count = w->things.count;
    w->at++, w->depth++;
    while (!is_ended(w) && !is_here(w, "}")) statement(w);
    take(w, "}");
    w->things.count = count, w->depth--;
}

static void skip_parentheses(walk *w) {
    int deep = 0;
    do {
        deep += is_here(w, "(") - is_here(w, ")");
        w->at++;
    } while (deep > 0 && !is_ended(w));
}

static void maybe(walk *w) {
    int from = w->found_count, place = w->things.count;
    w->depth++;
    statement(w);
    w->depth--;
    w->things.count = place;
    forget_skipped(w, from, w->found_count, place);
}

/* Of both ways of a condition that go past the same array one is taken. */
static void condition(walk *w) {
    int from = w->found_count, place = w->things.count;
    take(w, "constexpr");
    skip_parentheses(w);
    w->depth++;
    statement(w);
    int middle = w->found_count;
    if (take(w, "else")) statement(w);
    w->depth--;
    w->things.count = place;
    int kept = from;
    for (int i = from; i < w->found_count; i++) {
        bool is_kept = w->found[i].outermost >= place;
        for (int k = middle; k < w->found_count && i < middle; k++)
            is_kept |= str_equal(w->found[i].array, w->found[k].array);
        if (is_kept) w->found[kept++] = w->found[i];
    }
    w->found_count = kept;
}

/* for (int V = A; V < B; V++): the values of V. False: another form, and nothing is known. */
static bool header(walk *w, thing *t) {
    while (token_at(w, w->at + 1)->kind == TOKEN_NAME) w->at++;
    t->name = token_at(w, w->at++)->text, t->kind = THING_RANGE, t->step = 1;
    if (!take(w, "=") || !constant(w, ";", &t->first)) return false;
    if (!str_equal(token_at(w, w->at++)->text, t->name)) return false;
    bool is_closed = is_here(w, "<=");
    if (!is_closed && !is_here(w, "<")) return false;
    w->at++;
    if (!constant(w, ";", &t->end)) return false;
    t->end += is_closed, t->value = t->first;
    bool is_before = take(w, "++");
    if (!str_equal(token_at(w, w->at++)->text, t->name)) return false;
    if (!is_before && take(w, "+=")) return constant(w, ")", &t->step) && t->step > 0;
    return (is_before || take(w, "++")) && take(w, ")");
}

static void loop(walk *w) {
    int place = w->things.count, from = w->found_count, jumps = w->jumps, begin = w->at;
    thing t = {.name = STR("")};
    w->at++;
    bool is_known = header(w, &t);
    if (!is_known) {
        for (int i = begin; i < w->at; i++)
            if (token_at(w, i)->kind == TOKEN_NAME) hide(w, token_at(w, i)->text);
        w->at = begin;
        skip_parentheses(w);
    } else list_push(w->diags->memory, &w->things, t);
    bool runs = is_known && t.first < t.end;
    w->depth++;
    statement(w);
    w->depth--;
    w->things.count = place;
    if (!runs) forget_skipped(w, from, w->found_count, is_known ? w->things.count + 1 : place);
    else if (w->jumps != jumps) forget_skipped(w, from, w->found_count, place + 1);
}

/* A name that a declaration makes: an array, a constant, or something else. */
static void declare(walk *w, bool is_constant) {
    thing t = {.name = token_at(w, w->at++)->text, .kind = THING_ARRAY, .step = 1};
    bool is_array = is_here(w, "[");
    while (take(w, "[")) {
        bool is_known = t.dimensions < DIMENSIONS_MAX && constant(w, "]", &t.lengths[t.dimensions]);
        if (!is_known) t.kind = THING_UNKNOWN;
        while (!is_known && !is_ended(w) && !take(w, "]")) w->at++;
        t.dimensions += is_known;
    }
    int after = w->at;
    if (!is_array) {
        t.kind = THING_UNKNOWN;
        int end = w->at;
        while (token_at(w, end)->kind != TOKEN_END && !strchr(",;", *token_at(w, end)->text.data))
            end++;
        const char *close = is_at(w, end, ",") ? "," : ";";
        if (is_constant && take(w, "=") && constant(w, close, &t.first))
            t.kind = THING_RANGE, t.end = t.first + 1, t.value = t.first;
    }
    w->at = after;
    list_push(w->diags->memory, &w->things, t);
}

static bool is_word(str text) {
    static const char *const words[] = {"return", "else",     "case", "goto",
                                        "throw",  "operator", "new"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (str_is(text, words[i])) return true;
    }
    return false;
}

/* Whether a name is given another value here. */
static bool is_changed(const walk *w, int at) {
    static const char *const signs[] = {
        "=", "++", "--", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^="};
    bool is_found = is_at(w, at - 1, "++") || is_at(w, at - 1, "--") || is_at(w, at - 1, "&");
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        is_found |= is_at(w, at + 1, signs[i]);
    return is_found;
}

/* What is in braces within a statement: a function, a lambda, numbers. Its parameters hide what
 * has their names.
 */
static void inner_block(walk *w, int begin) {
    int count = w->things.count;
    for (int i = begin, deep = 0; i < w->at; i++) {
        deep += is_at(w, i, "(") - is_at(w, i, ")");
        if (deep > 0 && token_at(w, i)->kind == TOKEN_NAME) hide(w, token_at(w, i)->text);
    }
    block(w);
    w->things.count = count;
}

static void plain(walk *w) {
    int begin = w->at, deep = 0;
    bool is_certain = true, is_declaration = false, is_constant = false;
    while (!is_ended(w) && !(deep <= 0 && (is_here(w, "}") || is_here(w, ";")))) {
        const token *t = token_at(w, w->at), *last = token_at(w, w->at - 1);
        deep += is_here(w, "(") - is_here(w, ")");
        if (is_here(w, "?") || is_here(w, "&&") || is_here(w, "||")) is_certain = false;
        is_constant |= deep == 0 && (is_here(w, "const") || is_here(w, "constexpr"));
        bool follows_type = w->at > begin && last->kind == TOKEN_NAME && !is_word(last->text);
        bool follows_other = is_declaration && str_is(last->text, ",");
        if (is_here(w, "{")) {
            inner_block(w, begin);
            bool goes_on = strchr(";,).([=}", *token_at(w, w->at)->text.data) != NULL;
            if (!goes_on) return;
        } else if (t->kind != TOKEN_NAME) w->at++;
        else if (deep == 0 && (follows_type || follows_other) &&
                 token_at(w, w->at + 1)->kind == TOKEN_SIGN)
            is_declaration = true, declare(w, is_constant);
        else {
            thing *known = find(w, t->text);
            if (known && known->kind == THING_RANGE && is_changed(w, w->at)) {
                known->kind = THING_UNKNOWN, w->jumps++;
            }
            access(w, is_certain);
        }
    }
    take(w, ";");
}

static void statement(walk *w) {
    static const char *const jumps[] = {"break", "continue", "return", "goto"};
    bool is_case = is_here(w, "case") || is_here(w, "default");
    for (size_t i = 0; i < sizeof jumps / sizeof *jumps; i++) w->jumps += is_here(w, jumps[i]);
    bool is_macro = token_at(w, w->at)->kind == TOKEN_NAME && is_at(w, w->at + 1, "for");
    w->at += is_macro; /* FTL_UNROLL for (...) */
    if (w->depth > DEPTH_MAX) return;
    if (is_here(w, "{")) block(w);
    else if (take(w, "if")) condition(w);
    else if (take(w, "for")) loop(w);
    else if (take(w, "while") || take(w, "switch")) skip_parentheses(w), maybe(w);
    else if (is_case) {
        while (!is_ended(w) && !take(w, ":")) w->at++;
        w->jumps++;
    } else if (take(w, "do") || take(w, "else")) maybe(w);
    else plain(w);
}

bool device_arrays_check(str text, diag_list *diags) {
    walk *w = arena_new(diags->memory, walk);
    w->diags = diags;
    read_tokens(w, text);
    while (!is_ended(w)) {
        statement(w);
        if (is_here(w, "}")) w->at++; /* one too many: the compiler's to say */
    }
    if (w->depth > DEPTH_MAX) return true;
    for (int i = 0; i < w->found_count; i++) {
        const excess *e = &w->found[i];
        bool is_said = false; /* one finding for an array: the rest go with it */
        for (int k = 0; k < i; k++) is_said |= str_equal(w->found[k].array, e->array);
        if (is_said) continue;
        uint32_t begin = (uint32_t)(e->array.data - text.data);
        diag_report(diags, DIAG_DEVICE_ARRAY,
                    ((diag_range){begin, begin + (uint32_t)e->array.length}), e->array,
                    str_format(diags->memory, "%lld", (long long)e->index),
                    str_format(diags->memory, "%lld", (long long)e->length));
    }
    return w->found_count == 0;
}
