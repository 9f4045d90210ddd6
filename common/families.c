/* families.c - see families.h; sizes are VideoX-Fun's, constants those of the released files */
#include "common/families.h"

#include <stddef.h>
#include <string.h>

#include "common/templates.h"

/* vae/config.json of Wan 2.1, whose VAE Qwen-Image has too */
static const double wan_mean[16] = {
    -0.7571, -0.7089, -0.9113, 0.1075, -0.1745, 0.9653, -0.1517, 1.5508,
    0.4134, -0.0715, 0.5517, -0.3632, -0.1922, -0.9497, 0.2503, -0.2921
};
static const double wan_std[16] = {
    2.8184, 1.4541, 2.3275, 2.6558, 1.2196, 1.7708, 2.6052, 2.0743,
    3.2687, 2.1526, 2.8652, 1.5579, 1.6382, 1.1253, 2.8251, 1.9160
};

/* and of Wan 2.2's 5B */
static const double wan22_mean[48] = {
    -0.2289, -0.0052, -0.1323, -0.2339, -0.2799, 0.0174, 0.1838, 0.1557,
    -0.1382, 0.0542, 0.2813, 0.0891, 0.1570, -0.0098, 0.0375, -0.1825,
    -0.2246, -0.1207, -0.0698, 0.5109, 0.2665, -0.2108, -0.2158, 0.2502,
    -0.2055, -0.0322, 0.1109, 0.1567, -0.0729, 0.0899, -0.2799, -0.1230,
    -0.0313, -0.1649, 0.0117, 0.0723, -0.2839, -0.2083, -0.0520, 0.3748,
    0.0152, 0.1957, 0.1433, -0.2944, 0.3573, -0.0548, -0.1681, -0.0667
};
static const double wan22_std[48] = {
    0.4765, 1.0364, 0.4514, 1.1677, 0.5313, 0.4990, 0.4818, 0.5013,
    0.8158, 1.0344, 0.5894, 1.0901, 0.6885, 0.6165, 0.8454, 0.4978,
    0.5759, 0.3523, 0.7135, 0.6804, 0.5833, 1.4146, 0.8986, 0.5659,
    0.7069, 0.5338, 0.4889, 0.4917, 0.4069, 0.4999, 0.6866, 0.4093,
    0.5709, 0.6065, 0.6415, 0.4944, 0.5726, 1.2042, 0.5458, 1.6887,
    0.3971, 1.0600, 0.3943, 0.5537, 0.5444, 0.4089, 0.7468, 0.7744
};

#define SIZES(multiple_, k, ratio_, patch_, patch_t_) \
    .multiple = multiple_, .ratio = { k, ratio_, ratio_ }, .patch = patch_, .patch_t = patch_t_

#define HUNYUAN_CLIP { .class = "CLIPTextModel", .max_length = 77, .pooled_only = true, \
                       .width_field = "pooled_projection_dim" }
static const vc_text hunyuan_i2v_text[VC_FAMILY_TEXTS] = {
    { .class = "LlavaForConditionalGeneration", .max_length = 256,
      .template = vc_template_hunyuan_i2v, .crop = 103, .skip = 2, .masked = true, .picture = true,
      .width_field = "text_embed_dim" },
    HUNYUAN_CLIP
};

static const vc_text ltx_condition_text[VC_FAMILY_TEXTS] = {
    { .class = "T5EncoderModel", .max_length = 256, .masked = true, .unpadded = true,
      .width_field = "caption_channels" }
};

/* 2B, 5B, 1.5 and the Fun models have one VAE and one text encoder without a mask, so that all
 * tokens are stored; only the transformers differ. */
#define COGVIDEOX \
    .vae = "AutoencoderKLCogVideoX", .channels = 16, .scaling = 0.7, .cached = true, \
    .text = { { .class = "T5EncoderModel", .max_length = 226, \
                .width_field = "text_embed_dim" } }, \
    .moments = true, .dtype = VC_BF16, .loaded_masks = true

#define WAN \
    .vae = "AutoencoderKLWan", .scaling = 1, .moments = true, .dtype = VC_BF16, \
    .text = { { .class = "UMT5EncoderModel", .max_length = 512, .clean = true, .masked = true, \
                .width_field = "text_dim" } }

/* VideoX-Fun's own pipelines give the tokenizer prompts as they are. */
static const vc_text wan_fun_text[VC_FAMILY_TEXTS] = {
    { .class = "UMT5EncoderModel", .max_length = 512, .uncleaned = true, .masked = true,
      .width_field = "text_dim" }
};

