#include "cli/timed.h"
#include "plan/splits.h"
#include "verify/plan_find.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HIDDEN = 2048, TIMED_BYTES_MAX = 16 << 20 };

/* --- the machine ------------------------------------------------------------------------------ */

ftl_status timed_open(cli *c, const char *gpu, timed_machine *out) {
    *out = (timed_machine){.gpu = FTL_GPU_INIT};
    ftl_status status = cli_open_runtime(c, &out->runtime);
    if (!status) status = ftl_device_use(c->context, out->runtime, 0);
    if (!status) status = ftl_device_describe(c->context, out->runtime, 0, &out->device);
    if (status) return status;
    if (gpu) return ftl_gpu_describe(c->context, gpu, &out->gpu);
    const ftl_device *device = &out->device;
    return ftl_gpu_for_device(c->context, device->name, 10 * device->major + device->minor,
                              device->multiprocessors, &out->gpu);
}

void timed_close(timed_machine *machine) {
    ftl_runtime_close(machine->runtime);
    *machine = (timed_machine){0};
}

/* --- kernels ---------------------------------------------------------------------------------- */

void timed_kernel_done(timed_kernel *kernel) {
    ftl_product_free(kernel->product);
    ftl_free(kernel->sketch);
    arena_done(&kernel->memory);
    *kernel = (timed_kernel){0};
}

static void describe(timed_kernel *k, const ftl_source *source) {
    k->code = (ftl_source){source->name, k->product->code, strlen(k->product->code)};
    const ftl_product *product = k->product;
    k->program.text.plan = verify_merge_plans(product->kernels, product->kernel_count, &k->memory);
    k->program.text.cuda = product->kernels[0].cuda;
    if (product->kernel_count > 1) {
        k->program.text.kernels = product->kernels;
        k->program.text.kernel_count = product->kernel_count;
    }
    k->program.text.code = k->code;
    if (k->product->sketch) k->program.text.sketch = *source;
}

bool timed_is_short(const grid_cell *cell) {
    enum { SHORT_LENGTH = 1024 };
    return cell->length <= SHORT_LENGTH;
}

ftl_status timed_attention(cli *c, const timed_machine *machine, const grid_cell *cell,
                           ftl_type dtype, timed_kernel *out) {
    char d[24], dv[24];
    *out = (timed_kernel){
        .program = {.dtype = dtype, .head_dim = cell->head_dim, .value_dim = cell->value_dim}};
    arena_init(&out->memory, TIMED_BYTES_MAX);
    if (cell->is_causal) out->settings[0] = "causal";
    out->program.text.operator_name = "attention";
    out->program.text.settings = out->settings;
    out->program.text.setting_count = cell->is_causal ? 1 : 0;
    snprintf(d, sizeof d, "%d", cell->head_dim);
    snprintf(dv, sizeof dv, "%d", cell->value_dim);
    /* As the attention call does: short sequences may have a kernel of their own. */
    const ftl_pin pins[] = {{"d", d}, {"dv", dv}, {"nominal_length", "1024"}};
    out->is_short = timed_is_short(cell);
    ftl_options options = {.struct_bytes = sizeof(ftl_options),
                           .gpu = machine->gpu.name,
                           .dtype = dtype,
                           .pins = pins,
                           .pin_count = out->is_short ? 3 : 2};
    ftl_status status = ftl_sketch(c->context, "attention", out->settings,
                                   out->program.text.setting_count, &out->sketch);
    if (status) return status;
    ftl_source source = {"<attention>", out->sketch, strlen(out->sketch)};
    status = ftl_build(c->context, &source, &options, &out->product);
    if (!status) describe(out, &source);
    return status;
}

