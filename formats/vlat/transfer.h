/* transfer.h - brings a dataset from one place to another, for vlat pull and push.
 *
 * Closed shards never change, so a transfer brings the shards that the target lacks: the difference
 * of two manifests. A file comes as VLAT_COMING/NAME.HASH, is hashed on its way, and keeps that
 * name until all files are complete; then the shards are renamed, and the manifest last. So the
 * target holds the old dataset or the new one at any moment, and a transfer that was killed
 * continues with the bytes that are there. */
#ifndef FORMATS_VLAT_TRANSFER_H
#define FORMATS_VLAT_TRANSFER_H

#include "formats/vlat/place.h"
#include "formats/vlat/vlat.h"

/* Gets a whole manifest, or another file of at most `most` bytes, with a NUL behind it, from its
 * first byte again after an attempt that failed; the caller frees *text. VC_ENOENT: the place has
 * no such file. */
int vlat_fetch_text(vlat_place *p, const char *name, size_t most, char **text, size_t *n,
                    vc_err *err);

/* The limits that the flags set; the time of the transfer begins. */
vlat_limits vlat_limits_of(const vlat *v);

/* Makes the dataset at `to` that at `from`, with v->o->connections files at a time. Files that the
 * target's old manifest lists and the new one does not are counted, or with v->o->remove removed.
 * VC_EINVAL: the source is not finished. VC_EMISMATCH: the target has another file of a shard's
 * name. VC_EFORMAT: the source's bytes are not those of its manifest. */
int vlat_transfer(const vlat *v, const char *from, const char *to, vc_err *err);

#endif
