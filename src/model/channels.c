#include "model/channels.h"

#include <string.h>

bool channels_is_ring(const model_tile *tile) {
    return tile->space == TL_REGISTER && tile->stages > 1 && !tile->is_value_ring;
}

static channels_process process_new(arena *memory, const model *m, int role, int executor) {
    return (channels_process){
        .role = role,
        .executor = executor,
        .fills = arena_array(memory, int64_t, m->tile_count + 1),
        .waits = arena_array(memory, int64_t, m->cursor_count + 1),
        .releases = arena_array(memory, int64_t, m->cursor_count + 1),
        .rings = arena_array(memory, channels_ring, m->tile_count + 1),
        .has_turn = arena_array(memory, bool, m->turn_count + 1),
        .in_flight = arena_array(memory, int, m->tile_count + 1),
    };
}

channels *channels_new(arena *memory, const model *m, bool each) {
    channels *c = arena_new(memory, channels);
    *c = (channels){.memory = memory, .model = m};
    c->first = arena_array(memory, int, m->role_count + 1);
    c->count = arena_array(memory, int, m->role_count + 1);
    c->turn_holder = arena_array(memory, int, m->turn_count + 1);
    for (int r = 0; r < m->role_count; r++) {
        c->first[r] = c->process_count;
        c->count[r] = each ? m->roles[r].executors : m->roles[r].processes;
        c->process_count += c->count[r];
    }
    c->processes = arena_array(memory, channels_process, c->process_count + 1);
    for (int r = 0; r < m->role_count; r++) {
        for (int i = 0; i < c->count[r]; i++)
            c->processes[c->first[r] + i] = process_new(memory, m, r, i);
    }
    return c;
}

void channels_reset(channels *c) {
    const model *m = c->model;
    memset(c->turn_holder, 0, sizeof(int) * (size_t)m->turn_count);
    for (int i = 0; i < c->process_count; i++) {
        channels_process *p = &c->processes[i];
        memset(p->fills, 0, sizeof(int64_t) * (size_t)m->tile_count);
        memset(p->waits, 0, sizeof(int64_t) * (size_t)m->cursor_count);
        memset(p->releases, 0, sizeof(int64_t) * (size_t)m->cursor_count);
        memset(p->rings, 0, sizeof(channels_ring) * (size_t)m->tile_count);
        memset(p->has_turn, 0, sizeof(bool) * (size_t)m->turn_count);
        channels_forget_flights(p);
    }
}

/* --- shared tiles ----------------------------------------------------------------------------- */

/* Generations that all executors of the filler have begun. */
static int64_t landed(const channels *c, int tile) {
    int filler = c->model->tiles[tile].role;
    if (filler < 0) return 0;
    int64_t landed = INT64_MAX;
    for (int i = 0; i < c->count[filler]; i++) {
        int64_t fills = c->processes[c->first[filler] + i].fills[tile];
        if (fills < landed) landed = fills;
    }
    return landed;
}

int64_t channels_begun(const channels *c, int tile) {
    int filler = c->model->tiles[tile].role;
    int64_t begun = 0;
    for (int i = 0; filler >= 0 && i < c->count[filler]; i++) {
        int64_t fills = c->processes[c->first[filler] + i].fills[tile];
        if (fills > begun) begun = fills;
    }
    return begun;
}

/* Have all readers released the first 'wanted' generations of the channel? */
static bool all_released(const channels *c, int tile, int64_t wanted) {
    const model_tile *t = &c->model->tiles[tile];
    for (int k = 0; k < t->cursor_count; k++) {
        int cursor = t->cursors[k], role = c->model->cursors[cursor].role;
        for (int i = 0; i < c->count[role]; i++) {
            if (c->processes[c->first[role] + i].releases[cursor] < wanted) return false;
        }
    }
    return true;
}

/* One role that fills both partners takes them in the order of its text; two roles fill the bytes
 * in strict turns, in order of declaration. What nobody reads holds no bytes: it is reported as
 * never waited for.
 */
