/* writer.h - the state of a vf_writer: internal to write.c (puts), resume.c
 * (what is there already), finish.c (closing shards) and ranks.c (several writers).
 *
 * Everything that decides whether something must be written is held in memory: the keys of all
 * latents and texts, and for each sample the hash of its record. */
#ifndef FORMATS_DATASET_WRITER_H
#define FORMATS_DATASET_WRITER_H

#include "formats/dataset/lmdb_write.h"
#include "formats/dataset/parts.h"
#include "formats/keys/keymap.h"

#define VF_MANIFEST_LOCK "manifest.lock"
enum {
    VF_NO_NUMBER = VF_MAX_SHARD + 2,         /* of an open shard where several ranks write */
    VF_OPEN_NAME = 24                        /* room for "shard-open-00000.lmdb" and a NUL */
};

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
    unsigned number;                         /* its number, or the next one's; VF_NO_NUMBER */
} vf_half;

struct vf_writer {
    char *dir;
    int lock;                                /* descriptor of state.lmdb */
    cJSON *head;
    uint64_t shard_size;
    double shard_seconds, shard_since;       /* since: when the open shard was opened */
    bool append, finished;
    int rank, ranks;                         /* 0, 1: alone */
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

/* ---- write.c ---- */
/* The newest record of a sample becomes item, in shard number `shard`. */
int vf_writer_note(vf_writer *w, const vf_index_item *item, unsigned shard, vc_err *err);
vf_slot *vf_writer_slot(const vf_writer *w, uint32_t number, uint32_t variant);    /* or NULL */
int vf_writer_bucket(vf_writer *w, const char *key, const vf_entry *grid, uint32_t *bucket,
                     vc_err *err);
int vf_writer_prompt(vf_writer *w, uint32_t i, vf_prompt **p, vc_err *err);

/* ---- resume.c ---- */
/* Reads what the folder has (or removes it), compares heads, opens the open shards. */
int vf_writer_resume(vf_writer *w, const vf_writer_opts *o, vc_err *err);
/* Opens the half's env if it is not open. */
int vf_writer_env(vf_writer *w, vf_half *h, vc_err *err);
/* Notes what a shard holds; bytes < 0: an open one. */
int vf_writer_load(vf_writer *w, const char *file, bool text, unsigned number, int64_t bytes,
                   vc_err *err);
int vf_writer_too_many(const vf_writer *w, vc_err *err);     /* no number is left */

/* ---- finish.c ---- */
/* And the text shard: a closed shard must find its texts in closed ones. */
int vf_writer_close_shard(vf_writer *w, vc_err *err);
int vf_writer_close_text(vf_writer *w, vc_err *err);
int vf_writer_manifest(vf_writer *w, bool complete, vc_err *err);

/* ---- ranks.c ---- */
bool vf_open_name_parse(const char *name, bool *text);       /* of an open shard of a rank */
char *vf_writer_half_name(const vf_writer *w, const vf_half *h, char buf[VF_OPEN_NAME]);
/* The lock on the whole dataset: rank 0 takes it, the others must find it taken. */
int vf_writer_lock(vf_writer *w, const char *state, vc_err *err);
/* Open shards of the ranks of a killed run become closed ones, but a lone writer's last. */
int vf_writer_adopt_left(vf_writer *w, vc_err *err);
/* The manifest as complete, by rank 0, after all others have finished. */
int vf_writer_complete(vf_writer *w, vc_err *err);
/* Gives the half's finished file its number and its place in the manifest; fills in the rest of s. */
int vf_writer_publish(vf_writer *w, vf_half *h, vf_shard_info *s, vc_err *err);

#endif
