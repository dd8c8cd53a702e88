/* Pass walk: how a block comes from tile to tile of the grid.
 *
 * For kernels of warpgroups. As many blocks as fit walk the tiles, in turn where all take equally
 * long, else each the next one that is free. The walk is a statement of each role, so that a
 * result's way out lies beside the next tile's work: its bytes are waited for right before they are
 * written again.
 */
#include "reason/walk.h"
#include "reason/scalar.h"
#include "reason/warpgroups.h"

enum {
    CACHE_SHARE_PERCENT = 46, /* of the level-2 cache, for what the tiles of a section share */
    SECTION_SM_SHARE = 3      /* of the multiprocessors, one in so many begins a section */
};

/* --- the walk as a statement ------------------------------------------------------------------ */

static tl_statement *wrap(reason *r, tl_statement *role, const char *tile) {
    tl_block walk = tl_quote(r->memory, "for %s in grid\nend", tile);
    tl_statement *loop = walk.first;
    for (tl_statement *s = role->role.body.first, *next; s; s = next) {
        next = s->next;
        if (s->kind == TL_ALLOCATE) continue;
        edit_remove(r->kernel, s);
        tl_block_append(&loop->loop.body, loop, s);
    }
    edit_append(&role->role.body, role, walk);
    return loop;
}

/* `Wait X_global`, `Release X_shared` at the tile's end move in front of the next tile's write. */
static void delay_stores(reason *r, tl_statement *walk) {
    const char *tile = edit_z(r->memory, walk->loop.name);
    for (tl_statement *s = walk->loop.body.first, *next; s; s = next) {
        next = s->next;
        if (s->kind != TL_WAIT || !str_ends(s->sync.what->text, STR("_global")) || !next ||
            next->kind != TL_RELEASE)
            continue;
        str name = edit_bare(s->sync.what->text);
        tl_statement *write = walk->loop.body.first, *release = next;
        while (write && !(edit_is_store(write) && str_equal(write->copy.what->text, name)))
            write = write->next;
        const tl_statement *place = edit_shared_tile(r->kernel, name);
        if (!write || !place || place->allocate.in_place_of.length > 0) continue;
        next = release->next;
        tl_block again = {0};
        edit_append_copy(r->memory, &again, s);
        edit_append_copy(r->memory, &again, release);
        edit_before(r->kernel, write,
                    reason_under(r, reason_say(r, "not first(%s)", tile),
                                 "the previous tile has left these bytes", again));
        edit_move_after(r->kernel, walk, release);
        edit_move_after(r->kernel, walk, s);
    }
}

bool walk_goes_by_tile(reason *r, const tl_statement *copy) {
    const tl_axes *axes = tiles_tensor(r->kernel, edit_copied_tensor(copy));
    for (int i = 0; axes && i < axes->count; i++)
        if (scalar_depends_on_tile(r, axes->items[i].extent)) return true;
    return false;
}

/* --- the grid --------------------------------------------------------------------------------- */

static bool has_uneven_tiles(reason *r, const tl_statement *grid, tl_statement *load) {
    for (tl_statement *s = load->role.body.first; s; s = tl_next(s, load)) {
        if (walk_is_listed(r, s)) return true;
        for (int i = 0; i < grid->grid.count; i++)
            if (walk_direction(r, s, grid->grid.items[i].name) != 0) return true;
    }
    return false;
}

static bool is_walked(const tl_statement *grid, int walk, const tl_statement *copy) {
    for (int i = 0; i < copy->copy.place.count; i++)
        if (!copy->copy.place.items[i].is_block && copy->copy.place.items[i].at &&
            tl_expr_names(copy->copy.place.items[i].at, grid->grid.items[walk].name))
            return true;
    return false;
}

/* Indices of the first walk that share a matrix: `group`, where the coordinate is head/group. */
static const tl_expr *sharers(const tl_statement *grid, const tl_statement *copy) {
    str first = grid->grid.items[0].name;
    for (int i = 0; i < copy->copy.place.count; i++) {
        const tl_expr *e = copy->copy.place.items[i].at;
        if (e && e->kind == TL_BINARY &&
            e->operator== TL_OVER && e->left->kind == TL_NAME && str_equal(e->left->text, first))
            return e->right;
    }
    return NULL;
}

/* "kv_len*d*2": bytes of the matrix that a loop's copies walk. */
static str matrix_bytes(reason *r, const tl_statement *copy) {
    const tl_axes *axes = tiles_tensor(r->kernel, copy->copy.what->text);
    int bits = tl_type_bits(tiles_tensor_type(r->kernel, copy->copy.what->text));
    str text = {"", 0};
    for (int i = tl_matrix_begin(axes); i < axes->count; i++)
        reason_list(r, &text, "", "%s*", edit_factor_text(r->memory, axes->items[i].extent));
    return str_format(r->memory, bits < 8 ? "%.*s1/%d" : "%.*s%d", STR_ARGS(text),
                      bits < 8 ? 8 / bits : bits / 8);
}

