/* Names, kinds of division, constants and axes. */
#include "base/os.h"
#include "tl/names.h"
#include "tl/tl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

typedef struct bound {
    arena memory;
    diag_list diags;
    tl_program *program;
    text_buffer source;
} bound;

static void bind(bound *b, str source) {
    arena_init(&b->memory, 1 << 27);
    diag_init(&b->diags, &b->memory, STR("test.tl"), source);
    b->program = tl_parse(&b->memory, STR("test.tl"), source, &b->diags);
    if (!tl_bind(b->program, &b->diags)) return;
    for (tl_kernel *k = b->program->first; k; k = k->next) {
        tl_infer_axes(k, &b->memory, &b->diags);
    }
}

static void done(bound *b) {
    arena_done(&b->memory);
}

static void show(const bound *b) {
    text_buffer out;
    text_init(&out, 1 << 20);
    diag_render_text(&b->diags, false, &out);
    if (out.data) fprintf(stderr, "%s", out.data);
    text_done(&out);
}

static void assert_binds(bound *b, const char *source) {
    bind(b, str_from(source));
    if (b->diags.error_count) show(b);
    assert_int_equal(b->diags.error_count, 0);
}

/* The text has exactly one error, this one; and, unless NULL, a hint that says 'hint'. */
static void assert_error(const char *source, diag_id id, const char *message, const char *hint) {
    bound b;
    bind(&b, str_from(source));
    if (b.diags.error_count != 1) show(&b);
    assert_int_equal(b.diags.error_count, 1);
    assert_string_equal(diag_id_name(b.diags.first->id), diag_id_name(id));
    assert_string_equal(str_copy_z(&b.memory, b.diags.first->message), message);
    const diag *found = b.diags.first->attached;
    while (hint && found && !str_is(found->message, hint)) found = found->next;
    if (hint && !found) show(&b);
    assert_true(!hint || found);
    done(&b);
}

/* --- programs --------------------------------------------------------------------------------- */

static void bind_file(const char *name, void (*look)(const bound *b)) {
    char path[512];
    snprintf(path, sizeof path, "%s/tests/golden/tl/%s.tl", FLASHTL_SOURCE_FOLDER, name);
    bound b;
    os_error why;
    text_init(&b.source, 1 << 20);
    assert_true(os_read_file(path, 1 << 20, &b.source, &why));
    bind(&b, text_str(&b.source));
    if (b.diags.error_count) show(&b);
    assert_int_equal(b.diags.error_count, 0);
    /* Binding respells nothing in a canonical text. */
    text_buffer printed;
    text_init(&printed, 1 << 20);
    tl_print(b.program, &printed);
    assert_string_equal(printed.data, b.source.data);
    text_done(&printed);
    if (look) look(&b);
    done(&b);
    text_done(&b.source);
}

static const char *axes_text(char text[128], const tl_tile *tile) {
    text[0] = '\0';
    for (int i = 0; i < tile->axis_count; i++) {
        str index = tile->axes[i].index;
        const tl_expr *e = tile->axes[i].extent;
        size_t used = strlen(text);
        snprintf(text + used, 128 - used, "%s%.*s:%.*s", i ? " " : "", STR_ARGS(index),
                 STR_ARGS(e && e->kind == TL_NAME ? e->text : STR("?")));
    }
    return text;
}

static void assert_tile(const bound *b, const char *name, tl_space space, const char *axes) {
    char text[128];
    tl_symbol *symbol = tl_find_symbol(b->program->first, str_from(name));
    assert_non_null(symbol);
    const tl_tile *tile = space == TL_SHARED ? &symbol->shared : &symbol->in_register;
    assert_true(tile->exists);
    assert_string_equal(axes_text(text, tile), axes);
}

static void look_at_sketch(const bound *b) {
    assert_tile(b, "Q", TL_SHARED, "q:? d:?");
    assert_tile(b, "K", TL_SHARED, "kv:? d:?");
    assert_tile(b, "S", TL_REGISTER, "q:? kv:?");
    assert_tile(b, "O", TL_REGISTER, "q:? dv:?");
    assert_int_equal(tl_find_symbol(b->program->first, STR("BN"))->kind, TL_SYMBOL_OPEN);
    assert_int_equal(tl_find_symbol(b->program->first, STR("d"))->kind, TL_SYMBOL_SIZE);
    assert_true(tl_is_sketch(b->program->first));
}

