#include "layout/layout.h"

#include <assert.h>
#include <stddef.h>

/* --- building --------------------------------------------------------------------------------- */

static layout_fit misfit(layout_status status, int found, int multiple) {
    return (layout_fit){.status = status, .found = found, .multiple = multiple};
}

static void add_repeat(layout *l, int count, int rows, int columns) {
    if (count == 1) return;
    assert(l->repeat_count < LAYOUT_REPEATS_MAX);
    l->repeats[l->repeat_count++] = (layout_repeat){count, {rows, columns}};
}

/* An atom whose input bit i (elements first, then lanes) goes to places[i]: row bit n is n, column
 * bit n is 16 + n.
 */
enum { COLUMN_BIT = 16, LINE_BITS_MAX = 5 /* 32 elements of 4 bits in a unit of lines */ };

static void set_atom(layout *l, int element_bits, int row_bits, int column_bits,
                     const int *places) {
    int in_bits = element_bits + LAYOUT_LANE_BITS;
    l->element_bits = element_bits;
    l->row_bits = row_bits;
    l->column_bits = column_bits;
    l->atom = bitmatrix_zero(in_bits, row_bits + column_bits);
    for (int i = 0; i < in_bits; i++) {
        int place = places[i];
        int bit = place >= COLUMN_BIT ? row_bits + place - COLUMN_BIT : place;
        l->atom.columns[i] = 1u << bit;
    }
}

static layout transposed(const layout *l) {
    layout t = *l;
    t.rows = l->columns;
    t.columns = l->rows;
    bitmatrix rows = bitmatrix_outputs(&l->atom, 0, l->row_bits);
    bitmatrix columns = bitmatrix_outputs(&l->atom, l->row_bits, l->column_bits);
    t.atom = bitmatrix_stack(&columns, &rows);
    t.row_bits = l->column_bits;
    t.column_bits = l->row_bits;
    for (int i = 0; i < t.repeat_count; i++) {
        t.repeats[i].step = (layout_point){l->repeats[i].step.column, l->repeats[i].step.row};
    }
    for (int i = 0; i < 2; i++) {
        t.spread[i].step = (layout_point){l->spread[i].step.column, l->spread[i].step.row};
    }
    return t;
}

/* The accumulator (and left operand) piece: 16 rows x 8 columns, lane = 4*row + column/2. */
static const int PIECE_16_BY_8[] = {COLUMN_BIT + 0, 3, COLUMN_BIT + 1, COLUMN_BIT + 2, 0, 1, 2};
/* The right operand's piece: 8 k (rows) x 8 n (columns), lane = 4*n + k/2. */
static const int PIECE_8_BY_8[] = {0, 1, 2, COLUMN_BIT + 0, COLUMN_BIT + 1, COLUMN_BIT + 2};

/* Of 8 bits, 16 k long: four neighbours a lane, or in the order of the accumulator. */
static const int PIECE_16_BY_16[] = {
    COLUMN_BIT + 0, COLUMN_BIT + 1, 3, COLUMN_BIT + 2, COLUMN_BIT + 3, 0, 1, 2};
static const int PIECE_PERMUTED[] = {
    COLUMN_BIT + 0, COLUMN_BIT + 3, 3, COLUMN_BIT + 1, COLUMN_BIT + 2, 0, 1, 2};
static const int PIECE_16_BY_8_OF_BYTES[] = {
    0, 1, 2, 3, COLUMN_BIT + 0, COLUMN_BIT + 1, COLUMN_BIT + 2};
/* The accumulator of a right operand that lies across: even columns, then odd ones. */
static const int PIECE_ACROSS[] = {
    COLUMN_BIT + 1, 3, COLUMN_BIT + 0, COLUMN_BIT + 2, COLUMN_BIT + 3, 0, 1, 2};

/* Pieces of 16 columns; NULL: pieces of 8. */
static const int *wide_piece(const layout_request *r, bool accumulator) {
    if (accumulator) return r->permuted ? PIECE_ACROSS : NULL;
    if (r->element_bits != 8) return NULL;
    return r->permuted ? PIECE_PERMUTED : PIECE_16_BY_16;
}