/* klein's are the family's. */
static const vc_text flux2_dev_text[VC_FAMILY_TEXTS] = {
    { .class = "Mistral3ForConditionalGeneration", .max_length = 512,
      .template = vc_template_flux2_dev, .chat = "[SYSTEM_PROMPT]", .without = "[IMG]",
      .taps = { 10, 20, 30 }, .width_field = "joint_attention_dim" }
};

/* Two files of one component have the same tensors: DiffSynth-Studio's copies are safetensors. */
static const vc_first wan_first = {
    .class = "WanModel", .type_field = "model_type",
    .type = { { .type = "t2v", .pipeline = "WanPipeline", .boundary = 0.875 },
              { .type = "ti2v", .pipeline = "WanPipeline" },
              { .type = "i2v", .pipeline = "WanImageToVideoPipeline", .boundary = 0.9 },
              { .type = "flf2v", .pipeline = "WanImageToVideoPipeline", .ends = true } },
    .channels_field = "in_dim", .out_field = "out_dim",
    .part = { { "transformer", "high_noise_model" }, { "transformer_2", "low_noise_model" },
              { "vae", "Wan2.1_VAE.pth" }, { "vae", "Wan2.1_VAE.safetensors" },
              { "vae", "Wan2.2_VAE.pth" }, { "vae", "Wan2.2_VAE.safetensors" },
              { "text_encoder", "models_t5_umt5-xxl-enc-bf16.pth" },
              { "text_encoder", "models_t5_umt5-xxl-enc-bf16.safetensors" },
              { "tokenizer", "google/umt5-xxl" },
              { "image_encoder",
                "models_clip_open-clip-xlm-roberta-large-vit-huge-14.pth" },
              { "image_encoder",
                "models_clip_open-clip-xlm-roberta-large-vit-huge-14.safetensors" } }
};

/* Diffusion Forcing with frame rates; the others have Wan's class, and no field tells them from it.
 * formats/tensors/component.c gives this class its name. */
static const vc_first skyreels2_first = {
    .class = "SkyReelsV2Model", .type_field = "model_type",
    .type = { { .type = "t2v", .pipeline = "SkyReelsV2DiffusionForcingPipeline" } },
    .channels_field = "in_dim", .out_field = "out_dim",
    .part = { { "vae", "Wan2.1_VAE.pth" }, { "vae", "Wan2.1_VAE.safetensors" },
              { "text_encoder", "models_t5_umt5-xxl-enc-bf16.pth" },
              { "text_encoder", "models_t5_umt5-xxl-enc-bf16.safetensors" },
              { "tokenizer", "google/umt5-xxl" } }
};

/* Wan's, with another transformer. */
static const vc_first wan_vace_first = {
    .class = "VaceWanModel", .type_field = "model_type",
    .type = { { .type = "vace", .pipeline = "WanVACEPipeline", .boundary = 0.875 } },
    .channels_field = "in_dim", .out_field = "out_dim",
    .part = { { "transformer", "high_noise_model" }, { "transformer_2", "low_noise_model" },
              { "vae", "Wan2.1_VAE.pth" }, { "vae", "Wan2.1_VAE.safetensors" },
              { "text_encoder", "models_t5_umt5-xxl-enc-bf16.pth" },
              { "text_encoder", "models_t5_umt5-xxl-enc-bf16.safetensors" },
              { "tokenizer", "google/umt5-xxl" } }
};

static const vc_first flux_first = {
    .class = "Flux", .type = { { .type = "", .pipeline = "FluxPipeline" } },
    .part = { { "transformer", "flux1-dev.safetensors" },
              { "transformer", "flux1-fill-dev.safetensors" },
              { "transformer", "flux1-kontext-dev.safetensors" },
              { "transformer", "flux1-schnell.safetensors" }, { "vae", "ae.safetensors" } }
};

static const vc_first chroma_first = {
    .class = "Chroma", .type = { { .type = "", .pipeline = "ChromaPipeline" } },
    .part = { { "transformer", "Chroma1-HD.safetensors" },
              { "transformer", "Chroma1-Base.safetensors" }, { "vae", "ae.safetensors" } }
};

static const vc_first flux2_first = {
    .class = "Flux2", .type_field = "model_type",
    .type = { { .type = "klein", .pipeline = "Flux2KleinPipeline" },
              { .type = "dev", .pipeline = "Flux2Pipeline" } },
    .part = { { "transformer", "flux2-dev.safetensors" },
              { "transformer", "flux-2-klein-4b.safetensors" },
              { "transformer", "flux-2-klein-base-4b.safetensors" },
              { "transformer", "flux-2-klein-9b.safetensors" },
              { "transformer", "flux-2-klein-base-9b.safetensors" },
              { "vae", "ae.safetensors" } }
};

