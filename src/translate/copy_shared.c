/* Copies of fragments between registers and shared memory. */
#include "translate/copy.h"

/* Alternating column tiles, with a lane's four neighbours side by side. */
static layout in_fours(const layout *alternating) {
    layout l = *alternating;
    for (int i = 0; i < 3; i++) l.atom.columns[i] = alternating->atom.columns[(i + 2) % 3];
    return l;
}

/* Address of a pair in a shared tile; of alternating column tiles, of four: n8 counts 16 columns
 * then.
 */
static bool pair_address(emit *t, const tl_statement *s, const emit_tile *registers,
                         const emit_tile *shared, str slot, str *address) {
    int bytes = tl_type_bytes(shared->type);
    bool fours = registers->shape.alternates;
    int together = (fours ? 4 : 2) * bytes;
    layout from = fours ? in_fours(&registers->layout) : registers->layout;
    access_copy access;
    layout_fit fit = access_copy_make(&from, &shared->store, together, &access);
    if (emit_is_bytes(registers) || fit.status != LAYOUT_OK || access.bytes != together)
        return copy_refuse(t, s, "its elements do not lie in pairs on both sides");
    emit_fresh_thread(t);
    emit_declare_address(t, "place", slot, &access.threads);
    str along = emit_format(t, "%d * n8", (fours ? 16 : 8) * bytes);
    str text = emit_along(t, &access.threads, STR("place"), along, true);
    if (registers->shape.down > 1)
        text = emit_format(t, "%.*s + %d * m16", STR_ARGS(text), 16 * access.threads.pitch_bytes);
    *address = emit_format(t, "%.*s + %d * half", STR_ARGS(text), 8 * access.threads.pitch_bytes);
    return true;
}

static str two_of_four(emit *t, const emit_tile *from, tl_type type, int first) {
    str even = emit_format(t, "%.*s[m16][2 * n8][2 * half + %d]", STR_ARGS(from->name), first);
    str odd = emit_format(t, "%.*s[m16][2 * n8 + 1][2 * half + %d]", STR_ARGS(from->name), first);
    if (tl_type_bits(type) == 32)
        return emit_format(t, "%.*s, %.*s", STR_ARGS(even), STR_ARGS(odd));
    return emit_format(t, "ftl_pack_%s(%.*s, %.*s)", emit_type_word(type), STR_ARGS(even),
                       STR_ARGS(odd));
}

static void fours_to_shared(emit *t, const tl_statement *s, const emit_tile *from,
                            const emit_tile *to) {
    str address;
    if (from->type != TL_F32) {
        copy_refuse(t, s, "a tile in mma_C permuted leaves registers as f32");
        return;
    }
    emit_open(t, "{");
    if (pair_address(t, s, from, to, emit_fill_place(t, s, to), &address)) {
        emit_shape fours = from->shape;
        fours.across /= 2;
        int opened = emit_open_frame(t, &fours);
        emit_text(t, "ftl_store_shared_%s(%.*s, %.*s, %.*s);",
                  tl_type_bits(to->type) == 32 ? "f32x4" : "8", STR_ARGS(address),
                  STR_ARGS(two_of_four(t, from, to->type, 0)),
                  STR_ARGS(two_of_four(t, from, to->type, 1)));
        emit_close_frame(t, opened);
    }
    emit_close(t);
}

void copy_fragments_to_shared(emit *t, const tl_statement *s, const emit_tile *from,
                              const emit_tile *to) {
    str address;
    if (from->shape.alternates) {
        fours_to_shared(t, s, from, to);
        return;
    }
    emit_open(t, "{");
    if (pair_address(t, s, from, to, emit_fill_place(t, s, to), &address)) {
        int opened = emit_open_frame(t, &from->shape);
        pairs_move_one(t, from, &(pairs_way){"store_shared", to->type, address}, true);
        emit_close_frame(t, opened);
    }
    emit_close(t);
}

/* --- stmatrix --------------------------------------------------------------------------------- */

/* Lane l names row l % 16 of two neighbouring 8-column tiles, the second from lane 16 on. */

