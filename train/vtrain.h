/* vtrain.h - a training run: its settings, its state, and the order of its parts.
 *
 *     main.c      flag table, exit status          options.c  checks settings, family defaults
 *     run.c       opens, resumes, closes           plan.c     what will happen
 *     memory.c    what a step takes, beforehand    follow.c   which samples each epoch has
 *     loop.c      steps: accumulate, clip, log,    step.c     one micro-batch: forward, loss,
 *                 save, evaluate, sample, stop                backward
 *     noised.h    levels, noise, loss weights
 *     save.c      what a checkpoint holds          weights.h  the transformer's files
 *     base.h      which weights those are          encoders.h  whether the VAE and the texts' fit
 *     beside.h    a thread that finds out both
 *     data.h loader.h  latents in                  ckpt.h metrics.h report.h  results out
 *     dist.h zero.h    gradients and state over several ranks (docs/cluster.md)
 *     dit.h       transformers, families.c's table objective.h optim.h lora.h sample.h trace.h
 *
 * One thread runs the steps; the loader has threads of its own, kernels use several. */
#ifndef TRAIN_VTRAIN_H
#define TRAIN_VTRAIN_H

#include <stdatomic.h>
#include <stdio.h>

#include "common/cli/flags.h"
#include "common/comm/comm.h"
#include "common/os/progress.h"
#include "common/tensor/weights.h"
#include "train/data/data.h"
#include "train/data/loader.h"
#include "train/diffusion/objective.h"
#include "train/diffusion/scheduler.h"
#include "train/models/dit.h"
#include "train/optim.h"
#include "train/output/ckpt.h"
#include "train/output/metrics.h"

typedef enum { VTRAIN_LORA, VTRAIN_FULL } vtrain_type;
typedef enum { VTRAIN_REMAT_BLOCK, VTRAIN_REMAT_AUTO, VTRAIN_REMAT_NONE } vtrain_remat;
typedef enum { VTRAIN_DDP, VTRAIN_ZERO2, VTRAIN_FSDP } vtrain_parallel;
typedef enum { VTRAIN_PRECISION_NO, VTRAIN_PRECISION_BF16 } vtrain_precision;
typedef enum { VTRAIN_SIDE_FULL, VTRAIN_SIDE_HIGH, VTRAIN_SIDE_LOW } vtrain_side;
typedef enum {
    VTRAIN_POSTERIOR_AUTO, VTRAIN_POSTERIOR_SAMPLE, VTRAIN_POSTERIOR_MEAN
} vtrain_posterior;

/* The flags, one field each, in the order of --help. Zero or NULL where the default is the
 * family's: vtrain_resolve fills these in, so that the settings written are the ones used. */
