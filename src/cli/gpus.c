/* flashtl gpus: what kernels can be made for, and what this machine has. */
#include "base/number.h"
#include "cli/cli.h"

#include <stdio.h>

static void print_row(const cli *c, const ftl_gpu *g) {
    if (c->options.json) {
        cli_print_json(json_pack(
            "{s:o,s:o,s:o,s:i,s:I,s:f,s:f,s:f}", "name", json_from(str_from(g->name)), "title",
            json_from(str_from(g->title)), "target", json_from(str_from(g->target)),
            "multiprocessors", (int)g->multiprocessors, "shared_bytes", (json_int_t)g->shared_bytes,
            "memory_gb_per_s", g->memory_gb_per_s, "mma_tflops", g->mma_tflops, "tensor_tflops",
            g->tensor_tflops));
        return;
    }
    cli_tell(stdout, "%-12s %-28s %-8s %4d  %4lld KiB  %6.0f GB/s  %7.1f  %7.1f\n", g->name,
             g->title, g->target, g->multiprocessors, (long long)g->shared_bytes / 1024,
             g->memory_gb_per_s, g->mma_tflops, g->tensor_tflops);
}

static void print_devices(cli *c) {
    ftl_runtime *runtime;
    int32_t count;
    if (cli_open_runtime(c, &runtime) != FTL_OK) return;
    ftl_status status = ftl_device_count(c->context, runtime, &count);
    if (status) cli_tell(stderr, "this machine: %s\n", ftl_context_error(c->context));
    for (int32_t i = 0; !status && i < count; i++) {
        ftl_device device;
        ftl_gpu fit = FTL_GPU_INIT;
        if (ftl_device_describe(c->context, runtime, i, &device) != FTL_OK) continue;
        int32_t capability = 10 * device.major + device.minor;
        bool is_known = ftl_gpu_for_device(c->context, device.name, capability,
                                           device.multiprocessors, &fit) == FTL_OK;
        cli_tell(stderr, "this machine: GPU %d is %s, capability %d.%d; description: %s\n", i,
                 device.name, device.major, device.minor, is_known ? fit.name : "none fits");
    }
    ftl_runtime_close(runtime);
}

int cli_run_GPUS(cli *c) {
    if (c->options.file_count > 0) {
        const char *name = cli_one_file(c);
        char *text = NULL;
        ftl_gpu known = FTL_GPU_INIT;
        if (!name) return EXIT_USAGE;
        if (c->options.json) {
            ftl_status described = ftl_gpu_describe(c->context, name, &known);
            if (!described) print_row(c, &known);
            return cli_finish(c, described);
        }
        ftl_status status = ftl_gpu_text(c->context, name, &text);
        return status ? cli_finish(c, status) : cli_put(c, text);
    }
    if (!c->options.json) {
        printf("%-12s %-28s %-8s %4s  %8s  %11s  %7s  %7s\n", "name", "product", "target", "SMs",
               "shared", "memory", "mma", "tensor");
        printf("%-12s %-28s %-8s %4s  %8s  %11s  %16s\n", "", "", "", "", "a block", "",
               "TFLOPS, 16-bit");
    }
    ftl_gpu g = FTL_GPU_INIT;
    ftl_status status = FTL_OK;
    for (int32_t i = 0; (status = ftl_gpu_at(c->context, i, &g)) == FTL_OK; i++) print_row(c, &g);
    if (status != FTL_NOT_FOUND) return cli_finish(c, status);
    fflush(stdout);
    print_devices(c);
    return EXIT_DONE;
}
