/* How much a program computes: its products, counted from the text. */
#include "base/needs.h"
#include "compile/compile.h"

#include <string.h>

enum {
    PRODUCTS_MAX = 256,
    CHAIN_MOST = 16 /* statements from a Copy to a product */
};

/* A product as the text has it; one that stands twice is counted once. */
typedef struct product {
    str left, right;
} product;

typedef struct work_arguments {
    const ftl_source *source;
    const ftl_scalar *sizes;
    int32_t size_count;
    double flops;
    const tl_kernel *kernel; /* the one at hand */
    product known[PRODUCTS_MAX];
    int known_count;
    str missing; /* a name without a value */
} work_arguments;

static bool look_up(void *user, const tl_expr *e, tl_value *value) {
    work_arguments *a = user;
    str name = e->symbol ? e->symbol->name : e->text;
    for (int32_t i = 0; i < a->size_count; i++) {
        if (!str_is(name, a->sizes[i].name)) continue;
        *value = (tl_value){.integer = (int64_t)a->sizes[i].value};
        return true;
    }
    if (e->symbol && e->symbol->kind == TL_SYMBOL_CONSTANT) return false;
    if (e->symbol && e->symbol->kind == TL_SYMBOL_INDEX) { /* all tiles count as the first one */
        *value = (tl_value){.integer = 0};
        return true;
    }
    a->missing = name;
    return false;
}

/* The length of the axes that carry an index name; 0 when unknown. */
static double length_of(work_arguments *a, str index) {
    const tl_symbol *symbol = tl_find_index(a->kernel, index);
    tl_value value;
    if (!symbol || !symbol->extent || !tl_evaluate(symbol->extent, look_up, a, &value)) {
        if (!a->missing.length) a->missing = index;
        return 0;
    }
    return value.is_real ? value.real : (double)value.integer;
}

static bool is_known(work_arguments *a, product p) {
    for (int i = 0; i < a->known_count; i++) {
        if (str_equal(a->known[i].left, p.left) && str_equal(a->known[i].right, p.right))
            return true;
    }
    if (a->known_count < PRODUCTS_MAX) a->known[a->known_count++] = p;
    return false;
}

static str name_of(const tl_operand *operand) {
    const tl_expr *e = operand->value;
    return e->symbol ? e->symbol->name : e->text;
}

/* --- axes that one loop walks together ---------------------------------------------------------
 */

/* Is what the tile holds along the axis a block of what the loop walks: brought in it, or computed
 * of such a tile?
 */
static bool is_block_of(tl_statement *loop, const tl_operand *o, str index, int depth) {
    tl_tile_axis axes[4];
    bool has_index = false;
    for (int i = tl_operand_axes(o, axes) - 1; i >= 0; i--)
        has_index = has_index || str_equal(axes[i].index, index);
    if (!has_index || depth == CHAIN_MOST) return false;
    for (tl_statement *s = tl_next(loop, loop); s; s = tl_next(s, loop)) {
        const tl_expr *to = s->kind == TL_COMPUTE ? s->compute.target
                            : s->kind == TL_COPY  ? tl_copy_into(s)
                                                  : NULL;
        if (!to || !str_equal(to->text, o->value->text)) continue;
        if (s->kind == TL_COPY) return s->copy.from == TL_GLOBAL;
        for (int i = 0; i < s->compute.operand_count; i++)
            if (is_block_of(loop, &s->compute.operands[i], index, depth + 1)) return true;
    }
    return false;
}

/* Of a loop `for j = 0:LENGTH/SIZE` of a sketch: how much of an axis a product in it sees that
 * another of its axes is walked with; 0: all of it.
 */
