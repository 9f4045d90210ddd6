/* vtrain.h - a training run: its settings, its state, and the functions of its parts.
 *
 *     vtrain/     main.c reads the flags, prints the error, picks the exit status; run.c opens all
 *                 parts in order and closes them; loop.c runs the steps: accumulate, clip, log,
 *                 save, evaluate, sample, stop; save.c and resume.c write a checkpoint and read it;
 *                 summary.h reports a run, status.c prints where a run is (--status)
 *     sampling/   makes validation samples (sample.h), and reports how far these are (watching.h)
 *     plan/       predicts steps, memory and work, and prints the plan
 *     steps/      run a micro-batch: levels, noise, forward, loss, backward (step.c, noised.h);
 *                 gather the record of a step (notes.h), write its tensors (trace.h), measure the
 *                 time between steps (pauses.h), train both of two transformers (both.h)
 *     setup/      loads the model, chooses what is trained (load.c, trained.c, experts.h); compares
 *                 weights with those of the checkpoint and of the datasets (base.h, encoders.h)
 *     settings/   check the flags, take those of other trainers, give the family's defaults
 *     samples/    choose the samples of each epoch, fit them to the model, divide those of a step
 *     optim/      rates and their schedules (rate.h, groups.h), the average of the weights
 *     vtrain.c    answers for the run's ranks and parts
 *
 *     models/     transformers (dit.h), their files (weights.h), LoRA
 *     diffusion/  objectives, the model's schedule, samplers
 *     data/       datasets (data.h) to batches (loader.h)
 *     parallel/   gradients (dist.h) and state (zero.h) over several ranks (docs/cluster.md)
 *     output/     checkpoints (ckpt.h), metrics.h, report.h
 *
 * A room includes headers of the rooms below it alone. One thread runs the steps; the loader has
 * threads of its own, kernels use several. */
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
#include "train/output/ckpt.h"
#include "train/output/metrics.h"

typedef enum { VTRAIN_LORA, VTRAIN_FULL } vtrain_type;
typedef enum { VTRAIN_REMAT_BLOCK, VTRAIN_REMAT_AUTO, VTRAIN_REMAT_NONE } vtrain_remat;
typedef enum { VTRAIN_DDP, VTRAIN_ZERO2, VTRAIN_FSDP } vtrain_parallel;
typedef enum { VTRAIN_PRECISION_NO, VTRAIN_PRECISION_BF16 } vtrain_precision;
typedef enum {
    VTRAIN_SIDE_FULL, VTRAIN_SIDE_HIGH, VTRAIN_SIDE_LOW, VTRAIN_SIDE_BOTH
} vtrain_side;
enum { VTRAIN_HALVES = 2 };                   /* transformers of a model with two: that for high
                                               * noise, that for low noise */
typedef enum {
    VTRAIN_POSTERIOR_AUTO, VTRAIN_POSTERIOR_SAMPLE, VTRAIN_POSTERIOR_MEAN
} vtrain_posterior;

/* The choices of --timestep_sampling. */
typedef enum {
    VTRAIN_SAMPLING_AUTO, VTRAIN_SAMPLING_SIGMA, VTRAIN_SAMPLING_UNIFORM, VTRAIN_SAMPLING_SIGMOID,
    VTRAIN_SAMPLING_SHIFT, VTRAIN_SAMPLING_LOGSNR, VTRAIN_SAMPLING_FLUX_SHIFT,
    VTRAIN_SAMPLING_QWEN_SHIFT
} vtrain_sampling;

/* The flags, one field each, in the order of --help. A field is zero or NULL where the default is
 * the family's: vtrain_resolve fills such fields in, so the settings written are those used. */
