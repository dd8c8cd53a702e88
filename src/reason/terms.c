/* A result that is added up from terms of elements, `Multiply X, a and get O` and `Multiply Y, b
 * and accumulate O`, becomes one statement, where it does nothing but leave and no product is near.
 * Then it is held in no other type than its tensor has, and pass place lets it lie as what it is
 * made of does.
 */
#include "reason/terms.h"

static bool is_term(const tl_statement *s, str target, tl_target_kind kind) {
    return s && edit_is_compute(s, TL_MULTIPLY) && !s->compute.operands[0].is_transposed &&
           !s->compute.operands[1].is_transposed && s->compute.target_kind == kind &&
           str_equal(edit_target_name(s), target) && !edit_takes(s, target);
}

static const char *term(reason *r, const tl_statement *s) {
    return reason_say(r, "%s*%s", edit_factor_text(r->memory, s->compute.operands[0].value),
                      edit_factor_text(r->memory, s->compute.operands[1].value));
}

static bool is_named_by(const tl_statement *s, str name) {
    return edit_reads(s, name) || edit_writes(s, name);
}

/* A Copy of another tile, or one to a tensor of its type. */
static bool leaves_as_it_is(reason *r, const tiles_tile *tile, const tl_statement *copy) {
    if (!str_equal(edit_copied_tile(copy), tile->name)) return true;
    return copy->copy.to == TL_GLOBAL && copy->copy.target_kind != TL_ACCUMULATE &&
           tiles_tensor_type(r->kernel, edit_copied_tensor(copy)) == tile->storage;
}

bool terms_only_leave(reason *r, const tiles_tile *tile, const tl_statement *first,
                      const tl_statement *last) {
    bool is_own = false;
    if (tile->axis_count != 2 || tile->from_global || tl_type_bits(tile->storage) != 16)
        return false;
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        is_own = is_own || s == first;
        if (s->kind == TL_COPY ? !leaves_as_it_is(r, tile, s)
                               : !is_own && is_named_by(s, tile->name))
            return false;
        if (s == last) is_own = false;
    }
    return true;
}

static bool multiplies(reason *r) {
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL))
        if (edit_is_product(s)) return true;
    return false;
}

/* The last of the terms that 'first' begins; NULL: it begins none, or is alone. */
static tl_statement *last_term(tl_statement *first) {
    str target = edit_target_name(first);
    tl_statement *last = first;
    if (!is_term(first, target, TL_GET)) return NULL;
    while (is_term(last->next, target, TL_ACCUMULATE)) last = last->next;
    return last == first ? NULL : last;
}

static tl_statement *merge(reason *r, tl_statement *first, tl_statement *last) {
    const char *sum = term(r, first);
    tl_place place = first->compute.place;
    while (first != last) {
        tl_statement *before = first;
        first = first->next;
        sum = reason_say(r, "%s + %s", sum, term(r, first));
        if (!place.is_given) place = first->compute.place;
        edit_remove(r->kernel, before);
    }
    str target = edit_target_name(last);
    tl_block text = tl_quote(r->memory, "Compute Fill %s and get %.*s", sum, STR_ARGS(target));
    tl_statement *made = text.first;
    made->compute.place = place;
    edit_replace(r->kernel, last, text);
    reason_decide(r, "terms", "%.*s is made by one statement: then it does nothing but leave",
                  STR_ARGS(target));
    return made;
}

void terms_merge(reason *r) {
    for (tl_statement *s = r->kernel->body.first; s && !multiplies(r); s = tl_next(s, NULL)) {
        tl_statement *last = last_term(s);
        const tiles_tile *tile = last ? tiles_find(tiles_read(r), edit_target_name(s)) : NULL;
        if (tile && terms_only_leave(r, tile, s, last)) s = merge(r, s, last);
    }
}
