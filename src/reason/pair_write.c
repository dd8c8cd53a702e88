/* The text of two warpgroups that share rows.
 *
 * A step of a warpgroup is a block of its own and the other's block before that: first the scores
 * of its own block, as far as the other's product does not wait for the same columns; then the
 * other's weights and what its maximum does to the sums; the rest of the scores; and the elements
 * of its own block, whose product lands beside the next step.
 */
#include "reason/pair_text.h"

#include "reason/panels.h"
#include "reason/peel.h"
#include "reason/tiles.h"
#include "reason/warpgroups.h"

static const char *const sides[PAIR] = {"left", "right"};

/* One of the two. Even blocks are the first one's. */
typedef struct half {
    pairing *p;
    int side;
    tl_statement *const *tails; /* the products of its sums */
    int tail_count;
} half;

static half half_of(pairing *p, int side) {
    int count = p->form->tail_count / PAIR;
    return (half){p, side, p->form->tails + side * count, count};
}

static const char *sum_of(const half *h, int tail) {
    return edit_z(h->p->r->memory, edit_target_name(h->tails[tail]));
}

static tl_statement *put(const half *h, tl_block *to, const tl_statement *s) {
    edit_append_copy(h->p->r->memory, to, s);
    return to->last;
}

/* --- products --------------------------------------------------------------------------------- */

static void wait_for(const half *h, tl_block *to, const char *name, const char *comment) {
    reason_append(h->p->r, to, comment[0] ? "Wait %s // %s" : "Wait %s", name, comment);
}

static void release(const half *h, tl_block *to, const char *name) {
    reason_append(h->p->r, to, "Release %s // the slot is free", name);
}

/* Part of a block's scores: the first one begins them. */
static void put_head(const half *h, tl_block *to, int number, bool *has_begun) {
    const pair_form *f = h->p->form;
    arena *memory = h->p->r->memory;
    const pair_tile *tile = pair_find_tile(h->p, edit_operand_name(f->heads[number], 1));
    wait_for(h, to, tile->slots[h->side], "it has landed");
    tl_compute *c = &put(h, to, f->heads[number])->compute;
    if (pair_holds_left(f, number))
        c->operands[0].value = tl_name_expr(
            memory, str_format(memory, "%.*s_register",
                               STR_ARGS(edit_bare(edit_operand_name(f->heads[number], 0)))));
    c->operands[1].value = tl_name_expr(memory, str_from(tile->slots[h->side]));
    c->target_kind = *has_begun ? TL_ACCUMULATE : TL_GET;
    c->is_async = true;
    *has_begun = true;
}

/* Those whose columns are values of that side, too; -1: of none. */
static void put_heads(const half *h, tl_block *to, int side, bool *has_begun) {
    for (int i = 0; i < h->p->form->head_count; i++)
        if (pair_side_of(h->p->form, i) == side) put_head(h, to, i, has_begun);
}

static const pair_tile *values_of(const half *h, int tail) {
    return pair_find_tile(h->p, edit_operand_name(h->tails[tail], 1));
}

/* The products of a block's weights into this one's sums. */
static void put_tails(const half *h, tl_block *to, int parity, const char *weights) {
    arena *memory = h->p->r->memory;
    for (int i = 0; i < h->tail_count; i++) {
        const pair_tile *tile = values_of(h, i);
        if (!tile->is_head || parity != h->side)
            wait_for(h, to, tile->slots[parity], "it has landed");
        tl_compute *c = &put(h, to, h->tails[i])->compute;
        if (weights) c->operands[0].value = tl_name_expr(memory, str_from(weights));
        c->operands[1].value = tl_name_expr(memory, str_from(tile->slots[parity]));
        c->is_async = true;
    }
}

/* They have landed. */
static void end_tails(const half *h, tl_block *to, int parity) {
    for (int i = 0; i < h->tail_count; i++) {
        wait_for(h, to, sum_of(h, i), "it has landed");
        release(h, to, values_of(h, i)->slots[parity]);
    }
}

