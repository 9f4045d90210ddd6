/* sdscripts.c - see peers.h: TOML of kohya's sd-scripts, of a run and of its datasets
 * (kohya-ss/sd-scripts 48d368fa, 2026-02-16: library/config_util.py, train_util.py,
 * flux_train_utils.py, sd3_train_utils.py, networks/lora_flux.py and lora_sd3.py,
 * docs/config_README-en.md). Of its models FLUX.1, Chroma and Stable Diffusion 3 are here. A file
 * of the last names CLIP-G or lora_sd3; model_type stands in the section of the model's files. A
 * run's keys are its flags, in any section; it names the file of its datasets, which is read with
 * it. Paths start from the current folder. */
#include <stddef.h>

#include "common/cli/peers/blocks.h"
#include "common/cli/peers/peers.h"

#define TAGS                                                                                       \
    "captions are encoded once: --caption_variants N stores several of each, and "                 \
    "--caption_dropout_p drops whole captions"
#define DATA(name) "general." name " datasets." name " datasets.subsets." name " " name
#define BLOCKS                                                                                     \
    "(single_)?transformer_blocks\\.[0-9]+\\.(attn\\.(to_[qkv]|to_out\\.0|add_[qkv]_proj|"         \
    "to_add_out)|ff(_context)?\\.net\\.(0\\.proj|2)|proj_mlp|proj_out|norm1?(_context)?\\.linear)"

