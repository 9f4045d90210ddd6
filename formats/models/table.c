/* table.c - the classes of transformers that vtrain trains, and the variants that it does not; see
 * transformers.h */
#include "formats/models/parts.h"

/* ---- CogVideoX ---- */

static const vf_config_row cogvideox_fields[] = {
    VF_ONLY_FLAG("flip_sin_to_cos", true),
    VF_ONLY_FLAG("attention_bias", true),
    VF_ONLY_FLAG("norm_elementwise_affine", true),
    VF_ONLY("activation_fn", "gelu-approximate", "gelu-approximate"),
    VF_ONLY("timestep_activation_fn", "silu", "silu"),
    VF_ONLY_NUM("freq_shift", 0),
    VF_ONLY_NUM("dropout", 0),
    { 0 }
};
static const vf_variant cogvideox_variants[] = {
    { .sign = "*_mot_ref*", .reads = "a reference clip (Video-As-Prompt)" },
    { .sign = "local_facial_extractor*", .reads = "a face (ConsisID)" },
    { .sign = "perceiver_cross_attention*", .reads = "a face (ConsisID)" },
    { .sign = "control_adapter*", .reads = "camera poses (Fun-Control-Camera)" },
    { 0 }
};

/* ---- HunyuanVideo ---- */

static const vf_config_row hunyuan_fields[] = {
    VF_ONLY_NUM("mlp_ratio", 4),
    VF_ONLY("qk_norm", "rms_norm", "rms_norm"),
    { 0 }
};
static const vf_variant hunyuan_variants[] = {
    { .sign = "byt5_in*", .reads = "glyphs (HunyuanVideo 1.5)" },
    { .sign = "vision_in*", .reads = "a vision model's states (HunyuanVideo 1.5)" },
    { .sign = "cond_type_embedding*", .reads = "kinds of texts (HunyuanVideo 1.5)" },
    { .sign = "context_embedder_2*", .reads = "glyphs (HunyuanVideo 1.5)" },
    { .sign = "image_embedder*", .reads = "a vision model's states (HunyuanVideo 1.5)" },
    { .sign = "clean_x_embedder*", .reads = "earlier frames (FramePack)" },
    { .sign = "image_projection*", .reads = "a vision model's states (FramePack)" },
    { .sign = "*audio_*", .reads = "speech (HunyuanVideo-Avatar, -Custom)" },
    { .sign = "ref_in*", .reads = "a reference picture (HunyuanVideo-Avatar)" },
    { .sign = "before_proj*", .reads = "a reference picture (HunyuanVideo-Avatar)" },
    { .sign = "motion_*", .reads = "motion (HunyuanVideo-Avatar)" },
    { .sign = "fps_proj*", .reads = "frame rates (HunyuanVideo-Avatar)" },
    { .sign = "camera_*", .reads = "camera poses (Hunyuan-GameCraft)" },
    { 0 }
};

/* ---- LTX-Video ---- */

/* Fields that LTX-Video and LTX-2 have with these values alone. */
#define LTX_FIELDS                                                                                 \
    VF_ONLY_INT("patch_size", 1),                                                                  \
    VF_ONLY_INT("patch_size_t", 1),                                                                \
    VF_ONLY("activation_fn", "gelu-approximate", "gelu-approximate"),                              \
    VF_ONLY("qk_norm", "rms_norm_across_heads", "rms_norm_across_heads"),                          \
    VF_ONLY_FLAG("norm_elementwise_affine", false),                                                \
    VF_ONLY_FLAG("attention_bias", true),                                                          \
    VF_ONLY_FLAG("attention_out_bias", true)
static const vf_config_row ltx_fields[] = { LTX_FIELDS, { 0 } };
static const vf_variant ltx_variants[] = {
    { .sign = "*audio_*", .reads = "sound (LTX-2)" },
    { .sign = "av_ca_*", .reads = "sound (LTX-2)" },
    { 0 }
};

/* ---- LTX-2 ---- */

static const vf_config_row ltx2_fields[] = {
    LTX_FIELDS,
    VF_ONLY_FLAG("ff_bias", true),
    VF_ONLY_FLAG("use_prompt_adaln_single", true),
    VF_ONLY_INT("pos_embed_max_pos", 20),
    VF_ONLY_INT("base_height", 2048),
    VF_ONLY_INT("base_width", 2048),
    VF_ONLY_NUM("rope_theta", 10000),
    VF_ONLY_INT("causal_offset", 1),
    VF_ONLY_INT("timestep_scale_multiplier", 1000),
    { 0 }
};
static const vf_variant ltx2_variants[] = {
    { .field = "use_keyframes_abs_pos_embedding", .reads = "keyframes (LTX-2.5)" },
    { 0 }
};

