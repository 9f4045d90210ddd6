/* walk.h - tensors of one shape as rows, which the kernels of every backend loop over. */
#ifndef COMMON_TENSOR_WALK_H
#define COMMON_TENSOR_WALK_H

#include "common/tensor/tensor.h"

enum { VT_OPERANDS = 8 };

/* k operands as `rows` rows of n elements. Strides are in elements. */
typedef struct vt_walk {
    int k, nd;                                  /* nd: axes of rows, outermost first */
    int64_t dim[VT_DIMS], rows, n;
    int64_t stride[VT_OPERANDS][VT_DIMS];
    int64_t step[VT_OPERANDS];                  /* between elements of a row; 0 repeats */
    char *data[VT_OPERANDS];                    /* NULL: the operand is absent */
    vc_dtype type[VT_OPERANDS];
} vt_walk;

/* Returns k operands of one shape (t[0]'s; NULL operands are skipped) as rows. Axes that all
 * operands traverse evenly are joined; with `join` the last axis too, so that packed tensors become
 * a single row. */
vt_walk vt_walk_of(int k, const vt_tensor *const *t, bool join);

/* Copies k descriptors with their axes before the last reordered: first those along which `by` has
 * a stride (none if by is NULL), then the others. ordered[i] becomes &out[i], or NULL where t[i] is
 * NULL. Returns the product of the first axes' sizes: rows with different indices there share no
 * element of `by`. All have one shape; `by` or t[0] may be NULL, but not both. */
int64_t vt_kept_first(const vt_tensor *by, int k, const vt_tensor *const *t, vt_tensor *out,
                      const vt_tensor **ordered);

/* Returns t in the shape of `like`, to which it broadcasts; repeated axes have stride 0. */
vt_tensor vt_expand(const vt_tensor *t, const vt_tensor *like);
/* Returns stats [rows,2] in the shape of x's rows, each of which reads its pair. */
vt_tensor vt_row_stats(const vt_tensor *stats, const vt_tensor *x);

#endif
