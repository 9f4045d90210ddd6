/* read.c - the sound of a span of a video: see read.h
 *
 * A second demuxer reads the file from a second before the span on, since decoders need what
 * precedes. Frames land on a grid of samples at the file's rate, whose sample 0 is heard with the
 * first shown frame. Stamps are rounded to ticks, so that frames follow one another where the
 * stamps leave it open, only a distance above SLACK is a gap or an overlap, and a stream that
 * begins within a tick of the pictures begins with them. Where a tick is longer than a sample, as
 * in Matroska, a stamp behind a seek is less exact than the count of samples from the stream's
 * begin on, so that spans in the first COUNTED seconds are reached without a seek. */
#include "precompute/sound/read.h"

#include <libswresample/swresample.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "precompute/media/internal.h"
#include "precompute/sound/mix.h"

#define PREROLL 1.0                  /* seconds: the longest of FFmpeg's decoders needs 0.1 */
#define NEEDED 0.25                  /* of it */
#define COUNTED 600.0                /* seconds */
#define SLACK 0.01                   /* seconds */

typedef struct sound {
    const media *m;
    const sound_span *span;
    const atomic_int *stop;
    media_io io;
    AVFormatContext *fmt;
    AVCodecContext *dec;
    AVPacket *pkt;
    AVFrame *frame;
    sound_mix mix;
    int stream, rate;                /* rate: 0 until the first frame */
    bool seeks;                      /* the demuxer does not begin at the start */
    double zero;                     /* seconds of the first shown frame in the file's time */
    int64_t begin;                   /* place of the first frame since the file was opened, */
    int64_t next;                    /* and of the next one: UNKNOWN at first */
    float *x;                        /* [channels,room]: places first..first+room-1 */
    int64_t first, room;
    bool has;
} sound;
#define UNKNOWN INT64_MIN

static void stream_close(sound *s)
{
    avcodec_free_context(&s->dec);
    avformat_close_input(&s->fmt);
}

static void sound_close(sound *s)
{
    stream_close(s);
    av_packet_free(&s->pkt);
    av_frame_free(&s->frame);
    sound_mix_close(&s->mix);
    media_io_unshare(&s->io);
    free(s->x);
}

/* ---- opening ---- */

static int decoder_open(sound *s, const AVCodec *codec, vc_err *err)
{
    const AVStream *st = s->fmt->streams[s->stream];
    const char *name = avcodec_get_name(st->codecpar->codec_id);

    if (!codec)
        return vc_fail(err, VC_EFORMAT, "sound: FFmpeg has no decoder for %s: convert it "
                       "(ffmpeg -i IN -c:v copy -c:a flac OUT.mkv), or leave --with_audio out",
                       name);
    s->dec = avcodec_alloc_context3(codec);
    if (!s->dec)
        return vc_no_memory(err);
    int r = avcodec_parameters_to_context(s->dec, st->codecpar);
    s->dec->pkt_timebase = st->time_base;
    s->dec->thread_count = 1;
    s->dec->err_recognition |= AV_EF_CRCCHECK | AV_EF_EXPLODE;
    if (r >= 0)
        r = avcodec_open2(s->dec, codec, NULL);
    return r < 0 ? media_av_fail(err, r, "sound: the decoder of %s", name) : 0;
}

/* *none: the file has no sound. */
static int stream_open(sound *s, bool *none, vc_err *err)
{
    const AVCodec *codec = NULL;

    *none = false;
    stream_close(s);
    int rc = media_io_demux(&s->fmt, &s->io, s->m->path, err);
    if (rc)
        return rc;
    int r = avformat_find_stream_info(s->fmt, NULL);
    if (r >= 0)
        s->stream = av_find_best_stream(s->fmt, AVMEDIA_TYPE_AUDIO, -1, s->m->video.stream, &codec,
                                        0);
    if (r >= 0 && s->stream == AVERROR_STREAM_NOT_FOUND) {
        *none = true;
        return 0;
    }
    for (unsigned i = 0; r >= 0 && s->stream < 0 && i < s->fmt->nb_streams; i++)
        if (s->fmt->streams[i]->codecpar->codec_type == AVMEDIA_TYPE_AUDIO)
            s->stream = (int)i;                              /* it has no decoder */
    if (r < 0 || s->stream < 0)
        return media_av_fail(err, r < 0 ? r : s->stream, "sound");
    for (unsigned i = 0; i < s->fmt->nb_streams; i++)
        s->fmt->streams[i]->discard = (int)i == s->stream ? AVDISCARD_DEFAULT : AVDISCARD_ALL;
    s->next = UNKNOWN;
    return decoder_open(s, codec, err);
}

