/* write.c - see write.h */
#include "precompute/media/write.h"

#include <fcntl.h>
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/opt.h>
#include <libswscale/swscale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <turbojpeg.h>
#include <unistd.h>

#include "common/os/file.h"
#include "common/os/temp.h"
#include "precompute/media/internal.h"
#include "precompute/media/resize.h"

static int check_size(int h, int w, vc_err *err)
{
    if (h >= 1 && w >= 1 && h <= MEDIA_WRITE_MAX_SIDE && w <= MEDIA_WRITE_MAX_SIDE)
        return 0;
    return vc_fail(err, VC_EINVAL, "a picture of %dx%d pixels (sides may be 1 to %d)", w, h,
                   MEDIA_WRITE_MAX_SIDE);
}

/* ---- stills ---- */

int media_jpeg(uint8_t **jpeg, size_t *size, const uint8_t *rgb, int h, int w, int quality,
               vc_err *err)
{
    *jpeg = NULL;
    *size = 0;
    int rc = check_size(h, w, err);
    if (!rc && (quality < 1 || quality > 100))
        rc = vc_fail(err, VC_EINVAL, "JPEG quality %d (allowed: 1 to 100)", quality);
    if (rc)
        return rc;

    /* our own buffer of the largest possible size, so that free() fits */
    int subsampling = quality < 90 ? TJSAMP_420 : TJSAMP_444;
    unsigned long n = tjBufSize(w, h, subsampling);
    uint8_t *buf = malloc(n), *small;
    tjhandle tj = tjInitCompress();
    if (!buf || !tj)
        rc = vc_fail(err, VC_ENOMEM, "out of memory for a JPEG of %dx%d", w, h);
    else if (tjCompress2(tj, rgb, w, 0, h, TJPF_RGB, &buf, &n, subsampling, quality,
                         TJFLAG_NOREALLOC | TJFLAG_ACCURATEDCT))
        rc = vc_fail(err, VC_EFAIL, "JPEG encoder: %s", tjGetErrorStr2(tj));
    if (tj)
        tjDestroy(tj);
    if (rc) {
        free(buf);
        return rc;
    }
    small = realloc(buf, n);
    *jpeg = small ? small : buf;
    *size = n;
    return 0;
}

int media_write_jpeg(const char *path, const uint8_t *rgb, int h, int w, int quality, vc_err *err)
{
    uint8_t *jpeg;
    size_t n;
    int rc = media_jpeg(&jpeg, &n, rgb, h, w, quality, err);
    if (rc)
        return vc_context(err, rc, "%s", path);
    rc = vc_file_write(path, jpeg, n, err);
    free(jpeg);
    return rc;
}

static void set_source(AVFrame *f, const uint8_t *rgb, int h, int w)
{
    f->data[0] = (uint8_t *)(uintptr_t)rgb;         /* not refcounted: encoders copy the data */
    f->linesize[0] = w * 3;
    f->format = AV_PIX_FMT_RGB24;
    f->width = w;
    f->height = h;
}

static int png_encode(AVPacket *pkt, const uint8_t *rgb, int h, int w, vc_err *err)
{
    const AVCodec *codec = avcodec_find_encoder(AV_CODEC_ID_PNG);
    AVCodecContext *enc = codec ? avcodec_alloc_context3(codec) : NULL;
    AVFrame *f = av_frame_alloc();
    int r = enc && f ? 0 : codec ? AVERROR(ENOMEM) : AVERROR_ENCODER_NOT_FOUND;
    if (!r) {
        enc->width = w;
        enc->height = h;
        enc->pix_fmt = AV_PIX_FMT_RGB24;
        enc->time_base = (AVRational){ 1, 1 };
        enc->thread_count = 1;
        r = avcodec_open2(enc, codec, NULL);
    }
    if (r >= 0) {
        set_source(f, rgb, h, w);
        r = avcodec_send_frame(enc, f);
    }
    if (r >= 0)
        r = avcodec_send_frame(enc, NULL);
    if (r >= 0)
        r = avcodec_receive_packet(enc, pkt);
    av_frame_free(&f);
    avcodec_free_context(&enc);
    return r < 0 ? media_av_fail(err, r, "PNG encoder") : 0;
}

