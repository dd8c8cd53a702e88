/* Launches of a plan on the emulator: a buffer for each tensor, parameters as the GPU would get
 * them. */
#include "base/needs.h"
#include "compile/compile.h"
#include "emulate/emulate.h"
#include "flashtl/execute.h"
#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

enum { MODULE_BYTES = 256 << 20 };
static const size_t RUN_BYTES = (size_t)2 << 30;

struct ftl_emulator {
    arena memory; /* of the module and of copies */
    ftl_plan *plan;
    str name;
    emulate_module *module;
    uint8_t *variables; /* of the module: what a launch leaves the next one finds */
};

typedef struct open_arguments {
    ftl_emulator *emulator;
    const char *ptx;
    size_t length;
    const char *name;
} open_arguments;

static ftl_status read_ptx(ftl_context *context, void *arguments) {
    const open_arguments *a = arguments;
    ftl_emulator *e = a->emulator;
    jmp_buf *before = e->memory.on_exhausted;
    e->memory.on_exhausted = context->memory.on_exhausted; /* both end in the same place */
    e->name = str_copy(&e->memory, str_from(a->name));
    str ptx = str_copy(&e->memory, (str){a->ptx, a->length});
    diag_init(&context->diags, &context->memory, str_copy(&context->memory, e->name),
              str_copy(&context->memory, ptx));
    e->module = emulate_read(&e->memory, ptx, &context->diags);
    if (e->module) e->variables = emulate_variables(e->module, &e->memory);
    e->memory.on_exhausted = before;
    ftl_status status = compile_verdict(context);
    if (status || e->module) return status;
    return ftl_context_fail(context, FTL_REJECTED, "the PTX cannot be read");
}

/* A plan is copied by writing and reading it. */
static ftl_plan *copy_plan(const ftl_plan *plan) {
    char *json = ftl_plan_write(plan), why[FTL_WHY_BYTES];
    ftl_plan *copy = json ? ftl_plan_read(json, strlen(json), why) : NULL;
    free(json);
    return copy;
}

ftl_status ftl_emulator_open(ftl_context *context, const ftl_plan *plan, const char *ptx,
                             size_t length, const char *name, ftl_emulator **out) {
    NEEDS_RESULT(out);
    if (!plan || !ptx) {
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT, "the plan or the PTX is missing");
    }
    char why[FTL_WHY_BYTES];
    if (!ftl_plan_check(plan, why))
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT, "%s", why);
    ftl_emulator *e = calloc(1, sizeof *e);
    if (!e) return ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
    arena_init(&e->memory, MODULE_BYTES);
    e->plan = copy_plan(plan);
    open_arguments a = {e, ptx, length, name ? name : "kernel.ptx"};
    ftl_status status = e->plan ? compile_guarded(context, read_ptx, &a)
                                : ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
    if (status) ftl_emulator_close(e);
    else *out = e;
    return status;
}

void ftl_emulator_close(ftl_emulator *emulator) {
    if (!emulator) return;
    arena_done(&emulator->memory);
    ftl_plan_free(emulator->plan);
    free(emulator);
}

/* --- a launch --------------------------------------------------------------------------------- */

typedef struct emulate_arguments {
    ftl_emulator *emulator;
    const ftl_arguments *arguments;
    const ftl_emulation_options *options;
    ftl_emulation *out;
    ftl_launch launch;
    arena memory; /* of the machine */
} emulate_arguments;

static const ftl_tensor *find_tensor(const ftl_arguments *arguments, const char *name) {
    for (int32_t i = 0; i < arguments->tensor_count; i++) {
        if (strcmp(arguments->tensors[i].name, name) == 0) return &arguments->tensors[i];
    }
    return NULL;
}

/* The bytes from the lowest to the highest element; 'offset' of the element at index 0. Outputs
 * without gaps can be asked to be written whole.
 */
static emulate_buffer buffer_of(const ftl_plan_tensor *of, const ftl_tensor *t, int64_t *offset) {
    int64_t below = 0, above = 1, bits = (int64_t)ftl_type_bits(of->type), count = 1;
    for (int32_t i = 0; i < t->axis_count; i++) {
        count *= t->extents[i];
        int64_t reach = (t->extents[i] - 1) * t->strides[i];
        if (t->extents[i] > 0 && reach < 0) below += reach;
        else if (t->extents[i] > 0) above += reach;
    }
    below = (below * bits - 7) / 8, above = (above * bits + 7) / 8;
    *offset = -below;
    bool is_output = of->role == FTL_OUTPUT;
    char *first = (char *)(uintptr_t)t->address + below;
    return (emulate_buffer){.name = str_from(of->name),
                            .data = count ? first : NULL,
                            .bytes = count ? (size_t)(above - below) : 0,
                            .readable = true,
                            .writable = of->role != FTL_INPUT,
                            .output = is_output,
                            .whole = is_output && !of->is_sum && !of->is_kept &&
                                     count * bits == 8 * (above - below),
                            .once = is_output,
                            .element_bytes = (uint32_t)ftl_type_bytes(of->type)};
}

