#include "base/convert.h"
#include "base/wide.h"

#include "base/number.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

/* A binary format: 'fraction' stored bits; exponents from 'least' (below it, subnormals). */
typedef struct format_shape {
    int fraction, least;
    double normal;  /* the smallest normal value, 2^least */
    double unit;    /* the smallest value */
    double most;    /* the largest finite value */
    bool saturates; /* instead of overflowing to infinity */
} format_shape;

static const format_shape shapes[] = {
    [CONVERT_F16] = {10, -14, 0x1p-14, 0x1p-24, 65504.0, false},
    [CONVERT_BF16] = {7, -126, 0x1p-126, 0x1p-133, 0x1.fep127, false},
    [CONVERT_F32] = {23, -126, 0x1p-126, 0x1p-149, 0x1.fffffep127, false},
    [CONVERT_E4M3] = {3, -6, 0x1p-6, 0x1p-9, 448.0, true},
    [CONVERT_E5M2] = {2, -14, 0x1p-14, 0x1p-16, 57344.0, true},
};

typedef enum format_kind { REAL, SIGNED, UNSIGNED } format_kind;

static const struct {
    int bits;
    format_kind kind;
} formats[] = {
#define TYPE(id, spelling, number, bits, kind, doc) {bits, kind},
#include "base/types.def"
#undef TYPE
    {64, REAL}};

size_t convert_bits(convert_format format) {
    return (size_t)formats[format].bits;
}

size_t convert_size(convert_format format, size_t count) {
    return (count * convert_bits(format) + 7) / 8;
}

bool convert_is_whole(convert_format format) {
    return formats[format].kind != REAL;
}

double convert_most(convert_format format) {
    int bits = formats[format].bits - (formats[format].kind == SIGNED);
    if (format == CONVERT_F64) return DBL_MAX;
    return convert_is_whole(format) ? ldexp(1, bits) - 1 : shapes[format].most;
}

/* Rounds the significand by adding half a unit (a little less where the kept part is even) and
 * cutting; a carry into the exponent is what rounding up to the next power of two means.
 */
static double round_shape(const format_shape *shape, double value) {
    if (isnan(value) || value == 0) return value;
    double size = fabs(value);
    if (size < shape->normal) {
        return copysign(nearbyint(size / shape->unit) * shape->unit, value);
    }
    int cut = 52 - shape->fraction;
    uint64_t bits = number_bits(size);
    bits += ((UINT64_C(1) << (cut - 1)) - 1) + ((bits >> cut) & 1);
    bits &= ~((UINT64_C(1) << cut) - 1);
    double rounded = isinf(size) ? size : number_of_bits(bits);
    if (rounded > shape->most) rounded = shape->saturates ? shape->most : (double)INFINITY;
    return copysign(rounded, value);
}

static double round_whole(convert_format format, double value) {
    double most = convert_most(format);
    double least = formats[format].kind == SIGNED ? -most - 1 : 0;
    if (isnan(value)) return 0;
    double rounded = nearbyint(value) + 0.0; /* no -0 */
    return rounded < least ? least : rounded > most ? most : rounded;
}

double convert_round(convert_format format, double value) {
    if (format == CONVERT_F64) return value;
    if (format == CONVERT_F32) return (double)(float)value;
    return convert_is_whole(format) ? round_whole(format, value)
                                    : round_shape(&shapes[format], value);
}

/* As round_shape, without a branch, for the formats that overflow to infinity: a subnormal's units
 * are counted by adding a number whose own unit is that one.
 */
WIDE_VECTORS static void round_open(const format_shape *shape, double *values, size_t count) {
    const int64_t sign = INT64_MIN, infinite = (int64_t)number_bits((double)INFINITY);
    int cut = 52 - shape->fraction;
    int64_t half = (INT64_C(1) << (cut - 1)) - 1, mask = -(INT64_C(1) << cut);
    int64_t normal = (int64_t)number_bits(shape->normal), most = (int64_t)number_bits(shape->most);
    double counter = shape->unit * 0x1.8p52;
    for (size_t i = 0; i < count; i++) {
        int64_t value = (int64_t)number_bits(values[i]), size = value & ~sign;
        int64_t small = (int64_t)number_bits((number_of_bits((uint64_t)size) + counter) - counter);
        int64_t odd = (int64_t)((uint64_t)size >> cut & 1);
        int64_t rounded = (size + half + odd) & mask;
        rounded = rounded > most ? infinite : rounded;
        rounded = size < normal ? small : rounded;
        rounded = size > infinite ? size : rounded;
        values[i] = number_of_bits((uint64_t)(rounded | (value & sign)));
    }
}

WIDE_VECTORS static void round_single(double *values, size_t count) {
    for (size_t i = 0; i < count; i++) values[i] = (double)(float)values[i];
}

void convert_round_all(convert_format format, double *values, size_t count) {
    switch (format) {
    case CONVERT_F64: break;
    case CONVERT_F32: round_single(values, count); break;
    case CONVERT_F16:
    case CONVERT_BF16: round_open(&shapes[format], values, count); break;
    default:
        for (size_t i = 0; i < count; i++) values[i] = convert_round(format, values[i]);
        break;
    }
}

