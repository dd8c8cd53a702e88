/* Quotation: passes write TL as text. */
#include "tl/parse.h"

/* What a pass quotes is made of what was read before, and right. Were it not, nothing of it may get
 * through: a name that nobody knows is refused when the reasoner's text is read back.
 */
static tl_program *read_quotation(arena *memory, str text, const char *otherwise) {
    diag_list diags;
    diag_init(&diags, memory, STR("quotation"), text);
    tl_program *program = parse_quotation(memory, text, &diags);
    if (!diag_has_errors(&diags)) return program;
    text = str_from(otherwise);
    diag_init(&diags, memory, STR("quotation"), text);
    return parse_quotation(memory, text, &diags);
}

tl_block tl_quote_list(arena *memory, const char *format, va_list arguments) {
    str text = str_format_list(memory, format, arguments);
    tl_program *program = read_quotation(memory, text, "Wait quotation_that_cannot_be_read\n");
    return program->first ? program->first->body : (tl_block){0};
}

tl_block tl_quote(arena *memory, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    tl_block block = tl_quote_list(memory, format, arguments);
    va_end(arguments);
    return block;
}

tl_expr *tl_quote_expr(arena *memory, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    str text = str_format_list(memory, format, arguments);
    va_end(arguments);
    /* A condition is an expression, too; the brackets let both through. */
    tl_program *program =
        read_quotation(memory, str_format(memory, "let quoted = (%.*s)", STR_ARGS(text)),
                       "let quoted = quotation_that_cannot_be_read\n");
    return program->first->body.first->let.items[0].value;
}

tl_expr *tl_name_expr(arena *memory, str name) {
    tl_expr *e = arena_new(memory, tl_expr);
    e->kind = TL_NAME;
    e->text = name;
    return e;
}
