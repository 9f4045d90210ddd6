/* conv.h - one convolution's sizes and its input rows: inside common/cpu only. */
#ifndef COMMON_CPU_CONV_H
#define COMMON_CPU_CONV_H

#include "common/cpu/loops.h"

typedef struct cpu_conv {
    vt_dev *d;
    const cpu_gemm *g;
    vt_tensor *y;
    const vt_tensor *x, *w, *b;
    const vt_conv *c;
    size_t in, out, kw, rows;                  /* channels; kernel width; input rows per output
                                                * row */
    size_t frames;                             /* of the kernel: those of w, or one of a still */
    size_t first, sum;                         /* which is the sum of `sum` frames of w from `first`
                                                * on; else 0 and 1 */
    size_t pb, row_weights;                    /* units of a panel; of all panels of one (kt, kh) */
    size_t units;                              /* units of kw C elements */
    size_t lda, ldc;                           /* strides: of positions in a row; of rows in acc */
    size_t stage;                              /* units of a staged input row with its padding */
    size_t head, done, outputs;                /* rows of y: before those computed by oneDNN; of
                                                * these; of all others */
} cpu_conv;

/* Sets in..sum from the tensors. For a still, where all frames of the kernel read the one frame or
 * zeros, *plane becomes a convolution by a kernel of one frame, to which v->c then points. */
void cpu_conv_sizes(cpu_conv *v, vt_conv *plane);

/* Returns w's elements from one input channel to the next, and those of one of its frames. */
static inline size_t cpu_conv_taps(const cpu_conv *v)
{
    return (size_t)(v->w->dim[2] * v->w->dim[3] * v->w->dim[4]);
}
static inline size_t cpu_conv_plane(const cpu_conv *v)
{
    return (size_t)(v->w->dim[3] * v->w->dim[4]);
}

/* Returns input row (n, t, h), with t < 0 for a frame in front; NULL: the row is zeros. */
const char *cpu_conv_row(const cpu_conv *v, size_t n, long t, long h);

/* winograd.c: whether the convolution takes less time there, and its computation. Of v they read
 * only what precedes pb. */
bool cpu_winograd_suits(const cpu_conv *v);
void cpu_winograd(const cpu_conv *v);

#endif
