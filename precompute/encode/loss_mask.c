/* loss_mask.c - see loss_mask.h */
#include "precompute/encode/loss_mask.h"

#include <stdlib.h>

#include "precompute/encode/beside.h"

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

int vprep_loss_mask(const vprep *p, const vprep_item *it, const vprep_clip *clip, float **weights,
                    vc_err *err)
{
    const vb_choice *c = &clip->choice;
    const int *ratio = p->encoders.vae.ratio;
    size_t area = (size_t)c->latent_h * (size_t)c->latent_w;
    uint8_t *rgb = NULL;
    int frames = 0, rc = 0;

    *weights = malloc((size_t)c->latent_f * area * sizeof **weights);
    if (!*weights)
        rc = vc_fail(err, VC_ENOMEM, "out of memory for %d latent frames", c->latent_f);
    if (!rc)
        rc = vprep_read_beside(p, it, clip, VF_LOSS_MASK, &rgb, &frames, err);
    if (!rc) {
        vprep_loss_weights(*weights, rgb, frames, c->target_h, c->target_w, ratio[0],
                           ratio[1]);
        for (size_t i = area; frames == 1 && i < (size_t)c->latent_f * area; i++)
            (*weights)[i] = (*weights)[i - area];
    }
    free(rgb);
    return rc;
}
