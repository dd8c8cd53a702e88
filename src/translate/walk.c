/* The walk of resident blocks over the tiles of the grid: from a tile's number to its indices, the
 * block's next tile, and, for dynamic grids, who fetches it and how the other roles learn of it.
 *
 * No integer is divided: the launch makes constants of all divisors. A dynamic grid has a counter
 * in global memory. One thread of the block fetches a number when it needs it and hands it on
 * through two slots in shared memory with a full and an empty barrier each. It runs ahead of the
 * others as far as tiles have slots; fetching earlier would give long tiles to blocks that are
 * busy. A role that begins the next tile beside the end of this one reads the number behind the
 * last products of this one, so that nothing waits for it. The last block to end sets the counters
 * back.
 */
#include "translate/emit.h"

enum { SLOTS = 2, NUMBER_BYTES = 4, BARRIER_BYTES = 8 };

static bool is_resident(const emit *t) {
    return t->plan->grid_kind != FTL_GRID_PLAIN;
}

static bool is_dynamic(const emit *t) {
    return t->grid && t->grid->grid.kind == TL_GRID_DYNAMIC;
}

/* --- formulas over the grid ------------------------------------------------------------------- */

static ftl_formula formula_of(emit *t, const tl_expr *e) {
    ftl_formula f;
    if (!emit_formula(t, e, &f))
        emit_unsupported(t, e->range, tl_expr_text(t->memory, e), "it is not known at launch");
    return f;
}

/* a op b, said as "op(a, b)". */
static ftl_formula both(emit *t, ftl_formula a, ftl_formula b, ftl_formula_op op,
                        const char *format) {
    int count = a.step_count + b.step_count + 1, at = 0;
    ftl_formula_step *steps = arena_array(t->memory, ftl_formula_step, count);
    for (int i = 0; i < a.step_count; i++) steps[at++] = a.steps[i];
    for (int i = 0; i < b.step_count; i++) steps[at++] = b.steps[i];
    steps[at] = (ftl_formula_step){.op = op};
    str text = str_format(t->memory, "%s(%s, %s)", format, a.text, b.text);
    return (ftl_formula){.text = str_copy_z(t->memory, text), .steps = steps, .step_count = count};
}

static ftl_formula integer(emit *t, int64_t value) {
    ftl_formula_step *step = arena_new(t->memory, ftl_formula_step);
    *step = (ftl_formula_step){.op = FTL_PUSH_INTEGER, .integer = value};
    str text = emit_format(t, "%lld", (long long)value);
    return (ftl_formula){.text = str_copy_z(t->memory, text), .steps = step, .step_count = 1};
}

/* Tiles of the walks [from, to). */
static ftl_formula product_of(emit *t, int from, int to) {
    ftl_formula f = integer(t, 1);
    for (int i = from; i < to; i++) {
        ftl_formula extent = formula_of(t, t->grid->grid.items[i].extent);
        f = i == from ? extent : both(t, f, extent, FTL_MULTIPLY, "product");
    }
    return f;
}

/* --- from a number to indices ----------------------------------------------------------------- */

static str divided(emit *t, str number, ftl_formula by) {
    str multiplier, shift;
    emit_divide(t, by, &multiplier, &shift);
    return emit_format(t, "ftl_quotient(%.*s, %.*s, %.*s)", STR_ARGS(number), STR_ARGS(multiplier),
                       STR_ARGS(shift));
}

/* The walks [from, to) of 'number', a variable. */
static void decode_walks(emit *t, str number, int from, int to, const char *suffix) {
    for (int i = from; i < to; i++) {
        const tl_walk *walk = &t->grid->grid.items[i];
        emit_value extent = emit_walk_extent(t, walk);
        str name = emit_format(t, "%.*s%s", STR_ARGS(emit_clean(t, walk->name)), suffix);
        str at = number, rest = emit_format(t, "%.*s_rest", STR_ARGS(name));
        if (i + 1 < to) {
            emit_declare(t, rest, "const int %.*s = %.*s;", STR_ARGS(rest),
                         STR_ARGS(divided(t, number, formula_of(t, walk->extent))));
            at = emit_format(t, "%.*s - %.*s * %.*s", STR_ARGS(number), STR_ARGS(rest),
                             STR_ARGS(emit_within(t, extent, 15)));
        }
        if (walk->is_reversed)
            at = emit_format(t, "%.*s - 1 - (%.*s)", STR_ARGS(emit_within(t, extent, 12)),
                             STR_ARGS(at));
        emit_declare(t, name, "%sint %.*s = %.*s;", t->walk.rotates ? "" : "const ", STR_ARGS(name),
                     STR_ARGS(at));
        emit_name_set(t, walk->symbol, name, 0, extent.high > 0 ? extent.high - 1 : 0);
        number = rest;
    }
}

