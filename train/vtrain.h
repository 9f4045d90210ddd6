/* vtrain.h - a training run. Read this first: it says which rooms there are, and what a run is.
 *
 *     vtrain/     the program: main.c reads the flags, prints the error, picks the exit status;
 *                 run.h opens all parts in order and closes them; loop.c runs the steps:
 *                 accumulate, clip, log, save, evaluate, sample, stop; save.h and resume.h write a
 *                 checkpoint and read it; summary.h reports a run
 *     sampling/   makes validation samples (sample.h), and reports how far these are (watching.h)
 *     plan/       predicts steps and work, and prints the plan (plan.h); predicts memory (memory.h)
 *     steps/      runs a micro-batch: levels, noise, forward, loss, backward (step.h, noised.h), or
 *                 the few steps of a distillation (distill.h);
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
 *     parallel/   gradients (dist.h) over several ranks, and the optimiser's state, whole
 *                 or split over them (state.h; docs/cluster.md)
 *     output/     checkpoints (ckpt.h), metrics.h, report.h
 *
 * A room includes this header and those of the rooms below it, and nothing from above
 * (tests/cli/arrows.sh); parts.h has the parts of the struct. One thread runs the steps; the loader
 * has threads of its own, kernels use several. */
#ifndef TRAIN_VTRAIN_H
#define TRAIN_VTRAIN_H

#include <stdatomic.h>
#include <stdio.h>

#include "common/comm/comm.h"
#include "common/os/progress.h"
#include "train/data/data.h"
#include "train/data/loader.h"
#include "train/diffusion/objective.h"
#include "train/parts.h"

typedef struct vtrain {
    vtrain_config cfg;                        /* the flags, with the family's defaults */
    vc_comm *comm;                            /* the ranks */
    vc_progress *ui;                          /* rank 0's; NULL on others */
    const atomic_int *stop;                   /* a signal's number, or 0 */
    FILE *out;                                /* rank 0's stream for a dry run's plan */
    vt_ctx *g;                                /* the engine, on this rank's device */

    vtrain_data *data;                        /* the datasets */
    vtrain_samples samples;                   /* their samples, by epochs */
    vtrain_loader *loader;                    /* batches of these samples */

    vtrain_resumed from;                      /* the checkpoint that the run goes on from */
    vtrain_model model;                       /* the transformer, or two */
    vt_params *params;                        /* its parameters */
    vtrain_adapters lora;                     /* those of a LoRA */
    vtrain_compared compared;                 /* with the checkpoint and the datasets */

    vtrain_objective *objective;              /* levels and targets */
    vtrain_distilled distill;                 /* the few steps that are trained instead */
    vtrain_optim optim;                       /* rates, the optimiser's state, the average */
    vtrain_ranks ranks;                       /* gradients and state over several ranks */

    vtrain_plan plan;
    vtrain_position at;                       /* steps done */
    vtrain_validation validation;             /* samples */
    vtrain_spent time;
    vtrain_measured memory;
    vtrain_output output;
} vtrain;

/* vtrain.c. Name of the trained transformer's folder in the model; of the first, if two are
 * trained. */
const char *vtrain_transformer_name(const vtrain *t);
/* True if --blockwise_controlnet or --controlnet is trained, alone or beside a LoRA. */
bool vtrain_trains_controlnet(const vtrain *t);
/* True if both transformers of a model with two are trained. */
bool vtrain_both(const vtrain *t);
/* What the run's transformer takes. */
vtrain_fit vtrain_fit_of(const vtrain *t);
/* True on the rank that writes the run's files: rank 0. */
bool vtrain_leads(const vtrain *t);
/* Ranks with --sp share samples: the number of groups of ranks that have samples of their own, and
 * this rank's group. */
int vtrain_dp_groups(const vtrain *t);
int vtrain_dp_group(const vtrain *t);
/* The fewest rows of a text in a batch: where ranks share a text, each has one. */
int64_t vtrain_least_rows(const vtrain *t);
/* True if all training batches of a bucket have texts of one length (loader.h): places in the
 * sequence, by which a LoRA drops values, do not depend on the other samples. */
bool vtrain_full_texts(const vtrain_config *c);
/* Numbers of a step's parts over all ranks, of a micro-batch's parts, and of a step's micro-batches
 * (divide.c). */
int64_t vtrain_runs(const vtrain *t);
int64_t vtrain_parts(const vtrain *t);
int64_t vtrain_micros(const vtrain *t);
/* True if the run makes validation samples at all. */
bool vtrain_makes_samples(const vtrain_config *c);

#endif
