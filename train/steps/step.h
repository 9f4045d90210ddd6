/* step.h - runs a micro-batch: levels, noise, forward, loss and backward; the held-out loss. */
#ifndef TRAIN_STEPS_STEP_H
#define TRAIN_STEPS_STEP_H

#include "train/vtrain.h"

/* A micro-batch, of this rank. */
typedef struct vtrain_micro {
    const vtrain_batch *batch;
    uint64_t seed;                            /* of noise and times */
    double level;                             /* quantile of all rows' levels; below 0: drawn */
    uint64_t number;                          /* of the micro-batch in the run, for its draws */
    int place;                                /* in its step, from 0: names the trace's file */
    float loss;                               /* out */
    /* Out, of a recorded one: the losses of its rows by the quarter that their noise is in. */
    vtrain_part_loss of_level[VTRAIN_NOISE_LEVELS];
    bool low;                                 /* out: it went to the second of two transformers */
    /* Out, of a recorded one: the losses of its rows whose dataset is learned, and of the
     * others. */
    vtrain_part_loss of_kind[VTRAIN_KINDS_OF_LOSS];
} vtrain_micro;
/* The frames of a sample whose frames have levels of their own, in one forward: the timestep of
 * each frame of tokens, [f / mult[0]], which all rows have, and vtrain_in.causal. */
typedef struct vtrain_paced { const float *time; int causal; } vtrain_paced;

/* The blocks that backward recomputes for a batch of the group. For samples that joined within the
 * step, and have no plan yet, all blocks are unless --gradient_checkpointing is none. */
vtrain_recompute vtrain_recomputed(const vtrain *t, uint32_t group);
/* Of a batch whose target is the base's prediction: predicts without the LoRA and without a
 * backward, at the levels and noise that vtrain_micro_run will draw, and writes the prediction to
 * m->batch->target. Other batches need no target. Called before the step's exchange begins
 * (vtrain_dist_begin), since ranks differ in it. */
int vtrain_micro_target(vtrain *t, const vtrain_micro *m, vc_err *err);
/* Forward and, if `record`, backward of one micro-batch; gradients add up. With a trace, writes the
 * micro-batch's file, except the step's last: vtrain_trace_step writes that file when the gradients
 * are whole. */
int vtrain_micro_run(vtrain *t, vtrain_micro *m, bool record, vc_err *err);
/* Runs a micro-batch dry, without data, for latents dim [B,C,f,h,w] and the longest texts, with
 * these blocks recomputed in backward. own: the sizes of the reference pictures. paced: of a sample
 * whose frames have levels of their own; NULL: levels are those of training. */
int vtrain_micro_dry(vtrain *t, const int64_t dim[5], const vtrain_own *own, bool record,
                     vtrain_recompute recompute, const vtrain_paced *paced, vt_usage *use,
                     vc_err *err);
/* Mean loss over the held-out samples, at fixed noise and VTRAIN_NOISE_LEVELS fixed levels, into
 * r->eval_loss, and that of each level into r->eval_level. Collective: each rank takes its
 * batches. */
int vtrain_eval(vtrain *t, vtrain_record *r, vc_err *err);

#endif
