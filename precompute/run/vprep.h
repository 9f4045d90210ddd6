/* vprep.h - the run: settings, what was found, and the contracts of its stages.
 *
 *   rows (formats/metadata) -> survey: open and hash every source   vprep_survey   survey.c
 *        -> sources that are not there: go on, or stop and ask      vprep_missing  missing.c
 *        -> items: one per sample and variant, numbered, chosen     vprep_plan     plan.c
 *        -> plan.jsonl and the table of buckets                     vprep_report   report.c
 *        -> what is there already, what is to be made               vprep_forecast forecast.c
 *        -> text, each distinct prompt once                         vprep_text     text.c
 *        -> decode workers -> encoder -> writer                     vprep_clips    pipeline.c
 * Values that need not be made are found by reuse.h. Encoders are found and named in components.h;
 * what a training mode stores besides clips is conditions.h, how a job becomes values encode.h.
 *
 * A stage reads what the earlier ones left in the run; a clip that fails is noted in the error list with
 * its row and the run goes on (--on_error skip). Selection is recomputed where it is needed: it is a
 * pure function, and a million choices would not fit in memory. */
#ifndef PRECOMPUTE_RUN_VPREP_H
#define PRECOMPUTE_RUN_VPREP_H

#include <pthread.h>

#include "common/cli/flags.h"
#include "common/comm/comm.h"
#include "common/os/file.h"
#include "common/os/progress.h"
#include "formats/metadata/metadata.h"
#include "precompute/media/masks.h"
#include "precompute/media/media.h"
#include "precompute/run/components.h"
#include "precompute/run/identity.h"

typedef struct vprep_config {
    char *meta, *data, *out, *model, *config;
    char *data_file_keys, *extra_inputs, *caption_column;
    char *plan, *validation_prompts, *negative_prompt, *trace_dir, *variants, *device;
    char *vae, *text_encoder[3], *tokenizer[3];      /* component folders; NULL: the model's */
    vc_dtype vae_dtype, text_dtype[3];               /* VC_DTYPE_NONE: the family's */
    bool vae_tiling;
    int64_t max_length;               /* tokens of a prompt; 0: the model's */
    char *shard;                      /* "i/n"; NULL: all rows */
    int64_t seed, workers, thumbnails, shard_size, video_repeat, noise_variants;
    int64_t train_batch_size;         /* of the table of buckets */
    bool trust_metadata;
    vc_dtype dtype;
    int train_mode;                   /* normal | i2v | inpaint */
    int mask_shapes;                  /* first_frame | all_frames */
    int i2v_condition;                /* frame | clip */
    int latent_store;                 /* index into "auto|moments|sample|mode" */
    int on_error;                     /* skip | stop */
    int video_decoder;                /* cpu | nvdec */
    int like;                    /* index into VC_LIKE_ALLOWED */
    int log_format;
    bool dry_run, overwrite, append, rehash, allow_missing, quiet;
    bool allow_empty_captions;
    vc_list reuse;
    double sample_fps, shard_seconds;
    /* sampling flags, as vb_rules has them */
    bool enable_bucket, random_hw_adapt, token_length, random_ratio_crop, random_frame_crop;
    bool allow_upscale, random_flip;
    int64_t video_sample_size, image_sample_size, token_sample_size, fix_size[2], stride, n_frames;
    int64_t max_pixels;               /* 0: not given */
    int64_t num_frames;               /* the first frames; 0: not given */
    int sampling;                     /* vlt | peer */
    int frame_rule, frame_count, start_rule, fit, bucket_metric, on_small;
    double max_upscale;
} vprep_config;

enum { STORE_AUTO, STORE_MOMENTS, STORE_SAMPLE, STORE_MODE };

