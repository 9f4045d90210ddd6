/* ends.c - whether data of a picture is missing at its end, by decoding it (see internal.h)
 *
 * FFmpeg's decoders read zeros behind the data of a picture. Those of HEVC and VVC report nothing,
 * that of H.264 does not report the last bytes, and those of MPEG do not report the last slice. So
 * the picture is decoded again, with other bytes behind its data and into memory of other contents,
 * since a slice that is missing leaves the memory as it was. If the data is complete, all these
 * pictures are equal, and none has an error.
 *
 * In an arithmetic code, which is an interval of numbers, continuations of the same data, in
 * ascending order, decode to symbols in that order. Where zeros and ones behind the data decode to
 * the same symbols, every other continuation does so too. But FFmpeg takes too many ones in front
 * of a coefficient for a zero, so that other symbols may be the same pixels. So ones and zeros in
 * turn follow the data too. */
#include <libavutil/imgutils.h>
#include <libavutil/pixdesc.h>
#include <stdlib.h>
#include <string.h>

#include "precompute/media/internal.h"

enum {
    TAIL = 256,                     /* bytes behind the data */
    MOST_DECODES = 3,
    MAX_BYTES = 256 << 20,          /* of packets that are kept */
    MAX_PACKETS = 1 << 14
};

/* Codecs whose slices end with zeros have errors where other bytes follow. */
static const struct { enum AVCodecID id; int decodes; uint8_t tail[MOST_DECODES]; } codecs[] = {
    { AV_CODEC_ID_H264, 3, { 0, 0xff, 0xaa } }, { AV_CODEC_ID_HEVC, 3, { 0, 0xff, 0xaa } },
    { AV_CODEC_ID_VVC, 3, { 0, 0xff, 0xaa } },  { AV_CODEC_ID_MPEG1VIDEO, 2, { 0 } },
    { AV_CODEC_ID_MPEG2VIDEO, 2, { 0 } },       { AV_CODEC_ID_MPEG4, 2, { 0 } },
};

static int codec_of(enum AVCodecID id)
{
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++)
        if (codecs[i].id == id)
            return (int)i;
    return -1;
}

/* Where extradata begins with 1, as avcC does, data says its size, and needs no search. */
bool media_end_known(const media_video *v)
{
    const AVCodecContext *dec = v->dec;
    const bool sized = dec && dec->extradata_size && dec->extradata[0] == 1;
    return dec && !sized && codec_of(dec->codec_id) >= 0;
}

/* The packets up to the picture, from the last key frame but one on. */
typedef struct group {
    media_video *v;
    media_io io;
    AVFormatContext *fmt;
    const AVStream *st;
    AVPacket *read, **pkt;
    int n, keys, key;               /* key: the last key frame's packet */
    bool moved;                     /* fmt is not at the start of the file */
    int time;                       /* the last frame's is at least this packet's number */
    int64_t bytes;
} group;

static void group_drop(group *g, int n)
{
    for (int i = 0; i < n; i++) {
        g->bytes -= g->pkt[i]->size;
        av_packet_free(&g->pkt[i]);
    }
    g->n -= n;
    if (g->n)
        memmove(g->pkt, g->pkt + n, (size_t)g->n * sizeof *g->pkt);
}

static int group_add(group *g, const AVPacket *pkt, vc_err *err)
{
    if (pkt->flags & AV_PKT_FLAG_KEY) {
        group_drop(g, g->keys ? g->key : g->n);
        g->key = g->n;
        g->keys++;
    }
    if (g->n == MAX_PACKETS || g->bytes > MAX_BYTES)
        group_drop(g, g->n), g->keys = 0;
    g->pkt[g->n] = av_packet_clone(pkt);
    if (!g->pkt[g->n])
        return vc_no_memory(err);
    g->bytes += pkt->size;
    g->n++;
    return 0;
}

static void demux_close(group *g)
{
    avformat_close_input(&g->fmt);
    if (g->io.failed)
        g->v->io->failed = g->io.failed;
    media_io_unshare(&g->io);
}

static int demux_open(group *g, vc_err *err)
{
    int rc = media_io_share(&g->io, g->v->io, err);
    if (!rc)
        rc = media_io_demux(&g->fmt, &g->io, g->v->path, err);
    if (rc)
        return rc;
    int r = avformat_find_stream_info(g->fmt, NULL);
    if (r >= 0)
        r = av_find_best_stream(g->fmt, AVMEDIA_TYPE_VIDEO, -1, -1, NULL, 0);
    if (r < 0)
        return media_av_fail(err, r, "no video stream");
    g->st = g->fmt->streams[r];
    return 0;
}

