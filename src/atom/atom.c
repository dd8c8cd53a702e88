#include "atom/atom.h"

enum { DISTANCE_MOST = 2 };

static const atom_product products[] = {
#define PRODUCT(word, feature, type, m, n, k, is_async, wrapper)                                   \
    {word, GPU_FEATURE_##feature, type, m, n, k, is_async, wrapper},
#include "atom/atom.def"
};

static const atom_mover movers[] = {
#define MOVER(word, feature, from, to, is_async, use)                                              \
    {word, GPU_FEATURE_##feature, from, to, is_async, use},
#include "atom/atom.def"
};

static const struct {
    const char *word;
    int parts;
} masks[] = {
#define PART(word, parts) {word, parts},
#include "atom/atom.def"
};

enum {
    PRODUCTS = sizeof products / sizeof *products,
    MOVERS = sizeof movers / sizeof *movers,
    MASKS = sizeof masks / sizeof *masks
};

/* --- products --------------------------------------------------------------------------------- */

/* "m64n128k16" is "m64n" with a width and the depth. */
static bool has_word(const atom_product *atom, str word, int *width) {
    str known = str_from(atom->word);
    *width = atom->n;
    if (atom->n) return str_equal(word, known);
    int64_t columns, depth;
    if (!str_starts(word, known)) return false;
    str rest = {word.data + known.length, word.length - known.length};
    str number = str_cut(&rest, 'k');
    if (!str_to_integer(number, &columns) || !str_to_integer(rest, &depth)) return false;
    *width = columns >= 0 && columns <= INT32_MAX ? (int)columns : 0;
    return depth == atom->k;
}

const atom_product *atom_find_product(str word, tl_type type, int *width) {
    int unread;
    for (int i = 0; i < PRODUCTS; i++) {
        bool fits = type == TL_OPEN || products[i].type == type;
        if (fits && has_word(&products[i], word, width ? width : &unread)) return &products[i];
    }
    return NULL;
}

tl_type atom_sum_type(tl_type operands) {
    return operands == TL_I8 ? TL_I32 : TL_F32;
}

bool atom_has_width(const atom_product *atom, int width) {
    if (atom->n) return width == atom->n;
    return width >= ATOM_WIDTH_UNIT && width <= ATOM_WIDTH_MAX && width % ATOM_WIDTH_UNIT == 0;
}

const atom_product *atom_narrow_product(const atom_product *atom) {
    for (int i = 0; i < PRODUCTS; i++) {
        const atom_product *other = &products[i];
        if (other->type == atom->type && other->m == atom->m && other->n == atom->n &&
            other->k == 8)
            return other;
    }
    return NULL;
}

const atom_product *atom_best_product(const gpu *target, tl_type type, bool is_async) {
    for (int i = 0; i < PRODUCTS; i++) {
        const atom_product *atom = &products[i];
        bool fits = atom->type == type && atom->is_async == is_async && atom->wrapper;
        if (fits && gpu_has(target, atom->feature)) return atom;
    }
    return NULL;
}

str atom_product_word(arena *memory, const atom_product *atom, int width) {
    return atom->n ? str_from(atom->word)
                   : str_format(memory, "%s%dk%d", atom->word, width, atom->k);
}

/* --- copies and masks ------------------------------------------------------------------------- */

const atom_mover *atom_find_mover(str word, tl_space from, tl_space to) {
    for (int i = 0; i < MOVERS; i++) {
        const atom_mover *atom = &movers[i];
        if (atom->from == from && atom->to == to && str_is(word, atom->word)) return atom;
    }
    return NULL;
}

const atom_mover *atom_named_mover(str word) {
    for (int i = 0; i < MOVERS; i++) {
        if (str_is(word, movers[i].word)) return &movers[i];
    }
    return NULL;
}

int atom_mask_parts(str word) {
    for (int i = 0; i < MASKS; i++) {
        if (str_is(word, masks[i].word)) return masks[i].parts;
    }
    return 0;
}

str atom_mask_word(int64_t parts) {
    for (int i = 0; i < MASKS; i++) {
        if (masks[i].parts == parts) return str_from(masks[i].word);
    }
    return (str){0};
}

/* --- wrong words ------------------------------------------------------------------------------ */

str atom_nearest(str word, bool of_copy) {
    str nearest = {0};
    int least = DISTANCE_MOST + 1;
    for (int i = 0; i < (of_copy ? MOVERS : PRODUCTS); i++) {
        if (!of_copy && !products[i].n) continue; /* widths are no misspellings */
        str known = str_from(of_copy ? movers[i].word : products[i].word);
        int distance = str_distance(known, word);
        if (distance < least) least = distance, nearest = known;
    }
    return nearest;
}