/* What is known of a row's file. */
typedef struct vprep_source {
    bool ok;
    bool absent;                      /* not ok: the system gave it not, which says nothing of it */
    bool is_video;
    bool trusted;                     /* as the metadata says; the file was not opened */
    int w, h, rotation;               /* as displayed; clockwise degrees that were applied */
    int64_t frames;                   /* in the file */
    double fps;
    double *times;                    /* variable frame rate: seconds of each frame; else NULL */
    vf_key hash;                      /* of the whole file */
    vf_key loss_mask;                 /* of its loss mask's, where it has one */
    prep_identity is, mask_is;        /* of the two, when they were hashed */
    uint32_t number;                  /* of the row's sample; VPREP_NO_NUMBER: not this run's */
} vprep_source;
enum { VPREP_NO_NUMBER = UINT32_MAX };

typedef struct vprep_item {           /* one sample and variant of the plan */
    uint32_t row;                     /* index into the metadata */
    uint32_t number;                  /* sample number */
    uint16_t variant;
    bool drop;
    bool stored;                      /* the forecast found its record and all it refers to */
    bool failed;                      /* decoding or encoding it did, */
    bool absent;                      /* as its source was not to be read, or changed meanwhile */
    int32_t size;                     /* --variants sizes: p; else 0 */
    uint64_t line;                    /* --plan: offset of its line + 1; else 0 */
} vprep_item;

typedef struct vprep_error {
    int64_t row;
    char *path, *reason;
    const char *stage;                /* metadata probe decode select encode text */
} vprep_error;

/* The rows of --validation_prompts, in order. */
typedef struct vprep_prompts {
    cJSON **row;                      /* one object each; "prompt" is a string */
    int n;
    struct vprep_image **image;       /* of each row; NULL: none (prompt_images.c) */
} vprep_prompts;

typedef struct vprep {
    vprep_config c;
    prep_family family;
    vb_rules rules;
    unsigned part, parts;             /* --shard: this job does part `part`, from 0, of `parts` */
    prep_part vae_part, text_part[3]; /* where the encoders lie and how they run */
    vae_info vae;
    text_info text[3];
    int n_text;
    bool mask_noise;                  /* inpaint: pixel noise where the masked clip is known */
    vprep_prompts prompts;
    vf_metadata meta;
    vprep_source *sources;            /* one a row */
    vprep_item *items;
    uint32_t n_items, items_room;
    vc_map plan_file;                 /* --plan: the file that is replayed */
    vf_writer *writer;                /* NULL in a dry run on nothing */
    vc_progress *progress;
    vc_flags *flags;
    struct prep_reuse *reuse;         /* what need not be made (reuse.h) */
    uint32_t *kept;                   /* [n_kept] samples that stay without their sources, ascending */
    uint32_t n_kept;
    pthread_mutex_t lock;             /* guards errors, and the writer's hints while surveying */
    vprep_error *errors;
    uint32_t n_errors;
    uint64_t encoded, reused, conditions, texts_encoded, texts_reused;
    media_gpu *gpu;                   /* that decodes clips; NULL: the CPU does */
    uint64_t gpu_frames;              /* that it decoded, at the end */
    uint64_t copied_latents, copied_texts;       /* from --reuse, at the end */
    vc_comm *comm;                    /* of the ranks that share the work; NULL: alone */
    int rank, ranks;                  /* 0, 1: alone */
    uint16_t *owner;                  /* of each item, its rank; NULL: rank 0 */
    struct vprep_mail *mail;          /* hints for rank 0 (share.c) */
    uint32_t told_errors;             /* of n_errors, those that all ranks have */
    uint64_t others_clips;            /* clips that ranks but 0 are to encode */
} vprep;

/* Notes a failed row; with --on_error stop returns the code, else 0. Thread-safe. */
int vprep_note(vprep *p, int64_t row, const char *path, const char *stage, const vc_err *why,
               vc_err *err);
void vprep_sort_errors(vprep *p);       /* by row; no other thread notes any then */
/* Replaces OUT/errors.jsonl, rows in order. */
int vprep_write_errors(vprep *p, vc_err *err);