/* The pipelines cut no text; vprep refuses longer ones. */
enum { QWEN_EDIT_LENGTH = 1024, QWEN_EDIT_CROP = 64 };
#define QWEN_EDIT_TEXT(each_) \
    { { .class = "Qwen2_5_VLForConditionalGeneration", .max_length = QWEN_EDIT_LENGTH, \
        .template = vc_template_qwen_edit, .crop = QWEN_EDIT_CROP, .masked = true, .each = each_ } }
#define QWEN_PICTURE "<|vision_start|><|image_pad|><|vision_end|>"
static const vc_text qwen_edit_text[VC_FAMILY_TEXTS] = QWEN_EDIT_TEXT(QWEN_PICTURE);
static const vc_text qwen_plus_text[VC_FAMILY_TEXTS] = QWEN_EDIT_TEXT("Picture {}: " QWEN_PICTURE);

static const vc_references no_references;
static const vc_references qwen_edit_references = { .most = 1, .side = 1024, .multiple = 32 };
static const vc_references qwen_plus_references = { .most = VC_REFERENCES, .side = 1024,
                                                    .multiple = 32, .look = 384 };

/* PREFERRED_KONTEXT_RESOLUTIONS: of two that are equally near, the first is the narrower one. */
static const short kontext_sizes[][2] = {
    { 1568, 672 }, { 1504, 688 }, { 1456, 720 }, { 1392, 752 }, { 1328, 800 }, { 1248, 832 },
    { 1184, 880 }, { 1104, 944 }, { 1024, 1024 }, { 944, 1104 }, { 880, 1184 }, { 832, 1248 },
    { 800, 1328 }, { 752, 1392 }, { 720, 1456 }, { 688, 1504 }, { 672, 1568 }
};

static const vc_first hunyuan_first = {
    .class = "HunyuanVideo", .type = { { .type = "", .pipeline = "HunyuanVideoPipeline" } },
    .part = { { "transformer", "transformers/mp_rank_00_model_states.pt" } }
};

#define SD3_CLIP { .class = "CLIPTextModelWithProjection", .max_length = 77, .fixed = true, \
                   .skip = 1 }

/* Positions of tokens, and of latents, along an axis. */
#define TOKENS(field_, item_, none_, axis_) \
    { .field = field_, .item = item_, .none = none_, .axis = axis_ }
#define LATENTS(field_, none_, axis_, ...) \
    { .field = field_, .none = none_, .axis = axis_, .latents = true, __VA_ARGS__ }
#define COGVIDEOX_TABLE .with = "use_learned_positional_embeddings", .table = true
#define WAN_POSITIONS(axis) TOKENS("rope_max_seq_len", 0, 1024, axis)

