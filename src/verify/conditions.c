/* A formula is postfix, so each part of it is a stretch of its steps, which can be evaluated by
 * itself. To make a part have a value, one of its own parts is given the value that it needs then,
 * and so on down to a name.
 */
#include "verify/conditions.h"

#include "verify/random.h"

#include <math.h>
#include <string.h>

enum { SIZE_MOST = 1 << 24, SIZES_MAX = 64, DEPTH_MAX = 64 };

/* What a part's value is to the one that is asked for. */
typedef enum relation { AT_MOST, SAME, AT_LEAST } relation;

typedef struct part {
    const ftl_formula_step *steps;
    int32_t count;
} part;

typedef struct solver {
    const ftl_plan *plan;
    conditions_values *v;
    uint64_t seed, turn; /* for choices */
    int depth;
    bool is_close; /* scalars are put on their bounds, rather than within */
} solver;

/* --- parts ------------------------------------------------------------------------------------ */

static int operands_of(ftl_formula_op op) {
    if (op < FTL_ADD) return 0;
    return op == FTL_NEGATE || op == FTL_ABS || op == FTL_NOT ? 1 : 2;
}

/* The operand that ends at 'end' of the steps. */
static part ending_at(const ftl_formula_step *steps, int32_t end) {
    int32_t begin = end, open = 1;
    while (open > 0 && begin > 0) open += operands_of(steps[--begin].op) - 1;
    return (part){steps + begin, end - begin};
}

static ftl_formula_op op_of(part p) {
    return p.steps[p.count - 1].op;
}

static part right_of(part p) {
    return ending_at(p.steps, p.count - 1);
}

static part left_of(part p) {
    return ending_at(p.steps, p.count - 1 - right_of(p).count);
}

static bool value_of(const solver *s, part p, double *value) {
    ftl_formula formula = {.text = "", .steps = p.steps, .step_count = p.count};
    return ftl_formula_evaluate(&formula, s->v->sizes, s->v->scalars, value);
}

static bool choose(solver *s) {
    return random_bits(s->seed, 77, s->turn++) & 1;
}

/* --- giving values ---------------------------------------------------------------------------- */

static bool set_size(solver *s, int32_t size, double to, relation r) {
    double whole = r == AT_MOST ? floor(to) : r == AT_LEAST ? ceil(to) : to;
    bool is_pinned = s->v->is_pinned && s->v->is_pinned[size];
    if (is_pinned || !(whole >= 0 && whole <= SIZE_MOST) || whole != floor(whole)) return false;
    s->v->sizes[size] = (int64_t)whole;
    return true;
}

/* Within a bound by as much as the scalar had of its own, or on it. */
static bool set_scalar(solver *s, int32_t scalar, double to, relation r) {
    double *value = &s->v->scalars[scalar], own = *value != 0 ? fabs(*value) : 1;
    if (s->is_close) own = 0;
    bool is_whole = s->plan->scalars[scalar].type == FTL_I32;
    if (r == AT_LEAST) *value = to + own;
    else if (r == AT_MOST) *value = to - own;
    else *value = to;
    if (is_whole) *value = r == AT_MOST ? floor(*value) : ceil(*value);
    return isfinite(*value);
}

static bool set(solver *s, part p, double to, relation r);

static relation turned(relation r) {
    return r == AT_MOST ? AT_LEAST : r == AT_LEAST ? AT_MOST : SAME;
}

/* One side of an operation, where the other one keeps its value. */
static bool set_side(solver *s, part p, bool is_left, double to, relation r) {
    part side = is_left ? left_of(p) : right_of(p), rest = is_left ? right_of(p) : left_of(p);
    double other, own;
    if (!value_of(s, rest, &other) || !value_of(s, side, &own)) return false;
    switch (op_of(p)) {
    case FTL_ADD: return set(s, side, to - other, r);
    case FTL_SUBTRACT:
        return is_left ? set(s, side, to + other, r) : set(s, side, other - to, turned(r));
    case FTL_MULTIPLY: return other > 0 && set(s, side, to / other, r);
    case FTL_DIVIDE_UP:
    case FTL_DIVIDE_DOWN:
    case FTL_DIVIDE_REAL: return is_left && other > 0 && set(s, side, to * other, r);
    case FTL_MODULO:
        if (is_left) return other > 0 && set(s, side, ceil((own - to) / other) * other + to, SAME);
        return to == 0 && set(s, side, other, SAME);
    case FTL_MIN: return set(s, side, to, r) && (r == AT_MOST || other >= to);
    case FTL_MAX: return set(s, side, to, r) && (r == AT_LEAST || other <= to);
    default: return false;
    }
}

/* Makes the part's value 'to', or at least, or at most that. */
static bool set(solver *s, part p, double to, relation r) {
    const ftl_formula_step *last = &p.steps[p.count - 1];
    if (s->depth >= DEPTH_MAX) return false;
    if (last->op == FTL_PUSH_SIZE) return set_size(s, last->index, to, r);
    if (last->op == FTL_PUSH_SCALAR) return set_scalar(s, last->index, to, r);
    if (last->op < FTL_ADD || last->op >= FTL_LESS) return false;
    s->depth++;
    bool is_left = !choose(s), is_set;
    if (last->op == FTL_NEGATE) is_set = set(s, right_of(p), -to, turned(r));
    else if (last->op == FTL_ABS) is_set = set(s, right_of(p), to, r);
    else is_set = set_side(s, p, is_left, to, r) || set_side(s, p, !is_left, to, r);
    s->depth--;
    return is_set;
}

