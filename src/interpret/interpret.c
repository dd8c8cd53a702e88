#include "interpret/machine.h"

#include <float.h>
#include <math.h>
#include <string.h>

convert_format interpret_format(tl_type type) {
    switch (type) {
#define TYPE(id, spelling, number, bits, kind, doc)                                                \
    case TL_##id:                                                                                  \
        return CONVERT_##id;
#include "base/types.def"
#undef TYPE
    case TL_OPEN: break;
    }
    return CONVERT_F32;
}

/* --- the machine's memory --------------------------------------------------------------------- */

void *machine_block(machine *m, size_t count, size_t bytes) {
    return arena_alloc_array(m->memory, count ? count : 1, bytes, 64);
}

void machine_reserve(machine *m, int64_t width) {
    if (width <= m->scratch_width) return;
    int grown = m->scratch_width ? m->scratch_width : 64;
    while (grown < width) grown *= 2;
    m->scratch_width = grown;
    m->scratch = machine_block(m, (size_t)grown * MACHINE_SCRATCH_VECTORS, sizeof *m->scratch);
}

bool machine_step(machine *m, const tl_statement *s) {
    if (++m->steps <= m->most_steps) return !m->has_failed;
    if (!m->has_failed) {
        machine_stop(m, DIAG_INTERPRET_STEPS, s->range,
                     str_format(m->memory, "%lld", (long long)m->most_steps));
    }
    return false;
}

bool machine_tiles_exist(machine *m) {
    const interpret_request *r = m->request;
    for (int64_t i = 0; r->tiles && i < r->tile_count; i++) {
        if (r->tiles[i] >= 0 && r->tiles[i] < m->tiles_total) continue;
        machine_stop(m, DIAG_INTERPRET_NO_TILE, m->kernel->range,
                     str_format(m->memory, "%lld", (long long)m->tiles_total),
                     str_format(m->memory, "%lld", (long long)r->tiles[i]));
        return false;
    }
    return true;
}

static void number_statements(machine *m) {
    LIST(const tl_statement *) list = {0};
    for (tl_statement *s = m->kernel->body.first; s; s = tl_next(s, NULL)) {
        list_push(m->memory, &list, s);
    }
    m->statements = list.items;
    m->statement_count = list.count;
}

int machine_statement_number(machine *m, const tl_statement *s) {
    bool is_same = m->last_number < m->statement_count && m->statements[m->last_number] == s;
    for (int i = 0; i < m->statement_count && !is_same; i++) {
        if (m->statements[i] == s) m->last_number = i, is_same = true;
    }
    return m->last_number;
}

/* --- what the caller gives -------------------------------------------------------------------- */

static str number_text(machine *m, int64_t value) {
    return str_format(m->memory, "%lld", (long long)value);
}

static const interpret_tensor *given_tensor(const machine *m, str name) {
    for (int i = 0; i < m->request->tensor_count; i++) {
        if (str_equal(m->request->tensors[i].name, name)) return &m->request->tensors[i];
    }
    return NULL;
}

static const interpret_scalar *given_scalar(const machine *m, str name) {
    for (int i = 0; i < m->request->scalar_count; i++) {
        if (str_equal(m->request->scalars[i].name, name)) return &m->request->scalars[i];
    }
    return NULL;
}

static void take_tensor(machine *m, tl_symbol *symbol) {
    const interpret_tensor *given = given_tensor(m, symbol->name);
    if (!given) {
        machine_stop(m, DIAG_INTERPRET_NO_TENSOR, symbol->declared, symbol->name);
        return;
    }
    if (given->axis_count != symbol->axes->count) {
        machine_stop(m, DIAG_INTERPRET_AXIS_COUNT, symbol->declared, symbol->name,
                     number_text(m, symbol->axes->count), number_text(m, given->axis_count));
        return;
    }
    machine_tensor *t = &m->tensors[symbol->position];
    *t = (machine_tensor){.symbol = symbol, .memory = *given, .element_count = 1};
    tl_type type = symbol->parameter ? symbol->parameter->parameter.type : TL_OPEN;
    bool is_stored_exactly = m->is_exact || type == TL_OPEN;
    t->rounding = is_stored_exactly ? CONVERT_F64 : interpret_format(type);
    t->least = -(double)INFINITY, t->most = (double)INFINITY;
    if (tl_is_narrow(type)) {
        t->least = convert_round(interpret_format(type), -DBL_MAX);
        t->most = convert_round(interpret_format(type), DBL_MAX);
    }
    for (int i = 0; i < given->axis_count; i++) {
        int64_t extent = given->extents[i];
        bool fits = extent >= 0 && (extent == 0 || t->element_count <= INT64_MAX / 16 / extent);
        if (!fits) {
            machine_stop(m, DIAG_INTERPRET_EXTENT, symbol->declared, symbol->name,
                         number_text(m, extent));
            return;
        }
        t->element_count *= extent;
    }
    enum { MAP_MOST = 1 << 30 };
    if (symbol->is_output && t->element_count <= MAP_MOST) {
        t->writers = machine_block(m, (size_t)t->element_count, sizeof *t->writers);
    }
}