static int matrices_place(const shared_layout *l, int share, int lane, int m16, int n16) {
    int line = share + lane % 16, swizzle = l->swizzle_bytes;
    int own = line * l->pitch_bytes + (lane / 16 * 16 ^ shared_line_xor(l, line));
    int turn = swizzle > SHARED_UNIT_BYTES ? 32 * n16 & (swizzle - 1) : 0;
    int panel = l->panels ? 32 * n16 / swizzle * shared_panel_bytes(l) : 32 * n16 - turn;
    return (own ^ turn) + panel + 16 * m16 * l->pitch_bytes;
}

/* What the text of the address comes to, against the layout's own offsets. */
static void check_matrices(const emit_tile *from, const shared_layout *l, int step) {
    for (int warp = 0; warp < l->rows / step; warp++) {
        for (int lane = 0; lane < LAYOUT_LANES; lane++) {
            for (int i = 0; i < from->shape.down * (from->shape.across / 2); i++) {
                int m16 = i % from->shape.down, n16 = i / from->shape.down;
                layout_point p = {warp * step + 16 * m16 + lane % 16, 16 * n16 + lane / 16 * 8};
                int place = matrices_place(l, warp * step, lane, m16, n16);
                assert(place == shared_offset(l, p));
                (void)place, (void)p;
            }
        }
    }
}

static str matrices_address(emit *t, const shared_layout *l, const char *n16) {
    access_threads threads = {.swizzle_bytes = l->swizzle_bytes,
                              .panel_bytes = l->panels ? (int)shared_panel_bytes(l) : 0};
    return emit_along(t, &threads, STR("target"), emit_format(t, "32 * %s", n16), l->panels != 1);
}

static str packed_pair(emit *t, const emit_tile *from, tl_type type, str n8, int half) {
    str name = from->name;
    if (from->is_packed) {
        return emit_format(t, "%.*s[m16][%.*s][%d]", STR_ARGS(name), STR_ARGS(n8), half);
    }
    return emit_format(t, "ftl_pack_%s(%.*s[m16][%.*s][%d], %.*s[m16][%.*s][%d])",
                       emit_type_word(type), STR_ARGS(name), STR_ARGS(n8), 2 * half, STR_ARGS(name),
                       STR_ARGS(n8), 2 * half + 1);
}

static void store_matrices(emit *t, const emit_tile *from, const emit_tile *to, const char *n16,
                           int tiles) {
    str at = matrices_address(t, &to->store, n16);
    if (from->shape.down > 1)
        at = emit_format(t, "%.*s + %d * m16", STR_ARGS(at), 16 * to->store.pitch_bytes);
    str words = {0};
    for (int i = 0; i < tiles; i++) {
        str n8 = emit_format(t, i ? "2 * %s + 1" : "2 * %s", n16);
        words = emit_format(t, "%.*s, %.*s, %.*s", STR_ARGS(words),
                            STR_ARGS(packed_pair(t, from, to->type, n8, 0)),
                            STR_ARGS(packed_pair(t, from, to->type, n8, 1)));
    }
    emit_text(t, "ftl_stmatrix_x%d(%.*s%.*s);", 2 * tiles, STR_ARGS(at), STR_ARGS(words));
}

void copy_matrices_to_shared(emit *t, const tl_statement *s, const emit_tile *from,
                             const emit_tile *to) {
    const shared_layout *l = &to->store;
    int across = from->shape.across, step = from->layout.spread[1].step.row;
    bool fits = tl_type_bits(to->type) == 16 && !l->by_columns && !from->shape.is_lines &&
                from->layout.spread[0].count == 1 && (from->is_packed || from->type == TL_F32) &&
                (!from->is_packed || from->type == to->type);
    if (!fits) {
        copy_refuse(t, s, "stmatrix takes fragments of whole rows to a 16-bit tile of rows");
        return;
    }
    if (from->layout.spread[1].count == 1) step = l->rows;
    check_matrices(from, l, step);
    emit_open(t, "{");
    emit_fresh_thread(t);
    emit_text(t, "const int line = warp * %d + (lane & 15);", step);
    str turn = STR("");
    int shift = 3 - __builtin_ctz((unsigned)l->swizzle_bytes / SHARED_UNIT_BYTES);
    if (l->swizzle_bytes > SHARED_UNIT_BYTES)
        turn =
            shift ? emit_format(t, " ^ (line & 7) >> %d << 4", shift) : STR(" ^ (line & 7) << 4");
    emit_text(t, "const unsigned target = %.*s + (unsigned)(line * %d + ((lane >> 4 << 4)%.*s));",
              STR_ARGS(emit_fill_place(t, s, to)), l->pitch_bytes, STR_ARGS(turn));
    emit_loop(t, "m16", from->shape.down);
    if (across >= 2) {
        emit_loop(t, "n16", across / 2);
        store_matrices(t, from, to, "n16", 2);
        emit_close(t);
    }
    if (across % 2)
        store_matrices(t, from, to, str_copy_z(t->memory, emit_format(t, "%d", across / 2)), 1);
    emit_close(t);
    emit_close(t);
}

