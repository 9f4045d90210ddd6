/* ltx2_file.c - see ltx2_file.h */
#include "formats/tensors/ltx2_file.h"

#include <stdio.h>
#include <string.h>

#include "formats/tensors/model_parts.h"

enum { LEVELS = 8, MOST_LAYERS = 64, HEADS = 32, CAPTION = 3840, CONNECTOR_HEAD = 128,
       CONNECTOR_ROWS = 4096, MOST_SIZE = 1 << 24 };

/* ---- names ---- */

const vf_rename vf_ltx2_transformer[] = {
    { .from = "video_embeddings_connector" },      /* the connectors' */
    { .from = "audio_embeddings_connector" },
    { .from = "text_embedding_projection" },
    { .from = "patchify_proj", .to = "proj_in" },
    { .from = "audio_patchify_proj", .to = "audio_proj_in" },
    { .from = "adaln_single", .to = "time_embed" },
    { .from = "audio_adaln_single", .to = "audio_time_embed" },
    { .from = "prompt_adaln_single", .to = "prompt_adaln" },
    { .from = "audio_prompt_adaln_single", .to = "audio_prompt_adaln" },
    { .from = "av_ca_video_scale_shift_adaln_single", .to = "av_cross_attn_video_scale_shift" },
    { .from = "av_ca_audio_scale_shift_adaln_single", .to = "av_cross_attn_audio_scale_shift" },
    { .from = "av_ca_a2v_gate_adaln_single", .to = "av_cross_attn_video_a2v_gate" },
    { .from = "av_ca_v2a_gate_adaln_single", .to = "av_cross_attn_audio_v2a_gate" },
    { .from = "scale_shift_table_a2v_ca_video", .to = "video_a2v_cross_attn_scale_shift_table" },
    { .from = "scale_shift_table_a2v_ca_audio", .to = "audio_a2v_cross_attn_scale_shift_table" },
    { .from = "q_norm", .to = "norm_q" },
    { .from = "k_norm", .to = "norm_k" },
    { 0 }
};

/* Blocks and the steps between them are counted together. */
const vf_rename vf_ltx2_vae[] = {
    { .from = "encoder.down_blocks.1", .to = "encoder.down_blocks.0.downsamplers.0" },
    { .from = "encoder.down_blocks.2", .to = "encoder.down_blocks.1" },
    { .from = "encoder.down_blocks.3", .to = "encoder.down_blocks.1.downsamplers.0" },
    { .from = "encoder.down_blocks.4", .to = "encoder.down_blocks.2" },
    { .from = "encoder.down_blocks.5", .to = "encoder.down_blocks.2.downsamplers.0" },
    { .from = "encoder.down_blocks.6", .to = "encoder.down_blocks.3" },
    { .from = "encoder.down_blocks.7", .to = "encoder.down_blocks.3.downsamplers.0" },
    { .from = "encoder.down_blocks.8", .to = "encoder.mid_block" },
    { .from = "decoder.up_blocks.0", .to = "decoder.mid_block" },
    { .from = "decoder.up_blocks.1", .to = "decoder.up_blocks.0.upsamplers.0" },
    { .from = "decoder.up_blocks.2", .to = "decoder.up_blocks.0" },
    { .from = "decoder.up_blocks.3", .to = "decoder.up_blocks.1.upsamplers.0" },
    { .from = "decoder.up_blocks.4", .to = "decoder.up_blocks.1" },
    { .from = "decoder.up_blocks.5", .to = "decoder.up_blocks.2.upsamplers.0" },
    { .from = "decoder.up_blocks.6", .to = "decoder.up_blocks.2" },
    { .from = "decoder.up_blocks.7", .to = "decoder.up_blocks.3.upsamplers.0" },
    { .from = "decoder.up_blocks.8", .to = "decoder.up_blocks.3" },
    { .from = "res_blocks", .to = "resnets" },
    { .from = "per_channel_statistics.mean-of-means", .to = "latents_mean" },
    { .from = "per_channel_statistics.std-of-means", .to = "latents_std" },
    { .from = "per_channel_statistics" },
    { 0 }
};