bool channels_may_fill(const channels *c, const channels_process *p, int tile, int *holder) {
    const model_tile *t = &c->model->tiles[tile];
    *holder = tile;
    if (!t->cursor_count) return true;
    if (!all_released(c, tile, p->fills[tile] - t->stages + 1)) return false;
    for (int k = 0; k < t->partner_count; k++) {
        int u = t->partners[k];
        const model_tile *partner = &c->model->tiles[u];
        if (!partner->cursor_count) continue;
        bool in_turns = partner->role >= 0 && partner->role != t->role;
        int64_t wanted = in_turns ? p->fills[tile] + (u < tile) : channels_begun(c, u);
        *holder = u;
        if (!all_released(c, u, wanted)) return false;
    }
    return true;
}

/* --- reading and writing ---------------------------------------------------------------------- */

int64_t channels_meant(const channels *c, const channels_process *p, int tile) {
    const channels_ring *r = &p->rings[tile];
    if (c->model->tiles[tile].is_value_ring) return r->opened ? r->opened - 1 : 0;
    return channels_is_ring(&c->model->tiles[tile]) ? r->waited - 1 : 0;
}

static const channels_flight *flight_into(const channels_process *p, int tile, int64_t generation) {
    for (int i = 0; i < p->flights.count; i++) {
        const channels_flight *f = &p->flights.items[i];
        if (f->tile == tile && f->generation == generation) return f;
    }
    return NULL;
}

static const channels_flight *flight_reading(const channels_process *p, int tile,
                                             int64_t generation) {
    for (int i = 0; i < p->flights.count; i++) {
        const channels_flight *f = &p->flights.items[i];
        for (int k = 0; k < f->source_count; k++) {
            if (f->sources[k].tile == tile && f->sources[k].generation == generation) return f;
        }
    }
    return NULL;
}

/* Of a register tile: is a generation there that its name can mean? */
static bool is_held(const channels *c, const channels_process *p, int tile) {
    const channels_ring *r = &p->rings[tile];
    return !channels_is_ring(&c->model->tiles[tile]) || r->waited > r->released;
}

channels_answer channels_read(const channels *c, const channels_process *p, int tile, int cursor,
                              bool joins) {
    if (c->model->tiles[tile].space == TL_SHARED) {
        bool held = cursor >= 0 && p->waits[cursor] > p->releases[cursor];
        if (!held) return (channels_answer){.fault = CHANNELS_NOT_WAITED};
        return (channels_answer){.generation = p->waits[cursor] - 1};
    }
    if (!is_held(c, p, tile)) return (channels_answer){.fault = CHANNELS_NOT_WAITED};
    int64_t meant = channels_meant(c, p, tile);
    const channels_flight *into = joins ? NULL : flight_into(p, tile, meant);
    return (channels_answer){into ? CHANNELS_WRITTEN_IN_FLIGHT : CHANNELS_OK, into, meant};
}

channels_answer channels_write(const channels *c, const channels_process *p, int tile, bool joins) {
    if (!is_held(c, p, tile)) return (channels_answer){.fault = CHANNELS_NOT_WAITED};
    int64_t meant = channels_meant(c, p, tile);
    const channels_flight *into = joins ? NULL : flight_into(p, tile, meant);
    if (into) return (channels_answer){CHANNELS_WRITTEN_IN_FLIGHT, into, meant};
    const channels_flight *reading = flight_reading(p, tile, meant);
    return (channels_answer){reading ? CHANNELS_READ_IN_FLIGHT : CHANNELS_OK, reading, meant};
}

channels_answer channels_open_value(const channels *c, channels_process *p, int tile) {
    channels_ring *r = &p->rings[tile];
    if (r->opened && !r->is_used) return (channels_answer){.generation = r->opened - 1};
    const channels_flight *reading =
        flight_reading(p, tile, r->opened - c->model->tiles[tile].stages);
    int64_t generation = r->opened++;
    r->is_used = false;
    return (channels_answer){reading ? CHANNELS_READ_IN_FLIGHT : CHANNELS_OK, reading, generation};
}

bool channels_may_open(const channels *c, const channels_process *p, int tile) {
    const channels_ring *r = &p->rings[tile];
    return r->opened - r->released < c->model->tiles[tile].stages;
}

void channels_use(channels_process *p, int tile) {
    if (tile >= 0) p->rings[tile].is_used = true;
}

/* Counts a flight's tiles when it begins, and off when it ends. */
static void count_tiles(channels_process *p, const channels_flight *f, int by) {
    if (f->tile >= 0) p->in_flight[f->tile] += by;
    for (int i = 0; i < f->source_count; i++) p->in_flight[f->sources[i].tile] += by;
}

