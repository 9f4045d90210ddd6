/* foreign_peers.c - see foreign.h: flags of other trainers that have no effect in this design, or
 * are refused with the remedy. Names with a section, "optimizer.type", come from configuration
 * files. */
#include "common/cli/foreign_rows.h"
#include "common/cli/peers/encoders.h"

#define BACKEND "the backend decides it"
#define EVENTS "event files are always written, to tensorboard/ in the run's folder"
#define ENCODED "vprep always encodes before training, and reuses values that are encoded already"
#define DISTILLED "it controls distillation, which this program does not do"
#define UNREAD "Finetrainers has the flag but never reads it; the model's scheduler file or "      \
    "--flow_shift sets the shift"

const vc_foreign vc_ignored_flags[] = {
    NONE(0, "enable_model_cpu_offload initialize_model_on_cpu offload dit_cpu_offload "
         "dit_layerwise_offload vae_cpu_offload text_encoder_cpu_offload image_encoder_cpu_offload",
         "vprep holds one encoder at a time and vtrain none; --low_vram or --blocks_to_swap N let "
         "the transformer's blocks wait on the host"),
    NONE(1, "offload_models", "vprep holds one encoder at a time and vtrain none"),
    NONE(0, "enable_slicing use_slicing vae_cache_cpu vae_enable_patch_conv framewise_decoding "
         "vae_gradient_checkpointing", "clips go through the VAE one by one; --vae_tiling saves "
         "memory"),
    NONE(1, "vae_mini_batch vae_chunk_size vae_spatial_tile_sample_min_size vae_sample_size "
         "caching_batch_size", "clips go through the VAE one by one; --vae_tiling saves memory"),
    NONE(0, "use_peft_lora", "LoRA files always have the names that diffusers and PEFT read"),
    NONE(0, "dim_from_weights", "without --rank the ranks are those of --lora_checkpoint"),
    NONE(1, "remove_prefix_in_ckpt", "files always have the names of diffusers, without a prefix"),
    NONE(0, "align_to_opensource_format safe_serialization",
         "files are always safetensors with the names of diffusers"),
    NONE(1, "max_shard_size", "weights are written to one file"),
    NONE(0, "find_unused_parameters", "a parameter without a gradient is no error"),
    ONLY("dit|transformer", "preset_lora_model", "only the transformer is "
         "trained"),
    NONE(0, "offload_inactive_dit", "of two transformers that are trained both stay mapped from "
         "their files"),
    NONE(1, "switch_boundary_every", "with --boundary_type both each micro-batch goes to the "
         "transformer that its levels belong to"),
    NONE(1, "model_name model_family model_flavour",
         "the family is read from the model's folder"),
    ONLY("lora|sft|full|full-finetune|standard", "model_type",
         "--training_type chooses LoRA or full finetune, and the model's folder names the model"),
    NONE(1, "cache_dir revision non_ema_revision variant", "nothing is downloaded"),
    NONE(0, "precompute_conditions enable_precomputation enable_text_encoder_in_dataloader "
         "precomputation_once precomputation_reuse load_tensors save_latents_and_embeddings "
         "save_image_latents cache_latents skip_existing cache_only bulk_decode", ENCODED),
    NONE(0, "cache_latents_to_disk cache_text_encoder_outputs cache_text_encoder_outputs_to_disk "
         "disable_mmap_load_safetensors skip_cache_check", ENCODED),
    NONE(1, "save_model_as", "weights are saved in the forms of diffusers, kohya and ComfyUI"),
    NONE(0, "apply_t5_attn_mask apply_lg_attn_mask", "the family decides which tokens are attended "
         "to"),
    ONLY("raw", "model_prediction_type", "the model predicts the flow itself, which is raw"),
    NONE(1, "preprocess_task preprocess_video_batch_size samples_per_file flush_frequency "
         "precomputation_items precomputation_dir precompute_data_dir cache_dir_vae "
         "cache_dir_text num_artifact_workers num_decode_threads map_num_proc", ENCODED),
    ONLY("frame", "i2v_condition", "the first frame is encoded alone"),
    NONE(1, "dataset_shuffle_buffer_size", "the whole dataset is shuffled in each epoch"),
    NONE(1, "config_path output_name tag", "folders are given by --model and --output_dir"),
    NONE(0, "report_model_info verbose show_progress",
         "--profile and the plan of a run show it"),
    NONE(1, "logging_steps steps_per_print log_prefix console_width console_num_images "
         "console_back",
         "each step is reported"),
    NONE(0, "keep_all_node_same_token_length auto_tile_batch_size",
         "batches are made of latents of one shape"),
    NONE(0, "save_state save_state_on_train_end", "every checkpoint can be resumed"),
    NONE(1, "tracker_name tracker_project_name logging_dir log_tracker_name log_tracker_config "
         "wandb_run_name wandb_api_key wandb_project swanlab_project log_dir "
         "tracker_run_name", EVENTS),
    NONE(0, "enable_tensorboard_log enable_wandb_log enable_swanlab_log enable_csv_log log_config "
         "log_loss_stats", EVENTS),
    NONE(0, "allow_tf32 pin_memory multi_stream enable_xformers_memory_efficient_attention "
         "sdpa flash_attn flash3 sage_attn xformers split_attn compile compile_fullgraph "
         "compile_dit "
         "cast_dit persistent_data_loader_workers cuda_allow_tf32 cuda_cudnn_benchmark "
         "disable_cudnn_backend disable_numpy_memmap dynamo_fullgraph dynamo_dynamic "
         "ddp_gradient_as_bucket_view ddp_static_graph enable_npu_flash_attention enable_npu_patch "
         "use_pinned_memory_for_block_swap block_swap_h2d_only block_swap_optimizer_patch_params "
         "use_32bit_attention img_in_txt_in_offloading fused_backward_pass mem_eff_save "
         "set_grads_to_none reentrant_activation_checkpointing pin_cpu_memory disable_autocast "
         "enable_torch_compile enable_stage_verification", BACKEND),
    NONE(1, "float32_matmul_precision compile_backend compile_mode compile_dynamic "
         "compile_cache_size_limit dynamo_backend dynamo_mode attn_provider_training ddp_timeout "
         "block_swap_ring_size selective_ac gpu_memory_mode cpu_offload_split_threshold "
         "attention_mechanism attention_backend torch_compile_kwargs", BACKEND),
    NONE(-1, "compile_modules compile_scopes attn_provider_inference", BACKEND),
    NONE(1, "local_rank parallel_backend init_timeout master_port partition_method dist_timeout",
         LAUNCHER),
    /* accelerate's flags and its YAML file */
    NONE(0, "use_deepspeed multi_gpu standalone same_network use_cpu tpu_use_cluster tpu_use_sudo "
         "zero3_init_flag zero3_save_16bit_model enable_cpu_affinity", LAUNCHER),
    NONE(1, "compute_environment distributed_type downcast_bf16 main_training_function rdzv_* "
         "tpu_env gpu_ids num_cpu_threads_per_process "
         "deepspeed_multinode_launcher deepspeed_exclusion_filter deepspeed_inclusion_filter",
         LAUNCHER),
    ONLY("1", "num_machines nnodes", "ranks come from mpirun or srun: mpirun -np N -H HOSTS starts "
         "them on several machines"),
    ONLY("0", "machine_rank node_rank", "mpirun or srun starts the processes of all machines"),
    ONLY("none|None|false|False", "fsdp_offload_params", "parts of the weights stay on the device: "
         "--offload_optimizer, --optimizer adamw8bit and --parallel fsdp on more ranks need less "
         "memory"),
    NONE(1, "fsdp_auto_wrap_policy fsdp_transformer_layer_cls_to_wrap fsdp_backward_prefetch "
         "fsdp_backward_prefetch_policy fsdp_forward_prefetch fsdp_cpu_ram_efficient_loading "
         "fsdp_state_dict_type fsdp_sync_module_states fsdp_use_orig_params fsdp_min_num_params "
         "fsdp_activation_checkpointing fsdp_reshard_after_forward fsdp_version",
         "--parallel fsdp splits weights, gradients and state by blocks, and the files of a "
         "checkpoint are whole"),
    NONE(1, "image_repeat_in_forward", "vprep's --video_repeat and the weights of rows set it"),
    ONLY("empty", "caption_dropout_technique", "a dropped caption is the empty prompt"),
    ONLY("v_prediction|flow_prediction", "prediction_type", "the model's scheduler file names it"),
    ONLY("1", "tp_size train_sp_batch_size tp_degree pp_degree ring_degree pipeline_stages",
         LAUNCHER),
    NONE(1, "loss_first_frame", "the first latent frame is in the loss, but for clips that "
         "--first_frame_conditioning_p draws"),
    NONE(0, "log_validation log_visualization", "--validation_steps says how often samples are "
         "made"),
    NONE(1, "visualization_steps",
         "--validation_steps says how often samples are made"),
    NONE(1, "do_validation", "--validation_steps says how often samples are made, 0: never"),
    NONE(0, "skip_first_sample", "--sample_at_first makes samples before step 1"),
    NONE(1, "validation_prompt_separator validation_separator gen_fps",
         "prompts are rows of vprep's --validation_prompts FILE, each with the settings of its "
         "sample"),
    NONE(0, "use_dynamic_cfg skip_final_inference",
         "--guidance_scale or a prompt's row sets the guidance of samples"),
    ONLY("1", "num_validation_videos num_validation_images validation_batch_size",
         "a prompt has one sample: repeat its row with other seeds for more"),
    ONLY("1000", "train_sampling_steps", "there are 1000 timesteps"),
    NONE(0, "flow_resolution_shifting", UNREAD),
    NONE(1, "flow_base_seq_len flow_base_shift flow_max_seq_len flow_max_shift", UNREAD),
    ONLY("0|0.0", "noise_offset input_perturbation", "noise is standard normal"),
    ONLY("0", "skip_frames_start skip_frames_end", "clips begin anywhere in a video, or at its "
         "first frame with --num_frames N"),
    NONE(0, "prodigy_decouple", "decay is decoupled in all optimisers here"),
    NONE(1, "beta3", "Prodigy's number is --prodigy_beta3 here"),
    ONLY("resize|crop|center", "video_reshape_mode", "pictures are resized and cut"),
    ONLY("gaussian|true|default", "init_lora_weights lora_init_type", "a LoRA's A is random, its B "
         "zero"),
    NONE(0, "gaussian_init_lora", "a LoRA's A is random, its B zero"),
    NONE(0, "log_dataset_samples debug_dataset debug no_metadata no_sort",
         "vprep --dry_run and vlat show the content of a dataset"),
    NONE(1, "dump_dataset", "vprep --dry_run and vlat show the content of a dataset"),
    NONE(1, "debug_mode show_timesteps training_comment metadata_author metadata_title "
         "metadata_description metadata_license metadata_tags metadata_arch metadata_reso",
         "config.yaml and the checkpoint record model, dataset and settings"),
    NONE(0, "x_axis_examples disable_block_swap_for_eval",
         "held-out losses are computed every --eval_steps steps"),
    ONLY("single_beginning", "video_clip_mode", "without --num_frames N, which takes the "
         "beginning, clips begin anywhere"),
    NONE(0, "enable_lora_hot_loading exclude_frozen_parameters i_know_what_i_am_doing no_vae_load "
         "offload_dit_during_sampling upcast_before_saving warn_on_caption_issues list_models "
         "validate_caption_structure silent_on_missing_audio test_sample",
         "it is always so here, or never done"),
    NONE(1, "model.type", "the family is read from the model's folder"),
    ONLY("lora", "adapter.type", "write --adapter for another"),
    ONLY("bf16|bfloat16|float32|float|fp32|f32|no", "adapter.dtype save_dtype save_precision",
         "weights are saved as they are trained"),
    ONLY("bf16|bfloat16", "model.dtype base_model_default_dtype weight_dtype",
         "--mixed_precision and --transformer_dtype set it"),
    ONLY("pytorch|none|no_change|bf16|bfloat16|cpu|accelerator|pipeline", "quantize_via "
         "base_model_precision text_encoder_1_precision text_encoder_2_precision "
         "text_encoder_3_precision text_encoder_4_precision", "of fp8-quanto, int8-quanto and "
         "nf4-bnb the forms here are --transformer_dtype fp8, int8 and nf4 (of int4-quanto nf4 "
         "too), and encoders compute in bf16"),
    NONE(0, "validation_torch_compile dynamo_use_regional_compilation fuse_qkv_projections "
         "ramtorch ramtorch_disable_extensions ramtorch_disable_sync_hooks ramtorch_text_encoder "
         "offload_during_startup disable_benchmark ema_cpu_only", BACKEND),
    NONE(1, "ramtorch_* sdnq_* gradient_checkpointing_interval gradient_checkpointing_backend "
         "gradient_checkpointing_segment_stride context_parallel_comm_strategy ema_device "
         "attn_mode training.gc_freq", BACKEND),
    NONE(1, "remat.*", "--gradient_checkpointing recomputes as many blocks as a bucket needs to "
         "fit"),
    ONLY("bfloat16", "parallelism.fsdp_unsharded_dtype", "--mixed_precision sets it: write no for "
         "float32"),
    NONE(0, "vae_cache_disable vae_cache_ondemand vae_cache_clear_each_epoch text_cache_disable "
         "text_cache_ondemand preserve_data_backend_cache compress_disk_cache skip_file_discovery",
         ENCODED),
    NONE(1, "vae_batch_size text_encoder_batch_size datasets.cache_dir datasets.cache_directory "
         "cache_directory", ENCODED),
    NONE(0, "vae_enable_slicing vae_enable_temporal_roll", "clips go through the VAE one by one; "
         "--vae_tiling saves memory"),
    NONE(1, "wandb.* wandb_tracker_name", EVENTS),
    NONE(0, "enable_wandb", EVENTS),
    NONE(0, "trust_remote_code", "no code is loaded from a model's folder"),
    NONE(1, "partition_split", "ranks come from mpirun or srun"),
    NONE(1, "comm.*", "--comm_timeout sets the patience of ranks"),
    NONE(0, "checkpoint.resume", "--job_name continues the run that is in its folder"),
    ONLY("-1", "checkpoint.resume_step", "the latest checkpoint is taken: write "
         "--resume_from_checkpoint STEP for another"),
    NONE(1, "checkpoint.timeout_minutes", "a run saves when it gets SIGTERM, which a cluster sends "
         "before the time is over"),
    NONE(1, "model.video_length", "the samples of the dataset have their lengths"),
    ONLY("1e-6|1e-06|0.000001", "model.norm_eps", "the layers of TTT have this eps"),
    ONLY("diffusers", "lora_format", "LoRA files always have the names that diffusers and PEFT "
         "read"),
    NONE(0, "skip_empty_caption", "vprep skips rows without a caption, unless "
         "--allow_empty_captions is given"),
    NONE(0, "bucket_no_upscale", "vprep's --on_small and --max_upscale decide about small "
         "clips"),
    NONE(0, "disable_bucket_pruning strict_epoch_limit allow_dataset_oversubscription "
         "datasets.ignore_epochs ignore_epochs", "every sample is in every epoch"),
    NONE(0, "delete_problematic_images", "vprep's --on_error decides about damaged files"),
    NONE(0, "not_apply_cfg_solver", DISTILLED),
    NONE(1, "num_euler_timesteps multi_phased_distill_schedule linear_quadratic_threshold "
         "linear_range distill_cfg pred_decay_weight pred_decay_type", DISTILLED),
    NONE(0, "inference_mode use_fsdp_inference", "vtrain only trains"),
    NONE(1, "workload_type", "the model's folder or vprep's --train_mode decides it"),
    ONLY("fp32|f32", "dit_precision master_weight_type", "trained weights are held in f32, unless "
         "--optimizer adamw_bf16 is given"),
    NONE(1, "model.name model.size", "the family is read from the model's folder"),
    NONE(1, "num_eval_images", "--eval_split sets the share of held-out samples"),
    NONE(1, "evaluation_type ema_validation", "held-out losses are computed every --eval_steps "
                                              "steps, "
         "with the weights that are trained"),
    NONE(1, "guider.* eval.* discretization.* denoiser.*",
         "--validation_sampler and the model's scheduler file decide how samples are made"),
    { 0 }
};

