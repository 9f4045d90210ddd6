/* comm.h - the ranks of a run and what they do together: processes that mpirun or srun started.
 *
 * A program started alone is a world of one: every call below then returns at once, and no MPI is
 * initialised. Started as one of several, MPI connects them; a build without MPI, or a launcher of
 * another MPI, is an error and never N runs that know nothing of each other.
 *
 *     rc = vc_comm_open(&comm, &err);
 *     if (!rc) rc = work(comm, &err);
 *     rc = vc_comm_agree(comm, rc, &err);           // one rank's failure is everyone's
 *     if (rc && vc_comm_rank(comm) == 0) fprintf(stderr, ...);
 *     vc_comm_close(comm);
 *
 * Collective: all ranks of a comm make the same calls in the same order, except for those marked
 * "local". One thread at a time, over all comms of the process. Sums are made in rank order, so the
 * same values give the same bits each time and on each rank, whatever the network. Waiting ranks
 * sleep between looks: the cores are the kernels'.
 *
 * Memory is the host's, but for vc_comm_device. A call that fails (VC_EFAIL, VC_ENOMEM) leaves
 * ranks at different places: the comm is of no more use, closing it ends all ranks of the run. */
#ifndef COMMON_COMM_COMM_H
#define COMMON_COMM_COMM_H

#include <stdbool.h>

#include "common/base/dtype.h"
#include "common/base/err.h"

typedef struct vc_comm vc_comm;

/* Of all processes of the run. First thing in main(), once a process. VC_EUSAGE: started as one of
 * several without an MPI that connects them. *out NULL on failure. */
int vc_comm_open(vc_comm **out, vc_err *err);
/* Those of `c` that give the same color, in the order of their ranks; color >= 0. */
int vc_comm_split(vc_comm **out, vc_comm *c, int color, vc_err *err);
/* Collective; NULL is fine. The comm of vc_comm_open goes last and leaves MPI. */
void vc_comm_close(vc_comm *c);

/* Local. 0..size-1; how many; the place among those of this machine, and how many these are.
 * c NULL: a world of one. */
int vc_comm_rank(const vc_comm *c);
int vc_comm_size(const vc_comm *c);
int vc_comm_local(const vc_comm *c);
int vc_comm_locals(const vc_comm *c);

/* Local: ends all ranks of the run at once with this exit status. For a failure in the midst of
 * what the others wait for; where all meet again, vc_comm_agree is the way. */
_Noreturn void vc_comm_abort(vc_comm *c, int status);

/* Where all stand: 0 if every rank says 0. Else all get the same code and text, those of the lowest
 * rank that failed, with "rank 3: " in front unless all did; VC_ESTOP yields to a failure. A comm
 * that fails at this aborts the run. */
int vc_comm_agree(vc_comm *c, int rc, vc_err *err);

int vc_comm_barrier(vc_comm *c, vc_err *err);
/* n bytes of rank `root` to all. */
int vc_comm_broadcast(vc_comm *c, void *x, size_t n, int root, vc_err *err);
/* all [size * n] bytes: each rank's `mine` [n] in rank order. mine may be all + rank * n. */
int vc_comm_gather(vc_comm *c, void *all, const void *mine, size_t n, vc_err *err);

typedef enum { VC_COMM_SUM, VC_COMM_MIN, VC_COMM_MAX } vc_comm_op;
/* x[i] of all ranks, combined: for a few numbers. */
int vc_comm_reduce(vc_comm *c, double *x, int n, vc_comm_op op, vc_err *err);

/* x[i] summed over ranks: for many numbers. wire: how values travel, VC_F32 or VC_BF16; they are
 * added in f32, and with VC_BF16 the sum is rounded to it once more. */
int vc_comm_sum(vc_comm *c, float *x, size_t n, vc_dtype wire, vc_err *err);
/* The same for x [size * n], of which each rank gets its own part in `mine` [n]; unlike that of
 * vc_comm_sum it is not rounded. mine may be x + rank * n; other parts of x stay as they are. */
int vc_comm_sum_scatter(vc_comm *c, float *mine, const float *x, size_t n, vc_dtype wire,
                        vc_err *err);

/* ---- memory of a device ---- */

struct vt_ctx;

typedef struct vc_comm_device_opts {
    struct vt_ctx *second;            /* the second stream that calls queue on (common/memory/second_stream.h) */
    vc_comm *all;                /* hears of a failure: the ranks of the run */
    double patience;             /* s until ranks that do not come are a failure */
} vc_comm_device_opts;
/* The ranks of `c` once more, for vc_comm_sum, vc_comm_sum_scatter and vc_comm_gather of memory of
 * their devices, and for what follows here; these queue and return. The device's library adds
 * (NCCL), in an order of its own, the same on all ranks; bf16 is added in bf16. c and o are
 * borrowed. VC_EINVAL: this build or device has no such way. *out NULL on failure. */
int vc_comm_device(vc_comm **out, vc_comm *c, const vc_comm_device_opts *o, vc_err *err);
/* All ranks compute on GPUs or none ("auto" may find one for some of them alone): `host` says that
 * this one's memory is the host's. VC_EUSAGE names two that differ. */
int vc_comm_same_memory(vc_comm *c, bool host, vc_err *err);
/* Local, to be called now and then while something is queued: *busy, or done. A failure, of this
 * rank or, heard of through `all`, of another, or out of patience: what is queued is given up, so
 * that no stream waits for ever, and all later calls fail. On host memory nothing is queued. */
int vc_comm_look(vc_comm *c, bool *busy, vc_err *err);
/* Local: gives up what is queued. */
void vc_comm_give_up(vc_comm *c);

/* Local, for progress: x [n <= VC_COMM_POSTS] goes to rank 0 while everybody works on. 1: an
 * earlier one is still under way and x is not sent; try again. */
enum { VC_COMM_POSTS = 6 };
int vc_comm_post(vc_comm *c, const double *x, int n, vc_err *err);
/* Local, rank 0: sum [n] of what each rank posted last. */
int vc_comm_posted(vc_comm *c, double *sum, int n, vc_err *err);

#endif
