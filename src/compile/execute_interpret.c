/* Runs TL on the caller's arrays: every kernel of a program in order, workspace between them. */
#include "base/needs.h"
#include "check/check.h"
#include "compile/compile.h"
#include "flashtl/execute.h"
#include "interpret/interpret.h"

typedef struct interpret_arguments {
    const ftl_source *source;
    ftl_arithmetic arithmetic;
    const ftl_arguments *arguments;
    LIST(interpret_tensor) tensors;
    LIST(interpret_scalar) scalars;
} interpret_arguments;

/* Extents count elements, and the bits from the lowest to the highest one fit an address. */
static bool is_addressable(const ftl_tensor *t) {
    int64_t bits = (int64_t)ftl_type_bits(t->type), above = bits, below = 0;
    bool has_elements = true;
    for (int32_t k = 0; k < t->axis_count; k++) {
        if (t->extents[k] < 0) return false;
        has_elements &= t->extents[k] > 0;
    }
    for (int32_t k = 0; has_elements && k < t->axis_count; k++) {
        int64_t reach;
        bool overflows = __builtin_mul_overflow(t->extents[k] - 1, t->strides[k], &reach) ||
                         __builtin_mul_overflow(reach, bits, &reach) ||
                         (reach < 0 ? __builtin_add_overflow(below, reach, &below)
                                    : __builtin_add_overflow(above, reach, &above));
        if (overflows) return false;
    }
    uint64_t end;
    above = (above + 7) / 8, below = (below - 7) / 8;
    return !has_elements || !(__builtin_add_overflow(t->address, (uint64_t)above, &end) ||
                              (uint64_t)0 - (uint64_t)below > t->address);
}

static ftl_status take_arguments(ftl_context *context, interpret_arguments *a) {
    arena *memory = &context->memory;
    const ftl_arguments *given = a->arguments;
    for (int32_t i = 0; i < given->tensor_count; i++) {
        const ftl_tensor *t = &given->tensors[i];
        bool is_shaped = t->name && t->axis_count >= 0 && t->axis_count <= TL_AXES_MAX &&
                         t->axis_count <= FTL_AXES_MAX;
        if (!is_shaped) {
            return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                    "tensor %d has no name, or more than %d axes", (int)i,
                                    TL_AXES_MAX);
        }
        interpret_tensor out = {.name = str_copy(memory, str_from(t->name)),
                                .data = (void *)(uintptr_t)t->address,
                                .format = interpret_format(compile_type(t->type)),
                                .axis_count = t->axis_count};
        bool has_elements = true;
        for (int32_t k = 0; k < t->axis_count; k++) {
            out.extents[k] = t->extents[k], out.strides[k] = t->strides[k];
            has_elements &= t->extents[k] > 0;
        }
        if (!is_addressable(t)) {
            return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                    "an extent of '%s' is negative, or its size overflows",
                                    t->name);
        }
        if (has_elements && !out.data) {
            return ftl_context_fail(context, FTL_INVALID_ARGUMENT, "the address of '%s' is null",
                                    t->name);
        }
        list_push(memory, &a->tensors, out);
    }
    for (int32_t i = 0; i < given->scalar_count; i++) {
        if (!given->scalars[i].name) {
            return ftl_context_fail(context, FTL_INVALID_ARGUMENT, "a scalar has no name");
        }
        interpret_scalar s = {str_copy(memory, str_from(given->scalars[i].name)),
                              given->scalars[i].value};
        list_push(memory, &a->scalars, s);
    }
    return FTL_OK;
}

/* --- workspace -------------------------------------------------------------------------------- */

/* The value of a size or scalar, as the arguments of a kernel show it. */
typedef struct lookup {
    const tl_program *program;
    const tl_kernel *kernel;
    const interpret_arguments *arguments;
} lookup;

static interpret_tensor *find_tensor(const interpret_arguments *a, str name) {
    for (int i = 0; i < a->tensors.count; i++) {
        if (str_equal(a->tensors.items[i].name, name)) return &a->tensors.items[i];
    }
    return NULL;
}

/* A length of one name is the same in all kernels. */
static bool is_length(const tl_expr *extent, const tl_symbol *symbol) {
    if (extent->kind != TL_NAME || !extent->symbol) return false;
    if (extent->symbol == symbol) return true;
    return extent->symbol->kind == TL_SYMBOL_SIZE && symbol->kind == TL_SYMBOL_SIZE &&
           str_equal(extent->symbol->name, symbol->name);
}

