/* Values that are the first columns of keys, more of them than a product of warpgroups has.
 *
 * Where one warpgroup cannot hold the sums, two can, each of half of the columns (pass pair). Keys
 * are copied in parts then: the columns of one sum, those of the other, and those that are no
 * values; scores are the sum of as many products, and the first two parts are the values' tiles,
 * too. So nothing is copied twice. Written before the passes, as a sketch of parts would be.
 */
#include "reason/pair.h"
#include "reason/tiles.h"

#include "atom/atom.h"
#include "reason/linear.h"
#include "reason/warpgroups.h"

enum { SUMS = PAIR, PARTS = SUMS + 1 };

typedef struct halving {
    reason *r;
    tl_statement *head, *tail;   /* GEMM X, K.T and get S; GEMM S, V and accumulate Y */
    tl_statement *x, *k, *v, *y; /* the Copies */
    int64_t width, depth;        /* columns of values, of keys */
    const char *piece, *rest, *inside, *beside; /* lengths of parts; indices of their columns */
} halving;

/* --- the form --------------------------------------------------------------------------------- */

static bool find_products(halving *h) {
    for (tl_statement *s = h->r->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (!edit_is_product(s)) continue;
        bool is_head = s->compute.operands[1].is_transposed;
        tl_statement **place = is_head ? &h->head : &h->tail;
        if (*place || s->compute.operands[0].is_transposed) return false;
        *place = s;
    }
    return h->head && h->tail && h->head->compute.target_kind == TL_GET &&
           h->tail->compute.target_kind == TL_ACCUMULATE && h->head->parent &&
           h->head->parent == h->tail->parent;
}

/* The Copy of a tile that, beside it, the product alone uses; NULL: there is none. */
static tl_statement *lone_copy(halving *h, str name, const tl_statement *product) {
    tl_statement *copy = NULL;
    for (tl_statement *s = h->r->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (s == product) continue;
        bool is_copy = s->kind == TL_COPY && str_equal(edit_copied_tile(s), name) &&
                       str_equal(edit_copied_tensor(s), name);
        if (is_copy && !copy) copy = s;
        else if (is_copy || edit_reads(s, name) || edit_writes(s, name)) return NULL;
    }
    return copy;
}

static bool find_copies(halving *h) {
    h->x = lone_copy(h, edit_operand_name(h->head, 0), h->head);
    h->k = lone_copy(h, edit_operand_name(h->head, 1), h->head);
    h->v = lone_copy(h, edit_operand_name(h->tail, 1), h->tail);
    h->y = lone_copy(h, edit_target_name(h->tail), h->tail);
    return h->x && h->k && h->v && h->y && h->y->copy.to == TL_GLOBAL &&
           h->y->copy.target_kind == TL_NO_TARGET;
}

static const tl_axes *axes_of(const halving *h, const tl_statement *copy) {
    return tiles_tensor(h->r->kernel, edit_copied_tensor(copy));
}

static bool columns_of(const halving *h, const tl_statement *copy, int64_t *columns) {
    const tl_axes *axes = axes_of(h, copy);
    return axes && axes->count > 1 &&
           reason_known(h->r, axes->items[axes->count - 1].extent, columns);
}

/* Lengths that products of warpgroups take, of tiles that fit with blocks of 16 keys. */
static bool fits(const halving *h) {
    int64_t step = WARPGROUP_STEP_BYTES / 2, of_x, of_y;
    int64_t least = 2 * (WARPGROUP_ROWS * h->width + PAIR * step * h->depth) +
                    pair_exchange_bytes(WARPGROUP_ROWS, step);
    return h->width > ATOM_WIDTH_MAX && h->width <= PAIR * ATOM_WIDTH_MAX &&
           h->width % (SUMS * step) == 0 && h->depth >= h->width &&
           (h->depth - h->width) % step == 0 && least <= h->r->target->block_shared &&
           columns_of(h, h->x, &of_x) && of_x == h->depth && columns_of(h, h->y, &of_y) &&
           of_y == h->width;
}

