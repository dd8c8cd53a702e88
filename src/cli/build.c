/* flashtl build: all steps, a folder full of kernels. */
#include "base/hash.h"
#include "base/number.h"
#include "cli/build_verify.h"
#include "cli/bundle.h"
#include "cli/progress.h"
#include "cli/request.h"
#include "plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 200 };

typedef struct building {
    cli *c;
    ftl_runtime *runtime;
    const char *folder;
    const char *gpu_option; /* the one at hand; NULL: the text names its GPU */
    ftl_gpu described;      /* by that option */
    progress progress;
    int done, total;   /* GPUs */
    int uncompiled;    /* kernels that no compiler was found for, and */
    char why_not[512]; /* what the library said */
    bundle bundle;     /* with --bundle; else without a name */
    char bundle_name[NAME_BYTES];
    ftl_product *bundled; /* the first GPU's, whose names the bundle has */
} building;

/* How far it is; 'part' of the GPU at hand is done. */
static void tell(building *b, double part, const char *doing) {
    char left[48] = "";
    if (!progress_is_due(&b->progress)) return;
    double seconds = progress_left(&b->progress, b->done + part, b->total);
    if (seconds >= 0) number_print(left, sizeof left, ", about %.0f s left", seconds);
    progress_show(&b->progress, "%d of %d %s built, %s: %s%s", b->done, b->total,
                  b->total == 1 ? "GPU" : "GPUs",
                  b->gpu_option ? b->described.name : "the text's own GPU", doing, left);
}

static int write_file(const building *b, const char *name, const char *ending, str content) {
    char path[4096];
    os_error why;
    snprintf(path, sizeof path, "%s/%s%s", b->folder, name, ending);
    if (os_write_file(path, content, &why)) return EXIT_DONE;
    return cli_say(EXIT_ENVIRONMENT, "%s", why.text);
}

static void add_fact(text_buffer *out, const char *name, const char *value) {
    json_t *text = json_from(str_from(value));
    char *quoted = json_write(NULL, text, JSON_ENCODE_ANY);
    json_decref(text);
    if (quoted) text_format(out, "  \"%s\": %s,\n", name, quoted);
    else out->failed = true;
    free(quoted);
}

/* What is known of a kernel, for machines. */
static int write_facts(const building *b, const char *name, const ftl_kernel *kernel,
                       const ftl_image *image, double predicted_tflops) {
    const ftl_plan *plan = kernel->plan;
    char *plan_text = ftl_plan_write(plan);
    if (!plan_text) return cli_say(EXIT_ENVIRONMENT, "out of memory");
    text_buffer out;
    text_init(&out, 4 << 20);
    text_add_z(&out, "{\n");
    add_fact(&out, "kernel", plan->kernel);
    add_fact(&out, "entry", plan->entry);
    add_fact(&out, "gpu", plan->gpu);
    add_fact(&out, "target", plan->target);
    text_format(&out, "  \"threads\": %d,\n  \"shared_bytes\": %d,\n  \"blocks_per_sm\": %d,\n",
                plan->threads, plan->shared_bytes, plan->blocks_per_sm);
    add_fact(&out, "compiler", image->compiler);
    text_format(&out,
                "  \"registers\": %d,\n  \"spill_bytes\": %d,\n  \"stack_bytes\": %d,\n"
                "  \"predicted_tflops\": %.1f,\n  \"plan\": %s\n}\n",
                image->registers, image->spill_bytes, image->stack_bytes, predicted_tflops,
                plan_text);
    ftl_free(plan_text);
    int exit_status = out.failed ? cli_say(EXIT_ENVIRONMENT, "out of memory")
                                 : write_file(b, name, ".json", text_str(&out));
    text_done(&out);
    return exit_status;
}

static int write_image(const building *b, const char *name, const ftl_image *image) {
    str bytes = {image->bytes, image->length};
    int exit_status = write_file(b, name, image->kind == FTL_CUBIN ? ".cubin" : ".ptx", bytes);
    if (!exit_status && image->ptx) exit_status = write_file(b, name, ".ptx", str_from(image->ptx));
    return exit_status;
}

/* --- names ------------------------------------------------------------------------------------ */

