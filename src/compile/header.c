/* The launch rule of a kernel as a C header, for programs that ship the kernel without the library:
 * the parameter struct, the conditions, the grid. It is made of the plan alone.
 */
#include "base/text.h"
#include "flashtl/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_BYTES_MAX = 1 << 20, STACK_MAX = 64, ENTRIES_MAX = 1024 };

/* --- formulas as C ---------------------------------------------------------------------------- */

/* How an operator is written: "%s" stands for its operands, first to last. */
static const char *c_form(ftl_formula_op op) {
    switch ((int)op) {
    case FTL_ADD: return "(%s + %s)";
    case FTL_SUBTRACT: return "(%s - %s)";
    case FTL_MULTIPLY: return "(%s * %s)";
    case FTL_DIVIDE_UP: return "ftl_quotient_up(%s, %s)";
    case FTL_DIVIDE_DOWN: return "ftl_quotient_down(%s, %s)";
    case FTL_DIVIDE_REAL: return "((double)%s / (double)%s)";
    case FTL_MODULO: return "ftl_remainder(%s, %s)";
    case FTL_MIN: return "ftl_smaller(%s, %s)";
    case FTL_MAX: return "ftl_larger(%s, %s)";
    case FTL_LESS: return "(%s < %s)";
    case FTL_LESS_EQUAL: return "(%s <= %s)";
    case FTL_GREATER: return "(%s > %s)";
    case FTL_GREATER_EQUAL: return "(%s >= %s)";
    case FTL_EQUAL: return "(%s == %s)";
    case FTL_NOT_EQUAL: return "(%s != %s)";
    case FTL_AND: return "(%s && %s)";
    case FTL_OR: return "(%s || %s)";
    case FTL_NEGATE: return "(-%s)";
    case FTL_ABS: return "ftl_larger(%s, -%s)";
    case FTL_NOT: return "(!%s)";
    default: return NULL;
    }
}

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
        bool is_unary = step->op == FTL_NEGATE || step->op == FTL_ABS || step->op == FTL_NOT;
        int count = is_unary ? 1 : 2;
        const char *form = c_form(step->op);
        if (depth < count || !form) return STR("0");
        depth -= count;
        stack[depth] = fill(memory, form, &stack[depth], count);
        depth++;
    }
    return depth == 1 ? stack[0] : STR("0");
}

/* --- the parameter struct ----------------------------------------------------------------------
 */

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
    qsort(out, (size_t)count, sizeof *out, by_offset);
    return count;
}

static void add_struct(arena *memory, const ftl_plan *plan, const char *name, text_buffer *out) {
    field *fields = arena_array(memory, field, ENTRIES_MAX);
    int count = list_fields(memory, plan, fields), padding = 0;
    int32_t end = 0;
    text_format(out, "typedef struct %s_parameters {\n", name);
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
    text_format(out, "} %s_parameters;\n\n", name);
}

/* --- the functions ------------------------------------------------------------------------------
 */

static const char helpers[] = "#ifndef FTL_LAUNCH_ARITHMETIC\n"
                              "#define FTL_LAUNCH_ARITHMETIC\n"
                              "#define ftl_smaller(a, b) ((a) < (b) ? (a) : (b))\n"
                              "#define ftl_larger(a, b) ((a) > (b) ? (a) : (b))\n"
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

/* "int64_t batch, ..., double scale", and "(void)batch; ..." so that none is unused. */
static void add_signature(const ftl_plan *plan, const char *name, const char *type,
                          const char *function, text_buffer *out) {
    text_format(out, "static inline %s %s_%s(", type, name, function);
    const char *comma = "";
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

static void add_functions(arena *memory, const ftl_plan *plan, const char *name, text_buffer *out) {
    text_add_z(out, "/* NULL when a launch is right, else the condition that does not hold. */\n");
    add_signature(plan, name, "const char *", "check", out);
    for (int32_t i = 0; i < plan->condition_count; i++) {
        str condition = formula_text(memory, plan, &plan->conditions[i]);
        text_format(out, "    if (!%.*s) return \"", STR_ARGS(condition));
        add_quoted(out, plan->conditions[i].text);
        text_add_z(out, "\";\n");
    }
    text_add_z(out, "    return 0;\n}\n\n");
    text_add_z(out, "/* Thread blocks of a launch, all along x; 0: nothing to do. */\n");
    add_signature(plan, name, "int64_t", "blocks", out);
    text_add_z(out, "    int64_t blocks = 1;\n");
    for (int32_t i = 0; i < plan->walk_count; i++) {
        str walk = formula_text(memory, plan, &plan->walks[i]);
        text_format(out, "    blocks *= %.*s;\n", STR_ARGS(walk));
    }
    text_add_z(out, "    return blocks;\n}\n");
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
        " * along x with one parameter: the struct, by value. Tensors:\n",
        name, plan->kernel, plan->gpu, plan->target, plan->entry, name);
    add_tensor_notes(plan, out);
    text_add_z(out, " */\n#pragma once\n#include <stdint.h>\n\n");
    text_format(out, "#define %s_ENTRY \"%s\"\n", name, plan->entry);
    text_format(out, "#define %s_THREADS %d\n", name, plan->threads);
    text_format(out, "#define %s_SHARED_BYTES %d\n\n", name, plan->shared_bytes);
    add_struct(memory, plan, name, out);
    text_add_z(out, helpers);
    add_functions(memory, plan, name, out);
}

char *ftl_plan_header(const ftl_plan *plan, const char *name) {
    if (!plan || !name) return NULL;
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
