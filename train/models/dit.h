/* dit.h - the transformer interface, and the table of families.
 *
 * A family is a row: its reader of config.json, tables of its weights, the functions of its model,
 * and its defaults. dit.c is the code that all families share: it binds the weights by the tables
 * (weights.h) and runs the blocks, each of which is a unit of recomputation and swapping. So
 * loading, saving, LoRA and the optimiser know nothing of families. docs/adding-a-model.md adds
 * one. */
#ifndef TRAIN_MODELS_DIT_H
#define TRAIN_MODELS_DIT_H

#include "common/roles.h"
#include "common/tensor/weights.h"
#include "formats/json/json.h"
#include "train/diffusion/objective.h"
#include "train/models/lora_names.h"

enum { VTRAIN_TEXTS = 4, VTRAIN_ROWS = 4096, VTRAIN_MADE = 6 };

/* The inputs of a forward. All tensors belong to the step in progress. */
typedef struct vtrain_cond {
    vt_tensor *embeds;                        /* [B,n,D] f32, zero beyond each row's length; NULL:
                                               * the slot is pooled only */
    const int32_t *length;                    /* [B] on the host: valid tokens, 1..n */
    vt_tensor *pooled;                        /* [B,P] or NULL */
} vtrain_cond;
typedef struct vtrain_in {
    vt_tensor *x;                             /* noisy latents [B,C,f,h,w] f32 */
    vt_tensor *cond[VC_ROLES];                /* f32, scaled as the family wants it, zeros where a
                                               * row's was dropped: image [B,C,1,h,w], video
                                               * [B,C,f,h,w], mask [B,1,f,h,w]; NULL: none */
    vt_tensor *t;                             /* f32 [B]: the timestep of each row's noise */
    vt_tensor *token_t;                       /* f32 [B,N]: the timestep of each token of x, where
                                               * tokens of a row differ: 0 for the clean ones, t for
                                               * the noisy ones; NULL: t is that of all tokens */
    vt_tensor *guidance;                      /* f32 [B]: the strength of guidance, 1 for none; NULL
                                               * unless fit asks for guidance */
    const float *fps;                         /* [B] on the host: frames a second of the clips; 0
                                               * where the rate is not known */
    int n_texts;
    vtrain_cond text[VTRAIN_TEXTS];
    vt_tensor *made[VTRAIN_MADE];             /* by the family's prepare, for its forward */
    int recompute;                            /* this many blocks are run again in backward */
    /* Takes the other arguments of diffusers' forward(), under its names and in its layout, while a
     * trace is written; else NULL. */
    void (*note)(void *arg, const char *name, const vt_tensor *x);
    void *note_arg;
} vtrain_in;

/* The text slots and latents that a model takes, which are compared with the dataset's. */
typedef struct vtrain_fit {
    int channels;
    int n_texts;
    int64_t text_width[VTRAIN_TEXTS];         /* of a slot's tokens; 0: they are not read */
    int64_t pooled_width[VTRAIN_TEXTS];       /* of its pooled vector; 0: that is not read */
    int mult[3];                              /* latent f, h, w are multiples of these */
    bool pad_front;                           /* f is made a multiple by copies of the first latent
                                               * frame in front (CogVideoX 1.5) */
    bool token_times;                         /* the forward takes vtrain_in.token_t */
    bool clean_first;                         /* all its clips begin with a clean frame: the default
                                               * of --first_frame_conditioning_p is 1, and no other
                                               * chance is possible. Without token_times the model
                                               * knows by itself which tokens have time 0 */
    bool guidance;                            /* it needs vtrain_in.guidance */
    bool two_prompts;                         /* and its samples are guided by the negative prompt
                                               * all the same: the input stays that of training */
    double fps;                               /* of clips that are sampled, where their prompt gives
                                               * no frame rate; every training clip must have one.
                                               * 0: positions do not depend on frame rates */
    unsigned roles;                           /* 1 << vc_role of the pictures joined with x */
    int blocks;                               /* of the model */
} vtrain_fit;

/* A model that starts from noise: the data that it has to fit, and its size. */
typedef struct vtrain_fresh {
    int channels;                             /* of the latents */
    int64_t text_width;                       /* of the first text slot */
    int64_t width, layers, heads, patch;      /* --dit_width and so on */
    bool guidance;                            /* it takes guidance as an input */
    vtrain_kind objective;
} vtrain_fresh;

/* How a condition is scaled for the transformer. */
typedef enum vtrain_scale {
    VTRAIN_SCALE_LATENT,                      /* like the clip's latents; a mask: not at all */
    VTRAIN_SCALE_FACTOR,                      /* times the VAE's scaling_factor */
    VTRAIN_SCALE_INVERT                       /* times the factor, or divided by the factor where
                                               * the VAE's config has invert_scale_latents */
} vtrain_scale;

/* Latents as diffusers' forward() of a class takes them: [B,C,F,H,W], [B,F,C,H,W], or tokens
 * [B,F*H*W,C]. */
typedef enum vtrain_layout { VTRAIN_CHANNELS_FIRST, VTRAIN_FRAMES_FIRST, VTRAIN_TOKENS } vtrain_layout;

/* Blocks that are alike. A model has up to VTRAIN_KINDS kinds, which run one after another: FLUX
 * has blocks of two streams, then of one. */
enum { VTRAIN_KINDS = 3 };
typedef struct vtrain_blocks {
    const char *prefix;                       /* of weights' names: "transformer_blocks.%d.". The
                                               * numbers go on where the kind before has the same
                                               * prefix, and begin at 0 otherwise */
    const vt_weight *table;
    size_t size;                              /* of the struct that the table binds */
    int n_in, n_out;                          /* inputs, and how many of them a block replaces */
    /* run is a pure function of model, weights and inputs (tensor.h: vt_block_fn). */
    void (*run)(vt_ctx *g, const void *model, const void *weights, vt_tensor *const *in,
                vt_tensor **out);
    /* Changes the streams s before the first block of this kind: a kind that has one sequence joins
     * the two streams of the kind before. NULL: they stay as they are. */
    void (*enter)(vt_ctx *g, const void *model, vt_tensor *s[VT_BLOCK_IO]);
} vtrain_blocks;

