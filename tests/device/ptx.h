/* ptx.h - an interpreter of PTX, the assembly of NVIDIA GPUs, for the kernels of
 * common/cuda/kernels.cu: it runs what nvcc made of them on a machine without a GPU.
 *
 * A block has 256 threads in warps of 32, which run one after the other from barrier to barrier.
 * In a warp the lanes with the lowest program counter run first, so that lanes that part meet
 * again where the code does. Addresses are those of the process: kernels read and write the
 * caller's memory. Beside what a kernel computes, a run shows what a GPU would refuse: an access
 * that its size does not divide, a shuffle or a barrier that some of the warp's lanes do not reach.
 * Approximations (ex2, rcp) are exact here. One handle serves one thread. */
#ifndef TESTS_DEVICE_PTX_H
#define TESTS_DEVICE_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

typedef struct ptx ptx;

/* Reads a file of PTX; NULL after an error, which names the line that could not be read. */
ptx *ptx_open(const char *path, vc_err *err);
/* The same of a text, which is copied; `name` is for errors. */
ptx *ptx_read(const char *text, const char *name, vc_err *err);
void ptx_close(ptx *p);                        /* NULL is fine */

/* Runs blocks first .. first + blocks - 1 of the kernel vk_<name>_kernel, whose one parameter is
 * `args`. backwards: the last block and the last warp of each block run first; a kernel without
 * races gives the same bits. Returns 0, or VC_EFAIL with the kernel's line in the error. */
int ptx_run(ptx *p, const char *name, const void *args, size_t bytes, uint64_t first,
            uint64_t blocks, bool backwards, vc_err *err);

/* A kernel, and what its runs executed so far. */
typedef struct ptx_kernel {
    const char *name;                          /* "norm" for vk_norm_kernel */
    uint64_t runs, executed;                   /* executed: instructions of warps */
    double weighed;                            /* about as many of the GPU's own instructions */
    int wide, wide_run;                        /* accesses of 16 bytes to memory in the code: all,
                                                * and those that a run reached */
    int wide_line;                             /* the line of one that no run reached, or 0 */
} ptx_kernel;

int ptx_kernels(const ptx *p);
ptx_kernel ptx_kernel_at(const ptx *p, int i);

#endif