static layout_fit make_left(const layout_request *r, bool accumulator, layout *out) {
    int down = r->warps_down * r->group, across = accumulator ? r->warps_across : 1;
    bool groups_across = r->group > 1 && r->warps_across > 1;
    if (groups_across && r->warps_down > 1)
        return misfit(LAYOUT_BAD_WARPS, r->warps_down * r->warps_across, 0);
    if (out->rows % (16 * down)) return misfit(LAYOUT_BAD_ROWS, out->rows, 16 * down);
    const int *wide = wide_piece(r, accumulator);
    int unit = wide ? 16 : 8;
    if (out->columns % (unit * across))
        return misfit(LAYOUT_BAD_COLUMNS, out->columns, unit * across);
    int rows = out->rows / down, columns = out->columns / across;
    if (wide) set_atom(out, 3, 4, 4, wide);
    else set_atom(out, 2, 4, 3, PIECE_16_BY_8);
    add_repeat(out, columns / unit, 0, unit);
    add_repeat(out, rows / 16, 16, 0);
    out->spread[groups_across] = (layout_repeat){r->warps_across, {0, accumulator ? columns : 0}};
    out->spread[!groups_across] = (layout_repeat){down, {rows, 0}};
    return misfit(LAYOUT_OK, 0, 0);
}

static layout_fit make_right(const layout_request *r, layout *out) {
    int unit = r->element_bits == 8 ? 16 : 8;
    if (out->rows % unit) return misfit(LAYOUT_BAD_ROWS, out->rows, unit);
    if (out->columns % (8 * r->warps_across)) {
        return misfit(LAYOUT_BAD_COLUMNS, out->columns, 8 * r->warps_across);
    }
    int columns = out->columns / r->warps_across;
    if (unit == 16) set_atom(out, 2, 4, 3, PIECE_16_BY_8_OF_BYTES);
    else set_atom(out, 1, 3, 3, PIECE_8_BY_8);
    add_repeat(out, out->rows / unit, unit, 0);
    add_repeat(out, columns / 8, 0, 8);
    out->spread[0] = (layout_repeat){r->warps_across, {0, columns}};
    out->spread[1] = (layout_repeat){r->warps_down * r->group, {0, 0}};
    return misfit(LAYOUT_OK, 0, 0);
}

static int log2_exact(int value) {
    return __builtin_ctz((unsigned)value);
}

static int divide_up(int a, int b) {
    return (a + b - 1) / b;
}

/* How rows go to warps and passes: 'pass_rows' rows a warp at a time. Unless the warps together
 * move on by a multiple of 8 rows (the period of a swizzle) or a power of two, each warp gets a
 * stretch of its own, so that the low bits of a row come from lane and pass alone.
 */
static void spread_rows(const layout_request *r, int pass_rows, layout *out) {
    int warps = r->warps_down * r->warps_across * r->group, together = warps * pass_rows;
    bool regular = together % 8 == 0 || (together & (together - 1)) == 0;
    if (!r->warp_rows && regular) {
        add_repeat(out, divide_up(out->rows, together), together, 0);
        out->spread[0] = (layout_repeat){warps, {pass_rows, 0}};
    } else {
        int unit = pass_rows > 8 ? pass_rows : 8;
        int share = divide_up(divide_up(out->rows, warps), unit) * unit;
        if (out->rows < share) share = divide_up(out->rows, pass_rows) * pass_rows;
        add_repeat(out, share / pass_rows, pass_rows, 0);
        out->spread[0] = (layout_repeat){warps, {share, 0}};
    }
    out->spread[1] = (layout_repeat){1, {0, 0}};
}

static layout_fit make_lines(const layout_request *r, layout *out) {
    int bits = r->element_bits;
    if (bits != 4 && bits != 8 && bits != 16 && bits != 32)
        return misfit(LAYOUT_BAD_BYTES, bits / 8, 2);
    int vector = 128 / bits;
    if (out->columns % vector) return misfit(LAYOUT_BAD_COLUMNS, out->columns, vector);
    int chunks = out->columns / vector, along = chunks & -chunks;
    if (along > LAYOUT_LANES) along = LAYOUT_LANES;
    int vector_bits = log2_exact(vector), along_bits = log2_exact(along);
    int places[LINE_BITS_MAX + LAYOUT_LANE_BITS], count = 0;
    for (int i = 0; i < vector_bits + along_bits; i++) places[count++] = COLUMN_BIT + i;
    for (int i = 0; i < LAYOUT_LANE_BITS - along_bits; i++) places[count++] = i;
    set_atom(out, vector_bits, LAYOUT_LANE_BITS - along_bits, vector_bits + along_bits, places);
    add_repeat(out, chunks / along, 0, along * vector);
    spread_rows(r, LAYOUT_LANES / along, out);
    return misfit(LAYOUT_OK, 0, 0);
}

