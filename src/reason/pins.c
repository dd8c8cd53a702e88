/* Pins: lets that an option puts in front of the sketch, and which names may be pinned.
 *
 * What a pin can be about is known once the pass bind has named the tile sizes that a sketch leaves
 * open. A pin that no kernel has a use for is a slip, and told with the names that there are.
 */
#include "reason/pins.h"
#include "base/nearest.h"
#include "reason/nominal.h"
#include "reason/pass.h"
#include "reason/tiles.h"
#include "tl/names.h"

#include <math.h>
#include <string.h>

/* --- into a kernel and out of it -------------------------------------------------------------- */

static bool is_scalar_input(const tl_kernel *kernel, str name) {
    tl_tensor t;
    return tl_find_tensor(kernel, name, &t) && t.axes->count == 0 && t.statement->kind == TL_INPUT;
}

static bool apply_pin(reason *r, reason_pin pin) {
    if (is_scalar_input(r->kernel, pin.name))
        return true; /* a value for the launch, not for the plan */
    if (reason_is_made(r) && !tiles_is_length(r->kernel, pin.name)) return true;
    int64_t integer;
    double number;
    if (!str_to_integer(pin.value, &integer) && !str_to_number(pin.value, &number))
        return reason_stuck(r, NULL, "the value of %.*s is no number: '%.*s'", STR_ARGS(pin.name),
                            STR_ARGS(pin.value));
    tl_binding *binding = edit_find_let(r->kernel, pin.name, NULL);
    if (tiles_has_index(r->kernel, pin.name)) return true; /* `k in k_len`: k is no length */
    if (binding && binding->axes.count == 0) {
        binding->value = tl_quote_expr(r->memory, "%.*s", STR_ARGS(pin.value));
    } else if (str_to_integer(pin.value, &integer)) {
        reason_let(r, edit_z(r->memory, pin.name), integer);
    } else {
        tl_block let =
            tl_quote(r->memory, "let %.*s = %.*s", STR_ARGS(pin.name), STR_ARGS(pin.value));
        edit_before(r->kernel, r->kernel->body.first, let);
    }
    return true;
}

/* The first quotient of a statement whose divisor is 0 now. */
typedef struct zero_search {
    reason *r;
    const tl_expr *found;
} zero_search;

static void find_zero(void *context, tl_expr *e) {
    zero_search *search = context;
    bool divides = e->kind == TL_BINARY && (e->operator== TL_OVER || e->operator== TL_MODULO);
    int64_t divisor;
    if (divides && !search->found && reason_known(search->r, e->right, &divisor) && divisor == 0)
        search->found = e;
}

static bool divides_by_nothing(reason *r) {
    zero_search search = {.r = r};
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        tl_each_expr(s, find_zero, &search);
        if (!search.found) continue;
        const char *divisor = edit_text(r->memory, search.found->right);
        return reason_stuck(r, s, "'%s' divides by 0: '%s' is 0 here",
                            edit_text(r->memory, search.found), divisor);
    }
    return true;
}

bool pins_apply(reason *r) {
    for (int i = 0; i < r->options->pin_count; i++)
        if (!apply_pin(r, r->options->pins[i])) return false;
    return !r->options->pin_count || divides_by_nothing(r);
}

/* --- those that mean nothing here ------------------------------------------------------------- */

static bool is_decision(reason *r, str name) {
    static const char *const ends[] = {"_stages", "_in_registers", "_in_shared"};
    for (int i = 0; i < 3; i++)
        if (str_ends(name, str_from(ends[i]))) {
            str tile = {name.data, name.length - str_from(ends[i]).length};
            return tiles_find(tiles_read(r), tile) != NULL;
        }
    for (const reason_pass_entry *pin = reason_pin_list(); pin->name; pin++)
        if (str_is(name, pin->name)) return true;
    str length = nominal_subject(name);
    return length.length > 0 &&
           (tiles_is_length(r->kernel, length) || edit_find_let(r->kernel, length, NULL) != NULL);
}

