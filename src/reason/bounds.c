#include "reason/bounds.h"

#include "reason/cuts.h"
#include "reason/ends.h"
#include "reason/extremes.h"
#include "reason/scalar.h"

#include <math.h>

enum { BOUNDS_TESTS_MAX = 8, BOUNDS_EDGES_MAX = 48 };

/* One loop over blocks of an axis, or the grid's blocks of it. */
typedef struct bound_loop {
    reason *r;
    const tiles_list *tiles;
    tl_statement *loop; /* NULL: the grid's */
    str block;          /* which one it is */
    str axis;
    const tiles_span *extent;  /* the block's size and the axis's length */
    bool is_divided;           /* no block is ragged */
    LIST(tl_statement *) made; /* Masks for its end */
} bound_loop;

/* --- conditions ------------------------------------------------------------------------------- */

static cuts_list tests_of(const bound_loop *b, const tl_statement *mask) {
    const tl_expr *condition = mask->compute.condition;
    return condition ? cuts_of(b->r, b->axis, condition, BOUNDS_TESTS_MAX) : (cuts_list){0};
}

/* Does the test hold for every element past the end, in rows that exist? kv >= length > E. */
static bool test_covers_end(const bound_loop *b, const cut *test) {
    if (!test->is_solved || !test->is_upper) return false;
    tl_linear rest = linear_of(b->r, linear_expr(b->r, &test->edge), true);
    for (int i = 0; i < b->tiles->extents.count; i++) {
        const tiles_span *e = &b->tiles->extents.items[i];
        int64_t c = linear_coefficient(&rest, e->index);
        if (c == 0 || (e->length->kind == TL_NAME && str_equal(e->length->text, e->index)))
            continue;
        if (c < 0) return false;
        tl_linear last = linear_of(b->r, e->length, true);
        last.constant -= 1;
        linear_drop(&rest, e->index);
        tl_linear_add(&rest, &last, c);
    }
    tl_linear length = linear_of(b->r, b->extent->length, true);
    tl_linear_add(&rest, &length, -1);
    return !rest.is_broken && rest.count == 0 && rest.constant < 0;
}

static bool condition_covers_end(const bound_loop *b, const tl_expr *e) {
    if (e->kind == TL_BINARY && e->operator== TL_OR)
        return condition_covers_end(b, e->left) || condition_covers_end(b, e->right);
    cut test = cuts_solve(b->r, b->axis, e);
    return test_covers_end(b, &test);
}

static bool mask_covers_end(void *context, const tl_statement *mask) {
    return mask->compute.condition && condition_covers_end(context, mask->compute.condition);
}

/* --- masks for ragged ends -------------------------------------------------------------------- */

/* The Mask that last wrote the tile before 'at', if nothing else did in between. */
static tl_statement *mask_before(const tl_statement *at, str name, double value, reason *r) {
    tl_statement *s = edit_last_write(at, name);
    double own = -INFINITY;
    bool fits =
        edit_is_compute(s, TL_MASK) &&
        (s->compute.operand_count == 1 || scalar_number(r, s->compute.operands[1].value, &own)) &&
        own == value;
    return fits ? s : NULL;
}

/* The Copy that stored a computed tile for products, before 'at'; NULL: it is no such tile. */
static tl_statement *store_before(const tl_statement *at, str name) {
    tl_statement *s = NULL;
    for (; at && !s; at = at->parent) s = edit_last_write(at, name);
    return s && edit_is_store(s) ? s : NULL;
}

static void mask_end(bound_loop *b, ends_answer *answer) {
    reason *r = b->r;
    tl_statement *store = store_before(answer->hurt, answer->tile);
    if (store) answer->hurt = store, answer->tile = store->copy.what->text;
    const char *axis = edit_z(r->memory, b->axis),
               *length = edit_text(r->memory, b->extent->length);
    const char *tile = edit_z(r->memory, answer->tile);
    const tiles_tile *about = tiles_find(b->tiles, answer->tile);
    tl_statement *mask = mask_before(answer->hurt, answer->tile, answer->neutral, r);
    if (mask) {
        mask->compute.condition =
            tl_quote_expr(r->memory, "%s or %s >= %s",
                          edit_text(r->memory, mask->compute.condition), axis, length);
        if (!mask->compute.place.is_given) mask->compute.place = tiles_place(r, about, mask);
        return;
    }
    const char *value =
        answer->neutral == -INFINITY ? "" : reason_say(r, ", %s", tl_neutral_text(answer->neutral));
    tl_block text = tl_quote(r->memory, "Compute Mask %s%s where %s >= %s // past the end", tile,
                             value, axis, length);
    text.first->compute.place = tiles_place(r, about, answer->hurt);
    edit_before(r->kernel, answer->hurt, text);
    list_push(r->memory, &b->made, text.first);
}

