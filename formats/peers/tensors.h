/* tensors.h - the tensors of a sample in a peer's files, by one table for export and import.
 *
 * A row says for a family under which names the peer keeps latents, texts and known frames, and in
 * which axes and types. The values of a file are a dictionary, whatever its container
 * (containers.h). In a name FxHxW stands for the sizes of the latents, "9x6x8", HxW for those of a
 * still, "6x8", and TYPE for a type in torch's words, "bfloat16". See exchange.h */
#ifndef FORMATS_PEERS_TENSORS_H
#define FORMATS_PEERS_TENSORS_H

#include "formats/peers/containers.h"

/* Tokens are a still's places, row by row: [HW,C]. */
typedef enum exchange_axes {
    EXCHANGE_CFHW, EXCHANGE_FCHW, EXCHANGE_CHW, EXCHANGE_TOKENS
} exchange_axes;
/* How an import finds the end of a text among rows of padding. */
typedef enum exchange_trim {
    EXCHANGE_ALL_ROWS, EXCHANGE_BY_MASK, EXCHANGE_BY_LENGTH, EXCHANGE_BY_ZEROS
} exchange_trim;

/* A text encoder, in the dataset's order. */
typedef struct exchange_text_names {
    const char *embeds, *pooled;             /* [n,D], [P]; NULL: the peer does not keep them */
    const char *mask, *length;               /* [n], a number: the rows that are no padding */
    int64_t padded;                          /* export: rows to which zeros are added if the dataset
                                              * names no max_length; 0: none are added */
    bool whole;                              /* import: all rows are the encoder's max_length */
    bool list;                               /* embeds are a list of one tensor, without a batch */
    int64_t layers;                          /* states are [n,layers,D/layers]; 0: [n,D] */
    bool none;                               /* a prompt may have no rows, [0,D], for which a
                                              * dataset has one row of zeros */
    int64_t most;                            /* import: rows that the model reads; those after them
                                              * are left out; 0: all */
    exchange_trim trim;
} exchange_text_names;

enum { EXCHANGE_NAMED_TEXTS = 2, EXCHANGE_NAMED_CONDITIONS = 8 };
typedef struct exchange_names {
    const char *family;                      /* NULL ends a table */
    const char *latents;
    const char *clip, *vision;               /* known frames of image-to-video, with their mask, and
                                              * CLIP's states; NULL: they are left out */
    const char *references;                  /* reference pictures: with #, the number of one from
                                              * 0, or of a model that takes one alone; NULL: they
                                              * are left out */
    const char *places;                      /* of the references' tokens, which are packed by 2x2
                                              * then; NULL: references have the latents' axes */
    exchange_axes axes;                      /* of the latents and references */
    const char *sides[2];                    /* of tokens: numbers, the height and width in
                                              * pixels */
    bool batch;                              /* tensors have an axis of 1 in front */
    bool moments;                            /* latents are mean and logvar */
    bool drawn;                              /* latents are draws from the posterior */
    vc_dtype type, text_type, vision_type;   /* VC_DTYPE_NONE: the dataset's */
    double fps;                              /* rate of all clips; 0: not known */
    const char *conditions[EXCHANGE_NAMED_CONDITIONS];      /* tensors that an import leaves out */
    int n_text;
    exchange_text_names text[EXCHANGE_NAMED_TEXTS];
    int64_t width;                           /* of the first encoder's texts, which chooses one of
                                              * the family's rows; 0: any */
    const char *pipeline;                    /* the class of the family's pipeline that has these
                                              * texts; NULL: the first */
} exchange_names;

/* Returns the row of x's family for an export, of several the first whose texts are as wide as the
 * dataset's. f's rows begin with an exchange_names. NULL: there is none, VC_EMISMATCH. */
const exchange_names *exchange_row(const exchange_format *f, const exchange *x, vc_err *err);

/* Writes the full name of a tensor [C,f,h,w], of a still's [C,h,w], or of any other one into buf;
 * returns buf, or `name` itself where no part of it varies. */
enum { EXCHANGE_FULL_NAME = 160 };
const char *exchange_full_name(char buf[EXCHANGE_FULL_NAME], const char *name, const vf_view *v);
/* Writes the name of reference k into buf. */
const char *exchange_reference_name(char buf[EXCHANGE_FULL_NAME], const exchange_names *l, int k);
/* Returns the length of the part of a name before its first sizes or type. */
size_t exchange_name_start(const char *name);

/* Add a sample's tensors to a dictionary, which owns their bytes. VC_EMISMATCH: the dataset lacks
 * one of them. */
int exchange_add_latents(exchange_dict *d, const exchange *x, const exchange_names *l,
                         const exchange_sample *s, vc_err *err);
int exchange_add_known(exchange_dict *d, exchange *x, const exchange_names *l,
                       const exchange_sample *s, vc_err *err);
int exchange_add_texts(exchange_dict *d, const exchange *x, const exchange_names *l,
                       const exchange_sample *s, vc_err *err);
/* Adds a tensor for each reference picture of the sample. */
int exchange_add_references(exchange_dict *d, exchange *x, const exchange_names *l,
                            const exchange_sample *s, vc_err *err);
/* Adds v, converted to type t, with zeros up to `rows` rows of its first axis. */
int exchange_add_tensor(exchange_dict *d, const char *name, vf_view v, vc_dtype t, int64_t rows,
                        vc_err *err);

/* Set an item's views to the tensors of a file; texts: all encoders of the row. Latents of stills
 * may have an axis of one frame or none. Moments in the order [f,2C,h,w], and tokens, are copied to
 * *own, which the caller frees. VC_EFORMAT, VC_ENOENT name the tensor. */
int exchange_take_latents(exchange_item *m, exchange *x, const exchange_names *l,
                          const vf_pt_value *d, void **own, vc_err *err);
int exchange_take_texts(exchange_item *m, const exchange_names *l, const vf_pt_value *d,
                        vc_err *err);
/* The same for encoder i alone; its tensors are those of the dictionary d. */
int exchange_take_text(exchange_item *m, int i, const exchange_names *l, const vf_pt_value *d,
                       vc_err *err);
/* Sets the item's references, as many as there are. */
int exchange_take_references(exchange_item *m, const exchange_names *l, const vf_pt_value *d,
                             vc_err *err);
/* True if d has all tensors that the row names for encoder i, and those of the first encoder are
 * a list and of a width as the row says. */
bool exchange_has_text(const exchange_names *l, int i, const vf_pt_value *d);
/* Finds the row whose names of texts are there, with the width that it says: of several families
 * the last one that has the latents' channels, else the first row. NULL: there is none. */
const exchange_names *exchange_guess(const exchange_names *rows, const vf_pt_value *latents,
                                     const vf_pt_value *texts);

#endif
