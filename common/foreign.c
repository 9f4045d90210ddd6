/* foreign.c - see foreign.h. Names are those of VideoX-Fun first, then those that users of
 * Finetrainers, DiffSynth-Studio and musubi-tuner type. What both programs act on (model, seed,
 * device, workers, trace_dir, dry_run, quiet, log_format) is in no table. */
#include "common/foreign.h"

#define IN_VPREP "used by vprep, not here"
#define IN_VTRAIN "used by vtrain, not here"
#define VPREP(words, names) { .name = names, .values = words, .say = IN_VPREP }
#define VTRAIN(words, names) { .name = names, .values = words, .say = IN_VTRAIN }
#define NONE(words, names, why) \
    { .name = names, .values = words, .say = "has no job here: " why }
#define ONLY(allowed, names, why) \
    { .name = names, .values = 1, .say = "has no job here: " why, .only = allowed }
#define REFUSED(words, names, remedy) \
    { .name = names, .values = words, .refused = true, .say = remedy }

const vc_foreign vc_vprep_flags[] = {
    VPREP(1, "meta train_data_meta dataset_metadata_path"),
    VPREP(1, "data train_data_dir dataset_base_path"),
    VPREP(1, "data_file_keys extra_inputs"),
    VPREP(1, "out plan reuse shard shard_size shard_seconds"),
    VPREP(0, "overwrite append rehash trust_metadata allow_missing"),
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
    VPREP(1, "video_sample_stride video_sample_n_frames num_frames sample_fps video_repeat"),
    VPREP(1, "sampling frame_rule frame_count start_rule fit bucket_metric max_upscale on_small"),
    VPREP(1, "mask_shapes i2v_condition train_mode image_noise_variants variants"),
    VPREP(0, "vae_tiling enable_tiling use_tiling"),
    VPREP(1, "video_decoder"),
    VPREP(1, "dtype latent_store thumbnails on_error"),
    VPREP(1, "validation_prompts validation_dataset_file negative_prompt"),
    { 0 }
};

const vc_foreign vc_vtrain_flags[] = {
    VTRAIN(1, "latents output_dir output_path dataset_repeat eval_split eval_steps posterior"),
    VTRAIN(0, "follow allow_mismatch verify_data"),
    VTRAIN(1, "training_type trainable_models trainable_modules"),
    VTRAIN(1, "rank lora_rank network_alpha lora_alpha"),
    VTRAIN(1, "target_name target_modules lora_target_modules lora_checkpoint preset_lora_path"),
    VTRAIN(0, "bake_scale export_kohya export_comfyui export_pipeline"),
    VTRAIN(0, "motion_sub_loss"),
    VTRAIN(1, "motion_sub_loss_ratio scheduler scheduler_id scheduler_path validation_sampler"),
    VTRAIN(1, "transformer transformer_id transformer_path transformer_dtype fp8_models"),
    VTRAIN(1, "mixed_precision"),
    VTRAIN(1, "dit_width dit_layers dit_heads dit_patch"),
    VTRAIN(1, "objective weighting_scheme flow_weighting_scheme logit_mean flow_logit_mean"),
    VTRAIN(1, "logit_std flow_logit_std mode_scale flow_mode_scale flow_shift"),
    VTRAIN(1, "caption_dropout_p caption_dropout"),
    VTRAIN(1, "image_dropout_p noised_image_dropout mask_all_dropout_p"),
    VTRAIN(0, "uniform_sampling"),
    VTRAIN(1, "train_batch_size batch_size gradient_accumulation_steps"),
    VTRAIN(1, "max_train_steps train_steps num_train_epochs num_epochs optimizer"),
    VTRAIN(1, "learning_rate lr lr_scheduler lr_warmup_steps lr_num_warmup_steps"),
    VTRAIN(1, "lr_num_cycles lr_scheduler_num_cycles lr_power lr_scheduler_power lr_step_rules"),
    VTRAIN(1, "adam_beta1 beta1 adam_beta2 beta2 adam_weight_decay weight_decay"),
    VTRAIN(1, "adam_epsilon epsilon max_grad_norm ema_decay"),
    VTRAIN(0, "use_ema use_8bit_adam use_8bit_bnb"),
    VTRAIN(0, "gradient_checkpointing use_gradient_checkpointing"),
    VTRAIN(0, "gradient_checkpointing_offload use_gradient_checkpointing_offload profile"),
    VTRAIN(1, "threads kernels memory_limit blocks_to_swap"),
    VTRAIN(0, "low_vram deterministic"),
    VTRAIN(1, "parallel dp_degree dp_shards reduce_dtype nccl_timeout"),
    VTRAIN(1, "checkpointing_steps save_steps checkpointing_limit checkpoints_total_limit"),
    VTRAIN(1, "resume_from_checkpoint report_to trace_steps"),
    VTRAIN(1, "validation_steps num_inference_steps guidance_scale"),
    { 0 }
};

