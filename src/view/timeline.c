/* The timeline of a kernel: lanes from top to bottom, predicted clocks from left to right. */
#include "view/figures.h"
#include "view/object.h"

#include <string.h>

enum {
    STRIP_WIDTH = 3000,
    NAMES_WIDTH = 120,
    TOP = 20, /* above the lanes: the clocks */
    ROW = 20,
    COPY_ROW = 9, /* of copies, which lie over one another */
    GAP = 6,
    TICKS = 20, /* about so many */
    LANES_MAX = 192,
};

typedef struct strip {
    text_buffer *out;
    const json_t *timeline, *statements;
    int base; /* the page's number of the first statement */
    double per_clock;
    int lane_count, tops[LANES_MAX + 1]; /* the last one is the height; of a lane that nothing is
                                            on, the next one's */
} strip;

static void add_z(text_buffer *out, const char *text) {
    text_add_html(out, str_from(text));
}

/* --- lanes ------------------------------------------------------------------------------------ */

static const json_t *lane_at(const strip *t, size_t i) {
    return json_array_get(json_object_get(t->timeline, "lanes"), i);
}

static bool is_of(const json_t *lane, const char *kind) {
    return strcmp(text_in(lane, "kind"), kind) == 0;
}

static int row_height(const json_t *lane) {
    return is_of(lane, "copies") ? COPY_ROW : ROW;
}

static bool is_used(const strip *t, int number) {
    size_t i;
    const json_t *box;
    json_array_foreach(json_object_get(t->timeline, "boxes"), i, box) {
        if (integer_in(box, "lane") == number) return true;
    }
    return false;
}

static void place_lanes(strip *t) {
    size_t lanes = json_array_size(json_object_get(t->timeline, "lanes"));
    t->lane_count = lanes < LANES_MAX ? (int)lanes : LANES_MAX;
    t->tops[0] = TOP;
    for (int i = 0; i < t->lane_count; i++) {
        const json_t *lane = lane_at(t, (size_t)i);
        int height = (int)integer_in(lane, "rows") * row_height(lane) + GAP;
        t->tops[i + 1] = t->tops[i] + (is_used(t, i) ? height : 0);
    }
}

static int height(const strip *t) {
    return t->tops[t->lane_count];
}

static void add_names(const strip *t) {
    text_format(t->out, "<svg class=names aria-hidden=true width=%d height=%d>\n", NAMES_WIDTH,
                height(t));
    for (int i = 0; i < t->lane_count; i++) {
        int rows = t->tops[i + 1] - t->tops[i] - GAP;
        if (rows < 0) continue;
        text_format(t->out, "<text x=%d y=%d text-anchor=end>", NAMES_WIDTH - 8,
                    t->tops[i] + rows / 2 + 5);
        add_z(t->out, text_in(lane_at(t, (size_t)i), "name"));
        text_add_z(t->out, "</text>\n");
    }
    text_add_z(t->out, "</svg>");
}

/* --- clocks ----------------------------------------------------------------------------------- */

/* 1, 2 or 5 times a power of ten. */
static long long tick_of(long long clocks) {
    static const int steps[] = {1, 2, 5};
    long long power = 1;
    while (power <= clocks / TICKS / 10) power *= 10;
    for (int i = 0; i < 3; i++)
        if (steps[i] * power * TICKS >= clocks) return steps[i] * power;
    return 10 * power;
}

static void add_ticks(const strip *t) {
    long long clocks = integer_in(t->timeline, "clocks"), tick = tick_of(clocks);
    for (long long at = 0; at < clocks; at += tick) {
        double x = (double)at * t->per_clock;
        text_format(
            t->out,
            "<line x1=\"%.1f\" x2=\"%.1f\" y1=%d y2=%d /><text x=\"%.1f\" y=12>%lld</text>\n", x, x,
            TOP - 6, height(t), x + 3, at);
    }
}

/* --- boxes ------------------------------------------------------------------------------------ */

static const char *class_of(const strip *t, const json_t *box, const char *statement) {
    const json_t *lane = lane_at(t, (size_t)integer_in(box, "lane"));
    if (json_is_true(json_object_get(box, "waits"))) return "waits";
    if (is_of(lane, "copies")) return "part2";
    if (is_of(lane, "tensor") || strncmp(statement, "Compute GEMM", 12) == 0) return "part0";
    return strncmp(statement, "Compute", 7) == 0 ? "part1" : "part5";
}

