/* Compute GEMM by mma.sync: for each step of the contraction, the fragments of A for all row tiles,
 * then pair by pair of column tiles the fragments of B, each used by all row tiles.
 *
 * Two bytes count as one element of 16 bits (layout/access.h): steps of 32 bytes are steps of 16.
 */
#include "translate/emit.h"

/* One operand as the loops see it. */
typedef struct side {
    const emit_tile *tile;
    bool in_registers, contracted_is_rows;
    access_operand operand; /* shared */
    str address;            /* name of its address in the text */
} side;

typedef struct product {
    emit *t;
    const tl_statement *s;
    const atom_product *wide,
        *narrow; /* the atom of 16 (NULL: none) and of 8; of bytes wide alone */
    const emit_tile *target;
    side a, b;
    int down, across, k8; /* tiles of 16 rows, of 8 columns, steps of 8, of one warp */
    bool is_across; /* bytes, and the right operand lies across: it comes two columns at a time */
    bool starts;
} product;

static bool refuse(product *p, str what, const char *why) {
    return emit_unsupported(p->t, p->s->range, what, "%s", why);
}

static bool left_is_permuted(const product *p) {
    const emit_tile *left = p->a.tile;
    if (left->space != TL_REGISTER) return left->tile->allocation->allocate.is_permuted;
    for (int i = 0; i < p->t->facts->layout_count; i++) {
        const check_layout_at *at = &p->t->facts->layouts[i];
        if (at->statement == p->s && at->tile == left->symbol) return at->layout.is_permuted;
    }
    return false;
}

static bool shared_side(product *p, side *x, bool right) {
    const tl_layout *l = &p->target->tile->allocation->allocate.layout;
    access_operand_request request = {.right = right,
                                      .contracted_is_rows = x->contracted_is_rows,
                                      .in_order = p->is_across && right && !left_is_permuted(p)};
    if (!emit_divide_operand(p->t, l, &request))
        return refuse(p, p->target->name, "warpgroups side by side multiply asynchronously alone");
    layout_fit fit = access_operand_make(&request, &x->tile->store, &x->operand);
    if (fit.status == LAYOUT_OK) return true;
    return emit_unsupported(p->t, p->s->range, x->tile->name, "%d does not fit a multiple of %d",
                            fit.found, fit.multiple);
}

static bool make_side(product *p, const tl_operand *operand, side *x, bool right) {
    x->tile = emit_tile_of(p->t, operand->value);
    if (!x->tile || x->tile->is_vector)
        return refuse(p, tl_expr_text(p->t->memory, operand->value),
                      "an operand of GEMM is a matrix tile");
    x->in_registers = x->tile->space == TL_REGISTER;
    x->contracted_is_rows = right != operand->is_transposed;
    if (right)
        p->is_across =
            tl_is_narrow(x->tile->type) && tl_lies_across(operand, true, x->tile->tile->allocation);
    if (x->in_registers &&
        (right || operand->is_transposed || !x->tile->is_packed || x->tile->shape.is_lines))
        return refuse(p, x->tile->name,
                      "from registers only a left operand in mma_A, not transposed, has an atom");
    return x->in_registers || shared_side(p, x, right);
}

