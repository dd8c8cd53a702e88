#include "derive/tape.h"

/* --- the tape --------------------------------------------------------------------------------- */

bool tape_refuse(tape *t, const tl_statement *at, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    str why = str_format_list(t->memory, format, arguments);
    va_end(arguments);
    diag_report(t->diags, DIAG_DERIVE_STUCK, at ? at->range : t->kernel->range, why);
    return false;
}

int tape_new_value(tape *t, str name, const str *axes, int axis_count) {
    tape_value v = {
        .name = name, .axis_count = axis_count, .adjoint = TAPE_NONE, .bare = TAPE_NONE};
    for (int i = 0; i < axis_count; i++) v.axes[i] = axes[i];
    list_push(t->memory, &t->values, v);
    return t->values.count - 1;
}

/* Is it the same for all elements of a tile? */
static bool is_same(void *context, const tl_expr *e) {
    const tape *t = context;
    return e->kind != TL_ELEMENT && (e->kind != TL_NAME || !tl_find_index(t->kernel, e->text));
}

/* Divided by what differs from element to element, or a function that grows without bounds? */
static bool is_bounded(void *context, const tl_expr *e) {
    const tape *t = context;
    bool is_steep =
        e->kind == TL_CALL && (e->function == TL_FUNCTION_EXP || e->function == TL_FUNCTION_EXP2 ||
                               e->function == TL_FUNCTION_LOG || e->function == TL_FUNCTION_LOG2);
    if (is_steep) return false;
    return e->kind != TL_BINARY || e->operator!= TL_OVER || tl_visit(e->right, is_same, (void *)t);
}

/* A softmax's weights are 1 at most. */
static bool may_overflow(tape *t, const tape_item *item) {
    if (item->kind == TAPE_LOAD || item->value == t->weights) return false;
    if (item->kind == TAPE_MASK)
        return !item->fill.length ||
               (!t->forward_items && t->values.items[item->operands[0].value].may_overflow);
    switch (item->operation) {
    case TL_EXP:
    case TL_EXP2:
    case TL_LOG:
    case TL_LOG2:
    case TL_RECIPROCAL:
    case TL_RSQRT: return true;
    default: break;
    }
    for (int i = 0; i < item->operand_count; i++) {
        const tape_operand *operand = &item->operands[i];
        bool is_divisor = item->operation == TL_DIVIDE && i == 1;
        if (operand->value != TAPE_NONE &&
            (is_divisor || t->values.items[operand->value].may_overflow))
            return true;
        if (!tl_visit(operand->expression, is_divisor ? is_same : is_bounded, t)) return true;
    }
    return false;
}

void tape_hide(tape *t, int gradient, int item) {
    tape_hiding hiding = {item, t->values.items[gradient].hidden};
    list_push(t->memory, &t->hidings, hiding);
    t->values.items[gradient].hidden = t->hidings.count;
}

int tape_add(tape *t, tape_item item) {
    tape_value *v = &t->values.items[item.value];
    bool overflows = may_overflow(t, &item);
    list_push(t->memory, &t->items, item);
    v->may_overflow |= overflows;
    if (item.sum && overflows)
        t->values.items[t->sums.items[item.sum - 1].value].may_overflow = true;
    bool hides = t->forward_items && item.kind == TAPE_MASK && str_is(item.fill, "0");
    if (!hides) return item.value;
    v->hidden = t->values.items[item.operands[0].value].hidden, v->bare = item.operands[0].value;
    tape_hide(t, item.value, t->items.count - 1);
    return item.value;
}

int tape_maker(const tape *t, int value) {
    int at = t->items.count - 1;
    while (t->items.items[at].value != value) at--;
    return at;
}

int tape_read_value(const tape_item *item, int n) {
    return n < item->operand_count ? item->operands[n].value
                                   : item->uses[n - item->operand_count].value;
}

int tape_gradient(const tape *t, int load) {
    return t->values.items[t->items.items[load].value].adjoint;
}

bool tape_has_axis(const tape *t, int value, str axis) {
    const tape_value *v = &t->values.items[value];
    for (int i = 0; i < v->axis_count; i++)
        if (str_equal(v->axes[i], axis)) return true;
    return false;
}

str tape_softmax_walk(const tape *t) {
    if (t->weights == TAPE_NONE || t->softmax_loop == TAPE_NONE) return STR("");
    str walked = t->loops.items[t->softmax_loop].walked;
    return str_equal(t->normalised, walked) ? walked : STR("");
}

const tl_axis *tape_axis(const tape *t, str index) {
    for (const tl_statement *s = t->kernel->body.first; s; s = s->next) {
        bool is_tensor = tl_is_parameter(s);
        int lists = is_tensor ? 1 : s->kind == TL_LET ? s->let.count : 0;
        for (int n = 0; n < lists; n++) {
            const tl_axes *axes = is_tensor ? &s->parameter.axes : &s->let.items[n].axes;
            for (int i = 0; i < axes->count; i++)
                if (str_equal(tl_axis_index(axes, i), index)) return &axes->items[i];
        }
    }
    return NULL;
}

