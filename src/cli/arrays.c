#include "cli/arrays.h"

#include "base/convert.h"
#include "base/number.h"
#include "cli/cli.h"
#include "verify/buffer.h"
#include "verify/plan_find.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROW_BYTES = 16 };
static const int64_t TENSOR_BYTES_MAX = (int64_t)1 << 34;

__attribute__((format(printf, 3, 4))) static int fail(os_error *why, int exit_status,
                                                      const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    number_print_list(why->text, sizeof why->text, format, arguments);
    va_end(arguments);
    return exit_status;
}

static int no_memory(os_error *why, const char *name) {
    return fail(why, EXIT_ENVIRONMENT, "out of memory for '%s'", name);
}

array *arrays_find(arrays *all, const char *name) {
    for (int i = 0; i < all->count; i++) {
        if (strcmp(all->items[i].name, name) == 0) return &all->items[i];
    }
    return NULL;
}

/* The array of that name, made when there is none. */
static array *need(arrays *all, str name, os_error *why) {
    char copy[64];
    snprintf(copy, sizeof copy, "%.*s", STR_ARGS(name));
    array *found = arrays_find(all, copy);
    if (found) return found;
    if (all->count == ARRAYS_MAX) {
        fail(why, EXIT_USAGE, "more than %d arrays", ARRAYS_MAX);
        return NULL;
    }
    found = &all->items[all->count++];
    memcpy(found->name, copy, sizeof copy);
    return found;
}

/* --- files ------------------------------------------------------------------------------------ */

int arrays_read(arrays *all, const char *const *in, int in_count, const char *const *out,
                int out_count, os_error *why) {
    for (int i = 0; i < in_count; i++) {
        str path = str_from(in[i]), name = str_cut(&path, '=');
        if (!name.length || !path.length)
            return fail(why, EXIT_USAGE, "'--in' is NAME=FILE; found '%s'", in[i]);
        array *item = need(all, name, why);
        if (!item) return EXIT_USAGE;
        if (item->file.data) return fail(why, EXIT_USAGE, "'%s' is given twice", item->name);
        bool is_there = false;
        if (!npy_read(path.data, &item->file, &is_there, why))
            return is_there ? EXIT_REJECTED : EXIT_ENVIRONMENT;
    }
    for (int i = 0; i < out_count; i++) {
        str path = str_from(out[i]), name = str_cut(&path, '=');
        if (!name.length || !path.length) {
            return fail(why, EXIT_USAGE, "'--out' is NAME=FILE; found '%s'", out[i]);
        }
        array *item = need(all, name, why);
        if (!item) return EXIT_USAGE;
        if (item->out_path) return fail(why, EXIT_USAGE, "'%s' is given twice", item->name);
        item->out_path = path.data;
    }
    return EXIT_DONE;
}

/* --- sizes ------------------------------------------------------------------------------------ */

typedef struct sizes {
    int64_t values[64];
    const char *from[64]; /* tensor that gave it; NULL: not known */
} sizes;

static int bind_sizes(const arrays *all, const ftl_plan *plan, sizes *out, os_error *why) {
    *out = (sizes){0};
    for (int32_t i = 0; i < plan->size_count && i < 64; i++) {
        for (int k = 0; k < all->scalar_count; k++) {
            if (strcmp(all->scalars[k].name, plan->sizes[i].name) != 0) continue;
            out->values[i] = (int64_t)all->scalars[k].value;
            out->from[i] = "--let";
        }
    }
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        const ftl_plan_tensor *tensor = &plan->tensors[t];
        const array *item = arrays_find((arrays *)(uintptr_t)all, tensor->name);
        if (!item || (!item->file.data && !item->memory)) continue;
        int32_t axis_count = item->file.data ? item->file.axis_count : item->tensor.axis_count;
        const int64_t *extents = item->file.data ? item->file.extents : item->tensor.extents;
        if (axis_count != tensor->axis_count) {
            return fail(why, EXIT_REJECTED, "'%s' has %d axes; its array has %d", tensor->name,
                        tensor->axis_count, axis_count);
        }
        for (int32_t i = 0; i < axis_count; i++) {
            int32_t size = tensor->axes[i].size;
            if (size < 0 || size >= 64) continue;
            if (out->from[size] && out->values[size] != extents[i]) {
                return fail(why, EXIT_REJECTED,
                            "'%s' is %" PRId64 " in %s and %" PRId64 " in %s (axis %s)",
                            plan->sizes[size].name, out->values[size], out->from[size], extents[i],
                            tensor->name, tensor->axes[i].name);
            }
            out->values[size] = extents[i];
            out->from[size] = tensor->name;
        }
    }
    return EXIT_DONE;
}

