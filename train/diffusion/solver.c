/* solver.c - the steps of a sampler, planned as factors before the first of them; see solver.h */
#include "train/diffusion/solver.h"

#include <math.h>
#include <stdbool.h>

#include "train/diffusion/shift.h"

/* ---- times ---- */

void vtrain_solver_times(int *t, int steps, vtrain_spacing spacing)
{
    double n = steps, trailing = (VTRAIN_TIMES - VTRAIN_TIMES / n) - VTRAIN_TIMES;
    for (int i = 0; i < steps; i++) {
        int back = steps - 1 - i;
        switch (spacing) {
        case VTRAIN_TRAILING:
            t[i] = (int)nearbyint(VTRAIN_TIMES + i * trailing) - 1;
            break;
        case VTRAIN_LINSPACE:
            t[i] = steps == 1 ? 0 : (int)nearbyint(back * ((VTRAIN_TIMES - 1) / (n - 1)));
            break;
        case VTRAIN_LEADING:
            t[i] = back * (VTRAIN_TIMES / steps);
            break;
        }
    }
}

/* ---- one step ---- */

/* A step from A[t] to B along the noise that v implies. */
static void ddim(vtrain_solver_step *s, double a, double b)
{
    s->x = sqrt((1 - b) / (1 - a));
    s->clean = sqrt(b) - sqrt(a) * s->x;
}

static double half_log_snr(double a)
{
    return 0.5 * log(a / (1 - a));            /* no signal: -infinity; no noise: infinity */
}

/* A step from A to B with fresh noise. before is the A of the step before, whose clean picture
 * corrects this one's to second order; below 0, the step is of first order. */
static void dpm(vtrain_solver_step *s, double a, double b, double before)
{
    double h = half_log_snr(b) - half_log_snr(a), gain = -expm1(-2 * h);
    double rest = sqrt((1 - b) / (1 - a)) * exp(-h), clean = sqrt(b) * gain;
    double k = before < 0 ? 0 : 0.5 * h / (half_log_snr(a) - half_log_snr(before));
    s->x = rest;
    s->clean = clean * (1 + k);
    s->last = -clean * k;
    s->noise = sqrt(1 - b) * sqrt(gain);
}

/* ---- plans ---- */

static void plan_discrete(vtrain_solver_step *step, const vtrain_solver_opts *o)
{
    int t[VTRAIN_TIMES], down = VTRAIN_TIMES / o->steps;
    vtrain_solver_times(t, o->steps, o->spacing);
    for (int i = 0; i < o->steps; i++) {
        bool first = i == 0, end = t[i] < down;
        double a = o->alpha_bar[t[i]], b = end ? o->final_alpha : o->alpha_bar[t[i] - down];
        step[i] = (vtrain_solver_step){
            .level = t[i], .clean_x = sqrt(a), .clean_v = -sqrt(1 - a),
        };
        if (o->sampler == VTRAIN_DDIM)
            ddim(&step[i], a, b);
        else dpm(&step[i], a, b, first || end ? -1 : o->alpha_bar[t[i - 1]]);
    }
}

static double flow_sigma(const vtrain_solver_opts *o, int i)
{
    if (i == o->steps)
        return 0;
    double n = o->steps, last = vtrain_shifted(o->shift, 1 / n);
    return vtrain_stretched(vtrain_shifted(o->shift, (n - i) / n), last, o->terminal);
}

/* dx/ds = n - x implies the clean picture x - s v at s; the next sample lies between x and that
 * picture. */
static void plan_flow(vtrain_solver_step *step, const vtrain_solver_opts *o)
{
    for (int i = 0; i < o->steps; i++) {
        double s = flow_sigma(o, i), kept = flow_sigma(o, i + 1) / s;
        step[i] = (vtrain_solver_step){
            .level = s, .clean_x = 1, .clean_v = -s, .x = kept, .clean = 1 - kept,
        };
    }
}

int vtrain_solver_plan(vtrain_solver_step *step, const vtrain_solver_opts *o, vc_err *err)
{
    if (o->steps < 1 || o->steps > VTRAIN_TIMES)
        return vc_fail(err, VC_EINVAL, "%d sampling steps: 1 to %d are possible", o->steps,
                       VTRAIN_TIMES);
    if (o->sampler == VTRAIN_EULER) {
        if (!(o->shift > 0) || !isfinite(o->shift))
            return vc_fail(err, VC_EINVAL, "flow shift %g: must be above 0", o->shift);
        plan_flow(step, o);
        return 0;
    }
    for (int t = 0; t < VTRAIN_TIMES; t++)
        if (!(o->alpha_bar[t] >= 0 && o->alpha_bar[t] < (t ? o->alpha_bar[t - 1] : 1)))
            return vc_fail(err, VC_EINVAL, "noise schedule: alpha_bar %g at time %d is not below "
                           "the one before", o->alpha_bar[t], t);
    plan_discrete(step, o);
    return 0;
}

void vtrain_solver_apply(const vtrain_solver_step *s, float *x, float *last, const float *v,
                         const float *noise, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double clean = s->clean_x * (double)x[i] + s->clean_v * (double)v[i];
        double next = s->x * (double)x[i] + s->clean * clean;
        if (s->last != 0)
            next += s->last * (double)last[i];
        if (s->noise != 0)
            next += s->noise * (double)noise[i];
        last[i] = (float)clean;
        x[i] = (float)next;
    }
}
