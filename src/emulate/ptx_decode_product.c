/* Matrix products: statements to instructions. */
#include "emulate/ptx_read.h"

static bool is_fp8(ptx_number number) {
    return number == PTX_E4M3 || number == PTX_E5M2;
}

static bool is_byte(ptx_number number) {
    return number == PTX_S8 || number == PTX_U8;
}

/* Which floats there are products of, and with which sums. */
static bool multiplies(ptx_number a, ptx_number b, ptx_number d) {
    bool is_narrow = (a == PTX_F16 && b == a) || (is_fp8(a) && is_fp8(b));
    return (is_narrow && (d == PTX_F32 || d == PTX_F16)) ||
           ((a == PTX_BF16 || a == PTX_TF32) && b == a && d == PTX_F32);
}

/* mma.sync.aligned.m16n8kK.row.col.D.A.B.C: registers a thread, by the element's bits. Of 8-bit
 * integers m8n8k16, too: half of everything.
 */
bool ptx_decode_mma(ptx_reader *r, const ptx_statement *s) {
    bool is_half = s->part_count == 10 && str_is(s->parts[3], "m8n8k16");
    if (s->part_count != 10 || s->operand_count != 4 || !str_is(s->parts[1], "sync") ||
        (!str_starts(s->parts[3], STR("m16n8k")) && !is_half) || !str_is(s->parts[4], "row") ||
        !str_is(s->parts[5], "col"))
        return ptx_decode_unknown(r, s);
    int64_t k = 0;
    size_t before = is_half ? 5 : 6; /* the letters before k's number */
    str k_text = {s->parts[3].data + before, s->parts[3].length - before};
    ptx_number a, b, c, d;
    int d_bytes = ptx_decode_type(s->parts[6], &d), a_bytes = ptx_decode_type(s->parts[7], &a);
    int b_bytes = ptx_decode_type(s->parts[8], &b), c_bytes = ptx_decode_type(s->parts[9], &c);
    if (!str_to_integer(k_text, &k) || !d_bytes || !a_bytes || !b_bytes || !c_bytes)
        return ptx_decode_unknown(r, s);
    bool is_integer = is_byte(a) && is_byte(b) && d == PTX_S32;
    int k_bytes = (int)k * a_bytes;
    if (c != d || !(is_integer || multiplies(a, b, d)) || (k_bytes != 16 && k_bytes != 32) ||
        (is_fp8(a) && k_bytes != 32) || (is_half && !is_integer))
        return ptx_decode_unknown(r, s);
    ptx_instruction *i = ptx_decode_emit(r, s, PTX_PRODUCT);
    i->number = (uint8_t)a;
    i->operation = (uint8_t)b;
    i->number2 = (uint8_t)d;
    i->bytes = (uint8_t)a_bytes;
    i->count = (uint8_t)k;
    if (is_half) i->flags |= PTX_HALF;
    int counts[4];
    int32_t lists[4];
    for (int n = 0; n < 4; n++)
        if (!ptx_decode_list(r, s, &s->operands[n], 4, n == 0, &lists[n], &counts[n])) return false;
    i->list = lists[0]; /* D, A, B, C: one after the other */
    ptx_product_rows rows = ptx_product_rows_of(i);
    return (counts[0] == rows.sums && counts[1] == rows.left && counts[2] == rows.right &&
            counts[3] == rows.sums) ||
           ptx_decode_fail(r, s, "another number of registers was expected");
}

/* --- wgmma ------------------------------------------------------------------------------------ */

static bool decode_shape(const ptx_statement *s, ptx_wgmma *form) {
    str rest = s->parts[4];
    if (!str_starts(rest, STR("m64n"))) return false;
    rest = (str){rest.data + 4, rest.length - 4};
    str n = str_cut(&rest, 'k');
    int64_t n_count, k_count;
    if (!str_to_integer(n, &n_count) || !str_to_integer(rest, &k_count)) return false;
    if (n_count < 8 || n_count > 256 || n_count % 8 || k_count < 8 || k_count > 32) return false;
    form->n_count = (int)n_count;
    form->k_count = (int)k_count;
    return true;
}

static bool decode_types(const ptx_statement *s, ptx_wgmma *form) {
    int d_bytes = ptx_decode_type(s->parts[5], &form->d_number);
    int a_bytes = ptx_decode_type(s->parts[6], &form->a_number);
    int b_bytes = ptx_decode_type(s->parts[7], &form->b_number);
    if (!d_bytes || !a_bytes || !b_bytes || form->k_count * a_bytes != 32) return false;
    form->d_count = form->n_count * d_bytes / 8;
    return multiplies(form->a_number, form->b_number, form->d_number);
}

/* scale-d, then imm-scale-a, imm-scale-b, and for 16-bit types imm-trans-a (unless A is in
 * registers) and imm-trans-b.
 */
static bool decode_modifiers(ptx_reader *r, const ptx_statement *s, ptx_wgmma *form,
                             ptx_instruction *i) {
    bool half = form->a_number == PTX_F16 || form->a_number == PTX_BF16;
    int count = half ? (form->a_list >= 0 ? 3 : 4) : 2;
    if (s->operand_count != 4 + count)
        return ptx_decode_fail(r, s, "another number of operands was expected");
    int64_t numbers[4] = {0};
    for (int n = 0; n < count; n++) {
        const ptx_operand *o = &s->operands[4 + n];
        numbers[n] = (int64_t)o->bits;
        bool scale = n < 2;
        bool fits = scale ? numbers[n] == 1 || (int32_t)numbers[n] == -1
                          : numbers[n] == 0 || numbers[n] == 1;
        if (o->kind != PTX_OPERAND_NUMBER || !fits)
            return ptx_decode_fail(r, s, "a factor is 1 or -1, a transposition 0 or 1");
    }
    form->negates_a = numbers[0] != 1;
    form->negates_b = numbers[1] != 1;
    form->transposes_a = half && form->a_list < 0 && numbers[2];
    form->transposes_b = half && numbers[count - 1];
    return ptx_decode_truth(r, &s->operands[3], &i->r, &i->second_negated);
}

bool ptx_decode_wgmma(ptx_reader *r, const ptx_statement *s) {
    ptx_wgmma form = {.a_list = -1, .a_row = PTX_NONE};
    if (s->part_count != 8 || s->operand_count < 6 || !decode_shape(s, &form) ||
        !decode_types(s, &form))
        return ptx_decode_unknown(r, s);
    ptx_instruction *i = ptx_decode_emit(r, s, PTX_WGMMA);
    int count;
    if (!ptx_decode_list(r, s, &s->operands[0], 4, true, &form.d_list, &count)) return false;
    if (count != form.d_count)
        return ptx_decode_fail(r, s, "another number of registers was expected");
    if (s->operands[1].kind == PTX_OPERAND_VECTOR) {
        if (!ptx_decode_list(r, s, &s->operands[1], 4, false, &form.a_list, &count)) return false;
        if (count != 4) return ptx_decode_fail(r, s, "four registers were expected");
    } else if (!ptx_decode_row(r, &s->operands[1], 8, false, &form.a_row)) {
        return false;
    }
    if (!ptx_decode_row(r, &s->operands[2], 8, false, &form.b_row) ||
        !decode_modifiers(r, s, &form, i))
        return false;
    i->list = r->function->wgmmas.count;
    list_push(r->module->memory, &r->function->wgmmas, form);
    return true;
}
