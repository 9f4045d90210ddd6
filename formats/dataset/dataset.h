/* dataset.h - the latent dataset: a folder of LMDB shards, a manifest, and what vprep says about it.
 *
 *     latents.lmdb/manifest.json  shard-00000.lmdb ...  text-00000.lmdb ...  errors.jsonl
 *                  plan.jsonl     state.lmdb
 *
 * The format is docs/format.md. Latents are raw, as the VAE gave them; text is stored once per
 * distinct (prompt, encoder); every tensor value is a complete safetensors byte string with an
 * xxh3 of its data; values are found by content keys. A closed shard never changes.
 *
 * Reading is by our own read-only walker (lmdb_read.h), which checks each page before it follows
 * it: a truncated, altered or hostile dataset gives errors, never a crash. A reader needs no lock
 * file and may serve many threads. Writing is by liblmdb, one thread at a time, in one process or in
 * the ranks of a job. */
#ifndef FORMATS_DATASET_DATASET_H
#define FORMATS_DATASET_DATASET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "formats/json/json.h"
#include "formats/keys/keys.h"
#include "formats/tensors/safetensors.h"

enum { VF_MAX_RECORD = 4 << 20 };   /* bytes of a record's JSON: parsed it takes 30 times that */

/* ---- reading ---- */

typedef struct vf_dataset vf_dataset;

enum { VF_ENTRY_VIDEO = 1 };

/* What a trainer must know of each sample to plan its epochs: 48 bytes, from the shards' index. */
typedef struct vf_entry {
    vf_key latent;                           /* latent_key */
    uint32_t number;                         /* sample number */
    uint16_t variant;
    uint16_t shard;                          /* place in the manifest's shards of its record */
    uint16_t f, h, w;                        /* latent grid, each at least 1 */
    uint8_t flags, captions;                 /* VF_ENTRY_*; how many (255: 255 or more) */
    uint32_t tokens;
    float weight;
    uint32_t frames;                         /* pixel frames of the clip */
    float fps;                               /* of those frames; 0: unknown */
} vf_entry;

/* Opens the closed shards: checks the manifest, sizes and indexes, reads nothing else. A million
 * samples open in well under a second. VC_ENOENT: no dataset; VC_EFORMAT: damaged; VC_EINVAL:
 * unfinished (vprep has not written it all), unless allow_incomplete. */
int vf_dataset_open(vf_dataset **out, const char *path, bool allow_incomplete, vc_err *err);
/* As much of a damaged dataset as can be opened, finished or not: shards that are gone, cut short or
 * not whole inside are left out, and each is told. What is read is checked as ever. An error of the
 * system (VC_EIO, VC_ENOMEM) says nothing of a shard, and ends it. */
int vf_dataset_salvage(vf_dataset **out, const char *path,
                       void (*told)(void *arg, const char *what), void *arg, vc_err *err);
/* As it was when no more than the first `shards` of the manifest's had been closed, however far it
 * is now: closed ones never change and new ones are added at the end. VC_ENOENT: it has fewer. */
int vf_dataset_open_first(vf_dataset **out, const char *path, int shards, vc_err *err);
void vf_dataset_close(vf_dataset *d);                        /* NULL is fine */

/* Adds to the text of damage (rc VC_EFORMAT) in the dataset at path how it is mended, unless it says so
 * already: the calls below do it by themselves, of a handle that is not salvaged. rc again. */
int vf_dataset_remedy(const char *path, int rc, vc_err *err);

/* How many shards are closed now, and whether the dataset is complete: for a reader that follows a
 * writer. VC_ENOENT: no dataset yet. */
int vf_dataset_progress(const char *path, int *shards, bool *complete, vc_err *err);

const cJSON *vf_dataset_manifest(const vf_dataset *d);       /* borrowed */
int vf_dataset_shards(const vf_dataset *d);                  /* closed ones, as opened */
/* Root (docs/format.md) of the samples that this handle sees: of a whole dataset its manifest's. */
char *vf_dataset_root(const vf_dataset *d, char hex[VF_KEY_HEX]);
const char *vf_dataset_path(const vf_dataset *d);
uint32_t vf_dataset_count(const vf_dataset *d);              /* live samples and variants */
const vf_entry *vf_dataset_entry(const vf_dataset *d, uint32_t i);   /* by number, then variant */
/* Place of a sample by "000000000042/000" (or "42", "42/0"). VC_ENOENT; VC_EINVAL: no such key. */
int vf_dataset_find(const vf_dataset *d, const char *key, uint32_t *i, vc_err *err);
char *vf_sample_key(char buf[24], uint32_t number, uint32_t variant);

/* The sample's JSON record, compared with its hash; the caller frees with cJSON_Delete. */
int vf_dataset_sample(const vf_dataset *d, uint32_t i, cJSON **record, vc_err *err);
/* A value by key, zero-copy from the map: *st borrows from the dataset, close it first. check:
 * compare xxh3. VC_ENOENT: no shard has it; whatever is wrong names shard and key. */
