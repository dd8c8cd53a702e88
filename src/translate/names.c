/* Names of TL in the emitted text. */
#include "translate/emit.h"

/* Words that mean something in the emitted text: C++'s, CUDA's, and the translator's own. */
static const char *const reserved[] = {
    "alignas",      "alignof",     "and",        "and_eq",     "asm",        "auto",
    "bitand",       "bitor",       "bool",       "break",      "case",       "catch",
    "char",         "class",       "compl",      "const",      "constexpr",  "const_cast",
    "continue",     "decltype",    "default",    "delete",     "do",         "double",
    "dynamic_cast", "else",        "enum",       "explicit",   "export",     "extern",
    "false",        "float",       "for",        "friend",     "goto",       "if",
    "inline",       "int",         "long",       "mutable",    "namespace",  "new",
    "noexcept",     "not",         "not_eq",     "nullptr",    "operator",   "or",
    "or_eq",        "private",     "protected",  "public",     "register",   "reinterpret_cast",
    "return",       "short",       "signed",     "sizeof",     "static",     "static_assert",
    "static_cast",  "struct",      "switch",     "template",   "this",       "throw",
    "true",         "try",         "typedef",    "typeid",     "typename",   "union",
    "unsigned",     "using",       "virtual",    "void",       "volatile",   "wchar_t",
    "while",        "xor",         "xor_eq",     "threadIdx",  "blockIdx",   "blockDim",
    "gridDim",      "warpSize",    "__shared__", "__global__", "args",       "lane",
    "warp",         "thread",      "shared",     "m16",        "n8",         "k16",
    "half",         "element",     "down",       "across",     "unit",       "units",
    "source",       "target",      "inside",     "tile",       "rows_left",  "columns_left",
    "left",         "right",       "line",       "byte",       "held",       "main",
    "row",          "column",      "origin",     "executor",   "block_warp", "has_more",
    "tile_number",  "tile_next",   "is_first",   "n16",        "at",         "next",
    "number_fill",  "number_held", "number",     "tile_at",    "tile_of",    "tile_place",
    "is_wide",      "width",       "tiles",      "from",       "section",    "later",
    "skipped",      "tuple",       "k32",        "indices",    "tile_find",  "tile_found",
    "tile_known",   "tile_search", "searched",
};

/* What the text adds to names of the program for things of its own: Q_held, q_first, P_0. */
static const char *const own_endings[] = {
    "shared", "register", "row",    "column", "first",  "at",    "held", "fill",
    "next",   "slot",     "oldest", "left",   "right",  "holds", "kept", "rest",
    "number", "free",     "landed", "parity", "stride", "map",   "most", "bytes",
    "place",  "unseen",   "high",   "noted",  "whole",  "tiles",
};

static bool is_number(str text) {
    bool is_it = text.length > 0;
    for (size_t i = 0; i < text.length; i++) is_it &= text.data[i] >= '0' && text.data[i] <= '9';
    return is_it;
}

static bool is_own_ending(str ending) {
    for (size_t i = 0; i < sizeof own_endings / sizeof *own_endings; i++) {
        str own = str_from(own_endings[i]);
        bool goes_on = ending.length > own.length && ending.data[own.length] == '_';
        if (str_equal(ending, own) || (goes_on && str_starts(ending, own))) return true;
    }
    return false;
}

/* Is the name that of another symbol with an ending of the text's own? */
static bool looks_made(const emit *t, str name) {
    for (int i = 0; i < t->kernel->symbol_count; i++) {
        str other = t->kernel->symbols[i]->name;
        if (name.length < other.length + 2 || !str_starts(name, other)) continue;
        str ending = {name.data + other.length + 1, name.length - other.length - 1};
        const tl_symbol *symbol = t->kernel->symbols[i];
        bool is_array = is_number(ending) && symbol->in_register.exists;
        if (name.data[other.length] == '_' && (is_array || is_own_ending(ending))) return true;
    }
    return false;
}

str emit_clean(emit *t, str name) {
    bool clash = str_starts(name, STR("ftl_")) || looks_made(t, name);
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved && !clash; i++) {
        clash = str_is(name, reserved[i]);
    }
    return clash ? emit_format(t, "%.*s_", STR_ARGS(name)) : str_copy(t->memory, name);
}

const emit_name *emit_name_find(emit *t, const void *of) {
    for (int i = t->names.count - 1; i >= 0; i--) {
        if (t->names.items[i].of == of) return &t->names.items[i];
    }
    return NULL;
}

void emit_name_set(emit *t, const void *of, str name, int64_t low, int64_t high) {
    emit_name entry = {of, name, low, high};
    list_push(t->memory, &t->names, entry);
}

str emit_name_of(emit *t, const tl_symbol *symbol) {
    const emit_name *known = emit_name_find(t, symbol);
    return known ? known->name : emit_clean(t, symbol->name);
}

static str axis_word(const tl_axis *axis) {
    if (axis->coordinate->kind == TL_NAME) return axis->coordinate->text;
    if (axis->extent->kind == TL_NAME) return axis->extent->text;
    return STR("axis");
}

/* What an axis is called in strides and plans: its index, or its length's name. */
str emit_axis_name(emit *t, const tl_axes *axes, int axis) {
    str word = axis_word(&axes->items[axis]);
    for (int i = 0; i < axes->count; i++) {
        if (i != axis && str_equal(axis_word(&axes->items[i]), word)) {
            return emit_format(t, "%.*s_%d", STR_ARGS(word), axis);
        }
    }
    return word;
}
