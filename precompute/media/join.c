/* join.c - where transport streams were joined (see internal.h)
 *
 * The packets of a stream are counted, modulo 16. Where the count leaps, FFmpeg marks the picture
 * before as damaged, since its end may be lost. At a join (`cat a.ts b.ts`) nothing is lost: the
 * last packet of a picture is filled up with stuffing, and the next packet begins a picture. A
 * picture that fills its last packet has no stuffing. Its end may as well be lost, so it counts
 * only where the tables of another file follow, and its decoder finds no end missing. */
#include <stdlib.h>
#include <string.h>

#include "precompute/media/internal.h"

enum {
    PACKET = 188,
    TABLES = 0,                 /* the stream of the table of programs, with which a file begins */
    MAX_PACKETS = 1 << 16,      /* that are searched: 12 MiB */
    MAX_STARTS = 3              /* FFmpeg's mark is at most one picture early */
};

typedef struct ts_packet {
    int pid, count;
    bool whole;                 /* the packet was received without an error */
    bool starts;                /* a picture begins with it */
    bool data;                  /* it has some, so that it counts */
    bool stuffed;               /* it ends a picture */
} ts_packet;

/* Whether the adaptation field has bytes behind its last part. */
static bool is_stuffed(const uint8_t *field)
{
    const int n = field[0], flags = n ? field[1] : 0;
    int used = 1 + 6 * (flags >> 4 & 1) + 6 * (flags >> 3 & 1) + (flags >> 2 & 1);

    for (int part = 2; part && used < n; part--)        /* private data, extension */
        if (flags & part)
            used += 1 + field[1 + used];
    return !n || used < n;
}

/* 1: a packet. 0: there is none, or it cannot be read. */
static int read_packet(media_io *io, int64_t at, ts_packet *p)
{
    uint8_t b[PACKET];

    if (media_io_at(io, b, sizeof b, at) != PACKET || b[0] != 0x47)
        return 0;
    *p = (ts_packet){ .pid = (b[1] & 0x1f) << 8 | b[2], .count = b[3] & 15,
                      .whole = !(b[1] & 0x80), .starts = b[1] & 0x40, .data = b[3] & 0x10,
                      .stuffed = b[3] & 0x20 && b[4] < PACKET - 5 && is_stuffed(b + 4) };
    return 1;
}

/* Bytes from one packet to the next; FFmpeg places a packet so many bytes before its end. */
static int stride_at(media_io *io, int64_t pos)
{
    static const int strides[] = { PACKET, 192, 204 };
    ts_packet p;

    for (size_t i = 0; i < sizeof strides / sizeof *strides; i++) {
        const int64_t at = pos + strides[i] - PACKET;
        if (read_packet(io, at, &p) && p.starts && read_packet(io, at + strides[i], &p))
            return strides[i];
    }
    return 0;
}

/* What is known of the packets around a leap of the count. */
typedef struct leap {
    bool stuffed;               /* the last packet before it ends a picture, */
    bool starts;                /* the first one behind it begins one, */
    bool tables;                /* and between them are the tables of a file */
} leap;

/* pos: the place in the file of a packet that FFmpeg marked as damaged. If that packet and those
 * behind it are whole, and others follow that do not go on with their count, the place of the first
 * of these; else -1. */
static int64_t leap_after(leap *l, media_io *io, int64_t pos)
{
    const int stride = pos < 0 ? 0 : stride_at(io, pos);
    ts_packet first = { 0 }, last = { 0 }, p;
    bool tables = false;                        /* since the stream's last packet */
    int starts = 0;

    if (!stride)
        return -1;
    for (int i = 0; i < MAX_PACKETS; i++, pos += stride) {
        if (!read_packet(io, pos + stride - PACKET, &p) || !p.whole)
            return -1;
        if (!i)
            first = p;
        tables |= p.pid == TABLES;
        if (p.pid != first.pid || !p.data)
            continue;
        if (i && p.count != ((last.count + 1) & 15)) {
            *l = (leap){ .stuffed = last.stuffed, .starts = p.starts, .tables = tables };
            return pos;
        }
        tables = false;
        starts += p.starts;
        if (starts > MAX_STARTS)
            return -1;
        last = p;
    }
    return -1;
}

/* Whether the packet in v->pkt follows the last one by its time, so that none is between them. */
static bool follows(const media_video *v)
{
    const AVPacket *pkt = v->pkt;
    return pkt->dts != AV_NOPTS_VALUE && v->dts != AV_NOPTS_VALUE && pkt->dts > v->dts &&
           pkt->dts - v->dts <= pkt->duration + pkt->duration / 2;
}

/* How a missing end of a picture is found. */
typedef enum finding {
    NOT_FOUND,
    REPORTED,                   /* by the decoder, which conceals errors */
    DECODED                     /* by media_end_find */
} finding;

static const struct {
    enum AVCodecID id;
    finding how;
} codecs[] = {
    { AV_CODEC_ID_H264, REPORTED },       { AV_CODEC_ID_MPEG1VIDEO, REPORTED },
    { AV_CODEC_ID_MPEG2VIDEO, REPORTED }, { AV_CODEC_ID_MPEG4, REPORTED },
    { AV_CODEC_ID_HEVC, DECODED },        { AV_CODEC_ID_VVC, DECODED },
};

/* Decoders do not report missing ends where threads share a picture, and GPUs never do. */
static finding finding_of(const media_video *v)
{
    finding how = NOT_FOUND;

    for (size_t i = 0; v->dec && i < sizeof codecs / sizeof *codecs; i++)
        if (codecs[i].id == v->dec->codec_id)
            how = codecs[i].how;
    if (how == REPORTED && (v->gpu || v->dec->active_thread_type == FF_THREAD_SLICE))
        how = NOT_FOUND;
    return how;
}

/* As media_end_find, which is called once for each end. */
static int find_end(bool *whole, media_video *v, int64_t end, vc_err *err)
{
    for (int i = 0; i < v->n_ends; i++)
        if (v->ends[i].at == end) {
            *whole = v->ends[i].whole;
            return 0;
        }
    struct media_end *more = realloc(v->ends, (size_t)(v->n_ends + 1) * sizeof *more);
    if (!more)
        return vc_no_memory(err);
    v->ends = more;
    int rc = media_end_find(whole, v, end, err);
    if (!rc)
        v->ends[v->n_ends++] = (struct media_end){ end, *whole };
    return rc;
}

int media_join_check(media_video *v, vc_err *err)
{
    AVPacket *pkt = v->pkt;
    const bool cut = pkt->flags & AV_PKT_FLAG_CORRUPT;
    leap l = { 0 };
    const int64_t at = cut && !strcmp(v->fmt->iformat->name, "mpegts")
                           ? leap_after(&l, v->io, pkt->pos) : -1;
    bool joined = l.starts && l.stuffed;
    int rc = 0;

    if (l.starts && !l.stuffed && l.tables) {
        const finding how = finding_of(v);
        joined = how == REPORTED;
        rc = how == DECODED ? find_end(&joined, v, at, err) : 0;
    }
    v->broken = v->join && pkt->pos >= v->join && !follows(v);
    if (v->join && pkt->pos >= v->join)
        v->join = 0;
    v->dts = pkt->dts;
    if (joined) {
        pkt->flags &= ~AV_PKT_FLAG_CORRUPT;
        v->join = at;
    } else if (pkt->pos >= 0 && pkt->pos < v->leap) {
        pkt->flags |= AV_PKT_FLAG_CORRUPT;
    } else {
        v->leap = at > 0 ? at : 0;
    }
    return rc;
}