static int section_of(const emit *t) {
    for (int i = 0; i < t->grid->grid.count; i++) {
        if (t->grid->grid.items[i].section) return i;
    }
    return -1;
}

static str value_of(emit *t, ftl_formula f) {
    return emit_format(t, "args.%.*s", STR_ARGS(emit_derived(t, FTL_DERIVED_VALUE, f)));
}

/* An int of the decoding: "tile_NAME", with the suffix. */
static str decoded(emit *t, const char *name, const char *suffix, str value) {
    str full = emit_format(t, "tile_%s%s", name, suffix);
    emit_declare(t, full, "const int %.*s = %.*s;", STR_ARGS(full), STR_ARGS(value));
    return full;
}

static str chosen(emit *t, str condition, str a, str b) {
    return emit_format(t, "(%.*s ? %.*s : %.*s)", STR_ARGS(condition), STR_ARGS(a), STR_ARGS(b));
}

/* n / a or n / b. */
static str divided_by_either(emit *t, str n, str condition, ftl_formula a, ftl_formula b) {
    str by[2][2];
    emit_divide(t, a, &by[0][0], &by[0][1]);
    emit_divide(t, b, &by[1][0], &by[1][1]);
    return emit_format(t, "ftl_quotient(%.*s, %.*s, %.*s)", STR_ARGS(n),
                       STR_ARGS(chosen(t, condition, by[0][0], by[1][0])),
                       STR_ARGS(chosen(t, condition, by[0][1], by[1][1])));
}

/* Tuples of the first walks in sections, as few as hold at most so many and as even as can be: the
 * first ones are one tuple wider. Inside a section the number is (tuple, then the later walks).
 */
static void decode_sections(emit *t, str number, int last, const char *suffix) {
    int count = t->grid->grid.count;
    ftl_formula one = integer(t, 1), tuples = product_of(t, 0, last + 1);
    ftl_formula later = product_of(t, last + 1, count);
    ftl_formula most = formula_of(t, t->grid->grid.items[last].section);
    most = both(t, both(t, most, tuples, FTL_MIN, "min"), one, FTL_MAX, "max");
    ftl_formula sections =
        both(t, both(t, tuples, most, FTL_DIVIDE_UP, "ceil"), one, FTL_MAX, "max");
    ftl_formula width = both(t, tuples, sections, FTL_DIVIDE_DOWN, "floor");
    width = both(t, width, one, FTL_MAX, "max");
    ftl_formula wide = both(t, width, one, FTL_ADD, "sum");
    ftl_formula wide_tuples =
        both(t, both(t, tuples, sections, FTL_MODULO, "rest"), wide, FTL_MULTIPLY, "product");
    ftl_formula wide_tiles = both(t, wide_tuples, later, FTL_MULTIPLY, "product");
    ftl_formula each[2] = {both(t, wide, later, FTL_MULTIPLY, "product"),
                           both(t, width, later, FTL_MULTIPLY, "product")};
    str is_wide = emit_format(t, "tile_wide%s", suffix), edge = value_of(t, wide_tiles);
    emit_declare(t, is_wide, "const bool %.*s = %.*s < %.*s;", STR_ARGS(is_wide), STR_ARGS(number),
                 STR_ARGS(edge));
    str w = decoded(t, "width", suffix, chosen(t, is_wide, value_of(t, wide), value_of(t, width)));
    str from = decoded(t, "from", suffix,
                       emit_format(t, "%.*s - %.*s", STR_ARGS(number),
                                   STR_ARGS(chosen(t, is_wide, STR("0"), edge))));
    str section =
        decoded(t, "section", suffix, divided_by_either(t, from, is_wide, each[0], each[1]));
    str inside = decoded(
        t, "inside", suffix,
        emit_format(t, "%.*s - %.*s * %.*s", STR_ARGS(from), STR_ARGS(section),
                    STR_ARGS(chosen(t, is_wide, value_of(t, each[0]), value_of(t, each[1])))));
    str outer = decoded(t, "later", suffix, divided_by_either(t, inside, is_wide, wide, width));
    str tuple =
        decoded(t, "tuple", suffix,
                emit_format(t, "%.*s + (%.*s - %.*s) * %.*s + %.*s",
                            STR_ARGS(chosen(t, is_wide, STR("0"), value_of(t, wide_tuples))),
                            STR_ARGS(section), STR_ARGS(outer), STR_ARGS(w), STR_ARGS(inside)));
    decode_walks(t, tuple, 0, last + 1, suffix);
    decode_walks(t, outer, last + 1, count, suffix);
}

