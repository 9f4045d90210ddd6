/* test_beside.c - copies from and to the host while kernels run: weights of swapped blocks,
 * prefetched data, inputs of recomputed blocks, and rows that the host fills. On the device "host"
 * copies end as late as the contract allows, and time is simulated. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "common/adapters/adapter.h"
#include "tests/device/device_host.h"
#include "tests/lib/ok.h"
#include "tests/tensor/engine_model.h"

enum { STEPS = 3 };

static vt_ctx *open_host(void)
{
    vt_ctx *g;
    vc_err err = { 0 };

    assert_ok(vt_open(&g, &(vt_options){ .device = "host", .pool_limit = 64 << 20 }, &err), &err);
    return g;
}

/* ---- swapped blocks ---- */

static int get(void *arg, const char *name, vt_host *view, vc_err *err)
{
    const vt_param *w = vt_params_find(arg, name);

    (void)err;
    *view = (vt_host){ .dtype = w->t->dtype, .nd = w->t->nd, .data = w->t->data };
    memcpy(view->dim, w->t->dim, sizeof w->t->dim);
    return 0;
}

/* Makes a LoRA over the weights of `base`; the weights of the first `swapped` blocks are on the
 * host. */
static void open_lora(em_model *m, vt_ctx *g, const em_model *base, int swapped)
{
    int matched;
    vc_err err = { 0 };

    em_open_from(m, g, &(vt_source){ .get = get, .arg = base->p, .on_host = true });
    assert_ok(vt_params_lora(m->p, NULL, NULL, 2, 2, 7, &matched, &err) ||
              vt_params_place(m->p, swapped, &err), &err);
    for (int i = 0; i < vt_params_count(m->p); i++) {      /* a LoRA's B of zeros would hide A */
        vt_tensor *t = vt_params_at(m->p, i)->t;
        if (vt_params_at(m->p, i)->role == VT_P_LORA_B)
            vt_param_set(g, t, em_data((size_t)vt_count(t)), VC_F32);
    }
}

static void close_model(em_model *m, vt_ctx *g)
{
    vt_params_close(m->p);
    vt_close(g);
}

/* Training with swapped blocks has the same bits as without. */
static void test_bits(void **state)
{
    vt_ctx *host = open_host();
    em_model base;
    float *want = NULL, loss[STEPS];

    (void)state;
    em_open(&base, host, 3);
    for (int swapped = 0; swapped <= LAYERS; swapped++)
        for (int how = VT_KEEP; how <= VT_RECOMPUTE; how++) {
            vt_ctx *g = open_host();
            em_model m;
            size_t n;
            open_lora(&m, g, &base, swapped);
            for (int i = 0; i < STEPS; i++) {
                float l = em_step(g, &m, (vt_remat)how, 0);
                if (!want || (!swapped && how == VT_KEEP))
                    loss[i] = l;
                assert_true(l == loss[i]);
            }
            float *got = em_gradients(&m, &n);
            if (!want)
                want = got;
            assert_memory_equal(got, want, n * sizeof *got);
            if (got != want)
                free(got);
            close_model(&m, g);
        }
    free(want);
    close_model(&base, host);
}

static size_t block_bytes(const em_model *m)
{
    size_t bytes = 0;

    for (int i = 0; i < vt_params_count(m->p); i++) {
        const vt_param *w = vt_params_at(m->p, i);
        if (w->block == 0 && vt_param_is_on_host(w->t))
            bytes += (size_t)vt_count(w->t) * vc_dtype_size(w->t->dtype);
    }
    return bytes;
}

/* If a copy takes less time than a block's kernels, only the very first block waits; if it takes
 * longer, every block that is not on the device waits. */
static void test_overlap(void **state)
{
    static const struct { double copy; int64_t waits[STEPS]; } row[] = {
        { 15, { 1, 0, 0 } },
        { 1e4, { 6, 4, 4 } },      /* the first forward loads all four, each later pass two */
    };
    vt_ctx *host = open_host();
    em_model base;

    (void)state;
    em_open(&base, host, 3);
    for (size_t r = 0; r < sizeof row / sizeof *row; r++)
        for (int how = VT_KEEP; how <= VT_RECOMPUTE; how++) {
            vt_ctx *g = open_host();
            em_model m;
            open_lora(&m, g, &base, LAYERS);
            host_byte_time = row[r].copy / (double)block_bytes(&m);
            for (int i = 0; i < STEPS; i++) {
                em_step(g, &m, (vt_remat)how, 0);
                vt_usage use = vt_usage_of(g);
                assert_int_equal(use.waits, row[r].waits[i]);
                assert_true(use.waited <= row[r].copy * (double)use.waits * 1.001);
            }
            close_model(&m, g);
        }
    close_model(&base, host);
}