/* Collects the packets before the place `end`. The first one after a seek may lack its start. The
 * start of the file is no place to seek to: ASF loses packets there. */
static int group_read(group *g, int64_t from, int64_t end, vc_err *err)
{
    AVPacket *pkt = g->read;
    bool skip = from > 0;
    int r, rc = 0;

    group_drop(g, g->n);
    g->keys = g->key = 0;
    if (!from && g->moved) {
        demux_close(g);
        rc = demux_open(g, err);
    }
    g->moved = true;
    if (from && av_seek_frame(g->fmt, -1, from, AVSEEK_FLAG_BYTE) < 0)
        return 0;
    while (!rc && (r = av_read_frame(g->fmt, pkt)) != AVERROR_EOF) {
        if (r == AVERROR(ENOMEM))
            rc = vc_no_memory(err);
        else if (r < 0 || pkt->pos >= end)
            break;
        else if (g->v->stop && *g->v->stop)
            rc = vc_fail(err, VC_ESTOP, "stopped");
        else if (pkt->stream_index == g->st->index && pkt->size > 0 && !skip)
            rc = group_add(g, pkt, err);
        skip &= pkt->stream_index != g->st->index;
        av_packet_unref(pkt);
    }
    av_packet_unref(pkt);
    return rc;
}

/* Frames begin as bytes of the value at c->opaque. */
static int filled_buffer(AVCodecContext *c, AVFrame *f, int flags)
{
    const int r = avcodec_default_get_buffer2(c, f, flags);

    for (int i = 0; r >= 0 && i < AV_NUM_DATA_POINTERS && f->buf[i]; i++)
        memset(f->buf[i]->data, *(const int *)c->opaque, f->buf[i]->size);
    return r;
}

static int decoder_open(AVCodecContext **out, const group *g, int *fill, vc_err *err)
{
    const AVCodec *codec = avcodec_find_decoder(g->st->codecpar->codec_id);
    AVCodecContext *dec = *out = avcodec_alloc_context3(codec);

    if (!dec)
        return vc_no_memory(err);
    int r = avcodec_parameters_to_context(dec, g->st->codecpar);
    dec->max_pixels = MEDIA_MAX_PIXELS;
    dec->thread_count = g->v->threads;
    dec->thread_type = FF_THREAD_FRAME;
    dec->get_buffer2 = filled_buffer;
    dec->opaque = fill;
    if (r >= 0)
        r = avcodec_open2(dec, codec, NULL);
    return r < 0 ? media_av_fail(err, r, "the %s decoder does not start", codec->name) : 0;
}

/* Data does not end with a zero: the parser leaves zeros of the next start code behind it. */
static int add_tail(AVPacket *pkt, int byte)
{
    int n = pkt->size;

    while (n && !pkt->data[n - 1])
        n--;
    pkt->size = n;
    const int r = av_grow_packet(pkt, TAIL);
    if (r >= 0)
        memset(pkt->data + n, byte, TAIL);
    return r;
}

/* A frame of H.264 has the time of its first field, and each field may be a packet. */
static int find_time(group *g, vc_err *err)
{
    AVCodecParserContext *parser = av_parser_init(g->st->codecpar->codec_id);
    AVCodecContext *dec = avcodec_alloc_context3(NULL);
    int r = dec ? avcodec_parameters_to_context(dec, g->st->codecpar) : AVERROR(ENOMEM);

    g->time = g->n - 1;
    if (parser)
        parser->flags |= PARSER_FLAG_COMPLETE_FRAMES;
    for (int i = g->key; parser && r >= 0 && i < g->n; i++) {
        uint8_t *data;
        int size;
        parser->picture_structure = AV_PICTURE_STRUCTURE_UNKNOWN;
        av_parser_parse2(parser, dec, &data, &size, g->pkt[i]->data, g->pkt[i]->size,
                         AV_NOPTS_VALUE, AV_NOPTS_VALUE, -1);
    }
    if (parser && (parser->picture_structure == AV_PICTURE_STRUCTURE_TOP_FIELD ||
                   parser->picture_structure == AV_PICTURE_STRUCTURE_BOTTOM_FIELD))
        g->time--;
    av_parser_close(parser);
    avcodec_free_context(&dec);
    return r < 0 ? vc_no_memory(err) : 0;
}

/* Sends packet i of the group, or the end; its frame has the time i. Errors are left to the
 * comparison of frames. */
