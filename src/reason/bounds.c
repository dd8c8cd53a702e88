#include "reason/bounds.h"

#include "reason/ends.h"
#include "reason/linear.h"
#include "reason/scalar.h"

#include <math.h>

enum { BOUNDS_TESTS_MAX = 8 };

typedef struct bound_test {
    linear_cut cut;
    tl_expr *text; /* the test itself */
} bound_test;

typedef struct bound_tests {
    bound_test items[BOUNDS_TESTS_MAX];
    int count;
    bool is_solved; /* all of them are */
    bool is_cut;    /* there are more */
} bound_tests;

/* One loop over blocks of an axis. */
typedef struct bound_loop {
    reason *r;
    const tiles_list *tiles;
    tl_statement *loop;
    str axis;
    const tiles_span *extent; /* the block's size and the axis's length */
    bool is_divided;          /* no block is ragged */
} bound_loop;

/* --- conditions ------------------------------------------------------------------------------- */

static bound_test solve(reason *r, str axis, const tl_expr *e) {
    return (bound_test){linear_cut_of(r, axis, e), tl_expr_copy(r->memory, e)};
}

static void split(reason *r, str axis, const tl_expr *e, bound_tests *tests) {
    if (e->kind == TL_BINARY && e->operator== TL_OR) {
        split(r, axis, e->left, tests);
        split(r, axis, e->right, tests);
        return;
    }
    bound_test test = solve(r, axis, e);
    tests->is_solved = tests->is_solved && test.cut.is_solved;
    if (tests->count < BOUNDS_TESTS_MAX) tests->items[tests->count++] = test;
    else tests->is_solved = false, tests->is_cut = true;
}

static bound_tests tests_of(reason *r, str axis, const tl_expr *condition) {
    bound_tests tests = {.is_solved = true};
    if (condition) split(r, axis, condition, &tests);
    return tests;
}

/* Does the test hold for every element past the end, in rows that exist? kv >= length > E. */
static bool test_covers_end(const bound_loop *b, const bound_test *test) {
    if (!test->cut.is_solved || !test->cut.is_upper) return false;
    tl_linear rest = linear_of(b->r, linear_expr(b->r, &test->cut.edge), true);
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
    bound_test test = solve(b->r, b->axis, e);
    return test_covers_end(b, &test);
}

static bool mask_covers_end(void *context, const tl_statement *mask) {
    return mask->compute.condition && condition_covers_end(context, mask->compute.condition);
}

/* --- masks for ragged ends -------------------------------------------------------------------- */

static tl_place place_of(const bound_loop *b, const tiles_tile *tile, const tl_statement *at) {
    reason *r = b->r;
    tl_place place = {.items = arena_array(r->memory, tl_spot, tile->axis_count), .is_given = true};
    for (int i = 0; i < tile->axis_count; i++) {
        tl_spot spot = {.is_all = true};
        if (!tiles_walk(r, (tl_statement *)at, tile->axes[i], &spot)) {
            /* A block of the grid: `L = q_block` where a copy says so. */
            for (tl_statement *s = r->kernel->body.first; s && spot.is_all; s = tl_next(s, NULL))
                if (s->kind == TL_COPY) tiles_spot(r, s, tile->axes[i], &spot);
        }
        place.items[i] = spot;
    }
    place.count = tile->axis_count;
    while (place.count > 0 && place.items[place.count - 1].is_all) place.count--;
    return place;
}

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

static bool mask_end(const bound_loop *b, ends_answer *answer) {
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
        if (!mask->compute.place.is_given) mask->compute.place = place_of(b, about, mask);
        return true;
    }
    const char *value =
        answer->neutral == -INFINITY ? "" : reason_say(r, ", %s", tl_neutral_text(answer->neutral));
    tl_block text = tl_quote(r->memory, "Compute Mask %s%s where %s >= %s // past the end", tile,
                             value, axis, length);
    text.first->compute.place = place_of(b, about, answer->hurt);
    edit_before(r->kernel, answer->hurt, text);
    return true;
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
        if (edit_ancestor_in(b->r->kernel, answer.hurt, &b->loop->loop.body) == NULL) break;
        mask_end(b, &answer);
    }
    return b->is_divided ||
           reason_stuck(b->r, b->loop, "the elements past the end of %.*s cannot be masked",
                        STR_ARGS(b->axis));
}

