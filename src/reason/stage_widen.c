/* Pass stage, tiles of 8 bits: they come to shared memory as memory has them, by copies that run on
 * their own, and are widened from there, by way of registers, right before their first use. So what
 * is in flight takes no registers, and a ring of them half the bytes.
 */
#include "reason/stage.h"
#include "reason/tiles.h"

static void widen_in_loop(reason *r, tl_statement *copy) {
    str name = edit_target_name(copy), shared = stage_shared_name(r, name);
    tl_statement *first, *last;
    int64_t stages;
    if (!reason_find_uses(r, copy, &first, &last)) return;
    stage_allocate_lines(r, copy);
    str raw = reason_fresh(r, "%.*s_raw", STR_ARGS(name));
    tl_statement *wide = edit_shared_tile(r->kernel, name);
    tl_statement *made = edit_allocate_like(r->kernel, r->memory, wide, raw, "as memory has it");
    made->allocate.type = tiles_tensor_type(r->kernel, copy->copy.what->text);
    made->allocate.swizzle_bytes = 0;
    if (reason_let_integer(r, reason_say(r, "%.*s_stages", STR_ARGS(name)), &stages))
        reason_let(r, reason_say(r, "%.*s_stages", STR_ARGS(raw)), stages);
    copy->copy.target = tl_name_expr(r->memory, raw);
    copy->copy.target_kind = TL_GET;
    reason_before(r, first,
                  "Copy %.*s from shared to register and get %.*s\n"
                  "Copy %.*s from register to shared // exact in 16 bits\n"
                  "Wait %.*s // for all warps",
                  STR_ARGS(raw), STR_ARGS(name), STR_ARGS(name), STR_ARGS(shared));
    reason_after(r, last, "Release %.*s // nothing reads it any more", STR_ARGS(shared));
}

/* Are both of one size, and is the one no longer used when the other is? */
static bool may_host(reason *r, tl_statement *loop, str host, str guest) {
    tl_statement *a = edit_shared_tile(r->kernel, host);
    tl_statement *b = edit_shared_tile(r->kernel, guest);
    if (a->allocate.shape.count != b->allocate.shape.count) return false;
    for (int i = 0; i < a->allocate.shape.count; i++) {
        int64_t one, other;
        if (!reason_known(r, a->allocate.shape.items[i], &one) ||
            !reason_known(r, b->allocate.shape.items[i], &other) || one != other)
            return false;
    }
    const tl_statement *begins = NULL, *ends = NULL;
    for (tl_statement *s = loop->loop.body.first; s; s = s->next) {
        if (s->kind == TL_RELEASE && str_equal(s->sync.what->text, stage_shared_name(r, host)))
            ends = s;
        if (s->kind == TL_COPY && s->copy.from == TL_REGISTER &&
            str_equal(s->copy.what->text, guest))
            begins = s;
    }
    return begins && ends && edit_is_before(r->kernel, (tl_statement *)(uintptr_t)ends, begins);
}

/* Widened tiles of a lone warp take turns in the bytes of one: no other warp has to be waited for.
 */
void stage_widen_loop(reason *r, tl_statement *loop) {
    const tl_statement *role = r->kernel->body.last;
    str host = {"", 0};
    for (tl_statement *s = loop->loop.body.first; s; s = s->next) {
        if (!stage_is_fill(s) || !tiles_widens(r->kernel, s)) continue;
        str name = edit_target_name(s);
        widen_in_loop(r, s);
        if (role->role.executors != 1 || role->role.is_warpgroups) continue;
        if (host.length && may_host(r, loop, host, name)) {
            edit_shared_tile(r->kernel, name)->allocate.in_place_of = stage_shared_name(r, host);
        } else if (!host.length) {
            host = name;
        }
    }
}
