/* test_comm_device.c - a comm for memory of a device (common/comm/device.c), over the links of
 * links_host.c and on as many ranks as the launcher starts. Its sums and gathers have the bits of
 * the comm of MPI; if a rank fails or makes no call, the comm ends on all ranks. Every rank runs
 * every test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "common/comm/comm.h"
#include "common/memory/second_stream.h"
#include "tests/device/links_host.h"

static vc_comm *all;
static vt_ctx *g, *second;
static int rank, size;

#define OK(call)                                                                                   \
    do {                                                                                           \
        vc_err err = { 0 };                                                                        \
        if ((call))                                                                                \
            fail_msg("rank %d: %s: %s", rank, #call, err.text);                                    \
    } while (0)

static const size_t counts[] = { 1, 7, 1000, 70016 };
enum { COUNTS = sizeof counts / sizeof *counts };

static float value(int r, size_t i)
{
    uint32_t h = (uint32_t)(i * 2654435761u) ^ (uint32_t)(r + 1) * 40503u;

    return (float)((int32_t)(h * 2246822519u) % 100003) * (r % 2 ? 1e-3f : 7.0f);
}

static vc_comm *device_comm(double patience)
{
    const vc_comm_device_opts o = { .second = second, .all = all, .patience = patience };
    vc_comm *c;

    OK(vc_comm_device(&c, all, &o, &err));
    assert_int_equal(vc_comm_rank(c), rank);
    assert_int_equal(vc_comm_size(c), size);
    return c;
}

static int finish(vc_comm *c, vc_err *err)
{
    bool busy;
    int rc;

    while (!(rc = vc_comm_look(c, &busy, err)) && busy)
        nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
    return rc;
}

/* Makes two rows with this rank's values: the result is on the device, *host on the host. */
static float *rows(float **host, size_t n)
{
    vc_err err = { 0 };
    float *x = vt_values_new(g, n, &err);

    *host = malloc(n * sizeof **host);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++)
        (*host)[i] = value(rank, i);
    vt_values_put(g, x, VC_F32, *host, VC_F32, n);
    return x;
}

/* Compares a row on the device "host", whose memory can be read, with expected values. */
static void same(const float *x, const float *want, size_t n, bool rounded, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        float w = rounded ? vc_bf16_to_f32(vc_f32_to_bf16(want[i])) : want[i];
        if (memcmp(&x[i], &w, sizeof w))
            fail_msg("rank %d: %s of %zu: [%zu] is %.9g, not %.9g", rank, name, n, i, (double)x[i],
                     (double)w);
    }
}

static void test_like_mpi(void **state)
{
    (void)state;
    vc_comm *c = device_comm(60);
    for (int k = 0; k < 2 * COUNTS; k++) {
        vc_dtype wire = k % 2 ? VC_BF16 : VC_F32;
        size_t n = counts[k / 2], many = n * (size_t)size;
        bool rounded = wire == VC_BF16;
        float *host, *x = rows(&host, many);
        OK(vc_comm_sum(c, x, many, wire, &err));
        OK(finish(c, &err));
        OK(vc_comm_sum(all, host, many, wire, &err));
        same(x, host, many, rounded, "sum");
        vt_values_free(g, x, many);
        free(host);

        x = rows(&host, many);
        float *mine = vt_values_new(g, n, NULL);
        OK(vc_comm_sum_scatter(c, mine, x, n, wire, &err));
        OK(finish(c, &err));
        OK(vc_comm_sum_scatter(all, host, host, n, wire, &err));
        same(mine, host, n, rounded, "sum_scatter");
        OK(vc_comm_gather(c, x, mine, n * sizeof *x, &err));
        OK(finish(c, &err));
        float *whole = malloc(many * sizeof *whole);
        OK(vc_comm_gather(all, whole, mine, n * sizeof *whole, &err));
        same(x, whole, many, false, "gather");
        vt_values_free(g, mine, n);
        vt_values_free(g, x, many);
        free(whole);
        free(host);
    }
    vc_comm_close(c);
}

/* Several sums are queued with kernels of both streams between them, and the host does not wait:
 * each stream must see the results of the other. */
