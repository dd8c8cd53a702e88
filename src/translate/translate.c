/* The translation of one kernel, from top to bottom. */
#include "translate/emit.h"

#include <limits.h>

/* --- synchronisation: printed as the checks found it (decision 007) --------------------------- */

static check_sync sync_of(emit *t, const tl_statement *s) {
    const check_sync *found = t->facts ? check_sync_of(t->facts, s) : NULL;
    return found ? *found : (check_sync){.statement = s, .groups_pending = -1};
}

static emit_tile *shared_of(emit *t, const tl_expr *name) {
    emit_tile *tile = emit_tile_of(t, name);
    return tile && tile->space == TL_SHARED ? tile : NULL;
}

/* The Waits of kernels of asynchronous units; false where it is none that is known. */
static bool emit_async_wait(emit *t, const tl_statement *s) {
    emit_tile *tile = emit_tile_of(t, s->sync.what);
    if (emit_is_turn(t, s->sync.what)) {
        emit_wait_turn(t, s);
    } else if (s->sync.what->space == TL_GLOBAL) {
        emit_wait_stores(t, s);
    } else if (tile && tile->space == TL_SHARED) {
        emit_channel_wait(t, s, tile);
    } else if (tile) {
        emit_wait_products(t, s, tile);
    } else {
        return false;
    }
    return true;
}

static void emit_wait(emit *t, const tl_statement *s) {
    emit_tile *tile = shared_of(t, s->sync.what);
    emit_header(t, s);
    if (t->is_async && emit_async_wait(t, s)) return;
    if (!tile) {
        emit_unsupported(t, s->range, STR("this Wait"),
                         "only shared tiles are waited for on this GPU's class");
        return;
    }
    if (tile->part_of) {
        emit_unsupported(t, s->range, STR("this Wait"),
                         "on this GPU's class a part of a tile is read after the Wait for the "
                         "whole of it");
        return;
    }
    emit_channel_wait(t, s, tile);
}

static void emit_release(emit *t, const tl_statement *s) {
    emit_tile *tile = shared_of(t, s->sync.what);
    bool is_turn = emit_is_turn(t, s->sync.what);
    if (!tile && !is_turn) {
        emit_unsupported(t, s->range, STR("this Release"),
                         "only shared tiles are released on this GPU's class");
        return;
    }
    emit_header(t, s);
    if (is_turn) emit_release_turn(t, s);
    else emit_channel_release(t, s, tile);
}

void emit_barrier_before(emit *t, const tl_statement *s) {
    emit_tile *to =
        s->copy.to == TL_SHARED ? emit_tile_in(t, tl_copy_target(s).symbol, TL_SHARED) : NULL;
    if (to) emit_channel_acquire(t, s, to);
    else if (!t->is_async && sync_of(t, s).barrier_before) emit_meet_block(t);
}

/* --- control ---------------------------------------------------------------------------------- */

/* Registers of a thread that a round loads, where it does nothing but load registers and work on
 * them; 0: it does more.
 */
static int loaded_registers(emit *t, const tl_statement *loop) {
    int registers = 0;
    for (const tl_statement *s = loop->loop.body.first; s; s = s->next) {
        bool is_load = s->kind == TL_COPY && s->copy.from == TL_GLOBAL && s->copy.to == TL_REGISTER;
        bool is_elements = s->kind == TL_COMPUTE &&
                           tl_operation_shape(s->compute.operation) == TL_SHAPE_ELEMENTWISE;
        if (!is_load && !is_elements) return 0;
        if (!is_load) continue;
        const emit_tile *tile = emit_tile_in(t, tl_copy_target(s).symbol, TL_REGISTER);
        if (!tile) return 0;
        const emit_shape *shape = &tile->shape;
        if (shape->part == PART_ROWS) registers += shape->down * (shape->is_lines ? 1 : 2);
        else registers += shape->down * shape->across * shape->elements;
    }
    return registers;
}

/* The loads of several rounds are on their way together, where each round waits for little: so many
 * in a loop that has no fewer left, and fewer in others for the rest.
 */
static int rounds_at_once(emit *t, const tl_statement *loop) {
    bool is_alone = emit_has_lone_warp(t); /* and has more registers than others */
    int most = is_alone ? 160 : 128, rounds = is_alone ? 32 : 16;
    int registers = t->is_async ? 0 : loaded_registers(t, loop);
    while (rounds > 1 && rounds * registers > most) rounds /= 2;
    return registers > 0 ? rounds : 1;
}

static void emit_rounds(emit *t, const tl_statement *s, int unroll, str from, str to) {
    str name = emit_clean(t, s->loop.name);
    emit_text(t, "#pragma unroll %d", unroll);
    emit_open(t, "for (int %.*s = %.*s; %.*s < %.*s; %.*s++) {", STR_ARGS(name), STR_ARGS(from),
              STR_ARGS(name), STR_ARGS(to), STR_ARGS(name));
    emit_block(t, &s->loop.body);
    emit_close(t);
}

