/* Mutations of whole programs: lines left out, doubled, moved and exchanged, names and numbers
 * exchanged. Bytes alone hardly ever make a program that the later stages see.
 */
#include "base/text.h"

#include <ctype.h>
#include <string.h>

enum { LINES_MAX = 512, TEXT_MAX = 1 << 16 };

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);

typedef struct mutation {
    str lines[LINES_MAX + 1];
    int count;
    uint64_t state;
} mutation;

static uint32_t draw(mutation *m, uint32_t below) {
    m->state ^= m->state << 13, m->state ^= m->state >> 7, m->state ^= m->state << 17;
    return below ? (uint32_t)(m->state >> 20) % below : 0;
}

static void split(mutation *m, str text) {
    while (text.length && m->count < LINES_MAX) m->lines[m->count++] = str_cut(&text, '\n');
}

static void move_lines(mutation *m) {
    uint32_t from = draw(m, (uint32_t)m->count), to = draw(m, (uint32_t)m->count);
    str line = m->lines[from];
    switch (draw(m, 4)) {
    case 0: /* left out */
        memmove(&m->lines[from], &m->lines[from + 1], sizeof(str) * ((size_t)m->count - from - 1));
        m->count--;
        return;
    case 1: /* doubled somewhere */
        if (m->count == LINES_MAX) return;
        memmove(&m->lines[to + 1], &m->lines[to], sizeof(str) * ((size_t)m->count - to));
        m->lines[to] = line;
        m->count++;
        return;
    default: m->lines[from] = m->lines[to]; m->lines[to] = line;
    }
}

static bool is_word(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '.';
}

/* The word that begins at or after a place of a text; empty: none. */
static str word_at(str text, size_t at) {
    while (at > 0 && at < text.length && is_word(text.data[at - 1])) at--;
    while (at < text.length && !is_word(text.data[at])) at++;
    size_t end = at;
    while (end < text.length && is_word(text.data[end])) end++;
    return (str){text.data + at, end - at};
}

/* Puts another word of the text, or an odd number, in a word's place. */
static size_t exchange_words(mutation *m, str text, char *out, size_t most) {
    static const char *const odd[] = {"0",        "1",    "2147483648", "9223372036854775807",
                                      "1e300",    "-1",   "0.0",        "L",
                                      "kv_len/0", "x % 0"};
    str old = word_at(text, draw(m, (uint32_t)text.length));
    str other = word_at(text, draw(m, (uint32_t)text.length));
    if (draw(m, 3) == 0) other = str_from(odd[draw(m, sizeof odd / sizeof *odd)]);
    size_t before = (size_t)(old.data - text.data), after = text.length - before - old.length;
    if (!old.length || before + other.length + after > most) return 0;
    memcpy(out, text.data, before);
    memcpy(out + before, other.data, other.length);
    memcpy(out + before + other.length, old.data + old.length, after);
    return before + other.length + after;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
    static char copy[TEXT_MAX], out[TEXT_MAX];
    mutation m = {.state = seed * 2654435761u + 88172645463325252u};
    if (size < 2 || size > TEXT_MAX || most > TEXT_MAX || draw(&m, 16) == 0)
        return LLVMFuzzerMutate(data, size, most);
    memcpy(copy, data, size);
    str text = {copy, size};
    size_t length = 0;
    if (draw(&m, 2)) {
        length = exchange_words(&m, text, out, most);
    } else {
        split(&m, text);
        if (m.count) move_lines(&m);
        for (int i = 0; i < m.count && length + m.lines[i].length + 1 <= most; i++) {
            memcpy(out + length, m.lines[i].data, m.lines[i].length);
            length += m.lines[i].length;
            out[length++] = '\n';
        }
    }
    if (!length) return LLVMFuzzerMutate(data, size, most);
    memcpy(data, out, length);
    return length;
}
