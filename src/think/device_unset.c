/* Which elements of a kernel's own variables are read before anything was written to them. What
 * that gives is undefined: a compiler may take what is right by chance, so that nothing that runs
 * shows it.
 *
 * A write counts wherever it may happen: under any condition, by a function that is given a
 * reference, by whoever has the address. So what is reported is read, when it is reached, with
 * no write before.
 */
#include "think/device_walk.h"

enum { ELEMENT_WRITTEN = 1, ELEMENT_PENDING = 2, ELEMENT_REPORTED = 4 };

/* --- functions -------------------------------------------------------------------------------- */

static int closing(const walk *w, int at) {
    for (int deep = 0; token_at(w, at)->kind != TOKEN_END; at++) {
        deep += is_at(w, at, "(") - is_at(w, at, ")");
        if (!deep) break;
    }
    return at;
}

/* The parameters between two round brackets. */
static function_form form_of(const walk *w, int open, int close) {
    function_form form = {0, 0, true};
    int deep = 0, number = 0;
    bool is_reference = false, is_address = false;
    for (int i = open + 1; i <= close && number < 32; i++) {
        if (is_at(w, i, "(") || is_at(w, i, "<") || is_at(w, i, "{")) deep++;
        if (i == close || (!deep && is_at(w, i, ","))) {
            uint32_t bit = 1u << number++;
            if (is_reference) form.references |= is_address ? 0 : bit;
            else if (!is_address) form.values |= bit;
            is_reference = is_address = false;
        }
        if (is_at(w, i, ")") || is_at(w, i, ">") || is_at(w, i, "}")) deep--;
        is_reference |= is_at(w, i, "&") || is_at(w, i, "&&");
        is_address |= is_at(w, i, "*") || is_at(w, i, ".") || (is_at(w, i, "[") && !is_reference);
    }
    return form;
}

/* CUDA's own functions take values, and addresses, which are seen where they are taken. */
static bool is_of_cuda(str name) {
    static const char *const known[] = {"fmaxf", "fminf", "max",   "min",   "expf",  "exp2f",
                                        "logf",  "log2f", "sqrtf", "rsqrt", "fabsf", "fmaf",
                                        "tanhf", "powf",  "abs",   "sinf",  "cosf"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (str_is(name, known[i])) return true;
    }
    return name.length > 2 && name.data[0] == '_' && name.data[1] == '_';
}

void unset_start(walk *w) {
    arena *memory = w->diags->memory;
    w->functions = arena_array(memory, function_form, w->tokens.name_count + 1);
    w->elements = arena_array(memory, uint8_t *, w->tokens.count + 1);
    for (int i = 1; i < w->tokens.count; i++) {
        const token *t = token_at(w, i);
        w->has_goto |= token_is(t, "goto");
        if (t->kind != TOKEN_NAME || !is_at(w, i + 1, "(")) continue;
        function_form *known = &w->functions[t->name];
        if (!known->is_defined && is_of_cuda(t->text)) known->values = ~0u;
        int close = closing(w, i + 1);
        bool has_type = token_at(w, i - 1)->kind == TOKEN_NAME || is_at(w, i - 1, ">") ||
                        is_at(w, i - 1, "*") || is_at(w, i - 1, "&");
        if (!has_type || !is_at(w, close + 1, "{")) continue;
        function_form form = form_of(w, i + 1, close);
        if (known->is_defined) {
            form.values &= known->values;
            form.references &= known->references;
        }
        *known = form;
    }
}

/* --- elements --------------------------------------------------------------------------------- */

void unset_declare(walk *w, thing *t, int at) {
    int64_t count = 1;
    for (int i = 0; i < t->dimensions && count <= ELEMENTS_MAX; i++)
        count *= t->lengths[i] > 0 ? t->lengths[i] : ELEMENTS_MAX + 1;
    bool is_followed = count <= ELEMENTS_MAX && w->scope == SCOPE_CODE && !w->has_goto &&
                       !w->tokens.is_of_macro[t->name];
    if (!is_followed) return;
    if (!w->elements[at]) w->elements[at] = arena_array(w->diags->memory, uint8_t, count);
    t->elements = memset(w->elements[at], 0, (size_t)count);
    t->element_count = (int)count;
}

static void mark(walk *w, write e) {
    thing *t = &w->things.items[e.place];
    for (int i = e.first; t->elements && i < e.first + e.count; i++)
        t->elements[i] |= ELEMENT_WRITTEN;
}

/* What is made of an element that nothing was written to is as undefined as that. */
static bool is_made_of_itself(const walk *w, write e) {
    for (int i = 0; i < w->unset_reads.count; i++) {
        const write *r = &w->unset_reads.items[i];
        if (e.count == 1 && r->place == e.place && r->first == e.first) return true;
    }
    return false;
}

void unset_statement_ends(walk *w) {
    for (int i = 0; i < w->writes.count; i++) {
        write e = w->writes.items[i];
        if (e.place < w->things.count && !is_made_of_itself(w, e)) mark(w, e);
    }
    w->writes.count = w->unset_reads.count = 0;
}

void unset_escape(walk *w, int begin, int end) {
    for (int i = begin; i < end && !w->skipped; i++) {
        thing *t = find(w, token_at(w, i));
        if (t && t->elements) mark(w, (write){(int)(t - w->things.items), 0, t->element_count});
    }
}

