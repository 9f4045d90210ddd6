#include "train/models/cogvideox.h"

#include <stddef.h>
#include <string.h>

#define COUNT(a) (sizeof (a) / sizeof *(a))
enum { MAX_WIDTH = 16384 };

#define SIZE(field, name, value, min, max) \
    { name, offsetof(cogvideox_config, field), value, min, max }

static const struct size_field {
    const char *name;
    size_t at;
    int64_t value, min, max;
} size_fields[] = {
    SIZE(heads, "num_attention_heads", 30, 1, 256),
    SIZE(head, "attention_head_dim", 64, 16, 256),
    SIZE(layers, "num_layers", 30, 1, 256),
    SIZE(in_channels, "in_channels", 16, 1, 1024),
    SIZE(out_channels, "out_channels", 16, 1, 1024),
    SIZE(text, "text_embed_dim", 4096, 1, 65536),
    SIZE(time, "time_embed_dim", 512, 1, 65536),
    SIZE(ofs, "ofs_embed_dim", 0, 0, 65536),
    SIZE(patch, "patch_size", 2, 1, 16),
    SIZE(patch_t, "patch_size_t", 0, 1, 16),
    SIZE(rows, "sample_height", 60, 1, 4096),
    SIZE(columns, "sample_width", 90, 1, 4096),
    SIZE(frames, "sample_frames", 49, 1, 65536),
    SIZE(compression, "temporal_compression_ratio", 4, 1, 64),
    SIZE(max_text, "max_text_seq_length", 226, 1, 65536),
};

static const struct number_field {
    const char *name;
    size_t at;
    double value, max;                        /* above 0, at most max */
} number_fields[] = {
    { "norm_eps", offsetof(cogvideox_config, eps), 1e-5, 1 },
    { "spatial_interpolation_scale", offsetof(cogvideox_config, spatial_scale), 1.875, 1e6 },
    { "temporal_interpolation_scale", offsetof(cogvideox_config, temporal_scale), 1, 1e6 },
};

static const struct flag_field {
    const char *name;
    size_t at;
    bool value;
} flag_fields[] = {
    { "use_rotary_positional_embeddings", offsetof(cogvideox_config, rotary), false },
    { "use_learned_positional_embeddings", offsetof(cogvideox_config, learned), false },
    { "patch_bias", offsetof(cogvideox_config, patch_bias), true },
};

/* Fields that no checkpoint has otherwise. */
static const struct { const char *name; bool must; } fixed_flags[] = {
    { "flip_sin_to_cos", true }, { "attention_bias", true }, { "norm_elementwise_affine", true },
};
static const struct { const char *name, *must; } fixed_words[] = {
    { "activation_fn", "gelu-approximate" }, { "timestep_activation_fn", "silu" },
};
static const char *const fixed_zeros[] = { "freq_shift", "dropout" };

static int read_size(cogvideox_config *c, const cJSON *config, const struct size_field *f,
                     vc_err *err)
{
    int64_t *v = (int64_t *)(void *)((char *)c + f->at), given = f->value;
    int rc = vf_json_int_opt(config, f->name, &given, err);
    *v = given;
    if (!rc && given != f->value && (given < f->min || given > f->max))
        rc = vc_fail(err, VC_EFORMAT, "%s: %lld is not within %lld..%lld", f->name,
                     (long long)given, (long long)f->min, (long long)f->max);
    return rc;
}

static int read_number(cogvideox_config *c, const cJSON *config, const struct number_field *f,
                       vc_err *err)
{
    double *v = (double *)(void *)((char *)c + f->at);
    *v = f->value;
    int rc = vf_json_num_opt(config, f->name, v, err);
    if (!rc && !(*v >= 1e-12 && *v <= f->max))
        rc = vc_fail(err, VC_EFORMAT, "%s: %g is not within 1e-12..%g", f->name, *v, f->max);
    return rc;
}

static int check_fixed(const cJSON *config, vc_err *err)
{
    int rc = 0;
    for (size_t i = 0; !rc && i < COUNT(fixed_flags); i++) {
        bool v = fixed_flags[i].must;
        rc = vf_json_bool_opt(config, fixed_flags[i].name, &v, err);
        if (!rc && v != fixed_flags[i].must)
            rc = vc_fail(err, VC_EINVAL, "%s: only %s can be trained", fixed_flags[i].name,
                         fixed_flags[i].must ? "true" : "false");
    }
    for (size_t i = 0; !rc && i < COUNT(fixed_words); i++) {
        const char *v = fixed_words[i].must;
        rc = vf_json_str_opt(config, fixed_words[i].name, &v, err);
        if (!rc && strcmp(v, fixed_words[i].must))
            rc = vc_fail(err, VC_EINVAL, "%s: \"%.40s\", only \"%s\" can be trained",
                         fixed_words[i].name, v, fixed_words[i].must);
    }
    for (size_t i = 0; !rc && i < COUNT(fixed_zeros); i++) {
        double v = 0;
        rc = vf_json_num_opt(config, fixed_zeros[i], &v, err);
        if (!rc && v != 0)
            rc = vc_fail(err, VC_EINVAL, "%s: %g, only 0 can be trained", fixed_zeros[i], v);
    }
    return rc;
}

/* Fields that do not go together. */
static int check_config(const cogvideox_config *c, vc_err *err)
{
    int64_t extra = c->in_channels - c->out_channels;
    if (c->head % 16 || c->heads * c->head > MAX_WIDTH)
        return vc_fail(err, VC_EFORMAT, "attention_head_dim must be a multiple of 16, and "
                       "num_attention_heads times it at most %d", MAX_WIDTH);
    if (extra != 0 && extra != c->out_channels && extra != c->out_channels + 1)
        return vc_fail(err, VC_EINVAL, "in_channels: %lld with out_channels %lld; known are %lld "
                       "(text), %lld (and an image) and %lld (and a mask and its video)",
                       (long long)c->in_channels, (long long)c->out_channels,
                       (long long)c->out_channels, 2 * (long long)c->out_channels,
                       2 * (long long)c->out_channels + 1);
    if (!c->rotary && c->learned)
        return vc_fail(err, VC_EINVAL, "use_learned_positional_embeddings without "
                       "use_rotary_positional_embeddings: no such model exists");
    if (c->patch_t && (!c->rotary || c->learned))
        return vc_fail(err, VC_EINVAL, "patch_size_t needs use_rotary_positional_embeddings and no "
                       "use_learned_positional_embeddings");
    if (c->ofs % 2 || (c->ofs && c->ofs != c->time))
        return vc_fail(err, VC_EINVAL, "ofs_embed_dim: %lld, it must be even and time_embed_dim, "
                       "which is %lld", (long long)c->ofs, (long long)c->time);
    if (c->rows < c->patch || c->columns < c->patch)
        return vc_fail(err, VC_EFORMAT, "sample_height, sample_width: smaller than patch_size");
    return 0;
}

int cogvideox_config_read(cogvideox_config *c, const cJSON *config, vc_err *err)
{
    int rc = check_fixed(config, err);
    for (size_t i = 0; !rc && i < COUNT(size_fields); i++)
        rc = read_size(c, config, &size_fields[i], err);
    for (size_t i = 0; !rc && i < COUNT(number_fields); i++)
        rc = read_number(c, config, &number_fields[i], err);
    for (size_t i = 0; !rc && i < COUNT(flag_fields); i++) {
        bool *v = (bool *)((char *)c + flag_fields[i].at);
        *v = flag_fields[i].value;
        rc = vf_json_bool_opt(config, flag_fields[i].name, v, err);
    }
    return rc ? rc : check_config(c, err);
}
