/* Matrices in registers: ldmatrix, stmatrix, movmatrix, mma.
 *
 * PTX ISA, "Matrix Fragments for mma.m16n8k16 ..." and its neighbours, in one sentence: a register
 * of A or B, over the 32 lanes, is a matrix of 8 rows of 16 bytes, lane 4r+c holding bytes 4c to
 * 4c+3 of row r. A's registers go down its rows first (rows 0-7, rows 8-15), then along k; B's rows
 * are its columns n, and its registers go along k. An accumulator's register 2h+e holds row 8h+r,
 * column 2c+e.
 */
#include "emulate/machine.h"

#include "emulate/number.h"

static void rows_of(const machine *m, const machine_warp *w, const int32_t *list, int count,
                    uint32_t *rows[]) {
    for (int n = 0; n < count; n++) rows[n] = machine_words(m, w, list[n]);
}

/* Lane 4r+c gets elements (2c, r) and (2c+1, r): element (r, k) of the result is (k, r) of it. */
static void transpose(uint32_t to[LANES], const uint32_t from[LANES]) {
    const uint16_t *source = (const uint16_t *)(const void *)from;
    uint16_t halves[64];
    for (int r = 0; r < 8; r++)
        for (int c = 0; c < 8; c++) halves[c * 8 + r] = source[r * 8 + c];
    memcpy(to, halves, sizeof halves);
}

/* PTX ISA, ldmatrix: lanes 8j to 8j+7 hold the row addresses of matrix j. Returns the lanes whose
 * addresses are good.
 */
static uint32_t find_matrices(machine *m, machine_warp *w, const ptx_instruction *i,
                              uint32_t offsets[LANES], uint32_t *rows[4]) {
    uint32_t used = i->count == 4 ? ~0u : (1u << 8 * i->count) - 1u;
    uint32_t good = memory_shared_offsets(m, w, i, used, 16, offsets);
    rows_of(m, w, m->function->lists.items + i->list, i->count, rows);
    traffic_shared(&m->counts[i - m->code], offsets, good, 16);
    return good;
}

void product_load_matrix(machine *m, machine_warp *w, const ptx_instruction *i) {
    int32_t pc = (int32_t)(i - m->code);
    uint32_t offsets[LANES], *rows[4], good = find_matrices(m, w, i, offsets, rows);
    for (int j = 0; j < i->count; j++) {
        uint32_t matrix[LANES];
        for (int r = 0; r < 8; r++) {
            int lane = 8 * j + r;
            if (good >> lane & 1u) {
                shadow_read(m, w, STAMP_ANY_LANE, offsets[lane], 16, pc);
                memcpy(matrix + 4 * r, m->shared + offsets[lane], 16);
            } else {
                for (int c = 0; c < 4; c++) matrix[4 * r + c] = MACHINE_POISON;
            }
        }
        if (i->flags & PTX_TRANSPOSED) transpose(rows[j], matrix);
        else memcpy(rows[j], matrix, sizeof matrix);
    }
}

void product_store_matrix(machine *m, machine_warp *w, const ptx_instruction *i) {
    int32_t pc = (int32_t)(i - m->code);
    uint32_t offsets[LANES], *rows[4], good = find_matrices(m, w, i, offsets, rows);
    for (int j = 0; j < i->count; j++) {
        uint32_t matrix[LANES];
        if (i->flags & PTX_TRANSPOSED) transpose(matrix, rows[j]);
        else memcpy(matrix, rows[j], sizeof matrix);
        for (int r = 0; r < 8; r++) {
            int lane = 8 * j + r;
            if (!(good >> lane & 1u)) continue;
            shadow_write(m, w, STAMP_ANY_LANE, offsets[lane], 16, pc, matrix + 4 * r);
            memcpy(m->shared + offsets[lane], matrix + 4 * r, 16);
        }
    }
}

