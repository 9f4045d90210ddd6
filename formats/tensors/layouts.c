/* layouts.c - files of single components, as their first authors and ComfyUI's users have them: see
 * component.h */
#include "formats/tensors/component.h"
#include "formats/tensors/cosmos2_file.h"
#include "formats/tensors/krea2_file.h"
#include "formats/tensors/ltx2_file.h"

/* ---- Wan and Qwen-Image: the autoencoder ---- */

#define UP(at, block, resnet) \
    { .from = "decoder.upsamples." at, .to = "decoder.up_blocks." block "." resnet }
static const vf_rename wan_vae[] = {
    { .from = "encoder.conv1", .to = "encoder.conv_in" },
    { .from = "decoder.conv1", .to = "decoder.conv_in" },
    { .from = "conv1", .to = "quant_conv" },
    { .from = "conv2", .to = "post_quant_conv" },
    { .from = "head.0", .to = "norm_out" },
    { .from = "head.2", .to = "conv_out" },
    { .from = "middle.0", .to = "mid_block.resnets.0" },
    { .from = "middle.1", .to = "mid_block.attentions.0" },
    { .from = "middle.2", .to = "mid_block.resnets.1" },
    /* version 2.2 nests the blocks of a level; its last block is the step to the next level */
    { .from = "downsamples.#.downsamples.2", .to = "down_blocks.#.downsampler" },
    { .from = "downsamples.#.downsamples.#", .to = "down_blocks.#.resnets.#" },
    { .from = "upsamples.#.upsamples.3", .to = "up_blocks.#.upsampler" },
    { .from = "upsamples.#.upsamples.#", .to = "up_blocks.#.resnets.#" },
    /* version 2.1 counts blocks and steps one by one */
    { .from = "downsamples.#", .to = "down_blocks.#" },
    UP("0", "0", "resnets.0"), UP("1", "0", "resnets.1"), UP("2", "0", "resnets.2"),
    UP("3", "0", "upsamplers.0"),
    UP("4", "1", "resnets.0"), UP("5", "1", "resnets.1"), UP("6", "1", "resnets.2"),
    UP("7", "1", "upsamplers.0"),
    UP("8", "2", "resnets.0"), UP("9", "2", "resnets.1"), UP("10", "2", "resnets.2"),
    UP("11", "2", "upsamplers.0"),
    UP("12", "3", "resnets.0"), UP("13", "3", "resnets.1"), UP("14", "3", "resnets.2"),
    { .from = "residual.0", .to = "norm1" },
    { .from = "residual.2", .to = "conv1" },
    { .from = "residual.3", .to = "norm2" },
    { .from = "residual.6", .to = "conv2" },
    { .from = "shortcut", .to = "conv_shortcut" },
    { 0 }
};
#undef UP
static const vf_sized wan_vae_sizes[] = {
    { .field = "base_dim", .tensor = "encoder.conv_in.weight" },
    { .field = "decoder_base_dim", .tensor = "decoder.conv_in.weight", .divide = 4 },
    { .field = "z_dim", .tensor = "post_quant_conv.weight" },
    { 0 }
};
#define WAN_VAE \
    "\"dim_mult\":[1,2,4,4],\"num_res_blocks\":2,\"attn_scales\":[]," \
    "\"temperal_downsample\":[false,true,true],"
static const char wan_vae_config[] = "{" WAN_VAE "\"is_residual\":false}";
static const char wan22_vae_config[] =
    "{" WAN_VAE "\"is_residual\":true,\"in_channels\":12,\"out_channels\":12,\"patch_size\":2,"
    "\"scale_factor_spatial\":16}";

/* ---- FLUX.1 and FLUX.2: the autoencoder ---- */

