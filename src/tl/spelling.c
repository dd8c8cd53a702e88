/* Names as the reader takes them, made canonical. */
#include "tl/parse.h"

void spelling_settle(tl_program *program) {
    (void)program;
}