static bool make_product(product *p) {
    const tl_compute *c = &p->s->compute;
    p->target = emit_target_of(p->t, p->s);
    if (!p->target || p->target->space != TL_REGISTER || p->target->is_vector)
        return refuse(p, STR("this GEMM"), "the result is a tile in registers as mma_C");
    if (c->is_async)
        return refuse(p, STR("an asynchronous GEMM"),
                      "its instructions are not in the table of atoms yet");
    if (!make_side(p, &c->operands[0], &p->a, false) || !make_side(p, &c->operands[1], &p->b, true))
        return false;
    if (p->target->type != atom_sum_type(p->a.tile->type))
        return refuse(p, STR("this GEMM"), "the result is an f32 tile, of i8 an i32 tile");
    const atom_product *atom = atom_find_product(c->atom, p->a.tile->type, NULL);
    if (!atom || !atom->wrapper || p->a.tile->type != p->b.tile->type)
        return refuse(p, emit_format(p->t, "by %.*s", STR_ARGS(c->atom)),
                      "there is no such product of these types");
    if (!emit_has(p->t, p->s, c->atom, atom->feature)) return false;
    bool is_bytes = tl_is_narrow(atom->type);
    p->wide = atom->k == 16 || is_bytes ? atom : NULL;
    p->narrow = is_bytes ? NULL : atom_narrow_product(atom);
    p->down = p->target->shape.down, p->across = p->target->shape.across;
    p->k8 = p->is_across ? p->b.operand.k8 / 2 : p->b.operand.k8;
    p->starts = c->target_kind == TL_GET;
    int a_k8 = !p->a.in_registers ? p->a.operand.k8
               : is_bytes         ? p->a.tile->shape.across / 2
                                  : p->a.tile->shape.across;
    int a_down = p->a.in_registers ? p->a.tile->shape.down : p->a.operand.mn8 / 2;
    int b_across = p->is_across ? 2 * p->b.operand.mn8 : p->b.operand.mn8;
    bool comes_alike = p->is_across == p->target->shape.alternates;
    if (a_k8 != p->k8 || a_down != p->down || b_across != p->across || !comes_alike ||
        (is_bytes && p->k8 % 2))
        return refuse(p, STR("this GEMM"), "the shares of a warp do not fit one another");
    return true;
}

/* --- addresses -------------------------------------------------------------------------------- */

/* `text` is the variable (or number) that counts 8x8 matrices along an axis; the constants of
 * access_step as a function of it.
 */
static str step_text(emit *t, const access_operand *o, str address, str mn, str k) {
    str along = o->transposed ? mn : k, lines = o->transposed ? k : mn;
    int line_bytes = 8 * o->threads.pitch_bytes;
    bool moves_along = !str_is(along, "0"), moves_lines = !str_is(lines, "0");
    str text = address;
    bool goes_beyond = (o->transposed ? o->mn8 : o->k8) * 16 > o->threads.swizzle_bytes;
    if (moves_along)
        text = emit_along(t, &o->threads, text, emit_format(t, "%.*s * 16", STR_ARGS(along)),
                          goes_beyond);
    if (moves_lines)
        text = emit_format(t, "%.*s + %.*s * %d", STR_ARGS(text), STR_ARGS(lines), line_bytes);
    return text;
}

/* The same in numbers: what the text above comes to, against the layout's own constants. */
static void check_steps(const access_operand *o) {
    int swizzle = o->threads.swizzle_bytes;
    for (int mn = 0; mn < o->mn8; mn += 2) {
        for (int k = 0; k < o->k8; k += 2) {
            access_load loads[ACCESS_LOADS_MAX];
            access_operand_loads(o, mn, k, loads);
            int along = (o->transposed ? mn : k) * 16, lines = o->transposed ? k : mn;
            int turn = swizzle > SHARED_UNIT_BYTES ? along & (swizzle - 1) : 0;
            assert(loads[0].step.xor_bytes == turn);
            assert(loads[0].step.add_bytes ==
                   access_beyond(&o->threads, along - turn) + lines * 8 * o->threads.pitch_bytes);
            (void)turn;
            (void)lines;
        }
    }
}

static void emit_load(emit *t, const access_operand *o, const char *const names[], int count,
                      str address) {
    str all = STR("");
    for (int i = 0; i < count; i++) all = emit_format(t, "%.*s%s, ", STR_ARGS(all), names[i]);
    emit_text(t, "ftl_ldmatrix_x%d%s(%.*s%.*s);", count, o->transposed ? "_trans" : "",
              STR_ARGS(all), STR_ARGS(address));
}

/* --- one step of the contraction -------------------------------------------------------------- */

typedef struct step {
    str k;         /* the step's first k8, as text */
    int k_count;   /* 2, or 1 at an odd end */
    bool is_first; /* known to be the first step */
    bool may_be_first;
} step;

