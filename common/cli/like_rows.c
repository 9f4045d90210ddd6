/* like_rows.c - the defaults of other trainers: the tables of like.h. They were read in these
 * files, at the commit of the day named:
 *
 *   videox-fun      aigc-apps/VideoX-Fun 804a425, 2026-05-12: scripts/cogvideox_fun/train.py and
 *                   train_lora.py (arguments), videox_fun/data/dataset_image_video.py
 *                   (text_drop_ratio), scripts/wan2.1/train.py and scripts/hunyuanvideo/train.py
 *                   (the weighting of a flow, its table of levels, the cutoff of its loss),
 *                   videox_fun/utils/lora_utils.py (a LoRA of every linear), config/wan2.1
 *                   and config/wan2.2 (the shift of Wan), scripts/flux and scripts/qwenimage
 *   finetrainers    a-r-r-o-w/finetrainers f476c37, 2025-06-04: finetrainers/args.py (arguments),
 *                   finetrainers/trainer/sft_trainer/config.py (LoRA) and
 *                   finetrainers/processors/text.py; examples/training/sft/wan (modules of Wan,
 *                   which the default expression does not match)
 *   diffsynth       modelscope/DiffSynth-Studio fed7b18f, 2026-08-20: in diffsynth/diffusion/
 *                   parsers.py, runner.py (AdamW and ConstantLR as PyTorch has them: a
 *                   third of the rate in the first five steps; nothing is clipped),
 *                   training_module.py (alpha is the rank), flow_match.py (the weights of a
 *                   flow and its table of levels); the modules of Qwen-Image and FLUX.1, where the
 *                   default matches nothing, from examples/MODEL/model_training/lora
 *   musubi          kohya-ss/musubi-tuner 30c658c, 2026-06-24: src/musubi_tuner/training/
 *                   parser_common.py and trainer_base.py (AdamW as PyTorch has it),
 *                   networks/lora.py (rank 4; modules of HunyuanVideo), lora_hv_1_5.py,
 *                   lora_kandinsky.py, lora_wan.py, lora_flux.py, lora_qwen_image.py,
 *                   lora_zimage.py and lora_flux_2.py (modules), dataset/config_utils.py
 *   diffusion-pipe  tdrussell/diffusion-pipe 8f83dbf, 2026-08-20: train.py (AdamW as PyTorch
 *                   has it), models/base.py (modules), utils/dataset.py, models/cosmos_predict2.py
 *                   (times)
 *   ttt-video       test-time-training/ttt-video-dit 6c316a7, 2025-05: ttt/infra/config_manager.py
 *                   (arguments) and optimizers.py (AdamW, the schedules and their warm-up),
 *                   ttt/models/cogvideo/model.py (times) and utils.py (the sampler)
 *   ai-toolkit      ostris/ai-toolkit 27a03a91, 2026-08-21: in toolkit config_modules.py,
 *                   optimizer.py, lora_special.py (modules; alpha is the rank of a transformer's
 *                   LoRA) and samplers/custom_flowmatch_sampler.py (sigmoid times)
 *   ltx-trainer     Lightricks/LTX-2 400fd31, 2026-08-16: in packages/ltx-trainer/src/ltx_trainer
 *                   config.py, trainer.py (AdamW as PyTorch has it) and timestep_samplers.py
 *
 * PyTorch's AdamW has betas 0.9 and 0.999, eps 1e-8 and decay 0.01. The tables have no settings
 * that a trainer requires (rank and rate of diffusion-pipe, frames of diffusion-pipe and musubi) or
 * takes from the model's files (the shift of videox-fun, except Wan's). The lists of modules were
 * compared with those that the trainers' own code chooses in small models. */
#include "common/cli/like.h"
#include "common/cli/peers/blocks.h"

/* The trainers of the tables. */
#define VC_LIKE_SHORT(id, name) id = VC_LIKE_##id,
enum { VC_LIKE_LIST(VC_LIKE_SHORT) };

#define LORA "a LoRA's"
#define FLOW "a flow's"

