#include "verify/buffer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

convert_format buffer_format(ftl_type type) {
    switch (type) {
#define TYPE(id, spelling, number, bits, kind, doc)                                                \
    case FTL_##id:                                                                                 \
        return CONVERT_##id;
#include "base/types.def"
#undef TYPE
    }
    return CONVERT_F32;
}

double buffer_spread(ftl_type type) {
    convert_format format = buffer_format(type);
    bool is_code = convert_is_whole(format) && convert_bits(format) <= 8;
    return is_code ? (convert_most(format) + 1) / 4 : 1;
}

/* --- layout ----------------------------------------------------------------------------------- */

/* Axes from the innermost in memory to the outermost. */
static void storage_order(const ftl_plan_tensor *of, verify_layout layout,
                          int order[FTL_AXES_MAX]) {
    int count = of->axis_count;
    for (int i = 0; i < count; i++) order[i] = count - 1 - i;
    if (layout != VERIFY_TURNED && layout != VERIFY_TURNED_PADDED) return;
    int inner = of->axes[count - 1].stride_offset < 0 ? 1 : 0; /* is the last axis' stride fixed? */
    if (inner + 1 >= count) return;
    int swap = order[inner];
    order[inner] = order[inner + 1];
    order[inner + 1] = swap;
}

/* Returns how many elements are between the first and the last, both included. */
static int64_t lay_out(const ftl_plan_tensor *of, verify_layout layout, ftl_tensor *t) {
    int order[FTL_AXES_MAX];
    int64_t bits = (int64_t)ftl_type_bits(of->type), alignment = of->alignment_bytes;
    int64_t unit = 8 * alignment > bits && alignment > 1 ? 8 * alignment / bits : 1;
    int64_t next = 1, span = 1;
    bool is_padded = layout == VERIFY_PADDED || layout == VERIFY_TURNED_PADDED;
    storage_order(of, layout, order);
    for (int i = 0; i < of->axis_count; i++) {
        int axis = order[i];
        bool is_fixed = of->axes[axis].stride_offset < 0;
        if (!is_fixed && (i > 0 || is_padded)) {
            next = (next + unit - 1) / unit * unit;
            /* rows apart by a unit, matrices by some rows */
            if (is_padded) next += i < 2 ? unit : 3 * t->strides[order[i - 1]];
        }
        t->strides[axis] = next;
        int64_t extent = t->extents[axis] > 0 ? t->extents[axis] : 1;
        span += (extent - 1) * next;
        next *= extent;
    }
    /* The only index on an axis is 0, whatever its stride is: this one leads out of the tensor. */
    for (int i = 0; i < of->axis_count; i++) {
        bool is_free = of->axes[i].stride_offset >= 0 && t->extents[i] <= 1;
        if (is_free) t->strides[i] = (span + unit - 1) / unit * unit;
    }
    return span;
}

void buffer_new(arena *memory, const ftl_plan_tensor *of, const int64_t *extents,
                verify_layout layout, buffer *out) {
    *out = (buffer){.of = of, .format = buffer_format(of->type), .rows = 1, .columns = 1};
    ftl_tensor *t = &out->argument;
    t->name = of->name, t->type = of->type, t->axis_count = of->axis_count;
    for (int i = 0; i < of->axis_count; i++) {
        t->extents[i] = extents[i];
        if (i + 1 < of->axis_count) out->rows *= extents[i];
        else out->columns = extents[i];
    }
    if (out->columns == 0) out->rows = 0;
    int64_t span = lay_out(of, layout, t);
    size_t alignment = of->alignment_bytes > 2 ? (size_t)of->alignment_bytes : 2;
    size_t inside = convert_size(out->format, (size_t)span);
    /* aligned as demanded and no better; an even number of bytes, for the poison */
    size_t before = VERIFY_GUARD_BYTES + alignment;
    out->bytes = (before + inside + VERIFY_GUARD_BYTES + 63) / 64 * 64;
    out->memory = arena_alloc(memory, out->bytes, 64);
    out->elements = out->memory + before;
    t->address = (uint64_t)(uintptr_t)out->elements;
    buffer_poison(out, BUFFER_POISON);
}

/* --- elements --------------------------------------------------------------------------------- */

void buffer_row_index(const buffer *b, int64_t row, int64_t index[FTL_AXES_MAX]) {
    for (int i = b->argument.axis_count - 2; i >= 0; i--) {
        index[i] = row % b->argument.extents[i];
        row /= b->argument.extents[i];
    }
}

static int64_t row_offset(const buffer *b, int64_t row) { /* elements */
    int64_t index[FTL_AXES_MAX], offset = 0;
    buffer_row_index(b, row, index);
    for (int i = 0; i + 1 < b->argument.axis_count; i++)
        offset += index[i] * b->argument.strides[i];
    return offset;
}

/* Of what is written: elements of whole bytes. */
static unsigned char *row_address(const buffer *b, int64_t row) {
    return b->elements + row_offset(b, row) * (int64_t)convert_size(b->format, 1);
}

