/* What names and expressions are worth: once, or for a row of elements. */
#include "base/wide.h"
#include "interpret/machine.h"

#include <math.h>

void scope_init(scope *s, machine *m) {
    int count = m->kernel->symbol_count;
    *s = (scope){.machine = m};
    s->values = arena_array(m->memory, tl_value, count + 1);
    s->has_value = arena_array(m->memory, bool, count + 1);
    s->indices = arena_array(m->memory, lanes, count + 1);
    s->has_index = arena_array(m->memory, bool, count + 1);
    for (int i = 0; i < count; i++) {
        s->values[i] = m->launch_values[i];
        s->has_value[i] = m->has_launch_value[i];
    }
}

void scope_set_value(scope *s, const tl_symbol *symbol, tl_value value) {
    s->values[symbol->position] = value;
    s->has_value[symbol->position] = true;
}

void scope_set(scope *s, const tl_symbol *symbol, int64_t value) {
    scope_set_value(s, symbol, (tl_value){.integer = value});
}

/* --- one value -------------------------------------------------------------------------------- */

static bool element_value(scope *s, const tl_expr *e, tl_value *value) {
    int64_t at[TL_AXES_MAX];
    if (e->space != TL_GLOBAL || !e->symbol || e->item_count > TL_AXES_MAX) return false;
    for (int i = 0; i < e->item_count; i++) {
        tl_value item;
        if (!scope_evaluate(s, e->items[i], &item) || item.is_real) return false;
        at[i] = item.integer;
    }
    double element;
    if (!memory_read_one(s, e->symbol, at, &element, e->range)) return false;
    bool is_integer = !e->symbol->is_real && fabs(element) < 9e15;
    *value = is_integer ? (tl_value){.integer = (int64_t)element}
                        : (tl_value){.is_real = true, .real = element};
    return true;
}

/* any(COND): whether the condition holds for an element of the widest tile in it. */
static const tl_expr *widest_tile(scope *s, const tl_expr *e, int *most) {
    if (!e) return NULL;
    const tl_expr *found = NULL;
    if (e->kind == TL_NAME && e->symbol && e->symbol->kind == TL_SYMBOL_VARIABLE) {
        const tl_tile *t = tl_tile_of(e);
        if (t && t->axis_count > *most) {
            *most = t->axis_count;
            found = e;
        }
    }
    const tl_expr *inner[2] = {e->left, e->right};
    for (int i = 0; i < 2 + e->item_count; i++) {
        const tl_expr *one = widest_tile(s, i < 2 ? inner[i] : e->items[i - 2], most);
        if (one) found = one;
    }
    return found;
}

static bool any_value(scope *s, const tl_expr *e, tl_value *value) {
    int most = 0;
    const tl_expr *name = widest_tile(s, e->items[0], &most);
    const tile *t = name && s->tile_of ? s->tile_of(s, name, s->at) : NULL;
    if (!t) return false;
    const tile_share *share = &t->share;
    int lane_axis = t->axis_count - 1;
    int64_t first = share->first[lane_axis];
    int width = (int)(share->end[lane_axis] - first);
    bool is_matrix = t->axis_count == 2;
    *value = (tl_value){0};
    for (int64_t row = is_matrix ? share->first[0] : 0; row < (is_matrix ? share->end[0] : 1);
         row++) {
        int used = s->machine->scratch_used;
        lanes holds;
        if (!scope_lanes_at(s, e->items[0], t, row, first, width, &holds)) return false;
        const double *items = lanes_items(s->machine, holds, width);
        if (!items) return false;
        for (int i = 0; i < width; i++) value->integer |= items[i] != 0;
        s->machine->scratch_used = used;
    }
    return true;
}

/* The functions that tl_function_is_asked names. */
static bool asked_value(scope *s, const tl_expr *e, tl_value *value) {
    switch (e->function) {
    case TL_FUNCTION_ANY: return any_value(s, e, value);
    case TL_FUNCTION_FIRST: *value = (tl_value){.integer = s->is_first_tile}; return true;
    case TL_FUNCTION_MORE: *value = (tl_value){.integer = s->has_more_tiles}; return true;
    default:
        return s->has_more_tiles && s->following &&
               scope_evaluate(s->following, e->items[0], value);
    }
}

static bool lookup(void *context, const tl_expr *e, tl_value *value) {
    scope *s = context;
    if (e->kind == TL_CALL) return asked_value(s, e, value);
    if (!e->symbol) return false;
    if (e->kind == TL_ELEMENT) return element_value(s, e, value);
    if (!s->has_value[e->symbol->position]) return false;
    *value = s->values[e->symbol->position];
    return true;
}

bool scope_evaluate(scope *s, const tl_expr *e, tl_value *value) {
    return tl_evaluate(e, lookup, s, value);
}

