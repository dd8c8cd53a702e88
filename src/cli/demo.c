/* flashtl demo: one sketch, four GPUs, each kernel made, compiled and proved on this machine; then
 * its gradients.
 */
#include "base/number.h"
#include "bench/cudnn.h"
#include "cli/machine.h"
#include "cli/timed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const gpus[] = {"t4", "a100", "l40s", "h200"};
enum { GPU_COUNT = sizeof gpus / sizeof *gpus };

/* Small cases that meet every edge: one element, ends of tiles, more queries than keys, no keys. */
static const char shapes[] = "1x1,113x203,128x64,65x129,70x3,5x0";
/* Gradients are several kernels, each over all pairs: two cases are enough to show. */
static const char *const gradient_gpus[] = {"t4", "h200"};
static const char gradient_shapes[] = "70x45";

typedef struct row {
    ftl_gpu gpu;
    double make_ms, compile_s, verify_s;
    double predicted_tflops;
    int threads, shared_bytes, registers, spill_bytes;
    char tiles[64];
    char verdict[64];
    bool is_right;
} row;

static double seconds_since(int64_t start_ns) {
    return (double)(os_time_ns() - start_ns) / 1e9;
}

/* "128 x 64": the tile sizes, as the TL Code pins them. */
static void find_tiles(const char *code, char tiles[64]) {
    const char *rows = strstr(code, "BM = "), *columns = strstr(code, "BN = ");
    int m = 0, n = 0;
    if (rows) sscanf(rows, "BM = %d", &m);
    if (columns) sscanf(columns, "BN = %d", &n);
    snprintf(tiles, 64, "%d x %d", m, n);
}

static void name_verdict(row *r, const verify_summary *s, const char *where) {
    r->is_right = s->failed == 0 && s->passed > 0;
    number_print(r->verdict, sizeof r->verdict, "%s: %d of %d cases, error %.0e", where, s->passed,
                 s->total, s->worst_rms);
}

static ftl_status verify_on_machine(cli *c, ftl_runtime *runtime, const cli_request *request,
                                    const machine_program *made, verify_on on, const char *lengths,
                                    verify_summary *out) {
    verify_program program = machine_verify_program(made, request);
    verify_options options = {.shapes = lengths, .seed = 1};
    verify_machine *machine = NULL;
    ftl_status status = verify_machine_open(c->context, &program, on, runtime, &machine);
    if (!status) {
        status = verify_run(c->context, &program, verify_machine_runner(machine), &options, out);
    }
    verify_machine_close(machine);
    return status == FTL_CHECK_FAILED ? FTL_OK : status;
}

static ftl_status compile(cli *c, ftl_runtime *runtime, const machine_program *made, row *r) {
    ftl_image image;
    int64_t start_ns = os_time_ns();
    ftl_status status = ftl_compile_cuda(c->context, runtime, made->product->kernels[0].cuda,
                                         "attention.cu", r->gpu.target, &image);
    r->compile_s = seconds_since(start_ns);
    r->registers = r->spill_bytes = -1;
    if (status == FTL_NO_COMPILER)
        return FTL_OK; /* a machine without CUDA: no cubin, all else goes on */
    if (status) return status;
    r->registers = image.registers;
    r->spill_bytes = image.spill_bytes;
    ftl_image_done(&image);
    return FTL_OK;
}

static int make_row(cli *c, ftl_runtime *runtime, cli_request *request, const char *gpu,
                    bool on_gpu, row *r) {
    machine_program made;
    verify_summary summary = {0};
    int64_t start_ns = os_time_ns();
    request->options.gpu = gpu;
    int exit_status = machine_make(c, request, VERIFY_EMULATOR, &made);
    if (exit_status) return exit_status;
    r->make_ms = seconds_since(start_ns) * 1e3;
    r->predicted_tflops = made.product->predicted_tflops;
    r->threads = made.plan->threads;
    r->shared_bytes = made.plan->shared_bytes;
    find_tiles(made.product->code, r->tiles);
    r->gpu = (ftl_gpu)FTL_GPU_INIT;
    ftl_status status = ftl_gpu_describe(c->context, gpu, &r->gpu);
    if (!status) status = compile(c, runtime, &made, r);
    start_ns = os_time_ns();
    if (!status) {
        status = verify_on_machine(c, runtime, request, &made, VERIFY_EMULATOR, shapes, &summary);
        if (!status) name_verdict(r, &summary, "emulator");
    }
    if (!status && on_gpu && r->is_right) {
        status = verify_on_machine(c, runtime, request, &made, VERIFY_GPU, shapes, &summary);
        if (!status) name_verdict(r, &summary, "GPU here");
        if (status == FTL_NO_DEVICE) status = FTL_OK; /* a kernel for a later GPU than this one */
    }
    r->verify_s = seconds_since(start_ns);
    machine_done(&made);
    return cli_finish(c, status);
}