static const vc_peer_row rows[] = {
    FOLLOW("dataset_config", ""),
    /* datasets: [general], [[datasets]] and [[datasets.subsets]], or flags of the run */
    FLAG("datasets.subsets.image_dir train_data_dir in_json "
         "datasets.subsets.metadata_file", "meta"),
    AREA(DATA("resolution"), "enable_bucket", "false"),
    MAP(DATA("enable_bucket"), "true>enable_bucket=true|false>enable_bucket=false", ""),
    MAP(DATA("bucket_no_upscale"), "true>max_upscale=1|false>", ""),
    FLAG("general.batch_size datasets.batch_size", "train_batch_size"),
    FLAG(DATA("num_repeats") " dataset_repeats", "dataset_repeat"),
    FLAG(DATA("flip_aug"), "random_flip"),
    FLAG(DATA("caption_dropout_rate"), "caption_dropout_p"),
    ONLY(".txt|txt|.caption|caption", DATA("caption_extension") " caption_extention",
         "captions are read from .txt and .caption files, or from a list: --meta LIST"),
    FLAG(DATA("shuffle_caption"), "shuffle_caption"),
    FLAG(DATA("keep_tokens"), "keep_tokens"),
    FLAG(DATA("keep_tokens_separator"), "keep_tokens_separator"),
    FLAG(DATA("caption_separator"), "caption_separator"),
    FLAG(DATA("secondary_separator"), "secondary_separator"),
    FLAG(DATA("caption_tag_dropout_rate"), "caption_tag_dropout_rate"),
    FLAG(DATA("caption_prefix"), "caption_prefix"),
    FLAG(DATA("caption_suffix"), "caption_suffix"),
    MAP(DATA("enable_wildcard"), "true>enable_wildcard=true caption_lines=true|false>", ""),
    REFUSED(DATA("caption_dropout_every_n_epochs") " " DATA("token_warmup_step")
            " token_warmup_min weighted_captions", TAGS),
    FLAG("datasets.subsets.class_tokens", "default_caption"),
    NOTE(DATA("cache_info") " " DATA("min_bucket_reso") " "
         DATA("max_bucket_reso") " " DATA("bucket_reso_steps") " " DATA("resize_interpolation")
         " skip_image_resolution token_warmup_min", "vprep's buckets have the area of the "
         "resolution and sides of multiples of 16, and pictures are resized by a bicubic filter"),
    REFUSED(DATA("color_aug") " " DATA("random_crop") " " DATA("face_crop_aug_range"), PIXELS),
    REFUSED(DATA("alpha_mask") " " DATA("masked_loss") " "
            "datasets.subsets.conditioning_data_dir conditioning_data_dir", MASKS),
    MAP("datasets.subsets.is_reg", "true>sample_kind=reg|false>", ""),
    FLAG("reg_data_dir", "reg_data_dir"),
    FLAG("prior_loss_weight", "prior_loss_weight"),
    FLAG("general.validation_split datasets.validation_split datasets.subsets.validation_split "
         "validation_split", "eval_split"),
    NOTE("general.validation_seed datasets.validation_seed datasets.subsets.validation_seed "
         "validation_seed", "--seed draws the held-out samples"),

    /* the model: files of FLUX.1 or Chroma, which has no CLIP */
    FLAG("pretrained_model_name_or_path", "transformer"),
    FLAG("ae", "vae"),
    FLAG("clip_l", "text_encoder"),
    BOTH("t5xxl", "model_type", "flux", "flux/*>text_encoder_2|chroma/*>text_encoder", ""),
    FLAG("t5xxl_max_token_length", "tokenizer_max_length"),
    KIND("model_type", "flux>|chroma>model_version=chroma", FAMILIES),
    REFUSED("v2 v_parameterization v_pred_like_loss sdxl zero_terminal_snr "
            "debiased_estimation_loss scale_v_pred_loss_like_noise_pred gemma2 qwen3 "
            "text_encoder", FAMILIES),
    NOTE("max_token_length clip_skip tokenizer_cache_dir no_half_vae lowram highvram "
         "vae_batch_size cache_latents cache_latents_to_disk cache_text_encoder_outputs "
         "cache_text_encoder_outputs_to_disk text_encoder_batch_size disable_mmap_load_safetensors "
         "skip_cache_check", ENCODED),
    NOTE("mem_eff_attn xformers sdpa torch_compile full_fp16_with_autocast "
         "cpu_offload_checkpointing split_mode fused_backward_pass blockwise_fused_optimizers",
         BACKEND),
    NOTE("apply_t5_attn_mask apply_lg_attn_mask", "the family decides which tokens are attended "
         "to"),
    ONLY("raw", "model_prediction_type", "the model predicts the flow itself, which is raw"),
    BOTH("guidance_scale", "model_type", "flux", "flux/*>embedded_guidance|chroma/*>", ""),

    /* the LoRA */
    KIND("network_module", "networks.lora_flux>training_type=lora|networks.lora_sd3>"
         "training_type=lora|networks.loha>training_type=lora "
         "adapter=loha|networks.lokr>training_type=lora adapter=lokr|lycoris.kohya>"
         "training_type=lora adapter=lycoris.kohya", "of sd-scripts' networks "
         "networks.lora_flux, lora_sd3, loha, lokr and LyCORIS's are here; its other models and "
         "adapters are " FAMILIES),
    FLAG("network_dim", "rank"),
    FLAG("network_weights", "lora_checkpoint"),
    EACH("network_args", "network_args"),
    NOTE("network_train_unet_only", "the transformer alone is trained"),
    REFUSED("network_train_text_encoder_only", ENCODERS),
    NOTE("text_encoder_lr learning_rate_te*", ENCODERS),
    FLAG("learning_rate unet_lr", "learning_rate"),
    REFUSED("scale_weight_norms", LOSS),

    REFUSED("self_attn_lr cross_attn_lr mlp_lr mod_lr llm_adapter_lr", "write --param_groups "
            "\"PATTERN:lr=X\""),

    /* the run */
    FLAG("single_blocks_to_swap double_blocks_to_swap", "blocks_to_swap"),
    REFUSED("initial_epoch initial_step skip_until_initial_step", "a run that continues knows its "
            "step: write --resume_from_checkpoint latest"),
    NOTE("validate_every_n_steps validate_every_n_epochs max_validation_steps sample_sampler",
         "--eval_steps says how often held-out losses are computed, and --validation_sampler how "
         "samples are made"),
    REFUSED("save_n_epoch_ratio", "write --checkpointing_epochs N"),
    REFUSED("huber_scale", LOSS),
    UNLESS("0|0.0", "clip_l_dropout_rate clip_g_dropout_rate t5_dropout_rate", "a caption is "
           "dropped from all text encoders: --caption_dropout_p"),
    REFUSED("use_lion_optimizer fused_optimizer_groups fp16_master_weights_and_gradients", ADAMW),
    NOTE("fp8_base_unet", "write --transformer_dtype fp8; int8 and nf4 are others"),
    REFUSED("gemma2_max_token_length qwen3_max_token_length t5_max_token_length t5_tokenizer_path "
            "llm_adapter_path system_prompt pos_emb_random_crop_rate enable_scaled_pos_embed "
            "use_flash_attn use_sage_attn dataset_class",
            "files of FLUX.1 and Stable Diffusion 3 have no such setting here: leave it out"),
    NOTE("save_clip save_t5xxl", "text encoders are not trained"),
    NOTE("output_config offload_param_nvme_path t5xxl_device "
         "t5xxl_dtype vae_disable_cache skip_latents_validity_check", BACKEND),
    PAIRS("optimizer_args"),
    OPTIMIZER_ARGS,
    FLAG("optimizer_type", "optimizer"),
    MAP("mixed_precision", "bf16>mixed_precision=bf16|no>mixed_precision=no",
        "the types are bf16 and float32"),
    NOTE("full_bf16 save_precision save_model_as output_name use_safetensors", SAVED),
    MAP("gradient_checkpointing",
        "true>gradient_checkpointing=block|false>gradient_checkpointing=none", ""),
    ONLY("0|0.0", "ip_noise_gamma noise_offset multires_noise_iterations adaptive_noise_scale "
         "multires_noise_discount", LOSS),
    REFUSED("min_snr_gamma ip_noise_gamma_random_strength noise_offset_random_strength",
            "a flow has no signal-to-noise weights: write --weighting_scheme"),
    { 0 }
};

