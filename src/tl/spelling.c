/* Names as the reader takes them, made canonical: sQ, rS, gA; O_reg; a place said twice (Copy
 * Q_shared from shared); Wait K where only K_shared can be meant.
 *
 * Each step looks only at names that the steps before it have settled, so that reading a settled
 * program changes nothing.
 */
#include "tl/parse.h"

#include <stdlib.h>
#include <string.h>

enum {
    IS_DECLARED = 1,
    IS_VARIABLE = 2, /* a tensor or a tile, not an index or a constant */
    IS_OUTPUT = 4,
    IN_GLOBAL = 8,
    IN_SHARED = 16,
    IN_REGISTER = 32,
};

/* What is known of a name of the kernel. */
typedef struct fact {
    str name;
    unsigned flags;
    str base; /* of a view: the variable it shows */
} fact;

typedef struct facts {
    arena *memory;
    LIST(fact) list;
} facts;

static unsigned flag_of(tl_space space) {
    return space == TL_NOWHERE ? 0 : (unsigned)IN_GLOBAL << (space - TL_GLOBAL);
}

/* --- what is known ---------------------------------------------------------------------------- */

static void note(facts *f, str name, unsigned flags) {
    list_push(f->memory, &f->list, ((fact){name, flags, {0}}));
}

static int by_name(const void *a, const void *b) {
    str x = ((const fact *)a)->name, y = ((const fact *)b)->name;
    size_t shorter = x.length < y.length ? x.length : y.length;
    int order = memcmp(x.data, y.data, shorter);
    return order ? order : (x.length > y.length) - (x.length < y.length);
}

/* Sorts the facts and joins those of one name. */
static void settle_facts(facts *f) {
    if (f->list.count == 0) return;
    qsort(f->list.items, (size_t)f->list.count, sizeof *f->list.items, by_name);
    int kept = 0;
    for (int i = 1; i < f->list.count; i++) {
        fact *last = &f->list.items[kept], *next = &f->list.items[i];
        if (!str_equal(last->name, next->name)) {
            f->list.items[++kept] = *next;
            continue;
        }
        last->flags |= next->flags;
        if (next->base.length) last->base = next->base;
    }
    f->list.count = kept + 1;
}

static const fact *find(const facts *f, str name) {
    static const fact unknown = {0};
    fact key = {.name = name};
    const fact *found = NULL;
    if (f->list.count) {
        found = bsearch(&key, f->list.items, (size_t)f->list.count, sizeof key, by_name);
    }
    return found ? found : &unknown;
}

static void note_axes(facts *f, const tl_axes *axes) {
    for (int i = 0; i < axes->count; i++) {
        const tl_expr *coordinate = axes->items[i].coordinate;
        if (coordinate->kind == TL_NAME) note(f, coordinate->text, IS_DECLARED);
    }
}

static void note_let(facts *f, const tl_statement *s) {
    for (int i = 0; i < s->let.count; i++) {
        const tl_binding *b = &s->let.items[i];
        bool is_view = b->axes.count > 0;
        note(f, b->name, IS_DECLARED | (is_view ? IS_VARIABLE | IN_GLOBAL : 0));
        if (is_view && b->value->kind == TL_ELEMENT) {
            f->list.items[f->list.count - 1].base = b->value->text;
        }
        note_axes(f, &b->axes);
    }
}

static void note_declaration(facts *f, const tl_statement *s) {
    switch (s->kind) {
    case TL_INPUT:
    case TL_OUTPUT: {
        unsigned place = s->parameter.axes.count ? IS_VARIABLE | IN_GLOBAL : 0;
        note(f, s->parameter.name, IS_DECLARED | place | (s->kind == TL_OUTPUT ? IS_OUTPUT : 0));
        note_axes(f, &s->parameter.axes);
        break;
    }
    case TL_LET: note_let(f, s); break;
    case TL_GRID:
        for (int i = 0; i < s->grid.count; i++) note(f, s->grid.items[i].name, IS_DECLARED);
        break;
    case TL_ALLOCATE:
        for (int i = 0; i < s->allocate.name_count; i++) {
            note(f, s->allocate.names[i], IS_DECLARED | IS_VARIABLE | flag_of(s->allocate.space));
        }
        break;
    case TL_ROLE:
        for (int i = 0; i < s->role.turn_count; i++) note(f, s->role.turns[i], IS_DECLARED);
        break;
    case TL_FOR: note(f, s->loop.name, IS_DECLARED); break;
    default: break;
    }
}

static void note_result(facts *f, const tl_statement *s) {
    if (s->kind == TL_COPY) {
        note(f, s->copy.what->text, IS_VARIABLE | flag_of(s->copy.from));
        const tl_expr *target = tl_copy_into(s);
        note(f, target->text, IS_VARIABLE | flag_of(s->copy.to));
    } else if (s->kind == TL_COMPUTE && s->compute.target) {
        str base = s->compute.target->text;
        note(f, base, IS_VARIABLE);
        if (tl_cut_place(&base) == TL_NOWHERE) note(f, base, IN_REGISTER);
    }
}

