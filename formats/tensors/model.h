/* model.h - the weights of a component in one file or in shards: opens them, hashes them for
 * fingerprints, and offers them as the source from which a model's weight tables are bound. A
 * handle is immutable after open and may serve many threads. */
#ifndef FORMATS_TENSORS_MODEL_H
#define FORMATS_TENSORS_MODEL_H

#include "common/tensor/weights.h"
#include "formats/keys/keys.h"
#include "formats/tensors/safetensors.h"

/* Opens a component's folder or file in the layout of diffusers: DIR/stem.safetensors, or the
 * shards of stem.safetensors.index.json, with or without a variant; where a folder has shards
 * alone, all of them, as their names count them. A named file may also be one of torch.save (.pth,
 * .pt, .bin, .ckpt), whose tensors are mapped. The handle covers all tensors.
 * Of several files in a folder diffusers' stem wins over transformers', no variant over bf16 over
 * fp16, a whole file over shards; if two files are still equal, VC_EINVAL names them. */
typedef struct vf_model vf_model;
int vf_model_open(vf_model **out, const char *path, vc_err *err);
void vf_model_close(vf_model *m);
void vf_model_release(const vf_model *m);    /* calls vc_map_release on each file */
int vf_model_get(const vf_model *m, const char *name, vf_view *v, vc_err *err);
int vf_model_count(const vf_model *m);
const vf_view *vf_model_at(const vf_model *m, int i);                /* in name order */
/* Returns the source for vt_params_bind, valid while m is open. Values are borrowed from the map,
 * so that frozen weights are not copied if the device and their alignment allow borrowing. */
vt_source vf_model_source(const vf_model *m);
/* Fails with VC_EMISMATCH and names a tensor of m that p does not hold. Tensors named in `spare`
 * (NULL-ended, or NULL) may be missing in p: a '*', as in "decoder.*" or "blocks.*.norm", stands
 * for any characters. */
int vf_model_all_bound(const vf_model *m, vt_params *p, const char *const *spare, vc_err *err);
/* Sets *k to XXH3-128 over the tensors in name order (name, type, shape, bytes), the weights' part
 * of a fingerprint. Reads every byte. VC_ESTOP when *stop is set; stop may be NULL. */
int vf_model_hash(vf_key *k, const vf_model *m, const atomic_int *stop, vc_err *err);
/* Hashes the names, sizes, times and inodes of the weights' files without reading the files, and
 * adds their sizes to *bytes. The folder's path does not matter. Equal *k means that vf_model_hash
 * would be equal too. */
int vf_model_files(vf_key *k, double *bytes, const char *path, vc_err *err);

#endif