/* FLUX.2's authors have the convolutions of the latent within the coders. */
static const vf_rename flux_vae[] = {
    { .from = "encoder.quant_conv", .to = "quant_conv" },
    { .from = "decoder.post_quant_conv", .to = "post_quant_conv" },
    { .from = "encoder.down.#.block.#", .to = "encoder.down_blocks.#.resnets.#" },
    { .from = "encoder.down.#.downsample", .to = "encoder.down_blocks.#.downsamplers.0" },
    /* the decoder's levels are counted from the finest, diffusers' from the coarsest */
    { .from = "decoder.up.3.block.#", .to = "decoder.up_blocks.0.resnets.#" },
    { .from = "decoder.up.2.block.#", .to = "decoder.up_blocks.1.resnets.#" },
    { .from = "decoder.up.1.block.#", .to = "decoder.up_blocks.2.resnets.#" },
    { .from = "decoder.up.0.block.#", .to = "decoder.up_blocks.3.resnets.#" },
    { .from = "decoder.up.3.upsample", .to = "decoder.up_blocks.0.upsamplers.0" },
    { .from = "decoder.up.2.upsample", .to = "decoder.up_blocks.1.upsamplers.0" },
    { .from = "decoder.up.1.upsample", .to = "decoder.up_blocks.2.upsamplers.0" },
    { .from = "mid.block_1", .to = "mid_block.resnets.0" },
    { .from = "mid.block_2", .to = "mid_block.resnets.1" },
    { .from = "mid.attn_1.norm", .to = "mid_block.attentions.0.group_norm" },
    { .from = "mid.attn_1.q", .to = "mid_block.attentions.0.to_q", .squeeze = true },
    { .from = "mid.attn_1.k", .to = "mid_block.attentions.0.to_k", .squeeze = true },
    { .from = "mid.attn_1.v", .to = "mid_block.attentions.0.to_v", .squeeze = true },
    { .from = "mid.attn_1.proj_out", .to = "mid_block.attentions.0.to_out.0", .squeeze = true },
    { .from = "norm_out", .to = "conv_norm_out" },
    { .from = "nin_shortcut", .to = "conv_shortcut" },
    { 0 }
};
#define FLUX_VAE_SIZES \
    { .field = "block_out_channels", .tensor = "encoder.down_blocks.#.resnets.0.conv1.weight", \
      .kind = VF_SIZE_LIST }, \
    { .field = "layers_per_block", .tensor = "encoder.down_blocks.0.resnets.#.conv1.weight", \
      .kind = VF_SIZE_COUNT }, \
    { .field = "latent_channels", .tensor = "decoder.conv_in.weight", .axis = 1 }
static const vf_sized flux_vae_sizes[] = { FLUX_VAE_SIZES, { 0 } };
/* The decoder may be narrower than the encoder. */
static const vf_sized flux2_vae_sizes[] = {
    FLUX_VAE_SIZES,
    { .field = "decoder_block_out_channels",
      .tensor = "decoder.up_blocks.#.resnets.0.conv1.weight", .kind = VF_SIZE_LAST_FIRST },
    { 0 }
};
static const char flux_vae_config[] =
    "{\"scaling_factor\":0.3611,\"shift_factor\":0.1159,\"use_quant_conv\":false,"
    "\"use_post_quant_conv\":false,\"norm_num_groups\":32,\"sample_size\":1024}";
static const char flux2_vae_config[] = "{\"norm_num_groups\":32,\"sample_size\":1024}";

/* ---- HunyuanVideo: the autoencoder, whose file has diffusers' names ---- */

static const vf_sized hunyuan_vae_sizes[] = {
    { .field = "block_out_channels", .tensor = "encoder.down_blocks.#.resnets.0.conv1.conv.weight",
      .kind = VF_SIZE_LIST },
    { .field = "layers_per_block", .tensor = "encoder.down_blocks.0.resnets.#.conv1.conv.weight",
      .kind = VF_SIZE_COUNT },
    { .field = "latent_channels", .tensor = "decoder.conv_in.conv.weight", .axis = 1 },
    { 0 }
};
static const char hunyuan_vae_config[] = "{\"scaling_factor\":0.476986,\"norm_num_groups\":32}";

/* ---- T5 and UMT5 ---- */

#define LAYER "encoder.block.#.layer."
static const vf_rename wan_t5[] = {
    { .from = "token_embedding", .to = "shared" },
    { .from = "norm", .to = "encoder.final_layer_norm" },
    { .from = "blocks.#.norm1", .to = LAYER "0.layer_norm" },
    { .from = "blocks.#.attn", .to = LAYER "0.SelfAttention" },
    { .from = "blocks.#.pos_embedding.embedding",
      .to = LAYER "0.SelfAttention.relative_attention_bias" },
    { .from = "blocks.#.norm2", .to = LAYER "1.layer_norm" },
    { .from = "blocks.#.ffn.gate.0", .to = LAYER "1.DenseReluDense.wi_0" },
    { .from = "blocks.#.ffn.fc1", .to = LAYER "1.DenseReluDense.wi_1" },
    { .from = "blocks.#.ffn.fc2", .to = LAYER "1.DenseReluDense.wo" },
    { 0 }
};
/* ComfyUI's files hold the tokenizer beside the weights. */
static const vf_rename transformers_t5[] = {
    { .from = "spiece_model" },
    { 0 }
};
#define T5_SIZES(wi) { \
    { .field = "d_model", .tensor = "encoder.final_layer_norm.weight" }, \
    { .field = "vocab_size", .tensor = "shared.weight" }, \
    { .field = "num_heads", .tensor = LAYER "0.SelfAttention.relative_attention_bias.weight", \
      .axis = 1 }, \
    { .field = "d_kv", .tensor = LAYER "0.SelfAttention.q.weight", .by = "num_heads" }, \
    { .field = "d_ff", .tensor = LAYER "1.DenseReluDense." wi ".weight" }, \
    { .field = "num_layers", .tensor = LAYER "0.SelfAttention.q.weight", .kind = VF_SIZE_COUNT }, \
    { 0 } }
