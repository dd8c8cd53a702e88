#include "cli/bundle.h"
#include "base/embedded.h"
#include "plan/fields.h"
#include "plan/plan.h"

#include <inttypes.h>
#include <string.h>

/* src/cli/bundle, and of src/plan what a launch needs. */
extern const embedded_file embedded_bundle[];

enum { BUNDLE_BYTES_MAX = 512 << 20 };

void bundle_open(bundle *b, const char *name) {
    *b = (bundle){.name = name};
    text_init(&b->data, BUNDLE_BYTES_MAX);
    text_init(&b->gpus, BUNDLE_BYTES_MAX);
    text_init(&b->names, BUNDLE_BYTES_MAX);
}

void bundle_done(bundle *b) {
    text_done(&b->data);
    text_done(&b->gpus);
    text_done(&b->names);
}

/* --- a plan as C ------------------------------------------------------------------------------ */

static void add_quoted(text_buffer *out, const char *text) {
    text_add_z(out, "\"");
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') text_add_z(out, "\\");
        text_add(out, (str){text, 1});
    }
    text_add_z(out, "\"");
}

static void add_formula(text_buffer *out, const ftl_formula *formula) {
    text_add_z(out, "{");
    add_quoted(out, formula->text ? formula->text : "");
    text_add_z(out, formula->step_count ? ", (const ftl_formula_step[]){" : ", NULL");
    for (int32_t i = 0; i < formula->step_count; i++) {
        const ftl_formula_step *s = &formula->steps[i];
        text_format(out, "%s{%d, %" PRId32 ", INT64_C(%" PRId64 "), %.17g}", i ? ", " : "",
                    (int)s->op, s->index, s->integer, s->number);
    }
    text_format(out, "%s, %" PRId32 "}", formula->step_count ? "}" : "", formula->step_count);
}

/* What counts the items of a field, in the struct that has it. */
static const char *count_of(const char *key) {
    static const char *const names[][2] = {{"axes", "axis_count"},
                                           {"dimensions", "rank"},
                                           {"tensors", "tensor_count"},
                                           {"sizes", "size_count"},
                                           {"scalars", "scalar_count"},
                                           {"walks", "walk_count"},
                                           {"conditions", "condition_count"},
                                           {"tiles", "tile_count"},
                                           {"derived", "derived_count"},
                                           {"maps", "map_count"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i][0], key) == 0) return names[i][1];
    }
    return "unknown_count"; /* of no struct: the file does not compile */
}

static void add_record(text_buffer *out, const plan_record *record, const void *item);

static void add_items(text_buffer *out, const plan_field *field, const void *item) {
    const char *bytes = plan_field_items(field, item);
    int32_t count = plan_field_count(field, item);
    if (!count) return;
    if (field->kind == PLAN_ARRAY) text_format(out, ".%s = {", field->key);
    else text_format(out, ".%s = (__typeof__(*((ftl_plan *)0)->%s)[]){", field->key, field->key);
    for (int32_t i = 0; i < count; i++) {
        if (i) text_add_z(out, ", ");
        if (field->kind == PLAN_FORMULAS)
            add_formula(out, (const ftl_formula *)(const void *)bytes + i);
        else add_record(out, field->record, bytes + (size_t)i * field->record->bytes);
    }
    text_format(out, "}, .%s = %" PRId32 ", ", count_of(field->key), count);
}

static void add_field(text_buffer *out, const plan_field *field, const void *item) {
    const void *at = (const char *)item + field->at;
    switch (field->kind) {
    case PLAN_TEXT:
        text_format(out, ".%s = ", field->key);
        add_quoted(out, *(const char *const *)at);
        break;
    case PLAN_FLAG: text_format(out, ".%s = %d", field->key, *(const bool *)at); break;
    case PLAN_WORD: text_format(out, ".%s = %d", field->key, *(const int *)at); break;
    case PLAN_NUMBER:
    case PLAN_OFFSET: text_format(out, ".%s = %" PRId32, field->key, *(const int32_t *)at); break;
    case PLAN_FORMULA:
        text_format(out, ".%s = ", field->key);
        add_formula(out, at);
        break;
    case PLAN_FORMULAS:
    case PLAN_LIST:
    case PLAN_ARRAY: add_items(out, field, item); return;
    }
    text_add_z(out, ", ");
}

