/* test_shared_tokens.c - the exchange of tokens for heads: a layer that mixes tokens, computed by
 * several processes, has the result and the gradients of one. Threads with contexts of their own
 * are the processes, and the exchange copies between them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/tensor/exchange.h"
#include "common/tensor/ops.h"
#include "tests/lib/ok.h"

enum { MOST = 4, ROWS = 2, TOKENS = 13, FIRST = 5, HEADS = 12, HEAD = 8, WIDTH = HEADS * HEAD };

/* ---- processes ---- */

typedef struct team team;
typedef struct process {
    team *all;
    int me;
    vt_ctx *g;
    vt_tensor *x, *scale;        /* trained: [ROWS,TOKENS,WIDTH]; [HEADS,HEAD], by head */
    const void *from;            /* of the exchange in progress */
    const vc_piece *out;
    float loss, *grad[2];
    size_t peak;
    int flags;
    bool broken;                 /* its exchanges fail */
    bool parted;                 /* the sequence has two parts */
    int rc;
    vc_err err;
} process;

struct team {
    int n;
    pthread_barrier_t meet;
    process p[MOST];
    void (*run)(process *p);
};

static int exchange(void *arg, void *to, const vc_piece *in, const void *from, const vc_piece *out,
                    vc_err *err)
{
    process *p = arg;
    if (p->broken)
        return vc_fail(err, VC_EFAIL, "the exchange is broken");
    p->from = from;
    p->out = out;
    pthread_barrier_wait(&p->all->meet);
    for (int r = 0; r < p->all->n; r++) {
        const process *other = &p->all->p[r];
        const vc_piece *piece = &other->out[p->me];
        if (piece->n != in[r].n)
            abort();
        memcpy((char *)to + in[r].at, (const char *)other->from + piece->at, piece->n);
    }
    pthread_barrier_wait(&p->all->meet);
    return 0;
}

static void *work(void *arg)
{
    process *p = arg;
    const vt_peers peers = { .n = p->all->n, .me = p->me, .exchange = exchange, .arg = p };
    if (vt_open(&p->g, &(vt_options){ .device = "cpu", .threads = 1 }, &p->err))
        abort();
    vt_set_peers(p->g, &peers);
    p->all->run(p);
    vt_set_peers(p->g, NULL);
    vt_close(p->g);
    return NULL;
}

static void team_of(team *t, int n, int flags, bool parted, void (*run)(process *p))
{
    pthread_t thread[MOST];
    *t = (team){ .n = n, .run = run };
    pthread_barrier_init(&t->meet, NULL, (unsigned)n);
    for (int r = 0; r < n; r++) {
        t->p[r] = (process){ .all = t, .me = r, .flags = flags, .parted = parted };
        assert_int_equal(pthread_create(&thread[r], NULL, work, &t->p[r]), 0);
    }
    for (int r = 0; r < n; r++)
        pthread_join(thread[r], NULL);
    pthread_barrier_destroy(&t->meet);
}

static void team_run(team *t, int n, int flags, void (*run)(process *p))
{
    team_of(t, n, flags, false, run);
}

static void team_free(team *t)
{
    for (int r = 0; r < t->n; r++)
        for (int k = 0; k < 2; k++)
            free(t->p[r].grad[k]);
}

/* ---- a layer ---- */

static vt_tensor *param(vt_ctx *g, int nd, const int64_t *dim, int seed)
{
    int64_t n = 1;
    for (int i = 0; i < nd; i++)
        n *= dim[i];
    float *v = malloc((size_t)n * sizeof *v);
    for (int64_t i = 0; i < n; i++)
        v[i] = sinf((float)(i * (seed + 2) % 9973));
    vt_tensor *t = vt_param_new(g, VC_F32, nd, dim, v, VC_F32, false, NULL);
    free(v);
    vt_param_train(g, t, VC_F32, NULL);
    return t;
}