/* Begins PREROLL before the span, or at the start where the file cannot seek. */
static int seek(sound *s, vc_err *err)
{
    const AVRational tick = s->fmt->streams[s->stream]->time_base;
    const double to = s->zero + s->span->begin - PREROLL;
    bool none;

    const int rate = s->fmt->streams[s->stream]->codecpar->sample_rate;
    const bool coarse = av_q2d(tick) * rate > 1;
    if (s->span->begin <= (coarse ? COUNTED : PREROLL) || s->m->video.counted)
        return 0;
    if (av_seek_frame(s->fmt, s->stream, (int64_t)floor(to / av_q2d(tick)),
                      AVSEEK_FLAG_BACKWARD) < 0)
        return stream_open(s, &none, err);
    s->seeks = true;
    return 0;
}

/* ---- frames ---- */

/* Makes room for the span at the file's rate. */
static int begin_area(sound *s, int rate, vc_err *err)
{
    const sound_span *w = s->span;
    const int margin = sound_margin(rate, w->rate);

    if (rate < 1 || rate > SOUND_MAX_RATE)
        return vc_fail(err, VC_EFORMAT, "sound: a rate of %d Hz", rate);
    s->rate = rate;
    s->first = llround(w->begin * rate) - margin;
    s->room = (int64_t)ceil((double)w->n * rate / w->rate) + 2 * margin + 2;
    s->x = calloc((size_t)s->room * (size_t)w->channels, sizeof *s->x);
    return s->x ? 0 : vc_fail(err, VC_ENOMEM, "sound: out of memory for %lld samples",
                              (long long)s->room);
}

static int damaged(const sound *s, int64_t place, vc_err *err)
{
    const char *why = media_log_last();
    return vc_fail(err, VC_EFORMAT, "sound: damaged at %.3f s%s%s: repair the file, or leave "
                   "--with_audio out", s->rate ? (double)place / s->rate : 0, *why ? ": " : "",
                   why);
}

/* The place of a frame or packet with that stamp; that of the next one if it has none. */
static int64_t place_of(const sound *s, int64_t stamp)
{
    const double tick = av_q2d(s->fmt->streams[s->stream]->time_base);
    if (stamp == AV_NOPTS_VALUE)
        return s->next == UNKNOWN ? 0 : s->next;
    const int64_t at = llround(((double)stamp * tick - s->zero) * s->rate);
    if (s->next == UNKNOWN && !s->seeks && fabs((double)at) <= tick * s->rate)
        return 0;
    const bool follows = s->next != UNKNOWN
                         && fabs((double)(at - s->next)) <= fmax(SLACK, tick) * s->rate;
    return follows ? s->next : at;
}

/* Copies the part of the frame that lies in the span. */
static int take_frame(sound *s, vc_err *err)
{
    const AVFrame *f = s->frame;
    float *to[SOUND_MAX_CHANNELS], *mixed;
    int rc = s->rate ? 0 : begin_area(s, f->sample_rate, err);

    if (!rc && f->sample_rate != s->rate)
        rc = vc_fail(err, VC_EFORMAT, "sound: the rate changes from %d to %d Hz within the file: "
                     "convert it (ffmpeg -i IN -c:v copy -c:a flac -ar %d OUT.mkv)", s->rate,
                     f->sample_rate, s->rate);
    if (rc)
        return rc;
    const int64_t at = place_of(s, f->best_effort_timestamp);
    s->begin = s->next == UNKNOWN ? at : s->begin;
    s->next = at + f->nb_samples;
    if (at >= s->first + s->room || s->next <= s->first)
        return 0;
    if (media_frame_damaged(f))
        return damaged(s, at, err);
    rc = sound_mix_run(&s->mix, &mixed, f, s->span->channels, err);
    if (rc)
        return rc;
    const int64_t begin = at < s->first ? s->first - at : 0;
    const int64_t end = s->next > s->first + s->room ? s->first + s->room - at : f->nb_samples;
    for (int c = 0; c < s->span->channels; c++) {
        to[c] = s->x + c * s->room + (at - s->first);
        memcpy(to[c] + begin, mixed + (int64_t)c * f->nb_samples + begin,
               (size_t)(end - begin) * sizeof(float));
        for (int64_t i = begin; i < end; i++)
            if (!isfinite(to[c][i]))
                return damaged(s, at + i, err);
    }
    const int64_t wanted = s->first + sound_margin(s->rate, s->span->rate);
    s->has |= s->next > wanted && at < s->first + s->room;
    return 0;
}

static bool is_through(const sound *s)
{
    return s->rate && s->next != UNKNOWN && s->next >= s->first + s->room;
}

/* Decodes a packet, or with NULL what the decoder still holds. An error before the span does not
 * count: after a seek decoders lack what came before. */
