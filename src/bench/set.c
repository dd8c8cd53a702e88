#include "bench/set.h"

#include "base/convert.h"
#include "verify/buffer.h"
#include "verify/plan_find.h"
#include "verify/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NOISE_VALUES = 1048573, NOISE_SEED = 7, PIECE_VALUES = 1 << 20, ALIGNMENT = 256 };

/* What inputs can be made up of, and the largest value of each. */
static const struct {
    ftl_type type;
    double most;
} KINDS[SET_KINDS] = {{FTL_F16, 65504},  {FTL_BF16, 3e38}, {FTL_F32, 3e38}, {FTL_E4M3, 448},
                      {FTL_E5M2, 57344}, {FTL_I8, 127},    {FTL_I4, 7},     {FTL_U4, 15}};

static int kind_of(ftl_type type) { /* of KINDS; -1: none */
    for (int i = 0; i < SET_KINDS; i++)
        if (KINDS[i].type == type) return i;
    return -1;
}

bool set_noise_make(set_noise *noise) {
    double *exact = malloc(NOISE_VALUES * sizeof *exact);
    bool is_made = exact != NULL;
    memset(noise, 0, sizeof *noise);
    if (is_made) random_normal(NOISE_SEED, 0, 0, NOISE_VALUES, exact);
    for (int i = 0; is_made && i < SET_KINDS; i++) {
        convert_format format = buffer_format(KINDS[i].type);
        noise->bits[i] = malloc(convert_size(format, NOISE_VALUES));
        noise->values[i] = malloc(NOISE_VALUES * sizeof *noise->values[i]);
        is_made = noise->bits[i] && noise->values[i];
        if (!is_made) break;
        double spread = buffer_spread(KINDS[i].type);
        for (int k = 0; k < NOISE_VALUES; k++) noise->values[i][k] = spread * exact[k];
        convert_store(format, noise->values[i], NOISE_VALUES, noise->bits[i], 0, 1);
        convert_load(format, noise->bits[i], 0, 1, NOISE_VALUES, noise->values[i]);
    }
    free(exact);
    return is_made;
}

void set_noise_free(set_noise *noise) {
    for (int i = 0; i < SET_KINDS; i++) {
        free(noise->values[i]);
        free(noise->bits[i]);
    }
    memset(noise, 0, sizeof *noise);
}

static int64_t phase_of(int32_t tensor, int32_t copy) {
    return (104729 * (int64_t)(tensor + 1) + 15485863 * (int64_t)copy) % NOISE_VALUES;
}

/* ALiBi's slopes are no noise. */
static bool is_slope(const bench_set *set, int32_t tensor) {
    return set->is_attention && set->tensors[tensor].of->type == FTL_F32;
}

static bool is_shaped(const bench_set *set, int32_t tensor) {
    return tensor == set->query || tensor == set->key;
}

/* N(0,1) becomes what scores.def says. What is added to the scores of a key comes from the first
 * column, in which all queries have the square root of d, for scale divides by that.
 */
static void shape_values(const bench_set *set, int32_t tensor, int64_t first, int64_t count,
                         double *values) {
    const set_tensor *t = &set->tensors[tensor];
    convert_format format = buffer_format(t->of->type);
    double number = set->what->scores.number;
    bool is_query = tensor == set->query, is_rising = set->what->scores.kind == SCORES_RISING;
    if (set->what->scores.kind == SCORES_PEAKED) {
        for (int64_t i = 0; is_query && i < count; i++) values[i] *= number;
        convert_round_all(format, values, (size_t)count);
        return;
    }
    int64_t columns = t->extents[3];
    for (int64_t i = (columns - first % columns) % columns; i < count; i += columns) {
        double key = (double)((first + i) / t->strides[2] % t->extents[2]);
        double added = is_rising ? number * key : key == 0 ? number : 0;
        values[i] = convert_round(format, is_query ? sqrt((double)columns) : added);
    }
}

