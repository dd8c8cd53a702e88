/* From a plan and arguments to a launch: binds the sizes, checks everything that could be wrong,
 * and lays out the parameter struct. Runs at every launch, so it neither allocates nor formats
 * anything unless it fails.
 */
#include "base/number.h"
#include "plan/fields.h"
#include "plan/plan.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { SIZES_MAX = PLAN_ITEMS_MAX, SCALARS_MAX = PLAN_ITEMS_MAX };
/* What one resolution works on. */
typedef struct resolution {
    const ftl_plan *plan;
    const ftl_arguments *arguments;
    ftl_launch *launch;
    double scalars[SCALARS_MAX];
    const char *bound_by[SIZES_MAX]; /* tensor that gave a size; NULL: not bound yet */
    const char *bound_axis[SIZES_MAX];
    const ftl_tensor *tensors[SIZES_MAX]; /* argument for each tensor of the plan */
    char *why;
} resolution;

__attribute__((format(printf, 2, 3))) static bool fail(resolution *r, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    number_print_list(r->why, FTL_WHY_BYTES, format, arguments);
    va_end(arguments);
    return false;
}

static void put(resolution *r, int32_t offset, const void *bytes, size_t count) {
    memcpy(r->launch->parameters + offset, bytes, count);
}

/* --- arguments -------------------------------------------------------------------------------- */

static bool find_tensors(resolution *r) {
    const ftl_plan *plan = r->plan;
    for (int32_t a = 0; a < r->arguments->tensor_count; a++) {
        const ftl_tensor *argument = &r->arguments->tensors[a];
        if (!argument->name) return fail(r, "argument %" PRId32 " has no name", a);
        int32_t t = 0;
        while (t < plan->tensor_count && strcmp(plan->tensors[t].name, argument->name) != 0) t++;
        if (t == plan->tensor_count) {
            return fail(r, "kernel '%s' has no tensor '%s'", plan->kernel, argument->name);
        }
        if (r->tensors[t]) return fail(r, "tensor '%s' is given twice", argument->name);
        r->tensors[t] = argument;
    }
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        if (!r->tensors[t]) return fail(r, "tensor '%s' is missing", plan->tensors[t].name);
    }
    return true;
}

static bool bind_size(resolution *r, int32_t size, int64_t extent, const char *tensor,
                      const char *axis) {
    if (!r->bound_by[size]) {
        r->bound_by[size] = tensor;
        r->bound_axis[size] = axis;
        r->launch->sizes[size] = extent;
        return true;
    }
    int64_t before = r->launch->sizes[size];
    if (before == extent) return true;
    return fail(r, "'%s' is %" PRId64 " in %s (axis %s) and %" PRId64 " in %s (axis %s)",
                r->plan->sizes[size].name, before, r->bound_by[size], r->bound_axis[size], extent,
                tensor, axis);
}

static bool bind_extents(resolution *r) {
    for (int32_t t = 0; t < r->plan->tensor_count; t++) {
        const ftl_plan_tensor *tensor = &r->plan->tensors[t];
        const ftl_tensor *argument = r->tensors[t];
        if (argument->type != tensor->type) {
            return fail(r, "tensor '%s' must be %s, not %s", tensor->name,
                        ftl_type_name(tensor->type), ftl_type_name(argument->type));
        }
        if (argument->axis_count != tensor->axis_count) {
            return fail(r, "tensor '%s' has %" PRId32 " axes, not %" PRId32, tensor->name,
                        tensor->axis_count, argument->axis_count);
        }
        for (int32_t i = 0; i < tensor->axis_count; i++) {
            int64_t extent = argument->extents[i];
            const ftl_plan_axis *axis = &tensor->axes[i];
            if (extent < 0) {
                return fail(r, "axis %s of '%s' has the length %" PRId64, axis->name, tensor->name,
                            extent);
            }
            if (axis->size >= 0 && !bind_size(r, axis->size, extent, tensor->name, axis->name)) {
                return false;
            }
        }
    }
    return true;
}