/* --- extremes over a tile --------------------------------------------------------------------- */

/* Where the tile's other axis begins (is_last: its last element), as an expression. */
static tl_expr *extreme_index(const bound_loop *b, str index, bool is_last) {
    reason *r = b->r;
    const tiles_span *e = tiles_extent(b->tiles, index);
    if (!e) return NULL;
    tl_spot spot = {.is_all = true};
    tiles_tile one = {.axis_count = 1, .axes = {index}};
    tl_place place = place_of(b, &one, b->loop->loop.body.first);
    if (place.count == 1) spot = place.items[0];
    const char *size = edit_factor_text(r->memory, e->extent);
    if (spot.is_all)
        return is_last ? tl_quote_expr(r->memory, "%s - 1", size) : tl_quote_expr(r->memory, "0");
    const char *at = edit_text(r->memory, spot.at);
    return is_last ? tl_quote_expr(r->memory, "(%s + 1)*%s - 1", at, size)
                   : tl_quote_expr(r->memory, "%s*%s", edit_factor_text(r->memory, spot.at), size);
}

/* The index name of a tile that an expression mentions; several: 'many'. */
static str mentioned_index(const bound_loop *b, const tl_expr *e, bool *many) {
    str found = {"", 0};
    for (int i = 0; i < b->tiles->extents.count; i++) {
        const tiles_span *x = &b->tiles->extents.items[i];
        bool is_length = x->length->kind == TL_NAME && str_equal(x->length->text, x->index);
        if (is_length || !tl_expr_names(e, x->index)) continue;
        *many = found.length > 0;
        found = x->index;
    }
    return found;
}

/* The largest (or smallest) value of E over the tile, as a sum; false when it is not known. */
static bool extreme(const bound_loop *b, const tl_linear *edge, bool is_largest, tl_linear *out) {
    reason *r = b->r;
    *out = (tl_linear){.constant = edge->constant};
    for (int i = 0; i < edge->count; i++) {
        const tl_expr *atom = edge->terms[i].atom;
        int64_t c = edge->terms[i].factor;
        bool many = false;
        str index = mentioned_index(b, atom, &many);
        if (index.length == 0) {
            tl_linear_add_atom(out, atom, c);
            continue;
        }
        bool is_name = atom->kind == TL_NAME;
        bool is_quotient = atom->kind == TL_BINARY && atom->operator== TL_OVER &&
                                                      atom->left->kind == TL_NAME &&
                                                      scalar_is_positive(r, atom->right);
        if (many || (!is_name && !is_quotient)) return false;
        tl_expr *value = extreme_index(b, index, is_largest == (c > 0));
        if (!value) return false;
        if (is_quotient)
            value = tl_quote_expr(r->memory, "floor(%s/%s)", edit_factor_text(r->memory, value),
                                  edit_factor_text(r->memory, atom->right));
        /* Kept as one atom, so that it prints as it is read: (q_block + 1)*BM. */
        if (value->kind == TL_BINARY && value->operator== TL_MINUS &&
                                        value->right->kind == TL_INTEGER) {
            tl_linear_add_atom(out, value->left, c);
            out->constant -= c * value->right->integer;
        } else if (value->kind == TL_INTEGER) {
            out->constant += c * value->integer;
        } else {
            tl_linear_add_atom(out, value, c);
        }
    }
    return !out->is_broken;
}

