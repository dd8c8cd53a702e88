#include "gpu/read.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>

typedef enum field_kind { FIELD_TEXT, FIELD_INTEGER, FIELD_REAL } field_kind;

typedef struct field {
    const char *key, *unit, *meaning;
    field_kind kind;
    double least, most;
    size_t offset;
} field;

static const field FIELDS[] = {
#define GPU_TEXT(key, meaning) {#key, "", meaning, FIELD_TEXT, 0, 0, offsetof(gpu, key)},
#define GPU_INTEGER(key, unit, least, most, meaning)                                               \
    {#key, unit, meaning, FIELD_INTEGER, least, most, offsetof(gpu, key)},
#define GPU_REAL(key, unit, least, most, meaning)                                                  \
    {#key, unit, meaning, FIELD_REAL, least, most, offsetof(gpu, key)},
#include "gpu/fields.def"
#undef GPU_TEXT
#undef GPU_INTEGER
#undef GPU_REAL
};

enum { FIELD_COUNT = (int)(sizeof FIELDS / sizeof *FIELDS), SHOWN_BYTES_MAX = 40 };

typedef struct reader {
    arena *memory;
    str text;
    gpu *out;
    diag_list *problems;
    bool seen[FIELD_COUNT];
    diag_range keys[FIELD_COUNT];
    bool has_features;
} reader;

static diag_range range_of(const reader *r, str part) {
    uint32_t begin = (uint32_t)(part.data - r->text.data);
    return (diag_range){begin, begin + (uint32_t)part.length};
}

/* Foreign text in a message: short, and without control bytes. */
static str shown(arena *memory, str s) {
    bool cut = s.length > SHOWN_BYTES_MAX;
    str copy = str_format(memory, "%.*s%s", (int)(cut ? SHOWN_BYTES_MAX : s.length),
                          s.length ? s.data : "", cut ? "..." : "");
    char *bytes = arena_array(memory, char, copy.length + 1);
    for (size_t i = 0; i < copy.length; i++) {
        bool plain = copy.data[i] >= ' ' && copy.data[i] <= '~';
        bytes[i] = plain ? copy.data[i] : '?';
    }
    return (str){bytes, copy.length};
}

static str without_comment(str line) {
    for (size_t i = 0; i + 1 < line.length; i++) {
        if (line.data[i] == '/' && line.data[i + 1] == '/') return (str){line.data, i};
    }
    return line;
}

/* Cuts the next line off *rest, splits it at '='; false when no text is left. Lines without text
 * give an empty key and value.
 */
typedef struct line_parts {
    str line, key, value;
    bool has_equals;
} line_parts;

static bool next_line(str *rest, line_parts *parts) {
    if (!rest->length) return false;
    str line = str_trim(without_comment(str_cut(rest, '\n')));
    str value = line;
    parts->line = line;
    parts->key = str_trim(str_cut(&value, '='));
    parts->has_equals =
        parts->key.length < line.length && value.data > line.data && value.data[-1] == '=';
    parts->value = str_trim(value);
    return true;
}

str read_value(str text, const char *key) {
    line_parts parts;
    while (next_line(&text, &parts)) {
        if (parts.has_equals && str_is(parts.key, key)) return parts.value;
    }
    return (str){NULL, 0};
}

str read_plain_name(arena *memory, str name) {
    char *bytes = arena_array(memory, char, name.length + 1);
    size_t length = 0;
    for (size_t i = 0; i < name.length; i++) {
        char c = name.data[i];
        if (c == '-' || c == '_' || c == ' ' || c == '\t') continue;
        bytes[length++] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    return (str){bytes, length};
}

/* --- one line --------------------------------------------------------------------------------- */

/* What would be right here, for messages: "an integer from 1 to 1024 (streaming ...)". */
static str legal_values(arena *memory, const field *f) {
    if (f->kind == FIELD_TEXT) return str_format(memory, "%s", f->meaning);
    return str_format(memory, "%s from %.0f to %.0f%s%s (%s)",
                      f->kind == FIELD_INTEGER ? "an integer" : "a number", f->least, f->most,
                      *f->unit ? " " : "", f->unit, f->meaning);
}

static bool store_number(const field *f, str number, gpu *out) {
    char *place = (char *)out + f->offset;
    if (f->kind == FIELD_INTEGER) {
        int64_t value;
        if (!str_to_integer(number, &value)) return false;
        *(int64_t *)(void *)place = value;
        return (double)value >= f->least && (double)value <= f->most;
    }
    double value;
    if (!str_to_number(number, &value) || !isfinite(value)) return false;
    *(double *)(void *)place = value;
    return value >= f->least && value <= f->most;
}

static void read_number(reader *r, const field *f, str value) {
    str unit = value;
    str number = str_trim(str_cut(&unit, ' '));
    unit = str_trim(unit);
    str key = str_from(f->key);
    if (!store_number(f, number, r->out)) {
        diag_report(r->problems, DIAG_GPU_NUMBER, range_of(r, number.length ? number : value), key,
                    legal_values(r->memory, f), shown(r->memory, value));
        return;
    }
    if (str_is(unit, f->unit)) return;
    str wanted = *f->unit ? str_from(f->unit) : STR("nothing: it is a plain number");
    diag_report(r->problems, DIAG_GPU_UNIT, range_of(r, unit.length ? unit : number), key, wanted,
                shown(r->memory, unit));
}

static void read_text(reader *r, const field *f, str value) {
    if (!value.length) {
        diag_report(r->problems, DIAG_GPU_MISSING, r->keys[f - FIELDS], str_from(f->key),
                    legal_values(r->memory, f));
        return;
    }
    *(str *)(void *)((char *)r->out + f->offset) = str_copy(r->memory, value);
}

/* The features may be spread over several lines. */
static void read_features(reader *r, str value) {
    r->has_features = true;
    while (value.length) {
        str word = str_trim(str_cut(&value, ','));
        if (!word.length) continue;
        gpu_feature feature;
        if (gpu_feature_named(word, &feature)) {
            r->out->features |= (uint64_t)1 << feature;
            continue;
        }
        diag_report(r->problems, DIAG_GPU_FEATURE, range_of(r, word), shown(r->memory, word));
    }
}

static int field_named(str key) {
    for (int i = 0; i < FIELD_COUNT; i++) {
        if (str_is(key, FIELDS[i].key)) return i;
    }
    return -1;
}

static void unknown_key(reader *r, str key) {
    diag_report(r->problems, DIAG_GPU_KEY, range_of(r, key), shown(r->memory, key));
    if (key.length > SHOWN_BYTES_MAX) return;
    for (int i = 0; i < FIELD_COUNT; i++) {
        if (str_distance(key, str_from(FIELDS[i].key)) > 2) continue;
        diag *hint = diag_report(r->problems, DIAG_GPU_KEY_NEAREST, range_of(r, key),
                                 str_from(FIELDS[i].key));
        diag_replace(hint, str_from(FIELDS[i].key));
        return;
    }
}

static void read_line(reader *r, const line_parts *parts) {
    if (!parts->line.length) return;
    if (!parts->has_equals || !parts->key.length) {
        diag_report(r->problems, DIAG_GPU_LINE, range_of(r, parts->line),
                    shown(r->memory, parts->line));
        return;
    }
    if (str_is(parts->key, "features")) {
        read_features(r, parts->value);
        return;
    }
    int index = field_named(parts->key);
    if (index < 0) {
        unknown_key(r, parts->key);
        return;
    }
    if (r->seen[index]) {
        diag_report(r->problems, DIAG_GPU_TWICE, range_of(r, parts->key),
                    str_from(FIELDS[index].key));
        diag_add(r->problems, DIAG_GPU_FIRST, r->keys[index], NULL);
        return;
    }
    r->seen[index] = true;
    r->keys[index] = range_of(r, parts->key);
    if (FIELDS[index].kind == FIELD_TEXT) {
        read_text(r, &FIELDS[index], parts->value);
    } else {
        read_number(r, &FIELDS[index], parts->value.length ? parts->value : parts->key);
    }
}

/* --- the whole -------------------------------------------------------------------------------- */

static void check_missing(reader *r) {
    for (int i = 0; i < FIELD_COUNT; i++) {
        if (r->seen[i]) continue;
        diag_report(r->problems, DIAG_GPU_MISSING, ((diag_range){0, 0}), str_from(FIELDS[i].key),
                    legal_values(r->memory, &FIELDS[i]));
    }
    if (!r->has_features) {
        diag_report(r->problems, DIAG_GPU_MISSING, ((diag_range){0, 0}), STR("features"),
                    STR("a list of words, see docs/adding-a-gpu.md"));
    }
}

static void contradiction(reader *r, const char *a, double a_value, const char *b, double b_value,
                          const char *why) {
    diag_report(r->problems, DIAG_GPU_CONTRADICTION, r->keys[field_named(str_from(a))], str_from(a),
                str_format(r->memory, "%.0f", a_value), str_from(b),
                str_format(r->memory, "%.0f", b_value), str_from(why));
}

/* Figures that are legal each for itself and absurd together. */
static void check_together(reader *r) {
    const gpu *g = r->out;
#define MOST(a, b, why)                                                                            \
    if ((double)g->a > (double)g->b) contradiction(r, #a, (double)g->a, #b, (double)g->b, why)
    MOST(block_threads, threads, "a block's threads must fit an SM");
    MOST(static_shared, block_shared, "it is the part that needs no opting in");
    MOST(mma, tensor, "tensor is the widest instruction's rate");
    MOST(mma8, tensor8, "tensor8 is the widest instruction's rate");
    MOST(fp32, mma, "products are faster than single multiply-adds");
#undef MOST
    if (g->block_shared + g->reserved_shared > g->shared) {
        contradiction(r, "block_shared", (double)g->block_shared, "shared", (double)g->shared,
                      "a block and what is reserved for it must fit an SM");
    }
    if (g->threads % 32) {
        contradiction(r, "threads", (double)g->threads, "schedulers", (double)g->schedulers,
                      "threads come in warps of 32");
    }
    str digits = str_format(r->memory, "sm_%lld", (long long)g->capability);
    str target = g->target;
    bool suffix = target.length == digits.length + 1 &&
                  (target.data[digits.length] == 'a' || target.data[digits.length] == 'f');
    if (!str_starts(target, digits) || (target.length != digits.length && !suffix)) {
        diag_report(r->problems, DIAG_GPU_TARGET, r->keys[field_named(STR("target"))],
                    str_format(r->memory, "%lld", (long long)g->capability),
                    shown(r->memory, target));
    }
}

static str word_of(arena *memory, str name) {
    bool starts_well = name.length && ((name.data[0] | 32) >= 'a' && (name.data[0] | 32) <= 'z');
    str word = str_format(memory, "%s%.*s", starts_well ? "" : "gpu_", STR_ARGS(name));
    char *bytes = arena_array(memory, char, word.length + 1);
    for (size_t i = 0; i < word.length; i++) {
        char c = word.data[i];
        bool letter = ((c | 32) >= 'a' && (c | 32) <= 'z') || (c >= '0' && c <= '9');
        bytes[i] = letter ? c : '_';
    }
    return (str){bytes, word.length};
}

bool gpu_read(arena *memory, str name, str text, gpu *out, diag_list *problems) {
    *out = (gpu){.name = str_copy(memory, name), .word = word_of(memory, name)};
    reader r = {.memory = memory, .text = text, .out = out, .problems = problems};
    int before = problems->error_count;
    str rest = text;
    if (str_starts(rest, STR("\xef\xbb\xbf"))) rest = (str){rest.data + 3, rest.length - 3};
    line_parts parts;
    while (next_line(&rest, &parts)) read_line(&r, &parts);
    check_missing(&r);
    if (problems->error_count > before) return false;
    check_together(&r);
    return problems->error_count == before;
}

void gpu_print(const gpu *g, text_buffer *out) {
    for (int i = 0; i < FIELD_COUNT; i++) {
        const field *f = &FIELDS[i];
        const void *place = (const char *)g + f->offset;
        text_format(out, "%-16s = ", f->key);
        if (f->kind == FIELD_TEXT) text_add(out, *(const str *)place);
        if (f->kind == FIELD_INTEGER) text_format(out, "%lld", (long long)*(const int64_t *)place);
        if (f->kind == FIELD_REAL) text_format(out, "%.15g", *(const double *)place);
        text_format(out, "%s%s\n", *f->unit ? " " : "", f->unit);
    }
    text_add_z(out, "features         = ");
    const char *separator = "";
    for (int i = 0; i < GPU_FEATURE_COUNT; i++) {
        if (!gpu_has(g, (gpu_feature)i)) continue;
        text_format(out, "%s%s", separator, gpu_feature_word((gpu_feature)i));
        separator = ", ";
    }
    text_add_z(out, "\n");
}
