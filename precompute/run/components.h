/* components.h - a run's encoders: their folders, their options, and their identities.
 *
 * A component is a folder of a diffusers model (model_index.json above it, config.json and weights
 * in it), or any folder that a flag names in its place. Nothing is downloaded. */
#ifndef PRECOMPUTE_RUN_COMPONENTS_H
#define PRECOMPUTE_RUN_COMPONENTS_H

#include "buckets/buckets.h"
#include "common/os/progress.h"
#include "formats/metadata/metadata.h"
#include "precompute/encoder.h"
#include "precompute/run/options.h"
#include "precompute/sound/audio_vae.h"

typedef struct prep_part {
    char *dir, *tokenizer;       /* owned; NULL: built-in */
    char *image_processor;       /* owned; NULL: the encoder gets no pictures */
    char *beside;                /* owned; NULL: the encoder's states are stored */
    encoder_opts opts;           /* for open: borrows the four */
    const char *slot;            /* of the component, once its weights are hashed */
    vf_key files;                /* of the names, sizes, times and inodes of its weights' files */
    bool to_remember;            /* the hints of --out do not have opts.weights yet */
} prep_part;

typedef struct prep_limit {
    const vc_positions *is;      /* NULL: there is no limit along the axis */
    int64_t n;                   /* positions; a stored table has so many, else at most so many */
} prep_limit;

typedef struct prep_encoders {
    prep_family family;
    prep_part vae_part, audio_part, vision_part, text_part[PREP_MAX_TEXTS];
    vae_info vae;
    audio_info audio;            /* with --with_audio */
    vision_info vision;          /* of models that see pictures */
    text_info text[PREP_MAX_TEXTS];
    int n_text;
    int64_t width[PREP_MAX_TEXTS];   /* that the transformer takes of each encoder; 0: unknown */
    int absent[PREP_MAX_TEXTS];      /* text_rule.absent */
    int64_t vision_width;        /* the same of the vision model */
    prep_limit limit[VC_AXES];   /* sizes that the transformer has positions for */
    const vc_pipeline *published;    /* that of the transformer's folder, as its authors name it,
                                      * where files alone are given; NULL: the name is unknown */
    bool black;                  /* masked pixels are black, for a ControlNet, in a family whose are
                                  * grey */
    bool mask_noise;             /* inpaint: pixel noise on the pixels that no mask covers */
    bool sees;                   /* the transformer attends to a vision model's states */
    bool ends;                   /* image-to-video knows the last frame besides the first */
    int interleave;              /* of the transformer, of texts with pictures; 0: not known */
} prep_encoders;

void prep_part_free(prep_part *part);                /* an all-zero one is fine */

/* *out: the folder of a component, malloc'ed: `given` (the value of --flag: the component, or a
 * folder that holds it), else model/slot. VC_EUSAGE names the flag that helps. */
int prep_component_dir(char **out, const char *model, const char *given, const char *slot,
                       const char *flag, vc_err *err);
/* *out: the folder that holds a component's folder `slot`, malloc'ed: the model's; without a model
 * that above the folder of another part, a file or a folder, if it has the slot; else NULL. */
int prep_component_home(char **out, const char *model, const char *part, const char *slot,
                        vc_err *err);
/* *out: the folder `slot` of a pipeline's folder, malloc'ed. VC_EUSAGE: the model (or NULL) has
 * none; the message says what the component does. */
int prep_part_of(char **out, const char *model, const char *slot, const char *does, vc_err *err);
/* Refuses a VAE's folder whose config.json has the class of another family's: VC_EUSAGE. A folder
 * without a class, and a file, are left to what opens them, which compares the tensors. */
int prep_check_vae_class(const vprep *p, const char *dir, vc_err *err);
/* Compares the config.json of --vae with that of the model's own VAE, with which the transformer was
 * trained: VC_EUSAGE where the number of channels differs; another constant is a warning. */
int prep_check_vae_model(const vprep *p, const char *dir, vc_err *err);
/* Leaves out the text encoder of a slot that the family's pipelines may be without, if the flag of
 * the slot or model_index.json says so. A folder that only lacks the files, as after a broken
 * download, is left to the caller. */
int prep_leave_out(vprep *p, int slot, vc_err *err);
bool prep_is_file(const char *path);
/* _class_name of DIR/config.json, or of the component `slot` in a file. */
int prep_component_class(char *name, size_t size, const char *dir, const char *slot, vc_err *err);

/* Checks that the weights are those that were hashed: called when they are mapped, and after their
 * last use. VC_EMISMATCH. */
int prep_part_unchanged(const prep_part *part, vc_err *err);
/* Keeps a part's hash with the dataset. */
int prep_part_remember(const prep_part *part, vf_writer *w, vc_err *err);

/* The family, and the folders of its encoders, from the flags and the model's folder. *sizes: the
 * row that sizes and frame counts follow. Opens no encoder. Errors may also be in p->flags. */
int vprep_components(vprep *p, const vc_family **sizes, vc_err *err);
/* positions.c. Reads the limits of a family from a transformer's config.json. */
int prep_positions_read(prep_limit limit[VC_AXES], const vc_family *f, const cJSON *config,
                        vc_err *err);
/* VC_EUSAGE: a sample of this row, with the chosen size, is beyond the limits, and vtrain would
 * refuse its latents. */
int prep_positions_check(const vprep *p, const vf_row *row, const vb_choice *c, vc_err *err);
/* Adds an error to those of the flags where prompts may have more tokens than there are positions
 * for. */
void prep_positions_check_text(vprep *p, int max_length);
/* inputs.c. Takes --extra_inputs: DiffSynth's inputs set --train_mode, or are added to the errors
 * of the flags where the model does not take them; columns to keep remain. mode: the model's. */
void prep_take_inputs(vprep *p, vc_mode mode);
/* Opens each encoder once for the facts of it. hash: with the weights' hashes, so that fingerprints
 * and keys can be made. */
int vprep_identify(vprep *p, bool hash, vc_err *err);
/* Keeps the weights' hashes with the dataset. */
int vprep_remember(vprep *p, vc_err *err);

#endif
