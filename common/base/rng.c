/* rng.c - Philox4x32-10 and its integer draws; see rng.h */
#include "common/base/rng.h"

void vc_philox(const uint32_t key[2], const uint32_t ctr[4], uint32_t out[4])
{
    uint32_t k0 = key[0], k1 = key[1];
    uint32_t c0 = ctr[0], c1 = ctr[1], c2 = ctr[2], c3 = ctr[3];

    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

vc_draws vc_draws_of(uint64_t seed, uint64_t id, uint32_t variant, uint32_t purpose)
{
    return (vc_draws){ .key = { (uint32_t)seed, (uint32_t)(seed >> 32) },
                       .ctr = { 0, (uint32_t)id, (uint32_t)(id >> 32),
                                variant * 256u + purpose } };
}

static void next_block(vc_draws *d, uint32_t w[4])
{
    vc_philox(d->key, d->ctr, w);
    d->ctr[0]++;
}

static double unit53(const uint32_t w[4])
{
    return ((double)(w[0] >> 5) * 67108864.0 + (double)(w[1] >> 6)) / 9007199254740992.0;
}

uint32_t vc_draw_int(vc_draws *d, uint32_t n)
{
    uint32_t floor = (uint32_t)-n % n;         /* 2^32 mod n: products below it are rejected */

    for (;;) {
        uint32_t w[4];
        next_block(d, w);
        for (int i = 0; i < 4; i++) {
            uint64_t p = (uint64_t)w[i] * n;
            if ((uint32_t)p >= floor)
                return (uint32_t)(p >> 32);
        }
    }
}

double vc_draw_unit(vc_draws *d)
{
    uint32_t w[4];
    next_block(d, w);
    return unit53(w);
}

uint32_t vc_draw_weighted(vc_draws *d, const uint32_t *weight, uint32_t n)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += weight[i];

    uint32_t u = vc_draw_int(d, sum), i = 0;
    while (i + 1 < n && u >= weight[i])
        u -= weight[i++];
    return i;
}

void vc_train_block(uint64_t seed, uint32_t quad, uint32_t row, uint32_t micro, uint32_t purpose,
                    uint32_t out[4])
{
    const uint32_t key[2] = { (uint32_t)seed, (uint32_t)(seed >> 32) };
    const uint32_t ctr[4] = { quad, row, micro, purpose };
    vc_philox(key, ctr, out);
}

double vc_train_unit(uint64_t seed, uint32_t quad, uint32_t row, uint32_t micro, uint32_t purpose)
{
    uint32_t w[4];
    vc_train_block(seed, quad, row, micro, purpose, w);
    return unit53(w);
}

void vc_permutation(uint32_t *order, uint32_t n, uint64_t seed, uint64_t epoch)
{
    vc_draws d = vc_draws_of(seed, epoch, 0, VC_DRAW_ORDER);

    for (uint32_t i = 0; i < n; i++)
        order[i] = i;
    for (uint32_t i = n; i > 1; i--) {
        uint32_t j = vc_draw_int(&d, i), t = order[i - 1];
        order[i - 1] = order[j];
        order[j] = t;
    }
}
