/* kernels_dev.h - the common part of the tests of the CPU kernels: devices, tensors, numbers. */
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

/* Returns the names of the kernel sets that this machine runs, with NULL at the end, or only those
 * named, with commas between names, by the environment's VLT_SET. "wide" are the f32 kernels in
 * AVX-512's 16 lanes; "emulated" is AMX's source over tiles in plain C, and "emulated_bf16"
 * AVX512-BF16's over dot products in plain C, so that their packing, edges and softmax run on any
 * machine. */
const char *const *kd_sets(void);
#define EACH_SET(s) for (const char *const *s = kd_sets(); *s; s++)
const cpu_rows *const *kd_rows(void);

typedef struct kd_dev {
    const vt_backend *be;
    vt_dev *dev;
    bool bf16;                                /* bf16 operands are multiplied as bf16 */
} kd_dev;
/* Opens a device with a set; at most one open device is "wide", and one is emulated. */
kd_dev kd_open(const char *set, int threads);
kd_dev kd_open_for_batches(const char *set, int threads);     /* vt_options.batches */
void kd_close(kd_dev *d);

/* Numbers in -1..1, which depend on the seed alone. */
typedef struct kd_rng { uint64_t s; } kd_rng;
float kd_random(kd_rng *r);

/* Makes a tensor of random values, which kd_free() frees, with `gap` unused elements after each row
 * of the last axis. order[i] is the i-th outermost axis in memory; NULL means 0, 1, ... */
vt_tensor *kd_tensor(kd_rng *r, vc_dtype t, int nd, const int64_t *dim, int gap, const int *order);
void kd_free(vt_tensor *t);
size_t kd_bytes(const vt_tensor *t);          /* size of its memory with all gaps */
/* Returns t[a,b,c,d]; a tensor of fewer axes ignores the last indices. */
double kd_at(const vt_tensor *t, int64_t a, int64_t b, int64_t c, int64_t d);
/* Returns the values of a tensor without gaps, which the caller frees. */
float *kd_floats(const vt_tensor *t);
void kd_fill(vt_tensor *t, float value);      /* fills the gaps too */

/* Rounds an operand to bf16. */
double kd_bf16(double x);
/* Returns the relative error of a result that is rounded to its type. */
static inline double kd_half_step(vc_dtype t) { return t == VC_BF16 ? 0x1p-8 : 1e-7; }

#endif
