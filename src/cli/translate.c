/* flashtl translate: from TL Code to CUDA. */
#include "cli/agents.h"
#include "cli/cute.h"

#include <stdio.h>
#include <string.h>

/* Several kernels of a program stand one behind the other. */
static int put_kernels(cli *c, const ftl_product *product) {
    text_buffer text;
    text_init(&text, 64 << 20);
    for (int32_t i = 0; i < product->kernel_count; i++) {
        text_add_z(&text, c->options.plan_only ? "" : product->kernels[i].cuda);
        if (!c->options.plan_only) continue;
        char *plan = ftl_plan_write(product->kernels[i].plan);
        if (plan) text_format(&text, "%s\n", plan);
        else text.failed = true;
        ftl_free(plan);
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