static void decode(emit *t, const char *number, const char *suffix) {
    int section = section_of(t);
    if (section >= 0 && section + 1 < t->grid->grid.count)
        decode_sections(t, str_from(number), section, suffix);
    else decode_walks(t, str_from(number), 0, t->grid->grid.count, suffix);
    emit_tile_lets(t, suffix);
}

/* --- dynamic: who fetches --------------------------------------------------------------------- */

/* A role of one thread, or the first warp of the first role. */
static const emit_role *fetcher(const emit *t) {
    for (int i = 0; i < t->roles.count; i++) {
        if (t->roles.items[i].is_single) return &t->roles.items[i];
    }
    return &t->roles.items[0];
}

static bool fetches_alone(const emit *t) {
    return t->now == fetcher(t) && t->now->is_single;
}

void emit_plan_walk(emit *t, int64_t *offset_bytes) {
    if (!is_dynamic(t)) return;
    t->walk.offset_bytes = (*offset_bytes + BARRIER_BYTES - 1) / BARRIER_BYTES * BARRIER_BYTES;
    *offset_bytes = t->walk.offset_bytes + SLOTS * (2 * BARRIER_BYTES + NUMBER_BYTES);
}

static long long full_at(const emit *t) {
    return (long long)t->walk.offset_bytes;
}

static long long empty_at(const emit *t) {
    return full_at(t) + SLOTS * BARRIER_BYTES;
}

static long long number_at(const emit *t) {
    return empty_at(t) + SLOTS * BARRIER_BYTES;
}

void emit_init_walk(emit *t) {
    if (!is_dynamic(t)) return;
    int readers = 0;
    for (int i = 0; i < t->roles.count; i++) {
        const emit_role *r = &t->roles.items[i];
        bool alone = r == fetcher(t) && r->is_single;
        if (!alone) readers += r->is_single ? 1 : r->warps;
    }
    emit_open(t, "if (threadIdx.x == 0) {");
    for (int slot = 0; slot < SLOTS; slot++) {
        emit_text(t, "ftl_mbarrier_init(shared + %lld, 1); // the next tile's number is there",
                  full_at(t) + BARRIER_BYTES * slot);
        emit_text(t, "ftl_mbarrier_init(shared + %lld, %d); // and was read",
                  empty_at(t) + BARRIER_BYTES * slot, readers ? readers : 1);
    }
    emit_text(t, "ftl_mbarrier_init_fence();");
    emit_close(t);
}

static bool hands_on(const emit *t) {
    return t->roles.count > 1 || !fetcher(t)->is_single;
}

void emit_start_walk(emit *t) {
    if (!is_dynamic(t) || !hands_on(t)) return;
    if (t->now == fetcher(t)) {
        emit_declare(t, STR("tile_fill"), "unsigned tile_fill = 0;");
        emit_declare(t, STR("tile_fill_parity"), "unsigned tile_fill_parity = 1;");
    }
    if (fetches_alone(t)) return;
    emit_declare(t, STR("tile_slot"), "unsigned tile_slot = 1;");
    emit_declare(t, STR("tile_parity"), "unsigned tile_parity = 1;");
}

static void hand_on(emit *t, const char *number) {
    if (!hands_on(t)) return;
    emit_text(t, "ftl_mbarrier_try_wait(shared + %lld + 8 * tile_fill, tile_fill_parity);",
              empty_at(t));
    emit_text(t, "ftl_store_shared_i32(shared + %lld + 4 * tile_fill, %s);", number_at(t), number);
    emit_text(t, "ftl_mbarrier_signal(shared + %lld + 8 * tile_fill);", full_at(t));
}

static void turn_fill(emit *t) {
    emit_text(t, "tile_fill ^= 1;");
    emit_text(t, "tile_fill_parity ^= tile_fill == 0;");
}

/* Into 'target'; where it is read early, the value is made one for the warp where it is used, so
 * that the compiler knows branches on it to be the same for all lanes.
 */
