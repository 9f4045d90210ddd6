/* test_plans.c - every cuDNN plan that the models need is built for a described H200 on a machine
 * without a GPU: cuDNN accepts each graph and has an engine that runs it as one kernel. No kernel
 * runs. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "common/cuda/plans.h"
#include "tests/lib/ok.h"

static const char h200[] =
    "{\"deviceName\":\"NVIDIA H200\",\"maxGridSize\":[2147483647,65535,65535],"
    "\"maxBlockSize\":[1024,1024,64],\"regsPerBlock\":65536,\"multiProcessorCount\":132,"
    "\"warpSize\":32,\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":232448,"
    "\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":32,"
    "\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,\"pciDeviceId\":9013,\"isTccDriver\":0,"
    "\"supportCoopLaunch\":1,\"totalGlobalMem\":150754820096,\"smClockRateKHz\":1980000,"
    "\"memClockRateKHz\":3201000,\"l2CacheSize\":62914560,\"cudaDeviceId\":0,\"deviceVer\":900,"
    "\"driverVer\":13000}";

static int describe(void **state)
{
    static cudnnBackendDescriptor_t device;
    vc_err err = { 0 };

    *state = device;
    if (cuda_graph_describe(&device, h200, &err)) {
        print_error("%s\n", err.text);
        return -1;
    }
    *state = device;
    return 0;
}

static int forget(void **state) { return (int)cudnnBackendDestroyDescriptor(*state); }

/* ---- attention ---- */

enum { GRAD = 1, LENGTHS = 2, BIAS = 4, REPEATABLE = 8, FUSED = 16 };
typedef struct attention_row {
    const char *name;
    int64_t b, h, sq, sk, d;
    int flags;                                 /* with FUSED one buffer holds q, k and v */
} attention_row;

static const attention_row attentions[] = {
    { "CogVideoX-2B, 49 x 480 x 720", 1, 30, 17776, 17776, 64, GRAD },
    { "CogVideoX-5B, qkv in one buffer", 1, 48, 17776, 17776, 64, GRAD | FUSED },
    { "a small bucket, batch 4", 4, 30, 994, 994, 64, GRAD },
    { "one head, repeatable", 1, 1, 17776, 17776, 64, GRAD | REPEATABLE },
    { "heads of 128, lengths", 1, 24, 11000, 11000, 128, GRAD | LENGTHS },
    { "cross attention, lengths", 1, 40, 32760, 512, 128, GRAD | LENGTHS },
    { "T5: bias and lengths", 2, 64, 226, 226, 64, LENGTHS | BIAS },
    { "T5: bias", 1, 64, 226, 226, 64, BIAS },
    { "odd length", 2, 3, 77, 131, 80, GRAD },
    { "VAE, middle block", 1, 1, 6400, 6400, 512, 0 },
    { "Wan's VAE, 13 frames", 13, 1, 5400, 5400, 384, 0 },
    { "Wan 2.2's VAE, 13 frames", 13, 1, 1350, 1350, 640, 0 },
    { "HunyuanVideo 1.5's VAE, the last of 13 frames", 1, 1, 1350, 17550, 1024, 0 },
};

static cuda_attention_key key_of(const attention_row *r)
{
    int64_t wide = r->h * r->d * (r->flags & FUSED ? 3 : 1), own = r->h * r->d;
    cuda_rows_at q = { r->sq * wide, wide, r->d }, k = { r->sk * wide, wide, r->d };
    cuda_rows_at o = { r->sq * own, own, r->d };

    return (cuda_attention_key){ .b = r->b, .h = r->h, .sq = r->sq, .sk = r->sk, .d = r->d, .q = q,
                                 .k = k, .v = k, .o = o, .dout = o, .dq = q, .dk = k, .dv = k,
                                 .lse_b = r->h * r->sq, .lse_h = r->sq,
                                 .bias_h = r->sq * r->sk, .bias_q = r->sk,
                                 .bias = (r->flags & BIAS) != 0,
                                 .lengths = (r->flags & LENGTHS) != 0,
                                 .repeatable = (r->flags & REPEATABLE) != 0 };
}

static int plan(void *device, const cuda_attention_key *k, const char *name)
{
    cuda_graph *g = malloc(sizeof *g);
    vc_err err = { 0 };

    assert_non_null(g);
    cuda_graph_init(g, NULL, device);
    int rc = cuda_plan_attention(g, k, &err);
    if (rc)
        print_error("%s: %s\n", name, err.text);
    else
        print_message("%s, %s: engine %d, notes %#x, %d MiB\n", name,
                      k->grad ? "gradient" : "forward", (int)g->engine, (unsigned)g->notes,
                      (int)(g->workspace >> 20));
    int bad = rc != 0;
    if (!rc && k->repeatable && k->grad)       /* the workspace holds dS of all heads, in bf16 */
        bad = g->workspace < 2 * k->b * k->h * k->sq * k->sk;
    else if (!rc && k->grad == 0 && g->notes & CUDA_NOTE(NONDETERMINISTIC)) {
        print_error("%s: engine %d does not repeat its bits\n", name, (int)g->engine);
        bad = 1;
    } else if (!rc && g->workspace > 64 << 20) { /* it holds scores: more than one kernel */
        print_error("%s: a workspace of %d MiB\n", name, (int)(g->workspace >> 20));
        bad = 1;
    }
    cuda_graph_close(g);
    free(g);
    return bad;
}

