/* report.h - report.html, one self-contained page about a run that opens offline.
 *
 * The page is made from metrics.jsonl and the files under validation/, so it can be made again at
 * any time (formats/report/run_page.h); vdecode replaces its pictures once it has decoded more. All
 * text from files is escaped. */
#ifndef TRAIN_OUTPUT_REPORT_H
#define TRAIN_OUTPUT_REPORT_H

#include "formats/report/run_page.h"

typedef struct vtrain_report {
    const char *title;           /* output folder */
    vf_run_page page;            /* live: browsers load the page again */
} vtrain_report;

enum { VTRAIN_REPORT_EACH = 30 };   /* seconds after which a browser loads a live page again */

/* Writes dir/report.html atomically. Curves of a long run are thinned to at most some 2,000 points;
 * lines of metrics.jsonl that cannot be read are left out and counted. VC_ENOENT: dir has no
 * metrics.jsonl. */
int vtrain_report_write(const vtrain_report *r, const char *dir, vc_err *err);

#endif
