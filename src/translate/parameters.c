/* What comes in: the plan, the struct of parameters, and the lines that open the kernel. */
#include "translate/walk.h"

#include "tl/boxes.h"

#include <limits.h>
#include <string.h>

/* --- tensors ---------------------------------------------------------------------------------- */

const tl_symbol *emit_tensor_under(const tl_symbol *s) {
    while (s && !s->parameter && s->view_base) s = s->view_base;
    return s;
}

/* Is the tensor moved in tiles of two axes? Then its last axis is contiguous and its lines start on
 * multiples of 16 bytes.
 */
static bool moves_in_lines(emit *t, const tl_symbol *tensor) {
    for (tl_statement *s = t->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (s->kind != TL_COPY) continue;
        tl_end from = tl_copy_source(s), to = tl_copy_target(s);
        tl_end global = s->copy.from == TL_GLOBAL ? from : to,
               tile = s->copy.from == TL_GLOBAL ? to : from;
        if (emit_tensor_under(global.symbol) != tensor || !tile.tile) continue;
        if (global.space == TL_GLOBAL && tile.tile->axis_count == 2) return true;
    }
    return false;
}

ftl_type translate_type(tl_type type) {
    switch (type) {
#define TYPE(id, spelling, number, bits, kind, doc)                                                \
    case TL_##id:                                                                                  \
        return FTL_##id;
#include "base/types.def"
#undef TYPE
    case TL_OPEN: break;
    }
    return FTL_F32;
}

static int count_parameters(const emit *t, bool tensors) {
    int count = 0;
    for (const tl_statement *s = t->kernel->body.first; s; s = s->next) {
        count += tl_is_parameter(s) && (s->parameter.axes.count > 0) == tensors;
    }
    return count;
}

static int take(int32_t *bytes, int size) {
    int offset = *bytes;
    *bytes += size;
    return offset;
}

static void plan_sizes(emit *t) {
    LIST(ftl_plan_size) sizes = {0};
    for (int i = 0; i < t->kernel->symbol_count; i++) {
        const tl_symbol *s = t->kernel->symbols[i];
        if (s->kind != TL_SYMBOL_SIZE) continue;
        ftl_plan_size size = {.name = str_copy_z(t->memory, s->name), .offset = -1};
        list_push(t->memory, &sizes, size);
    }
    t->plan->sizes = sizes.items, t->plan->size_count = sizes.count;
}

/* How long memory has the axis: a workspace that is permuted has whole units of it. */
static const tl_expr *length_in_memory(emit *t, const tl_statement *s, int axis) {
    const tl_axes *axes = &s->parameter.axes;
    const tl_expr *extent = axes->items[axis].extent;
    bool is_whole = axis < axes->count - 1 || !tl_is_permuted(s->parameter.symbol) ||
                    !s->parameter.symbol->is_workspace ||
                    tl_is_multiple(t->kernel, extent, TL_PERMUTED_UNIT);
    if (is_whole) return extent;
    const tl_expr *unit = tl_new_integer(t->memory, TL_PERMUTED_UNIT);
    tl_expr **quotient = arena_array(t->memory, tl_expr *, 1);
    quotient[0] = tl_new_binary(t->memory, TL_OVER, extent, unit);
    tl_expr *units = arena_new(t->memory, tl_expr);
    *units = (tl_expr){
        .kind = TL_CALL, .function = TL_FUNCTION_CEIL, .items = quotient, .item_count = 1};
    return tl_new_binary(t->memory, TL_TIMES, units, unit);
}

static void plan_axes(emit *t, const tl_statement *s, ftl_plan_tensor *tensor, bool lines) {
    const tl_axes *axes = &s->parameter.axes;
    tensor->axis_count = axes->count;
    for (int i = 0; i < axes->count; i++) {
        ftl_plan_axis *axis = &tensor->axes[i];
        axis->name = str_copy_z(t->memory, emit_axis_name(t, axes, i));
        const tl_expr *e = length_in_memory(t, s, i);
        bool is_size = e->kind == TL_NAME && e->symbol && e->symbol->kind == TL_SYMBOL_SIZE;
        axis->size = is_size ? emit_size_index(t->plan, e->symbol->name) : -1;
        if (!emit_formula(t, e, &axis->extent)) {
            emit_unsupported(t, axes->items[i].range, s->parameter.name,
                             "the length of this axis is not known at launch");
        }
        bool contiguous = lines && i == axes->count - 1;
        axis->stride_offset = contiguous ? -1 : take(&t->plan->parameter_bytes, 8);
        /* Rows of matrices: products with it are in the middle of what is copied most often. */
        axis->is_stride_short = lines && i == axes->count - 2;
    }
}

