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
 *                   networks/lora.py (rank 4; modules of HunyuanVideo), lora_wan.py, lora_flux.py,
 *                   lora_qwen_image.py, lora_zimage.py and lora_flux_2.py (modules),
 *                   dataset/config_utils.py
 *   diffusion-pipe  tdrussell/diffusion-pipe 8f83dbf, 2026-08-20: train.py (AdamW as PyTorch
 *                   has it), models/base.py (modules), utils/dataset.py, models/cosmos_predict2.py
 *                   (times)
 *   ttt-video       test-time-training/ttt-video-dit 6c316a7, 2025-05: ttt/infra/config_manager.py
 *                   (arguments) and optimizers.py (AdamW, the schedules and their warm-up),
 *                   ttt/models/cogvideo/model.py (times) and utils.py (the sampler)
 *   ai-toolkit      ostris/ai-toolkit 27a03a91, 2026-08-21: in toolkit config_modules.py,
 *                   optimizer.py, lora_special.py (modules; alpha is the rank of a transformer's
 *                   LoRA) and samplers/custom_flowmatch_sampler.py (sigmoid times)
 *
 * PyTorch's AdamW has betas 0.9 and 0.999, eps 1e-8 and decay 0.01. The tables have no settings
 * that a trainer requires (rank and rate of diffusion-pipe, frames of diffusion-pipe and musubi) or
 * takes from the model's files (the shift of videox-fun, except Wan's). The lists of modules were
 * compared with those that the trainers' own code chooses in small models. */
#include "common/cli/like.h"

enum { TTT_VIDEO = 5 };      /* column of the tables */

#define LORA "a LoRA's"
#define FLOW "a flow's"

const vc_like vc_vtrain_like[] = {
    { "learning_rate", { "1e-4", "1e-4", "1e-4", "2e-6", NULL, "1e-4", "1e-6" }, NULL },
    { "lr_scheduler",
      { "constant", "constant", "piecewise_constant", "constant", "constant", "linear",
        "constant" }, NULL },
    { "lr_step_rules", { NULL, NULL, "0.333333:5,1", NULL, NULL, NULL }, NULL },
    { "lr_warmup_steps", { "500", "500", "0", "0", "0", "50", "0" }, NULL },
    { "adam_beta1", { "0.9", "0.9", "0.9", "0.9", "0.9", "0.9", "0.9" }, NULL },
    { "adam_beta2", { "0.999", "0.95", "0.999", "0.999", "0.999", "0.95", "0.999" }, NULL },
    { "adam_weight_decay", { "1e-2", "1e-4", "1e-2", "1e-2", "1e-2", "1e-4", "1e-2" }, NULL },
    { "adam_epsilon", { "1e-8", "1e-8", "1e-8", "1e-8", "1e-8", "1e-8", "1e-6" }, NULL },
    { "max_grad_norm", { "1", "1", "0", "1", "1", "0.1", "1" }, NULL },
    { "caption_dropout_p", { "0.1", "0", "0", "0", "0", "0", "0" }, NULL },
    { "checkpointing_epochs", { NULL, NULL, "1", NULL }, NULL },
    { "lr_warmup_from", { [TTT_VIDEO] = "1" }, NULL },
    { "no_decay", { [TTT_VIDEO] = "bias,norm,b1,b2" }, NULL },
    { "uniform_sampling", { [TTT_VIDEO] = "true" }, NULL },
    { "guidance_schedule", { [TTT_VIDEO] = "cosine_time" }, NULL },
    { "rank", { "128", "64", "32", "4", NULL, NULL, "4" }, LORA },
    { "network_alpha", { "64", "64", NULL, "1", NULL }, LORA },
    { "weighting_scheme",
      { "uniform", "uniform", "bell", "uniform", "logit_normal", NULL, "logit_normal" }, FLOW },
    { "flow_levels", { "1000", "1000", "1000", "1000", "0", NULL, "0" }, FLOW },
    { "logit_mean", { "0", "0", NULL, "0", "0", NULL, "0" }, FLOW },
    { "logit_std", { "1", "1", NULL, "1", "1", NULL, "1" }, FLOW },
    { "mode_scale", { "1.29", "1.29", NULL, "1.29", NULL }, FLOW },
    { "flow_shift", { NULL, "1", NULL, "1", "1", NULL, "1" }, FLOW },
    { "loss_cutoff", { "50", NULL, NULL, NULL, NULL }, FLOW },
    { 0 }
};