/* ---- Wan ---- */

static const vf_config_row wan_fields[] = {
    VF_ONLY_FLAG("cross_attn_norm", true),
    VF_ONLY("qk_norm", "rms_norm_across_heads", "rms_norm_across_heads"),
    { 0 }
};
static const vf_config_row wan_first_fields[] = {
    VF_ONLY_INT("text_len", 512),
    VF_ONLY_FLAG("qk_norm", true),
    VF_ONLY_FLAG("cross_attn_norm", true),
    { 0 }
};
#define REFERENCE "a reference picture as a frame of tokens (Fun-Control 1.1 and 2.2)"
#define CAMERA "camera poses (Fun-Control-Camera)"
#define ANIMATE "poses and a face (Animate)"
#define SPEECH "speech (S2V)"
#define MUSIC "music (Wan-Dancer)"
static const vf_variant wan_variants[] = {
    { .sign = "vace_*", .reads = "a clip to edit (VACE, whose class is "
      "WanVACETransformer3DModel or VaceWanModel)" },
    { .sign = "pose_patch_embedding*", .reads = ANIMATE },
    { .sign = "face_adapter*", .reads = ANIMATE },
    { .sign = "face_encoder*", .reads = ANIMATE },
    { .sign = "motion_encoder*", .reads = ANIMATE },
    { .sign = "*_mot_ref*", .reads = "a reference clip (Video-As-Prompt)" },
    { .sign = "casual_audio_encoder*", .reads = SPEECH },
    { .sign = "audio_injector*", .reads = SPEECH },
    { .sign = "trainable_cond_mask*", .reads = SPEECH },
    { .sign = "cond_encoder*", .reads = SPEECH },
    { .sign = "frame_packer*", .reads = SPEECH },
    { .sign = "audio_proj*", .reads = "speech (InfiniteTalk, HuMo)" },
    { .sign = "*.audio_cross_attn*", .reads = "speech (InfiniteTalk, HuMo)" },
    { .sign = "*.processor.*", .reads = "speech (FantasyTalking)" },
    { .sign = "music_*", .reads = MUSIC },
    { .sign = "*_global.*", .reads = MUSIC },
    { .sign = "img_emb_ref*", .reads = MUSIC },
    { .sign = "ref_conv*", .reads = REFERENCE },
    { .sign = "control_adapter*", .reads = CAMERA },
    { .sign = "*.cam_encoder*", .reads = "camera poses (ReCamMaster)" },
    { .sign = "dwpose_embedding*", .reads = "poses (UniAnimate)" },
    { .sign = "fps_*", .reads = "frame rates (SkyReels V2 Diffusion Forcing: its config.json has "
      "inject_sample_info, and in diffusers' layout a class of its own)" },
    { .field = "add_ref_conv", .reads = REFERENCE },
    { .field = "add_control_adapter", .reads = CAMERA },
    { .channels = 52, .reads = "a control clip, a first frame and a mask (Wan2.2-Fun-Control)" },
    { .channels = 148, .reads = "a control clip, a first frame and a mask (Wan2.2-Fun-Control)" },
    { 0 }
};

static const vf_variant skyreels2_variants[] = {
    { .sign = "*audio_*", .reads = "speech (SkyReels-A1 to A3)" },
    { .sign = "vace_*", .reads = "a clip to edit" },
    { 0 }
};

/* ---- Qwen-Image ---- */

static const vf_config_row qwen_fields[] = {
    VF_ONLY_INT("patch_size", 2),
    VF_ONLY_FLAG("guidance_embeds", false),
    VF_ONLY_FLAG("use_additional_t_cond", false),
    VF_ONLY_FLAG("use_layer3d_rope", false),
    { 0 }
};
#define LAYERS "layers of a picture (Qwen-Image-Layered)"
static const vf_variant qwen_variants[] = {
    { .sign = "*.addition_t_embedding*", .reads = LAYERS },
    { .sign = "controlnet_*", .reads = "a control picture (ControlNet)" },
    { .field = "use_additional_t_cond", .reads = LAYERS },
    { .field = "use_layer3d_rope", .reads = LAYERS },
    { 0 }
};

/* ---- FLUX.1 ---- */