/* 'count' values of a copy, as its type has them. */
static void make_values(const bench_set *set, int32_t tensor, int32_t copy, int64_t first,
                        int64_t count, double *out) {
    const set_tensor *t = &set->tensors[tensor];
    for (int64_t i = 0; is_slope(set, tensor) && i < count; i++) {
        out[i] = (double)(float)exp2(-8.0 * (double)(first + i + 1) / (double)t->elements);
    }
    if (is_slope(set, tensor)) return;
    const double *values = set->noise->values[kind_of(t->of->type)];
    int64_t at = (phase_of(tensor, copy) + first) % NOISE_VALUES;
    for (int64_t done = 0; done < count;) {
        int64_t some = count - done < NOISE_VALUES - at ? count - done : NOISE_VALUES - at;
        memcpy(out + done, values + at, (size_t)some * sizeof *out);
        done += some, at = 0;
    }
    if (is_shaped(set, tensor)) shape_values(set, tensor, first, count, out);
}

void set_values(const bench_set *set, int32_t tensor, int64_t first, int64_t count, double *out) {
    make_values(set, tensor, 0, first, count, out);
}

double set_value(const bench_set *set, int32_t tensor, int64_t element) {
    double value;
    make_values(set, tensor, 0, element, 1, &value);
    return value;
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
        if (kind_of(tensor->type) < 0 && tensor->role == FTL_INPUT) {
            return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                    "input %s of type %s cannot be made up", tensor->name,
                                    ftl_type_name(tensor->type));
        }
        if (!set_lay_out(plan, tensor, s->what->sizes, s->scalar_values, &s->tensors[i])) {
            return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                    "tensor %s has no size for these lengths", tensor->name);
        }
        s->tensors[i].offset_bytes = s->copy_bytes;
        size_t bytes = ((size_t)s->tensors[i].elements * ftl_type_bits(tensor->type) + 7) / 8;
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

/* What is not noise alone is made piece by piece. */
static ftl_status fill_made(ftl_context *context, ftl_runtime *runtime, const bench_set *s,
                            int32_t tensor, int32_t copy, uint64_t address) {
    const set_tensor *t = &s->tensors[tensor];
    convert_format format = buffer_format(t->of->type);
    double *values = malloc(PIECE_VALUES * sizeof *values);
    void *bits = malloc(convert_size(format, PIECE_VALUES));
    ftl_status status =
        values && bits ? FTL_OK : ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
    for (int64_t first = 0; !status && first < t->elements; first += PIECE_VALUES) {
        int64_t left = t->elements - first, count = left < PIECE_VALUES ? left : PIECE_VALUES;
        make_values(s, tensor, copy, first, count, values);
        convert_store(format, values, (size_t)count, bits, 0, 1);
        status = ftl_device_write(context, runtime, address + convert_size(format, (size_t)first),
                                  bits, convert_size(format, (size_t)count));
    }
    free(values);
    free(bits);
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
            bool is_packed = ftl_type_bits(t->of->type) < 8; /* odd places are inside of bytes */
            bool is_made = is_slope(s, i) || is_shaped(s, i) || is_packed;
            ftl_status status = is_made ? fill_made(context, runtime, s, i, copy, address)
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

/* Which tensors make the scores, and whether they can hold them. */
static ftl_status find_shaped(ftl_context *context, bench_set *s) {
    bench_scores scores = s->what->scores;
    s->query = s->key = -1;
    if (scores.kind == SCORES_NORMAL) return FTL_OK;
    s->query = s->is_attention ? set_find(s, "Q") : -1;
    s->key = s->is_attention ? set_find(s, "K") : -1;
    char text[SCORES_TEXT_BYTES];
    scores_print(scores, text);
    if (s->query < 0 || s->key < 0) {
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "scores are those of attention: there is no %s in kernel '%s'",
                                text, s->plan->kernel);
    }
    double most = scores.kind == SCORES_RISING ? scores.number * (double)s->attention.kv_len : 0;
    ftl_type type = s->plan->tensors[s->key].type;
    if (kind_of(type) < 0 || most < KINDS[kind_of(type)].most) return FTL_OK;
    return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                            "%s over %lld keys is more than %s holds", text,
                            (long long)s->attention.kv_len, ftl_type_name(type));
}

ftl_status set_open(ftl_context *context, ftl_runtime *runtime, const bench_case *what,
                    const set_noise *noise, int64_t l2_bytes, bench_set *out) {
    *out = (bench_set){.what = what, .plan = what->program->text.plan, .noise = noise};
    out->is_attention = bench_read_attention(what, &out->attention);
    ftl_status status = find_shaped(context, out);
    if (!status) status = lay_out(context, out);
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