int media_write_png(const char *path, const uint8_t *rgb, int h, int w, vc_err *err)
{
    media_log_clear();
    AVPacket *pkt = av_packet_alloc();
    int rc = check_size(h, w, err);
    if (!rc && !pkt)
        rc = vc_no_memory(err);
    if (!rc)
        rc = png_encode(pkt, rgb, h, w, err);
    rc = vc_context(err, rc, "%s", path);
    if (!rc)
        rc = vc_file_write(path, pkt->data, (size_t)pkt->size, err);
    av_packet_free(&pkt);
    return rc;
}

int media_shrink(uint8_t **small, int *small_h, int *small_w, const uint8_t *rgb, int h, int w,
                 int side, vc_err *err)
{
    *small = NULL;
    int rc = check_size(h, w, err);
    if (!rc && side < 1)
        rc = vc_fail(err, VC_EINVAL, "a thumbnail of %d pixels", side);
    if (rc)
        return rc;
    int longer = h > w ? h : w, out = longer < side ? longer : side;
    *small_h = (int)fmax(1, floor((double)h * out / longer + 0.5));
    *small_w = (int)fmax(1, floor((double)w * out / longer + 0.5));

    resize *r;
    rc = resize_open(&r, h, w, *small_h, *small_w, 0, 0, *small_h, *small_w, err);
    if (rc)
        return rc;
    *small = malloc((size_t)*small_h * (size_t)*small_w * 3);
    if (*small)
        resize_run(r, *small, rgb, (int64_t)w * 3);
    else
        rc = vc_fail(err, VC_ENOMEM, "out of memory for a thumbnail");
    resize_close(r);
    return rc;
}

/* ---- sound ---- */

typedef struct mp4_sound {
    const media_wave *wave;          /* borrowed; NULL: there is no sound */
    AVCodecContext *enc;
    AVStream *st;
    AVFrame *frame;
    AVPacket *pkt;
    int64_t at;                      /* samples that the encoder has */
} mp4_sound;
enum { BITS_A_CHANNEL = 128000 };

static void sound_close(mp4_sound *s)
{
    avcodec_free_context(&s->enc);
    av_frame_free(&s->frame);
    av_packet_free(&s->pkt);
}

static int sound_encoder(mp4_sound *s, bool global_header)
{
    const AVCodec *codec = avcodec_find_encoder(AV_CODEC_ID_AAC);

    if (!codec)
        return AVERROR_ENCODER_NOT_FOUND;
    s->enc = avcodec_alloc_context3(codec);
    if (!s->enc)
        return AVERROR(ENOMEM);
    s->enc->sample_fmt = AV_SAMPLE_FMT_FLTP;
    s->enc->sample_rate = s->wave->rate;
    s->enc->time_base = (AVRational){ 1, s->wave->rate };
    s->enc->bit_rate = (int64_t)BITS_A_CHANNEL * s->wave->channels;
    s->enc->flags |= AV_CODEC_FLAG_BITEXACT;
    s->enc->thread_count = 1;
    if (global_header)
        s->enc->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
    av_channel_layout_default(&s->enc->ch_layout, s->wave->channels);
    return avcodec_open2(s->enc, codec, NULL);
}

/* Adds a stream to mux, whose header is not written yet. The caller closes s after a failure
 * too. */
