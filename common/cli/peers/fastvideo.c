/* fastvideo.c - see peers.h: FastVideo's YAML of fastvideo.train (hao-ai-lab/FastVideo 2f3d4074,
 * 2026-08-21: examples/train/configs/example.yaml, fastvideo/train/utils/training_config.py). Of
 * its methods the finetune is here. Its datasets are encoded before, by vprep here. */
#include <stddef.h>

#include "common/cli/peers/peers.h"

#define OTHER_ROLES                                                                                \
    "distillation and reinforcement train several models: the finetune of one is here"
#define RANKS                                                                                      \
    "ranks come from --num_processes N, mpirun or srun, and --parallel fsdp, --dp_degree and "     \
    "--dp_shards split weights"

static const vc_peer_row rows[] = {
    KIND("models.student._target_", "fastvideo.train.models.wan.WanModel>|"
        "fastvideo.train.models.wan.wan.WanModel>|fastvideo.train.models.hunyuan.HunyuanModel>|"
        "fastvideo.train.models.hunyuan.hunyuan.HunyuanModel>", "such a model is " FAMILIES),
    FLAG("models.student.init_from", "model"),
    NOTE("training.model_path", "the student's init_from is the model"),
    ONLY("true", "models.student.trainable", "the student is trained"),
    FLAG("models.student.flow_shift pipeline.flow_shift", "flow_shift"),
    MAP("models.student.lora.enable", "true>training_type=lora|false>training_type=full-finetune",
        ""),
    FLAG("models.student.lora.rank", "rank"),
    FLAG("models.student.lora.alpha", "network_alpha"),
    FLAG("models.student.lora.target_modules", "target_name"),
    FLAG("models.student.transformer_override_safetensor", "transformer"),
    NOTE("models.student.disable_custom_init_weights models.student.attention_backend", BACKEND),
    MAP("models.student.enable_gradient_checkpointing_type "
        "training.model.enable_gradient_checkpointing_type", "full>gradient_checkpointing=block",
        "write full"),
    REFUSED("models.student.*", OTHER_ROLES),
    REFUSED("models.*", OTHER_ROLES),
    KIND("method._target_", "fastvideo.train.methods.fine_tuning.finetune.FineTuneMethod>|"
        "fastvideo.train.methods.fine_tuning.FineTuneMethod>", "the finetune alone is here"),
    ONLY("dense|full|vsa", "method.attn_kind", "attention is dense here"),
    REFUSED("method.*", OTHER_ROLES),

    NOTE("training.distributed.*", RANKS),
    NOTE("training.data.data_path training.data.data_path.*", "write --latents DATASET, which "
         "vprep makes of the clips in --meta PATH"),
    ONLY("t2v", "training.data.preprocessed_data_type", "texts and clips are trained; first frames "
         "by vprep's --train_mode i2v"),
    FLAG("training.data.train_batch_size", "train_batch_size"),
    FLAG("training.data.dataloader_num_workers", "workers"),
    FLAG("training.data.training_cfg_rate", "caption_dropout_p"),
    FLAG("training.data.seed", "seed"),
    MAP("training.data.num_height", "0>|*>height", ""),
    MAP("training.data.num_width", "0>|*>width", ""),
    MAP("training.data.num_frames", "0>|*>num_frames", ""),
    NOTE("training.data.num_latent_t", "the samples of the dataset have their lengths"),
    FLAG("training.optimizer.learning_rate", "learning_rate"),
    SPLIT("training.optimizer.betas", "adam_beta1 adam_beta2"),
    FLAG("training.optimizer.weight_decay", "adam_weight_decay"),
    FLAG("training.optimizer.lr_scheduler", "lr_scheduler"),
    FLAG("training.optimizer.lr_warmup_steps", "lr_warmup_steps"),
    MAP("training.optimizer.lr_num_cycles", "0>|*>lr_num_cycles", ""),
    MAP("training.optimizer.lr_power", "0>|0.0>|*>lr_power", ""),
    BY("training.optimizer.min_lr_ratio", "lr_scheduler", "constant", "constant>|"
       "constant_with_warmup>|linear>|cosine>", SCHEDULE),
    FLAG("training.loop.max_train_steps", "max_train_steps"),
    FLAG("training.loop.gradient_accumulation_steps", "gradient_accumulation_steps"),
    FLAG("training.checkpoint.output_dir", "output_dir"),
    FLAG("training.checkpoint.resume_from_checkpoint", "resume_from_checkpoint"),
    MAP("training.checkpoint.training_state_checkpointing_steps", "0>|*>checkpointing_steps", ""),
    FLAG("training.checkpoint.checkpoints_total_limit", "checkpointing_limit"),
    NOTE("training.tracker.*", EVENTS),
    REFUSED("training.vsa.sparsity training.vsa_sparsity", "attention is dense here: write 0, or a "
            "model that was trained without sparse attention"),
    NOTE("training.vsa.* training.vsa_*", "it belongs to sparse attention, which is off"),
    FLAG("training.model.weighting_scheme", "weighting_scheme"),
    FLAG("training.model.logit_mean", "logit_mean"),
    FLAG("training.model.logit_std", "logit_std"),
    BY("training.model.mode_scale", "weighting_scheme", "uniform", "mode>mode_scale|*>", ""),
    FLAG("training.model.precondition_outputs", "precondition_outputs"),
    REFUSED("training.model.moba_config", LOSS),
    MAP("training.dit_precision", "fp32>|bf16>optimizer=adamw_bf16", "the types are fp32 and bf16"),

    FLAG("callbacks.grad_clip.max_grad_norm", "max_grad_norm"),
    NOTE("callbacks.grad_clip.* callbacks.ema._target_ callbacks.validation._target_ "
         "callbacks.validation.pipeline_target", "the family decides it"),
    FLAG("callbacks.ema.decay", "ema_decay"),
    FLAG("callbacks.ema.start_iter", "ema_update_after_step"),
    FLAG("callbacks.validation.dataset_file", "validation_prompts"),
    FLAG("callbacks.validation.every_steps", "validation_steps"),
    FLAG("callbacks.validation.sampling_steps", "num_inference_steps"),
    FLAG("callbacks.validation.guidance_scale", "guidance_scale"),
    FLAG("callbacks.validation.run_at_start", "sample_at_first"),
    REFUSED("callbacks.validation.sampling_timesteps callbacks.validation.attn_qat_infer",
            "samples are made by --validation_sampler in --num_inference_steps"),
    NOTE("callbacks.validation.*", PROMPTS),
    REFUSED("callbacks.*", "callbacks are grad_clip, ema and validation"),
    REFUSED("pipeline.dit_config.*", "the transformer's config.json decides it"),
    NOTE("pipeline.*", "the model's folder decides it"),
    { 0 }
};

const vc_peer_file vc_fastvideo_file = {
    .name = "FastVideo", .signs = "models.student method._target_|models.student training.data",
    .root = "",
    .defaults = "training_type=full-finetune!!models.student.lora caption_dropout_p=0 "
                "weighting_scheme=uniform flow_levels=1000 flow_shift=3 adam_beta2=0.999 "
                "adam_weight_decay=0 train_batch_size=1 seed=0 max_grad_norm=0 "
                "use_ema=true??callbacks.ema",
    .rows = rows
};
