#include "view/figures.h"
#include "view/highlight.h"
#include "view/object.h"

#include <string.h>

static void add_z(text_buffer *out, const char *text) {
    text_add_html(out, str_from(text));
}

/* --- candidates ------------------------------------------------------------------------------- */

static size_t column_count(const json_t *table) {
    return json_array_size(json_object_get(table, "columns"));
}

static const json_t *column_at(const json_t *table, size_t i) {
    return json_array_get(json_object_get(table, "columns"), i);
}

static const json_t *cell_at(const json_t *table, size_t row, size_t column) {
    return json_array_get(json_array_get(json_object_get(table, "rows"), row), column);
}

static double value_at(const json_t *table, size_t row, size_t column) {
    return json_number_value(cell_at(table, row, column));
}

/* The column that says how good a candidate is; 0: none does. */
static size_t judged_by(const json_t *table) {
    size_t count = column_count(table);
    for (size_t i = 1; i < count; i++)
        if (strcmp(text_in(column_at(table, i), "name"), "predicted") == 0) return i;
    for (size_t i = 2; i < count; i++) /* parts of a whole, which is the last */
        if (strcmp(text_in(column_at(table, i), "unit"), text_in(column_at(table, 1), "unit")) != 0)
            return 0;
    return count > 2 ? count - 1 : 0;
}

static bool is_part(const json_t *table, size_t column, size_t judged) {
    return column != judged && strcmp(text_in(column_at(table, column), "unit"),
                                      text_in(column_at(table, judged), "unit")) == 0;
}

static double most_of(const json_t *table, size_t judged) {
    double most = 0;
    for (size_t row = 0; row < json_array_size(json_object_get(table, "rows")); row++)
        for (size_t i = 1; i < column_count(table); i++) {
            double value = value_at(table, row, i);
            if ((i == judged || is_part(table, i, judged)) && value > most) most = value;
        }
    return most;
}

enum { LEFT = 90, WIDTH = 500, RIGHT = 80, STEP = 22 };

static void add_cell(text_buffer *out, const json_t *cell) {
    if (json_is_string(cell)) add_z(out, json_string_value(cell));
    else if (json_is_integer(cell)) text_format(out, "%lld", (long long)json_integer_value(cell));
    else text_format(out, "%.4g", json_number_value(cell));
}

static void add_bar(text_buffer *out, const json_t *table, size_t row, size_t judged, double most) {
    int y = (int)row * STEP + 2;
    double length = WIDTH * value_at(table, row, judged) / most;
    text_format(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">", LEFT - 8, y + 13);
    add_cell(out, cell_at(table, row, 0));
    text_format(out, "</text><rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\"/>",
                row ? "other" : "taken", LEFT, y, length, STEP - 6);
    for (size_t i = 1; i < column_count(table); i++) {
        if (!is_part(table, i, judged)) continue;
        text_format(out, "<circle class=part%d cx=\"%.1f\" cy=\"%d\" r=\"4\"><title>", (int)i % 6,
                    LEFT + WIDTH * value_at(table, row, i) / most, y + (STEP - 6) / 2);
        add_z(out, text_in(column_at(table, i), "name"));
        text_add_z(out, ": ");
        add_cell(out, cell_at(table, row, i));
        text_add_z(out, "</title></circle>");
    }
    text_format(out, "<text x=\"%.1f\" y=\"%d\">", LEFT + length + 6, y + 13);
    add_cell(out, cell_at(table, row, judged));
    text_add_z(out, "</text>\n");
}

static void add_bars(text_buffer *out, const json_t *table, size_t judged) {
    size_t rows = json_array_size(json_object_get(table, "rows"));
    double most = most_of(table, judged);
    if (most <= 0) return;
    text_format(out, "<svg class=bars role=img viewBox=\"0 0 %d %d\" aria-label=\"",
                LEFT + WIDTH + RIGHT, (int)rows * STEP + 4);
    add_z(out, text_in(column_at(table, judged), "name"));
    text_add_z(out, ", ");
    add_z(out, text_in(column_at(table, judged), "unit"));
    text_add_z(out, "\">\n");
    for (size_t row = 0; row < rows; row++) add_bar(out, table, row, judged, most);
    text_add_z(out, "</svg>\n");
}

static void add_heads(text_buffer *out, const json_t *table, size_t judged) {
    bool has_parts = false;
    for (size_t i = 1; i < column_count(table); i++)
        has_parts |= judged && is_part(table, i, judged);
    for (size_t i = 0; i < column_count(table); i++) {
        const char *unit = text_in(column_at(table, i), "unit");
        text_add_z(out, "<th scope=col>");
        if (has_parts && i && is_part(table, i, judged))
            text_format(out, "<b class=\"dot part%d\"></b>", (int)i % 6);
        add_z(out, text_in(column_at(table, i), "name"));
        if (*unit) text_add_z(out, "<br><small>");
        add_z(out, unit);
        if (*unit) text_add_z(out, "</small>");
        text_add_z(out, "</th>");
    }
}

