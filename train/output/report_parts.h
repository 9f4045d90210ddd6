/* report_parts.h - data of report.html: curves of bounded size, buckets, counts. Internal to
 * train/output. */
#ifndef TRAIN_OUTPUT_REPORT_PARTS_H
#define TRAIN_OUTPUT_REPORT_PARTS_H

#include <stdint.h>

#include "formats/report/html.h"

enum { VTRAIN_BINS = 2000 };

/* A curve of any length in at most VTRAIN_BINS bins: when all are in use, neighbours are joined,
 * and each bin takes twice as many points from then on. Values that are not finite are left out. */
typedef struct vtrain_bin {
    double x, sum, least, greatest;      /* x: of its first point */
    uint64_t n;
} vtrain_bin;
typedef struct vtrain_curve {
    vtrain_bin bin[VTRAIN_BINS];
    int n;
    uint64_t each, points;               /* points of a full bin; points of the curve */
    double sum, last, best, best_x;      /* best: the least value, at best_x */
} vtrain_curve;
void vtrain_curve_add(vtrain_curve *c, double x, double y);

typedef struct vtrain_bucket {
    char name[64];
    uint64_t steps, losses;              /* losses: steps with a finite loss */
    double loss;                         /* sum of the finite losses */
} vtrain_bucket;

/* The content of metrics.jsonl. */
typedef struct vtrain_curves {
    vtrain_curve loss, eval, lr, grad_norm, tokens, step_s, wait;
    vtrain_bucket *bucket;               /* in order of appearance */
    int n_buckets;
    uint64_t steps, unreadable;          /* lines read; lines that could not be read */
    uint64_t seen;                       /* distinct samples */
    double epoch, dropout;               /* of the last line */
} vtrain_curves;
int vtrain_curves_read(vtrain_curves **out, const char *dir, vc_err *err);
void vtrain_curves_free(vtrain_curves *c);                   /* NULL is fine */

#endif
