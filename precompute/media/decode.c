/* decode.c - packets to frames: seeking, matching, damage (see internal.h) */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "precompute/media/internal.h"

enum {
    MAX_GAPS = 16,          /* consecutive read errors that are skipped */
    MAX_STALLS = 1000       /* consecutive answers of the decoder without progress */
};

int media_encrypted(vc_err *err)
{
    return vc_fail(err, VC_EFORMAT, "the video is encrypted: decrypt it with its key first");
}

int media_video_packet(media_video *v, bool *gap, vc_err *err)
{
    *gap = false;
    if (v->have_pkt) {
        v->have_pkt = false;
        return 1;
    }
    for (int gaps = 0; gaps < MAX_GAPS;) {
        av_packet_unref(v->pkt);
        int r = av_read_frame(v->fmt, v->pkt);
        if (r == AVERROR(ENOMEM))
            return vc_fail(err, VC_ENOMEM, "out of memory for a packet");
        if (r < 0 && v->fmt->pb->error && v->fmt->pb->error != AVERROR_EOF)
            return media_av_fail(err, v->fmt->pb->error, "cannot read");
        if (r == AVERROR_EOF)
            return 0;
        if (r < 0) {
            *gap = true;
            gaps++;
        } else if (v->pkt->stream_index == v->stream && v->pkt->size > 0) {
            if (av_packet_get_side_data(v->pkt, AV_PKT_DATA_ENCRYPTION_INFO, NULL))
                return media_encrypted(err);
            int rc = media_join_check(v, err);
            return rc ? rc : 1;
        }
    }
    return 0;
}

/* Packet `pos`, of frame i or of none (-1), is damaged, and so are the frames decoded after the
 * packet, up to the next key frame. No frame refers to the leading frames of a key frame
 * (decoded after the key frame, shown before); they cannot be decoded from that key frame on,
 * and are not read. */
static void spoil(media_video *v, int64_t i, uint32_t pos)
{
    int64_t k = v->counted ? 0 : i >= 0 ? v->index[i].key : v->key;
    if (k < v->start || (k == v->spoilt_key && pos >= v->spoilt_pos))
        return;
    v->spoilt_key = k;
    v->spoilt_pos = pos;
    if (v->counted)
        return;
    for (int64_t j = k; j < v->n && v->index[j].key == k; j++)
        if (v->index[j].pos >= pos)
            v->index[j].bad = true;
}

/* Where an error ends a macroblock of CAVLC, FFmpeg's decoder of H.264 keeps its coefficients and
 * adds them to another macroblock, even of the next key frame. So after such an error the decoder
 * is replaced at the next key frame. broken: how many errors there were before. */
static void look_at_errors(media_video *v, unsigned broken)
{
    v->unsound |= media_log_broken() != broken && !v->gpu;
}

/* Sends the next packet, or the end. */
static int feed(media_video *v, vc_err *err)
{
    if (v->stop && *v->stop)
        return vc_fail(err, VC_ESTOP, "stopped");
    bool gap;
    int rc = media_video_packet(v, &gap, err), r;
    if (rc < 0)
        return rc;
    if (rc == 0) {
        v->eof = true;
        avcodec_send_packet(v->dec, NULL);
        return 0;
    }
    if (v->unsound && v->pkt->flags & AV_PKT_FLAG_KEY) {
        v->have_pkt = v->renewing = true;
        avcodec_send_packet(v->dec, NULL);
        return 0;
    }
    v->sent = v->counted ? -1 : media_index_find(v, v->pkt->pts);
    v->pos = v->sent >= 0 ? v->index[v->sent].pos : v->pos + 1;
    if (v->sent >= 0 && v->index[v->sent].is_key)
        v->key = v->sent;
    const unsigned broken = media_log_broken();
    r = avcodec_send_packet(v->dec, v->pkt);
    look_at_errors(v, broken);
    v->have_pkt = r == AVERROR(EAGAIN);
    if (r == AVERROR(ENOMEM))
        return vc_fail(err, VC_ENOMEM, "out of memory for decoding");
    gap |= v->broken && !(v->pkt->flags & AV_PKT_FLAG_KEY);
    if (gap || v->pkt->flags & AV_PKT_FLAG_CORRUPT || (r < 0 && r != AVERROR(EAGAIN)))
        spoil(v, v->sent, v->pos);
    return 0;
}

/* The number of the frame in v->frame; -1 if the index lacks this frame. */
static int64_t number_of(media_video *v)
{
    const AVFrame *f = v->frame;
    if (v->counted)
        return v->received + 1;
    int64_t i = media_index_find(v, f->pts != AV_NOPTS_VALUE ? f->pts : f->best_effort_timestamp);
    if (i >= 0 && media_frame_damaged(f))
        spoil(v, i, v->index[i].pos);
    return i;
}

