/* Votes that keep numbers within the type that a product takes them in: a row's sum that passes may
 * be one number alone. What the type cannot hold is infinite there, or less than it was.
 */
#include "base/convert.h"
#include "check/rules.h"

#include <math.h>

/* What passes a vote: numbers of a tile, up to the largest f32 that does. */
typedef struct passed {
    const tl_symbol *tile;
    double most;
} passed;

/* any(not X < N), any(X >= N) and the like: in no other form a vote is about what is too large. */
static bool read_vote(const tl_expr *vote, passed *out) {
    const tl_expr *e = vote->item_count == 1 ? vote->items[0] : NULL;
    bool is_turned = false;
    double limit;
    for (; e && e->kind == TL_NOT; e = e->left) is_turned = !is_turned;
    if (!e || e->kind != TL_BINARY || e->left->kind != TL_NAME) return false;
    bool is_below = e->operator== TL_LESS || e->operator== TL_LESS_EQUAL;
    bool is_above = e->operator== TL_GREATER || e->operator== TL_GREATER_EQUAL;
    bool is_excluded = e->operator== TL_LESS || e->operator== TL_GREATER_EQUAL;
    if (!(is_turned ? is_below : is_above) || !tl_known_number(e->right, &limit)) return false;
    *out = (passed){e->left->symbol, is_excluded ? (double)nextafterf((float)limit, 0) : limit};
    return true;
}

/* Of an open type, or of whole numbers, nothing is said. */
static bool can_hold(tl_type type, double value) {
    convert_format format = type == TL_BF16   ? CONVERT_BF16
                            : type == TL_E4M3 ? CONVERT_E4M3
                            : type == TL_E5M2 ? CONVERT_E5M2
                                              : CONVERT_F16;
    bool is_narrow = type == TL_F16 || type == TL_BF16 || type == TL_E4M3 || type == TL_E5M2;
    if (!is_narrow) return true;
    return fabs(convert_round(format, value) - value) <= convert_step(format, value) / 2;
}

static bool is_compute(const model_step *step, tl_operation operation) {
    return step->kind == STEP_COMPUTE && step->statement->compute.operation == operation &&
           step->has_target && step->read_count > 0;
}

/* The tile that what was summed at 'at' is rounded to, before or after it, as it is then; NULL: it
 * is not. `step` goes from the sum up to where the tile is written, or a way begins or ends.
 */
static const model_tile *rounded(const model *m, const model_role *role, int at, int step) {
    int summed = role->steps[at].reads[0].tile;
    for (int i = at + step; i >= 0 && i < role->step_count; i += step) {
        const model_step *s = &role->steps[i];
        if (is_compute(s, TL_CAST) && s->reads[0].tile == summed) return &m->tiles[s->target.tile];
        bool is_way = s->kind == STEP_FOR || s->kind == STEP_END_FOR || s->kind == STEP_IF ||
                      s->kind == STEP_END_IF;
        if (is_way || (s->has_target && s->target.tile == summed)) return NULL;
    }
    return NULL;
}

typedef struct voting {
    const model *m;
    const model_role *role;
    diag_list *diags;
    bool is_right;
} voting;

/* The tile holds nothing but sums, each of one row's elements as they are. */
static bool is_summed_anew(const voting *v, const tl_symbol *tile) {
    bool is_summed = false;
    for (int i = 0; i < v->role->step_count; i++) {
        const model_step *s = &v->role->steps[i];
        if (!s->has_target || v->m->tiles[s->target.tile].symbol != tile) continue;
        if (!is_compute(s, TL_ROW_SUM) || s->accumulates) return false;
        is_summed = true;
    }
    return is_summed;
}

static void judge(voting *v, const tl_expr *vote, const passed *p) {
    if (!is_summed_anew(v, p->tile)) return;
    for (int i = 0; i < v->role->step_count; i++) {
        const model_step *sum = &v->role->steps[i];
        if (!sum->has_target || v->m->tiles[sum->target.tile].symbol != p->tile) continue;
        const model_tile *into = rounded(v->m, v->role, i, 1);
        if (!into) into = rounded(v->m, v->role, i, -1);
        if (!into || can_hold(into->type, p->most)) continue;
        diag_report(v->diags, DIAG_VOTE_TOO_LATE, vote->range, sum->target.name,
                    str_format(v->m->memory, "%.9g", p->most), into->name,
                    str_from(tl_type_name(into->type)));
        v->is_right = false;
        return;
    }
}

static bool judge_votes(void *context, const tl_expr *e) {
    voting *v = context;
    passed p;
    bool is_vote = e->kind == TL_CALL && e->function == TL_FUNCTION_ANY;
    if (is_vote && read_vote(e, &p)) judge(v, e, &p);
    return v->is_right;
}

bool rules_votes(const model *m, diag_list *diags) {
    voting v = {m, NULL, diags, true};
    for (int r = 0; r < m->role_count; r++) {
        v.role = &m->roles[r];
        for (int i = 0; i < v.role->step_count; i++) {
            const model_step *step = &v.role->steps[i];
            const tl_statement *s = step->statement;
            if (step->kind == STEP_IF) tl_visit(s->branch.condition, judge_votes, &v);
            for (int k = 0; step->kind == STEP_LET && k < s->let.count; k++)
                tl_visit(s->let.items[k].value, judge_votes, &v);
        }
    }
    return v.is_right;
}
