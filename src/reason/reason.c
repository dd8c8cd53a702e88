#include "reason/pass.h"
#include "reason/pins.h"
#include "tl/names.h"

/* --- the passes ------------------------------------------------------------------------------- */

static const reason_pass_entry pass_names[] = {
#define PASS(name, what) {#name, what},
#include "reason/passes.def"
#undef PASS
    {NULL, NULL},
};

static bool (*const pass_runs[])(reason *) = {
#define PASS(name, what) reason_##name,
#include "reason/passes.def"
#undef PASS
};

enum { PASS_COUNT = sizeof pass_runs / sizeof *pass_runs };
_Static_assert(PASS_COUNT <= 32, "tl_history.passes has a bit for each");

static const reason_pass_entry pin_names[] = {
#define PIN(name, until, what) {#name, what},
#include "reason/pins.def"
#undef PIN
    {NULL, NULL},
};

const reason_pass_entry *reason_pass_list(void) {
    return pass_names;
}

const reason_pass_entry *reason_pin_list(void) {
    return pin_names;
}

/* --- what the passes report ------------------------------------------------------------------- */

bool reason_stuck(reason *r, const tl_statement *at, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    str text = str_format_list(r->memory, format, arguments);
    va_end(arguments);
    /* A statement that a pass made has no range: blame the nearest one of the user's around it. */
    while (at && at->range.end == 0) at = at->parent;
    diag_range range = at ? at->range : r->kernel->range;
    diag_report(r->diags, DIAG_REASON_STUCK, range, text);
    return false;
}

bool reason_advise(reason *r, const char *advice) {
    diag_range nowhere = {0, 0};
    diag_report(r->diags, DIAG_REASON_ADVICE, nowhere, str_from(advice));
    return false;
}

const char *reason_say(reason *r, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    str text = str_format_list(r->memory, format, arguments);
    va_end(arguments);
    return text.data;
}

void reason_list(reason *r, str *text, const char *joint, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    str part = str_format_list(r->memory, format, arguments);
    va_end(arguments);
    *text = text->length
                ? str_format(r->memory, "%.*s%s%.*s", STR_ARGS(*text), joint, STR_ARGS(part))
                : part;
}

/* --- writing ---------------------------------------------------------------------------------- */

static tl_block quoted(const reason *r, const char *format, va_list arguments) {
    tl_block block = tl_quote_list(r->memory, format, arguments);
    va_end(arguments);
    return block;
}

void reason_before(reason *r, tl_statement *at, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    edit_before(r->kernel, at, quoted(r, format, arguments));
}

void reason_after(reason *r, tl_statement *at, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    edit_after(r->kernel, at, quoted(r, format, arguments));
}

void reason_replace(reason *r, tl_statement *s, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    edit_replace(r->kernel, s, quoted(r, format, arguments));
}

void reason_append(reason *r, tl_block *block, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    edit_append(block, NULL, quoted(r, format, arguments));
}

static str fresh(reason *r, const char *format, va_list arguments) {
    str wanted = str_format_list(r->memory, format, arguments);
    va_end(arguments);
    return edit_fresh_name(r->kernel, r->memory, wanted.data);
}

str reason_fresh(reason *r, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    return fresh(r, format, arguments);
}

const char *reason_fresh_z(reason *r, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    return fresh(r, format, arguments).data;
}

tl_block reason_under(reason *r, const char *condition, const char *comment, tl_block body) {
    tl_block branch =
        tl_quote(r->memory, comment[0] ? "if %s // %s\nend" : "if %s\nend", condition, comment);
    edit_append(&branch.first->branch.body, branch.first, body);
    return branch;
}

reason_decision *reason_decide(reason *r, const char *subject, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    reason_decision d = {.kernel = r->kernel->name,
                         .pass = str_from(r->pass),
                         .subject = str_from(subject),
                         .sentence = str_format_list(r->memory, format, arguments)};
    va_end(arguments);
    list_push(r->memory, &r->log, d);
    return &r->log.items[r->log.count - 1];
}

bool reason_is_made(const reason *r) {
    for (int i = 0; i < r->made.count; i++)
        if (r->made.items[i] == r->kernel) return true;
    return false;
}

