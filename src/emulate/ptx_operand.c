/* Operands to rows and predicates: registers, constants, special registers, addresses. */
#include "emulate/ptx_read.h"

#include "emulate/number.h"

#include <string.h>

static int32_t new_constant(ptx_reader *r, uint64_t bits, int bytes) {
    ptx_function *f = r->function;
    int32_t row = f->constants.count / LANES;
    for (int l = 0; l < LANES; l++) {
        list_push(r->module->memory, &f->constants, (uint32_t)bits);
        if (bytes == 8) list_push(r->module->memory, &f->constants, (uint32_t)(bits >> 32));
    }
    return row;
}

/* Rows that hold one number in all lanes; the same number has the same row. */
int32_t ptx_decode_constant(ptx_reader *r, uint64_t bits, int bytes) {
    if (bytes == 4) bits &= 0xffffffffu;
    uint32_t hash = (uint32_t)((bits * 0x9e3779b97f4a7c15u) >> 52);
    ptx_index *index = &r->known_by_bits;
    for (int32_t i = ptx_index_first(index, hash); i >= 0; i = ptx_index_next(index, i)) {
        const ptx_constant *known = &r->known.items[i];
        if (known->bytes == bytes && known->bits == bits) return ~known->row;
    }
    int32_t row = new_constant(r, bits, bytes);
    ptx_index_add(r->memory, index, hash);
    list_push(r->memory, &r->known, ((ptx_constant){bits, bytes, row}));
    return ~row;
}

static uint64_t literal_bits(const ptx_operand *o, int bytes, bool is_float) {
    if (o->literal == PTX_LITERAL_F64 && bytes == 4)
        return number_f32_bits((float)number_f64(o->bits));
    if (o->literal == PTX_LITERAL_F32 && bytes == 8)
        return is_float ? number_f64_bits(number_f32((uint32_t)o->bits)) : o->bits;
    return o->bits;
}

static bool unknown_name(ptx_reader *r, const ptx_operand *o, str name) {
    ptx_read_error(r, DIAG_PTX_UNKNOWN_NAME, (diag_range){o->at, o->at + (uint32_t)name.length},
                   name, STR(""));
    return false;
}

static bool special_row(ptx_reader *r, str name, int32_t *row) {
    static const char *const names[] = {
#define SPECIAL(id, name, value) name,
#include "emulate/specials.def"
#undef SPECIAL
    };
    for (int i = 0; i < PTX_SPECIAL_COUNT; i++)
        if (str_is(name, names[i])) {
            ptx_function *f = r->function;
            if (f->specials[i] == PTX_NONE) f->specials[i] = f->row_count++;
            *row = f->specials[i];
            return true;
        }
    return false;
}

static int32_t symbol_address(ptx_reader *r, const ptx_symbol *s, int64_t offset, int bytes) {
    if (s->value != PTX_SHARED_LATER)
        return ptx_decode_constant(r, s->value + (uint64_t)offset, bytes);
    int32_t row = new_constant(r, 0, bytes);
    list_push(r->memory, &r->later, ((ptx_later){row, bytes, offset}));
    return ~row;
}

static int32_t register_row(const ptx_symbol *s, int32_t index) {
    return (int32_t)s->value + index * (s->kind == PTX_SYMBOL_DOUBLE ? 2 : 1);
}

bool ptx_decode_row(ptx_reader *r, const ptx_operand *o, int bytes, bool is_float, int32_t *row) {
    if (o->kind == PTX_OPERAND_NUMBER) {
        *row = ptx_decode_constant(r, literal_bits(o, bytes, is_float), bytes);
        return true;
    }
    if (o->kind != PTX_OPERAND_NAME) {
        diag_range at = {o->at, o->at + 1};
        ptx_read_error(r, DIAG_PTX_EXPECTED, at, STR("a register or a number"), STR("a list"));
        return false;
    }
    if (bytes == 4 && special_row(r, o->name, row)) return true;
    int32_t index;
    const ptx_symbol *s = ptx_read_find(r, o->name, &index);
    if (!s) return unknown_name(r, o, o->name);
    if (s->kind == PTX_SYMBOL_VARIABLE) {
        *row = symbol_address(r, s, o->offset, bytes);
        return true;
    }
    if (s->kind != (bytes == 8 ? PTX_SYMBOL_DOUBLE : PTX_SYMBOL_WORD)) {
        diag_range at = {o->at, o->at + (uint32_t)o->name.length};
        ptx_read_error(r, DIAG_PTX_EXPECTED, at,
                       bytes == 8 ? STR("a 64-bit operand") : STR("an operand of at most 32 bits"),
                       o->name);
        return false;
    }
    *row = register_row(s, index);
    return true;
}

