/* Branches, barriers, and what the lanes of a warp do together: statements to instructions. */
#include "emulate/ptx_read.h"

static bool unknown(ptx_reader *r, const ptx_statement *s) {
    ptx_read_error(r, DIAG_PTX_UNKNOWN_INSTRUCTION, s->range, s->opcode, STR(""));
    return false;
}

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

bool ptx_decode_ret(ptx_reader *r, const ptx_statement *s) {
    return ptx_decode_emit(r, s, PTX_RETURN);
}

bool ptx_decode_trap(ptx_reader *r, const ptx_statement *s) {
    return ptx_decode_emit(r, s, PTX_TRAP);
}

/* Prefetches and sleeps have no meaning here. */
bool ptx_decode_nothing(ptx_reader *r, const ptx_statement *s) {
    return ptx_decode_emit(r, s, PTX_NOTHING);
}

static bool decode_barrier_reduce(ptx_reader *r, const ptx_statement *s, ptx_instruction *i) {
    i->kind = PTX_BARRIER_REDUCE;
    bool count = ptx_decode_has(s, "popc");
    i->operation = count ? PTX_BALLOT : ptx_decode_has(s, "and") ? PTX_ALL : PTX_ANY;
    if (s->operand_count < 3) return ptx_decode_fail(r, s, "more operands were expected");
    if (count ? !ptx_decode_result(r, &s->operands[0], 4, &i->d)
              : !ptx_decode_predicate(r, s->operands[0].name, &i->p))
        return false;
    const ptx_operand *last = &s->operands[s->operand_count - 1];
    if (!ptx_decode_truth(r, last, &i->r, &i->second_negated)) return false;
    if (s->operand_count == 4 && !ptx_decode_row(r, &s->operands[2], 4, false, &i->in[1]))
        return false;
    return ptx_decode_row(r, &s->operands[1], 4, false, &i->in[0]);
}

bool ptx_decode_bar(ptx_reader *r, const ptx_statement *s) {
    if (ptx_decode_has(s, "cluster")) return unknown(r, s);
    if (ptx_decode_has(s, "warp")) {
        ptx_instruction *i = ptx_decode_emit(r, s, PTX_WARP_BARRIER);
        return s->operand_count == 1 && ptx_decode_row(r, &s->operands[0], 4, false, &i->in[0]);
    }
    ptx_instruction *i = ptx_decode_emit(r, s, PTX_BARRIER);
    i->waits = !ptx_decode_has(s, "arrive");
    if (ptx_decode_has(s, "red")) return decode_barrier_reduce(r, s, i);
    if (s->operand_count < 1) return ptx_decode_fail(r, s, "a barrier number was expected");
    if (!i->waits && s->operand_count != 2)
        return ptx_decode_fail(r, s, "a thread count was expected");
    if (s->operand_count > 1 && !ptx_decode_row(r, &s->operands[1], 4, false, &i->in[1]))
        return false;
    return ptx_decode_row(r, &s->operands[0], 4, false, &i->in[0]);
}

/* shfl.sync.mode.b32 d[|p], a, b, c, membermask */
bool ptx_decode_shfl(ptx_reader *r, const ptx_statement *s) {
    if (s->operand_count != 5 || !ptx_decode_has(s, "sync")) return unknown(r, s);
    ptx_instruction *i = ptx_decode_emit(r, s, PTX_SHUFFLE);
    if (ptx_decode_has(s, "up")) i->operation = PTX_UP;
    else if (ptx_decode_has(s, "down")) i->operation = PTX_DOWN;
    else if (ptx_decode_has(s, "bfly")) i->operation = PTX_BUTTERFLY;
    else if (ptx_decode_has(s, "idx")) i->operation = PTX_INDEX;
    else return unknown(r, s);
    if (s->operands[0].second.length && !ptx_decode_predicate(r, s->operands[0].second, &i->p))
        return false;
    for (int n = 0; n < 4; n++)
        if (!ptx_decode_row(r, &s->operands[n + 1], 4, false, &i->in[n])) return false;
    return ptx_decode_result(r, &s->operands[0], 4, &i->d);
}

