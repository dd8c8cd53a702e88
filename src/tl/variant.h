/* Families of sketches in one file: lines that are only with an option, or only without it.
 *
 *     //? window N: a query sees N keys, its own and those before it        (declares an option)
 *     //? never latent, not page_len: 'latent' needs 'page_len'             (refuses both)
 *     //? op mqa: one key head for all query heads                          (and one that is an
 * operator) let window = 128                                     //? window       (kept with the
 * option) Compute Softmax S                                    //? not lse      (kept without it)
 *     Input V (...)                                        //? not mha, not mqa
 *
 * An option with a value is bound by a `let` of its own name, whose value is replaced, among
 * others in its statement or alone. The marks
 * are comments, so such a file is a TL text, but a sketch only after tl_variant_select.
 */
#ifndef FLASHTL_TL_VARIANT_H
#define FLASHTL_TL_VARIANT_H

#include "base/text.h"

typedef struct tl_variant_option {
    str name;
    str value; /* how help calls its value ("N"); empty: the option has none */
    str doc;
    bool is_operator; /* chosen by --op NAME */
} tl_variant_option;

typedef struct tl_variant_choice {
    str name;
    str value; /* a number; empty: none given, the file's own stays */
} tl_variant_choice;

/* The options a file declares, in its order; slices of 'text' in an array of 'memory'. */
int tl_variant_options(arena *memory, str text, tl_variant_option **options);

/* The text with the chosen options, marks removed. False, with one sentence in *why, when an option
 * is unknown, has a value it should not have or one that is no number, when no line of the operator
 * goes by it, when what is chosen is declared as never together, or when the file uses an option it
 * does not declare. Results live in 'memory'.
 */
bool tl_variant_select(arena *memory, str text, const tl_variant_choice *choices, int count,
                       str *selected, str *why);

#endif
