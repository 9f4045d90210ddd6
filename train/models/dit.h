/* dit.h - the interface of transformers, and the table of families.
 *
 * A vtrain_family describes a family: the reader of config.json, the tables of its weights, the
 * functions of its model, and its defaults. dit.c holds the code that all families share: the
 * binding of weights by the tables (common/tensor/weights.h) and the run of the blocks, each of
 * which is a unit of recomputation and swapping. Loading, saving, LoRA and the optimiser need no
 * code per family. docs/adding-a-model.md walks through adding a family. */
#ifndef TRAIN_MODELS_DIT_H
#define TRAIN_MODELS_DIT_H

#include "common/roles.h"
#include "common/tensor/weights.h"
#include "formats/json/json.h"
#include "train/diffusion/scheduler.h"
#include "train/lora/names.h"

enum { VTRAIN_TEXTS = 4, VTRAIN_ROWS = 4096, VTRAIN_MADE = 16,
       VTRAIN_CONTROL_KINDS = 64,             /* the most kinds of conditions of a ControlNet */
       VTRAIN_FRAMES = 4096 };                /* of a batch, where frames have own levels */

/* The inputs of a forward. All tensors belong to the step in progress. */
typedef struct vtrain_cond {
    vt_tensor *embeds;                        /* [B,n,D] f32, zero beyond each row's length; NULL:
                                               * the dataset has the slot's pooled state alone */
    const int32_t *length;                    /* [B] on the host: valid tokens, 1..n; 0 too with
                                               * fit.absent_texts */
    vt_tensor *pooled;                        /* [B,P] or NULL */
} vtrain_cond;
/* The blocks that backward runs again: the first `blocks`, as `how` says. */
typedef struct vtrain_recompute { int blocks; vt_remat how; } vtrain_recompute;

typedef struct vtrain_in {
    vt_tensor *x;                             /* noisy latents [B,C,f,h,w] f32 */
    vt_tensor *cond[VC_ROLES];                /* f32, scaled by the family's rule, zeros in rows
                                               * whose condition was dropped: image [B,C,1,h,w],
                                               * video [B,C,f,h,w], mask [B,1 or
                                               * fit.mask_channels,f,h,w], control
                                               * [B,C,f,h,w], vision [B,n,D], references
                                               * [B,C,1,H,W] of their own sizes; NULL: the batch
                                               * has no such condition */
    vt_tensor *t;                             /* f32 [B]: the timestep of each row's noise */
    vt_tensor *t_next;                        /* f32 [B]: the timestep that the step of each row
                                               * leads to, with vtrain_fit.next_times; NULL: t, to
                                               * which no step leads */
    vt_tensor *token_t;                       /* f32 [B,N]: the timestep of each token of x, 0 for
                                               * clean and t for noisy tokens; NULL: all tokens
                                               * of a row have the timestep t */
    vt_tensor *frame_t;                       /* f32 [B,f / mult[0]]: the timestep of each frame of
                                               * tokens, where frames have levels of their own;
                                               * NULL: they have not */
    const bool *clean;                        /* [B] on the host: whether a row's first frame is
                                               * clean, with vtrain_fit.clean_rows; NULL: none is */
    vt_tensor *guidance;                      /* f32 [B]: the strength of guidance, 1 for none; NULL
                                               * unless vtrain_fit.guidance */
    vt_tensor *sound;                         /* noisy latents of the clips' sound [B,C,L,1,bins]
                                               * f32, of models with sound; else NULL */
    const int32_t *sound_length;              /* [B] on the host: latent frames of a row's sound,
                                               * 0..L; 0: the clip has none */
    struct vtrain_in *side;                   /* one row that a ControlNet of copied blocks reads;
                                               * its results are added to those of all rows. NULL:
                                               * it reads these inputs */
    const float *control_scale;               /* on the host: what a ControlNet's results are
                                               * multiplied by, in samples; NULL: 1 */
    const int32_t *control_kind;              /* [B] on the host: the kind of each row's condition,
                                               * below vtrain_fit.control_kinds; NULL: the model
                                               * knows no kinds */
    const float *fps;                         /* [B] on the host: frames per second of the clips; 0
                                               * where the rate is not known */
    int n_texts;
    vtrain_cond text[VTRAIN_TEXTS];
    vt_tensor *made[VTRAIN_MADE];             /* tensors that prepare makes for the forward */
    int causal;                               /* n > 0: tokens attend to those of the frames up to
                                               * the end of their own run of n, of models with
                                               * vtrain_fit.causal; 0: as the model's config says */
    uint64_t skip;                            /* bits of the blocks that are left out, of families
                                               * with skips_layers */
    vtrain_recompute recompute;
    bool shared;                              /* the context's processes share the sequence
                                               * (common/tensor/exchange.h) */
    /* Traces an argument of diffusers' forward(), with diffusers' name and layout. NULL: no trace
     * is written. */
    void (*note)(void *arg, const char *name, const vt_tensor *x);
    void *note_arg;
} vtrain_in;

