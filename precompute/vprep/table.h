/* table.h - the table of buckets: what a plan makes, and what an epoch of training on it costs.
 *
 * One line a bucket (target and frame count): how many samples, tokens a sample and a step, steps an
 * epoch. An epoch visits a sample as often as its weight and --video_repeat say and walks through its
 * variants, so each variant counts by its share. The places that the last batch of a bucket leaves
 * empty are its rounding loss; latent frames that are copies (a still where the transformer takes
 * frames in twos) are padding. One thread. */
#ifndef PRECOMPUTE_VPREP_TABLE_H
#define PRECOMPUTE_VPREP_TABLE_H

#include <stdio.h>

#include "precompute/run/vprep.h"

typedef struct prep_table prep_table;

/* p's items are planned. */
int prep_table_open(prep_table **out, const vprep *p, vc_err *err);
int prep_table_add(prep_table *t, const vprep_item *it, const vb_choice *c, vc_err *err);
/* Sorts by tokens, then prints; and what was dropped, by stage. */
void prep_table_print(prep_table *t, FILE *out);
void prep_table_close(prep_table *t);                /* NULL is fine */

#endif
