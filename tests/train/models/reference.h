/* reference.h - compares a golden's tiny model with the numbers that diffusers computed with this
 * model: outputs, losses and gradients of its cases, for every family and for LoRAs. For tests:
 * failures end the test.
 *
 * A golden holds the tensors CASE/x, t, text, target, output and loss of each case, CASE/pooled,
 * clean, token_t, frame_t, guidance, control_scale, control_mode, first_row, fps, length (of the
 * rows of text) and cond.image, cond.mask, cond.video and cond.vision where the model reads them,
 * text_2, length_2 and pooled_2 of a second slot, text_3 of a third; gradients are
 * PREFIX/PARAMETER. Its metadata holds the model's config, and `lora`, PEFT's config of a LoRA. */
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

/* Opens the model of tests/golden/NAME on golden_device(): its file holds the type `stored`, and
 * activations have the type `compute`. */
void ref_open(ref_model *m, const vtrain_family *family, const char *name, vc_dtype stored,
              vc_dtype compute);
/* Opens golden, file, config and g; the caller opens the model. */
void ref_open_parts(ref_model *m, const char *name, vc_dtype stored, vc_dtype compute);
/* Opens the golden's model with the fields of `more` (JSON) in place of its own, and returns the
 * error code. */
int ref_open_with(ref_model *m, const vtrain_family *family, const char *name, const char *more,
                  vc_err *err);
/* Adds the golden's LoRA, whose factors are filled by their names in a file, and returns the number
 * of linears with a LoRA. */
int ref_add_lora(ref_model *m);
void ref_close(ref_model *m);
/* The values of a tensor, malloc'ed. */
float *ref_read(const ref_model *m, const vt_tensor *t);

/* Inputs and results of one case on the host. */
typedef struct ref_case {
    int64_t dim[5];                           /* of x and target */
    int64_t text_dim[3], pooled_dim[2];       /* of text, of pooled */
    int64_t text_2_dim[3], text_3_dim[3], pooled_2_dim[2];
    int64_t token_dim[2], frame_dim[2];       /* of token_t, of frame_t */
    float *x, *target, *t, *t_next, *text, *output, loss;
    /* NULL: not in this case */
    float *token_t, *frame_t, *guidance, *pooled, *text_2, *text_3, *pooled_2, *control_scale;
    float *cond[VC_ROLES];
    float *first_row;                         /* a ControlNet reads the first row alone */
    bool has_kinds;
    int32_t control_kind[8];                  /* of a ControlNet-Union */
    float fps[8];                             /* 0: not in this case */
    bool clean[8];                            /* rows whose first frame is clean */
    int64_t cond_dim[VC_ROLES][5];
    /* Sound: [B,C,L,1,bins]; zeros beyond the rows' lengths in frames; NULL: not in this case. The
     * loss is then the sum of the video's and of that of the rows with sound over all rows. */
    float *sound, *sound_target, *sound_output;
    int64_t sound_dim[5];
    int32_t sound_length[8];
    int32_t length[8], length_2[8], length_3[8];
} ref_case;
/* Reads CASE/WHAT; the caller frees it, NULL: the golden lacks it. Its sizes are in dim or NULL. */
float *ref_values(const vf_safetensors *f, const char *name, const char *what, int64_t *dim);
void ref_case_open(ref_case *c, const vf_safetensors *f, const char *name);
void ref_case_close(ref_case *c);

/* The inputs of a forward of the step in progress; and the forward. */
vtrain_in ref_inputs(ref_model *m, const ref_case *c, vt_remat remat);
vt_tensor *ref_forward(ref_model *m, const ref_case *c, vt_remat remat);
/* Runs a whole step and returns the loss. Trained parameters get their gradients, and `out`, unless
 * NULL, gets the output; behind it follows that of the sound. */
float ref_step(ref_model *m, const ref_case *c, vt_remat remat, float *out);

/* The largest errors that are allowed. The error of an output or of an f32 gradient is the largest
 * difference divided by the tensor's largest value. The error of a bf16 gradient (`mean`) is the
 * root mean square of the differences divided by that of the tensor, since large terms cancel in
 * single elements, whose errors are random. A gradient's size counts as at least `floor` of the
 * model's largest. */
typedef struct ref_tolerance {
    vc_dtype compute;
    double output, grad, floor;
    bool mean;
} ref_tolerance;

/* The largest absolute value of x, or (mean) the root of its mean square; infinite where x has a
 * NaN. */
double ref_size(const float *x, int64_t n, bool mean);
/* The golden's PREFIX/PARAMETER, malloc'ed; NULL where the parameter has no gradient. */
float *ref_wanted(const ref_model *m, const vt_param *p, const char *prefix);
/* Runs a step of a case, prints which of output and loss have a larger error, and returns their
 * number. */
