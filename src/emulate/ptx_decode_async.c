/* Hopper's asynchronous instructions: bulk copies, wgmma, proxy fences, setmaxnreg. */
#include "emulate/ptx_read.h"

static bool unknown(ptx_reader *r, const ptx_statement *s) {
    ptx_read_error(r, DIAG_PTX_UNKNOWN_INSTRUCTION, s->range, s->opcode, STR(""));
    return false;
}

/* --- cp.async.bulk ---------------------------------------------------------------------------- */

static bool decode_address(ptx_reader *r, const ptx_statement *s, const ptx_operand *o,
                           ptx_space space, ptx_address *address) {
    ptx_instruction i = {.space = (uint8_t)space};
    if (!ptx_decode_address(r, s, o, &i)) return false;
    *address = (ptx_address){i.in[0], i.input_count, i.space, i.immediate};
    return true;
}

/* [map, {coordinates}] */
static bool decode_box(ptx_reader *r, const ptx_statement *s, const ptx_operand *o,
                       ptx_bulk *bulk) {
    int rank = s->parts[4].length == 2 ? s->parts[4].data[0] - '0' : 0;
    if (rank < 1 || rank > EMULATE_RANK_MAX || s->parts[4].data[1] != 'd')
        return ptx_decode_fail(r, s, "one to five dimensions were expected");
    if (o->kind != PTX_OPERAND_ADDRESS || o->count != rank)
        return ptx_decode_fail(r, s, "as many coordinates as dimensions were expected");
    bulk->rank = rank;
    bulk->coordinates = r->function->lists.count;
    for (int d = 0; d < rank; d++) {
        int32_t row;
        if (!ptx_decode_row(r, &s->elements[o->first + d], 4, false, &row)) return false;
        list_push(r->module->memory, &r->function->lists, row);
    }
    return decode_address(r, s, o, PTX_GENERIC, &bulk->global);
}

/* Operands: to, from, size unless a tensor, mbarrier of loads, then multicast mask and policy. */
static bool decode_bulk(ptx_reader *r, const ptx_statement *s, bool tensor) {
    ptx_bulk bulk = {.tensor = tensor, .size = PTX_NONE, .multicast = PTX_NONE};
    str to = s->part_count > (tensor ? 5 : 3) ? s->parts[tensor ? 5 : 3] : (str){"", 0};
    bulk.loads = str_starts(to, STR("shared"));
    bool known = bulk.loads ? ptx_decode_has(s, "mbarrier::complete_tx::bytes") &&
                                  ptx_decode_has(s, "global")
                            : str_is(to, "global") && ptx_decode_has(s, "bulk_group");
    static const char *const not_built[] = {
        "im2col",         "im2col_no_offs", "im2col::w",    "im2col::w::128", "tile::gather4",
        "tile::scatter4", "cta_group::1",   "cta_group::2", "cp_mask",
    };
    for (size_t n = 0; n < sizeof not_built / sizeof *not_built; n++)
        known = known && !ptx_decode_has(s, not_built[n]);
    int needed = 2 + !tensor + bulk.loads, at = 2;
    if (!known) return unknown(r, s);
    if (s->operand_count < needed) return ptx_decode_fail(r, s, "more operands were expected");
    ptx_instruction *i = ptx_decode_emit(r, s, PTX_BULK);
    i->list = r->function->bulks.count;
    const ptx_operand *shared = &s->operands[bulk.loads ? 0 : 1];
    const ptx_operand *global = &s->operands[bulk.loads ? 1 : 0];
    if (!decode_address(r, s, shared, PTX_SHARED, &bulk.shared)) return false;
    if (tensor ? !decode_box(r, s, global, &bulk)
               : !decode_address(r, s, global, PTX_GLOBAL, &bulk.global))
        return false;
    if (!tensor && !ptx_decode_row(r, &s->operands[at++], 4, false, &bulk.size)) return false;
    if (bulk.loads && !decode_address(r, s, &s->operands[at++], PTX_SHARED, &bulk.mbarrier))
        return false;
    if (ptx_decode_has(s, "multicast::cluster") &&
        (at >= s->operand_count || !ptx_decode_row(r, &s->operands[at], 4, false, &bulk.multicast)))
        return ptx_decode_fail(r, s, "a mask of blocks was expected");
    list_push(r->module->memory, &r->function->bulks, bulk);
    return true;
}

