/* run_page.h - the content of a page about one run: the loss with its trend, the pictures of each
 * prompt by step (gallery.h), charts of loss (raw, smoothed, held-out, by bucket), learning rate,
 * gradient norm, throughput, data wait and memory, then facts, buckets, data and settings. `vtrain`
 * writes it to a run's report.html; `vlat report` makes it of a run's folder, and serves it. */
#ifndef FORMATS_REPORT_RUN_PAGE_H
#define FORMATS_REPORT_RUN_PAGE_H

#include "formats/report/curves.h"

/* The facts that the run's curves lack; NULL or 0: not known. */
typedef struct vf_run_page {
    const char *model;           /* "wan2.1, LoRA: 8,192 parameters trained", then of a LoRA a line
                                  * of its modules */
    const char *data;            /* lines about datasets and buckets, '\n' between them */
    const char *settings;        /* YAML */
    int64_t predicted_bytes, peak_bytes;
    int64_t steps;               /* of the whole run */
    bool live;                   /* the run continues: the page says how much time is left */
    uint32_t samples;            /* distinct ones to train on: for "never seen" */
} vf_run_page;

/* Adds the content; the pictures are those below dir/validation/. */
int vf_run_page_put(vf_html *h, const vf_run_page *r, const vf_curves *c, const char *dir,
                    vc_err *err);

#endif
