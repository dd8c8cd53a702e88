/* Modules: a loaded kernel, its plan, and launches of it. */
#include "runtime/module.h"
#include "base/needs.h"
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
    map_store *maps;          /* NULL: the plan has none */
};

static ftl_plan *copy_plan(const ftl_plan *plan) {
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

/* Loads an image; takes the plan over, also on failure. */
static ftl_status load(ftl_context *context, ftl_runtime *runtime, ftl_plan *plan,
                       const char *image, ftl_module **out) {
    const cuda_driver *cuda = &runtime->cuda;
    ftl_module *module = calloc(1, sizeof *module);
    bool has_maps = module && plan && plan->map_count;
    if (has_maps) module->maps = map_store_new();
    if (!module || !plan || (has_maps && !module->maps)) {
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
    status = load(context, runtime, copy_plan(plan), ended, out);
    free(ended);
    return status;
}

void ftl_module_free(ftl_module *module) {
    if (!module) return;
    counters_close(&module->runtime->cuda, module->counters);
    if (module->library) module->runtime->cuda.module_unload(module->library);
    map_store_free(module->maps);
    ftl_plan_free(module->plan);
    free(module);
}

const ftl_plan *ftl_module_plan(const ftl_module *module) {
    return module ? module->plan : NULL;
}

/* --- which code for which device -------------------------------------------------------------- */

/* "compute_80" -> 80, "compute_90a" -> 90 with the suffix 'a'. */
static bool parse_target(const char *target, int *capability, char *suffix) {
    if (strncmp(target, "compute_", 8) != 0) return false;
    char *end;
    long value = strtol(target + 8, &end, 10);
    *suffix = *end;
    *capability = (int)value;
    return value >= 10 && value < 1000 && (*end == 0 || end[1] == 0);
}

static bool nvrtc_lacks(ftl_runtime *runtime, int capability) {
    if (runtime_need_nvrtc(NULL, runtime) != FTL_OK) return false;
    int count = 0, archs[256];
    if (runtime->nvrtc.arch_count(&count) != 0 || count > 256) return false;
    if (runtime->nvrtc.archs(archs) != 0) return false;
    for (int i = 0; i < count; i++) {
        if (archs[i] == capability) return false;
    }
    return true;
}

/* "sm_86" for a device of the target's generation; the plan's own target ("compute_80", finished by
 * the driver's compiler) for a later one, and where NVRTC is older than the device.
 */
static ftl_status choose_target(ftl_context *context, ftl_runtime *runtime, const ftl_plan *plan,
                                int capability, char target[32]) {
    int wanted = 0;
    char suffix = 0;
    if (!parse_target(plan->target, &wanted, &suffix)) {
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT, "the plan's target '%s' is unknown",
                                plan->target);
    }
    bool is_exact = suffix == 'a';
    if (is_exact ? capability != wanted : capability < wanted) {
        return ftl_context_fail(context, FTL_NO_DEVICE,
                                "kernel '%s' is for %s; this GPU has capability %d.%d",
                                plan->kernel, plan->target, capability / 10, capability % 10);
    }
    bool is_same_generation = capability / 10 == wanted / 10;
    if (is_exact) {
        snprintf(target, 32, "sm_%d%c", wanted, suffix);
    } else if (is_same_generation && !nvrtc_lacks(runtime, capability)) {
        snprintf(target, 32, "sm_%d", capability);
    } else {
        snprintf(target, 32, "%s", plan->target);
    }
    return FTL_OK;
}

/* --- compile, or take from the cache ---------------------------------------------------------- */

static void make_key(ftl_runtime *runtime, str source, int capability, cache_key *key) {
    char compiler[32], driver[32], device[32];
    runtime_compiler_version(runtime, compiler);
    snprintf(driver, sizeof driver, "%d", runtime->cuda.version);
    snprintf(device, sizeof device, "%d", capability);
    cache_key_begin(key);
    cache_key_add(key, "flashtl", str_from(ftl_version()));
    cache_key_add(key, "nvrtc", str_from(compiler));
    cache_key_add(key, "driver", str_from(driver));
    cache_key_add(key, "capability", str_from(device));
    cache_key_add(key, "source", source);
    cache_key_end(key);
}

/* Loads what the cache has; false when it has nothing usable. */
static bool load_cached(ftl_context *context, ftl_runtime *runtime, const char digits[33],
                        ftl_module **out) {
    cache_entry entry;
    char why[FTL_WHY_BYTES];
    cache_result result = cache_read(runtime->cache_folder, digits, &entry);
    bool is_loaded = false;
    if (result == CACHE_FOUND) {
        ftl_plan *plan = ftl_plan_read(entry.plan.data, entry.plan.length, why);
        /* The section's newline stands behind the image; PTX wants a NUL there. */
        entry.storage.data[entry.image.data + entry.image.length - entry.storage.data] = 0;
        is_loaded = plan && load(NULL, runtime, plan, entry.image.data, out) == FTL_OK;
    }
    cache_done(&entry);
    if (!is_loaded && result != CACHE_ABSENT) {
        ftl_context_warn(context, "the cache entry %s in '%s' is damaged and was rebuilt", digits,
                         runtime->cache_folder);
    }
    return is_loaded;
}

static void store(ftl_context *context, ftl_runtime *runtime, const char digits[33],
                  const ftl_plan *plan, const char *cuda, const ftl_image *image) {
    char *text = ftl_plan_write(plan);
    os_error why = {"out of memory"};
    cache_entry entry = {.plan = str_from(text ? text : ""),
                         .cuda = str_from(cuda),
                         .image = {image->bytes, image->length},
                         .kind = image->kind};
    if (!text || !cache_write(runtime->cache_folder, digits, &entry, &why)) {
        ftl_context_warn(context, "the kernel is not cached: %s", why.text);
    }
    free(text);
}

static ftl_status compile_and_load(ftl_context *context, ftl_runtime *runtime, int capability,
                                   const char *digits, const ftl_plan *plan, const char *cuda,
                                   ftl_module **out) {
    char name[160], target[32];
    snprintf(name, sizeof name, "%s.cu", plan->entry);
    ftl_status status = choose_target(context, runtime, plan, capability, target);
    if (status) return status;
    ftl_image image;
    status = ftl_compile_cuda(context, runtime, cuda, name, target, &image);
    if (status) return status;
    status = load(context, runtime, copy_plan(plan), image.bytes, out);
    if (!status && digits) store(context, runtime, digits, plan, cuda, &image);
    ftl_image_done(&image);
    return status;
}

/* The key of a source on the current device; false where nothing is cached. */
static bool current_key(ftl_context *context, ftl_runtime *runtime, str source, cache_key *key) {
    int capability = 0;
    if (!runtime->cache_folder || runtime_current_capability(context, runtime, &capability))
        return false;
    make_key(runtime, source, capability, key);
    return true;
}

bool module_load_cached(ftl_context *context, ftl_runtime *runtime, str source, ftl_module **out) {
    cache_key key;
    *out = NULL;
    return current_key(context, runtime, source, &key) &&
           load_cached(context, runtime, key.digits, out);
}

void module_cache_also(ftl_context *context, ftl_runtime *runtime, str source, str other) {
    cache_key from, to;
    cache_entry entry;
    os_error why;
    if (!current_key(context, runtime, source, &from) ||
        !current_key(context, runtime, other, &to)) {
        return;
    }
    /* What cannot be written is made anew by the next process: no harm. */
    if (cache_read(runtime->cache_folder, from.digits, &entry) == CACHE_FOUND &&
        !cache_write(runtime->cache_folder, to.digits, &entry, &why)) {
        ftl_context_warn(context, "the kernel is not cached: %s", why.text);
    }
    cache_done(&entry);
}

ftl_status module_load_source(ftl_context *context, ftl_runtime *runtime, str source,
                              module_build *build, void *user, ftl_module **out) {
    *out = NULL;
    int capability = 0;
    ftl_status status = runtime_current_capability(context, runtime, &capability);
    if (status) return status;
    cache_key key;
    const char *digits = NULL;
    if (runtime->cache_folder) {
        make_key(runtime, source, capability, &key);
        digits = key.digits;
        if (load_cached(context, runtime, digits, out)) return FTL_OK;
    }
    const ftl_plan *plan = NULL;
    const char *cuda = NULL;
    status = build(context, user, &plan, &cuda);
    if (status) return status;
    return compile_and_load(context, runtime, capability, digits, plan, cuda, out);
}

typedef struct ready {
    const ftl_plan *plan;
    const char *cuda;
} ready;

static ftl_status take_ready(ftl_context *context, void *user, const ftl_plan **plan,
                             const char **cuda) {
    (void)context;
    const ready *made = user;
    *plan = made->plan;
    *cuda = made->cuda;
    return FTL_OK;
}

ftl_status ftl_module_load(ftl_context *context, ftl_runtime *runtime, const ftl_plan *plan,
                           const char *cuda, ftl_module **out) {
    NEEDS(out);
    *out = NULL;
    NEEDS(runtime);
    if (!plan || !cuda) {
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT, "plan or CUDA text is null");
    }
    char why[FTL_WHY_BYTES];
    if (!ftl_plan_check(plan, why))
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT, "%s", why);
    char *plan_text = ftl_plan_write(plan);
    if (!plan_text) return ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
    text_buffer source;
    text_init(&source, 64 << 20);
    text_add_z(&source, plan_text);
    text_add_z(&source, "\n");
    text_add_z(&source, cuda);
    free(plan_text);
    ready made = {plan, cuda};
    ftl_status status = source.failed ? ftl_context_fail(context, FTL_NO_MEMORY, "out of memory")
                                      : module_load_source(context, runtime, text_str(&source),
                                                           take_ready, &made, out);
    text_done(&source);
    return status;
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

ftl_status ftl_module_launch(ftl_context *context, const ftl_module *module,
                             const ftl_arguments *arguments, void *stream) {
    if (!module) return ftl_context_fail(context, FTL_INVALID_ARGUMENT, "the module is null");
    ftl_launch launch;
    char why[FTL_WHY_BYTES];
    const ftl_plan *plan = module->plan;
    if (!plan_resolve_checked(plan, arguments, &launch, why)) {
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
    void *parameters[] = {launch.parameters};
    if (!result) {
        result = cuda->launch(module->function, launch.grid, 1, 1, (unsigned)plan->threads, 1, 1,
                              (unsigned)plan->shared_bytes, stream, parameters, NULL);
    }
    if (result == 0) return FTL_OK;
    char what[256];
    snprintf(what, sizeof what, "launch kernel '%s'", plan->kernel);
    return runtime_cuda_status(context, cuda, result, what);
}
