/* Which space, element type and instruction fits where. */
#include "atom/atom.h"
#include "check/rules.h"

typedef struct types {
    const model *model;
    const gpu *target;
    diag_list *diags;
    bool failed;
} types;

static diag *fail(types *t, diag_id id, diag_range range, str a, str b, str c) {
    t->failed = true;
    return diag_report(t->diags, id, range, a, b, c);
}

static str type_name(tl_type type) {
    return str_from(tl_type_name(type));
}

static bool is_float(tl_type type) {
    return type != TL_I32 && type != TL_OPEN;
}

/* --- what the GPU has ------------------------------------------------------------------------- */

static void need_feature(types *t, gpu_feature feature, diag_range range, str what) {
    if (!t->target || gpu_has(t->target, feature)) return;
    fail(t, DIAG_GPU_LACKS, range, what, t->target->title, str_from(gpu_feature_word(feature)));
}

static void check_declared_type(types *t, tl_type type, diag_range range) {
    if (type == TL_BF16) need_feature(t, GPU_FEATURE_bf16, range, STR("bf16"));
}

/* Numbers of 8 bits or 4 come to shared memory as they are, or to registers as lines, and pass
 * through registers on their way into a shared tile of 16 bits; or they are operands of a product
 * that takes them as they are, where the GPU has one. Wider ones become floats of 8 bits by an
 * instruction that not every GPU has.
 */
static void check_narrow_tile(types *t, const model_tile *tile) {
    if (!t->target || !tl_is_narrow(tile->type)) return;
    tl_layout_kind kind = tile->allocation->allocate.layout.kind;
    bool is_raw = tile->space == TL_SHARED || kind == TL_LINES;
    bool is_whole = tile->type == TL_I8;
    bool multiplies = !tl_is_packed(tile->type) &&
                      gpu_has(t->target, is_whole ? GPU_FEATURE_int8_mma : GPU_FEATURE_fp8_mma);
    bool is_operand = multiplies && (kind == TL_MMA_A || (kind == TL_MMA_C && !is_whole));
    if (tile->axis_count == 2 && (is_raw || is_operand)) return;
    fail(t, multiplies && !is_whole ? DIAG_TYPE_BYTE_TILE : DIAG_TYPE_BYTE, tile->declared,
         tile->name, type_name(tile->type), STR(""));
}

/* --- Copy ------------------------------------------------------------------------------------- */

static void report_unknown(types *t, const tl_statement *s, str name, bool of_copy) {
    fail(t, DIAG_ATOM_UNKNOWN, s->range, name, STR(""), STR(""));
    str known = atom_nearest(name, of_copy);
    if (known.length) diag_report(t->diags, DIAG_DID_YOU_MEAN, s->range, known);
}

static void check_way(types *t, const tl_statement *s, str atom, bool is_async, bool is_said) {
    if (is_async == is_said) return;
    fail(t, is_async ? DIAG_ATOM_IS_ASYNC : DIAG_ATOM_IS_NOT_ASYNC, s->range, atom, STR(""),
         STR(""));
}

static void check_copy_atom(types *t, const tl_statement *s) {
    const tl_copy *copy = &s->copy;
    if (!copy->atom.length) return;
    if (!atom_named_mover(copy->atom)) {
        report_unknown(t, s, copy->atom, true);
        return;
    }
    const atom_mover *atom = atom_find_mover(copy->atom, copy->from, copy->to);
    if (!atom) {
        fail(t, DIAG_ATOM_PLACES, s->range, copy->atom, str_from(tl_space_name(copy->from)),
             str_from(tl_space_name(copy->to)));
        return;
    }
    check_way(t, s, copy->atom, atom->is_async, copy->is_async);
    need_feature(t, atom->feature, s->range, copy->atom);
}

static tl_type type_of_end(const tl_end *end) {
    if (end->space != TL_GLOBAL) return end->tile ? end->tile->type : TL_OPEN;
    const tl_symbol *symbol = end->symbol;
    for (int deep = 0; symbol && !symbol->parameter && deep < 64; deep++)
        symbol = symbol->view_base;
    return symbol && symbol->parameter ? symbol->parameter->parameter.type : TL_OPEN;
}