/* --- elements --------------------------------------------------------------------------------- */

static void receive(const half *h, tl_block *to, const pair_element *e) {
    const char *slot = e->slots[1 - h->side];
    const char *name = edit_z(h->p->r->memory, edit_bare(edit_target_name(e->s)));
    reason_append(h->p->r, to,
                  "Wait %s_shared\n"
                  "Copy %s from shared to register and get %s // as the other left it\n"
                  "Release %s_shared\n",
                  slot, slot, name, slot);
}

/* What the other's block does to rows and to this one's sums. */
static void put_theirs(const half *h, tl_block *to) {
    for (int i = 0; i < h->p->elements.count; i++) {
        const pair_element *e = &h->p->elements.items[i];
        if (!e->is_theirs || (e->kind == PAIR_SUM && e->side != h->side)) continue;
        if (e->kind == PAIR_SENT) receive(h, to, e);
        else put(h, to, e->s);
    }
}

static void send(const half *h, tl_block *to, const pair_element *e) {
    const char *name = edit_z(h->p->r->memory, edit_bare(edit_target_name(e->s)));
    reason_append(h->p->r, to, "Copy %s from register to shared and get %s // for the other", name,
                  e->slots[h->side]);
}

/* Does the statement make the weights as products take them? */
static bool makes_weights(const half *h, const pair_element *e) {
    str weights = edit_operand_name(h->p->form->tails[0], 0);
    if (e->s->kind != TL_COMPUTE || !edit_writes(e->s, weights)) return false;
    for (const tl_statement *s = e->s->next; s != h->p->form->tails[0]; s = s->next)
        if (s->kind == TL_COMPUTE && edit_writes(s, weights)) return false;
    return true;
}

static void put_elements(const half *h, tl_block *to) {
    for (int i = 0; i < h->p->elements.count; i++) {
        const pair_element *e = &h->p->elements.items[i];
        if (e->kind == PAIR_SUM && e->side != h->side) continue;
        put(h, to, e->s);
        if (e->kind == PAIR_SENT) send(h, to, e);
        if (makes_weights(h, e))
            reason_append(
                h->p->r, to,
                "Copy %.*s from register to shared and get %s by stmatrix // for the other",
                STR_ARGS(edit_operand_name(h->p->form->tails[0], 0)), h->p->weights[h->side]);
    }
}

/* --- steps ------------------------------------------------------------------------------------ */

/* Multiplies the other's block's weights, and what comes first. */
static void begin_theirs(const half *h, tl_block *to) {
    const char *weights = h->p->weights[1 - h->side];
    put_theirs(h, to);
    wait_for(h, to, weights, "the other's weights");
    put_tails(h, to, 1 - h->side, weights);
}

static void end_theirs(const half *h, tl_block *to) {
    end_tails(h, to, 1 - h->side);
    release(h, to, h->p->weights[1 - h->side]);
}

/* The scores are there: what made them and is no value of this one is free. */
static void end_heads(const half *h, tl_block *to) {
    pairing *p = h->p;
    wait_for(h, to, edit_z(p->r->memory, edit_target_name(p->form->heads[0])), "scores");
    for (int i = 0; i < p->tile_count; i++)
        if (p->tiles[i].is_head && p->tiles[i].side != h->side)
            release(h, to, p->tiles[i].slots[h->side]);
}

/* Products land in the order in which they were issued, and are waited for in it. */
static tl_block step(const half *h, const char *pair_number, bool is_first, bool has_theirs) {
    pairing *p = h->p;
    tl_block all = {0};
    bool has_begun = false;
    if (!is_first) end_tails(h, &all, h->side); /* the products of its last block */
    put_heads(h, &all, -1, &has_begun);
    put_heads(h, &all, h->side, &has_begun);
    if (has_theirs) begin_theirs(h, &all);
    const tl_statement *last = all.last;
    put_heads(h, &all, 1 - h->side, &has_begun);
    bool are_last = all.last != last; /* some of the scores' products */
    if (!are_last) end_heads(h, &all);
    if (has_theirs) end_theirs(h, &all);
    if (are_last) end_heads(h, &all);
    tl_block elements = {0};
    put_elements(h, &elements);
    peel_put(&elements, p->form->loop->loop.name,
             tl_quote_expr(p->r->memory, "%s", pair_block(p, h->side, pair_number)));
    edit_join(&all, elements);
    put_tails(h, &all, h->side, NULL);
    return all;
}