static const ftl_scalar *find_scalar(const ftl_arguments *arguments, const char *name) {
    for (int32_t i = 0; i < arguments->scalar_count; i++) {
        if (arguments->scalars[i].name && strcmp(arguments->scalars[i].name, name) == 0) {
            return &arguments->scalars[i];
        }
    }
    return NULL;
}

/* A size that no tensor's axis is (a number of splits) is given like a scalar. */
static bool bind_sizes_by_value(resolution *r) {
    for (int32_t i = 0; i < r->plan->size_count; i++) {
        const char *name = r->plan->sizes[i].name;
        const ftl_scalar *given = find_scalar(r->arguments, name);
        if (!given && !r->bound_by[i]) return fail(r, "size '%s' is not given", name);
        if (!given) continue;
        if (!(given->value >= 0 && given->value <= INT32_MAX) ||
            given->value != floor(given->value)) {
            return fail(r, "size '%s' must be a whole number from 0, not %g", name, given->value);
        }
        if (!bind_size(r, i, (int64_t)given->value, "the arguments", name)) return false;
    }
    for (int32_t i = 0; i < r->plan->size_count; i++) {
        if (r->plan->sizes[i].offset >= 0 && r->launch->sizes[i] > INT32_MAX) {
            return fail(r, "'%s' is %" PRId64 "; at most %d is possible", r->plan->sizes[i].name,
                        r->launch->sizes[i], INT32_MAX);
        }
    }
    return true;
}

static bool bind_scalars(resolution *r) {
    const ftl_plan *plan = r->plan;
    for (int32_t i = 0; i < plan->scalar_count; i++) {
        const ftl_plan_scalar *scalar = &plan->scalars[i];
        const ftl_scalar *given = find_scalar(r->arguments, scalar->name);
        if (!given) return fail(r, "scalar '%s' is missing", scalar->name);
        double value = given->value;
        if (!isfinite(value)) return fail(r, "scalar '%s' is not finite", scalar->name);
        bool is_integer = scalar->type == FTL_I32;
        if (is_integer && (value != floor(value) || fabs(value) > INT32_MAX)) {
            return fail(r, "scalar '%s' must be a 32-bit integer, not %g", scalar->name, value);
        }
        float single = (float)value;
        if (!is_integer && !isfinite(single)) {
            return fail(r, "scalar '%s' is %g, which no f32 can hold", scalar->name, value);
        }
        int32_t integer = is_integer ? (int32_t)value : 0;
        r->scalars[i] = is_integer ? value : (double)single;
        put(r, scalar->offset, is_integer ? (const void *)&integer : (const void *)&single, 4);
    }
    for (int32_t i = 0; i < r->arguments->scalar_count; i++) {
        const char *name = r->arguments->scalars[i].name;
        if (!name) return fail(r, "a scalar has no name");
        bool is_known = false;
        for (int32_t k = 0; k < plan->scalar_count && !is_known; k++) {
            is_known = strcmp(plan->scalars[k].name, name) == 0;
        }
        for (int32_t k = 0; k < plan->size_count && !is_known; k++) {
            is_known = strcmp(plan->sizes[k].name, name) == 0;
        }
        if (!is_known) return fail(r, "kernel '%s' has no scalar '%s'", plan->kernel, name);
    }
    return true;
}

/* --- tensors ---------------------------------------------------------------------------------- */

static bool check_extents(resolution *r, const ftl_plan_tensor *tensor, const ftl_tensor *given) {
    for (int32_t i = 0; i < tensor->axis_count; i++) {
        const ftl_plan_axis *axis = &tensor->axes[i];
        if (axis->size >= 0) continue;
        double extent;
        if (!ftl_formula_evaluate(&axis->extent, r->launch->sizes, r->scalars, &extent)) {
            return fail(r, "the length '%s' of axis %s of '%s' cannot be computed",
                        axis->extent.text, axis->name, tensor->name);
        }
        if ((double)given->extents[i] != extent) {
            return fail(r, "axis %s of '%s' must have the length %s = %.0f, not %" PRId64,
                        axis->name, tensor->name, axis->extent.text, extent, given->extents[i]);
        }
    }
    return true;
}

