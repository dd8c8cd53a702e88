#include "think/device_arrays.h"

#include "think/device_walk.h"

/* --- indices ---------------------------------------------------------------------------------- */

static void note(walk *w, excess e) {
    for (int i = 0; i < w->found.count; i++) {
        if (w->found.items[i].at == e.at) return;
    }
    list_push(w->diags->memory, &w->found, e);
}

/* The index that begins here, and its bracket. False: its value is not known. */
static bool index_here(walk *w, int64_t *v, int *outermost) {
    int end = w->at, deep = 0;
    for (; token_at(w, end)->kind != TOKEN_END && (deep || !is_at(w, end, "]")); end++)
        deep += is_at(w, end, "[") - is_at(w, end, "]");
    bool is_known = value_here(w, v, outermost) && w->at == end;
    w->at = end + !is_ended(w);
    return is_known;
}

/* What stands at a name that the text knows, with the indices after it. An address may be the one
 * past the end.
 */
static void access(walk *w, bool is_certain, const bracket *in) {
    int at = w->at++;
    const thing *known = find(w, token_at(w, at));
    if (!known || known->kind != THING_ARRAY) return;
    bool is_address = is_at(w, at - 1, "&") || is_at(w, at - 1, ".") || is_at(w, at - 1, "->");
    thing array = *known;
    int place = (int)(known - w->things.items), i = 0;
    write elements = {place, 0, array.element_count};
    bool is_known = true;
    for (; i < array.dimensions && is_here(w, "["); i++) {
        int64_t index = 0;
        int outermost;
        w->at++;
        bool is_value = index_here(w, &index, &outermost), is_past = false;
        if (is_value) is_past = index < 0 || index >= array.lengths[i];
        bool is_noted = is_past && is_certain && !is_address && !w->skipped &&
                        !(w->doubted && outermost == NO_LOOP);
        if (is_noted) note(w, (excess){at, index, array.lengths[i], outermost});
        is_known &= is_value && !is_past;
        if (!is_known || !array.lengths[i]) continue;
        elements.count /= (int)array.lengths[i];
        elements.first += (int)index * elements.count;
    }
    unset_use(w, place, at, w->at, elements, i == array.dimensions, is_certain, in);
}

/* --- statements ------------------------------------------------------------------------------- */

static void statement(walk *w);

/* What a condition may skip is certain only where its loop is under the condition as well, or
 * where no loop is to be asked.
 */
static void forget_skipped(walk *w, int from, int until, int place) {
    int kept = from;
    for (int i = from; i < w->found.count; i++) {
        if (i >= until || w->found.items[i].outermost >= place)
            w->found.items[kept++] = w->found.items[i];
    }
    w->found.count = kept;
}

static void block(walk *w) {
    int count = w->things.count;
    w->at++, w->depth++;
    while (!is_ended(w) && !is_here(w, "}")) statement(w);
    (void)take(w, "}");
    leave(w, count), w->depth--;
}

/* Past round brackets. What stands in them may change what it names. */
static void skip_parentheses(walk *w) {
    int deep = 0, begin = w->at;
    do {
        deep += is_here(w, "(") - is_here(w, ")");
        w->at++;
    } while (deep > 0 && !is_ended(w));
    unset_escape(w, begin, w->at);
}

static void branch(walk *w) {
    int count = w->things.count;
    w->depth++;
    statement(w);
    w->depth--;
    leave(w, count);
}

static void skip(walk *w) {
    w->skipped++;
    branch(w);
    w->skipped--;
}

/* A body that may run: once, or (a loop) more than once. */
static void maybe(walk *w, bool is_loop) {
    int from = w->found.count, place = w->things.count;
    w->unsure++;
    if (is_loop) unset_loop_begins(w);
    branch(w);
    if (is_loop) unset_loop_ends(w);
    w->unsure--;
    forget_skipped(w, from, w->found.count, place);
}

/* Whether only the compiler may know a condition: of a template's numbers, or a macro's. */
static bool is_of_compiler(walk *w, int begin, int end) {
    for (int i = begin; i < end; i++) {
        const token *t = token_at(w, i);
        bool is_member = is_at(w, i - 1, ".") || is_at(w, i - 1, "->") || is_at(w, i - 1, "::");
        bool is_known = t->kind != TOKEN_NAME || find(w, t) || is_member || is_at(w, i + 1, "(") ||
                        is_at(w, i + 1, "::") || token_means(&w->tokens, t, WORD_INDEX);
        if (!is_known) return true;
    }
    return false;
}

