/* The walk of resident blocks over the tiles of the grid: the loop, and the block's next tile.
 *
 * A role that begins the next tile beside the end of this one reads its number after the last
 * products of this one, so that nothing waits for it.
 */
#include "translate/walk.h"

static bool is_resident(const emit *t) {
    return t->plan->grid_kind != FTL_GRID_PLAIN;
}

/* --- the next tile's indices and lets: variables, worked out where products are in flight ----- */

/* Of the tile with that number, the last one that was read or found. */
static str place_of(emit *t, const char *number, bool has_indices) {
    if (has_indices || walk_is_searched(t))
        return emit_format(t, "tile_of(%.*s)", STR_ARGS(walk_taken_indices(t)));
    return emit_format(t, "tile_at(%s)", number);
}

static void find_indices(emit *t) {
    emit_walk *w = &t->walk;
    w->is_pending = false;
    emit_text(t, "next = %.*s;",
              STR_ARGS(place_of(t, "tile_next", w->reads_early && walk_units(t))));
}

/* The block's next tile, as `tile_next`. */
static void find_next(emit *t) {
    emit_text(t, "// the block's next tile");
    if (!walk_is_dynamic(t)) {
        emit_text(t, "const int tile_next = tile_number + (int)gridDim.x;");
    } else {
        walk_fetch_next(t);
    }
    t->walk.found_next = true;
    if (t->walk.asks_more)
        emit_declare(t, STR("has_more"), "const bool has_more = tile_next < args.tiles;");
    if (t->walk.asks_next) emit_text(t, "tile_place next = tile;");
    t->walk.is_pending |= t->walk.asks_next;
    if (!walk_publishes_indices(t)) return;
    emit_open(t, "if (tile_next < args.tiles) {");
    find_indices(t);
    emit_close(t);
    walk_publish(t);
}

/* --- the loop --------------------------------------------------------------------------------- */

typedef struct question {
    tl_function function;
    bool found;
} question;

static void visit(void *context, tl_expr *e) {
    question *q = context;
    q->found |= e->kind == TL_CALL && e->function == q->function;
}

static bool statement_asks(const tl_statement *s, tl_function function) {
    question q = {function, false};
    tl_statement *within = (tl_statement *)(uintptr_t)s;
    tl_each_expr(within, visit, &q);
    const tl_block *body = tl_statement_body(within);
    for (tl_statement *at = body ? body->first : NULL; at; at = tl_next(at, within))
        tl_each_expr(at, visit, &q);
    return q.found;
}

bool walk_asks(const tl_block *body, tl_function function) {
    for (const tl_statement *s = body->first; s; s = s->next) {
        if (statement_asks(s, function)) return true;
    }
    return false;
}

static bool is_if(const tl_statement *s, tl_function function) {
    return s && s->kind == TL_IF && s->branch.condition->kind == TL_CALL &&
           s->branch.condition->function == function;
}

static bool is_more(const tl_statement *s) {
    return is_if(s, TL_FUNCTION_MORE);
}

static bool waits_for(emit *t, const tl_statement *s, tl_space space) {
    const emit_tile *tile = s->kind == TL_WAIT ? emit_tile_of(t, s->sync.what) : NULL;
    return tile && tile->space == space;
}

/* Where a branch waits for products and all that it waits for in shared memory is there. */
static const tl_statement *shadow_in(emit *t, const tl_block *block) {
    const tl_statement *shadow = NULL;
    for (const tl_statement *s = block->first; s; s = s->next) {
        if (waits_for(t, s, TL_SHARED)) shadow = NULL;
        else if (!shadow && waits_for(t, s, TL_REGISTER)) shadow = s;
    }
    return shadow;
}

/* A walk's first tile, each further one and the loop in between must have such a place. There is
 * one loop: what fetches numbers does so after a tile's last copies.
 */
