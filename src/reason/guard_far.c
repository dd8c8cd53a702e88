/* Blocks under the vote where scores may lie far out (far.h): one fused operation all the same.
 *
 * S*c - c*m with c*m rounded may be off by octaves there. So the shift of a row is not rounded to
 * the nearest but lies above c*m for certain: weights come out too large, if anything, all of a
 * row by the same factor, which its quotients and its logarithm do not know. Where that factor
 * matters it takes a part past its limit, the vote fails, and the slow way takes differences
 * exactly, as the first block does. Scores of ordinary size never notice.
 */
#include "reason/guard.h"

void guard_fuse(reason *r, guard_form *g) {
    if (!g->difference || g->is_byte) return; /* the range of 8 bits is put to use up to its end */
    const char *shift = edit_z(r->memory, edit_fresh_name(r->kernel, r->memory, "shift"));
    const char *rise = edit_z(r->memory, edit_fresh_name(r->kernel, r->memory, "rise"));
    const char *c = edit_factor_text(r->memory, g->bias->compute.operands[1].value);
    const char *m = edit_z(r->memory, g->m);
    const char *nearest = g->lift ? reason_say(r, "MultiplyAdd %s, -%s, %d", m, c, -g->lift)
                                  : reason_say(r, "Multiply %s, -%s", m, c);
    guard_allocate_like(r, g->m, rise, "more than c*m is rounded by");
    guard_allocate_like(r, g->m, shift, "at least -c*m, for blocks under the vote");
    tl_block upper = tl_quote(r->memory,
                              "Compute %s and get %s // once a row\n"
                              "Compute Abs %s and get %s\n"
                              "Compute MultiplyAdd %s, 2.3841858e-7, %s and get %s // never below",
                              nearest, shift, shift, rise, rise, shift, shift);
    int count = 0;
    for (tl_statement *s = upper.first; s; s = s->next) g->upper[count++] = s;
    g->fused = tl_quote(r->memory,
                        "Compute MultiplyAdd %.*s, %s, %s and get %.*s // what is rounded fails "
                        "the vote",
                        STR_ARGS(g->s), c, shift, STR_ARGS(g->t))
                   .first;
}
