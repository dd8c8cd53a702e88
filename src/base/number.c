#define _POSIX_C_SOURCE 200809L /* newlocale */
#include "base/number.h"

#include <errno.h>
#include <locale.h>
#include <stdlib.h>

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

int number_print_list(char *out, size_t bytes, const char *format, va_list arguments) {
    plain_locale l;
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

int number_write_list(FILE *file, const char *format, va_list arguments) {
    plain_locale l;
    if (!enter(&l)) return -1;
    int length = vfprintf(file, format, arguments);
    leave(&l);
    return length;
}

int number_write(FILE *file, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = number_write_list(file, format, arguments);
    va_end(arguments);
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