#define FOLDER                                                                                     \
    "no program downloads or uploads anything: give a folder on this machine with --model"
#define SIZES                                                                                      \
    "give vprep --fix_sample_size H W, or --video_sample_size for buckets of all shapes, and "     \
    "--video_sample_n_frames"
#define PROMPTS                                                                                    \
    "give vprep --validation_prompts FILE, a .txt of sd-scripts or musubi-tuner, or a list whose " \
    "rows have prompt, image_path, height, width, num_frames, seed"
#define OPTIMIZER                                                                                  \
    "--optimizer chooses the optimiser, and its own flags its numbers (--help); adamw_bf16 and "   \
    "adamw8bit need less memory"
#define LOSS "loss, noise and times are those of the model's family: leave it out"

const vc_renamed vc_renamed_flags[] = {
    { "job.config_file", "config" }, { "job.exp_name", "job_name" },
    { "ltx2_audio_video", "with_audio" }, { "ltxv2_audio_video", "with_audio" },
    { "job.dump_folder", "output_dir" }, { "job.seed", "seed" },
    { "model.ssm_layer", "ssm_layer" }, { "model.ttt_base_lr", "ttt_base_lr" },
    { "model.mini_batch_size", "mini_batch_size" }, { "model.scale_factor", "scale_factor" },
    { "training.adapter_method", "adapter_method" },
    { "training.global_batch_size", "global_batch_size" },
    { "training.grad_accum_steps", "gradient_accumulation_steps" },
    { "training.warmup_steps", "lr_warmup_steps" }, { "training.steps", "max_train_steps" },
    { "optimizer.lr", "learning_rate" }, { "optimizer.lr_end", "lr_end" },
    { "optimizer.lr_schedule", "lr_scheduler" }, { "optimizer.lr_ssm", "lr_ssm" },
    { "optimizer.lr_ssm_schedule", "lr_ssm_schedule" },
    { "optimizer.gradient_clipping_norm", "max_grad_norm" },
    { "checkpoint.init_state_dir", "init_state_dir" },
    { "checkpoint.interval", "checkpointing_steps" },
    { "parallelism.dp_replicate", "dp_degree" }, { "parallelism.dp_sharding", "dp_shards" },
    { "parallelism.tp_sharding", "sp" },
    { "remat.scan_checkpoint_group_size", "scan_checkpoint_group_size" },
    { "adapter.dropout", "lora_dropout" }, { "network.dropout", "network_dropout" },
    { "guider.scale", "guidance_scale" }, { "eval.num_denoising_steps", "num_inference_steps" },
    { 0 }
};

