/* Reads PTX text: directives, variables, scopes, labels, and statements as they are spelled. What a
 * statement does is ptx_decode.c's business.
 */
#include "emulate/ptx_read.h"

#include <string.h>

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
    while (stem > 0 && ptx_scan_is_digit(name.data[stem - 1])) stem--;
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
        {".b8", 1},     {".u8", 1},         {".s8", 1},      {".b16", 2},   {".u16", 2},
        {".s16", 2},    {".f16", 2},        {".bf16", 2},    {".b32", 4},   {".u32", 4},
        {".s32", 4},    {".f32", 4},        {".b64", 8},     {".u64", 8},   {".s64", 8},
        {".f64", 8},    {".f16x2", 4},      {".bf16x2", 4},  {".b128", 16}, {".pred", 1},
        {".texref", 8}, {".samplerref", 8}, {".surfref", 8},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (str_is(type, types[i].name)) return types[i].bytes;
    return 0;
}

static void declare_registers(ptx_reader *r) {
    str type = ptx_scan_directive(r);
    if (str_is(type, ".v2") || str_is(type, ".v4") || !type_bytes(type) || str_is(type, ".b128")) {
        ptx_read_error(r, DIAG_PTX_UNSUPPORTED, ptx_scan_here(r),
                       str_format(r->memory, "registers of type %.*s", STR_ARGS(type)), STR(""));
        r->stopped = true;
        return;
    }
    bool predicate = str_is(type, ".pred");
    int rows = type_bytes(type) == 8 ? 2 : 1;
    ptx_function *f = r->function;
    do {
        str name = ptx_scan_word(r, false);
        if (!name.length) {
            ptx_scan_stop(r, "a register's name");
            return;
        }
        int64_t count = 0;
        if (ptx_scan_take(r, '<')) {
            ptx_literal literal;
            count = (int64_t)ptx_scan_number(r, &literal);
            ptx_scan_need(r, '>');
        }
        int64_t total = count ? count : 1;
        if (count < 0 || total > PTX_ROWS_MAX ||
            (predicate ? f->predicate_count + total > PTX_PREDICATES_MAX
                       : f->row_count + total * rows > PTX_ROWS_MAX)) {
            ptx_scan_limit(r, "registers", PTX_ROWS_MAX);
            return;
        }
        ptx_symbol symbol = {.name = name, .count = (int32_t)count};
        symbol.kind = predicate   ? PTX_SYMBOL_PREDICATE
                      : rows == 2 ? PTX_SYMBOL_DOUBLE
                                  : PTX_SYMBOL_WORD;
        symbol.value = (uint64_t)(predicate ? f->predicate_count : f->row_count);
        if (rows == 2)
            list_push(r->memory, &r->doubles, ((ptx_doubles){f->row_count, (int32_t)total}));
        if (predicate) f->predicate_count += (int32_t)total;
        else f->row_count += (int32_t)total * rows;
        declare(r, symbol);
    } while (ptx_scan_take(r, ','));
    ptx_scan_need(r, ';');
}

