/* cuda_blas.c - matmul by cuBLASLt: backend.h
 *
 * One plan for a shape: descriptors and the first algorithm that the library's heuristic names for
 * the addresses' true alignment and our workspace. */
#include <cublasLt.h>
#include <stdlib.h>
#include <string.h>

#include "common/cuda/cuda_device.h"
#include "common/cuda/cuda_layout.h"

static const size_t WORKSPACE = 32 << 20;      /* what the kernels for Hopper ask */

typedef struct plan {
    cuda_gemm key;
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

static cublasStatus_t describe(plan *p)
{
    const cuda_gemm *g = &p->key;
    cublasOperation_t ta = g->turn_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t tb = g->turn_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = g->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    cudaDataType_t in = data_type(g->type), out = data_type(g->out_type);

    cublasStatus_t rc = cublasLtMatmulDescCreate(&p->op, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (!rc)
        rc = set(p, CUBLASLT_MATMUL_DESC_TRANSA, &ta, sizeof ta);
    if (!rc)
        rc = set(p, CUBLASLT_MATMUL_DESC_TRANSB, &tb, sizeof tb);
    if (!rc)
        rc = set(p, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    if (!rc && g->bias)
        rc = set(p, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &out, sizeof out);
    if (!rc)
        rc = cublasLtMatrixLayoutCreate(&p->a, in, (uint64_t)(g->turn_a ? g->k : g->m),
                                        (uint64_t)(g->turn_a ? g->m : g->k), g->lda);
    if (!rc)
        rc = cublasLtMatrixLayoutCreate(&p->b, in, (uint64_t)(g->turn_b ? g->n : g->k),
                                        (uint64_t)(g->turn_b ? g->k : g->n), g->ldb);
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

/* The plan of a product, made when it is new; NULL after a fault. */
static plan *plan_of(vt_dev *d, const cuda_gemm *g)
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
    cublasStatus_t rc = describe(p);
    if (!rc)
        rc = choose(b, p);
    if (rc) {
        plan_free(p);
        fault(d, g, rc);
        return NULL;
    }
    b->n++;
    return p;
}

/* ---- the entry ---- */

/* x in a type: itself, or a packed copy. */
static bool operand(vt_dev *d, cuda_area area, vc_dtype type, const vt_tensor *x, vt_tensor *out)
{
    *out = *x;
    if (x->dtype == type)
        return true;
    out->data = (void *)(uintptr_t)cuda_convert(d, area, type, x);
    out->dtype = type;
    int64_t stride = 1;
    for (int i = x->nd; i-- > 0; stride *= x->dim[i])
        out->stride[i] = stride;
    return out->data != NULL;
}

void cuda_matmul(vt_dev *d, vt_tensor *c, const vt_tensor *a, bool ta, const vt_tensor *b, bool tb,
                 const vt_tensor *bias, float alpha, float beta)
{
    vc_dtype type = cuda_gemm_type(d->compute, c, a, b);
    vt_tensor left, right, add = { 0 };
    cuda_gemm g;

    if (c->dtype > VC_BF16 || !operand(d, CUDA_LEFT, type, a, &left) ||
        !operand(d, CUDA_RIGHT, type, b, &right) ||
        (bias && !operand(d, CUDA_BIAS, c->dtype, bias, &add)) ||
        !cuda_gemm_of(&g, c, &left, ta, &right, tb, bias != NULL)) {
        cuda_fault(d, VC_EINVAL, "matmul: an operand is not a matrix of f32 or bf16 rows");
        return;
    }
    void *workspace = cuda_scratch(d, CUDA_WORKSPACE, WORKSPACE);
    plan *p = workspace ? plan_of(d, &g) : NULL;
    if (!p)
        return;
    cublasStatus_t rc = CUBLAS_STATUS_SUCCESS;
    if (bias)
        rc = set(p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &add.data, sizeof add.data);
    if (!rc)
        rc = cublasLtMatmul(d->blas->handle, p->op, &alpha, right.data, p->a, left.data, p->b,
                            &beta, c->data, p->c, c->data, p->c, &p->algo, workspace, WORKSPACE,
                            (cudaStream_t)d->stream);
    if (rc)
        fault(d, &g, rc);
}
