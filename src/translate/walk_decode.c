/* From a tile's number to its indices.
 *
 * No integer is divided: the launch makes constants of all divisors.
 */
#include "translate/walk.h"

#include <limits.h>

/* --- formulas over the grid ------------------------------------------------------------------- */

static ftl_formula formula_of(emit *t, const tl_expr *e) {
    ftl_formula f;
    if (!emit_formula(t, e, &f))
        emit_unsupported(t, e->range, tl_expr_text(t->memory, e), "it is not known at launch");
    return f;
}

/* a op b, said as "op(a, b)". */
static ftl_formula both(emit *t, ftl_formula a, ftl_formula b, ftl_formula_op op,
                        const char *format) {
    int count = a.step_count + b.step_count + 1, at = 0;
    ftl_formula_step *steps = arena_array(t->memory, ftl_formula_step, count);
    for (int i = 0; i < a.step_count; i++) steps[at++] = a.steps[i];
    for (int i = 0; i < b.step_count; i++) steps[at++] = b.steps[i];
    steps[at] = (ftl_formula_step){.op = op};
    str text = str_format(t->memory, "%s(%s, %s)", format, a.text, b.text);
    return (ftl_formula){.text = str_copy_z(t->memory, text), .steps = steps, .step_count = count};
}

static ftl_formula integer(emit *t, int64_t value) {
    ftl_formula_step *step = arena_new(t->memory, ftl_formula_step);
    *step = (ftl_formula_step){.op = FTL_PUSH_INTEGER, .integer = value};
    str text = emit_format(t, "%lld", (long long)value);
    return (ftl_formula){.text = str_copy_z(t->memory, text), .steps = step, .step_count = 1};
}

/* Tiles of the walks [from, to). */
static ftl_formula product_of(emit *t, int from, int to) {
    ftl_formula f = integer(t, 1);
    for (int i = from; i < to; i++) {
        ftl_formula extent = formula_of(t, t->model->grid->grid.items[i].extent);
        f = i == from ? extent : both(t, f, extent, FTL_MULTIPLY, "product");
    }
    return f;
}

/* --- from a number to indices ----------------------------------------------------------------- */

static str divided(emit *t, str number, ftl_formula by, const char *called) {
    str multiplier, shift;
    emit_divide(t, by, called, &multiplier, &shift);
    return emit_format(t, "ftl_quotient(%.*s, %.*s, %.*s)", STR_ARGS(number), STR_ARGS(multiplier),
                       STR_ARGS(shift));
}

str walk_quotient(emit *t, str number, int index) {
    const tl_walk *walk = &t->model->grid->grid.items[index];
    return divided(t, number, t->plan->walks[index], emit_divisor_name(t, walk->extent));
}

/* The index of a walk, declared from its part of a number. */
static void declare_walk(emit *t, const tl_walk *walk, str name, str at) {
    emit_value extent = emit_walk_extent(t, walk);
    if (walk->is_reversed)
        at =
            emit_format(t, "%.*s - 1 - (%.*s)", STR_ARGS(emit_within(t, extent, 12)), STR_ARGS(at));
    emit_declare(t, name, "const int %.*s = %.*s;", STR_ARGS(name), STR_ARGS(at));
    emit_name_set(t, walk->symbol, name, 0, extent.high > 0 ? extent.high - 1 : 0);
}

void walk_decode(emit *t, str number, int from, int to) {
    for (int i = from; i < to; i++) {
        const tl_walk *walk = &t->model->grid->grid.items[i];
        str name = emit_clean(t, walk->name);
        str at = number, rest = emit_format(t, "%.*s_rest", STR_ARGS(name));
        if (i + 1 < to) {
            str by = walk_quotient(t, number, i);
            emit_declare(t, rest, "const int %.*s = %.*s;", STR_ARGS(rest), STR_ARGS(by));
            at = emit_format(t, "%.*s - %.*s * %.*s", STR_ARGS(number), STR_ARGS(rest),
                             STR_ARGS(walk_numbers(t, i)));
        }
        number = rest;
        if (!walk_is_open(t, i)) {
            declare_walk(t, walk, name, at);
            continue;
        }
        str part = walk_part_of(t, i);
        emit_declare(t, part, "const int %.*s = %.*s;", STR_ARGS(part), STR_ARGS(at));
    }
}

static int section_of(const emit *t) {
    for (int i = 0; i < t->model->grid->grid.count; i++) {
        if (t->model->grid->grid.items[i].section) return i;
    }
    return -1;
}

/* A number that the launch works out. Nested formulas say nothing: it is put into words. */
static ftl_formula in_words(ftl_formula f, const char *words) {
    f.text = words;
    return f;
}

static str value_of(emit *t, ftl_formula f, const char *called) {
    return emit_format(t, "args.%.*s", STR_ARGS(emit_derived(t, FTL_DERIVED_VALUE, f, called)));
}

