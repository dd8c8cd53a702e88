#include "think/prompt.h"

#include "base/embedded.h"
#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct assembly {
    ftl_context *context;
    const prompt_task *task;
    text_buffer *out;
    ftl_status status;
} assembly;

/* --- what the tables say ---------------------------------------------------------------------- */

static void add_types(assembly *a) {
    static const char *const names[] = {
#define TYPE(id, spelling, number, bits, kind, doc) spelling,
#include "base/types.def"
#undef TYPE
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        text_format(a->out, "%s`%s`", i ? ", " : "", names[i]);
    }
}

/* Some make sense only where tiles have a time and a place. */
static void add_functions(assembly *a) {
    static const struct {
        const char *name, *id;
    } rows[] = {
#define FUNCTION(id, spelling, fewest, most, operation, doc) {spelling, #id},
#include "tl/functions.def"
#undef FUNCTION
    };
    static const char *const of_code[] = {"ANY", "FIRST", "MORE", "NEXT"};
    bool is_first = true;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool is_left_out = false;
        for (size_t k = 0; k < sizeof of_code / sizeof *of_code; k++) {
            is_left_out |= a->task->step == THINK_SKETCH && strcmp(rows[i].id, of_code[k]) == 0;
        }
        if (is_left_out) continue;
        text_format(a->out, "%s`%s`", is_first ? "" : ", ", rows[i].name);
        is_first = false;
    }
}

/* Mask and Softmax have a paragraph of their own; RowTopK, which only a table's maker needs, none.
 */
static void add_operations(assembly *a) {
    enum { PRODUCT, ELEMENTWISE, REDUCTION, CHOICE, FILL, MASK, SOFTMAX };
    static const struct {
        const char *name, *doc;
        int operands, shape;
    } rows[] = {
#define OPERATION(id, spelling, operands, shape, doc, ...) {spelling, doc, operands, shape},
#include "tl/operations.def"
#undef OPERATION
    };
    static const char *const operands[] = {"", "A", "A, B", "A, B, C"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool is_apart =
            rows[i].shape == MASK || rows[i].shape == SOFTMAX || rows[i].shape == CHOICE;
        if (is_apart) continue;
        text_format(a->out, "  - `%s %s`: %s\n", rows[i].name, operands[rows[i].operands],
                    rows[i].doc);
    }
}

/* --- the GPU ---------------------------------------------------------------------------------- */

/* "key = value unit // source": without the source. */
static void add_gpu(assembly *a) {
    char *text = NULL;
    const char *gpu = a->task->options->gpu;
    ftl_status status = ftl_gpu_text(a->context, gpu, &text);
    if (status) {
        a->status = status;
        return;
    }
    for (str rest = str_from(text); rest.length;) {
        str line = str_cut(&rest, '\n');
        str comment = line, kept = line;
        for (size_t i = 0; i + 1 < comment.length; i++) {
            if (comment.data[i] != '/' || comment.data[i + 1] != '/') continue;
            kept.length = i;
            break;
        }
        kept = str_trim(kept);
        bool is_name = str_starts(kept, STR("aliases")) || str_starts(kept, STR("title"));
        if (!kept.length || is_name) continue;
        str value = kept, key = str_trim(str_cut(&value, '='));
        text_format(a->out, "%.*s = %.*s\n", STR_ARGS(key), STR_ARGS(str_trim(value)));
    }
    ftl_free(text);
}

/* --- examples --------------------------------------------------------------------------------- */

static void add_embedded(assembly *a, const char *name) {
    for (const embedded_file *f = embedded_prompts; f->name; f++) {
        if (strcmp(f->name, name) == 0) text_add(a->out, (str){f->data, f->length});
    }
}