/* Declares where rounds end of which so many are at once. */
static str declare_whole(emit *t, const tl_statement *s, emit_value from, emit_value to,
                         int rounds) {
    str name = emit_clean(t, s->loop.name);
    emit_value count = emit_difference(t, to, from);
    count.text = emit_format(t, "%s%.*s / %d * %d", emit_is_wide(count) ? "(int)" : "",
                             STR_ARGS(emit_within(t, count, 13)), rounds, rounds);
    count.precedence = 13, count.low = 0, count.high = INT_MAX / 2;
    int number = ++t->loops_by_rounds; /* loops of one block may have the same name */
    str whole = number > 1 ? emit_format(t, "%.*s_whole_%d", STR_ARGS(name), number)
                           : emit_format(t, "%.*s_whole", STR_ARGS(name));
    emit_text(t, "const int %.*s = %.*s;", STR_ARGS(whole),
              STR_ARGS(emit_sum(t, from, count).text));
    return whole;
}

/* As many rounds at once as there may be, then half as many for those that are left, down to eight.
 */
static void emit_all_rounds(emit *t, const tl_statement *s, emit_value from, emit_value to, str end,
                            int rounds) {
    enum { FEW = 8 };
    str begin = from.text;
    while (rounds > 1) {
        str whole = declare_whole(t, s, from, to, rounds);
        emit_rounds(t, s, rounds, begin, whole);
        begin = whole;
        rounds /= 2;
        if (rounds <= FEW) break;
    }
    emit_rounds(t, s, rounds, begin, end);
}

static void emit_for(emit *t, const tl_statement *s) {
    if (s->loop.is_grid_walk) {
        emit_open_walk(t, &s->loop.body);
        emit_tracked_walk(t, &s->loop.body);
        emit_close_walk(t);
        return;
    }
    emit_value from = emit_integer(t, s->loop.from, NULL), to = emit_integer(t, s->loop.to, NULL);
    str name = emit_clean(t, s->loop.name);
    int64_t high = to.high > INT_MAX ? INT_MAX : to.high;
    emit_header(t, s);
    emit_name_set(t, s->loop.symbol, name, from.low, high > from.low ? high - 1 : from.low);
    if (t->is_async) {
        const char *cast = emit_is_wide(to) ? "(int)" : "";
        str end = emit_format(t, "%s%.*s", cast, STR_ARGS(emit_within(t, to, 15)));
        emit_tracked_loop(t, &s->loop.body, name, from.text, end);
        return;
    }
    const char *cast = emit_is_wide(to) ? "(int)" : "";
    str end = emit_format(t, "%s%.*s", cast, STR_ARGS(emit_within(t, to, 12)));
    emit_all_rounds(t, s, from, to, end, rounds_at_once(t, s));
}

static void emit_if(emit *t, const tl_statement *s) {
    check_sync sync = sync_of(t, s);
    emit_header(t, s);
    emit_value v = emit_expression(t, s->branch.condition, NULL);
    emit_open(t, "if (%.*s) {", STR_ARGS(v.text));
    emit_block(t, &s->branch.body);
    if (sync.commits_otherwise > 0) {
        emit_else(t);
        for (int i = 0; i < sync.commits_otherwise; i++) emit_text(t, "ftl_cp_async_commit();");
    }
    emit_close(t);
}

static bool commits_otherwise(emit *t, const tl_statement *s) {
    return sync_of(t, s).commits_otherwise > 0;
}

static const tl_statement *emit_statement(emit *t, const tl_statement *s) {
    emit_yield(t, s);
    switch (s->kind) {
    case TL_ALLOCATE:
        if (s->allocate.space == TL_REGISTER) {
            emit_header(t, s);
            emit_declare_register(t, s);
        }
        break;
    case TL_LET: emit_let(t, s); break;
    case TL_COPY: emit_copy(t, s); break;
    case TL_COMPUTE:
        if (emit_is_elementwise(s)) return emit_elementwise_run(t, s);
        if (s->compute.operation == TL_GEMM && s->compute.is_async) emit_async_product(t, s);
        else if (s->compute.operation == TL_GEMM) emit_product_statement(t, s);
        else emit_unsupported(t, s->range, STR("Softmax"), "TL Code has its primitives only");
        break;
    case TL_RESHAPE: emit_reshape(t, s); break;
    case TL_WAIT: emit_wait(t, s); break;
    case TL_RELEASE: emit_release(t, s); break;
    case TL_FOR: emit_for(t, s); break;
    case TL_IF:
        if (t->is_async && !commits_otherwise(t, s)) return emit_branch(t, s);
        emit_if(t, s);
        break;
    case TL_HOLE:
        t->failed = true;
        diag_report(t->diags, DIAG_TRANSLATE_OPEN, s->range, STR("something here"),
                    STR("`...` stands for statements"));
        break;
    default: break;
    }
    return s->next;
}

void emit_block(emit *t, const tl_block *block) {
    t->coded = NULL;
    for (const tl_statement *s = block->first; s;) {
        const tl_statement *around = emit_about(t, s);
        if (t->is_async) emit_walk_before(t, s);
        const tl_statement *next = emit_statement(t, s);
        if (t->is_async) emit_note_passed(t, s, next);
        emit_about(t, around);
        s = next;
    }
    t->coded = NULL;
}

