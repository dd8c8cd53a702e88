/* flashtl bench: attention on this machine's GPU, timed as docs/benchmarks.md says. */
#include "bench/bench.h"

#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CASES_MAX = 512 };

static void show_progress(void *user, int done, int total) {
    const bool *is_shown = user;
    if (*is_shown) fprintf(stderr, "\r\033[K%d of %d cases", done, total);
    if (*is_shown && done == total) fputs("\r\033[K", stderr);
}

static int read_cases(cli *c, bench_case *cases, int *count) {
    const char *grid = c->options.grid ? c->options.grid : "paper";
    const char *wanted = c->options.dtype ? c->options.dtype : "f16";
    ftl_type dtype = strcmp(wanted, "bf16") == 0 ? FTL_BF16 : FTL_F16;
    if (dtype == FTL_F16 && strcmp(wanted, "f16") != 0) {
        return cli_say(EXIT_USAGE, "'--dtype' is f16 or bf16; found '%s'", wanted);
    }
    text_buffer text;
    os_error why;
    char reason[FTL_WHY_BYTES];
    text_init(&text, 1 << 20);
    bool is_file = os_file_exists(grid);
    if (is_file && !os_read_file(grid, (1 << 20) - 1, &text, &why)) {
        text_done(&text);
        return cli_say(EXIT_ENVIRONMENT, "%s", why.text);
    }
    str lines = is_file ? text_str(&text) : (str){NULL, 0};
    if (is_file && !lines.data) lines = STR("");
    *count = bench_grid(grid, lines, dtype, cases, CASES_MAX, reason);
    text_done(&text);
    return *count < 0 ? cli_say(EXIT_USAGE, "%s", reason) : EXIT_DONE;
}

static int plot(const bench_result *results, int count, const char *path) {
    const char *const argv[] = {"gnuplot", NULL};
    text_buffer script, out, err;
    os_error why;
    int code = 0;
    text_init(&script, 4 << 20);
    text_init(&out, 1 << 20);
    text_init(&err, 1 << 20);
    bench_plot(results, count, path, &script);
    int exit_status = EXIT_DONE;
    if (!os_run(argv, text_str(&script), 60, &out, &err, &code, &why)) {
        exit_status = cli_say(EXIT_ENVIRONMENT, "no plot: %s", why.text);
    } else if (code != 0) {
        exit_status = cli_say(EXIT_ENVIRONMENT, "gnuplot: %s", err.data ? err.data : "failed");
    }
    text_done(&script);
    text_done(&out);
    text_done(&err);
    return exit_status;
}

static int report(cli *c, const bench_result *results, int count, const char *gpu) {
    text_buffer text;
    text_init(&text, 4 << 20);
    for (int i = 0; c->options.json && i < count; i++) bench_result_json(&results[i], gpu, &text);
    if (!c->options.json) bench_table(results, count, &text);
    fwrite(text.data ? text.data : "", 1, text.length, stdout);
    text_done(&text);
    return c->options.plot ? plot(results, count, c->options.plot) : EXIT_DONE;
}

static int run(cli *c, ftl_runtime *runtime, const bench_case *cases, int count,
               bench_result *results) {
    ftl_device device;
    ftl_gpu gpu;
    bool is_shown = os_is_terminal(2);
    ftl_status status = ftl_device_use(c->context, runtime, 0);
    if (!status) status = ftl_device_describe(c->context, runtime, 0, &device);
    if (!status) {
        status = ftl_gpu_for_device(c->context, device.name, 10 * device.major + device.minor,
                                    device.multiprocessors, &gpu);
    }
    if (status) return cli_finish(c, status);
    fprintf(stderr, "%s, description %s: at most %.0f TFLOPS by mma.sync, %.0f in all\n",
            device.name, gpu.name, gpu.mma_tflops, gpu.tensor_tflops);
    bench_options options = {.roofline_tflops = gpu.tensor_tflops,
                             .l2_bytes = device.l2_bytes,
                             .on_progress = show_progress,
                             .user = &is_shown};
    status = bench_run(c->context, runtime, cases, count, &options, results);
    return status ? cli_finish(c, status) : report(c, results, count, device.name);
}

int cli_run_BENCH(cli *c) {
    static bench_case cases[CASES_MAX];
    static bench_result results[CASES_MAX];
    int count = 0;
    ftl_runtime *runtime = NULL;
    if (c->options.file_count) return cli_say(EXIT_USAGE, "'bench' takes no file");
    int exit_status = read_cases(c, cases, &count);
    if (!exit_status) exit_status = cli_finish(c, cli_open_runtime(c, &runtime));
    if (!exit_status) exit_status = run(c, runtime, cases, count, results);
    ftl_runtime_close(runtime);
    return exit_status;
}
