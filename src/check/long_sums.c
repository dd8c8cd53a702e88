/* Sums of 8-bit products that lose what they are sums of. Such a product keeps few bits of its sum,
 * and cuts: where all terms have one sign, a sum of 16,384 is off by a quarter. Sums that an f32
 * Add takes over every 512 terms at the latest are not.
 */
#include "check/rules.h"

enum { NOT_KNOWN = -1 };

/* After how many rounds does `if N*k == ...` under the loop write afresh; 1: in each. */
static int64_t rounds_of(const tl_statement *write, const tl_statement *loop) {
    int64_t rounds = 1;
    for (const tl_statement *s = write->parent; s && s != loop; s = s->parent) {
        if (s->kind != TL_IF) return NOT_KNOWN;
        const tl_expr *test = s->branch.condition;
        const tl_expr *rest =
            test->kind == TL_BINARY && test->operator== TL_EQUAL ? test->left : NULL;
        int64_t step;
        bool is_each = rest && rest->kind == TL_BINARY &&
                       rest->operator== TL_MODULO && tl_known_integer(rest->right, &step) &&
                       step > 0;
        if (!is_each || rounds != 1) return NOT_KNOWN;
        rounds = step;
    }
    return rounds;
}

static int64_t rounds_to_fresh(tl_statement *loop, const tl_symbol *sum) {
    int64_t least = NOT_KNOWN;
    for (tl_statement *s = tl_next(loop, loop); s; s = tl_next(s, loop)) {
        if (!tl_writes_afresh(s, sum)) continue;
        int64_t rounds = rounds_of(s, loop);
        if (rounds > 0 && (least == NOT_KNOWN || rounds < least)) least = rounds;
    }
    return least;
}

static int64_t trips(const tl_statement *loop) {
    int64_t from, to;
    bool is_known = !loop->loop.is_grid_walk && tl_known_integer(loop->loop.from, &from) &&
                    tl_known_integer(loop->loop.to, &to);
    return is_known && to > from ? to - from : NOT_KNOWN;
}

/* How many terms the product adds before its target starts again; NOT_KNOWN: launches decide. */
static int64_t sum_length(const model *m, const model_step *step) {
    const model_tile *left = &m->tiles[step->reads[0].tile];
    int k = model_axis_of(left, step->contracted);
    int64_t length = k < 0 ? 0 : left->axes[k].extent;
    const tl_symbol *sum = m->tiles[step->target.tile].symbol;
    for (tl_statement *s = step->statement->parent; s && step->accumulates; s = s->parent) {
        if (s->kind != TL_FOR) continue;
        int64_t rounds = rounds_to_fresh(s, sum);
        if (rounds > 0) return length * rounds;
        rounds = trips(s);
        if (rounds == NOT_KNOWN) return NOT_KNOWN;
        length *= rounds;
    }
    return length;
}

void rules_long_sums(const model *m, const gpu *target, diag_list *diags) {
    if (!target || !target->mma8_sum_bits || !gpu_cuts_byte_sums(target)) return;
    for (int r = 0; r < m->role_count; r++) {
        for (int i = 0; i < m->roles[r].step_count; i++) {
            const model_step *step = &m->roles[r].steps[i];
            bool is_product = step->kind == STEP_COMPUTE && step->has_target &&
                              step->read_count >= 2 &&
                              step->statement->compute.operation == TL_GEMM;
            if (!is_product || !tl_is_narrow(m->tiles[step->reads[0].tile].type)) continue;
            int64_t length = sum_length(m, step);
            if (length != NOT_KNOWN && length <= GPU_SHORT_SUM_MOST) continue;
            str words = length == NOT_KNOWN
                            ? STR("as many terms as a loop has rounds for")
                            : str_format(m->memory, "%lld terms", (long long)length);
            diag_report(diags, DIAG_LONG_SUM, step->statement->range, step->target.name, words,
                        target->title,
                        str_format(m->memory, "%lld", (long long)target->mma8_sum_bits));
        }
    }
}
