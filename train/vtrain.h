/* vtrain.h - a training run. Read this first: it says which rooms there are, and what a run is.
 *
 *     vtrain/     the program: main.c reads the flags, prints the error, picks the exit status;
 *                 run.h opens all parts in order and closes them; loop.c runs the steps:
 *                 accumulate, clip, log, save, evaluate, sample, stop; save.h and resume.h write a
 *                 checkpoint and read it; summary.h reports a run
 *     sampling/   makes validation samples (sample.h), and reports how far these are (watching.h)
 *     plan/       predicts steps and work, and prints the plan (plan.h); predicts memory (memory.h)
 *     steps/      runs a micro-batch: levels, noise, forward, loss, backward (step.h, noised.h);
 *                 gathers the record of a step (notes.h), writes its tensors (trace.h), measures
 *                 the time between steps (pauses.h), trains both of two transformers (both.h)
 *     setup/      loads the model and chooses what is trained (load.h, experts.h, trained.h);
 *                 compares weights with those of the checkpoint and of the datasets (base.h,
 *                 encoders.h, sources.h) by hashes that beside.h computes in the background
 *     settings/   checks the flags, takes other trainers', gives the family's defaults (settings.h)
 *     samples/    chooses the samples of each epoch, fits them to the model, divides those of a
 *                 step (samples.h, spans.h)
 *     optim/      rates and their schedules (rate.h, groups.h), the average of the weights
 *                 (average.h)
 *
 *     models/     transformers (dit.h), their files (weights.h), LoRA
 *     diffusion/  objectives, the model's schedule, samplers
 *     data/       datasets (data.h) to batches (loader.h)
 *     parallel/   gradients (dist.h) and state (zero.h) over several ranks (docs/cluster.md)
 *     output/     checkpoints (ckpt.h), metrics.h, report.h
 *
 * A room includes this header and those of the rooms below it, and nothing from above
 * (tests/cli/arrows.sh). One thread runs the steps; the loader has threads of its own, kernels use
 * several. */
#ifndef TRAIN_VTRAIN_H
#define TRAIN_VTRAIN_H

#include <stdatomic.h>
#include <stdio.h>

#include "common/comm/comm.h"
#include "common/os/progress.h"
#include "common/tensor/weights.h"
#include "train/config.h"
#include "train/data/data.h"
#include "train/data/loader.h"
#include "train/diffusion/objective.h"
#include "train/diffusion/scheduler.h"
#include "train/models/dit.h"
#include "train/output/ckpt.h"
#include "train/output/metrics.h"

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

#endif
