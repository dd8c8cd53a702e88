/* One elementwise statement on the elements that a thread holds: their indices, values and masks.
 */
#include "translate/elements.h"

#include "tl/boxes.h"

/* --- values ----------------------------------------------------------------------------------- */

static str index_at(emit *t, str name) {
    return emit_format(t, "%.*s_at", STR_ARGS(name));
}

str elements_index_first(emit *t, str name) {
    return emit_format(t, "%.*s_first", STR_ARGS(name));
}

static emit_value origin_of(emit *t, const tl_statement *s, const emit_tile *frame, int axis) {
    const tl_place *place = &s->compute.place;
    if (axis >= place->count || place->items[axis].is_all) return emit_constant(t, 0);
    emit_value v = emit_integer(t, place->items[axis].at, NULL);
    return place->items[axis].is_block ? emit_product(t, v, emit_extent(t, frame, axis)) : v;
}

str elements_row_offset(emit *t, const emit_shape *s) {
    if (!s->is_lines) return emit_fragment_row(s);
    return s->down > 1 ? emit_format(t, "%d * down", s->row_step) : STR("0");
}

static str column_offset(emit *t, const emit_shape *s, int e) {
    if (s->part == PART_COLUMNS) {
        if (s->is_lines) return emit_format(t, "%d * across + element", s->column_step);
        return s->alternates ? STR("(n8 / 2 * 16 + n8 % 2 + 2 * element)")
                             : STR("8 * n8 + element");
    }
    if (!s->is_lines) return emit_fragment_column(s, e);
    return emit_format(t, e ? "%d * across + 2 * half + 1" : "%d * across + 2 * half",
                       s->column_step);
}

bool elements_use(const tl_statement *s, str index) {
    if (!index.length) return false;
    if (tl_uses_index(s->compute.condition, index)) return true;
    for (int i = 0; i < s->compute.operand_count; i++) {
        if (tl_uses_index(s->compute.operands[i].value, index)) return true;
    }
    return false;
}

/* Index names of a statement in the order rows, columns; empty where the frame has no such axis. */
void elements_index_names(const elements_item *x, str names[2]) {
    const tl_tile *tile = x->frame->tile;
    bool columns = x->frame->shape.part == PART_COLUMNS;
    names[0] = columns || tile->axis_count < 1 ? (str){0} : tile->axes[0].index;
    names[1] = columns                ? tile->axes[0].index
               : tile->axis_count > 1 ? tile->axes[1].index
                                      : (str){0};
}

bool elements_use_places(const elements_item *x) {
    str names[2];
    if (tl_facts(x->s->compute.operation)->gives_place) return true;
    elements_index_names(x, names);
    return elements_use(x->s, names[0]) || elements_use(x->s, names[1]);
}

void elements_declare_first(emit *t, const elements_item *x) {
    str names[2];
    elements_index_names(x, names);
    for (int i = 0; i < 2; i++) {
        if (!elements_use(x->s, names[i])) continue;
        emit_value origin = origin_of(t, x->s, x->frame, x->frame->is_vector ? 0 : i);
        str own = i ? x->frame->own_column : x->frame->own_row;
        str first = elements_index_first(t, names[i]);
        if (emit_is_wide(origin)) {
            origin =
                emit_named(emit_format(t, "(int)(%.*s)", STR_ARGS(origin.text)), 0, EMIT_SIZE_MAX);
        }
        emit_value sum = emit_sum(t, origin, emit_named(own, 0, INT16_MAX));
        emit_text(t, "const int %.*s = %.*s;", STR_ARGS(first), STR_ARGS(sum.text));
    }
}

emit_value elements_first_column(emit *t, const elements_item *x) {
    return origin_of(t, x->s, x->frame, 1);
}

static void declare_at(emit *t, const elements_item *x) {
    str names[2];
    elements_index_names(x, names);
    for (int i = 0; i < 2; i++) {
        if (!elements_use(x->s, names[i])) continue;
        str offset =
            i ? column_offset(t, &x->frame->shape, 0) : elements_row_offset(t, &x->frame->shape);
        str at = index_at(t, names[i]), first = elements_index_first(t, names[i]);
        emit_declare(t, at, "const int %.*s = %.*s + %.*s;", STR_ARGS(at), STR_ARGS(first),
                     STR_ARGS(offset));
    }
}

