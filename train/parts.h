/* parts.h - the parts of a run (vtrain.h), each with the folder that fills it in and changes it.
 * All zero is a part that is not open yet. run.c closes the parts, so they own what they point at
 * unless a comment says that they borrow it. */
#ifndef TRAIN_PARTS_H
#define TRAIN_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "common/families.h"
#include "common/tensor/optimizer.h"
#include "train/config.h"
#include "train/diffusion/scheduler.h"
#include "train/models/dit.h"
#include "train/output/ckpt.h"
#include "train/output/metrics.h"

/* samples/: which samples the run has, by its epochs. */
typedef struct vtrain_samples {
    vtrain_span *span;                        /* epochs by their samples; data has the last one's */
    int n_spans;
    uint8_t *done;                            /* [visits] 1: made in the last span's first epoch by
                                               * the spans before; NULL: none is */
    bool following;                           /* more samples may join at the end of an epoch */
    uint64_t epoch_end;                       /* while following: the first micro-batch of the next
                                               * epoch; else UINT64_MAX */
    int *shards;                              /* [datasets] closed shards at the last poll */
    bool complete;                            /* all datasets were finished at the last poll */
} vtrain_samples;

/* vtrain/resume.h: the checkpoint that the run goes on from. */
typedef struct vtrain_resumed {
    vtrain_state state;                       /* all zero where the run begins anew */
    char *dir;                                /* folder of the checkpoint, or NULL */
    int64_t newest;                           /* step of the folder's newest checkpoint when the
                                               * run began; -1: there was none */
} vtrain_resumed;

/* setup/unconditional.h: the transformer that predicts without a prompt, in samples. */
typedef struct vtrain_unconditional {
    struct vtrain_weights *weights;
    vt_params *params;
    void *dit;                                /* NULL: there is none */
} vtrain_unconditional;

/* setup/: the transformer, or two of them, and its files. */
typedef struct vtrain_model {
    const vtrain_family *family;
    const vc_pipeline *pipeline;              /* which samples follow; NULL: the family has none */
    bool begins_as_set;                       /* --first_frame_conditioning_p was given */
    const char *begins;                       /* the pipeline's class or the flag by which every
                                               * clip begins with a clean frame; NULL: none does */
    cJSON *config;                            /* the transformer's config.json */
    struct vtrain_weights *weights;           /* files of the initial weights (frozen parameters
                                               * borrow from them); NULL: noise */
    double loaded;                            /* bytes of weights copied or converted so far */
    vtrain_scheduler scheduler;               /* noise schedule that the model was trained with */
    bool guidance;                            /* the model takes guidance as an input */
    void *dit;                                /* the transformer, or the one in use of two */
    double boundary;                          /* level between two transformers; 0: one only */
    const char *half[VTRAIN_HALVES];          /* file or folder of each of two, borrowed from cfg;
                                               * NULL: of --model */
    void *both[VTRAIN_HALVES];                /* the transformers, where two are trained */
    struct vtrain_weights *low_weights;       /* of the second of these */
    vtrain_unconditional unconditional;
    struct vf_model *beside;                  /* vtrain_family.beside, or NULL */
    struct vtrain_controlnet *controlnet;     /* --blockwise_controlnet, --controlnet; or NULL */
    vf_key beside_files;                      /* vf_model_files of it */
} vtrain_model;

/* setup/trained.h: the LoRA that is trained. */
typedef struct vtrain_adapters {
    struct vtrain_targets *targets;           /* NULL: no LoRA is trained */
    int linears, of_linears, convs, of_convs, blocks, of_blocks;      /* modules that have it, of
                                                                       * all, and their blocks */
    bool ranks, alphas;                       /* which differ from module to module, as in the file
                                               * of --lora_checkpoint, or by patterns */
    int64_t most_rank;                        /* the largest of the modules */
    struct vtrain_patterns *patterns[2];      /* --rank_pattern and --alpha_pattern */
    struct vtrain_lora *file;                 /* --lora_checkpoint while a run is opened, or NULL */
    char *names;                              /* target_name of the file's modules, or NULL */
    bool own_rank, own_alpha;                 /* flags give them, and not the file */
} vtrain_adapters;

/* setup/: what is compared with the checkpoint and with the datasets. */
typedef struct vtrain_compared {
    struct vtrain_base *base;                 /* hashes of the initial weights (base.h), or NULL */
    cJSON *sources;                           /* vtrain_state.sources of this run */
    struct vtrain_encoders *encoders;         /* rank 0's comparison of encoders, or NULL */
} vtrain_compared;

/* steps/distill.h: the few steps of --task direct_distill. */
enum { VTRAIN_WALK = 64 };                    /* the most of them */
typedef struct vtrain_distilled {
    int steps;                                /* 0: micro-batches have levels of noise */
    int levels;                               /* number of --distill_sigmas */
    double level[VTRAIN_WALK];                /* those */
} vtrain_distilled;

/* optim/, and parallel/state.h: the optimiser's state on this rank. */
typedef struct vtrain_optim {
    struct vtrain_groups *groups;             /* learning rates of the parameters */
    struct vtrain_opt *state;                 /* the average with it */
    size_t host_grads;                        /* bytes of gradients in the host's memory */
    int64_t average_from;                     /* steps done when the average began */
    int64_t updates[VTRAIN_HALVES];           /* steps that changed each of two transformers */
} vtrain_optim;

/* parallel/: what the ranks share and split. */
typedef struct vtrain_ranks {
    struct vtrain_sequence *sequence;         /* the ranks that share a sample; NULL: each rank has
                                               * samples of its own */
    struct vtrain_dist *dist;                 /* gradients over the ranks */
} vtrain_ranks;

/* plan/: the length of the run, and its memory and work as dry steps measured them. */
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
    int64_t standing;                         /* bytes of predicted: weights, optimiser, loader, and
                                               * tables */
    int64_t tables;                           /* bytes of these: names and descriptions of tensors
                                               * in the model, its files and its LoRA, and the
                                               * device's context */
    int64_t kernels;                          /* bytes of predicted: compiled kernels and their
                                               * descriptions, which the first dry steps make */
    int blocks;                               /* of the transformer */
    int swapped;                              /* blocks whose weights stay on the host */
    vtrain_recompute *recompute;              /* [groups]; NULL: no block is recomputed */
} vtrain_plan;

/* vtrain/loop.c: the steps that are done. */
typedef struct vtrain_position {
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
} vtrain_position;

/* sampling/ */
typedef struct vtrain_validation {
    bool own_guidance;                        /* --guidance_scale was given */
    bool apart;                               /* samples compute guidance's two prompts in two
                                               * forwards, to need less memory */
    bool reported;                            /* inputs that samples lack have been reported */
} vtrain_validation;

/* What the run uses: seconds, and bytes of private memory. */
typedef struct vtrain_spent {
    double wait, forward, backward, update, save, sample;
} vtrain_spent;
typedef struct vtrain_measured {
    int64_t base;                             /* before model and loader */
    int64_t heap;                             /* vc_heap_used then */
    int64_t peak;                             /* the largest seen */
} vtrain_measured;

/* The run's folder, and what is written beside its checkpoints. */
typedef struct vtrain_output {
    int lock;                                 /* of the folder; -1: not taken */
    char *settings;                           /* YAML */
    char *about_model, *about_data;           /* the plan's lines, for report.html */
    vtrain_metrics *metrics;
    struct vtrain_trace *trace;               /* NULL: off */
} vtrain_output;

#endif
