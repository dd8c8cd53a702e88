/* Names in expressions, the kinds of '/', and the values of lets. */
#include "tl/names_internal.h"

#include <ctype.h>

/* --- places ----------------------------------------------------------------------------------- */

tl_space names_cut_place(str *name) {
    tl_space space = tl_cut_place(name);
    const str others[] = {STR("_registers"), STR("_reg")};
    for (int i = 0; i < 2 && space == TL_NOWHERE; i++) {
        if (!str_ends(*name, others[i]) || name->length == others[i].length) continue;
        name->length -= others[i].length;
        space = TL_REGISTER;
    }
    return space;
}

/* `sQ`, `rS`, `gA` where only Q, S, A are known. */
static tl_space cut_letter(str *name) {
    if (name->length < 2 || !isupper((unsigned char)name->data[1])) return TL_NOWHERE;
    tl_space space = name->data[0] == 's'   ? TL_SHARED
                     : name->data[0] == 'r' ? TL_REGISTER
                     : name->data[0] == 'g' ? TL_GLOBAL
                                            : TL_NOWHERE;
    if (space == TL_NOWHERE) return space;
    name->data++;
    name->length--;
    return space;
}

static tl_symbol *known_variable(const names_binder *b, str name) {
    names_entry *entry = names_look(b, name);
    return entry ? entry->variable : NULL;
}

/* The variable that a text names, with the place it says. */
static tl_symbol *find_variable(names_binder *b, str text, tl_space *written) {
    *written = TL_NOWHERE;
    tl_symbol *variable = known_variable(b, text);
    if (variable) return variable;
    str bare = text;
    *written = names_cut_place(&bare);
    if (*written != TL_NOWHERE) variable = known_variable(b, bare);
    if (variable) return variable;
    bare = text;
    *written = cut_letter(&bare);
    if (*written != TL_NOWHERE) variable = known_variable(b, bare);
    if (variable) return variable;
    /* `0_x` is a misread `O_x`. */
    if (text.length > 2 && text.data[0] == '0' && text.data[1] == '_') {
        str repaired = str_format(b->memory, "O%.*s", (int)text.length - 1, text.data + 1);
        return find_variable(b, repaired, written);
    }
    *written = TL_NOWHERE;
    return NULL;
}

static const char *kind_words(tl_symbol_kind kind) {
    switch (kind) {
    case TL_SYMBOL_VARIABLE: return "a tensor or tile";
    case TL_SYMBOL_SCALAR: return "a scalar";
    case TL_SYMBOL_CONSTANT: return "a constant";
    case TL_SYMBOL_SIZE: return "a size";
    case TL_SYMBOL_INDEX: return "an index";
    case TL_SYMBOL_GRID: return "an index of the grid";
    case TL_SYMBOL_LOOP: return "a loop's index";
    case TL_SYMBOL_ROLE: return "a role";
    case TL_SYMBOL_TURN: return "a turn";
    case TL_SYMBOL_OPEN: return "a tile size";
    }
    return "a name";
}

/* The name means something else than it should, or nothing. */
static void report_other(names_binder *b, const tl_expr *e, diag_id id) {
    const names_entry *entry = names_look(b, e->text);
    const tl_symbol *other = !entry            ? NULL
                             : entry->local    ? entry->local
                             : entry->grid     ? entry->grid
                             : entry->value    ? entry->value
                             : entry->index    ? entry->index
                             : entry->variable ? entry->variable
                                               : entry->label;
    if (other) diag_report(b->diags, id, e->range, e->text, str_from(kind_words(other->kind)));
    else names_undefined(b, e->text, e->range);
}

tl_symbol *names_variable(names_binder *b, tl_expr *e, tl_space *written) {
    *written = TL_NOWHERE;
    if (e->kind != TL_NAME) {
        diag_add(b->diags, DIAG_NAME_EXPECTED, e->range, NULL);
        return NULL;
    }
    tl_symbol *variable = find_variable(b, e->text, written);
    if (variable) {
        e->symbol = variable;
        return variable;
    }
    report_other(b, e, DIAG_NAME_IS_NO_TILE);
    return NULL;
}

int names_place_count(const tl_symbol *variable) {
    return (variable->axes != NULL) + variable->shared.exists + variable->in_register.exists;
}

