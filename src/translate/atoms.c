#include "translate/atoms.h"

static const atom_product products[] = {
#define PRODUCT(word, feature, type, m, n, k, wrapper)                                             \
    {word, GPU_FEATURE_##feature, type, m, n, k, wrapper},
#define MOVER(word, feature, use)
#include "translate/atoms.def"
#undef PRODUCT
#undef MOVER
};

static const atom_mover movers[] = {
#define PRODUCT(word, feature, type, m, n, k, wrapper)
#define MOVER(word, feature, use) {word, GPU_FEATURE_##feature, use},
#include "translate/atoms.def"
#undef PRODUCT
#undef MOVER
};

const atom_product *atom_find_product(str word, tl_type type) {
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        if (products[i].type == type && str_is(word, products[i].word)) return &products[i];
    }
    return NULL;
}

const atom_product *atom_narrow_product(const atom_product *atom) {
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        const atom_product *other = &products[i];
        if (other->type == atom->type && other->m == atom->m && other->n == atom->n &&
            other->k == 8)
            return other;
    }
    return NULL;
}

const atom_mover *atom_find_mover(str word) {
    for (size_t i = 0; i < sizeof movers / sizeof *movers; i++) {
        if (str_is(word, movers[i].word)) return &movers[i];
    }
    return NULL;
}
