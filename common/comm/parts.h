/* parts.h - the inside of a comm: one table of functions per transport. Internal to common/. */
#ifndef COMMON_COMM_PARTS_H
#define COMMON_COMM_PARTS_H

#include <stdbool.h>

#include "common/comm/comm.h"

typedef struct vc_watch vc_watch;            /* watch.h */

/* The contracts are those of comm.h. The functions of host memory are called with size > 1 only. */
typedef struct vc_comm_ops {
    int (*split)(vc_comm *out, vc_comm *c, int color, vc_err *err);
    void (*close)(vc_comm *c);
    void (*abort)(vc_comm *c, int status);
    int (*broadcast)(vc_comm *c, void *x, size_t n, int root, vc_err *err);
    int (*gather)(vc_comm *c, void *all, const void *mine, size_t n, vc_err *err);
    int (*exchange)(vc_comm *c, void *to, const vc_piece *in, const void *from,
                    const vc_piece *out, vc_err *err);
    int (*sum)(vc_comm *c, float *x, size_t n, vc_dtype wire, vc_err *err);
    int (*sum_scatter)(vc_comm *c, float *mine, const float *x, size_t n, vc_dtype wire,
                       vc_err *err);
    int (*post)(vc_comm *c, const double *x, vc_err *err);             /* x [VC_COMM_POSTS] */
    int (*posted)(vc_comm *c, double *last, vc_err *err);              /* [size][VC_COMM_POSTS] */
    /* alarm notifies all other ranks of a failure; alarmed returns true if another rank has sent an
     * alarm, and sets *err to that failure. */
    void (*alarm)(vc_comm *c, const vc_err *err);
    bool (*alarmed)(vc_comm *c, vc_err *err);
    /* of the comm of all ranks. tell sends a small message to a rank without waiting, unless the
     * one before is still being sent; hear returns true with the next message from any rank. */
    void (*tell)(vc_comm *c, int to, const void *x, size_t n);
    bool (*hear)(vc_comm *c, int *from, void *x, size_t n);
    /* for memory of a device only */
    int (*look)(vc_comm *c, bool *busy, vc_err *err);
    void (*give_up)(vc_comm *c);
} vc_comm_ops;

struct vc_comm {
    const vc_comm_ops *ops;      /* NULL: a world of one */
    void *state;                 /* of ops */
    int rank, size, local, locals;
    bool broken;                 /* a call failed: ranks may be at different calls */
    vc_watch *watch;             /* of all ranks; NULL for memory of a device */
    vc_comm *world;              /* the comm of all ranks, or NULL: this one */
    double *last;                /* on rank 0: [size][VC_COMM_POSTS], each rank's latest post */
};

/* mpi.c: connects the processes of the launcher and fills in *c; its size is 1 if MPI finds only
 * this process. */
int vc_comm_mpi_open(vc_comm *c, vc_err *err);

#endif