/* Of both ways of a condition that go past the same array one is taken. */
static void both_ways(walk *w) {
    int from = w->found.count, place = w->things.count;
    w->unsure++;
    branch(w);
    int middle = w->found.count, kept = from;
    if (take(w, "else")) branch(w);
    w->unsure--;
    for (int i = from; i < w->found.count; i++) {
        const excess *e = &w->found.items[i];
        bool is_kept = e->outermost >= place;
        for (int k = middle; k < w->found.count && i < middle; k++)
            is_kept |= token_at(w, e->at)->name == token_at(w, w->found.items[k].at)->name;
        if (is_kept) w->found.items[kept++] = *e;
    }
    w->found.count = kept;
}

static void condition(walk *w) {
    bool is_constexpr = take(w, "constexpr");
    int begin = w->at + 1;
    skip_parentheses(w);
    int holds = truth_of(w, begin, w->at - 1);
    bool is_doubted = holds < 0 && (is_constexpr || is_of_compiler(w, begin, w->at - 1));
    w->doubted += is_doubted;
    if (holds < 0) both_ways(w);
    if (holds == 1) branch(w);
    if (holds == 0) skip(w);
    if (holds >= 0 && take(w, "else")) {
        if (holds) skip(w);
        else branch(w);
    }
    w->doubted -= is_doubted;
}

/* A loop whose variable takes these values, one after the other. */
typedef struct range {
    int name;
    int64_t first, end, step;
    int outermost;
} range;

/* for (int V = A; V < B; V++). False: another form, and nothing is known. */
static bool header(walk *w, range *r) {
    int of_first, of_end;
    while (token_at(w, w->at + 1)->kind == TOKEN_NAME) w->at++;
    r->name = token_at(w, w->at++)->name, r->step = 1;
    if (r->name < 0 || !take(w, "=")) return false;
    if (!value_here(w, &r->first, &of_first) || !take(w, ";")) return false;
    if (token_at(w, w->at++)->name != r->name) return false;
    bool is_closed = is_here(w, "<=");
    if (!is_closed && !is_here(w, "<")) return false;
    w->at++;
    if (!value_here(w, &r->end, &of_end) || !take(w, ";")) return false;
    r->end += is_closed;
    r->outermost = of_first < of_end ? of_first : of_end;
    bool is_before = take(w, "++");
    if (token_at(w, w->at++)->name != r->name) return false;
    if (!is_before && take(w, "+="))
        return value_here(w, &r->step, &of_end) && take(w, ")") && r->step > 0;
    return (is_before || take(w, "++")) && take(w, ")");
}

static int64_t steps_of(const range *r) {
    return r->end > r->first ? (r->end - r->first + r->step - 1) / r->step : 0;
}

/* The body once, for any value. */
static void any_step(walk *w, int name, bool is_certain) {
    int from = w->found.count, place = w->things.count;
    enter(w, (thing){.name = name, .kind = THING_UNKNOWN});
    w->unsure += !is_certain;
    unset_loop_begins(w);
    branch(w);
    unset_loop_ends(w);
    w->unsure -= !is_certain;
    leave(w, place);
    if (!is_certain) forget_skipped(w, from, w->found.count, place);
}

/* The body with each value. False: the body changes the variable. */
static bool all_steps(walk *w, const range *r) {
    int place = w->things.count, body = w->at;
    int64_t steps = steps_of(r);
    thing t = {.name = r->name, .kind = THING_NUMBER, .outermost = r->outermost};
    if (steps > 1 && place < t.outermost) t.outermost = place;
    bool is_good = true;
    unset_loop_begins(w);
    for (int64_t i = 0; is_good && i < steps && w->steps < STEPS_MAX; i++) {
        t.value = r->first + i * r->step;
        enter(w, t);
        w->at = body;
        branch(w);
        is_good = w->things.items[place].kind == THING_NUMBER;
        leave(w, place);
    }
    unset_loop_ends(w);
    return is_good;
}

static void loop(walk *w) {
    int from = w->found.count, jumps = w->jumps, begin = w->at++, place = w->things.count;
    range r = {.name = -1};
    bool is_known = header(w, &r) && !w->skipped && steps_of(&r) <= LOOP_STEPS_MAX;
    int body = w->at;
    if (is_known && steps_of(&r) == 0) skip(w);
    else if (is_known && !all_steps(w, &r)) {
        w->at = body;
        any_step(w, r.name, true);
    } else if (!is_known) {
        w->at = begin + 1;
        skip_parentheses(w);
        for (int i = begin; i < w->at; i++)
            enter(w, (thing){.name = token_at(w, i)->name, .kind = THING_UNKNOWN});
        any_step(w, r.name, false);
    }
    leave(w, place);
    if (w->jumps != jumps) forget_skipped(w, from, w->found.count, place + 1);
}

