/* Runs of elementwise statements, fused: statements over one layout share one unrolled loop, where
 * each element sees them in order. Statements over other layouts, and those that need a finished
 * reduction, go into loops of their own, before or behind as their operands allow.
 */
#include "translate/emit.h"

#include <limits.h>

enum { RUN_MAX = 64, READS_MAX = 16 };

typedef struct item {
    const tl_statement *s;
    const emit_tile *frame; /* whose elements the loop runs over */
    const emit_tile *target;
    const emit_tile *reads[READS_MAX];
    int read_count;
    bool reduces;
    bool partial; /* reduces: the target keeps each lane's part */
    bool is_done;
} item;

typedef struct run {
    emit *t;
    item items[RUN_MAX];
    int count;
} run;

bool emit_is_elementwise(const tl_statement *s) {
    return s->kind == TL_COMPUTE && s->compute.operation != TL_GEMM &&
           s->compute.operation != TL_SOFTMAX;
}

/* --- what a statement touches --------------------------------------------------------------------
 */

static void note_read(item *x, const emit_tile *tile) {
    if (tile && x->read_count < READS_MAX) x->reads[x->read_count++] = tile;
}

static void note_reads(emit *t, item *x, const tl_expr *e) {
    if (!e) return;
    if (e->kind == TL_NAME) note_read(x, emit_tile_of(t, e));
    note_reads(t, x, e->left);
    note_reads(t, x, e->right);
    for (int i = 0; i < e->item_count; i++) note_reads(t, x, e->items[i]);
}

static bool is_reduction(const tl_compute *c) {
    return tl_operation_shape(c->operation) == TL_SHAPE_REDUCTION;
}

static bool same_frame(const emit_tile *a, const emit_tile *b) {
    return a->shape.part == b->shape.part && a->shape.is_lines == b->shape.is_lines &&
           layout_equal(&a->layout, &b->layout);
}

static bool fits_frame(const emit_tile *tile, const emit_tile *frame) {
    if (tile->shape.part == frame->shape.part) return same_frame(tile, frame);
    if (frame->shape.part != PART_WHOLE) return false;
    layout vector =
        layout_vector(&frame->layout, tile->shape.part == PART_ROWS ? LAYOUT_ROWS : LAYOUT_COLUMNS);
    return layout_equal(&vector, &tile->layout);
}

static bool refuse(emit *t, const tl_statement *s, const char *why) {
    emit_unsupported(t, s->range,
                     emit_format(t, "Compute %s", tl_operation_name(s->compute.operation)), "%s",
                     why);
    return false;
}

static bool make_item(emit *t, const tl_statement *s, item *x) {
    const tl_compute *c = &s->compute;
    *x = (item){.s = s, .reduces = is_reduction(c)};
    for (int i = 0; i < c->operand_count; i++) note_reads(t, x, c->operands[i].value);
    note_reads(t, x, c->condition);
    if (t->is_async) emit_note_write(t, s);
    x->target = emit_target_of(t, s);
    if (!x->target || x->target->space != TL_REGISTER)
        return refuse(t, s, "its target is a register tile");
    if (c->target_kind == TL_ACCUMULATE || c->operation == TL_MASK) note_read(x, x->target);
    x->frame = x->target;
    if (x->reduces) {
        x->frame = emit_tile_of(t, c->operands[0].value);
        x->partial = emit_tile_partial_at(t, s, x->target);
        if (!x->frame || x->frame->is_vector || x->target->shape.part != PART_ROWS ||
            c->operands[0].is_transposed) {
            return refuse(t, s, "only matrices are reduced, along their rows");
        }
        if (c->operation == TL_ROW_ARG_MAX) return refuse(t, s, "there is no form for it yet");
        if (!x->partial && layout_warp_copies(&x->target->layout) > 1) {
            return refuse(t, s, "a row lies in more than one warp");
        }
    }
    for (int i = 0; i < x->read_count; i++) {
        const emit_tile *tile = x->reads[i];
        if (tile->space != TL_REGISTER) return refuse(t, s, "its operands are register tiles");
        if (!fits_frame(tile, x->frame)) {
            t->failed = true;
            diag_report(t->diags, DIAG_TRANSLATE_LAYOUT, s->range, tile->name, x->frame->name);
            return false;
        }
    }
    if (!fits_frame(x->target, x->frame)) {
        t->failed = true;
        diag_report(t->diags, DIAG_TRANSLATE_LAYOUT, s->range, x->frame->name, x->target->name);
        return false;
    }
    return true;
}