/* Values of an initialiser, flattened, each of 'bytes' bytes, into 'image' behind 'offset'. */
static void initialise(ptx_reader *r, uint8_t *image, uint64_t room, uint32_t bytes) {
    int depth = 0;
    uint64_t filled = 0;
    do {
        while (ptx_scan_take(r, '{')) depth++;
        if (depth > PTX_DEPTH_MAX) {
            ptx_scan_stop(r, "fewer braces");
            return;
        }
        if (depth && ptx_scan_peek(r) == '}') {
            while (depth && ptx_scan_take(r, '}')) depth--;
            continue;
        }
        if (ptx_scan_is_letter(ptx_scan_peek(r))) {
            ptx_read_error(r, DIAG_PTX_UNSUPPORTED, ptx_scan_here(r),
                           STR("addresses in initialisers"), STR(""));
            r->stopped = true;
            return;
        }
        ptx_literal literal;
        uint64_t value = ptx_scan_number(r, &literal);
        if (filled + bytes > room) {
            ptx_scan_stop(r, "no more values than the variable has");
            return;
        }
        memcpy(image + filled, &value, bytes < 8 ? bytes : 8);
        filled += bytes;
        while (depth && ptx_scan_take(r, '}')) depth--;
    } while (!r->stopped && ptx_scan_take(r, ','));
    if (depth) ptx_scan_stop(r, "'}'");
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
    for (str d = ptx_scan_directive(r); d.length; d = ptx_scan_directive(r)) {
        ptx_literal literal;
        if (str_is(d, ".align")) shape->alignment = (uint32_t)ptx_scan_number(r, &literal);
        else if (str_is(d, ".v2")) vector = 2;
        else if (str_is(d, ".v4")) vector = 4;
        else if (str_is(d, ".ptr")) shape->alignment = shape->alignment ? shape->alignment : 0;
        else if (type_bytes(d)) shape->element_bytes = type_bytes(d);
    }
    if (!shape->element_bytes) {
        ptx_scan_stop(r, "a type");
        return false;
    }
    /* An .align behind .ptr speaks of what the pointer points to, not of the parameter. */
    shape->name = ptx_scan_word(r, false);
    if (!shape->name.length) {
        ptx_scan_stop(r, "a variable's name");
        return false;
    }
    uint64_t elements = vector;
    while (ptx_scan_take(r, '[')) {
        ptx_literal literal;
        if (ptx_scan_peek(r) == ']') shape->unsized = true;
        else elements *= ptx_scan_number(r, &literal) & 0xffffffffu;
        if (elements > 1u << 30) {
            ptx_scan_limit(r, "elements in a variable", 1 << 30);
            return false;
        }
        if (!ptx_scan_need(r, ']')) return false;
    }
    shape->bytes = shape->unsized ? 0 : elements * shape->element_bytes;
    uint32_t natural = shape->element_bytes * vector;
    if (!shape->alignment) shape->alignment = natural > 16 ? 16 : natural;
    if (shape->alignment & (shape->alignment - 1u) || shape->alignment > 4096) {
        ptx_scan_stop(r, "an alignment that is a power of two up to 4096");
        return false;
    }
    return true;
}

enum { IMAGE_MAX = 64 << 20 };

static void module_variable(ptx_reader *r, ptx_space space, const variable_shape *shape) {
    uint32_t *used = space == PTX_GLOBAL ? &r->module->global_bytes : &r->module->constant_bytes;
    uint64_t offset = align_up(*used, shape->alignment), bytes = shape->bytes;
    if (offset + bytes > IMAGE_MAX) {
        ptx_scan_limit(r, "bytes of module variables", IMAGE_MAX);
        return;
    }
    /* One byte more, so that there is an image to point into. */
    while ((uint64_t)r->globals.count <= offset + bytes && space == PTX_GLOBAL)
        list_push(r->memory, &r->globals, 0);
    while ((uint64_t)r->constants.count <= offset + bytes && space == PTX_CONST)
        list_push(r->memory, &r->constants, 0);
    uint8_t *image = space == PTX_GLOBAL ? r->globals.items : r->constants.items;
    if (ptx_scan_take(r, '=')) initialise(r, image + offset, bytes, shape->element_bytes);
    *used = (uint32_t)(offset + bytes);
    if (space == PTX_GLOBAL)
        list_push(r->memory, &r->module->globals,
                  ((ptx_variable){shape->name, (uint32_t)offset, (uint32_t)bytes}));
    uint64_t base = space == PTX_GLOBAL ? PTX_BUFFER(EMULATE_BUFFERS_MAX) : 0;
    declare(r, (ptx_symbol){.name = shape->name,
                            .kind = PTX_SYMBOL_VARIABLE,
                            .space = space,
                            .value = base + offset});
}