/* n / a or n / b. */
static str divided_by_either(emit *t, const char *n, ftl_formula a, const char *a_called,
                             ftl_formula b, const char *b_called) {
    str by[2][2];
    emit_divide(t, a, a_called, &by[0][0], &by[0][1]);
    emit_divide(t, b, b_called, &by[1][0], &by[1][1]);
    return emit_format(t, "ftl_quotient(%s, is_wide ? %.*s : %.*s, is_wide ? %.*s : %.*s)", n,
                       STR_ARGS(by[0][0]), STR_ARGS(by[1][0]), STR_ARGS(by[0][1]),
                       STR_ARGS(by[1][1]));
}

static void either(emit *t, const char *name, str wide, str other) {
    emit_declare(t, str_from(name), "const int %s = is_wide ? %.*s : %.*s;", name, STR_ARGS(wide),
                 STR_ARGS(other));
}

/* Tuples of the first walks in sections, as few as hold at most so many and as even as can be: the
 * first ones are one tuple wider. Inside a section the number is (tuple, then the later walks).
 */
static void decode_sections(emit *t, int last) {
    int count = t->model->grid->grid.count;
    ftl_formula one = integer(t, 1), tuples = product_of(t, 0, last + 1);
    ftl_formula later = product_of(t, last + 1, count);
    ftl_formula most = formula_of(t, t->model->grid->grid.items[last].section);
    most = both(t, both(t, most, tuples, FTL_MIN, "min"), one, FTL_MAX, "max");
    ftl_formula sections =
        both(t, both(t, tuples, most, FTL_DIVIDE_UP, "ceil"), one, FTL_MAX, "max");
    ftl_formula width = both(t, tuples, sections, FTL_DIVIDE_DOWN, "floor");
    width = in_words(both(t, width, one, FTL_MAX, "max"), "tuples of a section");
    ftl_formula wide = in_words(both(t, width, one, FTL_ADD, "sum"), "tuples of a wide section");
    ftl_formula wide_tuples =
        in_words(both(t, both(t, tuples, sections, FTL_MODULO, "rest"), wide, FTL_MULTIPLY, ""),
                 "tuples of all wide sections");
    ftl_formula wide_tiles =
        in_words(both(t, wide_tuples, later, FTL_MULTIPLY, ""), "tiles of all wide sections");
    ftl_formula each_wide =
        in_words(both(t, wide, later, FTL_MULTIPLY, ""), "tiles of a wide section");
    ftl_formula each = in_words(both(t, width, later, FTL_MULTIPLY, ""), "tiles of a section");
    str edge = value_of(t, wide_tiles, "wide_tiles");
    emit_text(t, "const bool is_wide = number < %.*s;", STR_ARGS(edge));
    str of_width = value_of(t, width, "width"), of_wide = value_of(t, wide, "wide_width");
    either(t, "width", of_wide, of_width);
    str of_section = value_of(t, each, "section"),
        wide_section = value_of(t, each_wide, "wide_section");
    either(t, "tiles", wide_section, of_section);
    emit_declare(t, STR("from"), "const int from = number - (is_wide ? 0 : %.*s);", STR_ARGS(edge));
    str section = divided_by_either(t, "from", each_wide, "by_wide_section", each, "by_section");
    emit_declare(t, STR("section"), "const int section = %.*s;", STR_ARGS(section));
    emit_declare(t, STR("inside"), "const int inside = from - section * tiles;");
    str outer = divided_by_either(t, "inside", wide, "by_wide_width", width, "by_width");
    emit_declare(t, STR("later"), "const int later = %.*s;", STR_ARGS(outer));
    emit_declare(t, STR("skipped"), "const int skipped = is_wide ? 0 : %.*s;",
                 STR_ARGS(value_of(t, wide_tuples, "wide_tuples")));
    emit_declare(t, STR("tuple"),
                 "const int tuple = skipped + (section - later) * width + inside;");
    walk_decode(t, STR("tuple"), 0, last + 1);
    walk_decode(t, STR("later"), last + 1, count);
}

/* --- a tile's place in the text --------------------------------------------------------------- */

/* The type of a constant, from its declaration: "int". */
static str type_of(emit *t, str name) {
    for (int i = t->lines.count - 1; i >= 0; i--) {
        const emit_line *line = &t->lines.items[i];
        if (!str_equal(line->declares, name)) continue;
        str text = line->text, before = STR("const ");
        if (str_starts(text, before))
            text = (str){text.data + before.length, text.length - before.length};
        const char *end = str_find_word(text, name);
        return str_copy(t->memory, (str){text.data, (size_t)(end - text.data - 1)});
    }
    return STR("int");
}

static str walk_names(emit *t, const char *type) {
    str list = {0};
    for (int i = 0; i < t->model->grid->grid.count; i++)
        list = emit_format(t, "%.*s%s%s%.*s", STR_ARGS(list), i ? ", " : "", type,
                           STR_ARGS(emit_clean(t, t->model->grid->grid.items[i].name)));
    return list;
}