typedef struct vtrain_family {
    const char *class_name;                   /* _class_name of config.json, and in vc_family */
    const char *text_args[VTRAIN_TEXTS];      /* forward()'s names of the embeddings, for traces */
    vtrain_layout layout;                     /* of forward()'s latents, for traces */
    const vtrain_rename *lora_names;          /* the first authors' names of its modules, in LoRA
                                               * files; NULL: they are diffusers' names */

    /* Makes config.json of a model that starts from noise, with the kind of its prediction as
     * prediction_type; NULL: the family needs weights. */
    int (*fresh)(cJSON **config, const vtrain_fresh *want, vc_err *err);
    /* Its model is a struct of `size` bytes that begins with a vtrain_dit. The struct of weights
     * outside of blocks, which the table binds, is `weights` bytes behind. */
    size_t size, weights;
    const vt_weight *table;
    /* Reads config.json into the model and fills its dit (below). Errors name the field. */
    int (*read)(void *model, const cJSON *config, vc_err *err);
    void (*free)(void *model);                /* frees memory that the struct points at, or NULL */
    void (*fit)(const void *model, vtrain_fit *fit);

    /* Runs before the forward: checks the inputs, and makes all tensors that come from the host
     * (positions, lengths: in->made). So the kernels that the forward queues depend on shapes and
     * in->recompute alone. An error fails the step. */
    void (*prepare)(vt_ctx *g, void *model, vtrain_in *in);
    /* The forward, in three parts. embed sets s: the inputs of the blocks, then all else that the
     * head reads. Each block replaces the first n_out of them. The head makes of them the
     * prediction [B,C,f,h,w] in the compute type. */
    void (*embed)(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *s[VT_BLOCK_IO]);
    vtrain_blocks blocks[VTRAIN_KINDS];       /* a NULL prefix ends them */
    vt_tensor *(*head)(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *const *s);
    vtrain_scale scale[VC_ROLES];         /* of the conditions that fit asks for */

    /* defaults of flags */
    vtrain_kind objective;
    vtrain_density density;
    double flow_shift, logit_mean, logit_std;
    bool posterior_mean;                      /* trains on means, not on posterior draws */
    double lr_full, lr_lora, guidance;
    int64_t batch, steps;
    bool bf16;                                /* computed in bf16 by default */
    const char *lora_targets;
} vtrain_family;

/* By _class_name; NULL if unknown. */
const vtrain_family *vtrain_family_of_class(const char *class_name);
/* The family that starts from noise, which is trained without --model. */
const vtrain_family *vtrain_family_fresh(void);
/* The family's name in manifests ("builtin"), or its class where no row of vc_families has the
 * class. */
const char *vtrain_family_name(const vtrain_family *f);

/* ---- dit.c: a model of a family ---- */

enum { VTRAIN_SIZES = 16 };
struct vtrain_layer;
typedef struct vtrain_dit {
    const vtrain_family *family;
    /* The family's read sets these two. */
    int64_t layers[VTRAIN_KINDS];             /* how many blocks of each kind */
    int64_t sizes[VTRAIN_SIZES];              /* what the tables' negative sizes mean */
    struct vtrain_layer *layer;               /* [n_layers]: the blocks of all kinds */
    int n_layers;
} vtrain_dit;

/* Reads config.json and binds all weights from src into p. */
int vtrain_dit_open(void **model, const vtrain_family *f, const cJSON *config, vt_params *p,
                    const vt_source *src, vc_err *err);
void vtrain_dit_close(void *model);           /* NULL is fine */
/* Makes the prediction of an input that has been prepared. */
vt_tensor *vtrain_dit_forward(vt_ctx *g, void *model, const vtrain_in *in);
/* Calls the family's prepare, then vtrain_dit_forward. */
vt_tensor *vtrain_forward(vt_ctx *g, void *model, vtrain_in *in);

/* For families: */

/* Joins the noisy latents with the pictures of `roles` (1 << vc_role) in the order image (the
 * first frame, then zeros), mask, video; a picture that is missing is zeros. [B,..,f,h,w] */
vt_tensor *vtrain_join(vt_ctx *g, const vtrain_in *in, unsigned roles);
/* The number of tokens of each row that count, `before` and those of its text, as kv_len of
 * vt_attention; NULL where all tokens count. */
vt_tensor *vtrain_key_lengths(vt_ctx *g, const vtrain_cond *text, int64_t before);
/* For models that attend to padding as to any token: fails the step where a row's text is shorter
 * than the others, since the padding's embeddings are not in the dataset then. */
void vtrain_check_padding(vt_ctx *g, const vtrain_cond *text);
/* Gives x to the trace, if one is written. */
void vtrain_note(const vtrain_in *in, const char *name, const vt_tensor *x);
/* Gives the mask of a text to the trace: [B,n], 1 for tokens that count, 0 for padding. For
 * prepare, since the mask comes from the host. */
void vtrain_note_mask(vt_ctx *g, const vtrain_in *in, const char *name, const vtrain_cond *text);

extern const vtrain_family vtrain_builtin;    /* builtin.c */
extern const vtrain_family vtrain_cogvideox;  /* cogvideox.c */
extern const vtrain_family vtrain_hunyuan;    /* hunyuan.c */
extern const vtrain_family vtrain_ltx;        /* ltx.c */

#endif
