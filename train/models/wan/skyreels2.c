/* skyreels2.c - SkyReels V2 (Chen et al. 2025): Wan 2.1's transformer, trained anew. Semantics and
 * names are those of diffusers' SkyReelsV2Transformer3DModel, in its variants:
 *
 *     T2V             one time for all frames
 *     I2V             as Wan's, with CLIP embeddings of the picture
 *     DF              diffusion forcing (Chen et al. 2024): each latent frame has a noise level of
 *                     its own; a sample may begin with clean frames
 *
 * inject_sample_info   the frame rate is an input of DF 1.3B: 16 a second, or another one
 * num_frame_per_block  frames attend to those of their block and of the blocks before: diffusers'
 *                      pipelines set it for samples that are made block by block
 */
#include "train/models/wan/wan.h"

#define USUAL_RATE 24                         /* frames per second of a prompt that gives none */

static const vf_config_row config_rows[] = {
    WAN_CONFIG(16, 8192, 32),
    VF_FLAG(wan, rate, "inject_sample_info", 0),
    VF_INT(wan, causal, "num_frame_per_block", 1, 1, 1024),
    { 0 }
};

static int read_config(void *model, const cJSON *config, vc_err *err)
{
    return wan_read_rows(model, config_rows, config, err);
}

static void fit(const void *model, vtrain_fit *fit)
{
    const wan *m = model;
    wan_fit(m, fit);
    fit->fps = m->rate ? USUAL_RATE : 0;
}

static const char *const spare[] = { "blocks.*.attn2.norm_added_q.weight", NULL };

const vtrain_family vtrain_skyreels2 = {
    .class_name = SKYREELS2_CLASS, .lora_names = skyreels2_names,
    .first_class = "SkyReelsV2Model", .convert = skyreels2_convert,
    .text_args = { "encoder_hidden_states" }, .time = VTRAIN_TIME_FRAMES,
    .size = sizeof(wan), .weights = offsetof(wan, w), .table = wan_table,
    .spare = spare,
    .read = read_config, .fit = fit, .prepare = wan_prepare, .embed = wan_embed,
    .blocks = { { "blocks.%d.", wan_block_table, sizeof(wan_block_weights), N_IN, 1, wan_block,
                  NULL, NULL } },
    .head = wan_head,
    .objective = VTRAIN_FLOW, .density = VTRAIN_LOGIT_NORMAL,
    .flow_shift = 8, .logit_mean = 0, .logit_std = 1,
    .posterior_mean = true, .bf16 = true,
    .lr_full = 1e-5, .lr_lora = 1e-4, .guidance = 6, .batch = 1, .steps = 1000,
    .lora_targets = "blocks\\.[0-9]+\\.attn[12]\\.(to_q|to_k|to_v|to_out\\.0)",
};
