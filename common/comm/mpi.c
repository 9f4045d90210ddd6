/* mpi.c - communication by MPI; see comm.h
 *
 * Sums do not use MPI's reductions, whose order of additions depends on library, size and network:
 * each rank receives the others' values for its part, adds them in rank order, and sends the sum to
 * all. This moves as many bytes as the best all-reduce: 2 (size - 1) / size of the data each way.
 *
 *     rank 0:  a0 b0 c0   ->  a = a0 + a1 + a2   ->  a b c
 *     rank 1:  a1 b1 c1   ->  b = b0 + b1 + b2   ->  a b c
 *     rank 2:  a2 b2 c2   ->  c = c0 + c1 + c2   ->  a b c
 */
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/comm/watch.h"

enum {
    PIECE = 1 << 20,             /* values summed at a time, for which the scratch has room */
    LEAST_PART = 1 << 12,        /* values of a piece per rank, at least */
    MOST_BYTES = 1 << 30,        /* of one message; MPI counts in int */
    SPINS = 200,                 /* polls of a request before sleeping between polls */
    FIRST_NAP = 10000, LONGEST_NAP = 1000000,            /* ns */
    GRACE = 1000,                /* naps for transfers between living ranks after a loss */
    END = 10,                    /* seconds in which MPI may end the run */
    TELL_BYTES = 1024,           /* most of a message of mpi_tell */
    TAG = 1, POST_TAG = 2, ALARM_TAG = 3, EXCHANGE_TAG = 4, TELL_TAG = 5
};

typedef struct mpi {
    MPI_Comm comm;
    MPI_Request *request;        /* [2 size] */
    size_t part;                 /* most values of a rank's part */
    float *own;                  /* [part] the sum of this rank's part */
    char *in, *out;              /* [size][part] values received and sent; out: bf16 only */
    double post[VC_COMM_POSTS];  /* being sent to rank 0 */
    MPI_Request posting;
    vc_err alarm;                /* the failure sent to the others */
    bool world;                  /* the comm of all ranks, whose close finalises MPI */
    MPI_Request *telling;        /* world: [size] messages of mpi_tell that are being sent */
    char (*told)[TELL_BYTES];    /* [size] */
} mpi;

/* ---- errors and waiting ---- */

/* One thread at a time calls MPI, which need not serve several at once; the lock is held for single
 * calls that do not wait, so that the calls of one comm cannot hold up those of another. */
static pthread_mutex_t calling = PTHREAD_MUTEX_INITIALIZER;

static void begin(void)
{
    pthread_mutex_lock(&calling);
}

static int ended(int code, const char *what, vc_err *err)
{
    char text[MPI_MAX_ERROR_STRING];
    int n;
    pthread_mutex_unlock(&calling);
    if (code == MPI_SUCCESS)
        return 0;
    if (MPI_Error_string(code, text, &n))
        n = 0;
    return vc_fail(err, VC_EFAIL, "MPI: %s: %.*s", what, n, text);
}

/* Makes an MPI call; 0 or VC_EFAIL with the name `what`. */
#define CHECK(call, what, err) (begin(), ended((call), what, err))

static bool mpi_alarmed(vc_comm *c, vc_err *err);

/* Drops the requests of a call that another rank does not join, so that receives, which have even
 * places, do not write to their memory any more. One that is under way cannot be dropped. */
static void drop(MPI_Request *r, int n)
{
    int done;
    for (int i = 0; i < n; i++) {
        if (r[i] == MPI_REQUEST_NULL)
            continue;
        if (i % 2 == 0)
            (void)CHECK(MPI_Cancel(&r[i]), "cancel", NULL);
        if (CHECK(MPI_Test(&r[i], &done, MPI_STATUS_IGNORE), "cancel", NULL) || !done)
            (void)CHECK(MPI_Request_free(&r[i]), "cancel", NULL);
    }
}