/* The text slots and latents that a model reads; vtrain compares them with the dataset's. */
typedef struct vtrain_fit {
    int channels;
    int n_texts;
    int64_t text_width[VTRAIN_TEXTS];         /* width of a slot's token states; 0: not read */
    int64_t text_more[VTRAIN_TEXTS];          /* further numbers that a token may have behind these,
                                               * all of them, which the model does not read */
    int64_t text_rows[VTRAIN_TEXTS];          /* rows of zeros follow a prompt's tokens up to this
                                               * number; 0: up to the longest of the batch */
    bool absent_texts[VTRAIN_TEXTS];          /* a slot's text of one row of zeros is none: its
                                               * length is 0 */
    bool whole_texts;                         /* all captions of a bucket have the same number of
                                               * rows, on which the sequence's length depends: dry
                                               * steps have this number too */
    int64_t pooled_width[VTRAIN_TEXTS];       /* width of a slot's pooled state; 0: not read */
    int mult[3];                              /* latent f, h, w are multiples of these */
    bool pad_front;                           /* copies of the first latent frame are put in front
                                               * until f is a multiple (CogVideoX 1.5) */
    bool token_times;                         /* the forward reads vtrain_in.token_t */
    bool next_times;                          /* the forward reads vtrain_in.t_next */
    bool frame_times;                         /* the latent frames of a clip may have any timesteps:
                                               * the forward reads vtrain_in.frame_t, or token_t
                                               * with any times */
    int causal;                               /* frames of a run, to which the tokens of later runs
                                               * alone attend, 1: all attend to all; the forward
                                               * reads vtrain_in.causal. 0: it does not */
    bool begins;                              /* made for clips that begin with a clean frame:
                                               * --first_frame_conditioning_p is 1 by default */
    bool clean_rows;                          /* clips may begin with a clean frame, whose tokens
                                               * have the time of the others: the forward reads
                                               * vtrain_in.clean */
    bool clean_first;                         /* every clip begins with a clean frame, so
                                               * --first_frame_conditioning_p is 1 by default and
                                               * may have no other value. Without token_times the
                                               * model itself gives the tokens of this frame the
                                               * time 0 */
    bool needs_image;                         /* with clean_first: the frame is an image encoded
                                               * alone, not the first latent of the clip */
    int interleave[VTRAIN_TEXTS];             /* every interleave-th state of the clip's first frame
                                               * stands in front of a slot's texts (families.h); 0:
                                               * texts have no picture */
    bool guidance;                            /* the forward reads vtrain_in.guidance */
    bool two_prompts;                         /* with guidance: samples are still guided by the
                                               * negative prompt, and vtrain_in.guidance has the
                                               * value of training */
    double fps;                               /* frame rate of a sample whose prompt gives none;
                                               * every training clip must have a frame rate. 0: the
                                               * positions do not depend on frame rates */
    double sample_guidance;                   /* the default of --guidance_scale, 1 for none; 0: the
                                               * family's */
    double image_start;                       /* share of the prompt's image, in all frames, in the
                                               * noise that its sample starts from */
    int skip_frames;                          /* first frames of a decoded sample that are no part
                                               * of the clip */
    unsigned roles;                           /* 1 << vc_role of the conditions that it reads */
    unsigned references;                      /* 1 << vc_role of reference pictures that it reads
                                               * where samples have them */
    bool references_in_front;                 /* they are frames of the noisy latents too, in front
                                               * of the clip's, the last one first */
    bool needs_mask;                          /* the roles are never dropped, and samples need
                                               * them */
    vc_mode mode;                             /* --train_mode of datasets that have the roles;
                                               * NORMAL: the mode that alone has these roles */
    unsigned mean_roles;                      /* roles that are always means of posteriors */
    bool black;                               /* masked pixels of the role video are black, and not
                                               * grey as in other data of the family */
    int control_kinds;                        /* kinds of conditions that a ControlNet-Union knows,
                                               * of which each sample has one; 0: it reads none */
    int32_t control_kind;                     /* that of samples whose records have none, or
                                               * VC_NO_KIND (common/cli/kinds.h): vtrain sets
                                               * it, and no family */
    int mask_channels;                        /* of a mask among the roles; 0: 1 */
    int64_t embeds[2];                        /* rows and width of a VC_VALUE_EMBEDS among the
                                               * roles; rows 0: any number, equal in all samples */
    int blocks;                               /* number of the model's blocks */
    int64_t heads;                            /* of the blocks' attention, or of its keys if these
                                               * are fewer, where vtrain_in.shared is possible: the
                                               * tokens of s[0] are the sequence, or those of s[0]
                                               * and s[1] its parts, and blocks mix them by
                                               * nn_self_attention or nn_joint_attention alone (of
                                               * two parts by the latter, or nn_joint_block), or
                                               * say themselves which part is shared
                                               * (ltx2_sound.c); 0: it is not possible */
    int sound;                                /* numbers of a latent frame of sound that the model
                                               * is given with each clip; 0: it has no sound */
    int sound_least;                          /* latent frames that a batch's sound has at least, so
                                               * that each process which shares it has one */
    size_t held;                              /* bytes of memory that the model holds beside its
                                               * parameters, once it is open */
} vtrain_fit;