typedef struct vtrain_config {
    /* data */
    vc_list latents;
    int64_t dataset_repeat;
    double eval_split, caption_dropout_p, image_dropout_p, mask_all_dropout_p, control_dropout_p;
    int posterior;                            /* vtrain_posterior */
    double scale_factor;                      /* of latents; 0: the VAE's */
    bool follow, allow_mismatch, verify_data;
    char *extra_inputs;

    /* model */
    char *model, *transformer, *transformer_high, *scheduler;
    int task;                                 /* index into auto|...|t2v-A14B|i2v-A14B */
    char *model_paths, *model_id_with_origin_paths;   /* DiffSynth-Studio's names of the model */
    char *init_state_dir;
    int boundary_type;                        /* vtrain_side */
    double timestep_boundary, max_timestep_boundary, min_timestep_boundary;
    int ssm_layer;                            /* index into none|ttt_linear|ttt_mlp */
    int64_t mini_batch_size, scan_checkpoint_group_size;      /* 0: the model's */
    double ttt_base_lr;                       /* 0: the model's */
    bool ttt_eta_compat;
    vc_dtype transformer_dtype;               /* frozen weights in memory; NONE: as in the file */
    char *fp8_models;
    int64_t dit_width, dit_layers, dit_heads, dit_patch;
    bool dit_guidance_embeds;

    /* trained parameters */
    int training_type;                        /* vtrain_type */
    char *trainable_models, *trainable_modules;
    int adapter_method;                       /* index into sft|qkvo|none */
    int64_t rank;
    double network_alpha;
    double lora_dropout, network_dropout, rank_dropout, module_dropout;
    char *target_name, *lora_checkpoint, *preset_lora_path;
    bool bake_scale, export_kohya, export_comfyui, export_pipeline;

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
    bool uniform_sampling, motion_sub_loss;
    double motion_sub_loss_ratio, first_frame_conditioning_p, embedded_guidance;

    /* optimiser */
    int64_t max_train_steps, num_train_epochs, train_batch_size, gradient_accumulation_steps;
    int64_t global_batch_size;
    double learning_rate;
    int optimizer;                            /* vt_adamw_kind */
    bool use_8bit_adam;
    int lr_scheduler;                         /* vtrain_schedule */
    double lr_warmup_steps;                   /* below 1: a share of the run's steps */
    double lr_warmup_ratio;                   /* the same share; 0 as vtrain_check leaves it */
    int64_t lr_warmup_from, lr_num_cycles;
    double lr_end;
    vc_list param_groups, network_args;
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
    int kernels;                              /* index into auto|plain|avx2|avx512|avx512_bf16|amx */
    int mixed_precision;                      /* vtrain_precision */
    int gradient_checkpointing;               /* vtrain_remat */
    int64_t memory_limit;                     /* bytes; 0: all free memory */
    int64_t blocks_to_swap;
    bool low_vram;
    bool gradient_checkpointing_offload;
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
    int validation_sampler;                   /* 0: auto, else 1 + vtrain_sampler */
    int like;                                 /* index into VC_LIKE_ALLOWED */
    int report_to;                            /* index into tensorboard|none */
    char *trace_dir;
    int64_t trace_steps;
    char *status;
    bool dry_run, quiet;
    int log_format;                           /* vc_log_format */
} vtrain_config;

extern const vc_program vtrain_program;       /* options.c: the table of the flags above */

/* Checks values and pairs of flags after vc_flags_parse, and adds each contradiction to the errors
 * of set. Returns 0, or VC_EUSAGE with the first error in err. */
int vtrain_check(vtrain_config *c, vc_flags *set, vc_err *err);
/* Takes the settings of accelerate's and DeepSpeed's flags and files (launcher.c) for flags that
 * were not given. A bad entry of a file is added to the errors of set. */
int vtrain_take_launcher(vtrain_config *c, vc_flags *set, vc_err *err);
/* Fills in dp_degree and dp_shards; VC_EUSAGE if their product is not the number of ranks, sp does
 * not divide it, or the run expects another number (--num_processes). */
int vtrain_check_ranks(vtrain_config *c, int ranks, vc_err *err);
/* Fills settings that were not given (rate, targets, ...) from the family and the model's
 * scheduler. mode: the data's --train_mode. */
int vtrain_resolve(vtrain_config *c, vc_flags *set, const vtrain_family *f,
                   const vtrain_scheduler *s, vc_mode mode, vc_err *err);

/* Sets those of the settings above on which --like depends too to the defaults of the family, for
 * the training type, the objective and the rank of d. */
void vtrain_defaults(vtrain_config *d, const vtrain_family *f, const vtrain_scheduler *s);

struct vtrain;
/* like.c. Takes the defaults of the trainer that --like names for flags that were not given: those
 * of every family, and, when t's model is known and before vtrain_resolve, those of its family,
 * with a note of all that differ from ours. */
