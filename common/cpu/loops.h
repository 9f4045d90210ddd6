/* loops.h - walking strided tensors over the spans of rows.h; inside common/cpu only. */
#ifndef COMMON_CPU_LOOPS_H
#define COMMON_CPU_LOOPS_H

#include "common/cpu/cpu.h"
#include "common/tensor/walk.h"

enum {
    CPU_SPAN = 2048                             /* f32 elements of a span, held on the stack */
};

/* ---- threads ---- */

/* Computes units begin..end-1 of the work as part number `part`. */
typedef void (*cpu_part)(void *arg, int part, int64_t begin, int64_t end);
/* Returns the number of parts of the work, each of at least `grain` units. */
int cpu_parts(const vt_dev *d, int64_t units, int64_t grain);
/* Runs fn on `parts` (from cpu_parts) contiguous, nearly equal ranges, in as many threads. */
void cpu_share(const vt_dev *d, int parts, int64_t units, cpu_part fn, void *arg);

/* ---- walks ---- */

/* The position of a walk; offsets are in elements. */
typedef struct cpu_at {
    int64_t index[VT_DIMS], offset[VT_OPERANDS];
} cpu_at;
void cpu_at_row(const vt_walk *w, cpu_at *at, int64_t row);
void cpu_next_row(const vt_walk *w, cpu_at *at);

/* Returns the address of element i in operand o's current row. */
static inline char *cpu_ptr(const vt_walk *w, const cpu_at *at, int o, int64_t i)
{
    return w->data[o] + (at->offset[o] + i * w->step[o]) * (int64_t)vc_dtype_size(w->type[o]);
}

/* cpu_load converts n elements, `step` apart, to f32 in buf, or returns src itself if it is packed
 * f32; cpu_store converts them back. */
const float *cpu_load(const cpu_rows *r, float *buf, const void *src, vc_dtype t, int64_t step,
                      size_t n);
void cpu_store(const cpu_rows *r, void *dst, vc_dtype t, int64_t step, const float *src, size_t n);
/* As cpu_store, but adds to dst; n is at most CPU_SPAN. */
void cpu_store_add(const cpu_rows *r, void *dst, vc_dtype t, int64_t step, const float *src,
                   size_t n);

/* y[i] = f(x[0][i], x[1][i], ..), with y in t[0] and the x after it; adds: y += f(..) */
typedef void (*cpu_span)(const cpu_rows *r, const void *arg, float *y, const float *const *x,
                         size_t n);
void cpu_map(vt_dev *d, cpu_span fn, const void *arg, bool adds, int k, const vt_tensor *const *t);

/* Sums fn's values over all spans, in an order that does not depend on the thread count. */
typedef double (*cpu_sum_span)(const cpu_rows *r, const float *const *x, size_t n);
double cpu_sum_of(vt_dev *d, cpu_sum_span fn, int k, const vt_tensor *const *t);

#endif
