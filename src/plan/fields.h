/* The structs of flashtl/plan.h as tables of fields: what a field is called in JSON, where it lies,
 * which values it may hold. The writer, the reader and the check of plans are three walks over
 * these tables.
 */
#ifndef FLASHTL_PLAN_FIELDS_H
#define FLASHTL_PLAN_FIELDS_H

#include "flashtl/plan.h"

enum { PLAN_FORMAT = 1, PLAN_ITEMS_MAX = 64, PLAN_STEPS_MAX = 256 };

typedef struct plan_word {
    int value;
    const char *name; /* NULL: the list ends */
} plan_word;
extern const plan_word plan_types[];

/* "" and 0 where the list has none. */
const char *plan_word_name(const plan_word *words, int value);
int plan_word_value(const plan_word *words, const char *name);

/* An operator of formulas: its name in JSON, how many operands it takes from the stack (those that
 * push take none), and how C writes it ("%s": its operands, first to last; NULL: it pushes).
 */
typedef struct plan_operator {
    ftl_formula_op op;
    const char *name;
    int operands;
    const char *c_form;
} plan_operator;

/* NULL for none. */
const plan_operator *plan_operator_of(ftl_formula_op op);
const plan_operator *plan_operator_named(const char *name);

typedef enum plan_kind {
    PLAN_TEXT,     /* const char *, not NULL */
    PLAN_NUMBER,   /* int32_t from 'least' to 'most' */
    PLAN_FLAG,     /* bool */
    PLAN_WORD,     /* an enumeration, one of 'words' */
    PLAN_OFFSET,   /* int32_t: 'most' bytes of the parameters, aligned to 'align'; -1 may be 'least'
                    */
    PLAN_FORMULA,  /* ftl_formula */
    PLAN_FORMULAS, /* const ftl_formula *, counted at 'count_at' */
    PLAN_LIST,     /* const struct *, counted at 'count_at' */
    PLAN_ARRAY     /* struct[], counted at 'count_at' */
} plan_kind;

typedef enum plan_presence {
    PLAN_ALWAYS,
    PLAN_UNLESS_EMPTY, /* JSON leaves out 0, false, no items, a formula without steps */
    PLAN_IF_RESIDENT   /* there is none where the grid is plain */
} plan_presence;

typedef struct plan_record plan_record;

typedef struct plan_field {
    const char *key;
    plan_kind kind;
    size_t at, count_at;
    int32_t least, most; /* of a number, or of how many items there are */
    int32_t align;
    const plan_word *words;
    const plan_record *record;
    plan_presence presence;
} plan_field;

struct plan_record {
    size_t bytes;
    const plan_field *fields;
    int count;
};

extern const plan_record plan_root; /* ftl_plan */

/* How many items a field counts; the first of a list or array. */
int32_t plan_field_count(const plan_field *field, const void *item);
const void *plan_field_items(const plan_field *field, const void *item);

/* Whether the field says nothing: of those that JSON leaves out. */
bool plan_field_is_empty(const plan_field *field, const void *item);

#endif
