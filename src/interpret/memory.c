/* Elements of tensors and views. */
#include "interpret/machine.h"

#include <math.h>

/* The extent of an axis of a tensor or view. */
static bool memory_extent(scope *s, const tl_axes *axes, int i, int64_t *extent) {
    return scope_integer(s, axes->items[i].extent, extent);
}

static int64_t whole(double value) {
    return value >= -9e15 && value <= 9e15 ? (int64_t)floor(value) : INT64_MIN;
}

static double lane(lanes values, int i) {
    return values.kind == LANES_MANY   ? values.items[i]
           : values.kind == LANES_RAMP ? values.value + i
                                       : values.value;
}

typedef struct outside {
    int axis;
    int64_t at, extent;
} outside;

/* Of a tensor or view: one finding each is enough. */
static void report_outside(machine *m, const tl_symbol *symbol, outside where, diag_range range) {
    machine_tensor *t = &m->tensors[symbol->position];
    if (t->is_reported) return;
    t->is_reported = true;
    diag_report(m->diags, where.at < 0 ? DIAG_INTERPRET_BEFORE : DIAG_INTERPRET_OUTSIDE, range,
                str_format(m->memory, "%lld", (long long)where.at),
                str_format(m->memory, "%d", where.axis + 1), symbol->name,
                str_format(m->memory, "%lld", (long long)where.extent));
}

bool memory_check_fixed(scope *s, const tl_symbol *symbol, const tile_view *view,
                        const int64_t *start, diag_range range) {
    for (int pass = 0; pass < 2; pass++) {
        for (int k = 0; k < symbol->axes->count; k++) {
            int64_t extent, at = view->axis_of[k] < 0 ? view->fixed[k] : start[view->axis_of[k]];
            if (!memory_extent(s, symbol->axes, k, &extent)) return false;
            if (at < extent) continue;
            if (view->axis_of[k] >= 0) return true;
            if (pass) report_outside(s->machine, symbol, (outside){k, at, extent}, range);
        }
    }
    return true;
}

/* --- parameters ------------------------------------------------------------------------------- */

static machine_tensor *tensor_of(machine *m, const tl_symbol *symbol, diag_range range) {
    machine_tensor *t = &m->tensors[symbol->position];
    if (t->symbol) return t;
    machine_stop(m, DIAG_INTERPRET_NO_TENSOR, range, symbol->name);
    return NULL;
}

/* The lanes [*first, *end) whose index on every axis is in the tensor. Only for lanes that are
 * constant or one ramp. What is outside is reported.
 */
static bool clip(machine *m, machine_tensor *t, const lanes *at, int width, int *first, int *end,
                 diag_range range) {
    *first = 0;
    *end = width;
    for (int k = 0; k < t->memory.axis_count; k++) {
        int64_t from = whole(at[k].value), extent = t->memory.extents[k];
        int64_t last = at[k].kind == LANES_RAMP ? from + width - 1 : from;
        if (from < 0) report_outside(m, t->symbol, (outside){k, from, extent}, range);
        if (last >= extent) report_outside(m, t->symbol, (outside){k, last, extent}, range);
        if (at[k].kind == LANES_ONE) {
            if (from < 0 || from >= extent) *end = 0;
            continue;
        }
        if (from < 0 && -from > *first) *first = -from > width ? width : (int)-from;
        if (extent - from < *end) *end = extent > from ? (int)(extent - from) : 0;
    }
    return *first < *end;
}

/* In which order a workspace has an axis no kernel can see: all of them say the same. */
static bool is_permuted(const machine_tensor *t) {
    return tl_is_permuted(t->symbol) && !t->symbol->is_workspace;
}

static bool is_simple(const machine_tensor *t, const lanes *at, int *ramp) {
    *ramp = -1;
    if (is_permuted(t)) return false;
    for (int k = 0; k < t->memory.axis_count; k++) {
        if (at[k].kind == LANES_MANY || (at[k].kind == LANES_RAMP && *ramp >= 0)) return false;
        if (at[k].kind == LANES_RAMP) *ramp = k;
    }
    return true;
}

static void read_run(machine *m, machine_tensor *t, const lanes *at, int ramp, int width,
                     double *out, diag_range range) {
    int first, end;
    for (int i = 0; i < width; i++) out[i] = 0;
    if (!clip(m, t, at, width, &first, &end, range)) return;
    int64_t offset = 0;
    for (int k = 0; k < t->memory.axis_count; k++) {
        offset += (whole(at[k].value) + (k == ramp ? first : 0)) * t->memory.strides[k];
    }
    int64_t stride = ramp >= 0 ? t->memory.strides[ramp] : 0;
    convert_load(t->memory.format, t->memory.data, offset, (ptrdiff_t)stride, (size_t)(end - first),
                 out + first);
}

