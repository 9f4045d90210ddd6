/* encoder.h - the interfaces of autoencoders, text encoders and vision models, and the families
 * whose encoders vprep has.
 *
 * vprep opens one encoder at a time: the text encoders one after the other, then the VAE. An
 * implementation is a const table of functions; its state belongs to one thread. */
#ifndef PRECOMPUTE_ENCODER_H
#define PRECOMPUTE_ENCODER_H

#include "buckets/buckets.h"
#include "common/tensor/tensor.h"
#include "formats/dataset/dataset.h"

enum { VAE_MAX_CHANNELS = 128 };

/* The entry of a dataset's manifest about the autoencoder that made the latents. */
typedef struct vae_info {
    const char *class;               /* diffusers' class name, or ours */
    vf_key fingerprint;              /* of weights and of config fields that change the output */
    int channels;
    int ratio[3];                    /* t, h, w */
    double scaling_factor, shift_factor;
    bool per_channel;                /* mean and std below are used */
    double mean[VAE_MAX_CHANNELS], std[VAE_MAX_CHANNELS];
    bool invert_scale_latents;
    bool has_logvar;                 /* encode gives one; else the posterior is a point */
    bool one_logvar;                 /* all channels have the same */
    int window;                      /* encoder_opts.window; 0: the family's number */
} vae_info;

/* The way from the prompts of a text encoder's slot to the values that the transformer reads. */
typedef struct text_rule {
    int max_length;                  /* tokens a prompt is cut or padded to; 0: the encoder knows */
    const char *template;            /* around the prompt, which stands at its "{}"; NULL: none */
    int crop;                        /* tokens in front, the template's, whose states are dropped;
                                      * max_length does not count them */
    int lead;                        /* tokens in front, the template's, whose states stay; 0: their
                                      * number is not checked */
    int tail;                        /* tokens behind the prompt, the template's, which are made
                                      * apart and stay where a prompt is cut; 0: they are cut */
    const char *chat;                /* a word that the chat template in the tokenizer's folder must
                                      * have; NULL: the folder needs none */
    int skip;                        /* layers at the end that are left out; 0: none, and the states
                                      * are those after the last norm */
    int taps[VC_TAPS];               /* instead: a token has the states after these layers, one
                                      * behind the other; layers count from 1, and 0 ends the
                                      * list. None after the last norm but the last layer's */
    bool taps_inner;                 /* the states of a channel stand behind each other instead */
    bool unnormed;                   /* the last layer's are without the last norm */
    const char *without;             /* a text that is cut out of prompts; NULL: none */
    const char *blank;               /* stands for the empty prompt; NULL: that stays empty */
    bool quoted;                     /* what prompts have in quotes is the text; of a prompt without
                                      * quotes a row of zeros is stored */
    bool stripped;                   /* prompts lose the white space at both ends */
    bool clean;                      /* prompts are cleaned first: precompute/text/clean.h */
    bool uncleaned;                  /* not cleaned, but keys are those of when they were, where
                                      * that changed nothing */
    bool pooled_only;                /* the transformer reads no states of tokens */
    bool masked;                     /* nor those of padding, which are not stored */
    bool unpadded;                   /* the encoder gets no padding either, */
    int padding;                     /* but for so many rows behind a prompt, which no other row
                                      * sees and whose states are stored */
    int interleave;                  /* every interleave-th state of a text's picture is stored in
                                      * front of the prompt's; 0: texts have no picture */
    const char *each;                /* in front of the prompt, within the template, for each of a
                                      * text's pictures, with the picture's number from 1 in place
                                      * of "{}"; NULL: texts have no such pictures */
    int absent;                      /* the encoder was left out: a text is one row of so many
                                      * zeros; 0: it was not */
    int picture_rows;                /* the most states of a text's pictures together */
    bool scenes;                     /* VF_SCENE_START and VF_SCENE_END (metadata.h) in prompts are
                                      * tokens of their own */
} text_rule;

