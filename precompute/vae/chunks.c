/* chunks.c - runs a network on a clip in chunks of frames: see vae.h */
#include <stdlib.h>

#include "precompute/vae/vae.h"

/* Chunk i has the frames begin..end-1: `unit` frames, in the first chunk plus the remainder. */
static void chunk_of(int frames, int unit, int i, int *begin, int *end)
{
    int rest = frames % unit;

    *begin = i ? unit * i + rest : 0;
    *end = unit * (i + 1) + rest;
    if (*end > frames)
        *end = frames;
}

/* Cuts the rows and columns of the tile out of x. */
static vt_tensor *part_of(vt_ctx *g, const vae_pass *p, vt_tensor *x)
{
    x = vt_slice(g, x, 2, p->at[1], p->at[1] + p->n[1]);
    return vt_slice(g, x, 3, p->at[2], p->at[2] + p->n[2]);
}

/* Encodes the frames begin..end-1 of the tile, which are read as whole frames. */
static int encode(vae *v, const vae_pass *p, nn_video *n, int begin, int end, vt_tensor **y,
                  vc_err *err)
{
    const int64_t dim[] = { 1, end - begin, p->of[1], p->of[2], 3 };
    const size_t frame = (size_t)p->of[1] * (size_t)p->of[2] * 3;
    const vae_input *from = p->pixels;
    const int first = p->at[0] + begin, count = end - begin;
    const float *x = from && from->all ? from->all + (size_t)first * frame : NULL;
    float *room = NULL;
    int rc = 0;

    if (from && !x) {
        x = room = malloc((size_t)count * frame * sizeof *room);
        rc = room ? from->read(from->arg, first, count, room, err)
                  : vc_fail(err, VC_ENOMEM, "out of memory for the pixels of %d frames", count);
    }
    if (!rc) {
        vt_tensor *all = vt_from_host(v->g, vt_compute(v->g), 5, dim, x, VC_F32);
        *y = v->net->encode_chunk(v, n, vt_pack(v->g, part_of(v->g, p, all)));
    }
    free(room);
    return rc;
}

/* The frames begin..end-1 of the tile, from the whole latent z [1,f,h,w,C], which is a view. */
static vt_tensor *latents(vt_ctx *g, const vae_pass *p, vt_tensor *z, int begin, int end)
{
    z = part_of(g, p, vt_slice(g, z, 1, p->at[0] + begin, p->at[0] + end));
    return vt_pack(g, vt_cast(g, z, vt_compute(g)));
}

static vt_tensor *whole_latent(vae *v, const vae_pass *p)
{
    int64_t dim[] = { 1, v->channels, p->of[0], p->of[1], p->of[2] };
    vt_tensor *z = vt_from_host(v->g, VC_F32, 5, dim, p->source, VC_F32);

    z = vt_permute(v->g, z, (int[]){ 0, 2, 3, 4, 1 });
    return v->net->latent ? v->net->latent(v, z) : z;
}

/* Copies a chunk's result to the host and passes the values to p->take. */
static int hand_over(vt_ctx *g, vae_pass *p, vt_tensor *y, int *frame, vc_err *err)
{
    if (!y || !p->take)
        return 0;                              /* a dry pass, no complete frames, or a failure of
                                                * which vt_step_end returns the error */
    float *values = malloc((size_t)vt_count(y) * sizeof *values);
    if (!values)
        return vc_fail(err, VC_ENOMEM, "out of memory for %lld values", (long long)vt_count(y));
    int n = (int)y->dim[1], rc = vt_to_host(g, y, values, err);
    if (!rc)
        rc = p->take(p->arg, values, *frame, n, (int)y->dim[2], (int)y->dim[3], err);
    *frame += n;
    free(values);
    return rc;
}

static int run_chunks(vae *v, vae_pass *p, vc_err *err)
{
    int unit = p->decodes ? v->net->latent_frames : v->window;
    int chunks = p->n[0] < unit ? 1 : p->n[0] / unit, frame = 0, rc = 0;
    int runs = chunks + (p->decodes && chunks > 1 && v->net->decode_ends
                             ? v->net->decode_ends(v) : 0);
    vt_ctx *g = v->g;
    vt_tensor *z = p->decodes ? whole_latent(v, p) : NULL;
    vt_scope s = vt_scope_begin(g);

    for (int i = 0; i < runs && !rc && !vt_failed(g); i++) {
        nn_video n = { .g = g, .first = i == 0, .last = i + 1 >= chunks, .edge = v->net->edge,
                       .frames = p->decodes ? p->n[0] : (p->n[0] - 1) / v->ratio[0] + 1,
                       .blank = v->net->blank, .ended = i < chunks ? 0 : i + 1 - chunks };
        int begin, end;
        vt_tensor *y = NULL;
        chunk_of(p->n[0], unit, i, &begin, &end);
        if (p->decodes) {
            n.z = i < chunks ? latents(g, p, z, begin, end) : NULL;
            y = v->net->decode_chunk(v, &n, n.z);
        } else {
            rc = encode(v, p, &n, begin, end, &y, err);
        }
        if (!rc)
            rc = hand_over(g, p, y, &frame, err);
        vt_scope_end(g, s, 0, NULL);
    }
    return rc;
}

int vae_run_pass(vae *v, vae_pass *p, vc_err *err)
{
    vc_err first = { 0 };

    vt_step_begin(v->g, p->take ? 0 : VT_DRY);
    int rc = run_chunks(v, p, &first);
    int end = vt_step_end(v->g, err);
    vt_usage use = vt_usage_of(v->g);
    p->peak = use.pool_peak + use.scratch;
    return end ? end : rc ? vc_fail(err, rc, "%s", first.text) : 0;
}