const vc_like vc_vtrain_like[] = {
    { VIDEOX_FUN, "learning_rate", "1e-4", NULL },
    { VIDEOX_FUN, "lr_scheduler", "constant", NULL },
    { VIDEOX_FUN, "lr_warmup_steps", "500", NULL },
    { VIDEOX_FUN, "adam_beta1", "0.9", NULL },
    { VIDEOX_FUN, "adam_beta2", "0.999", NULL },
    { VIDEOX_FUN, "adam_weight_decay", "1e-2", NULL },
    { VIDEOX_FUN, "adam_epsilon", "1e-8", NULL },
    { VIDEOX_FUN, "max_grad_norm", "1", NULL },
    { VIDEOX_FUN, "caption_dropout_p", "0.1", NULL },
    { VIDEOX_FUN, "rank", "128", LORA },
    { VIDEOX_FUN, "network_alpha", "64", LORA },
    { VIDEOX_FUN, "weighting_scheme", "uniform", FLOW },
    { VIDEOX_FUN, "flow_levels", "1000", FLOW },
    { VIDEOX_FUN, "logit_mean", "0", FLOW },
    { VIDEOX_FUN, "logit_std", "1", FLOW },
    { VIDEOX_FUN, "mode_scale", "1.29", FLOW },
    { VIDEOX_FUN, "flow_shift", NULL, FLOW },              /* the family decides it */
    { VIDEOX_FUN, "loss_cutoff", "50", FLOW },

    { FINETRAINERS, "learning_rate", "1e-4", NULL },
    { FINETRAINERS, "lr_scheduler", "constant", NULL },
    { FINETRAINERS, "lr_warmup_steps", "500", NULL },
    { FINETRAINERS, "adam_beta1", "0.9", NULL },
    { FINETRAINERS, "adam_beta2", "0.95", NULL },
    { FINETRAINERS, "adam_weight_decay", "1e-4", NULL },
    { FINETRAINERS, "adam_epsilon", "1e-8", NULL },
    { FINETRAINERS, "max_grad_norm", "1", NULL },
    { FINETRAINERS, "caption_dropout_p", "0", NULL },
    { FINETRAINERS, "rank", "64", LORA },
    { FINETRAINERS, "network_alpha", "64", LORA },
    { FINETRAINERS, "weighting_scheme", "uniform", FLOW },
    { FINETRAINERS, "flow_levels", "1000", FLOW },
    { FINETRAINERS, "logit_mean", "0", FLOW },
    { FINETRAINERS, "logit_std", "1", FLOW },
    { FINETRAINERS, "mode_scale", "1.29", FLOW },
    { FINETRAINERS, "flow_shift", "1", FLOW },

    { DIFFSYNTH, "learning_rate", "1e-4", NULL },
    { DIFFSYNTH, "lr_scheduler", "piecewise_constant", NULL },
    { DIFFSYNTH, "lr_step_rules", "0.333333:5,1", NULL },
    { DIFFSYNTH, "lr_warmup_steps", "0", NULL },
    { DIFFSYNTH, "adam_beta1", "0.9", NULL },
    { DIFFSYNTH, "adam_beta2", "0.999", NULL },
    { DIFFSYNTH, "adam_weight_decay", "1e-2", NULL },
    { DIFFSYNTH, "adam_epsilon", "1e-8", NULL },
    { DIFFSYNTH, "max_grad_norm", "0", NULL },
    { DIFFSYNTH, "caption_dropout_p", "0", NULL },
    { DIFFSYNTH, "checkpointing_epochs", "1", NULL },
    { DIFFSYNTH, "rank", "32", LORA },
    { DIFFSYNTH, "weighting_scheme", "bell", FLOW },
    { DIFFSYNTH, "flow_levels", "1000", FLOW },
    { DIFFSYNTH, "flow_shift", NULL, FLOW },               /* the family decides it */

    { MUSUBI, "learning_rate", "2e-6", NULL },
    { MUSUBI, "lr_scheduler", "constant", NULL },
    { MUSUBI, "lr_warmup_steps", "0", NULL },
    { MUSUBI, "adam_beta1", "0.9", NULL },
    { MUSUBI, "adam_beta2", "0.999", NULL },
    { MUSUBI, "adam_weight_decay", "1e-2", NULL },
    { MUSUBI, "adam_epsilon", "1e-8", NULL },
    { MUSUBI, "max_grad_norm", "1", NULL },
    { MUSUBI, "caption_dropout_p", "0", NULL },
    { MUSUBI, "rank", "4", LORA },
    { MUSUBI, "network_alpha", "1", LORA },
    { MUSUBI, "weighting_scheme", "uniform", FLOW },
    { MUSUBI, "flow_levels", "1000", FLOW },
    { MUSUBI, "logit_mean", "0", FLOW },
    { MUSUBI, "logit_std", "1", FLOW },
    { MUSUBI, "mode_scale", "1.29", FLOW },
    { MUSUBI, "flow_shift", "1", FLOW },

    { DIFFUSION_PIPE, "lr_scheduler", "constant", NULL },
    { DIFFUSION_PIPE, "lr_warmup_steps", "0", NULL },
    { DIFFUSION_PIPE, "adam_beta1", "0.9", NULL },
    { DIFFUSION_PIPE, "adam_beta2", "0.999", NULL },
    { DIFFUSION_PIPE, "adam_weight_decay", "1e-2", NULL },
    { DIFFUSION_PIPE, "adam_epsilon", "1e-8", NULL },
    { DIFFUSION_PIPE, "max_grad_norm", "1", NULL },
    { DIFFUSION_PIPE, "caption_dropout_p", "0", NULL },
    { DIFFUSION_PIPE, "weighting_scheme", "logit_normal", FLOW },
    { DIFFUSION_PIPE, "flow_levels", "0", FLOW },
    { DIFFUSION_PIPE, "logit_mean", "0", FLOW },
    { DIFFUSION_PIPE, "logit_std", "1", FLOW },
    { DIFFUSION_PIPE, "flow_shift", "1", FLOW },

    { TTT_VIDEO, "learning_rate", "1e-4", NULL },
    { TTT_VIDEO, "lr_scheduler", "linear", NULL },
    { TTT_VIDEO, "lr_warmup_steps", "50", NULL },
    { TTT_VIDEO, "adam_beta1", "0.9", NULL },
    { TTT_VIDEO, "adam_beta2", "0.95", NULL },
    { TTT_VIDEO, "adam_weight_decay", "1e-4", NULL },
    { TTT_VIDEO, "adam_epsilon", "1e-8", NULL },
    { TTT_VIDEO, "max_grad_norm", "0.1", NULL },
    { TTT_VIDEO, "caption_dropout_p", "0", NULL },
    { TTT_VIDEO, "lr_warmup_from", "1", NULL },
    { TTT_VIDEO, "no_decay", "bias,norm,b1,b2", NULL },
    { TTT_VIDEO, "uniform_sampling", "true", NULL },
    { TTT_VIDEO, "guidance_schedule", "cosine_time", NULL },

    { AI_TOOLKIT, "learning_rate", "1e-6", NULL },
    { AI_TOOLKIT, "lr_scheduler", "constant", NULL },
    { AI_TOOLKIT, "lr_warmup_steps", "0", NULL },
    { AI_TOOLKIT, "adam_beta1", "0.9", NULL },
    { AI_TOOLKIT, "adam_beta2", "0.999", NULL },
    { AI_TOOLKIT, "adam_weight_decay", "1e-2", NULL },
    { AI_TOOLKIT, "adam_epsilon", "1e-6", NULL },
    { AI_TOOLKIT, "max_grad_norm", "1", NULL },
    { AI_TOOLKIT, "caption_dropout_p", "0", NULL },
    { AI_TOOLKIT, "rank", "4", LORA },
    { AI_TOOLKIT, "weighting_scheme", "logit_normal", FLOW },
    { AI_TOOLKIT, "flow_levels", "0", FLOW },
    { AI_TOOLKIT, "logit_mean", "0", FLOW },
    { AI_TOOLKIT, "logit_std", "1", FLOW },
    { AI_TOOLKIT, "flow_shift", "1", FLOW },

    { LTX_TRAINER, "learning_rate", "5e-4", NULL },
    { LTX_TRAINER, "lr_scheduler", "linear", NULL },
    { LTX_TRAINER, "lr_warmup_steps", "0", NULL },
    { LTX_TRAINER, "adam_beta1", "0.9", NULL },
    { LTX_TRAINER, "adam_beta2", "0.999", NULL },
    { LTX_TRAINER, "adam_weight_decay", "1e-2", NULL },
    { LTX_TRAINER, "adam_epsilon", "1e-8", NULL },
    { LTX_TRAINER, "max_grad_norm", "1", NULL },
    { LTX_TRAINER, "caption_dropout_p", "0", NULL },
    { LTX_TRAINER, "rank", "64", LORA },
    { LTX_TRAINER, "network_alpha", "64", LORA },
    { LTX_TRAINER, "weighting_scheme", "stretched", FLOW },
    { LTX_TRAINER, "flow_levels", "0", FLOW },
    { LTX_TRAINER, "logit_mean", "0", FLOW },
    { LTX_TRAINER, "logit_std", "1", FLOW },
    { 0 }
};

