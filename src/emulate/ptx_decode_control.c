/* Branches, calls, and the number of registers: statements to instructions. */
#include "emulate/ptx_read.h"

bool ptx_decode_bra(ptx_reader *r, const ptx_statement *s) {
    if (s->operand_count != 1 || s->operands[0].kind != PTX_OPERAND_NAME)
        return ptx_decode_fail(r, s, "a label was expected");
    ptx_decode_emit(r, s, PTX_BRANCH);
    ptx_use use = {s->operands[0].name, r->scope, r->function->code.count - 1, s->operands[0].at};
    list_push(r->memory, &r->uses, use);
    return true;
}

bool ptx_decode_brx(ptx_reader *r, const ptx_statement *s) {
    if (s->operand_count != 2) return ptx_decode_fail(r, s, "an index and targets were expected");
    int32_t index;
    const ptx_symbol *symbol = ptx_read_find(r, s->operands[1].name, &index);
    if (!symbol || symbol->kind != PTX_SYMBOL_TARGETS)
        return ptx_decode_fail(r, s, "a .branchtargets label was expected");
    ptx_instruction *i = ptx_decode_emit(r, s, PTX_BRANCH_INDEXED);
    i->list = r->targets.items[symbol->value].first;
    i->immediate = r->targets.items[symbol->value].count;
    return ptx_decode_row(r, &s->operands[0], 4, false, &i->in[0]);
}

bool ptx_decode_call(ptx_reader *r, const ptx_statement *s) {
    str name = STR("calls of device functions");
    for (int i = 0; i < s->operand_count; i++)
        if (s->operands[i].kind == PTX_OPERAND_NAME)
            name = str_format(r->memory, "calls of device functions that are not inlined (%.*s)",
                              STR_ARGS(s->operands[i].name));
    ptx_read_error(r, DIAG_PTX_UNSUPPORTED, s->range, name, STR(""));
    return false;
}

/* setmaxnreg.inc|dec.sync.aligned.u32 count */
bool ptx_decode_setmaxnreg(ptx_reader *r, const ptx_statement *s) {
    if (s->part_count != 5 || s->operand_count != 1) return ptx_decode_unknown(r, s);
    ptx_instruction *i = ptx_decode_emit(r, s, PTX_SET_REGISTERS);
    i->operation = str_is(s->parts[1], "inc");
    i->immediate = (int64_t)s->operands[0].bits;
    bool fits = i->immediate >= 24 && i->immediate <= 256 && i->immediate % 8 == 0;
    return (s->operands[0].kind == PTX_OPERAND_NUMBER && fits) ||
           ptx_decode_fail(r, s, "a multiple of 8 from 24 to 256 was expected");
}
