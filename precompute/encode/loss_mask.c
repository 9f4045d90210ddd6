/* loss_mask.c - see loss_mask.h */
#include "precompute/encode/loss_mask.h"

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

int vprep_loss_weights(float *out, prep_frames *f, int h, int w, int k, int r, vc_err *err)
{
    const size_t columns = (size_t)(w / r), n = (size_t)(h / r) * columns;
    uint64_t *sum = calloc(n, sizeof *sum);
    const uint8_t *rgb;
    int rc = sum ? 0 : vc_no_memory(err);

    for (int t = 0; !rc && t < f->n; t++) {
        const double white = 255.0 * 3 * r * r * (t ? k : 1);
        rc = prep_frames_at(f, t, &rgb, err);
        for (size_t i = 0; !rc && i < n; i++) {
            const size_t y = i / columns * (size_t)r, x = i % columns * (size_t)r;
            sum[i] += sum_block(rgb + 3 * (y * (size_t)w + x), w, r);
        }
        for (size_t i = 0; !rc && t % k == 0 && i < n; i++) {      /* t ends a latent frame */
            *out++ = (float)((double)sum[i] / white);
            sum[i] = 0;
        }
    }
    free(sum);
    return rc;
}

int vprep_loss_mask(const vprep *p, const vprep_item *it, const vprep_clip *clip, float **weights,
                    vc_err *err)
{
    const vb_choice *c = &clip->choice;
    const int *ratio = p->encoders.vae.ratio;
    size_t area = (size_t)c->latent_h * (size_t)c->latent_w;
    prep_frames f = { 0 };
    int rc = 0;

    *weights = malloc((size_t)c->latent_f * area * sizeof **weights);
    if (!*weights)
        rc = vc_fail(err, VC_ENOMEM, "out of memory for %d latent frames", c->latent_f);
    if (!rc)
        rc = prep_frames_open(&f, p, it, clip, VF_LOSS_MASK, c->frames, err);
    if (!rc)
        rc = vprep_loss_weights(*weights, &f, c->target_h, c->target_w, ratio[0], ratio[1], err);
    for (size_t i = area; !rc && f.n == 1 && i < (size_t)c->latent_f * area; i++)
        (*weights)[i] = (*weights)[i - area];
    prep_frames_close(&f);
    return rc;
}

/* The grey is that which Pillow makes of r, g, b. */
void vprep_mask_of(uint8_t *out, const uint8_t *rgb, size_t n)
{
    for (size_t i = 0; i < n; i++, rgb += 3)
        out[i] = (19595u * rgb[0] + 38470u * rgb[1] + 7471u * rgb[2] + 0x8000) >> 16 >= 128;
}

int vprep_mask_file(const vprep *p, const vprep_item *it, vprep_clip *clip, vc_err *err)
{
    mask *m = &clip->mask;
    const size_t n = (size_t)m->h * (size_t)m->w;
    const bool moves = p->list.sources[it->row].beside[VF_MASK].frames > 1;
    prep_frames f = { 0 };
    const uint8_t *rgb = NULL;

    m->n_pixels = moves ? m->f : 1;
    free(m->pixels);
    m->pixels = malloc((size_t)m->n_pixels * n);
    int rc = m->pixels ? 0 : vc_no_memory(err);
    if (!rc)
        rc = prep_frames_open(&f, p, it, clip, VF_MASK, m->n_pixels, err);
    for (int t = 0; !rc && t < m->n_pixels; t++) {
        rc = prep_frames_at(&f, t, &rgb, err);
        if (!rc)
            vprep_mask_of(m->pixels + (size_t)t * n, rgb, n);
    }
    prep_frames_close(&f);
    return rc;
}