/* --- order
 * ------------------------------------------------------------------------------------------ */

static bool reads_tile(const item *x, const emit_tile *tile) {
    for (int i = 0; i < x->read_count; i++) {
        if (x->reads[i] == tile) return true;
    }
    return false;
}

static bool conflict_on(const item *a, const item *b, const emit_tile *tile) {
    bool a_writes = a->target == tile, b_writes = b->target == tile;
    return (a_writes && (b_writes || reads_tile(b, tile))) || (b_writes && reads_tile(a, tile));
}

static bool conflicts(const item *a, const item *b) {
    return conflict_on(a, b, a->target) || conflict_on(a, b, b->target);
}

/* May b stand behind a in one loop? Yes where all they share is touched element by element. */
static bool fuses(const item *a, const item *b) {
    const emit_tile *shared[2] = {a->target, b->target};
    for (int i = 0; i < 2; i++) {
        if (!conflict_on(a, b, shared[i])) continue;
        if (shared[i]->shape.part != a->frame->shape.part) return false;
    }
    return true;
}

static bool may_join(const run *r, const int *group, int count, int j) {
    const item *x = &r->items[j];
    if (!same_frame(x->frame, r->items[group[0]].frame)) return false;
    for (int k = 0; k < j; k++) {
        const item *before = &r->items[k];
        if (before->is_done || !conflicts(before, x)) continue;
        bool inside = false;
        for (int i = 0; i < count; i++) inside |= group[i] == k;
        if (!inside || !fuses(before, x)) return false;
    }
    return true;
}

/* --- values
 * ------------------------------------------------------------------------------------------- */

static str index_at(emit *t, str name) {
    return emit_format(t, "%.*s_at", STR_ARGS(name));
}

static str index_first(emit *t, str name, const tl_statement *s) {
    (void)s;
    return emit_format(t, "%.*s_first", STR_ARGS(name));
}

static emit_value origin_of(emit *t, const tl_statement *s, const emit_tile *frame, int axis) {
    const tl_place *place = &s->compute.place;
    if (axis >= place->count || place->items[axis].is_all) return emit_constant(t, 0);
    emit_value v = emit_integer(t, place->items[axis].at, NULL);
    int extent = axis ? frame->columns : frame->rows;
    return place->items[axis].is_block ? emit_product(t, v, emit_constant(t, extent)) : v;
}

static str row_offset(emit *t, const emit_shape *s) {
    if (!s->is_lines) return STR("16 * m16 + 8 * half");
    return s->down > 1 ? emit_format(t, "%d * down", s->row_step) : STR("0");
}

static str column_offset(emit *t, const emit_shape *s, int e) {
    if (s->part == PART_COLUMNS) {
        return s->is_lines ? emit_format(t, "%d * across + element", s->column_step)
                           : STR("8 * n8 + element");
    }
    if (!s->is_lines) return e ? STR("8 * n8 + 1") : STR("8 * n8");
    return emit_format(t, e ? "%d * across + 2 * half + 1" : "%d * across + 2 * half",
                       s->column_step);
}

static bool statement_uses(const tl_statement *s, str index) {
    if (!index.length) return false;
    if (emit_uses_index(s->compute.condition, index)) return true;
    for (int i = 0; i < s->compute.operand_count; i++) {
        if (emit_uses_index(s->compute.operands[i].value, index)) return true;
    }
    return false;
}

/* Index names of a statement in the order rows, columns; empty where the frame has no such axis. */
static void index_names(const item *x, str names[2]) {
    const tl_tile *tile = x->frame->tile;
    bool columns = x->frame->shape.part == PART_COLUMNS;
    names[0] = columns || tile->axis_count < 1 ? (str){0} : tile->axes[0].index;
    names[1] = columns                ? tile->axes[0].index
               : tile->axis_count > 1 ? tile->axes[1].index
                                      : (str){0};
}

static bool uses_places(const item *x) {
    str names[2];
    index_names(x, names);
    return statement_uses(x->s, names[0]) || statement_uses(x->s, names[1]);
}