static void add_record(text_buffer *out, const plan_record *record, const void *item) {
    text_add_z(out, "{");
    for (int i = 0; i < record->count; i++) add_field(out, &record->fields[i], item);
    text_add_z(out, "}");
}

/* --- images ----------------------------------------------------------------------------------- */

/* Words of eight bytes, the first lowest: a quarter of what a list of bytes would be to read. */
static void add_image(text_buffer *out, const ftl_image *image) {
    for (size_t start = 0; start < image->length; start += 8) {
        uint64_t word = 0;
        for (size_t i = 0; i < 8 && start + i < image->length; i++)
            word |= (uint64_t)(unsigned char)image->bytes[start + i] << 8 * i;
        text_format(out, "%s0x%" PRIx64 ",", start % 64 ? " " : "\n    ", word);
    }
}

/* --- what the kernels take -------------------------------------------------------------------- */

/* Whether a caller may hand both the same. What axes an Input or Output has, the program says; each
 * kernel checks their lengths in its own words. A workspace is as a GPU's kernels need it.
 */
static bool is_alike(const ftl_plan_tensor *a, const ftl_plan_tensor *b, bool of_two_gpus) {
    if (a->type != b->type || a->axis_count != b->axis_count) return false;
    for (int32_t i = 0; i < a->axis_count && of_two_gpus && a->role == FTL_WORKSPACE; i++) {
        const ftl_plan_axis *left = &a->axes[i], *right = &b->axes[i];
        if (strcmp(left->name, right->name) != 0 ||
            strcmp(left->extent.text, right->extent.text) != 0)
            return false;
    }
    return true;
}

static int refuse(const bundle *b, const ftl_gpu *gpu, const char *what) {
    return cli_say(EXIT_REJECTED,
                   "the kernels for %s and %s cannot be in one bundle: they differ in '%s', which "
                   "a launch is given; build a bundle for each",
                   b->first_gpu, gpu->name, what);
}

static int note(bundle *b, const ftl_gpu *gpu, const char *name, const ftl_plan_tensor *tensor) {
    int i = 0;
    while (i < b->entry_count && strcmp(b->entries[i].name, name) != 0) i++;
    if (i == b->entry_count) {
        if (b->gpu_count > 0) return refuse(b, gpu, name);
        if (i == BUNDLE_ENTRIES_MAX)
            return cli_say(EXIT_REJECTED, "a bundle's launch has at most %d arguments", i);
        b->entries[b->entry_count++] = (bundle_entry){name, tensor, true};
        return EXIT_DONE;
    }
    const ftl_plan_tensor *known = b->entries[i].tensor;
    if (!known != !tensor || (known && !is_alike(known, tensor, !b->entries[i].is_seen)))
        return refuse(b, gpu, name);
    b->entries[i].is_seen = true;
    return EXIT_DONE;
}

static bool is_axis(const ftl_plan *plan, int32_t size) {
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        for (int32_t i = 0; i < plan->tensors[t].axis_count; i++) {
            if (plan->tensors[t].axes[i].size == size) return true;
        }
    }
    return false;
}

static int note_all(bundle *b, const ftl_gpu *gpu, const ftl_plan *plan) {
    int exit_status = EXIT_DONE;
    for (int32_t i = 0; i < plan->tensor_count && !exit_status; i++)
        exit_status = note(b, gpu, plan->tensors[i].name, &plan->tensors[i]);
    for (int32_t i = 0; i < plan->scalar_count && !exit_status; i++)
        exit_status = note(b, gpu, plan->scalars[i].name, NULL);
    for (int32_t i = 0; i < plan->size_count && !exit_status; i++) {
        if (!is_axis(plan, i)) exit_status = note(b, gpu, plan->sizes[i].name, NULL);
    }
    return exit_status;
}

/* --- GPUs ------------------------------------------------------------------------------------- */

void bundle_begin_gpu(bundle *b) {
    b->kernel_count = 0;
    for (int i = 0; i < b->entry_count; i++) b->entries[i].is_seen = false;
}

