/* links_host.c - see links_host.h */
#include "tests/device/links_host.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/cuda/cuda.h"

enum { LATE = 100, NAP = 20 };                 /* microseconds */
enum { SLOT = 1 << 16, LINK_RANKS = 16 };      /* bytes of a slot; most ranks */

const char *links_fault;
int links_calls;
static vt_backend links_backend;

/* ---- the stream ---- */

typedef struct task {
    struct task *next;
    void (*run)(struct task *t);
    vt_dev *dev;
    vt_tensor y, x;
    float a;
    vt_event *event;
    uint64_t number;
    struct vt_link *link;
    void *to;
    const void *from;
    size_t n;
    vc_dtype type;
    vc_piece in[LINK_RANKS], out[LINK_RANKS];
} task;

typedef struct second_stream {
    /* The first member: a vt_dev * with `of` is a second_stream *. */
    vt_dev dev;
    pthread_t thread;
    task *first, **last;
    bool busy, quit;
} second_stream;

struct vt_event {
    uint64_t recorded, reached;
};

/* This mutex guards all streams and events. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void *work(void *arg)
{
    second_stream *s = arg;

    pthread_mutex_lock(&lock);
    while (s->first || !s->quit) {
        task *t = s->first;
        if (!t) {
            pthread_cond_wait(&changed, &lock);
            continue;
        }
        if (!(s->first = t->next))
            s->last = &s->first;
        s->busy = true;
        pthread_mutex_unlock(&lock);
        usleep(LATE);
        t->run(t);
        free(t);
        pthread_mutex_lock(&lock);
        s->busy = false;
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void push(vt_dev *d, const task *of)
{
    second_stream *s = (second_stream *)d;
    task *t = malloc(sizeof *t);

    *t = *of;
    t->dev = d;
    t->next = NULL;
    pthread_mutex_lock(&lock);
    *s->last = t;
    s->last = &t->next;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static bool drained(vt_dev *d, bool wait)
{
    second_stream *s = (second_stream *)d;

    pthread_mutex_lock(&lock);
    while (wait && (s->first || s->busy))
        pthread_cond_wait(&changed, &lock);
    bool idle = !s->first && !s->busy;
    pthread_mutex_unlock(&lock);
    return idle;
}

static int links_second(vt_dev **out, vt_dev *of, vc_err *err)
{
    second_stream *s = calloc(1, sizeof *s);

    (void)err;
    s->dev = (vt_dev){ .compute = of->compute, .runtime = of->runtime, .of = of };
    s->last = &s->first;
    pthread_create(&s->thread, NULL, work, s);
    *out = &s->dev;
    return 0;
}

static void links_close(vt_dev *d)
{
    second_stream *s = (second_stream *)d;

    if (!d || !d->of) {
        host_backend.close(d);
        return;
    }
    pthread_mutex_lock(&lock);
    s->quit = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    pthread_join(s->thread, NULL);
    free(s);
}

static int links_status(vt_dev *d, vc_err *err)
{
    return d->of ? (drained(d, true), 0) : host_backend.status(d, err);
}

static void links_free(vt_dev *d, void *p, size_t bytes)
{
    if (d->of)
        drained(d, true);
    host_backend.free(d, p, bytes);
}

static void run_fill(task *t) { host_backend.fill(t->dev, &t->y, t->a); }
static void run_copy(task *t) { host_backend.copy(t->dev, &t->y, &t->x); }
static void run_scale(task *t) { host_backend.scale(t->dev, &t->y, &t->x, t->a); }

static void links_fill(vt_dev *d, vt_tensor *y, float a)
{
    if (d->of)
        push(d, &(task){ .run = run_fill, .y = *y, .a = a });
    else
        host_backend.fill(d, y, a);
}

static void links_copy(vt_dev *d, vt_tensor *y, const vt_tensor *x)
{
    if (d->of)
        push(d, &(task){ .run = run_copy, .y = *y, .x = *x });
    else
        host_backend.copy(d, y, x);
}

static void links_scale(vt_dev *d, vt_tensor *y, const vt_tensor *x, float a)
{
    if (d->of)
        push(d, &(task){ .run = run_scale, .y = *y, .x = *x, .a = a });
    else
        host_backend.scale(d, y, x, a);
}

/* ---- events: the first stream runs its calls at once ---- */

static vt_event *event_open(vt_dev *d) { return (void)d, calloc(1, sizeof(vt_event)); }
static void event_close(vt_event *e) { free(e); }

