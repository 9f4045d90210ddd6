/* aitoolkit.c - see peers.h: ai-toolkit's YAML and JSON (ostris/ai-toolkit 27a03a91, 2026-08-21:
 * toolkit/config.py and config_modules.py, jobs/process/BaseSDTrainProcess.py, toolkit/scheduler.py
 * and optimizer.py). It makes a dataset of each folder in each resolution. */
#include <stddef.h>

#include "common/cli/peers/peers.h"

#define EDIT                                                                                       \
    "vprep's --control_directory has the pictures of an edit by stem, of several folders "         \
    "too; its --train_mode control takes control clips of Fun-Control models"
#define TIMES                                                                                      \
    "of ai-toolkit's times sigmoid, linear and weighted are here; shift, flux_shift and "          \
    "lumina2_shift are --timestep_sampling auto --weighting_scheme uniform --flow_shift N, the "   \
    "number of the model's scheduler_config.json"

#define PRESERVE                                                                                   \
    "write vprep's --preserve \"TRIGGER=CLASS\", CLASS being diff_output_preservation_class, and " \
    "give the dataset twice: --latents DATASET --latents DATASET:preserve=W"

static const vc_peer_row rows[] = {
    KIND("job", "extension>|train>", "of ai-toolkit's jobs those that train are read"),
    FLAG("config.name", "job_name"),
    KIND("type", "sd_trainer>|diffusion_trainer>|ui_trainer>|fine_tune>",
         "of ai-toolkit's processes sd_trainer and diffusion_trainer are read"),
    NOTE("meta.*", "config.yaml and the checkpoint record model, dataset and settings"),
    FLAG("training_folder", "output_dir"),
    FLAG("device", "device"),
    NOTE("sqlite_db_path performance_log_every torch_profiler", EVENTS),
    FLAG("trigger_word datasets.trigger_word", "trigger_word"),
    REFUSED("adapter embedding decorator slider guidance do_lorm lorm_extract_mode "
            "lorm_extract_mode_param first_sample", "LoRA and full finetune alone are trained"),
    NOTE("logging.*", EVENTS),

    /* network: the LoRA of a transformer has alpha = rank, whatever the file says */
    MAP("network.type", "lora>training_type=lora|lokr>training_type=lora adapter=lokr|lorm>",
        ADAPTERS),
    MAP("network.lokr_full_rank", "true>lokr_full_matrix=true|false>", ""),
    FLAG("network.lokr_factor", "lokr_factor"),
    FLAG("network.linear network.rank", "rank"),
    NOTE("network.linear_alpha network.alpha", "the LoRA of a transformer has alpha = rank in "
         "ai-toolkit, too"),
    NOTE("network.conv network.conv_alpha", "a transformer's convolutions have no LoRA"),
    FLAG("network.dropout", "network_dropout"),
    FLAG("network.pretrained_lora_path", "lora_checkpoint"),
    NOTE("network.old_lokr_format network.transformer_only "
         "network.split_multistage_loras network.layer_offloading network.layer_offloading_*",
         "it is of no effect for a transformer's LoRA"),
    FLAG("network.network_kwargs.only_if_contains", "target_name"),
    REFUSED("network.network_kwargs.* network.all_layers network.lorm",
            "a LoRA's modules are given by --target_name"),

    FLAG("save.save_every", "checkpointing_steps"),
    FLAG("save.max_step_saves_to_keep", "checkpointing_limit"),
    NOTE("save.dtype save.save_format", SAVED),
    REFUSED("save.push_to_hub", HUB),
    NOTE("save.hf_repo_id save.hf_private", HUB),

    /* datasets */
    FLAG("datasets.folder_path datasets.dataset_path", "meta"),
    ONLY("txt|.txt|caption|.caption", "datasets.caption_ext", "captions are read from .txt and "
         ".caption files, or from a list: vprep's --meta LIST"),
    ONLY("image|sd", "datasets.type", "pictures and clips with captions alone are read"),
    DATASETS("datasets.resolution", "video_sample_size image_sample_size"),
    FLAG("datasets.caption_dropout_rate train.prompt_dropout_prob", "caption_dropout_p"),
    FLAG("datasets.num_repeats", "dataset_repeat"),
    FLAG_NOTE("datasets.num_frames", "video_sample_n_frames", "ai-toolkit spreads a clip's frames "
              "over the whole video unless shrink_video_to_frames is false; vprep takes them "
              "--video_sample_stride or 1/--sample_fps apart: cut long videos before"),
    NOTE("datasets.shrink_video_to_frames datasets.fast_image_size datasets.debug",
         "frames are picked by --video_sample_stride or --sample_fps"),
    FLAG("datasets.fps", "sample_fps"),
    MAP("datasets.auto_frame_count", "false>", "the number of frames is --video_sample_n_frames N, "
        "or fewer in short videos"),
    MAP("datasets.buckets", "true>enable_bucket=true|false>enable_bucket=false", ""),
    MAP("datasets.square_crop", "true>enable_bucket=false|false>", ""),
    FLAG("datasets.flip_x", "random_flip"),
    MAP("datasets.do_i2v", "true>train_mode=i2v|false>", ""),
    UNLESS("1|1.0", "datasets.network_weight datasets.loss_multiplier datasets.scale",
           "the weight of a dataset is --latents DIR:repeat=N or :WEIGHT"),
    REFUSED("datasets.flip_y datasets.random_scale datasets.random_crop datasets.augments "
            "datasets.augmentations datasets.shuffle_augmentations datasets.standardize_images "
            "train.standardize_images", PIXELS),
    FLAG("datasets.shuffle_tokens", "shuffle_caption"),
    FLAG("datasets.token_dropout_rate", "caption_tag_dropout_rate"),
    FLAG("datasets.keep_tokens", "keep_tokens"),
    FLAG("datasets.default_caption", "default_caption"),
    REFUSED("datasets.random_triggers datasets.random_triggers_max datasets.replacements "
            "datasets.use_short_captions", "captions are encoded once: "
            "give several captions of a clip, a list in its row of --meta"),
    REFUSED("datasets.mask_path datasets.alpha_mask datasets.invert_mask "
            "datasets.unconditional_path", MASKS),
    NOTE("datasets.mask_min_value datasets.bucket_tolerance datasets.num_controls_from_same_folder "
         "datasets.diff_output_preservation_class datasets.full_size_control_images",
         "masks and controls are files of the list"),
    BOTH("datasets.is_reg", "prior_reg", "false",
         "false/true>sample_kind=reg|false/false>|true/true>|true/false>", ""),
    MAP("datasets.prior_reg", "true>sample_kind=prior|false>", ""),
    REFUSED("datasets.diff_output_preservation", PRESERVE),
    REFUSED("datasets.poi "
            "datasets.clip_image_* datasets.inpaint_path datasets.extra_values", LOSS),
    EACH("datasets.control_path datasets.control_path_1 datasets.control_path_2 "
         "datasets.control_path_3", "control_directory"),
    REFUSED("datasets.control_path_* datasets.control_from_same_folder "
            "datasets.controls datasets.control_transparent_color", EDIT),
    MAP("datasets.do_audio", "false>|true>with_audio=true", ""),
    ONLY("false", "datasets.audio_normalize datasets.audio_preserve_pitch",
         "a clip's sound is stored as it is: leave it out"),
    NOTE("datasets.cache_* datasets.load_image_when_caching_latents datasets.num_workers "
         "datasets.prefetch_factor datasets.replay_transforms datasets.guidance_type "
         "datasets.caption_type datasets.gpu_prefetch datasets.trim_auto_frame_count_tail "
         "train.unload_text_encoder train.cache_text_embeddings", ENCODED),

    /* train */
    FLAG("train.batch_size datasets.batch_size", "train_batch_size"),
    FLAG("train.steps", "max_train_steps"),
    FLAG("train.lr train.unet_lr", "learning_rate"),
    FLAG("train.gradient_accumulation_steps train.gradient_accumulation",
         "gradient_accumulation_steps"),
    ONLY("true", "train.train_unet", "the transformer is always trained"),
    REFUSED("train.train_text_encoder train.train_turbo", ENCODERS),
    NOTE("train.text_encoder_lr train.embedding_lr train.adapter_lr train.refiner_lr "
         "train.train_refiner", ENCODERS),
    MAP("train.gradient_checkpointing",
        "true>gradient_checkpointing=block|false>gradient_checkpointing=none", ""),
    ONLY("flowmatch", "train.noise_scheduler", "the family decides between a flow and "
         "v-prediction: write flowmatch for a flow"),
    MAP("train.timestep_type", "sigmoid>timestep_sampling=sigmoid|linear>timestep_sampling=uniform|"
        "weighted>timestep_sampling=auto weighting_scheme=weighted flow_shift=1 flow_levels=1000",
        TIMES),
    UNLESS_OR("logit_mean", "balanced", "train.content_or_style train.content_or_style_reg",
              "write --logit_mean, above 0 for more noise (content), below 0 for less (style)"),
    FLAG("train.min_denoising_steps", "min_denoising_steps"),
    FLAG("train.max_denoising_steps", "max_denoising_steps"),
    ONLY("1000", "train.num_train_timesteps", "there are 1000 timesteps"),
    REFUSED("train.linear_timesteps train.linear_timesteps2", "write timestep_type: linear"),
    MAP("train.optimizer", "adamw>optimizer=adamw|adam>optimizer=adamw|adamw8bit>"
        "optimizer=adamw8bit|adamw8>optimizer=adamw8bit|lion>optimizer=lion|lion8bit>"
        "optimizer=lion8bit|prodigy>optimizer=prodigy|adafactor>optimizer=adafactor", ADAMW),
    FLAG("train.optimizer_params.relative_step", "adafactor_relative_step"),
    FLAG("train.optimizer_params.scale_parameter", "adafactor_scale_parameter"),
    FLAG("train.optimizer_params.warmup_init", "adafactor_warmup_init"),
    ONLY("true", "train.optimizer_params.decouple", "decay is decoupled in all optimisers here"),
    FLAG("train.optimizer_params.d_coef", "prodigy_d_coef"),
    FLAG("train.optimizer_params.use_bias_correction", "prodigy_use_bias_correction"),
    FLAG("train.optimizer_params.safeguard_warmup", "prodigy_safeguard_warmup"),
    FLAG("train.optimizer_params.weight_decay", "adam_weight_decay"),
    FLAG("train.optimizer_params.eps", "adam_epsilon"),
    SPLIT("train.optimizer_params.betas", "adam_beta1 adam_beta2"),
    REFUSED("train.optimizer_params.*", ADAMW),
    MAP("train.lr_scheduler", "constant>lr_scheduler=constant|constant_with_warmup>"
        "lr_scheduler=constant_with_warmup|cosine>lr_scheduler=cosine", SCHEDULE),
    FLAG("train.lr_scheduler_params.num_warmup_steps train.lr_warmup_steps", "lr_warmup_steps"),
    FLAG("train.lr_scheduler_params.eta_min", "lr_end"),
    REFUSED("train.lr_scheduler_params.*", SCHEDULE),
    FLAG("train.max_grad_norm", "max_grad_norm"),
    FLAG("train.ema_config.use_ema", "use_ema"),
    FLAG("train.ema_config.ema_decay", "ema_decay"),
    REFUSED("train.ema_config.use_feedback", "the average is taken of the weights alone"),
    UNLESS("1|1.0", "train.ema_config.param_multiplier", "the average is taken of the weights "
           "alone"),
    MAP("train.dtype", "bf16>mixed_precision=bf16|bfloat16>mixed_precision=bf16|fp32>"
        "mixed_precision=no|float32>mixed_precision=no|float>mixed_precision=no",
        "the types are bf16 and float32"),
    MAP("train.loss_type", "mse>loss_type=mse", "of ai-toolkit's losses mse is here; --loss_type "
        "huber and smooth_l1 come near mae and pseudo_huber"),
    UNLESS("1|1.0", "train.noise_multiplier train.target_noise_multiplier train.img_multiplier "
           "train.noisy_latent_multiplier train.latent_multiplier "
           "train.pred_scaler train.cfg_scale train.batch_noise_correction_scale", LOSS),
    REFUSED("train.min_snr_gamma train.snr_gamma train.learnable_snr_gos", "a flow has no "
            "signal-to-noise weights: write --weighting_scheme"),
    NOTE("train.switch_boundary_every", "with --boundary_type both each micro-batch goes to the "
         "transformer of its level"),
    REFUSED("train.disable_sampling", "leave it and sample.sample_every out: without them no "
            "samples are made"),
    MAP("train.skip_first_sample", "true>sample_at_first=false|false>", ""),
    MAP("train.force_first_sample", "true>sample_at_first=true|false>", ""),
    FLAG("train.seed", "seed"),
    NOTE("train.xformers train.sdp train.attention_backend", BACKEND),
    NOTE("train.bypass_guidance_embedding", "write --embedded_guidance 1, the default, for a model "
         "with guidance as an input"),
    MAP("train.diff_output_preservation", "false>", PRESERVE),
    NOTE("train.diff_output_preservation_multiplier", "it is the W of --latents "
         "DATASET:preserve=W"),
    NOTE("train.start_step train.diff_output_preservation_* "
         "train.free_u train.show_turbo_outputs train.cfg_rescale train.max_cfg_scale "
         "train.merge_network_on_save_strength train.inverted_mask_prior_multiplier "
         "train.guidance_loss_* train.unconditional_prompt train.differential_guidance_scale "
         "train.max_negative_prompts train.signal_* "
         "train.next_sample_timesteps train.target_norm_std_value train.max_loss_debug",
         "the setting that it belongs to is refused, or off"),
    FLAG("train.audio_loss_multiplier", "audio_loss_weight"),
    FLAG("train.reg_weight", "prior_loss_weight"),
    MAP("train.blank_prompt_preservation", "false>", "give the dataset twice: --latents DATASET "
        "--latents DATASET:blank=W, where W is blank_prompt_preservation_multiplier"),
    NOTE("train.blank_prompt_preservation_multiplier", "it is the W of --latents DATASET:blank=W"),
    REFUSED("train.*", LOSS ": leave it out"),

    /* model */
    FLAG("model.name_or_path", "model"),
    FLAG("model.vae_path", "vae"),
    FLAG("model.te_name_or_path", "text_encoder"),
    FLAG("model.unet_path", "transformer"),
    KIND("model.arch", "flux>|flux:*>|flex1>|flex1:*>|chroma>|chroma:*>|sd3>|sd3:*>|"
        "qwen_image>|qwen_image:*>|qwen_image_edit>|qwen_image_edit:*>|"
        "qwen_image_edit_plus>|qwen_image_edit_plus:*>|zimage>|zimage:*>|wan21>|wan21:*>|"
        "flux2>|flux2:*>|flux2_klein_4b>|flux2_klein_4b:*>|flux2_klein_9b>|flux2_klein_9b:*>|"
        "flux_kontext>|flux_kontext:*>|ernie_image>|ernie_image:*>|ideogram4>|ideogram4:*>|"
        "krea2>|krea2:*>|"
        "wan21_i2v>train_mode=i2v|wan21_i2v:*>train_mode=i2v|wan22_5b>|wan22_5b:*>|"
        "wan22_14b>|wan22_14b:*>|ltx2>|ltx2:*>|ltx2.3>|ltx2.3:*>|"
        "wan22_14b_i2v>train_mode=i2v|wan22_14b_i2v:*>train_mode=i2v", FAMILIES),
    MAP("model.is_flux model.is_v3", "true>|false>", ""),
    KIND("model.is_v2", "false>", "Stable Diffusion 2 is " FAMILIES),
    KIND("model.is_xl", "false>", "Stable Diffusion XL is " FAMILIES),
    KIND("model.is_lumina2", "false>", "Lumina 2 is " FAMILIES),
    KIND("model.is_pixart model.is_pixart_sigma", "false>", "PixArt is " FAMILIES),
    KIND("model.is_auraflow", "false>", "AuraFlow is " FAMILIES),
    KIND("model.is_ssd model.is_vega", "false>", "such a model is " FAMILIES),
    NOTE("model.is_v_pred", "the model's scheduler file names it"),
    NOTE("model.quantize", "the type of qtype is --transformer_dtype"),
    BOTH("model.qtype", "quantize", "false", "true/qint8>transformer_dtype=int8|"
         "true/int8*>transformer_dtype=int8|true/uint8*>transformer_dtype=int8|"
         "true/qint4>transformer_dtype=nf4|true/int4*>transformer_dtype=nf4|"
         "true/uint4*>transformer_dtype=nf4|true/nf4*>transformer_dtype=nf4|"
         "true/*>transformer_dtype=fp8|false/*>", ""),
    NOTE("model.quantize_te model.qtype_te model.te_dtype model.text_encoder_bits model.te_device "
         "model.vae_device model.vae_dtype model.quantize_kwargs.* model.dtype", "vprep's encoders "
         "compute in bf16, unless --vae_dtype or --text_encoder_dtype says f32"),
    FLAG("model.low_vram", "low_vram"),
    NOTE("model.layer_offloading model.layer_offloading_* model.auto_memory "
         "model.split_model_*", MEMORY),
    NOTE("model.compile model.block_compile model.compile_* model.cache_size_limit "
         "model.attn_masking model.latent_space_version model.extras_name_or_path "
         "model.refiner_start_at model.use_text_encoder_* model.use_flux_cfg model.experimental_xl "
         "model.unet_sample_size", BACKEND),
    FLAG("model.lora_path", "preset_lora_path"),
    FLAG_NOTE("model.assistant_lora_path", "preset_lora_path", "samples keep the assistant LoRA, "
              "which ai-toolkit removes"),
    NOTE("model.inference_lora_path", "samples are made of the model that is trained"),
    FLAG("model.only_if_contains", "trainable_modules"),
    REFUSED("model.ignore_if_contains", "write --trainable_modules, the names that are trained"),
    BY("model.model_kwargs.train_high_noise", "train_low_noise", "true",
       "true>|false>boundary_type=high", ""),
    BY("model.model_kwargs.train_low_noise", "train_high_noise", "true",
       "true>|false>boundary_type=low", ""),
    KIND("model.model_kwargs.match_target_res", "false>", "references keep sizes of their own "
         "(--reference_size N is their largest area): leave it out"),
    FLAG("model.model_kwargs.max_text_length", "tokenizer_max_length"),
    FLAG("model.model_kwargs.text_encoder_path", "text_encoder"),
    FLAG("model.model_kwargs.vae_path", "vae"),
    KIND("model.model_kwargs.edit", "false>", "the references of Krea 2 are ai-toolkit's own, "
         "which no released model has: Qwen-Image-Edit, FLUX.1 Kontext and FLUX.2 are trained "
         "with references"),
    REFUSED("model.unconditional_lora_path", "samples of Ideogram 4 are guided by its second "
            "transformer, --unconditional_transformer DIR, which a model's folder has"),
    REFUSED("model.model_kwargs.* model.model_paths "
            "model.refiner_name_or_path model.accuracy_recovery_adapter model.in_context",
            "give a diffusers folder, --model FOLDER, or its parts by --transformer, --vae, "
            "--text_encoder"),

    /* samples */
    FLAG("sample.sample_every", "validation_steps"),
    FLAG("sample.sample_steps", "num_inference_steps"),
    FLAG("sample.guidance_scale", "guidance_scale"),
    FLAG("sample.guidance_rescale", "guidance_rescale"),
    FLAG("sample.neg", "negative_prompt"),
    MAP("sample.sampler", "flowmatch>|euler>validation_sampler=euler|ddpm>", "write "
        "--validation_sampler ddim, dpm, euler or unipc"),
    NOTE("sample.prompts sample.samples sample.width sample.height sample.num_frames sample.fps "
         "sample.seed sample.walk_seed sample.sample_start_step sample.network_multiplier "
         "sample.format sample.adapter_conditioning_scale sample.refiner_start_at "
         "sample.extra_values sample.do_cfg_norm sample.ctrl_*", PROMPTS),
    { 0 }
};

const vc_peer_file vc_aitoolkit_file = {
    .name = "ai-toolkit", .signs = "job config.process", .root = "config.process",
    .like = "ai-toolkit", .expands = true,
    .defaults = "max_train_steps=1000 train_batch_size=1 checkpointing_steps=1000 "
                "checkpointing_limit=5 video_sample_n_frames=1 mixed_precision=no "
                "training_type=full-finetune!!network "
                "boundary_type=both??model.arch=wan22_14b* "
                "transformer_dtype=fp8??model.quantize=true!!model.qtype "
                "sample_at_first=true??sample.sample_every!!train.skip_first_sample=true",
    .needs = "model.arch|model.is_*",
    .without = "model.arch is missing, which means Stable Diffusion: " FAMILIES,
    .rows = rows
};
