/* simpletuner.c - see peers.h: SimpleTuner's JSON and TOML, config.json of a run and
 * multidatabackend.json of its datasets (bghira/SimpleTuner bc8e6ab, 2026-08-22: its documents
 * OPTIONS.md and DATALOADER.md, the field registry, and in simpletuner/helpers models/common.py,
 * models/flux2, z_image and flux, training/optimizer_param.py and custom_schedule.py). A run's keys
 * are its flags, with or without two dashes; it names the file of its datasets, which is read with
 * it. Other keys are looked up as flags, and in foreign_programs.c. */
#include <stddef.h>

#include "common/cli/peers/peers.h"

#define LORA_ALONE "??model_type=lora!!lora_type=lycoris&peft_lora_target_modules"
#define NAMED "pretrained_model_name_or_path"
#define TAGS                                                                                       \
    "captions are encoded once: vprep's --shuffle_caption with --caption_variants N stores "       \
    "several of each"
#define PAIRED                                                                                     \
    "vprep's --control_directory DIR has the reference pictures of an edit by stem, "              \
    "--mask_directory DIR masks"
#define SECTION "write vprep's --meta DIR for a folder of pictures or clips with captions, or LIST"
#define FORMS                                                                                      \
    "the forms here are --transformer_dtype int8 (int8-quanto, int8-torchao), nf4 (nf4-bnb) and "  \
    "fp8 (fp8-quanto, fp8wo-torchao), of weights alone"

