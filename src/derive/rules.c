/* Rules of differentiation, and the items that they add to a tape. */
#include "derive/reverse.h"

/* --- rules ------------------------------------------------------------------------------------ */

typedef struct rule {
    tl_operation operation;
    int operand;
    const char *steps;
} rule;

static const rule rules[] = {
#define RULE(operation, operand, steps) {TL_##operation, operand, steps},
#include "derive/rules.def"
#undef RULE
};

const char *reverse_rule(tl_operation operation, int operand) {
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i].operation == operation && rules[i].operand == operand) return rules[i].steps;
    return NULL;
}

/* --- new items -------------------------------------------------------------------------------- */

bool reverse_covers(const tape_value *wide, const tape_value *narrow) {
    for (int i = 0; i < narrow->axis_count; i++) {
        bool is_there = false;
        for (int k = 0; k < wide->axis_count; k++)
            is_there |= str_equal(wide->axes[k], narrow->axes[i]);
        if (!is_there) return false;
    }
    return true;
}

tape_operand reverse_of(int value) {
    return (tape_operand){.value = value};
}

tape_operand reverse_text(const char *text) {
    return (tape_operand){TAPE_NONE, str_from(text), NULL};
}

/* An elementwise item; TAPE_NONE: reported. */
int reverse_elements(tape *t, tape_item item, const tl_statement *at) {
    int widest = TAPE_NONE;
    for (int i = 0; i < item.operand_count; i++) {
        int value = item.operands[i].value;
        if (value == TAPE_NONE) continue;
        bool is_wider = widest == TAPE_NONE ||
                        t->values.items[value].axis_count > t->values.items[widest].axis_count;
        if (is_wider) widest = value;
    }
    tape_value v = t->values.items[widest];
    for (int i = 0; i < item.operand_count; i++) {
        int value = item.operands[i].value;
        if (value != TAPE_NONE && !reverse_covers(&v, &t->values.items[value]))
            return tape_refuse(t, at,
                               "its gradient joins a row and a column, which has no rule yet"),
                   TAPE_NONE;
    }
    item.from = at;
    item.value = tape_new_value(t, STR(""), v.axes, v.axis_count);
    return tape_add(t, item);
}

int reverse_two(tape *t, const tl_statement *at, tl_operation operation, tape_operand a,
                tape_operand b) {
    return reverse_elements(
        t,
        (tape_item){
            .kind = TAPE_COMPUTE, .operation = operation, .operands = {a, b}, .operand_count = 2},
        at);
}

int reverse_row_sum(tape *t, const tl_statement *at, int of, str over) {
    tape_item item = {.kind = TAPE_COMPUTE,
                      .operation = TL_ROW_SUM,
                      .operands = {reverse_of(of)},
                      .operand_count = 1,
                      .over = over,
                      .from = at};
    const tape_value v = t->values.items[of];
    str rest[TAPE_AXES];
    int count = 0;
    for (int i = 0; i < v.axis_count; i++)
        if (!str_equal(v.axes[i], over)) rest[count++] = v.axes[i];
    if (!count)
        return tape_refuse(t, at, "its gradient is one number a tile, which has no rule yet"),
               TAPE_NONE;
    item.value = tape_new_value(t, STR(""), rest, count);
    return tape_add(t, item);
}

/* g along all axes of 'like': 0 of any number, infinities among them, and g. */
int reverse_spread(tape *t, const tl_statement *at, int g, int like) {
    if (reverse_covers(&t->values.items[g], &t->values.items[like])) return g;
    int zero = reverse_two(t, at, TL_MIN, reverse_of(like), reverse_text("0"));
    zero = reverse_two(t, at, TL_MAX, reverse_of(zero), reverse_text("0"));
    int wide = reverse_two(t, at, TL_ADD, reverse_of(zero), reverse_of(g));
    if (wide == TAPE_NONE) return wide;
    t->values.items[wide].hidden = t->values.items[g].hidden;
    t->values.items[wide].may_overflow = t->values.items[g].may_overflow;
    return wide;
}

/* The gradient of a result, of an operand that has fewer axes: their sum. */
int reverse_narrow(tape *t, const tl_statement *at, int g, int result, int operand) {
    const tape_value v = t->values.items[result], to = t->values.items[operand];
    for (int i = 0; i < v.axis_count && g != TAPE_NONE; i++) {
        tape_value one = {.axes = {v.axes[i]}, .axis_count = 1};
        if (reverse_covers(&to, &one)) continue;
        if (!tape_has_axis(t, g, v.axes[i])) g = reverse_spread(t, at, g, result);
        if (g != TAPE_NONE) g = reverse_row_sum(t, at, g, v.axes[i]);
    }
    return g;
}

static void name_gradient(tape *t, int x, int g) {
    str name = t->values.items[x].name;
    if (!t->values.items[g].name.length && name.length)
        t->values.items[g].name = str_format(t->memory, "d%.*s", STR_ARGS(name));
}

