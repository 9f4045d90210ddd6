/* verify.h - the state of a check: internal to verify.c (each shard by itself) and
 * verify_refs.c (what refers to what, and the manifest's sums). */
#ifndef FORMATS_DATASET_VERIFY_H
#define FORMATS_DATASET_VERIFY_H

#include "formats/dataset/parts.h"
#include "formats/keys/keymap.h"

enum { VF_OTHER, VF_MOMENTS, VF_NOISED, VF_MASK, VF_EMBEDS };    /* kinds of a latent value */

typedef struct vf_shape {                    /* of a value, as a keymap holds it */
    unsigned kind, c, f, h, w;               /* VF_EMBEDS: w is the width */
} vf_shape;

typedef struct vf_check {
    const char *dir;
    void (*found)(void *arg, const char *where, const char *what);
    void *arg;
    const atomic_int *stop;
    vf_verify_report *report;
    vf_manifest manifest;
    vf_lmdb **m;                             /* the shards that can be walked, else NULL */
    vf_keymap latents, texts;                /* every key -> its shape */
    vf_keymap newest;                        /* sample -> shard of its newest record */
    vf_keymap buckets;                       /* of live samples -> how many */
    vf_key root;
} vf_check;

/* A finding: "file: what is it", and err's text if what is NULL. */
void vf_check_found(vf_check *c, const char *file, const char *which, vf_bytes key,
                    const char *what);
/* Tells what e says of a file or a value that could not be used: as damage; as unreadable where the
 * system refused (VC_EIO). 0, or rc where that has to end the check: memory, a stop. */
int vf_check_failed(vf_check *c, const char *file, const char *which, vf_bytes key, int rc,
                    const vc_err *e, vc_err *err);
/* VC_ESTOP when the user asked to stop. */
int vf_check_stopped(const vf_check *c, vc_err *err);
vf_key vf_check_sample_key(uint32_t number, uint32_t variant);

uint64_t vf_shape_pack(vf_shape s);
vf_shape vf_shape_unpack(uint64_t v);

/* Live records, validation prompts and the manifest against what the shards hold. */
int vf_check_references(vf_check *c, vc_err *err);

#endif