/* A size is what every tensor that has it says. */
static void take_sizes(machine *m, const machine_tensor *t) {
    for (int i = 0; i < t->memory.axis_count; i++) {
        const tl_expr *extent = t->symbol->axes->items[i].extent;
        int64_t given = t->memory.extents[i];
        const tl_symbol *size = extent->kind == TL_NAME ? extent->symbol : NULL;
        if (!size || size->kind != TL_SYMBOL_SIZE) continue;
        tl_value *value = &m->launch_values[size->position];
        if (m->has_launch_value[size->position] && value->integer != given) {
            machine_stop(m, DIAG_INTERPRET_SIZE_DIFFERS, t->symbol->declared, size->name,
                         number_text(m, value->integer), number_text(m, given), t->symbol->name);
            return;
        }
        *value = (tl_value){.integer = given};
        m->has_launch_value[size->position] = true;
    }
}

static void take_scalar(machine *m, const tl_symbol *symbol) {
    const interpret_scalar *given = given_scalar(m, symbol->name);
    if (!given) {
        if (symbol->kind == TL_SYMBOL_OPEN) return; /* a sketch chooses */
        machine_stop(m, DIAG_INTERPRET_NO_SCALAR, symbol->declared, symbol->name);
        return;
    }
    tl_value *value = &m->launch_values[symbol->position];
    bool is_integer = symbol->kind == TL_SYMBOL_OPEN || !symbol->is_real;
    if (is_integer)
        *value = (tl_value){.integer = (int64_t)convert_round(CONVERT_I32, given->value)};
    else *value = (tl_value){.is_real = true, .real = given->value};
    m->has_launch_value[symbol->position] = true;
}

/* Extents that are no plain size (let constants, arithmetic) must be what the tensor has. */
static void compare_extents(machine *m, scope *s, const machine_tensor *t) {
    for (int i = 0; i < t->memory.axis_count; i++) {
        tl_value value;
        const tl_expr *extent = t->symbol->axes->items[i].extent;
        if (!scope_evaluate(s, extent, &value)) continue; /* depends on the tile */
        if (!value.is_real && value.integer == t->memory.extents[i]) continue;
        machine_stop(m, DIAG_INTERPRET_SIZE_DIFFERS, t->symbol->declared,
                     tl_expr_text(m->memory, extent), number_text(m, value.integer),
                     number_text(m, t->memory.extents[i]), t->symbol->name);
    }
}

/* "q_heads = 6, kv_heads = 4": the names of a condition and what they are here. */
static str values_of(machine *m, scope *s, const tl_expr *e, str text) {
    tl_value value;
    if (e->kind == TL_NAME && scope_evaluate(s, e, &value)) {
        str number =
            value.is_real ? str_format(m->memory, "%g", value.real) : number_text(m, value.integer);
        return str_format(m->memory, "%.*s%s%.*s = %.*s", STR_ARGS(text), text.length ? ", " : "",
                          STR_ARGS(e->text), STR_ARGS(number));
    }
    if (e->left) text = values_of(m, s, e->left, text);
    if (e->right) text = values_of(m, s, e->right, text);
    for (int i = 0; i < e->item_count; i++) text = values_of(m, s, e->items[i], text);
    return text;
}

