/* generator.h - one network of a vocoder: a spectrogram to a waveform. For vocoder.c.
 *
 * A convolution takes the spectrogram in, each upsampler multiplies the samples, and the mean of
 * several residual stacks of dilated convolutions follows it. Activations are [1,1,L,1,C]. */
#ifndef PRECOMPUTE_SOUND_GENERATOR_H
#define PRECOMPUTE_SOUND_GENERATOR_H

#include "formats/json/json.h"
#include "precompute/sound/net.h"

enum { GEN_STEPS = 8, GEN_STACKS = 4, GEN_DILATIONS = 4, GEN_MAX_DILATION = 12 };

typedef struct gen_fields {
    int in, hidden, out;
    int n_kernels, kernel[GEN_STEPS], n_factors, factor[GEN_STEPS];      /* of the upsamplers */
    int stacks, stack_kernel[GEN_STACKS], n_dilated, dilations, dilation[GEN_DILATIONS];
    int act, last;                   /* places among GEN_ACTS and GEN_LASTS */
    double slope;                    /* of the leaky rectifier */
    bool antialias, final_bias;
    int ratio, filter;               /* of the filters around an antialiased activation */
    int rate;
} gen_fields;

/* An activation: of x * a, sin^2 weighted by b, is added to x (Ziyin et al. 2020), or a leaky
 * rectifier where a is NULL. Between up and down it runs at a multiple of the rate. */
typedef struct gen_act {
    vt_tensor *a, *b;                /* [C] */
    vt_tensor *up, *down;            /* filters; NULL: it runs at the rate itself */
    float slope;
} gen_act;

typedef struct gen_conv {
    vt_tensor *w, *b;                /* w [K,C,1,k,1]; b [K] or NULL */
    int kernel, dilation;
} gen_conv;

typedef struct gen_stack {
    gen_act act1[GEN_DILATIONS], act2[GEN_DILATIONS];
    gen_conv conv1[GEN_DILATIONS], conv2[GEN_DILATIONS];
} gen_stack;

typedef struct gen_step {
    gen_conv up;                     /* w [factor*K,C,1,taps,1]: the weights of each phase */
    int factor, before, after;       /* places that the phases see on either side */
    gen_stack stack[GEN_STACKS];
} gen_step;

typedef struct generator {
    gen_fields f;
    gen_conv conv_in, conv_out;
    gen_step step[GEN_STEPS];
    gen_act act_out;
} generator;

/* The weights of a file as parameters in f32, some of them in another form. */
typedef struct gen_weights {
    vt_ctx *g;
    const vf_model *file;
    vt_tensor **own;                 /* all that were made */
    bool *used;                      /* of the file's tensors */
    int n, room, rc;                 /* rc: the first failure stays */
    vc_err *err;
} gen_weights;
void gen_weights_close(gen_weights *w);              /* frees the parameters */
/* The tensor's values in f32, malloc'ed, after a check of its shape; NULL after a failure. */
float *gen_weights_read(gen_weights *w, const char *name, int nd, const int64_t *dim);

/* Reads the fields, each with `prefix` in front of its name. */
int gen_read(gen_fields *f, const cJSON *config, const char *prefix, vc_err *err);
/* Binds weights whose names begin with `below`; failures stay in w->rc. */
void gen_bind(generator *m, gen_weights *w, const char *below);
/* x [1,1,L,1,in] -> [1,1,L*factors,1,out] */
vt_tensor *gen_run(vt_ctx *g, const generator *m, vt_tensor *x);
int gen_hop(const gen_fields *f);                    /* samples a frame */

#endif