/* --- loops ------------------------------------------------------------------------------------ */

void unset_loop_begins(walk *w) {
    list_push(w->diags->memory, &w->loops, ((loop_entry){w->things.count, w->unsure, w->jumps}));
}

void unset_loop_ends(walk *w) {
    int kept = 0, loop = --w->loops.count;
    for (int i = 0; i < w->pending.count; i++) {
        unset u = w->pending.items[i];
        bool is_over = u.loop >= loop, is_there = u.place < w->things.count;
        if (!is_over) w->pending.items[kept++] = u;
        if (!is_over || !is_there) continue;
        uint8_t *elements = w->things.items[u.place].elements;
        if (elements && !(elements[u.element] & ELEMENT_WRITTEN))
            list_push(w->diags->memory, &w->unset, u);
    }
    w->pending.count = kept;
}

static str element_name(const walk *w, const thing *t, int at, int element) {
    str name = token_at(w, at)->text;
    int count = t->element_count;
    for (int i = 0; i < t->dimensions; i++) {
        count /= (int)t->lengths[i];
        name = str_format(w->diags->memory, "%.*s[%d]", STR_ARGS(name), element / count);
        element %= count;
    }
    return name;
}

/* A later step of a loop may read what this one writes further on, if it has a condition. */
static void read_element(walk *w, int place, int at, int element, bool is_certain) {
    thing *t = &w->things.items[place];
    int loop = 0, unsure = w->unsure + !is_certain;
    if (t->elements[element] & ELEMENT_WRITTEN) return;
    list_push(w->diags->memory, &w->unset_reads, ((write){place, element, 1}));
    while (loop < w->loops.count && w->loops.items[loop].place <= place) loop++;
    const loop_entry *entry = loop < w->loops.count ? &w->loops.items[loop] : NULL;
    bool may_be_later = entry && (unsure > entry->unsure || w->jumps > entry->jumps);
    uint8_t is_told = may_be_later ? ELEMENT_PENDING | ELEMENT_REPORTED : ELEMENT_REPORTED;
    if (w->doubted || t->elements[element] & is_told) return;
    t->elements[element] |= may_be_later ? ELEMENT_PENDING : ELEMENT_REPORTED;
    unset found = {at, place, element, loop, element_name(w, t, at, element)};
    if (may_be_later) list_push(w->diags->memory, &w->pending, found);
    else list_push(w->diags->memory, &w->unset, found);
}

/* --- uses ------------------------------------------------------------------------------------- */

/* What may be written through it: nothing, the elements themselves, or the whole variable. */
typedef enum gift { GIFT_NOTHING, GIFT_ELEMENTS, GIFT_ALL } gift;

/* What stands alone between brackets or commas goes to somebody: by value, or perhaps not. */
static gift given_away(const walk *w, int at, int end, bool is_whole, const bracket *in) {
    bool begins = is_at(w, at - 1, "(") || is_at(w, at - 1, ",") || is_at(w, at - 1, "{");
    bool ends = is_at(w, end, ")") || is_at(w, end, ",") || is_at(w, end, "}");
    bool is_cast = is_at(w, at - 1, ")") && (is_at(w, at - 2, "&") || is_at(w, at - 2, "*"));
    if (is_cast || is_at(w, at - 1, "&")) return GIFT_ALL;
    if (!begins || !ends) return is_whole ? GIFT_NOTHING : GIFT_ALL;
    if (!in || in->callee < 0 || in->argument > 31) return GIFT_ALL;
    const function_form *form = &w->functions[in->callee];
    if (form->values >> in->argument & 1u && is_whole) return GIFT_NOTHING;
    return form->references >> in->argument & 1u ? GIFT_ELEMENTS : GIFT_ALL;
}

/* Whether the elements change where they stand. */
static bool changes(const walk *w, int at, int end) {
    static const char *const signs[] = {"++", "--", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^="};
    bool is_shift = is_at(w, end, "<<") || is_at(w, end, ">>");
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        if (str_is(token_at(w, end)->text, signs[i])) return true;
    }
    return is_at(w, at - 1, "++") || is_at(w, at - 1, "--") || (is_shift && is_at(w, end + 1, "="));
}

void unset_use(walk *w, int place, int at, int end, write e, bool is_whole, bool is_certain,
               const bracket *in) {
    if (w->skipped || !w->things.items[place].elements) return;
    gift given = given_away(w, at, end, is_whole, in);
    bool is_member = is_at(w, end, ".") || is_at(w, end, "->") || is_at(w, end, "[") ||
                     is_at(w, at - 1, ".") || is_at(w, at - 1, "->");
    if (is_member || place < w->foreign || w->is_bound || given == GIFT_ALL) {
        mark(w, (write){place, 0, w->things.items[place].element_count});
        return;
    }
    bool is_assigned = is_at(w, end, "=");
    if (given == GIFT_ELEMENTS) mark(w, e);
    else if (!is_assigned && e.count == 1) read_element(w, place, at, e.first, is_certain);
    if (is_assigned || changes(w, at, end)) list_push(w->diags->memory, &w->writes, e);
}
