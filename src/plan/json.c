/* Plans to JSON and back. What is read is checked as a stranger's is (ftl_plan_check), so that a
 * plan from a file can do no more harm than one of the translator.
 */
#include "base/json.h"
#include "base/arena.h"
#include "plan/fields.h"
#include "plan/plan.h"

#include <stdio.h>
#include <stdlib.h>

/* --- writing ---------------------------------------------------------------------------------- */

static json_t *formula_to_json(json_writer *w, const ftl_formula *formula) {
    json_t *steps = json_array();
    for (int32_t i = 0; i < formula->step_count; i++) {
        const ftl_formula_step *step = &formula->steps[i];
        json_t *item = json_array();
        json_add(w, item, json_string(plan_operator_of(step->op)->name));
        if (step->op == FTL_PUSH_INTEGER) json_add(w, item, json_integer(step->integer));
        if (step->op == FTL_PUSH_NUMBER) json_add(w, item, json_real(step->number));
        if (step->op == FTL_PUSH_SIZE || step->op == FTL_PUSH_SCALAR)
            json_add(w, item, json_integer(step->index));
        json_add(w, steps, item);
    }
    json_t *object = json_object();
    json_put(w, object, "text", json_string(formula->text));
    json_put(w, object, "steps", steps);
    return object;
}

static void put_record(json_writer *w, const plan_record *record, const void *item,
                       bool is_resident, json_t *object);

static json_t *items_to_json(json_writer *w, const plan_field *field, const void *item) {
    const char *items = plan_field_items(field, item);
    json_t *array = json_array();
    for (int32_t i = 0; i < plan_field_count(field, item); i++) {
        if (field->kind == PLAN_FORMULAS) {
            json_add(w, array, formula_to_json(w, (const ftl_formula *)(const void *)items + i));
            continue;
        }
        json_t *object = json_object();
        put_record(w, field->record, items + (size_t)i * field->record->bytes, false, object);
        json_add(w, array, object);
    }
    return array;
}

static json_t *field_to_json(json_writer *w, const plan_field *field, const void *item) {
    const void *at = (const char *)item + field->at;
    switch (field->kind) {
    case PLAN_TEXT: return json_string(*(const char *const *)at);
    case PLAN_NUMBER:
    case PLAN_OFFSET: return json_integer(*(const int32_t *)at);
    case PLAN_FLAG: return json_boolean(*(const bool *)at);
    case PLAN_WORD: return json_string(plan_word_name(field->words, *(const int *)at));
    case PLAN_FORMULA: return formula_to_json(w, at);
    default: return items_to_json(w, field, item);
    }
}

static void put_record(json_writer *w, const plan_record *record, const void *item,
                       bool is_resident, json_t *object) {
    for (int i = 0; i < record->count; i++) {
        const plan_field *field = &record->fields[i];
        if (plan_field_is_empty(field, item)) continue;
        if (field->presence == PLAN_IF_RESIDENT && !is_resident) continue;
        json_put(w, object, field->key, field_to_json(w, field, item));
    }
}

