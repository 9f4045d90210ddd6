/* refs.h - the references of a sample's record, a prompt and a manifest to values of the dataset:
 * one walk over each of the three, which copies, exports and checks of use share. verify_refs.c
 * goes its own way, since it also checks the form of each list. */
#ifndef FORMATS_DATASET_REFS_H
#define FORMATS_DATASET_REFS_H

#include "formats/json/json.h"
#include "formats/json/scan.h"
#include "formats/keys/keys.h"

typedef struct vf_ref {                      /* a reference to a value */
    vf_key key;
    bool valid;                              /* false: it is not 32 hex digits */
    bool text;                               /* a text; else latents or a condition */
    vf_span role;                            /* of a condition its role; of others, in the walks
                                              * below, the field that has the key */
    int caption, encoder;                    /* in a record, of a text: its numbers, where the
                                              * preserved captions follow the captions;
                                              * VF_OWN_EMPTY: the sample's own empty prompt */
} vf_ref;
enum { VF_OWN_EMPTY = -1 };

typedef struct vf_refs {                     /* begins as { .n = 0 }; the owner frees item */
    vf_ref *item;
    int n, room;
} vf_refs;

int vf_refs_add(vf_refs *refs, vf_ref ref, vc_err *err);
vf_ref vf_ref_of(const cJSON *hex);
/* Adds the keys of an array, or of an object of roles, to refs. */
int vf_refs_of(vf_refs *refs, const cJSON *list, bool text, vc_err *err);

/* Replace refs by those of a record: latents, conditions, texts; of a prompt: its texts and its
 * negative's, its picture, conditions; of a manifest: its encoders' empty texts. */
int vf_record_refs(vf_refs *refs, const cJSON *record, vc_err *err);
int vf_prompt_refs(vf_refs *refs, const cJSON *prompt, vc_err *err);
int vf_manifest_refs(vf_refs *refs, const cJSON *manifest, vc_err *err);

#endif
