/* What a sketch has to keep to, beside what all programs do.
 *
 * The maximum and the sum that a Softmax names are those of whole rows: in its loop they are not
 * known yet. Sketches leave layouts open. A text that spells out where its operands are (K_shared,
 * O_register) is TL Code in the making, and a product whose left operand is another product's
 * result needs its Reshape there.
 */
#include "check/rules.h"

/* --- layouts ---------------------------------------------------------------------------------- */

const tl_statement *rules_noted(const rules_notes *notes, const tl_expr *e) {
    for (int i = 0; e && e->kind == TL_NAME && i < notes->items.count; i++)
        if (notes->items.items[i].tile == e->symbol) return notes->items.items[i].by;
    return NULL;
}

void rules_note_tile(rules_notes *notes, const tl_expr *e, const tl_statement *by) {
    if (!e || !e->symbol) return;
    for (int i = 0; i < notes->items.count; i++) {
        if (notes->items.items[i].tile != e->symbol) continue;
        notes->items.items[i].by = by;
        return;
    }
    list_push(notes->memory, &notes->items, ((rules_note){e->symbol, by}));
}

static bool says_place(const tl_expr *e) {
    bool is_tile = e && e->kind == TL_NAME && e->symbol && e->symbol->kind == TL_SYMBOL_VARIABLE;
    return is_tile && !str_equal(e->text, e->symbol->name);
}

static bool names_places(tl_kernel *kernel) {
    for (tl_statement *s = kernel->body.first; s; s = tl_next(s, NULL)) {
        if (s->kind != TL_COMPUTE) continue;
        if (says_place(s->compute.target)) return true;
        for (int i = 0; i < s->compute.operand_count; i++) {
            if (says_place(s->compute.operands[i].value)) return true;
        }
    }
    return false;
}

static bool check_left(rules_notes *r, tl_statement *s, diag_list *diags) {
    const tl_operand *left = &s->compute.operands[0];
    const tl_statement *made = rules_noted(r, left->value);
    if (!made || left->is_transposed) return true;
    int line, column;
    diag_position(diags->source, made->range.begin, &line, &column);
    str name = left->value->text;
    diag_expected(diag_report(diags, DIAG_LAYOUT_OPERAND, left->value->range, STR("left"),
                              STR("mma_A"), name, STR("mma_C"),
                              str_format(r->memory, " since line %d", line)),
                  STR("mma_A"), STR("mma_C"));
    diag_report(diags, DIAG_LAYOUT_SINCE, made->range, name, STR("mma_C"));
    diag_report(diags, DIAG_INSERT_BEFORE, s->range,
                str_format(r->memory, "Reshape %.*s from mma_C to mma_A", STR_ARGS(name)));
    return false;
}

bool rules_sketch_layouts(tl_kernel *kernel, arena *memory, diag_list *diags) {
    if (!names_places(kernel)) return true;
    rules_notes r = {.memory = memory};
    bool right = true;
    for (tl_statement *s = kernel->body.first; s; s = tl_next(s, NULL)) {
        if (s->kind == TL_RESHAPE) {
            rules_note_tile(&r, s->reshape.what, s->reshape.to.kind == TL_MMA_C ? s : NULL);
        } else if (s->kind == TL_COPY) {
            rules_note_tile(&r, tl_copy_into(s), NULL);
        } else if (s->kind == TL_COMPUTE && s->compute.operation == TL_GEMM) {
            if (s->compute.operand_count) right &= check_left(&r, s, diags);
            if (!rules_noted(&r, s->compute.target)) rules_note_tile(&r, s->compute.target, s);
        } else if (s->kind == TL_COMPUTE && s->compute.target && s->compute.operand_count) {
            const tl_expr *from = s->compute.operands[0].value;
            bool same = from && s->compute.target->symbol == from->symbol;
            if (!same) rules_note_tile(&r, s->compute.target, rules_noted(&r, from));
        }
    }
    return right;
}

/* --- axes ------------------------------------------------------------------------------------- */

/* Where axes get lost: a copied tile in shared memory is changed as if it were in registers. Others
 * only follow.
 */
static bool is_made_of_itself(const tl_statement *s, const tl_expr *target) {
    bool is_made = false;
    for (int i = 0; i < s->compute.operand_count; i++)
        is_made |= tl_expr_mentions(s->compute.operands[i].value, target->symbol);
    return is_made && target->symbol->shared.exists;
}

bool rules_sketch_axes(tl_kernel *kernel, diag_list *diags) {
    const tl_expr *lost = NULL;
    bool is_own = false;
    for (tl_statement *s = kernel->body.first; s && !is_own; s = tl_next(s, NULL)) {
        const tl_expr *target = s->kind == TL_COMPUTE ? tl_written_name(s) : NULL;
        const tl_tile *tile = target ? tl_tile_of(target) : NULL;
        if (!tile || tile->axis_count) continue;
        is_own = is_made_of_itself(s, target);
        if (!lost || is_own) lost = target;
    }
    if (!lost) return true;
    diag_id id = is_own ? DIAG_SKETCH_NOT_THERE : DIAG_SKETCH_NO_AXES;
    diag_report(diags, id, lost->range, lost->text);
    return false;
}

/* --- the names of a Softmax ------------------------------------------------------------------- */

typedef struct early_use {
    const tl_compute *softmax;
    const tl_statement *loop;
    diag_list *diags;
    bool is_right;
} early_use;

static void find_early_use(void *context, tl_expr *e) {
    early_use *use = context;
    const tl_expr *const names[] = {use->softmax->maximum, use->softmax->sum};
    for (int i = 0; i < 2; i++) {
        if (!names[i] || !names[i]->symbol || e->symbol != names[i]->symbol) continue;
        diag_report(use->diags, DIAG_SKETCH_EARLY, e->range, e->text,
                    i == 0 ? STR("maximum") : STR("sum"), use->loop->loop.name);
        use->is_right = false;
    }
}

bool rules_sketch_softmax(tl_kernel *kernel, diag_list *diags) {
    bool right = true;
    for (tl_statement *s = kernel->body.first; s; s = tl_next(s, NULL)) {
        if (s->kind != TL_COMPUTE || s->compute.operation != TL_SOFTMAX) continue;
        early_use use = {.softmax = &s->compute, .diags = diags, .is_right = true};
        int axis;
        tl_softmax_axis(kernel, s, &use.loop, &axis);
        if (!use.loop || !s->compute.maximum) continue;
        tl_statement *loop = (tl_statement *)(uintptr_t)use.loop;
        for (tl_statement *t = loop->loop.body.first; t; t = tl_next(t, loop)) {
            if (t != s) tl_each_expr(t, find_early_use, &use);
        }
        right &= use.is_right;
    }
    return right;
}