typedef struct wait {
    vc_comm *c;
    int n;                       /* of the comm's requests, a receive and a send in turn */
    const char *what;
    bool alarms;                 /* VC_ESTOP follows an alarm of another rank of this comm */
} wait;

/* Polls and sleeps, since MPI_Waitall keeps a core busy. */
static int poll_all(const wait *w, vc_err *err)
{
    struct timespec nap = { .tv_nsec = FIRST_NAP };
    MPI_Request *r = ((mpi *)w->c->state)->request;
    vc_err alarm;
    int done = 0, grace = GRACE;
    for (int looks = 0; !done; looks++) {
        int rc = CHECK(MPI_Testall(w->n, r, &done, MPI_STATUSES_IGNORE), w->what, err);
        if (rc)
            return rc;
        if (done || looks < SPINS)
            continue;
        if (w->alarms && mpi_alarmed(w->c, &alarm))
            rc = vc_fail(err, VC_ESTOP, "another rank has failed");
        else if (vc_watch_lost(w->c->watch) && grace-- == 0)
            rc = vc_watch_fail(w->c->watch, err);
        if (rc) {
            drop(r, w->n);
            return rc;
        }
        nanosleep(&nap, NULL);
        if (nap.tv_nsec < LONGEST_NAP)
            nap.tv_nsec *= 2;
    }
    return 0;
}

static int wait_watching(const wait *w, vc_err *err)
{
    vc_watch_wait(w->c->watch);
    int rc = poll_all(w, err);
    vc_watch_waited(w->c->watch);
    return rc;
}

/* Waits for the first n requests. */
static int wait_all(vc_comm *c, int n, const char *what, vc_err *err)
{
    return wait_watching(&(wait){ c, n, what, false }, err);
}

/* ---- bytes ---- */

/* Sends some bytes along a binomial tree: rank i, counted from the root, gets them from i without
 * its lowest bit and passes them on to i + 1, i + 2, i + 4, ... below that bit. MPI's own broadcast
 * could not be left when a rank is lost. */
static int pass_on(vc_comm *c, void *x, int n, int root, vc_err *err)
{
    mpi *m = c->state;
    int own = (c->rank - root + c->size) % c->size, bit = 1, rc = 0, k = 2;
    m->request[0] = m->request[1] = MPI_REQUEST_NULL;
    while (bit < c->size && !(own & bit))
        bit *= 2;
    if (own) {
        rc = CHECK(MPI_Irecv(x, n, MPI_BYTE, (own - bit + root) % c->size, TAG, m->comm,
                             &m->request[0]), "broadcast", err);
        if (!rc)
            rc = wait_all(c, k, "broadcast", err);
    }
    for (k = 0; !rc && (bit /= 2) > 0;) {
        if (own + bit >= c->size)
            continue;
        m->request[k++] = MPI_REQUEST_NULL;
        rc = CHECK(MPI_Isend(x, n, MPI_BYTE, (own + bit + root) % c->size, TAG, m->comm,
                             &m->request[k++]), "broadcast", err);
    }
    return rc ? rc : wait_all(c, k, "broadcast", err);
}

static int mpi_broadcast(vc_comm *c, void *x, size_t n, int root, vc_err *err)
{
    int rc = 0;
    for (size_t at = 0; !rc && at < n; at += MOST_BYTES) {
        int some = n - at < MOST_BYTES ? (int)(n - at) : MOST_BYTES;
        rc = pass_on(c, (char *)x + at, some, root, err);
    }
    return rc;
}