/* A model that starts from noise: its size, and the sizes of the data. */
typedef struct vtrain_fresh {
    int channels;                             /* of the latents */
    int64_t text_width;                       /* of the first text slot */
    int64_t width, layers, heads, patch;      /* --dit_width, _layers, _heads, _patch */
    bool guidance;                            /* guidance is an input of the model */
    vtrain_kind objective;
} vtrain_fresh;

/* The scaling of a condition for the transformer. */
typedef enum vtrain_scale {
    VTRAIN_SCALE_LATENT,                      /* like the clip's latents; masks are not scaled */
    VTRAIN_SCALE_FACTOR,                      /* times the VAE's scaling_factor */
    VTRAIN_SCALE_INVERT                       /* times scaling_factor, or divided by scaling_factor
                                               * where the VAE's config has invert_scale_latents */
} vtrain_scale;

/* The layout of latents in diffusers' forward() of a class: [B,C,F,H,W], [B,F,C,H,W], tokens
 * [B,N,C*pt*ph*pw] of the patches vtrain_fit.mult, or [B,F,H,W,C]. */
typedef enum vtrain_layout {
    VTRAIN_CHANNELS_FIRST, VTRAIN_FRAMES_FIRST, VTRAIN_TOKENS, VTRAIN_CHANNELS_LAST
} vtrain_layout;

/* The timestep that diffusers' forward() of a class is given: the time of 0 to 1000, the level,
 * which is a thousandth of the time, or 1 less the level. The first is that of each token where
 * tokens have times of their own, or (FRAMES) of each frame where frames have. */
typedef enum vtrain_time {
    VTRAIN_TIME_STEP, VTRAIN_TIME_LEVEL, VTRAIN_TIME_CLEAN, VTRAIN_TIME_FRAMES
} vtrain_time;

/* One kind of blocks. A model has up to VTRAIN_KINDS kinds, which run one after another, unless
 * `after` places them: FLUX has blocks of two streams, then blocks of one. */
