/* The strict printer: one text for a tree. */
#include "base/number.h"
#include "tl/tl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    COMMENT_COLUMN = 60, /* of "//" after a statement; longer lines leave two spaces */
    INDENT = 4,
};

/* --- expressions ------------------------------------------------------------------------------ */

static tl_level level_of(const tl_expr *e) {
    switch (e->kind) {
    case TL_INTEGER: return e->integer < 0 ? TL_LEVEL_UNARY : TL_LEVEL_PRIMARY;
    case TL_NUMBER: return !e->text.length && e->number < 0 ? TL_LEVEL_UNARY : TL_LEVEL_PRIMARY;
    case TL_NEGATE: return TL_LEVEL_UNARY;
    case TL_NOT: return TL_LEVEL_NOT;
    case TL_BINARY: return tl_operator_level(e->operator);
    default: return TL_LEVEL_PRIMARY;
    }
}

static void print_expr(const tl_expr *e, tl_level needed, text_buffer *out);

static void print_list(tl_expr *const *items, int count, tl_level needed, text_buffer *out) {
    for (int i = 0; i < count; i++) {
        if (i) text_add_z(out, ", ");
        print_expr(items[i], needed, out);
    }
}

static void print_binary(const tl_expr *e, text_buffer *out) {
    tl_level own = level_of(e);
    bool is_tight = e->operator== TL_TIMES || e->operator== TL_OVER;
    tl_level left = own == TL_LEVEL_COMPARISON ? TL_LEVEL_SUM : own;
    print_expr(e->left, left, out);
    text_format(out, is_tight ? "%s" : " %s ", tl_operator_text(e->operator));
    print_expr(e->right, own + 1, out);
}

/* The shortest spelling that reads back as the same number. */
static void print_number(double number, text_buffer *out) {
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
        number_print(text, sizeof text, "%.*g", digits, number);
        double back;
        if (str_to_number(str_from(text), &back) && !(back < number) && !(back > number)) break;
    }
    text_add_z(out, text);
    if (!strpbrk(text, ".e")) text_add_z(out, ".0");
}

static void print_bare(const tl_expr *e, text_buffer *out) {
    switch (e->kind) {
    case TL_INTEGER: text_format(out, "%lld", (long long)e->integer); break;
    case TL_NUMBER:
        if (e->text.length) text_add(out, e->text);
        else print_number(e->number, out);
        break;
    case TL_NAME: text_add(out, e->text); break;
    case TL_ELEMENT:
        text_format(out, "%.*s[", STR_ARGS(e->text));
        print_list(e->items, e->item_count, TL_LEVEL_SUM, out);
        text_add_z(out, "]");
        break;
    case TL_CALL:
        text_format(out, "%s(", tl_function_name(e->function));
        print_list(e->items, e->item_count, TL_LEVEL_OR, out);
        text_add_z(out, ")");
        break;
    case TL_NEGATE:
        text_add_z(out, "-");
        print_expr(e->left, TL_LEVEL_UNARY, out);
        break;
    case TL_NOT:
        text_add_z(out, "not ");
        print_expr(e->left, TL_LEVEL_NOT, out);
        break;
    case TL_BINARY: print_binary(e, out); break;
    }
}

static void print_expr(const tl_expr *e, tl_level needed, text_buffer *out) {
    bool in_brackets = level_of(e) < needed;
    if (in_brackets) text_add_z(out, "(");
    print_bare(e, out);
    if (in_brackets) text_add_z(out, ")");
}

static void tl_print_expr(const tl_expr *e, text_buffer *out) {
    print_expr(e, TL_LEVEL_OR, out);
}

str tl_expr_text(arena *memory, const tl_expr *e) {
    text_buffer out;
    text_init_in(&out, memory);
    tl_print_expr(e, &out);
    return text_str(&out);
}

/* --- parts ------------------------------------------------------------------------------------ */

static void print_value(const tl_expr *e, text_buffer *out) {
    print_expr(e, TL_LEVEL_SUM, out);
}

static void print_after(const char *word, const tl_expr *e, text_buffer *out) {
    text_format(out, " %s ", word);
    print_value(e, out);
}

static void print_axes(const tl_axes *axes, text_buffer *out) {
    text_add_z(out, " (");
    for (int i = 0; i < axes->count; i++) {
        bool starts_matrix = axes->has_semicolon && i == axes->matrix;
        if (i) text_add_z(out, starts_matrix ? "; " : ", ");
        if (!axes->items[i].is_bare) {
            print_value(axes->items[i].coordinate, out);
            text_add_z(out, " in ");
        }
        print_value(axes->items[i].extent, out);
    }
    text_add_z(out, ")");
}

static void print_shape(const tl_exprs *shape, text_buffer *out) {
    if (shape->count == 0) return;
    text_add_z(out, " (");
    print_list(shape->items, shape->count, TL_LEVEL_SUM, out);
    text_add_z(out, ")");
}

