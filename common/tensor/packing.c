/* packing.c - see packing.h */
#include "common/tensor/packing.h"

#include <math.h>

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

bool vt_pack_codes(const vt_packing *p, void *codes, float *scales, float *row, int64_t n)
{
    const int64_t blocks = vt_packing_scales(p, n), each = n / blocks;
    bool finite = true;

    for (int64_t b = 0; b < blocks; b++) {
        float most = 0, *v = row + b * each;
        for (int64_t i = 0; i < each; i++) {
            most = fmaxf(most, fabsf(v[i]));
            finite &= isfinite(v[i]);
        }
        scales[b] = scale_of(p, most);
        for (int64_t i = 0; i < each; i++) {
            v[i] = fminf(p->most, fmaxf(-p->most, v[i] / scales[b]));
            if (p->type == VC_I8)              /* a conversion to integers drops the fraction */
                v[i] = rintf(v[i]);
        }
    }
    if (finite)
        vc_from_f32(codes, p->type, row, (size_t)n);
    return finite;
}
