/* blas.c - products and their epilogues by cuBLASLt; see kernel_list.h
 *
 * Each shape has one plan: descriptors and the first algorithm that the library's heuristic returns
 * for the addresses' true alignment and WORKSPACE. Bias, GELU and its slope, and a bias's gradient
 * are epilogues of the library; if it has none for a shape or its types, a product without one and
 * kernels for rows follow (here and in epilogue.c). */
#include <cublasLt.h>
#include <stdlib.h>
#include <string.h>

#include "common/cuda/device.h"
#include "common/cuda/layout.h"

static const size_t WORKSPACE = 32 << 20;      /* bytes that Hopper's kernels need */

typedef struct plan {
    cuda_gemm key;
    cublasStatus_t rc;                         /* not 0: the library has no plan */
    cublasLtMatmulDesc_t op;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algo;
} plan;

struct cuda_blas {
    cublasLtHandle_t handle;
    plan *plans;                               /* newest last */
    int n, room;
};

int cuda_blas_open(vt_dev *d, vc_err *err)
{
    d->blas = calloc(1, sizeof *d->blas);
    if (!d->blas)
        return vc_fail(err, VC_ENOMEM, "cuda: out of memory");
    cublasStatus_t rc = cublasLtCreate(&d->blas->handle);
    return rc ? vc_fail(err, VC_EFAIL, "cuBLASLt: %s", cublasLtGetStatusString(rc)) : 0;
}

static void plan_free(plan *p)
{
    if (p->c)
        cublasLtMatrixLayoutDestroy(p->c);
    if (p->b)
        cublasLtMatrixLayoutDestroy(p->b);
    if (p->a)
        cublasLtMatrixLayoutDestroy(p->a);
    if (p->op)
        cublasLtMatmulDescDestroy(p->op);
}

void cuda_blas_close(cuda_blas *b)
{
    if (!b)
        return;
    for (int i = 0; i < b->n; i++)
        plan_free(&b->plans[i]);
    free(b->plans);
    if (b->handle)
        cublasLtDestroy(b->handle);
    free(b);
}

/* ---- plans ---- */

static cudaDataType_t data_type(int32_t t) { return t == VC_F32 ? CUDA_R_32F : CUDA_R_16BF; }

static cublasStatus_t set(plan *p, cublasLtMatmulDescAttributes_t what, const void *v, size_t size)
{
    return cublasLtMatmulDescSetAttribute(p->op, what, v, size);
}

static cublasLtEpilogue_t epilogue_of(int32_t epilogue)
{
    static const struct { int32_t epilogue; cublasLtEpilogue_t name; } all[] = {
        { CUDA_BIAS_ADDED, CUBLASLT_EPILOGUE_BIAS },
        { CUDA_GELU, CUBLASLT_EPILOGUE_GELU },
        { CUDA_GELU | CUDA_BIAS_ADDED, CUBLASLT_EPILOGUE_GELU_BIAS },
        { CUDA_GELU | CUDA_PRE_STORED, CUBLASLT_EPILOGUE_GELU_AUX },
        { CUDA_GELU | CUDA_PRE_STORED | CUDA_BIAS_ADDED, CUBLASLT_EPILOGUE_GELU_AUX_BIAS },
        { CUDA_GELU_SLOPE, CUBLASLT_EPILOGUE_DGELU },
        { CUDA_BIAS_GRAD, CUBLASLT_EPILOGUE_BGRADB },
    };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].epilogue == epilogue)
            return all[i].name;
    return CUBLASLT_EPILOGUE_DEFAULT;
}

/* Sets the pointers of an epilogue. The heuristic needs them too, as it checks their alignment. */
static cublasStatus_t point(plan *p, const cuda_epilogue *e)
{
    cublasStatus_t rc = CUBLAS_STATUS_SUCCESS;

    if (e->vector)
        rc = set(p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &e->vector, sizeof e->vector);
    if (!rc && e->pre)
        rc = set(p, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &e->pre->data,
                 sizeof e->pre->data);
    return rc;
}

