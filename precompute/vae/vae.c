/* vae.c - opens an autoencoder's folder, and encodes and decodes clips, whole or in tiles: see
 * vae.h */
#include "precompute/vae/vae.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/tensors/component.h"
#include "precompute/vae/spill.h"
#include "precompute/vae/tiles.h"

enum { MAX_SIDE = 1 << 14, MAX_FRAMES = 1 << 14 };
enum { ASIDE_FRAMES = 8 };               /* frames that were put aside are given out so many at a
                                          * time */

/* ---- the folder ---- */

struct vae_binder {
    vt_params *params;
    vt_source from;
    int rc;
    vc_err *err;
};

void vae_bind(vae_binder *b, const vt_weight *table, void *base, int64_t out, int64_t in,
              const char *below, const char *name)
{
    const int64_t sizes[] = { 0, out, in };
    char prefix[128];

    snprintf(prefix, sizeof prefix, "%s%s.", below, name);
    if (!b->rc)
        b->rc = vt_params_bind(b->params, table, prefix, 0, base, sizes, &b->from, b->err);
}

static int bind_all(vae *v, vc_err *err)
{
    vae_binder b = { .params = v->params, .from = vf_model_source(v->file), .err = err };

    v->net->bind(v, &b);
    return b.rc ? b.rc : vf_model_all_bound(v->file, v->params, v->net->spare, err);
}

int vae_numbers(const vf_model *file, const char *name, int n, double *out, vc_err *err)
{
    float values[VAE_MAX_CHANNELS];
    vf_view v;
    int rc = vf_model_get(file, name, &v, err);

    if (rc)
        return rc;
    if (v.nd != 1 || v.dim[0] != n || v.dtype > VC_F16)
        return vc_fail(err, VC_EMISMATCH, "tensor %s has %d axes, the first of %lld %s values; it "
                       "must have one axis of %d numbers, one for each latent channel", name, v.nd,
                       (long long)(v.nd ? v.dim[0] : 0), vc_dtype_name(v.dtype), n);
    vc_to_f32(values, v.data, v.dtype, (size_t)n);
    for (int k = 0; k < n; k++) {
        if (!isfinite(values[k]))
            return vc_fail(err, VC_EFORMAT, "tensor %s: value %d is %g, not a finite number", name,
                           k, (double)values[k]);
        out[k] = (double)values[k];
    }
    return 0;
}

/* The fingerprint is the hash of the weights and of all options that change the output. */
static int configure(vae *v, const cJSON *config, const encoder_opts *o, vae_info *info,
                     vc_err *err)
{
    vf_hasher h;

    vf_hasher_begin(&h, "vae");
    vf_hasher_str(&h, "class", v->net->class);
    vf_hasher_bytes(&h, "weights", o->weights.b, sizeof o->weights.b);
    const int window = v->window == v->net->pixel_frames ? 0 : v->window;
    if (window)
        vf_hasher_int(&h, "window", window);
    int rc = v->net->configure(v, config, o->tiling, info, &h, err);
    info->window = window;
    info->fingerprint = vf_hasher_end(&h);
    info->one_logvar = v->net->one_logvar;
    v->channels = info->channels;
    memcpy(v->ratio, info->ratio, sizeof v->ratio);
    return rc;
}

static int read_folder(vae *v, const encoder_opts *o, vae_info *info, vc_err *err)
{
    cJSON *config;
    int rc = vf_component_config(&config, o->dir, "vae", v->net->class, err);

    if (!rc)
        rc = vc_context(err, configure(v, config, o, info, err), "%s/config.json", o->dir);
    if (!rc)
        rc = vf_component_open(&v->file, o->dir, "vae", err);
    if (!rc && v->net->statistics)
        rc = vc_context(err, v->net->statistics(v->file, info, err), "%s", o->dir);
    cJSON_Delete(config);
    return rc;
}

int vae_open(vae **out, const vae_net *net, const encoder_opts *o, vae_info *info, vc_err *err)
{
    const vt_options device = encoder_device(o);

    *out = NULL;
    if (!o->dir)
        return vc_fail(err, VC_EUSAGE, "%s: give the folder with its config.json and weights, or "
                       "the file", net->class);
    if (o->window && (!net->windows || o->window % net->pixel_frames))
        return vc_fail(err, VC_EUSAGE, "--vae_window %d: %s encodes %s %d frames at once%s",
                       o->window, net->class, net->windows ? "multiples of" : "chunks of",
                       net->pixel_frames, net->windows ? "" : ": leave the flag out");
    vae *v = calloc(1, net->size);
    if (!v)
        return vc_fail(err, VC_ENOMEM, "%s: out of memory", net->class);
    v->net = net;
    v->window = o->window ? o->window : net->pixel_frames;
    v->decode_timestep = o->decode_timestep;
    v->decode_noise_scale = o->decode_noise_scale;
    int rc = read_folder(v, o, info, err);
    if (!rc)
        rc = vt_open(&v->g, &device, err);
    if (!rc)
        rc = vt_params_open(&v->params, v->g, err);
    if (!rc)
        rc = vc_context(err, bind_all(v, err), "%s", o->dir);
    if (rc) {
        vae_close(v);
        return rc;
    }
    *out = v;
    return 0;
}

