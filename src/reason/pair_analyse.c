/* What of a loop each of two warpgroups has to do, for its own blocks and for the other's. */
#include "reason/pair_text.h"

#include "reason/scalar.h"

static const char *const parities[PAIR] = {"even", "odd"};

/* --- tiles that the loop copies --------------------------------------------------------------- */

const pair_tile *pair_find_tile(const pairing *p, str operand) {
    for (int i = 0; i < p->tile_count; i++)
        if (str_equal(edit_target_name(p->tiles[i].fill), edit_bare(operand))) return &p->tiles[i];
    return NULL;
}

bool pair_is_held(const pairing *p, const tl_statement *fill) {
    for (int i = 0; i < p->form->head_count; i++)
        if (pair_holds_left(p->form, i) &&
            str_equal(edit_bare(edit_operand_name(p->form->heads[i], 0)), edit_target_name(fill)))
            return true;
    return false;
}

static bool takes_right(const tl_statement *product, const tl_statement *fill) {
    return str_equal(edit_bare(edit_operand_name(product, 1)), edit_target_name(fill));
}

static void name_slots(pairing *p, const char *slots[PAIR], str of) {
    for (int i = 0; i < PAIR; i++)
        slots[i] = reason_fresh_z(p->r, "%.*s_%s", STR_ARGS(edit_bare(of)), parities[i]);
}

static bool read_tiles(pairing *p) {
    for (tl_statement *s = p->form->loop->loop.body.first; s; s = s->next) {
        if (!edit_is_fill(s)) continue;
        if (p->tile_count == PAIR_TILES_MAX)
            return reason_stuck(p->r, s, "two warpgroups share at most %d tiles of a loop",
                                PAIR_TILES_MAX);
        pair_tile *t = &p->tiles[p->tile_count++];
        *t = (pair_tile){.fill = s, .side = -1};
        for (int i = 0; i < p->form->head_count; i++)
            t->is_head = t->is_head || takes_right(p->form->heads[i], s);
        for (int i = 0; i < p->form->tail_count; i++)
            if (takes_right(p->form->tails[i], s)) t->side = pair_side(p->form, i);
        name_slots(p, t->slots, edit_target_name(s));
    }
    bool are_known = true;
    for (int i = 0; i < p->form->head_count; i++)
        are_known = are_known && pair_find_tile(p, edit_operand_name(p->form->heads[i], 1));
    for (int i = 0; i < p->form->tail_count; i++)
        are_known = are_known && pair_find_tile(p, edit_operand_name(p->form->tails[i], 1));
    return are_known ||
           reason_stuck(p->r, p->form->loop,
                        "two warpgroups share tiles that their loop copies, and a right operand "
                        "of its products is none");
}

/* --- statements between the products ---------------------------------------------------------- */

static void add_part(pairing *p, str name) {
    pair_part part = {.name = name, .other = reason_fresh_z(p->r, "%.*s_other", STR_ARGS(name))};
    for (int i = 0; i < PAIR; i++)
        part.slots[i] = reason_fresh_z(p->r, "%.*s_%s", STR_ARGS(name), i ? "right" : "left");
    names_add(p->r->memory, &p->partial, name);
    list_push(p->r->memory, &p->parts, part);
}

static void read_registers(pairing *p) {
    arena *memory = p->r->memory;
    for (tl_statement *s = p->math->role.body.first; s; s = s->next) {
        if (s->kind != TL_ALLOCATE) continue;
        for (int i = 0; i < s->allocate.name_count; i++) {
            str name = s->allocate.names[i];
            bool is_sum = false;
            for (int k = 0; k < p->form->tail_count; k++)
                is_sum = is_sum || str_equal(edit_bare(edit_target_name(p->form->tails[k])), name);
            if (s->allocate.shape.count == 2 && !is_sum) names_add(memory, &p->matrices, name);
            if (s->allocate.layout.is_partial) add_part(p, name);
        }
    }
}

/* Whose sum one of the names is; -1: none is one. */
static int side_among(const pairing *p, const names *all) {
    for (int i = 0; i < p->form->tail_count; i++)
        if (names_have(all, edit_target_name(p->form->tails[i]))) return pair_side(p->form, i);
    return -1;
}

static bool is_within(const names *some, const names *all) {
    for (int i = 0; i < some->count; i++)
        if (!names_have(all, some->items[i])) return false;
    return true;
}