/* Is the name mentioned elsewhere than by its own let? */
static bool is_mentioned(reason *r, str name) {
    tl_statement *let = NULL;
    tl_binding *binding = edit_find_let(r->kernel, name, &let);
    if (!binding)
        return is_scalar_input(r->kernel, name); /* or an index, which has no value to pin */
    str own = binding->name;
    binding->name = STR("");
    str fresh = reason_fresh(r, "%.*s", STR_ARGS(name));
    binding->name = own;
    return !str_equal(fresh, name);
}

/* Takes out the lets of pins that this kernel has no use for. */
void pins_drop(reason *r) {
    for (int i = 0; i < r->options->pin_count; i++) {
        str name = r->options->pins[i].name;
        if (is_decision(r, name) || is_mentioned(r, name)) r->pin_is_used[i] = true;
        else edit_remove_let(r->kernel, name);
    }
}

/* --- the names that there are ----------------------------------------------------------------- */

typedef LIST(str) name_list;

static void add_name(arena *memory, name_list *names, str name) {
    for (int i = 0; i < names->count; i++)
        if (str_equal(names->items[i], name)) return;
    list_push(memory, names, name);
}

static bool is_known_at_launch(const tl_symbol *s) {
    return s->kind == TL_SYMBOL_SIZE || s->kind == TL_SYMBOL_SCALAR;
}

static bool is_value(const tl_symbol *s) {
    return is_known_at_launch(s) || s->kind == TL_SYMBOL_OPEN || s->kind == TL_SYMBOL_CONSTANT;
}

static name_list names_of(const tl_program *program, bool (*is_wanted)(const tl_symbol *),
                          arena *memory) {
    name_list names = {0};
    for (const tl_kernel *k = program->first; k; k = k->next)
        for (int i = 0; i < k->symbol_count; i++)
            if (is_wanted(k->symbols[i])) add_name(memory, &names, k->symbols[i]->name);
    return names;
}

/* 'program' is bound. In TL Code ('is_code') there are no decisions left. */
static str unknown_pin(const tl_program *program, str name, bool is_code, arena *memory) {
    name_list values = names_of(program, is_code ? is_known_at_launch : is_value, memory);
    char words[NEAREST_BYTES];
    nearest near = {.wanted = name};
    for (int i = 0; i < values.count; i++) nearest_offer(&near, values.items[i]);
    for (const reason_pass_entry *e = reason_pin_list(); !is_code && e->name; e++)
        nearest_offer(&near, str_from(e->name));
    return str_format(memory, "kernel '%.*s' %s '%.*s'%s", STR_ARGS(program->first->name),
                      is_code ? "is TL Code and leaves open no length or scalar"
                              : "has no length, scalar, tile size or decision",
                      STR_ARGS(name), nearest_words(&near, "", words));
}

str pins_unused(reason *r) {
    diag_list scratch;
    for (int i = 0; i < r->options->pin_count; i++) {
        str name = r->options->pins[i].name;
        bool is_usual = str_is(name, "d") || str_is(name, "dv"); /* come with every request */
        if (r->pin_is_used[i] || is_usual) continue;
        diag_init(&scratch, r->memory, STR(""), STR(""));
        tl_bind(r->program, &scratch);
        return unknown_pin(r->program, name, false, r->memory);
    }
    return STR("");
}

/* --- a request's pins ------------------------------------------------------------------------- */

static const tl_symbol *find_value(const tl_program *program, str name) {
    for (const tl_kernel *k = program->first; k; k = k->next)
        for (int i = 0; i < k->symbol_count; i++)
            if (is_value(k->symbols[i]) && str_equal(k->symbols[i]->name, name))
                return k->symbols[i];
    return NULL;
}

/* A number that the name may have: only scalars and factors are no whole numbers from 0. */
static str wrong_value(const tl_program *program, reason_pin pin, arena *memory) {
    int64_t integer;
    double number;
    const tl_symbol *s = find_value(program, pin.name);
    bool is_free = s && (s->kind == TL_SYMBOL_SCALAR || s->kind == TL_SYMBOL_CONSTANT);
    bool is_right =
        is_free ? str_to_number(pin.value, &number) && isfinite(number)
                : str_to_integer(pin.value, &integer) && integer >= 0 && integer <= INT32_MAX;
    if (is_right) return STR("");
    return str_format(memory, "'%.*s' is a %s; found '%.*s'", STR_ARGS(pin.name),
                      is_free ? "number" : "whole number from 0 to 2147483647",
                      STR_ARGS(pin.value));
}

