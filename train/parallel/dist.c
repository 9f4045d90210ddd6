/* dist.c - sums gradients and gathers values over ranks; see dist.h
 *
 * The collective work of a round (a micro-batch) is a list of jobs (dist_jobs.h). Hooks of the
 * blocks and the round's end release the jobs in order, the thread runs them one by one, and a
 * block that needs a job's result waits at its gate until the job is done. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/os/progress.h"
#include "train/parallel/dist_jobs.h"
#include "train/parallel/dist_parts.h"

enum { ALIGN = VTRAIN_ROW_ALIGN, SHARED = 2 };           /* SHARED: rows that blocks alternate in */

typedef vtrain_unit unit;

typedef struct unit_job {
    unit *pair;                  /* a block's units */
    vtrain_job job;
    vt_event *ready, *over;      /* its input is ready; its output is ready */
} unit_job;

typedef struct room {
    float *x;                    /* on the device */
    size_t n;
} room;

struct vtrain_dist {
    vt_ctx *g;
    vtrain_dist_opts o;
    vtrain_layout l;
    room *row;                   /* [rows] */
    int rows;
    room part;                   /* sharded: [largest shard] a micro-batch's sum */
    room shared[SHARED];         /* split values: rows that blocks' values are gathered into */
    unit_job *job;
    int n_jobs;
    vtrain_jobs plan;
    int walks;
    int *forwards, *backwards;   /* [blocks] of each block in this round: begun, and ended */
    size_t bytes;
    double waited;

    int64_t rounds, round;       /* number of rounds of a step; the next one */
    bool on;                     /* between the begin and the end of a round */
    pthread_t thread;
    bool started;
    pthread_mutex_t lock;        /* guards all fields below */
    pthread_cond_t changed;
    int posted, done;            /* jobs of this round; on a device, done means queued */
    bool queued;                 /* the device still works on jobs that are done */
    bool quit;
    int rc;                      /* of the first sum that failed */
    vc_err err;
};

static bool sharded(const vtrain_dist *d)
{
    return d->l.shards > 1;
}

/* ---- rows ---- */

/* Allocates n values and counts their bytes. */
static int make_room(vtrain_dist *d, room *r, size_t n, vc_err *err)
{
    r->x = vt_values_new(d->g, n, err);
    r->n = n;
    d->bytes += n * sizeof *r->x;
    return r->x ? 0 : VC_ENOMEM;
}

static size_t values_of(const vtrain_dist *d, const unit *u)
{
    return u->shard * (size_t)d->l.shards;
}

static size_t value_bytes(const vtrain_dist *d, const unit *u)
{
    return vtrain_shard_bytes(u) * (size_t)d->l.shards;
}

/* The row of the k-th pair's gradients: a row of its own; or, sharded, one of the shared rows. */
static int row_of(const vtrain_dist *d, int k)
{
    return !sharded(d) ? k : k == d->l.blocks ? SHARED : k % SHARED;
}

static int make_rows(vtrain_dist *d, vc_err *err)
{
    d->rows = sharded(d) ? SHARED + 1 : d->l.blocks + 1;
    d->row = calloc((size_t)d->rows, sizeof *d->row);
    if (!d->row)
        return vc_no_memory(err);
    for (int r = 0; r < d->rows; r++) {
        size_t most = ALIGN;
        for (int k = 0; k <= d->l.blocks; k++) {
            const unit *pair = &d->l.unit[VTRAIN_PAIR * k];
            size_t values = values_of(d, &pair[0]) + values_of(d, &pair[1]);
            if (row_of(d, k) == r && values > most)
                most = values;
        }
        int rc = make_room(d, &d->row[r], most, err);
        if (rc)
            return vc_context(err, rc, "gradients");
    }
    for (int k = 0; k < d->l.n; k++) {
        unit *u = &d->l.unit[k];
        u->row = d->row[row_of(d, k / VTRAIN_PAIR)].x + (k % VTRAIN_PAIR ? values_of(d, u - 1) : 0);
        for (int i = 0; i < u->n; i++)
            vt_param_lend_grad(d->g, u->param[i]->t, u->row + u->at[i]);
    }
    return 0;
}

