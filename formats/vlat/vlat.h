/* vlat.h - the verbs of vlat. Each is a row of the table in main.c and a function here. Results go
 * to stdout, messages through the progress. */
#ifndef FORMATS_VLAT_VLAT_H
#define FORMATS_VLAT_VLAT_H

#include <stdio.h>

#include "common/base/buf.h"
#include "common/cli/flags.h"
#include "common/os/progress.h"
#include "formats/dataset/dataset.h"

struct vf_expr;                              /* formats/dataset/expr.h */

typedef struct vlat_options {
    bool json, repair, allow_partial, dry_run;
    char *out, *of;
    char *browse, *serve;                                    /* report */
    bool ranks;                                              /* compare */
    char *where, *shards;                                    /* pull, list: a part of the samples */
    char *to, *from, *family, *vae, *empty, *texts;          /* export, import */
    char *audio_vae;                                         /* import */
    int space;                   /* 0: the format's, 1: raw, 2: normalized */
    int64_t limit, n, shard_size;
    int by;                      /* 1: by bucket, else 0 */
    int64_t connections;         /* pull, push: files that come at the same time */
    int64_t lowest_speed, timeout, max_time;     /* pull, push: bytes a second, seconds (place.h) */
    bool remove;                 /* pull, push: --delete */
    char *weights;               /* average: "1,2,3", or NULL */
    double beta, sigma_rel;      /* average: 0: not given */
    int log_format;
} vlat_options;

typedef struct vlat {
    const vlat_options *o;
    const vc_list *words;        /* words after the verb */
    const char *path;            /* the first word: the dataset */
    vc_progress *progress;
    FILE *out;
} vlat;

/* Verbs return 0, an error, or VLAT_PARTIAL: done, but a part of the input was left out (exit
 * status 3). */
enum { VLAT_PARTIAL = 3 };

int vlat_info(const vlat *v, vc_err *err);
int vlat_list(const vlat *v, vc_err *err);
int vlat_show(const vlat *v, vc_err *err);
int vlat_verify(const vlat *v, vc_err *err);
int vlat_report(const vlat *v, vc_err *err);
int vlat_merge(const vlat *v, vc_err *err);
int vlat_split(const vlat *v, vc_err *err);
int vlat_select(const vlat *v, vc_err *err);
int vlat_gc(const vlat *v, vc_err *err);
int vlat_diff(const vlat *v, vc_err *err);
int vlat_export(const vlat *v, vc_err *err);
int vlat_import(const vlat *v, vc_err *err);
int vlat_pull(const vlat *v, vc_err *err);
int vlat_push(const vlat *v, vc_err *err);
int vlat_average(const vlat *v, vc_err *err);

/* ---- verify_run.c ---- */
/* Whether path is a run's folder, a checkpoint or a .safetensors file. */
bool vlat_is_run(const char *path);
/* vlat verify for such a path: compares checksums if the files have them, else checks the format of
 * JSON and safetensors files. */
int vlat_verify_run(const vlat *v, vc_err *err);

/* ---- report_runs.c ---- */
/* vlat report for the output folders of training runs, or folders that hold some: of one run its
 * page, of several one with their order, curves, figures, pictures and differing settings.
 * VC_EUSAGE: too many runs. VC_ENOENT: not a run. */
int vlat_report_runs(const vlat *v, vc_err *err);
/* The same for vlat compare, which prints the order of the runs too. */
int vlat_compare(const vlat *v, vc_err *err);

/* ---- serve.c ---- */
/* vlat report --serve: the same pages over HTTP, which follow the runs. Returns when the process is
 * told to stop. VC_EUSAGE: the address, or a build without the server's library. */
int vlat_serve(const vlat *v, vc_err *err);
/* The same for the page of vlat_browse, the scripts in its folder of data, and the clips that the
 * datasets were made from. */
int vlat_serve_browse(const vlat *v, const char *page, const char *data, vc_err *err);

/* ---- skipped.c ---- */
enum { VLAT_STAGES = 16 };                   /* further stages are not counted */
typedef struct vlat_skipped {
    uint64_t n;
    struct { char name[32]; double n; } stage[VLAT_STAGES];
    int stages;
} vlat_skipped;
typedef int vlat_row(void *arg, const cJSON *o, vc_err *err);
/* Gives each object of the dataset's errors.jsonl to row, and counts them in *s. A dataset without
 * this file has none. */
int vlat_read_skipped(const char *path, vlat_skipped *s, vlat_row *row, void *arg, vc_err *err);

/* ---- sound.c ---- */
/* Whether samples of the dataset may have sound: its manifest has an audio_vae. */
bool vlat_has_sound(const vf_dataset *d);
/* The key of the latent of a sample's sound, borrowed from its record; "" if it has none. */
const char *vlat_sound(const cJSON *record);
/* How long the sound of a sample lasts, which is as long as its clip; 0: the record has no rate. */
double vlat_sound_seconds(const vf_entry *e);

typedef struct vlat_sounds {                 /* samples with sound, and the seconds of all */
    uint32_t n;
    double seconds;
} vlat_sounds;
/* Reads the records for them, if samples may have sound. VC_ESTOP after a signal. */
int vlat_count_sounds(vlat_sounds *s, const vf_dataset *d, vc_err *err);

