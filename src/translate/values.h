/* Arithmetic on values of the emitted text. */
#ifndef FLASHTL_TRANSLATE_VALUES_H
#define FLASHTL_TRANSLATE_VALUES_H

#include "translate/emit.h"

/* How tightly C's operators bind: emit_value.precedence. A product is told from a quotient or
 * remainder, which bind alike: `a * (b * c)` needs no brackets, `a * (b / c)` does.
 */
enum {
    VALUES_OR = 4,
    VALUES_AND = 5,
    VALUES_EQUALITY = 8,
    VALUES_RELATION = 9,
    VALUES_SUM = 12,
    VALUES_QUOTIENT = 13,
    VALUES_PRODUCT = 14,
    VALUES_PREFIX = 15,
    VALUES_PRIMARY = 16
};

emit_value values_real(str text, int precedence);
/* Rounded up or down. Nothing is divided by 0. */
emit_value values_quotient(emit *t, emit_value a, emit_value b, bool up);
/* As floor rounds. */
emit_value values_modulo(emit *t, emit_value a, emit_value b);
emit_value values_extreme(emit *t, emit_value a, emit_value b, bool max);

#endif