/* Each iteration copies bytes at..at+some-1 of every rank r to all + r * n + at. */
static int mpi_gather(vc_comm *c, void *all, const void *mine, size_t n, vc_err *err)
{
    mpi *m = c->state;
    char *to = all;
    int rc = 0;
    if (to + (size_t)c->rank * n != mine)
        memmove(to + (size_t)c->rank * n, mine, n);
    mine = to + (size_t)c->rank * n;
    for (size_t at = 0; !rc && at < n; at += MOST_BYTES) {
        int some = n - at < MOST_BYTES ? (int)(n - at) : MOST_BYTES, k = 0;
        for (int r = 0; !rc && r < c->size; r++) {
            if (r == c->rank)
                continue;
            rc = CHECK(MPI_Irecv(to + (size_t)r * n + at, some, MPI_BYTE, r, TAG, m->comm,
                                 &m->request[k++]), "gather", err);
            if (!rc)
                rc = CHECK(MPI_Isend((const char *)mine + at, some, MPI_BYTE, r, TAG, m->comm,
                                     &m->request[k++]), "gather", err);
        }
        if (!rc)
            rc = wait_all(c, k, "gather", err);
    }
    return rc;
}

/* The bytes of a piece that are moved after the first `at` bytes, at most MOST_BYTES. */
static int bytes_after(const vc_piece *p, size_t at)
{
    size_t left = p->n > at ? p->n - at : 0;
    return left < MOST_BYTES ? (int)left : MOST_BYTES;
}

static int mpi_exchange(vc_comm *c, void *to, const vc_piece *in, const void *from,
                        const vc_piece *out, vc_err *err)
{
    mpi *m = c->state;
    int rc = 0, k = 2;
    for (size_t at = 0; !rc && k > 0; at += MOST_BYTES) {
        k = 0;
        for (int r = 0; !rc && r < c->size; r++) {
            int get = bytes_after(&in[r], at), give = bytes_after(&out[r], at);
            char *x = (char *)to + in[r].at + at;
            const char *y = (const char *)from + out[r].at + at;
            if (r == c->rank) {
                memcpy(x, y, (size_t)get);
                continue;
            }
            if (get == 0 && give == 0)
                continue;
            rc = CHECK(MPI_Irecv(x, get, MPI_BYTE, r, EXCHANGE_TAG, m->comm, &m->request[k++]),
                       "exchange", err);
            if (!rc)
                rc = CHECK(MPI_Isend(y, give, MPI_BYTE, r, EXCHANGE_TAG, m->comm,
                                     &m->request[k++]), "exchange", err);
        }
        if (!rc && k)
            rc = wait_watching(&(wait){ c, k, "exchange", true }, err);
    }
    return rc;
}

/* ---- sums ---- */

/* The values that are summed at a time. Rank r's part begins at x + r * stride and has `part`
 * values, the last ranks' maybe fewer; `total` is their sum. */
typedef struct piece {
    const float *x;
    size_t stride, part, total;
    vc_dtype wire;
} piece;

static size_t part_of(const piece *p, int rank)
{
    size_t at = (size_t)rank * p->part;
    if (at >= p->total)
        return 0;
    return p->total - at < p->part ? p->total - at : p->part;
}

static char *slot(const mpi *m, char *slots, int rank, vc_dtype wire)
{
    return slots + (size_t)rank * m->part * vc_dtype_size(wire);
}

/* sum (+)= x */
static void add_values(float *sum, const void *x, vc_dtype type, size_t n, bool first)
{
    const float *f = x;
    const uint16_t *h = x;
    if (first)
        vc_to_f32(sum, x, type, n);
    else if (type == VC_F32)
        for (size_t i = 0; i < n; i++)
            sum[i] += f[i];
    else
        for (size_t i = 0; i < n; i++)
            sum[i] += vc_bf16_to_f32(h[i]);
}

/* Returns rank r's part of this rank's values in the type of the wire; f32 is not copied. */
static const void *outgoing(mpi *m, const piece *p, int r)
{
    const float *x = p->x + (size_t)r * p->stride;
    if (p->wire == VC_F32)
        return x;
    char *to = slot(m, m->out, r, p->wire);
    vc_from_f32(to, p->wire, x, part_of(p, r));
    return to;
}