static const vc_peer_row rows[] = {
    /* the model */
    KIND("model_family",
         "flux>|flux2>|z_image>|wan>|qwen_image>|ltxvideo>|ltxvideo2>|krea2>|hunyuanvideo>|"
         "ernie>|ideogram>|sd3>",
         "of SimpleTuner's families flux, flux2, z_image, wan, qwen_image, ltxvideo, ltxvideo2, "
         "krea2, ernie, ideogram, hunyuanvideo (1.5) and sd3 are here; its levels of chroma, none "
         "of them from 0.25 to 0.75, are not: write --model and flags of vtrain"),
    KIND("model_type", "lora>training_type=lora|full>training_type=full-finetune", ADAPTERS),
    UNLESS_FILE("assistant_lora_path|disable_assistant_lora=true|model_type=full|"
                "model_family=krea2|model_family=ernie|model_family=ideogram", "preset_lora_path",
                "base|dev*|klein*|ostris*|raw|krea*|kontext*|t2v*|i2v*|ti2v*|v1*|v2*|edit*|0*|2*|"
                "fluxbooru|libreflux|medium|large", "model_flavour", "of a distilled model "
                "SimpleTuner trains on an adapter that it downloads "
                "(ostris/zimage_turbo_training_adapter): write "
                "--preset_lora_path FILE, or disable_assistant_lora"),
    FLAG(NAMED, "model"),
    FLAG("pretrained_transformer_model_name_or_path", "transformer"),
    FLAG("pretrained_vae_model_name_or_path", "vae"),
    FLAG("qwen_text_encoder_model_name_or_path", "text_encoder"),
    ONLY("unmodified", "t5_padding", "T5's states of padding stay as they are"),
    ONLY("empty_string", "sd3_clip_uncond_behaviour sd3_t5_uncond_behaviour", "a dropped caption "
         "has the states of the empty prompt"),
    NOTE("pretrained_transformer_subfolder", "the folder's transformer/ is found, or the file"),
    FLAG_NOTE("assistant_lora_path", "preset_lora_path", "samples keep the assistant LoRA, which "
              "SimpleTuner removes"),
    NOTE("disable_assistant_lora assistant_lora_weight_name", "write --preset_lora_path FILE for "
         "such a LoRA"),
    UNLESS("1|1.0", "assistant_lora_strength", "a LoRA is added at its full strength"),
    NOTE("assistant_lora_inference_strength", "samples keep the LoRA of --preset_lora_path"),
    REFUSED("controlnet control tread_config diffusion_blocks_config distillation_method "
            "distillation_config train_text_encoder layer_freeze_strategy ltx2_intrinsic_*",
            "LoRA and full finetune of the whole transformer alone are trained"),

    /* the adapter */
    MAP("lora_type", "standard>|lycoris>", ADAPTERS),
    BY("lora_rank", "lora_type", "standard", "standard>rank|*>", ""),
    BY("lora_alpha", "lora_type", "standard", "standard>network_alpha|*>", ""),
    BY("lora_dropout", "lora_type", "standard", "standard>lora_dropout|*>", ""),
    FLAG("init_lora", "lora_checkpoint"),
    REFUSED("init_lokr_norm", "a LoKr begins as LyCORIS's, at the model as it is: leave it out"),
    REFUSED("init_lora_ema init_lora_step", "a run continues its own checkpoints, "
            "--resume_from_checkpoint"),
    MAP("lora_init_type", "default>|gaussian>|true>", "a LoRA's A is random, its B zero"),
    MAP("peft_lora_mode", "standard>", ADAPTERS),
    BY("peft_lora_target_modules", "lora_type", "standard", "standard>target_name|*>", ""),
    BOTH("flux_lora_target", "model_family", "",
         "flux/all>|flux/all+ffs>target_name=to_q,to_k,to_v,to_out.0,add_q_proj,add_k_proj,"
         "add_v_proj,to_add_out,ff.net.0.proj,ff.net.2,ff_context.net.0.proj,ff_context.net.2,"
         "proj_mlp,proj_out|flux/context>target_name=add_q_proj,add_k_proj,add_v_proj,to_add_out|"
         "flux/context+ffs>target_name=add_q_proj,add_k_proj,add_v_proj,to_add_out,"
         "ff_context.net.0.proj,ff_context.net.2|"
         "flux/ai-toolkit>target_name=to_q,to_k,to_v,to_out.0,add_q_proj,add_k_proj,add_v_proj,"
         "to_add_out,ff.net.0.proj,ff.net.2,ff_context.net.0.proj,ff_context.net.2,norm.linear,"
         "norm1.linear,norm1_context.linear,proj_mlp,proj_out|"
         "flux/tiny>target_name=single_transformer_blocks.7.proj_out,"
         "single_transformer_blocks.20.proj_out|"
         "flux/nano>target_name=single_transformer_blocks.7.proj_out|flux2/*>|z_image/*>",
         "write the modules: --target_name to_q,to_k,to_v,to_out.0"),
    ONLY("diffusers|comfyui", "lora_format", SAVED),

    /* types */
    MAP("base_model_precision", "no_change>|int8-quanto>transformer_dtype=int8|int8-torchao>"
        "transformer_dtype=int8|nf4-bnb>transformer_dtype=nf4|fp8-quanto>transformer_dtype=fp8|"
        "fp8wo-torchao>transformer_dtype=fp8", FORMS),
    NOTE("text_encoder_1_precision text_encoder_2_precision text_encoder_3_precision "
         "text_encoder_4_precision quantize_via quantize_activations", "weights are quantised as "
         "they are read, and vprep's encoders compute in bf16"),
    MAP("mixed_precision", "bf16>mixed_precision=bf16|no>mixed_precision=no",
        "the types are bf16 and float32 (no)"),
    MAP("vae_dtype", "bf16>vae_dtype=bf16|fp32>vae_dtype=f32|default>", "vprep's --vae_dtype is "
        "f32 or bf16"),
    ONLY("unmodified|fp32", "gradient_precision", "gradients are added up in float32"),
    MAP("gradient_checkpointing",
        "true>gradient_checkpointing=block|false>gradient_checkpointing=none", ""),
    FLAG("musubi_blocks_to_swap", "blocks_to_swap"),
    NOTE("group_offload_* enable_group_offload ramtorch* gradient_checkpointing_offload_*", MEMORY),

    /* the run */
    FLAG("learning_rate", "learning_rate"),
    MAP("lr_scheduler", "constant>lr_scheduler=constant|constant_with_warmup>"
        "lr_scheduler=constant_with_warmup|linear>lr_scheduler=linear|polynomial>"
        "lr_scheduler=polynomial", "SimpleTuner's cosine, cosine_with_restarts and sine repeat "
        "every lr_warmup_steps: write --lr_scheduler cosine, which falls over the whole run"),
    BY("lr_warmup_steps", "lr_scheduler", "constant_with_warmup", "constant>|cosine*>|sine>|"
       "*>lr_warmup_steps", ""),
    BY("lr_end", "lr_scheduler", "constant_with_warmup", "polynomial>lr_end|*>", ""),
    BY("lr_power", "lr_scheduler", "constant_with_warmup", "polynomial>lr_power|*>", ""),
    NOTE("lr_num_cycles", "it belongs to a schedule that is off"),
    MAP("optimizer", "adamw_bf16>optimizer=adamw_bf16|torch-adamw>optimizer=adamw|"
        "torch-adam>optimizer=adamw|optimi-adamw>optimizer=adamw|optimi-adam>optimizer=adamw|"
        "bnb-adam>optimizer=adamw|bnb-adamw>optimizer=adamw|bnb-adamw-paged>optimizer=adamw|"
        "bnb-adam8bit>optimizer=adamw8bit|bnb-adamw8bit>optimizer=adamw8bit|"
        "bnb-adamw8bit-paged>optimizer=adamw8bit|ao-adamw8bit>optimizer=adamw8bit|"
        "optimi-lion>optimizer=lion|bnb-lion>optimizer=lion|bnb-lion-paged>optimizer=lion|"
        "bnb-lion8bit>optimizer=lion8bit|bnb-lion8bit-paged>optimizer=lion8bit|"
        "adamw_schedulefree>optimizer=schedule_free|"
        "adamw_schedulefree+*>optimizer=schedule_free",
        ADAMW "; SimpleTuner's prodigy is ProdigyPlusScheduleFree and its muon MuonClip, which "
        "--optimizer prodigy, schedule_free and muon come near"),
    PAIRS("optimizer_config"),
    FLAG("optimizer_config.weight_decay", "adam_weight_decay"),
    FLAG("optimizer_config.eps", "adam_epsilon"),
    REFUSED("optimizer_config.*", "--optimizer's numbers have flags (--help optimiser)"),
    FLAG("optimizer_beta1", "adam_beta1"),
    FLAG("optimizer_beta2", "adam_beta2"),
    NOTE("adam_beta1 adam_beta2 adam_weight_decay adam_epsilon adam_bfloat16",
         "SimpleTuner gives them to DeepSpeed's optimiser alone: write --adam_beta1, --adam_beta2, "
         "--adam_weight_decay, --adam_epsilon"),
    BY("max_grad_norm", "grad_clip_method", "value", "norm>max_grad_norm",
       "SimpleTuner cuts each value of the gradient at this number, while --max_grad_norm N is a "
       "limit of its norm, as with grad_clip_method norm: write it, 0 for none"),
    ONLY("value|norm", "grad_clip_method", "write --max_grad_norm N"),
    MAP("max_train_steps", "0>|*>max_train_steps", ""),
    MAP("num_train_epochs", "0>|*>num_train_epochs", ""),
    FLAG("train_batch_size", "train_batch_size"),
    FLAG("gradient_accumulation_steps", "gradient_accumulation_steps"),
    FLAG("caption_dropout_probability", "caption_dropout_p"),
    FLAG("checkpoint_step_interval checkpointing_steps", "checkpointing_steps"),
    FLAG("checkpoint_epoch_interval", "checkpointing_epochs"),
    FLAG("checkpoints_total_limit", "checkpointing_limit"),
    NOTE("checkpointing_rolling_steps checkpoint_step_rolling_interval "
         "checkpoints_rolling_total_limit", "the latest checkpoints are --checkpointing_limit's"),
    ONLY("1", "ema_update_interval", "the average is taken at every step: for an interval of N "
         "steps write --ema_decay D^(1/N)"),
    ONLY("0", "ema_warmup_steps", "write --ema_update_after_step N"),

    /* loss and levels */
    MAP("loss_type", "l2>loss_type=mse", "write --loss_type huber or smooth_l1 with --loss_delta: "
        "there is no schedule of it"),
    NOTE("huber_c huber_schedule", "it belongs to a loss that is off"),
    REFUSED("snr_gamma", "a flow has no signal-to-noise weights: write --weighting_scheme"),
    BOTH("flow_schedule_shift", "flow_schedule_auto_shift", "false",
         "false/0>flow_shift=1|false/0.0>flow_shift=1|false/*>flow_shift|true/*>", ""),
    BOTH("flow_schedule_auto_shift", "model_family", "",
         "flux/true>timestep_sampling=flux_shift|flux/false>|z_image/false>|flux2/false>|"
         "wan/false>|qwen_image/false>|"
         "ltxvideo/false>|ltxvideo2/false>|krea2/false>|ernie/false>|hunyuanvideo/false>|"
         "ideogram/false>|"
         "sd3/false>",
         "the shift by tokens is that of flux, and other models have their own: leave it out for "
         "the model's, or write --flow_shift N"),
    FLAG("ideogram_schedule_mu", "logit_mean"),
    FLAG("ideogram_schedule_std", "logit_std"),
    NOTE("ideogram_auto_json", "captions are encoded as they are: write them as JSON, which "
         "SimpleTuner makes of plain sentences"),
    ONLY("false", "ideogram_prompt_upsample", "write the longer captions into the files"),
    NOTE("ideogram_validation ideogram_load_unconditional_transformer ideogram_uncond_ramtorch "
         "ideogram_prompt_enhancer_head_id", "samples are made where --validation_steps says so, "
         "guided by the model's second transformer"),
    NOTE("ideogram_fp8_base_upcast text_embed_full_cache", "weights stay in fp8, as they are "
         "stored, and texts are the states of the encoder"),
    BY("flow_sigmoid_scale", "flow_use_uniform_schedule", "false", "false>logit_std|true>", ""),
    MAP("flow_use_uniform_schedule", "true>weighting_scheme=uniform|false>", ""),
    BY("flux_guidance_value", "model_family", "", "flux>embedded_guidance|*>", ""),
    BOTH("flux_guidance_mode", "model_family", "", "flux/constant>|flux2/*>|z_image/*>",
         "the guidance of training is one number, --embedded_guidance"),
    NOTE("flux_guidance_min flux_guidance_max", "it belongs to flux_guidance_mode random-range"),
    NOTE("hub_model_id push_to_hub_background model_card_safe_for_work", HUB),
    NOTE("env.*", "SimpleTuner has no setting of this name: write its flag in TRAINER_EXTRA_ARGS, "
         "or the one here on the command line"),
    REFUSED("push_to_hub push_checkpoints_to_hub", HUB),
    NOTE("conditioning_multidataset_sampling", "several references of a sample are taken together"),
    NOTE("flow_custom_timesteps_* flow_timesteps_mode", "it belongs to a list that is off"),

    /* samples */
    FLAG("validation_steps validation_step_interval", "validation_steps"),
    FLAG("validation_epoch_interval", "validation_epochs"),
    FLAG("validation_num_inference_steps", "num_inference_steps"),
    FLAG("validation_guidance", "guidance_scale"),
    BY("validation_guidance_real", "model_family", "", "flux>true_cfg_scale|flux2>guidance_scale|"
       "*>", ""),
    FLAG("validation_guidance_rescale", "guidance_rescale"),
    FLAG("ltx2_validation_audio_guidance", "audio_guidance_scale"),
    FLAG("ltx2_first_frame_conditioning_probability", "first_frame_conditioning_p"),
    UNLESS("0|0.0", "ltx2_prefix_conditioning_*", "of a clip's beginning the first frame alone is "
           "known: --first_frame_conditioning_p P"),
    FLAG("validation_negative_prompt", "negative_prompt"),
    NOTE("validation_prompt validation_prompt_library user_prompt_library validation_seed "
         "validation_resolution validation_num_video_frames validation_disable "
         "validation_disable_unconditional validation_lycoris_strength num_eval_images "
         "validation_image_format validation_image_quality evaluation_type framerate", PROMPTS),

    /* sizes of the run, where a dataset has none of its own */
    SQUARE("resolution datasets.resolution", "video_sample_size image_sample_size",
           "resolution_type", "pixel_area", "sizes here have the area of a square, not a shorter "
           "side: write resolution_type pixel_area, or --video_sample_size N and "
           "--image_sample_size N"),
    NOTE("resolution_type datasets.resolution_type", "resolution is read by it"),
    UNLESS_OR("on_small", "0|0.0", "minimum_image_size datasets.minimum_image_size "
              "datasets.minimum_pixel_area", "write vprep's --on_small drop --max_upscale 1, which "
              "leaves out what is smaller than every size"),
    NOTE("maximum_image_size target_downsample_size max_upscale_threshold "
         "datasets.maximum_image_size datasets.target_downsample_size "
         "datasets.max_upscale_threshold aspect_bucket_rounding aspect_bucket_alignment "
         "datasets.aspect_bucket_rounding", "vprep's buckets have the area of the resolution and "
         "sides of multiples of 16, and pictures are resized to cover them, then cut at the "
         "centre"),

    /* datasets: multidatabackend.json */
    FOLLOW("data_backend_config", "datasets"),
    NOTE("datasets.id", "a dataset is named by --out"),
    ONLY("local|memory", "datasets.type", "give vprep a folder or a list: --meta PATH"),
    MAP("datasets.dataset_type", "image>|video>|text_embeds>|image_embeds>|"
        "conditioning_image_embeds>|conditioning>", "pictures and clips alone are trained"),
    BY("datasets.instance_data_dir", "dataset_type", "image", "image>meta|video>meta|*>",
       SECTION),
    INSTEAD("control_directory", "datasets.conditioning_data datasets.conditioning_type "
            "datasets.source_dataset_id datasets.conditioning datasets.conditioning.*", PAIRED),
    BOTH("datasets.caption_strategy", "disable_multiline_split", "false",
         "false/textfile>caption_lines=true|true/textfile>|false/instanceprompt>|"
         "true/instanceprompt>|false/instance_prompt>|true/instance_prompt>",
         "captions are .txt files beside the media (textfile), or a list with a row for each: "
         "vprep's --meta LIST"),
    NOTE("datasets.disable_multiline_split disable_multiline_split", "caption_strategy is read by "
         "it"),
    BY("datasets.instance_prompt", "caption_strategy", "filename",
       "instanceprompt>default_caption|instance_prompt>default_caption|*>", ""),
    REFUSED("datasets.prepend_instance_prompt prepend_instance_prompt", "write vprep's "
            "--caption_prefix TEXT"),
    INSTEAD("default_caption", "datasets.only_instance_prompt only_instance_prompt", "write "
            "vprep's --default_caption TEXT, and leave the .txt files out"),
    REFUSED("datasets.caption_shuffle datasets.caption_shuffle.* datasets.caption_filter_list",
            TAGS),
    BOTH("datasets.crop", "crop_aspect", "square", "square/true>enable_bucket=false|square/false>|"
         "preserve/true>|preserve/false>|closest/false>|random/false>", "of crop_aspect square and "
         "preserve are here: write preserve, or vprep's --random_ratio_crop"),
    NOTE("datasets.crop_aspect", "crop is read by it"),
    NOTE("datasets.crop_style", "pictures are resized to cover their size, then cut at the centre"),
    NOTE("datasets.crop_aspect_buckets", "vprep chooses among all of its buckets"),
    MORE("datasets.repeats", "dataset_repeat"),
    UNLESS("1|1.0", "datasets.probability", "write --latents DATASET:WEIGHT"),
    UNLESS("0|0.0", "datasets.timestep_sampling_offset", "write --logit_mean, for all datasets"),
    MAP("datasets.is_regularisation_data datasets.is_regularization_data",
        "true>sample_kind=prior|false>", ""),
    REFUSED("datasets.minimum_aspect_ratio datasets.maximum_aspect_ratio "
            "datasets.max_num_samples datasets.start_epoch datasets.start_step datasets.end_epoch "
            "datasets.end_step datasets.slider_strength", "leave the media out of the list of "
            "--meta, and write --latents DATASET:WEIGHT for a share"),
    FLAG("datasets.video.num_frames", "video_sample_n_frames"),
    NOTE("datasets.video.min_frames datasets.video.max_frames datasets.video.is_i2v "
         "datasets.video.bucket_strategy", "a clip has the frames of num_frames, or those that a "
         "video has"),
    MAP("datasets.audio.auto_split", "true>with_audio=true|false>", ""),
    BY("datasets.audio.sample_rate", "auto_split", "absent", "absent>with_audio=true|*>", ""),
    NOTE("datasets.audio.channels datasets.audio.bucket_strategy datasets.audio.duration_interval "
         "datasets.audio.truncation_mode datasets.audio.source_from_video "
         "datasets.audio.max_duration_seconds", "the sound is that of a clip's frames, two "
         "channels at the model's rate, and sounds of any length share a batch"),
    ONLY("false", "datasets.audio.allow_zero_audio", "a clip without sound trains the video alone: "
         "leave it out"),
    REFUSED("datasets.audio.*", "sound is not trained without its video, and is that of the clip's "
            "file"),
    NOTE("datasets.disabled datasets.disable", "a dataset that is off is no command"),
    NOTE("datasets.default datasets.cache_dir datasets.cache_dir_vae datasets.text_embeds "
         "datasets.image_embeds datasets.write_batch_size datasets.text_encoder_batch_size "
         "datasets.metadata_backend datasets.metadata_update_interval datasets.vae_cache_* "
         "datasets.text_cache_* datasets.skip_file_discovery datasets.hash_filenames "
         "datasets.preserve_data_backend_cache datasets.cache_file_suffix "
         "datasets.conditioning_image_embed* datasets.cache_dir_conditioning_image_embeds "
         "cache_dir_vae cache_dir_text write_batch_size read_batch_size", ENCODED),
    { 0 }
};

