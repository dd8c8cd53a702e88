#include "model/build.h"

enum { VIEWS_DEEP = 64 };

typedef struct deep_visit {
    const model *model;
    bool loops;
    unsigned stamp;
    tl_visitor *visit;
    void *context;
} deep_visit;

static bool visit_deep(void *context, const tl_expr *e) {
    deep_visit *d = context;
    if (!d->visit(d->context, e)) return false;
    const tl_symbol *s = e->symbol;
    if (!s || d->model->stamps[s->position] == d->stamp) return true;
    d->model->stamps[s->position] = d->stamp;
    if (s->kind == TL_SYMBOL_CONSTANT && !s->is_known) return tl_visit(s->value, visit_deep, d);
    bool is_loop =
        d->loops && s->kind == TL_SYMBOL_LOOP && s->statement && s->statement->kind == TL_FOR;
    if (!is_loop) return true;
    return tl_visit(s->statement->loop.from, visit_deep, d) &&
           tl_visit(s->statement->loop.to, visit_deep, d);
}

bool model_visit_lets(const model *m, const tl_expr *e, bool loops, tl_visitor *visit,
                      void *context) {
    deep_visit d = {m, loops, ++*m->stamp, visit, context};
    return tl_visit(e, visit_deep, &d);
}

static bool is_no_walk(void *context, const tl_expr *e) {
    (void)context;
    return e->kind != TL_NAME || !e->symbol || e->symbol->kind != TL_SYMBOL_GRID;
}

bool model_depends_on_grid(const model *m, const tl_expr *e) {
    return !model_visit_lets(m, e, false, is_no_walk, NULL);
}

static bool has_no_element(void *context, const tl_expr *e) {
    (void)context;
    return e->kind != TL_ELEMENT;
}

bool model_reads_element(const model *m, const tl_expr *e) {
    return !model_visit_lets(m, e, false, has_no_element, NULL);
}

bool model_is_whole_body(const model_step *step) {
    return step->statement->kind == TL_ROLE;
}

/* --- tiles ------------------------------------------------------------------------------------ */

void model_build_beyond(model_builder *b, model_limit limit) {
    if (!b->model->beyond.most) b->model->beyond = limit;
}

int model_build_axis(model_builder *b, str name) {
    if (!name.length) return -1;
    for (int i = 0; i < b->axis_names.count; i++) {
        if (str_equal(b->axis_names.items[i], name)) return i;
    }
    list_push(b->model->memory, &b->axis_names, name);
    return b->axis_names.count - 1;
}

/* X where X has one place, else X_shared or X_register. */
static str tile_name(arena *memory, const tl_symbol *symbol, tl_space space) {
    if (symbol->variable) symbol = symbol->variable;
    int places = (symbol->axes ? 1 : 0) + (symbol->shared.exists ? 1 : 0) +
                 (symbol->in_register.exists ? 1 : 0);
    if (places <= 1) return symbol->name;
    return str_format(memory, "%.*s_%s", STR_ARGS(symbol->name),
                      space == TL_SHARED ? "shared" : "register");
}

static void add_tile(model_builder *b, tl_statement *s, int index) {
    const tl_allocation *a = &s->allocate;
    const tl_symbol *symbol = a->symbols ? a->symbols[index] : NULL;
    if (!symbol || (a->space != TL_SHARED && a->space != TL_REGISTER)) return;
    if (b->tiles.count == MODEL_TILES_MAX) {
        model_build_beyond(b, (model_limit){MODEL_TILES_MAX, "this kernel", "tiles", s->range});
        return;
    }
    const tl_tile *tile = a->space == TL_SHARED ? &symbol->shared : &symbol->in_register;
    model_tile t = {.symbol = symbol,
                    .allocation = s,
                    .space = a->space,
                    .type = a->type,
                    .stages = 1,
                    .role = a->space == TL_REGISTER ? b->role : -1,
                    .group = b->tiles.count,
                    .declared = a->name_ranges[index],
                    .uses_mbarrier = str_is(a->channel, "mbarrier")};
    t.name = tile_name(b->model->memory, symbol, a->space);
    int64_t stages;
    if (a->stages && tl_known_integer(a->stages, &stages) && stages >= 1) {
        t.stages = (int)(stages < MODEL_STAGES_MAX ? stages : MODEL_STAGES_MAX);
    }
    t.is_value_ring =
        t.space == TL_REGISTER && t.stages > 1 && tl_is_value_ring(b->model->kernel, symbol);
    t.axis_count = a->shape.count < MODEL_AXES_MAX ? a->shape.count : MODEL_AXES_MAX;
    for (int i = 0; i < t.axis_count; i++) {
        t.axes[i].name = i < tile->axis_count ? tile->axes[i].index : (str){0};
        t.axes[i].id = model_build_axis(b, t.axes[i].name);
        if (!tl_known_integer(a->shape.items[i], &t.axes[i].extent)) t.axes[i].extent = 0;
    }
    list_push(b->model->memory, &b->tiles, t);
}

