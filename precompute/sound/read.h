/* read.h - the sound of a span of a video, as a model reads it: its rate and its channels.
 *
 * The sound comes from the file that the frames come from, through FFmpeg's best audio stream for
 * them. Times are those of media_times: seconds from the first shown frame. What an encoder put in
 * front of the sound (priming samples, edit lists) is left out, as players do. */
#ifndef PRECOMPUTE_SOUND_READ_H
#define PRECOMPUTE_SOUND_READ_H

#include "precompute/media/media.h"

/* No honest file has a higher rate or more channels. */
enum { SOUND_MAX_RATE = 768000, SOUND_MAX_CHANNELS = 64 };

/* The sound that is asked for: sample i of each channel is the sound at begin + i/rate seconds, to
 * the nearest sample of the file. */
typedef struct sound_span {
    double begin;
    int64_t n;                       /* samples of a channel */
    int rate, channels;              /* channels: 1 or 2 */
} sound_span;

/* Writes x f32 [channels,n]. Zeros stand where the file has no sound: before its stream begins,
 * behind its end, in gaps, and everywhere in a file without sound, in a still and in a folder of
 * pictures. *has: the span has a sample of the file. Mono is doubled for two channels, and more
 * channels are mixed by FFmpeg's matrix, whose sums do not exceed 1. Memory: the span at the
 * file's rate and at the model's.
 * VC_EFORMAT: the stream has no decoder here, a part of the span is damaged, or the rate changes
 * within it; VC_EINVAL: the span; VC_ESTOP: stop, where it is not NULL, became nonzero. */
int sound_read(media *m, const sound_span *span, float *x, bool *has, const atomic_int *stop,
                vc_err *err);

/* ---- rate.c ---- */
/* Resamples x [n], whose sample `origin` is that of time 0, from rate `from` to `to`: y[i] is the
 * sound at time i/to, for i < count. Samples outside of x are 0. A sinc under Hann's window (Smith,
 * Digital Audio Resampling, 2002) with 6 zero crossings and a cutoff of 0.99, as torchaudio's
 * resample. */
int sound_resample(float *y, int64_t count, const float *x, int64_t n, int64_t origin, int from,
                   int to, vc_err *err);
/* The samples of the source on either side that a sample of the result depends on. */
int sound_margin(int from, int to);

#endif