static void read_number(emit *t, const char *target) {
    bool early = t->walk.reads_early;
    emit_text(t, "tile_slot = tile_slot == 1 ? 0 : tile_slot + 1;");
    emit_text(t, "tile_parity ^= tile_slot == 0;");
    emit_text(t, "ftl_mbarrier_try_wait(shared + %lld + 8 * tile_slot, tile_parity);", full_at(t));
    emit_text(t, "%s = %sftl_load_shared_i32(shared + %lld + 4 * tile_slot)%s;", target,
              early ? "" : "ftl_uniform(", number_at(t), early ? "" : ")");
    str signal = emit_format(t, "ftl_mbarrier_signal(shared + %lld + 8 * tile_slot);", empty_at(t));
    if (t->now->is_single) emit_text(t, "%.*s", STR_ARGS(signal));
    if (t->now->is_single) return;
    emit_text(t, "ftl_warp_barrier();");
    emit_text(t, "if (lane == 0) %.*s", STR_ARGS(signal));
}

/* --- the next tile's indices and lets: variables, worked out where products are in flight ----- */

/* The type of a variable, from its declaration: "int ". */
static str type_of(emit *t, str name) {
    for (int i = t->lines.count - 1; i >= 0; i--) {
        const emit_line *line = &t->lines.items[i];
        if (!str_equal(line->declares, name)) continue;
        str text = str_trim(line->text);
        size_t length = 0;
        while (length < text.length && text.data[length] != ' ') length++;
        return str_copy(t->memory, (str){text.data, length});
    }
    return STR("int");
}

static void declare_next(emit *t) {
    emit_walk *w = &t->walk;
    w->next_names.count = 0;
    w->next_line = t->lines.count;
    for (int i = 0; i < w->own_names.count; i++) {
        emit_name next = w->own_names.items[i];
        str own = next.name;
        next.name = emit_format(t, "%.*s_next", STR_ARGS(own));
        emit_declare(t, next.name, "%.*s %.*s = %.*s;", STR_ARGS(type_of(t, own)),
                     STR_ARGS(next.name), STR_ARGS(own));
        list_push(t->memory, &w->next_names, next);
    }
    w->is_pending = true;
}

static void decode_next(emit *t) {
    emit_walk *w = &t->walk;
    int names = t->names.count;
    w->is_pending = false;
    emit_open(t, "{");
    decode(t, "tile_next", "_then");
    w->assign_line = t->lines.count;
    for (int i = 0; i < w->next_names.count; i++) {
        const emit_name *next = &w->next_names.items[i];
        const emit_name *then = NULL;
        for (int k = names; k < t->names.count; k++) {
            if (t->names.items[k].of == next->of) then = &t->names.items[k];
        }
        emit_text(t, "%.*s = %.*s;", STR_ARGS(next->name),
                  STR_ARGS(then ? then->name : next->name));
    }
    emit_close(t);
    t->names.count = names;
}