/* Tiles of uneven length start with the longest; but only among those whose shared operands the
 * level-2 cache can hold, and, where matrices are small, so few that the blocks that begin a
 * section do not all load at once what the others will find in the cache.
 */
static void write_sections(reason *r, tl_statement *grid, tl_statement *load) {
    str bytes = {"", 0};
    const tl_expr *shared_by = NULL;
    int last = -1;
    for (tl_statement *s = load->role.body.first; s; s = tl_next(s, load)) {
        tl_statement *loop = s->kind == TL_COPY ? edit_loop_of(s) : NULL;
        if (!loop || loop->loop.is_grid_walk) continue;
        if (walk_goes_by_tile(r, s)) return; /* not known before the grid */
        reason_list(r, &bytes, " + ", "%.*s", STR_ARGS(matrix_bytes(r, s)));
        shared_by = sharers(grid, s);
        for (int i = 0; i < grid->grid.count; i++)
            if (is_walked(grid, i, s) && i > last) last = i;
    }
    if (last < 0 || last + 1 >= grid->grid.count) return;
    for (int i = 0; i <= last; i++)
        if (grid->grid.items[i].is_reversed) return;
    const char *near = reason_fresh_z(r, "near");
    long long share = r->target->l2 / 100 * CACHE_SHARE_PERCENT / 1000000 * 1000000;
    long long most = r->target->sms / SECTION_SM_SHARE;
    const char *times =
        shared_by ? reason_say(r, "*%s", edit_factor_text(r->memory, shared_by)) : "";
    reason_before(r, grid,
                  "let %s = min(%lld, %lld/max(1, %.*s))%s // this many share the level-2 cache",
                  near, most, share, STR_ARGS(bytes), times);
    grid->grid.items[last].section = tl_name_expr(r->memory, str_from(near));
    reason_decide(
        r, "sections",
        "the longest tiles start first, but in sections whose operands fit %lld MB of the "
        "level-2 cache, of at most %lld matrices",
        share / 1000000, most);
}

/* Does a table say how many tiles a walk has? */
static bool is_ragged(reason *r, const tl_statement *grid) {
    for (int i = 0; i < grid->grid.count; i++)
        if (scalar_depends_on_tile(r, grid->grid.items[i].extent)) return true;
    return false;
}

/* Does the walk decide how long another one is? */
static bool decides(reason *r, const tl_statement *grid, int walk) {
    for (int i = 0; i < grid->grid.count; i++)
        if (scalar_depends_on(r, grid->grid.items[i].extent, grid->grid.items[walk].name))
            return true;
    return false;
}

/* Walks come before those that decide how long they are: all tiles of a sequence, then those of the
 * next one, so that they are counted without gaps and share what the sequence has.
 */
static void order_ragged(reason *r, tl_statement *grid) {
    tl_walk *items = arena_array(r->memory, tl_walk, grid->grid.count);
    int count = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < grid->grid.count; i++)
            if (decides(r, grid, i) == (pass == 1)) items[count++] = grid->grid.items[i];
    grid->grid.items = items;
    reason_decide(r, "order of ragged tiles",
                  "a table says how many there are: they are counted one after the other, by "
                  "whoever fetches the next one");
}

bool walk_is_counted(reason *r, const tl_statement *grid) {
    if (!is_ragged(r, grid)) return true;
    for (int i = 0; i < grid->grid.count; i++)
        for (int k = 0; k <= i; k++)
            if (scalar_depends_on(r, grid->grid.items[i].extent, grid->grid.items[k].name))
                return false;
    return grid->grid.kind == TL_GRID_DYNAMIC;
}

static void choose_grid(reason *r, tl_statement *load) {
    tl_statement *grid = scalar_grid(r->kernel);
    if (!grid || grid->grid.kind != TL_GRID_PLAIN) return;
    bool is_uneven = has_uneven_tiles(r, grid, load) || is_ragged(r, grid);
    int64_t dynamic = reason_decided(r, is_uneven, "dynamic");
    grid->grid.kind = dynamic ? TL_GRID_DYNAMIC : TL_GRID_PERSISTENT;
    grid->comment = dynamic ? STR("each block takes the next tile that is free")
                            : STR("each block walks its tiles in turn");
    if (dynamic && is_ragged(r, grid)) order_ragged(r, grid);
    reason_offers_switch(r, "dynamic", dynamic != 0);
    reason_decide(r, "grid", "as many blocks as fit walk the tiles, %s",
                  dynamic ? "each the next free one: tiles take unequally long"
                          : "in turn: all tiles take equally long");
    if (is_uneven && reason_decided(r, 1, "sections")) write_sections(r, grid, load);
}

bool reason_walk(reason *r) {
    tl_statement *math = warpgroups_role(r->kernel);
    tl_statement *load = math ? r->kernel->body.first : NULL;
    while (load && (load->kind != TL_ROLE || load == math)) load = load->next;
    if (load) {
        choose_grid(r, load);
        const char *tile = reason_fresh_z(r, "tile");
        tl_statement *loads = wrap(r, load, tile), *walk = wrap(r, math, tile);
        walk_flatten(r, loads, walk);
        delay_stores(r, walk);
    }
    return true;
}
