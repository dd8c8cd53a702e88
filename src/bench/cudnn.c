#include "bench/cudnn_graph.h"
#include "verify/plan_find.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct symbol {
    const char *name;
    size_t slot;
} symbol;

static const symbol symbols[] = {
#define CUDNN(result, name, symbol, parameters) {symbol, offsetof(cudnn_functions, name)},
#include "bench/cudnn.def"
#undef CUDNN
};

/* --- the library ------------------------------------------------------------------------------ */

static bool load_symbols(cudnn *c, os_error *why) {
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *address = os_library_symbol(c->library, symbols[i].name);
        if (!address) {
            snprintf(why->text, sizeof why->text, "it has no function %s: 9.0 or later is needed",
                     symbols[i].name);
            return false;
        }
        memcpy((char *)&c->call + symbols[i].slot, &address, sizeof address);
    }
    return true;
}

static bool open_library(cudnn *c, const char *library, os_error *why) {
    static const char *const usual[] = {"libcudnn.so.9", "libcudnn.so",
                                        "/usr/local/cuda/lib64/libcudnn.so.9", NULL};
    const char *const given[] = {library, NULL};
    c->library = os_library_open(library ? given : usual, why);
    if (!c->library || !load_symbols(c, why)) return false;
    c->version = (int64_t)c->call.version();
    if (c->version < CUDNN_OLDEST) {
        snprintf(why->text, sizeof why->text, "version %lld is too old: 9.0 or later is needed",
                 (long long)c->version);
        return false;
    }
    int result = c->call.create(&c->handle);
    if (result)
        snprintf(why->text, sizeof why->text, "it does not start: %s", c->call.error_text(result));
    return result == 0;
}

ftl_status cudnn_open(ftl_context *context, const char *library, cudnn **out) {
    os_error why = {""};
    *out = NULL;
    cudnn *c = calloc(1, sizeof *c);
    if (!c) return ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
    if (open_library(c, library, &why)) {
        *out = c;
        return FTL_OK;
    }
    free(c); /* the library stays open, as the driver's does */
    return ftl_context_fail(context, FTL_NOT_FOUND, "no cuDNN: %s", why.text);
}

void cudnn_close(cudnn *c) {
    if (!c) return;
    cudnn_graph_close(&c->graph);
    c->call.destroy(c->handle);
    free(c);
}

int64_t cudnn_version(const cudnn *c) {
    return c->version;
}

/* --- the rival -------------------------------------------------------------------------------- */

static ftl_status open_case(void *user, ftl_context *context, ftl_runtime *runtime,
                            const bench_case *what, const bench_memory *memory) {
    cudnn *c = user;
    const ftl_plan *plan = what->program->text.plan;
    cudnn_graph *g = &c->graph;
    *g = (cudnn_graph){.cudnn = c, .dtype = what->program->dtype};
    if (!bench_read_attention(what, &g->what) || g->what.has_alibi || g->what.has_lse) {
        return ftl_context_fail(context, FTL_NOT_FOUND,
                                "compared with cuDNN is attention with causal mask, window or "
                                "softcap; not this program");
    }
    ftl_status status = cudnn_graph_build(context, g);
    if (status) return status;
    c->runtime = runtime;
    status = ftl_device_allocate(context, runtime, (size_t)g->workspace_bytes, &c->workspace);
    int32_t places[4] = {plan_find_tensor(plan, "Q"), plan_find_tensor(plan, "K"),
                         plan_find_tensor(plan, "V"), plan_find_tensor(plan, "O")};
    for (int32_t copy = 0; !status && copy < memory->copies; copy++) {
        uint64_t tensors[4];
        for (int i = 0; i < 4; i++) {
            tensors[i] = memory->tensors[copy * memory->tensor_count + places[i]];
        }
        status = cudnn_graph_bind(context, g, copy, tensors, c->workspace);
    }
    return status;
}

static ftl_status launch_case(void *user, ftl_context *context, int32_t copy) {
    cudnn *c = user;
    int result = c->call.execute(c->handle, c->graph.plan, c->graph.packs[copy]);
    return result ? cudnn_failure(context, c, result, "run") : FTL_OK;
}

static void close_case(void *user) {
    cudnn *c = user;
    cudnn_graph_close(&c->graph);
    if (c->runtime) ftl_device_free(c->runtime, c->workspace);
    c->workspace = 0;
}

bench_rival cudnn_rival(cudnn *c) {
    return (bench_rival){
        .name = "cudnn", .user = c, .open = open_case, .launch = launch_case, .close = close_case};
}
