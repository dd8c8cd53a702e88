#include "reason/linear.h"

enum { LINEAR_DEPTH_MAX = 64 };

/* On the way through lets that stand for one another. */
typedef struct lets {
    reason *r;
    int deep;
} lets;

static bool find_let(void *context, const tl_expr *name, tl_linear *out) {
    const lets *from = context;
    lets below = {from->r, from->deep + 1};
    const tl_binding *let = edit_find_let(from->r->kernel, name->text, NULL);
    if (!let || let->axes.count || let->value->kind == TL_NUMBER) return false;
    if (below.deep > LINEAR_DEPTH_MAX) out->is_broken = true;
    else *out = tl_linear_of(&(tl_linear_scope){.means = find_let, .context = &below}, let->value);
    return true;
}

tl_linear linear_of(reason *r, const tl_expr *e, bool expand) {
    lets from = {r, 0};
    return tl_linear_of(expand ? &(tl_linear_scope){.means = find_let, .context = &from} : NULL, e);
}

int64_t linear_coefficient(const tl_linear *l, str name) {
    for (int i = 0; i < l->count; i++)
        if (l->terms[i].atom->kind == TL_NAME && str_equal(l->terms[i].atom->text, name))
            return l->terms[i].factor;
    return 0;
}

bool linear_factor(const tl_linear *l, str name, int64_t *factor) {
    *factor = linear_coefficient(l, name);
    for (int i = 0; i < l->count; i++)
        if (l->terms[i].atom->kind != TL_NAME && tl_expr_names(l->terms[i].atom, name))
            return false;
    return !l->is_broken;
}

void linear_drop(tl_linear *l, str name) {
    for (int i = l->count - 1; i >= 0; i--)
        if (l->terms[i].atom->kind == TL_NAME && str_equal(l->terms[i].atom->text, name))
            tl_linear_drop(l, i);
}

tl_expr *linear_expr(reason *r, const tl_linear *l) {
    str text = {"", 0};
    for (int sign = 1; sign >= -1; sign -= 2)
        for (int i = 0; i < l->count; i++) {
            int64_t c = l->terms[i].factor;
            if ((c > 0) != (sign > 0)) continue;
            const tl_expr *atom = l->terms[i].atom;
            bool is_sum = atom->kind == TL_BINARY &&
                          (atom->operator== TL_PLUS || atom->operator== TL_MINUS || c * sign != 1);
            str one = tl_expr_text(r->memory, atom);
            if (is_sum) one = str_format(r->memory, "(%.*s)", STR_ARGS(one));
            if (c * sign != 1)
                one = str_format(r->memory, "%lld*%.*s", (long long)c * sign, STR_ARGS(one));
            const char *joint =
                text.length > 0 ? (sign > 0 ? " + " : " - ") : (sign > 0 ? "" : "-");
            text = str_format(r->memory, "%.*s%s%.*s", STR_ARGS(text), joint, STR_ARGS(one));
        }
    if (text.length == 0) text = str_format(r->memory, "%lld", (long long)l->constant);
    else if (l->constant != 0)
        text = str_format(r->memory, "%.*s %c %lld", STR_ARGS(text), l->constant > 0 ? '+' : '-',
                          (long long)(l->constant > 0 ? l->constant : -l->constant));
    return tl_quote_expr(r->memory, "%.*s", STR_ARGS(text));
}