str names_with_place(names_binder *b, str name, tl_space space) {
    return str_format(b->memory, "%.*s_%s", STR_ARGS(name), tl_space_name(space));
}

/* The canonical spelling: bare in sketches and where there is one place, else with the place. */
static void respell(names_binder *b, tl_expr *e, const tl_symbol *variable, tl_space space) {
    bool is_bare = str_equal(e->text, variable->name);
    if (b->is_sketch ? is_bare : names_place_count(variable) < 2) {
        e->text = variable->name;
    } else {
        str full = names_with_place(b, variable->name, space);
        if (!str_equal(e->text, full)) e->text = full;
    }
}

static void report_no_tile(names_binder *b, const tl_expr *e, const tl_symbol *variable,
                           tl_space space) {
    str place = str_from(tl_space_name(space));
    const tl_statement *its =
        variable->in_register.allocation ? tl_role_of(variable->in_register.allocation) : NULL;
    if (space == TL_REGISTER && its) {
        diag_report(b->diags, DIAG_TILE_OF_OTHER_ROLE, e->range, variable->name, its->role.name);
        diag_report(b->diags, DIAG_NAME_FIRST_HERE, variable->in_register.allocation->name_range,
                    variable->name);
        return;
    }
    diag_report(b->diags, DIAG_NAME_HAS_NO_TILE, e->range, variable->name, place);
    if (b->is_sketch) {
        diag_report(b->diags, DIAG_COPY_IT_FIRST, e->range, variable->name);
    } else {
        diag_report(b->diags, DIAG_ALLOCATE_IT, e->range, variable->name, place);
    }
}

tl_tile *names_tile(names_binder *b, tl_expr *e, tl_space space) {
    tl_space written;
    tl_symbol *variable = names_variable(b, e, &written);
    if (!variable) return NULL;
    e->space = space;
    if (written != TL_NOWHERE && written != space) {
        diag_report(b->diags, DIAG_PLACE_CONTRADICTS, e->range, e->text,
                    str_from(tl_space_name(space)));
        return NULL;
    }
    tl_symbol *holder;
    tl_tile *tile = names_tile_in(variable, space, b->role, &holder);
    if (tile) e->symbol = holder;
    else report_no_tile(b, e, variable, space);
    return tile;
}

/* The one tile that a bare or placed name means as an operand. */
static void resolve_tile(names_binder *b, tl_expr *e) {
    tl_space written;
    tl_symbol *variable = names_variable(b, e, &written);
    if (!variable) return;
    tl_symbol *shared_holder, *register_holder;
    tl_tile *shared = names_tile_in(variable, TL_SHARED, b->role, &shared_holder);
    tl_tile *in_register = names_tile_in(variable, TL_REGISTER, b->role, &register_holder);
    if (written == TL_GLOBAL) {
        diag_report(b->diags, DIAG_OPERAND_IN_GLOBAL, e->range, variable->name);
        diag_report(b->diags, DIAG_COPY_IT_FIRST, e->range, variable->name);
        return;
    }
    tl_space space = written;
    if (space == TL_NOWHERE) {
        bool is_ambiguous = shared && in_register && !b->is_sketch;
        if (is_ambiguous) {
            diag_report(b->diags, DIAG_PLACE_AMBIGUOUS, e->range, variable->name);
            return;
        }
        space = shared && !in_register ? TL_SHARED : TL_REGISTER;
    }
    if (space == TL_SHARED ? !shared : !in_register) {
        bool is_only_global = variable->axes && written == TL_NOWHERE;
        bool is_elsewhere = variable->in_register.exists || variable->shared.exists;
        if (is_only_global && !is_elsewhere) {
            diag_report(b->diags, DIAG_OPERAND_IN_GLOBAL, e->range, variable->name);
            diag_report(b->diags, DIAG_COPY_IT_FIRST, e->range, variable->name);
        } else {
            report_no_tile(b, e, variable, space);
        }
        return;
    }
    e->space = space;
    e->symbol = space == TL_SHARED ? shared_holder : register_holder;
    respell(b, e, variable, space);
}

/* --- expressions ------------------------------------------------------------------------------ */

static void settle_kernel_let(names_binder *b, names_let *let) {
    const tl_axes *own_axes = b->own_axes;
    int order = b->let_order;
    b->own_axes = NULL;
    b->let_order = let->order;
    let->progress = NAMES_UNDERWAY;
    names_settle(b, let->symbol, let->binding);
    let->progress = NAMES_SETTLED;
    b->own_axes = own_axes;
    b->let_order = order;
}