static double block_length(work_arguments *a, const tl_statement *s, str index) {
    const tl_symbol *symbol = tl_find_index(a->kernel, index);
    for (tl_statement *loop = s->parent; loop && symbol; loop = loop->parent) {
        const tl_expr *to = loop->kind == TL_FOR ? loop->loop.to : NULL;
        if (!to || to->kind != TL_BINARY ||
            to->operator!= TL_OVER || !symbol->extent || !tl_expr_equal(to->left, symbol->extent))
            continue;
        bool is_block = false;
        for (int i = 0; i < s->compute.operand_count; i++)
            is_block = is_block || is_block_of(loop, &s->compute.operands[i], index, 0);
        tl_value size;
        str missing = a->missing; /* an open size is none that a caller could give */
        bool is_known = is_block && tl_evaluate(to->right, look_up, a, &size);
        a->missing = missing;
        if (is_known && size.integer > 0) return (double)size.integer;
    }
    return 0;
}

/* What the grid walks beside a product's own axes: those of an Output before its matrix. */
static double count_tiles(work_arguments *a, const str own[3]) {
    for (const tl_statement *s = a->kernel->body.first; s; s = s->next) {
        if (s->kind != TL_OUTPUT) continue;
        double count = 1;
        for (int i = 0; i < s->parameter.axes.count; i++) {
            str index = tl_axis_index(&s->parameter.axes, i);
            bool is_own = !index.length;
            for (int k = 0; k < 3; k++) is_own = is_own || str_equal(index, own[k]);
            if (!is_own && i < tl_matrix_begin(&s->parameter.axes)) count *= length_of(a, index);
        }
        return count;
    }
    return 1;
}

static void count_product(work_arguments *a, const tl_statement *s) {
    const tl_compute *c = &s->compute;
    tl_tile_axis left[4], right[4];
    int left_count = tl_operand_axes(&c->operands[0], left);
    int right_count = tl_operand_axes(&c->operands[1], right);
    if (left_count < 1 || right_count < 1) return;
    if (is_known(a, (product){name_of(&c->operands[0]), name_of(&c->operands[1])})) return;
    str contracted = left[left_count - 1].index;
    str rows = left_count > 1 ? left[left_count - 2].index : STR("");
    str columns = right_count > 1 ? right[right_count - 1].index : STR("");
    const str own[3] = {rows, columns, contracted};
    double flops = 2 * count_tiles(a, own);
    bool is_walked = false; /* by a loop, as another of the axes is: of the second one a block */
    for (int i = 0; i < 3; i++) {
        if (!own[i].length) continue;
        double block = block_length(a, s, own[i]), length = length_of(a, own[i]);
        flops *= is_walked && block > 0 && block < length ? block : length;
        is_walked = is_walked || block > 0;
    }
    a->flops += flops;
}

static ftl_status count(ftl_context *context, void *arguments) {
    work_arguments *a = arguments;
    tl_program *program = compile_bind(context, a->source);
    if (!program) return compile_verdict(context);
    for (tl_kernel *k = program->first; k; k = k->next) {
        a->kernel = k;
        a->known_count = 0;
        if (!tl_infer_axes(k, &context->memory, &context->diags)) return compile_verdict(context);
        for (tl_statement *s = k->body.first; s; s = tl_next(s, NULL)) {
            if (s->kind == TL_COMPUTE && s->compute.operation == TL_GEMM) count_product(a, s);
        }
    }
    if (!a->missing.length) return FTL_OK;
    return ftl_context_fail(context, FTL_INVALID_ARGUMENT, "the size %.*s has no value",
                            STR_ARGS(a->missing));
}

ftl_status ftl_flops(ftl_context *context, const ftl_source *source, const ftl_scalar *sizes,
                     int32_t size_count, double *flops) {
    NEEDS(context);
    NEEDS(flops);
    *flops = 0;
    NEEDS(source);
    bool is_list = size_count == 0 || (size_count > 0 && sizes);
    for (int32_t i = 0; is_list && i < size_count; i++) is_list = sizes[i].name != NULL;
    if (!is_list) {
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "the list of sizes is null, or a name");
    }
    work_arguments a = {.source = source, .sizes = sizes, .size_count = size_count};
    ftl_status status = compile_guarded(context, count, &a);
    *flops = status ? 0 : a.flops;
    return status;
}