const vc_foreign vc_jobless_flags[] = {
    NONE(0, "enable_model_cpu_offload enable_slicing",
         "vprep holds one encoder at a time and vtrain none"),
    NONE(1, "vae_mini_batch", "clips go through the VAE one by one"),
    NONE(0, "use_peft_lora", "LoRA files always have the names that diffusers and PEFT read"),
    NONE(1, "remove_prefix_in_ckpt", "files always have the names of diffusers, without a prefix"),
    NONE(0, "find_unused_parameters", "a parameter without a gradient is no error"),
    ONLY("dit", "lora_base_model preset_lora_model", "the transformer is what is trained"),
    ONLY("sft", "task", "vprep prepares and vtrain trains"),
    NONE(1, "model_name", "the family is read from the model's folder"),
    NONE(1, "cache_dir revision non_ema_revision variant", "nothing is downloaded"),
    NONE(0, "precompute_conditions enable_precomputation enable_text_encoder_in_dataloader "
         "precomputation_once precomputation_reuse", "vprep always encodes before training"),
    NONE(1, "precomputation_items precomputation_dir", "vprep always encodes before training"),
    NONE(1, "dataset_shuffle_buffer_size", "the whole dataset is shuffled in each epoch"),
    NONE(1, "config_path output_name", "folders say it: --model and --output_dir"),
    NONE(0, "report_model_info", "--profile and the plan of a run tell it"),
    NONE(0, "keep_all_node_same_token_length auto_tile_batch_size",
         "batches are made of latents of one shape"),
    NONE(0, "save_state", "every checkpoint can be resumed"),
    NONE(1, "tracker_name tracker_project_name logging_dir",
         "event files go to tensorboard/ in the run's folder"),
    NONE(0, "allow_tf32 pin_memory multi_stream enable_xformers_memory_efficient_attention "
         "sdpa flash_attn sage_attn xformers split_attn compile persistent_data_loader_workers",
         "the backend sees to it"),
    NONE(1, "float32_matmul_precision compile_modules attn_provider_training",
         "the backend sees to it"),
    NONE(1, "local_rank parallel_backend init_timeout", "ranks come from mpirun or srun"),
    NONE(1, "image_repeat_in_forward", "vprep's --video_repeat and weights of rows say it"),
    ONLY("empty", "caption_dropout_technique", "a dropped caption is the empty prompt"),
    ONLY("v_prediction|flow_prediction", "prediction_type", "the model's scheduler file says it"),
    ONLY("1", "cp_degree tp_degree pp_degree",
         "ranks come from mpirun or srun"),
    NONE(1, "loss_first_frame", "no family here leaves the first latent frame out of the loss"),
    NONE(1, "validation_epochs", "--validation_steps says how often samples are made"),
    ONLY("1000", "train_sampling_steps", "there are 1000 timesteps"),
    ONLY("1|1.0", "max_timestep_boundary", "the whole range of timesteps is trained"),
    ONLY("0|0.0", "min_timestep_boundary", "the whole range of timesteps is trained"),
    ONLY("0|0.0", "noise_offset input_perturbation", "noise is standard normal"),
    { 0 }
};

#define LAUNCH "start N processes with mpirun -np N or srun instead"
#define FOLDER                                                                                     \
    "no program downloads or uploads anything: give a folder on this machine with --model"

