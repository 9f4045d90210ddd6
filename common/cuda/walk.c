/* walk.c - converts tensors to walks; see cuda.h */
#include "common/cuda/cuda.h"

_Static_assert((int)VK_F32 == (int)VC_F32 && (int)VK_BF16 == (int)VC_BF16 &&
                   (int)VK_F16 == (int)VC_F16 && (int)VK_F8E4M3 == (int)VC_F8E4M3 &&
                   (int)VK_F8E5M2 == (int)VC_F8E5M2 && (int)VK_I8 == (int)VC_I8 &&
                   (int)VK_NF4 == (int)VC_NF4 && (int)VK_AXES == (int)VT_DIMS &&
                   (int)VK_OPERANDS == (int)VT_OPERANDS,
               "the kernels' types and sizes must be the engine's");

/* Whether packs of all operands are loaded by 16 bytes; an operand of step 0 has none. */
static bool whole(const vk_walk *w)
{
    bool yes = w->n % 8 == 0 && w->n <= 1 << 28 && !w->far;

    for (int o = 0; o < VK_OPERANDS; o++) {
        if (!w->data[o] || w->step[o] == 0)
            continue;
        yes &= w->step[o] == 1 && w->type[o] <= VK_BF16 && ((uintptr_t)w->data[o] & 15) == 0;
        for (int i = 0; i < w->nd; i++)
            yes &= w->stride[i][o] % 16 == 0;
    }
    return yes;
}

bool cuda_walk(vt_dev *d, vk_walk *w, const char *op, int k, const vt_tensor *const *t, bool join)
{
    const vt_walk of = vt_walk_of(k, t, join);
    const int64_t packs = (of.n + 7) / 8;
    int64_t all;

    *w = (vk_walk){ .nd = of.nd, .n = of.n, .rows = (uint32_t)of.rows, .packs = (uint32_t)packs };
    for (int i = 0; i < of.nd; i++)
        w->dim[i] = (uint32_t)of.dim[i];
    for (int o = 0; o < k; o++) {
        w->data[o] = of.data[o];
        w->type[o] = (int8_t)of.type[o];
        w->size[o] = (int8_t)vc_dtype_size(of.type[o]);
        w->step[o] = of.step[o];
        w->hop[o] = 8 * w->step[o] * w->size[o];
        w->far |= w->hop[o] != (int32_t)w->hop[o];
        for (int i = 0; i < of.nd; i++) {
            w->stride[i][o] = of.stride[o][i] * w->size[o];
            w->far |= w->stride[i][o] != (int32_t)w->stride[i][o];
        }
    }
    w->whole = whole(w);
    if (!__builtin_mul_overflow(of.rows, packs, &all) && all <= INT32_MAX)
        return true;
    cuda_fault(d, VC_EINVAL, "%s: more than 2^31 packs of eight elements are not possible", op);
    return false;
}