static void add_box(const strip *t, const json_t *box) {
    int lane = (int)integer_in(box, "lane");
    if (lane < 0 || lane >= t->lane_count) return;
    long long number = integer_in(box, "statement"), tile = integer_in(box, "tile");
    long long begin = integer_in(box, "begin"), end = integer_in(box, "end");
    const char *text = text_in(json_array_get(t->statements, (size_t)number), "text");
    int row = row_height(lane_at(t, (size_t)lane));
    double x = (double)begin * t->per_clock, width = (double)(end - begin) * t->per_clock;
    text_format(t->out,
                "<rect class=\"box %s%s\" data-s=%lld data-lane=%d x=\"%.1f\" y=%d width=\"%.1f\" "
                "height=%d><title>",
                class_of(t, box, text), tile ? " second" : "", t->base + number, lane, x,
                t->tops[lane] + (int)integer_in(box, "row") * row, width > 1 ? width : 1, row - 1);
    add_z(t->out, text);
    text_format(t->out, "\n%lld to %lld%s</title></rect>\n", begin, end,
                json_is_true(json_object_get(box, "waits")) ? ", waits" : "");
}

/* --- the whole -------------------------------------------------------------------------------- */

static void add_lengths(const strip *t) {
    size_t i;
    const json_t *length;
    json_array_foreach(json_object_get(t->timeline, "lengths"), i, length) {
        text_add_z(t->out, i ? ", " : " with ");
        add_z(t->out, text_in(length, "name"));
        text_format(t->out, " %lld", integer_in(length, "value"));
    }
}

static void add_caption(const strip *t, const json_t *kernel) {
    const char *blocks = text_in(t->timeline, "blocks");
    text_add_z(t->out, "<figcaption><b>Predicted</b>, not measured: ");
    text_add_z(t->out, strcmp(blocks, "one") == 0 ? "the first two tiles of a block of "
                       : strcmp(blocks, "beside") == 0
                           ? "two blocks of a tile each, on a multiprocessor at once, of "
                           : "two blocks of a tile each, one after the other, of ");
    add_z(t->out, text_in(kernel, "name"));
    add_lengths(t);
    text_format(t->out, ", in %lld clocks of a multiprocessor. ",
                integer_in(t->timeline, "clocks"));
    text_add_z(t->out, "<b class=\"dot part0\"></b>products <b class=\"dot part1\"></b>elements "
                       "<b class=\"dot part2\"></b>copies on their way "
                       "<b class=\"dot part5\"></b>other work <b class=\"dot waits\"></b>waits"
                       "</figcaption>\n");
}

void view_add_timeline(text_buffer *out, const json_t *kernel, int base) {
    strip t = {.out = out,
               .timeline = json_object_get(kernel, "timeline"),
               .statements = json_object_get(kernel, "statements"),
               .base = base};
    size_t i;
    const json_t *box, *boxes = json_object_get(t.timeline, "boxes");
    long long clocks = integer_in(t.timeline, "clocks");
    if (*text_in(t.timeline, "note")) {
        text_add_z(out, "<p class=note>There is no timeline of ");
        add_z(out, text_in(kernel, "name"));
        text_add_z(out, ": ");
        add_z(out, text_in(t.timeline, "note"));
        text_add_z(out, "</p>\n");
    }
    if (!json_array_size(boxes) || clocks < 1) return;
    t.per_clock = (double)STRIP_WIDTH / (double)clocks;
    place_lanes(&t);
    text_add_z(out, "<figure class=timeline>");
    add_caption(&t, kernel);
    text_add_z(out, "<div class=lanes>");
    add_names(&t);
    text_format(out,
                "<div class=strip tabindex=0 role=group aria-label=\"timeline, predicted\">"
                "<svg width=%d height=%d>\n",
                STRIP_WIDTH + 1, height(&t));
    add_ticks(&t);
    json_array_foreach(boxes, i, box) add_box(&t, box);
    text_add_z(out, "</svg></div></div></figure>\n");
}