/* What a file of Stable Diffusion 3 has of its own: one file has the transformer and the VAE. */
static const vc_peer_row sd3_rows[] = {
    FLAG("clip_g", "text_encoder_2"),
    FLAG("t5xxl", "text_encoder_3"),
    FLAG("training_shift", "flow_shift"),
    NOTE("guidance_scale discrete_flow_shift timestep_sampling sigmoid_scale",
         "sd-scripts reads it of FLUX.1 alone"),
    { 0 }
};

#define RUN                                                                                        \
    "learning_rate=2e-6 max_train_steps=1600!!max_train_epochs train_batch_size=1 "                \
    "adam_beta2=0.999 adam_weight_decay=0.01 flow_levels=1000 weighting_scheme=uniform "           \
    "caption_dropout_p=0 training_type=full-finetune!!network_module "                             \
    "rank=4??network_module network_alpha=1??network_module "

const vc_peer_file vc_sdscripts_data_file = {
    .name = "sd-scripts", .signs = "datasets.subsets", .root = "", .is_flags = true, .rows = rows
};

const vc_peer_file vc_sdscripts_sd3_file = {
    .name = "sd-scripts",
    .signs = "network_module=networks.lora_sd3|clip_g pretrained_model_name_or_path",
    .root = "", .is_flags = true,
    .defaults = RUN "flow_shift=1 precondition_outputs=true "
                "target_name=" VC_SD3_BLOCKS "??network_module",
    .rows = sd3_rows, .more = rows
};

const vc_peer_file vc_sdscripts_file = {
    .name = "sd-scripts",
    .signs = "network_module=networks.*|network_module=lycoris*|t5xxl|"
             "clip_l pretrained_model_name_or_path|"
             "pretrained_model_name_or_path output_name|train_data_dir caption_extension|"
             "dataset_config output_name",
    .root = "", .is_flags = true,
    .defaults = RUN "embedded_guidance=3.5!!model_type=chroma flow_shift=3 "
                "timestep_sampling=sigma "
                "target_name=" BLOCKS "??network_module",
    .needs = "ae|clip_l|t5xxl|model_prediction_type|t5xxl_max_token_length|"
             "network_module=networks.lora_flux",
    .without = "the file has no setting of FLUX.1 (ae, clip_l, t5xxl, model_prediction_type), and "
               "the other models of sd-scripts, Stable Diffusion among them, are " FAMILIES,
    .rows = rows
};
