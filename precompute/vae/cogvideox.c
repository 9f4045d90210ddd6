/* cogvideox.c - AutoencoderKLCogVideoX: clips in and out, whole or in tiles. See
 * cogvideox.h */
#include "precompute/vae/cogvideox.h"

#include <math.h>
#include <string.h>

#include "precompute/vae/tiles.h"

enum { MAX_SIDE = 1 << 14, MAX_FRAMES = 1 << 14 };

/* An encode or decode: its size, its parts, and where results go. */
typedef struct job {
    vae *v;
    bool decodes;
    cog_pass pass;
    int f, h, w, channels;           /* of the result */
    float *mean, *logvar;            /* [C,f,h,w] */
    uint8_t *pixels;                 /* [f,h,w,3] */
    float *values;                   /* of the tile that is being made */
} job;

/* What diffusers' video processor makes of -1..1: half to even, as its rint. */
static uint8_t to_u8(float x)
{
    float v = rintf(fminf(fmaxf(x * 0.5f + 0.5f, 0), 1) * 255);
    return v > 0 ? (uint8_t)v : 0;             /* NaN is 0 */
}

/* One row of positions of the result, from (frame, y, x) on. */
static void put_row(const job *j, const float *v, int frame, int y, int x, int n)
{
    size_t at = ((size_t)frame * (size_t)j->h + (size_t)y) * (size_t)j->w + (size_t)x;
    size_t channel = (size_t)j->f * (size_t)j->h * (size_t)j->w;
    int c = j->channels / 2;

    for (int i = 0; j->decodes && i < 3 * n; i++)
        j->pixels[3 * at + (size_t)i] = to_u8(v[i]);
    for (int i = 0; !j->decodes && i < n; i++, at++, v += j->channels)
        for (int k = 0; k < c; k++) {
            j->mean[(size_t)k * channel + at] = v[k];
            if (j->logvar)
                j->logvar[(size_t)k * channel + at] = fminf(fmaxf(v[c + k], -30), 20);
        }
}

static void take_whole(void *arg, const float *values, int first, int n, int h, int w)
{
    const job *j = arg;

    for (int t = 0; t < n; t++)
        for (int y = 0; y < h; y++, values += w * j->channels)
            put_row(j, values, first + t, y, 0, w);
}

static void take_frames(void *arg, const float *values, int first, int n, int h, int w)
{
    const job *j = arg;
    size_t frame = (size_t)h * (size_t)w * (size_t)j->channels;

    memcpy(j->values + (size_t)first * frame, values, (size_t)n * frame * sizeof *values);
}

static int run_pass(job *j, vc_err *err)
{
    return (j->decodes ? cog_decode : cog_encode)(j->v, &j->pass, err);
}

static int make_tile(void *arg, int y, int x, int h, int w, float *values, vc_err *err)
{
    job *j = arg;

    j->values = values;
    j->pass.y = y;
    j->pass.x = x;
    j->pass.rows = h;
    j->pass.columns = w;
    return run_pass(j, err);
}

static int take_tile(void *arg, const vae_tile *t, vc_err *err)
{
    const job *j = arg;

    (void)err;
    for (int f = 0; f < j->f; f++)
        for (int y = 0; y < t->rows; y++)
            put_row(j, t->values + ((size_t)f * (size_t)t->h + (size_t)y) * (size_t)t->w *
                                       (size_t)j->channels,
                    f, t->y + y, t->x, t->columns);
    return 0;
}

/* Tiles of half the sample's size, of which 1/6 and 1/5 overlap. False: the clip is one tile. */
static bool tiles_of(const job *j, vae_tiles *t)
{
    static const double overlap[2] = { 1.0 / 6, 1.0 / 5 };
    const cog_config *c = &j->v->c;
    int r = cog_ratio(c);
    bool larger = false;

    *t = (vae_tiles){ .source = { j->pass.h, j->pass.w }, .times = j->decodes ? r : 1,
                      .per = j->decodes ? 1 : r, .frames = j->f, .channels = j->channels };
    for (int i = 0; i < 2; i++) {
        int pixel = c->sample[i] / 2, latent = pixel / r, to = j->decodes ? pixel : latent;
        t->size[i] = j->decodes ? latent : pixel;
        t->step[i] = (int)(t->size[i] * (1 - overlap[i]));
        t->blend[i] = (int)(to * overlap[i]);
        t->kept[i] = to - t->blend[i];
        larger |= t->source[i] > t->size[i];
    }
    return j->v->tiling && larger;
}

