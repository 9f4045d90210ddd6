/* solver.c - the steps of a sampler, planned as factors before the first of them; see solver.h */
#include "train/diffusion/solver.h"

#include <math.h>
#include <stdbool.h>

#include "train/diffusion/shift.h"

#define TOP 1e-6                              /* levels closer than this are one level */

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

double vtrain_guidance(vtrain_guiding how, double scale, int power, int i, int steps, double t)
{
    double place = how == VTRAIN_GUIDE_BY_TIME ? steps - t : i;
    if (how == VTRAIN_GUIDE_EVENLY)
        return scale;
    return 1 + scale * (1 - cos(M_PI * pow(place / steps, power))) / 2;
}

static double deviation(const float *x, size_t n)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i];
    for (size_t i = 0; i < n; i++)
        squares += ((double)x[i] - sum / (double)n) * ((double)x[i] - sum / (double)n);
    return sqrt(squares / (double)n);
}

void vtrain_guide(float *out, const float *neg, size_t n, double scale, double rescale)
{
    const float w = (float)scale;
    const double own = rescale > 0 ? deviation(out, n) : 0;
    for (size_t i = 0; i < n; i++)
        out[i] = neg[i] + w * (out[i] - neg[i]);
    const double guided = rescale > 0 ? deviation(out, n) : 0;
    const float factor = guided > 0 ? (float)(rescale * own / guided + 1 - rescale) : 1;
    for (size_t i = 0; guided > 0 && i < n; i++)
        out[i] *= factor;
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
            .level = t[i], .t = t[i], .clean_x = sqrt(a), .clean_v = -sqrt(1 - a),
        };
        if (o->sampler == VTRAIN_DDIM)
            ddim(&step[i], a, b);
        else
            dpm(&step[i], a, b, first || end ? -1 : o->alpha_bar[t[i - 1]]);
    }
}

/* ---- levels of a flow ---- */

/* Number i of n from 1 to `last`, evenly, as numpy's linspace rounds. */
static double evenly(double last, int n, int i)
{
    if (i == 0)
        return 1;
    return i == n - 1 ? last : 1 + i * ((last - 1) / (n - 1));
}

/* Steps that begin at 1 with the slope of LINEAR over half of the steps, then fall to 0 along a
 * parabola of the same slope (Polyak et al. 2024). */
static double quadratic(int steps, int i)
{
    if (steps == 1)
        return 1;
    const double linear = 0.025, half = steps / 2, rest = steps - half;
    const double bend = (half - linear * steps) / (half * rest * rest);
    const double slope = linear / half - 2 * (half - linear * steps) / (rest * rest);
    return i < half ? 1 - i * linear / half
                    : 1 - (bend * i * i + slope * i + bend * half * half);
}

/* Euler's scheduler takes the ends of its own levels from its table, which is shifted already, and
 * shifts them again. UniPC's stops before the end of its table. */
static double own_level(const vtrain_solver_opts *o, int i)
{
    const double end = 1.0 / VTRAIN_TIMES;
    return o->sampler == VTRAIN_UNIPC ? evenly(end, o->steps + 1, i)
                                      : evenly(vtrain_shifted(o->shift, end), o->steps, i);
}

#define QUANTILE_STD 1.5                      /* of Ideogram4Pipeline, as are the bounds: */
#define LOGIT_LEAST (-7.5)                    /* of half the log SNR at most 15 and at least -18 */
#define LOGIT_MOST 9.0

static double logistic(double x) { return 1 / (1 + exp(-x)); }

static double quantile(int steps, int i)
{
    return i ? logistic(QUANTILE_STD * vtrain_normal_quantile((double)(steps - i) / steps)) : 1;
}

#define KARRAS_MOST 80.0                      /* of Cosmos2TextToImagePipeline */
#define KARRAS_LEAST 0.002
#define KARRAS_ROOT 7.0

