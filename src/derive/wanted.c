/* Which Inputs get a gradient, and what is said of the others: nothing is left out without a word.
 */
#include "derive/table.h"
#include "derive/write.h"

/* --- what has no rule ------------------------------------------------------------------------- */

/* The Input, where an element is of one, or of a view of it. */
static const tl_symbol *root_of(const tl_expr *element) {
    const tl_symbol *of = element->symbol;
    while (of && of->view_base) of = of->view_base;
    return of;
}

static bool is_no_element(void *name, const tl_expr *e) {
    const tl_symbol *root = e->kind == TL_ELEMENT ? root_of(e) : NULL;
    return !root || !str_equal(root->name, *(const str *)name);
}

static bool takes_element(const tl_expr *e, str input) {
    return !tl_visit(e, is_no_element, &input);
}

/* An element in an expression is of the Input itself. */
static bool is_no_view(void *name, const tl_expr *e) {
    return is_no_element(name, e) || e->symbol->parameter;
}

static const char *why_binding(const tape *t, const tl_binding *binding, str input) {
    const tl_symbol *view = tl_find_symbol(t->kernel, binding->name);
    const tl_expr *shown = view ? tape_view_element(view) : NULL;
    bool takes = takes_element(binding->value, input);
    for (int i = 0; shown && i < shown->item_count; i++)
        if (takes_element(shown->items[i], input)) return "it is read through a view of itself";
    if (!takes || shown) return NULL;
    return binding->axes.count ? "it is read through a view of a view, or one that chooses"
                               : "its elements stand in a definition";
}

static const char *why_statement(const tape *t, const tl_statement *s, str input) {
    const char *why = NULL;
    for (int i = 0; s->kind == TL_LET && i < s->let.count && !why; i++)
        why = why_binding(t, &s->let.items[i], input);
    for (int i = 0; s->kind == TL_COMPUTE && i < s->compute.operand_count && !why; i++) {
        const tl_expr *e = s->compute.operands[i].value;
        if (s->compute.operation == TL_MASK && takes_element(e, input))
            why = "a Mask writes its elements";
        else if (!tl_visit(e, is_no_view, &input))
            why = "elements of a view of it stand in expressions";
    }
    return why;
}

static bool is_load_of(const tape_item *load, str input) {
    return load->kind == TAPE_LOAD && !load->sum && !load->tables && str_equal(load->input, input);
}

/* Of views that show all of an Input together there is one gradient. Else each way in which it is
 * read gives a gradient of its own, and these are added.
 */
static void number_readings(tape *t, str input) {
    int count = 0;
    bool are_parts = true;
    for (int i = 0; i < t->items.count; i++) {
        const tape_item *load = &t->items.items[i];
        if (!is_load_of(load, input)) continue;
        count++;
        are_parts &= load->element && !load->is_expression && share_covers(t, load);
    }
    int number = count < 2 || are_parts ? count : 0;
    for (int i = 0; i < t->items.count && number < count; i++)
        if (is_load_of(&t->items.items[i], input)) t->items.items[i].reading = ++number;
}

/* Copies, and elements in expressions. */
static const tl_statement *unruled_load(const tape *t, str input, const char **why) {
    for (int i = 0; i < t->items.count; i++) {
        const tape_item *load = &t->items.items[i];
        if (!is_load_of(load, input)) continue;
        bool is_whole = !load->element ||
                        (load->is_expression ? share_is_known(t, load) : share_covers(t, load));
        if (load->reading && tape_tensor(t, input)->axes.count < 2)
            *why = "it is read in two ways, and kernels add matrices alone: give it another axis";
        else if (!is_whole) *why = table_why_not(t, load, NULL);
        if (*why) return load->from;
    }
    return NULL;
}

/* Where the sketch reads numbers of an Input in a way that has no rule; '*why' says which. NULL:
 * nowhere.
 */
static const tl_statement *unruled_read(const tape *t, str input, const char **why) {
    for (tl_statement *s = t->kernel->body.first; s; s = tl_next(s, NULL))
        if ((*why = why_statement(t, s, input))) return s;
    return unruled_load(t, input, why);
}

/* --- what is wanted --------------------------------------------------------------------------- */

const tl_statement *tape_wanted(const tape *t, const tape_item *load) {
    if (load->kind != TAPE_LOAD || load->sum) return NULL;
    bool is_chosen = !t->of_count;
    const char *why;
    for (int i = 0; i < t->of_count; i++) is_chosen |= str_equal(t->of[i], load->input);
    for (const tl_statement *s = t->kernel->body.first; is_chosen && s; s = s->next)
        if (tape_is_number(s) && str_equal(s->parameter.name, load->input))
            return unruled_read(t, load->input, &why) ? NULL : s;
    return NULL;
}

/* Was a gradient made of it? */
static bool has_gradient(const tape *t, str name) {
    for (int i = 0; i < t->items.count; i++) {
        const tape_item *item = &t->items.items[i];
        bool is_own = item->kind == TAPE_LOAD && str_equal(item->input, name);
        if (is_own && tape_wanted(t, item) && tape_gradient(t, i) != TAPE_NONE) return true;
    }
    return false;
}

static const char *why_not(const tape *t, str name) {
    const char *why;
    return unruled_read(t, name, &why) ? why : "nothing that is given out depends on it";
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
        const tl_statement *read = unruled_read(t, t->of[i], &why);
        if (read)
            return tape_refuse(t, read, "there is no gradient of %.*s: %s", STR_ARGS(t->of[i]),
                               why);
    }
    return true;
}

bool wanted_can_be(tape *t) {
    for (const tl_statement *s = t->kernel->body.first; s; s = s->next)
        if (tape_is_number(s)) number_readings(t, s->parameter.name);
    const tl_statement *hidden = NULL, *at = NULL;
    const char *why, *hidden_why = NULL;
    if (!can_each(t)) return false;
    for (const tl_statement *s = t->kernel->body.first; s; s = s->next) {
        if (!tape_is_number(s)) continue;
        const tl_statement *read = unruled_read(t, s->parameter.name, &why);
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
    for (int i = 0; i < t->items.count; i++)
        if (t->items.items[i].kind == TAPE_LOAD && t->items.items[i].tables &&
            !t->items.items[i].entry)
            text_format(out, "// %.*s is made entry by entry, by a pass for each%s.\n",
                        STR_ARGS(share_whole(t, &t->items.items[i])),
                        t->items.items[i].entries.length ? " eight" : "");
    for (int i = 0; i < t->stores.count; i++)
        if (t->stores.items[i].is_statistic)
            text_format(out, "// %.*s counts as given: no gradient comes to it.\n",
                        STR_ARGS(t->stores.items[i].output->parameter.name));
}
