/* Outputs: is each written, and each of its elements by one block only? */
#include "check/rules.h"

typedef struct outputs {
    const model *model;
    diag_list *diags;
    bool failed;
} outputs;

/* The Output behind a view; NULL when the tensor is none. */
static const tl_symbol *output_behind(const tl_symbol *symbol) {
    enum { VIEWS_DEEP = 64 };
    for (int deep = 0; symbol && deep < VIEWS_DEEP; deep++) {
        if (symbol->is_output) return symbol;
        symbol = symbol->view_base;
    }
    return NULL;
}

static bool is_other(void *context, const tl_expr *e) {
    const tl_symbol *wanted = context;
    return e->symbol != wanted;
}

static bool mentions(const model *m, const tl_expr *e, const tl_symbol *wanted) {
    return !model_visit_lets(m, e, false, is_other, (void *)wanted);
}

/* Does the place that a Copy writes depend on the symbol: by its coordinate, or by a view? */
static bool place_depends(const model *m, const tl_statement *copy, const tl_symbol *tensor,
                          const tl_symbol *wanted) {
    enum { VIEWS_DEEP = 64 };
    for (int i = 0; i < copy->copy.place.count; i++) {
        if (mentions(m, copy->copy.place.items[i].at, wanted)) return true;
    }
    for (int deep = 0; tensor && tensor->view && deep < VIEWS_DEEP; deep++) {
        if (mentions(m, tensor->view->value, wanted)) return true;
        for (int i = 0; i < tensor->axes->count; i++) {
            if (mentions(m, tensor->axes->items[i].extent, wanted)) return true;
        }
        tensor = tensor->view_base;
    }
    return false;
}

static void check_store(outputs *o, const model_step *step, const tl_symbol *output) {
    const tl_statement *s = step->statement;
    if (s->copy.target_kind == TL_ACCUMULATE) return;
    const model *m = o->model;
    for (int i = 0; m->grid && i < m->grid->grid.count; i++) {
        const tl_walk *walk = &m->grid->grid.items[i];
        int64_t count;
        if (!walk->symbol || (tl_known_integer(walk->extent, &count) && count <= 1)) continue;
        if (place_depends(m, s, step->stores, walk->symbol)) continue;
        diag_report(o->diags, DIAG_OUTPUT_BY_ALL, s->range, output->name, walk->name);
        diag_report(o->diags, DIAG_OUTPUT_WALK, walk->range.end ? walk->range : m->grid->range,
                    walk->name);
        o->failed = true;
        return;
    }
    for (const tl_statement *around = s->parent; around; around = around->parent) {
        if (around->kind != TL_FOR || around->loop.is_grid_walk || !around->loop.symbol) continue;
        if (place_depends(m, s, step->stores, around->loop.symbol)) continue;
        diag_report(o->diags, DIAG_OUTPUT_AGAIN, s->range, output->name, around->loop.name);
        o->failed = true;
        return;
    }
}

/* Register tiles that a Copy fills and nothing reads. */
static void check_dead_copies(outputs *o) {
    const model *m = o->model;
    for (int t = 0; t < m->tile_count; t++) {
        const model_step *copy = NULL;
        bool is_read = m->tiles[t].space != TL_REGISTER;
        for (int r = 0; r < m->role_count; r++) {
            for (int i = 0; i < m->roles[r].step_count; i++) {
                const model_step *step = &m->roles[r].steps[i];
                if (step->kind == STEP_COPY && step->has_target && step->target.tile == t)
                    copy = step;
                for (int k = 0; k < step->read_count; k++) is_read |= step->reads[k].tile == t;
            }
        }
        if (is_read || !copy) continue;
        diag_report(o->diags, DIAG_COPY_DEAD, copy->statement->range, m->tiles[t].name);
        o->failed = true;
    }
}

bool rules_outputs(const model *m, diag_list *diags) {
    outputs o = {m, diags, false};
    for (const tl_statement *s = m->kernel->body.first; s; s = s->next) {
        if (s->kind != TL_OUTPUT || !s->parameter.symbol) continue;
        bool written = false;
        for (int r = 0; r < m->role_count; r++) {
            for (int i = 0; i < m->roles[r].step_count; i++) {
                const model_step *step = &m->roles[r].steps[i];
                bool stores = step->kind == STEP_COPY && step->stores &&
                              output_behind(step->stores) == s->parameter.symbol;
                if (!stores) continue;
                if (!o.failed) check_store(&o, step, s->parameter.symbol);
                written = true;
            }
        }
        if (written) continue;
        diag_report(diags, DIAG_OUTPUT_NEVER, s->name_range.end ? s->name_range : s->range,
                    s->parameter.name);
        o.failed = true;
    }
    check_dead_copies(&o);
    return !o.failed;
}
