/* What a kernel declares: parameters, lets, grid, tiles, roles; sizes and open tile sizes. */
#include "tl/names_internal.h"

/* Puts a symbol where its kind goes, unless something else has the name already. */
static tl_symbol *declare(names_binder *b, tl_symbol_kind kind, str name, diag_range range,
                          tl_statement *s) {
    names_entry *entry = names_enter(b, name);
    tl_symbol **slot = kind == TL_SYMBOL_INDEX                            ? &entry->index
                       : kind == TL_SYMBOL_GRID                           ? &entry->grid
                       : kind == TL_SYMBOL_VARIABLE                       ? &entry->variable
                       : kind == TL_SYMBOL_ROLE || kind == TL_SYMBOL_TURN ? &entry->label
                                                                          : &entry->value;
    tl_symbol *others[] = {entry->value, entry->grid, entry->variable, entry->label};
    tl_symbol *symbol = names_new(b, kind, name, range, s);
    for (int i = 0; i < 4; i++) {
        if (!others[i]) continue;
        names_twice(b, name, range, others[i]);
        break;
    }
    if (!*slot) *slot = symbol;
    return symbol;
}

/* An index name of an axis. All axes that carry it must have one length. */
static void declare_index(names_binder *b, const tl_axis *axis, str name, tl_statement *s) {
    names_entry *entry = names_enter(b, name);
    if (!entry->index) {
        diag_range range = axis->is_bare ? axis->range : axis->coordinate->range;
        tl_symbol *symbol = names_new(b, TL_SYMBOL_INDEX, name, range, s);
        symbol->extent = axis->extent;
        entry->index = symbol;
    }
}

static void declare_indices(names_binder *b, const tl_axes *axes, tl_statement *s) {
    for (int i = 0; i < axes->count; i++) {
        str name = tl_axis_index(axes, i);
        if (!name.length) continue;
        for (int k = 0; k < i; k++) {
            if (!str_equal(name, tl_axis_index(axes, k))) continue;
            diag_report(b->diags, DIAG_AXIS_TWICE, axes->items[i].range, name);
        }
        declare_index(b, &axes->items[i], name, s);
    }
}

static void declare_parameter(names_binder *b, tl_statement *s) {
    tl_parameter *p = &s->parameter;
    bool is_scalar = p->axes.count == 0;
    tl_symbol_kind kind = is_scalar ? TL_SYMBOL_SCALAR : TL_SYMBOL_VARIABLE;
    p->symbol = declare(b, kind, p->name, s->name_range, s);
    p->symbol->is_real = p->type != TL_I32;
    p->symbol->is_output = s->kind == TL_OUTPUT;
    p->symbol->parameter = s;
    if (is_scalar) return;
    p->symbol->axes = &p->axes;
    declare_indices(b, &p->axes, s);
}

/* The tensor whose elements a view names: the first one, arguments of calls included, but not what
 * a `select` decides by.
 */
static const tl_expr *base_element(const tl_expr *e, int depth) {
    if (!e || depth > TL_HEIGHT_MAX) return NULL;
    if (e->kind == TL_ELEMENT) return e;
    const tl_expr *found = NULL;
    bool selects = e->kind == TL_CALL && e->function == TL_FUNCTION_SELECT;
    for (int i = selects; i < e->item_count && !found; i++)
        found = base_element(e->items[i], depth + 1);
    if (!found) found = base_element(e->left, depth + 1);
    if (!found) found = base_element(e->right, depth + 1);
    return found;
}

static tl_symbol *names_declare_view(names_binder *b, tl_binding *binding, tl_statement *s) {
    tl_symbol *symbol = declare(b, TL_SYMBOL_VARIABLE, binding->name, binding->range, s);
    symbol->view = binding;
    symbol->axes = &binding->axes;
    binding->symbol = symbol;
    declare_indices(b, &binding->axes, s);
    if (!base_element(binding->value, 0)) {
        diag_report(b->diags, DIAG_VIEW_OF_NOTHING, binding->value->range, binding->name);
    }
    return symbol;
}

