/* Rows of registers, and which instructions touch those of wgmma.
 *
 * Compilers give each value a register of its own, thousands in all, and a warp that walks through
 * them finds none in the cache. Registers that are never alive at the same place share a row here.
 *
 * Alive is what the code says, block by block: a write under a guard leaves other lanes' values, so
 * it ends nothing. As rows hold each lane by itself and writes are masked, that holds for lanes
 * apart, too. A row is nobody else's from the first place where its register is alive to the last
 * one, both included: an instruction may write one result before it has read all inputs. Registers
 * of wgmma are used between its issue and its wait, where no instruction names them: they share
 * with none.
 */
#include "emulate/ptx_read.h"

#include <string.h>

/* Of the sets, and of walks through all blocks; functions that need more stay as they are. */
enum { ROWS_MEMORY_MAX = 64 << 20, ROWS_ROUNDS_MAX = 100 };

typedef struct rows_range {
    int32_t first, last; /* places; last -1: never used */
} rows_range;

typedef struct rows_state {
    ptx_function *f;
    arena *memory;
    int32_t *block_first; /* and one past the last */
    int32_t *block_of;
    int block_count;
    size_t words;
    uint64_t *uses, *kills, *in; /* [block][word] */
    uint8_t *is_wide, *is_pinned;
    rows_range *ranges;
    int32_t *map;
} rows_state;

/* --- the rows of an instruction --------------------------------------------------------------- */

/* Who walks through the rows that instructions name; 'state' is the walker's. */
typedef struct rows_walk rows_walk;
typedef void rows_visitor(const rows_walk *walk, int32_t *row, bool writes);
struct rows_walk {
    ptx_function *f;
    rows_visitor *visit;
    void *state;
    int32_t pc;
};

static void visit_list(const rows_walk *walk, int32_t list, int count, bool writes) {
    for (int n = 0; n < count; n++) walk->visit(walk, &walk->f->lists.items[list + n], writes);
}

static void visit_bulk(const rows_walk *walk, ptx_bulk *bulk) {
    walk->visit(walk, &bulk->shared.row, false);
    walk->visit(walk, &bulk->global.row, false);
    if (bulk->loads) walk->visit(walk, &bulk->mbarrier.row, false);
    walk->visit(walk, &bulk->size, false);
    walk->visit(walk, &bulk->multicast, false);
    visit_list(walk, bulk->coordinates, bulk->rank, false);
}

static void visit_factors(const rows_walk *walk, const ptx_wgmma *form, bool writes) {
    visit_list(walk, form->d_list, form->d_count, writes);
    if (form->a_list >= 0) visit_list(walk, form->a_list, 4, false);
}

/* Visitors skip constants and PTX_NONE, which are negative. */
static void visit_rows(rows_walk walk, int32_t pc) {
    ptx_function *f = walk.f;
    ptx_instruction *i = &f->code.items[pc];
    walk.pc = pc;
    switch (i->kind) {
    case PTX_LOAD:
    case PTX_LOAD_MATRIX:
    case PTX_UNPACK: visit_list(&walk, i->list, i->count, true); break;
    case PTX_STORE:
    case PTX_STORE_MATRIX:
    case PTX_PACK: visit_list(&walk, i->list, i->count, false); break;
    case PTX_PRODUCT: {
        ptx_product_rows rows = ptx_product_rows_of(i);
        visit_list(&walk, i->list, rows.sums, true);
        visit_list(&walk, i->list + rows.sums, rows.left + rows.right + rows.sums, false);
        break;
    }
    case PTX_BULK: visit_bulk(&walk, &f->bulks.items[i->list]); break;
    case PTX_WGMMA: {
        ptx_wgmma *form = &f->wgmmas.items[i->list];
        visit_factors(&walk, form, true);
        walk.visit(&walk, &form->a_row, false);
        walk.visit(&walk, &form->b_row, false);
        break;
    }
    default: break;
    }
    for (int n = 0; n < LANES_INPUTS; n++) walk.visit(&walk, &i->in[n], false);
    walk.visit(&walk, &i->d, true);
}

