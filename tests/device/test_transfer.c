/* test_transfer.c - the CUDA backend's copies beside the kernels, without a GPU: simulated streams
 * run their operations late and in any order that the events allow, so that a missing wait leads to
 * wrong bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "common/cuda/device.h"
#include "tests/lib/ok.h"

enum { STREAMS = 2, EVENTS = 64, OPS = 4096, BYTES = 9 << 20, ROUNDS = 8, RUNS = 4 };

typedef struct event {
    int recorded, done;                        /* number of the last queued and last run record */
    float at;
} event;
typedef struct op {
    enum { COPY, RECORD, WAIT, READ } kind;
    void *dst;
    const void *src;
    size_t bytes;
    event *e;
    int which;                                 /* number of the record; expected byte of a READ */
} op;
typedef struct stream {
    op queue[OPS];
    int first, n;
} stream;

static stream streams[STREAMS];
static event events[EVENTS];
static int n_streams, n_events;
static float now;
static unsigned seed;
static char *places[2];

/* ---- the runtime ---- */

static void put(stream *s, op o)
{
    assert_true(s->n < OPS);
    s->queue[s->n++] = o;
}

/* Runs the stream's next operation; returns false if the stream waits or is idle. */
static bool run_one(stream *s)
{
    if (s->first == s->n)
        return false;
    const op *o = &s->queue[s->first];
    if (o->kind == WAIT && o->e->done < o->which)
        return false;
    now += 1;
    if (o->kind == COPY)
        memcpy(o->dst, o->src, o->bytes);
    if (o->kind == RECORD)
        *o->e = (event){ o->e->recorded, o->which, now };
    if (o->kind == READ) {
        const unsigned char *p = o->src;
        assert_int_equal(p[0], o->which);
        assert_int_equal(memcmp(p, p + 1, BYTES - 1), 0);
    }
    if (++s->first == s->n)
        s->first = s->n = 0;
    return true;
}

static void run_some(void)
{
    stream *s = &streams[rand_r(&seed) % STREAMS];

    if (!run_one(s) && !run_one(&streams[s == streams]))
        fail_msg("the streams wait for each other");
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags)
{
    (void)flags;
    *s = (cudaStream_t)(void *)&streams[n_streams++];
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t s) { return (void)s, cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    const stream *x = (const stream *)(const void *)s;

    while (x->first < x->n)
        run_some();
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *e)
{
    assert_true(n_events < EVENTS);
    *e = (cudaEvent_t)(void *)&events[n_events++];
    return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned flags)
{
    return (void)flags, cudaEventCreate(e);
}
cudaError_t cudaEventDestroy(cudaEvent_t e) { return (void)e, cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
    event *x = (event *)(void *)e;

    put((stream *)(void *)s, (op){ .kind = RECORD, .e = x, .which = ++x->recorded });
    return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
    const event *x = (const event *)(const void *)e;

    while (x->done < x->recorded)
        run_some();
    return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags)
{
    event *x = (event *)(void *)e;

    (void)flags;
    put((stream *)(void *)s, (op){ .kind = WAIT, .e = x, .which = x->recorded });
    return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    const event *a = (const event *)(const void *)from, *b = (const event *)(const void *)to;

    *ms = b->at - a->at;
    return a->done < a->recorded || b->done < b->recorded ? cudaErrorNotReady : cudaSuccess;
}

cudaError_t cudaMallocHost(void **p, size_t bytes)
{
    *p = malloc(bytes);
    return *p ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFreeHost(void *p) { return free(p), cudaSuccess; }
cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t n, enum cudaMemcpyKind kind,
                            cudaStream_t s)
{
    (void)kind;
    put((stream *)(void *)s, (op){ .kind = COPY, .dst = dst, .src = src, .bytes = n });
    return cudaSuccess;
}
const char *cudaGetErrorString(cudaError_t e) { return e ? "an error" : "none"; }

/* ---- functions of cuda.c ---- */

void cuda_fault(vt_dev *d, int code, const char *fmt, ...)
{
    (void)d, (void)code;
    fail_msg("%s", fmt);
}
bool cuda_ok(vt_dev *d, int rc, const char *call)
{
    (void)d;
    if (rc)
        fail_msg("%s: %d", call, rc);
    return true;
}

/* ---- tests ---- */

/* Two places are filled alternately, each with more bytes than two slots of the ring, and kernels
 * that run late read them. */
static void alternate(vt_dev *d, char *from)
{
    for (int t = 1; t <= ROUNDS; t++) {
        vt_place place = (vt_place)(t % 2);
        memset(from, t, BYTES);
        cuda_fetch(d, place, places[place], from, BYTES / 3);
        cuda_fetch(d, place, places[place] + BYTES / 3, from, BYTES - BYTES / 3);
        memset(from, 0xee, BYTES);             /* the source may change after the fetch */
        cuda_enter(d, place);
        for (int i = 0; i < 2; i++) {
            put(d->stream, (op){ .kind = READ, .src = places[place], .which = t });
            cuda_enter(d, place);              /* no new fetch: no wait */
        }
        cuda_leave(d, place);
    }
}

