/* parts.h - what fills a comm: one table a way of talking. Internal to common/. */
#ifndef COMMON_COMM_PARTS_H
#define COMMON_COMM_PARTS_H

#include <stdbool.h>

#include "common/comm/comm.h"

/* Called with size > 1 only, but for those of a device; contracts as in comm.h. */
typedef struct vc_comm_ops {
    int (*split)(vc_comm *out, vc_comm *c, int color, vc_err *err);
    void (*close)(vc_comm *c);
    void (*abort)(vc_comm *c, int status);
    int (*barrier)(vc_comm *c, vc_err *err);
    int (*broadcast)(vc_comm *c, void *x, size_t n, int root, vc_err *err);
    int (*gather)(vc_comm *c, void *all, const void *mine, size_t n, vc_err *err);
    int (*sum)(vc_comm *c, float *x, size_t n, vc_dtype wire, vc_err *err);
    int (*sum_scatter)(vc_comm *c, float *mine, const float *x, size_t n, vc_dtype wire,
                       vc_err *err);
    int (*post)(vc_comm *c, const double *x, vc_err *err);             /* VC_COMM_POSTS of them */
    int (*posted)(vc_comm *c, double *last, vc_err *err);              /* [size], as they come */
    /* Tells all others of a failure; and true if another told of one, which is *err then. */
    void (*alarm)(vc_comm *c, const vc_err *err);
    bool (*alarmed)(vc_comm *c, vc_err *err);
    /* of memory of a device alone */
    int (*look)(vc_comm *c, bool *busy, vc_err *err);
    void (*give_up)(vc_comm *c);
} vc_comm_ops;

struct vc_comm {
    const vc_comm_ops *ops;      /* NULL: a world of one */
    void *state;                 /* of ops */
    int rank, size, local, locals;
    bool broken;                 /* a call failed: the ranks no longer stand at one place */
    double *last;                /* [size][VC_COMM_POSTS] of rank 0: what each posted last */
};

/* mpi.c: connects the processes of the launcher; *c is filled in, size 1 if it found itself
 * alone. */
int vc_comm_mpi_open(vc_comm *c, vc_err *err);

#endif