/* An index of the element, without what the second column of a pair has more. */
static emit_value index_value(emit *t, const elements_item *x, str name, bool is_column,
                              bool is_written_out) {
    if (!name.length) return emit_named((str){0}, 0, EMIT_SIZE_MAX);
    const emit_shape *s = &x->frame->shape;
    str first = elements_index_first(t, name),
        offset = is_column ? column_offset(t, s, 0) : elements_row_offset(t, s);
    emit_value v = emit_named(
        is_written_out ? emit_format(t, "(%.*s + %.*s)", STR_ARGS(first), STR_ARGS(offset))
                       : index_at(t, name),
        0, EMIT_SIZE_MAX);
    v.same = first, v.unrolled = offset;
    return v;
}

/* Index names are `..._at` (and one more for the second column of a pair), or written out. */
emit_scope elements_scope(emit *t, const elements_item *x, int e, bool is_written_out,
                          emit_index indices[2]) {
    str names[2];
    elements_index_names(x, names);
    for (int i = 0; i < 2; i++) {
        emit_value v = index_value(t, x, names[i], i == 1, is_written_out);
        if (i == 1 && e) v = emit_sum(t, v, emit_constant(t, x->frame->shape.alternates ? 2 : 1));
        indices[i] = (emit_index){names[i], v};
    }
    return (emit_scope){.indices = indices,
                        .index_count = 2,
                        .frame = &x->frame->shape,
                        .element = e,
                        .reads = &x->once};
}

static emit_value operand_value(emit *t, const elements_item *x, int operand, int e) {
    emit_index indices[2];
    emit_scope scope = elements_scope(t, x, e, false, indices);
    const tl_expr *value = x->s->compute.operands[operand].value;
    emit_value v = emit_expression(t, value, &scope);
    return v;
}

static str operation_text(emit *t, const elements_item *x, const emit_value *v, int count) {
    const tl_compute *c = &x->s->compute;
    const char *wrapper = tl_facts(c->operation)->wrapper;
    str text[3];
    for (int i = 0; i < count; i++) text[i] = emit_real(t, v[i]);
    if (!wrapper) {
        elements_refuse(t, x->s, "there is no form for it");
        return STR("0.0f");
    }
    if (!*wrapper) return text[0];
    if (count == 1) return emit_format(t, "%s(%.*s)", wrapper, STR_ARGS(text[0]));
    if (count == 2)
        return emit_format(t, "%s(%.*s, %.*s)", wrapper, STR_ARGS(text[0]), STR_ARGS(text[1]));
    return emit_format(t, "%s(%.*s, %.*s, %.*s)", wrapper, STR_ARGS(text[0]), STR_ARGS(text[1]),
                       STR_ARGS(text[2]));
}

/* Integer tiles: the few operations that mean something there. */
static str integer_text(emit *t, const elements_item *x, const emit_value *v, int count) {
    switch (x->s->compute.operation) {
    case TL_FILL:
    case TL_CAST: return v[0].text;
    case TL_ADD: return emit_sum(t, v[0], v[1]).text;
    case TL_SUBTRACT: return emit_difference(t, v[0], v[1]).text;
    case TL_MULTIPLY: return emit_product(t, v[0], v[1]).text;
    case TL_MULTIPLY_ADD: return emit_sum(t, emit_product(t, v[0], v[1]), v[2]).text;
    case TL_MAX:
    case TL_MIN:
        return emit_format(t, "ftl_%s_integer(%.*s, %.*s)",
                           x->s->compute.operation == TL_MAX ? "max" : "min", STR_ARGS(v[0].text),
                           STR_ARGS(v[count - 1].text));
    default: elements_refuse(t, x->s, "there is no form for it on integers"); return STR("0");
    }
}

/* --- masks ------------------------------------------------------------------------------------ */

static bool is_no_table_or_tile(void *context, const tl_expr *e) {
    return e->kind != TL_ELEMENT && (e->kind != TL_NAME || !emit_tile_of(context, e));
}

