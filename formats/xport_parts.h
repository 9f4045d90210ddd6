/* xport_parts.h - the dataset that an import makes, for xport_sink.c and xport_frame.c. */
#ifndef VF_XPORT_PARTS_H
#define VF_XPORT_PARTS_H

#include "formats/xport.h"

struct xport_sink {
    vf_writer *w;
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
    uint64_t values, inexact;                /* normalised values; those that raw f32 cannot give back */
};

#endif
