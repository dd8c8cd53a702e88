/* Statements to instructions by the table of instructions.def. */
#include "emulate/ptx_read.h"

bool ptx_decode_fail(ptx_reader *r, const ptx_statement *s, const char *what) {
    ptx_read_error(r, DIAG_PTX_OPERANDS, s->range, s->opcode, str_from(what));
    return false;
}

bool ptx_decode_unknown(ptx_reader *r, const ptx_statement *s) {
    ptx_read_error(r, DIAG_PTX_UNKNOWN_INSTRUCTION, s->range, s->opcode, STR(""));
    return false;
}

/* --- the words of an opcode ------------------------------------------------------------------- */

static bool has_word(const ptx_statement *s, str word) {
    bool is_beginning = str_ends(word, STR("*"));
    word.length -= is_beginning;
    for (int i = 1; i < s->part_count; i++)
        if (is_beginning ? str_starts(s->parts[i], word) : str_equal(s->parts[i], word))
            return true;
    return false;
}

bool ptx_decode_has(const ptx_statement *s, const char *word) {
    return has_word(s, str_from(word));
}

int ptx_decode_type(str name, ptx_number *number) {
    static const struct {
        const char *name;
        ptx_number number;
        int bytes;
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
        if (str_is(name, rows[i].name)) {
            *number = rows[i].number;
            return rows[i].bytes;
        }
    return 0;
}

int ptx_decode_last_type(const ptx_statement *s, ptx_number *number) {
    return ptx_decode_type(s->parts[s->part_count - 1], number);
}

ptx_space ptx_decode_space(const ptx_statement *s) {
    static const struct {
        const char *name;
        ptx_space space;
    } rows[] = {
        {"shared", PTX_SHARED},          {"shared::cta", PTX_SHARED}, {"global", PTX_GLOBAL},
        {"shared::cluster", PTX_SHARED}, {"local", PTX_LOCAL},        {"param", PTX_PARAM},
        {"param::entry", PTX_PARAM},     {"const", PTX_CONST},
    };
    for (int i = 1; i < s->part_count; i++)
        for (size_t n = 0; n < sizeof rows / sizeof *rows; n++)
            if (str_is(s->parts[i], rows[n].name)) return rows[n].space;
    return PTX_GENERIC;
}

/* --- rows of the table ------------------------------------------------------------------------ */

static const struct {
    const char *spelling;
    ptx_decoder *decode; /* NULL: by the columns that follow */
    ptx_kind kind;
    int operation;
    const char *operands;
} rows[] = {
#define INSTRUCTION(spelling, kind, operation, operands)                                           \
    {spelling, NULL, PTX_##kind, operation, operands},
#define DECODER(spelling, function) {spelling, function, PTX_NOTHING, 0, NULL},
#define UNKNOWN(spelling) DECODER(spelling, ptx_decode_unknown)
#include "emulate/instructions.def"
#undef INSTRUCTION
#undef DECODER
#undef UNKNOWN
};

static bool is_spelled(const ptx_statement *s, str words) {
    str heads = str_cut(&words, '.');
    bool fits = false;
    while (heads.length && !fits) fits = str_equal(s->parts[0], str_cut(&heads, '|'));
    while (words.length && fits) {
        str word = str_cut(&words, '.');
        ptx_number number;
        int bytes = word.data[0] == 'T' ? ptx_decode_last_type(s, &number) : 0;
        if (str_is(word, "T")) fits = bytes > 1;
        else if (str_is(word, "T4")) fits = bytes == 4;
        else fits = has_word(s, word);
    }
    return fits;
}

/* The number of the opcode, which is the same wherever it stands, as is its row. */
static int32_t opcode_index(ptx_reader *r, const ptx_statement *s) {
    ptx_index *index = &r->opcodes_by_text;
    uint32_t hash = str_hash(s->opcode);
    for (int32_t i = ptx_index_first(index, hash); i >= 0; i = ptx_index_next(index, i))
        if (str_equal(r->module->opcodes.items[i], s->opcode)) return i;
    int32_t row = 0, count = (int32_t)(sizeof rows / sizeof *rows);
    while (row < count && !is_spelled(s, str_from(rows[row].spelling))) row++;
    ptx_index_add(r->memory, index, hash);
    list_push(r->module->memory, &r->module->opcodes, s->opcode);
    list_push(r->memory, &r->opcode_rows, row < count ? row : -1);
    return r->opcode_rows.count - 1;
}

/* Decoding may fail after this: the instruction stays and never runs, as the read failed. */
ptx_instruction *ptx_decode_emit(ptx_reader *r, const ptx_statement *s, ptx_kind kind) {
    ptx_instruction i = {.kind = (uint8_t)kind,
                         .guard = -1,
                         .d = PTX_NONE,
                         .p = -1,
                         .q = -1,
                         .r = -1,
                         .place = r->place,
                         .opcode = r->opcode,
                         .ptx_line = r->line};
    for (int n = 0; n < LANES_INPUTS; n++) i.in[n] = PTX_NONE;
    if (s->guarded) {
        ptx_decode_predicate(r, s->guard, &i.guard);
        if (s->guard_negated) i.flags |= PTX_GUARD_NEGATED;
    }
    list_push(r->module->memory, &r->function->code, i);
    return &r->function->code.items[r->function->code.count - 1];
}

static bool has_form(const ptx_statement *s, str form) {
    int n = 0;
    while (form.length) {
        str name = str_cut(&form, ' ');
        if (str_is(name, "...")) return true;
        if (n == s->operand_count) return false;
        bool is_address = s->operands[n++].kind == PTX_OPERAND_ADDRESS;
        if (is_address != (name.data[0] == '[')) return false;
    }
    return n == s->operand_count;
}

static bool take_matrices(ptx_reader *r, const ptx_statement *s, const ptx_operand *o,
                          bool is_result, ptx_instruction *i) {
    int count;
    i->count = ptx_decode_has(s, "x4") ? 4 : ptx_decode_has(s, "x2") ? 2 : 1;
    if (!ptx_decode_list(r, s, o, 4, is_result, &i->list, &count)) return false;
    return count == i->count || ptx_decode_fail(r, s, "another number of registers was expected");
}

/* An operand by its name in the table; false, mostly after a message, when it is another one. */
static bool take(ptx_reader *r, const ptx_statement *s, const ptx_operand *o, str name,
                 ptx_instruction *i) {
    bool is_optional = str_ends(name, STR("?")), is_negated;
    bool is_float = i->number == PTX_F32 || i->number == PTX_F64;
    char width = name.length > 1 ? name.data[1] : '4';
    int bytes = width == '8' ? 8 : width == '*' ? i->register_bytes : 4;
    if (width == '|' && (o->second.length || !is_optional) &&
        !ptx_decode_predicate(r, o->second, &i->p))
        return false;
    switch (name.data[0]) {
    case 'd': return ptx_decode_result(r, o, bytes, &i->d);
    case 'p': return ptx_decode_predicate(r, o->name, &i->p);
    case 'q':
        if (!ptx_decode_truth(r, o, &i->q, &is_negated)) return false;
        i->flags |= is_negated ? PTX_FIRST_NEGATED : 0;
        return true;
    case 'r': return ptx_decode_truth(r, o, &i->r, &i->second_negated);
    case '[': return ptx_decode_address(r, s, o, i);
    case '{': return take_matrices(r, s, o, name.data[1] == 'd', i);
    case '#':
        i->immediate = (int64_t)o->bits;
        return o->kind == PTX_OPERAND_NUMBER && i->immediate >= 0 &&
               (name.length == 1 || i->immediate < width - '0');
    case 'm': return ptx_decode_row(r, o, bytes, is_float, &i->in[3]);
    default: return ptx_decode_row(r, o, bytes, is_float, &i->in[name.data[0] - 'a']);
    }
}

static bool decode_row(ptx_reader *r, const ptx_statement *s, int32_t row) {
    static const struct {
        const char *word;
        uint8_t flag;
    } flags[] = {{"relaxed", PTX_RELAXED}, {"trans", PTX_TRANSPOSED}, {"expect_tx", PTX_EXPECTS}};
    str forms = str_from(rows[row].operands), form;
    do {
        if (!forms.length) return ptx_decode_fail(r, s, "other operands were expected");
        form = str_cut(&forms, '/');
    } while (!has_form(s, form));
    ptx_instruction *i = ptx_decode_emit(r, s, rows[row].kind);
    ptx_number number = PTX_U32;
    i->operation = (uint8_t)rows[row].operation;
    i->space = (uint8_t)ptx_decode_space(s);
    i->bytes = (uint8_t)ptx_decode_last_type(s, &number);
    i->register_bytes = i->bytes == 8 ? 8 : 4;
    i->number = (uint8_t)number;
    for (size_t n = 0; n < sizeof flags / sizeof *flags; n++)
        if (ptx_decode_has(s, flags[n].word)) i->flags |= flags[n].flag;
    for (int n = 0; form.length && form.data[0] != '.'; n++)
        if (!take(r, s, &s->operands[n], str_cut(&form, ' '), i)) return false;
    return true;
}

void ptx_decode(ptx_reader *r, const ptx_statement *s) {
    int errors = r->diagnostics->error_count;
    r->opcode = opcode_index(r, s);
    int32_t row = r->opcode_rows.items[r->opcode];
    bool is_decoded = row < 0            ? ptx_decode_lanes(r, s)
                      : rows[row].decode ? rows[row].decode(r, s)
                                         : decode_row(r, s, row);
    if (!is_decoded && r->diagnostics->error_count == errors)
        ptx_decode_fail(r, s, "the operands do not fit");
}