typedef struct vtrain_config {
    /* data */
    vc_list latents;
    int64_t dataset_repeat;
    double eval_split, caption_dropout_p, image_dropout_p, mask_all_dropout_p;
    int posterior;                            /* vtrain_posterior */
    bool follow, allow_mismatch, verify_data;

    /* model */
    char *model, *transformer, *scheduler;
    int boundary_type;                        /* vtrain_side */
    vc_dtype transformer_dtype;               /* frozen weights in memory; NONE: as in the file */
    char *fp8_models;
    int64_t dit_width, dit_layers, dit_heads, dit_patch;
    bool dit_guidance_embeds;

    /* what is trained */
    int training_type;                        /* vtrain_type */
    char *trainable_models, *trainable_modules;
    int64_t rank;
    double network_alpha;
    char *target_name, *lora_checkpoint, *preset_lora_path;
    bool bake_scale, export_kohya, export_comfyui, export_pipeline;

    /* objective */
    int objective;                            /* index into auto|flow|v */
    int weighting_scheme;                     /* vtrain_density */
    double logit_mean, logit_std, mode_scale;
    double flow_shift;                        /* 0: by the tokens of a sample */
    bool uniform_sampling, motion_sub_loss;
    double motion_sub_loss_ratio, first_frame_conditioning_p, embedded_guidance;

    /* optimiser */
    int64_t max_train_steps, num_train_epochs, train_batch_size, gradient_accumulation_steps;
    double learning_rate;
    int optimizer;                            /* vt_adamw_kind */
    bool use_8bit_adam;
    int lr_scheduler;                         /* vtrain_schedule */
    int64_t lr_warmup_steps, lr_num_cycles;
    double lr_power;
    char *lr_step_rules;
    double adam_beta1, adam_beta2, adam_weight_decay, adam_epsilon, max_grad_norm;
    bool use_ema;
    double ema_decay;
    int64_t seed;

    /* machine */
    char *device;
    int64_t threads, workers;
    int kernels;                              /* index into auto|plain|avx2|avx512|amx */
    int mixed_precision;                      /* vtrain_precision */
    int gradient_checkpointing;               /* vtrain_remat */
    int64_t memory_limit;                     /* bytes; 0: what is free */
    int64_t blocks_to_swap;
    bool low_vram;
    bool gradient_checkpointing_offload;
    bool deterministic, profile;
    int parallel;                             /* vtrain_parallel */
    int64_t dp_degree, dp_shards;
    int reduce_dtype;                         /* index into f32|bf16 */
    int64_t nccl_timeout;                     /* s */

    /* output */
    char *output_dir;
    int64_t checkpointing_steps, checkpointing_limit;
    char *resume_from_checkpoint;
    int64_t eval_steps, validation_steps, num_inference_steps;
    double guidance_scale;
    int validation_sampler;                   /* 0: auto, else 1 + vtrain_sampler */
    int like;                                 /* index into VC_LIKE_ALLOWED */
    int report_to;                            /* index into tensorboard|none */
    char *trace_dir;
    int64_t trace_steps;
    bool dry_run, quiet;
    int log_format;                           /* vc_log_format */
} vtrain_config;

extern const vc_program vtrain_program;       /* options.c: the table of the flags above */

/* Adds values and pairs that contradict each other to what is wrong with the flags, after
 * vc_flags_parse; 0, or VC_EUSAGE if anything is (err: the first). */
int vtrain_check(vtrain_config *c, vc_flags *set, vc_err *err);
/* Fills in dp_degree and dp_shards, whose product is the number of ranks; VC_EUSAGE if it is not. */
int vtrain_check_ranks(vtrain_config *c, int ranks, vc_err *err);
/* Fills what was not given from the family and the model's scheduler (rate, targets, ...). */
int vtrain_resolve(vtrain_config *c, vc_flags *set, const vtrain_family *f,
                   const vtrain_scheduler *s, vc_err *err);

/* How the rate changes in a run of so many steps. */
vtrain_rate vtrain_rate_of(const vtrain_config *c, int64_t steps);

/* What a plan found out about a run. */
typedef struct vtrain_plan {
    uint64_t epoch_batches;                   /* micro-batches in the last span's first epoch */
    int spans;                                /* there were so many when it was made */
    int64_t steps;                            /* of the whole run */
    int64_t predicted;                        /* bytes of private memory at the peak */
    uint32_t largest;                         /* group of the peak */
    size_t pool;                              /* of it: the step's tensors, kernels' scratch */
    size_t offloaded;                         /* beside it, in host memory: inputs of blocks */
    double flops;                             /* of a step, mean over the epoch's groups */
    double *group_flops;                      /* [groups] of a micro-batch */
    int64_t standing;                         /* of predicted: weights, optimiser, loader */
    int blocks;                               /* of the transformer */
    int swapped;                              /* blocks whose weights stay on the host */
    int *recompute;                           /* [groups] the first so many are run again in
                                               * backward; NULL: none */
} vtrain_plan;