enum { VTRAIN_KINDS = 3 };
typedef struct vtrain_blocks {
    const char *prefix;                       /* of weights' names: "transformer_blocks.%d.". The
                                               * numbers continue where the kind before has the same
                                               * prefix, and begin at 0 otherwise */
    const vt_weight *table;
    size_t size;                              /* of the struct that the table binds */
    int n_in, n_out;                          /* a block reads n_in tensors of s (see embed) and
                                               * replaces the first n_out */
    /* run is a pure function of model, weights and inputs (tensor.h: vt_block_fn). */
    void (*run)(vt_ctx *g, const void *model, const void *weights, vt_tensor *const *in,
                vt_tensor **out);
    /* Changes the streams s before the first block of this kind: a kind that has one sequence joins
     * the two streams of the kind before. NULL: the streams stay unchanged. */
    void (*enter)(vt_ctx *g, const void *model, vt_tensor *s[VT_BLOCK_IO]);
    /* The block of the kind before behind which block i of this kind runs, so that these blocks
     * stand among those, as VACE's do. NULL: they run behind all of those. */
    int64_t (*after)(const void *model, int64_t i);
} vtrain_blocks;

/* --ssm_layer and its settings; 0: not given. */
typedef struct vtrain_ssm {
    int layer;                                /* index into none|ttt_linear|ttt_mlp */
    int64_t mini_batch;                       /* --mini_batch_size */
    int64_t group;                            /* --scan_checkpoint_group_size */
    double base_lr;                           /* --ttt_base_lr */
    bool eta_compat;                          /* --ttt_eta_compat */
} vtrain_ssm;

enum { VTRAIN_ADAPTERS = 3 };                 /* values of --adapter_method: sft|qkvo|none */

struct vf_model;
typedef struct vtrain_family vtrain_family;
struct vtrain_family {
    const char *class_name;                   /* _class_name of config.json, and in vc_family */
    const char *text_args[VTRAIN_TEXTS];      /* forward()'s names of the embeddings, for traces */
    vtrain_layout layout;                     /* of forward()'s latents, for traces */
    vtrain_time time;                         /* forward()'s timestep, for traces */
    const vtrain_rename *lora_names;          /* the first authors' names of the modules in LoRA
                                               * files; NULL: they have diffusers' names */
    const vtrain_rename *peer_names;          /* another trainer's names, which are read; or NULL */
    /* _class_name of the first authors' config.json, whose weights have the names of lora_names,
     * norms and tables among them. convert makes our config.json from theirs and from the sizes of
     * tensors, which src has by their names. NULL: their folders are not read. */
    const char *first_class;
    const vtrain_rename *first_names;         /* of their weights, where it is not lora_names */
    const vtrain_rename *packed_names;        /* likewise, of files that have the weight of its
                                               * first row in block 0; NULL: there are none */
    int (*convert)(cJSON **config, const cJSON *theirs, const vt_source *src, vc_err *err);
    const vtrain_naming *kohya;               /* of lora_kohya.safetensors; NULL: vtrain_kohya */
    bool diffsynth;                           /* DiffSynth-Studio reads vtrain_diffsynth alone */

    /* Makes config.json of a model that starts from noise, with the kind of its prediction as
     * prediction_type. NULL: the family cannot start from noise. */
    int (*fresh)(cJSON **config, const vtrain_fresh *want, vc_err *err);
    /* The model is a struct of `size` bytes that begins with a vtrain_dit. At offset `weights` this
     * struct has the struct of the weights outside of blocks, which `table` binds. */
    size_t size, weights;
    const vt_weight *table;
    const char *const *spare;                 /* tensors in files that the model does not use, as in
                                               * vf_model_all_bound; or NULL */
    /* A component of the pipeline that runs with the model and is never trained: its folder
     * ("connectors"), and the function that opens it for the model, whose `free` closes it.
     * The file stays open as long as the model. NULL: there is none. */
    const char *beside;
    int (*open_beside)(void *model, vt_ctx *g, const cJSON *config, const struct vf_model *file,
                       vc_err *err);
    /* The flag of config.json with which the model has a blockwise ControlNet (controlnet.h); NULL:
     * it has none. */
    const char *controlnet;
    /* The family of ControlNets of copied blocks, whose config.json is the field "controlnet" of
     * the transformer's: its blocks are of the same kinds, and embed and blocks alone are called,
     * after the transformer's prepare. The results of a kind's m blocks are added behind the n
     * blocks of the transformer's kind, each behind ceil(n / m) of them one after the other. NULL:
     * there are none. */
    const vtrain_family *copied;
    /* Of such a ControlNet: the names of the linear layers behind the blocks of each kind,
     * "controlnet_blocks.%d". The tokens of s[0] that embed made go through this layer, and its
     * result is added to the same tokens of the transformer. */
    const char *hint[VTRAIN_KINDS];
    const char *masked_reader;                /* who opens one for inpainting; NULL: diffusers */
    /* Reads config.json into the model and fills its vtrain_dit. Errors name the field. */
    int (*read)(void *model, const cJSON *config, vc_err *err);
    void (*free)(void *model);                /* frees memory that the struct points to; or NULL */
    void (*fit)(const void *model, vtrain_fit *fit);

