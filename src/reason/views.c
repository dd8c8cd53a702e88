/* Parts of copied tiles: a sketch may use a view of a tensor whose tile is there, without a Copy.
 * Passes follow tiles by name, so such a part becomes a tile of its own, copied beside its base.
 */
#include "reason/pass.h"
#include "reason/tiles.h"

/* The use of a view that nothing writes: "shared" as operand of a product, else "register"; NULL:
 * it has none.
 */
static const char *space_of_part(const reason *r, str view) {
    const char *space = NULL;
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (edit_writes(s, view)) return NULL;
        if (!space && edit_takes(s, view)) space = edit_is_product(s) ? "shared" : "register";
    }
    return space;
}

static bool loads(const tl_statement *s, str tensor) {
    return s->kind == TL_COPY && s->copy.from == TL_GLOBAL && str_equal(s->copy.what->text, tensor);
}

/* The tensor or view that is copied, of those that the view shows elements of; empty: none is. */
static str copied_base(const reason *r, const tl_binding *view) {
    for (int depth = 0; view && depth < TL_NESTING_MAX; depth++) {
        if (view->value->kind != TL_ELEMENT) break;
        str base = view->value->text;
        for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL))
            if (loads(s, base)) return base;
        view = edit_find_let(r->kernel, base, NULL);
    }
    return STR("");
}

static void copy_part(reason *r, const tl_binding *view, const char *space) {
    str base = copied_base(r, view);
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (base.length == 0 || !loads(s, base)) continue;
        tl_block copy = tl_quote(r->memory, "Copy %.*s from global to %s // the part of %.*s",
                                 STR_ARGS(view->name), space, STR_ARGS(base));
        copy.first->range = s->range;
        edit_after(r->kernel, s, copy);
        s = s->next;
    }
}

void reason_copy_parts(reason *r) {
    for (tl_statement *s = r->kernel->body.first; s; s = s->next)
        for (int i = 0; s->kind == TL_LET && i < s->let.count; i++) {
            const tl_binding *view = &s->let.items[i];
            const char *space = view->axes.count > 0 ? space_of_part(r, view->name) : NULL;
            if (space) copy_part(r, view, space);
        }
}
