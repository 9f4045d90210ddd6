/* runs.c - finds, reads and ranks training runs; see runs.h */
#include "formats/report/runs.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/report/settings.h"

static void run_free(vf_run *run)
{
    vf_curves_free(run->curves);
    free(run->settings);
    free(run->dir);
    *run = (vf_run){ 0 };
}

void vf_runs_free(vf_runs *r)
{
    for (int i = 0; i < r->n; i++)
        run_free(&r->run[i]);
    *r = (vf_runs){ 0 };
}

/* ---- finding ---- */

static bool is_run(const char *dir)
{
    return vc_file_exists_in(dir, "metrics.jsonl") || vc_file_exists_in(dir, "trainer.json") ||
           vc_file_exists_in(dir, "config.yaml");
}

static int no_dots(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

/* Calls add(arg, path) with each run in the folder by name, until it returns another value than 0,
 * which is returned. */
static int each_run(const char *path, int (*add)(void *arg, char *dir), void *arg)
{
    struct dirent **names = NULL;
    int n = scandir(path, &names, no_dots, versionsort), rc = 0;
    for (int i = 0; i < n; i++) {
        char *dir = rc ? NULL : vc_path_join(path, names[i]->d_name);
        if (dir && vc_file_exists_in(dir, "metrics.jsonl"))
            rc = add(arg, dir);
        else
            free(dir);
        free(names[i]);
    }
    free(names);
    return rc;
}

static int found_one(void *arg, char *dir)
{
    (void)arg;
    free(dir);
    return 1;
}

bool vf_has_runs(const char *path)
{
    return !is_run(path) && !vc_file_exists_in(path, "manifest.json") &&
           each_run(path, found_one, NULL) == 1;
}

/* Takes dir. */
static int add_run(void *arg, char *dir)
{
    vf_runs *r = arg;
    if (r->n < VF_RUNS)
        r->run[r->n++].dir = dir;
    else {
        r->left_out++;
        free(dir);
    }
    return 0;
}

/* Runs are named by their folders' last parts, or by their whole paths where two of these are
 * equal. */
static void name_runs(vf_runs *r)
{
    bool alike = false;
    for (int i = 0; i < r->n; i++)
        for (int k = 0; k < i; k++)
            alike = alike || !strcmp(vc_path_base(r->run[i].dir), vc_path_base(r->run[k].dir));
    for (int i = 0; i < r->n; i++)
        r->run[i].name = alike ? r->run[i].dir : vc_path_base(r->run[i].dir);
}

/* Moves the curves of the runs that were known before. */
static void keep_read(vf_runs *r, vf_runs *before)
{
    for (int i = 0; i < r->n; i++)
        for (int k = 0; k < before->n; k++)
            if (!r->run[i].curves && !strcmp(r->run[i].dir, before->run[k].dir)) {
                r->run[i].curves = before->run[k].curves;
                before->run[k].curves = NULL;
            }
}

int vf_runs_find(vf_runs *r, char *const *words, int n, vc_err *err)
{
    vf_runs *now = calloc(1, sizeof *now);
    if (!now)
        return vc_no_memory(err);
    for (int i = 0; i < n; i++) {
        const char *word = words[i];       /* "." and ".." are no names */
        char *dir = vf_has_runs(word) ? NULL
                    : *vc_path_base(word) == '.' ? realpath(word, NULL) : strdup(word);
        if (dir)
            add_run(now, dir);
        else
            each_run(word, add_run, now);
    }
    keep_read(now, r);
    vf_runs_free(r);
    *r = *now;
    free(now);
    name_runs(r);
    return 0;
}

/* ---- reading ---- */

int vf_runs_read(vf_runs *r, bool begun, vc_err *err)
{
    for (int i = 0; i < r->n; i++) {
        vf_run *run = &r->run[i];
        int rc = vf_curves_follow(&run->curves, run->dir, err);
        if (rc && (begun || rc == VC_ENOMEM))
            return vc_context(err, rc, "%s is not the output folder of a training run", run->dir);
        free(run->settings);
        rc = vf_settings_read(&run->settings, run->dir, err);
        if (rc && (begun || rc == VC_ENOMEM))
            return rc;
    }
    return 0;
}

/* ---- the order ---- */

bool vf_run_score(vf_score *s, const vf_run *run)
{
    const vf_curves *c = run->curves;
    vf_trend t;
    *s = (vf_score){ .loss = INFINITY };
    if (!c || (!c->eval.points && !c->loss.points))
        return false;
    if (c->eval.points)
        *s = (vf_score){ true, c->eval.best, c->eval.best_x };
    else if (vf_curve_trend(&c->loss, &t))
        *s = (vf_score){ false, t.now, (double)c->step };
    else
        *s = (vf_score){ false, c->loss.sum / (double)c->loss.points, (double)c->step };
    return true;
}

static bool is_better(const vf_run *a, const vf_run *b)
{
    vf_score x, y;
    vf_run_score(&x, a);
    vf_run_score(&y, b);
    return x.held_out != y.held_out ? x.held_out : x.loss < y.loss;
}

void vf_runs_rank(int order[VF_RUNS], const vf_runs *r)
{
    for (int i = 0; i < r->n; i++) {
        int at = i;
        for (; at > 0 && is_better(&r->run[i], &r->run[order[at - 1]]); at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}