static cublasStatus_t describe(plan *p, const cuda_epilogue *e)
{
    const cuda_gemm *g = &p->key;
    cublasOperation_t ta = g->trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t tb = g->trans_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = epilogue_of(g->epilogue);
    cudaDataType_t in = data_type(g->type), out = data_type(g->out_type);

    cublasStatus_t rc = cublasLtMatmulDescCreate(&p->op, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (!rc)
        rc = set(p, CUBLASLT_MATMUL_DESC_TRANSA, &ta, sizeof ta);
    if (!rc)
        rc = set(p, CUBLASLT_MATMUL_DESC_TRANSB, &tb, sizeof tb);
    if (!rc)
        rc = set(p, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    if (!rc && e->vector)
        rc = set(p, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &out, sizeof out);
    if (!rc && e->pre)
        rc = set(p, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &g->ld_pre, sizeof g->ld_pre);
    if (!rc)
        rc = point(p, e);
    if (!rc)
        rc = cublasLtMatrixLayoutCreate(&p->a, in, (uint64_t)(g->trans_a ? g->k : g->m),
                                        (uint64_t)(g->trans_a ? g->m : g->k), g->lda);
    if (!rc)
        rc = cublasLtMatrixLayoutCreate(&p->b, in, (uint64_t)(g->trans_b ? g->n : g->k),
                                        (uint64_t)(g->trans_b ? g->k : g->n), g->ldb);
    if (!rc)
        rc = cublasLtMatrixLayoutCreate(&p->c, out, (uint64_t)g->m, (uint64_t)g->n, g->ldc);
    return rc;
}

static cublasStatus_t choose(cuda_blas *b, plan *p)
{
    const struct { cublasLtMatmulPreferenceAttributes_t what; uint32_t bytes; } aligned[] = {
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, (uint32_t)p->key.align_a },
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, (uint32_t)p->key.align_b },
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, (uint32_t)p->key.align_c },
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, (uint32_t)p->key.align_c },
    };
    cublasLtMatmulHeuristicResult_t found[8];
    cublasLtMatmulPreference_t wish;
    int n = 0;

    cublasStatus_t rc = cublasLtMatmulPreferenceCreate(&wish);
    if (rc)
        return rc;
    rc = cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                              &WORKSPACE, sizeof WORKSPACE);
    for (size_t i = 0; i < sizeof aligned / sizeof *aligned && !rc; i++)
        rc = cublasLtMatmulPreferenceSetAttribute(wish, aligned[i].what, &aligned[i].bytes,
                                                  sizeof aligned[i].bytes);
    if (!rc)
        rc = cublasLtMatmulAlgoGetHeuristic(b->handle, p->op, p->a, p->b, p->c, p->c, wish, 8,
                                            found, &n);
    cublasLtMatmulPreferenceDestroy(wish);
    if (!rc && !n)
        rc = CUBLAS_STATUS_NOT_SUPPORTED;
    if (!rc)
        p->algo = found[0].algo;
    return rc;
}

static void fault(vt_dev *d, const cuda_gemm *g, cublasStatus_t rc)
{
    cuda_fault(d, VC_EFAIL, "matmul %lld x %lld x %lld, %s to %s: cuBLASLt: %s", (long long)g->n,
               (long long)g->m, (long long)g->k, vc_dtype_name((vc_dtype)g->type),
               vc_dtype_name((vc_dtype)g->out_type), cublasLtGetStatusString(rc));
}

/* Returns the plan of a product, made at its first use; NULL after a fault. */
static plan *plan_of(vt_dev *d, const cuda_gemm *g, const cuda_epilogue *e)
{
    cuda_blas *b = d->blas;

    for (int i = b->n; i-- > 0;)
        if (!memcmp(&b->plans[i].key, g, sizeof *g))
            return &b->plans[i];
    if (b->n == b->room) {
        int room = b->room ? 2 * b->room : 64;
        plan *p = realloc(b->plans, (size_t)room * sizeof *p);
        if (!p) {
            cuda_fault(d, VC_ENOMEM, "matmul: out of memory");
            return NULL;
        }
        b->plans = p;
        b->room = room;
    }
    plan *p = &b->plans[b->n];
    *p = (plan){ .key = *g };
    p->rc = describe(p, e);
    if (!p->rc)
        p->rc = choose(b, p);
    b->n++;
    return p;
}

/* ---- products ---- */

/* Sets *out to x if x has the type, else to a packed copy. False after a fault. */
static bool operand(vt_dev *d, cuda_area area, vc_dtype type, const vt_tensor *x, vt_tensor *out)
{
    *out = *x;
    if (x->dtype == type)
        return true;
    out->data = (void *)(uintptr_t)cuda_convert(d, area, type, x);
    out->dtype = type;
    out->scale = NULL;
    int64_t stride = 1;
    for (int i = x->nd; i-- > 0; stride *= x->dim[i])
        out->stride[i] = stride;
    return out->data != NULL;
}

/* Computes c = alpha op(a) op(b) + beta c with its epilogue. Returns false, and computes nothing,
 * if the library has no such epilogue for these operands. */
