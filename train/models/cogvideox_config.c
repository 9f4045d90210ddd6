/* cogvideox_config.c - reads CogVideoX's config.json by a table of its fields; see cogvideox.h */
#include "train/models/cogvideox.h"

#include "formats/json/config.h"

enum { MAX_WIDTH = 16384 };

typedef cogvideox_config config;

static const vf_config_row rows[] = {
    VF_INT(config, heads, "num_attention_heads", 30, 1, 256),
    VF_INT(config, head, "attention_head_dim", 64, 16, 256),
    VF_INT(config, layers, "num_layers", 30, 1, 256),
    VF_INT(config, in_channels, "in_channels", 16, 1, 1024),
    VF_INT(config, out_channels, "out_channels", 16, 1, 1024),
    VF_INT(config, text, "text_embed_dim", 4096, 1, 65536),
    VF_INT(config, time, "time_embed_dim", 512, 1, 65536),
    VF_INT(config, ofs, "ofs_embed_dim", 0, 0, 65536),
    VF_INT(config, patch, "patch_size", 2, 1, 16),
    VF_INT(config, patch_t, "patch_size_t", 0, 1, 16),
    VF_INT(config, rows, "sample_height", 60, 1, 4096),
    VF_INT(config, columns, "sample_width", 90, 1, 4096),
    VF_INT(config, frames, "sample_frames", 49, 1, 65536),
    VF_INT(config, compression, "temporal_compression_ratio", 4, 1, 64),
    VF_INT(config, max_text, "max_text_seq_length", 226, 1, 65536),
    VF_NUM(config, eps, "norm_eps", 1e-5, 1e-12, 1),
    VF_NUM(config, spatial_scale, "spatial_interpolation_scale", 1.875, 1e-12, 1e6),
    VF_NUM(config, temporal_scale, "temporal_interpolation_scale", 1, 1e-12, 1e6),
    VF_FLAG(config, rotary, "use_rotary_positional_embeddings", false),
    VF_FLAG(config, learned, "use_learned_positional_embeddings", false),
    VF_FLAG(config, patch_bias, "patch_bias", true),
    VF_FLAG(config, control, "control_latents", false),
    { 0 }
};

/* Refuses fields that exclude each other. */
static int check_config(const cogvideox_config *c, vc_err *err)
{
    int64_t extra = c->in_channels - c->out_channels;
    if (c->head % 16 || c->heads * c->head > MAX_WIDTH)
        return vc_fail(err, VC_EFORMAT, "attention_head_dim must be a multiple of 16, and "
                       "num_attention_heads times attention_head_dim at most %d", MAX_WIDTH);
    if (c->control && extra != c->out_channels)
        return vc_fail(err, VC_EINVAL, "in_channels: a Control model reads the latents of a "
                       "control clip beside the noisy ones, so %lld channels with out_channels "
                       "%lld, not %lld", 2 * (long long)c->out_channels, (long long)c->out_channels,
                       (long long)c->in_channels);
    if (!c->rotary && c->learned)
        return vc_fail(err, VC_EINVAL, "use_learned_positional_embeddings without "
                       "use_rotary_positional_embeddings: no such model is known");
    if (c->patch_t && (!c->rotary || c->learned))
        return vc_fail(err, VC_EINVAL, "patch_size_t needs use_rotary_positional_embeddings and no "
                       "use_learned_positional_embeddings");
    if (c->ofs % 2 || (c->ofs && c->ofs != c->time))
        return vc_fail(err, VC_EINVAL, "ofs_embed_dim: %lld must be even and equal to "
                       "time_embed_dim, which is %lld", (long long)c->ofs, (long long)c->time);
    if (c->rows < c->patch || c->columns < c->patch)
        return vc_fail(err, VC_EFORMAT, "sample_height: %lld or sample_width: %lld is smaller than "
                       "patch_size: %lld", (long long)c->rows, (long long)c->columns,
                       (long long)c->patch);
    return 0;
}

int cogvideox_config_read(cogvideox_config *c, const cJSON *o, vc_err *err)
{
    int rc = vf_config_read(c, rows, o, err);
    return rc ? rc : check_config(c, err);
}
