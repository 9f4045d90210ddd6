/* test_queue.c - the bounded queue: order, both bounds, close, cancel, and many threads at once;
 * and turns, which bring results back into order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <pthread.h>

#include "common/os/progress.h"
#include "common/os/queue.h"
#include "common/os/turns.h"
#include "tests/lib/ok.h"

static vc_queue *open_queue(size_t items, size_t bytes)
{
    vc_queue *q;
    vc_err err = { 0 };
    assert_ok(vc_queue_open(&q, items, bytes, &err), &err);
    return q;
}

static void test_order(void **state)
{
    (void)state;
    int v[5];
    vc_queue *q = open_queue(3, 0);

    assert_null(vc_queue_try(q));
    for (int round = 0; round < 4; round++) {        /* the ring wraps around */
        assert_true(vc_queue_put(q, &v[0], 10));
        assert_true(vc_queue_put(q, &v[1], 20));
        assert_true(vc_queue_put(q, &v[2], 30));
        assert_int_equal(vc_queue_look(q).items, 3);
        assert_int_equal(vc_queue_look(q).bytes, 60);
        assert_ptr_equal(vc_queue_get(q), &v[0]);
        assert_true(vc_queue_put(q, &v[3], 40));
        assert_ptr_equal(vc_queue_try(q), &v[1]);
        assert_ptr_equal(vc_queue_get(q), &v[2]);
        assert_int_equal(vc_queue_look(q).bytes, 40);
        assert_ptr_equal(vc_queue_get(q), &v[3]);
        assert_null(vc_queue_try(q));
        assert_int_equal(vc_queue_look(q).bytes, 0);
    }
    vc_queue_close(q);
    assert_false(vc_queue_put(q, &v[4], 1));
    assert_null(vc_queue_get(q));
    assert_null(vc_queue_get(q));
    vc_queue_free(q);
    vc_queue_free(NULL);
}

static void test_bad_sizes(void **state)
{
    (void)state;
    vc_queue *q = (vc_queue *)state;
    vc_err err = { 0 };
    assert_int_equal(vc_queue_open(&q, 0, 0, &err), VC_EINVAL);
    assert_null(q);
}

static void test_close_drains(void **state)
{
    (void)state;
    int v[2];
    vc_queue *q = open_queue(2, 0);
    vc_queue_producers(q, 2);
    assert_true(vc_queue_put(q, &v[0], 0));
    vc_queue_close(q);
    assert_true(vc_queue_put(q, &v[1], 0));          /* the other producer continues */
    vc_queue_close(q);
    assert_false(vc_queue_put(q, &v[1], 0));
    assert_ptr_equal(vc_queue_get(q), &v[0]);
    assert_ptr_equal(vc_queue_get(q), &v[1]);
    assert_null(vc_queue_get(q));
    vc_queue_close(q);                               /* one close too many is harmless */
    vc_queue_free(q);
}

static void test_cancel_drains_by_try(void **state)
{
    (void)state;
    int v[2];
    vc_queue *q = open_queue(2, 0);
    assert_true(vc_queue_put(q, &v[0], 0));
    assert_true(vc_queue_put(q, &v[1], 0));
    vc_queue_cancel(q);
    assert_null(vc_queue_get(q));
    assert_false(vc_queue_put(q, &v[0], 0));
    assert_ptr_equal(vc_queue_try(q), &v[0]);
    assert_ptr_equal(vc_queue_try(q), &v[1]);
    assert_null(vc_queue_try(q));
    vc_queue_free(q);
}

/* ---- one blocked thread ---- */

typedef struct one {
    vc_queue *q;
    void *item;
    size_t bytes;
    bool put;                        /* result of vc_queue_put() */
    void *got;
} one;

static void *put_one(void *arg)
{
    one *o = arg;
    o->put = vc_queue_put(o->q, o->item, o->bytes);
    return NULL;
}

static void *get_one(void *arg)
{
    one *o = arg;
    o->got = vc_queue_get(o->q);
    return NULL;
}

static pthread_t start(void *(*f)(void *), one *o)
{
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, f, o), 0);
    usleep(30000);                   /* the thread blocks; the result needs no timing */
    return t;
}

static void test_full_by_bytes(void **state)
{
    (void)state;
    int v[4];
    vc_queue *q = open_queue(8, 100);
    assert_true(vc_queue_put(q, &v[0], 60));
    one big = { .q = q, .item = &v[1], .bytes = 1000 },
        small = { .q = q, .item = &v[2], .bytes = 41 };
    pthread_t a = start(put_one, &big), b = start(put_one, &small);
    assert_int_equal(vc_queue_look(q).items, 1);     /* 60 + 41 exceeds 100 bytes too */
    assert_true(vc_queue_put(q, &v[3], 40));         /* 60 + 40 does not */
    assert_ptr_equal(vc_queue_get(q), &v[0]);        /* 41 + 40 fits now, 1000 does not */
    pthread_join(b, NULL);
    assert_true(small.put);
    assert_ptr_equal(vc_queue_get(q), &v[3]);
    assert_ptr_equal(vc_queue_get(q), &v[2]);        /* one entry always fits */
    pthread_join(a, NULL);
    assert_true(big.put);
    assert_int_equal(vc_queue_look(q).bytes, 1000);
    assert_ptr_equal(vc_queue_get(q), &v[1]);
    assert_true(vc_queue_look(q).put_wait >= 0.05);
    assert_true(vc_queue_look(q).get_wait < 0.02);
    vc_queue_free(q);
}

