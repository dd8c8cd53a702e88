/* The sketch itself, with what its gradients need of it as further Outputs. */
#include "derive/write.h"

static void add_output(tape *t, tl_kernel *kernel, str name, const char *type, str axes) {
    tl_statement *last = NULL;
    for (tl_statement *s = kernel->body.first; s; s = s->next)
        if (s->kind == TL_OUTPUT) last = s;
    tl_block output = tl_quote(t->memory, "Output %.*s %s (%.*s%.*s) // for the gradients",
                               STR_ARGS(name), type, STR_ARGS(write_prefix(t)), STR_ARGS(axes));
    tl_insert_after(&kernel->body, last, output.first);
}

/* --- places ----------------------------------------------------------------------------------- */

/* The statement of the copy that is this one of the sketch. */
static tl_statement *same_in(const tape *t, tl_kernel *copy, const tl_statement *s) {
    tl_statement *own = copy->body.first;
    for (tl_statement *other = t->kernel->body.first; other != s; other = tl_next(other, NULL))
        own = tl_next(own, NULL);
    return own;
}

static tl_block *block_of(tl_kernel *kernel, tl_statement *s) {
    return s->parent ? tl_statement_body(s->parent) : &kernel->body;
}

/* Before the extreme is taken, which may be written over its operand. */
static void leave_place(tape *t, tl_kernel *kernel, const tape_place *place, tl_statement *at) {
    const tl_operand *of = &at->compute.operands[0];
    arena *memory = t->memory;
    str operand = of->value->text, row = write_axis(t, place->axis), size = tape_places_size(t);
    tl_block *block = block_of(kernel, at);
    const char *turned = of->is_transposed ? ".T" : "";
    if (at->compute.operation == TL_ROW_MIN) {
        str less = tape_free_name(
            t, str_copy_z(memory, str_format(memory, "%.*s_negative", STR_ARGS(operand))));
        tl_block turn = tl_quote(memory, "Compute Multiply %.*s, -1 and get %.*s",
                                 STR_ARGS(operand), STR_ARGS(less));
        tl_insert_before(block, at, turn.first);
        operand = less;
    }
    str axes =
        place->is_of_loop ? str_format(memory, "%.*s, %.*s", STR_ARGS(row), STR_ARGS(size)) : row;
    add_output(t, kernel, place->tensor, "i32", axes);
    tl_block take = place->is_of_loop
                        ? tl_quote(memory, "Compute RowTopK %.*s, %.*s and accumulate %.*s",
                                   STR_ARGS(operand), STR_ARGS(size), STR_ARGS(place->tensor))
                        : tl_quote(memory, "Compute RowArgMax %.*s%s and get %.*s",
                                   STR_ARGS(operand), turned, STR_ARGS(place->tensor));
    tl_block copy = tl_quote(memory, "Copy %.*s from register to global", STR_ARGS(place->tensor));
    tl_insert_before(block, at, take.first);
    if (place->is_of_loop) tl_insert_after(&kernel->body, at->parent, copy.first);
    else tl_insert_before(block, at, copy.first);
}

static void leave_places(tape *t, tl_kernel *kernel) {
    bool is_sized = false;
    tl_statement **at = arena_array(t->memory, tl_statement *, t->places.count + 1);
    for (int i = 0; i < t->places.count; i++) at[i] = same_in(t, kernel, t->places.items[i].at);
    for (int i = 0; i < t->places.count; i++) {
        const tape_place *place = &t->places.items[i];
        if (!place->is_read) continue;
        leave_place(t, kernel, place, at[i]);
        is_sized |= place->is_of_loop;
    }
    tl_block size =
        tl_quote(t->memory, "let %.*s = %d", STR_ARGS(tape_places_size(t)), TAPE_PLACES);
    if (is_sized) tl_insert_before(&kernel->body, kernel->body.first, size.first);
}

/* --- sums and the log-sum-exp ------------------------------------------------------------------
 */

static void leave_sums(tape *t, tl_kernel *kernel, const bool *reads_sum) {
    for (int i = 0; i < t->sums.count; i++) {
        str tensor = write_sum_tensor(t, i), name = t->sums.items[i].name;
        if (!reads_sum[i] || write_sum_store(t, i)) continue;
        add_output(t, kernel, tensor, "f32", write_axes(t, t->sums.items[i].value));
        tl_statement *loop = kernel->body.first;
        for (int n = 0; loop->kind != TL_FOR || n++ < t->sums.items[i].loop;) loop = loop->next;
        tl_block copy = tl_quote(t->memory, "Copy %.*s from register to global and get %.*s",
                                 STR_ARGS(name), STR_ARGS(tensor));
        tl_insert_after(&kernel->body, loop, copy.first);
    }
}

static void leave_lse(tape *t, tl_kernel *kernel) {
    if (t->weights == TAPE_NONE || t->lse_is_output) return;
    tl_statement *softmax = NULL;
    for (tl_statement *s = kernel->body.first; s; s = tl_next(s, NULL))
        if (s->kind == TL_COMPUTE && s->compute.operation == TL_SOFTMAX) softmax = s;
    if (!softmax->compute.maximum) {
        str names[2] = {tape_free_name(t, "m"), tape_free_name(t, "l")};
        softmax->compute.maximum = tl_quote_expr(t->memory, "%.*s", STR_ARGS(names[0]));
        softmax->compute.sum = tl_quote_expr(t->memory, "%.*s", STR_ARGS(names[1]));
    }
    str m = softmax->compute.maximum->text, l = softmax->compute.sum->text;
    const tape_value *v = &t->values.items[t->weights];
    str row = v->axes[str_equal(v->axes[0], t->normalised)];
    add_output(t, kernel, t->lse_tensor, "f32", write_axis(t, row));
    tl_statement *at = softmax->parent ? softmax->parent : softmax; /* before m and l change */
    str lse = t->lse_tensor;
    tl_block lines = tl_quote(t->memory,
                              "Compute Log %.*s and get %.*s\nCompute Add %.*s, %.*s and get "
                              "%.*s\nCopy %.*s from register to global",
                              STR_ARGS(l), STR_ARGS(lse), STR_ARGS(lse), STR_ARGS(m), STR_ARGS(lse),
                              STR_ARGS(lse));
    for (tl_statement *s = lines.first, *next; s; at = s, s = next) {
        next = s->next;
        tl_insert_after(&kernel->body, at, s);
    }
}

tl_program *forward_kernel(tape *t, const bool *reads_sum) {
    tl_program *program = arena_new(t->memory, tl_program), *copy;
    *program = (tl_program){.memory = t->memory, .first = t->kernel, .kernel_count = 1};
    tl_kernel *next = t->kernel->next;
    t->kernel->next = NULL;
    copy = tl_program_copy(t->memory, program);
    t->kernel->next = next;
    leave_places(t, copy->first);
    leave_sums(t, copy->first, reads_sum);
    leave_lse(t, copy->first);
    return copy;
}