/* Sums this rank's part over all ranks into m->own, without rounding. */
static int sum_own(vc_comm *c, const piece *p, vc_err *err)
{
    mpi *m = c->state;
    size_t mine = part_of(p, c->rank), size = vc_dtype_size(p->wire);
    const void *own = outgoing(m, p, c->rank);
    int rc = 0, k = 0;
    for (int r = 0; !rc && r < c->size; r++) {
        if (r == c->rank)
            continue;
        rc = CHECK(MPI_Irecv(slot(m, m->in, r, p->wire), (int)(mine * size), MPI_BYTE, r, TAG,
                             m->comm, &m->request[k++]), "sum", err);
        if (!rc)
            rc = CHECK(MPI_Isend(outgoing(m, p, r), (int)(part_of(p, r) * size), MPI_BYTE, r, TAG,
                                 m->comm, &m->request[k++]), "sum", err);
    }
    if (!rc)
        rc = wait_all(c, k, "sum", err);
    for (int r = 0; !rc && r < c->size; r++)
        add_values(m->own, r == c->rank ? own : slot(m, m->in, r, p->wire), p->wire, mine, r == 0);
    return rc;
}

static int mpi_sum(vc_comm *c, float *x, size_t n, vc_dtype wire, vc_err *err)
{
    mpi *m = c->state;
    size_t most = (size_t)c->size * m->part;
    int rc = 0;
    for (size_t at = 0; !rc && at < n; at += most) {
        size_t total = n - at < most ? n - at : most;
        size_t part = (total + (size_t)c->size - 1) / (size_t)c->size;
        const piece p = { .x = x + at, .stride = part, .part = part, .total = total, .wire = wire };
        size_t bytes = part * vc_dtype_size(wire);
        bool in_place = wire == VC_F32 && total == part * (size_t)c->size;
        char *all = in_place ? (char *)(x + at) : m->in, *own = all + (size_t)c->rank * bytes;
        rc = sum_own(c, &p, err);
        if (rc)
            break;
        vc_from_f32(own, wire, m->own, part_of(&p, c->rank));
        rc = mpi_gather(c, all, own, bytes, err);
        if (!rc && !in_place)
            vc_to_f32(x + at, m->in, wire, total);
    }
    return rc;
}

static int mpi_sum_scatter(vc_comm *c, float *mine, const float *x, size_t n, vc_dtype wire,
                           vc_err *err)
{
    mpi *m = c->state;
    int rc = 0;
    for (size_t at = 0; !rc && at < n; at += m->part) {
        size_t part = n - at < m->part ? n - at : m->part;
        const piece p = { .x = x + at, .stride = n, .part = part, .total = part * (size_t)c->size,
                          .wire = wire };
        rc = sum_own(c, &p, err);
        if (!rc)
            memcpy(mine + at, m->own, part * sizeof *mine);
    }
    return rc;
}

/* ---- progress ---- */

static int mpi_post(vc_comm *c, const double *x, vc_err *err)
{
    mpi *m = c->state;
    int done = 1;
    int rc = CHECK(MPI_Test(&m->posting, &done, MPI_STATUS_IGNORE), "post", err);
    if (rc || !done)
        return rc ? rc : 1;
    memcpy(m->post, x, sizeof m->post);
    return CHECK(MPI_Isend(m->post, VC_COMM_POSTS, MPI_DOUBLE, 0, POST_TAG, m->comm, &m->posting),
                 "post", err);
}

static int mpi_posted(vc_comm *c, double *last, vc_err *err)
{
    mpi *m = c->state;
    for (;;) {
        MPI_Status s;
        int there = 0;
        int rc = CHECK(MPI_Iprobe(MPI_ANY_SOURCE, POST_TAG, m->comm, &there, &s), "posts", err);
        if (rc || !there)
            return rc;
        rc = CHECK(MPI_Recv(last + s.MPI_SOURCE * VC_COMM_POSTS, VC_COMM_POSTS, MPI_DOUBLE,
                            s.MPI_SOURCE, POST_TAG, m->comm, MPI_STATUS_IGNORE), "posts", err);
        if (rc)
            return rc;
    }
}