int vtrain_take_like(vtrain_config *c, vc_flags *set, vc_err *err);
int vtrain_take_like_family(struct vtrain *t, vc_flags *set, vc_err *err);
/* Notes which defaults of the trainer whose flags were typed differ from the settings c (like.h).
 * t: the run, after vtrain_resolve, or NULL, where its model is not known. */
int vtrain_hint_like(const vtrain_config *c, const struct vtrain *t, vc_flags *set, vc_err *err);

/* shorthand.c. Replaces flags that stand for others (--job_name, --init_state_dir, --lr_ssm) by
 * those, and adds contradictions to the errors of set; a second call changes nothing. --model
 * builtin becomes a model of NULL: only vc_flags_given tells that the model was asked for. */
int vtrain_take_shorthand(vtrain_config *c, vc_flags *set, vc_err *err);
/* levels.c. Takes the levels that --timestep_sampling and other trainers' flags name, and their
 * losses, and adds contradictions to the errors of set. */
int vtrain_take_levels(vtrain_config *c, vc_flags *set, vc_err *err);
void vtrain_take_loss(vtrain_config *c, vc_flags *set);
/* The line of mu over tokens that a --timestep_sampling names; NULL: it names none. */
const vtrain_by_tokens *vtrain_by_tokens_of(int sampling);
/* ranges.c. Takes the range of noise levels, of which there may be one, from the flags that name
 * it, and adds contradictions to the errors of set. */
void vtrain_take_ranges(vtrain_config *c, vc_flags *set);
/* network_args.c. Takes --network_dim, and the settings KEY=VALUE of --network_args as the flags
 * that they stand for, and adds those that nothing here does to the errors of set. */
int vtrain_take_network_args(vtrain_config *c, vc_flags *set, vc_err *err);

/* The plan of a run: its length, and its memory and work as dry steps measured them. */
typedef struct vtrain_plan {
    uint64_t epoch_batches;                   /* micro-batches in a whole epoch of the last span */
    uint64_t rest_batches;                    /* and in the rest of an epoch that it began with */
    int spans;                                /* number of spans when the plan was made */
    int64_t steps;                            /* of the whole run */
    int64_t predicted;                        /* bytes of private memory at the peak */
    uint32_t largest;                         /* group of the peak */
    size_t pool;                              /* bytes of the peak: step's tensors, scratch */
    size_t offloaded;                         /* bytes of blocks' inputs in host memory */
    double flops;                             /* of a step, mean over the epoch's groups */
    double sample_flops;                      /* of the samples of all validation prompts */
    double *group_flops;                      /* [groups] of a micro-batch */
    int64_t standing;                         /* bytes of predicted: weights, optimiser, loader */
    int64_t kernels;                          /* bytes of predicted: compiled kernels and their
                                               * descriptions, which the first dry steps make */
    int blocks;                               /* of the transformer */
    int swapped;                              /* blocks whose weights stay on the host */
    int *recompute;                           /* [groups] number of first blocks that backward
                                               * recomputes; NULL: no block is recomputed */
} vtrain_plan;