    /* Runs before the forward: checks the inputs, and makes all tensors that come from the host
     * (in->made: positions, lengths). The kernels that the forward queues therefore depend on
     * shapes and in->recompute alone. An error fails the step. */
    void (*prepare)(vt_ctx *g, void *model, vtrain_in *in);
    /* The forward has three parts. embed sets s: the inputs of the blocks, then all other tensors
     * that the head reads. Each block replaces the first n_out tensors of s. The head makes the
     * prediction [B,C,f,h,w] of s, in the compute type. */
    void (*embed)(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *s[VT_BLOCK_IO]);
    vtrain_blocks blocks[VTRAIN_KINDS];       /* a NULL prefix ends them */
    /* Where processes share the sequence: the number of kinds that come before it is shared, so
     * that each process runs these blocks whole; and whether s[0] and s[1] are the sequence's parts
     * when it is. */
    int whole_kinds;
    bool two_parts;
    const char *lora_reader;                  /* what of diffusers opens a LoRA's folder; NULL: the
                                               * pipeline's load_lora_weights */
    bool skips_layers;                        /* samples may be guided by a forward without some of
                                               * the blocks */
    /* The index in s of a second stream of the same tokens as s[0], of which each process has its
     * own as well: nothing attends to it but its own blocks. 0: there is none; s may lack it. */
    int stream;
    vt_tensor *(*head)(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *const *s);
    /* The prediction of in->sound, of models with sound. */
    vt_tensor *(*sound_head)(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *const *s);
    vtrain_scale scale[VC_ROLES];             /* of the conditions in vtrain_fit.roles */

    /* Defaults of flags. */
    vtrain_kind objective;
    vtrain_density density;
    double flow_shift, logit_mean, logit_std;
    /* Changes the schedule of a flow by config.json where the model's folder has no scheduler's
     * file: by_tokens, shift (flow_shift before the call), terminal. NULL: nothing is changed. */
    void (*schedule)(const cJSON *config, vtrain_scheduler *s);
    bool own_levels;                          /* the pipeline makes the levels without the
                                               * scheduler's file, so that schedule is called where
                                               * there is one too, unless --scheduler gives it */
    /* The component of the pipeline that predicts without a prompt, and guides samples instead of
     * the negative prompt ("unconditional_transformer"): a transformer of the same class. Its
     * rows have texts of length 0 (absent_texts). NULL: there is none. */
    const char *unconditional;
    bool posterior_mean;                      /* training reads means, not posterior draws */
    double image_dropout;                     /* default of --image_dropout_p, */
    double fun_dropout;                       /* and of data of inpaint, control and control_ref,
                                               * for VideoX-Fun's Fun models; 0: the same. Also
                                               * default of --control_dropout_p */
    double lr_full, lr_lora, guidance;
    double guidance_end;                      /* of the last sixteenth of a sample's steps, where no
                                               * flag or prompt gives a guidance; 0: the same */
    bool guidance_added;                      /* guidance g adds g times the two predictions'
                                               * difference to the prompt's prediction, and not to
                                               * the other one: 0 is none, not 1 */
    bool renormalised;                        /* in samples, each token of a guided prediction is
                                               * scaled to the norm of the prompt's prediction */
    int64_t inference_steps;                  /* --num_inference_steps; 0: 28 */
    int64_t batch, steps;
    bool bf16;                                /* the model computes in bf16 */
    const char *lora_targets;

