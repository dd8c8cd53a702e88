#include "tune/build.h"

#include "base/hash.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>

enum { JOBS_MAX = 64, PINS_MAX = 256 };

typedef struct pool {
    const tune_request *request;
    const search_space *space;
    ftl_runtime *runtime; /* NULL: build; else compile */
    const char *target;
    build_candidate *candidates;
    int count;
    atomic_int next;
} pool;

int32_t build_pins(const tune_request *request, const char *text, ftl_pin *pins,
                   char storage[SEARCH_TEXT_BYTES]) {
    int32_t count = 0;
    for (; count < request->options.pin_count; count++) pins[count] = request->options.pins[count];
    snprintf(storage, SEARCH_TEXT_BYTES, "%s", text);
    for (char *at = storage; *at;) {
        char *name = at, *value = strchr(at, '=');
        if (!value) break;
        *value++ = 0;
        at = value + strcspn(value, " ");
        if (*at) *at++ = 0;
        pins[count++] = (ftl_pin){name, value};
    }
    return count;
}

static void keep_words(store_row *row, store_state state, const char *words) {
    row->state = state;
    size_t length = strcspn(words, "\n");
    snprintf(row->why, sizeof row->why, "%.*s", (int)(length < 200 ? length : 200), words);
}

static void build_one(pool *p, ftl_context *context, build_candidate *c) {
    ftl_pin pins[PINS_MAX];
    char storage[SEARCH_TEXT_BYTES];
    search_text(p->space, &c->choice, c->row.pins);
    ftl_options options = p->request->options;
    options.pins = pins;
    options.pin_count = build_pins(p->request, c->row.pins, pins, storage);
    options.measured = "";
    ftl_status status = ftl_build(context, &p->request->source, &options, &c->product);
    if (status) {
        char *words = ftl_context_diagnostics(context, FTL_DIAGNOSTICS_TEXT);
        bool has_words = words && *words;
        keep_words(&c->row, STORE_REJECTED, has_words ? words : ftl_context_error(context));
        ftl_free(words);
        return;
    }
    c->row.state = STORE_OPEN;
    c->row.predicted_tflops = c->product->predicted_tflops;
    c->row.shared_bytes = c->product->kernels[0].plan->shared_bytes;
    hash_digits(hash_bytes(str_from(c->product->kernels[0].cuda)), c->row.kernel);
}

static void compile_one(pool *p, ftl_context *context, build_candidate *c) {
    if (c->row.state != STORE_OPEN) return;
    ftl_status status = ftl_compile_cuda(context, p->runtime, c->product->kernels[0].cuda,
                                         "candidate.cu", p->target, &c->image);
    if (status) {
        bool is_rejected = status == FTL_COMPILER_FAILED;
        keep_words(&c->row, is_rejected ? STORE_FAILED : STORE_OPEN, ftl_context_error(context));
        c->world = is_rejected ? FTL_OK : status;
        return;
    }
    c->has_image = true;
    c->row.registers = c->image.registers;
    c->row.spill_bytes = c->image.spill_bytes;
    c->row.state = STORE_BUILT;
    const char *serialised = strstr(c->image.log ? c->image.log : "", "serializ");
    if (serialised)
        keep_words(&c->row, STORE_SPILLS, "the compiler serialises asynchronous products");
    if (c->image.spill_bytes > 0) {
        c->row.state = STORE_SPILLS;
        snprintf(c->row.why, sizeof c->row.why, "%d bytes spilled", c->image.spill_bytes);
    }
}

static int work(void *user) {
    pool *p = user;
    ftl_context *context = NULL;
    if (ftl_context_new(&context) != FTL_OK) return 1;
    for (int i; (i = atomic_fetch_add(&p->next, 1)) < p->count;) {
        bool is_stopped = p->request->stop && *p->request->stop;
        if (is_stopped) break;
        if (p->runtime) compile_one(p, context, &p->candidates[i]);
        else build_one(p, context, &p->candidates[i]);
    }
    ftl_context_free(context);
    return 0;
}

static void run_pool(pool *p) {
    thrd_t threads[JOBS_MAX];
    int jobs = p->request->jobs > 0 ? p->request->jobs : os_processor_count(), started = 0;
    if (jobs > JOBS_MAX) jobs = JOBS_MAX;
    if (jobs > p->count) jobs = p->count;
    while (started + 1 < jobs && thrd_create(&threads[started], work, p) == thrd_success) started++;
    work(p);
    for (int i = 0; i < started; i++) thrd_join(threads[i], NULL);
}

void build_all(const tune_request *request, const search_space *space, build_candidate *candidates,
               int count) {
    pool p = {.request = request, .space = space, .candidates = candidates, .count = count};
    run_pool(&p);
}

void build_compile(const tune_request *request, ftl_runtime *runtime, const char *target,
                   build_candidate *candidates, int count) {
    pool p = {.request = request,
              .runtime = runtime,
              .target = target,
              .candidates = candidates,
              .count = count};
    run_pool(&p);
}

void build_free(build_candidate *candidates, int count) {
    for (int i = 0; i < count; i++) {
        ftl_product_free(candidates[i].product);
        if (candidates[i].has_image) ftl_image_done(&candidates[i].image);
    }
}