/* Takes one frame from the decoder into v->frame. 1: a frame. 0: the end. */
static int receive(media_video *v, vc_err *err)
{
    for (int stalls = 0; stalls < MAX_STALLS; stalls++) {
        const unsigned broken = media_log_broken();
        int r = avcodec_receive_frame(v->dec, v->frame), rc;
        look_at_errors(v, broken);
        if (r >= 0) {
            rc = media_gpu_fetch(v, err);
            return rc ? rc : 1;
        }
        if (r == AVERROR_EOF && v->renewing) {
            rc = media_decoder_open(v, v->threads, err);
            if (rc)
                return rc;
            continue;
        }
        if (r == AVERROR_EOF)
            return 0;
        if (r == AVERROR(ENOMEM))
            return vc_fail(err, VC_ENOMEM, "out of memory for decoding");
        if (r != AVERROR(EAGAIN))
            spoil(v, v->sent, v->pos);
        if (v->eof || v->renewing)
            continue;
        rc = feed(v, err);
        if (rc)
            return rc;
        if (!v->have_pkt)
            stalls = 0;
    }
    return 0;
}

/* Whether the decoder has returned all frames that the first frame ahead may refer to. */
static bool first_is_ready(const media_video *v)
{
    if (!v->n_ahead)
        return false;
    int64_t i = v->ahead_number[0];
    return v->ended || v->n_ahead == MEDIA_REORDER || v->counted ||
           v->received >= i + v->index[i].wait;
}

static void give_first(media_video *v, int64_t *number)
{
    AVFrame *first = v->ahead[0];
    av_frame_unref(v->frame);
    av_frame_move_ref(v->frame, first);
    *number = v->out = v->ahead_number[0];
    v->n_ahead--;
    memmove(v->ahead, v->ahead + 1, (size_t)v->n_ahead * sizeof *v->ahead);
    memmove(v->ahead_number, v->ahead_number + 1, (size_t)v->n_ahead * sizeof *v->ahead_number);
    v->ahead[v->n_ahead] = first;
}

int media_video_next(media_video *v, int64_t *number, vc_err *err)
{
    if (v->held) {
        v->held = false;
        *number = v->out;
        return 1;
    }
    while (!first_is_ready(v)) {
        if (v->ended)
            return 0;
        int rc = receive(v, err);
        if (rc < 0)
            return rc;
        v->ended = rc == 0;
        int64_t i = v->ended ? -1 : number_of(v);
        if (i < 0)
            continue;
        v->received = i;
        av_frame_move_ref(v->ahead[v->n_ahead], v->frame);
        v->ahead_number[v->n_ahead++] = i;
    }
    give_first(v, number);
    return 1;
}

static void restart_at(media_video *v, int64_t key, uint32_t pos)
{
    v->start = v->key = key;
    v->out = v->received = key - 1;
    v->pos = pos - 1;
    v->sent = v->spoilt_key = -1;
}

static void forget(media_video *v)
{
    avcodec_flush_buffers(v->dec);
    v->have_pkt = v->held = v->eof = v->ended = v->renewing = false;
    v->join = v->leap = 0;
    v->dts = AV_NOPTS_VALUE;
    while (v->n_ahead)
        av_frame_unref(v->ahead[--v->n_ahead]);
}

/* Opens the container, and lets it return packets of the video stream only. */
int media_demux_open(media_video *v, vc_err *err)
{
    avformat_close_input(&v->fmt);
    int rc = media_io_demux(&v->fmt, v->io, v->path, err);
    if (rc)
        return rc;
    int r = avformat_find_stream_info(v->fmt, NULL);
    if (r >= 0)
        r = v->stream = av_find_best_stream(v->fmt, AVMEDIA_TYPE_VIDEO, -1, -1, NULL, 0);
    if (r == AVERROR(ENOMEM))
        return vc_fail(err, VC_ENOMEM, "out of memory for the header");
    if (r < 0)
        return vc_fail(err, VC_EFORMAT, "no video stream");
    for (unsigned i = 0; i < v->fmt->nb_streams; i++)
        v->fmt->streams[i]->discard = (int)i == v->stream ? AVDISCARD_DEFAULT : AVDISCARD_ALL;
    v->pos = UINT32_MAX;
    return 0;
}

/* After a seek to the start the first packet must come again, else the demuxer is opened anew. */
int media_video_rewind(media_video *v, vc_err *err)
{
    int rc = 0;
    bool gap;
    forget(v);
    if (v->fmt && v->first_size && v->first_pts != AV_NOPTS_VALUE &&
        av_seek_frame(v->fmt, v->stream, v->first_pts, AVSEEK_FLAG_BACKWARD) >= 0)
        rc = media_video_packet(v, &gap, err);
    if (rc < 0)
        return rc;
    v->have_pkt = rc == 1 && v->pkt->pts == v->first_pts && v->pkt->size == v->first_size;
    if (!v->have_pkt)
        rc = media_demux_open(v, err);
    restart_at(v, 0, 0);
    if (rc >= 0)
        return 0;
    v->out = INT64_MAX;                             /* the next read seeks anew */
    return rc;
}

/* Searches key frame k from `back` ticks before its packet's time on. 1: its packet is the next.
 * 0: not found. */
