/* The register layouts that TL's words mean. */
#include "model/build.h"

model_spread model_spread_of(const model_role *role, const tl_layout *said) {
    int across = said->over_columns > 0 ? said->over_columns : 1;
    if (said->over_rows > 0 && (int64_t)said->over_rows * across == role->executors)
        return (model_spread){said->over_rows, across};
    return (model_spread){role->executors, 1};
}

/* 'deep': on the way from a vector to its matrix. */
static layout_fit make(const model *m, int tile, const tl_layout *said, int deep, layout *out) {
    enum { DEEP = 8 };
    static const layout_fit nothing_fits = {.status = LAYOUT_UNKNOWN};
    if (tile < 0 || deep > DEEP) return nothing_fits;
    const model_tile *t = &m->tiles[tile];
    if (tl_is_vector_layout(said)) {
        const tl_symbol *of = said->of ? said->of->symbol : NULL;
        int matrix = of ? model_find_tile(m, of, TL_REGISTER) : -1;
        if (matrix < 0) return nothing_fits;
        layout whole;
        const tl_layout *base = &m->tiles[matrix].allocation->allocate.layout;
        layout_fit fit = make(m, matrix, base, deep + 1, &whole);
        if (fit.status != LAYOUT_OK) return fit;
        *out = layout_vector(&whole, said->kind == TL_ROWS ? LAYOUT_ROWS : LAYOUT_COLUMNS);
        if (said->is_partial) *out = layout_partial(out);
        return fit;
    }
    static const layout_kind kinds[] = {[TL_MMA_A] = LAYOUT_MMA_A,
                                        [TL_MMA_B] = LAYOUT_MMA_B,
                                        [TL_MMA_C] = LAYOUT_MMA_C,
                                        [TL_LINES] = LAYOUT_LINES};
    int count = t->axis_count, bits = tl_type_bits(t->type);
    if (said->kind == TL_LAYOUT_NONE || t->role < 0 || count < 1 || count > 2) return nothing_fits;
    for (int i = 0; i < count; i++)
        if (t->axes[i].extent < 1 || t->axes[i].extent > LAYOUT_EXTENT_MAX) return nothing_fits;
    const model_role *role = &m->roles[t->role];
    model_spread spread = model_spread_of(role, said);
    layout_request request = {.kind = kinds[said->kind],
                              .rows = count == 2 ? (int)t->axes[0].extent : 1,
                              .columns = (int)t->axes[count - 1].extent,
                              .element_bits = bits ? bits : 32,
                              .permuted = said->is_permuted,
                              .warps_down = spread.down,
                              .warps_across = spread.across,
                              .group = role->executor_warps};
    return said->kind == TL_LINES ? layout_lines(&request, out) : layout_make(&request, out);
}

bool model_layout(const model *m, int tile, const tl_layout *said, layout *out) {
    return make(m, tile, said, 0, out).status == LAYOUT_OK;
}

static bool same_words(const tl_layout *a, const tl_layout *b) {
    return a->kind == b->kind && a->is_partial == b->is_partial &&
           a->is_permuted == b->is_permuted && a->over_rows == b->over_rows &&
           a->over_columns == b->over_columns &&
           (a->of ? a->of->symbol : NULL) == (b->of ? b->of->symbol : NULL);
}

bool model_same_layout(const model *m, int tile_a, const tl_layout *a, int tile_b,
                       const tl_layout *b) {
    const model_tile *ta = &m->tiles[tile_a], *tb = &m->tiles[tile_b];
    bool same_extents = ta->axis_count == tb->axis_count;
    for (int i = 0; same_extents && i < ta->axis_count; i++) {
        same_extents = ta->axes[i].extent == tb->axes[i].extent;
    }
    if (same_words(a, b) && same_extents) return true;
    if (a->is_permuted != b->is_permuted) return false;
    layout la, lb;
    return model_layout(m, tile_a, a, &la) && model_layout(m, tile_b, b, &lb) &&
           layout_equal(&la, &lb);
}

bool model_same_words(const model *m, int tile, const tl_layout *a, const tl_layout *b) {
    if (a->kind != b->kind || a->is_partial != b->is_partial) return false;
    return !tl_is_vector_layout(a) ? same_words(a, b) : model_same_layout(m, tile, a, tile, b);
}

void model_complete_reshape(const tl_layout *is, tl_layout *from, tl_layout *to) {
    if (tl_is_vector_layout(from) && !from->of) from->of = is->of;
    if (tl_is_vector_layout(to) && !to->of) to->of = is->of ? is->of : from->of;
    if (!from->over_rows) from->over_rows = is->over_rows, from->over_columns = is->over_columns;
    if (!to->over_rows) to->over_rows = is->over_rows, to->over_columns = is->over_columns;
}

void model_build_layouts(model *m) {
    for (int i = 0; i < m->tile_count; i++) {
        model_tile *t = &m->tiles[i];
        layout l;
        if (t->space != TL_REGISTER) continue;
        t->fit = make(m, i, &t->allocation->allocate.layout, 0, &l);
        if (t->fit.status != LAYOUT_OK) continue;
        layout *kept = arena_new(m->memory, layout);
        *kept = l;
        t->layout = kept;
    }
}