/* Lengths that no array of a kernel has, from those of the program's other kernels. */
static int bind_others(const arrays *all, const ftl_plan *plan, const ftl_plan *program, sizes *out,
                       os_error *why) {
    sizes others;
    bool is_known = true;
    for (int32_t i = 0; i < plan->size_count && i < 64; i++) is_known &= out->from[i] != NULL;
    if (is_known || plan == program) return EXIT_DONE;
    int exit_status = bind_sizes(all, program, &others, why);
    for (int32_t i = 0; !exit_status && i < plan->size_count && i < 64; i++) {
        int32_t other = plan_find_size(program, plan->sizes[i].name);
        if (out->from[i] || other < 0 || other >= 64) continue;
        out->values[i] = others.values[other];
        out->from[i] = others.from[other];
    }
    return exit_status;
}

static int extent_of(const ftl_plan *plan, const ftl_plan_tensor *tensor, int32_t axis,
                     const sizes *known, int64_t *extent, os_error *why) {
    static const double no_scalars[64];
    const ftl_formula *formula = &tensor->axes[axis].extent;
    for (int32_t i = 0; i < formula->step_count; i++) {
        const ftl_formula_step *step = &formula->steps[i];
        if (step->op != FTL_PUSH_SIZE || known->from[step->index]) continue;
        const char *name = plan->sizes[step->index].name;
        return fail(why, EXIT_USAGE,
                    "'%s' of '%s' is not known: no input has it; give it by --let %s=N", name,
                    tensor->name, name);
    }
    double value;
    if (!ftl_formula_evaluate(formula, known->values, no_scalars, &value) || value < 0) {
        return fail(why, EXIT_REJECTED, "the length '%s' of '%s' cannot be computed", formula->text,
                    tensor->name);
    }
    *extent = (int64_t)value;
    return EXIT_DONE;
}

/* --- memory ----------------------------------------------------------------------------------- */

static int lay_out(array *item, const ftl_plan_tensor *tensor, os_error *why) {
    int64_t bits = (int64_t)ftl_type_bits(tensor->type), stride = 1;
    int64_t unit = ROW_BYTES * 8 / bits;
    for (int32_t i = tensor->axis_count - 1; i >= 0; i--) {
        item->tensor.strides[i] = stride;
        int64_t extent = item->tensor.extents[i] ? item->tensor.extents[i] : 1;
        bool overflows =
            __builtin_mul_overflow(stride, extent, &stride) || stride > TENSOR_BYTES_MAX * 8 / bits;
        if (overflows) return fail(why, EXIT_REJECTED, "'%s' is larger than 16 GiB", tensor->name);
        if (i == tensor->axis_count - 1) stride = (stride + unit - 1) / unit * unit;
    }
    item->bytes = (size_t)((stride * bits + 7) / 8 + ROW_BYTES);
    item->memory = aligned_alloc(256, (item->bytes + 255) / 256 * 256);
    if (!item->memory) return no_memory(why, tensor->name);
    memset(item->memory, 0xff, item->bytes); /* NaN in every format: what is not written shows */
    item->tensor.address = (uint64_t)(uintptr_t)item->memory;
    return EXIT_DONE;
}

/* Visits every index of a tensor, the last axis fastest; 'offsets' are in elements. */
static void copy_in(const array *item, convert_format format) {
    const ftl_tensor *tensor = &item->tensor;
    int64_t index[FTL_AXES_MAX] = {0}, count = item->file.count;
    for (int64_t done = 0; done < count; done++) {
        int64_t from = 0, to = 0;
        for (int32_t i = 0; i < tensor->axis_count; i++) {
            from += index[i] * item->file.strides[i];
            to += index[i] * tensor->strides[i];
        }
        double value = npy_element(&item->file, from);
        convert_store(format, &value, 1, item->memory, to, 1);
        for (int32_t i = tensor->axis_count - 1; i >= 0 && ++index[i] == tensor->extents[i]; i--) {
            index[i] = 0;
        }
    }
}