static void find_shadows(emit *t) {
    emit_walk *w = &t->walk;
    int loops = 0;
    for (const tl_statement *s = w->body->first; s; s = s->next) {
        if (is_if(s, TL_FUNCTION_FIRST) && !w->shadow_of_first)
            w->shadow_of_first = shadow_in(t, &s->branch.body);
        if (s->kind == TL_FOR && ++loops == 1) {
            w->loop = s;
            w->shadow_of_loop = shadow_in(t, &s->loop.body);
        }
        if (is_more(s) && !w->shadow_of_more) w->shadow_of_more = shadow_in(t, &s->branch.body);
    }
    w->reads_early = walk_is_dynamic(t) && !walk_fetches(t) && loops == 1 && w->shadow_of_first &&
                     w->shadow_of_loop && w->shadow_of_more;
    w->fetches_early =
        walk_is_searched(t) && walk_fetches(t) && !t->now->is_single && w->asks_more && loops == 1;
}

/* The next tile's number, in the last iteration of this tile's loop, or where the loop's tile
 * begins if it has none.
 */
static void read_in_shadow(emit *t, const tl_statement *s) {
    const emit_walk *w = &t->walk;
    if (s != w->shadow_of_first && s != w->shadow_of_loop && s != w->shadow_of_more) return;
    const tl_for *loop = &w->loop->loop;
    int names = t->names.count;
    for (int i = 0; s == w->shadow_of_more && i < w->next_names.count; i++)
        list_push(t->memory, &t->names, w->next_names.items[i]);
    emit_value from = emit_integer(t, loop->from, NULL), to = emit_integer(t, loop->to, NULL);
    t->names.count = names;
    str name = emit_clean(t, loop->name);
    emit_text(t, "// the block's next tile, after the last products of this one");
    if (s == w->shadow_of_loop)
        emit_open(t, "if (%.*s + 1 == %.*s_end) {", STR_ARGS(name), STR_ARGS(name));
    else
        emit_open(t, "if (%.*s >= %.*s) {", STR_ARGS(emit_within(t, from, 10)),
                  STR_ARGS(emit_within(t, to, 10)));
    walk_read_number(t, "tile_known");
    emit_close(t);
}

/* A search takes a while: it is done before the loop's last iteration waits for what that fills, or
 * before a loop that has none, so that the next tile's copies need not wait for it.
 */
static void fetch_early(emit *t, const tl_statement *s) {
    const tl_for *loop = &t->walk.loop->loop;
    bool is_inside = s == loop->body.first;
    if (s != t->walk.loop && !is_inside) return;
    emit_value from = emit_integer(t, loop->from, NULL), to = emit_integer(t, loop->to, NULL);
    emit_text(t, "// the block's next tile");
    if (is_inside)
        emit_open(t, "if (%.*s + 1 == %.*s) {", STR_ARGS(emit_clean(t, loop->name)),
                  STR_ARGS(emit_within(t, to, 10)));
    else
        emit_open(t, "if (%.*s >= %.*s) {", STR_ARGS(emit_within(t, from, 10)),
                  STR_ARGS(emit_within(t, to, 10)));
    walk_fetch_known(t);
    emit_close(t);
}

/* The number of the block's first tile. */
static void begin_number(emit *t) {
    const emit_walk *w = &t->walk;
    if (walk_is_searched(t)) {
        walk_begin_search(t);
        return;
    }
    emit_text(t, "int tile_number = (int)blockIdx.x;");
    if (w->reads_early && walk_units(t)) {
        emit_text(t,
                  "int tile_known[%d][4] = {{tile_number}}; // the next one, towards the end of "
                  "this one, and its indices",
                  walk_units(t));
    } else if (w->reads_early) {
        emit_text(t, "int tile_known = tile_number; // the next one, towards the end of this one");
    }
}

/* Where tiles are searched there may be none for the block: tables are not read then. */
static void begin_place(emit *t) {
    str place = place_of(t, "tile_number", false);
    if (!walk_is_searched(t)) {
        emit_text(t, "tile_place tile = %.*s;", STR_ARGS(place));
        return;
    }
    emit_text(t, "tile_place tile = {};");
    emit_text(t, "if (tile_number < args.tiles) tile = %.*s;", STR_ARGS(place));
}

