/* Statements that treat each lane alike: instructions that are spelled as in lanes.def, carries,
 * tests and moves.
 */
#include "emulate/ptx_read.h"

#include <string.h>

typedef struct spelling {
    char text[96];
    size_t length;
} spelling;

static void spell(spelling *key, const char *separator, str part) {
    size_t extra = strlen(separator);
    if (key->length + extra + part.length >= sizeof key->text) return;
    memcpy(key->text + key->length, separator, extra);
    memcpy(key->text + key->length + extra, part.data, part.length);
    key->length += extra + part.length;
    key->text[key->length] = '\0';
}

static int find_lanes(const ptx_reader *r, const spelling *key) {
    str text = {key->text, key->length};
    const ptx_index *index = &r->lanes_by_spelling;
    int32_t i = ptx_index_first(index, str_hash(text));
    for (; i >= 0; i = ptx_index_next(index, i))
        if (str_is(text, lanes_entries[i].spelling)) return i;
    return -1;
}

/* The spelling in lanes.def: round-to-nearest is the default and left out; mad on floats is fma;
 * cvt ignores .ftz where no subnormal f32 can appear or matter.
 */
static int find_spelling(const ptx_reader *r, const ptx_statement *s, bool drop_ftz) {
    spelling key = {.length = 0};
    str head = s->parts[0], last = s->parts[s->part_count - 1];
    bool is_float = last.length > 1 && (last.data[0] == 'f' || str_starts(last, STR("bf")));
    spell(&key, "", str_is(head, "mad") && is_float ? STR("fma") : head);
    for (int i = 1; i < s->part_count; i++) {
        str part = s->parts[i];
        if (str_is(part, "rn") || (drop_ftz && str_is(part, "ftz"))) continue;
        if (str_is(head, "slct")) {
            if (str_is(part, "u32") || (i == 1 && str_is(part, "s32")) ||
                (i == 1 && str_is(part, "f32")))
                part = STR("b32");
            if (str_is(part, "u64") || str_is(part, "s64") || str_is(part, "f64"))
                part = STR("b64");
        }
        spell(&key, ".", part);
    }
    return find_lanes(r, &key);
}

static ptx_instruction *emit_lanes(ptx_reader *r, const ptx_statement *s, int entry) {
    ptx_instruction *i = ptx_decode_emit(r, s, PTX_LANES);
    i->function = entry;
    i->input_count = lanes_entries[entry].input_count;
    i->bytes = lanes_entries[entry].result_bytes;
    return i;
}

/* The operands after the result. */
static bool take_inputs(ptx_reader *r, const ptx_statement *s, const lanes_entry *e, int count,
                        ptx_instruction *i) {
    for (int n = 0; n < count; n++)
        if (!ptx_decode_row(r, &s->operands[n + 1], e->input_bytes[n], e->input_float, &i->in[n]))
            return false;
    return true;
}

/* A conversion of one register by itself, spelled as in lanes.def. */
static void emit_conversion(ptx_reader *r, const ptx_statement *s, str opcode, int32_t from,
                            int32_t to) {
    spelling key = {.length = 0};
    spell(&key, "", opcode);
    ptx_instruction *i = emit_lanes(r, s, find_lanes(r, &key));
    i->in[0] = from;
    i->d = to;
}

/* cvt may read a register wider than its type, and write a wider one (PTX ISA, cvt: the result is
 * extended by its sign).
 */
static bool decode_wide_cvt(ptx_reader *r, const ptx_statement *s, int entry, bool wide_source,
                            bool wide_result) {
    const lanes_entry *e = &lanes_entries[entry];
    int32_t source, result;
    if (wide_source) {
        int32_t row;
        source = r->function->row_count++;
        if (!ptx_decode_row(r, &s->operands[1], 8, false, &row)) return false;
        emit_conversion(r, s, STR("cvt.u32.u64"), row, source);
    } else if (!ptx_decode_row(r, &s->operands[1], e->input_bytes[0], e->input_float, &source)) {
        return false;
    }
    if (wide_result) result = r->function->row_count++;
    else if (!ptx_decode_result(r, &s->operands[0], e->result_bytes, &result)) return false;
    emit_conversion(r, s, str_from(e->spelling), source, result);
    if (!wide_result) return true;
    bool is_signed = s->parts[s->part_count - 2].data[0] == 's';
    int32_t row;
    if (!ptx_decode_result(r, &s->operands[0], 8, &row)) return false;
    emit_conversion(r, s, is_signed ? STR("cvt.s64.s32") : STR("cvt.u64.u32"), result, row);
    return true;
}