char *ftl_plan_write(const ftl_plan *plan) {
    if (!ftl_plan_check(plan, NULL)) return NULL;
    json_writer writer = {0};
    json_t *root = json_object();
    json_put(&writer, root, "format", json_integer(PLAN_FORMAT));
    put_record(&writer, &plan_root, plan, plan->grid_kind != FTL_GRID_PLAIN, root);
    char *text = json_write(&writer, root, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_decref(root);
    return text;
}

/* --- reading ---------------------------------------------------------------------------------- */

enum { MEMORY_MAX = 4 << 20 };

typedef struct plan_owner {
    ftl_plan plan; /* first: a plan read here is its owner, too */
    arena memory;
} plan_owner;

/* Where the reading stands. The first failure is kept; what follows it reads as empty. */
typedef struct reading {
    arena *memory;
    char *why;
    bool failed;
    ftl_plan *plan;
} reading;

static void reject(reading *r, const char *key, const char *what) {
    if (!r->failed) snprintf(r->why, FTL_WHY_BYTES, "the plan's '%s' %s", key, what);
    r->failed = true;
}

/* Any text, for reading on where there is none. */
static const char *read_text(reading *r, const json_t *value, const char *key) {
    const char *text = json_string_value(value);
    if (!text) reject(r, key, "is missing or no text");
    return str_copy_z(r->memory, str_from(text ? text : ""));
}

static int32_t read_number(reading *r, const json_t *value, const char *key) {
    json_int_t number = json_integer_value(value);
    if (json_is_integer(value) && number >= INT32_MIN && number <= INT32_MAX)
        return (int32_t)number;
    reject(r, key, "is missing or no number of 32 bits");
    return 0;
}

static size_t read_count(reading *r, const json_t *value, const char *key, size_t most) {
    size_t count = json_array_size(value);
    if (json_is_array(value) && count <= most) return count;
    reject(r, key, "is missing, no list, or too long");
    return 0;
}

static void read_step(reading *r, const json_t *value, ftl_formula_step *step) {
    const char *name = json_string_value(json_array_get(value, 0));
    const plan_operator *known = name ? plan_operator_named(name) : NULL;
    const json_t *pushed = json_array_get(value, 1);
    bool is_push = known && !known->c_form;
    if (!known || json_array_size(value) != (is_push ? 2 : 1) ||
        (is_push && !json_is_number(pushed))) {
        reject(r, "steps", "has a wrong step");
        return;
    }
    step->op = known->op;
    if (step->op == FTL_PUSH_INTEGER) step->integer = json_integer_value(pushed);
    if (step->op == FTL_PUSH_NUMBER) step->number = json_number_value(pushed);
    if (step->op == FTL_PUSH_SIZE || step->op == FTL_PUSH_SCALAR)
        step->index = read_number(r, pushed, "steps");
}

static void read_formula(reading *r, const json_t *value, ftl_formula *formula) {
    const json_t *steps = json_object_get(value, "steps");
    size_t count = read_count(r, steps, "steps", PLAN_STEPS_MAX);
    ftl_formula_step *list = arena_array(r->memory, ftl_formula_step, count);
    for (size_t i = 0; i < count; i++) read_step(r, json_array_get(steps, i), &list[i]);
    *formula = (ftl_formula){.text = read_text(r, json_object_get(value, "text"), "text"),
                             .steps = list,
                             .step_count = (int32_t)count};
}

static void read_record(reading *r, const plan_record *record, const json_t *object, void *item);

/* The items of a list go to memory of their own, those of an array into the struct. */
static void read_items(reading *r, const plan_field *field, const json_t *value, void *item) {
    size_t bytes = field->kind == PLAN_FORMULAS ? sizeof(ftl_formula) : field->record->bytes;
    size_t count = read_count(r, value, field->key, (size_t)field->most);
    char *items = (char *)item + field->at;
    if (field->kind != PLAN_ARRAY) {
        items = arena_alloc_array(r->memory, count, bytes, _Alignof(max_align_t));
        *(const void **)((char *)item + field->at) = items;
    }
    *(int32_t *)((char *)item + field->count_at) = (int32_t)count;
    for (size_t i = 0; i < count; i++) {
        const json_t *one = json_array_get(value, i);
        if (field->kind == PLAN_FORMULAS) read_formula(r, one, (ftl_formula *)items + i);
        else read_record(r, field->record, one, items + i * bytes);
    }
}

static void read_word(reading *r, const plan_field *field, const json_t *value, int *word) {
    const char *text = json_string_value(value);
    *word = text ? plan_word_value(field->words, text) : 0;
    if (!*word) reject(r, field->key, "is missing or not known");
}

static void read_field(reading *r, const plan_field *field, const json_t *value, void *item) {
    void *at = (char *)item + field->at;
    switch (field->kind) {
    case PLAN_TEXT: *(const char **)at = read_text(r, value, field->key); break;
    case PLAN_NUMBER:
    case PLAN_OFFSET: *(int32_t *)at = read_number(r, value, field->key); break;
    case PLAN_FLAG: *(bool *)at = json_is_true(value); break;
    case PLAN_WORD: read_word(r, field, value, at); break;
    case PLAN_FORMULA: read_formula(r, value, at); break;
    default: read_items(r, field, value, item);
    }
}

static void read_record(reading *r, const plan_record *record, const json_t *object, void *item) {
    for (int i = 0; i < record->count; i++) {
        const plan_field *field = &record->fields[i];
        const json_t *value = json_object_get(object, field->key);
        if (!value && field->presence == PLAN_UNLESS_EMPTY) continue;
        if (field->presence == PLAN_IF_RESIDENT && r->plan->grid_kind == FTL_GRID_PLAIN) continue;
        read_field(r, field, value, item);
    }
}

static void read_plan(reading *r, const json_t *root) {
    if (json_integer_value(json_object_get(root, "format")) != PLAN_FORMAT)
        reject(r, "format", "is missing or not known");
    r->plan->counters_offset = -1;
    read_record(r, &plan_root, root, r->plan);
    if (!r->failed && !ftl_plan_check(r->plan, r->why)) r->failed = true;
}

/* Reads under the arena's guard. */
static ftl_status read_guarded(reading *r, const json_t *root) {
    jmp_buf exhausted;
    if (setjmp(exhausted)) {
        snprintf(r->why, FTL_WHY_BYTES,
                 r->memory->is_over_limit ? "the plan is larger than plans may be"
                                          : "out of memory");
        return r->memory->is_over_limit ? FTL_INVALID_ARGUMENT : FTL_NO_MEMORY;
    }
    r->memory->on_exhausted = &exhausted;
    read_plan(r, root);
    r->memory->on_exhausted = NULL;
    return r->failed ? FTL_INVALID_ARGUMENT : FTL_OK;
}

ftl_status plan_read_json(const char *json, size_t length, char why[FTL_WHY_BYTES],
                          ftl_plan **out) {
    *out = NULL;
    why[0] = 0;
    json_error_t error;
    json_t *root = json_loadb(json ? json : "", json ? length : 0, 0, &error);
    if (!root && json_error_code(&error) == json_error_out_of_memory) {
        snprintf(why, FTL_WHY_BYTES, "out of memory");
        return FTL_NO_MEMORY;
    }
    if (!root) {
        snprintf(why, FTL_WHY_BYTES, "the plan is no JSON: %s (line %d)", error.text, error.line);
        return FTL_INVALID_ARGUMENT;
    }
    plan_owner *owner = calloc(1, sizeof *owner);
    if (!owner) {
        snprintf(why, FTL_WHY_BYTES, "out of memory");
        json_decref(root);
        return FTL_NO_MEMORY;
    }
    arena_init(&owner->memory, MEMORY_MAX);
    reading r = {.memory = &owner->memory, .why = why, .plan = &owner->plan};
    ftl_status status = read_guarded(&r, root);
    json_decref(root);
    if (status) ftl_plan_free(&owner->plan);
    else *out = &owner->plan;
    return status;
}

ftl_plan *ftl_plan_read(const char *json, size_t length, char why[FTL_WHY_BYTES]) {
    char unread[FTL_WHY_BYTES];
    ftl_plan *plan;
    plan_read_json(json, length, why ? why : unread, &plan);
    return plan;
}

void ftl_plan_free(ftl_plan *plan) {
    if (!plan) return;
    plan_owner *owner = (plan_owner *)plan;
    arena_done(&owner->memory);
    free(owner);
}
