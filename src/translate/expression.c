/* Expressions of TL as C: names, elements of tables, calls; division by its kind. */
#include "tl/boxes.h"
#include "translate/values.h"

#include <math.h>

static emit_value rounded(emit *t, const tl_expr *e, const emit_scope *scope, bool up) {
    const tl_expr *inner = e->items[0];
    if (inner->kind == TL_BINARY && inner->operator== TL_OVER) {
        emit_value a, b;
        /* ceil(x/a/b): the quotients inside are rounded the same way, which gives the same result.
         */
        const tl_expr *left = inner->left;
        bool nested = left->kind == TL_BINARY && left->operator== TL_OVER;
        tl_expr again = *e, *items[1] = {inner->left};
        again.items = items;
        a = nested ? rounded(t, &again, scope, up) : emit_expression(t, left, scope);
        b = emit_expression(t, inner->right, scope);
        if (!a.is_real && !b.is_real) return values_quotient(t, a, b, up);
    }
    emit_value v = emit_expression(t, inner, scope);
    if (!v.is_real) return v;
    return (emit_value){
        .text = emit_format(t, "(int)%s(%.*s)", up ? "ceilf" : "floorf", STR_ARGS(v.text)),
        .precedence = VALUES_PREFIX,
        .low = INT32_MIN,
        .high = INT32_MAX};
}

/* How TL writes minus infinity. As a number, not as the result of a special function. */
static bool is_log_of_zero(const tl_expr *e) {
    if (e->kind != TL_CALL || e->function != TL_FUNCTION_LOG) return false;
    const tl_expr *of = e->items[0];
    return (of->kind == TL_INTEGER && of->integer == 0) ||
           (of->kind == TL_NUMBER && of->number == 0);
}

static emit_value call(emit *t, const tl_expr *e, const emit_scope *scope) {
    switch (e->function) {
    case TL_FUNCTION_CEIL: return rounded(t, e, scope, true);
    case TL_FUNCTION_FLOOR: return rounded(t, e, scope, false);
    case TL_FUNCTION_ANY:
        if (emit_kept_vote(t, e).length > 0)
            return (emit_value){.text =
                                    emit_format(t, "(%.*s != 0)", STR_ARGS(emit_kept_vote(t, e))),
                                .precedence = VALUES_PRIMARY,
                                .is_condition = true};
        return (emit_value){
            .text = emit_any(t, e), .precedence = VALUES_PRIMARY, .is_condition = true};
    case TL_FUNCTION_FIRST:
    case TL_FUNCTION_MORE:
    case TL_FUNCTION_NEXT: return emit_asked(t, e);
    default: break;
    }
    if (is_log_of_zero(e)) return values_real(emit_float(t, -HUGE_VAL), VALUES_PREFIX);
    emit_value a = emit_expression(t, e->items[0], scope);
    switch (e->function) {
    case TL_FUNCTION_MIN:
    case TL_FUNCTION_MAX:
        for (int i = 1; i < e->item_count; i++) {
            a = values_extreme(t, a, emit_expression(t, e->items[i], scope),
                               e->function == TL_FUNCTION_MAX);
        }
        return a;
    case TL_FUNCTION_ABS:
        if (a.is_real) break;
        return values_extreme(t, a, emit_difference(t, emit_constant(t, 0), a), true);
    case TL_FUNCTION_SELECT: {
        emit_value x = emit_expression(t, e->items[1], scope),
                   y = emit_expression(t, e->items[2], scope);
        emit_value out = {.precedence = VALUES_PRIMARY, .is_real = x.is_real || y.is_real};
        if (!out.is_real) {
            out.low = x.low < y.low ? x.low : y.low, out.high = x.high > y.high ? x.high : y.high;
        }
        out.text = emit_format(t, "(%.*s ? %.*s : %.*s)", STR_ARGS(a.text),
                               STR_ARGS(out.is_real ? emit_real(t, x) : x.text),
                               STR_ARGS(out.is_real ? emit_real(t, y) : y.text));
        return out;
    }
    default: break;
    }
    const char *wrapper = tl_facts(tl_function_operation(e->function))->wrapper;
    if (wrapper)
        return values_real(emit_format(t, "%s(%.*s)", wrapper, STR_ARGS(emit_real(t, a))),
                           VALUES_PRIMARY);
    emit_unsupported(t, e->range, tl_expr_text(t->memory, e),
                     "this function has no form in the text");
    return emit_constant(t, 0);
}