/* --- the kernel ------------------------------------------------------------------------------- */

/* Addresses, counters and fragments on their way. */
enum { REGISTERS_BESIDE_TILES = 24 };

/* How many blocks the register allocation leaves room for: as many as shared memory and threads
 * allow, but never so many that the tiles in registers would not fit.
 */
static int blocks_per_sm(const emit *t) {
    int needed = t->array_registers + REGISTERS_BESIDE_TILES, blocks = 1;
    if (t->is_async) return 1; /* roles say what they need */
    if (t->facts && t->facts->registers_estimate > needed) needed = t->facts->registers_estimate;
    if (needed > t->gpu->thread_registers) needed = (int)t->gpu->thread_registers;
    for (int n = 2; n <= 8; n++) {
        bool shared = gpu_shared_for(t->gpu, n) >= t->shared_bytes;
        bool registers = gpu_registers_for(t->gpu, t->threads, n) >= needed;
        if (shared && registers && n * t->threads <= t->gpu->threads) blocks = n;
    }
    return blocks;
}

static void write_file(emit *t, text_buffer *cuda) {
    text_buffer functions, body, rest;
    text_init_in(&functions, t->memory);
    text_init_in(&body, t->memory);
    text_init_in(&rest, t->memory);
    emit_functions(t, &functions);
    emit_write(t, &body);
    str kernel = text_str(&body);
    str code = emit_format(t, "%.*s%.*s", STR_ARGS(text_str(&functions)), STR_ARGS(kernel));
    const ftl_plan *plan = t->plan;
    text_format(cuda, "// %s for %s (%s), written by FlashTL from TL Code.\n", plan->kernel,
                plan->gpu, plan->target);
    bool is_plain = plan->grid_kind == FTL_GRID_PLAIN;
    text_format(cuda, "// Launch with %d threads a block, %d bytes of dynamic shared memory, %s\n",
                plan->threads, plan->shared_bytes,
                is_plain ? "one block for each tile of"
                         : "as many blocks as fit at once;\n// together they walk the tiles of");
    text_format(cuda, "// `");
    if (t->model->grid) tl_print_header(t->model->grid, cuda);
    text_format(cuda, "`.\n\n");
    text_format(cuda, "#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < %d\n",
                (int)t->gpu->capability * 10);
    text_format(cuda, "#error \"this kernel was made for %s and later GPUs\"\n#endif\n\n",
                plan->target);
    if (t->as_cute) emit_cute_headers(cuda);
    emit_device(t, code, cuda);
    if (t->as_cute) emit_cute_layouts(t, cuda);
    emit_shared_facts(t, kernel, &rest);
    emit_parameter_struct(t, &rest);
    text_add(&rest, text_str(&functions));
    emit_wrapped(text_str(&rest), cuda);
    emit_finished(t, kernel, cuda);
}

bool translate_kernel(const translate_request *request, arena *memory, diag_list *diags,
                      text_buffer *cuda, ftl_plan **plan) {
    emit *t = arena_new(memory, emit);
    *t = (emit){.memory = memory,
                .diags = diags,
                .kernel = request->kernel,
                .gpu = request->target,
                .facts = request->facts,
                .model = request->facts->model,
                .as_cute = request->as_cute,
                .spans = request->spans,
                .entry = request->entry};
    t->plan = arena_new(memory, ftl_plan);
    *plan = NULL;
    if (!emit_find_roles(t)) return false;
    emit_make_tiles(t);
    if (t->failed) return false;
    if (t->is_async && t->as_cute)
        return emit_unsupported(t, t->kernel->range, STR("CuTe"),
                                "its atoms serve kernels of warps only");
    emit_make_plan(t);
    int opening = t->lines.count;
    emit_text(t, "// until it is known how many blocks share a multiprocessor");
    emit_open(t, "%s(const __grid_constant__ %s_parameters args) {", t->plan->entry,
              t->plan->entry);
    emit_prologue(t);
    emit_init_channels(t);
    if (t->is_async) {
        emit_wait_for_grids(t, false);
        emit_roles(t);
    } else {
        emit_header(t, t->role);
        emit_block(t, &t->role->role.body);
    }
    emit_close(t);
    if (t->failed) return false;
    emit_finish_plan(t);
    t->blocks_per_sm = blocks_per_sm(t);
    t->lines.items[opening].text = emit_format(
        t, "extern \"C\" __global__ void __launch_bounds__(%d, %d)", t->threads, t->blocks_per_sm);
    t->plan->shared_bytes = (int32_t)t->shared_bytes;
    t->plan->blocks_per_sm = t->blocks_per_sm;
    if (t->plan->grid_kind != FTL_GRID_PLAIN)
        t->plan->resident_blocks = (int32_t)t->gpu->sms * t->blocks_per_sm;
    write_file(t, cuda);
    if (t->failed || cuda->failed) return false;
    *plan = t->plan;
    return true;
}