/* What a statement's words say of the names that it declares. */
typedef struct declaration {
    bool is_found;    /* there is one */
    bool is_constant; /* of a number */
    bool is_kept;     /* outlives its block, or is shared: others write it */
    bool is_plain;    /* of a type that has no value of its own */
} declaration;

/* A name that a declaration makes: a variable, a constant, or something else. */
static void declare(walk *w, const declaration *d) {
    int at = w->at++;
    thing t = {.name = token_at(w, at)->name, .kind = THING_ARRAY, .outermost = NO_LOOP};
    bool is_array = is_here(w, "[");
    while (take(w, "[")) {
        int outermost;
        bool is_known =
            t.dimensions < DIMENSIONS_MAX && index_here(w, &t.lengths[t.dimensions], &outermost);
        if (!is_known) t.kind = THING_UNKNOWN;
        else t.dimensions++;
    }
    int after = w->at, end = w->at;
    bool is_open = is_here(w, ";") || is_here(w, ",");
    if (!is_array && (!is_open || !d->is_plain)) t.kind = THING_UNKNOWN;
    while (token_at(w, end)->kind != TOKEN_END && !strchr(",;", *token_at(w, end)->text.data))
        end++;
    if (!is_array && d->is_constant && take(w, "=") &&
        value_before(w, token_at(w, end), &t.value, &t.outermost))
        t.kind = THING_NUMBER;
    w->at = after;
    if (t.kind == THING_ARRAY && is_open && d->is_plain && !d->is_kept) unset_declare(w, &t, at);
    enter(w, t);
}

