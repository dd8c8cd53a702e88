#include "layout/bitmatrix.h"

#include <assert.h>

static uint32_t low_bits(int count) {
    return count >= 32 ? ~0u : (1u << count) - 1;
}

bitmatrix bitmatrix_zero(int in_bits, int out_bits) {
    assert(in_bits >= 0 && in_bits <= BITMATRIX_BITS_MAX);
    assert(out_bits >= 0 && out_bits <= BITMATRIX_BITS_MAX);
    return (bitmatrix){.in_bits = in_bits, .out_bits = out_bits};
}

uint32_t bitmatrix_apply(const bitmatrix *map, uint32_t word) {
    uint32_t image = 0;
    for (int i = 0; i < map->in_bits; i++) {
        if (word >> i & 1) image ^= map->columns[i];
    }
    return image;
}

bitmatrix bitmatrix_inputs(const bitmatrix *map, int first, int count) {
    assert(first >= 0 && first + count <= map->in_bits);
    bitmatrix part = bitmatrix_zero(count, map->out_bits);
    for (int i = 0; i < count; i++) part.columns[i] = map->columns[first + i];
    return part;
}

bitmatrix bitmatrix_outputs(const bitmatrix *map, int first, int count) {
    assert(first >= 0 && first + count <= map->out_bits);
    bitmatrix part = bitmatrix_zero(map->in_bits, count);
    for (int i = 0; i < map->in_bits; i++) {
        part.columns[i] = map->columns[i] >> first & low_bits(count);
    }
    return part;
}

bitmatrix bitmatrix_stack(const bitmatrix *low, const bitmatrix *high) {
    assert(low->in_bits == high->in_bits);
    bitmatrix map = bitmatrix_zero(low->in_bits, low->out_bits + high->out_bits);
    for (int i = 0; i < low->in_bits; i++) {
        map.columns[i] = low->columns[i] | high->columns[i] << low->out_bits;
    }
    return map;
}

/* The column space in echelon form: 'image[p]' has its lowest set bit at p, and is the image of
 * 'word[p]'. Words whose image vanishes are the kernel.
 */
typedef struct echelon {
    uint32_t image[BITMATRIX_BITS_MAX], word[BITMATRIX_BITS_MAX];
    uint32_t pivots;
    uint32_t kernel[BITMATRIX_BITS_MAX];
    int kernel_size;
} echelon;

static int lowest_bit(uint32_t word) {
    return __builtin_ctz(word);
}

/* Takes the pivots out of *image; what was used is added to *word. */
static void reduce(const echelon *e, uint32_t *image, uint32_t *word) {
    for (uint32_t left = *image & e->pivots; left; left = *image & e->pivots) {
        int p = lowest_bit(left);
        *image ^= e->image[p];
        *word ^= e->word[p];
        /* image[p] starts at p, so bits below p stay as they are and the loop ends. */
    }
}

static echelon eliminate(const bitmatrix *map) {
    echelon e = {0};
    for (int i = 0; i < map->in_bits; i++) {
        uint32_t image = map->columns[i], word = 1u << i;
        reduce(&e, &image, &word);
        if (!image) {
            e.kernel[e.kernel_size++] = word;
            continue;
        }
        int p = lowest_bit(image);
        e.image[p] = image;
        e.word[p] = word;
        e.pivots |= 1u << p;
    }
    return e;
}

bool bitmatrix_solve(const bitmatrix *map, uint32_t image, uint32_t *word) {
    echelon e = eliminate(map);
    *word = 0;
    reduce(&e, &image, word);
    return image == 0;
}

int bitmatrix_kernel(const bitmatrix *map, uint32_t basis[BITMATRIX_BITS_MAX]) {
    echelon found = eliminate(map);
    bitmatrix columns = bitmatrix_zero(found.kernel_size, map->in_bits);
    for (int i = 0; i < found.kernel_size; i++) columns.columns[i] = found.kernel[i];
    echelon e = eliminate(&columns);
    int size = 0;
    for (int p = 0; p < map->in_bits; p++) {
        if (e.pivots >> p & 1) basis[size++] = e.image[p];
    }
    /* Clear each pivot from the vectors before it, so that the basis is the reduced one. */
    for (int i = 0; i < size; i++) {
        for (int j = 0; j < i; j++) {
            if (basis[j] >> lowest_bit(basis[i]) & 1) basis[j] ^= basis[i];
        }
    }
    return size;
}

int bitmatrix_terms(const bitmatrix *map, bitmatrix_term terms[BITMATRIX_TERMS_MAX]) {
    bitmatrix left = *map;
    int count = 0;
    /* A term is a diagonal run of ones: input bits from .. from+n-1 to output bits to .. to+n-1. */
    for (int i = 0; i < map->in_bits; i++) {
        while (left.columns[i]) {
            int to = lowest_bit(left.columns[i]), n = 0;
            while (i + n < map->in_bits && to + n < map->out_bits &&
                   (left.columns[i + n] >> (to + n) & 1)) {
                left.columns[i + n] ^= 1u << (to + n);
                n++;
            }
            if (count == BITMATRIX_TERMS_MAX) return -1;
            terms[count++] = (bitmatrix_term){.from = i, .to = to, .mask = low_bits(n)};
        }
    }
    return count;
}
