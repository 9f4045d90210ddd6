/* runs.h - the output folders of training runs, their curves and their order by loss: for vlat
 * compare, vlat report and its server. */
#ifndef FORMATS_VLAT_RUNS_H
#define FORMATS_VLAT_RUNS_H

#include "common/cli/flags.h"
#include "formats/report/curves.h"

enum { VLAT_RUNS = 64 };                     /* the most of a comparison */

typedef struct vlat_run {
    char *dir;
    const char *name;                        /* the last part of dir, or dir: part of `dir` */
    vf_curves *curves;                       /* NULL: the run has no step yet */
    char *settings;                          /* config.yaml; NULL: the run has none */
} vlat_run;

typedef struct vlat_runs {
    vlat_run run[VLAT_RUNS];
    int n, left_out;                         /* left_out: runs past the first VLAT_RUNS */
} vlat_runs;

/* Whether path is a folder with runs in it, and itself neither a run nor a dataset. */
bool vlat_has_runs(const char *path);
/* Adds the runs that the words name, each the folder of a run or a folder with runs in it, by name;
 * runs that *r has already stay as they are. Runs that are gone are removed. */
int vlat_runs_find(vlat_runs *r, const vc_list *words, vc_err *err);
/* Reads what the runs have written since they were read last. VC_ENOENT: a run has no curves; with
 * `begun` false it is read when it has some. */
int vlat_runs_read(vlat_runs *r, bool begun, vc_err *err);
void vlat_runs_free(vlat_runs *r);

/* By what a run is ranked: its least held-out loss, or the mean of the newest tenth of its training
 * loss. Returns false if it has neither. */
typedef struct vlat_score {
    bool held_out;
    double loss, step;
} vlat_score;
bool vlat_run_score(vlat_score *s, const vlat_run *run);
/* Sets order[0..n-1] to the runs from the best to the worst: first those with held-out losses, by
 * these, then those with training losses, then the others. */
void vlat_runs_rank(int order[VLAT_RUNS], const vlat_runs *r);

/* ---- runs_page.c ---- */
/* Adds the content of a page: of one run as vtrain has it, of several runs their order, curves over
 * each other, newest pictures of the same prompts, and the settings that differ. live: the run may
 * continue. */
int vlat_run_put(vf_html *h, const vlat_run *run, bool live, vc_err *err);
int vlat_runs_put(vf_html *h, const vlat_runs *r, vc_err *err);

#endif
