/* Blocks under the vote where scores may lie far out (far.h): one fused operation all the same.
 *
 * S*c - c*m with c*m rounded is off by octaves there, but by less than 2^-12 of one where c*m is of
 * ordinary size. So the shift of a row that is not becomes as large as no score can make up for:
 * its powers are infinite, the vote fails, and the slow way takes differences exactly, as the first
 * block does.
 */
#include "reason/guard.h"

void guard_fuse(reason *r, guard_form *g) {
    if (!g->difference || g->is_byte) return; /* the range of 8 bits is put to use up to its end */
    const char *shift = reason_fresh_z(r, "shift");
    const char *size = reason_fresh_z(r, "size");
    const char *c = edit_factor_text(r->memory, g->bias->compute.operands[1].value);
    const char *m = edit_z(r->memory, g->m);
    const char *nearest = g->lift ? reason_say(r, "MultiplyAdd %s, -%s, %d", m, c, -g->lift)
                                  : reason_say(r, "Multiply %s, -%s", m, c);
    guard_allocate_like(r, g->m, size, "of the shift");
    guard_allocate_like(r, g->m, shift, "-c*m, for blocks under the vote");
    tl_block far = tl_quote(r->memory,
                            "Compute %s and get %s // once a row\n"
                            "Compute Abs %s and get %s\n"
                            "Compute Mask %s, 3e38 where %s > 4096 // too far out: fails the vote",
                            nearest, shift, shift, size, shift, size);
    int count = 0;
    for (tl_statement *s = far.first; s; s = s->next) g->shifts[count++] = s;
    g->fused =
        tl_quote(r->memory, "Compute MultiplyAdd %.*s, %s, %s and get %.*s // one fused operation",
                 STR_ARGS(g->s), c, shift, STR_ARGS(g->t))
            .first;
}
