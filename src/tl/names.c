#include "tl/names_internal.h"

/* --- the table of names ----------------------------------------------------------------------- */

static int slot_of(names_entry *const *table, int size, str name) {
    int at = (int)(str_hash(name) & (uint32_t)(size - 1));
    while (table[at] && !str_equal(table[at]->name, name)) at = (at + 1) & (size - 1);
    return at;
}

names_entry *names_look(const names_binder *b, str name) {
    return b->table[slot_of(b->table, b->table_size, name)];
}

static void grow(names_binder *b) {
    int size = b->table_size * 2;
    names_entry **table = arena_array(b->memory, names_entry *, size);
    for (int i = 0; i < b->table_size; i++) {
        if (b->table[i]) table[slot_of(table, size, b->table[i]->name)] = b->table[i];
    }
    b->table = table;
    b->table_size = size;
}

names_entry *names_enter(names_binder *b, str name) {
    if (2 * b->entry_count >= b->table_size) grow(b);
    int at = slot_of(b->table, b->table_size, name);
    if (!b->table[at]) {
        b->table[at] = arena_new(b->memory, names_entry);
        b->table[at]->name = name;
        b->entry_count++;
    }
    return b->table[at];
}

tl_symbol *names_new(names_binder *b, tl_symbol_kind kind, str name, diag_range range,
                     tl_statement *s) {
    tl_symbol *symbol = arena_new(b->memory, tl_symbol);
    symbol->kind = kind;
    symbol->position = b->symbols.count;
    symbol->name = name;
    symbol->declared = range;
    symbol->statement = s;
    symbol->is_index_like =
        kind == TL_SYMBOL_INDEX || kind == TL_SYMBOL_GRID || kind == TL_SYMBOL_LOOP;
    list_push(b->memory, &b->symbols, symbol);
    return symbol;
}

void names_twice(names_binder *b, str name, diag_range range, const tl_symbol *first) {
    diag_report(b->diags, DIAG_NAME_DEFINED_TWICE, range, name);
    diag_report(b->diags, DIAG_NAME_FIRST_HERE, first->declared, name);
}

/* The nearest known name makes a hint when few letters differ. */
void names_undefined(names_binder *b, str name, diag_range range) {
    enum { LONGEST = 64 };
    diag_report(b->diags, DIAG_NAME_UNDEFINED, range, name);
    if (name.length > LONGEST || b->diags->error_count > DIAG_ERROR_LIMIT) return;
    int least = name.length < 4 ? 1 : 2;
    str nearest = {NULL, 0};
    for (int i = 0; i < b->symbols.count; i++) {
        str other = b->symbols.items[i]->name;
        if (other.length > LONGEST) continue;
        int distance = str_distance(name, other);
        /* A name of one letter is near every other one. */
        if (distance > least || distance >= (int)other.length || distance == 0) continue;
        if (nearest.length && distance == least) continue;
        nearest = other;
        least = distance;
    }
    if (nearest.length) {
        diag *hint = diag_report(b->diags, DIAG_NAME_NEAREST, range, nearest);
        diag_replace(hint, nearest);
    }
}

void names_push(names_binder *b, tl_symbol *symbol, diag_range range) {
    names_entry *entry = names_enter(b, symbol->name);
    const tl_symbol *other = entry->local      ? entry->local
                             : entry->value    ? entry->value
                             : entry->variable ? entry->variable
                                               : entry->grid;
    if (other && other != symbol) names_twice(b, symbol->name, range, other);
    names_shadow shadow = {entry, entry->local};
    list_push(b->memory, &b->shadows, shadow);
    entry->local = symbol;
}

void names_pop(names_binder *b, int count) {
    while (b->shadows.count > count) {
        names_shadow shadow = b->shadows.items[--b->shadows.count];
        shadow.entry->local = shadow.before;
    }
}

/* --- a program -------------------------------------------------------------------------------- */

static void bind_kernel(names_binder *b) {
    enum { FIRST_SIZE = 64 };
    b->table_size = FIRST_SIZE;
    b->table = arena_array(b->memory, names_entry *, FIRST_SIZE);
    names_declare(b);
    names_settle_all(b);
    names_bind_statements(b, &b->kernel->body);
    b->kernel->symbols = b->symbols.items;
    b->kernel->symbol_count = b->symbols.count;
}

bool names_same_length(const tl_expr *a, const tl_expr *b) {
    int64_t x, y;
    bool is_known = tl_known_integer(a, &x) && tl_known_integer(b, &y);
    return is_known ? x == y : tl_expr_equal(a, b);
}

static bool same_axes(const tl_axes *a, const tl_axes *b) {
    if (a->count != b->count) return false;
    for (int i = 0; i < a->count; i++) {
        if (!names_same_length(a->items[i].extent, b->items[i].extent)) return false;
    }
    return true;
}