bool scope_value(scope *s, const tl_expr *e, tl_value *value) {
    if (scope_evaluate(s, e, value)) return true;
    if (!s->machine->has_failed) {
        machine_stop(s->machine, DIAG_INTERPRET_NO_VALUE, e->range,
                     tl_expr_text(s->machine->memory, e));
    }
    return false;
}

bool scope_integer(scope *s, const tl_expr *e, int64_t *value) {
    tl_value v;
    if (!scope_value(s, e, &v)) return false;
    bool is_whole = !v.is_real || (v.real == floor(v.real) && fabs(v.real) < 0x1p63);
    if (!is_whole) {
        machine_stop(s->machine, DIAG_INTERPRET_NO_INTEGER, e->range,
                     tl_expr_text(s->machine->memory, e));
        return false;
    }
    *value = v.is_real ? (int64_t)v.real : v.integer;
    return true;
}

/* --- a row of values -------------------------------------------------------------------------- */

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

/* What is under a condition counts in the lanes where its values are as wanted. */
typedef struct row_guard {
    const struct row_guard *outer;
    const double *values;
    bool wants_true;
} row_guard;

typedef struct row_context {
    scope *s;
    const tile *of;
    int64_t row, first_lane;
    int width;
    const uint8_t *active;  /* by the caller; NULL: all */
    const row_guard *guard; /* of the conditions around, the innermost */
    int depth;
} row_context;

static bool row_of(row_context *c, const tl_expr *e, lanes *out);

static lanes one(double value) {
    return (lanes){.kind = LANES_ONE, .value = value};
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

/* The lanes that all conditions around leave to be computed; NULL: all. False: no memory. */
static bool active_lanes(const row_context *c, const uint8_t **active) {
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
        if ((a.value != 0) == is_or) *out = one(is_or);
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
        *out = one(apply_one(operator, division, a.value, b.value));
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
    return row_of(c, e->left, &a) && row_of(c, e->right, &b) &&
           combine(c, e->operator, e->division, a, b, out);
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
        *out = one(value.is_real ? value.real : (double)value.integer);
        return has_value;
    }
    lanes x;
    if (!row_of(c, e->items[0], &x)) return false;
    if (x.kind == LANES_ONE) {
        *out = one(call_one(e->function, x.value));
        return true;
    }
    const double *items = lanes_items(c->s->machine, x, c->width);
    double *z = machine_vector(c->s->machine);
    if (!items || !z) return false;
    call_row(e->function, items, c->width, z);
    *out = (lanes){.kind = LANES_MANY, .items = z};
    return true;
}

/* Does it say which element of the tile this is? */
static bool uses_place(const scope *s, const tl_expr *e) {
    if (!e) return false;
    if (e->kind == TL_NAME) return e->symbol && s->has_index[e->symbol->position];
    bool uses = uses_place(s, e->left) || uses_place(s, e->right);
    for (int i = 0; i < e->item_count && !uses; i++) uses = uses_place(s, e->items[i]);
    return uses;
}

/* Elements that are taken by their indices do not carry what they err by. */
static bool note_errors(row_context *c, const tl_expr *e, const lanes *at, int width,
                        const uint8_t *active) {
    machine *m = c->s->machine;
    bool has_errors = m->has_errors && memory_tensor(m, e->symbol)->memory.errors;
    if (!has_errors || e == m->viewed) return true;
    double *off = machine_vector(m);
    if (!off || !memory_read_errors(c->s, e->symbol, at, width, active, off, e->range))
        return false;
    for (int i = 0; i < width; i++) m->errors_are_unknown |= !(off[i] == 0);
    return true;
}

/* Of how many lanes, from the first, the element of the tile is inside its axes. */
static bool lanes_inside(row_context *c, int64_t *count) {
    scope *s = c->s;
    *count = c->width;
    for (int k = 0; k < c->of->axis_count; k++) {
        const tl_symbol *index = tl_find_index(s->machine->kernel, c->of->index[k]);
        int64_t extent;
        if (!index || !index->extent || !s->has_index[index->position]) continue;
        if (!scope_integer(s, index->extent, &extent)) return false;
        const lanes *at = &s->indices[index->position];
        int64_t left = extent - (int64_t)at->value;
        if (at->kind == LANES_ONE && left <= 0) *count = 0;
        if (at->kind == LANES_RAMP && left < *count) *count = left > 0 ? left : 0;
    }
    return true;
}

/* What is past the end of the tile's axes means nothing: it reads 0 before the begin of a tensor
 * without a report, as it does past its end.
 */
static bool leave_meaningless(row_context *c, const lanes *at, int axis_count, int width,
                              const uint8_t **active) {
    machine *m = c->s->machine;
    int64_t inside;
    if (!lanes_inside(c, &inside)) return false;
    if (inside >= width) return true;
    uint8_t *meant = (uint8_t *)machine_vector(m);
    if (!meant) return false;
    for (int i = 0; i < width; i++) meant[i] = !*active || (*active)[i];
    for (int k = 0; k < axis_count; k++) {
        const double *x = lanes_items(m, at[k], width);
        if (!x) return false;
        for (int i = (int)inside; i < width; i++) meant[i] = meant[i] && x[i] >= 0;
    }
    *active = meant;
    return true;
}

