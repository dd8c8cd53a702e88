/* The launch rule of a kernel as a C header, for programs that ship the kernel without the library:
 * the parameter struct, the conditions, the grid. It is made of the plan alone.
 */
#include "base/text.h"
#include "plan/fields.h"
#include "plan/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_BYTES_MAX = 1 << 20, STACK_MAX = 64, ENTRIES_MAX = 1024 };

/* --- formulas as C ---------------------------------------------------------------------------- */

static str operand(arena *memory, const ftl_plan *plan, const ftl_formula_step *step) {
    switch ((int)step->op) {
    case FTL_PUSH_INTEGER: return str_format(memory, "%" PRId64, step->integer);
    case FTL_PUSH_NUMBER: return str_format(memory, "%.17g", step->number);
    case FTL_PUSH_SIZE: return str_format(memory, "%s", plan->sizes[step->index].name);
    default: return str_format(memory, "%s", plan->scalars[step->index].name);
    }
}

/* Fills the form's "%s" with the operands in turn. */
static str fill(arena *memory, const char *form, const str *operands, int count) {
    text_buffer text;
    text_init(&text, HEADER_BYTES_MAX);
    int next = 0;
    for (const char *c = form; *c; c++) {
        if (c[0] == '%' && c[1] == 's') {
            text_add(&text, operands[next < count ? next++ : count - 1]);
            c++;
        } else {
            text_add(&text, (str){c, 1});
        }
    }
    str filled = str_copy(memory, text_str(&text));
    text_done(&text);
    return filled;
}

static str formula_text(arena *memory, const ftl_plan *plan, const ftl_formula *formula) {
    str stack[STACK_MAX];
    int depth = 0;
    for (int32_t i = 0; i < formula->step_count; i++) {
        const ftl_formula_step *step = &formula->steps[i];
        if (step->op <= FTL_PUSH_SCALAR) {
            if (depth == STACK_MAX) return STR("0");
            stack[depth++] = operand(memory, plan, step);
            continue;
        }
        const plan_operator *known = plan_operator_of(step->op);
        int count = known ? known->operands : 0;
        if (!count || depth < count) return STR("0");
        depth -= count;
        stack[depth] = fill(memory, known->c_form, &stack[depth], count);
        depth++;
    }
    return depth == 1 ? stack[0] : STR("0");
}

/* --- the parameter struct --------------------------------------------------------------------- */

typedef struct field {
    int32_t offset, bytes;
    str declaration;
} field;

static int by_offset(const void *a, const void *b) {
    int32_t left = ((const field *)a)->offset, right = ((const field *)b)->offset;
    return (left > right) - (left < right);
}

static int list_fields(arena *memory, const ftl_plan *plan, field *out) {
    int count = 0;
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        const ftl_plan_tensor *tensor = &plan->tensors[t];
        out[count++] = (field){tensor->pointer_offset, 8,
                               str_format(memory, "uint64_t %s; /* device address, %s */",
                                          tensor->name, ftl_type_name(tensor->type))};
        for (int32_t i = 0; i < tensor->axis_count; i++) {
            if (tensor->axes[i].stride_offset < 0) continue;
            out[count++] = (field){tensor->axes[i].stride_offset, 8,
                                   str_format(memory, "int64_t %s_stride_%s; /* elements */",
                                              tensor->name, tensor->axes[i].name)};
        }
    }
    for (int32_t i = 0; i < plan->size_count; i++) {
        if (plan->sizes[i].offset < 0) continue;
        out[count++] = (field){plan->sizes[i].offset, 4,
                               str_format(memory, "int32_t %s;", plan->sizes[i].name)};
    }
    for (int32_t i = 0; i < plan->scalar_count; i++) {
        const char *type = plan->scalars[i].type == FTL_I32 ? "int32_t" : "float";
        out[count++] = (field){plan->scalars[i].offset, 4,
                               str_format(memory, "%s %s;", type, plan->scalars[i].name)};
    }
    for (int32_t i = 0; i < plan->derived_count; i++) {
        const ftl_plan_derived *d = &plan->derived[i];
        bool is_divisor = d->kind == FTL_DERIVED_DIVISOR;
        out[count++] =
            (field){d->offset, is_divisor ? 8 : 4,
                    is_divisor ? str_format(memory, "uint32_t %s[2]; /* _derive */", d->name)
                               : str_format(memory, "int32_t %s; /* _derive */", d->name)};
    }
    if (plan->grid_kind == FTL_GRID_DYNAMIC) {
        out[count++] = (field){
            plan->counters_offset, 8,
            STR("uint64_t tile_counters; /* device address: two uint32_t, 0 before the first "
                "launch; not shared by launches that run at one time */")};
    }
    for (int32_t i = 0; i < plan->map_count; i++) {
        out[count++] = (field){
            plan->maps[i].offset, FTL_MAP_BYTES,
            str_format(memory, "unsigned char %s[%d] __attribute__((aligned(64))); /* _describe */",
                       plan->maps[i].name, FTL_MAP_BYTES)};
    }
    qsort(out, (size_t)count, sizeof *out, by_offset);
    return count;
}

