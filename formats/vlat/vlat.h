/* vlat.h - the verbs of vlat: each is a row of the table in main.c and a function in a file of
 * its own. Results go to stdout, messages through the progress. */
#ifndef FORMATS_VLAT_VLAT_H
#define FORMATS_VLAT_VLAT_H

#include <stdio.h>

#include "common/cli/flags.h"
#include "common/os/progress.h"
#include "formats/dataset/dataset.h"

typedef struct vlat_options {
    bool json, repair, allow_partial;
    char *out, *of;
    char *to, *from, *family, *vae, *empty, *texts;          /* export, import */
    int space;                   /* 0: as the format, 1: raw, 2: normalized */
    int64_t limit, n, shard_size;
    int by;                      /* 0, or 1: bucket */
    int log_format;
} vlat_options;

typedef struct vlat {
    const vlat_options *o;
    const vc_list *words;        /* after the verb */
    const char *path;            /* the first of them: the dataset */
    vc_progress *progress;
    FILE *out;
} vlat;

/* Verbs return 0, an error, or VLAT_PARTIAL: done, with part of the input left out (exit status 3). */
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

/* ---- verify_run.c ---- */
/* Whether path is a run's folder, a checkpoint or a .safetensors file; and vlat verify of it:
 * checksums where there are some, else the form of JSON and safetensors files. */
bool vlat_is_run(const char *path);
int vlat_verify_run(const vlat *v, vc_err *err);

/* ---- copy.c ---- */
/* A new dataset at path of the samples of d, with their numbers, whose part[i] is `which`; part
 * NULL: all of them. Names the remedy where it meets damage. */
int vlat_copy_part(const vlat *v, vf_dataset *d, const uint32_t *part, uint32_t which,
                   const char *path, vc_err *err);

/* ---- gc.c: a new folder takes a dataset's place, under the lock of vf_dataset_lock ---- */
/* The dataset's folder itself, malloc'ed: where path is a link or ends in a dot, what it leads to,
 * so that another folder can lie beside it and take its place. VC_ENOMEM, VC_ENOENT, VC_EIO. */
int vlat_folder(char **folder, const char *path, vc_err *err);
/* plan.jsonl, errors.jsonl, vprep.yaml and the hints go along. */
int vlat_carry_files(const char *from, const char *to, vc_err *err);
/* The folder `made` takes the dataset's name in one step, and the other way round; readers keep
 * what they have open. *lock is the lock on the new one, taken before it has the name. */
int vlat_exchange(const char *path, const char *made, int *lock, vc_err *err);
/* What lies in the dataset's folder `from` and is not of it, anybody's, goes to `to`; beside a file
 * of that name as NAME.1, NAME.2 and so on. */
int vlat_move_others(const char *from, const char *to, vc_err *err);
/* Removes the dataset `made`, what path was or was to become; files in it that are not of a dataset
 * go to path. Not there, or no dataset: 0. Stopped at any moment, it can be called again. */
int vlat_remove_left(const char *made, const char *path, vc_err *err);

/* ---- text.c ---- */
/* Opens the dataset, finished or not; says so when not. */
int vlat_open(const vlat *v, vf_dataset **d, vc_err *err);
/* Text from a dataset that may be anybody's, on one line of at most max characters (0: any), as
 * vc_print (common/os/streams.h) prints it. */
void vlat_print(FILE *f, const char *text, int max);
/* The first caption's text, or "". Borrowed from the record. */
const char *vlat_caption(const cJSON *record);
/* Strings and numbers of an object, "" and 0 where there is none of that type. */
const char *vlat_str(const cJSON *o, const char *field);
double vlat_num(const cJSON *o, const char *field);
/* "cogvideox, cogvideox1.5": whom a dataset was made for; several, where it was merged. */
enum { VLAT_FAMILIES = 200 };
const char *vlat_families(char buf[VLAT_FAMILIES], const cJSON *manifest);
/* "13x48x84" of an array of numbers. */
char *vlat_dims(char buf[64], const cJSON *array);
/* Width x height of the pictures, "48x32", or "?". */
char *vlat_size(char buf[64], const cJSON *record);
/* Seconds of clips: the sum of frames / fps. */
double vlat_seconds(const vf_dataset *d);

#endif
