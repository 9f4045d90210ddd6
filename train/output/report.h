/* report.h - report.html, one self-contained page about a run that opens offline.
 *
 * The page is made from metrics.jsonl and the files under validation/, so it can be made again at
 * any time: the loss with its trend, the pictures of each prompt by step (formats/report/gallery.h;
 * vdecode replaces them once it has decoded more), charts of loss (raw, smoothed, held-out, by
 * bucket), learning rate, gradient norm, throughput, data wait and memory, then facts, buckets,
 * data and settings. All text from files is escaped.
 */
#ifndef TRAIN_OUTPUT_REPORT_H
#define TRAIN_OUTPUT_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"

typedef struct vtrain_report {
    const char *title;           /* output folder */
    const char *model;           /* "wan2.1, LoRA: 8,192 parameters trained", then of a LoRA a line
                                  * of its modules */
    const char *data;            /* lines about datasets and buckets, '\n' between them */
    const char *settings;        /* YAML */
    int64_t predicted_bytes, peak_bytes;
    int64_t steps;               /* of the whole run */
    bool live;                   /* the run continues: browsers load the page again */
    uint32_t samples;            /* distinct ones to train on: for "never seen" */
} vtrain_report;

enum { VTRAIN_REPORT_EACH = 30 };   /* seconds after which a browser loads a live page again */

/* Writes dir/report.html atomically. Curves of a long run are thinned to at most some 2,000 points;
 * lines of metrics.jsonl that cannot be read are left out and counted. VC_ENOENT: dir has no
 * metrics.jsonl. */
int vtrain_report_write(const vtrain_report *r, const char *dir, vc_err *err);

#endif
