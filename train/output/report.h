/* report.h - report.html, one self-contained page about a run that opens offline.
 *
 * The page is made from metrics.jsonl and the files under validation/, so it can be made again at
 * any time: loss curve (raw, smoothed, held-out), learning rate, gradient norm, throughput and data
 * wait, buckets seen with steps and mean loss each, samples never seen, achieved caption dropout,
 * memory predicted and real, the settings, and validation pictures. All text from files is escaped.
 * formats/report/gallery.h lists the pictures and clips (png, jpg, mp4 below validation/step-N/),
 * newest step first; vdecode replaces the list once it has decoded more. */
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
    bool live;                   /* the run continues: browsers load the page again */
    uint32_t samples;            /* distinct ones to train on: for "never seen" */
} vtrain_report;

enum { VTRAIN_REPORT_EACH = 30 };   /* seconds after which a browser loads a live page again */

/* Writes dir/report.html atomically. Curves of a long run are thinned to at most some 2,000 points;
 * lines of metrics.jsonl that cannot be read are left out and counted. VC_ENOENT: dir has no
 * metrics.jsonl. */
int vtrain_report_write(const vtrain_report *r, const char *dir, vc_err *err);

#endif
