/* onetrainer.c - see peers.h: OneTrainer's JSON, its presets and the configuration that it exports
 * (Nerogar/OneTrainer 23df3832, 2026-08-19: modules/util/config/TrainConfig.py, ConceptConfig.py,
 * modules/util/create.py, modules/modelSetup/mixin/ModelSetupNoiseMixin.py). Concepts are in the
 * file, or in the one that concept_file_name names from the current folder. */
#include <stddef.h>

#include "common/cli/peers/peers.h"

#define TEXTS                                                                                      \
    "captions are encoded once: give several captions of a clip, a list in its row of --meta"
#define TIMES                                                                                      \
    "of OneTrainer's distributions UNIFORM and LOGIT_NORMAL are here; --weighting_scheme "         \
    "cosmap and mode come near COS_MAP and HEAVY_TAIL"
#define EPOCHS "the unit is an epoch or a step: write EPOCH or STEP"

/* A map's rows for models that read no mask. */
#define OTHERS(value)                                                                              \
    "FLUX_DEV_1/" value ">|FLUX_2/" value ">|HUNYUAN_VIDEO/" value ">|QWEN/" value ">|Z_IMAGE/"    \
    value ">|STABLE_DIFFUSION_3*/" value ">|CHROMA_1/" value ">|ERNIE/" value ">|IDEOGRAM_4/"      \
    value ">|KREA_2/" value ">"