/* --- conditions ------------------------------------------------------------------------------- */

/* "a < b": a below b as it is, or b above a. Whole numbers are apart by one. */
static bool compare(solver *s, part p, relation r, bool is_strict) {
    part left = left_of(p), right = right_of(p);
    bool has_scalar = false;
    for (int32_t i = 0; i < p.count; i++) has_scalar |= p.steps[i].op == FTL_PUSH_SCALAR;
    double a, b, apart = is_strict && !has_scalar ? 1 : 0;
    if (!value_of(s, left, &a) || !value_of(s, right, &b)) return false;
    double less = r == AT_MOST ? apart : -apart;
    bool starts_left = !choose(s);
    for (int i = 0; i < 2; i++) {
        bool is_left = (i == 0) == starts_left;
        bool is_set = is_left ? set(s, left, b - less, r) : set(s, right, a + less, turned(r));
        if (is_set) return true;
    }
    return false;
}

/* Makes a condition hold that does not. */
static bool repair(solver *s, part p) {
    double holds;
    if (value_of(s, p, &holds) && holds != 0) return true;
    if (s->depth >= DEPTH_MAX) return false;
    s->depth++;
    bool is_done = false, is_left = !choose(s);
    switch (op_of(p)) {
    case FTL_AND: is_done = repair(s, left_of(p)) && repair(s, right_of(p)); break;
    case FTL_OR:
        is_done = repair(s, is_left ? left_of(p) : right_of(p)) ||
                  repair(s, is_left ? right_of(p) : left_of(p));
        break;
    case FTL_EQUAL: is_done = compare(s, p, SAME, false); break;
    case FTL_LESS: is_done = compare(s, p, AT_MOST, true); break;
    case FTL_LESS_EQUAL: is_done = compare(s, p, AT_MOST, false); break;
    case FTL_NOT_EQUAL:
    case FTL_GREATER: is_done = compare(s, p, AT_LEAST, true); break;
    case FTL_GREATER_EQUAL: is_done = compare(s, p, AT_LEAST, false); break;
    default: break;
    }
    s->depth--;
    return is_done;
}

static bool is_length(const ftl_formula *extent, const int64_t *sizes, const double *scalars) {
    double value;
    return ftl_formula_evaluate(extent, sizes, scalars, &value) && value >= 0;
}

bool conditions_hold(const ftl_plan *plan, const int64_t *sizes, const double *scalars) {
    double holds;
    for (int32_t i = 0; i < plan->condition_count; i++) {
        bool is_known = ftl_formula_evaluate(&plan->conditions[i], sizes, scalars, &holds);
        if (!is_known || holds == 0) return false;
    }
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        for (int32_t i = 0; i < plan->tensors[t].axis_count; i++) {
            if (!is_length(&plan->tensors[t].axes[i].extent, sizes, scalars)) return false;
        }
    }
    return true;
}

static void repair_all(solver *s) {
    const ftl_plan *plan = s->plan;
    for (int32_t i = 0; i < plan->condition_count; i++)
        repair(s, (part){plan->conditions[i].steps, plan->conditions[i].step_count});
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        for (int32_t i = 0; i < plan->tensors[t].axis_count; i++) {
            const ftl_formula *extent = &plan->tensors[t].axes[i].extent;
            if (is_length(extent, s->v->sizes, s->v->scalars)) continue;
            set(s, (part){extent->steps, extent->step_count}, 0, AT_LEAST);
        }
    }
}

bool conditions_solve(const ftl_plan *plan, uint64_t seed, conditions_values *v) {
    enum { ATTEMPTS = 8, ROUNDS = 6 };
    int64_t sizes[SIZES_MAX];
    double scalars[SIZES_MAX];
    if (plan->size_count > SIZES_MAX || plan->scalar_count > SIZES_MAX) return false;
    memcpy(sizes, v->sizes, (size_t)plan->size_count * sizeof *sizes);
    memcpy(scalars, v->scalars, (size_t)plan->scalar_count * sizeof *scalars);
    for (uint64_t attempt = 0; attempt < ATTEMPTS; attempt++) {
        solver s = {.plan = plan, .v = v, .seed = seed + attempt, .is_close = attempt % 2};
        for (int round = 0; round < ROUNDS; round++) {
            if (conditions_hold(plan, v->sizes, v->scalars)) return true;
            repair_all(&s);
        }
        if (conditions_hold(plan, v->sizes, v->scalars)) return true;
        memcpy(v->sizes, sizes, (size_t)plan->size_count * sizeof *sizes);
        memcpy(v->scalars, scalars, (size_t)plan->scalar_count * sizeof *scalars);
    }
    return false;
}