static void load_left(product *p, const step *at) {
    emit *t = p->t;
    if (p->a.in_registers) return;
    if (p->down == 1) emit_text(t, "unsigned fragment_a[%d];", at->k_count * 2);
    else emit_text(t, "unsigned fragment_a[%d][%d];", p->down, at->k_count * 2);
    emit_loop(t, "m16", p->down);
    static const char *const names[] = {"fragment_a[m16][0]", "fragment_a[m16][1]",
                                        "fragment_a[m16][2]", "fragment_a[m16][3]"};
    emit_load(
        t, &p->a.operand, names, at->k_count * 2,
        step_text(t, &p->a.operand, p->a.address, p->down > 1 ? STR("2 * m16") : STR("0"), at->k));
    emit_close(t);
}

static str left_register(product *p, const step *at, int k, int half) {
    emit *t = p->t;
    if (!p->a.in_registers) return emit_format(t, "fragment_a[m16][%d]", 2 * k + half);
    str name = p->a.tile->name;
    if (k == 0) return emit_format(t, "%.*s[m16][%.*s][%d]", STR_ARGS(name), STR_ARGS(at->k), half);
    if (str_is(at->k, "0")) return emit_format(t, "%.*s[m16][1][%d]", STR_ARGS(name), half);
    return emit_format(t, "%.*s[m16][%.*s + 1][%d]", STR_ARGS(name), STR_ARGS(at->k), half);
}

static str mma_text(product *p, const step *at, const atom_product *atom, int first_k, str column,
                    const char *b0, const char *b1, bool start) {
    emit *t = p->t;
    str a = emit_format(t, "%.*s, %.*s", STR_ARGS(left_register(p, at, first_k, 0)),
                        STR_ARGS(left_register(p, at, first_k, 1)));
    if (atom == p->wide) {
        a = emit_format(t, "%.*s, %.*s, %.*s", STR_ARGS(a), STR_ARGS(left_register(p, at, 1, 0)),
                        STR_ARGS(left_register(p, at, 1, 1)));
    }
    str b = atom == p->wide ? emit_format(t, "%s, %s", b0, b1) : str_from(b0);
    return emit_format(t, "%s_%s_%s%s(%.*s[m16][%.*s], %.*s, %.*s);", atom->wrapper, atom->word,
                       emit_type_word(atom->type), start ? "_start" : "", STR_ARGS(p->target->name),
                       STR_ARGS(column), STR_ARGS(a), STR_ARGS(b));
}

static void column_products(product *p, const step *at, str column, const char *b0,
                            const char *b1) {
    emit *t = p->t;
    bool both = p->wide && at->k_count == 2;
    emit_loop(t, "m16", p->down);
    for (int k = 0; k < (both ? 1 : at->k_count); k++) {
        const atom_product *atom = both ? p->wide : p->narrow;
        const char *b = k ? b1 : b0;
        bool starts = p->starts && k == 0, is_asked = starts && !at->is_first && at->may_be_first;
        str start = mma_text(p, at, atom, k, column, b, b1, true);
        str more = mma_text(p, at, atom, k, column, b, b1, false);
        if (is_asked) emit_either(t, STR("k16 == 0"), start, more);
        else emit_text(t, "%.*s", STR_ARGS(starts && at->is_first ? start : more));
    }
    emit_close(t);
}