static bool has_elements(const ftl_tensor *tensor) {
    for (int32_t i = 0; i < tensor->axis_count; i++) {
        if (tensor->extents[i] == 0) return false;
    }
    return true;
}

/* All bits from the lowest to the end of the highest element must be in addressable bytes. */
static bool check_span(resolution *r, const ftl_plan_tensor *tensor, const ftl_tensor *given) {
    int64_t bits = (int64_t)ftl_type_bits(tensor->type), above = bits, below = 0;
    for (int32_t i = 0; i < tensor->axis_count; i++) {
        int64_t reach;
        bool overflows = __builtin_mul_overflow(given->extents[i] - 1, given->strides[i], &reach) ||
                         __builtin_mul_overflow(reach, bits, &reach) ||
                         (reach < 0 ? __builtin_add_overflow(below, reach, &below)
                                    : __builtin_add_overflow(above, reach, &above));
        if (overflows) return fail(r, "the size of '%s' overflows", tensor->name);
    }
    above = above / 8 + (above % 8 > 0), below = below / 8 - (below % 8 < 0);
    uint64_t end;
    bool wraps = __builtin_add_overflow(given->address, (uint64_t)above, &end) ||
                 (uint64_t)0 - (uint64_t)below > given->address;
    if (wraps) return fail(r, "'%s' reaches beyond the end of the address space", tensor->name);
    return true;
}

/* Nearly all alignments are powers of two, and a division takes longer than all else here. */
static bool is_multiple(uint64_t value, int64_t alignment) {
    uint64_t unit = (uint64_t)alignment;
    return unit & (unit - 1) ? value % unit == 0 : (value & (unit - 1)) == 0;
}

static bool check_strides(resolution *r, const ftl_plan_tensor *tensor, const ftl_tensor *given) {
    int64_t bits = (int64_t)ftl_type_bits(tensor->type), alignment = tensor->alignment_bytes;
    int64_t unit = 8 * alignment > bits && alignment > 1 ? 8 * alignment / bits : 1;
    for (int32_t i = 0; i < tensor->axis_count; i++) {
        const char *axis = tensor->axes[i].name;
        int64_t stride = given->strides[i];
        if (given->extents[i] <= 1) continue; /* never multiplied by anything but 0 */
        if (tensor->axes[i].stride_offset < 0 && stride != 1) {
            return fail(r, "axis %s of '%s' must have stride 1, not %" PRId64, axis, tensor->name,
                        stride);
        }
        if (stride == 0 && tensor->role != FTL_INPUT) {
            return fail(r, "axis %s of '%s' has stride 0: its elements would share one place", axis,
                        tensor->name);
        }
        bool is_last = i + 1 == tensor->axis_count;
        uint64_t step = stride < 0 ? 0 - (uint64_t)stride : (uint64_t)stride;
        if (!is_last && !is_multiple(step, unit)) {
            return fail(r,
                        "stride %" PRId64 " of axis %s of '%s' must be a multiple of %" PRId64
                        " elements (%" PRId64 " bytes)",
                        stride, axis, tensor->name, unit, alignment);
        }
    }
    return true;
}

static bool check_short_strides(resolution *r, const ftl_plan_tensor *tensor,
                                const ftl_tensor *given) {
    for (int32_t i = 0; i < tensor->axis_count; i++) {
        int64_t stride = given->strides[i];
        bool fits = stride >= INT32_MIN && stride <= INT32_MAX;
        if (fits || !tensor->axes[i].is_stride_short || given->extents[i] <= 1) continue;
        return fail(r, "stride %" PRId64 " of axis %s of '%s' does not fit 32 bits", stride,
                    tensor->axes[i].name, tensor->name);
    }
    return true;
}

