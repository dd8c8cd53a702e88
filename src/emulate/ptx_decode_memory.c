/* Loads, stores, atomics, asynchronous copies, mbarriers: statements to instructions. */
#include "emulate/ptx_read.h"

static bool unknown(ptx_reader *r, const ptx_statement *s) {
    ptx_read_error(r, DIAG_PTX_UNKNOWN_INSTRUCTION, s->range, s->opcode, STR(""));
    return false;
}

static str last_part(const ptx_statement *s) {
    return s->parts[s->part_count - 1];
}

static bool in_cluster(const ptx_statement *s) {
    return ptx_decode_has(s, "shared::cluster") || ptx_decode_has(s, "multimem");
}

/* The bytes of the registers that hold the elements: sizes may differ (PTX ISA, "Operand Size
 * Exceeding Instruction-Type Size").
 */
static int register_bytes(ptx_reader *r, const ptx_statement *s, const ptx_operand *o, int bytes) {
    const ptx_operand *first =
        o->kind == PTX_OPERAND_VECTOR && o->count ? s->elements + o->first : o;
    int32_t index;
    const ptx_symbol *symbol =
        first->kind == PTX_OPERAND_NAME ? ptx_read_find(r, first->name, &index) : NULL;
    if (symbol && symbol->kind == PTX_SYMBOL_DOUBLE) return 8;
    if (symbol && symbol->kind == PTX_SYMBOL_WORD) return 4;
    return bytes == 8 ? 8 : 4;
}