/* An Output of an earlier kernel that is an Input of this one is workspace of the program. */
static void link_workspace(names_binder *b, const tl_kernel *kernel) {
    for (int i = 0; i < kernel->symbol_count; i++) {
        tl_symbol *input = kernel->symbols[i];
        if (!input->parameter || input->is_output || !input->axes) continue;
        for (const tl_kernel *k = b->program->first; k != kernel; k = k->next) {
            tl_symbol *output = tl_find_symbol(k, input->name);
            if (!output || !output->parameter || !output->is_output) continue;
            input->produced_by = output;
            input->is_workspace = output->is_workspace = true;
            if (output->parameter->parameter.is_kept)
                diag_report(b->diags, DIAG_WORKSPACE_KEPT, output->declared, input->name,
                            kernel->name);
            tl_type type = output->parameter->parameter.type;
            if (same_axes(output->axes, input->axes) && type == input->parameter->parameter.type &&
                tl_is_permuted(output) == tl_is_permuted(input)) {
                continue;
            }
            diag_report(b->diags, DIAG_WORKSPACE_DIFFERS, input->declared, input->name, k->name);
            diag_report(b->diags, DIAG_NAME_FIRST_HERE, output->declared, input->name);
        }
    }
}

/* Names of kernels are few; a program of thousands of kernels is not worth a table. */
static void check_kernel_name(names_binder *b, const tl_kernel *kernel) {
    for (const tl_kernel *k = b->program->first; k != kernel; k = k->next) {
        if (!str_equal(k->name, kernel->name)) continue;
        diag_report(b->diags, DIAG_KERNEL_TWICE, kernel->range, kernel->name);
        diag_report(b->diags, DIAG_NAME_FIRST_HERE, k->range, kernel->name);
        return;
    }
}

bool tl_bind(tl_program *program, diag_list *diags) {
    enum { KERNELS_MAX = 64 };
    int errors_before = diags->error_count;
    int count = 0;
    for (tl_kernel *kernel = program->first; kernel; kernel = kernel->next) {
        if (++count > KERNELS_MAX) {
            diag_report(diags, DIAG_TOO_MANY_KERNELS, kernel->range,
                        str_format(program->memory, "%d", KERNELS_MAX));
            break;
        }
        names_binder b = {.memory = program->memory,
                          .diags = diags,
                          .program = program,
                          .kernel = kernel,
                          .is_sketch = tl_is_sketch(kernel),
                          .let_order = -1};
        check_kernel_name(&b, kernel);
        bind_kernel(&b);
        link_workspace(&b, kernel);
    }
    return diags->error_count == errors_before;
}

/* --- questions -------------------------------------------------------------------------------- */

tl_symbol *tl_find_symbol(const tl_kernel *kernel, str name) {
    tl_symbol *second = NULL;
    for (int i = 0; i < kernel->symbol_count; i++) {
        tl_symbol *symbol = kernel->symbols[i];
        if (!str_equal(symbol->name, name) || symbol->variable) continue;
        bool is_outer =
            symbol->kind != TL_SYMBOL_INDEX && symbol->kind != TL_SYMBOL_LOOP &&
            !(symbol->statement && symbol->statement->parent && symbol->kind == TL_SYMBOL_CONSTANT);
        if (is_outer) return symbol;
        if (!second) second = symbol;
    }
    return second;
}

tl_symbol *tl_find_index(const tl_kernel *kernel, str index) {
    for (int i = 0; i < kernel->symbol_count; i++) {
        tl_symbol *symbol = kernel->symbols[i];
        if (symbol->kind == TL_SYMBOL_INDEX && str_equal(symbol->name, index)) return symbol;
    }
    return NULL;
}

bool tl_is_sketch(const tl_kernel *kernel) {
    for (const tl_statement *s = kernel->body.first; s; s = s->next) {
        if (s->kind == TL_ROLE) return false;
    }
    return true;
}

const tl_statement *tl_role_of(const tl_statement *s) {
    while (s && s->kind != TL_ROLE) s = s->parent;
    return s;
}

tl_tile *names_tile_in(tl_symbol *variable, tl_space space, const tl_statement *role,
                       tl_symbol **holder) {
    *holder = variable;
    if (space == TL_SHARED) return variable->shared.exists ? &variable->shared : NULL;
    if (space != TL_REGISTER) return NULL;
    if (variable->in_register.exists) {
        const tl_statement *its =
            variable->in_register.allocation ? tl_role_of(variable->in_register.allocation) : NULL;
        if (!its || its == role) return &variable->in_register;
    }
    for (tl_symbol *other = variable->other_roles; other; other = other->other_roles) {
        if (other->role != role) continue;
        *holder = other;
        return &other->in_register;
    }
    return NULL;
}

tl_tile *tl_tile_of(const tl_expr *name) {
    bool is_name = name && (name->kind == TL_NAME || name->kind == TL_ELEMENT) && name->symbol;
    if (!is_name || name->symbol->kind != TL_SYMBOL_VARIABLE) return NULL;
    tl_tile *tile = name->space == TL_SHARED     ? &name->symbol->shared
                    : name->space == TL_REGISTER ? &name->symbol->in_register
                                                 : NULL;
    return tile && tile->exists ? tile : NULL;
}