static int decode(sound *s, const AVPacket *pkt, vc_err *err)
{
    const int64_t at = pkt && s->rate ? place_of(s, pkt->pts) : 0;
    const bool before = pkt && s->rate && pkt->duration > 0 &&
                        at + av_rescale_q(pkt->duration, s->fmt->streams[s->stream]->time_base,
                                          (AVRational){ 1, s->rate }) <= s->first;
    int rc = 0;

    media_log_clear();
    int r = avcodec_send_packet(s->dec, pkt);
    bool failed = (r < 0 && r != AVERROR_EOF) || (pkt && pkt->flags & AV_PKT_FLAG_CORRUPT);
    while (!rc && r >= 0) {
        r = avcodec_receive_frame(s->dec, s->frame);
        if (r == AVERROR(EAGAIN) || r == AVERROR_EOF)
            break;
        failed |= r < 0;
        if (r >= 0)
            rc = take_frame(s, err);
        av_frame_unref(s->frame);
    }
    if (rc || !failed || before || (s->seeks && !s->rate))
        return rc;
    return r == AVERROR(ENOMEM) ? vc_no_memory(err) : damaged(s, at, err);
}

/* Decodes until the span is full. *late: after a seek the decoder lacks what precedes the span. */
static int run(sound *s, bool *late, vc_err *err)
{
    int rc = 0, r = 0;

    *late = false;
    while (!rc && !is_through(s) && (r = av_read_frame(s->fmt, s->pkt)) >= 0) {
        if (s->pkt->stream_index == s->stream)
            rc = decode(s, s->pkt, err);
        av_packet_unref(s->pkt);
        if (s->stop && *s->stop && !rc)
            rc = vc_fail(err, VC_ESTOP, "stopped");
        *late = !rc && s->seeks && s->next != UNKNOWN &&
                s->begin > s->first - (int64_t)(NEEDED * s->rate);
        if (*late)
            return 0;
    }
    if (s->io.failed)
        return vc_fail(err, VC_EIO, "sound: cannot read: %s", strerror(s->io.failed));
    if (!rc && r < 0 && r != AVERROR_EOF)
        return media_av_fail(err, r, "sound");
    return rc || is_through(s) ? rc : decode(s, NULL, err);
}

/* Reads the span into s->x; again from the start where a seek went too far. */
static int fill(sound *s, vc_err *err)
{
    bool late, none;
    int rc = seek(s, err);

    if (!rc)
        rc = run(s, &late, err);
    if (rc || !late)
        return rc;
    s->seeks = false;
    memset(s->x, 0, (size_t)s->room * (size_t)s->span->channels * sizeof *s->x);
    s->has = false;
    rc = stream_open(s, &none, err);
    return rc ? rc : run(s, &late, err);
}

/* The time of the first shown frame. Frames without stamps of their own begin with the stream, or
 * else with the sound. */
static double zero_of(const sound *s)
{
    const media_video *v = &s->m->video;
    const AVStream *pictures = v->fmt ? v->fmt->streams[v->stream] : NULL;
    const AVStream *st = pictures && pictures->start_time != AV_NOPTS_VALUE
                         ? pictures : s->fmt->streams[s->stream];
    if (!v->counted)
        return (double)v->index[0].pts * av_q2d(v->time_base);
    return st->start_time == AV_NOPTS_VALUE ? 0 : (double)st->start_time * av_q2d(st->time_base);
}

static int read_whole(sound *s, float *x, vc_err *err)
{
    const sound_span *w = s->span;
    bool none;
    int rc = stream_open(s, &none, err);

    if (rc || none)
        return rc;
    s->zero = zero_of(s);
    rc = fill(s, err);
    const int margin = rc || !s->rate ? 0 : sound_margin(s->rate, w->rate);
    for (int c = 0; !rc && s->rate && c < w->channels; c++)
        rc = sound_resample(x + c * w->n, w->n, s->x + c * s->room, s->room, margin, s->rate,
                            w->rate, err);
    return rc;
}

int sound_read(media *m, const sound_span *span, float *x, bool *has, const atomic_int *stop,
                vc_err *err)
{
    sound s = { .m = m, .span = span, .stop = stop };

    *has = false;
    if (span->n < 1 || span->n > INT32_MAX || span->rate < 1 || span->rate > SOUND_MAX_RATE ||
        span->channels < 1 || span->channels > 2 || !isfinite(span->begin) ||
        fabs(span->begin) > 1e9)
        return vc_fail(err, VC_EINVAL, "sound: %lld samples at %d Hz of %d channels from %g s",
                       (long long)span->n, span->rate, span->channels, span->begin);
    memset(x, 0, (size_t)span->n * (size_t)span->channels * sizeof *x);
    if (m->still.kind || m->frames.n || m->video.still)
        return 0;
    media_log_clear();
    s.pkt = av_packet_alloc();
    s.frame = av_frame_alloc();
    int rc = s.pkt && s.frame ? media_io_share(&s.io, &m->io, err) : vc_no_memory(err);
    if (!rc)
        rc = read_whole(&s, x, err);
    *has = !rc && s.has;
    sound_close(&s);
    return rc;
}
