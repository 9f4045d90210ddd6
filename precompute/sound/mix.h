/* mix.h - a decoded frame of sound in the model's channels. For read.c. */
#ifndef PRECOMPUTE_SOUND_MIX_H
#define PRECOMPUTE_SOUND_MIX_H

#include <libavutil/frame.h>
#include <libswresample/swresample.h>

#include "common/base/err.h"

/* All zero at first. The converter serves frames of one layout and one format. */
typedef struct sound_mix {
    SwrContext *swr;
    AVChannelLayout layout;
    int format, rate;
    float *x;                        /* the last result */
    size_t room;
} sound_mix;

/* *out [channels,frame->nb_samples] f32, borrowed until the next call. Any sample format, planar or
 * packed, and any layout that FFmpeg can mix; one channel is doubled. VC_EFORMAT: it cannot. */
int sound_mix_run(sound_mix *m, float **out, const AVFrame *frame, int channels, vc_err *err);
void sound_mix_close(sound_mix *m);

#endif