/* The offset in memory and in the map of writers; false when the element is outside. */
static bool locate(machine *m, machine_tensor *t, const lanes *at, int i, int64_t *offset,
                   int64_t *element, diag_range range) {
    int count = t->memory.axis_count, permuted = is_permuted(t) ? count - 1 : -1;
    *offset = *element = 0;
    for (int k = 0; k < count; k++) {
        int64_t index = whole(lane(at[k], i)), extent = t->memory.extents[k];
        if (index < 0 || index >= extent) {
            report_outside(m, t->symbol, (outside){k, index, extent}, range);
            return false;
        }
        *offset += (k == permuted ? tl_permuted_place(index) : index) * t->memory.strides[k];
        *element = *element * extent + index;
    }
    return true;
}

static bool read_parameter(machine *m, const tl_symbol *symbol, const lanes *at, int width,
                           const uint8_t *active, double *out, diag_range range) {
    machine_tensor *t = tensor_of(m, symbol, range);
    if (!t) return false;
    int ramp;
    if (!active && is_simple(t, at, &ramp)) {
        read_run(m, t, at, ramp, width, out, range);
        return true;
    }
    for (int i = 0; i < width; i++) {
        int64_t offset, element;
        out[i] = 0;
        if (active && !active[i]) continue;
        if (!locate(m, t, at, i, &offset, &element, range)) continue;
        convert_load(t->memory.format, t->memory.data, offset, 0, 1, &out[i]);
    }
    return true;
}

static void note_writer(machine *m, machine_tensor *t, int64_t element, bool accumulates,
                        const tl_statement *writer) {
    if (!t->writers) return;
    uint16_t before = t->writers[element];
    uint16_t now = (uint16_t)(machine_statement_number(m, writer) + 1);
    t->writers[element] = now;
    if (!before || (accumulates && before == now) || t->is_reported) return;
    t->is_reported = true;
    const tl_statement *other = m->statements[before - 1];
    diag_report(m->diags, DIAG_INTERPRET_WRITTEN_TWICE, writer->range, t->symbol->name,
                str_format(m->memory, "%lld", (long long)element));
    diag_add(m->diags, DIAG_INTERPRET_FIRST_WRITE, other->range, NULL);
}

static void write_element(machine *m, machine_tensor *t, int64_t offset, double value,
                          bool accumulates) {
    if (accumulates) {
        double old;
        convert_load(t->memory.format, t->memory.data, offset, 0, 1, &old);
        value += old;
    }
    value = convert_round(t->rounding, value);
    if (value > t->most) value = t->most;
    if (value < t->least) value = t->least;
    convert_store(t->memory.format, &value, 1, t->memory.data, offset, 0);
    (void)m;
}

static bool write_parameter(machine *m, const tl_symbol *symbol, const lanes *at, int width,
                            const uint8_t *active, const double *values, bool accumulates,
                            const tl_statement *writer) {
    machine_tensor *t = tensor_of(m, symbol, writer->range);
    if (!t) return false;
    for (int i = 0; i < width; i++) {
        int64_t offset, element;
        if (active && !active[i]) continue;
        if (!locate(m, t, at, i, &offset, &element, writer->range)) continue;
        note_writer(m, t, element, accumulates, writer);
        write_element(m, t, offset, values[i], accumulates);
    }
    return true;
}

/* --- views ------------------------------------------------------------------------------------ */

/* Elements of T in `let V (...) = T[...]` must be in T; a Copy's tile may reach past the end. */
typedef enum bounds { BOUNDS_ALL, BOUNDS_BEGINNING } bounds;

/* Lanes inside the axes of a view or tensor: NULL in *active means all. False: none, or no memory
 * (has_failed). Reports those outside of what 'wanted' demands.
 */
