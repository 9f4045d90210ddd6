/* tensor_cache.h - diffusion-pipe's container of pickled items.
 *
 *     metadata.db      SQLite: items(shard, shard_index), one row an item; shard_N(offset, size)
 *     shard_N.bin      files of torch.save, one after the other
 *
 * The database may be anybody's: only integers are taken from it, the work that it may cause is
 * bounded by its size, and every place is checked against its shard's file. Reading writes nothing.
 * A handle is immutable after open and may serve many threads. */
#ifndef FORMATS_PEERS_TENSOR_CACHE_H
#define FORMATS_PEERS_TENSOR_CACHE_H

#include "formats/tensors/pt.h"

typedef struct vf_tensor_cache vf_tensor_cache;

/* VC_ENOENT: dir has no metadata.db. VC_EFORMAT: no such database; an item outside its shard. */
int vf_tensor_cache_open(vf_tensor_cache **out, const char *dir, vc_err *err);
size_t vf_tensor_cache_count(const vf_tensor_cache *c);
/* Item i < count: vf_pt_close takes it. "latents: item 7: ..." */
int vf_tensor_cache_get(const vf_tensor_cache *c, size_t i, vf_pt **out, vc_err *err);
void vf_tensor_cache_close(vf_tensor_cache *c);              /* NULL is fine */

/* The new metadata.db of n items, of these sizes, that lie in dir/shard_0.bin one after the other. It
 * has no fingerprint, so that diffusion-pipe takes it and puts its own. The caller syncs it. */
int vf_tensor_cache_index(const char *dir, const uint64_t *size, size_t n, vc_err *err);

#endif