static void shared_variable(ptx_reader *r, const variable_shape *shape) {
    ptx_function *f = r->function;
    uint64_t value = PTX_SHARED_LATER;
    if (f && !shape->unsized) {
        uint64_t offset = align_up(f->static_shared_bytes, shape->alignment);
        if (offset + shape->bytes > EMULATE_SHARED_MAX) {
            ptx_scan_limit(r, "bytes of shared variables", EMULATE_SHARED_MAX);
            return;
        }
        f->static_shared_bytes = (uint32_t)(offset + shape->bytes);
        value = offset;
        list_push(r->module->memory, &f->shared,
                  ((ptx_variable){ptx_lines_plain_name(shape->name), (uint32_t)offset,
                                  (uint32_t)shape->bytes}));
    } else if (!shape->unsized) {
        /* Placed first in every entry, so that its address is known before any entry is read. */
        uint64_t offset = align_up(r->module_shared_bytes, shape->alignment);
        if (offset + shape->bytes > EMULATE_SHARED_MAX) {
            ptx_scan_limit(r, "bytes of shared variables", EMULATE_SHARED_MAX);
            return;
        }
        r->module_shared_bytes = (uint32_t)(offset + shape->bytes);
        value = offset;
        list_push(r->memory, &r->module_shared,
                  ((ptx_variable){ptx_lines_plain_name(shape->name), (uint32_t)offset,
                                  (uint32_t)shape->bytes}));
    } else if (shape->alignment > r->dynamic_alignment) {
        r->dynamic_alignment = shape->alignment;
    }
    declare(r, (ptx_symbol){.name = shape->name,
                            .kind = PTX_SYMBOL_VARIABLE,
                            .space = PTX_SHARED,
                            .value = value});
}