/* Memory that is overwritten at once is moved to the host, and from there into other memory. */
static void moves(vt_dev *d, char *const pattern[], char *host)
{
    for (int t = 1; t <= ROUNDS; t++) {
        put(d->stream, (op){ .kind = COPY, .dst = places[0], .src = pattern[t], .bytes = BYTES });
        cuda_leave(d, VT_PLACE_INPUT);
        cuda_move(d, VT_PLACE_INPUT, host, places[0], BYTES);
        cuda_enter(d, VT_PLACE_INPUT);
        put(d->stream, (op){ .kind = COPY, .dst = places[0], .src = pattern[0], .bytes = BYTES });
        put(d->stream, (op){ .kind = COPY, .dst = places[1], .src = pattern[0], .bytes = BYTES });
        cuda_leave(d, VT_PLACE_INPUT);
        cuda_move(d, VT_PLACE_INPUT, places[1], host, BYTES);
        cuda_enter(d, VT_PLACE_INPUT);
        put(d->stream, (op){ .kind = READ, .src = places[1], .which = t });
    }
}

/* Parts of a place are filled one after the other while kernels read those before. No copy waits
 * for these kernels, as the place is left once, before all. */
static void parts(vt_dev *d, char *const pattern[], char *const part[])
{
    stream *copies = (stream *)(void *)d->runtime->copies;

    cuda_leave(d, VT_PLACE_STATE);
    cudaStreamSynchronize(d->stream);
    for (int t = 1; t <= ROUNDS; t++) {
        cuda_move(d, VT_PLACE_STATE, part[t], pattern[t], BYTES);
        cuda_enter(d, VT_PLACE_STATE);
        put(d->stream, (op){ .kind = READ, .src = part[t], .which = t });
    }
    if (seed % 2) {
        while (run_one(copies))
            ;
        assert_int_equal(copies->first, copies->n);
    }
    cudaStreamSynchronize(d->stream);
}

static void test_parts(void **state)
{
    char *pattern[ROUNDS + 1], *part[ROUNDS + 1];

    (void)state;
    for (int t = 0; t <= ROUNDS; t++) {
        pattern[t] = memset(malloc(BYTES), t, BYTES);
        part[t] = malloc(BYTES);
    }
    for (int run = 0; run < RUNS; run++) {
        cuda_runtime r = { 0 };
        vt_dev d = { .runtime = &r };
        seed = (unsigned)run;
        n_streams = n_events = 0;
        memset(events, 0, sizeof events);
        cudaStreamCreateWithFlags(&r.stream, 0);
        d.stream = r.stream;
        assert_int_equal(cuda_transfer_open(&d, NULL), 0);
        for (int t = 0; t <= ROUNDS; t++)
            memset(part[t], 0xee, BYTES);
        parts(&d, pattern, part);
        cuda_transfer_close(&d);
    }
    for (int t = 0; t <= ROUNDS; t++) {
        free(pattern[t]);
        free(part[t]);
    }
}

static void test_moves(void **state)
{
    char *pattern[ROUNDS + 1];

    (void)state;
    for (int t = 0; t <= ROUNDS; t++)
        pattern[t] = memset(malloc(BYTES), t, BYTES);
    for (int run = 0; run < RUNS; run++) {
        cuda_runtime r = { 0 };
        vt_dev d = { .runtime = &r };
        seed = (unsigned)run;
        n_streams = n_events = 0;
        memset(events, 0, sizeof events);
        cudaStreamCreateWithFlags(&r.stream, 0);
        d.stream = r.stream;
        assert_int_equal(cuda_transfer_open(&d, NULL), 0);
        for (int i = 0; i < 2; i++)
            places[i] = malloc(BYTES);
        char *host = cuda_pin(&d, BYTES);
        moves(&d, pattern, host);
        cudaStreamSynchronize(r.stream);
        cuda_unpin(&d, host);
        cuda_transfer_close(&d);
        for (int i = 0; i < 2; i++)
            free(places[i]);
    }
    for (int t = 0; t <= ROUNDS; t++)
        free(pattern[t]);
}

static void test_alternating_places(void **state)
{
    char *from = malloc(BYTES);

    (void)state;
    for (int run = 0; run < RUNS; run++) {
        cuda_runtime r = { 0 };
        vt_dev d = { .runtime = &r };
        double seconds;
        seed = (unsigned)run;
        n_streams = n_events = 0;
        memset(events, 0, sizeof events);
        cudaStreamCreateWithFlags(&r.stream, 0);
        d.stream = r.stream;
        assert_int_equal(cuda_transfer_open(&d, NULL), 0);
        for (int i = 0; i < 2; i++)
            places[i] = malloc(BYTES);
        alternate(&d, from);
        cudaStreamSynchronize(r.stream);
        int64_t n = cuda_waited(&d, &seconds);
        assert_between(n, 1, ROUNDS);          /* at least the first fetch is waited for */
        assert_true(seconds > 0);
        assert_int_equal(cuda_waited(&d, &seconds), 0);
        assert_true(r.n_fills <= ROUNDS);
        alternate(&d, from);                   /* reuses the events */
        cudaStreamSynchronize(r.stream);
        assert_true(r.n_fills <= ROUNDS);
        cuda_transfer_close(&d);
        for (int i = 0; i < 2; i++)
            free(places[i]);
    }
    free(from);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alternating_places), cmocka_unit_test(test_moves),
        cmocka_unit_test(test_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
