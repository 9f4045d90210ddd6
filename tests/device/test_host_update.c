/* test_host_update.c - updates by the host beside the next forward, on the device "host": the same
 * bits as with a wait after each update, blocks that run before the last block's update has ended,
 * and everything that waits for the whole update. A test can hold an update of the CPU. */
#include <errno.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/tensor/host_update.h"
#include "common/tensor/optimizer.h"
#include "tests/device/device_host.h"
#include "tests/lib/ok.h"
#include "tests/tensor/engine_model.h"

enum { STEPS = 4, PATIENCE = 20, LINGER = 20000000 };      /* s, ns */

/* ---- updates that are held ---- */

static vt_backend cpu;
static sem_t gate;
static atomic_int updates, hold, held;         /* updates of the step so far; the one to be held */
static atomic_bool waited_in_vain;

/* The update with the number `hold` waits until the gate opens, and then for as long as whoever
 * did not wait for it would need to read old values. */
static void update(vt_dev *d, vt_tensor *w, vt_tensor *const *state, vt_tensor *peak,
                   const vt_tensor *grad, const vt_update_args *a)
{
    struct timespec until, linger = { .tv_nsec = LINGER };

    if (atomic_fetch_add(&updates, 1) == hold) {
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += PATIENCE;
        while (sem_timedwait(&gate, &until))
            if (errno == ETIMEDOUT) {
                waited_in_vain = true;
                break;
            }
        held++;
        nanosleep(&linger, NULL);
    }
    vt_cpu.update(d, w, state, peak, grad, a);
}

/* Holds the n-th update from now on; -1: none. */
static void hold_update(int n)
{
    updates = held = 0;
    hold = n;
}

/* ---- runs ---- */

typedef struct trained {
    vt_ctx *g;
    em_model m;
    vt_opt_state s;
    int open_at;                               /* the gate opens when it has run; -1: never */
    float loss[STEPS];
} trained;

static void enter(void *arg, const vt_block *b, bool backward)
{
    trained *t = arg;

    if (backward)
        vt_params_grads_enter(t->m.p, b->index);
}

static void leave(void *arg, const vt_block *b, bool backward)
{
    const trained *t = arg;

    if (!backward && b->index == t->open_at)
        sem_post(&gate);
}

static void ready(void *arg, const vt_block *b)
{
    vt_params_grads_ready(((trained *)arg)->m.p, b->index);
}

static void open_run(trained *t, vt_optimizer how)
{
    const vt_opt_home home = { .host = true, .update = true, .threads = 2 };
    const vt_hooks hooks = { .arg = t, .enter = enter, .leave = leave, .grads_ready = ready };
    vc_err err = { 0 };
    size_t bytes;

    *t = (trained){ .open_at = -1 };
    hold_update(-1);
    assert_ok(vt_open(&t->g, &(vt_options){ .device = "host", .pool_limit = 64 << 20 }, &err),
              &err);
    em_open(&t->m, t->g, 3);
    vt_params_expect_host_grads(t->m.p);
    assert_ok(vt_params_train(t->m.p, NULL, NULL, &err), &err);
    assert_ok(vt_params_host_grads(t->m.p, &bytes, &err), &err);
    vt_set_hooks(t->g, &hooks);
    assert_ok(vt_opt_open(&t->s, t->m.p, how, &home, &err), &err);
}

static void close_run(trained *t)
{
    vt_opt_close(&t->s, t->m.p);
    vt_params_close(t->m.p);
    vt_close(t->g);
}

/* Takes the i-th step, from 0 on. */
static void step(trained *t, int i)
{
    vt_params_zero_grad(t->m.p);
    t->loss[i] = em_step(t->g, &t->m, i % 2 ? VT_RECOMPUTE : VT_KEEP, 0);
    const double norm = vt_params_grad_norm(t->m.p);
    vt_opt_apply(t->m.p, &t->s, &(vt_opt_step){ .lr = 1e-2, .beta1 = 0.9, .beta2 = 0.99,
                 .eps = 1e-8, .weight_decay = 0.01, .grad_scale = 1 / norm, .step = i + 1,
                 .seed = 5 });
}