void vae_close(vae *v)
{
    if (!v)
        return;
    vt_params_close(v->params);
    vt_close(v->g);
    vf_model_close(v->file);
    free(v);
}

/* ---- a clip ---- */

/* A call of vae_encode or vae_decode: its pass, and the size and the buffers of the result. */
typedef struct job {
    vae *v;
    vae_pass pass;
    int to[3], channels;             /* t, h, w of the result */
    float *mean, *logvar;            /* [C,t,h,w] */
    const vae_output *out;           /* of decoding */
    uint8_t *rgb;                    /* [.,h,w,3], the frames from `base` on: out->all, or those
                                      * that out->take gets next; NULL: none yet */
    int base;
    double places, made;             /* of the result, in all tiles: all, and those that are made */
    vae_open_tile *tile;             /* that is being made */
    vae_spill *aside;                /* the frames [t,h,w,3] of a clip in tiles, which out->take
                                      * gets when the last tile is made; NULL: none are put aside */
} job;

/* Converts -1..1 to bytes like diffusers' video processor, which rounds half to even. */
static uint8_t to_u8(float x)
{
    float v = rintf(fminf(fmaxf(x * 0.5f + 0.5f, 0), 1) * 255);

    return v > 0 ? (uint8_t)v : 0;             /* NaN becomes 0 */
}

/* Puts n places v of a row into the result, from (frame, y, x) on. */
static void put_row(const job *j, const float *v, int frame, int y, int x, int n)
{
    size_t at = ((size_t)(frame - j->base) * (size_t)j->to[1] + (size_t)y) * (size_t)j->to[2] +
                (size_t)x;
    size_t channel = (size_t)j->to[0] * (size_t)j->to[1] * (size_t)j->to[2];
    int c = j->v->channels;
    bool one = j->v->net->one_logvar;

    for (int i = 0; j->pass.decodes && i < 3 * n; i++)
        j->rgb[3 * at + (size_t)i] = to_u8(v[i]);
    for (int i = 0; !j->pass.decodes && i < n; i++, at++, v += j->channels)
        for (int k = 0; k < c; k++) {
            j->mean[(size_t)k * channel + at] = v[k];
            if (j->logvar)
                j->logvar[(size_t)k * channel + at] = fminf(fmaxf(v[one ? c : c + k], -30), 20);
        }
}

static bool gives_ranges(const job *j)
{
    return j->pass.decodes && !j->out->all;
}

/* Makes room for n decoded frames from `first` on. */
static int begin_frames(job *j, int first, int n, vc_err *err)
{
    if (!gives_ranges(j))
        return 0;
    j->base = first;
    j->rgb = malloc((size_t)n * (size_t)j->to[1] * (size_t)j->to[2] * 3);
    return j->rgb ? 0 : vc_fail(err, VC_ENOMEM, "out of memory for %d frames of %dx%d", n,
                                j->to[2], j->to[1]);
}

/* Gives the n frames of begin_frames away. */
static int end_frames(job *j, int n, vc_err *err)
{
    if (!gives_ranges(j))
        return 0;
    int rc = j->out->take(j->out->arg, j->rgb, j->base, n, err);
    free(j->rgb);
    j->rgb = NULL;
    return rc;
}

/* Tells of a chunk of the result. */
static void tell(job *j, int n, int h, int w)
{
    const vae_input *from = j->pass.pixels;

    j->made += (double)n * h * w;
    if (from && from->made)
        from->made(from->arg, j->made / j->places);
}

static int take_whole(void *arg, float *values, int first, int n, int h, int w, vc_err *err)
{
    job *j = arg;
    int rc = begin_frames(j, first, n, err);

    for (int t = 0; !rc && t < n; t++)
        for (int y = 0; y < h; y++, values += w * j->channels)
            put_row(j, values, first + t, y, 0, w);
    tell(j, n, h, w);
    return rc ? rc : end_frames(j, n, err);
}

static int take_frames(void *arg, float *values, int first, int n, int h, int w, vc_err *err)
{
    job *j = arg;

    tell(j, n, h, w);
    return vae_tiles_put(j->tile, values, first, n, err);
}

