/* Which scores may lie far out, row by row; see far.h.
 *
 * A product alone, of ordinary operands, does not get there; what is added may, as the -1e9 of a
 * padded key, and what memory has. So the sums that lead to the scores are followed, term by term.
 * A slope times a distance is taken to stay near, since no model's gets there.
 */
#include "reason/far.h"
#include "reason/scalar.h"

#include <math.h>

enum {
    FAR_TILES_MAX = 16, /* that one tile is made of */
    FAR_LETS_MAX = 16,  /* that are resolved one in the other */
};
static const double FAR_FROM = 4194304; /* 2^22: steps of f32 are 1/2 from there on */
static const double MASKED_TO = -2e30;  /* from there on down a score is no score, exactly */

/* What a tile, or a term, is made of. */
typedef struct far_parts {
    bool is_far;
    bool is_score; /* a product is in it: what else it is multiplied by is a factor */
} far_parts;

typedef struct far_tile {
    str name;
    far_parts parts; /* of the statements that were read so far, which come first */
} far_tile;

typedef struct far_walk {
    reason *r;
    const tiles_list *tiles;
    far_tile seen[FAR_TILES_MAX];
    int seen_count, depth;
} far_walk;

static far_parts parts_of(far_walk *w, const tl_expr *e);
static far_parts parts_of_tile(far_walk *w, str name);

static far_parts both(far_parts a, far_parts b) {
    return (far_parts){a.is_far || b.is_far, a.is_score || b.is_score};
}

static bool type_reaches(tl_type type) {
    switch (type) {
    case TL_F32:
    case TL_BF16:
    case TL_I32: return true;
    default: return false;
    }
}

static bool is_no_memory(void *context, const tl_expr *e) {
    const far_walk *w = context;
    return e->kind != TL_ELEMENT && (e->kind != TL_NAME || !tiles_find(w->tiles, e->text));
}

/* A number for the whole tile times what the text alone says of a place: slope*(kv - q). */
static bool is_slope(far_walk *w, const tl_expr *a, const tl_expr *b) {
    double number;
    return scalar_is_uniform(w->r, w->tiles, a) && !scalar_number(w->r, a, &number) &&
           !scalar_number(w->r, b, &number) && tl_visit(b, is_no_memory, w);
}

static bool is_far_factor(far_walk *w, const tl_expr *e) {
    double number;
    return scalar_number(w->r, e, &number) && isfinite(number) && fabs(number) >= FAR_FROM;
}

static far_parts parts_of_product(far_walk *w, const tl_expr *a, const tl_expr *b) {
    far_parts left = parts_of(w, a), right = parts_of(w, b);
    if (left.is_score != right.is_score) return left.is_score ? left : right;
    if (is_far_factor(w, a) || is_far_factor(w, b)) return (far_parts){true, left.is_score};
    if (is_slope(w, a, b) || is_slope(w, b, a)) return (far_parts){false, left.is_score};
    return both(left, right);
}

static far_parts parts_of_name(far_walk *w, const tl_expr *e) {
    if (tiles_find(w->tiles, e->text)) return parts_of_tile(w, e->text);
    const tl_binding *let = edit_find_let(w->r->kernel, e->text, NULL);
    if (let && let->axes.count == 0 && w->depth < FAR_LETS_MAX) {
        w->depth++;
        far_parts parts = parts_of(w, let->value);
        w->depth--;
        return parts;
    }
    tl_tensor t;
    bool is_tensor = tl_find_tensor(w->r->kernel, e->text, &t) && !t.view;
    return (far_parts){is_tensor && type_reaches(tiles_tensor_type(w->r->kernel, e->text)), false};
}

static far_parts parts_of_call(far_walk *w, const tl_expr *e) {
    far_parts parts = {false, false};
    if (e->function == TL_FUNCTION_LOG) return parts;
    bool selects = e->function == TL_FUNCTION_SELECT;
    for (int i = selects ? 1 : 0; i < e->item_count; i++)
        parts = both(parts, parts_of(w, e->items[i]));
    return parts;
}

