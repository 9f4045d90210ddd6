/* test_comm.c - collective calls on 1, 2, 3 and 4 ranks, which CMakeLists.txt starts. Every rank
 * runs every test and checks its own results. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "common/comm/comm.h"

static vc_comm *comm;
static int rank, size;

#define OK(call)                                                                                   \
    do {                                                                                           \
        vc_err err = { 0 };                                                                        \
        if ((call))                                                                                \
            fail_msg("rank %d: %s: %s", rank, #call, err.text);                                    \
    } while (0)

/* Returns element i of rank r; sums of these values in f32 depend on the order. */
static float value(int r, size_t i)
{
    uint32_t h = (uint32_t)(i * 2654435761u) ^ (uint32_t)(r + 1) * 40503u;
    return (float)((int32_t)(h * 2246822519u) % 100003) * (r % 2 ? 1e-3f : 7.0f);
}

static float bf16(float x) { return vc_bf16_to_f32(vc_f32_to_bf16(x)); }

static float sum_of(size_t i, vc_dtype wire)
{
    float sum = 0;
    for (int r = 0; r < size; r++) {
        float x = wire == VC_BF16 && size > 1 ? bf16(value(r, i)) : value(r, i);
        sum = r ? sum + x : x;
    }
    return sum;
}

static float *values(size_t n)
{
    float *x = malloc((n ? n : 1) * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++)
        x[i] = value(rank, i);
    return x;
}

static const size_t counts[] = { 0, 1, 2, 3, 5, 1000, 262144, 1048577, 2100003 };
enum { COUNTS = sizeof counts / sizeof *counts };

static void test_sum(void **state)
{
    (void)state;
    for (int k = 0; k < 2 * COUNTS; k++) {
        vc_dtype wire = k % 2 ? VC_BF16 : VC_F32;
        size_t n = counts[k / 2];
        float *x = values(n);
        OK(vc_comm_sum(comm, x, n, wire, &err));
        for (size_t i = 0; i < n; i++) {
            float want = sum_of(i, wire);
            if (wire == VC_BF16 && size > 1)
                want = bf16(want);
            if (memcmp(&x[i], &want, sizeof want))
                fail_msg("%zu %s values: [%zu] is %.9g, in rank order %.9g", n, vc_dtype_name(wire),
                         i, (double)x[i], (double)want);
        }
        free(x);
    }
}

static void test_sum_scatter(void **state)
{
    (void)state;
    for (int k = 0; k < 2 * COUNTS; k++) {
        vc_dtype wire = k % 2 ? VC_BF16 : VC_F32;
        size_t n = counts[k / 2], from = (size_t)rank * n;
        float *x = values((size_t)size * n), *mine = malloc((n + 1) * sizeof *mine);
        assert_non_null(mine);
        OK(vc_comm_sum_scatter(comm, mine, x, n, wire, &err));
        OK(vc_comm_sum_scatter(comm, x + from, x, n, wire, &err));
        for (size_t i = 0; i < (size_t)size * n; i++) {
            bool own = i >= from && i < from + n;
            float want = own ? sum_of(i, wire) : value(rank, i);
            assert_memory_equal(&x[i], &want, sizeof want);
            if (own)
                assert_memory_equal(&mine[i - from], &want, sizeof want);
        }
        free(x);
        free(mine);
    }
}

static void test_gather_broadcast(void **state)
{
    (void)state;
    char all[64 * 5], mine[5];
    memset(mine, 'a' + rank, sizeof mine);
    OK(vc_comm_gather(comm, all, mine, sizeof mine, &err));
    for (int i = 0; i < 5 * size; i++)
        assert_int_equal(all[i], 'a' + i / 5);
    memset(all, 0, sizeof all);
    memset(all + 5 * rank, 'A' + rank, 5);
    OK(vc_comm_gather(comm, all, all + 5 * rank, 5, &err));
    for (int i = 0; i < 5 * size; i++)
        assert_int_equal(all[i], 'A' + i / 5);
    for (int root = 0; root < size; root++) {
        int x = rank == root ? 1000 + root : -1;
        OK(vc_comm_broadcast(comm, &x, sizeof x, root, &err));
        assert_int_equal(x, 1000 + root);
    }
}