/* All blocks: the second one has none of its own where there is one block. */
static tl_block steps(const half *h) {
    pairing *p = h->p;
    reason *r = p->r;
    bool is_left = h->side == 0;
    const char *i = reason_fresh_z(r, "i"), *own = is_left ? p->evens : p->odds;
    tl_block all = step(h, "0", true, !is_left);
    tl_block loop = tl_quote(r->memory, "for %s = 1:%s\nend", i, own);
    edit_append(&loop.first->loop.body, loop.first, step(h, i, false, true));
    edit_join(&all, loop);
    end_tails(h, &all, h->side);
    if (!is_left) all = reason_under(r, reason_say(r, "%s > 0", own), "", all);
    tl_block theirs = {0};
    begin_theirs(h, &theirs);
    end_theirs(h, &theirs);
    const char *is_theirs = reason_say(r, is_left ? "%s <= 2*%s" : "%s > 2*%s", p->count, p->odds);
    edit_join(&all, reason_under(r, is_theirs, "the last block is the other's", theirs));
    return all;
}

/* --- before and after ------------------------------------------------------------------------- */

static bool is_of_own(const half *h, tl_statement *s) {
    for (int i = 0; i < h->tail_count; i++)
        if (edit_reads(s, edit_target_name(h->tails[i]))) return true;
    return false;
}

static bool is_of_other(const half *h, tl_statement *s) {
    half other = half_of(h->p, 1 - h->side);
    for (int i = 0; i < other.tail_count; i++) {
        str sum = edit_target_name(other.tails[i]);
        if (edit_reads_within(s, sum) || edit_writes_within(s, sum)) return true;
    }
    return false;
}

static void put_before(const half *h, tl_block *to) {
    reason *r = h->p->r;
    for (tl_statement *s = h->p->math->role.body.first; s != h->p->form->loop; s = s->next) {
        if (s->kind == TL_ALLOCATE || is_of_other(h, s)) continue;
        if (!edit_is_fill(s)) put(h, to, s);
        else if (pair_is_held(h->p, s)) put(h, to, s)->copy.to = TL_REGISTER;
    }
    for (tl_statement *s = h->p->math->role.body.first; s != h->p->form->loop; s = s->next)
        if (edit_is_fill(s) && !pair_is_held(h->p, s))
            reason_append(r, to, "Wait %.*s_shared // it has landed",
                          STR_ARGS(edit_target_name(s)));
}

/* Each has its own blocks' part of a sum of weights; both have the same maximum by now. */
static void add_parts(const half *h, tl_block *to, str name) {
    const pair_part *part = h->p->parts.items;
    while (!str_equal(part->name, edit_bare(name))) part++;
    const char *own = part->slots[h->side], *other = part->slots[1 - h->side];
    reason_append(h->p->r, to,
                  "Copy %.*s from register to shared and get %s // of its own blocks\n"
                  "Wait %s_shared\n"
                  "Copy %s from shared to register and get %s // of the other's\n"
                  "Release %s_shared\n"
                  "Compute Add %.*s, %s and get %.*s\n",
                  STR_ARGS(part->name), own, other, other, part->other, other, STR_ARGS(name),
                  part->other, STR_ARGS(name));
}

/* Takes out what nothing reads that is left. */
static void drop_unread(const half *h, tl_block *block) {
    names needed = {0};
    for (tl_statement *s = block->last, *before; s; s = before) {
        before = s->previous;
        bool makes = s->kind == TL_COMPUTE && !names_have(&needed, edit_target_name(s));
        if (makes) tl_remove(block, s);
        names reads = makes ? (names){0} : names_read(h->p->r->memory, s);
        for (int i = 0; i < reads.count; i++) names_add(h->p->r->memory, &needed, reads.items[i]);
    }
}

