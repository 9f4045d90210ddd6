/* plan.h - the samples of the run, and the clip that is chosen for each.
 *
 * A clip is chosen again wherever it is needed: the choice is a pure function, and a million
 * choices would not fit in memory. */
#ifndef PRECOMPUTE_RUN_PLAN_H
#define PRECOMPUTE_RUN_PLAN_H

#include "buckets/buckets.h"
#include "common/os/map.h"
#include "formats/keys/keys.h"
#include "precompute/media/masks.h"
#include "precompute/media/media.h"
#include "precompute/run/options.h"

typedef struct vprep_item {           /* one sample and variant of the plan */
    uint32_t row;                     /* index into the metadata */
    uint32_t number;                  /* sample number */
    uint16_t variant;
    bool drop;
    bool stored;                      /* the forecast found its record and all values */
    bool failed;                      /* it could not be decoded or encoded, */
    bool absent;                      /* because its source was unreadable or had changed */
    int32_t size;                     /* --variants sizes: p; else 0 */
    uint64_t line;                    /* --plan: offset of its line + 1; else 0 */
} vprep_item;

typedef struct prep_plan {
    vprep_item *items;
    uint32_t n_items, room;
    vc_map file;                      /* --plan: the file that is replayed */
    uint32_t *kept;                   /* [n_kept] numbers of samples that stay without their
                                       * sources, ascending (sources.h) */
    uint32_t n_kept;
    char *cuts;                       /* lines about the captions of which an encoder does not read
                                       * the ends; NULL: there are none */
    uint64_t lost;                    /* rows of OUT that the plan drops */
    bool refused;                     /* of a dry run: the dataset at OUT keeps its plan.jsonl */
} prep_plan;

/* One chosen clip, as plan.jsonl has it. frames are source frames, ascending, possibly repeated
 * (a picture that stands longer than a frame, in a clip of variable rate). */
typedef struct vprep_clip {
    int64_t *frames;                  /* [choice.frames] */
    double fps;                       /* of those frames; 0 for a still */
    cJSON *draws;                     /* those of a replayed line; else NULL */
    media_tonemap tonemap;            /* of HDR sources that of the run, else NONE */
    mask mask;                        /* --train_mode inpaint */
    bool mask_all;                    /* every pixel is to be generated */
    vf_key mask_shown;                /* the file of a prompt's mask, as in keys */
    vb_choice choice;                 /* last: most of it is its draws */
} vprep_clip;

/* Fills items from the rows, or from --plan. */
int vprep_plan(vprep *p, vc_err *err);
/* Numbers the sources and items: by --plan, else the earlier numbers, by OUT's plan.jsonl or
 * samples, else the next. Called when p->writer is open. */
int vprep_number(vprep *p, vc_err *err);
/* The segments of 48 frames of an item's clip, which begins with one frame more; 0: its row has no
 * captions of segments, and --ttt_segments was not given. */
int vprep_segments(const vprep *p, const vprep_item *it);
int vprep_clip_of(const vprep *p, const vprep_item *it, vprep_clip *clip, vc_err *err);
void vprep_clip_free(vprep_clip *clip);
/* Notes that the choice drops an item, and the reason. */
int vprep_note_drop(vprep *p, const vprep_item *it, const vprep_clip *clip, vc_err *err);

/* Writes OUT/plan.jsonl and prints the table of buckets and vprep_cuts to `out`, in a dry run also
 * each dropped sample and the reason; notes dropped samples. */
int vprep_report(vprep *p, FILE *out, vc_err *err);
/* Fills p->plan.cuts and prints it: of each text encoder the captions and validation prompts that
 * have more tokens than it reads, and the text that the first of them loses. */
int vprep_cuts(vprep *p, FILE *out, vc_err *err);

#endif
