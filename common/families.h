/* families.h - what is known of each family of models: one row of facts a family.
 *
 * Buckets, export and both programs read it. Where a family needs code, a program has a table from
 * a class that this row names to functions (an autoencoder, a text encoder, a transformer). So
 * programs name no family, and which families one can run follows from the classes that it has. */
#ifndef COMMON_FAMILIES_H
#define COMMON_FAMILIES_H

#include <stdbool.h>

#include "common/base/dtype.h"
#include "common/base/err.h"

enum { VC_FAMILY_TEXTS = 3, VC_FAMILY_PIPELINES = 10, VC_FAMILY_INTERLEAVES = 2, VC_SLOTS = 4,
       VC_TAPS = 13, VC_FIRST_TYPES = 6, VC_FIRST_PARTS = 14, VC_REFERENCES = 4,
       VC_FAMILY_POSITIONS = 4 };

/* --train_mode: what is beside the noisy latents */
typedef enum vc_mode {
    VC_MODE_NORMAL, VC_MODE_I2V, VC_MODE_INPAINT,
    VC_MODE_CONTROL,                     /* a control clip */
    VC_MODE_CONTROL_REF,                 /* a control clip and the first frame */
    VC_MODE_EDIT,                        /* reference pictures, where a row has some */
    VC_MODE_VACE,                        /* a clip to edit in two parts with a mask, and reference
                                          * pictures where a row has some */
    VC_MODES
} vc_mode;
extern const char *const vc_mode_names[VC_MODES];

/* The levels that a flow's pipeline gives its scheduler for a sample of N steps, before these are
 * shifted. */
typedef enum vc_sigmas {
    VC_SIGMAS_EVEN,                      /* 1, 1 - 1/N .. 1/N */
    VC_SIGMAS_TO_ZERO,                   /* the first N of N + 1 from 1 to 0: the same, but rounded
                                          * otherwise */
    VC_SIGMAS_EVEN_EULER,                /* even for Euler's method, else none */
    VC_SIGMAS_OWN,                       /* none: the scheduler has its own */
    VC_SIGMAS_QUANTILES,                 /* those that cut the logit-normal levels, of a deviation
                                          * of 1.5, into parts of 1/N each, within bounds */
    VC_SIGMAS_KARRAS,                    /* s / (1 + s) of deviations s of noise from 80 to 0.002
                                          * whose 7th roots are even, whatever the shift; a sample
                                          * ends at the last, with its noise (Karras et al. 2022) */
    VC_SIGMAS_QUADRATIC                  /* by steps that are equal at first, then grow; the model
                                          * gets them as they are, not shifted */
} vc_sigmas;