static int make_shards(vtrain_dist *d, vc_err *err)
{
    size_t most = ALIGN;
    for (int k = 0; k < d->l.n; k++) {
        unit *u = &d->l.unit[k];
        const int64_t dim = (int64_t)u->shard;
        if (u->shard > most)
            most = u->shard;
        if (u->n == 0)
            continue;
        u->grad = vt_param_new(d->g, VC_F32, 1, &dim, NULL, VC_F32, false, err);
        if (!u->grad)
            return VC_ENOMEM;
        d->bytes += u->shard * sizeof(float);
    }
    return vc_context(err, make_room(d, &d->part, most, err), "gradients");
}

vtrain_layout *vtrain_dist_layout(vtrain_dist *d)
{
    return &d->l;
}

/* ---- sums ---- */

/* Sets gradients that backward did not write, and the gaps, to zero: in a shared row they hold
 * another block's values. */
static void fill_gaps(const vtrain_dist *d, const unit *u, size_t values)
{
    for (int i = 0; i < u->n; i++) {
        vt_tensor *x = u->param[i]->grad;
        size_t n = (size_t)vt_count(x), end = i + 1 < u->n ? u->at[i + 1] : values;
        size_t from = u->at[i] + (vt_adds(x) ? n : 0);
        vt_values_zero(d->l.second, u->row + from, end - from);
    }
}

/* Records which gradients no backward has written, in a step's first round or in all of its rounds
 * until now; `empty` is their state for the next backward. All ranks have to reach the same
 * parameters, those that share a sequence with any tokens of it. */
static void note_reached(const unit *u, bool first, bool empty)
{
    for (int i = 0; i < u->n; i++) {
        vt_buf *b = u->param[i]->grad->buf;
        b->unreached = b->empty && (first || b->unreached);
        b->empty = empty;
    }
}

/* first: the round has no sum of this unit yet. */
static int sum_shards(vtrain_dist *d, const unit *u, bool first, vc_err *err)
{
    float *part = d->part.x;
    int rc = vc_comm_sum_scatter(d->l.rows_group, part, u->row, u->shard, d->o.wire, err);
    if (!rc)
        rc = vc_comm_sum(d->l.rows_copies, part, u->shard, d->o.wire, err);
    first = first && !d->round;
    if (!rc && !first)
        vt_values_add(d->l.second, u->grad->data, part, u->shard);
    else if (!rc)
        vt_values_copy(d->l.second, u->grad->data, part, u->shard);
    note_reached(u, first, true);                /* the next backward overwrites them */
    return rc;
}

static int sum_unit(vtrain_dist *d, const unit *u, bool first, vc_err *err)
{
    if (u->n == 0)
        return 0;
    fill_gaps(d, u, values_of(d, u));
    if (sharded(d))
        return sum_shards(d, u, first, err);
    note_reached(u, true, false);
    return vc_comm_sum(d->l.rows_copies, u->row, values_of(d, u), d->o.wire, err);
}

static int gather_unit(vtrain_dist *d, const unit *u, vc_err *err)
{
    if (!u->value)
        return 0;
    return vc_comm_gather(d->l.rows_group, u->values, u->value->data, vtrain_shard_bytes(u), err);
}

/* ---- jobs ---- */

static int make_jobs(vtrain_dist *d, vc_err *err)
{
    const size_t blocks = (size_t)d->l.blocks;
    int rc = vtrain_jobs_plan(&d->plan, d->l.blocks, d->walks, sharded(d), d->o.values, err);
    d->job = rc ? NULL : calloc((size_t)d->plan.n, sizeof *d->job);
    d->forwards = calloc(blocks + 1, sizeof *d->forwards);
    d->backwards = calloc(blocks + 1, sizeof *d->backwards);
    if (!rc && (!d->job || !d->forwards || !d->backwards))
        rc = vc_no_memory(err);
    for (int i = 0; !rc && i < d->plan.n; i++, d->n_jobs++) {
        const vtrain_job *j = &d->plan.job[i];
        const int k = j->block < 0 ? d->l.blocks : d->l.blocks - 1 - j->block;
        d->job[i] = (unit_job){ .pair = &d->l.unit[VTRAIN_PAIR * k], .job = *j };
        rc = vt_event_open(&d->job[i].ready, d->g, err);
        if (!rc)
            rc = vt_event_open(&d->job[i].over, d->g, err);
    }
    return rc;
}

/* ---- the thread ---- */

