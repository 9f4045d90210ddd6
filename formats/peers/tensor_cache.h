/* tensor_cache.h - reads and writes diffusion-pipe's container of pickled items.
 *
 *     metadata.db      SQLite: items(shard, shard_index), one row an item; shard_N(offset, size)
 *     shard_N.bin      files of torch.save, one after the other
 *
 * The database may be hostile: only integers are read from it, its size bounds the work that it may
 * cause, and every place is checked against its shard's file. Reading writes no files. A handle is
 * immutable after open and may serve many threads. */
#ifndef FORMATS_PEERS_TENSOR_CACHE_H
#define FORMATS_PEERS_TENSOR_CACHE_H

#include "formats/tensors/pt.h"

typedef struct vf_tensor_cache vf_tensor_cache;

/* Opens a container. VC_ENOENT: dir has no metadata.db. VC_EFORMAT: metadata.db is no such
 * database, or an item lies outside its shard. */
int vf_tensor_cache_open(vf_tensor_cache **out, const char *dir, vc_err *err);
size_t vf_tensor_cache_count(const vf_tensor_cache *c);
/* Gets item i < count; the caller closes *out with vf_pt_close. Errors: "latents: item 7: ...". */
int vf_tensor_cache_get(const vf_tensor_cache *c, size_t i, vf_pt **out, vc_err *err);
void vf_tensor_cache_close(vf_tensor_cache *c);              /* c may be NULL */

/* Makes the metadata.db of n items with these sizes, which lie in dir/shard_0.bin one after the
 * other. The database has no fingerprint, so that diffusion-pipe accepts it and adds its own. The
 * caller syncs the file. */
int vf_tensor_cache_index(const char *dir, const uint64_t *size, size_t n, vc_err *err);

#endif