static void plan_tensors(emit *t) {
    ftl_plan *plan = t->plan;
    int count = count_parameters(t, true), at = 0;
    ftl_plan_tensor *tensors = arena_array(t->memory, ftl_plan_tensor, count + 1);
    for (tl_statement *s = t->kernel->body.first; s; s = s->next) {
        if (!tl_is_parameter(s) || !s->parameter.axes.count) continue;
        ftl_plan_tensor *tensor = &tensors[at++];
        bool lines = moves_in_lines(t, s->parameter.symbol);
        tensor->name = str_copy_z(t->memory, s->parameter.name);
        tensor->type = translate_type(s->parameter.type);
        tensor->role = s->parameter.symbol->is_workspace ? FTL_WORKSPACE
                       : s->kind == TL_OUTPUT            ? FTL_OUTPUT
                                                         : FTL_INPUT;
        tensor->is_sum = s->kind == TL_OUTPUT && tl_is_sum(t->kernel, s->parameter.symbol);
        tensor->is_kept = s->parameter.is_kept;
        tensor->pointer_offset = take(&plan->parameter_bytes, 8);
        tensor->alignment_bytes = lines ? 16 : (int32_t)ftl_type_bytes(tensor->type);
        plan_axes(t, s, tensor, lines);
        bool is_table = tensor->type == FTL_I32 && tensor->role == FTL_INPUT;
        if (is_table) translate_table(t->kernel, s->parameter.symbol, plan, t->memory, tensor);
    }
    plan->tensors = tensors, plan->tensor_count = count;
}

static void plan_scalars(emit *t) {
    int count = count_parameters(t, false), at = 0;
    ftl_plan_scalar *scalars = arena_array(t->memory, ftl_plan_scalar, count + 1);
    for (tl_statement *s = t->kernel->body.first; s; s = s->next) {
        if (!tl_is_parameter(s) || s->parameter.axes.count) continue;
        scalars[at].name = str_copy_z(t->memory, s->parameter.name);
        scalars[at].type = translate_type(s->parameter.type);
        scalars[at++].offset = take(&t->plan->parameter_bytes, 4);
    }
    t->plan->scalars = scalars, t->plan->scalar_count = count;
}

static void plan_size_offsets(emit *t) {
    ftl_plan_size *sizes = (ftl_plan_size *)(uintptr_t)t->plan->sizes;
    for (int i = 0; i < t->plan->size_count; i++)
        sizes[i].offset = take(&t->plan->parameter_bytes, 4);
}

static void size_condition(emit *t, int size) {
    ftl_formula_step *steps = arena_array(t->memory, ftl_formula_step, 3);
    steps[0] = (ftl_formula_step){.op = FTL_PUSH_SIZE, .index = size};
    steps[1] = (ftl_formula_step){.op = FTL_PUSH_INTEGER, .integer = EMIT_SIZE_MAX};
    steps[2] = (ftl_formula_step){.op = FTL_LESS_EQUAL};
    str text = emit_format(t, "%s <= %d", t->plan->sizes[size].name, EMIT_SIZE_MAX);
    ftl_formula f = {.text = str_copy_z(t->memory, text), .steps = steps, .step_count = 3};
    list_push(t->memory, &t->conditions, f);
}

static void plan_conditions(emit *t) {
    for (tl_statement *s = t->kernel->body.first; s; s = s->next) {
        if (!tl_is_parameter(s) || !s->parameter.condition) continue;
        ftl_formula f;
        if (emit_formula(t, s->parameter.condition, &f)) list_push(t->memory, &t->conditions, f);
        else
            emit_unsupported(t, s->parameter.condition->range,
                             tl_expr_text(t->memory, s->parameter.condition),
                             "a condition of the launch uses sizes and scalars only");
    }
    translate_reach_conditions(t->kernel, t->plan, t->memory, &t->conditions);
    translate_length_conditions(t->kernel, t->plan, t->memory, &t->conditions);
    for (int i = 0; i < t->plan->size_count; i++) size_condition(t, i);
}