static void print_introduction(const cli_request *request, bool on_gpu) {
    printf("Grouped-query causal attention, f16, head dimension 128. The sketch, all that a person "
           "writes:\n\n%s\n",
           request->sketch);
    printf("From it, for each GPU: TL Code with every decision, one CUDA file, and a proof on this "
           "machine\nagainst fp64 (%s), at lengths that are no multiple of any tile.\n\n",
           on_gpu ? "the kernel's PTX on an emulator, then the kernel on the GPU"
                  : "the kernel's PTX on an emulator; there is no GPU here");
}

static void print_row(const row *r) {
    char registers[32] = "-", spilled[32] = "-";
    if (r->registers >= 0) snprintf(registers, sizeof registers, "%d", r->registers);
    if (r->spill_bytes >= 0) snprintf(spilled, sizeof spilled, "%d", r->spill_bytes);
    number_write(stdout, "%-28s %-9s %6.1f ms  %5.1f s  %4s %7s  %5.1f KiB  %7.0f  %s %s\n",
                 r->gpu.title, r->tiles, r->make_ms, r->compile_s, registers, spilled,
                 r->shared_bytes / 1024.0, r->predicted_tflops, r->is_right ? "right" : "WRONG",
                 r->verdict);
    fflush(stdout);
}

/* --- its gradients ---------------------------------------------------------------------------- */

/* The program's kernels by their names. */
static void print_kernels(const ftl_product *product) {
    for (int i = 0; i < product->kernel_count; i++)
        printf("%s%s", i ? ", " : "", product->kernels[i].plan->kernel);
    printf(".\n");
}

static int make_gradients(cli *c, ftl_runtime *runtime, cli_request *request, const char *gpu,
                          bool is_first) {
    machine_program made;
    verify_summary summary = {0};
    row r = {.gpu = FTL_GPU_INIT};
    request->options.gpu = gpu;
    int64_t start_ns = os_time_ns();
    int exit_status = machine_make(c, request, VERIFY_EMULATOR, &made);
    if (exit_status) return exit_status;
    r.make_ms = seconds_since(start_ns) * 1e3;
    if (is_first) print_kernels(made.product);
    ftl_status status = ftl_gpu_describe(c->context, gpu, &r.gpu);
    if (!status)
        status = verify_on_machine(c, runtime, request, &made, VERIFY_EMULATOR, gradient_shapes,
                                   &summary);
    if (!status) {
        name_verdict(&r, &summary, "emulator");
        number_write(stdout, "%-28s %16.1f ms  %s %s\n", r.gpu.title, r.make_ms,
                     r.is_right ? "right" : "WRONG", r.verdict);
        fflush(stdout);
    }
    machine_done(&made);
    return status ? cli_finish(c, status) : r.is_right ? EXIT_DONE : EXIT_REJECTED;
}

/* What `flashtl derive` writes of the sketch, as one program: the forward kernel leaves what the
 * others read.
 */
static int show_gradients(cli *c, ftl_runtime *runtime, const cli_request *request) {
    cli_request gradients = *request;
    char *text = NULL;
    int exit_status =
        cli_finish(c, ftl_derive(c->context, &request->source, NULL, 0, false, &text));
    if (exit_status) return exit_status;
    gradients.source = (ftl_source){"gradients", text, strlen(text)};
    gradients.family[0] = 0;
    printf("\nIts gradients dQ, dK and dV, derived from these lines statement by statement, in "
           "kernels: ");
    for (size_t i = 0; !exit_status && i < sizeof gradient_gpus / sizeof *gradient_gpus; i++)
        exit_status = make_gradients(c, runtime, &gradients, gradient_gpus[i], !i);
    ftl_free(text);
    return exit_status;
}

/* --- how fast, on the GPU that is here -------------------------------------------------------- */