static void test_attention(void **state)
{
    int bad = 0;

    for (size_t i = 0; i < sizeof attentions / sizeof *attentions; i++) {
        cuda_attention_key k = key_of(&attentions[i]);
        bad += plan(*state, &k, attentions[i].name);
        k.grad = 1;
        if (attentions[i].flags & GRAD)
            bad += plan(*state, &k, attentions[i].name);
    }
    assert_int_equal(bad, 0);
}

/* ---- convolution ---- */

typedef struct conv_row {
    const char *name;
    cuda_conv_key k;
} conv_row;

static const conv_row convs[] = {
    { "causal 3x3x3, 128 channels",
      { 1, 128, 128, { 9, 480, 720 }, { 3, 3, 3 }, { 1, 1, 1 }, { 2, 1, 1 }, { 0, 1, 1 }, 1, 0 } },
    { "the same with frames in front",
      { 1, 512, 512, { 6, 60, 90 }, { 3, 3, 3 }, { 1, 1, 1 }, { 0, 1, 1 }, { 0, 1, 1 }, 1, 0 } },
    { "pictures in, padded to 8 channels",
      { 1, 8, 128, { 9, 480, 720 }, { 3, 3, 3 }, { 1, 1, 1 }, { 2, 1, 1 }, { 0, 1, 1 }, 1, 0 } },
    { "halving in space",
      { 9, 128, 128, { 1, 480, 720 }, { 1, 3, 3 }, { 1, 2, 2 }, { 0, 0, 0 }, { 0, 1, 1 }, 1, 0 } },
    { "pictures out",
      { 1, 128, 3, { 9, 480, 720 }, { 3, 3, 3 }, { 1, 1, 1 }, { 2, 1, 1 }, { 0, 1, 1 }, 1, 0 } },
    { "1x1x1 without bias",
      { 1, 32, 32, { 13, 60, 90 }, { 1, 1, 1 }, { 1, 1, 1 }, { 0, 0, 0 }, { 0, 0, 0 }, 0, 0 } },
    { "128 channels, small pictures",
      { 1, 128, 128, { 5, 60, 90 }, { 3, 3, 3 }, { 1, 1, 1 }, { 2, 1, 1 }, { 0, 1, 1 }, 1, 1 } },
    /* the rows of ops_conv.c, whose sizes are small and odd */
    { "a small input",
      { 1, 16, 24, { 4, 6, 7 }, { 3, 3, 3 }, { 1, 1, 1 }, { 2, 1, 1 }, { 0, 1, 1 }, 1, 1 } },
    { "small pictures, stride 2",
      { 2, 8, 8, { 1, 8, 9 }, { 1, 3, 3 }, { 1, 2, 2 }, { 0, 0, 0 }, { 0, 1, 1 }, 1, 1 } },
    { "small, 1x1x1 without bias",
      { 1, 24, 12, { 2, 3, 5 }, { 1, 1, 1 }, { 1, 1, 1 }, { 0, 0, 0 }, { 0, 0, 0 }, 0, 1 } },
    { "small, stride 2 in all axes",
      { 1, 16, 16, { 3, 5, 5 }, { 3, 3, 3 }, { 2, 2, 2 }, { 2, 1, 1 }, { 0, 1, 1 }, 1, 1 } },
    { "small, five output channels",
      { 1, 8, 5, { 5, 5, 4 }, { 3, 3, 3 }, { 1, 1, 1 }, { 0, 1, 1 }, { 0, 1, 1 }, 1, 1 } },
    { "small, two samples and a kernel of five frames",
      { 2, 8, 16, { 9, 4, 5 }, { 5, 1, 3 }, { 2, 1, 1 }, { 0, 0, 0 }, { 0, 0, 0 }, 1, 1 } },
    { "small, one frame and its front",
      { 1, 8, 16, { 3, 4, 5 }, { 3, 3, 3 }, { 1, 1, 1 }, { 0, 1, 1 }, { 0, 1, 1 }, 1, 1 } },
    { "small, padded before",
      { 1, 16, 24, { 6, 7, 8 }, { 3, 3, 3 }, { 1, 1, 1 }, { 0, 0, 0 }, { 0, 0, 0 }, 1, 1 } },
    { "small, nine output channels",
      { 2, 16, 9, { 9, 6, 7 }, { 3, 3, 3 }, { 2, 1, 2 }, { 0, 0, 0 }, { 0, 0, 0 }, 1, 1 } },
    { "small, a kernel of 4 x 4",
      { 1, 8, 4, { 1, 6, 7 }, { 1, 4, 4 }, { 1, 1, 1 }, { 0, 0, 0 }, { 0, 0, 0 }, 1, 1 } },
    { "small, a kernel of four frames",
      { 1, 8, 5, { 7, 7, 6 }, { 4, 3, 3 }, { 1, 1, 1 }, { 0, 0, 0 }, { 0, 0, 0 }, 1, 1 } },
};

