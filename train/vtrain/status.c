/* status.c - vtrain --status: where the run of an output folder is; see run.h */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "common/os/file.h"
#include "common/os/lock.h"
#include "formats/report/curves.h"
#include "formats/report/settings.h"
#include "train/vtrain.h"
#include "train/vtrain/run.h"

enum { RECENT = 10 };                        /* bins of a curve that count as recent */

typedef struct status {
    const char *dir;
    vf_curves *curves;                       /* NULL: no step is done */
    double steps, epochs;                    /* of the settings; 0: not given */
    bool held;                               /* a process works on the folder */
    char holder[VC_LOCK_HOLDER];
    double age;                              /* seconds since the last step; NaN: no step is done */
    char *checkpoint;                        /* NULL: none is complete */
} status;

/* ---- reading ---- */

static double number_of(const char *settings, const char *name)
{
    size_t n;
    return strtod(vf_setting(settings, name, strlen(name), &n), NULL);
}

static int read_settings(status *s, vc_err *err)
{
    char *text;
    int rc = vf_settings_read(&text, s->dir, err);
    if (!rc && !text)
        rc = vc_fail(err, VC_ENOENT, "%s is not the output folder of a run: it has no config.yaml",
                     s->dir);
    if (!rc) {
        s->steps = number_of(text, "max_train_steps");
        s->epochs = number_of(text, "num_train_epochs");
    }
    free(text);
    return rc;
}

/* Reads metrics.jsonl, which a run has after its first step. */
static int read_metrics(status *s, vc_err *err)
{
    struct stat st;
    char *path = vc_path_join(s->dir, "metrics.jsonl");
    if (!path)
        return vc_no_memory(err);
    s->age = NAN;
    int rc = 0;
    if (!stat(path, &st) && st.st_size) {
        s->age = difftime(time(NULL), st.st_mtime);
        rc = vf_curves_read(&s->curves, s->dir, err);
    }
    free(path);
    return rc;
}

static int read_status(status *s, vc_err *err)
{
    int rc = read_settings(s, err);
    if (!rc)
        rc = read_metrics(s, err);
    if (!rc)
        rc = vtrain_ckpt_find(&s->checkpoint, s->dir, "latest", err);
    char *lock = vc_path_join(s->dir, ".lock");
    if (!rc && !lock)
        rc = vc_no_memory(err);
    s->held = !rc && vc_lock_held(s->holder, lock);
    free(lock);
    return rc;
}

/* ---- printing ---- */

static void print_row(FILE *out, const char *name, const char *text)
{
    fprintf(out, "%-12s%s\n", name, text);
}

/* The mean of a curve's last points. */
static double recent(const vf_curve *c)
{
    double sum = 0, n = 0;
    for (int i = c->n > RECENT ? c->n - RECENT : 0; i < c->n; i++) {
        sum += c->bin[i].sum;
        n += (double)c->bin[i].n;
    }
    return n > 0 ? sum / n : NAN;
}

/* The steps of the whole run, which the settings have as steps or as epochs; 0 if unknown. */
static double all_steps(const status *s)
{
    const vf_curves *c = s->curves;
    if (s->steps > 0 || !c || !(c->epoch > 0))
        return s->steps;
    return round(s->epochs * (double)c->step / c->epoch);
}

static void print_state(const status *s, FILE *out)
{
    double step = s->curves ? (double)s->curves->step : 0;
    char text[VC_LOCK_HOLDER + 64];
    if (s->held)
        snprintf(text, sizeof text, "%s%s", step > 0 ? "running" : "starting",
                 *s->holder ? s->holder : ", maybe on another machine");
    else if (step > 0 && step >= all_steps(s))
        snprintf(text, sizeof text, "finished");
    else
        snprintf(text, sizeof text, "not running; %s", s->checkpoint
                 ? "--resume_from_checkpoint latest continues it" : "no checkpoint is complete");
    print_row(out, "state", text);
}

static void print_steps(const status *s, FILE *out)
{
    const vf_curves *c = s->curves;
    char a[32], b[32], text[160];
    double all = all_steps(s);
    int n = snprintf(text, sizeof text, "%s", vc_human_count(a, (uint64_t)c->step));
    if (all > 0)
        n += snprintf(text + n, sizeof text - (size_t)n, " of %s (%.1f %%)",
                      vc_human_count(b, (uint64_t)all), 100 * (double)c->step / all);
    if (isfinite(c->epoch))
        snprintf(text + n, sizeof text - (size_t)n, ", epoch %.2f", c->epoch);
    print_row(out, "step", text);
}

static void print_loss(const status *s, FILE *out)
{
    const vf_curves *c = s->curves;
    char text[160];
    int n = snprintf(text, sizeof text, "%.5f in the last step, recently %.5f", c->loss.last,
                     recent(&c->loss));
    if (c->eval.points)
        snprintf(text + n, sizeof text - (size_t)n, "; held-out %.5f, least %.5f at step %.0f",
                 c->eval.last, c->eval.best, c->eval.best_x);
    print_row(out, "loss", text);
}

static void print_speed(const status *s, FILE *out)
{
    const vf_curves *c = s->curves;
    double each = recent(&c->step_s), left = all_steps(s) - (double)c->step;
    char a[32], text[160];
    snprintf(text, sizeof text, "%.3g s a step, %.0f tokens/s; the last step was %s ago", each,
             recent(&c->tokens), vc_human_time(a, s->age));
    print_row(out, "speed", text);
    if (s->held && left > 0)
        print_row(out, "left", vc_human_time(a, each * left));
}

static void print_checkpoint(const status *s, FILE *out)
{
    int64_t step;
    char text[160];
    if (!s->checkpoint || !vtrain_ckpt_step(s->checkpoint, &step)) {
        print_row(out, "checkpoint", "none yet");
        return;
    }
    int64_t since = s->curves ? s->curves->step - step : 0;
    snprintf(text, sizeof text, "%s, %" PRId64 " steps ago", vc_path_base(s->checkpoint), since);
    print_row(out, "checkpoint", text);
}

/* The checkpoint of least held-out loss, if the run keeps it. */
static void print_best(const status *s, FILE *out)
{
    vtrain_ckpt_loss *best;
    int n;
    char text[96], *link = vc_path_join(s->dir, VTRAIN_BEST);
    if (link && vc_file_exists(link) && !vtrain_ckpt_best(&best, &n, s->dir, 1, NULL)) {
        if (n) {
            snprintf(text, sizeof text, "checkpoint-%" PRId64 ", held-out loss %.5f", best->step,
                     best->loss);
            print_row(out, "best", text);
        }
        free(best);
    }
    free(link);
}

int vtrain_status(const char *dir, FILE *out, vc_err *err)
{
    status s = { .dir = dir };
    char text[32];
    int rc = read_status(&s, err);
    if (!rc) {
        print_row(out, "run", dir);
        print_state(&s, out);
        if (s.curves && s.curves->steps) {
            print_steps(&s, out);
            print_loss(&s, out);
            print_speed(&s, out);
            if (s.curves->peak_bytes)
                print_row(out, "memory", vc_human_bytes(text, (double)s.curves->peak_bytes));
        }
        print_checkpoint(&s, out);
        print_best(&s, out);
    }
    vf_curves_free(s.curves);
    free(s.checkpoint);
    return rc;
}
