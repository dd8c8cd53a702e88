/* Loads, stores, addresses and copies: statements to instructions. */
#include "emulate/ptx_read.h"

/* Sizes of registers and elements may differ (PTX ISA, "Operand Size Exceeding Instruction-Type
 * Size").
 */
bool ptx_decode_access(ptx_reader *r, const ptx_statement *s) {
    bool load = !str_is(s->parts[0], "st");
    ptx_number number;
    int bytes = ptx_decode_last_type(s, &number);
    if (s->operand_count < 2 || !bytes) return ptx_decode_unknown(r, s);
    const ptx_operand *data = &s->operands[load ? 0 : 1], *address = &s->operands[load ? 1 : 0];
    const ptx_operand *first =
        data->kind == PTX_OPERAND_VECTOR && data->count ? s->elements + data->first : data;
    int declared = ptx_decode_declared_bytes(r, first);
    ptx_instruction *i = ptx_decode_emit(r, s, load ? PTX_LOAD : PTX_STORE);
    i->bytes = (uint8_t)bytes;
    i->space = (uint8_t)ptx_decode_space(s);
    if (s->parts[s->part_count - 1].data[0] == 's') i->flags |= PTX_SIGNED;
    if (!ptx_decode_address(r, s, address, i)) return false;
    i->register_bytes = (uint8_t)(declared ? declared : bytes == 8 ? 8 : 4);
    if (i->register_bytes < bytes) return ptx_decode_fail(r, s, "the register is too small");
    int count, wanted = ptx_decode_has(s, "v2")   ? 2
                        : ptx_decode_has(s, "v4") ? 4
                        : ptx_decode_has(s, "v8") ? 8
                                                  : 1;
    if (!ptx_decode_list(r, s, data, i->register_bytes, load, &i->list, &count)) return false;
    if (count != wanted || bytes * count > 32)
        return ptx_decode_fail(r, s, "another number of elements was expected");
    i->count = (uint8_t)count;
    return true;
}

/* PTX ISA, cvta: between a space's own addresses and generic ones. */
bool ptx_decode_cvta(ptx_reader *r, const ptx_statement *s) {
    ptx_number number;
    if (s->operand_count != 2 || ptx_decode_last_type(s, &number) != 8)
        return ptx_decode_fail(r, s, "expected two 64-bit operands");
    ptx_instruction *i = ptx_decode_emit(r, s, PTX_CONVERT_ADDRESS);
    uint64_t base = ptx_window(ptx_decode_space(s));
    i->immediate = (int64_t)(ptx_decode_has(s, "to") ? 0u - base : base);
    return ptx_decode_result(r, &s->operands[0], 8, &i->d) &&
           ptx_decode_row(r, &s->operands[1], 8, false, &i->in[0]);
}

/* A cache policy is a hint, and has no meaning here. */
bool ptx_decode_createpolicy(ptx_reader *r, const ptx_statement *s) {
    if (s->operand_count < 1) return ptx_decode_fail(r, s, "a result was expected");
    ptx_instruction *i = ptx_decode_emit(r, s, PTX_MOVE);
    i->register_bytes = 8;
    i->in[0] = ptx_decode_constant(r, 0, 8);
    return ptx_decode_result(r, &s->operands[0], 8, &i->d);
}

/* --- asynchronous copies ---------------------------------------------------------------------- */

/* cp.async.ca|cg.shared.global [to], [from], size {, source size | predicate} {, policy} */
bool ptx_decode_copy(ptx_reader *r, const ptx_statement *s) {
    if (s->operand_count < 3 || s->operands[2].kind != PTX_OPERAND_NUMBER)
        return ptx_decode_fail(r, s, "two addresses and a size were expected");
    uint64_t bytes = s->operands[2].bits;
    if ((bytes != 4 && bytes != 8 && bytes != 16) || (ptx_decode_has(s, "cg") && bytes != 16))
        return ptx_decode_fail(r, s, "the size must be 4, 8 or 16, and 16 for cg");
    ptx_instruction *i = ptx_decode_emit(r, s, PTX_COPY_ASYNC);
    i->bytes = (uint8_t)bytes;
    ptx_instruction from = *i;
    if (!ptx_decode_address(r, s, &s->operands[1], &from)) return false;
    int64_t from_offset = from.immediate;
    i->in[1] = from.in[0];
    i->register_bytes = from.input_count;
    if (!ptx_decode_address(r, s, &s->operands[0], i)) return false;
    i->space = PTX_SHARED;
    i->function = (int32_t)from_offset;
    if (from_offset != i->function) return ptx_decode_fail(r, s, "the offset is too large");
    if (s->operand_count < 4) return true;
    const ptx_operand *fourth = &s->operands[3];
    int32_t index;
    const ptx_symbol *symbol =
        fourth->kind == PTX_OPERAND_NAME ? ptx_read_find(r, fourth->name, &index) : NULL;
    if (ptx_decode_has(s, "L2::cache_hint") && s->operand_count == 4) return true;
    if (symbol && symbol->kind == PTX_SYMBOL_PREDICATE)
        return ptx_decode_truth(r, fourth, &i->r, &i->second_negated);
    return ptx_decode_row(r, fourth, 4, false, &i->in[2]);
}

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
    str word = s->parts[4 + bulk->adds];
    int rank = word.length == 2 ? word.data[0] - '0' : 0;
    if (rank < 1 || rank > EMULATE_RANK_MAX || word.data[1] != 'd')
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

/* Operands: to, from, size unless a tensor, mbarrier of loads, then multicast mask and policy. Of
 * reductions, sums of tensors' elements.
 */
bool ptx_decode_bulk(ptx_reader *r, const ptx_statement *s) {
    bool adds = s->part_count > 1 && str_is(s->parts[1], "reduce");
    bool tensor = s->part_count > 5 + adds && str_is(s->parts[3 + adds], "tensor");
    ptx_bulk bulk = {.tensor = tensor, .adds = adds, .size = PTX_NONE, .multicast = PTX_NONE};
    int to_at = (tensor ? 5 : 3) + adds;
    str to = s->part_count > to_at ? s->parts[to_at] : (str){"", 0};
    bulk.loads = str_starts(to, STR("shared"));
    if (adds && (bulk.loads || !ptx_decode_has(s, "add"))) return ptx_decode_unknown(r, s);
    bool known = bulk.loads ? ptx_decode_has(s, "mbarrier::complete_tx::bytes") &&
                                  ptx_decode_has(s, "global")
                            : str_is(to, "global") && ptx_decode_has(s, "bulk_group");
    int needed = 2 + !tensor + bulk.loads, at = 2;
    if (!known) return ptx_decode_unknown(r, s);
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
