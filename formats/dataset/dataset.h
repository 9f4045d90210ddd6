/* dataset.h - the latent dataset: a folder of LMDB shards, a manifest, and the reports of vprep.
 *
 *     latents.lmdb/manifest.json  shard-00000.lmdb ...  text-00000.lmdb ...  errors.jsonl
 *                  plan.jsonl     state.lmdb
 *
 * docs/format.md describes the format. Latents are stored as the VAE made them; text is stored once
 * per distinct (prompt, encoder); every tensor value is a complete safetensors byte string with an
 * xxh3 of its data; values are found by content keys. A closed shard never changes.
 *
 * Our own read-only walker (lmdb_read.h) reads the shards and checks each page before it follows
 * the page: a truncated, altered or hostile dataset gives errors, never a crash. A reader needs no
 * lock file and may serve many threads. liblmdb writes the shards, one thread at a time, in one
 * process or in the ranks of a job. */
#ifndef FORMATS_DATASET_DATASET_H
#define FORMATS_DATASET_DATASET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/os/patience.h"
#include "formats/json/json.h"
#include "formats/keys/keys.h"
#include "formats/tensors/safetensors.h"

enum { VF_MAX_RECORD = 4 << 20 };   /* bytes of a record's JSON; its tree takes 30 times as many */

/* ---- reading ---- */

typedef struct vf_dataset vf_dataset;

/* What a sample is: a clip; a regularisation picture; one of which the base's prediction is
 * kept. */
enum { VF_ENTRY_VIDEO = 1, VF_ENTRY_REG = 2, VF_ENTRY_PRIOR = 4 };

/* The facts about a sample from which a trainer plans its epochs: 48 bytes, as a shard's index has
 * them. */
typedef struct vf_entry {
    vf_key latent;                           /* latent_key */
    uint32_t number;                         /* sample number */
    uint16_t variant;
    uint16_t zero;
    uint16_t f, h, w;                        /* latent grid, each at least 1 */
    uint8_t flags, captions;                 /* VF_ENTRY_*; number of captions (255: or more) */
    uint32_t tokens;
    float weight;
    uint32_t frames;                         /* pixel frames of the clip */
    float fps;                               /* frames per second of the clip; 0: unknown */
} vf_entry;

/* Opens the closed shards: checks the manifest, sizes and indexes, and reads nothing else. Ten
 * million samples open in about a second, and the handle takes 6.1 bytes of memory a sample:
 * entries stay in the shards' maps, which the processes of a machine share. VC_ENOENT: no dataset;
 * VC_EFORMAT: damaged; VC_EINVAL: unfinished (vprep was interrupted or still runs), unless
 * allow_incomplete. */
int vf_dataset_open(vf_dataset **out, const char *path, bool allow_incomplete, vc_err *err);
/* Opens the readable part of a damaged dataset, finished or not: shards that are missing, truncated
 * or damaged inside are left out, and each is reported. Later reads check as usual. An error of the
 * system (VC_EIO, VC_ENOMEM) is no damage and is returned. */
int vf_dataset_salvage(vf_dataset **out, const char *path,
                       void (*report)(void *arg, const char *text), void *arg, vc_err *err);
/* Opens only the first `shards` shards of the manifest, the dataset as it was when these were
 * closed: closed shards never change and new ones are added at the end. VC_ENOENT: the manifest has
 * fewer. */
int vf_dataset_open_first(vf_dataset **out, const char *path, int shards, vc_err *err);
void vf_dataset_close(vf_dataset *d);                        /* d may be NULL */

/* Adds the remedy to the text of damage (rc VC_EFORMAT or VC_ENUMERIC) in the dataset at path,
 * unless the text has the remedy, and returns rc. The calls below do this themselves for a handle
 * that is not salvaged. */
int vf_dataset_remedy(const char *path, int rc, vc_err *err);

/* Reads how many shards are closed now, and whether the dataset is complete, for a reader that
 * follows a writer. VC_ENOENT: no dataset yet. */
int vf_dataset_progress(const char *path, int *shards, bool *complete, vc_err *err);
/* True if the folder holds a dataset, even an unfinished or a damaged one. */
bool vf_dataset_there(const char *path);

