/* The grammar as data: the rules of grammar.def, read into small trees. */
#ifndef FLASHTL_TL_GRAMMAR_H
#define FLASHTL_TL_GRAMMAR_H

#include "base/text.h"

typedef enum grammar_kind {
    GRAMMAR_WORD,  /* "text" */
    GRAMMAR_RULE,  /* a rule's name */
    GRAMMAR_TOKEN, /* NAME, INTEGER, NUMBER, NEWLINE */
    GRAMMAR_SEQUENCE,
    GRAMMAR_CHOICE,
    GRAMMAR_OPTION, /* [ ... ] */
    GRAMMAR_REPEAT  /* { ... } */
} grammar_kind;

typedef struct grammar_node grammar_node;
struct grammar_node {
    grammar_kind kind;
    str text;             /* WORD, RULE, TOKEN */
    int rule;             /* RULE: its index */
    grammar_node **items; /* SEQUENCE, CHOICE; OPTION and REPEAT have one */
    int count;
};

typedef struct grammar_rule {
    str name, definition;
    const grammar_node *body;
} grammar_rule;

typedef struct grammar {
    const grammar_rule *rules;
    int count;
} grammar;

/* The trees live in 'memory'. */
grammar grammar_read(arena *memory);

/* Whether a sentence of this node can be empty, begin or end with a word or number: between two
 * of these is at least one space.
 */
bool grammar_can_be_empty(const grammar *g, const grammar_node *node);
bool grammar_can_begin_with_word(const grammar *g, const grammar_node *node);
bool grammar_can_end_with_word(const grammar *g, const grammar_node *node);

#endif
