/* What a file for CuTe has besides the kernel: its headers, and each shared tile as a CuTe layout,
 * with the proof that the kernel's own addresses are that layout's.
 */
#include "translate/emit.h"

void emit_cute_headers(text_buffer *out) {
    static const char *const headers[] = {"arch/copy_sm75.hpp", "arch/copy_sm80.hpp",
                                          "arch/mma_sm75.hpp",  "arch/mma_sm80.hpp",
                                          "layout.hpp",         "swizzle_layout.hpp"};
    text_add_z(out, "// CUTLASS's include folder must be on the compiler's path.\n");
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        text_format(out, "#include <cute/%s>\n", headers[i]);
    }
    text_add_z(out, "\n");
}

static int log2_of(int value) {
    int bits = 0;
    while (value >> bits > 1) bits++;
    return bits;
}

static bool is_power(int value) {
    return value > 0 && (value & (value - 1)) == 0;
}

/* The swizzle exchanges 16-byte units inside `swizzle_bytes` by bits of the line's number, which
 * CuTe finds in the offset: that needs lines that are powers of two long and no panels.
 */
static bool has_layout(const shared_layout *l) {
    return l->panels <= 1 && is_power(l->pitch_bytes) && is_power(shared_lines(l)) &&
           l->pitch_bytes == shared_line_bytes(l) && l->element_bits >= 8;
}

/* Offsets are linear over the bits of row and column, and so is the layout: agreeing on each bit
 * is agreeing everywhere.
 */
static void prove_axis(const emit_tile *tile, bool is_row, int count, text_buffer *out) {
    const shared_layout *l = &tile->store;
    for (int at = 1; at < count; at *= 2) {
        layout_point place = is_row ? (layout_point){at, 0} : (layout_point){0, at};
        text_format(out, "static_assert(%.*s_layout{}(%d, %d) == %d);\n", STR_ARGS(tile->name),
                    place.row, place.column, 8 * shared_offset(l, place) / l->element_bits);
    }
}

static void describe(const emit_tile *tile, text_buffer *out) {
    const shared_layout *l = &tile->store;
    text_format(out, "// %.*s: %d x %d elements of %d bytes, lines of %d bytes",
                STR_ARGS(tile->name), l->rows, l->columns, l->element_bits / 8, l->pitch_bytes);
    if (l->swizzle_bytes > SHARED_UNIT_BYTES) text_format(out, ", swizzled %d", l->swizzle_bytes);
    text_add_z(out, "\n");
}

static void emit_layout(const emit_tile *tile, text_buffer *out) {
    const shared_layout *l = &tile->store;
    describe(tile, out);
    if (!has_layout(l)) {
        text_add_z(out, "// (no CuTe layout: its lines are no power of two long)\n\n");
        return;
    }
    int line = 8 * l->pitch_bytes / l->element_bits;
    int bits = log2_of(l->swizzle_bytes / SHARED_UNIT_BYTES);
    int unit = log2_of(8 * SHARED_UNIT_BYTES / l->element_bits);
    /* Unit u of line r is at u xor (r >> (3 - bits)): the bits lie so far above the unit's. */
    int above = log2_of(line) + (3 - bits) - unit;
    text_format(out,
                "using %.*s_layout = decltype(cute::composition(cute::Swizzle<%d, %d, %d>{},\n",
                STR_ARGS(tile->name), bits, unit, above);
    text_format(out, "    cute::Layout<cute::Shape<cute::Int<%d>, cute::Int<%d>>, cute::Stride<",
                l->rows, l->columns);
    if (l->by_columns) text_format(out, "cute::_1, cute::Int<%d>", line);
    else text_format(out, "cute::Int<%d>, cute::_1", line);
    text_add_z(out, ">>{}));\n");
    prove_axis(tile, true, l->rows, out);
    prove_axis(tile, false, l->columns, out);
    text_add_z(out, "\n");
}

void emit_cute_layouts(emit *t, text_buffer *out) {
    for (int i = 0; i < t->tiles.count; i++) {
        const emit_tile *tile = t->tiles.items[i];
        bool is_stored = tile->space == TL_SHARED && !tile->is_vector;
        if (is_stored) emit_layout(tile, out);
    }
}
