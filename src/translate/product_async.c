/* Compute GEMM ... async: products of warpgroups (wgmma). The instruction finds operands in shared
 * memory by descriptors; their low words are worked out once per role and get constants added. Each
 * statement is a group of its own, so a Wait knows how many later ones may stay in flight.
 */
#include "layout/descriptor.h"
#include "translate/emit.h"

enum { ROWS = 64, ATOM_TURNED_DEPTH = 16 /* of products whose operands may be transposed */ };

typedef struct side {
    const emit_tile *tile;
    bool in_registers;
    descriptor d;
    str low; /* name of the low word */
} side;

typedef struct product {
    emit *t;
    const tl_statement *s;
    const emit_tile *target;
    side a, b;
    const atom_product *atom;
    int width, steps, pieces; /* columns of an instruction; its steps; instructions across */
    const char *step;         /* what a step's number is called */
    int across; /* executors on the columns of the result; else they are on its rows */
} product;

static bool refuse(product *p, str what, const char *why) {
    return emit_unsupported(p->t, p->s->range, what, "%s", why);
}

/* --- operands --------------------------------------------------------------------------------- */

static str low_name(emit *t, const emit_tile *tile, bool right, const descriptor *d, int across) {
    const char *turned = d->transposed ? "_transposed" : "";
    str name = tile->symbol->name;
    if (across > 1)
        return emit_format(t, "%.*s_%s%s_over_%d", STR_ARGS(name), right ? "right" : "left", turned,
                           across);
    return emit_format(t, "%.*s_%s%s", STR_ARGS(name), right ? "right" : "left", turned);
}

static bool make_side(product *p, const tl_operand *operand, side *x, bool right) {
    emit *t = p->t;
    x->tile = emit_tile_of(t, operand->value);
    if (!x->tile || x->tile->is_vector)
        return refuse(p, tl_expr_text(t->memory, operand->value),
                      "an operand of GEMM is a matrix tile");
    x->in_registers = x->tile->space == TL_REGISTER;
    if (x->in_registers) {
        bool fits = !right && !operand->is_transposed && x->tile->is_packed &&
                    !x->tile->shape.is_lines && x->tile->shape.down == 1;
        return fits || refuse(p, x->tile->name,
                              "from registers only a left operand in mma_A, 64 rows a warpgroup, "
                              "has an atom");
    }
    layout_fit fit = descriptor_make(&x->tile->store, right != operand->is_transposed, &x->d);
    if (fit.status == LAYOUT_BAD_ORDER)
        return refuse(p, x->tile->name,
                      "an asynchronous product of 8 bits reads tiles whose contracted axis is the "
                      "contiguous one");
    if (fit.status != LAYOUT_OK)
        return refuse(p, x->tile->name,
                      "an asynchronous product reads tiles swizzled 32, 64 or 128, in multiples "
                      "of 32 bytes along the contracted axis");
    assert(descriptor_agrees(&x->d));
    x->low = low_name(t, x->tile, right, &x->d, p->across);
    return true;
}

static bool make_product(product *p) {
    const tl_compute *c = &p->s->compute;
    emit *t = p->t;
    const model_role *r = t->now;
    p->target = emit_target_of(t, p->s);
    bool fits = p->target && p->target->space == TL_REGISTER && p->target->type == TL_F32 &&
                !p->target->is_vector && !p->target->shape.is_lines;
    if (!fits) return refuse(p, STR("this GEMM"), "the result is an f32 tile as mma_C");
    const tl_layout *l = &p->target->tile->allocation->allocate.layout;
    p->across = model_spread_of(r, l).across;
    if (r->executor_warps != MODEL_WARPGROUP || p->target->shape.down != 1 ||
        p->target->rows != ROWS * (r->executors / p->across) || r->first_warp % MODEL_WARPGROUP)
        return refuse(p, p->target->name, "a warpgroup has 64 rows of an asynchronous product");
    if (!make_side(p, &c->operands[0], &p->a, false) || !make_side(p, &c->operands[1], &p->b, true))
        return false;
    const atom_product *atom = atom_find_product(c->atom, p->a.tile->type, &p->width);
    if (!atom || !atom->wrapper || !atom->is_async || !atom_has_width(atom, p->width) ||
        p->a.tile->type != p->b.tile->type)
        return refuse(p, emit_format(t, "by %.*s", STR_ARGS(c->atom)),
                      "there is no such asynchronous product of these types");
    if (!emit_has(p->t, p->s, c->atom, atom->feature)) return false;
    p->atom = atom;
    int deep = p->a.in_registers ? p->a.tile->columns : p->a.d.k;
    int high = p->a.in_registers ? p->a.tile->rows : p->a.d.mn;
    int columns = p->target->columns / p->across;
    p->pieces = columns / p->width;
    bool is_one = p->pieces == 1 && p->across == 1;
    bool pieces_fit = columns % p->width == 0 && (is_one || p->width % p->b.d.mn_unit == 0);
    if (deep != p->b.d.k || high != p->target->rows || p->b.d.mn != p->target->columns ||
        deep % atom->k || !pieces_fit)
        return refuse(p, STR("this GEMM"), "the shapes do not fit one another and the atom");
    p->steps = deep / atom->k;
    p->step = atom->k == DESCRIPTOR_DEPTH_BYTES ? "k32" : "k16";
    return true;
}