/* ---- alarms ---- */

/* No rank waits for alarms to arrive: a rank that receives one ends. */
static void mpi_alarm(vc_comm *c, const vc_err *err)
{
    mpi *m = c->state;
    MPI_Request r;
    if (m->alarm.code)
        return;
    m->alarm = *err;
    for (int to = 0; to < c->size; to++)
        if (to != c->rank && !CHECK(MPI_Isend(&m->alarm, sizeof m->alarm, MPI_BYTE, to, ALARM_TAG,
                                              m->comm, &r), "alarm", NULL))
            (void)CHECK(MPI_Request_free(&r), "alarm", NULL);
}

static bool mpi_alarmed(vc_comm *c, vc_err *err)
{
    mpi *m = c->state;
    MPI_Status s;
    int there = 0;
    return !CHECK(MPI_Iprobe(MPI_ANY_SOURCE, ALARM_TAG, m->comm, &there, &s), "alarm", NULL) &&
           there && !CHECK(MPI_Recv(err, sizeof *err, MPI_BYTE, s.MPI_SOURCE, ALARM_TAG, m->comm,
                                    MPI_STATUS_IGNORE), "alarm", NULL);
}

/* ---- messages of the watch ---- */

static void mpi_tell(vc_comm *c, int to, const void *x, size_t n)
{
    mpi *m = c->state;
    int done = 0;
    if (n > TELL_BYTES ||
        CHECK(MPI_Test(&m->telling[to], &done, MPI_STATUS_IGNORE), "tell", NULL) || !done)
        return;
    memcpy(m->told[to], x, n);
    (void)CHECK(MPI_Isend(m->told[to], (int)n, MPI_BYTE, to, TELL_TAG, m->comm, &m->telling[to]),
                "tell", NULL);
}

static bool mpi_hear(vc_comm *c, int *from, void *x, size_t n)
{
    mpi *m = c->state;
    MPI_Status s;
    int there = 0;
    if (CHECK(MPI_Iprobe(MPI_ANY_SOURCE, TELL_TAG, m->comm, &there, &s), "hear", NULL) || !there)
        return false;
    *from = s.MPI_SOURCE;
    return !CHECK(MPI_Recv(x, (int)n, MPI_BYTE, s.MPI_SOURCE, TELL_TAG, m->comm,
                           MPI_STATUS_IGNORE), "hear", NULL);
}

/* The other ranks have sent their last message: receives all, and frees what was sent. */
static void end_telling(vc_comm *c)
{
    mpi *m = c->state;
    char x[TELL_BYTES];
    int from;
    while (mpi_hear(c, &from, x, sizeof x)) {
    }
    for (int r = 0; m->telling && r < c->size; r++)
        if (m->telling[r] != MPI_REQUEST_NULL)
            MPI_Request_free(&m->telling[r]);
}

/* ---- open, close ---- */

/* Lets the process end, in some seconds, where MPI does not return. */
static void end_within(unsigned seconds)
{
    signal(SIGALRM, SIG_DFL);
    alarm(seconds);
}

static int mpi_split(vc_comm *out, vc_comm *c, int color, vc_err *err);

static void mpi_close(vc_comm *c)
{
    mpi *m = c->state;
    int done;
    MPI_Test(&m->posting, &done, MPI_STATUS_IGNORE);
    if (m->world) {
        end_telling(c);
        end_within(VC_COMM_PATIENCE);
        MPI_Finalize();
        alarm(0);
    } else
        MPI_Comm_free(&m->comm);
    free(m->telling);
    free(m->told);
    free(m->request);
    free(m->own);
    free(m->in);
    free(m->out);
    free(m);
}

static void mpi_abort(vc_comm *c, int status)
{
    mpi *m = c->state;
    end_within(END);
    MPI_Abort(m->comm, status);
}