void product_move_matrix(machine *m, machine_warp *w, const ptx_instruction *i) {
    uint32_t from[LANES];
    memcpy(from, machine_row(m, w, i->in[0]), sizeof from);
    transpose(machine_words(m, w, i->d), from);
}

void product_expand(const machine *m, ptx_number number, const uint32_t *row, float *to,
                    int stride) {
    const uint8_t *bytes = (const uint8_t *)(const void *)row;
    number_format format = number == PTX_E4M3 ? NUMBER_E4M3 : NUMBER_E5M2;
    switch (number) {
    case PTX_F16: m->set->rows_f16(to, stride, row); return;
    case PTX_BF16: m->set->rows_bf16(to, stride, row); return;
    case PTX_TF32:
        for (int l = 0; l < LANES; l++) to[l / 4 * stride + l % 4] = number_from_tf32(row[l]);
        return;
    default: break;
    }
    for (int b = 0; b < 128; b++) {
        float *place = &to[b / 16 * stride + b % 16];
        if (number == PTX_S8) *place = (float)(int8_t)bytes[b];
        else if (number == PTX_U8) *place = (float)bytes[b];
        else *place = number_expand(bytes[b], format);
    }
}

void product_expand_by_k(const machine *m, ptx_number number, const uint32_t *row, float *to,
                         int stride) {
    float rows[8][16];
    int count = number == PTX_F16 || number == PTX_BF16 ? 8 : number == PTX_TF32 ? 4 : 16;
    product_expand(m, number, row, rows[0], 16);
    if (count == 4) {
        for (int r = 0; r < 8; r++)
            for (int k = 0; k < 4; k++) to[k * stride + r] = rows[r][k];
        return;
    }
    for (int k = 0; k < count; k += 8) m->set->transpose(to + k * stride, stride, rows[0] + k, 16);
}

/* Columns in the order 0 2 4 6 1 3 5 7: then half a row is one accumulator register's four lanes.
 */
void product_expand_columns(const machine *m, ptx_number number, const uint32_t *row,
                            float (*to)[8]) {
    uint32_t ordered[LANES];
    for (int c = 0; c < 8; c++) memcpy(ordered + 4 * (c / 2 + c % 2 * 4), row + 4 * c, 16);
    product_expand_by_k(m, number, ordered, to[0], 8);
}

void product_gather(sums_product *p, uint32_t *const c[4]) {
    for (int h = 0; h < 2; h++)
        if (p->halves) {
            for (int l = 0; l < LANES; l++) {
                p->sum[0][h * LANES + l] = number_from_f16(c[h][l] & 0xffffu);
                p->sum[1][h * LANES + l] = number_from_f16(c[h][l] >> 16);
            }
        } else {
            for (int e = 0; e < 2; e++) memcpy(p->sum[e] + h * LANES, c[2 * h + e], PTX_ROW_BYTES);
        }
}

void product_scatter(const sums_product *p, uint32_t *const d[4]) {
    for (int h = 0; h < 2; h++)
        if (p->halves) {
            for (int l = 0; l < LANES; l++)
                d[h][l] = number_to_f16(p->sum[0][h * LANES + l]) |
                          number_to_f16(p->sum[1][h * LANES + l]) << 16;
        } else {
            for (int e = 0; e < 2; e++) memcpy(d[2 * h + e], p->sum[e] + h * LANES, PTX_ROW_BYTES);
        }
}