layout_fit layout_make(const layout_request *request, layout *out) {
    layout_request r = *request;
    *out = (layout){0};
    if (r.rows < 1 || r.rows > LAYOUT_EXTENT_MAX) return misfit(LAYOUT_BAD_ROWS, r.rows, 0);
    if (r.columns < 1 || r.columns > LAYOUT_EXTENT_MAX) {
        return misfit(LAYOUT_BAD_COLUMNS, r.columns, 0);
    }
    if (r.group < 1) r.group = 1;
    int64_t warps = (int64_t)r.warps_down * r.warps_across;
    if (r.warps_down < 1 || r.warps_across < 1 || warps > LAYOUT_WARPS_MAX ||
        warps * r.group > LAYOUT_WARPS_MAX) {
        return misfit(LAYOUT_BAD_WARPS, r.warps_down * r.warps_across, 0);
    }
    bool turn = r.transposed && (r.kind == LAYOUT_MMA_A || r.kind == LAYOUT_MMA_B);
    out->rows = turn ? r.columns : r.rows;
    out->columns = turn ? r.rows : r.columns;
    layout_fit fit = {0};
    switch (r.kind) {
    case LAYOUT_MMA_A: fit = make_left(&r, false, out); break;
    case LAYOUT_MMA_B: fit = make_right(&r, out); break;
    case LAYOUT_MMA_C: fit = make_left(&r, true, out); break;
    case LAYOUT_LINES: fit = make_lines(&r, out); break;
    }
    if (turn) {
        *out = transposed(out);
        if (fit.status == LAYOUT_BAD_ROWS) {
            fit.status = LAYOUT_BAD_COLUMNS;
        } else if (fit.status == LAYOUT_BAD_COLUMNS) {
            fit.status = LAYOUT_BAD_ROWS;
        }
    }
    return fit;
}

layout_fit layout_lines(const layout_request *request, layout *out) {
    layout_request r = *request;
    r.kind = LAYOUT_LINES;
    r.warp_rows = true;
    layout_fit fit = layout_make(&r, out);
    if (fit.status != LAYOUT_OK || layout_is_full(out)) return fit;
    r.warp_rows = false;
    return layout_make(&r, out);
}

static int along(layout_point p, layout_axis axis) {
    return axis == LAYOUT_ROWS ? p.row : p.column;
}

static layout_point only(layout_point p, layout_axis axis) {
    return axis == LAYOUT_ROWS ? (layout_point){p.row, 0} : (layout_point){0, p.column};
}

static int axis_first_bit(const layout *l, layout_axis axis) {
    return axis == LAYOUT_ROWS ? 0 : l->row_bits;
}

static int axis_bits(const layout *l, layout_axis axis) {
    return axis == LAYOUT_ROWS ? l->row_bits : l->column_bits;
}

layout layout_vector(const layout *of, layout_axis axis) {
    layout v = {.rows = axis == LAYOUT_ROWS ? of->rows : 1,
                .columns = axis == LAYOUT_COLUMNS ? of->columns : 1};
    bitmatrix kept = bitmatrix_outputs(&of->atom, axis_first_bit(of, axis), axis_bits(of, axis));
    /* Element bits that move along the other axis disappear; lane bits stay and become copies. */
    v.atom = bitmatrix_zero(0, kept.out_bits);
    for (int i = 0; i < kept.in_bits; i++) {
        bool element = i < of->element_bits;
        if (element && !kept.columns[i]) continue;
        v.element_bits += element;
        v.atom.columns[v.atom.in_bits++] = kept.columns[i];
    }
    if (axis == LAYOUT_ROWS) {
        v.row_bits = kept.out_bits;
    } else {
        v.column_bits = kept.out_bits;
    }
    for (int i = 0; i < of->repeat_count; i++) {
        layout_point step = only(of->repeats[i].step, axis);
        add_repeat(&v, along(step, axis) ? of->repeats[i].count : 1, step.row, step.column);
    }
    for (int i = 0; i < 2; i++) {
        v.spread[i] = (layout_repeat){of->spread[i].count, only(of->spread[i].step, axis)};
    }
    return v;
}

layout layout_partial(const layout *vector) {
    layout l = *vector;
    l.partial = true;
    return l;
}

/* --- queries ---------------------------------------------------------------------------------- */

int layout_elements(const layout *l) {
    int elements = 1 << l->element_bits;
    for (int i = 0; i < l->repeat_count; i++) elements *= l->repeats[i].count;
    return elements;
}