static void learn(facts *f, tl_kernel *kernel, void (*note_one)(facts *, const tl_statement *)) {
    for (tl_statement *s = kernel->body.first; s; s = tl_next(s, NULL)) note_one(f, s);
    settle_facts(f);
}

/* --- repairing -------------------------------------------------------------------------------- */

/* `Allocate Q_shared in shared`, `Copy Q_shared from shared`: the place is said once. */
static str without_place(str name, tl_space here, tl_space there) {
    str base = name;
    tl_space said = tl_cut_place(&base);
    return said != TL_NOWHERE && (said == here || said == there) ? base : name;
}

static void repair_places(facts *f, tl_statement *s) {
    (void)f;
    if (s->kind == TL_ALLOCATE) {
        tl_allocation *a = &s->allocate;
        for (int i = 0; i < a->name_count; i++) {
            a->names[i] = without_place(a->names[i], a->space, a->space);
        }
    } else if (s->kind == TL_COPY) {
        tl_copy *c = &s->copy;
        c->what->text = without_place(c->what->text, c->from, c->to);
        if (c->target) c->target->text = without_place(c->target->text, c->to, c->to);
        bool says_nothing = c->target_kind == TL_GET && str_equal(c->what->text, c->target->text);
        if (says_nothing) {
            c->target = NULL;
            c->target_kind = TL_NO_TARGET;
        }
    }
}

/* sQ, rS, gA where only Q, S, A are known; O_reg. */
static str repair_name(const facts *f, str name) {
    if (find(f, name)->flags & IS_DECLARED) return name;
    str base = name;
    if (tl_cut_place(&base) != TL_NOWHERE) return name;
    if (name.length > 4 && str_ends(name, STR("_reg"))) {
        return str_format(f->memory, "%.*sister", STR_ARGS(name));
    }
    bool has_prefix = name.length > 1 && strchr("srg", name.data[0]) && name.data[1] >= 'A' &&
                      name.data[1] <= 'Z';
    if (!has_prefix) return name;
    str rest = {name.data + 1, name.length - 1};
    unsigned flags = find(f, rest)->flags;
    if (!(flags & IS_VARIABLE)) return name;
    if (name.data[0] == 's') return str_format(f->memory, "%.*s_shared", STR_ARGS(rest));
    bool has_other_place = flags & (IN_GLOBAL | IN_SHARED);
    if (name.data[0] == 'g' || !has_other_place) return rest;
    return str_format(f->memory, "%.*s_register", STR_ARGS(rest));
}

static void repair_expr(void *context, tl_expr *e) {
    if (e->kind == TL_NAME || e->kind == TL_ELEMENT) e->text = repair_name(context, e->text);
}

static void repair_names(facts *f, tl_statement *s) {
    tl_each_expr(s, repair_expr, f);
    if (s->kind == TL_ALLOCATE && s->allocate.in_place_of.length) {
        s->allocate.in_place_of = repair_name(f, s->allocate.in_place_of);
    }
}

/* `Wait K`, `Release K`: with its place, where K has several and only one can be meant. */
static void repair_wait(facts *f, tl_statement *s) {
    if (s->kind != TL_WAIT && s->kind != TL_RELEASE) return;
    str name = s->sync.what->text;
    const fact *known = find(f, name);
    bool has_places = (known->flags & IN_GLOBAL) && !(known->flags & IS_OUTPUT);
    if (!has_places) return;
    unsigned flags = known->flags;
    /* A view goes where its base goes. */
    enum { LONGEST_CHAIN = 16 };
    for (int i = 0; i < LONGEST_CHAIN && known->base.length; i++) {
        known = find(f, known->base);
        flags |= known->flags & IN_SHARED;
    }
    bool in_shared = flags & IN_SHARED, in_register = flags & IN_REGISTER;
    if (in_shared == in_register) return;
    s->sync.what->text = str_format(f->memory, "%.*s_%s", STR_ARGS(name),
                                    tl_space_name(in_shared ? TL_SHARED : TL_REGISTER));
}

static void repair(facts *f, tl_kernel *kernel, void (*repair_one)(facts *, tl_statement *)) {
    for (tl_statement *s = kernel->body.first; s; s = tl_next(s, NULL)) repair_one(f, s);
}

void spelling_settle(tl_program *program) {
    for (tl_kernel *kernel = program->first; kernel; kernel = kernel->next) {
        facts declared = {.memory = program->memory};
        repair(&declared, kernel, repair_places);
        learn(&declared, kernel, note_declaration);
        learn(&declared, kernel, note_result);
        repair(&declared, kernel, repair_names);
        repair(&declared, kernel, repair_places);
        facts settled = {.memory = program->memory};
        learn(&settled, kernel, note_declaration);
        learn(&settled, kernel, note_result);
        repair(&settled, kernel, repair_wait);
    }
}