/* Masks until nothing past the end matters. */
static bool mask_ends(bound_loop *b) {
    for (int round = 0; round < 16 && !b->is_divided; round++) {
        ends_question question = {b->loop, b->axis, ENDS_PART, NULL, mask_covers_end, b};
        ends_answer answer = ends_ask(b->r, b->tiles, &question);
        if (!answer.hurt) return true;
        if (answer.tile.length == 0)
            return reason_stuck(b->r, answer.hurt,
                                "elements past the end of %.*s would be added "
                                "to global memory",
                                STR_ARGS(b->axis));
        if (b->loop && !edit_ancestor_in(b->r->kernel, answer.hurt, &b->loop->loop.body)) break;
        mask_end(b, &answer);
    }
    return b->is_divided ||
           reason_stuck(b->r, b->loop, "the elements past the end of %.*s cannot be masked",
                        STR_ARGS(b->axis));
}

/* --- edges --------------------------------------------------------------------------------------
 */

static extremes_tile tile_of(const bound_loop *b) {
    tl_statement *first = b->loop ? b->loop->loop.body.first : b->r->kernel->body.first;
    return (extremes_tile){b->r, b->tiles, first};
}

/* Names the uniform part of an edge, `offset`, so that bounds and masks share it. */
static void name_offset(const bound_loop *b, tl_linear *edge) {
    const extremes_tile tile = tile_of(b);
    tl_linear rest = {0};
    for (int i = 0; i < edge->count; i++)
        if (!extremes_has_index(&tile, edge->terms[i].atom))
            tl_linear_add_atom(&rest, edge->terms[i].atom, edge->terms[i].factor);
    if (rest.count < 2) return;
    tl_binding *known = edit_find_let(b->r->kernel, STR("offset"), NULL);
    if (known && known->axes.count == 0) {
        tl_linear offset = linear_of(b->r, known->value, false), left = rest;
        tl_linear_add(&left, &offset, -1);
        if (left.count < rest.count) {
            tl_linear_add(edge, &offset, -1);
            tl_linear_add_atom(edge, tl_quote_expr(b->r->memory, "offset"), 1);
            return;
        }
    }
    const char *name = scalar_name(b->r, linear_expr(b->r, &rest), "offset",
                                   "from the tile's own index to the edge of what it sees");
    tl_linear_add(edge, &rest, -1);
    tl_linear_add_atom(edge, tl_quote_expr(b->r->memory, "%s", name), 1);
}

/* Tests that are joined, from their edges where these have become shorter: kv > q + offset. */
static str rewritten(const bound_loop *b, const tl_expr *e) {
    reason *r = b->r;
    bool is_or = e->kind == TL_BINARY && e->operator== TL_OR;
    if (is_or || (e->kind == TL_BINARY && e->operator== TL_AND)) {
        str left = rewritten(b, e->left), right = rewritten(b, e->right);
        if (is_or) return str_format(r->memory, "%.*s or %.*s", STR_ARGS(left), STR_ARGS(right));
        bool opens = e->left->kind == TL_BINARY && e->left->operator== TL_OR,
             closes = e->right->kind == TL_BINARY && e->right->operator== TL_OR;
        return str_format(r->memory, "%s%.*s%s and %s%.*s%s", opens ? "(" : "", STR_ARGS(left),
                          opens ? ")" : "", closes ? "(" : "", STR_ARGS(right), closes ? ")" : "");
    }
    cut test = cuts_solve(r, b->axis, e);
    int before = test.edge.count;
    if (test.is_solved) name_offset(b, &test.edge);
    if (!test.is_solved || test.edge.count == before) return tl_expr_text(r->memory, e);
    return str_format(r->memory, test.is_upper ? "%.*s > %s" : "%.*s <= %s", STR_ARGS(b->axis),
                      edit_text(r->memory, linear_expr(r, &test.edge)));
}

/* --- bounds ----------------------------------------------------------------------------------- */

typedef struct edge_list {
    str items[BOUNDS_EDGES_MAX];
    int count;
} edge_list;

