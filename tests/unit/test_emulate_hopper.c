/* tests/exec/emulate/hopper.cu: a kernel of tensor copies, wgmma and warp roles. It must be exact;
 * and a wait, fence, release or count that is taken away must be found and named.
 */
#include "emulate_support.h"

enum { WIDTH = 64, MOST_ROWS = 300, MOST_HEADS = 2, NUMBERS = MOST_ROWS * MOST_HEADS * WIDTH };

typedef struct problem {
    emulate_case c;
    int q_rows, kv_rows, heads;
    uint16_t q[NUMBERS], k[NUMBERS], v[NUMBERS], o[NUMBERS];
    int32_t counter;
    _Alignas(64) uint8_t parameters[4 * EMULATE_TENSOR_MAP_BYTES + 24];
    emulate_buffer buffers[5];
    emulate_pointer pointer;
    emulate_tile tiles[5];
} problem;

/* -1, 0 or 1 as f16. */
static void fill(uint16_t *numbers, uint32_t seed) {
    static const uint16_t three[] = {0, 0x3c00, 0xbc00};
    for (int i = 0; i < NUMBERS; i++) {
        seed = seed * 1664525u + 1013904223u;
        numbers[i] = three[(seed >> 16) % 3];
    }
}

static int small(uint16_t bits) {
    return bits == 0x3c00 ? 1 : bits == 0xbc00 ? -1 : 0;
}

/* f16 of a whole number below 2048. */
static uint16_t half_of(int x) {
    uint32_t size = (uint32_t)(x < 0 ? -x : x), exponent = 0;
    if (!x) return 0;
    while (size >> (exponent + 1)) exponent++;
    uint32_t mantissa = (size << (10 - exponent)) & 0x3ffu;
    return (uint16_t)((x < 0 ? 0x8000u : 0u) | (exponent + 15) << 10 | mantissa);
}

static void put_map(problem *p, int place, int rows) {
    uint32_t heads = (uint32_t)p->heads;
    emulate_tensor_map map = {.buffer = place,
                              .element_bytes = 2,
                              .rank = 3,
                              .extents = {WIDTH, (uint64_t)rows, heads},
                              .stride_bytes = {heads * WIDTH * 2, WIDTH * 2},
                              .box = {WIDTH, 64, 1},
                              .element_strides = {1, 1, 1},
                              .swizzle_bytes = 128};
    const char *broken =
        emulate_tensor_map_encode(&map, p->parameters + place * EMULATE_TENSOR_MAP_BYTES);
    if (broken) fail_msg("%s", broken);
}

static void open_problem(problem *p, int q_rows, int kv_rows, int heads) {
    memset(p, 0, sizeof *p);
    case_open(&p->c, "hopper", "");
    p->q_rows = q_rows, p->kv_rows = kv_rows, p->heads = heads;
    fill(p->q, 1), fill(p->k, 2), fill(p->v, 3);
    memset(p->o, 0xff, sizeof p->o);
    put_map(p, 0, q_rows), put_map(p, 1, kv_rows), put_map(p, 2, kv_rows), put_map(p, 3, q_rows);
    int32_t q_tiles = (q_rows + 127) / 128, tiles = q_tiles * heads, blocks = (kv_rows + 63) / 64;
    int32_t numbers[3] = {q_tiles, tiles, blocks};
    memcpy(p->parameters + 4 * EMULATE_TENSOR_MAP_BYTES + 8, numbers, sizeof numbers);
    uint16_t *const data[] = {p->q, p->k, p->v, p->o};
    static const char *const names[] = {"Q", "K", "V", "O"};
    for (int i = 0; i < 4; i++) {
        int rows = i == 0 || i == 3 ? q_rows : kv_rows;
        p->buffers[i] = (emulate_buffer){.name = str_from(names[i]),
                                         .data = data[i],
                                         .bytes = (size_t)rows * (size_t)heads * WIDTH * 2,
                                         .readable = i < 3};
    }
    p->buffers[3].writable = p->buffers[3].output = true;
    p->buffers[3].whole = p->buffers[3].once = true;
    p->buffers[3].element_bytes = 2;
    p->buffers[4] = (emulate_buffer){.name = STR("counter"),
                                     .data = &p->counter,
                                     .bytes = 4,
                                     .readable = true,
                                     .writable = true};
    p->pointer = (emulate_pointer){4 * EMULATE_TENSOR_MAP_BYTES, 4, 0};
    p->tiles[0] = (emulate_tile){STR("Q"), 0, 128, 128, 1, 16384};
    p->tiles[1] = (emulate_tile){STR("K"), 16384, 64, 128, 2, 8192};
    p->tiles[2] = (emulate_tile){STR("V"), 32768, 64, 128, 2, 8192};
    p->tiles[3] = (emulate_tile){STR("O"), 49152, 128, 128, 1, 16384};
    p->tiles[4] = (emulate_tile){STR("barriers"), 65536, 10, 8, 1, 80};
    p->c.launch = (emulate_launch){.grid = {2, 1, 1},
                                   .block = {384, 1, 1},
                                   .dynamic_shared_bytes = 66000,
                                   .parameters = p->parameters,
                                   .parameter_bytes = 4 * EMULATE_TENSOR_MAP_BYTES + 20,
                                   .buffers = p->buffers,
                                   .buffer_count = 5,
                                   .pointers = &p->pointer,
                                   .pointer_count = 1,
                                   .tiles = p->tiles,
                                   .tile_count = 5,
                                   .instruction_budget = 1000000};
}

