/* packing.c - see packing.h */
#include "common/tensor/packing.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

static const vt_packing all[] = {
    { .type = VC_F8E4M3, .most = 448, .power = true },
    { .type = VC_I8, .most = 127 },
    { .type = VC_NF4, .block = 64, .least = 16, .most = 1 },
};

const vt_packing *vt_packing_of(vc_dtype type)
{
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].type == type)
            return &all[i];
    return NULL;
}

bool vt_is_code(vc_dtype type)
{
    return vt_packing_of(type) || type == VC_F8E5M2;
}

int64_t vt_packing_scales(const vt_packing *p, int64_t n)
{
    int64_t block = p->block;

    if (!block)
        return 1;
    while (n % block)
        block /= 2;
    return block < p->least ? 0 : n / block;
}

int64_t vt_packing_bytes(const vt_packing *p, int64_t out, int64_t in)
{
    return (int64_t)vc_dtype_bytes(p->type, (size_t)(out * in)) +
           out * vt_packing_scales(p, in) * (int64_t)sizeof(float);
}

/* Returns a scale that brings `most` to the largest code, at most. */
static float scale_of(const vt_packing *p, float most)
{
    int e;

    if (!(most > 0))
        return 1;
    if (!p->power)
        return most / p->most;
    frexpf(most / p->most, &e);                /* 0.5..1 times 2^e */
    return ldexpf(1, e > -126 ? e : -126);
}

/* Returns the largest magnitude of n numbers; infinity or NaN if one of them is none. As integers,
 * bits without the sign have the order of the numbers, and processors compare many at a time. */
static float most_of(const float *v, int64_t n)
{
    int32_t most = 0;
    float f;

    for (int64_t i = 0; i < n; i++) {
        int32_t bits;
        memcpy(&bits, &v[i], sizeof bits);
        bits &= INT32_MAX;
        most = bits > most ? bits : most;
    }
    memcpy(&f, &most, sizeof f);
    return f;
}

/* A sum with 1.5 * 2^23 has no room for a fraction: it is rounded to the nearest whole number, as
 * rintf does. */
static float nearest(float f) { return (f + 0x1.8p23f) - 0x1.8p23f; }

bool vt_pack_codes(const vt_packing *p, void *codes, float *scales, float *row, int64_t n)
{
    const int64_t blocks = vt_packing_scales(p, n), each = n / blocks;
    const bool whole = p->type == VC_I8;       /* a conversion to integers drops the fraction */
    const float code = p->most;
    bool finite = true;

    for (int64_t b = 0; b < blocks; b++) {
        float *v = row + b * each;
        const float most = most_of(v, each), scale = scale_of(p, most);
        finite &= isfinite(most);
        scales[b] = scale;
        for (int64_t i = 0; i < each; i++) {
            float x = v[i] / scale;
            x = x < -code ? -code : x;
            x = x > code ? code : x;
            v[i] = whole ? nearest(x) : x;
        }
    }
    if (finite)
        vc_from_f32(codes, p->type, row, (size_t)n);
    return finite;
}
