#include "cli/npy.h"

#include "base/convert.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
} types[] = {
    [NPY_F2] = {"f2", 2}, [NPY_F4] = {"f4", 4}, [NPY_F8] = {"f8", 8},
    [NPY_I1] = {"i1", 1}, [NPY_I4] = {"i4", 4}, [NPY_I8] = {"i8", 8},
    [NPY_U1] = {"u1", 1}, [NPY_U2] = {"u2", 2}, [NPY_B1] = {"b1", 1},
};
enum { TYPE_COUNT = sizeof types / sizeof *types };
static const size_t FILE_BYTES_MAX = (size_t)1 << 34;

size_t npy_type_bytes(npy_type type) {
    return types[type].bytes;
}

static bool fail(os_error *why, const char *path, const char *what) {
    snprintf(why->text, sizeof why->text, "'%s' %s", path, what);
    return false;
}

/* --- the header ------------------------------------------------------------------------------- */

/* A Python literal: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } */

/* What is after a key; empty when the key is missing. */
static str value_of(str header, const char *key) {
    char quoted[32];
    snprintf(quoted, sizeof quoted, "'%s':", key);
    str wanted = str_from(quoted);
    for (size_t i = 0; i + wanted.length <= header.length; i++) {
        if (memcmp(header.data + i, quoted, wanted.length) != 0) continue;
        size_t begin = i + wanted.length;
        return str_trim((str){header.data + begin, header.length - begin});
    }
    return STR("");
}

static bool read_type(str header, npy_type *type) {
    str value = value_of(header, "descr");
    if (value.length < 5 || value.data[0] != '\'' || value.data[4] != '\'') return false;
    bool is_little = value.data[1] == '<' || value.data[1] == '=';
    bool is_byte = value.data[1] == '|'; /* which has no order */
    for (int i = 0; i < TYPE_COUNT; i++) {
        if (!(types[i].bytes == 1 ? is_byte : is_little)) continue;
        if (memcmp(value.data + 2, types[i].name, 2) != 0) continue;
        *type = (npy_type)i;
        return true;
    }
    return false;
}

static bool read_shape(str header, npy_array *out) {
    str value = value_of(header, "shape");
    if (!value.length || value.data[0] != '(' || !memchr(value.data, ')', value.length))
        return false;
    value.data++, value.length--;
    str rest = str_cut(&value, ')');
    while (str_trim(rest).length) {
        int64_t extent;
        if (out->axis_count == FTL_AXES_MAX) return false;
        if (!str_to_integer(str_trim(str_cut(&rest, ',')), &extent) || extent < 0) return false;
        out->extents[out->axis_count++] = extent;
    }
    return true;
}

static bool set_strides(npy_array *out, bool is_fortran) {
    int64_t stride = 1;
    for (int32_t i = 0; i < out->axis_count; i++) {
        int32_t axis = is_fortran ? i : out->axis_count - 1 - i;
        out->strides[axis] = stride;
        int64_t extent = out->extents[axis] ? out->extents[axis] : 1;
        if (__builtin_mul_overflow(stride, extent, &stride)) return false;
    }
    out->count = 1;
    for (int32_t i = 0; i < out->axis_count; i++) out->count *= out->extents[i];
    return true;
}

