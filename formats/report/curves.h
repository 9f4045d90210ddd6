/* curves.h - the content of a run's metrics.jsonl in bounded memory: curves, buckets and counts,
 * and charts of these curves. `vtrain` draws one run with them, `vlat report` several together. */
#ifndef FORMATS_REPORT_CURVES_H
#define FORMATS_REPORT_CURVES_H

#include <stdint.h>

#include "formats/keys/keymap.h"
#include "formats/report/html.h"

enum { VF_CURVE_BINS = 2000, VF_BUCKET_CURVES = 32, VF_NOISE_LEVELS = 4 };

/* A curve of any length in at most VF_CURVE_BINS bins: when all are in use, neighbours are joined,
 * and each bin takes twice as many points from then on. Values that are not finite are left out. */
typedef struct vf_bin {
    double x, sum, least, greatest;      /* x: of its first point */
    uint64_t n;
} vf_bin;
typedef struct vf_curve {
    vf_bin bin[VF_CURVE_BINS];
    int n;
    uint64_t each, points;               /* points of a full bin; points of the curve */
    double sum, last, best, best_x;      /* best: the least value, at best_x */
} vf_curve;
void vf_curve_add(vf_curve *c, double x, double y);

/* The newest tenth of a curve beside the tenth before it. */
typedef struct vf_trend {
    double now, before;                  /* means */
    uint64_t steps;                      /* points of each */
    int sign;                            /* 1, -1: they differ by over twice the standard error */
} vf_trend;
/* False if the curve has too few points: 40. */
bool vf_curve_trend(const vf_curve *c, vf_trend *t);

typedef struct vf_run_bucket {
    char name[64];
    uint64_t steps, losses;              /* losses: steps with a finite loss */
    double loss;                         /* sum of the finite losses */
    vf_curve *curve;                     /* of the losses; NULL after the first VF_BUCKET_CURVES */
} vf_run_bucket;

/* The content of metrics.jsonl. */
typedef struct vf_curves {
    vf_curve own, prior;                 /* of rows that are learned, and of priors */
    vf_curve video, audio;               /* of the streams of a model with sound */
    vf_curve loss, eval, lr, d, grad_norm, tokens, step_s, wait, memory;   /* d: Prodigy's */
    /* Losses by the quarter of the noise levels, from little noise to much. */
    vf_curve level[VF_NOISE_LEVELS], eval_level[VF_NOISE_LEVELS];
    vf_curve epochs, hours;              /* at each step: epochs, and hours in steps, so far */
    vf_run_bucket *bucket;               /* in order of appearance */
    int n_buckets;
    uint64_t steps, unreadable;          /* lines read; lines that could not be read */
    uint64_t seen;                       /* distinct samples */
    int64_t step, peak_bytes;            /* of the last line; the greatest, 0 if unknown */
    double epoch, dropout;               /* of the last line */
    /* For vf_curves_follow: the bytes read, a hash of the last ones of these, the samples seen. */
    int64_t read;
    vf_key tail;
    vf_keymap keys;
} vf_curves;
/* Reads dir/metrics.jsonl. Lines that cannot be read are counted and left out. VC_ENOENT: there is
 * no such file. */
int vf_curves_read(vf_curves **out, const char *dir, vc_err *err);
/* Adds the lines that dir/metrics.jsonl has got since *c was read (NULL: all lines). Where the file
 * was cut, as a resumed run does, or is another one, *c is read anew. A last line without its end
 * is read when it has one. On an error *c is NULL. */
int vf_curves_follow(vf_curves **c, const char *dir, vc_err *err);
void vf_curves_free(vf_curves *c);       /* NULL is fine */

/* A curve as a series of a chart: the least and greatest value of each bin, so that thinning hides
 * no spike; the mean over about 4 % of the curve around each point, which does not lag as a running
 * mean does; or the mean of each bin. */
typedef enum { VF_CURVE_EACH, VF_CURVE_SMOOTH, VF_CURVE_MEAN } vf_curve_style;
typedef struct vf_curve_part {
    const char *name;                    /* of the series, in the legend */
    const vf_curve *curve;
    vf_curve_style style;                /* VF_CURVE_EACH is drawn pale, behind the others */
    int run;                             /* number of its run on the page */
} vf_curve_part;
/* curves_chart.c. Adds a chart of up to VF_HTML_SERIES parts over the steps. A part without points
 * is left out, and a chart without parts too. */
/* Lets the page's reader choose epochs and hours of run number `run` instead of steps. */
void vf_curve_units(vf_html *h, const vf_curves *c, int run);
int vf_curve_chart(vf_html *h, const char *title, const char *unit, const vf_curve_part *parts,
                   int n, vc_err *err);

#endif