/* Plans a convolution in f32 or bf16. f32 data are computed in f32: not by tensor cores, which
 * round the operands to TF32, nor converted to a smaller type. */
static int plan_conv(void *device, const cuda_conv_key *k, const char *name)
{
    cuda_graph *g = malloc(sizeof *g);
    vc_err err = { 0 };

    assert_non_null(g);
    cuda_graph_init(g, NULL, device);
    int bad = cuda_plan_conv(g, k, &err) != 0;
    if (bad)
        print_error("%s, %s: %s\n", name, k->f32 ? "f32" : "bf16", err.text);
    else
        print_message("%s, %s: engine %d, notes %#x, %d MiB\n", name, k->f32 ? "f32" : "bf16",
                      (int)g->engine, (unsigned)g->notes, (int)(g->workspace >> 20));
    if (!bad && k->f32 && g->notes & CUDA_NOTES_INEXACT) {
        print_error("%s: engine %d does not compute f32 data in f32 (notes %#x)\n", name,
                    (int)g->engine, (unsigned)g->notes);
        bad = 1;
    }
    if (!bad && g->notes & CUDA_NOTE(NONDETERMINISTIC)) {
        print_error("%s: engine %d does not repeat its bits\n", name, (int)g->engine);
        bad = 1;
    }
    if (!bad && g->workspace > 256 << 20) {
        print_error("%s: a workspace of %d MiB\n", name, (int)(g->workspace >> 20));
        bad = 1;
    }
    cuda_graph_close(g);
    free(g);
    return bad;
}

static void test_conv(void **state)
{
    int bad = 0;

    for (size_t i = 0; i < sizeof convs / sizeof *convs; i++) {
        cuda_conv_key k = convs[i].k;
        for (k.f32 = 0; k.f32 < 2; k.f32++)
            bad += plan_conv(*state, &k, convs[i].name);
    }
    assert_int_equal(bad, 0);
}

/* cuDNN's gradient of one query and one key is a known fault of the library, so it is not planned:
 * plain kernels follow. */
static void test_single(void **state)
{
    static const attention_row one = { "one query and one key", 2, 3, 1, 1, 64, 0 };
    cuda_attention_key k = key_of(&one);
    cuda_graph *g = malloc(sizeof *g);
    vc_err err = { 0 };

    assert_non_null(g);
    assert_int_equal(plan(*state, &k, one.name), 0);
    k.grad = 1;
    cuda_graph_init(g, NULL, *state);
    assert_fails(cuda_plan_attention(g, &k, &err), VC_EINVAL, &err, "one query and one key");
    cuda_graph_close(g);
    free(g);
}

/* The error about a graph that cuDNN refuses describes the graph. */
static void test_refused(void **state)
{
    cuda_attention_key k = key_of(&attentions[2]);
    cuda_graph *g = malloc(sizeof *g);
    vc_err err = { 0 };

    assert_non_null(g);
    k.d = 1024;                                /* wider than any kernel for gradients */
    k.grad = 1;
    cuda_graph_init(g, NULL, *state);
    assert_fails(cuda_plan_attention(g, &k, &err), VC_EFAIL, &err,
                 "attention gradient, 4 x 30 heads, 994 queries");
    assert_says(&err, "cuDNN: ");
    cuda_graph_close(g);
    free(g);
}

/* A library that is too old is refused with the reason; the one that runs is accepted. */
static void test_versions(void **state)
{
    vc_err err = { 0 };

    (void)state;
    assert_int_equal(cuda_graph_supports(cudnnGetVersion(), &err), 0);
    assert_int_equal(cuda_graph_supports(91600, &err), 0);
    assert_fails(cuda_graph_supports(91501, &err), VC_EINVAL, &err,
                 "cuDNN 9.15.1 is too old: 9.16");
    assert_fails(cuda_graph_supports(90800, &err), VC_EINVAL, &err, "cuDNN 9.8.0 is too old: 9.16");
    assert_says(&err, "CUDA graphs");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_conv),
        cmocka_unit_test(test_single),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, describe, forget);
}