static void look_at_code(const bound *b) {
    assert_tile(b, "Q", TL_SHARED, "q:BM d:d");
    assert_tile(b, "S", TL_REGISTER, "q:BM kv:BN");
    assert_tile(b, "m", TL_REGISTER, "q:BM");
    assert_tile(b, "m_old", TL_REGISTER, "q:BM");
    assert_tile(b, "l", TL_REGISTER, "q:BM");
    assert_tile(b, "O", TL_SHARED, "q:BM dv:dv");
    assert_tile(b, "O", TL_REGISTER, "q:BM dv:dv");
    assert_false(tl_is_sketch(b->program->first));
    tl_symbol *d = tl_find_symbol(b->program->first, STR("d"));
    assert_true(d->kind == TL_SYMBOL_CONSTANT && d->is_known && d->integer == 128);
    tl_symbol *blocks = tl_find_symbol(b->program->first, STR("blocks"));
    assert_true(blocks->is_index_like && !blocks->is_known);
}

static void look_at_mla(const bound *b) {
    assert_tile(b, "V1", TL_SHARED, "kv:BN e:half");
    assert_tile(b, "V2", TL_SHARED, "kv:BN e:half");
    assert_tile(b, "alpha", TL_SHARED, "r:BM");
    tl_symbol *alpha = tl_find_symbol(b->program->first, STR("alpha"));
    assert_non_null(alpha->other_roles);
    assert_true(str_is(alpha->other_roles->role->role.name, "right"));
    assert_ptr_equal(alpha->other_roles->variable, alpha);
    tl_symbol *view = tl_find_symbol(b->program->first, STR("V1"));
    assert_true(str_is(view->view_base->name, "C"));
    assert_ptr_equal(view->shared.part_of, view->view_base);
    /* In each role alpha_register is that role's own tile, alpha_shared the one of all. */
    int own_count = 0;
    for (tl_statement *s = b->program->first->body.first; s; s = tl_next(s, NULL)) {
        if (s->kind != TL_COPY || !str_is(s->copy.what->text, "alpha")) continue;
        tl_end from = tl_copy_source(s), to = tl_copy_target(s);
        assert_ptr_equal(s->copy.what->symbol, alpha);
        if (str_is(tl_role_of(s)->role.name, "left")) {
            assert_ptr_equal(from.tile, &alpha->in_register);
            assert_ptr_equal(to.tile, &alpha->shared);
        } else {
            assert_ptr_equal(to.tile, &alpha->other_roles->in_register);
            own_count++;
        }
    }
    assert_int_equal(own_count, 1);
}

static void look_at_paged(const bound *b) {
    tl_symbol *input = tl_find_symbol(b->program->first->next, STR("O_part"));
    tl_symbol *output = tl_find_symbol(b->program->first, STR("O_part"));
    assert_true(input->is_workspace && output->is_workspace);
    assert_ptr_equal(input->produced_by, output);
    tl_symbol *kv_len = tl_find_symbol(b->program->first, STR("kv_len"));
    assert_true(kv_len->is_extent && !kv_len->is_index_like);
}

static void programs_bind(void **state) {
    (void)state;
    bind_file("sketch_attention", look_at_sketch);
    bind_file("attention_a100", look_at_code);
    bind_file("attention_t4", NULL);
    bind_file("attention_h200", look_at_code);
    bind_file("mla_decode", look_at_mla);
    bind_file("paged_decode", look_at_paged);
}

/* --- values ----------------------------------------------------------------------------------- */

static bool sizes(void *context, const tl_expr *e, tl_value *value) {
    (void)context;
    *value = (tl_value){0};
    if (str_is(e->text, "n")) value->integer = 7;
    else if (str_is(e->text, "i")) value->integer = -3;
    else if (str_is(e->text, "x")) *value = (tl_value){.is_real = true, .real = 2.5};
    else if (e->kind == TL_ELEMENT) value->integer = 9;
    else return false;
    return true;
}

/* Evaluates 'text' as the value of a let in a grid of index i, with n = 7, i = -3, x = 2.5. */
static tl_value value_of(const char *text) {
    char source[512];
    snprintf(source, sizeof source,
             "kernel k\nInput A f16 (a in n, b in n)\nInput T i32 (t in n)\nInput x f32\n"
             "grid i in n\nlet size = 4\nlet result = %s\n",
             text);
    bound b;
    assert_binds(&b, source);
    const tl_symbol *result = tl_find_symbol(b.program->first, STR("result"));
    tl_value value;
    assert_true(tl_evaluate(result->value, sizes, NULL, &value));
    done(&b);
    return value;
}

static void assert_integer(const char *text, int64_t expected) {
    tl_value value = value_of(text);
    assert_false(value.is_real);
    assert_int_equal(value.integer, expected);
}

