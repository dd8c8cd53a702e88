/* Over which loop, and so along which axis, a Softmax of a sketch runs. */
#include "tl/names.h"

static bool index_walks(const tl_kernel *kernel, const tl_statement *loop, str index,
                        const tl_expr *length) {
    const tl_symbol *symbol = index.length ? tl_find_index(kernel, index) : NULL;
    return symbol && symbol->extent && tl_expr_equal(symbol->extent, length) &&
           tl_loop_walks_index(kernel, loop, length, index);
}

/* Whether a Copy takes one index of an axis of this length out of its tensor. */
static bool copy_takes_index(const tl_kernel *kernel, const tl_statement *loop,
                             const tl_statement *s, const tl_expr *length) {
    tl_end source = tl_copy_source(s);
    if (source.space != TL_GLOBAL || !source.symbol || !source.symbol->axes) return false;
    int begin = tl_matrix_begin(source.symbol->axes);
    for (int i = 0; i < begin; i++) {
        if (index_walks(kernel, loop, tl_axis_index(source.symbol->axes, i), length)) return true;
    }
    return false;
}

static bool contains(tl_symbol *const *items, int count, const tl_symbol *symbol) {
    for (int i = 0; i < count; i++) {
        if (items[i] == symbol) return true;
    }
    return false;
}

/* Whether 'tile' is made, before 'at' and inside 'loop', from something copied by single indices.
 */
static bool depends_by_index(const tl_kernel *kernel, const tl_statement *loop,
                             const tl_statement *at, const tl_symbol *tile, const tl_expr *length) {
    enum { MADE_MAX = 64 };
    tl_symbol *made[MADE_MAX];
    int count = 0;
    for (tl_statement *s = loop->loop.body.first; s && s != at; s = tl_next(s, loop)) {
        const tl_expr *target = tl_written_name(s);
        bool is_made = s->kind == TL_COPY && copy_takes_index(kernel, loop, s, length);
        for (int i = 0; s->kind == TL_COMPUTE && i < s->compute.operand_count; i++) {
            is_made |= contains(made, count, s->compute.operands[i].value->symbol);
        }
        if (!is_made || !target || !target->symbol || count == MADE_MAX) continue;
        made[count++] = target->symbol;
    }
    return contains(made, count, tile);
}

void tl_softmax_axis(const tl_kernel *kernel, const tl_statement *softmax,
                     const tl_statement **loop, int *axis) {
    const tl_expr *name = softmax->compute.operands[0].value;
    const tl_tile *tile = tl_tile_of(name);
    *loop = NULL;
    *axis = tile ? tile->axis_count - 1 : 0;
    if (!tile) return;
    int last = *axis;
    /* the outermost loop wins: it is the last one on the way up */
    for (const tl_statement *s = softmax->parent; s; s = s->parent) {
        const tl_expr *length, *size;
        if (s->kind != TL_FOR || s->loop.is_grid_walk || !tl_loop_walks(s, &length, &size))
            continue;
        int found = -2;
        for (int i = 0; i < tile->axis_count; i++) {
            if (index_walks(kernel, s, tile->axes[i].index, length)) found = i;
        }
        if (found == -2 && depends_by_index(kernel, s, softmax, name->symbol, length)) found = -1;
        if (found == -2) continue;
        *loop = s;
        *axis = found;
    }
    if (!*loop) *axis = last;
}