static emit_value real_binary(emit *t, tl_operator operator, emit_value a, emit_value b,
                              diag_range range) {
    const char *wrapper = NULL;
    switch (operator) {
    case TL_PLUS: wrapper = "ftl_add"; break;
    case TL_MINUS: wrapper = "ftl_subtract"; break;
    case TL_TIMES: wrapper = "ftl_multiply"; break;
    case TL_OVER: wrapper = "ftl_divide"; break;
    default: emit_unsupported(t, range, STR("%"), "it takes integers"); return emit_constant(t, 0);
    }
    return values_real(emit_format(t, "%s(%.*s, %.*s)", wrapper, STR_ARGS(emit_real(t, a)),
                                   STR_ARGS(emit_real(t, b))),
                       VALUES_PRIMARY);
}

static emit_value relation(emit *t, const tl_expr *e, emit_value a, emit_value b) {
    bool real = a.is_real || b.is_real;
    int precedence =
        e->operator== TL_EQUAL || e->operator== TL_NOT_EQUAL ? VALUES_EQUALITY : VALUES_RELATION;
    if (real) {
        a.text = emit_real(t, a), b.text = emit_real(t, b);
        a.precedence = b.precedence = VALUES_PREFIX;
    }
    emit_value out = {.precedence = precedence, .is_condition = true, .low = 0, .high = 1};
    out.text =
        emit_format(t, "%.*s %s %.*s", STR_ARGS(emit_within(t, a, precedence + 1)),
                    tl_operator_text(e->operator), STR_ARGS(emit_within(t, b, precedence + 1)));
    return out;
}

/* A quotient, rounded down, whose divisor the launch knows: by multiplication. Only where a
 * thread's index arithmetic is in the way of asynchronous units.
 */
static bool by_launch(emit *t, const tl_expr *e, emit_value a, emit_value b, emit_value *out) {
    str multiplier, shift;
    if (!t->is_async || a.low < 0 || emit_is_wide(a) || b.low < 0 || b.low == b.high) return false;
    if (a.low == a.high || !emit_divisor(t, e->right, &multiplier, &shift)) return false;
    *out = (emit_value){.text = emit_format(t, "ftl_quotient(%.*s, %.*s, %.*s)", STR_ARGS(a.text),
                                            STR_ARGS(multiplier), STR_ARGS(shift)),
                        .precedence = VALUES_PRIMARY,
                        .low = 0,
                        .high = a.high};
    return true;
}

/* x of `abs(x) % 2`, which is x % 2; NULL: it is something else. */
static const tl_expr *of_one_parity(const tl_expr *e) {
    int64_t divisor;
    bool is_parity =
        e->operator== TL_MODULO && tl_known_integer(e->right, &divisor) && divisor == 2;
    return is_parity && e->left->kind == TL_CALL && e->left->function == TL_FUNCTION_ABS
               ? e->left->items[0]
               : NULL;
}

static emit_value binary(emit *t, const tl_expr *e, const emit_scope *scope) {
    const tl_expr *same_parity = of_one_parity(e);
    if (same_parity) {
        emit_value v = emit_expression(t, same_parity, scope);
        if (!v.is_real) return values_modulo(t, v, emit_constant(t, 2));
    }
    emit_value a = emit_expression(t, e->left, scope), b = emit_expression(t, e->right, scope), out;
    if (e->operator== TL_AND || e->operator== TL_OR) {
        bool is_and = e->operator== TL_AND;
        int precedence = is_and ? VALUES_AND : VALUES_OR;
        return (emit_value){
            .text = emit_format(t, "%.*s %s %.*s", STR_ARGS(emit_within(t, a, VALUES_AND)),
                                is_and ? "&&" : "||", STR_ARGS(emit_within(t, b, VALUES_AND))),
            .precedence = precedence,
            .is_condition = true,
            .low = 0,
            .high = 1};
    }
    if (e->operator>= TL_LESS && e->operator<= TL_NOT_EQUAL) return relation(t, e, a, b);
    if (a.is_real || b.is_real) return real_binary(t, e->operator, a, b, e->range);
    switch (e->operator) {
    case TL_PLUS: return emit_sum(t, a, b);
    case TL_MINUS: return emit_difference(t, a, b);
    case TL_TIMES: return emit_product(t, a, b);
    case TL_MODULO:
        if (by_launch(t, e, a, b, &out)) {
            out = emit_difference(t, a, emit_product(t, out, b));
            out.low = 0, out.high = b.high > 0 ? b.high - 1 : 0;
            return out;
        }
        return values_modulo(t, a, b);
    default:
        if (e->division != TL_DIVIDE_UP && by_launch(t, e, a, b, &out)) return out;
        return values_quotient(t, a, b, e->division == TL_DIVIDE_UP);
    }
}