static void check_copy(types *t, const tl_statement *s) {
    tl_end from = tl_copy_source(s), to = tl_copy_target(s);
    check_copy_atom(t, s);
    tl_type a = type_of_end(&from), b = type_of_end(&to);
    if (a == TL_OPEN || b == TL_OPEN) return;
    bool rounds = from.space == TL_REGISTER && is_float(a) && is_float(b);
    bool is_lines = from.tile && from.space == TL_REGISTER &&
                    from.tile->allocation->allocate.layout.kind == TL_LINES;
    bool moves = is_lines && (a == b || (to.space == TL_SHARED && tl_type_bits(b) == 16));
    if (tl_is_narrow(a) && from.space == TL_REGISTER && !moves) {
        fail(t, DIAG_TYPE_BYTE_WAY, s->range, s->copy.what->text, type_name(a), STR(""));
    } else if (tl_is_narrow(b) && from.space == TL_REGISTER && to.space == TL_SHARED && !moves) {
        fail(t, DIAG_TYPE_BYTE_INTO, s->range, type_name(a), type_name(b), STR(""));
    } else if (a != b && !rounds) {
        diag_expected(fail(t, DIAG_TYPE_COPY, s->range, type_name(a), type_name(b), STR("")),
                      type_name(a), type_name(b));
    }
    if (s->copy.target_kind != TL_ACCUMULATE) return;
    if (to.space != TL_GLOBAL) {
        str place = str_from(to.space == TL_SHARED ? "shared memory" : "registers");
        fail(t, DIAG_COPY_ADDS, s->range, place, STR(""), STR(""));
    } else if (b != TL_F32) {
        fail(t, DIAG_TYPE_ATOMIC, s->range, type_name(b), STR(""), STR(""));
    }
}

/* --- Compute ---------------------------------------------------------------------------------- */

static const model_use *operand_of(const model_step *step, int number) {
    const tl_operand *operand = &step->statement->compute.operands[number];
    for (int i = 0; i < step->read_count; i++) {
        if (step->reads[i].operand == operand) return &step->reads[i];
    }
    return NULL;
}

static void check_product_atom(types *t, const model_step *step, tl_type type) {
    const tl_statement *s = step->statement;
    str atom = s->compute.atom;
    int width;
    const atom_product *found = atom_find_product(atom, type, &width);
    if (!found) {
        const atom_product *named = atom_find_product(atom, TL_OPEN, NULL);
        if (!named) report_unknown(t, s, atom, false);
        else if (tl_type_bits(named->type) == tl_type_bits(type))
            fail(t, DIAG_ATOM_TYPE, s->range, atom, type_name(type), STR(""));
        else
            fail(t, DIAG_ATOM_OPERANDS, s->range, atom,
                 str_format(t->model->memory, "%d", tl_type_bits(named->type)),
                 str_format(t->model->memory, "%d", tl_type_bits(type)));
        return;
    }
    need_feature(t, found->feature, s->range, atom);
    check_way(t, s, atom, found->is_async, s->compute.is_async);
    if (found->n || !step->has_target) return;
    const model_tile *result = &t->model->tiles[step->target.tile];
    int64_t columns = result->axis_count == 2 ? result->axes[1].extent : 0;
    if (!atom_has_width(found, width) || (columns && columns % width)) {
        fail(t, DIAG_ATOM_WIDTH, s->range, atom,
             str_format(t->model->memory, "%lld", (long long)columns), STR(""));
    }
}

/* Of other operations a Mask alone has forms to choose from. */
static void check_mask_atom(types *t, const tl_statement *s) {
    str atom = s->compute.atom;
    bool is_known = s->compute.operation == TL_MASK && atom_mask_parts(atom);
    if (atom.length && !is_known) report_unknown(t, s, atom, false);
}

static void check_product(types *t, const model_step *step) {
    const tl_statement *s = step->statement;
    const model_use *a = operand_of(step, 0), *b = operand_of(step, 1);
    if (!a || !b) return; /* its axes were judged */
    const model_tile *left = &t->model->tiles[a->tile], *right = &t->model->tiles[b->tile];
    if (left->type != right->type) {
        diag_expected(fail(t, DIAG_TYPE_PRODUCT, s->range, type_name(left->type),
                           type_name(right->type), STR("")),
                      type_name(left->type), type_name(right->type));
        return;
    }
    if (left->type == TL_F32 || left->type == TL_I32 || tl_is_packed(left->type)) {
        fail(t, DIAG_TYPE_OPERANDS, a->range, a->name, type_name(left->type), STR(""));
        return;
    }
    tl_type sums = atom_sum_type(left->type);
    if (step->has_target && t->model->tiles[step->target.tile].type != sums) {
        diag_expected(fail(t, DIAG_TYPE_ACCUMULATOR, step->target.range, step->target.name,
                           type_name(t->model->tiles[step->target.tile].type), type_name(sums)),
                      type_name(sums), type_name(t->model->tiles[step->target.tile].type));
    } else if (step->accumulates && sums == TL_I32) {
        fail(t, DIAG_TYPE_WHOLE_SUM, s->range, step->target.name, STR(""), STR(""));
    }
    if (s->compute.atom.length) check_product_atom(t, step, left->type);
}

