/* ltx_open.c - weights and statistics of LTX-Video's and LTX-2's autoencoders: see ltx.h */
#include <stdio.h>

#include "precompute/vae/ltx.h"

/* ---- statistics ---- */

const char *const ltx_statistics_names[] = { "latents_mean", "latents_std", NULL };

int ltx_statistics(const vf_model *file, vae_info *info, vc_err *err)
{
    double *const to[] = { info->mean, info->std };
    int rc = 0;

    for (int i = 0; !rc && i < 2; i++)
        rc = vae_numbers(file, ltx_statistics_names[i], info->channels, to[i], err);
    for (int k = 0; !rc && k < info->channels; k++)
        if (!(info->std[k] > 0))
            rc = vc_fail(err, VC_EFORMAT, "tensor %s: value %d is %g, not a finite number above 0",
                         ltx_statistics_names[1], k, info->std[k]);
    return rc;
}

/* ---- weights ---- */

static const vt_weight norm3_rows[] = {
    { "norm3.weight", VT_W_TENSOR, offsetof(ltx_resnet, norm3_w), { -2 }, VT_INIT_ZERO },
    { "norm3.bias", VT_W_TENSOR, offsetof(ltx_resnet, norm3_b), { -2 }, VT_INIT_ZERO },
    { 0 }
};
static const vt_weight noise_rows[] = {
    { "per_channel_scale1", VT_W_TENSOR, offsetof(ltx_resnet, noise1), { -1, 1, 1 },
      VT_INIT_ZERO },
    { "per_channel_scale2", VT_W_TENSOR, offsetof(ltx_resnet, noise2), { -1, 1, 1 },
      VT_INIT_ZERO },
    { 0 }
};
static const vt_weight table_rows[] = {
    { "scale_shift_table", VT_W_TENSOR, offsetof(ltx_resnet, table), { 4, -1 }, VT_INIT_ZERO },
    { 0 }
};
static const vt_weight time_rows[] = {
    { "linear_1", VT_W_LINEAR, offsetof(ltx_time, up), { -1, -2 }, VT_INIT_ZERO },
    { "linear_2", VT_W_LINEAR, offsetof(ltx_time, down), { -1, -1 }, VT_INIT_ZERO },
    { 0 }
};
static const vt_weight head_rows[] = {
    { "scale_shift_table", VT_W_TENSOR, offsetof(ltx_net, table), { 2, -1 }, VT_INIT_ZERO },
    { "timestep_scale_multiplier", VT_W_TENSOR, offsetof(ltx_net, multiplier), { 0 },
      VT_INIT_ONE },
    { 0 }
};
enum { SINUSOID = 256 };

static void bind_resnet(vae_binder *b, const ltx_vae *m, ltx_resnet *r, int in, int out,
                        bool timed, bool noisy, const char *name)
{
    char below[104];

    snprintf(below, sizeof below, "%s.", name);
    vae_bind(b, nn_video_cube, &r->conv1, out, in, below, "conv1.conv");
    vae_bind(b, nn_video_cube, &r->conv2, out, out, below, "conv2.conv");
    if (in != out) {
        vae_bind(b, norm3_rows, r, out, in, "", name);
        vae_bind(b, nn_video_point, &r->shortcut, out, in, below,
                 m->two ? "conv_shortcut" : "conv_shortcut.conv");
    }
    if (timed)
        vae_bind(b, table_rows, r, out, in, "", name);
    if (noisy)
        vae_bind(b, noise_rows, r, out, in, "", name);
}

/* Binds a block whose resnets are `width` wide. */
static void bind_block(vae_binder *b, const ltx_vae *m, ltx_block *k, int width, bool timed,
                       const char *below)
{
    char name[96];

    if (timed)
        vae_bind(b, time_rows, &k->time, 4 * width, SINUSOID, below,
                 "time_embedder.timestep_embedder");
    for (int i = 0; i < k->n; i++) {
        snprintf(name, sizeof name, "%sresnets.%d", below, i);
        bind_resnet(b, m, &k->resnet[i], width, width, timed, k->noisy, name);
    }
}

static void bind_encoder(vae_binder *b, ltx_net *n, const ltx_vae *m)
{
    char name[64];

    vae_bind(b, nn_video_cube, &n->conv_in, n->first, 3 * m->patch * m->patch, "encoder.",
             "conv_in.conv");
    for (int i = 0; i < n->levels; i++) {
        ltx_block *k = &n->level[i];
        snprintf(name, sizeof name, "encoder.down_blocks.%d.", i);
        bind_block(b, m, k, k->in, false, name);
        if (k->by[0] * k->by[1] > 1)
            vae_bind(b, nn_video_cube, &k->sampler, k->sampled[1], k->sampled[0], name,
                     k->folds ? "downsamplers.0.conv.conv" : "downsamplers.0.conv");
        snprintf(name, sizeof name, "encoder.down_blocks.%d.conv_out", i);
        if (!k->folds && k->in != k->out)
            bind_resnet(b, m, &k->widen, k->in, k->out, false, false, name);
    }
    bind_block(b, m, &n->mid, n->last, false, "encoder.mid_block.");
    vae_bind(b, nn_video_cube, &n->conv_out, m->latent + 1, n->last, "encoder.", "conv_out.conv");
}

static void bind_decoder(vae_binder *b, ltx_net *n, const ltx_vae *m)
{
    char name[64];

    vae_bind(b, nn_video_cube, &n->conv_in, n->first, m->latent, "decoder.", "conv_in.conv");
    bind_block(b, m, &n->mid, n->first, m->timed, "decoder.mid_block.");
    for (int i = 0; i < n->levels; i++) {
        ltx_block *k = &n->level[i];
        snprintf(name, sizeof name, "decoder.up_blocks.%d.conv_in", i);
        if (k->in != k->out)
            bind_resnet(b, m, &k->widen, k->in, k->out, false, false, name);
        snprintf(name, sizeof name, "decoder.up_blocks.%d.", i);
        if (k->by[0] * k->by[1] > 1)
            vae_bind(b, nn_video_cube, &k->sampler, k->sampled[1], k->sampled[0], name,
                     "upsamplers.0.conv.conv");
        bind_block(b, m, k, k->out, m->timed, name);
    }
    if (m->timed) {
        vae_bind(b, head_rows, n, n->last, 0, "", "decoder");
        vae_bind(b, time_rows, &n->time, 2 * n->last, SINUSOID, "decoder.",
                 "time_embedder.timestep_embedder");
    }
    vae_bind(b, nn_video_cube, &n->conv_out, 3 * m->patch * m->patch, n->last, "decoder.",
             "conv_out.conv");
}

void ltx_bind(vae *v, vae_binder *b)
{
    ltx_vae *m = (ltx_vae *)v;

    bind_encoder(b, &m->encoder, m);
    bind_decoder(b, &m->decoder, m);
}
