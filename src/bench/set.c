#include "bench/set.h"

#include "base/convert.h"
#include "verify/plan_find.h"
#include "verify/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NOISE_VALUES = 1048573, NOISE_SEED = 7, ALIGNMENT = 256 };

static int kind_of(ftl_type type) {
    return type == FTL_F16 ? 0 : type == FTL_BF16 ? 1 : 2;
}

bool set_noise_make(set_noise *noise) {
    static const convert_format formats[] = {CONVERT_F16, CONVERT_BF16, CONVERT_F32};
    double *exact = malloc(NOISE_VALUES * sizeof *exact);
    bool is_made = exact != NULL;
    memset(noise, 0, sizeof *noise);
    if (is_made) random_normal(NOISE_SEED, 0, 0, NOISE_VALUES, exact);
    for (int i = 0; is_made && i < 3; i++) {
        noise->bits[i] = malloc(NOISE_VALUES * convert_bytes(formats[i]));
        noise->values[i] = malloc(NOISE_VALUES * sizeof *noise->values[i]);
        is_made = noise->bits[i] && noise->values[i];
        if (!is_made) break;
        convert_store(formats[i], exact, NOISE_VALUES, noise->bits[i], 1);
        convert_load(formats[i], noise->bits[i], 1, NOISE_VALUES, noise->values[i]);
    }
    free(exact);
    return is_made;
}

void set_noise_free(set_noise *noise) {
    for (int i = 0; i < 3; i++) {
        free(noise->values[i]);
        free(noise->bits[i]);
    }
    memset(noise, 0, sizeof *noise);
}

static int64_t phase_of(int32_t tensor, int32_t copy) {
    return (104729 * (int64_t)(tensor + 1) + 15485863 * (int64_t)copy) % NOISE_VALUES;
}

double set_value(const bench_set *set, int32_t tensor, int64_t element) {
    const set_tensor *t = &set->tensors[tensor];
    if (set->is_attention && t->of->type == FTL_F32) { /* ALiBi's slopes */
        return (double)(float)exp2(-8.0 * (double)(element + 1) / (double)t->elements);
    }
    const double *values = set->noise->values[kind_of(t->of->type)];
    return values[(phase_of(tensor, 0) + element) % NOISE_VALUES];
}

void set_values(const bench_set *set, int32_t tensor, int64_t first, int64_t count, double *out) {
    ftl_type type = set->tensors[tensor].of->type;
    if (set->is_attention && type == FTL_F32) {
        for (int64_t i = 0; i < count; i++) out[i] = set_value(set, tensor, first + i);
        return;
    }
    const double *values = set->noise->values[kind_of(type)];
    int64_t at = (phase_of(tensor, 0) + first) % NOISE_VALUES;
    while (count > 0) {
        int64_t some = count < NOISE_VALUES - at ? count : NOISE_VALUES - at;
        memcpy(out, values + at, (size_t)some * sizeof *out);
        out += some, count -= some, at = 0;
    }
}

int32_t set_find(const bench_set *set, const char *name) {
    return plan_find_tensor(set->plan, name);
}

/* --- layout ----------------------------------------------------------------------------------- */

bool set_lay_out(const ftl_plan *plan, const ftl_plan_tensor *tensor, const int64_t *sizes,
                 const double *scalars, set_tensor *out) {
    (void)plan;
    *out = (set_tensor){.of = tensor, .elements = 1};
    for (int32_t i = 0; i < tensor->axis_count; i++) {
        double extent;
        if (!ftl_formula_evaluate(&tensor->axes[i].extent, sizes, scalars, &extent)) return false;
        if (extent < 1 || extent > (double)(INT64_C(1) << 40)) return false;
        out->extents[i] = (int64_t)extent;
    }
    int order[FTL_AXES_MAX] = {0}; /* innermost first */
    for (int32_t i = 0; i < tensor->axis_count; i++) order[i] = tensor->axis_count - 1 - i;
    if (tensor->axis_count == 4) order[1] = 1, order[2] = 2;
    for (int32_t i = 0; i < tensor->axis_count; i++) {
        out->strides[order[i]] = out->elements;
        if (__builtin_mul_overflow(out->elements, out->extents[order[i]], &out->elements)) {
            return false;
        }
    }
    return out->elements <= INT64_C(1) << 40;
}

double set_scalar(const bench_case *what, const char *name) {
    bench_attention attention;
    if (strcmp(name, "scale") != 0) return 1;
    double d = bench_read_attention(what, &attention) ? (double)attention.d : 64;
    return (double)(float)(1 / sqrt(d));
}

static ftl_status lay_out(ftl_context *context, bench_set *s) {
    const ftl_plan *plan = s->plan;
    if (plan->tensor_count > SET_TENSORS_MAX || plan->scalar_count > SET_TENSORS_MAX) {
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT, "kernel '%s' has too many tensors",
                                plan->kernel);
    }
    for (int32_t i = 0; i < plan->scalar_count; i++) {
        s->scalar_values[i] = set_scalar(s->what, plan->scalars[i].name);
        s->scalars[i] = (ftl_scalar){plan->scalars[i].name, s->scalar_values[i]};
    }
    for (int32_t i = 0; i < plan->tensor_count; i++) {
        const ftl_plan_tensor *tensor = &plan->tensors[i];
        bool is_number =
            tensor->type == FTL_F16 || tensor->type == FTL_BF16 || tensor->type == FTL_F32;
        if (!is_number && tensor->role == FTL_INPUT) {
            return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                    "input %s of type %s cannot be made up", tensor->name,
                                    ftl_type_name(tensor->type));
        }
        if (!set_lay_out(plan, tensor, s->what->sizes, s->scalar_values, &s->tensors[i])) {
            return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                    "tensor %s has no size for these lengths", tensor->name);
        }
        s->tensors[i].offset_bytes = s->copy_bytes;
        size_t bytes = (size_t)s->tensors[i].elements * ftl_type_bytes(tensor->type);
        s->copy_bytes += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    return FTL_OK;
}

