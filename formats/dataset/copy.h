/* copy.h - makes a new dataset out of samples of others, for merge, split, select and gc.
 *
 * Values keep their keys and bytes, so a value that several samples or several sources share is
 * written once. Each value is compared with its checksum on the way: damage is refused, not
 * copied. An interrupted copy resumes when the same copy is made again. A copy serves one
 * thread. */
#ifndef FORMATS_DATASET_COPY_H
#define FORMATS_DATASET_COPY_H

#include "formats/dataset/dataset.h"

typedef struct vf_copy vf_copy;
struct vf_parsed;                            /* record.h */

/* Checks that a new dataset may be written at path: nothing is there, or an empty folder, or the
 * files of an interrupted copy. VC_EINVAL names another file in the folder; VC_EFORMAT: the
 * manifest cannot be read; VC_EIO. A writer calls this again under its lock
 * (vf_writer_opts.check). */
int vf_copy_room(const char *path, vc_err *err);

/* Opens a dataset at `path` for samples of the n datasets `from`. Its head is the first one's; with
 * several it has no `part`, and the families of all. shard_size 0 means 4 GiB. Fails also like
 * vf_copy_room. */
int vf_copy_open(vf_copy **out, const char *path, vf_dataset *const *from, int n,
                 int64_t shard_size, vc_err *err);
/* Copies sample i of d, with all values of its record, as number `number` (the same or a new
 * one). */
int vf_copy_sample(vf_copy *c, const vf_dataset *d, uint32_t i, uint32_t number, vc_err *err);
/* The same in two steps: vf_copy_put copies the sample that vf_copy_read read last. *record lives
 * until the next one is read. */
int vf_copy_read(vf_copy *c, const vf_dataset *d, uint32_t i, const struct vf_parsed **record,
                 vc_err *err);
int vf_copy_put(vf_copy *c, const vf_dataset *d, uint32_t i, uint32_t number, vc_err *err);
/* True if the last failure here came from a source that is damaged or incomplete; false if the copy
 * could not be written or the system refused to read. */
bool vf_copy_met_damage(const vf_copy *c);
/* Copies d's validation prompts and empty prompts; a prompt that the copy has is not added
 * again. */
int vf_copy_prompts(vf_copy *c, const vf_dataset *d, vc_err *err);
int vf_copy_finish(vf_copy *c, vc_err *err);
/* Frees c, which may be NULL; committed samples stay on disk. */
void vf_copy_close(vf_copy *c);

/* Fails with VC_EMISMATCH, naming the first fields that differ, if two datasets cannot become one:
 * VAE, text encoders, stored values and types must be equal. Families and sampling may differ. */
int vf_copy_compare(const vf_dataset *a, const vf_dataset *b, vc_err *err);

#endif
