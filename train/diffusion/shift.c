/* shift.c - how levels are shifted and stretched; see shift.h */
#include "train/diffusion/shift.h"

#include <math.h>

const char *const vtrain_shift_types[] = { "exponential", "linear", "root" };

double vtrain_shift_mu(const vtrain_by_tokens *b, int64_t tokens)
{
    if (b->type == VTRAIN_MU_ROOT)
        return b->base + 0.5 * log((double)tokens / (double)b->base_len);
    double slope = (b->max - b->base) / (double)(b->max_len - b->base_len);
    return b->base + (double)(tokens - b->base_len) * slope;
}

double vtrain_shift_factor(const vtrain_by_tokens *b, int64_t tokens)
{
    enum { MOST = 100 };                      /* e^100 leaves no level but 1; e^1000 is infinite */
    double mu = vtrain_shift_mu(b, tokens);
    return b->type == VTRAIN_MU_LINEAR ? mu : exp(fmax(fmin(mu, MOST), -MOST));
}

double vtrain_shift_of_steps(int64_t tokens, int steps)
{
    const double few = 8.73809524e-05 * (double)tokens + 1.89833333;
    const double many = 0.00016927 * (double)tokens + 0.45666666, slope = (many - few) / 190;
    return exp(tokens > 4300 ? many : slope * steps + many - 200 * slope);
}

double vtrain_shifted(double a, double u)
{
    return a * u / (1 + (a - 1) * u);
}

/* By bisection. One is needed a row, so speed does not matter. */
double vtrain_normal_quantile(double r)
{
    double lo = -9, hi = 9;
    for (int i = 0; i < 64; i++) {
        double z = (lo + hi) / 2;
        if (0.5 * erfc(-z * M_SQRT1_2) < r)
            lo = z;
        else
            hi = z;
    }
    return (lo + hi) / 2;
}

double vtrain_stretched(double s, double last, double terminal)
{
    if (terminal <= 0 || last >= 1)
        return s;                                         /* the only level is pure noise */
    return 1 - (1 - s) / ((1 - last) / (1 - terminal));   /* rounded as in diffusers */
}