/* Edges of the stretches of blocks, each + 1. */
typedef struct bound_edges {
    edge_list last;  /* blocks from the least of these on are masked as a whole */
    edge_list full;  /* blocks from the least of these on need the mask */
    edge_list first; /* blocks before the greatest of these are masked as a whole */
    edge_list clear; /* blocks before the greatest of these need the mask */
    bool meets_end;  /* a test is the axis's own end, or covers it */
} bound_edges;

/* A function takes eight arguments, of which the axis's length is one: more are in a call within
 * the call.
 */
static str joined(reason *r, const char *function, const edge_list *list) {
    enum { TOGETHER = 6 };
    str text = {"", 0};
    for (int i = 0; i < list->count; i++) {
        if (i > 0 && i % TOGETHER == 0)
            text = str_format(r->memory, "%s(%.*s)", function, STR_ARGS(text));
        reason_list(r, &text, ", ", "%.*s", STR_ARGS(list->items[i]));
    }
    return text;
}

static void add_edge(edge_list *list, str text) {
    for (int i = 0; i < list->count; i++)
        if (str_equal(list->items[i], text)) return;
    if (list->count < BOUNDS_EDGES_MAX) list->items[list->count++] = text;
}

static str edge_text(reason *r, const tl_linear *edge) {
    tl_linear next = *edge;
    next.constant += 1;
    return tl_expr_text(r->memory, linear_expr(r, &next));
}

/* One side of what a conjunction takes out: edges of its cuts there, whose masked elements may be
 * in a block (near), and whose are a whole block (far).
 */
typedef struct bound_side {
    edge_list near, far;
    bool is_open; /* some of them are not known */
} bound_side;

static bound_side read_side(const bound_loop *b, const cuts *test, bool is_upper) {
    const extremes_tile tile = tile_of(b);
    bound_side side = {0};
    for (int i = 0; i < test->count; i++) {
        tl_linear largest, smallest;
        if (test->items[i].is_upper != is_upper) continue;
        if (!extremes_find(&tile, &test->items[i].edge, true, &largest) ||
            !extremes_find(&tile, &test->items[i].edge, false, &smallest)) {
            side.is_open = true;
            continue;
        }
        add_edge(&side.far, edge_text(b->r, is_upper ? &largest : &smallest));
        add_edge(&side.near, edge_text(b->r, is_upper ? &smallest : &largest));
    }
    return side;
}

/* The greatest of them where what is masked begins at an edge, as all tests have to hold there; the
 * least where it ends.
 */
static str farthest(const bound_loop *b, const edge_list *list, bool is_upper) {
    const char *function = is_upper ? "max" : "min";
    str text = joined(b->r, function, list);
    return list->count > 1 ? str_format(b->r->memory, "%s(%.*s)", function, STR_ARGS(text)) : text;
}

/* The length itself is in every bound already. */
static bool is_length(const bound_loop *b, const cuts *test) {
    const extremes_tile tile = tile_of(b);
    tl_linear largest;
    if (test->count != 1 || !test->is_whole || !test->items[0].is_upper ||
        !extremes_find(&tile, &test->items[0].edge, true, &largest))
        return false;
    tl_linear length = linear_of(b->r, b->extent->length, true);
    tl_linear difference = linear_of(b->r, linear_expr(b->r, &largest), true);
    tl_linear_add(&difference, &length, -1);
    return difference.count == 0 && difference.constant == -1;
}

/* A conjunction whose cuts are on both sides masks a stretch in the middle: it empties no end, and
 * one of its sides says where it begins.
 */
static bool find_edges(const bound_loop *b, const cuts *test, bound_edges *edges) {
    bound_side upper = read_side(b, test, true), lower = read_side(b, test, false);
    bool is_upper = upper.far.count > 0, is_lower = lower.far.count > 0;
    if (!is_upper && !is_lower) return false;
    edges->meets_end = edges->meets_end || is_upper;
    if (is_length(b, test)) return true;
    bool empties = test->is_whole && is_upper != is_lower && !upper.is_open && !lower.is_open;
    const bound_side *side = is_upper ? &upper : &lower;
    if (empties)
        add_edge(is_upper ? &edges->last : &edges->first, farthest(b, &side->far, is_upper));
    add_edge(is_upper ? &edges->full : &edges->clear, farthest(b, &side->near, is_upper));
    return true;
}

static const char *let(reason *r, const char *wanted, const char *comment, str value) {
    return scalar_name(r, tl_quote_expr(r->memory, "%.*s", STR_ARGS(value)), wanted, comment);
}