/* Two threads wait to put and two to get, all of which the end of the queues wakes up. Returns how
 * long the latter waited, in seconds. */
static double wait_and_end(void (*end)(vc_queue *))
{
    int v[2];
    vc_queue *full = open_queue(1, 0), *empty = open_queue(1, 0);
    assert_true(vc_queue_put(full, &v[0], 0));
    one p = { .q = full, .item = &v[1], .put = true }, g = { .q = empty, .got = &v[0] };
    one p2 = p, g2 = g;
    pthread_t t[4] = { start(put_one, &p), start(put_one, &p2), start(get_one, &g),
                       start(get_one, &g2) };
    end(full);
    end(empty);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    assert_false(p.put || p2.put);
    assert_null(g.got);
    assert_null(g2.got);
    const double waited = vc_queue_look(empty).get_wait;
    assert_ptr_equal(vc_queue_try(full), &v[0]);
    vc_queue_free(full);
    vc_queue_free(empty);
    return waited;
}

/* On a busy machine a thread may begin after the end: it then has not waited, and another try is
 * made. */
static void test_blocked_threads_wake_up(void **state)
{
    (void)state;
    enum { TRIES = 50 };
    void (*const end[])(vc_queue *) = { vc_queue_close, vc_queue_cancel };
    for (int i = 0; i < 2; i++) {
        double waited = 0;
        for (int k = 0; k < TRIES && waited < 0.05; k++)
            waited = wait_and_end(end[i]);
        assert_true(waited >= 0.05);
    }
}

/* ---- many threads ---- */

enum { PRODUCERS = 4, CONSUMERS = 3, EACH = 4000 };

typedef struct crowd {
    vc_queue *q;
    int number[PRODUCERS * EACH];    /* item i of producer p is number p * EACH + i */
    int most;                        /* entries before a consumer cancels, or 0 */
} crowd;

typedef struct member {
    crowd *c;
    int first, put, got;             /* a producer's first item; items put or got */
    int last[PRODUCERS];             /* the last item that a consumer got of each producer */
    bool ordered;
    unsigned char *seen;
} member;

static void *produce(void *arg)
{
    member *m = arg;
    for (int i = 0; i < EACH; i++) {
        int *item = &m->c->number[m->first + i];
        *item = m->first + i;
        if (!vc_queue_put(m->c->q, item, (size_t)(i % 7)))
            break;
        m->put++;
    }
    vc_queue_close(m->c->q);
    return NULL;
}

static void *consume(void *arg)
{
    member *m = arg;
    int *item;
    m->ordered = true;
    while ((item = vc_queue_get(m->c->q))) {
        int p = *item / EACH;
        m->ordered = m->ordered && *item >= m->last[p];
        m->last[p] = *item;
        m->seen[*item]++;
        m->got++;
        if (m->c->most && m->got == m->c->most)
            vc_queue_cancel(m->c->q);
    }
    return NULL;
}

static void run_crowd(size_t items, size_t bytes, int most)
{
    crowd *c = calloc(1, sizeof *c);
    member producer[PRODUCERS] = { 0 }, consumer[CONSUMERS] = { 0 };
    pthread_t t[PRODUCERS + CONSUMERS];
    c->q = open_queue(items, bytes);
    c->most = most;
    vc_queue_producers(c->q, PRODUCERS);
    for (int i = 0; i < CONSUMERS; i++) {
        consumer[i].c = c;
        consumer[i].seen = calloc(PRODUCERS * EACH, 1);
        pthread_create(&t[i], NULL, consume, &consumer[i]);
    }
    for (int i = 0; i < PRODUCERS; i++) {
        producer[i] = (member){ .c = c, .first = i * EACH };
        pthread_create(&t[CONSUMERS + i], NULL, produce, &producer[i]);
    }
    for (int i = 0; i < PRODUCERS + CONSUMERS; i++)
        pthread_join(t[i], NULL);

    int put = 0, got = 0, left = 0;
    while (vc_queue_try(c->q))
        left++;
    for (int i = 0; i < PRODUCERS; i++)
        put += producer[i].put;
    for (int i = 0; i < CONSUMERS; i++) {
        got += consumer[i].got;
        assert_true(consumer[i].ordered);
        for (int k = 0; i && k < PRODUCERS * EACH; k++)
            consumer[0].seen[k] = (unsigned char)(consumer[0].seen[k] + consumer[i].seen[k]);
    }
    assert_int_equal(put, got + left);               /* every item arrives once */
    if (most)
        assert_true(got >= most && got < PRODUCERS * EACH);
    for (int k = 0; k < PRODUCERS * EACH; k++)
        assert_true(most ? consumer[0].seen[k] <= 1 : consumer[0].seen[k] == 1);
    assert_int_equal(vc_queue_look(c->q).bytes, 0);
    for (int i = 0; i < CONSUMERS; i++)
        free(consumer[i].seen);
    vc_queue_free(c->q);
    free(c);
}