static void plan_tiles(emit *t) {
    LIST(ftl_plan_tile) tiles = {0};
    for (int i = 0; i < t->tiles.count; i++) {
        const emit_tile *tile = t->tiles.items[i];
        if (tile->space != TL_SHARED) continue;
        ftl_plan_tile out = {.name = str_copy_z(t->memory, tile->symbol->name),
                             .type = translate_type(tile->type),
                             .offset_bytes = (int32_t)tile->offset_bytes,
                             .rows = shared_lines(&tile->store),
                             .row_bytes = tile->store.pitch_bytes,
                             .stages = tile->stages};
        list_push(t->memory, &tiles, out);
    }
    t->plan->tiles = tiles.items, t->plan->tile_count = tiles.count;
}

/* Resident blocks know how many tiles there are. */
static void plan_resident(emit *t) {
    t->plan->grid_kind = FTL_GRID_PERSISTENT;
    if (t->model->grid->grid.kind == TL_GRID_DYNAMIC) t->plan->grid_kind = FTL_GRID_DYNAMIC;
    ftl_plan_derived tiles = {.name = "tiles", .kind = FTL_DERIVED_TILES, .formula = {.text = ""}};
    list_push(t->memory, &t->derived, tiles);
}

bool emit_divisor(emit *t, const tl_expr *b, str *multiplier, str *shift) {
    ftl_formula formula;
    if (!emit_formula(t, b, &formula)) return false;
    for (int i = 0; i < formula.step_count; i++) {
        ftl_formula_op op = formula.steps[i].op;
        if (op == FTL_PUSH_NUMBER || op == FTL_PUSH_SCALAR) return false;
    }
    emit_divide(t, formula, emit_divisor_name(t, b), multiplier, shift);
    return true;
}

const char *emit_divisor_name(emit *t, const tl_expr *b) {
    if (b->kind != TL_NAME) return NULL;
    return str_copy_z(t->memory, emit_format(t, "by_%.*s", STR_ARGS(b->text)));
}

/* Has the struct of parameters a member of that name? */
static bool is_member(const emit *t, const char *name) {
    const ftl_plan *plan = t->plan;
    bool found = false;
    for (int i = 0; i < plan->tensor_count; i++) found |= !strcmp(plan->tensors[i].name, name);
    for (int i = 0; i < plan->size_count; i++) found |= !strcmp(plan->sizes[i].name, name);
    for (int i = 0; i < plan->scalar_count; i++) found |= !strcmp(plan->scalars[i].name, name);
    for (int i = 0; i < t->derived.count; i++) found |= !strcmp(t->derived.items[i].name, name);
    return found;
}

str emit_derived(emit *t, ftl_derived_kind kind, ftl_formula formula, const char *called) {
    int count = 0;
    for (int i = 0; i < t->derived.count; i++) {
        const ftl_plan_derived *other = &t->derived.items[i];
        if (other->kind != kind) continue;
        if (strcmp(other->formula.text, formula.text) == 0) return str_from(other->name);
        count++;
    }
    str name = emit_format(t, kind == FTL_DERIVED_DIVISOR ? "divisor_%d" : "value_%d", count);
    if (called && !is_member(t, called)) name = str_from(called);
    ftl_plan_derived d = {.name = str_copy_z(t->memory, name), .kind = kind, .formula = formula};
    list_push(t->memory, &t->derived, d);
    return name;
}

void emit_divide(emit *t, ftl_formula formula, const char *called, str *multiplier, str *shift) {
    str name = emit_derived(t, FTL_DERIVED_DIVISOR, formula, called);
    *multiplier = emit_format(t, "args.%.*s_multiplier", STR_ARGS(name));
    *shift = emit_format(t, "args.%.*s_shift", STR_ARGS(name));
}

