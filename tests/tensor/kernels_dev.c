/* kernels_dev.c - see kernels_dev.h */
#include "tests/tensor/kernels_dev.h"

#include <stdlib.h>
#include <string.h>

extern const cpu_gemm cpu_gemm_emulated;      /* kernels_emulated.c */
extern const cpu_gemm cpu_gemm_emulated_bf16; /* kernels_emulated_bf16.c */
extern const cpu_gemm cpu_gemm_wide;          /* kernels_wide.c */
extern const cpu_rows cpu_rows_wide;

/* The linker's --wrap redirects the library's calls of cpu_gemm_of() to __wrap_cpu_gemm_of(). */
const cpu_gemm *__real_cpu_gemm_of(const vt_dev *d, vc_dtype t);
const cpu_gemm *__wrap_cpu_gemm_of(const vt_dev *d, vc_dtype t);
static const vt_dev *emulating, *widening;
static const cpu_gemm *emulation;              /* of `emulating` */

const cpu_gemm *__wrap_cpu_gemm_of(const vt_dev *d, vc_dtype t)
{
    if (d == emulating && t == VC_BF16)
        return emulation;
    return d == widening ? &cpu_gemm_wide : __real_cpu_gemm_of(d, t);
}

/* Returns whether a set's tests run: VLT_SET names the only ones that do, between commas. */
static bool chosen(const char *set)
{
    const char *only = getenv("VLT_SET");
    const size_t n = strlen(set);

    if (!only || !*only)
        return true;
    for (const char *p = only; (p = strstr(p, set)); p += n)
        if ((p == only || p[-1] == ',') && (!p[n] || p[n] == ','))
            return true;
    return false;
}

const char *const *kd_sets(void)
{
    static const char *const emulated[] = { "wide", "emulated_bf16", "emulated" };
    static const char *const all[] = { "plain", "avx2", "avx512", "avx512_bf16", "amx" };
    static const char *sets[COUNT(all) + COUNT(emulated) + 1];
    size_t n = 0;

    for (size_t i = 0; i < COUNT(all); i++) {
        cpu_isa isa;
        if (chosen(all[i]) && cpu_isa_open(&isa, all[i], NULL) == 0)
            sets[n++] = all[i];
    }
    for (size_t i = 0; i < COUNT(emulated); i++)
        if (chosen(emulated[i]))
            sets[n++] = emulated[i];
    sets[n] = NULL;
    return sets;
}

const cpu_rows *const *kd_rows(void)
{
    static const char *const names[] = { "plain", "avx2", "avx512", "avx512_bf16" };
    static const cpu_rows *sets[COUNT(names) + 2];
    size_t n = 0;

    for (size_t i = 0; i < COUNT(names); i++) {
        cpu_isa isa;
        if (cpu_isa_open(&isa, names[i], NULL) == 0)
            sets[n++] = cpu_rows_for(&isa);
    }
    sets[n++] = &cpu_rows_wide;
    sets[n] = NULL;
    return sets;
}

static kd_dev open_dev(const char *set, int threads, bool batches)
{
    bool emulated = !strncmp(set, "emulated", 8), wide = !strcmp(set, "wide");
    vt_options o = { .threads = threads, .kernels = emulated || wide ? "plain" : set,
                     .batches = batches };
    vc_err err = { 0 };
    kd_dev d = { .bf16 = emulated || !strcmp(set, "amx") || !strcmp(set, "avx512_bf16") };

    for (const vt_backend *const *b = vt_backends(); *b; b++)
        if (!strcmp((*b)->name, "cpu"))
            d.be = *b;
    assert_non_null(d.be);
    if (d.be->open(&d.dev, &o, 0, &err))
        fail_msg("%s: %s", set, err.text);
    if (emulated) {
        emulating = d.dev;
        emulation = set[8] ? &cpu_gemm_emulated_bf16 : &cpu_gemm_emulated;
    }
    if (wide) {
        widening = d.dev;
        d.dev->rows = &cpu_rows_wide;
    }
    return d;
}

kd_dev kd_open(const char *set, int threads)
{
    return open_dev(set, threads, false);
}

kd_dev kd_open_for_batches(const char *set, int threads)
{
    return open_dev(set, threads, true);
}

void kd_close(kd_dev *d)
{
    vc_err err = { 0 };

    if (d->be->status(d->dev, &err))
        fail_msg("device fault: %s", err.text);
    emulating = widening = NULL;
    d->be->close(d->dev);
}

float kd_random(kd_rng *r)
{
    r->s = r->s * 6364136223846793005u + 1442695040888963407u;
    return (float)((int64_t)(r->s >> 40) - (1 << 23)) / (1 << 23);
}

vt_tensor *kd_tensor(kd_rng *r, vc_dtype t, int nd, const int64_t *dim, int gap, const int *order)
{
    vt_tensor *x = calloc(1, sizeof *x);
    struct vt_buf *buf = calloc(1, sizeof *buf);
    int64_t n = 1;

    assert_true(x && buf);
    x->dtype = t;
    x->nd = nd;
    for (int i = nd - 1; i >= 0; i--) {
        int axis = order ? order[i] : i;
        x->dim[axis] = dim[axis];
        x->stride[axis] = n;
        n = n * dim[axis] + (i == nd - 1 ? gap : 0);
    }
    buf->bytes = (size_t)n * vc_dtype_size(t);
    buf->empty = true;
    x->buf = buf;
    x->data = malloc(buf->bytes ? buf->bytes : 1);
    assert_non_null(x->data);
    float v[256];
    for (int64_t i = 0, m; i < n; i += m) {
        m = n - i < (int64_t)COUNT(v) ? n - i : (int64_t)COUNT(v);
        for (int64_t k = 0; k < m; k++)
            v[k] = kd_random(r);
        vc_from_f32((char *)x->data + (size_t)i * vc_dtype_size(t), t, v, (size_t)m);
    }
    return x;
}

void kd_free(vt_tensor *t)
{
    if (!t)
        return;
    free(t->data);
    free(t->buf);
    free(t);
}

size_t kd_bytes(const vt_tensor *t) { return t->buf->bytes; }

double kd_at(const vt_tensor *t, int64_t a, int64_t b, int64_t c, int64_t d)
{
    const int64_t i[4] = { a, b, c, d };
    int64_t at = 0;
    float v;

    for (int k = 0; k < t->nd; k++)
        at += i[k] * t->stride[k];
    vc_to_f32(&v, (const char *)t->data + (size_t)at * vc_dtype_size(t->dtype), t->dtype, 1);
    return v;
}

float *kd_floats(const vt_tensor *t)
{
    const size_t n = (size_t)vt_count(t);
    float *v = malloc(n * sizeof *v);
    assert_non_null(v);
    vc_to_f32(v, t->data, t->dtype, n);
    return v;
}

void kd_fill(vt_tensor *t, float value)
{
    size_t size = vc_dtype_size(t->dtype);

    for (size_t i = 0; i < kd_bytes(t) / size; i++)
        vc_from_f32((char *)t->data + i * size, t->dtype, &value, 1);
}

double kd_bf16(double x) { return vc_bf16_to_f32(vc_f32_to_bf16((float)x)); }