/* --- bits ------------------------------------------------------------------------------------- */

double convert_step(convert_format format, double value) {
    double size = fabs(value);
    int exponent;
    if (convert_is_whole(format)) return 1;
    if (format == CONVERT_F64) return nextafter(size, (double)INFINITY) - size;
    const format_shape *shape = &shapes[format];
    if (!(size >= shape->normal)) return shape->unit;
    if (size > shape->most) size = shape->most;
    frexp(size, &exponent); /* of a significand below 1 */
    return ldexp(1, exponent - 1 - shape->fraction);
}

WIDE_VECTORS void convert_steps(convert_format format, const double *values, size_t count,
                                double *steps) {
    const format_shape *shape = &shapes[format];
    double normal = shape->normal, most = shape->most, unit = shape->unit;
    double smallest = number_of_bits((uint64_t)(1023 - shape->fraction) << 52); /* of 1 to 2 */
    for (size_t i = 0; i < count; i++) {
        double size = fabs(values[i]);
        uint64_t bits = number_bits(size > most ? most : size);
        double step = number_of_bits(bits & UINT64_C(0x7ff0000000000000)) * smallest;
        steps[i] = size >= normal ? step : unit;
    }
}

static uint32_t f32_bits(double value) {
    float f = (float)value;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static int sign_position(convert_format format) {
    return format == CONVERT_F16 || format == CONVERT_BF16 ? 15 : 7;
}

/* The largest exponent field: of infinities and NaN. e4m3 has only NaN there, all bits set. */
static uint32_t special_bits(convert_format format) {
    const format_shape *shape = &shapes[format];
    int exponent_bits = sign_position(format) - shape->fraction;
    return ((UINT32_C(1) << exponent_bits) - 1) << shape->fraction;
}

static uint32_t low_bits(int count) {
    return UINT32_MAX >> (32 - count);
}

uint32_t convert_to_bits(convert_format format, double value) {
    if (format == CONVERT_F32) return f32_bits(value);
    if (convert_is_whole(format))
        return (uint32_t)(int64_t)round_whole(format, value) & low_bits(formats[format].bits);
    const format_shape *shape = &shapes[format];
    uint32_t sign = (signbit(value) ? UINT32_C(1) : 0) << sign_position(format);
    if (isnan(value)) {
        uint32_t quiet = format == CONVERT_E4M3 ? 7 : UINT32_C(1) << (shape->fraction - 1);
        return sign | special_bits(format) | quiet;
    }
    double size = fabs(round_shape(shape, value));
    if (isinf(size)) return sign | special_bits(format);
    if (size < shape->normal) return sign | (uint32_t)(size / shape->unit);
    uint64_t bits = number_bits(size);
    int exponent = (int)(bits >> 52) - 1023 - shape->least + 1;
    uint32_t fraction = (uint32_t)((bits & ((UINT64_C(1) << 52) - 1)) >> (52 - shape->fraction));
    return sign | ((uint32_t)exponent << shape->fraction) | fraction;
}

double convert_from_bits(convert_format format, uint32_t bits) {
    if (convert_is_whole(format)) {
        int count = formats[format].bits;
        int64_t code = (int64_t)(bits & low_bits(count));
        bool is_negative = formats[format].kind == SIGNED && code >> (count - 1);
        return (double)(is_negative ? code - (INT64_C(1) << count) : code);
    }
    if (format == CONVERT_F32) {
        float f;
        memcpy(&f, &bits, sizeof f);
        return (double)f;
    }
    const format_shape *shape = &shapes[format];
    int position = sign_position(format);
    double sign = (bits >> position) & 1 ? -1.0 : 1.0;
    uint32_t size = bits & ((UINT32_C(1) << position) - 1);
    uint32_t special = special_bits(format);
    bool is_special = format == CONVERT_E4M3 ? size == (special | 7) : size >= special;
    if (is_special) {
        bool is_infinite = size == special && format != CONVERT_E4M3;
        return copysign(is_infinite ? (double)INFINITY : (double)NAN, sign);
    }
    uint32_t exponent = size >> shape->fraction;
    uint32_t fraction = size & ((UINT32_C(1) << shape->fraction) - 1);
    if (exponent == 0) return sign * ((double)fraction * shape->unit);
    /* by bits: a table of powers of two without one */
    uint64_t wide = (uint64_t)((int)exponent + shape->least - 1 + 1023) << 52 |
                    (uint64_t)fraction << (52 - shape->fraction);
    return sign * number_of_bits(wide);
}

/* --- memory ----------------------------------------------------------------------------------- */

/* The two formats that most tensors have, without a branch: f16 moved to f32's exponents, where its
 * subnormals are right after a multiplication; bf16 is the upper half of an f32.
 */
static inline double from_half(bool is_f16, const unsigned char *at) {
    uint16_t half;
    memcpy(&half, at, sizeof half);
    uint32_t bits = (uint32_t)half << 16;
    if (is_f16) {
        uint32_t special = (half & 0x7c00u) == 0x7c00u ? 0x7f800000u : 0;
        bits = (bits & 0x80000000u) | (half & 0x7fffu) << 13 | special;
    }
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value * (is_f16 ? 0x1p112 : 1);
}

WIDE_VECTORS static void load_halves(bool is_f16, const unsigned char *at, ptrdiff_t step,
                                     size_t count, double *to) {
    if (step == 2 && is_f16) {
        for (size_t i = 0; i < count; i++) to[i] = from_half(true, at + 2 * i);
    } else if (step == 2) {
        for (size_t i = 0; i < count; i++) to[i] = from_half(false, at + 2 * i);
    } else {
        for (size_t i = 0; i < count; i++) to[i] = from_half(is_f16, at + (ptrdiff_t)i * step);
    }
}

static int half_of(int64_t element) { /* where in its byte it begins */
    return element & 1 ? 4 : 0;
}

static void load_packed(convert_format format, const unsigned char *memory, int64_t first,
                        ptrdiff_t stride, size_t count, double *to) {
    for (size_t i = 0; i < count; i++, first += stride)
        to[i] = convert_from_bits(format, (uint32_t)memory[first >> 1] >> half_of(first));
}

void convert_load(convert_format format, const void *memory, int64_t first, ptrdiff_t stride,
                  size_t count, double *to) {
    if (convert_bits(format) < 8) {
        load_packed(format, memory, first, stride, count, to);
        return;
    }
    size_t bytes = convert_size(format, 1);
    const unsigned char *at = (const unsigned char *)memory + first * (int64_t)bytes;
    ptrdiff_t step = stride * (ptrdiff_t)bytes;
    if (bytes == 2) {
        if (format == CONVERT_F16) load_halves(true, at, step, count, to);
        else load_halves(false, at, step, count, to);
        return;
    }
    for (size_t i = 0; i < count; i++, at += i < count ? step : 0) {
        if (format == CONVERT_F64) {
            memcpy(&to[i], at, sizeof *to);
        } else if (bytes == 4) {
            uint32_t bits;
            memcpy(&bits, at, sizeof bits);
            to[i] = convert_from_bits(format, bits);
        } else {
            to[i] = convert_from_bits(format, *at);
        }
    }
}

/* Bits of numbers that are of the format already: f16's as those of an f32 with f16's exponents.
 * 'format': F16 or BF16.
 */
WIDE_VECTORS static void to_halves(convert_format format, const double *values, size_t count,
                                   uint16_t *restrict out) {
    bool is_f16 = format == CONVERT_F16;
    uint32_t infinite = is_f16 ? 0x7c00 : 0x7f80, no_number = is_f16 ? 0x7e00 : 0x7fc0;
    double scale = is_f16 ? 0x1p-112 : 1;
    int cut = is_f16 ? 13 : 16;
    for (size_t i = 0; i < count; i++) {
        float value = (float)(values[i] * scale);
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        uint32_t size = bits & 0x7fffffffu, half = size >> cut;
        half = size >= 0x7f800000u ? infinite : half;
        half = size > 0x7f800000u ? no_number : half;
        out[i] = (uint16_t)(half | (bits >> 16 & 0x8000u));
    }
}

static void store_halves(convert_format format, const double *from, size_t count, unsigned char *at,
                         ptrdiff_t step) {
    enum { CHUNK = 64 };
    double rounded[CHUNK];
    uint16_t halves[CHUNK];
    for (size_t first = 0; first < count; first += CHUNK) {
        size_t length = count - first < CHUNK ? count - first : CHUNK;
        memcpy(rounded, from + first, length * sizeof *rounded);
        round_open(&shapes[format], rounded, length);
        to_halves(format, rounded, length, halves);
        for (size_t i = 0; i < length; i++)
            memcpy(at + (ptrdiff_t)(first + i) * step, &halves[i], sizeof *halves);
    }
}

static void store_packed(convert_format format, const double *from, size_t count,
                         unsigned char *memory, int64_t first, ptrdiff_t stride) {
    for (size_t i = 0; i < count; i++, first += stride) {
        unsigned char *at = &memory[first >> 1];
        uint32_t bits = convert_to_bits(format, from[i]) << half_of(first);
        *at = (unsigned char)((*at & ~(15u << half_of(first))) | bits);
    }
}

void convert_store(convert_format format, const double *from, size_t count, void *memory,
                   int64_t first, ptrdiff_t stride) {
    if (convert_bits(format) < 8) {
        store_packed(format, from, count, memory, first, stride);
        return;
    }
    size_t bytes = convert_size(format, 1);
    unsigned char *at = (unsigned char *)memory + first * (int64_t)bytes;
    ptrdiff_t step = stride * (ptrdiff_t)bytes;
    if (bytes == 2) {
        store_halves(format, from, count, at, step);
        return;
    }
    for (size_t i = 0; i < count; i++, at += i < count ? step : 0) {
        if (format == CONVERT_F64) {
            memcpy(at, &from[i], sizeof *from);
            continue;
        }
        uint32_t bits = convert_to_bits(format, from[i]);
        if (bytes == 4) memcpy(at, &bits, 4);
        else *at = (uint8_t)bits;
    }
}