/* Runs a job; on a device queues the job between the events of its input and its output. */
static int run_job(vtrain_dist *d, const unit_job *j, vc_err *err)
{
    vt_after(d->l.second, j->ready);
    int rc = 0;
    for (int i = 0; !rc && i < VTRAIN_PAIR; i++)
        rc = j->job.gather ? gather_unit(d, &j->pair[i], err)
                           : sum_unit(d, &j->pair[i], !j->job.more, err);
    vt_record_event(d->l.second, j->over);
    return rc;
}

/* Sleeps until a job is released or, while the device works on jobs, for VTRAIN_NAP at most. */
static void rest(vtrain_dist *d)
{
    struct timespec until;
    if (!d->queued) {
        pthread_cond_wait(&d->changed, &d->lock);
        return;
    }
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += VTRAIN_NAP;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_cond_timedwait(&d->changed, &d->lock, &until);
}

static void *work(void *arg)
{
    vtrain_dist *d = arg;
    vt_adopt(d->l.second);
    pthread_mutex_lock(&d->lock);
    while (!d->quit) {
        const unit_job *j = d->done < d->posted ? &d->job[d->done] : NULL;
        bool busy = false;
        vc_err err = { 0 };
        int rc = 0;
        if (!j && !d->queued) {
            rest(d);
            continue;
        }
        pthread_mutex_unlock(&d->lock);
        if (j && !d->rc)
            rc = run_job(d, j, &err);
        if (!rc && !d->rc)
            rc = vtrain_look(&d->l, &busy, &err);
        pthread_mutex_lock(&d->lock);
        if (rc) {
            d->rc = rc;
            d->err = err;
        }
        d->done += j != NULL;
        d->queued = busy;
        pthread_cond_broadcast(&d->changed);
        if (!j && busy && d->done >= d->posted)
            rest(d);
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

/* Releases the jobs of a gate, and returns when the jobs that it needs are done; on a device they
 * are queued, and the steps' stream waits for them. */
static void pass(vtrain_dist *d, vtrain_gate at)
{
    for (int i = d->posted; i < at.post; i++)    /* only this thread sets posted */
        vt_record_event(d->g, d->job[i].ready);
    pthread_mutex_lock(&d->lock);
    if (at.post > d->posted)
        d->posted = at.post;
    pthread_cond_broadcast(&d->changed);
    while (d->done < at.need)
        pthread_cond_wait(&d->changed, &d->lock);
    pthread_mutex_unlock(&d->lock);
    if (at.need)
        vt_after(d->g, d->job[at.need - 1].over);
}

/* The gates of a block in a run of the model. Forwards come in the order of the runs, backwards in
 * the opposite one. */
static const vtrain_gates *gates_of(const vtrain_dist *d, const vt_block *b, int walk)
{
    return &d->plan.gates[walk * d->l.blocks + b->index];
}

/* False for a block without trained parameters, and outside rounds. */
static bool gated(const vtrain_dist *d, const vt_block *b)
{
    return d->on && b->index < d->l.blocks;
}

static void grads_ready(void *arg, const vt_block *b)
{
    vtrain_dist *d = arg;
    if (gated(d, b))
        pass(d, gates_of(d, b, d->walks - 1 - d->backwards[b->index]++)->ready);
}

/* A forward behind the round's last one makes the base's prediction for the next micro-batch: it
 * reads no trained values and passes no gate. */
static void enter(void *arg, const vt_block *b, bool backward)
{
    vtrain_dist *d = arg;
    if (!gated(d, b))
        return;
    if (backward)
        pass(d, gates_of(d, b, d->walks - 1 - d->backwards[b->index])->backward);
    else if (d->forwards[b->index] < d->walks)
        pass(d, gates_of(d, b, d->forwards[b->index]++)->forward);
}

/* ---- rounds ---- */

static void begin_round(vtrain_dist *d)
{
    pthread_mutex_lock(&d->lock);                /* all jobs are done: the thread sleeps */
    d->posted = d->done = 0;
    pthread_mutex_unlock(&d->lock);
    memset(d->forwards, 0, (size_t)d->l.blocks * sizeof *d->forwards);
    memset(d->backwards, 0, (size_t)d->l.blocks * sizeof *d->backwards);
    d->on = true;
}

static void end_round(vtrain_dist *d)
{
    double start = vc_seconds();
    pass(d, (vtrain_gate){ d->n_jobs, d->n_jobs });
    d->waited += vc_seconds() - start;
    d->on = false;
    d->round++;
}

void vtrain_dist_begin(vtrain_dist *d, int64_t i)
{
    if (d->on)
        end_round(d);
    if (d->started && i >= d->o.micros - d->rounds)
        begin_round(d);
}

int vtrain_dist_finish(vtrain_dist *d, vc_err *err)
{
    if (!d->started)
        return 0;
    while (d->round < d->rounds) {               /* also rounds that this rank did not begin */
        if (!d->on)
            begin_round(d);
        end_round(d);
    }
    d->round = 0;
    double start = vc_seconds();
    pthread_mutex_lock(&d->lock);
    while (d->queued)
        pthread_cond_wait(&d->changed, &d->lock);
    pthread_mutex_unlock(&d->lock);
    d->waited += vc_seconds() - start;
    if (d->rc && err)
        *err = d->err;
    return vc_context(err, d->rc, "sum of gradients");
}

/* ---- split values ---- */

int vtrain_dist_split(vtrain_dist *d, vc_err *err)
{
    size_t most = ALIGN * sizeof(float);
    int rc = 0;
    if (!d->started || !d->o.values)
        return 0;
    for (int k = 0; k < d->l.blocks; k++) {
        const unit *pair = &d->l.unit[VTRAIN_PAIR * k];
        size_t bytes = value_bytes(d, &pair[0]) + value_bytes(d, &pair[1]);
        if (bytes > most)
            most = bytes;
    }
    for (int i = 0; !rc && i < SHARED; i++)
        rc = make_room(d, &d->shared[i], most / sizeof(float), err);
    for (int k = 0; !rc && k < d->l.blocks; k++) {
        unit *pair = &d->l.unit[VTRAIN_PAIR * k];
        char *row = (char *)d->shared[k % SHARED].x;
        rc = vtrain_split_unit(&d->l, &pair[0], row, &d->bytes, err);
        if (!rc)
            rc = vtrain_split_unit(&d->l, &pair[1], row + value_bytes(d, &pair[0]), &d->bytes,
                                   err);
    }
    return vc_context(err, rc, "weights");
}

int vtrain_dist_whole(vtrain_dist *d, bool keep, vc_err *err)
{
    int rc = 0;
    if (!d->started || !d->o.values)
        return 0;
    for (int k = 0; !rc && keep && k < d->l.n; k++) {
        unit *u = &d->l.unit[k];
        if (u->value && !(u->whole = vt_values_new(d->g, value_bytes(d, u) / sizeof(float), err)))
            rc = VC_ENOMEM;
    }
    rc = vc_comm_agree(d->l.all, rc, err);
    for (int k = 0; !rc && k < d->l.n; k++) {
        unit *u = &d->l.unit[k];
        if (u->value)
            rc = vtrain_gather_row(&d->l, keep ? u->whole : u->values, u->value->data,
                                   vtrain_shard_bytes(u), err);
        if (u->whole)
            vtrain_point_values(&d->l, u, u->whole);
    }
    return vc_context(err, rc, "whole weights");
}

void vtrain_dist_part(vtrain_dist *d)
{
    for (int k = 0; d->l.unit && k < d->l.n; k++) {
        unit *u = &d->l.unit[k];
        if (!u->whole)
            continue;
        vtrain_point_values(&d->l, u, u->values);
        vt_values_free(d->g, u->whole, value_bytes(d, u) / sizeof(float));
        u->whole = NULL;
    }
}

/* ---- open, close ---- */

/* Opens a comm of the ranks of c for rows on a device; on the CPU, and of one rank, it is c. */
static int open_rows(vtrain_dist *d, vc_comm **out, vc_comm *c, int rc, vc_err *err)
{
    const vc_comm_device_opts o = { .second = d->l.second, .all = d->l.all,
                                    .patience = d->o.patience };
    *out = NULL;
    rc = vc_comm_agree(d->l.all, rc, err);
    if (!rc && (vt_host_memory(d->g) || vc_comm_size(c) == 1))
        *out = c;
    return rc || *out ? rc : vc_comm_device(out, c, &o, err);
}

/* Opens the second stream, and the comms whose calls are queued on it. */
static int open_second(vtrain_dist *d, vc_err *err)
{
    vtrain_layout *l = &d->l;
    int rc = vt_second_stream_open(&l->second, d->g, err);
    if (!rc)
        rc = vt_event_open(&l->from, d->g, err);
    rc = open_rows(d, &l->rows_group, l->group, rc, err);
    rc = open_rows(d, &l->rows_copies, l->copies, rc, err);
    return vc_comm_agree(l->all, rc, err);
}

static void close_second(vtrain_layout *l)
{
    if (l->rows_copies != l->copies)
        vc_comm_close(l->rows_copies);
    if (l->rows_group != l->group)
        vc_comm_close(l->rows_group);
    vt_event_close(l->g, l->from);
    vt_close(l->second);
}

static int start(vtrain_dist *d, vc_comm *comm, vt_params *p, vc_err *err)
{
    int rank = vc_comm_rank(comm), shards = d->o.shards;
    d->l.g = d->g;
    d->l.all = comm;
    d->l.shards = shards;
    d->l.how = d->o.how;
    d->l.shard = rank % shards;
    d->rounds = shards > 1 ? d->o.micros : 1;
    int rc = vc_comm_same_memory(comm, vt_host_memory(d->g), err);
    if (!rc)
        rc = vc_comm_split(&d->l.group, comm, rank / shards, err);
    if (!rc)
        rc = vc_comm_split(&d->l.copies, comm, rank % shards, err);
    if (!rc)
        rc = open_second(d, err);
    if (!rc)
        rc = vtrain_layout_open(&d->l, p, err);
    if (!rc)
        rc = make_rows(d, err);
    if (!rc && shards > 1)
        rc = make_shards(d, err);
    if (!rc)
        rc = make_jobs(d, err);
    if (!rc && pthread_create(&d->thread, NULL, work, d))
        rc = vc_fail(err, VC_EFAIL, "cannot start the thread that sums gradients");
    d->started = !rc;
    const vt_hooks hooks = { .arg = d, .enter = enter, .grads_ready = grads_ready };
    if (!rc)
        vt_set_hooks(d->g, &hooks);
    return rc;
}

int vtrain_dist_open(vtrain_dist **out, vc_comm *comm, vt_ctx *g, vt_params *p,
                     const vtrain_dist_opts *o, vc_err *err)
{
    *out = NULL;
    vtrain_dist *d = calloc(1, sizeof *d);
    if (!d)
        return vc_no_memory(err);
    *d = (vtrain_dist){ .g = g, .o = *o, .walks = o->walks > 1 ? o->walks : 1 };
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->changed, NULL);
    int rc = vc_comm_size(comm) > 1 ? start(d, comm, p, err) : 0;
    if (rc) {
        vtrain_dist_close(d);
        return rc;
    }
    *out = d;
    return 0;
}

void vtrain_dist_close(vtrain_dist *d)
{
    if (!d)
        return;
    if (d->started) {
        vt_set_hooks(d->g, NULL);
        pthread_mutex_lock(&d->lock);
        d->quit = true;
        pthread_cond_broadcast(&d->changed);
        pthread_mutex_unlock(&d->lock);
        pthread_join(d->thread, NULL);
    }
    pthread_cond_destroy(&d->changed);
    pthread_mutex_destroy(&d->lock);
    vtrain_dist_part(d);
    for (int k = 0; d->l.unit && k < d->l.n; k++) {
        vt_param_free(d->g, d->l.unit[k].grad);
        vt_param_free(d->g, d->l.unit[k].value);
    }
    for (int i = 0; i < SHARED; i++)
        vt_values_free(d->g, d->shared[i].x, d->shared[i].n);
    for (int i = 0; i < d->n_jobs; i++) {
        vt_event_close(d->g, d->job[i].ready);
        vt_event_close(d->g, d->job[i].over);
    }
    free(d->job);
    vtrain_jobs_close(&d->plan);
    free(d->forwards);
    free(d->backwards);
    for (int r = 0; d->row && r < d->rows; r++)
        vt_values_free(d->g, d->row[r].x, d->row[r].n);
    vt_values_free(d->g, d->part.x, d->part.n);
    close_second(&d->l);
    vc_comm_close(d->l.copies);
    vc_comm_close(d->l.group);
    free(d->row);
    vtrain_layout_close(&d->l);
    free(d);
}

size_t vtrain_dist_bytes(const vtrain_dist *d)
{
    return d ? d->bytes : 0;
}

double vtrain_dist_waited(const vtrain_dist *d)
{
    return d->waited;
}
