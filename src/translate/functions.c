/* Functions of the text. What a kernel does at several places, with the same arrays or others, is
 * written once: lines that a statement made may become a call of a function that is told its arrays
 * and numbers. All of them are inlined, so the machine code is that of the lines themselves.
 */
#include "translate/emit.h"

/* Lines of a function besides its body: its head, its end, and one to the next. */
enum { SHORTEST = 3, FRAME_LINES = 3 };

/* The lines as a function's body; empty where they cannot be one. */
static str body_of(emit *t, const emit_candidate *c, const emit_parameter *parameters, int count) {
    text_buffer body;
    text_init_in(&body, t->memory);
    const emit_line *lines = &t->lines.items[c->first];
    bool has_braces = str_is(lines[0].text, "{"); /* the function's own serve */
    int outer = c->indent - (has_braces ? 0 : EMIT_INDENT), code_lines = 0;
    for (int i = has_braces; i < c->count - has_braces; i++) {
        str code = lines[i].text;
        if (emit_is_comment(&lines[i])) continue;
        if (!code.length || code.data[0] == '#') return (str){0};
        for (int k = 0; k < count; k++)
            code = emit_with(t, code, parameters[k].here, parameters[k].name);
        text_repeat(&body, ' ', (size_t)(lines[i].indent - outer));
        text_format(&body, "%.*s\n", STR_ARGS(code));
        code_lines++;
    }
    return code_lines < SHORTEST ? (str){0} : text_str(&body);
}

void emit_may_be_function(emit *t, int first, const tl_statement *s, const emit_tile *target,
                          const emit_parameter *parameters, int count) {
    if (t->failed || first >= t->lines.count) return;
    emit_candidate c = {
        .first = first, .count = t->lines.count - first, .indent = t->lines.items[first].indent};
    c.body = body_of(t, &c, parameters, count);
    if (!c.body.length) return;
    const char *does = s->compute.target_kind == TL_ACCUMULATE ? "accumulate" : "get";
    c.name = emit_format(t, "%s_%s_%.*s", t->plan->entry, does, STR_ARGS(target->symbol->name));
    for (int i = 0; i < count; i++) {
        const emit_parameter *p = &parameters[i];
        if (!emit_mentions(c.body, p->name)) continue;
        const char *comma = c.parameters.length ? ", " : "";
        c.parameters =
            emit_format(t, "%.*s%s%.*s", STR_ARGS(c.parameters), comma, STR_ARGS(p->declaration));
        c.arguments = emit_format(t, "%.*s%s%.*s", STR_ARGS(c.arguments), comma, STR_ARGS(p->here));
    }
    list_push(t->memory, &t->candidates, c);
}

static bool is_same(const emit_candidate *a, const emit_candidate *b) {
    return str_equal(a->body, b->body) && str_equal(a->parameters, b->parameters);
}

/* Of the finished text, where long ones are broken. */
static int lines_of(str body) {
    enum { LONG = 90 };
    int lines = 0;
    while (body.length) lines += 1 + (int)str_cut(&body, '\n').length / LONG;
    return lines;
}

/* The headings of the statements stay where they are; after them comes the call. */
static void become_call(emit *t, const emit_candidate *c, str name) {
    emit_line *lines = &t->lines.items[c->first];
    int kept = 0;
    for (int i = 0; i < c->count; i++) {
        if (!lines[i].is_heading) continue;
        lines[kept] = lines[i];
        lines[kept++].indent = c->indent;
    }
    const tl_statement *about = lines[kept ? kept - 1 : 0].about;
    str call = emit_format(t, "%.*s(%.*s);", STR_ARGS(name), STR_ARGS(c->arguments));
    lines[kept++] = (emit_line){.text = call, .indent = c->indent, .about = about};
    for (int i = kept; i < c->count; i++) lines[i] = (emit_line){.is_dropped = true};
}

/* Functions of one name are told apart by numbers. */
static str own_name(emit *t, const emit_candidate *c, const str *names, int count) {
    str name = c->name;
    for (int i = 0, number = 2; i < count; i++) {
        if (!str_equal(names[i], name)) continue;
        name = emit_format(t, "%.*s_%d", STR_ARGS(c->name), number++);
        i = -1;
    }
    return name;
}

void emit_functions(emit *t, text_buffer *out) {
    int count = t->candidates.count, written = 0;
    str *names = arena_array(t->memory, str, count + 1);
    for (int i = 0; i < count; i++) {
        emit_candidate *c = &t->candidates.items[i];
        int uses = 0, lines = lines_of(c->body);
        for (int j = i; j < count && !c->is_done; j++) uses += is_same(c, &t->candidates.items[j]);
        if (uses * (lines - 1) <= lines + FRAME_LINES) continue;
        str name = own_name(t, c, names, written);
        if (!written)
            text_add_z(out, "// What the kernel does at several places, inlined at each.\n");
        names[written++] = name;
        text_format(out, "__device__ __forceinline__ void %.*s(%.*s) {\n%.*s}\n\n", STR_ARGS(name),
                    STR_ARGS(c->parameters), STR_ARGS(c->body));
        for (int j = count - 1; j >= i; j--) {
            emit_candidate *other = &t->candidates.items[j];
            if (!is_same(c, other)) continue;
            become_call(t, other, name);
            other->is_done = true;
        }
    }
}
