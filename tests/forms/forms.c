/* What the reasoner gives out, check accepts and translate prints; what it refuses, it refuses with
 * one error at a place of the sketch.
 *
 *     forms [--all] [--compile] [FOLDER or FILE.tl]...
 *
 * Each sketch is reasoned for GPUs, types and lengths: a sample of them, or with --all every one.
 * --compile compiles the CUDA text, too (where a compiler is). A sketch whose first line is a
 * comment of this form has to do more:
 *
 *     // builds d=64 dv=64                  it becomes a kernel on every GPU
 *     // refused d=64 dv=64: PART           it is refused on every GPU; PART is in the message
 */
#include "base/os.h"
#include "base/text.h"
#include "flashtl/execute.h"
#include "flashtl/flashtl.h"
#include "flashtl/runtime.h"
#include "sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PINS_MAX = 24, PROGRAMS_MAX = 400, PATH_BYTES = 512, TEXT_BYTES = 1 << 20 };

typedef struct program {
    char path[PATH_BYTES];
    char *text;
    bool builds, is_refused;  /* what its first line asks for */
    char pins_said[256];      /* "d=64 dv=64" */
    char message[256];        /* of the refusal */
    char names[PINS_MAX][64]; /* of the lengths that are known at launch */
    int name_count;
} program;

typedef struct run {
    ftl_context *context;
    ftl_runtime *compiler; /* NULL: texts are not compiled */
    program *programs;
    int program_count;
    int tried, built, refused, wrong;
} run;

/* --- programs --------------------------------------------------------------------------------- */

static void read_first_line(program *p) {
    const char *line = p->text, *end = strchr(line, '\n');
    size_t length = end ? (size_t)(end - line) : strlen(line);
    char copy[512];
    snprintf(copy, sizeof copy, "%.*s", (int)length, line);
    p->builds = !strncmp(copy, "// builds", 9);
    p->is_refused = !strncmp(copy, "// refused", 10);
    if (!p->builds && !p->is_refused) return;
    char *rest = copy + (p->builds ? 9 : 10), *colon = strchr(rest, ':');
    if (colon) {
        snprintf(p->message, sizeof p->message, "%s", colon + 1 + (colon[1] == ' '));
        *colon = 0;
    }
    snprintf(p->pins_said, sizeof p->pins_said, "%s", rest);
}

/* The names of lengths that a caller gives: a list of pins can be made of them. */
static void read_names(run *r, program *p) {
    ftl_source source = {p->path, p->text, strlen(p->text)};
    ftl_plan *plan = NULL;
    if (ftl_parameters(r->context, &source, FTL_F16, &plan)) return;
    for (int i = 0; i < plan->size_count && p->name_count < PINS_MAX; i++)
        snprintf(p->names[p->name_count++], sizeof p->names[0], "%s", plan->sizes[i].name);
    ftl_plan_free(plan);
}

static void add_file(run *r, const char *path) {
    text_buffer text;
    os_error why;
    text_init(&text, TEXT_BYTES);
    if (r->program_count == PROGRAMS_MAX || !os_read_file(path, TEXT_BYTES, &text, &why)) exit(3);
    program *p = &r->programs[r->program_count++];
    snprintf(p->path, sizeof p->path, "%s", path);
    text_add_z(&text, "");
    p->text = text.data;
    read_first_line(p);
    read_names(r, p);
}

typedef struct listing {
    run *r;
    const char *folder;
} listing;

static void add_listed(void *context, const char *name) {
    const listing *l = context;
    char path[PATH_BYTES];
    if (!str_ends(str_from(name), STR(".tl"))) return;
    snprintf(path, sizeof path, "%s/%s", l->folder, name);
    add_file(l->r, path);
}

static void add(run *r, const char *path) {
    listing l = {r, path};
    os_error why;
    if (str_ends(str_from(path), STR(".tl"))) add_file(r, path);
    else if (!os_list_folder(path, add_listed, &l, &why)) exit(3);
}

/* --- one request ------------------------------------------------------------------------------ */

typedef struct request {
    const program *p;
    ftl_gpu gpu;
    ftl_options options;
    char label[2 * PATH_BYTES];
} request;

static void complain(run *r, const request *q, const char *what) {
    r->wrong++;
    char *found = ftl_context_diagnostics(r->context, FTL_DIAGNOSTICS_TEXT);
    printf("WRONG %s: %s\n%s\n%s\n", q->label, what, ftl_context_error(r->context),
           found ? found : "");
    ftl_free(found);
}

/* The message of a refusal: about the sketch, at a line of it, and nothing about other texts. */
static void judge_refusal(run *r, const request *q, ftl_status status) {
    static const char *const foreign[] = {"(TL Code)", "_shared", "_register", "CUDA", "mma_C"};
    r->refused++;
    if (status != FTL_REJECTED) {
        complain(r, q, "neither a kernel nor a refusal");
        return;
    }
    char *found = ftl_context_diagnostics(r->context, FTL_DIAGNOSTICS_TEXT), place[PATH_BYTES + 8];
    snprintf(place, sizeof place, "%s:", q->p->path);
    const char *wrong = NULL;
    if (!found || strncmp(found, place, strlen(place))) wrong = "no place of the sketch";
    for (size_t i = 0; !wrong && i < sizeof foreign / sizeof *foreign; i++)
        if (strstr(found, foreign[i])) wrong = "words of another text";
    if (!wrong && q->p->builds) wrong = "it has to become a kernel";
    if (!wrong && q->p->is_refused && !strstr(found, q->p->message)) wrong = "another refusal";
    if (wrong) complain(r, q, wrong);
    ftl_free(found);
}

