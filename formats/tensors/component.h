/* component.h - opens an encoder's weights where users have them: the folder of a diffusers model,
 * or one file with its first authors' names (Wan2.1_VAE.pth, ae.safetensors) or those of
 * transformers (clip_l.safetensors).
 *
 * A vf_layout describes such a file. Its tensors get the names and the shapes of diffusers' or
 * transformers' class, as views of the same bytes, so that an encoder, its hash and the keys of a
 * dataset are those of a folder with the same values. The fields of config.json are the layout's
 * constants and the sizes of its tensors. */
#ifndef FORMATS_TENSORS_COMPONENT_H
#define FORMATS_TENSORS_COMPONENT_H

#include "common/families.h"
#include "formats/json/json.h"
#include "formats/tensors/model.h"

/* A step of renaming: words of a tensor's name are replaced. The words begin at the name's begin or
 * behind a dot, and end at its end or before a dot; a '#' in them is a number. The steps of a table
 * are taken one after the other. */
typedef struct vf_rename {
    const char *from;                    /* NULL ends the table */
    const char *to;                      /* each '#' is the number in from; "{q,k,v}": the tensor is
                                          * cut along its first axis into equal parts of these
                                          * names; NULL: the tensor is left out */
    bool squeeze;                        /* dims of 1 are removed from the tensor's shape */
    int rows;                            /* a tensor of one axis becomes this many rows; 0: it
                                          * stays */
} vf_rename;

/* A field of config.json that is a size of a tensor. */
typedef struct vf_sized {
    const char *field;                   /* NULL ends the table */
    const char *tensor;                  /* a '#' is 0 */
    int axis;
    int divide;                          /* the size is divided by it; 0: by 1 */
    const char *by;                      /* the field, of an earlier row, that divides the size */
    enum { VF_SIZE, VF_SIZE_COUNT, VF_SIZE_LIST, VF_SIZE_LAST_FIRST } kind;  /* COUNT: the number
                                          * of such tensors, whose '#' counts from 0; LIST: the
                                          * sizes of all; LAST_FIRST: from the last to the first */
} vf_sized;

typedef struct vf_layout {
    const char *marks[2];                /* tensors that only files of this layout have; the second
                                          * may be NULL; NULL ends the layouts */
    const char *within;                  /* the component's tensors have this prefix, which is cut
                                          * off before names are replaced, and others are left out;
                                          * NULL: all are the component's */
    const char *const *only;             /* or, NULL-ended: the component's tensors have one of
                                          * these prefixes after names were replaced */
    const char *class, *also;            /* the class of diffusers or transformers; another class
                                          * with the same names, or NULL */
    const char *slot;                    /* of the component in a model's folder */
    const vf_rename *names;              /* NULL: the names are those of the class */
    const char *config;                  /* JSON of the constant fields */
    const char *constants;               /* the family whose means and deviations of channels are
                                          * latents_mean and latents_std; NULL: there are none */
    const vf_sized *sizes;
    int (*more)(cJSON *config, const vf_model *m, vc_err *err);      /* adds the fields that no
                                          * constants and sizes are; NULL: there are none */
    bool beside;                         /* a config.json beside the file comes before the fields
                                          * here, which are those of one model of many */
} vf_layout;
extern const vf_layout vf_layouts[];

/* Opens a component. A folder is opened as by vf_model_open, a file by its layout; a file of no
 * layout has the names that it has. Of a file of several components that of `slot` is opened; NULL,
 * or a slot that the file lacks: the first. */
int vf_component_open(vf_model **out, const char *path, const char *slot, vc_err *err);
/* Reads config.json of a folder, or makes the config.json of a file for the class (NULL: the
 * layout's own); a file of no layout, or of one that many models have, has the config.json beside
 * it. Of a file of several components that of `slot` or of the class is meant. VC_EUSAGE: the file
 * has neither, or the layout of another class. The caller deletes *out. */
int vf_component_config(cJSON **out, const char *path, const char *slot, const char *class,
                        vc_err *err);

/* Finds the component that model has in `slot` ("vae", "text_encoder", "tokenizer", ...). *path
 * becomes the folder model/slot, or the file or folder that its first authors publish, or model
 * itself where that is a file which holds several components and this one, or NULL if none is
 * there. The caller frees *path. */
int vf_component_find(char **path, const char *model, const char *slot, vc_err *err);
/* Sets *slot to the slot of the layout of a file or a folder, or to NULL if it has no layout. */
int vf_component_slot(const char **slot, const char *path, vc_err *err);
/* Sets *config to the config.json of the model's (first) transformer, which is in its folder, in
 * the model's own folder, or made of the weights there; NULL: there is none. The caller deletes
 * *config. */
int vf_component_transformer(cJSON **config, const char *model, vc_err *err);
/* Returns the layout of the first authors to whose transformers config belongs, or NULL. */
const vc_first *vf_component_first(const cJSON *config);
/* Sets *type to the row of first->type that config names. VC_EFORMAT: there is no such row. */
int vf_component_type(const vc_first *first, const cJSON *config, int *type, vc_err *err);

#endif
