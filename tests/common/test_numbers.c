/* test_numbers.c - every value of the small element types, and random numbers: known answers,
 * layout, distributions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "common/base/dtype.h"
#include "common/base/rng.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- dtype ---- */

/* A small float type with e exponent bits and m mantissa bits. With `inf` the top exponent stands
 * for infinity and NaN; without it only a code of all ones is NaN. */
typedef struct small {
    vc_dtype type;
    int e, m;
    bool inf;
} small;

static const small smalls[] = {
    { VC_F16, 5, 10, true },
    { VC_BF16, 8, 7, true },
    { VC_F8E4M3, 4, 3, false },
    { VC_F8E5M2, 5, 2, true },
};

static double value_of(const small *s, uint32_t code)
{
    int bias = (1 << (s->e - 1)) - 1, ones = (1 << s->e) - 1;
    int ex = (int)(code >> s->m) & ones;
    uint32_t man = code & ((1u << s->m) - 1);
    double sign = code >> (s->e + s->m) ? -1 : 1;
    if (ex == ones && s->inf)
        return man ? (double)NAN : sign * (double)INFINITY;
    if (ex == ones && man == (1u << s->m) - 1)
        return (double)NAN;
    double frac = (double)man / (1u << s->m);
    return sign * (ex ? ldexp(1 + frac, ex - bias) : ldexp(frac, 1 - bias));
}

static float to_f32(const small *s, uint32_t code)
{
    uint16_t two = (uint16_t)code;
    uint8_t one = (uint8_t)code;
    float f;
    vc_to_f32(&f, s->e + s->m > 8 ? (const void *)&two : &one, s->type, 1);
    return f;
}

static uint32_t from_f32(const small *s, float f)
{
    uint16_t two = 0;
    uint8_t one = 0;
    bool wide = s->e + s->m > 8;
    vc_from_f32(wide ? (void *)&two : &one, s->type, &f, 1);
    return wide ? two : one;
}

static uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