static int run_job(job *j, vc_err *err)
{
    vae_tiles t;

    j->pass.arg = j;
    if (!tiles_of(j, &t)) {
        j->pass.rows = j->pass.h;
        j->pass.columns = j->pass.w;
        j->pass.take = take_whole;
        return run_pass(j, err);
    }
    t.arg = j;
    t.make = make_tile;
    t.take = take_tile;
    j->pass.take = take_frames;
    int rc = vae_tiles_check(&t, j->h, j->w, err);
    return rc ? rc : vae_tiles_run(&t, err);
}

static int cog_frames(int f) { return COG_RATIO_T * f - (f % 2 ? COG_RATIO_T - 1 : 0); }

static int encode_job(job *j, vae *v, int f, int h, int w, vc_err *err)
{
    int r = cog_ratio(&v->c);

    if (f < 1 || f > MAX_FRAMES || (f - 1) % COG_RATIO_T)
        return vc_fail(err, VC_EINVAL, COG_CLASS ": %d frames: 1 or 4k+1 are possible", f);
    if (h < r || w < r || h % r || w % r || h > MAX_SIDE || w > MAX_SIDE)
        return vc_fail(err, VC_EINVAL, COG_CLASS ": %dx%d: sides must be multiples of %d, at most "
                       "%d", w, h, r, MAX_SIDE);
    *j = (job){ .v = v, .pass = { .f = f, .h = h, .w = w }, .f = (f - 1) / COG_RATIO_T + 1,
                .h = h / r, .w = w / r, .channels = 2 * v->c.latent };
    return 0;
}

static int decode_job(job *j, vae *v, int f, int h, int w, vc_err *err)
{
    int r = cog_ratio(&v->c);

    if (f < 1 || f > MAX_FRAMES / COG_RATIO_T || h < 1 || w < 1 || h > MAX_SIDE / r ||
        w > MAX_SIDE / r)
        return vc_fail(err, VC_EINVAL, COG_CLASS ": a latent of %d frames of %dx%d is not possible",
                       f, w, h);
    *j = (job){ .v = v, .decodes = true, .pass = { .f = f, .h = h, .w = w }, .f = cog_frames(f),
                .h = h * r, .w = w * r, .channels = 3 };
    return 0;
}

static int finish(const job *j, int rc, vc_err *err)
{
    return vc_context(err, rc, COG_CLASS ": %s %d frames of %dx%d",
                      j->decodes ? "decoding" : "encoding", j->pass.f, j->pass.w, j->pass.h);
}

static int cog_encode_clip(vae *v, const float *pixels, int f, int h, int w, float *mean,
                           float *logvar, vc_err *err)
{
    job j;
    int rc = encode_job(&j, v, f, h, w, err);

    if (rc)
        return rc;
    j.pass.source = pixels;
    j.mean = mean;
    j.logvar = logvar;
    return finish(&j, run_job(&j, err), err);
}

static int cog_decode_clip(vae *v, const float *z, int f, int h, int w, uint8_t *pixels,
                           vc_err *err)
{
    job j;
    int rc = decode_job(&j, v, f, h, w, err);

    if (rc)
        return rc;
    j.pass.source = z;
    j.pixels = pixels;
    return finish(&j, run_job(&j, err), err);
}

static int cog_memory(vae *v, bool decode, int f, int h, int w, size_t *bytes, vc_err *err)
{
    job j;
    vae_tiles t;
    int rc = (decode ? decode_job : encode_job)(&j, v, f, h, w, err);

    *bytes = 0;
    if (rc)
        return rc;
    bool tiled = tiles_of(&j, &t);                 /* the first tile is the largest */
    j.pass.rows = tiled && t.size[0] < t.source[0] ? t.size[0] : t.source[0];
    j.pass.columns = tiled && t.size[1] < t.source[1] ? t.size[1] : t.source[1];
    rc = tiled ? vae_tiles_check(&t, j.h, j.w, err) : 0;
    if (!rc) rc = run_pass(&j, err);
    *bytes = j.pass.peak;
    return finish(&j, rc, err);
}

const vae_class vae_cogvideox = { COG_CLASS, cog_open, cog_close, cog_encode_clip, cog_decode_clip,
                                  cog_frames, cog_memory };
