/* Each row of instructions.def is read in each of its forms as what it says, and by no row before.
 */
#include "emulate/ptx.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct {
    const char *spelling;
    bool is_known, is_decoded; /* UNKNOWN; DECODER, which has no forms */
    int kind, operation;
    const char *operands;
} rows[] = {
#define INSTRUCTION(spelling, kind, operation, operands)                                           \
    {spelling, true, false, PTX_##kind, operation, operands},
#define DECODER(spelling, function) {spelling, true, true, 0, 0, ""},
#define UNKNOWN(spelling) {spelling, false, false, 0, 0, "..."},
#include "emulate/instructions.def"
#undef INSTRUCTION
#undef DECODER
#undef UNKNOWN
};

/* "cp.async.bulk.im2col*" is spelled cp.async.bulk.im2col_x; a type is u32. */
static void add_opcode(text_buffer *text, str head, str words) {
    text_add(text, head);
    while (words.length) {
        str word = str_cut(&words, '.');
        bool is_beginning = str_ends(word, STR("*")), is_type = word.data[0] == 'T';
        word.length -= is_beginning;
        text_format(text, ".%.*s%s", STR_ARGS(is_type ? STR("u32") : word),
                    is_beginning ? "_x" : "");
    }
}

static const char *operand_text(str name) {
    static const struct {
        const char *name, *text;
    } kinds[] = {
        {"d|p", "%r9|%p1"}, {"d8", "%d3"},    {"a8", "%d1"},    {"b8", "%d2"},
        {"[a]", "[raw]"},   {"{d}", "{%r4}"}, {"{a}", "{%r4}"}, {"#", "4"},
        {"#8", "7"},        {"p", "%p1"},     {"q", "!%p2"},    {"r", "!%p3"},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (str_is(name, kinds[i].name)) return kinds[i].text;
    return name.data[0] == 'd' ? "%r9" : "%r1";
}

static emulate_module *read_statement(arena *memory, str head, str words, str form,
                                      text_buffer *text, text_buffer *report) {
    text_init_in(text, memory);
    text_add_z(text, ".version 8.0\n.target sm_90a\n.address_size 64\n"
                     ".extern .shared .align 16 .b8 raw[];\n.entry k() {\n"
                     ".reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %d<8>;\n");
    add_opcode(text, head, words);
    for (const char *before = " "; form.length && form.data[0] != '.'; before = ", ")
        text_format(text, "%s%s", before, operand_text(str_cut(&form, ' ')));
    text_add_z(text, ";\nret;\n}\n");
    diag_list diagnostics;
    diag_init(&diagnostics, memory, STR("row.ptx"), text_str(text));
    emulate_module *module = emulate_read(memory, text_str(text), &diagnostics);
    text_init_in(report, memory);
    diag_render_text(&diagnostics, false, report);
    return module;
}

static void check_row(size_t row, str head, str words, str form) {
    arena memory;
    text_buffer text, report;
    arena_init(&memory, 64u << 20);
    const emulate_module *module = read_statement(&memory, head, words, form, &text, &report);
    const char *said = report.data ? report.data : "";
    if (!rows[row].is_known) {
        if (module || !strstr(said, "does not know the instruction"))
            fail_msg("%s is read, or refused otherwise: %s", rows[row].spelling, said);
    } else {
        if (!module) fail_msg("%s: %s", rows[row].spelling, said);
        const ptx_instruction *i = &module->entries.items[0].code.items[0];
        if (i->kind != rows[row].kind || i->operation != rows[row].operation)
            fail_msg("%s: kind %d, operation %d", text.data, i->kind, i->operation);
    }
    arena_done(&memory);
}

static void rows_are_read(void **state) {
    (void)state;
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        str words = str_from(rows[row].spelling), heads = str_cut(&words, '.');
        while (heads.length && !rows[row].is_decoded) {
            str head = str_cut(&heads, '|'), forms = str_from(rows[row].operands);
            while (forms.length) check_row(row, head, words, str_cut(&forms, '/'));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_are_read)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