/* About N(0,1): the sum of twelve numbers of [0,1), less six; the same on every machine. */
static void draw(const array *item, ftl_type type) {
    convert_format format = buffer_format(type);
    uint64_t state = 88172645463325252u;
    int64_t count = (int64_t)(item->bytes * 8 / convert_bits(format));
    for (int64_t i = 0; i < count; i++) {
        double value = -6;
        for (int k = 0; k < 12; k++) {
            state ^= state << 13, state ^= state >> 7, state ^= state << 17;
            value += (double)(state >> 11) / 9007199254740992.0;
        }
        value *= buffer_spread(type);
        convert_store(format, &value, 1, item->memory, i, 1);
    }
}

static int place_tensor(arrays *all, const ftl_plan *plan, const ftl_plan_tensor *tensor,
                        const sizes *known, bool invents, os_error *why) {
    array *item = need(all, str_from(tensor->name), why);
    if (!item) return EXIT_USAGE;
    if (item->memory) return EXIT_DONE;
    if (tensor->role == FTL_INPUT && !item->file.data && !invents) {
        return fail(why, EXIT_USAGE, "input '%s' is missing: --in %s=FILE", tensor->name,
                    tensor->name);
    }
    /* An Output's array is what its Copies add to, or leave as it is; without one that is 0. */
    if (tensor->role != FTL_INPUT && tensor->role != FTL_OUTPUT && item->file.data) {
        return fail(why, EXIT_USAGE, "'%s' is neither an Input nor an Output", tensor->name);
    }
    item->tensor =
        (ftl_tensor){.name = item->name, .type = tensor->type, .axis_count = tensor->axis_count};
    for (int32_t i = 0; i < tensor->axis_count; i++) {
        int exit_status = extent_of(plan, tensor, i, known, &item->tensor.extents[i], why);
        if (exit_status) return exit_status;
        if (item->file.data && item->file.extents[i] != item->tensor.extents[i]) {
            return fail(why, EXIT_REJECTED,
                        "axis %s of '%s' must have the length %s = %" PRId64
                        "; its array has %" PRId64,
                        tensor->axes[i].name, tensor->name, tensor->axes[i].extent.text,
                        item->tensor.extents[i], item->file.extents[i]);
        }
    }
    int exit_status = lay_out(item, tensor, why);
    if (exit_status) return exit_status;
    if (item->file.data) copy_in(item, buffer_format(tensor->type));
    else if (tensor->is_sum || tensor->is_kept) memset(item->memory, 0, item->bytes);
    else if (tensor->role == FTL_INPUT) draw(item, tensor->type);
    return EXIT_DONE;
}

static int place_all(arrays *all, const ftl_plan *plan, const ftl_plan *program, bool invents,
                     os_error *why) {
    sizes known;
    int exit_status = bind_sizes(all, plan, &known, why);
    if (!exit_status && program != plan) exit_status = bind_others(all, plan, program, &known, why);
    for (int32_t t = 0; t < plan->tensor_count && !exit_status; t++) {
        exit_status = place_tensor(all, plan, &plan->tensors[t], &known, invents, why);
    }
    return exit_status;
}

int arrays_place(arrays *all, const ftl_plan *plan, const ftl_plan *program, os_error *why) {
    return place_all(all, plan, program, false, why);
}

/* --- what nobody gave ------------------------------------------------------------------------- */

bool arrays_has_scalar(const arrays *all, const char *name) {
    for (int i = 0; i < all->scalar_count; i++) {
        if (strcmp(all->scalars[i].name, name) == 0) return true;
    }
    return false;
}

void arrays_give(arrays *all, const char *name, double value) {
    if (all->scalar_count == ARRAYS_MAX) return;
    all->scalars[all->scalar_count++] = (ftl_scalar){name, value};
}

/* Whether an array that was given has this length on one of its axes. */
static bool is_known(arrays *all, const ftl_plan *plan, int32_t size) {
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        const ftl_plan_tensor *tensor = &plan->tensors[t];
        const array *item = arrays_find(all, tensor->name);
        if (!item || !item->file.data) continue;
        for (int32_t i = 0; i < tensor->axis_count; i++) {
            if (tensor->axes[i].size == size) return true;
        }
    }
    return false;
}

