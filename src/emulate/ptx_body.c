/* The body of a function: blocks, labels, and statements with their operands as they are spelled.
 * What a statement does is ptx_decode.c's business.
 */
#include "emulate/ptx_read.h"

#include <string.h>

static void operand(ptx_reader *r, ptx_operand *o, bool nested);

/* Elements are never lists themselves: they lie one after the other. */
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
    ptx_read_declare(r, (ptx_symbol){.name = name,
                                     .kind = PTX_SYMBOL_TARGETS,
                                     .value = (uint64_t)r->targets.count});
    list_push(r->memory, &r->targets, targets);
    ptx_scan_need(r, ';');
}

void ptx_read_skip(ptx_reader *r) {
    while (r->at < r->end && ptx_scan_peek(r) != ';') r->at++;
    ptx_scan_need(r, ';');
}

static void body_directive(ptx_reader *r) {
    str d = ptx_scan_directive(r);
    if (str_is(d, ".reg")) ptx_read_registers(r);
    else if (str_is(d, ".shared") || str_is(d, ".local") || str_is(d, ".global") ||
             str_is(d, ".const"))
        ptx_read_variables(r, d);
    else if (str_is(d, ".loc")) ptx_lines_location(r);
    else if (str_is(d, ".file")) ptx_lines_file(r);
    else if (str_is(d, ".pragma") || str_is(d, ".param")) ptx_read_skip(r);
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
            ptx_read_skip(r);
            return;
        }
        r->at = back;
    }
    ptx_index_add(r->memory, &r->labels_by_name, str_hash(name));
    list_push(r->memory, &r->labels, ((ptx_label){name, r->scope, r->function->code.count}));
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
    /* A label's colon sticks to the word, as "::" may be in opcodes. */
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
void ptx_read_body(ptx_reader *r) {
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
            ptx_read_forget(r, marks[--depth]);
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