int model_build_find(const model_tile *tiles, int count, const tl_symbol *symbol, tl_space space) {
    for (int deep = 0; symbol && deep < VIEWS_DEEP; deep++) {
        for (int i = 0; i < count; i++) {
            if (tiles[i].symbol == symbol && tiles[i].space == space) return i;
        }
        if (space != TL_SHARED) return -1;
        symbol = symbol->view_base;
    }
    return -1;
}

/* The cursor of the name itself, or of what it is a part of; else the role's first on the tile. */
static int find_cursor(const model_cursor *cursors, int count, int role, int tile,
                       const tl_symbol *symbol) {
    int first = -1;
    for (int deep = 0; symbol && deep < VIEWS_DEEP; deep++, symbol = symbol->view_base) {
        for (int i = 0; i < count; i++) {
            const model_cursor *c = &cursors[i];
            if (c->role != role || c->tile != tile) continue;
            if (c->symbol == symbol) return i;
            if (first < 0) first = i;
        }
    }
    return first;
}

int model_build_cursor(const model_builder *b, int role, int tile, const tl_symbol *symbol) {
    return find_cursor(b->cursors.items, b->cursors.count, role, tile, symbol);
}

int model_find_tile(const model *m, const tl_symbol *symbol, tl_space space) {
    return model_build_find(m->tiles, m->tile_count, symbol, space);
}

int model_find_cursor(const model *m, int role, int tile, const tl_symbol *symbol) {
    return find_cursor(m->cursors, m->cursor_count, role, tile, symbol);
}

int model_find_turn(const model *m, const tl_symbol *symbol) {
    for (int i = 0; i < m->turn_count; i++) {
        if (m->turns[i].symbol == symbol) return i;
    }
    return -1;
}

/* `in place of`: the later tile joins the group of the earlier one. */
static void join_groups(model_builder *b) {
    for (int i = 0; i < b->tiles.count; i++) {
        model_tile *t = &b->tiles.items[i];
        const tl_symbol *of = tl_in_place_of(b->model->kernel, t->allocation);
        int other = of ? model_build_find(b->tiles.items, b->tiles.count, of, TL_SHARED) : -1;
        if (other < 0 || other == i) continue;
        int from = t->group, to = b->tiles.items[other].group;
        for (int k = 0; k < b->tiles.count; k++)
            if (b->tiles.items[k].group == from) b->tiles.items[k].group = to;
    }
}

/* --- roles ------------------------------------------------------------------------------------ */

static void declare_cursors(model_builder *b, tl_statement *role) {
    for (tl_statement *s = tl_next(role, role); s; s = tl_next(s, role)) {
        if (s->kind != TL_WAIT || !s->sync.what || !s->sync.what->symbol) continue;
        const tl_symbol *symbol = s->sync.what->symbol;
        tl_space space = s->sync.what->space;
        if (space == TL_GLOBAL || symbol->kind != TL_SYMBOL_VARIABLE) continue;
        if (space == TL_REGISTER || (space == TL_NOWHERE && symbol->in_register.exists)) continue;
        int tile = model_build_find(b->tiles.items, b->tiles.count, symbol, TL_SHARED);
        if (tile < 0 || !b->tiles.items) continue;
        bool known = false;
        for (int i = 0; i < b->cursors.count; i++) {
            const model_cursor *c = &b->cursors.items[i];
            known |= c->role == b->role && c->tile == tile && c->symbol == symbol;
        }
        if (known) continue;
        model_cursor cursor = {
            .tile = tile, .role = b->role, .symbol = symbol, .name = b->tiles.items[tile].name};
        if (b->tiles.items[tile].symbol != symbol) {
            cursor.name = str_format(b->model->memory, "%.*s_shared", STR_ARGS(symbol->name));
        }
        list_push(b->model->memory, &b->cursors, cursor);
    }
}