ftl_status timed_decode(cli *c, const timed_machine *machine, const grid_cell *cell, ftl_type dtype,
                        bool is_whole, timed_kernel *out) {
    char d[24], dv[24];
    *out = (timed_kernel){
        .program = {.dtype = dtype, .head_dim = cell->head_dim, .value_dim = cell->value_dim},
        .is_whole = is_whole};
    arena_init(&out->memory, TIMED_BYTES_MAX);
    snprintf(out->group, sizeof out->group, "group=%d", cell->q_heads / cell->kv_heads);
    out->settings[0] = out->group;
    out->program.text.operator_name = "attention_decode";
    out->program.text.settings = out->settings;
    out->program.text.setting_count = 1;
    snprintf(d, sizeof d, "%d", cell->head_dim);
    snprintf(dv, sizeof dv, "%d", cell->value_dim);
    const ftl_pin pins[] = {{"d", d}, {"dv", dv}};
    ftl_options options = FTL_OPTIONS_INIT;
    options.gpu = machine->gpu.name, options.dtype = dtype;
    options.pins = pins, options.pin_count = 2;
    const char *operator_name = is_whole ? "paged_decode" : "decode";
    ftl_status status = ftl_sketch(c->context, operator_name, out->settings, 1, &out->sketch);
    if (status) return status;
    const ftl_source source = {"<decode>", out->sketch, strlen(out->sketch)};
    status = ftl_build(c->context, &source, &options, &out->product);
    if (!status) describe(out, &source);
    return status;
}

static int32_t pinned(const cli_request *request, const char *name) {
    int64_t value = 0;
    for (int32_t i = 0; i < request->options.pin_count; i++) {
        if (strcmp(request->pins[i].name, name) != 0) continue;
        if (!str_to_integer(str_from(request->pins[i].value), &value)) value = 0;
    }
    return (int32_t)value;
}

bench_program timed_shape(const cli_request *request) {
    ftl_type dtype = request->options.dtype;
    return (bench_program){.text = {.operator_name = *request->family ? request->family : NULL,
                                    .settings = request->settings,
                                    .setting_count = request->setting_count},
                           .dtype = dtype ? dtype : FTL_F16,
                           .head_dim = pinned(request, "d"),
                           .value_dim = pinned(request, "dv")};
}

ftl_status timed_request(cli *c, const timed_machine *machine, const cli_request *request,
                         timed_kernel *out) {
    ftl_options options = request->options;
    if (!options.gpu) options.gpu = machine->gpu.name;
    *out = (timed_kernel){.program = timed_shape(request)};
    arena_init(&out->memory, TIMED_BYTES_MAX);
    ftl_status status = ftl_build(c->context, &request->source, &options, &out->product);
    if (status) return status;
    if (out->product->kernel_count > BENCH_KERNELS_MAX) {
        return ftl_context_fail(c->context, FTL_INVALID_ARGUMENT,
                                "a program of up to %d kernels is timed; this one has %d",
                                BENCH_KERNELS_MAX, out->product->kernel_count);
    }
    describe(out, &request->source);
    if (out->program.text.plan) return FTL_OK;
    return ftl_context_fail(c->context, FTL_NO_MEMORY, "out of memory");
}

/* --- cases ------------------------------------------------------------------------------------ */

static void name_row(const grid_cell *cell, const timed_kernel *kernel, char row[BENCH_ROW_BYTES]) {
    char dims[32], options[64] = "";
    size_t used = 0;
    snprintf(dims, sizeof dims, cell->head_dim == cell->value_dim ? "%d" : "%d/%d", cell->head_dim,
             cell->value_dim);
    for (int32_t i = 0; i < kernel->program.text.setting_count; i++) {
        const char *setting = kernel->program.text.settings[i];
        if (strlen(setting) == 3 && strchr("mg", setting[0])) continue; /* mha, gqa, mqa */
        int more = snprintf(options + used, sizeof options - used, ", %s", setting);
        used += (size_t)more < sizeof options - used ? (size_t)more : 0;
    }
    snprintf(row, BENCH_ROW_BYTES, "%d/%d heads, d %s%s, %s", cell->q_heads, cell->kv_heads, dims,
             used ? options : ", full", ftl_type_name(kernel->program.dtype));
}

int64_t timed_splits(const timed_machine *machine, const grid_cell *cell,
                     const timed_kernel *kernel) {
    const plan_work work = {cell->batch, 1, cell->q_heads, cell->kv_heads};
    return plan_splits(kernel->product->kernels[0].plan, machine->device.multiprocessors, &work,
                       cell->length);
}

