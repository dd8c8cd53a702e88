/* The register layout that TL's words mean. */
#include "check/check.h"

static bool extents_of(const tl_symbol *symbol, int64_t extents[2], int *count) {
    const tl_statement *s = symbol->in_register.allocation;
    if (!s) return false;
    *count = s->allocate.shape.count;
    if (*count < 1 || *count > 2) return false;
    for (int i = 0; i < *count; i++) {
        if (!tl_known_integer(s->allocate.shape.items[i], &extents[i])) return false;
        if (extents[i] < 1 || extents[i] > LAYOUT_EXTENT_MAX) return false;
    }
    return true;
}

static bool make(const tl_symbol *tile, const tl_layout *said, int warps, int depth, layout *out,
                 layout_fit *fit) {
    enum { OF_DEEP = 8 };
    int64_t extents[2];
    int count;
    *fit = (layout_fit){LAYOUT_OK, 0, 0};
    if (!tile || depth > OF_DEEP) return false;
    if (said->kind == TL_ROWS || said->kind == TL_COLUMNS) {
        const tl_symbol *of = said->of ? said->of->symbol : NULL;
        layout whole;
        if (!of || !of->in_register.allocation) return false;
        const tl_layout *base = &of->in_register.allocation->allocate.layout;
        if (!make(of, base, warps, depth + 1, &whole, fit)) return false;
        *out = layout_vector(&whole, said->kind == TL_ROWS ? LAYOUT_ROWS : LAYOUT_COLUMNS);
        if (said->is_partial) *out = layout_partial(out);
        return true;
    }
    if (!extents_of(tile, extents, &count)) return false;
    layout_request request = {.warps_down = warps, .warps_across = 1};
    request.rows = count == 2 ? (int)extents[0] : 1;
    request.columns = (int)extents[count - 1];
    int type_bytes = tl_type_bytes(tile->in_register.allocation->allocate.type);
    request.element_bytes = type_bytes ? type_bytes : 4;
    request.permuted = said->is_permuted;
    switch (said->kind) {
    case TL_MMA_A: request.kind = LAYOUT_MMA_A; break;
    case TL_MMA_B: request.kind = LAYOUT_MMA_B; break;
    case TL_MMA_C: request.kind = LAYOUT_MMA_C; break;
    case TL_LINES: request.kind = LAYOUT_LINES; break;
    default: return false;
    }
    if (said->over_rows > 0) {
        request.warps_down = said->over_rows;
        request.warps_across = said->over_columns > 0 ? said->over_columns : 1;
        int64_t places = (int64_t)request.warps_down * request.warps_across;
        request.group = places <= warps ? warps / (int)places : 1;
    }
    *fit = layout_make(&request, out);
    return fit->status == LAYOUT_OK;
}

bool check_layout_make(const tl_symbol *tile, const tl_layout *said, int warps, layout *out,
                       layout_fit *fit) {
    return make(tile, said, warps, 0, out, fit);
}