static bool product(vt_dev *d, vt_tensor *c, const vt_tensor *a, bool ta, const vt_tensor *b,
                    bool tb, float alpha, float beta, const cuda_epilogue *e)
{
    vc_dtype type = cuda_gemm_type(d->compute, c, a, b);
    vt_tensor left, right;
    cuda_gemm g;

    if (c->dtype > VC_BF16 || !operand(d, CUDA_LEFT, type, a, &left) ||
        !operand(d, CUDA_RIGHT, type, b, &right) ||
        !cuda_gemm_of(&g, c, &left, ta, &right, tb, e)) {
        cuda_fault(d, VC_EINVAL, "matmul: an operand is not a matrix of f32 or bf16 rows");
        return true;
    }
    if (!cuda_epilogue_fits(&g, e))
        return false;
    void *workspace = cuda_scratch(d, CUDA_WORKSPACE, WORKSPACE);
    plan *p = workspace ? plan_of(d, &g, e) : NULL;
    if (!p)
        return true;
    if (p->rc && e->kind)
        return false;
    cublasStatus_t rc = p->rc ? p->rc : point(p, e);
    if (!rc)
        rc = cublasLtMatmul(d->blas->handle, p->op, &alpha, right.data, p->a, left.data, p->b,
                            &beta, c->data, p->c, c->data, p->c, &p->algo, workspace, WORKSPACE,
                            (cudaStream_t)d->stream);
    if (rc)
        fault(d, &g, rc);
    return true;
}

/* In a dry step counts the scratch of a product and returns true. */
static bool counted(vt_dev *d, const vt_tensor *c, const vt_tensor *a, const vt_tensor *b,
                    const vt_tensor *bias)
{
    if (!d->dry)
        return false;
    vc_dtype type = cuda_gemm_type(d->compute, c, a, b);
    cuda_convert(d, CUDA_LEFT, type, a);
    cuda_convert(d, CUDA_RIGHT, type, b);
    if (bias)
        cuda_convert(d, CUDA_BIAS, c->dtype, bias);
    cuda_scratch(d, CUDA_WORKSPACE, WORKSPACE);
    return true;
}

/* Returns the bias in the result's type; NULL without a bias, or after a fault. */
static void *bias_of(vt_dev *d, const vt_tensor *bias, const vt_tensor *c)
{
    return bias ? (void *)(uintptr_t)cuda_convert(d, CUDA_BIAS, c->dtype, bias) : NULL;
}

void cuda_matmul(vt_dev *d, vt_tensor *c, const vt_tensor *a, bool ta, const vt_tensor *b, bool tb,
                 const vt_tensor *bias, float alpha, float beta)
{
    if (counted(d, c, a, b, bias))
        return;
    void *add = bias_of(d, bias, c);
    if (bias && !add)
        return;
    if (product(d, c, a, ta, b, tb, alpha, beta,
                &(cuda_epilogue){ bias ? CUDA_BIAS_ADDED : 0, add, NULL }))
        return;
    product(d, c, a, ta, b, tb, alpha, beta, &(cuda_epilogue){ 0, NULL, NULL });
    vt_tensor rows = vt_expand(bias, c);
    cuda_binary(d, VT_ADD, c, c, &rows);
}

bool cuda_fused_gelu(vt_dev *d, vt_tensor *y, vt_tensor *pre, const vt_tensor *a,
                     const vt_tensor *b, bool tb, const vt_tensor *bias, float alpha, float beta)
{
    const int32_t kind = CUDA_GELU | (bias ? CUDA_BIAS_ADDED : 0) | (pre ? CUDA_PRE_STORED : 0);
    if (counted(d, y, a, b, bias))
        return true;
    void *add = bias_of(d, bias, y);
    return (bias && !add) ||
           product(d, y, a, false, b, tb, alpha, beta, &(cuda_epilogue){ kind, add, pre });
}

bool cuda_fused_gelu_grad(vt_dev *d, vt_tensor *dx, const vt_tensor *a, const vt_tensor *b, bool tb,
                          const vt_tensor *pre, float alpha, float beta)
{
    return counted(d, dx, a, b, NULL) ||
           product(d, dx, a, false, b, tb, alpha, beta,
                   &(cuda_epilogue){ CUDA_GELU_SLOPE, NULL, pre });
}

/* The library overwrites the sums, so sums that are added to db are computed in scratch first. */
bool cuda_fused_bias_grad(vt_dev *d, vt_tensor *dw, vt_tensor *db, const vt_tensor *dy,
                          const vt_tensor *x, float beta)
{
    vt_tensor sums = *db;

    if (counted(d, dw, dy, x, NULL))
        return true;
    if (vt_adds(db))
        sums.data = cuda_scratch(d, CUDA_BIAS, (size_t)db->dim[0] * sizeof(float));
    if (!sums.data)
        return true;
    if (!product(d, dw, dy, true, x, false, 1.0f, beta,
                 &(cuda_epilogue){ CUDA_BIAS_GRAD, sums.data, NULL }))
        return false;
    if (vt_adds(db))
        cuda_scale(d, db, &sums, 1.0f);
    vt_wrote(db);
    return true;
}
