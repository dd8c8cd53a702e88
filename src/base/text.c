#include "base/text.h"
#include "base/number.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

str str_from(const char *c_string) {
    return (str){c_string, c_string ? strlen(c_string) : 0};
}

bool str_equal(str a, str b) {
    return a.length == b.length && (a.length == 0 || memcmp(a.data, b.data, a.length) == 0);
}

bool str_is(str a, const char *c_string) {
    return str_equal(a, str_from(c_string));
}

bool str_starts(str a, str prefix) {
    return a.length >= prefix.length && str_equal((str){a.data, prefix.length}, prefix);
}

bool str_ends(str a, str suffix) {
    return a.length >= suffix.length &&
           str_equal((str){a.data + a.length - suffix.length, suffix.length}, suffix);
}

bool str_is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

size_t str_find(str text, str what) {
    for (size_t at = 0; at + what.length <= text.length; at++)
        if (str_starts((str){text.data + at, text.length - at}, what)) return at;
    return text.length;
}

const char *str_find_word(str text, str name) {
    for (size_t at = 0; at + name.length <= text.length; at++) {
        const char *found = memchr(text.data + at, name.data[0], text.length - at);
        if (!found) return NULL;
        at = (size_t)(found - text.data);
        if (at + name.length > text.length) return NULL;
        if (memcmp(found, name.data, name.length) != 0) continue;
        bool starts = at == 0 || !str_is_word(found[-1]);
        bool ends = at + name.length == text.length || !str_is_word(found[name.length]);
        if (starts && ends) return found;
    }
    return NULL;
}

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

uint32_t str_hash(str a) {
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < a.length; i++) hash = (hash ^ (unsigned char)a.data[i]) * 16777619u;
    return hash;
}

str str_trim(str a) {
    while (a.length && is_space(a.data[0])) a.data++, a.length--;
    while (a.length && is_space(a.data[a.length - 1])) a.length--;
    return a;
}

str str_cut_word(str *rest) {
    size_t begin = 0;
    while (begin < rest->length && !str_is_word(rest->data[begin])) begin++;
    size_t end = begin;
    while (end < rest->length && str_is_word(rest->data[end])) end++;
    str word = {rest->data + begin, end - begin};
    *rest = (str){rest->data + end, rest->length - end};
    return word;
}

str str_cut(str *rest, char separator) {
    const char *found = rest->length ? memchr(rest->data, separator, rest->length) : NULL;
    str head = *rest;
    if (!found) {
        *rest = (str){rest->data + rest->length, 0};
        return head;
    }
    head.length = (size_t)(found - rest->data);
    rest->data = found + 1;
    rest->length -= head.length + 1;
    return head;
}

char *str_copy_z(arena *a, str s) {
    char *copy = arena_array(a, char, s.length + 1);
    if (s.length) memcpy(copy, s.data, s.length);
    return copy;
}

str str_copy(arena *a, str s) {
    return (str){str_copy_z(a, s), s.length};
}

str str_format_list(arena *a, const char *format, va_list arguments) {
    char room[256];
    va_list again;
    va_copy(again, arguments);
    int length = number_print_list(room, sizeof room, format, again);
    va_end(again);
    if (length < 0) return (str){"", 0};
    if ((size_t)length < sizeof room) return str_copy(a, (str){room, (size_t)length});
    char *data = arena_array(a, char, length + 1);
    number_print_list(data, (size_t)length + 1, format, arguments);
    return (str){data, (size_t)length};
}

char *str_new(str s) {
    char *copy = malloc(s.length + 1);
    if (!copy) return NULL;
    if (s.length) memcpy(copy, s.data, s.length);
    copy[s.length] = 0;
    return copy;
}

str str_format(arena *a, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    str result = str_format_list(a, format, arguments);
    va_end(arguments);
    return result;
}

enum { NUMBER_BYTES = 64 };

/* For strtoll and its like, which skip blanks and need an end. */
static bool copy_number(str s, char copy[NUMBER_BYTES]) {
    if (s.length == 0 || s.length >= NUMBER_BYTES || is_space(s.data[0])) return false;
    memcpy(copy, s.data, s.length);
    copy[s.length] = 0;
    return true;
}

bool str_to_integer(str s, int64_t *value) {
    char copy[NUMBER_BYTES], *end;
    if (!copy_number(s, copy)) return false;
    errno = 0;
    long long parsed = strtoll(copy, &end, 10);
    if (errno || *end) return false;
    *value = parsed;
    return true;
}