static far_parts parts_of(far_walk *w, const tl_expr *e) {
    double number;
    if (scalar_number(w->r, e, &number))
        return (far_parts){isfinite(number) && number > MASKED_TO && fabs(number) >= FAR_FROM,
                           false};
    switch (e->kind) {
    case TL_NAME: return parts_of_name(w, e);
    case TL_ELEMENT:
        if (tiles_find(w->tiles, e->text)) return parts_of_tile(w, e->text);
        return (far_parts){type_reaches(tiles_tensor_type(w->r->kernel, e->text)), false};
    case TL_CALL: return parts_of_call(w, e);
    case TL_NEGATE: return parts_of(w, e->left);
    case TL_BINARY:
        if (e->operator>= TL_LESS) return (far_parts){false, false};
        if (e->operator== TL_TIMES) return parts_of_product(w, e->left, e->right);
        if (e->operator== TL_OVER) return parts_of(w, e->left);
        return both(parts_of(w, e->left), parts_of(w, e->right));
    default: return (far_parts){false, false};
    }
}

/* What a Compute puts into its target; numbers of rows, as a maximum, are no terms of their own. */
static far_parts parts_of_compute(far_walk *w, const tl_statement *s) {
    const tl_compute *c = &s->compute;
    far_parts parts = {false, edit_is_product(s)};
    if (parts.is_score) return parts;
    if (c->operation == TL_MULTIPLY)
        return parts_of_product(w, c->operands[0].value, c->operands[1].value);
    int first = 0;
    if (c->operation == TL_MULTIPLY_ADD) {
        parts = parts_of_product(w, c->operands[0].value, c->operands[1].value);
        first = 2;
    }
    for (int i = first; i < c->operand_count; i++)
        parts = both(parts, parts_of(w, c->operands[i].value));
    if (tl_facts(c->operation)->levels_off) parts.is_far = false;
    return parts;
}

static bool is_reduced(const reason *r, str name) {
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL))
        if (s->kind == TL_COMPUTE && edit_writes(s, name) &&
            tl_operation_shape(s->compute.operation) == TL_SHAPE_REDUCTION)
            return true;
    return false;
}

/* What a statement leaves in its target. Scores that memory has are scores as a product's are, but
 * may be anything that their type holds.
 */
static far_parts parts_of_statement(far_walk *w, const tl_statement *s) {
    if (s->kind == TL_COMPUTE) return parts_of_compute(w, s);
    if (s->kind != TL_COPY || s->copy.from != TL_GLOBAL) return (far_parts){false, false};
    bool reaches = type_reaches(tiles_tensor_type(w->r->kernel, s->copy.what->text));
    return (far_parts){reaches, edit_writes(s, w->seen[0].name)};
}

static far_parts parts_of_tile(far_walk *w, str name) {
    for (int i = 0; i < w->seen_count; i++)
        if (str_equal(w->seen[i].name, name)) return w->seen[i].parts;
    if (is_reduced(w->r, name)) return (far_parts){false, false};
    if (w->seen_count == FAR_TILES_MAX) return (far_parts){true, false};
    far_tile *tile = &w->seen[w->seen_count++];
    *tile = (far_tile){.name = name};
    for (tl_statement *s = w->r->kernel->body.first; s; s = tl_next(s, NULL))
        if (edit_writes(s, name)) tile->parts = both(tile->parts, parts_of_statement(w, s));
    return tile->parts;
}

bool far_is_reached(reason *r, const tiles_list *tiles, str scores) {
    far_walk w = {.r = r, .tiles = tiles};
    return parts_of_tile(&w, scores).is_far;
}

bool far_is_maximum(const reason *r, str tile) {
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL))
        if (edit_is_compute(s, TL_ROW_MAX) && edit_writes(s, tile)) return true;
    return false;
}