/* --- low words -------------------------------------------------------------------------------- */

/* The high word: how wide lines are, and how far eight of them are from the next. */
static str high_name(emit *t, const side *x) {
    return emit_format(t, "lines_%d_by_%d", x->tile->store.swizzle_bytes,
                       (int)(x->d.high & 0x3fff) * DESCRIPTOR_UNIT_BYTES);
}

static void declare_low(product *p, const side *x, bool right) {
    emit *t = p->t;
    if (x->in_registers) return;
    for (int i = 0; i < t->lines.count; i++) {
        if (str_equal(t->lines.items[i].declares, x->low) && i >= t->role_line) return;
    }
    int share = 0;
    if (p->across == 1) share = right ? 0 : descriptor_low_step(&x->d, ROWS, 0);
    else if (right) share = descriptor_low_step(&x->d, p->target->columns / p->across, 0);
    str own = share && t->now->executors > 1 ? emit_format(t, " + executor * %d", share) : (str){0};
    /* A sum throughout: constants of tile and step become one. */
    str tile = emit_slot_place(t, x->tile, 0);
    emit_declare(t, x->low, "const unsigned %.*s = (shared >> 4) + (%.*s / %d + (%du << 16))%.*s;",
                 STR_ARGS(x->low), STR_ARGS(tile), DESCRIPTOR_UNIT_BYTES,
                 (int)x->d.leading_bytes / DESCRIPTOR_UNIT_BYTES, STR_ARGS(own));
    str high = high_name(t, x);
    for (int i = t->role_line; i < t->lines.count; i++)
        if (str_equal(t->lines.items[i].declares, high)) return;
    emit_declare(t, high, "constexpr unsigned %.*s = 0x%08xu; // descriptors: the high word",
                 STR_ARGS(high), x->d.high);
}

void emit_declare_descriptors(emit *t) {
    tl_statement *role = (tl_statement *)(uintptr_t)t->role;
    t->role_line = t->lines.count;
    for (tl_statement *s = t->role->role.body.first; s; s = tl_next(s, role)) {
        if (s->kind != TL_COMPUTE || s->compute.operation != TL_GEMM || !s->compute.is_async)
            continue;
        product p = {.t = t, .s = s};
        if (!make_product(&p)) return;
        declare_low(&p, &p.a, false);
        declare_low(&p, &p.b, true);
    }
}

/* The text of descriptor_low_step, with the step's number and a constant part of the other axis. */
static str step_text(emit *t, const descriptor *d, const char *number, int mn) {
    str text;
    int step = d->step_bytes / DESCRIPTOR_UNIT_BYTES, run = d->run_bytes / DESCRIPTOR_UNIT_BYTES;
    bool runs = d->k / d->depth > d->run;
    if (runs && d->run > 1)
        text = emit_format(t, " + %s %% %d * %d + %s / %d * %d", number, d->run, step, number,
                           d->run, run);
    else text = emit_format(t, " + %s * %d", number, runs ? run : step);
    int other = descriptor_low_step(d, mn, 0);
    return other ? emit_format(t, "%.*s + %d", STR_ARGS(text), other) : text;
}

/* What the slot of the generation held adds to a low word; empty: there is one slot. */
static str slot_text(product *p, const side *x) {
    return emit_slot_bytes(p->t, x->tile, GENERATION_HELD, DESCRIPTOR_UNIT_BYTES);
}