/* A let of the kernel is settled when it is first used; one that uses itself never is. */
static void use_let(names_binder *b, tl_expr *e, tl_symbol *symbol) {
    const names_entry *entry = names_look(b, symbol->name);
    if (!entry || entry->value != symbol || !entry->let_position) return;
    names_let *let = &b->lets.items[entry->let_position - 1];
    if (let->progress == NAMES_UNDERWAY) {
        diag_report(b->diags, DIAG_LET_CYCLE, e->range, symbol->name);
        diag_report(b->diags, DIAG_NAME_FIRST_HERE, symbol->declared, symbol->name);
        return;
    }
    bool is_later = b->let_order >= 0 && let->order > b->let_order;
    if (let->progress == NAMES_UNSEEN) settle_kernel_let(b, let);
    if (is_later && !diag_has_errors(b->diags)) {
        diag_report(b->diags, DIAG_LET_LATER, e->range, symbol->name);
        diag_report(b->diags, DIAG_NAME_FIRST_HERE, symbol->declared, symbol->name);
    }
}

static void resolve_name(names_binder *b, tl_expr *e) {
    names_entry *entry = names_look(b, e->text);
    bool is_own = false;
    for (int i = 0; b->own_axes && i < b->own_axes->count; i++)
        is_own |= str_equal(tl_axis_index(b->own_axes, i), e->text);
    if (entry) {
        e->symbol = is_own         ? entry->index
                    : entry->local ? entry->local
                    : entry->grid  ? entry->grid
                    : entry->value ? entry->value
                                   : entry->index;
        if (e->symbol) {
            if (e->symbol->kind == TL_SYMBOL_CONSTANT) use_let(b, e, e->symbol);
            return;
        }
    }
    tl_space written;
    if (find_variable(b, e->text, &written)) {
        resolve_tile(b, e);
    } else if (entry && entry->label) {
        diag_report(b->diags, DIAG_NAME_IS_NO_VALUE, e->range, e->text,
                    str_from(kind_words(entry->label->kind)));
    } else {
        names_undefined(b, e->text, e->range);
    }
}

static void resolve_element(names_binder *b, tl_expr *e) {
    tl_space written;
    tl_symbol *variable = find_variable(b, e->text, &written);
    if (variable) {
        e->symbol = variable;
        e->space = written != TL_NOWHERE                                      ? written
                   : variable->axes                                           ? TL_GLOBAL
                   : variable->shared.exists && !variable->in_register.exists ? TL_SHARED
                                                                              : TL_REGISTER;
        bool is_counted = e->space == TL_GLOBAL && variable->axes;
        if (is_counted && variable->axes->count != e->item_count) {
            diag_report(b->diags, DIAG_ELEMENT_COUNT, e->range, variable->name,
                        str_format(b->memory, "%d", variable->axes->count),
                        str_format(b->memory, "%d", e->item_count));
            diag_report(b->diags, DIAG_NAME_FIRST_HERE, variable->declared, variable->name);
        }
    } else {
        report_other(b, e, DIAG_NAME_IS_NO_TENSOR);
    }
    for (int i = 0; i < e->item_count; i++) names_resolve(b, e->items[i]);
}

static void decide_division(tl_expr *e, const tl_expr *around) {
    bool is_asked = around && around->kind == TL_CALL && around->item_count == 1;
    if (tl_expr_is_real(e->left) || tl_expr_is_real(e->right)) e->division = TL_DIVIDE_REAL;
    else if (is_asked && around->function == TL_FUNCTION_CEIL) e->division = TL_DIVIDE_UP;
    else if (is_asked && around->function == TL_FUNCTION_FLOOR) e->division = TL_DIVIDE_DOWN;
    else if (tl_expr_is_index_like(e->left)) e->division = TL_DIVIDE_DOWN;
    else e->division = tl_expr_is_index_like(e->right) ? TL_DIVIDE_DOWN : TL_DIVIDE_UP;
}

static void decide_in(tl_expr *e, const tl_expr *around) {
    if (!e) return;
    decide_in(e->left, e);
    decide_in(e->right, e);
    for (int i = 0; i < e->item_count; i++) decide_in(e->items[i], e);
    if (e->kind == TL_BINARY && e->operator== TL_OVER) decide_division(e, around);
}