static void declare_lets(names_binder *b, tl_statement *s) {
    for (int i = 0; i < s->let.count; i++) {
        tl_binding *binding = &s->let.items[i];
        if (binding->axes.count) {
            names_declare_view(b, binding, s);
            continue;
        }
        if (s->parent) continue; /* a let inside a block is declared where it stands */
        binding->symbol = declare(b, TL_SYMBOL_CONSTANT, binding->name, binding->range, s);
        binding->symbol->value = binding->value;
        names_let let = {.symbol = binding->symbol, .binding = binding, .order = b->lets.count};
        list_push(b->memory, &b->lets, let);
        names_entry *entry = names_enter(b, binding->name);
        if (entry->value == binding->symbol) entry->let_position = b->lets.count;
    }
}

static void declare_role(names_binder *b, tl_statement *s) {
    tl_role *role = &s->role;
    role->symbol = declare(b, TL_SYMBOL_ROLE, role->name, s->name_range, s);
    role->turn_symbols = arena_array(b->memory, tl_symbol *, role->turn_count);
    for (int i = 0; i < role->turn_count; i++) {
        role->turn_symbols[i] = declare(b, TL_SYMBOL_TURN, role->turns[i], s->name_range, s);
    }
}

/* --- tiles ------------------------------------------------------------------------------------ */

/* `Allocate A in global (M, K)`: a dense matrix whose axes are named like their lengths. */
static void declare_global(names_binder *b, tl_symbol *symbol, tl_statement *s) {
    const tl_exprs *shape = &s->allocate.shape;
    if (symbol->axes) {
        names_twice(b, symbol->name, s->name_range, symbol);
        return;
    }
    tl_axes *axes = arena_new(b->memory, tl_axes);
    axes->items = arena_array(b->memory, tl_axis, shape->count);
    axes->count = shape->count;
    for (int i = 0; i < shape->count; i++) {
        axes->items[i] = (tl_axis){.extent = shape->items[i],
                                   .coordinate = shape->items[i],
                                   .is_bare = true,
                                   .range = shape->items[i]->range};
    }
    symbol->axes = axes;
    declare_indices(b, axes, s);
}

/* A register tile of a further role gets a symbol of its own. */
static tl_symbol *further_tile(names_binder *b, tl_symbol *variable, tl_statement *s,
                               diag_range range) {
    tl_symbol *own = names_new(b, TL_SYMBOL_VARIABLE, variable->name, range, s);
    own->variable = variable;
    own->role = tl_role_of(s);
    own->other_roles = variable->other_roles;
    variable->other_roles = own;
    return own;
}

static tl_symbol *declare_tile(names_binder *b, str name, diag_range range, tl_statement *s) {
    tl_symbol *variable = names_enter(b, name)->variable;
    if (!variable) variable = declare(b, TL_SYMBOL_VARIABLE, name, range, s);
    tl_space space = s->allocate.space;
    if (space == TL_GLOBAL) {
        declare_global(b, variable, s);
        return variable;
    }
    tl_symbol *holder = variable;
    const tl_statement *role = tl_role_of(s);
    tl_tile *there = names_tile_in(variable, space, role, &holder);
    if (there) {
        diag_report(b->diags, DIAG_TILE_TWICE, range, name, str_from(tl_space_name(space)));
        if (there->allocation) {
            diag_report(b->diags, DIAG_NAME_FIRST_HERE, there->allocation->name_range, name);
        }
        return holder;
    }
    if (space == TL_REGISTER && variable->in_register.exists) {
        holder = further_tile(b, variable, s, range);
    }
    tl_tile *tile = space == TL_SHARED ? &holder->shared : &holder->in_register;
    *tile = (tl_tile){.exists = true, .allocation = s, .type = s->allocate.type};
    return holder;
}

static void declare_allocation(names_binder *b, tl_statement *s) {
    tl_allocation *a = &s->allocate;
    a->symbols = arena_array(b->memory, tl_symbol *, a->name_count);
    for (int i = 0; i < a->name_count; i++) {
        str name = a->names[i];
        /* The place is said by the clause: `Allocate O_reg in register` is O's tile there. */
        if (!names_look(b, name) || !names_look(b, name)->variable) {
            str cut = name;
            if (names_cut_place(&cut) == a->space && cut.length) name = cut;
        }
        a->names[i] = name;
        a->symbols[i] = declare_tile(b, name, a->name_ranges[i], s);
    }
}