bool ptx_decode_result(ptx_reader *r, const ptx_operand *o, int bytes, int32_t *row) {
    if (o->kind == PTX_OPERAND_NAME && str_is(o->name, "_")) {
        *row = r->function->sink;
        return true;
    }
    if (!ptx_decode_row(r, o, bytes, false, row)) return false;
    int32_t index;
    const ptx_symbol *s = o->kind == PTX_OPERAND_NAME ? ptx_read_find(r, o->name, &index) : NULL;
    if (*row >= 0 && s) return true;
    diag_range at = {o->at, o->at + 1};
    ptx_read_error(r, DIAG_PTX_EXPECTED, at, STR("a register for the result"),
                   o->name.length ? o->name : STR("a number"));
    return false;
}

bool ptx_decode_predicate(ptx_reader *r, str name, int32_t *predicate) {
    *predicate = -1;
    if (str_is(name, "_")) return true;
    int32_t index;
    const ptx_symbol *s = ptx_read_find(r, name, &index);
    if (!s || s->kind != PTX_SYMBOL_PREDICATE) {
        uint32_t at = name.length ? (uint32_t)(name.data - r->begin) : r->statement.range.begin;
        ptx_read_error(r, DIAG_PTX_EXPECTED, (diag_range){at, at + (uint32_t)name.length},
                       STR("a predicate"), name.length ? name : STR("another operand"));
        return false;
    }
    *predicate = (int32_t)s->value + index;
    return true;
}

/* PTX ISA, "Predicate Constants": numbers are truths as in C. All are one predicate that nothing
 * sets, negated or not.
 */
bool ptx_decode_truth(ptx_reader *r, const ptx_operand *o, int32_t *predicate, bool *is_negated) {
    *is_negated = o->negated;
    if (o->kind != PTX_OPERAND_NUMBER) {
        if (!ptx_decode_predicate(r, o->name, predicate)) return false;
        if (*predicate >= 0) return true;
        ptx_read_error(r, DIAG_PTX_EXPECTED, (diag_range){o->at, o->at + 1}, STR("a predicate"),
                       STR("'_'"));
        return false;
    }
    ptx_function *f = r->function;
    if (f->never == PTX_NONE) f->never = f->predicate_count++;
    *predicate = f->never;
    *is_negated = o->negated != (o->bits != 0);
    return true;
}

/* A register's bytes by its declaration; 0 for other names. */
int ptx_decode_declared_bytes(ptx_reader *r, const ptx_operand *o) {
    int32_t index;
    const ptx_symbol *s = o->kind == PTX_OPERAND_NAME ? ptx_read_find(r, o->name, &index) : NULL;
    if (!s) return 0;
    return s->kind == PTX_SYMBOL_DOUBLE ? 8 : s->kind == PTX_SYMBOL_WORD ? 4 : 0;
}

/* in[0] becomes the base (words or doublewords by register_bytes), 'immediate' the offset. */
bool ptx_decode_address(ptx_reader *r, const ptx_statement *s, const ptx_operand *o,
                        ptx_instruction *i) {
    if (o->kind != PTX_OPERAND_ADDRESS) return ptx_decode_fail(r, s, "expected an address in [ ]");
    i->immediate = o->offset;
    i->in[0] = PTX_NONE;
    i->input_count = 8;
    if (!o->name.length) {
        i->in[0] = ptx_decode_constant(r, 0, 8);
        return true;
    }
    int32_t index;
    const ptx_symbol *symbol = ptx_read_find(r, o->name, &index);
    if (!symbol) return unknown_name(r, o, o->name);
    if (symbol->kind == PTX_SYMBOL_VARIABLE) {
        bool generic = i->space == PTX_GENERIC;
        if (generic) i->space = (uint8_t)symbol->space;
        i->in[0] = symbol_address(r, symbol, 0, 8);
        return true;
    }
    if (symbol->kind == PTX_SYMBOL_WORD) i->input_count = 4;
    else if (symbol->kind != PTX_SYMBOL_DOUBLE)
        return ptx_decode_fail(r, s, "expected a register or a variable as the address");
    i->in[0] = register_row(symbol, index);
    return true;
}

bool ptx_decode_list(ptx_reader *r, const ptx_statement *s, const ptx_operand *o, int bytes,
                     bool results, int32_t *list, int *count) {
    ptx_function *f = r->function;
    const ptx_operand *elements = o->kind == PTX_OPERAND_VECTOR ? s->elements + o->first : o;
    int n = o->kind == PTX_OPERAND_VECTOR ? o->count : 1;
    int32_t rows[PTX_ELEMENTS_MAX];
    if (n < 1 || n > PTX_ELEMENTS_MAX) return ptx_decode_fail(r, s, "an empty list");
    for (int i = 0; i < n; i++) {
        if (results ? !ptx_decode_result(r, &elements[i], bytes, &rows[i])
                    : !ptx_decode_row(r, &elements[i], bytes, false, &rows[i]))
            return false;
    }
    *list = f->lists.count;
    *count = n;
    for (int i = 0; i < n; i++) list_push(r->module->memory, &f->lists, rows[i]);
    return true;
}
