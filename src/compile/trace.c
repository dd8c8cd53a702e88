/* The trace as JSON: texts, and how their lines belong together. Nothing here uses the arena: it
 * runs after the compiler's work, which alone is guarded.
 */
#include "compile/trace.h"
#include "reason/edit.h"

/* --- lines ------------------------------------------------------------------------------------ */

static void put_text(json_writer *w, json_t *object, const char *key, str text) {
    json_put(w, object, key, json_from(text));
}

static json_t *lines_from(json_writer *w, int first, int last) {
    json_t *pair = json_array();
    json_add(w, pair, json_integer(first));
    json_add(w, pair, json_integer(last));
    return pair;
}

static json_t *lines_of(json_writer *w, str source, diag_range range) {
    int first, last, column;
    diag_position(source, range.begin, &first, &column);
    diag_position(source, range.end > range.begin ? range.end - 1 : range.begin, &last, &column);
    return lines_from(w, first, last);
}

/* --- statements ------------------------------------------------------------------------------- */

/* What the reasoner knew of the statement: where it comes from. */
static void put_origin(json_writer *w, const trace *t, json_t *object, const tl_statement *made) {
    bool serves = !made->range.end;
    diag_range range = serves ? made->history.served : made->range;
    if (range.end) json_put(w, object, "sketch", lines_of(w, t->sketch->source, range));
    if (range.end) json_put(w, object, "serves", json_boolean(serves));
    const reason_pass_entry *list = reason_pass_list();
    json_t *names = json_array();
    for (int i = 0; list[i].name; i++)
        if (made->history.passes >> i & 1) json_add(w, names, json_string(list[i].name));
    json_put(w, object, "passes", names);
}

static void put_spans(json_writer *w, const trace_kernel *k, json_t *object,
                      const tl_statement *s) {
    json_t *spans = json_array();
    for (int i = 0; i < k->spans.count; i++) {
        const translate_span *span = &k->spans.items[i];
        if (span->statement == s) json_add(w, spans, lines_from(w, span->first, span->last));
    }
    json_put(w, object, "cuda", spans);
}

static void put_sync(json_writer *w, const trace_kernel *k, json_t *object, const tl_statement *s) {
    const check_sync *sync = check_sync_of(&k->facts, s);
    text_buffer words;
    text_init(&words, 1 << 16);
    if (sync && compile_describe_sync(sync, &words))
        put_text(w, object, "order", str_trim(text_str(&words)));
    w->failed |= words.failed;
    text_done(&words);
}

static json_t *statement_of(json_writer *w, const trace *t, const trace_kernel *k,
                            const tl_statement *s, const tl_statement *made) {
    json_t *object = json_object();
    text_buffer header;
    text_init(&header, 1 << 20);
    tl_print_header(s, &header);
    put_text(w, object, "text", text_str(&header));
    w->failed |= header.failed;
    text_done(&header);
    json_put(w, object, "code", lines_of(w, t->code->source, s->range));
    if (made) put_origin(w, t, object, made);
    put_spans(w, k, object, s);
    put_sync(w, k, object, s);
    return object;
}

/* The text and the tree that it was printed from have the same statements in the same order. */
static tl_statement *next_made(tl_statement *made, const tl_statement *s) {
    made = made ? tl_next(made, NULL) : NULL;
    return made && s && made->kind == s->kind ? made : NULL;
}

/* --- shared memory ---------------------------------------------------------------------------- */

typedef struct question {
    const tl_symbol *tile;
    bool is_copy, found;
} question;

static void look(void *context, tl_expr *e) {
    question *q = context;
    if (e->symbol == q->tile && (q->is_copy || e->space == TL_SHARED)) q->found = true;
}

static bool uses(tl_statement *s, const tl_symbol *tile) {
    question q = {tile, s->kind == TL_COPY, false};
    if (s->kind == TL_ALLOCATE) return false;
    if (q.is_copy && s->copy.from != TL_SHARED && s->copy.to != TL_SHARED) return false;
    tl_each_expr(s, look, &q);
    return q.found;
}

/* The first and the last statement that uses it, by number. */
static void put_uses(json_writer *w, const trace_kernel *k, json_t *object, const tl_symbol *tile) {
    int number = 0, first = -1, last = -1;
    for (tl_statement *s = k->code->body.first; s; s = tl_next(s, NULL), number++) {
        if (!uses(s, tile)) continue;
        if (first < 0) first = number;
        last = number;
    }
    if (first >= 0) json_put(w, object, "used", lines_from(w, first, last));
}

