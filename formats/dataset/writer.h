/* writer.h - the state of a vf_writer, internal to write.c (puts), tables.c (the samples,
 * buckets and prompts that it knows, and the manifest), halves.c (its open shards), load.c (reading
 * shards), resume.c (the files of the folder), finish.c (closing shards) and ranks.c (several
 * writers).
 *
 * A writer holds in memory the keys of all latents and texts, and for each sample the hash of its
 * record, so that it can decide without reading which values have to be written. */
#ifndef FORMATS_DATASET_WRITER_H
#define FORMATS_DATASET_WRITER_H

#include "common/base/buf.h"
#include "common/os/patience.h"
#include "formats/lmdb/lmdb_write.h"
#include "formats/dataset/record.h"
#include "formats/keys/indexmap.h"
#include "formats/keys/keymap.h"

#define VF_BATCH ((uint64_t)64 << 20)        /* bytes of puts after which they are committed */
#define VF_MANIFEST_LOCK "manifest.lock"
/* A lone writer's open shard has its number: without it 14 lines would go and 10 come (for datasets
 * that are open so today), and each shard would take a lock, a manifest read anew and a rename. */
enum {
    VF_NO_NUMBER = VF_MAX_SHARD + 2,         /* number of an open shard when several ranks write */
    VF_OPEN_NAME = 24                        /* room for "shard-open-00000.lmdb" and a NUL */
};

typedef struct vf_slot {                     /* a sample's newest record */
    vf_index_item item;                      /* item.bucket: index into vf_writer.bucket */
    unsigned shard;                          /* number of the shard that holds the record */
    bool seen;                               /* the sample was put or kept since open */
} vf_slot;

static inline bool vf_slot_live(const vf_slot *s)            /* s may be NULL */
{
    return s && !(s->item.entry.flags & VF_ENTRY_DROPPED);
}

typedef struct vf_bucket {
    char *key;
    uint16_t f, h, w;
    int64_t live;                            /* number of live samples */
} vf_bucket;

typedef struct vf_prompt {                   /* a validation record */
    vf_key hash;                             /* hash of the value */
    bool live, seen;
} vf_prompt;

typedef struct vf_half {                     /* the shards of one kind */
    vf_env *env;                             /* the open shard, or NULL */
    unsigned number;                         /* number of the open or next shard; VF_NO_NUMBER */
    uint64_t held;                           /* vf_pair_bytes of the open shard's pairs */
    bool is_sealed;
    vf_shard_info sealed;                    /* a rank's closed shard, without its number */
} vf_half;

/* The bytes by which a pair lets its shard grow: a shard is full when the sum of its pairs has
 * reached its size. So what is in a shard follows from the order of the puts alone, and not from
 * the times of commits or from a run that was killed in between. */
static inline uint64_t vf_pair_bytes(size_t key_size, size_t size)
{
    enum { PAGE = 4096, NODE = 16 };         /* a value beyond a quarter page has its own pages */
    return NODE + key_size + (size > PAGE / 4 ? (size + NODE + PAGE - 1) / PAGE * PAGE : size);
}

struct vf_writer {
    char *dir;
    int lock;                                /* descriptor of state.lmdb */
    cJSON *head;
    uint64_t shard_size;
    double shard_seconds, shard_since;       /* shard_since: time when the shard was opened */
    double commit_seconds, commit_since;     /* commit_since: time of the last commit */
    bool append, finished, sealing;          /* sealing: shards that are closed get no number yet */
    bool held, replace;                      /* before vf_writer_begin; it removes the old files */
    int rank, ranks;                         /* 0, 1: a lone writer */
    vc_patience patience;               /* for manifest.lock */
    vf_manifest manifest;
    vf_half shard, text;
    int lost;                                /* shards in the manifest whose file is missing */
    vf_env *state;