typedef struct vtrain {
    vtrain_config cfg;
    vc_comm *comm;                            /* the ranks */
    vc_progress *ui;                          /* rank 0's; NULL on others */
    const atomic_int *stop;                   /* a signal's number, or 0 */
    FILE *out;                                /* rank 0's stream for a dry run's plan */

    vtrain_data *data;
    vtrain_span *span;                        /* epochs by their samples; data has the last one's */
    int n_spans;
    uint8_t *done;                            /* [visits] 1: made in the last span's first epoch by
                                               * the spans before; NULL: none is */
    bool following;                           /* more samples may join at the end of an epoch */
    uint64_t epoch_end;                       /* while following: the first micro-batch of the next
                                               * epoch; else UINT64_MAX */
    int *shards;                              /* [datasets] closed shards at the last poll */
    bool complete;                            /* all datasets were finished at the last poll */
    vtrain_state from;                        /* the checkpoint resumed from, or all zero */
    char *from_dir;                           /* folder of that checkpoint, or NULL */
    int64_t newest;                           /* step of the folder's newest checkpoint when the
                                               * run began; -1: there was none */
    const vtrain_family *family;
    const vc_pipeline *pipeline;              /* which samples follow; NULL: the family has none */
    cJSON *model_config;                      /* the transformer's config.json */
    struct vtrain_weights *weights;           /* files of the initial weights (frozen parameters
                                               * borrow from them); NULL: noise */
    bool guidance;                            /* the model takes guidance as an input */
    bool own_guidance;                        /* --guidance_scale was given */
    double boundary;                          /* level between two transformers; 0: one only */
    const char *half[VTRAIN_HALVES];          /* file or folder of each of two; NULL: of --model */
    void *both[VTRAIN_HALVES];                /* the transformers, where two are trained, of which
                                               * `model` is the one in use */
    struct vtrain_weights *low_weights;       /* of the second of these */
    int64_t updates[VTRAIN_HALVES];           /* steps that changed each of these */
    struct vtrain_base *base;                 /* hashes of the initial weights (base.h), or NULL */
    cJSON *sources;                           /* vtrain_state.sources of this run */
    struct vtrain_encoders *encoders;         /* rank 0's comparison of encoders, or NULL */
    vt_ctx *g;
    vt_params *params;
    double loaded;                            /* bytes of weights copied or converted so far */
    void *model;
    vtrain_scheduler scheduler;               /* noise schedule that the model was trained with */
    vtrain_objective *objective;
    struct vtrain_groups *groups;             /* learning rates of the parameters */
    vt_adamw_state adam;
    vt_tensor **ema;
    bool averaged;                            /* the average is in the weights' place */
    int64_t average_from;                     /* steps done when the average began */
    struct vtrain_sequence *sequence;         /* the ranks that share a sample; NULL: each rank has
                                               * samples of its own */
    struct vtrain_dist *dist;                 /* gradients over the ranks */
    struct vtrain_zero *zero;                 /* adam and ema split over ranks; NULL: each rank has
                                               * both whole */
    vtrain_loader *loader;
    vtrain_metrics *metrics;
    vtrain_plan plan;
    int64_t base_bytes;                       /* private memory before model and loader */
    int64_t peak_bytes;                       /* largest private memory seen */

    int64_t step;                             /* steps done */
    uint64_t micro;                           /* micro-batches done by all ranks, which is the next
                                               * one's number */
    struct {
        uint64_t now, before;                 /* epoch of the next micro-batch, and of the last
                                               * step's first one */
        uint64_t end;                         /* first micro-batch of the epoch after `now` */
        int spans;                            /* number of spans when `end` was found; 0: never */
    } epoch;                                  /* 0 in a run that counts no epochs (epochs.c) */
    double eval_loss;                         /* after the last step; NaN: it was not computed */
    uint64_t rows, dropped;                   /* captions seen by all ranks, and those of them that
                                               * the empty prompt replaced */
    bool guidance_apart;                      /* samples compute guidance's two prompts in two
                                               * forwards, to need less memory */
    bool reported_conditions;                 /* inputs that samples lack have been reported */
    char *settings;                           /* YAML */
    char *about_model, *about_data;           /* the plan's lines, for report.html */
    int lock;                                 /* of the output folder */
    struct { double wait, forward, backward, update, save, sample; } time;     /* seconds */
    struct vtrain_targets *targets;           /* of the LoRA, or NULL */
    struct {                                  /* modules that have it, of all, and their blocks */
        int linears, of_linears, convs, of_convs, blocks, of_blocks;
        bool ranks, alphas;                   /* which differ from module to module, as in the file
                                               * of --lora_checkpoint; rank is then the largest */
    } lora;
    struct vtrain_lora *lora_file;            /* --lora_checkpoint while a run is opened, or NULL */
    char *lora_targets;                       /* target_name of its modules, or NULL */
    bool own_rank, own_alpha;                 /* flags give them, and not the file */
    struct vtrain_trace *trace;               /* NULL: off */
} vtrain;

/* status.c. Prints where the run of the output folder dir is. VC_ENOENT: dir is no such folder. */
int vtrain_status(const char *dir, FILE *out, vc_err *err);
/* run.c. Trains to the end. Returns 0; VC_ESTOP after a signal, when the run can be resumed; or an
 * error. A dry run prints its plan to out; any other run reports it to ui. Collective over comm:
 * all ranks return the same. Rank 0 alone writes and prints, except traces and validation
 * samples. */
