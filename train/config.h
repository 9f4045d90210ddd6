/* config.h - the settings of a training run: one field for each flag of vtrain_flags.def
 * (common/cli), and the choices of those flags that are enums of their own. Strings and lists
 * belong to the vc_flags that were parsed (common/cli/flags.h). */
#ifndef TRAIN_CONFIG_H
#define TRAIN_CONFIG_H

#include "common/base/dtype.h"
#include "common/cli/flags.h"

typedef enum { VTRAIN_LORA, VTRAIN_FULL } vtrain_type;
typedef enum {
    VTRAIN_REMAT_BLOCK, VTRAIN_REMAT_KEEP_ATTENTION, VTRAIN_REMAT_AUTO, VTRAIN_REMAT_NONE
} vtrain_remat;
typedef enum { VTRAIN_DDP, VTRAIN_ZERO2, VTRAIN_FSDP } vtrain_parallel;
typedef enum { VTRAIN_PRECISION_NO, VTRAIN_PRECISION_BF16 } vtrain_precision;
typedef enum {
    VTRAIN_SIDE_FULL, VTRAIN_SIDE_HIGH, VTRAIN_SIDE_LOW, VTRAIN_SIDE_BOTH
} vtrain_side;
/* --lora_base_model; the names of VACE's weights, and no others, begin with VTRAIN_VACE_PART. */
typedef enum { VTRAIN_BASE_ALL, VTRAIN_BASE_DIT, VTRAIN_BASE_TRANSFORMER, VTRAIN_BASE_VACE }
    vtrain_lora_base;
#define VTRAIN_VACE_PART "vace_"
enum { VTRAIN_HALVES = 2 };                   /* transformers of a model with two: that for high
                                               * noise, that for low noise */
typedef enum {
    VTRAIN_POSTERIOR_AUTO, VTRAIN_POSTERIOR_SAMPLE, VTRAIN_POSTERIOR_MEAN
} vtrain_posterior;

/* The choices of --timestep_sampling. */
typedef enum {
    VTRAIN_SAMPLING_AUTO, VTRAIN_SAMPLING_SIGMA, VTRAIN_SAMPLING_UNIFORM, VTRAIN_SAMPLING_SIGMOID,
    VTRAIN_SAMPLING_SHIFT, VTRAIN_SAMPLING_LOGSNR, VTRAIN_SAMPLING_FLUX_SHIFT,
    VTRAIN_SAMPLING_FLUX2_SHIFT, VTRAIN_SAMPLING_QWEN_SHIFT, VTRAIN_SAMPLING_IDEOGRAM4_SHIFT
} vtrain_sampling;

/* The choices of --task that have an effect: from VTRAIN_TASK_A14B on they are models of two
 * transformers for Wan; from VTRAIN_TASK_K5 on they are models of Kandinsky 5, and those of image
 * to video are two of these. */
typedef enum {
    VTRAIN_TASK_DISTILL = 4, VTRAIN_TASK_DISTILL_TRAIN = 6, VTRAIN_TASK_A14B = 12,
    VTRAIN_TASK_K5 = 16, VTRAIN_TASK_K5_LITE_I2V = 17, VTRAIN_TASK_K5_PRO_I2V = 22
} vtrain_task;

/* The flags, one field each, in the order of --help. A field is zero or NULL where the default is
 * the family's: vtrain_resolve fills such fields in, so the settings written are those used. */
