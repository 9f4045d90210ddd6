/* hunyuan.c - AutoencoderKLHunyuanVideo: its configuration, its steps and its tiles in time.
 *
 * The norms and the attention of this causal autoencoder (Kong et al. 2024, HunyuanVideo, 4.1) read
 * all frames of their input, so longer clips are cut into tiles of 17 frames, and a tile begins
 * every twelve frames. Padding repeats a frame's border and a clip's first frame. */
#include "formats/json/config.h"
#include "precompute/vae/group_vae.h"

#define CLASS "AutoencoderKLHunyuanVideo"

enum { RATIO_T = 4, RATIO = 8, HALVINGS_T = 2, HALVINGS = 3 };
enum { TILE_FRAMES = 16, TILE_SIDE = 256 };         /* a tile has one frame more than this, and
                                                     * TILE_SIDE rows and columns of pixels */
#define TILE_OVERLAP 0.25

/* ---- the network ---- */

/* Repeats x's rows by[1] times, its columns by[2] times, and frames after the first by[0] times. */
static vt_tensor *spread(vt_ctx *g, vt_tensor *x, const int by[3])
{
    if (!x)
        return NULL;
    int64_t t = x->dim[1], h = by[1] * x->dim[2], w = by[2] * x->dim[3], to = 0;
    vt_tensor *y = vt_new(g, vt_compute(g), 5,
                          (int64_t[]){ 1, by[0] * (t - 1) + 1, h, w, x->dim[4] });
    for (int64_t i = 0; i < t && y; i++) {
        vt_scope s = vt_scope_begin(g);
        vt_tensor *f = vt_nearest(g, vt_slice(g, x, 1, i, i + 1), 1, h, w);
        for (int copies = i ? by[0] : 1; copies > 0; copies--, to++)
            vt_assign(g, vt_slice(g, y, 1, to, to + 1), f);
        vt_scope_end(g, s, 0, NULL);
    }
    return y;
}

static vt_tensor *step_down(const nn_video *n, group_level *l, vt_tensor *x, vt_scope s)
{
    (void)s;
    return nn_video_causal_steps(n, &l->sampler, x, l->by);
}

static vt_tensor *step_up(const nn_video *n, group_level *l, vt_tensor *x, vt_scope s)
{
    x = spread(n->g, x, l->by);
    vt_scope_end(n->g, s, 1, &x);
    return nn_video_causal(n, &l->sampler, x);
}

static vt_tensor *encode_tile(vae *v, const nn_video *n, vt_tensor *x)
{
    return group_encode((group_vae *)v, n, step_down, x);
}

static vt_tensor *decode_tile(vae *v, const nn_video *n, vt_tensor *z)
{
    return group_decode((group_vae *)v, n, step_up, z);
}

/* ---- config.json ---- */

/* The fields of config.json: those of the network, and those that the manifest records. */
typedef struct fields {
    group_config c;
    vae_info info;
    int n_down, n_up;
} fields;

static const vf_config_row rows[] = {
    VF_ONLY("_class_name", CLASS, CLASS),
    VF_INTS(fields, c.width, c.levels, "block_out_channels", HALVINGS, 1, GROUP_MAX_WIDTH),
    VF_WORDS(fields, n_down, "down_block_types", "HunyuanVideoDownBlock3D"),
    VF_WORDS(fields, n_up, "up_block_types", "HunyuanVideoUpBlock3D"),
    VF_INT(fields, c.layers, "layers_per_block", 2, 1, GROUP_LAYERS - 1),
    VF_INT(fields, c.latent, "latent_channels", 16, 1, VAE_MAX_CHANNELS),
    VF_INT(fields, c.groups, "norm_num_groups", 32, 1, GROUP_MAX_WIDTH),
    VF_FLAG(fields, c.attention, "mid_block_add_attention", true),
    VF_ONLY_INT("in_channels", 3),
    VF_ONLY_INT("out_channels", 3),
    VF_ONLY_INT("spatial_compression_ratio", RATIO),
    VF_ONLY_INT("temporal_compression_ratio", RATIO_T),
    VF_ONLY("act_fn", "silu|swish", "silu"),
    VF_NUM(fields, info.scaling_factor, "scaling_factor", 0.476986, VF_ABOVE_0, INFINITY),
    { 0 }
};

static int configure(vae *v, const cJSON *json, bool tiling, vae_info *info, vf_hasher *h,
                     vc_err *err)
{
    fields f = { .c = { .levels = 4, .width = { 128, 256, 512, 512 }, .quant = true,
                        .post_quant = true, .steps = HALVINGS, .steps_t = HALVINGS_T },
                 .info = { .class = CLASS, .has_logvar = true } };
    int rc = vf_config_read(&f, rows, json, err);

    if (!rc)
        rc = group_check(&f.c, f.n_down, f.n_up, err);
    if (rc)
        return rc;
    const group_config *c = &f.c;
    ((group_vae *)v)->c = *c;
    *info = f.info;
    info->channels = c->latent;
    info->ratio[0] = RATIO_T;
    info->ratio[1] = info->ratio[2] = RATIO;
    v->tiling = (vae_tiling){ .size = { TILE_FRAMES }, .overlap = { TILE_OVERLAP } };
    for (int i = 1; i < 3 && tiling; i++) {
        v->tiling.size[i] = TILE_SIDE;
        v->tiling.overlap[i] = TILE_OVERLAP;
    }
    vf_hasher_int(h, "layers_per_block", c->layers);
    vf_hasher_int(h, "latent_channels", c->latent);
    vf_hasher_int(h, "norm_num_groups", c->groups);
    vf_hasher_int(h, "mid_block_add_attention", c->attention);
    for (int i = 0; i < c->levels; i++)
        vf_hasher_int(h, "block_out_channels", c->width[i]);
    for (int i = 0; i < 3; i++)
        vf_hasher_int(h, "tile", v->tiling.size[i]);
    return 0;
}

static void bind(vae *v, vae_binder *b)
{
    group_bind((group_vae *)v, b, &(group_convs){ nn_video_cube, nn_video_point, ".conv" });
}

static int frames(int f) { return RATIO_T * (f - 1) + 1; }

/* Each tile in time runs as one chunk. */
static const vae_net net = {
    .class = CLASS, .size = sizeof(group_vae), .pixel_frames = TILE_FRAMES + 1,
    .latent_frames = TILE_FRAMES / RATIO_T + 1, .edge = true, .frames = frames,
    .configure = configure, .bind = bind, .encode_chunk = encode_tile, .decode_chunk = decode_tile,
};

VAE_CLASS(vae_hunyuan, CLASS, net, frames);
