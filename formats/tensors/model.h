/* model.h - the weights of a component: one file or shards, hashed for fingerprints, and as the
 * source that a model's tables are bound from. Immutable after open: one handle may serve many
 * threads. */
#ifndef FORMATS_TENSORS_MODEL_H
#define FORMATS_TENSORS_MODEL_H

#include "common/tensor/weights.h"
#include "formats/keys/keys.h"
#include "formats/tensors/safetensors.h"

/* A component folder or file of diffusers' layout: DIR/stem.safetensors, or shards by
 * stem.safetensors.index.json, with or without a variant; one handle over all tensors. Of several
 * files in a folder: diffusers' stem before transformers', no variant before bf16 before fp16, a
 * whole file before shards; among others there is no choice (VC_EINVAL names them). */
typedef struct vf_model vf_model;
int vf_model_open(vf_model **out, const char *path, vc_err *err);
void vf_model_close(vf_model *m);
void vf_model_release(const vf_model *m);    /* vc_map_release of its files */
int vf_model_get(const vf_model *m, const char *name, vf_view *v, vc_err *err);
int vf_model_count(const vf_model *m);
const vf_view *vf_model_at(const vf_model *m, int i);                /* in name order */
/* Values for vt_params_bind: borrowed from the map, so frozen weights are not copied where the
 * device and their alignment allow it. Valid while m is open. */
vt_source vf_model_source(const vf_model *m);
/* VC_EMISMATCH naming a tensor of m that p does not hold; names in `spare`
 * (NULL-ended; NULL: none) may be left over: "decoder.*" stands for all that begin so. */
int vf_model_all_bound(const vf_model *m, vt_params *p, const char *const *spare, vc_err *err);
/* XXH3-128 over the tensors in name order (name, type, shape, bytes): the weights' part of a
 * fingerprint. Reads every byte. VC_ESTOP when *stop is set; stop may be NULL. */
int vf_model_hash(vf_key *k, const vf_model *m, const atomic_int *stop, vc_err *err);
/* Which files of weights there are and when they changed (name, size, time, inode), wherever the
 * folder lies: the same means the same hash, without reading them. Adds their sizes to *bytes. */
int vf_model_files(vf_key *k, double *bytes, const char *path, vc_err *err);

#endif