static void put_after(const half *h, tl_block *to) {
    reason *r = h->p->r;
    for (tl_statement *s = h->p->math->role.body.first; s != h->p->form->loop; s = s->next)
        if (edit_is_fill(s) && !pair_is_held(h->p, s))
            reason_append(r, to, "Release %.*s_shared // nothing reads it any more",
                          STR_ARGS(edit_target_name(s)));
    tl_block end = {0};
    for (tl_statement *s = h->p->form->loop->next; s; s = s->next) {
        bool is_shared = s->kind == TL_COPY && s->copy.to == TL_GLOBAL &&
                         !is_of_own(h, s); /* one of the two stores it */
        if (is_of_other(h, s) || (is_shared && h->side > 0)) continue;
        put(h, &end, s);
        if (s->kind == TL_RESHAPE && names_have(&h->p->partial, s->reshape.what->text))
            add_parts(h, &end, s->reshape.what->text);
    }
    drop_unread(h, &end);
    edit_join(to, end);
}

/* --- allocations ------------------------------------------------------------------------------ */

static bool is_mentioned(const tl_block *body, str name) {
    for (tl_statement *s = body->first; s; s = s->next) {
        const tl_block *inner = tl_statement_body(s);
        if (edit_mentions(s, name) > 0 || (inner && is_mentioned(inner, name))) return true;
    }
    return false;
}

/* The role's tiles in registers, as far as the text uses them. */
static tl_block allocations(const half *h, const tl_block *body) {
    pairing *p = h->p;
    str own = edit_bare(edit_target_name(h->tails[0]));
    half other = half_of(p, 1 - h->side);
    tl_block all = {0};
    for (tl_statement *s = p->math->role.body.first; s; s = s->next) {
        if (s->kind != TL_ALLOCATE) continue;
        tl_allocation *a = &put(h, &all, s)->allocate;
        int count = 0;
        for (int i = 0; i < a->name_count; i++)
            if (is_mentioned(body, a->names[i])) a->names[count++] = a->names[i];
        a->name_count = count;
        for (int i = 0; a->layout.of && i < other.tail_count; i++)
            edit_rename_expr(a->layout.of, edit_bare(edit_target_name(other.tails[i])), own);
        if (count == 0) tl_remove(&all, all.last);
    }
    return all;
}

static void allocate_held(const half *h, tl_block *all) {
    for (tl_statement *s = h->p->math->role.body.first; s != h->p->form->loop; s = s->next) {
        if (!edit_is_fill(s) || !pair_is_held(h->p, s)) continue;
        tl_statement *shared = edit_shared_tile(h->p->r->kernel, edit_target_name(s));
        tl_allocation *a = &put(h, all, shared)->allocate;
        all->last->comment = STR("fragments of all steps");
        a->space = TL_REGISTER;
        a->swizzle_bytes = 0;
        a->layout = (tl_layout){.kind = TL_MMA_A};
    }
}

/* The other's part of each sum of weights. */
static void allocate_parts(const half *h, tl_block *all, const tl_block *body) {
    for (int i = 0; i < h->p->parts.count; i++) {
        const pair_part *part = &h->p->parts.items[i];
        if (!is_mentioned(body, str_from(part->other))) continue;
        tl_statement *like = edit_find_allocation(all->first, part->name, TL_REGISTER);
        tl_allocation *a = &put(h, all, like)->allocate;
        all->last->comment = STR("the other's part of it");
        a->names[0] = str_from(part->other);
        a->name_count = 1;
        a->layout.is_partial = false;
    }
}

