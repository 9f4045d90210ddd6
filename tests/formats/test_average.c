/* test_average.c - the average of safetensors files: values in each type, what has no average, and
 * the weights of exponential averages. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "formats/tensors/average.h"
#include "tests/lib/ok.h"
#include "tests/lib/tmp_dir.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))
enum { N = 3, VALUES = 70000 };                  /* more than are summed at once */

static double value(int file, size_t i)
{
    return sin((double)i * 0.7 + file) * pow(10, (double)(i % 7) - 3);
}

static void store(void *to, vc_dtype type, size_t i, double x)
{
    const float f = (float)x;
    if (type == VC_F64)
        ((double *)to)[i] = x;
    else
        vc_from_f32((char *)to + i * vc_dtype_size(type), type, &f, 1);
}

static double load(const vf_view *v, size_t i)
{
    float f;
    double x;
    if (v->dtype != VC_F64) {
        vf_view_f32(&f, v, i, 1);
        return (double)f;
    }
    memcpy(&x, (const char *)v->data + i * sizeof x, sizeof x);
    return x;
}

/* Writes file number k with one tensor "x" of the type, and one of these names with a number. */
static char *write_file(const char *dir, int k, vc_dtype type, int64_t values, const char *other,
                        vc_dtype of, double number, const char *meta)
{
    vc_err err = { 0 };
    char name[32];
    uint8_t one[8] = { 0 };
    void *x = calloc((size_t)values, 8);
    snprintf(name, sizeof name, "%d.safetensors", k);
    char *path = vc_path_join(dir, name);
    for (int64_t i = 0; i < values; i++)
        store(x, type, (size_t)i, value(k, (size_t)i));
    if (of == VC_I64)
        one[0] = (uint8_t)number;
    else
        store(one, of, 0, number);
    const vf_view v[2] = {
        { .name = "x", .dtype = type, .nd = 1, .dim = { values }, .data = x,
          .bytes = (size_t)values * vc_dtype_size(type) },
        { .name = other, .dtype = of, .nd = 1, .dim = { 1 }, .data = one,
          .bytes = vc_dtype_size(of) },
    };
    const vf_meta m[2] = { { "format", "pt" }, { "ss_network_alpha", meta } };
    assert_ok(vf_safetensors_write(path, v, other ? 2 : 1, m, meta ? 2 : 1, &err), &err);
    free(x);
    return path;
}

static void test_values(void **state)
{
    static const struct { vc_dtype type; double unit; } types[] = {
        { VC_F32, 0x1p-24 }, { VC_BF16, 0x1p-8 }, { VC_F16, 0x1p-11 }, { VC_F64, 0x1p-52 },
    };
    static const double weight[N] = { 0.5, 0.125, 0.375 };
    const char *dir = *state;

    for (size_t t = 0; t < COUNT(types); t++) {
        vc_err err = { 0 };
        char *path[N], *out = vc_path_join(dir, "out.safetensors");
        vf_safetensors *in[N], *made;
        vf_view v[N], y;
        for (int k = 0; k < N; k++) {
            path[k] = write_file(dir, k, types[t].type, VALUES, "a.alpha", VC_F32, 4, "4");
            assert_ok(vf_safetensors_open(&in[k], path[k], &err), &err);
            assert_ok(vf_safetensors_get(in[k], "x", &v[k], &err), &err);
        }
        assert_ok(vf_average(out, (const char *const *)path, weight, N, "note", NULL, &err), &err);
        assert_ok(vf_safetensors_open(&made, out, &err), &err);
        assert_ok(vf_safetensors_get(made, "x", &y, &err), &err);
        assert_int_equal(y.dtype, types[t].type);
        for (size_t i = 0; i < VALUES; i++) {
            double want = 0, most = 0;
            for (int k = 0; k < N; k++) {
                want += weight[k] * load(&v[k], i);
                most = fmax(most, fabs(load(&v[k], i)));
            }
            const double near = fabs(want) * types[t].unit + most * 0x1p-50 + 0x1p-25;
            if (!(fabs(load(&y, i) - want) <= near))
                fail_msg("%s: %zu is %.17g, expected %.17g", vc_dtype_name(types[t].type), i,
                         load(&y, i), want);
        }
        assert_string_equal(vf_safetensors_meta(made, "vlt_average"), "note");
        assert_string_equal(vf_safetensors_meta(made, "ss_network_alpha"), "4");
        vf_safetensors_close(made);
        for (int k = 0; k < N; k++) {
            vf_safetensors_close(in[k]);
            free(path[k]);
        }
        free(out);
    }
}