static int sound_open(mp4_sound *s, AVFormatContext *mux, const media_wave *wave, vc_err *err)
{
    if (!wave)
        return 0;
    if (wave->n < 1 || wave->channels < 1 || wave->channels > 2 || wave->rate < 1)
        return vc_fail(err, VC_EINVAL, "sound of %lld samples at %d Hz of %d channels",
                       (long long)wave->n, wave->rate, wave->channels);
    s->wave = wave;
    s->frame = av_frame_alloc();
    s->pkt = av_packet_alloc();
    int r = s->frame && s->pkt ? sound_encoder(s, mux->oformat->flags & AVFMT_GLOBALHEADER)
                               : AVERROR(ENOMEM);
    if (r >= 0)
        s->st = avformat_new_stream(mux, NULL);
    if (r >= 0)
        r = s->st ? avcodec_parameters_from_context(s->st->codecpar, s->enc) : AVERROR(ENOMEM);
    if (r < 0)
        return media_av_fail(err, r, "no AAC encoder for sound at %d Hz of %d channels", wave->rate,
                             wave->channels);
    s->st->time_base = s->enc->time_base;
    return 0;
}

/* Encodes a frame, or with NULL flushes the encoder, and writes its packets. */
static int sound_put(mp4_sound *s, AVFormatContext *mux, const AVFrame *frame, vc_err *err)
{
    int r = avcodec_send_frame(s->enc, frame);

    while (r >= 0) {
        r = avcodec_receive_packet(s->enc, s->pkt);
        if (r == AVERROR(EAGAIN) || r == AVERROR_EOF)
            return 0;
        if (r < 0)
            break;
        av_packet_rescale_ts(s->pkt, s->enc->time_base, s->st->time_base);
        s->pkt->stream_index = s->st->index;
        r = av_interleaved_write_frame(mux, s->pkt);
    }
    return media_av_fail(err, r, "cannot encode the sound");
}

/* Gives the next samples to the encoder, at most as many as one of its frames has. */
static int sound_next(mp4_sound *s, AVFormatContext *mux, vc_err *err)
{
    const media_wave *w = s->wave;
    const int64_t left = w->n - s->at;
    const int most = s->enc->frame_size > 0 ? s->enc->frame_size : 1024;

    av_frame_unref(s->frame);
    s->frame->format = s->enc->sample_fmt;
    s->frame->sample_rate = w->rate;
    s->frame->nb_samples = left < most ? (int)left : most;
    s->frame->pts = s->at;
    int r = av_channel_layout_copy(&s->frame->ch_layout, &s->enc->ch_layout);
    if (r >= 0)
        r = av_frame_get_buffer(s->frame, 0);
    if (r < 0)
        return media_av_fail(err, r, "sound");
    for (int c = 0; c < w->channels; c++) {
        float *to = (float *)(void *)s->frame->extended_data[c];
        const float *from = w->x + c * w->n + s->at;
        for (int i = 0; i < s->frame->nb_samples; i++)
            to[i] = isfinite(from[i]) ? fminf(fmaxf(from[i], -1), 1) : 0;
    }
    s->at += s->frame->nb_samples;
    return sound_put(s, mux, s->frame, err);
}

/* Writes the packets of the samples before `until` seconds; `end`: all that are left. */
static int sound_write(mp4_sound *s, AVFormatContext *mux, double until, bool end, vc_err *err)
{
    int rc = 0;

    while (!rc && s->wave && s->at < s->wave->n && (end || (double)s->at < until * s->wave->rate))
        rc = sound_next(s, mux, err);
    return rc || !end || !s->wave ? rc : sound_put(s, mux, NULL, err);
}

/* ---- clips ---- */

typedef struct media_mp4 {
    char *path, *tmp;
    int fd;                     /* holds the lock of tmp; libavformat opens its own */
    int h, w, n;                /* of a frame; frames so far */
    AVFormatContext *mux;
    AVCodecContext *enc;
    struct SwsContext *sws;
    uint8_t *rgb;               /* one frame, sides even */
    AVFrame *frame;             /* the same as yuv420p */
    AVPacket *pkt;
    AVStream *st;
    double fps;
    mp4_sound sound;
} clip;

