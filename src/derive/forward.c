/* The sketch itself, with what its gradients need of it as further Outputs. */
#include "derive/writer.h"

static void add_output(tape *t, tl_kernel *kernel, str name, const char *type, str axes) {
    tl_statement *last = NULL;
    for (tl_statement *s = kernel->body.first; s; s = s->next)
        if (s->kind == TL_OUTPUT) last = s;
    tl_block output = tl_quote(t->memory, "Output %.*s %s (%.*s%.*s) // for the gradients",
                               STR_ARGS(name), type, STR_ARGS(write_prefix(t)), STR_ARGS(axes));
    tl_insert_after(&kernel->body, last, output.first);
}

/* Is there one tile of the Outputs for all that it is? Else several would write it, since blocks
 * divide an axis of theirs that it lacks: a kernel of its own makes it.
 */
static bool is_apart(const tape *t, const str *axes, int count) {
    const tl_axes *all = tape_output_axes(t);
    for (int i = tl_matrix_begin(all); i < all->count; i++) {
        bool is_there = all->items[i].is_bare;
        for (int k = 0; k < count; k++) is_there |= str_equal(axes[k], tl_axis_index(all, i));
        for (int k = 0; k < t->loops.count; k++)
            is_there |= str_equal(t->loops.items[k].walked, tl_axis_index(all, i));
        if (!is_there) return true;
    }
    return false;
}

static str lse_row(const tape *t) {
    const tape_value *v = &t->values.items[t->weights];
    return v->axes[str_equal(v->axes[0], t->normalised)];
}

/* --- places ----------------------------------------------------------------------------------- */

/* The statement of the copy that is this one of the sketch. */
static tl_statement *same_in(const tape *t, tl_kernel *copy, const tl_statement *s) {
    tl_statement *own = copy->body.first;
    for (tl_statement *other = t->kernel->body.first; other != s; other = tl_next(other, NULL))
        own = tl_next(own, NULL);
    return own;
}