static str descriptor_text(product *p, const side *x, int mn) {
    emit *t = p->t;
    str slot = slot_text(p, x);
    return emit_format(t, "ftl_descriptor(%.*s%s%.*s%.*s, %.*s)", STR_ARGS(x->low),
                       slot.length ? " + " : "", STR_ARGS(slot),
                       STR_ARGS(step_text(t, &x->d, p->step, mn)), STR_ARGS(high_name(t, x)));
}

/* --- text ------------------------------------------------------------------------------------- */

static void one_piece(product *p, int piece) {
    emit *t = p->t;
    str call = emit_format(t, "%s_%.*s_%s", p->atom->wrapper, STR_ARGS(p->s->compute.atom),
                           emit_type_word(p->atom->type));
    str d = p->target->name;
    if (p->pieces > 1) {
        d = emit_format(t, "*(float(*)[%d][4])&%.*s[%d]", p->width / ATOM_WIDTH_UNIT,
                        STR_ARGS(p->target->name), piece * p->width / ATOM_WIDTH_UNIT);
    }
    const char *k = p->step;
    str adds = p->s->compute.target_kind == TL_GET ? emit_format(t, "%s != 0", k)
                                                   : emit_holds(t, p->target, k);
    str b = descriptor_text(p, &p->b, piece * p->width);
    str turned = {0}; /* operands of 8 bits cannot be */
    if (p->a.in_registers) {
        const char *a = str_copy_z(t->memory, p->a.tile->name);
        if (p->b.d.depth == ATOM_TURNED_DEPTH) turned = emit_format(t, "<%d>", p->b.d.transposed);
        emit_text(t,
                  "%.*s_left%.*s(%.*s, %s[2 * %s][0], %s[2 * %s][1], %s[2 * %s + 1][0], "
                  "%s[2 * %s + 1][1], %.*s, %.*s);",
                  STR_ARGS(call), STR_ARGS(turned), STR_ARGS(d), a, k, a, k, a, k, a, k,
                  STR_ARGS(b), STR_ARGS(adds));
    } else {
        if (p->b.d.depth == ATOM_TURNED_DEPTH)
            turned = emit_format(t, "<%d, %d>", p->a.d.transposed, p->b.d.transposed);
        emit_text(t, "%.*s%.*s(%.*s, %.*s, %.*s, %.*s);", STR_ARGS(call), STR_ARGS(turned),
                  STR_ARGS(d), STR_ARGS(descriptor_text(p, &p->a, 0)), STR_ARGS(b), STR_ARGS(adds));
    }
}

static void keep(emit *t, const emit_tile *tile) {
    emit_text(t, "%s(%.*s);", tile->is_packed ? "ftl_keep_pairs" : "ftl_keep",
              STR_ARGS(tile->name));
}

/* The fence orders what was written to registers before it. The compiler may move arithmetic past
 * it, so what the product adds to, or takes as its left operand, has to be there by then. What a
 * sum that begins anew held before may be anything, but has to be somewhere by then, too.
 */
static void keep_touched(product *p) {
    const tl_compute *c = &p->s->compute;
    const tl_expr *target = tl_written_name(p->s);
    bool is_loose = emit_is_loose(p->t, target);
    if (c->target_kind == TL_ACCUMULATE && p->target->state.holds != EMIT_EMPTY) {
        if (is_loose || emit_is_touched(p->t, target)) keep(p->t, p->target);
    } else if (is_loose) {
        emit_text(p->t, "ftl_forget(%.*s);", STR_ARGS(p->target->name));
    }
    if (p->a.in_registers && emit_is_touched(p->t, c->operands[0].value)) keep(p->t, p->a.tile);
}

/* What a product's function is told, to which it has nothing alike. */
typedef struct told {
    emit *t;
    emit_parameter items[9];
    int count;
} told;

static void tell(told *x, str here, const char *name, const char *type) {
    for (int i = 0; i < x->count; i++)
        if (str_equal(x->items[i].here, here)) return;
    str declaration = emit_format(x->t, "%s %s", type, name);
    if (here.length) x->items[x->count++] = (emit_parameter){here, str_from(name), declaration};
}

/* Of an operand: an array, or a descriptor's low word. The slot's part is told apart: added up
 * before the steps, the sum would be another order of the compiler's.
 */