bool ptx_decode_cp_bulk(ptx_reader *r, const ptx_statement *s) {
    if (s->part_count < 4) return unknown(r, s);
    str what = s->parts[3];
    if (str_is(what, "prefetch")) return ptx_decode_emit(r, s, PTX_NOTHING);
    if (str_is(what, "commit_group")) return ptx_decode_emit(r, s, PTX_BULK_COMMIT);
    if (str_is(what, "wait_group")) {
        ptx_instruction *i = ptx_decode_emit(r, s, PTX_BULK_WAIT);
        i->operation = ptx_decode_has(s, "read");
        i->immediate = (int64_t)s->operands[0].bits;
        return s->operand_count == 1 && s->operands[0].kind == PTX_OPERAND_NUMBER &&
               i->immediate >= 0;
    }
    if (str_is(what, "tensor") && s->part_count > 5) return decode_bulk(r, s, true);
    return decode_bulk(r, s, false);
}

/* --- fences ----------------------------------------------------------------------------------- */

/* Fences within the generic proxy order what the machine does in order anyway: a block's threads
 * share one memory, and the shadow counts barriers only.
 */
bool ptx_decode_fence(ptx_reader *r, const ptx_statement *s) {
    if (ptx_decode_has(s, "mbarrier_init")) return ptx_decode_emit(r, s, PTX_INIT_FENCE);
    for (int n = 1; n < s->part_count; n++)
        if (str_starts(s->parts[n], STR("proxy::tensormap")) ||
            str_starts(s->parts[n], STR("tensormap")))
            return unknown(r, s);
    bool proxy = ptx_decode_has(s, "proxy") && ptx_decode_has(s, "async");
    if (proxy && ptx_decode_space(s) == PTX_GLOBAL) proxy = false;
    return ptx_decode_emit(r, s, proxy ? PTX_PROXY_FENCE : PTX_NOTHING);
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

static bool is_fp8(ptx_number number) {
    return number == PTX_E4M3 || number == PTX_E5M2;
}

static bool decode_types(const ptx_statement *s, ptx_wgmma *form) {
    uint8_t d_bytes, a_bytes, b_bytes;
    if (!ptx_decode_number(s->parts[5], &form->d_number, &d_bytes) ||
        !ptx_decode_number(s->parts[6], &form->a_number, &a_bytes) ||
        !ptx_decode_number(s->parts[7], &form->b_number, &b_bytes))
        return false;
    ptx_number a = form->a_number, b = form->b_number, d = form->d_number;
    bool known = (a == PTX_F16 && b == a && (d == PTX_F32 || d == PTX_F16)) ||
                 ((a == PTX_BF16 || a == PTX_TF32) && b == a && d == PTX_F32) ||
                 (is_fp8(a) && is_fp8(b) && (d == PTX_F32 || d == PTX_F16));
    if (!known || form->k_count * a_bytes != 32) return false;
    form->d_count = form->n_count * d_bytes / 8;
    return true;
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
    return ptx_decode_truth(r, &s->operands[3], &i->p, &i->second_negated);
}

static bool decode_mma_async(ptx_reader *r, const ptx_statement *s) {
    ptx_wgmma form = {.a_list = -1, .a_row = PTX_NONE};
    if (s->part_count != 8 || s->operand_count < 6 || !decode_shape(s, &form) ||
        !decode_types(s, &form))
        return unknown(r, s);
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

bool ptx_decode_wgmma(ptx_reader *r, const ptx_statement *s) {
    if (s->part_count < 2) return unknown(r, s);
    str what = s->parts[1];
    if (str_is(what, "mma_async")) return decode_mma_async(r, s);
    if (str_is(what, "fence")) return ptx_decode_emit(r, s, PTX_WGMMA_FENCE);
    if (str_is(what, "commit_group")) return ptx_decode_emit(r, s, PTX_WGMMA_COMMIT);
    if (!str_is(what, "wait_group")) return unknown(r, s);
    ptx_instruction *i = ptx_decode_emit(r, s, PTX_WGMMA_WAIT);
    i->immediate = (int64_t)s->operands[0].bits;
    return s->operand_count == 1 && s->operands[0].kind == PTX_OPERAND_NUMBER &&
           i->immediate >= 0 && i->immediate < 8;
}

/* setmaxnreg.inc|dec.sync.aligned.u32 count */
bool ptx_decode_setmaxnreg(ptx_reader *r, const ptx_statement *s) {
    if (s->part_count != 5 || s->operand_count != 1) return unknown(r, s);
    ptx_instruction *i = ptx_decode_emit(r, s, PTX_SET_REGISTERS);
    i->operation = str_is(s->parts[1], "inc");
    i->immediate = (int64_t)s->operands[0].bits;
    bool fits = i->immediate >= 24 && i->immediate <= 256 && i->immediate % 8 == 0;
    return (s->operands[0].kind == PTX_OPERAND_NUMBER && fits) ||
           ptx_decode_fail(r, s, "a multiple of 8 from 24 to 256 was expected");
}

/* --- who touches the registers of wgmma ------------------------------------------------------- */

static void track(ptx_reader *r, ptx_function *f, int32_t row) {
    if (row < 0 || f->row_numbers[row] >= 0) return;
    f->row_numbers[row] = f->tracked.count;
    list_push(r->module->memory, &f->tracked, row);
}

static void note_touch(ptx_reader *r, ptx_function *f, int32_t row, bool writes) {
    if (row < 0 || row >= f->row_count || f->row_numbers[row] < 0) return;
    list_push(r->module->memory, &f->touches, f->row_numbers[row] * 2 + writes);
}

static void note_list(ptx_reader *r, ptx_function *f, int32_t list, int count, bool writes) {
    for (int n = 0; n < count; n++) note_touch(r, f, f->lists.items[list + n], writes);
}

static void note_instruction(ptx_reader *r, ptx_function *f, const ptx_instruction *i) {
    switch (i->kind) {
    case PTX_WGMMA: return;
    case PTX_LOAD:
    case PTX_LOAD_MATRIX:
    case PTX_UNPACK: note_list(r, f, i->list, i->count, true); break;
    case PTX_STORE:
    case PTX_STORE_MATRIX:
    case PTX_PACK: note_list(r, f, i->list, i->count, false); break;
    case PTX_PRODUCT: {
        ptx_product_rows rows = ptx_product_rows_of(i);
        note_list(r, f, i->list, rows.sums, true);
        note_list(r, f, i->list + rows.sums, rows.left + rows.right + rows.sums, false);
        break;
    }
    case PTX_BULK: {
        const ptx_bulk *bulk = &f->bulks.items[i->list];
        note_list(r, f, bulk->coordinates, bulk->rank, false);
        break;
    }
    default: break;
    }
    for (int n = 0; n < LANES_INPUTS; n++) note_touch(r, f, i->in[n], false);
    note_touch(r, f, i->d, true);
}

/* The function is whole: finds out which instructions use registers of wgmma. */
void ptx_decode_touches(ptx_reader *r, ptx_function *f) {
    if (!f->wgmmas.count) return;
    arena *memory = r->module->memory;
    f->row_numbers = arena_array(memory, int32_t, f->row_count);
    f->touch_of = arena_array(memory, int32_t, f->code.count);
    for (int row = 0; row < f->row_count; row++) f->row_numbers[row] = -1;
    for (int n = 0; n < f->wgmmas.count; n++) {
        const ptx_wgmma *form = &f->wgmmas.items[n];
        for (int e = 0; e < form->d_count; e++) track(r, f, f->lists.items[form->d_list + e]);
        for (int e = 0; form->a_list >= 0 && e < 4; e++)
            track(r, f, f->lists.items[form->a_list + e]);
    }
    for (int pc = 0; pc < f->code.count; pc++) {
        ptx_instruction *i = &f->code.items[pc];
        f->touch_of[pc] = f->touches.count;
        note_instruction(r, f, i);
        if (f->touches.count == f->touch_of[pc]) continue;
        i->flags |= PTX_TOUCHES;
        list_push(memory, &f->touches, -1);
    }
}
