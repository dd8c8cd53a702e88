/* Reads PTX text: the module's directives, functions, their parameters and labels. Variables and
 * bodies have files of their own; what a statement does is ptx_decode.c's business.
 */
#include "emulate/ptx_read.h"

#include <string.h>

void ptx_read_error(ptx_reader *r, diag_id id, diag_range range, str first, str second) {
    diag *d = diag_report(r->diagnostics, id, range, first, second);
    if (!d || !r->function || r->place < 0) return;
    const ptx_place *place = &r->module->places.items[r->place];
    while (place->parent >= 0) place = &r->module->places.items[place->parent];
    str file = ptx_file_name(r->module, place->file);
    diag_report(r->diagnostics, DIAG_PTX_SOURCE_LINE, range, file.length ? file : STR("line"),
                str_format(r->memory, "%d", place->line));
}

/* --- functions -------------------------------------------------------------------------------- */

/* The label of that name in the innermost scope around the use; depth counts scopes outwards. */
static int32_t find_label(const ptx_reader *r, str name, int32_t scope) {
    int32_t best = -1, best_scope = -1;
    const ptx_index *index = &r->labels_by_name;
    int32_t i = ptx_index_first(index, str_hash(name));
    for (; i >= 0; i = ptx_index_next(index, i)) {
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
        ptx_shape shape;
        if (!str_is(d, ".param")) {
            ptx_scan_stop(r, "'.param'");
            return;
        }
        if (!ptx_read_variable(r, &shape)) return;
        uint64_t offset = ptx_read_align(f->parameter_bytes, shape.alignment);
        if (offset + shape.bytes > 32768) {
            ptx_scan_limit(r, "bytes of parameters", 32768);
            return;
        }
        f->parameter_bytes = (uint32_t)(offset + shape.bytes);
        list_push(r->module->memory, &f->parameters,
                  ((ptx_variable){shape.name, (uint32_t)offset, (uint32_t)shape.bytes}));
        ptx_read_declare(r, (ptx_symbol){.name = shape.name,
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
        else if (str_is(d, ".pragma")) ptx_read_skip(r);
        else if (ptx_scan_is_digit(ptx_scan_peek(r))) product(r);
    }
}

/* Where the dynamic block begins is known once all static variables are: after the body. */
static void place_dynamic_shared(ptx_reader *r, ptx_function *f) {
    uint32_t base = (uint32_t)ptx_read_align(f->dynamic_shared, r->dynamic_alignment);
    f->dynamic_shared = base;
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
    ptx_function function = {
        .sink = 0, .carry = PTX_NONE, .next_carry = PTX_NONE, .never = PTX_NONE};
    function.name = ptx_scan_word(r, false);
    if (!function.name.length) {
        ptx_scan_stop(r, "a kernel's name");
        return;
    }
    for (int i = 0; i < PTX_SPECIAL_COUNT; i++) function.specials[i] = PTX_NONE;
    function.row_count = 2; /* the sink */
    function.dynamic_shared = r->module_shared_end;
    r->function = &function;
    r->labels.count = r->uses.count = r->scopes.count = r->known.count = 0;
    r->later.count = r->doubles.count = 0;
    ptx_index_clear(&r->labels_by_name);
    ptx_index_clear(&r->known_by_bits);
    for (int i = 0; i < r->module_shared.count; i++)
        list_push(r->module->memory, &function.shared, r->module_shared.items[i]);
    r->place = -1;
    list_push(r->memory, &r->scopes, -1);
    r->scope = 0;
    int mark = r->symbols.count;
    parameters(r);
    entry_directives(r);
    if (ptx_scan_take(r, ';')) { /* a declaration only */
        ptx_read_forget(r, mark);
        r->function = NULL;
        return;
    }
    if (ptx_scan_need(r, '{')) ptx_read_body(r);
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
        ptx_rows_touch(r, &function);
    }
    place_dynamic_shared(r, &function);
    ptx_read_forget(r, mark);
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
    ptx_read_declare(r, (ptx_symbol){.name = name, .kind = PTX_SYMBOL_FUNCTION});
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
        ptx_read_skip(r);
    } else if (str_is(d, ".entry")) {
        entry(r);
    } else if (str_is(d, ".func")) {
        device_function(r);
    } else if (str_is(d, ".shared") || str_is(d, ".global") || str_is(d, ".const")) {
        ptx_read_variables(r, d);
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
    r->module_shared_end = PTX_SHARED_BEGIN;
    if (ptx.length > 256u << 20) ptx_scan_limit(r, "bytes of text", 256 << 20);
    ptx_decode_prepare(r);
    while (!r->stopped && (ptx_scan_peek(r), r->at < r->end)) module_directive(r);
    ptx_lines_finish(r);
    module->global_image = r->globals.items;
    module->constant_image = r->constants.items;
    if (!r->stopped && !module->entries.count && !diag_has_errors(diagnostics))
        ptx_read_error(r, DIAG_PTX_NO_ENTRY, (diag_range){0, 0}, STR(""), STR(""));
    return diag_has_errors(diagnostics) ? NULL : module;
}
