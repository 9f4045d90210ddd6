/* golden.c - see golden.h; golden_fill() computes the values of fill() of scripts/golden.py. */
#include "tests/lib/golden.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "common/tensor/tensor.h"
#include "formats/json/json.h"
#include "tests/lib/ok.h"

enum { MAX_WEIGHTS = 4096 };

vf_safetensors *golden_open(const char *name)
{
    vf_safetensors *f;
    vc_err err = { 0 };
    char *path = vc_format("%s/tests/golden/%s.safetensors", getenv("VLT_SOURCE"), name);
    assert_ok(vf_safetensors_open(&f, path, &err), &err);
    free(path);
    return f;
}

const char *golden_device(void)
{
    const char *device = getenv("VLT_DEVICE");
    return device ? device : "cpu";
}

bool golden_has_device(void)
{
    vt_ctx *g;
    vc_err err = { 0 };
    if (vt_open(&g, &(vt_options){ .device = golden_device() }, &err)) {
        fprintf(stderr, "SKIPPED: %s\n", err.text);
        return false;
    }
    vt_close(g);
    return true;
}

double golden_tolerance(double cpu, double gpu)
{
    return strcmp(golden_device(), "cpu") ? gpu : cpu;
}

float *golden_values(const vf_safetensors *f, const char *tensor, int64_t *dim)
{
    vf_view v;
    vc_err err = { 0 };
    assert_ok(vf_safetensors_get(f, tensor, &v, &err), &err);
    size_t n = (size_t)vf_view_count(&v);
    float *x = malloc(n * sizeof *x + 1);
    assert_non_null(x);
    for (size_t i = 0; v.dtype == VC_I64 && i < n; i++) {
        int64_t k;
        memcpy(&k, (const char *)v.data + 8 * i, 8);
        x[i] = (float)k;
    }
    if (v.dtype != VC_I64)
        vc_to_f32(x, v.data, v.dtype, n);
    if (dim)
        memcpy(dim, v.dim, sizeof v.dim);
    return x;
}