/* --- sketches --------------------------------------------------------------------------------- */

static void come_into_being(names_binder *b, tl_expr *name, tl_space space, tl_statement *s) {
    if (!name || name->kind != TL_NAME) return;
    str bare = name->text;
    names_entry *entry = names_look(b, bare);
    if (!entry || !entry->variable) {
        if (names_cut_place(&bare) == TL_NOWHERE || !bare.length) bare = name->text;
        entry = names_look(b, bare);
    }
    /* Writing to a let or a scalar is reported where the statement is bound. */
    if (entry && (entry->value || entry->grid || entry->label)) return;
    tl_symbol *variable;
    if (entry && entry->variable) {
        variable = entry->variable;
    } else {
        variable = declare(b, TL_SYMBOL_VARIABLE, bare, name->range, s);
        variable->statement = NULL;
    }
    tl_tile *tile = space == TL_SHARED ? &variable->shared : &variable->in_register;
    if (space != TL_GLOBAL) tile->exists = true;
}

/* In a sketch a tile exists because something writes it. */
static void declare_written(names_binder *b, tl_statement *s) {
    if (s->kind == TL_COPY && s->copy.to != TL_GLOBAL) {
        come_into_being(b, tl_copy_into(s), s->copy.to, s);
    }
    if (s->kind != TL_COMPUTE) return;
    come_into_being(b, s->compute.target, TL_REGISTER, s);
    come_into_being(b, s->compute.maximum, TL_REGISTER, s);
    come_into_being(b, s->compute.sum, TL_REGISTER, s);
    come_into_being(b, s->compute.values, TL_REGISTER, s);
}

/* Names that stand where a tile size stands and that nothing declares are left open. */
static void declare_open(names_binder *b, tl_expr *e, bool is_size, tl_statement *s, int depth) {
    if (!e || depth > NAMES_DEPTH_MAX) return;
    if (e->kind == TL_NAME && is_size) {
        names_entry *entry = names_enter(b, e->text);
        bool is_known = entry->value || entry->grid || entry->variable || entry->index;
        if (!is_known) declare(b, TL_SYMBOL_OPEN, e->text, e->range, s);
        return;
    }
    bool is_division = e->kind == TL_BINARY && e->operator== TL_OVER;
    declare_open(b, e->left, is_size, s, depth + 1);
    declare_open(b, e->right, is_size || is_division, s, depth + 1);
    if (e->kind == TL_ELEMENT) return;
    for (int i = 0; i < e->item_count; i++) declare_open(b, e->items[i], is_size, s, depth + 1);
}

static void declare_open_sizes(names_binder *b, tl_statement *s) {
    switch (s->kind) {
    case TL_FOR:
        declare_open(b, s->loop.from, false, s, 0);
        declare_open(b, s->loop.to, false, s, 0);
        break;
    case TL_GRID:
        for (int i = 0; i < s->grid.count; i++) {
            declare_open(b, s->grid.items[i].extent, false, s, 0);
            declare_open(b, s->grid.items[i].section, false, s, 0);
        }
        break;
    case TL_COPY:
    case TL_ALLOCATE: {
        const tl_exprs *shape = s->kind == TL_COPY ? &s->copy.shape : &s->allocate.shape;
        for (int i = 0; i < shape->count; i++) declare_open(b, shape->items[i], true, s, 0);
        break;
    }
    default: break;
    }
}

/* --- sizes ------------------------------------------------------------------------------------ */

/* A bare extent that no let or scalar gives is a size, known at launch from the tensor. */
static void declare_sizes(names_binder *b, const tl_axes *axes, tl_statement *s) {
    for (int i = 0; i < axes->count; i++) {
        tl_expr *extent = axes->items[i].extent;
        if (!extent || extent->kind != TL_NAME) continue;
        names_entry *entry = names_enter(b, extent->text);
        if (entry->value) continue;
        declare(b, TL_SYMBOL_SIZE, extent->text, extent->range, s);
    }
}