/* Bytes are what counts. */
static ftl_status decode_cell(cli *c, const timed_machine *machine, const grid_cell *cell,
                              const timed_kernel *kernel, bench_case *out) {
    int64_t splits = kernel->is_whole ? 1 : timed_splits(machine, cell, kernel);
    const ftl_scalar sizes[] = {{"batch", (double)cell->batch},   {"q_len", 1},
                                {"kv_len", (double)cell->length}, {"q_heads", cell->q_heads},
                                {"kv_heads", cell->kv_heads},     {"d", cell->head_dim},
                                {"dv", cell->value_dim},          {"splits", (double)splits}};
    int32_t size_count = (int32_t)(sizeof sizes / sizeof *sizes) - kernel->is_whole;
    *out = (bench_case){.length = cell->length};
    snprintf(out->name, sizeof out->name, "%s", cell->name);
    snprintf(out->row, sizeof out->row, "batch %lld, %d/%d heads, d %d, %s", (long long)cell->batch,
             cell->q_heads, cell->kv_heads, cell->head_dim, ftl_type_name(kernel->program.dtype));
    ftl_status status = bench_case_set(c->context, out, &kernel->program, sizes, size_count, 1);
    out->flops = 0;
    return status;
}

ftl_status timed_cell(cli *c, const timed_machine *machine, const grid_cell *cell,
                      const timed_kernel *kernel, bench_case *out) {
    if (cell->is_decode) return decode_cell(c, machine, cell, kernel, out);
    const ftl_scalar sizes[] = {{"batch", (double)cell->batch},   {"q_len", (double)cell->length},
                                {"kv_len", (double)cell->length}, {"q_heads", cell->q_heads},
                                {"kv_heads", cell->kv_heads},     {"d", cell->head_dim},
                                {"dv", cell->value_dim}};
    *out = (bench_case){.length = cell->length};
    snprintf(out->name, sizeof out->name, "%s", cell->name);
    name_row(cell, kernel, out->row);
    return bench_case_set(c->context, out, &kernel->program, sizes, 7, 1);
}

static int read_lengths(cli *c, bool is_attention, int64_t lengths[TIMED_LENGTHS_MAX], int *count) {
    *count = 0;
    if (!c->options.lengths) {
        int64_t first = is_attention ? GRID_SHORTEST : 1024;
        int64_t last = is_attention ? GRID_TOKENS : 8192;
        for (int64_t n = first; n <= last; n *= 2) lengths[(*count)++] = n;
        return EXIT_DONE;
    }
    str rest = str_from(c->options.lengths);
    while (rest.length) {
        str word = str_trim(str_cut(&rest, ','));
        if (*count == TIMED_LENGTHS_MAX) {
            return cli_say(EXIT_USAGE, "'--lengths' has more than %d", TIMED_LENGTHS_MAX);
        }
        int exit_status = cli_read_item("lengths", word, 1, 1 << 24, &lengths[(*count)++]);
        if (exit_status) return exit_status;
    }
    return *count ? EXIT_DONE : cli_say(EXIT_USAGE, "'--lengths' is empty");
}

/* "64:8", or what the operator's name says for a hidden size of 2048. */
static int read_heads(cli *c, grid_cell *cell) {
    const char *op = c->options.op ? c->options.op : "mha";
    int64_t q = HIDDEN / (cell->value_dim > HIDDEN ? HIDDEN : cell->value_dim), kv;
    if (!c->options.heads) {
        kv = strcmp(op, "mqa") == 0 ? 1 : strcmp(op, "gqa") == 0 && q % 4 == 0 ? q / 4 : q;
    } else {
        str value = str_from(c->options.heads), key = str_cut(&value, ':');
        int exit_status = cli_read_item("heads", key, 1, 4096, &q);
        if (!exit_status)
            exit_status = cli_read_item("heads", value.length ? value : key, 1, 4096, &kv);
        if (exit_status) return exit_status;
        if (q % kv != 0) {
            return cli_say(EXIT_USAGE, "'--heads %s': %lld is no multiple of %lld",
                           c->options.heads, (long long)q, (long long)kv);
        }
    }
    cell->q_heads = (int32_t)q;
    cell->kv_heads = (int32_t)kv;
    return EXIT_DONE;
}

static int read_batch(const cli *c, int64_t *batch) {
    return cli_read_integer("batch", c->options.batch, 1, 1 << 20, batch);
}

static int read_rounds(const cli *c, int64_t *rounds) {
    return cli_read_integer("rounds", c->options.rounds, 1, 64, rounds);
}

int timed_check(cli *c) {
    int64_t lengths[TIMED_LENGTHS_MAX], number;
    int count;
    grid_cell cell = {.value_dim = 128};
    int exit_status = read_lengths(c, true, lengths, &count);
    if (!exit_status) exit_status = read_heads(c, &cell);
    if (!exit_status) exit_status = read_batch(c, &number);
    return exit_status ? exit_status : read_rounds(c, &number);
}

