#define _POSIX_C_SOURCE 200809L /* newlocale */
#include "base/number.h"

#include <errno.h>
#include <limits.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

/* The locale "C" is built into the library: making it takes no memory and no lock. */
typedef struct plain_locale {
    locale_t plain, before;
} plain_locale;

static bool enter(plain_locale *l) {
    l->plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    l->before = l->plain ? uselocale(l->plain) : (locale_t)0;
    return l->plain != (locale_t)0;
}

static void leave(plain_locale *l) {
    uselocale(l->before);
    freelocale(l->plain);
}

/* Text of which the first 'bytes' are kept. */
typedef struct kept {
    char *out;
    size_t bytes, length;
} kept;

static void keep(kept *k, const char *data, size_t length) {
    size_t room = k->length < k->bytes ? k->bytes - k->length : 0;
    if (room && length) memcpy(k->out + k->length, data, length < room ? length : room);
    k->length += length;
}

static void keep_integer(kept *k, long long value) {
    char digits[24], *at = digits + sizeof digits;
    unsigned long long rest = (unsigned long long)value;
    if (value < 0) rest = 0 - rest;
    do *--at = (char)('0' + rest % 10);
    while (rest /= 10);
    if (value < 0) *--at = '-';
    keep(k, at, (size_t)(digits + sizeof digits - at));
}

/* Formats of %s, %.*s, %d, %lld and %% alone, which nearly all are: what these give depends on no
 * locale, and the C library takes several times as long. Negative where there is anything else.
 */
static int print_plainly(char *out, size_t bytes, const char *format, va_list arguments) {
    kept k = {out, bytes, 0};
    while (*format) {
        size_t length = strcspn(format, "%");
        keep(&k, format, length);
        const char *mark = format + length;
        if (!*mark) break;
        format = mark + 2;
        if (mark[1] == 's') {
            const char *text = va_arg(arguments, const char *);
            if (!text) return -1;
            keep(&k, text, strlen(text));
        } else if (mark[1] == 'd') {
            keep_integer(&k, va_arg(arguments, int));
        } else if (mark[1] == '%') {
            keep(&k, mark, 1);
        } else if (strncmp(mark, "%.*s", 4) == 0) {
            int most = va_arg(arguments, int);
            const char *text = va_arg(arguments, const char *);
            if (most < 0) return -1;
            if (most) keep(&k, text, strnlen(text, (size_t)most));
            format = mark + 4;
        } else if (strncmp(mark, "%lld", 4) == 0) {
            keep_integer(&k, va_arg(arguments, long long));
            format = mark + 4;
        } else {
            return -1;
        }
    }
    if (k.length > INT_MAX) return -1;
    if (bytes) out[k.length < bytes ? k.length : bytes - 1] = 0;
    return (int)k.length;
}

int number_print_list(char *out, size_t bytes, const char *format, va_list arguments) {
    plain_locale l;
    va_list again;
    va_copy(again, arguments);
    int plain = print_plainly(out, bytes, format, again);
    va_end(again);
    if (plain >= 0) return plain;
    if (bytes) *out = 0;
    if (!enter(&l)) return -1;
    int length = vsnprintf(out, bytes, format, arguments);
    leave(&l);
    return length;
}

int number_print(char *out, size_t bytes, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = number_print_list(out, bytes, format, arguments);
    va_end(arguments);
    return length;
}

int number_write(FILE *file, const char *format, ...) {
    plain_locale l;
    va_list arguments;
    if (!enter(&l)) return -1;
    va_start(arguments, format);
    int length = vfprintf(file, format, arguments);
    va_end(arguments);
    leave(&l);
    return length;
}

bool number_read(const char *text, double *value) {
    plain_locale l;
    char *end;
    if (*text == 0 || *text == ' ' || (*text >= '\t' && *text <= '\r') || !enter(&l)) return false;
    errno = 0;
    double parsed = strtod(text, &end);
    bool fits = !(errno == ERANGE && (parsed > 1 || parsed < -1));
    leave(&l);
    if (*end || !fits) return false;
    *value = parsed;
    return true;
}
