#include "layout/bitmatrix.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h> /* needs those */

/* All maps of up to 3 x 3 bits, and their facts by trying every word. */
static bitmatrix map_number(int in_bits, int out_bits, uint32_t number) {
    bitmatrix map = bitmatrix_zero(in_bits, out_bits);
    for (int i = 0; i < in_bits; i++) {
        map.columns[i] = number >> (i * out_bits) & ((1u << out_bits) - 1);
    }
    return map;
}

static int count_images(const bitmatrix *map) {
    bool seen[64] = {false};
    int count = 0;
    for (uint32_t word = 0; word < 1u << map->in_bits; word++) {
        uint32_t image = bitmatrix_apply(map, word);
        count += !seen[image];
        seen[image] = true;
    }
    return count;
}

static void check_kernel(const bitmatrix *map) {
    uint32_t basis[BITMATRIX_BITS_MAX];
    int size = bitmatrix_kernel(map, basis);
    assert_int_equal(count_images(map) << size, 1 << map->in_bits);
    bitmatrix span = bitmatrix_zero(size, map->in_bits);
    for (int i = 0; i < size; i++) {
        assert_int_equal(bitmatrix_apply(map, basis[i]), 0);
        span.columns[i] = basis[i];
    }
    assert_int_equal(count_images(&span), 1 << size);
}

static void check_terms(const bitmatrix *map) {
    bitmatrix_term terms[BITMATRIX_TERMS_MAX];
    int count = bitmatrix_terms(map, terms);
    assert_true(count >= 0);
    for (uint32_t word = 0; word < 1u << map->in_bits; word++) {
        uint32_t image = 0;
        for (int i = 0; i < count; i++) {
            image ^= (word >> terms[i].from & terms[i].mask) << terms[i].to;
        }
        assert_int_equal(image, bitmatrix_apply(map, word));
    }
}

static void every_small_map(void **state) {
    (void)state;
    for (int in_bits = 0; in_bits <= 4; in_bits++) {
        for (int out_bits = 0; out_bits <= 3; out_bits++) {
            for (uint32_t number = 0; number < 1u << (in_bits * out_bits); number++) {
                bitmatrix map = map_number(in_bits, out_bits, number);
                check_kernel(&map);
                check_terms(&map);
            }
        }
    }
}

static void solving_finds_what_can_be_found(void **state) {
    (void)state;
    for (uint32_t number = 0; number < 1u << 12; number++) {
        bitmatrix map = map_number(4, 3, number);
        bool reachable[8] = {false};
        for (uint32_t word = 0; word < 16; word++) reachable[bitmatrix_apply(&map, word)] = true;
        for (uint32_t image = 0; image < 8; image++) {
            uint32_t word;
            assert_int_equal(bitmatrix_solve(&map, image, &word), reachable[image]);
            if (reachable[image]) assert_int_equal(bitmatrix_apply(&map, word), image);
        }
    }
}

static void parts_and_stacks(void **state) {
    (void)state;
    bitmatrix map = map_number(4, 3, 0xabc);
    bitmatrix low = bitmatrix_outputs(&map, 0, 1), high = bitmatrix_outputs(&map, 1, 2);
    bitmatrix again = bitmatrix_stack(&low, &high);
    assert_memory_equal(&map, &again, sizeof map);
    bitmatrix part = bitmatrix_inputs(&map, 1, 2);
    for (uint32_t word = 0; word < 4; word++) {
        assert_int_equal(bitmatrix_apply(&part, word), bitmatrix_apply(&map, word << 1));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_small_map),
        cmocka_unit_test(solving_finds_what_can_be_found),
        cmocka_unit_test(parts_and_stacks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
