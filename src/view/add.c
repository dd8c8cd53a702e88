/* What is known of a kernel after the compiler and the emulator saw it. */
#include "view/view.h"

#include <stdlib.h>
#include <string.h>

static json_t *kernel_at(json_t *trace, size_t number) {
    return json_array_get(json_object_get(trace, "kernels"), number);
}

static int number_in(const json_t *list, size_t i) {
    return (int)json_integer_value(json_array_get(list, i));
}

/* --- statements by line of the CUDA text ------------------------------------------------------ */

static bool is_about(const json_t *statement, int line) {
    size_t i;
    const json_t *span;
    json_array_foreach(json_object_get(statement, "cuda"), i, span) {
        if (number_in(span, 0) <= line && line <= number_in(span, 1)) return true;
    }
    return false;
}

/* --- PTX and its line information ------------------------------------------------------------- */

/* A place that the compiler named, and the line of the kernel itself that led to it. */
typedef struct place {
    int file, line, column, outer;
} place;

typedef struct places {
    place *items;
    size_t count, room;
} places;

static bool add_place(places *all, place p) {
    if (all->count == all->room) {
        size_t room = all->room ? 2 * all->room : 256;
        place *larger = realloc(all->items, room * sizeof *larger);
        if (!larger) return false;
        all->items = larger, all->room = room;
    }
    all->items[all->count++] = p;
    return true;
}

static int next_number(str *rest) {
    int number = 0;
    while (rest->length && (*rest->data < '0' || *rest->data > '9')) rest->data++, rest->length--;
    while (rest->length && *rest->data >= '0' && *rest->data <= '9' && number < 100000000)
        number = 10 * number + (*rest->data++ - '0'), rest->length--;
    return number;
}

/* The latest such place is what `inlined_at` means. */
static int outer_of(const places *all, place p) {
    for (size_t i = all->count; i > 0; i--) {
        const place *q = &all->items[i - 1];
        if (q->file == p.file && q->line == p.line && q->column == p.column) return q->outer;
    }
    return p.line;
}

/* .loc FILE LINE COLUMN [, function_name LABEL, inlined_at FILE LINE COLUMN] */
static bool read_location(places *all, str line, int *outer) {
    static const char marked[] = "inlined_at";
    place p, at;
    p.file = next_number(&line), p.line = next_number(&line), p.column = next_number(&line);
    p.outer = p.line;
    for (size_t i = 0; i + sizeof marked - 1 <= line.length; i++) {
        if (memcmp(line.data + i, marked, sizeof marked - 1) != 0) continue;
        line.data += i, line.length -= i;
        at.file = next_number(&line), at.line = next_number(&line), at.column = next_number(&line);
        p.outer = outer_of(all, at);
        break;
    }
    *outer = p.outer;
    return add_place(all, p);
}

static bool add_line(json_t *statement, int line) {
    json_writer w = {0};
    json_t *spans = json_object_get(statement, "ptx");
    if (!spans) {
        spans = json_array();
        json_put(&w, statement, "ptx", spans);
    }
    json_t *last = json_array_get(spans, json_array_size(spans) - 1);
    if (last && number_in(last, 1) + 1 == line)
        return json_array_set_new(last, 1, json_integer(line)) == 0 && !w.failed;
    json_t *pair = json_array();
    json_add(&w, pair, json_integer(line));
    json_add(&w, pair, json_integer(line));
    json_add(&w, spans, pair);
    return !w.failed;
}

/* Lines that do something stand indented; labels, directives and braces do not count. */
static bool is_instruction(str line) {
    str word = str_trim(line);
    bool is_indented = line.length && (line.data[0] == '\t' || line.data[0] == ' ');
    return is_indented && word.length && *word.data != '.' && *word.data != '/' &&
           *word.data != '{' && *word.data != '}';
}

bool view_add_ptx(json_t *trace, size_t kernel, str ptx) {
    json_writer w = {0};
    json_t *k = kernel_at(trace, kernel);
    places all = {0};
    int number = 0, outer = 0;
    bool has_memory = true;
    json_put(&w, k, "ptx", json_from(ptx));
    for (str rest = ptx; rest.length && has_memory;) {
        str line = str_cut(&rest, '\n'), word = str_trim(line);
        number++;
        if (str_starts(word, STR(".loc"))) has_memory = read_location(&all, word, &outer);
        else if (str_starts(word, STR(".section"))) outer = 0;
        if (!outer || !is_instruction(line)) continue;
        size_t i;
        json_t *s;
        json_array_foreach(json_object_get(k, "statements"), i, s) {
            if (is_about(s, outer)) has_memory = has_memory && add_line(s, number);
        }
    }
    free(all.items);
    return has_memory && !w.failed;
}

/* --- the emulator's counts -------------------------------------------------------------------- */

static const char *const counted[] = {"executed", "wavefronts", "least_wavefronts", "sectors",
                                      "least_sectors"};
enum { COUNTED = sizeof counted / sizeof *counted };

static void add_to(json_writer *w, json_t *owner, const json_t *traffic) {
    json_t *counts = json_object_get(owner, "counts");
    if (!counts) {
        counts = json_object();
        json_put(w, owner, "counts", counts);
    }
    for (int i = 0; i < COUNTED && counts; i++) {
        json_int_t sum = json_integer_value(json_object_get(counts, counted[i])) +
                         json_integer_value(json_object_get(traffic, counted[i]));
        json_put(w, counts, counted[i], json_integer(sum));
    }
}

/* The line of the kernel's own text comes first among the frames. */
static int line_of(const json_t *traffic) {
    const json_t *at = json_object_get(traffic, "place");
    const json_t *frame = json_array_get(json_object_get(at, "frames"), 0);
    return (int)json_integer_value(json_object_get(frame, "line"));
}

static void add_traffic(json_writer *w, json_t *kernel, json_t *lines, const json_t *traffic) {
    int line = line_of(traffic);
    json_t *entry = NULL, *s;
    size_t i;
    json_array_foreach(lines, i, s) {
        if (json_integer_value(json_object_get(s, "line")) == line) entry = s;
    }
    if (!entry) {
        entry = json_object();
        json_put(w, entry, "line", json_integer(line));
        json_add(w, lines, entry);
    }
    add_to(w, entry, traffic);
    json_array_foreach(json_object_get(kernel, "statements"), i, s) {
        if (is_about(s, line)) add_to(w, s, traffic);
    }
}

bool view_add_counts(json_t *trace, size_t kernel, str emulation) {
    json_writer w = {0};
    json_t *k = kernel_at(trace, kernel), *lines = json_array(), *traffic;
    json_t *told = json_loadb(emulation.data, emulation.length, 0, NULL);
    size_t i;
    json_array_foreach(json_object_get(told, "traffic"), i, traffic) {
        add_traffic(&w, k, lines, traffic);
    }
    json_put(&w, k, "counts", lines);
    json_put(&w, k, "blocks", json_incref(json_object_get(told, "blocks")));
    bool is_read = told != NULL;
    json_decref(told);
    return is_read && !w.failed;
}

bool view_add_note(json_t *trace, size_t kernel, str sentence) {
    json_writer w = {0};
    json_put(&w, kernel_at(trace, kernel), "note", json_from(sentence));
    return !w.failed;
}
