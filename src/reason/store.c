/* Pass store: operands that are computed and cannot stay in registers.
 *
 * Products take their right operand from shared memory, and a left one that is transposed. What was
 * copied there as it is lies there already; what is computed lies in registers, in parts, and each
 * warp needs all of it. So it goes to a shared tile of its own, rounded to 16 bits, once for all
 * products that take it before it changes again: `Copy X from register to shared and get X_stored`.
 *
 * A left operand in registers has the type of its tensor, to which each statement rounds it. Where
 * several do, what one rounds off may be all that the next one leaves: they work on an f32 tile
 * beside it, and products take its copy, `Compute Cast X and get X_left`.
 */
#include "reason/place.h"

/* Where the product's operand is complete, and stays so until the product: after the last statement
 * that writes it, or, where a round before did, at the beginning of this one.
 */
typedef struct store_point {
    tl_statement *after;  /* or NULL: */
    tl_statement *before; /* the statement around the product, or itself, in the same block */
} store_point;

static store_point find_point(tl_kernel *kernel, tl_statement *product, str name) {
    store_point point = {NULL, product};
    for (;; point.before = point.before->parent) {
        for (tl_statement *s = tl_block_of(kernel, point.before)->first; s != point.before;
             s = s->next)
            if (edit_writes_within(s, name)) point.after = s;
        tl_statement *around = point.before->parent;
        if (point.after || !around || (around->kind == TL_FOR && edit_writes_within(around, name)))
            return point;
    }
}

/* The operand that a product takes from shared memory: 1, or 0 where it is transposed. */
static bool takes_stored(const tl_statement *s, int operand) {
    return edit_is_product(s) && (operand == 1 || s->compute.operands[0].is_transposed);
}

static bool takes_left(const tl_statement *s, int operand) {
    return edit_is_product(s) && operand == 0 && !s->compute.operands[0].is_transposed;
}

/* From 'at' on, until the tile changes, products take the other one. */
static void take(reason *r, tl_statement *at, bool (*takes)(const tl_statement *s, int operand),
                 str name, str other) {
    for (tl_statement *s = at; s; s = s->next) {
        for (int i = 0; i < 2; i++)
            if (takes(s, i) && edit_operand_is(s, i, name))
                s->compute.operands[i].value = tl_name_expr(r->memory, other);
        if (edit_writes_within(s, name)) return;
        tl_block *body = tl_statement_body(s);
        if (body) take(r, body->first, takes, name, other);
    }
}

/* --- the pass --------------------------------------------------------------------------------- */

typedef struct stored_tile {
    str name, stored;
} stored_tile;

typedef LIST(stored_tile) stored_tiles;

static str name_stored(reason *r, stored_tiles *tiles, str name, const char *suffix) {
    for (int i = 0; i < tiles->count; i++)
        if (str_equal(tiles->items[i].name, name)) return tiles->items[i].stored;
    const char *wanted = reason_say(r, "%.*s_%s", STR_ARGS(name), suffix);
    stored_tile one = {name, reason_fresh(r, "%s", wanted)};
    list_push(r->memory, tiles, one);
    return one.stored;
}

static bool refuse_copies(reason *r) {
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL))
        if (s->kind == TL_COPY && s->copy.from != TL_GLOBAL && s->copy.to != TL_GLOBAL)
            return reason_stuck(r, s,
                                "copies between shared memory and registers are for TL Code; a "
                                "sketch copies the tile from global to register once more, `and "
                                "get` another name");
    return true;
}

/* The operand gets a tile of its own name, which products take. */
static void separate(reason *r, tl_statement *product, str name, str other,
                     bool (*takes)(const tl_statement *s, int operand), tl_block copy) {
    store_point point = find_point(r->kernel, product, name);
    if (point.after) edit_after(r->kernel, point.after, copy);
    else edit_before(r->kernel, point.before, copy);
    take(r, point.before, takes, name, other);
}

/* --- left operands ---------------------------------------------------------------------------- */

/* Of a tile from memory: more than once before a product takes it? Rounds of a loop that does not
 * load it count as many.
 */
static bool is_rounded_often(reason *r, str name) {
    tl_statement *load = NULL;
    int count = 0;
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (edit_loads(s, name)) load = s;
        if (s->kind != TL_COMPUTE || !edit_writes(s, name) || !place_makes_values(r, s)) continue;
        count += load && edit_loop_of(s) == edit_loop_of(load) ? 1 : 2;
    }
    return load && load->copy.to == TL_REGISTER && count > 1;
}

bool reason_store(reason *r) {
    if (!refuse_copies(r)) return false;
    stored_tiles tiles = {0}, lefts = {0};
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL))
        for (int i = 0; i < 2; i++) {
            str name = takes_stored(s, i) ? edit_operand_name(s, i) : (str){"", 0};
            if (name.length == 0 || !edit_is_computed(r->kernel, name)) continue;
            str stored = name_stored(r, &tiles, name, "stored");
            separate(r, s, name, stored, takes_stored,
                     tl_quote(r->memory,
                              "Copy %.*s from register to shared and get %.*s // rounded, for all "
                              "warps",
                              STR_ARGS(name), STR_ARGS(stored)));
        }
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        str name = takes_left(s, 0) ? edit_operand_name(s, 0) : (str){"", 0};
        if (name.length == 0 || !is_rounded_often(r, name)) continue;
        str left = name_stored(r, &lefts, name, "left");
        separate(r, s, name, left, takes_left,
                 tl_quote(r->memory, "Compute Cast %.*s and get %.*s // a left operand",
                          STR_ARGS(name), STR_ARGS(left)));
    }
    for (int i = 0; i < tiles.count; i++)
        reason_decide(r, "operands",
                      "%.*s is computed; products take it from shared memory, as %.*s",
                      STR_ARGS(tiles.items[i].name), STR_ARGS(tiles.items[i].stored));
    return true;
}
