/* Line information: .file, .loc with its chains of inlined functions, and the names of these. */
#include "emulate/ptx_read.h"

/* "_ZN3foo4cp16EjPKv" names cp16: the last <length><identifier> of the nested name. */
str ptx_lines_plain_name(str mangled) {
    if (!str_starts(mangled, STR("_Z"))) return mangled;
    const char *at = mangled.data + 2, *end = mangled.data + mangled.length;
    while (at < end && !ptx_scan_is_digit(*at)) at++;
    str name = mangled;
    while (at < end && ptx_scan_is_digit(*at)) {
        size_t length = 0;
        while (at < end && ptx_scan_is_digit(*at) && length < 4096)
            length = length * 10 + (size_t)(*at++ - '0');
        if (length == 0 || length > (size_t)(end - at)) break;
        name = (str){at, length};
        at += length;
        if (at + 1 < end && *at == 'E' && ptx_scan_is_digit(at[1]))
            at++; /* a function's own variable */
    }
    return name;
}

static uint32_t place_hash(const ptx_place *p) {
    return ((uint32_t)p->line * 2654435761u) ^ (uint32_t)p->column * 40503u ^ (uint32_t)p->file;
}

/* The latest place with this file, line and column: what inlined_at means. */
static int32_t latest_place(const ptx_reader *r, ptx_place p) {
    const ptx_index *index = &r->places_by_line;
    int32_t i = ptx_index_first(index, place_hash(&p));
    for (; i >= 0; i = ptx_index_next(index, i)) {
        const ptx_place *q = &r->module->places.items[i];
        if (q->file == p.file && q->line == p.line && q->column == p.column) return i;
    }
    return -1;
}

static int32_t add_place(ptx_reader *r, ptx_place p) {
    int32_t found = latest_place(r, p);
    if (found >= 0) {
        const ptx_place *q = &r->module->places.items[found];
        if (q->parent == p.parent && str_equal(q->function, p.function)) return found;
    }
    list_push(r->module->memory, &r->module->places, p);
    ptx_index_add(r->memory, &r->places_by_line, place_hash(&p));
    return r->module->places.count - 1;
}

/* .loc FILE LINE COLUMN [, function_name LABEL [+ N], inlined_at FILE LINE COLUMN] */
void ptx_lines_location(ptx_reader *r) {
    ptx_place place = {.parent = -1};
    place.file = ptx_scan_small(r);
    place.line = ptx_scan_small(r);
    place.column = ptx_scan_small(r);
    if (ptx_scan_take(r, ',')) {
        ptx_scan_word(r, false);                  /* function_name */
        place.function = ptx_scan_word(r, false); /* resolved to text at the end of the module */
        if (ptx_scan_take(r, '+')) ptx_scan_small(r);
        if (!ptx_scan_need(r, ',')) return;
        ptx_scan_word(r, false); /* inlined_at */
        ptx_place at = {.parent = -1};
        at.file = ptx_scan_small(r);
        at.line = ptx_scan_small(r);
        at.column = ptx_scan_small(r);
        if (r->stopped) return;
        place.parent = latest_place(r, at);
        if (place.parent < 0) place.parent = add_place(r, at);
        int depth = 0;
        for (int32_t p = place.parent; p >= 0; p = r->module->places.items[p].parent)
            if (++depth >= PTX_FRAMES_MAX) place.parent = -1;
    }
    if (!r->stopped) r->place = add_place(r, place);
}

void ptx_lines_file(ptx_reader *r) {
    int32_t file_number = ptx_scan_small(r);
    if (!ptx_scan_need(r, '"')) return;
    const char *begin = r->at;
    while (r->at < r->end && *r->at != '"' && *r->at != '\n') r->at++;
    str name = {begin, (size_t)(r->at - begin)};
    if (!ptx_scan_need(r, '"')) return;
    while (ptx_scan_take(r, ',')) ptx_scan_small(r); /* time stamp, size */
    list_push(r->module->memory, &r->module->files, ((ptx_file){file_number, name}));
}

static void add_string(ptx_reader *r, str label, const char *bytes, size_t length) {
    if (!label.length) return;
    str name = str_copy(r->module->memory, (str){bytes, length});
    ptx_index_add(r->memory, &r->strings_by_label, str_hash(label));
    list_push(r->memory, &r->strings, ((ptx_string){label, ptx_lines_plain_name(name)}));
}

/* What is after a data directive: numbers, and differences of labels. False at its end. */
static bool datum(ptx_reader *r, char *byte) {
    *byte = '\0';
    char c = ptx_scan_peek(r);
    if (ptx_scan_is_letter(c)) {
        ptx_scan_word(r, true);
        if (ptx_scan_take(r, '+') || ptx_scan_take(r, '-')) {
            if (ptx_scan_is_letter(ptx_scan_peek(r))) ptx_scan_word(r, true);
            else ptx_scan_small(r);
        }
        return true;
    }
    if (c != '-' && !ptx_scan_is_digit(c)) return false;
    ptx_literal literal;
    *byte = (char)ptx_scan_number(r, &literal);
    return true;
}

/* A debug section: labels with bytes; the strings name the inlined functions. */
void ptx_lines_section(ptx_reader *r) {
    enum { NAME_MOST = 1024 };
    char text[NAME_MOST];
    size_t length = 0;
    str label = {0};
    if (ptx_scan_peek(r) == '.') ptx_scan_directive(r);
    else ptx_scan_word(r, false);
    if (!ptx_scan_need(r, '{')) return;
    while (!r->stopped && ptx_scan_peek(r) != '}' && r->at < r->end) {
        if (*r->at == '.') {
            char byte;
            ptx_scan_directive(r);
            while (datum(r, &byte)) {
                if (byte && length < NAME_MOST) text[length++] = byte;
                if (!ptx_scan_take(r, ',')) break;
            }
        } else if (ptx_scan_is_letter(*r->at)) {
            add_string(r, label, text, length);
            length = 0;
            label = ptx_scan_word(r, false);
            ptx_scan_need(r, ':');
        } else {
            ptx_scan_stop(r, "'}'");
        }
    }
    add_string(r, label, text, length);
    ptx_scan_need(r, '}');
}

/* Places name their functions by labels of debug strings; these come last in the text. */
void ptx_lines_finish(ptx_reader *r) {
    for (int i = 0; i < r->module->places.count; i++) {
        str *function = &r->module->places.items[i].function;
        if (!function->length) continue;
        const ptx_index *index = &r->strings_by_label;
        int32_t s = ptx_index_first(index, str_hash(*function));
        while (s >= 0 && !str_equal(*function, r->strings.items[s].label))
            s = ptx_index_next(index, s);
        if (s >= 0) *function = r->strings.items[s].text;
    }
}