static void print_place(const tl_place *place, text_buffer *out) {
    if (!place->is_given) return;
    text_add_z(out, " in coordinate [");
    for (int i = 0; i < place->count; i++) {
        if (i) text_add_z(out, ", ");
        if (place->items[i].is_all) text_add_z(out, ":");
        if (place->items[i].is_block) text_add_z(out, "L = ");
        if (place->items[i].at) print_value(place->items[i].at, out);
    }
    text_add_z(out, "]");
}

static void print_layout(const tl_layout *layout, text_buffer *out) {
    if (layout->is_partial) text_add_z(out, " partial");
    text_format(out, " %s", tl_layout_kind_name(layout->kind));
    if (layout->is_permuted) text_add_z(out, " permuted");
    if (layout->over_rows || layout->over_columns) {
        text_format(out, " over (%d, %d)", layout->over_rows, layout->over_columns);
    }
    if (layout->of) print_after("of", layout->of, out);
}

/* What Copy and Compute end with. */
static void print_effect(tl_target_kind kind, const tl_expr *target, str atom, bool is_async,
                         text_buffer *out) {
    if (kind != TL_NO_TARGET)
        print_after(kind == TL_GET ? "and get" : "and accumulate", target, out);
    if (atom.length) text_format(out, " by %.*s", STR_ARGS(atom));
    if (is_async) text_add_z(out, " async");
}

/* --- statements ------------------------------------------------------------------------------- */

static void print_parameter(const tl_statement *s, text_buffer *out) {
    const tl_parameter *parameter = &s->parameter;
    /* Input and Output stand below one another. */
    text_format(out, "%-6s %.*s", tl_statement_word(s->kind), STR_ARGS(parameter->name));
    if (parameter->type != TL_OPEN) text_format(out, " %s", tl_type_name(parameter->type));
    if (parameter->axes.count) print_axes(&parameter->axes, out);
    if (parameter->is_permuted) text_add_z(out, " permuted");
    if (parameter->is_kept) text_add_z(out, " kept");
    if (parameter->condition) {
        text_add_z(out, " where ");
        tl_print_expr(parameter->condition, out);
    }
}

static void print_let(const tl_statement *s, text_buffer *out) {
    for (int i = 0; i < s->let.count; i++) {
        const tl_binding *binding = &s->let.items[i];
        text_format(out, i ? ", %.*s" : "let %.*s", STR_ARGS(binding->name));
        if (binding->axes.count) print_axes(&binding->axes, out);
        print_after("=", binding->value, out);
    }
}

static void print_grid(const tl_statement *s, text_buffer *out) {
    static const char *const kinds[] = {"grid", "grid persistent", "grid dynamic"};
    text_add_z(out, kinds[s->grid.kind]);
    if (s->grid.is_early) text_add_z(out, " early");
    if (s->grid.is_yielding) text_add_z(out, " yielding");
    for (int i = 0; i < s->grid.count; i++) {
        const tl_walk *walk = &s->grid.items[i];
        text_format(out, i ? ", %.*s" : " %.*s", STR_ARGS(walk->name));
        print_after("in", walk->extent, out);
        if (walk->is_reversed) text_add_z(out, " reversed");
        if (walk->section) print_after("sections", walk->section, out);
    }
}

static void print_allocation(const tl_allocation *a, text_buffer *out) {
    text_add_z(out, "Allocate");
    for (int i = 0; i < a->name_count; i++) {
        text_format(out, i ? ", %.*s" : " %.*s", STR_ARGS(a->names[i]));
    }
    text_format(out, " in %s", tl_space_name(a->space));
    if (a->type != TL_OPEN) text_format(out, " %s", tl_type_name(a->type));
    print_shape(&a->shape, out);
    if (a->layout.kind != TL_LAYOUT_NONE) {
        text_add_z(out, " as");
        print_layout(&a->layout, out);
    }
    if (a->by_columns) text_add_z(out, " by columns");
    if (a->is_permuted) text_add_z(out, " permuted");
    if (a->swizzle_bytes) text_format(out, " swizzled %d", a->swizzle_bytes);
    if (a->stages) print_after("stages", a->stages, out);
    if (a->in_place_of.length) text_format(out, " in place of %.*s", STR_ARGS(a->in_place_of));
    if (a->channel.length) text_format(out, " by %.*s", STR_ARGS(a->channel));
    if (a->offset) print_after("with offset", a->offset, out);
}

static void print_copy(const tl_copy *c, text_buffer *out) {
    text_add_z(out, "Copy ");
    print_value(c->what, out);
    print_shape(&c->shape, out);
    print_place(&c->place, out);
    text_format(out, " from %s to %s", tl_space_name(c->from), tl_space_name(c->to));
    print_effect(c->target_kind, c->target, c->atom, c->is_async, out);
}

static void print_compute(const tl_compute *c, text_buffer *out) {
    text_format(out, "Compute %s", tl_operation_name(c->operation));
    for (int i = 0; i < c->operand_count; i++) {
        text_add_z(out, i ? ", " : " ");
        print_value(c->operands[i].value, out);
        if (c->operands[i].is_transposed) text_add_z(out, ".T");
    }
    print_place(&c->place, out);
    if (c->condition) {
        text_add_z(out, " where ");
        tl_print_expr(c->condition, out);
    }
    if (c->maximum) {
        print_after("with", c->maximum, out);
        print_after("and", c->sum, out);
    }
    if (c->values) print_after("with", c->values, out);
    print_effect(c->target_kind, c->target, c->atom, c->is_async, out);
}