/* x's gradient grows by g. */
bool reverse_gain(reversal *r, const tl_statement *at, int x, int g) {
    tape *t = r->t;
    if (g == TAPE_NONE) return false;
    if (x >= r->value_count || !r->is_active[x]) return true;
    int old = t->values.items[x].adjoint, hidden = t->values.items[g].hidden;
    if (old != TAPE_NONE) g = reverse_two(t, at, TL_ADD, reverse_of(old), reverse_of(g));
    if (g == TAPE_NONE) return false;
    if (old != TAPE_NONE && t->values.items[old].hidden == hidden)
        t->values.items[g].hidden = hidden;
    t->values.items[g].may_overflow = false; /* or no order of operations helps */
    name_gradient(t, x, g);
    if (t->values.items[g].bare != TAPE_NONE) name_gradient(t, x, t->values.items[g].bare);
    t->values.items[x].adjoint = g;
    return true;
}

/* --- steps of a rule -------------------------------------------------------------------------- */

static tape_operand step_operand(const tape_item *item, int g, int last, str word) {
    if (str_is(word, "g")) return reverse_of(g);
    if (str_is(word, "y")) return reverse_of(item->value);
    if (str_is(word, "_")) return reverse_of(last);
    if (str_is(word, "a")) return item->operands[0];
    if (str_is(word, "b")) return item->operands[1];
    if (str_is(word, "c")) return item->operands[2];
    return (tape_operand){TAPE_NONE, word, NULL};
}

/* "Mask g, 0 where a < b" */
static int mask_step(tape *t, const tape_item *item, int g, str step) {
    str words = step, sides[2];
    str_cut(&words, 'w');
    str_cut(&words, ' ');
    sides[0] = str_cut(&words, ' ');
    str compares = str_cut(&words, ' ');
    sides[1] = str_trim(words);
    int wide = reverse_spread(t, item->from, g, item->value);
    tape_item mask = {.kind = TAPE_MASK,
                      .operation = TL_MASK,
                      .operand_count = 3,
                      .fill = STR("0"),
                      .compares = str_copy_z(t->memory, compares)};
    mask.operands[0] = reverse_of(wide);
    for (int i = 0; i < 2; i++) mask.operands[1 + i] = step_operand(item, g, g, sides[i]);
    return wide == TAPE_NONE ? wide : reverse_elements(t, mask, item->from);
}

static int steps_of(tape *t, const tape_item *item, int g, const char *steps) {
    str rest = str_from(steps);
    int last = g;
    if (str_equal(rest, STR("g"))) return g;
    while (rest.length && last != TAPE_NONE) {
        str step = str_trim(str_cut(&rest, ';'));
        if (str_starts(step, STR("Mask "))) {
            last = mask_step(t, item, g, step);
            continue;
        }
        tape_item one = {.kind = TAPE_COMPUTE,
                         .operation = tl_operation_named(str_cut(&step, ' '))};
        while (step.length)
            one.operands[one.operand_count++] =
                step_operand(item, g, last, str_trim(str_cut(&step, ',')));
        last = reverse_elements(t, one, item->from);
    }
    return last;
}

/* --- where a Mask made g 0 -------------------------------------------------------------------- */

static int masked_as(tape *t, const tl_statement *at, int g, int bare) {
    int hidden = t->values.items[g].hidden, part = bare;
    for (int n = hidden; n && part != TAPE_NONE; n = t->hidings.items[n - 1].next) {
        tape_item mask = t->items.items[t->hidings.items[n - 1].item];
        mask.fill = STR("0"), mask.operands[0] = reverse_of(part);
        part = reverse_elements(t, mask, at);
    }
    if (part != TAPE_NONE) t->values.items[part].hidden = hidden, t->values.items[part].bare = bare;
    return part;
}

/* What is made of g is 0 where g is. But 0 times what a Mask has hidden there, an exponential of
 * what is far out, may be no number: then what is made of g as it was is masked.
 */
static int kept_hidden(tape *t, const tl_statement *at, int g, int part, int bare) {
    if (part == TAPE_NONE || bare == TAPE_NONE || part == g) return part;
    tape_value *made = &t->values.items[part];
    if (made->may_overflow) return masked_as(t, at, g, bare);
    if (!made->hidden) made->hidden = t->values.items[g].hidden, made->bare = bare;
    return part;
}

static int bare_of(const tape *t, int g) {
    return t->values.items[g].bare == TAPE_NONE ? g : t->values.items[g].bare;
}

int reverse_steps_masked(tape *t, const tape_item *item, int g, const char *steps) {
    int part = steps_of(t, item, g, steps);
    if (!t->values.items[g].hidden) return part;
    return kept_hidden(t, item->from, g, part, steps_of(t, item, bare_of(t, g), steps));
}

int reverse_times(tape *t, const tl_statement *at, int g, tape_operand factor) {
    int part = reverse_two(t, at, TL_MULTIPLY, reverse_of(g), factor);
    if (!t->values.items[g].hidden) return part;
    int bare = reverse_two(t, at, TL_MULTIPLY, reverse_of(bare_of(t, g)), factor);
    return kept_hidden(t, at, g, part, bare);
}
