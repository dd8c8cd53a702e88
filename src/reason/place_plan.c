/* Which places and layouts tiles need, from their uses. */
#include "reason/place.h"

#include "reason/names.h"
#include "reason/scalar.h"

#include <math.h>

place_role *place_find(const place_plan *plan, str name) {
    tiles_tile *tile = tiles_find(plan->tiles, name);
    return tile ? &plan->roles[tile - plan->tiles->tiles.items] : NULL;
}

/* --- uses ------------------------------------------------------------------------------------- */

enum {
    WHOLE_MOST = 256, /* up to here every 16-bit type has all whole numbers */
    UNIT_BITS = 128   /* a unit of lines */
};

bool place_makes_values(reason *r, const tl_statement *s) {
    if (s->compute.operation == TL_GEMM) return false;
    if (s->compute.operation != TL_MASK) return true;
    double value;
    if (s->compute.operand_count < 2) return false; /* minus infinity */
    if (!scalar_number(r, s->compute.operands[1].value, &value)) return true;
    return !isinf(value) && (value != trunc(value) || fabs(value) > WHOLE_MOST);
}

static void note_compute(reason *r, place_plan *plan, const tl_statement *s) {
    bool is_product = s->compute.operation == TL_GEMM;
    for (int i = 0; i < plan->count; i++) {
        place_role *role = &plan->roles[i];
        str name = role->tile->name;
        if (edit_writes(s, name)) {
            role->is_computed = true;
            role->is_product = role->is_product || is_product;
            role->is_changed = role->is_changed || place_makes_values(r, s);
        }
        if (is_product) {
            role->is_left = role->is_left || edit_operand_is(s, 0, name);
            role->is_right = role->is_right || edit_operand_is(s, 1, name);
        } else if (edit_reads(s, name)) {
            role->is_elementwise = true;
        }
    }
}

/* Does it go out to a tensor of another type than it was loaded with? */
static bool changes_type(reason *r, const place_role *role, const tl_statement *s) {
    return s->copy.to == TL_GLOBAL && role->tile->from_global &&
           tiles_tensor_type(r->kernel, edit_copied_tensor(s)) != role->tile->storage;
}

static void note_copy(reason *r, place_plan *plan, const tl_statement *s) {
    place_role *role = place_find(plan, edit_copied_tile(s));
    if (!role) return;
    if (edit_is_store(s)) role->is_stored = true;
    else if (s->copy.from == TL_GLOBAL)
        role->is_loaded_in_loop = role->is_loaded_in_loop || edit_loop_of(s);
    else role->is_elementwise = true;
    role->is_changed = role->is_changed || changes_type(r, role, s);
}

/* --- vectors ---------------------------------------------------------------------------------- */

/* Which tiles meet in statements other than products, and which vectors therefore lie alike. */
typedef struct families {
    bool *met;   /* by two tiles */
    int *family; /* by vector: the least of those that meet one another */
} families;

static bool is_vector(const place_role *role) {
    return role->in_register && role->tile->axis_count == 1;
}

static void note_meeting(reason *r, const place_plan *plan, const tl_statement *s, bool *met) {
    names touched = names_read(r->memory, s);
    names_add(r->memory, &touched, edit_target_name(s));
    for (int i = 0; i < touched.count; i++)
        for (int k = 0; k < touched.count; k++) {
            const place_role *a = place_find(plan, touched.items[i]);
            const place_role *b = place_find(plan, touched.items[k]);
            if (a && b) met[(a - plan->roles) * plan->count + (b - plan->roles)] = true;
        }
}

