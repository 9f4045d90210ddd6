/* comm.h - communication between the ranks of a run: processes that mpirun or srun started.
 *
 * A program started alone is a world of one: every call below then returns at once, and MPI is not
 * initialised. MPI connects the processes of a launcher; a build without MPI, or a launcher of
 * another MPI, is an error and never results in N unconnected runs.
 *
 *     rc = vc_comm_open(&comm, &err);
 *     if (!rc) rc = work(comm, &err);
 *     rc = vc_comm_agree(comm, rc, &err);           // one rank's failure is everyone's
 *     if (rc && vc_comm_rank(comm) == 0) fprintf(stderr, ...);
 *     vc_comm_close(comm);
 *
 * Calls are collective: all ranks of a comm make the same calls in the same order, except for those
 * marked "local". One thread at a time uses a comm; threads may use different comms. Sums are made
 * in rank order, so the same values give the same bits each time and on each rank, whatever the
 * network. Waiting ranks sleep between polls, so that the cores are free for kernels.
 *
 * Memory is the host's, except for vc_comm_device. After a failed call (VC_EFAIL, VC_ENOMEM) ranks
 * may be at different calls: the comm cannot be used any more, and closing that of the run ends all
 * its ranks.
 *
 * Every rank sends signs of life, from a thread. A rank from which none come is named in a warning;
 * if none come for as long as the patience it is lost, and calls return VC_ELOST on all living
 * ranks, now or later. These do what is left for each alone; vc_comm_leads is then true on their
 * lowest, and its last vc_comm_close ends the run when all have come to theirs. The memory of calls
 * that failed so is not freed before, since a transfer may be under way. */
#ifndef COMMON_COMM_COMM_H
#define COMMON_COMM_COMM_H

#include <stdbool.h>

#include "common/base/dtype.h"
#include "common/base/err.h"
#include "common/base/piece.h"
#include "common/os/progress.h"

typedef struct vc_comm vc_comm;

enum { VC_COMM_PATIENCE = 600 };             /* s */
typedef struct vc_comm_start {
    const char *program;         /* its name in lines about ranks that do not come */
    vc_log_format log_format;    /* of these lines */
    double patience;             /* seconds until the run ends because ranks have not come; 0: they
                                  * are waited for without end */
} vc_comm_start;
/* Opens the comm of all processes of the run; main() calls it once, before the other functions. It
 * returns when all have called it. While some are missing, a line on stderr says so after half of
 * the patience or 30 s, whichever is less; at the end of the patience the process reports an error
 * and exits with status 1. Afterwards the ranks are watched with this patience.
 * VC_EUSAGE: the process is one of several, by the environment of a launcher of MPI or of torchrun,
 * but no MPI connects them. *out is NULL on failure. */
int vc_comm_open(vc_comm **out, const vc_comm_start *o, vc_err *err);
/* Local: true if this program was built with MPI. */
bool vc_comm_has_mpi(void);
/* Opens a comm of those ranks of `c` that give the same color, in the order of their ranks; color
 * >= 0. */
int vc_comm_split(vc_comm **out, vc_comm *c, int color, vc_err *err);
/* Closes a comm; NULL is fine. The comm of vc_comm_open is closed last, which finalises MPI. */
void vc_comm_close(vc_comm *c);

/* Local: this rank (0..size-1), the number of ranks, this rank's index among the ranks of its
 * machine, and the number of these. c NULL is a world of one. */
int vc_comm_rank(const vc_comm *c);
int vc_comm_size(const vc_comm *c);
int vc_comm_local(const vc_comm *c);
int vc_comm_locals(const vc_comm *c);

typedef struct vc_comm_watch_opts {
    double patience;             /* seconds without a sign of life until a rank is lost; 0: never */
    vc_progress *ui;             /* for the lines about silent ranks, on the lowest that answers;
                                  * borrowed until the next vc_comm_watch; NULL: silent */
} vc_comm_watch_opts;
/* Local, on the comm of vc_comm_open: sets how the others are watched. */
void vc_comm_watch(vc_comm *c, const vc_comm_watch_opts *o);
/* Local, on that comm: sets the text that describes this rank where others name it, as "step 12
 * done". */