static void declare_first(emit *t, const item *x) {
    str names[2];
    index_names(x, names);
    for (int i = 0; i < 2; i++) {
        if (!statement_uses(x->s, names[i])) continue;
        emit_value origin = origin_of(t, x->s, x->frame, x->frame->is_vector ? 0 : i);
        str own = i ? x->frame->own_column : x->frame->own_row;
        str first = index_first(t, names[i], x->s);
        if (emit_is_wide(origin)) {
            origin =
                emit_named(emit_format(t, "(int)(%.*s)", STR_ARGS(origin.text)), 0, EMIT_SIZE_MAX);
        }
        emit_value sum = emit_sum(t, origin, emit_named(own, 0, INT16_MAX));
        emit_text(t, "const int %.*s = %.*s;", STR_ARGS(first), STR_ARGS(sum.text));
    }
}

static void declare_at(emit *t, const item *x) {
    str names[2];
    index_names(x, names);
    for (int i = 0; i < 2; i++) {
        if (!statement_uses(x->s, names[i])) continue;
        str offset = i ? column_offset(t, &x->frame->shape, 0) : row_offset(t, &x->frame->shape);
        str at = index_at(t, names[i]), first = index_first(t, names[i], x->s);
        emit_declare(t, at, "const int %.*s = %.*s + %.*s;", STR_ARGS(at), STR_ARGS(first),
                     STR_ARGS(offset));
    }
}

/* Scope of one element: index names are `..._at` (and one more for the second column of a pair). */
static emit_scope element_scope(emit *t, const item *x, int e, emit_index indices[2]) {
    str names[2];
    index_names(x, names);
    for (int i = 0; i < 2; i++) {
        str at = names[i].length ? index_at(t, names[i]) : (str){0};
        emit_value v = emit_named(at, 0, EMIT_SIZE_MAX);
        if (names[i].length) {
            v.same = index_first(t, names[i], x->s);
            v.unrolled =
                i ? column_offset(t, &x->frame->shape, 0) : row_offset(t, &x->frame->shape);
        }
        if (i == 1 && e) v = emit_sum(t, v, emit_constant(t, 1));
        indices[i] = (emit_index){names[i], v};
    }
    return (emit_scope){
        .indices = indices, .index_count = 2, .frame = &x->frame->shape, .element = e};
}

static emit_value operand_value(emit *t, const item *x, int operand, int e) {
    emit_index indices[2];
    emit_scope scope = element_scope(t, x, e, indices);
    const tl_expr *value = x->s->compute.operands[operand].value;
    emit_value v = emit_expression(t, value, &scope);
    return v;
}

static str operation_text(emit *t, const item *x, const emit_value *v, int count) {
    const tl_compute *c = &x->s->compute;
    static const char *const wrappers[] = {
        [TL_EXP] = "ftl_exp",           [TL_EXP2] = "ftl_exp2",
        [TL_LOG] = "ftl_log",           [TL_LOG2] = "ftl_log2",
        [TL_TANH] = "ftl_tanh",         [TL_ERF] = "ftl_erf",
        [TL_ERFC] = "ftl_erfc",         [TL_SQRT] = "ftl_sqrt",
        [TL_RSQRT] = "ftl_rsqrt",       [TL_RECIPROCAL] = "ftl_reciprocal",
        [TL_ABS] = "ftl_abs",           [TL_ADD] = "ftl_add",
        [TL_SUBTRACT] = "ftl_subtract", [TL_MULTIPLY] = "ftl_multiply",
        [TL_DIVIDE] = "ftl_divide",     [TL_MAX] = "ftl_max",
        [TL_MIN] = "ftl_min",           [TL_MULTIPLY_ADD] = "ftl_multiply_add",
        [TL_OPERATION_UNKNOWN] = NULL};
    const char *wrapper = wrappers[c->operation];
    str text[3];
    for (int i = 0; i < count; i++) text[i] = emit_real(t, v[i]);
    if (c->operation == TL_FILL || c->operation == TL_CAST) return text[0];
    if (!wrapper) {
        refuse(t, x->s, "there is no form for it");
        return STR("0.0f");
    }
    if (count == 1) return emit_format(t, "%s(%.*s)", wrapper, STR_ARGS(text[0]));
    if (count == 2)
        return emit_format(t, "%s(%.*s, %.*s)", wrapper, STR_ARGS(text[0]), STR_ARGS(text[1]));
    return emit_format(t, "%s(%.*s, %.*s, %.*s)", wrapper, STR_ARGS(text[0]), STR_ARGS(text[1]),
                       STR_ARGS(text[2]));
}

