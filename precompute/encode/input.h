/* input.h - the pixels that a value's recipe gives to the VAE, frame by frame: for
 * precompute/encode only. */
#ifndef PRECOMPUTE_ENCODE_INPUT_H
#define PRECOMPUTE_ENCODE_INPUT_H

#include "precompute/encode/encode.h"

typedef struct prep_input {
    const vprep *p;
    prep_job *j;
    vc_role role;
    const vc_recipe *recipe;         /* the role's */
    prep_frames *from;
    size_t values;                   /* of a frame [h,w,3] */
    uint8_t *scratch;                /* of h*w bytes, for masked pixels */
    bool noisy;
    float sigma;                     /* of the noise */
    vprep_normals normals;           /* of the noise, from frame 0 on */
    double seconds;                  /* that prep_input_read has taken */
} prep_input;

/* The input number `place` of those that the role's recipe makes of the job. All are borrowed. */
prep_input prep_input_of(const vprep *p, prep_job *j, vc_role role, int place, uint8_t *scratch);
/* Writes frame t to x. */
int prep_input_frame(const prep_input *in, int t, float *x, vc_err *err);
/* The `read` of vae_input; arg is a prep_input. VC_ESTOP: the run was stopped. */
int prep_input_read(void *arg, int first, int n, float *x, vc_err *err);

#endif
