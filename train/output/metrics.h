/* metrics.h - a run's records of each step: metrics.jsonl and TensorBoard events.
 *
 * One JSON object a line, written with one write() so that a kill leaves at most one torn last
 * line. Numbers: loss, grad_norm and eval_loss with nine digits (they read back as the same
 * f32), so that a resumed run's lines equal an uninterrupted run's but for time and memory
 * fields. */
#ifndef TRAIN_OUTPUT_METRICS_H
#define TRAIN_OUTPUT_METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"

typedef struct vtrain_metrics vtrain_metrics;

typedef struct vtrain_group_note {
    const char *pattern;
    double lr;
} vtrain_group_note;

/* Quarters of the noise levels, from little noise to much; the held-out loss is computed at their
 * middles, the quantiles 1/8, 3/8, 5/8 and 7/8. */
enum { VTRAIN_NOISE_LEVELS = 4 };

/* Rows that are learned, and rows of datasets that hold the model in place (data/sets.h); of models
 * with sound, the streams of rows that are learned. */
enum { VTRAIN_LOSS_OWN, VTRAIN_LOSS_PRIOR, VTRAIN_LOSS_VIDEO, VTRAIN_LOSS_AUDIO,
       VTRAIN_KINDS_OF_LOSS };

/* The losses of a part of a step. */
typedef struct vtrain_part_loss {
    double sum;
    int64_t n;
} vtrain_part_loss;
typedef struct vtrain_bucket_loss {
    const char *name;
    vtrain_part_loss loss;       /* of its micro-batches */
} vtrain_bucket_loss;

typedef struct vtrain_record {
    int64_t step;                /* from 1 */
    double epoch;                /* a fraction */
    double loss, lr, grad_norm;
    /* The micro-batches that went to each of two transformers, and their mean loss; NaN: none did.
     * Written if `halves`. */
    struct { double loss; int64_t n; } of[2];
    bool halves;
    vtrain_part_loss kind[VTRAIN_KINDS_OF_LOSS];  /* of the rows of each kind; those of learned and
                                                   * other rows are written if */
    bool kinds;                                   /* the run has both */
    const char *number_name;     /* of a number that the optimiser found, or NULL */
    double number;
    vtrain_part_loss level[VTRAIN_NOISE_LEVELS];  /* of the rows whose noise is in each quarter */
    const vtrain_bucket_loss *of_bucket;          /* of each bucket; written if there are several */
    int n_buckets;
    const vtrain_group_note *group;  /* of groups of parameters with own rates */
    int n_groups;
    const char *const *sample;   /* keys, in order */
    int n_samples;
    double tokens_per_s, step_s, data_wait_s;
    int64_t peak_bytes;
    const char *bucket;          /* names of the step's groups, each once, joined by "," */
    double caption_dropout;      /* achieved since step 1 */
    double device_waits;         /* of the device for a batch or swapped weights; NaN: the device
                                  * is the CPU, and the field is left out */
    double graph_replays;        /* micro-batches replayed as a captured graph; NaN: as above */
    double eval_loss;            /* NaN: none at this step, and the field is left out */
    /* Written with eval_loss, which is their mean: the loss of each level, from little noise to
     * much. */
    double eval_level[VTRAIN_NOISE_LEVELS];
} vtrain_record;

/* Opens dir/metrics.jsonl to continue after `step` (0: begins anew): lines of later steps, and a
 * torn last line, are cut off atomically. tensorboard: also writes
 * dir/tensorboard/events.out.tfevents.* (scalars loss, lr, grad_norm, eval_loss, tokens_per_s,
 * step_s, data_wait_s, peak_bytes, caption_dropout, epoch, device_waits, graph_replays, the
 * optimiser's number, lr/PATTERN of each group, loss_high, loss_low, loss_own, loss_prior,
 * loss_video, loss_audio, loss/noise_1 to loss/noise_4 and loss/bucket_NAME of the parts that a
 * step has, eval_loss/noise_1 to eval_loss/noise_4); a resumed run's file purges later steps. */
int vtrain_metrics_open(vtrain_metrics **out, const char *dir, int64_t step, bool tensorboard,
                        vc_err *err);
/* Moves the lines after `step` (-1: all lines) of dir/metrics.jsonl to the new file `to`. A killed
 * call leaves these lines in one of the two files, or in both. Returns 0 if no line is moved, and
 * then makes no file. */
int vtrain_metrics_split(const char *dir, int64_t step, const char *to, vc_err *err);
/* Closes the files; records written stay. NULL is fine. One thread at a time may use m. */
void vtrain_metrics_close(vtrain_metrics *m);
/* Writes a record. On an error such as VC_EFULL the file still ends with its last whole line, and
 * missing lines are written with a later record: 0 means that no line is missing. Where lines are
 * lost for good (VC_ENOMEM, a failed fsync), all later calls return the error. A value that is not
 * finite is written as null. */
int vtrain_metrics_step(vtrain_metrics *m, const vtrain_record *r, vc_err *err);
/* Makes the records durable; called before a checkpoint. */
int vtrain_metrics_sync(vtrain_metrics *m, vc_err *err);

#endif