static const vc_comm_ops mpi_ops = {
    .split = mpi_split, .close = mpi_close, .abort = mpi_abort,
    .broadcast = mpi_broadcast, .gather = mpi_gather, .exchange = mpi_exchange, .sum = mpi_sum,
    .sum_scatter = mpi_sum_scatter, .post = mpi_post, .posted = mpi_posted,
    .alarm = mpi_alarm, .alarmed = mpi_alarmed, .tell = mpi_tell, .hear = mpi_hear,
};

/* Takes ownership of the open comm: *c closes it, also after a failure of this function. */
static int fill(vc_comm *c, MPI_Comm comm, bool world, vc_err *err)
{
    MPI_Comm near;
    mpi *m = calloc(1, sizeof *m);
    if (!m)
        return vc_no_memory(err);
    *m = (mpi){ .comm = comm, .posting = MPI_REQUEST_NULL, .world = world };
    c->ops = &mpi_ops;
    c->state = m;
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    int rc = CHECK(MPI_Comm_rank(comm, &c->rank), "rank", err);
    if (!rc)
        rc = CHECK(MPI_Comm_size(comm, &c->size), "size", err);
    if (!rc)
        rc = CHECK(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, c->rank, MPI_INFO_NULL, &near),
                   "ranks of this machine", err);
    if (rc)
        return rc;
    MPI_Comm_rank(near, &c->local);
    MPI_Comm_size(near, &c->locals);
    MPI_Comm_free(&near);
    size_t size = (size_t)c->size;
    m->part = PIECE / size > LEAST_PART ? PIECE / size : LEAST_PART;
    m->request = malloc(2 * size * sizeof *m->request);
    m->own = malloc(m->part * sizeof *m->own);
    m->in = malloc(size * m->part * sizeof(float));
    m->out = malloc(size * m->part * sizeof(uint16_t));
    if (world) {
        m->telling = malloc(size * sizeof *m->telling);
        m->told = malloc(size * sizeof *m->told);
    }
    for (size_t r = 0; m->telling && r < size; r++)
        m->telling[r] = MPI_REQUEST_NULL;
    if (!m->request || !m->own || !m->in || !m->out || (world && (!m->telling || !m->told)))
        return vc_fail(err, VC_ENOMEM, "out of memory for %d ranks", c->size);
    return 0;
}

static int mpi_split(vc_comm *out, vc_comm *c, int color, vc_err *err)
{
    const mpi *m = c->state;
    MPI_Comm part;
    int rc = CHECK(MPI_Comm_split(m->comm, color, c->rank, &part), "split", err);
    return rc ? rc : fill(out, part, false, err);
}

/* MPI_Init returns when all ranks are in it, but by default (SLURM_PMIX_FENCE, "mixed") Slurm's
 * barrier between nodes lets some go before the others: a message to a rank that is still in
 * MPI_Init ends that rank in Open MPI's TCP transport, by a segmentation fault. Those that are
 * through give the others time. */
static void wait_for_nodes(void)
{
    const struct timespec nap = { .tv_sec = 1 };
    const char *nodes = getenv("SLURM_STEP_NUM_NODES"), *fence = getenv("SLURM_PMIX_FENCE");
    if (nodes && strtol(nodes, NULL, 10) > 1 && getenv("PMIX_RANK") &&
        !(fence && !strcmp(fence, "ring")))
        nanosleep(&nap, NULL);
}

int vc_comm_mpi_open(vc_comm *c, vc_err *err)
{
    int level;
    int rc = CHECK(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level), "start", err);
    if (rc)
        return rc;
    wait_for_nodes();
    rc = fill(c, MPI_COMM_WORLD, true, err);
    if (!rc && level < MPI_THREAD_SERIALIZED)
        rc = vc_fail(err, VC_EFAIL, "MPI: this library cannot be called from more than one thread");
    return rc;
}