/* Integer tiles: the few operations that mean something there. */
static str integer_text(emit *t, const item *x, const emit_value *v, int count) {
    switch (x->s->compute.operation) {
    case TL_FILL:
    case TL_CAST: return v[0].text;
    case TL_ADD: return emit_sum(t, v[0], v[1]).text;
    case TL_SUBTRACT: return emit_difference(t, v[0], v[1]).text;
    case TL_MULTIPLY: return emit_product(t, v[0], v[1]).text;
    case TL_MAX:
    case TL_MIN:
        return emit_format(t, "ftl_%s_integer(%.*s, %.*s)",
                           x->s->compute.operation == TL_MAX ? "max" : "min", STR_ARGS(v[0].text),
                           STR_ARGS(v[count - 1].text));
    default: refuse(t, x->s, "there is no form for it on integers"); return STR("0");
    }
}

/* --- masks
 * ------------------------------------------------------------------------------------------ */

/* A comparison that is affine in the column index, with factor 1 or -1: then each row has one limit
 * for the columns, and an element takes one comparison of a constant with it.
 */
typedef struct limit {
    const tl_expr *test;
    str name;
    bool by_row;
    int64_t slant; /* what the limit gains from row to row, where it is one for all of them */
    tl_operator operator; /* column offset OP limit */
} limit;

enum { LIMITS_MAX = 8 };

typedef struct mask {
    const item *x;
    limit limits[LIMITS_MAX];
    int count;
} mask;

static tl_operator flipped(tl_operator operator) {
    switch (operator) {
    case TL_LESS: return TL_GREATER;
    case TL_LESS_EQUAL: return TL_GREATER_EQUAL;
    case TL_GREATER: return TL_LESS;
    case TL_GREATER_EQUAL: return TL_LESS_EQUAL;
    default: return operator;
    }
}

static bool has_table_or_tile(emit *t, const tl_expr *e) {
    if (!e) return false;
    if (e->kind == TL_ELEMENT || (e->kind == TL_NAME && emit_tile_of(t, e))) return true;
    if (has_table_or_tile(t, e->left) || has_table_or_tile(t, e->right)) return true;
    for (int i = 0; i < e->item_count; i++) {
        if (has_table_or_tile(t, e->items[i])) return true;
    }
    return false;
}

/* Does the limit move by a constant from row to row? Then one limit serves all rows, and rows that
 * are 8 apart share their comparisons: those of one are the other's, 8 columns on.
 */
static bool is_slanted(emit *t, const mask *m, const tl_expr *e, bool forward, limit *l) {
    str names[2];
    int64_t left, right;
    index_names(m->x, names);
    if (!t->is_async || m->x->frame->shape.is_lines ||
        !emit_coefficient(e->left, names[0], &left) ||
        !emit_coefficient(e->right, names[0], &right))
        return false;
    l->slant = forward ? right - left : left - right;
    return l->slant != 0;
}