int vf_dataset_latent(const vf_dataset *d, vf_key k, bool check, vf_safetensors **st, vc_err *err);
/* The same of something that belongs to entry e, whose shard most likely has it: the others are not
 * searched then. */
int vf_dataset_latent_of(const vf_dataset *d, const vf_entry *e, vf_key k, bool check,
                         vf_safetensors **st, vc_err *err);
int vf_dataset_text(const vf_dataset *d, vf_key k, bool check, vf_safetensors **st, vc_err *err);
/* The same value as stored: the bytes of the safetensors container, borrowed. */
int vf_dataset_bytes(const vf_dataset *d, bool text, vf_key k, const void **data, size_t *n,
                     vc_err *err);
/* JPEG bytes, borrowed and not looked into. VC_ENOENT if there is none. */
int vf_dataset_thumb(const vf_dataset *d, uint32_t i, const void **jpeg, size_t *n, vc_err *err);
/* Stored validation prompts: JSON records in row order; the caller frees. */
uint32_t vf_dataset_validations(const vf_dataset *d);
int vf_dataset_validation(const vf_dataset *d, uint32_t i, cJSON **record, vc_err *err);

/* Asks the system to read the pages of a latent that belongs to entry e ahead. */
void vf_dataset_prefetch(const vf_dataset *d, const vf_entry *e, vf_key latent);

/* ---- writing ---- */

/* Takes the lock that every writer of the dataset at path holds, for who repairs it or puts another
 * folder in its place: *lock is a descriptor, and closing it gives the lock back. What is read from
 * now on stays as it is. VC_ENOENT: no dataset, and nothing is made; VC_EBUSY. */
int vf_dataset_lock(int *lock, const char *path, vc_err *err);

typedef struct vf_writer vf_writer;

/* How many of the named fields (NULL-ended) differ between two manifests or heads; told: the first
 * differences, with both values. */
enum { VF_HEAD_TOLD = 900 };
int vf_head_compare(const cJSON *there, const cJSON *now, const char *const *fields,
                    char told[VF_HEAD_TOLD]);

/* head gets the families of `other` too: `families`, all of them, once there are several; `family`
 * stays. VC_EFORMAT: more than can be. */
int vf_head_families(cJSON *head, const cJSON *other, vc_err *err);

typedef struct vf_writer_opts {
    const cJSON *head;                       /* manifest fields that describe the making: family,
                                              * part, train_mode, conditions, vae, normalization,
                                              * text_encoders, latent_store, dtype, sampling */
    int64_t shard_size;                      /* bytes after which a shard is closed */
    double shard_seconds;                    /* one open for so long is closed with the sample that
                                              * is put next; 0: by size alone */
    bool overwrite;                          /* start anew: the dataset's own files are removed */
    bool append;                             /* keep samples that are not put again */
    bool change;                             /* go on under any head: each record is put again */
    int rank, ranks;                         /* of several writers; 0, 0: alone */
    /* What else must be so: asked when the lock is held, before anything changes. May be NULL. */
    int (*check)(const char *path, vc_err *err);
} vf_writer_opts;

/* Whether a writer would go on in the dataset at path, whose manifest is `there`: 0, or
 * VC_EMISMATCH with the differences and the remedies. */
int vf_head_accept(const char *path, const cJSON *there, const vf_writer_opts *o, vc_err *err);
/* Makes the folder or goes on in it: takes the lock (VC_EBUSY), checks what is there before
 * liblmdb opens it (VC_EFORMAT names the file to remove), refuses a dataset whose head differs in
 * more than normalization, train_mode and conditions (VC_EMISMATCH with the differences and the
 * remedies) unless `change`; with `append`, which keeps records of the old mode, also in
 * train_mode. The manifest says incomplete from here on. */
int vf_writer_open(vf_writer **out, const char *path, const vf_writer_opts *o, vc_err *err);
/* Sets a text field of the head that is known only later: manifests written from now on have it. */
int vf_writer_describe(vf_writer *w, const char *field, const char *text, vc_err *err);
/* Gives everything back; what was committed stays, the rest is redone next time. NULL is fine. */
void vf_writer_close(vf_writer *w);

/* Many threads may ask what there is, and vf_writer_keep_record for samples of their own, while
 * nothing is put. */

/* ---- several writers of one dataset, each with shards of its own ----
 * The ranks of a job, which only have to wait for each other here (|| all others have done so):
 *     rank 0 opens || the others open || rank 0 shares || the others share
 *     all put what no other puts and need only what was there, or what they caught up with ||
 *     ranks but 0 finish || rank 0 catches up, drops, finishes
 * Every call is as for a writer alone, but: `overwrite` and what is dropped are rank 0's affair, which
 * keeps the samples that others have put; a hint that another puts is not kept. */