    /* The family of these models without the layers of --ssm_layer, whose class is first_class;
     * NULL: there is none. */
    const vtrain_family *without_ssm;
    /* Of a family of models with their sound, which --with_audio opens: that of the same models
     * without it, whose class_name is the same; NULL: these are none. */
    const vtrain_family *without_sound;
    /* Writes the settings of --ssm_layer to config.json, in place of those that it has. NULL: the
     * family has no such layers. */
    int (*ssm)(cJSON *config, const vtrain_ssm *want, vc_err *err);
    /* What --trainable_modules is by default for each value of --adapter_method; NULL: all. */
    const char *adapters[VTRAIN_ADAPTERS];
};

/* ---- dit.c: a model of a family ---- */

enum { VTRAIN_SIZES = 23, VTRAIN_HINTS = 64,
       VTRAIN_MASK = 8 * 8 };                 /* pixels of a place of the latents, the channels of
                                               * a mask of pixels */
#define VTRAIN_CONTROL_PART "controlnet."     /* in the names of a ControlNet's weights */
struct vtrain_layer;
typedef struct vtrain_dit {
    const vtrain_family *family;
    /* The family's read sets these two. */
    int64_t layers[VTRAIN_KINDS];             /* number of blocks of each kind */
    int64_t sizes[VTRAIN_SIZES];              /* sizes[k] is the size -k of the weight tables;
                                               * sizes[1] is the width of tokens where the model
                                               * has blocks beside it */
    struct vtrain_dit *side;                  /* the ControlNet of copied blocks, whose blocks run
                                               * first, or NULL */
    const char *under;                        /* the prefix of all weights' names, "" unless the
                                               * model is a side */
    int first;                                /* index of the first block among those of a step */
    int64_t tokens;                           /* of a side's s[0] in the step in progress */
    struct vtrain_layer *layer;               /* [n_layers]: the blocks of all kinds */
    int n_layers;
    int64_t part[2];                          /* of the sequence that processes share, since the
                                               * last forward; 0, 0: none */
} vtrain_dit;

/* Makes the model that config describes and binds all its weights from src into p. *model is NULL
 * on failure. */
int vtrain_dit_open(void **model, const vtrain_family *f, const cJSON *config, vt_params *p,
                    const vt_source *src, vc_err *err);
void vtrain_dit_close(void *model);           /* NULL is fine */
/* Returns the prediction for an input that prepare has checked and completed. Of a model with sound
 * *sound gets the prediction of in->sound; else it may be NULL. */
vt_tensor *vtrain_dit_forward(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor **sound);
/* Calls the family's prepare, for in->side too, then vtrain_dit_forward. */
vt_tensor *vtrain_forward(vt_ctx *g, void *model, vtrain_in *in, vt_tensor **sound);

/* ---- dit.c: functions that families call ---- */

/* The index of the block that has these weights, among the blocks of all kinds. */
int vtrain_block_of(const void *model, const void *weights);
/* Joins the noisy latents with the pictures of `roles` (1 << vc_role) along channels, in the order
 * mask of `masks` channels, clips, image (zeros after its frame); a missing picture is zeros.
 * [B,..,f,h,w] */
vt_tensor *vtrain_join(vt_ctx *g, const vtrain_in *in, unsigned roles, int64_t masks);
/* For ControlNets: the tokens of the condition, zeros where the batch has none, or (known) of the
 * masked picture and of where it is known; this mask [B,1,f,h,w], which prepare makes; and what
 * changes in the fit of a transformer that has a ControlNet. */
vt_tensor *vtrain_condition_tokens(vt_ctx *g, const vtrain_in *in, vt_tensor *known,
                                   const int side[3]);
/* Makes *one of the first row of `in`, as a vtrain_in.side. */
void vtrain_first_row(vt_ctx *g, const vtrain_in *in, vtrain_in *one);
vt_tensor *vtrain_known_mask(vt_ctx *g, const vtrain_in *in);
/* The kinds of the rows' conditions, each a row of zeros with a 1 at its kind: [B,1,kinds]. */
vt_tensor *vtrain_control_kinds(vt_ctx *g, const vtrain_in *in, int64_t kinds);
void vtrain_fit_control(const vtrain_dit *m, bool masked, vtrain_fit *fit);
/* The tokens of in->x, and behind them those of each reference picture that the batch has. */
vt_tensor *vtrain_picture_tokens(vt_ctx *g, const vtrain_in *in, const int side[3]);
/* The `enter` of blocks behind those that run on the prompt alone: s[0] and s[1] change places, so
 * that the picture's tokens are first. */
