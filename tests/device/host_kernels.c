/* host_kernels.c - the kernel bodies on the CPU, and graphs of their calls; see host_parts.h */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/device/device_host.h"

#define VK_HOST_FOLD host_team_fold
#include "tests/device/host_parts.h"

/* ---- teams of threads ---- */

int host_lanes = 1;
int (*host_interpret)(const char *name, const void *args, size_t bytes, uint64_t blocks);
static _Thread_local int self;                 /* this thread's lane in the block */

/* A barrier of a team's lanes, which also sums their values. A block has one as a whole, and up to
 * HOST_LANES teams of fewer lanes. */
typedef struct meeting {
    pthread_mutex_t lock;
    pthread_cond_t all;
    int here;
    unsigned round;
    float v[HOST_LANES], total;
} meeting;

float host_team_fold(int lane, int lanes, float v, int largest)
{
    static meeting whole, parts[HOST_LANES];   /* glibc's mutex and condition are valid as zeros */
    meeting *m = lanes == HOST_LANES ? &whole : &parts[self / lanes];

    pthread_mutex_lock(&m->lock);
    unsigned round = m->round;
    m->v[lane] = v;
    if (++m->here == lanes) {
        m->total = largest ? -INFINITY : 0;
        for (int i = 0; i < lanes; i++)
            m->total = largest ? fmaxf(m->total, m->v[i]) : m->total + m->v[i];
        m->here = 0;
        m->round++;
        pthread_cond_broadcast(&m->all);
    }
    while (round == m->round)
        pthread_cond_wait(&m->all, &m->lock);
    v = m->total;
    pthread_mutex_unlock(&m->lock);
    return v;
}

typedef struct host_lane {
    pthread_t thread;
    int number;
    void (*body)(int lane, const void *args);
    const void *args;
} host_lane;

static void *run_lane(void *of)
{
    const host_lane *l = of;

    self = l->number;
    l->body(l->number, l->args);
    return NULL;
}

/* Runs each lane in its own thread: with fewer threads, as of OpenMP, waiting lanes would hang. */
static void run_lanes(void (*body)(int lane, const void *args), const void *args)
{
    host_lane lanes[HOST_LANES];

    for (int i = 0; i < HOST_LANES; i++) {
        lanes[i] = (host_lane){ .number = i, .body = body, .args = args };
        if (pthread_create(&lanes[i].thread, NULL, run_lane, &lanes[i])) {
            fprintf(stderr, "device host: cannot start a thread for lane %d\n", i);
            abort();
        }
    }
    for (int i = 0; i < HOST_LANES; i++)
        pthread_join(lanes[i].thread, NULL);
}

/* ---- kernels ---- */

/* A call and a copy of its arguments. */
typedef struct call {
    struct call *next;
    void (*run)(void *stream, const void *args);
    _Alignas(16) char args[];
} call;

struct vt_graph {
    call *first, **last;
    unsigned moves;                            /* the device's count of moved scratch at capture */
};

void host_advance(void *to)
{
    if (to)
        ((host_stream *)to)->now++;
}

host_count host_counted;

static void count(const char *name)
{
    host_counted.launches++;
    host_counted.named += host_counted.kernel && !strcmp(host_counted.kernel, name);
}

bool host_captured(void *to, void (*run)(void *stream, const void *args), const void *args,
                   size_t bytes)
{
    vt_graph *g = to ? ((host_stream *)to)->graph : NULL;

    if (!g)
        return false;
    call *c = malloc(sizeof *c + bytes);
    *c = (call){ .run = run };
    memcpy(c->args, args, bytes);
    *g->last = c;
    g->last = &c->next;
    return true;
}

#define RUN(name, blocks, lanes)                                                                   \
    for (uint64_t b = 0, n = (blocks); b < n; b++)                                                 \
        for (int lane = 0; lane < (lanes); lane++)                                                 \
            vk_##name##_body(s, (uint32_t)b, (vk_team){ lane, (lanes), NULL })
#define REPLAY(name)                                                                               \
    static void replay_##name(void *stream, const void *s)                                         \
    {                                                                                              \
        vk_##name(stream, s);                                                                      \
    }
#define VK_KERNEL(name, args, blocks)                                                              \
    REPLAY(name)                                                                                   \
    int vk_##name(void *stream, const args *s)                                                     \
    {                                                                                              \
        if (host_captured(stream, replay_##name, s, sizeof *s))                                    \
            return 0;                                                                              \
        host_advance(stream);                                                                      \
        count(#name);                                                                              \
        if (host_interpret)                                                                        \
            return host_interpret(#name, s, sizeof *s, (blocks));                                  \
        RUN(name, blocks, HOST_LANES);                                                             \
        return 0;                                                                                  \
    }
#define VK_TEAM_KERNEL(name, args, blocks)                                                         \
    REPLAY(name)                                                                                   \
    static void lane_##name(int lane, const void *of)                                              \
    {                                                                                              \
        const args *s = of;                                                                        \
        for (uint64_t b = 0, n = (blocks); b < n; b++)                                             \
            vk_##name##_body(s, (uint32_t)b, (vk_team){ lane, HOST_LANES, NULL });                 \
    }                                                                                              \
    int vk_##name(void *stream, const args *s)                                                     \
    {                                                                                              \
        if (host_captured(stream, replay_##name, s, sizeof *s))                                    \
            return 0;                                                                              \
        host_advance(stream);                                                                      \
        count(#name);                                                                              \
        if (host_interpret)                                                                        \
            return host_interpret(#name, s, sizeof *s, (blocks));                                  \
        if (host_lanes == 1)                                                                       \
            RUN(name, blocks, 1);                                                                  \
        else                                                                                       \
            run_lanes(lane_##name, s);                                                             \
        return 0;                                                                                  \
    }
#define VK_MAP_LAUNCH(name)                                                                        \
    static int vk_map_##name(void *stream, const vk_map_args *s);                                  \
    VK_KERNEL(map_##name, vk_map_args, VK_BLOCKS((uint64_t)s->w.rows * s->w.packs))
#include "common/kernels/bodies.h"

/* ---- graphs ---- */

int host_capture_begin(vt_dev *d, vc_err *err)
{
    vt_graph *g = malloc(sizeof *g);

    (void)err;
    *g = (vt_graph){ .last = &g->first };
    d->runtime->kernels.graph = g;
    d->capturing = true;
    return 0;
}

void host_drop(vt_dev *d, vt_graph *g)
{
    (void)d;
    for (call *c; (c = g->first); free(c))
        g->first = c->next;
    free(g);
}

int host_capture_end(vt_dev *d, vt_graph **out, vc_err *err)
{
    vt_graph *g = d->runtime->kernels.graph;
    const char *capture_fault = getenv("VLT_HOST_CAPTURE_FAULT");

    if (capture_fault)
        cuda_fault(d, VC_EFAIL, "%s", capture_fault);
    d->runtime->kernels.graph = NULL;
    d->capturing = false;
    int rc = d->fault ? vc_fail(err, d->fault, "%s", d->fault_text) : 0;
    d->fault = 0;
    g->moves = d->moves;
    *out = rc ? NULL : g;
    if (rc)
        host_drop(d, g);
    return rc;
}

bool host_launch(vt_dev *d, vt_graph *g)
{
    for (call *c = g->moves == d->moves ? g->first : NULL; c; c = c->next)
        c->run(d->stream, c->args);
    return g->moves == d->moves;
}