static bool place_tensor(resolution *r, const ftl_plan_tensor *tensor, const ftl_tensor *given) {
    if (!check_extents(r, tensor, given)) return false;
    if (has_elements(given)) {
        if (!given->address) return fail(r, "the address of '%s' is null", tensor->name);
        int64_t alignment = tensor->alignment_bytes > 0 ? tensor->alignment_bytes : 1;
        if (!is_multiple(given->address, alignment)) {
            return fail(
                r, "the address of '%s' (0x%" PRIx64 ") must be a multiple of %" PRId64 " bytes",
                tensor->name, given->address, alignment);
        }
        if (!check_strides(r, tensor, given) || !check_span(r, tensor, given) ||
            !check_short_strides(r, tensor, given))
            return false;
    }
    put(r, tensor->pointer_offset, &given->address, 8);
    for (int32_t i = 0; i < tensor->axis_count; i++) {
        int32_t offset = tensor->axes[i].stride_offset;
        if (offset >= 0) put(r, offset, &given->strides[i], 8);
    }
    return true;
}

/* Whether nothing is to be written. Then conditions on the (empty) sizes mean nothing. Beside
 * outputs that are empty a workspace may not be, which another kernel reads.
 */
static bool is_empty(const resolution *r) {
    for (int32_t t = 0; t < r->plan->tensor_count; t++)
        if (r->plan->tensors[t].role != FTL_INPUT && has_elements(r->tensors[t])) return false;
    return true;
}

/* --- tensor maps ------------------------------------------------------------------------------ */

enum { MAP_UNIT_BYTES = 16 };
static const int64_t MAP_EXTENT_MAX = (int64_t)1 << 32, MAP_STRIDE_MAX = (int64_t)1 << 40;

static bool map_dimension(resolution *r, const ftl_plan_map *plan, int32_t at,
                          ftl_tensor_map *map) {
    const ftl_map_dimension *d = &plan->dimensions[at];
    const ftl_plan_tensor *tensor = &r->plan->tensors[plan->tensor];
    const ftl_tensor *given = r->tensors[plan->tensor];
    int64_t extent = given->extents[d->axis], stride = given->strides[d->axis];
    int64_t bytes = (int64_t)ftl_type_bytes(tensor->type);
    const char *axis = tensor->axes[d->axis].name;
    if (d->is_panel_number) {
        extent = (extent + d->panel - 1) / d->panel, stride = d->panel;
    } else if (d->panel) {
        extent = extent < d->panel ? extent : d->panel;
    }
    map->extents[at] = (uint64_t)extent;
    map->box[at] = (uint32_t)d->box;
    if (at == 0) return true;
    /* A single element's stride is never used, but must be one that the unit takes. */
    if (extent <= 1) stride = MAP_UNIT_BYTES;
    bool fits = extent <= MAP_EXTENT_MAX && stride > 0 && stride < MAP_STRIDE_MAX &&
                stride * bytes < MAP_STRIDE_MAX && stride * bytes % MAP_UNIT_BYTES == 0;
    map->stride_bytes[at - 1] = (uint64_t)(stride * bytes);
    if (fits) return true;
    return fail(r,
                "stride %" PRId64
                " of axis %s of '%s' must be positive, a multiple of %d bytes and "
                "below 2^40 bytes",
                stride, axis, tensor->name, MAP_UNIT_BYTES);
}

/* The unit knows no tensor without elements: one that holds a single 0, like all around it. */
static void single_element(const ftl_plan_map *plan, int32_t at, ftl_tensor_map *map) {
    map->extents[at] = 1;
    map->box[at] = (uint32_t)plan->dimensions[at].box;
    if (at) map->stride_bytes[at - 1] = MAP_UNIT_BYTES;
}

