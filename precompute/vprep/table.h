/* table.h - the table of buckets: the samples of a plan, and the steps of an epoch of training.
 *
 * The line of a bucket (target and frame count) has its samples, the frames a second of its clips
 * and their seconds, the tokens of a sample and of a step, and the steps of an epoch. An epoch
 * visits a sample by its weight and --video_repeat, each time in the next variant, so each variant
 * counts by its share. Places that the last batch of a bucket leaves empty are its rounding loss;
 * latent frames that are copies (a still where the transformer takes pairs of frames) are padding.
 * For one thread. */
#ifndef PRECOMPUTE_VPREP_TABLE_H
#define PRECOMPUTE_VPREP_TABLE_H

#include <stdio.h>

#include "precompute/run/plan.h"
#include "precompute/run/vprep.h"

typedef struct prep_table prep_table;

/* Called after vprep_plan. */
int prep_table_open(prep_table **out, const vprep *p, vc_err *err);
int prep_table_add(prep_table *t, const vprep_item *it, const vprep_clip *clip, vc_err *err);
/* Sorts the buckets by tokens and prints them, and the numbers of dropped rows by stage. Says
 * which clips the stride makes slow. */
void prep_table_print(prep_table *t, FILE *out);
void prep_table_close(prep_table *t);                /* NULL is fine */

#endif