static const vf_sized t5_sizes[] = T5_SIZES("wi_0"), t5_relu_sizes[] = T5_SIZES("wi");
#define T5(proj) \
    "\"feed_forward_proj\":\"" proj "\",\"layer_norm_epsilon\":1e-6," \
    "\"relative_attention_num_buckets\":32,\"relative_attention_max_distance\":128}"
static const char t5_config[] = "{\"model_type\":\"t5\"," T5("gated-gelu");
static const char t5_relu_config[] = "{\"model_type\":\"t5\"," T5("relu");
static const char umt5_config[] = "{\"model_type\":\"umt5\"," T5("gated-gelu");

/* ---- CLIP ---- */

/* Wan's file also has a text model, and the projection of pictures. */
static const vf_rename wan_clip[] = {
    { .from = "textual" },
    { .from = "log_scale" },
    { .from = "visual.head" },
    { .from = "visual.cls_embedding",
      .to = "vision_model.embeddings.class_embedding", .squeeze = true },
    { .from = "visual.pos_embedding",
      .to = "vision_model.embeddings.position_embedding.weight", .squeeze = true },
    { .from = "visual.patch_embedding", .to = "vision_model.embeddings.patch_embedding" },
    { .from = "visual.pre_norm", .to = "vision_model.pre_layrnorm" },
    { .from = "visual.post_norm", .to = "vision_model.post_layernorm" },
    { .from = "visual.transformer.#", .to = "vision_model.encoder.layers.#" },
    { .from = "attn.to_qkv", .to = "self_attn.{q,k,v}_proj" },
    { .from = "attn.proj", .to = "self_attn.out_proj" },
    { .from = "norm1", .to = "layer_norm1" },
    { .from = "norm2", .to = "layer_norm2" },
    { .from = "mlp.0", .to = "mlp.fc1" },
    { .from = "mlp.2", .to = "mlp.fc2" },
    { 0 }
};
#define CLIP_SIZES_OF(model, head) \
    { .field = "hidden_size", .tensor = model "encoder.layers.#.layer_norm1.weight" }, \
    { .field = "intermediate_size", .tensor = model "encoder.layers.#.mlp.fc1.weight" }, \
    { .field = "num_hidden_layers", .tensor = model "encoder.layers.#.layer_norm1.weight", \
      .kind = VF_SIZE_COUNT }, \
    { .field = "num_attention_heads", .tensor = model "encoder.layers.#.layer_norm1.weight", \
      .divide = head }
static const vf_sized clip_vision_sizes[] = {
    CLIP_SIZES_OF("vision_model.", 80),
    { .field = "patch_size", .tensor = "vision_model.embeddings.patch_embedding.weight",
      .axis = 2 },
    { 0 }
};
static const vf_sized clip_text_sizes[] = {
    CLIP_SIZES_OF("text_model.", 64),
    { .field = "projection_dim", .tensor = "text_model.encoder.layers.#.layer_norm1.weight" },
    { .field = "vocab_size", .tensor = "text_model.embeddings.token_embedding.weight" },
    { .field = "max_position_embeddings",
      .tensor = "text_model.embeddings.position_embedding.weight" },
    { 0 }
};
static const char clip_vision_config[] =
    "{\"model_type\":\"clip_vision_model\",\"hidden_act\":\"gelu\",\"layer_norm_eps\":1e-5,"
    "\"image_size\":224}";
/* transformers' config.json of CLIP-L has 2, the number of an older tokenizer, for the end. */
static const char clip_text_config[] =
    "{\"model_type\":\"clip_text_model\",\"hidden_act\":\"quick_gelu\",\"layer_norm_eps\":1e-5,"
    "\"eos_token_id\":2}";

/* CLIP-G of Stable Diffusion 3 and XL, the released one of 32 layers. */
static const char clip_g_config[] =
    "{\"model_type\":\"clip_text_model\",\"hidden_act\":\"gelu\",\"layer_norm_eps\":1e-5,"
    "\"eos_token_id\":2}";

/* ---- decoders, in ComfyUI's files, whose names are those of transformers ---- */

#define DECODER(i) "model.layers." i "."
#define DECODER_SIZES(model) { \
    { .field = "hidden_size", .tensor = model "embed_tokens.weight", .axis = 1 }, \
    { .field = "vocab_size", .tensor = model "embed_tokens.weight" }, \
    { .field = "intermediate_size", .tensor = model "layers.0.mlp.gate_proj.weight" }, \
    { .field = "num_attention_heads", .tensor = model "layers.0.self_attn.q_proj.weight", \
      .divide = 128 }, \
    { .field = "num_key_value_heads", .tensor = model "layers.0.self_attn.k_proj.weight", \
      .divide = 128 }, \
    { .field = "num_hidden_layers", .tensor = model "layers.#.self_attn.q_proj.weight", \
      .kind = VF_SIZE_COUNT }, \
    { 0 } }
