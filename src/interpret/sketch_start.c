/* Where the accumulators of a sketch start. */
#include "interpret/sketch.h"

typedef enum use_kind { USE_NONE, USE_ACCUMULATE, USE_OTHER } use_kind;

static use_kind use_of(const tl_statement *s, const tl_symbol *symbol) {
    if (s->kind == TL_COPY) {
        bool is_used = s->copy.what->symbol == symbol || tl_expr_mentions(s->copy.target, symbol);
        return is_used ? USE_OTHER : USE_NONE;
    }
    if (s->kind == TL_IF)
        return tl_expr_mentions(s->branch.condition, symbol) ? USE_OTHER : USE_NONE;
    if (s->kind != TL_COMPUTE) return USE_NONE;
    const tl_compute *c = &s->compute;
    for (int i = 0; i < c->operand_count; i++) {
        if (tl_expr_mentions(c->operands[i].value, symbol)) return USE_OTHER;
    }
    if (tl_expr_mentions(c->condition, symbol) || tl_expr_mentions(c->maximum, symbol) ||
        tl_expr_mentions(c->sum, symbol)) {
        return USE_OTHER;
    }
    if (!c->target || c->target->symbol != symbol) return USE_NONE;
    return c->target_kind == TL_ACCUMULATE ? USE_ACCUMULATE : USE_OTHER;
}

/* The outermost loop that holds all accumulates of a tile and no other use of it. */
const tl_statement *sketch_zero_loop(const machine *m, const tl_symbol *symbol, double *start) {
    const tl_statement *first = NULL, *found = NULL;
    for (int i = 0; i < m->statement_count && !first; i++) {
        if (use_of(m->statements[i], symbol) == USE_ACCUMULATE) first = m->statements[i];
    }
    *start = first ? tl_start(first->compute.operation) : 0;
    for (const tl_statement *loop = first; loop; loop = loop->parent) {
        if (loop->kind != TL_FOR) continue;
        bool fits = true;
        for (int i = 0; i < m->statement_count && fits; i++) {
            use_kind use = use_of(m->statements[i], symbol);
            bool inside = use != USE_NONE && tl_is_inside(m->statements[i], loop);
            fits = use == USE_NONE || (use == USE_ACCUMULATE) == inside;
        }
        if (fits) found = loop;
    }
    return found;
}

static bool is_changed_in_place(const tl_statement *s, const tl_symbol *symbol) {
    if (s->kind != TL_COMPUTE) return false;
    for (int i = 0; i < s->compute.operand_count; i++)
        if (tl_expr_mentions(s->compute.operands[i].value, symbol)) return true;
    return false;
}

/* A tile that is also given a value somewhere starts with that one. */
bool sketch_is_given_value(const machine *m, const tl_symbol *symbol) {
    for (int i = 0; i < m->statement_count; i++) {
        const tl_expr *written = tl_written_name(m->statements[i]);
        bool is_accumulate = m->statements[i]->kind == TL_COMPUTE &&
                             m->statements[i]->compute.target_kind == TL_ACCUMULATE;
        if (!written || written->symbol != symbol || is_accumulate) continue;
        if (!is_changed_in_place(m->statements[i], symbol)) return true;
    }
    return false;
}
