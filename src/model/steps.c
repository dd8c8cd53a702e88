/* The steps of a role: statements with every operand resolved. */
#include "model/build.h"
#include "model/channels.h"

#include <string.h>

static model_use use_of(model_builder *b, const tl_symbol *symbol, tl_space space,
                        diag_range range) {
    model_use use = {.tile = -1, .cursor = -1, .symbol = symbol, .range = range};
    if (!symbol) return use;
    if (space == TL_NOWHERE) {
        space = symbol->in_register.exists ? TL_REGISTER : TL_SHARED;
        if (model_build_find(b->tiles.items, b->tiles.count, symbol, space) < 0) space = TL_SHARED;
    }
    if (space == TL_GLOBAL) return use;
    use.tile = model_build_find(b->tiles.items, b->tiles.count, symbol, space);
    if (use.tile < 0 || !b->tiles.items) return use;
    bool is_view = b->tiles.items[use.tile].symbol != symbol;
    use.name = is_view ? str_format(b->model->memory, "%.*s_shared", STR_ARGS(symbol->name))
                       : b->tiles.items[use.tile].name;
    if (space == TL_SHARED) use.cursor = model_build_cursor(b, b->role, use.tile, symbol);
    return use;
}

typedef struct reader {
    model_builder *b;
    model_step *step;
    const tl_operand *operand;
} reader;

static void add_read(model_builder *b, model_step *step, model_use use) {
    if (use.tile < 0) return;
    step->reads = b->reads;
    if (step->read_count < MODEL_READS_MAX) b->reads[step->read_count++] = use;
    else
        model_build_beyond(b, (model_limit){MODEL_READS_MAX, "this statement",
                                            "tiles that it reads", step->statement->range});
}

static bool read_names(void *context, const tl_expr *e) {
    reader *r = context;
    bool is_name = e->kind == TL_NAME || e->kind == TL_ELEMENT;
    if (!is_name || !e->symbol || e->symbol->kind != TL_SYMBOL_VARIABLE) return true;
    if (e->kind == TL_ELEMENT && e->space == TL_NOWHERE && e->symbol->parameter) return true;
    model_use use = use_of(r->b, e->symbol, e->space, e->range);
    use.operand = r->operand && r->operand->value == e ? r->operand : NULL;
    add_read(r->b, r->step, use);
    return true;
}

static void read_expr(model_builder *b, model_step *step, const tl_expr *e,
                      const tl_operand *operand) {
    tl_visit(e, read_names, &(reader){b, step, operand});
}

/* Which entry of the coordinate says where the target's axis begins. */
static void find_origins(model_builder *b, model_step *step, const tl_copy *copy) {
    const tl_axes *axes = copy->what->symbol->axes;
    if (!axes || step->target.tile < 0) return;
    const model_tile *tile = &b->tiles.items[step->target.tile];
    for (int k = 0; k < tile->axis_count; k++) {
        for (int i = 0; i < axes->count; i++) {
            const tl_expr *name =
                axes->items[i].coordinate ? axes->items[i].coordinate : axes->items[i].extent;
            if (!name || name->kind != TL_NAME || !str_equal(name->text, tile->axes[k].name))
                continue;
            step->origin_known[k] = true;
            bool given = i < copy->place.count && !copy->place.items[i].is_all;
            step->origins[k] = given ? &copy->place.items[i] : NULL;
        }
    }
}

enum { UNSWIZZLED_BYTES = 16 };

/* Of what the step touches in shared memory. */
static void note_panels(model_builder *b, const model_step *step) {
    for (int i = 0; i <= step->read_count; i++) {
        int tile = i < step->read_count ? step->reads[i].tile : step->target.tile;
        if (tile >= 0 && b->tiles.items[tile].space == TL_SHARED)
            b->tiles.items[tile].in_panels =
                b->tiles.items[tile].allocation->allocate.swizzle_bytes > UNSWIZZLED_BYTES;
    }
}