#define PROJECTION "text_embedding_projection"
const vf_rename vf_ltx2_connectors[] = {
    { .from = "model.diffusion_model.video_embeddings_connector", .to = "video_connector" },
    { .from = "model.diffusion_model.audio_embeddings_connector", .to = "audio_connector" },
    { .from = "video_embeddings_connector", .to = "video_connector" },
    { .from = "audio_embeddings_connector", .to = "audio_connector" },
    { .from = "transformer_1d_blocks", .to = "transformer_blocks" },
    { .from = PROJECTION ".aggregate_embed", .to = "text_proj_in" },
    { .from = PROJECTION ".video_aggregate_embed", .to = "video_text_proj_in" },
    { .from = PROJECTION ".audio_aggregate_embed", .to = "audio_text_proj_in" },
    { .from = "q_norm", .to = "norm_q" },
    { .from = "k_norm", .to = "norm_k" },
    { 0 }
};
const char *const vf_ltx2_connectors_only[] = {
    "video_connector.", "audio_connector.", "text_proj_in.", "video_text_proj_in.",
    "audio_text_proj_in.", NULL
};

/* ---- sizes ---- */

const vf_sized vf_ltx2_transformer_sizes[] = {
    { .field = "in_channels", .tensor = "proj_in.weight", .axis = 1 },
    { .field = "out_channels", .tensor = "proj_out.weight" },
    { .field = "cross_attention_dim", .tensor = "proj_in.weight" },
    { .field = "audio_in_channels", .tensor = "audio_proj_in.weight", .axis = 1 },
    { .field = "audio_out_channels", .tensor = "audio_proj_out.weight" },
    { .field = "audio_cross_attention_dim", .tensor = "audio_proj_in.weight" },
    { .field = "num_layers", .tensor = "transformer_blocks.#.attn1.to_q.weight",
      .kind = VF_SIZE_COUNT },
    { 0 }
};
const vf_sized vf_ltx2_vae_sizes[] = {
    { .field = "latent_channels", .tensor = "decoder.conv_in.conv.weight", .axis = 1 },
    { 0 }
};

static int64_t size_of(const vf_model *m, const char *name, int axis)
{
    vf_view v;
    return !vf_model_get(m, name, &v, NULL) && v.nd > axis ? v.dim[axis] : 0;
}

static int64_t size_at(const vf_model *m, const char *format, int level, int axis)
{
    char name[96];
    snprintf(name, sizeof name, format, level);
    return size_of(m, name, axis);
}

static bool has(const vf_model *m, const char *name)
{
    return size_of(m, name, 0) > 0;
}

/* ---- the authors' configuration ---- */

/* Sets *all to the configuration in the metadata, which the caller deletes, and *section to a part
 * of it; both are NULL where there is none. */
static int read_theirs(cJSON **all, const cJSON **section, const vf_model *m, const char *name,
                       vc_err *err)
{
    const char *text = m->n_shards == 1 ? vf_safetensors_meta(m->shard[0], "config") : NULL;
    *all = NULL;
    *section = NULL;
    int rc = text ? vf_json_parse(all, text, strlen(text), err) : 0;
    if (!rc && cJSON_HasObjectItem(*all, name))
        rc = vf_json_obj(*all, name, section, err);
    if (rc) {
        cJSON_Delete(*all);
        *all = NULL;
    }
    return vc_context(err, rc, "\"config\" in the metadata");
}

typedef struct copied { const char *theirs, *ours; } copied;

/* Copies the fields that theirs has. */
static bool copy_fields(cJSON *config, const cJSON *theirs, const copied *fields)
{
    bool ok = true;
    for (; ok && fields->theirs; fields++) {
        const cJSON *v = theirs ? cJSON_GetObjectItemCaseSensitive(theirs, fields->theirs) : NULL;
        cJSON *copy = v ? cJSON_Duplicate(v, true) : NULL;
        if (!v)
            continue;
        cJSON_DeleteItemFromObjectCaseSensitive(config, fields->ours);
        ok = copy && cJSON_AddItemToObject(config, fields->ours, copy);
    }
    return ok;
}

static bool add_number(cJSON *config, const char *field, int64_t n)
{
    return cJSON_HasObjectItem(config, field) ||
           cJSON_AddNumberToObject(config, field, (double)n);
}

/* A size in the authors' configuration; 0: v is none. */
static int64_t size_in(const cJSON *v)
{
    return cJSON_IsNumber(v) && v->valuedouble >= 1 && v->valuedouble <= MOST_SIZE
               ? (int64_t)v->valuedouble : 0;
}

static bool add_flag(cJSON *config, const char *field, bool value)
{
    return cJSON_AddBoolToObject(config, field, value);
}