static const vf_config_row flux_fields[] = {
    VF_ONLY_INT("patch_size", 1),
    { 0 }
};
static const vf_variant flux_variants[] = {
    { .sign = "distilled_guidance_layer*", .reads = "prompts in another way (Chroma)" },
    { .sign = "controlnet_*", .reads = "a control picture (ControlNet)" },
    { .sign = "*.processor.*", .reads = "a reference picture (IP-Adapter)" },
    { .sign = "pulid_*", .reads = "a face (PuLID)" },
    { .channels = 128, .reads = "a picture beside the noisy latents (FLUX.1 Canny, Depth)" },
    { .channels = 196, .reads = "a picture beside the noisy latents (Flex.2)" },
    { 0 }
};

/* ---- Chroma ---- */

static const vf_config_row chroma_fields[] = {
    VF_ONLY_INT("patch_size", 1),
    VF_ONLY_INT("approximator_num_channels", 64),
    VF_ONLY_INT("approximator_layers", 5),
    { 0 }
};
static const vf_variant chroma_variants[] = {
    { .sign = "nerf_*", .reads = "pixels in place of latents (Chroma1-Radiance)" },
    { .sign = "img_in_patch*", .reads = "pixels in place of latents (Chroma1-Radiance)" },
    { .sign = "controlnet_*", .reads = "a control picture (ControlNet)" },
    { .sign = "*.processor.*", .reads = "a reference picture (IP-Adapter)" },
    { 0 }
};

/* ---- FLUX.2 ---- */

static const vf_config_row flux2_fields[] = {
    VF_ONLY_INT("patch_size", 1),
    { 0 }
};
static const vf_variant flux2_variants[] = {
    { .sign = "control_*", .reads = "a control picture (FLUX.2 Fun Controlnet)" },
    { .sign = "controlnet_*", .reads = "a control picture (ControlNet)" },
    { 0 }
};

/* ---- Z-Image ---- */

static const vf_config_row zimage_fields[] = {
    VF_ONLY_FLAG("qk_norm", true),
    VF_UNSET("siglip_feat_dim", "it is the width of pictures that Z-Image-Omni reads, which vtrain "
             "does not train with: give Z-Image or Z-Image-Turbo"),
    { 0 }
};
static const vf_variant zimage_variants[] = {
    { .sign = "siglip_*", .reads = "pictures by SigLIP (Z-Image-Omni)" },
    { .sign = "control_*", .reads = "a control picture (Z-Image-Fun-Controlnet)" },
    { 0 }
};

/* ---- Krea 2 ---- */

static const vf_variant krea2_variants[] = {
    { .sign = "control_*", .reads = "a control picture (ControlNet)" },
    { 0 }
};

/* ---- ERNIE-Image ---- */

static const vf_config_row ernie_fields[] = {
    VF_ONLY_INT("patch_size", 1),
    VF_ONLY_FLAG("qk_layernorm", true),
    { 0 }
};
static const vf_variant ernie_variants[] = {
    { .sign = "control_*", .reads = "a control picture (ControlNet)" },
    { 0 }
};

/* ---- Kandinsky 5 ---- */

static const vf_config_row kandinsky5_fields[] = {
    VF_ONLY_FLAG("visual_cond", true),        /* false: Kandinsky 5's models of pictures */
    { 0 }
};
static const vf_variant kandinsky5_variants[] = {
    { .field = "attention_type", .word = "nabla", .reads = "only those keys that NABLA picks "
      "(Kandinsky 5 of ten seconds or HD)" },
    { 0 }
};

/* ---- Cosmos-Predict2 ---- */

static const vf_config_row cosmos2_fields[] = {
    VF_ONLY_FLAG("concat_padding_mask", true),
    VF_UNSET("extra_pos_embed_type", "it is a table of positions of Cosmos 1.0, which vtrain "
             "does not train: give Cosmos-Predict2"),
    VF_UNSET("img_context_dim_in", "it is the width of a picture's states that Cosmos-Transfer2.5 "
             "reads, which vtrain does not train with: give Cosmos-Predict2"),
    { 0 }
};
#define COSMOS25 "states of all layers of Qwen2.5-VL (Cosmos-Predict2.5)"
static const vf_variant cosmos2_variants[] = {
    { .sign = "learnable_pos_embed*", .reads = "a table of positions (Cosmos 1.0)" },
    { .sign = "crossattn_proj*", .reads = COSMOS25 },
    { .field = "use_crossattn_projection", .reads = COSMOS25 },
    { .sign = "img_context_proj*", .reads = "a picture's states (Cosmos-Transfer2.5)" },
    { .sign = "controlnet*", .reads = "a control clip (Cosmos-Transfer2.5)" },
    { .sign = "llm_adapter*", .reads = "states of Qwen3 (Anima)" },
    { 0 }
};

