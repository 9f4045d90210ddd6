/* watching.c - see watching.h */
#include "train/sampling/watching.h"

#include <math.h>
#include <stdio.h>

/* Reports the samples with the share of the present forward that is done, by its arithmetic. */
static void report(void *arg, double flops)
{
    const vtrain_watching *w = arg;
    char extra[128], time[32], left[48] = "";
    double share = w->flops > 0 ? fmin(flops / w->flops, 1) : 0;
    double step = (w->step - 1 + (w->part + share) / w->parts) / w->steps;
    double done = w->sample - 1 + step;
    if (done > 0)
        snprintf(left, sizeof left, ", %s left",
                 vc_human_time(time, (vc_seconds() - w->begun) * (w->samples - done) / done));
    snprintf(extra, sizeof extra, "sample %d of %d: step %d of %d%s", w->sample, w->samples,
             w->step, w->steps, left);
    vc_progress_at(w->t->ui, (uint64_t)w->t->at.step, extra);
}

void vtrain_watch_sample(vtrain_watching *w)
{
    w->sample++;
    w->flops = 0;
}

void vtrain_watch_step(vtrain_watching *w, int i, int n)
{
    w->step = i + 1;
    w->steps = n;
}

void vtrain_watch_forward(vtrain_watching *w, int i, int n)
{
    w->part = i;
    w->parts = n;
    report(w, 0);
    vt_watch(w->t->g, report, w);
}

void vtrain_watch_end(vtrain_watching *w)
{
    vt_watch(w->t->g, NULL, NULL);
    w->flops = vt_usage_of(w->t->g).flops;
}

void vtrain_watch_report(const vtrain_watching *w, const char *dir, uint32_t n)
{
    char time[32];
    if (n)
        vc_say(w->t->ui, "step %lld: %u sample%s in %s, after %s", (long long)w->t->at.step, n,
               n == 1 ? "" : "s", dir, vc_human_time(time, vc_seconds() - w->begun));
}
