/* Instruction wrappers: the paragraphs of src/device that a kernel's text names; for CuTe those of
 * src/device/cute, where there are any. A paragraph whose name has "@N" in it is a pattern: each
 * width that is named makes one of it.
 */
#include "translate/emit.h"

#include "base/embedded.h"

#include <ctype.h>
#include <string.h>

typedef struct paragraph {
    str text;
    str name; /* what it defines; empty: a comment on the file */
    bool is_used, is_pattern;
} paragraph;

typedef LIST(paragraph) paragraphs;

enum {
    WIDTH_MAX = 256,
    WIDTH_UNIT = 8,
    SUMS_A_LINE = 18,
    LONG_SUMS_A_LINE = 16,
    OUTPUTS_A_LINE = 6
};
static const str width_mark = {"@N", 2};

/* The first word that starts with "ftl_" and is followed by '(', or by " {" (a struct): what the
 * wrapper is called; of a macro its name.
 */
static str defined_name(str text) {
    const char *macro = str_find_word(text, STR("define"));
    if (macro && text.data[0] == '#') {
        str rest = {macro + 7, text.length - (size_t)(macro + 7 - text.data)};
        size_t length = 0;
        while (length < rest.length && str_is_word(rest.data[length])) length++;
        return (str){rest.data, length};
    }
    for (size_t i = 0; i + 4 < text.length; i++) {
        if (memcmp(text.data + i, "ftl_", 4) != 0) continue;
        size_t end = i;
        while (end < text.length) {
            str rest = {text.data + end, text.length - end};
            bool is_mark = str_starts(rest, width_mark);
            bool is_name = *rest.data == '_' || islower((unsigned char)*rest.data) ||
                           isdigit((unsigned char)*rest.data);
            if (!is_mark && !is_name) break;
            end += is_mark ? width_mark.length : 1;
        }
        str rest = {text.data + end, text.length - end};
        if (str_starts(rest, STR("(")) || str_starts(rest, STR(" {")))
            return (str){text.data + i, end - i};
        i = end;
    }
    return (str){0};
}

static bool is_known(const paragraphs *all, str name) {
    for (int i = 0; i < all->count; i++) {
        if (str_equal(all->items[i].name, name)) return true;
    }
    return false;
}

/* What is there already is not read again: CuTe's wrappers go before the plain ones. */
static void read_paragraphs(emit *t, const embedded_file *files, paragraphs *all) {
    for (const embedded_file *file = files; file->name; file++) {
        str rest = {file->data, file->length};
        while (rest.length) {
            const char *gap = strstr(rest.data, "\n\n");
            size_t length = gap ? (size_t)(gap - rest.data) + 1 : rest.length;
            paragraph p = {.text = {rest.data, length}};
            p.name = defined_name(p.text);
            p.is_pattern = p.name.length && memchr(p.name.data, '@', p.name.length);
            if (p.name.length && !is_known(all, p.name)) list_push(t->memory, all, p);
            size_t used = gap ? length + 1 : length;
            rest = (str){rest.data + used, rest.length - used};
        }
    }
}

/* A program's kernels may share a file; what an earlier one brought is there already. */
static bool is_there(const text_buffer *out, str text) {
    str rest = text_str(out);
    while (rest.length >= text.length) {
        const char *found = memchr(rest.data, text.data[0], rest.length);
        if (!found) return false;
        rest.length -= (size_t)(found - rest.data);
        rest.data = found;
        if (str_starts(rest, text)) return true;
        rest.data++, rest.length--;
    }
    return false;
}

/* --- patterns --------------------------------------------------------------------------------- */

/* What stands for '@...' in a pattern of that width; *used: how many characters it took. */
static void add_mark(text_buffer *out, str at, int width, size_t *used) {
    if (str_starts(at, STR("@EIGHTHS"))) {
        text_format(out, "%d", width / WIDTH_UNIT);
        *used = 8;
    } else if (str_starts(at, STR("@SUMS"))) {
        int a_line = width / 2 > 100 ? LONG_SUMS_A_LINE : SUMS_A_LINE; /* of three digits */
        for (int i = 0; i < width / 2; i++)
            text_format(out, "%s%%%d",
                        !i           ? ""
                        : i % a_line ? ", "
                                     : ", \"\n                 \"",
                        i);
        *used = 5;
    } else if (str_starts(at, STR("@OUTPUTS"))) {
        for (int i = 0; i < width / WIDTH_UNIT; i++)
            text_format(out, "%sFTL_SUMS(%d)",
                        !i                   ? ""
                        : i % OUTPUTS_A_LINE ? ", "
                                             : ",\n                   ",
                        i);
        *used = 8;
    } else if (str_starts(at, width_mark)) {
        text_format(out, "%d", width);
        *used = width_mark.length;
    } else {
        text_format(out, "%d", width / 2 + (at.data[1] - '0'));
        *used = 2;
    }
}

