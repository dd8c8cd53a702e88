/* What is known of a sketch before its statements are read: its loops, and the Output that has the
 * log-sum-exp.
 */
#include "derive/tape.h"

/* --- loops ------------------------------------------------------------------------------------ */

static bool add_loop(tape *t, const tl_statement *s) {
    const tl_expr *length, *size;
    if (s->parent) return tape_refuse(t, s, "a loop inside of another has no rule yet");
    if (!tl_loop_walks(s, &length, &size) || !size)
        return tape_refuse(t, s,
                           "gradients are derived of loops that walk an axis in blocks, `for j = "
                           "0:length/BN`");
    tl_walked walked = tl_loop_indices(t->kernel, s, length);
    if (walked.count != 1)
        return tape_refuse(t, s, "the loop walks %d axes, and there is a rule for one",
                           walked.count);
    tape_loop loop = {.statement = s, .walked = walked.names[0]};
    list_push(t->memory, &t->loops, loop);
    return true;
}

static bool find_loops(tape *t) {
    for (tl_statement *s = t->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (s->kind == TL_IF)
            return tape_refuse(t, s, "'if' has no rule: a sketch says it by a Mask");
        if (s->kind == TL_HOLE) return tape_refuse(t, s, "something is missing here");
        if (s->kind == TL_FOR && !add_loop(t, s)) return false;
    }
    return true;
}

/* --- the log-sum-exp -------------------------------------------------------------------------- */

/* What may become the log-sum-exp: m and l as the Softmax left them, `Log l`, and that and m added.
 */
typedef struct lse_search {
    const tl_expr *m, *l, *log, *sum; /* NULL: not there, or written over */
} lse_search;

static bool takes(const tl_compute *c, int operand, const tl_expr *name) {
    const tl_expr *e = operand < c->operand_count ? c->operands[operand].value : NULL;
    return name && e && e->kind == TL_NAME && str_equal(e->text, name->text);
}

static void follow_lse(lse_search *f, const tl_statement *s) {
    const tl_compute *c = &s->compute;
    bool is_compute = s->kind == TL_COMPUTE, gets = is_compute && c->target_kind == TL_GET;
    bool is_log = gets && c->operation == TL_LOG && takes(c, 0, f->l);
    bool is_sum =
        gets && c->operation == TL_ADD &&
        ((takes(c, 0, f->log) && takes(c, 1, f->m)) || (takes(c, 0, f->m) && takes(c, 1, f->log)));
    const tl_expr **parts[] = {&f->m, &f->l, &f->log, &f->sum}, *written = tl_written_name(s);
    for (size_t i = 0; i < sizeof parts / sizeof *parts && written; i++)
        if (*parts[i] && str_equal((*parts[i])->text, written->text)) *parts[i] = NULL;
    if (is_log) f->log = c->target;
    if (is_sum) f->sum = c->target;
    if (is_compute && c->operation == TL_SOFTMAX) *f = (lse_search){.m = c->maximum, .l = c->sum};
}

/* The Output that the sketch itself gives the log-sum-exp, where there is one. */
static void find_lse(tape *t) {
    lse_search f = {0};
    t->lse_tensor = tape_free_name(t, "lse");
    for (tl_statement *s = t->kernel->body.first; s; s = tl_next(s, NULL)) {
        bool is_stored = f.sum && s->kind == TL_COPY && s->copy.to == TL_GLOBAL &&
                         s->copy.target_kind != TL_ACCUMULATE &&
                         str_equal(s->copy.what->text, f.sum->text);
        const tl_expr *into = is_stored ? tl_copy_into(s) : NULL;
        if (is_stored && into->symbol && into->symbol->is_output) {
            t->lse_tensor = into->text;
            t->lse_is_output = true;
            return;
        }
        follow_lse(&f, s);
    }
}

bool tape_outline(tape *t) {
    find_lse(t);
    return find_loops(t);
}
