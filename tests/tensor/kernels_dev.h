/* kernels_dev.h - what the tests of the CPU kernels share: devices, tensors, numbers. */
#ifndef TESTS_TENSOR_KERNELS_DEV_H
#define TESTS_TENSOR_KERNELS_DEV_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/cpu/cpu.h"
#include "common/cpu/gemm/gemm.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define TEST(name) static void name(void **state)

/* The kernel sets this machine runs; "wide": the f32 kernels in AVX-512's 16 lanes; "emulated":
 * AMX's source over tiles in plain C, so that its packing, edges and softmax run on any machine.
 * NULL-ended. */
const char *const *kd_sets(void);
#define EACH_SET(s) for (const char *const *s = kd_sets(); *s; s++)
const cpu_rows *const *kd_rows(void);

typedef struct kd_dev {
    const vt_backend *be;
    vt_dev *dev;
    bool bf16;                                /* bf16 operands are multiplied as such (AMX) */
} kd_dev;
/* A device with a set; one at a time may be "wide" or "emulated". */
kd_dev kd_open(const char *set, int threads);
void kd_close(kd_dev *d);

/* Numbers in -1..1, the same every time for a seed. */
typedef struct kd_rng { uint64_t s; } kd_rng;
float kd_random(kd_rng *r);

/* A tensor whose rows of the last axis lie `gap` elements apart from one another; random values.
 * Freed by kd_free. order: which axis is the i-th from outside in memory, NULL: 0, 1, ... */
vt_tensor *kd_tensor(kd_rng *r, vc_dtype t, int nd, const int64_t *dim, int gap, const int *order);
void kd_free(vt_tensor *t);
size_t kd_bytes(const vt_tensor *t);          /* of its memory, gaps included */
/* t[a,b,c,d], or as many of them as t has axes. */
double kd_at(const vt_tensor *t, int64_t a, int64_t b, int64_t c, int64_t d);
void kd_fill(vt_tensor *t, float value);      /* gaps too */

/* As a bf16 product sees it. */
double kd_bf16(double x);
/* How far a stored result may be off because of its type, relatively. */
static inline double kd_half_step(vc_dtype t) { return t == VC_BF16 ? 0x1p-8 : 1e-7; }

#endif