void view_add_table(text_buffer *out, const json_t *table) {
    size_t judged = judged_by(table);
    text_add_z(out, "<figure><figcaption>");
    add_z(out, text_in(table, "title"));
    text_add_z(out, "</figcaption>\n");
    if (judged) add_bars(out, table, judged);
    text_add_z(out, "<div class=wide tabindex=0><table><thead><tr>");
    add_heads(out, table, judged);
    text_add_z(out, "</tr></thead><tbody>\n");
    for (size_t row = 0; row < json_array_size(json_object_get(table, "rows")); row++) {
        text_add_z(out, row ? "<tr>" : "<tr class=taken>");
        for (size_t i = 0; i < column_count(table); i++) {
            text_add_z(out, i ? "<td>" : "<th scope=row>");
            add_cell(out, cell_at(table, row, i));
            text_add_z(out, i ? "</td>" : "</th>");
        }
        text_add_z(out, "</tr>\n");
    }
    text_add_z(out, "</tbody></table></div></figure>\n");
}

/* --- shared memory ---------------------------------------------------------------------------- */

enum { MAP_WIDTH = 1000, MAP_HEIGHT = 300, MAP_LEFT = 70, MAP_TOP = 24 };

typedef struct scale {
    double per_statement, per_byte;
    int base;
} scale;

static void add_slots(text_buffer *out, const json_t *tile, scale by, double x, double width) {
    long long bytes = integer_in(tile, "bytes"), slot = integer_in(tile, "slot_bytes");
    for (long long at = slot; slot > 0 && at < bytes; at += slot) {
        double y = MAP_TOP + (double)(integer_in(tile, "offset") + at) * by.per_byte;
        text_format(out, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>", x, x + width, y,
                    y);
    }
}

static void add_tile(text_buffer *out, const json_t *tile, size_t number, scale by) {
    const json_t *used = json_object_get(tile, "used");
    double first = json_number_value(json_array_get(used, 0));
    double last = json_number_value(json_array_get(used, 1));
    double x = MAP_LEFT + first * by.per_statement, width = (last - first + 1) * by.per_statement;
    double y = MAP_TOP + (double)integer_in(tile, "offset") * by.per_byte;
    double height = (double)integer_in(tile, "bytes") * by.per_byte;
    long long slot = integer_in(tile, "slot_bytes"), bytes = integer_in(tile, "bytes");
    text_format(out,
                "<g class=\"tile part%d\" data-s=\"%lld\" tabindex=0><rect x=\"%.1f\" y=\"%.1f\" "
                "width=\"%.1f\" height=\"%.1f\"/>",
                (int)(number % 6), by.base + integer_in(tile, "statement"), x, y, width, height);
    add_slots(out, tile, by, x, width);
    text_format(out, "<text x=\"%.1f\" y=\"%.1f\">", x + 6, y + height / 2 + 5);
    add_z(out, text_in(tile, "name"));
    text_add_z(out, "</text><title>");
    add_z(out, text_in(tile, "name"));
    text_format(out, ": %lld bytes from byte %lld on", bytes, integer_in(tile, "offset"));
    if (slot > 0 && slot < bytes) text_format(out, ", %lld slots", bytes / slot);
    text_add_z(out, "</title></g>\n");
}

void view_add_memory(text_buffer *out, const json_t *kernel, int base) {
    const json_t *tiles = json_object_get(kernel, "shared"), *tile;
    size_t statements = json_array_size(json_object_get(kernel, "statements")), i;
    long long bytes = integer_in(kernel, "shared_bytes"),
              limit = integer_in(kernel, "shared_limit");
    if (!json_array_size(tiles) || !bytes || !statements) return;
    scale by = {(double)MAP_WIDTH / (double)statements, (double)MAP_HEIGHT / (double)bytes, base};
    text_add_z(out, "<figure class=memory><figcaption>Shared memory of ");
    add_z(out, text_in(kernel, "name"));
    text_format(
        out,
        ": %lld bytes of %lld. From top to bottom, bytes; from left to right, the "
        "statements of TL Code, from the first to the last that uses a tile.</figcaption>\n",
        bytes, limit);
    text_format(out,
                "<svg class=map role=img aria-label=\"shared memory\" viewBox=\"0 0 %d %d\">\n",
                MAP_LEFT + MAP_WIDTH, MAP_TOP + MAP_HEIGHT + 8);
    text_format(out, "<rect class=room x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", MAP_LEFT,
                MAP_TOP, MAP_WIDTH, MAP_HEIGHT);
    text_format(out, "<text x=\"%d\" y=\"%d\" text-anchor=end>0</text>", MAP_LEFT - 8,
                MAP_TOP + 10);
    text_format(out, "<text x=\"%d\" y=\"%d\" text-anchor=end>%lld</text>\n", MAP_LEFT - 8,
                MAP_TOP + MAP_HEIGHT, bytes);
    json_array_foreach(tiles, i, tile) add_tile(out, tile, i, by);
    text_add_z(out, "</svg></figure>\n");
}