const vc_like vc_vprep_like[] = {
    { "enable_bucket", { "false", NULL, NULL, NULL, NULL }, NULL },
    { "video_sample_n_frames", { "17", NULL, "81", NULL, NULL }, NULL },
    { "video_sample_stride", { "4", NULL, "1", "1", "1" }, NULL },
    { "start_rule", { NULL, NULL, "first", "first", "first" }, NULL },
    { 0 }
};

/* ---- values that depend on the model's family ---- */

#define WAN_BLOCKS \
    "blocks\\.[0-9]+\\.(attn[12]\\.(to_[qkv]|to_out\\.0|add_[kv]_proj)|ffn\\.net\\.(0\\.proj|2))"
#define QWEN_ATTENTION "to_q,to_k,to_v,to_out.0,add_q_proj,add_k_proj,add_v_proj,to_add_out"
#define QWEN_BLOCKS \
    QWEN_ATTENTION ",img_mlp.net.0.proj,img_mlp.net.2,txt_mlp.net.0.proj,txt_mlp.net.2,img_mod.1," \
                   "txt_mod.1"
/* The linears of FLUX.1's and HunyuanVideo's blocks, without those of the modulation. */
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
#define FINETRAINERS "(transformer_blocks|single_transformer_blocks).*(to_q|to_k|to_v|to_out.0)"
#define ALL_LINEAR "all-linear"

/* A LoRA's modules are given where they are not our default. musubi means to leave Qwen-Image's
 * modulation out, by a pattern that matches no name. diffsynth's mu of 0.8 is a shift of e^0.8. */
const vc_like_of_family vc_vtrain_like_of_family[] = {
    { "videox-fun", "cogvideox", "target_name", ALL_LINEAR },
    { "videox-fun", "hunyuanvideo", "target_name", ALL_LINEAR },
    { "videox-fun", "wan2.1", "target_name", ALL_LINEAR },
    { "videox-fun", "qwen-image", "target_name", ALL_LINEAR },
    { "videox-fun", "flux", "target_name", ALL_LINEAR },
    { "videox-fun", "z-image", "target_name", ALL_LINEAR },
    { "videox-fun", "flux2", "target_name", ALL_LINEAR },
    { "videox-fun", "wan2.1", "flow_shift", "5" },
    { "videox-fun", "wan2.2-t2v-a14b", "flow_shift", "12" },
    { "videox-fun", "qwen-image", "flow_terminal", "0.02" },
    { "videox-fun", "flux", "embedded_guidance", "3.5" },
    { "videox-fun", "hunyuanvideo", "embedded_guidance", "6" },
    { "finetrainers", "hunyuanvideo", "target_name", FINETRAINERS },
    { "finetrainers", "qwen-image", "target_name", FINETRAINERS },
    { "finetrainers", "flux", "target_name", FINETRAINERS },
    { "diffsynth", "wan2.1", "target_name", "to_q,to_k,to_v,to_out.0,ffn.net.0.proj,ffn.net.2" },
    { "diffsynth", "qwen-image", "target_name",
      QWEN_ATTENTION ",img_mlp.net.2,img_mod.1,txt_mlp.net.2,txt_mod.1" },
    { "diffsynth", "flux", "target_name", DUAL_BLOCKS },
    { "diffsynth", "z-image", "target_name", "to_q,to_k,to_v,to_out.0,w1,w2,w3" },
    { "diffsynth", "flux2", "target_name", FLUX2_BLOCKS },
    { "diffsynth", "wan2.1", "flow_shift", "5" },
    { "diffsynth", "flux", "flow_shift", "3" },
    { "diffsynth", "flux2", "flow_shift", "2.2255409" },
    { "diffsynth", "qwen-image", "flow_shift", "2.2255409" },
    { "diffsynth", "qwen-image", "flow_terminal", "0.02" },
    { "musubi", "hunyuanvideo", "target_name", DUAL(DUAL_LINEARS) },
    { "musubi", "wan2.1", "target_name", WAN_BLOCKS },
    { "musubi", "qwen-image", "target_name", QWEN_BLOCKS },
    { "musubi", "flux", "target_name", DUAL(DUAL_LINEARS) },
    { "musubi", "z-image", "target_name", ZIMAGE_LAYERS(ZIMAGE_LINEARS) },
    { "musubi", "flux2", "target_name", FLUX2_BLOCKS },
    { "diffusion-pipe", "hunyuanvideo", "target_name", DUAL_BLOCKS },
    { "diffusion-pipe", "ltx-video", "target_name",
      "to_q,to_k,to_v,to_out.0,ff.net.0.proj,ff.net.2" },
    { "diffusion-pipe", "wan2.1", "target_name", WAN_BLOCKS },
    { "diffusion-pipe", "qwen-image", "target_name", QWEN_BLOCKS },
    { "diffusion-pipe", "flux", "target_name", DUAL_BLOCKS },
    { "diffusion-pipe", "z-image", "target_name",
      "(layers|noise_refiner|context_refiner)\\.[0-9]+\\.(" ZIMAGE_LINEARS
      "|adaLN_modulation\\.0)" },
    { "diffusion-pipe", "flux2", "target_name", FLUX2_BLOCKS },
    { "ai-toolkit", "wan2.1", "target_name", WAN_BLOCKS },
    { "ai-toolkit", "qwen-image", "target_name", QWEN_BLOCKS },
    { "ai-toolkit", "flux", "target_name", DUAL_BLOCKS },
    { "ai-toolkit", "z-image", "target_name",
      ZIMAGE_LAYERS(ZIMAGE_LINEARS "|adaLN_modulation\\.0") },
    { "ai-toolkit", "flux2", "target_name", FLUX2_BLOCKS },
    { 0 }
};

