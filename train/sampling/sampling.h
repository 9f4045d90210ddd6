/* sampling.h - one prompt being sampled: its sizes, memory and inputs. Internal to
 * train/sampling. */
#ifndef TRAIN_SAMPLING_SAMPLING_H
#define TRAIN_SAMPLING_SAMPLING_H

#include "train/sampling/heard.h"
#include "train/sampling/pace.h"
#include "train/sampling/watching.h"

typedef struct sampling {
    vtrain_prompt p;
    uint32_t number;             /* of the prompt */
    int prompts;                 /* 2 with classifier-free guidance, else 1 */
    bool unprompted;             /* the second one is no prompt: the unconditional transformer's */
    int64_t dim[5];              /* of one forward, which has a row for each prompt, or for one */
    int front, copies;           /* frames that are sampled, then dropped; those of them that
                                  * conditions have too, as copies of their first frame */
    int steps;                   /* the prompt's own, else the run's; so is guidance */
    double guidance;
    double input;                /* the guidance that the model gets, if it takes one */
    double scale;                /* of guidance by the negative prompt; 1 and below: none */
    uint64_t skipped;            /* bits of the blocks without which a guided step is predicted
                                  * once more; 0: it is not */
    size_t n;                    /* elements of a row */
    size_t tokens;               /* of the transformer */
    int patch[3];                /* frames, rows and columns of a token */
    double start;                /* what its first normals are multiplied by */
    float *x, *in, *out;         /* [n], [rows,n], [prompts,n], and [n] more with skipped */
    float *past, *noise;         /* [2,n]: clean latents of the two steps before; [n]: the step's
                                  * noise */
    double *norm;                /* [tokens,2]: the sums of squares of the prompt's prediction and
                                  * of the guided one; NULL: the guided one keeps its norm */
    vtrain_solver_step *step;    /* [steps] */
    vtrain_text text[VTRAIN_TEXTS];     /* of the prompts, or (unprompted) of the first */
    float *no_text[VTRAIN_TEXTS];       /* a row of zeros, or NULL; */
    int32_t no_length;                  /* and the length of such a text, 0 */
    float *cond[VC_ROLES];       /* conditions of all rows, which are equal, as the model takes
                                  * them, or NULL */
    float *first;                /* [C,h,w] the sample's clean first frame, or [C,clean,h,w] the
                                  * clip that it goes on from, or NULL */
    int clean;                   /* clean frames: the latent frames of a token, or of the clip */
    float *last;                 /* [C,h,w] the picture behind its last frame, or NULL */
    int skip;                    /* frames of the decoded sample that are no part of the clip */
    uint64_t seed;
    sampling_windows windows;    /* of frames that have levels of their own; dim and n are those of
                                  * a window until the sample is made */
    const vtrain_paced *paced;   /* their times in this forward; NULL: they have one level */
    sampling_heard heard;        /* the sound, of models with sound */
    double sound_scale;          /* of its guidance */
    vtrain_watching *w;          /* how far the rank's samples are */
} sampling;

/* Reads prompt i, and finds the size of its sample. */
int sampling_open(sampling *s, const vtrain *t, const vtrain_fit *fit, uint32_t i, vc_err *err);
/* Opens prompt i and makes all that its steps need: the plan, memory, texts, conditions and the
 * noise at the start. */
int sampling_begin(sampling *s, vtrain *t, uint32_t i, vc_err *err);
/* Frees what either of them made, also after an error. */
void sampling_free(sampling *s);

#endif