static int make_tile(void *arg, const int at[3], const int n[3], vae_open_tile *tile, vc_err *err)
{
    job *j = arg;

    j->tile = tile;
    memcpy(j->pass.at, at, sizeof j->pass.at);
    memcpy(j->pass.n, n, sizeof j->pass.n);
    return vae_run_pass(j->v, &j->pass, err);
}

/* Puts n decoded places of a row aside, from (frame, y, x) on. */
static int put_aside(const job *j, const float *v, int frame, int y, int x, int n, vc_err *err)
{
    const size_t row = (size_t)frame * (size_t)j->to[1] + (size_t)y;
    uint8_t rgb[3 * MAX_SIDE];

    for (int i = 0; i < 3 * n; i++)
        rgb[i] = to_u8(v[i]);
    return vae_spill_put(j->aside, 3 * (row * (size_t)j->to[2] + (size_t)x), rgb, (size_t)(3 * n),
                         err);
}

/* The tile is of whole frames, or a part of some frames. */
static int take_tile(void *arg, const vae_tile *t, vc_err *err)
{
    job *j = arg;
    int rc = j->aside ? 0 : begin_frames(j, t->t, t->frames, err);

    for (int f = 0; !rc && f < t->frames; f++)
        for (int y = 0; !rc && y < t->rows; y++) {
            const float *v = t->values + ((size_t)f * (size_t)t->h + (size_t)y) * (size_t)t->w *
                                             (size_t)j->channels;
            if (j->aside)
                rc = put_aside(j, v, t->t + f, t->y + y, t->x, t->columns, err);
            else
                put_row(j, v, t->t + f, t->y + y, t->x, t->columns);
        }
    return rc || j->aside ? rc : end_frames(j, t->frames, err);
}

/* Frames of the result that n frames of the source make. */
static int frames_of(void *arg, int n)
{
    const job *j = arg;

    return j->pass.decodes ? j->v->net->frames(n) : (n - 1) / j->v->ratio[0] + 1;
}

/* The rows, columns, or frames after the first, that a tile of the source has; 0: the axis is not
 * cut into tiles. */
static int tile_size(const job *j, int axis)
{
    int pixels = j->v->tiling.size[axis];

    return j->pass.decodes ? pixels / j->v->ratio[axis] : pixels;
}

/* Whether the axes first..last are cut into tiles: all are cut if one is larger than a tile. */
static bool is_cut(const job *j, int first, int last)
{
    for (int i = first; i <= last; i++)
        if (tile_size(j, i) && j->pass.of[i] > tile_size(j, i))
            return true;
    return false;
}

/* Plans the tiles of a clip. Time is cut on its own, rows and columns together. False: one tile
 * holds the whole clip. */
static bool tiles_of(job *j, vae_tiles *t)
{
    const vae_tiling *tiling = &j->v->tiling;
    bool decodes = j->pass.decodes, time = is_cut(j, 0, 0), space = is_cut(j, 1, 2);
    int r = j->v->ratio[1];

    *t = (vae_tiles){ .times = decodes ? r : 1, .per = decodes ? 1 : r, .channels = j->channels,
                      .arg = j, .frames = frames_of, .make = make_tile, .take = take_tile };
    for (int i = 0; i < 3; i++) {
        int pixel = tiling->size[i], from = tile_size(j, i);
        int to = decodes ? pixel : pixel / j->v->ratio[i];
        t->source[i] = t->size[i] = t->step[i] = j->pass.of[i];
        t->kept[i] = j->to[i];
        if (!pixel || !(i ? space : time))
            continue;
        t->size[i] = from;
        t->step[i] = (int)(from * (1 - tiling->overlap[i]));
        t->blend[i] = (int)(to * tiling->overlap[i]);
        t->kept[i] = to - t->blend[i];
    }
    return time || space;
}

/* Gives the frames that were put aside to out->take. */
static int give_aside(job *j, vc_err *err)
{
    const size_t frame = (size_t)j->to[1] * (size_t)j->to[2] * 3;
    int rc = 0;

    for (int first = 0, n; !rc && first < j->to[0]; first += n) {
        n = j->to[0] - first < ASIDE_FRAMES ? j->to[0] - first : ASIDE_FRAMES;
        rc = begin_frames(j, first, n, err);
        if (!rc)
            rc = vae_spill_get(j->aside, (size_t)first * frame, j->rgb, (size_t)n * frame, err);
        if (!rc)
            rc = end_frames(j, n, err);
    }
    return rc;
}

