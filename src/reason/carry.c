#include "reason/carry.h"

#include "reason/scalar.h"

typedef enum carry_fate { CARRY_KEPT, CARRY_WRITTEN, CARRY_READ } carry_fate;

/* What happens first to what is in the tile, from a statement on, up to 'end'? What an `if` or a
 * loop writes it may not write.
 */
static carry_fate fate(tl_statement *first, const tl_statement *end, str name) {
    for (tl_statement *s = first; s && s != end; s = s->next) {
        tl_block *body = tl_statement_body(s);
        if (edit_reads(s, name)) return CARRY_READ;
        if (body && fate(body->first, NULL, name) == CARRY_READ) return CARRY_READ;
        if (!body && edit_writes(s, name)) return CARRY_WRITTEN;
    }
    return CARRY_KEPT;
}

bool carry_between(tl_statement *loop, str name) {
    return edit_writes_within(loop, name) && fate(loop->loop.body.first, NULL, name) == CARRY_READ;
}

bool carry_out(tl_statement *loop, str name) {
    for (tl_statement *s = loop; s; s = s->parent) {
        carry_fate found = fate(s->next, NULL, name);
        if (found != CARRY_KEPT) return found == CARRY_READ;
        tl_statement *around = s->parent;
        if (around && around->kind == TL_FOR &&
            fate(around->loop.body.first, s, name) == CARRY_READ)
            return true;
    }
    return false;
}

bool carry_starts_at_zero(reason *r, const tl_statement *loop, str name) {
    double value;
    const tl_statement *s = edit_last_write(loop, name);
    return edit_fits(s, "Fill _ and get 0", name) &&
           scalar_number(r, s->compute.operands[0].value, &value) && value == 0;
}
