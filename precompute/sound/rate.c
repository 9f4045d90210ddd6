/* rate.c - changes the rate of sound: see read.h */
#include <math.h>
#include <stdlib.h>

#include "precompute/sound/read.h"

#define CROSSINGS 6                  /* of zero, on either side of the middle */
#define ROLLOFF 0.99

static int divisor(int a, int b)
{
    while (b) {
        const int r = a % b;
        a = b;
        b = r;
    }
    return a;
}

/* The cutoff relative to the source's rate: below 1 where the result's rate is the lower one. */
static double cutoff(int from, int to)
{
    return (to < from ? (double)to / from : 1) * ROLLOFF;
}

int sound_margin(int from, int to)
{
    return from == to ? 0 : (int)ceil(CROSSINGS / cutoff(from, to));
}

/* Fills the weights of the samples -margin..margin+1 around a place `part` (0 to below 1) behind
 * sample 0. */
static void weigh(float *w, int margin, double part, double cut)
{
    for (int k = -margin; k <= margin + 1; k++) {
        const double t = fmax(-CROSSINGS, fmin(CROSSINGS, (k - part) * cut));
        const double window = cos(t * M_PI / CROSSINGS / 2);
        const double sinc = t ? sin(M_PI * t) / (M_PI * t) : 1;
        w[k + margin] = (float)(cut * window * window * sinc);
    }
}

int sound_resample(float *y, int64_t count, const float *x, int64_t n, int64_t origin, int from,
                   int to, vc_err *err)
{
    const int g = divisor(from, to), up = to / g, down = from / g;
    const int margin = sound_margin(from, to), taps = 2 * margin + 2;
    const int64_t phases = up < count ? up : count;
    float *w = malloc((size_t)(phases ? phases : 1) * (size_t)taps * sizeof *w);

    if (!w)
        return vc_fail(err, VC_ENOMEM, "out of memory for a change from %d Hz to %d Hz", from, to);
    for (int64_t p = 0; p < phases; p++)
        weigh(w + p * taps, margin, (double)(p * down % up) / up, margin ? cutoff(from, to) : 1);
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = origin + i / up * down + i % up * down / up - margin;
        const int64_t first = at < 0 ? -at : 0, end = at + taps > n ? n - at : taps;
        const float *weight = w + i % up * taps;
        double sum = 0;
        for (int64_t k = first; k < end; k++)
            sum += (double)weight[k] * (double)x[at + k];
        y[i] = (float)sum;
    }
    free(w);
    return 0;
}