static size_t bytes_of(const vt_tensor *t)
{
    return vc_dtype_bytes(t->dtype, (size_t)vt_count(t));
}

/* Adds the values of a tensor to *all, of *n bytes. */
static void add(const trained *t, const vt_tensor *x, char **all, size_t *n)
{
    if (!x)
        return;
    *all = realloc(*all, *n + bytes_of(x));
    char *to = *all + *n, *own = malloc(bytes_of(x));
    memcpy(to, vt_param_get(t->g, x, own), bytes_of(x));
    free(own);
    *n += bytes_of(x);
}

/* All weights and states. */
static char *values(const trained *t, size_t *n)
{
    char *all = NULL;

    *n = 0;
    for (int i = 0; i < vt_params_count(t->m.p); i++)
        add(t, vt_params_at(t->m.p, i)->t, &all, n);
    for (int k = 0; k < VT_OPT_STATES; k++)
        for (int i = 0; i < t->s.n; i++)
            add(t, t->s.of[k][i], &all, n);
    return all;
}

/* ---- tests ---- */

/* Weights, states and losses have the bits of a run that waits after each update. */
static void test_bits(void **state)
{
    static const vt_optimizer how[] = { VT_ADAMW, VT_ADAMW_BF16, VT_ADAMW8BIT, VT_LION,
                                        VT_LION8BIT };

    (void)state;
    for (size_t h = 0; h < sizeof how / sizeof *how; h++) {
        char *all[2];
        size_t n[2];
        float loss[STEPS];
        for (int waits = 0; waits < 2; waits++) {
            trained t;
            open_run(&t, how[h]);
            for (int i = 0; i < STEPS; i++) {
                step(&t, i);
                if (waits)
                    vt_host_update_finish(t.s.update);
            }
            all[waits] = values(&t, &n[waits]);
            for (int i = 0; i < STEPS; i++) {
                loss[i] = waits ? loss[i] : t.loss[i];
                assert_true(loss[i] == t.loss[i]);
            }
            assert_true(loss[STEPS - 1] < loss[0]);
            close_run(&t);
        }
        assert_int_equal(n[0], n[1]);
        assert_memory_equal(all[0], all[1], n[0]);
        free(all[0]);
        free(all[1]);
    }
}

/* The kernels of all blocks but the last have run in the next forward while the last block's first
 * update is held. */
static void test_beside(void **state)
{
    trained t;
    int last = 0;

    (void)state;
    open_run(&t, VT_ADAMW);
    for (int i = 0; i < vt_params_count(t.m.p); i++)
        last += vt_params_at(t.m.p, i)->block == LAYERS - 1;
    hold_update(vt_params_count(t.m.p) - last);
    step(&t, 0);
    assert_int_equal(held, 0);
    t.open_at = LAYERS - 2;
    step(&t, 1);
    assert_int_equal(held, 1);
    assert_false(waited_in_vain);
    close_run(&t);
}

/* ---- everything that waits ---- */

typedef struct reader {
    const char *name;
    void (*read)(trained *t, float *to);       /* values of the last block's last weight */
} reader;

static vt_param *last_param(const trained *t)
{
    vt_param *last = NULL;

    for (int i = 0; i < vt_params_count(t->m.p); i++)
        if (vt_params_at(t->m.p, i)->block == LAYERS - 1)
            last = vt_params_at(t->m.p, i);
    return last;
}

static void read_get(trained *t, float *to)
{
    const vt_tensor *w = last_param(t)->t;

    memcpy(to, vt_param_get(t->g, w, to), bytes_of(w));
}

static void read_to_host(trained *t, float *to)
{
    OK(vt_to_host(t->g, last_param(t)->t, to, &err));
}

