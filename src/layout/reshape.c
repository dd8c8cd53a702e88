#include "layout/reshape.h"

bool reshape_source(const layout *from, const layout *to, layout_holder target,
                    layout_holder *source) {
    layout_point place = layout_place(to, target.warp, target.lane, target.element);
    return layout_find(from, place, target, source);
}

static bool same_but_partial(const layout *from, const layout *to) {
    layout whole = *from;
    whole.partial = to->partial;
    return layout_equal(&whole, to);
}

static bool same_threads(const layout *from, const layout *to) {
    for (int warp = 0; warp < layout_warps(to); warp++) {
        for (int lane = 0; lane < LAYOUT_LANES; lane++) {
            layout_point a = layout_own(from, warp, lane), b = layout_own(to, warp, lane);
            if (a.row != b.row || a.column != b.column) return false;
        }
    }
    return true;
}

/* Threads begin at the same places: then one thread's steps speak for all. */
static bool rename_registers(const layout *from, const layout *to, int *source) {
    for (int element = 0; element < layout_elements(to); element++) {
        layout_holder s;
        if (!layout_find(from, layout_step(to, element), (layout_holder){0}, &s)) return false;
        if (s.warp != 0 || s.lane != 0) return false;
        source[element] = s.element;
    }
    return true;
}

static reshape_kind renaming_kind(const int *source, int elements) {
    for (int element = 0; element < elements; element++) {
        if (source[element] != element) return RESHAPE_REGISTERS;
    }
    return RESHAPE_FREE;
}

/* What the whole map takes, looking at every place once. 'source' gets the common renaming. */
static reshape_kind classify(const layout *from, const layout *to, int *source) {
    int elements = layout_elements(to);
    reshape_kind kind = RESHAPE_FREE;
    for (int element = 0; element < elements; element++) source[element] = -1;
    for (int warp = 0; warp < layout_warps(to); warp++) {
        for (int lane = 0; lane < LAYOUT_LANES; lane++) {
            for (int element = 0; element < elements; element++) {
                layout_holder target = {warp, lane, element}, s;
                if (!reshape_source(from, to, target, &s)) continue;
                if (s.warp != warp) return RESHAPE_SHARED;
                if (source[element] < 0) source[element] = s.element;
                if (s.lane != lane || s.element != source[element]) {
                    kind = RESHAPE_LANES;
                } else if (kind == RESHAPE_FREE && s.element != element) {
                    kind = RESHAPE_REGISTERS;
                }
            }
        }
    }
    return kind;
}

reshape reshape_plan(arena *memory, const layout *from, const layout *to, int element_bits) {
    reshape plan = {.kind = RESHAPE_NONE, .elements = layout_elements(to)};
    if (from->rows != to->rows || from->columns != to->columns ||
        layout_warps(from) != layout_warps(to) || (to->partial && !from->partial)) {
        return plan;
    }
    if (from->partial && !to->partial) {
        if (!same_but_partial(from, to) || layout_warp_copies(from) > 1) return plan;
        plan.kind = RESHAPE_SUM;
        plan.mask_count = layout_lane_copies(from, plan.masks);
        plan.shuffles = plan.mask_count * plan.elements;
        return plan;
    }
    /* Summands may not change lanes that hold the others of their sum: only the same layout. */
    if (from->partial && !layout_equal(from, to)) return plan;
    plan.source = arena_array(memory, int, plan.elements);
    if (same_threads(from, to) && rename_registers(from, to, plan.source)) {
        plan.kind = renaming_kind(plan.source, plan.elements);
    } else {
        plan.kind = classify(from, to, plan.source);
    }
    if (plan.kind == RESHAPE_FREE || plan.kind == RESHAPE_REGISTERS) return plan;
    plan.source = NULL;
    if (plan.kind == RESHAPE_LANES) plan.shuffles = layout_registers(to, element_bits);
    if (plan.kind == RESHAPE_SHARED) plan.shared_bytes = to->rows * to->columns * element_bits / 8;
    return plan;
}
