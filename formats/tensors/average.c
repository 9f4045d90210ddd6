/* average.c - see average.h */
#include "formats/tensors/average.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1 << 16 };                        /* elements that are summed at once */

typedef struct average {
    const char *const *path;
    const double *weight;
    int n;
    vf_safetensors **in;                         /* [n] */
    double *sum;                                 /* [CHUNK] */
    float *part;                                 /* [CHUNK] */
    uint8_t *made;                               /* the tensor of the last call */
} average;

/* ---- weights ---- */

/* Lets the average keep `beta` of itself when file i, from 0, joins. */
static void join(double *weight, int i, double beta)
{
    for (int k = 0; k < i; k++)
        weight[k] *= beta;
    weight[i] = i ? 1 - beta : 1;
}

void vf_average_beta(double *weight, int n, double beta)
{
    for (int i = 0; i < n; i++)
        join(weight, i, beta);
}

static double width_of(double gamma)
{
    return sqrt((gamma + 1) / ((gamma + 2) * (gamma + 2) * (gamma + 3)));
}

void vf_average_sigma(double *weight, int n, double sigma)
{
    double low = 0, high = 1;
    while (width_of(high) > sigma)
        high *= 2;
    for (int i = 0; i < 100; i++) {              /* the width falls with gamma */
        const double gamma = (low + high) / 2;
        *(width_of(gamma) > sigma ? &low : &high) = gamma;
    }
    for (int i = 0; i < n; i++)
        join(weight, i, pow(1 - 1 / (double)(i + 1), low + 1));
}

/* ---- comparison ---- */

static bool is_alpha(const char *name)
{
    const size_t n = strlen(name);
    return n >= 5 && !strcmp(name + n - 5, "alpha") && (n == 5 || name[n - 6] == '.');
}

/* Whether the tensor has an average: others are the same in all files. */
static bool has_average(const vf_view *v)
{
    const bool real = v->dtype == VC_F32 || v->dtype == VC_F16 || v->dtype == VC_BF16 ||
                      v->dtype == VC_F64;
    return real && !is_alpha(v->name);
}

static int compare(const average *a, int i, const vf_view *first, const vf_view *v, vc_err *err)
{
    if (v->dtype != first->dtype || v->nd != first->nd ||
        memcmp(v->dim, first->dim, (size_t)v->nd * sizeof *v->dim))
        return vc_fail(err, VC_EMISMATCH, "%s: tensor \"%s\" has another shape or type than in %s: "
                       "files of one run with one rank have an average", a->path[i], v->name,
                       a->path[0]);
    if (has_average(first) || !memcmp(v->data, first->data, v->bytes))
        return 0;
    return vc_fail(err, VC_EMISMATCH, "%s: tensor \"%s\" has other values than in %s, and %s",
                   a->path[i], v->name, a->path[0], is_alpha(v->name)
                   ? "LoRAs of different alphas have no average: save them with --bake_scale"
                   : "whole numbers and 8-bit codes have no average: give files that are not "
                     "quantised");
}

/* Fields of the metadata that say how a LoRA is scaled, or what it belongs to. */
static int compare_meta(const average *a, int i, vc_err *err)
{
    static const char *const fields[] = {
        "lora_adapter_metadata", "lora_config", "vlt_network_alpha", "ss_network_alpha",
        "ss_network_dim", "modelspec.architecture",
    };
    for (size_t k = 0; k < sizeof fields / sizeof *fields; k++) {
        const char *was = vf_safetensors_meta(a->in[0], fields[k]);
        const char *is = vf_safetensors_meta(a->in[i], fields[k]);
        if (!was != !is || (was && strcmp(was, is)))
            return vc_fail(err, VC_EMISMATCH, "%s: %s of its metadata is another than in %s: files "
                           "of one run have an average", a->path[i], fields[k], a->path[0]);
    }
    return 0;
}

static int compare_file(const average *a, int i, vc_err *err)
{
    const int tensors = vf_safetensors_count(a->in[0]);
    int rc = compare_meta(a, i, err);

    if (!rc && vf_safetensors_count(a->in[i]) != tensors)
        rc = vc_fail(err, VC_EMISMATCH, "%s has %d tensors, %s %d", a->path[i],
                     vf_safetensors_count(a->in[i]), a->path[0], tensors);
    for (int k = 0; k < tensors && !rc; k++) {
        const vf_view *first = vf_safetensors_at(a->in[0], k);
        vf_view v;
        rc = vf_safetensors_get(a->in[i], first->name, &v, err);
        rc = rc ? vc_context(err, rc, "%s", a->path[i]) : compare(a, i, first, &v, err);
    }
    return rc;
}

/* ---- the average ---- */