/* The byte i of the piece that rank `from` sends to rank `to`. */
static unsigned char byte_of(int from, int to, size_t i)
{
    return (unsigned char)(from * 31 + to * 7 + (int)(i % 251));
}

/* The size of that piece: another for each pair of ranks, and small or large by k. */
static size_t piece_of(int from, int to, int k)
{
    return (size_t)(k ? 70000 : 3) * (size_t)(1 + from) + (size_t)to;
}

static void test_exchange(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        vc_piece in[64], out[64];
        size_t got = 0, sent = 0;
        for (int r = 0; r < size; r++) {
            in[r] = (vc_piece){ got, piece_of(r, rank, k) };
            out[r] = (vc_piece){ sent, piece_of(rank, r, k) };
            got += in[r].n;
            sent += out[r].n;
        }
        unsigned char *from = malloc(sent), *to = calloc(1, got);
        assert_true(from && to);
        for (int r = 0; r < size; r++)
            for (size_t i = 0; i < out[r].n; i++)
                from[out[r].at + i] = byte_of(rank, r, i);
        OK(vc_comm_exchange(comm, to, in, from, out, &err));
        for (int r = 0; r < size; r++)
            for (size_t i = 0; i < in[r].n; i++)
                assert_int_equal(to[in[r].at + i], byte_of(r, rank, i));
        free(from);
        free(to);
    }
}

/* A rank that leaves ends the exchange of the others, also while messages are under way; other
 * calls on the comm still serve. */
static void test_leave(void **state)
{
    enum { PIECE = 1 << 18 };
    vc_comm *part;
    vc_err why = { .code = VC_EFAIL };
    vc_piece in[64], out[64];
    int x = 5;
    (void)state;
    if (size == 1)
        return;
    OK(vc_comm_split(&part, comm, 0, &err));
    char *to = malloc((size_t)size * PIECE), *from = calloc(1, PIECE);
    assert_true(to && from);
    for (int r = 0; r < size; r++) {
        in[r] = (vc_piece){ (size_t)r * PIECE, PIECE };
        out[r] = (vc_piece){ 0, PIECE };
    }
    if (rank == size - 1)
        vc_comm_leave(part, &why);
    else
        assert_int_equal(vc_comm_exchange(part, to, in, from, out, &why), VC_ESTOP);
    OK(vc_comm_broadcast(part, &x, sizeof x, 0, &err));
    OK(vc_comm_gather(part, to, &x, sizeof x, &err));
    for (int r = 0; r < size; r++)
        assert_int_equal(((int *)(void *)to)[r], 5);
    vc_comm_close(part);
    free(to);
    free(from);
}

static void test_reduce(void **state)
{
    (void)state;
    static const double order[] = { 1, 1e16, -1e16, 3 };     /* the sum depends on the order */
    double x[2] = { rank + 1, order[rank % 4] }, want = order[0];
    OK(vc_comm_reduce(comm, x, 2, VC_COMM_SUM, &err));
    for (int r = 1; r < size; r++)
        want += order[r % 4];
    assert_true(x[0] == size * (size + 1) / 2 && x[1] == want);
    double least[2] = { rank, -rank }, most[2] = { rank, -rank };
    OK(vc_comm_reduce(comm, least, 2, VC_COMM_MIN, &err));
    OK(vc_comm_reduce(comm, most, 2, VC_COMM_MAX, &err));
    assert_true(least[0] == 0 && least[1] == 1 - size && most[0] == size - 1 && most[1] == 0);
}

static void test_split(void **state)
{
    (void)state;
    vc_comm *part;
    OK(vc_comm_split(&part, comm, rank % 2, &err));
    assert_int_equal(vc_comm_rank(part), rank / 2);
    assert_int_equal(vc_comm_size(part), (size + 1 - rank % 2) / 2);
    double x = rank;
    int want = 0;
    for (int r = rank % 2; r < size; r += 2)
        want += r;
    OK(vc_comm_reduce(part, &x, 1, VC_COMM_SUM, &err));
    assert_int_equal((int)x, want);
    vc_comm_close(part);
}

