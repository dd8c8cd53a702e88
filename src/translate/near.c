/* Functions that are polynomials near 0.
 *
 * tanh takes two special functions an element, which a kernel whose products run beside its
 * elements has no time for. Where all arguments of a warp are small, as scores far below their cap
 * are, a polynomial is good enough for what is rounded to 16 bits in the end: the arguments'
 * largest is found, a vote of the warp says how far out the polynomial must reach, and only beyond
 * 1 is the function itself worked out. A factor that the statement before multiplies with goes into
 * the coefficients.
 */
#include "translate/elements.h"

enum { TERMS_MAX = 5 };

/* An odd polynomial: x (c0 + c1 x^2 + ...), by a wrapper that is named after how many terms it has;
 * relative error below 2.3e-5 and 7e-6 up to |x| = 'reach'.
 */
typedef struct near_form {
    const char *reach;
    int terms;
    const char *coefficients[TERMS_MAX];
} near_form;

static const near_form tanh_forms[] = {
    {"0.5f", 3, {"0.999977434f", "-0.331691487f", "0.115209687f"}},
    {"1.0f",
     5,
     {"0.999993089f", "-0.332980644f", "0.130368078f", "-0.0448175026f", "0.0090363987f"}},
};

static bool is_of_itself(const elements_item *x, tl_operation operation) {
    const tl_compute *c = &x->s->compute;
    return c->operation == operation && c->target_kind == TL_GET && x->target == x->frame &&
           x->read_count == 1 && x->reads[0] == x->target;
}

/* The scalar that the statement multiplies its tile with; NULL: it does something else. */
static const tl_expr *factor_of(emit *t, const elements_item *x) {
    const tl_compute *c = &x->s->compute;
    if (!is_of_itself(x, TL_MULTIPLY) || elements_use_places(x)) return NULL;
    int tile = emit_tile_of(t, c->operands[0].value) == x->target ? 0 : 1;
    const tl_expr *factor = c->operands[1 - tile].value;
    return emit_tile_of(t, factor) ? NULL : factor;
}

/* --- who takes the results -------------------------------------------------------------------- */

/* A tile that is looked for in expressions. */
typedef struct wanted {
    emit *t;
    const emit_tile *tile;
} wanted;

static bool finds_no_tile(void *context, const tl_expr *e) {
    const wanted *w = context;
    return emit_tile_of(w->t, e) != w->tile;
}

static bool reads_tile(emit *t, const tl_compute *c, const emit_tile *tile) {
    for (int i = 0; i < c->operand_count; i++)
        if (!tl_visit(c->operands[i].value, finds_no_tile, &(wanted){t, tile})) return true;
    return false;
}

static bool is_copied(emit *t, const emit_tile *tile) {
    for (tl_statement *s = t->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (s->kind != TL_COPY) continue;
        tl_end source = tl_copy_source(s);
        if (source.symbol && emit_tile_in(t, source.symbol, source.space) == tile) return true;
    }
    return false;
}

typedef LIST(const emit_tile *) followed;

/* Does all that the tile holds become 16-bit tiles, as the weights of a softmax do? What is made of
 * it is followed. Its rows may be added up where they are powers by then: the sum is what such
 * weights are divided by.
 */
static bool ends_in_16_bits(emit *t, const emit_tile *tile, followed *before) {
    bool is_power = false, is_summed = false;
    for (int i = 0; i < before->count; i++)
        if (before->items[i] == tile) return true;
    list_push(t->memory, before, tile);
    if (is_copied(t, tile)) return false;
    for (tl_statement *s = t->kernel->body.first; s; s = tl_next(s, NULL)) {
        const tl_compute *c = &s->compute;
        if (s->kind != TL_COMPUTE || !reads_tile(t, c, tile)) continue;
        const emit_tile *target = emit_target_of(t, s);
        if (target == tile) {
            is_power |= c->operation == TL_EXP || c->operation == TL_EXP2;
        } else if (tl_operation_shape(c->operation) == TL_SHAPE_REDUCTION) {
            is_summed |= tl_reduces_by_sum(c->operation);
            if (target && is_copied(t, target)) return false;
        } else if (!target ||
                   !(tl_type_bits(target->type) == 16 || ends_in_16_bits(t, target, before))) {
            return false;
        }
    }
    return is_power || !is_summed;
}

