/* Kernels whose texts were verified before they shipped. */
#include "base/hash.h"
#include "verify/built.h"

#include <stdlib.h>
#include <string.h>

typedef struct shipped_form {
    uint64_t high, low;
} shipped_form;

/* In the order of their hashes. */
static const shipped_form forms[] = {
#define SHIPPED(high, low, what) {high, low},
#include "verify/shipped.def"
#undef SHIPPED
};

enum { TEXT_BYTES_MAX = 64 << 20 };

/* Is this a place where the text names its kernel or the struct of its parameters? */
static bool is_named_here(const char *text, const char *at, size_t length) {
    static const char ending[] = "_parameters";
    char before = at > text ? at[-1] : ' ';
    return !str_is_word(before) &&
           (at[length] == '(' || strncmp(at + length, ending, sizeof ending - 1) == 0);
}

/* Whoever asks for a kernel may choose its symbol, which says nothing of what the kernel does:
 * texts that differ in nothing else are one form.
 */
static void add_cuda(text_buffer *out, const ftl_kernel *kernel) {
    const char *entry = kernel->plan->entry, *rest = kernel->cuda;
    size_t length = strlen(entry);
    for (const char *at = strstr(rest, entry); at; at = strstr(at + length, entry)) {
        if (!is_named_here(kernel->cuda, at, length)) continue;
        text_add(out, (str){rest, (size_t)(at - rest)});
        text_add_z(out, "\x01");
        rest = at + length;
    }
    text_add_z(out, rest);
}

static void add_plan(text_buffer *out, const ftl_plan *plan) {
    ftl_plan unnamed = *plan;
    unnamed.entry = "kernel";
    char *text = ftl_plan_write(&unnamed);
    if (text) text_add_z(out, text);
    else out->failed = true;
    free(text);
}

static bool find_form(const ftl_product *product, hash128 *out) {
    text_buffer text;
    text_init(&text, TEXT_BYTES_MAX);
    text_add_z(&text, product->sketch ? product->sketch : product->code);
    for (int32_t i = 0; i < product->kernel_count; i++) {
        add_cuda(&text, &product->kernels[i]);
        add_plan(&text, product->kernels[i].plan);
    }
    bool is_whole = !text.failed;
    if (is_whole) *out = hash_bytes(text_str(&text));
    text_done(&text);
    return is_whole;
}

bool verify_form_digits(const ftl_product *product, char digits[33]) {
    hash128 form;
    if (!find_form(product, &form)) return false;
    hash_digits(form, digits);
    return true;
}

static int by_hash(const void *a, const void *b) {
    const shipped_form *x = a, *y = b;
    if (x->high != y->high) return x->high < y->high ? -1 : 1;
    return x->low < y->low ? -1 : x->low > y->low;
}

bool verify_is_shipped(const ftl_product *product) {
    hash128 form;
    if (!find_form(product, &form)) return false;
    const shipped_form wanted = {form.high, form.low};
    return bsearch(&wanted, forms, sizeof forms / sizeof *forms, sizeof *forms, by_hash) != NULL;
}
