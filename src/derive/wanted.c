/* Which Inputs get a gradient, and what is said of the others: nothing is left out without a word.
 */
#include "derive/write.h"

/* --- what has no rule ------------------------------------------------------------------------- */

static bool is_no_element(void *name, const tl_expr *e) {
    return e->kind != TL_ELEMENT || !str_equal(e->text, *(const str *)name);
}

static bool takes_element(const tl_expr *e, str input) {
    return !tl_visit(e, is_no_element, &input);
}

static const char *why_statement(const tl_statement *s, str input) {
    for (int i = 0; s->kind == TL_LET && i < s->let.count; i++)
        if (takes_element(s->let.items[i].value, input))
            return s->let.items[i].axes.count ? "it is read through a view"
                                              : "its elements stand in a definition";
    bool is_mask = s->kind == TL_COMPUTE && s->compute.operation == TL_MASK;
    for (int i = 0; is_mask && i < s->compute.operand_count; i++)
        if (takes_element(s->compute.operands[i].value, input)) return "a Mask writes its elements";
    return NULL;
}

/* Copies, and elements in expressions. */
static const tl_statement *unruled_load(const tape *t, str input, const char **why) {
    int count = 0;
    for (int i = 0; i < t->items.count; i++) {
        const tape_item *load = &t->items.items[i];
        if (load->kind != TAPE_LOAD || load->sum || !str_equal(load->tensor, input)) continue;
        if (count++) *why = "it is read in two ways, and its gradient would be a sum of both";
        else if (load->element && !share_is_known(t, load))
            *why = "its elements are not those of a whole tile, one at each place: several places "
                   "may share an element, or none may have it";
        if (*why) return load->from;
    }
    return NULL;
}

const tl_statement *tape_unruled_read(const tape *t, str input, const char **why) {
    for (tl_statement *s = t->kernel->body.first; s; s = tl_next(s, NULL))
        if ((*why = why_statement(s, input))) return s;
    return unruled_load(t, input, why);
}

/* --- what is wanted --------------------------------------------------------------------------- */

const tl_statement *tape_wanted(const tape *t, const tape_item *load) {
    if (load->kind != TAPE_LOAD || load->sum) return NULL;
    bool is_chosen = !t->of_count;
    const char *why;
    for (int i = 0; i < t->of_count; i++) is_chosen |= str_equal(t->of[i], load->tensor);
    for (const tl_statement *s = t->kernel->body.first; is_chosen && s; s = s->next)
        if (tape_is_number(s) && str_equal(s->parameter.name, load->tensor))
            return tape_unruled_read(t, load->tensor, &why) ? NULL : s;
    return NULL;
}

/* Was a gradient made of it? */
static bool has_gradient(const tape *t, str name) {
    for (int i = 0; i < t->items.count; i++) {
        const tape_item *item = &t->items.items[i];
        bool is_own = item->kind == TAPE_LOAD && str_equal(item->tensor, name);
        if (is_own && tape_wanted(t, item) && tape_gradient(t, i) != TAPE_NONE) return true;
    }
    return false;
}

static const char *why_not(const tape *t, str name) {
    const char *why;
    return tape_unruled_read(t, name, &why) ? why : "nothing that is given out depends on it";
}

/* Each Input that was asked for is one that a gradient may be of. */
static bool can_each(tape *t) {
    for (int i = 0; i < t->of_count; i++) {
        const tl_statement *s = t->kernel->body.first;
        const char *why;
        while (s && !(tape_is_number(s) && str_equal(s->parameter.name, t->of[i]))) s = s->next;
        if (!s)
            return tape_refuse(t, NULL,
                               "there is no gradient of %.*s: no Input is an array of numbers and "
                               "called so",
                               STR_ARGS(t->of[i]));
        const tl_statement *read = tape_unruled_read(t, t->of[i], &why);
        if (read)
            return tape_refuse(t, read, "there is no gradient of %.*s: %s", STR_ARGS(t->of[i]),
                               why);
    }
    return true;
}

bool wanted_can_be(tape *t) {
    const tl_statement *hidden = NULL, *at = NULL;
    const char *why, *hidden_why = NULL;
    if (!can_each(t)) return false;
    for (const tl_statement *s = t->kernel->body.first; s; s = s->next) {
        if (!tape_is_number(s)) continue;
        const tl_statement *read = tape_unruled_read(t, s->parameter.name, &why);
        if (!read) return true;
        if (!hidden) hidden = s, at = read, hidden_why = why;
    }
    if (!hidden)
        return tape_refuse(t, NULL, "there is no gradient: no Input is an array of numbers");
    return tape_refuse(t, at, "there is no gradient of %.*s: %s", STR_ARGS(hidden->parameter.name),
                       hidden_why);
}

bool wanted_are(tape *t) {
    for (int i = 0; i < t->of_count; i++)
        if (!has_gradient(t, t->of[i]))
            return tape_refuse(t, NULL, "there is no gradient of %.*s: %s", STR_ARGS(t->of[i]),
                               why_not(t, t->of[i]));
    return true;
}

void wanted_notes(const tape *t, text_buffer *out) {
    for (const tl_statement *s = t->kernel->body.first; s; s = s->next) {
        str name = s->kind == TL_INPUT ? s->parameter.name : STR("");
        if (tape_is_number(s) && !t->of_count && !has_gradient(t, name))
            text_format(out, "// There is no gradient of %.*s: %s.\n", STR_ARGS(name),
                        why_not(t, name));
    }
    for (int i = 0; i < t->stores.count; i++)
        if (t->stores.items[i].is_statistic)
            text_format(out, "// %.*s counts as given: no gradient comes to it.\n",
                        STR_ARGS(t->stores.items[i].output->parameter.name));
}
