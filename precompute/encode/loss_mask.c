/* loss_mask.c - see loss_mask.h */
#include "precompute/encode/loss_mask.h"

#include <math.h>
#include <stdlib.h>

/* Sum of the channels of r x r pixels from rgb on; w: pixels of a row. */
static uint64_t sum_block(const uint8_t *rgb, int w, int r)
{
    uint64_t sum = 0;
    for (int y = 0; y < r; y++, rgb += 3 * (size_t)w)
        for (int x = 0; x < 3 * r; x++)
            sum += rgb[x];
    return sum;
}

void vprep_loss_weights(float *out, const uint8_t *rgb, int f, int h, int w, int k, int r)
{
    size_t frame = 3 * (size_t)h * (size_t)w;

    for (int t = 0; t < f; t += t ? k : 1) {
        int n = t ? k : 1;
        double white = 255.0 * 3 * r * r * n;
        for (int y = 0; y < h; y += r)
            for (int x = 0; x < w; x += r) {
                const uint8_t *block = rgb + 3 * ((size_t)y * (size_t)w + (size_t)x);
                uint64_t sum = 0;
                for (int i = t; i < t + n; i++)
                    sum += sum_block(block + (size_t)i * frame, w, r);
                *out++ = (float)((double)sum / white);
            }
    }
}

/* Checks that the mask has the source's shape, within the rounding to whole pixels. */
static int check_shape(const vprep_source *s, const media_info *m, vc_err *err)
{
    double off = (double)m->w * s->h - (double)m->h * s->w;
    if (fabs(off) <= (double)(s->w > s->h ? s->w : s->h))
        return 0;
    return vc_fail(err, VC_EMISMATCH, "%dx%d, but the source is %dx%d: a loss mask covers the "
                   "whole picture, so it has its shape", m->w, m->h, s->w, s->h);
}

/* Reads the frames of the clip, or the one frame of a still: then *frames is 1. */
static int read_frames(media *m, const media_info *info, const vprep_clip *clip, uint8_t **rgb,
                       int *frames, vc_err *err)
{
    static const int64_t first;
    const vb_choice *c = &clip->choice;
    bool still = info->frames == 1;
    media_fit fit = { .rh = c->resize_h, .rw = c->resize_w, .top = c->top, .left = c->left,
                      .h = c->target_h, .w = c->target_w, .flip = c->flip, .black = true };
    int64_t last = clip->frames[c->frames - 1];

    *frames = still ? 1 : c->frames;
    if (!still && last >= info->frames)
        return vc_fail(err, VC_EMISMATCH, "%lld frames, but the clip has the source's frame %lld",
                       (long long)info->frames, (long long)last);
    *rgb = malloc((size_t)*frames * (size_t)c->target_h * (size_t)c->target_w * 3);
    if (!*rgb)
        return vc_fail(err, VC_ENOMEM, "out of memory for %d frames of %dx%d", *frames, c->target_w,
                       c->target_h);
    return media_read(m, *rgb, still ? &first : clip->frames, *frames, &fit, vc_stop_flag(), err);
}

/* Returns the code of prep_identity_check. */
static int read_mask(const vprep *p, const vprep_item *it, const vprep_clip *clip,
                     prep_identity *is, uint8_t **rgb, int *frames, vc_err *err)
{
    const vprep_source *s = &p->list.sources[it->row];
    const char *path = p->list.meta.rows[it->row].loss_mask_file;
    const vf_part file = { .name = path, .file = path };
    media *m = NULL;
    media_info info;
    int rc = media_open_part(&m, &file, &info, err);

    if (rc)
        return rc;
    if (p->rules.peer)
        media_as_stored(m, &info);
    rc = check_shape(s, &info, err);
    if (!rc)
        rc = read_frames(m, &info, clip, rgb, frames, err);
    vc_err why = { 0 };
    int other = rc == VC_ESTOP ? 0 : prep_identity_check(is, s->loss_mask, media_fd(m), &file,
                                                         &why);
    media_close(m);
    if (other < 0)
        *err = why;
    return other ? other : rc;
}

int vprep_loss_mask(const vprep *p, const vprep_item *it, const vprep_clip *clip, float **weights,
                    vc_err *err)
{
    enum { MAX_TRIES = 3 };
    const vb_choice *c = &clip->choice;
    const vf_row *row = &p->list.meta.rows[it->row];
    const int *ratio = p->encoders.vae.ratio;
    prep_identity is = p->list.sources[it->row].mask_is;
    size_t area = (size_t)c->latent_h * (size_t)c->latent_w;
    uint8_t *rgb = NULL;
    int frames = 0, rc = 1;

    *weights = malloc((size_t)c->latent_f * area * sizeof **weights);
    if (!*weights)
        rc = vc_fail(err, VC_ENOMEM, "out of memory for %d latent frames", c->latent_f);
    for (int tries = 0; rc > 0; tries++) {
        free(rgb);
        rgb = NULL;
        rc = tries < MAX_TRIES ? read_mask(p, it, clip, &is, &rgb, &frames, err)
                               : vc_fail(err, VC_EIO, "changes while it is read");
    }
    if (!rc) {
        vprep_loss_weights(*weights, rgb, frames, c->target_h, c->target_w, ratio[0],
                           ratio[1]);
        for (size_t i = area; frames == 1 && i < (size_t)c->latent_f * area; i++)
            (*weights)[i] = (*weights)[i - area];
    }
    free(rgb);
    return vc_context(err, rc, "loss_mask_path %s", row->loss_mask_path);
}
