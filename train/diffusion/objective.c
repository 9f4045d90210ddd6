/* objective.c - noise levels, and the factors of noisy latents and targets; see objective.h */
#include "train/diffusion/objective.h"

#include <math.h>
#include <stdlib.h>

#include "common/base/rng.h"

enum { TIMES = 1000 };

struct vtrain_objective {
    vtrain_objective_opts o;
    int64_t strata;
    double alpha_bar[TIMES];     /* v only */
};

/* Makes the discrete schedule: betas are squares of evenly spaced roots, A is shifted in SNR, and
 * its roots are moved so that the last step holds no signal. */
static void make_alpha_bar(double *a, const vtrain_objective_opts *o)
{
    double product = 1, b0 = sqrt(o->beta_start), b1 = sqrt(o->beta_end);
    for (int t = 0; t < TIMES; t++) {
        double root = b0 + (b1 - b0) * t / (TIMES - 1);
        product *= 1 - root * root;
        a[t] = product / (o->snr_shift + (1 - o->snr_shift) * product);
    }
    if (!o->zero_snr)
        return;
    double first = sqrt(a[0]), last = sqrt(a[TIMES - 1]);
    for (int t = 0; t < TIMES; t++) {
        double r = (sqrt(a[t]) - last) * first / (first - last);
        a[t] = r * r;
    }
}

static bool has_range(const vtrain_objective_opts *o)
{
    return o->most > 0 && (o->least > 0 || o->most < TIMES);
}

static bool has_list(const vtrain_objective_opts *o)
{
    return o->list_to > 0 && (o->list_from > 0 || o->list_to < 1);
}

/* True if only a part of the density's levels is drawn. */
static bool is_cut(const vtrain_objective_opts *o)
{
    return o->boundary > 0 || (o->keep_shape && has_range(o));
}

/* Whether the numbers are a range within 0 to 1, or the second one is 0. */
static bool is_range(double least, double most)
{
    return most == 0 || (least >= 0 && least < most && most <= 1);
}

static int check_range(const vtrain_objective_opts *o, vc_err *err)
{
    if (!is_range(o->list_from, o->list_to))
        return vc_fail(err, VC_EINVAL, "--min_timestep_boundary %g, --max_timestep_boundary %g: a "
                       "part of the list of levels lies within 0 to 1", o->list_from, o->list_to);
    if (!is_range(o->draw_least, o->draw_most))
        return vc_fail(err, VC_EINVAL, "--min_noising_strength %g, --max_noising_strength %g: a "
                       "range of levels lies within 0 to 1", o->draw_least, o->draw_most);
    double least = o->least / TIMES, most = o->most / TIMES;
    if (!(o->least >= 0 && o->most <= TIMES && (o->least < o->most || o->most == 0)))
        return vc_fail(err, VC_EINVAL, "--min_timestep %g, --max_timestep %g: a range of timesteps "
                       "begins below its end and lies within 0 to 1000", o->least, o->most);
    if (o->boundary > 0 && o->most > 0 && (o->low ? least >= o->boundary : most <= o->boundary))
        return vc_fail(err, VC_EINVAL, "--min_timestep %g, --max_timestep %g: --boundary_type %s "
                       "trains the levels %s %g alone, and none of them lies in this range",
                       o->least, o->most, o->low ? "low" : "high", o->low ? "below" : "from",
                       TIMES * o->boundary);
    return 0;
}