void names_decide_divisions(tl_expr *e) {
    decide_in(e, NULL);
}

/* first(tile), more(tile): of the walk over this block's tiles. */
static void check_walk_name(names_binder *b, const tl_expr *call) {
    if (call->function != TL_FUNCTION_FIRST && call->function != TL_FUNCTION_MORE) return;
    const tl_symbol *s = call->item_count == 1 ? call->items[0]->symbol : NULL;
    bool is_walk = s && s->kind == TL_SYMBOL_LOOP && s->statement->loop.is_grid_walk;
    if (!is_walk) {
        diag_report(b->diags, DIAG_NOT_A_WALK, call->range,
                    str_from(tl_function_name(call->function)));
    }
}

/* Of integers: a real quotient by 0 is infinite, and may be meant. */
static void check_divisor(names_binder *b, const tl_expr *e) {
    bool divides = e->operator== TL_OVER || e->operator== TL_MODULO;
    int64_t divisor;
    if (!divides || !tl_known_integer(e->right, &divisor) || divisor != 0) return;
    if (!tl_expr_is_real(e->left)) diag_add(b->diags, DIAG_DIVISION_BY_ZERO, e->right->range, NULL);
}

static void resolve_in(names_binder *b, tl_expr *e, const tl_expr *around) {
    if (!e) return;
    if (b->depth >= NAMES_DEPTH_MAX) {
        diag_report(b->diags, DIAG_LET_TOO_DEEP, e->range,
                    str_format(b->memory, "%d", NAMES_DEPTH_MAX));
        return;
    }
    b->depth++;
    e->symbol = NULL;
    switch (e->kind) {
    case TL_INTEGER:
    case TL_NUMBER: break;
    case TL_NAME: resolve_name(b, e); break;
    case TL_ELEMENT: resolve_element(b, e); break;
    case TL_CALL:
        for (int i = 0; i < e->item_count; i++) resolve_in(b, e->items[i], e);
        check_walk_name(b, e);
        break;
    case TL_NEGATE:
    case TL_NOT: resolve_in(b, e->left, e); break;
    case TL_BINARY:
        resolve_in(b, e->left, e);
        resolve_in(b, e->right, e);
        if (e->operator== TL_OVER) decide_division(e, around);
        check_divisor(b, e);
        break;
    }
    b->depth--;
}

/* How large an expression is with all its definitions written out. */
typedef struct extent_of {
    int terms, height;
} extent_of;

static void add_part(extent_of *whole, extent_of part) {
    int more = whole->terms + part.terms;
    whole->terms = more > TL_TERMS_MAX ? TL_TERMS_MAX + 1 : more;
    if (part.height + 1 > whole->height) whole->height = part.height + 1;
}

static extent_of written_out(const tl_expr *e) {
    extent_of whole = {.terms = 1, .height = 1};
    const tl_symbol *s = e->symbol;
    if (s && s->terms) add_part(&whole, (extent_of){s->terms, s->height});
    if (e->left) add_part(&whole, written_out(e->left));
    if (e->right) add_part(&whole, written_out(e->right));
    for (int i = 0; i < e->item_count; i++) add_part(&whole, written_out(e->items[i]));
    return whole;
}

static bool is_too_large(names_binder *b, const tl_expr *e, extent_of whole) {
    bool is_high = whole.height > TL_HEIGHT_MAX;
    if (!is_high && whole.terms <= TL_TERMS_MAX) return false;
    int most = is_high ? TL_HEIGHT_MAX : TL_TERMS_MAX;
    diag_report(b->diags, is_high ? DIAG_LET_TOO_DEEP : DIAG_LET_TOO_LARGE, e->range,
                str_format(b->memory, "%d", most));
    return true;
}

void names_resolve(names_binder *b, tl_expr *e) {
    resolve_in(b, e, NULL);
    if (e && b->depth == 0) is_too_large(b, e, written_out(e));
}

/* A let or a view: what it stands for. One that is too large is told once. */
static void measure(names_binder *b, tl_symbol *symbol, const tl_expr *value) {
    extent_of whole = value ? written_out(value) : (extent_of){0};
    if (value && b->depth > 0 && is_too_large(b, value, whole)) whole = (extent_of){0};
    if (whole.terms > TL_TERMS_MAX || whole.height > TL_HEIGHT_MAX) whole = (extent_of){0};
    symbol->terms = whole.terms, symbol->height = whole.height;
}

