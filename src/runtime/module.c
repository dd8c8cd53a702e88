/* Modules: a loaded kernel, its plan, and launches of it. */
#include "runtime/module.h"
#include "base/needs.h"
#include "plan/early.h"
#include "plan/plan.h"
#include "runtime/counters.h"
#include "runtime/maps.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FUNCTION_MAX_DYNAMIC_SHARED = 8, SHARED_BYTES_FREE = 48 * 1024 };

struct ftl_module {
    ftl_runtime *runtime;
    ftl_plan *plan;
    void *library, *function; /* CUmodule, CUfunction */
    tile_counters *counters;  /* NULL: the plan needs neither them nor zeros */
    kept *maps;               /* NULL: the plan has none */
    kept *numbers;            /* what the plan's formulas give */
};

ftl_plan *module_copy_plan(const ftl_plan *plan) {
    char why[FTL_WHY_BYTES];
    char *text = ftl_plan_write(plan);
    ftl_plan *copy = text ? ftl_plan_read(text, strlen(text), why) : NULL;
    free(text);
    return copy;
}

static int make_counters(ftl_module *module) {
    bool for_tiles = module->plan->grid_kind == FTL_GRID_DYNAMIC;
    if (!for_tiles && !module->plan->map_count) return 0;
    return counters_open(&module->runtime->cuda, for_tiles, &module->counters);
}

static void free_kept(ftl_module *module) {
    kept_free(module->maps);
    kept_free(module->numbers);
}

ftl_status module_load(ftl_context *context, ftl_runtime *runtime, ftl_plan *plan,
                       const char *image, ftl_module **out) {
    const cuda_driver *cuda = &runtime->cuda;
    ftl_module *module = calloc(1, sizeof *module);
    bool has_maps = plan && plan->map_count;
    if (module && has_maps) module->maps = maps_new();
    if (module && plan) module->numbers = plan_numbers_new(plan);
    if (!module || !module->numbers || (has_maps && !module->maps)) {
        if (module) free_kept(module);
        free(module);
        ftl_plan_free(plan);
        return ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
    }
    module->runtime = runtime, module->plan = plan;
    char what[256];
    snprintf(what, sizeof what, "load kernel '%s' for %s", plan->kernel, plan->target);
    int result = cuda->module_load(&module->library, image);
    if (!result) result = cuda->module_function(&module->function, module->library, plan->entry);
    if (!result && plan->shared_bytes > SHARED_BYTES_FREE) {
        result =
            cuda->function_set(module->function, FUNCTION_MAX_DYNAMIC_SHARED, plan->shared_bytes);
    }
    if (!result) result = make_counters(module);
    ftl_status status = runtime_cuda_status(context, cuda, result, what);
    if (status) ftl_module_free(module);
    else *out = module;
    return status;
}

ftl_status ftl_module_load_image(ftl_context *context, ftl_runtime *runtime, const ftl_plan *plan,
                                 const void *image, size_t length, ftl_module **out) {
    NEEDS(out);
    *out = NULL;
    NEEDS(runtime);
    if (!plan || !image || length == 0) {
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT, "plan or image is null");
    }
    char why[FTL_WHY_BYTES];
    if (!ftl_plan_check(plan, why))
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT, "%s", why);
    ftl_status status = runtime_need_driver(context, runtime);
    if (status) return status;
    char *ended = malloc(length + 1); /* PTX must end in NUL; the driver may read beyond a slice */
    if (!ended) return ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
    memcpy(ended, image, length);
    ended[length] = 0;
    status = module_load(context, runtime, module_copy_plan(plan), ended, out);
    free(ended);
    return status;
}

void ftl_module_free(ftl_module *module) {
    if (!module) return;
    counters_close(&module->runtime->cuda, module->counters);
    if (module->library) module->runtime->cuda.module_unload(module->library);
    free_kept(module);
    ftl_plan_free(module->plan);
    free(module);
}

const ftl_plan *ftl_module_plan(const ftl_module *module) {
    return module ? module->plan : NULL;
}

/* --- launch ----------------------------------------------------------------------------------- */

/* Its own pair, or a block for each tile. */
static int give_counters(const ftl_module *module, void *stream, ftl_launch *launch) {
    const cuda_driver *cuda = &module->runtime->cuda;
    uint64_t address = counters_take(cuda, module->counters, stream);
    int result = 0;
    if (!address) {
        address = counters_spare(module->counters);
        launch->grid = launch->tiles;
        result = cuda->memory_fill_later(address, 0, 2, stream);
    }
    memcpy(launch->parameters + module->plan->counters_offset, &address, sizeof address);
    return result;
}

static int start(const ftl_module *module, ftl_launch *launch, void *stream) {
    const cuda_driver *cuda = &module->runtime->cuda;
    const ftl_plan *plan = module->plan;
    void *parameters[] = {launch->parameters};
    if (plan->is_early && cuda->launch_as && cuda->version >= PLAN_EARLY_DRIVER) {
        plan_launch_attribute attribute;
        const plan_launch_config how = plan_early(plan, launch->grid, stream, &attribute);
        return cuda->launch_as(&how, module->function, parameters, NULL);
    }
    return cuda->launch(module->function, launch->grid, 1, 1, (unsigned)plan->threads, 1, 1,
                        (unsigned)plan->shared_bytes, stream, parameters, NULL);
}

ftl_status ftl_module_launch(ftl_context *context, const ftl_module *module,
                             const ftl_arguments *arguments, void *stream) {
    if (!module) return ftl_context_fail(context, FTL_INVALID_ARGUMENT, "the module is null");
    ftl_launch launch;
    char why[FTL_WHY_BYTES];
    const ftl_plan *plan = module->plan;
    if (!plan_resolve_checked(plan, arguments, module->numbers, &launch, why)) {
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT, "%s", why);
    }
    if (launch.grid == 0) return FTL_OK;
    const cuda_driver *cuda = &module->runtime->cuda;
    ftl_status status = FTL_OK;
    if (plan->map_count) {
        uint64_t zeros = counters_zeros(module->counters);
        status = maps_write(context, cuda, module->maps, plan, zeros, &launch);
    }
    if (status) return status;
    int result = 0;
    if (plan->grid_kind == FTL_GRID_DYNAMIC) result = give_counters(module, stream, &launch);
    if (!result) result = start(module, &launch, stream);
    if (result == 0) return FTL_OK;
    char what[256];
    snprintf(what, sizeof what, "launch kernel '%s'", plan->kernel);
    return runtime_cuda_status(context, cuda, result, what);
}