static void find_limits(emit *t, mask *m, const tl_expr *e) {
    if (e->kind == TL_NOT) find_limits(t, m, e->left);
    if (e->kind != TL_BINARY) return;
    if (e->operator== TL_AND || e->operator== TL_OR) {
        find_limits(t, m, e->left);
        find_limits(t, m, e->right);
        return;
    }
    str names[2];
    index_names(m->x, names);
    int64_t left, right;
    if (m->count == LIMITS_MAX || !names[1].length || has_table_or_tile(t, e) ||
        tl_expr_is_real(e->left) || tl_expr_is_real(e->right) ||
        !emit_coefficient(e->left, names[1], &left) ||
        !emit_coefficient(e->right, names[1], &right) ||
        (left - right != 1 && left - right != -1)) {
        return;
    }
    limit *l = &m->limits[m->count++];
    bool forward = left - right == 1;
    l->test = e;
    l->operator= forward ? e->operator: flipped(e->operator);
    l->by_row = emit_uses_index(e, names[0]);
    l->name = emit_format(t, "limit_%d", ++t->statement_number);
    emit_index indices[2] = {
        {names[0],
         emit_named(emit_format(t, "(%.*s + %.*s)", STR_ARGS(index_first(t, names[0], m->x->s)),
                                STR_ARGS(row_offset(t, &m->x->frame->shape))),
                    0, EMIT_SIZE_MAX)},
        {names[1], emit_named(index_first(t, names[1], m->x->s), 0, EMIT_SIZE_MAX)}};
    emit_scope scope = {.indices = indices, .index_count = 2};
    emit_value a = emit_expression(t, e->left, &scope), b = emit_expression(t, e->right, &scope);
    emit_value v = forward ? emit_difference(t, b, a) : emit_difference(t, a, b);
    if (emit_is_wide(v)) {
        v.text = emit_format(t, "(int)ftl_max_wide(ftl_min_wide(%.*s, %dLL), -%dLL)",
                             STR_ARGS(v.text), INT_MAX, INT_MAX);
    }
    const emit_shape *s = &m->x->frame->shape;
    if (l->by_row && is_slanted(t, m, e, forward, l)) {
        emit_index first[2] = {
            {names[0], emit_named(index_first(t, names[0], m->x->s), 0, EMIT_SIZE_MAX)},
            indices[1]};
        emit_scope corner = {.indices = first, .index_count = 2};
        a = emit_expression(t, e->left, &corner), b = emit_expression(t, e->right, &corner);
        emit_value at = forward ? emit_difference(t, b, a) : emit_difference(t, a, b);
        if (!emit_is_wide(v) && !emit_is_wide(at)) v = at, l->by_row = false;
        else l->slant = 0;
    }
    if (!l->by_row) {
        emit_text(t, "const int %.*s = %.*s;", STR_ARGS(l->name), STR_ARGS(v.text));
        return;
    }
    emit_text(t, "int %.*s[%d]%s;", STR_ARGS(l->name), s->down, s->is_lines ? "" : "[2]");
    emit_loop(t, s->is_lines ? "down" : "m16", s->down);
    if (!s->is_lines) emit_loop(t, "half", 2);
    emit_text(t, "%.*s%s = %.*s;", STR_ARGS(l->name), s->is_lines ? "[down]" : "[m16][half]",
              STR_ARGS(v.text));
    if (!s->is_lines) emit_close(t);
    emit_close(t);
}

static str condition_text(emit *t, const mask *m, const tl_expr *e, int element) {
    static const char *const signs[] = {
        [TL_LESS] = "<",           [TL_LESS_EQUAL] = "<=", [TL_GREATER] = ">",
        [TL_GREATER_EQUAL] = ">=", [TL_EQUAL] = "==",      [TL_NOT_EQUAL] = "!="};
    const emit_shape *s = &m->x->frame->shape;
    for (int i = 0; i < m->count; i++) {
        const limit *l = &m->limits[i];
        if (l->test != e) continue;
        const char *at = !l->by_row ? "" : s->is_lines ? "[down]" : "[m16][half]";
        str column = column_offset(t, s, element);
        if (l->slant)
            column = emit_format(t, "%.*s - %lld * (16 * m16 + 8 * half)", STR_ARGS(column),
                                 (long long)l->slant);
        return emit_format(t, "%.*s %s %.*s%s", STR_ARGS(column), signs[l->operator],
                           STR_ARGS(l->name), at);
    }
    if (e->kind == TL_NOT)
        return emit_format(t, "!(%.*s)", STR_ARGS(condition_text(t, m, e->left, element)));
    if (e->kind == TL_BINARY && (e->operator== TL_AND || e->operator== TL_OR)) {
        str a = condition_text(t, m, e->left, element), b = condition_text(t, m, e->right, element);
        return emit_format(t, "(%.*s) %s (%.*s)", STR_ARGS(a), e->operator== TL_AND ? "&&" : "||",
                           STR_ARGS(b));
    }
    emit_index indices[2];
    emit_scope scope = element_scope(t, m->x, element, indices);
    return emit_expression(t, e, &scope).text;
}

/* --- one statement on the two elements of a pair (or the one of a vector)
 * ------------------------- */