static int check(const vtrain_objective_opts *o, vc_err *err)
{
    if (o->kind == VTRAIN_FLOW && !(o->shift > 0) && !(o->shift == 0 && o->by_tokens.on))
        return vc_fail(err, VC_EINVAL, "flow shift %g: must be above 0", o->shift);
    if (o->kind == VTRAIN_V && o->density != VTRAIN_UNIFORM)
        return vc_fail(err, VC_EINVAL, "v-prediction draws its timesteps uniformly: "
                       "a weighting scheme belongs to flow matching");
    if (o->grid < 0)
        return vc_fail(err, VC_EINVAL, "a table of %lld levels", (long long)o->grid);
    const bool normal = o->density == VTRAIN_LOGIT_NORMAL || o->density == VTRAIN_STRETCHED;
    const bool narrow = o->draw_most > 0 && (o->draw_least > 0 || o->draw_most < 1);
    if (o->density == VTRAIN_STRETCHED && (o->grid || o->terminal > 0 || narrow))
        return vc_fail(err, VC_EINVAL, "--weighting_scheme stretched: its levels are in no table "
                       "and have no other end: leave out --flow_levels, --flow_terminal and "
                       "--min_noising_strength");
    if (!(o->logit_std > 0) && normal)
        return vc_fail(err, VC_EINVAL, "logit std %g: must be above 0", o->logit_std);
    double at = fmax(o->boundary, o->divide);
    if (at > 0 && o->kind == VTRAIN_V)
        return vc_fail(err, VC_EINVAL, "a boundary of %g lies between levels of a flow: this model "
                       "predicts v", at);
    if ((is_cut(o) || o->divide > 0 || has_list(o)) && o->density == VTRAIN_MODE &&
        !(fabs(o->mode_scale - 0.375) <= 1.375))
        return vc_fail(err, VC_EINVAL, "mode scale %g: with a boundary or a range that keeps the "
                       "distribution's shape, -1 to 1.75 is possible", o->mode_scale);
    if (o->kind == VTRAIN_V && !(o->beta_start > 0 && o->beta_end > o->beta_start &&
                                 o->beta_end < 1 && o->snr_shift > 0))
        return vc_fail(err, VC_EINVAL, "noise schedule %g..%g, snr shift %g: out of range",
                       o->beta_start, o->beta_end, o->snr_shift);
    return check_range(o, err);
}

void vtrain_objective_close(vtrain_objective *o)
{
    free(o);
}

vtrain_kind vtrain_objective_kind(const vtrain_objective *o)
{
    return o->o.kind;
}

bool vtrain_objective_by_tokens(const vtrain_objective *o)
{
    return !(o->o.shift > 0);
}

double vtrain_objective_shift(const vtrain_objective *o, int64_t tokens)
{
    return o->o.shift > 0 ? o->o.shift : vtrain_shift_factor(&o->o.by_tokens, tokens);
}

int64_t vtrain_strata(int64_t ranks, int64_t steps)
{
    for (int64_t i = 1; i <= ranks; i++)
        if (ranks % i == 0 && steps % (ranks / i) == 0)
            return ranks / i;
    return 1;
}

/* ---- ltx-trainer's stretched levels ---- */

#define STRETCH_LOW (-2.5758)                /* quantiles of the normal, as there */
#define STRETCH_HIGH 3.0902
#define STRETCH_LEAST 1e-3
#define STRETCH_UNIFORM 0.1

/* The share of logit-normal levels, shifted by a and stretched, at or below y. */
static double raw_share(const vtrain_objective_opts *o, double a, double y)
{
    const double mu = o->logit_mean + log(a);
    const double low = 1 / (1 + exp(-(mu + o->logit_std * STRETCH_LOW)));
    const double high = 1 / (1 + exp(-(mu + o->logit_std * STRETCH_HIGH)));
    const double x = low + y * (high - low);
    if (x <= 0 || x >= 1)
        return x >= 1;
    return 0.5 * erfc(-(log(x / (1 - x)) - mu) / o->logit_std * M_SQRT1_2);
}

/* The share of all levels at or below s, of which none is below STRETCH_LEAST. */
static double stretched_share(const vtrain_objective_opts *o, double a, double s)
{
    const double mirrored = 2 * STRETCH_LEAST - s, uniform = (s - STRETCH_LEAST) /
                                                            (1 - STRETCH_LEAST);
    return STRETCH_UNIFORM * uniform +
           (1 - STRETCH_UNIFORM) * (raw_share(o, a, s) - raw_share(o, a, mirrored));
}

/* The level of quantile r, by bisection. */
static double stretched(const vtrain_objective_opts *o, double a, double r)
{
    double lo = STRETCH_LEAST, hi = 1;
    for (int i = 0; i < 52; i++) {
        const double s = (lo + hi) / 2;
        if (stretched_share(o, a, s) < r)
            lo = s;
        else
            hi = s;
    }
    return (lo + hi) / 2;
}