void emit_open_walk(emit *t, const tl_block *body) {
    emit_walk *w = &t->walk;
    w->body = body, w->found_next = false;
    w->asks_first = walk_asks(body, TL_FUNCTION_FIRST);
    w->asks_more = walk_asks(body, TL_FUNCTION_MORE);
    w->asks_next = walk_asks(body, TL_FUNCTION_NEXT);
    w->is_pending = w->reads_early = w->fetches_early = false;
    w->shadow_of_first = w->shadow_of_loop = w->shadow_of_more = w->loop = NULL;
    if (!t->model->grid) {
        emit_tile_lets(t);
        return;
    }
    for (int i = 0; i < w->own_names.count; i++)
        list_push(t->memory, &t->names, w->own_names.items[i]);
    if (!is_resident(t)) {
        emit_declare(t, STR("tile"), "const tile_place tile = tile_at((int)blockIdx.x);");
        return;
    }
    if (walk_is_ragged(t) && (w->asks_more || w->asks_next)) {
        emit_unsupported(t, t->role->range, STR("this walk"),
                         "whether there is a next tile is not asked where a table says how many "
                         "there are, but in a dynamic grid whose walks come before those that "
                         "decide their length: let each tile end before the next one begins");
        return;
    }
    find_shadows(t);
    begin_number(t);
    if (w->asks_first) emit_text(t, "bool is_first = true;");
    /* Where the next tile is worked out anyway, it becomes this one at the end. */
    if (w->asks_next) begin_place(t);
    emit_text(t, "#pragma unroll 1");
    emit_open(t, "while (tile_number < args.tiles) {");
    if (!w->asks_next)
        emit_declare(t, STR("tile"), "const tile_place tile = %.*s;",
                     STR_ARGS(place_of(t, "tile_number", false)));
    if (walk_is_ragged(t)) emit_open(t, "if (tile_exists(tile)) {");
}

void emit_walk_before(emit *t, const tl_statement *s) {
    emit_walk *w = &t->walk;
    if (!w->body || !is_resident(t)) return;
    bool is_own = false;
    for (const tl_statement *at = w->body->first; at && !is_own; at = at->next) is_own = at == s;
    bool asks = statement_asks(s, TL_FUNCTION_MORE) || statement_asks(s, TL_FUNCTION_NEXT);
    if (!w->found_next && is_own && asks) find_next(t);
    if (w->is_pending && !is_more(s) &&
        (statement_asks(s, TL_FUNCTION_NEXT) ||
         (is_more(s->parent) && waits_for(t, s, TL_REGISTER))))
        find_indices(t);
    if (w->reads_early) read_in_shadow(t, s);
    if (w->fetches_early) fetch_early(t, s);
}

/* After the last statement of `if more(...)`. */
void emit_walk_after(emit *t, const tl_statement *s) {
    if (t->walk.is_pending && is_more(s)) find_indices(t);
}

void emit_close_walk(emit *t) {
    t->walk.body = NULL;
    if (!is_resident(t)) return;
    bool is_ragged = walk_is_ragged(t);
    if (is_ragged && t->walk.asks_first) emit_text(t, "is_first = false;");
    if (is_ragged) emit_close(t);
    if (!t->walk.found_next) find_next(t);
    emit_text(t, "tile_number = tile_next;");
    bool may_be_none = t->walk.is_pending && walk_is_searched(t);
    if (may_be_none) emit_open(t, "if (tile_next < args.tiles) {");
    if (t->walk.is_pending) find_indices(t);
    if (may_be_none) emit_close(t);
    if (t->walk.asks_next) emit_text(t, "tile = next;");
    if (!is_ragged && t->walk.asks_first) emit_text(t, "is_first = false;");
    emit_close(t);
    walk_end_fetching(t);
}

/* --- first, more, next ------------------------------------------------------------------------ */

emit_value emit_asked(emit *t, const tl_expr *call) {
    emit_value out = {.precedence = 16, .is_condition = true, .low = 0, .high = 1};
    bool resident = is_resident(t);
    if (call->function == TL_FUNCTION_FIRST) {
        out.text = resident ? STR("is_first") : STR("true");
        return out;
    }
    if (call->function == TL_FUNCTION_MORE) {
        out.text = resident ? STR("has_more") : STR("false");
        return out;
    }
    int names = t->names.count;
    for (int i = 0; i < t->walk.next_names.count; i++)
        list_push(t->memory, &t->names, t->walk.next_names.items[i]);
    out = emit_expression(t, call->items[0], NULL);
    t->names.count = names;
    return out;
}
