/* Statements to instructions: operands, and everything that treats each lane alike. */
#include "emulate/ptx_read.h"

#include "emulate/number.h"

#include <string.h>

bool ptx_decode_fail(ptx_reader *r, const ptx_statement *s, const char *what) {
    ptx_read_error(r, DIAG_PTX_OPERANDS, s->range, s->opcode, str_from(what));
    return false;
}

static bool unknown(ptx_reader *r, const ptx_statement *s) {
    ptx_read_error(r, DIAG_PTX_UNKNOWN_INSTRUCTION, s->range, s->opcode, STR(""));
    return false;
}

bool ptx_decode_has(const ptx_statement *s, const char *part) {
    for (int i = 1; i < s->part_count; i++)
        if (str_is(s->parts[i], part)) return true;
    return false;
}

bool ptx_decode_number(str part, ptx_number *number, uint8_t *bytes) {
    static const struct {
        const char *name;
        ptx_number number;
        uint8_t bytes;
    } rows[] = {
        {"b8", PTX_U8, 1},     {"u8", PTX_U8, 1},       {"s8", PTX_S8, 1},
        {"b16", PTX_U32, 2},   {"u16", PTX_U32, 2},     {"s16", PTX_S32, 2},
        {"f16", PTX_F16, 2},   {"bf16", PTX_BF16, 2},   {"b32", PTX_U32, 4},
        {"u32", PTX_U32, 4},   {"s32", PTX_S32, 4},     {"f32", PTX_F32, 4},
        {"b64", PTX_U64, 8},   {"u64", PTX_U64, 8},     {"s64", PTX_S64, 8},
        {"f64", PTX_F64, 8},   {"f16x2", PTX_F16X2, 4}, {"bf16x2", PTX_BF16X2, 4},
        {"tf32", PTX_TF32, 4}, {"e4m3", PTX_E4M3, 1},   {"e5m2", PTX_E5M2, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (str_is(part, rows[i].name)) {
            *number = rows[i].number;
            *bytes = rows[i].bytes;
            return true;
        }
    return false;
}

ptx_space ptx_decode_space(const ptx_statement *s) {
    for (int i = 1; i < s->part_count; i++) {
        str part = s->parts[i];
        if (str_is(part, "shared") || str_is(part, "shared::cta") ||
            str_is(part, "shared::cluster"))
            return PTX_SHARED;
        if (str_is(part, "global")) return PTX_GLOBAL;
        if (str_is(part, "local")) return PTX_LOCAL;
        if (str_is(part, "param") || str_is(part, "param::entry")) return PTX_PARAM;
        if (str_is(part, "const")) return PTX_CONST;
    }
    return PTX_GENERIC;
}

static int32_t opcode_index(ptx_reader *r, str opcode) {
    uint32_t bucket = ptx_read_hash(opcode) % PTX_BUCKETS;
    for (int32_t i = r->opcode_buckets[bucket]; i >= 0; i = r->opcode_next.items[i])
        if (str_equal(r->module->opcodes.items[i], opcode)) return i;
    int32_t index = r->module->opcodes.count;
    list_push(r->module->memory, &r->module->opcodes, opcode);
    list_push(r->memory, &r->opcode_next, r->opcode_buckets[bucket]);
    r->opcode_buckets[bucket] = index;
    return index;
}

/* Appends an instruction with its guard and place filled in. */
ptx_instruction *ptx_decode_emit(ptx_reader *r, const ptx_statement *s, ptx_kind kind) {
    ptx_instruction i = {.kind = (uint8_t)kind,
                         .guard = -1,
                         .d = PTX_NONE,
                         .p = -1,
                         .q = -1,
                         .r = -1,
                         .place = r->place,
                         .ptx_line = r->line};
    for (int n = 0; n < LANES_INPUTS; n++) i.in[n] = PTX_NONE;
    if (s->guarded) {
        ptx_decode_predicate(r, s->guard, &i.guard);
        if (s->guard_negated) i.flags |= PTX_GUARD_NEGATED;
    }
    i.opcode = opcode_index(r, s->opcode);
    list_push(r->module->memory, &r->function->code, i);
    return &r->function->code.items[r->function->code.count - 1];
}

/* Decoding may fail after an emit: the instruction stays and never runs, as the read failed. */

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
    int i = r->lane_buckets[ptx_read_hash(text) % PTX_BUCKETS];
    for (; i >= 0; i = r->lane_next[i])
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

/* A conversion of one register by itself, spelled as in lanes.def. */
static ptx_instruction *emit_conversion(ptx_reader *r, const ptx_statement *s, str opcode) {
    spelling key = {.length = 0};
    spell(&key, "", opcode);
    ptx_instruction *i = ptx_decode_emit(r, s, PTX_LANES);
    i->function = find_lanes(r, &key);
    i->input_count = 1;
    i->bytes = lanes_entries[i->function].result_bytes;
    return i;
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
        ptx_instruction *narrow = emit_conversion(r, s, STR("cvt.u32.u64"));
        narrow->in[0] = row;
        narrow->d = source;
    } else if (!ptx_decode_row(r, &s->operands[1], e->input_bytes[0], e->input_float, &source)) {
        return false;
    }
    if (wide_result) result = r->function->row_count++;
    else if (!ptx_decode_result(r, &s->operands[0], e->result_bytes, &result)) return false;
    ptx_instruction *i = emit_conversion(r, s, str_from(e->spelling));
    i->in[0] = source;
    i->d = result;
    if (!wide_result) return true;
    bool is_signed = s->parts[s->part_count - 2].data[0] == 's';
    int32_t row;
    if (!ptx_decode_result(r, &s->operands[0], 8, &row)) return false;
    ptx_instruction *widen =
        emit_conversion(r, s, is_signed ? STR("cvt.s64.s32") : STR("cvt.u64.u32"));
    widen->in[0] = result;
    widen->d = row;
    return true;
}

static bool decode_lanes(ptx_reader *r, const ptx_statement *s) {
    int entry = find_spelling(r, s, false);
    bool is_cvt = str_is(s->parts[0], "cvt");
    if (entry < 0 && is_cvt) entry = find_spelling(r, s, true);
    if (entry < 0) return unknown(r, s);
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
    ptx_instruction *i = ptx_decode_emit(r, s, PTX_LANES);
    i->function = entry;
    i->input_count = e->input_count;
    i->bytes = e->result_bytes;
    if (!ptx_decode_result(r, &s->operands[0], e->result_bytes, &i->d)) return false;
    for (int n = 0; n < e->input_count; n++)
        if (!ptx_decode_row(r, &s->operands[n + 1], e->input_bytes[n], e->input_float, &i->in[n]))
            return false;
    return true;
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
    if (entry < 0) return unknown(r, s);
    const lanes_entry *e = &lanes_entries[entry];
    if (s->operand_count != e->input_count)
        return ptx_decode_fail(r, s, "another number of operands was expected");
    int last = e->input_count - 1;
    ptx_instruction *i = ptx_decode_emit(r, s, PTX_LANES);
    i->function = entry;
    i->input_count = e->input_count;
    i->bytes = e->result_bytes;
    i->d = result;
    i->in[last] = carries_in ? r->function->carry : ptx_decode_constant(r, 0, 4);
    if (result == PTX_NONE && !ptx_decode_result(r, &s->operands[0], e->result_bytes, &i->d))
        return false;
    for (int n = 0; n < last; n++)
        if (!ptx_decode_row(r, &s->operands[n + 1], e->input_bytes[n], false, &i->in[n]))
            return false;
    return true;
}

/* PTX ISA, "Extended-Precision Integer Arithmetic Instructions". The flag is a register of the
 * thread; the new carry waits in another one until the value is made, as both need the old one.
 */
bool ptx_decode_carry(ptx_reader *r, const ptx_statement *s) {
    str head = s->parts[0];
    bool carries_in = head.length == 4, carries_out = ptx_decode_has(s, "cc");
    if (!carries_in && !carries_out) return decode_lanes(r, s);
    ptx_function *f = r->function;
    if (f->carry == PTX_NONE) {
        f->carry = f->row_count++;
        f->next_carry = f->row_count++;
    }
    if (carries_out && !emit_carry(r, s, "carry.", carries_in, f->next_carry)) return false;
    if (!emit_carry(r, s, "", carries_in, PTX_NONE)) return false;
    if (!carries_out) return true;
    ptx_instruction *i = ptx_decode_emit(r, s, PTX_MOVE);
    i->bytes = 4;
    i->d = f->carry;
    i->in[0] = f->next_carry;
    return true;
}

static bool is_predicate_type(const ptx_statement *s) {
    return s->part_count > 1 && str_is(s->parts[s->part_count - 1], "pred");
}

bool ptx_decode_logic(ptx_reader *r, const ptx_statement *s) {
    if (!is_predicate_type(s)) return decode_lanes(r, s);
    str head = s->parts[0];
    bool single = str_is(head, "not") || str_is(head, "mov");
    if (s->operand_count != (single ? 2 : 3)) return ptx_decode_fail(r, s, "wrong operands");
    ptx_instruction *i = ptx_decode_emit(r, s, PTX_LOGIC);
    i->operation = str_is(head, "and")   ? PTX_AND
                   : str_is(head, "or")  ? PTX_OR
                   : str_is(head, "xor") ? PTX_XOR
                   : str_is(head, "not") ? PTX_NOT
                                         : PTX_COPY;
    bool is_negated;
    if (!ptx_decode_predicate(r, s->operands[0].name, &i->p) ||
        !ptx_decode_truth(r, &s->operands[1], &i->q, &is_negated))
        return false;
    i->flags |= is_negated ? PTX_SIGNED : 0;
    return single || ptx_decode_truth(r, &s->operands[2], &i->r, &i->second_negated);
}

static bool decode_clock(ptx_reader *r, const ptx_statement *s, int bytes) {
    ptx_instruction *i = ptx_decode_emit(r, s, PTX_CLOCK);
    i->bytes = (uint8_t)bytes;
    return ptx_decode_result(r, &s->operands[0], bytes, &i->d);
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
    if (is_predicate_type(s)) return ptx_decode_logic(r, s);
    ptx_number number;
    uint8_t bytes;
    if (!ptx_decode_number(s->parts[1], &number, &bytes)) return unknown(r, s);
    if (s->operands[1].kind == PTX_OPERAND_VECTOR) return decode_pieces(r, s, true, bytes);
    if (s->operands[0].kind == PTX_OPERAND_VECTOR) return decode_pieces(r, s, false, bytes);
    str source = s->operands[1].name;
    if (str_starts(source, STR("%clock")) || str_starts(source, STR("%globaltimer")))
        return decode_clock(r, s, bytes == 8 ? 8 : 4);
    ptx_instruction *i = ptx_decode_emit(r, s, PTX_MOVE);
    i->bytes = bytes == 8 ? 8 : 4;
    return ptx_decode_result(r, &s->operands[0], i->bytes, &i->d) &&
           ptx_decode_row(r, &s->operands[1], i->bytes, number == PTX_F32 || number == PTX_F64,
                          &i->in[0]);
}

/* setp.CmpOp[.BoolOp][.ftz].type, and set, which has a result type before the source type. */
static bool decode_test(ptx_reader *r, const ptx_statement *s, int type_count, int *entry,
                        ptx_boolean *boolean) {
    if (s->part_count < 2 + type_count) return unknown(r, s);
    spelling key = {.length = 0};
    spell(&key, "", STR("setp"));
    spell(&key, ".", s->parts[1]);
    bool flush = false;
    *boolean = PTX_COPY;
    for (int i = 2; i < s->part_count - type_count; i++) {
        if (str_is(s->parts[i], "ftz")) flush = true;
        else if (str_is(s->parts[i], "and")) *boolean = PTX_AND;
        else if (str_is(s->parts[i], "or")) *boolean = PTX_OR;
        else if (str_is(s->parts[i], "xor")) *boolean = PTX_XOR;
        else return unknown(r, s);
    }
    str type = s->parts[s->part_count - 1];
    if (str_is(type, "b16")) type = STR("u16");
    if (str_is(type, "b32")) type = STR("u32");
    if (str_is(type, "b64")) type = STR("u64");
    if (flush && str_is(type, "f32")) type = STR("f32z");
    spell(&key, ".", type);
    *entry = find_lanes(r, &key);
    return *entry >= 0 || unknown(r, s);
}

static bool decode_test_inputs(ptx_reader *r, const ptx_statement *s, int entry,
                               ptx_boolean boolean, ptx_instruction *i) {
    const lanes_entry *e = &lanes_entries[entry];
    bool combined = boolean != PTX_COPY;
    if (s->operand_count != 1 + e->input_count + (combined ? 1 : 0))
        return ptx_decode_fail(r, s, "another number of operands was expected");
    i->function = entry;
    i->input_count = e->input_count;
    i->operation = (uint8_t)boolean;
    for (int n = 0; n < e->input_count; n++)
        if (!ptx_decode_row(r, &s->operands[n + 1], e->input_bytes[n], e->input_float, &i->in[n]))
            return false;
    if (!combined) return true;
    return ptx_decode_truth(r, &s->operands[1 + e->input_count], &i->r, &i->second_negated);
}

bool ptx_decode_setp(ptx_reader *r, const ptx_statement *s) {
    int entry;
    ptx_boolean boolean;
    if (!decode_test(r, s, 1, &entry, &boolean)) return false;
    ptx_instruction *i = ptx_decode_emit(r, s, PTX_TEST);
    if (s->operand_count < 1 || !ptx_decode_predicate(r, s->operands[0].name, &i->p)) return false;
    if (s->operands[0].second.length && !ptx_decode_predicate(r, s->operands[0].second, &i->q))
        return false;
    return decode_test_inputs(r, s, entry, boolean, i);
}

bool ptx_decode_set(ptx_reader *r, const ptx_statement *s) {
    int entry;
    ptx_boolean boolean;
    if (!decode_test(r, s, 2, &entry, &boolean)) return false;
    ptx_instruction *i = ptx_decode_emit(r, s, PTX_SET);
    uint8_t bytes;
    ptx_number number;
    if (!ptx_decode_number(s->parts[s->part_count - 2], &number, &bytes) || bytes != 4)
        return unknown(r, s);
    i->number = (uint8_t)number;
    return s->operand_count > 0 && ptx_decode_result(r, &s->operands[0], 4, &i->d) &&
           decode_test_inputs(r, s, entry, boolean, i);
}

bool ptx_decode_testp(ptx_reader *r, const ptx_statement *s) {
    int entry = find_spelling(r, s, false);
    if (entry < 0) return unknown(r, s);
    ptx_instruction *i = ptx_decode_emit(r, s, PTX_TEST);
    return s->operand_count > 0 && ptx_decode_predicate(r, s->operands[0].name, &i->p) &&
           decode_test_inputs(r, s, entry, PTX_COPY, i);
}

bool ptx_decode_selp(ptx_reader *r, const ptx_statement *s) {
    ptx_number number;
    uint8_t bytes;
    if (s->part_count != 2 || !ptx_decode_number(s->parts[1], &number, &bytes))
        return unknown(r, s);
    if (s->operand_count != 4) return ptx_decode_fail(r, s, "four operands were expected");
    ptx_instruction *i = ptx_decode_emit(r, s, PTX_SELECT);
    i->bytes = bytes == 8 ? 8 : 4;
    bool is_float = number == PTX_F32 || number == PTX_F64;
    return ptx_decode_result(r, &s->operands[0], i->bytes, &i->d) &&
           ptx_decode_row(r, &s->operands[1], i->bytes, is_float, &i->in[0]) &&
           ptx_decode_row(r, &s->operands[2], i->bytes, is_float, &i->in[1]) &&
           ptx_decode_truth(r, &s->operands[3], &i->p, &i->second_negated);
}

void ptx_decode(ptx_reader *r, const ptx_statement *s) {
    static const struct {
        const char *head;
        ptx_decoder *decode;
    } heads[] = {
#define INSTRUCTION(head, function) {head, function},
#include "emulate/instructions.def"
#undef INSTRUCTION
    };
    int errors = r->diagnostics->error_count;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        if (!str_is(s->parts[0], heads[i].head)) continue;
        if (!heads[i].decode(r, s) && r->diagnostics->error_count == errors)
            ptx_decode_fail(r, s, "the operands do not fit");
        return;
    }
    decode_lanes(r, s);
}

void ptx_decode_prepare(ptx_reader *r) {
    r->lane_buckets = arena_array(r->memory, int32_t, PTX_BUCKETS);
    r->lane_next = arena_array(r->memory, int32_t, lanes_count);
    for (int i = 0; i < PTX_BUCKETS; i++) r->lane_buckets[i] = -1;
    for (int i = 0; i < lanes_count; i++) {
        uint32_t bucket = ptx_read_hash(str_from(lanes_entries[i].spelling)) % PTX_BUCKETS;
        r->lane_next[i] = r->lane_buckets[bucket];
        r->lane_buckets[bucket] = i;
    }
}