static families read_families(reason *r, const place_plan *plan) {
    int n = plan->count;
    families f = {arena_array(r->memory, bool, n *n + 1), arena_array(r->memory, int, n + 1)};
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL))
        if (s->kind == TL_COMPUTE && s->compute.operation != TL_GEMM)
            note_meeting(r, plan, s, f.met);
    for (int i = 0; i < n; i++) f.family[i] = i;
    for (bool is_new = true; is_new;) {
        is_new = false;
        for (int i = 0; i < n; i++)
            for (int k = 0; k < n; k++) {
                const place_role *a = &plan->roles[i], *b = &plan->roles[k];
                if (f.family[k] <= f.family[i] || !f.met[i * n + k] || !is_vector(a) ||
                    !is_vector(b) || !str_equal(a->tile->axes[0], b->tile->axes[0]))
                    continue;
                f.family[k] = f.family[i];
                is_new = true;
            }
    }
    return f;
}

/* Does a vector of the family meet the matrix? */
static bool meets(const place_plan *plan, const families *f, int family, const place_role *m) {
    for (int i = 0; i < plan->count; i++)
        if (f->family[i] == family && is_vector(&plan->roles[i]) &&
            f->met[i * plan->count + (int)(m - plan->roles)])
            return true;
    return false;
}

static bool may_own(const place_role *m, str axis, int position) {
    return m->tile->axis_count == 2 && m->in_register && m->layout != TL_MMA_A &&
           str_equal(m->tile->axes[position], axis);
}

/* Are rows (position 0) or columns of both in the same threads? Lines depend on how many bytes a
 * row has, accumulators do not.
 */
static bool lie_alike(const place_role *a, const place_role *b, int position) {
    if (a->layout != b->layout) return false;
    return a->layout != TL_LINES ||
           (position == 0 && tl_type_bits(a->type) == tl_type_bits(b->type) &&
            str_equal(a->tile->axes[1], b->tile->axes[1]));
}

/* A matrix in registers that has the vector's axis, products' targets first; one of those that the
 * family meets where another one would lie differently.
 */
static bool find_owner(const place_plan *plan, const families *f, place_role *vector) {
    str axis = vector->tile->axes[0];
    int family = f->family[vector - plan->roles];
    const place_role *found = NULL, *met = NULL;
    int found_position = 0, met_position = 0;
    bool is_right = true;
    for (int want_product = 1; want_product >= 0; want_product--)
        for (int position = 0; position < 2; position++)
            for (int i = 0; i < plan->count; i++) {
                const place_role *m = &plan->roles[i];
                if (!may_own(m, axis, position) || (want_product && !m->is_product)) continue;
                if (!found) found = m, found_position = position;
                if (!meets(plan, f, family, m)) continue;
                if (!met) met = m, met_position = position;
                is_right = is_right && position == found_position && lie_alike(m, found, position);
            }
    if (!found) return false;
    vector->layout = (is_right ? found_position : met_position) == 0 ? TL_ROWS : TL_COLUMNS;
    vector->of = (is_right ? found : met)->tile->name;
    return true;
}

/* A vector may meet matrices that lie differently only where these can lie alike: as accumulators.
 */
static void join_layouts(place_plan *plan, const families *f) {
    bool is_mixed = false;
    for (int v = 0; v < plan->count; v++) {
        if (!is_vector(&plan->roles[v])) continue;
        const place_role *first = NULL;
        for (int i = 0; i < plan->count; i++) {
            const place_role *m = &plan->roles[i];
            if (!may_own(m, plan->roles[v].tile->axes[0], 0) || !meets(plan, f, f->family[v], m))
                continue;
            is_mixed = is_mixed || (first && !lie_alike(first, m, 0));
            first = m;
        }
    }
    for (int i = 0; i < plan->count && is_mixed; i++)
        if (plan->roles[i].layout == TL_LINES) plan->roles[i].layout = TL_MMA_C;
}

/* --- parts of a sum --------------------------------------------------------------------------- */

/* A row sum that a loop adds up may be kept in parts, by lane: it starts at 0, and until the loop
 * ends only RowSum adds to it and Multiply scales it.
 */