static double density(const vtrain_objective_opts *o, double r)
{
    if (o->density == VTRAIN_LOGIT_NORMAL)
        return 1 / (1 + exp(-(o->logit_mean + o->logit_std * vtrain_normal_quantile(r))));
    if (o->density == VTRAIN_MODE) {
        double c = cos(M_PI / 2 * r);
        return 1 - r - o->mode_scale * (c * c - 1 + r);
    }
    return 1 - r;                /* never 0, a level with nothing to learn, as r is below 1 */
}

/* Level u in (0,1], shifted by a and stretched. */
static double moved(const vtrain_objective_opts *p, double a, double u)
{
    const double levels = p->grid ? (double)p->grid : TIMES;
    return vtrain_stretched(vtrain_shifted(a, u), vtrain_shifted(a, 1 / levels), p->terminal);
}

static double bell(double s)
{
    return exp(-2 * (s - 0.5) * (s - 0.5)) - exp(-0.5);
}

/* The mean of the bell over the table of 1000 levels, shifted by a and stretched. */
static double bell_mean(const vtrain_objective_opts *p, double a)
{
    double sum = 0;
    for (int i = 1; i <= TIMES; i++)
        sum += bell(moved(p, a, (double)i / TIMES));
    return sum / TIMES;
}

/* Weights of levels: the ends of straight lines that follow the table of ai-toolkit, which its
 * authors measured on Flex.1-alpha at 1000 levels. They are within 2% of every number of that
 * table, 0.2% in the mean square, and like its numbers have the mean 1 over the 1000 levels. */
static double measured(double s)
{
    static const struct { double level, weight; } at[] = {
        { 0.001, 0.445 }, { 0.012, 0.452 }, { 0.03, 0.508 }, { 0.05, 0.583 }, { 0.075, 0.669 },
        { 0.1, 0.719 }, { 0.125, 0.734 }, { 0.16, 0.726 }, { 0.2, 0.715 }, { 0.25, 0.714 },
        { 0.3, 0.73 }, { 0.35, 0.761 }, { 0.4, 0.802 }, { 0.5, 0.922 }, { 0.6, 1.081 },
        { 0.7, 1.264 }, { 0.8, 1.445 }, { 0.85, 1.513 }, { 0.88, 1.519 }, { 0.91, 1.502 },
        { 0.94, 1.423 }, { 0.96, 1.332 }, { 0.975, 1.219 }, { 0.985, 1.131 }, { 0.993, 0.994 },
        { 1, 0.899 },
    };
    int i = 1;
    while (i + 1 < (int)(sizeof at / sizeof *at) && at[i].level < s)
        i++;
    const double by = (s - at[i - 1].level) / (at[i].level - at[i - 1].level);
    return at[i - 1].weight + fmax(by, 0) * (at[i].weight - at[i - 1].weight);
}

/* The weight of level s, which was shifted by a. */
static double loss_weight(const vtrain_objective_opts *p, double a, double s)
{
    if (p->density == VTRAIN_COSMAP)
        return 2 / (M_PI * (1 - 2 * s + 2 * s * s));
    if (p->density == VTRAIN_BELL)
        return bell(s) / bell_mean(p, a);
    if (p->density == VTRAIN_WEIGHTED)
        return measured(s);
    if (p->density != VTRAIN_SIGMA_SQRT)
        return 1;
    double floor = s < 1.0 / TIMES ? 1.0 / TIMES : s;     /* where other trainers' tables end */
    return 1 / (floor * floor);
}

static vtrain_level flow_level(const vtrain_objective *o, double a, double s)
{
    s = fmin(fmax(s, 1e-6), 1);
    return (vtrain_level){
        .sigma = s, .t = (float)(TIMES * s), .t_next = (float)(TIMES * s),
        .x_of = (float)(1 - s), .n_of = (float)s, .tx_of = -1, .tn_of = 1,
        .weight = (float)(loss_weight(&o->o, a, s) * (o->o.clean ? s * s : 1)),
    };
}

static vtrain_level v_level(const vtrain_objective *o, int t)
{
    t = t < 0 ? 0 : t < TIMES ? t : TIMES - 1;
    double signal = sqrt(o->alpha_bar[t]), noise = sqrt(1 - o->alpha_bar[t]);
    return (vtrain_level){
        .sigma = noise, .t = (float)t, .t_next = (float)t,
        .x_of = (float)signal, .n_of = (float)noise,
        .tx_of = (float)-noise, .tn_of = (float)signal, .weight = 1,
    };
}