static model_role make_role(model_builder *b, tl_statement *s) {
    const tl_role *r = &s->role;
    int executors = r->executors > 0 ? r->executors : 1;
    model_role role = {.statement = s,
                       .name = r->name,
                       .executors = executors,
                       .executor_warps = r->is_warpgroups ? MODEL_WARPGROUP : 1,
                       .processes = 1};
    role.warps = executors * role.executor_warps;
    role.threads = 32 * role.warps;
    if (r->turn_count && executors <= MODEL_PROCESSES_MAX - b->processes) {
        role.processes = executors;
    } else if (r->turn_count) {
        model_build_beyond(b, (model_limit){MODEL_PROCESSES_MAX, "this kernel",
                                            "executors that take turns", s->range});
    }
    for (int i = 0; i < r->turn_count; i++) {
        if (!r->turn_symbols || !r->turn_symbols[i]) continue;
        model_turn turn = {r->turn_symbols[i], b->role, r->turns[i]};
        list_push(b->model->memory, &b->turns, turn);
    }
    b->processes += role.processes;
    return role;
}

static bool has_grid_walk(tl_statement *role) {
    for (tl_statement *s = tl_next(role, role); s; s = tl_next(s, role)) {
        if (s->kind == TL_FOR && s->loop.is_grid_walk) return true;
    }
    return false;
}

static void fill_role(model_builder *b, model_role *role, tl_statement *s) {
    b->steps.items = NULL;
    b->steps.count = b->steps.capacity = b->depth = 0;
    bool walks = has_grid_walk(s);
    model_step step = {.kind = STEP_TILES, .statement = s, .target = {.tile = -1}};
    if (!walks) model_build_step(b, step);
    model_build_block(b, &s->role.body);
    if (!walks) {
        step.kind = STEP_END_TILES;
        model_build_step(b, step);
        b->steps.items[0].other = b->steps.count - 1;
    }
    step.kind = STEP_END;
    step.other = 0;
    model_build_step(b, step);
    role->steps = b->steps.items;
    role->step_count = b->steps.count;
}

/* cp.async groups: which copies make one, and how many an `if` that is not taken has to make up
 * for. The copies of loops inside an `if` are not counted: how often they run is not known here.
 */
static void count_commits(model *m, model_role *role) {
    for (int i = 0; i < role->step_count; i++) {
        model_step *step = &role->steps[i];
        if (step->kind != STEP_COPY || !step->is_async || !step->has_target) continue;
        const model_tile *tile = &m->tiles[step->target.tile];
        step->commits = tile->space == TL_SHARED && !tile->uses_mbarrier;
    }
    for (int i = 0; i < role->step_count; i++) {
        if (role->steps[i].kind != STEP_IF) continue;
        int loops = 0;
        for (int k = i + 1; k < role->steps[i].other; k++) {
            const model_step *inner = &role->steps[k];
            if (inner->kind == STEP_FOR) loops++;
            if (inner->kind == STEP_END_FOR) loops--;
            if (inner->kind == STEP_COPY && !loops) role->steps[i].commits += inner->commits;
        }
    }
}

/* A channel between roles, like one that is asked for by name or filled by TMA, has barrier
 * objects. */
static void find_mbarriers(model *m) {
    for (int c = 0; c < m->cursor_count; c++) {
        model_tile *tile = &m->tiles[m->cursors[c].tile];
        if (tile->role >= 0 && tile->role != m->cursors[c].role) tile->uses_mbarrier = true;
    }
}