static bool view_inside(scope *s, const tl_symbol *view, const lanes *at, int width,
                        const uint8_t **active, bounds wanted, diag_range range) {
    uint8_t *inside = NULL;
    for (int k = 0; k < view->axes->count; k++) {
        int64_t extent;
        if (!memory_extent(s, view->axes, k, &extent)) return false;
        double low = at[k].value, high = low + (at[k].kind == LANES_RAMP ? width - 1 : 0);
        if (at[k].kind != LANES_MANY && low >= 0 && high < (double)extent) continue;
        for (int i = 0; i < (at[k].kind == LANES_ONE ? 1 : width); i++) {
            double index = lane(at[k], i);
            bool is_meant = !*active || (*active)[i];
            bool is_out = index < 0 || (wanted == BOUNDS_ALL && index >= (double)extent);
            if (!is_meant || !is_out) continue;
            report_outside(s->machine, view, (outside){k, whole(index), extent}, range);
            break;
        }
        if (at[k].kind == LANES_ONE) return false;
        if (!inside) {
            inside = (uint8_t *)machine_vector(s->machine);
            if (!inside) return false;
            for (int i = 0; i < width; i++) inside[i] = !*active || (*active)[i];
        }
        for (int i = 0; i < width; i++) {
            double index = lane(at[k], i);
            inside[i] = inside[i] && index >= 0 && index < (double)extent;
        }
    }
    if (!inside) return true;
    *active = inside;
    for (int i = 0; i < width; i++) {
        if (inside[i]) return true;
    }
    return false;
}

typedef struct saved_indices {
    const tl_symbol *symbols[TL_AXES_MAX];
    lanes values[TL_AXES_MAX];
    bool had[TL_AXES_MAX];
} saved_indices;

static void bind_view(scope *s, const tl_symbol *view, const lanes *at, saved_indices *saved) {
    for (int k = 0; k < view->axes->count; k++) {
        str name = tl_axis_index(view->axes, k);
        const tl_symbol *index = name.length ? tl_find_index(s->machine->kernel, name) : NULL;
        saved->symbols[k] = index;
        if (!index) continue;
        saved->values[k] = s->indices[index->position];
        saved->had[k] = s->has_index[index->position];
        s->indices[index->position] = at[k];
        s->has_index[index->position] = true;
    }
}

static void unbind_view(scope *s, const tl_symbol *view, const saved_indices *saved) {
    for (int k = view->axes->count - 1; k >= 0; k--) {
        const tl_symbol *index = saved->symbols[k];
        if (!index) continue;
        s->indices[index->position] = saved->values[k];
        s->has_index[index->position] = saved->had[k];
    }
}

static bool read_view(scope *s, const tl_symbol *view, const lanes *at, int width,
                      const uint8_t *active, double *out, diag_range range) {
    machine *m = s->machine;
    for (int i = 0; i < width; i++) out[i] = 0;
    bool is_inside = view_inside(s, view, at, width, &active, BOUNDS_ALL, range);
    if (!is_inside) return !m->has_failed;
    saved_indices saved;
    bind_view(s, view, at, &saved);
    lanes values;
    const tl_expr *viewed = m->viewed;
    m->viewed = view->view->value;
    bool is_done = scope_lanes(s, view->view->value, NULL, 0, width, active, &values);
    m->viewed = viewed;
    unbind_view(s, view, &saved);
    if (!is_done) return false;
    for (int i = 0; i < width; i++) {
        if (!active || active[i]) out[i] = lane(values, i);
    }
    return true;
}

static bool write_masked(scope *s, const tl_symbol *symbol, const lanes *at, int width,
                         const uint8_t *active, const double *values, bool accumulates,
                         const tl_statement *writer);

static bool write_view(scope *s, const tl_symbol *view, const lanes *at, int width,
                       const uint8_t *active, const double *values, bool accumulates,
                       const tl_statement *writer) {
    machine *m = s->machine;
    const tl_expr *element = view->view->value;
    if (element->kind != TL_ELEMENT || !element->symbol) {
        machine_stop(m, DIAG_INTERPRET_VIEW_WRITE, writer->range, view->name);
        return false;
    }
    bool is_inside = view_inside(s, view, at, width, &active, BOUNDS_ALL, writer->range);
    if (!is_inside) return !m->has_failed;
    saved_indices saved;
    bind_view(s, view, at, &saved);
    lanes items[TL_AXES_MAX];
    bool is_done = true;
    for (int k = 0; k < element->item_count && is_done; k++) {
        is_done = scope_lanes(s, element->items[k], NULL, 0, width, active, &items[k]);
    }
    unbind_view(s, view, &saved);
    return is_done &&
           write_masked(s, element->symbol, items, width, active, values, accumulates, writer);
}

/* --- both ------------------------------------------------------------------------------------- */