bool elements_has_table_or_tile(emit *t, const tl_expr *e) {
    return !tl_visit(e, is_no_table_or_tile, t);
}

/* Does a condition have a test with no limit, where there is room for no more limits? */
static bool is_surplus(const elements_mask *m, const tl_expr *e) {
    if (m->count < LIMITS_MAX) return false;
    if (e->kind == TL_NOT) return is_surplus(m, e->left);
    if (e->kind == TL_BINARY && (e->operator== TL_AND || e->operator== TL_OR))
        return is_surplus(m, e->left) || is_surplus(m, e->right);
    for (int i = 0; i < m->count; i++)
        if (m->limits[i].test == e) return false;
    return true;
}

static str condition_text(emit *t, const elements_mask *m, const tl_expr *e, int element) {
    const emit_shape *s = &m->x->frame->shape;
    for (int i = 0; i < m->count; i++) {
        const elements_limit *l = &m->limits[i];
        if (l->test != e) continue;
        str column = column_offset(t, s, element);
        if (l->slant == 1 && s->down == 1)
            column = emit_format(t, "%.*s - 8 * half", STR_ARGS(column));
        else if (l->slant)
            column = emit_format(t, "%.*s - %lld * (%.*s)", STR_ARGS(column), (long long)l->slant,
                                 STR_ARGS(emit_fragment_row(s)));
        return emit_format(t, "%.*s %s %.*s%s", STR_ARGS(column), tl_operator_text(l->operator),
                           STR_ARGS(l->name), elements_limit_row(m, l));
    }
    if (e->kind == TL_NOT)
        return emit_format(t, "!(%.*s)", STR_ARGS(condition_text(t, m, e->left, element)));
    if (e->kind == TL_BINARY && (e->operator== TL_AND || e->operator== TL_OR)) {
        /* A load that hangs on the other side would be a branch, in which no register may be
         * touched that an asynchronous product has: both sides are worked out. So would a test
         * that came too late for a limit, and the compiler, which gives the element another
         * register in that branch, may copy it from one to the other between two products. */
        const char *word = e->operator== TL_AND ? "&&" : "||";
        str a = condition_text(t, m, e->left, element), b = condition_text(t, m, e->right, element);
        bool is_branch =
            elements_has_table_or_tile(t, e) || (t->is_async && is_surplus(m, e->right));
        return emit_format(t, "(%.*s) %.*s (%.*s)", STR_ARGS(a), is_branch ? 1 : 2, word,
                           STR_ARGS(b));
    }
    emit_index indices[2];
    emit_scope scope = elements_scope(t, m->x, element, false, indices);
    return emit_expression(t, e, &scope).text;
}

/* --- one statement on the two elements of a pair (or the one of a vector) --------------------- */

static str new_value(emit *t, const elements_item *x, const elements_mask *m, int e) {
    const tl_compute *c = &x->s->compute;
    if (c->operation == TL_MASK) {
        str other = STR("-ftl_infinity()");
        if (c->operand_count > 1) {
            emit_value v = operand_value(t, x, 1, e);
            other = x->target->type == TL_I32 ? v.text : emit_real(t, v);
        }
        str old = emit_element(t, x->target, &x->frame->shape, e);
        return emit_format(t, "%.*s ? %.*s : %.*s", STR_ARGS(condition_text(t, m, c->condition, e)),
                           STR_ARGS(other), STR_ARGS(old));
    }
    emit_value v[3];
    for (int i = 0; i < c->operand_count && i < 3; i++) v[i] = operand_value(t, x, i, e);
    bool is_real = false;
    for (int i = 0; i < c->operand_count && i < 3; i++) is_real = is_real || v[i].is_real;
    if (x->target->type == TL_I32 && !is_real) return integer_text(t, x, v, c->operand_count);
    if (x->target->type == TL_I32) {
        str real = c->operation == TL_FILL ? emit_real(t, v[0])
                                           : operation_text(t, x, v, c->operand_count);
        return emit_format(t, "ftl_nearest(%.*s)", STR_ARGS(real));
    }
    str text = operation_text(t, x, v, c->operand_count);
    if (c->target_kind != TL_ACCUMULATE) return text;
    str sum = emit_element(t, x->target, &x->frame->shape, e);
    if (c->operation == TL_MULTIPLY) /* one rounding instead of two */
        return emit_format(t, "ftl_multiply_add(%.*s, %.*s, %.*s)", STR_ARGS(emit_real(t, v[0])),
                           STR_ARGS(emit_real(t, v[1])), STR_ARGS(sum));
    return emit_format(t, "ftl_add(%.*s, %.*s)", STR_ARGS(sum), STR_ARGS(text));
}