int bundle_add(bundle *b, const ftl_gpu *gpu, const ftl_plan *plan, const ftl_image *image) {
    if (!b->gpu_count) memcpy(b->first_gpu, gpu->name, sizeof b->first_gpu);
    if (!b->kernel) b->kernel = plan->kernel;
    int exit_status = note_all(b, gpu, plan);
    if (exit_status) return exit_status;
    text_format(&b->data, "static const ftl_plan bundle_plan_%d_%d = ", b->gpu_count,
                b->kernel_count);
    add_record(&b->data, &plan_root, plan);
    text_format(&b->data, ";\nstatic const uint64_t bundle_image_%d_%d[] = {", b->gpu_count,
                b->kernel_count);
    add_image(&b->data, image);
    text_add_z(&b->data, "0};\n\n");
    b->kernel_count++;
    return EXIT_DONE;
}

int bundle_end_gpu(bundle *b, const ftl_gpu *gpu) {
    for (int i = 0; i < b->entry_count; i++) {
        if (!b->entries[i].is_seen) return refuse(b, gpu, b->entries[i].name);
    }
    text_format(&b->data, "static const bundled_kernel bundle_kernels_%d[] = {", b->gpu_count);
    for (int i = 0; i < b->kernel_count; i++) {
        text_format(&b->data, "%s{&bundle_plan_%d_%d, bundle_image_%d_%d}", i ? ", " : "",
                    b->gpu_count, i, b->gpu_count, i);
    }
    text_add_z(&b->data, "};\n\n");
    /* "sm_90a": of that capability alone. */
    size_t length = strlen(gpu->target);
    bool is_exact = length && (gpu->target[length - 1] < '0' || gpu->target[length - 1] > '9');
    text_format(&b->gpus, "    {\"%s\", %" PRId32 ", %d, %" PRId32 ", bundle_kernels_%d, %d},\n",
                gpu->name, gpu->capability, is_exact, gpu->multiprocessors, b->gpu_count,
                b->kernel_count);
    text_format(&b->names, "%s%s", b->gpu_count ? ", " : "", gpu->name);
    if (b->kernels_most < b->kernel_count) b->kernels_most = b->kernel_count;
    b->gpu_count++;
    return EXIT_DONE;
}

/* --- the two files ---------------------------------------------------------------------------- */

/* "q in q_len", "d in d = 64". */
static void add_axis(const ftl_plan_axis *axis, const char *comma, text_buffer *out) {
    const ftl_formula *extent = &axis->extent;
    text_format(out, "%s%s in %s", comma, axis->name, extent->text);
    if (extent->step_count != 1 || extent->steps[0].op != FTL_PUSH_INTEGER) return;
    char digits[32];
    snprintf(digits, sizeof digits, "%" PRId64, extent->steps[0].integer);
    if (strcmp(digits, extent->text) != 0) text_format(out, " = %s", digits);
}

static void add_arguments(const bundle *b, text_buffer *out) {
    text_format(out, "typedef struct %s_arguments {\n", b->name);
    for (int e = 0; e < b->entry_count; e++) {
        const ftl_plan_tensor *t = b->entries[e].tensor;
        if (!t) continue;
        text_format(out, "    %s_tensor %s; /* %s, %s (", b->name, t->name,
                    t->role == FTL_INPUT    ? "input"
                    : t->role == FTL_OUTPUT ? "output"
                                            : "workspace",
                    ftl_type_name(t->type));
        for (int32_t i = 0; i < t->axis_count; i++) add_axis(&t->axes[i], i ? ", " : "", out);
        text_add_z(out, ") */\n");
    }
    for (int e = 0; e < b->entry_count; e++) {
        if (!b->entries[e].tensor) text_format(out, "    double %s;\n", b->entries[e].name);
    }
    text_format(out, "} %s_arguments;\n\n", b->name);
}