int ref_check_case(ref_model *m, const char *name, const ref_tolerance *t);
/* After a step: compares the gradients of trained parameters with PREFIX/PARAMETER, prints those
 * with a larger error, and returns their number. A parameter that the golden lacks may have no
 * gradient. */
int ref_check_grads(const ref_model *m, const char *prefix, const ref_tolerance *t);

/* Checks that a case's inputs are refused with an error that contains `says`, or, where it is NULL,
 * are taken. */
void ref_check_input(const vtrain_family *family, const char *name, ref_case *c, const char *says);

/* A golden of a family. Its cases are `base`, which has gradients, up to four others, and `lora` if
 * `linears`, the number of modules with a LoRA, is not 0. */
typedef struct ref_variant {
    const char *name, *cases[4];
    int linears;
} ref_variant;
/* Compares all cases of n goldens with the reference. */
void ref_check_variants(const vtrain_family *family, const ref_variant *v, size_t n,
                        const ref_tolerance *t);

/* A golden's config.json with the fields of the JSON object `fields` is refused, and the error
 * contains `says`. */
typedef struct ref_refusal { const char *fields, *says; } ref_refusal;
void ref_check_refusals(const vtrain_family *family, const char *name, const ref_refusal *r,
                        size_t n);
/* A clip is no picture: a family of stills, `label` in its message, refuses latents of two
 * frames. */
void ref_check_clip(const vtrain_family *family, const char *name, const char *label);

/* A golden of names holds a LoRA's factors `theirs/MODULE.lora_A.weight` with the names of a
 * family's tables, and the tensors that diffusers makes of these, `ours/MODULE.lora_A.weight`, for
 * `modules` modules. Files of these factors, in the forms that other programs write, are read as
 * diffusers reads them. */
void ref_check_names(const vtrain_family *family, const char *golden, int modules);

/* Checks the case `base` of a golden whose weights are a first authors' file without a config.json,
 * opened by its names. */
void ref_check_first(const vtrain_family *family, const char *golden, const ref_tolerance *tol);
/* Runs ten steps of AdamW from the weights of a golden, with its inputs 0/.. to 9/.., and compares
 * losses, norms of the gradient and (final/PARAMETER) the movements of the weights, whose error is
 * at most `most` of the movement, with the golden's. */
void ref_check_steps(const vtrain_family *family, const char *name, double most);

/* Checks that each row of the case `base` is the same as alone where rows have different rates. */
void ref_check_rates(const vtrain_family *family, const char *name);
/* Checks that the case `base` has the same gradients, bit for bit, where blocks are recomputed. */
void ref_check_recompute(const vtrain_family *family, const char *name);
/* Checks that a dry step of the case `base` has the real step's peak of memory. */
void ref_check_dry(const vtrain_family *family, const char *name);
/* Checks both of n goldens. */
void ref_check_memory(const vtrain_family *family, const ref_variant *v, size_t n);
/* The error of a case's output with frozen weights in f16, compared with weights in f32. */
double ref_f16_error(const vtrain_family *family, const char *name, const char *one);

/* Tests of cmocka for a family's goldens: all cases in f32 and in bf16, and the memory. Each takes
 * a ref_suite as its state. Those below REF_TESTS are of what the suite says. */
typedef struct ref_suite {
    const vtrain_family *family;
    const ref_variant *variants;
    size_t n;                                 /* number of variants */
    ref_tolerance f32, bf16;
    const char *names, *first;                /* goldens: of ref_check_names, of ref_check_first */
    int modules;                              /* of the names */
    const ref_refusal *refused;               /* configs of the first variant */
    size_t n_refused;
    const char *still;                        /* the label in a refusal of clips */
} ref_suite;
void ref_test_f32(void **state);
void ref_test_bf16(void **state);
void ref_test_memory(void **state);
#define REF_TESTS(suite)                                                                           \
    cmocka_unit_test_prestate(ref_test_f32, &(suite)),                                             \
    cmocka_unit_test_prestate(ref_test_bf16, &(suite)),                                            \
    cmocka_unit_test_prestate(ref_test_memory, &(suite))

/* In reference_names.c, since not all suites have them. */
void ref_test_refused(void **state);
void ref_test_still(void **state);
void ref_test_names(void **state);
void ref_test_first(void **state);
#define REF_REFUSED(suite) cmocka_unit_test_prestate(ref_test_refused, &(suite))
#define REF_STILL(suite) cmocka_unit_test_prestate(ref_test_still, &(suite))
#define REF_NAMES(suite) cmocka_unit_test_prestate(ref_test_names, &(suite))
#define REF_FIRST(suite) cmocka_unit_test_prestate(ref_test_first, &(suite))

#endif
