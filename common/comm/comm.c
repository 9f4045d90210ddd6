/* comm.c - a world of one, and detection of launchers; no other file tests VLT_MPI. See comm.h */
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/comm/meet.h"
#include "common/comm/watch.h"

/* ---- the number of processes ---- */

/* Variables in which launchers give each process the number of processes. Only srun sets
 * SLURM_STEP_NUM_TASKS; SLURM_NTASKS is set in batch scripts too, which are one process. */
static const char *const counts[] = {
    "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS",
};

/* The number of processes, and its variable, or NULL where no launcher of MPI has set one. */
static long launched(const char **variable)
{
    *variable = NULL;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const char *value = getenv(counts[i]);
        if (!value || !*value)
            continue;
        *variable = counts[i];
        return strtol(value, NULL, 10);
    }
    return 1;
}

/* Refuses ranks of torchrun, accelerate or Kubeflow, which meet through a port of MASTER_ADDR: each
 * would otherwise be a run of its own in the same folder. n: the ranks of a launcher of MPI. Within
 * the variables of a pod mpirun may start any number; but where torchrun itself ran in each of n
 * tasks (srun torchrun ...), its processes would all be the task's one rank. */
static int check_torchrun(long n, vc_err *err)
{
    const char *size = getenv("WORLD_SIZE"), *rank = getenv("RANK");
    if (!size || !rank || !getenv("MASTER_ADDR") || strtol(size, NULL, 10) < 2)
        return 0;
    if (n > 1 && (n == strtol(size, NULL, 10) || !getenv("TORCHELASTIC_RUN_ID")))
        return 0;
    return vc_fail(err, VC_EUSAGE, "started as rank %s of %s in the way of torchrun (RANK, "
                   "WORLD_SIZE, MASTER_ADDR), but ranks meet through MPI: start them with \"mpirun "
                   "-np %s PROGRAM ...\" or \"srun --mpi=pmix -n %s PROGRAM ...\", not torchrun, "
                   "or one process alone with \"env -u WORLD_SIZE PROGRAM ...\"", rank, size,
                   size, size);
}

#ifdef VLT_MPI
/* Refuses tasks of srun to which Slurm gave no way to meet, before MPI ends them with a page of its
 * own. Slurm's plugins pmix and pmi2 and Cray's set these variables. */
static int check_srun(long n, const char *variable, vc_err *err)
{
    static const char *const meets[] = {
        "PMIX_RANK", "PMIX_NAMESPACE", "PMI_RANK", "PMI_FD", "PMI_CONTROL_PORT",
    };
    if (strcmp(variable, "SLURM_STEP_NUM_TASKS"))
        return 0;
    for (size_t i = 0; i < sizeof meets / sizeof *meets; i++)
        if (getenv(meets[i]))
            return 0;
    return vc_fail(err, VC_EUSAGE, "started as one of %ld tasks of srun (SLURM_STEP_NUM_TASKS), "
                   "which Slurm does not connect: add --mpi=pmix to srun; if this process is "
                   "alone, in a shell that a step left the variable to (screen, a notebook, srun "
                   "--pty), start it with \"env -u SLURM_STEP_NUM_TASKS PROGRAM ...\"", n);
}
#endif

static int connect_all(vc_comm *c, long n, const char *variable, vc_err *err)
{
#ifdef VLT_MPI
    int rc = check_srun(n, variable, err);
    if (!rc)
        rc = vc_comm_mpi_open(c, err);
    if (rc || c->size == n)
        return rc;
    return vc_fail(err, VC_EUSAGE, "started as one of %ld processes (%s), but MPI connects %d: the "
                   "launcher belongs to another MPI than this program was built with (its own "
                   "mpirun, or srun --mpi=pmix, is needed), or the variable is left over (a "
                   "process alone starts with \"env -u %s PROGRAM ...\")", n, variable, c->size,
                   variable);
#else
    (void)c;
    return vc_fail(err, VC_EUSAGE, "started as one of %ld processes (%s), but this program was "
                   "built without MPI: install libopenmpi-dev (scripts/setup) and build again with "
                   "-DVLT_MPI=ON, or start one process", n, variable);
#endif
}

