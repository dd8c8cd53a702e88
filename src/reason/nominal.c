#include "reason/nominal.h"

#include "reason/tiles.h"

#include <math.h>

enum {
    NOMINAL_LENGTH = 4096, /* of axes that are known at launch only */
    DEPTH_MAX = 64,        /* of lets that stand for one another */
};

static const char PREFIX[] = "nominal_";

/* An expression's value, and whether some name in it has a nominal one of its own. */
typedef struct reading {
    reason *r;
    double otherwise;
    bool has_own, has_failed;
    int deep;
} reading;

static double value_of(reading *n, const tl_expr *e);

static double name_value(reading *n, str name) {
    reason *r = n->r;
    int64_t value;
    if (reason_let_integer(r, reason_say(r, "%s%.*s", PREFIX, STR_ARGS(name)), &value)) {
        n->has_own = true;
        return (double)value;
    }
    const tl_binding *let = edit_find_let(r->kernel, name, NULL);
    if (let && let->axes.count == 0 && n->deep < DEPTH_MAX) {
        n->deep++;
        double of_let = value_of(n, let->value);
        n->deep--;
        return of_let;
    }
    /* An index begins at 0: so do the longest of the tiles. */
    return tiles_index(r->kernel, name) ? 0 : n->otherwise;
}

static double call_value(reading *n, const tl_expr *e) {
    double first = value_of(n, e->items[0]);
    switch (e->function) {
    case TL_FUNCTION_CEIL: return ceil(first);
    case TL_FUNCTION_FLOOR: return floor(first);
    case TL_FUNCTION_MIN:
        for (int i = 1; i < e->item_count; i++) first = fmin(first, value_of(n, e->items[i]));
        return first;
    case TL_FUNCTION_MAX:
        for (int i = 1; i < e->item_count; i++) first = fmax(first, value_of(n, e->items[i]));
        return first;
    default: n->has_failed = true; return 0;
    }
}

static double value_of(reading *n, const tl_expr *e) {
    int64_t known;
    if (reason_known(n->r, e, &known)) return (double)known;
    if (e->kind == TL_NAME) return name_value(n, e->text);
    if (e->kind == TL_NEGATE) return -value_of(n, e->left);
    if (e->kind == TL_CALL) return call_value(n, e);
    if (e->kind == TL_ELEMENT) return n->otherwise;
    if (e->kind != TL_BINARY) {
        n->has_failed = true;
        return 0;
    }
    double a = value_of(n, e->left), b = value_of(n, e->right);
    switch (e->operator) {
    case TL_PLUS: return a + b;
    case TL_MINUS: return a - b;
    case TL_TIMES: return a * b;
    case TL_OVER:
        if (b > 0) return ceil(a / b);
        break;
    default: break;
    }
    n->has_failed = true;
    return 0;
}

double nominal_value(reason *r, const tl_expr *e) {
    int64_t known, usual = reason_decided(r, NOMINAL_LENGTH, "nominal_length");
    if (reason_known(r, e, &known)) return known > 0 ? (double)known : 1;
    reading n = {.r = r, .otherwise = (double)usual};
    double value = value_of(&n, e);
    return !n.has_own || n.has_failed ? (double)usual : fmax(value, 1);
}

double nominal_worth(reason *r, const tl_expr *e) {
    reading n = {.r = r, .otherwise = (double)reason_decided(r, NOMINAL_LENGTH, "nominal_length")};
    double value = value_of(&n, e);
    return n.has_failed ? 1 : fmax(value, 1);
}

str nominal_subject(str pin) {
    str prefix = str_from(PREFIX);
    if (!str_starts(pin, prefix)) return STR("");
    return (str){pin.data + prefix.length, pin.length - prefix.length};
}

void nominal_drop(reason *r) {
    for (bool found = true; found;) {
        found = false;
        for (tl_statement *s = r->kernel->body.first; s && !found; s = s->next)
            for (int i = 0; s->kind == TL_LET && i < s->let.count && !found; i++) {
                found = nominal_subject(s->let.items[i].name).length > 0;
                if (found) edit_remove_let(r->kernel, s->let.items[i].name);
            }
    }
}