/* The block's next tile, as `tile_next`. */
static void find_next(emit *t) {
    emit_text(t, "// the block's next tile");
    if (!is_dynamic(t)) {
        emit_text(t, "const int tile_next = tile_number + (int)gridDim.x;");
    } else if (fetches_alone(t)) {
        emit_text(t, "const int tile_next = ftl_fetch_tile(args.tile_counters);");
        hand_on(t, "tile_next");
        if (hands_on(t)) turn_fill(t);
    } else if (t->walk.reads_early) {
        emit_text(t, "const int tile_next = ftl_uniform(tile_known);");
    } else {
        if (t->now == fetcher(t)) {
            emit_open(t, "if (lane == 0 && warp == 0) {");
            emit_text(t, "const int tile_fetched = ftl_fetch_tile(args.tile_counters);");
            hand_on(t, "tile_fetched");
            emit_close(t);
            turn_fill(t);
        }
        read_number(t, "const int tile_next");
    }
    t->walk.found_next = true;
    if (t->walk.asks_more)
        emit_declare(t, STR("has_more"), "const bool has_more = tile_next < args.tiles;");
    if (t->walk.asks_next) declare_next(t);
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

static bool body_asks(const tl_block *body, tl_function function) {
    for (const tl_statement *s = body->first; s; s = s->next) {
        if (statement_asks(s, function)) return true;
    }
    return false;
}

/* Where the next tile is worked out anyway, it becomes this one at the end: indices and lets are
 * variables, worked out once before the loop.
 */
static void open_rotation(emit *t) {
    int names = t->names.count;
    t->walk.rotates = true;
    decode(t, "tile_number", "");
    t->walk.rotates = false;
    t->walk.own_names.count = 0;
    for (int i = names; i < t->names.count; i++)
        list_push(t->memory, &t->walk.own_names, t->names.items[i]);
}

/* In statements: neither a declaration nor an assignment of decode_next. */
static bool is_named_in_walk(const emit *t, str name) {
    const emit_walk *w = &t->walk;
    for (int i = w->first_line; i < t->lines.count; i++) {
        const emit_line *line = &t->lines.items[i];
        bool assigns = i >= w->assign_line && i < w->assign_line + w->next_names.count;
        bool counts = !assigns && !(i >= w->next_line && line->declares.length);
        if (i < w->next_line) counts = true;
        bool is_comment = str_starts(str_trim(line->text), STR("//"));
        if (counts && !is_comment && emit_mentions(line->text, name)) return true;
    }
    return false;
}

/* A line that nothing needs: as if it declared what nobody names. */
static void drop_line(emit *t, int line) {
    t->lines.items[line].declares = STR("@");
}

/* The next tile becomes this one; what nobody named goes. */
static void rotate(emit *t) {
    const emit_walk *w = &t->walk;
    bool *is_own = arena_array(t->memory, bool, w->next_names.count + 1);
    bool *is_next = arena_array(t->memory, bool, w->next_names.count + 1);
    for (int i = 0; i < w->next_names.count; i++) {
        is_own[i] = is_named_in_walk(t, w->own_names.items[i].name);
        is_next[i] = is_named_in_walk(t, w->next_names.items[i].name);
    }
    for (int i = 0; i < w->next_names.count; i++) {
        str own = w->own_names.items[i].name, next = w->next_names.items[i].name;
        if (is_own[i]) emit_text(t, "%.*s = %.*s;", STR_ARGS(own), STR_ARGS(next));
        if (is_own[i] || is_next[i]) continue;
        drop_line(t, w->next_line + i);
        drop_line(t, w->assign_line + i);
    }
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
 * one loop: what fetches numbers does so behind a tile's last copies.
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
    w->reads_early = is_dynamic(t) && t->now != fetcher(t) && loops == 1 && w->shadow_of_first &&
                     w->shadow_of_loop && w->shadow_of_more;
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
    emit_text(t, "// the block's next tile, behind the last products of this one");
    if (s == w->shadow_of_loop)
        emit_open(t, "if (%.*s + 1 == %.*s_end) {", STR_ARGS(name), STR_ARGS(name));
    else
        emit_open(t, "if (%.*s >= %.*s) {", STR_ARGS(emit_within(t, from, 10)),
                  STR_ARGS(emit_within(t, to, 10)));
    read_number(t, "tile_known");
    emit_close(t);
}

void emit_open_walk(emit *t, const tl_block *body) {
    emit_walk *w = &t->walk;
    w->body = body, w->found_next = false;
    w->asks_first = body_asks(body, TL_FUNCTION_FIRST);
    w->asks_more = body_asks(body, TL_FUNCTION_MORE);
    w->asks_next = body_asks(body, TL_FUNCTION_NEXT);
    w->rotates = w->is_pending = w->reads_early = false;
    w->shadow_of_first = w->shadow_of_loop = w->shadow_of_more = w->loop = NULL;
    if (!t->grid) {
        emit_tile_lets(t, "");
        return;
    }
    emit_header(t, t->grid);
    if (!is_resident(t)) {
        emit_text(t, "const int tile_number = (int)blockIdx.x;");
        decode(t, "tile_number", "");
        return;
    }
    emit_text(t, "int tile_number = (int)blockIdx.x;");
    find_shadows(t);
    if (w->reads_early)
        emit_text(t, "int tile_known = tile_number; // the next one, towards the end of this one");
    if (w->asks_first) emit_text(t, "bool is_first = true;");
    if (w->asks_next) open_rotation(t);
    emit_text(t, "#pragma unroll 1");
    emit_open(t, "while (tile_number < args.tiles) {");
    if (!w->asks_next) decode(t, "tile_number", "");
    w->first_line = t->lines.count;
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
        decode_next(t);
    if (w->reads_early) read_in_shadow(t, s);
}

/* Behind the last statement of `if more(...)`. */
void emit_walk_behind(emit *t, const tl_statement *s) {
    if (t->walk.is_pending && is_more(s)) decode_next(t);
}

void emit_close_walk(emit *t) {
    t->walk.body = NULL;
    if (!is_resident(t)) return;
    if (!t->walk.found_next) find_next(t);
    emit_text(t, "tile_number = tile_next;");
    if (t->walk.is_pending) decode_next(t);
    if (t->walk.asks_next) rotate(t);
    if (t->walk.asks_first) emit_text(t, "is_first = false;");
    emit_close(t);
    if (!is_dynamic(t) || t->now != fetcher(t)) return;
    if (!t->now->is_single) emit_text(t, "if (lane == 0 && warp == 0)");
    emit_text(t, "%sftl_end_tiles(args.tile_counters);", t->now->is_single ? "" : "    ");
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