/* The lock on the dataset, exclusive until then, becomes one that the ranks share: it keeps other
 * jobs out for as long as any of them lives. */
int vf_writer_share(vf_writer *w, vc_err *err);
/* Closes the open shards, for others to catch up with. */
int vf_writer_flush(vf_writer *w, vc_err *err);
int vf_writer_shards(const vf_writer *w);                    /* closed ones, as far as w knows */
/* Takes in what other ranks have closed, until there are so many shards. Waits for a file system that
 * shows an old manifest; VC_EIO when that does not end. */
int vf_writer_catch_up(vf_writer *w, int shards, vc_err *err);

/* Closed shards that were gone at open: somebody removed them because they were damaged. What
 * they held counts as never made, and is to be put again. */
int vf_writer_lost_shards(const vf_writer *w);
bool vf_writer_has_latent(const vf_writer *w, vf_key k);
bool vf_writer_has_text(const vf_writer *w, vf_key k);
/* Live samples and variants. Of one of them the key of its clip, and its record as JSON text;
 * borrowed until the next call, NULL: there is no such sample. */
uint32_t vf_writer_count(const vf_writer *w);
const vf_key *vf_writer_clip_of(const vf_writer *w, uint32_t number, uint32_t variant);
const char *vf_writer_sample(vf_writer *w, uint32_t number, uint32_t variant);
/* Next free sample number; the number that a row has, by its id (VC_ENOENT if it is new). */
uint32_t vf_writer_next_number(const vf_writer *w);
int vf_writer_number_of(const vf_writer *w, uint64_t id, uint32_t *number);

/* Puts. Values are copied; a full batch, a full map and a full shard are handled inside. An error
 * other than VC_EINVAL sticks: later calls give it again. VC_EFULL: no room; what was committed is
 * intact.
 * A value whose key is there already is left alone (0). */
int vf_writer_put_latent(vf_writer *w, vf_key k, const void *st, size_t n, vc_err *err);
int vf_writer_put_text(vf_writer *w, vf_key k, const void *st, size_t n, vc_err *err);
/* record: the whole sample record, after all that it refers to (else VC_EINVAL). One with the bytes
 * that are stored now is not written again. thumb may be NULL: an earlier one stays. */
int vf_writer_put_sample(vf_writer *w, uint32_t number, uint32_t variant, const cJSON *record,
                         const void *thumb, size_t thumb_n, vc_err *err);
int vf_writer_put_validation(vf_writer *w, uint32_t i, const cJSON *record, vc_err *err);
/* Whether the sample's live record has these n bytes: then it stays as it is. */
bool vf_writer_keep_record(vf_writer *w, uint32_t number, uint32_t variant, const char *text,
                           size_t n);
/* A sample stays as it is. VC_ENOENT if there is none. */
int vf_writer_keep_sample(vf_writer *w, uint32_t number, uint32_t variant);
/* Drops each live record and validation prompt that was neither put nor kept since open; with
 * `append` none. */
int vf_writer_drop_unseen(vf_writer *w, uint32_t *dropped, vc_err *err);

/* Makes what was put durable (also done by itself every 64 MiB). */
int vf_writer_commit(vf_writer *w, vc_err *err);
/* Closes the open shards and writes the manifest as complete. Only close may follow. */
int vf_writer_finish(vf_writer *w, vc_err *err);

/* Keeps a hint with the dataset, in state.lmdb: a small value by a name, e.g. a file's hash by
 * (size, mtime, inode). Losing it is harmless. */
int vf_writer_hint_put(vf_writer *w, const char *name, const void *value, size_t n, vc_err *err);

/* ---- hints ---- */

/* The hints that the dataset at path had when it was opened here, for many threads. Close it before
 * the writer of the same dataset opens or finishes. NULL: there are none. */
typedef struct vf_hints vf_hints;
vf_hints *vf_hints_open(const char *path);
void vf_hints_close(vf_hints *h);                            /* NULL is fine */
/* 0, or VC_ENOENT if there is none of n bytes. h may be NULL. */
int vf_hints_get(const vf_hints *h, const char *name, void *value, size_t n);

/* ---- checking ---- */

typedef struct vf_verify_report {
    uint64_t samples, latents, texts, thumbs, bytes;
    uint64_t damaged;                        /* findings of damage */
    uint64_t unreadable;                     /* of files that the system did not give */
    struct { float min, max; } latent, text; /* of all finite values; min > max: there are none */
} vf_verify_report;

/* Every page, checksum, record, reference and shape. Each finding is told to `found` (file and key;
 * what is wrong) and the check goes on; 0 says that it came to its end. A file that the system does
 * not give (no permission, too many open files, a read error) is told too, but is no damage: nobody
 * knows what it holds, and what refers to what is not looked at then. VC_ENOENT: no dataset. */
int vf_verify(const char *path, void (*found)(void *arg, const char *where, const char *what),
              void *arg, const atomic_int *stop, vf_verify_report *r, vc_err *err);

#endif
