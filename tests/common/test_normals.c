/* test_normals.c - standard normals: known bits, the formula, requests of any length. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/rng.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))

static void same_bits(const char *name, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof *a))
            fail_msg("%s: element %zu is %a, expected %a", name, i, a[i], b[i]);
}

/* The Box-Muller transform in double gave these values, on which existing datasets depend. */
static const float drawn[] = {
    0x1.405ab2p+0, 0x1.8c736ep-2, -0x1.0b84a2p-1, 0x1.18b976p+0,
    -0x1.3f7202p+0, 0x1.82bebcp-1, -0x1.85bb82p+0, 0x1.8b4a0cp+0,
    0x1.41498ap-1, 0x1.dffcfcp-5, -0x1.953316p-3, 0x1.7a49fcp-3,
};
/* Words at the ends of the range and just below and above multiples of a right angle. */
static const struct { uint32_t w[4]; float z[4]; } ends[] = {
    { { 0, 0, 0xffffffff, 0xffffffff },
      { 0x1.b0e08ep+2, 0x1.53fb1ep-28, 0x1p-16, -0x1.921fc8p-47 } },
    { { 0xffffffff, 0x40000000, 0x7fffffff, 0xc0000000 },
      { -0x1.921fb6p-47, 0x1p-16, 0x1.d976f8p-31, -0x1.2d6abep+0 } },
    { { 1, 0x3fffffff, 0xb504f333, 0x20000000 },
      { 0x1.4bb74ep-28, 0x1.a65a98p+2, 0x1.2d6abep-1, 0x1.2d6abep-1 } },
};

static void known_bits(void **state)
{
    (void)state;
    float z[COUNT(drawn)];
    vc_train_normals(z, 4000, COUNT(z), 42, 3, 7, VC_DRAW_NOISE);
    same_bits("drawn", z, drawn, COUNT(z));
    for (size_t i = 0; i < COUNT(ends); i++) {
        vc_normal4(ends[i].w, z);
        same_bits("ends", z, ends[i].z, 4);
    }
}

/* The functions of the C library may be wrong by a unit in the last place of a double: a value near
 * a tie may round to the next f32. At most one of a million values differs, by one unit. */
static void formula(void **state)
{
    (void)state;
    enum { N = 1 << 20 };
    float *z = malloc(N * sizeof *z);
    size_t differ = 0;
    vc_train_normals(z, 0, N, 1, 2, 3, VC_DRAW_LATENT);
    for (uint32_t i = 0; i < N; i += 2) {
        uint32_t w[4];
        vc_train_block(1, i / 4, 2, 3, VC_DRAW_LATENT, w);
        double u = ((double)w[i % 4] + 0.5) * 0x1p-32, v = ((double)w[i % 4 + 1] + 0.5) * 0x1p-32;
        double r = sqrt(-2 * log(u)), a = 6.283185307179586476925 * v;
        const double want[2] = { r * cos(a), r * sin(a) };
        for (int k = 0; k < 2; k++) {
            differ += z[i + (uint32_t)k] != (float)want[k];
            assert_true(fabs((double)z[i + (uint32_t)k] - want[k]) <= 1.2e-7 * fabs(want[k]));
        }
    }
    assert_true(differ <= 1);
    free(z);
}

/* Vectors of any length and beginning have the values of single blocks. */
static void any_length(void **state)
{
    (void)state;
    enum { N = 1000 };
    float all[N], one[4], part[N];
    for (uint32_t i = 0; i < N; i += 4) {
        uint32_t w[4];
        vc_train_block(77, i / 4, 5, 6, VC_DRAW_NOISE, w);
        vc_normal4(w, one);
        memcpy(all + i, one, sizeof one);
    }
    for (size_t first = 0; first < 300; first += 4)
        for (size_t n = 0; n < 300; n += 1 + n / 3) {
            part[n] = 7;
            vc_train_normals(part, first, n, 77, 5, 6, VC_DRAW_NOISE);
            same_bits("part", part, all + first, n);
            assert_true(part[n] == 7);                           /* no write past the end */
        }
    /* the counter's first word wraps around */
    vc_train_normals(part, (uint64_t)UINT32_MAX * 4, 12, 77, 5, 6, VC_DRAW_NOISE);
    same_bits("wrapped", part + 4, all, 8);
}

static void dataset_draws(void **state)
{
    (void)state;
    float z[9], want[12];
    vc_draws d = vc_draws_of(5, 1ull << 40 | 9, 3, VC_DRAW_POSTERIOR);
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t w[4], ctr[4] = { i, d.ctr[1], d.ctr[2], d.ctr[3] };
        vc_philox(d.key, ctr, w);
        vc_normal4(w, want + i * 4);
    }
    vc_draw_normals(z, 9, 5, 1ull << 40 | 9, 3, VC_DRAW_POSTERIOR);
    same_bits("dataset", z, want, 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_bits), cmocka_unit_test(formula), cmocka_unit_test(any_length),
        cmocka_unit_test(dataset_draws),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