/* ---- Ideogram 4 ---- */

static const vf_variant ideogram4_variants[] = {
    { .sign = "control_*", .reads = "a control picture (ControlNet)" },
    { 0 }
};

/* ---- Stable Diffusion 3 ---- */

static const vf_variant sd3_variants[] = {
    { .sign = "controlnet_*", .reads = "a control picture (ControlNet)" },
    { .sign = "image_proj*", .reads = "a reference picture (IP-Adapter)" },
    { .sign = "*.processor.*", .reads = "a reference picture (IP-Adapter)" },
    { 0 }
};

/* ---- all ---- */

#define COGVIDEOX_CHANNELS \
    .in = "in_channels", .out = "out_channels", .in_default = 16, .out_default = 16, \
    .channels = { { 1, 0 }, { 2, 0 }, { 2, 1 } }
#define WAN_CHANNELS \
    .in_default = 16, .out_default = 16, .channels = { { 1, 0 }, { 2, 0 }, { 2, 4 }, { 3, 0 } }, \
    .variants = wan_variants, \
    .trained = "T2V, I2V, FLF2V, TI2V-5B, Fun-InP or Fun-Control 1.0"
#define SKYREELS2 .in_default = 16, .out_default = 16, .channels = { { 1, 0 }, { 2, 4 } }, \
    .variants = skyreels2_variants, .trained = "SkyReels V2's T2V, I2V or Diffusion Forcing"
#define WAN_VACE .in_default = 16, .out_default = 16, .channels = { { 1, 0 } }, \
    .variants = wan_variants, .trained = "Wan VACE"
#define HUNYUAN .variants = hunyuan_variants, .trained = "HunyuanVideo, its I2V or SkyReels"
#define FLUX2 .variants = flux2_variants, .trained = "FLUX.2 klein or FLUX.2-dev"
#define CHROMA .variants = chroma_variants, .trained = "Chroma1-HD or Chroma1-Base"
#define FLUX .variants = flux_variants, .trained = "FLUX.1-dev, -schnell, Kontext or Fill"
#define FLUX_CHANNELS .channels = { { 1, 0 }, { 2, 256 } }