/* Names that only one trainer uses. Our own flags have them as aliases or not at all. */
const vc_like_peer vc_like_peers[VC_LIKE_PEERS] = {
    { "videox-fun", "train_data_meta vae_mini_batch use_peft_lora keep_all_node_same_token_length "
                    "enable_text_encoder_in_dataloader auto_tile_batch_size" },
    { "finetrainers", "flow_weighting_scheme flow_logit_mean flow_logit_std flow_mode_scale "
                      "enable_precomputation precomputation_items precomputation_once "
                      "precomputation_reuse precomputation_dir validation_dataset_file "
                      "dataset_shuffle_buffer_size attn_provider_training" },
    { "diffsynth", "dataset_metadata_path dataset_base_path lora_base_model remove_prefix_in_ckpt "
                   "lora_target_modules preset_lora_model use_gradient_checkpointing "
                   "use_gradient_checkpointing_offload dataset_num_workers "
                   "model_id_with_origin_paths model_paths" },
    { "musubi", "max_data_loader_n_workers gradient_checkpointing_cpu_offload sdpa "
                "persistent_data_loader_workers dynamo_backend dataset_config network_module "
                "network_dim network_args discrete_flow_shift fp8_base fp8_scaled "
                "text_cache_dtype video_directory target_frames frame_extraction source_fps" },
    { "diffusion-pipe", "micro_batch_size_per_gpu optimizer.type adapter.type model.type "
                        "pipeline_stages steps_per_print partition_method caching_batch_size "
                        "video_clip_mode reentrant_activation_checkpointing directory ar_buckets "
                        "num_ar_buckets checkpoint_every_n_minutes optimizer.betas" },
    { "ttt-video", "job.exp_name job.config_file model.ssm_layer model.mini_batch_size "
                   "model.video_length optimizer.lr_ssm optimizer.lr_ssm_schedule "
                   "optimizer.gradient_clipping_norm training.adapter_method "
                   "training.warmup_steps training.steps checkpoint.init_state_dir "
                   "parallelism.dp_replicate parallelism.dp_sharding" },
    { "ai-toolkit", "" },                  /* whose lists of processes are not read */
};
