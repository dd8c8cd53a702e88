/* wgmma: operands in shared memory by their descriptors, and the product itself.
 *
 * PTX ISA, "Matrix Descriptor Format" and "Strides", in one sentence: a matrix is made of pieces of
 * 16 bytes; eight of them, 16 bytes apart (or as wide as the swizzle), are a core matrix; two
 * offsets lead to the next core matrix along the rows and along k. K-major pieces hold 16 bytes
 * of k of one row, MN-major ones 8 rows of one k. Warp w of the group owns rows 16w to 16w + 15,
 * and holds them as mma.m16n8 does, eight columns after eight columns.
 */
#include "emulate/machine.h"

typedef struct operand {
    uint32_t start, leading, stride; /* bytes */
    uint32_t span;                   /* of the swizzle; 16: none */
    uint32_t base;                   /* where the swizzle's pattern begins, in rows of 128 bytes */
    bool mn_major;
} operand;

static operand operand_of(uint64_t descriptor, bool mn_major) {
    static const uint32_t spans[] = {16, 128, 64, 32};
    return (operand){.start = (uint32_t)(descriptor & 0x3fff) << 4,
                     .leading = (uint32_t)(descriptor >> 16 & 0x3fff) << 4,
                     .stride = (uint32_t)(descriptor >> 32 & 0x3fff) << 4,
                     .span = spans[descriptor >> 62],
                     .base = (uint32_t)(descriptor >> 49 & 7),
                     .mn_major = mn_major};
}

/* K-major: 'mn' counts rows and 'k' pieces; MN-major: the other way round. */
static uint32_t piece(const operand *o, uint32_t mn, uint32_t k) {
    uint32_t at = o->start;
    if (o->mn_major && o->span == 16) {
        at += mn * o->stride + k % 8 * 16 + k / 8 * o->leading;
    } else if (o->mn_major) {
        uint32_t wide = o->span / 16;
        at += mn % wide * 16 + mn / wide * o->leading + k % 8 * o->span + k / 8 * o->stride;
    } else {
        at += mn / 8 * o->stride + mn % 8 * o->span + k * (o->span == 16 ? o->leading : 16);
    }
    at &= 0x3ffff;
    return at ^ (((at >> 7) - o->base) << 4 & (o->span - 16));
}

int wgmma_pieces(const ptx_wgmma *form, uint64_t descriptor, bool is_a, int warp_in_group,
                 uint32_t offsets[WGMMA_PIECES_MAX]) {
    operand o = operand_of(descriptor, is_a ? form->transposes_a : form->transposes_b);
    uint32_t rows = is_a ? 16 : (uint32_t)form->n_count;
    uint32_t first = is_a ? 16 * (uint32_t)warp_in_group : 0;
    uint32_t mn = o.mn_major ? first / 8 : first, past = mn + (o.mn_major ? rows / 8 : rows);
    int count = 0;
    for (; mn < past; mn++)
        for (uint32_t k = 0; k < (o.mn_major ? (uint32_t)form->k_count : 2u); k++)
            offsets[count++] = piece(&o, mn, k);
    return count;
}

/* Eight pieces, one after the other. */
static void take_rows(const machine *m, const operand *o, uint32_t mn, uint32_t k,
                      uint32_t words[LANES]) {
    for (uint32_t n = 0; n < 8; n++) {
        uint32_t at = o->mn_major ? piece(o, mn, k + n) : piece(o, mn + n, k);
        memcpy(words + 4 * n, m->shared + at, 16);
    }
}

static void negate(float *numbers, int count) {
    for (int n = 0; n < count; n++) numbers[n] = -numbers[n];
}