static int run_tiles(job *j, vae_tiles *t, vc_err *err)
{
    const bool parts = t->size[0] == t->source[0];            /* whole frames otherwise */
    const size_t all = (size_t)j->to[0] * (size_t)j->to[1] * (size_t)j->to[2] * 3;
    int rc = vae_tiles_check(t, j->to, err);

    j->pass.take = take_frames;
    j->places = vae_tiles_places(t);
    if (!rc && gives_ranges(j) && parts) {
        t->beside = j->out->beside;
        rc = vae_spill_open(&j->aside, t->beside, all, err);
    }
    if (!rc)
        rc = vae_tiles_run(t, err);
    if (!rc && j->aside)
        rc = give_aside(j, err);
    vae_spill_close(j->aside);
    return rc;
}

static int run_whole(job *j, vc_err *err)
{
    memcpy(j->pass.n, j->pass.of, sizeof j->pass.n);
    j->pass.take = take_whole;
    j->places = (double)j->to[0] * j->to[1] * j->to[2];
    return vae_run_pass(j->v, &j->pass, err);
}

static int run_job(job *j, vc_err *err)
{
    vae_tiles t;

    j->pass.arg = j;
    int rc = tiles_of(j, &t) ? run_tiles(j, &t, err) : run_whole(j, err);
    if (gives_ranges(j))
        free(j->rgb);
    return rc;
}

static int encode_job(job *j, vae *v, int f, int h, int w, vc_err *err)
{
    const int k = v->ratio[0], r = v->ratio[1];

    if (f < 1 || f > MAX_FRAMES || (f - 1) % k)
        return vc_fail(err, VC_EINVAL, "%s: %d frames are not possible: the number of frames must "
                       "be %dk+1, at most %d", v->net->class, f, k, MAX_FRAMES);
    if (h < r || w < r || h % r || w % r || h > MAX_SIDE || w > MAX_SIDE)
        return vc_fail(err, VC_EINVAL, "%s: %dx%d is not possible: width and height must be "
                       "multiples of %d, at most %d", v->net->class, w, h, r, MAX_SIDE);
    *j = (job){ .v = v, .pass = { .of = { f, h, w } }, .to = { (f - 1) / k + 1, h / r, w / r },
                .channels = v->channels + (v->net->one_logvar ? 1 : v->channels) };
    return 0;
}

static int decode_job(job *j, vae *v, int f, int h, int w, vc_err *err)
{
    const int r = v->ratio[1];

    if (f < 1 || f > MAX_FRAMES / v->ratio[0] || h < 1 || w < 1 || h > MAX_SIDE / r ||
        w > MAX_SIDE / r)
        return vc_fail(err, VC_EINVAL, "%s: a latent of %d frames of %dx%d is not possible",
                       v->net->class, f, w, h);
    *j = (job){ .v = v, .pass = { .decodes = true, .of = { f, h, w } },
                .to = { v->net->frames(f), h * r, w * r }, .channels = 3 };
    return 0;
}

static int finish(const job *j, int rc, vc_err *err)
{
    return vc_context(err, rc, "%s: %s %d frames of %dx%d", j->v->net->class,
                      j->pass.decodes ? "decoding" : "encoding", j->pass.of[0], j->pass.of[2],
                      j->pass.of[1]);
}

int vae_encode(vae *v, const vae_input *pixels, int f, int h, int w, float *mean, float *logvar,
               vc_err *err)
{
    job j;
    int rc = encode_job(&j, v, f, h, w, err);

    if (rc)
        return rc;
    j.pass.pixels = pixels;
    j.mean = mean;
    j.logvar = logvar;
    return finish(&j, run_job(&j, err), err);
}

int vae_decode(vae *v, const float *z, int f, int h, int w, const vae_output *to, vc_err *err)
{
    job j;
    int rc = decode_job(&j, v, f, h, w, err);

    if (rc)
        return rc;
    j.pass.source = z;
    j.out = to;
    j.rgb = to->all;
    return finish(&j, run_job(&j, err), err);
}

int vae_chunk(const vae *v, int f)
{
    const int tile = v->tiling.size[0], n = tile && f > tile ? tile + 1 : f;

    return n < v->window ? n : v->window + n % v->window;
}

int vae_memory(vae *v, bool decode, int f, int h, int w, size_t *bytes, vc_err *err)
{
    job j;
    vae_tiles t;
    int rc = (decode ? decode_job : encode_job)(&j, v, f, h, w, err);

    *bytes = 0;
    if (rc)
        return rc;
    bool tiled = tiles_of(&j, &t);
    vae_tiles_first(&t, j.pass.n);
    rc = tiled ? vae_tiles_check(&t, j.to, err) : 0;
    if (!rc)
        rc = vae_run_pass(v, &j.pass, err);
    *bytes = j.pass.peak;
    return finish(&j, rc, err);
}