/* `x in y` must not take the name of a value, except on a bare axis, which is both. */
static void check_axes(names_binder *b, const tl_axes *axes, tl_statement *s) {
    (void)s;
    for (int i = 0; i < axes->count; i++) {
        const tl_axis *axis = &axes->items[i];
        const tl_expr *extent = axis->extent;
        bool is_named = extent && extent->kind == TL_NAME;
        names_entry *length = is_named ? names_look(b, extent->text) : NULL;
        if (length && length->value) length->value->is_extent = true;
        str name = tl_axis_index(axes, i);
        names_entry *entry = name.length ? names_look(b, name) : NULL;
        if (!entry || axis->is_bare) continue;
        tl_symbol *other = entry->value ? entry->value : entry->label;
        /* `for K in (K in kv_len)`: an index named like its own tensor would hide it. */
        if (!other) other = entry->variable;
        bool is_own_extent = is_named && str_equal(extent->text, name);
        if (other && !is_own_extent) names_twice(b, name, axis->coordinate->range, other);
    }
}

static void each_axes(names_binder *b, bool is_parameter_only,
                      void (*action)(names_binder *b, const tl_axes *axes, tl_statement *s)) {
    tl_kernel *kernel = b->kernel;
    for (tl_statement *s = kernel->body.first; s; s = tl_next(s, NULL)) {
        if (tl_is_parameter(s)) action(b, &s->parameter.axes, s);
        if (s->kind != TL_LET || is_parameter_only) continue;
        for (int i = 0; i < s->let.count; i++) {
            if (s->let.items[i].axes.count) action(b, &s->let.items[i].axes, s);
        }
    }
}

/* A view goes where its base goes: its shared tile is a part of the base's. */
static void declare_parts(names_binder *b) {
    enum { LONGEST_CHAIN = 16 };
    for (int round = 0; round < LONGEST_CHAIN; round++) {
        bool has_changed = false;
        for (int i = 0; i < b->symbols.count; i++) {
            tl_symbol *view = b->symbols.items[i];
            if (view->kind != TL_SYMBOL_VARIABLE || !view->view || view->variable) continue;
            const tl_expr *element = base_element(view->view->value, 0);
            names_entry *entry = element ? names_look(b, element->text) : NULL;
            if (!entry || !entry->variable || entry->variable == view) continue;
            tl_symbol *base = view->view_base = entry->variable;
            if (base->shared.exists && !view->shared.exists) {
                view->shared = (tl_tile){.exists = true,
                                         .allocation = base->shared.allocation,
                                         .part_of = base,
                                         .type = base->shared.type};
                has_changed = true;
            }
            bool is_moved = b->is_sketch && base->in_register.exists;
            if (is_moved && !view->in_register.exists) {
                view->in_register = (tl_tile){.exists = true, .part_of = base};
                has_changed = true;
            }
        }
        if (!has_changed) break;
    }
}

void names_declare(names_binder *b) {
    tl_statement *first = b->kernel->body.first;
    for (tl_statement *s = first; s; s = tl_next(s, NULL)) {
        if (tl_is_parameter(s)) declare_parameter(b, s);
        if (s->kind == TL_LET) declare_lets(b, s);
        for (int i = 0; s->kind == TL_GRID && i < s->grid.count; i++) {
            tl_walk *walk = &s->grid.items[i];
            walk->symbol = declare(b, TL_SYMBOL_GRID, walk->name, walk->range, s);
        }
        if (s->kind == TL_ROLE) declare_role(b, s);
    }
    for (tl_statement *s = first; s; s = tl_next(s, NULL)) {
        if (s->kind == TL_ALLOCATE) declare_allocation(b, s);
    }
    each_axes(b, true, declare_sizes);
    if (b->is_sketch) {
        for (tl_statement *s = first; s; s = tl_next(s, NULL)) declare_open_sizes(b, s);
        for (tl_statement *s = first; s; s = tl_next(s, NULL)) declare_written(b, s);
    }
    each_axes(b, false, check_axes);
    declare_parts(b);
}
