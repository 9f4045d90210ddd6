/* shards_writer.h - the state of a vf_writer: internal to shards_write.c (puts), shards_resume.c
 * (what is there already) and shards_finish.c (closing shards).
 *
 * Everything that decides whether something must be written is held in memory: the keys of all
 * latents and texts, and for each sample the hash of its record. */
#ifndef VF_SHARDS_WRITER_H
#define VF_SHARDS_WRITER_H

#include "formats/keymap.h"
#include "formats/lmdb_write.h"
#include "formats/shards_parts.h"

typedef struct vf_slot {                     /* a sample's newest record */
    vf_index_item item;                      /* item.bucket: place in vf_writer.bucket */
    unsigned shard;                          /* number of the shard that holds it */
    bool seen;                               /* put or kept since open */
} vf_slot;

typedef struct vf_bucket {
    char *key;
    uint16_t f, h, w;
} vf_bucket;

typedef struct vf_prompt {                   /* a validation record */
    vf_key hash;                             /* of its value */
    bool live, seen;
} vf_prompt;

typedef struct vf_half {                     /* the shards of one kind */
    vf_env *env;                             /* the open one, or NULL */
    unsigned number;                         /* its number, or the next one's */
} vf_half;

struct vf_writer {
    char *dir;
    int lock;                                /* descriptor of state.lmdb */
    cJSON *head;
    uint64_t shard_size;
    double shard_seconds, shard_since;       /* since: when the open shard was opened */
    bool append, change, finished;
    vf_manifest manifest;
    vf_half shard, text;
    int lost;                                /* shards that the manifest named in vain */
    vf_env *state;

    vf_keymap latents, texts;                /* every key there is */
    vf_keymap slot_at, id_at;                /* sample, id -> place in slot */
    vf_slot *slot;
    uint32_t slots, slots_room, next_number;
    vf_keymap bucket_at;
    vf_bucket *bucket;
    uint32_t buckets, buckets_room;
    vf_prompt *prompt;
    uint32_t prompts;

    vf_lmdb *old;                            /* the closed shard that vf_writer_sample read last */
    unsigned old_number;
    char *text_of;                           /* what it gave */
    vc_err failure;                          /* the first failed write; sticks */
};

/* ---- shards_write.c ---- */
/* The newest record of a sample becomes item, in shard number `shard`. */
int vf_writer_note(vf_writer *w, const vf_index_item *item, unsigned shard, vc_err *err);
vf_slot *vf_writer_slot(const vf_writer *w, uint32_t number, uint32_t variant);    /* or NULL */
int vf_writer_bucket(vf_writer *w, const char *key, const vf_entry *grid, uint32_t *bucket,
                     vc_err *err);
int vf_writer_prompt(vf_writer *w, uint32_t i, vf_prompt **p, vc_err *err);

/* ---- shards_resume.c ---- */
/* Reads what the folder has (or removes it), compares heads, opens the open shards. */
int vf_writer_resume(vf_writer *w, bool overwrite, vc_err *err);
/* Opens the half's env if it is not open. */
int vf_writer_env(vf_writer *w, vf_half *h, vc_err *err);

/* ---- shards_finish.c ---- */
/* And the text shard: a closed shard must find its texts in closed ones. */
int vf_writer_close_shard(vf_writer *w, vc_err *err);
int vf_writer_close_text(vf_writer *w, vc_err *err);
int vf_writer_manifest(vf_writer *w, bool complete, vc_err *err);

#endif
