/* Kernels by the source that decides them: from the cache, else compiled, verified and stored. */
#include "base/hash.h"
#include "base/needs.h"
#include "runtime/module.h"
#include "runtime/verdict.h"
#include "verify/built.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SOURCE_BYTES_MAX = 64 << 20 };

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

/* --- the cache -------------------------------------------------------------------------------- */

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
                        bool needs_verdict, ftl_module **out) {
    cache_entry entry;
    char why[FTL_WHY_BYTES];
    cache_result result = cache_read(runtime->cache_folder, digits, &entry);
    bool is_loaded = false, is_wanted = entry.is_verified || !needs_verdict;
    if (result == CACHE_FOUND && is_wanted) {
        ftl_plan *plan = ftl_plan_read(entry.plan.data, entry.plan.length, why);
        /* The section's newline is after the image; PTX wants a NUL there. */
        entry.storage.data[entry.image.data + entry.image.length - entry.storage.data] = 0;
        is_loaded = plan && module_load(NULL, runtime, plan, entry.image.data, out) == FTL_OK;
    }
    cache_done(&entry);
    bool is_damaged = result == CACHE_DAMAGED || (result == CACHE_FOUND && is_wanted);
    if (!is_loaded && is_damaged) {
        ftl_context_warn(context, "the cache entry %s in '%s' is damaged and was rebuilt", digits,
                         runtime->cache_folder);
    }
    return is_loaded;
}

static void store(ftl_context *context, ftl_runtime *runtime, const char digits[33],
                  const ftl_kernel *kernel, const ftl_image *image, bool is_verified) {
    char *text = ftl_plan_write(kernel->plan);
    os_error why = {"out of memory"};
    cache_entry entry = {.plan = str_from(text ? text : ""),
                         .cuda = str_from(kernel->cuda),
                         .image = {image->bytes, image->length},
                         .kind = image->kind,
                         .is_verified = is_verified};
    if (!text || !cache_write(runtime->cache_folder, digits, &entry, &why)) {
        ftl_context_warn(context, "the kernel is not cached: %s", why.text);
    }
    free(text);
}

/* The key of a kernel of what a source names: the first one's is that of the source alone. */
static void make_key_of(ftl_runtime *runtime, str source, int32_t kernel, int capability,
                        cache_key *key) {
    if (!kernel) {
        make_key(runtime, source, capability, key);
        return;
    }
    text_buffer text;
    text_init(&text, SOURCE_BYTES_MAX);
    text_format(&text, "kernel %d of\n", (int)kernel);
    text_add(&text, source);
    make_key(runtime, text_str(&text), capability, key);
    text_done(&text);
}

/* The keys of a source on the current device; false where nothing is cached. */
static bool current_keys(ftl_context *context, ftl_runtime *runtime, str source, int32_t count,
                         cache_key *keys) {
    int capability = 0;
    if (!runtime->cache_folder || runtime_current_capability(context, runtime, &capability))
        return false;
    for (int32_t i = 0; i < count; i++) make_key_of(runtime, source, i, capability, &keys[i]);
    return true;
}

static void unload(ftl_module **modules, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        ftl_module_free(modules[i]);
        modules[i] = NULL;
    }
}

bool module_load_cached(ftl_context *context, ftl_runtime *runtime, str source, int32_t count,
                        ftl_module **out) {
    cache_key keys[MODULE_KERNELS_MAX];
    for (int32_t i = 0; i < count; i++) out[i] = NULL;
    bool is_all = current_keys(context, runtime, source, count, keys);
    for (int32_t i = 0; i < count && is_all; i++)
        is_all = load_cached(context, runtime, keys[i].digits, !runtime->is_unverified, &out[i]);
    if (!is_all) unload(out, count);
    return is_all;
}

