/* Tiles in shared memory: how each is laid out, and where it lies. */
#include "translate/emit.h"

enum { SHARED_ALIGNMENT = 128, MBARRIER_BYTES = 8 };

/* TMA and asynchronous products know lines of at most the swizzle's bytes. */
static bool is_in_panels(emit *t, const emit_tile *tile, int swizzle_bytes) {
    if (swizzle_bytes <= SHARED_UNIT_BYTES) return false;
    for (tl_statement *s = t->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (s->kind == TL_COPY && str_is(s->copy.atom, "tma")) {
            tl_end from = tl_copy_source(s), to = tl_copy_target(s);
            if (from.space == TL_SHARED && emit_is_in(from.symbol, tile)) return true;
            if (to.space == TL_SHARED && emit_is_in(to.symbol, tile)) return true;
        }
        if (s->kind != TL_COMPUTE || !s->compute.is_async) continue;
        for (int i = 0; i < s->compute.operand_count; i++) {
            const tl_expr *e = s->compute.operands[i].value;
            bool is_it = e->kind == TL_NAME && e->space != TL_REGISTER;
            if (is_it && emit_is_in(e->symbol, tile)) return true;
        }
    }
    return false;
}

void emit_make_store(emit *t, const tl_statement *s, emit_tile *tile) {
    int bytes = tl_type_bytes(tile->type);
    if (tile->is_vector) {
        tile->store = (shared_layout){.rows = tile->rows,
                                      .columns = 1,
                                      .element_bytes = bytes,
                                      .pitch_bytes = bytes,
                                      .swizzle_bytes = SHARED_UNIT_BYTES};
        tile->slot_bytes = (int64_t)tile->rows * bytes;
    } else {
        layout_fit fit =
            is_in_panels(t, tile, s->allocate.swizzle_bytes)
                ? shared_make_panels(tile->rows, tile->columns, bytes, s->allocate.swizzle_bytes,
                                     s->allocate.by_columns, &tile->store)
                : shared_make(tile->rows, tile->columns, bytes, s->allocate.swizzle_bytes,
                              s->allocate.by_columns, 0, &tile->store);
        if (emit_misfits(t, s->range, tile, fit)) return;
        tile->slot_bytes = shared_bytes(&tile->store);
    }
    tile->slot_bytes =
        (tile->slot_bytes + SHARED_ALIGNMENT - 1) / SHARED_ALIGNMENT * SHARED_ALIGNMENT;
    if (s->allocate.is_permuted) {
        emit_unsupported(t, s->range, tile->name, "8-bit and permuted tiles have no atoms yet");
    }
    tile->by_mbarrier = s->allocate.channel.length > 0;
    if (tile->by_mbarrier && !gpu_has(t->gpu, GPU_FEATURE_mbarrier)) {
        emit_unsupported(t, s->range, tile->name, "this GPU has no mbarrier");
    }
}

static emit_tile *root_of(emit_tile *tile) {
    while (tile->base) tile = tile->base;
    return tile;
}

/* A swizzle of N bytes repeats every 8 N, and TMA and descriptors go by the address. */
static int64_t alignment_of(const emit_tile *tile) {
    return tile->store.panels ? 8 * tile->store.swizzle_bytes : SHARED_ALIGNMENT;
}

static int64_t round_up(int64_t value, int64_t unit) {
    return (value + unit - 1) / unit * unit;
}

void emit_place_shared(emit *t) {
    int64_t offset = 0;
    for (int i = 0; i < t->tiles.count; i++) {
        emit_tile *root = t->tiles.items[i];
        if (root->space != TL_SHARED || root->base) continue;
        int64_t bytes = 0;
        for (int j = 0; j < t->tiles.count; j++) {
            emit_tile *tile = t->tiles.items[j];
            if (tile->space == TL_SHARED && root_of(tile) == root)
                offset = round_up(offset, alignment_of(tile));
        }
        for (int j = 0; j < t->tiles.count; j++) {
            emit_tile *tile = t->tiles.items[j];
            if (tile->space != TL_SHARED || root_of(tile) != root) continue;
            tile->offset_bytes = offset;
            if (tile->slot_bytes * tile->stages > bytes) bytes = tile->slot_bytes * tile->stages;
        }
        offset += bytes;
    }
    for (int i = 0; i < t->tiles.count; i++) {
        emit_tile *tile = t->tiles.items[i];
        if (tile->space != TL_SHARED || !(tile->by_mbarrier || tile->frees)) continue;
        offset = round_up(offset, MBARRIER_BYTES);
        tile->full_offset = offset;
        tile->empty_offset = offset + tile->stages * MBARRIER_BYTES;
        offset += 2 * tile->stages * MBARRIER_BYTES;
    }
    if (t->is_async) emit_plan_walk(t, &offset);
    t->shared_bytes = offset;
}

void emit_declare_shared(emit *t) {
    emit_declare(t, STR("shared"), "const unsigned shared = ftl_shared_base();");
    for (int i = 0; t->is_async && i < t->parts.count; i++) {
        const emit_tile *part = t->parts.items[i];
        emit_declare(t, part->name, "%sunsigned %.*s = shared + %lld;",
                     part->stages == 1 ? "const " : "", STR_ARGS(part->name),
                     (long long)part->offset_bytes);
    }
    for (int i = 0; i < t->tiles.count; i++) {
        emit_tile *tile = t->tiles.items[i];
        if (tile->space != TL_SHARED) continue;
        if (t->is_async) {
            emit_declare(t, tile->name, "%sunsigned %.*s = shared + %lld;",
                         tile->stages == 1 ? "const " : "", STR_ARGS(tile->name),
                         (long long)tile->offset_bytes);
            continue;
        }
        tile->has_fill_slot = tile->stages > 1 && emit_fills_vary(t, tile);
        tile->is_counted = tile->by_mbarrier && emit_is_counted(t, tile);
        str fill = emit_format(t, "%.*s_fill", STR_ARGS(tile->name));
        if (tile->stages == 1) {
            emit_declare(t, tile->name, "const unsigned %.*s = shared + %lld;",
                         STR_ARGS(tile->name), (long long)tile->offset_bytes);
        } else {
            int64_t last = tile->offset_bytes + (tile->stages - 1) * tile->slot_bytes;
            emit_declare(t, tile->name,
                         "unsigned %.*s = shared + %lld; // slot of the generation held%s",
                         STR_ARGS(tile->name), (long long)last + tile->is_counted,
                         tile->is_counted ? "; bit 0: the parity of its barrier" : "");
            if (tile->has_fill_slot)
                emit_declare(t, fill, "unsigned %.*s = shared + %lld; // slot of the next copy",
                             STR_ARGS(fill), (long long)tile->offset_bytes);
        }
        if (tile->by_mbarrier) emit_declare_ring(t, tile);
    }
}