int layout_registers(const layout *l, int element_bits) {
    return divide_up(layout_elements(l) * element_bits, 32);
}

layout_pieces layout_pieces_of(const layout *l) {
    layout_pieces p = {.down = 1, .across = 1, .elements = 1 << l->element_bits};
    for (int i = 0; i < l->repeat_count; i++) {
        const layout_repeat *r = &l->repeats[i];
        if (r->step.row) p.down = r->count, p.row_step = r->step.row;
        else p.across = r->count, p.column_step = r->step.column;
    }
    return p;
}

int layout_warps(const layout *l) {
    return l->spread[0].count * l->spread[1].count;
}

static layout_point digits(const layout_repeat *repeats, int count, int index) {
    layout_point sum = {0, 0};
    for (int i = 0; i < count; i++) {
        int digit = index % repeats[i].count;
        index /= repeats[i].count;
        sum.row += digit * repeats[i].step.row;
        sum.column += digit * repeats[i].step.column;
    }
    return sum;
}

static layout_point atom_place(const layout *l, uint32_t word) {
    uint32_t image = bitmatrix_apply(&l->atom, word);
    return (layout_point){(int)(image & ((1u << l->row_bits) - 1)), (int)(image >> l->row_bits)};
}

static layout_point add(layout_point a, layout_point b) {
    return (layout_point){a.row + b.row, a.column + b.column};
}

layout_point layout_own(const layout *l, int warp, int lane) {
    return add(digits(l->spread, 2, warp), atom_place(l, (uint32_t)lane << l->element_bits));
}

layout_point layout_step(const layout *l, int element) {
    uint32_t low = (uint32_t)element & ((1u << l->element_bits) - 1);
    return add(digits(l->repeats, l->repeat_count, element >> l->element_bits), atom_place(l, low));
}

layout_point layout_place(const layout *l, int warp, int lane, int element) {
    return add(layout_own(l, warp, lane), layout_step(l, element));
}

bool layout_inside(const layout *l, layout_point place) {
    return place.row >= 0 && place.row < l->rows && place.column >= 0 && place.column < l->columns;
}

bool layout_is_full(const layout *l) {
    layout_point last =
        layout_place(l, layout_warps(l) - 1, LAYOUT_LANES - 1, layout_elements(l) - 1);
    return layout_inside(l, last);
}

bitmatrix layout_lane_map(const layout *l, layout_axis axis) {
    bitmatrix lanes = bitmatrix_inputs(&l->atom, l->element_bits, LAYOUT_LANE_BITS);
    return bitmatrix_outputs(&lanes, axis_first_bit(l, axis), axis_bits(l, axis));
}

/* --- the inverse ------------------------------------------------------------------------------ */

/* Takes the largest steps of an axis off 'rest' and notes the digits: steps nest, a larger one
 * being at least as long as all that the smaller ones and the atom reach. What is left is the
 * atom's. Digits of steps {0, 0} are not touched.
 */
static bool take_digits(const layout *l, layout_axis axis, int *rest, int repeat_digits[],
                        int spread_digits[]) {
    for (int before = INT32_MAX;;) {
        int best = 0;
        for (int i = 0; i < l->repeat_count + 2; i++) {
            const layout_repeat *r =
                i < l->repeat_count ? &l->repeats[i] : &l->spread[i - l->repeat_count];
            int step = along(r->step, axis);
            if (r->count > 1 && step < before && step > best) best = step;
        }
        if (best == 0) break;
        for (int i = 0; i < l->repeat_count + 2; i++) {
            bool inner = i < l->repeat_count;
            const layout_repeat *r = inner ? &l->repeats[i] : &l->spread[i - l->repeat_count];
            if (r->count == 1 || along(r->step, axis) != best) continue;
            int digit = *rest / best;
            if (digit > r->count - 1) digit = r->count - 1;
            *rest -= digit * best;
            if (inner) {
                repeat_digits[i] = digit;
            } else {
                spread_digits[i - l->repeat_count] = digit;
            }
        }
        before = best;
    }
    return *rest < 1 << axis_bits(l, axis);
}

static int join_digits(const layout_repeat *repeats, int count, const int *values) {
    int index = 0;
    for (int i = count - 1; i >= 0; i--) index = index * repeats[i].count + values[i];
    return index;
}