int vtrain_run(const vtrain_config *c, vc_flags *set, vc_comm *comm, FILE *out,
               vc_progress *ui, const atomic_int *stop, vc_err *err);
/* vtrain.c. Name of the trained transformer's folder in the model; of the first, if two are
 * trained. */
const char *vtrain_transformer_name(const vtrain *t);
/* True if both transformers of a model with two are trained. */
bool vtrain_both(const vtrain *t);
/* True on the rank that writes the run's files: rank 0. */
bool vtrain_leads(const vtrain *t);
/* Ranks with --sp share samples: the number of groups of ranks that have samples of their own, and
 * this rank's group. */
int vtrain_dp_groups(const vtrain *t);
int vtrain_dp_group(const vtrain *t);
/* Numbers of a step's parts over all ranks, of a micro-batch's parts, and of a step's micro-batches
 * (divide.c). */
int64_t vtrain_runs(const vtrain *t);
int64_t vtrain_parts(const vtrain *t);
int64_t vtrain_micros(const vtrain *t);
/* True if the run makes validation samples at all. */
bool vtrain_makes_samples(const vtrain_config *c);

/* spans.c. Adds a span, from origin on, of the samples of t->data, when `done` epochs are done. */
int vtrain_span_add(vtrain *t, vtrain_origin origin, double done, vc_err *err);
/* Adds a span that begins a new epoch at the checkpoint's micro-batch. */
int vtrain_span_next(vtrain *t, vc_err *err);
/* The span of the steps done. */
const vtrain_span *vtrain_span_now(const vtrain *t);
/* The number of epochs done, with a fraction. */
double vtrain_epoch(const vtrain *t);
/* The order of a span's samples, of which those marked in done (vtrain.done) are made already; and
 * the order that the run has now. */
vtrain_order_plan vtrain_order_of(const vtrain_span *s, const uint8_t *done);
vtrain_order_plan vtrain_order_now(const vtrain *t);
/* The epoch of micro-batch `micro`, and the first micro-batch of the epoch after it. */
int vtrain_epoch_at(const vtrain *t, uint64_t micro, uint64_t *epoch, uint64_t *end, vc_err *err);
/* Hashes the samples that an epoch visits. */
int vtrain_visits_hash(uint64_t *hash, const vtrain *t, uint64_t epoch, vc_err *err);

/* divide.c. A step's samples come in micro-batches, whose samples are chosen together, and these in
 * equal parts of --train_batch_size samples, of which each group of ranks runs
 * --gradient_accumulation_steps. */
/* Decides the micro-batches, once the settings are resolved: a resumed run keeps those of its
 * checkpoint where its steps have as many samples, and sets --train_batch_size and
 * --gradient_accumulation_steps so that they divide them. Where it cannot, the rest of the epoch
 * follows in another order, each sample once. */
int vtrain_divide(vtrain *t, vc_err *err);

/* follow.c. Opens a loader for this rank's parts from number `own` on (loader.h): to the end of the
 * run or, while it follows its datasets, of the epoch. */
int vtrain_start_loader(vtrain *t, uint64_t own, vc_err *err);

/* load.c. Opens the model and loads its weights, with their progress (VC_ESTOP: a signal came
 * meanwhile), and checks the data by vtrain_fit_data. */
int vtrain_load_model(vtrain *t, vc_err *err);
/* Refuses with VC_EUSAGE a run without --model that would train the built-in DiT on latents of
 * another family, unless it was asked for (--model builtin). Reads the opened data. */
int vtrain_check_fresh(const vtrain *t, bool asked, vc_err *err);

/* fit.c. Checks that the model and the data just opened fit each other. */
int vtrain_fit_data(vtrain *t, vc_err *err);

/* trained.c. Opens --lora_checkpoint; modules, ranks and alphas that no flag gives become the
 * file's, and one line says so. Call between vtrain_load_model and vtrain_select_trained. */
int vtrain_adopt_lora(vtrain *t, const vc_flags *set, vc_err *err);
/* Selects the parameters that the run trains: a LoRA's factors, or the weights that
 * --trainable_modules names. */
int vtrain_select_trained(vtrain *t, vc_err *err);

/* follow.c. Opens the samples that the run begins or resumes with; with --follow waits until there
 * are enough for a batch (VC_ESTOP: a signal came meanwhile). */