int trace_number_of(const trace_kernel *k, const tl_statement *wanted) {
    int number = 0;
    for (tl_statement *s = k->code->body.first; s; s = tl_next(s, NULL), number++)
        if (s == wanted) return number;
    return -1;
}

static json_t *shared_of(json_writer *w, const trace_kernel *k) {
    json_t *list = json_array();
    for (int i = 0; i < k->facts.shared_count; i++) {
        const check_shared *tile = &k->facts.shared[i];
        json_t *object = json_object();
        put_text(w, object, "name", tile->tile->name);
        json_put(w, object, "statement", json_integer(trace_number_of(k, tile->allocation)));
        json_put(w, object, "offset", json_integer(tile->offset_bytes));
        json_put(w, object, "bytes", json_integer(tile->bytes));
        json_put(w, object, "slot_bytes", json_integer(tile->slot_bytes));
        put_uses(w, k, object, tile->tile);
        json_add(w, list, object);
    }
    return list;
}

/* --- kernels ---------------------------------------------------------------------------------- */

static json_t *kernel_of(json_writer *w, const trace *t, int number, const ftl_kernel *made) {
    const trace_kernel *k = &t->kernels[number];
    json_t *object = json_object(), *statements = json_array();
    tl_kernel *reasoned = tl_kernel_at(t->reasoned.program, number);
    tl_statement *m = reasoned ? reasoned->body.first : NULL;
    for (tl_statement *s = k->code->body.first; s;) {
        json_add(w, statements, statement_of(w, t, k, s, m));
        s = tl_next(s, NULL);
        m = next_made(m, s);
    }
    put_text(w, object, "name", k->code->name);
    put_text(w, object, "gpu", k->target.name);
    put_text(w, object, "title", k->target.title);
    json_put(w, object, "target", json_string(made->plan->target));
    json_put(w, object, "entry", json_string(made->plan->entry));
    json_put(w, object, "threads", json_integer(made->plan->threads));
    json_put(w, object, "blocks_per_sm", json_integer(made->plan->blocks_per_sm));
    json_put(w, object, "registers", json_integer(k->facts.registers_estimate));
    json_put(w, object, "shared_bytes", json_integer(made->plan->shared_bytes));
    json_put(w, object, "shared_limit", json_integer(k->target.block_shared));
    json_put(w, object, "statements", statements);
    trace_put_timeline(w, k, object, statements);
    json_put(w, object, "shared", shared_of(w, k));
    json_put(w, object, "cuda", json_string(made->cuda));
    return object;
}

/* --- what passes took away -------------------------------------------------------------------- */

static const tl_statement *in_sketch(const trace *t, diag_range range) {
    for (const tl_kernel *k = t->sketch->first; k; k = k->next)
        for (tl_statement *s = k->body.first; s; s = tl_next(s, NULL))
            if (s->range.begin == range.begin && s->range.end == range.end) return s;
    return NULL;
}

static int number_of_kernel(const trace *t, str name) {
    int number = 0;
    while (number < t->kernel_count && !str_equal(t->kernels[number].code->name, name)) number++;
    return number;
}

/* --- decisions -------------------------------------------------------------------------------- */

/* Does the statement have a name of the kernel's that the sentence has, too? */
static bool shares_name(const trace_kernel *k, str header, str sentence) {
    for (str word = str_cut_word(&sentence); word.length; word = str_cut_word(&sentence)) {
        if (!tl_find_symbol(k->code, word)) continue;
        str rest = header;
        for (str own = str_cut_word(&rest); own.length; own = str_cut_word(&rest))
            if (str_equal(edit_bare(own), word)) return true;
    }
    return false;
}

/* Of a pass, the number; below 0: none is called so. */
static int number_of_pass(str name) {
    const reason_pass_entry *passes = reason_pass_list();
    for (int i = 0; passes[i].name; i++)
        if (str_is(name, passes[i].name)) return i;
    return -1;
}