bool layout_find(const layout *l, layout_point place, layout_holder near, layout_holder *holder) {
    if (!layout_inside(l, place)) return false;
    int repeat_digits[LAYOUT_REPEATS_MAX] = {0};
    /* Where warps hold copies, the near warp's own digit stays. */
    int spread_digits[2] = {near.warp % l->spread[0].count,
                            near.warp / l->spread[0].count % l->spread[1].count};
    int row = place.row, column = place.column;
    if (!take_digits(l, LAYOUT_ROWS, &row, repeat_digits, spread_digits) ||
        !take_digits(l, LAYOUT_COLUMNS, &column, repeat_digits, spread_digits)) {
        return false;
    }
    uint32_t image = (uint32_t)row | (uint32_t)column << l->row_bits, word;
    /* First with the lanes held at the near lane, then wherever it is. */
    uint32_t near_word = (uint32_t)near.lane << l->element_bits;
    bitmatrix elements = bitmatrix_inputs(&l->atom, 0, l->element_bits);
    if (bitmatrix_solve(&elements, image ^ bitmatrix_apply(&l->atom, near_word), &word)) {
        word |= near_word;
    } else if (!bitmatrix_solve(&l->atom, image, &word)) {
        return false;
    }
    int low = (int)(word & ((1u << l->element_bits) - 1));
    int high = join_digits(l->repeats, l->repeat_count, repeat_digits);
    *holder = (layout_holder){.warp = join_digits(l->spread, 2, spread_digits),
                              .lane = (int)(word >> l->element_bits),
                              .element = high << l->element_bits | low};
    return true;
}

/* --- relations -------------------------------------------------------------------------------- */

int layout_lane_copies(const layout *l, int masks[LAYOUT_LANE_BITS]) {
    bitmatrix lanes = bitmatrix_inputs(&l->atom, l->element_bits, LAYOUT_LANE_BITS);
    uint32_t basis[BITMATRIX_BITS_MAX];
    int count = bitmatrix_kernel(&lanes, basis);
    for (int i = 0; i < count; i++) masks[i] = (int)basis[i];
    return count;
}

int layout_warp_copies(const layout *l) {
    int copies = 1;
    for (int i = 0; i < 2; i++) {
        bool moves = l->spread[i].step.row || l->spread[i].step.column;
        if (!moves) copies *= l->spread[i].count;
    }
    return copies;
}

static bool same_point(layout_point a, layout_point b) {
    return a.row == b.row && a.column == b.column;
}

bool layout_equal(const layout *a, const layout *b) {
    if (a->rows != b->rows || a->columns != b->columns || a->partial != b->partial) return false;
    if (layout_elements(a) != layout_elements(b) || layout_warps(a) != layout_warps(b)) {
        return false;
    }
    /* Places are sums of a step, a warp's part and a lane's, which may be compared one by one. */
    for (int element = 0; element < layout_elements(a); element++) {
        if (!same_point(layout_step(a, element), layout_step(b, element))) return false;
    }
    for (int warp = 0; warp < layout_warps(a); warp++) {
        if (!same_point(layout_own(a, warp, 0), layout_own(b, warp, 0))) return false;
    }
    for (int lane = 0; lane < LAYOUT_LANES; lane++) {
        if (!same_point(layout_own(a, 0, lane), layout_own(b, 0, lane))) return false;
    }
    return true;
}

/* Do runs of 'run' elements, in order, lie side by side along 'axis', each at a multiple of run? */
static bool is_run(const layout *l, layout_axis axis, int run) {
    layout_axis other = axis == LAYOUT_ROWS ? LAYOUT_COLUMNS : LAYOUT_ROWS;
    if (layout_elements(l) % run) return false;
    for (int element = 0; element < layout_elements(l); element++) {
        layout_point first = layout_step(l, element - element % run), p = layout_step(l, element);
        if (along(first, axis) % run) return false;
        if (along(p, axis) - along(first, axis) != element % run) return false;
        if (along(p, other) != along(first, other)) return false;
    }
    for (int warp = 0; warp < layout_warps(l); warp++) {
        for (int lane = 0; lane < LAYOUT_LANES; lane++) {
            if (along(layout_own(l, warp, lane), axis) % run) return false;
        }
    }
    return true;
}

int layout_vector_bytes(const layout *l, layout_axis axis, int element_bits, int alignment_bytes) {
    int width = 16;
    while (8 * width > element_bits && width > 1 &&
           (alignment_bytes % width || !is_run(l, axis, 8 * width / element_bits))) {
        width /= 2;
    }
    return width;
}
