/* Copies to global memory: from shared memory, from lines, from fragments. */
#include "translate/copy.h"

static void store_whole_unit(lines *x, str store, str target, str unit) {
    emit_text(x->t, "%.*s(%.*s, %.*s);", STR_ARGS(store), STR_ARGS(target), STR_ARGS(unit));
}

static bool adds(const lines *x) {
    return x->s->copy.target_kind == TL_ACCUMULATE;
}

/* The wrapper that takes a unit to global memory; '_part' and 'elements' make it one for a part. */
static str wrapper(lines *x) {
    if (adds(x)) return STR("ftl_add_global_16_f32");
    if (x->converts)
        return emit_format(x->t, "ftl_store_global_%d_%s", 4 * tl_type_bytes(x->address.type),
                           emit_type_word(x->address.type));
    return emit_format(x->t, "ftl_store_global_16%s", lines_suffix(x));
}

static bool may_add(lines *x) {
    bool fits = !adds(x) || (!x->converts && x->address.type == TL_F32);
    if (!fits) copy_refuse(x->t, x->s, "lines add f32 to f32 in global memory");
    return fits;
}

static void store_unit(lines *x, lines_cut cut) {
    emit *t = x->t;
    str unit = x->registers ? lines_unit(x) : STR("unit"), target = lines_pointer(x, "target");
    if (cut == LINES_PART) lines_declare_left(x);
    if (cut != LINES_WHOLE) {
        str guard = cut == LINES_PART ? STR("left > 0") : lines_guard(x);
        emit_open(t, "if (%.*s) {", STR_ARGS(guard));
    }
    if (!x->registers) {
        emit_text(t, "%s unit[4];", adds(x) ? "float" : "unsigned");
        emit_text(t, "ftl_load_shared_16%s(unit, %.*s);", adds(x) ? "_f32" : "",
                  STR_ARGS(lines_shared(x, "source")));
    }
    str store = wrapper(x);
    if (cut == LINES_PART) {
        emit_text(t, "if (left >= %d)", x->shape.elements);
        t->indent++;
        store_whole_unit(x, store, target, unit);
        t->indent--;
        emit_text(t, "else");
        t->indent++;
        emit_text(t, "%.*s_part%s(%.*s, %.*s, left);", STR_ARGS(store),
                  adds(x) ? "" : lines_elements(x), STR_ARGS(target), STR_ARGS(unit));
        t->indent--;
    } else {
        store_whole_unit(x, store, target, unit);
    }
    if (cut != LINES_WHOLE) emit_close(t);
}

void copy_shared_to_global(emit *t, const tl_statement *s, const emit_tile *from) {
    lines x;
    if (!lines_make(&x, t, s, from, NULL) || !may_add(&x)) return;
    emit_open(t, "{");
    lines_declare_own(&x);
    copy_declare_rest(t, &x.address);
    lines_declare_shared(&x, "source", emit_held(t, from));
    lines_declare_pointer(&x, "target");
    lines_loop_to_ends(&x, store_unit);
    emit_close(t);
}

void copy_lines_to_global(emit *t, const tl_statement *s, const emit_tile *from) {
    lines x;
    if (!lines_make(&x, t, s, NULL, from) || !may_add(&x)) return;
    emit_open(t, "{");
    lines_declare_own(&x);
    copy_declare_rest(t, &x.address);
    lines_declare_pointer(&x, "target");
    lines_loop_to_ends(&x, store_unit);
    emit_close(t);
}

/* --- fragments -------------------------------------------------------------------------------- */

static void store_whole_pair(const pairs *x) {
    emit *t = x->t;
    int bytes = tl_type_bytes(x->address.type);
    if (bytes <= 2) {
        emit_text(t, "ftl_store_global_%d(%.*s, %.*s);", 2 * bytes, STR_ARGS(x->pointer),
                  STR_ARGS(pairs_packed(t, x->tile, x->address.type)));
    } else {
        const char *pair = x->address.type == TL_I32 ? "i32x2" : "f32x2";
        emit_text(t, "ftl_store_global_%s(%.*s, %.*s, %.*s);", pair, STR_ARGS(x->pointer),
                  STR_ARGS(x->low), STR_ARGS(x->high));
    }
}

static void store_first_of_pair(const pairs *x) {
    emit *t = x->t;
    int bytes = tl_type_bytes(x->address.type);
    if (bytes <= 2) {
        emit_text(t, "ftl_store_global_%d(%.*s, %.*s);", bytes, STR_ARGS(x->pointer),
                  STR_ARGS(pairs_packed(t, x->tile, x->address.type)));
    } else {
        const char *one = x->address.type == TL_I32 ? "i32" : "f32";
        emit_text(t, "ftl_store_global_%s(%.*s, %.*s);", one, STR_ARGS(x->pointer),
                  STR_ARGS(x->low));
    }
}

static void store_pair(const pairs *x) {
    emit *t = x->t;
    if (!x->both_inside.length) {
        store_whole_pair(x);
        return;
    }
    emit_open(t, "if (%.*s) {", STR_ARGS(x->both_inside));
    store_whole_pair(x);
    t->indent--;
    emit_open(t, "} else {");
    store_first_of_pair(x);
    emit_close(t);
}

static void add_pair(const pairs *x) {
    emit *t = x->t;
    if (x->address.type != TL_F32)
        copy_refuse(t, x->s, "adding into global memory needs f32 there");
    emit_text(t, "ftl_add_global_f32(%.*s, %.*s);", STR_ARGS(x->pointer), STR_ARGS(x->low));
    if (x->both_inside.length) emit_open(t, "if (%.*s) {", STR_ARGS(x->both_inside));
    emit_text(t, "ftl_add_global_f32(%.*s + 1, %.*s);", STR_ARGS(x->pointer), STR_ARGS(x->high));
    if (x->both_inside.length) emit_close(t);
}

void copy_fragments_to_global(emit *t, const tl_statement *s, const emit_tile *from) {
    pairs_move(t, s, from, s->copy.target_kind == TL_ACCUMULATE ? add_pair : store_pair);
}
