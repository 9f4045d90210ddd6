/* test_packing.c - weights in int8 and nf4: codes, scales and values are those of bitsandbytes
 * (scripts/golden/packings.py), for rows of any length. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/tensor/packing.h"
#include "formats/tensors/safetensors.h"
#include "tests/lib/golden.h"

enum { OUT = 24, IN = 192 };

static const struct packed {
    vc_dtype type;
    const char *weight, *codes, *absmax, *values;
    int64_t scales;                            /* of a row */
    float most;                                /* absmax / scale */
    int apart;                                 /* codes that may differ by 1: bitsandbytes
                                                * multiplies by a reciprocal and a half rounds to
                                                * either side */
} all[] = {
    { VC_NF4, "weight", "nf4/codes", "nf4/absmax", "nf4/values", IN / 64, 1, 0 },
    { VC_I8, "int8/of", "int8/codes", "int8/absmax", "int8/values", 1, 127, 1 },
};

static void test_golden(void **state)
{
    vf_safetensors *f = golden_open("packings");

    (void)state;
    for (size_t c = 0; c < sizeof all / sizeof *all; c++) {
        const struct packed *a = &all[c];
        const vt_packing *p = vt_packing_of(a->type);
        float *weight = golden_values(f, a->weight, NULL);
        float *values = golden_values(f, a->values, NULL);
        float *absmax = golden_values(f, a->absmax, NULL);
        const size_t bytes = vc_dtype_bytes(a->type, IN);
        int apart = 0;
        vf_view codes;
        assert_int_equal(vf_safetensors_get(f, a->codes, &codes, NULL), 0);
        assert_int_equal(codes.bytes, OUT * bytes);
        assert_int_equal(vt_packing_scales(p, IN), a->scales);
        assert_int_equal(vt_packing_bytes(p, OUT, IN), OUT * (bytes + 4 * (size_t)a->scales));
        for (int o = 0; o < OUT; o++) {
            float scale[IN], got[IN];
            uint8_t row[IN];
            const uint8_t *want = (const uint8_t *)codes.data + (size_t)o * bytes;
            assert_true(vt_pack_codes(p, row, scale, weight + o * IN, IN));
            vc_to_f32(got, row, a->type, IN);
            for (size_t i = 0; i < bytes; i++) {
                assert_true(abs((int8_t)row[i] - (int8_t)want[i]) <= a->apart);
                apart += row[i] != want[i];
            }
            for (int i = 0; i < IN; i++) {
                const int64_t b = i / (IN / a->scales), at = o * a->scales + b;
                if (absmax[at] > 0)            /* zeros have the scale 1 here */
                    assert_true(fabsf(scale[b] * a->most - absmax[at]) <= 1e-6f * absmax[at]);
                assert_true(fabsf(got[i] * scale[b] - values[o * IN + i]) <=
                            (float)a->apart * scale[b] + 1e-6f * absmax[at]);
            }
        }
        assert_true(apart <= OUT * IN / 1000 * a->apart);
        free(weight);
        free(values);
        free(absmax);
    }
    float *table = golden_values(f, "nf4/table", NULL);
    assert_memory_equal(table, vc_nf4, sizeof vc_nf4);
    free(table);
    vf_safetensors_close(f);
}

/* Rows of any length: what they pack to, and what cannot be packed. */
static void test_rows(void **state)
{
    static const struct { vc_dtype type; int64_t n, scales; } rows[] = {
        { VC_NF4, 64, 1 }, { VC_NF4, 128, 2 }, { VC_NF4, 96, 3 }, { VC_NF4, 48, 3 },
        { VC_NF4, 16, 1 }, { VC_NF4, 8, 0 }, { VC_NF4, 24, 0 }, { VC_NF4, 33, 0 },
        { VC_I8, 33, 1 }, { VC_I8, 1, 1 }, { VC_F8E4M3, 33, 1 },
    };
    float row[4] = { 1, NAN, 0, 0 }, scale;
    uint8_t codes[4];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(vt_packing_scales(vt_packing_of(rows[i].type), rows[i].n), rows[i].scales);
    assert_null(vt_packing_of(VC_BF16));
    assert_true(vt_is_code(VC_F8E5M2) && vt_is_code(VC_NF4) && !vt_is_code(VC_F16));
    assert_false(vt_pack_codes(vt_packing_of(VC_I8), codes, &scale, row, 4));
    memcpy(row, (float[]){ 1e-44f, 0, -1e-44f, 0 }, sizeof row);   /* denormals stay finite */
    assert_true(vt_pack_codes(vt_packing_of(VC_I8), codes, &scale, row, 4));
    assert_true(isfinite(scale));
}

/* Returns the code of the number of the table that is nearest to f, the lower of two. */
static unsigned nearest(float f)
{
    unsigned best = 0;
    for (unsigned c = 1; c < 16; c++)
        if (fabs((double)vc_nf4[c] - f) < fabs((double)vc_nf4[best] - f))
            best = c;
    return best;
}

/* Numbers become nf4 two in a byte, in rows of any length, and NaN becomes 0, as does what is
 * behind an odd number of them. */
static void test_nf4(void **state)
{
    enum { N = 150, GUARD = 0xab };
    float src[N + 1], back[N + 1];
    uint8_t codes[N / 2 + 2];

    (void)state;
    for (int i = 0; i < N; i++)                /* -1.5 to 1.5, and no boundary between codes */
        src[i] = (float)((i * 7919) % 3001 - 1500) / 1000.0f + 1e-5f;
    src[0] = 0;
    src[3] = NAN;
    src[4] = INFINITY;
    src[70] = -INFINITY;
    for (size_t n = 0; n <= N; n++) {
        memset(codes, GUARD, sizeof codes);
        vc_from_f32(codes, VC_NF4, src, n);
        vc_to_f32(back, codes, VC_NF4, n);
        for (size_t i = 0; i < n; i++) {
            const unsigned code = i % 2 ? codes[i / 2] & 15 : codes[i / 2] >> 4;
            const float f = fminf(2, fmaxf(-2, src[i]));
            assert_int_equal(code, nearest(isnan(src[i]) ? 0 : f));
            assert_true(back[i] == vc_nf4[code]);
        }
        assert_true(n % 2 == 0 || vc_nf4[codes[n / 2] & 15] == 0);
        assert_int_equal(codes[(n + 1) / 2], GUARD);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden), cmocka_unit_test(test_rows), cmocka_unit_test(test_nf4),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