/* min(length, list) or just the length. */
static str upper_text(const bound_loop *b, const edge_list *list) {
    const char *length = edit_text(b->r->memory, b->extent->length);
    return list->count > 0 ? str_format(b->r->memory, "min(%s, %.*s)", length,
                                        STR_ARGS(joined(b->r, "min", list)))
                           : str_from(length);
}

static str lower_text(const bound_loop *b, const edge_list *list) {
    str text = joined(b->r, "max", list);
    return list->count > 1 ? str_format(b->r->memory, "max(%.*s)", STR_ARGS(text)) : text;
}

static str quotient(const bound_loop *b, const char *function, str dividend) {
    const char *size = edit_factor_text(b->r->memory, b->extent->extent);
    tl_expr *e = tl_quote_expr(b->r->memory, "%.*s", STR_ARGS(dividend));
    return str_format(b->r->memory, "%s(%s/%s)", function, edit_factor_text(b->r->memory, e), size);
}

/* Puts `if` around a Mask whose blocks are known. */
static void guard_mask(const bound_loop *b, tl_statement *mask) {
    reason *r = b->r;
    const char *j = edit_z(r->memory, b->block);
    cuts_list tests = tests_of(b, mask);
    if (tests.is_cut || tests.items.count == 0) return;
    mask->compute.condition =
        tl_quote_expr(r->memory, "%.*s", STR_ARGS(rewritten(b, mask->compute.condition)));
    tests = tests_of(b, mask);
    bound_edges edges = {0};
    for (int i = 0; i < tests.items.count; i++)
        if (!find_edges(b, &tests.items.items[i], &edges)) return;
    str condition = {"", 0};
    bool needs_upper = edges.full.count > 0 || (edges.meets_end && !b->is_divided);
    if (edges.clear.count > 0) {
        str value = quotient(b, "ceil", lower_text(b, &edges.clear));
        condition = str_format(r->memory, "%s < %s", j,
                               let(r, "clear", "blocks from here to `full` need no mask", value));
    }
    if (needs_upper) {
        str value = quotient(b, "floor", upper_text(b, &edges.full));
        const char *full =
            let(r, "full", "blocks before this one need no mask at their end", value);
        condition = condition.length > 0
                        ? str_format(r->memory, "%.*s or %s >= %s", STR_ARGS(condition), j, full)
                        : str_format(r->memory, "%s >= %s", j, full);
    }
    if (condition.length == 0) return;
    tl_block branch =
        tl_quote(r->memory, "if %.*s // uniform; at the edges only\nend", STR_ARGS(condition));
    tl_statement *branching = branch.first;
    edit_before(r->kernel, mask, branch);
    edit_remove(r->kernel, mask);
    tl_block_append(&branching->branch.body, branching, mask);
}

/* Is a block past the end harmless, or, with a Mask, may those that it covers be left out? */
static bool is_harmless(bound_loop *b, const tl_statement *mask) {
    ends_mode mode = mask ? ENDS_MASKED : ENDS_WHOLE;
    ends_question question = {b->loop, b->axis, mode, mask, mask_covers_end, b};
    return !ends_ask(b->r, b->tiles, &question).hurt;
}

static void bound_loop_itself(const bound_loop *b, const bound_edges *edges, bool needs_one) {
    reason *r = b->r;
    const char *first = "0";
    if (edges->first.count > 0) {
        str value = str_format(r->memory, "max(0, %.*s)",
                               STR_ARGS(quotient(b, "floor", lower_text(b, &edges->first))));
        first = let(r, "first", "blocks before this one are masked as a whole", value);
    }
    str blocks = quotient(b, "ceil", upper_text(b, &edges->last));
    int64_t length;
    bool is_never_empty = edges->last.count + edges->first.count == 0 &&
                          reason_known(r, b->extent->length, &length) && length > 0;
    if (needs_one && !is_never_empty)
        blocks = edges->first.count > 0
                     ? str_format(r->memory, "max(%s + 1, %.*s)", first, STR_ARGS(blocks))
                     : str_format(r->memory, "max(1, %.*s)", STR_ARGS(blocks));
    const char *comment =
        edges->last.count > 0 ? "blocks from here on are masked as a whole" : "blocks of the axis";
    const char *name = let(r, "blocks", comment, blocks);
    b->loop->loop.from = tl_quote_expr(r->memory, "%s", first);
    b->loop->loop.to = tl_quote_expr(r->memory, "%s", name);
}