bool vc_comm_has_mpi(void)
{
#ifdef VLT_MPI
    return true;
#else
    return false;
#endif
}

/* ---- open, close ---- */

/* Connects the ranks and begins to watch them; until then a thread watches that they come. */
static int meet(vc_comm *c, const vc_comm_start *o, long n, const char *variable, vc_err *err)
{
    vc_meet *m;
    int rc = vc_meet_begin(&m, o, n, err);
    if (!rc)
        rc = connect_all(c, n, variable, err);
    if (!rc && c->ops)
        rc = vc_watch_open(&c->watch, c, err);
    if (!rc && c->watch)
        vc_watch_set(c->watch, &(vc_comm_watch_opts){ o->patience, NULL });
    vc_meet_end(m);
    return rc;
}

int vc_comm_open(vc_comm **out, const vc_comm_start *o, vc_err *err)
{
    const char *variable;
    long n = launched(&variable);
    *out = NULL;
    vc_comm *c = calloc(1, sizeof *c);
    if (!c)
        return vc_no_memory(err);
    c->size = c->locals = 1;
    int rc = check_torchrun(n, err);
    if (!rc && n > 1)
        rc = meet(c, o, n, variable, err);
    if (rc) {
        vc_comm_close(c);
        return rc;
    }
    *out = c;
    return 0;
}

int vc_comm_split(vc_comm **out, vc_comm *c, int color, vc_err *err)
{
    *out = NULL;
    vc_comm *part = calloc(1, sizeof *part);
    if (!part)
        return vc_no_memory(err);
    part->size = part->locals = 1;
    part->world = c->world ? c->world : c;
    part->watch = c->watch;
    /* MPI's own call cannot be left: no rank makes it before all have come. */
    int rc = vc_comm_agree(c, 0, err);
    if (!rc && c->ops)
        rc = c->ops->split(part, c, color, err);
    if (rc) {
        vc_comm_close(part);
        return rc;
    }
    *out = part;
    return 0;
}

/* Ends all ranks after a failure. If a rank is lost, the others end their work first. */
static void end_run(vc_comm *c)
{
    if (vc_watch_lost(c->watch))
        vc_watch_leave(c->watch);
    c->ops->abort(c, EXIT_FAILURE);
}

/* Closes the comm of all ranks, once all have come: MPI's own call cannot be left. */
static void close_world(vc_comm *c)
{
    if (c->broken || vc_watch_lost(c->watch) || (c->watch && vc_comm_agree(c, 0, NULL)))
        end_run(c);
    vc_watch_close(c->watch);
    c->ops->close(c);
}

/* A part of a broken run is left as it is: its memory may still be written to. */
static void close_part(vc_comm *c)
{
    if (c->world && c->broken)
        c->world->broken = true;
    if (!c->broken && !vc_watch_lost(c->watch))
        c->ops->close(c);
}

void vc_comm_close(vc_comm *c)
{
    if (c && c->ops && (c->world || c->ops->look))
        close_part(c);
    else if (c && c->ops)
        close_world(c);
    if (c)
        free(c->last);
    free(c);
}

int vc_comm_rank(const vc_comm *c) { return c ? c->rank : 0; }
int vc_comm_size(const vc_comm *c) { return c ? c->size : 1; }
int vc_comm_local(const vc_comm *c) { return c ? c->local : 0; }
int vc_comm_locals(const vc_comm *c) { return c ? c->locals : 1; }

void vc_comm_watch(vc_comm *c, const vc_comm_watch_opts *o)
{
    if (c && c->watch)
        vc_watch_set(c->watch, o);
}

void vc_comm_note(vc_comm *c, const char *fmt, ...)
{
    char text[80];
    va_list args;
    if (!c || !c->watch)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    vc_watch_note(c->watch, text);
}