static const uint16_t *row_of(const problem *p, const uint16_t *numbers, int row, int head) {
    return numbers + (row * p->heads + head) * WIDTH;
}

static void check_output(const problem *p) {
    for (int head = 0; head < p->heads; head++)
        for (int row = 0; row < p->q_rows; row++) {
            int sums[WIDTH] = {0};
            const uint16_t *q = row_of(p, p->q, row, head), *o = row_of(p, p->o, row, head);
            for (int j = 0; j < p->kv_rows; j++) {
                const uint16_t *k = row_of(p, p->k, j, head), *v = row_of(p, p->v, j, head);
                int score = 0;
                for (int e = 0; e < WIDTH; e++) score += small(q[e]) * small(k[e]);
                for (int e = 0; e < WIDTH; e++) sums[e] += score * small(v[e]);
            }
            for (int e = 0; e < WIDTH; e++)
                if (o[e] != half_of(sums[e]))
                    fail_msg("row %d, head %d, column %d: 0x%x, not %d", row, head, e, o[e],
                             sums[e]);
        }
}

static void exact_in_all_sizes(void **state) {
    (void)state;
    static const int sizes[][3] = {{1, 1, 1},     {128, 64, 1}, {129, 65, 2},
                                   {300, 200, 1}, {64, 300, 2}, {127, 1, 2}};
    static problem p;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint64_t seed = 0; seed < 3; seed++) {
            open_problem(&p, sizes[i][0], sizes[i][1], sizes[i][2]);
            p.c.launch.seed = seed * 77;
            p.c.launch.plain = seed == 2;
            case_run_clean(&p.c);
            check_output(&p);
            case_close(&p.c);
        }
}

/* --- planted bugs ----------------------------------------------------------------------------- */

/* Lines of the PTX with the mark (NULL: all): without 'from' they go, else 'to' stands for it
 * there. */
static void plant(problem *p, const char *mark, const char *from, const char *to) {
    char wanted[64];
    if (mark) snprintf(wanted, sizeof wanted, "// @%s\n", mark);
    else snprintf(wanted, sizeof wanted, "\n");
    text_buffer changed;
    text_init(&changed, 64u << 20);
    int hits = 0;
    for (char *at = p->c.ptx.data, *end; *at; at = end) {
        end = strchr(at, '\n');
        end = end ? end + 1 : at + strlen(at);
        str line = {at, (size_t)(end - at)};
        bool marked = line.length >= strlen(wanted) &&
                      memcmp(end - strlen(wanted), wanted, strlen(wanted)) == 0;
        const char *c = marked ? at : end;
        while (from && c < end && strncmp(c, from, strlen(from)) != 0) c++;
        bool is_kept = !marked || (!mark && c == end);
        hits += !is_kept;
        if (is_kept) text_add(&changed, line);
        if (is_kept || c == end || !from) continue;
        text_add(&changed, (str){at, (size_t)(c - at)});
        text_add(&changed, str_from(to));
        text_add(&changed, (str){c + strlen(from), (size_t)(end - c) - strlen(from)});
    }
    if (!hits) fail_msg("no line of the PTX has the mark %s", mark ? mark : from);
    diag_list diagnostics;
    str text = str_format(&p->c.memory, "%.*s", STR_ARGS(text_str(&changed)));
    text_done(&changed);
    diag_init(&diagnostics, &p->c.memory, STR("hopper.ptx"), text);
    p->c.module = emulate_read(&p->c.memory, text, &diagnostics);
    if (p->c.module) return;
    diag_render_text(&diagnostics, false, &p->c.report);
    fail_msg("%s: %s", mark ? mark : from, p->c.report.data);
}

typedef struct planted {
    const char *mark, *from, *to;
    emulate_kind kind;
    const char *words[3]; /* in the report */
} planted;

static void check_planted(const planted *bug, uint64_t seed) {
    static problem p;
    open_problem(&p, 256, 200, 1);
    plant(&p, bug->mark, bug->from, bug->to);
    p.c.launch.seed = seed;
    case_run(&p.c);
    bool found = false;
    for (int i = 0; i < p.c.result.finding_count; i++)
        found |= p.c.result.findings[i].kind == bug->kind;
    const char *report = p.c.report.data ? p.c.report.data : "";
    for (int i = 0; i < 3 && bug->words[i]; i++) found &= strstr(report, bug->words[i]) != NULL;
    if (!found)
        fail_msg("%s: no %s with \"%s\", \"%s\" in:\n%s", bug->mark, emulate_kind_name(bug->kind),
                 bug->words[0], bug->words[1] ? bug->words[1] : "", report);
    case_close(&p.c);
}

