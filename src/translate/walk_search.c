/* Tiles that are counted one after the other where a table says how many there are.
 *
 * `q_block in q_len/BM, b in batch`, with a length for each sequence b: all tiles of a sequence
 * come before those of the next one. The number of a tile says its indices only once the lengths
 * before it are known, so the thread that fetches numbers looks for it, from sequence to sequence.
 * Numbers grow, and it goes on from where it found the last one: a block passes each sequence once.
 * The other roles get the indices with the number.
 */
#include "translate/walk.h"

static bool is_other_name(void *context, const tl_expr *e) {
    return e->kind != TL_NAME || e->symbol != context;
}

static bool depends_on(const emit *t, const tl_expr *e, tl_symbol *walk) {
    return !model_visit_lets(t->model, e, false, is_other_name, walk);
}

/* Asked before there is a plan: does a table or another walk say how long the walk is? */
static bool is_open(const emit *t, int index) {
    const tl_expr *extent = t->model->grid->grid.items[index].extent;
    return emit_reads_table(t, extent) || emit_depends_on_grid(t, extent);
}

/* The walks from here on decide how long those before it are; 0: no walk does so for all others. */
static int first_outer(emit *t) {
    int count = t->model->grid ? t->model->grid->grid.count : 0, outer = 0;
    for (int i = 0; i < count; i++)
        if (is_open(t, i)) outer = i + 1;
    for (int i = 0; i < outer; i++)
        for (int k = 0; k < outer; k++)
            if (is_open(t, i) && depends_on(t, t->model->grid->grid.items[i].extent,
                                            t->model->grid->grid.items[k].symbol))
                return 0;
    return outer < count ? outer : 0;
}

bool walk_is_searched(emit *t) {
    return walk_is_dynamic(t) && first_outer(t) > 0;
}

static str length_name(emit *t, int index) {
    return emit_format(t, "%.*s_tiles",
                       STR_ARGS(emit_clean(t, t->model->grid->grid.items[index].name)));
}

/* The text of a walk's length where the outer indices are known. */
static str length_of(emit *t, int index) {
    return is_open(t, index) ? length_name(t, index) : walk_numbers(t, index);
}

/* How many tiles the outer indices have: `tiles`. */
static void count_tiles(emit *t, int outer) {
    str all = STR("");
    for (int i = 0; i < outer; i++) {
        const tl_walk *walk = &t->model->grid->grid.items[i];
        if (is_open(t, i)) {
            emit_lets_of(t, walk->extent);
            str name = length_name(t, i);
            emit_declare(t, name, "const int %.*s = ftl_max_integer(0, %.*s);", STR_ARGS(name),
                         STR_ARGS(emit_walk_extent(t, walk).text));
        }
        all =
            emit_format(t, "%.*s%s%.*s", STR_ARGS(all), i ? " * " : "", STR_ARGS(length_of(t, i)));
    }
    emit_declare(t, STR("tiles"), "const int tiles = %.*s;", STR_ARGS(all));
}

/* The index of each inner walk, from the tile's number among them. */
static void find_inner(emit *t, int outer) {
    str number = STR("inside");
    for (int i = 0; i < outer; i++) {
        const tl_walk *walk = &t->model->grid->grid.items[i];
        str name = emit_clean(t, walk->name), length = length_of(t, i), part = number;
        if (i + 1 < outer) {
            str rest = emit_format(t, "%.*s_rest", STR_ARGS(name));
            str by = is_open(t, i)
                         ? emit_format(t, "%.*s / %.*s", STR_ARGS(number), STR_ARGS(length))
                         : walk_quotient(t, number, i);
            emit_declare(t, rest, "const int %.*s = %.*s;", STR_ARGS(rest), STR_ARGS(by));
            part = emit_format(t, "%.*s - %.*s * %.*s", STR_ARGS(number), STR_ARGS(rest),
                               STR_ARGS(length));
            number = rest;
        }
        if (walk->is_reversed)
            part = emit_format(t, "%.*s - 1 - (%.*s)", STR_ARGS(length), STR_ARGS(part));
        emit_text(t, "indices[%d] = %.*s;", i, STR_ARGS(part));
    }
}

void walk_define_search(emit *t) {
    int count = t->model->grid->grid.count, outer = first_outer(t), names = t->names.count;
    str tuples = STR("");
    for (int i = outer; i < count; i++)
        tuples = emit_format(t, "%.*s%s%.*s", STR_ARGS(tuples), i > outer ? " * " : "",
                             STR_ARGS(walk_numbers(t, i)));
    emit_text(t, "struct tile_search { int tuple, tiles; }; // of the walks that decide how long "
                 "others are; all tiles before it");
    emit_open(t,
              "const auto tile_find = [&](int number, tile_search &at, int (&indices)[%d]) "
              "FTL_INLINE {",
              count);
    emit_text(t, "#pragma unroll 1");
    emit_open(t, "for (; at.tuple < %.*s; at.tuple++) {", STR_ARGS(tuples));
    emit_declare(t, STR("tuple"), "const int tuple = at.tuple;");
    walk_decode(t, STR("tuple"), outer, count);
    count_tiles(t, outer);
    emit_declare(t, STR("inside"), "const int inside = number - at.tiles;");
    emit_open(t, "if (inside < tiles) {");
    find_inner(t, outer);
    for (int i = outer; i < count; i++)
        emit_text(t, "indices[%d] = %.*s;", i,
                  STR_ARGS(emit_name_find(t, t->model->grid->grid.items[i].symbol)->name));
    emit_text(t, "return number;");
    emit_close(t);
    emit_text(t, "at.tiles += tiles;");
    emit_close(t);
    emit_text(t, "return args.tiles; // there is none");
    walk_close_function(t);
    t->names.count = names;
}
