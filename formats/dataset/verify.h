/* verify.h - the state of a check, internal to verify.c (each shard by itself), verify_hash.c (the
 * hashes of the files) and verify_refs.c (references between values, and the manifest's sums). */
#ifndef FORMATS_DATASET_VERIFY_H
#define FORMATS_DATASET_VERIFY_H

#include <pthread.h>

#include "common/roles.h"
#include "formats/dataset/parts.h"
#include "formats/keys/keymap.h"

typedef struct vf_shape {                    /* shape of a value; a keymap holds it packed */
    unsigned kind, c, f, h, w;               /* a vc_value; of VC_VALUE_EMBEDS h is the number of
                                              * rows, 0 of texts, and w their width */
} vf_shape;

typedef struct vf_hash_ahead {               /* the file that a thread hashes */
    pthread_t thread;
    bool running;
    int shard;
    char *path;
    const atomic_int *stop;
    vf_key hash;                             /* with rc and err the result, once the thread ended */
    int rc;
    vc_err err;
} vf_hash_ahead;

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
    vf_keymap newest;                        /* sample -> shard of its newest record */
    vf_keymap buckets;                       /* bucket -> number of its live samples */
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
vf_key vf_check_sample_key(uint32_t number, uint32_t variant);

/* Hashes the file of shard `at`, as vf_hash_file does, and begins to hash the next shard, for which
 * the next call will most likely ask. vf_check_hash_end waits for the thread. */
int vf_check_hash(vf_check *c, int at, vf_key *key, vc_err *err);
void vf_check_hash_end(vf_check *c);

uint64_t vf_shape_pack(vf_shape s);
vf_shape vf_shape_unpack(uint64_t v);

/* Compares live records, validation prompts and the manifest with the values in the shards. */
int vf_check_references(vf_check *c, vc_err *err);

#endif
