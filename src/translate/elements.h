/* One elementwise statement on the elements that a thread holds: what a loop over them contains. */
#ifndef FLASHTL_TRANSLATE_ELEMENTS_H
#define FLASHTL_TRANSLATE_ELEMENTS_H

#include "translate/emit.h"

enum { READS_MAX = 16, LIMITS_MAX = 8 };

/* A table's elements in a tile's columns, at one distance from each other. */
typedef struct once_line {
    const tl_expr *element;
    int axis; /* which of its indices goes by columns */
    str name;
} once_line;

typedef struct elements_item {
    const tl_statement *s;
    const emit_tile *frame; /* whose elements the loop runs over */
    const emit_tile *target;
    const emit_tile *reads[READS_MAX];
    int read_count;
    bool reduces;
    bool partial; /* reduces: the target keeps each lane's part */
    bool is_done;
    emit_reads once; /* elements of tables that are read before the loops, see once.c */
    LIST(once_line) lines;
} elements_item;

/* A comparison that is affine in the column index, with factor 1 or -1: then each row has one limit
 * for the columns, and an element takes one comparison of a constant with it.
 */
typedef struct elements_limit {
    const tl_expr *test;
    str name;
    bool by_row;
    int64_t slant; /* what the limit gains from row to row, where it is one for all of them */
    tl_operator operator; /* column offset OP limit */
} elements_limit;

typedef struct elements_mask {
    const elements_item *x;
    elements_limit limits[LIMITS_MAX];
    int count;
} elements_mask;

/* Reports that the statement has no translation; false. */
bool elements_refuse(emit *t, const tl_statement *s, const char *why);
/* Does the statement name the index? */
bool elements_use(const tl_statement *s, str index);
/* Index names of a statement in the order rows, columns; empty where the frame has no such axis. */
void elements_index_names(const elements_item *x, str names[2]);
bool elements_use_places(const elements_item *x);
/* Before the loop: the indices of the thread's first element, and the limits of a Mask. */
void elements_declare_first(emit *t, const elements_item *x);
/* What the index names mean for element e of a pair: `at` inside the loops, after declare_at; else
 * written out. 'indices' has room for two, and lasts as long as the scope.
 */
emit_scope elements_scope(emit *t, const elements_item *x, int e, bool is_written_out,
                          emit_index indices[2]);
/* limits.c: of the condition e */
void elements_find_limits(emit *t, elements_mask *m, const tl_expr *e);
/* "[m16][half]", where there is one for each row. */
const char *elements_limit_row(const elements_mask *m, const elements_limit *l);
bool elements_has_table_or_tile(emit *t, const tl_expr *e); /* does one take part? */
/* The name of an index of the thread's first element, and what the loops' variables add to it. */
str elements_index_first(emit *t, str name);
str elements_row_offset(emit *t, const emit_shape *s);
/* RowArgMax: where the tile's first column is on its axis. */
emit_value elements_first_column(emit *t, const elements_item *x);
/* The statement on the two elements of a pair, or the one of a vector. */
/* Bytes of the target are made of their numbers. */
bool elements_has_codes(const elements_item *x);
/* Does the text note whether one is 256 or more? */
bool elements_notes_high(emit *t, const elements_item *x);
void elements_statement(emit *t, const elements_item *x, const elements_mask *m);
/* Inside the loops too: a sum gets so many more elements, equal to the second of this pair. */
void elements_add_alike(emit *t, const elements_item *x, int count);

/* masks.c: masks by parts, and what runs do where a warp's rows see nothing of a part */
bool masks_by_parts(const elements_item *x);
void masks_statement(emit *t, const elements_mask *m);
/* The tile whose parts the run may leave out; NULL: it works out every element. */
const emit_tile *masks_source(const elements_item *const *items, int count);
void masks_run(emit *t, const elements_item *const *items, int count, const emit_tile *tile);

/* once.c: elements of tables that several elements of the tile need, read once */
void once_for_rows(emit *t, elements_item *x);
/* emit_open_frame, with what each column needs before the loop over its rows. */
int once_open_frame(emit *t, elements_item *const *items, int count);

/* near.c: a function that is a polynomial near 0; false: the run is another, nothing is written */
bool near_run(emit *t, const elements_item *const *items, int count);

#endif