/* The fragments of 'count' column tiles from 'column' on, and their products. */
static void column_group(product *p, const step *at, str column, int count) {
    static const char *const names[2][2][4] = {
        /* k inner, mn inner: register of (mn, k) in the order of the matrices */
        {{"fragment_b[0]", "fragment_b[1]", "fragment_b[2]", "fragment_b[3]"},
         {"fragment_b[0]", "fragment_b[1]", "fragment_b[2]", "fragment_b[3]"}},
        {{"fragment_b[0]", "fragment_b[2]", "fragment_b[1]", "fragment_b[3]"},
         {"fragment_b[0]", "fragment_b[1]", "fragment_b[2]", "fragment_b[3]"}}};
    emit *t = p->t;
    const access_operand *o = &p->b.operand;
    int matrices = count * at->k_count;
    str address = step_text(t, o, p->b.address, column, at->k);
    emit_text(t, "unsigned fragment_b[%d];", matrices);
    if (count == 2 && at->k_count == 1 && !o->mn_first) {
        const char *const first[] = {"fragment_b[0]"}, *const second[] = {"fragment_b[1]"};
        emit_load(t, o, first, 1, address);
        str next = emit_format(t, "(%.*s + 1)", STR_ARGS(column));
        emit_load(t, o, second, 1, step_text(t, o, p->b.address, next, at->k));
    } else {
        emit_load(t, o, names[o->mn_first][matrices != 4], matrices, address);
    }
    /* b[at->k_count*n + k] holds column tile n, k step k. */
    for (int n = 0; n < count; n++) {
        bool is_number = str_is(column, "0");
        str name = !n          ? column
                   : is_number ? STR("1")
                               : emit_format(t, "%.*s + 1", STR_ARGS(column));
        const char *b0 = str_copy_z(t->memory, emit_format(t, "fragment_b[%d]", at->k_count * n));
        const char *b1 =
            str_copy_z(t->memory, emit_format(t, "fragment_b[%d]", at->k_count * n + 1));
        column_products(p, at, name, b0, b1);
    }
}

/* --- bytes that lie across -------------------------------------------------------------------- */

/* Matrices of 8 keys and 16 columns: 4 of a step of 32 for each 16 columns, whose lower bytes make
 * the fragments of one column tile, their upper ones those of the next.
 */
static void across_group(product *p, const step *at, str n16, int count) {
    emit *t = p->t;
    const access_operand *o = &p->b.operand;
    emit_text(t, "unsigned pairs[%d];", 4 * count);
    for (int half = 0; half < 2; half++) {
        str names[4];
        const char *words[4];
        for (int i = 0; i < 2 * count; i++) {
            names[i] = emit_format(t, "pairs[%d]", 4 * (i / 2) + 2 * half + i % 2);
            words[i] = str_copy_z(t->memory, names[i]);
        }
        str k = str_is(at->k, "0")
                    ? emit_format(t, "%d", 2 * half)
                    : emit_format(t, half ? "(2 * (%.*s) + 2)" : "2 * (%.*s)", STR_ARGS(at->k));
        emit_load(t, o, words, 2 * count, step_text(t, o, p->b.address, n16, k));
    }
    for (int tile = 0; tile < 2 * count; tile++) {
        const char *take = tile % 2 ? "odd" : "even";
        int first = 4 * (tile / 2);
        emit_open(t, "{");
        emit_text(t, "const unsigned b0 = ftl_%s_bytes(pairs[%d], pairs[%d]);", take, first,
                  first + 1);
        emit_text(t, "const unsigned b1 = ftl_%s_bytes(pairs[%d], pairs[%d]);", take, first + 2,
                  first + 3);
        str column = str_is(n16, "0") ? emit_format(t, "%d", tile)
                                      : emit_format(t, "2 * (%.*s) + %d", STR_ARGS(n16), tile);
        column_products(p, at, column, "b0", "b1");
        emit_close(t);
    }
}

static void across_step(product *p, const step *at) {
    emit *t = p->t;
    int matrices = p->b.operand.mn8;
    if (matrices >= 2) {
        emit_loop_from(t, "n16", 0, matrices / 2 * 2, 2);
        across_group(p, at, matrices > 3 ? STR("n16") : STR("0"), 2);
        emit_close(t);
    }
    if (matrices % 2) {
        emit_open(t, "{");
        across_group(p, at, emit_format(t, "%d", matrices - 1), 1);
        emit_close(t);
    }
}

static void contraction_step(product *p, const step *at) {
    emit *t = p->t;
    load_left(p, at);
    if (p->is_across) {
        across_step(p, at);
        return;
    }
    if (p->across >= 2) {
        emit_loop_from(t, "n8", 0, p->across / 2 * 2, 2);
        column_group(p, at, p->across > 3 ? STR("n8") : STR("0"), 2);
        emit_close(t);
    }
    if (p->across % 2) {
        emit_open(t, "{");
        column_group(p, at, emit_format(t, "%d", p->across - 1), 1);
        emit_close(t);
    }
}

