/* Does a sketch store what a Mask has taken out in a type that has no infinity?
 *
 * Conversion to 8 bits saturates: what was left out would come back as a number, and nobody could
 * tell. The infinity is followed from its Mask through what is made of it, from loop to loop too.
 */
#include "check/rules.h"

#include <math.h>

typedef struct masked {
    const tl_symbol *tile;
    const tl_statement *mask; /* NULL: it has none any more */
} masked;

typedef struct following {
    arena *memory;
    LIST(masked) tiles;
} following;

static const tl_statement *mask_of(const following *f, const tl_expr *e) {
    for (int i = 0; e && e->kind == TL_NAME && i < f->tiles.count; i++)
        if (f->tiles.items[i].tile == e->symbol) return f->tiles.items[i].mask;
    return NULL;
}

static void set(following *f, const tl_expr *e, const tl_statement *mask) {
    if (!e || !e->symbol) return;
    for (int i = 0; i < f->tiles.count; i++) {
        if (f->tiles.items[i].tile != e->symbol) continue;
        f->tiles.items[i].mask = mask;
        return;
    }
    masked one = {e->symbol, mask};
    if (mask) list_push(f->memory, &f->tiles, one);
}

/* Does an infinite operand leave the operation infinite? Products and sums keep what they meet. */
static bool keeps(const tl_compute *c, int operand) {
    const tl_operation_facts *facts = tl_facts(c->operation);
    if (facts->gives_place) return false;
    if (!facts->of) return c->operation != TL_FILL;
    double x[3] = {1, 1, 1};
    x[operand] = -(double)INFINITY;
    return isinf(facts->of(x[0], x[1], x[2]));
}

static const tl_statement *made_of(const following *f, const tl_compute *c) {
    for (int i = 0; i < c->operand_count && i < 3; i++) {
        const tl_statement *mask = mask_of(f, c->operands[i].value);
        if (mask && keeps(c, i)) return mask;
    }
    return NULL;
}

static void follow_compute(following *f, const tl_statement *s) {
    const tl_compute *c = &s->compute;
    const tl_expr *first = c->operand_count ? c->operands[0].value : NULL;
    if (c->operation == TL_MASK) {
        if (c->operand_count == 1) set(f, first, s);
    } else if (c->operation == TL_SOFTMAX) {
        set(f, c->maximum, mask_of(f, first)); /* of a row that sees nothing */
        set(f, first, NULL);
    } else {
        const tl_statement *mask = made_of(f, c);
        if (c->values) set(f, c->values, mask);
        bool adds = c->target_kind == TL_ACCUMULATE;
        if (mask || !adds) set(f, tl_written_name(s), mask);
    }
}

static bool check_copy(const following *f, const tl_statement *s, diag_list *diags) {
    const tl_expr *what = s->copy.what, *to = s->copy.target ? s->copy.target : what;
    const tl_statement *mask = mask_of(f, what);
    const tl_symbol *output = to->symbol ? rules_output_of(to->symbol) : NULL;
    if (!mask || !output || !output->parameter) return true;
    tl_type type = output->parameter->parameter.type;
    if (tl_type_bytes(type) != 1) return true;
    str tile = mask->compute.operands[0].value->text;
    diag_report(diags, DIAG_SKETCH_LOST_INFINITY, s->range, output->name,
                str_from(tl_type_name(type)), tile);
    diag_report(diags, DIAG_SKETCH_MASKED, mask->range, tile);
    return false;
}

/* A loop twice, for what one round leaves the next; the loops of a deep nest once. */
static bool follow(following *f, tl_statement *first, int depth, diag_list *diags) {
    enum { DEPTH_MOST = 4 };
    for (tl_statement *s = first; s; s = s->next) {
        tl_block *body = tl_statement_body(s);
        int rounds = s->kind == TL_FOR && depth < DEPTH_MOST ? 2 : 1;
        for (int i = 0; body && i < rounds; i++)
            if (!follow(f, body->first, depth + 1, diags)) return false;
        if (s->kind == TL_COMPUTE) follow_compute(f, s);
        if (s->kind != TL_COPY) continue;
        if (s->copy.to != TL_GLOBAL) set(f, tl_copy_into(s), NULL);
        else if (!check_copy(f, s, diags)) return false;
    }
    return true;
}

bool rules_sketch_infinity(tl_kernel *kernel, arena *memory, diag_list *diags) {
    following f = {.memory = memory};
    return follow(&f, kernel->body.first, 0, diags);
}
