/* Arithmetic on values of the emitted text: integers with bounds, so that the text is of type int
 * where that is known to suffice and long long elsewhere; reals in f32.
 */
#include "translate/values.h"

#include <math.h>
#include <string.h>

/* Wide enough for any sum or product of two bounds. */
__extension__ typedef __int128 bound;

static int64_t clamped(bound v) {
    if (v > INT64_MAX) return INT64_MAX;
    if (v < INT64_MIN) return INT64_MIN;
    return (int64_t)v;
}

bool emit_is_wide(emit_value v) {
    return !v.is_real && (v.low < INT32_MIN || v.high > INT32_MAX);
}

str emit_within(emit *t, emit_value v, int precedence) {
    if (v.precedence >= precedence) return v.text;
    return emit_format(t, "(%.*s)", STR_ARGS(v.text));
}

emit_value emit_named(str name, int64_t low, int64_t high) {
    return (emit_value){.text = name, .precedence = VALUES_PRIMARY, .low = low, .high = high};
}

emit_value emit_constant(emit *t, int64_t value) {
    bool wide = value < INT32_MIN || value > INT32_MAX;
    return (emit_value){.text = emit_format(t, "%lld%s", (long long)value, wide ? "LL" : ""),
                        .precedence = value < 0 ? VALUES_PREFIX : VALUES_PRIMARY,
                        .low = value,
                        .high = value};
}

str emit_float(emit *t, double value) {
    if (isinf(value)) return value < 0 ? STR("-ftl_infinity()") : STR("ftl_infinity()");
    str text = emit_format(t, "%.9g", value);
    bool has_point = memchr(text.data, '.', text.length) || memchr(text.data, 'e', text.length);
    return emit_format(t, "%.*s%sf", STR_ARGS(text), has_point ? "" : ".0");
}

str emit_real(emit *t, emit_value v) {
    if (v.is_real) return v.text;
    if (v.low == v.high) return emit_float(t, (double)v.low);
    /* One conversion for all rounds, and an addition of a number; exact up to 2^24, as the other
     * way.
     */
    if (v.unrolled.length && !emit_is_wide(v))
        return emit_format(t, "ftl_add((float)(%.*s), (float)(%.*s))", STR_ARGS(v.same),
                           STR_ARGS(v.unrolled));
    return emit_format(t, "(float)%.*s", STR_ARGS(emit_within(t, v, VALUES_PREFIX)));
}

/* 'v' as long long, so that what is made from it is. */
static emit_value widened(emit *t, emit_value v) {
    if (emit_is_wide(v)) return v;
    if (v.low == v.high) v.text = emit_format(t, "%lldLL", (long long)v.low);
    else v.text = emit_format(t, "(long long)%.*s", STR_ARGS(emit_within(t, v, VALUES_PREFIX)));
    v.precedence = VALUES_PREFIX;
    return v;
}

emit_value values_real(str text, int precedence) {
    return (emit_value){.text = text, .precedence = precedence, .is_real = true};
}

static emit_value combined(emit *t, emit_value a, emit_value b, const char *sign, int precedence,
                           bound low, bound high) {
    emit_value out = {.precedence = precedence, .low = clamped(low), .high = clamped(high)};
    if (emit_is_wide(out) && !emit_is_wide(a) && !emit_is_wide(b)) a = widened(t, a);
    int left = sign[1] == '*' ? VALUES_QUOTIENT : precedence;
    int right = sign[1] == '-' ? VALUES_QUOTIENT : precedence;
    out.text = emit_format(t, "%.*s%s%.*s", STR_ARGS(emit_within(t, a, left)), sign,
                           STR_ARGS(emit_within(t, b, right)));
    if (a.precedence == VALUES_QUOTIENT && left == VALUES_QUOTIENT)
        out.precedence = VALUES_QUOTIENT; /* it begins with one: `a / b * c` */
    return out;
}

static bool is_constant(emit_value v, int64_t value) {
    return !v.is_real && v.low == value && v.high == value;
}

static bool both_constant(emit_value a, emit_value b) {
    return a.low == a.high && b.low == b.high;
}

static str add_part(emit *t, str sum, const char *sign, str part) {
    if (!part.length) return sum;
    bool is_minus = sign[1] == '-';
    if (!sum.length && !is_minus) return part;
    return is_minus ? emit_format(t, "%.*s%s(%.*s)", STR_ARGS(sum), sign, STR_ARGS(part))
                    : emit_format(t, "%.*s%s%.*s", STR_ARGS(sum), sign, STR_ARGS(part));
}