const vc_like vc_vprep_like[] = {
    { VIDEOX_FUN, "enable_bucket", "false", NULL },
    { VIDEOX_FUN, "video_sample_n_frames", "17", NULL },
    { VIDEOX_FUN, "video_sample_stride", "4", NULL },

    { DIFFSYNTH, "video_sample_n_frames", "81", NULL },
    { DIFFSYNTH, "video_sample_stride", "1", NULL },
    { DIFFSYNTH, "start_rule", "first", NULL },

    { MUSUBI, "video_sample_stride", "1", NULL },
    { MUSUBI, "start_rule", "first", NULL },

    { DIFFUSION_PIPE, "video_sample_stride", "1", NULL },
    { DIFFUSION_PIPE, "start_rule", "first", NULL },
    { 0 }
};

/* ---- values that depend on the model's family ---- */

#define WAN_BLOCKS \
    "blocks\\.[0-9]+\\.(attn[12]\\.(to_[qkv]|to_out\\.0|add_[kv]_proj)|ffn\\.net\\.(0\\.proj|2))"
#define QWEN_ATTENTION "to_q,to_k,to_v,to_out.0,add_q_proj,add_k_proj,add_v_proj,to_add_out"
#define QWEN_BLOCKS \
    QWEN_ATTENTION ",img_mlp.net.0.proj,img_mlp.net.2,txt_mlp.net.0.proj,txt_mlp.net.2,img_mod.1," \
                   "txt_mod.1"