/* Shares x, whole or part by part. */
static vt_tensor *own(process *p, vt_tensor *x)
{
    vt_ctx *g = p->g;
    vt_tensor *part[2] = { vt_slice(g, x, 1, 0, FIRST), vt_slice(g, x, 1, FIRST, TOKENS) };
    if (!p->parted) {
        vt_share_tokens(g, TOKENS);
        return vt_own_tokens(g, x);
    }
    vt_share_parts(g, FIRST, TOKENS - FIRST);
    for (int k = 0; k < 2; k++)
        part[k] = vt_own_part(g, part[k], k);
    return vt_concat(g, 1, 2, part);
}

static vt_tensor *all(process *p, vt_tensor *x)
{
    vt_ctx *g = p->g;
    const int64_t n = vt_own_count(g, 0, FIRST);
    if (!p->parted || vt_failed(g))
        return vt_all_tokens(g, x);
    vt_tensor *part[2] = { vt_slice(g, x, 1, 0, n), vt_slice(g, x, 1, n, x->dim[1]) };
    for (int k = 0; k < 2; k++)
        part[k] = vt_all_part(g, part[k], k);
    return vt_concat(g, 1, 2, part);
}

/* Every token's result depends on all tokens, and on parameters that differ by head. */
static vt_tensor *layer(process *p)
{
    vt_ctx *g = p->g;
    const int64_t heads[4] = { ROWS, -1, HEADS, HEAD }, flat[3] = { ROWS, -1, WIDTH };
    int64_t first, n;
    vt_tensor *x = vt_reshape(g, own(p, p->x), 4, heads);
    n = vt_own_heads(g, HEADS, &first);
    vt_tensor *h = vt_to_heads(g, x);
    h = vt_mul(g, h, vt_slice(g, p->scale, 0, first, first + n));
    h = vt_attention(g, h, h, h, NULL);
    x = vt_add(g, vt_to_tokens(g, h), x);
    return all(p, vt_silu(g, vt_reshape(g, x, 3, flat)));
}

static void keep_grads(process *p)
{
    vt_tensor *of[2] = { p->x, p->scale };
    for (int k = 0; k < 2; k++) {
        size_t n = (size_t)vt_count(of[k]);
        p->grad[k] = malloc(n * sizeof(float));
        memcpy(p->grad[k], of[k]->grad->data, n * sizeof(float));
    }
}

static void step(process *p)
{
    vt_ctx *g = p->g;
    static const int64_t dim[3] = { ROWS, TOKENS, WIDTH }, each[2] = { HEADS, HEAD };
    p->x = param(g, 3, dim, 1);
    p->scale = param(g, 2, each, 2);
    vt_step_begin(g, VT_RECORD | p->flags);
    vt_tensor *y = layer(p);
    p->rc = vt_failed(g);
    vt_tensor *loss = p->rc ? NULL : vt_mse(g, y, vt_scale(g, y, 0), NULL);
    vt_backward(g, loss);
    p->loss = vt_item(g, loss);
    p->peak = vt_usage_of(g).pool_peak;
    p->rc = vt_step_end(g, &p->err);
    if (!p->rc && !p->flags)
        keep_grads(p);
    vt_param_free(g, p->x);
    vt_param_free(g, p->scale);
}

/* ---- the tests ---- */

/* The processes' gradients add up to those of one process. They differ by the rounding of sums over
 * at most TOKENS * ROWS terms. */
static void test_like_one(void **state)
{
    team one, more;
    static const size_t count[2] = { ROWS * TOKENS * WIDTH, HEADS * HEAD };
    (void)state;
    team_run(&one, 1, 0, step);
    assert_ok(one.p[0].rc, &one.p[0].err);
    for (int k = 0; k < 2; k++) {
        double most = 0;
        for (size_t i = 0; i < count[k]; i++)
            most = fmax(most, fabs((double)one.p[0].grad[k][i]));
        assert_true(most > 1e-3);
    }
    for (int k = 0; k < 2 * (MOST - 1); k++) {
        const int n = 2 + k / 2;
        team_of(&more, n, 0, k % 2, step);
        for (int r = 0; r < n; r++) {
            assert_ok(more.p[r].rc, &more.p[r].err);
            assert_true(more.p[r].loss == one.p[0].loss);
        }
        for (int j = 0; j < 2; j++)
            for (size_t i = 0; i < count[j]; i++) {
                double sum = 0, want = (double)one.p[0].grad[j][i];
                for (int r = 0; r < n; r++)
                    sum += (double)more.p[r].grad[j][i];
                if (fabs(sum - want) > 1e-6 * fmax(fabs(want), 1e-3))
                    fail_msg("%d processes: gradient %d [%zu]: %.9g, of one %.9g", n, j, i, sum,
                             want);
            }
        team_free(&more);
    }
    team_free(&one);
}