static void print_speed(const timed_machine *machine, const bench_result *r, const cudnn *rival) {
    const bench_figure *ours = &r->figures[0], *theirs = &r->figures[1];
    printf("\n");
    cli_tell(stdout, "On this %s, %s, %d tokens: ", machine->device.name, r->what.row,
             (int)r->what.length);
    if (ours->verdict != BENCH_FINE) {
        cli_tell(stdout, "no figure (%s: %s).\n", bench_verdict_name(ours->verdict), ours->why);
        return;
    }
    number_write(stdout, "%.0f TFLOPS", ours->tflops);
    if (rival && theirs->verdict == BENCH_FINE) {
        int version = (int)cudnn_version(rival);
        number_write(stdout, "; cuDNN %d.%d.%d in the same seconds: %.0f; %.2f times as fast",
                     version / 10000, version / 100 % 100, version % 100, theirs->tflops,
                     theirs->milliseconds / ours->milliseconds);
    }
    printf(".\n");
}

/* Our kernel for this card, beside cuDNN's where cuDNN is; what fails is one sentence, no failure
 * of the demonstration.
 */
static void show_speed(cli *c) {
    static const grid_cell cell = {.name = "gqa",
                                   .batch = 4,
                                   .length = 4096,
                                   .q_heads = 32,
                                   .kv_heads = 8,
                                   .head_dim = 128,
                                   .value_dim = 128,
                                   .is_causal = true};
    timed_machine machine;
    timed_kernel kernel = {0};
    bench_case one;
    static bench_result result;
    bench_options options;
    cudnn *opened = NULL;
    bench_rival rival = {0};
    ftl_status status = timed_open(c, NULL, &machine);
    if (!status) status = timed_attention(c, &machine, &cell, FTL_F16, &kernel);
    if (!status) status = timed_cell(c, &machine, &cell, &kernel, &one);
    if (!status && timed_options(c, &machine, &options) == EXIT_DONE) {
        if (cudnn_open(c->context, getenv("FLASHTL_CUDNN"), &opened) == FTL_OK) {
            rival = cudnn_rival(opened);
            options.rivals = &rival;
            options.rival_count = 1;
        }
        status = bench_run(c->context, machine.runtime, &one, 1, &options, &result);
    }
    if (!status) print_speed(&machine, &result, opened);
    else cli_finish(c, status);
    cudnn_close(opened);
    timed_kernel_done(&kernel);
    timed_close(&machine);
}

int cli_run_DEMO(cli *c) {
    if (c->options.file_count) return cli_say(EXIT_USAGE, "'demo' takes no file");
    static cli_request request;
    static char head_dim[] = "128";
    ftl_runtime *runtime = NULL;
    int32_t devices = 0;
    int64_t start_ns = os_time_ns();
    c->options.op = "gqa";
    c->options.causal = true;
    c->options.head_dim = head_dim;
    int exit_status = request_open(c, &request);
    if (!exit_status) exit_status = cli_finish(c, cli_open_runtime(c, &runtime));
    bool on_gpu = !exit_status && ftl_device_count(c->context, runtime, &devices) == FTL_OK &&
                  devices > 0 && ftl_device_use(c->context, runtime, 0) == FTL_OK;
    if (!exit_status) {
        print_introduction(&request, on_gpu);
        printf("%-28s %-9s %9s  %7s  %4s %7s  %9s  %7s  %s\n", "GPU", "tile", "sketch", "CUDA to",
               "reg-", "bytes", "shared", "TFLOPS", "is it right?");
        printf("%-28s %-9s %9s  %7s  %4s %7s  %9s  %7s\n", "", "q x kv", "to CUDA", "cubin",
               "isters", "spilled", "memory", "predicted");
    }
    for (int i = 0; !exit_status && i < GPU_COUNT; i++) {
        row r = {0};
        exit_status = make_row(c, runtime, &request, gpus[i], on_gpu, &r);
        if (!exit_status) print_row(&r);
        if (!exit_status && !r.is_right) exit_status = EXIT_REJECTED;
    }
    if (!exit_status) exit_status = show_gradients(c, runtime, &request);
    if (!exit_status && on_gpu) show_speed(c);
    if (!exit_status) {
        number_write(stdout,
                     "\nAll done in %.0f s. Next:\n"
                     "  flashtl build --op gqa --causal --head-dim 128 --gpu t4,h200 -o kernels\n"
                     "writes the files; 'flashtl help' lists the commands.\n",
                     seconds_since(start_ns));
    }
    ftl_runtime_close(runtime);
    request_done(&request);
    return exit_status;
}
