/* Between the reader (declarations, scopes, statements as they are spelled) and the decoder (what a
 * statement does).
 */
#ifndef FLASHTL_EMULATE_PTX_READ_H
#define FLASHTL_EMULATE_PTX_READ_H

#include "emulate/ptx.h"

enum {
    PTX_OPERANDS_MAX = 12,
    PTX_ELEMENTS_MAX = 160, /* of all vectors in one statement */
    PTX_PARTS_MAX = 20,     /* of an opcode, between its dots */
    PTX_DEPTH_MAX = 64,
    PTX_BUCKETS = 4096
};

/* Numbers 0, 1, ... by the hash of what they stand for, the latest first. */
typedef struct ptx_index {
    int32_t buckets[PTX_BUCKETS]; /* a number plus one; 0: empty */
    LIST(int32_t) next;           /* of each number, likewise */
} ptx_index;

static inline int32_t ptx_index_first(const ptx_index *index, uint32_t hash) {
    return index->buckets[hash % PTX_BUCKETS] - 1;
}

static inline int32_t ptx_index_next(const ptx_index *index, int32_t number) {
    return index->next.items[number] - 1;
}

/* The next number. */
static inline void ptx_index_add(arena *memory, ptx_index *index, uint32_t hash) {
    int32_t *bucket = &index->buckets[hash % PTX_BUCKETS];
    list_push(memory, &index->next, *bucket);
    *bucket = index->next.count;
}

/* Forgets the latest number. */
static inline void ptx_index_drop(ptx_index *index, uint32_t hash) {
    index->buckets[hash % PTX_BUCKETS] = index->next.items[--index->next.count];
}

void ptx_index_clear(ptx_index *index);

typedef enum ptx_operand_kind {
    PTX_OPERAND_NAME,
    PTX_OPERAND_NUMBER,
    PTX_OPERAND_VECTOR,
    PTX_OPERAND_ADDRESS
} ptx_operand_kind;

typedef enum ptx_literal { PTX_LITERAL_INTEGER, PTX_LITERAL_F32, PTX_LITERAL_F64 } ptx_literal;

typedef struct ptx_operand {
    ptx_operand_kind kind;
    ptx_literal literal;
    bool negated;
    str name;         /* of a register or symbol; of an address's base, empty when absolute */
    str second;       /* of p|q */
    uint64_t bits;    /* of a number */
    int64_t offset;   /* after a name, in an address */
    int first, count; /* elements of a vector, or of an address's coordinates */
    uint32_t at;      /* where in the text */
} ptx_operand;

typedef struct ptx_statement {
    str opcode;
    str parts[PTX_PARTS_MAX];
    int part_count;
    bool guarded, guard_negated;
    str guard;
    ptx_operand operands[PTX_OPERANDS_MAX];
    int operand_count;
    ptx_operand elements[PTX_ELEMENTS_MAX];
    int element_count;
    diag_range range;
} ptx_statement;

typedef enum ptx_symbol_kind {
    PTX_SYMBOL_WORD, /* registers; 'value' is the row */
    PTX_SYMBOL_DOUBLE,
    PTX_SYMBOL_PREDICATE, /* 'value' is the predicate */
    PTX_SYMBOL_VARIABLE,  /* 'value' is the address in 'space' */
    PTX_SYMBOL_TARGETS,   /* .branchtargets; 'value' is its index */
    PTX_SYMBOL_FUNCTION
} ptx_symbol_kind;

typedef struct ptx_symbol {
    str name;
    ptx_symbol_kind kind;
    ptx_space space;
    uint64_t value;
    int32_t count; /* of registers name0, name1, ...; 0 for the plain name */
} ptx_symbol;

typedef struct ptx_label {
    str name;
    int32_t scope, pc;
} ptx_label;

typedef struct ptx_use {
    str name;
    int32_t scope, pc; /* pc of the branch, or -1 - index in lists */
    uint32_t at;
} ptx_use;

typedef struct ptx_targets {
    int32_t first, count; /* in ptx_function.lists */
} ptx_targets;

typedef struct ptx_string {
    str label;
    str text;
} ptx_string;

/* A constant row that holds an address in the dynamic block, whose start is not known yet. */
typedef struct ptx_later {
    int32_t row, bytes;
    int64_t offset;
} ptx_later;

/* Registers of two rows each. */
typedef struct ptx_doubles {
    int32_t first, count;
} ptx_doubles;

/* One number in all lanes. */
typedef struct ptx_constant {
    uint64_t bits;
    int32_t bytes, row;
} ptx_constant;

/* The value of a symbol in the dynamic block. */
#define PTX_SHARED_LATER (1ull << 40)

typedef struct ptx_reader {
    emulate_module *module;
    arena *memory;
    diag_list *diagnostics;
    const char *begin, *at, *end;
    uint32_t line; /* of 'at' */
    bool stopped;  /* after an error that leaves no way to go on */
    LIST(ptx_symbol) symbols;
    ptx_index symbols_by_name;
    LIST(int32_t) scopes; /* parent of each scope of the function */
    int32_t scope;
    LIST(ptx_label) labels; /* of the function */
    ptx_index labels_by_name;
    LIST(ptx_use) uses;
    LIST(ptx_targets) targets;
    LIST(ptx_string) strings;
    ptx_index strings_by_label;
    LIST(uint8_t) globals, constants;
    ptx_function *function;     /* being read */
    int32_t place;              /* of the next instruction */
    uint32_t module_shared_end; /* of shared variables outside functions: first in each entry */
    LIST(ptx_variable) module_shared;
    uint32_t dynamic_alignment; /* of the dynamic block, from .extern .shared */
    LIST(ptx_later) later;
    LIST(ptx_doubles) doubles; /* of the function */
    LIST(ptx_constant) known;  /* constants of the function */
    ptx_index known_by_bits, places_by_line, opcodes_by_text, lanes_by_spelling;
    LIST(int32_t) opcode_rows; /* in instructions.def, or -1: by number in the module */
    int32_t opcode;            /* of the statement */
    ptx_statement statement;
} ptx_reader;