/* A view's lengths that no table decides. */
static void check_lengths(machine *m, scope *s, const tl_symbol *view) {
    for (int i = 0; i < view->axes->count && !m->has_failed; i++) {
        const tl_expr *extent = view->axes->items[i].extent;
        tl_value value;
        if (!scope_evaluate(s, extent, &value) || value.is_real || value.integer >= 0) continue;
        str text = tl_expr_text(m->memory, extent);
        machine_stop(m, DIAG_INTERPRET_CONDITION, extent->range,
                     str_format(m->memory, "%.*s >= 0", STR_ARGS(text)),
                     str_format(m->memory, "it is %lld", (long long)value.integer));
    }
}

static void check_conditions(machine *m, scope *s) {
    for (tl_statement *p = m->kernel->body.first; p; p = p->next) {
        bool is_parameter = p->kind == TL_INPUT || p->kind == TL_OUTPUT;
        if (!is_parameter || !p->parameter.condition) continue;
        tl_value value;
        if (!scope_value(s, p->parameter.condition, &value)) return;
        if (value.is_real ? value.real != 0 : value.integer != 0) continue;
        machine_stop(m, DIAG_INTERPRET_CONDITION, p->parameter.condition->range,
                     tl_expr_text(m->memory, p->parameter.condition),
                     values_of(m, s, p->parameter.condition, (str){NULL, 0}));
    }
}

static bool take_request(machine *m) {
    int count = m->kernel->symbol_count;
    m->tensors = arena_array(m->memory, machine_tensor, count + 1);
    m->launch_values = arena_array(m->memory, tl_value, count + 1);
    m->has_launch_value = arena_array(m->memory, bool, count + 1);
    for (int i = 0; i < count; i++) {
        tl_symbol *symbol = m->kernel->symbols[i];
        bool is_scalar = symbol->kind == TL_SYMBOL_SCALAR || symbol->kind == TL_SYMBOL_OPEN;
        if (is_scalar) take_scalar(m, symbol);
        bool is_buffer = symbol->kind == TL_SYMBOL_VARIABLE && symbol->axes && !symbol->view;
        if (is_buffer) take_tensor(m, symbol);
    }
    for (int i = 0; i < count && !m->has_failed; i++) {
        if (m->tensors[i].symbol) take_sizes(m, &m->tensors[i]);
    }
    scope s;
    scope_init(&s, m);
    for (int i = 0; i < count && !m->has_failed; i++) {
        const tl_symbol *symbol = m->kernel->symbols[i];
        if (m->tensors[i].symbol) compare_extents(m, &s, &m->tensors[i]);
        else if (symbol->axes) check_lengths(m, &s, symbol);
    }
    if (!m->has_failed) check_conditions(m, &s);
    return !m->has_failed;
}

static bool find_hole(machine *m) {
    for (int i = 0; i < m->statement_count; i++) {
        if (m->statements[i]->kind != TL_HOLE) continue;
        machine_stop(m, DIAG_INTERPRET_HOLE, m->statements[i]->range, STR(""));
        return true;
    }
    return false;
}

bool interpret_kernel(tl_kernel *kernel, const interpret_request *request, arena *memory,
                      diag_list *diags, interpret_report *report) {
    machine *m = arena_new(memory, machine);
    *m = (machine){.kernel = kernel,
                   .request = request,
                   .memory = memory,
                   .diags = diags,
                   .is_exact = request->mode != INTERPRET_ROUNDED,
                   .has_errors = request->mode >= INTERPRET_ERRORS,
                   .multiplies_bytes = request->mode == INTERPRET_ERRORS_OF_BYTES,
                   .is_code = !tl_is_sketch(kernel),
                   .most_steps = request->most_steps ? request->most_steps : INT64_C(1) << 40};
    int errors_before = diags->error_count;
    number_statements(m);
    machine_reserve(m, 64);
    bool is_done = !find_hole(m) && take_request(m) && errors_open(m) &&
                   (m->is_code ? code_run(m) : sketch_run(m));
    bool is_whole = is_done && !m->has_failed && m->tiles_run == m->tiles_total;
    if (is_whole) memory_check_written(m);
    if (report) {
        *report = (interpret_report){.tiles_run = m->tiles_run,
                                     .tiles_total = m->tiles_total,
                                     .steps = m->steps,
                                     .errors_are_unknown = m->errors_are_unknown};
    }
    return is_done && diags->error_count == errors_before;
}
