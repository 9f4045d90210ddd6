/* ltxtrainer.c - see peers.h: the YAML of ltx-trainer (Lightricks/LTX-2, packages/ltx-trainer,
 * docs/configuration-reference.md at ec11c166, src/ltx_trainer/config.py). Of its strategies those
 * of the video, alone or with its sound, are here, from text or a clean first frame. Its datasets
 * are encoded before, by vprep here. */
#include <stddef.h>

#include "common/cli/peers/peers.h"

#define MODEL                                                                                      \
    "write --model PATH, the authors' file or diffusers' folder; vprep takes --text_encoder too"
#define SOUND "sound is trained beside the video, both from noise, and has no conditions"

static const vc_peer_row rows[] = {
    NOTE("model.model_path model.text_encoder_path model.video_vae_path model.audio_vae_path",
         MODEL),
    MAP("model.training_mode", "lora>training_type=lora|full>training_type=full-finetune", ""),
    MAP("model.load_checkpoint", "null>|*>lora_checkpoint", ""),
    FLAG("lora.rank", "rank"),
    FLAG("lora.alpha", "network_alpha"),
    FLAG("lora.dropout", "lora_dropout"),
    FLAG("lora.target_modules", "target_name"),

    KIND("training_strategy.name", "flexible>|text_to_video>", "it is text_to_video, or flexible "
         "with a video that is generated"),
    KIND("training_strategy.video.is_generated", "true>", "the video is what is trained"),
    { .kind = VC_SETTING_FLAG, .key = "training_strategy.audio.is_generated",
      .flag = "with_audio", .map = "true>with_audio=true", .say = SOUND ": write --with_audio for "
      "both, or --no_with_audio for the video alone" },
    UNLESS_FILE("training_strategy.video.*", "with_audio", NULL,
                "training_strategy.audio.latents_dir", SOUND ": write --with_audio for both"),
    MAP("training_strategy.with_audio", "false>|true>with_audio=true", SOUND),
    NOTE("training_strategy.video.latents_dir", "write --latents DATASET, which vprep makes of the "
         "clips in --meta PATH"),
    NOTE("training_strategy.audio_latents_dir", "the DATASET of --latents has the sound, which "
         "vprep --with_audio stores"),
    KIND("training_strategy.video.conditions.type", "first_frame>", "of its conditions first_frame "
         "is here"),
    FLAG("training_strategy.video.conditions.probability "
         "training_strategy.first_frame_conditioning_p", "first_frame_conditioning_p"),
    REFUSED("training_strategy.audio.*", SOUND),
    REFUSED("training_strategy.video.conditions.* training_strategy.reference_*", "of its "
            "conditions first_frame is here"),

    FLAG("optimization.learning_rate", "learning_rate"),
    FLAG("optimization.steps", "max_train_steps"),
    FLAG("optimization.batch_size", "train_batch_size"),
    FLAG("optimization.gradient_accumulation_steps", "gradient_accumulation_steps"),
    FLAG("optimization.max_grad_norm", "max_grad_norm"),
    FLAG("optimization.optimizer_type", "optimizer"),
    FLAG_NOTE("optimization.scheduler_type", "lr_scheduler", "ltx-trainer's linear ends at a tenth "
              "of the rate, and this one at --lr_end"),
    REFUSED("optimization.scheduler_params.*", SCHEDULE),
    FLAG("optimization.prodigy_d_coef", "prodigy_d_coef"),
    FLAG("optimization.prodigy_weight_decay", "adam_weight_decay"),
    MAP("optimization.enable_gradient_checkpointing", "true>gradient_checkpointing=block|"
        "false>gradient_checkpointing=none", ""),

    FLAG("acceleration.mixed_precision_mode", "mixed_precision"),
    MAP("acceleration.quantization", "null>|fp8-quanto>transformer_dtype=fp8|fp8uz-quanto>"
        "transformer_dtype=fp8|int8-quanto>transformer_dtype=int8|int4-quanto>"
        "transformer_dtype=nf4", PACKED),
    NOTE("acceleration.*", BACKEND),
    NOTE("data.preprocessed_data_root", "write --latents DATASET, which vprep makes of the clips "
         "in --meta PATH"),
    FLAG("data.num_dataloader_workers", "workers"),

    MAP("validation.interval", "null>|*>validation_steps", ""),
    FLAG("validation.inference_steps", "num_inference_steps"),
    FLAG("validation.video_cfg_scale validation.guidance_scale", "guidance_scale"),
    FLAG("validation.audio_cfg_scale", "audio_guidance_scale"),
    FLAG("validation.guidance_rescale", "guidance_rescale"),
    FLAG("validation.negative_prompt", "negative_prompt"),
    MAP("validation.skip_initial_validation", "true>|false>sample_at_first=true", ""),
    NOTE("validation.*", PROMPTS),

    MAP("checkpoints.interval", "null>|*>checkpointing_steps", ""),
    MAP("checkpoints.keep_last_n", "-1>|*>checkpointing_limit", ""),
    NOTE("checkpoints.*", "checkpoints have all that a run resumes from"),
    MAP("flow_matching.timestep_sampling_mode", "uniform>weighting_scheme=uniform|"
        "shifted_logit_normal>weighting_scheme=stretched", "write --weighting_scheme"),
    REFUSED("flow_matching.timestep_sampling_params.*", LOSS),
    ONLY("false", "hub.push_to_hub", "write --push_to_hub"),
    NOTE("hub.* wandb.*", EVENTS),
    FLAG("seed", "seed"),
    FLAG("output_dir", "output_dir"),
    { 0 }
};

const vc_peer_file vc_ltxtrainer_file = {
    .name = "ltx-trainer", .signs = "model.training_mode training_strategy|"
                                    "model.training_mode data.preprocessed_data_root",
    .root = "",
    .defaults = "training_type=lora learning_rate=5e-4 max_train_steps=3000 train_batch_size=2 "
                "adam_beta2=0.999 adam_weight_decay=0.01 lr_scheduler=linear "
                "weighting_scheme=stretched seed=42",
    .rows = rows
};
