/* ckpt.h - checkpoint folders: written atomically, found again, pruned.
 *
 *     out/checkpoint-500/   weights, optimizer.safetensors, trainer.json, and, written last,
 *                           checksums.json (formats/tensors/sums.h)
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

/* Removes leftovers of killed runs in out. A checkpoint renamed to make room for its replacement,
 * which was never put in place, gets its name back. Never fails. Only one process at a time may
 * work on `out`. */
void vtrain_ckpt_clean(const char *out);
/* Removes the oldest complete checkpoints beyond `limit` (0: keeps all), never that of step nor the
 * `best` of least loss (vtrain_ckpt_best), which do not count against the limit. */
void vtrain_ckpt_prune(const char *out, int64_t step, int64_t limit, int64_t best);
/* Cleans out as vtrain_ckpt_clean does, and makes an empty folder out/checkpoint-STEP.tmp; *dir
 * is malloc'ed. */
int vtrain_ckpt_begin(char **dir, const char *out, int64_t step, vc_err *err);
/* Syncs each file and folder of that folder, renames it to checkpoint-STEP (replacing an existing
 * one of the same step atomically), syncs out, and prunes as vtrain_ckpt_prune does. A checkpoint
 * that cannot be removed is no error and is removed with the next one. VC_EINVAL: the folder has no
 * trainer.json. */
int vtrain_ckpt_commit(const char *out, int64_t step, int64_t limit, int64_t best, vc_err *err);
/* After a failure: removes the temporary folder; never fails. */
void vtrain_ckpt_abort(const char *out, int64_t step);

/* ---- ckpt_find.c ---- */

/* Finds the checkpoint that --resume_from_checkpoint names: "latest" (the highest complete step
 * below out), a step, or the path of a checkpoint folder, as given or below out. *path is
 * malloc'ed. VC_ENOENT: no such checkpoint is complete; for "latest" the function then returns 0
 * with *path NULL. A .tmp folder or a folder without trainer.json is not complete. A run's folder
 * holds one line of descent (aside.h), so the highest step is where the run stands. */
int vtrain_ckpt_find(char **path, const char *out, const char *which, vc_err *err);
/* Lists the steps of out's checkpoint folders, complete or not, ascending; *steps is malloc'ed. */
int vtrain_ckpt_steps(int64_t **steps, int *n, const char *out, vc_err *err);
/* The name of a step's checkpoint folder, malloc'ed; NULL: out of memory. */
char *vtrain_ckpt_name(int64_t step);
/* True, with the step in *step, if dir is named checkpoint-STEP. */
bool vtrain_ckpt_step(const char *dir, int64_t *step);
/* Finds the newest complete checkpoint of out before *step, and sets *step to its step; *path is
 * malloc'ed, or NULL if no such checkpoint exists. */
int vtrain_ckpt_before(char **path, const char *out, int64_t *step, vc_err *err);

/* ---- ckpt_best.c ---- */

/* A checkpoint and its held-out loss. */
typedef struct vtrain_ckpt_loss {
    int64_t step;
    double loss;
} vtrain_ckpt_loss;
#define VTRAIN_BEST "best"       /* out's link to the checkpoint of least loss */
/* Lists the complete checkpoints of out that record a loss, the `most` of least loss, best first;
 * of equal losses the earliest. *best is malloc'ed. */
int vtrain_ckpt_best(vtrain_ckpt_loss **best, int *n, const char *out, int64_t most, vc_err *err);
/* Lets out/best lead to the best checkpoint, and removes it where it leads to none. *changed: it
 * leads to another one than before, *best. With most 0 only the latter is done. VC_EINVAL: out/best
 * is something else. */
int vtrain_ckpt_link_best(vtrain_ckpt_loss *best, bool *changed, const char *out, int64_t most,
                          vc_err *err);

/* ---- ckpt_state.c: trainer.json ---- */

