/* Quotation: passes write TL as text. */
#include "tl/parse.h"

#include <assert.h>

static tl_program *read_quotation(arena *memory, str text) {
    diag_list diags;
    diag_init(&diags, memory, STR("quotation"), text);
    tl_program *program = parse_quotation(memory, text, &diags);
    assert(!diag_has_errors(&diags) && "a quotation must be right");
    return program;
}

tl_block tl_quote(arena *memory, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    str text = str_format_list(memory, format, arguments);
    va_end(arguments);
    tl_program *program = read_quotation(memory, text);
    return program->first ? program->first->body : (tl_block){0};
}

tl_expr *tl_quote_expr(arena *memory, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    str text = str_format_list(memory, format, arguments);
    va_end(arguments);
    /* A condition is an expression, too; the brackets let both through. */
    tl_program *program =
        read_quotation(memory, str_format(memory, "let quoted = (%.*s)", STR_ARGS(text)));
    return program->first->body.first->let.items[0].value;
}