/* 8-bit integers: exact in 32 bits, so floats will not do. */
static void multiply_integers(const machine *m, const machine_warp *w, const ptx_instruction *i,
                              uint32_t *const d[4], uint32_t *const a[4], uint32_t *const b[2],
                              uint32_t *const c[4]) {
    float x[16 * 32] = {0}, y[8 * 32] = {0};
    int k_count = i->count, pieces = k_count / 16, halves = i->flags & PTX_HALF ? 1 : 2;
    (void)w;
    for (int n = 0; n < halves * pieces; n++)
        product_expand(m, (ptx_number)i->number, a[n],
                       x + n % halves * 8 * k_count + n / halves * 16, k_count);
    for (int n = 0; n < pieces; n++)
        product_expand(m, (ptx_number)i->operation, b[n], y + n * 16, k_count);
    for (int row = 0; row < 8 * halves; row++)
        for (int column = 0; column < 8; column++) {
            int slot = row / 8 * 2 + column % 2, lane = row % 8 * 4 + column / 2;
            int64_t sum = (int32_t)c[slot][lane];
            for (int k = 0; k < k_count; k++)
                sum += (int64_t)x[row * k_count + k] * (int64_t)y[column * k_count + k];
            d[slot][lane] = (uint32_t)sum;
        }
}

/* Whether a factor with these contents is there; if not, it is from now on. */
static bool is_held(machine_contents *held, ptx_number number, int k_count, uint32_t *const words[],
                    int count) {
    bool same = held->number == (int)number + 1 && held->k_count == k_count;
    for (int n = 0; same && n < count; n++)
        same = memcmp(held->words[n], words[n], sizeof held->words[n]) == 0;
    if (same) return true;
    held->number = (int)number + 1;
    held->k_count = k_count;
    for (int n = 0; n < count; n++) memcpy(held->words[n], words[n], sizeof held->words[n]);
    return false;
}

/* The expanded first factor, made now or for an earlier product with the same contents. */
static const sums_rows *rows_of_factor(machine *m, const ptx_instruction *i, int32_t row,
                                       uint32_t *const a[4], int count) {
    /* Fragments of A are at regular distances: their numbers are mixed. */
    machine_factor *f = &m->factors[((uint32_t)row * 2654435761u >> 16) % MACHINE_FACTORS];
    ptx_number number = (ptx_number)i->number;
    if (is_held(&f->of, number, i->count, a, count)) return &f->rows;
    for (int n = 0; n < count; n++)
        product_expand_by_k(m, number, a[n], f->rows.a[n / 2 * (16 / i->bytes)] + n % 2 * 8, 16);
    sums_prepare_rows(&f->rows, i->count, m->sums, number);
    return &f->rows;
}

static const sums_columns *columns_of_factor(machine *m, const ptx_instruction *i, int32_t row,
                                             uint32_t *const b[2], int count) {
    machine_columns *f = &m->columns[row % MACHINE_COLUMNS];
    ptx_number number = (ptx_number)i->operation;
    if (is_held(&f->of, number, i->count, b, count)) return &f->columns;
    for (int n = 0; n < count; n++)
        product_expand_columns(m, number, b[n], f->columns.b + n * (16 / i->bytes));
    sums_prepare_columns(&f->columns, i->count, m->sums, number);
    return &f->columns;
}

void product_multiply(machine *m, machine_warp *w, const ptx_instruction *i) {
    const int32_t *list = m->function->lists.items + i->list;
    int k_count = i->count;
    ptx_product_rows count = ptx_product_rows_of(i);
    uint32_t *d[4], *a[4], *b[2], *c[4];
    rows_of(m, w, list, count.sums, d);
    rows_of(m, w, list + count.sums, count.left, a);
    rows_of(m, w, list + count.sums + count.left, count.right, b);
    rows_of(m, w, list + count.sums + count.left + count.right, count.sums, c);
    if (i->number2 == PTX_S32) {
        multiply_integers(m, w, i, d, a, b, c);
        return;
    }
    sums_product p;
    p.k_count = k_count;
    p.rule = sums_rule_of(m->processor, (ptx_number)i->number, k_count);
    p.halves = i->number2 == PTX_F16;
    p.sum_least = p.halves ? -14 : -126;
    p.rows = rows_of_factor(m, i, list[count.sums], a, count.left);
    p.columns = columns_of_factor(m, i, list[count.sums + count.left], b, count.right);
    product_gather(&p, c);
    sums_multiply(&p, m->sums);
    product_scatter(&p, d);
}
