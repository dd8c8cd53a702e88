/* Factors of what sums of products take: a number that is the same for all of a block's elements
 * multiplies what the loop comes to, once, and no block.
 */
#include "derive/derivation.h"

static bool is_no_index(void *context, const tl_expr *e) {
    (void)context;
    bool is_number = e->kind != TL_ELEMENT && e->kind != TL_NAME;
    return is_number || (e->symbol && (e->symbol->kind == TL_SYMBOL_SCALAR ||
                                       e->symbol->kind == TL_SYMBOL_CONSTANT));
}

static bool is_factor(const tape_operand *o) {
    return o->value == TAPE_NONE && tl_visit(o->expression, is_no_index, NULL);
}

/* Is it a matrix of two axes that blocks divide? */
static bool is_of_blocks(const derivation *d, int value) {
    int tiled = 0;
    for (int i = 0; i < d->tiled.count; i++)
        tiled += tape_has_axis(&d->tape, value, d->tiled.items[i]);
    return tiled == 2;
}

/* The operand that is multiplied; -1: the item is no product with a factor, of a block's elements.
 */
static int multiplied(const derivation *d, const tape_item *item) {
    bool multiplies = item->kind == TAPE_COMPUTE && item->operation == TL_MULTIPLY &&
                      item->operand_count == 2 && is_of_blocks(d, item->value);
    for (int k = 0; k < 2 && multiplies; k++)
        if (item->operands[k].value != TAPE_NONE && is_factor(&item->operands[1 - k])) return k;
    return -1;
}

/* Do sums of products take it, and nothing else? */
static bool is_summed_alone(const derivation *d, int value) {
    const tape *t = &d->tape;
    bool is_used = false;
    for (int i = 0; i < t->items.count; i++) {
        const tape_item *item = &t->items.items[i];
        bool sums = item->operation == TL_GEMM && !is_of_blocks(d, item->value) &&
                    item->operands[0].value != item->operands[1].value;
        for (int k = 0; k < item->operand_count + item->use_count; k++) {
            if (tape_read_value(item, k) != value) continue;
            if (!sums) return false;
            is_used = true;
        }
    }
    return is_used;
}

/* Is a table's gradient made of it, entry by entry? What kernels do for that takes the sum itself:
 * what comes of it would be left in memory once more.
 */
static bool leads_to_entries(const tape *t, int value) {
    bool *is_of_it = arena_array(t->memory, bool, t->values.count);
    is_of_it[value] = true;
    for (int i = 0; i < t->items.count; i++) {
        const tape_item *item = &t->items.items[i];
        bool reads = false;
        for (int k = 0; k < item->operand_count + item->use_count; k++) {
            int read = tape_read_value(item, k);
            reads |= read != TAPE_NONE && is_of_it[read];
        }
        if (reads && item->tables) return true;
        if (reads) is_of_it[item->value] = true;
    }
    return false;
}

static void insert(tape *t, int at, tape_item item) {
    list_push(t->memory, &t->items, item);
    for (int i = t->items.count - 1; i > at; i--) t->items.items[i] = t->items.items[i - 1];
    t->items.items[at] = item;
}

/* The sum takes what is multiplied, and is multiplied itself. */
static void put_after(tape *t, int sum, tape_item by, int k) {
    const tape_value v = t->values.items[t->items.items[sum].value];
    int bare = tape_new_value(t, v.name, v.axes, v.axis_count);
    tape_item *item = &t->items.items[sum];
    for (int n = 0; n < 2; n++)
        if (item->operands[n].value == by.value) item->operands[n].value = by.operands[k].value;
    by.value = item->value;
    by.operands[k].value = item->value = bare;
    insert(t, sum + 1, by);
}

void derivation_put_factors_last(derivation *d) {
    tape *t = &d->tape;
    for (int i = t->forward_items; i < t->items.count; i++) {
        const tape_item by = t->items.items[i];
        int k = multiplied(d, &by);
        if (k < 0 || !is_summed_alone(d, by.value) || leads_to_entries(t, by.value)) continue;
        for (int n = i + 1; n < t->items.count; n++) {
            const tape_item *sum = &t->items.items[n];
            bool takes = sum->operation == TL_GEMM &&
                         (sum->operands[0].value == by.value || sum->operands[1].value == by.value);
            if (takes) put_after(t, n++, by, k);
        }
    }
}