/* Derived parameters and maps stand last. */
static void place_derived(emit *t) {
    ftl_plan *plan = t->plan;
    for (int i = 0; i < t->derived.count; i++) {
        ftl_plan_derived *d = &t->derived.items[i];
        d->offset = take(&plan->parameter_bytes, d->kind == FTL_DERIVED_DIVISOR ? 8 : 4);
    }
    plan->derived = t->derived.items, plan->derived_count = t->derived.count;
    if (plan->grid_kind == FTL_GRID_DYNAMIC) {
        plan->parameter_bytes = (plan->parameter_bytes + 7) / 8 * 8;
        plan->counters_offset = take(&plan->parameter_bytes, 8);
    }
    if (t->maps.count) plan->parameter_bytes = (plan->parameter_bytes + 63) / 64 * 64;
    for (int i = 0; i < t->maps.count; i++)
        t->maps.items[i].offset = take(&plan->parameter_bytes, FTL_MAP_BYTES);
    plan->maps = t->maps.items, plan->map_count = t->maps.count;
}

void emit_finish_plan(emit *t) {
    ftl_plan *plan = t->plan;
    str target = t->target;
    /* The letter of a target is for instructions of that architecture alone. */
    bool has_letter = target.length && target.data[target.length - 1] == 'a';
    if (has_letter && !t->is_exact) target.length--;
    plan->target = str_copy_z(t->memory, emit_format(t, "compute_%.*s", STR_ARGS(target)));
    place_derived(t);
    plan->parameter_bytes = (plan->parameter_bytes + 7) / 8 * 8;
    if (plan->parameter_bytes > FTL_PARAMETER_BYTES_MAX) {
        emit_unsupported(t, t->kernel->range, t->kernel->name, "it has too many parameters");
    }
}

void emit_make_plan(emit *t) {
    ftl_plan *plan = t->plan;
    plan->kernel = str_copy_z(t->memory, t->kernel->name);
    plan->entry =
        str_copy_z(t->memory, emit_clean(t, t->entry.length ? t->entry : t->kernel->name));
    plan->gpu = str_copy_z(t->memory, t->gpu->word);
    str target = t->gpu->target;
    if (str_starts(target, STR("sm_"))) {
        target.data += 3, target.length -= 3;
    }
    t->target = target;
    plan->threads = t->threads;
    plan_sizes(t);
    plan_tensors(t);
    plan_size_offsets(t);
    plan_scalars(t);
    plan->grid_kind = FTL_GRID_PLAIN;
    plan->counters_offset = -1;
    if (t->model->grid && t->model->grid->grid.kind != TL_GRID_PLAIN) plan_resident(t);
    emit_plan_grid(t);
    plan_conditions(t);
    plan->conditions = t->conditions.items, plan->condition_count = t->conditions.count;
    plan_tiles(t);
}

/* --- the struct ------------------------------------------------------------------------------- */

static const tl_statement *parameter_named(const emit *t, const char *name) {
    for (const tl_statement *s = t->kernel->body.first; s; s = s->next) {
        if (tl_is_parameter(s) && str_is(s->parameter.name, name)) return s;
    }
    return NULL;
}

static void add_parameter_comment(const tl_statement *s, text_buffer *out) {
    text_add_z(out, " // ");
    if (s) tl_print_header(s, out);
    text_add_z(out, "\n");
}

static void add_tensor(emit *t, const ftl_plan_tensor *tensor, text_buffer *out) {
    str name = emit_clean(t, str_from(tensor->name));
    const tl_statement *s = parameter_named(t, tensor->name);
    text_format(out, "    %s%.*s;", emit_pointer_type(s->parameter.type, tensor->role != FTL_INPUT),
                STR_ARGS(name));
    add_parameter_comment(s, out);
    bool has_long = false;
    for (int i = 0; i < tensor->axis_count; i++) {
        const ftl_plan_axis *axis = &tensor->axes[i];
        if (axis->stride_offset < 0) continue;
        if (axis->is_stride_short)
            text_format(out, "    int %.*s_stride_%s, %.*s_stride_%s_sign;\n", STR_ARGS(name),
                        axis->name, STR_ARGS(name), axis->name);
        else
            text_format(out, "%s%.*s_stride_%s", has_long ? ", " : "    long long ", STR_ARGS(name),
                        axis->name);
        bool goes_on = !axis->is_stride_short && i + 1 < tensor->axis_count &&
                       tensor->axes[i + 1].stride_offset >= 0 &&
                       !tensor->axes[i + 1].is_stride_short;
        if (!axis->is_stride_short && !goes_on) text_add_z(out, ";\n");
        has_long = goes_on;
    }
}