static const vc_family families[] = {
    { .name = "builtin", SIZES(16, 4, 8, 2, 1),
      .vae = "BuiltinCodec", .channels = 16, .text = { { .class = "BuiltinTextEncoder" } },
      .transformer = "VltTransformer3DModel", .dtype = VC_F32 },
    { .name = "cogvideox", .title = "CogVideoX 2B, 5B, 1.5 and its Fun models",
      SIZES(16, 4, 8, 2, 1), COGVIDEOX, .transformer = "CogVideoXTransformer3DModel",
      .pipeline = { { .class = "CogVideoXPipeline" },
                    { .class = "CogVideoXVideoToVideoPipeline" },
                    { .class = "CogVideoXImageToVideoPipeline", .mode = VC_MODE_I2V },
                    { .class = "CogVideoXFunPipeline" },
                    { .class = "CogVideoXFunInpaintPipeline", .mode = VC_MODE_INPAINT },
                    { .class = "CogVideoXFunControlPipeline", .mode = VC_MODE_CONTROL,
                      .flag = "control_latents" },
                    { .class = "CogVideoX_Fun_Pipeline" },        /* older names */
                    { .class = "CogVideoX_Fun_Pipeline_Inpaint", .mode = VC_MODE_INPAINT },
                    { .class = "CogVideoX_Fun_Pipeline_Control", .mode = VC_MODE_CONTROL,
                      .flag = "control_latents" } },
      .length_field = "max_text_seq_length", .noise_field = "add_noise_in_inpaint_model",
      .patch_t_field = "patch_size_t", .patched = "cogvideox1.5",
      .positions = { LATENTS("sample_height", 60, VC_AXIS_ROWS, .with = "patch_size_t"),
                     LATENTS("sample_width", 90, VC_AXIS_COLUMNS, .with = "patch_size_t"),
                     LATENTS("sample_height", 60, VC_AXIS_ROWS, COGVIDEOX_TABLE),
                     LATENTS("sample_width", 90, VC_AXIS_COLUMNS, COGVIDEOX_TABLE) },
      .channels_field = "in_channels", .inputs = { 16, 32, 33, 32 } },
    { .name = "cogvideox1.5", SIZES(16, 4, 8, 2, 2), COGVIDEOX, .invert = true },
    { .name = "hunyuanvideo", .title = "HunyuanVideo, SkyReels V1",
      SIZES(16, 4, 8, 2, 1),
      .transformer = "HunyuanVideoTransformer3DModel", .first = &hunyuan_first,
      .pipeline = { { .class = "HunyuanVideoPipeline", .sigmas = VC_SIGMAS_TO_ZERO },
                    { .class = "HunyuanVideoImageToVideoPipeline", .mode = VC_MODE_I2V,
                      .text = hunyuan_i2v_text, .sigmas = VC_SIGMAS_TO_ZERO },
                    { .class = "HunyuanSkyreelsImageToVideoPipeline", .mode = VC_MODE_I2V,
                      .sigmas = VC_SIGMAS_TO_ZERO } },
      .interleave_field = "image_condition_type",
      .interleave = { { "token_replace", 4 }, { "latent_concat", 2 } },
      .moments = true, .dtype = VC_BF16, .clean_images = true,
      .vae = "AutoencoderKLHunyuanVideo", .channels = 16, .scaling = 0.476986, .cached = true,
      .text = { { .class = "LlamaModel", .max_length = 256, .template = vc_template_hunyuan,
                  .crop = 95, .skip = 2, .masked = true, .width_field = "text_embed_dim" },
                HUNYUAN_CLIP } },
    { .name = "hunyuanvideo1.5", .title = "HunyuanVideo 1.5",
      SIZES(16, 4, 16, 1, 1), .transformer = "HunyuanVideo15Transformer3DModel",
      .pipeline = { { .class = "HunyuanVideo15Pipeline", .sigmas = VC_SIGMAS_TO_ZERO },
                    { .class = "HunyuanVideo15ImageToVideoPipeline", .mode = VC_MODE_I2V,
                      .sigmas = VC_SIGMAS_TO_ZERO } },
      .vision = "SiglipVisionModel", .vision_field = "image_embed_dim",
      .processor = "feature_extractor",
      .moments = true, .dtype = VC_BF16, .clean_images = true,
      .vae = "AutoencoderKLHunyuanVideo15", .channels = 32, .scaling = 1.03682, .cached = true,
      .text = { { .class = "Qwen2_5_VLTextModel", .max_length = 1000,
                  .template = vc_template_hunyuan15, .crop = 108, .chat = "<|im_start|>",
                  .blank = " ", .skip = 2, .masked = true, .width_field = "text_embed_dim" },
                { .class = "T5EncoderModel", .max_length = 256, .quoted = true, .masked = true,
                  .unpadded = true, .width_field = "text_embed_2_dim" } } },
    { .name = "kandinsky5", .title = "Kandinsky 5",
      SIZES(16, 4, 8, 2, 1), .by_model = true, .transformer = "Kandinsky5Transformer3DModel",
      .begins_with_latent = true,
      .pipeline = { { .class = "Kandinsky5T2VPipeline", .versions = "kandinsky5",
                      .sigmas = VC_SIGMAS_OWN },
                    { .class = "Kandinsky5I2VPipeline", .sigmas = VC_SIGMAS_OWN,
                      .begins = true } },
      .moments = true, .dtype = VC_BF16,
      .vae = "AutoencoderKLHunyuanVideo", .channels = 16, .scaling = 0.476986,
      .text = { { .class = "Qwen2_5_VLForConditionalGeneration", .max_length = 512,
                  .template = vc_template_kandinsky5, .crop = 128, .clean = true, .masked = true,
                  .width_field = "in_text_dim" },
                { .class = "CLIPTextModel", .max_length = 77, .clean = true, .pooled_only = true,
                  .width_field = "in_text_dim2" } } },
    { .name = "ltx-video", .title = "LTX-Video",
      SIZES(32, 8, 32, 1, 1), .transformer = "LTXVideoTransformer3DModel",
      .begins_with_latent = true,
      .pipeline = { { .class = "LTXPipeline" },
                    { .class = "LTXImageToVideoPipeline" },
                    { .class = "LTXConditionPipeline", .text = ltx_condition_text,  /* 0.9.5 ff. */
                      .flag = "causal_temporal_positioning", .sigmas = VC_SIGMAS_QUADRATIC,
                      .image_noise = 0.15 } },
      .moments = true, .dtype = VC_BF16,
      .vae = "AutoencoderKLLTXVideo", .channels = 128, .scaling = 1, .cached = true,
      .text = { { .class = "T5EncoderModel", .max_length = 128, .masked = true,
                  .width_field = "caption_channels" } } },
    { .name = "wan2.1", .title = "Wan 2.1, 2.2 and their Fun models",
      SIZES(16, 4, 8, 2, 1), WAN, .channels = 16, .mean = wan_mean, .std = wan_std, .cached = true,
      .transformer = "WanTransformer3DModel", .first = &wan_first,
      .pipeline = { { .class = "WanPipeline", .sigmas = VC_SIGMAS_OWN },
                    { .class = "WanImageToVideoPipeline", .mode = VC_MODE_I2V,
                      .sigmas = VC_SIGMAS_OWN },
                    { .class = "WanFunPipeline", .text = wan_fun_text, .sigmas = VC_SIGMAS_OWN },
                    { .class = "WanFunInpaintPipeline", .mode = VC_MODE_INPAINT,
                      .text = wan_fun_text, .sigmas = VC_SIGMAS_OWN },
                    { .class = "WanFunControlPipeline", .mode = VC_MODE_CONTROL,
                      .text = wan_fun_text, .sigmas = VC_SIGMAS_OWN } },
      .masked_frames = true, .grey_masks = true, .folded_masks = true,
      .vision = "CLIPVisionModel", .vision_field = "image_dim", .ends_field = "pos_embed_seq_len",
      .positions = { WAN_POSITIONS(VC_AXIS_FRAMES), WAN_POSITIONS(VC_AXIS_ROWS),
                     WAN_POSITIONS(VC_AXIS_COLUMNS) },
      .channels_field = "in_channels", .wider = "wan2.2-5b",
      .inputs = { [VC_MODE_NORMAL] = 16, [VC_MODE_CONTROL] = 32, [VC_MODE_CONTROL_REF] = 48 } },
    { .name = "wan2.2-5b", SIZES(32, 4, 16, 2, 1), WAN, .channels = 48, .mean = wan22_mean,
      .std = wan22_std, .cached = true, .begins_with_latent = true },
    { .name = "skyreels-v2", .title = "SkyReels V2",
      SIZES(16, 4, 8, 2, 1), WAN, .channels = 16, .mean = wan_mean,
      .std = wan_std, .by_model = true, .begins_with_latent = true, .known_frames = true,
      .transformer = "SkyReelsV2Transformer3DModel", .first = &skyreels2_first,
      .pipeline = { { .class = "SkyReelsV2Pipeline", .sigmas = VC_SIGMAS_OWN },
                    { .class = "SkyReelsV2ImageToVideoPipeline", .mode = VC_MODE_I2V,
                      .sigmas = VC_SIGMAS_OWN },
                    { .class = "SkyReelsV2DiffusionForcingPipeline", .sigmas = VC_SIGMAS_OWN },
                    { .class = "SkyReelsV2DiffusionForcingImageToVideoPipeline",
                      .sigmas = VC_SIGMAS_OWN },
                    { .class = "SkyReelsV2DiffusionForcingVideoToVideoPipeline",
                      .sigmas = VC_SIGMAS_OWN } },
      .masked_frames = true, .grey_masks = true, .folded_masks = true,
      .vision = "CLIPVisionModel", .vision_field = "image_dim", .ends_field = "pos_embed_seq_len",
      .positions = { WAN_POSITIONS(VC_AXIS_FRAMES), WAN_POSITIONS(VC_AXIS_ROWS),
                     WAN_POSITIONS(VC_AXIS_COLUMNS) },
      .channels_field = "in_channels",
      .inputs = { [VC_MODE_NORMAL] = 16, [VC_MODE_I2V] = 36 } },
    { .name = "wan-vace", .title = "Wan VACE",
      SIZES(16, 4, 8, 2, 1), WAN, .channels = 16, .mean = wan_mean,
      .std = wan_std, .by_model = true,
      .transformer = "WanVACETransformer3DModel", .first = &wan_vace_first,
      .pipeline = { { .class = "WanVACEPipeline", .mode = VC_MODE_VACE,
                      .sigmas = VC_SIGMAS_OWN } },
      .references = { .most = VC_REFERENCES, .framed = true },
      .grey_masks = true, .pixel_masks = true },
    { .name = "qwen-image", .title = "Qwen-Image, Qwen-Image-Edit",
      SIZES(16, 1, 8, 2, 1), .max_frames = 1, .transformer = "QwenImageTransformer2DModel",
      .pipeline = { { .class = "QwenImagePipeline", .versions = "original",
                      .references = &no_references },
                    { .class = "QwenImageEditPipeline", .mode = VC_MODE_EDIT, .versions = "edit",
                      .published = "Qwen-Image-Edit",
                      .text = qwen_edit_text, .references = &qwen_edit_references },
                    { .class = "QwenImageEditPlusPipeline", .mode = VC_MODE_EDIT,
                      .versions = "edit-plus edit-2509 edit-2511",
                      .published = "Qwen-Image-Edit-2509 Qwen-Image-Edit-2511 "
                                   "FireRed-Image-Edit-1.0 FireRed-Image-Edit-1.1",
                      .text = qwen_plus_text, .references = &qwen_plus_references } },
      .moments = true, .dtype = VC_BF16, .controlnet = true, .pixel_masks = true,
      .references = { .most = VC_REFERENCES, .side = 1024, .multiple = 32, .look = 384 },
      .vae = "AutoencoderKLQwenImage", .channels = 16, .scaling = 1, .mean = wan_mean,
      .std = wan_std, .cached = true,
      .text = { { .class = "Qwen2_5_VLForConditionalGeneration", .max_length = 1024,
                  .template = vc_template_qwen, .crop = 34, .masked = true } } },
    { .name = "flux", .title = "FLUX.1 dev, schnell, Kontext, Fill",
      SIZES(16, 1, 8, 2, 1), .max_frames = 1,
      .transformer = "FluxTransformer2DModel", .first = &flux_first,
      .pipeline = { { .class = "FluxPipeline", .versions = "flux-dev flux-schnell",
                      .sigmas = VC_SIGMAS_EVEN_EULER },
                    { .class = "FluxKontextPipeline", .mode = VC_MODE_EDIT, .versions = "kontext",
                      .sigmas = VC_SIGMAS_EVEN_EULER },
                    { .class = "FluxFillPipeline", .mode = VC_MODE_INPAINT,
                      .references = &no_references, .sigmas = VC_SIGMAS_EVEN_EULER } },
      .grey_masks = true, .pixel_masks = true, .controlnet = true,
      .references = { .most = 1, .sizes = kontext_sizes, .n_sizes = 17, .side = 1024,
                      .multiple = 16 },
      .moments = true, .dtype = VC_BF16,
      .vae = "AutoencoderKL", .channels = 16, .scaling = 0.3611, .shift = 0.1159,
      .cached = true,
      .text = { { .class = "CLIPTextModel", .max_length = 77, .pooled_only = true },
                { .class = "T5EncoderModel", .max_length = 512 } } },
    { .name = "z-image", .title = "Z-Image",
      SIZES(16, 1, 8, 2, 1), .max_frames = 1, .transformer = "ZImageTransformer2DModel",
      .pipeline = { { .class = "ZImagePipeline", .versions = "z-image" } },
      .positions = { { .field = "axes_lens", .item = 0, .none = 1024, .axis = VC_AXIS_TEXT,
                       .fill = 32, .beside = 2 },
                     TOKENS("axes_lens", 1, 512, VC_AXIS_ROWS),
                     TOKENS("axes_lens", 2, 512, VC_AXIS_COLUMNS) },
      .moments = true, .dtype = VC_BF16,
      .vae = "AutoencoderKL", .channels = 16, .scaling = 0.3611, .shift = 0.1159, .cached = true,
      .text = { { .class = "Qwen3Model", .max_length = 512, .template = vc_template_qwen3,
                  .lead = 3,
                  .chat = "enable_thinking", .skip = 1, .masked = true,
                  .width_field = "cap_feat_dim" } } },
    { .name = "krea2", .title = "Krea 2",
      SIZES(16, 1, 8, 2, 1), .max_frames = 1, .by_model = true,
      .transformer = "Krea2Transformer2DModel",
      .pipeline = { { .class = "Krea2Pipeline", .versions = "krea2" } },
      .moments = true, .dtype = VC_BF16,
      .vae = "AutoencoderKLQwenImage", .channels = 16, .scaling = 1, .mean = wan_mean,
      .std = wan_std, .cached = true,
      .text = { { .class = "Qwen3VLModel", .max_length = 512, .template = vc_template_qwen,
                  .crop = 34, .tail = 5, .masked = true,
                  .taps = { 2, 5, 8, 11, 14, 17, 20, 23, 26, 29, 32, 35 } } } },
    { .name = "chroma", .title = "Chroma1",
      SIZES(16, 1, 8, 2, 1), .max_frames = 1, .by_model = true,
      .transformer = "ChromaTransformer2DModel", .first = &chroma_first,
      .pipeline = { { .class = "ChromaPipeline", .versions = "chroma",
                      .sigmas = VC_SIGMAS_EVEN_EULER } },
      .moments = true, .dtype = VC_BF16,
      .vae = "AutoencoderKL", .channels = 16, .scaling = 0.3611, .shift = 0.1159,
      .text = { { .class = "T5EncoderModel", .max_length = 512, .masked = true, .unpadded = true,
                  .padding = 1, .width_field = "joint_attention_dim" } } },
    { .name = "sd3", .title = "Stable Diffusion 3, 3.5",
      SIZES(16, 1, 8, 2, 1), .max_frames = 1, .by_model = true,
      .transformer = "SD3Transformer2DModel",
      .pipeline = { { .class = "StableDiffusion3Pipeline", .versions = "sd3",
                      .sigmas = VC_SIGMAS_OWN } },
      .positions = { TOKENS("pos_embed_max_size", 0, 96, VC_AXIS_ROWS),
                     TOKENS("pos_embed_max_size", 0, 96, VC_AXIS_COLUMNS) },
      .moments = true, .dtype = VC_BF16,
      .vae = "AutoencoderKL", .channels = 16, .scaling = 1.5305, .shift = 0.0609,
      .text = { SD3_CLIP, SD3_CLIP,
                { .class = "T5EncoderModel", .max_length = 256, .optional = true,
                  .width_field = "joint_attention_dim" } } },
    { .name = "flux2", .title = "FLUX.2 dev, klein",
      SIZES(16, 1, 16, 1, 1), .max_frames = 1,
      .transformer = "Flux2Transformer2DModel", .first = &flux2_first,
      .pipeline = { { .class = "Flux2KleinPipeline",
                      .versions = "klein-4b klein-base-4b klein-9b klein-base-9b",
                      .sigmas = VC_SIGMAS_EVEN_EULER,
                      .steps_shift = true },
                    { .class = "Flux2Pipeline", .versions = "dev", .flag = "guidance_embeds",
                      .sigmas = VC_SIGMAS_EVEN_EULER, .steps_shift = true,
                      .text = flux2_dev_text } },
      .references = { .most = VC_REFERENCES, .side = 1024, .limit = true },
      .moments = true, .dtype = VC_BF16,
      .vae = "AutoencoderKLFlux2", .channels = 128, .scaling = 1, .cached = true,
      .text = { { .class = "Qwen3ForCausalLM", .max_length = 512,
                  .template = vc_template_qwen3_thoughtless,
                  .lead = 3, .chat = "enable_thinking", .taps = { 9, 18, 27 },
                  .width_field = "joint_attention_dim" } } },
    { .name = "ernie-image", .title = "ERNIE-Image",
      SIZES(16, 1, 16, 1, 1), .max_frames = 1, .by_model = true,
      .transformer = "ErnieImageTransformer2DModel",
      .pipeline = { { .class = "ErnieImagePipeline", .versions = "ernie-image",
                      .sigmas = VC_SIGMAS_TO_ZERO } },
      .moments = true, .dtype = VC_BF16,
      .vae = "AutoencoderKLFlux2", .channels = 128, .scaling = 1, .norm_eps = 1e-5,
      .text = { { .class = "Mistral3Model", .max_length = 2048, .skip = 1, .masked = true,
                  .width_field = "text_in_dim" } } },
    { .name = "cosmos2", .title = "Cosmos-Predict2",
      SIZES(16, 4, 8, 2, 1), .by_model = true, .transformer = "CosmosTransformer3DModel",
      .begins_with_latent = true,
      .pipeline = { { .class = "Cosmos2TextToImagePipeline", .versions = "cosmos2",
                      .sigmas = VC_SIGMAS_KARRAS },
                    { .class = "Cosmos2VideoToWorldPipeline", .sigmas = VC_SIGMAS_KARRAS,
                      .begins = true } },
      .positions = { LATENTS("max_size", 128, VC_AXIS_FRAMES),
                     LATENTS("max_size", 240, VC_AXIS_ROWS, .item = 1),
                     LATENTS("max_size", 240, VC_AXIS_COLUMNS, .item = 2) },
      .moments = true, .dtype = VC_BF16,
      .vae = "AutoencoderKLWan", .channels = 16, .scaling = 1, .mean = wan_mean, .std = wan_std,
      .text = { { .class = "T5EncoderModel", .max_length = 512, .masked = true, .unpadded = true,
                  .width_field = "text_embed_dim" } } },
    { .name = "ideogram4", .title = "Ideogram 4",
      SIZES(16, 1, 16, 1, 1), .max_frames = 1, .by_model = true,
      .transformer = "Ideogram4Transformer2DModel",
      .pipeline = { { .class = "Ideogram4Pipeline", .versions = "ideogram4",
                      .sigmas = VC_SIGMAS_QUANTILES } },
      .moments = true, .dtype = VC_BF16,
      .vae = "AutoencoderKLFlux2", .channels = 128, .scaling = 1, .statistics_last = true,
      .text = { { .class = "Qwen3VLModel", .max_length = 2048, .template = vc_template_qwen3,
                  .lead = 3, .chat = "<|im_start|>", .masked = true,
                  .taps = { 1, 4, 7, 10, 13, 16, 19, 22, 25, 28, 31, 34, 36 },
                  .taps_inner = true, .unnormed = true,
                  .width_field = "llm_features_dim" } } },
    { .name = "ltx-2", .title = "LTX-2.0 and 2.3 with their sound",
      SIZES(64, 8, 32, 1, 1), .transformer = "LTX2VideoTransformer3DModel",
      .begins_with_latent = true,
      .pipeline = { { .class = "LTX2Pipeline" },
                    { .class = "LTX2ImageToVideoPipeline" },
                    { .class = "LTX2ConditionPipeline" } },
      .moments = true, .dtype = VC_BF16,
      .vae = "AutoencoderKLLTX2Video", .channels = 128, .scaling = 1, .cached = true,
      .audio_vae = "AutoencoderKLLTX2Audio",
      .text = { { .class = "Gemma3ForConditionalGeneration", .max_length = 1024,
                  .stripped = true, .beside = "connectors", .masked = true } } },
    { 0 }
};

