/* Pass stage, tiles of 8 bits: they come to shared memory as memory has them, by copies that run on
 * their own, and are widened from there, by way of registers, right before their first use. So what
 * is in flight takes no registers, and a ring of them half the bytes.
 */
#include "reason/stage.h"
#include "reason/tiles.h"

static void insert_before(reason *r, tl_statement *at, const char *text) {
    edit_before(r->kernel, at, tl_quote(r->memory, "%s", text));
}

static void insert_after(reason *r, tl_statement *at, const char *text) {
    edit_after(r->kernel, at, tl_quote(r->memory, "%s", text));
}

static void widen_in_loop(reason *r, tl_statement *copy) {
    str name = edit_target_name(copy), shared = stage_shared_name(r, name);
    tl_statement *first, *last;
    int64_t stages;
    if (!stage_find_uses(copy, name, shared, &first, &last)) return;
    stage_allocate_lines(r, copy);
    str raw = edit_fresh_name(r->kernel, r->memory, reason_say(r, "%.*s_raw", STR_ARGS(name)));
    tl_statement *wide = edit_find_allocation(r->kernel->body.first, name, TL_SHARED);
    tl_statement *made = tl_statement_copy(r->memory, wide);
    made->allocate.names = arena_array(r->memory, str, 1);
    made->allocate.names[0] = raw, made->allocate.name_count = 1;
    made->allocate.type = tiles_tensor_type(r->kernel, copy->copy.what->text);
    made->allocate.swizzle_bytes = 0;
    made->comment = STR("as memory has it");
    tl_block block = {0};
    tl_block_append(&block, NULL, made);
    edit_after(r->kernel, wide, block);
    if (reason_let_integer(r, reason_say(r, "%.*s_stages", STR_ARGS(name)), &stages))
        reason_let(r, reason_say(r, "%.*s_stages", STR_ARGS(raw)), stages, "");
    copy->copy.target = tl_quote_expr(r->memory, "%.*s", STR_ARGS(raw));
    copy->copy.target_kind = TL_GET;
    insert_before(r, first,
                  reason_say(r,
                             "Copy %.*s from shared to register and get %.*s\n"
                             "Copy %.*s from register to shared // exact in 16 bits\n"
                             "Wait %.*s // for all warps",
                             STR_ARGS(raw), STR_ARGS(name), STR_ARGS(name), STR_ARGS(shared)));
    insert_after(r, last,
                 reason_say(r, "Release %.*s // nothing reads it any more", STR_ARGS(shared)));
}

/* Are both of one size, and is the one no longer used when the other is? */
static bool may_host(reason *r, tl_statement *loop, str host, str guest) {
    tl_statement *a = edit_find_allocation(r->kernel->body.first, host, TL_SHARED);
    tl_statement *b = edit_find_allocation(r->kernel->body.first, guest, TL_SHARED);
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
            edit_find_allocation(r->kernel->body.first, name, TL_SHARED)->allocate.in_place_of =
                stage_shared_name(r, host);
        } else if (!host.length) {
            host = name;
        }
    }
}