/* Frequencies are made in f64 in all released models. */
static bool add_precision(cJSON *config, const cJSON *theirs)
{
    const cJSON *word = theirs ? cJSON_GetObjectItemCaseSensitive(theirs, "frequencies_precision")
                               : NULL;
    const bool exact = theirs ? cJSON_IsString(word) && !strcmp(word->valuestring, "float64")
                              : true;
    return add_flag(config, "rope_double_precision", exact);
}

/* ---- the transformer ---- */

static const copied transformer_fields[] = {
    { "num_attention_heads", "num_attention_heads" },
    { "attention_head_dim", "attention_head_dim" },
    { "audio_num_attention_heads", "audio_num_attention_heads" },
    { "audio_attention_head_dim", "audio_attention_head_dim" },
    { "norm_eps", "norm_eps" }, { "rope_type", "rope_type" },
    { "positional_embedding_theta", "rope_theta" },
    { "timestep_scale_multiplier", "timestep_scale_multiplier" },
    { "av_ca_timestep_scale_multiplier", "cross_attn_timestep_scale_multiplier" },
    { "ff_bias", "ff_bias" }, { "audio_ff_bias", "audio_ff_bias" },
    { "use_prompt_adaln_single", "use_prompt_adaln_single" },
    { "use_keyframes_abs_pos_embedding", "use_keyframes_abs_pos_embedding" },
    { 0 }
};

/* The limits of seconds, rows and columns to which places are scaled. */
static bool add_limits(cJSON *config, const cJSON *theirs)
{
    static const char *const fields[] = { "pos_embed_max_pos", "base_height", "base_width" };
    const cJSON *list = theirs ? cJSON_GetObjectItemCaseSensitive(theirs,
                                                        "positional_embedding_max_pos") : NULL;
    bool ok = true;
    for (int i = 0; ok && i < 3 && i < cJSON_GetArraySize(list); i++)
        ok = cJSON_AddItemToObject(config, fields[i],
                                   cJSON_Duplicate(cJSON_GetArrayItem(list, i), true));
    return ok;
}

static bool add_transformer(cJSON *config, const vf_model *m, const cJSON *theirs)
{
    const char *const gates = "transformer_blocks.0.attn1.to_gate_logits.weight";
    const int64_t width = size_of(m, "proj_in.weight", 0);
    const int64_t sound = size_of(m, "audio_proj_in.weight", 0), of_gates = size_of(m, gates, 0);
    const int64_t caption = size_of(m, "caption_projection.linear_1.weight", 1);
    bool ok = copy_fields(config, theirs, transformer_fields) &&
              add_precision(config, theirs) && add_limits(config, theirs) &&
              add_number(config, "num_attention_heads", of_gates ? of_gates : HEADS);
    const int64_t heads = ok ? size_in(cJSON_GetObjectItem(config, "num_attention_heads")) : 0;
    const int64_t n = heads && heads <= width ? heads : 1;

    ok = ok && add_number(config, "attention_head_dim", width / n) &&
         add_number(config, "audio_num_attention_heads", n) &&
         add_number(config, "audio_attention_head_dim", sound / n) &&
         add_flag(config, "gated_attn", of_gates > 0) &&
         add_flag(config, "audio_gated_attn", of_gates > 0) &&
         add_flag(config, "cross_attn_mod", has(m, "prompt_adaln.linear.weight")) &&
         add_flag(config, "audio_cross_attn_mod", has(m, "audio_prompt_adaln.linear.weight")) &&
         add_flag(config, "perturbed_attn", of_gates > 0) &&
         add_flag(config, "use_prompt_embeddings", caption > 0);
    if (ok && caption)
        ok = add_number(config, "caption_channels", caption);
    if (ok && !cJSON_HasObjectItem(config, "cross_attn_timestep_scale_multiplier"))
        ok = cJSON_AddNumberToObject(config, "cross_attn_timestep_scale_multiplier", 1000);
    return ok && (cJSON_HasObjectItem(config, "rope_type") ||
                  cJSON_AddStringToObject(config, "rope_type", "split"));
}

int vf_ltx2_transformer_config(cJSON *config, const vf_model *m, vc_err *err)
{
    cJSON *all;
    const cJSON *theirs;
    int rc = read_theirs(&all, &theirs, m, "transformer", err);
    if (!rc && !add_transformer(config, m, theirs))
        rc = vc_no_memory(err);
    cJSON_Delete(all);
    return rc;
}

/* ---- the autoencoder ---- */

static const copied vae_fields[] = {
    { "spatial_padding_mode", "decoder_spatial_padding_mode" },
    { "encoder_spatial_padding_mode", "encoder_spatial_padding_mode" },
    { "causal_decoder", "decoder_causal" },
    { 0 }
};