static const planted bugs[] = {
    {"k_full",
     NULL,
     NULL,
     EMULATE_FLIGHT_READ,
     {"wgmma.mma_async by warp", "reads K stage", "in load, inlined there"}},
    {"v_full", NULL, NULL, EMULATE_FLIGHT_READ, {"reads V stage", "the copy was issued by warp 0"}},
    {"q_full",
     NULL,
     NULL,
     EMULATE_RACE_READ,
     {"reads Q[row", "written by a bulk copy that the mbarrier at barriers[row 0", "ld.shared by"}},
    {"q_sync", NULL, NULL, EMULATE_RACE_OVERREAD, {"st.shared by warp 0 lane 0 overwrites"}},
    {"k_empty", NULL, NULL, EMULATE_BARRIER_USE, {"more arrivals in a phase than its count"}},
    {"k_release",
     NULL,
     NULL,
     EMULATE_DEADLOCK,
     {"warp 0 lanes 0x00000001 at mbarrier.try_wait.parity", "the mbarrier at barriers[row 4",
      "8 of 8 arrivals missing"}},
    {"k_count", ", 8;", ", 6;", EMULATE_DEADLOCK, {"of 6 arrivals missing"}},
    {"k_count", ", 8;", ", 9;", EMULATE_DEADLOCK, {"1 of 9 arrivals missing"}},
    {"k_expect",
     "mbarrier.arrive.expect_tx.shared::cta.b64 _,",
     "mbarrier.expect_tx.relaxed.cta.shared::cta.b64",
     EMULATE_DEADLOCK,
     {"1 of 1 arrivals missing"}},
    {"q_load_second", NULL, NULL, EMULATE_DEADLOCK, {"8192 bytes missing"}},
    {"wait_s", NULL, NULL, EMULATE_WGMMA_REGISTER, {"cvt by warp", "reads a sum"}},
    {"wait_s", "1;", "2;", EMULATE_WGMMA_REGISTER, {"reads a sum", "its wait is missing"}},
    {"wait_o", NULL, NULL, EMULATE_RACE_OVERREAD, {"overwrites V stage", "read by wgmma"}},
    {"commit_s", NULL, NULL, EMULATE_WGMMA_REGISTER, {"reads a sum"}},
    {"fence", NULL, NULL, EMULATE_WGMMA_FENCE, {"takes a sum", "accessed here"}},
    {"o_proxy",
     NULL,
     NULL,
     EMULATE_PROXY,
     {"cp.async.bulk.tensor by warp", "lane 0 reads O[row", "written by warp"}},
    {"o_written",
     NULL,
     NULL,
     EMULATE_RACE_READ,
     {"cp.async.bulk.tensor by warp", "lane 0 reads O[row"}},
    {"o_read", NULL, NULL, EMULATE_RACE_OVERREAD, {"stmatrix by warp", "read by a bulk copy"}},
    {"o_commit", NULL, NULL, EMULATE_RACE_OVERREAD, {"stmatrix by warp", "read by a bulk copy"}},
    {"o_free", NULL, NULL, EMULATE_RACE_OVERREAD, {"stmatrix by warp", "read by a bulk copy"}},
    {"init_fence",
     NULL,
     NULL,
     EMULATE_PROXY,
     {"counts at the mbarrier at barriers", "no fence.mbarrier_init after it"}},
    {"init_sync", NULL, NULL, EMULATE_BARRIER_USE, {"initialis"}},
    {"dec", "40;", "48;", EMULATE_DEADLOCK, {"waits for registers that no warp gives back"}},
    {"dec", "dec", "inc", EMULATE_REGISTERS, {"inc to fewer registers"}},
    {"inc", "232;", "160;", EMULATE_REGISTERS, {"inc to fewer registers"}},
    {"tile_store", NULL, NULL, EMULATE_UNINITIALISED, {"ld.shared by warp"}},
};

static void planted_bugs_are_named(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof bugs / sizeof *bugs; i++)
        for (uint64_t seed = 0; seed < 2; seed++) check_planted(&bugs[i], seed * 1234567);
}

/* Each bit of a matrix descriptor: the reserved ones are refused by name, one by one. */
static void reserved_bits_are_refused(void **state) {
    (void)state;
    static const unsigned long long descriptor = 4611686293305360384;
    static const int reserved[][2] = {{14, 15}, {30, 31}, {46, 48}, {52, 61}};
    static problem p;
    for (int bit = 0; bit < 64; bit++) {
        bool is_reserved = false;
        for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
            is_reserved |= bit >= reserved[i][0] && bit <= reserved[i][1];
        char whole[32], changed[32];
        snprintf(whole, sizeof whole, "%llu", descriptor);
        snprintf(changed, sizeof changed, "%llu", descriptor ^ 1ull << bit);
        open_problem(&p, 128, 64, 1);
        plant(&p, NULL, whole, changed);
        case_run(&p.c);
        const char *report = p.c.report.data ? p.c.report.data : "";
        bool is_refused = strstr(report, "descriptor has bits set that are reserved") != NULL;
        if (is_refused != is_reserved) fail_msg("bit %d: %s", bit, report);
        case_close(&p.c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_in_all_sizes),
        cmocka_unit_test(planted_bugs_are_named),
        cmocka_unit_test(reserved_bits_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