typedef struct encoder_opts {
    const char *dir;                 /* component folder (or weights file); NULL: built-in ones */
    const char *tokenizer;           /* text encoders: the tokenizer's folder, */
    const char *beside;              /* text encoders: the folder of the component that makes
                                      * features of the states (vc_text.beside); or NULL */
    bool sound;                      /* text encoders: features for a clip's sound too, where they
                                      * differ from those for its video */
    const char *image_processor;     /* of texts with pictures and of vision models: the image
                                      * processor's folder */
    text_rule text;                  /* text encoders: the slot's; borrowed */
    vc_dtype dtype;                  /* of activations: VC_F32 or VC_BF16 */
    const char *device;
    int index;                       /* of the device where that gives no number */
    int threads;                     /* 0: all */
    vf_key weights;                  /* vf_model_hash of dir: part of the fingerprint */
    bool tiling;                     /* VAE: spatial tiles (less memory, other values) */
    int window;                      /* VAE: frames of a chunk, over which group norms take their
                                      * statistics; 0: the family's number */
    double norm_eps;                 /* VAE: replaces its config.json's batch_norm_eps; 0: that */
    /* A VAE whose decoder removes noise mixes decode_noise_scale (0..1) of noise into the latent;
     * decode_timestep (0..1) is the decoder's input for its amount. Other VAEs ignore both. */
    double decode_timestep, decode_noise_scale;
} encoder_opts;
static inline vt_options encoder_device(const encoder_opts *o)
{
    return (vt_options){ .device = o->device, .index = o->index, .threads = o->threads,
                         .compute = o->dtype };
}

/* The pixels of a clip, f32 [f,h,w,3] in -1..1: all in memory, or read in ranges of frames. */
typedef struct vae_input {
    const float *all;                /* NULL: `read` gives them */
    /* Writes the frames first..first+n-1 to x. A range may be read again. */
    int (*read)(void *arg, int first, int n, float *x, vc_err *err);
    /* Gets the share of the clip that is encoded, which rises to 1, after each chunk of frames.
     * NULL: not wanted. */
    void (*made)(void *arg, double share);
    void *arg;
} vae_input;

/* Takes decoded frames, u8 [.,h,w,3]: all into memory, or in ranges. */
typedef struct vae_output {
    uint8_t *all;                    /* NULL: `take` gets them */
    /* Gets the frames first..first+n-1, which last until it returns, in their order. */
    int (*take)(void *arg, const uint8_t *rgb, int first, int n, vc_err *err);
    void *arg;
    /* Path beside which a decoder in tiles makes temporary files, of about 5 bytes a pixel of the
     * clip, which lose their names at once. NULL: it holds that in memory. */
    const char *beside;
} vae_output;

typedef struct vae vae;
/* Two of the eight autoencoders have functions of their own here, so that a row has functions and
 * no vae_net: six `open` of one line cost 24 lines, which a field for the net would move to each
 * caller. */
typedef struct vae_class {
    const char *name;
    int (*open)(vae **out, const encoder_opts *o, vae_info *info, vc_err *err);
    void (*close)(vae *v);           /* NULL is fine */
    /* f frames of pixels, f = kj+1, h and w multiples of the ratio ->
     * mean and logvar f32 [C, (f-1)/k+1, h/r, w/r], raw (logvar clamped to [-30,20]). logvar may be
     * NULL. */
    int (*encode)(vae *v, const vae_input *pixels, int f, int h, int w, float *mean,
                  float *logvar, vc_err *err);
    /* z f32 [C,f,h,w] raw -> frames(f) frames [h*r, w*r, 3]. A decoder that cuts frames into tiles
     * gives the first of them when the last tile is made. */
    int (*decode)(vae *v, const float *z, int f, int h, int w, const vae_output *to, vc_err *err);
    /* Returns the number of frames that f latent frames decode to: at least (f-1)k+1, the first of
     * which are the clip. */
    int (*frames)(int f);
    /* Sets *bytes to the device memory that encode, or decode, takes for its arguments f, h, w
     * beside the weights and the kernels' scratch: by a dry step, exactly. */
    int (*memory)(vae *v, bool decode, int f, int h, int w, size_t *bytes, vc_err *err);
    /* The most frames of a clip of f that encode reads at once. */
    int (*chunk)(const vae *v, int f);
} vae_class;

typedef struct text_info {
    const char *class;
    vf_key fingerprint, tokenizer;
    text_rule rule;                  /* max_length is known */
    int rows;                        /* states that a text has at most */
    bool front;                      /* padding stands in front of prompts */
    bool padded;                     /* each text has `rows` states, those of padding among them */
    int width, pooled;               /* of a token's state, of the pooled one; 0: there is none */
    int batch;                       /* prompts that one call encodes at most. A prompt's bits are
                                      * the same alone and in a batch */
} text_info;

/* A prompt and the pictures beside it, if the encoder reads some. */
typedef struct text_picture {
    vf_key key;                      /* of everything that its pixels depend on */
    int h, w;
    const uint8_t *rgb;              /* [h,w,3] */
    int look_h, look_w;              /* the size in which the text encoder gets it, before it is
                                      * processed; 0: h and w */
} text_picture;
typedef struct text_input {
    const char *prompt;
    const text_picture *picture;     /* NULL: none; else the text's key is of all */
    int pictures;                    /* their number */
} text_input;

