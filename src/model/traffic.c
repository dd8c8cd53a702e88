/* How shared tiles' data move: by whom and how a tile is filled, who reads it with what, how many
 * arrivals its barriers count. The checks place barriers by it, the translator prints it.
 */
#include "model/build.h"

bool model_is_by_rows(const model_tile *tile) {
    const tl_layout *said = &tile->allocation->allocate.layout;
    bool is_matrix = tile->space == TL_REGISTER && tile->axis_count == 2;
    return is_matrix && (said->kind == TL_MMA_A || said->kind == TL_MMA_C) &&
           said->over_columns <= 1;
}

/* --- what the steps do with a tile ------------------------------------------------------------ */

/* What is known of a tile while the steps are gone through. */
typedef struct traffic {
    const model *model;
    model_tile *tile;
    int number;
    bool is_multiplied;       /* it is an operand of products */
    bool is_read_by_all;      /* and of such as read the rows of all executors */
    bool is_filled_otherwise; /* than by each executor with its own rows */
    bool is_filled_by_more;   /* than by each warp with its own 16 rows */
    bool is_stored_by_filler; /* by TMA */
} traffic;

static void note_fill(traffic *x, const model_role *role, const model_step *step) {
    enum { WARP_ROWS = 16 };
    const tl_copy *copy = &step->statement->copy;
    const model_tile *source = copy->from == TL_REGISTER && step->read_count
                                   ? &x->model->tiles[step->reads[0].tile]
                                   : NULL;
    bool by_tma = tl_is_by_tma(copy), by_rows = source && model_is_by_rows(source);
    x->tile->by_threads |= !by_tma;
    x->tile->lands_late |= !by_tma && step->is_async;
    x->is_filled_otherwise |= !by_rows;
    x->is_filled_by_more |= !by_rows || source->axes[0].extent != WARP_ROWS * role->warps;
}

static void note_copy(traffic *x, const model_role *role, const model_step *step) {
    const tl_copy *copy = &step->statement->copy;
    bool by_tma = tl_is_by_tma(copy);
    if (step->has_target && step->target.tile == x->number) note_fill(x, role, step);
    if (copy->from != TL_SHARED || !step->read_count || step->reads[0].tile != x->number) return;
    x->tile->goes_async |= by_tma;
    x->tile->is_loaded |= !by_tma;
    bool by_filler = x->tile->role >= 0 && role == &x->model->roles[x->tile->role];
    x->is_stored_by_filler |= by_tma && step->stores && by_filler;
}

/* Does each executor take the rows alone that it writes itself? A left operand is divided as the
 * result's rows are; turned, or on the right, or for executors side by side, all of it is read by
 * all.
 */
static bool takes_own_rows(const traffic *x, const model_step *step, const tl_operand *operand) {
    const tl_compute *c = &step->statement->compute;
    if (!step->has_target || operand != c->operands || operand->is_transposed) return false;
    const model_tile *result = &x->model->tiles[step->target.tile];
    const tl_layout *said = &result->allocation->allocate.layout;
    return !said->over_rows || said->over_columns <= 1;
}

static void note_operands(traffic *x, const model_step *step) {
    for (int i = 0; i < step->read_count; i++) {
        const model_use *use = &step->reads[i];
        if (use->tile != x->number || !use->operand || use->operand->value->kind != TL_NAME)
            continue;
        x->is_multiplied = true;
        x->tile->goes_async |= step->is_async;
        x->tile->is_loaded |= !step->is_async;
        x->is_read_by_all |= !takes_own_rows(x, step, use->operand);
    }
}

/* --- who releases it -------------------------------------------------------------------------- */

/* Does the role hold one generation at a time, by every Wait and Release in the order of the text?
 */
static bool holds_one(const model *m, int cursor) {
    const model_role *role = &m->roles[m->cursors[cursor].role];
    int *before = arena_array(m->memory, int, role->step_count), held = 0;
    for (int i = 0; i < role->step_count; i++) {
        const model_step *step = &role->steps[i];
        bool is_it = step->subject == SUBJECT_CHANNEL && step->what.cursor == cursor;
        before[i] = held;
        switch (step->kind) {
        case STEP_WAIT:
            if (is_it && held++) return false;
            break;
        case STEP_RELEASE:
            if (is_it && !held--) return false;
            break;
        case STEP_END_FOR:
        case STEP_END_IF:
        case STEP_END_TILES:
            if (held != before[step->other]) return false;
            break;
        default: break;
        }
    }
    return true;
}

/* Stores by TMA are all that the role does with it: who issues them knows when they end. */
static bool is_only_stored(const traffic *x, int role) {
    return x->tile->goes_async && !x->tile->is_loaded && !x->is_multiplied && role == x->tile->role;
}

/* What threads loaded themselves each of them releases: an order from lane to lane by way of one
 * that arrives for all is right, but tools that look for races do not see it.
 */
static model_releaser releaser_of(const traffic *x, int reader) {
    if (x->model->roles[reader].is_single) return RELEASE_BY_ROLE;
    if (x->tile->is_loaded) return RELEASE_BY_THREADS;
    if (!is_only_stored(x, reader)) return RELEASE_BY_WARPS;
    return x->tile->is_shared_out ? RELEASE_BY_EXECUTORS : RELEASE_BY_ROLE;
}