/* "gqa causal": a shipped sketch with its options. */
static char *make_sketch(assembly *a, str words) {
    enum { SETTINGS_MAX = 8, NAME_BYTES = 64 };
    char names[SETTINGS_MAX][NAME_BYTES];
    const char *settings[SETTINGS_MAX];
    int count = 0;
    for (words = str_trim(words); words.length && count < SETTINGS_MAX; count++) {
        str word = str_cut(&words, ' ');
        snprintf(names[count], NAME_BYTES, "%.*s", STR_ARGS(word));
        settings[count] = names[count];
        words = str_trim(words);
    }
    char *text = NULL;
    ftl_status status = ftl_sketch(a->context, names[0], settings + 1, count - 1, &text);
    if (status) a->status = status;
    return text;
}

static void add_sketch(assembly *a, str words) {
    char *text = make_sketch(a, words), *canonical = NULL;
    if (!text) return;
    ftl_source source = {"example", text, strlen(text)};
    ftl_status status = ftl_format(a->context, &source, &canonical);
    if (status) a->status = status;
    else text_add_z(a->out, canonical);
    ftl_free(canonical);
    ftl_free(text);
}

/* TL Code of a shipped sketch for the task's GPU, in the plain form. */
static char *make_code(assembly *a, str words) {
    static const ftl_pin pins[] = {
        {"d", "64"}, {"dv", "64"}, {"guard", "0"}, {"peel", "0"}, {"warpgroups", "0"}};
    bool by_warps = a->task->step == THINK_TRANSLATE && a->task->form == FTL_CUTE;
    char *sketch = make_sketch(a, words), *code = NULL;
    if (!sketch) return NULL;
    ftl_source source = {"example", sketch, strlen(sketch)};
    ftl_options options = {.struct_bytes = sizeof(ftl_options),
                           .gpu = a->task->options->gpu,
                           .dtype = FTL_F16,
                           .pins = pins,
                           .pin_count = by_warps ? 5 : 4};
    ftl_status status = ftl_reason(a->context, &source, &options, &code);
    if (status) a->status = status;
    ftl_free(sketch);
    return code;
}

static void add_code(assembly *a, str words) {
    char *code = make_code(a, words);
    if (code) text_add_z(a->out, code);
    ftl_free(code);
}

/* --- translate -------------------------------------------------------------------------------- */

/* The kernel that the built-in translator makes of an example. */
static void add_cuda(assembly *a, str words, ftl_text_form form) {
    char *code = make_code(a, words);
    ftl_product *product = NULL;
    if (!code) return;
    ftl_source source = {"example", code, strlen(code)};
    ftl_status status = ftl_translate_to(a->context, &source, NULL, form, &product);
    if (status) a->status = status;
    else text_add_z(a->out, product->kernels[0].cuda);
    ftl_product_free(product);
    ftl_free(code);
}

/* --- filling in ------------------------------------------------------------------------------- */

static void add_placeholder(assembly *a, str words) {
    str rest = str_trim(words), name = str_cut(&rest, ' ');
    rest = str_trim(rest);
    char argument[128];
    snprintf(argument, sizeof argument, "%.*s", STR_ARGS(rest));
    if (str_is(name, "types")) add_types(a);
    else if (str_is(name, "functions")) add_functions(a);
    else if (str_is(name, "operations")) add_operations(a);
    else if (str_is(name, "gpu")) add_gpu(a);
    else if (str_is(name, "example")) add_embedded(a, argument);
    else if (str_is(name, "sketch")) add_sketch(a, rest);
    else if (str_is(name, "code")) add_code(a, rest);
    else if (str_is(name, "cuda")) add_cuda(a, rest, FTL_PLAIN_CUDA);
    else if (str_is(name, "cute")) add_cuda(a, rest, FTL_CUTE);
    else
        a->status =
            ftl_context_fail(a->context, FTL_NOT_FOUND, "a prompt names '%.*s'", STR_ARGS(name));
}

static void fill_in(assembly *a, str text) {
    for (size_t i = 0; i < text.length && !a->status;) {
        size_t begin = i;
        while (i + 1 < text.length && !(text.data[i] == '{' && text.data[i + 1] == '{')) i++;
        if (i + 1 >= text.length) i = text.length;
        text_add(a->out, (str){text.data + begin, i - begin});
        if (i == text.length) break;
        size_t end = i;
        while (end + 1 < text.length && !(text.data[end] == '}' && text.data[end + 1] == '}'))
            end++;
        add_placeholder(a, (str){text.data + i + 2, end - i - 2});
        i = end + 2;
    }
}