/* Rounds up to a level of the grid. A level that differs from the grid's by rounding alone is that
 * level. */
static double on_grid(const vtrain_objective_opts *p, double s)
{
    double n = (double)p->grid;
    return p->grid ? fmin(fmax(ceil(n * s - 1e-9), 1), n) / n : s;
}

/* The quantile of the whole density that is quantile r of the part of its list. */
static double in_list(const vtrain_objective_opts *p, double r)
{
    if (!has_list(p))
        return r;
    bool rises = p->density == VTRAIN_LOGIT_NORMAL || p->density == VTRAIN_STRETCHED;
    double from = rises ? 1 - p->list_to : p->list_from;
    return from + r * (p->list_to - p->list_from);
}

/* The level u scaled into the range before the shift. */
static double in_draws(const vtrain_objective_opts *p, double u)
{
    return p->draw_most > 0 ? p->draw_least + u * (p->draw_most - p->draw_least) : u;
}

/* The level of quantile r of the density, shifted by a and scaled into a range that does not keep
 * the distribution's shape. It rises or falls with r. */
static double flow_sigma(const vtrain_objective_opts *p, double a, double r)
{
    double s = p->density == VTRAIN_STRETCHED
               ? stretched(p, a, in_list(p, r))
               : moved(p, a, on_grid(p, in_draws(p, density(p, in_list(p, r)))));
    if (!has_range(p) || p->keep_shape)
        return s;
    return (p->least + s * (p->most - p->least)) / TIMES;
}

/* Levels from `least` on, up to `most`, which is one of them unless they are below it. */
typedef struct part {
    double least, most;
    bool below;
} part;

static part part_of(const vtrain_objective_opts *p)
{
    part x = { 0, 1, false };
    if (p->keep_shape && has_range(p))
        x = (part){ p->least / TIMES, p->most / TIMES, false };
    if (p->boundary > 0 && p->low && p->boundary <= x.most)
        x = (part){ x.least, p->boundary, true };
    else if (p->boundary > 0 && !p->low)
        x.least = fmax(x.least, p->boundary);
    return x;
}

/* The quantile on one side of which levels are below `at`, or (inclusive) at or below it. All
 * levels are above 0 and none is above 1. */
static double quantile_of(const vtrain_objective_opts *p, double a, double at, bool inclusive)
{
    bool rises = flow_sigma(p, a, 1) > flow_sigma(p, a, 0);
    double least = 0, most = 1;
    if (at <= 0 || (at >= 1 && inclusive))
        return (at >= 1) == rises ? 1 : 0;
    for (int i = 0; i < 64; i++) {
        double middle = (least + most) / 2, s = flow_sigma(p, a, middle);
        if ((inclusive ? s <= at : s < at) == rises)
            least = middle;
        else
            most = middle;
    }
    return least;
}

/* The quantiles between which levels lie in the part. */
static void cut(double *from, double *to, const vtrain_objective_opts *p, double a)
{
    part x = part_of(p);
    double least = quantile_of(p, a, x.least, false);
    double most = quantile_of(p, a, x.most, !x.below);
    *from = fmin(least, most);
    *to = fmax(least, most);
}

/* The level of quantile r among the levels of the part that is drawn. */
static double part_sigma(const vtrain_objective_opts *p, double a, double r)
{
    double from, to;
    part x = part_of(p);
    cut(&from, &to, p, a);
    double most = x.below ? x.most * (1 - 0x1p-22) : x.most;         /* below it as a float too */
    return fmin(fmax(flow_sigma(p, a, from + r * (to - from)), x.least), most);
}

/* Checks that a shift that all samples share leaves some levels to draw. */
static int check_part(const vtrain_objective_opts *p, vc_err *err)
{
    double from, to;
    if (p->kind != VTRAIN_FLOW || p->shift == 0 || !p->keep_shape || !has_range(p))
        return 0;
    cut(&from, &to, p, p->shift);
    if (to - from > 1e-12)
        return 0;
    return vc_fail(err, VC_EINVAL, "--min_timestep %g, --max_timestep %g: no level of the "
                   "distribution lies in this range: widen it, or leave out "
                   "--preserve_distribution_shape to scale all levels into it", p->least, p->most);
}