/* The loads of 16 contracted columns a step; of 8 where 'is_tail', the last ones of an odd number.
 */
static void ldmatrix_step(emit *t, const emit_tile *to, const access_operand *o, bool is_tail) {
    str name = to->name, k = is_tail ? emit_format(t, "%d", o->k8 - 1) : STR("2 * k16");
    if (is_tail) emit_open(t, "{");
    else emit_loop(t, "k16", o->k8 / 2);
    emit_loop(t, "m16", to->shape.down);
    str along = emit_format(t, "%.*s * 16", STR_ARGS(k));
    str at = emit_along(t, &o->threads, STR("source"), along, true);
    if (to->shape.down > 1)
        at = emit_format(t, "%.*s + %d * m16", STR_ARGS(at), 16 * o->threads.pitch_bytes);
    str first = emit_format(t, "%.*s[m16][%.*s]", STR_ARGS(name), STR_ARGS(k));
    if (is_tail) {
        emit_text(t, "ftl_ldmatrix_x2(%.*s[0], %.*s[1], %.*s);", STR_ARGS(first), STR_ARGS(first),
                  STR_ARGS(at));
    } else {
        str second = emit_format(t, "%.*s[m16][2 * k16 + 1]", STR_ARGS(name));
        emit_text(t, "ftl_ldmatrix_x4(%.*s[0], %.*s[1], %.*s[0], %.*s[1], %.*s);", STR_ARGS(first),
                  STR_ARGS(first), STR_ARGS(second), STR_ARGS(second), STR_ARGS(at));
    }
    emit_close(t);
    emit_close(t);
}

static bool ldmatrix_to_fragments(emit *t, const emit_tile *from, const emit_tile *to) {
    access_operand_request request = {0};
    access_operand o;
    if (!emit_divide_operand(t, &to->tile->allocation->allocate.layout, &request)) return false;
    bool shares = request.warps_across == 1 || layout_warp_copies(&to->layout) > 1;
    bool is_permuted = to->tile->allocation->allocate.layout.is_permuted;
    if (!shares || is_permuted || !to->is_packed || from->type != to->type ||
        from->store.by_columns ||
        access_operand_make(&request, &from->store, &o).status != LAYOUT_OK ||
        !gpu_has(t->gpu, GPU_FEATURE_ldmatrix)) {
        return false;
    }
    emit_open(t, "{");
    emit_fresh_thread(t);
    emit_declare_address(t, "source", emit_held(t, from), &o.threads);
    if (o.k8 >= 2) ldmatrix_step(t, to, &o, false);
    if (o.k8 % 2) ldmatrix_step(t, to, &o, true);
    emit_close(t);
    return true;
}

void copy_shared_to_fragments(emit *t, const tl_statement *s, const emit_tile *from,
                              const emit_tile *to) {
    if (to->shape.alternates) {
        copy_refuse(t, s, "nothing comes from shared memory in mma_C permuted");
        return;
    }
    if (ldmatrix_to_fragments(t, from, to)) return;
    if (str_is(s->copy.atom, "ldmatrix")) {
        copy_refuse(t, s, "ldmatrix fills fragments of 16 or 8 bits from rows of a shared tile");
        return;
    }
    str address;
    emit_open(t, "{");
    if (pair_address(t, s, to, from, emit_held(t, from), &address)) {
        int opened = emit_open_frame(t, &to->shape);
        pairs_move_one(t, to, &(pairs_way){"load_shared", from->type, address}, true);
        emit_close_frame(t, opened);
    }
    emit_close(t);
}