bool ptx_decode_lanes(ptx_reader *r, const ptx_statement *s) {
    int entry = find_spelling(r, s, false);
    bool is_cvt = str_is(s->parts[0], "cvt");
    if (entry < 0 && is_cvt) entry = find_spelling(r, s, true);
    if (entry < 0) return ptx_decode_unknown(r, s);
    const lanes_entry *e = &lanes_entries[entry];
    if (s->operand_count != e->input_count + 1)
        return ptx_decode_fail(r, s, "another number of operands was expected");
    if (is_cvt && e->input_count == 1) {
        bool wide_source =
            e->input_bytes[0] == 4 && ptx_decode_declared_bytes(r, &s->operands[1]) == 8;
        bool wide_result =
            e->result_bytes == 4 && ptx_decode_declared_bytes(r, &s->operands[0]) == 8;
        if (wide_source || wide_result)
            return decode_wide_cvt(r, s, entry, wide_source, wide_result);
    }
    ptx_instruction *i = emit_lanes(r, s, entry);
    return ptx_decode_result(r, &s->operands[0], e->result_bytes, &i->d) &&
           take_inputs(r, s, e, e->input_count, i);
}

/* One step of a carrying instruction: 'prefix' is "" for the value, "carry." for what it passes on.
 */
static bool emit_carry(ptx_reader *r, const ptx_statement *s, const char *prefix, bool carries_in,
                       int32_t result) {
    spelling key = {.length = 0};
    str head = s->parts[0], type = s->parts[s->part_count - 1];
    bool mad = str_starts(head, STR("mad")), high = ptx_decode_has(s, "hi");
    spell(&key, "", str_from(prefix));
    spell(&key, "", mad ? STR("madc") : str_starts(head, STR("add")) ? STR("addc") : STR("subc"));
    if (mad) spell(&key, ".", high ? STR("hi") : STR("lo"));
    if (!high && str_is(type, "s32")) type = STR("u32");
    if (!high && str_is(type, "s64")) type = STR("u64");
    spell(&key, ".", type);
    int entry = find_lanes(r, &key);
    if (entry < 0) return ptx_decode_unknown(r, s);
    const lanes_entry *e = &lanes_entries[entry];
    if (s->operand_count != e->input_count)
        return ptx_decode_fail(r, s, "another number of operands was expected");
    int last = e->input_count - 1;
    ptx_instruction *i = emit_lanes(r, s, entry);
    i->d = result;
    i->in[last] = carries_in ? r->function->carry : ptx_decode_constant(r, 0, 4);
    return (result != PTX_NONE || ptx_decode_result(r, &s->operands[0], e->result_bytes, &i->d)) &&
           take_inputs(r, s, e, last, i);
}

/* PTX ISA, "Extended-Precision Integer Arithmetic Instructions". The flag is a register of the
 * thread; the new carry waits in another one until the value is made, as both need the old one.
 */
bool ptx_decode_carry(ptx_reader *r, const ptx_statement *s) {
    str head = s->parts[0];
    bool carries_in = head.length == 4, carries_out = ptx_decode_has(s, "cc");
    ptx_function *f = r->function;
    if (f->carry == PTX_NONE) {
        f->carry = f->row_count++;
        f->next_carry = f->row_count++;
    }
    if (carries_out && !emit_carry(r, s, "carry.", carries_in, f->next_carry)) return false;
    if (!emit_carry(r, s, "", carries_in, PTX_NONE)) return false;
    if (!carries_out) return true;
    ptx_instruction *i = ptx_decode_emit(r, s, PTX_MOVE);
    i->register_bytes = 4;
    i->d = f->carry;
    i->in[0] = f->next_carry;
    return true;
}

static bool decode_pieces(ptx_reader *r, const ptx_statement *s, bool pack, int bytes) {
    const ptx_operand *whole = &s->operands[pack ? 0 : 1], *list = &s->operands[pack ? 1 : 0];
    if ((list->count != 1 && list->count != 2 && list->count != 4) || bytes % list->count)
        return ptx_decode_fail(r, s, "expected two or four pieces");
    int piece = bytes / list->count;
    ptx_instruction *i = ptx_decode_emit(r, s, pack ? PTX_PACK : PTX_UNPACK);
    i->register_bytes = (uint8_t)(bytes == 8 ? 8 : 4);
    i->bytes = (uint8_t)piece;
    i->count = (uint8_t)list->count;
    int32_t *row = pack ? &i->d : &i->in[0];
    if (pack ? !ptx_decode_result(r, whole, i->register_bytes, row)
             : !ptx_decode_row(r, whole, i->register_bytes, false, row))
        return false;
    int count;
    return ptx_decode_list(r, s, list, piece == 8 ? 8 : 4, !pack, &i->list, &count);
}