static void resolve_copy(model_builder *b, model_step *step) {
    const tl_copy *copy = &step->statement->copy;
    if (!copy->what || !copy->what->symbol) return;
    const tl_expr *to = copy->target ? copy->target : copy->what;
    tl_end source = tl_copy_source(step->statement), end = tl_copy_target(step->statement);
    step->is_async = copy->is_async;
    step->accumulates = copy->target_kind == TL_ACCUMULATE;
    if (copy->from == TL_GLOBAL) step->loads = copy->what->symbol;
    else add_read(b, step, use_of(b, source.symbol, copy->from, copy->what->range));
    if (copy->to == TL_GLOBAL) step->stores = to->symbol;
    else step->target = use_of(b, end.symbol, copy->to, to->range);
    step->has_target = step->target.tile >= 0;
    for (int i = 0; i < copy->place.count; i++) {
        const tl_spot *spot = &copy->place.items[i];
        read_expr(b, step, spot->at, NULL);
        const tl_symbol *block = spot->is_block && spot->at ? spot->at->symbol : NULL;
        if (block) b->model->is_block_index[block->position] = true;
    }
    if (tl_is_by_tma(copy)) note_panels(b, step);
    if (step->loads) find_origins(b, step, copy);
    if (step->has_target && copy->to == TL_SHARED) {
        model_tile *tile = &b->tiles.items[step->target.tile];
        if (tile->role < 0) tile->role = b->role;
        if (tl_is_by_tma(copy)) tile->by_tma = tile->uses_mbarrier = true;
    }
}

static void resolve_compute(model_builder *b, model_step *step) {
    const tl_compute *c = &step->statement->compute;
    step->is_async = c->is_async;
    step->accumulates = c->target_kind == TL_ACCUMULATE;
    for (int i = 0; i < c->operand_count; i++) {
        read_expr(b, step, c->operands[i].value, &c->operands[i]);
    }
    if (c->is_async) note_panels(b, step);
    read_expr(b, step, c->condition, NULL);
    step->contracted = -1;
    tl_product_axes product;
    if (c->operation == TL_GEMM && c->operand_count == 2 &&
        tl_product_of(&c->operands[0], &c->operands[1], &product)) {
        step->contracted = model_build_axis(b, product.contracted.index);
    }
    const tl_expr *target = tl_written_name(step->statement);
    if (target && target->symbol) {
        step->target = use_of(b, target->symbol, TL_REGISTER, target->range);
        step->has_target = step->target.tile >= 0;
    }
}

static void resolve_sync(model_builder *b, model_step *step) {
    const tl_expr *what = step->statement->sync.what;
    if (!what || !what->symbol) return;
    if (what->symbol->kind == TL_SYMBOL_TURN) {
        for (int i = 0; i < b->turns.count; i++) {
            if (b->turns.items[i].symbol != what->symbol) continue;
            step->subject = SUBJECT_TURN;
            step->turn = i;
        }
        return;
    }
    if (what->space == TL_GLOBAL) {
        step->subject = SUBJECT_STORES;
        step->stores = what->symbol;
        return;
    }
    step->what = use_of(b, what->symbol, what->space, what->range);
    if (step->what.tile < 0) return;
    bool is_shared = b->tiles.items[step->what.tile].space == TL_SHARED;
    step->subject = is_shared ? SUBJECT_CHANNEL : SUBJECT_REGISTER;
}

static bool finds_no_vote(void *context, const tl_expr *e) {
    (void)context;
    if (e->kind == TL_CALL && e->function == TL_FUNCTION_ANY) return false;
    const tl_symbol *s = e->kind == TL_NAME ? e->symbol : NULL;
    bool is_let = s && s->kind == TL_SYMBOL_CONSTANT && s->value;
    return !is_let || tl_visit(s->value, finds_no_vote, NULL);
}

bool model_is_vote(const tl_expr *e) {
    return !tl_visit(e, finds_no_vote, NULL);
}

/* What only the data decide: a vote over a register tile. An element of a table is a number like
 * any other.
 */
