/* Votes that are kept from iteration to iteration.
 *
 * A vote in a loop over tiles that change only under other votes, which is rarely, need not be
 * taken in every iteration: it is taken before the loop, and again where such a tile was changed.
 * In between it is a number that the warp shares: no register of its tiles has to live for it, and
 * the way around those branches does not vote.
 */
#include "translate/emit.h"

static bool is_of_registers(const tl_expr *e) {
    return e->symbol && e->space != TL_SHARED && e->space != TL_GLOBAL;
}

static bool is_other_tile(void *context, const tl_expr *e) {
    const tl_expr *written = context;
    return e->symbol != written->symbol || !is_of_registers(e) || !is_of_registers(written);
}

/* Does the expression name the tile that the statement writes? */
static bool names_written(const tl_expr *e, const tl_statement *s) {
    const tl_expr *written = tl_written_name(s);
    return written && !tl_visit(e, is_other_tile, (void *)(uintptr_t)written);
}

/* Does the block change what the vote is about, in bodies under other votes left out? `not` of a
 * vote is no such body: it is the way that is taken mostly.
 */
static bool changes(const tl_block *block, const tl_expr *call) {
    for (const tl_statement *s = block->first; s; s = s->next) {
        bool is_rare = s->kind == TL_IF && s->branch.condition->kind != TL_NOT &&
                       model_is_vote(s->branch.condition);
        if (is_rare) continue;
        const tl_block *body = tl_statement_body((tl_statement *)(uintptr_t)s);
        if (body ? changes(body, call) : names_written(call, s)) return true;
    }
    return false;
}

int emit_open_votes(emit *t, const tl_block *body) {
    int before = t->votes.count;
    for (const tl_statement *s = body->first; s; s = s->next) {
        const tl_expr *call = s->kind == TL_LET ? s->let.items[0].value : NULL;
        bool is_kept = call && s->let.count == 1 && call->kind == TL_CALL &&
                       call->function == TL_FUNCTION_ANY && !changes(body, call);
        if (!is_kept) continue;
        str name = emit_format(t, "%.*s_kept", STR_ARGS(emit_clean(t, s->let.items[0].name)));
        emit_header(t, s);
        str vote = emit_any(t, call);
        emit_text(t, "int %.*s = %.*s; // taken again where the tile changes", STR_ARGS(name),
                  STR_ARGS(vote));
        list_push(t->memory, &t->votes, ((emit_vote){call, name}));
    }
    return before;
}

void emit_close_votes(emit *t, int before) {
    t->votes.count = before;
}

str emit_kept_vote(const emit *t, const tl_expr *call) {
    for (int i = 0; i < t->votes.count; i++)
        if (t->votes.items[i].call == call) return t->votes.items[i].name;
    return (str){0};
}

void emit_renew_votes(emit *t, const tl_block *body) {
    for (int i = 0; i < t->votes.count; i++) {
        const emit_vote *v = &t->votes.items[i];
        if (!changes(body, v->call)) continue;
        str vote = emit_any(t, v->call);
        emit_text(t, "%.*s = %.*s;", STR_ARGS(v->name), STR_ARGS(vote));
    }
}
