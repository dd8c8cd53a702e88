/* Pass quotients: those of an index that are the same for all of a tile.
 *
 * A listed block is `block[s/128]`, and a key's place in its sequence `block[s/128]*128 + s % 128`.
 * In the tile of 64 columns that begins at j*64 the quotient is j/2 throughout, for 64 divides 128,
 * and the remainder is a difference: s - j/2*128. So the tile reads one element of the table where
 * it read one a column, and a test of such a place compares columns with one limit a row. And
 * `s >= full[i]*128`, where such blocks begin, is j*64 >= full[i]*128 in all columns. A remainder
 * that is a number by itself, `exp(s % 64)`, stays: it is known to be below its divisor, and what
 * elements past an end hold is judged by that.
 */
#include "reason/pass.h"
#include "reason/tiles.h"

#include "tl/boxes.h"

/* An axis of a tile, in the statement at hand: index names count from at*extent on. */
typedef struct tile_axis {
    reason *r;
    str index;
    const tl_expr *at;
    int64_t extent;
    bool is_found;
    bool is_place; /* what is looked at says one: an index of an element, a condition */
} tile_axis;

static bool is_whole(const tile_axis *x, const tl_expr *e, int64_t *times) {
    int64_t divisor;
    if (e->kind != TL_BINARY || (e->operator!= TL_OVER && e->operator!= TL_MODULO) ||
        e->left->kind != TL_NAME || !str_equal(e->left->text, x->index) ||
        !reason_known(x->r, e->right, &divisor) || divisor % x->extent)
        return false;
    *times = divisor / x->extent;
    return *times > 0;
}

/* Is it a comparison with where a tile begins: the same for all of the tile at hand? Asked of what
 * other conditions are joined to: a limit alone is one comparison with others (translate/limits.c).
 */
static bool is_beginning(const tile_axis *x, const tl_expr *e) {
    return e->kind == TL_BINARY && (e->operator== TL_GREATER_EQUAL || e->operator== TL_LESS) &&
           e->left->kind == TL_NAME && str_equal(e->left->text, x->index) &&
           !tl_expr_names(e->right, x->index) && tl_is_multiple(x->r->kernel, e->right, x->extent);
}

/* Of `index/(times*extent)`. */
static const char *quotient_text(const tile_axis *x, int64_t times) {
    int64_t at;
    if (reason_known(x->r, x->at, &at)) return reason_say(x->r, "%lld", (long long)(at / times));
    const char *text = edit_factor_text(x->r->memory, x->at);
    return times == 1 ? text : reason_say(x->r, "%s/%lld", text, (long long)times);
}

/* The comparison, of where the tile begins. */
static tl_expr *begun(tile_axis *x, const tl_expr *e) {
    tl_expr *copy = tl_expr_copy(x->r->memory, e);
    int64_t at;
    str text = reason_known(x->r, x->at, &at)
                   ? str_format(x->r->memory, "%lld", (long long)(at * x->extent))
                   : str_format(x->r->memory, "%s*%lld", edit_factor_text(x->r->memory, x->at),
                                (long long)x->extent);
    copy->left = tl_quote_expr(x->r->memory, "%.*s", STR_ARGS(text));
    x->is_found = true;
    return copy;
}

static tl_expr *by_tile(void *context, const tl_expr *e);

/* One side of an `and`. */
static tl_expr *joined(tile_axis *x, const tl_expr *e) {
    return is_beginning(x, e) ? begun(x, e) : edit_exchange(x->r->memory, e, by_tile, x);
}

/* With remainders where they say a place, or beside a quotient. */
static tl_expr *by_tile(void *context, const tl_expr *e) {
    tile_axis *x = context;
    int64_t times;
    if (e->kind == TL_ELEMENT && !x->is_place) {
        x->is_place = true;
        tl_expr *element = edit_exchange(x->r->memory, e, by_tile, x);
        x->is_place = false;
        return element;
    }
    if (e->kind == TL_BINARY && e->operator== TL_AND) {
        tl_expr *both = tl_expr_copy(x->r->memory, e);
        both->left = joined(x, e->left);
        both->right = joined(x, e->right);
        return both;
    }
    if (!is_whole(x, e, &times) || !(x->is_place || e->operator== TL_OVER)) return NULL;
    const char *quotient = quotient_text(x, times);
    x->is_found = true;
    if (e->operator== TL_OVER) return tl_quote_expr(x->r->memory, "%s", quotient);
    if (str_equal(str_from(quotient), STR("0"))) return tl_expr_copy(x->r->memory, e->left);
    long long divisor = times * x->extent;
    return tl_quote_expr(x->r->memory, "%.*s - %s*%lld", STR_ARGS(x->index), quotient, divisor);
}

static bool has_whole_quotient(tile_axis *x, const tl_expr *e) {
    int64_t times;
    if (!e) return false;
    bool found = is_whole(x, e, &times) && e->operator== TL_OVER;
    found = found || has_whole_quotient(x, e->left) || has_whole_quotient(x, e->right);
    for (int i = 0; i < e->item_count && !found; i++) found = has_whole_quotient(x, e->items[i]);
    return found;
}

static bool fold_axis(reason *r, tl_statement *s, const tiles_list *tiles, const tiles_tile *tile,
                      int axis) {
    tl_compute *c = &s->compute;
    tile_axis x = {.r = r, .index = tile->axes[axis], .at = c->place.items[axis].at};
    if (!c->place.items[axis].is_block ||
        !reason_known(r, tiles_extent(tiles, x.index)->extent, &x.extent) || x.extent < 1)
        return false;
    x.is_place = true;
    c->condition = edit_exchange(r->memory, c->condition, by_tile, &x);
    for (int i = 0; i < c->operand_count; i++) {
        tl_expr **value = &c->operands[i].value;
        x.is_place = has_whole_quotient(&x, *value);
        *value = edit_exchange(r->memory, *value, by_tile, &x);
    }
    return x.is_found;
}

static bool is_no_quotient(void *context, const tl_expr *e) {
    (void)context;
    return e->kind != TL_BINARY || (e->operator!= TL_OVER && e->operator!= TL_MODULO);
}

static bool has_quotient(const tl_statement *s) {
    bool found = s->kind == TL_COMPUTE && !tl_visit(s->compute.condition, is_no_quotient, NULL);
    for (int i = 0; s->kind == TL_COMPUTE && i < s->compute.operand_count && !found; i++)
        found = !tl_visit(s->compute.operands[i].value, is_no_quotient, NULL);
    return found;
}

bool reason_quotients(reason *r) {
    const tiles_list *tiles = NULL;
    int count = 0;
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (!has_quotient(s)) continue;
        if (!tiles) tiles = tiles_read(r);
        const tiles_tile *tile = tiles_find(tiles, edit_target_name(s));
        if (!tile || s->compute.place.count != tile->axis_count) continue;
        bool is_folded = false;
        for (int axis = 0; axis < tile->axis_count; axis++)
            is_folded |= fold_axis(r, s, tiles, tile, axis);
        count += is_folded;
    }
    if (count)
        reason_decide(r, "quotients",
                      "%d statements name quotients of an index that are the same for all of a "
                      "tile: by the tile's number",
                      count);
    return true;
}