bool memory_read(scope *s, const tl_symbol *symbol, const lanes *at, int width,
                 const uint8_t *active, double *out, diag_range range) {
    return symbol->view ? read_view(s, symbol, at, width, active, out, range)
                        : read_parameter(s->machine, symbol, at, width, active, out, range);
}

static bool write_masked(scope *s, const tl_symbol *symbol, const lanes *at, int width,
                         const uint8_t *active, const double *values, bool accumulates,
                         const tl_statement *writer) {
    return symbol->view ? write_view(s, symbol, at, width, active, values, accumulates, writer)
                        : write_parameter(s->machine, symbol, at, width, active, values,
                                          accumulates, writer);
}

/* A store drops what is past the end of the axes: here those of the tensor itself. */
bool memory_write(scope *s, const tl_symbol *symbol, const lanes *at, int width,
                  const double *values, bool accumulates, const tl_statement *writer) {
    const uint8_t *active = NULL;
    bool is_inside = view_inside(s, symbol, at, width, &active, BOUNDS_BEGINNING, writer->range);
    if (!is_inside) return !s->machine->has_failed;
    return write_masked(s, symbol, at, width, active, values, accumulates, writer);
}

bool memory_read_clipped(scope *s, const tl_symbol *symbol, const lanes *at, int width,
                         const uint8_t *active, double *out, diag_range range) {
    if (!view_inside(s, symbol, at, width, &active, BOUNDS_BEGINNING, range)) {
        for (int i = 0; i < width; i++) out[i] = 0;
        return !s->machine->has_failed;
    }
    return memory_read(s, symbol, at, width, active, out, range);
}

/* --- errors in memory ------------------------------------------------------------------------- */

/* The errors of a tensor stand in its place for a while. */
static machine_tensor with_errors(machine_tensor *t) {
    machine_tensor before = *t;
    int64_t step = 1;
    for (int k = t->memory.axis_count - 1; k >= 0; k--) {
        t->memory.strides[k] = step;
        step *= t->memory.extents[k];
    }
    t->memory.data = t->memory.errors;
    t->memory.format = t->rounding = CONVERT_F64;
    t->least = -(double)INFINITY, t->most = (double)INFINITY;
    t->writers = NULL;
    return before;
}

bool memory_read_errors(scope *s, const tl_symbol *symbol, const lanes *at, int width,
                        const uint8_t *active, double *out, diag_range range) {
    machine_tensor *t = memory_tensor(s->machine, symbol), before = with_errors(t);
    bool is_done = memory_read_clipped(s, symbol, at, width, active, out, range);
    *t = before;
    return is_done;
}

bool memory_write_errors(scope *s, const tl_symbol *symbol, const lanes *at, int width,
                         const double *values, bool accumulates, const tl_statement *writer) {
    machine_tensor *t = memory_tensor(s->machine, symbol), before = with_errors(t);
    bool is_done = memory_write(s, symbol, at, width, values, accumulates, writer);
    *t = before;
    return is_done;
}

machine_tensor *memory_tensor(const machine *m, const tl_symbol *symbol) {
    return &m->tensors[(symbol->view_base ? symbol->view_base : symbol)->position];
}

bool memory_read_one(scope *s, const tl_symbol *symbol, const int64_t *at, double *out,
                     diag_range range) {
    lanes one[TL_AXES_MAX];
    if (!symbol->axes) return false;
    for (int k = 0; k < symbol->axes->count; k++) {
        one[k] = (lanes){.kind = LANES_ONE, .value = (double)at[k]};
    }
    int used = s->machine->scratch_used;
    bool is_done = memory_read(s, symbol, one, 1, NULL, out, range);
    s->machine->scratch_used = used;
    return is_done;
}

void memory_check_written(machine *m) {
    for (int i = 0; i < m->kernel->symbol_count; i++) {
        machine_tensor *t = &m->tensors[i];
        if (!t->writers || t->is_reported || tl_may_keep(m->kernel, t->symbol)) continue;
        int64_t missing = 0, first = -1;
        for (int64_t k = 0; k < t->element_count; k++) {
            if (t->writers[k]) continue;
            if (first < 0) first = k;
            missing++;
        }
        if (!missing) continue;
        diag_report(m->diags, DIAG_INTERPRET_NEVER_WRITTEN, t->symbol->declared,
                    str_format(m->memory, "%lld", (long long)missing), t->symbol->name,
                    str_format(m->memory, "%lld", (long long)first));
    }
}