typedef struct vtrain {
    vtrain_config cfg;
    vc_comm *comm;                            /* the ranks */
    vc_progress *ui;                          /* rank 0's; NULL on others */
    const atomic_int *stop;                 /* a signal's number, or 0 */
    FILE *out;                                /* for results: a dry run's plan; rank 0's */

    vtrain_data *data;
    vtrain_span *span;                        /* epochs by their samples; the last has data's */
    int n_spans;
    bool following;                           /* more samples may join at the end of an epoch */
    uint64_t epoch_end;                       /* while it follows: the next epoch's first micro-batch
                                               * of the run; else UINT64_MAX */
    int *shards;                              /* [datasets] closed, when it last looked */
    bool complete;                            /* and whether that were all */
    vtrain_state from;                        /* the checkpoint it goes on from, or all zero */
    char *from_dir;                           /* its folder, or NULL */
    const vtrain_family *family;
    cJSON *model_config;                      /* the transformer's config.json */
    struct vtrain_weights *weights;           /* what it started from (frozen ones borrow it), or
                                               * NULL: noise */
    bool guidance;                            /* it takes guidance as an input */
    double boundary;                          /* of the model's two transformers; 0: it has one */
    struct vtrain_base *base;                 /* which those are, where it matters (base.h) */
    struct vtrain_encoders *encoders;         /* the model's, beside the dataset's; rank 0's */
    vt_ctx *g;
    vt_params *params;
    void *model;
    vtrain_scheduler scheduler;               /* how the model was trained */
    vtrain_objective *objective;
    vt_adamw_state adam;
    vt_tensor **ema;
    struct vtrain_dist *dist;                 /* gradients over the ranks */
    struct vtrain_zero *zero;                 /* adam and ema, split over ranks; NULL: whole, in
                                               * the two above */
    vtrain_loader *loader;
    vtrain_metrics *metrics;
    vtrain_plan plan;
    int64_t base_bytes;                       /* private memory before model and loader */
    int64_t peak_bytes;                       /* largest seen */

    int64_t step;                             /* done */
    uint64_t micro;                           /* micro-batches done by all ranks: the next one's
                                               * number */
    uint64_t rows, dropped;                   /* captions seen by all ranks, and replaced by the empty prompt */
    bool told_conditions;                     /* what validation samples lack has been said */
    char *settings;                           /* YAML */
    char *about_model, *about_data;           /* what the plan said of them */
    int lock;                                 /* of the output folder */
    struct { double wait, forward, backward, update, save, sample; } time;     /* seconds */
    struct vtrain_targets *targets;           /* of the LoRA, or NULL */
    struct vtrain_trace *trace;               /* NULL: off */
} vtrain;

/* run.c. Trains to the end. 0; VC_ESTOP after a signal, everything resumable; else what went
 * wrong. A dry run prints its plan to out; any other sends it to ui. Collective over comm: all
 * ranks return the same. Rank 0 alone writes and speaks (but for traces and validation samples). */
int vtrain_run(const vtrain_config *c, vc_flags *set, vc_comm *comm, FILE *out,
               vc_progress *ui, const atomic_int *stop, vc_err *err);
/* Folder of the model's transformer that is trained. */
const char *vtrain_transformer_name(const vtrain *t);
/* Whether this rank writes what the run leaves; micro-batches of a step, over all ranks. */
bool vtrain_leads(const vtrain *t);
int64_t vtrain_micros(const vtrain *t);
/* After the last micro-batch to be traced. */
void vtrain_end_trace(vtrain *t);
/* Whether model and data fit each other; of data that were just opened. */
int vtrain_fit_data(vtrain *t, vc_err *err);
/* A loader for this rank's micro-batches from `own` on to the run's end; while it follows, to the end
 * of the epoch. */
int vtrain_start_loader(vtrain *t, uint64_t own, vc_err *err);

/* follow.c. Opens the samples that the run begins or goes on with; with --follow waits until there
 * are enough for a batch (VC_ESTOP: asked to stop meanwhile). */
int vtrain_samples_open(vtrain *t, vc_err *err);
/* Before the first step, and again after each change: finds t->epoch_end from a micro-batch of the
 * current epoch. Before each step, collective: looks for more if an epoch ends in it. */
int vtrain_samples_begin(vtrain *t, uint64_t micro, vc_err *err);
int vtrain_samples_look(vtrain *t, vc_err *err);
/* Where an epoch ended before micro-batch `micro`, what was found joins, and a new loader begins with
 * `own`, this rank's next one. Done before a step's checkpoint too, which so tells what comes next also
 * where it lies between two epochs. */
int vtrain_samples_upto(vtrain *t, uint64_t micro, uint64_t own, vc_err *err);
/* The span of the steps done, and how many epochs they are; a fraction. */
const vtrain_span *vtrain_span_now(const vtrain *t);
double vtrain_epoch(const vtrain *t);