static void run_reach(task *t)
{
    pthread_mutex_lock(&lock);
    t->event->reached = t->number;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void run_wait(task *t)
{
    pthread_mutex_lock(&lock);
    while (t->event->reached < t->number)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static uint64_t number_of(vt_event *e, int more)
{
    pthread_mutex_lock(&lock);
    uint64_t n = e->recorded += (uint64_t)more;
    pthread_mutex_unlock(&lock);
    return n;
}

static void event_task(vt_dev *d, vt_event *e, int more, void (*run)(task *))
{
    task t = { .run = run, .event = e, .number = number_of(e, more) };

    if (d->of)
        push(d, &t);
    else
        run(&t);
}

static void record(vt_dev *d, vt_event *e) { event_task(d, e, 1, run_reach); }
static void after(vt_dev *d, vt_event *e) { event_task(d, e, 0, run_wait); }

/* ---- links ---- */

typedef struct meeting {
    atomic_int opened, here, round;
    char slot[LINK_RANKS][SLOT];
    size_t sent[LINK_RANKS];                   /* bytes of each rank's piece of an exchange */
} meeting;

struct vt_link {
    meeting *m;
    vt_dev *dev;
    int rank, size;
    atomic_bool closed;
    bool calling;
};

/* Waits for all ranks; returns false if this rank has closed its link. */
static bool meet(vt_link *l)
{
    int round = atomic_load(&l->m->round);

    if (atomic_fetch_add(&l->m->here, 1) + 1 == l->size) {
        atomic_store(&l->m->here, 0);
        atomic_fetch_add(&l->m->round, 1);
        return true;
    }
    while (atomic_load(&l->m->round) == round) {
        if (atomic_load(&l->closed))
            return false;
        usleep(NAP);
    }
    return true;
}

static float value(const void *x, size_t i, vc_dtype type)
{
    return type == VC_F32 ? ((const float *)x)[i] : vc_bf16_to_f32(((const uint16_t *)x)[i]);
}

/* Sums the ranks' from[n] into to[n], or only contributes to the sum if to is NULL. Returns false
 * if this rank has closed its link. */
static bool sum_part(vt_link *l, char *to, const char *from, size_t n, vc_dtype type)
{
    size_t size = vc_dtype_size(type), most = SLOT / size;

    for (size_t at = 0; at < n; at += most) {
        size_t some = n - at < most ? n - at : most;
        memcpy(l->m->slot[l->rank], from + at * size, some * size);
        if (!meet(l))
            return false;
        for (size_t i = 0; to && i < some; i++) {
            float sum = value(l->m->slot[0], i, type);
            for (int r = 1; r < l->size; r++)
                sum += value(l->m->slot[r], i, type);
            vc_from_f32(to + (at + i) * size, type, &sum, 1);
        }
        if (!meet(l))
            return false;
    }
    return true;
}

static void run_sum(task *t) { sum_part(t->link, t->to, t->from, t->n, t->type); }

static void run_scatter(task *t)
{
    size_t bytes = t->n * vc_dtype_size(t->type);

    for (int r = 0; r < t->link->size; r++)
        if (!sum_part(t->link, r == t->link->rank ? t->to : NULL,
                      (const char *)t->from + (size_t)r * bytes, t->n, t->type))
            return;
}

static void run_gather(task *t)
{
    vt_link *l = t->link;

    for (size_t at = 0; at < t->n; at += SLOT) {
        size_t some = t->n - at < SLOT ? t->n - at : SLOT;
        memcpy(l->m->slot[l->rank], (const char *)t->from + at, some);
        if (!meet(l))
            return;
        for (int r = 0; r < l->size; r++)
            memcpy((char *)t->to + (size_t)r * t->n + at, l->m->slot[r], some);
        if (!meet(l))
            return;
    }
}

/* Moves the ranks' pieces for rank r. Returns false if this rank has closed its link. */
static bool move_to(const task *t, int r)
{
    vt_link *l = t->link;
    size_t most = 0;

    l->m->sent[l->rank] = t->out[r].n;
    if (!meet(l))
        return false;
    for (int k = 0; k < l->size; k++)
        most = l->m->sent[k] > most ? l->m->sent[k] : most;
    for (size_t at = 0; at < most; at += SLOT) {
        if (at < t->out[r].n)
            memcpy(l->m->slot[l->rank], (const char *)t->from + t->out[r].at + at,
                   t->out[r].n - at < SLOT ? t->out[r].n - at : SLOT);
        if (!meet(l))
            return false;
        for (int k = 0; k < l->size && r == l->rank; k++)
            if (at < t->in[k].n)
                memcpy((char *)t->to + t->in[k].at + at, l->m->slot[k],
                       t->in[k].n - at < SLOT ? t->in[k].n - at : SLOT);
        if (!meet(l))
            return false;
    }
    return meet(l);
}

static void run_exchange(task *t)
{
    for (int r = 0; r < t->link->size; r++)
        if (!move_to(t, r))
            return;
}

/* Whether links_fault names this rank and this call with the fault `how`. */
static bool fault(const vt_link *l, const char *how, int call)
{
    size_t n = strlen(how);
    int rank, number;

    return links_fault && l->size > 1 && !strncmp(links_fault, how, n) &&
           sscanf(links_fault + n, "%d %d", &rank, &number) == 2 && rank == l->rank &&
           number == call;
}

static int queue(vt_link *l, const task *t, vc_err *err)
{
    int call = l->size > 1 ? ++links_calls : 0;

    if (fault(l, "broken", call))
        return vc_fail(err, VC_EFAIL, "a cable is loose");
    l->calling = true;
    if (!fault(l, "silent", call))
        push(l->dev, t);
    return 0;
}

static int links_sum(vt_link *l, void *x, size_t n, vc_dtype type, vc_err *err)
{
    return queue(l, &(task){ .run = run_sum, .link = l, .to = x, .from = x, .n = n, .type = type },
                 err);
}

static int links_scatter(vt_link *l, void *mine, const void *x, size_t n, vc_dtype type,
                         vc_err *err)
{
    return queue(l, &(task){ .run = run_scatter, .link = l, .to = mine, .from = x, .n = n,
                             .type = type }, err);
}

static int links_gather(vt_link *l, void *all, const void *mine, size_t bytes, vc_err *err)
{
    return queue(l, &(task){ .run = run_gather, .link = l, .to = all, .from = mine, .n = bytes },
                 err);
}

static int links_exchange(vt_link *l, void *to, const vc_piece *in, const void *from,
                          const vc_piece *out, vc_err *err)
{
    task t = { .run = run_exchange, .link = l, .to = to, .from = from };

    memcpy(t.in, in, (size_t)l->size * sizeof *in);
    memcpy(t.out, out, (size_t)l->size * sizeof *out);
    return queue(l, &t, err);
}

static int links_look(vt_link *l, vt_link_state *state, vc_err *err)
{
    (void)err;
    *state = l->calling ? VT_LINK_CALLING : drained(l->dev, false) ? VT_LINK_IDLE : VT_LINK_RUNNING;
    l->calling = false;                        /* the call returned before it was done */
    return 0;
}

/* Makes a new file; its path is the id. */
static int links_id(char id[VT_LINK_ID], vc_err *err)
{
    const char *dir = getenv("TMPDIR");

    snprintf(id, VT_LINK_ID, "%s/vlt-links-XXXXXX", dir ? dir : "/tmp");
    int fd = mkstemp(id);
    if (fd < 0 || ftruncate(fd, sizeof(meeting)))
        return vc_fail_errno(err, "%s", id);
    close(fd);
    return 0;
}

static int links_open(vt_link **out, vt_dev *d, int rank, int size, const char id[VT_LINK_ID],
                      vc_err *err)
{
    int fd = open(id, O_RDWR | O_CLOEXEC);

    *out = NULL;
    if (fd < 0 || size > LINK_RANKS)
        return vc_fail_errno(err, "%s", id);
    vt_link *l = calloc(1, sizeof *l);
    l->m = mmap(NULL, sizeof *l->m, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    l->dev = d;
    l->rank = rank;
    l->size = size;
    close(fd);
    if (atomic_fetch_add(&l->m->opened, 1) + 1 == size)
        unlink(id);
    *out = l;
    return 0;
}

static void links_end(vt_link *l)
{
    atomic_store(&l->closed, true);
    drained(l->dev, true);
    munmap(l->m, sizeof *l->m);
    free(l);
}

static const vt_links links = {
    .name = "links", .id = links_id, .open = links_open, .close = links_end, .look = links_look,
    .sum = links_sum, .sum_scatter = links_scatter, .gather = links_gather,
    .exchange = links_exchange,
};

__attribute__((constructor)) static void install(void)
{
    links_backend = host_backend;
    links_backend.close = links_close;
    links_backend.status = links_status;
    links_backend.free = links_free;
    links_backend.fill = links_fill;
    links_backend.copy = links_copy;
    links_backend.scale = links_scale;
    links_backend.second = links_second;
    links_backend.event_open = event_open;
    links_backend.event_close = event_close;
    links_backend.record = record;
    links_backend.after = after;
    links_backend.links = &links;
    host_instead = &links_backend;
    links_fault = getenv("VLT_LINKS_FAULT");
}
