/* Lines of the emitted text, gathered in the arena.
 *
 * Unrolled loops are written as a person would: one of a single round is none, its variable is 0
 * and the subscript of a row tile goes, since arrays of one row tile do not have it; and one
 * statement needs no braces.
 */
#include "translate/emit.h"

#include <string.h>

bool emit_mentions(str text, str name) {
    return str_find_word(text, name) != NULL;
}

str emit_with(emit *t, str text, str variable, str value) {
    text_buffer out;
    const char *found = str_find_word(text, variable);
    if (!found) return text;
    text_init_in(&out, t->memory);
    for (; found; found = str_find_word(text, variable)) {
        size_t before = (size_t)(found - text.data), length = variable.length;
        bool goes = str_is(variable, "m16") && before && found[-1] == '[' && found[length] == ']';
        text_add(&out, (str){text.data, before - goes});
        text_add(&out, goes ? (str){0} : value);
        size_t used = before + length + goes;
        text = (str){text.data + used, text.length - used};
    }
    text_add(&out, text);
    return text_str(&out);
}

static void push(emit *t, str declares, const char *format, va_list arguments) {
    if (t->lines.count >= EMIT_LINES_MAX) {
        t->failed = true;
        return;
    }
    emit_line line = {.text = str_format_list(t->memory, format, arguments),
                      .declares = declares,
                      .about = t->about};
    for (int i = 0; i < t->single_rounds.count && !emit_is_comment(&line); i++)
        line.text = emit_with(t, line.text, t->single_rounds.items[i].variable, STR("0"));
    bool is_directive = line.text.length && line.text.data[0] == '#';
    if (line.text.length && !is_directive) line.indent = t->indent * EMIT_INDENT;
    list_push(t->memory, &t->lines, line);
}

void emit_text(emit *t, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    push(t, (str){0}, format, arguments);
    va_end(arguments);
}

void emit_declare(emit *t, str declares, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    push(t, declares, format, arguments);
    va_end(arguments);
}

void emit_open(emit *t, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    push(t, (str){0}, format, arguments);
    va_end(arguments);
    t->indent++;
}

/* A line in the reach of the one before it. */
static void put_under(emit *t, str head, str line) {
    emit_text(t, "%.*s", STR_ARGS(head));
    t->indent++;
    emit_text(t, "%.*s", STR_ARGS(line));
    t->indent--;
}

void emit_either(emit *t, str condition, str line, str otherwise) {
    put_under(t, emit_format(t, "if (%.*s)", STR_ARGS(condition)), line);
    put_under(t, STR("else"), otherwise);
}

void emit_else(emit *t) {
    t->indent--;
    emit_open(t, "} else {");
}

bool emit_is_comment(const emit_line *line) {
    return str_starts(line->text, STR("//"));
}

static bool is_unrolled(const emit_line *line) {
    return str_starts(line->text, STR("FTL_UNROLL for ("));
}

/* Has the line a place among others: is it neither empty nor for the preprocessor? */
static bool is_placed(const emit_line *line) {
    return line->text.length && line->text.data[0] != '#';
}

/* A branch with nothing but comments in it: these stand alone. */
void emit_close_branch(emit *t) {
    emit_line *lines = t->lines.items;
    int head = t->lines.count - 1;
    while (head >= 0 && emit_is_comment(&lines[head])) head--;
    bool is_empty = head >= 0 && str_ends(lines[head].text, STR(") {"));
    if (!is_empty || lines[head].indent != (t->indent - 1) * EMIT_INDENT) {
        emit_close(t);
        return;
    }
    for (int i = head; i + 1 < t->lines.count; i++) lines[i] = lines[i + 1];
    t->lines.count--;
    t->indent--;
}

enum { SHORT_LOOP = 100 };

/* An unrolled loop whose braces may go. */
static bool is_head(const emit *t, const emit_line *line) {
    return is_unrolled(line) && line->indent == t->indent * EMIT_INDENT &&
           str_ends(line->text, STR(" {"));
}

/* The same where the statement is a loop with braces of its own, which has just been closed. */
static bool drop_outer_braces(emit *t) {
    int inner = (t->indent + 1) * EMIT_INDENT, head = t->lines.count - 2;
    emit_line *lines = t->lines.items;
    while (head >= 0 && (!is_placed(&lines[head]) || lines[head].indent > inner)) head--;
    if (head < 1 || !is_unrolled(&lines[head]) || !is_head(t, &lines[head - 1])) return false;
    lines[head - 1].text.length -= 2;
    return true;
}

/* Drops the braces of an unrolled loop over one statement, whose text is a line or such a loop. A
 * short loop is one line.
 */
static bool drop_braces(emit *t) {
    emit_line *lines = t->lines.items;
    int last = t->lines.count - 1, head = last - 1;
    if (last < 1 || lines[last].declares.length) return false;
    str body = lines[last].text, *text = &lines[head].text;
    if (str_is(body, "}")) return drop_outer_braces(t);
    if (!str_ends(body, STR(";"))) return false;
    while (head > 0 && is_unrolled(&lines[head]) && !str_ends(lines[head].text, STR("{"))) head--;
    if (!is_head(t, &lines[head])) return false;
    lines[head].text.length -= 2;
    if (head == last - 1 && !is_unrolled(&lines[last]) &&
        text->length + 1 + body.length <= SHORT_LOOP) {
        *text = emit_format(t, "%.*s %.*s", STR_ARGS(*text), STR_ARGS(body));
        t->lines.count--;
    }
    return true;
}

void emit_close(emit *t) {
    int rounds = t->single_rounds.count;
    if (rounds && t->single_rounds.items[rounds - 1].indent == t->indent) {
        t->single_rounds.count--;
        return;
    }
    t->indent--;
    if (!drop_braces(t)) emit_text(t, "}");
}

