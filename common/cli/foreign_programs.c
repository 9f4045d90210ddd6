/* foreign_programs.c - see foreign.h: flags of the programs beside the trainers, which encode clips
 * and captions, start ranks or convert checkpoints, and sections of configuration files. */
#include "common/cli/foreign_rows.h"

#define SLURM "sbatch and srun start the job: docs/cluster.md has a script, scripts/vlt.sbatch"
#define DEEPSPEED "write --deepspeed_config FILE for a file of DeepSpeed's settings"
#define FOLDERS "the files of --model have these settings"

const vc_foreign vc_program_flags[] = {
    /* musubi-tuner's forks for LTX-2 */
    MEANS("video|v|av|va", "av>with_audio|va>with_audio", "ltx2_mode ltx_mode", "the video is "
          "trained alone unless --with_audio is given", "sound is not trained without its video"),
    NONE(1, "ltx_version ltx_version_check_mode", "the version is read from the model's folder"),
    NONE(0, "gemma_load_in_8bit gemma_load_in_4bit", "text encoders compute in bf16"),
    NONE(0, "separate_audio_buckets", "clips with and without sound, of any length, share a batch"),
    ONLY("video", "ltx2_audio_source", "the sound of a clip is that of its file"),
    REFUSED(0, "ltx2_audio_*", "write --with_audio; sounds of any length share a batch, and the "
            "audio_vae is that of --model"),
    NONE(0, "sample_with_offloading sample_tiled_vae sample_merge_audio", "vtrain's samples are "
         "latents, and vdecode makes MP4s of them, with their sound"),
    NONE(1, "sample_vae_tile_* sample_vae_temporal_tile_*", "vtrain's samples are latents: "
         "vdecode's --vae_tiling saves memory"),
    REFUSED(1, "lora_target_preset", "write the modules: --target_name "
            "to_q,to_k,to_v,to_out.0"),

    /* ttt-video: training reads what its own programs encoded */
    NONE(1, "training.dataset_path training.jsonl_paths", "samples come from --latents DATASET, "
         "which vprep makes of the clips in --meta PATH, and vlat import of ttt-video's caches"),
    REFUSED(1, "precomp.episode_dir input_jsonl_file", LIST),
    REFUSED(1, "precomp.output_dir", "write vprep's --out DATASET"),
    REFUSED(1, "precomp.vae_weight_path", "write vprep's --vae FOLDER, or --model FOLDER"),
    REFUSED(1, "precomp.video_length", "write vprep's --ttt_segments N, segments of three seconds"),
    REFUSED(1, "precomp.fps", "write vprep's --sample_fps X: frames are picked by time"),
    REFUSED(1, "precomp.vae_tiling_window_unit", "write vprep's --vae_window N, in frames"),
    NONE(1, "precomp.batch_size", "clips go through the VAE one by one; --vae_tiling saves memory"),
    REFUSED(1, "max_length", "write vprep's --tokenizer_max_length"),
    REFUSED(1, "checkpoint_dir", "write vprep's --model FOLDER, or --text_encoder and "
            "--tokenizer"),
    REFUSED(1, "final_save_path pretrained_weights_dir ssm_type", "no conversion is needed: give "
            "diffusers' CogVideoX-5b as --model, and --ssm_layer ttt_mlp or ttt_linear"),
    REFUSED(1, "ngpus nodes timeout slurm_max_num_timeout account partition nodelist comment "
            "dependency_job_id", SLURM),
    /* torchrun and accelerate */
    NONE(1, "local_ranks_filter role tee redirects log_line_prefix_template max_restarts "
         "monitor_interval start_method", LAUNCHER),
    NONE(1, "dynamo_config.*", "the backend decides it"),
    NONE(0, "fsdp_text_encoder", "no text encoder is loaded in training"),
    /* DeepSpeed's JSON file as --config */
    REFUSED(1, "zero_optimization zero_optimization.* fp16.* bf16.* fp16.enabled bf16.enabled "
            "train_micro_batch_size_per_gpu wall_clock_breakdown", DEEPSPEED),
    /* VideoX-Fun's description of a model */
    NONE(1, "transformer_additional_kwargs.* vae_kwargs.* text_encoder_kwargs.* "
         "scheduler_kwargs.* image_encoder_kwargs.* audio_encoder_kwargs.*", FOLDERS),
    REFUSED(1, "output_audio_dir max_audio_duration", "no sound is trained: leave it out"),
    /* Finetrainers' list of datasets */
    ONLY("bicubic", "datasets.reshape_mode", "pictures are resized by a bicubic filter and cut"),
    REFUSED(1, "datasets.remove_common_llm_caption_prefixes", "leave the prefixes out of the "
            "captions of the list"),
    REFUSED(1, "datasets.caption_options datasets.rename_columns", "write vprep's --caption_column "
            "and --data_file_keys"),
    /* FastVideo's programs */
    REFUSED(1, "speed_factor drop_short_ratio", "write vprep's --sample_fps, --num_frames and "
            "--on_small"),
    NONE(0, "group_frame group_resolution do_temporal_sample", "batches are made of latents of one "
         "shape"),
    NONE(1, "use_image_num text_encoder_name distributed_executor_backend lora_nickname "
         "validate_cache_structure", "vprep encodes and vtrain trains in one way"),
    ONLY("finetuning|preprocess", "mode", "vprep prepares and vtrain trains"),
    REFUSED(1, "generator_model_path generator_update_interval gradient_mask_last_n_frames "
            "scheduler_type", OTHER),
    NONE(1, "training.distributed.num_gpus", LAUNCHER),
    NONE(1, "output_type", "samples are written as MP4 and PNG"),
    /* LoRA variants of sd-scripts, LyCORIS, OneTrainer and SimpleTuner */
    REFUSED(0, "train_norm", "an adapter changes no norms: --trainable_modules norm trains them "
            "in a full finetune"),
    REFUSED(1, "loraplus_lr_ratio loraplus_unet_lr_ratio lora_plus_ratio", "write --param_groups "
            "\"lora_B:lr=Nx\", or --network_args loraplus_lr_ratio=N"),
    REFUSED(1, "conv_dim conv_rank conv_lora_dim conv_block_dims", "a transformer's convolutions "
            "have no LoRA: leave it out"),
    REFUSED(1, "network_reg_dims network_reg_alphas block_dims block_alphas train_block_indices "
            "train_double_block_indices train_single_block_indices", "write --rank_pattern "
            "PATTERN=RANK and --alpha_pattern PATTERN=ALPHA for modules, and --target_name, an "
            "expression over whole paths, to choose them"),
    REFUSED(1, "network_reg_lrs block_lr down_lr_weight mid_lr_weight up_lr_weight", "write "
            "--param_groups \"PATTERN:lr=X\""),
    REFUSED(1, "oft_* lora_decompose_* embedding_weight_dtype", "the adapters are those of "
            "--adapter"),
    /* ai-toolkit's losses and guides */
    REFUSED(1, "blank_prompt_preservation blank_prompt_preservation_multiplier",
            "give the dataset twice: --latents DATASET --latents DATASET:blank=W"),
    REFUSED(1, "diff_output_preservation diff_output_preservation_class "
            "diff_output_preservation_multiplier", "write vprep's --preserve \"TRIGGER=CLASS\", "
            "and give the dataset twice: --latents DATASET --latents DATASET:preserve=W"),
    REFUSED(1, "prior_reg is_reg is_regularisation_data is_regularization_data",
            "make a dataset of these pictures alone by vprep --sample_kind reg or prior, and give "
            "it beside the other by --latents"),
    REFUSED(1, "adapter_assist_* adaptive_scaling_factor "
            "blended_blur_noise correct_pred_norm correct_pred_norm_multiplier do_cfg "
            "do_random_cfg do_fft_* do_guidance_* do_prior_* do_signal_* do_batch_noise_* "
            "do_blank_* do_differential_* do_paramiter_* dynamic_noise_offset "
            "force_consistent_noise diffusion_feature_* latent_feature_* loss_target "
            "match_adapter_* match_noise_norm max_loss merge_network_on_save "
            "optimal_noise_* paramiter_swapping_factor prompt_saturation_chance random_noise_* "
            "short_and_long_* single_item_batching standardize_latents t0_* target_norm_std "
            "weight_jitter clip_image_* "
            "inverted_mask_prior validation_config ltx_partial_noise_fraction "
            "ltx_protect_first_frame max_grounding_entities flux_attention_masked_training",
            "loss and noise are those of the model's family: leave it out"),
    REFUSED(1, "audio_channels audio_duration_interval audio_max_* audio_min_* "
            "audio_truncation_mode", "no sound is trained: leave it out"),
    REFUSED(1, "pretrained_transformer_subfolder pretrained_unet_subfolder "
            "qwen_text_encoder_model_name_or_path", PART),
    NONE(1, "cache_tensors_to_disk cache_clip_vision_to_disk log_every project_name run_name "
         "use_wandb use_ui_logger tensorboard_* ema_config optimizer_params split_model_over_gpus "
         "musubi_block_swap_device data_backend_sampling t5_padding peft_lora_mode", "vprep "
         "encodes before training, and event files are always written, to tensorboard/ in the "
         "run's folder"),
    /* SimpleTuner's methods and conveniences */
    REFUSED(1, "crepa_* urepa_* scheduled_sampling_* twinflow_* mixflow_* nextlat_* xm_* "
            "diff2flow_* acestep_lora_target slider_lora_target lyrics_embedder_* singlora_* "
            "refiner_training refiner_training_* control ltx_i2v_prob "
            "freeze_encoder_* custom_text_encoder_intermediary_layers sla_config", OTHER),
    REFUSED(1, "masked_loss_probability", "name the masks in the column loss_mask_path of vprep's "
            "list"),
    REFUSED(1, "assistant_lora_*", "write --preset_lora_path"),
    REFUSED(1, "flow_beta_* flow_cubic_* flow_custom_* flow_timesteps_mode flow_use_* "
            "timestep_bias_* disable_segmented_timestep_sampling snr_weight use_soft_min_snr "
            "soft_min_snr_* rescale_betas_zero_snr offset_noise noise_offset_* flux_fast_schedule "
            "training_scheduler_timestep_spacing", "a flow's levels are --weighting_scheme, "
            "--timestep_sampling and --flow_shift"),
    REFUSED(1, "flux_guidance_*", "write --embedded_guidance"),
    REFUSED(0, "lr_scale lr_scale_sqrt", "give the --learning_rate that is meant"),
    REFUSED(0, "fsdp_enable fsdp_cpu_offload fsdp_limit_all_gathers", "write --parallel fsdp"),
    REFUSED(1, "quantization_config bnb_4bit_*", PACKED),
    REFUSED(0, "load_in_4bit use_4bit", "write --transformer_dtype nf4"),
    REFUSED(0, "load_in_8bit use_8bit", "write --transformer_dtype int8"),
    NONE(1, "validate_after_* validation_input validation_method validation_preview "
         "validation_external_* validation_adapter_* validation_image_* validation_noise_scheduler "
         "validation_on_startup validation_randomize validation_multigpu validation_seed_source "
         "validation_stitch_* validation_using_datasets validation_no_cfg_until_timestep "
         "validation_guidance_skip_* validation_internal_* validation_ltx2_* validation_audio_only "
         "deepfloyd_* sdxl_* pixart_* sd3_* sana_* wan_validation_*", "prompts are rows of vprep's "
         "--validation_prompts FILE, sampled every --validation_steps"),
    NONE(1, "delete_* nsfw_check_* enable_nsfw_check data_aesthetic_score print_filenames "
         "aspect_bucket_* parquet_filename_column debug_aspect_buckets debug_dataset_loader "
         "text_embed_full_cache vae_cache_scan_behaviour metadata_update_interval", "vprep's "
         "--on_error decides about damaged files, and vlat shows and selects"),
    NONE(1, "accelerate_config accelerate_extra_args max_workers torch_num_threads "
         "enable_multiprocessing dataloader_prefetch dataloader_prefetch_qlen disable_tf32 "
         "enable_group_offload enable_chunked_feed_forward feed_forward_chunk_size "
         "offload_during_save fuse_optimizer ema_foreach_disable optimizer_cpu_offload_method "
         "optimizer_offload_gradients optimizer_release_gradients sageattention_usage "
         "unet_attention_slice fully_unload_text_encoder accelerator_cache_clear_interval "
         "checkpointing_use_tempdir delete_model_after_load seed_for_each_device "
         "offload_param_path disk_low_*", "the backend decides it"),
    NONE(1, "model_card_* modelspec_comment publishing_config post_upload_script "
         "post_checkpoint_script webhook_* custom_tracker tracker_image_layout "
         "print_sampler_statistics enable_watermark", "nothing is uploaded; event files are "
         "written to tensorboard/ in the run's folder"),
    NONE(1, "eval_dataset_id eval_dataset_pooling eval_timesteps eval_loss_disable", "--eval_split "
         "sets the share of held-out samples"),
    { 0 }
};
