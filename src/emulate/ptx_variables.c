/* Names and what they stand for: scopes of symbols, registers, variables and their first values. */
#include "emulate/ptx_read.h"

#include <string.h>

void ptx_index_clear(ptx_index *index) {
    memset(index->buckets, 0, sizeof index->buckets);
    index->next.count = 0;
}

static const ptx_symbol *lookup(const ptx_reader *r, str name, bool is_range) {
    const ptx_index *index = &r->symbols_by_name;
    int32_t i = ptx_index_first(index, str_hash(name));
    for (; i >= 0; i = ptx_index_next(index, i)) {
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

void ptx_read_declare(ptx_reader *r, ptx_symbol symbol) {
    ptx_index_add(r->memory, &r->symbols_by_name, str_hash(symbol.name));
    list_push(r->memory, &r->symbols, symbol);
}

void ptx_read_forget(ptx_reader *r, int count) {
    while (r->symbols.count > count)
        ptx_index_drop(&r->symbols_by_name, str_hash(r->symbols.items[--r->symbols.count].name));
}

/* --- variables -------------------------------------------------------------------------------- */

/* Of ".u32", and of types that no instruction names. */
static uint32_t type_bytes(str type) {
    ptx_number number;
    if (!str_starts(type, STR("."))) return 0;
    str name = {type.data + 1, type.length - 1};
    if (str_is(name, "pred")) return 1;
    if (str_is(name, "b128")) return 16;
    if (str_is(name, "texref") || str_is(name, "samplerref") || str_is(name, "surfref")) return 8;
    return (uint32_t)ptx_decode_type(name, &number);
}

void ptx_read_registers(ptx_reader *r) {
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
        ptx_read_declare(r, symbol);
    } while (ptx_scan_take(r, ','));
    ptx_scan_need(r, ';');
}

/* Values of an initialiser, flattened, each of 'bytes' bytes, into 'image' after 'offset'. */
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

uint64_t ptx_read_align(uint64_t value, uint64_t alignment) {
    return (value + alignment - 1u) / alignment * alignment;
}

/* [.align N] .type [.v4] name [N][M], after the space. */
bool ptx_read_variable(ptx_reader *r, ptx_shape *shape) {
    *shape = (ptx_shape){.alignment = 0};
    uint32_t vector = 1;
    bool points = false;
    for (str d = ptx_scan_directive(r); d.length; d = ptx_scan_directive(r)) {
        ptx_literal literal;
        if (str_is(d, ".align")) {
            /* After .ptr it speaks of what the pointer points to. */
            uint32_t alignment = (uint32_t)ptx_scan_number(r, &literal);
            if (!points) shape->alignment = alignment;
        } else if (str_is(d, ".v2")) vector = 2;
        else if (str_is(d, ".v4")) vector = 4;
        else if (str_is(d, ".ptr")) points = true;
        else if (type_bytes(d)) shape->element_bytes = type_bytes(d);
    }
    if (!shape->element_bytes) {
        ptx_scan_stop(r, "a type");
        return false;
    }
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

static void module_variable(ptx_reader *r, ptx_space space, const ptx_shape *shape) {
    uint32_t *used = space == PTX_GLOBAL ? &r->module->global_bytes : &r->module->constant_bytes;
    uint64_t offset = ptx_read_align(*used, shape->alignment), bytes = shape->bytes;
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
    ptx_read_declare(r, (ptx_symbol){.name = shape->name,
                                     .kind = PTX_SYMBOL_VARIABLE,
                                     .space = space,
                                     .value = base + offset});
}

/* Those of the module are placed first in every entry, so that their addresses are known before any
 * entry is read; what has no size begins after all others.
 */
static void shared_variable(ptx_reader *r, const ptx_shape *shape) {
    ptx_function *f = r->function;
    uint64_t value = PTX_SHARED_LATER;
    if (!shape->unsized) {
        uint32_t *used = f ? &f->dynamic_shared : &r->module_shared_end;
        value = ptx_read_align(*used, shape->alignment);
        if (value + shape->bytes > PTX_SHARED_BEGIN + EMULATE_SHARED_MAX) {
            ptx_scan_limit(r, "bytes of shared variables", EMULATE_SHARED_MAX);
            return;
        }
        *used = (uint32_t)(value + shape->bytes);
        ptx_variable placed = {ptx_lines_plain_name(shape->name), (uint32_t)value,
                               (uint32_t)shape->bytes};
        if (f) list_push(r->module->memory, &f->shared, placed);
        else list_push(r->memory, &r->module_shared, placed);
    } else if (shape->alignment > r->dynamic_alignment) {
        r->dynamic_alignment = shape->alignment;
    }
    ptx_read_declare(r, (ptx_symbol){.name = shape->name,
                                     .kind = PTX_SYMBOL_VARIABLE,
                                     .space = PTX_SHARED,
                                     .value = value});
}

static void local_variable(ptx_reader *r, const ptx_shape *shape) {
    ptx_function *f = r->function;
    if (!f) {
        ptx_scan_stop(r, "local variables inside a function");
        return;
    }
    uint64_t offset = ptx_read_align(f->local_bytes, shape->alignment);
    if (offset + shape->bytes > 512u << 10) {
        ptx_scan_limit(r, "bytes of local variables", 512 << 10);
        return;
    }
    f->local_bytes = (uint32_t)(offset + shape->bytes);
    ptx_read_declare(r, (ptx_symbol){.name = shape->name,
                                     .kind = PTX_SYMBOL_VARIABLE,
                                     .space = PTX_LOCAL,
                                     .value = offset});
}

void ptx_read_variables(ptx_reader *r, str space) {
    ptx_shape shape;
    do {
        if (!ptx_read_variable(r, &shape)) return;
        if (str_is(space, ".shared")) shared_variable(r, &shape);
        else if (str_is(space, ".local")) local_variable(r, &shape);
        else if (str_is(space, ".global")) module_variable(r, PTX_GLOBAL, &shape);
        else module_variable(r, PTX_CONST, &shape);
    } while (!r->stopped && ptx_scan_take(r, ','));
    ptx_scan_need(r, ';');
}