static tl_block write_half(pairing *p, int side) {
    half h = half_of(p, side);
    reason *r = p->r;
    tl_block role = tl_quote(
        r->memory,
        "role %s with 1 warpgroup, %d registers // half of the sums, weights of %s blocks\nend",
        sides[side], warpgroups_paired_registers(r), side ? "odd" : "even");
    tl_block body = {0};
    put_before(&h, &body);
    edit_join(&body, steps(&h));
    put_after(&h, &body);
    tl_block tiles = allocations(&h, &body);
    allocate_held(&h, &tiles);
    allocate_parts(&h, &tiles, &body);
    edit_append(&role.first->role.body, role.first, tiles);
    edit_append(&role.first->role.body, role.first, body);
    return role;
}

/* --- shared memory ---------------------------------------------------------------------------- */

/* A tile that the loop copies has a slot for even blocks and one for odd ones. */
static void split_slots(pairing *p) {
    reason *r = p->r;
    for (int i = 0; i < p->tile_count; i++) {
        tl_statement *s = edit_shared_tile(r->kernel, edit_target_name(p->tiles[i].fill));
        tl_block both = {0};
        edit_append_copy(r->memory, &both, s);
        tl_allocation *a = &both.first->allocate;
        a->stages = NULL;
        a->name_count = PAIR;
        a->names = arena_array(r->memory, str, PAIR);
        a->name_ranges = arena_array(r->memory, diag_range, PAIR);
        for (int k = 0; k < PAIR; k++) a->names[k] = str_from(p->tiles[i].slots[k]);
        edit_replace(r->kernel, s, both);
    }
}

static const char *rows_of(const pairing *p) {
    const tl_statement *sum = edit_find_allocation(
        p->math->role.body.first, edit_target_name(p->form->tails[0]), TL_REGISTER);
    return edit_text(p->r->memory, sum->allocate.shape.items[0]);
}

/* What the two hand each other. */
static tl_block exchanged(pairing *p) {
    reason *r = p->r;
    str weights = edit_operand_name(p->form->tails[0], 0);
    const tl_statement *like = edit_find_allocation(p->math->role.body.first, weights, TL_REGISTER);
    const char *rows = rows_of(p), *columns = edit_text(r->memory, like->allocate.shape.items[1]);
    int64_t line = 0;
    reason_known(r, like->allocate.shape.items[1], &line);
    tl_block all = {0};
    reason_append(r, &all,
                  "Allocate %s, %s in shared %s (%s, %s) swizzled %d // weights, for the other",
                  p->weights[0], p->weights[1], tl_type_name(like->allocate.type), rows, columns,
                  panels_dividing(line * tl_type_bytes(like->allocate.type)));
    for (int i = 0; i < p->elements.count; i++) {
        const pair_element *e = &p->elements.items[i];
        if (e->kind == PAIR_SENT)
            reason_append(r, &all, "Allocate %s, %s in shared f32 (%s) // and a value per row",
                          e->slots[0], e->slots[1], rows);
    }
    for (int i = 0; i < p->parts.count; i++)
        reason_append(r, &all, "Allocate %s, %s in shared f32 (%s) // what each has of a sum",
                      p->parts.items[i].slots[0], p->parts.items[i].slots[1], rows);
    return all;
}

static void drop_held(pairing *p) {
    for (tl_statement *s = p->math->role.body.first; s != p->form->loop; s = s->next)
        if (edit_is_fill(s) && pair_is_held(p, s))
            edit_remove(p->r->kernel, edit_shared_tile(p->r->kernel, edit_target_name(s)));
}

bool pair_write(reason *r, tl_statement *math, const pair_form *form) {
    pairing p = {.r = r, .math = math, .form = form};
    if (!pair_analyse(&p)) return false;
    tl_block load, roles[PAIR];
    if (!pair_load(&p, &load)) return false;
    for (int side = 0; side < PAIR; side++) roles[side] = write_half(&p, side);
    drop_held(&p);
    split_slots(&p);
    edit_before(r->kernel, math, exchanged(&p));
    edit_before(r->kernel, math, load);
    for (int side = 0; side < PAIR; side++) edit_before(r->kernel, math, roles[side]);
    edit_remove(r->kernel, math);
    return true;
}
