// Arithmetic, each operation rounded once: the explicit forms keep the compiler from fusing a product
// with a sum that the program keeps apart.

__device__ __forceinline__ float ftl_add(float a, float b) { return __fadd_rn(a, b); }

__device__ __forceinline__ float ftl_subtract(float a, float b) { return __fadd_rn(a, -b); }

__device__ __forceinline__ float ftl_multiply(float a, float b) { return __fmul_rn(a, b); }

__device__ __forceinline__ float ftl_multiply_add(float a, float b, float c) { return __fmaf_rn(a, b, c); }

__device__ __forceinline__ float ftl_max(float a, float b) { return fmaxf(a, b); }

__device__ __forceinline__ float ftl_min(float a, float b) { return fminf(a, b); }

__device__ __forceinline__ float ftl_abs(float a) { return fabsf(a); }

__device__ __forceinline__ float ftl_infinity() { return __int_as_float(0x7f800000); }

// 1/a within 1 ulp; denormal results become 0.
__device__ __forceinline__ float ftl_reciprocal(float a) {
    float result;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(a));
    return result;
}

// a/b as a * (1/b): within 2 ulp where 1/b is normal.
__device__ __forceinline__ float ftl_divide(float a, float b) { return __fmul_rn(a, ftl_reciprocal(b)); }

// 2 to the a, within 2 ulp; of minus infinity 0; denormals are 0.
__device__ __forceinline__ float ftl_exp2(float a) {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(a));
    return result;
}

// e to the a: relative error grows with |a|, below 6e-6 up to |a| = 87.
__device__ __forceinline__ float ftl_exp(float a) { return ftl_exp2(__fmul_rn(a, 1.44269504f)); }

// Logarithm to base 2: absolute error below 2^-22 near 1, 1 ulp elsewhere; of 0 minus infinity.
__device__ __forceinline__ float ftl_log2(float a) {
    float result;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(a));
    return result;
}

__device__ __forceinline__ float ftl_log(float a) { return __fmul_rn(ftl_log2(a), 0.693147181f); }

// Square root within 1 ulp.
__device__ __forceinline__ float ftl_sqrt(float a) {
    float result;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(a));
    return result;
}

__device__ __forceinline__ float ftl_rsqrt(float a) {
    float result;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(a));
    return result;
}

// tanh a = 1 - 2/(e^2a + 1): absolute error below 3e-7. Near 0, where that would lose digits, a - a^3/3
// + 2a^5/15.
__device__ __forceinline__ float ftl_tanh(float a) {
    const float e = ftl_exp2(__fmul_rn(a, 2.88539008f));
    const float far = __fmaf_rn(-2.0f, ftl_reciprocal(__fadd_rn(e, 1.0f)), 1.0f);
    const float square = __fmul_rn(a, a);
    const float series = __fmaf_rn(square, 0.133333333f, -0.333333333f);
    const float near = __fmaf_rn(__fmul_rn(a, square), series, a);
    return square < 0.0025f ? near : far;
}

// Odd polynomials, a (c0 + c1 a^2 + ...).
__device__ __forceinline__ float ftl_odd_3(float a, float c0, float c1, float c2) {
    const float square = __fmul_rn(a, a);
    return __fmul_rn(a, __fmaf_rn(square, __fmaf_rn(square, c2, c1), c0));
}

__device__ __forceinline__ float ftl_odd_5(float a, float c0, float c1, float c2, float c3, float c4) {
    const float square = __fmul_rn(a, a);
    const float tail = __fmaf_rn(square, __fmaf_rn(square, c4, c3), c2);
    return __fmul_rn(a, __fmaf_rn(square, __fmaf_rn(square, tail, c1), c0));
}

// erfc a = 1 - erf a by e^-x^2 times a polynomial in t = 1/(1 + 0.45 x), with x = |a|: no digits cancel where
// it is small. Relative error below 1.5e-6 up to a = 4, 8e-6 up to 9.15, then denormal, which is 0.
__device__ __forceinline__ float ftl_erfc(float a) {
    const float x = fabsf(a), t = ftl_reciprocal(__fmaf_rn(x, 0.45f, 1.0f));
    float sum = __fmaf_rn(t, 0.0663192794f, -0.237887859f);
    sum = __fmaf_rn(t, sum, 0.204551652f);
    sum = __fmaf_rn(t, sum, 0.0444128960f);
    sum = __fmaf_rn(t, sum, 0.186377749f);
    sum = __fmaf_rn(t, sum, 0.228791326f);
    sum = __fmaf_rn(t, sum, 0.253518432f);
    sum = __fmaf_rn(t, sum, 0.253916830f);
    const float tail = __fmul_rn(__fmul_rn(sum, t), ftl_exp2(__fmul_rn(__fmul_rn(x, x), -1.44269504f)));
    return a < 0.0f ? __fadd_rn(2.0f, -tail) : tail;
}