static int seek_key(media_video *v, int64_t k, int64_t back, vc_err *err)
{
    const media_entry *key = &v->index[k];
    int64_t to;
    forget(v);
    if (!v->fmt || __builtin_sub_overflow(key->stamp, back, &to) ||
        av_seek_frame(v->fmt, v->stream, to, AVSEEK_FLAG_BACKWARD) < 0)
        return 0;
    bool gap;
    for (int rc; (rc = media_video_packet(v, &gap, err));) {
        if (rc < 0)
            return rc;
        if (v->stop && *v->stop)
            return vc_fail(err, VC_ESTOP, "stopped");
        int64_t i = media_index_find(v, v->pkt->pts);
        if (i == k && v->pkt->flags & AV_PKT_FLAG_KEY) {
            v->have_pkt = true;
            restart_at(v, k, key->pos);
            return 1;
        }
        if (i >= 0 && v->index[i].pos > key->pos)
            return 0;
    }
    return 0;
}

static bool on_the_way(const media_video *v, int64_t want)
{
    int64_t last = v->held ? v->out - 1 : v->out;
    if (want <= last)
        return false;
    if (v->counted)
        return true;
    int64_t k = v->index[want].key;
    return v->start <= k && (k == v->start || v->index[k].pos <= v->pos);
}

int media_video_seek(media_video *v, int64_t want, vc_err *err)
{
    static const int seconds[] = { 0, 2, 10 };
    if (on_the_way(v, want))
        return 0;
    int64_t k = v->counted ? 0 : v->index[want].key;
    if (k > 0 && v->index[k].is_key && !v->no_seek)
        for (size_t i = 0; i < sizeof seconds / sizeof *seconds; i++) {
            int64_t back = av_rescale_q(seconds[i], (AVRational){ 1, 1 }, v->time_base);
            int rc = seek_key(v, k, back, err);
            if (rc)
                return rc < 0 ? rc : 0;
        }
    return media_video_rewind(v, err);
}

/* Replaces v->dec, unless an error occurs, by a decoder that uses v->gpu if there is one. */
int media_decoder_open(media_video *v, int threads, vc_err *err)
{
    const AVStream *st = v->fmt->streams[v->stream];
    const AVCodecParameters *par = st->codecpar;
    const AVCodec *codec = v->gpu ? media_gpu_codec(par->codec_id)
                                  : avcodec_find_decoder(par->codec_id);
    if (!codec)
        return vc_fail(err, VC_EFORMAT, "this FFmpeg has no decoder for %s",
                       avcodec_get_name(par->codec_id));
    if ((int64_t)par->width * par->height > MEDIA_MAX_PIXELS)
        return vc_fail(err, VC_EFORMAT, "%dx%d pixels, more than the %lld allowed", par->width,
                       par->height, (long long)MEDIA_MAX_PIXELS);
    AVCodecContext *dec = avcodec_alloc_context3(codec);
    if (!dec)
        return vc_fail(err, VC_ENOMEM, "out of memory for the decoder");
    int r = avcodec_parameters_to_context(dec, par);
    dec->pkt_timebase = st->time_base;
    dec->thread_count = v->gpu ? 1 : threads;
    dec->max_pixels = MEDIA_MAX_PIXELS;
    dec->err_recognition |= AV_EF_CRCCHECK;
    if (r >= 0 && v->gpu)
        r = media_gpu_use(v, dec);
    if (r >= 0)
        r = avcodec_open2(dec, codec, NULL);
    if (r < 0) {
        avcodec_free_context(&dec);
        return media_av_fail(err, r, "the %s decoder does not start", codec->name);
    }
    avcodec_free_context(&v->dec);
    v->dec = dec;
    v->unsound = v->renewing = false;
    return 0;
}

/* Continues with another decoder, if that one opens. */
static int decoder_change(media_video *v, int threads, media_gpu *gpu, vc_err *err)
{
    media_gpu *old = v->gpu;
    if (!v->fmt)
        return vc_fail(err, VC_EFORMAT, "the file could not be opened again");
    v->gpu = gpu;
    v->planar = AV_PIX_FMT_NONE;
    int rc = media_decoder_open(v, threads, err);
    if (rc) {
        v->gpu = old;
        return rc;
    }
    forget(v);
    v->threads = threads;
    v->out = INT64_MAX;                             /* the new decoder has no frames: seek anew */
    return 0;
}

int media_video_threads(media_video *v, int threads, vc_err *err)
{
    return threads == v->threads ? 0 : decoder_change(v, threads, v->gpu, err);
}

void media_video_gpu(media_video *v, media_gpu *gpu)
{
    if (!v->still && !v->counted && media_gpu_codec(v->dec->codec_id))
        decoder_change(v, v->threads, gpu, NULL);   /* after an error the old one stays */
}

int media_video_cpu(media_video *v, vc_err *err)
{
    for (int64_t i = 0; i < v->n; i++)
        v->index[i].bad = false;
    return decoder_change(v, v->threads, NULL, err);
}