/* Each channel's readers and partners, so that the machine need not look for them. */
static void link_channels(model *m) {
    for (int t = 0; t < m->tile_count; t++) {
        model_tile *tile = &m->tiles[t];
        if (tile->space != TL_SHARED) continue;
        LIST(int) cursors = {0}, partners = {0};
        for (int c = 0; c < m->cursor_count; c++) {
            if (m->cursors[c].tile == t) list_push(m->memory, &cursors, c);
        }
        for (int u = 0; u < m->tile_count; u++) {
            bool shares =
                u != t && m->tiles[u].space == TL_SHARED && m->tiles[u].group == tile->group;
            if (shares) list_push(m->memory, &partners, u);
        }
        tile->cursors = cursors.items, tile->cursor_count = cursors.count;
        tile->partners = partners.items, tile->partner_count = partners.count;
    }
}

typedef LIST(tl_statement *) role_list;

/* The number of the role that the statement is in; -1: it is in none. */
static int role_around(const role_list *roles, const tl_statement *s) {
    for (const tl_statement *p = s->parent; p; p = p->parent)
        for (int r = 0; r < roles->count; r++)
            if (roles->items[r] == p) return r;
    return -1;
}

/* Grid, roles and tiles, as the text declares them. */
static role_list find_declared(model_builder *b) {
    model *m = b->model;
    role_list roles = {0};
    for (tl_statement *s = m->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (s->kind == TL_GRID && !m->grid) m->grid = s;
        if (s->kind == TL_ROLE && !s->parent && roles.count == MODEL_ROLES_MAX)
            model_build_beyond(b, (model_limit){MODEL_ROLES_MAX, "this kernel", "roles", s->range});
        else if (s->kind == TL_ROLE && !s->parent) list_push(m->memory, &roles, s);
        if (s->kind != TL_ALLOCATE) continue;
        b->role = role_around(&roles, s);
        for (int i = 0; i < s->allocate.name_count; i++) add_tile(b, s, i);
    }
    for (int i = 0; i < b->tiles.count; i++) {
        model_tile *t = &b->tiles.items[i];
        if (t->space == TL_REGISTER && t->role < 0 && roles.count == 1) t->role = 0;
        if (t->stages > m->stages_most) m->stages_most = t->stages;
    }
    join_groups(b);
    return roles;
}

static void build_roles(model_builder *b, const role_list *roles) {
    model *m = b->model;
    m->roles = arena_array(m->memory, model_role, roles->count ? roles->count : 1);
    m->role_count = roles->count;
    for (b->role = 0; b->role < roles->count; b->role++) {
        m->roles[b->role] = make_role(b, roles->items[b->role]);
        declare_cursors(b, roles->items[b->role]);
    }
    for (b->role = 0; b->role < roles->count; b->role++)
        fill_role(b, &m->roles[b->role], roles->items[b->role]);
}

/* What the builder has collected is the model's. */
static void take_lists(model *m, const model_builder *b) {
    m->tiles = b->tiles.items, m->tile_count = b->tiles.count;
    m->cursors = b->cursors.items, m->cursor_count = b->cursors.count;
    m->turns = b->turns.items, m->turn_count = b->turns.count;
    m->axis_names = b->axis_names.items, m->axis_name_count = b->axis_names.count;
    m->axis_symbols = arena_array(m->memory, const tl_symbol *, m->axis_name_count + 1);
    for (int i = 0; i < m->axis_name_count; i++)
        m->axis_symbols[i] = tl_find_index(m->kernel, m->axis_names[i]);
}

model *model_build(arena *memory, tl_kernel *kernel) {
    model *m = arena_new(memory, model);
    *m = (model){.memory = memory,
                 .kernel = kernel,
                 .stages_most = 1,
                 .is_block_index = arena_array(memory, bool, kernel->symbol_count + 1),
                 .stamps = arena_array(memory, unsigned, kernel->symbol_count + 1),
                 .stamp = arena_new(memory, unsigned)};
    model_builder b = {.model = m, .role = -1};
    role_list roles = find_declared(&b);
    build_roles(&b, &roles);
    take_lists(m, &b);
    find_mbarriers(m);
    link_channels(m);
    for (int r = 0; r < m->role_count; r++) count_commits(m, &m->roles[r]);
    model_build_layouts(m);
    model_build_warps(m);
    model_build_traffic(m);
    return m;
}

int model_axis_of(const model_tile *tile, int axis_id_wanted) {
    for (int i = 0; i < tile->axis_count; i++) {
        if (axis_id_wanted >= 0 && tile->axes[i].id == axis_id_wanted) return i;
    }
    return -1;
}
