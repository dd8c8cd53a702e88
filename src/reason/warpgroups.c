#include "reason/warpgroups.h"

#include "reason/pair.h"
#include "tl/boxes.h"

enum {
    WARPGROUP_THREADS = 128,
    REGISTER_UNIT = 8, /* setmaxnreg takes multiples of it */
    REGISTERS_MOST = 240,
    LOAD_REGISTERS = 40,
    LOAD_REGISTERS_OF_MANY = 32,  /* where three warpgroups compute */
    LOAD_REGISTERS_LEAST = 24,    /* the most for the others: where sums have two places, or many */
    LOAD_REGISTERS_OF_VIEWS = 96, /* beside one warpgroup, which cannot have all of the others */
    ROWS_MOST = 256,              /* of a tile */
    BOXES_MOST = 16,              /* of a tile whose rows lie in several pages */
};

int warpgroups_step(const reason *r) {
    return WARPGROUP_STEP_BYTES / (tiles_multiplies_bytes(r->kernel) ? 1 : 2);
}

int64_t warpgroups_column_parts(int64_t rows, int64_t count, bool is_stored) {
    if (rows == WARPGROUP_ROWS * count) return 1;
    return rows == WARPGROUP_ROWS && is_stored ? count : 0;
}

bool warpgroups_copy_views(const reason *r) {
    tl_tensor t;
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL))
        if (edit_is_fill(s) && tl_find_tensor(r->kernel, s->copy.what->text, &t) && t.view)
            return true;
    return false;
}

static bool is_operand(const tl_kernel *kernel, str name) {
    for (tl_statement *s = kernel->body.first; s; s = tl_next(s, NULL))
        if (edit_is_product(s) && edit_reads(s, name)) return true;
    return false;
}

bool warpgroups_store_operands(const reason *r) {
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL))
        if (edit_is_store(s) && is_operand(r->kernel, edit_target_name(s))) return true;
    return false;
}

int warpgroups_load_registers(const reason *r, int64_t count) {
    if (count == 1 && warpgroups_copy_views(r)) return LOAD_REGISTERS_OF_VIEWS;
    if (warpgroups_store_operands(r)) return LOAD_REGISTERS_LEAST;
    if (count >= WARPGROUPS_MAX) return LOAD_REGISTERS_OF_MANY;
    return tiles_multiplies_bytes(r->kernel) ? LOAD_REGISTERS_LEAST : LOAD_REGISTERS;
}

static int share_of(const reason *r, int load, int64_t count) {
    int64_t own = (r->target->registers / WARPGROUP_THREADS - load) / count / REGISTER_UNIT;
    own *= REGISTER_UNIT;
    return (int)(own < REGISTERS_MOST ? own : REGISTERS_MOST);
}

int warpgroups_math_registers(const reason *r, int64_t count) {
    return share_of(r, warpgroups_load_registers(r, count), count);
}

int warpgroups_paired_load_registers(void) {
    return LOAD_REGISTERS; /* lines of what an end cuts take more than the least */
}

int warpgroups_paired_registers(const reason *r) {
    return share_of(r, LOAD_REGISTERS, PAIR);
}

/* The first role of warpgroups, and how many there are. */
static tl_statement *find_roles(const tl_kernel *kernel, int *count) {
    tl_statement *first = NULL;
    *count = 0;
    for (tl_statement *s = kernel->body.first; s; s = s->next) {
        if (s->kind != TL_ROLE || !s->role.is_warpgroups) continue;
        if (!first) first = s;
        ++*count;
    }
    return first;
}

bool warpgroups_are_paired(const tl_kernel *kernel) {
    int count;
    find_roles(kernel, &count);
    return count == PAIR;
}

tl_statement *warpgroups_role(const tl_kernel *kernel) {
    int count;
    tl_statement *first = find_roles(kernel, &count);
    return count == 1 ? first : NULL;
}

/* --- may a kernel be of this class? ----------------------------------------------------------- */

static const char *missing_feature(reason *r) {
    static const gpu_feature needed[] = {GPU_FEATURE_wgmma, GPU_FEATURE_tma, GPU_FEATURE_mbarrier,
                                         GPU_FEATURE_setmaxnreg, GPU_FEATURE_stmatrix};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!gpu_has(r->target, needed[i]))
            return reason_say(r, "the GPU has no %s", gpu_feature_word(needed[i]));
    return NULL;
}

static bool is_under_branch(const tl_statement *s) {
    for (const tl_statement *p = s->parent; p; p = p->parent)
        if (p->kind == TL_IF) return true;
    return false;
}

static const char *product_refusal(reason *r, const place_plan *plan, const tl_statement *s) {
    const place_role *left = place_find(plan, edit_operand_name(s, 0));
    const place_role *right = place_find(plan, edit_operand_name(s, 1));
    if (!left || !right) return "a product has an operand that is no tile";
    if (!right->in_shared)
        return reason_say(r, "the right operand %.*s is not in shared memory",
                          STR_ARGS(right->tile->name));
    if (is_under_branch(s)) return "a product stands under a condition";
    return NULL;
}

bool warpgroups_copies_boxes(const reason *r, const tl_statement *copy, int64_t rows) {
    tl_box box;
    return copy->kind == TL_COPY && rows <= ROWS_MOST &&
           tl_box_of(r->kernel, copy, (int)rows, &box) && rows / box.rows <= BOXES_MOST;
}

static const char *copy_refusal(reason *r, const place_plan *plan, const tl_statement *s) {
    const place_role *role = place_find(plan, edit_target_name(s));
    if (!role || !role->in_shared) return NULL;
    str tensor = s->copy.what->text;
    if (role->tile->narrow != TL_OPEN)
        return reason_say(r, "%.*s is %s: it widens in registers on its way to shared memory",
                          STR_ARGS(tensor), tl_type_name(role->tile->narrow));
    tl_box box; /* of the largest tile: that of a smaller one has a common divisor, too */
    if (!tl_box_of(r->kernel, s, ROWS_MOST, &box) || box.tensor->is_output)
        return reason_say(r,
                          "%.*s is a view whose tiles are no boxes of a tensor (where an index is "
                          "divided, as by a page's length, the divisor must be a known multiple of "
                          "%d)",
                          STR_ARGS(tensor), TL_BOX_ROWS);
    if (is_under_branch(s))
        return reason_say(r, "%.*s is copied under a condition", STR_ARGS(tensor));
    return NULL;
}

const char *warpgroups_refusal(reason *r, const place_plan *plan) {
    const char *why = missing_feature(r);
    bool has_products = false;
    for (tl_statement *s = r->kernel->body.first; s && !why; s = tl_next(s, NULL)) {
        if (edit_is_product(s)) {
            has_products = true;
            why = product_refusal(r, plan, s);
        } else if (s->kind == TL_COPY && s->copy.from == TL_GLOBAL) {
            why = copy_refusal(r, plan, s);
        }
    }
    return why ? why : has_products ? NULL : "it has no products";
}
