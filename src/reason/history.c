/* Where statements come from: which passes wrote them, and for the sake of which of the user's.
 *
 * Passes move, copy and quote statements as they like and need not think of this. After each of
 * them the kernel is looked through: a header that is not what it was is that pass's work, and a
 * statement that no text of the user's stands for serves the one after it that uses what it makes,
 * brings or waits for. Where there is none, that is the last one before it about the same tile
 * (what is released has been used), else the one around it; a branch serves what is in it. A copy
 * keeps what it was copied from.
 */
#include "base/hash.h"
#include "reason/pass.h"

/* --- what a statement is about ---------------------------------------------------------------- */

/* Names that it declares, makes, brings, waits for or frees; "" past the last. */
static str own_name(const tl_statement *s, int i) {
    switch (s->kind) {
    case TL_ALLOCATE: return i < s->allocate.name_count ? s->allocate.names[i] : STR("");
    case TL_LET: return i < s->let.count ? s->let.items[i].name : STR("");
    case TL_WAIT:
    case TL_RELEASE: return i == 0 ? edit_bare(s->sync.what->text) : STR("");
    case TL_COPY:
        return i == 0 ? edit_bare((s->copy.target ? s->copy.target : s->copy.what)->text) : STR("");
    default: return i == 0 ? edit_bare(edit_target_name(s)) : STR("");
    }
}

static bool names(tl_statement *s, str name) {
    for (int i = 0; own_name(s, i).length > 0; i++)
        if (str_equal(own_name(s, i), name)) return true;
    return edit_mentions(s, name) > 0;
}

/* --- whom it serves --------------------------------------------------------------------------- */

/* Of the user's text what it stands for, or serves; {0, 0}: nothing is known yet. */
static diag_range known_range(const tl_statement *s) {
    return s->range.end > 0 ? s->range : s->history.served;
}

static diag_range served_by_name(reason *r, const tl_statement *s, str name) {
    diag_range before = {0, 0};
    bool is_past = false;
    for (tl_statement *o = r->kernel->body.first; o; o = tl_next(o, NULL)) {
        is_past |= o == s;
        diag_range there = known_range(o);
        if (o == s || !there.end || !names(o, name)) continue;
        if (is_past) return there;
        before = there;
    }
    return before;
}

static diag_range served_by(reason *r, tl_statement *s) {
    for (const tl_statement *o = r->kernel->body.first; o && s->kind == TL_GRID; o = o->next)
        if (o->kind == TL_OUTPUT) return known_range(o); /* whose tiles it walks */
    bool is_frame = s->kind == TL_IF || (s->kind == TL_FOR && !s->loop.is_grid_walk);
    for (tl_statement *in = is_frame ? tl_next(s, s) : NULL; in; in = tl_next(in, s))
        if (known_range(in).end) return known_range(in);
    for (int i = 0;; i++) {
        str name = own_name(s, i);
        if (!name.length) break;
        diag_range found = served_by_name(r, s, name);
        if (found.end) return found;
    }
    for (const tl_statement *around = s->parent; around; around = around->parent)
        if (known_range(around).end) return known_range(around);
    return (diag_range){0, 0};
}

/* --- after each pass -------------------------------------------------------------------------- */

enum { ROUNDS = 3 }; /* a bound serves the loop that serves what is in it */

static bool stands(const reason *r, diag_range range) {
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL))
        if (known_range(s).begin == range.begin && known_range(s).end == range.end) return true;
    return false;
}

static void note_taken(reason *r, int pass) {
    for (int i = 0; i < r->taken.count; i++) {
        reason_taken *taken = &r->taken.items[i];
        bool is_here = taken->pass < 0 && str_equal(taken->kernel, r->kernel->name);
        if (is_here && !stands(r, taken->range)) taken->pass = pass;
    }
}

void reason_note_history(reason *r, int pass) {
    if (!r->options->wants_history) return;
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        uint64_t text = hash_bytes(edit_header(r->memory, s)).low;
        if (pass < 0)
            list_push(r->memory, &r->taken, ((reason_taken){r->kernel->name, s->range, -1}));
        else if (text != s->history.text) s->history.passes |= 1u << pass;
        s->history.text = text;
    }
    if (pass < 0) return;
    for (int round = 0; round < ROUNDS; round++) /* what has a body after what is in it */
        for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL))
            if (!known_range(s).end && (round > 0 || !tl_statement_body(s)))
                s->history.served = served_by(r, s);
    note_taken(r, pass);
}
