#include "emulate_support.h"

enum { COUNT = 300 };

static void launch(emulate_case *c, emulate_buffer buffers[2], emulate_pointer pointers[2],
                   float from[COUNT], float to[COUNT], uint8_t parameters[20]) {
    for (int i = 0; i < COUNT; i++) from[i] = (float)(i * i);
    buffers[0] =
        (emulate_buffer){.name = STR("from"), .data = from, .bytes = COUNT * 4, .readable = true};
    buffers[1] = (emulate_buffer){.name = STR("to"),
                                  .data = to,
                                  .bytes = COUNT * 4,
                                  .writable = true,
                                  .output = true,
                                  .whole = true,
                                  .once = true,
                                  .element_bytes = 4};
    pointers[0] = (emulate_pointer){0, 0, 0};
    pointers[1] = (emulate_pointer){8, 1, 0};
    int32_t count = COUNT;
    memset(parameters, 0, 20);
    memcpy(parameters + 16, &count, sizeof count);
    c->launch = (emulate_launch){.grid = {3, 1, 1},
                                 .block = {128, 1, 1},
                                 .parameters = parameters,
                                 .parameter_bytes = 20,
                                 .buffers = buffers,
                                 .buffer_count = 2,
                                 .pointers = pointers,
                                 .pointer_count = 2};
}

static void neighbours_meet(void **state) {
    (void)state;
    emulate_case c;
    emulate_buffer buffers[2];
    emulate_pointer pointers[2];
    float from[COUNT], to[COUNT];
    uint8_t parameters[20];
    case_open(&c, "share", "");
    launch(&c, buffers, pointers, from, to, parameters);
    case_run_clean(&c);
    for (int i = 0; i < COUNT; i++) {
        int next = i / 128 * 128 + (i + 1) % 128;
        assert_true(to[i] == from[i] + (next < COUNT ? from[next] : 0.0f));
    }
    assert_int_equal(c.result.blocks_run, 3);
    case_close(&c);
}

static void missing_barrier_is_named(void **state) {
    (void)state;
    emulate_case c;
    emulate_buffer buffers[2];
    emulate_pointer pointers[2];
    float from[COUNT], to[COUNT];
    uint8_t parameters[20];
    case_open(&c, "share", "-no-barrier");
    launch(&c, buffers, pointers, from, to, parameters);
    assert_int_equal(case_run(&c), EMULATE_FOUND);
    const emulate_finding *f = case_expect(&c, EMULATE_RACE_READ, "read", "write");
    assert_int_equal(f->warp, 0);
    assert_non_null(strstr(c.report.data, "numbers[byte"));
    assert_int_equal(c.result.blocks_run, 1);
    case_close(&c);
}

static void bounds_and_rights(void **state) {
    (void)state;
    emulate_case c;
    emulate_buffer buffers[2];
    emulate_pointer pointers[2];
    float from[COUNT], to[COUNT];
    uint8_t parameters[20];
    case_open(&c, "share", "");
    launch(&c, buffers, pointers, from, to, parameters);
    buffers[0].bytes = 40;
    assert_int_equal(case_run(&c), EMULATE_FOUND);
    const emulate_finding *f = case_expect(&c, EMULATE_GLOBAL_BOUNDS, "write", NULL);
    assert_int_equal(f->count, 118);
    assert_int_equal(f->lane, 10);
    buffers[0].bytes = COUNT * 4;
    buffers[0].readable = false;
    case_run(&c);
    case_expect(&c, EMULATE_GLOBAL_READ, "write", NULL);
    buffers[0].readable = true;
    c.launch.grid[0] = 2;
    case_run(&c);
    f = case_expect(&c, EMULATE_OUTPUT_UNWRITTEN, NULL, NULL);
    assert_non_null(strstr(c.report.data, "44 of 300 elements of to, the first is 256"));
    case_close(&c);
}

static void wrong_launches_are_refused(void **state) {
    (void)state;
    emulate_case c;
    emulate_buffer buffers[2];
    emulate_pointer pointers[2];
    float from[COUNT], to[COUNT];
    uint8_t parameters[20];
    case_open(&c, "share", "");
    launch(&c, buffers, pointers, from, to, parameters);
    c.launch.parameter_bytes = 19;
    assert_int_equal(case_run(&c), EMULATE_REFUSED);
    c.launch.parameter_bytes = 20;
    c.launch.block[0] = 2048;
    assert_int_equal(case_run(&c), EMULATE_REFUSED);
    c.launch.block[0] = 128;
    c.launch.entry = STR("other");
    assert_int_equal(case_run(&c), EMULATE_REFUSED);
    c.launch.entry = STR("share");
    pointers[1].buffer = 2;
    assert_int_equal(case_run(&c), EMULATE_REFUSED);
    pointers[1].buffer = 1;
    case_run_clean(&c);
    case_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neighbours_meet),
        cmocka_unit_test(missing_barrier_is_named),
        cmocka_unit_test(bounds_and_rights),
        cmocka_unit_test(wrong_launches_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