static void test_events(void **state)
{
    (void)state;
    enum { N = 3000, ROUNDS = 20 };
    vc_comm *c = device_comm(60);
    vt_event *ready, *over;
    float *host, *x = rows(&host, N), *y = vt_values_new(g, N, NULL);
    OK(vt_event_open(&ready, g, &err));
    OK(vt_event_open(&over, g, &err));
    for (int k = 0; k < ROUNDS; k++) {
        vt_values_copy(g, y, x, N);
        vt_record_event(g, ready);
        vt_after(second, ready);
        vt_values_add(second, y, x, N);
        OK(vc_comm_sum(c, y, N, VC_F32, &err));
        vt_values_zero(second, y + N / 2, N - N / 2);
        vt_record_event(second, over);
        vt_after(g, over);
        vt_values_copy(g, x, y, N);
        float want[N];
        for (int i = 0; i < N / 2; i++)
            want[i] = host[i] + host[i];
        OK(vc_comm_sum(all, want, N / 2, VC_F32, &err));
        for (int i = 0; i < N / 2; i++)
            host[i] = want[i] * 0.25f;
        same(x, want, N / 2, false, "round");
        for (int i = 0; i < N; i++)
            assert_true(i < N / 2 || y[i] == 0);
        vt_values_put(g, x, VC_F32, host, VC_F32, N / 2);
    }
    OK(finish(c, &err));
    vc_comm_close(c);
    vt_event_close(g, ready);
    vt_event_close(g, over);
    vt_values_free(g, x, N);
    vt_values_free(g, y, N);
    free(host);
}

/* The last rank leaves out its second call, or this call fails: all ranks get the message. */
static void expect_fault(const char *how, double patience, const char *message)
{
    enum { N = 16 };
    char text[64];
    if (size == 1)
        return;
    snprintf(text, sizeof text, "%s %d %d", how, size - 1, 2);
    vc_comm *c = device_comm(patience);
    float *host, *x = rows(&host, N);
    vc_err err = { 0 };
    links_fault = text;
    links_calls = 0;
    int rc = 0;
    for (int i = 0; !rc && i < 3; i++)
        rc = vc_comm_sum(c, x, N, VC_F32, &err);
    if (!rc)
        rc = finish(c, &err);
    links_fault = NULL;
    rc = vc_comm_agree(all, rc, &err);
    if (rc != VC_EFAIL || !strstr(err.text, message))
        fail_msg("rank %d: %s: %d \"%s\"", rank, how, rc, err.text);
    assert_int_not_equal(vc_comm_sum(c, x, N, VC_F32, &err), 0);    /* the comm stays broken */
    vc_comm_close(c);
    vt_values_free(g, x, N);
    free(host);
}

static void test_silent(void **state)
{
    (void)state;
    expect_fault("silent", 0.5, "links: all-reduce of 16 values: not done after 0.5 s");
}

static void test_broken(void **state)
{
    (void)state;
    char message[96];
    snprintf(message, sizeof message, "rank %d: links: all-reduce of 16 values: a cable is loose",
             size - 1);
    expect_fault("broken", 600, message);
}

int main(int argc, char **argv)
{
    vc_err err = { 0 };
    const vc_comm_start start = { .program = "test", .patience = VC_COMM_PATIENCE };
    const vt_options o = { .device = "host", .threads = 1 };

    if (vc_comm_open(&all, &start, &err) || vt_open(&g, &o, &err) ||
        vt_second_stream_open(&second, g, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 2;
    }
    rank = vc_comm_rank(all);
    size = vc_comm_size(all);
    if (argc != 2 || size != atoi(argv[1])) {
        fprintf(stderr, "%d ranks, expected %s\n", size, argc == 2 ? argv[1] : "an argument");
        vc_comm_abort(all, 1);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_like_mpi), cmocka_unit_test(test_events),
        cmocka_unit_test(test_broken), cmocka_unit_test(test_silent),
    };
    int bad = cmocka_run_group_tests(tests, NULL, NULL);
    if (bad)
        vc_comm_abort(all, 1);            /* the others may wait for this rank */
    vt_close(second);
    vt_close(g);
    vc_comm_close(all);
    return 0;
}
