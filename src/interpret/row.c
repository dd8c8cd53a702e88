/* What an expression is worth for a row of elements of a tile. */
#include "interpret/row.h"
#include "base/wide.h"

#include <math.h>

void scope_bind_axis(scope *s, str index, lanes at) {
    const tl_symbol *symbol = tl_find_index(s->machine->kernel, index);
    if (!symbol) return;
    s->indices[symbol->position] = at;
    s->has_index[symbol->position] = true;
}

void scope_unbind_axis(scope *s, str index) {
    const tl_symbol *symbol = tl_find_index(s->machine->kernel, index);
    if (symbol) s->has_index[symbol->position] = false;
}

double *machine_vector(machine *m) {
    if (m->scratch_used < MACHINE_SCRATCH_VECTORS) {
        return m->scratch + (size_t)m->scratch_used++ * (size_t)m->scratch_width;
    }
    machine_stop(m, DIAG_INTERPRET_TOO_COMPLEX, (diag_range){0}, STR(""));
    return NULL;
}

WIDE_VECTORS static void fill_ramp(double first, double step, int width, double *out) {
    for (int i = 0; i < width; i++) out[i] = first + step * i;
}

const double *lanes_items(machine *m, lanes values, int width) {
    if (values.kind == LANES_MANY) return values.items;
    double *items = machine_vector(m);
    if (!items) return NULL;
    double step = values.kind == LANES_RAMP ? 1 : 0;
    fill_ramp(values.value, step, width, items);
    return items;
}

static double apply_one(tl_operator operator, tl_division division, double a, double b) {
    switch (operator) {
    case TL_PLUS: return a + b;
    case TL_MINUS: return a - b;
    case TL_TIMES: return a * b;
    case TL_OVER:
        if (division == TL_DIVIDE_UP) return ceil(a / b);
        return division == TL_DIVIDE_DOWN ? floor(a / b) : a / b;
    case TL_MODULO: return a - floor(a / b) * b;
    case TL_LESS: return a < b;
    case TL_LESS_EQUAL: return a <= b;
    case TL_GREATER: return a > b;
    case TL_GREATER_EQUAL: return a >= b;
    case TL_EQUAL: return a == b;
    case TL_NOT_EQUAL: return a != b;
    default: return 0;
    }
}

#define EACH_LANE(expression)                                                                      \
    for (int i = 0; i < width; i++) out[i] = (expression)

/* Loops of one operator each: that is what vectorises. */
WIDE_VECTORS static void apply_rows(tl_operator operator, tl_division division, const double *a,
                                    const double *b, int width, double *restrict out) {
    switch (operator) {
    case TL_PLUS: EACH_LANE(a[i] + b[i]); break;
    case TL_MINUS: EACH_LANE(a[i] - b[i]); break;
    case TL_TIMES: EACH_LANE(a[i] * b[i]); break;
    case TL_MODULO: EACH_LANE(a[i] - floor(a[i] / b[i]) * b[i]); break;
    case TL_LESS: EACH_LANE(a[i] < b[i]); break;
    case TL_LESS_EQUAL: EACH_LANE(a[i] <= b[i]); break;
    case TL_GREATER: EACH_LANE(a[i] > b[i]); break;
    case TL_GREATER_EQUAL: EACH_LANE(a[i] >= b[i]); break;
    case TL_EQUAL: EACH_LANE(a[i] == b[i]); break;
    case TL_NOT_EQUAL: EACH_LANE(a[i] != b[i]); break;
    default: EACH_LANE(apply_one(operator, division, a[i], b[i])); break;
    }
}

WIDE_VECTORS static void either_row(bool is_or, const double *a, const double *b, int width,
                                    double *restrict out) {
    if (is_or) EACH_LANE((a[i] != 0) | (b[i] != 0));
    else EACH_LANE((a[i] != 0) & (b[i] != 0));
}

WIDE_VECTORS static void select_row(const double *condition, const double *yes, const double *no,
                                    int width, double *restrict out) {
    EACH_LANE(condition[i] != 0 ? yes[i] : no[i]);
}

WIDE_VECTORS static void choose_row(bool wants_most, const double *a, const double *b, int width,
                                    double *restrict out) {
    if (wants_most) EACH_LANE(((b[i] > a[i]) | (a[i] != a[i])) ? b[i] : a[i]);
    else EACH_LANE(((b[i] < a[i]) | (a[i] != a[i])) ? b[i] : a[i]);
}

static bool row_under(row_context *c, const tl_expr *e, const double *values, bool wants_true,
                      lanes *out) {
    row_guard guard = {c->guard, values, wants_true};
    c->guard = &guard;
    bool is_done = row_of(c, e, out);
    c->guard = guard.outer;
    return is_done;
}