static const vc_peer_row rows[] = {
    KIND("training_method", "LORA>training_type=lora|FINE_TUNE>training_type=full-finetune",
        ADAPTERS),
    KIND("model_type", "CHROMA_1>|ERNIE>|FLUX_DEV_1>|FLUX_FILL_DEV_1>|FLUX_2>|HUNYUAN_VIDEO>|"
         "IDEOGRAM_4>|KREA_2>|QWEN>|Z_IMAGE>|STABLE_DIFFUSION_3>|STABLE_DIFFUSION_35>", FAMILIES),
    NOTE("__version", "every version is read alike"),
    FLAG("base_model_name", "model"),
    FLAG("transformer.model_name", "transformer"),
    FLAG("vae.model_name", "vae"),
    FLAG("output_model_destination", "output_dir"),
    NOTE("output_model_format output_dtype save_filename_prefix include_train_config", SAVED),
    NOTE("workspace_dir cache_dir huggingface_cache_dir offline_mode debug_dir debug_mode "
         "secrets.* cloud.* tensorboard tensorboard_* samples_to_tensorboard", EVENTS),

    /* parts of the model */
    MAP("transformer.weight_dtype", "BFLOAT_16>|FLOAT_32>|FLOAT_16>|NONE>|TFLOAT_32>|"
        "INT_8>transformer_dtype=int8|INT_W8A8>transformer_dtype=int8 "
        "int8_activations=true|NFLOAT_4>transformer_dtype=nf4|*>transformer_dtype=fp8", ""),
    MAP("transformer.train", "true>|false>", ""),
    REFUSED("text_encoder.train text_encoder_2.train text_encoder_3.train text_encoder_4.train "
            "vae.train unet.train prior.train text_encoder.train_embedding "
            "text_encoder_2.train_embedding embedding.* additional_embeddings", ENCODERS),
    FLAG("text_encoder.model_name", "text_encoder"),
    FLAG("text_encoder_2.model_name", "text_encoder_2"),
    FLAG("text_encoder_3.model_name", "text_encoder_3"),
    ONLY("true", "text_encoder.include text_encoder_2.include text_encoder_3.include", "write "
         "--text_encoder_3 none to leave the T5 of Stable Diffusion 3 out"),
    FLAG("transformer.guidance_scale", "embedded_guidance"),
    MAP("vae.weight_dtype", "FLOAT_32>vae_dtype=f32|BFLOAT_16>vae_dtype=bf16|FLOAT_16>"
        "vae_dtype=f32|NONE>", "vprep's --vae_dtype is f32 or bf16"),
    NOTE("transformer.learning_rate transformer.stop_training_after* text_encoder.* "
         "text_encoder_2.* text_encoder_3.* text_encoder_4.* vae.* unet.* prior.* "
         "unconditional_transformer.* effnet_encoder.* decoder.* decoder_text_encoder.* "
         "decoder_vqgan.*", "vprep's encoders compute in bf16, and the transformer alone is "
         "trained"),
    ONLY("0", "text_encoder_layer_skip text_encoder_2_layer_skip text_encoder_3_layer_skip "
         "text_encoder_4_layer_skip", "the family decides which states of a text encoder are used"),
    FLAG("text_encoder_sequence_length", "tokenizer_max_length"),
    NOTE("text_encoder_2_sequence_length", "the second text encoder has the family's length"),
    NOTE("transformer.*", MEMORY),
    NOTE("quantization.*", "every linear is stored in the type of --transformer_dtype"),
    NOTE("weight_dtype", "the types of parts are those of their own settings"),
    MAP("train_dtype", "BFLOAT_16>mixed_precision=bf16|FLOAT_32>mixed_precision=no|TFLOAT_32>"
        "mixed_precision=no", "the types are BFLOAT_16 and FLOAT_32"),
    NOTE("fallback_train_dtype enable_autocast_cache train_device temp_device "
         "attention_mechanism compile async_offloading dataloader_threads multi_gpu "
         "device_indexes gradient_reduce_precision fused_gradient_reduce async_gradient_reduce "
         "async_gradient_reduce_buffer layer_offload_fraction enable_async_offloading "
         "enable_activation_offloading", BACKEND),
    MAP("gradient_checkpointing", "true>gradient_checkpointing=block|ON>"
        "gradient_checkpointing=block|CPU_OFFLOADED>gradient_checkpointing_offload=true|false>"
        "gradient_checkpointing=none|OFF>gradient_checkpointing=none", ""),
    NOTE("force_circular_padding latent_caching clear_cache_before_training only_cache", ENCODED),

    /* the LoRA */
    BY("lora_rank", "training_method", "FINE_TUNE", "LORA>rank|*>", ""),
    BY("lora_alpha", "training_method", "FINE_TUNE", "LORA>network_alpha|*>", ""),
    FLAG("dropout_probability", "network_dropout"),
    MAP("peft_type", "LORA>|LOHA>adapter=loha", ADAPTERS),
    BOTH("lora_decompose", "lora_decompose_output_axis", "false",
         "true/true>adapter=dora|false/true>|false/false>", "weights are decomposed (DoRA) by the "
         "rows of outputs alone: set lora_decompose_output_axis too, or write --adapter dora"),
    NOTE("lora_decompose_* lora_weight_dtype bundle_additional_embeddings oft_* lokr_* "
         "embedding_* preserve_embedding_norm", "it belongs to an adapter that is off"),
    FLAG("lora_model_name", "lora_checkpoint"),
    PARTS("layer_filter", "training_method", "FINE_TUNE",
          "LORA>target_name|FINE_TUNE>trainable_modules",
          "write --target_name, as 'layers.*(attention|feed_forward).*'"),
    NOTE("layer_filter_preset", "layer_filter has the modules of the preset"),
    NOTE("layer_filter_regex", "layer_filter is read by it"),

    /* data */
    FOLLOW("concept_file_name", "concepts"),
    BY("concepts.path", "enabled", "true", "true>meta|false>", ""),
    NOTE("concepts.enabled", "a concept that is off is no dataset"),
    NOTE("concepts.name concepts.seed concepts.concept_stats* "
         "concepts.include_subdirectories concepts.image_variations concepts.text_variations",
         "a folder is read with its subfolders, and each of its files once"),
    MAP("concepts.type", "STANDARD>|PRIOR_PREDICTION>sample_kind=prior", "held-out losses are "
        "--eval_split's"),
    BY("concepts.balancing", "balancing_strategy", "REPEATS", "REPEATS>dataset_repeat|*>", ""),
    ONLY("REPEATS", "concepts.balancing_strategy", "write --latents DATASET:repeat=N"),
    BOTH("concepts.loss_weight", "type", "STANDARD", "STANDARD/1>|STANDARD/1.0>|"
         "PRIOR_PREDICTION/*>prior_loss_weight", "write --latents DATASET:reg=WEIGHT"),
    MAP("concepts.text.prompt_source", "sample>caption_lines=true|txt>", "captions are .txt files "
        "beside the clips, or a list: --meta LIST"),
    FLAG("concepts.text.enable_tag_shuffling", "shuffle_caption"),
    BY("concepts.text.keep_tags_count", "enable_tag_shuffling", "false", "true>keep_tokens|*>", ""),
    BY("concepts.text.tag_delimiter", "enable_tag_shuffling", "false",
       "true>caption_separator|*>", ""),
    REFUSED("concepts.text.tag_dropout_enable concepts.text.caps_randomize_enable", TEXTS),
    NOTE("concepts.text.*", "the setting that it belongs to is refused, or off"),
    FLAG("concepts.image.enable_random_flip", "random_flip"),
    REFUSED("concepts.image.enable_fixed_flip concepts.image.enable_random_rotate "
            "concepts.image.enable_fixed_rotate concepts.image.enable_random_brightness "
            "concepts.image.enable_fixed_brightness concepts.image.enable_random_contrast "
            "concepts.image.enable_fixed_contrast concepts.image.enable_random_saturation "
            "concepts.image.enable_fixed_saturation concepts.image.enable_random_hue "
            "concepts.image.enable_fixed_hue", PIXELS),
    REFUSED("concepts.image.enable_random_circular_mask_shrink "
            "concepts.image.enable_random_mask_rotate_crop", "masks are resized, cut and mirrored "
            "with their pictures alone: change the files"),
    BY("concepts.image.resolution_override", "enable_resolution_override", "false",
       "true>video_sample_size image_sample_size|false>", ""),
    NOTE("concepts.image.*", "the setting that it belongs to is refused, or off"),
    DATASETS("resolution", "video_sample_size image_sample_size"),
    FLAG("frames", "video_sample_n_frames"),
    FLAG("aspect_ratio_bucketing", "enable_bucket"),
    BOTH("masked_training", "model_type", "", "FLUX_FILL_DEV_1*>|" OTHERS("false"),
         MASKS " and leave masked_training out"),
    BOTH("custom_conditioning_image", "model_type", "", "FLUX_FILL_DEV_1/false>|" OTHERS("*"),
         "the masked picture is made of the picture and its mask: name another picture in the "
         "column flux_fill_image of vprep's list, and leave custom_conditioning_image out"),
    BY("unmasked_probability", "masked_training", "false", "true>unmasked_probability|*>", ""),
    NOTE("unmasked_weight normalize_masked_area_loss masked_prior_preservation_weight", "the loss "
         "of a model that fills masks covers the whole picture"),

    /* the run */
    FLAG("learning_rate", "learning_rate"),
    MAP("learning_rate_scheduler", "CONSTANT>lr_scheduler=constant_with_warmup|LINEAR>"
        "lr_scheduler=linear|COSINE>lr_scheduler=cosine|COSINE_WITH_HARD_RESTARTS>"
        "lr_scheduler=cosine_with_restarts", SCHEDULE),
    FLAG("learning_rate_warmup_steps", "lr_warmup_steps"),
    BY("learning_rate_cycles", "learning_rate_scheduler", "CONSTANT",
       "COSINE_WITH_HARD_RESTARTS>lr_num_cycles|*>", ""),
    UNLESS_OR("lr_end", "0|0.0", "learning_rate_min_factor", "write --lr_end, this share of the "
              "learning rate"),
    ONLY("NONE", "learning_rate_scaler", "give the learning rate that is meant"),
    NOTE("scheduler_params custom_learning_rate_scheduler", "it belongs to the schedule CUSTOM"),
    FLAG("epochs", "num_train_epochs"),
    FLAG("batch_size", "train_batch_size"),
    FLAG("gradient_accumulation_steps", "gradient_accumulation_steps"),
    MAP("ema", "OFF>|GPU>use_ema=true|CPU>use_ema=true", ""),
    BY("ema_decay", "ema", "OFF", "OFF>|*>ema_decay", ""),
    BY("ema_update_step_interval", "ema", "OFF", "OFF>", "the average is taken at every step: for "
       "an interval of N steps write --ema_decay D^(1/N)"),
    FLAG("clip_grad_norm", "max_grad_norm"),
    FLAG("seed", "seed"),
    MAP("optimizer.optimizer", "ADAMW>optimizer=adamw|ADAM>optimizer=adamw|ADAMW_8BIT>"
        "optimizer=adamw8bit|LION>optimizer=lion|LION_8BIT>optimizer=lion8bit|PRODIGY>"
        "optimizer=prodigy|ADAFACTOR>optimizer=adafactor|"
        "SCHEDULE_FREE_ADAMW>optimizer=schedule_free", ADAMW),
    BY("optimizer.relative_step", "optimizer", "ADAMW", "ADAFACTOR>adafactor_relative_step|*>", ""),
    BY("optimizer.scale_parameter", "optimizer", "ADAMW", "ADAFACTOR>adafactor_scale_parameter|*>",
       ""),
    BY("optimizer.warmup_init", "optimizer", "ADAMW", "ADAFACTOR>adafactor_warmup_init|*>", ""),
    BY("optimizer.clip_threshold", "optimizer", "ADAMW", "ADAFACTOR>adafactor_clip_threshold|*>",
       ""),
    BY("optimizer.decay_rate", "optimizer", "ADAMW", "ADAFACTOR>adafactor_decay_rate|*>", ""),
    BY("optimizer.d_coef", "optimizer", "ADAMW", "PRODIGY>prodigy_d_coef|*>", ""),
    BY("optimizer.safeguard_warmup", "optimizer", "ADAMW", "PRODIGY>prodigy_safeguard_warmup|*>",
       ""),
    BY("optimizer.use_bias_correction", "optimizer", "ADAMW",
       "PRODIGY>prodigy_use_bias_correction|*>", ""),
    BY("optimizer.beta1", "optimizer", "ADAMW", "ADAM*>adam_beta1|*>", ""),
    BY("optimizer.beta2", "optimizer", "ADAMW", "ADAM*>adam_beta2|*>", ""),
    BY("optimizer.eps", "optimizer", "ADAMW", "ADAM*>adam_epsilon|*>", ""),
    BY("optimizer.weight_decay", "optimizer", "ADAMW", "ADA*>adam_weight_decay|*>", ""),
    REFUSED("optimizer.amsgrad optimizer.maximize optimizer.use_adopt optimizer.use_cautious "
            "optimizer.cautious optimizer.use_grams optimizer.use_AdEMAMix", ADAMW),
    NOTE("optimizer.* optimizer_defaults.*", "AdamW here has --adam_beta1, --adam_beta2, "
         "--adam_epsilon and --adam_weight_decay"),

    /* loss and times */
    UNLESS("1|1.0", "mse_strength vb_loss_strength", "the loss is --loss_type mse, huber or "
           "smooth_l1"),
    REFUSED("mae_strength log_cosh_strength huber_strength", "the loss is --loss_type mse, huber "
            "or smooth_l1"),
    NOTE("huber_delta loss_weight_strength", "it belongs to a loss that is off"),
    ONLY("CONSTANT", "loss_weight_fn", "write --weighting_scheme: a flow has no weights of "
         "signal to noise"),
    ONLY("NONE", "loss_scaler", "the loss is a mean over the batch"),
    REFUSED("offset_noise_weight generalized_offset_noise perturbation_noise_weight "
            "rescale_noise_scheduler_to_zero_terminal_snr force_v_prediction "
            "force_epsilon_prediction validation", LOSS " (held-out losses are --eval_split's)"),
    NOTE("validate_after validate_after_unit", "--eval_steps says how often held-out losses are "
         "computed"),
    FLAG("min_noising_strength", "min_noising_strength"),
    FLAG("max_noising_strength", "max_noising_strength"),
    MAP("timestep_distribution", "UNIFORM>weighting_scheme=uniform|LOGIT_NORMAL>"
        "weighting_scheme=logit_normal", TIMES),
    UNLESS_OR("logit_std", "0|0.0", "noising_weight",
              "of LOGIT_NORMAL write --logit_std, which is 1 more than this number"),
    BY("noising_bias", "timestep_distribution", "UNIFORM", "UNIFORM>|LOGIT_NORMAL>logit_mean",
       TIMES),
    BY("timestep_shift", "dynamic_timestep_shifting", "false", "false>flow_shift|true>", ""),
    NOTE("dynamic_timestep_shifting", "without --flow_shift the shift is the model's, of FLUX.1, "
         "Qwen-Image, Krea 2 and Ideogram 4 by the number of tokens"),

    /* samples, saving */
    NOTE("sample_definition_file_name samples sample_skip_first sample_image_format "
         "sample_video_format sample_audio_format non_ema_sampling", PROMPTS),
    BY("sample_after", "sample_after_unit", "MINUTE", "STEP>validation_steps|EPOCH>"
       "validation_epochs|*>", ""),
    NOTE("sample_after_unit", "samples are made every --validation_steps or --validation_epochs"),
    BY("save_every", "save_every_unit", "NEVER", "STEP>checkpointing_steps|EPOCH>"
       "checkpointing_epochs|NEVER>", EPOCHS),
    ONLY("STEP|EPOCH|NEVER", "save_every_unit", EPOCHS),
    NOTE("backup_after backup_after_unit rolling_backup backup_before_save save_skip_first "
         "prevent_overwrites", "every checkpoint can be continued, and a run saves when it gets "
         "SIGTERM"),
    BY("rolling_backup_count", "rolling_backup", "false", "true>checkpointing_limit|false>", ""),
    MAP("continue_last_backup", "true>resume_from_checkpoint=latest|false>", ""),
    { 0 }
};

