/* Characters, words and numbers of PTX text. */
#include "emulate/ptx_read.h"

#include <string.h>

diag_range ptx_scan_here(const ptx_reader *r) {
    uint32_t at = (uint32_t)(r->at - r->begin);
    return (diag_range){at, at + 1};
}

void ptx_scan_stop(ptx_reader *r, const char *expected) {
    if (r->stopped) return;
    r->stopped = true;
    const char *end = r->at;
    while (end < r->end && end - r->at < 24 && *end > ' ' && *end < 127) end++;
    str found = r->at == r->end ? STR("the end of the text") : (str){r->at, (size_t)(end - r->at)};
    if (!found.length) found = STR("an odd character");
    ptx_read_error(r, DIAG_PTX_EXPECTED, ptx_scan_here(r), str_from(expected), found);
}

void ptx_scan_limit(ptx_reader *r, const char *what, int most) {
    if (r->stopped) return;
    r->stopped = true;
    ptx_read_error(r, DIAG_PTX_LIMIT, ptx_scan_here(r), str_from(what),
                   str_format(r->memory, "%d", most));
}

static void skip(ptx_reader *r) {
    while (r->at < r->end) {
        char c = *r->at;
        if (c == '\n') {
            r->line++;
            r->at++;
        } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
            r->at++;
        } else if (c == '/' && r->end - r->at > 1 && r->at[1] == '/') {
            while (r->at < r->end && *r->at != '\n') r->at++;
        } else if (c == '/' && r->end - r->at > 1 && r->at[1] == '*') {
            r->at += 2;
            while (r->at < r->end && !(*r->at == '*' && r->end - r->at > 1 && r->at[1] == '/'))
                if (*r->at++ == '\n') r->line++;
            r->at = r->end - r->at > 1 ? r->at + 2 : r->end;
        } else {
            return;
        }
    }
}

char ptx_scan_peek(ptx_reader *r) {
    skip(r);
    return r->at < r->end ? *r->at : '\0';
}

bool ptx_scan_take(ptx_reader *r, char c) {
    if (r->stopped || ptx_scan_peek(r) != c || r->at == r->end) return false;
    r->at++;
    return true;
}

bool ptx_scan_need(ptx_reader *r, char c) {
    if (ptx_scan_take(r, c)) return true;
    char expected[4] = {'\'', c, '\'', '\0'};
    ptx_scan_stop(r, expected);
    return false;
}

bool ptx_scan_is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%';
}

bool ptx_scan_is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* An identifier; with 'dots', also '.' and "::" inside: opcodes, special registers. */
str ptx_scan_word(ptx_reader *r, bool dots) {
    ptx_scan_peek(r);
    const char *begin = r->at;
    while (r->at < r->end) {
        char c = *r->at;
        bool inner = ptx_scan_is_letter(c) || ptx_scan_is_digit(c);
        if (!inner && dots) inner = c == '.' || c == ':';
        if (!inner) break;
        r->at++;
    }
    return (str){begin, (size_t)(r->at - begin)};
}

str ptx_scan_directive(ptx_reader *r) {
    if (ptx_scan_peek(r) != '.') return (str){r->at, 0};
    const char *begin = r->at++;
    while (r->at < r->end &&
           (ptx_scan_is_letter(*r->at) || ptx_scan_is_digit(*r->at) || *r->at == ':'))
        r->at++;
    return (str){begin, (size_t)(r->at - begin)};
}

static int digit_of(char c) {
    if (ptx_scan_is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return 99;
}

static uint64_t digits(ptx_reader *r, int base, int most) {
    uint64_t value = 0;
    for (int n = 0; n < most && r->at < r->end && digit_of(*r->at) < base; n++)
        value = value * (uint64_t)base + (uint64_t)digit_of(*r->at++);
    return value;
}

static uint64_t decimal(ptx_reader *r, ptx_literal *literal) {
    const char *begin = r->at;
    bool is_float = false;
    while (r->at < r->end) {
        char c = *r->at;
        bool exponent = (c == 'e' || c == 'E') && r->at > begin;
        bool sign =
            (c == '+' || c == '-') && r->at > begin && (r->at[-1] == 'e' || r->at[-1] == 'E');
        if (c == '.' || exponent) is_float = true;
        else if (!ptx_scan_is_digit(c) && !sign) break;
        r->at++;
    }
    str text = {begin, (size_t)(r->at - begin)};
    if (is_float) {
        double value = 0.0;
        uint64_t bits;
        str_to_number(text, &value);
        memcpy(&bits, &value, sizeof bits);
        *literal = PTX_LITERAL_F64;
        return bits;
    }
    uint64_t value = 0;
    for (size_t i = 0; i < text.length; i++) value = value * 10u + (uint64_t)(text.data[i] - '0');
    if (r->at < r->end && *r->at == 'U') r->at++;
    return value;
}

/* PTX ISA, "Constants": 0x, 0b, octal, decimal, 0fXXXXXXXX, 0dXXXXXXXXXXXXXXXX. */
uint64_t ptx_scan_number(ptx_reader *r, ptx_literal *literal) {
    *literal = PTX_LITERAL_INTEGER;
    bool negative = false, inverted = false;
    for (;; r->at++) {
        char c = ptx_scan_peek(r);
        if (c == '-') negative = !negative;
        else if (c == '~') inverted = !inverted;
        else if (c != '+') break;
        if (r->at == r->end) break;
    }
    if (!ptx_scan_is_digit(ptx_scan_peek(r))) {
        ptx_scan_stop(r, "a number");
        return 0;
    }
    uint64_t value;
    char kind = r->end - r->at > 1 && *r->at == '0' ? r->at[1] : '\0';
    if (kind == 'x' || kind == 'X') r->at += 2, value = digits(r, 16, 16);
    else if (kind == 'b' || kind == 'B') r->at += 2, value = digits(r, 2, 64);
    else if (kind == 'f' || kind == 'F')
        r->at += 2, value = digits(r, 16, 8), *literal = PTX_LITERAL_F32;
    else if (kind == 'd' || kind == 'D')
        r->at += 2, value = digits(r, 16, 16), *literal = PTX_LITERAL_F64;
    else if (ptx_scan_is_digit(kind)) value = digits(r, 8, 22);
    else value = decimal(r, literal);
    while (r->at < r->end && (*r->at == 'U' || *r->at == 'u' || *r->at == 'L')) r->at++;
    if (inverted) value = ~value;
    if (!negative) return value;
    if (*literal == PTX_LITERAL_F32) return value ^ 0x80000000u;
    if (*literal == PTX_LITERAL_F64) return value ^ 0x8000000000000000u;
    return 0u - value;
}

int32_t ptx_scan_small(ptx_reader *r) {
    ptx_literal literal;
    return (int32_t)(ptx_scan_number(r, &literal) & 0x7fffffffu);
}
