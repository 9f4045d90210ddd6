/* layout.c - row-major products described for cuBLASLt; see layout.h */
#include "common/cuda/layout.h"

vc_dtype cuda_gemm_type(vc_dtype compute, const vt_tensor *c, const vt_tensor *a,
                        const vt_tensor *b)
{
    if (c->dtype == VC_BF16)
        return VC_BF16;
    bool all = a->dtype == VC_F32 && b->dtype == VC_F32;
    return compute == VC_F32 || all ? VC_F32 : VC_BF16;
}

/* Returns the elements between rows, or 0 if t is no matrix of packed rows. The stride of a single
 * row is ignored. */
static int64_t leading(const vt_tensor *t)
{
    if (t->dim[1] > 1 && t->stride[1] != 1)
        return 0;
    if (t->dim[0] == 1)
        return t->dim[1];
    return t->stride[0] < t->dim[1] ? 0 : t->stride[0];
}

static int32_t alignment(const void *p)
{
    uintptr_t low = (uintptr_t)p | 256;

    return (int32_t)(low & -low);
}

bool cuda_gemm_of(cuda_gemm *g, const vt_tensor *c, const vt_tensor *a, bool ta,
                  const vt_tensor *b, bool tb, const cuda_epilogue *e)
{
    *g = (cuda_gemm){
        .m = c->dim[1], .n = c->dim[0], .k = a->dim[ta ? 0 : 1],
        .lda = leading(b), .ldb = leading(a), .ldc = leading(c),
        .type = (int32_t)a->dtype, .out_type = (int32_t)c->dtype,
        .ld_pre = e->pre ? leading(e->pre) : 0,
        .trans_a = tb, .trans_b = ta, .epilogue = e->kind,
        .align_a = alignment(b->data), .align_b = alignment(a->data),
        .align_c = alignment(c->data), .align_vector = alignment(e->vector),
        .align_pre = alignment(e->pre ? e->pre->data : NULL),
    };
    return g->lda && g->ldb && g->ldc;
}

bool cuda_epilogue_fits(const cuda_gemm *g, const cuda_epilogue *e)
{
    return !e->pre || ((int32_t)e->pre->dtype == g->out_type && g->ld_pre && g->ld_pre % 8 == 0 &&
                       g->align_pre >= 16);
}