static const vf_sized decoder_sizes[] = DECODER_SIZES("model.");
static const vf_sized mistral_sizes[] = DECODER_SIZES("language_model.model.");
static const vf_sized mistral_inner_sizes[] = DECODER_SIZES("model.language_model.");
static const char qwen_config[] =
    "{\"model_type\":\"qwen2_5_vl\",\"hidden_act\":\"silu\",\"rms_norm_eps\":1e-6,"
    "\"rope_theta\":1000000}";
static const char qwen3_config[] =
    "{\"model_type\":\"qwen3\",\"hidden_act\":\"silu\",\"rms_norm_eps\":1e-6,\"head_dim\":128,"
    "\"rope_theta\":1000000}";
/* Gemma 3 12B, whose heads' width a norm shows. Weights of its pictures stay unused. */
static const vf_rename gemma[] = {
    { .from = "spiece_model" },
    { 0 }
};
static const vf_sized gemma_sizes[] = {
    { .field = "hidden_size", .tensor = "model.embed_tokens.weight", .axis = 1 },
    { .field = "vocab_size", .tensor = "model.embed_tokens.weight" },
    { .field = "intermediate_size", .tensor = DECODER("0") "mlp.gate_proj.weight" },
    { .field = "head_dim", .tensor = DECODER("0") "self_attn.q_norm.weight" },
    { .field = "num_attention_heads", .tensor = DECODER("0") "self_attn.q_proj.weight",
      .by = "head_dim" },
    { .field = "num_key_value_heads", .tensor = DECODER("0") "self_attn.k_proj.weight",
      .by = "head_dim" },
    { .field = "num_hidden_layers", .tensor = DECODER("#") "self_attn.q_proj.weight",
      .kind = VF_SIZE_COUNT },
    { 0 }
};
static const char gemma_config[] =
    "{\"model_type\":\"gemma3_text\",\"hidden_activation\":\"gelu_pytorch_tanh\","
    "\"rms_norm_eps\":1e-6,\"query_pre_attn_scalar\":256,\"sliding_window\":1024,"
    "\"rope_theta\":1000000,\"rope_local_base_freq\":10000,"
    "\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":8}}";
static const char llama_config[] =
    "{\"model_type\":\"llama\",\"hidden_act\":\"silu\",\"rms_norm_eps\":1e-5,"
    "\"rope_theta\":500000}";

/* ComfyUI's files hold the tokenizer as the tensor tekken_model, and those cut to the 30 layers
 * that FLUX.2 reads have states without the last norm. */
#define MISTRAL "\"model_type\":\"mistral3\",\"hidden_act\":\"silu\",\"rms_norm_eps\":1e-5," \
    "\"head_dim\":128,\"rope_theta\":1000000000"
static const char mistral_config[] = "{" MISTRAL "}";
static const char mistral_comfyui_config[] = "{" MISTRAL ",\"final_norm\":false}";
/* Of Mistral 3's decoders the one that is 3072 wide is Ministral 3's of 3 billion weights. */
static int ministral_config(cJSON *config, const vf_model *m, vc_err *err)
{
    static const char rope[] =
        "{\"rope_type\":\"yarn\",\"rope_theta\":1000000,\"factor\":16,"
        "\"beta_fast\":32,\"beta_slow\":1,\"mscale\":1,\"mscale_all_dim\":1,"
        "\"original_max_position_embeddings\":16384}";
    cJSON *o = NULL;

    (void)m;
    if (cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(config, "hidden_size")) != 3072)
        return 0;
    int rc = vf_json_parse(&o, rope, sizeof rope - 1, err);
    if (!rc && !cJSON_AddItemToObject(config, "rope_parameters", o))
        rc = vc_no_memory(err);
    return rc;
}
#define MERGER "multi_modal_projector.patch_merger.merging_layer.weight"

/* ---- transformers, whose names their families know ---- */

/* Heads are 128 wide. */
static const vf_sized wan_sizes[] = {
    { .field = "dim", .tensor = "patch_embedding.weight" },
    { .field = "in_dim", .tensor = "patch_embedding.weight", .axis = 1 },
    { .field = "out_dim", .tensor = "head.head.weight", .divide = 4 },
    { .field = "ffn_dim", .tensor = "blocks.0.ffn.0.weight" },
    { .field = "freq_dim", .tensor = "time_embedding.0.weight", .axis = 1 },
    { .field = "num_heads", .tensor = "patch_embedding.weight", .divide = 128 },
    { .field = "num_layers", .tensor = "blocks.#.self_attn.q.weight", .kind = VF_SIZE_COUNT },
    { 0 }
};
static const char wan_vace_config[] =
    "{\"_class_name\":\"VaceWanModel\",\"eps\":1e-6,\"text_len\":512,\"model_type\":\"vace\"}";
