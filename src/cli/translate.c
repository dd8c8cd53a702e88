/* flashtl translate: from TL Code to CUDA. */
#include "cli/agents.h"
#include "cli/cute.h"

#include <stdio.h>
#include <string.h>

static void add_plan(const ftl_kernel *kernel, text_buffer *out) {
    char *plan = ftl_plan_write(kernel->plan);
    if (plan) text_format(out, "%s\n", plan);
    else out->failed = true;
    ftl_free(plan);
}

static void add_object(const ftl_kernel *kernel, text_buffer *out) {
    const ftl_plan *plan = kernel->plan;
    json_writer w = {0};
    json_t *object = json_object();
    json_put(&w, object, "kernel", json_from(str_from(plan->kernel)));
    json_put(&w, object, "entry", json_from(str_from(plan->entry)));
    json_put(&w, object, "gpu", json_from(str_from(plan->gpu)));
    json_put(&w, object, "target", json_from(str_from(plan->target)));
    json_put(&w, object, "text", json_from(str_from(kernel->cuda)));
    json_write_line(&w, object, JSON_COMPACT, out);
    json_decref(object);
}

/* Several kernels of a program stand one after the other. */
static int put_kernels(cli *c, const ftl_product *product) {
    text_buffer text;
    text_init(&text, 64 << 20);
    for (int32_t i = 0; i < product->kernel_count; i++) {
        const ftl_kernel *kernel = &product->kernels[i];
        if (c->options.plan_only) add_plan(kernel, &text);
        else if (c->options.json) add_object(kernel, &text);
        else text_add_z(&text, kernel->cuda);
    }
    if (text.failed) {
        text_done(&text);
        return cli_say(EXIT_ENVIRONMENT, "out of memory");
    }
    return cli_put(c, text.data);
}

int cli_run_TRANSLATE(cli *c) {
    const char *path = cli_one_file(c);
    if (!path) return EXIT_USAGE;
    if (cli_refuse_many_gpus(c)) return EXIT_USAGE;
    bool is_by_model = c->options.by || c->options.show_prompts;
    if (!is_by_model && cli_refuse_model_options(c)) return EXIT_USAGE;
    ftl_text_form form;
    int exit_status = cute_form(c, &form);
    if (exit_status) return exit_status;
    text_buffer text;
    ftl_source source;
    if (!cli_read_source(c, path, &text, &source)) return EXIT_ENVIRONMENT;
    if (is_by_model) {
        exit_status = translate_by_model(c, &source);
        text_done(&text);
        return exit_status;
    }
    ftl_product *product = NULL;
    const char *gpu = c->options.gpu.count ? c->options.gpu.items[0] : NULL;
    ftl_status status = ftl_translate_to(c->context, &source, gpu, form, &product);
    text_done(&text);
    exit_status = cli_finish(c, status);
    if (!status) exit_status = put_kernels(c, product);
    ftl_product_free(product);
    return exit_status;
}