static void visit_all(ptx_function *f, rows_visitor *visit, void *state) {
    for (int pc = 0; pc < f->code.count; pc++) visit_rows((rows_walk){f, visit, state, 0}, pc);
}

/* --- blocks ----------------------------------------------------------------------------------- */

static void find_blocks(rows_state *s) {
    int count = s->f->code.count;
    s->block_of = arena_array(s->memory, int32_t, count);
    s->block_first = arena_array(s->memory, int32_t, count + 1);
    for (int pc = 0; pc < count; pc++) {
        if (pc == 0 || s->f->code.items[pc].flags & PTX_BLOCK_START)
            s->block_first[s->block_count++] = pc;
        s->block_of[pc] = s->block_count - 1;
    }
    s->block_first[s->block_count] = count;
}

static uint64_t *set_of(const rows_state *s, uint64_t *sets, int block) {
    return sets + (size_t)block * s->words;
}

static bool has(const uint64_t *set, int32_t row) {
    return set[row / 64] >> (row % 64) & 1u;
}

static void add(uint64_t *set, int32_t row) {
    set[row / 64] |= 1ull << (row % 64);
}

static void note_use(const rows_walk *walk, int32_t *row, bool writes) {
    const rows_state *s = walk->state;
    if (*row < 0 || writes) return;
    int block = s->block_of[walk->pc];
    if (!has(set_of(s, s->kills, block), *row)) add(set_of(s, s->uses, block), *row);
}

static void note_kill(const rows_walk *walk, int32_t *row, bool writes) {
    const rows_state *s = walk->state;
    if (*row < 0 || !writes || s->f->code.items[walk->pc].guard >= 0) return;
    add(set_of(s, s->kills, s->block_of[walk->pc]), *row);
}

/* What is alive after a block. */
static void unite_successors(const rows_state *s, int block, uint64_t *out) {
    const ptx_function *f = s->f;
    int32_t last = s->block_first[block + 1] - 1;
    const ptx_instruction *i = &f->code.items[last];
    memset(out, 0, s->words * sizeof *out);
    bool leaves = i->guard < 0 &&
                  (i->kind == PTX_BRANCH || i->kind == PTX_BRANCH_INDEXED || i->kind == PTX_RETURN);
    int targets = i->kind == PTX_BRANCH ? 1 : i->kind == PTX_BRANCH_INDEXED ? (int)i->immediate : 0;
    for (int n = leaves ? 0 : -1; n < targets; n++) {
        int32_t pc = n < 0                           ? last + 1
                     : i->kind == PTX_BRANCH_INDEXED ? f->lists.items[i->list + n]
                                                     : i->target;
        if (pc >= f->code.count) continue;
        const uint64_t *in = set_of(s, s->in, s->block_of[pc]);
        for (size_t k = 0; k < s->words; k++) out[k] |= in[k];
    }
}

static bool find_alive(rows_state *s) {
    uint64_t *out = arena_array(s->memory, uint64_t, s->words);
    bool changed = true;
    for (int round = 0; changed && round < ROWS_ROUNDS_MAX; round++) {
        changed = false;
        for (int block = s->block_count - 1; block >= 0; block--) {
            uint64_t *in = set_of(s, s->in, block);
            const uint64_t *uses = set_of(s, s->uses, block), *kills = set_of(s, s->kills, block);
            unite_successors(s, block, out);
            for (size_t k = 0; k < s->words; k++) {
                uint64_t alive = uses[k] | (out[k] & ~kills[k]);
                changed |= alive != in[k];
                in[k] = alive;
            }
        }
    }
    return !changed;
}

/* --- ranges ----------------------------------------------------------------------------------- */

static void extend(rows_state *s, int32_t row, int32_t pc) {
    rows_range *range = &s->ranges[row];
    if (range->last < 0) range->first = pc;
    if (pc < range->first) range->first = pc;
    if (pc > range->last) range->last = pc;
}