/* Before the extreme is taken, which may be written over its operand. */
static void leave_place(tape *t, tl_kernel *kernel, const tape_place *place, tl_statement *at) {
    const tl_operand *of = &at->compute.operands[0];
    arena *memory = t->memory;
    str operand = of->value->text, row = write_axis(t, place->axis), size = tape_places_size(t);
    tl_block *block = tl_block_of(kernel, at);
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

static void leave_places(tape *t, tl_kernel *kernel, bool apart) {
    bool is_sized = false;
    tl_statement **at = arena_array(t->memory, tl_statement *, t->places.count + 1);
    for (int i = 0; i < t->places.count; i++) at[i] = same_in(t, kernel, t->places.items[i].at);
    for (int i = 0; i < t->places.count; i++) {
        const tape_place *place = &t->places.items[i];
        if (!place->is_read || is_apart(t, &place->axis, 1) != apart) continue;
        leave_place(t, kernel, place, at[i]);
        is_sized |= place->is_of_loop;
    }
    tl_block size =
        tl_quote(t->memory, "let %.*s = %d", STR_ARGS(tape_places_size(t)), TAPE_PLACES);
    if (is_sized) tl_insert_before(&kernel->body, kernel->body.first, size.first);
}

/* --- sums and the log-sum-exp ------------------------------------------------------------------
 */

static void leave_sums(tape *t, tl_kernel *kernel, const bool *reads_sum, bool apart) {
    for (int i = 0; i < t->sums.count; i++) {
        str tensor = write_sum_tensor(t, i), name = t->sums.items[i].name;
        const tape_value *v = &t->values.items[t->sums.items[i].value];
        if (!reads_sum[i] || write_sum_store(t, i)) continue;
        if (is_apart(t, v->axes, v->axis_count) != apart) continue;
        add_output(t, kernel, tensor, "f32", write_axes(t, t->sums.items[i].value));
        tl_statement *loop = kernel->body.first;
        for (int n = 0; loop->kind != TL_FOR || n++ < t->sums.items[i].loop;) loop = loop->next;
        tl_block copy = tl_quote(t->memory, "Copy %.*s from register to global and get %.*s",
                                 STR_ARGS(name), STR_ARGS(tensor));
        tl_insert_after(&kernel->body, loop, copy.first);
    }
}

static void leave_lse(tape *t, tl_kernel *kernel, bool apart) {
    if (t->weights == TAPE_NONE || t->lse_is_output) return;
    str row = lse_row(t);
    if (is_apart(t, &row, 1) != apart) return;
    tl_statement *softmax = NULL;
    for (tl_statement *s = kernel->body.first; s; s = tl_next(s, NULL))
        if (s->kind == TL_COMPUTE && s->compute.operation == TL_SOFTMAX) softmax = s;
    if (!softmax->compute.maximum) {
        str names[2] = {tape_free_name(t, "m"), tape_free_name(t, "l")};
        softmax->compute.maximum = tl_quote_expr(t->memory, "%.*s", STR_ARGS(names[0]));
        softmax->compute.sum = tl_quote_expr(t->memory, "%.*s", STR_ARGS(names[1]));
    }
    str m = softmax->compute.maximum->text, l = softmax->compute.sum->text;
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

static tl_kernel *copy_with(tape *t, const bool *reads_sum, bool apart) {
    tl_program *program = arena_new(t->memory, tl_program);
    *program = (tl_program){.memory = t->memory, .first = t->kernel, .kernel_count = 1};
    tl_kernel *next = t->kernel->next;
    t->kernel->next = NULL;
    tl_kernel *copy = tl_program_copy(t->memory, program)->first;
    t->kernel->next = next;
    leave_places(t, copy, apart);
    leave_sums(t, copy, reads_sum, apart);
    leave_lse(t, copy, apart);
    return copy;
}

tl_program *forward_kernel(tape *t, const bool *reads_sum) {
    tl_program *program = arena_new(t->memory, tl_program);
    *program = (tl_program){
        .memory = t->memory, .first = copy_with(t, reads_sum, false), .kernel_count = 1};
    return program;
}

/* --- kernels of their own ----------------------------------------------------------------------
 */

static bool is_of_sketch(const tape *t, const tl_statement *output) {
    for (const tl_statement *s = t->kernel->body.first; s; s = s->next)
        if (s->kind == TL_OUTPUT && str_equal(s->parameter.name, output->parameter.name))
            return true;
    return false;
}

typedef struct slice {
    tape *t;
    words needed; /* names */
} slice;

static void need_name(void *context, tl_expr *e) {
    slice *c = context;
    if (e->kind == TL_NAME || e->kind == TL_ELEMENT) words_add(c->t->memory, &c->needed, e->text);
}

static bool is_needed(const slice *c, const tl_statement *s) {
    if (s->kind == TL_COPY && s->copy.to == TL_GLOBAL)
        return words_have(&c->needed, tl_copy_into(s)->text);
    if (s->kind == TL_COMPUTE && s->compute.maximum &&
        (words_have(&c->needed, s->compute.maximum->text) ||
         words_have(&c->needed, s->compute.sum->text)))
        return true;
    const tl_expr *written = tl_written_name(s);
    return written && words_have(&c->needed, written->text);
}

static bool is_same_tensor(const tl_statement *s, const tl_statement *output) {
    return s->kind == TL_OUTPUT && str_equal(s->parameter.name, output->parameter.name);
}

/* Later statements may mean something else by a name. */
static void end_with_store(tl_kernel *kernel, str tensor) {
    const tl_statement *store = kernel->body.last;
    while (store && !(store->kind == TL_COPY && str_equal(tl_copy_into(store)->text, tensor)))
        store = store->previous;
    while (store && kernel->body.last != store) tl_remove(&kernel->body, kernel->body.last);
}

/* What does not lead to this Output goes; declarations come back by what is left. */
static void keep_for(tape *t, tl_kernel *kernel, const tl_statement *output) {
    slice c = {.t = t};
    words_add(t->memory, &c.needed, output->parameter.name);
    end_with_store(kernel, output->parameter.name);
    for (int before = 0; before < c.needed.count;) {
        before = c.needed.count;
        for (tl_statement *s = kernel->body.first; s; s = tl_next(s, NULL)) {
            bool is_load = s->kind == TL_COPY && s->copy.from == TL_GLOBAL;
            if (is_needed(&c, s) && !is_load) tl_each_expr(s, need_name, &c);
        }
    }
    for (int round = 0; round < 2; round++) /* then loops that have nothing left */
        for (tl_statement *s = kernel->body.first, *next; s; s = next) {
            next = tl_next(s, NULL);
            bool stays = s->kind == TL_FOR ? s->loop.body.first != NULL : is_needed(&c, s);
            if (!stays && !is_same_tensor(s, output)) tl_remove(tl_block_of(kernel, s), s);
        }
}

/* What the forward pass would have to leave once for each of several tiles. */
void forward_apart(tape *t, const bool *reads_sum, text_buffer *out) {
    const tl_kernel *all = copy_with(t, reads_sum, true);
    for (const tl_statement *s = all->body.first; s; s = s->next) {
        if (s->kind != TL_OUTPUT || is_of_sketch(t, s)) continue;
        tl_kernel *kernel = copy_with(t, reads_sum, true);
        text_buffer text;
        text_init_in(&text, t->memory);
        keep_for(t, kernel, s);
        kernel->name = str_format(t->memory, "%.*s_%.*s", STR_ARGS(t->kernel->name),
                                  STR_ARGS(s->parameter.name));
        kernel->line_before_count = 0;
        tl_program program = {.memory = t->memory, .first = kernel, .kernel_count = 1};
        tl_print(&program, &text);
        str lines = text_str(&text), header = str_cut(&lines, '\n');
        text_format(out, "%.*s\n", STR_ARGS(header));
        write_declared(t, lines, out);
        text_add(out, lines);
        text_add_z(out, "\n");
    }
}