static bool bound_one(bound_loop *b) {
    if (!mask_ends(b)) return false;
    bound_edges all = {0};
    tl_statement *masks[16];
    int count = 0;
    for (tl_statement *s = tl_next(b->loop, b->loop); s; s = tl_next(s, b->loop)) {
        const tiles_tile *tile =
            edit_is_compute(s, TL_MASK) ? tiles_find(b->tiles, edit_target_name(s)) : NULL;
        if (tile && tiles_axis(tile, b->axis) >= 0 && count < 16) masks[count++] = s;
    }
    bool needs_one = is_harmless(b, NULL);
    for (int i = 0; i < count; i++) {
        if (!is_harmless(b, masks[i])) continue;
        cuts_list tests = tests_of(b, masks[i]);
        for (int k = 0; k < tests.items.count; k++)
            for (int n = 0; n < tests.items.items[k].count; n++)
                name_offset(b, &tests.items.items[k].items[n].edge);
        /* Each test alone empties blocks; beyond that they only mask. */
        for (int k = 0; k < tests.items.count; k++) find_edges(b, &tests.items.items[k], &all);
    }
    bound_loop_itself(b, &all, needs_one);
    for (int i = 0; i < count; i++) guard_mask(b, masks[i]);
    if (count > 0)
        reason_decide(b->r, "masks",
                      "the loop over %.*s runs over %s blocks that some element sees; masks in "
                      "an `if` that is true at the edges only: %d",
                      STR_ARGS(b->axis), all.last.count + all.first.count > 0 ? "the" : "all",
                      count);
    return true;
}

/* The axis that a loop walks in blocks; empty: none. */
static str walked_axis(reason *r, const tiles_list *tiles, tl_statement *loop) {
    for (int i = 0; i < tiles->extents.count; i++)
        for (tl_statement *s = tl_next(loop, loop); s; s = tl_next(s, loop))
            if (s->kind == TL_COPY && tiles_walk(r, s, tiles->extents.items[i].index, NULL) == loop)
                return tiles->extents.items[i].index;
    return (str){"", 0};
}

/* `0:length/size`, as a sketch says it; other bounds are the writer's own. */
static bool is_open_walk(const tl_statement *loop, const tiles_span *e) {
    const tl_expr *to = loop->loop.to;
    if (loop->loop.is_grid_walk || loop->loop.from->kind != TL_INTEGER ||
        loop->loop.from->integer != 0)
        return false;
    if (to->kind == TL_CALL && to->function == TL_FUNCTION_CEIL) to = to->items[0];
    return to->kind == TL_BINARY && to->operator== TL_OVER && tl_expr_equal(to->left, e->length);
}

static bool is_of_blocks(const tl_walk *walk, const tiles_span *e) {
    const tl_expr *to = walk->extent;
    return to->kind == TL_BINARY && to->operator== TL_OVER && tl_expr_equal(to->left, e->length) &&
           tl_expr_equal(to->right, e->extent);
}

static bool is_divided(reason *r, const tiles_span *e) {
    int64_t length, size;
    return reason_known(r, e->length, &length) && reason_known(r, e->extent, &size) && size > 0 &&
           length % size == 0;
}

/* Tiles that add their parts of a sum in memory have an end, too. */
static bool bound_grid(reason *r, const tl_statement *grid) {
    const tiles_list *tiles = tiles_read(r);
    for (int i = 0; i < grid->grid.count; i++)
        for (int k = 0; k < tiles->extents.count; k++) {
            const tl_walk *walk = &grid->grid.items[i];
            const tiles_span *e = &tiles->extents.items[k];
            if (!is_of_blocks(walk, e)) continue;
            bound_loop b = {r, tiles, NULL, walk->name, e->index, e, is_divided(r, e), {0}};
            if (!mask_ends(&b)) return false;
            for (int n = 0; n < b.made.count; n++) guard_mask(&b, b.made.items[n]);
        }
    return true;
}

bool bounds_write(reason *r) {
    for (tl_statement *s = r->kernel->body.first; s; s = s->next)
        if (s->kind == TL_GRID && !bound_grid(r, s)) return false;
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (s->kind != TL_FOR) continue;
        const tiles_list *tiles = tiles_read(r);
        str axis = walked_axis(r, tiles, s);
        const tiles_span *extent = axis.length > 0 ? tiles_extent(tiles, axis) : NULL;
        if (!extent || !is_open_walk(s, extent)) continue;
        bound_loop b = {r, tiles, s, s->loop.name, axis, extent, is_divided(r, extent), {0}};
        if (!bound_one(&b)) return false;
    }
    return true;
}