/* Constant quality where the encoder has the option: close to the input, not the smallest file. */
static int encoder_open(clip *c, const char *name, int h, int w, AVRational rate)
{
    const AVCodec *codec = avcodec_find_encoder_by_name(name);
    if (!codec)
        return AVERROR_ENCODER_NOT_FOUND;
    c->enc = avcodec_alloc_context3(codec);
    if (!c->enc)
        return AVERROR(ENOMEM);
    c->enc->width = w;
    c->enc->height = h;
    c->enc->pix_fmt = AV_PIX_FMT_YUV420P;
    c->enc->time_base = av_inv_q(rate);
    c->enc->framerate = rate;
    c->enc->colorspace = AVCOL_SPC_BT709;
    c->enc->color_primaries = AVCOL_PRI_BT709;
    c->enc->color_trc = AVCOL_TRC_BT709;
    c->enc->color_range = AVCOL_RANGE_MPEG;
    c->enc->chroma_sample_location = AVCHROMA_LOC_CENTER;   /* as swscale samples */
    c->enc->flags |= AV_CODEC_FLAG_BITEXACT;
    c->enc->thread_count = 1;           /* libx264's bytes depend on the number of threads */
    if (c->mux->oformat->flags & AVFMT_GLOBALHEADER)
        c->enc->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
    if (!strcmp(name, "libx264")) {
        av_opt_set(c->enc->priv_data, "crf", "14", 0);
    } else if (!strcmp(name, "mpeg4")) {
        c->enc->flags |= AV_CODEC_FLAG_QSCALE;
        c->enc->global_quality = 2 * FF_QP2LAMBDA;
    } else {
        c->enc->bit_rate = (int64_t)(w * (double)h * av_q2d(rate) * 0.3);
    }
    int r = avcodec_open2(c->enc, codec, NULL);
    if (r < 0)
        avcodec_free_context(&c->enc);
    return r;
}

static int encoder_pick(clip *c, int h, int w, AVRational rate, vc_err *err)
{
    static const char *const names[] = { "libx264", "libopenh264", "mpeg4" };
    int r = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names && !c->enc && r != AVERROR(ENOMEM); i++)
        r = encoder_open(c, names[i], h, w, rate);
    return c->enc ? 0 : media_av_fail(err, r, "no encoder for H.264 or MPEG-4 takes %dx%d", w, h);
}

static int converter_open(clip *c, int h, int w, vc_err *err)
{
    c->sws = sws_getContext(w, h, AV_PIX_FMT_RGB24, w, h, AV_PIX_FMT_YUV420P,
                            SWS_BICUBIC | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INP, NULL, NULL, NULL);
    /* the scaler's vector code may read some bytes behind the last row */
    c->rgb = av_mallocz((size_t)h * (size_t)w * 3 + 64);
    if (!c->sws || !c->rgb)
        return vc_fail(err, VC_ENOMEM, "no colour conversion for %dx%d", w, h);
    sws_setColorspaceDetails(c->sws, sws_getCoefficients(SWS_CS_DEFAULT), 1,
                             sws_getCoefficients(SWS_CS_ITU709), 0, 0, 1 << 16, 1 << 16);
    return 0;
}