/* How a dataset was made: the family and the class of the VAE in its manifest, the --model in the
 * settings that vprep left beside it. Each is NULL if it is not known. */
typedef struct vf_made {
    char *family, *vae, *model;
} vf_made;
void vf_dataset_made(vf_made *m, const char *path);
void vf_made_free(vf_made *m);
/* next.c. The lines that name the command to give next, with paths as a shell takes them: to train
 * on the dataset at path ("next: vtrain --latents ..."), and to decode the samples of a run of the
 * model, NULL: the built-in one. malloc'ed; NULL when out of memory. */
char *vf_next_train(const char *path);
char *vf_next_decode(const char *run, const char *model);

const cJSON *vf_dataset_manifest(const vf_dataset *d);       /* borrowed */
int vf_dataset_shards(const vf_dataset *d);                  /* closed shards that were opened */
/* Writes the root (docs/format.md) of the samples in this handle; a whole dataset has its
 * manifest's. */
char *vf_dataset_root(const vf_dataset *d, char hex[VF_KEY_HEX]);
const char *vf_dataset_path(const vf_dataset *d);
uint32_t vf_dataset_count(const vf_dataset *d);              /* live samples and variants */
const vf_entry *vf_dataset_entry(const vf_dataset *d, uint32_t i);   /* by number, then variant */
/* The manifest's index of the shard that has sample i's record. */
int vf_dataset_shard_of(const vf_dataset *d, uint32_t i);
/* Removes the dataset's pages from this process's memory, for a caller that has read many entries
 * and will read them again only here and there; such a read gets them from the page cache. */
void vf_dataset_release(const vf_dataset *d);
/* Finds the index of a sample by its key "000000000042/000" (or "42", "42/0"). VC_ENOENT: no such
 * sample; VC_EINVAL: the text is no key. */
int vf_dataset_find(const vf_dataset *d, const char *key, uint32_t *i, vc_err *err);
char *vf_sample_key(char buf[24], uint32_t number, uint32_t variant);

/* Reads the sample's JSON record and compares it with its hash; the caller frees with
 * cJSON_Delete. */
int vf_dataset_sample(const vf_dataset *d, uint32_t i, cJSON **record, vc_err *err);
/* Gets the bytes of the record, borrowed and unchecked: vf_dataset_sample checks them. */
int vf_dataset_record(const vf_dataset *d, uint32_t i, const void **json, size_t *n, vc_err *err);
/* Gets a value by key, zero-copy from the map: *st borrows from the dataset and is closed first.
 * With `check` its xxh3 is compared, and its tensors' names are checked. VC_ENOENT: no shard has
 * the key; errors name shard and key. */
int vf_dataset_latent(const vf_dataset *d, vf_key k, bool check, vf_safetensors **st, vc_err *err);
/* Gets a value of sample i: the shard of its record, which most likely has the value, is searched
 * first. */
int vf_dataset_latent_of(const vf_dataset *d, uint32_t i, vf_key k, bool check,
                         vf_safetensors **st, vc_err *err);
int vf_dataset_text(const vf_dataset *d, vf_key k, bool check, vf_safetensors **st, vc_err *err);
/* Gets a text of sample i: the text shard that was closed with the sample's is searched first. Of
 * thousands of text shards vf_dataset_text searches half on average. */
int vf_dataset_text_of(const vf_dataset *d, uint32_t i, vf_key k, bool check, vf_safetensors **st,
                       vc_err *err);
/* Sizes that texts have, each with one text of that size. */
enum { VF_MAX_SIZES = 4096 };
typedef struct vf_text_size {
    size_t bytes;                            /* of the value */
    vf_key key;
} vf_text_size;
/* Lists the sizes of all texts, the greatest first, in a malloc'ed list. Of a value that is longer
 * than a page nothing is read. *n is 0, and nothing is known, if there are more than VF_MAX_SIZES
 * or too many pages to read (sizes.c). */
int vf_dataset_text_sizes(const vf_dataset *d, vf_text_size **list, size_t *n, vc_err *err);
/* VC_EFORMAT unless the value has the tensors of one kind of value, of a text or of latents, and no
 * others. */
