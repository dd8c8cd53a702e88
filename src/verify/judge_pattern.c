/* Where an output is wrong, axis by axis: which indices hold a wrong element, and whether they are
 * the last tile, one warp's rows, every so many, or all.
 */
#include "verify/judge.h"

#include <inttypes.h>
#include <string.h>

/* The indices along one axis that hold wrong elements. */
typedef struct axis_set {
    const char *name;
    uint8_t *has;
    int64_t extent, count, runs, first, end; /* of the first run */
    int64_t tile;                            /* what a block takes of it; 0: not known */
} axis_set;

static void add_index(axis_set *set, int64_t index) {
    set->count += !set->has[index];
    set->has[index] = 1;
}

static void find_runs(axis_set *set) {
    for (int64_t i = 0; i < set->extent; i++) {
        bool begins = set->has[i] && (i == 0 || !set->has[i - 1]);
        if (begins && !set->runs++) set->first = i;
        if (set->has[i] && set->runs == 1) set->end = i + 1;
    }
}

/* Are these the rows that one warp has of each tile: [w s, (w + 1) s) of every 'tile'? */
static int64_t warp_share(const axis_set *set) {
    for (int64_t share = 8; share * 2 <= set->tile; share *= 2) {
        int64_t warp = set->first % set->tile / share;
        bool fits = set->tile % share == 0;
        for (int64_t i = 0; fits && i < set->extent; i++) {
            fits = set->has[i] == (i % set->tile / share == warp);
        }
        if (fits) return share;
    }
    return 0;
}

static void describe_runs(const axis_set *set, text_buffer *out) {
    if (set->runs > 1) {
        text_format(out, "%" PRId64 " of %" PRId64 " %s, first ", set->count, set->extent,
                    set->name);
    } else {
        text_format(out, "%s ", set->name);
    }
    if (set->end == set->first + 1) text_format(out, "%" PRId64, set->first);
    else text_format(out, "%" PRId64 "..%" PRId64, set->first, set->end - 1);
    if (set->runs <= 1) text_format(out, " of %" PRId64, set->extent);
}

static void describe_axis(const axis_set *set, text_buffer *out) {
    if (set->count == set->extent) {
        text_format(out, "all %s", set->name);
        return;
    }
    describe_runs(set, out);
    int64_t share = set->tile ? warp_share(set) : 0;
    bool is_last = set->runs == 1 && set->end == set->extent && set->tile &&
                   set->first % set->tile == 0 && set->extent - set->first <= set->tile &&
                   set->first > 0;
    if (is_last) {
        text_format(out, " (the last tile of %" PRId64 ")", set->tile);
    } else if (share) {
        text_format(out, " (one warp's: %" PRId64 " of each %" PRId64 ")", share, set->tile);
    } else if (set->runs == 1 && set->first == 0 && set->end == set->tile) {
        text_format(out, " (the first tile of %" PRId64 ")", set->tile);
    } else if (set->runs == 1 && set->first % 8 == 0 && set->end % 8 == 0) {
        text_format(out, " (a block of %" PRId64 ")", set->end - set->first);
    }
}

void judge_pattern(const ftl_plan *plan, const buffer *of, const uint8_t *bad, arena *memory,
                   text_buffer *out) {
    axis_set sets[FTL_AXES_MAX] = {{0}};
    int axes = of->argument.axis_count;
    int64_t count = 0, box = 1;
    for (int i = 0; i < axes; i++) {
        const ftl_plan_axis *axis = &of->of->axes[i];
        sets[i].name = axis->name, sets[i].extent = of->argument.extents[i];
        sets[i].has = arena_array(memory, uint8_t, sets[i].extent + 1);
        if (axis->size >= 0 && sets[i].extent > 1) {
            int64_t tiles[4];
            if (inputs_tiles(plan, axis->size, tiles, 4)) sets[i].tile = tiles[0];
        }
    }
    for (int64_t row = 0; row < of->rows; row++) {
        int64_t index[FTL_AXES_MAX];
        buffer_row_index(of, row, index);
        for (int64_t c = 0; c < of->columns; c++) {
            if (!bad[row * of->columns + c]) continue;
            count++;
            for (int i = 0; i + 1 < axes; i++) add_index(&sets[i], index[i]);
            add_index(&sets[axes - 1], c);
        }
    }
    if (count == 0) { /* as where results below the type's smallest number become 0 */
        text_add_z(out, "no element by itself, only all together");
        return;
    }
    for (int i = 0; i < axes; i++) {
        find_runs(&sets[i]);
        box *= sets[i].count;
        if (sets[i].extent == 1) continue;
        if (out->length) text_add_z(out, ", ");
        describe_axis(&sets[i], out);
    }
    if (count * 2 < box) {
        text_format(out, ", scattered: %.1f %% of them", 100.0 * (double)count / (double)box);
    }
}