/* "file:" in front of tmp keeps FFmpeg from taking a part of the name for a protocol. */
static int clip_open(clip *c, const char *tmp, int h, int w, AVRational rate,
                     const media_wave *sound, vc_err *err)
{
    char *url = vc_format("file:%s", tmp);
    c->frame = av_frame_alloc();
    c->pkt = av_packet_alloc();
    int r = url && c->frame && c->pkt ? 0 : AVERROR(ENOMEM), rc = 0;
    if (!r)
        r = avformat_alloc_output_context2(&c->mux, NULL, "mp4", url);
    if (r >= 0 && (r = avio_open(&c->mux->pb, url, AVIO_FLAG_WRITE)) < 0)
        rc = vc_fail(err, r == AVERROR(ENOENT) ? VC_ENOENT : VC_EIO, "cannot write: %s",
                     strerror(AVUNERROR(r)));
    free(url);
    if (r < 0)
        return rc ? rc : media_av_fail(err, r, "MP4");
    rc = encoder_pick(c, h, w, rate, err);
    if (!rc)
        rc = converter_open(c, h, w, err);
    if (rc)
        return rc;
    c->mux->flags |= AVFMT_FLAG_BITEXACT;
    c->st = avformat_new_stream(c->mux, NULL);
    r = c->st ? avcodec_parameters_from_context(c->st->codecpar, c->enc) : AVERROR(ENOMEM);
    rc = r < 0 ? 0 : sound_open(&c->sound, c->mux, sound, err);
    if (rc)
        return rc;
    if (r >= 0) {
        c->st->time_base = c->enc->time_base;
        c->st->avg_frame_rate = rate;
        AVDictionary *opts = NULL;
        av_dict_set(&opts, "movflags", "+faststart+write_colr", 0);
        r = avformat_write_header(c->mux, &opts);
        av_dict_free(&opts);
    }
    return r < 0 ? media_av_fail(err, r, "MP4 header") : 0;
}

/* Encodes one frame, or with NULL flushes the encoder, and writes its packets. */
static int clip_put(clip *c, AVFrame *frame, vc_err *err)
{
    int r = avcodec_send_frame(c->enc, frame);
    while (r >= 0) {
        r = avcodec_receive_packet(c->enc, c->pkt);
        if (r == AVERROR(EAGAIN) || r == AVERROR_EOF)
            return 0;
        if (r < 0)
            break;
        if (!c->pkt->duration)
            c->pkt->duration = 1;
        av_packet_rescale_ts(c->pkt, c->enc->time_base, c->st->time_base);
        c->pkt->stream_index = c->st->index;
        r = av_interleaved_write_frame(c->mux, c->pkt);
    }
    return media_av_fail(err, r, "cannot encode");
}

/* Copies src [h, w, 3] into a picture of even sides, the last column and row repeated. */
static void pad_even(uint8_t *dst, const uint8_t *src, int h, int w)
{
    size_t row = (size_t)w * 3, padded = (size_t)(w + (w & 1)) * 3;
    for (int y = 0; y < h + (h & 1); y++, dst += padded) {
        memcpy(dst, src + (size_t)(y < h ? y : h - 1) * row, row);
        if (padded > row)
            memcpy(dst + row, dst + row - 3, 3);
    }
}

/* New planes for each frame, since the encoder may still hold the last one's. */
static int convert(clip *c, vc_err *err)
{
    av_frame_unref(c->frame);
    c->frame->format = AV_PIX_FMT_YUV420P;
    c->frame->width = c->enc->width;
    c->frame->height = c->enc->height;
    c->frame->colorspace = c->enc->colorspace;
    c->frame->color_range = c->enc->color_range;
    int r = av_frame_get_buffer(c->frame, 0);
    if (r >= 0)
        r = sws_scale(c->sws, &(const uint8_t *){ c->rgb }, &(int){ c->enc->width * 3 }, 0,
                      c->enc->height, c->frame->data, c->frame->linesize);
    return r < 0 ? media_av_fail(err, r, "colour conversion") : 0;
}

static int clip_close(clip *c, int rc, vc_err *err)
{
    if (!rc) {
        int r = av_write_trailer(c->mux);
        if (r < 0)
            rc = media_av_fail(err, r, "MP4 trailer");
    }
    if (c->mux && c->mux->pb) {
        int r = avio_closep(&c->mux->pb);
        if (r < 0 && !rc)
            rc = media_av_fail(err, r, "cannot write");
    }
    avformat_free_context(c->mux);
    avcodec_free_context(&c->enc);
    sound_close(&c->sound);
    sws_freeContext(c->sws);
    av_free(c->rgb);
    av_frame_free(&c->frame);
    av_packet_free(&c->pkt);
    return rc;
}

