/* runs.h - the output folders of training runs, their curves and their order by loss: for vlat
 * compare, vlat report and its server. */
#ifndef FORMATS_REPORT_RUNS_H
#define FORMATS_REPORT_RUNS_H

#include "formats/report/curves.h"

enum { VF_RUNS = 64 };                     /* the most of a comparison */

typedef struct vf_run {
    char *dir;
    const char *name;                        /* the last part of dir, or dir: part of `dir` */
    vf_curves *curves;                       /* NULL: the run has no step yet */
    char *settings;                          /* config.yaml; NULL: the run has none */
} vf_run;

typedef struct vf_runs {
    vf_run run[VF_RUNS];
    int n, left_out;                         /* left_out: runs past the first VF_RUNS */
} vf_runs;

/* Whether path is a folder with runs in it, and itself neither a run nor a dataset. */
bool vf_has_runs(const char *path);
/* Adds the runs that the words name, each the folder of a run or a folder with runs in it, by name;
 * runs that *r has already stay as they are. Runs that are gone are removed. */
int vf_runs_find(vf_runs *r, char *const *words, int n, vc_err *err);
/* Reads what the runs have written since they were read last. VC_ENOENT: a run has no curves; with
 * `begun` false it is read when it has some. */
int vf_runs_read(vf_runs *r, bool begun, vc_err *err);
void vf_runs_free(vf_runs *r);

/* By what a run is ranked: its least held-out loss, or the mean of the newest tenth of its training
 * loss. Returns false if it has neither. */
typedef struct vf_score {
    bool held_out;
    double loss, step;
} vf_score;
bool vf_run_score(vf_score *s, const vf_run *run);
/* Sets order[0..n-1] to the runs from the best to the worst: first those with held-out losses, by
 * these, then those with training losses, then the others. */
void vf_runs_rank(int order[VF_RUNS], const vf_runs *r);

/* ---- runs_page.c ---- */
/* Adds the content of a page: of one run as vtrain has it, of several runs their order, curves over
 * each other, newest pictures of the same prompts, and the settings that differ. live: the run may
 * continue. */
int vf_runs_put_one(vf_html *h, const vf_run *run, bool live, vc_err *err);
int vf_runs_put(vf_html *h, const vf_runs *r, vc_err *err);

#endif