/* A text encoder in the form that the transformer was trained with. */
typedef struct vc_text {
    const char *class;                   /* NULL ends a list */
    int max_length;                      /* tokens of a prompt; 0: the encoder knows */
    const char *template;                /* around the prompt, at its "{}"; NULL: none */
    int crop;                            /* tokens in front, the template's, whose states are
                                          * dropped; max_length does not count them */
    int lead;                            /* tokens in front, the template's, whose states stay:
                                          * with crop's the number that the tokenizer must make; 0:
                                          * the number is not checked */
    int tail;                            /* tokens behind the prompt, the template's, which are made
                                          * apart and stay where a prompt is cut; 0: the template is
                                          * cut with the prompt */
    const char *chat;                    /* a word of the chat template in the tokenizer's folder,
                                          * whose result for one prompt `template` is; NULL: the
                                          * folder needs none */
    const char *without;                 /* a text that is cut out of prompts; NULL: none */
    int skip;                            /* layers at the encoder's end that are left out; 0: none,
                                          * and the last norm is in */
    int taps[VC_TAPS];                   /* instead: a token has the states after these layers, one
                                          * behind the other in this order; layers count from 1,
                                          * and 0 ends the list */
    bool taps_inner;                     /* the states of a channel stand behind each other instead,
                                          * a channel's after another's, and */
    bool unnormed;                       /* those after the last layer are without the last norm */
    const char *beside;                  /* the component of the pipeline whose first layer makes
                                          * the stored features of the encoder's states; NULL: the
                                          * states are stored */
    const char *blank;                   /* stands for the empty prompt; NULL: that stays empty */
    bool quoted;                         /* it reads what a prompt has in quotes (text_glyphs of
                                          * precompute/text/clean.h), and of a prompt without quotes
                                          * nothing: the state is then a row of zeros, which the
                                          * transformer does not see */
    bool stripped;                       /* prompts lose the white space at both ends */
    bool clean;                          /* before prompts become tokens, wrongly decoded text is
                                          * repaired, and HTML's names of characters and runs of
                                          * white space are replaced */
    bool uncleaned;                      /* prompts stay as they are, but older versions cleaned
                                          * them: what that left alone keeps its key */
    bool masked;                         /* the transformer never sees rows of padding, */
    bool unpadded;                       /* nor do the encoder's tokens, whose states then differ */
    int padding;                         /* with both: so many rows of padding behind a prompt are
                                          * seen by the transformer, though not by the encoder's
                                          * tokens; a prompt of max_length has none */
    bool pooled_only;                    /* it reads no states of tokens */
    bool fixed;                          /* prompts have max_length tokens whatever a flag or the
                                          * transformer's config.json says */
    bool optional;                       /* a pipeline may be without it: a text is then one row of
                                          * zeros, by which the transformer knows that */
    const char *width_field;             /* the integer of transformer/config.json with the width of
                                          * these states (or pooled vectors); or NULL */
    bool picture;                        /* a text has its clip's first frame, some of whose states
                                          * stand in front of the prompt's (interleaves) */
    const char *each;                    /* a text has its sample's reference pictures: this stands
                                          * in front of the prompt for each, with its number from 1
                                          * at "{}"; NULL: it has none */
} vc_text;

/* The class in a dataset's manifest of a text encoder that was left out. */
#define VC_NO_TEXT "none"

/* The reference pictures of models that edit: their number and their sizes. */
typedef struct vc_references {
    int most;                            /* of a sample, at most VC_REFERENCES; 0: models take
                                          * none */
    const short (*sizes)[2];             /* heights and widths, of which a picture gets the one of
                                          * the nearest ratio; NULL: it gets the area */
    int n_sizes;
    int side;                            /* of the square that has the area of a picture */
    bool limit;                          /* smaller pictures keep their sizes. What is above a
                                          * multiple is cut at both edges; else the whole picture is
                                          * resized to it */
    int multiple;                        /* of sides */
    int look;                            /* of the square that has the area of the copy that the
                                          * text encoder sees, with the same multiple; 0: it sees
                                          * the picture in the autoencoder's size */
    bool framed;                         /* a picture has the clip's size: it is resized whole, and
                                          * what it leaves free is white */
} vc_references;

typedef struct vc_pipeline {
    const char *class;                   /* _class_name of model_index.json; NULL ends a list */
    vc_mode mode;                        /* what it was made for */
    const char *published;               /* names of its folders on the hubs; NULL: its files tell
                                          * it */
    const char *versions;                /* words for it, of musubi-tuner's --model_version; NULL:
                                          * none */
    const char *flag;                    /* a field that is true in the config.json of its
                                          * transformers, or that their files lack; or NULL */
    const vc_text *text;                 /* its text encoders, where they are not the family's */
    const vc_references *references;     /* likewise */
    vc_sigmas sigmas;
    bool steps_shift;                    /* where the shift of a sample's levels follows from its
                                          * tokens, it follows from the number of steps too
                                          * (train/diffusion/shift.h) */
    bool begins;                         /* it always has a picture, the clean first latent of its
                                          * clips: --first_frame_conditioning_p is 1 by default */
    double image_noise;                  /* at level s of a sample its clean first frame has noise
                                          * of the deviation image_noise s^2 */
} vc_pipeline;

/* What positions of a transformer are counted along: an axis of the latents, or the prompt. */
typedef enum vc_axis { VC_AXIS_FRAMES, VC_AXIS_ROWS, VC_AXIS_COLUMNS, VC_AXIS_TEXT,
                       VC_AXES } vc_axis;

