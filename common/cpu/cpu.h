/* cpu.h - the CPU device and its heavy kernels; inside common/cpu only.
 *
 * cpu.c fills the backend table; loops*.c walk tensors row by row over rows.h; the kernels
 * below are matmul (own AMX and own blocked f32 kernels, oneDNN where it is built in), attention
 * and convolution. Threads are OpenMP's: dev->threads is what it really gave when the device was
 * opened. Work is cut for that many and any team does it right, since every share, scratch area and
 * partial sum belongs to a part or to a member of the team there is; oneDNN, which plans for a team, is
 * told cpu_team(). The same thread count gives the same bits. */
#ifndef COMMON_CPU_CPU_H
#define COMMON_CPU_CPU_H

#include "common/cpu/gemm/gemm.h"
#include "common/cpu/simd/isa.h"
#include "common/cpu/simd/rows.h"
#include "common/tensor/backend.h"

typedef struct cpu_dnnl cpu_dnnl;               /* cached oneDNN primitives; dnnl.c */

struct vt_dev {
    cpu_isa isa;
    const cpu_rows *rows;
    int threads;                                /* of a team, and parts that work is cut into */
    cpu_dnnl *dnnl;                             /* NULL: built without */
    char **scratch;                             /* an area per thread, and oneDNN's (cpu_scratch) */
    size_t *scratch_bytes;
    bool dry;                                   /* kernels note what they need and do nothing else */
    size_t *scratch_need;                       /* so noted, per thread */
    void *range;                                /* the pool's */
    size_t range_bytes;
    int fault;                                  /* first VC_E* of a kernel, 0: none */
    char fault_text[160];
    char describe[200];
};

/* At least `bytes` of 64-byte aligned memory of thread t, kept between calls; grows only when asked
 * for more. The same area is handed out by the next call for t; that of t = d->threads is for what
 * oneDNN works in, beside the caller's own. NULL (and a sticky fault) when memory is out. */
void *cpu_scratch(vt_dev *d, int t, size_t bytes);
/* The areas of `threads` threads at once: `first` bytes of thread 0, `each` of the others. False: out of
 * memory, or the step is a dry one and only notes what a real one would take. Kernels that need much
 * begin with it. */
bool cpu_scratch_all(vt_dev *d, int threads, size_t first, size_t each);
/* The same of area t alone. */
bool cpu_scratch_one(vt_dev *d, int t, size_t bytes);
/* Remembers the first fault. Any thread. */
void cpu_fault(vt_dev *d, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The set of kernels for operands of type t (of the activations): AMX computes in bf16 what is stored in bf16,
 * everything else is f32. */
const cpu_gemm *cpu_gemm_of(const vt_dev *d, vc_dtype t);
/* n results t of one row, the first of them in column n0, to c: alpha t + beta c + bias. t is
 * overwritten. (matmul.c) */
void cpu_finish_row(const cpu_rows *r, void *c, vc_dtype type, float *t, size_t n,
                    const vt_tensor *bias, size_t n0, float alpha, float beta);

/* Sets FTZ and DAZ in the calling thread and every worker, since denormals cost 10x and AMX flushes
 * them anyway, and gives them stacks for signals. The number of threads that OpenMP gave for it. */
int cpu_ready_team(int threads);

/* Threads, of `most`, that OpenMP gives a team which the calling thread begins now: 1 inside another
 * team, else no more than OMP_THREAD_LIMIT. Ends OMP_DYNAMIC for that thread, since a team that follows
 * the machine's load would give other bits in each run. */
int cpu_team(int most);

int cpu_dnnl_open(cpu_dnnl **out, vt_dev *d, vc_err *err);
void cpu_dnnl_close(cpu_dnnl *c);
const char *cpu_dnnl_version(void);             /* "oneDNN 2.6.3", or NULL: built without */

/* ---- the kernels of tensor/kernel_list.h ---- */

#define VT_KERNEL(result, name, args) result cpu_##name args;
#include "common/tensor/kernel_list.h"

#endif
