/* layout.h - products of row-major tensors described for cuBLASLt, as pure functions; inside
 * common/cuda and its tests.
 *
 * cuBLASLt's matrices are column-major. A row-major C [M,N] is a column-major C' (N x M), so
 * C = op(a) op(b) is C' = op(b)' op(a)': the operands are exchanged, and a row-major matrix in
 * memory is its own transpose in column-major order. */
#ifndef COMMON_CUDA_LAYOUT_H
#define COMMON_CUDA_LAYOUT_H

#include "common/tensor/backend.h"

/* The epilogue of a product, a sum of: bias added; GELU; storing GELU's input; multiplication by
 * GELU's slope; the sum of B's columns, in C's type. */
enum {
    CUDA_BIAS_ADDED = 1, CUDA_GELU = 2, CUDA_PRE_STORED = 4, CUDA_GELU_SLOPE = 8,
    CUDA_BIAS_GRAD = 16
};
typedef struct cuda_epilogue {
    int32_t kind;
    void *vector;                              /* of C's type: the bias, or the sums; or NULL */
    const vt_tensor *pre;                      /* GELU's input, or NULL */
} cuda_epilogue;

/* C (m x n, ldc) = op(A) op(B) + ..: A is (m x k), or (k x m) with trans_a; B (k x n) or (n x k).
 * The struct is a plan's key, compared as bytes, so it has no padding. */
typedef struct cuda_gemm {
    int64_t m, n, k, lda, ldb, ldc, ld_pre;
    int32_t type, out_type;                    /* vc_dtype: of A and B (f32, bf16), of C and bias */
    int32_t trans_a, trans_b, epilogue;
    int32_t align_a, align_b, align_c;         /* bytes that divide the addresses, at most 256 */
    int32_t align_vector, align_pre;           /* 256 without a vector, without pre */
} cuda_gemm;

/* Returns the type in which a product is computed: bf16 if the result is bf16, or if activations
 * are bf16 and an operand is not f32; f32 operands are then rounded. Sums are f32 in any case. */
vc_dtype cuda_gemm_type(vc_dtype compute, const vt_tensor *c, const vt_tensor *a,
                        const vt_tensor *b);
/* Sets *g for c = op(a) op(b) of 2-D tensors, a and b of one type; A is b and B is a. False if a
 * matrix does not consist of packed rows that do not overlap. */
bool cuda_gemm_of(cuda_gemm *g, const vt_tensor *c, const vt_tensor *a, bool ta,
                  const vt_tensor *b, bool tb, const cuda_epilogue *e);
/* Returns true if the library supports the epilogue: pre, if any, has c's shape and rows of a
 * multiple of eight elements. */
bool cuda_epilogue_fits(const cuda_gemm *g, const cuda_epilogue *e);

#endif