bool ptx_decode_vote(ptx_reader *r, const ptx_statement *s) {
    if (s->operand_count != 3 || !ptx_decode_has(s, "sync")) return unknown(r, s);
    ptx_instruction *i = ptx_decode_emit(r, s, PTX_VOTE);
    bool ballot = ptx_decode_has(s, "ballot");
    i->operation = ballot                     ? PTX_BALLOT
                   : ptx_decode_has(s, "all") ? PTX_ALL
                   : ptx_decode_has(s, "any") ? PTX_ANY
                                              : PTX_UNIFORM;
    if (ballot ? !ptx_decode_result(r, &s->operands[0], 4, &i->d)
               : !ptx_decode_predicate(r, s->operands[0].name, &i->p))
        return false;
    return ptx_decode_truth(r, &s->operands[1], &i->r, &i->second_negated) &&
           ptx_decode_row(r, &s->operands[2], 4, false, &i->in[3]);
}

bool ptx_decode_activemask(ptx_reader *r, const ptx_statement *s) {
    ptx_instruction *i = ptx_decode_emit(r, s, PTX_ACTIVE_MASK);
    return s->operand_count == 1 && ptx_decode_result(r, &s->operands[0], 4, &i->d);
}

bool ptx_decode_match(ptx_reader *r, const ptx_statement *s) {
    if (s->operand_count != 3) return unknown(r, s);
    ptx_instruction *i = ptx_decode_emit(r, s, PTX_MATCH);
    i->operation = ptx_decode_has(s, "all") ? PTX_ALL : PTX_ANY;
    i->bytes = ptx_decode_has(s, "b64") ? 8 : 4;
    if (s->operands[0].second.length && !ptx_decode_predicate(r, s->operands[0].second, &i->p))
        return false;
    return ptx_decode_result(r, &s->operands[0], 4, &i->d) &&
           ptx_decode_row(r, &s->operands[1], i->bytes, false, &i->in[0]) &&
           ptx_decode_row(r, &s->operands[2], 4, false, &i->in[3]);
}

bool ptx_decode_redux(ptx_reader *r, const ptx_statement *s) {
    if (s->operand_count != 3 || s->part_count != 4) return unknown(r, s);
    ptx_instruction *i = ptx_decode_emit(r, s, PTX_REDUCE);
    str what = s->parts[2];
    if (str_is(what, "add")) i->operation = PTX_OP_ADD;
    else if (str_is(what, "min")) i->operation = PTX_OP_MIN;
    else if (str_is(what, "max")) i->operation = PTX_OP_MAX;
    else if (str_is(what, "and")) i->operation = PTX_OP_AND;
    else if (str_is(what, "or")) i->operation = PTX_OP_OR;
    else if (str_is(what, "xor")) i->operation = PTX_OP_XOR;
    else return unknown(r, s);
    ptx_number number;
    uint8_t bytes;
    if (!ptx_decode_number(s->parts[3], &number, &bytes) || bytes != 4 || number == PTX_F32)
        return unknown(r, s);
    i->number = (uint8_t)number;
    return ptx_decode_result(r, &s->operands[0], 4, &i->d) &&
           ptx_decode_row(r, &s->operands[1], 4, false, &i->in[0]) &&
           ptx_decode_row(r, &s->operands[2], 4, false, &i->in[3]);
}

bool ptx_decode_elect(ptx_reader *r, const ptx_statement *s) {
    if (s->operand_count != 2) return unknown(r, s);
    ptx_instruction *i = ptx_decode_emit(r, s, PTX_ELECT);
    return ptx_decode_result(r, &s->operands[0], 4, &i->d) &&
           ptx_decode_predicate(r, s->operands[0].second, &i->p) &&
           ptx_decode_row(r, &s->operands[1], 4, false, &i->in[3]);
}