static int send(AVCodecContext *dec, const group *g, int i, int tail, vc_err *err)
{
    AVPacket *pkt = i < g->n ? av_packet_clone(g->pkt[i]) : NULL;
    int r = 0;

    if (pkt) {
        pkt->pts = i;
        pkt->dts = AV_NOPTS_VALUE;
        pkt->flags &= AV_PKT_FLAG_KEY;
        if (tail && i == g->n - 1)
            r = add_tail(pkt, tail);
    }
    if (i < g->n && (!pkt || r < 0)) {
        av_packet_free(&pkt);
        return vc_no_memory(err);
    }
    r = avcodec_send_packet(dec, pkt);
    av_packet_free(&pkt);
    return r == AVERROR(ENOMEM) ? vc_no_memory(err) : 0;
}

/* The last packet's frame, in f, which stays empty if the decoder does not return it. */
static int decode_last(AVFrame *f, const group *g, int from, int fill, int tail, vc_err *err)
{
    AVFrame *next = av_frame_alloc();
    AVCodecContext *dec = NULL;
    int r, rc = next ? decoder_open(&dec, g, &fill, err) : vc_no_memory(err);

    for (int i = from; !rc && i <= g->n; i++) {
        if (g->v->stop && *g->v->stop)
            rc = vc_fail(err, VC_ESTOP, "stopped");
        if (!rc)
            rc = send(dec, g, i, tail, err);
        while (!rc && (r = avcodec_receive_frame(dec, next)) != AVERROR_EOF &&
               r != AVERROR(EAGAIN)) {
            if (r == AVERROR(ENOMEM))
                rc = vc_no_memory(err);
            if (r >= 0 && next->pts >= g->time && !f->buf[0])
                av_frame_move_ref(f, next);
            av_frame_unref(next);
        }
    }
    avcodec_free_context(&dec);
    av_frame_free(&next);
    return rc;
}

static bool equal_frames(const AVFrame *a, const AVFrame *b)
{
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(a->format);

    if (a->format != b->format || a->width != b->width || a->height != b->height || !d)
        return false;
    for (int p = 0; p < av_pix_fmt_count_planes(a->format); p++) {
        const int rows = p == 1 || p == 2 ? AV_CEIL_RSHIFT(a->height, d->log2_chroma_h) : a->height;
        const int bytes = av_image_get_linesize(a->format, a->width, p);
        for (int y = 0; y < rows; y++)
            if (memcmp(a->data[p] + y * a->linesize[p], b->data[p] + y * b->linesize[p],
                       (size_t)bytes))
                return false;
    }
    return true;
}

/* Decodes from packet `from` on. *shown: the decoder returned the last picture. */
static int compare(const group *g, int from, bool *shown, bool *equal, vc_err *err)
{
    const int codec = codec_of(g->v->dec->codec_id), n = codecs[codec].decodes;
    AVFrame *first = av_frame_alloc(), *f = av_frame_alloc();
    int rc = first && f ? decode_last(first, g, from, 0xaa, codecs[codec].tail[0], err)
                        : vc_no_memory(err);

    *shown = !rc && first->buf[0];
    *equal = *shown && !media_frame_damaged(first);
    for (int i = 1; !rc && i < n && *equal; i++) {
        av_frame_unref(f);
        rc = decode_last(f, g, from, 0xaa >> i, codecs[codec].tail[i], err);
        *equal = !rc && f->buf[0] && !media_frame_damaged(f) && equal_frames(first, f);
    }
    av_frame_free(&first);
    av_frame_free(&f);
    return rc;
}

static int group_open(group *g, vc_err *err)
{
    g->read = av_packet_alloc();
    g->pkt = calloc(MAX_PACKETS, sizeof *g->pkt);
    return g->read && g->pkt ? demux_open(g, err) : vc_no_memory(err);
}

static void group_close(group *g)
{
    group_drop(g, g->n);
    free(g->pkt);
    av_packet_free(&g->read);
    demux_close(g);
}

/* Leading pictures of a key frame are decoded from the key frame before it. */
int media_end_find(bool *whole, media_video *v, int64_t end, vc_err *err)
{
    static const int64_t back[] = { 4 << 20, 64 << 20, INT64_MAX };
    group g = { .v = v };
    int rc = group_open(&g, err);

    *whole = false;
    for (size_t i = 0; !rc && i < sizeof back / sizeof *back; i++) {
        const int64_t from = back[i] < end ? end - back[i] : 0;
        bool shown = false;
        rc = group_read(&g, from, end, err);
        int tries = g.keys < 2 ? g.keys : 2;
        if (!from && !tries)
            tries = g.n > 0;                            /* a stream without key frames */
        if (!rc && tries)
            rc = find_time(&g, err);
        for (; !rc && tries && !*whole; tries--) {
            rc = compare(&g, g.key, &shown, whole, err);
            g.key = 0;
        }
        if (shown || !from)
            break;
    }
    group_close(&g);
    return rc;
}
