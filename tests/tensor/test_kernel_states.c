/* test_kernel_states.c - the row kernels of an optimiser's states in fewer bits, of every set that
 * this machine runs, against common/kernels/moments.h. */
#include <math.h>
#include <string.h>

#include "common/kernels/moments.h"
#include "tests/tensor/kernels_dev.h"

#define EACH_ROWS(s) for (const cpu_rows *const *s = kd_rows(); *s; s++)

/* Rounds with the draws of moments.h on every set, at any size, where a pack's number passes 2^32,
 * and numbers that are not finite or have the largest and the least exponents. */
TEST(store_randomly_as_packs)
{
    static const uint32_t odd[] = { 0x7f800000, 0xff800000, 0x7fc00001, 0x7f7fffff, 0x00000001,
                                    0x007fffff, 0x80000000, 0x3f80ffff };
    enum { N = 1000 };
    const vk_draws d = { { 11, 12 }, 13, 14, 0xffffffe0u };
    float x[N];

    (void)state;
    for (int i = 0; i < N; i++)
        x[i] = i < (int)COUNT(odd) ? vk_float(odd[i]) : sinf((float)i) * ldexpf(1, i % 90 - 45);
    for (size_t n = 0; n <= N; n += n < 300 ? 7 : 100) {
        uint16_t want[N + 8], got[N + 8];
        memset(want, 0xa5, sizeof want);
        for (size_t i = 0; i < n; i += 8) {
            int some = n - i < 8 ? (int)(n - i) : 8;
            vk_store8_randomly((char *)(want + i), some,
                               vk_load8((const char *)(x + i), VK_F32, 1, some), &d, 5 + i / 8, 2);
        }
        EACH_ROWS(s) {
            memset(got, 0xa5, sizeof got);
            (*s)->store_randomly(got, x, n, &d, 5, 2);
            for (size_t i = 0; i < N + 8; i++)
                if (got[i] != want[i])
                    fail_msg("%s: number %zu of %zu is %04x, not %04x", (*s)->name, i, n, got[i],
                             want[i]);
        }
    }
}

/* Every set finds the code of the nearest value, as moments.h does. Numbers at a border, whose
 * distances to two values are one but for the last bit of f32, NaN and zeros are among them. */
TEST(codes_are_the_nearest)
{
    enum { N = 4096 };
    static const struct { float (*value)(uint8_t); uint8_t (*code)(float); bool square; } maps[] = {
        { vk_m_value, vk_m_code, false }, { vk_v_value, vk_v_code, true } };
    float x[N], back[N];
    uint8_t code[N];

    (void)state;
    for (size_t m = 0; m < COUNT(maps); m++) {
        cpu_codes c;
        cpu_codes_of(&c, maps[m].value, maps[m].square);
        for (int i = 0; i < N; i++) {
            float border = c.border[i % 255];
            float sign = i % 2 && !maps[m].square ? -1.0f : 1.0f;
            x[i] = i < 255   ? border
                   : i < 510 ? nextafterf(border, 2)
                   : i < 765 ? nextafterf(border, -2)
                             : sign * powf(10, -9 * (float)i / N);
        }
        x[1000] = NAN;
        x[1001] = 0;
        x[1002] = 1;
        for (int zeros = 0; zeros < 2; zeros++) {
            if (zeros)
                memset(x, 0, sizeof x);
            EACH_ROWS(s)
                for (size_t n = N - 20; n <= N; n++) {
                    assert_true((*s)->store_codes(code, x, n, &c) == (zeros ? 0.0f : 1.0f));
                    (*s)->load_codes(back, code, n, 2, &c);
                    for (size_t i = 0; i < n; i++) {
                        uint8_t want = maps[m].code(isnan(x[i]) ? 0 : x[i]);
                        float near = fabsf(maps[m].value(code[i]) - x[i]);
                        float off = near - fabsf(maps[m].value(want) - x[i]);
                        if (code[i] != want && !(off <= 1.2e-7f * fabsf(x[i])) && !isnan(x[i]))
                            fail_msg("%s: the code of %g is %d, not %d", (*s)->name, (double)x[i],
                                     code[i], want);
                        assert_true(back[i] == 2 * maps[m].value(code[i]));
                    }
                }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(store_randomly_as_packs), cmocka_unit_test(codes_are_the_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