const vc_peer_file vc_simpletuner_file = {
    .name = "SimpleTuner", .signs = "model_family data_backend_config|model_family model_type",
    .root = "", .items = "datasets",
    .item_signs = "instance_data_dir|dataset_type|caption_strategy cache_dir_vae",
    .skips = "disabled=true|disable=true", .is_flags = true,
    .defaults =
        "learning_rate=4e-7 train_batch_size=4 lr_scheduler=constant_with_warmup "
        "num_train_epochs=1!!max_train_steps&num_train_epochs optimizer=adamw_bf16 "
        "adam_beta2=0.999 adam_beta2=0.99??optimizer=optimi-* "
        "adam_beta2=0.99??optimizer=bnb-lion* "
        "adam_weight_decay=0.01 adam_weight_decay=0??optimizer=optimi-* "
        "adam_weight_decay=0??optimizer=bnb-lion* adam_weight_decay=0??optimizer=torch-adam "
        "adam_weight_decay=0??optimizer=bnb-adam adam_weight_decay=0??optimizer=bnb-adam8bit "
        "adam_weight_decay=0.001??optimizer=adamw_schedulefree+* "
        "adam_epsilon=1e-6 adam_epsilon=1e-8??optimizer=torch-* "
        "adam_epsilon=1e-8??optimizer=adamw_schedulefree adam_epsilon=1e-8??optimizer=bnb-adam "
        "adam_epsilon=1e-8??optimizer=bnb-adam8bit "
        "lr_end=4e-7??lr_scheduler=polynomial lr_power=0.8??lr_scheduler=polynomial "
        "max_grad_norm=0 max_grad_norm=2??grad_clip_method=norm "
        "checkpointing_limit=5 caption_dropout_p=0.1 ema_decay=0.995??use_ema=true "
        "weighting_scheme=logit_normal logit_mean=0 logit_std=1!!model_family=ideogram "
        "flow_levels=0 flow_shift=3!!flow_schedule_auto_shift=true&model_family=ideogram "
        "embedded_guidance=1??model_family=flux* "
        "video_sample_size=1024 image_sample_size=1024 "
        "rank=16??model_type=lora!!lora_type=lycoris lora_dropout=0.1??model_type=lora"
        "!!lora_type=lycoris "
        "target_name=to_k,to_q,to_v,to_out.0" LORA_ALONE "&model_family=flux&model_family=flux2"
        "&model_family=hunyuanvideo&model_family=ideogram "
        "target_name=to_q,to_k,to_v,to_out.0,w1,w2,w3??model_family=ideogram&model_type=lora"
        "!!lora_type=lycoris&peft_lora_target_modules "
        "target_name=to_q,to_k,to_v,to_out.0,add_q_proj,add_k_proj,add_v_proj,to_add_out"
        "??model_family=flux&model_type=lora!!lora_type=lycoris&peft_lora_target_modules "
        "target_name=to_q,to_k,to_v,to_out.0,add_q_proj,add_k_proj,add_v_proj,to_add_out"
        "??model_family=hunyuanvideo&model_type=lora!!lora_type=lycoris&peft_lora_target_modules "
        "target_name=attn.to_q,attn.to_k,attn.to_v,attn.to_out.0,attn.to_qkv_mlp_proj"
        "??model_family=flux2&model_type=lora!!lora_type=lycoris&peft_lora_target_modules "
        "model=Tongyi-MAI/Z-Image-Turbo??model_family=z_image!!" NAMED "&model_flavour=base "
        "model=Tongyi-MAI/Z-Image??model_family=z_image&model_flavour=base!!" NAMED " "
        "model=black-forest-labs/FLUX.2-klein-base-9B??model_family=flux2!!" NAMED
        "&model_flavour=dev&model_flavour=klein-4b "
        "model=black-forest-labs/FLUX.2-klein-base-4B??model_family=flux2&model_flavour=klein-4b!!"
        NAMED " "
        "model=baidu/ERNIE-Image??model_family=ernie!!" NAMED "&model_flavour=turbo "
        "model=baidu/ERNIE-Image-Turbo??model_family=ernie&model_flavour=turbo!!" NAMED " "
        "model=ideogram-ai/ideogram-4-fp8??model_family=ideogram!!" NAMED "&model_flavour=nf4 "
        "model=ideogram-ai/ideogram-4-nf4??model_family=ideogram&model_flavour=nf4!!" NAMED " "
        "model=black-forest-labs/FLUX.2-dev??model_family=flux2&model_flavour=dev!!" NAMED " "
        "tokenizer_max_length=154??model_family=sd3 "
        "model=stabilityai/stable-diffusion-3.5-medium??model_family=sd3!!" NAMED
        "&model_flavour=large "
        "model=stabilityai/stable-diffusion-3.5-large??model_family=sd3&model_flavour=large!!"
        NAMED " "
        "model=black-forest-labs/FLUX.1-dev??model_family=flux&model_flavour=dev!!" NAMED " "
        "model=black-forest-labs/FLUX.1-Krea-dev??model_family=flux&model_flavour=krea!!" NAMED,
    .rows = rows
};
