/* exchange_parts.h - the state of an import, for sink.c, frame.c, texts.c and single formats. */
#ifndef FORMATS_PEERS_EXCHANGE_PARTS_H
#define FORMATS_PEERS_EXCHANGE_PARTS_H

#include "formats/peers/exchange.h"

/* The text embeddings of another dataset (--texts), by caption. */
typedef struct exchange_texts exchange_texts;
/* Opens the dataset. VC_EMISMATCH: its family has other text encoders. */
int exchange_texts_open(exchange_texts **out, const char *path, const vc_family *family,
                        vc_err *err);
/* Return `text_encoders` and `root` of the dataset's manifest, borrowed. */
const cJSON *exchange_texts_encoders(const exchange_texts *t);
const char *exchange_texts_root(const exchange_texts *t);
/* Puts the values of the encoders' empty prompts. */
int exchange_texts_empty(const exchange_texts *t, vf_writer *w, vc_err *err);
/* Puts the values of a caption's texts, and of the empty prompt that the sample has of its own,
 * with its pictures; the caller frees *keys and *empty, the lists of their keys for a record, of
 * which *empty may be NULL. Of several samples with the caption that of the same stem as path
 * counts. VC_ENOENT: the dataset has no such caption. VC_EMISMATCH: it has several with other
 * texts, none of them of the stem. */
int exchange_texts_put(const exchange_texts *t, vf_writer *w, const char *path,
                       const char *caption, cJSON **keys, cJSON **empty, vc_err *err);
void exchange_texts_close(exchange_texts *t);                      /* t may be NULL */

/* How much shorter than its clip, in latent frames, an imported sound may be. */
#define EXCHANGE_SOUND_SHORT 1.5

struct exchange_sink {
    vf_writer *w;
    exchange_texts *texts;                   /* texts of --texts; NULL: the items have their own */
    bool whole;                              /* values have their keys, records are not changed */
    bool edit;                               /* the dataset is one of edits */
    bool own_empty;                          /* a sample has an empty prompt with its pictures */
    int channels, n_text, store;             /* store: 0 mean, 1 moments, 2 sample */
    vc_dtype dtype, peer_dtype;              /* type in the dataset, type in the peer's files */
    struct exchange_encoder {
        bool embeds;                         /* items have states of tokens, not only a pooled
                                              * one */
        int64_t width, pooled, max_length;
        vc_dtype dtype;
        vf_key fingerprint;
    } text[EXCHANGE_TEXTS];
    vf_keymap paths;                         /* path -> number of items with this path */
    uint32_t next;                           /* number of the next sample */
    uint32_t records;                        /* samples that were put */
    uint64_t values, inexact;                /* normalised values; those that raw f32 changes */
};

/* sink_check.c. Reads all values of a view, unless it has no data: VC_ENUMERIC where one is NaN or
 * infinite; `what` is its name in the error. */
int exchange_check_finite(const vf_view *v, const char *what, vc_err *err);
/* Checks the shapes, types and values of an item's latents. */
int exchange_check_latent(const exchange_item *m, vc_err *err);
/* Checks the reference pictures of an item in the same way. */
int exchange_check_references(const exchange_item *m, vc_err *err);
/* Makes *v, normalised latents, a view of raw f32 values in *own, which the caller frees, and
 * counts the values that normalising would not give again. */
int exchange_denormalized(exchange *x, vf_view *v, float **own, vc_err *err);
/* Checks text i of an item, and compares it with the first item's, t, unless t is NULL. */
int exchange_check_text(const struct exchange_encoder *t, const exchange_item *m, int i,
                        vc_err *err);
/* Warns that a dropped caption of an edit is the prompt without pictures, where the family's texts
 * have some. */
void exchange_say_empties(const exchange *x);
/* Checks a whole value of a dataset, of a text or of latents: it has the tensors of one kind of
 * value (docs/format.md) and no others, and all numbers are finite. */
int exchange_check_value(bool text, const vf_safetensors *st, vc_err *err);

#define EXCHANGE_VIDEOS "videos.txt"
typedef int (*exchange_pair_fn)(exchange *x, const char *root, const char *video,
                                const char *prompt, vc_err *err);
/* Calls fn for each pair of lines of ROOT/videos.txt and ROOT/prompts.txt (or prompt.txt), as
 * CogVideo and CogVideoX-Factory read them: without blanks around them, and without blank lines. */
int exchange_pairs(exchange *x, const char *root, exchange_pair_fn fn, vc_err *err);
/* Makes such a line of n bytes, "" if only blanks are there; the caller frees *line. */
int exchange_trimmed(char **line, const char *text, size_t n, vc_err *err);

/* Exports to the cache of sd-scripts. */
int exchange_kohya_write(exchange *x, vc_err *err);

/* ---- sink_head.c ---- */

/* Returns the fingerprint of weights that nobody knows: a hash of all that is known of them. Two
 * imports agree when these do: families of one class of VAE have one VAE. */
vf_key exchange_made_up(const exchange *x, const char *kind, int i, int64_t width);
/* Returns the key of a text. The empty prompt's key does not depend on its value; other texts have
 * different keys if their embeddings differ, even if their prompts are equal. */
vf_key exchange_text_key(const exchange_sink *s, int i, const char *prompt, const void *data,
                         size_t n);
void exchange_add_key(cJSON *o, const char *field, vf_key k);
/* Returns the manifest's fields that are known before the first sample; the caller deletes them. */
cJSON *exchange_head(const exchange *x);

#endif