static bool finds_no_data(void *context, const tl_expr *e) {
    (void)context;
    if (e->kind == TL_CALL && e->function == TL_FUNCTION_ANY) return false;
    return e->kind != TL_ELEMENT || (e->space != TL_REGISTER && e->space != TL_SHARED);
}

static void match_target(model_builder *b, model_step *step) {
    const model_tile *target = &b->tiles.items[step->target.tile];
    step->opens = step->kind == STEP_COMPUTE && step->is_async && !step->accumulates &&
                  channels_is_ring(target);
    for (int i = 0; i < step->read_count; i++) {
        model_use *use = &step->reads[i];
        for (int k = 0; k < target->axis_count; k++)
            use->axes[k] = model_axis_of(&b->tiles.items[use->tile], target->axes[k].id);
    }
}

void model_build_step(model_builder *b, model_step step) {
    step.reads = arena_array(b->model->memory, model_use, step.read_count);
    if (step.read_count) memcpy(step.reads, b->reads, sizeof *b->reads * (size_t)step.read_count);
    if (step.has_target) match_target(b, &step);
    list_push(b->model->memory, &b->steps, step);
}

void model_build_block(model_builder *b, const tl_block *block);

static void add_nested(model_builder *b, tl_statement *s, model_step_kind open,
                       model_step_kind close) {
    int at = b->steps.count;
    model_step step = {.kind = open, .statement = s, .depth = b->depth, .target = {.tile = -1}};
    if (open == STEP_IF) {
        read_expr(b, &step, s->branch.condition, NULL);
        step.depends_on_data = !tl_visit(s->branch.condition, finds_no_data, NULL) ||
                               model_is_vote(s->branch.condition);
    }
    model_build_step(b, step);
    if (open != STEP_IF) b->depth++;
    model_build_block(b, tl_statement_body(s));
    if (open != STEP_IF) b->depth--;
    step = (model_step){
        .kind = close, .statement = s, .other = at, .depth = b->depth, .target = {.tile = -1}};
    model_build_step(b, step);
    b->steps.items[at].other = b->steps.count - 1;
}

static void add_statement(model_builder *b, tl_statement *s) {
    model_step step = {.statement = s, .depth = b->depth, .target = {.tile = -1}, .turn = -1};
    switch (s->kind) {
    case TL_ALLOCATE: step.kind = STEP_ALLOCATE; break;
    case TL_COPY:
        step.kind = STEP_COPY;
        resolve_copy(b, &step);
        break;
    case TL_COMPUTE:
        step.kind = STEP_COMPUTE;
        resolve_compute(b, &step);
        break;
    case TL_RESHAPE:
        step.kind = STEP_RESHAPE;
        if (s->reshape.what) {
            step.target = use_of(b, s->reshape.what->symbol, TL_REGISTER, s->reshape.what->range);
        }
        add_read(b, &step, step.target);
        step.has_target = step.target.tile >= 0;
        break;
    case TL_WAIT:
        step.kind = STEP_WAIT;
        resolve_sync(b, &step);
        break;
    case TL_RELEASE:
        step.kind = STEP_RELEASE;
        resolve_sync(b, &step);
        break;
    case TL_LET:
        step.kind = STEP_LET;
        for (int i = 0; i < s->let.count; i++) {
            if (model_is_vote(s->let.items[i].value))
                read_expr(b, &step, s->let.items[i].value, NULL);
        }
        break;
    case TL_FOR:
        if (s->loop.is_grid_walk) add_nested(b, s, STEP_TILES, STEP_END_TILES);
        else add_nested(b, s, STEP_FOR, STEP_END_FOR);
        return;
    case TL_IF: add_nested(b, s, STEP_IF, STEP_END_IF); return;
    default: return;
    }
    model_build_step(b, step);
}

void model_build_block(model_builder *b, const tl_block *block) {
    for (tl_statement *s = block ? block->first : NULL; s; s = s->next) add_statement(b, s);
}