static bool classify(pairing *p, pair_element *e) {
    names uses = {0}, writes = {0};
    names_add_uses(p->r->memory, e->s, &uses, &writes);
    for (int i = 0; i < writes.count; i++) names_add(p->r->memory, &uses, writes.items[i]);
    bool is_of_block = names_meet(&uses, &p->matrices), is_plain = e->s->kind == TL_COMPUTE;
    e->side = side_among(p, &uses);
    if (!is_of_block && edit_mentions(e->s, p->form->loop->loop.name) > 0)
        return reason_stuck(p->r, e->s, "two warpgroups share rows whose values know no block");
    if (e->side >= 0) {
        e->kind = PAIR_SUM;
        return (is_plain && !is_of_block) ||
               reason_stuck(p->r, e->s,
                            "two warpgroups share sums that only values of their rows change");
    }
    e->kind = PAIR_OWN;
    if (is_of_block && is_within(&writes, &p->matrices)) return true;
    if (!is_plain)
        return reason_stuck(p->r, e->s,
                            "two warpgroups cannot share values of rows that an `if` changes");
    if (is_of_block && names_meet(&writes, &p->partial)) return true;
    e->kind = is_of_block ? PAIR_SENT : PAIR_VALUES;
    if (is_of_block) name_slots(p, e->slots, edit_target_name(e->s));
    return true;
}

/* Is it read before the loop's block writes it, or after the loop? */
static bool is_carried(pairing *p, str name) {
    for (int i = 0; i < p->elements.count; i++) {
        tl_statement *s = p->elements.items[i].s;
        if (edit_reads_within(s, name)) return true;
        if (edit_writes_within(s, name)) break;
    }
    for (tl_statement *s = p->form->loop->next; s; s = s->next)
        if (edit_reads_within(s, name)) return true;
    return false;
}

/* What the other's blocks, too, do to sums and to what outlives a block. */
static void find_theirs(pairing *p) {
    arena *memory = p->r->memory;
    names needed = {0};
    for (int i = 0; i < p->elements.count; i++) {
        const pair_element *e = &p->elements.items[i];
        str name = edit_target_name(e->s);
        if (e->kind == PAIR_SUM || e->kind == PAIR_SENT ||
            (e->kind == PAIR_VALUES && is_carried(p, name)))
            names_add(memory, &needed, name);
    }
    for (int i = 0; i < p->partial.count; i++) names_add(memory, &needed, p->partial.items[i]);
    for (int i = p->elements.count - 1; i >= 0; i--) {
        pair_element *e = &p->elements.items[i];
        e->is_theirs = e->kind != PAIR_OWN && names_have(&needed, edit_target_name(e->s));
        if (!e->is_theirs || e->kind == PAIR_SENT) continue;
        names reads = names_read(memory, e->s);
        for (int k = 0; k < reads.count; k++) names_add(memory, &needed, reads.items[k]);
    }
}

static bool read_elements(pairing *p) {
    const pair_form *f = p->form;
    for (tl_statement *s = f->heads[f->head_count - 1]->next; s != f->tails[0]; s = s->next) {
        if (edit_is_fill(s)) continue;
        pair_element e = {.s = s};
        if (!classify(p, &e)) return false;
        list_push(p->r->memory, &p->elements, e);
    }
    find_theirs(p);
    return true;
}

/* --- blocks ----------------------------------------------------------------------------------- */

const char *pair_block(const pairing *p, int parity, const char *pair_number) {
    const char *first = edit_text(p->r->memory, p->form->loop->loop.from);
    str text = {"", 0};
    if (!str_is(str_from(first), "0")) reason_list(p->r, &text, " + ", "%s", first);
    if (!str_is(str_from(pair_number), "0"))
        reason_list(p->r, &text, text.length ? " + " : "", "2*%s", pair_number);
    if (parity || !text.length) reason_list(p->r, &text, text.length ? " + " : "", "%d", parity);
    return text.data;
}

static void count_blocks(pairing *p) {
    reason *r = p->r;
    const tl_for *loop = &p->form->loop->loop;
    bool is_from_0 = loop->from->kind == TL_INTEGER && loop->from->integer == 0;
    tl_expr *count =
        is_from_0 ? loop->to
                  : tl_quote_expr(r->memory, "%s - %s", edit_factor_text(r->memory, loop->to),
                                  edit_factor_text(r->memory, loop->from));
    p->count = scalar_name(r, count, "count", "blocks of a tile");
    p->evens = scalar_name(r, tl_quote_expr(r->memory, "ceil(%s/2)", p->count), "evens",
                           "blocks whose weights the first warpgroup makes");
    p->odds = scalar_name(r, tl_quote_expr(r->memory, "floor(%s/2)", p->count), "odds",
                          "and the second one");
}

bool pair_analyse(pairing *p) {
    read_registers(p);
    if (!read_tiles(p) || !read_elements(p)) return false;
    name_slots(p, p->weights, edit_operand_name(p->form->tails[0], 0));
    count_blocks(p);
    return true;
}