/* plan.c: how many steps; then, with model and loader open, memory and work, and tells it all. */
int vtrain_plan_steps(vtrain *t, vc_err *err);
int vtrain_plan_memory(vtrain *t, vc_err *err);
/* The same if samples have joined since, between two steps: dry ones take the gradients for
 * written. Tells nothing. */
int vtrain_plan_again(vtrain *t, vc_err *err);
/* The plan's lines about a part, malloc'ed; NULL when out of memory. */
typedef enum { VTRAIN_TEXT_MODEL, VTRAIN_TEXT_DATA } vtrain_plan_part;
char *vtrain_plan_text(const vtrain *t, vtrain_plan_part part);

/* memory.c: dry steps of every group fill the plan in but for steps and batches. The blocks that
 * are kept are the last ones: their memory is back before backward reaches the others. */
int vtrain_memory_plan(vtrain *t, vc_err *err);
/* After it: brings the weights that are on the host to the device, but for those of --blocks_to_swap or,
 * with --low_vram, of the fewest blocks. */
int vtrain_memory_place(vtrain *t, vc_err *err);
/* VC_ENOMEM if the plan is above --memory_limit; above what is free it is a warning. */
int vtrain_memory_check(const vtrain *t, vc_err *err);
/* Puts the group's bucket in front of an error of its step and, where memory ran out, the flags
 * that would need less behind it; returns rc. */
int vtrain_memory_remedy(const vtrain *t, uint32_t group, int rc, vc_err *err);
/* Private (unshared) memory of the process now, in bytes. */
int64_t vtrain_private_bytes(void);

/* loop.c: the steps from t->step on. */
int vtrain_loop(vtrain *t, vc_err *err);

/* step.c */
typedef struct vtrain_micro {
    const vtrain_batch *batch;
    uint64_t seed;                            /* of noise and times */
    double level;                             /* quantile of all rows' levels; below 0: drawn */
    uint64_t number;                          /* of the draws: the micro-batch's in the run */
    int place;                                /* in its step, from 0: names the trace */
    float loss;                               /* out */
} vtrain_micro;
/* Blocks of a batch that backward runs again. Samples that joined within the step are not planned
 * for yet: then as many as may be. */
int vtrain_recomputed(const vtrain *t, uint32_t group);
/* Forward and, if `record`, backward of one micro-batch; gradients add up. Writes the trace while
 * there is one, but for the last of a step's: vtrain_trace_step does when gradients are whole. */
int vtrain_micro_run(vtrain *t, vtrain_micro *m, bool record, vc_err *err);
int vtrain_trace_step(vtrain *t, vc_err *err);
/* The same without data, for latents dim [B,C,f,h,w] and texts of full length, with the first
 * `recompute` blocks run again in backward. */
int vtrain_micro_dry(vtrain *t, const int64_t dim[5], bool record, int recompute, vt_usage *use,
                     vc_err *err);
/* The prediction for noisy latents, outside of training; all is on the host. */
typedef struct vtrain_question {
    const int64_t *dim;                       /* [B,C,f,h,w] */
    const float *x;                           /* of these sizes */
    const vtrain_level *level;                /* of all rows */
    bool clean_first;                         /* the first frame has no noise: its tokens have
                                               * timestep 0 */
    double guidance, fps;                     /* of all rows, as vtrain_in's */
    const vtrain_text *text;                  /* of each slot of the data */
    unsigned roles;                           /* bits of what is there in cond */
    float *const *cond;                       /* [VC_ROLES] as vtrain_in's */
} vtrain_question;
int vtrain_predict(vtrain *t, const vtrain_question *q, float *out, vc_err *err);
/* Mean loss over the held-out samples, at fixed noise and times. Collective: each rank takes its
 * batches. */
int vtrain_eval(vtrain *t, double *loss, vc_err *err);

/* save.c: a checkpoint of t->step; and back. */
int vtrain_save(vtrain *t, vc_err *err);
/* Before the first step: warns where there is no room for a checkpoint. */
void vtrain_save_foresee(vtrain *t);
/* Finds what resume_from_checkpoint names and reads its trainer.json: t->from and its spans. */
int vtrain_resume_find(vtrain *t, vc_err *err);
/* Loads the rest of it; sets t->step. Call when all is open but loader and metrics. */
int vtrain_resume(vtrain *t, vc_err *err);

#endif