/* --- lets, views, parameters ------------------------------------------------------------------ */

void names_settle(names_binder *b, tl_symbol *symbol, tl_binding *binding) {
    symbol->value = binding->value;
    names_resolve(b, binding->value);
    measure(b, symbol, binding->value);
    symbol->is_real = tl_expr_is_real(binding->value) && !symbol->is_extent;
    symbol->is_index_like = tl_expr_is_index_like(binding->value) && !symbol->is_extent;
    tl_value value;
    symbol->is_known = tl_evaluate(binding->value, NULL, NULL, &value);
    if (!symbol->is_known) return;
    symbol->is_integer = !value.is_real;
    symbol->integer = value.integer;
    symbol->number = value.is_real ? value.real : (double)value.integer;
}

/* Extents and coordinates of the axes of a tensor. A coordinate may use index names of others. */
static void resolve_axes(names_binder *b, const tl_axes *axes) {
    for (int i = 0; i < axes->count; i++) {
        const tl_axis *axis = &axes->items[i];
        b->own_axes = NULL;
        names_resolve(b, axis->extent);
        if (axis->is_bare || !axis->coordinate || axis->coordinate == axis->extent) continue;
        b->own_axes = axes;
        names_resolve(b, axis->coordinate);
        /* `head in q_heads`: the index, also where the grid walks it */
        str index = tl_axis_index(axes, i);
        names_entry *entry = index.length ? names_look(b, index) : NULL;
        if (entry && entry->index) axis->coordinate->symbol = entry->index;
    }
    b->own_axes = NULL;
}

/* All axes that carry an index name must agree on its length. */
static void compare_lengths(names_binder *b, const tl_axes *axes) {
    for (int i = 0; i < axes->count; i++) {
        str name = tl_axis_index(axes, i);
        names_entry *entry = name.length ? names_look(b, name) : NULL;
        const tl_expr *extent = axes->items[i].extent;
        if (!entry || !entry->index || !extent || entry->index->extent == extent) continue;
        if (names_same_length(extent, entry->index->extent)) continue;
        bool is_twice_here = false; /* reported already */
        for (int k = 0; k < i; k++) is_twice_here |= str_equal(name, tl_axis_index(axes, k));
        if (is_twice_here) continue;
        diag_report(b->diags, DIAG_INDEX_OF_TWO_LENGTHS, axes->items[i].range, name,
                    tl_expr_text(b->memory, extent), tl_expr_text(b->memory, entry->index->extent));
        diag_report(b->diags, DIAG_NAME_FIRST_HERE, entry->index->declared, name);
    }
}

static void settle_view(names_binder *b, tl_binding *binding) {
    resolve_axes(b, &binding->axes);
    compare_lengths(b, &binding->axes);
    b->own_axes = &binding->axes;
    names_resolve(b, binding->value);
    b->own_axes = NULL;
    tl_symbol *view = binding->symbol;
    if (!view) return;
    measure(b, view, binding->value);
    view->is_real = tl_expr_is_real(binding->value);
    int depth = 0;
    for (const tl_symbol *v = view; v && v->view; v = v->view_base) {
        if (++depth <= NAMES_DEPTH_MAX / 10 && v->view_base != view) continue;
        diag_report(b->diags, DIAG_LET_CYCLE, binding->range, view->name);
        view->view_base = NULL;
        break;
    }
}

void names_settle_all(names_binder *b) {
    for (int i = 0; i < b->lets.count; i++) {
        if (b->lets.items[i].progress == NAMES_UNSEEN) settle_kernel_let(b, &b->lets.items[i]);
    }
    b->let_order = -1;
    for (tl_statement *s = b->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (!tl_is_parameter(s)) continue;
        resolve_axes(b, &s->parameter.axes);
        compare_lengths(b, &s->parameter.axes);
        names_resolve(b, s->parameter.condition);
    }
    for (tl_statement *s = b->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (s->kind != TL_LET || s->parent) continue;
        for (int i = 0; i < s->let.count; i++) {
            if (s->let.items[i].axes.count) settle_view(b, &s->let.items[i]);
        }
    }
}