/* A's 16 rows of a warp. */
static void take_factor(machine *m, const ptx_wgmma *form, const machine_product *p, int warp,
                        sums_rows *to) {
    const machine_warp *w = &m->warps[warp];
    int k_count = form->k_count, wide = k_count / 2; /* numbers in 16 bytes */
    operand o = operand_of(p->a, form->transposes_a);
    uint32_t first = 16 * (uint32_t)(warp % MACHINE_GROUP_WARPS), words[LANES];
    const int32_t *list = m->function->lists.items + form->a_list;
    for (int n = 0; n < 4; n++) {
        int half = n % 2, piece_of_k = n / 2;
        float *at = to->a[piece_of_k * wide] + 8 * half;
        if (form->a_list >= 0) {
            product_expand_by_k(m, form->a_number, machine_words(m, w, list[n]), at, 16);
        } else if (!o.mn_major) {
            take_rows(m, &o, first + 8 * (uint32_t)half, (uint32_t)piece_of_k, words);
            product_expand_by_k(m, form->a_number, words, at, 16);
        } else {
            take_rows(m, &o, first / 8 + (uint32_t)half, 8 * (uint32_t)piece_of_k, words);
            product_expand(m, form->a_number, words, at, 16);
        }
    }
    if (form->negates_a) negate(to->a[0], 16 * k_count);
    sums_prepare_rows(to, k_count, m->sums, form->a_number);
}

typedef float four __attribute__((vector_size(16)));

/* Eight columns in the order of sums_columns. */
static void order_columns(float *columns) {
    four low, high, even, odd;
    memcpy(&low, columns, sizeof low);
    memcpy(&high, columns + 4, sizeof high);
    even = __builtin_shufflevector(low, high, 0, 2, 4, 6);
    odd = __builtin_shufflevector(low, high, 1, 3, 5, 7);
    memcpy(columns, &even, sizeof even);
    memcpy(columns + 4, &odd, sizeof odd);
}

/* B's columns 8j to 8j + 7. */
static void take_columns(const machine *m, const ptx_wgmma *form, const operand *o, int j,
                         sums_columns *columns) {
    uint32_t words[LANES];
    for (int n = 0; n < 2; n++) {
        float(*to)[8] = columns->b + n * form->k_count / 2;
        if (!o->mn_major) {
            take_rows(m, o, 8 * (uint32_t)j, (uint32_t)n, words);
            product_expand_columns(m, form->b_number, words, to);
            continue;
        }
        take_rows(m, o, (uint32_t)j, 8 * (uint32_t)n, words);
        product_expand(m, form->b_number, words, to[0], 8);
        for (int k = 0; k < 8; k++) order_columns(to[k]);
    }
    if (form->negates_b) negate(columns->b[0], 8 * form->k_count);
    sums_prepare_columns(columns, form->k_count, m->sums, form->b_number);
}

static void prepare(sums_product *product, const ptx_wgmma *form) {
    product->k_count = form->k_count;
    product->rule = sums_rule_of_group(form->a_number, form->k_count);
    product->halves = form->d_number == PTX_F16;
    product->sum_least = product->halves ? -14 : -126;
}

/* One warp's rows of the product. */
static void multiply_rows(machine *m, const ptx_wgmma *form, const machine_product *p,
                          machine_warp *w, sums_product *product) {
    const ptx_function *f = m->function;
    int registers = product->halves ? 2 : 4;
    for (int j = 0; j < form->n_count / 8; j++) {
        const int32_t *list = f->lists.items + form->d_list + j * registers;
        uint32_t *sums[4];
        for (int r = 0; r < registers; r++) sums[r] = w->sums[f->row_numbers[list[r]]];
        if (p->adds) product_gather(product, sums);
        else memset(product->sum, 0, sizeof product->sum);
        product->columns = &m->wgmma_columns[j];
        sums_multiply(product, m->sums);
        product_scatter(product, sums);
    }
}

void wgmma_multiply(machine *m, int warpgroup, const machine_product *p) {
    const ptx_wgmma *form = &m->function->wgmmas.items[m->code[p->pc].list];
    operand second = operand_of(p->b, form->transposes_b);
    sums_product product;
    sums_rows rows;
    prepare(&product, form);
    product.rows = &rows;
    for (int j = 0; j < form->n_count / 8; j++)
        take_columns(m, form, &second, j, &m->wgmma_columns[j]);
    for (int v = 0; v < MACHINE_GROUP_WARPS; v++) {
        machine_warp *w = &m->warps[warpgroup * MACHINE_GROUP_WARPS + v];
        take_factor(m, form, p, w->index, &rows);
        multiply_rows(m, form, p, w, &product);
    }
}