/* One encoded prompt; areas belong to the encoder and last until its next call. */
typedef struct text_result {
    int n, width;                    /* tokens to store, and their width; n 0: pooled only */
    const float *embeds;             /* [n,width] */
    int pooled_width;                /* 0: none */
    const float *pooled;
    int length;                      /* of ids and mask: padded as the encoder got them */
    const int64_t *ids, *mask;
    int side, features;              /* with a picture: of its pixels, and number of its states */
    const float *pixels;             /* [side,side,3] as the vision model gets them */
    const float *image_embeds;       /* [features,width] as the text model gets them */
} text_result;

typedef struct text_enc text_enc;
typedef struct text_class {
    const char *name;
    const struct text_model *model;          /* text/prompt.h */
    const struct text_model *pictured;       /* where texts have pictures by rule.each; NULL: as
                                              * model */
} text_class;
int text_open(text_enc **out, const text_class *class, const encoder_opts *o, text_info *info,
              vc_err *err);
void text_close(text_enc *t);        /* NULL is fine */
/* Encodes n prompts, 1..batch. Where one fails, no r[] is valid. */
int text_encode(text_enc *t, const text_input *in, int n, text_result *r, vc_err *err);

typedef struct vision_info {
    const char *class;
    vf_key fingerprint;              /* of weights, of the image processor, and of config fields
                                      * that change the states */
    int side;                        /* height and width of the pixels that the model gets */
    int tokens, width;               /* states of a picture: [tokens,width] */
} vision_info;

/* A model that looks at a picture of any size. */
typedef struct vision_enc vision_enc;
typedef struct vision_class {
    const char *name;
    int (*open)(vision_enc **out, const encoder_opts *o, vision_info *info, vc_err *err);
    void (*close)(vision_enc *v);    /* NULL is fine */
    /* rgb [h,w,3] -> pixels f32 [side,side,3], which the model gets, and states f32
     * [tokens,width]. */
    int (*encode)(vision_enc *v, const uint8_t *rgb, int h, int w, float *pixels, float *states,
                  vc_err *err);
    /* Sets *bytes to the device memory that encode takes beside the weights: by a dry step,
     * exactly. */
    int (*memory)(vision_enc *v, size_t *bytes, vc_err *err);
} vision_class;

enum { PREP_MAX_TEXTS = VC_FAMILY_TEXTS };
enum { PREP_NORMAL = VC_MODE_NORMAL, PREP_I2V = VC_MODE_I2V, PREP_INPAINT = VC_MODE_INPAINT };

/* A family whose encoders vprep has. */
typedef struct prep_family {
    const vc_family *is;             /* NULL: not found yet */
    const vae_class *vae;
    const text_class *text[PREP_MAX_TEXTS + 1];      /* NULL-ended */
    const vision_class *vision;      /* NULL: its transformers see no picture */
    bool from_files;                 /* its encoders have files; else it needs no model */
    const vc_pipeline *pipeline;     /* of the model's folder; NULL: there is no folder */
} prep_family;

/* Finds the family of a model folder (NULL: the built-in one). VC_EUSAGE names those known. */
int prep_family_of(prep_family *out, const char *model_dir, vc_err *err);
/* Finds a family and its pipeline by the class of the pipeline or a word for a version of it.
 * VC_EUSAGE: no family has it. */
int prep_family_by_version(prep_family *out, const char *word, vc_err *err);
/* Finds the one family that has this autoencoder and, where `wanted` is above 1, that many text
 * encoders. VC_EUSAGE if there is none, or several. */
int prep_family_by_vae(prep_family *out, const char *class, int wanted, vc_err *err);
/* Finds the autoencoder whose class a manifest or a config.json names. VC_EUSAGE if the class is
 * unknown. */
int prep_vae_by_class(const vae_class **out, const char *class, vc_err *err);

extern const vae_class vae_builtin, vae_cogvideox, vae_hunyuan, vae_hunyuan15, vae_ltx, vae_ltx2,
                       vae_wan, vae_qwen_image, vae_kl, vae_flux2;
extern const text_class text_builtin, text_t5, text_umt5, text_llama, text_llava, text_qwen2_5_vl,
                        text_qwen2_5_vl_text, text_qwen3, text_qwen3_whole, text_qwen3_vl,
                        text_mistral3, text_ministral3, text_gemma3, text_clip,
                        text_clip_projected, text_absent;
extern const vision_class vision_clip, vision_siglip;

#endif