/* Timestep of quantile r for v: all of them, or those from `least` on, below `most`. */
static int v_time(const vtrain_objective_opts *p, double r)
{
    if (has_range(p))
        return (int)(p->least + r * (p->most - p->least));
    if (has_list(p))
        r = 1 - p->list_to + r * (p->list_to - p->list_from);
    return (int)(in_draws(p, r) * TIMES);
}

int vtrain_objective_open(vtrain_objective **out, const vtrain_objective_opts *o, vc_err *err)
{
    *out = NULL;
    int rc = check(o, err);
    if (!rc)
        rc = check_part(o, err);
    if (rc)
        return rc;
    vtrain_objective *x = calloc(1, sizeof *x);
    if (!x)
        return vc_fail(err, VC_ENOMEM, "objective: out of memory");
    x->o = *o;
    x->strata = o->stratified ? vtrain_strata(o->micros, TIMES) : 1;
    if (o->kind == VTRAIN_V)
        make_alpha_bar(x->alpha_bar, o);
    *out = x;
    return 0;
}

vtrain_level vtrain_level_of(const vtrain_objective *o, int64_t tokens, double r)
{
    const vtrain_objective_opts *p = &o->o;
    const double a = p->kind == VTRAIN_V ? 0 : vtrain_objective_shift(o, tokens);
    vtrain_level l = p->kind == VTRAIN_V ? v_level(o, v_time(p, r))
                     : flow_level(o, a, is_cut(p) ? part_sigma(p, a, r) : flow_sigma(p, a, r));
    l.quantile = r;
    return l;
}

vtrain_level vtrain_level_at(const vtrain_objective *o, double sigma_or_t)
{
    vtrain_level l = o->o.kind == VTRAIN_V ? v_level(o, (int)sigma_or_t)
                                           : flow_level(o, 1, sigma_or_t);
    l.quantile = NAN;
    return l;
}

double vtrain_level_draw(const vtrain_objective *o, uint64_t seed, uint32_t row, uint64_t micro)
{
    double r = vc_train_unit(seed, 0, row, (uint32_t)micro, VC_DRAW_SIGMA);
    if (o->strata == 1)
        return r;
    int64_t place = (int64_t)(micro % (uint64_t)o->o.micros);
    int64_t group = place / (o->o.micros / o->strata);
    return ((double)group + r) / (double)o->strata;
}

bool vtrain_level_low(const vtrain_objective *o, const vtrain_level *l)
{
    return l->sigma < o->o.divide;
}

static bool is_low(const vtrain_objective *o, int64_t tokens, double r)
{
    const vtrain_level l = vtrain_level_of(o, tokens, r);
    return vtrain_level_low(o, &l);
}

/* The quantile nearest to `to` whose level is on the boundary's side of that of `from`. */
static double reach(const vtrain_objective *o, int64_t tokens, double from, double to)
{
    enum { BITS = 52 };
    const bool low = is_low(o, tokens, from);
    if (is_low(o, tokens, to) == low)
        return to;
    for (int i = 0; i < BITS; i++) {
        double middle = from + (to - from) / 2;
        *(is_low(o, tokens, middle) == low ? &from : &to) = middle;
    }
    return from;
}

vtrain_level vtrain_level_row(const vtrain_objective *o, int64_t tokens, uint64_t seed,
                              uint32_t row, uint64_t micro)
{
    double r = vtrain_level_draw(o, seed, row, micro), n = (double)o->strata;
    if (o->o.divide > 0 && row > 0) {
        double first = vtrain_level_draw(o, seed, 0, micro), group = floor(first * n);
        double least = reach(o, tokens, first, group / n);
        double most = reach(o, tokens, first, (group + 1) / n);
        r = least + (r * n - group) * (most - least);
    }
    return vtrain_level_of(o, tokens, r);
}

double vtrain_share_high(const vtrain_objective *o, int64_t tokens)
{
    double first = reach(o, tokens, 0, 1);
    return is_low(o, tokens, 0) ? 1 - first : first;
}

double vtrain_alpha_bar(const vtrain_objective *o, int t)
{
    return o->alpha_bar[t];
}

const double *vtrain_alpha_bars(const vtrain_objective *o)
{
    return o->alpha_bar;
}
