/* What the files that write a kernel share: what is needed in it, where each item stands, and
 * names. */
#ifndef FLASHTL_DERIVE_WRITER_H
#define FLASHTL_DERIVE_WRITER_H

#include "derive/write.h"

typedef enum section { BEFORE, INSIDE, AFTER, SECTIONS } section;

/* What is known of a value in one kernel. */
typedef struct shown {
    bool is_live;
    section ready;                        /* from where on it can be read */
    bool is_copied;                       /* from memory, in its type there */
    bool is_multiplied, is_computed_with; /* an operand of products; of anything else */
    str first;                            /* axis of its tile, where it has two */
    int last_use;                         /* key of the last item that reads it */
    str name;                             /* in registers; of a loaded one that products take, */
    str shared;                           /* and in shared memory */
} shown;

typedef LIST(str) words;

bool words_have(const words *w, str word);
void words_add(arena *memory, words *w, str word);

typedef struct writer {
    tape *t;
    const write_kernel *k;
    shown *values;
    section *sections; /* by item */
    bool *reads_sum;
    bool *is_added; /* by item: a part of a sum that is added in memory */
    int cut;        /* item: it has to be taken from a kernel before this one; TAPE_NONE */
    words taken;    /* names of this kernel's text */
    text_buffer lines[SECTIONS];
    text_buffer views; /* definitions of tiles that are copied the other way round */
} writer;

str writer_delta(const tape *t);
/* What an item is loaded from. */
str writer_tensor(const writer *w, const tape_item *item);
/* Appends the kernel: what it declares, then its statements. */
void writer_declare(writer *w, text_buffer *out);

/* Which values the kernel needs, and where each of their items stands. False: reported, or there is
 * a cut.
 */
bool writer_plan(writer *w);
/* Is the item copied from memory here? */
bool writer_loads(const writer *w, const tape_item *item);
/* What is copied from memory, where this is a sum along its first axis: tiles are reduced along
 * their rows, so it is copied the other way round. NULL: it is none.
 */
const tape_item *writer_sums_turned(const writer *w, const tape_item *item);
/* The Mask that leaves one entry's places of what is summed; NULL: there is none. */
const tape_item *writer_masked_by(const writer *w, const tape_item *sum);
/* Is it read element by element, so that products that it meets may lie the other way round than it
 * does in memory, and be summed along their rows?
 */
bool writer_reads_elements(const writer *w, const tape_item *load);
/* Is it a sum that the loop makes, where tiles add others in memory? These come at a round's end,
 * after all that is made for them: no weights of one product are kept beside those of another.
 */
bool writer_is_late(const writer *w, int item);
/* Items in the order of the text. */
int writer_key(const writer *w, int item);
bool writer_same_axes(const tape_value *a, const tape_value *b); /* in either order */
#endif
