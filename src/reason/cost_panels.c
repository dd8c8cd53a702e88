/* The cost model on panels: which tiles may have an open one, and how many bytes lines occupy in
 * them. */
#include "reason/cost_model.h"
#include "reason/panels.h"

/* Tiles that warpgroups have in shared memory. */
void cost_read_panels(cost_model *m) {
    for (int i = 0; i < m->plan.count; i++) {
        const place_role *role = &m->plan.roles[i];
        bool leaves = role->tile->to_global && role->layout == TL_MMA_C;
        if (!role->in_shared && !leaves) continue;
        m->may_open[i] = panels_may_be_open(m->r, m->plan.tiles, role->tile);
        int64_t line = m->extents[i][1].value * tl_type_bytes(role->tile->storage);
        if (m->may_open[i] && panels_swizzle(line, PANELS_MOST_BYTES) > panels_dividing(line))
            m->may_open_panels = true;
    }
}

cost_line cost_line_of(const cost_model *m, const cost_choice *c, int tile) {
    cost_line line = {0};
    line.bytes = (int64_t)cost_value(c, m->extents[tile][1]) *
                 tl_type_bytes(m->plan.roles[tile].tile->storage);
    line.swizzle = m->may_open[tile] ? panels_swizzle(line.bytes, c->panel_bytes)
                                     : panels_dividing(line.bytes);
    return line;
}

static const char *panels_text(reason *r, cost_line line, int swizzle) {
    int64_t bytes = panels_line_bytes(line.bytes, swizzle);
    return reason_say(r, "%lld of %d bytes", (long long)(bytes / swizzle), swizzle);
}

/* Tiles whose lines are as long as the tile's, that one first; empty where another came before. */
static str alike(const cost_model *m, const cost_choice *c, int tile) {
    str names = {"", 0};
    int64_t bytes = cost_line_of(m, c, tile).bytes;
    for (int i = 0; i < m->plan.count; i++) {
        if (!m->may_open[i] || cost_line_of(m, c, i).bytes != bytes) continue;
        if (i < tile) return (str){"", 0};
        names = str_format(m->r->memory, "%.*s%s%.*s", STR_ARGS(names), i > tile ? ", " : "",
                           STR_ARGS(m->plan.roles[i].tile->name));
    }
    return names;
}

void cost_explain_panels(const cost_model *m, const cost_choice *c) {
    for (int i = 0; i < m->plan.count; i++) {
        cost_line line = cost_line_of(m, c, i);
        int narrow = panels_swizzle(line.bytes, PANELS_LEAST_BYTES);
        int wide = panels_swizzle(line.bytes, PANELS_MOST_BYTES);
        str names = m->may_open[i] && narrow != wide ? alike(m, c, i) : (str){"", 0};
        if (names.length == 0) continue;
        int64_t bytes = panels_line_bytes(line.bytes, line.swizzle);
        reason_decide(
            m->r, "panels",
            "lines of %.*s, %lld bytes, lie in panels: %s, %lld of them unused; narrowest and "
            "widest: %s, %s. Each panel of a line is a request to memory; products take no more "
            "columns than there are",
            STR_ARGS(names), (long long)line.bytes, panels_text(m->r, line, line.swizzle),
            (long long)(bytes - line.bytes), panels_text(m->r, line, narrow),
            panels_text(m->r, line, wide));
    }
}
