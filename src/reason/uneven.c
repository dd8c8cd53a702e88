/* Tiles of the grid that take unequally long: how many blocks a loop has for each. */
#include "reason/scalar.h"
#include "reason/walk.h"

/* How an expression moves with a walk: 1 up, -1 down, 0 not known or not at all. */
static int direction(reason *r, const tl_expr *e, str walk, int depth) {
    if (!e || depth > TL_HEIGHT_MAX) return 0;
    switch (e->kind) {
    case TL_NAME: {
        if (str_equal(e->text, walk)) return 1;
        tl_binding *let = edit_find_let(r->kernel, e->text, NULL);
        return let && let->axes.count == 0 ? direction(r, let->value, walk, depth + 1) : 0;
    }
    case TL_NEGATE: return -direction(r, e->left, walk, depth + 1);
    case TL_BINARY: {
        int a = direction(r, e->left, walk, depth + 1), b = direction(r, e->right, walk, depth + 1);
        if (e->operator== TL_MINUS) b = -b;
        if (e->operator== TL_OVER) b = 0;
        return a == b || b == 0 ? a : a == 0 ? b : 0;
    }
    case TL_CALL: {
        int all = 0;
        for (int i = 0; i < e->item_count; i++) {
            int one = direction(r, e->items[i], walk, depth + 1);
            if (all != 0 && one != 0 && all != one) return 0;
            all = all != 0 ? all : one;
        }
        return all;
    }
    default: return 0;
    }
}

/* Does an element of a table that the tile chooses take part, by whatever name? */
static bool is_listed(reason *r, const tl_expr *e, int depth) {
    if (!e || depth > TL_HEIGHT_MAX) return false;
    if (e->kind == TL_ELEMENT) return scalar_depends_on_tile(r, e);
    const tl_binding *let = e->kind == TL_NAME ? edit_find_let(r->kernel, e->text, NULL) : NULL;
    if (let) return let->axes.count == 0 && is_listed(r, let->value, depth + 1);
    for (int i = 0; i < e->item_count; i++)
        if (is_listed(r, e->items[i], depth + 1)) return true;
    return is_listed(r, e->left, depth + 1) || is_listed(r, e->right, depth + 1);
}

bool walk_is_listed(reason *r, const tl_statement *loop) {
    return loop->kind == TL_FOR && !loop->loop.is_grid_walk &&
           (is_listed(r, loop->loop.from, 0) || is_listed(r, loop->loop.to, 0));
}

/* `max(from + 1, e)`: e says where the loop ends, the rest that it is never empty. */
static const tl_expr *end_of(const reason *r, const tl_statement *loop) {
    const tl_expr *to = loop->loop.to;
    const tl_binding *let = to->kind == TL_NAME ? edit_find_let(r->kernel, to->text, NULL) : NULL;
    if (let && let->axes.count == 0) to = let->value;
    if (to->kind != TL_CALL || to->function != TL_FUNCTION_MAX || to->item_count != 2) return to;
    const tl_expr *least = to->items[0];
    bool is_one_more = least->kind == TL_BINARY && least->operator== TL_PLUS &&
                                                   tl_expr_equal(least->left, loop->loop.from);
    return is_one_more ? to->items[1] : to;
}

int walk_direction(reason *r, const tl_statement *loop, str walk) {
    if (loop->kind != TL_FOR || loop->loop.is_grid_walk) return 0;
    int to = direction(r, end_of(r, loop), walk, 0), from = direction(r, loop->loop.from, walk, 0);
    return from == 0 ? to : to == 0 ? -from : 0;
}