static void check_compute(types *t, const model_step *step) {
    const tl_compute *c = &step->statement->compute;
    if (c->operation == TL_GEMM) {
        check_product(t, step);
        return;
    }
    check_mask_atom(t, step->statement);
    if (step->has_target && step->accumulates && t->target &&
        tl_is_narrow(t->model->tiles[step->target.tile].type))
        fail(t, DIAG_TYPE_BYTE_WAY, step->statement->range, step->target.name,
             type_name(t->model->tiles[step->target.tile].type), STR(""));
    if (c->is_async) {
        fail(t, DIAG_ASYNC_ONLY_PRODUCTS, step->statement->range,
             str_from(tl_operation_name(c->operation)), STR(""), STR(""));
    }
    for (int i = 0; i < step->read_count; i++) {
        const model_use *use = &step->reads[i];
        tl_type type = t->model->tiles[use->tile].type;
        bool is_summed = tl_reduces_by_sum(c->operation) && !c->operands[0].is_transposed &&
                         t->model->tiles[use->tile].allocation->allocate.layout.kind != TL_LINES;
        if (tl_is_narrow(type) && !is_summed && t->target)
            fail(t, DIAG_TYPE_BYTE_WAY, step->statement->range, use->name, type_name(type),
                 STR(""));
        if (t->model->tiles[use->tile].space != TL_SHARED) continue;
        fail(t, DIAG_SPACE_OPERAND, use->range.end ? use->range : step->statement->range, use->name,
             str_from(tl_operation_name(c->operation)), STR(""));
        diag_report(t->diags, DIAG_COPY_TO_REGISTER, use->range, use->symbol->name);
    }
}

/* Warps vote each for itself, so a body under any(...) must not make them wait for one another. */
static void check_votes(types *t, const model_role *role) {
    bool is_warpgroups = role->statement->role.is_warpgroups;
    for (int i = 0; i < role->step_count && (role->executors > 1 || is_warpgroups); i++) {
        const model_step *vote = &role->steps[i];
        if (vote->kind != STEP_IF) continue;
        if (!model_is_vote(vote->statement->branch.condition)) continue;
        for (int k = i + 1; k < vote->other; k++) {
            const model_step *step = &role->steps[k];
            bool fills = step->kind == STEP_COPY && step->has_target &&
                         t->model->tiles[step->target.tile].space == TL_SHARED;
            bool waits = step->kind == STEP_WAIT &&
                         (step->subject == SUBJECT_CHANNEL || step->subject == SUBJECT_TURN);
            bool multiplies = is_warpgroups && step->kind == STEP_COMPUTE &&
                              step->statement->compute.operation == TL_GEMM;
            if (!fills && !waits && !multiplies) continue;
            fail(t, DIAG_VOTE_WAITS, step->statement->range, STR(""), STR(""), STR(""));
            diag_report(t->diags, DIAG_VOTE_HERE, vote->statement->range, STR(""));
            return;
        }
    }
}

bool check_parameters(const tl_kernel *kernel, const gpu *target, diag_list *diags) {
    types t = {.target = target, .diags = diags};
    for (const tl_statement *s = kernel->body.first; s; s = s->next) {
        if (s->kind != TL_INPUT && s->kind != TL_OUTPUT) continue;
        check_declared_type(&t, s->parameter.type, s->range);
        if (s->kind == TL_OUTPUT && tl_is_packed(s->parameter.type))
            fail(&t, DIAG_TYPE_PACKED_OUTPUT, s->range, s->parameter.name,
                 type_name(s->parameter.type), STR(""));
        else if (s->kind == TL_OUTPUT && tl_is_narrow(s->parameter.type) &&
                 s->parameter.type != TL_I8)
            need_feature(&t, GPU_FEATURE_fp8_mma, s->range, type_name(s->parameter.type));
    }
    return !t.failed;
}

bool rules_types(const model *m, const gpu *target, diag_list *diags) {
    types t = {m, target, diags, false};
    /* One report is enough: every tile has the type, too. */
    if (!check_parameters(m->kernel, target, diags)) return false;
    if (m->grid && m->grid->grid.is_early)
        need_feature(&t, GPU_FEATURE_early_launch, m->grid->range, STR("'early'"));
    if (m->grid && m->grid->grid.is_yielding)
        need_feature(&t, GPU_FEATURE_early_launch, m->grid->range, STR("'yielding'"));
    for (int i = 0; i < m->tile_count; i++) {
        check_declared_type(&t, m->tiles[i].type, m->tiles[i].declared);
        check_narrow_tile(&t, &m->tiles[i]);
        if (m->tiles[i].space == TL_SHARED && m->tiles[i].allocation->allocate.channel.length) {
            need_feature(&t, GPU_FEATURE_mbarrier, m->tiles[i].allocation->range, STR("mbarrier"));
        }
    }
    for (int r = 0; r < m->role_count; r++) {
        check_votes(&t, &m->roles[r]);
        for (int i = 0; i < m->roles[r].step_count; i++) {
            const model_step *step = &m->roles[r].steps[i];
            if (step->kind == STEP_COPY) check_copy(&t, step->statement);
            if (step->kind == STEP_COMPUTE) check_compute(&t, step);
        }
    }
    return !t.failed;
}