bool row_active(const row_context *c, const uint8_t **active) {
    *active = c->active;
    if (!c->guard) return true;
    uint8_t *left = (uint8_t *)machine_vector(c->s->machine);
    if (!left) return false;
    for (int i = 0; i < c->width; i++) left[i] = !c->active || c->active[i];
    for (const row_guard *g = c->guard; g; g = g->outer)
        for (int i = 0; i < c->width; i++) left[i] &= (g->values[i] != 0) == g->wants_true;
    *active = left;
    return true;
}

static bool row_logic(row_context *c, const tl_expr *e, lanes *out) {
    machine *m = c->s->machine;
    bool is_or = e->operator== TL_OR;
    lanes a, b;
    if (!row_of(c, e->left, &a)) return false;
    if (a.kind == LANES_ONE) {
        if ((a.value != 0) == is_or) *out = row_one(is_or);
        else return row_of(c, e->right, out);
        return true;
    }
    const double *x = lanes_items(m, a, c->width);
    if (!x || !row_under(c, e->right, x, !is_or, &b)) return false;
    const double *y = lanes_items(m, b, c->width);
    double *z = machine_vector(m);
    if (!y || !z) return false;
    either_row(is_or, x, y, c->width, z);
    *out = (lanes){.kind = LANES_MANY, .items = z};
    return true;
}

static bool combine(row_context *c, tl_operator operator, tl_division division, lanes a, lanes b,
                    lanes *out) {
    machine *m = c->s->machine;
    if (a.kind == LANES_ONE && b.kind == LANES_ONE) {
        *out = row_one(apply_one(operator, division, a.value, b.value));
        return true;
    }
    bool is_shift =
        (operator== TL_PLUS || operator== TL_MINUS) && b.kind == LANES_ONE && a.kind == LANES_RAMP;
    if (is_shift || (operator== TL_PLUS && a.kind == LANES_ONE && b.kind == LANES_RAMP)) {
        *out =
            (lanes){.kind = LANES_RAMP, .value = apply_one(operator, division, a.value, b.value)};
        return true;
    }
    const double *x = lanes_items(m, a, c->width), *y = lanes_items(m, b, c->width);
    double *z = machine_vector(m);
    if (!x || !y || !z) return false;
    apply_rows(operator, division, x, y, c->width, z);
    *out = (lanes){.kind = LANES_MANY, .items = z};
    return true;
}

static bool row_binary(row_context *c, const tl_expr *e, lanes *out) {
    if (e->operator== TL_AND || e->operator== TL_OR) return row_logic(c, e, out);
    lanes a, b;
    if (!row_of(c, e->left, &a) || !row_of(c, e->right, &b) ||
        !combine(c, e->operator, e->division, a, b, out))
        return false;
    machine *m = c->s->machine;
    if (!m->has_errors || !tl_expr_is_real(e) || !errors_rounds(m)) return true;
    double *z = machine_vector(m);
    const double *x = z ? lanes_items(m, *out, c->width) : NULL;
    if (!x) return false;
    errors_off_by_rounding(x, c->width, z);
    *out = (lanes){.kind = LANES_MANY, .items = z};
    return true;
}

static bool row_select(row_context *c, const tl_expr *e, lanes *out) {
    machine *m = c->s->machine;
    lanes condition, yes, no;
    if (!row_of(c, e->items[0], &condition)) return false;
    if (condition.kind == LANES_ONE) return row_of(c, e->items[condition.value != 0 ? 1 : 2], out);
    const double *x = lanes_items(m, condition, c->width);
    if (!x || !row_under(c, e->items[1], x, true, &yes)) return false;
    if (!row_under(c, e->items[2], x, false, &no)) return false;
    const double *y = lanes_items(m, yes, c->width), *n = lanes_items(m, no, c->width);
    double *z = machine_vector(m);
    if (!y || !n || !z) return false;
    select_row(x, y, n, c->width, z);
    *out = (lanes){.kind = LANES_MANY, .items = z};
    return true;
}

static double call_one(tl_function function, double x) {
    switch (function) {
    case TL_FUNCTION_CEIL: return ceil(x);
    case TL_FUNCTION_FLOOR: return floor(x);
    default: break;
    }
    const tl_operation_facts *f = tl_facts(tl_function_operation(function));
    return f->of ? f->of(x, 0, 0) : x;
}

static void call_row(tl_function function, const double *x, int width, double *out) {
    const tl_operation_facts *f = tl_facts(tl_function_operation(function));
    if (f->row) f->row(x, x, x, width, out);
    else EACH_LANE(call_one(function, x[i]));
}

