/* report_parts.h - what report.html is made of: curves of bounded size, buckets, counts.
 * Internal to train/. */
#ifndef TRAIN_OUTPUT_REPORT_PARTS_H
#define TRAIN_OUTPUT_REPORT_PARTS_H

#include <stdint.h>

#include "formats/report/html.h"

enum { VTRAIN_BINS = 2000 };

/* A curve of any length in at most VTRAIN_BINS bins: when they are full, neighbours are joined and
 * each takes twice as many points from then on. Values that are no finite numbers are left out. */
typedef struct vtrain_bin {
    double x, sum, least, greatest;      /* x: of its first point */
    uint64_t n;
} vtrain_bin;
typedef struct vtrain_curve {
    vtrain_bin bin[VTRAIN_BINS];
    int n;
    uint64_t each, points;               /* points a bin takes; added in all */
    double sum, last, best, best_x;      /* best: the least value, and where */
} vtrain_curve;
void vtrain_curve_add(vtrain_curve *c, double x, double y);

typedef struct vtrain_bucket {
    char name[64];
    uint64_t steps, losses;              /* losses: of those, with a finite loss */
    double loss;                         /* their sum */
} vtrain_bucket;

/* What metrics.jsonl tells. */
typedef struct vtrain_curves {
    vtrain_curve loss, eval, lr, grad_norm, tokens, step_s, wait;
    vtrain_bucket *bucket;               /* in order of appearance */
    int n_buckets;
    uint64_t steps, unreadable, seen;    /* lines; lines; distinct samples */
    double epoch, dropout;               /* of the last line */
} vtrain_curves;
int vtrain_curves_read(vtrain_curves **out, const char *dir, vc_err *err);
void vtrain_curves_free(vtrain_curves *c);                   /* NULL is fine */

#endif