static void add_struct(arena *memory, const ftl_plan *plan, const char *name, text_buffer *out) {
    field *fields = arena_array(memory, field, ENTRIES_MAX);
    int count = list_fields(memory, plan, fields), padding = 0;
    int32_t end = 0;
    text_format(out, "typedef struct %s_arguments {\n", name);
    for (int i = 0; i < count; i++) {
        if (fields[i].offset > end) {
            text_format(out, "    unsigned char padding_%d[%d];\n", padding++,
                        (int)(fields[i].offset - end));
        }
        text_format(out, "    %.*s\n", STR_ARGS(fields[i].declaration));
        end = fields[i].offset + fields[i].bytes;
    }
    if (plan->parameter_bytes > end) {
        text_format(out, "    unsigned char padding_%d[%d];\n", padding,
                    (int)(plan->parameter_bytes - end));
    }
    text_format(out, "} %s_arguments;\n\n", name);
}

/* --- the functions ---------------------------------------------------------------------------- */

/* What several headers share stands in each, and counts once: they may meet in one file. */

/* min and max as the language has them: of numbers and NaN, of the numbers. Operands are int64_t or
 * double.
 */
static const char arithmetic[] =
    "#ifndef FTL_LAUNCH_ARITHMETIC\n"
    "#define FTL_LAUNCH_ARITHMETIC\n"
    "static inline int ftl_is_number(double a) {\n"
    "    return a == a;\n"
    "}\n"
    "#define ftl_smaller(a, b) ((a) <= (b) || !ftl_is_number((double)(b)) ? (a) : (b))\n"
    "#define ftl_larger(a, b) ((a) >= (b) || !ftl_is_number((double)(b)) ? (a) : (b))\n"
    "static inline int64_t ftl_quotient_down(int64_t a, int64_t b) {\n"
    "    if (b == 0) return 0;\n"
    "    return a / b - (a % b != 0 && (a < 0) != (b < 0));\n"
    "}\n"
    "static inline int64_t ftl_quotient_up(int64_t a, int64_t b) {\n"
    "    if (b == 0) return 0;\n"
    "    return a / b + (a % b != 0 && (a < 0) == (b < 0));\n"
    "}\n"
    "static inline int64_t ftl_remainder(int64_t a, int64_t b) {\n"
    "    return b == 0 ? a : a - ftl_quotient_down(a, b) * b;\n"
    "}\n"
    "#endif\n\n";

static const char set_divisor[] =
    "\n#ifndef FTL_LAUNCH_DIVISOR\n"
    "#define FTL_LAUNCH_DIVISOR\n"
    "static inline void ftl_set_divisor(uint32_t words[2], int64_t divisor) {\n"
    "    words[1] = 0;\n"
    "    while (((int64_t)1 << words[1]) < divisor) words[1]++;\n"
    "    words[0] = divisor < 1 ? 0\n"
    "                           : (uint32_t)((((uint64_t)1 << (31 + words[1])) +\n"
    "                                         (uint64_t)divisor - 1) /\n"
    "                                        (uint64_t)divisor);\n"
    "}\n"
    "#endif\n";

static const char map_encode[] =
    "\n#ifndef FTL_LAUNCH_MAPS\n"
    "#define FTL_LAUNCH_MAPS\n"
    "/* The driver's cuTensorMapEncodeTiled. */\n"
    "typedef int (*ftl_map_encode)(void *map, int type, uint32_t rank, void *address,\n"
    "                              const uint64_t *extents, const uint64_t *strides,\n"
    "                              const uint32_t *box, const uint32_t *steps,\n"
    "                              int interleave, int swizzle, int promotion, int fill);\n"
    "#endif\n";

/* "int64_t batch, ..., double scale", and "(void)batch; ..." so that none is unused. */
static void add_signature(const ftl_plan *plan, const char *name, const char *type,
                          const char *function, const char *first, text_buffer *out) {
    text_format(out, "static inline %s %s_%s(", type, name, function);
    const char *comma = "";
    if (*first) text_format(out, first, name), comma = ", ";
    for (int32_t i = 0; i < plan->size_count; i++, comma = ", ") {
        text_format(out, "%sint64_t %s", comma, plan->sizes[i].name);
    }
    for (int32_t i = 0; i < plan->scalar_count; i++, comma = ", ") {
        text_format(out, "%sdouble %s", comma, plan->scalars[i].name);
    }
    text_add_z(out, *comma ? ") {\n" : "void) {\n");
    for (int32_t i = 0; i < plan->size_count; i++) {
        text_format(out, "    (void)%s;\n", plan->sizes[i].name);
    }
    for (int32_t i = 0; i < plan->scalar_count; i++) {
        text_format(out, "    (void)%s;\n", plan->scalars[i].name);
    }
}

