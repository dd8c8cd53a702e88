/* A kernel's timeline as JSON: lanes, boxes in whole clocks, and what each statement waited. */
#include "compile/trace.h"

#include <math.h>

static json_t *clocks(double of) {
    return json_integer((json_int_t)floor(of + 0.5));
}

static json_t *lanes_of(json_writer *w, const timeline *t) {
    static const char *const kinds[] = {"executor", "tensor", "copies"};
    json_t *list = json_array();
    for (int i = 0; i < t->lanes.count; i++) {
        const timeline_lane *lane = &t->lanes.items[i];
        json_t *object = json_object();
        json_put(w, object, "name", json_from(lane->name));
        json_put(w, object, "kind", json_string(kinds[lane->kind]));
        json_put(w, object, "rows", json_integer(lane->rows));
        json_add(w, list, object);
    }
    return list;
}

static json_t *box_of(json_writer *w, const trace_kernel *k, const timeline_box *box) {
    json_t *object = json_object();
    json_put(w, object, "lane", json_integer(box->lane));
    if (box->row) json_put(w, object, "row", json_integer(box->row));
    json_put(w, object, "statement", json_integer(trace_number_of(k, box->statement)));
    json_put(w, object, "tile", json_integer(box->tile));
    json_put(w, object, "begin", clocks(box->begin));
    json_put(w, object, "end", clocks(box->end));
    if (box->waits) json_put(w, object, "waits", json_true());
    return object;
}

static json_t *lengths_of(json_writer *w, const timeline *t) {
    json_t *list = json_array();
    for (int i = 0; i < t->lengths.count; i++) {
        json_t *object = json_object();
        json_put(w, object, "name", json_from(t->lengths.items[i].name));
        json_put(w, object, "value", json_integer(t->lengths.items[i].value));
        json_add(w, list, object);
    }
    return list;
}

/* How often, and how long, all executors together wait at the statement. */
static void put_stall(json_writer *w, const timeline *t, const tl_statement *s, json_t *object) {
    double all = 0;
    int times = 0;
    for (int i = 0; i < t->boxes.count; i++) {
        const timeline_box *box = &t->boxes.items[i];
        if (box->statement == s && box->waits) all += box->end - box->begin, times++;
    }
    if (!times) return;
    json_t *stall = json_object();
    json_put(w, stall, "times", json_integer(times));
    json_put(w, stall, "clocks", clocks(all));
    json_put(w, object, "stall", stall);
}

void trace_put_timeline(json_writer *w, const trace_kernel *k, json_t *kernel, json_t *statements) {
    const timeline *t = &k->timeline;
    json_t *object = json_object(), *boxes = json_array();
    size_t number = 0;
    for (int i = 0; i < t->boxes.count; i++) json_add(w, boxes, box_of(w, k, &t->boxes.items[i]));
    for (const tl_statement *s = k->code->body.first; s; s = tl_next((tl_statement *)s, NULL))
        put_stall(w, t, s, json_array_get(statements, number++));
    json_put(w, object, "blocks", json_string(t->walks ? "one" : t->beside ? "beside" : "in turn"));
    json_put(w, object, "lengths", lengths_of(w, t));
    if (t->note.length) json_put(w, object, "note", json_from(t->note));
    json_put(w, object, "clocks", clocks(t->clocks));
    json_put(w, object, "lanes", lanes_of(w, t));
    json_put(w, object, "boxes", boxes);
    json_put(w, kernel, "timeline", object);
}