static bool is_of_launch(void *context, const tl_expr *e) {
    const tl_symbol *symbol = e->kind == TL_NAME ? e->symbol : NULL;
    bool is_defined = symbol && symbol->kind == TL_SYMBOL_CONSTANT && symbol->value;
    if (is_defined) return tl_visit(symbol->value, is_of_launch, context);
    return e->kind != TL_ELEMENT;
}

bool tape_is_length_known(const tape *t, str index) {
    const tl_axis *axis = tape_axis(t, index);
    return !axis || tl_visit(axis->extent, is_of_launch, NULL);
}

bool tape_is_taken(const tape *t, str name) {
    const tl_symbol *symbol = tl_find_symbol(t->kernel, name);
    if (!symbol) return tl_find_index(t->kernel, name);
    bool is_tile = symbol->kind == TL_SYMBOL_VARIABLE && !symbol->parameter && !symbol->view;
    bool is_gone = symbol->kind == TL_SYMBOL_LOOP || symbol->kind == TL_SYMBOL_OPEN;
    return !is_tile && !is_gone;
}

str tape_free_name(const tape *t, const char *wanted) {
    str name = str_from(wanted);
    for (int n = 2;; n++) {
        const tl_symbol *symbol = tl_find_symbol(t->kernel, name);
        bool is_gone = symbol && (symbol->kind == TL_SYMBOL_LOOP || symbol->kind == TL_SYMBOL_OPEN);
        bool is_taken = (symbol && !is_gone) || tl_find_index(t->kernel, name);
        if (!is_taken) return name;
        name = str_format(t->memory, "%s_%d", wanted, n);
    }
}

bool tape_is_number(const tl_statement *s) {
    bool is_whole = s->kind == TL_INPUT &&
                    (s->parameter.type == TL_I32 || tl_is_narrow_whole(s->parameter.type));
    return s->kind == TL_INPUT && s->parameter.axes.count && !is_whole;
}

const tl_parameter *tape_tensor(const tape *t, str name) {
    for (const tl_statement *s = t->kernel->body.first; s; s = s->next)
        if (s->kind == TL_INPUT && str_equal(s->parameter.name, name)) return &s->parameter;
    return NULL;
}

const tl_axes *tape_output_axes(const tape *t) {
    return &t->stores.items[0].output->parameter.axes;
}

const tl_expr *tape_index(const tape_item *load, const tl_parameter *of, int axis) {
    return load->element ? load->element->items[axis] : of->axes.items[axis].coordinate;
}

bool tape_is_element(const tl_expr *e) {
    return e->kind == TL_ELEMENT && e->symbol && e->symbol->parameter &&
           tape_is_number(e->symbol->parameter);
}

const tl_expr *tape_view_element(const tl_symbol *view) {
    const tl_expr *e = view->view ? view->view->value : NULL;
    return e && tape_is_element(e) ? e : NULL;
}

int tape_element(const tape *t, const tl_expr *element) {
    for (int i = 0; i < t->items.count; i++) {
        const tape_item *load = &t->items.items[i];
        bool is_same = load->kind == TAPE_LOAD && str_equal(load->tensor, element->text);
        for (int k = 0; is_same && k < element->item_count; k++)
            is_same = tl_expr_equal(tape_index(load, &element->symbol->parameter->parameter, k),
                                    element->items[k]);
        if (is_same) return load->value;
    }
    return TAPE_NONE;
}

bool tape_is_of_outputs(const tape *t, str axis) {
    for (const tl_statement *s = t->kernel->body.first; s; s = s->next) {
        const tl_axes *axes = s->kind == TL_OUTPUT ? &s->parameter.axes : NULL;
        for (int i = axes ? tl_matrix_begin(axes) : 0; axes && i < axes->count; i++)
            if (str_equal(tl_axis_index(axes, i), axis)) return true;
    }
    return false;
}

str tape_places_size(const tape *t) {
    return tape_free_name(t, "places");
}

str tape_place_element(const tape *t, const tape_place *place) {
    const tl_axes *all = tape_output_axes(t);
    str text = str_format(t->memory, "%.*s[", STR_ARGS(place->tensor));
    for (int i = 0; i < tl_matrix_begin(all); i++)
        text = str_format(t->memory, "%.*s%.*s, ", STR_ARGS(text), STR_ARGS(tl_axis_index(all, i)));
    return str_format(t->memory, "%.*s%.*s%s]", STR_ARGS(text), STR_ARGS(place->axis),
                      place->is_of_loop ? ", 0" : "");
}
