/* Names in statements, block by block. */
#include "tl/names_internal.h"

static void bind_let(names_binder *b, tl_statement *s) {
    if (!s->parent) return; /* settled with the kernel */
    for (int i = 0; i < s->let.count; i++) {
        tl_binding *binding = &s->let.items[i];
        if (binding->axes.count) {
            diag_report(b->diags, DIAG_VIEW_INSIDE, binding->range, binding->name);
            continue;
        }
        tl_symbol *symbol = names_new(b, TL_SYMBOL_CONSTANT, binding->name, binding->range, s);
        binding->symbol = symbol;
        names_settle(b, symbol, binding);
        names_push(b, symbol, binding->range);
    }
}

static void bind_layout(names_binder *b, tl_layout *layout) {
    if (!layout->of) return;
    names_tile(b, layout->of, TL_REGISTER);
    if (layout->of->symbol) layout->of->text = layout->of->symbol->name;
}

static void bind_in_place(names_binder *b, tl_statement *s) {
    tl_allocation *a = &s->allocate;
    if (!a->in_place_of.length) return;
    tl_symbol *partner = NULL;
    str bare = a->in_place_of;
    names_entry *entry = names_look(b, bare);
    if (!entry || !entry->variable) {
        names_cut_place(&bare);
        entry = names_look(b, bare);
    }
    if (entry) partner = entry->variable;
    if (!partner) {
        names_undefined(b, a->in_place_of, a->in_place_range);
    } else if (!partner->shared.exists) {
        diag_report(b->diags, DIAG_NAME_HAS_NO_TILE, a->in_place_range, bare, STR("shared"));
    } else if (partner->shared.allocation == s) {
        diag_report(b->diags, DIAG_IN_PLACE_OF_ITSELF, a->in_place_range, bare);
    } else {
        a->in_place_of = names_with_place(b, bare, TL_SHARED);
    }
}

static void bind_allocate(names_binder *b, tl_statement *s) {
    tl_allocation *a = &s->allocate;
    for (int i = 0; i < a->shape.count; i++) names_resolve(b, a->shape.items[i]);
    names_resolve(b, a->stages);
    names_resolve(b, a->offset);
    bind_layout(b, &a->layout);
    bind_in_place(b, s);
}

static void bind_place(names_binder *b, tl_place *place) {
    for (int i = 0; i < place->count; i++) names_resolve(b, place->items[i].at);
}

/* One end of a Copy: the variable must have the place. In global memory that means axes. */
static void bind_end(names_binder *b, tl_expr *name, tl_space space) {
    if (space != TL_GLOBAL) {
        if (names_tile(b, name, space) && name->symbol->variable) {
            name->symbol = name->symbol->variable;
        }
    } else {
        tl_space written;
        tl_symbol *variable = names_variable(b, name, &written);
        name->space = TL_GLOBAL;
        if (variable && !variable->axes) {
            diag_report(b->diags, DIAG_NOT_IN_GLOBAL, name->range, variable->name);
        }
    }
    if (name->symbol) name->text = name->symbol->name;
}

static void bind_copy(names_binder *b, tl_statement *s) {
    tl_copy *copy = &s->copy;
    for (int i = 0; i < copy->shape.count; i++) names_resolve(b, copy->shape.items[i]);
    bind_place(b, &copy->place);
    if (copy->from == copy->to && copy->from != TL_REGISTER) {
        diag_report(b->diags, DIAG_COPY_TO_ITSELF, s->range, str_from(tl_space_name(copy->from)));
        return;
    }
    int errors = b->diags->error_count;
    bind_end(b, copy->target ? copy->target : copy->what, copy->to);
    bool is_told = !copy->target && b->diags->error_count > errors; /* of the same name */
    if (!is_told) bind_end(b, copy->what, copy->from);
    const tl_axes *axes = copy->what->symbol ? copy->what->symbol->axes : NULL;
    if (copy->to == TL_GLOBAL && copy->target) {
        axes = copy->target->symbol ? copy->target->symbol->axes : NULL;
    }
    bool is_global = copy->from == TL_GLOBAL || copy->to == TL_GLOBAL;
    if (is_global && axes && copy->place.count > axes->count) {
        diag_report(b->diags, DIAG_COORDINATE_TOO_LONG, copy->place.range,
                    str_format(b->memory, "%d", axes->count),
                    str_format(b->memory, "%d", copy->place.count));
    }
}

static void bind_target(names_binder *b, tl_expr *target) {
    if (!target) return;
    tl_space written;
    tl_symbol *variable = names_variable(b, target, &written);
    if (!variable) return;
    if (!names_tile(b, target, TL_REGISTER)) return;
    bool has_other = variable->axes || variable->shared.exists;
    bool is_placed = !b->is_sketch && has_other;
    if (is_placed) {
        target->text = names_with_place(b, variable->name, TL_REGISTER);
    } else if (written == TL_NOWHERE || !has_other) {
        target->text = variable->name;
    }
}

static void bind_compute(names_binder *b, tl_statement *s) {
    tl_compute *compute = &s->compute;
    for (int i = 0; i < compute->operand_count; i++) {
        tl_operand *operand = &compute->operands[i];
        names_resolve(b, operand->value);
        const tl_expr *e = operand->value;
        bool is_wrong =
            operand->is_transposed && e->symbol && e->symbol->kind != TL_SYMBOL_VARIABLE;
        if (is_wrong) diag_report(b->diags, DIAG_TRANSPOSED_VALUE, operand->range, e->text);
    }
    bind_place(b, &compute->place);
    names_resolve(b, compute->condition);
    bind_target(b, compute->target);
    bind_target(b, compute->maximum);
    bind_target(b, compute->sum);
    bind_target(b, compute->values);
}