#define WAN "\"_class_name\":\"WanModel\",\"eps\":1e-6,\"text_len\":512,"
static const char skyreels2_config[] = "{\"_class_name\":\"SkyReelsV2Model\",\"eps\":1e-6,"
    "\"text_len\":512,\"model_type\":\"t2v\",\"inject_sample_info\":true}";
static const char wan_t2v_config[] = "{" WAN "\"model_type\":\"t2v\"}";
static const char wan_i2v_config[] = "{" WAN "\"model_type\":\"i2v\"}";
static const vf_sized none[] = { { 0 } };

static const vf_rename zimage[] = {
    { .from = "norm_final" },            /* which no model of the class has */
    { .from = "x_embedder", .to = "all_x_embedder.2-1" },
    { .from = "final_layer", .to = "all_final_layer.2-1" },
    { .from = "attention.qkv", .to = "attention.to_{q,k,v}" },
    { .from = "attention.out", .to = "attention.to_out.0" },
    { .from = "attention.q_norm", .to = "attention.norm_q" },
    { .from = "attention.k_norm", .to = "attention.norm_k" },
    { 0 }
};
/* Heads are 128 wide, and a token of the picture is a square of 2 x 2 places. */
static const vf_sized zimage_sizes[] = {
    { .field = "dim", .tensor = "x_pad_token", .axis = 1 },
    { .field = "n_heads", .tensor = "x_pad_token", .axis = 1, .divide = 128 },
    { .field = "n_layers", .tensor = "layers.#.attention.to_q.weight", .kind = VF_SIZE_COUNT },
    { .field = "n_refiner_layers", .tensor = "noise_refiner.#.attention.to_q.weight",
      .kind = VF_SIZE_COUNT },
    { .field = "in_channels", .tensor = "all_x_embedder.2-1.weight", .axis = 1, .divide = 4 },
    { .field = "cap_feat_dim", .tensor = "cap_embedder.0.weight" },
    { 0 }
};
static const vf_rename ideogram4[] = {
    { .from = "attention.qkv", .to = "attention.to_{q,k,v}" },
    { .from = "attention.o", .to = "attention.to_out.0" },
    { 0 }
};
static const vf_sized ideogram4_sizes[] = {
    { .field = "in_channels", .tensor = "input_proj.weight", .axis = 1 },
    { .field = "num_layers", .tensor = "layers.#.attention.to_q.weight", .kind = VF_SIZE_COUNT },
    { .field = "attention_head_dim", .tensor = "layers.0.attention.norm_q.weight" },
    { .field = "num_attention_heads", .tensor = "input_proj.weight", .by = "attention_head_dim" },
    { .field = "intermediate_size", .tensor = "layers.0.feed_forward.w1.weight" },
    { .field = "adaln_dim", .tensor = "adaln_proj.weight" },
    { .field = "llm_features_dim", .tensor = "llm_cond_norm.weight" },
    { 0 }
};
/* Heads are 128 wide. */
static const vf_sized ernie_sizes[] = {
    { .field = "hidden_size", .tensor = "adaLN_modulation.1.weight", .axis = 1 },
    { .field = "num_attention_heads", .tensor = "adaLN_modulation.1.weight", .axis = 1,
      .divide = 128 },
    { .field = "num_layers", .tensor = "layers.#.adaLN_sa_ln.weight", .kind = VF_SIZE_COUNT },
    { .field = "ffn_hidden_size", .tensor = "layers.0.mlp.up_proj.weight" },
    { .field = "in_channels", .tensor = "x_embedder.proj.weight", .axis = 1 },
    { .field = "out_channels", .tensor = "final_linear.weight" },
    { .field = "text_in_dim", .tensor = "text_proj.weight", .axis = 1 },
    { 0 }
};
static const vf_sized flux2_sizes[] = {
    { .field = "num_attention_heads", .tensor = "x_embedder.weight", .divide = 128 },
    { .field = "in_channels", .tensor = "x_embedder.weight", .axis = 1 },
    { .field = "joint_attention_dim", .tensor = "context_embedder.weight", .axis = 1 },
    { .field = "num_layers", .tensor = "transformer_blocks.#.attn.to_q.weight",
      .kind = VF_SIZE_COUNT },
    { .field = "num_single_layers", .tensor = "single_transformer_blocks.#.attn.to_out.weight",
      .kind = VF_SIZE_COUNT },
    { 0 }
};
#define LTX2_TRANSFORMER(prefix) \
    .class = "LTX2VideoTransformer3DModel", .slot = "transformer", .within = prefix, \
    .names = vf_ltx2_transformer, .config = "{}", .sizes = vf_ltx2_transformer_sizes, \
    .more = vf_ltx2_transformer_config