static void compile(run *r, const request *q, const ftl_product *product) {
    for (int i = 0; r->compiler && i < product->kernel_count; i++) {
        const ftl_kernel *k = &product->kernels[i];
        ftl_image image;
        ftl_status status = ftl_compile_cuda(r->context, r->compiler, k->cuda, "kernel.cu",
                                             k->plan->target, &image);
        if (status) complain(r, q, "the CUDA text does not compile");
        else ftl_image_done(&image);
    }
}

static void judge_code(run *r, const request *q, const char *code) {
    ftl_source source = {"code.tl", code, strlen(code)};
    ftl_product *product = NULL;
    r->built++;
    if (ftl_check(r->context, &source, q->options.gpu)) {
        complain(r, q, "check refuses what reason gave out");
    } else if (ftl_translate(r->context, &source, q->options.gpu, &product)) {
        complain(r, q, "translate refuses what reason gave out");
    } else {
        if (q->p->is_refused) complain(r, q, "it has to be refused");
        compile(r, q, product);
        ftl_product_free(product);
    }
}

static void ask(run *r, const request *q) {
    if (!sample_takes()) return;
    ftl_source source = {q->p->path, q->p->text, strlen(q->p->text)};
    char *code = NULL;
    r->tried++;
    ftl_status status = ftl_reason(r->context, &source, &q->options, &code);
    if (status) judge_refusal(r, q, status);
    else judge_code(r, q, code);
    ftl_free(code);
}

/* --- all of them ------------------------------------------------------------------------------ */

static bool has_name(const program *p, const char *name) {
    for (int i = 0; i < p->name_count; i++)
        if (!strcmp(p->names[i], name)) return true;
    return false;
}

/* Pins "d=64 dv=64" as far as the program has such lengths; all of them where it says so itself. */
static void ask_with(run *r, const program *p, const ftl_gpu *gpu, ftl_type dtype,
                     const char *said) {
    request q = {
        .p = p,
        .gpu = *gpu,
        .options = {.struct_bytes = sizeof(ftl_options), .gpu = gpu->name, .dtype = dtype}};
    char copy[256];
    ftl_pin pins[PINS_MAX];
    bool is_own = p->builds || p->is_refused;
    snprintf(copy, sizeof copy, "%s", is_own ? p->pins_said : said);
    for (char *one = strtok(copy, " "); one && q.options.pin_count < PINS_MAX;
         one = strtok(NULL, " ")) {
        char *value = strchr(one, '=');
        *value++ = 0;
        if (is_own || has_name(p, one))
            pins[q.options.pin_count++] = (ftl_pin){.name = one, .value = value};
    }
    q.options.pins = pins;
    snprintf(q.label, sizeof q.label, "%s --gpu %s --dtype %s (%s)", p->path, gpu->name,
             ftl_type_name(dtype), is_own ? p->pins_said : said);
    ask(r, &q);
}

static void ask_everywhere(run *r, const program *p, bool is_all) {
    static const char *const lengths[] = {
        "d=64 dv=64 e=64 e1=64 n=64 p=64 d_rotary=64 d_latent=512",
        "d=128 dv=128 e=128 e1=128 n=128 p=64 d_rotary=64 d_latent=512",
        "d=40 dv=24 e=24 e1=40 n=32 p=32 d_rotary=32 d_latent=64",
        "d=256 dv=256 e=256 e1=256 n=256 p=256 d_rotary=64 d_latent=256",
        "d=192 dv=128 e=96 e1=96 n=80 p=96 d_rotary=64 d_latent=512"};
    static const char *const sample[] = {"t4", "a100", "h200"};
    bool is_own = p->builds || p->is_refused;
    ftl_gpu gpu = FTL_GPU_INIT;
    for (int g = 0; !ftl_gpu_at(r->context, g, &gpu); g++) {
        bool is_asked = is_all;
        for (int i = 0; i < 3; i++) is_asked = is_asked || !strcmp(gpu.name, sample[i]);
        for (int t = 0; t < (is_all && !is_own ? 2 : 1) && is_asked; t++)
            for (int l = 0; l < (is_own || !is_all ? 1 : 5); l++)
                ask_with(r, p, &gpu, t == 0 ? FTL_F16 : FTL_BF16, lengths[l]);
    }
}

int main(int count, char **arguments) {
    run r = {.programs = calloc(PROGRAMS_MAX, sizeof(program))};
    bool is_all = false;
    if (!r.programs || ftl_context_new(&r.context)) return 3;
    for (int i = 1; i < count; i++) {
        if (!strcmp(arguments[i], "--all")) is_all = true;
        else if (!strcmp(arguments[i], "--compile")) ftl_runtime_open(r.context, NULL, &r.compiler);
        else add(&r, arguments[i]);
    }
    for (int i = 0; i < r.program_count; i++) ask_everywhere(&r, &r.programs[i], is_all);
    printf("%d requests of %d sketches: %d kernels, %d refusals, %d wrong\n", r.tried,
           r.program_count, r.built, r.refused, r.wrong);
    for (int i = 0; i < r.program_count; i++) free(r.programs[i].text);
    free(r.programs);
    ftl_runtime_close(r.compiler);
    ftl_context_free(r.context);
    return r.wrong > 0 || r.tried == 0;
}
