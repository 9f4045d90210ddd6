/* sources.h - the rows of the list, and what the survey found in their files. */
#ifndef PRECOMPUTE_RUN_SOURCES_H
#define PRECOMPUTE_RUN_SOURCES_H

#include "formats/metadata/metadata.h"
#include "precompute/run/identity.h"
#include "precompute/run/options.h"

/* The facts of a file beside a row's own: a loss mask, a control clip. */
typedef struct prep_beside {
    vf_key hash;                      /* of the file */
    prep_identity is;                 /* of the file, when it was hashed */
    bool reordered;                   /* as the source's */
    bool alpha;                       /* of a loss mask: its alpha weighs too (media_alpha) */
    bool by_time;                     /* its frames are those at the times of the source's frames,
                                       * not those with their numbers */
    int64_t frames;
    double fps;
    double *times;                    /* as the source's */
    int w, h;                         /* as displayed, of a reference picture, */
    bool hdr;                         /* and whether its transfer is PQ or HLG */
} prep_beside;

/* The facts of a row's file. */
typedef struct vprep_source {
    bool ok;
    bool absent;                      /* not ok: the system did not give the file, so nothing is
                                       * known of it */
    bool is_video;
    bool trusted;                     /* the facts are the metadata's; the file was not opened */
    bool hdr;                         /* its transfer is PQ or HLG (media_info); of a trusted
                                       * source false */
    bool reordered;                   /* media_info has it; of a trusted source false */
    bool sound;                       /* likewise; no source is trusted with --with_audio */
    int w, h, rotation;               /* as displayed; clockwise degrees that were applied */
    int64_t frames;                   /* in the file */
    double fps;
    double *times;                    /* variable frame rate: seconds of each frame; else NULL */
    vf_key hash;                      /* of the whole file */
    prep_identity is;                 /* of the file, when it was hashed */
    prep_beside beside[VF_COLUMNS];   /* of the files beside it, where the row has them */
    prep_beside *references;          /* [n_references] that the mode takes */
    int n_references;
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
 * only. Files beside it are always opened, since no list has their facts. */
int vprep_survey(vprep *p, bool hash, vc_err *err);
void vprep_source_free(vprep_source *s);
/* Prints how many rows without a `type` became videos, and stills. */
void vprep_say_types(const vprep *p);
/* Warns of HDR sources that are converted as if they were SDR. */
void vprep_warn_hdr(const vprep *p);

/* ---- files beside a row's own ----
 * A clip of as many frames as the source, or of its rate, has the source's frames under their
 * numbers. Another one that lasts as long has them at their times. */
bool prep_beside_by_time(const vprep_source *s, const prep_beside *b);
const prep_beside *prep_beside_of(const vprep_source *s, vf_beside which);
/* The frame of a file beside the row's own that belongs to frame i of the source. */
int64_t prep_beside_frame(const vprep_source *s, vf_beside which, int64_t i);
/* Whether the mode divides clips by masks, which are files of rows or are drawn. */
bool vprep_takes_masks(const vprep *p);
/* Whether masked pixels are grey, and not black. */
bool vprep_grey_masks(const vprep *p);
/* Says how many clips are taken by time, and warns of those that are not although their rate
 * differs, and of masks that the mode does not read. */
void prep_beside_say(const vprep *p);

/* ---- sources that the system does not give: missing or unreadable files ----
 * Their contents are unknown, so the dataset keeps their samples, under their numbers. Where most
 * are missing, a folder is not mounted or the list is the wrong one: VC_EFAIL, unless
 * --allow_missing. */
bool vprep_is_absent(int code);                      /* whether an error is of that kind */
/* Looks for every source (--overwrite: reads of each) before --out is opened to be written. Rank
 * 0 only. */
int vprep_missing_before(vprep *p, vc_err *err);
/* Fills p->plan.kept after the numbers, and prints the count. Rank 0 only. */
int vprep_missing(vprep *p, vc_err *err);
bool vprep_keeps(const vprep *p, uint32_t number);
/* Keeps with the writer these samples, and samples whose sources were lost during encoding. Rank 0
 * only. */
void vprep_keep_missing(vprep *p);
uint32_t vprep_kept_samples(const vprep *p);         /* of p->plan.kept, with variants */
uint32_t vprep_variants(const vprep *p);             /* the most that a row may have */
uint32_t vprep_samples_of(const vprep *p, uint32_t number);      /* variants that --out has */

/* ---- a run that would come to nothing ---- */
/* Fails if the list has no row, or none that can be used; rows that the system refused to read
 * count as usable. */
int vprep_check_list(const vprep *p, vc_err *err);
/* Fails with the reasons if no row can be used (of --shard, another part may have some), or if the
 * run would drop more than half of the dataset's samples; --allow_missing continues, a dry run
 * warns. Rank 0 only, after vprep_missing and before the dataset changes. */
int vprep_losses(vprep *p, vc_err *err);
/* The same before samples are dropped at the end, for rows of which the failure came late: at their
 * text, or when they were decoded or encoded. */
int vprep_late_losses(vprep *p, vc_err *err);

#endif
