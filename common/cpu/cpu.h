/* cpu.h - the CPU device and its heavy kernels; inside common/cpu only.
 *
 * cpu.c fills the backend table; device.c has what kernels ask the device for; loops*.c walk
 * tensors row by row over rows.h; the kernels below are matmul (own blocked bf16 and f32 kernels,
 * oneDNN where it is built in), attention and convolution. Threads are OpenMP's: dev->threads is
 * the number that OpenMP granted when the device was opened. Work is divided into that many parts,
 * and a team of any size computes them correctly, since every share, scratch area and partial sum
 * belongs to a part or to a member of the actual team; oneDNN plans for a team of cpu_team()
 * threads. The same thread count gives the same bits. */
#ifndef COMMON_CPU_CPU_H
#define COMMON_CPU_CPU_H

#include <stdatomic.h>

#include "common/cpu/gemm/gemm.h"
#include "common/cpu/simd/isa.h"
#include "common/cpu/simd/rows.h"
#include "common/tensor/backend.h"

typedef struct cpu_dnnl cpu_dnnl;               /* cached oneDNN primitives; dnnl.c */

struct vt_dev {
    cpu_isa isa;
    const cpu_rows *rows;
    int threads;                                /* of a team; also the number of parts of work */
    cpu_dnnl *dnnl;                             /* NULL: built without oneDNN */
    bool own_products;                          /* oneDNN computes none, as it does not keep bits */
    bool int8_products;                         /* vt_options.int8_activations */
    char **scratch;                             /* an area per thread, and two (cpu_scratch) */
    size_t *scratch_bytes;
    bool dry;                                   /* kernels only record the scratch they need */
    size_t *scratch_need;                       /* the bytes so recorded, per thread */
    void *range;                                /* the pool's memory */
    size_t range_bytes;
    atomic_size_t on_heap;                      /* bytes of parameters' areas that malloc gave */
    int fault;                                  /* first VC_E* of a kernel, or 0 */
    char fault_text[160];
    char describe[200];
};

/* Returns the scratch area of thread t: at least `bytes` of 64-byte aligned memory, kept between
 * calls, and grown only when more bytes are requested. Every call for t returns the same area; area
 * d->threads is oneDNN's, separate from the caller's own, and cpu_codes_area is matmul_int8.c's,
 * which calls other products. NULL (and a sticky fault) when memory is out. */
void *cpu_scratch(vt_dev *d, int t, size_t bytes);
static inline int cpu_codes_area(const vt_dev *d) { return d->threads + 1; }
static inline int cpu_areas(const vt_dev *d) { return d->threads + 2; }
/* Makes the areas of `threads` threads at once: `first` bytes for thread 0, `each` for the others.
 * False: out of memory, or the step is dry and only records the bytes that a real step would take.
 * Kernels that need much scratch call it first. */
bool cpu_scratch_all(vt_dev *d, int threads, size_t first, size_t each);
/* The same for area t alone. */
bool cpu_scratch_one(vt_dev *d, int t, size_t bytes);
/* Begins or ends dry steps. Returns the scratch of all threads: for each the bytes allocated or, if
 * larger, the bytes that kernels have recorded since the dry step began. */
size_t cpu_dry(vt_dev *d, bool dry);
/* Records the first fault. Any thread may call this. */
void cpu_fault(vt_dev *d, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Returns the set of kernels for activations of type t: AMX and AVX512-BF16 compute bf16
 * activations in bf16; all else is computed in f32. */
const cpu_gemm *cpu_gemm_of(const vt_dev *d, vc_dtype t);
/* Computes kernel_list.h's matmul without rounding to int8 (matmul.c). */
void cpu_product(vt_dev *d, vt_tensor *c, const vt_tensor *a, bool ta, const vt_tensor *b, bool tb,
                 const vt_tensor *bias, float alpha, float beta);
/* Computes kernel_list.h's matmul with op(A) rounded to int8, if vt_options.int8_activations asks
 * for it and b has i8 codes with a scale a row (matmul_int8.c). Returns false otherwise. */
bool cpu_matmul_int8(vt_dev *d, vt_tensor *c, const vt_tensor *a, bool ta, const vt_tensor *b,
                     bool tb, const vt_tensor *bias, float alpha, float beta);
bool cpu_batch_keeps_bits(const vt_dev *d, vc_dtype compute);       /* backend.h; matmul.c */
/* Stores n results t of one row, of columns n0 on: c = alpha t + beta c + bias. t is overwritten.
 * (loops.c) */
void cpu_finish_row(const cpu_rows *r, void *c, vc_dtype type, float *t, size_t n,
                    const vt_tensor *bias, size_t n0, float alpha, float beta);

/* Prepares the calling thread and every worker: sets FTZ and DAZ, since denormals cost 10x and AMX
 * flushes them anyway, and gives them stacks for signals. Returns the number of threads that OpenMP
 * granted. */
int cpu_ready_team(int threads);

/* Returns how many of `most` threads OpenMP grants to a team that the calling thread begins now: 1
 * inside another team, else no more than OMP_THREAD_LIMIT. Disables OMP_DYNAMIC for that thread,
 * since a team whose size follows the machine's load would give different bits in each run. */
int cpu_team(int most);

int cpu_dnnl_open(cpu_dnnl **out, vt_dev *d, vc_err *err);
void cpu_dnnl_close(cpu_dnnl *c);
/* Returns the version of the loaded library, "oneDNN 2.6.3". c lends the text and is not NULL. */
const char *cpu_dnnl_version(const cpu_dnnl *c);

/* ---- the kernels of tensor/kernel_list.h ---- */

#define VT_KERNEL(result, name, args) result cpu_##name args;
#include "common/tensor/kernel_list.h"

#endif