static void print_role(const tl_role *role, text_buffer *out) {
    text_format(out, "role %.*s with %d %s%s", STR_ARGS(role->name), role->executors,
                role->is_warpgroups ? "warpgroup" : "warp", role->executors == 1 ? "" : "s");
    if (role->registers) text_format(out, ", %d registers", role->registers);
    for (int i = 0; i < role->turn_count; i++) {
        text_format(out, ", turns %.*s", STR_ARGS(role->turns[i]));
    }
}

static void print_for(const tl_for *loop, text_buffer *out) {
    text_format(out, "for %.*s", STR_ARGS(loop->name));
    if (loop->is_grid_walk) {
        text_add_z(out, " in grid");
        return;
    }
    print_after("=", loop->from, out);
    text_add_z(out, ":");
    print_value(loop->to, out);
}

void tl_print_header(const tl_statement *s, text_buffer *out) {
    switch (s->kind) {
    case TL_INPUT:
    case TL_OUTPUT: print_parameter(s, out); break;
    case TL_LET: print_let(s, out); break;
    case TL_GRID: print_grid(s, out); break;
    case TL_ALLOCATE: print_allocation(&s->allocate, out); break;
    case TL_COPY: print_copy(&s->copy, out); break;
    case TL_COMPUTE: print_compute(&s->compute, out); break;
    case TL_RESHAPE:
        text_add_z(out, "Reshape ");
        print_value(s->reshape.what, out);
        text_add_z(out, " from");
        print_layout(&s->reshape.from, out);
        text_add_z(out, " to");
        print_layout(&s->reshape.to, out);
        break;
    case TL_WAIT:
    case TL_RELEASE:
        text_format(out, "%s ", tl_statement_word(s->kind));
        print_value(s->sync.what, out);
        break;
    case TL_ROLE: print_role(&s->role, out); break;
    case TL_FOR: print_for(&s->loop, out); break;
    case TL_IF:
        text_add_z(out, "if ");
        tl_print_expr(s->branch.condition, out);
        break;
    case TL_HOLE: text_add_z(out, tl_statement_word(s->kind)); break;
    }
}

/* --- lines ------------------------------------------------------------------------------------ */

static void print_comment(str comment, text_buffer *out) {
    text_add_z(out, "//");
    /* "//? option" is a mark for tl_variant_select and keeps its form. */
    if (comment.length && comment.data[0] != '?') text_add_z(out, " ");
    text_add(out, comment);
}

/* Ends a line that began at 'line_begin' of the buffer. */
static void end_line(size_t line_begin, str comment, text_buffer *out) {
    if (comment.length) {
        size_t width = out->length - line_begin;
        text_repeat(out, ' ', width + 2 <= COMMENT_COLUMN ? COMMENT_COLUMN - width : 2);
        print_comment(comment, out);
    }
    text_add_z(out, "\n");
}

static void print_lines(str *lines, int count, int indent, text_buffer *out) {
    for (int i = 0; i < count; i++) {
        text_repeat(out, ' ', (size_t)indent);
        print_comment(lines[i], out);
        text_add_z(out, "\n");
    }
}

static void print_statement(const tl_statement *s, int indent, text_buffer *out);

static void print_block(const tl_block *block, int indent, text_buffer *out) {
    for (const tl_statement *s = block->first; s; s = s->next) {
        if (s->blank_before && s->previous) text_add_z(out, "\n");
        print_statement(s, indent, out);
    }
}

static void print_statement(const tl_statement *s, int indent, text_buffer *out) {
    print_lines(s->lines_before, s->line_before_count, indent, out);
    size_t line_begin = out->length;
    text_repeat(out, ' ', (size_t)indent);
    tl_print_header(s, out);
    end_line(line_begin, s->comment, out);
    const tl_block *body = tl_statement_body((tl_statement *)s);
    if (!body) return;
    print_block(body, indent + INDENT, out);
    print_lines(s->lines_before_end, s->line_before_end_count, indent + INDENT, out);
    line_begin = out->length;
    text_repeat(out, ' ', (size_t)indent);
    text_add_z(out, "end");
    end_line(line_begin, s->end_comment, out);
}

static void print_kernel(const tl_kernel *kernel, text_buffer *out) {
    print_lines(kernel->lines_before, kernel->line_before_count, 0, out);
    size_t line_begin = out->length;
    text_format(out, "kernel %.*s", STR_ARGS(kernel->name));
    if (kernel->gpu.length) text_format(out, " for %.*s", STR_ARGS(kernel->gpu));
    end_line(line_begin, kernel->comment, out);
    print_block(&kernel->body, 0, out);
}

void tl_print(const tl_program *program, text_buffer *out) {
    for (const tl_kernel *kernel = program->first; kernel; kernel = kernel->next) {
        if (kernel != program->first) text_add_z(out, "\n");
        print_kernel(kernel, out);
    }
    print_lines(program->lines_after, program->line_after_count, 0, out);
}
