/* RowTopK of a sketch: its names, and what it collects block by block. */
#include "check/rules.h"

typedef struct naming {
    const tl_symbol *symbol;
    const tl_expr *found;
} naming;

static void find_name(void *context, tl_expr *e) {
    naming *n = context;
    if (e->symbol == n->symbol && !n->found) n->found = e;
}

static const tl_expr *named_by(tl_statement *s, const tl_symbol *symbol) {
    naming n = {symbol, NULL};
    tl_each_expr(s, find_name, &n);
    return n.found;
}

static bool has_three_names(const tl_compute *c, diag_list *diags) {
    const tl_expr *names[] = {c->operands[0].value, c->target, c->values};
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < i; k++) {
            if (!names[i] || !names[k] || names[i]->symbol != names[k]->symbol) continue;
            diag_report(diags, DIAG_SKETCH_TOP_PLACES, names[i]->range, names[i]->text);
            return false;
        }
    return true;
}

static bool is_walked(const tl_kernel *kernel, const tl_statement *loop, const tl_compute *c) {
    const tl_expr *length, *size;
    tl_tile_axis axes[4];
    int count = tl_operand_axes(&c->operands[0], axes);
    return loop && loop->kind == TL_FOR && !loop->parent && tl_loop_walks(loop, &length, &size) &&
           size && count == 2 && tl_loop_walks_index(kernel, loop, length, axes[1].index);
}

/* Up to the end of its loop nothing else names what it collects. */
static bool is_alone(tl_kernel *kernel, const tl_statement *top, const tl_expr *name,
                     diag_list *diags) {
    const tl_statement *loop = top->parent;
    if (!name) return true;
    for (tl_statement *s = kernel->body.first; s && s != loop->next; s = tl_next(s, NULL)) {
        bool declares = s->kind == TL_INPUT || s->kind == TL_OUTPUT || s->kind == TL_LET;
        const tl_expr *found = s == top || declares ? NULL : named_by(s, name->symbol);
        if (!found) continue;
        diag_report(diags, DIAG_SKETCH_TOP_STATE, found->range, name->text, loop->loop.name);
        return false;
    }
    return true;
}

bool rules_sketch_top(tl_kernel *kernel, diag_list *diags) {
    for (tl_statement *s = kernel->body.first; s; s = tl_next(s, NULL)) {
        const tl_compute *c = &s->compute;
        if (s->kind != TL_COMPUTE || c->operation != TL_ROW_TOP_K) continue;
        if (!has_three_names(c, diags)) return false;
        if (c->target_kind != TL_ACCUMULATE) continue;
        if (!is_walked(kernel, s->parent, c)) {
            diag_report(diags, DIAG_SKETCH_TOP_LOOP, s->range, c->target->text);
            return false;
        }
        if (!is_alone(kernel, s, c->target, diags) || !is_alone(kernel, s, c->values, diags))
            return false;
    }
    return true;
}
