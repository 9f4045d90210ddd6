/* sources.h - the rows of the list, and what the survey found in their files. */
#ifndef PRECOMPUTE_RUN_SOURCES_H
#define PRECOMPUTE_RUN_SOURCES_H

#include "formats/metadata/metadata.h"
#include "precompute/run/identity.h"
#include "precompute/run/options.h"

/* The facts of a row's file. */
typedef struct vprep_source {
    bool ok;
    bool absent;                      /* not ok: the system did not give the file, so nothing is
                                       * known of it */
    bool is_video;
    bool trusted;                     /* the facts are the metadata's; the file was not opened */
    bool hdr;                         /* its transfer is PQ or HLG (media_info); of a trusted
                                       * source false */
    int w, h, rotation;               /* as displayed; clockwise degrees that were applied */
    int64_t frames;                   /* in the file */
    double fps;
    double *times;                    /* variable frame rate: seconds of each frame; else NULL */
    vf_key hash;                      /* of the whole file */
    prep_identity is;                 /* of the file, when it was hashed */
    struct {
        vf_key hash;
        prep_identity is;
    } beside[VF_BESIDE];              /* the same of the files beside it, where the row has them */
    uint32_t number;                  /* of the row's sample; VPREP_NO_NUMBER: another run's */
} vprep_source;
enum { VPREP_NO_NUMBER = UINT32_MAX };

typedef struct prep_list {
    vf_metadata meta;
    vprep_source *sources;            /* one a row */
    unsigned part, parts;             /* --shard: this job does part `part`, from 0, of `parts` */
} prep_list;

/* Sets p->list.part and parts from --shard. */
int vprep_parse_shard(vprep *p, vc_err *err);
/* Whether a row is this job's. The path in the row alone decides: rows of one file stay together,
 * no file is opened, and a changed list moves no row to another job. */
bool vprep_is_mine(const vprep *p, const vf_row *row);

/* Opens, probes and (hash) hashes each row's file with all workers. Hints are believed for a file
 * of the same size, times and inode, unless --rehash. With --trust_metadata a row that has the size
 * (and for a video frames and fps) is not probed: its file must exist, and is opened to be hashed
 * only. */
int vprep_survey(vprep *p, bool hash, vc_err *err);
/* Prints how many rows without a `type` became videos, and stills. */
void vprep_say_types(const vprep *p);
/* Warns of HDR sources that are converted as if they were SDR. */
void vprep_warn_hdr(const vprep *p);

/* ---- sources that the system does not give: missing or unreadable files ----
 * Their contents are unknown, so the dataset keeps their samples, under their numbers. Where most
 * are missing, a folder is not mounted or the list is the wrong one: VC_EFAIL, unless
 * --allow_missing. */
bool vprep_is_absent(int code);                      /* whether an error is of that kind */
/* Looks for every source (--overwrite: reads of each) before --out is opened to be written. Rank
 * 0 only. */
int vprep_missing_before(vprep *p, vc_err *err);
/* Fills p->plan.kept after the plan, and prints the count. */
int vprep_missing(vprep *p, vc_err *err);
bool vprep_keeps(const vprep *p, uint32_t number);
/* Keeps with the writer these samples, and samples whose sources were lost during encoding. Rank 0
 * only. */
void vprep_keep_missing(vprep *p);
uint32_t vprep_kept_samples(const vprep *p);         /* of p->plan.kept, with variants */

#endif
