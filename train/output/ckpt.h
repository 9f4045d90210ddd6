/* ckpt.h - checkpoint folders: made whole or not at all, found again, pruned.
 *
 *     out/checkpoint-500/   what the run writes into it: weights, optimizer.safetensors,
 *     trainer.json, and last checksums.json (formats/tensors/sums.h)
 *
 * A checkpoint is written into out/checkpoint-500.tmp, synced and renamed, so a crash or a full
 * disk leaves the earlier ones as they were. Older ones are removed only once the new one is
 * durable. */
#ifndef TRAIN_OUTPUT_CKPT_H
#define TRAIN_OUTPUT_CKPT_H

#include "common/os/progress.h"
#include "formats/dataset/dataset.h"
#include "formats/json/json.h"
#include "formats/tensors/sums.h"

/* Removes what killed runs left in out; one that was put aside for its successor, which never came,
 * is back. Never fails. One process at a time works on `out`. */
void vtrain_ckpt_clean(const char *out);
/* Removes the oldest complete ones beyond `limit` (0: keeps all), never that of step. */
void vtrain_ckpt_prune(const char *out, int64_t step, int64_t limit);
/* Makes out/checkpoint-STEP.tmp anew, after removing what killed runs left there of any step; *dir
 * malloc'ed. One process at a time works on `out`. */
int vtrain_ckpt_begin(char **dir, const char *out, int64_t step, vc_err *err);
/* Syncs each file and folder of it, renames it to checkpoint-STEP (replacing one of the same
 * step whole), syncs out, then removes the oldest complete ones beyond `limit` (0: keeps all),
 * never this one. One that cannot be removed is no error and goes with the next checkpoint.
 * VC_EINVAL: no trainer.json was written. */
int vtrain_ckpt_commit(const char *out, int64_t step, int64_t limit, vc_err *err);
/* After a failure: removes the temporary folder; never fails. */
void vtrain_ckpt_abort(const char *out, int64_t step);

/* What --resume_from_checkpoint says: "latest" (the highest complete step below out), a step, or
 * a path of a checkpoint folder, as it is or below out. *path malloc'ed. VC_ENOENT: there is none
 * ("latest": *path NULL and 0). A .tmp folder or one without trainer.json is not complete. */
int vtrain_ckpt_find(char **path, const char *out, const char *which, vc_err *err);
/* Whether dir is named checkpoint-STEP. */
bool vtrain_ckpt_step(const char *dir, int64_t *step);
/* The newest complete one of out below *step, which becomes its step; *path NULL: there is none. */
int vtrain_ckpt_before(char **path, const char *out, int64_t *step, vc_err *err);

/* trainer.json */
typedef struct vtrain_ckpt_set {
    char *path, *root;           /* as given; hex root of its manifest */
    int64_t samples;
    char *plan;                  /* hex hash of the plan that it was made by; NULL: not known */
} vtrain_ckpt_set;
/* Epochs with the same samples: those of each dataset's first shards. */
typedef struct vtrain_part {
    int shards;
    int64_t samples;
    char root[33];
} vtrain_part;
typedef struct vtrain_span {
    uint64_t epoch, micro;       /* its first epoch, and the first micro-batch of that */
    vtrain_part *part;           /* [n_parts], a dataset each; malloc'ed */
    int n_parts;
} vtrain_span;
/* The weights that a run began with, where it does not train all of them. */
typedef struct vtrain_base_id {
    char *path;                  /* their folder; NULL: not recorded */
    vf_key files, weights;       /* vf_model_files, vf_model_hash */
} vtrain_base_id;
typedef struct vtrain_state {
    int64_t step;                /* steps done */
    uint64_t micro;              /* micro-batches done: the next one's number */
    uint64_t seed;
    int64_t batch, accumulation, ranks;
    char *family, *training_type, *backend;    /* backend: vt_describe's name, "cpu" */
    uint64_t rows, dropped;      /* captions so far, and how many were dropped: achieved dropout */
    vtrain_ckpt_set *sets;
    int n_sets;
    uint64_t epoch;              /* that the next micro-batch belongs to, or nearly */
    vtrain_span *span;           /* oldest first, the last one is in use; none: not recorded */
    int n_spans;
    vtrain_base_id base;
    bool checksums;              /* read: the folder was written with a checksums.json */
    cJSON *settings;             /* flag name -> value as text, for people and for comparing */
} vtrain_state;

/* sums: those of the checkpoint's folder, or NULL; the state says that there are some. */
int vtrain_state_write(const vtrain_state *s, const char *dir, vf_sums *sums, vc_err *err);
/* Checks every field; names the file in errors. */
int vtrain_state_read(vtrain_state *s, const char *dir, vc_err *err);
/* ckpt_check.c. The same of a checkpoint whose files agree with its checksums.json: the bytes of
 * those that a run which goes on reads, names and sizes of the others, whose damage is a warning.
 * VC_EFORMAT names the file, what changed in it, and the newest whole checkpoint before this one.
 * One that was made before there were checksums is read, with a line that says so. */
int vtrain_ckpt_read(vtrain_state *s, const char *dir, vc_progress *ui, const atomic_int *stop,
                     vc_err *err);
void vtrain_spans_free(vtrain_span *s, int n);
void vtrain_state_free(vtrain_state *s);       /* frees what read() made; an all-zero one is fine */

#endif