    vf_keymap latents, texts;                /* keys of all values */
    vf_indexmap slot_at, id_at;              /* sample, id -> index into slot */
    vf_slot *slot;
    uint32_t slots, slots_room, next_number;
    uint64_t ranks_end;                      /* above the vf_entry_rank of each slot */
    bool copies;                             /* id_at is not kept, open shards are not durable */
    uint32_t noted_from, noted_to;           /* range of the slots that were noted since a shard was
                                              * closed; those of the open shard are among them */
    uint32_t live;                           /* live samples, and their root */
    vf_key root;
    vf_keymap bucket_at;
    vf_bucket *bucket;
    uint32_t buckets, buckets_room;
    vf_prompt *prompt;
    uint32_t prompts;

    vf_lmdb *old;                            /* the closed shard that vf_writer_sample read last */
    unsigned old_number;
    char *text_of;                           /* the record that vf_writer_sample returned last */
    vf_parsed parsed;                        /* the record that is being put */
    vc_buf renumbered;                       /* its text with another number */
    vc_err failure;                          /* the first failed write */
};

/* ---- tables.c ---- */
/* Records item, in shard number `shard`, as the newest record of its sample. `seen`: it was put. */
int vf_writer_note(vf_writer *w, const vf_index_item *item, unsigned shard, bool seen, vc_err *err);
vf_slot *vf_writer_slot(const vf_writer *w, uint32_t number, uint32_t variant);    /* or NULL */
int vf_writer_bucket(vf_writer *w, const char *key, const vf_entry *grid, uint32_t *bucket,
                     vc_err *err);
int vf_writer_prompt(vf_writer *w, uint32_t i, vf_prompt **p, vc_err *err);

/* The bucket as an object of an index or a manifest; NULL: out of memory. */
cJSON *vf_writer_bucket_json(const vf_bucket *b);
int vf_writer_manifest(vf_writer *w, bool complete, vc_err *err);

/* ---- resume.c ---- */
/* Loads the dataset in the folder, compares heads, opens the open shards; vf_writer_start then
 * removes a dataset that is replaced, and writes the manifest as incomplete. */
int vf_writer_resume(vf_writer *w, const vf_writer_opts *o, vc_err *err);
int vf_writer_start(vf_writer *w, vc_err *err);

/* ---- halves.c ---- */
bool vf_open_name_parse(const char *name, bool *text);       /* name of a rank's open shard? */
bool vf_is_shard(const char *name);                          /* name of a closed or open shard? */
/* True for the temporary file of a manifest or of a shard. */
bool vf_is_temporary(const char *name);
char *vf_writer_half_name(const vf_writer *w, const vf_half *h, char buf[VF_OPEN_NAME]);
/* Opens the half's env if it is not open. */
int vf_writer_env(vf_writer *w, vf_half *h, vc_err *err);
int vf_writer_too_many(const vf_writer *w, vc_err *err);     /* fails: no shard number is left */

/* ---- load.c ---- */
/* Records the values of a shard in the writer's tables; bytes < 0: the shard is open. */
int vf_writer_load(vf_writer *w, const char *file, bool text, unsigned number, int64_t bytes,
                   vc_err *err);

/* ---- finish.c ---- */
/* Closes the text shard too: a closed shard must find its texts in closed shards. */
int vf_writer_close_shard(vf_writer *w, vc_err *err);
int vf_writer_close_text(vf_writer *w, vc_err *err);
/* Closes the open shards that are full. */
int vf_writer_close_full(vf_writer *w, vc_err *err);
/* Publishes the sealed shards. */
int vf_writer_publish_sealed(vf_writer *w, vc_err *err);

/* ---- layout.c ---- */
/* Replaces a finished file by one of the same pairs whose bytes follow from the pairs (not from the
 * order of puts and commits). *bytes is its size, *hash the hash of the file. */
int vf_writer_lay_out(const char *path, bool text, uint64_t *bytes, vf_key *hash, vc_err *err);

/* ---- ranks.c ---- */
/* Takes the lock on the whole dataset as rank 0; another rank checks that rank 0 is the holder. */
int vf_writer_lock(vf_writer *w, const char *state, vc_err *err);
/* Writes the manifest as complete; rank 0 does so after all others have finished. */
int vf_writer_complete(vf_writer *w, vc_err *err);
/* Gives the half's finished file its number and its place in the manifest, and fills in the rest of
 * s. */
int vf_writer_publish(vf_writer *w, vf_half *h, vf_shard_info *s, vc_err *err);

#endif
