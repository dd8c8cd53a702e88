/* How much a program computes: its products, counted from the text. */
#include "base/needs.h"
#include "compile/compile.h"

#include <string.h>

enum { PRODUCTS_MAX = 256 };

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

static void count_product(work_arguments *a, const tl_compute *c) {
    tl_tile_axis left[4], right[4];
    int left_count = tl_operand_axes(&c->operands[0], left);
    int right_count = tl_operand_axes(&c->operands[1], right);
    if (left_count < 1 || right_count < 1) return;
    if (is_known(a, (product){name_of(&c->operands[0]), name_of(&c->operands[1])})) return;
    str contracted = left[left_count - 1].index;
    str rows = left_count > 1 ? left[left_count - 2].index : STR("");
    str columns = right_count > 1 ? right[right_count - 1].index : STR("");
    const str own[3] = {rows, columns, contracted};
    double flops = 2 * count_tiles(a, own) * length_of(a, contracted);
    if (rows.length) flops *= length_of(a, rows);
    if (columns.length) flops *= length_of(a, columns);
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
            if (s->kind == TL_COMPUTE && s->compute.operation == TL_GEMM)
                count_product(a, &s->compute);
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