/* Every rank gets the error of the first rank that failed. */
static void test_agree(void **state)
{
    (void)state;
    vc_err err = { 0 };
    assert_int_equal(vc_comm_agree(comm, 0, &err), 0);
    assert_int_equal(vc_comm_agree(comm, 0, NULL), 0);

    int rc = vc_fail(&err, VC_EFORMAT, "bad of %d", rank);         /* all ranks fail */
    assert_int_equal(vc_comm_agree(comm, rc, &err), VC_EFORMAT);
    assert_string_equal(err.text, "bad of 0");
    if (size == 1)
        return;

    memset(&err, 0, sizeof err);                                     /* the last rank fails */
    rc = rank == size - 1 ? vc_fail(&err, VC_EIO, "no disk") : 0;
    assert_int_equal(vc_comm_agree(comm, rc, &err), VC_EIO);
    char want[64];
    snprintf(want, sizeof want, "rank %d: no disk", size - 1);
    assert_string_equal(err.text, want);
    assert_int_equal(err.code, VC_EIO);

    memset(&err, 0, sizeof err);                         /* a failure comes before a stop */
    rc = rank == 0 ? vc_fail(&err, VC_ESTOP, "stopped")
                   : rank == 1 ? vc_fail(&err, VC_EIO, "no disk") : 0;
    assert_int_equal(vc_comm_agree(comm, rc, &err), VC_EIO);
    memset(&err, 0, sizeof err);
    rc = rank == 1 ? vc_fail(&err, VC_ESTOP, "stopped") : 0;
    assert_int_equal(vc_comm_agree(comm, rc, &err), VC_ESTOP);
    assert_int_equal(err.code, VC_ESTOP);
}

/* Each rank posts twice; the second post replaces the first one. */
static void test_posts(void **state)
{
    (void)state;
    double x[2] = { 100, 100 }, sum[2] = { 0 }, want[2] = { 0 };
    int left = 1000, rc;
    assert_int_equal(vc_comm_post(comm, x, 2, NULL), 0);
    x[0] = rank + 1;
    x[1] = 0.5;
    while ((rc = vc_comm_post(comm, x, 2, NULL)) == 1)
        if (rank == 0)
            fail_msg("rank 0 waits for itself");
    assert_int_equal(rc, 0);
    for (int r = 0; r < size; r++) {
        want[0] += r + 1;
        want[1] += 0.5;
    }
    while (rank == 0 && left-- && (sum[0] != want[0] || sum[1] != want[1])) {
        OK(vc_comm_posted(comm, sum, 2, &err));
        nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
    }
    if (rank == 0) {
        assert_true(sum[0] == want[0]);
        assert_true(sum[1] == want[1]);
    }
    OK(vc_comm_agree(comm, 0, &err));
}

int main(int argc, char **argv)
{
    vc_err err = { 0 };
    const vc_comm_start start = { .program = "test", .patience = VC_COMM_PATIENCE };
    if (vc_comm_open(&comm, &start, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 2;
    }
    rank = vc_comm_rank(comm);
    size = vc_comm_size(comm);
    if (argc != 2 || size != atoi(argv[1])) {
        fprintf(stderr, "%d ranks, expected %s\n", size, argc == 2 ? argv[1] : "an argument");
        vc_comm_abort(comm, 1);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sum), cmocka_unit_test(test_sum_scatter),
        cmocka_unit_test(test_gather_broadcast), cmocka_unit_test(test_exchange),
        cmocka_unit_test(test_leave),
        cmocka_unit_test(test_reduce),
        cmocka_unit_test(test_split), cmocka_unit_test(test_agree),
        cmocka_unit_test(test_posts),
    };
    int bad = cmocka_run_group_tests(tests, NULL, NULL);
    if (bad)
        vc_comm_abort(comm, 1);           /* the others may wait for this rank */
    vc_comm_close(comm);
    return 0;
}
