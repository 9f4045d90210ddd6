/* test_scaled.c - weights whose file has scales beside codes of fp8, int8 or nf4: what is held,
 * products, and training. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/tensor/backend.h"
#include "tests/lib/ok.h"
#include "tests/tensor/engine_model.h"

enum { OUT = 7, IN = 48 };

typedef struct store { vt_host h[3]; const char *name[3]; } store;
#define HOST(type, axes, values, ...) \
    { .dtype = type, .nd = axes, .dim = { __VA_ARGS__ }, .data = values }

static int store_get(void *arg, const char *name, vt_host *view, vc_err *err)
{
    const store *s = arg;

    for (int i = 0; i < 3; i++)
        if (!strcmp(s->name[i], name)) {
            *view = s->h[i];
            return 0;
        }
    return vc_fail(err, VC_ENOENT, "no \"%s\"", name);
}

/* A weight's own codes, with a scale for all of it, a scale a row, or a scale for each block of a
 * row's columns, are held as they are; other types, and tensors that are no linear's weight, become
 * f32 copies. */
static const struct { int64_t scales[2]; vc_dtype stored, of, held; bool converts; vc_dtype to; }
    scaled[] = {
    { { 1, 1 }, VC_F8E4M3, VC_F32, VC_F8E4M3, false, VC_F32 },
    { { OUT, 1 }, VC_F8E4M3, VC_BF16, VC_F8E4M3, false, VC_F32 },
    { { OUT, 3 }, VC_F8E4M3, VC_F32, VC_F8E4M3, false, VC_F32 },
    { { 1, 1 }, VC_F8E5M2, VC_F16, VC_F8E5M2, false, VC_F32 },
    { { OUT, 1 }, VC_F8E4M3, VC_F32, VC_F8E4M3, true, VC_F8E4M3 },
    { { OUT, 3 }, VC_F8E4M3, VC_F32, VC_F32, true, VC_F32 },
    { { OUT, 1 }, VC_F8E4M3, VC_F32, VC_BF16, true, VC_BF16 },
    { { 1, 1 }, VC_BF16, VC_F32, VC_F32, false, VC_F32 },
    { { OUT, 1 }, VC_I8, VC_F32, VC_I8, false, VC_F32 },
    { { OUT, 3 }, VC_NF4, VC_F32, VC_NF4, false, VC_F32 },
    { { OUT, 3 }, VC_NF4, VC_F32, VC_NF4, true, VC_NF4 },
    { { OUT, 3 }, VC_NF4, VC_F32, VC_BF16, true, VC_BF16 },
    { { OUT, 1 }, VC_I8, VC_BF16, VC_F32, true, VC_F32 },
};

typedef struct scaled_pair { vt_lin lin; vt_tensor *plain; } scaled_pair;
static const vt_weight scaled_table[] = {
    { "proj", VT_W_LINEAR, offsetof(scaled_pair, lin), { OUT, IN }, VT_INIT_KAIMING },
    { "plain", VT_W_TENSOR, offsetof(scaled_pair, plain), { OUT, IN }, VT_INIT_ONE },
    { 0 }
};

static void forward(float *y, vt_ctx *g, const vt_lin *lin)
{
    vt_tensor *x = vt_param_new(g, VC_F32, 2, (int64_t[]){ 9, IN }, em_data(9 * IN), VC_F32, false,
                                NULL);
    vt_step_begin(g, 0);
    assert_int_equal(vt_to_host(g, vt_linear(g, x, lin), y, NULL), 0);
    assert_int_equal(vt_step_end(g, NULL), 0);
    vt_param_free(g, x);
}

static void test_scaled(void **state)
{
    static float codes[OUT * IN], want[OUT * IN], scale[OUT * 3], bias[OUT];
    static uint16_t stored[OUT * IN], of[OUT * 3 * 2];

    (void)state;
    for (size_t c = 0; c < sizeof scaled / sizeof *scaled; c++) {
        const int64_t *n = scaled[c].scales;
        vt_ctx *g = em_context(VC_F32);
        vt_params *p;
        scaled_pair m;
        store s = { .name = { "proj.weight", "proj.bias", "plain" },
                    .h = { HOST(scaled[c].stored, 2, stored, OUT, IN), HOST(VC_F32, 1, bias, OUT),
                           HOST(scaled[c].stored, 2, stored, OUT, IN) } };
        vt_source src = { .get = store_get, .arg = &s, .mapped = true,
                          .converts = scaled[c].converts, .to = scaled[c].to };
        for (int i = 0; i < OUT * IN; i++)
            codes[i] = sinf((float)(i * i)) *
                       (scaled[c].stored == VC_NF4 ? 1 : scaled[c].stored == VC_I8 ? 127 : 200);
        for (int i = 0; i < n[0] * n[1]; i++)
            scale[i] = 0.001f * (float)(i + 1);
        vc_from_f32(stored, scaled[c].stored, codes, OUT * IN);
        vc_to_f32(codes, stored, scaled[c].stored, OUT * IN);
        vc_from_f32(of, scaled[c].of, scale, (size_t)(n[0] * n[1]));
        vc_to_f32(scale, of, scaled[c].of, (size_t)(n[0] * n[1]));
        for (int i = 0; i < OUT * IN; i++)
            want[i] = codes[i] * scale[(n[0] > 1 ? i / IN : 0) * n[1] + i % IN / (IN / n[1])];
        for (int i = 0; i < 3; i += 2) {
            s.h[i].scale = of;
            s.h[i].scale_type = scaled[c].of;
            memcpy(s.h[i].scales, n, sizeof s.h[i].scales);
        }
        assert_int_equal(vt_params_open(&p, g, NULL), 0);
        vc_err err = { 0 };
        assert_ok(vt_params_bind(p, scaled_table, "", 0, &m, NULL, &src, &err), &err);
        assert_int_equal(m.lin.w->dtype, scaled[c].held);
        assert_int_equal(m.lin.w->scale != NULL, scaled[c].held >= VC_F8E4M3);
        assert_int_equal(vt_param_mapped(m.lin.w), scaled[c].held >= VC_F8E4M3);
        assert_int_equal(m.plain->dtype, VC_F32);
        assert_memory_equal(m.plain->data, want, sizeof want);

        float y[2][9 * OUT];
        vt_lin whole = { .w = m.plain, .b = m.lin.b };
        forward(y[0], g, &m.lin);
        forward(y[1], g, &whole);
        if (scaled[c].held != VC_BF16)
            assert_memory_equal(y[0], y[1], sizeof y[0]);
        vt_params_close(p);

        assert_int_equal(vt_params_open(&p, g, NULL), 0);   /* trained weights have no scale */
        assert_ok(vt_params_bind(p, scaled_table, "", 0, &m, NULL, &src, &err), &err);
        assert_ok(vt_params_train(p, NULL, NULL, &err), &err);
        assert_null(m.lin.w->scale);
        if (scaled[c].held != VC_BF16)
            assert_memory_equal(m.lin.w->data, want, sizeof want);
        vt_params_close(p);
        vt_close(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_scaled) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