static void own_addresses(product *p, side *x, const char *name) {
    emit *t = p->t;
    if (x->in_registers) return;
    check_steps(&x->operand);
    x->address = str_from(name);
    emit_declare_address(t, name, emit_held(t, x->tile), &x->operand.threads);
}

void emit_product_statement(emit *t, const tl_statement *s) {
    product p = {.t = t, .s = s};
    emit_header(t, s);
    if (!make_product(&p)) return;
    emit_open(t, "{");
    /* Only the product of every iteration has places that live across its loop. Others, once a tile
     * or in rare branches, find theirs anew: shared, the places of all steps would live in between.
     */
    if (s->parent && s->parent->kind != TL_FOR) emit_fresh_thread(t);
    own_addresses(&p, &p.a, "left");
    own_addresses(&p, &p.b, "right");
    if (p.k8 >= 2) {
        emit_loop(t, "k16", p.k8 / 2);
        contraction_step(&p, &(step){.k = p.k8 > 3 ? STR("2 * k16") : STR("0"),
                                     .k_count = 2,
                                     .is_first = p.k8 < 4,
                                     .may_be_first = true});
        emit_close(t);
    }
    if (p.k8 % 2) {
        emit_open(t, "{");
        contraction_step(
            &p, &(step){.k = emit_format(t, "%d", p.k8 - 1), .k_count = 1, .is_first = p.k8 == 1});
        emit_close(t);
    }
    emit_close(t);
}

/* --- row sums of bytes ------------------------------------------------------------------------ */

bool emit_is_sum_by_ones(emit *t, const tl_statement *s) {
    enum { STEP = 32 };
    const tl_compute *c = &s->compute;
    if (t->is_async || s->kind != TL_COMPUTE || !tl_reduces_by_sum(c->operation) ||
        c->operands[0].is_transposed || !gpu_has(t->gpu, GPU_FEATURE_fp8_mma))
        return false;
    const emit_tile *from = emit_tile_of(t, c->operands[0].value), *to = emit_target_of(t, s);
    return from && to && emit_is_bytes(from) && from->columns % STEP == 0 &&
           from->layout.spread[0].count == 1 && to->shape.part == PART_ROWS &&
           to->shape.down == from->shape.down && to->type == TL_F32 && !to->is_partial;
}

/* In whatever order a row's elements are, each meets a one; every column of the result is the sum,
 * and lanes have theirs of both rows at once.
 */
void emit_sum_by_ones(emit *t, const tl_statement *s) {
    const emit_tile *from = emit_tile_of(t, s->compute.operands[0].value);
    const emit_tile *to = emit_target_of(t, s);
    const char *type = emit_type_word(from->type), *name = str_copy_z(t->memory, from->name);
    const char *one = from->type == TL_E4M3 ? "0x38383838u" : "0x3c3c3c3cu";
    emit_header(t, s);
    emit_loop(t, "m16", from->shape.down);
    emit_text(t, "float sums[4];");
    emit_loop(t, "k16", from->shape.across / 4);
    str lines[2];
    for (int start = 0; start < 2; start++)
        lines[start] =
            emit_format(t,
                        "ftl_mma_m16n8k32_%s%s(sums, %s[m16][2 * k16][0], %s[m16][2 * k16][1], "
                        "%s[m16][2 * k16 + 1][0], %s[m16][2 * k16 + 1][1], %s, %s);",
                        type, start ? "_start" : "", name, name, name, name, one, one);
    emit_either(t, STR("k16 == 0"), lines[1], lines[0]);
    emit_close(t);
    emit_loop(t, "half", 2);
    str at = emit_element(t, to, &to->shape, 0);
    if (s->compute.target_kind == TL_ACCUMULATE)
        emit_text(t, "%.*s = ftl_add(%.*s, sums[2 * half]);", STR_ARGS(at), STR_ARGS(at));
    else emit_text(t, "%.*s = sums[2 * half];", STR_ARGS(at));
    emit_close(t);
    emit_close(t);
}