static str said_twice(const reason_pin *pins, int at, arena *memory) {
    for (int i = 0; i < at; i++) {
        bool is_other =
            str_equal(pins[i].name, pins[at].name) && !str_equal(pins[i].value, pins[at].value);
        if (is_other)
            return str_format(memory, "'%.*s' is given twice: %.*s and %.*s",
                              STR_ARGS(pins[at].name), STR_ARGS(pins[i].value),
                              STR_ARGS(pins[at].value));
    }
    return STR("");
}

/* In TL Code everything is decided: what is known at launch only may be given. */
static str wrong_in_code(const tl_program *program, reason_pin pin, arena *memory) {
    const tl_symbol *s = find_value(program, pin.name);
    bool is_usual = str_is(pin.name, "d") || str_is(pin.name, "dv");
    int64_t integer;
    if (!s && is_usual) return STR("");
    if (!s) return unknown_pin(program, pin.name, true, memory);
    if (s->kind != TL_SYMBOL_CONSTANT) return STR("");
    bool is_same = s->is_known && s->is_integer && str_to_integer(pin.value, &integer) &&
                   integer == s->integer;
    if (is_same) return STR("");
    return str_format(memory, "'%.*s' is decided in this TL Code: change its text, no option does",
                      STR_ARGS(pin.name));
}

/* Whether a `let` could give the name a value: a word that the language leaves free. */
static bool is_bindable(str name, arena *memory) {
    diag_list unheard;
    str text = str_format(memory, "kernel k\nlet %.*s = 1\n", STR_ARGS(name));
    diag_init(&unheard, memory, STR(""), text);
    const tl_program *program = tl_parse(memory, STR(""), text, &unheard);
    const tl_kernel *kernel = program && !diag_has_errors(&unheard) ? program->first : NULL;
    const tl_statement *let = kernel && !kernel->next ? kernel->body.first : NULL;
    return let && !let->next && let->kind == TL_LET && let->let.count == 1 &&
           str_equal(let->let.items[0].name, name);
}

/* The name of something that no number can be: a tensor, a tile, a loop, a role. */
static bool is_taken(const tl_program *program, str name) {
    for (const tl_kernel *k = program->first; k; k = k->next)
        for (int i = 0; i < k->symbol_count; i++) {
            const tl_symbol *s = k->symbols[i];
            if (!is_value(s) && s->kind != TL_SYMBOL_INDEX && str_equal(s->name, name))
                return find_value(program, name) == NULL;
        }
    return false;
}

/* The first that the pass bind finds no use for, in a copy. */
static str unknown_in_sketch(const tl_program *sketch, const reason_options *options,
                             arena *memory) {
    diag_list scratch;
    diag_init(&scratch, memory, sketch->source_name, sketch->source);
    reason r = {.memory = memory,
                .program = tl_program_copy(memory, sketch),
                .options = options,
                .diags = &scratch,
                .pass = "bind",
                .pin_is_used = arena_array(memory, bool, options->pin_count + 1)};
    for (r.kernel = r.program->first; r.kernel; r.kernel = r.kernel->next)
        if (!reason_is_code(r.kernel) && !reason_bind(&r)) return STR(""); /* told elsewhere */
    r.kernel = r.program->first;
    return pins_unused(&r);
}

str reason_check_pins(const tl_program *program, const reason_options *options, arena *memory) {
    bool is_code = false;
    for (const tl_kernel *k = program->first; k; k = k->next)
        is_code = is_code || reason_is_code(k);
    for (int i = 0; i < options->pin_count; i++) {
        reason_pin pin = options->pins[i];
        str why = said_twice(options->pins, i, memory);
        bool is_free = is_bindable(pin.name, memory) && !is_taken(program, pin.name);
        if (!why.length && !is_free) why = unknown_pin(program, pin.name, is_code, memory);
        if (!why.length && is_code) why = wrong_in_code(program, pin, memory);
        if (!why.length) why = wrong_value(program, pin, memory);
        if (why.length) return why;
    }
    return is_code || !options->pin_count ? STR("") : unknown_in_sketch(program, options, memory);
}
