/* Reads PTX text: directives, variables, scopes, labels, line information, and statements as they
 * are spelled. What a statement does is ptx_decode.c's business.
 */
#include "emulate/ptx_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HASH_SIZE = 4096 };

void ptx_read_error(ptx_reader *r, diag_id id, diag_range range, str first, str second) {
    diag *d = diag_report(r->diagnostics, id, range, first, second);
    if (!d || !r->function || r->place < 0) return;
    const ptx_place *place = &r->module->places.items[r->place];
    while (place->parent >= 0) place = &r->module->places.items[place->parent];
    str file = STR("line");
    for (int i = 0; i < r->module->files.count; i++)
        if (r->module->files.items[i].number == place->file) file = r->module->files.items[i].name;
    diag_report(r->diagnostics, DIAG_PTX_SOURCE_LINE, range, file,
                str_format(r->memory, "%d", place->line));
}

static diag_range here(const ptx_reader *r) {
    uint32_t at = (uint32_t)(r->at - r->begin);
    return (diag_range){at, at + 1};
}

static void stop(ptx_reader *r, const char *expected) {
    if (r->stopped) return;
    r->stopped = true;
    const char *end = r->at;
    while (end < r->end && end - r->at < 24 && *end > ' ' && *end < 127) end++;
    str found = r->at == r->end ? STR("the end of the text")
                                : (str){r->at, (size_t)(end - r->at)};
    if (!found.length) found = STR("an odd character");
    ptx_read_error(r, DIAG_PTX_EXPECTED, here(r), str_from(expected), found);
}

static void limit(ptx_reader *r, const char *what, int most) {
    if (r->stopped) return;
    r->stopped = true;
    ptx_read_error(r, DIAG_PTX_LIMIT, here(r), str_from(what), str_format(r->memory, "%d", most));
}

/* ---- characters ---- */

static void skip(ptx_reader *r) {
    while (r->at < r->end) {
        char c = *r->at;
        if (c == '\n') {
            r->line++;
            r->at++;
        } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
            r->at++;
        } else if (c == '/' && r->end - r->at > 1 && r->at[1] == '/') {
            while (r->at < r->end && *r->at != '\n') r->at++;
        } else if (c == '/' && r->end - r->at > 1 && r->at[1] == '*') {
            r->at += 2;
            while (r->at < r->end && !(*r->at == '*' && r->end - r->at > 1 && r->at[1] == '/'))
                if (*r->at++ == '\n') r->line++;
            r->at = r->end - r->at > 1 ? r->at + 2 : r->end;
        } else {
            return;
        }
    }
}

static char peek(ptx_reader *r) {
    skip(r);
    return r->at < r->end ? *r->at : '\0';
}

static bool take(ptx_reader *r, char c) {
    if (r->stopped || peek(r) != c || r->at == r->end) return false;
    r->at++;
    return true;
}