static int attention_cases(cli *c, const timed_kernel *kernel, const int64_t *lengths,
                           int length_count, bench_case *cases, int *count) {
    grid_cell cell = {.head_dim = kernel->program.head_dim, .value_dim = kernel->program.value_dim};
    int64_t batch = 0;
    int exit_status = read_heads(c, &cell);
    if (!exit_status) exit_status = read_batch(c, &batch);
    snprintf(cell.name, sizeof cell.name, "%s", c->options.op ? c->options.op : "attention");
    for (int i = 0; !exit_status && i < length_count; i++) {
        cell.length = lengths[i];
        cell.batch = batch ? batch : lengths[i] < GRID_TOKENS ? GRID_TOKENS / lengths[i] : 1;
        exit_status = cli_finish(c, timed_cell(c, NULL, &cell, kernel, &cases[(*count)++]));
    }
    return exit_status;
}

/* A program that is not attention as we ship it: sizes are known by their names where they have the
 * usual ones, all others get the length.
 */
static int other_case(cli *c, const cli_request *request, const timed_kernel *kernel,
                      int64_t length, bench_case *out) {
    const ftl_plan *plan = kernel->program.text.plan;
    grid_cell cell = {.head_dim = kernel->program.head_dim ? kernel->program.head_dim : 128};
    cell.value_dim = kernel->program.value_dim ? kernel->program.value_dim : cell.head_dim;
    bool is_sequence = plan_find_size(plan, "q_len") >= 0 || plan_find_size(plan, "kv_len") >= 0;
    int64_t batch = is_sequence && length < GRID_TOKENS ? GRID_TOKENS / length
                    : is_sequence                       ? 1
                                                        : 4;
    int exit_status = read_heads(c, &cell);
    if (!exit_status) exit_status = read_batch(c, &batch);
    if (exit_status) return exit_status;
    ftl_scalar sizes[REQUEST_PINS_MAX + 4] = {{"batch", (double)batch},
                                              {"heads", cell.q_heads},
                                              {"q_heads", cell.q_heads},
                                              {"kv_heads", cell.kv_heads}};
    int32_t size_count = 4;
    for (int32_t i = 0; i < request->options.pin_count; i++) {
        double value;
        if (!str_to_number(str_from(request->pins[i].value), &value)) continue;
        sizes[size_count++] = (ftl_scalar){request->pins[i].name, value};
    }
    *out = (bench_case){.length = length};
    snprintf(out->name, sizeof out->name, "%s", c->options.op ? c->options.op : plan->kernel);
    snprintf(out->row, sizeof out->row, "%s", ftl_type_name(kernel->program.dtype));
    return cli_finish(c,
                      bench_case_set(c->context, out, &kernel->program, sizes, size_count, length));
}

int timed_cases(cli *c, const cli_request *request, const timed_kernel *kernel, bench_case *cases,
                int most, int *count) {
    int64_t lengths[TIMED_LENGTHS_MAX];
    int length_count = 0;
    const verify_program *text = &kernel->program.text;
    bool is_attention = text->operator_name && strcmp(text->operator_name, "attention") == 0 &&
                        kernel->program.head_dim > 0;
    *count = 0;
    int exit_status = read_lengths(c, is_attention, lengths, &length_count);
    if (!exit_status && length_count > most) {
        exit_status = cli_say(EXIT_USAGE, "at most %d cases are timed", most);
    }
    if (exit_status) return exit_status;
    if (is_attention) return attention_cases(c, kernel, lengths, length_count, cases, count);
    for (int i = 0; !exit_status && i < length_count; i++) {
        exit_status = other_case(c, request, kernel, lengths[i], &cases[(*count)++]);
    }
    return exit_status;
}

int timed_options(cli *c, const timed_machine *machine, bench_options *out) {
    int64_t rounds = 0;
    int exit_status = read_rounds(c, &rounds);
    ftl_gpu here = FTL_GPU_INIT;
    const ftl_device *device = &machine->device;
    ftl_status status =
        ftl_gpu_for_device(c->context, device->name, 10 * device->major + device->minor,
                           device->multiprocessors, &here);
    if (!exit_status) exit_status = cli_finish(c, status);
    *out = (bench_options){.rounds = (int32_t)rounds,
                           .roofline_tflops = here.tensor_tflops,
                           .memory_gb_per_s = here.memory_gb_per_s,
                           .l2_bytes = device->l2_bytes};
    return exit_status;
}