static bool may_be_partial(reason *r, const place_plan *plan, const place_role *role) {
    str name = role->tile->name;
    bool adds = false;
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        double value;
        bool reads = edit_reads(s, name), writes = edit_writes(s, name);
        if (!reads && !writes) continue;
        if (s->kind != TL_COMPUTE) return false;
        bool is_in_loop = edit_loop_of(s) != NULL;
        if (edit_is_compute(s, TL_ROW_SUM) && writes && s->compute.target_kind == TL_ACCUMULATE &&
            is_in_loop && !s->compute.operands[0].is_transposed) {
            const place_role *of = place_find(plan, edit_operand_name(s, 0));
            if (tiles_has_byte_warps(r) && of && of->has_cast)
                return false; /* a product with ones */
            adds = true;
        } else if (is_in_loop) {
            if (!edit_is_compute(s, TL_MULTIPLY) || !writes || !edit_operand_is(s, 0, name))
                return false;
        } else if (!adds) {
            if (!edit_is_compute(s, TL_FILL) ||
                !scalar_number(r, s->compute.operands[0].value, &value) || value != 0)
                return false;
        }
    }
    return adds;
}

/* --- through shared memory -------------------------------------------------------------------- */

static int copies_of(reason *r, str name) {
    int count = 0;
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL))
        count += edit_loads(s, name);
    return count;
}

static bool lies_like_stored(const place_plan *plan, const tiles_tile *tile) {
    for (int i = 0; i < plan->count; i++) {
        const tiles_tile *stored = plan->roles[i].tile;
        if (plan->roles[i].is_stored && str_equal(stored->axes[0], tile->axes[0]) &&
            str_equal(stored->axes[1], tile->axes[1]))
            return true;
    }
    return false;
}

/* A tile that each round loads, to compute an operand of it, would be waited for right away. Copies
 * into shared memory run on their own, so that the next round's are under way.
 */
static bool is_through(reason *r, const place_plan *plan, const place_role *role) {
    enum { LINE = 8 }; /* elements of 16 bits in 16 bytes */
    const tiles_tile *tile = role->tile;
    if (!tile->from_global || role->in_shared || !role->is_loaded_in_loop || role->is_changed ||
        role->layout != TL_MMA_C || tile->axis_count != 2 || tile->narrow != TL_OPEN ||
        !place_is_16_bit(tile->storage))
        return false;
    int64_t columns;
    const tiles_span *last = tiles_extent(plan->tiles, tile->axes[1]);
    return last && reason_known(r, last->extent, &columns) && columns % LINE == 0 &&
           tiles_copy_async(r) && copies_of(r, tile->name) == 1 && lies_like_stored(plan, tile);
}

/* --- copied twice ----------------------------------------------------------------------------- */

/* A tile of which an operand is computed, and that its round copies under another name for
 * products.
 */
static const tiles_tile *find_twin(reason *r, const place_plan *plan, const place_role *role) {
    const tiles_tile *tile = role->tile;
    if (!tile->from_global || role->in_shared || role->layout != TL_MMA_C ||
        tile->axis_count != 2 || tile->narrow != TL_OPEN || !place_is_16_bit(tile->storage) ||
        copies_of(r, tile->name) != 1 || !lies_like_stored(plan, tile))
        return NULL;
    const tl_statement *copy = edit_load_of(r->kernel, tile->name);
    for (int i = 0; i < plan->count; i++) {
        const tiles_tile *other = plan->roles[i].tile;
        if (!plan->roles[i].in_shared || plan->roles[i].in_register || !other->from_global ||
            copies_of(r, other->name) != 1)
            continue;
        const tl_statement *first = edit_load_of(r->kernel, other->name);
        if (first->parent == copy->parent &&
            tl_place_equal(&first->copy.place, &copy->copy.place) &&
            str_equal(edit_copied_tensor(first), edit_copied_tensor(copy)))
            return other;
    }
    return NULL;
}

/* --- orders of columns ------------------------------------------------------------------------ */