/* Process 0 has the largest share, and every process's dry step predicts its memory. */
static void test_dry(void **state)
{
    team real, dry;
    (void)state;
    for (int n = 2; n <= MOST; n++) {
        team_run(&real, n, 0, step);
        team_run(&dry, n, VT_DRY, step);
        for (int r = 0; r < n; r++) {
            assert_int_equal(dry.p[r].peak, real.p[0].peak);
            assert_true(real.p[r].peak <= dry.p[r].peak);
        }
        team_free(&real);
    }
}

/* Back and forth gives the same bits, also in bf16 and from views. */
static void back(process *p)
{
    static const vc_dtype types[] = { VC_F32, VC_BF16 };
    static const int64_t heads[4] = { ROWS, -1, HEADS, HEAD };
    vt_ctx *g = p->g;
    p->x = param(g, 3, (int64_t[]){ ROWS, TOKENS, WIDTH }, 3);
    float a[ROWS * TOKENS * WIDTH], b[ROWS * TOKENS * WIDTH];
    for (int k = 0; k < 2; k++) {
        vt_step_begin(g, 0);
        vt_share_tokens(g, TOKENS);
        vt_tensor *x = vt_cast(g, p->x, types[k]), *y;
        y = vt_to_heads(g, vt_reshape(g, vt_own_tokens(g, x), 4, heads));
        y = vt_reshape(g, vt_to_tokens(g, y), 3, (int64_t[]){ ROWS, -1, WIDTH });
        y = vt_all_tokens(g, y);
        if (!vt_failed(g) && !vt_to_host(g, x, a, &p->err) && !vt_to_host(g, y, b, &p->err))
            p->rc |= memcmp(a, b, sizeof a) != 0;
        vt_share_tokens(g, 0);
        p->rc |= vt_to_heads(g, x) != x || vt_all_tokens(g, x) != x || vt_own_before(g, 5) != 5;
        p->rc |= vt_step_end(g, &p->err);
    }
    vt_param_free(g, p->x);
}

static void test_back(void **state)
{
    team t;
    (void)state;
    for (int n = 1; n <= MOST; n++) {
        team_run(&t, n, 0, back);
        for (int r = 0; r < n; r++)
            assert_ok(t.p[r].rc, &t.p[r].err);
    }
}

/* The steps of all processes fail alike before the first exchange. */
static void refused(process *p)
{
    vt_ctx *g = p->g;
    int64_t tokens[] = { TOKENS, 2, TOKENS, TOKENS };
    static const char *const says[] = {
        "to_heads: 4 heads do not divide among 3 processes", "a sequence of 2 tokens cannot",
        "own_tokens: another number of tokens", "the exchange is broken",
    };
    for (int k = 0; k < 4; k++) {
        vt_step_begin(g, 0);
        vt_share_tokens(g, tokens[k]);
        int64_t dim[4] = { 1, TOKENS + (k == 2), k == 0 ? 4 : 3, HEAD };
        vt_tensor *x = vt_new(g, VC_F32, 4, dim);
        p->broken = k == 3;
        vt_to_heads(g, vt_own_tokens(g, x));
        vt_step_end(g, &p->err);
        p->rc |= !strstr(p->err.text, says[k]) << k;
    }
}

static void test_refused(void **state)
{
    team t;
    (void)state;
    team_run(&t, 3, 0, refused);
    for (int r = 0; r < 3; r++)
        if (t.p[r].rc)
            fail_msg("process %d: case bits %d: \"%s\"", r, t.p[r].rc, t.p[r].err.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_like_one),
        cmocka_unit_test(test_dry),
        cmocka_unit_test(test_back),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