/* --- are values the keys' first columns? ------------------------------------------------------ */

/* A length that is known, rounded down or not. */
static bool known_length(reason *r, const tl_expr *e, int64_t *value) {
    int64_t over, under;
    bool is_floor = e->kind == TL_CALL && e->function == TL_FUNCTION_FLOOR &&
                    e->items[0]->kind == TL_BINARY && e->items[0]->operator== TL_OVER;
    if (!is_floor) return reason_known(r, e, value);
    if (!reason_known(r, e->items[0]->left, &over) ||
        !reason_known(r, e->items[0]->right, &under) || over < 0 || under <= 0)
        return false;
    *value = over / under;
    return true;
}

/* The element of an Input that a tensor or view shows at its own indices, 'column' in the last
 * axis; indices that can be 0 alone are 0. NULL: it shows no plain element.
 */
static const tl_expr *shown(const halving *h, str name, const char *column) {
    reason *r = h->r;
    tl_binding *view = edit_find_let(r->kernel, name, NULL);
    const tl_axes *axes = tiles_tensor(r->kernel, name);
    if (!view || view->value->kind != TL_ELEMENT ||
        edit_find_let(r->kernel, view->value->text, NULL))
        return NULL;
    const tl_expr *e = view->value;
    for (int i = 0; i < axes->count; i++) {
        int64_t length;
        bool is_one = known_length(r, axes->items[i].extent, &length) && length == 1;
        str index = tl_axis_index(axes, i);
        if (index.length == 0) return NULL;
        bool is_column = i == axes->count - 1;
        if (is_column || is_one)
            e = edit_substitute(r->memory, e, index,
                                tl_quote_expr(r->memory, "%s", is_column ? column : "0"));
    }
    return e;
}

static bool are_equal(reason *r, const tl_expr *a, const tl_expr *b) {
    if (tl_expr_equal(a, b)) return true;
    tl_linear difference = linear_of(r, a, true), other = linear_of(r, b, true);
    tl_linear_add(&difference, &other, -1);
    return !difference.is_broken && !other.is_broken && difference.count == 0 &&
           difference.constant == 0;
}

static bool are_first_columns(const halving *h) {
    const tl_expr *k = shown(h, edit_copied_tensor(h->k), h->inside);
    const tl_expr *v = shown(h, edit_copied_tensor(h->v), h->inside);
    if (!k || !v || !str_equal(k->text, v->text) || k->item_count != v->item_count) return false;
    for (int i = 0; i < k->item_count; i++)
        if (!are_equal(h->r, k->items[i], v->items[i])) return false;
    return true;
}

/* --- parts ------------------------------------------------------------------------------------ */

/* `let X_2 (b in batch; r in rows, w in piece) = X[b, r, piece + w]` */
static const char *write_view(halving *h, tl_statement *at, str of, const tl_axes *axes, int part) {
    reason *r = h->r;
    const char *name = reason_fresh_z(r, "%.*s_%d", STR_ARGS(of), part + 1);
    const char *column = part < SUMS ? h->inside : h->beside;
    str indices = {"", 0}, shows = {"", 0};
    for (int i = 0; i < axes->count; i++) {
        bool is_last = i == axes->count - 1;
        const tl_axis *axis = &axes->items[i];
        str index = tl_axis_index(axes, i);
        const char *joint = i == axes->matrix && axes->has_semicolon ? "; " : ", ";
        if (is_last)
            reason_list(r, &indices, joint, "%s in %s", column, part < SUMS ? h->piece : h->rest);
        else if (axis->is_bare) reason_list(r, &indices, joint, "%.*s", STR_ARGS(index));
        else
            reason_list(r, &indices, joint, "%.*s in %s", STR_ARGS(index),
                        edit_text(r->memory, axis->extent));
        const char *begin = part == 0   ? ""
                            : part == 1 ? reason_say(r, "%s + ", h->piece)
                                        : reason_say(r, "%d*%s + ", part, h->piece);
        if (is_last) reason_list(r, &shows, ", ", "%s%s", begin, column);
        else reason_list(r, &shows, ", ", "%.*s", STR_ARGS(index));
    }
    reason_before(r, at, "let %s (%.*s) = %.*s[%.*s]", name, STR_ARGS(indices), STR_ARGS(of),
                  STR_ARGS(shows));
    return name;
}

