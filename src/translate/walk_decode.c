/* From a tile's number to its indices.
 *
 * No integer is divided: the launch makes constants of all divisors.
 */
#include "translate/walk.h"

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
        ftl_formula extent = formula_of(t, t->grid->grid.items[i].extent);
        f = i == from ? extent : both(t, f, extent, FTL_MULTIPLY, "product");
    }
    return f;
}

/* --- from a number to indices ----------------------------------------------------------------- */

static str divided(emit *t, str number, ftl_formula by) {
    str multiplier, shift;
    emit_divide(t, by, &multiplier, &shift);
    return emit_format(t, "ftl_quotient(%.*s, %.*s, %.*s)", STR_ARGS(number), STR_ARGS(multiplier),
                       STR_ARGS(shift));
}

/* The walks [from, to) of 'number', a variable. */
static void decode_walks(emit *t, str number, int from, int to, const char *suffix) {
    for (int i = from; i < to; i++) {
        const tl_walk *walk = &t->grid->grid.items[i];
        emit_value extent = emit_walk_extent(t, walk);
        str name = emit_format(t, "%.*s%s", STR_ARGS(emit_clean(t, walk->name)), suffix);
        str at = number, rest = emit_format(t, "%.*s_rest", STR_ARGS(name));
        if (i + 1 < to) {
            emit_declare(t, rest, "const int %.*s = %.*s;", STR_ARGS(rest),
                         STR_ARGS(divided(t, number, formula_of(t, walk->extent))));
            at = emit_format(t, "%.*s - %.*s * %.*s", STR_ARGS(number), STR_ARGS(rest),
                             STR_ARGS(emit_within(t, extent, 15)));
        }
        if (walk->is_reversed)
            at = emit_format(t, "%.*s - 1 - (%.*s)", STR_ARGS(emit_within(t, extent, 12)),
                             STR_ARGS(at));
        emit_declare(t, name, "%sint %.*s = %.*s;", t->walk.rotates ? "" : "const ", STR_ARGS(name),
                     STR_ARGS(at));
        emit_name_set(t, walk->symbol, name, 0, extent.high > 0 ? extent.high - 1 : 0);
        number = rest;
    }
}

static int section_of(const emit *t) {
    for (int i = 0; i < t->grid->grid.count; i++) {
        if (t->grid->grid.items[i].section) return i;
    }
    return -1;
}

static str value_of(emit *t, ftl_formula f) {
    return emit_format(t, "args.%.*s", STR_ARGS(emit_derived(t, FTL_DERIVED_VALUE, f)));
}

/* An int of the decoding: "tile_NAME", with the suffix. */
static str decoded(emit *t, const char *name, const char *suffix, str value) {
    str full = emit_format(t, "tile_%s%s", name, suffix);
    emit_declare(t, full, "const int %.*s = %.*s;", STR_ARGS(full), STR_ARGS(value));
    return full;
}

static str chosen(emit *t, str condition, str a, str b) {
    return emit_format(t, "(%.*s ? %.*s : %.*s)", STR_ARGS(condition), STR_ARGS(a), STR_ARGS(b));
}

/* n / a or n / b. */
static str divided_by_either(emit *t, str n, str condition, ftl_formula a, ftl_formula b) {
    str by[2][2];
    emit_divide(t, a, &by[0][0], &by[0][1]);
    emit_divide(t, b, &by[1][0], &by[1][1]);
    return emit_format(t, "ftl_quotient(%.*s, %.*s, %.*s)", STR_ARGS(n),
                       STR_ARGS(chosen(t, condition, by[0][0], by[1][0])),
                       STR_ARGS(chosen(t, condition, by[0][1], by[1][1])));
}

/* Tuples of the first walks in sections, as few as hold at most so many and as even as can be: the
 * first ones are one tuple wider. Inside a section the number is (tuple, then the later walks).
 */
static void decode_sections(emit *t, str number, int last, const char *suffix) {
    int count = t->grid->grid.count;
    ftl_formula one = integer(t, 1), tuples = product_of(t, 0, last + 1);
    ftl_formula later = product_of(t, last + 1, count);
    ftl_formula most = formula_of(t, t->grid->grid.items[last].section);
    most = both(t, both(t, most, tuples, FTL_MIN, "min"), one, FTL_MAX, "max");
    ftl_formula sections =
        both(t, both(t, tuples, most, FTL_DIVIDE_UP, "ceil"), one, FTL_MAX, "max");
    ftl_formula width = both(t, tuples, sections, FTL_DIVIDE_DOWN, "floor");
    width = both(t, width, one, FTL_MAX, "max");
    ftl_formula wide = both(t, width, one, FTL_ADD, "sum");
    ftl_formula wide_tuples =
        both(t, both(t, tuples, sections, FTL_MODULO, "rest"), wide, FTL_MULTIPLY, "product");
    ftl_formula wide_tiles = both(t, wide_tuples, later, FTL_MULTIPLY, "product");
    ftl_formula each[2] = {both(t, wide, later, FTL_MULTIPLY, "product"),
                           both(t, width, later, FTL_MULTIPLY, "product")};
    str is_wide = emit_format(t, "tile_wide%s", suffix), edge = value_of(t, wide_tiles);
    emit_declare(t, is_wide, "const bool %.*s = %.*s < %.*s;", STR_ARGS(is_wide), STR_ARGS(number),
                 STR_ARGS(edge));
    str w = decoded(t, "width", suffix, chosen(t, is_wide, value_of(t, wide), value_of(t, width)));
    str from = decoded(t, "from", suffix,
                       emit_format(t, "%.*s - %.*s", STR_ARGS(number),
                                   STR_ARGS(chosen(t, is_wide, STR("0"), edge))));
    str section =
        decoded(t, "section", suffix, divided_by_either(t, from, is_wide, each[0], each[1]));
    str inside = decoded(
        t, "inside", suffix,
        emit_format(t, "%.*s - %.*s * %.*s", STR_ARGS(from), STR_ARGS(section),
                    STR_ARGS(chosen(t, is_wide, value_of(t, each[0]), value_of(t, each[1])))));
    str outer = decoded(t, "later", suffix, divided_by_either(t, inside, is_wide, wide, width));
    str tuple =
        decoded(t, "tuple", suffix,
                emit_format(t, "%.*s + (%.*s - %.*s) * %.*s + %.*s",
                            STR_ARGS(chosen(t, is_wide, STR("0"), value_of(t, wide_tuples))),
                            STR_ARGS(section), STR_ARGS(outer), STR_ARGS(w), STR_ARGS(inside)));
    decode_walks(t, tuple, 0, last + 1, suffix);
    decode_walks(t, outer, last + 1, count, suffix);
}

void walk_decode(emit *t, const char *number, const char *suffix) {
    int section = section_of(t);
    if (section >= 0 && section + 1 < t->grid->grid.count)
        decode_sections(t, str_from(number), section, suffix);
    else decode_walks(t, str_from(number), 0, t->grid->grid.count, suffix);
    emit_tile_lets(t, suffix);
}