static str new_value(emit *t, const item *x, const mask *m, int e) {
    const tl_compute *c = &x->s->compute;
    if (c->operation == TL_MASK) {
        str other = STR("-ftl_infinity()");
        if (c->operand_count > 1) other = emit_real(t, operand_value(t, x, 1, e));
        str old = emit_element(t, x->target, &x->frame->shape, e);
        return emit_format(t, "%.*s ? %.*s : %.*s", STR_ARGS(condition_text(t, m, c->condition, e)),
                           STR_ARGS(other), STR_ARGS(old));
    }
    emit_value v[3];
    for (int i = 0; i < c->operand_count && i < 3; i++) v[i] = operand_value(t, x, i, e);
    if (x->target->type == TL_I32) return integer_text(t, x, v, c->operand_count);
    str text = operation_text(t, x, v, c->operand_count);
    if (c->target_kind != TL_ACCUMULATE) return text;
    return emit_format(t, "ftl_add(%.*s, %.*s)",
                       STR_ARGS(emit_element(t, x->target, &x->frame->shape, e)), STR_ARGS(text));
}

static void reduce_pair(emit *t, const item *x) {
    /* A sum takes one element after the other: added up in pairs first, the pairs would wait in
     * registers. */
    str a = emit_real(t, operand_value(t, x, 0, 0)), b = emit_real(t, operand_value(t, x, 0, 1));
    str to = emit_element(t, x->target, &x->frame->shape, 0);
    if (x->s->compute.operation == TL_ROW_MAX) {
        emit_text(t, "%.*s = ftl_max(%.*s, ftl_max(%.*s, %.*s));", STR_ARGS(to), STR_ARGS(to),
                  STR_ARGS(a), STR_ARGS(b));
        return;
    }
    if (!x->partial) to = emit_format(t, "sum_of_%.*s", STR_ARGS(to));
    emit_text(t, "%.*s = ftl_add(ftl_add(%.*s, %.*s), %.*s);", STR_ARGS(to), STR_ARGS(to),
              STR_ARGS(a), STR_ARGS(b));
}

static void statement_on_pair(emit *t, const item *x, const mask *m) {
    declare_at(t, x);
    if (x->reduces) {
        reduce_pair(t, x);
        return;
    }
    const emit_tile *to = x->target;
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
        if (to->is_vector && tl_type_bytes(to->type) == 2) {
            text = emit_format(t, "ftl_round_%s(%.*s)", emit_type_word(to->type), STR_ARGS(text));
        }
        emit_text(t, "%.*s = %.*s;", STR_ARGS(emit_element(t, to, &x->frame->shape, e)),
                  STR_ARGS(text));
    }
}

/* --- loops
 * ---------------------------------------------------------------------------------------------- */

static int open_frame(emit *t, const emit_shape *s) {
    const char *down = s->is_lines ? "down" : "m16", *across = s->is_lines ? "across" : "n8";
    int opened = 0;
    if (s->part != PART_COLUMNS) emit_loop(t, down, s->down), opened++;
    if (s->part != PART_ROWS) emit_loop(t, across, s->across), opened++;
    if (s->part == PART_WHOLE) emit_loop(t, "half", s->is_lines ? s->elements / 2 : 2), opened++;
    if (s->part == PART_ROWS && !s->is_lines) emit_loop(t, "half", 2), opened++;
    if (s->part == PART_COLUMNS) emit_loop(t, "element", s->is_lines ? s->elements : 2), opened++;
    return opened;
}

static void close_frame(emit *t, int opened) {
    for (int i = 0; i < opened; i++) emit_close(t);
}

static emit_shape rows_of(const emit_shape *s) {
    emit_shape rows = *s;
    rows.part = PART_ROWS;
    return rows;
}

/* What a reduction starts from. */
static void start_reduction(emit *t, const item *x) {
    bool gets = x->s->compute.target_kind != TL_ACCUMULATE,
         max = x->s->compute.operation == TL_ROW_MAX;
    bool whole_sum = !max && !x->partial;
    if (whole_sum) {
        const emit_shape *s = &x->target->shape;
        emit_text(t, "float sum_of_%.*s[%d]%s;", STR_ARGS(x->target->name), s->down,
                  s->is_lines ? "" : "[2]");
    }
    if (!gets && !whole_sum) return;
    emit_shape rows = rows_of(&x->frame->shape);
    int opened = open_frame(t, &rows);
    str to = emit_element(t, x->target, &rows, 0);
    emit_text(t, "%s%.*s = %s;", whole_sum ? "sum_of_" : "", STR_ARGS(to),
              max ? "-ftl_infinity()" : "0.0f");
    close_frame(t, opened);
}

