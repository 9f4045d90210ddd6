/* cogvideox_model.h - a tiny CogVideoX of a golden, and the inputs of its cases. For tests:
 * failures end the test. */
#ifndef TESTS_TRAIN_MODELS_COGVIDEOX_MODEL_H
#define TESTS_TRAIN_MODELS_COGVIDEOX_MODEL_H

#include "formats/tensors/model.h"
#include "tests/lib/golden.h"
#include "train/models/dit.h"

typedef struct cog {
    vf_safetensors *golden;
    vf_model *file;
    cJSON *config;
    vt_ctx *g;
    vt_params *params;
    void *model;
} cog;

/* Of tests/golden/NAME, its file in `stored`, activations in `compute`, on golden_device(). */
void cog_open(cog *m, const char *name, vc_dtype stored, vc_dtype compute);
/* Only file, config and g; the model is opened by the caller. */
void cog_open_parts(cog *m, const char *name, vc_dtype stored, vc_dtype compute);
void cog_close(cog *m);
/* A tensor's values, malloc'ed. */
float *cog_read(const cog *m, const vt_tensor *t);

/* Inputs of one case on the host, from the golden's tensors CASE/... */
typedef struct cog_case {
    int64_t dim[5], text_dim[3];              /* of x and target; of text */
    float *x, *target, *t, *text, *output, loss;
    float *cond[VTRAIN_ROLES];                /* NULL: not there */
    int64_t cond_dim[VTRAIN_ROLES][5];
    int32_t length[8];
} cog_case;
void cog_case_open(cog_case *c, const vf_safetensors *f, const char *name);
void cog_case_close(cog_case *c);

/* The forward of the step in progress. */
vt_tensor *cog_forward(cog *m, const cog_case *c, vt_remat remat);
/* A whole step: the loss, and gradients into the parameters if they are trained; out, if not NULL,
 * gets the output. */
float cog_step(cog *m, const cog_case *c, vt_remat remat, float *out);

#endif