/* The linears of FLUX.1's, Chroma's and HunyuanVideo's blocks, without those of the modulation. */
#define DUAL_LINEARS \
    "attn\\.(to_[qkv]|to_out\\.0|add_[qkv]_proj|to_add_out)|ff(_context)?\\.net\\.(0\\.proj|2)|" \
    "proj_mlp|proj_out"
#define DUAL(linears) "(single_)?transformer_blocks\\.[0-9]+\\.(" linears ")"
#define DUAL_BLOCKS DUAL(DUAL_LINEARS "|norm1?(_context)?\\.linear")
#define FLUX2_BLOCKS \
    DUAL("attn\\.(to_[qkv]|to_out\\.0|add_[qkv]_proj|to_add_out|to_qkv_mlp_proj)|" \
         "ff(_context)?\\.linear_(in|out)") "|single_transformer_blocks\\.[0-9]+\\.attn\\.to_out"
#define ZIMAGE_LINEARS "attention\\.(to_q|to_k|to_v|to_out\\.0)|feed_forward\\.w[123]"
#define ZIMAGE_LAYERS(linears) "layers\\.[0-9]+\\.(" linears ")"
#define KREA2_BLOCKS \
    "(transformer_blocks|text_fusion\\.(layerwise|refiner)_blocks)\\.[0-9]+\\." \
    "(attn\\.(to_[qkv]|to_gate|to_out\\.0)|ff\\.(gate|up|down))"
#define ERNIE_LAYERS \
    "layers\\.[0-9]+\\.(self_attention\\.(to_[qkv]|to_out\\.0)|" \
    "mlp\\.(gate_proj|up_proj|linear_fc2))"
#define KANDINSKY5_BLOCKS \
    "(text|visual)_transformer_blocks\\.[0-9]+\\.(feed_forward\\.(in|out)_layer|" \
    "(self|cross)_attention\\.(to_query|to_key|to_value|out_layer))"
#define COSMOS2_BLOCKS \
    "transformer_blocks\\.[0-9]+\\.(attn[12]\\.(to_[qkv]|to_out\\.0)|ff\\.net\\.(0\\.proj|2)|" \
    "norm[123]\\.linear_[12])"
#define FINETRAINERS_NAMES \
    "(transformer_blocks|single_transformer_blocks).*(to_q|to_k|to_v|to_out.0)"
#define ALL_LINEAR "all-linear"

/* A LoRA's modules are given where they are not our default. musubi means to leave Qwen-Image's
 * modulation out, by a pattern that matches no name. diffsynth's mu of 0.8 is a shift of e^0.8. */