/* Puts the lanes' parts together: shuffles among the lanes that share a row. */
static void combine_lanes(emit *t, const emit_tile *vector, const char *prefix, bool max,
                          const emit_shape *rows) {
    int masks[LAYOUT_LANE_BITS], count = layout_lane_copies(&vector->layout, masks);
    str to = emit_format(t, "%s%.*s", prefix, STR_ARGS(emit_element(t, vector, rows, 0)));
    for (int i = 0; i < count; i++) {
        emit_text(t, "%.*s = %s(%.*s, ftl_exchange(%.*s, %d));", STR_ARGS(to),
                  max ? "ftl_max" : "ftl_add", STR_ARGS(to), STR_ARGS(to), masks[i]);
    }
}

static void finish_reduction(emit *t, const item *x) {
    if (x->partial) return;
    emit_shape rows = rows_of(&x->frame->shape);
    bool max = x->s->compute.operation == TL_ROW_MAX;
    int opened = open_frame(t, &rows);
    combine_lanes(t, x->target, max ? "" : "sum_of_", max, &rows);
    if (!max) {
        str to = emit_element(t, x->target, &rows, 0);
        bool gets = x->s->compute.target_kind != TL_ACCUMULATE;
        if (gets) emit_text(t, "%.*s = sum_of_%.*s;", STR_ARGS(to), STR_ARGS(to));
        else
            emit_text(t, "%.*s = ftl_add(%.*s, sum_of_%.*s);", STR_ARGS(to), STR_ARGS(to),
                      STR_ARGS(to));
    }
    close_frame(t, opened);
}

static void emit_group(run *r, const int *group, int count) {
    emit *t = r->t;
    mask masks[RUN_MAX];
    bool scoped = false, places = false;
    for (int i = 0; i < count; i++) {
        const item *x = &r->items[group[i]];
        places |= uses_places(x);
        scoped |= x->reduces && !x->partial && x->s->compute.operation == TL_ROW_SUM;
    }
    if (count == 1) emit_header(t, r->items[group[0]].s);
    scoped |= places;
    if (scoped) emit_open(t, "{");
    if (places) emit_fresh_thread(t);
    for (int i = 0; i < count; i++) {
        const item *x = &r->items[group[i]];
        masks[i] = (mask){.x = x};
        if (uses_places(x)) emit_declare_own(t, x->frame);
        declare_first(t, x);
        if (x->s->compute.operation == TL_MASK) find_limits(t, &masks[i], x->s->compute.condition);
        if (x->reduces) start_reduction(t, x);
    }
    int opened = open_frame(t, &r->items[group[0]].frame->shape);
    for (int i = 0; i < count; i++) {
        const item *x = &r->items[group[i]];
        if (count > 1) emit_header(t, x->s);
        statement_on_pair(t, x, &masks[i]);
    }
    close_frame(t, opened);
    for (int i = 0; i < count; i++) {
        const item *x = &r->items[group[i]];
        if (!x->reduces) continue;
        finish_reduction(t, x);
        if (!x->target->shape.is_lines && x->target->type == TL_F32) t->pin = x->target;
    }
    if (scoped) emit_close(t);
}

/* Two statements of a loop may not give one index name two origins. */
static bool same_places(const run *r, const int *group, int count, int j) {
    str names[2];
    index_names(&r->items[j], names);
    for (int axis = 0; axis < 2; axis++) {
        if (!statement_uses(r->items[j].s, names[axis])) continue;
        for (int i = 0; i < count; i++) {
            if (statement_uses(r->items[group[i]].s, names[axis])) return false;
        }
    }
    return true;
}

/* --- what is tracked from statement to statement, see track.c ----------------------------------
 */

static bool is_lazy_fill(emit *t, const tl_statement *s) {
    const emit_tile *target = emit_is_zero_fill(s) ? emit_target_of(t, s) : NULL;
    return target && target->is_lazy;
}

/* Opens the next generation of a ring whose last one is named earlier in the run. */
static bool opens_behind_use(const run *r, const tl_statement *s) {
    if (!emit_opens_generation(r->t, s)) return false;
    const emit_tile *last = emit_target_of(r->t, s);
    for (int i = 0; i < r->count; i++) {
        if (r->items[i].target == last || reads_tile(&r->items[i], last)) return true;
    }
    return false;
}