/* ---- offloaded inputs ---- */

enum { DEEP = 3 * LAYERS };

static vt_usage deep_step(vt_ctx *g, em_model *m, vt_remat how, int flags, float *loss)
{
    vc_err err = { 0 };

    vt_step_begin(g, VT_RECORD | flags);
    vt_tensor *l = em_loss(g, m, how, DEEP);
    vt_backward(g, l);
    *loss = vt_item(g, l);
    assert_ok(vt_step_end(g, &err), &err);
    return vt_usage_of(g);
}

/* Training with offloaded inputs has the same bits as without, for any duration of the copies;
 * blocks wait for copies that take longer than a block. The peak of memory is that of a dry step,
 * and lower by all inputs but three: the first, which the caller holds, that of the running block,
 * and the one that is being copied back; the pool's gaps may take up to one input of that. */
static void test_offload(void **state)
{
    static const double copy[] = { 15, 1e4 };
    const size_t input = (size_t)BATCH * (TOKENS + TEXT) * WIDTH * sizeof(float);

    (void)state;
    for (size_t r = 0; r < 2; r++) {
        float *want = NULL, loss[STEPS] = { 0 }, l;
        size_t peak = 0, n;
        for (int flags = 0; flags <= VT_OFFLOAD; flags += VT_OFFLOAD) {
            vt_ctx *g = open_host();
            em_model m;
            em_open(&m, g, 3);
            assert_int_equal(vt_params_train(m.p, NULL, NULL, NULL), 0);
            assert_int_equal(flags ? vt_offload_open(g, NULL) : 0, 0);
            host_byte_time = copy[r] / (double)input;
            for (int i = 0; i < STEPS; i++) {
                vt_usage dry = deep_step(g, &m, VT_RECOMPUTE, flags | VT_DRY, &l);
                vt_usage use = deep_step(g, &m, VT_RECOMPUTE, flags, &l);
                loss[i] = flags ? loss[i] : l;
                assert_true(l == loss[i]);
                assert_int_equal(use.pool_peak, dry.pool_peak);
                assert_int_equal(use.offloaded, dry.offloaded);
                assert_int_equal(use.offloaded, flags ? (DEEP - 2) * input : 0);
                assert_true(flags && r ? use.waits > 0 : use.waits == 0);
                peak = flags ? peak : use.pool_peak;
                assert_between(peak - use.pool_peak, flags ? (DEEP - 4) * input : 0,
                                flags ? (DEEP - 3) * input : 0);
            }
            assert_int_equal(deep_step(g, &m, VT_KEEP, flags, &l).offloaded, 0);
            float *got = em_gradients(&m, &n);
            if (want)
                assert_memory_equal(got, want, n * sizeof *got);
            free(want);
            want = got;
            close_model(&m, g);
        }
        free(want);
    }
}

/* ---- prefetched data ---- */

enum { N = 300 };

/* Runs a step that copies n floats at v to the device and queues `kernels` kernels on them before
 * it prefetches `next`; the values on the device must be those at v. */
static vt_usage step_with(vt_ctx *g, const float *v, int64_t n, int kernels, const float *next,
                          size_t next_n)
{
    float got[N];
    vc_err err = { 0 };

    vt_step_begin(g, 0);
    vt_tensor *x = vt_from_host(g, VC_F32, 1, &n, v, VC_F32), *y = x;
    for (int i = 0; i < kernels; i++)
        y = vt_scale(g, y, 1);
    if (next)
        vt_prefetch(g, 1, &(vt_host_data){ next, next_n * sizeof *next });
    assert_ok(vt_to_host(g, y, got, &err) || vt_step_end(g, &err), &err);
    assert_memory_equal(got, v, (size_t)n * sizeof *v);
    return vt_usage_of(g);
}