void walk_close_function(emit *t) {
    t->indent--;
    emit_text(t, "};");
}

/* Is it the length of an axis, as long as which an index may be? */
static bool is_length(const emit *t, const tl_symbol *symbol) {
    for (tl_tensor tensor = {0}; tl_next_tensor(t->kernel, &tensor);)
        for (int i = 0; i < tensor.axes->count; i++) {
            const tl_expr *extent = tensor.axes->items[i].extent;
            if (extent->kind == TL_NAME && extent->symbol == symbol) return true;
        }
    return false;
}

/* What a tile keeps of an index or let. Roles keep two tiles' where they are searched, and a length
 * that a table says fits 32 bits as any other does: the rest is cut off.
 */
static str kept(emit *t, emit_name *name) {
    bool is_wide = emit_is_wide(emit_named(name->name, name->low, name->high));
    if (!is_wide || !walk_is_searched(t) || !is_length(t, name->of)) return name->name;
    name->low = -INT_MAX, name->high = INT_MAX;
    return emit_format(t, "(int)ftl_max_wide(ftl_min_wide(%.*s, %dLL), -%dLL)",
                       STR_ARGS(name->name), INT_MAX, INT_MAX);
}

/* What indices and lets of a tile are called where it is the variable 'tile'. */
static void note_members(emit *t, int from, int members_line) {
    emit_walk *w = &t->walk;
    str members = {0};
    w->own_names.count = w->next_names.count = 0;
    for (int i = from; i < t->names.count; i++) {
        emit_name own = t->names.items[i], next = own;
        str type = type_of(t, own.name);
        if (str_is(type, "long long") && !emit_is_wide(emit_named(own.name, own.low, own.high)))
            type = STR("int");
        members = emit_format(t, "%.*s%.*s %.*s; ", STR_ARGS(members), STR_ARGS(type),
                              STR_ARGS(own.name));
        own.name = emit_format(t, "tile.%.*s", STR_ARGS(next.name));
        next.name = emit_format(t, "next.%.*s", STR_ARGS(next.name));
        list_push(t->memory, &w->own_names, own);
        list_push(t->memory, &w->next_names, next);
    }
    t->lines.items[members_line].text =
        emit_format(t, "struct tile_place { %.*s};", STR_ARGS(members));
}

/* Blocks that have a tile each leave where there is none. */
static void define_existence(emit *t) {
    int names = t->names.count;
    for (int i = 0; i < t->walk.own_names.count; i++)
        list_push(t->memory, &t->names, t->walk.own_names.items[i]);
    emit_open(t, "const auto tile_exists = [&](const tile_place &tile) FTL_INLINE {");
    emit_text(t, "return %.*s;", STR_ARGS(walk_existence(t)));
    walk_close_function(t);
    t->names.count = names;
    if (t->plan->grid_kind == FTL_GRID_PLAIN)
        emit_text(t, "if (!tile_exists(tile_at((int)blockIdx.x))) return;");
}

static void define_decoding(emit *t, int section) {
    int count = t->model->grid->grid.count;
    emit_open(t, "const auto tile_at = [&](int number) FTL_INLINE {");
    if (section >= 0 && section + 1 < count) decode_sections(t, section);
    else walk_decode(t, STR("number"), 0, count);
    walk_place_ragged(t);
    emit_text(t, "return tile_of(%.*s);", STR_ARGS(walk_names(t, "")));
    walk_close_function(t);
}

void walk_define_tiles(emit *t) {
    int names = t->names.count, members = t->lines.count, section = section_of(t);
    if (!t->model->grid) return;
    emit_text(t, "struct tile_place {};");
    emit_open(t, "const auto tile_of = [&](%.*s) FTL_INLINE {", STR_ARGS(walk_names(t, "int ")));
    for (int i = 0; i < t->model->grid->grid.count; i++) {
        const tl_walk *walk = &t->model->grid->grid.items[i];
        emit_value extent = emit_walk_extent(t, walk);
        emit_name_set(t, walk->symbol, emit_clean(t, walk->name), 0,
                      extent.high > 0 ? extent.high - 1 : 0);
    }
    emit_tile_lets(t);
    str all = {0};
    for (int i = names; i < t->names.count; i++) {
        str value = kept(t, &t->names.items[i]);
        all = emit_format(t, "%.*s%s%.*s", STR_ARGS(all), i > names ? ", " : "", STR_ARGS(value));
    }
    emit_text(t, "return tile_place{%.*s};", STR_ARGS(all));
    walk_close_function(t);
    note_members(t, names, members);
    t->names.count = names;
    emit_header(t, t->model->grid);
    if (walk_is_searched(t)) walk_define_search(t);
    else define_decoding(t, section);
    emit_about(t, NULL);
    t->names.count = names;
    if (walk_is_ragged(t)) define_existence(t);
}