const vc_foreign vc_refused_flags[] = {
    REFUSED(0, "use_deepspeed", LAUNCH),
    REFUSED(1, "deepspeed_* zero_stage", LAUNCH),
    REFUSED(0, "use_fsdp", LAUNCH),
    REFUSED(1, "fsdp_*", LAUNCH),
    REFUSED(0, "multi_gpu", LAUNCH),
    REFUSED(1, "num_machines num_processes machine_rank main_process_ip main_process_port "
            "num_cpu_threads_per_process gpu_ids", LAUNCH),
    REFUSED(1, "model_id_with_origin_paths model_paths hub_model_id hub_token", FOLDER),
    REFUSED(0, "push_to_hub", FOLDER),
    REFUSED(0, "train_text_encoder train_vae",
            "only the transformer is trained; VAE and text encoders stay as they are"),
    REFUSED(0, "use_came",
            "the optimiser is AdamW: --optimizer adamw_bf16 or adamw8bit need less memory"),
    REFUSED(0, "snr_loss noise_share_in_frames",
            "loss and noise are those of the model's family: leave it out"),
    REFUSED(0, "scale_lr", "give the --learning_rate that is meant"),
    REFUSED(1, "noise_share_in_frames_ratio",
            "loss and noise are those of the model's family: leave it out"),
    REFUSED(1, "abnormal_norm_clip_start initial_grad_norm_ratio",
            "gradients are clipped to --max_grad_norm alone"),
    REFUSED(1, "lora_skip_name", "--target_name may be a regular expression over whole paths"),
    REFUSED(1, "trainable_modules_low_learning_rate", "all that is trained has one rate"),
    REFUSED(1, "max_train_samples", "give vprep a shorter list, or let vlat select from a dataset"),
    REFUSED(1, "data_root instance_data_root dataset_config dataset_file video_column "
            "caption_column image_column",
            "give vprep the list of clips: --meta LIST.json, .jsonl, .csv, or a folder with "
            "captions in .txt files"),
    REFUSED(1, "id_token instance_prompt", "write it into the captions"),
    REFUSED(1, "video_resolution_buckets image_resolution_buckets train_resolution",
            "give vprep --fix_sample_size H W, or --video_sample_size for buckets of all shapes, "
            "and --video_sample_n_frames"),
    REFUSED(1, "layerwise_upcasting_modules layerwise_upcasting_storage_dtype",
            "write --transformer_dtype fp8"),
    REFUSED(0, "fp8_base fp8_scaled", "write --transformer_dtype fp8"),
    REFUSED(1, "dit", "write --transformer FOLDER, with its config.json, or --model FOLDER"),
    REFUSED(1, "network_module", "a LoRA is what --training_type lora trains: leave it out"),
    REFUSED(1, "network_dim", "write --rank, and --network_alpha, which is 1 there unless given"),
    REFUSED(1, "network_weights", "write --lora_checkpoint"),
    REFUSED(1, "base_weights base_weights_multiplier",
            "write --preset_lora_path, which folds one LoRA in as it is"),
    REFUSED(1, "optimizer_type optimizer_args",
            "write --optimizer adamw, adamw_bf16 or adamw8bit, and the --adam_ flags"),
    REFUSED(1, "max_train_epochs", "write --num_train_epochs"),
    REFUSED(1, "max_data_loader_n_workers", "write --workers"),
    REFUSED(1, "timestep_sampling discrete_flow_shift",
            "write --weighting_scheme and --flow_shift; CogVideoX has neither"),
    REFUSED(1, "save_every_n_epochs save_every_n_steps", "write --checkpointing_steps N"),
    REFUSED(1, "save_last_n_epochs save_last_n_steps", "write --checkpointing_limit N"),
    REFUSED(1, "sample_every_n_epochs sample_every_n_steps", "write --validation_steps N"),
    REFUSED(1, "sample_prompts validation_prompt", "give vprep --validation_prompts FILE"),
    REFUSED(1, "resume", "write --resume_from_checkpoint latest, a step or a folder"),
    REFUSED(1, "log_with", "write --report_to tensorboard or none"),
    { 0 }
};