void vc_comm_note(vc_comm *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Local: VC_ELOST, with the names of the ranks, if some are lost; else 0. */
int vc_comm_lost(vc_comm *c, vc_err *err);
/* Local: true on the rank that reports for all, rank 0 or, if that is lost, the lowest living. */
bool vc_comm_leads(vc_comm *c);

/* Local: ends all ranks of the run at once with this exit status. It serves failures of one rank
 * while the others wait in a collective call; elsewhere ranks call vc_comm_agree. */
_Noreturn void vc_comm_abort(vc_comm *c, int status);

/* Agrees on one result: 0 if every rank passes 0. Else all ranks get the code and the text of the
 * lowest rank that failed, with "rank 3: " in front unless all failed, of which ranks with VC_ESTOP
 * are none; a failure takes precedence over VC_ESTOP. With VC_ESTOP all ranks' stop flags
 * (progress.h) have the signal of the lowest rank that got one. If communication fails here, the
 * run is aborted. */
int vc_comm_agree(vc_comm *c, int rc, vc_err *err);

/* Copies n bytes of rank `root` to all ranks. */
int vc_comm_broadcast(vc_comm *c, void *x, size_t n, int root, vc_err *err);
/* Copies each rank's `mine` [n] bytes to `all` [size * n] of every rank, in rank order. mine may be
 * all + rank * n. */
int vc_comm_gather(vc_comm *c, void *all, const void *mine, size_t n, vc_err *err);

/* Sends out[r] of `from` to each rank r and writes the piece that comes from r to in[r] of `to`.
 * Pieces of `from` may overlap. VC_ESTOP: another rank has called vc_comm_leave. */
int vc_comm_exchange(vc_comm *c, void *to, const vc_piece *in, const void *from,
                     const vc_piece *out, vc_err *err);
/* Local: this rank joins no exchange any more, because of its failure `err`: the exchanges of other
 * ranks that wait for this one return VC_ESTOP. Other collective calls still serve. */
void vc_comm_leave(vc_comm *c, const vc_err *err);

typedef enum { VC_COMM_SUM, VC_COMM_MIN, VC_COMM_MAX } vc_comm_op;
/* Combines x[i] of all ranks by op, for a few numbers. */
int vc_comm_reduce(vc_comm *c, double *x, int n, vc_comm_op op, vc_err *err);

/* Sums x[i] over ranks, for many numbers. Values are sent as `wire`, VC_F32 or VC_BF16, and added
 * in f32; with VC_BF16 the sum is rounded to bf16 too. */
int vc_comm_sum(vc_comm *c, float *x, size_t n, vc_dtype wire, vc_err *err);
/* The same for x [size * n], of which each rank gets its own part of the sum in `mine` [n], which
 * is not rounded. mine may be x + rank * n; other parts of x are unchanged. */
int vc_comm_sum_scatter(vc_comm *c, float *mine, const float *x, size_t n, vc_dtype wire,
                        vc_err *err);

/* ---- memory of a device ---- */

struct vt_ctx;

typedef struct vc_comm_device_opts {
    struct vt_ctx *second;       /* the stream that calls queue on (memory/second_stream.h) */
    vc_comm *all;                /* the ranks that are notified of a failure */
    int first;                   /* number in the run of rank 0 of `all`, for messages */
    double patience;             /* seconds until a rank that does not answer is a failure; 0:
                                  * for ever */
} vc_comm_device_opts;
/* Opens a comm of the ranks of `c` for memory of their devices. It serves vc_comm_sum,
 * vc_comm_sum_scatter, vc_comm_gather, vc_comm_exchange, which queue and return, and the functions
 * below. The device's library (NCCL) adds, in an order of its own that is the same on all ranks;
 * bf16 is added in bf16. c and o are borrowed. VC_EINVAL: this build or device has no such library.
 * *out is NULL on failure. */
int vc_comm_device(vc_comm **out, vc_comm *c, const vc_comm_device_opts *o, vc_err *err);
/* Checks that all ranks compute on GPUs or all on CPUs ("auto" may find GPUs for only some ranks):
 * `host` is true if this rank's memory is the host's. VC_EUSAGE names two ranks that differ. */
int vc_comm_same_memory(vc_comm *c, bool host, vc_err *err);
/* Local, called regularly while calls are queued: *busy becomes false when all are done. A failure
 * of this rank, a failure of another rank that `all` reports, or the end of `patience` aborts the
 * queued calls, so that no stream waits for ever, and all later calls fail. On host memory no calls
 * are queued. */
int vc_comm_look(vc_comm *c, bool *busy, vc_err *err);
/* Local: aborts the queued calls. */
void vc_comm_give_up(vc_comm *c);

/* Local, for progress: sends x [n <= VC_COMM_POSTS] to rank 0 without waiting. Returns 1 if an
 * earlier post is still being sent; x is then not sent, and the caller may try again. */
enum { VC_COMM_POSTS = 8 };
int vc_comm_post(vc_comm *c, const double *x, int n, vc_err *err);
/* Local, on rank 0: sums the latest posts of all ranks into sum [n]. */
int vc_comm_posted(vc_comm *c, double *sum, int n, vc_err *err);

#endif