static void extend_set(rows_state *s, const uint64_t *set, int32_t pc) {
    for (size_t k = 0; k < s->words; k++)
        for (uint64_t rest = set[k]; rest; rest &= rest - 1u)
            extend(s, (int32_t)(k * 64) + __builtin_ctzll(rest), pc);
}

static void extend_here(const rows_walk *walk, int32_t *row, bool writes) {
    (void)writes;
    if (*row >= 0) extend(walk->state, *row, walk->pc);
}

static void find_ranges(rows_state *s) {
    uint64_t *out = arena_array(s->memory, uint64_t, s->words);
    for (int row = 0; row < s->f->row_count; row++) s->ranges[row] = (rows_range){0, -1};
    for (int block = 0; block < s->block_count; block++) {
        extend_set(s, set_of(s, s->in, block), s->block_first[block]);
        unite_successors(s, block, out);
        extend_set(s, out, s->block_first[block + 1] - 1);
    }
    visit_all(s->f, extend_here, s);
}

/* --- sharing ---------------------------------------------------------------------------------- */

static void pin(rows_state *s, int32_t row) {
    if (row >= 0) s->is_pinned[row] = 1;
}

static void pin_factor(const rows_walk *walk, int32_t *row, bool writes) {
    (void)writes;
    pin(walk->state, *row);
}

static void pin_some(rows_state *s) {
    ptx_function *f = s->f;
    const rows_walk walk = {f, pin_factor, s, 0};
    pin(s, f->sink);
    pin(s, f->sink + 1);
    pin(s, f->carry);
    pin(s, f->next_carry);
    for (int n = 0; n < PTX_SPECIAL_COUNT; n++) pin(s, f->specials[n]);
    for (int n = 0; n < f->wgmmas.count; n++) visit_factors(&walk, &f->wgmmas.items[n], true);
}

/* Chains of rows by a place: heads by place, links by row. */
static int32_t *new_chain(rows_state *s, int count) {
    int32_t *heads = arena_array(s->memory, int32_t, count);
    for (int n = 0; n < count; n++) heads[n] = -1;
    return heads;
}

static int32_t take_row(int32_t **free_rows, int32_t *links, bool wide, int32_t *next) {
    int32_t row = *free_rows[wide];
    if (row >= 0) {
        *free_rows[wide] = links[row];
        return row;
    }
    row = *next;
    *next += wide ? 2 : 1;
    return row;
}

/* From the first place to the last: rows whose registers have ended go to those that begin. */
static int32_t share(rows_state *s) {
    int rows = s->f->row_count, places = s->f->code.count;
    int32_t *begins = new_chain(s, places), *ends = new_chain(s, places);
    int32_t *begin_links = new_chain(s, rows), *end_links = new_chain(s, rows);
    int32_t *free_links = new_chain(s, rows), free_words = -1, free_doubles = -1;
    int32_t *free_rows[2] = {&free_words, &free_doubles}, next = 0;
    for (int row = 0; row < rows; row++)
        if (s->is_pinned[row]) s->map[row] = next, next += s->is_wide[row] ? 2 : 1;
    for (int row = rows - 1; row >= 0; row--) {
        if (s->is_pinned[row] || s->ranges[row].last < 0) continue;
        begin_links[row] = begins[s->ranges[row].first];
        begins[s->ranges[row].first] = row;
        end_links[row] = ends[s->ranges[row].last];
        ends[s->ranges[row].last] = row;
    }
    for (int pc = 0; pc < places; pc++) {
        for (int32_t row = begins[pc]; row >= 0; row = begin_links[row])
            s->map[row] = take_row(free_rows, free_links, s->is_wide[row], &next);
        for (int32_t row = ends[pc]; row >= 0; row = end_links[row]) {
            bool wide = s->is_wide[row];
            free_links[s->map[row]] = *free_rows[wide];
            *free_rows[wide] = s->map[row];
        }
    }
    return next;
}

