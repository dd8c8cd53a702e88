/* Panels, and the descriptors of asynchronous products, against the manual's address arithmetic. */
#include "layout/descriptor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h> /* needs those */

static shared_layout panels_in(int rows, int columns, int bytes, int swizzle, bool by_columns) {
    shared_layout tile;
    layout_fit fit = shared_make_panels(rows, columns, 8 * bytes, swizzle, by_columns, &tile);
    assert_int_equal(fit.status, LAYOUT_OK);
    return tile;
}

static shared_layout panels_of(int rows, int columns, int swizzle, bool by_columns) {
    return panels_in(rows, columns, 2, swizzle, by_columns);
}

static void panels_are_a_bijection(void **state) {
    (void)state;
    static bool used[64 * 256];
    for (int swizzle = 32; swizzle <= 128; swizzle *= 2) {
        for (int columns = swizzle / 2; columns <= 256; columns += swizzle / 2) {
            shared_layout tile = panels_of(64, columns, swizzle, false);
            assert_int_equal(shared_bytes(&tile), 64 * columns * 2);
            memset(used, 0, sizeof used);
            for (int i = 0; i < 64 * columns; i++) {
                layout_point p = {i / columns, i % columns};
                int offset = shared_offset(&tile, p);
                assert_true(offset >= 0 && offset < shared_bytes(&tile) && !used[offset / 2]);
                used[offset / 2] = true;
            }
        }
    }
}

/* The last panel of 112, 72 or 40 columns is not full: its other bytes belong to no element. */
static void open_panels(void **state) {
    (void)state;
    static const struct {
        int columns, swizzle, panels, bytes;
    } tiles[] = {{112, 128, 2, 256}, {112, 64, 4, 256}, {72, 128, 2, 256},
                 {72, 32, 5, 160},   {40, 128, 1, 128}, {24, 64, 1, 64}};
    static bool used[64 * 128];
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
        int columns = tiles[i].columns;
        shared_layout tile = panels_of(64, columns, tiles[i].swizzle, false);
        assert_true(shared_is_open(&tile));
        assert_int_equal(tile.panels, tiles[i].panels);
        assert_int_equal(shared_bytes(&tile), 64 * tiles[i].bytes);
        memset(used, 0, sizeof used);
        for (int k = 0; k < 64 * columns; k++) {
            layout_point p = {k / columns, k % columns};
            int offset = shared_offset(&tile, p);
            assert_true(offset >= 0 && offset < shared_bytes(&tile) && !used[offset / 2]);
            used[offset / 2] = true;
        }
    }
    shared_layout full = panels_of(64, 128, 128, false);
    assert_false(shared_is_open(&full));
}

/* One panel is the tile with whole lines. */
static void one_panel_is_plain(void **state) {
    (void)state;
    shared_layout plain, panels = panels_of(40, 64, 128, false);
    assert_int_equal(shared_make(40, 64, 16, 128, false, 0, &plain).status, LAYOUT_OK);
    for (int i = 0; i < 40 * 64; i++) {
        layout_point p = {i / 64, i % 64};
        assert_int_equal(shared_offset(&plain, p), shared_offset(&panels, p));
    }
}

static void descriptors_agree(void **state) {
    (void)state;
    static const struct {
        int rows, columns, swizzle;
        bool by_columns;
    } tiles[] = {{128, 128, 128, false}, {64, 64, 128, false},  {128, 96, 64, false},
                 {96, 80, 32, false},    {80, 256, 128, false}, {256, 16, 32, false},
                 {128, 64, 128, true},   {64, 96, 64, true},    {128, 112, 128, false},
                 {96, 80, 128, false},   {96, 80, 64, false},   {144, 48, 128, false},
                 {192, 240, 128, false}, {112, 64, 128, true}};
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
        shared_layout tile =
            panels_of(tiles[i].rows, tiles[i].columns, tiles[i].swizzle, tiles[i].by_columns);
        for (int by_rows = 0; by_rows < 2; by_rows++) {
            descriptor d;
            assert_int_equal(descriptor_make(&tile, by_rows == 1, &d).status, LAYOUT_OK);
            assert_int_equal(d.transposed, (by_rows == 1) != tiles[i].by_columns);
            assert_true(descriptor_agrees(&d));
        }
    }
}

/* Of 8 bits a step is 32 elements, and the contracted axis is the contiguous one. */
static void descriptors_of_bytes(void **state) {
    (void)state;
    static const struct {
        int rows, columns, swizzle;
        bool by_columns;
    } tiles[] = {{128, 128, 128, false}, {64, 64, 64, false},    {128, 32, 32, false},
                 {8, 128, 128, false},   {256, 256, 128, false}, {128, 160, 128, false},
                 {96, 192, 64, false},   {128, 64, 128, true}};
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
        shared_layout tile =
            panels_in(tiles[i].rows, tiles[i].columns, 1, tiles[i].swizzle, tiles[i].by_columns);
        for (int by_rows = 0; by_rows < 2; by_rows++) {
            descriptor d;
            layout_fit fit = descriptor_make(&tile, by_rows == 1, &d);
            if ((by_rows == 1) != tiles[i].by_columns) {
                assert_int_equal(fit.status, LAYOUT_BAD_ORDER);
                continue;
            }
            assert_int_equal(fit.status, LAYOUT_OK);
            assert_int_equal(d.depth, 32);
            assert_true(descriptor_agrees(&d));
        }
    }
    shared_layout tile = panels_in(128, 48, 1, 128, false);
    descriptor d;
    assert_int_equal(descriptor_make(&tile, false, &d).status, LAYOUT_BAD_COLUMNS);
}

/* The numbers that stand in the manual's and every hand-written kernel for 128-byte swizzles. */
static void known_words(void **state) {
    (void)state;
    shared_layout tile = panels_of(128, 128, 128, false);
    descriptor d;
    assert_int_equal(descriptor_make(&tile, false, &d).status, LAYOUT_OK);
    assert_int_equal(d.high, 0x40000040);
    assert_int_equal(descriptor_low_step(&d, 0, 1), 2);
    assert_int_equal(descriptor_low_step(&d, 0, 4), 1024);
    assert_int_equal(descriptor_low_step(&d, 64, 0), 512);
    assert_int_equal(descriptor_make(&tile, true, &d).status, LAYOUT_OK);
    assert_int_equal(d.leading_bytes, 16384);
    assert_int_equal(descriptor_low_step(&d, 0, 1), 128);
}

static void what_does_not_fit(void **state) {
    (void)state;
    shared_layout tile;
    descriptor d;
    assert_int_equal(shared_make(64, 128, 16, 128, false, 0, &tile).status, LAYOUT_OK);
    assert_int_equal(descriptor_make(&tile, false, &d).status, LAYOUT_BAD_BYTES);
    tile = panels_of(64, 16, 32, false);
    tile.columns = 8;
    assert_int_equal(descriptor_make(&tile, false, &d).status, LAYOUT_BAD_COLUMNS);
    assert_int_not_equal(shared_make_panels(64, 68, 16, 128, false, &tile).status, LAYOUT_OK);
    assert_int_not_equal(shared_make_panels(64, 64, 16, 16, false, &tile).status, LAYOUT_OK);
    assert_int_not_equal(shared_make_panels(64, 64, 16, 256, false, &tile).status, LAYOUT_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(panels_are_a_bijection),
        cmocka_unit_test(one_panel_is_plain),
        cmocka_unit_test(open_panels),
        cmocka_unit_test(descriptors_agree),
        cmocka_unit_test(descriptors_of_bytes),
        cmocka_unit_test(known_words),
        cmocka_unit_test(what_does_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