/* A length that an array of a kernel shows. */
static bool find_length(const tl_kernel *kernel, const interpret_arguments *a,
                        const tl_symbol *symbol, tl_value *value) {
    for (const tl_statement *s = kernel->body.first; s; s = s->next) {
        const interpret_tensor *t = tl_is_parameter(s) ? find_tensor(a, s->parameter.name) : NULL;
        for (int i = 0; t && i < s->parameter.axes.count && i < t->axis_count; i++) {
            if (!is_length(s->parameter.axes.items[i].extent, symbol)) continue;
            *value = (tl_value){.integer = t->extents[i]};
            return true;
        }
    }
    return false;
}

static bool look_up(void *context, const tl_expr *e, tl_value *value) {
    const lookup *l = context;
    const tl_symbol *symbol = e->kind == TL_NAME ? e->symbol : NULL;
    if (!symbol) return false;
    for (int i = 0; i < l->arguments->scalars.count; i++) {
        if (!str_equal(l->arguments->scalars.items[i].name, symbol->name)) continue;
        double real = l->arguments->scalars.items[i].value;
        *value = (tl_value){.is_real = symbol->is_real, .real = real, .integer = (int64_t)real};
        return true;
    }
    if (find_length(l->kernel, l->arguments, symbol, value)) return true;
    /* An array of another kernel may be the only one that shows it. */
    for (const tl_kernel *k = l->program->first; k; k = k->next) {
        if (find_length(k, l->arguments, symbol, value)) return true;
    }
    return false;
}

static bool is_workspace(const tl_statement *s) {
    return s->kind == TL_OUTPUT && s->parameter.symbol && s->parameter.symbol->is_workspace;
}

/* A workspace that is permuted is none of the caller's arrays, which have whole units of its last
 * axis: here it is as long as its axes say, and in their order.
 */
static void leave_permuted(interpret_arguments *a, const tl_program *program) {
    for (const tl_kernel *k = program->first; k; k = k->next)
        for (const tl_statement *s = k->body.first; s; s = s->next) {
            bool is_left = is_workspace(s) && s->parameter.is_permuted;
            interpret_tensor *given = is_left ? find_tensor(a, s->parameter.name) : NULL;
            if (given) *given = a->tensors.items[--a->tensors.count];
        }
}

/* A tensor that kernels pass to one another: dense, in its declared type, or in fp64. */
static ftl_status make_workspace(ftl_context *context, interpret_arguments *a,
                                 const tl_program *program, const tl_kernel *kernel,
                                 const tl_parameter *p) {
    lookup l = {program, kernel, a};
    bool is_exact = a->arithmetic != FTL_ROUNDED;
    interpret_tensor t = {.name = p->name,
                          .axis_count = p->axes.count,
                          .format = is_exact ? CONVERT_F64 : interpret_format(p->type)};
    int64_t count = 1;
    for (int i = p->axes.count - 1; i >= 0; i--) {
        tl_value value;
        bool is_known = tl_evaluate(p->axes.items[i].extent, look_up, &l, &value) && !value.is_real;
        if (!is_known || value.integer < 0 ||
            __builtin_mul_overflow(count, value.integer, &count)) {
            return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                    "the lengths of the workspace '%.*s' are not known",
                                    STR_ARGS(p->name));
        }
        t.extents[i] = value.integer;
        t.strides[i] = value.integer ? count / value.integer : 1;
    }
    t.data = arena_alloc_array(&context->memory, (size_t)count + 1, convert_size(t.format, 1), 16);
    list_push(&context->memory, &a->tensors, t);
    return FTL_OK;
}

static ftl_status make_workspaces(ftl_context *context, interpret_arguments *a,
                                  const tl_program *program, const tl_kernel *kernel) {
    for (const tl_statement *s = kernel->body.first; s; s = s->next) {
        if (!is_workspace(s)) continue;
        ftl_status status = FTL_OK;
        if (!find_tensor(a, s->parameter.name))
            status = make_workspace(context, a, program, kernel, &s->parameter);
        if (status) return status;
        interpret_tensor *t = find_tensor(a, s->parameter.name);
        if (a->arithmetic != FTL_ERRORS || !t || t->errors) continue;
        int64_t count = 1; /* what a kernel passes on errs by as much as it was computed with */
        for (int k = 0; k < t->axis_count; k++) count *= t->extents[k];
        t->errors = arena_array(&context->memory, double, count + 1);
    }
    return FTL_OK;
}

/* --- conditions ------------------------------------------------------------------------------- */