void arrays_invent_sizes(arrays *all, const ftl_plan *plan) {
    enum { ROWS = 100, OTHERS = 2 };
    for (int32_t i = 0; i < plan->size_count; i++) {
        if (arrays_has_scalar(all, plan->sizes[i].name) || is_known(all, plan, i)) continue;
        bool is_rows = false;
        for (int32_t t = 0; t < plan->tensor_count; t++) {
            const ftl_plan_tensor *tensor = &plan->tensors[t];
            for (int32_t k = tensor->axis_count - 2; k >= 0 && k < tensor->axis_count; k++) {
                is_rows |= tensor->axes[k].size == i && tensor->axis_count > 1;
            }
        }
        arrays_give(all, plan->sizes[i].name, is_rows ? ROWS : OTHERS);
    }
    for (int32_t i = 0; i < plan->scalar_count; i++) {
        if (!arrays_has_scalar(all, plan->scalars[i].name))
            arrays_give(all, plan->scalars[i].name, 1);
    }
}

int arrays_invent(arrays *all, const ftl_plan *plan, os_error *why) {
    return place_all(all, plan, plan, true, why);
}

/* --- arguments and results -------------------------------------------------------------------- */

ftl_arguments arrays_arguments(const arrays *all, const ftl_plan *plan, ftl_tensor *tensors,
                               ftl_scalar *scalars, bool on_device) {
    ftl_arguments arguments = {.tensors = tensors, .scalars = scalars};
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        const array *item = arrays_find((arrays *)(uintptr_t)all, plan->tensors[t].name);
        if (!item) continue;
        tensors[arguments.tensor_count] = item->tensor;
        if (on_device) tensors[arguments.tensor_count].address = item->device;
        arguments.tensor_count++;
    }
    for (int i = 0; i < all->scalar_count; i++) {
        const char *name = all->scalars[i].name;
        if (plan_find_scalar(plan, name) < 0 && plan_find_size(plan, name) < 0) continue;
        scalars[arguments.scalar_count++] = all->scalars[i];
    }
    return arguments;
}

/* NumPy has no bf16: its bits go into a u2, 8-bit floats into an f4. */
static npy_type npy_type_of(ftl_type type) {
    switch (type) {
    case FTL_F16: return NPY_F2;
    case FTL_BF16: return NPY_U2;
    case FTL_I32: return NPY_I4;
    case FTL_F32:
    case FTL_E4M3:
    case FTL_E5M2: return NPY_F4;
    case FTL_I8:
    case FTL_I4: return NPY_I1;
    case FTL_U4: return NPY_U1;
    }
    return NPY_F4;
}

static int write_one(const array *item, os_error *why) {
    const ftl_tensor *tensor = &item->tensor;
    npy_type type = npy_type_of(tensor->type);
    convert_format format = buffer_format(tensor->type);
    size_t bytes = npy_type_bytes(type), element_bytes = convert_size(format, 1);
    int64_t rows = 1, length = tensor->axis_count ? tensor->extents[tensor->axis_count - 1] : 1;
    for (int32_t i = 0; i + 1 < tensor->axis_count; i++) rows *= tensor->extents[i];
    unsigned char *dense = malloc((size_t)(rows * length) * bytes + 1);
    if (!dense) return no_memory(why, item->name);
    int64_t pitch = tensor->axis_count > 1 ? tensor->strides[tensor->axis_count - 2] : length;
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t k = 0; k < length; k++) {
            const unsigned char *from = item->memory + (size_t)(row * pitch + k) * element_bytes;
            unsigned char *to = dense + (size_t)(row * length + k) * bytes;
            if (bytes == element_bytes) {
                memcpy(to, from, bytes);
            } else {
                double value;
                convert_load(format, from, 0, 1, 1, &value);
                float single = (float)value;
                memcpy(to, &single, sizeof single);
            }
        }
    }
    bool is_written =
        npy_write(item->out_path, type, tensor->axis_count, tensor->extents, dense, why);
    free(dense);
    return is_written ? EXIT_DONE : EXIT_ENVIRONMENT;
}

int arrays_write(const arrays *all, os_error *why) {
    for (int i = 0; i < all->count; i++) {
        const array *item = &all->items[i];
        if (!item->out_path) continue;
        if (!item->memory)
            return fail(why, EXIT_USAGE, "the program has no tensor '%s'", item->name);
        int exit_status = write_one(item, why);
        if (exit_status) return exit_status;
    }
    return EXIT_DONE;
}

void arrays_done(arrays *all) {
    for (int i = 0; i < all->count; i++) {
        free(all->items[i].memory);
        if (all->items[i].file.data) npy_done(&all->items[i].file);
        all->items[i] = (array){0};
    }
    all->count = 0;
}