void channels_launch(const channels *c, channels_process *p, channels_flight flight) {
    list_push(c->memory, &p->flights, flight);
    count_tiles(p, &flight, 1);
}

void channels_forget_flights(channels_process *p) {
    for (int i = 0; i < p->flights.count; i++) count_tiles(p, &p->flights.items[i], -1);
    p->flights.count = 0;
}

/* --- Wait and Release ------------------------------------------------------------------------- */

/* Products of an executor land in order, everything up to the last one into the tile; stores are a
 * queue of their own and stay.
 */
static bool land_products(channels_process *p, int tile, bool any, int64_t generation) {
    int last = -1, kept = 0;
    for (int i = 0; i < p->flights.count; i++) {
        const channels_flight *f = &p->flights.items[i];
        if (f->tile == tile && (any || f->generation == generation)) last = i;
    }
    for (int i = 0; i < p->flights.count; i++) {
        bool lands = i <= last && p->flights.items[i].tile >= 0;
        if (lands) count_tiles(p, &p->flights.items[i], -1);
        else p->flights.items[kept++] = p->flights.items[i];
    }
    p->flights.count = kept;
    return last >= 0;
}

static channels_answer wait_register(const channels *c, channels_process *p, int tile) {
    channels_ring *r = &p->rings[tile];
    bool is_ring = channels_is_ring(&c->model->tiles[tile]);
    if (is_ring && r->opened == r->waited)
        return (channels_answer){.fault = CHANNELS_NOTHING_IN_FLIGHT};
    bool landed = land_products(p, tile, !is_ring, r->waited);
    if (is_ring) return (channels_answer){.generation = r->waited++};
    return (channels_answer){.fault = landed ? CHANNELS_OK : CHANNELS_NOTHING_IN_FLIGHT};
}

channels_answer channels_wait(channels *c, channels_process *p, int tile, int cursor) {
    if (c->model->tiles[tile].space == TL_REGISTER) return wait_register(c, p, tile);
    if (cursor < 0 || landed(c, tile) <= p->waits[cursor])
        return (channels_answer){.fault = CHANNELS_BLOCKED};
    return (channels_answer){.generation = p->waits[cursor]++};
}

channels_answer channels_wait_stores(channels_process *p, const tl_symbol *tensor) {
    int kept = 0, before = p->flights.count;
    for (int i = 0; i < before; i++) {
        bool ends = p->flights.items[i].tile < 0 && p->flights.items[i].stores == tensor;
        if (ends) count_tiles(p, &p->flights.items[i], -1);
        else p->flights.items[kept++] = p->flights.items[i];
    }
    p->flights.count = kept;
    return (channels_answer){.fault = kept < before ? CHANNELS_OK : CHANNELS_NOTHING_IN_FLIGHT};
}

channels_answer channels_wait_turn(const channels *c, channels_process *p, int turn) {
    if (p->has_turn[turn]) return (channels_answer){.fault = CHANNELS_HELD_ALREADY};
    if (c->turn_holder[turn] != p->executor) return (channels_answer){.fault = CHANNELS_BLOCKED};
    p->has_turn[turn] = true;
    return (channels_answer){0};
}

channels_answer channels_release(const channels *c, channels_process *p, int tile, int cursor) {
    bool is_register = c->model->tiles[tile].space == TL_REGISTER;
    if (!is_register && cursor < 0) return (channels_answer){.fault = CHANNELS_NOT_HELD};
    int64_t waited = is_register ? p->rings[tile].waited : p->waits[cursor];
    int64_t *released = is_register ? &p->rings[tile].released : &p->releases[cursor];
    if (waited <= *released) return (channels_answer){.fault = CHANNELS_NOT_HELD};
    const channels_flight *reading = flight_reading(p, tile, *released);
    int64_t generation = (*released)++;
    return (channels_answer){reading ? CHANNELS_READ_IN_FLIGHT : CHANNELS_OK, reading, generation};
}

channels_answer channels_release_turn(channels *c, channels_process *p, int turn) {
    if (!p->has_turn[turn]) return (channels_answer){.fault = CHANNELS_NOT_HELD};
    p->has_turn[turn] = false;
    c->turn_holder[turn] = (p->executor + 1) % c->count[p->role];
    return (channels_answer){0};
}
