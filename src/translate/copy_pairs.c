/* Fragments move in pairs of elements, which lie side by side in one row. */
#include "translate/copy.h"

/* An element of the pair in hand; of alternating column tiles a pair is of both. */
static str pairs_element(emit *t, const emit_tile *tile, int e) {
    if (!tile->shape.alternates) return emit_element(t, tile, &tile->shape, e);
    return emit_format(t,
                       e ? "%.*s[m16][n8 | 1][2 * half + n8 %% 2]"
                         : "%.*s[m16][n8 / 2 * 2][2 * half + n8 %% 2]",
                       STR_ARGS(tile->name));
}

/* Both elements as one 32-bit register of a 16-bit type. */
static str packed(emit *t, const emit_tile *tile, tl_type type) {
    if (tile->is_packed && tile->type == type)
        return emit_format(t, "%.*s[m16][n8][half]", STR_ARGS(tile->name));
    return emit_format(t, "ftl_pack_%s(%.*s, %.*s)", emit_type_word(type),
                       STR_ARGS(pairs_element(t, tile, 0)), STR_ARGS(pairs_element(t, tile, 1)));
}

/* Writes such a register into the tile. */
static void unpack(emit *t, const emit_tile *to, tl_type type, str word) {
    if (to->is_packed && to->type == type) {
        emit_text(t, "%.*s[m16][n8][half] = %.*s;", STR_ARGS(to->name), STR_ARGS(word));
        return;
    }
    emit_text(t, "const unsigned pair = %.*s;", STR_ARGS(word));
    for (int e = 0; e < 2; e++)
        emit_text(t, "%.*s = ftl_%s_%s(pair);", STR_ARGS(pairs_element(t, to, e)),
                  e ? "high" : "low", emit_type_word(type));
}

static const char *zero_of(tl_type type) {
    return type == TL_I32 ? "0" : "0.0f";
}

void pairs_move_one(emit *t, const emit_tile *tile, const pairs_way *way, bool both) {
    str low = pairs_element(t, tile, 0), high = pairs_element(t, tile, 1);
    const char *word = way->type == TL_I32 ? "i32" : "f32", *pair = both ? "x2" : "";
    str at = way->address, more = both ? emit_format(t, ", %.*s", STR_ARGS(high)) : (str){0};
    int bytes = tl_type_bytes(way->type), moved = both ? 2 * bytes : bytes;
    bool loads = way->wrapper[0] == 'l';
    if (bytes <= 2 && loads)
        unpack(t, tile, way->type,
               emit_format(t, "ftl_%s_%d(%.*s)", way->wrapper, moved, STR_ARGS(at)));
    else if (bytes <= 2)
        emit_text(t, "ftl_%s_%d(%.*s, %.*s);", way->wrapper, moved, STR_ARGS(at),
                  STR_ARGS(packed(t, tile, way->type)));
    else if (!loads)
        emit_text(t, "ftl_%s_%s%s(%.*s, %.*s%.*s);", way->wrapper, word, pair, STR_ARGS(at),
                  STR_ARGS(low), STR_ARGS(more));
    else if (both)
        emit_text(t, "ftl_%s_%sx2(%.*s, %.*s, %.*s);", way->wrapper, word, STR_ARGS(low),
                  STR_ARGS(high), STR_ARGS(at));
    else {
        emit_text(t, "%.*s = ftl_%s_%s(%.*s);", STR_ARGS(low), way->wrapper, word, STR_ARGS(at));
        emit_text(t, "%.*s = %s;", STR_ARGS(high), zero_of(way->type));
    }
}

/* --- the global side -------------------------------------------------------------------------- */

typedef struct pairs {
    emit *t;
    const tl_statement *s;
    const emit_tile *tile;
    emit_address address;
    str low, high, pointer; /* of the pair in hand */
    str both_inside;        /* when the end may be between the two: its second element exists */
    bool is_guarded;        /* is in an `if`; what is after `else` is outside */
} pairs;

static str pair_row(emit *t, const emit_tile *tile) {
    return emit_format(t, "%.*s + %.*s", STR_ARGS(tile->own_row),
                       STR_ARGS(emit_fragment_row(&tile->shape)));
}

static const char *pair_step(const emit_tile *tile) {
    return tile->shape.alternates ? "(n8 / 2 * 16 + n8 % 2 * 2)" : "8 * n8";
}

static str pair_column(emit *t, const emit_tile *tile) {
    return emit_format(t, "%.*s + %s", STR_ARGS(tile->own_column), pair_step(tile));
}

/* Do a thread's rows lie one below the other, whichever thread it is? A warp has 16 of them side by
 * side for each of its fragments; a section begins with a tile.
 */
static bool rows_are_affine(const emit_tile *tile, const emit_address *a) {
    enum { FRAGMENT_ROWS = 16 };
    return a->row_affine || a->section % (FRAGMENT_ROWS * tile->shape.down) == 0;
}

static str pair_pointer(emit *t, const emit_tile *tile, const emit_address *a) {
    if (!rows_are_affine(tile, a)) return emit_format(t, "line[m16][half] + %s", pair_step(tile));
    return emit_format(t, "matrix + (%.*s) * %.*s + %s", STR_ARGS(emit_fragment_row(&tile->shape)),
                       STR_ARGS(copy_factor(t, a->row_stride)), pair_step(tile));
}

