/* What all parts of the parser are made of: tokens, errors, names. */
#include "tl/parse.h"

#include <limits.h>

/* --- tokens ----------------------------------------------------------------------------------- */

lex_token parse_peek(const parser *p) {
    return p->tokens.items[p->at];
}

lex_token parse_peek_next(const parser *p) {
    return p->tokens.items[p->at + 1 < p->tokens.count ? p->at + 1 : p->at];
}

void parse_advance(parser *p) {
    if (!p->failed && p->at + 1 < p->tokens.count) p->at++;
}

bool parse_at_line_end(const parser *p) {
    lex_token t = parse_peek(p);
    return t.kind == LEX_NEWLINE || t.kind == LEX_END || t.kind == ':';
}

str parse_text(const parser *p, lex_token t) {
    return (str){p->source.data + t.begin, t.end - t.begin};
}

bool parse_at(const parser *p, int kind) {
    return !p->failed && parse_peek(p).kind == kind;
}

bool parse_at_word(const parser *p, const char *word) {
    lex_token t = parse_peek(p);
    return !p->failed && t.kind == LEX_WORD && lex_same_word(parse_text(p, t), word);
}

bool parse_next_is_word(const parser *p, const char *word) {
    lex_token t = parse_peek_next(p);
    return !p->failed && t.kind == LEX_WORD && lex_same_word(parse_text(p, t), word);
}

bool parse_accept(parser *p, int kind) {
    if (!parse_at(p, kind)) return false;
    parse_advance(p);
    return true;
}

bool parse_accept_word(parser *p, const char *word) {
    if (!parse_at_word(p, word)) return false;
    parse_advance(p);
    return true;
}

/* A bracket that was not closed made a statement of its line and the next: the error is at the
 * end of the first, and the second is read again by itself.
 */
static void fail_unclosed(parser *p, const char *expected) {
    lex_token last = p->tokens.items[p->at - 1];
    str found = STR("the end of the line"), expected_text = str_copy(p->memory, str_from(expected));
    diag_range range = parse_token_range(p, (lex_token){.begin = last.end, .end = last.end});
    diag *d = diag_report(p->diags, DIAG_SYNTAX, range, expected_text, found);
    diag_expected(d, expected_text, found);
    p->failed = true;
    p->resume_at = p->at;
}

void parse_expect(parser *p, int kind) {
    char text[] = {'\'', (char)kind, '\'', 0};
    if (p->failed || parse_accept(p, kind)) return;
    bool is_unclosed = (kind == ')' || kind == ']') && parse_peek(p).continues_line;
    if (is_unclosed) fail_unclosed(p, text);
    else parse_fail(p, text);
}

void parse_expect_word(parser *p, const char *word) {
    if (parse_accept_word(p, word) || p->failed) return;
    char *quoted = str_copy_z(p->memory, str_format(p->memory, "'%s'", word));
    parse_fail_word(p, quoted, (const char *const[]){word, NULL});
}

diag_range parse_range(const parser *p, uint32_t begin) {
    if (p->without_ranges) return (diag_range){0, 0};
    uint32_t end = p->at ? p->tokens.items[p->at - 1].end : begin;
    return (diag_range){begin, end > begin ? end : begin};
}

/* --- errors ----------------------------------------------------------------------------------- */

void parse_fail_of(parser *p, diag_id id, diag_range range, const str *arguments) {
    if (p->failed) return;
    p->failed = true;
    diag_add(p->diags, id, range, arguments);
}

static str describe(parser *p, lex_token t) {
    if (t.kind == LEX_NEWLINE) return STR("the end of the line");
    if (t.kind == LEX_END) return STR("the end of the text");
    str text = parse_text(p, t);
    if (t.kind == LEX_BAD) {
        unsigned char first = (unsigned char)text.data[0];
        if (first == 0) return STR("a NUL byte");
        if (first < 32 || first == 127) return str_format(p->memory, "the byte 0x%02x", first);
    }
    enum { SHOWN = 40 };
    if (text.length <= SHOWN) return str_format(p->memory, "'%.*s'", STR_ARGS(text));
    size_t shown = SHOWN;
    while (shown && ((unsigned char)text.data[shown] & 0xc0) == 0x80) shown--;
    return str_format(p->memory, "'%.*s...'", (int)shown, text.data);
}

diag_range parse_token_range(const parser *p, lex_token t) {
    if (p->without_ranges) return (diag_range){0, 0};
    return (diag_range){t.begin, t.end > t.begin ? t.end : t.begin + 1};
}

/* Other languages' signs for our words. */
static void hint_word_for_sign(parser *p, lex_token t) {
    static const char *const signs[][2] = {{"&&", "and"}, {"&", "and"}, {"||", "or"},
                                           {"|", "or"},   {"!", "not"}, {"#", "//"}};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        if (!str_is(parse_text(p, t), signs[i][0])) continue;
        diag *hint = diag_report(p->diags, DIAG_DID_YOU_MEAN, parse_token_range(p, t),
                                 str_from(signs[i][1]));
        diag_replace(hint, str_from(signs[i][1]));
    }
}