/* What is only added to begins at 0: sums with poison would tell nothing. */
static void clear_elements(buffer *b) {
    int last = b->argument.axis_count - 1;
    int64_t stride = last >= 0 ? b->argument.strides[last] : 1;
    size_t bytes = convert_size(b->format, 1);
    for (int64_t row = 0; row < b->rows; row++)
        for (int64_t column = 0; column < b->columns; column++)
            memset(row_address(b, row) + column * stride * (int64_t)bytes, 0, bytes);
}

void buffer_poison(buffer *b, int poison) {
    uint16_t word = (uint16_t)poison;
    for (size_t i = 0; i < b->bytes; i += 2) memcpy(b->memory + i, &word, 2);
    if (b->of->is_sum) clear_elements(b);
}

static int64_t column_stride(const buffer *b) {
    return b->argument.axis_count ? b->argument.strides[b->argument.axis_count - 1] : 1;
}

void buffer_load_row(const buffer *b, int64_t row, double *values) {
    convert_load(b->format, b->elements, row_offset(b, row), (ptrdiff_t)column_stride(b),
                 (size_t)b->columns, values);
}

void buffer_store_row(buffer *b, int64_t row, const double *values) {
    convert_store(b->format, values, (size_t)b->columns, b->elements, row_offset(b, row),
                  (ptrdiff_t)column_stride(b));
}

double *buffer_load(const buffer *b, arena *memory) {
    double *values = arena_array(memory, double, b->rows * b->columns + 1);
    for (int64_t row = 0; row < b->rows; row++) buffer_load_row(b, row, values + row * b->columns);
    return values;
}

/* The byte that poison has at 'position' of the buffer's memory. */
static unsigned char poison_at(int poison, size_t position) {
    uint16_t word = (uint16_t)poison;
    unsigned char half[2];
    memcpy(half, &word, 2);
    return half[position % 2];
}

unsigned char *buffer_copy(const buffer *b, int poison, arena *memory, uint8_t *unwritten) {
    size_t bytes = convert_size(b->format, 1);
    unsigned char *copy = arena_alloc(memory, (size_t)(b->rows * b->columns) * bytes + 1, 8),
                  *to = copy;
    int64_t step = column_stride(b) * (int64_t)bytes;
    for (int64_t row = 0; row < b->rows; row++) {
        const unsigned char *from = row_address(b, row);
        for (int64_t c = 0; c < b->columns; c++, to += bytes) {
            memcpy(to, from + c * step, bytes);
            size_t position = (size_t)(from + c * step - b->memory), k = 0;
            while (k < bytes && to[k] == poison_at(poison, position + k)) k++;
            unwritten[row * b->columns + c] = k == bytes;
        }
    }
    return copy;
}

/* --- memory beside the elements --------------------------------------------------------------- */

static void poison_elements(buffer *b, int poison) {
    size_t bytes = convert_size(b->format, 1);
    int64_t step = column_stride(b) * (int64_t)bytes;
    for (int64_t row = 0; row < b->rows; row++) {
        unsigned char *at = row_address(b, row);
        for (int64_t c = 0; c < b->columns; c++) {
            for (size_t k = 0; k < bytes; k++) {
                size_t position = (size_t)(at + c * step - b->memory) + k;
                b->memory[position] = poison_at(poison, position);
            }
        }
    }
}

bool buffer_is_intact(buffer *b, int poison, char why[FTL_WHY_BYTES]) {
    poison_elements(b, poison);
    size_t first = b->bytes, count = 0;
    for (size_t i = 0; i < b->bytes; i++) {
        if (b->memory[i] == poison_at(poison, i)) continue;
        if (first == b->bytes) first = i;
        count++;
    }
    if (!count) return true;
    ptrdiff_t at = b->memory + first - b->elements;
    int64_t span = 1;
    for (int i = 0; i < b->argument.axis_count; i++) {
        if (b->argument.extents[i] > 0)
            span += (b->argument.extents[i] - 1) * b->argument.strides[i];
    }
    int64_t inside = span * (int64_t)convert_size(b->format, 1);
    if (at < 0) {
        snprintf(why, FTL_WHY_BYTES,
                 "%zu bytes outside of '%s' were written, first %td bytes before it", count,
                 b->of->name, -at);
    } else if (at >= inside) {
        snprintf(why, FTL_WHY_BYTES,
                 "%zu bytes outside of '%s' were written, first %" PRId64 " bytes past its end",
                 count, b->of->name, at - inside);
    } else {
        snprintf(why, FTL_WHY_BYTES,
                 "%zu bytes between the rows of '%s' were written, first at "
                 "element offset %" PRId64,
                 count, b->of->name, at / (int64_t)convert_size(b->format, 1));
    }
    return false;
}

hash128 buffer_hash(const buffer *b) {
    return hash_bytes((str){(const char *)b->memory, b->bytes});
}
