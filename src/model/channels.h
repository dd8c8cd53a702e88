/* The machine of channels, rings and turns: what has been filled, waited for and released, and
 * which products and stores have not ended. It knows no data: the checks run it over small lengths
 * (check/events.h), the interpreter runs it over a launch's tiles (interpret/code.h), and each says
 * in its own words what an answer means (docs/language.md, Hazards).
 *
 * A channel is a shared tile: its filler's executors begin generations, each reader's cursor waits
 * for and releases them. A ring is a register tile with stages that asynchronous products open; a
 * ring of values is opened by the statement that writes it afresh.
 */
#ifndef FLASHTL_MODEL_CHANNELS_H
#define FLASHTL_MODEL_CHANNELS_H

#include "model/model.h"

typedef struct channels_source {
    int tile;
    int64_t generation;
} channels_source;

/* A product, or a store, that has not ended. */
typedef struct channels_flight {
    const tl_statement *statement;
    int tile; /* that a product writes; -1: a store */
    int64_t generation;
    const tl_symbol *stores; /* the tensor that a store writes */
    channels_source sources[MODEL_READS_MAX];
    int source_count;
} channels_flight;

/* Generations of a register tile with stages. */
typedef struct channels_ring {
    int64_t opened, waited, released;
    bool is_used; /* of a ring of values: the newest has been a product's operand */
} channels_ring;

typedef struct channels_process {
    int role, executor;
    int64_t *fills;                /* by tile: generations begun */
    int64_t *waits, *releases;     /* by cursor */
    channels_ring *rings;          /* by tile */
    bool *has_turn;                /* by turn */
    int *in_flight;                /* by tile: how often flights write or read it */
    LIST(channels_flight) flights; /* in order of issue */
} channels_process;

typedef struct channels {
    arena *memory;
    const model *model;
    channels_process *processes; /* role by role */
    int process_count;
    int *first, *count; /* by role: its processes */
    int *turn_holder;   /* by turn: the executor whose turn it is */
} channels;

typedef enum channels_fault {
    CHANNELS_OK,
    CHANNELS_BLOCKED,
    CHANNELS_NOT_WAITED,        /* no generation is held */
    CHANNELS_WRITTEN_IN_FLIGHT, /* a product that has not ended writes it */
    CHANNELS_READ_IN_FLIGHT,    /* one that has not ended reads it */
    CHANNELS_NOTHING_IN_FLIGHT, /* a Wait for what nobody began */
    CHANNELS_NOT_HELD,          /* a Release of what is not held */
    CHANNELS_HELD_ALREADY       /* a Wait for a turn that one has */
} channels_fault;

typedef struct channels_answer {
    channels_fault fault;
    const channels_flight *flight; /* CHANNELS_WRITTEN_IN_FLIGHT, _READ_IN_FLIGHT: which */
    int64_t generation;            /* CHANNELS_OK: that is meant, or was waited for or released */
} channels_answer;

/* A process for each executor, or ('each' false) for each that the model tells apart. */
channels *channels_new(arena *memory, const model *m, bool each);
void channels_reset(channels *c); /* to the beginning of a block */

/* A register tile whose generations products open and Waits take. */
bool channels_is_ring(const model_tile *tile);

/* --- shared tiles ----------------------------------------------------------------------------- */

/* Generations that any executor of the filler has begun. */
int64_t channels_begun(const channels *c, int tile);
/* May this executor of the filler take the next slot? Else *holder is the tile that holds it. */
bool channels_may_fill(const channels *c, const channels_process *p, int tile, int *holder);

/* --- reading and writing ---------------------------------------------------------------------- */

/* A register tile of one generation that no flight has to do with: what is asked, may be. */
static inline bool channels_is_idle(const channels *c, const channels_process *p, int number) {
    const model_tile *t = &c->model->tiles[number];
    return t->space == TL_REGISTER && t->stages == 1 && !p->in_flight[number];
}
/* The generation of a register tile that its name means: 0 of one without stages. */
int64_t channels_meant(const channels *c, const channels_process *p, int tile);
/* A read by this cursor (shared) of a tile; 'joins': by a product that follows others into it. */
channels_answer channels_read(const channels *c, const channels_process *p, int tile, int cursor,
                              bool joins);
/* A write to a register tile in the generation meant. */
channels_answer channels_write(const channels *c, const channels_process *p, int tile, bool joins);
/* Before a statement writes a ring of values afresh: begins a generation once the newest has been
 * used. Its slot is that of the generation 'stages' before, which nothing may read any more.
 */
channels_answer channels_open_value(const channels *c, channels_process *p, int tile);
/* Is a slot of the ring free for an asynchronous product? */
bool channels_may_open(const channels *c, const channels_process *p, int tile);
/* Notes that what a product reads has been its operand. */
void channels_use(channels_process *p, int tile);
void channels_launch(const channels *c, channels_process *p, channels_flight flight);
void channels_forget_flights(channels_process *p);

/* --- Wait and Release ------------------------------------------------------------------------- */

channels_answer channels_wait(channels *c, channels_process *p, int tile, int cursor);
channels_answer channels_wait_stores(channels_process *p, const tl_symbol *tensor);
channels_answer channels_wait_turn(const channels *c, channels_process *p, int turn);
channels_answer channels_release(const channels *c, channels_process *p, int tile, int cursor);
channels_answer channels_release_turn(channels *c, channels_process *p, int turn);

#endif