const vc_like_of_family vc_vtrain_like_of_family[] = {
    { VIDEOX_FUN, "cogvideox", "target_name", ALL_LINEAR },
    { VIDEOX_FUN, "hunyuanvideo", "target_name", ALL_LINEAR },
    { VIDEOX_FUN, "wan2.1", "target_name", ALL_LINEAR },
    { VIDEOX_FUN, "qwen-image", "target_name", ALL_LINEAR },
    { VIDEOX_FUN, "flux", "target_name", ALL_LINEAR },
    { VIDEOX_FUN, "z-image", "target_name", ALL_LINEAR },
    { VIDEOX_FUN, "flux2", "target_name", ALL_LINEAR },
    { VIDEOX_FUN, "wan2.1", "flow_shift", "5" },
    { VIDEOX_FUN, "wan2.2-t2v-a14b", "flow_shift", "12" },
    { VIDEOX_FUN, "qwen-image", "flow_terminal", "0.02" },
    { VIDEOX_FUN, "flux", "embedded_guidance", "3.5" },
    { VIDEOX_FUN, "hunyuanvideo", "embedded_guidance", "6" },
    { FINETRAINERS, "hunyuanvideo", "target_name", FINETRAINERS_NAMES },
    { FINETRAINERS, "qwen-image", "target_name", FINETRAINERS_NAMES },
    { FINETRAINERS, "flux", "target_name", FINETRAINERS_NAMES },
    { DIFFSYNTH, "wan2.1", "target_name", "to_q,to_k,to_v,to_out.0,ffn.net.0.proj,ffn.net.2" },
    { DIFFSYNTH, "qwen-image", "target_name",
      QWEN_ATTENTION ",img_mlp.net.2,img_mod.1,txt_mlp.net.2,txt_mod.1" },
    { DIFFSYNTH, "flux", "target_name", DUAL_BLOCKS },
    { DIFFSYNTH, "z-image", "target_name", "to_q,to_k,to_v,to_out.0,w1,w2,w3" },
    { DIFFSYNTH, "krea2", "target_name", ALL_LINEAR },
    { DIFFSYNTH, "ideogram4", "target_name", "to_q,to_k,to_v,to_out.0,w1,w2,w3,adaln_modulation" },
    { DIFFSYNTH, "flux2", "target_name", FLUX2_BLOCKS },
    { DIFFSYNTH, "wan2.1", "flow_shift", "5" },
    { DIFFSYNTH, "flux", "flow_shift", "3" },
    { DIFFSYNTH, "krea2", "flow_shift", "2.2255409" },
    { DIFFSYNTH, "ernie-image", "flow_shift", "3" },
    { DIFFSYNTH, "flux2", "flow_shift", "2.2255409" },
    { DIFFSYNTH, "qwen-image", "flow_shift", "2.2255409" },
    { DIFFSYNTH, "qwen-image", "flow_terminal", "0.02" },
    { MUSUBI, "hunyuanvideo", "target_name", DUAL(DUAL_LINEARS) },
    { MUSUBI, "hunyuanvideo1.5", "target_name", DUAL_BLOCKS },
    { MUSUBI, "kandinsky5", "target_name", KANDINSKY5_BLOCKS },
    { MUSUBI, "wan2.1", "target_name", WAN_BLOCKS },
    { MUSUBI, "skyreels-v2", "target_name", WAN_BLOCKS },
    { MUSUBI, "qwen-image", "target_name", QWEN_BLOCKS },
    { MUSUBI, "flux", "target_name", DUAL(DUAL_LINEARS) },
    { MUSUBI, "z-image", "target_name", ZIMAGE_LAYERS(ZIMAGE_LINEARS) },
    { MUSUBI, "krea2", "target_name", ALL_LINEAR },
    { MUSUBI, "flux2", "target_name", FLUX2_BLOCKS },
    { DIFFUSION_PIPE, "hunyuanvideo", "target_name", DUAL_BLOCKS },
    { DIFFUSION_PIPE, "hunyuanvideo1.5", "target_name", DUAL_BLOCKS },
    { DIFFUSION_PIPE, "ltx-video", "target_name",
      "to_q,to_k,to_v,to_out.0,ff.net.0.proj,ff.net.2" },
    { DIFFUSION_PIPE, "wan2.1", "target_name", WAN_BLOCKS },
    { DIFFUSION_PIPE, "skyreels-v2", "target_name", WAN_BLOCKS },
    { DIFFUSION_PIPE, "qwen-image", "target_name", QWEN_BLOCKS },
    { DIFFUSION_PIPE, "flux", "target_name", DUAL_BLOCKS },
    { DIFFUSION_PIPE, "chroma", "target_name", DUAL(DUAL_LINEARS) },
    { DIFFUSION_PIPE, "sd3", "target_name", VC_SD3_BLOCKS },
    { DIFFUSION_PIPE, "z-image", "target_name",
      "(layers|noise_refiner|context_refiner)\\.[0-9]+\\.(" ZIMAGE_LINEARS
      "|adaLN_modulation\\.0)" },
    { DIFFUSION_PIPE, "krea2", "target_name",
      KREA2_BLOCKS "|text_fusion\\.projector|txt_in\\.linear_[12]" },
    { DIFFUSION_PIPE, "ernie-image", "target_name", ERNIE_LAYERS },
    { DIFFUSION_PIPE, "cosmos2", "target_name", COSMOS2_BLOCKS },
    { DIFFUSION_PIPE, "ideogram4", "target_name",
      ZIMAGE_LAYERS(ZIMAGE_LINEARS "|adaln_modulation") },
    { DIFFUSION_PIPE, "flux2", "target_name", FLUX2_BLOCKS },
    { AI_TOOLKIT, "wan2.1", "target_name", WAN_BLOCKS },
    { AI_TOOLKIT, "qwen-image", "target_name", QWEN_BLOCKS },
    { AI_TOOLKIT, "flux", "target_name", DUAL_BLOCKS },
    { AI_TOOLKIT, "chroma", "target_name", DUAL(DUAL_LINEARS) },
    { AI_TOOLKIT, "sd3", "target_name", VC_SD3_BLOCKS },
    { AI_TOOLKIT, "z-image", "target_name",
      ZIMAGE_LAYERS(ZIMAGE_LINEARS "|adaLN_modulation\\.0") },
    { AI_TOOLKIT, "krea2", "target_name", KREA2_BLOCKS },
    { AI_TOOLKIT, "ernie-image", "target_name", ERNIE_LAYERS },
    { AI_TOOLKIT, "ideogram4", "target_name", ZIMAGE_LAYERS(ZIMAGE_LINEARS "|adaln_modulation") },
    { AI_TOOLKIT, "flux2", "target_name", FLUX2_BLOCKS },
    { 0 }
};