/* Adds n elements from `first` on, times w. */
static void add(average *a, const vf_view *v, size_t first, size_t n, double w)
{
    if (v->dtype == VC_F64) {
        for (size_t i = 0; i < n; i++) {
            double x;
            memcpy(&x, (const char *)v->data + (first + i) * sizeof x, sizeof x);
            a->sum[i] += w * x;
        }
        return;
    }
    vf_view_f32(a->part, v, first, n);
    for (size_t i = 0; i < n; i++)
        a->sum[i] += w * (double)a->part[i];
}

static void store(uint8_t *to, vc_dtype type, double x)
{
    const float f = (float)x;
    uint16_t h;

    if (type == VC_F64) {
        memcpy(to, &x, sizeof x);
    } else if (type == VC_F32) {
        memcpy(to, &f, sizeof f);
    } else {
        h = type == VC_BF16 ? vc_f32_to_bf16(f) : vc_f32_to_f16(f);
        memcpy(to, &h, sizeof h);
    }
}

static int make(average *a, const vf_view *first, vc_err *err)
{
    const size_t all = (size_t)vf_view_count(first), size = vc_dtype_size(first->dtype);

    for (size_t at = 0; at < all; at += CHUNK) {
        const size_t n = all - at < CHUNK ? all - at : CHUNK;
        memset(a->sum, 0, n * sizeof *a->sum);
        for (int i = 0; i < a->n; i++) {
            vf_view v;
            int rc = vf_safetensors_get(a->in[i], first->name, &v, err);
            if (rc)
                return vc_context(err, rc, "%s", a->path[i]);
            add(a, &v, at, n, a->weight[i]);
        }
        for (size_t i = 0; i < n; i++) {
            if (!isfinite(a->sum[i]))
                return vc_fail(err, VC_ENUMERIC, "tensor \"%s\": a value of the files is NaN or "
                               "infinite", first->name);
            store(a->made + (at + i) * size, first->dtype, a->sum[i]);
        }
    }
    return 0;
}

/* Makes tensor i of the file; called by vf_safetensors_stream. */
static int get(void *arg, int i, const void **data, vc_err *err)
{
    average *a = arg;
    const vf_view *first = vf_safetensors_at(a->in[0], i);

    *data = first->data;
    if (!has_average(first))
        return 0;
    free(a->made);
    a->made = malloc(first->bytes + 1);
    if (!a->made)
        return vc_fail(err, VC_ENOMEM, "tensor \"%s\": out of memory", first->name);
    *data = a->made;
    return make(a, first, err);
}

static int write(average *a, const char *out, const char *note, vf_sums *sums, vc_err *err)
{
    const int n = vf_safetensors_count(a->in[0]), fields = vf_safetensors_metas(a->in[0]);
    const bool sealed = vf_safetensors_meta(a->in[0], VF_SEAL) != NULL;
    vf_view *view = calloc((size_t)n + 1, sizeof *view);
    vf_meta *meta = calloc((size_t)fields + 1, sizeof *meta);
    int used = 0, rc = view && meta ? 0 : vc_no_memory(err);

    for (int i = 0; i < n && !rc; i++)
        view[i] = *vf_safetensors_at(a->in[0], i);
    for (int i = 0; i < fields && !rc; i++) {
        const vf_meta *m = vf_safetensors_meta_at(a->in[0], i);
        if (strcmp(m->key, VF_SEAL) && strcmp(m->key, "vlt_average"))
            meta[used++] = *m;
    }
    if (!rc)
        meta[used++] = (vf_meta){ "vlt_average", note };
    if (!rc)
        rc = vf_safetensors_stream(out, view, n, meta, used, &(vf_feed){ get, a }, sealed, sums,
                                   err);
    free(view);
    free(meta);
    return rc;
}

int vf_average(const char *out, const char *const *path, const double *weight, int n,
               const char *note, vf_sums *sums, vc_err *err)
{
    average a = { .path = path, .weight = weight, .n = n };
    int rc = 0;

    a.in = calloc((size_t)n, sizeof *a.in);
    a.sum = malloc(CHUNK * sizeof *a.sum);
    a.part = malloc(CHUNK * sizeof *a.part);
    if (!a.in || !a.sum || !a.part)
        rc = vc_no_memory(err);
    for (int i = 0; i < n && !rc; i++) {
        rc = vc_context(err, vf_safetensors_open(&a.in[i], path[i], err), "%s", path[i]);
        if (!rc && i)
            rc = compare_file(&a, i, err);
    }
    if (!rc)
        rc = write(&a, out, note, sums, err);
    for (int i = 0; a.in && i < n; i++)
        vf_safetensors_close(a.in[i]);
    free(a.in);
    free(a.sum);
    free(a.part);
    free(a.made);
    return rc;
}
