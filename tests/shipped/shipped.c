/* The kernels that ship are known by their texts: src/verify/shipped.def.
 *
 *   shipped            does the table agree with the texts that the compiler makes today?
 *   shipped --write    prints the table, after verifying on the emulator what it did not hold
 * before
 *
 * The programs are the operators of src/verify/cases.def, in f16 and bf16, for the GPUs that the
 * matrix of docs/verification.md is verified for, as ftl_attention_forward and `flashtl build` ask
 * for them.
 */
#include "base/text.h"
#include "flashtl/runtime.h"
#include "verify/built.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct operator_row {
    const char *what, *options, *head_dimensions;
} operator_row;

static const operator_row rows[] = {
#define PROGRAM(what, options, head_dimensions, lengths) {what, options, head_dimensions},
#include "verify/cases.def"
};

static struct {
    uint64_t high, low;
    const char *what;
    bool is_met;
} table[] = {
#define SHIPPED(high, low, what) {high, low, what, false},
#include "verify/shipped.def"
};

static const char *const gpus[] = {"t4", "a100", "l40s", "h200"};
static const ftl_type types[] = {FTL_F16, FTL_BF16};

typedef struct shipping {
    ftl_context *context;
    ftl_runtime *runtime; /* NULL: nothing is verified */
    int forms, faults;
    char *lines[4096];
} shipping;

/* An operator, cut into what ftl_sketch and ftl_build take. */
typedef struct asked {
    char storage[512];
    const char *settings[8];
    int32_t setting_count;
    ftl_pin pins[8];
    int32_t pin_count;
} asked;

static void add_pin(asked *a, const char *name, const char *value) {
    a->pins[a->pin_count++] = (ftl_pin){name, value};
}

/* "--causal --window 100 --let d_rotary=32" and "192:128". */
static void cut(const operator_row *row, const char *dimensions, asked *a) {
    *a = (asked){.setting_count = 0};
    snprintf(a->storage, sizeof a->storage, "%s", row->options);
    char *words[16], *at = a->storage;
    int count = 0;
    for (char *word = strtok(at, " "); word && count < 16; word = strtok(NULL, " "))
        words[count++] = word;
    for (int i = 0; i < count; i++) {
        bool has_value = i + 1 < count && strncmp(words[i + 1], "--", 2) != 0;
        if (strcmp(words[i], "--let") == 0) {
            char *value = strchr(words[++i], '=');
            *value = 0;
            add_pin(a, words[i], value + 1);
        } else if (has_value) {
            words[i + 1][-1] = '='; /* the blank between them, which strtok cut */
            a->settings[a->setting_count++] = words[i] + 2;
            i++;
        } else {
            a->settings[a->setting_count++] = words[i] + 2;
        }
    }
    if (!*dimensions) return;
    char *room = a->storage + 256;
    snprintf(room, 64, "%s", dimensions);
    char *second = strchr(room, ':');
    if (second) *second++ = 0;
    add_pin(a, "d", room);
    add_pin(a, "dv", second ? second : room);
}

static void complain(shipping *s, const char *what, const char *sentence) {
    fprintf(stderr, "%s: %s\n", what, sentence);
    s->faults++;
}

static bool meet(const char digits[33]) {
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char known[33];
        snprintf(known, sizeof known, "%016llx%016llx", (unsigned long long)table[i].high,
                 (unsigned long long)table[i].low);
        if (strcmp(known, digits) != 0) continue;
        table[i].is_met = true;
        return true;
    }
    return false;
}

