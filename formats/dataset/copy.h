/* copy.h - a new dataset out of samples of others: what merge, split, select and gc do.
 *
 * Values keep their keys and bytes, so a value that several samples or several sources share is
 * written once. Each value is compared with its checksum on the way: damage is refused, not
 * copied. An interrupted copy goes on where it was when the same one is asked for again. One
 * thread. */
#ifndef FORMATS_DATASET_COPY_H
#define FORMATS_DATASET_COPY_H

#include "formats/dataset/dataset.h"

typedef struct vf_copy vf_copy;

/* Whether a new dataset may be written at path: nothing is there, an empty folder, or what an
 * interrupted copy left. VC_EINVAL names what else lies there; VC_EFORMAT, a manifest that cannot
 * be read; VC_EIO. Who then writes there has it asked again under the lock (vf_writer_opts.check). */
int vf_copy_room(const char *path, vc_err *err);

/* A dataset at `path` for samples of the n of `from`. Its head is the first one's; of several it is
 * no `part`, and has the families of all. shard_size 0: 4 GiB. Errors also as of
 * vf_copy_room. */
int vf_copy_open(vf_copy **out, const char *path, vf_dataset *const *from, int n,
                 int64_t shard_size, vc_err *err);
/* Sample i of d as number `number` (its own, or a new one), with all that it refers to. */
int vf_copy_sample(vf_copy *c, const vf_dataset *d, uint32_t i, uint32_t number, vc_err *err);
/* Whether the last of the calls here that failed did so because of what was to be copied, which is
 * damaged or not all there; else the copy could not be written or the system refused to read. */
bool vf_copy_met_damage(const vf_copy *c);
/* d's validation prompts and empty prompts; a prompt that is there already is not added again. */
int vf_copy_prompts(vf_copy *c, const vf_dataset *d, vc_err *err);
int vf_copy_finish(vf_copy *c, vc_err *err);
/* What was committed stays. NULL is fine. */
void vf_copy_close(vf_copy *c);

/* VC_EMISMATCH naming the first fields in which two datasets cannot be one: VAE, text encoders,
 * what is stored and in which type. Whom they were made for and settings of sampling may differ. */
int vf_copy_compare(const vf_dataset *a, const vf_dataset *b, vc_err *err);

#endif