void module_cache_also(ftl_context *context, ftl_runtime *runtime, str source, str other,
                       int32_t count) {
    cache_key from[MODULE_KERNELS_MAX], to[MODULE_KERNELS_MAX];
    if (!current_keys(context, runtime, source, count, from) ||
        !current_keys(context, runtime, other, count, to)) {
        return;
    }
    for (int32_t i = 0; i < count; i++) {
        cache_entry entry;
        os_error why;
        /* What cannot be written is made anew by the next process: no harm. */
        if (cache_read(runtime->cache_folder, from[i].digits, &entry) == CACHE_FOUND &&
            !cache_write(runtime->cache_folder, to[i].digits, &entry, &why)) {
            ftl_context_warn(context, "the kernel is not cached: %s", why.text);
        }
        cache_done(&entry);
    }
}

/* --- making what is not there ----------------------------------------------------------------- */

/* Kernels that are made together: of a product, or one of which nobody knows what it means. */
typedef struct making {
    const ftl_product *product; /* or NULL */
    const ftl_kernel *kernels;
    int32_t count;
    const cache_key *keys; /* of each; NULL: nothing is cached */
    ftl_module **modules;
} making;

static ftl_status compile(ftl_context *context, ftl_runtime *runtime, int capability,
                          const ftl_kernel *kernel, ftl_image *image) {
    char name[160], target[32];
    snprintf(name, sizeof name, "%s.cu", kernel->plan->entry);
    ftl_status status = choose_target(context, runtime, kernel->plan, capability, target);
    if (status) return status;
    return ftl_compile_cuda(context, runtime, kernel->cuda, name, target, image);
}

static ftl_status load_and_store(ftl_context *context, ftl_runtime *runtime, const making *m,
                                 const ftl_image *images, bool is_verified) {
    ftl_status status = FTL_OK;
    for (int32_t i = 0; i < m->count && !status; i++) {
        status = module_load(context, runtime, module_copy_plan(m->kernels[i].plan),
                             images[i].bytes, &m->modules[i]);
    }
    for (int32_t i = 0; i < m->count && !status && m->keys; i++)
        store(context, runtime, m->keys[i].digits, &m->kernels[i], &images[i], is_verified);
    if (status) unload(m->modules, m->count);
    return status;
}

/* Compiles here while a thread verifies; what is wrong, or does not load, is not stored. */
static ftl_status make(ftl_context *context, ftl_runtime *runtime, int capability,
                       const making *m) {
    bool is_verified = false, verifies = m->product && !runtime->is_unverified;
    ftl_image *images = calloc((size_t)m->count, sizeof *images);
    if (!images) return ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
    verdict *waiting = verifies ? verdict_begin(runtime, m->product) : NULL;
    ftl_status status = FTL_OK;
    for (int32_t i = 0; i < m->count && !status; i++)
        status = compile(context, runtime, capability, &m->kernels[i], &images[i]);
    if (verifies) { /* what the compiler says comes first */
        ftl_status found = verdict_end(status ? NULL : context, waiting, &is_verified);
        if (!status) status = found;
    }
    if (!status) status = load_and_store(context, runtime, m, images, is_verified);
    for (int32_t i = 0; i < m->count; i++) ftl_image_done(&images[i]);
    free(images);
    return status;
}

/* --- what others ask for ---------------------------------------------------------------------- */

ftl_status module_make_source(ftl_context *context, ftl_runtime *runtime, str source,
                              module_build *build, void *user, int32_t count, ftl_module **out) {
    int capability = 0;
    cache_key keys[MODULE_KERNELS_MAX];
    const ftl_product *product = NULL;
    for (int32_t i = 0; i < count; i++) out[i] = NULL;
    ftl_status status = runtime_current_capability(context, runtime, &capability);
    if (status) return status;
    bool is_cached = current_keys(context, runtime, source, count, keys);
    status = build(context, user, &product);
    if (status) return status;
    if (product->kernel_count != count)
        return ftl_context_fail(context, FTL_REJECTED, "the program has %d kernels, not %d",
                                (int)product->kernel_count, (int)count);
    const making all = {product, product->kernels, count, is_cached ? keys : NULL, out};
    return make(context, runtime, capability, &all);
}