/* Elements of a tile past the end of an axis exist; those of a table do not. */
static bool may_fall_outside(const tl_expr *item, const emit_scope *scope) {
    for (int i = 0; scope && i < scope->index_count; i++) {
        if (scope->indices[i].name.length && tl_uses_index(item, scope->indices[i].name))
            return true;
    }
    return false;
}

static str inside(emit *t, emit_value at, const tl_expr *extent) {
    emit_value end = emit_integer(t, extent, NULL);
    if (emit_is_wide(at))
        return emit_format(t, "ftl_inside_wide(%.*s, %.*s)", STR_ARGS(at.text), STR_ARGS(end.text));
    return emit_format(t, "(unsigned)(%.*s) < (unsigned)(%.*s)", STR_ARGS(at.text),
                       STR_ARGS(end.text));
}

static emit_value element_value(str text, tl_type type) {
    return (emit_value){.text = text,
                        .precedence = VALUES_PRIMARY,
                        .is_real = type != TL_I32,
                        .low = INT32_MIN,
                        .high = INT32_MAX};
}

const emit_read *emit_find_read(const emit_reads *reads, const tl_expr *element) {
    for (int i = 0; i < reads->count; i++)
        if (tl_expr_equal(reads->items[i].element, element)) return &reads->items[i];
    return NULL;
}

/* What has been read already; false: nothing. */
static bool read_before(emit *t, const tl_expr *e, const emit_scope *scope, emit_value *out) {
    const emit_read *r = scope && scope->reads ? emit_find_read(scope->reads, e) : NULL;
    if (!r) return false;
    str name = r->is_pair ? emit_format(t, "%.*s[%d]", STR_ARGS(r->name), scope->element) : r->name;
    *out = element_value(name, e->symbol->parameter->parameter.type);
    return true;
}

/* An element of a table in global memory; what is outside reads 0. */
static emit_value table_element(emit *t, const tl_expr *e, const emit_scope *scope) {
    const tl_symbol *s = e->symbol;
    if (!s->parameter || !s->axes || s->axes->count != e->item_count) {
        emit_unsupported(t, e->range, tl_expr_text(t->memory, e),
                         "only tables that are Inputs can be read here");
        return emit_constant(t, 0);
    }
    emit_value known;
    if (read_before(t, e, scope, &known)) return known;
    tl_type type = s->parameter->parameter.type;
    const ftl_plan_tensor *tensor = emit_plan_tensor(t, s->name);
    str text = emit_format(t, "args.%.*s", STR_ARGS(emit_clean(t, s->name))), guard = STR("");
    const char *plus = tl_is_packed(type) ? ", " : " + "; /* an element of a byte is counted */
    for (int i = 0; i < e->item_count; i++, plus = " + ") {
        emit_value at = emit_integer(t, e->items[i], scope);
        if (may_fall_outside(e->items[i], scope)) {
            guard = emit_format(t, "%.*s%s%.*s", STR_ARGS(guard), guard.length ? " && " : "",
                                STR_ARGS(inside(t, at, s->axes->items[i].extent)));
        }
        text = emit_format(t, "%.*s%s%.*s * %.*s", STR_ARGS(text), plus,
                           STR_ARGS(emit_within(t, at, VALUES_QUOTIENT)),
                           STR_ARGS(emit_stride(t, tensor, i)));
    }
    str load = emit_format(t, "ftl_load_global_%s(%.*s)", emit_type_word(type), STR_ARGS(text));
    if (guard.length && tl_type_bits(type) == 32) /* no branch: several are on their way at once */
        load = emit_format(t, "ftl_load_global_%s_if(%.*s, %.*s)", emit_type_word(type),
                           STR_ARGS(guard), STR_ARGS(text));
    else if (guard.length)
        load = emit_format(t, "(%.*s ? %.*s : 0)", STR_ARGS(guard), STR_ARGS(load));
    return element_value(load, type);
}

