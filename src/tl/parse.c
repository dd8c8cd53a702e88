/* Programs and blocks: which statement stands where, and how to go on after an error. */
#include "tl/parse.h"

enum { GPU_NAME_MAX = 64 };

/* --- blocks ----------------------------------------------------------------------------------- */

/* A body that is still open. A header with an error has one, too, so that its 'end' is known; its
 * statement is then not part of the program.
 */
typedef struct open_block {
    tl_statement *statement; /* NULL: a kernel's own block */
    tl_block *block;
    lex_token header;
    int column;             /* of the header, tabs counted to multiples of 8 */
    bool may_end_by_indent; /* the header ended in ':' */
    bool has_statements;
} open_block;

typedef struct reader {
    parser p;
    tl_program *program;
    tl_kernel *kernel;
    open_block open[TL_NESTING_MAX + 1];
    int open_count;
    int statement_count;
    lex_token suspect; /* a header whose 'end' stands further left, at an outer header's column */
    bool has_suspect;
    LIST(str) lines; /* comment lines since the last statement */
    bool blank;      /* an empty line since the last statement */
} reader;

static int column_of(const parser *p, lex_token t) {
    uint32_t begin = t.begin;
    while (begin && p->source.data[begin - 1] != '\n') begin--;
    int column = 0;
    for (uint32_t i = begin; i < t.begin; i++) {
        column = p->source.data[i] == '\t' ? (column / 8 + 1) * 8 : column + 1;
    }
    return column;
}

static void take_lines(reader *r, str **lines, int *count) {
    *lines = r->lines.items;
    *count = r->lines.count;
    r->lines.items = NULL;
    r->lines.count = r->lines.capacity = 0;
    r->blank = false;
}

/* Reads what is between statements. */
static void read_between(reader *r) {
    parser *p = &r->p;
    for (;; p->at++) {
        lex_token t = parse_peek(p);
        if (t.kind == LEX_BLANK) r->blank = true;
        else if (t.kind == LEX_COMMENT_LINE) {
            list_push(p->memory, &r->lines, p->tokens.comments[t.comment]);
        } else if (t.kind != LEX_NEWLINE) {
            return;
        }
    }
}

/* Ends a line: nothing may follow but its comment. Returns false when the line had an error. */
static bool finish_line(reader *r, str *comment) {
    parser *p = &r->p;
    lex_token t = parse_peek(p);
    if (t.kind != LEX_NEWLINE && t.kind != LEX_END) parse_fail(p, "the end of the line");
    bool is_good = !p->failed;
    while (parse_peek(p).kind != LEX_NEWLINE && parse_peek(p).kind != LEX_END) {
        if (p->at == p->resume_at) break;
        p->at++;
    }
    t = parse_peek(p);
    p->resume_at = -1;
    if (t.kind == LEX_NEWLINE) {
        if (t.comment >= 0) *comment = p->tokens.comments[t.comment];
        p->at++;
    }
    p->failed = false;
    p->depth = p->node_count = 0;
    return is_good;
}

static void count_statement(reader *r, diag_range range) {
    if (++r->statement_count <= TL_STATEMENTS_MAX) return;
    diag_report(r->p.diags, DIAG_TOO_MANY_STATEMENTS, range,
                str_format(r->p.memory, "%d", TL_STATEMENTS_MAX));
    r->p.stopped = true;
}

static void open_kernel(reader *r) {
    tl_kernel *last = r->kernel;
    r->kernel = arena_new(r->p.memory, tl_kernel);
    if (last) last->next = r->kernel;
    else r->program->first = r->kernel;
    r->program->kernel_count++;
    r->open[0] = (open_block){.block = &r->kernel->body};
    r->open_count = 1;
}

/* Bodies that are still open lack an 'end'; the indentation may tell which one it is. */
static void close_all(reader *r, lex_token before) {
    for (; r->open_count > 1; r->open_count--) {
        open_block *top = &r->open[r->open_count - 1];
        bool ends_here = top->may_end_by_indent && top->has_statements;
        if (ends_here || r->p.stopped) continue;
        lex_token header = r->has_suspect ? r->suspect : top->header;
        r->has_suspect = false;
        diag_report(r->p.diags, DIAG_END_MISSING, parse_token_range(&r->p, header),
                    parse_text(&r->p, header));
        if (before.kind != LEX_END) {
            diag_report(r->p.diags, DIAG_EXPECTED_BEFORE, parse_token_range(&r->p, before),
                        parse_text(&r->p, before));
        }
    }
    r->has_suspect = false;
}