static bool read_array(const char *path, npy_array *out, os_error *why) {
    const unsigned char *bytes = (const unsigned char *)out->file.data;
    size_t length = out->file.length;
    if (length < 10 || memcmp(bytes, "\x93NUMPY", 6) != 0)
        return fail(why, path, "is no .npy file");
    bool is_first = bytes[6] == 1;
    if (bytes[6] < 1 || bytes[6] > 3) return fail(why, path, "has an unknown version");
    size_t start = is_first ? 10 : 12;
    if (length < start) return fail(why, path, "is cut off");
    size_t header_bytes = bytes[8] | (size_t)bytes[9] << 8;
    if (!is_first) header_bytes |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    if (header_bytes > length - start) return fail(why, path, "is cut off");
    str header = {out->file.data + start, header_bytes};
    if (!read_type(header, &out->type)) {
        return fail(why, path,
                    "must hold little-endian f2, f4, f8, i1, i4, i8, u1, b1 or u2 (bits of bf16)");
    }
    if (!read_shape(header, out)) return fail(why, path, "has no readable shape of up to 8 axes");
    str order = value_of(header, "fortran_order");
    if (!set_strides(out, str_starts(order, STR("True")))) return fail(why, path, "is too large");
    size_t data_bytes = length - start - header_bytes;
    int64_t needed;
    bool fits = !__builtin_mul_overflow(out->count, (int64_t)types[out->type].bytes, &needed) &&
                (uint64_t)needed <= data_bytes;
    if (!fits) return fail(why, path, "holds fewer elements than its shape says");
    out->data = bytes + start + header_bytes;
    return true;
}

bool npy_read(const char *path, npy_array *out, bool *is_there, os_error *why) {
    *out = (npy_array){0};
    text_init(&out->file, FILE_BYTES_MAX);
    *is_there = os_read_file(path, FILE_BYTES_MAX - 1, &out->file, why);
    if (*is_there && read_array(path, out, why)) return true;
    npy_done(out);
    return false;
}

void npy_done(npy_array *array) {
    text_done(&array->file);
    *array = (npy_array){0};
}

/* --- elements --------------------------------------------------------------------------------- */

double npy_element(const npy_array *array, int64_t offset) {
    const unsigned char *at = array->data + offset * (int64_t)types[array->type].bytes;
    uint16_t half;
    float single;
    double real;
    int32_t integer;
    int64_t wide;
    switch (array->type) {
    case NPY_F2: memcpy(&half, at, 2); return convert_from_bits(CONVERT_F16, half);
    case NPY_U2: memcpy(&half, at, 2); return convert_from_bits(CONVERT_BF16, half);
    case NPY_F4: memcpy(&single, at, 4); return (double)single;
    case NPY_F8: memcpy(&real, at, 8); return real;
    case NPY_I1: return (double)(int8_t)*at;
    case NPY_U1:
    case NPY_B1: return (double)*at;
    case NPY_I4: memcpy(&integer, at, 4); return integer;
    case NPY_I8: memcpy(&wide, at, 8); return (double)wide;
    }
    return 0;
}

/* --- writing ---------------------------------------------------------------------------------- */

bool npy_write(const char *path, npy_type type, int32_t axis_count, const int64_t *extents,
               const void *data, os_error *why) {
    enum { ALIGNMENT = 64, PREFIX = 10 };
    text_buffer out;
    text_init(&out, FILE_BYTES_MAX);
    char header[512];
    int64_t count = 1;
    int length =
        snprintf(header, sizeof header, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                 types[type].bytes > 1 ? '<' : '|', types[type].name);
    for (int32_t i = 0; i < axis_count; i++) {
        length += snprintf(header + length, sizeof header - (size_t)length, "%" PRId64 ",%s",
                           extents[i], i + 1 < axis_count ? " " : "");
        count *= extents[i];
    }
    length += snprintf(header + length, sizeof header - (size_t)length, "), }");
    size_t total = (PREFIX + (size_t)length + 1 + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    size_t header_bytes = total - PREFIX;
    const char size[2] = {(char)(header_bytes & 255), (char)(header_bytes >> 8)};
    text_add(&out, STR("\x93NUMPY\x01"));
    text_add(&out, (str){"\0", 1});
    text_add(&out, (str){size, 2});
    text_add(&out, (str){header, (size_t)length});
    text_repeat(&out, ' ', header_bytes - (size_t)length - 1);
    text_add_z(&out, "\n");
    text_add(&out, (str){data, (size_t)count * types[type].bytes});
    bool is_written = !out.failed && os_write_file(path, text_str(&out), why);
    if (out.failed) fail(why, path, "is too large");
    text_done(&out);
    return is_written;
}