/* --- the text --------------------------------------------------------------------------------- */

/* The largest argument, before the factor. */
static void find_largest(emit *t, const emit_tile *tile, str most) {
    emit_text(t, "float %.*s = 0.0f;", STR_ARGS(most));
    int opened = emit_open_frame(t, &tile->shape);
    str a = emit_element(t, tile, &tile->shape, 0), b = emit_element(t, tile, &tile->shape, 1);
    emit_text(t, "%.*s = ftl_max(%.*s, ftl_max(ftl_abs(%.*s), ftl_abs(%.*s)));", STR_ARGS(most),
              STR_ARGS(most), STR_ARGS(a), STR_ARGS(b));
    emit_close_frame(t, opened);
}

static void work_out_near(emit *t, const emit_tile *tile, const near_form *form, str factor) {
    str coefficients = {0};
    if (factor.length) emit_text(t, "float power = %.*s;", STR_ARGS(factor));
    for (int i = 0; i < form->terms; i++) {
        str value = str_from(form->coefficients[i]);
        if (factor.length) value = emit_format(t, "ftl_multiply(%.*s, power)", STR_ARGS(value));
        emit_text(t, "const float term_%d = %.*s;", i, STR_ARGS(value));
        bool has_next = factor.length && i + 1 < form->terms;
        if (has_next)
            emit_text(t, "power = ftl_multiply(power, ftl_multiply(%.*s, %.*s));", STR_ARGS(factor),
                      STR_ARGS(factor));
        coefficients = emit_format(t, "%.*s, term_%d", STR_ARGS(coefficients), i);
    }
    int opened = emit_open_frame(t, &tile->shape);
    for (int e = 0; e < 2; e++) {
        str place = emit_element(t, tile, &tile->shape, e);
        emit_text(t, "%.*s = ftl_odd_%d(%.*s%.*s);", STR_ARGS(place), form->terms, STR_ARGS(place),
                  STR_ARGS(coefficients));
    }
    emit_close_frame(t, opened);
}

static void work_out(emit *t, const elements_item *const *items, int count) {
    int opened = emit_open_frame(t, &items[0]->frame->shape);
    for (int i = 0; i < count; i++)
        elements_statement(t, items[i], &(elements_mask){.x = items[i]});
    emit_close_frame(t, opened);
}

bool near_run(emit *t, const elements_item *const *items, int count) {
    const elements_item *last = items[count - 1];
    const emit_tile *tile = last->target;
    bool fits = tile->type == TL_F32 && tile->shape.part == PART_WHOLE && !tile->shape.is_lines;
    bool is_it = t->is_async && count <= 2 && is_of_itself(last, TL_TANH) && fits &&
                 ends_in_16_bits(t, tile, &(followed){0});
    const tl_expr *scale = is_it && count == 2 ? factor_of(t, items[0]) : NULL;
    if (!is_it || (count == 2 && (!scale || items[0]->target != tile))) return false;
    str most = emit_format(t, "%.*s_most", STR_ARGS(tile->name)), factor = {0};
    for (int i = 0; count > 1 && i < count; i++) emit_header(t, items[i]->s);
    emit_open(t, "{");
    find_largest(t, tile, most);
    if (scale) {
        emit_value v = emit_expression(t, scale, NULL);
        factor = STR("factor_of_run");
        emit_text(t, "const float %.*s = %.*s;", STR_ARGS(factor), STR_ARGS(emit_real(t, v)));
        emit_text(t, "%.*s = ftl_multiply(%.*s, ftl_abs(%.*s));", STR_ARGS(most), STR_ARGS(most),
                  STR_ARGS(factor));
    }
    enum { FORMS = sizeof tanh_forms / sizeof *tanh_forms };
    for (int i = 0; i < FORMS; i++) {
        emit_open(t, "if (__builtin_expect(!ftl_any(!(%.*s < %s)), %d)) {", STR_ARGS(most),
                  tanh_forms[i].reach, i == 0);
        work_out_near(t, tile, &tanh_forms[i], factor);
        emit_else(t);
    }
    work_out(t, items, count);
    for (int i = 0; i <= FORMS; i++) emit_close(t);
    return true;
}