int vc_comm_lost(vc_comm *c, vc_err *err)
{
    return c ? vc_watch_fail(c->watch, err) : 0;
}

bool vc_comm_leads(vc_comm *c)
{
    const vc_comm *world = c && c->world ? c->world : c;
    return vc_comm_rank(world) == (c && vc_watch_lost(c->watch) ? vc_watch_first(c->watch) : 0);
}

void vc_comm_abort(vc_comm *c, int status)
{
    if (c && c->ops)
        c->ops->abort(c, status);
    _Exit(status);
}

/* ---- collective calls ---- */

/* Returns true if a call has nothing to do. A device's calls move data even for one rank. */
static bool alone(const vc_comm *c)
{
    return vc_comm_size(c) == 1 && !(c && c->ops && c->ops->look);
}

/* Marks a comm of host memory as broken after a failure. A device's failure leaves vc_comm_agree
 * usable, which reports the failure; a loss is known to all ranks. */
static int done(vc_comm *c, int rc)
{
    if (rc && rc != VC_ELOST && !c->ops->look)
        c->broken = true;
    return rc;
}

int vc_comm_broadcast(vc_comm *c, void *x, size_t n, int root, vc_err *err)
{
    return alone(c) || n == 0 ? 0 : done(c, c->ops->broadcast(c, x, n, root, err));
}

int vc_comm_gather(vc_comm *c, void *all, const void *mine, size_t n, vc_err *err)
{
    if (n == 0)
        return 0;
    if (!alone(c))
        return done(c, c->ops->gather(c, all, mine, n, err));
    memmove(all, mine, n);
    return 0;
}

int vc_comm_exchange(vc_comm *c, void *to, const vc_piece *in, const void *from,
                     const vc_piece *out, vc_err *err)
{
    if (alone(c)) {
        memmove((char *)to + in->at, (const char *)from + out->at, in->n);
        return 0;
    }
    int rc = c->ops->exchange(c, to, in, from, out, err);
    return rc == VC_ESTOP ? rc : done(c, rc);
}

void vc_comm_leave(vc_comm *c, const vc_err *err)
{
    if (!alone(c) && c->ops->alarm)
        c->ops->alarm(c, err);
}

int vc_comm_sum(vc_comm *c, float *x, size_t n, vc_dtype wire, vc_err *err)
{
    return alone(c) || n == 0 ? 0 : done(c, c->ops->sum(c, x, n, wire, err));
}

int vc_comm_sum_scatter(vc_comm *c, float *mine, const float *x, size_t n, vc_dtype wire,
                        vc_err *err)
{
    if (n == 0)
        return 0;
    if (!alone(c))
        return done(c, c->ops->sum_scatter(c, mine, x, n, wire, err));
    memmove(mine, x, n * sizeof *x);
    return 0;
}

int vc_comm_look(vc_comm *c, bool *busy, vc_err *err)
{
    *busy = false;
    return c && c->ops && c->ops->look ? c->ops->look(c, busy, err) : 0;
}

void vc_comm_give_up(vc_comm *c)
{
    if (c && c->ops && c->ops->give_up)
        c->ops->give_up(c);
}

static double combined(double a, double b, vc_comm_op op)
{
    switch (op) {
    case VC_COMM_MIN: return b < a ? b : a;
    case VC_COMM_MAX: return b > a ? b : a;
    default: return a + b;
    }
}

int vc_comm_reduce(vc_comm *c, double *x, int n, vc_comm_op op, vc_err *err)
{
    int size = vc_comm_size(c);
    if (size == 1 || n == 0)
        return 0;
    double *all = malloc((size_t)size * (size_t)n * sizeof *all);
    if (!all)
        return done(c, vc_no_memory(err));
    int rc = vc_comm_gather(c, all, x, (size_t)n * sizeof *x, err);
    for (int i = 0; !rc && i < n; i++) {
        x[i] = all[i];
        for (int r = 1; r < size; r++)
            x[i] = combined(x[i], all[r * n + i], op);
    }
    if (rc != VC_ELOST)
        free(all);
    return rc;
}