static tl_end end_of(const tl_statement *s, const tl_expr *name, tl_space space) {
    tl_end end = {.space = space};
    if (!name || !name->symbol || name->symbol->kind != TL_SYMBOL_VARIABLE) return end;
    tl_symbol *variable = name->symbol->variable ? name->symbol->variable : name->symbol;
    end.tile = names_tile_in(variable, space, tl_role_of(s), &end.symbol);
    return end;
}

tl_end tl_copy_source(const tl_statement *copy) {
    return end_of(copy, copy->copy.what, copy->copy.from);
}

tl_end tl_copy_target(const tl_statement *copy) {
    return end_of(copy, tl_copy_into(copy), copy->copy.to);
}

const tl_expr *tl_written_name(const tl_statement *s) {
    switch (s->kind) {
    case TL_COPY:
        if (s->copy.to == TL_GLOBAL) return NULL;
        return tl_copy_into(s);
    case TL_COMPUTE:
        if (s->compute.target) return s->compute.target;
        return s->compute.operand_count ? s->compute.operands[0].value : NULL;
    case TL_RESHAPE: return s->reshape.what;
    default: return NULL;
    }
}

tl_symbol *tl_in_place_of(const tl_kernel *kernel, const tl_statement *allocation) {
    str name = allocation->allocate.in_place_of;
    if (!name.length) return NULL;
    tl_symbol *symbol = tl_find_symbol(kernel, name);
    if (!symbol || symbol->kind != TL_SYMBOL_VARIABLE) {
        names_cut_place(&name);
        symbol = tl_find_symbol(kernel, name);
    }
    return symbol && symbol->kind == TL_SYMBOL_VARIABLE ? symbol : NULL;
}

bool tl_loop_walks(const tl_statement *loop, const tl_expr **length, const tl_expr **size) {
    *length = *size = NULL;
    const tl_expr *from = loop->loop.from, *to = loop->loop.to;
    int64_t first;
    if (!from || !to || !tl_known_integer(from, &first) || first != 0) return false;
    bool is_ceil = to->kind == TL_CALL && to->function == TL_FUNCTION_CEIL && to->item_count == 1;
    if (is_ceil) to = to->items[0];
    if (to->kind == TL_BINARY && to->operator== TL_OVER) {
        *length = to->left;
        *size = to->right;
        return true;
    }
    *length = to;
    return !is_ceil;
}

str tl_axis_name(const tl_axis *axis) {
    const tl_expr *e = axis->is_bare || !axis->coordinate ? axis->extent : axis->coordinate;
    return e && e->kind == TL_NAME ? e->text : (str){"", 0};
}

str tl_axis_index(const tl_axes *axes, int i) {
    return tl_axis_name(&axes->items[i]);
}

int tl_matrix_begin(const tl_axes *axes) {
    if (axes->has_semicolon) return axes->matrix;
    return axes->count > 2 ? axes->count - 2 : 0;
}

tl_expr *names_part_extent(const tl_symbol *view, const tl_tile *base, int position) {
    str index = tl_axis_index(view->axes, position);
    tl_expr *own = view->axes->items[position].extent;
    const tl_expr *element = view->view->value;
    const tl_axes *base_axes = view->view_base->axes;
    if (element->kind != TL_ELEMENT || !base_axes) return own;
    for (int i = 0; i < element->item_count && i < base_axes->count; i++) {
        const tl_expr *item = element->items[i];
        if (item->kind != TL_NAME || !str_equal(item->text, index)) continue;
        for (int k = 0; k < base->axis_count; k++) {
            if (!str_equal(base->axes[k].index, tl_axis_index(base_axes, i))) continue;
            const tl_expr *there = base->axes[k].extent;
            bool is_whole = there && tl_expr_equal(there, base_axes->items[i].extent);
            return is_whole ? own : base->axes[k].extent;
        }
    }
    return own;
}

int tl_copy_axes(const tl_statement *copy, const tl_axes *axes, int *out) {
    const tl_place *place = &copy->copy.place;
    bool is_whole = place->is_given || copy->copy.shape.count == axes->count;
    int count = 0;
    for (int i = is_whole ? 0 : tl_matrix_begin(axes); i < axes->count; i++) {
        bool is_fixed = place->is_given && i < place->count && !place->items[i].is_all &&
                        !place->items[i].is_block;
        if (!is_fixed && count < TL_AXES_MAX) out[count++] = i;
    }
    return count;
}

static bool is_not_next(void *context, const tl_expr *e) {
    (void)context;
    return e->kind != TL_CALL || e->function != TL_FUNCTION_NEXT;
}

bool tl_place_is_of_next(const tl_place *place) {
    for (int i = 0; i < place->count; i++)
        if (place->items[i].at && !tl_visit(place->items[i].at, is_not_next, NULL)) return true;
    return false;
}

bool tl_copy_is_of_next(const tl_statement *copy) {
    return tl_place_is_of_next(&copy->copy.place);
}

str tl_layout_words(arena *memory, const tl_layout *l) {
    str of = l->of && l->of->symbol ? l->of->symbol->name : STR("");
    return str_format(memory, "%s%s%s%s%.*s", l->is_partial ? "partial " : "",
                      tl_layout_kind_name(l->kind), l->is_permuted ? " permuted" : "",
                      of.length ? " of " : "", STR_ARGS(of));
}
