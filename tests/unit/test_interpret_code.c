/* TL Code: the study's programs on small tiles, and what happens when one statement is missing. */
#include "interpret_case.h"

typedef struct code_program {
    const char *file, *sizes; /* the `let` that fixes the tile sizes */
} code_program;

static const code_program programs[] = {
    {"attention_a100", "let d = 128, dv = 128, BM = 128, BN = 64"},
    {"attention_t4", "let d = 128, dv = 128, BM = 64, BN = 64"},
    {"attention_h200", "let d = 128, dv = 128, BM = 128, BN = 128"},
    {"attention_h200_flat", "let d = 128, dv = 128, BM = 128, BN = 128"},
};
enum { PROGRAM_COUNT = 4 };

/* The program's text with other sizes; the caller frees. */
static char *with_sizes(const code_program *program, const char *sizes) {
    text_buffer file;
    str source = case_file(program->file, &file);
    const char *at = strstr(source.data, program->sizes);
    assert_non_null(at);
    size_t room = source.length + strlen(sizes) + 1;
    char *text = malloc(room);
    snprintf(text, room, "%.*s%s%s", (int)(at - source.data), source.data, sizes,
             at + strlen(program->sizes));
    text_done(&file);
    return text;
}

#define SIZES "let d = 16, dv = 8, BM = 8, BN = 4"

static const attention_case cases[] = {
    CASE(1, 1, 1, 8, 4, 16, 8, true),   CASE(1, 1, 1, 3, 5, 16, 8, true),
    CASE(2, 4, 2, 13, 21, 16, 8, true), CASE(1, 6, 1, 1, 9, 16, 8, true),
    CASE(1, 2, 2, 21, 6, 16, 8, true), /* q longer than kv: rows that see nothing */
    CASE(1, 1, 1, 16, 40, 16, 8, true), CASE(1, 2, 1, 9, 0, 16, 8, true),
    CASE(1, 1, 1, 0, 7, 16, 8, true),   CASE(0, 1, 1, 4, 7, 16, 8, true),
    CASE(1, 2, 1, 25, 25, 16, 8, true),
};
enum { CASE_COUNT = sizeof cases / sizeof *cases };

static void programs_agree(void **state) {
    (void)state;
    for (int p = 0; p < PROGRAM_COUNT; p++) {
        char *text = with_sizes(&programs[p], SIZES);
        for (int i = 0; i < CASE_COUNT; i++) {
            for (int rounded = 0; rounded < 2; rounded++) {
                attention_case c = cases[i];
                case_make(&c);
                interpret_mode mode = rounded ? INTERPRET_ROUNDED : INTERPRET_EXACT;
                int findings = case_run(&c, str_from(text), mode, true);
                /* log2 of e stands in the text with nine digits */
                double tolerance = rounded ? 1e-3 : 1e-7;
                bool is_right = findings == 0 && case_error(&c) <= tolerance;
                if (!is_right)
                    fprintf(stderr, "%s, case %d: %g\n", programs[p].file, i, case_error(&c));
                assert_true(is_right);
                bool has_lse = strstr(text, "Output lse") != NULL;
                assert_true(!has_lse || case_lse_error(&c) <= (rounded ? 1e-3 : 1e-6));
                case_done(&c);
            }
        }
        free(text);
    }
}

/* As they stand, with tiles of 64 and 128. */
static void full_sizes(void **state) {
    (void)state;
    for (int p = 0; p < PROGRAM_COUNT; p++) {
        attention_case c = CASE(1, 2, 1, 150, 277, 128, 128, true);
        case_make(&c);
        text_buffer file;
        str source = case_file(programs[p].file, &file);
        assert_int_equal(case_run(&c, source, INTERPRET_ROUNDED, true), 0);
        assert_true(case_error(&c) <= 1e-3);
        text_done(&file);
        case_done(&c);
    }
}

/* Each Wait, Release and Reshape is taken out in turn. None may go unnoticed. */
static void every_statement_is_needed(void **state) {
    (void)state;
    int tried = 0;
    for (int p = 0; p < PROGRAM_COUNT; p++) {
        char *text = with_sizes(&programs[p], SIZES);
        for (char *line = text; line; line = strchr(line, '\n')) {
            if (*line == '\n') line++;
            const char *word = line + strspn(line, " ");
            bool is_one = !strncmp(word, "Wait ", 5) || !strncmp(word, "Release ", 8) ||
                          !strncmp(word, "Reshape ", 8);
            if (!is_one) continue;
            char *begin = line + (word - line), saved[2] = {begin[0], begin[1]};
            memcpy(begin, "//", 2);
            /* Many blocks of keys, and a single one. */
            attention_case tried_on[] = {CASE(1, 2, 1, 25, 37, 16, 8, true),
                                         CASE(1, 2, 1, 25, 3, 16, 8, true)};
            int findings = 0;
            for (int i = 0; i < 2; i++) {
                case_make(&tried_on[i]);
                findings += case_run(&tried_on[i], str_from(text), INTERPRET_EXACT, false);
                case_done(&tried_on[i]);
            }
            memcpy(begin, saved, 2);
            if (!findings) {
                fprintf(stderr, "%s: not noticed: %.60s\n", programs[p].file, word);
            }
            assert_true(findings > 0);
            tried++;
        }
        free(text);
    }
    assert_in_range(tried, 40, 120);
}