static void add_functions(const char *name, text_buffer *out) {
    text_format(
        out,
        "enum { %s_WHY_BYTES = %d };\n\ntypedef struct %s_kernels %s_kernels;\n\n"
        "/* Loads the kernels of the GPU that the calling thread's CUDA context is of; free with "
        "_close, in\n * that context, when no launch is at work. On failure *out is NULL. 'why', "
        "here and below: one\n * sentence of what is wrong, or NULL.\n */\n"
        "%s_status %s_open(%s_kernels **out, char why[%s_WHY_BYTES]);\n"
        "void %s_close(%s_kernels *kernels);\n"
        "/* Which GPU's kernels they are: \"h200\". */\n"
        "const char *%s_gpu(const %s_kernels *kernels);\n\n",
        name, FTL_WHY_BYTES, name, name, name, name, name, name, name, name, name, name);
    text_format(
        out,
        "/* Checks the arguments and launches on a stream (a CUstream or cudaStream_t), without "
        "waiting;\n * nothing to do is OK. Safe from several threads. A stream may be captured.\n "
        "*/\n"
        "%s_status %s_launch(%s_kernels *kernels, const %s_arguments *arguments,\n"
        "    void *stream, char why[%s_WHY_BYTES]);\n\n",
        name, name, name, name, name);
}