static void add_part(text_buffer *out, const char *part) {
    if (out->length && *part) text_add_z(out, "_");
    for (const char *c = part; *c; c++) {
        bool is_letter =
            (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9');
        if (*c != '=') text_format(out, "%c", is_letter ? *c : '_');
    }
}

/* "gqa" of --op, "my" of a file my.tl. */
static void add_origin(const cli_options *o, text_buffer *out) {
    str path = str_from(o->op ? o->op : o->file_count ? o->files[0] : "-");
    if (str_is(path, "-")) path = STR("kernel");
    for (str rest = path; rest.length;) path = str_cut(&rest, '/');
    if (str_ends(path, STR(".tl"))) path.length -= 3;
    char word[NAME_BYTES];
    bool is_digit = path.length && *path.data >= '0' && *path.data <= '9';
    snprintf(word, sizeof word, "%s%.*s", is_digit ? "k" : "", STR_ARGS(path));
    add_part(out, word);
}

/* All that was asked for, so that no two kernels bear one name:
 * "gqa_rtx_4090_bf16_causal_d64_BN32". */
static void add_request(const cli_options *o, const cli_request *r, const char *gpu,
                        text_buffer *out) {
    add_origin(o, out);
    add_part(out, gpu);
    if (r->options.dtype && r->options.dtype != FTL_F16)
        add_part(out, ftl_type_name(r->options.dtype));
    for (int i = 0; i < r->setting_count; i++)
        if (!o->op || strcmp(r->settings[i], o->op) != 0) add_part(out, r->settings[i]);
    const char *d = "";
    for (int i = 0; i < r->options.pin_count; i++) {
        const ftl_pin *p = &r->options.pins[i];
        char pin[NAME_BYTES];
        if (strcmp(p->name, "dv") == 0 && strcmp(p->value, d) == 0) continue;
        if (strcmp(p->name, "d") == 0) d = p->value;
        snprintf(pin, sizeof pin, "%s=%s", p->name, p->value);
        add_part(out, pin);
    }
}

/* The name of --name, or one by the request; what is long, or decided by a file of measurements,
 * ends in a hash of the whole.
 */
static bool name_kernels(const building *b, const cli_request *r, const char *gpu,
                         char name[NAME_BYTES]) {
    enum { READABLE = 90, HASH_DIGITS = 8 };
    const cli_options *o = &b->c->options;
    text_buffer out;
    char digits[33] = "";
    text_init(&out, 24 << 20);
    if (!o->name) add_request(o, r, gpu, &out);
    else text_add_z(&out, o->name);
    /* The bundle is called NAME, and its header must not be a kernel's. */
    if (o->name && (o->gpu.count > 1 || o->bundle)) add_part(&out, gpu);
    int readable = out.length < READABLE || o->name ? (int)out.length : READABLE;
    if (!o->name && (out.length > READABLE || r->options.measured)) {
        text_format(&out, "\n%s", r->options.measured ? r->options.measured : "");
        hash_digits(hash_bytes(text_str(&out)), digits);
    }
    if (out.failed) cli_no_memory();
    bool fits = readable < NAME_BYTES - HASH_DIGITS - 2;
    if (fits)
        snprintf(name, NAME_BYTES, "%.*s%s%.*s", readable, out.data, *digits ? "_" : "",
                 HASH_DIGITS, digits);
    text_done(&out);
    return fits;
}

/* Without a compiler the image stays as it is, and the end of the command says so. */
static int compile(building *b, const ftl_kernel *kernel, ftl_image *image) {
    ftl_gpu gpu = FTL_GPU_INIT;
    ftl_image made = {0};
    char file[NAME_BYTES + 4];
    snprintf(file, sizeof file, "%s.cu", kernel->plan->entry);
    ftl_status status =
        b->gpu_option ? FTL_OK : ftl_gpu_describe(b->c->context, kernel->plan->gpu, &gpu);
    if (!status) {
        status = ftl_compile_cuda(b->c->context, b->runtime, kernel->cuda, file,
                                  b->gpu_option ? b->described.target : gpu.target, &made);
    }
    if (status == FTL_NO_COMPILER) {
        b->uncompiled++;
        snprintf(b->why_not, sizeof b->why_not, "%s", ftl_context_error(b->c->context));
        return EXIT_DONE;
    }
    if (!status) *image = made;
    return cli_finish(b->c, status);
}

static int build_kernel(building *b, const ftl_kernel *kernel, double predicted_tflops) {
    const ftl_plan *plan = kernel->plan;
    const char *name = plan->entry;
    ftl_image image = {.compiler = "none", .registers = -1, .spill_bytes = -1, .stack_bytes = -1};
    char *header = ftl_plan_header(plan, name);
    if (!header) return cli_say(EXIT_ENVIRONMENT, "out of memory");
    int exit_status = write_file(b, name, ".h", str_from(header));
    free(header);
    if (!exit_status) exit_status = write_file(b, name, ".cu", str_from(kernel->cuda));
    if (!exit_status && !b->c->options.no_compile) exit_status = compile(b, kernel, &image);
    progress_clear(&b->progress);
    if (!exit_status && image.bytes) exit_status = write_image(b, name, &image);
    if (!exit_status && image.bytes && b->bundle.name)
        exit_status = bundle_add(&b->bundle, &b->described, plan, &image);
    if (!exit_status) exit_status = write_facts(b, name, kernel, &image, predicted_tflops);
    if (!exit_status && b->c->options.json) {
        exit_status = cli_print_json(json_pack(
            "{s:s,s:o,s:i,s:i,s:i,s:f}", "name", name, "gpu", json_from(str_from(plan->gpu)),
            "registers", (int)image.registers, "spill_bytes", (int)image.spill_bytes,
            "shared_bytes", (int)plan->shared_bytes, "predicted_tflops", predicted_tflops));
    } else if (!exit_status) {
        char compiled[64] = "not compiled";
        if (image.registers >= 0) {
            snprintf(compiled, sizeof compiled, "%4d registers  %3d bytes spilled", image.registers,
                     image.spill_bytes);
        }
        printf("%-28s %4d threads  %-34s  %6d bytes shared", name, plan->threads, compiled,
               plan->shared_bytes);
        if (predicted_tflops > 0)
            number_write(stdout, "  %6.0f TFLOPS predicted", predicted_tflops);
        printf("\n");
    }
    ftl_image_done(&image);
    return exit_status;
}

static int build_for(building *b, const cli_request *r, const char *gpu) {
    ftl_options options = r->options;
    char name[NAME_BYTES];
    ftl_product *product = NULL;
    options.gpu = b->gpu_option = gpu;
    b->described = (ftl_gpu)FTL_GPU_INIT;
    ftl_status known = gpu ? ftl_gpu_describe(b->c->context, gpu, &b->described) : FTL_OK;
    if (known) return cli_finish(b->c, known);
    tell(b, 0, "deciding");
    if (!name_kernels(b, r, b->described.name, name))
        return cli_say(EXIT_USAGE, "'--name' is longer than names may be");
    options.entry = name;
    ftl_status status = ftl_build(b->c->context, &r->source, &options, &product);
    progress_clear(&b->progress);
    int exit_status = cli_finish(b->c, status);
    tell(b, 0, "verifying");
    if (!exit_status) exit_status = build_verify(b->c, r, b->runtime, product);
    if (!exit_status) tell(b, 0.6, "compiling");
    bundle_begin_gpu(&b->bundle);
    for (int32_t i = 0; !exit_status && i < product->kernel_count; i++) {
        double tflops = i == 0 ? product->predicted_tflops : 0;
        exit_status = build_kernel(b, &product->kernels[i], tflops);
    }
    if (!exit_status && product->kernel_count) {
        exit_status = write_file(b, name, ".tl", str_from(product->code));
    }
    if (!exit_status && b->bundle.name && !b->uncompiled)
        exit_status = bundle_end_gpu(&b->bundle, &b->described);
    if (b->bundled || !b->bundle.name) ftl_product_free(product);
    else b->bundled = product;
    b->done++;
    return exit_status;
}

/* --- the bundle ------------------------------------------------------------------------------- */

static int begin_bundle(building *b, const cli_request *r) {
    const cli_options *o = &b->c->options;
    if (!o->bundle) return EXIT_DONE;
    if (!o->gpu.count) return cli_say(EXIT_USAGE, "'--bundle' needs '--gpu': all that it is for");
    if (o->no_compile)
        return cli_say(EXIT_USAGE, "'--bundle' has compiled kernels in it, which '--no-compile' "
                                   "leaves out: one of the two");
    if (!name_kernels(b, r, "", b->bundle_name))
        return cli_say(EXIT_USAGE, "'--name' is longer than names may be");
    if (!plan_is_identifier(b->bundle_name))
        return cli_say(EXIT_USAGE,
                       "'%s' cannot begin the names of a bundle's functions: '--name' takes "
                       "letters, digits and '_', and begins with a letter",
                       b->bundle_name);
    bundle_open(&b->bundle, b->bundle_name);
    return EXIT_DONE;
}

static int write_bundle(const building *b) {
    const bundle *made = &b->bundle;
    text_buffer header, source;
    text_init(&header, 1 << 20);
    text_init(&source, (size_t)1 << 30);
    int exit_status = EXIT_DONE;
    if (!bundle_header(made, &header) || !bundle_source(made, &source))
        exit_status = cli_say(EXIT_ENVIRONMENT, "out of memory");
    if (!exit_status) exit_status = write_file(b, made->name, ".h", text_str(&header));
    if (!exit_status) exit_status = write_file(b, made->name, ".c", text_str(&source));
    text_done(&header);
    text_done(&source);
    if (exit_status) return exit_status;
    if (b->c->options.json)
        return cli_print_json(
            json_pack("{s:s,s:i}", "bundle", made->name, "gpus", made->gpu_count));
    printf("%s.c: the kernels of %d %s and the function that launches them\n", made->name,
           made->gpu_count, made->gpu_count == 1 ? "GPU" : "GPUs");
    return EXIT_DONE;
}

/* --- all of it -------------------------------------------------------------------------------- */

/* All of them, before the first is built. */
static int check_gpus(cli *c) {
    const cli_list *names = &c->options.gpu;
    ftl_gpu known = FTL_GPU_INIT, other = FTL_GPU_INIT;
    for (int i = 0; i < names->count; i++) {
        ftl_status status = ftl_gpu_describe(c->context, names->items[i], &known);
        if (status) return cli_finish(c, status);
        for (int k = 0; k < i; k++) {
            if (strcmp(names->items[i], names->items[k]) == 0)
                return cli_say(EXIT_USAGE, "'--gpu' names '%s' twice", names->items[i]);
            status = ftl_gpu_describe(c->context, names->items[k], &other);
            if (!status && strcmp(known.name, other.name) == 0)
                return cli_say(EXIT_USAGE,
                               "'%s' and '%s' are both called '%s', and so would their files be",
                               names->items[k], names->items[i], known.name);
        }
    }
    return EXIT_DONE;
}

int cli_run_BUILD(cli *c) {
    cli_request r;
    os_error why;
    building b = {.c = c, .folder = c->options.output ? c->options.output : "."};
    int exit_status = request_open(c, &r);
    if (!exit_status) exit_status = check_gpus(c);
    if (!exit_status) exit_status = begin_bundle(&b, &r);
    if (!exit_status && !os_make_folders(b.folder, &why)) {
        exit_status = cli_say(EXIT_ENVIRONMENT, "%s", why.text);
    }
    if (!exit_status) exit_status = cli_finish(c, cli_open_runtime(c, &b.runtime));
    b.total = c->options.gpu.count ? c->options.gpu.count : 1;
    b.progress = progress_begin(c->options.json);
    for (int i = 0; !exit_status && i < b.total; i++) {
        exit_status = build_for(&b, &r, c->options.gpu.count ? c->options.gpu.items[i] : NULL);
    }
    progress_clear(&b.progress);
    if (!exit_status && b.bundle.name && !b.uncompiled) exit_status = write_bundle(&b);
    if (b.uncompiled) {
        int said = cli_say(EXIT_ENVIRONMENT,
                           "%d %s not compiled: .tl, .cu, .h and .json are written, .cubin is "
                           "not ('--no-compile' asks for these alone)%s: %s",
                           b.uncompiled, b.uncompiled == 1 ? "kernel is" : "kernels are",
                           b.bundle.name ? ", and there is no bundle" : "", b.why_not);
        if (!exit_status) exit_status = said;
    }
    bundle_done(&b.bundle);
    ftl_product_free(b.bundled);
    ftl_runtime_close(b.runtime);
    request_done(&r);
    return exit_status;
}