typedef struct vtrain_config {
    /* data */
    vc_list latents;
    int64_t dataset_repeat;
    double prior_loss_weight;
    double eval_split, caption_dropout_p, image_dropout_p, mask_all_dropout_p, control_dropout_p,
           reference_dropout_p;
    int posterior;                            /* vtrain_posterior */
    double scale_factor;                      /* of latents; 0: the VAE's */
    bool follow, allow_mismatch, verify_data;
    char *extra_inputs;

    /* model */
    char *model, *transformer, *transformer_high, *unconditional_transformer, *connectors,
         *blockwise_controlnet, *controlnet, *scheduler;
    int64_t num_double_layers, num_single_layers, num_mode;       /* of a new --controlnet */
    char *controlnet_mode;
    double controlnet_conditioning_scale;     /* of samples */
    int task;                                 /* vtrain_task, or one of musubi-tuner's models */
    char *model_paths, *model_id_with_origin_paths;   /* DiffSynth-Studio's names of the model */
    char *init_state_dir;
    int boundary_type;                        /* vtrain_side */
    double timestep_boundary, max_timestep_boundary, min_timestep_boundary;
    int ssm_layer;                            /* index into none|ttt_linear|ttt_mlp */
    int64_t mini_batch_size, scan_checkpoint_group_size;      /* 0: the model's */
    double ttt_base_lr;                       /* 0: the model's */
    int zero_cond_t;                         /* 0 yes, 1 no, 2 auto */
    char *model_version;
    bool ttt_eta_compat;
    vc_dtype transformer_dtype;               /* frozen weights in memory; NONE: as in the file */
    bool int8_activations;
    char *fp8_models;
    int64_t dit_width, dit_layers, dit_heads, dit_patch;
    bool dit_guidance_embeds;

    /* trained parameters */
    int training_type;                        /* vtrain_type */
    char *trainable_models, *trainable_modules;
    int adapter_method;                       /* index into sft|qkvo|none */
    int adapter;                              /* vt_adapter_kind */
    bool use_dora, use_rslora;
    int64_t rank;
    double network_alpha;
    vc_list rank_pattern, alpha_pattern;
    int64_t lokr_factor;
    bool lokr_full_matrix, lokr_decompose_both;
    double lora_dropout, network_dropout, rank_dropout, module_dropout;
    bool rank_dropout_scale;
    char *target_name, *lora_checkpoint;
    vc_list preset_lora_path, preset_lora_multiplier;
    int lora_base_model;                      /* vtrain_lora_base */
    bool bake_scale, export_kohya, export_comfyui, export_diffsynth, export_pipeline;

    /* objective */
    int objective;                            /* index into auto|flow|v */
    int weighting_scheme;                     /* vtrain_density */
    double logit_mean, logit_std, mode_scale;
    double flow_shift;                        /* 0: by the tokens of a sample */
    int64_t flow_levels;                      /* of a table; 0: every level */
    double flow_terminal;                     /* the table's last level; 0: the shift's */
    double min_timestep, max_timestep;        /* the range that is trained, of 0..1000 */
    bool preserve_distribution_shape;
    double min_noising_strength, max_noising_strength;    /* before the shift, of 0..1 */
    double min_denoising_steps, max_denoising_steps;      /* ai-toolkit's *_timestep_boundary */
    double min_t, max_t;                      /* diffusion-pipe's names of the range, of 0..1 */
    int timestep_dtype;                       /* 1: the transformer's level is rounded to bf16 */
    int timestep_sampling;                    /* vtrain_sampling: auto, as vtrain_resolve leaves
                                               * it */
    int loss_type;                            /* vtrain_loss_type */
    double loss_delta, loss_cutoff;
    bool uniform_sampling, motion_sub_loss, precondition_outputs;
    int diffusion_forcing;                    /* none|independent|increasing */
    int64_t diffusion_forcing_block;          /* frames that have one level together */
    double motion_sub_loss_ratio, first_frame_conditioning_p, embedded_guidance;
    bool with_audio;
    double video_loss_weight, audio_loss_weight, audio_guidance_scale;
    int64_t distill_steps;                    /* 0: as the samples' records say */
    vc_list distill_sigmas;

    /* optimiser */
    int64_t max_train_steps, num_train_epochs, train_batch_size, gradient_accumulation_steps;
    int64_t global_batch_size;
    double learning_rate;
    int optimizer;                            /* vt_optimizer */
    bool use_8bit_adam;
    double prodigy_d_coef, prodigy_d0, prodigy_growth_rate, prodigy_beta3;
    bool prodigy_use_bias_correction, prodigy_safeguard_warmup;
    bool adafactor_relative_step, adafactor_scale_parameter, adafactor_warmup_init;
    double adafactor_clip_threshold, adafactor_decay_rate;
    double schedule_free_r, schedule_free_weight_lr_power;
    double muon_momentum;
    bool muon_nesterov;
    int64_t muon_iterations;
    int muon_adjust_lr_fn;
    vc_list optimizer_args;
    int lr_scheduler;                         /* vtrain_schedule */
    double lr_warmup_steps;                   /* below 1: a share of the run's steps */
    double lr_warmup_ratio;                   /* the same share; 0 as vtrain_check leaves it */
    int64_t lr_warmup_from, lr_num_cycles;
    double lr_end;
    vc_list param_groups, network_args;
    char *lycoris_config;
    char *no_decay;
    double lr_ssm;
    int lr_ssm_schedule;                      /* index into linear|cosine */
    double lr_power;
    char *lr_step_rules;
    double adam_beta1, adam_beta2, adam_weight_decay, adam_epsilon, max_grad_norm;
    bool use_ema;
    double ema_decay, ema_min_decay, ema_power, ema_inv_gamma;
    int64_t ema_update_after_step;
    int64_t seed;

    /* machine */
    char *device;
    int64_t threads, workers;
    int kernels;                              /* in auto|plain|avx2|avx512|avx512_bf16|amx */
    int mixed_precision;                      /* vtrain_precision */
    int gradient_checkpointing;               /* vtrain_remat */
    int64_t memory_limit;                     /* bytes; 0: all free memory */
    int64_t blocks_to_swap;
    bool low_vram;
    bool gradient_checkpointing_offload;
    char *offload_optimizer;                  /* none, cpu, disk or a folder */
    int offload_update;                       /* index into device|host */
    char *offload_optimizer_nvme_path;        /* NULL after vtrain_check */
    int offload_param;                        /* index into none|cpu|nvme; 0 after vtrain_check */
    bool deterministic, profile;
    int parallel;                             /* vtrain_parallel */
    int zero_stage;                           /* index into none|0|1|2|3 */
    int fsdp_sharding_strategy;               /* index into none|full|gradients|ddp */
    bool use_fsdp;
    char *deepspeed_config;
    int64_t num_processes;
    int64_t dp_degree, dp_shards, sp;
    int reduce_dtype;                         /* index into f32|bf16 */
    int64_t comm_timeout;                     /* s */

    /* output */
    char *output_dir, *job_name;
    int64_t checkpointing_steps, checkpointing_epochs, checkpointing_limit, keep_best;
    char *resume_from_checkpoint;
    int64_t eval_steps, eval_epochs, validation_steps, validation_epochs, num_inference_steps;
    bool eval_at_first, sample_at_first;
    double guidance_scale, true_cfg_scale, guidance_rescale;
    int guidance_schedule;                    /* vtrain_guiding */
    int64_t guidance_power;
    int64_t ar_step, causal_block_size, base_num_frames, overlap_history;
    double addnoise_condition;
    char *skip_guidance_layers;
    double skip_layer_guidance_scale, skip_layer_guidance_start, skip_layer_guidance_stop;
    int validation_sampler;                   /* 0: auto, else 1 + vtrain_sampler */
    int like;                                 /* index into VC_LIKE_ALLOWED */
    int report_to;                            /* index into tensorboard|none */
    char *trace_dir;
    int64_t trace_steps;
    char *status;
    bool dry_run, quiet;
    int log_format;                           /* vc_log_format */
} vtrain_config;

#endif