const vf_transformer_kind vf_transformer_kinds[] = {
    { .class = "VltTransformer3DModel" },
    { .class = "CogVideoXTransformer3DModel", .names = vf_names_cogvideox,
      .fields = cogvideox_fields, COGVIDEOX_CHANNELS, .variants = cogvideox_variants,
      .trained = "CogVideoX 2B, 5B, 1.5, their I2V, Fun-InP or Fun-Control" },
    { .class = "TTTCogVideoXTransformer3DModel", .fields = cogvideox_fields, COGVIDEOX_CHANNELS },
    { .class = "HunyuanVideoTransformer3DModel", .names = vf_names_hunyuan,
      .fields = hunyuan_fields,
      .in = "in_channels", .out = "out_channels", .in_default = 16, .out_default = 16,
      .channels = { { 1, 0 }, { 2, 0 }, { 2, 1 } }, HUNYUAN },
    { .class = "HunyuanVideo", .names = vf_names_hunyuan_first, HUNYUAN },
    { .class = "HunyuanVideo15Transformer3DModel", .names = vf_names_hunyuan15,
      .fields = hunyuan_fields, .in = "in_channels", .out = "out_channels", .in_default = 65,
      .out_default = 32, .channels = { { 2, 1 } }, .trained = "HunyuanVideo 1.5 or its I2V" },
    { .class = "HunyuanVideo_1_5_DiffusionTransformer", .names = vf_names_hunyuan15_first,
      .trained = "HunyuanVideo 1.5 or its I2V" },
    { .class = "LTXVideoTransformer3DModel", .names = vf_names_ltx, .fields = ltx_fields,
      .in = "in_channels", .out = "out_channels", .in_default = 128, .out_default = 128,
      .channels = { { 1, 0 } }, .variants = ltx_variants, .trained = "LTX-Video 0.9.0 to 0.9.7" },
    { .class = "LTX2VideoTransformer3DModel", .fields = ltx2_fields,
      .in = "in_channels", .out = "out_channels", .in_default = 128, .out_default = 128,
      .channels = { { 1, 0 } }, .variants = ltx2_variants, .trained = "LTX-2.0 or 2.3" },
    { .class = "WanTransformer3DModel", .names = vf_names_wan, .fields = wan_fields,
      .in = "in_channels", .out = "out_channels", WAN_CHANNELS },
    { .class = "WanModel", .names = vf_names_wan_first, .fields = wan_first_fields, .in = "in_dim",
      .out = "out_dim", WAN_CHANNELS },
    { .class = "SkyReelsV2Transformer3DModel", .names = vf_names_skyreels2, .fields = wan_fields,
      .in = "in_channels", .out = "out_channels", SKYREELS2 },
    { .class = "SkyReelsV2Model", .names = vf_names_skyreels2_first, .fields = wan_first_fields,
      .in = "in_dim", .out = "out_dim", SKYREELS2 },
    { .class = "WanVACETransformer3DModel", .names = vf_names_wan_vace, .fields = wan_fields,
      .in = "in_channels", .out = "out_channels", WAN_VACE },
    { .class = "VaceWanModel", .names = vf_names_wan_vace_first, .fields = wan_first_fields,
      .in = "in_dim", .out = "out_dim", WAN_VACE },
    { .class = "QwenImageTransformer2DModel", .names = vf_names_qwen, .fields = qwen_fields,
      .in = "in_channels", .out = "out_channels", .in_default = 64, .out_default = 16,
      .channels = { { 4, 0 } }, .variants = qwen_variants, .trained = "Qwen-Image" },
    { .class = "ZImageTransformer2DModel", .names = vf_names_zimage, .fields = zimage_fields,
      .variants = zimage_variants, .trained = "Z-Image or Z-Image-Turbo" },
    { .class = "Krea2Transformer2DModel", .names = vf_names_krea2, .variants = krea2_variants,
      .trained = "Krea 2 Raw or Turbo" },
    { .class = "ErnieImageTransformer2DModel", .names = vf_names_ernie, .fields = ernie_fields,
      .in = "in_channels", .out = "out_channels", .in_default = 128, .out_default = 128,
      .channels = { { 1, 0 } }, .variants = ernie_variants,
      .trained = "ERNIE-Image or ERNIE-Image-Turbo" },
    { .class = "Kandinsky5Transformer3DModel", .names = vf_names_kandinsky5,
      .fields = kandinsky5_fields, .in = "in_visual_dim", .out = "out_visual_dim",
      .in_default = 4, .out_default = 4, .channels = { { 1, 0 } },
      .variants = kandinsky5_variants, .trained = "Kandinsky 5 Lite or Pro of five seconds" },
    { .class = "CosmosTransformer3DModel", .names = vf_names_cosmos2, .fields = cosmos2_fields,
      .in = "in_channels", .out = "out_channels", .in_default = 16, .out_default = 16,
      .channels = { { 1, 0 }, { 1, 1 } }, .variants = cosmos2_variants,
      .trained = "Cosmos-Predict2 Text2Image or Video2World" },
    { .class = "Ideogram4Transformer2DModel", .names = vf_names_ideogram4,
      .variants = ideogram4_variants, .trained = "Ideogram 4" },
    { .class = "FluxTransformer2DModel", .names = vf_names_flux, .fields = flux_fields,
      .in = "in_channels", .out = "out_channels", .in_default = 64,
      FLUX_CHANNELS, FLUX },
    { .class = "ChromaTransformer2DModel", .names = vf_names_chroma, .fields = chroma_fields,
      .in = "in_channels", .out = "out_channels", .in_default = 64, .channels = { { 1, 0 } },
      CHROMA },
    { .class = "Chroma", .names = vf_names_chroma_first, .in = "img_in.weight",
      .out = "final_layer.linear.weight", .channels = { { 1, 0 } }, CHROMA },
    { .class = "SD3Transformer2DModel", .names = vf_names_sd3, .in = "in_channels",
      .out = "out_channels", .in_default = 16, .out_default = 16, .channels = { { 1, 0 } },
      .variants = sd3_variants, .trained = "Stable Diffusion 3 or 3.5" },
    { .class = "MMDiTX", .names = vf_names_sd3_first, .variants = sd3_variants,
      .trained = "Stable Diffusion 3 or 3.5" },
    { .class = "Flux2Transformer2DModel", .names = vf_names_flux2, .fields = flux2_fields,
      .in = "in_channels", .out = "out_channels", .in_default = 128, .channels = { { 1, 0 } },
      FLUX2 },
    { .class = "Flux2", .names = vf_names_flux2_first, .in = "img_in.weight",
      .out = "final_layer.linear.weight", .channels = { { 1, 0 } }, FLUX2 },
    { .class = "Flux", .names = vf_names_flux_first, .in = "img_in.weight",
      .out = "final_layer.linear.weight", FLUX_CHANNELS, FLUX },
    { 0 }
};