static void assert_real(const char *text, double expected) {
    tl_value value = value_of(text);
    assert_true(value.is_real);
    assert_true(value.real == expected);
}

static int asked_for_n;

static bool count_n(void *context, const tl_expr *e, tl_value *value) {
    (void)context;
    asked_for_n += e->symbol && str_is(e->symbol->name, "n");
    *value = (tl_value){.integer = 7};
    return e->symbol && str_is(e->symbol->name, "n");
}

/* What a let comes to is worked out once, until it is forgotten. */
static void values_of_names_are_kept(void **state) {
    (void)state;
    bound b;
    assert_binds(&b, "kernel k\nInput A f16 (a in n)\ngrid i in n\nlet twice = 2*n\n"
                     "let sum = twice + i\nlet lost = sum + missing\n"
                     "Input missing i32\n");
    const tl_kernel *kernel = b.program->first;
    const tl_symbol *i = tl_find_symbol(kernel, STR("i"));
    const tl_symbol *twice = tl_find_symbol(kernel, STR("twice"));
    const tl_expr *sum = tl_find_symbol(kernel, STR("sum"))->value;
    const tl_expr *lost = tl_find_symbol(kernel, STR("lost"))->value;
    tl_values values = tl_values_new(&b.memory, kernel, count_n, NULL);
    int64_t value = 0;
    asked_for_n = 0;
    assert_false(tl_values_integer(&values, sum, &value)); /* nobody knows i */
    tl_values_set(&values, i, 3);
    assert_true(tl_values_integer(&values, sum, &value));
    assert_int_equal(value, 17);
    tl_values_set(&values, i, 4);
    assert_true(tl_values_integer(&values, sum, &value));
    assert_int_equal(value, 18);
    assert_int_equal(asked_for_n, 1);
    tl_values_set(&values, twice, 1);
    assert_true(tl_values_integer(&values, sum, &value));
    assert_int_equal(value, 5);
    tl_values_forget(&values, twice);
    assert_true(tl_values_integer(&values, sum, &value));
    assert_int_equal(value, 18);
    assert_false(tl_values_integer(&values, lost, &value));
    done(&b);
}

static void division_goes_by_kind(void **state) {
    (void)state;
    assert_integer("n/4", 2);
    assert_integer("n/size", 2);
    assert_integer("floor(n/4)", 1);
    assert_integer("i/2", -2);
    assert_integer("ceil(i/2)", -1);
    assert_integer("(n + i)/3", 1);
    assert_integer("T[i]/2", 4);
    assert_integer("i % 2", 1);
    assert_integer("-7 % 4", 1);
    assert_integer("7 % -4", -1);
    assert_real("n/x", 2.8);
    assert_real("1/2.0", 0.5);
    assert_integer("ceil(n/x)", 3);
    assert_integer("ceil(n/2/2)", 2);
    assert_integer("max(1, ceil(min(n, (i + 1)*4 + 20)/4))", 2);
    assert_integer("(n > 6 and not i > 0 or 1 > 2)", 1);
    assert_integer("select(i < 0, n, 1)", 7);
    assert_real("max(n, x)", 7);
    assert_real("exp2(size)", 16);
}

static void bad_values_have_none(void **state) {
    (void)state;
    bound b;
    assert_binds(&b,
                 "kernel k\nlet a = (-9223372036854775807 - 1)/(-1), b = 9223372036854775807 + 1, "
                 "c = 4611686018427387904*2, d = a*2, e = -7/2\n");
    const char *const names[] = {"a", "b", "c", "d"};
    for (int i = 0; i < 4; i++) {
        assert_false(tl_find_symbol(b.program->first, str_from(names[i]))->is_known);
    }
    const tl_symbol *e = tl_find_symbol(b.program->first, STR("e"));
    assert_true(e->is_known && e->is_integer && e->integer == -3);
    done(&b);
}

/* --- what can't be ---------------------------------------------------------------------------- */

#define HEAD                                                                                       \
    "Input Q f16 (b in batch; q in q_len, d)\nInput K f16 (b in batch; kv in kv_len, d)\n"         \
    "Input V f16 (b in batch; kv in kv_len, dv)\nOutput O f16 (b in batch; q in q_len, dv)\n"
#define LOADS                                                                                      \
    "Copy Q from global to shared\nfor j = 0:kv_len/BN\nCopy K from global to shared\n"            \
    "Copy V from global to shared\n"

