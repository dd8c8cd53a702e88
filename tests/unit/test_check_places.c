/* Views that stay in their tensors and views that leave them, in sketches. */
#include "sketch_case.h"

typedef struct view_case {
    const char *view;    /* put after the declarations below */
    const char *message; /* part of the only error's; NULL: it is right */
} view_case;

#define DECLARATIONS                                                                               \
    "let page_len = 16, half = 64, dv = 128, group = q_heads/kv_heads\n"                           \
    "Input X f16 (row in row_len, e in dv)\n"                                                      \
    "Input K f16 (b in batch, head/group in kv_heads; kv in kv_len, e in dv) "                     \
    "where q_heads %% kv_heads == 0\n"                                                             \
    "Input Q f16 (b in batch, head in q_heads; q in q_len, e in dv) where q_len <= kv_len\n"       \
    "Input pool f16 (page in pages; slot in page_len, e in dv)\n"                                  \
    "Input table i32 (b in batch, page in pages)\n"                                                \
    "Input first i32 (b in batch)\n"

static const view_case cases[] = {
    {"let V (row in row_len, h in half) = X[row, half + h]", NULL},
    {"let V (row in row_len, h in half) = X[row, half + h + 1]",
     "leaves X: this is 128 where h is 63, and the axis e has 128 elements"},
    {"let V (row in row_len, h in half) = X[row, half - h - 1]", NULL},
    {"let V (row in row_len, h in half) = X[row, half - h - 65]", "this is -1 where h is 0"},
    {"let V (row in row_len, e in dv) = X[row_len - 1 - row, e]", NULL},
    {"let V (row in row_len, e in dv) = X[row_len - row, e]",
     "leaves X: this is 1 where row_len is 1"},
    {"let V (half_row in row_len/2, e in dv) = X[2*half_row + 1, e]",
     "leaves X: this is 1 where row_len is 1"},
    {"let V (half_row in floor(row_len/2), e in dv) = X[2*half_row + 1, e]", NULL},
    {"let V (b in batch, head in q_heads; kv in kv_len, e in dv) = K[b, head/group, kv, e]", NULL},
    {"let V (b in batch, head in q_heads; kv in kv_len, e in dv) = K[b, head, kv, e]",
     "and the axis kv_heads has 1 elements"},
    {"let V (b in batch, head in q_heads; q in q_len, e in dv) = K[b, head/group, q, e]", NULL},
    {"let V (b in batch, head in q_heads; kv in kv_len, e in dv) = Q[b, head, kv, e]",
     "leaves Q: this is 2 where kv_len is 3"},
    /* what a table says is known at launch */
    {"let n = first[b]\nlet V (b in batch; k in n, e in dv) = pool[table[b, k/page_len], k % "
     "page_len, e]",
     NULL},
    {"let V (b in batch; kv in kv_len, e in dv) = pool[table[b, 0], kv % 17, e]",
     "and the axis slot has 16 elements"},
    {"let V (b in batch; p in pages) = table[b, p + 1]", "leaves table: this is 1"},
    /* a condition takes elements out */
    {"let V (row in row_len, f in dv + 8) = select(f < dv, X[row, f], 1)", NULL},
    {"let V (row in row_len, f in dv + 8) = select(f <= dv, X[row, f], 1)", "this is 128"},
    {"let V (row in row_len, e in dv) = select(row == 0, 0, X[row - 1, e])", NULL},
    {"let V (row in row_len, e in dv) = select(row == 1, 0, X[row - 1, e])", "this is -1"},
    /* views of views: each one's own axes count */
    {"let W (row in row_len, h in half) = X[row, h]\n"
     "let V (row in row_len, h in half) = W[row, h + 1]",
     "leaves W: this is 64"},
};

static bool is_right(const view_case *c) {
    arena memory;
    arena_init(&memory, 1 << 26);
    str source =
        str_format(&memory,
                   "kernel views\n" DECLARATIONS "%s\nOutput Y f16 (row in row_len, e in dv)\n"
                   "Copy X from global to register\n"
                   "Copy X from register to global and get Y\n",
                   c->view);
    bool right = sketch_gives(&memory, source, DIAG_VIEW_OUTSIDE, c->message);
    arena_done(&memory);
    return right;
}

static void views(void **state) {
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) wrong += !is_right(&cases[i]);
    assert_int_equal(wrong, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(views)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