/* What meets sums of alternating column tiles has their order, too. */
static bool spread_order(reason *r, place_plan *plan, const tl_statement *s) {
    bool is_new = false, any = false;
    place_role *met[PLACE_MET_MAX];
    int count = place_matrices_in(r, plan, s, met);
    for (int i = 0; i < count; i++) any = any || (met[i]->in_register && met[i]->alternates);
    for (int i = 0; i < count && any; i++) {
        is_new = is_new || (met[i]->in_register && !met[i]->alternates);
        met[i]->alternates = met[i]->alternates || met[i]->in_register;
    }
    return is_new;
}

static void find_orders(reason *r, place_plan *plan) {
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        place_role *sum = edit_is_product(s) ? place_find(plan, edit_target_name(s)) : NULL;
        if (sum && !s->compute.operands[1].is_transposed) sum->alternates = true;
    }
    for (bool is_new = true; is_new;) {
        is_new = false;
        for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL))
            if (spread_order(r, plan, s)) is_new = true;
    }
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (s->kind != TL_COMPUTE) continue;
        const place_role *sum = place_find(plan, edit_target_name(s));
        const place_role *from = place_find(plan, edit_operand_name(s, 0));
        bool is_plain = edit_is_product(s) && s->compute.operands[1].is_transposed;
        bool finds = tl_facts(s->compute.operation)->gives_place;
        plan->mixes_orders |= (is_plain && sum && sum->alternates) ||
                              (edit_is_product(s) && from && from->has_cast && from->alternates) ||
                              (finds && from && from->alternates);
    }
    for (int i = 0; i < plan->count; i++) {
        const place_role *role = &plan->roles[i];
        bool is_half =
            role->tile->from_global && role->tile->axis_count == 2 && tl_type_bits(role->type) < 32;
        plan->mixes_orders |= role->alternates && is_half;
    }
}

/* --- the plan --------------------------------------------------------------------------------- */

static place_role *find_open(place_plan *plan) {
    for (int i = 0; i < plan->count; i++)
        if (plan->roles[i].in_register && plan->roles[i].tile->axis_count == 2 &&
            plan->roles[i].layout == TL_LAYOUT_NONE)
            return &plan->roles[i];
    return NULL;
}

bool place_may_be_held(reason *r, const place_role *role) {
    if (!role->is_left || role->is_right || role->is_loaded_in_loop || role->is_product ||
        !role->tile->from_global || role->tile->narrow != TL_OPEN)
        return false;
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL))
        if (edit_is_product(s) && edit_operand_is(s, 0, role->tile->name) &&
            s->compute.operands[0].is_transposed)
            return false;
    return true;
}

static const char guarded_advice[] =
    "leave the `if` out and set to 0, or mask, what is not meant (`Compute Mask S, 0 where "
    "allow[q/64, kv/64] == 0`); TL Code may leave out whole blocks by an `if`";