const vc_foreign vc_refused_flags[] = {
    REFUSED(1, "train_high_noise train_low_noise", "write --boundary_type high, low or both"),
    REFUSED(1, "deepspeed deepspeed_hostfile accelerator_config hsdp_*", LAUNCH),
    REFUSED(1, "main_process_ip main_process_port master_addr", LAUNCH),
    REFUSED(1, "hub_model_id hub_token huggingface_* "
            "dataset_name dataset_config_name", FOLDER),
    REFUSED(0, "push_to_hub async_upload save_state_to_huggingface "
            "resume_from_huggingface", FOLDER),
    REFUSED(0, "train_text_encoder train_vae train_text_encoder_ti enable_t5_ti", ENCODERS),
    REFUSED(1, "text_encoder_lr adam_weight_decay_text_encoder train_text_encoder_frac "
            "train_text_encoder_ti_frac train_transformer_frac initializer_concept "
            "token_abstraction "
            "num_new_tokens_per_abstraction", ENCODERS),
    REFUSED(0, "use_came use_adafactor use_8bit_ademamix use_cpu_offload_optimizer "
            "offload_gradients "
            "enable_optimizer_cpu_offload use_torchao use_4bit use_8bit", OPTIMIZER),
    REFUSED(-1, "optimizer.betas betas", "write --adam_beta1 and --adam_beta2"),
    REFUSED(1, "customized_optimizer optimizer_config optimizer_beta1 "
            "optimizer_beta2 "
            "adamw_optimi", OPTIMIZER),
    REFUSED(0, "snr_loss noise_share_in_frames not_sigma_loss "
            "train_qk_norm train_norm_layers use_lora_bias lumina_shift", LOSS),
    REFUSED(0, "flux_shift", "FLUX.1-dev's folder has this shift by tokens already, and "
            "--timestep_sampling flux_shift asks for it"),
    REFUSED(0, "scale_lr", "give the --learning_rate that is meant"),
    REFUSED(1, "huber_c pseudo_huber_c huber_schedule", "nothing here computes that loss: "
            "--loss_type huber with --loss_delta comes nearest"),
    REFUSED(1, "noise_share_in_frames_ratio snr_gamma num_timestep_buckets "
            "flow_schedule_shift timestep_bias_strategy lora_multiplier scale_weight_norms "
            "sigma_max "
            "sigma_rel noise_clip_std noise_scale noise_scale_start noise_scale_end "
            "initial_sigma eta", LOSS " (--weighting_scheme and --flow_shift weight a flow)"),
    REFUSED(1, "min_lr_ratio lr_decay_steps lr_scheduler_args lr_scheduler_min_lr_ratio "
            "lr_scheduler_timescale "
            "lr_scheduler_type force_constant_lr",
            "a schedule is --lr_scheduler with --lr_warmup_steps, --lr_num_cycles, --lr_power or "
            "--lr_step_rules, over all steps of the run, and --lr_end"),
    REFUSED(1, "abnormal_norm_clip_start initial_grad_norm_ratio",
            "gradients are clipped to --max_grad_norm alone"),
    REFUSED(1, "lora_skip_name lora_layers", "--target_name may be a list of names or a regular "
            "expression over whole paths"),
    REFUSED(1, "trainable_modules_low_learning_rate learning_rate_critic", "all that is trained "
            "has one "
            "rate"),
    REFUSED(1, "max_train_samples max_data_samples video_length_tolerance_range",
            "give vprep a shorter list, or let vlat select from a dataset"),
    REFUSED(1, "data_merge_path preprocess.* data_root instance_data_root dataset_config "
            "dataset_file video_column "
            "dataset data_backend_config instance_data_dir "
            "data_df_path jsonl_for_train eval_datasets datasets directory "
            "conditioning_image_column input_file output_file base_dir video_path", LIST),
    REFUSED(1, "data_path", "write --latents DATASET, which vprep makes of the clips in --meta "
            "PATH"),
    REFUSED(-1, "base", "write --config FILE, in TOML, YAML or JSON: keys are flags"),
    REFUSED(1, "config_file job.config_file",
            "write --config FILE, in TOML, YAML or JSON: keys are flags"),
    REFUSED(1, "dit_in_channels num_layers",
            "the transformer's config.json has its sizes"),
    REFUSED(0, "only_target_transformer_blocks", "a LoRA's modules are given by --target_name"),
    REFUSED(1, "prompt_template_encode prompt_template_encode_start_idx num_hidden_layers_to_skip "
            "image_embed_interleave", "the family decides which states of a text encoder are used: "
            "leave it out"),
    REFUSED(-1, "text_encoder_out_layers", "the family decides which states of a text encoder are "
                                           "used: "
            "leave it out"),
    REFUSED(1, "text_max_length qwen_max_length clip_max_length",
            "write vprep's --tokenizer_max_length"),
    REFUSED(1, "save_merged_model save_weight_dtype",
            "a checkpoint has the LoRA, or all weights, in the type in which they are trained"),
    REFUSED(1, "instance_prompt", "write it into the captions, or in front of them by vprep's "
            "--caption_prefix"),
    REFUSED(1, "height_buckets width_buckets frame_buckets video_resolution_buckets "
            "image_resolution_buckets train_resolution aspect_ratio_buckets resolution "
            "resolution_type train_sample_height train_sample_width "
            "num_sampled_frames latent_window_size frame_sample_step num_height num_width "
            "num_latent_t max_height max_width shape", SIZES),
    REFUSED(0, "force_upsample", "vprep's --on_small and --max_upscale decide about small "
            "clips"),
    REFUSED(0, "use_aspect_ratio_buckets center_crop", SIZES),
    REFUSED(1, "crops_coords_top_left_h crops_coords_top_left_w image_interpolation_mode", SIZES),
    REFUSED(1, "fps train_fps target_fps frame_rate framerate",
            "write vprep's --sample_fps X: frames are picked by time"),
    REFUSED(1, "repeats num_repeats", "write --latents DIR:repeat=N or --dataset_repeat N"),
    REFUSED(1, "layerwise_upcasting_modules layerwise_upcasting_storage_dtype "
            "layerwise_upcasting_skip_modules_pattern", PACKED),
    REFUSED(0, "fp8_base fp8_scaled fp8_text_encoder fp8_llm fp8_t5 fp8_te fp8_vl do_fp8_training "
            "quantized_qwen", PACKED),
    REFUSED(1, "bnb_quantization_config_path quantized_model_path quant_options", PACKED),
    REFUSED(0, "full_bf16 full_fp16", "write --optimizer adamw_bf16 for weights and moments in "
            "bf16"),
    REFUSED(1, "t5xxl", "write vprep's --text_encoder_2 for FLUX.1, --text_encoder_3 for Stable "
            "Diffusion 3 and --text_encoder for Chroma"),
    REFUSED(1, "clip ckpt text_encoder_4_path "
            "audio_encoder_path audio_processor_path processor_path processor_config "
            "tokenizer_1_path tokenizer_2_path tokenizer_t5xxl_path tokenizer_name "
            "turbo_dit override_dit "
            "pretrained_vae_model_name_or_path pretrained_text_encoder_4_name_or_path "
            "pretrained_tokenizer_4_name_or_path pretrained_audio_model_name_or_path "
            "pretrained_avatar_model_name_or_path cn_pretrained_model_name_or_path "
            "silence_latent_path template_model_id_or_path remote_text_encoder", PART),
    REFUSED(1, "dit_model_name_or_path init_weights_from_safetensors "
            "init_weights_from_safetensors_2 override_*", PART),
    REFUSED(1, "dit_dtype transformer_quant", "write --transformer_dtype"),
    REFUSED(1, "vae_precision", "write vprep's --vae_dtype"),
    REFUSED(0, "lora_training", "write --training_type lora"),
    REFUSED(1, "lora_path", "write --lora_checkpoint"),
    REFUSED(1, "enable_gradient_checkpointing_type selective_checkpointing",
            "write --gradient_checkpointing"),
    REFUSED(1, "training_cfg_rate", "write --caption_dropout_p"),
    REFUSED(1, "validation_sampling_steps", "write --num_inference_steps"),
    REFUSED(1, "validation_guidance_scale", "write --guidance_scale"),
    REFUSED(1, "text_cache_dtype", "write vprep's --dtype"),
    REFUSED(-1, "lora_config", "a LoRA's modules are given by --target_name"),
    REFUSED(1, "lora_weight network_weights_ema network_weights_proj", "write --lora_checkpoint"),
    REFUSED(1, "save_every_n_examples checkpoint_every_n_minutes "
            "training_state_checkpointing_steps weight_only_checkpointing_steps",
            "write --checkpointing_steps N or --checkpointing_epochs N"),
    REFUSED(1, "save_last_n_steps save_last_n_epochs_state save_last_n_steps_state",
            "write --checkpointing_limit N, the number of checkpoints that are kept"),
    REFUSED(0, "disable_sampling", "leave --validation_steps, --validation_epochs and "
            "--sample_at_first out: without them no samples are made"),
    REFUSED(1, "eval_every_n_examples", "write --eval_steps N, with --eval_split"),
    REFUSED(1, "eval_micro_batch_size_per_gpu image_eval_micro_batch_size_per_gpu "
            "eval_gradient_accumulation_steps image_micro_batch_size_per_gpu",
            "every micro-batch has --train_batch_size samples"),
    REFUSED(-1, "sample_prompts validation_prompt validation_image validation_images "
            "validation_videos validation_dir validation_paths validation_image_paths "
            "validation_prompt_path validation_audio_paths validation_sample_height "
            "validation_sample_width validation_num_inference_steps validation_guidance "
            "validation_resolution validation_seed validation_negative_prompt "
            "final_validation_prompt prompt prompt_path prompts prompt_txt "
            "validation_preprocessed_path "
            "validation_num_video_frames", PROMPTS),
    REFUSED(1, "resume", "write --resume_from_checkpoint latest, a step or a folder"),
    REFUSED(1, "proportion_empty_prompts", "write --caption_dropout_p"),
    REFUSED(1, "vae_encode_mode", "write vprep's --latent_store sample, mode or moments"),
    REFUSED(0, "keep_cache", "write vprep's --append, which keeps samples that are no longer in "
            "the list"),
    REFUSED(0, "regenerate_cache", "write vprep's --overwrite, or --rehash where files may have "
            "changed"),
    REFUSED(0, "trust_cache", "write vprep's --trust_metadata"),
    REFUSED(0, "reset_dataloader reset_optimizer reset_optimizer_params",
            "write --lora_checkpoint or --model to begin anew from a checkpoint's weights"),
    REFUSED(0, "ignore_learned_positional_embeddings",
            "a model with learned positions accepts only the size that it was trained for"),
    REFUSED(0, "push_checkpoints_to_hub push_to_hub_background", FOLDER),
    REFUSED(1, "datasets.dataset_name aws_* huggingface.* datasets.huggingface", FOLDER),
    REFUSED(1, "dataset_path jsonl_paths video_directory video_jsonl_file image_directory "
            "image_jsonl_file image_lance_dataset datasets.id datasets.type "
            "datasets.caption_strategy caption_strategy datasets.metadata_backend "
            "metadata_backend dataset_type datasets.default datasets.video datasets.conditioning "
            "datasets.audio text_embeds image_embeds directory.path", LIST),
    REFUSED(1, "resolutions min_ar max_ar num_ar_buckets ar_buckets size_buckets "
            "minimum_image_size maximum_image_size target_downsample_size datasets.crop "
            "crop_style crop_aspect aspect_bucket_rounding aspect_bucket_alignment", SIZES),
    REFUSED(0, "enable_ar_bucket", SIZES),
    REFUSED(1, "target_frames max_frames frame_extraction frame_stride frame_sample",
            "write vprep's --num_frames N for the beginning of a video, or "
            "--video_sample_n_frames N with --video_sample_stride"),
    REFUSED(1, "source_fps", "write vprep's --sample_fps X: frames are picked by time"),
    REFUSED(1, "datasets.probability", "write --latents DIR:weight=X"),
    REFUSED(0, "prepend_instance_prompt only_instance_prompt", "write it into the captions, or in "
            "front of them by vprep's --caption_prefix"),
    REFUSED(1, "cache_shuffle_num", "write vprep's --shuffle_caption --caption_variants N"),
    REFUSED(1, "mask_path", "name the masks in the column loss_mask_path of vprep's list"),
    REFUSED(1, "init_from_existing", "write --lora_checkpoint"),
    REFUSED(-1, "fuse_adapters merge_adapters",
            "write --preset_lora_path FILE --preset_lora_multiplier X"),
    NONE(0, "network_train_unet_only", "only the transformer is trained"),
    ONLY(".txt|txt|.caption|caption", "caption_extension", "captions are read from .txt and "
         ".caption files, or from a list: --meta LIST"),
    REFUSED(1, "musubi_blocks_to_swap", "write --blocks_to_swap N"),
    REFUSED(1, "training.adapter_method", OTHER),
    REFUSED(0, "stabilize", OPTIMIZER),
    REFUSED(1, "prodigy_steps", OPTIMIZER),
    REFUSED(1, "grad_clip_method", "gradients are clipped to --max_grad_norm alone"),
    REFUSED(1, "ema_update_interval ema_update_step_interval", "the average of --use_ema is taken "
            "at every step: for an interval of N steps write --ema_decay D^(1/N)"),
    REFUSED(0, "flow_schedule_auto_shift", LOSS),
    REFUSED(1, "audio_flow_schedule_shift image_shift cfg scheduler_scale", LOSS),
    REFUSED(0, "quantize_activations", PACKED),
    REFUSED(-1, "diffusion_model audio_vae text_encoders pretrained_t5_model_name_or_path", PART),
    REFUSED(0, "validation_prompt_library validation_disable validation_disable_unconditional",
            PROMPTS),
    REFUSED(1, "sampler_preset user_prompt_library validation_lyrics "
            "validation_guidance_real validation_guidance_skip_layers validation_audio_duration "
            "validation_adapter_strength validation_lycoris_strength", PROMPTS),
    REFUSED(1, "model.ssm_layer model.ttt_base_lr model.mini_batch_size", OTHER),
    REFUSED(0, "ltx2_* hidream_* ideogram_* cosmos3_* minimax_* tread_config "
            "diffusion_blocks_config flux_lora_target conditioning_multidataset_sampling "
            "multiple_target fp_latent_window_size fp_1f_* enable_bsa "
            "enable_gradient_masking simulate_generator_forward same_step_across_blocks "
            "last_step_only warp_denoising_step independent_first_frame "
            "hunyuan_teacher_disable_cfg stop_latent_model_input_gradient "
            "use_unconditional_dit_for_lora_sampling skip_t2i_visual_dummy", OTHER),
    REFUSED(1, "VSA_* bsa_* moba_config_path real_score_* fake_score_* dfake_gen_update_ratio "
            "dmd_denoising_steps context_noise num_frame_per_block min_timestep_ratio "
            "max_timestep_ratio num_decoded_latents num_class_images sample_batch_size", OTHER),
    REFUSED(0, "with_prior_preservation", "give the class's pictures as a dataset of their own: "
            "--latents DATASET:reg=W, or :prior=W"),
    REFUSED(0, "backprop controlnet_* control_* reward_* dmd2_* "
            "dino_loss_* "
            "self_flow* nabla_* no_nabla_* ideogram4_* backprop_* frame_conditioning_* "
            "class_* "
            "add_full_ref_image_in_self_attention add_inpaint_info f1 i2v i2v_mode "
            "i2v_ratio "
            "i2v_noise_scale one_frame* remove_first_image_from_target first_frame_as_condition "
            "turbo_dit_cache "
            "force_nabla_attention force_v2_1_time_embedding use_trigflow "
            "denoising_step_indices_list distillation_* "
            "fake_guidance_scale real_guidance_scale gen_update_interval motion_frames mask_ratio "
            "student_feature_layer teacher_feature_layer train_components randomize_step_indices",
            OTHER),
    { 0 }
};
