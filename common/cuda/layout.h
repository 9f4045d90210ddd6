/* layout.h - what a product of row-major tensors is to cuBLASLt, as pure functions; inside
 * common/cuda and its tests.
 *
 * cuBLASLt's matrices are column-major. A row-major C [M,N] is a column-major C' (N x M), so
 * C = op(a) op(b) is C' = op(b)' op(a)': the operands change places, and a stored row-major matrix
 * is, unchanged in memory, its own transpose. */
#ifndef COMMON_CUDA_LAYOUT_H
#define COMMON_CUDA_LAYOUT_H

#include "common/tensor/backend.h"

/* What follows a product (backend.h's entries), a sum of: bias added; GELU, of which KEPT stores
 * what came into it; times GELU's slope; the sum of B's columns, into C's type. */
enum {
    CUDA_BIAS_ADDED = 1, CUDA_GELU = 2, CUDA_KEPT = 4, CUDA_GELU_SLOPE = 8, CUDA_BIAS_GRAD = 16
};
typedef struct cuda_ending {
    int32_t what;
    void *vector;                              /* of C's type: the bias, or the sums; or NULL */
    const vt_tensor *pre;                      /* what came into GELU, or NULL */
} cuda_ending;

/* C (m x n, ldc) = op(A) op(B) + ..: A is (m x k), or (k x m) if turned; B (k x n) or (n x k). A
 * plan's key: no holes. */
typedef struct cuda_gemm {
    int64_t m, n, k, lda, ldb, ldc, ld_pre;
    int32_t type, out_type;                    /* vc_dtype: of A and B (f32, bf16), of C and bias */
    int32_t turn_a, turn_b, ending;
    int32_t align_a, align_b, align_c;         /* bytes that divide the addresses: at most 256 */
    int32_t align_vector, align_pre;           /* 256 where there is none */
} cuda_gemm;

/* The type in which a product is computed. bf16 where the result is, or where activations are and
 * not every operand is f32: f32 operands are then rounded. Sums are f32 in any case. */
vc_dtype cuda_gemm_type(vc_dtype compute, const vt_tensor *c, const vt_tensor *a,
                        const vt_tensor *b);
/* *g for c = op(a) op(b) of 2-D tensors, a and b of one type; A is b and B is a. False where a
 * matrix is not rows of packed elements that do not overlap. */
bool cuda_gemm_of(cuda_gemm *g, const vt_tensor *c, const vt_tensor *a, bool ta,
                  const vt_tensor *b, bool tb, const cuda_ending *e);
/* Whether the library could do the ending: pre, where there is one, lies as c does in rows of a
 * multiple of eight. */
bool cuda_ending_fits(const cuda_gemm *g, const cuda_ending *e);

#endif
