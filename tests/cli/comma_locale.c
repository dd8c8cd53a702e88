/* Preloaded into the command: what a program does that speaks its user's language. */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((constructor)) static void begin(void) {
    char text[16];
    setlocale(LC_ALL, "de_DE.UTF-8");
    snprintf(text, sizeof text, "%.1f", 0.5);
    if (strcmp(text, "0,5") != 0) fputs("comma_locale: numbers have no commas\n", stderr);
}