/* The levels of a coder: the channels of each, from the first that runs, those of its step, and
 * the number of its layers. The block that has no step counts as a level too. */
typedef struct levels {
    int n;
    int64_t width[LEVELS + 1], step[LEVELS + 1], layers[LEVELS + 1];
} levels;

static int64_t count_layers(const vf_model *m, const char *block, int level)
{
    char format[64], name[96];
    int n = 0;
    snprintf(format, sizeof format, block, level);
    do
        snprintf(name, sizeof name, "%sresnets.%d.conv1.conv.weight", format, n);
    while (has(m, name) && ++n < MOST_LAYERS);
    return n;
}

static void add_level(levels *l, const vf_model *m, const char *block, int level, int64_t step)
{
    char format[96];
    snprintf(format, sizeof format, "%sresnets.0.conv1.conv.weight", block);
    l->width[l->n] = size_at(m, format, level, 0);
    l->layers[l->n] = count_layers(m, block, level);
    l->step[l->n++] = step;
}

static void read_encoder(levels *l, const vf_model *m)
{
    for (int i = 0; i < LEVELS; i++) {
        const int64_t step = size_at(m, "encoder.down_blocks.%d.downsamplers.0.conv.conv.weight",
                                     i, 0);
        if (!step)
            break;
        add_level(l, m, "encoder.down_blocks.%d.", i, step);
    }
    add_level(l, m, "encoder.mid_block.", 0, 0);
}

static void read_decoder(levels *l, const vf_model *m)
{
    add_level(l, m, "decoder.mid_block.", 0, 0);
    for (int i = 0; i < LEVELS; i++) {
        const int64_t step = size_at(m, "decoder.up_blocks.%d.upsamplers.0.conv.conv.weight", i,
                                     0);
        if (!step)
            break;
        add_level(l, m, "decoder.up_blocks.%d.", i, step);
    }
}

/* The word for a step over so many places; NULL: there is none. */
static const char *word_of(int64_t places)
{
    return places == 2 ? "temporal" : places == 4 ? "spatial" : places == 8 ? "spatiotemporal"
                                                                            : NULL;
}

static bool append(cJSON *list, cJSON *v)
{
    return list && v && cJSON_AddItemToArray(list, v);
}

/* The lists of the encoder, which begin with the finest level. */
static bool add_encoder(cJSON *config, const levels *l)
{
    cJSON *width = cJSON_AddArrayToObject(config, "block_out_channels");
    cJSON *layers = cJSON_AddArrayToObject(config, "layers_per_block");
    cJSON *step = cJSON_AddArrayToObject(config, "downsample_type");
    cJSON *kind = cJSON_AddArrayToObject(config, "down_block_types");
    cJSON *halves = cJSON_AddArrayToObject(config, "spatio_temporal_scaling");
    bool ok = true;
    for (int i = 0; ok && i + 1 < l->n; i++)
        ok = append(width, cJSON_CreateNumber((double)l->width[i + 1])) &&
             append(step, cJSON_CreateString(word_of(l->width[i + 1] / l->step[i]))) &&
             append(kind, cJSON_CreateString("LTX2VideoDownBlock3D")) &&
             append(halves, cJSON_CreateTrue());
    for (int i = 0; ok && i < l->n; i++)
        ok = append(layers, cJSON_CreateNumber((double)l->layers[i]));
    return ok;
}

/* Whether the step to level i of the decoder adds its input: the authors' list of blocks says so,
 * or the number of levels, which is the version's. */
static bool is_residual(const levels *l, const cJSON *theirs, int i)
{
    const cJSON *list = theirs ? cJSON_GetObjectItemCaseSensitive(theirs, "decoder_blocks") : NULL;
    const cJSON *b;
    int n = 0;
    cJSON_ArrayForEach(b, list) {
        const cJSON *name = cJSON_GetArrayItem(b, 0), *o = cJSON_GetArrayItem(b, 1);
        if (!cJSON_IsString(name) || strncmp(name->valuestring, "compress", 8))
            continue;
        if (++n == l->n - i)                  /* the list begins with the finest level */
            return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, "residual"));
    }
    return l->n == 4;
}