static bool row_element(row_context *c, const tl_expr *e, lanes *out) {
    machine *m = c->s->machine;
    if (e->space != TL_GLOBAL) {
        machine_stop(m, DIAG_INTERPRET_UNSUPPORTED, e->range,
                     STR("an element of a tile by its index"));
        return false;
    }
    lanes at[TL_AXES_MAX] = {0};
    bool is_one = true;
    for (int i = 0; i < e->item_count; i++) {
        if (!row_of(c, e->items[i], &at[i])) return false;
        is_one &= at[i].kind == LANES_ONE;
    }
    double *z = machine_vector(m);
    if (!z) return false;
    /* A single element is read for all lanes if any of them wants it. */
    const uint8_t *wanted;
    if (!active_lanes(c, &wanted)) return false;
    bool is_wanted = !wanted;
    for (int i = 0; i < c->width && !is_wanted; i++) is_wanted = wanted[i];
    if (is_one && !is_wanted) {
        *out = one(0);
        return true;
    }
    int width = is_one ? 1 : c->width;
    const uint8_t *active = is_one ? NULL : wanted;
    /* a view is no tile: its elements are in the tensor */
    bool may_end = m->is_code && c->of && uses_place(c->s, e);
    if (may_end && !leave_meaningless(c, at, e->item_count, width, &active)) return false;
    bool is_read = may_end ? memory_read_clipped(c->s, e->symbol, at, width, active, z, e->range)
                           : memory_read(c->s, e->symbol, at, width, active, z, e->range);
    if (!is_read || !note_errors(c, e, at, width, active)) return false;
    *out = is_one ? one(z[0]) : (lanes){.kind = LANES_MANY, .items = z};
    return true;
}

/* A tile among values: its element at the place of the row's elements, found by the axes' names. */
static bool row_tile(row_context *c, const tl_expr *e, lanes *out) {
    scope *s = c->s;
    machine *m = s->machine;
    const tile *t = s->tile_of ? s->tile_of(s, e, s->at) : NULL;
    if (!t || !c->of) return false;
    int64_t offset = 0, lane_step = 0, step = 1;
    int lane_axis = c->of->axis_count - 1;
    for (int k = t->axis_count - 1; k >= 0; k--) {
        int axis = 0;
        while (axis < c->of->axis_count && !str_equal(c->of->index[axis], t->index[k])) axis++;
        if (axis == c->of->axis_count) {
            machine_stop(m, DIAG_INTERPRET_AXIS, e->range, e->text, t->index[k]);
            return false;
        }
        if (t->count[k] != c->of->count[axis]) {
            machine_stop(m, DIAG_INTERPRET_COUNTS, e->range, t->index[k],
                         str_format(m->memory, "%lld", (long long)t->count[k]),
                         str_format(m->memory, "%lld", (long long)c->of->count[axis]));
            return false;
        }
        if (axis == lane_axis) {
            lane_step = step;
            offset += c->first_lane * step;
        } else {
            offset += c->row * step;
        }
        step *= t->count[k];
    }
    if (m->has_errors && errors_are_on(m, t)) {
        double *z = machine_vector(m);
        if (!z) return false;
        errors_apart(m, t->data + offset, tile_errors(m, t) + offset, lane_step, c->width, z);
        *out = lane_step ? (lanes){.kind = LANES_MANY, .items = z} : one(z[0]);
        return true;
    }
    if (lane_step == 0) {
        *out = one(t->data[offset]);
        return true;
    }
    if (lane_step == 1) {
        *out = (lanes){.kind = LANES_MANY, .items = t->data + offset};
        return true;
    }
    double *z = machine_vector(m);
    if (!z) return false;
    for (int i = 0; i < c->width; i++) z[i] = t->data[offset + i * lane_step];
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
        *out = one(symbol->number);
        return true;
    }
    if (symbol && s->has_value[symbol->position]) {
        tl_value v = s->values[symbol->position];
        *out = one(v.is_real ? v.real : (double)v.integer);
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
    case TL_INTEGER: *out = one((double)e->integer); return true;
    case TL_NUMBER: *out = one(e->number); return true;
    case TL_NAME: return row_name(c, e, out);
    case TL_ELEMENT: return row_element(c, e, out);
    case TL_CALL: return row_call(c, e, out);
    case TL_NEGATE:
        return row_of(c, e->left, &x) && combine(c, TL_MINUS, TL_DIVIDE_UNKNOWN, one(0), x, out);
    case TL_NOT:
        return row_of(c, e->left, &x) && combine(c, TL_EQUAL, TL_DIVIDE_UNKNOWN, x, one(0), out);
    case TL_BINARY: return row_binary(c, e, out);
    }
    return false;
}

static bool row_of(row_context *c, const tl_expr *e, lanes *out) {
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
