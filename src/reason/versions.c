/* A tile that is loaded, used as it is, and then changed in its place before products take it: Q is
 * squared for the length of its rows, and divided by that. The two values have no place in common:
 * the one goes into arithmetic, the other is an operand in 16 bits. So the changed one gets a name
 * of its own.
 */
#include "reason/pass.h"

static bool is_elementwise(const tl_statement *s) {
    return s->kind == TL_COMPUTE &&
           tl_operation_shape(s->compute.operation) == TL_SHAPE_ELEMENTWISE;
}

/* Was it loaded into registers, and its value used by another tile, before s? */
static bool is_used_as_loaded(const tl_kernel *kernel, const tl_statement *s, str name) {
    bool is_loaded = false, is_used = false;
    for (const tl_statement *t = kernel->body.first; t != s; t = t->next) {
        if (edit_loads(t, name)) is_loaded = t->copy.to == TL_REGISTER;
        is_used |= is_loaded && is_elementwise(t) && edit_reads(t, name) && !edit_writes(t, name);
    }
    return is_used;
}

/* Do products take what s makes of it, and is it not loaded again? */
static bool is_multiplied_after(const tl_kernel *kernel, const tl_statement *s, str name) {
    bool is_past = false, is_operand = false;
    for (tl_statement *t = kernel->body.first; t; t = tl_next(t, NULL)) {
        if (is_past && t->kind == TL_COPY && t->copy.from == TL_GLOBAL &&
            (edit_loads(t, name) || str_equal(t->copy.what->text, name)))
            return false;
        bool is_product = edit_is_product(t);
        is_operand |=
            is_past && is_product && (edit_operand_is(t, 0, name) || edit_operand_is(t, 1, name));
        is_past |= t == s;
    }
    return is_operand;
}

void reason_name_versions(reason *r) {
    for (tl_statement *s = r->kernel->body.first; s; s = s->next) {
        bool gets = is_elementwise(s) && s->compute.target_kind == TL_GET;
        str name = gets ? s->compute.target->text : STR("");
        if (!gets || !edit_reads(s, name) || !is_used_as_loaded(r->kernel, s, name) ||
            !is_multiplied_after(r->kernel, s, name))
            continue;
        str own = reason_fresh(r, "%.*s", STR_ARGS(name));
        s->compute.target->text = own;
        edit_rename_from(s->next, name, own);
    }
}