/* Pointers to a thread's first pair: of its first row, from which the others are so many strides
 * away, or of each row. What an index divides and what a table names is so found once a row, not
 * once a pair.
 */
static void declare_pointers(emit *t, const emit_tile *tile, const emit_address *a) {
    if (rows_are_affine(tile, a)) {
        str pointer = emit_pointer(t, a, tile->own_row, tile->own_column);
        emit_text(t, "%.*smatrix = %.*s;", STR_ARGS(a->pointer_type), STR_ARGS(pointer));
        return;
    }
    emit_shape rows = tile->shape;
    rows.part = PART_ROWS;
    emit_text(t, "%.*sline%.*s;", STR_ARGS(a->pointer_type),
              STR_ARGS(emit_row_dimensions(t, &rows)));
    int opened = emit_open_frame(t, &rows);
    emit_text(t, "line[m16][half] = %.*s;",
              STR_ARGS(emit_pointer(t, a, pair_row(t, tile), tile->own_column)));
    emit_close_frame(t, opened);
}

static void add_pair(const pairs *x) {
    emit *t = x->t;
    if (x->address.type != TL_F32)
        copy_refuse(t, x->s, "adding into global memory needs f32 there");
    emit_text(t, "ftl_add_global_f32(%.*s, %.*s);", STR_ARGS(x->pointer), STR_ARGS(x->low));
    if (x->both_inside.length) emit_open(t, "if (%.*s) {", STR_ARGS(x->both_inside));
    emit_text(t, "ftl_add_global_f32(%.*s + 1, %.*s);", STR_ARGS(x->pointer), STR_ARGS(x->high));
    if (x->both_inside.length) emit_close(t);
}

static void move_pair(const pairs *x) {
    emit *t = x->t;
    bool loads = x->s->copy.from == TL_GLOBAL;
    pairs_way way = {loads ? "load_global" : "store_global", x->address.type, x->pointer};
    if (x->both_inside.length) {
        emit_open(t, "if (%.*s) {", STR_ARGS(x->both_inside));
        pairs_move_one(t, x->tile, &way, true);
        emit_else(t);
        pairs_move_one(t, x->tile, &way, false);
        emit_close(t);
    } else {
        pairs_move_one(t, x->tile, &way, true);
    }
    if (!loads || !x->is_guarded) return;
    emit_else(t);
    if (x->tile->is_packed) emit_text(t, "%.*s[m16][n8][half] = 0;", STR_ARGS(x->tile->name));
    else
        emit_text(t, "%.*s = %.*s = %s;", STR_ARGS(x->low), STR_ARGS(x->high),
                  zero_of(x->address.type));
}

static void loop_over_pairs(pairs *x, bool cut_columns) {
    emit *t = x->t;
    str guard = {0};
    int opened = emit_open_frame(t, &x->tile->shape);
    if (!x->address.rows_complete)
        guard = emit_format(t, "%.*s < rows_left", STR_ARGS(pair_row(t, x->tile)));
    if (cut_columns) {
        str column = emit_format(t, "%.*s < columns_left", STR_ARGS(pair_column(t, x->tile)));
        guard = copy_both(t, guard, column);
    }
    x->is_guarded = guard.length > 0;
    x->both_inside = (str){0};
    if (cut_columns && x->address.columns_multiple % 2) {
        x->both_inside =
            emit_format(t, "%.*s + 1 < columns_left", STR_ARGS(pair_column(t, x->tile)));
    }
    if (x->is_guarded) emit_open(t, "if (%.*s) {", STR_ARGS(guard));
    if (x->s->copy.to == TL_GLOBAL && x->s->copy.target_kind == TL_ACCUMULATE) add_pair(x);
    else move_pair(x);
    if (x->is_guarded) emit_close(t);
    emit_close_frame(t, opened);
}

void copy_fragments_global(emit *t, const tl_statement *s, const emit_tile *tile) {
    pairs x = {.t = t, .s = s, .tile = tile};
    emit_address *a = &x.address;
    if (!emit_address_of(t, s, tile, a) || !copy_is_aligned(t, s, a, 2)) return;
    if (a->is_selected) {
        copy_refuse(t, s, "a view that leaves elements out is copied to shared memory or by lines");
        return;
    }
    if (emit_is_bytes(tile) || (tile->shape.alternates && tile->is_packed)) {
        copy_refuse(t, s, "its fragments are not in pairs of neighbours");
        return;
    }
    x.low = pairs_element(t, tile, 0);
    x.high = pairs_element(t, tile, 1);
    x.pointer = pair_pointer(t, tile, a);
    emit_open(t, "{");
    emit_fresh_place(t, s);
    emit_declare_own(t, tile);
    copy_declare_rest(t, a);
    declare_pointers(t, tile, a);
    if (!a->columns_complete) {
        emit_open(t, "if (columns_left >= %d) {", tile->columns);
        loop_over_pairs(&x, false);
        emit_else(t);
    }
    loop_over_pairs(&x, !a->columns_complete);
    if (!a->columns_complete) emit_close(t);
    emit_close(t);
}