static str expand(emit *t, str pattern, int width) {
    text_buffer out;
    text_init_in(&out, t->memory);
    for (size_t i = 0; i < pattern.length;) {
        size_t used = 1;
        if (pattern.data[i] == '@')
            add_mark(&out, (str){pattern.data + i, pattern.length - i}, width, &used);
        else text_add(&out, (str){pattern.data + i, 1});
        i += used;
    }
    return text_str(&out);
}

/* Adds a paragraph for each width of a pattern that 'text' names. */
static void expand_used(emit *t, paragraphs *all, int which, str text) {
    const paragraph pattern = all->items[which];
    size_t before = (size_t)((const char *)memchr(pattern.name.data, '@', pattern.name.length) -
                             pattern.name.data);
    str prefix = {pattern.name.data, before};
    for (str rest = text; rest.length > before; rest.data++, rest.length--) {
        const char *found = memchr(rest.data, prefix.data[0], rest.length - before);
        if (!found) return;
        rest = (str){found, rest.length - (size_t)(found - rest.data)};
        int width = 0;
        if (!str_starts(rest, prefix)) continue;
        for (size_t i = before; isdigit((unsigned char)rest.data[i]) && width <= WIDTH_MAX; i++)
            width = 10 * width + (rest.data[i] - '0');
        paragraph p = {.name = expand(t, pattern.name, width)};
        bool fits = width >= WIDTH_UNIT && width <= WIDTH_MAX && width % WIDTH_UNIT == 0;
        if (!fits || !str_starts(rest, p.name) || is_known(all, p.name)) continue;
        p.text = expand(t, pattern.text, width);
        list_push(t->memory, all, p);
    }
}

/* --- names ------------------------------------------------------------------------------------ */

/* Paragraphs by what they define. */
typedef struct names {
    paragraph **slots; /* NULL: free */
    uint32_t mask;
} names;

/* The slot of a name: its own, or the free one that it would have. */
static paragraph **slot_of(const names *n, str name) {
    uint32_t hash = str_hash(name);
    while (n->slots[hash & n->mask] && !str_equal(n->slots[hash & n->mask]->name, name)) hash++;
    return &n->slots[hash & n->mask];
}

static names names_of(emit *t, paragraphs *all) {
    names n = {.mask = 1};
    while (n.mask < 2 * (uint32_t)all->count) n.mask = 2 * n.mask + 1;
    n.slots = arena_array(t->memory, paragraph *, n.mask + 1);
    for (int i = 0; i < all->count; i++)
        if (!all->items[i].is_pattern) *slot_of(&n, all->items[i].name) = &all->items[i];
    return n;
}

/* Marks what 'text' names, and what that needs. A wrapper that has another's name as its beginning
 * is told apart by whole words.
 */
static void mark_used(const names *n, str text) {
    for (size_t i = 0, end; i < text.length; i = end + 1) {
        for (end = i; end < text.length && str_is_word(text.data[end]);) end++;
        paragraph *p = end > i ? *slot_of(n, (str){text.data + i, end - i}) : NULL;
        if (!p || p->is_used) continue;
        p->is_used = true;
        mark_used(n, p->text);
    }
}

void emit_device(emit *t, str kernel_text, text_buffer *out) {
    paragraphs all = {0};
    if (t->as_cute) read_paragraphs(t, embedded_cute, &all);
    read_paragraphs(t, embedded_device, &all);
    int patterns = all.count;
    for (int i = 0; i < patterns; i++) {
        if (all.items[i].is_pattern) expand_used(t, &all, i, kernel_text);
    }
    names by_name = names_of(t, &all);
    mark_used(&by_name, kernel_text);
    /* A wrapper comes after what it uses: the files' own order, needs first. */
    bool was_line = false;
    bool *written = arena_array(t->memory, bool, all.count + 1);
    for (int left = all.count; left > 0; left--) {
        for (int i = 0; i < all.count; i++) {
            if (!all.items[i].is_used || written[i]) continue;
            bool waits = false;
            for (int j = 0; j < all.count && !waits; j++) {
                waits = j != i && all.items[j].is_used && !written[j] &&
                        emit_mentions(all.items[i].text, all.items[j].name);
            }
            if (waits) continue;
            written[i] = true;
            if (is_there(out, all.items[i].text)) continue;
            bool is_line =
                memchr(all.items[i].text.data, '\n', all.items[i].text.length - 1) == NULL;
            if (!is_line && was_line) text_add_z(out, "\n");
            text_add(out, all.items[i].text);
            if (!is_line) text_add_z(out, "\n");
            was_line = is_line;
        }
    }
    if (was_line) text_add_z(out, "\n");
}