/* The deviation s of the noise beside a clean picture; both divided by 1 + s are a flow's mix. */
static double karras(int steps, int i)
{
    const double most = pow(KARRAS_MOST, 1 / KARRAS_ROOT);
    const double least = pow(KARRAS_LEAST, 1 / KARRAS_ROOT);
    const double s = steps == 1 ? KARRAS_MOST
                                : pow(most + i * (least - most) / (steps - 1), KARRAS_ROOT);
    return s / (1 + s);
}

static bool is_karras(const vtrain_solver_opts *o)
{
    return o->sigmas == VC_SIGMAS_KARRAS && o->sampler == VTRAIN_EULER;
}

/* Level i of a sample before the shift. */
static double plain_level(const vtrain_solver_opts *o, int i)
{
    const bool euler = o->sampler == VTRAIN_EULER;
    switch (o->sigmas) {
    case VC_SIGMAS_TO_ZERO:
        return evenly(0, o->steps + 1, i);
    case VC_SIGMAS_QUADRATIC:
        return euler ? quadratic(o->steps, i) : own_level(o, i);
    case VC_SIGMAS_OWN:
    case VC_SIGMAS_KARRAS:
        return own_level(o, i);
    case VC_SIGMAS_QUANTILES:
        return euler ? quantile(o->steps, i) : own_level(o, i);
    case VC_SIGMAS_EVEN_EULER:
        return euler ? evenly(1.0 / o->steps, o->steps, i) : own_level(o, i);
    case VC_SIGMAS_EVEN:
        break;
    }
    return evenly(1.0 / o->steps, o->steps, i);
}

static double flow_sigma(const vtrain_solver_opts *o, int i)
{
    if (is_karras(o))
        return karras(o->steps, i < o->steps ? i : i - 1);
    if (i == o->steps)
        return 0;
    double last = vtrain_shifted(o->shift, plain_level(o, o->steps - 1));
    double s = vtrain_stretched(vtrain_shifted(o->shift, plain_level(o, i)), last, o->terminal);
    if (o->sigmas == VC_SIGMAS_QUANTILES && o->sampler == VTRAIN_EULER)
        s = fmin(fmax(s, logistic(LOGIT_LEAST)), logistic(LOGIT_MOST));
    return s;
}

/* ---- Euler ---- */

/* The sigma at the end of step i, which begins at s. A pipeline that gives its levels as times
 * goes to the next lower sigma from there, as diffusers' scheduler does for tokens that have their
 * own times. */
static double euler_end(const vtrain_solver_opts *o, int i, double s)
{
    if (o->sigmas != VC_SIGMAS_QUADRATIC)
        return flow_sigma(o, i + 1);
    for (int k = 0; k < o->steps; k++)
        if (flow_sigma(o, k) < s - TOP)
            return flow_sigma(o, k);
    return 0;
}

/* dx/ds = n - x implies the clean picture x - s v at s; the next sample lies between x and that
 * picture. */
static void plan_flow(vtrain_solver_step *step, const vtrain_solver_opts *o)
{
    for (int i = 0; i < o->steps; i++) {
        double s = o->sigmas == VC_SIGMAS_QUADRATIC ? plain_level(o, i) : flow_sigma(o, i);
        double kept = euler_end(o, i, s) / s;
        step[i] = (vtrain_solver_step){
            .level = s, .t = VTRAIN_TIMES * s, .clean_x = 1, .clean_v = -s, .x = kept,
            .clean = 1 - kept,
        };
    }
    if (is_karras(o))                         /* the end has a whole clean picture, and noise */
        step[o->steps - 1].x = 1 / (1 - step[o->steps - 1].level);
}

double vtrain_solver_start(const vtrain_solver_opts *o)
{
    return is_karras(o) ? flow_sigma(o, 0) : 1;
}

/* ---- UniPC ---- */

static double unrounded_sigma(const vtrain_solver_opts *o, int i)
{
    double s = flow_sigma(o, i);
    return fabs(s - 1) < TOP ? s - TOP : s;
}

static double unipc_sigma(const vtrain_solver_opts *o, int i)
{
    return (float)unrounded_sigma(o, i);
}

static double flow_log_snr(double s)
{
    return log(1 - s) - log(s);
}

/* The way from a sigma to a lower one: gain is alpha (1 - e^-h), h the rise of the log SNR; ratio
 * is the rise from the sigma before, below 0, over h. */
