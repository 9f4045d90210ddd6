/* shift.h - how the levels of a flow are moved towards noise, in the numbers of diffusers'
 * FlowMatchEulerDiscreteScheduler.
 *
 * A level u becomes s = a u / (1 + (a-1) u). The factor a is the model's (`shift`), or follows from
 * the number of tokens of a sample (use_dynamic_shifting): mu lies on the line through (base_len,
 * base) and (max_len, max), and a = e^mu ("exponential") or mu ("linear"). Ideogram 4's pipeline
 * has a rule of its own ("root"): mu = base + ln(tokens / base_len) / 2, so that a grows as the root
 * of the tokens, and max is mu at max_len. A terminal stretch then
 * moves the levels of a schedule so that its last one is `terminal`, and pure noise stays. */
#ifndef TRAIN_DIFFUSION_SHIFT_H
#define TRAIN_DIFFUSION_SHIFT_H

#include <stdbool.h>
#include <stdint.h>

typedef enum { VTRAIN_MU_EXPONENTIAL, VTRAIN_MU_LINEAR, VTRAIN_MU_ROOT } vtrain_shift_type;
extern const char *const vtrain_shift_types[];

typedef struct vtrain_by_tokens {
    bool on;                                  /* false: the other fields mean nothing */
    int type;                                 /* vtrain_shift_type */
    double base, max;                         /* mu at base_len and at max_len */
    int64_t base_len, max_len;                /* tokens; not the same */
} vtrain_by_tokens;

/* mu, and the factor a, of a sample of `tokens` tokens. */
double vtrain_shift_mu(const vtrain_by_tokens *b, int64_t tokens);
double vtrain_shift_factor(const vtrain_by_tokens *b, int64_t tokens);
/* The factor for a sample of `steps` steps as FLUX.2's pipelines choose it: mu of 10 and of 200
 * steps are lines over the tokens, and other numbers of steps lie on the line through both; above
 * 4300 tokens mu is that of 200 steps. */
double vtrain_shift_of_steps(int64_t tokens, int steps);
double vtrain_shifted(double a, double u);
/* The z with P(N(0,1) < z) = r. */
double vtrain_normal_quantile(double r);
/* Level s, stretched for a schedule whose last level is `last`; terminal 0 stretches nothing. */
double vtrain_stretched(double s, double last, double terminal);

#endif