/* The lists of the decoder, which begin with the finest level, but for those of the steps. */
static bool add_decoder(cJSON *config, const levels *l, const cJSON *theirs)
{
    cJSON *width = cJSON_AddArrayToObject(config, "decoder_block_out_channels");
    cJSON *layers = cJSON_AddArrayToObject(config, "decoder_layers_per_block");
    cJSON *factor = cJSON_AddArrayToObject(config, "upsample_factor");
    cJSON *residual = cJSON_AddArrayToObject(config, "upsample_residual");
    cJSON *halves = cJSON_AddArrayToObject(config, "decoder_spatio_temporal_scaling");
    cJSON *noise = cJSON_AddArrayToObject(config, "decoder_inject_noise");
    cJSON *step = cJSON_AddArrayToObject(config, "upsample_type");
    bool ok = append(noise, cJSON_CreateFalse());
    for (int i = l->n - 1; ok && i > 0; i--)
        ok = append(width, cJSON_CreateNumber((double)l->width[i - 1])) &&
             append(factor, cJSON_CreateNumber((double)(l->width[i - 1] / l->width[i]))) &&
             append(residual, cJSON_CreateBool(is_residual(l, theirs, i))) &&
             append(halves, cJSON_CreateTrue()) && append(noise, cJSON_CreateFalse());
    for (int i = l->n - 1; ok && i >= 0; i--)
        ok = append(layers, cJSON_CreateNumber((double)l->layers[i]));
    for (int i = 1; ok && i < l->n; i++)
        ok = append(step, cJSON_CreateString(word_of(l->step[i] / l->width[i])));
    return ok;
}

/* Every level has layers, and every step is one over 2, 4 or 8 places. */
static int check_levels(const levels *l, bool decoder, vc_err *err)
{
    for (int i = 0; i < l->n; i++)
        if (!l->layers[i])
            return vc_fail(err, VC_EFORMAT, "%s: block %d of %d has no res_blocks",
                           decoder ? "decoder.up_blocks" : "encoder.down_blocks", i, l->n);
    for (int i = 0; i + 1 < l->n; i++) {
        const int64_t wide = decoder ? l->step[i + 1] : l->width[i + 1];
        const int64_t narrow = decoder ? l->width[i + 1] : l->step[i];
        if (wide % narrow || !word_of(wide / narrow))
            return vc_fail(err, VC_EFORMAT, "%s: step %d makes %lld of %lld channels, which is "
                           "no step over 2, 4 or 8 places",
                           decoder ? "decoder.up_blocks" : "encoder.down_blocks", i,
                           (long long)wide, (long long)narrow);
        if (decoder && (l->width[i] % l->width[i + 1]))
            return vc_fail(err, VC_EFORMAT, "decoder.up_blocks: level %d has %lld channels, which "
                           "do not divide %lld", i, (long long)l->width[i + 1],
                           (long long)l->width[i]);
    }
    return 0;
}

static bool add_vae(cJSON *config, const vf_model *m, const levels *down, const levels *up,
                    const cJSON *theirs)
{
    int64_t side = 1;
    const int64_t of_patch = size_of(m, "encoder.conv_in.conv.weight", 1) / 3;
    while (side * side < of_patch)
        side++;
    bool ok = add_encoder(config, down) && add_decoder(config, up, theirs) &&
              copy_fields(config, theirs, vae_fields) && add_number(config, "patch_size", side);
    if (ok && !cJSON_HasObjectItem(config, "decoder_causal"))
        ok = add_flag(config, "decoder_causal", false);
    return ok && (cJSON_HasObjectItem(config, "decoder_spatial_padding_mode") ||
                  cJSON_AddStringToObject(config, "decoder_spatial_padding_mode",
                                          up->n == 4 ? "reflect" : "zeros"));
}

int vf_ltx2_vae_config(cJSON *config, const vf_model *m, vc_err *err)
{
    levels down = { 0 }, up = { 0 };
    cJSON *all;
    const cJSON *theirs;
    if (has(m, "decoder.last_scale_shift_table") || has(m, "decoder.last_time_embedder."
                                                           "timestep_embedder.linear_1.weight"))
        return vc_fail(err, VC_EFORMAT, "decoder.last_scale_shift_table: the decoder reads a "
                       "timestep, as LTX-Video's of 0.9: give the folder with its config.json");
    read_encoder(&down, m);
    read_decoder(&up, m);
    int rc = check_levels(&down, false, err);
    if (!rc)
        rc = check_levels(&up, true, err);
    if (!rc)
        rc = read_theirs(&all, &theirs, m, "vae", err);
    if (rc)
        return rc;
    if (!add_vae(config, m, &down, &up, theirs))
        rc = vc_no_memory(err);
    cJSON_Delete(all);
    return rc;
}

/* ---- the connectors ---- */