static bool row_least_or_most(row_context *c, const tl_expr *e, lanes *out) {
    machine *m = c->s->machine;
    bool wants_most = e->function == TL_FUNCTION_MAX;
    if (!row_of(c, e->items[0], out)) return false;
    for (int k = 1; k < e->item_count; k++) {
        lanes next;
        if (!row_of(c, e->items[k], &next)) return false;
        if (out->kind == LANES_ONE && next.kind == LANES_ONE) {
            bool takes = wants_most ? next.value > out->value : next.value < out->value;
            if (takes || isnan(out->value)) *out = next;
            continue;
        }
        const double *x = lanes_items(m, *out, c->width), *y = lanes_items(m, next, c->width);
        double *z = machine_vector(m);
        if (!x || !y || !z) return false;
        choose_row(wants_most, x, y, c->width, z);
        *out = (lanes){.kind = LANES_MANY, .items = z};
    }
    return true;
}

static bool row_call(row_context *c, const tl_expr *e, lanes *out) {
    if (e->function == TL_FUNCTION_SELECT) return row_select(c, e, out);
    if (e->function == TL_FUNCTION_MIN || e->function == TL_FUNCTION_MAX) {
        return row_least_or_most(c, e, out);
    }
    tl_value value = {0};
    if (tl_function_is_asked(e->function)) {
        bool has_value = scope_evaluate(c->s, e, &value);
        *out = row_one(value.is_real ? value.real : (double)value.integer);
        return has_value;
    }
    lanes x;
    if (!row_of(c, e->items[0], &x)) return false;
    if (x.kind == LANES_ONE) {
        *out = row_one(call_one(e->function, x.value));
        return true;
    }
    const double *items = lanes_items(c->s->machine, x, c->width);
    double *z = machine_vector(c->s->machine);
    if (!items || !z) return false;
    call_row(e->function, items, c->width, z);
    *out = (lanes){.kind = LANES_MANY, .items = z};
    return true;
}

static bool row_name(row_context *c, const tl_expr *e, lanes *out) {
    scope *s = c->s;
    const tl_symbol *symbol = e->symbol;
    if (symbol && symbol->kind == TL_SYMBOL_VARIABLE) return row_tile(c, e, out);
    if (symbol && s->has_index[symbol->position]) {
        *out = s->indices[symbol->position];
        return true;
    }
    if (symbol && symbol->kind == TL_SYMBOL_CONSTANT && symbol->is_known) {
        *out = row_one(symbol->number);
        return true;
    }
    if (symbol && s->has_value[symbol->position]) {
        tl_value v = s->values[symbol->position];
        *out = row_one(v.is_real ? v.real : (double)v.integer);
        return true;
    }
    if (symbol && symbol->kind == TL_SYMBOL_CONSTANT && symbol->value) {
        return row_of(c, symbol->value, out);
    }
    machine_stop(s->machine, DIAG_INTERPRET_NO_VALUE, e->range, e->text);
    return false;
}

static bool row_of_kind(row_context *c, const tl_expr *e, lanes *out) {
    lanes x;
    switch (e->kind) {
    case TL_INTEGER: *out = row_one((double)e->integer); return true;
    case TL_NUMBER: *out = row_one(e->number); return true;
    case TL_NAME: return row_name(c, e, out);
    case TL_ELEMENT: return row_element(c, e, out);
    case TL_CALL: return row_call(c, e, out);
    case TL_NEGATE:
        return row_of(c, e->left, &x) &&
               combine(c, TL_MINUS, TL_DIVIDE_UNKNOWN, row_one(0), x, out);
    case TL_NOT:
        return row_of(c, e->left, &x) &&
               combine(c, TL_EQUAL, TL_DIVIDE_UNKNOWN, x, row_one(0), out);
    case TL_BINARY: return row_binary(c, e, out);
    }
    return false;
}

bool row_of(row_context *c, const tl_expr *e, lanes *out) {
    enum { DEPTH_MAX = 1200 };
    if (!e || c->depth >= DEPTH_MAX) return false;
    c->depth++;
    bool is_done = row_of_kind(c, e, out);
    c->depth--;
    return is_done;
}

static bool lanes_of(row_context *c, const tl_expr *e, lanes *out) {
    scope *s = c->s;
    bool is_done = row_of(c, e, out);
    if (!is_done && !s->machine->has_failed) {
        machine_stop(s->machine, DIAG_INTERPRET_NO_VALUE, e->range,
                     tl_expr_text(s->machine->memory, e));
    }
    return is_done;
}

bool scope_lanes(scope *s, const tl_expr *e, const tile *of, int64_t row, int width,
                 const uint8_t *active, lanes *out) {
    row_context c = {.s = s, .of = of, .row = row, .width = width, .active = active};
    return lanes_of(&c, e, out);
}

bool scope_lanes_at(scope *s, const tl_expr *e, const tile *of, int64_t row, int64_t first,
                    int width, lanes *out) {
    row_context c = {.s = s, .of = of, .row = row, .first_lane = first, .width = width};
    return lanes_of(&c, e, out);
}
