/* mix.c - see mix.h */
#include "precompute/sound/mix.h"

#include <libavutil/opt.h>
#include <stdlib.h>
#include <string.h>

#include "precompute/media/internal.h"
#include "precompute/sound/read.h"

void sound_mix_close(sound_mix *m)
{
    swr_free(&m->swr);
    av_channel_layout_uninit(&m->layout);
    free(m->x);
    m->x = NULL;
}

/* The layout of a frame: that of most files with as many channels where the frame has none. */
static int layout_of(AVChannelLayout *out, const AVFrame *f)
{
    if (f->ch_layout.order != AV_CHANNEL_ORDER_UNSPEC)
        return av_channel_layout_copy(out, &f->ch_layout);
    av_channel_layout_default(out, f->ch_layout.nb_channels);
    return 0;
}

/* Opens a converter between the frame's layout and `channels`; mono stays mono. */
static int mix_open(sound_mix *m, const AVFrame *f, int channels, vc_err *err)
{
    AVChannelLayout in = { 0 }, to = { 0 };
    char name[64] = "unknown layout";
    int r = layout_of(&in, f);

    av_channel_layout_default(&to, in.nb_channels == 1 ? 1 : channels);
    swr_free(&m->swr);
    if (r >= 0)
        r = swr_alloc_set_opts2(&m->swr, &to, AV_SAMPLE_FMT_FLTP, f->sample_rate, &in,
                                (enum AVSampleFormat)f->format, f->sample_rate, 0, NULL);
    if (r >= 0)
        r = av_opt_set_double(m->swr, "rematrix_maxval", 1, 0);
    if (r >= 0)
        r = swr_init(m->swr);
    if (r >= 0)
        r = av_channel_layout_copy(&m->layout, &f->ch_layout);
    m->format = f->format;
    m->rate = f->sample_rate;
    if (in.nb_channels)
        av_channel_layout_describe(&in, name, sizeof name);
    av_channel_layout_uninit(&in);
    return r >= 0 ? 0 : media_av_fail(err, r, "sound: %d channels (%s) cannot be mixed to %d: "
                                      "convert it (ffmpeg -i IN -c:v copy -c:a flac -ac 2 OUT.mkv)",
                                      f->ch_layout.nb_channels, name, channels);
}

int sound_mix_run(sound_mix *m, float **out, const AVFrame *f, int channels, vc_err *err)
{
    const size_t n = (size_t)f->nb_samples, all = n * (size_t)channels;
    const int stored = f->ch_layout.nb_channels;
    int rc = 0;

    if (stored < 1 || stored > SOUND_MAX_CHANNELS)
        return vc_fail(err, VC_EFORMAT, "sound: %d channels", stored);
    if (!m->swr || m->format != f->format || m->rate != f->sample_rate ||
        av_channel_layout_compare(&m->layout, &f->ch_layout))
        rc = mix_open(m, f, channels, err);
    if (!rc && all > m->room) {
        free(m->x);
        m->x = malloc(all * sizeof *m->x);
        m->room = m->x ? all : 0;
        rc = m->x ? 0 : vc_no_memory(err);
    }
    if (rc)
        return rc;
    uint8_t *to[2] = { (uint8_t *)m->x, (uint8_t *)(m->x + n) };
    const int r = swr_convert(m->swr, to, f->nb_samples, (const uint8_t **)f->extended_data,
                              f->nb_samples);
    if (r != f->nb_samples)
        return media_av_fail(err, r < 0 ? r : AVERROR_INVALIDDATA, "sound: %d samples were "
                             "converted of %d", r, f->nb_samples);
    if (stored == 1 && channels == 2)
        memcpy(m->x + n, m->x, n * sizeof *m->x);
    *out = m->x;
    return 0;
}