/* PTX ISA, "Data Movement and Conversion Instructions: mov", both forms. */
bool ptx_decode_mov(ptx_reader *r, const ptx_statement *s) {
    if (s->part_count != 2 || s->operand_count != 2) return ptx_decode_fail(r, s, "wrong operands");
    ptx_number number;
    int bytes = ptx_decode_type(s->parts[1], &number);
    if (!bytes) return ptx_decode_unknown(r, s);
    if (s->operands[1].kind == PTX_OPERAND_VECTOR) return decode_pieces(r, s, true, bytes);
    if (s->operands[0].kind == PTX_OPERAND_VECTOR) return decode_pieces(r, s, false, bytes);
    str source = s->operands[1].name;
    bool is_clock = str_starts(source, STR("%clock")) || str_starts(source, STR("%globaltimer"));
    ptx_instruction *i = ptx_decode_emit(r, s, is_clock ? PTX_CLOCK : PTX_MOVE);
    i->register_bytes = bytes == 8 ? 8 : 4;
    return ptx_decode_result(r, &s->operands[0], i->register_bytes, &i->d) &&
           (is_clock || ptx_decode_row(r, &s->operands[1], i->register_bytes,
                                       number == PTX_F32 || number == PTX_F64, &i->in[0]));
}

/* setp.CmpOp[.BoolOp][.ftz].type, and set, which has a result type before the source type. */
static int find_test(const ptx_reader *r, const ptx_statement *s, int type_count,
                     ptx_boolean *boolean) {
    if (s->part_count < 2 + type_count) return -1;
    spelling key = {.length = 0};
    spell(&key, "", STR("setp"));
    spell(&key, ".", s->parts[1]);
    bool flush = false;
    for (int i = 2; i < s->part_count - type_count; i++) {
        if (str_is(s->parts[i], "ftz")) flush = true;
        else if (str_is(s->parts[i], "and")) *boolean = PTX_AND;
        else if (str_is(s->parts[i], "or")) *boolean = PTX_OR;
        else if (str_is(s->parts[i], "xor")) *boolean = PTX_XOR;
        else return -1;
    }
    str type = s->parts[s->part_count - 1];
    if (str_is(type, "b16")) type = STR("u16");
    if (str_is(type, "b32")) type = STR("u32");
    if (str_is(type, "b64")) type = STR("u64");
    if (flush && str_is(type, "f32")) type = STR("f32z");
    spell(&key, ".", type);
    return find_lanes(r, &key);
}

bool ptx_decode_test(ptx_reader *r, const ptx_statement *s) {
    bool sets = str_is(s->parts[0], "set"), is_single = str_is(s->parts[0], "testp");
    ptx_boolean boolean = PTX_COPY;
    ptx_number number = PTX_U32;
    int entry = is_single ? find_spelling(r, s, false) : find_test(r, s, sets ? 2 : 1, &boolean);
    if (entry < 0 || (sets && ptx_decode_type(s->parts[s->part_count - 2], &number) != 4))
        return ptx_decode_unknown(r, s);
    const lanes_entry *e = &lanes_entries[entry];
    bool combined = boolean != PTX_COPY;
    if (s->operand_count != 1 + e->input_count + combined)
        return ptx_decode_fail(r, s, "another number of operands was expected");
    ptx_instruction *i = emit_lanes(r, s, entry);
    const ptx_operand *result = &s->operands[0];
    i->kind = sets ? PTX_SET : PTX_TEST;
    i->number = (uint8_t)number;
    i->operation = (uint8_t)boolean;
    if (sets ? !ptx_decode_result(r, result, 4, &i->d)
             : !ptx_decode_predicate(r, result->name, &i->p) ||
                   (result->second.length && !ptx_decode_predicate(r, result->second, &i->q)))
        return false;
    return take_inputs(r, s, e, e->input_count, i) &&
           (!combined ||
            ptx_decode_truth(r, &s->operands[1 + e->input_count], &i->r, &i->second_negated));
}

void ptx_decode_prepare(ptx_reader *r) {
    for (int i = 0; i < lanes_count; i++)
        ptx_index_add(r->memory, &r->lanes_by_spelling,
                      str_hash(str_from(lanes_entries[i].spelling)));
}
