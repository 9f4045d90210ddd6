/* read.h - an opened dataset: what read.c makes and samples.c looks things up in. Internal to
 * formats/dataset. */
#ifndef FORMATS_DATASET_READ_H
#define FORMATS_DATASET_READ_H

#include <stdatomic.h>

#include "formats/dataset/parts.h"

typedef struct shard {
    vf_lmdb *m;
    const vf_shard_info *info;
    vf_tree sample, thumb;                   /* of shard-* */
    vf_tree values;                          /* latent or text */
    vf_index index;
} shard;

typedef struct prompt {
    uint32_t key;
    int shard;
} prompt;

struct vf_dataset {
    char *path;
    bool salvaged;                           /* its damage is what the reader is here for */
    vf_manifest manifest;
    shard *shard;                            /* as in the manifest */
    int n_shards;
    vf_entry *entry;                         /* by number, then variant */
    uint32_t n;
    vf_key root;                             /* of these samples */
    prompt *prompt;                          /* by key */
    uint32_t prompts;
    atomic_int last[2];                      /* shard of the last latent and text found: a hint */
    atomic_ushort *text_at;                  /* [slots] where a text of this slot was found, plus */
    uint32_t slots;                          /* one: a hint. A power of two, 2 to 4 a text */
};

/* When rc says damage, adds the remedy (vf_dataset_remedy) to err, unless the dataset was opened to
 * be salvaged; returns rc. */
int vf_mendable(const vf_dataset *d, int rc, vc_err *err);

#endif