/* A sum or difference whose terms may be of two parts each. */
static emit_value in_parts(emit *t, emit_value out, emit_value a, emit_value b, const char *sign) {
    if (!a.unrolled.length && !b.unrolled.length) return out;
    const emit_value *terms[] = {&a, &b};
    for (int i = 0; i < 2; i++) {
        const emit_value *v = terms[i];
        bool is_number = v->low == v->high, is_sum = v->unrolled.length > 0;
        const char *joint = i ? sign : " + ";
        out.same = add_part(t, out.same, joint, is_sum ? v->same : is_number ? (str){0} : v->text);
        out.unrolled = add_part(t, out.unrolled, joint,
                                is_sum      ? v->unrolled
                                : is_number ? v->text
                                            : (str){0});
    }
    return out;
}

emit_value emit_sum(emit *t, emit_value a, emit_value b) {
    if (is_constant(a, 0)) return b;
    if (is_constant(b, 0)) return a;
    bound low = (bound)a.low + b.low, high = (bound)a.high + b.high;
    if (both_constant(a, b)) return emit_constant(t, clamped(low));
    return in_parts(t, combined(t, a, b, " + ", VALUES_SUM, low, high), a, b, " + ");
}

emit_value emit_difference(emit *t, emit_value a, emit_value b) {
    if (is_constant(b, 0)) return a;
    bound low = (bound)a.low - b.high, high = (bound)a.high - b.low;
    if (both_constant(a, b)) return emit_constant(t, clamped(low));
    return in_parts(t, combined(t, a, b, " - ", VALUES_SUM, low, high), a, b, " - ");
}

static bound least(const bound *v, int count) {
    bound best = v[0];
    for (int i = 1; i < count; i++) best = v[i] < best ? v[i] : best;
    return best;
}

static bound most(const bound *v, int count) {
    bound best = v[0];
    for (int i = 1; i < count; i++) best = v[i] > best ? v[i] : best;
    return best;
}

emit_value emit_product(emit *t, emit_value a, emit_value b) {
    if (is_constant(a, 0) || is_constant(b, 0)) return emit_constant(t, 0);
    if (is_constant(a, 1)) return b;
    if (is_constant(b, 1)) return a;
    bound ends[4] = {(bound)a.low * b.low, (bound)a.low * b.high, (bound)a.high * b.low,
                     (bound)a.high * b.high};
    if (both_constant(a, b)) return emit_constant(t, clamped(ends[0]));
    return combined(t, a, b, " * ", VALUES_PRODUCT, least(ends, 4), most(ends, 4));
}

static int64_t floor_of(bound a, bound b) {
    bound q = a / b;
    return clamped(q - (a % b != 0 && (a % b < 0) != (b < 0)));
}

static int64_t ceil_of(bound a, bound b) {
    return clamped(-(bound)floor_of(-a, b));
}

/* Where integers of 64 bits are divided by a power of two, a shift or an `and` is a quarter of what
 * / and % are, which ask for the sign; they round down whatever it is.
 */
static bool is_power_of_two(emit_value b) {
    return b.low == b.high && b.low > 0 && (b.low & (b.low - 1)) == 0;
}

/* Nothing is divided by 0: the rules refuse a 0 that is known, and others do not come about. */
static emit_value divisor(emit_value b) {
    if (b.low == 0) b.low = 1;
    if (b.high < b.low) b.high = b.low;
    return b;
}