const vc_peer_file vc_onetrainer_file = {
    .name = "OneTrainer", .signs = "training_method model_type|training_method base_model_name",
    .root = "",
    .defaults = "adam_beta2=0.999 adam_weight_decay=0.01!!optimizer.optimizer=ADAFACTOR "
                "adam_weight_decay=0??optimizer.optimizer=ADAFACTOR "
                "adafactor_relative_step=false??optimizer.optimizer=ADAFACTOR "
                "adafactor_scale_parameter=false??optimizer.optimizer=ADAFACTOR "
                "learning_rate=3e-6 num_train_epochs=100 "
                "train_batch_size=1 lr_scheduler=constant_with_warmup lr_warmup_steps=200 "
                "rank=16??training_method=LORA network_alpha=1??training_method=LORA "
                "target_name=all-linear??training_method=LORA!!layer_filter "
                "weighting_scheme=uniform logit_std=1??timestep_distribution=LOGIT_NORMAL "
                "flow_shift=1!!dynamic_timestep_shifting=true "
                "train_mode=inpaint??model_type=FLUX_FILL_DEV_1 "
                "without_mask=all??model_type=FLUX_FILL_DEV_1 "
                "unmasked_probability=1??model_type=FLUX_FILL_DEV_1!!masked_training=true "
                "unmasked_probability=0.1??masked_training=true "
                "caption_dropout_p=0 image_dropout_p=0 video_sample_n_frames=25 "
                "tokenizer_max_length=77??model_type=STABLE_DIFFUSION_3* "
                "video_sample_stride=1",
    .needs = "model_type",
    .without = "model_type is missing, which means Stable Diffusion: " FAMILIES,
    .rows = rows
};
