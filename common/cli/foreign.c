/* foreign.c - see foreign.h: what one program acts on and the other only knows. What both act on
 * (model, seed, device, workers, trace_dir, dry_run, quiet, log_format) is in no table. */
#include "common/cli/foreign.h"

#define IN_VPREP "used by vprep, not here"
#define IN_VTRAIN "used by vtrain, not here"
#define VPREP(words, names) { .name = names, .values = words, .say = IN_VPREP }
#define VTRAIN(words, names) { .name = names, .values = words, .say = IN_VTRAIN }

const vc_foreign vc_vprep_flags[] = {
    VPREP(1, "meta train_data_meta dataset_metadata_path"),
    VPREP(1, "data train_data_dir dataset_base_path"),
    VPREP(-1, "data_file_keys caption_column extra_inputs"),
    VPREP(-1, "reuse"),
    VPREP(1, "out plan shard shard_size shard_seconds"),
    VPREP(0, "overwrite append rehash trust_metadata allow_missing allow_empty_captions"),
    VPREP(1, "vae vae_id vae_path vae_dtype"),
    VPREP(1, "text_encoder text_encoder_id text_encoder_path text_encoder_dtype"),
    VPREP(1, "text_encoder_2 text_encoder_2_id text_encoder_2_dtype"),
    VPREP(1, "text_encoder_3 text_encoder_3_id text_encoder_3_dtype"),
    VPREP(1, "tokenizer tokenizer_id tokenizer_path tokenizer_2 tokenizer_2_id"),
    VPREP(1, "tokenizer_3 tokenizer_3_id tokenizer_max_length max_sequence_length"),
    VPREP(0, "enable_bucket random_hw_adapt training_with_video_token_length"),
    VPREP(0, "random_ratio_crop random_frame_crop random_flip allow_upscale"),
    VPREP(1, "video_sample_size image_sample_size token_sample_size height width max_pixels"),
    VPREP(2, "fix_sample_size"),
    VPREP(1, "video_sample_stride video_sample_n_frames max_num_frames num_frames sample_fps"),
    VPREP(1, "video_repeat"),
    VPREP(1, "sampling frame_rule frame_count start_rule fit bucket_metric max_upscale on_small"),
    VPREP(1, "mask_shapes i2v_condition train_mode image_noise_variants variants"),
    VPREP(0, "vae_tiling enable_tiling use_tiling vae_enable_tiling"),
    VPREP(1, "video_decoder"),
    VPREP(1, "dtype latent_store thumbnails on_error"),
    VPREP(-1, "validation_prompts"),
    VPREP(1, "validation_dataset_file negative_prompt"),
    { 0 }
};

const vc_foreign vc_vtrain_flags[] = {
    VTRAIN(-1, "latents"),
    VTRAIN(1, "output_dir output_path dataset_repeat eval_split eval_steps posterior"),
    VTRAIN(0, "follow allow_mismatch verify_data"),
    VTRAIN(-1, "trainable_models trainable_modules fp8_models"),
    VTRAIN(1, "training_type"),
    VTRAIN(1, "rank lora_rank network_alpha lora_alpha"),
    VTRAIN(-1, "target_name target_modules lora_target_modules"),
    VTRAIN(1, "lora_checkpoint preset_lora_path"),
    VTRAIN(0, "bake_scale export_kohya export_comfyui export_pipeline"),
    VTRAIN(0, "motion_sub_loss"),
    VTRAIN(1, "motion_sub_loss_ratio scheduler scheduler_id scheduler_path validation_sampler"),
    VTRAIN(1, "boundary_type transformer transformer_id transformer_path transformer_dtype"),
    VTRAIN(1, "mixed_precision"),
    VTRAIN(1, "dit_width dit_layers dit_heads dit_patch"),
    VTRAIN(1, "objective weighting_scheme flow_weighting_scheme logit_mean flow_logit_mean"),
    VTRAIN(1, "logit_std flow_logit_std mode_scale flow_mode_scale flow_shift"),
    VTRAIN(1, "caption_dropout_p caption_dropout caption_dropout_probability"),
    VTRAIN(1, "image_dropout_p noised_image_dropout mask_all_dropout_p"),
    VTRAIN(1, "first_frame_conditioning_p embedded_guidance"),
    VTRAIN(0, "dit_guidance_embeds"),
    VTRAIN(0, "uniform_sampling"),
    VTRAIN(1, "train_batch_size batch_size micro_batch_size_per_gpu"),
    VTRAIN(1, "gradient_accumulation_steps"),
    VTRAIN(1, "max_train_steps train_steps max_steps num_train_epochs num_epochs train_epochs"),
    VTRAIN(1, "max_train_epochs epochs optimizer optimizer_type optimizer.type"),
    VTRAIN(1, "learning_rate lr lr_scheduler lr_warmup_steps lr_num_warmup_steps warmup_steps"),
    VTRAIN(1, "lr_num_cycles lr_scheduler_num_cycles lr_power lr_scheduler_power lr_step_rules"),
    VTRAIN(1, "adam_beta1 beta1 adam_beta2 beta2 adam_weight_decay weight_decay"),
    VTRAIN(1, "adam_epsilon epsilon eps max_grad_norm gradient_clipping ema_decay"),
    VTRAIN(0, "use_ema use_8bit_adam use_8bit_bnb"),
    VTRAIN(0, "gradient_checkpointing use_gradient_checkpointing activation_checkpointing"),
    VTRAIN(0, "gradient_checkpointing_offload use_gradient_checkpointing_offload "
           "gradient_checkpointing_cpu_offload profile"),
    VTRAIN(1, "threads kernels memory_limit blocks_to_swap"),
    VTRAIN(0, "low_vram deterministic"),
    VTRAIN(1, "parallel dp_degree dp_shards reduce_dtype nccl_timeout"),
    VTRAIN(1, "checkpointing_steps save_steps checkpointing_limit checkpoints_total_limit"),
    VTRAIN(1, "resume_from_checkpoint report_to trace_steps"),
    VTRAIN(1, "validation_steps num_inference_steps guidance_scale"),
    { 0 }
};
