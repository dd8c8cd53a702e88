#include "runtime/verdict.h"

#include "verify/built.h"

#include <stdlib.h>

struct verdict {
    ftl_runtime *runtime;
    const ftl_product *product;
    ftl_context *context; /* of the thread that verifies */
    thrd_t thread;
    bool has_thread;
    ftl_status status;
    verify_built found;
};

static int verify(void *of) {
    verdict *v = of;
    const verify_program program =
        verify_program_of(v->product, v->product->kernels[0].plan->kernel);
    v->status = verify_product(v->context, &program, v->runtime, NULL, &v->found);
    return 0;
}

verdict *verdict_begin(ftl_runtime *runtime, const ftl_product *product) {
    verdict *v = calloc(1, sizeof *v);
    if (!v) return NULL;
    v->runtime = runtime, v->product = product;
    v->found.finding = VERIFY_RIGHT;
    if (verify_is_shipped(product)) return v;
    if (ftl_context_new(&v->context) != FTL_OK) {
        free(v);
        return NULL;
    }
    v->has_thread = thrd_create(&v->thread, verify, v) == thrd_success;
    if (!v->has_thread) verify(v);
    return v;
}

ftl_status verdict_end(ftl_context *context, verdict *v, bool *is_verified) {
    *is_verified = false;
    if (!v) return ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
    if (v->has_thread) thrd_join(v->thread, NULL);
    ftl_status status = v->status;
    if (status) {
        ftl_context_fail(context, status, "kernel '%s' cannot be verified: %s",
                         v->product->kernels[0].plan->kernel, ftl_context_error(v->context));
    } else if (v->found.finding == VERIFY_WRONG) {
        status = ftl_context_fail(context, FTL_CHECK_FAILED, "%s", v->found.what);
    } else if (v->found.finding == VERIFY_OPEN) {
        ftl_context_warn(context, "%s", v->found.what);
    }
    *is_verified = !status && v->found.finding == VERIFY_RIGHT;
    ftl_context_free(v->context);
    free(v);
    return status;
}