/* --- names ------------------------------------------------------------------------------------ */

typedef struct spelling {
    tl_expr *name;
    str text;
} spelling;

typedef struct spellings {
    arena *memory;
    LIST(spelling) items;
} spellings;

static void note_spelling(void *context, tl_expr *e) {
    spellings *all = context;
    if (e->kind != TL_NAME || edit_bare(e->text).length == e->text.length) return;
    spelling one = {e, e->text};
    list_push(all->memory, &all->items, one);
}

/* Of a program the kernels before it are TL Code and those after it still open, so that they need
 * not agree yet. A reader leaves a place out where a variable has no other; passes go by it.
 */
bool reason_bind_alone(reason *r, diag_list *why) {
    diag_init(why, r->memory, STR(""), STR(""));
    spellings placed = {.memory = r->memory};
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL))
        tl_each_expr(s, note_spelling, &placed);
    tl_kernel *next = r->kernel->next;
    tl_program alone = *r->program;
    alone.first = r->kernel, alone.kernel_count = 1;
    r->kernel->next = NULL;
    bool is_bound = tl_bind(&alone, why) && tl_infer_axes(r->kernel, r->memory, why);
    r->kernel->next = next;
    for (int i = 0; i < placed.items.count; i++)
        placed.items.items[i].name->text = placed.items.items[i].text;
    return is_bound;
}

/* --- lets ------------------------------------------------------------------------------------- */

bool reason_known(reason *r, const tl_expr *e, int64_t *value) {
    int64_t a, b;
    switch (e->kind) {
    case TL_INTEGER: *value = e->integer; return true;
    case TL_NAME: {
        tl_binding *binding = edit_find_let(r->kernel, e->text, NULL);
        return binding && binding->axes.count == 0 && !tl_expr_names(binding->value, e->text) &&
               reason_known(r, binding->value, value);
    }
    case TL_NEGATE:
        return reason_known(r, e->left, &a) && !__builtin_sub_overflow((int64_t)0, a, value);
    case TL_BINARY:
        if (!reason_known(r, e->left, &a) || !reason_known(r, e->right, &b)) return false;
        switch (e->operator) {
        case TL_PLUS: return !__builtin_add_overflow(a, b, value);
        case TL_MINUS: return !__builtin_sub_overflow(a, b, value);
        case TL_TIMES: return !__builtin_mul_overflow(a, b, value);
        case TL_OVER: /* of extents: rounds up */
            if (a < 0 || b <= 0) return false;
            *value = a / b + (a % b != 0);
            return true;
        default: return false;
        }
    default: return false;
    }
}

bool reason_let_integer(reason *r, const char *name, int64_t *value) {
    tl_binding *binding = edit_find_let(r->kernel, str_from(name), NULL);
    return binding && binding->axes.count == 0 && reason_known(r, binding->value, value);
}

int64_t reason_decided(reason *r, int64_t otherwise, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    str name = str_format_list(r->memory, format, arguments);
    va_end(arguments);
    int64_t value;
    return reason_let_integer(r, name.data, &value) ? value : otherwise;
}

int64_t reason_take(reason *r, int64_t otherwise, const char *name) {
    int64_t value = reason_decided(r, otherwise, "%s", name);
    edit_remove_let(r->kernel, str_from(name));
    return value;
}

void reason_settle(reason *r, int64_t value, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    str name = str_format_list(r->memory, format, arguments);
    va_end(arguments);
    int64_t known;
    if (!reason_let_integer(r, name.data, &known)) reason_let(r, name.data, value);
}

static bool is_plain_let(const tl_statement *s) {
    if (!s || s->kind != TL_LET) return false;
    for (int i = 0; i < s->let.count; i++)
        if (s->let.items[i].axes.count > 0 || s->let.items[i].value->kind != TL_INTEGER)
            return false;
    return true;
}

void reason_let(reason *r, const char *name, int64_t value) {
    tl_block block = tl_quote(r->memory, "let %s = %lld", name, (long long)value);
    tl_statement *first = r->kernel->body.first;
    if (!is_plain_let(first)) {
        edit_before(r->kernel, first, block);
        return;
    }
    tl_binding *longer = arena_array(r->memory, tl_binding, first->let.count + 1);
    for (int i = 0; i < first->let.count; i++) longer[i] = first->let.items[i];
    longer[first->let.count++] = block.first->let.items[0];
    first->let.items = longer;
}