static void take(shipping *s, const ftl_product *product, const char *what) {
    char digits[33];
    if (!verify_form_digits(product, digits)) {
        complain(s, what, "out of memory");
        return;
    }
    bool is_known = meet(digits) && verify_is_shipped(product);
    if (!s->runtime) {
        s->forms++;
        if (!is_known) complain(s, what, "not in src/verify/shipped.def");
        return;
    }
    verify_built found = {.finding = VERIFY_RIGHT};
    const verify_program program = verify_program_of(product, what);
    ftl_status status =
        is_known ? FTL_OK : verify_product(s->context, &program, s->runtime, NULL, &found);
    if (status || found.finding != VERIFY_RIGHT) {
        complain(s, what, status ? ftl_context_error(s->context) : found.what);
        return;
    }
    size_t room = strlen(what) + 96;
    char *line = s->lines[s->forms++] = malloc(room);
    if (line) snprintf(line, room, "SHIPPED(0x%.16s, 0x%.16s, \"%s\")", digits, digits + 16, what);
}

static void build(shipping *s, const operator_row *row, const char *dimensions, const char *gpu,
                  ftl_type type, bool is_short) {
    asked a;
    char what[256], *sketch = NULL;
    ftl_product *product = NULL;
    cut(row, dimensions, &a);
    if (is_short) add_pin(&a, "nominal_length", "1024");
    snprintf(what, sizeof what, "%s%s%s%s%s %s %s%s", row->what, *row->options ? " " : "",
             row->options, *dimensions ? " " : "", dimensions, gpu, ftl_type_name(type),
             is_short ? " short" : "");
    ftl_options options = FTL_OPTIONS_INIT;
    options.gpu = gpu, options.dtype = type, options.pins = a.pins, options.pin_count = a.pin_count;
    ftl_status status = ftl_sketch(s->context, row->what, a.settings, a.setting_count, &sketch);
    if (!status) {
        ftl_source source = {"<attention>", sketch, strlen(sketch)};
        status = ftl_build(s->context, &source, &options, &product);
    }
    if (!status) take(s, product, what);
    else if (status != FTL_REJECTED) complain(s, what, ftl_context_error(s->context));
    ftl_product_free(product);
    ftl_free(sketch);
}

static void build_row(shipping *s, const operator_row *row, const char *dimensions) {
    for (size_t g = 0; g < sizeof gpus / sizeof *gpus; g++) {
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            build(s, row, dimensions, gpus[g], types[t], false);
            bool has_short = strcmp(row->what, "attention") == 0;
            if (has_short) build(s, row, dimensions, gpus[g], types[t], true);
        }
    }
}

static void build_all(shipping *s) {
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        char dimensions[128];
        if (strchr(rows[r].what, '/')) continue;
        snprintf(dimensions, sizeof dimensions, "%s", rows[r].head_dimensions);
        str rest = str_from(dimensions);
        do {
            char one[32];
            str word = str_cut(&rest, ' ');
            snprintf(one, sizeof one, "%.*s", STR_ARGS(word));
            build_row(s, &rows[r], one);
        } while (rest.length);
    }
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void print(shipping *s) {
    printf(
        "/* Kernels that were verified before they shipped, by a hash of their program, their text "
        "and their\n * plan; in order. tools/shipped.sh writes this file. */\n");
    qsort(s->lines, (size_t)s->forms, sizeof *s->lines, by_text);
    for (int i = 0; i < s->forms; i++) {
        bool is_again = i && strncmp(s->lines[i], s->lines[i - 1], 46) == 0;
        if (!is_again) printf("%s\n", s->lines[i]);
    }
}

int main(int count, char **arguments) {
    static shipping s;
    bool writes = count > 1 && strcmp(arguments[1], "--write") == 0;
    if (ftl_context_new(&s.context) || (writes && ftl_runtime_open(NULL, NULL, &s.runtime)))
        return 1;
    build_all(&s);
    if (writes) print(&s);
    for (size_t i = 0; i < sizeof table / sizeof *table && !writes; i++)
        if (!table[i].is_met) complain(&s, table[i].what, "no longer a text that is made");
    for (int i = 0; i < s.forms; i++) free(s.lines[i]);
    fprintf(stderr, "%d forms, %d faults\n", s.forms, s.faults);
    if (s.faults && !writes) fprintf(stderr, "run tools/shipped.sh\n");
    ftl_runtime_close(s.runtime);
    ftl_context_free(s.context);
    return s.faults != 0 || s.forms == 0;
}
