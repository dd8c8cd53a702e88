/* TL Code being run: shared by code*.c.
 *
 * Executors are coroutines over a list of instructions. An asynchronous effect is computed when it
 * is issued, but every use of it between there and the latest moment at which it may land is a
 * finding; so a program without findings cannot tell the difference.
 */
#ifndef FLASHTL_INTERPRET_CODE_H
#define FLASHTL_INTERPRET_CODE_H

#include "interpret/grid.h"
#include "interpret/machine.h"
#include "model/channels.h"

enum { CODE_EXECUTORS_MAX = 64 };

/* --- channels --------------------------------------------------------------------------------- */

/* What the slots of a shared tile hold. */
typedef struct code_channel {
    const tl_symbol *symbol; /* NULL: the tile of that number is a register tile */
    int stages;
    tile *slots;
    const tl_statement *filler;
} code_channel;

/* --- executors -------------------------------------------------------------------------------- */

/* A register tile of one executor: 'stages' slots; one that is no ring uses slot 0. */
typedef struct code_register {
    const tl_symbol *symbol;
    int number; /* of the model's tile */
    int stages;
    tile *slots;
    tl_layout layout;
    const tl_statement *layout_since;
    bool stores_alone; /* of executors that hold the same rows, the one that stores them */
} code_register;

typedef struct code code;

typedef struct code_executor {
    code *code;
    const model_role *role;
    channels_process *sync;
    int at; /* next step */
    bool is_done;
    scope scope, following;    /* what names mean now, and in this block's next tile */
    int64_t next_tile;         /* position in the list of tiles */
    int64_t *ends;             /* of loops, by step */
    code_register **registers; /* by symbol position */
    tile **parts;              /* views of shared tiles, by symbol position */
} code_executor;

struct code {
    machine *m;
    const model *model;
    channels *sync;
    code_channel *channels; /* by number of the model's tile */
    int *channel_of;        /* by symbol position; -1 */
    LIST(code_executor *) executors;
    grid_tiles grid;
    bool is_plain;             /* a block has one tile */
    int64_t block, block_step; /* this block takes tiles block, block + step, ... */
};

typedef enum code_outcome { CODE_DONE, CODE_BLOCKED, CODE_FAILED } code_outcome;

/* --- code_channel.c --------------------------------------------------------------------------- */

bool code_find_channels(code *k);
bool code_too_many_tiles(code *k, const tl_statement *at);   /* false, with a report */
int code_channel_of(const code *k, const tl_symbol *symbol); /* through views; -1 */
code_outcome code_wait(code_executor *e, const tl_statement *s);
code_outcome code_release(code_executor *e, const tl_statement *s);
/* The slot that a name of a shared tile means now, for reading; NULL is reported. */
tile *code_slot(code_executor *e, const tl_expr *name, channels_source *source);
void code_check_end(code_executor *e, const tl_statement *s, const char *of_what);
void code_check_block(code *k);

/* --- code_register.c -------------------------------------------------------------------------- */

bool code_make_registers(code_executor *e);
/* Elements of part 'part' when 'count' are dealt out in equal parts. */
void code_split(int64_t count, int part, int parts, int64_t *first, int64_t *end);
code_register *code_register_of(code_executor *e, const tl_expr *name);
tile *code_slot_of(const code_register *r, int64_t generation);
/* A register tile to read, or to write; NULL is reported (in flight, poison, still read). An
 * asynchronous product may follow another into the same tile: 'is_product'.
 */
tile *code_read_register(code_executor *e, const tl_expr *name, channels_source *source);
tile *code_write_register(code_executor *e, const tl_expr *name, bool is_product);
/* Before a statement writes a ring of values: opens the generation that it is to write. */
void code_open_value(code_executor *e, const tl_expr *name, const tl_statement *s);
void code_set_written(tile *t, const tl_statement *s);
void code_set_layout(code_register *r, const tl_layout *said, const tl_statement *s);
void code_set_fresh_layout(code_register *r, const tl_statement *s); /* that of its Allocate */
/* False, with a report: a layout that breaks 'rule' ('wanted' makes a hint), a partial sum where a
 * whole one is needed, elements of other executors, two tiles that are at different places.
 */
bool code_stop_layout(code_executor *e, const tl_expr *name, const code_register *r, str rule,
                      const char *wanted);
bool code_check_whole(code_executor *e, const tl_expr *name, const code_register *r);
bool code_check_share(code_executor *e, const tl_expr *name, const tile *operand,
                      const tile *target);
bool code_check_origin(code_executor *e, const tl_expr *at, const tile *a, int axis_a, str name_a,
                       const tile *b, int axis_b, str name_b);
void code_take_origin(tile *to, int axis, const tile *from, int from_axis);
void code_forget_origin(tile *t);
void code_note(code_executor *e, const tl_statement *s); /* "here", if s is not NULL */
str code_number_text(machine *m, int64_t value);

/* --- code_copy.c, code_compute.c, code_act.c -------------------------------------------------- */

/* An operand, wherever it is, with what it is for the queue of products; NULL is reported. */
tile *code_read_operand(code_executor *e, const tl_expr *name, channels_source *source);
const tile *code_tile(scope *s, const tl_expr *name, const tl_statement *at);
code_outcome code_copy(code_executor *e, const tl_statement *s);
code_outcome code_compute(code_executor *e, const tl_statement *s);
code_outcome code_act(code_executor *e, const tl_statement *s);
str code_executor_text(const code_executor *e);

#endif