static tl_statement *first_action(const tl_kernel *kernel) {
    tl_statement *s = kernel->body.first;
    while (s->kind == TL_INPUT || s->kind == TL_OUTPUT || s->kind == TL_LET || s->kind == TL_GRID)
        s = s->next;
    return s;
}

static void write_views(halving *h, const tl_statement *copy, int count, const char **names) {
    tl_statement *at = first_action(h->r->kernel);
    for (int i = 0; i < count; i++)
        names[i] = write_view(h, at, edit_copied_tensor(copy), axes_of(h, copy), i);
}

/* A Copy for each part. */
static void write_copies(halving *h, tl_statement *copy, int count, const char **names) {
    for (int i = 0; i < count; i++) {
        tl_block one = {0};
        edit_append_copy(h->r->memory, &one, copy);
        one.first->copy.what = tl_name_expr(h->r->memory, str_from(names[i]));
        edit_before(h->r->kernel, copy, one);
    }
    edit_remove(h->r->kernel, copy);
}

static void write_parts(halving *h) {
    reason *r = h->r;
    const char *x[PARTS], *k[PARTS], *y[SUMS];
    int count = h->depth > h->width ? PARTS : SUMS;
    write_views(h, h->x, count, x);
    write_views(h, h->k, count, k);
    write_views(h, h->y, SUMS, y);
    write_copies(h, h->x, count, x);
    write_copies(h, h->k, count, k);
    write_copies(h, h->y, SUMS, y);
    edit_remove(r->kernel, h->v);
    edit_remove_let(r->kernel, edit_copied_tensor(h->v));
    str scores = edit_target_name(h->head), weights = edit_operand_name(h->tail, 0);
    for (int i = 0; i < count; i++)
        reason_before(r, h->head, "Compute GEMM %s, %s.T and %s %.*s", x[i], k[i],
                      i == 0 ? "get" : "accumulate", STR_ARGS(scores));
    for (int i = 0; i < SUMS; i++)
        reason_before(r, h->tail, "Compute GEMM %.*s, %s and accumulate %s", STR_ARGS(weights),
                      k[i], y[i]);
    edit_remove(r->kernel, h->head);
    edit_remove(r->kernel, h->tail);
}

void reason_halve(reason *r) {
    halving h = {.r = r};
    if (!r->target || !gpu_has(r->target, GPU_FEATURE_wgmma) || reason_decided(r, 1, "pair") == 0 ||
        !find_products(&h) || !find_copies(&h) || !columns_of(&h, h.v, &h.width) ||
        !columns_of(&h, h.k, &h.depth) || !fits(&h))
        return;
    h.inside = reason_fresh_z(r, "w");
    if (!are_first_columns(&h) || r->is_plain) return;
    if (r->way > 0) {
        r->way--;
        return;
    }
    r->is_halved = true;
    h.piece = reason_fresh_z(r, "piece");
    h.rest = reason_fresh_z(r, "rest");
    h.beside = reason_fresh_z(r, "x");
    bool has_rest = h.depth > h.width;
    reason_before(r, first_action(r->kernel),
                  has_rest ? "let %s = %lld, %s = %lld" : "let %s = %lld", h.piece,
                  (long long)(h.width / SUMS), h.rest, (long long)(h.depth - h.width));
    write_parts(&h);
    reason_decide(
        r, "parts",
        "%.*s is the first %lld of %lld columns of %.*s: it is copied once, in parts, and "
        "two sums have half of its columns each",
        STR_ARGS(edit_copied_tensor(h.v)), (long long)h.width, (long long)h.depth,
        STR_ARGS(edit_copied_tensor(h.k)));
}
