/* Reads the rules, and answers what they can begin and end with. */
#include "tl/grammar.h"
#include "tl/tree.h"

#include <assert.h>
#include <string.h>

static const struct {
    const char *name, *definition;
} rules[] = {
#define RULE(name, definition) {name, definition},
#include "tl/grammar.def"
#undef RULE
};

enum { RULE_COUNT = sizeof rules / sizeof *rules };

/* --- lists of words ------------------------------------------------------------------------- */

/* Mask, Softmax and RowTopK have a form of their own. */
static bool has_own_form(tl_shape_rule shape) {
    return shape == TL_SHAPE_MASK || shape == TL_SHAPE_SOFTMAX || shape == TL_SHAPE_CHOICE;
}

static void add_word(text_buffer *out, const char *word) {
    text_format(out, "%s\"%s\"", out->length ? " | " : "", word);
}

/* What a rule without a definition stands for: types, or operations and functions by how many
 * operands or arguments they take at least; those that take two take more.
 */
static const char *list_words(arena *memory, const char *rule) {
    text_buffer out;
    text_init_in(&out, memory);
    int count = *rule == 'u' ? 1 : *rule == 'b' || *rule == 'l' ? 2 : 3;
    bool is_function = str_ends(str_from(rule), STR("function"));
    for (int i = TL_OPEN + 1; i <= TL_I32 && str_is(STR("type"), rule); i++)
        add_word(&out, tl_type_name((tl_type)i));
    for (int i = 0; i < TL_FUNCTION_UNKNOWN && is_function; i++)
        if (tl_function_fewest((tl_function)i) == count)
            add_word(&out, tl_function_name((tl_function)i));
    for (int i = 0; i < TL_OPERATION_UNKNOWN && str_ends(str_from(rule), STR("operation")); i++) {
        const tl_operation_facts *facts = tl_facts((tl_operation)i);
        if (facts->operands == count && !has_own_form(facts->shape)) add_word(&out, facts->name);
    }
    return out.data;
}

/* --- reading ---------------------------------------------------------------------------------- */

typedef struct rule_reader {
    arena *memory;
    const char *at;
} rule_reader;

static grammar_node *read_choice(rule_reader *r);

static grammar_node *new_node(rule_reader *r, grammar_kind kind) {
    grammar_node *node = arena_new(r->memory, grammar_node);
    node->kind = kind;
    return node;
}

static void skip_spaces(rule_reader *r) {
    while (*r->at == ' ') r->at++;
}

static grammar_node *read_named(rule_reader *r) {
    size_t length = strspn(r->at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_");
    assert(length && "a rule of grammar.def is malformed");
    bool is_token = *r->at >= 'A' && *r->at <= 'Z';
    grammar_node *node = new_node(r, is_token ? GRAMMAR_TOKEN : GRAMMAR_RULE);
    node->text = (str){r->at, length};
    r->at += length;
    node->rule = -1;
    for (int i = 0; !is_token && i < RULE_COUNT; i++) {
        if (str_is(node->text, rules[i].name)) node->rule = i;
    }
    assert((is_token || node->rule >= 0) && "grammar.def names a rule that is not there");
    return node;
}

static grammar_node *read_item(rule_reader *r) {
    static const char openers[] = "([{";
    const char *opener = strchr(openers, *r->at);
    if (*r->at == '"') {
        grammar_node *node = new_node(r, GRAMMAR_WORD);
        const char *end = strchr(r->at + 1, '"');
        assert(end);
        node->text = (str){r->at + 1, (size_t)(end - r->at - 1)};
        r->at = end + 1;
        return node;
    }
    if (!opener) return read_named(r);
    r->at++;
    grammar_node *inner = read_choice(r);
    skip_spaces(r);
    assert(*r->at && strchr(")]}", *r->at));
    r->at++;
    if (*opener == '(') return inner;
    grammar_node *node = new_node(r, *opener == '[' ? GRAMMAR_OPTION : GRAMMAR_REPEAT);
    node->items = arena_new(r->memory, grammar_node *);
    node->items[0] = inner;
    node->count = 1;
    return node;
}

static grammar_node *joined(rule_reader *r, grammar_kind kind, grammar_node **items, int count) {
    if (count == 1) return items[0];
    grammar_node *node = new_node(r, kind);
    node->items = items;
    node->count = count;
    return node;
}

static grammar_node *read_sequence(rule_reader *r) {
    LIST(grammar_node *) items = {0};
    for (skip_spaces(r); *r->at && !strchr("|)]}", *r->at); skip_spaces(r)) {
        grammar_node *item = read_item(r);
        list_push(r->memory, &items, item);
    }
    return joined(r, GRAMMAR_SEQUENCE, items.items, items.count);
}

static grammar_node *read_choice(rule_reader *r) {
    LIST(grammar_node *) items = {0};
    do {
        grammar_node *item = read_sequence(r);
        list_push(r->memory, &items, item);
    } while (*r->at == '|' && r->at++);
    return joined(r, GRAMMAR_CHOICE, items.items, items.count);
}

grammar grammar_read(arena *memory) {
    grammar_rule *read = arena_array(memory, grammar_rule, RULE_COUNT);
    for (int i = 0; i < RULE_COUNT; i++) {
        const char *definition = rules[i].definition;
        if (!definition) definition = list_words(memory, rules[i].name);
        rule_reader reader = {memory, definition};
        read[i].name = str_from(rules[i].name);
        read[i].definition = str_from(definition);
        read[i].body = read_choice(&reader);
    }
    return (grammar){read, RULE_COUNT};
}

/* --- questions -------------------------------------------------------------------------------- */

bool grammar_can_be_empty(const grammar *g, const grammar_node *node) {
    switch (node->kind) {
    case GRAMMAR_OPTION:
    case GRAMMAR_REPEAT: return true;
    case GRAMMAR_RULE: {
        /* The grammar has no left recursion, and no rule but 'program' can be empty. */
        return str_is(g->rules[node->rule].name, "program");
    }
    case GRAMMAR_SEQUENCE:
        for (int i = 0; i < node->count; i++) {
            if (!grammar_can_be_empty(g, node->items[i])) return false;
        }
        return true;
    case GRAMMAR_CHOICE:
        for (int i = 0; i < node->count; i++) {
            if (grammar_can_be_empty(g, node->items[i])) return true;
        }
        return false;
    default: return false;
    }
}

/* From the front or from the back of a node; rules met again on the way add nothing. */
static bool touches_word(const grammar *g, const grammar_node *node, bool back, int depth) {
    enum { DEEPEST = 40 };
    if (depth > DEEPEST) return false;
    switch (node->kind) {
    case GRAMMAR_WORD: return str_is_word(node->text.data[back ? node->text.length - 1 : 0]);
    case GRAMMAR_TOKEN: return !str_is(node->text, "NEWLINE");
    case GRAMMAR_RULE: return touches_word(g, g->rules[node->rule].body, back, depth + 1);
    case GRAMMAR_SEQUENCE:
        for (int i = 0; i < node->count; i++) {
            const grammar_node *item = node->items[back ? node->count - 1 - i : i];
            if (touches_word(g, item, back, depth + 1)) return true;
            if (!grammar_can_be_empty(g, item)) return false;
        }
        return false;
    default:
        for (int i = 0; i < node->count; i++) {
            if (touches_word(g, node->items[i], back, depth + 1)) return true;
        }
        return false;
    }
}

bool grammar_can_begin_with_word(const grammar *g, const grammar_node *node) {
    return touches_word(g, node, false, 0);
}

bool grammar_can_end_with_word(const grammar *g, const grammar_node *node) {
    return touches_word(g, node, true, 0);
}
