/* Copy: which way. Every way between global memory, shared memory and registers. */
#include "translate/copy.h"

#include <string.h>

bool copy_refuse(emit *t, const tl_statement *s, const char *why) {
    return emit_unsupported(t, s->range, STR("this Copy"), "%s", why);
}

str copy_both(emit *t, str a, str b) {
    if (!a.length) return b;
    if (!b.length) return a;
    return emit_format(t, "%.*s && %.*s", STR_ARGS(a), STR_ARGS(b));
}

str copy_factor(emit *t, str stride) {
    bool simple = !emit_mentions(stride, STR("args")) || !memchr(stride.data, '+', stride.length);
    return simple ? stride : emit_format(t, "(%.*s)", STR_ARGS(stride));
}

bool copy_is_aligned(emit *t, const tl_statement *s, const emit_address *a, int elements) {
    if (a->origin_multiple % elements == 0) return true;
    return emit_unsupported(t, s->range, STR("this Copy"),
                            "its rows begin at multiples of %lld elements; moving %d at once needs "
                            "multiples of that",
                            (long long)a->origin_multiple, elements);
}

void copy_declare_rest(emit *t, const emit_address *a) {
    if (!a->rows_complete) emit_text(t, "const int rows_left = %.*s;", STR_ARGS(a->rows_left.text));
    if (!a->columns_complete)
        emit_text(t, "const int columns_left = %.*s;", STR_ARGS(a->columns_left.text));
}

static bool atom_fits(emit *t, const tl_statement *s) {
    const tl_copy *c = &s->copy;
    if (c->atom.length) {
        const atom_mover *atom = atom_find_mover(c->atom, c->from, c->to);
        if (!atom)
            return emit_unsupported(t, s->range, emit_format(t, "by %.*s", STR_ARGS(c->atom)),
                                    "it is not in the table of atoms");
        if (!emit_has(t, s, c->atom, atom->feature)) return false;
    }
    if (tl_is_by_tma(c)) return true;
    bool async_way = c->from == TL_GLOBAL && c->to == TL_SHARED && str_is(c->atom, "cp_async");
    if (c->is_async && !async_way)
        return copy_refuse(t, s,
                           "only copies from global to shared by cp_async are asynchronous here");
    return true;
}

static void between(emit *t, const tl_statement *s, const emit_tile *from, const emit_tile *to) {
    const emit_tile *registers = from && from->space == TL_REGISTER ? from
                                 : to && to->space == TL_REGISTER   ? to
                                                                    : NULL;
    bool vector = (from && from->is_vector) || (to && to->is_vector);
    bool is_lines = registers && registers->shape.is_lines;
    if (vector && !registers) copy_refuse(t, s, "a vector passes through registers");
    else if (vector && !from) copy_vector_global(t, s, to, true);
    else if (vector && !to) copy_vector_global(t, s, from, false);
    else if (vector)
        copy_vector_shared(t, s, registers, registers == from ? to : from, registers == to);
    else if (is_lines || !registers) copy_in_lines(t, s, from, to);
    else if (!from || !to) copy_fragments_global(t, s, registers);
    else if (registers == from && str_is(s->copy.atom, "stmatrix"))
        copy_matrices_to_shared(t, s, from, to);
    else if (registers == from) copy_fragments_to_shared(t, s, from, to);
    else copy_shared_to_fragments(t, s, from, to);
}

void emit_copy(emit *t, const tl_statement *s) {
    tl_end source = tl_copy_source(s), target = tl_copy_target(s);
    emit_tile *from =
        s->copy.from == TL_GLOBAL ? NULL : emit_tile_in(t, source.symbol, s->copy.from);
    emit_tile *to = s->copy.to == TL_GLOBAL ? NULL : emit_tile_in(t, target.symbol, s->copy.to);
    emit_header(t, s);
    bool missing =
        (s->copy.from != TL_GLOBAL && !from) || (s->copy.to != TL_GLOBAL && !to) || (!from && !to);
    if (missing) {
        copy_refuse(t, s, "one of its sides has no tile");
        return;
    }
    if (to && to->part_of) {
        copy_refuse(t, s, "a part of a shared tile is filled with the whole of it");
        return;
    }
    if (!atom_fits(t, s)) return;
    emit_settle(t, from, false);
    emit_settle(t, to, true);
    if (s->copy.to == TL_REGISTER) emit_note_touched(t, tl_written_name(s), true);
    if (tl_is_by_tma(&s->copy)) {
        bool loads = to && to->space == TL_SHARED;
        emit_tile *tile = loads ? to : from;
        if ((from && to) || tile->space != TL_SHARED)
            copy_refuse(t, s, "tma moves between global and shared memory");
        else emit_tensor_copy(t, s, tile, loads);
        return;
    }
    emit_barrier_before(t, s);
    between(t, s, from, to);
    if (to && to->space == TL_SHARED) emit_channel_fill(t, s, to);
}
