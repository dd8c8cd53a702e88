#include "reason/softmax.h"

/* -c times the maximum is the shift of a fused multiply-add; where scores may lie far out
 * (reason/far.h), their difference from it is multiplied.
 */
static bool read_shift(softmax_weights *w) {
    tl_statement *bias = edit_last_write(w->power, w->s);
    if (!bias) return false;
    if (edit_fits(bias, "MultiplyAdd 0", w->s)) {
        str name = edit_operand_name(bias, 2);
        w->shift = edit_last_write(bias, name);
        w->m = edit_operand_name(w->shift ? w->shift : bias, 0);
        return edit_fits(w->shift, "Multiply _ and get 0", name) && w->m.length > 0;
    }
    w->shift = bias;
    const tl_statement *difference = edit_last_write(bias, w->s);
    bool is_exact = edit_fits(bias, "Multiply 0, _ and get 0", w->s) &&
                    edit_fits(difference, "Subtract 0, _ and get 0", w->s);
    if (is_exact) w->m = edit_operand_name(difference, 1);
    return is_exact && w->m.length > 0;
}

bool softmax_read(const tl_statement *product, softmax_weights *w) {
    *w = (softmax_weights){.s = edit_operand_name(product, 0)};
    w->power = edit_last_write(product, w->s);
    return edit_fits(w->power, "Exp2 0", w->s) && read_shift(w) &&
           edit_fits(edit_last_write(w->shift, w->m), "RowMax 0 and accumulate 1", w->s, w->m);
}

bool softmax_has_sum(softmax_weights *w) {
    for (tl_statement *s = w->power->next; s; s = s->next) {
        if (!edit_reads_within(s, w->s)) continue;
        if (!w->l.length && edit_fits(s, "RowSum 0 and accumulate _", w->s))
            w->l = edit_target_name(s);
        else if (!edit_fits(s, "GEMM 0", w->s)) return false;
    }
    return w->l.length > 0;
}
