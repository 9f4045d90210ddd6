/* test_nn.c - joint attention of two streams is compared with attention of one sequence. The tests
 * in tests/train/models compare the models that use common/nn with their references. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/rng.h"
#include "common/nn/attention.h"
#include "tests/lib/ok.h"

enum { B = 2, HEADS = 2, HEAD = 8, D = HEADS * HEAD, FIRST = 5, SECOND = 4, N = FIRST + SECOND };
enum { WEIGHTS = 4 };

typedef struct fixture {
    vt_ctx *g;
    vt_tensor *param[WEIGHTS + 1];
    nn_attention w;
    float x[B * N * D];
} fixture;

static void fill(float *v, size_t n, uint32_t purpose)
{
    for (size_t i = 0; i < n; i++)
        v[i] = (float)(2 * vc_train_unit(5, (uint32_t)i, 0, 0, purpose) - 1);
}

static vt_tensor *param(fixture *f, int at, int nd, const int64_t *dim)
{
    float v[D * D];
    vc_err err = { 0 };
    fill(v, D * D, (uint32_t)at);
    f->param[at] = vt_param_new(f->g, VC_F32, nd, dim, v, VC_F32, false, &err);
    assert_non_null(f->param[at]);
    return f->param[at];
}

static void open_fixture(fixture *f)
{
    const vt_options o = { .device = "cpu", .threads = 1, .compute = VC_F32 };
    const int64_t square[2] = { D, D }, head = HEAD;
    *f = (fixture){ 0 };
    OK(vt_open(&f->g, &o, &err));
    vt_lin *const linear[WEIGHTS] = { &f->w.q, &f->w.k, &f->w.v, &f->w.out };
    for (int i = 0; i < WEIGHTS; i++)
        linear[i]->w = param(f, i, 2, square);
    f->w.norm_q.w = f->w.norm_k.w = param(f, WEIGHTS, 1, &head);
    fill(f->x, B * N * D, 17);
    vt_step_begin(f->g, 0);
}

static void close_fixture(fixture *f)
{
    OK(vt_step_end(f->g, &err));
    for (int i = 0; i <= WEIGHTS; i++)
        vt_param_free(f->g, f->param[i]);
    vt_close(f->g);
}

static vt_tensor *tokens(fixture *f, int64_t begin, int64_t end)
{
    const int64_t dim[3] = { B, N, D };
    return vt_slice(f->g, vt_from_host(f->g, VC_F32, 3, dim, f->x, VC_F32), 1, begin, end);
}

/* Makes the tables of rotations of tokens begin..end-1: cosines and sines. */
static void rotations(fixture *f, int64_t begin, int64_t end, vt_tensor *table[2])
{
    float v[N * HEAD / 2];
    const int64_t dim[2] = { N, HEAD / 2 };
    for (int i = 0; i < 2; i++) {
        fill(v, N * HEAD / 2, 20 + (uint32_t)i);
        table[i] = vt_pack(f->g, vt_slice(f->g, vt_from_host(f->g, VC_F32, 2, dim, v, VC_F32), 0,
                                          begin, end));
    }
}

static void assert_same(fixture *f, vt_tensor *have, vt_tensor *want)
{
    float a[B * N * D], b[B * N * D];
    assert_true(have && want && vt_same_shape(have, want));
    OK(vt_to_host(f->g, have, a, &err));
    OK(vt_to_host(f->g, want, b, &err));
    assert_memory_equal(a, b, (size_t)vt_count(have) * sizeof *a);
}

/* Two streams with the same weights give the bits of one sequence that is cut afterwards. */
static void check_cut(bool rotated, const int32_t *length)
{
    fixture f;
    const int64_t rows = B;
    vt_tensor *whole[2] = { NULL }, *table[2][2] = { { NULL } }, *out[2];
    open_fixture(&f);
    if (rotated) {
        rotations(&f, 0, N, whole);
        rotations(&f, 0, FIRST, table[0]);
        rotations(&f, FIRST, N, table[1]);
    }
    vt_tensor *kv_len = length ? vt_from_host(f.g, VC_I32, 1, &rows, length, VC_I32) : NULL;
    const nn_heads one = { HEADS, 1e-6f, whole[0], whole[1], 0 };
    const nn_heads first = { HEADS, 1e-6f, table[0][0], table[0][1], 0 };
    const nn_heads second = { HEADS, 1e-6f, table[1][0], table[1][1], 0 };
    const nn_stream s[2] = { { tokens(&f, 0, FIRST), &f.w, &first },
                             { tokens(&f, FIRST, N), &f.w, &second } };
    vt_tensor *want = nn_self_attention(f.g, tokens(&f, 0, N), &f.w, &one, kv_len);
    nn_joint_attention(f.g, s, kv_len, out);
    assert_same(&f, out[0], vt_slice(f.g, want, 1, 0, FIRST));
    assert_same(&f, out[1], vt_slice(f.g, want, 1, FIRST, N));
    close_fixture(&f);
}

static void test_streams(void **state)
{
    (void)state;
    check_cut(false, NULL);
    check_cut(true, NULL);
    check_cut(true, (const int32_t[B]){ FIRST + 1, N });
}

/* A stream without an output layer has no result, but the other stream attends to its tokens. */
static void test_read_only(void **state)
{
    (void)state;
    for (int silent = 0; silent < 2; silent++) {
        fixture f;
        vt_tensor *out[2], *want[2];
        open_fixture(&f);
        nn_attention no_out = f.w;
        no_out.out = (vt_lin){ 0 };
        const nn_heads h = { .n = HEADS, .eps = 1e-6f };
        nn_stream s[2] = { { tokens(&f, 0, FIRST), &f.w, &h }, { tokens(&f, FIRST, N), &f.w, &h } };
        nn_joint_attention(f.g, s, NULL, want);
        s[silent].w = &no_out;
        nn_joint_attention(f.g, s, NULL, out);
        assert_null(out[silent]);
        assert_same(&f, out[!silent], want[!silent]);
        close_fixture(&f);
    }
}

/* Heads without norms are rotated too; norms change the result. */
static void test_norms(void **state)
{
    fixture f;
    vt_tensor *table[2];
    (void)state;
    open_fixture(&f);
    rotations(&f, 0, N, table);
    const nn_heads h = { HEADS, 1e-6f, table[0], table[1], 0 }, plain = { .n = HEADS };
    const nn_norm none = { NULL, NULL };
    vt_tensor *x = tokens(&f, 0, N);
    vt_tensor *rotated = nn_project(f.g, x, &f.w.q, &none, &h);
    vt_tensor *y = nn_project(f.g, x, &f.w.q, NULL, &plain);
    assert_same(&f, rotated, vt_rope(f.g, y, table[0], table[1], 0));
    y = vt_rope(f.g, vt_rms_norm(f.g, y, f.w.norm_q.w, 1e-6f), table[0], table[1], 0);
    assert_same(&f, nn_project(f.g, x, &f.w.q, &f.w.norm_q, &h), y);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streams), cmocka_unit_test(test_read_only),
        cmocka_unit_test(test_norms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
