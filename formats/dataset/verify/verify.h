/* verify.h - the state of a check, internal to verify.c (each shard by itself), verify_hash.c (the
 * hashes of the files), verify_refs.c (references between values, and the manifest's sums) and
 * findings.c (what they report). */
#ifndef FORMATS_DATASET_VERIFY_VERIFY_H
#define FORMATS_DATASET_VERIFY_VERIFY_H

#include <pthread.h>

#include "common/roles.h"
#include "formats/dataset/record.h"
#include "formats/keys/keymap.h"

typedef struct vf_shape {                    /* shape of a value; a keymap holds it packed */
    unsigned kind, c, f, h, w;               /* a vc_value; of VC_VALUE_EMBEDS h is the number of
                                              * rows, 0 of texts, and w their width */
} vf_shape;

enum { VF_HASH_AHEAD = 2 };                  /* files: the texts of a shard, and the next shard */

typedef struct vf_hashed {                   /* the hash of a file, or why there is none */
    vf_key hash;
    int rc;
    vc_err err;
} vf_hashed;

typedef struct vf_hash_ahead {               /* a thread that hashes files before the check */
    pthread_t thread;
    bool running, end;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int asked, done;                         /* the shard asked for last; number of hashed shards */
    vf_hashed of[VF_HASH_AHEAD + 1];         /* of shard i at i modulo the length */
} vf_hash_ahead;

typedef struct vf_range {                    /* the samples of a shard, by vf_entry_rank */
    uint64_t first, last;                    /* first > last: it has none */
    bool shared;                             /* another shard may have records of its samples */
} vf_range;

typedef struct vf_facts {                    /* of the manifest; 0: it does not say */
    int64_t channels, folded, pixels, tokens, width;
    int64_t sound_channels, sound_bins;      /* of latents of sound */
    int64_t sound_rate, sound_hop;           /* samples of a second, and of a latent frame */
    bool imported;                           /* from another trainer, whose sounds may be shorter */
    int encoders;
    int64_t *text_width;                     /* [encoders] */
} vf_facts;

typedef struct vf_bucket_count {             /* live samples of the bucket that was met last */
    char key[VF_BUCKET_KEY];
    uint16_t grid[3];
    uint64_t n;
} vf_bucket_count;

typedef struct vf_check {
    const char *dir;
    void (*found)(void *arg, const char *where, const char *what);
    void *arg;
    const atomic_int *stop;
    vf_verify_report *report;
    vf_manifest manifest;
    vf_lmdb **m;                             /* per shard: its map, or NULL if it cannot be
                                              * walked */
    vf_keymap latents, texts;                /* key -> shape of the value */
    vf_range *range;                         /* per shard */
    vf_keymap newest;                        /* sample -> shard of its newest record, for samples of
                                              * shards that are `shared` */
    vf_keymap buckets;                       /* bucket -> number of its live samples */
    vf_bucket_count last;                    /* not yet added to buckets */
    vf_facts facts;
    bool references;                         /* all values are known, and are looked up */
    vf_parsed record;                        /* the record that is being checked */
    vf_refs prompt;
    vf_key root;
    vf_hash_ahead ahead;
} vf_check;

/* Counts and reports damage of a file, or of the value of a key in its sub-database `which`. */
void vf_check_found(vf_check *c, const char *file, const char *which, vf_bytes key,
                    const char *what);
/* Reports the error e about a file or value: as unreadable if the system refused (VC_EIO), else as
 * damage. Returns 0, or rc if the check must end: out of memory, or a stop. */
int vf_check_failed(vf_check *c, const char *file, const char *which, vf_bytes key, int rc,
                    const vc_err *e, vc_err *err);
/* Returns VC_ESTOP if the user has stopped the program. */
int vf_check_stopped(const vf_check *c, vc_err *err);

/* Begins to hash the shards in a thread. vf_check_hash gets the hash of shard `at` as vf_hash_file
 * does, for ascending `at`; vf_check_hash_end waits for the thread. */
void vf_check_hash_begin(vf_check *c);
int vf_check_hash(vf_check *c, int at, vf_key *key, vc_err *err);
void vf_check_hash_end(vf_check *c);

uint64_t vf_shape_pack(vf_shape s);
vf_shape vf_shape_unpack(uint64_t v);

/* ---- verify_refs.c: begin, a record after the other, end ---- */
/* Reads the manifest's facts, and finds the newest record of each sample. */
int vf_refs_begin(vf_check *c, vc_err *err);
/* Counts c->record of shard `at`, and looks up what it refers to. */
int vf_refs_record(vf_check *c, int at, vf_bytes key, vc_err *err);
/* Checks the validation prompts and compares the manifest's sums. */
int vf_refs_end(vf_check *c, vc_err *err);
void vf_refs_free(vf_check *c);

#endif