/* fsync, rename, fsync of the folder. */
static int replace(const char *path, const char *tmp, vc_err *err)
{
    int fd = open(tmp, O_RDONLY | O_CLOEXEC);
    int rc = fd < 0 || fsync(fd) ? vc_fail_errno(err, "%s", path) : 0;
    if (fd >= 0)
        close(fd);
    rc = vc_maps_check(rc, err);
    if (!rc && rename(tmp, path))
        rc = vc_fail_errno(err, "%s", path);
    if (rc)
        return rc;
    char *dir = vc_format("%.*s", (int)(vc_path_base(path) - path), path);
    if (!dir)
        return vc_fail(err, VC_ENOMEM, "%s: out of memory", path);
    rc = vc_sync_dir(*dir ? dir : ".", err);
    free(dir);
    return rc;
}

int media_mp4_open(media_mp4 **out, const char *path, int h, int w, double fps,
                   const media_wave *sound, vc_err *err)
{
    *out = NULL;
    int rc = check_size(h, w, err);
    if (!rc && !(fps > 1e-3 && fps < 1e4))
        rc = vc_fail(err, VC_EINVAL, "%g frames a second", fps);
    if (rc)
        return vc_context(err, rc, "%s", path);
    clip *c = calloc(1, sizeof *c);
    if (!c || !(c->path = strdup(path))) {
        free(c);
        return vc_no_memory(err);
    }
    c->h = h;
    c->w = w;
    c->fps = fps;
    rc = vc_temp_open(&c->fd, &c->tmp, path, err);
    if (rc) {
        free(c->path);
        free(c);
        return rc;
    }
    media_log_clear();
    rc = clip_open(c, c->tmp, h + (h & 1), w + (w & 1), av_d2q(fps, UINT16_MAX), sound, err);
    if (rc)                                         /* MPEG-4 part 2 has rates of 16 bits */
        return media_mp4_close(c, vc_context(err, rc, "%s", path), err);
    *out = c;
    return 0;
}

int media_mp4_put(media_mp4 *c, const uint8_t *rgb, vc_err *err)
{
    pad_even(c->rgb, rgb, c->h, c->w);
    int rc = convert(c, err);
    c->frame->pts = c->n;
    if (!rc)
        rc = clip_put(c, c->frame, err);
    if (!rc)
        rc = sound_write(&c->sound, c->mux, (c->n + 1) / c->fps, false, err);
    vc_context(err, rc, "frame %d", c->n++);
    return vc_context(err, rc, "%s", c->path);
}

int media_mp4_close(media_mp4 *c, int rc, vc_err *err)
{
    if (!c)
        return rc;
    if (!rc)
        rc = vc_context(err, clip_put(c, NULL, err), "%s", c->path);
    if (!rc)
        rc = vc_context(err, sound_write(&c->sound, c->mux, 0, true, err), "%s", c->path);
    const int closed = clip_close(c, rc, err);
    if (!rc)
        rc = vc_context(err, closed, "%s", c->path);
    if (!rc)
        rc = replace(c->path, c->tmp, err);
    if (rc)
        unlink(c->tmp);
    close(c->fd);
    free(c->tmp);
    free(c->path);
    free(c);
    return rc;
}

int media_write_mp4(const char *path, const uint8_t *rgb, int n, int h, int w, double fps,
                    vc_err *err)
{
    media_mp4 *m = NULL;
    int rc = n < 1 ? vc_fail(err, VC_EINVAL, "%s: no frames", path)
                   : media_mp4_open(&m, path, h, w, fps, NULL, err);
    if (rc)
        return rc;
    for (int i = 0; !rc && i < n; i++)
        rc = media_mp4_put(m, rgb + (size_t)i * (size_t)h * (size_t)w * 3, err);
    return media_mp4_close(m, rc, err);
}