/* A limit of the sizes that a transformer has positions for. */
typedef struct vc_positions {
    const char *field;                   /* an integer of transformer/config.json, or a list of
                                          * them; NULL ends the rows of a family */
    int item;                            /* the integer's index in a list */
    int none;                            /* the value of a file without the field */
    vc_axis axis;
    bool latents;                        /* positions are those of latents, not of tokens */
    const char *with;                    /* a field that must be true, or above 0, for the limit to
                                          * count; NULL: it always counts */
    bool table;                          /* positions are a stored table, of this size alone */
    int fill, beside;                    /* of a prompt: its tokens are filled up to multiples of
                                          * `fill`, and `beside` positions more are needed */
} vc_positions;

/* A model folder in the layout of its first authors, who publish no model_index.json. */
typedef struct vc_first {
    const char *class;                   /* _class_name of the transformer's config.json */
    const char *type_field;              /* a word there, which names the row of `type`; NULL:
                                          * the first */
    struct {
        const char *type, *pipeline;     /* NULL ends the list */
        double boundary;                 /* boundary_ratio of a model of two transformers */
        bool ends;                       /* the last frame is known, as the first is */
    } type[VC_FIRST_TYPES];
    const char *channels_field, *out_field;      /* their names of vc_family.channels_field and of
                                          * out_channels */
    struct {
        const char *slot, *name;         /* the component of diffusers, and their file or folder;
                                          * NULL ends the list */
    } part[VC_FIRST_PARTS];
} vc_first;

typedef struct vc_family {
    const char *name;                    /* as in manifests and in trainers' states */
    const char *title;                   /* its models, as people call them; NULL: it has no
                                          * pipeline of its own */

    /* sizes and frame counts (docs/sampling.md) */
    int multiple;                        /* q: sides of buckets are multiples of it; sides of a
                                          * fixed size of ratio[1] times patch, a divisor */
    int ratio[3];                        /* of the autoencoder: t (k: frames are kj+1), h, w */
    int patch;                           /* rows and columns of a token: for token counts */
    int patch_t;                         /* latent frames are a multiple of it; 1: any number */
    int max_frames;                      /* 0: any; 1: stills only, videos are dropped */

    /* the autoencoder; NULL: nothing is known of it and of the texts */
    const char *vae;                     /* its class, as diffusers names it, or ours */
    int channels;
    double scaling, shift;               /* x = (z - shift) * scaling, where there is no mean */
    bool invert;                         /* invert_scale_latents */
    const double *mean, *std;            /* [channels]; NULL: there are none, or (LTX) they lie in
                                          * the VAE's weights */
    double norm_eps;                     /* what is added to variances in the VAE's weights before
                                          * the root, whatever the VAE's config.json has; 0: that */
    bool statistics_last;                /* of squares: the statistics in the VAE's file, and the
                                          * transformer, have a place's channel last (row,
                                          * column, channel), and latents have it first */
    bool cached;                         /* other trainers keep caches of it: export, import */

    const char *audio_vae;               /* the class of the autoencoder of a clip's sound, in the
                                          * folder audio_vae; NULL: the models have no sound */
    vc_references references;            /* of --train_mode edit */
    const char *vision;                  /* the class of the model that looks at known frames, for
                                          * transformers with a vision_field; NULL: none do */
    const char *processor;               /* the folder of that model's image processor; NULL:
                                          * image_processor */
    vc_text text[VC_FAMILY_TEXTS];       /* of pipelines that have none of their own */

    bool by_model;                       /* a VAE without a model's folder is an earlier row's,
                                          * which has the same one */

    /* the transformer */
    const char *transformer;             /* its class; NULL: another row's */
    vc_pipeline pipeline[VC_FAMILY_PIPELINES];   /* none: no model folder says this family */
    const vc_first *first;               /* NULL: their folders are diffusers' or are not read */
    /* fields of transformer/config.json that preparation depends on; NULL: none */
    const char *length_field;            /* an integer, instead of text[].max_length */
    const char *patch_t_field;           /* an integer above 1 selects the sizes of row patched */
    const char *patched;
    const char *wider;                   /* the row of models whose out_channels are its channels;
                                          * NULL: there are none */
    const char *noise_field;             /* true: inpainting noises the known pixels */
    const char *channels_field;          /* an integer: which of `inputs` tells the mode */
    int inputs[VC_MODES];                /* 0: none. The mode is the pipeline's if it has as many
                                          * inputs or none has, else the first that has */
    bool controlnet;                     /* in the mode control a ControlNet beside the transformer
                                          * takes the condition; the transformer's inputs stay */
    vc_positions positions[VC_FAMILY_POSITIONS];
    const char *vision_field;            /* an integer: the width of the states of the known frames
                                          * that it attends to; 0: it attends to none */
    const char *ends_field;              /* an integer above 0: the last frame is known too */
    const char *interleave_field;        /* a word: how many of a picture's states texts have */
    struct {
        const char *word;                /* NULL ends the list */
        int interleave;                  /* every interleave-th state */
    } interleave[VC_FAMILY_INTERLEAVES];

    /* how it is prepared unless a flag says otherwise */
    bool moments;                        /* mean and variance are stored, else the mode */
    vc_dtype dtype;                      /* that encoders compute in */
    bool loaded_masks;                   /* VideoX-Fun draws masks before it cuts frames */
    bool masked_frames;                  /* image-to-video has the values of inpainting: a clip that
                                          * is masked but for its first frame */
    bool grey_masks;                     /* masked pixels are 0, grey, and not -1, black */
    bool folded_masks;                   /* masks have a number for each of a latent frame's pixel
                                          * frames, not their mean */
    bool pixel_masks;                    /* masks have a number for each pixel of a latent place, 1
                                          * where it is to be generated */
    bool clean_images;                   /* first frames are trained with as they are, never with
                                          * pixel noise */
    bool begins_with_latent;             /* a picture enters the transformer as the sample's first
                                          * latent, which is also the clip's own: only prompts'
                                          * pictures are encoded apart, in every mode but those that
                                          * `inputs` tells from the number of channels */
    bool known_frames;                   /* in mode normal a sample may go on from a clip, and end
                                          * with a picture: prompts' clips are encoded apart */
} vc_family;