static void names_that_are_wrong(void **state) {
    (void)state;
    assert_error(HEAD LOADS "Compute GEMM Q, k2.T and get S\nend\n", DIAG_NAME_UNDEFINED,
                 "nothing is called 'k2'", NULL);
    assert_error("let window = 3, other = windw + 1\n", DIAG_NAME_UNDEFINED,
                 "nothing is called 'windw'", "did you mean 'window'?");
    assert_error("let a = 1, a = 2\n", DIAG_NAME_DEFINED_TWICE, "'a' is defined twice",
                 "'a' is defined here");
    assert_error("Input A f16 (i in n, j in m)\nInput A f16 (i in n, j in m)\n",
                 DIAG_NAME_DEFINED_TWICE, "'A' is defined twice", NULL);
    assert_error("let a = b + 1, b = a + 1\n", DIAG_LET_CYCLE, "'a' is defined by itself", NULL);
    assert_error("let a = a\n", DIAG_LET_CYCLE, "'a' is defined by itself", NULL);
    assert_error("let a = b + 1, b = 1\n", DIAG_LET_LATER, "'b' is used before its definition",
                 NULL);
    assert_error(HEAD "Copy Q from global to shared\nCompute GEMM Q, K.T and get S\n",
                 DIAG_OPERAND_IN_GLOBAL, "'K' is in global memory; operands are tiles",
                 "`Copy K from global to shared` brings it there");
    assert_error("let c = 2\nInput A f16 (c in n, e in m)\n", DIAG_NAME_DEFINED_TWICE,
                 "'c' is defined twice", NULL);
    assert_error("Input A f16 (a in n, b in m)\nInput B f16 (a in m, c in n)\n",
                 DIAG_INDEX_OF_TWO_LENGTHS, "the index 'a' runs over m here and over n elsewhere",
                 NULL);
    assert_error("Input A f16 (a in n, a in m)\n", DIAG_AXIS_TWICE,
                 "two axes of one tensor have the index 'a'", NULL);
    assert_error("Input T i32 (a in n, b in m)\nlet x = T[1]\n", DIAG_ELEMENT_COUNT,
                 "'T' has 2 axes, found 1 indices", NULL);
    assert_error("kernel a\nlet x = 1\nkernel a\nlet x = 1\n", DIAG_KERNEL_TWICE,
                 "two kernels are called 'a'", NULL);
    assert_error("Output O f32 (i in n, j in m)\nkernel b\nInput O f16 (i in n, j in m)\n",
                 DIAG_WORKSPACE_DIFFERS,
                 "'O' differs in type, axes or their order from the Output of kernel 'unnamed'",
                 NULL);
    assert_error(
        "Output O e4m3 (i in n, j in m) permuted\nkernel b\nInput O e4m3 (i in n, j in m)\n",
        DIAG_WORKSPACE_DIFFERS,
        "'O' differs in type, axes or their order from the Output of kernel 'unnamed'", NULL);
    assert_error("Output O f32 (i in n, j in m) kept\nkernel b\nInput O f32 (i in n, j in m)\n",
                 DIAG_WORKSPACE_KEPT,
                 "'O' is kept, and kernel 'b' reads it: a workspace holds nothing to keep", NULL);
}

static void places_that_are_wrong(void **state) {
    (void)state;
#define ROLE_HEAD                                                                                  \
    HEAD "let BM = 16\ngrid b in batch, t in q_len/BM\nAllocate Q in shared f16 (BM, d)\n"         \
         "role math with 1 warp\nAllocate Q in register f16 (BM, d) as mma_A\n"
    assert_error(ROLE_HEAD "Wait Q\nend\n", DIAG_PLACE_AMBIGUOUS,
                 "'Q' can mean Q_shared or Q_register", NULL);
    assert_error(ROLE_HEAD "Compute Add Q, 1 and get Q_register\nend\n", DIAG_PLACE_AMBIGUOUS,
                 "'Q' can mean Q_shared or Q_register", NULL);
    assert_error(ROLE_HEAD "Compute Fill 0 and get O_register\nend\n", DIAG_NAME_HAS_NO_TILE,
                 "'O' has no tile in register", "`Allocate O in register ...` gives it one");
    assert_error(ROLE_HEAD "end\nrole more with 1 warp\nCompute Fill 0 and get Q_register\nend\n",
                 DIAG_TILE_OF_OTHER_ROLE, "the register tile 'Q' belongs to role 'math'", NULL);
    assert_error(ROLE_HEAD "Copy Q from shared to shared\nend\n", DIAG_COPY_TO_ITSELF,
                 "a Copy from shared to shared moves nothing", NULL);
    assert_error(ROLE_HEAD "Allocate Q in register f16 (BM, d) as mma_A\nend\n", DIAG_TILE_TWICE,
                 "'Q' has two tiles in register", NULL);
}

