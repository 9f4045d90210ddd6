/* rate.c - learning-rate schedules of diffusers; see rate.h */
#include "train/optim/rate.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/config.h"

static const double LAST_RATE = 1e-7;          /* end of polynomial, as in diffusers */

static const char *const names[] = {
#define SCHEDULE(NAME, name, has, value) [VTRAIN_##NAME] = #name,
#include "train/optim/schedules.def"
};

const char vtrain_schedule_words[] =
#define SCHEDULE(NAME, name, has, value) "|" #name
#include "train/optim/schedules.def"
    ;

bool vtrain_schedule_is(vtrain_schedule how, vtrain_schedule_has has)
{
    enum { WARM = VTRAIN_HAS_WARM, FALL = VTRAIN_HAS_FALL, END = VTRAIN_HAS_END,
           CYCLES = VTRAIN_HAS_CYCLES, POWER = VTRAIN_HAS_POWER, RULES = VTRAIN_HAS_RULES };
    static const int all[] = {
#define SCHEDULE(NAME, name, has, value) [VTRAIN_##NAME] = has,
#include "train/optim/schedules.def"
    };
    return all[how] & (int)has;
}

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
    double last = r->end > 0 ? r->end : LAST_RATE;
    if (r->how == VTRAIN_POLYNOMIAL && r->rate > 0 && r->rate <= last)
        return vc_fail(err, VC_EUSAGE, "--lr_scheduler polynomial: the rate falls to %g, so "
                       "--learning_rate has to be above it, or --lr_end below", last);
    if (!vtrain_schedule_is(r->how, VTRAIN_HAS_RULES))
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

/* The value of the schedule's row at step s; p is read by those that fall. */
static double value_of(const vtrain_rate *r, int64_t s, double p)
{
    switch (r->how) {
#define SCHEDULE(NAME, name, has, value) case VTRAIN_##NAME: return value;
#include "train/optim/schedules.def"
    default: return 1;
    }
}

int64_t vtrain_rate_warmup(const vtrain_rate *r)
{
    return (int64_t)(r->warmup < 1 ? r->warmup * (double)r->steps : r->warmup);
}

double vtrain_rate_factor(const vtrain_rate *r, int64_t s)
{
    const int64_t warmup = vtrain_rate_warmup(r);
    if (vtrain_schedule_is(r->how, VTRAIN_HAS_WARM) && s < warmup)
        return (double)(s + r->from) / (double)warmup;
    if (!vtrain_schedule_is(r->how, VTRAIN_HAS_FALL))
        return value_of(r, s, 0);
    int64_t span = r->steps > warmup ? r->steps - warmup : 1;
    double done = (double)(s - warmup) / (double)span;
    bool own = r->end > 0 || !vtrain_schedule_is(r->how, VTRAIN_HAS_POWER);
    double end = (own ? r->end : LAST_RATE) / r->rate;
    return done >= 1 ? end : (1 - end) * value_of(r, s, done) + end;
}

double vtrain_clip_factor(double norm, double max)
{
    if (max <= 0)
        return 1;
    double f = max / (norm + 1e-6);
    return f < 1 ? f : 1;
}