static void test_crowd(void **state)
{
    (void)state;
    run_crowd(1, 0, 0);
    run_crowd(16, 0, 0);
    run_crowd(16, 8, 0);
    run_crowd(16, 1, 0);
    run_crowd(16, 8, 100);
    run_crowd(1, 0, 100);
}

/* ---- turns ---- */

enum { TURNS = 400, TURN_WORKERS = 5 };

typedef struct turn_crowd {
    vc_turns *t;
    uint32_t window;
    uint32_t got;                    /* atomic: results that were got, and turns that passed */
    int slow;                        /* the item that takes long */
    int worst;                       /* atomic: the farthest that an item was ahead at its begin */
    int value[TURNS];
} turn_crowd;

static void *work_in_turns(void *arg)
{
    turn_crowd *c = arg;
    uint32_t i;
    while (vc_turns_begin(c->t, &i)) {
        const int ahead = (int)i - (int)__atomic_load_n(&c->got, __ATOMIC_ACQUIRE);
        int worst = __atomic_load_n(&c->worst, __ATOMIC_RELAXED);
        while (ahead > worst && !__atomic_compare_exchange_n(&c->worst, &worst, ahead, false,
                                                             __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            ;
        if ((int)i == c->slow)
            usleep(50000);
        else if (i % 7 == 0)
            usleep(300);
        c->value[i] = (int)i;
        assert_true(vc_turns_put(c->t, i, i % 5 ? &c->value[i] : NULL, 10));
    }
    return NULL;
}

/* Five threads finish items out of order, and each fifth has no result. */
static void run_turns(uint32_t window, size_t bytes, int slow)
{
    turn_crowd *c = calloc(1, sizeof *c);
    pthread_t thread[TURN_WORKERS];
    vc_err err = { 0 };
    int *v;
    c->slow = slow;
    c->window = window;
    assert_ok(vc_turns_open(&c->t, TURNS, window, bytes, &err), &err);
    for (int i = 0; i < TURN_WORKERS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, work_in_turns, c), 0);
    for (int next = 0; (v = vc_turns_get(c->t)); next = *v + 1) {
        assert_int_equal(*v, next % 5 ? next : next + 1);
        __atomic_store_n(&c->got, (uint32_t)*v + 1, __ATOMIC_RELEASE);
    }
    for (int i = 0; i < TURN_WORKERS; i++)
        pthread_join(thread[i], NULL);
    /* a turn that passed, and the result that was got and not counted yet */
    assert_between(c->worst, 0, (int)window + 2);
    if (bytes == 1)
        assert_between(c->worst, 0, 2 * TURN_WORKERS + 2);
    vc_turns_free(c->t);
    free(c);
}

static void test_turns(void **state)
{
    (void)state;
    run_turns(1, 1000, -1);
    run_turns(3, 1000, 4);
    run_turns(64, 1u << 30, 9);
    run_turns(64, 100, 9);
    run_turns(64, 1, 9);
    run_turns(2 * TURNS, 1u << 30, 0);
}

static void *begin_and_wait(void *arg)
{
    uint32_t i;
    while (vc_turns_begin(arg, &i))
        vc_turns_put(arg, i, i ? arg : NULL, 1);     /* the turn of 0 passes, 1 is never got */
    return NULL;
}

static void test_turns_cancel(void **state)
{
    (void)state;
    vc_turns *t;
    pthread_t thread;
    uint32_t i;
    vc_err err = { 0 };
    assert_ok(vc_turns_open(&t, 100, 4, 1000, &err), &err);
    assert_int_equal(pthread_create(&thread, NULL, begin_and_wait, t), 0);
    usleep(2000);
    vc_turns_cancel(t);
    pthread_join(thread, NULL);
    assert_false(vc_turns_begin(t, &i));
    assert_null(vc_turns_get(t));
    while (vc_turns_try(t))
        ;
    vc_turns_free(t);
    assert_ok(vc_turns_open(&t, 0, 4, 1000, &err), &err);
    assert_false(vc_turns_begin(t, &i));
    assert_null(vc_turns_get(t));
    vc_turns_free(t);
    vc_turns_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order), cmocka_unit_test(test_bad_sizes),
        cmocka_unit_test(test_close_drains), cmocka_unit_test(test_cancel_drains_by_try),
        cmocka_unit_test(test_full_by_bytes), cmocka_unit_test(test_blocked_threads_wake_up),
        cmocka_unit_test(test_crowd), cmocka_unit_test(test_turns),
        cmocka_unit_test(test_turns_cancel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