/* The family, and where its encoders lie, from the flags and the model's folder. *sizes: the row
 * that sizes and frame counts follow. Opens no encoder. What is wrong may also be found in
 * p->flags. */
int vprep_components(vprep *p, const vc_family **sizes, vc_err *err);
/* Opens each encoder once for what it says of itself. hash: with the weights' hashes, so that
 * fingerprints and keys can be made. */
int vprep_identify(vprep *p, bool hash, vc_err *err);
/* Keeps the weights' hashes with the dataset. */
int vprep_remember(vprep *p, vc_err *err);

/* p->part and p->parts from --shard. */
int vprep_parse_shard(vprep *p, vc_err *err);
/* Whether a row is this job's. It is told by the path in the row alone: rows of one file stay
 * together, no file is opened to find out, and a changed list moves no row to another job. */
bool vprep_is_mine(const vprep *p, const vf_row *row);

/* ---- the ranks of a job (mpirun): each surveys, encodes and writes a part ----
 * Metadata, sources, items and their numbers are the same on all. Prompts are divided by their keys,
 * sources and all that is made of one by size. Rank 0 alone writes what is not a shard and prints.
 * Collective but for the local ones; alone, all of it is done by rank 0. */
void vprep_share_machine(vprep *p);          /* --workers, threads and which GPU: local */
/* Opens the encoders' device once, to say what it is, and that all ranks compute on GPUs or none.
 * VC_EUSAGE: a rank has no such device. */
int vprep_share_devices(vprep *p, vc_err *err);
/* Opens p->gpu if it is asked for: of the GPUs the one that the encoders have. VC_EUSAGE: there is none. */
int vprep_share_decoder(vprep *p, vc_err *err);
bool vprep_surveys(const vprep *p, int64_t row);       /* whether this rank does: local */
bool vprep_owns_key(const vprep *p, vf_key k);
bool vprep_owns(const vprep *p, uint32_t item);        /* after vprep_share_texts */
/* Keeps a hint with the dataset, from any rank: local. Not thread-safe. */
int vprep_hint(vprep *p, const char *name, const void *value, size_t n, vc_err *err);
/* Opens p->writer. */
int vprep_share_open(vprep *p, vf_writer_opts *o, vc_err *err);
/* That all ranks have read the same list, after they agreed on rc. */
int vprep_share_list(vprep *p, int rc, vc_err *err);
/* After each stage: what the others have found; the texts that they have encoded; that their clips
 * are written, with everything counted together. */
int vprep_share_survey(vprep *p, vc_err *err);
int vprep_share_texts(vprep *p, vc_err *err);
int vprep_share_clips(vprep *p, vc_err *err);
/* Where this rank's clips are: rank 0 shows all ranks'. Local; one thread at a time. end: this rank is
 * done with them, and rank 0 shows the others to their end. */
void vprep_share_progress(vprep *p, uint64_t done, uint64_t failed, bool end);
void vprep_share_free(vprep *p);

/* p->rules from the flags, for vprep_components' sizes. */
int vprep_rules(vprep *p, const vc_family *sizes, vc_err *err);

/* Opens, probes and (hash) hashes each row's file with all workers; what hints say of a file that
 * has the same size, time and inode is believed, unless --rehash. A row that tells the size (of a
 * video also frames and fps) is taken at its word with --trust_metadata: its file must be there, but
 * is only opened to be hashed. */
int vprep_survey(vprep *p, bool hash, vc_err *err);
/* How many rows without a `type` became videos, and stills. */
void vprep_say_types(const vprep *p);

/* ---- sources that the system does not give: not there, not readable ----
 * That says nothing of what they hold, so what the dataset has of them stays, under its number. Where
 * most are gone a folder is not mounted, or the list is a wrong one: VC_EFAIL, unless --allow_missing. */