static bool make_maps(resolution *r) {
    r->launch->map_count = r->plan->map_count;
    memset(r->launch->maps, 0, (size_t)r->plan->map_count * sizeof *r->launch->maps);
    for (int32_t i = 0; i < r->plan->map_count; i++) {
        const ftl_plan_map *plan = &r->plan->maps[i];
        ftl_tensor_map *map = &r->launch->maps[i];
        const ftl_tensor *given = r->tensors[plan->tensor];
        map->offset = plan->offset, map->tensor = plan->tensor;
        map->address = given->address;
        map->type = r->plan->tensors[plan->tensor].type;
        map->rank = plan->rank, map->swizzle_bytes = plan->swizzle_bytes;
        map->is_empty = !has_elements(given);
        for (int32_t k = 0; k < plan->rank; k++) {
            if (!map->is_empty && !map_dimension(r, plan, k, map)) return false;
            if (map->is_empty) single_element(plan, k, map);
        }
    }
    return true;
}

/* --- the whole -------------------------------------------------------------------------------- */

static void put_numbers(resolution *r, const uint64_t *numbers) {
    const ftl_plan *plan = r->plan;
    uint32_t tiles = (uint32_t)numbers[PLAN_TILES];
    r->launch->tiles = r->launch->grid = tiles;
    if (plan->grid_kind != FTL_GRID_PLAIN && plan->resident_blocks < (int64_t)tiles)
        r->launch->grid = (uint32_t)plan->resident_blocks;
    for (int32_t i = 0; i < plan->derived_count; i++) {
        const ftl_plan_derived *d = &plan->derived[i];
        put(r, d->offset, &numbers[PLAN_DERIVED + i], d->kind == FTL_DERIVED_DIVISOR ? 8 : 4);
    }
}

static void put_sizes(resolution *r) {
    for (int32_t i = 0; i < r->plan->size_count; i++) {
        int32_t size = (int32_t)r->launch->sizes[i];
        if (r->plan->sizes[i].offset >= 0) put(r, r->plan->sizes[i].offset, &size, 4);
    }
}

bool plan_resolve_checked(const ftl_plan *plan, const ftl_arguments *arguments, kept *numbers,
                          ftl_launch *launch, char why[FTL_WHY_BYTES]) {
    resolution
        r; /* of its lists what the plan has: the rest is not read, and costs time to clear */
    r.plan = plan, r.arguments = arguments, r.launch = launch, r.why = why;
    memset(r.bound_by, 0, (size_t)plan->size_count * sizeof *r.bound_by);
    memset(r.tensors, 0, (size_t)plan->tensor_count * sizeof *r.tensors);
    why[0] = 0;
    if (!arguments) return fail(&r, "the arguments are null");
    bool is_null = (arguments->tensor_count > 0 && !arguments->tensors) ||
                   (arguments->scalar_count > 0 && !arguments->scalars);
    if (is_null) return fail(&r, "the list of tensors or scalars is null");
    launch->grid = launch->tiles = 0;
    launch->map_count = 0;
    launch->parameter_bytes = plan->parameter_bytes;
    memset(launch->sizes, 0, sizeof launch->sizes);
    memset(launch->parameters, 0, (size_t)plan->parameter_bytes);
    if (!find_tensors(&r) || !bind_extents(&r) || !bind_sizes_by_value(&r) || !bind_scalars(&r)) {
        return false;
    }
    if (is_empty(&r)) return true;
    uint64_t found[PLAN_NUMBERS_MAX];
    put_sizes(&r);
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        if (!place_tensor(&r, &plan->tensors[t], r.tensors[t])) return false;
    }
    if (!plan_numbers(plan, numbers, launch->sizes, r.scalars, found, why)) return false;
    put_numbers(&r, found);
    return launch->tiles == 0 || make_maps(&r);
}

bool ftl_plan_resolve(const ftl_plan *plan, const ftl_arguments *arguments, ftl_launch *launch,
                      char why[FTL_WHY_BYTES]) {
    char unread[FTL_WHY_BYTES];
    if (!why) why = unread;
    if (!ftl_plan_check(plan, why)) return false;
    if (launch) return plan_resolve_checked(plan, arguments, NULL, launch, why);
    snprintf(why, FTL_WHY_BYTES, "the launch is null");
    return false;
}
