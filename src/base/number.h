/* Numbers as text, the same in every locale: a program that called setlocale still gets points, not
 * commas. The one home of the C library's printing and reading of real numbers; tools/layers.py
 * keeps it so. Safe from several threads: the locale is set for the calling thread alone, and put
 * back.
 */
#ifndef FLASHTL_BASE_NUMBER_H
#define FLASHTL_BASE_NUMBER_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* snprintf, vsnprintf and fprintf; negative where they fail. */
int number_print(char *out, size_t bytes, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int number_print_list(char *out, size_t bytes, const char *format, va_list arguments)
    __attribute__((format(printf, 3, 0)));
int number_write(FILE *file, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Reads all of 'text', which begins with no blank; false when that is no number, or does not fit.
 * What is too small to be told from 0 becomes that.
 */
bool number_read(const char *text, double *value);

/* The bits that hold it. */
static inline uint64_t number_bits(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline double number_of_bits(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

#endif
