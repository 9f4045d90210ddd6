/* decode.c - see decode.h */
#include "precompute/vdecode/decode.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int find_latent(const vf_safetensors *st, vf_view *v, vc_err *err)
{
    static const char *const names[] = { "latents", "mean", "sample" };

    for (size_t i = 0; i < 3; i++)
        if (!vf_safetensors_get(st, names[i], v, NULL))
            return 0;
    return vc_fail(err, VC_ENOENT, "no tensor latents, mean or sample");
}

/* Refuses NaN and infinity, which a VAE would decode to grey. */
static int check_finite(const char *name, const float *z, size_t n, vc_err *err)
{
    size_t bad = 0;
    for (size_t i = 0; i < n; i++)
        bad += !isfinite(z[i]);
    return bad ? vc_fail(err, VC_ENUMERIC, "%s: %zu of %zu values are NaN or infinite", name, bad,
                         n) : 0;
}

static int check_shape(const decoder *d, const vf_view *v, vc_err *err)
{
    if (v->nd != 4 || v->dim[0] != d->info.channels || vf_view_count(v) > INT32_MAX)
        return vc_fail(err, VC_EMISMATCH, "%s has %d axes, %lld channels; %s decodes [%d,f,h,w]",
                       v->name, v->nd, (long long)(v->nd ? v->dim[0] : 0), d->info.class,
                       d->info.channels);
    for (int i = 1; i < 4; i++)
        if (v->dim[i] < 1 || v->dim[i] > 1 << 20)
            return vc_fail(err, VC_EMISMATCH, "%s: axis %d has size %lld", v->name, i,
                           (long long)v->dim[i]);
    return 0;
}

/* *z: the malloc'ed values; the caller frees them after a failure too. */
static int read_values(const vf_view *v, float **z, vc_err *err)
{
    const size_t n = (size_t)vf_view_count(v);

    *z = malloc(n * sizeof **z);
    if (!*z)
        return vc_fail(err, VC_ENOMEM, "out of memory for %zu values", n);
    vc_to_f32(*z, v->data, v->dtype, n);
    return check_finite(v->name, *z, n, err);
}

static picture picture_of(const decoder *d, const char *stem, const int64_t *dim, chosen c)
{
    picture p = { .stem = stem, .format = d->o.format, .on_sheet = d->o.sheet,
                  .sound = c.sound,
                  .n = d->class->frames((int)dim[1]), .h = (int)dim[2] * d->info.ratio[1],
                  .w = (int)dim[3] * d->info.ratio[2] };

    p.fps = d->o.fps > 0 ? d->o.fps : c.fps > 0 && isfinite(c.fps) ? c.fps : 8;
    if (c.most > 0 && c.most < p.n)
        p.n = c.most;
    if (c.skip >= 1 && c.skip < p.n)         /* never all */
        p.skip = (int)c.skip;
    p.n -= p.skip;
    return p;
}

/* A latent that is being decoded. */
typedef struct decoding {
    decoder *d;
    picture p;
    int frames;                              /* of the VAE */
} decoding;

static int take(void *arg, const uint8_t *rgb, int first, int n, vc_err *err)
{
    decoding *o = arg;
    const decoder *d = o->d;
    const int made = first + n, rc = picture_take(&o->p, rgb, first, n, err);
    const uint64_t whole = (uint64_t)d->place;
    char extra[40];

    if (rc || made == o->frames)             /* the last frame is reported with the latent */
        return rc;
    snprintf(extra, sizeof extra, "frame %d of %d", made, o->frames);
    if (d->by_frames)
        vc_progress_at(d->progress, (uint64_t)made, NULL);
    else
        vc_progress_within(d->progress, whole, d->place - (double)whole +
                           d->each * made / o->frames, extra);
    return 0;
}

int decode_latent(decoder *d, const vf_safetensors *st, const char *name, const char *stem,
                  chosen c, sheet *s, vc_err *err)
{
    vf_view v;
    float *z = NULL;
    int rc = name ? vf_safetensors_get(st, name, &v, err) : find_latent(st, &v, err);

    if (!rc)
        rc = check_shape(d, &v, err);
    if (!rc)
        rc = read_values(&v, &z, err);
    if (rc) {
        free(z);
        return rc;
    }
    decoding o = { d, picture_of(d, stem, v.dim, c), d->class->frames((int)v.dim[1]) };
    const vae_output to = { .take = take, .arg = &o, .beside = stem };
    if (d->by_frames)
        vc_progress_begin(d->progress, "decoding", "frames", (uint64_t)o.frames);
    rc = picture_begin(&o.p, err);
    if (!rc)
        rc = d->class->decode(d->vae, z, (int)v.dim[1], (int)v.dim[2], (int)v.dim[3], &to, err);
    free(z);
    rc = picture_end(&o.p, s, rc, err);
    if (d->by_frames && !rc)
        vc_progress_at(d->progress, (uint64_t)o.frames, NULL);
    if (d->by_frames)
        vc_progress_end(d->progress);
    return rc;
}

static double meta_number(const vf_safetensors *st, const char *key)
{
    const char *s = vf_safetensors_meta(st, key);
    return s ? strtod(s, NULL) : 0;
}

chosen decode_chosen(const vf_safetensors *st)
{
    double frames = meta_number(st, "frames");
    return (chosen){ frames >= 1 && frames < 1e6 ? (int)frames : 0,
                     meta_number(st, "skip_frames"), meta_number(st, "fps"), NULL };
}