/* ldmatrix and stmatrix .sync.aligned.m8n8.x1|x2|x4[.trans][.shared].b16 */
bool ptx_decode_matrix(ptx_reader *r, const ptx_statement *s) {
    bool load = str_is(s->parts[0], "ldmatrix");
    if (s->operand_count != 2 || !ptx_decode_has(s, "m8n8") || !ptx_decode_has(s, "b16") ||
        ptx_decode_has(s, "shared::cluster"))
        return unknown(r, s);
    ptx_instruction *i = ptx_decode_emit(r, s, load ? PTX_LOAD_MATRIX : PTX_STORE_MATRIX);
    int wanted = ptx_decode_has(s, "x4") ? 4 : ptx_decode_has(s, "x2") ? 2 : 1, count;
    i->count = (uint8_t)wanted;
    i->bytes = 16;
    i->space = (uint8_t)ptx_decode_space(s);
    if (ptx_decode_has(s, "trans")) i->flags |= PTX_TRANSPOSED;
    if (!ptx_decode_address(r, s, &s->operands[load ? 1 : 0], i) ||
        !ptx_decode_list(r, s, &s->operands[load ? 0 : 1], 4, load, &i->list, &count))
        return false;
    return count == wanted || ptx_decode_fail(r, s, "another number of registers was expected");
}

bool ptx_decode_movmatrix(ptx_reader *r, const ptx_statement *s) {
    if (s->operand_count != 2 || !ptx_decode_has(s, "trans")) return unknown(r, s);
    ptx_instruction *i = ptx_decode_emit(r, s, PTX_MOVE_MATRIX);
    return ptx_decode_result(r, &s->operands[0], 4, &i->d) &&
           ptx_decode_row(r, &s->operands[1], 4, false, &i->in[0]);
}

/* mma.sync.aligned.m16n8kK.row.col.D.A.B.C: registers a thread, by the element's bits. Of 8-bit
 * integers m8n8k16, too: half of everything.
 */
bool ptx_decode_mma(ptx_reader *r, const ptx_statement *s) {
    bool is_half = s->part_count == 10 && str_is(s->parts[3], "m8n8k16");
    if (s->part_count != 10 || s->operand_count != 4 || !str_is(s->parts[1], "sync") ||
        (!str_starts(s->parts[3], STR("m16n8k")) && !is_half) || !str_is(s->parts[4], "row") ||
        !str_is(s->parts[5], "col"))
        return unknown(r, s);
    int64_t k = 0;
    size_t before = is_half ? 5 : 6; /* the letters before k's number */
    str k_text = {s->parts[3].data + before, s->parts[3].length - before};
    ptx_number a, b, c, d;
    uint8_t a_bytes, b_bytes, c_bytes, d_bytes;
    if (!str_to_integer(k_text, &k) || !ptx_decode_number(s->parts[6], &d, &d_bytes) ||
        !ptx_decode_number(s->parts[7], &a, &a_bytes) ||
        !ptx_decode_number(s->parts[8], &b, &b_bytes) ||
        !ptx_decode_number(s->parts[9], &c, &c_bytes))
        return unknown(r, s);
    bool integer = a == PTX_S8 || a == PTX_U8, eight = a == PTX_E4M3 || a == PTX_E5M2;
    bool known =
        (a == PTX_F16 && b == PTX_F16 && c == d && (d == PTX_F32 || d == PTX_F16)) ||
        ((a == PTX_BF16 || a == PTX_TF32) && a == b && c == d && d == PTX_F32) ||
        (eight && (b == PTX_E4M3 || b == PTX_E5M2) && c == d && (d == PTX_F32 || d == PTX_F16)) ||
        (integer && (b == PTX_S8 || b == PTX_U8) && c == d && d == PTX_S32);
    int k_bytes = (int)k * a_bytes;
    if (!known || (k_bytes != 16 && k_bytes != 32) || (eight && k_bytes != 32) ||
        (is_half && !integer))
        return unknown(r, s);
    ptx_instruction *i = ptx_decode_emit(r, s, PTX_PRODUCT);
    i->number = (uint8_t)a;
    i->operation = (uint8_t)b;
    i->number2 = (uint8_t)d;
    i->bytes = a_bytes;
    i->count = (uint8_t)k;
    if (is_half) i->flags |= PTX_HALF;
    int counts[4];
    int32_t lists[4];
    for (int n = 0; n < 4; n++) {
        if (!ptx_decode_list(r, s, &s->operands[n], 4, n == 0, &lists[n], &counts[n])) return false;
    }
    i->list = lists[0]; /* D, A, B, C: one after the other */
    ptx_product_rows rows = ptx_product_rows_of(i);
    return (counts[0] == rows.sums && counts[1] == rows.left && counts[2] == rows.right &&
            counts[3] == rows.sums) ||
           ptx_decode_fail(r, s, "another number of registers was expected");
}
