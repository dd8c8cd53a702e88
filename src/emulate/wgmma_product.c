/* wgmma: operands in shared memory by their descriptors, and the product itself.
 *
 * PTX ISA, "Matrix Descriptor Format" and "Strides", in one sentence: a matrix is made of pieces of
 * 16 bytes; eight of them, 16 bytes apart (or as wide as the swizzle), are a core matrix; two
 * offsets lead to the next core matrix along the rows and along k. K-major pieces hold 16 bytes
 * of k of one row, MN-major ones 8 rows of one k. Warp w of the group owns rows 16w to 16w + 15,
 * and holds them as mma.m16n8 does, eight columns after eight columns.
 */
#include "emulate/machine.h"

#include "emulate/sums.h"

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
                        lanes_rows *to) {
    const machine_warp *w = &m->warps[warp];
    int k_count = form->k_count, wide = k_count / 2; /* numbers in 16 bytes */
    operand o = operand_of(p->a, form->transposes_a);
    uint32_t first = 16 * (uint32_t)(warp % MACHINE_GROUP_WARPS), words[LANES];
    const int32_t *list = m->function->lists.items + form->a_list;
    for (int n = 0; n < 4; n++) {
        int half = n % 2, piece_of_k = n / 2;
        float *at = to->a + half * 8 * k_count + piece_of_k * wide;
        if (form->a_list >= 0) {
            product_expand(m, form->a_number, machine_words(m, w, list[n]), at, k_count);
        } else if (!o.mn_major) {
            take_rows(m, &o, first + 8 * (uint32_t)half, (uint32_t)piece_of_k, words);
            product_expand(m, form->a_number, words, at, k_count);
        } else {
            float by_k[8][8];
            take_rows(m, &o, first / 8 + (uint32_t)half, 8 * (uint32_t)piece_of_k, words);
            product_expand(m, form->a_number, words, by_k[0], 8);
            for (int r = 0; r < 8; r++)
                for (int k = 0; k < 8; k++) at[r * k_count + k] = by_k[k][r];
        }
    }
    if (form->negates_a) negate(to->a, 16 * k_count);
    sums_prepare_rows(to, k_count, m->set, form->a_number);
}

/* B's columns 8j to 8j + 7, in the accumulators' order. */
static void take_columns(const machine *m, const ptx_wgmma *form, const operand *o, int j,
                         lanes_columns *columns) {
    uint32_t words[LANES];
    for (int n = 0; n < 2; n++) {
        float(*to)[8] = columns->b + n * form->k_count / 2;
        if (!o->mn_major) {
            take_rows(m, o, 8 * (uint32_t)j, (uint32_t)n, words);
            product_expand_columns(m, form->b_number, words, to);
            continue;
        }
        float by_k[8][8];
        take_rows(m, o, (uint32_t)j, 8 * (uint32_t)n, words);
        product_expand(m, form->b_number, words, by_k[0], 8);
        for (int k = 0; k < 8; k++)
            for (int c = 0; c < 8; c++) to[k][c / 2 + c % 2 * 4] = by_k[k][c];
    }
    if (form->negates_b) negate(columns->b[0], 8 * form->k_count);
    sums_prepare_columns(columns, form->k_count, m->set, form->b_number);
}

static void prepare(lanes_product *product, const ptx_wgmma *form) {
    sums_rule rule = sums_rule_of_group(form->a_number, form->k_count);
    product->k_count = form->k_count;
    product->group = rule.group;
    product->fraction_bits = rule.fraction_bits;
    product->result_bits = rule.result_bits;
    product->halves = form->d_number == PTX_F16;
    product->sum_least = product->halves ? -14 : -126;
}

/* Whether two products add to the same registers in the same way. */
bool wgmma_continues(const machine *m, const machine_product *p, const machine_product *next) {
    const ptx_function *f = m->function;
    const ptx_wgmma *a = &f->wgmmas.items[m->code[p->pc].list];
    const ptx_wgmma *b = &f->wgmmas.items[m->code[next->pc].list];
    if (a == b) return true;
    if (a->n_count != b->n_count || a->d_number != b->d_number) return false;
    const int32_t *sums = f->lists.items;
    return memcmp(sums + a->d_list, sums + b->d_list, (size_t)a->d_count * sizeof *sums) == 0;
}

/* Eight columns of one warp, through all products. */
static void multiply_columns(machine *m, const machine_product *const *p, int count,
                             lanes_product *products, uint32_t *const sums[4]) {
    bool halves = products[0].halves;
    if (p[0]->adds) product_gather(halves, sums, products[0].sum);
    for (int n = 0; n < count; n++) {
        lanes_product *product = &products[n];
        if (!p[n]->adds) memset(product->sum, 0, sizeof product->sum);
        else if (n) memcpy(product->sum, products[n - 1].sum, sizeof product->sum);
        for (uint32_t left = m->set->multiply(product); left; left &= left - 1u)
            sums_row(product, machine_first_lane(left));
    }
    product_scatter(halves, sums, products[count - 1].sum);
}

void wgmma_multiply(machine *m, int warpgroup, const machine_product *const *p, int count) {
    const ptx_function *f = m->function;
    lanes_product products[WGMMA_CHAIN_MAX];
    lanes_columns columns[WGMMA_CHAIN_MAX];
    const ptx_wgmma *forms[WGMMA_CHAIN_MAX];
    operand operands[WGMMA_CHAIN_MAX];
    lanes_rows(*rows)[MACHINE_GROUP_WARPS] = m->wgmma_rows;
    int first = warpgroup * MACHINE_GROUP_WARPS;
    for (int n = 0; n < count; n++) {
        forms[n] = &f->wgmmas.items[m->code[p[n]->pc].list];
        operands[n] = operand_of(p[n]->b, forms[n]->transposes_b);
        prepare(&products[n], forms[n]);
        products[n].columns = &columns[n];
        for (int v = 0; v < MACHINE_GROUP_WARPS; v++)
            take_factor(m, forms[n], p[n], first + v, &rows[n][v]);
    }
    int registers = products[0].halves ? 2 : 4;
    for (int j = 0; j < forms[0]->n_count / 8; j++) {
        for (int n = 0; n < count; n++) take_columns(m, forms[n], &operands[n], j, &columns[n]);
        const int32_t *list = f->lists.items + forms[0]->d_list + j * registers;
        for (int v = 0; v < MACHINE_GROUP_WARPS; v++) {
            machine_warp *w = &m->warps[first + v];
            uint32_t *sums[4];
            for (int r = 0; r < registers; r++) sums[r] = w->sums[f->row_numbers[list[r]]];
            for (int n = 0; n < count; n++) products[n].rows = &rows[n][v];
            multiply_columns(m, p, count, products, sums);
        }
    }
}