/* Text inside a C string. */
static void add_quoted(text_buffer *out, const char *text) {
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') text_add_z(out, "\\");
        text_add(out, (str){text, 1});
    }
}

/* "batch, ..., scale);\n" */
static void add_arguments(const ftl_plan *plan, text_buffer *out) {
    const char *comma = "";
    for (int32_t i = 0; i < plan->size_count; i++, comma = ", ")
        text_format(out, "%s%s", comma, plan->sizes[i].name);
    for (int32_t i = 0; i < plan->scalar_count; i++, comma = ", ")
        text_format(out, "%s%s", comma, plan->scalars[i].name);
    text_add_z(out, ");\n");
}

/* --- kernels whose blocks walk tiles, and tensor maps ----------------------------------------- */

static void add_derive(arena *memory, const ftl_plan *plan, const char *name, text_buffer *out) {
    text_add_z(out, set_divisor);
    text_add_z(out, "\n/* Parameters that the launch derives: call it for every launch. */\n");
    add_signature(plan, name, "void", "derive", "%s_arguments *p", out);
    for (int32_t i = 0; i < plan->derived_count; i++) {
        const ftl_plan_derived *d = &plan->derived[i];
        str value = formula_text(memory, plan, &d->formula);
        if (d->kind == FTL_DERIVED_TILES) {
            text_format(out, "    p->%s = (int32_t)%s_tiles(", d->name, name);
            add_arguments(plan, out);
        } else if (d->kind == FTL_DERIVED_DIVISOR) {
            text_format(out, "    ftl_set_divisor(p->%s, %.*s);\n", d->name, STR_ARGS(value));
        } else {
            text_format(out, "    p->%s = (int32_t)%.*s;\n", d->name, STR_ARGS(value));
        }
    }
    text_add_z(out, "}\n");
}

static void add_map(arena *memory, const ftl_plan *plan, const ftl_plan_map *map,
                    text_buffer *out) {
    const ftl_plan_tensor *tensor = &plan->tensors[map->tensor];
    int bytes = (int)ftl_type_bytes(tensor->type), swizzle = 0;
    text_buffer extents, strides, box;
    text_init(&extents, HEADER_BYTES_MAX);
    text_init(&strides, HEADER_BYTES_MAX);
    text_init(&box, HEADER_BYTES_MAX);
    for (int32_t i = 0; i < map->rank; i++) {
        const ftl_map_dimension *d = &map->dimensions[i];
        const ftl_plan_axis *axis = &tensor->axes[d->axis];
        str extent = formula_text(memory, plan, &axis->extent);
        const char *comma = i ? ", " : "";
        if (d->is_panel_number)
            text_format(&extents, "%s(uint64_t)ftl_quotient_up(%.*s, %d)", comma, STR_ARGS(extent),
                        d->panel);
        else if (d->panel)
            text_format(&extents, "%s(uint64_t)ftl_smaller(%.*s, %d)", comma, STR_ARGS(extent),
                        d->panel);
        else text_format(&extents, "%s(uint64_t)(%.*s)", comma, STR_ARGS(extent));
        text_format(&box, "%s%d", comma, d->box);
        if (i && d->is_panel_number)
            text_format(&strides, "%s%d", i > 1 ? ", " : "", d->panel * bytes);
        else if (i)
            text_format(&strides, "%s(uint64_t)p->%s_stride_%s * %d", i > 1 ? ", " : "",
                        tensor->name, axis->name, bytes);
    }
    while (swizzle < 3 && 16 << swizzle < map->swizzle_bytes) swizzle++;
    text_format(out,
                "    {\n        const uint64_t extents[] = {%s}, strides[] = {%s};\n"
                "        const uint32_t box[] = {%s}, steps[] = {1, 1, 1, 1, 1};\n"
                "        int error = encode(p->%s, %d, %d, (void *)(uintptr_t)p->%s, extents, "
                "strides, box, steps, 0, %d, 3, 0);\n"
                "        if (error) return error;\n    }\n",
                extents.data, strides.data, box.data, map->name, plan_map_type(tensor->type),
                map->rank, tensor->name, swizzle);
    text_done(&extents);
    text_done(&strides);
    text_done(&box);
}

static void add_describe(arena *memory, const ftl_plan *plan, const char *name, text_buffer *out) {
    text_add_z(out, map_encode);
    text_add_z(out,
               "\n/* Tensor maps: call it when addresses and strides are set and whenever they "
               "or a length change.\n * The result is the error of 'encode'. Tensors have "
               "elements.\n */\n");
    add_signature(plan, name, "int", "describe", "%s_arguments *p, ftl_map_encode encode", out);
    for (int32_t i = 0; i < plan->map_count; i++) add_map(memory, plan, &plan->maps[i], out);
    text_add_z(out, "    return 0;\n}\n");
}

