/* mel.c - see mel.h */
#include "precompute/sound/mel.h"

#include <libavutil/mem.h>
#include <libavutil/tx.h>
#include <math.h>
#include <stdlib.h>

#define FLOOR 1e-5                   /* of a magnitude */

enum { MIN_WINDOW = 16, MAX_WINDOW = 1 << 16, MAX_BINS = 1024, MAX_RATE = 1 << 20 };

struct mel_maker {
    mel_shape shape;
    AVTXContext *tx;
    av_tx_fn fft;
    double *window, *in;             /* [window] */
    AVComplexDouble *out;            /* [window/2+1] */
    float *filters;                  /* [window/2+1,bins] */
};

/* ---- Slaney's scale: linear below 1000 Hz, logarithmic above ---- */

#define LINEAR (200.0 / 3)           /* Hz of a mel below */
#define BREAK_HZ 1000.0
#define BREAK_MEL (BREAK_HZ / LINEAR)
#define STEP (log(6.4) / 27)         /* logarithm of the ratio of two mels above */

static double mel_of(double hz)
{
    return hz < BREAK_HZ ? hz / LINEAR : BREAK_MEL + log(hz / BREAK_HZ) / STEP;
}

static double hz_of(double mels)
{
    return mels < BREAK_MEL ? mels * LINEAR : BREAK_HZ * exp(STEP * (mels - BREAK_MEL));
}

/* Triangles between the neighbours of each bin, each with an area of 1. */
static void make_filters(mel_maker *m)
{
    const int bins = m->shape.bins, lines = m->shape.window / 2 + 1;
    const double top = mel_of(m->shape.rate / 2.0);

    for (int b = 0; b < bins; b++) {
        const double low = hz_of(top * b / (bins + 1)), middle = hz_of(top * (b + 1) / (bins + 1));
        const double high = hz_of(top * (b + 2) / (bins + 1));
        for (int k = 0; k < lines; k++) {
            const double hz = (double)(m->shape.rate / 2) * k / (lines - 1);
            const double rise = (hz - low) / (middle - low), fall = (high - hz) / (high - middle);
            const double height = fmax(0, fmin(rise, fall)) * 2 / (high - low);
            m->filters[k * bins + b] = (float)height;
        }
    }
}

int mel_open(mel_maker **out, const mel_shape *s, vc_err *err)
{
    const size_t n = (size_t)s->window, lines = n / 2 + 1;

    *out = NULL;
    if (s->window < MIN_WINDOW || s->window > MAX_WINDOW || s->window & (s->window - 1) ||
        s->hop < 1 || s->bins < 1 || s->bins > MAX_BINS || s->rate < 2 || s->rate > MAX_RATE)
        return vc_fail(err, VC_EINVAL, "a spectrogram of %d bins of windows of %d samples, %d from "
                       "one to the next, at %d Hz", s->bins, s->window, s->hop, s->rate);
    mel_maker *m = calloc(1, sizeof *m);
    if (!m)
        return vc_no_memory(err);
    m->shape = *s;
    m->window = av_malloc(n * sizeof *m->window);
    m->in = av_malloc(n * sizeof *m->in);
    m->out = av_malloc(lines * sizeof *m->out);
    m->filters = malloc(lines * (size_t)s->bins * sizeof *m->filters);
    const double one = 1;
    if (!m->window || !m->in || !m->out || !m->filters ||
        av_tx_init(&m->tx, &m->fft, AV_TX_DOUBLE_RDFT, 0, s->window, &one, 0) < 0) {
        mel_close(m);
        return vc_fail(err, VC_ENOMEM, "out of memory for a spectrogram");
    }
    for (int i = 0; i < s->window; i++)
        m->window[i] = 0.5 - 0.5 * cos(2 * M_PI * i / s->window);
    make_filters(m);
    *out = m;
    return 0;
}

void mel_close(mel_maker *m)
{
    if (!m)
        return;
    av_tx_uninit(&m->tx);
    av_free(m->window);
    av_free(m->in);
    av_free(m->out);
    free(m->filters);
    free(m);
}

int64_t mel_frames(const mel_shape *s, int64_t n)
{
    return n / s->hop + 1;
}

const float *mel_filters(const mel_maker *m)
{
    return m->filters;
}

/* Folds an index beyond an end back into 0..n-1, as often as it takes. */
static int64_t reflect(int64_t i, int64_t n)
{
    const int64_t period = n > 1 ? 2 * (n - 1) : 1;

    i %= period;
    i = i < 0 ? i + period : i;
    return i < n ? i : period - i;
}

void mel_run(mel_maker *m, const float *x, int64_t n, float *y)
{
    const mel_shape *s = &m->shape;
    const int64_t frames = mel_frames(s, n);

    for (int64_t f = 0; f < frames; f++, y += s->bins) {
        const int64_t from = f * s->hop - s->window / 2;
        for (int i = 0; i < s->window; i++)
            m->in[i] = m->window[i] * (double)x[reflect(from + i, n)];
        m->fft(m->tx, m->out, m->in, sizeof *m->in);
        double *size = m->in;                            /* of each line; the window is read */
        for (int k = 0; k <= s->window / 2; k++)
            size[k] = hypot(m->out[k].re, m->out[k].im);
        for (int b = 0; b < s->bins; b++) {
            double sum = 0;
            for (int k = 0; k <= s->window / 2; k++)
                sum += (double)m->filters[k * s->bins + b] * size[k];
            y[b] = (float)log(fmax(sum, FLOOR));
        }
    }
}