emit_value values_quotient(emit *t, emit_value a, emit_value b, bool up) {
    if (is_constant(b, 1)) return a;
    b = divisor(b);
    emit_value out = {.precedence = VALUES_PRIMARY};
    if (b.low >= 1) {
        bound ends[4];
        ends[0] = up ? ceil_of(a.low, b.low) : floor_of(a.low, b.low);
        ends[1] = up ? ceil_of(a.low, b.high) : floor_of(a.low, b.high);
        ends[2] = up ? ceil_of(a.high, b.low) : floor_of(a.high, b.low);
        ends[3] = up ? ceil_of(a.high, b.high) : floor_of(a.high, b.high);
        out.low = clamped(least(ends, 4)), out.high = clamped(most(ends, 4));
    } else {
        bound ends[2] = {a.high, -(bound)a.low};
        out.low = clamped(-most(ends, 2)), out.high = clamped(most(ends, 2));
    }
    if (both_constant(a, b) && b.low >= 1) return emit_constant(t, out.low);
    if (!up && emit_is_wide(a) && is_power_of_two(b)) {
        bool narrows = !emit_is_wide(out);
        out.text = emit_format(t, "%s(%.*s >> %d)", narrows ? "(int)" : "",
                               STR_ARGS(emit_within(t, a, VALUES_PREFIX)),
                               __builtin_ctzll((unsigned long long)b.low));
        if (narrows) out.precedence = VALUES_PREFIX;
        return out;
    }
    if (!up && a.low >= 0 && b.low >= 1) {
        out.text = emit_format(t, "%.*s / %.*s", STR_ARGS(emit_within(t, a, VALUES_QUOTIENT)),
                               STR_ARGS(emit_within(t, b, VALUES_PREFIX)));
        out.precedence = VALUES_QUOTIENT;
        if (emit_is_wide(a) && !emit_is_wide(out)) {
            out.text = emit_format(t, "(int)(%.*s)", STR_ARGS(out.text));
            out.precedence = VALUES_PREFIX;
        }
        return out;
    }
    bool wide = emit_is_wide(a) || emit_is_wide(b);
    out.text =
        emit_format(t, "%sftl_divide_%s%s(%.*s, %.*s)", wide && !emit_is_wide(out) ? "(int)" : "",
                    up ? "up" : "down", wide ? "_wide" : "", STR_ARGS(a.text), STR_ARGS(b.text));
    if (wide && !emit_is_wide(out)) out.precedence = VALUES_PREFIX;
    return out;
}

emit_value values_modulo(emit *t, emit_value a, emit_value b) {
    b = divisor(b);
    emit_value out = {.precedence = VALUES_PRIMARY, .low = 0, .high = b.high > 0 ? b.high - 1 : 0};
    if (b.low < 1) out.low = b.low < 0 ? b.low + 1 : 0;
    if (both_constant(a, b) && b.low >= 1) {
        return emit_constant(t, a.low - floor_of(a.low, b.low) * b.low);
    }
    bool wide = emit_is_wide(a) || emit_is_wide(b);
    if ((wide || a.low < 0) && is_power_of_two(b)) {
        out.text = emit_format(t, "(%.*s & %lld)", STR_ARGS(emit_within(t, a, VALUES_PREFIX)),
                               (long long)b.low - 1);
        if (wide && !emit_is_wide(out)) {
            out.text = emit_format(t, "(int)%.*s", STR_ARGS(out.text));
            out.precedence = VALUES_PREFIX;
        }
        return out;
    }
    if (a.low >= 0 && b.low >= 1) {
        out.text = emit_format(t, "%.*s %% %.*s", STR_ARGS(emit_within(t, a, VALUES_QUOTIENT)),
                               STR_ARGS(emit_within(t, b, VALUES_PREFIX)));
        out.precedence = VALUES_QUOTIENT;
    } else {
        out.text = emit_format(t, "ftl_modulo%s(%.*s, %.*s)", wide ? "_wide" : "", STR_ARGS(a.text),
                               STR_ARGS(b.text));
    }
    if (wide && !emit_is_wide(out)) {
        out.text = emit_format(t, "(int)(%.*s)", STR_ARGS(out.text));
        out.precedence = VALUES_PREFIX;
    }
    return out;
}

emit_value values_extreme(emit *t, emit_value a, emit_value b, bool max) {
    if (a.is_real || b.is_real) {
        return values_real(emit_format(t, "ftl_%s(%.*s, %.*s)", max ? "max" : "min",
                                       STR_ARGS(emit_real(t, a)), STR_ARGS(emit_real(t, b))),
                           VALUES_PRIMARY);
    }
    emit_value out = {.precedence = VALUES_PRIMARY};
    out.low = max == (a.low > b.low) ? a.low : b.low;
    out.high = max == (a.high > b.high) ? a.high : b.high;
    if (both_constant(a, b)) return emit_constant(t, out.low);
    bool wide = emit_is_wide(a) || emit_is_wide(b), narrows = wide && !emit_is_wide(out);
    out.text =
        emit_format(t, "%sftl_%s_%s(%.*s, %.*s)", narrows ? "(int)" : "", max ? "max" : "min",
                    wide ? "wide" : "integer", STR_ARGS(a.text), STR_ARGS(b.text));
    if (narrows) out.precedence = VALUES_PREFIX;
    return out;
}