/* The first moment, which a checkpoint has. */
static void read_state(trained *t, float *to)
{
    const vt_tensor *m = t->s.of[0][t->s.n - 1];

    memcpy(to, vt_param_get(t->g, m, to), bytes_of(m));
}

static void copy_average(trained *t, vt_tensor **ema, float *to)
{
    for (int i = 0, k = 0; i < vt_params_count(t->m.p); i++, k++)
        if (vt_params_at(t->m.p, i) == last_param(t))
            OK(vt_to_host(t->g, ema[k], to, &err));
    vt_ema_close(ema, t->m.p);
}

static void read_new_average(trained *t, float *to)
{
    vt_tensor **ema;

    OK(vt_ema_open(&ema, t->m.p, NULL, &err));
    copy_average(t, ema, to);
}

static vt_tensor **average;                    /* of the weights before the step */

static void read_average(trained *t, float *to)
{
    vt_ema_update(average, t->m.p, NULL, 0.5);
    copy_average(t, average, to);
}

static void read_swapped(trained *t, float *to)
{
    vt_ema_swap(average, t->m.p);
    copy_average(t, average, to);
}

/* A gradient's norm, and the update after it. */
static void read_next(trained *t, float *to)
{
    to[0] = (float)vt_params_grad_norm(t->m.p);
    vt_opt_apply(t->m.p, &t->s, &(vt_opt_step){ .lr = 1e-2, .beta1 = 0.9, .beta2 = 0.99,
                 .eps = 1e-8, .grad_scale = 1, .step = 2 });
    read_get(t, to + 1);
}

static void read_closed(trained *t, float *to)
{
    vt_opt_close(&t->s, t->m.p);
    read_get(t, to);
}

/* The weights of a step that only runs forward, as validation does. */
static void read_forward(trained *t, float *to)
{
    vt_step_begin(t->g, 0);
    to[0] = vt_item(t->g, em_loss(t->g, &t->m, VT_KEEP, LAYERS));
    OK(vt_step_end(t->g, &err));
}

static const reader readers[] = {
    { "vt_param_get", read_get }, { "vt_to_host", read_to_host }, { "a state", read_state },
    { "vt_ema_open", read_new_average }, { "vt_ema_update", read_average },
    { "vt_ema_swap", read_swapped }, { "the next norm and update", read_next },
    { "vt_opt_close", read_closed }, { "a forward", read_forward },
};

/* Whatever reads weights or states while the last update is held waits for it. */
static void test_waits(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof readers / sizeof *readers; k++) {
        float *got[2];
        size_t n = 0;
        for (int late = 0; late < 2; late++) {
            trained t;
            open_run(&t, VT_ADAMW);
            n = (size_t)vt_count(last_param(&t)->t) + 1;
            got[late] = calloc(n, sizeof **got);
            OK(vt_ema_open(&average, t.m.p, NULL, &err));
            if (late)
                hold_update(vt_params_count(t.m.p) - 1);
            step(&t, 0);
            if (late) {
                assert_int_equal(held, 0);
                sem_post(&gate);
            } else {
                vt_host_update_finish(t.s.update);
            }
            readers[k].read(&t, got[late]);
            assert_int_equal(held, late);
            if (readers[k].read != read_average && readers[k].read != read_swapped)
                vt_ema_close(average, t.m.p);
            close_run(&t);
        }
        if (memcmp(got[0], got[1], n * sizeof **got))
            fail_msg("%s does not wait for the update", readers[k].name);
        free(got[0]);
        free(got[1]);
    }
    assert_false(waited_in_vain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits), cmocka_unit_test(test_beside), cmocka_unit_test(test_waits),
    };

    sem_init(&gate, 0, 0);
    cpu = vt_cpu;
    cpu.update = update;
    host_cpu_instead = &cpu;
    cmocka_set_test_filter(getenv("VLT_TEST"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