/* Names the uniform part of an edge, `offset`, so that bounds and masks share it. */
static void name_offset(const bound_loop *b, tl_linear *edge) {
    tl_linear rest = {0};
    bool many;
    for (int i = 0; i < edge->count; i++)
        if (mentioned_index(b, edge->terms[i].atom, &many).length == 0)
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

/* The condition again, from its solved tests: kv > q + offset. */
static void rewrite_condition(const bound_loop *b, tl_statement *mask, bound_tests *tests) {
    reason *r = b->r;
    str text = {"", 0};
    for (int i = 0; i < tests->count; i++) {
        bound_test *t = &tests->items[i];
        const tl_expr *one = t->text;
        int before = t->cut.edge.count;
        if (t->cut.is_solved) name_offset(b, &t->cut.edge);
        if (t->cut.is_solved && t->cut.edge.count < before) {
            tl_linear edge = t->cut.edge;
            one = tl_quote_expr(r->memory, t->cut.is_upper ? "%.*s > %s" : "%.*s <= %s",
                                STR_ARGS(b->axis), edit_text(r->memory, linear_expr(r, &edge)));
        }
        reason_list(r, &text, " or ", "%s", edit_text(r->memory, one));
    }
    mask->compute.condition = tl_quote_expr(r->memory, "%.*s", STR_ARGS(text));
}

/* --- bounds ----------------------------------------------------------------------------------- */

/* Edges of the stretches of blocks, each + 1: lists for min(...) and max(...). */
typedef struct bound_edges {
    str last;  /* blocks from here on are masked as a whole */
    str full;  /* blocks from here on need the mask */
    str first; /* blocks before this one are masked as a whole */
    str clear; /* blocks before this one need the mask */
    int upper_count, lower_count;
    bool meets_end; /* a test is the axis's own end, or covers it */
} bound_edges;

/* A function takes eight arguments, of which the axis's length is one: more are in a call within
 * the call.
 */
static str join(reason *r, const char *function, str list, int count, const tl_linear *one) {
    enum { TOGETHER = 6 };
    tl_linear next = *one;
    next.constant += 1;
    const char *text = edit_text(r->memory, linear_expr(r, &next));
    if (count > 0 && count % TOGETHER == 0)
        list = str_format(r->memory, "%s(%.*s)", function, STR_ARGS(list));
    return list.length > 0 ? str_format(r->memory, "%.*s, %s", STR_ARGS(list), text)
                           : str_from(text);
}

static bool find_edges(const bound_loop *b, const bound_tests *tests, bound_edges *edges) {
    for (int i = 0; i < tests->count; i++) {
        const bound_test *t = &tests->items[i];
        tl_linear largest, smallest;
        if (!t->cut.is_solved || !extreme(b, &t->cut.edge, true, &largest) ||
            !extreme(b, &t->cut.edge, false, &smallest))
            return false;
        /* The length itself is in every bound already. */
        tl_linear length = linear_of(b->r, b->extent->length, true);
        tl_linear difference = linear_of(b->r, linear_expr(b->r, &largest), true);
        tl_linear_add(&difference, &length, -1);
        edges->meets_end = edges->meets_end || t->cut.is_upper;
        if (t->cut.is_upper && difference.count == 0 && difference.constant == -1) continue;
        if (t->cut.is_upper) {
            edges->last = join(b->r, "min", edges->last, edges->upper_count, &largest);
            edges->full = join(b->r, "min", edges->full, edges->upper_count, &smallest);
            edges->upper_count++;
        } else {
            edges->first = join(b->r, "max", edges->first, edges->lower_count, &smallest);
            edges->clear = join(b->r, "max", edges->clear, edges->lower_count, &largest);
            edges->lower_count++;
        }
    }
    return true;
}

static const char *let(reason *r, const char *wanted, const char *comment, str value) {
    return scalar_name(r, tl_quote_expr(r->memory, "%.*s", STR_ARGS(value)), wanted, comment);
}

/* min(length, list) or just the length. */
static str upper_text(const bound_loop *b, str list, int count) {
    const char *length = edit_text(b->r->memory, b->extent->length);
    return count > 0 ? str_format(b->r->memory, "min(%s, %.*s)", length, STR_ARGS(list))
                     : str_from(length);
}

static str lower_text(const bound_loop *b, str list, int count) {
    return count > 1 ? str_format(b->r->memory, "max(%.*s)", STR_ARGS(list)) : list;
}

static str quotient(const bound_loop *b, const char *function, str dividend) {
    const char *size = edit_factor_text(b->r->memory, b->extent->extent);
    tl_expr *e = tl_quote_expr(b->r->memory, "%.*s", STR_ARGS(dividend));
    return str_format(b->r->memory, "%s(%s/%s)", function, edit_factor_text(b->r->memory, e), size);
}

/* Puts `if` around a Mask whose blocks are known. */
static void guard_mask(const bound_loop *b, tl_statement *mask) {
    reason *r = b->r;
    const char *j = edit_z(r->memory, b->loop->loop.name);
    bound_tests tests = tests_of(r, b->axis, mask->compute.condition);
    if (tests.is_cut) return;
    rewrite_condition(b, mask, &tests);
    tests = tests_of(r, b->axis, mask->compute.condition);
    bound_edges edges = {0};
    if (!tests.is_solved || !find_edges(b, &tests, &edges)) return;
    str condition = {"", 0};
    bool needs_upper = edges.upper_count > 0 || (edges.meets_end && !b->is_divided);
    if (edges.lower_count > 0) {
        str value = quotient(b, "ceil", lower_text(b, edges.clear, edges.lower_count));
        condition = str_format(r->memory, "%s < %s", j,
                               let(r, "clear", "blocks from here to `full` need no mask", value));
    }
    if (needs_upper) {
        str value = quotient(b, "floor", upper_text(b, edges.full, edges.upper_count));
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
    if (edges->lower_count > 0) {
        str value = str_format(
            r->memory, "max(0, %.*s)",
            STR_ARGS(quotient(b, "floor", lower_text(b, edges->first, edges->lower_count))));
        first = let(r, "first", "blocks before this one are masked as a whole", value);
    }
    str blocks = quotient(b, "ceil", upper_text(b, edges->last, edges->upper_count));
    int64_t length;
    bool is_never_empty = edges->upper_count + edges->lower_count == 0 &&
                          reason_known(r, b->extent->length, &length) && length > 0;
    if (needs_one && !is_never_empty)
        blocks = edges->lower_count > 0
                     ? str_format(r->memory, "max(%s + 1, %.*s)", first, STR_ARGS(blocks))
                     : str_format(r->memory, "max(1, %.*s)", STR_ARGS(blocks));
    const char *comment =
        edges->upper_count > 0 ? "blocks from here on are masked as a whole" : "blocks of the axis";
    const char *name = let(r, "blocks", comment, blocks);
    b->loop->loop.from = tl_quote_expr(r->memory, "%s", first);
    b->loop->loop.to = tl_quote_expr(r->memory, "%s", name);
}

static bool bound_one(bound_loop *b) {
    enum { EDGES_MAX = 48 };
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
        bound_tests tests = tests_of(b->r, b->axis, masks[i]->compute.condition);
        for (int k = 0; k < tests.count; k++)
            if (tests.items[k].cut.is_solved) name_offset(b, &tests.items[k].cut.edge);
        bound_edges edges = all;
        bound_tests one = {.count = 1};
        /* Each test alone empties blocks; beyond that they only mask. */
        for (int k = 0; k < tests.count && all.upper_count + all.lower_count < EDGES_MAX; k++) {
            one.items[0] = tests.items[k];
            if (find_edges(b, &one, &edges)) all = edges;
            else edges = all;
        }
    }
    bound_loop_itself(b, &all, needs_one);
    for (int i = 0; i < count; i++) guard_mask(b, masks[i]);
    if (count > 0)
        reason_decide(b->r, "masks",
                      "the loop over %.*s runs over %s blocks that some element sees; masks in "
                      "an `if` that is true at the edges only: %d",
                      STR_ARGS(b->axis), all.upper_count + all.lower_count > 0 ? "the" : "all",
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

/* Whole blocks, as a known length may have them, or one that a table counts in blocks. */
static bool is_multiple(reason *r, const tl_expr *length, const tl_expr *of) {
    int64_t size;
    if (!reason_known(r, of, &size) || size <= 0) return false;
    tl_linear sum = linear_of(r, length, true);
    bool is_whole = !sum.is_broken && sum.constant % size == 0;
    for (int i = 0; i < sum.count && is_whole; i++) is_whole = sum.terms[i].factor % size == 0;
    return is_whole;
}

bool bounds_write(reason *r) {
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (s->kind != TL_FOR) continue;
        const tiles_list *tiles = tiles_read(r);
        str axis = walked_axis(r, tiles, s);
        const tiles_span *extent = axis.length > 0 ? tiles_extent(tiles, axis) : NULL;
        if (!extent || !is_open_walk(s, extent)) continue;
        bound_loop b = {r, tiles, s, axis, extent, is_multiple(r, extent->length, extent->extent)};
        if (!bound_one(&b)) return false;
    }
    return true;
}