static void point_at(bench_set *s) {
    for (int32_t copy = 0; copy < s->copies; copy++) {
        for (int32_t i = 0; i < s->plan->tensor_count; i++) {
            const set_tensor *t = &s->tensors[i];
            uint64_t address = s->memory + (uint64_t)copy * s->copy_bytes + t->offset_bytes;
            ftl_tensor *argument = &s->arguments[copy][i];
            *argument = (ftl_tensor){.name = t->of->name,
                                     .address = address,
                                     .type = t->of->type,
                                     .axis_count = t->of->axis_count};
            memcpy(argument->extents, t->extents, sizeof t->extents);
            memcpy(argument->strides, t->strides, sizeof t->strides);
            s->addresses[copy * s->plan->tensor_count + i] = address;
        }
    }
}

/* --- contents --------------------------------------------------------------------------------- */

static ftl_status fill_slopes(ftl_context *context, ftl_runtime *runtime, const bench_set *s,
                              int32_t tensor, uint64_t address) {
    int64_t count = s->tensors[tensor].elements;
    float *values = malloc((size_t)count * sizeof *values);
    if (!values) return ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
    for (int64_t i = 0; i < count; i++) values[i] = (float)set_value(s, tensor, i);
    ftl_status status =
        ftl_device_write(context, runtime, address, values, (size_t)count * sizeof *values);
    free(values);
    return status;
}

static ftl_status fill_noise(ftl_context *context, ftl_runtime *runtime, const bench_set *s,
                             int32_t tensor, int32_t copy, uint64_t address) {
    const set_tensor *t = &s->tensors[tensor];
    size_t bytes = ftl_type_bytes(t->of->type);
    int kind = kind_of(t->of->type);
    int64_t at = phase_of(tensor, copy), left = t->elements;
    ftl_status status = FTL_OK;
    while (!status && left > 0) {
        int64_t count = left < NOISE_VALUES - at ? left : NOISE_VALUES - at;
        status = ftl_device_write(context, runtime, address,
                                  s->noise->bits[kind] + (size_t)at * bytes, (size_t)count * bytes);
        address += (uint64_t)count * bytes;
        left -= count;
        at = 0;
    }
    return status;
}

static ftl_status fill_inputs(ftl_context *context, ftl_runtime *runtime, const bench_set *s) {
    for (int32_t copy = 0; copy < s->copies; copy++) {
        for (int32_t i = 0; i < s->plan->tensor_count; i++) {
            const set_tensor *t = &s->tensors[i];
            if (t->of->role != FTL_INPUT) continue;
            uint64_t address = s->arguments[copy][i].address;
            bool is_slope = s->is_attention && t->of->type == FTL_F32;
            ftl_status status = is_slope ? fill_slopes(context, runtime, s, i, address)
                                         : fill_noise(context, runtime, s, i, copy, address);
            if (status) return status;
        }
    }
    return FTL_OK;
}

ftl_status set_poison(ftl_context *context, ftl_runtime *runtime, const bench_set *set,
                      int32_t copy) {
    for (int32_t i = 0; i < set->plan->tensor_count; i++) {
        const set_tensor *t = &set->tensors[i];
        if (t->of->role == FTL_INPUT) continue;
        size_t words = (size_t)t->elements * ftl_type_bytes(t->of->type) / 4;
        ftl_status status =
            ftl_device_fill(context, runtime, set->arguments[copy][i].address, 0x7fff7fff, words);
        if (status) return status;
    }
    return FTL_OK;
}

ftl_status set_open(ftl_context *context, ftl_runtime *runtime, const bench_case *what,
                    const set_noise *noise, int64_t l2_bytes, bench_set *out) {
    *out = (bench_set){.what = what, .plan = what->program->text.plan, .noise = noise};
    out->is_attention = bench_read_attention(what, &out->attention);
    ftl_status status = lay_out(context, out);
    if (status) return status;
    int64_t wanted = 1 + 2 * l2_bytes / (int64_t)(out->copy_bytes + 1);
    out->copies = (int32_t)(wanted < SET_COPIES_MAX ? wanted : SET_COPIES_MAX);
    status =
        ftl_device_allocate(context, runtime, out->copy_bytes * (size_t)out->copies, &out->memory);
    if (status) return status;
    point_at(out);
    return fill_inputs(context, runtime, out);
}

void set_close(ftl_runtime *runtime, bench_set *set) {
    ftl_device_free(runtime, set->memory);
    set->memory = 0;
}

ftl_arguments set_arguments(const bench_set *set, int32_t copy) {
    return (ftl_arguments){.tensors = set->arguments[copy],
                           .tensor_count = set->plan->tensor_count,
                           .scalars = set->scalars,
                           .scalar_count = set->plan->scalar_count};
}