/* --- single findings -------------------------------------------------------------------------- */

/* Replaces the n-th occurrence of 'from' in the program (counted from 0) and expects one finding.
 */
static void assert_finding(int program, const char *from, int n, const char *to, const char *id) {
    char *text = with_sizes(&programs[program], SIZES), *at = text;
    for (int i = 0; i <= n; i++) {
        at = strstr(i ? at + 1 : at, from);
        assert_non_null(at);
    }
    size_t room = strlen(text) + strlen(to) + 1;
    char *changed = malloc(room);
    snprintf(changed, room, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    attention_case c = CASE(1, 2, 1, 25, 37, 16, 8, true);
    case_make(&c);
    tl_text t;
    if (text_read(&t, str_from(changed))) case_run_kernel(&c, &t, INTERPRET_EXACT);
    bool is_right = t.diags.first && !strcmp(diag_id_name(t.diags.first->id), id);
    if (!is_right) {
        fprintf(stderr, "%s: '%s' as '%s'\n", programs[program].file, from, to);
        text_show(&t);
    }
    assert_true(is_right);
    arena_done(&t.memory);
    case_done(&c);
    free(text);
    free(changed);
}

static void findings_name_the_cause(void **state) {
    (void)state;
    enum { A100, T4, H200 };
    assert_finding(A100, "Wait K_shared", 0, "//", "INTERPRET_READ_EARLY");
    assert_finding(A100, "Wait V_shared", 0, "//", "INTERPRET_READ_EARLY");
    assert_finding(A100, "Release K_shared", 0, "//", "INTERPRET_DEADLOCK");
    assert_finding(A100, "Release O_shared", 0, "//", "INTERPRET_LEFT_OVER");
    assert_finding(A100, "Reshape P from", 0, "//", "INTERPRET_LAYOUT");
    assert_finding(A100, "Reshape l from", 0, "//", "INTERPRET_PARTIAL");
    assert_finding(A100, "Compute Fill 0 and get l", 0, "//", "INTERPRET_POISON");
    assert_finding(A100, "Compute Fill 0 and get l", 0, "Compute Fill 1 and get l",
                   "INTERPRET_PARTIAL");
    assert_finding(A100, "K_shared.T", 0, "K_shared", "PRODUCT_CONTRACTS");
    assert_finding(A100, "L = q_block, L = j]", 0, "L = q_block, L = j + 1]", "INTERPRET_PLACE");
    /* V of a block too early: found by where it lies, not by its values */
    assert_finding(A100, "Copy V (BN, dv) in coordinate [b, head/group, L = j + 1]", 0,
                   "Copy V (BN, dv) in coordinate [b, head/group, L = j]", "INTERPRET_ORIGIN");
    assert_finding(A100, "Copy O (BM, dv) in coordinate [b, head, L = q_block]", 0,
                   "Copy O (BM, dv) in coordinate [b, head, L = 0]", "INTERPRET_ORIGIN");
    /* outside of an axis that is no tile's: nothing clips it */
    assert_finding(A100, "Copy K (BN, d) in coordinate [b, head/group,", 0,
                   "Copy K (BN, d) in coordinate [b, head,", "INTERPRET_OUTSIDE");
    assert_finding(A100, "Copy K (BN, d) in coordinate [b, head/group,", 1,
                   "Copy K (BN, d) in coordinate [head, head/group,", "INTERPRET_OUTSIDE");
    assert_finding(A100, "Copy O (BM, dv) in coordinate [b, head,", 0,
                   "Copy O (BM, dv) in coordinate [b, head + 1,", "INTERPRET_OUTSIDE");
    assert_finding(H200, "Release tensor", 0, "//", "INTERPRET_HELD_ALREADY");
    assert_finding(H200, "Wait S", 0, "//", "INTERPRET_STILL_READ");
    assert_finding(H200, "Wait O_register", 1, "//", "INTERPRET_STILL_READ");
    assert_finding(H200, "Wait O_global", 0, "//", "INTERPRET_STILL_READ");
    assert_finding(H200, "Wait tensor", 0, "//", "INTERPRET_NOT_HELD");
    assert_finding(T4, "Copy V from register to shared", 0, "//", "INTERPRET_DEADLOCK");
    assert_finding(T4, "Release Q_shared", 0, "//", "INTERPRET_DEADLOCK");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_agree),
        cmocka_unit_test(full_sizes),
        cmocka_unit_test(every_statement_is_needed),
        cmocka_unit_test(findings_name_the_cause),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