static emulate_tile *tiles_of(const ftl_plan *plan, arena *memory) {
    emulate_tile *tiles = arena_array(memory, emulate_tile, plan->tile_count + 1);
    for (int32_t i = 0; i < plan->tile_count; i++) {
        const ftl_plan_tile *t = &plan->tiles[i];
        tiles[i] = (emulate_tile){.name = str_from(t->name),
                                  .offset = (uint32_t)t->offset_bytes,
                                  .rows = (uint32_t)t->rows,
                                  .row_bytes = (uint32_t)t->row_bytes,
                                  .stages = (uint32_t)t->stages,
                                  .stage_bytes = (uint32_t)(t->rows * t->row_bytes)};
    }
    return tiles;
}

static char *take(text_buffer *text) {
    text_add_z(text, "");
    return text->data ? text->data : calloc(1, 1);
}

static void hand_over(const emulate_arguments *a, const emulate_result *result) {
    ftl_emulation *out = a->out;
    bool wants_statistics = a->options && a->options->wants_statistics;
    text_buffer findings, statistics, json;
    text_init(&findings, 16 << 20);
    text_init(&statistics, 16 << 20);
    text_init(&json, 64 << 20);
    emulate_render_text(result, a->emulator->name, &findings);
    if (wants_statistics) emulate_render_statistics(result, a->emulator->name, &statistics);
    if (wants_statistics) emulate_render_json(result, a->emulator->name, &json);
    out->finding_count = result->finding_count;
    out->findings = take(&findings);
    out->statistics = wants_statistics ? take(&statistics) : NULL;
    out->json = wants_statistics ? take(&json) : NULL;
    out->instructions = result->instructions, out->blocks = result->blocks_run;
    for (int i = 0; i < result->traffic_count; i++) {
        if (!str_is(result->traffic[i].space, "shared")) continue;
        out->wavefronts += result->traffic[i].wavefronts;
        out->least_wavefronts += result->traffic[i].least_wavefronts;
    }
}

/* The machine's own encoding of the tensor maps goes into the parameters. NULL, or what is wrong.
 */
static const char *write_maps(ftl_launch *launch, const emulate_pointer *pointers, int zeros) {
    for (int32_t i = 0; i < launch->map_count; i++) {
        const ftl_tensor_map *m = &launch->maps[i];
        emulate_tensor_map map = {.buffer = m->is_empty ? zeros : m->tensor,
                                  .byte_offset = m->is_empty ? 0 : pointers[m->tensor].byte_offset,
                                  .element_bytes = (uint32_t)ftl_type_bytes(m->type),
                                  .is_f32 = m->type == FTL_F32,
                                  .rank = (uint32_t)m->rank,
                                  .swizzle_bytes = (uint32_t)m->swizzle_bytes};
        for (int32_t k = 0; k < m->rank; k++) {
            map.extents[k] = m->extents[k], map.box[k] = m->box[k], map.element_strides[k] = 1;
            if (k) map.stride_bytes[k - 1] = m->stride_bytes[k - 1];
        }
        const char *why = emulate_tensor_map_encode(&map, launch->parameters + m->offset);
        if (why) return why;
    }
    return NULL;
}

/* Blocks that walk tiles: few enough that each walks more than twice around a ring of two slots; by
 * some seeds so many that their first tiles are of most indices of the grid, and some walk another.
 */
static uint32_t blocks_to_run(const ftl_plan *plan, const ftl_launch *launch, uint64_t seed) {
    enum { TILES_A_BLOCK = 6, SEEDS = 4 };
    if (plan->grid_kind == FTL_GRID_PLAIN) return launch->grid;
    uint32_t tiles = launch->tiles, few = tiles / TILES_A_BLOCK + (tiles % TILES_A_BLOCK != 0);
    uint32_t blocks = seed % SEEDS == 1 ? tiles - tiles / 3 : few;
    return blocks < launch->grid ? blocks : launch->grid;
}

/* What a launch has in memory: tensors, counters of tiles, and zeros for maps of nothing. */
typedef struct memory_of_launch {
    emulate_buffer *buffers;
    emulate_pointer *pointers;
    int buffer_count, pointer_count;
    uint32_t counters[2];
    char zeros[16];
} memory_of_launch;