void parse_fail(parser *p, const char *expected) {
    if (p->failed) return;
    p->failed = true;
    lex_token t = parse_peek(p);
    /* Past the limit errors are only counted, so nothing is spent on their words. */
    if (p->diags->error_count >= DIAG_ERROR_LIMIT) {
        diag_add(p->diags, DIAG_SYNTAX, parse_token_range(p, t), NULL);
        return;
    }
    str found = describe(p, t);
    if (t.kind == LEX_BAD) {
        diag_report(p->diags, DIAG_UNREADABLE, parse_token_range(p, t), found);
        hint_word_for_sign(p, t);
        return;
    }
    str expected_text = str_copy(p->memory, str_from(expected));
    diag *d = diag_report(p->diags, DIAG_SYNTAX, parse_token_range(p, t), expected_text, found);
    diag_expected(d, expected_text, found);
}

static str lower_copy(arena *memory, str s) {
    char *copy = str_copy_z(memory, s);
    for (size_t i = 0; i < s.length; i++) {
        if (copy[i] >= 'A' && copy[i] <= 'Z') copy[i] = (char)(copy[i] - 'A' + 'a');
    }
    return (str){copy, s.length};
}

/* A hint must be surely right: one or two slips of the keys in a word that is long enough. */
void parse_hint_nearest(parser *p, diag_range range, str word, const char *const *words) {
    if (word.length < 2 || word.length > 24 || p->diags->error_count > DIAG_ERROR_LIMIT) return;
    str wanted = lower_copy(p->memory, word);
    const char *best = NULL;
    int least = word.length < 6 ? 2 : 3;
    for (int i = 0; words[i]; i++) {
        int distance = str_distance(wanted, lower_copy(p->memory, str_from(words[i])));
        if (distance == 0) return;
        if (distance < least && (size_t)distance < word.length) {
            least = distance;
            best = words[i];
        }
    }
    if (!best) return;
    diag *hint = diag_report(p->diags, DIAG_DID_YOU_MEAN, range, str_from(best));
    diag_replace(hint, str_from(best));
}

void parse_fail_word(parser *p, const char *expected, const char *const *words) {
    if (p->failed) return;
    lex_token t = parse_peek(p);
    parse_fail(p, expected);
    if (t.kind == LEX_WORD) parse_hint_nearest(p, parse_token_range(p, t), parse_text(p, t), words);
}

void parse_fail_too_many(parser *p, int most) {
    if (p->failed) return;
    parse_fail_id(p, DIAG_LIST_TOO_LONG, parse_token_range(p, parse_peek(p)),
                  str_format(p->memory, "%d", most));
}

bool parse_clause(parser *p, const char *word, bool is_given) {
    if (!parse_at_word(p, word)) return false;
    if (is_given)
        parse_clause_is_new(p, true, str_copy_z(p->memory, str_format(p->memory, "'%s'", word)));
    parse_advance(p);
    return true;
}

bool parse_clause_is_new(parser *p, bool is_given, const char *clause) {
    if (is_given) {
        parse_fail_id(p, DIAG_CLAUSE_TWICE, parse_token_range(p, parse_peek(p)), str_from(clause));
    }
    return !is_given;
}

/* --- names and numbers ------------------------------------------------------------------------ */

/* Words that cannot be names. Others (rows, stages, reversed, min, ...) mean something only where
 * the grammar asks for them, and remain free.
 */
bool parse_is_reserved(str word) {
    static const char *const words[] = {
        "in",   "from", "to", "and", "or",    "not",    "get",    "accumulate", "where",
        "with", "as",   "by", "of",  "async", "global", "shared", "register",
#define TYPE(id, spelling, number, bits, kind, doc) spelling,
#include "base/types.def"
#undef TYPE
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (lex_same_word(word, words[i])) return true;
    }
    return lex_starts_statement(word);
}

/* `L = e` in a coordinate: no name, wherever one may stand. */
static bool is_block_sign(str word) {
    return str_is(word, "L");
}

bool tl_is_reserved(str word) {
    return parse_is_reserved(word) || is_block_sign(word);
}

static void fail_reserved(parser *p, lex_token t) {
    parse_fail_id(p, DIAG_RESERVED_NAME, parse_token_range(p, t), parse_text(p, t));
}

str parse_name(parser *p, const char *what) {
    lex_token t = parse_peek(p);
    str text = parse_text(p, t);
    if (p->failed || t.kind != LEX_WORD || parse_is_reserved(text)) {
        parse_fail(p, what);
        return STR("unread");
    }
    if (is_block_sign(text)) {
        fail_reserved(p, t);
        return STR("unread");
    }
    parse_advance(p);
    if (text.data[0] != '0') return text;
    char *corrected = str_copy_z(p->memory, text);
    corrected[0] = 'O';
    return (str){corrected, text.length};
}

str parse_new_name(parser *p, const char *what, diag_range *range) {
    lex_token t = parse_peek(p);
    str text = parse_text(p, t);
    *range = (diag_range){0, 0};
    if (p->failed) return STR("unread");
    if (t.kind == LEX_WORD && parse_is_reserved(text)) {
        fail_reserved(p, t);
        return STR("unread");
    }
    str name = parse_name(p, what);
    if (!p->failed) *range = parse_range(p, t.begin);
    return name;
}

int parse_integer(parser *p, const char *what) {
    lex_token t = parse_peek(p);
    if (p->failed || t.kind != LEX_INTEGER) {
        parse_fail(p, what);
        return 0;
    }
    int64_t value;
    if (!str_to_integer(parse_text(p, t), &value) || value > INT_MAX) {
        parse_fail_id(p, DIAG_NUMBER_TOO_LARGE, parse_token_range(p, t), parse_text(p, t));
        return 0;
    }
    parse_advance(p);
    return (int)value;
}