/* The largest so far and its place, column by column from the thread's first one on. */
static void take_larger(emit *t, const elements_item *x) {
    str to = emit_element(t, x->target, &x->frame->shape, 0);
    for (int e = 0; e < 2; e++) {
        emit_text(t, "ftl_take_further(most_of_%.*s, %.*s, %.*s, first_of_%.*s + %.*s);",
                  STR_ARGS(to), STR_ARGS(to), STR_ARGS(emit_real(t, operand_value(t, x, 0, e))),
                  STR_ARGS(x->target->name), STR_ARGS(column_offset(t, &x->frame->shape, e)));
    }
}

static void reduce_pair(emit *t, const elements_item *x) {
    if (tl_facts(x->s->compute.operation)->gives_place) {
        take_larger(t, x);
        return;
    }
    /* A sum takes one element after the other: added up in pairs first, the pairs would wait in
     * registers. */
    str a = emit_real(t, operand_value(t, x, 0, 0)), b = emit_real(t, operand_value(t, x, 0, 1));
    str to = emit_element(t, x->target, &x->frame->shape, 0);
    const char *wrapper = tl_facts(tl_combining(x->s->compute.operation))->wrapper;
    if (tl_reduces_by_choice(x->s->compute.operation)) {
        emit_text(t, "%.*s = %s(%.*s, %s(%.*s, %.*s));", STR_ARGS(to), wrapper, STR_ARGS(to),
                  wrapper, STR_ARGS(a), STR_ARGS(b));
        return;
    }
    if (!x->partial) to = emit_format(t, "sum_of_%.*s", STR_ARGS(to));
    emit_text(t, "%.*s = %s(%s(%.*s, %.*s), %.*s);", STR_ARGS(to), wrapper, wrapper, STR_ARGS(to),
              STR_ARGS(a), STR_ARGS(b));
}

void elements_add_alike(emit *t, const elements_item *x, int count) {
    if (!count) return;
    str value = emit_real(t, operand_value(t, x, 0, 1));
    str to = emit_element(t, x->target, &x->frame->shape, 0);
    if (!x->partial) to = emit_format(t, "sum_of_%.*s", STR_ARGS(to));
    emit_text(t, "%.*s = ftl_multiply_add(%.*s, %d.0f, %.*s);", STR_ARGS(to), STR_ARGS(value),
              count, STR_ARGS(to));
}

bool elements_has_codes(const elements_item *x) {
    return x->s->compute.operation == TL_FROM_CODE && x->s->compute.target_kind == TL_GET &&
           x->target->type == TL_E4M3 && emit_has_quads(x->target) && !x->target->shape.is_lines &&
           x->target->shape.down == 1;
}

/* Does a vote in this block ask for numbers from 256 on, before the tile is written again? */
static bool is_asked(emit *t, const elements_item *x) {
    for (const tl_statement *s = x->s->next; s; s = s->next) {
        const tl_expr *call = s->kind == TL_LET && s->let.count == 1 ? s->let.items[0].value : NULL;
        if (call && emit_asks_for_high(t, call, x->target)) return true;
        if (tl_statement_body((tl_statement *)(uintptr_t)s)) return false;
        if (tl_writes(s, x->target->symbol)) return false;
    }
    return false;
}

