/* A walk of the grid whose length is known at launch (`s in splits`), on which a loop's length
 * depends (`min(share, kv_len - s*share)`, `share` by `splits`): so many blocks share what the loop
 * walks, and a later kernel puts their results together. Nothing in the code depends on the number;
 * whoever launches has to choose it, by what is said here.
 */
#include "reason/shares.h"

#include "gpu/gpu.h"
#include "reason/nominal.h"
#include "reason/scalar.h"

#include <math.h>

enum {
    START_CLOCKS = 12000, /* from a launch until all blocks are busy, and from the first idle block
                             to the end */
    JOIN_CLOCKS = 3200,   /* the launch that puts results together, for any number of them */
    JOIN_ROUND = 715,     /* for each ROUND of them, whose loads are in flight together */
    JOIN_ONE = 310,       /* for each of the rest */
    ROUND = 8             /* as the translator unrolls it */
};

typedef struct sharing {
    reason *r;
    const cost_choice *choice;
    str length; /* that says how many blocks share a loop */
    cost_result t;
} sharing;

static bool find_length(reason *r, str *name) {
    const tl_statement *grid = scalar_grid(r->kernel);
    int64_t known;
    for (int i = 0; grid && i < grid->grid.count; i++) {
        const tl_expr *extent = grid->grid.items[i].extent;
        *name = extent->text;
        if (extent->kind != TL_NAME || reason_known(r, extent, &known)) continue;
        for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL))
            if (s->kind == TL_FOR && scalar_depends_on(r, s->loop.to, *name)) return true;
    }
    return false;
}

/* The model's answer for a tile when so many blocks share a loop. */
static bool read_cut(sharing *s, int64_t splits) {
    reason *r = s->r;
    const char *pin = reason_say(r, "nominal_%.*s", STR_ARGS(s->length));
    int64_t usual = 0;
    bool is_pinned = reason_let_integer(r, pin, &usual);
    if (is_pinned) edit_remove_let(r->kernel, str_from(pin));
    reason_let(r, pin, splits);
    const cost_model *m = cost_read(r);
    if (m) s->t = cost_of(m, s->choice);
    edit_remove_let(r->kernel, str_from(pin));
    if (is_pinned) reason_let(r, pin, usual);
    return m && s->t.fits && s->t.alone > 0;
}

/* Clocks of the whole launch and of what follows. Bytes and what each block does in a row are busy
 * together, but not perfectly; a multiprocessor runs 'resident' blocks side by side.
 */
static double clocks_of(const sharing *s, double tiles, double splits) {
    static const double MEMORY_SHARE = 0.97, TOGETHER = 3.2;
    double sms = (double)s->r->target->sms;
    double reads = tiles * splits / sms * s->t.read / MEMORY_SHARE;
    double alone = ceil(tiles * splits / sms / s->t.resident) * s->t.alone;
    double join = JOIN_CLOCKS + floor(splits / ROUND) * JOIN_ROUND + fmod(splits, ROUND) * JOIN_ONE;
    return START_CLOCKS + pow(pow(reads, TOGETHER) + pow(alone, TOGETHER), 1 / TOGETHER) + join;
}

enum { ROWS_MOST = 6 };

typedef struct share_row {
    double tiles, splits, microseconds, gigabytes;
} share_row;

static void choose(sharing *s, share_row rows[ROWS_MOST]) {
    static const int64_t counts[] = {1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128};
    const gpu *g = s->r->target;
    double bytes_per_clock = g->memory * 1e9 / ((double)g->sms * g->clock * 1e6), whole = 0;
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        if (!read_cut(s, counts[k])) return;
        if (k == 0) whole = s->t.read * bytes_per_clock; /* bytes of a tile that nothing shares */
        for (int i = 0; i < ROWS_MOST; i++) {
            double us = clocks_of(s, rows[i].tiles, (double)counts[k]) / g->clock;
            if (rows[i].microseconds > 0 && us >= rows[i].microseconds) continue;
            rows[i].splits = (double)counts[k];
            rows[i].microseconds = us;
            rows[i].gigabytes = rows[i].tiles * whole / us * 1e-3;
        }
    }
}

enum { TILES, SPLITS, MICROSECONDS, GIGABYTES };

static void fill(reason *r, reason_table *table, const char *name, const char *unit,
                 const share_row rows[ROWS_MOST], int what) {
    reason_column *column = reason_add_column(r, table, name, unit);
    for (int i = 0; i < ROWS_MOST; i++) {
        const double of[] = {rows[i].tiles, rows[i].splits, rows[i].microseconds,
                             rows[i].gigabytes};
        column->cells[i] = str_format(r->memory, "%.*f", what == MICROSECONDS ? 1 : 0, of[what]);
    }
}

void shares_explain(reason *r, const cost_choice *choice) {
    sharing s = {.r = r, .choice = choice};
    if (choice->warpgroups > 0 || !find_length(r, &s.length)) return;
    share_row rows[ROWS_MOST] = {{.tiles = 1},  {.tiles = 8},   {.tiles = 32},
                                 {.tiles = 64}, {.tiles = 256}, {.tiles = 512}};
    choose(&s, rows);
    if (rows[0].microseconds <= 0) return;
    reason_decision *d = reason_decide(
        r, "blocks that share a loop",
        "%.*s, known at launch, says how many: the more, the more multiprocessors are busy while "
        "other tiles are few; the fewer, the less there is to put together. No result depends on "
        "the choice but by rounding",
        STR_ARGS(s.length));
    reason_table *table = reason_compare(r, d, "the fastest for the nominal lengths", ROWS_MOST);
    fill(r, table, "other tiles", "", rows, TILES);
    fill(r, table, edit_z(r->memory, s.length), "", rows, SPLITS);
    fill(r, table, "time", "us", rows, MICROSECONDS);
    fill(r, table, "read", "GB/s", rows, GIGABYTES);
}