int vtrain_samples_open(vtrain *t, vc_err *err);
/* Finds t->epoch_end from a micro-batch of the current epoch. The run calls this before its first
 * step, and again after each change of samples. */
int vtrain_samples_begin(vtrain *t, uint64_t micro, vc_err *err);
/* Before each step, collective: polls the datasets for new shards if an epoch ends in the step. */
int vtrain_samples_look(vtrain *t, vc_err *err);
/* Where an epoch ended before micro-batch `micro`, adds the new samples, and opens a new loader
 * that begins with `own`, the number of this rank's next part. A step calls this before its
 * checkpoint, so that a checkpoint between two epochs records the samples of the second. */
int vtrain_samples_upto(vtrain *t, uint64_t micro, uint64_t own, vc_err *err);
/* average.c. The decay of the average at the step that is being taken. */
double vtrain_decay(const vtrain *t);
/* With --use_ema, _in puts the average in the weights' place, and _out puts them back, also after
 * _in failed. Collective; the weights are whole. */
int vtrain_average_in(vtrain *t, vc_err *err);
void vtrain_average_out(vtrain *t);

/* times.c. Checks the flags that need held-out samples (diffusion-pipe's have no effect without
 * them, as there), and fills in how often the run saves and computes eval_loss: as often as it
 * saves. */
void vtrain_check_times(vtrain_config *c, vc_flags *set);
void vtrain_resolve_times(vtrain_config *c, vc_flags *set);

/* epochs.c. A step ends an epoch if the step's micro-batches hold the last ones of the epoch. The
 * position is a function of the order of samples alone, so that a run divided or resumed otherwise
 * has its checkpoints after the same samples. */
/* Finds the position where the run begins or resumes. Collective calls are not made. */
int vtrain_epochs_begin(vtrain *t, vc_err *err);
/* Moves the position, after each step that was taken. */
int vtrain_epochs_move(vtrain *t, vc_err *err);
/* True if a checkpoint, the held-out loss, or validation samples are due after the last step. */
bool vtrain_save_due(const vtrain *t);
bool vtrain_eval_due(const vtrain *t);
bool vtrain_samples_due(const vtrain *t);

/* plan.c. vtrain_plan_steps counts the steps. vtrain_plan_memory, with model and loader open,
 * predicts memory and work, and prints the plan. */
int vtrain_plan_steps(vtrain *t, vc_err *err);
int vtrain_plan_memory(vtrain *t, vc_err *err);
/* Makes the plan anew, between two steps, if samples have joined since, and prints nothing. Its dry
 * steps treat the gradients as already written. */
int vtrain_plan_again(vtrain *t, vc_err *err);
/* The plan's lines about a part, malloc'ed; NULL when out of memory. */
typedef enum { VTRAIN_TEXT_MODEL, VTRAIN_TEXT_DATA } vtrain_plan_part;
char *vtrain_plan_text(const vtrain *t, vtrain_plan_part part);

/* memory.c. Fills in the plan, except steps and batches, by a dry step of every group. The blocks
 * that are not recomputed are the last ones: backward frees their memory before it reaches the
 * others. */
int vtrain_memory_plan(vtrain *t, vc_err *err);
/* After vtrain_memory_plan: copies the weights that are on the host to the device, except those of
 * --blocks_to_swap or, with --low_vram, of the fewest blocks. */
int vtrain_memory_place(vtrain *t, vc_err *err);
/* Returns true if a step of that usage fits into the memory that the run has. */
bool vtrain_memory_holds(const vtrain *t, const vt_usage *use);
/* VC_ENOMEM if the plan is above --memory_limit; a plan above the free memory is a warning. */
int vtrain_memory_check(const vtrain *t, vc_err *err);
/* Adds to an error of a step the group's bucket and, where memory ran out, the flags that would
 * need less; returns rc. */
int vtrain_memory_remedy(const vtrain *t, uint32_t group, int rc, vc_err *err);
/* Private (unshared) memory of the process now, in bytes. */
int64_t vtrain_private_bytes(void);

/* loop.c. Runs the steps from t->step on. */
int vtrain_loop(vtrain *t, vc_err *err);

