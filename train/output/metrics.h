/* metrics.h - what a run tells of each step: metrics.jsonl and TensorBoard events.
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

typedef struct vtrain_record {
    int64_t step;                /* from 1 */
    double epoch;                /* a fraction */
    double loss, lr, grad_norm;
    const char *const *sample;   /* keys, in order */
    int n_samples;
    double tokens_per_s, step_s, data_wait_s;
    int64_t peak_bytes;
    const char *bucket;          /* names of the step's groups, each once, joined by "," */
    double caption_dropout;      /* achieved since step 1 */
    double device_waits;         /* how often it stood still for the batch or swapped weights; NaN:
                                  * its memory is the host's, the field is left out */
    double graph_replays;        /* micro-batches that it was given at once; NaN: the same */
    double eval_loss;            /* NaN: none at this step, the field is left out */
} vtrain_record;

/* Opens dir/metrics.jsonl to go on after `step` (0: anew): lines past it, and a torn last line,
 * are cut off in one step. tensorboard: also writes out/tensorboard/events.out.tfevents.*
 * (scalars loss, lr, grad_norm, eval_loss, tokens_per_s, step_s, data_wait_s, peak_bytes,
 * caption_dropout, epoch, device_waits, graph_replays); a resumed run's file purges later steps. */
int vtrain_metrics_open(vtrain_metrics **out, const char *dir, int64_t step, bool tensorboard,
                        vc_err *err);
/* Closes without losing what was written; NULL is fine. One thread at a time. */
void vtrain_metrics_close(vtrain_metrics *m);
/* VC_EFULL and the like: the file still ends with its last whole line, and what is not in it is
 * written with a later one: 0 says that nothing is missing. What is lost for good (VC_ENOMEM, an
 * fsync that failed) is the error of all later calls. A value that is not finite is written as
 * null. */
int vtrain_metrics_step(vtrain_metrics *m, const vtrain_record *r, vc_err *err);
/* Makes what was written durable: before a checkpoint counts as done. */
int vtrain_metrics_sync(vtrain_metrics *m, vc_err *err);

#endif