bool str_to_number(str s, double *value) {
    char copy[NUMBER_BYTES];
    if (!copy_number(s, copy)) return false;
    return number_read(copy, value);
}

size_t str_utf8_bytes(str s) {
    const unsigned char *at = (const unsigned char *)s.data;
    if (!s.length) return 0;
    if (at[0] < 0x80) return 1;
    size_t count = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
    if (at[0] < 0xc2 || at[0] > 0xf4 || s.length < count) return 0;
    for (size_t i = 1; i < count; i++) {
        if ((at[i] & 0xc0) != 0x80) return 0;
    }
    bool is_overlong = (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xf0 && at[1] < 0x90);
    bool is_surrogate = at[0] == 0xed && at[1] > 0x9f;
    bool is_beyond = at[0] == 0xf4 && at[1] > 0x8f;
    return is_overlong || is_surrogate || is_beyond ? 0 : count;
}

int str_distance(str a, str b) {
    enum { LONGEST = 63 };
    if (a.length > LONGEST || b.length > LONGEST) return INT_MAX;
    int rows[3][LONGEST + 1]; /* the last two rows and the current one, by turns */
    for (size_t j = 0; j <= b.length; j++) rows[0][j] = (int)j;
    for (size_t i = 1; i <= a.length; i++) {
        int *row = rows[i % 3], *above = rows[(i + 2) % 3], *twice = rows[(i + 1) % 3];
        row[0] = (int)i;
        for (size_t j = 1; j <= b.length; j++) {
            bool same = a.data[i - 1] == b.data[j - 1];
            int best = above[j - 1] + !same;
            if (above[j] + 1 < best) best = above[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            bool swapped =
                i > 1 && j > 1 && a.data[i - 1] == b.data[j - 2] && a.data[i - 2] == b.data[j - 1];
            if (swapped && twice[j - 2] + 1 < best) best = twice[j - 2] + 1;
            row[j] = best;
        }
    }
    return rows[a.length % 3][b.length];
}

int str_distance_limit(str name) {
    return name.length < 2 ? 1 : name.length < 4 ? 2 : 3;
}

void text_init(text_buffer *buffer, size_t limit_bytes) {
    *buffer = (text_buffer){.limit_bytes = limit_bytes};
}

void text_init_in(text_buffer *buffer, arena *memory) {
    *buffer = (text_buffer){.limit_bytes = SIZE_MAX / 4, .memory = memory};
}

void text_done(text_buffer *buffer) {
    if (!buffer->memory) free(buffer->data);
    *buffer = (text_buffer){.limit_bytes = buffer->limit_bytes, .memory = buffer->memory};
}

/* NULL without memory; the text so far is kept then. */
static char *widen(text_buffer *buffer, size_t capacity) {
    if (!buffer->memory) return realloc(buffer->data, capacity);
    char *data = arena_alloc(buffer->memory, capacity, 1);
    if (buffer->length) memcpy(data, buffer->data, buffer->length);
    return data;
}

static bool reserve(text_buffer *buffer, size_t more) {
    if (buffer->failed) return false;
    if (more > buffer->limit_bytes || buffer->length > buffer->limit_bytes - more) {
        buffer->failed = true;
        return false;
    }
    size_t needed = buffer->length + more + 1;
    if (needed <= buffer->capacity) return true;
    size_t capacity = buffer->capacity ? buffer->capacity : 256;
    while (capacity < needed) capacity *= 2;
    char *data = widen(buffer, capacity);
    if (!data) {
        buffer->failed = true;
        return false;
    }
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
}

void text_add(text_buffer *buffer, str s) {
    if (!reserve(buffer, s.length)) return;
    if (s.length) memcpy(buffer->data + buffer->length, s.data, s.length);
    buffer->length += s.length;
    buffer->data[buffer->length] = 0;
}

static unsigned code_point(const unsigned char *at, size_t bytes) {
    if (bytes == 2) return (at[0] & 0x1fu) << 6 | (at[1] & 0x3fu);
    if (bytes == 3) return (at[0] & 0x0fu) << 12 | (at[1] & 0x3fu) << 6 | (at[2] & 0x3fu);
    return *at; /* of four bytes none has to be hidden */
}

size_t str_plain_bytes(str s) {
    size_t bytes = str_utf8_bytes(s);
    if (!bytes || bytes == 4) return bytes;
    unsigned point = code_point((const unsigned char *)s.data, bytes);
    bool is_control = point < 32 || (point >= 127 && point <= 0x9f);
    bool is_mark = point == 0x200e || point == 0x200f || (point >= 0x2028 && point <= 0x202e) ||
                   (point >= 0x2066 && point <= 0x2069);
    return is_control || is_mark ? 0 : bytes;
}

/* What is not plain; returns its bytes. */
static size_t add_hidden(text_buffer *buffer, str s) {
    static const char digits[] = "0123456789abcdef";
    const unsigned char *at = (const unsigned char *)s.data;
    size_t bytes = str_utf8_bytes(s);
    if (bytes > 1) {
        text_format(buffer, "\\u%04x", code_point(at, bytes));
        return bytes;
    }
    const char escape[] = {'\\', 'x', digits[*at >> 4], digits[*at & 15]};
    if (*at == '\n') text_add_z(buffer, "\\n");
    else if (*at == '\t') text_add_z(buffer, "\\t");
    else text_add(buffer, (str){escape, sizeof escape});
    return 1;
}

void text_add_shown(text_buffer *buffer, str s, const char *kept) {
    size_t from = 0, i = 0;
    while (i < s.length) {
        str rest = {s.data + i, s.length - i};
        size_t bytes = str_plain_bytes(rest);
        if (!bytes && *rest.data && strchr(kept, *rest.data)) bytes = 1;
        if (bytes) {
            i += bytes;
            continue;
        }
        text_add(buffer, (str){s.data + from, i - from});
        i += add_hidden(buffer, rest);
        from = i;
    }
    text_add(buffer, (str){s.data + from, i - from});
}

void text_add_z(text_buffer *buffer, const char *c_string) {
    text_add(buffer, str_from(c_string));
}

void text_add_quoted(text_buffer *buffer, const char *c_string) {
    text_add_z(buffer, "'");
    for (const char *c = c_string; *c; c++) text_format(buffer, *c == '\'' ? "''" : "%c", *c);
    text_add_z(buffer, "'");
}

void text_add_html(text_buffer *buffer, str text) {
    size_t begin = 0;
    for (size_t i = 0; i < text.length; i++) {
        const char *entity = NULL;
        switch (text.data[i]) {
        case '&': entity = "&amp;"; break;
        case '<': entity = "&lt;"; break;
        case '>': entity = "&gt;"; break;
        case '"': entity = "&quot;"; break;
        default: continue;
        }
        text_add(buffer, (str){text.data + begin, i - begin});
        text_add_z(buffer, entity);
        begin = i + 1;
    }
    text_add(buffer, (str){text.data + begin, text.length - begin});
}

void text_format(text_buffer *buffer, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    size_t room = buffer->capacity - buffer->length; /* for its end, too */
    char *end = buffer->data ? buffer->data + buffer->length : NULL;
    int length = number_print_list(end, room, format, again);
    va_end(again);
    bool is_there = length >= 0 && (size_t)length < room;
    if (length < 0) buffer->failed = true;
    if (length >= 0 && reserve(buffer, (size_t)length)) {
        char *to = buffer->data + buffer->length;
        if (!is_there) number_print_list(to, (size_t)length + 1, format, arguments);
        buffer->length += (size_t)length;
    }
    if (buffer->data) buffer->data[buffer->length] = 0; /* also after what did not fit */
    va_end(arguments);
}

void text_repeat(text_buffer *buffer, char c, size_t count) {
    if (!reserve(buffer, count)) return;
    memset(buffer->data + buffer->length, c, count);
    buffer->length += count;
    buffer->data[buffer->length] = 0;
}

str text_str(const text_buffer *buffer) {
    return (str){buffer->data ? buffer->data : "", buffer->length};
}

/* The next word of 'text', which it is taken off; empty at the end. */
static str next_word(str *text) {
    size_t begin = 0, end;
    while (begin < text->length && text->data[begin] == ' ') begin++;
    for (end = begin; end < text->length && text->data[end] != ' ';) end++;
    str word = {text->data + begin, end - begin};
    *text = (str){text->data + end, text->length - end};
    return word;
}

void text_wrap(text_buffer *buffer, int indent, int hanging, str text) {
    size_t used = 0;
    for (str word = next_word(&text); word.length; word = next_word(&text)) {
        size_t blanks = (size_t)(used ? hanging : indent);
        bool goes_on = used && used + 1 + word.length <= TEXT_LINE_MAX;
        if (used && !goes_on) text_add_z(buffer, "\n");
        text_repeat(buffer, ' ', goes_on ? 1 : blanks);
        text_add(buffer, word);
        used = goes_on ? used + 1 + word.length : blanks + word.length;
    }
    text_add_z(buffer, "\n");
}