/* "q_heads = 6, kv_heads = 4", as a kernel's launch says it. */
static void describe(const tl_expr *e, lookup *l, text_buffer *out) {
    tl_value value;
    if (!e) return;
    bool is_definition = e->kind == TL_NAME && e->symbol && e->symbol->kind == TL_SYMBOL_CONSTANT;
    if (is_definition) {
        if (!e->symbol->is_known) describe(e->symbol->value, l, out);
    } else if (e->kind == TL_NAME && tl_evaluate(e, look_up, l, &value)) {
        text_format(out, "%s%.*s = ", out->length ? ", " : "", STR_ARGS(e->text));
        if (value.is_real) text_format(out, "%g", value.real);
        else text_format(out, "%lld", (long long)value.integer);
    }
    describe(e->left, l, out);
    describe(e->right, l, out);
    for (int i = 0; i < e->item_count; i++) describe(e->items[i], l, out);
}

/* What a kernel would refuse at its launch is refused here with the same sentence; what cannot be
 * computed is left to the run.
 */
static ftl_status check_conditions(ftl_context *context, const interpret_arguments *a,
                                   const tl_program *program, const tl_kernel *kernel) {
    lookup l = {program, kernel, a};
    for (const tl_statement *s = kernel->body.first; s; s = s->next) {
        const tl_expr *condition = tl_is_parameter(s) ? s->parameter.condition : NULL;
        tl_value value;
        if (!condition || !tl_evaluate(condition, look_up, &l, &value)) continue;
        if (value.is_real ? value.real != 0 : value.integer != 0) continue;
        text_buffer operands;
        text_init_in(&operands, &context->memory);
        describe(condition, &l, &operands);
        str text = tl_expr_text(&context->memory, condition);
        ftl_status status = ftl_context_fail(
            context, FTL_INVALID_ARGUMENT, "kernel '%.*s' demands %.*s; here %s",
            STR_ARGS(kernel->name), STR_ARGS(text), operands.data ? operands.data : "it is not so");
        return status;
    }
    return FTL_OK;
}

/* --- running ---------------------------------------------------------------------------------- */

/* Whole matrices of scores, with their errors: a sketch's tiles are as long as its axes. */
static const size_t INTERPRET_BYTES_MOST = (size_t)3 << 30;

static ftl_status interpret(ftl_context *context, void *arguments) {
    static const interpret_mode modes[] = {[FTL_EXACT] = INTERPRET_EXACT,
                                           [FTL_ROUNDED] = INTERPRET_ROUNDED,
                                           [FTL_ERRORS] = INTERPRET_ERRORS,
                                           [FTL_ERRORS_OF_BYTES] = INTERPRET_ERRORS_OF_BYTES};
    interpret_arguments *a = arguments;
    arena *memory = &context->memory;
    memory->limit_bytes = INTERPRET_BYTES_MOST;
    tl_program *program = compile_bind(context, a->source);
    if (!program) return compile_verdict(context);
    ftl_status status = take_arguments(context, a);
    if (!status) leave_permuted(a, program);
    for (tl_kernel *k = program->first; k && !status; k = k->next) {
        if (!tl_infer_axes(k, memory, &context->diags)) return compile_verdict(context);
        if (a->arithmetic >= FTL_ERRORS && !tl_is_sketch(k)) {
            return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                    "errors are known of sketches; kernel '%.*s' is TL Code",
                                    STR_ARGS(k->name));
        }
        /* elements that are rounded alike are found within a block */
        if (a->arithmetic >= FTL_ERRORS) check_open_sizes(k, memory);
        status = check_conditions(context, a, program, k);
        if (!status) status = make_workspaces(context, a, program, k);
        if (status) break;
        interpret_request request = {.tensors = a->tensors.items,
                                     .tensor_count = a->tensors.count,
                                     .scalars = a->scalars.items,
                                     .scalar_count = a->scalars.count,
                                     .mode = modes[a->arithmetic]};
        interpret_report report = {0};
        bool is_run = interpret_kernel(k, &request, memory, &context->diags, &report);
        status = compile_verdict(context);
        if (!status && report.errors_are_unknown) {
            return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                    "kernel '%.*s' takes elements that err by their indices",
                                    STR_ARGS(k->name));
        }
        if (!status && !is_run) {
            return ftl_context_fail(context, FTL_REJECTED, "kernel '%.*s' cannot be run to its end",
                                    STR_ARGS(k->name));
        }
    }
    return status;
}

ftl_status ftl_interpret(ftl_context *context, const ftl_source *source, ftl_arithmetic arithmetic,
                         const ftl_arguments *arguments) {
    NEEDS(context);
    bool is_complete = source && source->text && arguments &&
                       (arguments->tensor_count <= 0 || arguments->tensors) &&
                       (arguments->scalar_count <= 0 || arguments->scalars);
    if (!is_complete || arithmetic < FTL_EXACT || arithmetic > FTL_ERRORS_OF_BYTES) {
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "the source, the arithmetic or the arguments are missing");
    }
    interpret_arguments a = {.source = source, .arithmetic = arithmetic, .arguments = arguments};
    return compile_guarded(context, interpret, &a);
}