/* step.c */
typedef struct vtrain_micro {
    const vtrain_batch *batch;
    uint64_t seed;                            /* of noise and times */
    double level;                             /* quantile of all rows' levels; below 0: drawn */
    uint64_t number;                          /* of the micro-batch in the run, for its draws */
    int place;                                /* in its step, from 0: names the trace's file */
    float loss;                               /* out */
    bool low;                                 /* out: it went to the second of two transformers */
} vtrain_micro;
/* Number of blocks that backward recomputes for a batch of the group. For samples that joined
 * within the step, and have no plan yet, all blocks are unless --gradient_checkpointing is none. */
int vtrain_recomputed(const vtrain *t, uint32_t group);
/* Forward and, if `record`, backward of one micro-batch; gradients add up. With a trace, writes the
 * micro-batch's file, except the step's last: vtrain_trace_step writes that file when the gradients
 * are whole. */
int vtrain_micro_run(vtrain *t, vtrain_micro *m, bool record, vc_err *err);
int vtrain_trace_step(vtrain *t, vc_err *err);
/* Runs a micro-batch dry, without data, for latents dim [B,C,f,h,w] and texts of full length, with
 * the first `recompute` blocks recomputed in backward. */
int vtrain_micro_dry(vtrain *t, const int64_t dim[5], bool record, int recompute, vt_usage *use,
                     vc_err *err);
/* Inputs of a prediction outside of training, all on the host. */
typedef struct vtrain_question {
    const int64_t *dim;                       /* [B,C,f,h,w] */
    const float *x;                           /* noisy latents of sizes dim */
    const vtrain_level *level;                /* of all rows */
    bool clean_first;                         /* the first frame has no noise: its tokens have
                                               * timestep 0 */
    double guidance, fps;                     /* of all rows, as vtrain_in's */
    const vtrain_text *text;                  /* of each slot of the data */
    unsigned roles;                           /* bits of the roles that cond has */
    float *const *cond;                       /* [VC_ROLES] as vtrain_in's */
} vtrain_question;
/* Writes the model's prediction for q to out, of sizes q->dim. */
int vtrain_predict(vtrain *t, const vtrain_question *q, float *out, vc_err *err);
enum { VTRAIN_EVAL_LEVELS = 4 };              /* quantiles 1/8, 3/8, 5/8, 7/8 of the density */
/* Mean loss over the held-out samples, at fixed noise and times. Collective: each rank takes its
 * batches. */
int vtrain_eval(vtrain *t, double *loss, vc_err *err);

/* save.c. Writes a checkpoint of t->step. */
int vtrain_save(vtrain *t, vc_err *err);
/* Lets the link to the best checkpoint lead there, which is reported if it changed. */
void vtrain_save_best(const vtrain *t);
/* Reads all values that a checkpoint would hold; an error if a mapped file cannot be read.
 * Collective. */
int vtrain_check_weights(const vtrain *t, vc_err *err);
/* Before the first step: warns where there is no room for a checkpoint, and says which weights it
 * will have. */
void vtrain_save_foresee(vtrain *t);
/* Fills in the content of trainer.json. The caller frees s->sets and s->settings; the other
 * strings are borrowed from t. */
int vtrain_state_of(const vtrain *t, vtrain_state *s, vc_err *err);
/* Calls f with each of the trained parameters' tensors that is whole on this rank, and with the
 * prefix of its name in the file. */
typedef int (*vtrain_state_fn)(void *arg, const char *prefix, const vt_param *p, vt_tensor *t,
                               vc_err *err);
int vtrain_each_state(vtrain *t, vtrain_state_fn f, void *arg, vc_err *err);

/* resume.c. Finds the checkpoint that --resume_from_checkpoint names and reads its trainer.json
 * into t->from and t->span: a checkpoint that is named is used or refused, "latest" is the newest
 * whole one. Collective. */
int vtrain_resume_find(vtrain *t, vc_err *err);
/* Loads the state of that checkpoint and sets t->step. Everything but loader and metrics is open by
 * then. */
int vtrain_resume(vtrain *t, vc_err *err);
/* Under the lock of the run's folder: VC_EBUSY if another run wrote a checkpoint there since
 * vtrain_resume_find. */
int vtrain_resume_check_again(const vtrain *t, vc_err *err);
/* Under that lock, before the first step: moves what the folder holds of an abandoned branch aside
 * (output/aside.h). */
int vtrain_resume_set_aside(const vtrain *t, vc_err *err);

#endif