bool bundle_header(const bundle *b, text_buffer *out) {
    const char *name = b->name;
    text_format(
        out,
        "/* %s.h: kernel '%s' for %s, made by FlashTL %s.\n *\n"
        " * Compile %s.c with your program, as C11 or later by GCC or Clang. It needs the C "
        "library "
        "alone (-lm,\n * and -ldl where the C library is old); the CUDA driver, libcuda.so.1, is "
        "opened by _open.\n */\n"
        "#ifndef FLASHTL_BUNDLE_%s\n#define FLASHTL_BUNDLE_%s\n\n#include <stdint.h>\n\n"
        "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n",
        name, b->kernel, b->names.data, ftl_version(), name, name, name);
    text_format(out,
                "typedef enum %s_status {\n    %s_OK = 0,\n"
                "    %s_INVALID_ARGUMENT = %d, /* the kernel takes no such tensor or number */\n"
                "    %s_NO_MEMORY = %d,\n"
                "    %s_NO_KERNEL = %d,        /* none that is here runs on this GPU */\n"
                "    %s_NO_DRIVER = %d,       /* there is none, or it is too old */\n"
                "    %s_DRIVER_FAILED = %d\n} %s_status;\n\n",
                name, name, name, FTL_INVALID_ARGUMENT, name, FTL_NO_MEMORY, name, FTL_NOT_FOUND,
                name, FTL_NO_DRIVER, name, FTL_DRIVER_FAILED, name);
    text_format(
        out,
        "/* Device memory: extents and strides, in elements, of the axes in their order. */\n"
        "typedef struct %s_tensor {\n    uint64_t address;\n"
        "    int64_t extents[%d], strides[%d];\n} %s_tensor;\n\n",
        name, FTL_AXES_MAX, FTL_AXES_MAX, name);
    add_arguments(b, out);
    add_functions(name, out);
    text_add_z(out, "#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
    return !out->failed && !b->names.failed;
}

/* A file of the library's without the includes of others. */
static void add_embedded(text_buffer *out, const char *name) {
    const embedded_file *file = embedded_bundle;
    while (file->name && strcmp(file->name, name) != 0) file++;
    for (str rest = {file->data, file->length}; rest.length;) {
        str line = str_cut(&rest, '\n');
        if (str_starts(line, STR("#include \""))) continue;
        text_add(out, line);
        text_add_z(out, "\n");
    }
    text_add_z(out, "\n");
}

static void add_types(text_buffer *out) {
    text_add_z(out, "/* --- element types "
                    "---------------------------------------------------------------------------- "
                    "*/\n\n"
                    "static const struct {\n    const char *name;\n    size_t bits;\n    int map;\n"
                    "} bundle_types[] = {\n");
    int last = 0;
    for (const plan_word *w = plan_types; w->name; w++) last = w->value > last ? w->value : last;
    for (int type = 0; type <= last; type++) {
        text_format(out, "    {\"%s\", %d, %d},\n", ftl_type_name((ftl_type)type),
                    (int)ftl_type_bits((ftl_type)type), plan_map_type((ftl_type)type));
    }
    text_add_z(out, "};\n\n"
                    "static const char *ftl_type_name(ftl_type type) {\n"
                    "    return bundle_types[type].name;\n}\n\n"
                    "static size_t ftl_type_bits(ftl_type type) {\n"
                    "    return bundle_types[type].bits;\n}\n\n"
                    "static size_t ftl_type_bytes(ftl_type type) {\n"
                    "    return (ftl_type_bits(type) + 7) / 8;\n}\n\n"
                    "static int plan_map_type(ftl_type type) {\n"
                    "    return bundle_types[type].map;\n}\n\n");
}

/* Rows of where the tensors, or the numbers, lie in the caller's struct. */
static void add_places(const bundle *b, bool of_tensors, text_buffer *out) {
    text_format(out, "static const bundled_place bundle_%s[] = {",
                of_tensors ? "tensors" : "numbers");
    for (int e = 0; e < b->entry_count; e++) {
        const bundle_entry *entry = &b->entries[e];
        if (!entry->tensor == of_tensors) continue;
        text_format(out, "{\"%s\", offsetof(%s_arguments, %s)}, ", entry->name, b->name,
                    entry->name);
    }
    text_add_z(out, "{\"\", 0}};\n");
}

/* What src/plan calls and a loader of kernels that are whole does without. */
static void add_prelude(text_buffer *out) {
    text_format(
        out,
        "enum { PLAN_ITEMS_MAX = %d, PLAN_TILES = %d, PLAN_DERIVED = %d, PLAN_NUMBERS_MAX = %d };\n"
        "#define number_print snprintf\n#define number_print_list vsnprintf\n"
        "#define ftl_plan_check(plan, why) ((void)(plan), (void)(why), true)\n"
        "typedef void kept; /* of formulas' results: each launch computes them */\n"
        "#define kept_new(count, key_words, result_words) \\\n"
        "    ((void)(count), (void)(key_words), (void)(result_words), NULL)\n"
        "#define kept_find(table, key, result) ((void)(table), (void)(key), false)\n"
        "#define kept_put(table, key, result) ((void)(table))\n"
        "static kept *plan_numbers_new(const ftl_plan *plan);\n"
        "static bool plan_numbers(const ftl_plan *plan, kept *table, const int64_t *sizes,\n"
        "                         const double *scalars,\n"
        "                         uint64_t found[PLAN_NUMBERS_MAX], char why[FTL_WHY_BYTES]);\n"
        "static bool plan_resolve_checked(const ftl_plan *plan, const ftl_arguments *arguments,\n"
        "                                 kept *numbers, ftl_launch *launch,\n"
        "                                 char why[FTL_WHY_BYTES]);\n\n",
        PLAN_ITEMS_MAX, PLAN_TILES, PLAN_DERIVED, PLAN_NUMBERS_MAX);
}

bool bundle_source(const bundle *b, text_buffer *out) {
    text_format(
        out,
        "/* %s.c: see %s.h. With parts of FlashTL %s, under the MIT licence.\n */\n"
        "#include \"%s.h\"\n\n#include <ctype.h>\n#include <dlfcn.h>\n#include <stdarg.h>\n"
        "#include <stdatomic.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\n"
        "#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__\n"
        "#error the kernels are words of a machine that writes the lowest byte first\n#endif\n\n"
        "#pragma GCC diagnostic ignored \"-Wunused-function\"\n"
        "#define BUNDLE(what) %s_##what\n#define BUNDLE_GPU_NAMES \"%s\"\n"
        "#define FTL_API static\n\n",
        b->name, b->name, ftl_version(), b->name, b->name, b->names.data);
    add_embedded(out, "plan");
    add_embedded(out, "early");
    add_prelude(out);
    add_types(out);
    add_embedded(out, "formula");
    add_embedded(out, "numbers");
    add_embedded(out, "resolve");
    add_embedded(out, "kinds.c");
    text_format(out, "enum { BUNDLE_KERNELS = %d };\n", b->kernels_most);
    add_places(b, true, out);
    add_places(b, false, out);
    text_add(out, text_str(&b->data));
    text_add_z(out, "static const bundled_gpu bundle_gpus[] = {\n");
    text_add(out, text_str(&b->gpus));
    text_add_z(out, "};\n\n");
    add_embedded(out, "launch.c");
    return !out->failed && !b->data.failed && !b->gpus.failed && !b->names.failed;
}
