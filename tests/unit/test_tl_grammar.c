/* The grammar's table against the parser: random sentences of it are read without an error. */
#include "base/os.h"
#include "tl/grammar.h"
#include "tl/tl.h"

#include <cmocka.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { RULES_MAX = 128, FAR = 1000 };

typedef struct writer {
    const grammar *g;
    int heights[RULES_MAX]; /* least nesting of a sentence of each rule */
    uint64_t state;
    text_buffer out;
    size_t line_begin;
} writer;

static unsigned pick(writer *w, unsigned count) {
    w->state = w->state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(w->state >> 33) % count;
}

static int height_of(const writer *w, const grammar_node *node) {
    int height = 0;
    switch (node->kind) {
    case GRAMMAR_RULE: return w->heights[node->rule] + 1;
    case GRAMMAR_SEQUENCE:
        for (int i = 0; i < node->count; i++) {
            int item = height_of(w, node->items[i]);
            if (item > height) height = item;
        }
        return height;
    case GRAMMAR_CHOICE:
        height = FAR;
        for (int i = 0; i < node->count; i++) {
            int item = height_of(w, node->items[i]);
            if (item < height) height = item;
        }
        return height;
    default: return 0;
    }
}

static void measure(writer *w) {
    for (int i = 0; i < w->g->count; i++) w->heights[i] = FAR;
    for (bool is_changing = true; is_changing;) {
        is_changing = false;
        for (int i = 0; i < w->g->count; i++) {
            int height = height_of(w, w->g->rules[i].body);
            is_changing |= height < w->heights[i];
            if (height < w->heights[i]) w->heights[i] = height;
        }
    }
}

static void write_token(writer *w, str token) {
    static const char *const names[] = {"Q",     "K_shared", "alpha", "m_old", "BN",
                                        "q_len", "x",        "T",     "rows",  "stages",
                                        "new",   "m16n8k16", "tma"};
    static const char *const integers[] = {"0", "1", "2", "64", "128", "2147483647"};
    static const char *const numbers[] = {"1e-30", "0.5", "1.44269504", "2.5E+3"};
    if (str_is(token, "NEWLINE")) {
        text_add_z(&w->out, pick(w, 8) ? "\n" : " // a comment\n\n");
        w->line_begin = w->out.length;
    } else if (str_is(token, "INTEGER")) text_add_z(&w->out, integers[pick(w, 6)]);
    else if (str_is(token, "NUMBER")) text_add_z(&w->out, numbers[pick(w, 4)]);
    else text_add_z(&w->out, names[pick(w, 13)]);
}

static void write_node(writer *w, const grammar_node *node, int depth) {
    bool is_deep = depth > 14 || w->out.length - w->line_begin > 500;
    switch (node->kind) {
    case GRAMMAR_WORD:
        text_add(&w->out, node->text);
        text_add_z(&w->out, " ");
        break;
    case GRAMMAR_TOKEN:
        write_token(w, node->text);
        if (!str_is(node->text, "NEWLINE")) text_add_z(&w->out, " ");
        break;
    case GRAMMAR_RULE: write_node(w, w->g->rules[node->rule].body, depth + 1); break;
    case GRAMMAR_SEQUENCE:
        for (int i = 0; i < node->count; i++) write_node(w, node->items[i], depth);
        break;
    case GRAMMAR_CHOICE: {
        const grammar_node *choice = node->items[pick(w, (unsigned)node->count)];
        for (int i = 0; is_deep && i < node->count; i++) {
            if (height_of(w, node->items[i]) < height_of(w, choice)) choice = node->items[i];
        }
        write_node(w, choice, depth);
        break;
    }
    case GRAMMAR_OPTION:
        if (!is_deep && pick(w, 2)) write_node(w, node->items[0], depth);
        break;
    case GRAMMAR_REPEAT:
        for (unsigned n = is_deep ? 0 : pick(w, 3); n; n--) write_node(w, node->items[0], depth);
        break;
    }
}

static str read_and_print(arena *memory, str source) {
    diag_list diags;
    diag_init(&diags, memory, STR("random"), source);
    tl_program *program = tl_parse(memory, STR("random"), source, &diags);
    text_buffer out;
    text_init(&out, 1 << 22);
    diag_render_text(&diags, false, &out);
    if (diags.error_count) fprintf(stderr, "%s", out.data);
    assert_int_equal(diags.error_count, 0);
    text_done(&out);
    tl_print(program, &out);
    str text = str_copy(memory, text_str(&out));
    text_done(&out);
    return text;
}

static void sentences_are_read(void **state) {
    (void)state;
    arena memory;
    arena_init(&memory, 1 << 20);
    grammar g = grammar_read(&memory);
    assert_in_range(g.count, 1, RULES_MAX);
    writer w = {.g = &g, .state = 20250612};
    measure(&w);
    for (int i = 0; i < g.count; i++) assert_in_range(w.heights[i], 0, FAR - 1);
    for (int n = 0; n < 1000; n++) {
        arena one;
        arena_init(&one, 1 << 26);
        text_init(&w.out, 1 << 20);
        w.line_begin = 0;
        text_add_z(&w.out, "kernel random\n");
        for (int i = 0; i < 10; i++) write_node(&w, g.rules[0].body, 0);
        str once = read_and_print(&one, text_str(&w.out));
        str again = read_and_print(&one, once);
        assert_string_equal(once.data, again.data);
        text_done(&w.out);
        arena_done(&one);
    }
    arena_done(&memory);
}

static void document_holds_the_grammar(void **state) {
    (void)state;
    text_buffer document, ebnf;
    os_error why;
    text_init(&document, 1 << 20);
    text_init(&ebnf, 1 << 20);
    assert_true(os_read_file(FLASHTL_SOURCE_FOLDER "/docs/language.md", 1 << 20, &document, &why));
    tl_grammar_print(TL_GRAMMAR_EBNF, &ebnf);
    char *begin = strstr(document.data, "```ebnf\n");
    assert_non_null(begin);
    begin += strlen("```ebnf\n");
    char *end = strstr(begin, "```");
    assert_non_null(end);
    *end = 0;
    assert_string_equal(begin, ebnf.data);
    text_done(&document);
    text_done(&ebnf);
}

static void exports_name_every_rule(void **state) {
    (void)state;
    arena memory;
    arena_init(&memory, 1 << 20);
    grammar g = grammar_read(&memory);
    for (int format = TL_GRAMMAR_EBNF; format <= TL_GRAMMAR_LARK; format++) {
        static const char *const signs[] = {" =", " ::=", ":"};
        text_buffer out;
        text_init(&out, 1 << 20);
        tl_grammar_print((tl_grammar_format)format, &out);
        assert_false(out.failed);
        for (int i = 0; i < g.count; i++) {
            char name[64];
            snprintf(name, sizeof name, "%.*s", STR_ARGS(g.rules[i].name));
            for (char *c = name; format == TL_GRAMMAR_GBNF && *c; c++) {
                if (*c == '_') *c = '-';
            }
            const char *found = out.data;
            size_t length = strlen(name);
            bool is_defined = false;
            for (; found && !is_defined; found = strchr(found, '\n'), found += found != NULL) {
                if (strncmp(found, name, length)) continue;
                const char *after = found + length;
                while (format == TL_GRAMMAR_EBNF && after[0] == ' ' && after[1] == ' ') after++;
                is_defined = !strncmp(after, signs[format], strlen(signs[format]));
            }
            assert_true(is_defined);
        }
        text_done(&out);
    }
    arena_done(&memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sentences_are_read),
        cmocka_unit_test(document_holds_the_grammar),
        cmocka_unit_test(exports_name_every_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