int vf_value_names(bool text, const vf_safetensors *st, vc_err *err);
/* Gets a value as stored: the bytes of the safetensors container, borrowed. */
int vf_dataset_bytes(const vf_dataset *d, bool text, vf_key k, const void **data, size_t *n,
                     vc_err *err);
/* Gets the JPEG bytes of the thumbnail, borrowed and unchecked. VC_ENOENT: the sample has none. */
int vf_dataset_thumb(const vf_dataset *d, uint32_t i, const void **jpeg, size_t *n, vc_err *err);
/* The stored validation prompts are JSON records in row order; the caller frees *record. */
uint32_t vf_dataset_validations(const vf_dataset *d);
int vf_dataset_validation(const vf_dataset *d, uint32_t i, cJSON **record, vc_err *err);

/* Values to which no sample and no prompt refers, later copies of a value among them, and records
 * in place of which there are newer ones: vlat gc leaves them out. */
typedef struct vf_unused {
    uint64_t latents, texts, records;
    uint64_t bytes;                          /* that the latents and texts take in their files */
} vf_unused;
/* Finds them: reads every record, and walks the keys of all shards. VC_ESTOP after a signal. */
int vf_dataset_unused(const vf_dataset *d, vf_unused *u, vc_err *err);

/* Asks the system to read the pages of a latent that belongs to sample i ahead. */
void vf_dataset_prefetch(const vf_dataset *d, uint32_t i, vf_key latent);

/* ---- writing ---- */

/* Takes the lock that every writer of the dataset at path holds, for a program that repairs the
 * dataset or replaces its folder. *lock is a descriptor; closing it releases the lock, and the
 * dataset does not change until then. VC_ENOENT: no dataset, and no file is made; VC_EBUSY. */
int vf_dataset_lock(int *lock, const char *path, vc_err *err);

/* True if a writer of the dataset at path has ended and left it unfinished: nobody holds its lock.
 * False too where that cannot be found out, as in another user's folder. */
bool vf_dataset_abandoned(const char *path);

typedef struct vf_writer vf_writer;

/* Returns how many of the named fields (NULL-ended) differ between two manifests or heads, and
 * writes the first differences, with both values, into `differences`. */
enum { VF_HEAD_TEXT = 900 };
int vf_head_compare(const cJSON *there, const cJSON *now, const char *const *fields,
                    char differences[VF_HEAD_TEXT]);

/* Removes the fields that a writer makes itself (samples, root, shards, ...), so that a manifest
 * becomes a head. NULL is fine. */
void vf_head_clear(cJSON *head);

/* Adds the families of `other` to head: the field `families` lists all of them if they are several;
 * `family` stays. VC_EFORMAT: too many families. */
int vf_head_families(cJSON *head, const cJSON *other, vc_err *err);

typedef struct vf_writer_opts {
    const cJSON *head;                       /* manifest fields that describe the settings: family,
                                              * part, train_mode, conditions, vae, normalization,
                                              * text_encoders, latent_store, dtype, sampling */
    int64_t shard_size;                      /* bytes after which a shard is closed */
    double shard_seconds;                    /* seconds after which the next sample closes an open
                                              * shard; 0: only its size does */
    double commit_seconds;                   /* seconds after a commit in which samples may wait for
                                              * the next; 0: until 64 MiB wait */
    bool overwrite;                          /* remove the dataset's own files and begin again */
    bool append;                             /* keep samples that are not put again */
    bool copies;                             /* all values are copies that can be made again: open
                                              * shards are not durable, and those of a killed run
                                              * are begun again. vf_writer_number_of is not
                                              * called: less memory */
    bool change;                             /* continue under any head: each record is put again */
    bool hold;                               /* only hints may be put until vf_writer_begin, and
                                              * neither the manifest nor a shard changes before */
    int rank, ranks;                         /* place among several writers; 0, 0: a lone writer */
    vc_patience patience;               /* with another rank that holds manifest.lock */
    /* Makes further checks, under the lock and before the folder changes; may be NULL. */
    int (*check)(const char *path, vc_err *err);
} vf_writer_opts;

/* Returns 0 if a writer with these options may continue the dataset at path, whose manifest is
 * `there`, or VC_EMISMATCH with the differences and the remedies. */