static void tell_side(told *to, product *p, const side *x, bool right) {
    emit *t = p->t;
    if (!x->in_registers) {
        tell(to, x->low, right ? "right" : "left", "unsigned");
        tell(to, slot_text(p, x), right ? "right_slot" : "left_slot", "unsigned");
        return;
    }
    str name = emit_clean(t, x->tile->symbol->name);
    str array = emit_array_parameter(t, x->tile, name);
    to->items[to->count++] =
        (emit_parameter){x->tile->name, name, emit_format(t, "const %.*s", STR_ARGS(array))};
}

/* The lines from 'first' on are the product's: a function, if others are the same. */
static void offer_function(product *p, int first) {
    emit *t = p->t;
    str target = p->target->name;
    told x = {.t = t,
              .items = {{target, target, emit_array_parameter(t, p->target, target)}},
              .count = 1};
    tell_side(&x, p, &p->a, false);
    tell_side(&x, p, &p->b, true);
    for (const side *of = &p->a; of; of = of == &p->a ? &p->b : NULL) {
        str high = of->in_registers ? (str){0} : high_name(t, of);
        tell(&x, high, str_copy_z(t->memory, high), "unsigned");
    }
    tell(&x, emit_format(t, "%.*s_holds", STR_ARGS(target)), "holds", "bool");
    emit_may_be_function(t, first, p->s, p->target, x.items, x.count);
}

void emit_async_product(emit *t, const tl_statement *s) {
    product p = {.t = t, .s = s};
    emit_header(t, s);
    if (!make_product(&p)) return;
    t->is_exact = true, t->pin = NULL;
    keep_touched(&p);
    int first = t->lines.count;
    emit_text(t, "ftl_wgmma_fence();");
    emit_loop(t, p.step, p.steps);
    for (int i = 0; i < p.pieces; i++) one_piece(&p, i);
    emit_close(t);
    emit_text(t, "ftl_wgmma_commit();");
    offer_function(&p, first);
    emit_forget_unseen(t, p.target);
    if (p.target->is_lazy && p.target->state.holds != EMIT_HOLDS) {
        str holds = emit_format(t, "%.*s_holds", STR_ARGS(p.target->name));
        emit_text(t, "%.*s = true;", STR_ARGS(holds));
    }
    emit_flight flight = {s, p.a.in_registers ? p.a.tile : NULL};
    list_push(t->memory, &t->flights, flight);
    emit_note_product(t, s);
}

/* --- waiting ---------------------------------------------------------------------------------- */

static bool is_async_product(const tl_statement *s) {
    return s->kind == TL_COMPUTE && s->compute.operation == TL_GEMM && s->compute.is_async;
}

static bool holds_product(const tl_statement *s) {
    tl_statement *within = (tl_statement *)(uintptr_t)s;
    const tl_block *body = tl_statement_body(within);
    for (tl_statement *at = body ? body->first : NULL; at; at = tl_next(at, within)) {
        if (is_async_product(at)) return true;
    }
    return false;
}

/* How many groups are younger than the last product into the tile; 0 where the text does not tell.
 */
void emit_wait_products(emit *t, const tl_statement *s, const emit_tile *tile) {
    int later = 0;
    const tl_statement *last = NULL;
    for (const tl_statement *at = s; at && !last;) {
        if (at->previous) at = at->previous;
        else if (at->parent && at->parent->kind == TL_IF) {
            at = at->parent;
            continue;
        } else break;
        if (is_async_product(at)) {
            if (emit_target_of(t, at) == tile) last = at;
            else later++;
        } else if (holds_product(at)) break;
    }
    if (t->pin) {
        const char *pin = str_copy_z(t->memory, t->pin->name);
        const char *first = t->pin->shape.down > 1 ? "[0]" : "";
        emit_text(t, "ftl_pin(%s%s[0], %s%s[1]); // before the wait, not after it", pin, first, pin,
                  first);
        t->pin = NULL;
    }
    emit_text(t, "ftl_wgmma_wait<%d>();", last ? later : 0);
    keep(t, tile);
    emit_note_touched(t, s->sync.what, false);
    for (int i = t->flights.count - 1; last && i >= 0; i--) {
        if (t->flights.items[i].statement != last) continue;
        if (t->flights.items[i].operand) keep(t, t->flights.items[i].operand);
        break;
    }
}