static bool decode_access(ptx_reader *r, const ptx_statement *s, ptx_kind kind) {
    bool load = kind == PTX_LOAD;
    ptx_number number;
    uint8_t bytes;
    if (s->operand_count < 2 || in_cluster(s) || !ptx_decode_number(last_part(s), &number, &bytes))
        return unknown(r, s);
    const ptx_operand *data = &s->operands[load ? 0 : 1], *address = &s->operands[load ? 1 : 0];
    ptx_instruction *i = ptx_decode_emit(r, s, kind);
    i->bytes = bytes;
    i->space = (uint8_t)ptx_decode_space(s);
    if (last_part(s).data[0] == 's') i->flags |= PTX_SIGNED;
    if (!ptx_decode_address(r, s, address, i)) return false;
    i->register_bytes = (uint8_t)register_bytes(r, s, data, bytes);
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

bool ptx_decode_ld(ptx_reader *r, const ptx_statement *s) {
    return decode_access(r, s, PTX_LOAD);
}

bool ptx_decode_st(ptx_reader *r, const ptx_statement *s) {
    if (ptx_decode_has(s, "async")) return unknown(r, s);
    return decode_access(r, s, PTX_STORE);
}

static bool find_operation(const ptx_statement *s, ptx_operation *operation) {
    static const struct {
        const char *name;
        ptx_operation operation;
    } rows[] = {
        {"add", PTX_OP_ADD}, {"min", PTX_OP_MIN}, {"max", PTX_OP_MAX},       {"and", PTX_OP_AND},
        {"or", PTX_OP_OR},   {"xor", PTX_OP_XOR}, {"exch", PTX_OP_EXCHANGE}, {"cas", PTX_OP_CAS},
        {"inc", PTX_OP_INC}, {"dec", PTX_OP_DEC},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (ptx_decode_has(s, rows[i].name)) {
            *operation = rows[i].operation;
            return true;
        }
    return false;
}

bool ptx_decode_atom(ptx_reader *r, const ptx_statement *s) {
    bool result = str_is(s->parts[0], "atom");
    ptx_operation operation;
    ptx_number number;
    uint8_t bytes;
    if (in_cluster(s) || ptx_decode_has(s, "async") || ptx_decode_has(s, "v2") ||
        ptx_decode_has(s, "v4") || ptx_decode_has(s, "v8") || !find_operation(s, &operation) ||
        !ptx_decode_number(last_part(s), &number, &bytes) || bytes == 1)
        return unknown(r, s);
    int sources = operation == PTX_OP_CAS ? 2 : 1, first = result ? 1 : 0;
    if (s->operand_count < first + 1 + sources)
        return ptx_decode_fail(r, s, "more operands were expected");
    ptx_instruction *i = ptx_decode_emit(r, s, PTX_ATOMIC);
    i->space = (uint8_t)ptx_decode_space(s);
    i->bytes = bytes;
    i->number = (uint8_t)number;
    i->operation = (uint8_t)operation;
    i->register_bytes = bytes == 8 ? 8 : 4;
    i->d = r->function->sink;
    if (result && !ptx_decode_result(r, &s->operands[0], i->register_bytes, &i->d)) return false;
    if (!ptx_decode_address(r, s, &s->operands[first], i)) return false;
    for (int n = 0; n < sources; n++)
        if (!ptx_decode_row(r, &s->operands[first + 1 + n], i->register_bytes, number == PTX_F32,
                            &i->in[n + 1]))
            return false;
    return true;
}

/* cp.async.ca|cg.shared.global [to], [from], size {, source size | predicate} {, policy} */
static bool decode_copy(ptx_reader *r, const ptx_statement *s) {
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
    if (symbol && symbol->kind == PTX_SYMBOL_PREDICATE) {
        return ptx_decode_truth(r, fourth, &i->r, &i->second_negated);
    }
    return ptx_decode_row(r, fourth, 4, false, &i->in[2]);
}

bool ptx_decode_cp(ptx_reader *r, const ptx_statement *s) {
    if (s->part_count < 3 || !str_is(s->parts[1], "async")) return unknown(r, s);
    str what = s->parts[2];
    if (str_is(what, "bulk")) return ptx_decode_cp_bulk(r, s);
    if (str_is(what, "ca") || str_is(what, "cg")) return decode_copy(r, s);
    if (str_is(what, "commit_group")) return ptx_decode_emit(r, s, PTX_COPY_COMMIT);
    if (str_is(what, "wait_group") || str_is(what, "wait_all")) {
        ptx_instruction *i = ptx_decode_emit(r, s, PTX_COPY_WAIT);
        i->operation = str_is(what, "wait_all");
        if (i->operation) return true;
        i->immediate = (int64_t)s->operands[0].bits;
        return s->operand_count == 1 && s->operands[0].kind == PTX_OPERAND_NUMBER;
    }
    if (str_is(what, "mbarrier")) {
        if (s->operand_count != 1) return ptx_decode_fail(r, s, "an address was expected");
        ptx_instruction *i = ptx_decode_emit(r, s, PTX_COPY_ARRIVE);
        i->operation = ptx_decode_has(s, "noinc");
        i->space = PTX_SHARED;
        if (ptx_decode_space(s) == PTX_GENERIC) i->space = PTX_GENERIC;
        return ptx_decode_address(r, s, &s->operands[0], i);
    }
    return unknown(r, s);
}

static bool mbarrier_operation(const ptx_statement *s, ptx_mbarrier *operation) {
    if (s->part_count < 2) return false;
    str what = s->parts[1];
    if (str_is(what, "init")) *operation = PTX_MBARRIER_INIT;
    else if (str_is(what, "inval")) *operation = PTX_MBARRIER_INVALIDATE;
    else if (str_is(what, "arrive")) *operation = PTX_MBARRIER_ARRIVE;
    else if (str_is(what, "arrive_drop")) *operation = PTX_MBARRIER_ARRIVE_DROP;
    else if (str_is(what, "expect_tx")) *operation = PTX_MBARRIER_EXPECT;
    else if (str_is(what, "complete_tx")) *operation = PTX_MBARRIER_COMPLETE;
    else if (str_is(what, "pending_count")) *operation = PTX_MBARRIER_PENDING;
    else if (str_is(what, "test_wait") || str_is(what, "try_wait"))
        *operation = ptx_decode_has(s, "parity") ? PTX_MBARRIER_TEST_PARITY : PTX_MBARRIER_TEST;
    else return false;
    return true;
}

bool ptx_decode_mbarrier(ptx_reader *r, const ptx_statement *s) {
    ptx_mbarrier operation;
    if (!mbarrier_operation(s, &operation)) return unknown(r, s);
    ptx_instruction *i = ptx_decode_emit(r, s, PTX_MBARRIER);
    i->operation = (uint8_t)operation;
    i->waits = s->part_count > 1 && str_is(s->parts[1], "try_wait");
    i->flags |= ptx_decode_has(s, "expect_tx") ? PTX_SIGNED : 0; /* arrive.expect_tx */
    i->flags |= ptx_decode_has(s, "relaxed") ? PTX_RELAXED : 0;
    i->space = (uint8_t)ptx_decode_space(s);
    i->d = r->function->sink;
    int at = 0;
    if (operation == PTX_MBARRIER_PENDING) {
        return s->operand_count == 2 && ptx_decode_result(r, &s->operands[0], 4, &i->d) &&
               ptx_decode_row(r, &s->operands[1], 8, false, &i->in[1]);
    }
    if (operation == PTX_MBARRIER_ARRIVE || operation == PTX_MBARRIER_ARRIVE_DROP) {
        bool has_state = s->operand_count && s->operands[0].kind == PTX_OPERAND_NAME;
        if (has_state && !ptx_decode_result(r, &s->operands[at++], 8, &i->d)) return false;
    }
    if (operation == PTX_MBARRIER_TEST || operation == PTX_MBARRIER_TEST_PARITY) {
        if (!s->operand_count || !ptx_decode_predicate(r, s->operands[at++].name, &i->p))
            return false;
    }
    if (at >= s->operand_count || !ptx_decode_address(r, s, &s->operands[at++], i))
        return ptx_decode_fail(r, s, "an address was expected");
    bool needs_second = operation == PTX_MBARRIER_INIT || operation == PTX_MBARRIER_TEST ||
                        operation == PTX_MBARRIER_TEST_PARITY || operation == PTX_MBARRIER_EXPECT ||
                        operation == PTX_MBARRIER_COMPLETE;
    if (at < s->operand_count)
        return ptx_decode_row(r, &s->operands[at], operation == PTX_MBARRIER_TEST ? 8 : 4, false,
                              &i->in[1]);
    return !needs_second || ptx_decode_fail(r, s, "another operand was expected");
}

static uint64_t window(ptx_space space) {
    switch (space) {
    case PTX_SHARED: return PTX_SHARED_WINDOW;
    case PTX_LOCAL: return PTX_LOCAL_WINDOW;
    case PTX_PARAM: return PTX_PARAM_WINDOW;
    case PTX_CONST: return PTX_CONST_WINDOW;
    default: return 0;
    }
}

/* PTX ISA, cvta: between a space's own addresses and generic ones. */
bool ptx_decode_cvta(ptx_reader *r, const ptx_statement *s) {
    ptx_number number;
    uint8_t bytes;
    if (s->operand_count != 2 || !ptx_decode_number(s->parts[s->part_count - 1], &number, &bytes) ||
        bytes != 8)
        return ptx_decode_fail(r, s, "expected two 64-bit operands");
    ptx_instruction *i = ptx_decode_emit(r, s, PTX_CONVERT_ADDRESS);
    ptx_space space = ptx_decode_space(s);
    uint64_t base = window(space);
    i->immediate = (int64_t)(ptx_decode_has(s, "to") ? 0u - base : base);
    i->bytes = 8;
    return ptx_decode_result(r, &s->operands[0], 8, &i->d) &&
           ptx_decode_row(r, &s->operands[1], 8, false, &i->in[0]);
}

bool ptx_decode_isspacep(ptx_reader *r, const ptx_statement *s) {
    if (s->operand_count != 2) return ptx_decode_fail(r, s, "two operands were expected");
    ptx_instruction *i = ptx_decode_emit(r, s, PTX_ISSPACE);
    i->space = (uint8_t)ptx_decode_space(s);
    return ptx_decode_predicate(r, s->operands[0].name, &i->p) &&
           ptx_decode_row(r, &s->operands[1], 8, false, &i->in[0]);
}

/* A cache policy is a hint, and has no meaning here. */
bool ptx_decode_createpolicy(ptx_reader *r, const ptx_statement *s) {
    if (s->operand_count < 1) return ptx_decode_fail(r, s, "a result was expected");
    ptx_instruction *i = ptx_decode_emit(r, s, PTX_MOVE);
    i->bytes = 8;
    i->in[0] = ptx_decode_constant(r, 0, 8);
    return ptx_decode_result(r, &s->operands[0], 8, &i->d);
}