static void test_prefetched(void **state)
{
    vt_ctx *g = open_host();
    float a[N], b[N];

    (void)state;
    memcpy(a, em_data(N), sizeof a);
    for (int i = 0; i < N; i++)
        b[i] = 1 - a[i];
    host_byte_time = 1.0 / sizeof *a;                     /* a float takes as long as a kernel */
    vt_prefetch(g, 1, &(vt_host_data){ a, sizeof a });
    assert_int_equal(step_with(g, a, N, 2 * N, b, N).waits, 1);
    assert_true(vt_prefetched(g, b));
    assert_int_equal(step_with(g, b, N, N / 2, a, N).waits, 0);     /* it was copied meanwhile */
    assert_false(vt_prefetched(g, b));
    vt_usage use = step_with(g, a, N, 0, NULL, 0);         /* half copied */
    assert_int_equal(use.waits, 1);
    assert_true(use.waited > N / 4 && use.waited < N);

    vt_prefetch(g, 1, &(vt_host_data){ a, sizeof a });     /* nothing copied yet */
    use = step_with(g, a, N, 1, NULL, 0);
    assert_int_equal(use.waits, 1);
    assert_true(use.waited > N - 2);
    a[0] = 5;                                              /* a prefetch is used once */
    assert_int_equal(step_with(g, a, N, 1, a, N).waits, 0);
    assert_int_equal(step_with(g, a, N / 2, 1, NULL, 0).waits, 0);  /* another size is not reused */
    vt_prefetch(g, 1, &(vt_host_data){ a, sizeof a });
    vt_prefetch(g, 0, NULL);                               /* now `a` may change */
    a[1] = 6;
    step_with(g, a, N, 1, NULL, 0);
    vt_prefetch(g, 1, &(vt_host_data){ b, sizeof b });     /* reuses the place of `a` */
    step_with(g, b, N, 0, NULL, 0);

    vt_host_data both[] = { { a, 3 * sizeof *a }, { b, sizeof b } };        /* needs more memory */
    vt_prefetch(g, 2, both);
    step_with(g, b, N, 0, NULL, 0);
    step_with(g, a, 3, 0, NULL, 0);
    assert_false(vt_prefetched(g, a));
    vt_close(g);
}

/* The CPU backend prefetches nothing. */
static void test_host_memory(void **state)
{
    vt_ctx *g = em_context(VC_F32);

    (void)state;
    vt_prefetch(g, 1, &(vt_host_data){ em_data(N), N * sizeof(float) });
    assert_false(vt_prefetched(g, em_data(N)));
    assert_int_equal(step_with(g, em_data(N), N, 1, NULL, 0).waits, 0);
    vt_close(g);
}

/* ---- rows that are filled on the host ---- */

enum { ROWS = 2100, COLUMNS = 700 };                       /* more than one part */

/* Numbers the elements; *arg counts the calls. */
static void number(const void *arg, int64_t first, int64_t n, float *rows)
{
    ++*(int *)(uintptr_t)arg;
    for (int64_t i = 0; i < n * COLUMNS; i++)
        rows[i] = (float)(first * COLUMNS + i);
}

static void test_rows(void **state)
{
    vt_ctx *on[2] = { em_context(VC_F32), open_host() };
    float *got = malloc((size_t)(ROWS * COLUMNS) * sizeof *got);

    (void)state;
    for (int k = 0; k < 2; k++) {
        int calls = 0;
        vt_step_begin(on[k], VT_DRY);
        assert_non_null(vt_from_rows(on[k], ROWS, COLUMNS, number, &calls));
        assert_ok(vt_step_end(on[k], NULL), &(vc_err){ 0 });
        assert_int_equal(calls, 0);
        vt_step_begin(on[k], 0);
        vt_tensor *x = vt_from_rows(on[k], ROWS, COLUMNS, number, &calls);
        assert_ok(vt_to_host(on[k], x, got, NULL) || vt_step_end(on[k], NULL), &(vc_err){ 0 });
        assert_int_equal(calls, k ? 2 : 1);                /* in place on the CPU */
        for (int i = 0; i < ROWS * COLUMNS; i++)
            assert_true(got[i] == (float)i);
        vt_close(on[k]);
    }
    free(got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits), cmocka_unit_test(test_overlap), cmocka_unit_test(test_rows),
        cmocka_unit_test(test_offload), cmocka_unit_test(test_prefetched),
        cmocka_unit_test(test_host_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
