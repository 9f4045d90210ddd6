/* read.h - the state of an opened dataset, which read.c makes and samples.c searches. Internal to
 * formats/dataset. */
#ifndef FORMATS_DATASET_READ_H
#define FORMATS_DATASET_READ_H

#include <stdatomic.h>

#include "formats/dataset/parts.h"

typedef struct shard {
    vf_lmdb *m;
    const vf_shard_info *info;
    vf_tree sample, thumb;                   /* sub-databases of shard-*.lmdb */
    vf_tree values;                          /* sub-database latent or text */
    vf_index index;
    const vf_entry *entry;                   /* [index.n] in the map, or `copy` */
    vf_entry *copy;                          /* of an index that is not aligned in the map */
} shard;

typedef struct prompt {
    uint32_t key;
    int shard;
} prompt;

struct vf_dataset {
    char *path;
    bool salvaged;                           /* opened by vf_dataset_salvage */
    const vf_fetch *fetch;                   /* brings the shards' bytes; NULL: they are here */
    vf_manifest manifest;
    shard *shard;                            /* in the manifest's order */
    int n_shards;
    uint32_t *at;                            /* [n] samples by number, then variant: place in the */
    uint16_t *in;                            /* [n] index of the shard with this number */
    uint8_t *older;                          /* bit i: earlier shards have records of sample i */
    uint32_t n;
    vf_key root;                             /* root of these samples */
    prompt *prompt;                          /* by key */
    uint32_t prompts;
    atomic_int last[2];                      /* hint: shard of the last latent, of the last text */
    atomic_ushort *text_at;                  /* [slots] hint: shard, plus one, of a text found
                                              * before */
    uint32_t slots;                          /* a power of two, 2 to 4 slots a text */
};

/* If rc means damage, adds the remedy (vf_dataset_remedy) to err, unless the dataset was opened by
 * vf_dataset_salvage; returns rc. */
int vf_mendable(const vf_dataset *d, int rc, vc_err *err);

#endif
