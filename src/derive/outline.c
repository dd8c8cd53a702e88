/* What is known of a sketch before its statements are read: its loops. */
#include "derive/tape.h"

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

bool tape_outline(tape *t) {
    for (tl_statement *s = t->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (s->kind == TL_IF)
            return tape_refuse(t, s, "'if' has no rule: a sketch says it by a Mask");
        if (s->kind == TL_HOLE) return tape_refuse(t, s, "something is missing here");
        if (s->kind == TL_FOR && !add_loop(t, s)) return false;
    }
    return true;
}