typedef struct stretch {
    double h, gain, ratio;
    int order;
} stretch;

static stretch stretch_of(const vtrain_solver_opts *o, int i)
{
    double s = unipc_sigma(o, i), t = unipc_sigma(o, i + 1), from = flow_log_snr(s);
    stretch x = { .h = flow_log_snr(t) - from, .order = i && i < o->steps - 1 ? 2 : 1 };
    x.gain = (1 - t) * -expm1(-x.h);
    if (x.order == 2)
        x.ratio = (flow_log_snr(unipc_sigma(o, i - 1)) - from) / x.h;
    return x;
}

/* Adds `factor` times what the model's answer at the end of x corrects in the sample that was
 * predicted there (Zhao et al., UniC with B2). */
static void correct(vtrain_solver_step *step, const stretch *x, double factor)
{
    double e = expm1(-x->h), phi = -e / x->h - 1, now = 0.5, old = 0;
    if (x->order == 2) {
        double b1 = phi / e, b2 = 2 * (-phi / x->h - 0.5) / e, rho = (b1 - b2) / (1 - x->ratio);
        now = b1 - rho;
        old = (rho - 0.5) / x->ratio;
    }
    step->clean += factor * x->gain * now;
    step->last -= factor * x->gain * (now + old);
    step->before += factor * x->gain * old;
}

static void plan_unipc(vtrain_solver_step *step, const vtrain_solver_opts *o)
{
    for (int i = 0; i < o->steps; i++) {
        double s = unipc_sigma(o, i), kept = unipc_sigma(o, i + 1) / s;
        stretch x = stretch_of(o, i), last = { 0 };
        double old = x.order == 2 ? 0.5 / x.ratio : 0;
        step[i] = (vtrain_solver_step){
            .level = s, .t = floor(VTRAIN_TIMES * unrounded_sigma(o, i)),
            .clean_x = 1, .clean_v = -s, .x = kept,
            .clean = x.gain * (1 - old), .last = x.gain * old,
        };
        if (i)
            last = stretch_of(o, i - 1);
        if (i && kept > 0)
            correct(&step[i], &last, kept);
    }
}

int vtrain_solver_plan(vtrain_solver_step *step, const vtrain_solver_opts *o, vc_err *err)
{
    if (o->steps < 1 || o->steps > VTRAIN_TIMES)
        return vc_fail(err, VC_EINVAL, "%d sampling steps: 1 to %d are possible", o->steps,
                       VTRAIN_TIMES);
    if (o->sampler == VTRAIN_EULER || o->sampler == VTRAIN_UNIPC) {
        if (!(o->shift > 0) || !isfinite(o->shift))
            return vc_fail(err, VC_EINVAL, "flow shift %g: must be above 0", o->shift);
        if (o->sampler == VTRAIN_EULER)
            plan_flow(step, o);
        else
            plan_unipc(step, o);
        return 0;
    }
    for (int t = 0; t < VTRAIN_TIMES; t++)
        if (!(o->alpha_bar[t] >= 0 && o->alpha_bar[t] < (t ? o->alpha_bar[t - 1] : 1)))
            return vc_fail(err, VC_EINVAL, "noise schedule: alpha_bar %g at time %d is not below "
                           "the one before", o->alpha_bar[t], t);
    plan_discrete(step, o);
    return 0;
}

void vtrain_solver_apply(const vtrain_solver_step *s, float *x, float *past, const float *v,
                         const float *noise, size_t n)
{
    float *last = past, *before = past + n;
    for (size_t i = 0; i < n; i++) {
        double clean = s->clean_x * (double)x[i] + s->clean_v * (double)v[i];
        double next = s->x * (double)x[i] + s->clean * clean;
        if (s->last != 0)
            next += s->last * (double)last[i];
        if (s->before != 0)
            next += s->before * (double)before[i];
        if (s->noise != 0)
            next += s->noise * (double)noise[i];
        before[i] = last[i];
        last[i] = (float)clean;
        x[i] = (float)next;
    }
}
