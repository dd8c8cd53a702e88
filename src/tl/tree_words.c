/* What the tree's enumerators are called in a text, and the facts of their tables. */
#include "tl/tree.h"

#include <assert.h>

const char *tl_statement_word(tl_statement_kind kind) {
    static const char *const words[] = {
#define STATEMENT(id, spelling, doc) spelling,
#include "tl/statements.def"
#undef STATEMENT
    };
    return words[kind];
}

typedef struct type_row {
    const char *name;
    int bits;
    bool is_real;
} type_row;

static const type_row types[] = {
    {"", 0, false},
#define SIGNED false
#define UNSIGNED false
#define REAL true
#define TYPE(id, spelling, number, bits, kind, doc) {spelling, bits, kind},
#include "base/types.def"
#undef TYPE
#undef REAL
#undef UNSIGNED
#undef SIGNED
};

const char *tl_type_name(tl_type type) {
    return types[type].name;
}

int tl_type_bits(tl_type type) {
    return types[type].bits;
}

int tl_type_bytes(tl_type type) {
    assert(types[type].bits % 8 == 0);
    return (types[type].bits + 7) / 8;
}

bool tl_is_narrow(tl_type type) {
    return type != TL_OPEN && types[type].bits <= 8;
}

bool tl_is_packed(tl_type type) {
    return type != TL_OPEN && types[type].bits < 8;
}

bool tl_is_narrow_whole(tl_type type) {
    return tl_is_narrow(type) && !types[type].is_real;
}

const char *tl_space_name(tl_space space) {
    static const char *const names[] = {"", "global", "shared", "register"};
    return names[space];
}

tl_space tl_cut_place(str *name) {
    for (tl_space space = TL_GLOBAL; space <= TL_REGISTER; space++) {
        str place = str_from(tl_space_name(space));
        if (name->length < place.length + 2 || !str_ends(*name, place)) continue;
        if (name->data[name->length - place.length - 1] != '_') continue;
        name->length -= place.length + 1;
        return space;
    }
    return TL_NOWHERE;
}

const char *tl_operation_name(tl_operation operation) {
    return tl_facts(operation)->name;
}

tl_operation tl_operation_named(str name) {
    for (int i = 0; i < TL_OPERATION_UNKNOWN; i++)
        if (str_is(name, tl_operation_name((tl_operation)i))) return (tl_operation)i;
    return TL_OPERATION_UNKNOWN;
}

int tl_operation_operands(tl_operation operation) {
    return tl_facts(operation)->operands;
}

tl_operator tl_opposite(tl_operator comparison) {
    switch (comparison) {
    case TL_LESS: return TL_GREATER_EQUAL;
    case TL_LESS_EQUAL: return TL_GREATER;
    case TL_GREATER: return TL_LESS_EQUAL;
    case TL_GREATER_EQUAL: return TL_LESS;
    case TL_EQUAL: return TL_NOT_EQUAL;
    default: return TL_EQUAL;
    }
}

tl_operator tl_turned(tl_operator operator) {
    switch (operator) {
    case TL_LESS: return TL_GREATER;
    case TL_LESS_EQUAL: return TL_GREATER_EQUAL;
    case TL_GREATER: return TL_LESS;
    case TL_GREATER_EQUAL: return TL_LESS_EQUAL;
    default: return operator;
    }
}

tl_shape_rule tl_operation_shape(tl_operation operation) {
    return tl_facts(operation)->shape;
}

typedef struct function_row {
    const char *name;
    int fewest, most;
    tl_operation operation;
} function_row;

static const function_row functions[] = {
#define FUNCTION(id, spelling, fewest, most, operation, doc)                                       \
    {spelling, fewest, most, TL_##operation},
#include "tl/functions.def"
#undef FUNCTION
    {"", 0, 0, TL_OPERATION_UNKNOWN},
};

const char *tl_function_name(tl_function function) {
    return functions[function].name;
}

int tl_function_fewest(tl_function function) {
    return functions[function].fewest;
}

int tl_function_most(tl_function function) {
    return functions[function].most;
}

tl_operation tl_function_operation(tl_function function) {
    return functions[function].operation;
}

bool tl_function_is_asked(tl_function function) {
    return function == TL_FUNCTION_ANY || function == TL_FUNCTION_FIRST ||
           function == TL_FUNCTION_MORE || function == TL_FUNCTION_NEXT;
}

const char *tl_operator_text(tl_operator operator) {
    static const char *const texts[] = {
#define OPERATOR(id, spelling, level) spelling,
#include "tl/operators.def"
#undef OPERATOR
    };
    return texts[operator];
}

tl_level tl_operator_level(tl_operator operator) {
    static const tl_level levels[] = {
#define OPERATOR(id, spelling, level) TL_LEVEL_##level,
#include "tl/operators.def"
#undef OPERATOR
    };
    return levels[operator];
}

bool tl_is_vector_layout(const tl_layout *layout) {
    return layout->kind == TL_ROWS || layout->kind == TL_COLUMNS;
}

const char *tl_layout_kind_name(tl_layout_kind kind) {
    static const char *const names[] = {"", "mma_A", "mma_B", "mma_C", "lines", "rows", "columns"};
    return names[kind];
}