static bool place_one(reason *r, const tiles_list *tiles, place_role *role) {
    const tiles_tile *tile = role->tile;
    const char *name = edit_z(r->memory, tile->name);
    if (tile->axis_count < 1 || tile->axis_count > 2)
        return reason_stuck(r, tile->first, "the axes of %s are not known (a tile has one or two)",
                            name);
    bool is_operand = role->is_left || role->is_right;
    if (is_operand && tile->axis_count != 2)
        return reason_stuck(r, tile->first, "%s is an operand of a product and has %d axis", name,
                            tile->axis_count);
    bool is_byte = tl_is_narrow(tile->storage); /* products take them as they are */
    if (is_operand && tile->from_global && !place_is_16_bit(tile->storage) && !is_byte)
        return reason_stuck(r, tile->first, "products take 16-bit operands; %s is %s", name,
                            tl_type_name(tile->storage));
    bool is_narrow = tile->narrow != TL_OPEN || (is_byte && tile->from_global);
    tl_type type = is_byte ? tile->storage : tile->narrow;
    if (is_narrow && !tile->is_moved && (!is_operand || role->is_computed || role->is_elementwise))
        return reason_stuck(r, tile->first,
                            "%s is %s; tiles of %d bits are operands of products as they are, or "
                            "leave for a tensor of their type; nothing else computes with them",
                            name, tl_type_name(type), tl_type_bits(type));
    int64_t columns;
    const tiles_span *last = tiles_extent(tiles, tile->axes[1]);
    if (is_narrow && tile->from_global && last && reason_known(r, last->extent, &columns) &&
        columns * tl_type_bits(type) % UNIT_BITS)
        return reason_stuck(
            r, tile->first,
            "%s is %s and its tiles have rows of %lld elements; elements of %d bits "
            "move %d at a time, so it has to be a multiple of that",
            name, tl_type_name(type), (long long)columns, tl_type_bits(type),
            UNIT_BITS / tl_type_bits(type));
    if (role->is_right && role->is_elementwise)
        return reason_stuck(r, tile->first,
                            "%s is an operand of a product and of other operations; "
                            "copy it twice, `and get` another name",
                            name);
    role->in_shared = is_operand && (tile->from_global || tile->from_register);
    if (role->in_shared && tile->first->parent && tile->first->parent->kind == TL_IF) {
        reason_stuck(r, tile->first,
                     "%s is an operand of a product, and an `if` decides whether it is copied",
                     name);
        return reason_advise(r, guarded_advice);
    }
    bool is_held = reason_decided(r, 0, "%s_in_registers", name) != 0;
    if (is_held && !place_may_be_held(r, role))
        return reason_stuck(r, tile->first,
                            "%s cannot be held in registers: it must be a left operand "
                            "that is copied before the loop",
                            name);
    bool is_held_left = role->in_shared && (is_held || role->is_computed || role->is_elementwise);
    role->in_register = !role->in_shared || is_held_left;
    if (is_held_left) role->layout = TL_MMA_A;
    else if (role->is_product) role->layout = TL_MMA_C;
    role->has_cast = role->is_left && !role->in_shared;
    bool is_plain = tile->from_global && !role->is_changed;
    if (role->has_cast || (role->is_stored && !is_plain)) role->layout = TL_MMA_C;
    return true;
}

bool place_plan_read(reason *r, place_plan *plan) {
    plan->tiles = tiles_read(r);
    plan->count = plan->tiles->tiles.count;
    plan->roles = arena_array(r->memory, place_role, plan->count > 0 ? plan->count : 1);
    for (int i = 0; i < plan->count; i++) plan->roles[i].tile = &plan->tiles->tiles.items[i];
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (s->kind == TL_COMPUTE) note_compute(r, plan, s);
        if (s->kind == TL_COPY) note_copy(r, plan, s);
    }
    for (int i = 0; i < plan->count; i++)
        if (!place_one(r, plan->tiles, &plan->roles[i])) return false;
    place_spread_layouts(r, plan);
    place_role *open = NULL;
    while ((open = find_open(plan)) != NULL) {
        open->layout = place_free_layout(r, plan, open);
        place_spread_layouts(r, plan);
    }
    for (int i = 0; i < plan->count; i++) place_choose_type(&plan->roles[i]);
    plan->mixes_orders = false;
    if (tiles_has_byte_warps(r)) find_orders(r, plan);
    families f = read_families(r, plan);
    join_layouts(plan, &f);
    for (int i = 0; i < plan->count; i++) {
        place_role *role = &plan->roles[i];
        if (is_vector(role) && !find_owner(plan, &f, role))
            return reason_stuck(r, role->tile->first,
                                "no matrix in registers has the axis %.*s of the "
                                "vector %.*s",
                                STR_ARGS(role->tile->axes[0]), STR_ARGS(role->tile->name));
        place_choose_type(role);
        role->twin = find_twin(r, plan, role);
        role->is_through = !role->twin && is_through(r, plan, role);
        role->in_shared = role->in_shared || role->is_through;
        role->is_partial =
            role->tile->axis_count == 1 && role->layout == TL_ROWS && may_be_partial(r, plan, role);
    }
    return true;
}