static void note_suspect(reader *r, const open_block *top, int end_column) {
    if (r->has_suspect || end_column >= top->column) return;
    for (int i = 1; i + 1 < r->open_count; i++) {
        if (r->open[i].column != end_column) continue;
        r->suspect = top->header;
        r->has_suspect = true;
    }
}

/* A GPU's name may hold hyphens: rtx-2080-ti. */
static str read_gpu(parser *p) {
    str name = parse_name(p, "the name of a GPU");
    while (parse_accept(p, '-')) {
        lex_token part = parse_peek(p);
        if (part.kind != LEX_WORD && part.kind != LEX_INTEGER) parse_fail(p, "the name of a GPU");
        name = str_format(p->memory, "%.*s-%.*s", STR_ARGS(name), STR_ARGS(parse_text(p, part)));
        parse_advance(p);
        if (name.length > GPU_NAME_MAX) parse_fail(p, "a shorter name of a GPU");
    }
    return name;
}

static void read_kernel(reader *r) {
    parser *p = &r->p;
    lex_token start = parse_peek(p);
    close_all(r, start);
    open_kernel(r);
    take_lines(r, &r->kernel->lines_before, &r->kernel->line_before_count);
    parse_advance(p);
    diag_range range;
    r->kernel->name = parse_new_name(p, "the kernel's name", &range);
    if (parse_accept_word(p, "for")) r->kernel->gpu = read_gpu(p);
    r->kernel->range = parse_range(p, start.begin);
    count_statement(r, parse_token_range(p, start));
    parse_accept(p, ':');
    finish_line(r, &r->kernel->comment);
}

static void open_body(reader *r, tl_statement *s, lex_token header, bool has_colon) {
    if (r->open_count > TL_NESTING_MAX) {
        diag_report(r->p.diags, DIAG_BLOCKS_TOO_DEEP, parse_token_range(&r->p, header),
                    str_format(r->p.memory, "%d", TL_NESTING_MAX));
        r->p.stopped = true;
        return;
    }
    r->open[r->open_count++] = (open_block){.statement = s,
                                            .block = tl_statement_body(s),
                                            .header = header,
                                            .column = column_of(&r->p, header),
                                            .may_end_by_indent = has_colon};
}

static void read_end(reader *r) {
    parser *p = &r->p;
    lex_token t = parse_peek(p);
    parse_advance(p);
    str ignored = {0};
    if (r->open_count <= 1) {
        parse_fail_id(p, DIAG_END_UNEXPECTED, parse_token_range(p, t), STR(""));
        finish_line(r, &ignored);
        return;
    }
    note_suspect(r, &r->open[r->open_count - 1], column_of(p, t));
    tl_statement *s = r->open[--r->open_count].statement;
    take_lines(r, &s->lines_before_end, &s->line_before_end_count);
    finish_line(r, &s->end_comment);
}

/* Closes the bodies that a statement in this column ends by its indentation. */
static void close_by_indent(reader *r, int column, bool is_end) {
    while (r->open_count > 1) {
        open_block *top = &r->open[r->open_count - 1];
        if (!top->may_end_by_indent) return;
        bool is_inside = column > top->column;
        if (!top->has_statements && !is_inside && !is_end) {
            top->may_end_by_indent = false; /* the text is not indented at all */
            return;
        }
        if (is_inside || (is_end && column == top->column)) return;
        if (!top->has_statements) return;
        r->open_count--;
    }
}

static bool statement_kind_of(str word, tl_statement_kind *kind) {
    for (*kind = 0; *kind < TL_HOLE; ++*kind)
        if (lex_same_word(word, tl_statement_word(*kind))) return true;
    return false;
}

static const char *const block_words[] = {"for",    "if",      "role", "while", "loop",
                                          "repeat", "foreach", "elif", NULL};

/* Reports an unknown statement. Returns whether it seems to have a body of its own. */
static bool read_unknown(reader *r, lex_token t) {
    static const char *const words[] = {
#define STATEMENT(id, spelling, doc) spelling,
#include "tl/statements.def"
#undef STATEMENT
        "kernel", "end", NULL};
    parser *p = &r->p;
    if (t.kind != LEX_WORD) {
        parse_fail(p, "a statement");
    } else {
        str word = parse_text(p, t);
        diag_range range = parse_token_range(p, t);
        parse_fail_id(p, DIAG_UNKNOWN_STATEMENT, range, word);
        if (parse_peek_next(p).kind == '=') diag_add(p->diags, DIAG_USE_LET, range, NULL);
        else if (lex_same_word(word, "else")) diag_add(p->diags, DIAG_USE_IF, range, NULL);
        else if (parse_is_reserved(word)) diag_add(p->diags, DIAG_LINE_ENDED, range, NULL);
        else parse_hint_nearest(p, range, word, words);
    }
    bool has_body = false;
    for (int i = 0; t.kind == LEX_WORD && block_words[i]; i++) {
        has_body |= lex_same_word(parse_text(p, t), block_words[i]);
    }
    while (parse_peek(p).kind != LEX_NEWLINE && parse_peek(p).kind != LEX_END) {
        has_body |= parse_peek(p).kind == ':' && parse_peek_next(p).kind == LEX_NEWLINE;
        p->at++;
    }
    return has_body;
}