static const struct {
    vc_dtype type;
    int64_t values;
    const char *other;
    vc_dtype of;
    double number;
    const char *meta, *says;
} refused[] = {
    { VC_F32, 5, NULL, VC_F32, 0, "4", "another shape or type" },
    { VC_BF16, 4, NULL, VC_F32, 0, "4", "another shape or type" },
    { VC_F32, 4, NULL, VC_F32, 0, "8", "ss_network_alpha of its metadata is another" },
    { VC_F32, 4, NULL, VC_F32, 0, NULL, "ss_network_alpha of its metadata is another" },
    { VC_F32, 4, "a.alpha", VC_F32, 8, "4", "\"a.alpha\" has other values" },
    { VC_F32, 4, "steps", VC_I64, 8, "4", "\"steps\" has other values" },
    { VC_F32, 4, "y", VC_F32, NAN, "4", "\"y\": a value of the files is NaN" },
    { VC_F32, 4, "z", VC_F32, 1, "4", "no tensor" },
};

static void test_refused(void **state)
{
    static const double weight[2] = { 0.5, 0.5 };
    const char *dir = *state;

    for (size_t i = 0; i < COUNT(refused); i++) {
        vc_err err = { 0 };
        const char *other = refused[i].other && !strcmp(refused[i].other, "z") ? "w"
                                                                              : refused[i].other;
        char *out = vc_path_join(dir, "none.safetensors");
        char *path[2] = {
            write_file(dir, 0, VC_F32, 4, other, refused[i].of, 4, "4"),
            write_file(dir, 1, refused[i].type, refused[i].values, refused[i].other, refused[i].of,
                       refused[i].number, refused[i].meta),
        };
        int rc = vf_average(out, (const char *const *)path, weight, 2, "", NULL, &err);
        if (!rc || !strstr(err.text, refused[i].says) || vc_file_exists(out))
            fail_msg("%zu: \"%s\", expected \"%s\"", i, err.text, refused[i].says);
        free(path[0]);
        free(path[1]);
        free(out);
    }
}

/* sigma_rel of gamma (Karras et al. 2024, equation 126 or so): gamma 16.97 has 0.05, 6.94 0.1. */
static void test_weights(void **state)
{
    static const struct { double sigma, gamma; } known[] = { { 0.05, 16.97 }, { 0.1, 6.94 } };
    double w[4], sum = 0;
    (void)state;

    vf_average_beta(w, 4, 0.5);
    assert_true(w[0] == 0.125 && w[1] == 0.125 && w[2] == 0.25 && w[3] == 0.5);
    for (size_t i = 0; i < COUNT(known); i++) {
        vf_average_sigma(w, 2, known[i].sigma);
        const double beta = pow(0.5, known[i].gamma + 1);
        if (!(fabs(w[0] - beta) <= 0.01 * beta && fabs(w[0] + w[1] - 1) < 1e-12))
            fail_msg("sigma %g: weight %.9g, expected %.9g", known[i].sigma, w[0], beta);
    }
    vf_average_sigma(w, 4, 0.2);
    for (int i = 0; i < 4; i++)
        sum += w[i];
    assert_true(fabs(sum - 1) < 1e-12 && w[0] < w[1] && w[1] < w[2] && w[2] < w[3]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_weights),
    };
    return cmocka_run_group_tests(tests, tmp_dir_setup, tmp_dir_teardown);
}