/* Are they powers, or codes: not below 0? Then bits tell which numbers are large. */
static bool is_positive(const elements_item *x) {
    const tl_expr *from = x->s->compute.operands[0].value;
    if (elements_has_codes(x)) return true;
    if (x->s->compute.operation != TL_CAST || from->kind != TL_NAME) return false;
    for (const tl_statement *s = x->s->previous; s && s->kind == TL_COMPUTE; s = s->previous) {
        if (!tl_writes(s, from->symbol)) continue;
        return s->compute.operation == TL_EXP2 && s->compute.target_kind == TL_GET;
    }
    return false;
}

bool elements_notes_high(emit *t, const elements_item *x) {
    if (elements_has_codes(x)) return true; /* those past the last one are put right */
    return x->target->type == TL_E4M3 && emit_has_quads(x->target) && !x->target->shape.is_lines &&
           x->s->compute.target_kind == TL_GET && is_positive(x) && is_asked(t, x);
}

/* Of four elements that share a register two come at a time: of fragments with every second column
 * tile.
 */
static void quad(emit *t, const elements_item *x, const elements_mask *m) {
    const char *to = str_copy_z(t->memory, x->target->name);
    bool is_coded = elements_has_codes(x), is_lines = x->target->shape.is_lines;
    str low = is_coded ? emit_real(t, operand_value(t, x, 0, 0)) : new_value(t, x, m, 0);
    str high = is_coded ? emit_real(t, operand_value(t, x, 0, 1)) : new_value(t, x, m, 1);
    str word = is_coded ? STR("codes") : str_from(emit_type_word(x->target->type));
    str rest = emit_format(t, is_lines ? "%s_rest[0]" : "%s_rest[half]", to);
    str whole = emit_quad(t, x->target);
    emit_open(t, "if (%s %% 2 == 0) {", is_lines ? "half" : "n8");
    emit_text(t, "%.*s[0] = %.*s;", STR_ARGS(rest), STR_ARGS(low));
    emit_text(t, "%.*s[1] = %.*s;", STR_ARGS(rest), STR_ARGS(high));
    emit_else(t);
    if (x->target->shape.alternates) { /* columns of both tiles in turns */
        emit_text(t, "%.*s = ftl_quad_of_%.*s(%.*s[0], %.*s, %.*s[1], %.*s);", STR_ARGS(whole),
                  STR_ARGS(word), STR_ARGS(rest), STR_ARGS(low), STR_ARGS(rest), STR_ARGS(high));
    } else {
        emit_text(t, "%.*s = ftl_quad_of_%.*s(%.*s[0], %.*s[1], %.*s, %.*s);", STR_ARGS(whole),
                  STR_ARGS(word), STR_ARGS(rest), STR_ARGS(rest), STR_ARGS(low), STR_ARGS(high));
    }
    if (elements_notes_high(t, x))
        emit_text(t, "ftl_note_codes(%s_noted, %.*s);", to, STR_ARGS(whole));
    emit_close(t);
}

void elements_statement(emit *t, const elements_item *x, const elements_mask *m) {
    declare_at(t, x);
    if (x->reduces) {
        reduce_pair(t, x);
        return;
    }
    const emit_tile *to = x->target;
    if (emit_has_quads(to)) {
        quad(t, x, m);
        return;
    }
    if (to->is_packed) {
        const char *down = to->shape.is_lines ? "down" : "m16",
                   *across = to->shape.is_lines ? "across" : "n8";
        emit_text(t, "%.*s[%s][%s][half] = ftl_pack_%s(%.*s, %.*s);", STR_ARGS(to->name), down,
                  across, emit_type_word(to->type), STR_ARGS(new_value(t, x, m, 0)),
                  STR_ARGS(new_value(t, x, m, 1)));
        return;
    }
    int elements = x->frame->shape.part == PART_WHOLE ? 2 : 1;
    str value[2];
    for (int e = 0; e < elements; e++) value[e] = new_value(t, x, m, e);
    for (int e = 0; e < elements; e++) {
        str text = value[e];
        if (to->is_vector && tl_type_bits(to->type) == 16) {
            text = emit_format(t, "ftl_round_%s(%.*s)", emit_type_word(to->type), STR_ARGS(text));
        }
        emit_text(t, "%.*s = %.*s;", STR_ARGS(emit_element(t, to, &x->frame->shape, e)),
                  STR_ARGS(text));
    }
}