static void axes_that_are_wrong(void **state) {
    (void)state;
    assert_error(HEAD LOADS "Compute GEMM Q, K and get S\nCompute Softmax S with m and l\nend\n",
                 DIAG_PRODUCT_CONTRACTS, "this product contracts d with kv", "`K.T` has d first");
    assert_error(HEAD LOADS
                 "Compute GEMM Q, K.T and get S\nCompute GEMM S, V.T and accumulate O\nend\n",
                 DIAG_PRODUCT_CONTRACTS, "this product contracts kv with dv", "`V` has kv first");
    assert_error(HEAD LOADS
                 "Compute GEMM Q, K.T and get S\nCompute GEMM S, Q and accumulate W\nend\n",
                 DIAG_PRODUCT_CONTRACTS, "this product contracts kv with q", "`S.T` has q last");
    assert_error(HEAD LOADS "Compute GEMM Q, K.T and get S\nCompute Add S, V and get S\nend\n",
                 DIAG_AXIS_MISSING, "'V' has the axis dv, which 'S' (q, kv) has not", NULL);
    assert_error(HEAD LOADS "Compute GEMM Q, K.T and get S\nCompute Fill 0 and get m\n"
                            "Compute RowMax S and accumulate m\nCompute Mask m where kv > q\nend\n",
                 DIAG_INDEX_NOT_HERE, "the index 'kv' has no value here: the tile's axes are q",
                 NULL);
    assert_error(HEAD LOADS
                 "Compute GEMM Q, K.T and get S\nCopy S from register to global and get O\nend\n",
                 DIAG_AXES_DIFFER, "'S' has the axes q, kv, this statement gives it q, dv", NULL);
    assert_error(ROLE_HEAD "Copy Q (8, d) in coordinate [b, L = t] from global to shared\nend\n",
                 DIAG_EXTENTS_DIFFER, "axis q of 'Q' is 16 long, here it is 8", NULL);
}

static void spellings_become_canonical(void **state) {
    (void)state;
    bound b;
    assert_binds(&b, ROLE_HEAD
                 "Allocate S in register f32 (BM, BM) as mma_C\n"
                 "Copy Q (BM, d) in coordinate [b, L = t] from global to shared\n"
                 "Wait sQ\nCompute Add Q_reg, 1 and get Q_reg\nCompute Fill 0 and get rS\n"
                 "Release sQ\nend\n");
    text_buffer out;
    text_init(&out, 1 << 16);
    tl_print(b.program, &out);
    assert_non_null(strstr(out.data, "    Wait Q_shared\n"));
    assert_non_null(strstr(out.data, "    Compute Add Q_register, 1 and get Q_register\n"));
    assert_non_null(strstr(out.data, "    Compute Fill 0 and get S\n"));
    assert_non_null(strstr(out.data, "    Release Q_shared\n"));
    text_done(&out);
    done(&b);
}

static void softmax_knows_its_axis(void **state) {
    (void)state;
    bound b;
    assert_binds(&b, "Input P f32 (split in splits, b in batch; q in q_len, dv)\n"
                     "Input w f32 (split in splits, b in batch; q in q_len)\n"
                     "Output O f16 (b in batch; q in q_len, dv)\nfor s = 0:splits\n"
                     "Copy w from global to register and get x\nCopy P from global to register\n"
                     "Compute Softmax x with m and l\nCompute Multiply P, x and accumulate O\nend\n"
                     "Copy O from register to global\n");
    const tl_statement *loop;
    int axis = 5, seen = 0;
    for (tl_statement *s = b.program->first->body.first; s; s = tl_next(s, NULL)) {
        if (s->kind != TL_COMPUTE || s->compute.operation != TL_SOFTMAX) continue;
        tl_softmax_axis(b.program->first, s, &loop, &axis);
        seen++;
    }
    assert_int_equal(seen, 1);
    assert_int_equal(axis, -1);
    assert_non_null(loop);
    assert_tile(&b, "m", TL_REGISTER, "q:?");
    done(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_bind),          cmocka_unit_test(values_of_names_are_kept),
        cmocka_unit_test(division_goes_by_kind),  cmocka_unit_test(bad_values_have_none),
        cmocka_unit_test(names_that_are_wrong),   cmocka_unit_test(places_that_are_wrong),
        cmocka_unit_test(axes_that_are_wrong),    cmocka_unit_test(spellings_become_canonical),
        cmocka_unit_test(softmax_knows_its_axis),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