const char *const vc_mode_names[VC_MODES] = { "normal", "i2v", "inpaint", "control",
                                              "control_ref", "edit", "vace" };

const char *const vc_text_slots[VC_SLOTS] = { "text_encoder", "text_encoder_2", "text_encoder_3",
                                              "text_encoder_4" };
const char *const vc_tokenizer_slots[VC_SLOTS] = { "tokenizer", "tokenizer_2", "tokenizer_3",
                                                   "tokenizer_4" };

const vc_family *vc_families(void)
{
    return families;
}

const vc_family *vc_family_find(const char *name)
{
    for (const vc_family *f = families; f->name; f++)
        if (!strcmp(f->name, name))
            return f;
    return NULL;
}

const vc_family *vc_family_of_transformer(const char *class)
{
    for (const vc_family *f = families; f->name; f++)
        if (f->transformer && !strcmp(f->transformer, class))
            return f;
    return NULL;
}

const vc_pipeline *vc_family_pipeline(const vc_family *f, const char *class)
{
    for (const vc_pipeline *p = f->pipeline; p < f->pipeline + VC_FAMILY_PIPELINES && p->class; p++)
        if (!strcmp(p->class, class))
            return p;
    return NULL;
}

bool vc_family_edits_differ(const vc_family *f)
{
    bool own = false;
    for (const vc_pipeline *p = f->pipeline; p < f->pipeline + VC_FAMILY_PIPELINES && p->class; p++)
        own |= p->mode == VC_MODE_EDIT && p->text;
    return own;
}

const vc_first *vc_family_first(const char *class)
{
    for (const vc_family *f = families; f->name; f++)
        if (f->first && !strcmp(f->first->class, class))
            return f->first;
    return NULL;
}

const vc_references *vc_family_references(const vc_family *f, const vc_pipeline *p)
{
    return p && p->references ? p->references : &f->references;
}

const vc_text *vc_family_texts(const vc_family *f, const vc_pipeline *p)
{
    return p && p->text ? p->text : f->text;
}

int vc_family_interleave(const vc_family *f, const char *word)
{
    for (int i = 0; i < VC_FAMILY_INTERLEAVES && f->interleave[i].word; i++)
        if (!strcmp(f->interleave[i].word, word))
            return f->interleave[i].interleave;
    return 0;
}