static const copied connector_fields[] = {
    { "connector_attention_head_dim", "video_connector_attention_head_dim" },
    { "connector_num_attention_heads", "video_connector_num_attention_heads" },
    { "audio_connector_attention_head_dim", "audio_connector_attention_head_dim" },
    { "audio_connector_num_attention_heads", "audio_connector_num_attention_heads" },
    { "rope_type", "rope_type" }, { "caption_channels", "caption_channels" },
    { 0 }
};

/* Adds the fields of one stream, as far as the file has its connector. Both streams have as many
 * heads where nothing else is known. */
static bool add_connector(cJSON *config, const vf_model *m, const char *stream)
{
    static const char *const endings[] = {
        "_connector_attention_head_dim", "_connector_num_attention_heads", "_connector_num_layers",
        "_connector_num_learnable_registers", "_gated_attn"
    };
    char name[96], field[5][64];
    int layers = 0;
    for (int i = 0; i < 5; i++)
        snprintf(field[i], sizeof *field, "%s%s", stream, endings[i]);
    snprintf(name, sizeof name, "%s_connector.learnable_registers", stream);
    const int64_t registers = size_of(m, name, 0), width = size_of(m, name, 1);
    snprintf(name, sizeof name, "%s_connector.transformer_blocks.0.attn1.to_gate_logits.weight",
             stream);
    const int64_t gates = size_of(m, name, 0);
    if (!registers)
        return true;
    do
        snprintf(name, sizeof name, "%s_connector.transformer_blocks.%d.attn1.to_q.weight", stream,
                 layers);
    while (has(m, name) && ++layers < MOST_LAYERS);
    const int64_t given = size_in(cJSON_GetObjectItem(config, field[0]));
    const int64_t heads = size_in(cJSON_GetObjectItem(config,
                                                      "video_connector_num_attention_heads"));
    const int64_t dim = gates && gates <= width ? width / gates : given ? given
                        : heads && heads <= width ? width / heads : CONNECTOR_HEAD;
    return add_number(config, field[0], dim) && add_number(config, field[1], width / dim) &&
           add_number(config, field[2], layers) && add_number(config, field[3], registers) &&
           add_flag(config, field[4], gates > 0);
}

/* Adds the fields of the layers that make features of a text encoder's states. In 2.0 features are
 * as wide as a state. */
static bool add_projection(cJSON *config, const vf_model *m)
{
    const char *const two = "video_text_proj_in.weight", *const one = "text_proj_in.weight";
    const bool both = has(m, two);
    const int64_t width = size_of(m, both ? two : one, 0), all = size_of(m, both ? two : one, 1);
    if (!width)
        return true;
    const int64_t wide = size_in(cJSON_GetObjectItem(config, "caption_channels"));
    const int64_t channels = !both ? width : wide ? wide : CAPTION;
    cJSON_DeleteItemFromObjectCaseSensitive(config, "caption_channels");
    bool ok = add_number(config, "caption_channels", channels) &&
              add_number(config, "text_proj_in_factor", all / channels) &&
              add_flag(config, "per_modality_projections", both) &&
              add_flag(config, "proj_bias", both);
    return ok && (!both || (add_number(config, "video_hidden_dim", width) &&
                            add_number(config, "audio_hidden_dim",
                                       size_of(m, "audio_text_proj_in.weight", 0))));
}

/* The number of places to which those of a prompt's rows are scaled. */
static bool add_base(cJSON *config, const cJSON *theirs)
{
    const cJSON *list = theirs ? cJSON_GetObjectItemCaseSensitive(theirs,
                                         "connector_positional_embedding_max_pos") : NULL;
    const int64_t rows = size_in(cJSON_GetArrayItem(list, 0));
    return add_number(config, "connector_rope_base_seq_len", rows ? rows : CONNECTOR_ROWS);
}

int vf_ltx2_connectors_config(cJSON *config, const vf_model *m, vc_err *err)
{
    cJSON *all;
    const cJSON *theirs;
    int rc = read_theirs(&all, &theirs, m, "transformer", err);
    if (rc)
        return rc;
    bool ok = copy_fields(config, theirs, connector_fields) && add_precision(config, theirs) &&
              add_base(config, theirs) && add_connector(config, m, "video") &&
              add_connector(config, m, "audio") && add_projection(config, m);
    if (ok && !cJSON_HasObjectItem(config, "rope_type"))
        ok = cJSON_AddStringToObject(config, "rope_type", "split");
    cJSON_Delete(all);
    return ok ? 0 : vc_no_memory(err);
}
