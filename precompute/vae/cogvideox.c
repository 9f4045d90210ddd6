/* cogvideox.c - the encoder and the decoder of AutoencoderKLCogVideoX: see cogvideox.h */
#include "precompute/vae/cogvideox.h"

/* Whether the sampler after this level also resamples time, as the first two samplers do. */
static bool in_time(int level) { return level < 2; }

static void room(const nn_video *n, cog_block *b, const vt_tensor *x)
{
    nn_video_make_room(n, b->resnet, b->n, x);
}

static vt_tensor *blocks(const nn_video *n, cog_block *b, vt_tensor *x, vt_scope s)
{
    return nn_video_resnets(n, b->resnet, b->n, x, s);
}

static vt_tensor *head(const nn_video *n, cog_net *net, vt_tensor *x)
{
    vt_scope s = vt_scope_begin(n->g);
    vt_tensor *y = nn_video_causal(n, &net->conv_out, nn_video_norm_silu(n, &net->norm_out, x));

    vt_scope_end(n->g, s, 1, &y);
    return y;
}

static vt_tensor *encode_chunk(vae *v, const nn_video *n, vt_tensor *x)
{
    cog_net *net = &((cog_vae *)v)->encoder;
    vt_scope s = vt_scope_begin(n->g);

    room(n, &net->level[0], x);
    x = nn_video_causal(n, &net->conv_in, x);
    for (int i = 0; i < ((cog_vae *)v)->c.levels; i++) {
        cog_block *b = &net->level[i];
        if (i > 0)
            room(n, b, x);
        x = blocks(n, b, x, s);
        if (b->sampler.w)
            x = nn_video_down(n, &b->sampler, x, in_time(i));
        vt_scope_end(n->g, s, 1, &x);
    }
    room(n, &net->mid, x);
    x = head(n, net, blocks(n, &net->mid, x, s));
    vt_scope_end(n->g, s, 1, &x);
    return x;
}

static vt_tensor *decode_chunk(vae *v, const nn_video *n, vt_tensor *z)
{
    cog_net *net = &((cog_vae *)v)->decoder;
    vt_scope s = vt_scope_begin(n->g);
    vt_tensor *x = nn_video_causal(n, &net->conv_in, z);

    room(n, &net->mid, x);
    x = blocks(n, &net->mid, x, s);
    for (int i = 0; i < ((cog_vae *)v)->c.levels; i++) {
        cog_block *b = &net->level[i];
        room(n, b, x);
        x = blocks(n, b, x, s);
        if (b->sampler.w)
            x = nn_video_up(n, &b->sampler, x, in_time(i));
        vt_scope_end(n->g, s, 1, &x);
    }
    x = head(n, net, x);
    vt_scope_end(n->g, s, 1, &x);
    return x;
}

/* The first of an odd number of latent frames decodes to one frame, every other to COG_RATIO_T. */
static int cog_frames(int f) { return COG_RATIO_T * f - (f % 2 ? COG_RATIO_T - 1 : 0); }

static const vae_net net = {
    .class = COG_CLASS, .size = sizeof(cog_vae), .pixel_frames = 8, .latent_frames = 2,
    .windows = true, .frames = cog_frames, .configure = cog_configure, .bind = cog_bind,
    .encode_chunk = encode_chunk, .decode_chunk = decode_chunk,
};

VAE_CLASS(vae_cogvideox, COG_CLASS, net, cog_frames);
