/* Does a sketch store what a Mask has taken out in a type that has no infinity?
 *
 * Conversion to 8 bits saturates: what was left out would come back as a number, and nobody could
 * tell. The infinity is followed from its Mask through what is made of it, from loop to loop too.
 */
#include "check/rules.h"

#include <math.h>

/* Does an infinite operand leave the operation infinite? Products and sums keep what they meet. */
static bool keeps(const tl_compute *c, int operand) {
    const tl_operation_facts *facts = tl_facts(c->operation);
    if (facts->gives_place) return false;
    if (!facts->of) return c->operation != TL_FILL;
    double x[3] = {1, 1, 1};
    x[operand] = -(double)INFINITY;
    return isinf(facts->of(x[0], x[1], x[2]));
}

static const tl_statement *made_of(const rules_notes *f, const tl_compute *c) {
    for (int i = 0; i < c->operand_count && i < 3; i++) {
        const tl_statement *mask = rules_noted(f, c->operands[i].value);
        if (mask && keeps(c, i)) return mask;
    }
    return NULL;
}

static void follow_compute(rules_notes *f, const tl_statement *s) {
    const tl_compute *c = &s->compute;
    const tl_expr *first = c->operand_count ? c->operands[0].value : NULL;
    if (c->operation == TL_MASK) {
        if (c->operand_count == 1) rules_note_tile(f, first, s);
    } else if (c->operation == TL_SOFTMAX) {
        rules_note_tile(f, c->maximum, rules_noted(f, first)); /* of a row that sees nothing */
        rules_note_tile(f, first, NULL);
    } else {
        const tl_statement *mask = made_of(f, c);
        if (c->values) rules_note_tile(f, c->values, mask);
        bool adds = c->target_kind == TL_ACCUMULATE;
        if (mask || !adds) rules_note_tile(f, tl_written_name(s), mask);
    }
}

static bool check_copy(const rules_notes *f, const tl_statement *s, diag_list *diags) {
    const tl_expr *what = s->copy.what, *to = s->copy.target ? s->copy.target : what;
    const tl_statement *mask = rules_noted(f, what);
    const tl_symbol *output = to->symbol ? rules_output_of(to->symbol) : NULL;
    if (!mask || !output || !output->parameter) return true;
    tl_type type = output->parameter->parameter.type;
    if (!tl_is_narrow(type)) return true;
    str tile = mask->compute.operands[0].value->text;
    diag_report(diags, DIAG_SKETCH_LOST_INFINITY, s->range, output->name,
                str_from(tl_type_name(type)), tile);
    diag_report(diags, DIAG_SKETCH_MASKED, mask->range, tile);
    return false;
}

/* A loop twice, for what one round leaves the next; the loops of a deep nest once. */
static bool follow(rules_notes *f, tl_statement *first, int depth, diag_list *diags) {
    enum { DEPTH_MOST = 4 };
    for (tl_statement *s = first; s; s = s->next) {
        tl_block *body = tl_statement_body(s);
        int rounds = s->kind == TL_FOR && depth < DEPTH_MOST ? 2 : 1;
        for (int i = 0; body && i < rounds; i++)
            if (!follow(f, body->first, depth + 1, diags)) return false;
        if (s->kind == TL_COMPUTE) follow_compute(f, s);
        if (s->kind != TL_COPY) continue;
        if (s->copy.to != TL_GLOBAL) rules_note_tile(f, tl_copy_into(s), NULL);
        else if (!check_copy(f, s, diags)) return false;
    }
    return true;
}

bool rules_sketch_infinity(tl_kernel *kernel, arena *memory, diag_list *diags) {
    rules_notes f = {.memory = memory};
    return follow(&f, kernel->body.first, 0, diags);
}