static void rename_row(const rows_walk *walk, int32_t *row, bool writes) {
    const rows_state *s = walk->state;
    (void)writes;
    if (*row >= 0) *row = s->map[*row];
}

static void rename_all(rows_state *s) {
    ptx_function *f = s->f;
    const rows_walk walk = {f, rename_row, s, 0};
    visit_all(f, rename_row, s);
    for (int n = 0; n < PTX_SPECIAL_COUNT; n++) rename_row(&walk, &f->specials[n], false);
    rename_row(&walk, &f->sink, false);
    rename_row(&walk, &f->carry, false);
    rename_row(&walk, &f->next_carry, false);
}

void ptx_rows_share(ptx_reader *r, ptx_function *f) {
    rows_state s = {.f = f, .memory = r->memory};
    find_blocks(&s);
    s.words = (size_t)f->row_count / 64 + 1;
    size_t bytes = 3 * (size_t)s.block_count * s.words * sizeof(uint64_t);
    if (bytes > ROWS_MEMORY_MAX) return;
    size_t count = (size_t)s.block_count * s.words;
    s.uses = arena_array(r->memory, uint64_t, count);
    s.kills = arena_array(r->memory, uint64_t, count);
    s.in = arena_array(r->memory, uint64_t, count);
    s.is_wide = arena_array(r->memory, uint8_t, f->row_count + 1);
    s.is_pinned = arena_array(r->memory, uint8_t, f->row_count + 1);
    s.ranges = arena_array(r->memory, rows_range, f->row_count);
    s.map = arena_array(r->memory, int32_t, f->row_count);
    for (int n = 0; n < r->doubles.count; n++) {
        ptx_doubles d = r->doubles.items[n];
        for (int32_t row = d.first; row < d.first + 2 * d.count; row += 2) s.is_wide[row] = 1;
    }
    for (int pc = 0; pc < f->code.count; pc++) {
        visit_rows((rows_walk){f, note_use, &s, 0}, pc);
        visit_rows((rows_walk){f, note_kill, &s, 0}, pc);
    }
    if (!find_alive(&s)) return;
    find_ranges(&s);
    pin_some(&s);
    f->row_count = (share(&s) + 1) / 2 * 2;
    rename_all(&s);
}

/* --- who touches the registers of wgmma ------------------------------------------------------- */

static void track(const rows_walk *walk, int32_t *row, bool writes) {
    ptx_function *f = walk->f;
    (void)writes;
    if (*row < 0 || f->row_numbers[*row] >= 0) return;
    f->row_numbers[*row] = f->tracked.count;
    list_push((arena *)walk->state, &f->tracked, *row);
}

static void note_touch(const rows_walk *walk, int32_t *row, bool writes) {
    ptx_function *f = walk->f;
    if (*row < 0 || *row >= f->row_count || f->row_numbers[*row] < 0) return;
    list_push((arena *)walk->state, &f->touches, f->row_numbers[*row] * 2 + writes);
}

void ptx_rows_touch(ptx_reader *r, ptx_function *f) {
    if (!f->wgmmas.count) return;
    arena *memory = r->module->memory;
    const rows_walk tracks = {f, track, memory, 0}, touches = {f, note_touch, memory, 0};
    f->row_numbers = arena_array(memory, int32_t, f->row_count);
    f->touch_of = arena_array(memory, int32_t, f->code.count);
    for (int row = 0; row < f->row_count; row++) f->row_numbers[row] = -1;
    for (int n = 0; n < f->wgmmas.count; n++) visit_factors(&tracks, &f->wgmmas.items[n], true);
    for (int pc = 0; pc < f->code.count; pc++) {
        ptx_instruction *i = &f->code.items[pc];
        f->touch_of[pc] = f->touches.count;
        if (i->kind != PTX_WGMMA) visit_rows(touches, pc);
        if (f->touches.count == f->touch_of[pc]) continue;
        i->flags |= PTX_TOUCHES;
        list_push(memory, &f->touches, -1);
    }
}