static void add_functions(arena *memory, const ftl_plan *plan, const char *name, text_buffer *out) {
    text_add_z(out, "/* NULL when a launch is right, else the condition that does not hold. */\n");
    add_signature(plan, name, "const char *", "check", "", out);
    for (int32_t i = 0; i < plan->condition_count; i++) {
        str condition = formula_text(memory, plan, &plan->conditions[i]);
        text_format(out, "    if (!%.*s) return \"", STR_ARGS(condition));
        add_quoted(out, plan->conditions[i].text);
        text_add_z(out, "\";\n");
    }
    text_add_z(out, "    return 0;\n}\n\n");
    bool is_plain = plan->grid_kind == FTL_GRID_PLAIN;
    text_add_z(out, "/* Tiles of the grid. */\n");
    add_signature(plan, name, "int64_t", "tiles", "", out);
    text_add_z(out, "    int64_t tiles = 1;\n");
    for (int32_t i = 0; i < plan->walk_count; i++) {
        str walk = formula_text(memory, plan, &plan->walks[i]);
        text_format(out, "    tiles *= %.*s;\n", STR_ARGS(walk));
    }
    text_add_z(out, "    return tiles;\n}\n\n");
    text_add_z(out, "/* Thread blocks of a launch, all along x; 0: nothing to do. */\n");
    add_signature(plan, name, "int64_t", "blocks", "", out);
    text_format(out, "    int64_t tiles = %s_tiles(", name);
    add_arguments(plan, out);
    if (is_plain) text_add_z(out, "    return tiles;\n}\n");
    else
        text_format(out, "    return ftl_smaller(tiles, %d); /* as many as are resident */\n}\n",
                    plan->resident_blocks);
    if (plan->derived_count) add_derive(memory, plan, name, out);
    if (plan->map_count) add_describe(memory, plan, name, out);
}

static void add_tensor_notes(const ftl_plan *plan, text_buffer *out) {
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        const ftl_plan_tensor *tensor = &plan->tensors[t];
        text_format(out, " *   %-8s %s (", tensor->name, ftl_type_name(tensor->type));
        for (int32_t i = 0; i < tensor->axis_count; i++) {
            text_format(out, "%s%s in %s", i ? ", " : "", tensor->axes[i].name,
                        tensor->axes[i].extent.text);
        }
        text_format(out, "), aligned to %d bytes%s\n", tensor->alignment_bytes,
                    tensor->axis_count && tensor->axes[tensor->axis_count - 1].stride_offset < 0
                        ? ", last stride 1"
                        : "");
    }
}

static void add_header(arena *memory, const ftl_plan *plan, const char *name, text_buffer *out) {
    text_format(
        out,
        "/* %s.h: how to launch kernel '%s', made by FlashTL for %s (%s).\n *\n"
        " * Load %s from the cubin or PTX, set its dynamic shared memory to the bytes below\n"
        " * (CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES), and launch %s_blocks() blocks\n"
        " * along x with one parameter: the struct, by value.%s%s Tensors:\n",
        name, plan->kernel, plan->gpu, plan->target, plan->entry, name,
        plan->map_count       ? " First _derive and _describe it."
        : plan->derived_count ? " First _derive it."
                              : "",
        plan->is_early
            ? "\n * It waits for earlier kernels by itself: with the launch attribute\n"
              " * CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION it begins while they end."
            : "");
    add_tensor_notes(plan, out);
    text_add_z(out, " */\n#pragma once\n#include <stdint.h>\n\n");
    text_format(out, "#define %s_ENTRY \"%s\"\n", name, plan->entry);
    text_format(out, "#define %s_THREADS %d\n", name, plan->threads);
    text_format(out, "#define %s_SHARED_BYTES %d\n\n", name, plan->shared_bytes);
    add_struct(memory, plan, name, out);
    text_add_z(out, arithmetic);
    add_functions(memory, plan, name, out);
}

char *ftl_plan_header(const ftl_plan *plan, const char *name) {
    if (!plan_is_identifier(name) || !ftl_plan_check(plan, NULL)) return NULL;
    arena memory;
    text_buffer out;
    jmp_buf exhausted;
    arena_init(&memory, 16 << 20);
    text_init(&out, HEADER_BYTES_MAX);
    bool is_done = false;
    if (!setjmp(exhausted)) {
        memory.on_exhausted = &exhausted;
        add_header(&memory, plan, name, &out);
        is_done = !out.failed;
    }
    arena_done(&memory);
    if (is_done) return out.data;
    text_done(&out);
    return NULL;
}