/* --- the whole -------------------------------------------------------------------------------- */

bool reason_is_code(const tl_kernel *kernel) {
    for (const tl_statement *s = kernel->body.first; s; s = s->next)
        if (s->kind == TL_ROLE) return true;
    return false;
}

/* Decisions stand in the text until the last pass that asks for them has run. */
static void forget_decisions(reason *r) {
    static const char *const until[] = {
#define PIN(name, until, what) #until,
#include "reason/pins.def"
#undef PIN
    };
    for (int i = 0; pin_names[i].name; i++) {
        tl_statement *let;
        str name = str_from(pin_names[i].name);
        bool is_over = str_is(str_from(r->pass), until[i]);
        if (is_over && edit_find_let(r->kernel, name, &let) && !let->parent)
            edit_remove_let(r->kernel, name); /* those in roles are votes */
    }
}

static int find_pass(str name) {
    for (int i = 0; pass_names[i].name; i++)
        if (str_is(name, pass_names[i].name)) return i;
    return -1;
}

/* The number of a pass an option names; 'otherwise' for an empty name. False: there is none. */
static bool read_pass(reason *r, str name, int otherwise, int *number) {
    *number = name.length > 0 ? find_pass(name) : otherwise;
    if (name.length == 0 || *number >= 0) return true;
    text_buffer names;
    text_init_in(&names, r->memory);
    for (int i = 0; pass_names[i].name; i++)
        text_format(&names, "%s%s", i > 0 ? ", " : "", pass_names[i].name);
    reason_stuck(r, NULL, "no pass is called '%.*s'; they are %.*s", STR_ARGS(name),
                 STR_ARGS(text_str(&names)));
    return false;
}

static bool pins_are_used(reason *r) {
    str why = pins_unused(r);
    return !why.length || reason_stuck(r, NULL, "%.*s", STR_ARGS(why));
}

reason_result reason_program(const tl_program *sketch, const gpu *target,
                             const reason_options *options, arena *memory, diag_list *diags) {
    reason_result result = {0};
    reason r = {.memory = memory,
                .program = tl_program_copy(memory, sketch),
                .target = target,
                .options = options,
                .diags = diags,
                .kernel = sketch->first,
                .pass = "bind"};
    int first, last;
    if (!r.kernel || !read_pass(&r, options->start_after, -1, &first) ||
        !read_pass(&r, options->stop_after, PASS_COUNT - 1, &last))
        return result;
    bool is_good = true, has_sketch = false;
    r.pin_is_used = arena_array(memory, bool, options->pin_count + 1);
    int number = 0;
    for (r.kernel = r.program->first; r.kernel; r.kernel = r.kernel->next, number++) {
        bool is_going = first >= 0 || !reason_is_code(r.kernel);
        has_sketch = has_sketch || !reason_is_code(r.kernel);
        int refused = options->refused ? options->refused[number] : 0;
        r.way = refused % REASON_WAYS;
        r.is_plain = refused >= REASON_WAYS;
        r.is_halved = false;
        reason_note_history(&r, -1);
        for (int i = first + 1; i <= last && is_going; i++) {
            r.pass = pass_names[i].name;
            is_going = (i > 0 || reason_turn(&r)) && pass_runs[i](&r);
            if (is_going) forget_decisions(&r);
            reason_note_history(&r, i);
            if (is_going) continue;
            if (is_good) result.stuck_kernel = number;
            if (is_good)
                result.may_differ = refused > 0 || r.is_halved || i > find_pass(STR("tile"));
            is_good = false;
        }
    }
    r.kernel = r.program->first;
    is_good = is_good && (first >= 0 || !has_sketch || pins_are_used(&r));
    result.decisions = r.log.items;
    result.decision_count = r.log.count;
    result.offers = r.offers.items;
    result.offer_count = r.offers.count;
    result.taken = r.taken.items;
    result.taken_count = r.taken.count;
    result.predicted_tflops = r.predicted_tflops;
    result.program = is_good ? r.program : NULL;
    return result;
}