void emit_header(emit *t, const tl_statement *s) {
    text_buffer text;
    text_init_in(&text, t->memory);
    tl_print_header(s, &text);
    emit_about(t, s);
    emit_text(t, "// %.*s", STR_ARGS(text_str(&text)));
    if (t->lines.count) t->lines.items[t->lines.count - 1].is_heading = true;
}

const tl_statement *emit_about(emit *t, const tl_statement *s) {
    const tl_statement *before = t->about;
    t->about = s;
    return before;
}

void emit_loop_from(emit *t, const char *variable, int from, int to, int step) {
    if (from == 0 && to <= step) {
        emit_round round = {str_from(variable), t->indent};
        list_push(t->memory, &t->single_rounds, round);
        return;
    }
    str next =
        step == 1 ? emit_format(t, "%s++", variable) : emit_format(t, "%s += %d", variable, step);
    emit_open(t, "FTL_UNROLL for (int %s = %d; %s < %d; %.*s) {", variable, from, variable, to,
              STR_ARGS(next));
}

void emit_loop(emit *t, const char *variable, int count) {
    emit_loop_from(t, variable, 0, count, 1);
}

int emit_open_frame(emit *t, const emit_shape *s) {
    const char *down = s->is_lines ? "down" : "m16", *across = s->is_lines ? "across" : "n8";
    int opened = 0;
    if (s->part != PART_COLUMNS) emit_loop(t, down, s->down), opened++;
    if (s->part != PART_ROWS) emit_loop(t, across, s->across), opened++;
    if (s->part == PART_WHOLE) emit_loop(t, "half", s->is_lines ? s->elements / 2 : 2), opened++;
    if (s->part == PART_ROWS && !s->is_lines) emit_loop(t, "half", 2), opened++;
    if (s->part == PART_COLUMNS) emit_loop(t, "element", s->is_lines ? s->elements : 2), opened++;
    return opened;
}

void emit_close_frame(emit *t, int opened) {
    for (int i = 0; i < opened; i++) emit_close(t);
}

static bool leaves_block(const emit_line *line, int indent) {
    return is_placed(line) && line->indent < indent;
}

/* Looks to the end of the block that the declaration is in; where an inner block declares the
 * name again, the rest of that block does not count.
 */
static bool is_used_after(const emit *t, const bool *kept, int at) {
    const emit_line *lines = t->lines.items;
    str name = lines[at].declares;
    int hidden = 0;
    for (int i = at + 1; i < t->lines.count; i++) {
        if (leaves_block(&lines[i], lines[at].indent)) return false;
        if (hidden && leaves_block(&lines[i], hidden)) hidden = 0;
        if (hidden || !kept[i] || emit_is_comment(&lines[i])) continue;
        if (str_equal(lines[i].declares, name)) hidden = lines[i].indent;
        else if (emit_mentions(lines[i].text, name)) return true;
    }
    return false;
}

enum { SHORT_DECLARATION = 100 };

/* Declarations of integers that follow one another share a line while it is short. */
static void join_declarations(emit *t, bool *kept) {
    emit_line *first = NULL;
    str type = STR("const int ");
    for (int i = 0; i < t->lines.count; i++) {
        emit_line *line = &t->lines.items[i];
        if (!kept[i]) continue;
        bool is_one =
            line->declares.length && str_starts(line->text, type) && str_ends(line->text, STR(";"));
        str more = is_one ? (str){line->text.data + type.length, line->text.length - type.length}
                          : (str){0};
        size_t length = first ? (size_t)first->indent + first->text.length + more.length : 0;
        if (is_one && first && first->indent == line->indent && length < SHORT_DECLARATION) {
            first->text.length--;
            first->text = emit_format(t, "%.*s, %.*s", STR_ARGS(first->text), STR_ARGS(more));
            kept[i] = false;
        } else {
            first = is_one ? line : NULL;
        }
    }
}

void emit_write(emit *t, text_buffer *out) {
    bool *kept = arena_array(t->memory, bool, t->lines.count + 1);
    for (int i = t->lines.count - 1; i >= 0; i--) {
        const emit_line *line = &t->lines.items[i];
        kept[i] = !line->is_dropped && (!line->declares.length || is_used_after(t, kept, i));
    }
    join_declarations(t, kept);
    for (int i = 0; i < t->lines.count; i++) {
        emit_line *line = &t->lines.items[i];
        line->is_dropped = !kept[i];
        if (!kept[i]) continue;
        text_repeat(out, ' ', (size_t)line->indent);
        text_add(out, line->text);
        text_add_z(out, "\n");
    }
}

str emit_format(emit *t, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    str text = str_format_list(t->memory, format, arguments);
    va_end(arguments);
    return text;
}

bool emit_has(emit *t, const tl_statement *s, str atom, gpu_feature feature) {
    return gpu_has(t->gpu, feature) ||
           emit_unsupported(t, s->range, emit_format(t, "by %.*s", STR_ARGS(atom)),
                            "this GPU has no such instruction");
}

bool emit_unsupported(emit *t, diag_range range, str what, const char *why, ...) {
    va_list arguments;
    va_start(arguments, why);
    str reason = str_format_list(t->memory, why, arguments);
    va_end(arguments);
    t->failed = true;
    /* A statement may be looked at more than once: for its maps, and for its text. */
    for (const diag *d = t->diags->first; d; d = d->next) {
        if (d->id == DIAG_TRANSLATE_UNSUPPORTED && d->range.begin == range.begin &&
            d->range.end == range.end && str_ends(d->message, reason))
            return false;
    }
    diag_report(t->diags, DIAG_TRANSLATE_UNSUPPORTED, range, what, t->gpu->word, reason);
    return false;
}
