/* test_blas.c - products of the CUDA backend without a GPU: the functions of cuBLASLt are simulated
 * by a naive column-major product on the host, which refuses the epilogues that a test names, as
 * the library may for some types, shapes or versions. Each product still gets its bias. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <cublasLt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/cuda/device.h"
#include "common/tensor/engine.h"
#include "tests/lib/ok.h"

enum { M = 6, N = 16, K = 8, DESCRIPTORS = 64 };

/* ---- cuBLASLt ---- */

typedef struct layout {
    cudaDataType_t type;
    int64_t ld;
    uint64_t rows, cols;
} layout;
typedef struct operation {
    cublasOperation_t ta, tb;
    cublasLtEpilogue_t epilogue;
    cudaDataType_t vector_type;
    void *vector;
} operation;

static int refused;                            /* bits of the epilogues that are refused */
static int products;                           /* run since the last reset */
static layout layouts[DESCRIPTORS];
static operation operations[DESCRIPTORS];
static int n_layouts, n_operations;

cublasStatus_t cublasLtCreate(cublasLtHandle_t *h)
{
    *h = (cublasLtHandle_t)&products;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t h) { return (void)h, CUBLAS_STATUS_SUCCESS; }
const char *cublasLtGetStatusString(cublasStatus_t rc) { return rc ? "refused" : "none"; }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *op, cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    assert_true(n_operations < DESCRIPTORS);
    assert_int_equal(compute, CUBLAS_COMPUTE_32F);
    assert_int_equal(scale, CUDA_R_32F);
    *op = (cublasLtMatmulDesc_t)(void *)&operations[n_operations++];
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t op)
{
    return (void)op, CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t op,
                                              cublasLtMatmulDescAttributes_t what, const void *v,
                                              size_t size)
{
    operation *o = (operation *)(void *)op;

    switch (what) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
        memcpy(&o->ta, v, size);
        break;
    case CUBLASLT_MATMUL_DESC_TRANSB:
        memcpy(&o->tb, v, size);
        break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        memcpy(&o->epilogue, v, size);
        break;
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
        memcpy(&o->vector_type, v, size);
        break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        memcpy(&o->vector, v, size);
        break;
    default:
        break;
    }
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *l, cudaDataType_t type,
                                          uint64_t rows, uint64_t cols, int64_t ld)
{
    assert_true(n_layouts < DESCRIPTORS);
    layouts[n_layouts] = (layout){ type, ld, rows, cols };
    *l = (cublasLtMatrixLayout_t)(void *)&layouts[n_layouts++];
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
    return (void)l, CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *p)
{
    *p = (cublasLtMatmulPreference_t)(void *)&products;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
    return (void)p, CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                                    cublasLtMatmulPreferenceAttributes_t what,
                                                    const void *v, size_t size)
{
    return (void)p, (void)what, (void)v, (void)size, CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t h, cublasLtMatmulDesc_t op,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t p, int wanted,
                                              cublasLtMatmulHeuristicResult_t *found, int *n)
{
    const operation *o = (const operation *)(const void *)op;

    (void)h, (void)a, (void)b, (void)c, (void)d, (void)p, (void)wanted;
    memset(found, 0, sizeof *found);
    *n = !(o->epilogue & refused);
    return *n ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

static float get(cudaDataType_t type, const void *p, int64_t i)
{
    return type == CUDA_R_32F ? ((const float *)p)[i] : vc_bf16_to_f32(((const uint16_t *)p)[i]);
}

static void put(cudaDataType_t type, void *p, int64_t i, float v)
{
    if (type == CUDA_R_32F)
        ((float *)p)[i] = v;
    else
        ((uint16_t *)p)[i] = vc_f32_to_bf16(v);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t h, cublasLtMatmulDesc_t op, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t la, const void *b,
                              cublasLtMatrixLayout_t lb, const void *beta, const void *c,
                              cublasLtMatrixLayout_t lc, void *d, cublasLtMatrixLayout_t ld,
                              const cublasLtMatmulAlgo_t *algo, void *workspace, size_t bytes,
                              cudaStream_t stream)
{
    const operation *o = (const operation *)(const void *)op;
    const layout *l = (const layout *)(const void *)la, *r = (const layout *)(const void *)lb;
    const layout *y = (const layout *)(const void *)lc;
    const bool ta = o->ta == CUBLAS_OP_T, tb = o->tb == CUBLAS_OP_T;
    const bool biased = o->epilogue & CUBLASLT_EPILOGUE_BIAS;
    const int64_t k = (int64_t)(ta ? l->rows : l->cols);

    (void)h, (void)c, (void)ld, (void)algo, (void)workspace, (void)bytes, (void)stream;
    products++;
    for (int64_t j = 0; j < (int64_t)y->cols; j++)
        for (int64_t i = 0; i < (int64_t)y->rows; i++) {
            float sum = biased ? get(o->vector_type, o->vector, i) : 0;
            float old = *(const float *)beta;
            for (int64_t n = 0; n < k; n++)
                sum += *(const float *)alpha *
                       get(l->type, a, ta ? n + i * l->ld : i + n * l->ld) *
                       get(r->type, b, tb ? j + n * r->ld : n + j * r->ld);
            if (fabsf(old) > 0)
                sum += old * get(y->type, d, i + j * y->ld);
            put(y->type, d, i + j * y->ld, sum);
        }
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- the rest of the backend ---- */

static char *areas[CUDA_AREAS];

void cuda_fault(vt_dev *d, int code, const char *fmt, ...)
{
    (void)fmt;
    d->fault = d->fault ? d->fault : code;
}
void *cuda_scratch(vt_dev *d, cuda_area area, size_t bytes)
{
    if (d->dry) {
        d->area_need[area] = bytes;
        return NULL;
    }
    free(areas[area]);
    return areas[area] = aligned_alloc(256, (bytes + 255) / 256 * 256);
}
static cudaDataType_t cuda_type(vc_dtype t) { return t == VC_F32 ? CUDA_R_32F : CUDA_R_16BF; }
const void *cuda_convert(vt_dev *d, cuda_area area, vc_dtype type, const vt_tensor *x)
{
    if (x->dtype == type)
        return x->data;
    void *to = cuda_scratch(d, area, (size_t)vt_count(x) * vc_dtype_size(type));
    for (int64_t i = 0; to && i < vt_count(x); i++)
        put(cuda_type(type), to, i, get(cuda_type(x->dtype), x->data, i));
    return to;
}
vt_tensor vt_expand(const vt_tensor *t, const vt_tensor *like)
{
    vt_tensor e = *t;

    e.nd = 2;
    e.dim[0] = like->dim[0], e.dim[1] = like->dim[1];
    e.stride[0] = 0, e.stride[1] = 1;
    return e;
}
void cuda_binary(vt_dev *d, vt_binary op, vt_tensor *y, const vt_tensor *a, const vt_tensor *b)
{
    (void)d;
    assert_int_equal(op, VT_ADD);
    for (int64_t i = 0; i < y->dim[0]; i++)
        for (int64_t j = 0; j < y->dim[1]; j++)
            put(cuda_type(y->dtype), y->data, i * y->stride[0] + j * y->stride[1],
                get(cuda_type(a->dtype), a->data, i * a->stride[0] + j * a->stride[1]) +
                get(cuda_type(b->dtype), b->data, i * b->stride[0] + j * b->stride[1]));
}
static int gelus;
static void like_gelu(vt_dev *d, vt_unary op, vt_tensor *y, const vt_tensor *x)
{
    (void)d, (void)op, (void)y, (void)x;
    gelus++;                                   /* its value is no matter of this test */
}
void cuda_scale(vt_dev *d, vt_tensor *y, const vt_tensor *x, float a)
{
    (void)d, (void)y, (void)x, (void)a;
}
const vt_backend vt_cuda = { .name = "cuda", .matmul = cuda_matmul, .unary = like_gelu };

/* ---- tests ---- */

static void fill(vt_tensor *t, vc_dtype type, int64_t m, int64_t n)
{
    *t = (vt_tensor){ .dtype = type, .nd = 2, .dim = { m, n }, .stride = { n, 1 },
                      .data = aligned_alloc(256, 4096) };
    assert_true(m * n <= 1024);
    for (int64_t i = 0; i < m * n; i++)
        put(cuda_type(type), t->data, i, (float)(rand() % 9 - 4));
}

typedef struct row {
    vc_dtype a, w, y, bias;
    float beta;
} row;
static const row rows[] = {
    { VC_BF16, VC_BF16, VC_BF16, VC_BF16, 0 },
    { VC_BF16, VC_BF16, VC_BF16, VC_F32, 1 },
    { VC_BF16, VC_BF16, VC_F32, VC_F32, 0 },   /* modulation in f32 */
    { VC_BF16, VC_BF16, VC_F32, VC_BF16, 1 },
    { VC_F32, VC_F32, VC_F32, VC_F32, 0 },
};

/* y = x W' + b + beta y, with the library's epilogue and without one. */
static void test_bias(void **state)
{
    (void)state;
    for (size_t r = 0; r < 2 * sizeof rows / sizeof *rows; r++) {
        const row *o = &rows[r / 2];
        vt_dev d = { .compute = o->a };
        vt_tensor x, w, y, b, before;
        n_layouts = n_operations = products = 0;
        refused = r % 2 ? CUBLASLT_EPILOGUE_BIAS : 0;
        OK(cuda_blas_open(&d, &err));
        fill(&x, o->a, M, K), fill(&w, o->w, N, K), fill(&y, o->y, M, N), fill(&b, o->bias, 1, N);
        fill(&before, o->y, M, N);
        memcpy(before.data, y.data, (size_t)(M * N) * vc_dtype_size(o->y));
        vt_tensor bias = { .dtype = o->bias, .nd = 1, .dim = { N }, .stride = { 1 },
                           .data = b.data };
        for (int again = 0; again < 2; again++) {          /* the second time by the kept plan */
            memcpy(y.data, before.data, (size_t)(M * N) * vc_dtype_size(o->y));
            cuda_matmul(&d, &y, &x, false, &w, true, &bias, 1, o->beta);
            assert_int_equal(d.fault, 0);
            for (int64_t i = 0; i < M; i++)
                for (int64_t j = 0; j < N; j++) {
                    float want = get(cuda_type(o->bias), b.data, j) +
                                 o->beta * get(cuda_type(o->y), before.data, i * N + j);
                    for (int64_t k = 0; k < K; k++)
                        want += get(cuda_type(o->a), x.data, i * K + k) *
                                get(cuda_type(o->w), w.data, j * K + k);
                    float got = get(cuda_type(o->y), y.data, i * N + j);
                    assert_true(fabsf(got - want) <= 0.0f);
                }
        }
        assert_int_equal(products, 2);
        cuda_blas_close(d.blas);
        free(x.data), free(w.data), free(y.data), free(b.data), free(before.data);
    }
}

/* A refused GELU with a bias is reported, and the ops that cuda.c runs in its place fall back from
 * a product with a bias to a product. */
static void test_gelu_without_epilogues(void **state)
{
    vt_dev d = { .compute = VC_BF16 };
    vt_tensor x, w, y, b;

    (void)state;
    n_layouts = n_operations = products = gelus = 0;
    refused = CUBLASLT_EPILOGUE_BIAS;
    OK(cuda_blas_open(&d, &err));
    fill(&x, VC_BF16, M, K), fill(&w, VC_BF16, N, K), fill(&y, VC_BF16, M, N);
    fill(&b, VC_F32, 1, N);
    vt_tensor bias = { .dtype = VC_F32, .nd = 1, .dim = { N }, .stride = { 1 }, .data = b.data };
    assert_false(cuda_fused_gelu(&d, &y, NULL, &x, &w, true, &bias, 1, 0));
    assert_int_equal(products, 0);
    vt_gelu_after(&vt_cuda, &d, &y, NULL, &x, &w, true, &bias, 1, 0);
    assert_int_equal(d.fault, 0);
    assert_int_equal(products, 1);
    assert_int_equal(gelus, 1);
    cuda_blas_close(d.blas);
    free(x.data), free(w.data), free(y.data), free(b.data);
}

/* A dry step counts scratch: of converted operands, and of the library. It runs no product. */
static void test_dry(void **state)
{
    vt_dev d = { .compute = VC_BF16, .dry = true };
    vt_tensor x = { .dtype = VC_BF16, .nd = 2, .dim = { M, K }, .stride = { K, 1 } };
    vt_tensor w = { .dtype = VC_F32, .nd = 2, .dim = { N, K }, .stride = { K, 1 } };
    vt_tensor y = { .dtype = VC_BF16, .nd = 2, .dim = { M, N }, .stride = { N, 1 } };
    vt_tensor b = { .dtype = VC_F32, .nd = 1, .dim = { N }, .stride = { 1 } };
    vt_buf empty = { .empty = true };
    vt_tensor dw = w, db = b, dx = x;

    (void)state;
    products = 0;
    db.buf = &empty;
    cuda_matmul(&d, &y, &x, false, &w, true, &b, 1, 0);
    assert_int_equal(d.area_need[CUDA_LEFT], 0);
    assert_int_equal(d.area_need[CUDA_RIGHT], N * K * 2);
    assert_int_equal(d.area_need[CUDA_BIAS], N * 2);
    assert_int_equal(d.area_need[CUDA_WORKSPACE], 32 << 20);
    assert_true(cuda_fused_gelu(&d, &y, NULL, &x, &w, true, &b, 1, 0));
    assert_true(cuda_fused_gelu_grad(&d, &dx, &y, &w, false, &x, 1, 0));
    assert_true(cuda_fused_bias_grad(&d, &dw, &db, &y, &x, 0));
    assert_true(empty.empty);                  /* no gradient has been written */
    assert_int_equal(d.fault, 0);
    assert_int_equal(products, 0);
}

/* A product that the library refuses without any epilogue is a fault. */
static void test_refused(void **state)
{
    vt_dev d = { .compute = VC_F32 };
    vt_tensor x, w, y;

    (void)state;
    OK(cuda_blas_open(&d, &err));
    fill(&x, VC_F32, M, K), fill(&w, VC_F32, N, K), fill(&y, VC_F32, M, N);
    w.stride[1] = 2;
    cuda_matmul(&d, &y, &x, false, &w, true, NULL, 1, 0);
    assert_int_equal(d.fault, VC_EINVAL);
    cuda_blas_close(d.blas);
    free(x.data), free(w.data), free(y.data);
}

static int free_areas(void **state)
{
    (void)state;
    for (int i = 0; i < CUDA_AREAS; i++)
        free(areas[i]);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bias),
        cmocka_unit_test(test_gelu_without_epilogues),
        cmocka_unit_test(test_dry),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, free_areas);
}
