/* Tiles in shared memory: how each is laid out, and where it lies. */
#include "translate/emit.h"

void emit_make_store(emit *t, const tl_statement *s, emit_tile *tile) {
    int bits = tl_type_bits(tile->type);
    if (tile->is_vector) {
        tile->store = (shared_layout){.rows = tile->rows,
                                      .columns = 1,
                                      .element_bits = bits,
                                      .pitch_bytes = bits / 8,
                                      .swizzle_bytes = SHARED_UNIT_BYTES};
    } else {
        layout_fit fit =
            tile->bound->in_panels
                ? shared_make_panels(tile->rows, tile->columns, bits, s->allocate.swizzle_bytes,
                                     s->allocate.by_columns, &tile->store)
                : shared_make(tile->rows, tile->columns, bits, s->allocate.swizzle_bytes,
                              s->allocate.by_columns, 0, &tile->store);
        if (emit_misfits(t, s->range, tile, fit)) return;
    }
    if (tile->bound->uses_mbarrier && !gpu_has(t->gpu, GPU_FEATURE_mbarrier)) {
        emit_unsupported(t, s->range, tile->name, "this GPU has no mbarrier");
    }
}

void emit_place_shared(emit *t) {
    for (int i = 0; i < t->tiles.count; i++) {
        emit_tile *tile = t->tiles.items[i];
        if (tile->space != TL_SHARED) continue;
        const check_shared *place = check_shared_of(t->facts, tile->symbol);
        tile->offset_bytes = place->offset_bytes, tile->slot_bytes = place->slot_bytes;
        tile->full_offset = place->full_offset, tile->empty_offset = place->empty_offset;
    }
    t->shared_bytes = t->facts->shared_bytes;
    if (t->is_async) emit_plan_walk(t, &t->shared_bytes);
}

/* --- by name ---------------------------------------------------------------------------------- */

/* Each ends in a word of its own, so that no two are alike whatever tiles are called. */
static const char *const fact_words[] = {[FACT_TILE] = "tile",
                                         [FACT_SLOT] = "slot",
                                         [FACT_BYTES] = "bytes",
                                         [FACT_FULL] = "full",
                                         [FACT_EMPTY] = "empty"};

str emit_fact_of(emit *t, const emit_tile *tile, emit_fact fact) {
    const emit_tile *owner = tile;
    while (fact != FACT_TILE && fact != FACT_BYTES && owner->part_of) owner = owner->part_of;
    return emit_format(t, "at::%.*s_%s", STR_ARGS(owner->symbol->name), fact_words[fact]);
}

str emit_slot_place(emit *t, const emit_tile *tile, int slot) {
    str first = emit_fact_of(t, tile, FACT_TILE);
    if (!slot) return first;
    str step = emit_fact_of(t, tile, FACT_SLOT);
    if (slot == 1) return emit_format(t, "(%.*s + %.*s)", STR_ARGS(first), STR_ARGS(step));
    return emit_format(t, "(%.*s + %d * %.*s)", STR_ARGS(first), slot, STR_ARGS(step));
}

str emit_slot_step(emit *t, const emit_tile *tile, int divisor) {
    str step = emit_fact_of(t, tile, FACT_SLOT);
    return divisor == 1 ? step : emit_format(t, "(%.*s / %d)", STR_ARGS(step), divisor);
}

str emit_other_slot(emit *t, const emit_tile *tile, str variable) {
    str first = emit_fact_of(t, tile, FACT_TILE), step = emit_fact_of(t, tile, FACT_SLOT);
    return emit_format(t, "2 * shared + (2 * %.*s + %.*s) - %.*s", STR_ARGS(first), STR_ARGS(step),
                       STR_ARGS(variable));
}

static long long fact_value(const emit_tile *tile, emit_fact fact) {
    switch (fact) {
    case FACT_TILE: return tile->offset_bytes;
    case FACT_SLOT: return tile->slot_bytes;
    case FACT_BYTES: return shared_bytes(&tile->store);
    case FACT_FULL: return tile->full_offset;
    default: return tile->empty_offset;
    }
}

static void tile_facts(emit *t, const emit_tile *tile, str kernel_text, text_buffer *out) {
    str line = {0};
    for (int fact = FACT_TILE; fact <= FACT_EMPTY; fact++) {
        str name = emit_format(t, "%.*s_%s", STR_ARGS(tile->symbol->name), fact_words[fact]);
        if (!emit_mentions(kernel_text, emit_format(t, "at::%.*s", STR_ARGS(name)))) continue;
        line = emit_format(t, "%.*s%s%.*s = %lld", STR_ARGS(line), line.length ? ", " : "",
                           STR_ARGS(name), fact_value(tile, (emit_fact)fact));
    }
    if (!line.length) return;
    text_format(out, "    %.*s,", STR_ARGS(line));
    if (tile->stages > 1) text_format(out, " // %d slots", tile->stages);
    text_add_z(out, "\n");
}

void emit_shared_facts(emit *t, str kernel_text, text_buffer *out) {
    if (!emit_mentions(kernel_text, STR("at"))) return;
    text_format(out,
                "// Shared memory, in bytes from its beginning: tiles, their slots, and the "
                "barriers of slots, 8 bytes each.\nnamespace %s_shared { enum : unsigned {\n",
                t->plan->entry);
    for (int i = 0; i < t->tiles.count; i++) {
        if (t->tiles.items[i]->space == TL_SHARED)
            tile_facts(t, t->tiles.items[i], kernel_text, out);
    }
    for (int i = 0; i < t->parts.count; i++) tile_facts(t, t->parts.items[i], kernel_text, out);
    emit_walk_facts(t, kernel_text, out);
    text_format(out, "}; } // namespace %s_shared\n\n", t->plan->entry);
}

void emit_declare_shared(emit *t) {
    emit_declare(t, STR("at"), "namespace at = %s_shared;", t->plan->entry);
    emit_declare(t, STR("shared"), "const unsigned shared = ftl_shared_base();");
    emit_declare_addresses(t);
}