/* One output of SplitMix64 (Steele, Lea & Flood 2014). */
static uint64_t splitmix(uint64_t x)
{
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static bool ends(const char *name, const char *end)
{
    size_t n = strlen(name), k = strlen(end);
    return n >= k && !strcmp(name + n - k, end);
}

void golden_has_shape(const vf_safetensors *f, const char *tensor, int nd, const int64_t *dim)
{
    vf_view v;
    vc_err err = { 0 };
    assert_ok(vf_safetensors_get(f, tensor, &v, &err), &err);
    assert_int_equal(v.nd, nd);
    assert_memory_equal(v.dim, dim, sizeof *dim * (size_t)nd);
}

cJSON *golden_json(const vf_safetensors *f, const char *key)
{
    const char *text = vf_safetensors_meta(f, key);
    vc_err err = { 0 };
    cJSON *o;
    if (!text)
        fail_msg("the golden has no %s", key);
    assert_ok(vf_json_parse(&o, text, strlen(text), &err), &err);
    return o;
}

float golden_fill(const char *weight, int nd, const int64_t *dim, int64_t i)
{
    uint64_t h = 0xCBF29CE484222325u;                          /* FNV-1a */
    for (const char *c = weight; *c; c++)
        h = (h ^ (uint8_t)*c) * 0x100000001B3u;
    double u = (double)(splitmix(h + (uint64_t)i) >> 40) / 8388608.0 - 1, n = 1;
    for (int k = 0; k < nd; k++)
        n *= (double)dim[k];
    if (nd > 1)
        return (float)(u * sqrt(3.0 * (double)dim[0] / n));
    const bool one = ends(weight, "weight") || ends(weight, "std") || ends(weight, "var");
    return (float)(one ? 1 + 0.25 * u : 0.25 * u);
}

/* less: ends of the names of weights that have 1 less; or NULL. */
static void fill_view(vf_view *v, const cJSON *shape, const cJSON *less, vc_dtype dtype)
{
    int64_t n = 1;
    float base = 0;
    const cJSON *d;
    cJSON_ArrayForEach(d, less)
        if (ends(shape->string, d->valuestring))
            base = 1;
    *v = (vf_view){ .name = shape->string, .dtype = dtype };
    cJSON_ArrayForEach(d, shape)
        n *= v->dim[v->nd++] = (int64_t)d->valuedouble;
    float *x = malloc((size_t)n * sizeof *x);
    void *stored = malloc((size_t)n * sizeof *x);
    assert_true(x && stored);
    for (int64_t i = 0; i < n; i++)
        x[i] = golden_fill(v->name, v->nd, v->dim, i) - base;
    vc_from_f32(stored, dtype, x, (size_t)n);
    free(x);
    v->data = stored;
    v->bytes = (size_t)n * vc_dtype_size(dtype);
}

void golden_model(const vf_safetensors *f, const char *dir, vc_dtype dtype)
{
    static vf_view view[MAX_WEIGHTS];
    const char *config = vf_safetensors_meta(f, "config");
    char *path = vc_path_join(dir, "config.json");
    char *st = vc_path_join(dir, "diffusion_pytorch_model.safetensors");
    vc_err err = { 0 };
    cJSON *weights = golden_json(f, "weights");
    cJSON *less = vf_safetensors_meta(f, "less") ? golden_json(f, "less") : NULL;
    int n = 0;
    assert_non_null(config);
    assert_ok(vc_mkdirs(dir, &err) || vc_file_write(path, config, strlen(config), &err), &err);
    const cJSON *shape;
    cJSON_ArrayForEach(shape, weights) {
        assert_true(n < MAX_WEIGHTS);
        fill_view(&view[n++], shape, less, dtype);
    }
    assert_ok(vf_safetensors_write(st, view, n, NULL, 0, &err), &err);
    for (int i = 0; i < n; i++)
        free((void *)view[i].data);
    cJSON_Delete(weights);
    cJSON_Delete(less);
    free(path);
    free(st);
}

void golden_folder(const char *name, const char *dir)
{
    vf_safetensors *f = golden_open(name);
    golden_model(f, dir, VC_F32);
    vf_safetensors_close(f);
}

void golden_model_with(const vf_safetensors *f, const char *dir, const char *field,
                       const char *value)
{
    cJSON *config = golden_json(f, "config");
    vc_err err = { 0 };
    golden_model(f, dir, VC_F32);
    cJSON_DeleteItemFromObject(config, field);
    cJSON_AddItemToObject(config, field, cJSON_Parse(value));
    char *text = cJSON_Print(config), *path = vc_path_join(dir, "config.json");
    assert_ok(vc_file_write(path, text, strlen(text), &err), &err);
    free(text);
    free(path);
    cJSON_Delete(config);
}

double golden_error(const float *a, const float *b, int64_t n)
{
    double worst = 0, most = 1e-30;
    for (int64_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]), m = fabs((double)b[i]);
        if (!(d <= worst))
            worst = d;                          /* a NaN is taken too */
        if (m > most)
            most = m;
    }
    return worst / most;
}

static char tmp[32];
static pid_t owner;                          /* process of tmp; a forked child makes its own */

static void remove_tmp(void)
{
    if (owner == getpid())
        vc_remove_tree(tmp, NULL);
}

const char *golden_tmp(const char *name)
{
    static char dir[512];
    vc_err err = { 0 };
    if (owner != getpid()) {
        owner = getpid();
        snprintf(tmp, sizeof tmp, "/tmp/vlt-golden-XXXXXX");
        if (!mkdtemp(tmp) || atexit(remove_tmp))
            fail_msg("%s", tmp);
    }
    snprintf(dir, sizeof dir, "%s/%s", tmp, name);
    assert_ok(vc_mkdirs(dir, &err), &err);
    return dir;
}