static ftl_status finish(assembly *a) {
    if (!a->status && a->out->failed) {
        a->status = ftl_context_fail(a->context, FTL_NO_MEMORY, "the prompt is too long");
    }
    return a->status;
}

ftl_status prompt_system(ftl_context *context, const prompt_task *task, text_buffer *out) {
    assembly a = {context, task, out, FTL_OK};
    bool is_cute = task->step == THINK_TRANSLATE && task->form == FTL_CUTE;
    const char *name = is_cute ? "cute" : think_step_name(task->step);
    for (const embedded_file *f = embedded_prompts; f->name; f++) {
        if (strcmp(f->name, name) == 0) fill_in(&a, (str){f->data, f->length});
    }
    return finish(&a);
}

/* --- the question ----------------------------------------------------------------------------- */

static void add_decisions(const prompt_task *task, text_buffer *out) {
    const ftl_options *o = task->options;
    text_format(out, "Tensors whose type stays open are %s.",
                ftl_type_name(o->dtype ? o->dtype : FTL_F16));
    for (int32_t i = 0; i < o->pin_count; i++) {
        text_format(out, "%s %s = %s", i ? "," : " Decided already:", o->pins[i].name,
                    o->pins[i].value);
    }
    text_add_z(out, o->pin_count ? ".\n" : "\n");
}

static void add_block(text_buffer *out, const char *title, const char *label, const char *text) {
    size_t length = strlen(text);
    text_format(out, "\n# %s\n\n```%s\n%s%s```\n", title, label, text,
                length && text[length - 1] != '\n' ? "\n" : "");
}

ftl_status prompt_question(ftl_context *context, const prompt_task *task, text_buffer *out) {
    assembly a = {context, task, out, FTL_OK};
    bool has_words = task->words && *task->words;
    if (has_words) text_format(out, "# The request\n\n%s\n\n", task->words);
    add_decisions(task, out);
    if (task->parameters && *task->parameters) {
        add_block(out, "Declare exactly these parameters", "tl", task->parameters);
    }
    if (task->step == THINK_REASON && task->sketch) {
        add_block(out, "The sketch to make TL Code of", "tl", task->sketch);
    }
    if (task->is_direct) {
        text_add_z(out, "\nThere is no sketch of it: write TL Code straight from the request.\n");
    }
    if (task->step == THINK_TRANSLATE && task->product) {
        add_block(out, "The TL Code to translate", "tl", task->product->code);
        char *header = ftl_plan_header(task->product->kernels[0].plan, "plan");
        if (header) add_block(out, "Its parameters and launch rule, as a C header", "c", header);
        else out->failed = true;
        free(header);
    }
    bool is_cute = task->step == THINK_TRANSLATE && task->form == FTL_CUTE;
    text_format(out, "\nWrite %s%s for it.\n", think_step_result(task->step),
                is_cute ? " with CuTe" : "");
    return finish(&a);
}

static void add_rest(int32_t left, text_buffer *out) {
    text_format(out,
                " with the whole program again, in one fenced block. %d more %s will be read.\n",
                (int)left, left == 1 ? "answer" : "answers");
}

void prompt_findings(think_rung rung, const json_t *findings, int32_t left, text_buffer *out) {
    text_format(out,
                "Your answer did not pass '%s' (%s). What was found, one JSON object a line, with "
                "lines counted in your block:\n\n",
                think_rung_name(rung), think_rung_meaning(rung));
    for (size_t i = 0; i < json_array_size(findings); i++) {
        json_write_line(NULL, json_array_get(findings, i),
                        JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(6), out);
    }
    text_add_z(out, "\nMend the cause and answer");
    add_rest(left, out);
}

void prompt_failure(int32_t left, text_buffer *out) {
    text_add_z(out, "Your answer is not right. Answer again");
    add_rest(left, out);
}