bool vprep_is_absent(int code);                        /* an error that says so */
/* Before --out is opened for writing: looks for every source (--overwrite: reads of each). Rank 0's. */
int vprep_missing_before(vprep *p, vc_err *err);
/* After the plan: fills p->kept, says how many those are. */
int vprep_missing(vprep *p, vc_err *err);
bool vprep_keeps(const vprep *p, uint32_t number);
/* Those, and samples whose sources were lost while they were encoded, are kept with the writer. Rank 0's. */
void vprep_keep_missing(vprep *p);
uint32_t vprep_kept_samples(const vprep *p);           /* with variants: what vprep_missing kept */

/* One chosen clip: what plan.jsonl says of it. frames are source frames, ascending, possibly repeated
 * (a picture that stands longer than a frame, in a clip of variable rate). */
typedef struct vprep_clip {
    int64_t *frames;                  /* [choice.frames] */
    double fps;                       /* of those frames; 0 for a still */
    cJSON *draws;                     /* of a replayed line, as it tells them; else NULL */
    mask mask;                        /* --train_mode inpaint */
    bool mask_all;                    /* every pixel is to be generated */
    vb_choice choice;                 /* last, as its draws are in it */
} vprep_clip;
/* Fills items from the rows (or from --plan), and the sources' numbers: those given earlier, by OUT's
 * plan.jsonl or samples, else the next. */
int vprep_plan(vprep *p, vc_err *err);
int vprep_clip_of(const vprep *p, const vprep_item *it, vprep_clip *clip, vc_err *err);
void vprep_clip_free(vprep_clip *clip);

/* Writes OUT/plan.jsonl and prints the table of buckets to `out`, in a dry run also what is dropped and
 * why; notes dropped samples. */
int vprep_report(vprep *p, FILE *out, vc_err *err);

/* The manifest's fields that say what makes the dataset; NULL when out of memory. */
cJSON *vprep_manifest_head(const vprep *p);

/* Content keys: docs/format.md lists the fields. */
vf_key vprep_text_key(const vprep *p, int encoder, const char *prompt);
vf_key vprep_latent_key(const vprep *p, const vprep_item *it, const vprep_clip *clip);

/* Clips that a run encoded and how long it took, decoding and conditions included: a hint of the dataset
 * for later forecasts. */
typedef struct vprep_rate {
    double pixels, seconds;
} vprep_rate;
#define VPREP_RATE "clip-rate"
double vprep_clip_pixels(const vb_choice *c);        /* of all frames of the target */

/* What the run is going to reuse, encode and drop, to `out`; the writer keeps what is stored as it
 * is. */
int vprep_forecast(vprep *p, FILE *out, vc_err *err);
/* In its place, of a dry run on nothing: how to come by a rate. */
void vprep_no_forecast(FILE *out);

/* How many different prompts there are already, and are to be encoded. */
int vprep_text_forecast(vprep *p, uint64_t *reuse, uint64_t *encode, uint64_t *copy, vc_err *err);
/* Encodes what is missing: prompts of the items, the empty prompt, validation prompts. */
int vprep_text(vprep *p, vc_err *err);
int vprep_clips(vprep *p, vc_err *err);
/* Reads --validation_prompts into p->prompts, and finds the pictures it names. */
int vprep_prompts_load(vprep *p, vc_err *err);
/* Writes the validation records, after all that they refer to. */
int vprep_put_validations(vprep *p, vc_err *err);
/* .json (array, or an object with `data`), .jsonl or .csv with Finetrainers' columns; `caption`,
 * `text` and `prompt` all become "prompt", `image` and `input_image` become "image_path". */
int vprep_prompts_read(vprep_prompts *v, const char *path, vc_err *err);
void vprep_prompts_free(vprep_prompts *v);

/* f32 values as a stored tensor: `want`, or f32 where a value does not fit f16's range. */
int vprep_pack_dtype(vc_dtype *dtype, void **data, const float *v, size_t n, vc_dtype want, vc_err *err);

#endif
