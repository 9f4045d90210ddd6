/* exchange_parts.h - the dataset that an import makes, for sink.c and frame.c. */
#ifndef VF_XPORT_PARTS_H
#define VF_XPORT_PARTS_H

#include "formats/peers/exchange.h"

/* Text embeddings of another dataset (--texts), by caption. */
typedef struct xport_texts xport_texts;
/* VC_EMISMATCH: of another family. */
int xport_texts_open(xport_texts **out, const char *path, const vc_family *family, vc_err *err);
/* Its manifest's `text_encoders` and `root`, borrowed. */
const cJSON *xport_texts_encoders(const xport_texts *t);
const char *xport_texts_root(const xport_texts *t);
/* Puts the values of the encoders' empty prompts. */
int xport_texts_empty(const xport_texts *t, vf_writer *w, vc_err *err);
/* Puts the values of a caption's texts; *keys, a list for the record, is the caller's.
 * VC_ENOENT: it has no such caption. */
int xport_texts_put(const xport_texts *t, vf_writer *w, const char *caption, cJSON **keys, vc_err *err);
void xport_texts_close(xport_texts *t);                      /* NULL is fine */

struct xport_sink {
    vf_writer *w;
    xport_texts *texts;                      /* NULL: texts are the items' own */
    bool whole;                              /* values come with their keys, records as they are */
    int channels, n_text, store;             /* store: 0 mean, 1 moments, 2 sample */
    vc_dtype dtype, peer_dtype;              /* as stored, as in the peer's files */
    struct xport_encoder {
        bool embeds;                         /* states of its tokens, not only a pooled one */
        int64_t width, pooled, max_length;
        vc_dtype dtype;
        vf_key fingerprint;
    } text[XPORT_TEXTS];
    vf_keymap paths;                         /* how often each was there */
    uint32_t next;                           /* number of the next sample */
    uint32_t records;                        /* samples that were put */
    uint64_t values, inexact;                /* normalised values; those that raw f32 cannot give back */
};

#define XPORT_VIDEOS "videos.txt"
typedef int (*xport_pair_fn)(xport *x, const char *root, const char *video, const char *prompt,
                             vc_err *err);
/* fn for each pair of lines of ROOT/videos.txt and ROOT/prompts.txt (or prompt.txt), as CogVideo and
 * CogVideoX-Factory read them: without blanks around them, and without blank lines. */
int xport_pairs(xport *x, const char *root, xport_pair_fn fn, vc_err *err);

/* diffusion-pipe's export. */
int xport_dpipe_write(xport *x, const char *model, vc_err *err);

#endif