static bool need(ptx_reader *r, char c) {
    if (take(r, c)) return true;
    char expected[4] = {'\'', c, '\'', '\0'};
    stop(r, expected);
    return false;
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%';
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* An identifier; with 'dots', also '.' and "::" inside: opcodes, special registers. */
static str word(ptx_reader *r, bool dots) {
    peek(r);
    const char *begin = r->at;
    while (r->at < r->end) {
        char c = *r->at;
        bool inner = is_letter(c) || is_digit(c);
        if (!inner && dots) inner = c == '.' || c == ':';
        if (!inner) break;
        r->at++;
    }
    return (str){begin, (size_t)(r->at - begin)};
}

static str directive(ptx_reader *r) {
    if (peek(r) != '.') return (str){r->at, 0};
    const char *begin = r->at++;
    while (r->at < r->end && (is_letter(*r->at) || is_digit(*r->at) || *r->at == ':')) r->at++;
    return (str){begin, (size_t)(r->at - begin)};
}

static int digit_of(char c) {
    if (is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return 99;
}

static uint64_t digits(ptx_reader *r, int base, int most) {
    uint64_t value = 0;
    for (int n = 0; n < most && r->at < r->end && digit_of(*r->at) < base; n++)
        value = value * (uint64_t)base + (uint64_t)digit_of(*r->at++);
    return value;
}

static uint64_t decimal(ptx_reader *r, ptx_literal *literal) {
    const char *begin = r->at;
    bool is_float = false;
    while (r->at < r->end) {
        char c = *r->at;
        bool exponent = (c == 'e' || c == 'E') && r->at > begin;
        bool sign = (c == '+' || c == '-') && r->at > begin && (r->at[-1] == 'e' || r->at[-1] == 'E');
        if (c == '.' || exponent) is_float = true;
        else if (!is_digit(c) && !sign) break;
        r->at++;
    }
    str text = {begin, (size_t)(r->at - begin)};
    if (is_float) {
        double value = 0.0;
        uint64_t bits;
        str_to_number(text, &value);
        memcpy(&bits, &value, sizeof bits);
        *literal = PTX_LITERAL_F64;
        return bits;
    }
    uint64_t value = 0;
    for (size_t i = 0; i < text.length; i++) value = value * 10u + (uint64_t)(text.data[i] - '0');
    if (r->at < r->end && *r->at == 'U') r->at++;
    return value;
}

/* PTX ISA, "Constants": 0x, 0b, octal, decimal, 0fXXXXXXXX, 0dXXXXXXXXXXXXXXXX. */
static uint64_t number(ptx_reader *r, ptx_literal *literal) {
    *literal = PTX_LITERAL_INTEGER;
    bool negative = false, inverted = false;
    for (;; r->at++) {
        char c = peek(r);
        if (c == '-') negative = !negative;
        else if (c == '~') inverted = !inverted;
        else if (c != '+') break;
        if (r->at == r->end) break;
    }
    if (!is_digit(peek(r))) {
        stop(r, "a number");
        return 0;
    }
    uint64_t value;
    char kind = r->end - r->at > 1 && *r->at == '0' ? r->at[1] : '\0';
    if (kind == 'x' || kind == 'X') r->at += 2, value = digits(r, 16, 16);
    else if (kind == 'b' || kind == 'B') r->at += 2, value = digits(r, 2, 64);
    else if (kind == 'f' || kind == 'F') r->at += 2, value = digits(r, 16, 8), *literal = PTX_LITERAL_F32;
    else if (kind == 'd' || kind == 'D') r->at += 2, value = digits(r, 16, 16), *literal = PTX_LITERAL_F64;
    else if (is_digit(kind)) value = digits(r, 8, 22);
    else value = decimal(r, literal);
    while (r->at < r->end && (*r->at == 'U' || *r->at == 'u' || *r->at == 'L')) r->at++;
    if (inverted) value = ~value;
    if (!negative) return value;
    if (*literal == PTX_LITERAL_F32) return value ^ 0x80000000u;
    if (*literal == PTX_LITERAL_F64) return value ^ 0x8000000000000000u;
    return 0u - value;
}

/* ---- names ---- */

uint32_t ptx_read_hash(str s) {
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < s.length; i++) hash = (hash ^ (uint8_t)s.data[i]) * 16777619u;
    return hash ^ hash >> 15;
}

static const ptx_symbol *lookup(const ptx_reader *r, str name, bool is_range) {
    int32_t i = r->buckets[ptx_read_hash(name) % PTX_BUCKETS];
    for (; i >= 0; i = r->symbols.items[i].next) {
        const ptx_symbol *s = &r->symbols.items[i];
        if ((s->count > 0) == is_range && str_equal(s->name, name)) return s;
    }
    return NULL;
}

/* "%r12" is number 12 of the registers declared as %r<72>. */
const ptx_symbol *ptx_read_find(const ptx_reader *r, str name, int32_t *index) {
    *index = 0;
    size_t stem = name.length;
    while (stem > 0 && is_digit(name.data[stem - 1])) stem--;
    if (stem < name.length && name.length - stem < 8) {
        int64_t n = 0;
        str_to_integer((str){name.data + stem, name.length - stem}, &n);
        const ptx_symbol *s = lookup(r, (str){name.data, stem}, true);
        if (s && n < s->count) {
            *index = (int32_t)n;
            return s;
        }
    }
    return lookup(r, name, false);
}

static void declare(ptx_reader *r, ptx_symbol symbol) {
    symbol.bucket = ptx_read_hash(symbol.name) % PTX_BUCKETS;
    symbol.next = r->buckets[symbol.bucket];
    r->buckets[symbol.bucket] = r->symbols.count;
    list_push(r->memory, &r->symbols, symbol);
}

static void forget(ptx_reader *r, int count) {
    while (r->symbols.count > count) {
        const ptx_symbol *s = &r->symbols.items[--r->symbols.count];
        r->buckets[s->bucket] = s->next;
    }
}

/* ---- variables ---- */

static uint32_t type_bytes(str type) {
    static const struct {
        const char *name;
        uint32_t bytes;
    } types[] = {
        {".b8", 1},   {".u8", 1},   {".s8", 1},   {".b16", 2},   {".u16", 2},    {".s16", 2},
        {".f16", 2},  {".bf16", 2}, {".b32", 4},  {".u32", 4},   {".s32", 4},    {".f32", 4},
        {".b64", 8},  {".u64", 8},  {".s64", 8},  {".f64", 8},   {".f16x2", 4},  {".bf16x2", 4},
        {".b128", 16}, {".pred", 1}, {".texref", 8}, {".samplerref", 8}, {".surfref", 8},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (str_is(type, types[i].name)) return types[i].bytes;
    return 0;
}

static void declare_registers(ptx_reader *r) {
    str type = directive(r);
    if (str_is(type, ".v2") || str_is(type, ".v4") || !type_bytes(type) || str_is(type, ".b128")) {
        ptx_read_error(r, DIAG_PTX_UNSUPPORTED, here(r),
                       str_format(r->memory, "registers of type %.*s", STR_ARGS(type)), STR(""));
        r->stopped = true;
        return;
    }
    bool predicate = str_is(type, ".pred");
    int rows = type_bytes(type) == 8 ? 2 : 1;
    ptx_function *f = r->function;
    do {
        str name = word(r, false);
        if (!name.length) {
            stop(r, "a register's name");
            return;
        }
        int64_t count = 0;
        if (take(r, '<')) {
            ptx_literal literal;
            count = (int64_t)number(r, &literal);
            need(r, '>');
        }
        int64_t total = count ? count : 1;
        if (count < 0 || total > PTX_ROWS_MAX ||
            (predicate ? f->predicate_count + total > PTX_PREDICATES_MAX
                       : f->row_count + total * rows > PTX_ROWS_MAX)) {
            limit(r, "registers", PTX_ROWS_MAX);
            return;
        }
        ptx_symbol symbol = {.name = name, .count = (int32_t)count};
        symbol.kind = predicate ? PTX_SYMBOL_PREDICATE : rows == 2 ? PTX_SYMBOL_DOUBLE
                                                                   : PTX_SYMBOL_WORD;
        symbol.value = (uint64_t)(predicate ? f->predicate_count : f->row_count);
        if (predicate) f->predicate_count += (int32_t)total;
        else f->row_count += (int32_t)total * rows;
        declare(r, symbol);
    } while (take(r, ','));
    need(r, ';');
}

/* Values of an initialiser, flattened, each of 'bytes' bytes, into 'image' behind 'offset'. */
static void initialise(ptx_reader *r, uint8_t *image, uint64_t room, uint32_t bytes) {
    int depth = 0;
    uint64_t filled = 0;
    do {
        while (take(r, '{')) depth++;
        if (depth > PTX_DEPTH_MAX) {
            stop(r, "fewer braces");
            return;
        }
        if (depth && peek(r) == '}') {
            while (depth && take(r, '}')) depth--;
            continue;
        }
        if (is_letter(peek(r))) {
            ptx_read_error(r, DIAG_PTX_UNSUPPORTED, here(r), STR("addresses in initialisers"),
                           STR(""));
            r->stopped = true;
            return;
        }
        ptx_literal literal;
        uint64_t value = number(r, &literal);
        if (filled + bytes > room) {
            stop(r, "no more values than the variable has");
            return;
        }
        memcpy(image + filled, &value, bytes < 8 ? bytes : 8);
        filled += bytes;
        while (depth && take(r, '}')) depth--;
    } while (!r->stopped && take(r, ','));
    if (depth) stop(r, "'}'");
}

static uint64_t align_up(uint64_t value, uint64_t alignment) {
    return (value + alignment - 1u) / alignment * alignment;
}

typedef struct variable_shape {
    str name;
    uint64_t bytes;
    uint32_t element_bytes, alignment;
    bool unsized; /* name[] */
} variable_shape;

/* [.align N] .type [.v4] name [N][M], after the space. */
static bool variable(ptx_reader *r, variable_shape *shape) {
    *shape = (variable_shape){.alignment = 0};
    uint32_t vector = 1;
    for (str d = directive(r); d.length; d = directive(r)) {
        ptx_literal literal;
        if (str_is(d, ".align")) shape->alignment = (uint32_t)number(r, &literal);
        else if (str_is(d, ".v2")) vector = 2;
        else if (str_is(d, ".v4")) vector = 4;
        else if (str_is(d, ".ptr")) shape->alignment = shape->alignment ? shape->alignment : 0;
        else if (type_bytes(d)) shape->element_bytes = type_bytes(d);
    }
    if (!shape->element_bytes) {
        stop(r, "a type");
        return false;
    }
    /* An .align behind .ptr speaks of what the pointer points to, not of the parameter. */
    shape->name = word(r, false);
    if (!shape->name.length) {
        stop(r, "a variable's name");
        return false;
    }
    uint64_t elements = vector;
    while (take(r, '[')) {
        ptx_literal literal;
        if (peek(r) == ']') shape->unsized = true;
        else elements *= number(r, &literal) & 0xffffffffu;
        if (elements > 1u << 30) {
            limit(r, "elements in a variable", 1 << 30);
            return false;
        }
        if (!need(r, ']')) return false;
    }
    shape->bytes = shape->unsized ? 0 : elements * shape->element_bytes;
    uint32_t natural = shape->element_bytes * vector;
    if (!shape->alignment) shape->alignment = natural > 16 ? 16 : natural;
    if (shape->alignment & (shape->alignment - 1u) || shape->alignment > 4096) {
        stop(r, "an alignment that is a power of two up to 4096");
        return false;
    }
    return true;
}

enum { IMAGE_MAX = 64 << 20 };

static void module_variable(ptx_reader *r, ptx_space space, const variable_shape *shape) {
    uint32_t *used = space == PTX_GLOBAL ? &r->module->global_bytes : &r->module->constant_bytes;
    uint64_t offset = align_up(*used, shape->alignment), bytes = shape->bytes;
    if (offset + bytes > IMAGE_MAX) {
        limit(r, "bytes of module variables", IMAGE_MAX);
        return;
    }
    while ((uint64_t)r->globals.count < offset + bytes && space == PTX_GLOBAL)
        list_push(r->memory, &r->globals, 0);
    while ((uint64_t)r->constants.count < offset + bytes && space == PTX_CONST)
        list_push(r->memory, &r->constants, 0);
    uint8_t *image = space == PTX_GLOBAL ? r->globals.items : r->constants.items;
    if (take(r, '=')) initialise(r, image + offset, bytes, shape->element_bytes);
    *used = (uint32_t)(offset + bytes);
    if (space == PTX_GLOBAL)
        list_push(r->memory, &r->module->globals,
                  ((ptx_variable){shape->name, (uint32_t)offset, (uint32_t)bytes}));
    uint64_t base = space == PTX_GLOBAL ? PTX_BUFFER(EMULATE_BUFFERS_MAX) : 0;
    declare(r, (ptx_symbol){.name = shape->name, .kind = PTX_SYMBOL_VARIABLE, .space = space,
                            .value = base + offset});
}

static void shared_variable(ptx_reader *r, const variable_shape *shape) {
    ptx_function *f = r->function;
    uint64_t value = PTX_SHARED_LATER;
    if (f && !shape->unsized) {
        uint64_t offset = align_up(f->static_shared_bytes, shape->alignment);
        if (offset + shape->bytes > EMULATE_SHARED_MAX) {
            limit(r, "bytes of shared variables", EMULATE_SHARED_MAX);
            return;
        }
        f->static_shared_bytes = (uint32_t)(offset + shape->bytes);
        value = offset;
        list_push(r->module->memory, &f->shared,
                  ((ptx_variable){shape->name, (uint32_t)offset, (uint32_t)shape->bytes}));
    } else if (!shape->unsized) {
        /* Placed first in every entry, so that its address is known before any entry is read. */
        uint64_t offset = align_up(r->module_shared_bytes, shape->alignment);
        if (offset + shape->bytes > EMULATE_SHARED_MAX) {
            limit(r, "bytes of shared variables", EMULATE_SHARED_MAX);
            return;
        }
        r->module_shared_bytes = (uint32_t)(offset + shape->bytes);
        value = offset;
        list_push(r->memory, &r->module_shared,
                  ((ptx_variable){shape->name, (uint32_t)offset, (uint32_t)shape->bytes}));
    } else if (shape->alignment > r->dynamic_alignment) {
        r->dynamic_alignment = shape->alignment;
    }
    declare(r, (ptx_symbol){.name = shape->name, .kind = PTX_SYMBOL_VARIABLE,
                            .space = PTX_SHARED, .value = value});
}

static void local_variable(ptx_reader *r, const variable_shape *shape) {
    ptx_function *f = r->function;
    if (!f) {
        stop(r, "local variables inside a function");
        return;
    }
    uint64_t offset = align_up(f->local_bytes, shape->alignment);
    if (offset + shape->bytes > 512u << 10) {
        limit(r, "bytes of local variables", 512 << 10);
        return;
    }
    f->local_bytes = (uint32_t)(offset + shape->bytes);
    declare(r, (ptx_symbol){.name = shape->name, .kind = PTX_SYMBOL_VARIABLE, .space = PTX_LOCAL,
                            .value = offset});
}

static void declare_variables(ptx_reader *r, str space) {
    variable_shape shape;
    do {
        if (!variable(r, &shape)) return;
        if (str_is(space, ".shared")) shared_variable(r, &shape);
        else if (str_is(space, ".local")) local_variable(r, &shape);
        else if (str_is(space, ".global")) module_variable(r, PTX_GLOBAL, &shape);
        else module_variable(r, PTX_CONST, &shape);
    } while (!r->stopped && take(r, ','));
    need(r, ';');
}

/* ---- line information ---- */

static uint32_t place_hash(const ptx_place *p) {
    return ((uint32_t)p->line * 2654435761u) ^ (uint32_t)p->column * 40503u ^ (uint32_t)p->file;
}

/* The latest place with this file, line and column: what inlined_at means. */
static int32_t latest_place(const ptx_reader *r, ptx_place p) {
    int32_t i = r->place_buckets[place_hash(&p) % HASH_SIZE];
    for (; i >= 0; i = r->place_next.items[i]) {
        const ptx_place *q = &r->module->places.items[i];
        if (q->file == p.file && q->line == p.line && q->column == p.column) return i;
    }
    return -1;
}

static int32_t add_place(ptx_reader *r, ptx_place p) {
    int32_t found = latest_place(r, p);
    if (found >= 0) {
        const ptx_place *q = &r->module->places.items[found];
        if (q->parent == p.parent && str_equal(q->function, p.function)) return found;
    }
    int32_t index = r->module->places.count;
    list_push(r->module->memory, &r->module->places, p);
    uint32_t bucket = place_hash(&p) % HASH_SIZE;
    list_push(r->memory, &r->place_next, r->place_buckets[bucket]);
    r->place_buckets[bucket] = index;
    return index;
}

static int32_t small(ptx_reader *r) {
    ptx_literal literal;
    return (int32_t)(number(r, &literal) & 0x7fffffffu);
}

/* .loc FILE LINE COLUMN [, function_name LABEL [+ N], inlined_at FILE LINE COLUMN] */
static void location(ptx_reader *r) {
    ptx_place place = {.parent = -1};
    place.file = small(r);
    place.line = small(r);
    place.column = small(r);
    if (take(r, ',')) {
        word(r, false); /* function_name */
        place.function = word(r, false); /* resolved to text at the end of the module */
        if (take(r, '+')) small(r);
        if (!need(r, ',')) return;
        word(r, false); /* inlined_at */
        ptx_place at = {.parent = -1};
        at.file = small(r);
        at.line = small(r);
        at.column = small(r);
        if (r->stopped) return;
        place.parent = latest_place(r, at);
        if (place.parent < 0) place.parent = add_place(r, at);
        int depth = 0;
        for (int32_t p = place.parent; p >= 0; p = r->module->places.items[p].parent)
            if (++depth >= PTX_FRAMES_MAX) place.parent = -1;
    }
    if (!r->stopped) r->place = add_place(r, place);
}

static void source_file(ptx_reader *r) {
    int32_t file_number = small(r);
    if (!need(r, '"')) return;
    const char *begin = r->at;
    while (r->at < r->end && *r->at != '"' && *r->at != '\n') r->at++;
    str name = {begin, (size_t)(r->at - begin)};
    if (!need(r, '"')) return;
    while (take(r, ',')) small(r); /* time stamp, size */
    list_push(r->module->memory, &r->module->files, ((ptx_file){file_number, name}));
}

/* "_ZN3foo4cp16EjPKv" names cp16: the last <length><identifier> of the nested name. */
static str plain_name(str mangled) {
    if (!str_starts(mangled, STR("_Z"))) return mangled;
    const char *at = mangled.data + 2, *end = mangled.data + mangled.length;
    while (at < end && !is_digit(*at)) at++;
    str name = mangled;
    while (at < end && is_digit(*at)) {
        size_t length = 0;
        while (at < end && is_digit(*at) && length < 4096) length = length * 10 + (size_t)(*at++ - '0');
        if (length == 0 || length > (size_t)(end - at)) break;
        name = (str){at, length};
        at += length;
    }
    return name;
}

/* A debug section: labels with bytes; the strings name the inlined functions. */
static void section(ptx_reader *r) {
    if (peek(r) == '.') directive(r);
    else word(r, false);
    if (!need(r, '{')) return;
    str label = {0};
    text_buffer text;
    text_init(&text, 4096);
    while (!r->stopped && peek(r) != '}' && r->at < r->end) {
        if (*r->at == '.') {
            directive(r);
            do {
                if (is_letter(peek(r))) {
                    word(r, true);
                    if (take(r, '+') || take(r, '-')) {
                        if (is_letter(peek(r))) word(r, true);
                        else small(r);
                    }
                } else if (peek(r) == '-' || is_digit(peek(r))) {
                    ptx_literal literal;
                    char c = (char)number(r, &literal);
                    if (c) text_add(&text, (str){&c, 1});
                } else {
                    break;
                }
            } while (take(r, ','));
        } else if (is_letter(*r->at)) {
            if (label.length) {
                str name = str_copy(r->module->memory, text_str(&text));
                list_push(r->memory, &r->strings, ((ptx_string){label, plain_name(name)}));
            }
            text.length = 0;
            label = word(r, false);
            need(r, ':');
        } else {
            stop(r, "'}'");
        }
    }
    if (label.length) {
        str name = str_copy(r->module->memory, text_str(&text));
        list_push(r->memory, &r->strings, ((ptx_string){label, plain_name(name)}));
    }
    text_done(&text);
    need(r, '}');
}

static void name_functions(ptx_reader *r) {
    for (int i = 0; i < r->module->places.count; i++) {
        ptx_place *place = &r->module->places.items[i];
        for (int s = 0; s < r->strings.count && place->function.length; s++)
            if (str_equal(place->function, r->strings.items[s].label)) {
                place->function = r->strings.items[s].text;
                break;
            }
    }
}

/* ---- statements ---- */

static void operand(ptx_reader *r, ptx_operand *o, bool nested);

static void elements(ptx_reader *r, ptx_operand *o, char close) {
    ptx_statement *s = &r->statement;
    ptx_operand read[64];
    o->count = 0;
    while (!r->stopped && peek(r) != close) {
        if (o->count == 64) {
            stop(r, "at most 64 elements");
            return;
        }
        operand(r, &read[o->count++], true);
        if (!take(r, ',')) break;
    }
    need(r, close);
    if (s->element_count + o->count > PTX_ELEMENTS_MAX) {
        stop(r, "fewer elements");
        return;
    }
    o->first = s->element_count;
    memcpy(s->elements + s->element_count, read, (size_t)o->count * sizeof *read);
    s->element_count += o->count;
}

static void address(ptx_reader *r, ptx_operand *o) {
    o->kind = PTX_OPERAND_ADDRESS;
    if (is_letter(peek(r))) o->name = word(r, true);
    ptx_literal literal;
    char c = peek(r);
    if (c == '+' || c == '-' || is_digit(c)) {
        if (c == '+') r->at++; /* "+-4" is spelled by nvcc */
        o->offset = (int64_t)number(r, &literal);
    }
    while (!r->stopped && take(r, ',')) {
        if (take(r, '{')) {
            elements(r, o, '}');
        } else {
            ptx_operand rest;
            operand(r, &rest, true);
        }
    }
    need(r, ']');
}

static void operand(ptx_reader *r, ptx_operand *o, bool nested) {
    *o = (ptx_operand){.kind = PTX_OPERAND_NAME};
    char c = peek(r);
    o->at = (uint32_t)(r->at - r->begin);
    if (c == '[') {
        r->at++;
        address(r, o);
    } else if ((c == '{' || c == '(') && !nested) {
        r->at++;
        o->kind = PTX_OPERAND_VECTOR;
        elements(r, o, c == '{' ? '}' : ')');
    } else if (c == '!' || is_letter(c)) {
        o->negated = take(r, '!');
        o->name = word(r, true);
        if (!o->name.length) {
            stop(r, "a name");
            return;
        }
        if (str_is(o->name, "WARP_SZ")) {
            o->kind = PTX_OPERAND_NUMBER;
            o->bits = LANES;
        }
        if (take(r, '|')) {
            o->second = word(r, false);
        } else if (peek(r) == '+' || (peek(r) == '-' && !nested)) {
            ptx_literal literal;
            o->offset = (int64_t)number(r, &literal);
        }
    } else if (c == '-' || c == '+' || c == '~' || is_digit(c)) {
        o->kind = PTX_OPERAND_NUMBER;
        o->bits = number(r, &o->literal);
    } else {
        stop(r, "an operand");
    }
}

static void split_opcode(ptx_reader *r, ptx_statement *s) {
    str rest = s->opcode;
    while (rest.length) {
        if (s->part_count == PTX_PARTS_MAX) {
            stop(r, "a shorter opcode");
            return;
        }
        s->parts[s->part_count++] = str_cut(&rest, '.');
    }
}

static void statement(ptx_reader *r, str first, uint32_t begin, str guard, bool negated) {
    ptx_statement *s = &r->statement;
    s->opcode = first;
    s->part_count = s->operand_count = s->element_count = 0;
    s->guard = guard;
    s->guarded = guard.length > 0;
    s->guard_negated = negated;
    split_opcode(r, s);
    while (!r->stopped && peek(r) != ';') {
        if (s->operand_count == PTX_OPERANDS_MAX) {
            stop(r, "fewer operands");
            return;
        }
        operand(r, &s->operands[s->operand_count++], false);
        if (!take(r, ',')) break;
    }
    s->range = (diag_range){begin, (uint32_t)(r->at - r->begin)};
    if (!need(r, ';')) return;
    if (r->function->code.count >= PTX_INSTRUCTIONS_MAX) {
        limit(r, "instructions", PTX_INSTRUCTIONS_MAX);
        return;
    }
    ptx_decode(r, s);
}

static void branch_targets(ptx_reader *r, str name) {
    ptx_function *f = r->function;
    ptx_targets targets = {f->lists.count, 0};
    do {
        str label = word(r, false);
        if (!label.length) {
            stop(r, "a label");
            return;
        }
        uint32_t at = (uint32_t)(label.data - r->begin);
        ptx_use use = {label, r->scope, -1 - f->lists.count, at};
        list_push(r->memory, &r->uses, use);
        list_push(r->module->memory, &f->lists, 0);
        targets.count++;
    } while (take(r, ','));
    declare(r, (ptx_symbol){.name = name, .kind = PTX_SYMBOL_TARGETS,
                            .value = (uint64_t)r->targets.count});
    list_push(r->memory, &r->targets, targets);
    need(r, ';');
}

static void skip_to_semicolon(ptx_reader *r) {
    while (r->at < r->end && peek(r) != ';') r->at++;
    need(r, ';');
}

static void body_directive(ptx_reader *r) {
    str d = directive(r);
    if (str_is(d, ".reg")) declare_registers(r);
    else if (str_is(d, ".shared") || str_is(d, ".local") || str_is(d, ".global") ||
             str_is(d, ".const")) declare_variables(r, d);
    else if (str_is(d, ".loc")) location(r);
    else if (str_is(d, ".file")) source_file(r);
    else if (str_is(d, ".pragma") || str_is(d, ".param")) skip_to_semicolon(r);
    else stop(r, "a statement");
}

static void labelled(ptx_reader *r, str name) {
    if (peek(r) == '.') {
        const char *back = r->at;
        str d = directive(r);
        if (str_is(d, ".branchtargets")) {
            branch_targets(r, name);
            return;
        }
        if (str_is(d, ".callprototype") || str_is(d, ".calltargets")) {
            skip_to_semicolon(r);
            return;
        }
        r->at = back;
    }
    list_push(r->memory, &r->labels, ((ptx_label){name, r->scope, r->function->code.count}));
}

static void body_statement(ptx_reader *r) {
    peek(r);
    uint32_t begin = (uint32_t)(r->at - r->begin);
    str guard = {0};
    bool negated = false;
    if (take(r, '@')) {
        negated = take(r, '!');
        guard = word(r, false);
    }
    str name = word(r, true);
    if (!name.length) {
        stop(r, "a statement");
        return;
    }
    /* A label's colon sticks to the word, as "::" may stand in opcodes. */
    const char *colon = memchr(name.data, ':', name.length);
    bool doubled = colon && colon + 1 < name.data + name.length && colon[1] == ':';
    if (!guard.length && colon && !doubled) {
        r->at = colon + 1;
        labelled(r, (str){name.data, (size_t)(colon - name.data)});
        return;
    }
    if (!guard.length && take(r, ':')) {
        labelled(r, name);
        return;
    }
    statement(r, name, begin, guard, negated);
}

/* '{' was taken. Scopes nest without recursion: a stack of symbol counts. */
static void body(ptx_reader *r) {
    int marks[PTX_DEPTH_MAX], parents[PTX_DEPTH_MAX], depth = 0;
    for (;;) {
        if (r->stopped) return;
        char c = peek(r);
        if (r->at == r->end) {
            stop(r, "'}'");
            return;
        }
        if (c == '{') {
            r->at++;
            if (depth == PTX_DEPTH_MAX) {
                limit(r, "nested scopes", PTX_DEPTH_MAX);
                return;
            }
            marks[depth] = r->symbols.count;
            parents[depth++] = r->scope;
            list_push(r->memory, &r->scopes, r->scope);
            r->scope = r->scopes.count - 1;
        } else if (c == '}') {
            r->at++;
            if (!depth) return;
            forget(r, marks[--depth]);
            r->scope = parents[depth];
        } else if (c == ';') {
            r->at++;
        } else if (c == '.') {
            body_directive(r);
        } else {
            body_statement(r);
        }
    }
}

/* ---- functions ---- */

static int32_t find_label(const ptx_reader *r, str name, int32_t scope) {
    for (; scope >= 0; scope = r->scopes.items[scope])
        for (int i = 0; i < r->labels.count; i++)
            if (r->labels.items[i].scope == scope && str_equal(r->labels.items[i].name, name))
                return r->labels.items[i].pc;
    return -1;
}

static void resolve_labels(ptx_reader *r) {
    ptx_function *f = r->function;
    for (int i = 0; i < r->uses.count && !r->stopped; i++) {
        const ptx_use *use = &r->uses.items[i];
        int32_t pc = find_label(r, use->name, use->scope);
        if (pc < 0) {
            r->stopped = true;
            ptx_read_error(r, DIAG_PTX_UNKNOWN_NAME,
                           (diag_range){use->at, use->at + (uint32_t)use->name.length}, use->name,
                           STR(""));
            return;
        }
        f->code.items[pc].flags |= PTX_BLOCK_START;
        if (use->pc >= 0) f->code.items[use->pc].target = pc;
        else f->lists.items[-1 - use->pc] = pc;
    }
    for (int pc = 0; pc + 1 < f->code.count; pc++) {
        int kind = f->code.items[pc].kind;
        if (kind == PTX_BRANCH || kind == PTX_BRANCH_INDEXED || kind == PTX_RETURN)
            f->code.items[pc + 1].flags |= PTX_BLOCK_START;
    }
    for (int i = 0; i < r->labels.count; i++)
        f->code.items[r->labels.items[i].pc].flags |= PTX_BLOCK_START;
}

static void parameters(ptx_reader *r) {
    ptx_function *f = r->function;
    if (!take(r, '(')) return;
    while (!r->stopped && peek(r) != ')') {
        str d = directive(r);
        variable_shape shape;
        if (!str_is(d, ".param")) {
            stop(r, "'.param'");
            return;
        }
        const char *type_at = r->at;
        if (!variable(r, &shape)) return;
        /* A pointer's ".ptr .global .align 16" is about what it points to. */
        str spelled = {type_at, (size_t)(r->at - type_at)};
        for (size_t i = 0; i + 4 <= spelled.length; i++)
            if (memcmp(spelled.data + i, ".ptr", 4) == 0) shape.alignment = shape.element_bytes;
        uint64_t offset = align_up(f->parameter_bytes, shape.alignment);
        if (offset + shape.bytes > 32768) {
            limit(r, "bytes of parameters", 32768);
            return;
        }
        f->parameter_bytes = (uint32_t)(offset + shape.bytes);
        list_push(r->module->memory, &f->parameters,
                  ((ptx_variable){shape.name, (uint32_t)offset, (uint32_t)shape.bytes}));
        declare(r, (ptx_symbol){.name = shape.name, .kind = PTX_SYMBOL_VARIABLE,
                                .space = PTX_PARAM, .value = offset});
        if (!take(r, ',')) break;
    }
    need(r, ')');
}

static uint32_t product(ptx_reader *r) {
    uint64_t total = 1;
    do total *= (uint64_t)(uint32_t)small(r);
    while (take(r, ',') && total < 1u << 20);
    return (uint32_t)(total < 1u << 20 ? total : 1u << 20);
}

static void entry_directives(ptx_reader *r) {
    ptx_function *f = r->function;
    while (!r->stopped && peek(r) == '.') {
        str d = directive(r);
        if (str_is(d, ".reqntid")) f->threads_required = product(r);
        else if (str_is(d, ".maxntid")) f->threads_most = product(r);
        else if (str_is(d, ".pragma")) skip_to_semicolon(r);
        else if (is_digit(peek(r))) product(r);
    }
}

/* Where the dynamic block begins is known once all static variables are: behind the body. */
static void place_dynamic_shared(ptx_reader *r, ptx_function *f) {
    uint32_t base = (uint32_t)align_up(f->static_shared_bytes, r->dynamic_alignment);
    f->static_shared_bytes = base;
    for (int i = 0; i < r->later.count; i++) {
        uint32_t *words = f->constants.items + r->later.items[i].row * LANES;
        uint64_t address = base + (uint64_t)r->later.items[i].offset;
        if (r->later.items[i].bytes == 4)
            for (int l = 0; l < LANES; l++) words[l] = (uint32_t)address;
        else
            for (int l = 0; l < LANES; l++) memcpy(words + 2 * l, &address, sizeof address);
    }
}

static void entry(ptx_reader *r) {
    ptx_function function = {.sink = 0};
    function.name = word(r, false);
    if (!function.name.length) {
        stop(r, "a kernel's name");
        return;
    }
    for (int i = 0; i < PTX_SPECIAL_COUNT; i++) function.specials[i] = PTX_NONE;
    function.row_count = 2; /* the sink */
    function.static_shared_bytes = r->module_shared_bytes;
    r->function = &function;
    r->labels.count = r->uses.count = r->scopes.count = r->constant_next.count = 0;
    r->later.count = 0;
    for (int i = 0; i < r->module_shared.count; i++)
        list_push(r->module->memory, &function.shared, r->module_shared.items[i]);
    for (int i = 0; i < HASH_SIZE; i++) r->constant_buckets[i] = -1;
    r->place = -1;
    list_push(r->memory, &r->scopes, -1);
    r->scope = 0;
    int mark = r->symbols.count;
    parameters(r);
    entry_directives(r);
    if (take(r, ';')) { /* a declaration only */
        forget(r, mark);
        r->function = NULL;
        return;
    }
    if (need(r, '{')) body(r);
    /* Running off the end is a return. */
    if (!r->stopped) {
        ptx_statement *s = &r->statement;
        *s = (ptx_statement){.opcode = STR("ret"), .part_count = 1};
        s->parts[0] = s->opcode;
        ptx_decode(r, s);
    }
    if (!r->stopped) resolve_labels(r);
    place_dynamic_shared(r, &function);
    forget(r, mark);
    r->function = NULL;
    if (!r->stopped) list_push(r->module->memory, &r->module->entries, function);
}

/* Device functions are not run: nvcc inlines what our kernels call. Calls are refused by name. */
static void device_function(ptx_reader *r) {
    if (take(r, '(')) {
        while (r->at < r->end && peek(r) != ')') r->at++;
        need(r, ')');
    }
    str name = word(r, false);
    declare(r, (ptx_symbol){.name = name, .kind = PTX_SYMBOL_FUNCTION});
    while (r->at < r->end && peek(r) != '{' && peek(r) != ';') r->at++;
    if (take(r, ';')) return;
    if (!need(r, '{')) return;
    for (int depth = 1; depth && r->at < r->end; r->at++) {
        char c = peek(r);
        if (r->at == r->end) break;
        depth += c == '{' ? 1 : c == '}' ? -1 : 0;
    }
}

static void module_directive(ptx_reader *r) {
    str d = directive(r);
    if (!d.length) {
        stop(r, "a directive");
        return;
    }
    if (str_is(d, ".version")) {
        ptx_literal literal;
        number(r, &literal);
    } else if (str_is(d, ".target")) {
        do {
            str name = word(r, false);
            int64_t value = 0;
            while (name.length && !is_digit(name.data[name.length - 1])) name.length--;
            if (str_starts(name, STR("sm_")) &&
                str_to_integer((str){name.data + 3, name.length - 3}, &value))
                r->module->target = (int)value;
        } while (take(r, ','));
    } else if (str_is(d, ".address_size")) {
        if (small(r) != 64) stop(r, "an address size of 64");
    } else if (str_is(d, ".file")) {
        source_file(r);
    } else if (str_is(d, ".section")) {
        section(r);
    } else if (str_is(d, ".loc")) {
        location(r);
    } else if (str_is(d, ".pragma") || str_is(d, ".alias")) {
        skip_to_semicolon(r);
    } else if (str_is(d, ".entry")) {
        entry(r);
    } else if (str_is(d, ".func")) {
        device_function(r);
    } else if (str_is(d, ".shared") || str_is(d, ".global") || str_is(d, ".const")) {
        declare_variables(r, d);
    } else if (!str_is(d, ".extern") && !str_is(d, ".visible") && !str_is(d, ".weak") &&
               !str_is(d, ".common")) {
        r->at = d.data;
        stop(r, "a directive");
    }
}

emulate_module *emulate_read(arena *memory, str ptx, diag_list *diagnostics) {
    emulate_module *module = arena_new(memory, emulate_module);
    module->memory = memory;
    module->ptx = ptx;
    ptx_reader *r = arena_new(memory, ptx_reader);
    *r = (ptx_reader){.module = module, .memory = memory, .diagnostics = diagnostics};
    r->begin = r->at = ptx.length ? ptx.data : "";
    r->end = r->begin + ptx.length;
    while (r->end > r->begin && r->end[-1] == '\0') r->end--; /* NVRTC counts the NUL */
    r->line = 1;
    r->place = -1;
    r->dynamic_alignment = 16;
    if (ptx.length > 256u << 20) limit(r, "bytes of text", 256 << 20);
    for (int i = 0; i < PTX_BUCKETS; i++) r->buckets[i] = -1;
    r->place_buckets = arena_array(memory, int32_t, HASH_SIZE);
    r->constant_buckets = arena_array(memory, int32_t, HASH_SIZE);
    r->opcode_buckets = arena_array(memory, int32_t, HASH_SIZE);
    for (int i = 0; i < HASH_SIZE; i++)
        r->place_buckets[i] = r->constant_buckets[i] = r->opcode_buckets[i] = -1;
    ptx_decode_prepare(r);
    while (!r->stopped && (peek(r), r->at < r->end)) module_directive(r);
    name_functions(r);
    module->global_image = r->globals.items;
    module->constant_image = r->constants.items;
    if (!r->stopped && !module->entries.count && !diag_has_errors(diagnostics))
        ptx_read_error(r, DIAG_PTX_NO_ENTRY, (diag_range){0, 0}, STR(""), STR(""));
    return diag_has_errors(diagnostics) ? NULL : module;
}

int emulate_entry_count(const emulate_module *module) {
    return module->entries.count;
}

emulate_entry emulate_entry_at(const emulate_module *module, int index) {
    const ptx_function *f = &module->entries.items[index];
    return (emulate_entry){f->name, f->parameter_bytes, f->static_shared_bytes, f->local_bytes,
                           f->threads_required, f->threads_most, f->code.count};
}

bool emulate_parameter_at(const emulate_module *module, int entry_index, int index,
                          uint32_t *offset, uint32_t *bytes) {
    const ptx_function *f = &module->entries.items[entry_index];
    if (index < 0 || index >= f->parameters.count) return false;
    *offset = f->parameters.items[index].offset;
    *bytes = f->parameters.items[index].bytes;
    return true;
}