/* Statements that the pass made or changed: those that have a name of the sentence, else all. */
static json_t *belonging(json_writer *w, const trace *t, int number, int pass, str sentence) {
    json_t *all = json_array(), *named = json_array();
    tl_kernel *made = tl_kernel_at(t->reasoned.program, number);
    int at = 0;
    for (tl_statement *s = made ? made->body.first : NULL; s; s = tl_next(s, NULL), at++) {
        if (pass < 0 || !(s->history.passes >> pass & 1)) continue;
        text_buffer header;
        text_init(&header, 1 << 20);
        tl_print_header(s, &header);
        json_add(w, all, json_integer(at));
        if (shares_name(&t->kernels[number], text_str(&header), sentence))
            json_add(w, named, json_integer(at));
        w->failed |= header.failed;
        text_done(&header);
    }
    bool has_named = json_array_size(named) > 0;
    json_decref(has_named ? all : named);
    return has_named ? named : all;
}

static json_t *table_of(json_writer *w, const reason_table *table) {
    json_t *object = json_object(), *columns = json_array(), *rows = json_array();
    for (int i = 0; i < table->columns.count; i++) {
        json_t *column = json_object();
        put_text(w, column, "name", table->columns.items[i].name);
        put_text(w, column, "unit", table->columns.items[i].unit);
        json_add(w, columns, column);
    }
    for (int i = 0; i < table->row_count; i++) {
        json_t *row = json_array();
        for (int c = 0; c < table->columns.count; c++) {
            str cell = table->columns.items[c].cells[i];
            int64_t whole;
            double number;
            bool is_whole = str_to_integer(cell, &whole);
            json_add(w, row,
                     is_whole                       ? json_integer(whole)
                     : str_to_number(cell, &number) ? json_real(number)
                                                    : json_from(cell));
        }
        json_add(w, rows, row);
    }
    put_text(w, object, "title", table->title);
    json_put(w, object, "columns", columns);
    json_put(w, object, "rows", rows);
    return object;
}

static json_t *decision_of(json_writer *w, const trace *t, const reason_decision *d) {
    json_t *object = json_object(), *tables = json_array();
    int number = number_of_kernel(t, d->kernel);
    for (int i = 0; i < d->tables.count; i++) json_add(w, tables, table_of(w, &d->tables.items[i]));
    put_text(w, object, "pass", d->pass);
    put_text(w, object, "subject", d->subject);
    put_text(w, object, "sentence", d->sentence);
    if (number < t->kernel_count) {
        json_put(w, object, "kernel", json_integer(number));
        json_put(w, object, "statements",
                 belonging(w, t, number, number_of_pass(d->pass), d->sentence));
    }
    json_put(w, object, "tables", tables);
    return object;
}

/* A statement of the sketch for which none stands: who took it away, and what that became. */
static json_t *taken_of(json_writer *w, const trace *t, const reason_taken *taken) {
    json_t *object = json_object();
    const tl_statement *s = in_sketch(t, taken->range);
    int number = number_of_kernel(t, taken->kernel);
    text_buffer header;
    text_init(&header, 1 << 20);
    if (s) tl_print_header(s, &header);
    json_put(w, object, "sketch", lines_of(w, t->sketch->source, taken->range));
    json_put(w, object, "pass", json_string(reason_pass_list()[taken->pass].name));
    if (number < t->kernel_count) {
        json_put(w, object, "kernel", json_integer(number));
        json_put(w, object, "statements", belonging(w, t, number, taken->pass, text_str(&header)));
    }
    w->failed |= header.failed;
    text_done(&header);
    return object;
}

json_t *trace_json(const trace *t, const ftl_product *product) {
    json_writer w = {0};
    json_t *root = json_object(), *kernels = json_array(), *decisions = json_array(),
           *taken = json_array();
    for (int i = 0; i < t->kernel_count; i++)
        json_add(&w, kernels, kernel_of(&w, t, i, &product->kernels[i]));
    for (int i = 0; i < t->reasoned.decision_count; i++)
        json_add(&w, decisions, decision_of(&w, t, &t->reasoned.decisions[i]));
    for (int i = 0; i < t->reasoned.taken_count; i++)
        if (t->reasoned.taken[i].pass >= 0)
            json_add(&w, taken, taken_of(&w, t, &t->reasoned.taken[i]));
    if (t->sketch) put_text(&w, root, "sketch", t->sketch->source);
    put_text(&w, root, "code", t->code->source);
    json_put(&w, root, "kernels", kernels);
    json_put(&w, root, "decisions", decisions);
    json_put(&w, root, "taken", taken);
    json_put(&w, root, "predicted_tflops", json_real(product->predicted_tflops));
    if (!w.failed) return root;
    json_decref(root);
    return NULL;
}