static float float_of(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static void test_every_small_code(void **state)
{
    (void)state;
    for (size_t k = 0; k < COUNT(smalls); k++) {
        const small *s = &smalls[k];
        uint32_t codes = 1u << (1 + s->e + s->m);
        for (uint32_t c = 0; c < codes; c++) {
            double want = value_of(s, c);
            float got = to_f32(s, c);
            if (isnan(want) ? !isnan(got) : bits_of(got) != bits_of((float)want))
                fail_msg("%s %#x: %a, not %a", vc_dtype_name(s->type), c, (double)got, want);
            uint32_t back = from_f32(s, got);
            if (isnan(want) ? !isnan(value_of(s, back)) : back != c)
                fail_msg("%s %#x is converted back to %#x", vc_dtype_name(s->type), c, back);
            assert_int_equal(back >> (s->e + s->m), c >> (s->e + s->m));   /* the sign stays */
        }
    }
}

/* Returns the code of f by rounding to nearest even. A binary search over the positive codes, which
 * ascend with their values, compares in double. A NaN gives UINT32_MAX. */
static uint32_t nearest_code(const small *s, float f)
{
    uint32_t top = 1u << (s->e + s->m), lo = 0, hi;
    uint32_t most = s->inf ? (((1u << s->e) - 1) << s->m) - 1 : top - 2;   /* largest finite */
    uint32_t sign = signbit(f) ? top : 0;
    double a = fabs((double)f);
    if (isnan(f))
        return UINT32_MAX;

    for (hi = most; lo < hi;) {                      /* the first code that is not below a */
        uint32_t mid = lo + (hi - lo) / 2;
        if (value_of(s, mid) < a)
            lo = mid + 1;
        else
            hi = mid;
    }
    double up = value_of(s, lo);
    if (up < a) {                                    /* beyond the largest */
        double step = value_of(s, most) - value_of(s, most - 1), tie = value_of(s, most) + step / 2;
        /* most is odd where infinity follows, so the tie goes to infinity */
        return sign | (s->inf && (a > tie || (a == tie && (most & 1))) ? most + 1 : most);
    }
    if (lo == 0 || up == a)
        return sign | lo;
    double down = value_of(s, lo - 1), d = a - down, u = up - a;
    return sign | (d < u || (d == u && !((lo - 1) & 1)) ? lo - 1 : lo);
}

static void check_rounding(const small *s, float f)
{
    uint32_t want = nearest_code(s, f), got = from_f32(s, f);
    if (want == UINT32_MAX ? !isnan(value_of(s, got)) : want != got)
        fail_msg("%s of %a (%#x): %#x, not %#x", vc_dtype_name(s->type), (double)f, bits_of(f), got,
                 want);
}

/* Each code, each midpoint between two codes, and the floats next to them. */
static void test_rounding_at_ties(void **state)
{
    (void)state;
    for (size_t k = 0; k < COUNT(smalls); k++) {
        const small *s = &smalls[k];
        uint32_t most = (1u << (s->e + s->m)) - 1;
        for (uint32_t c = 0; c < most; c++) {
            double a = value_of(s, c), b = value_of(s, c + 1);
            if (isnan(a) || isnan(b) || isinf(a))
                continue;
            float mid = isinf(b) ? (float)(a + (a - value_of(s, c - 1)) / 2) : (float)((a + b) / 2);
            const float at[] = { (float)a, mid };
            for (size_t i = 0; i < COUNT(at); i++)
                for (int side = -1; side <= 1; side++) {
                    float f = side ? nextafterf(at[i], side * INFINITY) : at[i];
                    check_rounding(s, f);
                    check_rounding(s, -f);
                }
        }
    }
}

static void test_rounding_at_random(void **state)
{
    (void)state;
    static const uint32_t odd[] = { 0,          1,          0x007fffff, 0x00800000,
                                    0x7f7fffff, 0x7f800000, 0x7f800001, 0x7fc00000,
                                    0x7fffffff, 0x33000000, 0x33000001, 0x477fefff,
                                    0x477ff000, 0x43e00000, 0x43e80000, 0x43e80001 };
    vc_draws d = vc_draws_of(1, 2, 3, 4);
    for (size_t k = 0; k < COUNT(smalls); k++) {
        const small *s = &smalls[k];
        for (size_t i = 0; i < COUNT(odd); i++) {
            check_rounding(s, float_of(odd[i]));
            check_rounding(s, float_of(odd[i] | 0x80000000));
        }
        for (int i = 0; i < 100000; i++) {
            uint32_t u = vc_draw_int(&d, UINT32_MAX);
            check_rounding(s, float_of(u));
            /* Most random exponents exceed the range of a small type; these do not. */
            check_rounding(s, ldexpf((float)(int32_t)u, (int)(u % 40) - 31 - 25));
        }
    }
    assert_int_equal(vc_f32_to_f8e4m3(1e30f), 0x7e);
    assert_int_equal(vc_f32_to_f8e4m3(-INFINITY), 0xfe);
    assert_true(vc_f8e4m3_to_f32(0x7e) == 448);
    assert_true(isinf(vc_f16_to_f32(vc_f32_to_f16(65520))));
    assert_true(vc_f16_to_f32(vc_f32_to_f16(65519)) == 65504);
}

/* The hashes are those of torch 2.15: 2^20 scattered f32 values, if they are in range, are cast to
 * float8_e4m3fn, and every code is cast back. */
static void test_fp8_equals_torch(void **state)
{
    uint64_t hash = 0;
    (void)state;
    for (uint64_t i = 0; i < 1 << 20; i++) {
        float f = float_of((uint32_t)(i * 2654435761u));
        if (fabsf(f) <= 448)
            hash = hash * 31 + vc_f32_to_f8e4m3(f);
    }
    assert_true(hash == 0x26a2c15a35a817ee);
    hash = 0;
    for (int code = 0; code < 256; code++)
        if (code % 128 != 127)                 /* NaN */
            hash = hash * 31 + bits_of(vc_f8e4m3_to_f32((uint8_t)code));
    assert_true(hash == 0x237a06276a000000);
}

static void test_rows_of_values(void **state)
{
    (void)state;
    /* a row of any length and at an odd address converts like its single elements */
    enum { N = 70 };
    float src[N], back[N + 1];
    static uint8_t room_for_rows[N * 8 + 9], *raw = room_for_rows + 1;
    vc_draws d = vc_draws_of(9, 9, 9, 9);
    for (int i = 0; i < N; i++)
        src[i] = (float)(vc_draw_unit(&d) * 200) - 100;
    for (vc_dtype t = 0; t < VC_DTYPES; t++) {
        size_t size = vc_dtype_size(t);
        if (t == VC_NF4)                             /* two in a byte: test_packing */
            continue;
        if (t == VC_U8)                              /* a negative float has no u8 */
            for (int i = 0; i < N; i++)
                src[i] = fabsf(src[i]);
        for (size_t n = 0; n <= N; n += n < 20 ? 1 : 10) {
            memset(room_for_rows, 0xab, sizeof room_for_rows);
            vc_from_f32(raw, t, src, n);
            assert_int_equal(raw[n * size], 0xab);
            back[n] = 77;
            vc_to_f32(back, raw, t, n);
            assert_true(back[n] == 77);
            for (size_t i = 0; i < n; i++) {
                float one;
                uint64_t room[1];
                vc_from_f32(room, t, &src[i], 1);
                assert_memory_equal(room, raw + i * size, size);
                vc_to_f32(&one, room, t, 1);
                assert_int_equal(bits_of(one), bits_of(back[i]));
            }
        }
    }
}

static void test_whole_numbers(void **state)
{
    (void)state;
    static const float src[] = { 0, 1, -1, 100, -100, 2.9f, -2.9f };
    int64_t i64[COUNT(src)];
    int8_t i8[COUNT(src)];
    uint8_t b[COUNT(src)];
    float back[COUNT(src)];
    vc_from_f32(i64, VC_I64, src, COUNT(src));
    vc_from_f32(i8, VC_I8, src, COUNT(src));
    vc_from_f32(b, VC_BOOL, src, COUNT(src));
    for (size_t i = 0; i < COUNT(src); i++) {
        assert_int_equal(i64[i], (int64_t)src[i]);
        assert_int_equal(i8[i], (int8_t)src[i]);
        assert_int_equal(b[i], src[i] != 0);
    }
    b[0] = 5;                                        /* a file may hold any byte */
    vc_to_f32(back, b, VC_BOOL, 1);
    assert_true(back[0] == 1);
    static const float extreme[] = { NAN, INFINITY, -INFINITY, 1e30f, -1e30f, 9.3e18f, -9.3e18f };
    static const vc_dtype whole[] = { VC_I64, VC_I32, VC_I16, VC_I8, VC_U8, VC_BOOL };
    for (size_t t = 0; t < COUNT(whole); t++) {      /* values saturate, and NaN becomes 0 */
        int64_t out[COUNT(extreme)];
        vc_from_f32(out, whole[t], extreme, COUNT(extreme));
        vc_to_f32(back, out, whole[t], COUNT(extreme));
        assert_true(back[0] == (whole[t] == VC_BOOL));
        for (size_t i = 1; i < COUNT(extreme); i++) {
            assert_true(back[i] == back[i % 2 ? 1 : 2]);
            assert_true(i % 2 ? back[i] >= 1 : whole[t] == VC_BOOL ? back[i] == 1 : back[i] <= 0);
        }
    }
}

static void test_names(void **state)
{
    (void)state;
    static const struct { const char *name; vc_dtype t; } rows[] = {
        { "f32", VC_F32 },
        { "fp32", VC_F32 },
        { "float32", VC_F32 },
        { "torch.float32", VC_F32 },
        { "float", VC_F32 },
        { "bf16", VC_BF16 },
        { "torch.bfloat16", VC_BF16 },
        { "BF16", VC_BF16 },
        { "f16", VC_F16 },
        { "half", VC_F16 },
        { "torch.float16", VC_F16 },
        { "fp8", VC_F8E4M3 },
        { "float8_e4m3fn", VC_F8E4M3 },
        { "fp8_e5m2", VC_F8E5M2 },
        { "f64", VC_F64 },
        { "int64", VC_I64 },
        { "bool", VC_BOOL },
        { "", VC_DTYPE_NONE },
        { "f3", VC_DTYPE_NONE },
        { "f32 fp32", VC_DTYPE_NONE },
        { "torch.", VC_DTYPE_NONE },
        { "fp", VC_DTYPE_NONE },
        { "q4", VC_DTYPE_NONE },
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        if (vc_dtype_from_name(rows[i].name) != rows[i].t)
            fail_msg("\"%s\" is %d", rows[i].name, vc_dtype_from_name(rows[i].name));
    for (vc_dtype t = 0; t < VC_DTYPES; t++) {
        const char *st = vc_dtype_st_name(t);
        assert_int_equal(vc_dtype_from_name(vc_dtype_name(t)), t);
        assert_true(vc_dtype_size(t) >= 1 && vc_dtype_size(t) <= 8);
        assert_int_equal(vc_dtype_bytes(t, 6), t == VC_NF4 ? 3 : 6 * vc_dtype_size(t));
        assert_int_equal(vc_dtype_from_st_name(st, strlen(st)),
                         t < VC_FILE_DTYPES ? t : VC_DTYPE_NONE);
        if (t >= VC_FILE_DTYPES)
            continue;
        assert_int_equal(vc_dtype_from_st_name(st, strlen(st) - 1), VC_DTYPE_NONE);
    }
}

/* ---- rng ---- */

/* The known answers are those of Salmon et al. */
static void test_philox(void **state)
{
    (void)state;
    static const struct { uint32_t key[2], ctr[4], out[4]; } rows[] = {
        { { 0, 0 }, { 0, 0, 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
        { { ~0u, ~0u },
          { ~0u, ~0u, ~0u, ~0u },
          { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
        { { 0xa4093822, 0x299f31d0 },
          { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 },
          { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint32_t out[4];
        vc_philox(rows[i].key, rows[i].ctr, out);
        assert_memory_equal(out, rows[i].out, sizeof out);
    }
}

/* The key and the counter have the layout that docs/format.md describes. */
static void test_layout_of_draws(void **state)
{
    (void)state;
    const uint64_t seed = 0x1122334455667788, id = 0xaabbccddeeff0011;
    const uint32_t key[2] = { 0x55667788, 0x11223344 };
    uint32_t ctr[4] = { 0, 0xeeff0011, 0xaabbccdd, 3 * 256 + VC_DRAW_MASK }, w[4], got[4];

    vc_draws d = vc_draws_of(seed, id, 3, VC_DRAW_MASK);
    for (uint32_t k = 0; k < 3; k++) {
        ctr[0] = k;
        vc_philox(key, ctr, w);
        double want = ((w[0] >> 5) * 67108864.0 + (w[1] >> 6)) / 9007199254740992.0;
        assert_true(vc_draw_unit(&d) == want);
    }
    ctr[0] = 3;
    vc_philox(key, ctr, w);
    assert_int_equal(vc_draw_int(&d, 1000), (uint64_t)w[0] * 1000 >> 32);
    assert_int_equal(d.ctr[0], 4);
    assert_int_equal(vc_draw_int(&d, 1), 0);
    assert_int_equal(d.ctr[0], 5);

    const uint32_t block[4] = { 7, 2, 40, VC_DRAW_NOISE };
    vc_philox(key, block, w);
    vc_train_block(seed, 7, 2, 40, VC_DRAW_NOISE, got);
    assert_memory_equal(got, w, sizeof w);
    double unit = ((w[0] >> 5) * 67108864.0 + (w[1] >> 6)) / 9007199254740992.0;
    assert_true(vc_train_unit(seed, 7, 2, 40, VC_DRAW_NOISE) == unit);
}

/* Returns the upper 0.001 quantile of chi-square by Wilson and Hilferty. The seeds are fixed: a
 * right generator that passes once passes always. */
static double chi_limit(double df)
{
    double a = 2 / (9 * df), z = 3.09;
    return df * pow(1 - a + z * sqrt(a), 3);
}

static void check_uniform(const uint32_t *seen, uint32_t n, double draws, const double *share)
{
    double chi = 0;
    for (uint32_t i = 0; i < n; i++) {
        double want = share ? draws * share[i] : draws / n;
        chi += (seen[i] - want) * (seen[i] - want) / want;
    }
    if (chi > chi_limit(n - 1))
        fail_msg("chi-square %.1f over %.1f for %u outcomes", chi, chi_limit(n - 1), n);
}

static void test_draws_are_uniform(void **state)
{
    (void)state;
    static const uint32_t sizes[] = { 2, 3, 5, 7, 10, 40, 64, 100 };
    for (size_t k = 0; k < COUNT(sizes); k++) {
        uint32_t n = sizes[k], seen[100] = { 0 };
        for (uint64_t id = 0; id < 40000; id++) {    /* each id has its own stream */
            vc_draws d = vc_draws_of(5, id * 0x9E3779B97F4A7C15u, 0, VC_DRAW_START);
            uint32_t v = vc_draw_int(&d, n);
            assert_true(v < n);
            seen[v]++;
        }
        check_uniform(seen, n, 40000, NULL);
    }
    uint32_t seen[64] = { 0 };
    vc_draws d = vc_draws_of(6, 0, 0, 0);
    for (int i = 0; i < 64000; i++) {
        double u = vc_draw_unit(&d);
        assert_true(u >= 0 && u < 1);
        seen[(int)(u * 64)]++;
    }
    check_uniform(seen, 64, 64000, NULL);
}

/* For n = 3 * 2^30 a generator without rejection draws one value of three twice as often, and a
 * generator that takes the remainder draws the low third too often. */
static void test_large_ranges_have_no_bias(void **state)
{
    (void)state;
    const uint32_t n = 3u << 30;
    uint32_t part[3] = { 0 }, rest[3] = { 0 };
    vc_draws d = vc_draws_of(7, 1, 0, 0);
    for (int i = 0; i < 60000; i++) {
        uint32_t v = vc_draw_int(&d, n);
        assert_true(v < n);
        part[v >> 30]++;
        rest[v % 3]++;
    }
    check_uniform(part, 3, 60000, NULL);
    check_uniform(rest, 3, 60000, NULL);
    for (int i = 0; i < 1000; i++)
        assert_true(vc_draw_int(&d, UINT32_MAX) < UINT32_MAX);
}

static void test_weighted(void **state)
{
    (void)state;
    static const uint32_t weight[] = { 1, 2, 4, 4, 4, 4, 8, 8, 8, 4, 4, 4, 4, 2, 1 };
    enum { N = COUNT(weight), DRAWS = 62000 };
    uint32_t seen[N] = { 0 }, one[] = { 9 }, gap[] = { 0, 5, 0, 0 };
    double share[N];
    vc_draws d = vc_draws_of(8, 1, 0, VC_DRAW_RATIO);
    for (int i = 0; i < DRAWS; i++)
        seen[vc_draw_weighted(&d, weight, N)]++;
    for (int i = 0; i < N; i++)
        share[i] = weight[i] / 62.0;
    check_uniform(seen, N, DRAWS, share);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(vc_draw_weighted(&d, one, 1), 0);
        assert_int_equal(vc_draw_weighted(&d, gap, 4), 1);
    }
}

static void check_normal(const float *z, size_t n)
{
    double sum = 0, two = 0, three = 0, four = 0, pair = 0;
    for (size_t i = 0; i < n; i++)
        sum += z[i];
    double mean = sum / (double)n;
    for (size_t i = 0; i < n; i++) {
        double x = z[i] - mean;
        two += x * x;
        three += x * x * x;
        four += x * x * x * x;
        if (i)
            pair += x * (z[i - 1] - mean);
    }
    double var = two / (double)n, N = (double)n;
    /* four deviations of each estimate */
    assert_true(fabs(mean) < 4 / sqrt(N));
    assert_true(fabs(var - 1) < 4 * sqrt(2 / N));
    assert_true(fabs(three / N / pow(var, 1.5)) < 4 * sqrt(6 / N));
    assert_true(fabs(four / N / (var * var) - 3) < 4 * sqrt(24 / N));
    assert_true(fabs(pair / N / var) < 4 / sqrt(N));
}

static void test_normals(void **state)
{
    (void)state;
    enum { N = 200000 };
    float *z = malloc(N * sizeof *z), part[37];
    vc_train_normals(z, 0, N, 3, 1, 2, VC_DRAW_NOISE);
    check_normal(z, N);
    uint32_t bin[20] = { 0 };
    for (int i = 0; i < N; i++) {                    /* the quantiles are uniform */
        int b = (int)(20 * 0.5 * erfc(-z[i] / sqrt(2)));
        bin[b > 19 ? 19 : b]++;
    }
    check_uniform(bin, 20, N, NULL);
    /* a part of any length has the values of the whole */
    static const size_t first[] = { 0, 4, 100, N - 40 };
    for (size_t k = 0; k < COUNT(first); k++)
        for (size_t n = 0; n <= COUNT(part); n++) {
            vc_train_normals(part, first[k], n, 3, 1, 2, VC_DRAW_NOISE);
            assert_memory_equal(part, z + first[k], n * sizeof *z);
        }
    vc_draw_normals(z, N, 3, 77, 1, VC_DRAW_POSTERIOR);
    check_normal(z, N);
    free(z);

    /* the ends of the range stay finite */
    const uint32_t ends[][4] = { { 0, 0, 0, 0 }, { ~0u, ~0u, ~0u, ~0u }, { 0, ~0u, ~0u, 0 } };
    for (size_t k = 0; k < COUNT(ends); k++) {
        float out[4];
        vc_normal4(ends[k], out);
        for (int i = 0; i < 4; i++)
            assert_true(isfinite(out[i]) && fabsf(out[i]) < 7);
    }
}

static void test_streams_differ(void **state)
{
    (void)state;
    double base = vc_train_unit(1, 2, 3, 4, 5);
    assert_true(base == vc_train_unit(1, 2, 3, 4, 5));
    assert_true(base != vc_train_unit(2, 2, 3, 4, 5));
    assert_true(base != vc_train_unit(1ull << 32 | 1, 2, 3, 4, 5));
    assert_true(base != vc_train_unit(1, 3, 3, 4, 5));
    assert_true(base != vc_train_unit(1, 2, 4, 4, 5));
    assert_true(base != vc_train_unit(1, 2, 3, 5, 5));
    assert_true(base != vc_train_unit(1, 2, 3, 4, 6));
    static const struct { uint64_t seed, id; uint32_t variant, purpose; } rows[] = {
        { 1, 1, 0, 0 }, { 2, 1, 0, 0 }, { 1, 2, 0, 0 }, { 1, 1ull << 32 | 1, 0, 0 }, { 1, 1, 1, 0 },
        { 1, 1, 0, 1 }, { 1ull << 32 | 1, 1, 0, 0 },
    };
    double u[COUNT(rows)];
    for (size_t i = 0; i < COUNT(rows); i++) {
        vc_draws d = vc_draws_of(rows[i].seed, rows[i].id, rows[i].variant, rows[i].purpose);
        u[i] = vc_draw_unit(&d);
        for (size_t k = 0; k < i; k++)
            assert_true(u[i] != u[k]);
    }
}

static void test_permutation(void **state)
{
    (void)state;
    static const uint32_t sizes[] = { 0, 1, 2, 3, 10, 1000 };
    uint32_t order[1000], other[1000];
    for (size_t k = 0; k < COUNT(sizes); k++) {
        unsigned char seen[1000] = { 0 };
        vc_permutation(order, sizes[k], 42, 3);
        for (uint32_t i = 0; i < sizes[k]; i++) {
            assert_true(order[i] < sizes[k] && !seen[order[i]]);
            seen[order[i]] = 1;
        }
    }
    vc_permutation(other, 1000, 42, 3);
    assert_memory_equal(order, other, sizeof order);
    vc_permutation(other, 1000, 42, 4);
    assert_memory_not_equal(order, other, sizeof order);
    vc_permutation(other, 1000, 43, 3);
    assert_memory_not_equal(order, other, sizeof order);

    uint32_t kind[24] = { 0 };                       /* all orders of four are as frequent */
    for (uint64_t e = 0; e < 24000; e++) {
        vc_permutation(order, 4, 1, e);
        uint32_t rank = 0;
        for (int i = 0; i < 4; i++) {
            uint32_t smaller = 0;
            for (int j = i + 1; j < 4; j++)
                smaller += order[j] < order[i];
            rank = rank * (uint32_t)(4 - i) + smaller;
        }
        kind[rank]++;
    }
    check_uniform(kind, 24, 24000, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_small_code),
        cmocka_unit_test(test_rounding_at_ties),
        cmocka_unit_test(test_rounding_at_random),
        cmocka_unit_test(test_fp8_equals_torch),
        cmocka_unit_test(test_rows_of_values),
        cmocka_unit_test(test_whole_numbers),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_philox),
        cmocka_unit_test(test_layout_of_draws),
        cmocka_unit_test(test_draws_are_uniform),
        cmocka_unit_test(test_large_ranges_have_no_bias),
        cmocka_unit_test(test_weighted),
        cmocka_unit_test(test_normals),
        cmocka_unit_test(test_streams_differ),
        cmocka_unit_test(test_permutation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