/* Wait and Release: a turn, or a variable with its place. */
static void bind_sync(names_binder *b, tl_expr *what) {
    names_entry *entry = what->kind == TL_NAME ? names_look(b, what->text) : NULL;
    if (entry && entry->label) {
        what->symbol = entry->label;
        if (entry->label->kind == TL_SYMBOL_TURN) return;
        diag_report(b->diags, DIAG_NAME_IS_NO_TILE, what->range, what->text, STR("a role"));
        return;
    }
    tl_space written;
    tl_symbol *variable = names_variable(b, what, &written);
    if (!variable) return;
    tl_symbol *holder;
    bool is_shared = variable->shared.exists;
    bool is_register = names_tile_in(variable, TL_REGISTER, b->role, &holder) != NULL;
    if (written == TL_NOWHERE && is_shared && is_register) {
        diag_report(b->diags, DIAG_PLACE_AMBIGUOUS, what->range, variable->name);
        return;
    }
    tl_space space = written != TL_NOWHERE ? written
                     : is_shared           ? TL_SHARED
                     : is_register         ? TL_REGISTER
                                           : TL_GLOBAL;
    what->space = space;
    if (space == TL_GLOBAL) {
        if (!variable->axes) diag_report(b->diags, DIAG_NOT_IN_GLOBAL, what->range, variable->name);
    } else if (!names_tile(b, what, space)) {
        return;
    }
    what->text = names_place_count(variable) < 2 ? variable->name
                                                 : names_with_place(b, variable->name, space);
}

static void bind_block_in(names_binder *b, tl_block *block) {
    int mark = b->shadows.count;
    names_bind_statements(b, block);
    names_pop(b, mark);
}

static void bind_for(names_binder *b, tl_statement *s) {
    names_resolve(b, s->loop.from);
    names_resolve(b, s->loop.to);
    s->loop.symbol = names_new(b, TL_SYMBOL_LOOP, s->loop.name, s->name_range, s);
    int mark = b->shadows.count;
    names_push(b, s->loop.symbol, s->name_range);
    names_bind_statements(b, &s->loop.body);
    names_pop(b, mark);
}

/* What says something about the whole kernel. A role may be in no loop or `if` either. */
static void check_level(names_binder *b, const tl_statement *s) {
    bool is_of_kernel =
        tl_is_parameter(s) || s->kind == TL_GRID || (s->kind == TL_ROLE && !b->role);
    if (!s->parent || !is_of_kernel) return;
    diag_report(b->diags, DIAG_DECLARATION_INSIDE, s->range, str_from(tl_statement_word(s->kind)));
}

void names_bind_statements(names_binder *b, tl_block *block) {
    for (tl_statement *s = block->first; s; s = s->next) {
        check_level(b, s);
        switch (s->kind) {
        case TL_INPUT:
        case TL_OUTPUT:
        case TL_HOLE: break;
        case TL_LET: bind_let(b, s); break;
        case TL_GRID:
            for (int i = 0; i < s->grid.count; i++) {
                names_resolve(b, s->grid.items[i].extent);
                names_resolve(b, s->grid.items[i].section);
            }
            break;
        case TL_ALLOCATE: bind_allocate(b, s); break;
        case TL_COPY: bind_copy(b, s); break;
        case TL_COMPUTE: bind_compute(b, s); break;
        case TL_RESHAPE:
            bind_target(b, s->reshape.what);
            bind_layout(b, &s->reshape.from);
            bind_layout(b, &s->reshape.to);
            break;
        case TL_WAIT:
        case TL_RELEASE: bind_sync(b, s->sync.what); break;
        case TL_ROLE: {
            const tl_statement *outer = b->role;
            if (outer) diag_report(b->diags, DIAG_ROLE_INSIDE, s->range, s->role.name);
            b->role = s;
            bind_block_in(b, &s->role.body);
            b->role = outer;
            break;
        }
        case TL_FOR: bind_for(b, s); break;
        case TL_IF:
            names_resolve(b, s->branch.condition);
            bind_block_in(b, &s->branch.body);
            break;
        }
    }
}

bool tl_is_sum(const tl_kernel *kernel, const tl_symbol *output) {
    bool is_added_to = false;
    for (tl_statement *s = kernel->body.first; s; s = tl_next(s, NULL)) {
        if (s->kind != TL_COPY || s->copy.to != TL_GLOBAL) continue;
        const tl_symbol *to = tl_copy_target(s).symbol;
        for (int depth = 0; to && to->view_base && depth < TL_NESTING_MAX; depth++)
            to = to->view_base;
        if (to != output) continue;
        if (s->copy.target_kind != TL_ACCUMULATE) return false;
        is_added_to = true;
    }
    return is_added_to;
}

bool tl_may_keep(const tl_kernel *kernel, const tl_symbol *output) {
    bool is_kept = output->parameter && output->parameter->parameter.is_kept;
    return is_kept || tl_is_sum(kernel, output);
}

bool tl_is_permuted(const tl_symbol *tensor) {
    return tensor->parameter && tensor->parameter->parameter.is_permuted;
}

int64_t tl_permuted_place(int64_t index) {
    return (index & -TL_PERMUTED_UNIT) | (index & 6) << 1 | (index & 8) >> 2 | (index & 1);
}