/* Whether a name is given another value here. */
static bool is_changed(const walk *w, int at) {
    static const char *const signs[] = {
        "=", "++", "--", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^="};
    bool is_found = is_at(w, at - 1, "++") || is_at(w, at - 1, "--") || is_at(w, at - 1, "&");
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        is_found |= str_is(token_at(w, at + 1)->text, signs[i]);
    return is_found;
}

/* What is in braces within a statement: a function, a lambda, a type, numbers. Its parameters hide
 * what has their names.
 */
static void inner_block(walk *w, int begin) {
    int count = w->things.count, foreign = w->foreign;
    walk_scope scope = w->scope;
    w->scope = SCOPE_CODE, w->foreign = count;
    for (int i = begin, deep = 0; i < w->at; i++) {
        const token *t = token_at(w, i);
        deep += token_is(t, "(") - token_is(t, ")");
        if (!deep && token_means(&w->tokens, t, WORD_TYPE)) w->scope = SCOPE_TYPE;
        if (deep > 0) enter(w, (thing){.name = t->name, .kind = THING_UNKNOWN});
    }
    block(w);
    leave(w, count);
    w->scope = scope, w->foreign = foreign;
}

static void word_of_declaration(const walk *w, const token *t, declaration *d) {
    d->is_constant |= token_means(&w->tokens, t, WORD_CONSTANT);
    d->is_kept |= token_means(&w->tokens, t, WORD_KEPT);
    d->is_plain |= !d->is_found && token_means(&w->tokens, t, WORD_PLAIN);
}

enum { BRACKETS_MAX = 32 };

/* Round brackets that are open; NULL: there is none, or there are too many. */
typedef struct open_brackets {
    bracket items[BRACKETS_MAX];
    int count;
} open_brackets;

static void count_brackets(const walk *w, open_brackets *open) {
    if (is_here(w, "(")) {
        const token *before = token_at(w, w->at - 1);
        if (open->count < BRACKETS_MAX) open->items[open->count] = (bracket){before->name, 0};
        open->count++;
    } else if (is_here(w, ")")) open->count--;
    else if (is_here(w, ",") && open->count > 0 && open->count <= BRACKETS_MAX)
        open->items[open->count - 1].argument++;
}

/* A name within a statement: declared, or used. */
static void name_here(walk *w, int begin, declaration *d, bool is_certain,
                      const open_brackets *open) {
    const token *t = token_at(w, w->at), *last = token_at(w, w->at - 1);
    bool is_inside = open->count > 0;
    bool follows_type =
        w->at > begin && last->kind == TOKEN_NAME && !token_means(&w->tokens, last, WORD_NO_TYPE);
    bool follows_other = d->is_found && token_is(last, ",");
    if (!is_inside && (follows_type || follows_other) &&
        token_at(w, w->at + 1)->kind == TOKEN_SIGN) {
        declare(w, d);
        d->is_found = true;
        return;
    }
    word_of_declaration(w, t, d);
    thing *known = find(w, t);
    if (known && known->kind == THING_NUMBER && is_changed(w, w->at))
        known->kind = THING_UNKNOWN, w->jumps++;
    bool is_known = open->count > 0 && open->count <= BRACKETS_MAX;
    access(w, is_certain, is_known ? &open->items[open->count - 1] : NULL);
}

/* Whether a name is bound to something, to be changed by it later: float &x = a[i]. */
static bool binds(const walk *w, int at) {
    return (is_at(w, at, "&") || is_at(w, at, "&&")) && token_at(w, at + 1)->kind == TOKEN_NAME &&
           is_at(w, at + 2, "=");
}

static void plain(walk *w) {
    int begin = w->at;
    bool is_certain = true, was_bound = w->is_bound;
    w->is_bound = false;
    declaration d = {0};
    open_brackets open = {.count = 0};
    while (!is_ended(w) && !(open.count <= 0 && (is_here(w, "}") || is_here(w, ";")))) {
        if (is_here(w, "?") || is_here(w, "&&") || is_here(w, "||")) is_certain = false;
        w->is_bound |= binds(w, w->at);
        w->steps++;
        count_brackets(w, &open);
        if (is_here(w, "{")) {
            inner_block(w, begin);
            bool goes_on = strchr(";,).([=}", *token_at(w, w->at)->text.data) != NULL;
            if (!goes_on) break;
        } else if (token_at(w, w->at)->kind != TOKEN_NAME) w->at++;
        else name_here(w, begin, &d, is_certain, &open);
    }
    (void)take(w, ";");
    unset_statement_ends(w);
    w->is_bound = was_bound;
}

static void statement(walk *w) {
    bool is_case = is_here(w, "case") || is_here(w, "default");
    if (w->depth > DEPTH_MAX) return;
    w->steps++;
    w->jumps += token_means(&w->tokens, token_at(w, w->at), WORD_JUMP);
    bool is_macro = token_at(w, w->at)->kind == TOKEN_NAME && is_at(w, w->at + 1, "for");
    w->at += is_macro; /* FTL_UNROLL for (...) */
    if (is_here(w, "{")) block(w);
    else if (take(w, "if")) condition(w);
    else if (is_here(w, "for")) loop(w);
    else if (take(w, "while")) skip_parentheses(w), maybe(w, true);
    else if (take(w, "switch")) skip_parentheses(w), maybe(w, false);
    else if (is_case) {
        while (!is_ended(w) && !take(w, ":")) w->at++;
        w->jumps++;
    } else if (take(w, "do")) maybe(w, true);
    else if (take(w, "else")) maybe(w, false);
    else plain(w);
}

/* --- findings --------------------------------------------------------------------------------- */

static diag_range range_of(const walk *w, int at) {
    str name = token_at(w, at)->text;
    uint32_t begin = (uint32_t)(name.data - w->text.data);
    return (diag_range){begin, begin + (uint32_t)name.length};
}

/* One finding for an array: the rest go with it. */
static void report_excesses(walk *w) {
    for (int i = 0; i < w->found.count; i++) {
        const excess *e = &w->found.items[i];
        const token *name = token_at(w, e->at);
        bool is_said = false;
        for (int k = 0; k < i; k++)
            is_said |= token_at(w, w->found.items[k].at)->name == name->name;
        if (is_said) continue;
        diag_report(w->diags, DIAG_DEVICE_ARRAY, range_of(w, e->at), name->text,
                    str_format(w->diags->memory, "%lld", (long long)e->index),
                    str_format(w->diags->memory, "%lld", (long long)e->length));
    }
}

static void report_unset(walk *w) {
    if (w->steps >= STEPS_MAX) return; /* writes may be among what was left out */
    for (int i = 0; i < w->unset.count; i++) {
        const unset *u = &w->unset.items[i];
        const token *name = token_at(w, u->at);
        bool is_said = false;
        for (int k = 0; k < i; k++)
            is_said |= token_at(w, w->unset.items[k].at)->name == name->name;
        if (!is_said) diag_report(w->diags, DIAG_DEVICE_UNSET, range_of(w, u->at), u->what);
    }
}

bool device_arrays_check(str text, diag_list *diags) {
    walk *w = arena_new(diags->memory, walk);
    int errors = diags->error_count;
    w->diags = diags, w->text = text;
    device_tokens_read(diags->memory, text, &w->tokens);
    w->latest = arena_array(diags->memory, int, w->tokens.name_count + 1);
    for (int i = 0; i < w->tokens.name_count; i++) w->latest[i] = -1;
    unset_start(w);
    while (!is_ended(w)) {
        statement(w);
        if (is_here(w, "}")) w->at++; /* one too many: the compiler's to say */
    }
    if (w->depth > DEPTH_MAX) return true;
    report_excesses(w);
    report_unset(w);
    return diags->error_count == errors;
}