static void settle(emit *t, const item *x) {
    for (int i = 0; i < x->read_count; i++) emit_settle(t, x->reads[i], false);
    emit_settle(t, x->target, true);
}

const tl_statement *emit_elementwise_run(emit *t, const tl_statement *first) {
    if (t->is_async && is_lazy_fill(t, first)) {
        emit_header(t, first);
        emit_note_fill(t, first);
        return first->next;
    }
    run *r = arena_new(t->memory, run);
    r->t = t;
    const tl_statement *s = first;
    for (; s && emit_is_elementwise(s) && r->count < RUN_MAX; s = s->next) {
        if (t->is_async && s != first && (is_lazy_fill(t, s) || opens_behind_use(r, s))) break;
        if (!make_item(t, s, &r->items[r->count])) continue;
        settle(t, &r->items[r->count]);
        r->count++;
    }
    for (int i = 0; i < r->count; i++) {
        if (r->items[i].is_done) continue;
        int group[RUN_MAX] = {i}, count = 1;
        for (int j = i + 1; j < r->count; j++) {
            if (r->items[j].is_done) continue;
            if (may_join(r, group, count, j) && same_places(r, group, count, j)) group[count++] = j;
        }
        emit_group(r, group, count);
        for (int k = 0; k < count; k++) r->items[group[k]].is_done = true;
    }
    return s;
}

/* --- what else works on elements
 * --------------------------------------------------------------------- */

void emit_reshape(emit *t, const tl_statement *s) {
    emit_tile *tile = emit_tile_of(t, s->reshape.what);
    emit_header(t, s);
    if (!tile || tile->space != TL_REGISTER) {
        emit_unsupported(t, s->range, STR("this Reshape"), "it takes a register tile");
        return;
    }
    const tl_layout *from = &s->reshape.from, *to = &s->reshape.to;
    if (from->is_partial && !to->is_partial && from->kind == to->kind &&
        tile->shape.part == PART_ROWS) {
        int opened = open_frame(t, &tile->shape);
        combine_lanes(t, tile, "", false, &tile->shape);
        close_frame(t, opened);
        return;
    }
    bool fragments = (from->kind == TL_MMA_C || from->kind == TL_MMA_A) &&
                     (to->kind == TL_MMA_C || to->kind == TL_MMA_A);
    if (fragments && tile->is_packed && layout_warp_copies(&tile->layout) == 1 &&
        !to->is_permuted) {
        /* What is in flight meanwhile may not hide behind it: it is ready here, not at its use. */
        if (t->is_async && tile->shape.down == 1)
            emit_text(t, "ftl_keep_pairs(%.*s[0]); // (the same registers)", STR_ARGS(tile->name));
        else emit_text(t, "// (the same registers)");
        return;
    }
    emit_unsupported(t, s->range, STR("this Reshape"), "its elements would change threads");
}

static const emit_tile *first_tile(emit *t, const tl_expr *e) {
    if (!e) return NULL;
    if (e->kind == TL_NAME && emit_tile_of(t, e)) return emit_tile_of(t, e);
    const emit_tile *found = first_tile(t, e->left);
    if (!found) found = first_tile(t, e->right);
    for (int i = 0; i < e->item_count && !found; i++) found = first_tile(t, e->items[i]);
    return found;
}

str emit_any(emit *t, const tl_expr *call) {
    const tl_expr *condition = call->items[0];
    const emit_tile *frame = first_tile(t, condition);
    str name = emit_format(t, "any_%d", ++t->statement_number);
    if (!frame || frame->space != TL_REGISTER) {
        emit_unsupported(t, call->range, STR("any(...)"), "its condition needs a register tile");
        return STR("false");
    }
    emit_text(t, "bool %.*s = false;", STR_ARGS(name));
    int opened = open_frame(t, &frame->shape);
    int elements = frame->shape.part == PART_WHOLE ? 2 : 1;
    for (int e = 0; e < elements; e++) {
        emit_scope scope = {.frame = &frame->shape, .element = e};
        emit_value v = emit_expression(t, condition, &scope);
        emit_text(t, "%.*s |= %.*s;", STR_ARGS(name), STR_ARGS(v.text));
    }
    close_frame(t, opened);
    return emit_format(t, "ftl_any(%.*s)", STR_ARGS(name));
}