/* ptx_scan.c: all skip white space and comments first. After ptx_scan_stop nothing more is read. */
diag_range ptx_scan_here(const ptx_reader *r);
void ptx_scan_stop(ptx_reader *r, const char *expected);
void ptx_scan_limit(ptx_reader *r, const char *what, int most);
char ptx_scan_peek(ptx_reader *r);
bool ptx_scan_take(ptx_reader *r, char c);
bool ptx_scan_need(ptx_reader *r, char c);
bool ptx_scan_is_letter(char c);
bool ptx_scan_is_digit(char c);
/* An identifier; with 'dots', also '.' and ':' inside: opcodes, special registers. */
str ptx_scan_word(ptx_reader *r, bool dots);
str ptx_scan_directive(ptx_reader *r);
uint64_t ptx_scan_number(ptx_reader *r, ptx_literal *literal);
int32_t ptx_scan_small(ptx_reader *r);

/* ptx_lines.c */
void ptx_lines_location(ptx_reader *r);
void ptx_lines_file(ptx_reader *r);
void ptx_lines_section(ptx_reader *r);
void ptx_lines_finish(ptx_reader *r);
str ptx_lines_plain_name(str mangled);

/* ptx_read.c */
void ptx_read_error(ptx_reader *r, diag_id id, diag_range range, str first, str second);

/* ptx_variables.c: names and what they stand for */
const ptx_symbol *ptx_read_find(const ptx_reader *r, str name, int32_t *index);
void ptx_read_declare(ptx_reader *r, ptx_symbol symbol);
void ptx_read_forget(ptx_reader *r, int count); /* all symbols from number 'count' on */
/* After `.reg`. */
void ptx_read_registers(ptx_reader *r);
typedef struct ptx_shape { /* of a variable */
    str name;
    uint64_t bytes;
    uint32_t element_bytes, alignment;
    bool unsized; /* name[] */
} ptx_shape;
/* The type, alignment, name and lengths of a variable. */
bool ptx_read_variable(ptx_reader *r, ptx_shape *shape);
/* After `.shared` and its like: all variables of the statement. */
void ptx_read_variables(ptx_reader *r, str space);
uint64_t ptx_read_align(uint64_t value, uint64_t alignment);

/* ptx_body.c: from the opening brace to the closing one */
void ptx_read_body(ptx_reader *r);
void ptx_read_skip(ptx_reader *r); /* after the next semicolon */

/* ptx_decode.c: appends the statement's instructions to the function. */
void ptx_decode(ptx_reader *r, const ptx_statement *s);
/* Whether the word, or one that begins as it does up to its '*', is among the opcode's. */
bool ptx_decode_has(const ptx_statement *s, const char *word);
/* The bytes of a type, "u32", or of the opcode's last word; 0: it is none. */
int ptx_decode_type(str name, ptx_number *number);
int ptx_decode_last_type(const ptx_statement *s, ptx_number *number);
ptx_space ptx_decode_space(const ptx_statement *s);
ptx_instruction *ptx_decode_emit(ptx_reader *r, const ptx_statement *s, ptx_kind kind);
bool ptx_decode_fail(ptx_reader *r, const ptx_statement *s, const char *what); /* false */

/* Decoders of instructions.def, one for each family; false when the operands do not fit. Repeated
 * declarations are harmless.
 */
typedef bool ptx_decoder(ptx_reader *r, const ptx_statement *s);
ptx_decoder ptx_decode_unknown;
#define INSTRUCTION(spelling, kind, operation, operands)
#define DECODER(spelling, function) ptx_decoder function;
#define UNKNOWN(spelling)
#include "emulate/instructions.def"
#undef INSTRUCTION
#undef DECODER
#undef UNKNOWN

/* ptx_decode_lanes.c: what is spelled as in lanes.def. */
ptx_decoder ptx_decode_lanes;
void ptx_decode_prepare(ptx_reader *r);

/* ptx_operand.c: false after a message. */
bool ptx_decode_row(ptx_reader *r, const ptx_operand *o, int bytes, bool is_float, int32_t *row);
bool ptx_decode_result(ptx_reader *r, const ptx_operand *o, int bytes, int32_t *row);
bool ptx_decode_predicate(ptx_reader *r, str name, int32_t *predicate);
/* A predicate that is read: a register, or a number, `!` before it or not. */
bool ptx_decode_truth(ptx_reader *r, const ptx_operand *o, int32_t *predicate, bool *is_negated);
bool ptx_decode_address(ptx_reader *r, const ptx_statement *s, const ptx_operand *o,
                        ptx_instruction *i);
bool ptx_decode_list(ptx_reader *r, const ptx_statement *s, const ptx_operand *o, int bytes,
                     bool results, int32_t *list, int *count);
/* The row of a number; the bytes of a register as declared, 0 for anything else. */
int32_t ptx_decode_constant(ptx_reader *r, uint64_t bits, int bytes);
int ptx_decode_declared_bytes(ptx_reader *r, const ptx_operand *o);

/* ptx_rows.c, after a function's last statement: first the one, then the other. */
void ptx_rows_share(ptx_reader *r, ptx_function *f);
void ptx_rows_touch(ptx_reader *r, ptx_function *f);

#endif