typedef struct vtrain_ckpt_set {
    char *path, *root;           /* as given; hex root of its manifest */
    int64_t samples;
    char *plan;                  /* hex hash of the plan that it was made by; NULL: not known */
} vtrain_ckpt_set;
/* A dataset's samples in a span: those of its first shards. */
typedef struct vtrain_part {
    int shards;
    int64_t samples;
    char root[33];
} vtrain_part;
/* Epochs with the same samples in one order. */
typedef struct vtrain_span {
    uint64_t epoch, micro;       /* the span's first epoch and first micro-batch */
    double done;                 /* epochs that were done when it began */
    int64_t batch;               /* samples of a full micro-batch; 0: not chosen yet */
    uint64_t seed;               /* of the order */
    bool rest;                   /* its first epoch has what the spans before left of the epoch */
    uint64_t visits;             /* hash of its first epoch's samples; 0: not recorded */
    vtrain_part *part;           /* [n_parts], a dataset each; malloc'ed */
    int n_parts;
} vtrain_span;
/* The weights that a run began with, where it does not train all of them. */
typedef struct vtrain_base_id {
    char *path;                  /* folder of the weights; NULL: not recorded */
    vf_key files, weights;       /* vf_model_files, vf_model_hash */
} vtrain_base_id;
typedef struct vtrain_state {
    int64_t step;                /* steps done */
    uint64_t micro;              /* micro-batches done, which is the next one's number */
    uint64_t seed;
    int64_t batch, accumulation, ranks;        /* their product: the samples of a step */
    int64_t micro_rows;          /* samples of a micro-batch, which are chosen together */
    char *family, *training_type, *backend;    /* backend: vt_describe's name, "cpu" */
    uint64_t rows, dropped;      /* captions trained on; those of them that were dropped */
    bool halves;                 /* two transformers were trained, */
    int64_t updates[2];          /* and so many steps changed each */
    int64_t average_from;        /* steps done when the average of --use_ema began */
    int64_t planned;             /* steps that the run was to have; 0: not recorded */
    vtrain_ckpt_set *sets;
    int n_sets;
    double epochs;               /* epochs done */
    bool counted, evaluated;     /* step_epoch, eval_loss is known */
    int64_t step_epoch;          /* epoch that the last step began in */
    double eval_loss;            /* of the exported weights */
    vtrain_span *span;           /* oldest first, the last one is in use; none: not recorded */
    int n_spans;
    vtrain_base_id base;
    bool checksums;              /* set by read: the folder was written with a checksums.json */
    cJSON *sources;              /* text of each source of numbers (sources.h); NULL: none */
    cJSON *numbers;              /* of the optimiser's run, by their names; NULL: it has none */
    cJSON *settings;             /* flag name -> value as text, to read and to compare */
} vtrain_state;

/* Writes trainer.json below dir. sums: checksums of the checkpoint's folder, which the state then
 * records, or NULL. */
int vtrain_state_write(const vtrain_state *s, const char *dir, vf_sums *sums, vc_err *err);
/* Reads trainer.json and checks every field; errors name the file. */
int vtrain_state_read(vtrain_state *s, const char *dir, vc_err *err);
/* ckpt_check.c. Compares a checkpoint with its checksums.json, and reads its trainer.json. Files
 * that a resumed run reads are compared byte by byte; of the others names and sizes, and damage to
 * these is a warning. VC_EFORMAT names the damaged file, the damage, and the newest whole
 * checkpoint before this one. A checkpoint made before checksums existed is read, and a message
 * reports this. */
int vtrain_ckpt_read(vtrain_state *s, const char *dir, vc_progress *ui, const atomic_int *stop,
                     vc_err *err);
/* The same for the newest whole checkpoint below out; *path, malloc'ed, is its folder, or NULL if
 * out has none. A warning names each newer checkpoint that is damaged or lacks trainer.json, and
 * the damage. VC_EFORMAT: out has checkpoints, but none is whole. */
int vtrain_ckpt_read_latest(char **path, vtrain_state *s, const char *out, vc_progress *ui,
                            const atomic_int *stop, vc_err *err);
void vtrain_spans_free(vtrain_span *s, int n);
void vtrain_state_free(vtrain_state *s);       /* frees what read() made; an all-zero one is fine */

#endif