// erf a: up to 1 an odd polynomial (relative error below 3e-7), from there on 1 - erfc: absolute error below 4e-7.
__device__ __forceinline__ float ftl_erf(float a) {
    const float square = __fmul_rn(a, a);
    float sum = __fmaf_rn(square, -0.000563140959f, 0.00491754804f);
    sum = __fmaf_rn(square, sum, -0.0267113093f);
    sum = __fmaf_rn(square, sum, 0.112801798f);
    sum = __fmaf_rn(square, sum, -0.37612325f);
    sum = __fmaf_rn(square, sum, 1.12837911f);
    const float far = copysignf(__fadd_rn(1.0f, -ftl_erfc(fabsf(a))), a);
    return square < 1.0f ? __fmul_rn(a, sum) : far;
}

// sin a: relative error below 2.5e-7 for every finite a; of an infinity NaN. |a| is a whole number of 24 bits times a power
// of 2, and 2/pi has as many bits as it takes: of the 96 that begin where whole turns end, the product has the quarter
// turns in its two top bits and the rest of the angle in those below, exact to 2^-60 of a quarter turn.
__device__ __forceinline__ float ftl_sin(float a) {
    unsigned words[8] = {0u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu};
    const unsigned bits = __float_as_uint(a);
    const int exponent = (int)(bits >> 23 & 255u), first = exponent < 120 ? 0 : exponent - 120, shift = first & 31;
#pragma unroll
    for (int i = 0; i < 5; i++) words[i] = first & 64 ? words[i + 2] : words[i];
#pragma unroll
    for (int i = 0; i < 4; i++) words[i] = first & 32 ? words[i + 1] : words[i];
#pragma unroll
    for (int i = 0; i < 4; i++) words[i] = first & 128 ? words[i + 4] : words[i];
#pragma unroll
    for (int i = 0; i < 3; i++)
        words[i] = (unsigned)((((unsigned long long)words[i] << 32 | words[i + 1]) << shift) >> 32);
    const unsigned long long whole = (bits & 0x7fffffu) | 0x800000u;
    const unsigned long long turns = (whole * words[0] << 32) + whole * words[1] + (whole * words[2] >> 32);
    const bool is_near = fabsf(a) < 0.785f;
    const unsigned quarter = is_near ? 0u : (unsigned)((turns + (1ull << 61)) >> 62);
    const float rest = __fmul_rn((float)(long long)(turns << 2), 8.51530395e-20f);  // pi/2 / 2^64
    const float angle = is_near ? fabsf(a) : rest, square = __fmul_rn(angle, angle);
    float sine = __fmaf_rn(square, -1.95152959e-4f, 8.33216087e-3f);
    sine = __fmaf_rn(square, sine, -0.166666546f);
    sine = __fmaf_rn(__fmul_rn(square, sine), angle, angle);
    float cosine = __fmaf_rn(square, 2.44331571e-5f, -1.38873163e-3f);
    cosine = __fmaf_rn(square, cosine, 4.16666457e-2f);
    cosine = __fmaf_rn(__fmul_rn(square, square), cosine, __fmaf_rn(square, -0.5f, 1.0f));
    const unsigned sign = (bits ^ quarter << 30) & 0x80000000u;
    const float result = __uint_as_float(__float_as_uint(quarter & 1u ? cosine : sine) ^ sign);
    return exponent == 255 ? __fadd_rn(a, -a) : result;
}

// Integer quotients rounded down and up, for any signs.
__device__ __forceinline__ int ftl_divide_down(int a, int b) {
    const int quotient = a / b, rest = a - quotient * b;
    return quotient - (rest != 0 && (rest < 0) != (b < 0));
}

__device__ __forceinline__ int ftl_divide_up(int a, int b) {
    const int quotient = a / b, rest = a - quotient * b;
    return quotient + (rest != 0 && (rest < 0) == (b < 0));
}

// What ftl_divide_down leaves: 0 <= rest < b for positive b.
__device__ __forceinline__ int ftl_modulo(int a, int b) { return a - ftl_divide_down(a, b) * b; }

__device__ __forceinline__ long long ftl_divide_down_wide(long long a, long long b) {
    const long long quotient = a / b, rest = a - quotient * b;
    return quotient - (rest != 0 && (rest < 0) != (b < 0));
}

__device__ __forceinline__ long long ftl_divide_up_wide(long long a, long long b) {
    const long long quotient = a / b, rest = a - quotient * b;
    return quotient + (rest != 0 && (rest < 0) == (b < 0));
}

__device__ __forceinline__ long long ftl_modulo_wide(long long a, long long b) {
    return a - ftl_divide_down_wide(a, b) * b;
}

__device__ __forceinline__ int ftl_min_integer(int a, int b) { return a < b ? a : b; }

__device__ __forceinline__ int ftl_max_integer(int a, int b) { return a > b ? a : b; }

__device__ __forceinline__ long long ftl_min_wide(long long a, long long b) { return a < b ? a : b; }

__device__ __forceinline__ long long ftl_max_wide(long long a, long long b) { return a > b ? a : b; }

// Has a table of that length an element there?
__device__ __forceinline__ bool ftl_inside_wide(long long at, int length) {
    return (unsigned long long)at < (unsigned)length;
}

// The e4m3 number of a code, in proportion between two: exact.
__device__ __forceinline__ float ftl_from_code(float code) {
    const float within = fminf(fmaxf(code, 0.0f), 126.0f), octave = fmaxf(floorf(within * 0.125f), 1.0f);
    return __fmaf_rn(within, 0.125f, 1.0f - octave) * __int_as_float(((int)octave + 120) << 23);
}