const ftl_plan_tensor *emit_plan_tensor(const emit *t, str name) {
    for (int i = 0; i < t->plan->tensor_count; i++)
        if (str_is(name, t->plan->tensors[i].name)) return &t->plan->tensors[i];
    return NULL;
}

static str stride_text(emit *t, const ftl_plan_tensor *tensor, int axis, bool is_halved) {
    if (tensor->axes[axis].stride_offset < 0) return STR("1");
    str name = emit_clean(t, str_from(tensor->name));
    str text = emit_format(t, "args.%.*s_stride_%s", STR_ARGS(name), tensor->axes[axis].name);
    if (is_halved) text = emit_format(t, "(%.*s >> 1)", STR_ARGS(text));
    return tensor->axes[axis].is_stride_short ? emit_format(t, "(long long)%.*s", STR_ARGS(text))
                                              : text;
}

str emit_stride(emit *t, const ftl_plan_tensor *tensor, int axis) {
    return stride_text(t, tensor, axis, false);
}

str emit_pointer_stride(emit *t, const ftl_plan_tensor *tensor, int axis) {
    return stride_text(t, tensor, axis, ftl_type_bits(tensor->type) < 8);
}

void emit_parameter_struct(emit *t, text_buffer *out) {
    const ftl_plan *plan = t->plan;
    text_format(out, "// Strides count elements. A pointer without a stride for an axis: that axis "
                     "is contiguous.\n"
                     "// One followed by its sign has 64 bits, too, and is known to fit 32.\n");
    text_format(out, "struct %s_parameters {\n", plan->entry);
    for (int i = 0; i < plan->tensor_count; i++) add_tensor(t, &plan->tensors[i], out);
    for (int i = 0; i < plan->size_count; i++) {
        str name = emit_clean(t, str_from(plan->sizes[i].name));
        text_format(out, "%s%.*s%s", i ? ", " : "    int ", STR_ARGS(name),
                    i + 1 == plan->size_count ? ";\n" : "");
    }
    for (int i = 0; i < plan->scalar_count; i++) {
        str name = emit_clean(t, str_from(plan->scalars[i].name));
        text_format(out, "    %s %.*s;", plan->scalars[i].type == FTL_I32 ? "int" : "float",
                    STR_ARGS(name));
        add_parameter_comment(parameter_named(t, plan->scalars[i].name), out);
    }
    for (int i = 0; i < plan->derived_count; i++) {
        const ftl_plan_derived *d = &plan->derived[i];
        if (d->kind == FTL_DERIVED_DIVISOR)
            text_format(out, "    unsigned %s_multiplier, %s_shift; // n / (%s)\n", d->name,
                        d->name, d->formula.text);
        else
            text_format(out, "    int %s; // %s\n", d->name,
                        d->kind == FTL_DERIVED_TILES ? "of the grid" : d->formula.text);
    }
    if (plan->counters_offset >= 0)
        text_add_z(out, "    unsigned *tile_counters; // two, zero before and after each launch\n");
    for (int i = 0; i < plan->map_count; i++) {
        text_format(out, "%s%s[16]%s", i ? ", " : "    alignas(64) unsigned long long ",
                    plan->maps[i].name, i + 1 < plan->map_count ? "" : "; // boxes of tensors\n");
    }
    text_add_z(out, "};\n\n");
}

/* --- the first lines -------------------------------------------------------------------------- */

static void emit_binding(emit *t, const tl_binding *b) {
    str name = emit_clean(t, b->name);
    if (b->symbol->is_known && b->symbol->is_integer) {
        emit_name_set(t, b->symbol, name, b->symbol->integer, b->symbol->integer);
        emit_declare(t, name, "const int %.*s = %lld;", STR_ARGS(name),
                     (long long)b->symbol->integer);
        return;
    }
    emit_value v = emit_expression(t, b->value, NULL);
    if (v.is_real || b->symbol->is_real) {
        emit_name_set(t, b->symbol, name, 0, 0);
        emit_declare(t, name, "const float %.*s = %.*s;", STR_ARGS(name),
                     STR_ARGS(emit_real(t, v)));
        return;
    }
    emit_name_set(t, b->symbol, name, v.low, v.high);
    const char *type = v.is_condition ? "bool" : emit_is_wide(v) ? "long long" : "int";
    emit_declare(t, name, "const %s %.*s = %.*s;", type, STR_ARGS(name), STR_ARGS(v.text));
}