int vf_head_accept(const char *path, const cJSON *there, const vf_writer_opts *o, vc_err *err);
/* Returns VC_EUSAGE if the folder has files but no dataset, which would mix with them: neither a
 * writer's files, nor those that belong to one (plan.jsonl), nor logs and settings of a job, nor
 * hidden ones; or if the path is a file. VC_EIO: the folder, or the nearest one above it, takes no
 * files. 0: the folder is not there, is empty, or holds a dataset. */
int vf_writer_room(const char *path, vc_err *err);
/* Makes the folder or continues the dataset in it: takes the lock (VC_EBUSY) and checks the files
 * before liblmdb opens them (VC_EFORMAT names the file to remove). A dataset whose head differs in
 * more than normalization, train_mode and conditions is refused (VC_EMISMATCH with the differences
 * and the remedies) unless `change`; with `append`, which keeps records of the old mode, train_mode
 * must be equal too. The manifest is incomplete from this call on, or with `hold` from
 * vf_writer_begin on, which also removes what `overwrite` replaces. */
int vf_writer_open(vf_writer **out, const char *path, const vf_writer_opts *o, vc_err *err);
int vf_writer_begin(vf_writer *w, vc_err *err);
/* Sets a text field of the head that becomes known only later; later manifests have the field. */
int vf_writer_describe(vf_writer *w, const char *field, const char *text, vc_err *err);
/* Frees w, which may be NULL; committed data stay on disk, the rest is put again by the next
 * run. */
void vf_writer_close(vf_writer *w);

/* While no thread puts, many threads may call the functions that only read, and
 * vf_writer_keep_record for samples of their own. */

/* ---- several writers of one dataset, each with shards of its own ----
 * The ranks of a job wait for each other only at the points || here, until all others have come
 * there:
 *     rank 0 opens, begins || the others open || rank 0 shares || the others share
 *     each rank puts values that no other puts; these refer only to earlier values, or to values of
 *     shards that the rank has caught up with ||
 *     the ranks except 0 finish || rank 0 catches up, drops, finishes
 * Each call does the same as for a lone writer, with two exceptions: only rank 0 overwrites and
 * drops, and it keeps the samples that others have put; and hints that other ranks put are not
 * kept. */
/* Makes the exclusive lock on the dataset one that the ranks share: it keeps other jobs out while
 * any of the ranks lives. */
int vf_writer_share(vf_writer *w, vc_err *err);
/* Does all of vf_writer_flush and vf_writer_finish that needs no other rank: the shards are closed
 * but for their numbers. Nothing may be put until one of the two is called, which gives the
 * numbers; if the ranks call it one after the other, the same ranks get the same numbers in each
 * run. */
int vf_writer_seal(vf_writer *w, vc_err *err);
/* Closes the open shards, so that others can catch up with them. */
int vf_writer_flush(vf_writer *w, vc_err *err);
int vf_writer_shards(const vf_writer *w);                    /* closed shards that w has loaded */
/* Loads the shards that other ranks have closed, until w has `shards` shards. Waits while the file
 * system shows an old manifest; VC_EIO after two minutes. */
int vf_writer_catch_up(vf_writer *w, int shards, vc_err *err);

/* Returns how many closed shards were missing at open: somebody removed them because they were
 * damaged. Their samples count as never made and must be put again. */
int vf_writer_lost_shards(const vf_writer *w);
bool vf_writer_has_latent(const vf_writer *w, vf_key k);
bool vf_writer_has_text(const vf_writer *w, vf_key k);
/* Gets the bytes of a text that w has, malloc'ed and unchecked. VC_ENOENT: no shard that w can read
 * has the text. */
int vf_writer_read_text(vf_writer *w, vf_key k, void **value, size_t *n, vc_err *err);
/* Return the number of live samples and variants; the key of a sample's clip; its record as JSON
 * text, borrowed until the next call. NULL: there is no such sample. */
uint32_t vf_writer_count(const vf_writer *w);
const vf_key *vf_writer_clip_of(const vf_writer *w, uint32_t number, uint32_t variant);
const char *vf_writer_sample(vf_writer *w, uint32_t number, uint32_t variant);
/* Return the next free sample number, and the number of a row by its id (VC_ENOENT: the row is
 * new). */
