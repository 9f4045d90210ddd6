/* cuda_layout.h - what a product of row-major tensors is to cuBLASLt, as pure functions; inside
 * common/cuda and its tests.
 *
 * cuBLASLt's matrices are column-major. A row-major C [M,N] is a column-major C' (N x M), so
 * C = op(a) op(b) is C' = op(b)' op(a)': the operands change places, and a stored row-major matrix
 * is, unchanged in memory, its own transpose. */
#ifndef CUDA_CUDA_LAYOUT_H
#define CUDA_CUDA_LAYOUT_H

#include "common/tensor/backend.h"

/* C (m x n, ldc) = op(A) op(B) + ..: A is (m x k), or (k x m) if turned; B (k x n) or (n x k). */
typedef struct cuda_gemm {
    int64_t m, n, k, lda, ldb, ldc;
    int32_t type, out_type;                    /* vc_dtype: of A and B (f32, bf16), of C and bias */
    int32_t turn_a, turn_b, bias;
    int32_t align_a, align_b, align_c;         /* bytes that divide the addresses: at most 256 */
} cuda_gemm;

/* The type in which a product is computed. bf16 where the result is, or where activations are and
 * not every operand is f32: f32 operands are then rounded. Sums are f32 in any case. */
vc_dtype cuda_gemm_type(vc_dtype compute, const vt_tensor *c, const vt_tensor *a,
                        const vt_tensor *b);
/* *g for c = op(a) op(b) of 2-D tensors, a and b of one type; A is b and B is a. False where a
 * matrix is not rows of packed elements that do not overlap. */
bool cuda_gemm_of(cuda_gemm *g, const vt_tensor *c, const vt_tensor *a, bool ta,
                  const vt_tensor *b, bool tb, bool bias);

#endif
