/* rate.c - learning-rate schedules of diffusers; see rate.h */
#include "train/optim/rate.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/config.h"

static const double LAST_RATE = 1e-7;          /* end of polynomial, as in diffusers */

static const char *const names[] = {
    [VTRAIN_CONSTANT] = "constant", [VTRAIN_CONSTANT_WITH_WARMUP] = "constant_with_warmup",
    [VTRAIN_LINEAR] = "linear", [VTRAIN_COSINE] = "cosine",
    [VTRAIN_COSINE_WITH_RESTARTS] = "cosine_with_restarts", [VTRAIN_POLYNOMIAL] = "polynomial",
    [VTRAIN_PIECEWISE_CONSTANT] = "piecewise_constant",
};

const char *vtrain_schedule_name(vtrain_schedule how) { return names[how]; }

bool vtrain_schedule_named(vtrain_schedule *out, const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == n && !strncmp(name, names[i], n)) {
            *out = (vtrain_schedule)i;
            return true;
        }
    return false;
}

/* Reads "VALUE:STEP," or the last "VALUE"; returns the end of the rule, or NULL. */
static const char *next_rule(const char *s, double *value, int64_t *step)
{
    char *end;
    *value = strtod(s, &end);
    *step = INT64_MAX;
    if (end == s || !isfinite(*value) || *value < 0)
        return NULL;
    if (!*end)
        return end;
    if (*end != ':' || !strchr("0123456789", end[1]) || !end[1])
        return NULL;
    *step = strtoll(end + 1, &end, 10);
    return *end == ',' && end[1] ? end + 1 : NULL;
}

/* The value of the rule with the lowest step above s; the rules may be in any order. */
static double piecewise(const char *rules, int64_t s)
{
    double value, best = 1;
    int64_t step, lowest = INT64_MAX;
    for (const char *p = rules; *p;) {
        p = next_rule(p, &value, &step);
        if (!p)
            break;
        if (s < step && step <= lowest) {
            lowest = step;
            best = value;
        }
    }
    return best;
}

int vtrain_rate_check(const vtrain_rate *r, vc_err *err)
{
    double value;
    int64_t step = 0;
    if (r->how == VTRAIN_POLYNOMIAL && r->rate > 0 && r->rate <= LAST_RATE)
        return vc_fail(err, VC_EUSAGE, "--lr_scheduler polynomial: the rate falls to 1e-7, so "
                       "--learning_rate has to be above 1e-7");
    if (r->how != VTRAIN_PIECEWISE_CONSTANT)
        return 0;
    const char *p = r->rules;
    while (p && *p)
        p = next_rule(p, &value, &step);
    if (p && r->rules && step == INT64_MAX)
        return 0;
    return vc_fail(err, VC_EUSAGE, "--lr_step_rules%s%s: expected are factors of --learning_rate, "
                   "each but the last with the step where it ends, as in 1:100,0.1:200,0.01",
                   r->rules ? " " : "", r->rules ? r->rules : "");
}

vtrain_rate vtrain_rate_of(const vtrain_config *c, int64_t steps)
{
    return (vtrain_rate){ .how = (vtrain_schedule)c->lr_scheduler,
                          .warmup = c->lr_warmup_steps, .steps = steps,
                          .cycles = c->lr_num_cycles, .power = c->lr_power,
                          .rate = c->learning_rate, .rules = c->lr_step_rules, .end = c->lr_end,
                          .from = c->lr_warmup_from };
}

/* The share of the fall that is left when a fraction `done` of its steps is, below 1. */
static double left_of(const vtrain_rate *r, double done)
{
    if (r->how == VTRAIN_POLYNOMIAL)
        return pow(1 - done, r->power);
    if (r->how == VTRAIN_LINEAR)
        return 1 - done;
    if (r->how == VTRAIN_COSINE_WITH_RESTARTS)
        done = fmod((double)r->cycles * done, 1);
    return 0.5 * (1 + cos(M_PI * done));
}

int64_t vtrain_rate_warmup(const vtrain_rate *r)
{
    return (int64_t)(r->warmup < 1 ? r->warmup * (double)r->steps : r->warmup);
}

double vtrain_rate_factor(const vtrain_rate *r, int64_t s)
{
    const int64_t warmup = vtrain_rate_warmup(r);
    if (r->how == VTRAIN_CONSTANT)
        return 1;
    if (r->how == VTRAIN_PIECEWISE_CONSTANT)
        return piecewise(r->rules, s);
    if (s < warmup)
        return (double)(s + r->from) / (double)warmup;
    if (r->how == VTRAIN_CONSTANT_WITH_WARMUP)
        return 1;
    int64_t span = r->steps > warmup ? r->steps - warmup : 1;
    double done = (double)(s - warmup) / (double)span;
    double end = (r->how == VTRAIN_POLYNOMIAL ? LAST_RATE : r->end) / r->rate;
    return done >= 1 ? end : (1 - end) * left_of(r, done) + end;
}

double vtrain_clip_factor(double norm, double max)
{
    if (max <= 0)
        return 1;
    double f = max / (norm + 1e-6);
    return f < 1 ? f : 1;
}