static bool is_due(emit *t, const tl_binding *b, bool before_grid) {
    if (b->axes.count || !b->symbol || emit_name_find(t, b->symbol)) return false;
    return !before_grid || !emit_depends_on_grid(t, b->value);
}

static void emit_bindings(emit *t, const tl_statement *s, bool before_grid) {
    bool any = false;
    for (int i = 0; i < s->let.count; i++) any |= is_due(t, &s->let.items[i], before_grid);
    if (!any) return;
    const tl_statement *around = t->about;
    emit_header(t, s);
    for (int i = 0; i < s->let.count; i++) {
        if (is_due(t, &s->let.items[i], before_grid)) emit_binding(t, &s->let.items[i]);
    }
    emit_about(t, around);
}

void emit_let(emit *t, const tl_statement *s) {
    emit_bindings(t, s, false);
}

/* The lets that an expression names and that are not there yet, those that they need before. */
static void bind_named(emit *t, const tl_expr *e, int depth) {
    if (!e || depth > TL_HEIGHT_MAX) return;
    const tl_symbol *symbol = e->kind == TL_NAME ? e->symbol : NULL;
    bool is_let = symbol && symbol->kind == TL_SYMBOL_CONSTANT && !emit_name_find(t, symbol);
    if (is_let) bind_named(t, symbol->value, depth + 1);
    for (const tl_statement *s = t->kernel->body.first; is_let && s; s = s->next) {
        for (int i = 0; s->kind == TL_LET && i < s->let.count; i++) {
            if (s->let.items[i].symbol != symbol) continue;
            const tl_statement *around = t->about;
            emit_header(t, s);
            emit_binding(t, &s->let.items[i]);
            emit_about(t, around);
        }
    }
    bind_named(t, e->left, depth + 1);
    bind_named(t, e->right, depth + 1);
    for (int i = 0; i < e->item_count; i++) bind_named(t, e->items[i], depth + 1);
}

void emit_lets_of(emit *t, const tl_expr *e) {
    bind_named(t, e, 0);
}

void emit_tile_lets(emit *t) {
    for (const tl_statement *s = t->kernel->body.first; s; s = s->next) {
        for (int i = 0; s->kind == TL_LET && i < s->let.count; i++) {
            const tl_binding *b = &s->let.items[i];
            if (b->axes.count || !b->symbol || !emit_depends_on_grid(t, b->value)) continue;
            const tl_statement *around = emit_about(t, s);
            emit_binding(t, b);
            emit_about(t, around);
        }
    }
}

void emit_prologue(emit *t) {
    emit_wait_for_grids(t, true);
    emit_declare(t, STR("lane"), "const int lane = (int)threadIdx.x & 31;");
    /* Roles branch by it, which wants a register that all lanes share; else it is made anew where
     * registers are scarce (docs/registers.md).
     */
    emit_declare(t, STR("warp"), "const int warp = %s;",
                 t->is_async ? "ftl_warp_index()" : "(int)threadIdx.x >> 5");
    if (t->is_async) {
        emit_declare(t, STR("block_warp"), "const int block_warp = ftl_warp_index();");
        for (const tl_statement *s = t->kernel->body.first; s; s = s->next) {
            if (s->kind == TL_LET) emit_bindings(t, s, true);
        }
        emit_declare_shared(t);
        walk_define_tiles(t);
        return;
    }
    for (const tl_statement *s = t->kernel->body.first; s && s != t->model->grid; s = s->next) {
        if (s->kind == TL_LET) emit_bindings(t, s, true);
    }
    emit_grid(t);
    for (const tl_statement *s = t->kernel->body.first; s; s = s->next) {
        if (s->kind == TL_LET) emit_bindings(t, s, false);
    }
    emit_declare_shared(t);
}