static void local_variable(ptx_reader *r, const variable_shape *shape) {
    ptx_function *f = r->function;
    if (!f) {
        ptx_scan_stop(r, "local variables inside a function");
        return;
    }
    uint64_t offset = align_up(f->local_bytes, shape->alignment);
    if (offset + shape->bytes > 512u << 10) {
        ptx_scan_limit(r, "bytes of local variables", 512 << 10);
        return;
    }
    f->local_bytes = (uint32_t)(offset + shape->bytes);
    declare(r, (ptx_symbol){.name = shape->name,
                            .kind = PTX_SYMBOL_VARIABLE,
                            .space = PTX_LOCAL,
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
    } while (!r->stopped && ptx_scan_take(r, ','));
    ptx_scan_need(r, ';');
}

/* ---- statements ---- */

static void operand(ptx_reader *r, ptx_operand *o, bool nested);

/* Elements are never lists themselves: they lie one behind the other. */
static void elements(ptx_reader *r, ptx_operand *o, char close) {
    ptx_statement *s = &r->statement;
    o->first = s->element_count;
    o->count = 0;
    while (!r->stopped && ptx_scan_peek(r) != close) {
        if (s->element_count == PTX_ELEMENTS_MAX) {
            ptx_scan_stop(r, "fewer elements");
            return;
        }
        operand(r, &s->elements[s->element_count++], true);
        o->count++;
        if (!ptx_scan_take(r, ',')) break;
    }
    ptx_scan_need(r, close);
}

static void address(ptx_reader *r, ptx_operand *o) {
    o->kind = PTX_OPERAND_ADDRESS;
    if (ptx_scan_is_letter(ptx_scan_peek(r))) o->name = ptx_scan_word(r, true);
    ptx_literal literal;
    char c = ptx_scan_peek(r);
    if (c == '+' || c == '-' || ptx_scan_is_digit(c)) {
        if (c == '+') r->at++; /* "+-4" is spelled by nvcc */
        o->offset = (int64_t)ptx_scan_number(r, &literal);
    }
    while (!r->stopped && ptx_scan_take(r, ',')) {
        if (ptx_scan_take(r, '{')) {
            elements(r, o, '}');
        } else {
            ptx_operand rest;
            operand(r, &rest, true);
        }
    }
    ptx_scan_need(r, ']');
}

static void operand(ptx_reader *r, ptx_operand *o, bool nested) {
    *o = (ptx_operand){.kind = PTX_OPERAND_NAME};
    char c = ptx_scan_peek(r);
    o->at = (uint32_t)(r->at - r->begin);
    if (c == '[' && !nested) {
        r->at++;
        address(r, o);
    } else if ((c == '{' || c == '(') && !nested) {
        r->at++;
        o->kind = PTX_OPERAND_VECTOR;
        elements(r, o, c == '{' ? '}' : ')');
    } else if (c == '!' || ptx_scan_is_letter(c)) {
        o->negated = ptx_scan_take(r, '!');
        o->name = ptx_scan_word(r, true);
        if (!o->name.length) {
            ptx_scan_stop(r, "a name");
            return;
        }
        if (str_is(o->name, "WARP_SZ")) {
            o->kind = PTX_OPERAND_NUMBER;
            o->bits = LANES;
        }
        if (ptx_scan_take(r, '|')) {
            o->second = ptx_scan_word(r, false);
        } else if (ptx_scan_peek(r) == '+' || (ptx_scan_peek(r) == '-' && !nested)) {
            ptx_literal literal;
            o->offset = (int64_t)ptx_scan_number(r, &literal);
        }
    } else if (c == '-' || c == '+' || c == '~' || ptx_scan_is_digit(c)) {
        o->kind = PTX_OPERAND_NUMBER;
        o->bits = ptx_scan_number(r, &o->literal);
    } else {
        ptx_scan_stop(r, "an operand");
    }
}

static void split_opcode(ptx_reader *r, ptx_statement *s) {
    str rest = s->opcode;
    while (rest.length) {
        if (s->part_count == PTX_PARTS_MAX) {
            ptx_scan_stop(r, "a shorter opcode");
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
    while (!r->stopped && ptx_scan_peek(r) != ';') {
        if (s->operand_count == PTX_OPERANDS_MAX) {
            ptx_scan_stop(r, "fewer operands");
            return;
        }
        operand(r, &s->operands[s->operand_count++], false);
        if (!ptx_scan_take(r, ',')) break;
    }
    s->range = (diag_range){begin, (uint32_t)(r->at - r->begin)};
    if (!ptx_scan_need(r, ';')) return;
    if (r->function->code.count >= PTX_INSTRUCTIONS_MAX) {
        ptx_scan_limit(r, "instructions", PTX_INSTRUCTIONS_MAX);
        return;
    }
    ptx_decode(r, s);
}

static void branch_targets(ptx_reader *r, str name) {
    ptx_function *f = r->function;
    ptx_targets targets = {f->lists.count, 0};
    do {
        str label = ptx_scan_word(r, false);
        if (!label.length) {
            ptx_scan_stop(r, "a label");
            return;
        }
        uint32_t at = (uint32_t)(label.data - r->begin);
        ptx_use use = {label, r->scope, -1 - f->lists.count, at};
        list_push(r->memory, &r->uses, use);
        list_push(r->module->memory, &f->lists, 0);
        targets.count++;
    } while (ptx_scan_take(r, ','));
    declare(r, (ptx_symbol){
                   .name = name, .kind = PTX_SYMBOL_TARGETS, .value = (uint64_t)r->targets.count});
    list_push(r->memory, &r->targets, targets);
    ptx_scan_need(r, ';');
}

static void skip_to_semicolon(ptx_reader *r) {
    while (r->at < r->end && ptx_scan_peek(r) != ';') r->at++;
    ptx_scan_need(r, ';');
}

static void body_directive(ptx_reader *r) {
    str d = ptx_scan_directive(r);
    if (str_is(d, ".reg")) declare_registers(r);
    else if (str_is(d, ".shared") || str_is(d, ".local") || str_is(d, ".global") ||
             str_is(d, ".const"))
        declare_variables(r, d);
    else if (str_is(d, ".loc")) ptx_lines_location(r);
    else if (str_is(d, ".file")) ptx_lines_file(r);
    else if (str_is(d, ".pragma") || str_is(d, ".param")) skip_to_semicolon(r);
    else ptx_scan_stop(r, "a statement");
}

static void labelled(ptx_reader *r, str name) {
    if (ptx_scan_peek(r) == '.') {
        const char *back = r->at;
        str d = ptx_scan_directive(r);
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
    int32_t *bucket = &r->label_buckets[ptx_read_hash(name) % PTX_BUCKETS];
    ptx_label label = {name, r->scope, r->function->code.count, *bucket};
    *bucket = r->labels.count;
    list_push(r->memory, &r->labels, label);
}

static void body_statement(ptx_reader *r) {
    ptx_scan_peek(r);
    uint32_t begin = (uint32_t)(r->at - r->begin);
    str guard = {0};
    bool negated = false;
    if (ptx_scan_take(r, '@')) {
        negated = ptx_scan_take(r, '!');
        guard = ptx_scan_word(r, false);
    }
    str name = ptx_scan_word(r, true);
    if (!name.length) {
        ptx_scan_stop(r, "a statement");
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
    if (!guard.length && ptx_scan_take(r, ':')) {
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
        char c = ptx_scan_peek(r);
        if (r->at == r->end) {
            ptx_scan_stop(r, "'}'");
            return;
        }
        if (c == '{') {
            r->at++;
            if (depth == PTX_DEPTH_MAX) {
                ptx_scan_limit(r, "nested scopes", PTX_DEPTH_MAX);
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

/* The label of that name in the innermost scope around the use; depth counts scopes outwards. */
static int32_t find_label(const ptx_reader *r, str name, int32_t scope) {
    int32_t best = -1, best_scope = -1;
    int32_t i = r->label_buckets[ptx_read_hash(name) % PTX_BUCKETS];
    for (; i >= 0; i = r->labels.items[i].next) {
        const ptx_label *label = &r->labels.items[i];
        if (label->scope <= best_scope || !str_equal(label->name, name)) continue;
        for (int32_t s = scope; s >= label->scope; s = r->scopes.items[s])
            if (s == label->scope) best = label->pc, best_scope = s;
    }
    return best;
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
    if (!ptx_scan_take(r, '(')) return;
    while (!r->stopped && ptx_scan_peek(r) != ')') {
        str d = ptx_scan_directive(r);
        variable_shape shape;
        if (!str_is(d, ".param")) {
            ptx_scan_stop(r, "'.param'");
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
            ptx_scan_limit(r, "bytes of parameters", 32768);
            return;
        }
        f->parameter_bytes = (uint32_t)(offset + shape.bytes);
        list_push(r->module->memory, &f->parameters,
                  ((ptx_variable){shape.name, (uint32_t)offset, (uint32_t)shape.bytes}));
        declare(r, (ptx_symbol){.name = shape.name,
                                .kind = PTX_SYMBOL_VARIABLE,
                                .space = PTX_PARAM,
                                .value = offset});
        if (!ptx_scan_take(r, ',')) break;
    }
    ptx_scan_need(r, ')');
}

static uint32_t product(ptx_reader *r) {
    uint64_t total = 1;
    do total *= (uint64_t)(uint32_t)ptx_scan_small(r);
    while (ptx_scan_take(r, ',') && total < 1u << 20);
    return (uint32_t)(total < 1u << 20 ? total : 1u << 20);
}

static void entry_directives(ptx_reader *r) {
    ptx_function *f = r->function;
    while (!r->stopped && ptx_scan_peek(r) == '.') {
        str d = ptx_scan_directive(r);
        if (str_is(d, ".reqntid")) f->threads_required = product(r);
        else if (str_is(d, ".maxntid")) f->threads_most = product(r);
        else if (str_is(d, ".maxnreg")) f->registers_most = product(r);
        else if (str_is(d, ".minnctapersm")) f->blocks_least = product(r) % 64;
        else if (str_is(d, ".pragma")) skip_to_semicolon(r);
        else if (ptx_scan_is_digit(ptx_scan_peek(r))) product(r);
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
    ptx_function function = {.sink = 0, .carry = PTX_NONE, .next_carry = PTX_NONE};
    function.name = ptx_scan_word(r, false);
    if (!function.name.length) {
        ptx_scan_stop(r, "a kernel's name");
        return;
    }
    for (int i = 0; i < PTX_SPECIAL_COUNT; i++) function.specials[i] = PTX_NONE;
    function.row_count = 2; /* the sink */
    function.static_shared_bytes = r->module_shared_bytes;
    r->function = &function;
    r->labels.count = r->uses.count = r->scopes.count = r->constant_next.count = 0;
    r->later.count = r->doubles.count = 0;
    for (int i = 0; i < r->module_shared.count; i++)
        list_push(r->module->memory, &function.shared, r->module_shared.items[i]);
    for (int i = 0; i < PTX_BUCKETS; i++) r->constant_buckets[i] = r->label_buckets[i] = -1;
    r->place = -1;
    list_push(r->memory, &r->scopes, -1);
    r->scope = 0;
    int mark = r->symbols.count;
    parameters(r);
    entry_directives(r);
    if (ptx_scan_take(r, ';')) { /* a declaration only */
        forget(r, mark);
        r->function = NULL;
        return;
    }
    if (ptx_scan_need(r, '{')) body(r);
    /* Running off the end is a return. */
    if (!r->stopped) {
        ptx_statement *s = &r->statement;
        *s = (ptx_statement){.opcode = STR("ret"), .part_count = 1};
        s->parts[0] = s->opcode;
        ptx_decode(r, s);
    }
    if (!r->stopped) resolve_labels(r);
    if (!r->stopped && !diag_has_errors(r->diagnostics)) {
        ptx_rows_share(r, &function);
        ptx_decode_touches(r, &function);
    }
    place_dynamic_shared(r, &function);
    forget(r, mark);
    r->function = NULL;
    if (!r->stopped) list_push(r->module->memory, &r->module->entries, function);
}

/* Device functions are not run: nvcc inlines what our kernels call. Calls are refused by name. */
static void device_function(ptx_reader *r) {
    if (ptx_scan_take(r, '(')) {
        while (r->at < r->end && ptx_scan_peek(r) != ')') r->at++;
        ptx_scan_need(r, ')');
    }
    str name = ptx_scan_word(r, false);
    declare(r, (ptx_symbol){.name = name, .kind = PTX_SYMBOL_FUNCTION});
    while (r->at < r->end && ptx_scan_peek(r) != '{' && ptx_scan_peek(r) != ';') r->at++;
    if (ptx_scan_take(r, ';')) return;
    if (!ptx_scan_need(r, '{')) return;
    for (int depth = 1; depth && r->at < r->end; r->at++) {
        char c = ptx_scan_peek(r);
        if (r->at == r->end) break;
        depth += c == '{' ? 1 : c == '}' ? -1 : 0;
    }
}

static void module_directive(ptx_reader *r) {
    str d = ptx_scan_directive(r);
    if (!d.length) {
        ptx_scan_stop(r, "a directive");
        return;
    }
    if (str_is(d, ".version")) {
        ptx_literal literal;
        ptx_scan_number(r, &literal);
    } else if (str_is(d, ".target")) {
        do {
            str name = ptx_scan_word(r, false);
            int64_t value = 0;
            while (name.length && !ptx_scan_is_digit(name.data[name.length - 1])) name.length--;
            if (str_starts(name, STR("sm_")) &&
                str_to_integer((str){name.data + 3, name.length - 3}, &value))
                r->module->target = (int)value;
        } while (ptx_scan_take(r, ','));
    } else if (str_is(d, ".address_size")) {
        if (ptx_scan_small(r) != 64) ptx_scan_stop(r, "an address size of 64");
    } else if (str_is(d, ".file")) {
        ptx_lines_file(r);
    } else if (str_is(d, ".section")) {
        ptx_lines_section(r);
    } else if (str_is(d, ".loc")) {
        ptx_lines_location(r);
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
        ptx_scan_stop(r, "a directive");
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
    if (ptx.length > 256u << 20) ptx_scan_limit(r, "bytes of text", 256 << 20);
    for (int i = 0; i < PTX_BUCKETS; i++) r->buckets[i] = r->string_buckets[i] = -1;
    r->place_buckets = arena_array(memory, int32_t, PTX_BUCKETS);
    r->constant_buckets = arena_array(memory, int32_t, PTX_BUCKETS);
    r->opcode_buckets = arena_array(memory, int32_t, PTX_BUCKETS);
    for (int i = 0; i < PTX_BUCKETS; i++)
        r->place_buckets[i] = r->constant_buckets[i] = r->opcode_buckets[i] = -1;
    ptx_decode_prepare(r);
    while (!r->stopped && (ptx_scan_peek(r), r->at < r->end)) module_directive(r);
    ptx_lines_finish(r);
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
    return (emulate_entry){f->name,        f->parameter_bytes,  f->static_shared_bytes,
                           f->local_bytes, f->threads_required, f->threads_most,
                           f->code.count};
}

bool emulate_parameter_at(const emulate_module *module, int entry_index, int index,
                          uint32_t *offset, uint32_t *bytes) {
    const ptx_function *f = &module->entries.items[entry_index];
    if (index < 0 || index >= f->parameters.count) return false;
    *offset = f->parameters.items[index].offset;
    *bytes = f->parameters.items[index].bytes;
    return true;
}