/* What decides a kernel's text and, of a product, what it should compute. */
static bool write_source(const ftl_kernel *kernel, const char *meaning, text_buffer *out) {
    char *plan = ftl_plan_write(kernel->plan);
    text_init(out, SOURCE_BYTES_MAX);
    if (plan) {
        text_add_z(out, plan);
        text_add_z(out, "\n");
        text_add_z(out, kernel->cuda);
        text_add_z(out, meaning);
    }
    free(plan);
    if (plan && !out->failed) return true;
    text_done(out);
    return false;
}

/* Keys and modules of what is in the cache already. */
static ftl_status look_up(ftl_context *context, ftl_runtime *runtime, int capability,
                          const char *meaning, const making *m, cache_key *keys, bool *is_all) {
    *is_all = true;
    for (int32_t i = 0; i < m->count; i++) {
        text_buffer source;
        if (!write_source(&m->kernels[i], meaning, &source))
            return ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
        make_key(runtime, text_str(&source), capability, &keys[i]);
        text_done(&source);
        bool needs_verdict = m->product && !runtime->is_unverified;
        *is_all =
            *is_all && load_cached(context, runtime, keys[i].digits, needs_verdict, &m->modules[i]);
    }
    return FTL_OK;
}

static ftl_status load_all(ftl_context *context, ftl_runtime *runtime, const char *meaning,
                           making m) {
    int capability = 0;
    bool is_all = false;
    ftl_status status = runtime_current_capability(context, runtime, &capability);
    if (status || !runtime->cache_folder)
        return status ? status : make(context, runtime, capability, &m);
    cache_key *keys = calloc((size_t)m.count, sizeof *keys);
    if (!keys) return ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
    m.keys = keys;
    status = look_up(context, runtime, capability, meaning, &m, keys, &is_all);
    if (status || !is_all) unload(m.modules, m.count);
    if (!status && !is_all) status = make(context, runtime, capability, &m);
    free(keys);
    return status;
}

static ftl_status check_kernel(ftl_context *context, const ftl_plan *plan, const char *cuda) {
    char why[FTL_WHY_BYTES];
    if (!plan || !cuda) {
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT, "plan or CUDA text is null");
    }
    if (ftl_plan_check(plan, why)) return FTL_OK;
    return ftl_context_fail(context, FTL_INVALID_ARGUMENT, "%s", why);
}

ftl_status ftl_module_load(ftl_context *context, ftl_runtime *runtime, const ftl_plan *plan,
                           const char *cuda, ftl_module **out) {
    NEEDS(out);
    *out = NULL;
    NEEDS(runtime);
    ftl_status status = check_kernel(context, plan, cuda);
    if (status) return status;
    const ftl_kernel kernel = {(char *)(uintptr_t)cuda, (ftl_plan *)(uintptr_t)plan};
    return load_all(context, runtime, "", (making){.kernels = &kernel, .count = 1, .modules = out});
}

/* The program and all its kernels: a verdict is about them as a whole. */
static bool write_meaning(const ftl_product *product, text_buffer *out) {
    char digits[33];
    text_init(out, SOURCE_BYTES_MAX);
    if (!verify_form_digits(product, digits)) return false;
    text_format(out, "\nmeans %s", digits);
    return !out->failed;
}

ftl_status ftl_product_load(ftl_context *context, ftl_runtime *runtime, const ftl_product *product,
                            ftl_module **modules) {
    NEEDS(product);
    NEEDS(modules);
    NEEDS(runtime);
    const char *text = product->sketch ? product->sketch : product->code;
    if (!text || !product->kernels || product->kernel_count < 1) {
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "the product has no program, or no kernels");
    }
    ftl_status status = FTL_OK;
    for (int32_t i = 0; i < product->kernel_count; i++) modules[i] = NULL;
    for (int32_t i = 0; i < product->kernel_count && !status; i++)
        status = check_kernel(context, product->kernels[i].plan, product->kernels[i].cuda);
    if (status) return status;
    text_buffer meaning;
    const making all = {.product = product,
                        .kernels = product->kernels,
                        .count = product->kernel_count,
                        .modules = modules};
    status = write_meaning(product, &meaning)
                 ? load_all(context, runtime, meaning.data, all)
                 : ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
    text_done(&meaning);
    return status;
}