static int arrivals_of(const model_role *role, model_releaser by) {
    switch (by) {
    case RELEASE_BY_THREADS: return role->threads;
    case RELEASE_BY_WARPS: return role->warps;
    case RELEASE_BY_EXECUTORS: return role->executors;
    default: return 1;
    }
}

static void count_arrivals(model *m, const traffic *x) {
    model_tile *tile = x->tile;
    for (int c = 0; c < m->cursor_count; c++) {
        model_cursor *cursor = &m->cursors[c];
        if (cursor->tile != x->number) continue;
        tile->holds_several |= !holds_one(m, c);
        cursor->released_by = releaser_of(x, cursor->role);
        tile->empty_arrivals += arrivals_of(&m->roles[cursor->role], cursor->released_by);
    }
    bool by_one = tile->role < 0 || (tile->by_tma && !tile->by_threads);
    tile->full_arrivals = by_one ? 1 : m->roles[tile->role].threads;
}

/* --- in place of one another ------------------------------------------------------------------ */

static void find_partner(const model *m, model_tile *tile) {
    for (int i = 0; i < tile->partner_count; i++) {
        const model_tile *other = &m->tiles[tile->partners[i]];
        if (other->role == tile->role || other->role < 0 || tile->role < 0) continue;
        tile->turn_partner = tile->partners[i];
        tile->turn_partner_count++;
    }
}

/* --- all of it -------------------------------------------------------------------------------- */

static void find_traffic(model *m, int number) {
    model_tile *tile = &m->tiles[number];
    traffic x = {.model = m, .tile = tile, .number = number};
    for (int r = 0; r < m->role_count; r++) {
        for (int i = 0; i < m->roles[r].step_count; i++) {
            const model_step *step = &m->roles[r].steps[i];
            if (step->kind == STEP_COPY) note_copy(&x, &m->roles[r], step);
            if (step->kind == STEP_COMPUTE) note_operands(&x, step);
        }
    }
    tile->goes_async |= tile->by_tma && tile->by_threads; /* it writes over what threads wrote */
    tile->is_shared_out = tile->by_threads && !x.is_filled_otherwise && !tile->is_loaded &&
                          !tile->by_tma && !x.is_read_by_all;
    find_partner(m, tile);
    tile->frees = tile->uses_mbarrier || tile->turn_partner_count;
    tile->waits_late = !tile->frees && tile->stages == 1 && !tile->partner_count &&
                       x.is_stored_by_filler && !tile->by_tma;
    /* A warpgroup multiplies the rows of all its warps. */
    tile->is_by_warps =
        tile->is_shared_out && tile->waits_late && !x.is_filled_by_more && !x.is_multiplied;
    count_arrivals(m, &x);
}

void model_build_traffic(model *m) {
    for (int t = 0; t < m->tile_count; t++) {
        if (m->tiles[t].space == TL_SHARED) find_traffic(m, t);
    }
}

/* --- who runs beside whom --------------------------------------------------------------------- */

/* A role that does nothing but copies by TMA and waiting is one thread. */
static bool is_single(const model_role *role) {
    for (int i = 0; i < role->step_count; i++) {
        const model_step *step = &role->steps[i];
        bool works =
            step->kind == STEP_COMPUTE || step->kind == STEP_RESHAPE || step->kind == STEP_ALLOCATE;
        bool copies = step->kind == STEP_COPY && !tl_is_by_tma(&step->statement->copy);
        if (works || copies) return false;
    }
    return true;
}

static bool is_async(const model *m) {
    if (m->role_count > 1 || (m->grid && m->grid->grid.kind != TL_GRID_PLAIN) || m->turn_count)
        return true;
    for (int r = 0; r < m->role_count; r++) {
        for (int i = 0; i < m->roles[r].step_count; i++) {
            const model_step *step = &m->roles[r].steps[i];
            if (step->kind == STEP_COPY && tl_is_by_tma(&step->statement->copy)) return true;
            if (step->kind == STEP_COMPUTE && step->is_async) return true;
        }
    }
    return false;
}

static int whole_warpgroups(int warps) {
    return (warps + MODEL_WARPGROUP - 1) / MODEL_WARPGROUP * MODEL_WARPGROUP;
}

/* A role that sets its registers has whole warpgroups, and a warpgroup begins at a multiple of four
 * warps: those before it idle.
 */
void model_build_warps(model *m) {
    m->is_async = is_async(m);
    for (int r = 0; r < m->role_count; r++) {
        model_role *role = &m->roles[r];
        const tl_role *said = &role->statement->role;
        role->is_single = m->is_async && is_single(role);
        role->block_warps =
            m->is_async && said->registers ? whole_warpgroups(role->warps) : role->warps;
        for (int i = 0; m->is_async && said->is_warpgroups && i < r; i++)
            m->roles[i].block_warps = whole_warpgroups(m->roles[i].block_warps);
    }
    for (int r = 0; r < m->role_count; r++) {
        m->roles[r].first_warp = m->block_warps;
        m->block_warps += m->roles[r].block_warps;
    }
}