typedef struct end {
    int code, signal;                /* the stop flag, if the code is VC_ESTOP, else 0 */
} end;

/* Returns the rank whose failure all ranks report: the lowest with a failure other than VC_ESTOP,
 * else the lowest with VC_ESTOP, else -1. *all: all ranks failed, or all stopped. */
static int who_failed(const end *of, int size, bool *all)
{
    int who = -1;
    for (int r = size - 1; r >= 0; r--)
        if (of[r].code && (who < 0 || of[r].code != VC_ESTOP || of[who].code == VC_ESTOP))
            who = r;
    *all = who >= 0;
    for (int r = 0; r < size; r++)
        *all &= of[r].code && (of[r].code == VC_ESTOP) == (of[who].code == VC_ESTOP);
    return who;
}

/* Takes the signal of the lowest rank that has one. */
static void adopt_signal(const end *of, int size)
{
    for (int r = size - 1; r >= 0; r--)
        vc_stop_adopt(of[r].signal);
}

/* Communication failed within an agreement on this rank's rc. */
static int end_agreement(vc_comm *c, int rc, int failure, vc_err *err)
{
    if (failure != VC_ELOST)
        vc_comm_abort(c, EXIT_FAILURE);
    return rc ? rc : vc_comm_lost(c, err);
}

int vc_comm_agree(vc_comm *c, int rc, vc_err *err)
{
    if (alone(c))
        return rc;
    vc_err failure = { .code = rc }, broken = { 0 };
    if (rc && err)
        failure = *err;
    if (vc_watch_lost(c->watch))
        return rc ? rc : vc_comm_lost(c, err);
    end mine = { rc, rc == VC_ESTOP ? *vc_stop_flag() : 0 };
    end *of = malloc((size_t)c->size * sizeof *of);
    int got = of ? c->ops->gather(c, of, &mine, sizeof mine, &broken) : VC_ENOMEM;
    if (got)
        return end_agreement(c, rc, got, err);
    bool all;
    int who = who_failed(of, c->size, &all);
    rc = who < 0 ? 0 : of[who].code;
    if (rc == VC_ESTOP)
        adopt_signal(of, c->size);
    free(of);
    if (who < 0)
        return 0;
    got = c->ops->broadcast(c, &failure, sizeof failure, who, &broken);
    if (got)
        return end_agreement(c, rc, got, err);
    if (err)
        *err = failure;
    return all ? rc : vc_context(err, rc, "rank %d", who);
}

/* ---- progress ---- */

static int room_for_posts(vc_comm *c, vc_err *err)
{
    if (!c->last)
        c->last = calloc((size_t)c->size * VC_COMM_POSTS, sizeof *c->last);
    return c->last ? 0 : vc_fail(err, VC_ENOMEM, "out of memory for %d ranks", c->size);
}

int vc_comm_post(vc_comm *c, const double *x, int n, vc_err *err)
{
    double all[VC_COMM_POSTS] = { 0 };
    memcpy(all, x, (size_t)n * sizeof *x);
    if (vc_comm_lost(c, err))
        return VC_ELOST;
    if (vc_comm_rank(c))
        return c->ops->post(c, all, err);
    int rc = c ? room_for_posts(c, err) : 0;
    if (!rc && c)
        memcpy(c->last, all, sizeof all);
    return rc;
}

int vc_comm_posted(vc_comm *c, double *sum, int n, vc_err *err)
{
    int rc = room_for_posts(c, err);
    if (!rc)
        rc = vc_comm_lost(c, err);
    if (!rc && !alone(c))
        rc = c->ops->posted(c, c->last, err);
    for (int i = 0; !rc && i < n; i++) {
        sum[i] = 0;
        for (int r = 0; r < c->size; r++)
            sum[i] += c->last[r * VC_COMM_POSTS + i];
    }
    return rc;
}