void vtrain_swap_streams(vt_ctx *g, const void *model, vt_tensor *s[VT_BLOCK_IO]);
/* The noisy tokens of a sequence x [B,N,D] that begins with `noisy` of them, for a head of layers
 * that work on each token alone: where processes share the sequence, all tokens of this process in
 * its first part, so that each has some and reads the head's weights. end makes the noisy tokens of
 * the head's result. */
vt_tensor *vtrain_noisy_begin(vt_ctx *g, vt_tensor *x, int64_t noisy);
vt_tensor *vtrain_noisy_end(vt_ctx *g, vt_tensor *y, int64_t noisy);
/* The number of keys of each row, i32 [B], as kv_len of vt_attention: `before` tokens and the row's
 * text without padding. NULL: no row has padding. */
vt_tensor *vtrain_key_lengths(vt_ctx *g, const vtrain_cond *text, int64_t before);
/* For models that attend to padding like to any token: fails the step where a row's text is shorter
 * than others, since the dataset does not hold the embeddings of its padding. */
void vtrain_check_padding(vt_ctx *g, const vtrain_cond *text);
/* The size of an axis of a tensor of a file; 0: the file lacks the tensor. */
int64_t vtrain_size_in(const vt_source *src, const char *name, int axis);
/* The number of a file's tensors whose names are `format` with 0, 1, ... for its %d. */
int64_t vtrain_blocks_in(const vt_source *src, const char *format);
/* For models that read a text's pooled vector: fails the step where it is not `width` wide. */
bool vtrain_check_pooled(vt_ctx *g, const vtrain_cond *text, int64_t width);
/* For rotations of heads of `head` numbers along n axes: the numbers of each axis, which the field
 * of config.json has, must be even, and their sum `head`. */
int vtrain_check_axes(const char *field, const int64_t *axis, int n, int64_t head, vc_err *err);
/* Traces x under this name, where a trace is written. */
void vtrain_note(const vtrain_in *in, const char *name, const vt_tensor *x);
/* Traces the mask of a text: [B,n], 0 for padding and 1 for other tokens. prepare calls it, since
 * the mask comes from the host. */
void vtrain_note_mask(vt_ctx *g, const vtrain_in *in, const char *name, const vtrain_cond *text);

extern const vtrain_family vtrain_builtin;    /* builtin.c */
extern const vtrain_family vtrain_chroma;     /* chroma.c */
extern const vtrain_family vtrain_cogvideox;  /* cogvideox.c */
extern const vtrain_family vtrain_cosmos2;    /* cosmos2.c */
extern const vtrain_family vtrain_ernie_image; /* ernie_image.c */
extern const vtrain_family vtrain_flux;       /* flux.c */
extern const vtrain_family vtrain_flux2;      /* flux2.c */
extern const vtrain_family vtrain_hunyuan;    /* hunyuan.c */
extern const vtrain_family vtrain_hunyuan15;  /* hunyuan15.c */
extern const vtrain_family vtrain_ideogram4;  /* ideogram4.c */
extern const vtrain_family vtrain_kandinsky5; /* kandinsky5.c */
extern const vtrain_family vtrain_krea2;      /* krea2.c */
extern const vtrain_family vtrain_ltx;        /* ltx.c */
extern const vtrain_family vtrain_ltx2;       /* ltx2.c */
extern const vtrain_family vtrain_ltx2_sound; /* ltx2_sound.c: the same models */
extern const vtrain_family vtrain_qwen;       /* qwen.c */
extern const vtrain_family vtrain_sd3;        /* sd3.c */
extern const vtrain_family vtrain_skyreels2;  /* skyreels2.c */
extern const vtrain_family vtrain_ttt;        /* ttt.c */
extern const vtrain_family vtrain_wan;        /* wan.c */
extern const vtrain_family vtrain_wan_vace;   /* wan_vace.c */
extern const vtrain_family vtrain_zimage;     /* zimage.c */

#endif