/* Names that only one trainer uses. Our own flags have them as aliases or not at all. The lists of
 * processes of ai-toolkit are not read. */
const char *const vc_like_signs[VC_LIKE_END] = {
    [VIDEOX_FUN] =
        "train_data_meta vae_mini_batch use_peft_lora keep_all_node_same_token_length "
        "enable_text_encoder_in_dataloader auto_tile_batch_size",
    [FINETRAINERS] =
        "flow_weighting_scheme flow_logit_mean flow_logit_std flow_mode_scale "
        "enable_precomputation precomputation_items precomputation_once precomputation_reuse "
        "precomputation_dir validation_dataset_file dataset_shuffle_buffer_size "
        "attn_provider_training",
    [DIFFSYNTH] =
        "dataset_metadata_path dataset_base_path lora_base_model remove_prefix_in_ckpt "
        "lora_target_modules preset_lora_model use_gradient_checkpointing "
        "use_gradient_checkpointing_offload dataset_num_workers model_id_with_origin_paths "
        "model_paths",
    [MUSUBI] =
        "max_data_loader_n_workers gradient_checkpointing_cpu_offload sdpa "
        "persistent_data_loader_workers dynamo_backend dataset_config network_module network_dim "
        "network_args discrete_flow_shift fp8_base fp8_scaled text_cache_dtype video_directory "
        "target_frames frame_extraction source_fps",
    [DIFFUSION_PIPE] =
        "micro_batch_size_per_gpu optimizer.type adapter.type model.type pipeline_stages "
        "steps_per_print partition_method caching_batch_size video_clip_mode "
        "reentrant_activation_checkpointing directory ar_buckets num_ar_buckets "
        "checkpoint_every_n_minutes optimizer.betas",
    [TTT_VIDEO] =
        "job.exp_name job.config_file model.ssm_layer model.mini_batch_size model.video_length "
        "optimizer.lr_ssm optimizer.lr_ssm_schedule optimizer.gradient_clipping_norm "
        "training.adapter_method training.warmup_steps training.steps "
        "checkpoint.init_state_dir parallelism.dp_replicate parallelism.dp_sharding",
    [AI_TOOLKIT] = "", [LTX_TRAINER] = "",
};
