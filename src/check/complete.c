#include "check/rules.h"

#include "tl/tl.h"

typedef struct completeness {
    tl_kernel *kernel;
    arena *memory;
    diag_list *diags;
    bool has_several_roles, failed;
} completeness;

static void open_at(completeness *c, diag_id id, diag_range range, str name) {
    diag_report(c->diags, id, range, name);
    c->failed = true;
}

static void check_allocate(completeness *c, tl_statement *s) {
    const tl_allocation *a = &s->allocate;
    str name = a->name_count ? a->names[0] : STR("");
    if (a->space == TL_GLOBAL) return;
    if (a->type == TL_OPEN)
        open_at(c, DIAG_OPEN_TYPE, s->name_range.end ? s->name_range : s->range, name);
    for (int i = 0; i < a->shape.count; i++) {
        int64_t value;
        if (tl_known_integer(a->shape.items[i], &value)) continue;
        str text = tl_expr_text(c->memory, a->shape.items[i]);
        open_at(c, DIAG_OPEN_EXTENT, a->shape.items[i]->range, text);
    }
    if (a->space == TL_REGISTER && a->layout.kind == TL_LAYOUT_NONE) {
        open_at(c, DIAG_OPEN_LAYOUT, s->range, name);
    }
    if (a->space == TL_REGISTER && c->has_several_roles && !tl_role_of(s))
        open_at(c, DIAG_OPEN_OWNER, s->range, name);
    if (tl_is_vector_layout(&a->layout) && !a->layout.of)
        open_at(c, DIAG_OPEN_ROWS, a->layout.range, name);
    int64_t stages;
    if (a->stages &&
        (!tl_known_integer(a->stages, &stages) || stages < 1 || stages > MODEL_STAGES_MAX)) {
        str most = str_format(c->memory, "%d", MODEL_STAGES_MAX);
        open_at(c, DIAG_STAGES, a->stages->range, most);
    }
}

static void check_copy(completeness *c, tl_statement *s) {
    const tl_copy *copy = &s->copy;
    bool is_global = copy->from == TL_GLOBAL || copy->to == TL_GLOBAL;
    str name = copy->what ? copy->what->text : STR("");
    if (copy->is_async && !copy->atom.length)
        open_at(c, DIAG_OPEN_ATOM, s->range, STR("an async Copy"));
    if (!is_global) return;
    if (!copy->shape.count) open_at(c, DIAG_OPEN_COPY_SHAPE, s->range, name);
    const tl_expr *tensor = copy->to == TL_GLOBAL && copy->target ? copy->target : copy->what;
    const tl_axes *axes = tensor && tensor->symbol ? tensor->symbol->axes : NULL;
    bool has_index = axes && axes->count > copy->shape.count;
    if (has_index && copy->shape.count && !copy->place.is_given) {
        open_at(c, DIAG_OPEN_PLACE, s->range, name);
    }
}

static void check_compute(completeness *c, tl_statement *s) {
    const tl_compute *compute = &s->compute;
    if (compute->operation == TL_SOFTMAX || compute->operation == TL_ROW_TOP_K) {
        bool is_softmax = compute->operation == TL_SOFTMAX;
        open_at(c, is_softmax ? DIAG_OPEN_SOFTMAX : DIAG_OPEN_TOP, s->range, STR(""));
        return;
    }
    if (compute->operation == TL_GEMM && !compute->atom.length) {
        open_at(c, DIAG_OPEN_ATOM, s->range, STR("a product"));
    }
    bool needs_place = tl_expr_mentions_index(compute->condition);
    for (int i = 0; i < compute->operand_count; i++)
        needs_place |= tl_expr_mentions_index(compute->operands[i].value);
    if (needs_place && !compute->place.is_given) {
        open_at(c, DIAG_OPEN_COMPUTE_PLACE, s->range,
                str_from(tl_operation_name(compute->operation)));
    }
}

static void check_statement(completeness *c, tl_statement *s) {
    bool acts = s->kind == TL_COPY || s->kind == TL_COMPUTE || s->kind == TL_RESHAPE ||
                s->kind == TL_WAIT || s->kind == TL_RELEASE;
    if (acts && !tl_role_of(s)) {
        open_at(c, DIAG_OPEN_OUTSIDE, s->range, STR(""));
        return;
    }
    switch (s->kind) {
    case TL_INPUT:
    case TL_OUTPUT:
        if (s->parameter.type == TL_OPEN) {
            open_at(c, DIAG_OPEN_TYPE, s->name_range.end ? s->name_range : s->range,
                    s->parameter.name);
        }
        break;
    case TL_ALLOCATE: check_allocate(c, s); break;
    case TL_COPY: check_copy(c, s); break;
    case TL_COMPUTE: check_compute(c, s); break;
    case TL_HOLE: open_at(c, DIAG_OPEN_HOLE, s->range, STR("")); break;
    default: break;
    }
}

bool rules_complete(tl_kernel *kernel, arena *memory, diag_list *diags) {
    completeness c = {.kernel = kernel, .memory = memory, .diags = diags};
    bool has_grid = false;
    int roles = 0;
    for (tl_statement *s = kernel->body.first; s; s = s->next) {
        has_grid |= s->kind == TL_GRID;
        roles += s->kind == TL_ROLE;
    }
    c.has_several_roles = roles > 1;
    if (tl_is_sketch(kernel)) {
        open_at(&c, DIAG_OPEN_ROLE, kernel->range, kernel->name);
        return false;
    }
    if (!kernel->gpu.length) open_at(&c, DIAG_OPEN_GPU, kernel->range, kernel->name);
    if (!has_grid) open_at(&c, DIAG_OPEN_GRID, kernel->range, kernel->name);
    for (tl_statement *s = kernel->body.first; s; s = tl_next(s, NULL)) check_statement(&c, s);
    return !c.failed;
}
