/* predict.h - a prediction outside of training: for a sampler. */
#ifndef TRAIN_STEPS_PREDICT_H
#define TRAIN_STEPS_PREDICT_H

#include "train/steps/noised.h"

/* Inputs of a prediction, all on the host. */
typedef struct vtrain_question {
    void *model;                              /* of the run's family; NULL: the run's */
    const int64_t *dim;                       /* [B,C,f,h,w] */
    const float *x;                           /* noisy latents of sizes dim */
    const vtrain_level *level;                /* of all rows */
    bool clean_first;                         /* the first frame has no noise: its tokens have
                                               * timestep 0 */
    uint64_t skip;                            /* as vtrain_in's */
    const vtrain_paced *paced;                /* the frames' own times; NULL: they have the rows' */
    double guidance, fps;                     /* of all rows, as vtrain_in's */
    int32_t control_kind;                     /* likewise */
    const vtrain_text *text;                  /* of each slot of the data */
    const vtrain_text *prompt;                /* of each slot, one row: what a ControlNet of copied
                                               * blocks reads for all rows, as in diffusers'
                                               * pipelines; NULL: it reads each row's text */
    unsigned roles;                           /* bits of the roles that cond has */
    float *const *cond;                       /* [VC_ROLES] as vtrain_in's */
    const vtrain_own *own;                    /* sizes of the references among them */
    const int64_t *sound_dim;                 /* [B,C,L,1,bins] of models with sound; else NULL */
    const float *sound;                       /* noisy, of sizes sound_dim */
    const int32_t *sound_length;              /* as vtrain_in's */
    float *sound_out;                         /* gets the prediction */
} vtrain_question;
/* Writes the model's prediction for q to out, of sizes q->dim. */
int vtrain_predict(vtrain *t, const vtrain_question *q, float *out, vc_err *err);

#endif