static void finish_statement(reader *r, tl_statement *s, lex_token start, bool has_body) {
    parser *p = &r->p;
    bool is_good = !p->failed;
    bool has_colon = has_body && parse_accept(p, ':');
    bool body_follows = has_colon && !parse_at_line_end(p);
    if (!body_follows) {
        is_good = finish_line(r, &s->comment);
        int last = p->at - 2; /* before the line break */
        has_colon |= has_body && last >= 0 && p->tokens.items[last].kind == ':';
    }
    open_block *top = &r->open[r->open_count - 1];
    top->has_statements = true;
    if (is_good) {
        tl_block_append(top->block, top->statement, s);
        count_statement(r, s->range);
    }
    if (has_body && !p->stopped) open_body(r, s, start, has_colon);
}

/* Reads a statement up to the end of its line, or to its body on the same line. */
static void read_statement(reader *r) {
    parser *p = &r->p;
    lex_token start = parse_peek(p);
    tl_statement *s = arena_new(p->memory, tl_statement);
    s->blank_before = r->blank;
    take_lines(r, &s->lines_before, &s->line_before_count);
    tl_statement_kind kind = TL_HOLE;
    bool is_known = start.kind == LEX_ELLIPSIS || start.kind == '.' ||
                    (start.kind == LEX_WORD && statement_kind_of(parse_text(p, start), &kind));
    bool has_body;
    if (is_known) {
        s->kind = kind;
        while (start.kind == '.' && parse_peek_next(p).kind == '.') parse_advance(p);
        if (kind <= TL_ALLOCATE) parse_declaration(p, s);
        else parse_action(p, s);
        has_body = tl_statement_body(s) != NULL;
    } else {
        s->kind = TL_IF; /* stands for whatever it was, and is dropped */
        has_body = read_unknown(r, start);
    }
    if (!p->without_ranges) s->range = parse_range(p, start.begin);
    finish_statement(r, s, start, has_body);
}

static void read_program(reader *r) {
    parser *p = &r->p;
    while (!p->stopped) {
        read_between(r);
        lex_token t = parse_peek(p);
        if (t.kind == LEX_END) break;
        bool is_end = parse_at_word(p, "end");
        close_by_indent(r, column_of(p, t), is_end);
        if (parse_at_word(p, "kernel")) {
            read_kernel(r);
            continue;
        }
        if (!r->kernel) {
            open_kernel(r);
            r->kernel->name = STR("unnamed");
            r->kernel->is_unnamed = true;
            count_statement(r, parse_token_range(p, t)); /* its line will be printed */
        }
        if (is_end) read_end(r);
        else read_statement(r);
    }
    close_all(r, parse_peek(p));
    take_lines(r, &r->program->lines_after, &r->program->line_after_count);
}

static tl_program *read_text(parser p, str source_name) {
    reader r = {.p = p};
    r.p.resume_at = -1;
    r.program = arena_new(p.memory, tl_program);
    *r.program = (tl_program){.memory = p.memory, .source = p.source, .source_name = source_name};
    if (p.source.length > TL_SOURCE_BYTES_MAX) {
        diag_range whole = {0, 0};
        diag_report(p.diags, DIAG_SOURCE_TOO_LONG, whole,
                    str_format(p.memory, "%zu", p.source.length),
                    str_format(p.memory, "%d", (int)TL_SOURCE_BYTES_MAX));
        return r.program;
    }
    r.p.tokens = lex_read(p.memory, p.source);
    read_program(&r);
    return r.program;
}

tl_program *tl_parse(arena *memory, str source_name, str source, diag_list *diags) {
    parser p = {.memory = memory, .source = source, .diags = diags};
    tl_program *program = read_text(p, source_name);
    if (!program->first && !diag_has_errors(diags)) {
        diag_add(diags, DIAG_EMPTY_PROGRAM, (diag_range){0, 0}, NULL);
    }
    spelling_settle(program);
    return program;
}

tl_program *parse_quotation(arena *memory, str source, diag_list *diags) {
    parser p = {.memory = memory, .source = source, .diags = diags, .without_ranges = true};
    return read_text(p, STR("quotation"));
}