static emit_value named(emit *t, const tl_expr *e, const emit_scope *scope) {
    const tl_symbol *s = e->symbol;
    if (scope) {
        for (int i = 0; i < scope->index_count; i++) {
            const emit_index *x = &scope->indices[i];
            if (x->name.length && str_equal(x->name, e->text) && (!s || s->kind == TL_SYMBOL_INDEX))
                return x->value;
        }
        const emit_tile *tile = s && s->kind == TL_SYMBOL_VARIABLE ? emit_tile_of(t, e) : NULL;
        if (tile && tile->space == TL_REGISTER && scope->frame) {
            emit_value out =
                values_real(emit_element(t, tile, scope->frame, scope->element), VALUES_PRIMARY);
            if (tile->type == TL_I32)
                out.is_real = false, out.low = INT32_MIN, out.high = INT32_MAX;
            return out;
        }
    }
    const emit_name *known = s ? emit_name_find(t, s) : NULL;
    if (s) switch (s->kind) {
        case TL_SYMBOL_CONSTANT:
            if (s->is_known && s->is_integer)
                return emit_named(emit_name_of(t, s), s->integer, s->integer);
            if (s->is_real) return values_real(emit_name_of(t, s), VALUES_PRIMARY);
            if (known) return emit_named(known->name, known->low, known->high);
            return emit_named(emit_name_of(t, s), INT32_MIN, INT32_MAX);
        case TL_SYMBOL_SIZE:
            return emit_named(emit_format(t, "args.%.*s", STR_ARGS(emit_clean(t, s->name))), 0,
                              EMIT_SIZE_MAX);
        case TL_SYMBOL_SCALAR: {
            str text = emit_format(t, "args.%.*s", STR_ARGS(emit_clean(t, s->name)));
            bool is_integer = s->parameter && s->parameter->parameter.type == TL_I32;
            if (is_integer) return emit_named(text, INT32_MIN, INT32_MAX);
            return values_real(text, VALUES_PRIMARY);
        }
        case TL_SYMBOL_GRID:
        case TL_SYMBOL_LOOP:
            if (known) return emit_named(known->name, known->low, known->high);
            return emit_named(emit_name_of(t, s), 0, EMIT_SIZE_MAX);
        default: break;
        }
    emit_unsupported(t, e->range, tl_expr_text(t->memory, e), "it has no value where it stands");
    return emit_constant(t, 0);
}

emit_value emit_expression(emit *t, const tl_expr *e, const emit_scope *scope) {
    switch (e->kind) {
    case TL_INTEGER: return emit_constant(t, e->integer);
    case TL_NUMBER:
        return values_real(emit_float(t, e->number),
                           e->number < 0 ? VALUES_PREFIX : VALUES_PRIMARY);
    case TL_NAME: return named(t, e, scope);
    case TL_ELEMENT: return table_element(t, e, scope);
    case TL_CALL: return call(t, e, scope);
    case TL_NEGATE: {
        if (is_log_of_zero(e->left)) return values_real(emit_float(t, HUGE_VAL), VALUES_PRIMARY);
        emit_value v = emit_expression(t, e->left, scope);
        if (!v.is_real && v.low == v.high) return emit_constant(t, -v.low);
        if (v.is_real)
            return values_real(emit_format(t, "-%.*s", STR_ARGS(emit_within(t, v, VALUES_PRIMARY))),
                               VALUES_PREFIX);
        return emit_difference(t, emit_constant(t, 0), v);
    }
    case TL_NOT: {
        emit_value v = emit_expression(t, e->left, scope);
        v.text = emit_format(t, "!%.*s", STR_ARGS(emit_within(t, v, VALUES_PREFIX)));
        v.precedence = VALUES_PREFIX;
        return v;
    }
    case TL_BINARY: return binary(t, e, scope);
    }
    return emit_constant(t, 0);
}

emit_value emit_integer(emit *t, const tl_expr *e, const emit_scope *scope) {
    emit_value v = emit_expression(t, e, scope);
    if (!v.is_real) return v;
    emit_unsupported(t, e->range, tl_expr_text(t->memory, e), "an integer is needed here");
    return emit_constant(t, 0);
}