static void lay_out(memory_of_launch *l, emulate_arguments *a) {
    const ftl_plan *plan = a->emulator->plan;
    l->buffers = arena_array(&a->memory, emulate_buffer, plan->tensor_count + 2);
    l->pointers = arena_array(&a->memory, emulate_pointer, plan->tensor_count + 1);
    l->buffer_count = plan->tensor_count;
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        const ftl_plan_tensor *of = &plan->tensors[t];
        emulate_pointer *pointer = &l->pointers[t];
        pointer->buffer = t, pointer->parameter_offset = (uint32_t)of->pointer_offset;
        l->buffers[t] = buffer_of(of, find_tensor(a->arguments, of->name), &pointer->byte_offset);
    }
    if (plan->grid_kind == FTL_GRID_DYNAMIC) {
        l->pointers[l->buffer_count] = (emulate_pointer){
            .buffer = l->buffer_count, .parameter_offset = (uint32_t)plan->counters_offset};
        l->buffers[l->buffer_count++] = (emulate_buffer){.name = STR("tile counters"),
                                                         .data = l->counters,
                                                         .bytes = sizeof l->counters,
                                                         .readable = true,
                                                         .writable = true,
                                                         .element_bytes = sizeof *l->counters};
    }
    l->pointer_count = l->buffer_count;
    if (a->launch.map_count)
        l->buffers[l->buffer_count++] = (emulate_buffer){.name = STR("zeros"),
                                                         .data = l->zeros,
                                                         .bytes = sizeof l->zeros,
                                                         .readable = true,
                                                         .element_bytes = 2};
}

static ftl_status emulate(ftl_context *context, void *arguments) {
    emulate_arguments *a = arguments;
    const ftl_plan *plan = a->emulator->plan;
    a->memory.on_exhausted = context->memory.on_exhausted;
    memory_of_launch l = {0};
    lay_out(&l, a);
    uint64_t seed = a->options ? a->options->seed : 0;
    const char *why = write_maps(&a->launch, l.pointers, l.buffer_count - 1);
    if (why) return ftl_context_fail(context, FTL_INVALID_ARGUMENT, "%s", why);
    emulate_launch launch = {.entry = str_from(plan->entry),
                             .grid = {blocks_to_run(plan, &a->launch, seed), 1, 1},
                             .block = {(uint32_t)plan->threads, 1, 1},
                             .dynamic_shared_bytes = (uint32_t)plan->shared_bytes,
                             .parameters = a->launch.parameters,
                             .parameter_bytes = (uint32_t)a->launch.parameter_bytes,
                             .buffers = l.buffers,
                             .buffer_count = l.buffer_count,
                             .pointers = l.pointers,
                             .pointer_count = l.pointer_count,
                             .tiles = tiles_of(plan, &a->memory),
                             .tile_count = plan->tile_count,
                             .variables = a->emulator->variables,
                             .is_early = plan->is_early};
    if (a->options) {
        launch.seed = a->options->seed;
        launch.instruction_budget = a->options->instruction_budget;
        launch.go_on = a->options->go_on;
    }
    emulate_result result = {0};
    emulate_outcome outcome = emulate_run(a->emulator->module, &launch, &a->memory, &result);
    if (outcome == EMULATE_REFUSED) {
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT, "%.*s", STR_ARGS(result.refusal));
    }
    hand_over(a, &result);
    if (outcome == EMULATE_CLEAN && (l.counters[0] || l.counters[1])) {
        return ftl_context_fail(context, FTL_CHECK_FAILED,
                                "kernel '%s' leaves its tile counters at %u and %u, not at 0",
                                plan->kernel, l.counters[0], l.counters[1]);
    }
    if (outcome == EMULATE_CLEAN) return FTL_OK;
    return ftl_context_fail(context, FTL_CHECK_FAILED,
                            "the emulator found %d faults in kernel '%s'", result.finding_count,
                            plan->kernel);
}

ftl_status ftl_emulate(ftl_context *context, ftl_emulator *emulator, const ftl_arguments *arguments,
                       const ftl_emulation_options *options, ftl_emulation *out) {
    NEEDS(context);
    NEEDS(out);
    *out = (ftl_emulation){0};
    NEEDS(emulator);
    NEEDS(arguments);
    if (options && options->struct_bytes < sizeof *options) {
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "the options were not begun with FTL_EMULATION_OPTIONS_INIT");
    }
    emulate_arguments *a = calloc(1, sizeof *a);
    if (!a) return ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
    *a = (emulate_arguments){
        .emulator = emulator, .arguments = arguments, .options = options, .out = out};
    char why[FTL_WHY_BYTES];
    ftl_status status;
    if (!plan_resolve_checked(emulator->plan, arguments, NULL, &a->launch, why)) {
        status = ftl_context_fail(context, FTL_INVALID_ARGUMENT, "%s", why);
    } else if (!a->launch.grid) {
        out->findings = calloc(1, 1);
        status = FTL_OK;
    } else {
        arena_init(&a->memory, RUN_BYTES);
        status = compile_guarded(context, emulate, a);
        arena_done(&a->memory);
    }
    free(a);
    return status;
}

void ftl_emulation_done(ftl_emulation *emulation) {
    if (!emulation) return;
    free(emulation->findings);
    free(emulation->statistics);
    free(emulation->json);
    *emulation = (ftl_emulation){0};
}