#define LTX2_VAE(prefix) \
    .class = "AutoencoderKLLTX2Video", .slot = "vae", .within = prefix, .names = vf_ltx2_vae, \
    .config = "{}", .sizes = vf_ltx2_vae_sizes, .more = vf_ltx2_vae_config
#define LTX2_CONNECTORS \
    .class = "LTX2TextConnectors", .slot = "connectors", .only = vf_ltx2_connectors_only, \
    .names = vf_ltx2_connectors, .config = "{}", .sizes = none, \
    .more = vf_ltx2_connectors_config
#define LTX2_GATE "av_ca_a2v_gate_adaln_single.linear.weight"
#define LTX2_MEANS "per_channel_statistics.mean-of-means"
#define LTX2_STEP "encoder.down_blocks.1.conv.conv.weight"
#define LTX2_REGISTERS "video_embeddings_connector.learnable_registers"
/* Of the first authors' files what their text encoder must have; train/models/flux2.c reads the
 * rest. */
static const vf_sized flux2_first_sizes[] = {
    { .field = "joint_attention_dim", .tensor = "txt_in.weight", .axis = 1 },
    { 0 }
};
/* Names behind a prefix that stay as they are. */
static const vf_rename own_names[] = { { 0 } };
#define FLUX2_MARK "double_stream_modulation_img.linear.weight"

/* ---- all ---- */

