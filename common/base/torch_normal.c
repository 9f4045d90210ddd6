/* torch_normal.c - see torch_normal.h */
#include "common/base/torch_normal.h"

#include <math.h>

enum { WORDS = 624, NEAR = 397, GROUP = 16 };

typedef struct twister {
    uint32_t word[WORDS];
    int used;
} twister;

static void twister_seed(twister *t, uint32_t seed)
{
    t->word[0] = seed;
    for (uint32_t i = 1; i < WORDS; i++)
        t->word[i] = 1812433253u * (t->word[i - 1] ^ t->word[i - 1] >> 30) + i;
    t->used = WORDS;
}

static void twister_turn(twister *t)
{
    uint32_t *w = t->word;
    for (int i = 0; i < WORDS; i++) {
        const uint32_t y = (w[i] & 0x80000000u) | (w[(i + 1) % WORDS] & 0x7fffffffu);
        w[i] = w[(i + NEAR) % WORDS] ^ y >> 1 ^ (y & 1 ? 0x9908b0dfu : 0);
    }
    t->used = 0;
}

static uint32_t twister_next(twister *t)
{
    if (t->used == WORDS)
        twister_turn(t);
    uint32_t y = t->word[t->used++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}

/* A uniform number of [0,1) with the 24 bits of an f32. */
static float uniform(twister *t)
{
    return (float)(twister_next(t) & 0xffffffu) * 0x1p-24f;
}

/* Makes normals of GROUP uniform numbers: the first half are radii, the second half angles. */
static void box_muller(float *x)
{
    for (int i = 0; i < GROUP / 2; i++) {
        const double radius = sqrt(-2 * log(1 - (double)x[i]));
        const double angle = 2 * M_PI * (double)x[i + GROUP / 2];
        x[i] = (float)(radius * cos(angle));
        x[i + GROUP / 2] = (float)(radius * sin(angle));
    }
}

int vc_torch_normals(float *out, size_t n, uint64_t seed, vc_err *err)
{
    twister t;
    if (n < GROUP)
        return vc_fail(err, VC_EINVAL, "noise of a seed: %zu numbers, at least %d expected", n,
                       GROUP);
    twister_seed(&t, (uint32_t)seed);
    for (size_t i = 0; i < n; i++)
        out[i] = uniform(&t);
    for (size_t i = 0; i + GROUP <= n; i += GROUP)
        box_muller(out + i);
    if (n % GROUP) {                              /* the last group is drawn again, whole */
        for (size_t i = n - GROUP; i < n; i++)
            out[i] = uniform(&t);
        box_muller(out + n - GROUP);
    }
    return 0;
}