uint32_t vf_writer_next_number(const vf_writer *w);
int vf_writer_number_of(const vf_writer *w, uint64_t id, uint32_t *number);

/* The put functions copy values; a full batch, a full map and a full shard are handled inside.
 * After an error other than VC_EINVAL later calls fail with the same error. VC_EFULL: the disk is
 * full; committed data are intact. A value whose key the dataset has is not written again (0). */
int vf_writer_put_latent(vf_writer *w, vf_key k, const void *st, size_t n, vc_err *err);
int vf_writer_put_text(vf_writer *w, vf_key k, const void *st, size_t n, vc_err *err);
/* Puts the JSON text of a whole sample record, after all values that the record refers to (else
 * VC_EINVAL). A record equal to the stored one is kept and not written again. thumb may be NULL: an
 * earlier thumbnail stays. VC_EFORMAT: the text is no record of this sample; the writer stays
 * usable. */
int vf_writer_put_record(vf_writer *w, uint32_t number, uint32_t variant, const char *text,
                         size_t n, const void *thumb, size_t thumb_n, vc_err *err);
/* The same for a record that is a tree. */
int vf_writer_put_sample(vf_writer *w, uint32_t number, uint32_t variant, const cJSON *record,
                         const void *thumb, size_t thumb_n, vc_err *err);
int vf_writer_put_validation(vf_writer *w, uint32_t i, const cJSON *record, vc_err *err);
/* Keeps the sample's live record and returns true if the record has these n bytes. */
bool vf_writer_keep_record(vf_writer *w, uint32_t number, uint32_t variant, const char *text,
                           size_t n);
/* Keeps a sample unchanged. VC_ENOENT: there is no such sample. */
int vf_writer_keep_sample(vf_writer *w, uint32_t number, uint32_t variant);
/* Returns how many samples and variants the next call would drop, or would with no `append`. */
uint32_t vf_writer_unseen(const vf_writer *w);
/* Drops each live record and validation prompt that was neither put nor kept since open; with
 * `append` none. */
int vf_writer_drop_unseen(vf_writer *w, uint32_t *dropped, vc_err *err);

/* Makes all puts durable. The writer also commits by itself every 64 MiB, and with the
 * first sample that is put commit_seconds after the last commit. */
int vf_writer_commit(vf_writer *w, vc_err *err);
/* Closes the open shards and writes the manifest as complete. Only close may follow. */
int vf_writer_finish(vf_writer *w, vc_err *err);

/* Stores a hint in the dataset's state.lmdb: a small value under a name, e.g. a file's hash under
 * its (size, mtime, inode). A lost hint does no harm. */
int vf_writer_hint_put(vf_writer *w, const char *name, const void *value, size_t n, vc_err *err);

/* ---- hints ---- */

/* Opens the hints of the dataset at path as they are now, for many threads. The caller closes them
 * before a writer of the same dataset opens or finishes. NULL: there are no hints. */
typedef struct vf_hints vf_hints;
vf_hints *vf_hints_open(const char *path);
void vf_hints_close(vf_hints *h);                            /* h may be NULL */
/* Gets a hint of n bytes; VC_ENOENT: there is no such hint. h may be NULL. */
int vf_hints_get(const vf_hints *h, const char *name, void *value, size_t n);

/* ---- checking ---- */

typedef struct vf_verify_report {
    uint64_t samples, latents, texts, thumbs, bytes;
    uint64_t damaged;                        /* findings of damage */
    uint64_t unreadable;                     /* findings of files that could not be read */
    struct { float min, max; } latent, text; /* range of all finite values; min > max: no values */
} vf_verify_report;

/* Checks every page, checksum, record, reference and shape. Each finding is reported to `found`
 * (file and key; the fault) and the check continues; 0 means that the check was completed. A file
 * that the system cannot read (no permission, too many open files, a read error) is reported too,
 * but is no damage; references are then not checked. VC_ENOENT: no dataset. */
int vf_verify(const char *path, void (*found)(void *arg, const char *where, const char *what),
              void *arg, const atomic_int *stop, vf_verify_report *r, vc_err *err);

#endif