const vf_layout vf_layouts[] = {
    { .marks = { "encoder.downsamples.0.downsamples.0.residual.0.gamma" },
      .class = "AutoencoderKLWan", .slot = "vae", .names = wan_vae, .config = wan22_vae_config,
      .sizes = wan_vae_sizes, .constants = "wan2.2-5b" },
    { .marks = { "encoder.downsamples.0.residual.0.gamma" },
      .class = "AutoencoderKLWan", .slot = "vae",
      .also = "AutoencoderKLQwenImage", .names = wan_vae, .config = wan_vae_config,
      .sizes = wan_vae_sizes, .constants = "wan2.1" },
    { .marks = { "encoder.down.0.block.0.norm1.weight", "bn.running_mean" },
      .class = "AutoencoderKLFlux2", .slot = "vae", .names = flux_vae,
      .config = flux2_vae_config, .sizes = flux2_vae_sizes },
    { .marks = { "encoder.down_blocks.0.resnets.0.norm1.weight", "bn.running_mean" },
      .class = "AutoencoderKLFlux2", .slot = "vae", .config = flux2_vae_config,
      .sizes = flux2_vae_sizes, .beside = true },
    { .marks = { "encoder.down.0.block.0.norm1.weight",
                 "decoder.up.3.block.0.norm1.weight" },
      .class = "AutoencoderKL", .slot = "vae", .names = flux_vae, .config = flux_vae_config,
      .sizes = flux_vae_sizes },
    { .marks = { "encoder.down_blocks.0.resnets.0.conv1.conv.weight",
                 "encoder.mid_block.attentions.0.to_q.weight" },
      .class = "AutoencoderKLHunyuanVideo", .slot = "vae", .config = hunyuan_vae_config,
      .sizes = hunyuan_vae_sizes },
    { .marks = { "blocks.0.pos_embedding.embedding.weight",
                 "token_embedding.weight" },
      .class = "umt5", .slot = "text_encoder", .names = wan_t5,
      .config = umt5_config, .sizes = t5_sizes },
    { .marks = { "encoder.block.1.layer.0.SelfAttention.relative_attention_bias.weight",
                 "shared.weight" },
      .class = "umt5", .slot = "text_encoder", .names = transformers_t5,
      .config = umt5_config, .sizes = t5_sizes },
    { .marks = { "encoder.block.0.layer.1.DenseReluDense.wi.weight", "shared.weight" },
      .class = "t5", .slot = "text_encoder", .names = transformers_t5, .config = t5_relu_config,
      .sizes = t5_relu_sizes },
    { .marks = { "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
                 "shared.weight" },
      .class = "t5", .slot = "text_encoder_2", .names = transformers_t5,
      .config = t5_config, .sizes = t5_sizes },
    { .marks = { "text_model.embeddings.token_embedding.weight",
                 "text_model.encoder.layers.31.layer_norm1.weight" },
      .class = "clip_text_model", .slot = "text_encoder_2",
      .config = clip_g_config, .sizes = clip_text_sizes },
    { .marks = { "text_model.embeddings.token_embedding.weight" },
      .class = "clip_text_model", .slot = "text_encoder",
      .config = clip_text_config, .sizes = clip_text_sizes },
    { .marks = { "visual.cls_embedding" },
      .class = "clip_vision_model", .slot = "image_encoder", .names = wan_clip,
      .config = clip_vision_config, .sizes = clip_vision_sizes },
    { .marks = { DECODER("0") "pre_feedforward_layernorm.weight", "model.embed_tokens.weight" },
      .class = "gemma3", .slot = "text_encoder", .names = gemma, .config = gemma_config,
      .sizes = gemma_sizes, .beside = true },
    { .marks = { DECODER("0") "self_attn.q_proj.bias", "visual.patch_embed.proj.weight" },
      .class = "qwen2_5_vl", .slot = "text_encoder", .config = qwen_config,
      .sizes = decoder_sizes, .beside = true },
    { .marks = { DECODER("0") "self_attn.q_norm.weight", "model.embed_tokens.weight" },
      .class = "qwen3", .slot = "text_encoder", .config = qwen3_config,
      .sizes = decoder_sizes, .beside = true },
    { .marks = { DECODER("0") "self_attn.q_proj.weight", "tekken_model" },
      .class = "mistral3", .slot = "text_encoder", .config = mistral_comfyui_config,
      .sizes = decoder_sizes, .more = ministral_config, .beside = true },
    { .marks = { "language_model.model.embed_tokens.weight", MERGER },
      .class = "mistral3", .slot = "text_encoder", .config = mistral_config,
      .sizes = mistral_sizes, .more = ministral_config, .beside = true },
    { .marks = { "model.language_model.embed_tokens.weight", "model." MERGER },
      .class = "mistral3", .slot = "text_encoder", .config = mistral_config,
      .sizes = mistral_inner_sizes, .more = ministral_config, .beside = true },
    { .marks = { DECODER("0") "self_attn.q_proj.weight", "model.embed_tokens.weight" },
      .class = "llama", .slot = "text_encoder", .config = llama_config,
      .sizes = decoder_sizes, .beside = true },
    { .marks = { "controlnet_blocks.0.x_rms.weight" },
      .class = "QwenImageBlockWiseControlNet", .slot = "blockwise_controlnet", .config = "{}" },
    { .marks = { "controlnet_x_embedder.weight", "controlnet_blocks.0.weight" },
      .class = "FluxControlNetModel", .also = "QwenImageControlNetModel", .slot = "controlnet",
      .config = "{}" },
    { .marks = { "vace_patch_embedding.weight", "head.modulation" },
      .class = "VaceWanModel", .slot = "transformer",
      .config = wan_vace_config, .sizes = wan_sizes },
    { .marks = { "fps_embedding.weight", "head.modulation" },
      .class = "SkyReelsV2Model", .slot = "transformer",
      .config = skyreels2_config, .sizes = wan_sizes },
    { .marks = { "img_emb.proj.0.weight", "head.modulation" },
      .class = "WanModel", .slot = "transformer",
      .config = wan_i2v_config, .sizes = wan_sizes },
    { .marks = { "blocks.0.self_attn.norm_q.weight", "head.modulation" },
      .class = "WanModel", .slot = "transformer",
      .config = wan_t2v_config, .sizes = wan_sizes },
    { .marks = { "single_stream_modulation.lin.weight", "guidance_in.in_layer.weight" },
      .class = "Flux2", .slot = "transformer",
      .config = "{\"_class_name\":\"Flux2\",\"model_type\":\"dev\"}",
      .sizes = flux2_first_sizes },
    { .marks = { "single_stream_modulation.lin.weight" },
      .class = "Flux2", .slot = "transformer",
      .config = "{\"_class_name\":\"Flux2\",\"model_type\":\"klein\"}",
      .sizes = flux2_first_sizes },
    { .marks = { "model.diffusion_model.joint_blocks.0.x_block.attn.qkv.weight" },
      .within = "model.diffusion_model.", .names = own_names, .class = "MMDiTX",
      .slot = "transformer",
      .config = "{\"_class_name\":\"MMDiTX\"}", .sizes = none },
    { .marks = { "joint_blocks.0.x_block.attn.qkv.weight" },
      .class = "MMDiTX", .slot = "transformer",
      .config = "{\"_class_name\":\"MMDiTX\"}", .sizes = none },
    { .marks = { "double_blocks.0.img_attn.norm.key_norm.scale",
                 "distilled_guidance_layer.in_proj.weight" },
      .class = "Chroma", .slot = "transformer",
      .config = "{\"_class_name\":\"Chroma\"}", .sizes = none },
    { .marks = { "double_blocks.0.img_attn.norm.key_norm.scale" },
      .class = "Flux", .slot = "transformer",
      .config = "{\"_class_name\":\"Flux\"}", .sizes = none },
    { .marks = { FLUX2_MARK, "time_guidance_embed.guidance_embedder.linear_1.weight" },
      .class = "Flux2Transformer2DModel", .slot = "transformer",
      .config = "{\"guidance_embeds\":true}", .sizes = flux2_sizes, .beside = true },
    { .marks = { FLUX2_MARK }, .class = "Flux2Transformer2DModel", .slot = "transformer",
      .config = "{\"guidance_embeds\":false}", .sizes = flux2_sizes, .beside = true },
    { .marks = { "layers.0.attention.qkv.weight", "x_pad_token" },
      .class = "ZImageTransformer2DModel", .slot = "transformer", .names = zimage,
      .config = "{}", .sizes = zimage_sizes },
    { .marks = { "layers.0.attention.to_q.weight", "x_pad_token" },
      .class = "ZImageTransformer2DModel", .slot = "transformer", .config = "{}",
      .sizes = zimage_sizes, .beside = true },
    { .marks = { "layers.0.attention.qkv.weight", "llm_cond_norm.weight" },
      .class = "Ideogram4Transformer2DModel", .slot = "transformer", .names = ideogram4,
      .config = "{}", .sizes = ideogram4_sizes },
    { .marks = { "layers.0.attention.to_q.weight", "llm_cond_norm.weight" },
      .class = "Ideogram4Transformer2DModel", .slot = "transformer", .config = "{}",
      .sizes = ideogram4_sizes, .beside = true },
    { .marks = { "txtfusion.projector.weight", "first.weight" },
      .class = "Krea2Transformer2DModel", .slot = "transformer", .names = vf_krea2_names,
      .config = "{}", .sizes = vf_krea2_sizes },
    { .marks = { "text_fusion.projector.weight", "time_mod_proj.weight" },
      .class = "Krea2Transformer2DModel", .slot = "transformer", .config = "{}",
      .sizes = vf_krea2_sizes, .beside = true },
    { .marks = { "net." COSMOS2_MARK }, COSMOS2_TRANSFORMER("net.") },
    { .marks = { "model.diffusion_model." COSMOS2_MARK },
      COSMOS2_TRANSFORMER("model.diffusion_model.") },
    { .marks = { COSMOS2_MARK }, COSMOS2_TRANSFORMER(NULL) },
    { .marks = { "layers.0.adaLN_sa_ln.weight", "adaLN_modulation.1.weight" },
      .class = "ErnieImageTransformer2DModel", .slot = "transformer", .config = "{}",
      .sizes = ernie_sizes, .beside = true },
    { .marks = { "double_blocks.0.img_attn_q.weight", "byt5_in.layernorm.weight" },
      .class = "HunyuanVideo_1_5_DiffusionTransformer", .slot = "transformer",
      .config = "{\"_class_name\":\"HunyuanVideo_1_5_DiffusionTransformer\"}", .sizes = none,
      .beside = true },
    { .marks = { "double_blocks.0.img_attn_qkv.weight", "byt5_in.layernorm.weight" },
      .class = "HunyuanVideo_1_5_DiffusionTransformer", .slot = "transformer",
      .config = "{\"_class_name\":\"HunyuanVideo_1_5_DiffusionTransformer\"}", .sizes = none,
      .beside = true },
    { .marks = { "double_blocks.0.img_attn_q_norm.weight",
                 "txt_in.individual_token_refiner.blocks.0.norm1.weight" },
      .class = "HunyuanVideo", .slot = "transformer",
      .config = "{\"_class_name\":\"HunyuanVideo\"}", .sizes = none },
    /* ComfyUI marks Qwen-Image-Edit-2511 by a tensor without values. */
    { .marks = { "transformer_blocks.0.img_mod.1.weight", "__index_timestep_zero__" },
      .class = "QwenImageTransformer2DModel", .slot = "transformer",
      .config = "{\"zero_cond_t\":true}", .sizes = none },
    { .marks = { "transformer_blocks.0.img_mod.1.weight" },
      .class = "QwenImageTransformer2DModel", .slot = "transformer",
      .config = "{}", .sizes = none },
    { .marks = { "model.diffusion_model." LTX2_GATE },
      LTX2_TRANSFORMER("model.diffusion_model.") },
    { .marks = { LTX2_GATE }, LTX2_TRANSFORMER(NULL) },
    { .marks = { "vae." LTX2_MEANS, "vae." LTX2_STEP }, LTX2_VAE("vae.") },
    { .marks = { LTX2_MEANS, LTX2_STEP }, LTX2_VAE(NULL) },
    { .marks = { "text_embedding_projection.aggregate_embed.weight" }, LTX2_CONNECTORS },
    { .marks = { "text_embedding_projection.video_aggregate_embed.weight" }, LTX2_CONNECTORS },
    { .marks = { "model.diffusion_model." LTX2_REGISTERS }, LTX2_CONNECTORS },
    { .marks = { LTX2_REGISTERS }, LTX2_CONNECTORS },
    { .marks = { NULL } }
};