/* All of them, ended by a NULL name. The first is the built-in one, which needs no files. */
const vc_family *vc_families(void);
const vc_family *vc_family_find(const char *name);                   /* NULL if unknown */
/* By the class of the transformer; NULL if unknown. */
const vc_family *vc_family_of_transformer(const char *class);
/* The family's pipeline of that class; NULL: it has none. */
const vc_pipeline *vc_family_pipeline(const vc_family *f, const char *class);
/* The pipeline whose published folder, as "Qwen-Image-Edit-2509", is one of the path's; NULL: there
 * is none. */
const vc_pipeline *vc_family_published(const char *path);
/* Whether the family's pipelines that edit pictures have texts of their own. */
bool vc_family_edits_differ(const vc_family *f);
/* The pipeline of this class, or of one of its versions; NULL: the family has none. */
const vc_pipeline *vc_family_version(const vc_family *f, const char *word);
/* Fails, naming --model_version and the versions that there are, unless a family has the word. */
int vc_family_version_check(const char *word, vc_err *err);
/* The first authors' layout whose transformer has this class; NULL if unknown. */
const vc_first *vc_family_first(const char *class);
/* The interleave of a word of f->interleave_field; 0: the family has no such word. */
int vc_family_interleave(const vc_family *f, const char *word);
/* The text encoders of a family's pipeline (NULL: no pipeline is known): VC_FAMILY_TEXTS rows. */
const vc_text *vc_family_texts(const vc_family *f, const vc_pipeline *p);

/* The reference pictures of a family's pipeline (NULL: no pipeline is known). */
const vc_references *vc_family_references(const vc_family *f, const vc_pipeline *p);

/* Folders of a model's text encoders and tokenizers: "text_encoder", "text_encoder_2", ... */
extern const char *const vc_text_slots[VC_SLOTS], *const vc_tokenizer_slots[VC_SLOTS];

#endif