/* Adds a picture of the latent of a sample's sound to JSON: null if it has none, else {channels,
 * frames, bins, columns, pixels}. The pixels are bytes in base64, [channels * bins,columns], of
 * which 128 is the manifest's mean, and 0 and 255 are 3 standard deviations from it. Of a long
 * sound a column is the mean of several frames. Errors as of vf_dataset_latent_of; VC_EFORMAT:
 * another shape than the manifest's numbers have. */
int vlat_put_sound(vc_buf *json, const vf_dataset *d, uint32_t i, const cJSON *record, vc_err *err);

/* ---- browse.c ---- */
/* vlat report --browse for one or two datasets: the page and its folder of data. VC_EUSAGE: the
 * name does not end in .html, or other words. VC_EINVAL: the folder of data is another one. */
int vlat_browse(const vlat *v, vc_err *err);

/* ---- copy.c ---- */
/* Makes a new dataset at path of the samples i of d whose part[i] is `which`, or of all samples if
 * part is NULL. They keep their numbers. The error names the remedy for damage. */
int vlat_copy_part(const vlat *v, vf_dataset *d, const uint32_t *part, uint32_t which,
                   const char *path, vc_err *err);

/* Parses a condition as vlat select has it; NULL gives NULL. VC_EUSAGE names the fault. */
int vlat_condition(const char *condition, struct vf_expr **e, vc_err *err);
/* Sets *yes to 1 if the condition (NULL: none) holds for sample i, else to 0. */
int vlat_holds(const vf_dataset *d, const struct vf_expr *e, uint32_t i, uint32_t *yes,
               vc_err *err);
/* Makes the dataset --out of the samples of d that meet the condition, of which e is the parsed
 * form (NULL: all), and whose records are in one of the shards that a list with commas names (NULL:
 * all). VC_ENOENT: there are none. VC_EUSAGE: no such shard. */
int vlat_copy_where(const vlat *v, vf_dataset *d, const char *condition, const struct vf_expr *e,
                    const char *shards, vc_err *err);

/* ---- pull_part.c ---- */
/* vlat pull with --where or --shards: makes --out of a part of the samples at v->path, and brings
 * only the bytes of the shards that these need. */
int vlat_pull_part(const vlat *v, vc_err *err);

/* ---- gc.c: exchange of a dataset's folder, under the lock of vf_dataset_lock ---- */
/* The path of the dataset's folder itself, malloc'ed: the target if path is a link or ends in a
 * dot, so that a new folder can be made beside it and take its place. VC_ENOMEM, VC_ENOENT,
 * VC_EIO. */
int vlat_folder(char **folder, const char *path, vc_err *err);
/* Copies plan.jsonl, errors.jsonl, vprep.yaml and the hints. */
int vlat_carry_files(const char *from, const char *to, vc_err *err);
/* Exchanges the names of the folder `made` and of the dataset in one step; readers keep the files
 * that they have open. *lock is the lock on the new dataset, taken before the exchange. */
int vlat_exchange(const char *path, const char *made, int *lock, vc_err *err);
/* Moves the files in the dataset's folder `from` that do not belong to the dataset to `to`, as
 * NAME.1, NAME.2 and so on if `to` has a file of that name. */
int vlat_move_others(const char *from, const char *to, vc_err *err);
/* Removes the dataset `made`, which is the old or an unfinished new version of path. Files in it
 * that do not belong to a dataset move to path. Returns 0 if `made` is missing or no dataset. After
 * a stop at any moment it can be called again. */
int vlat_remove_left(const char *made, const char *path, vc_err *err);

/* ---- text.c ---- */
/* Opens the dataset, with a warning if it is not finished. */
int vlat_open(const vlat *v, vf_dataset **d, vc_err *err);
/* Prints untrusted text from a dataset on one line of at most max characters (0: any number), with
 * vc_print (common/os/streams.h). */
void vlat_print(FILE *f, const char *text, int max);
/* Prints an object as one line of JSON, in which escapes stand for characters that could control a
 * terminal: the same value. */
int vlat_print_json(FILE *f, const cJSON *o, vc_err *err);
/* The first caption's text, or "". Borrowed from the record. */
const char *vlat_caption(const cJSON *record);
/* A string or number of an object; "" or 0 if it has no such field of that type. */
const char *vlat_str(const cJSON *o, const char *field);
double vlat_num(const cJSON *o, const char *field);
/* The path of what a sample is made from, as its row had it: of the role reference_1 and so on a
 * reference picture, of control the control clip, of image the row's input_image; "" if the sample
 * has none. Borrowed from the record. */
const char *vlat_input(const cJSON *record, const char *role);
/* The family of a dataset; several, "cogvideox, cogvideox1.5", if it was merged. */
enum { VLAT_FAMILIES = 200 };
const char *vlat_families(char buf[VLAT_FAMILIES], const cJSON *manifest);
/* Formats an array of numbers as "13x48x84". */
char *vlat_dims(char buf[64], const cJSON *array);
/* Formats width and height of the pictures as "48x32", or "?". */
char *vlat_size(char buf[64], const cJSON *record);
/* Seconds of all clips: the sum of frames / fps. */
double vlat_seconds(const vf_dataset *d);

/* Says which command trains on the dataset at path. */
void vlat_say_next(const vlat *v, const char *path);

#endif
