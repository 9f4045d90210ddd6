/* reference.h - a golden's tiny model beside the numbers that diffusers computed with it: outputs,
 * losses and gradients of its cases. It serves every family, and LoRAs. For tests: failures end the
 * test.
 *
 * A golden holds the tensors CASE/x, t, text, target, output and loss of each case, CASE/pooled,
 * token_t, guidance, fps, length (of the rows of text) and cond.image, cond.mask, cond.video and
 * cond.vision where the model reads them; gradients are PREFIX/PARAMETER. Its metadata holds the model's config, and
 * `lora`, PEFT's config of a LoRA. */
#ifndef TESTS_TRAIN_MODELS_REFERENCE_H
#define TESTS_TRAIN_MODELS_REFERENCE_H

#include "formats/tensors/model.h"
#include "tests/lib/golden.h"
#include "train/models/dit.h"

typedef struct ref_model {
    vf_safetensors *golden;
    vf_model *file;
    cJSON *config;
    vt_ctx *g;
    vt_params *params;
    void *model;
} ref_model;

/* Of tests/golden/NAME, its file in `stored`, activations in `compute`, on golden_device(). */
void ref_open(ref_model *m, const vtrain_family *family, const char *name, vc_dtype stored,
              vc_dtype compute);
/* Only file, config and g; the model is opened by the caller. */
void ref_open_parts(ref_model *m, const char *name, vc_dtype stored, vc_dtype compute);
/* Opens the golden's model with the fields of `more` (JSON) in place of its own; the error. */
int ref_open_with(ref_model *m, const vtrain_family *family, const char *name, const char *more,
                  vc_err *err);
/* Adds the golden's LoRA, its factors filled by their names as in a file; returns how many linears
 * have one. */
int ref_add_lora(ref_model *m);
void ref_close(ref_model *m);
/* A tensor's values, malloc'ed. */
float *ref_read(const ref_model *m, const vt_tensor *t);

/* Inputs and results of one case on the host. */
typedef struct ref_case {
    int64_t dim[5], text_dim[3], pooled_dim[2];   /* of x and target; of text; of pooled */
    int64_t token_dim[2];                     /* of token_t */
    float *x, *target, *t, *text, *output, loss;
    float *token_t, *guidance, *pooled, *cond[VC_ROLES];      /* NULL: the case has none */
    float fps[8];                             /* 0: the case has none */
    int64_t cond_dim[VC_ROLES][5];
    int32_t length[8];
} ref_case;
void ref_case_open(ref_case *c, const vf_safetensors *f, const char *name);
void ref_case_close(ref_case *c);

/* The forward of the step in progress. */
vt_tensor *ref_forward(ref_model *m, const ref_case *c, vt_remat remat);
/* A whole step: the loss, and gradients into the parameters if they are trained; out, if not NULL,
 * gets the output. */
float ref_step(ref_model *m, const ref_case *c, vt_remat remat, float *out);

/* How far results may be from the reference's. Errors of outputs and of f32 gradients are the
 * greatest over the tensor's greatest value; those of bf16 gradients are root mean squares over the
 * tensor's (`mean`): single elements are sums in which much cancels, and show chance. No gradient
 * counts as smaller than `floor` of the model's largest. */
typedef struct ref_tolerance {
    vc_dtype compute;
    double output, grad, floor;
    bool mean;
} ref_tolerance;

/* Greatest size of x, or the root of its mean square; infinite where x has a NaN. */
double ref_size(const float *x, int64_t n, bool mean);
/* The golden's PREFIX/PARAMETER, malloc'ed. */
float *ref_wanted(const ref_model *m, const vt_param *p, const char *prefix);
/* Runs a step of a case; returns how many of output and loss are too far off, and names them. */
int ref_check_case(ref_model *m, const char *name, const ref_tolerance *t);
/* After a step: returns how many gradients of trained parameters are too far off PREFIX/PARAMETER,
 * and names them. */
int ref_check_grads(const ref_model *m, const char *prefix, const ref_tolerance *t);

/* A golden of a family. Its cases are `base`, whose gradients it has, up to four others, and
 * `lora` if `linears` tells how many modules the LoRA has. */
typedef struct ref_variant {
    const char *name, *cases[4];
    int linears;
} ref_variant;
/* Compares all cases of n goldens with the reference. */
void ref_check_variants(const vtrain_family *family, const ref_variant *v, size_t n,
                        const ref_tolerance *t);

/* `fields`, a JSON object, put over those of a golden's config.json make a model that is refused
 * with an error that says `says`. */
typedef struct ref_refusal { const char *fields, *says; } ref_refusal;
void ref_check_refusals(const vtrain_family *family, const char *name, const ref_refusal *r,
                        size_t n);

/* Of a whole golden: its case `base` gives the same gradients, bit for bit, where blocks are
 * recomputed; a dry step reaches the real step's peak of memory. */
void ref_check_recompute(const vtrain_family *family, const char *name);
void ref_check_dry(const vtrain_family *family, const char *name);
/* How far a case's output is with frozen weights that are stored in f16 from the one with f32. */
double ref_f16_error(const vtrain_family *family, const char *name, const char *one);

#endif
