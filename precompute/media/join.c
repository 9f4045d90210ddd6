/* join.c - where transport streams were joined or cut (see internal.h)
 *
 * The packets of a stream are counted, modulo 16. Where the count leaps, FFmpeg marks the picture
 * before as damaged, since its end may be lost. At a join (`cat a.ts b.ts`) nothing is lost: the
 * last packet of a picture is filled up with stuffing, and the next packet begins a picture. A
 * picture that fills its last packet has no stuffing. Its end may as well be lost, so it counts
 * only where the tables of another file follow, and its pixels are known without that end.
 *
 * FFmpeg's parser of HEVC moves the mark to the picture before, or drops it in front of the first
 * one. Nor is there a mark at the end of a file, or at a join whose count goes on by chance. So the
 * packets of each picture are read here, if ends.c knows the codec. */
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
    bool anew;                  /* it says that the count need not go on */
} ts_packet;

/* Packets are read some at a time. */
typedef struct ts_file {
    media_io *io;
    int64_t from;
    ssize_t n;
    uint8_t bytes[48 * PACKET];
} ts_file;

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
static int read_packet(ts_file *f, int64_t at, ts_packet *p)
{
    if (at < f->from || at + PACKET > f->from + f->n) {
        f->from = at;
        f->n = media_io_at(f->io, f->bytes, sizeof f->bytes, at);
    }
    const uint8_t *b = f->bytes + (at - f->from);
    if (at + PACKET > f->from + f->n || b[0] != 0x47)
        return 0;
    const bool field = b[3] & 0x20 && b[4] < PACKET - 5;
    *p = (ts_packet){ .pid = (b[1] & 0x1f) << 8 | b[2], .count = b[3] & 15,
                      .whole = !(b[1] & 0x80), .starts = b[1] & 0x40, .data = b[3] & 0x10,
                      .stuffed = field && is_stuffed(b + 4),
                      .anew = field && b[4] && b[5] & 0x80 };
    return 1;
}

/* Bytes from one packet to the next; FFmpeg places a packet so many bytes before its end. */
static int stride_at(ts_file *f, int64_t pos)
{
    static const int strides[] = { PACKET, 192, 204 };
    ts_packet p;

    for (size_t i = 0; i < sizeof strides / sizeof *strides; i++) {
        const int64_t at = pos + strides[i] - PACKET, next = at + strides[i];
        if (read_packet(f, at, &p) && p.starts &&
            (next + PACKET > f->io->size || read_packet(f, next, &p)))
            return strides[i];
    }
    return 0;
}

/* What is known of the packets around the end of a picture. */
typedef struct seam {
    int64_t at;                 /* place of the first packet behind it; -1: there is none to see */
    bool leaps;                 /* packets may be missing, since the count leaps */
    bool stuffed;               /* the last packet before it ends a picture, */
    bool starts;                /* the first one behind it begins one, */
    bool tables;                /* and between them are the tables of a file */
} seam;

/* Whether the next packet of the stream, p, does not continue the file of the last one. Where the
 * counts of a file begin at 0 they may continue those of the file before. first: the count of the
 * table of programs between them, or -1. */
static bool is_seam(seam *s, const ts_packet *last, const ts_packet *p, int first)
{
    const bool on = p->count == ((last->count + 1) & 15);

    *s = (seam){ .at = -1, .leaps = !on && !p->anew, .stuffed = last->stuffed,
                 .starts = p->starts, .tables = first >= 0 };
    return s->leaps || (p->starts && !last->stuffed && (p->anew || (!p->count && !first)));
}

/* Searches the packets from pos on, the place of a picture, over the starts of `starts` pictures.
 * The end of the file is a seam too. */
static seam seam_after(media_io *io, int64_t pos, int starts)
{
    ts_file f = { .io = io };
    const int stride = pos < 0 ? 0 : stride_at(&f, pos);
    ts_packet first = { 0 }, last = { 0 }, p;
    int table = -1;                             /* its count, since the stream's last packet */
    const seam none = { .at = -1 };
    seam s = none;

    for (int i = 0; stride && i < MAX_PACKETS; i++, pos += stride) {
        const int64_t at = pos + stride - PACKET;
        if (at + PACKET > io->size)
            break;
        if (!read_packet(&f, at, &p) || !p.whole)
            return i && !last.stuffed ? (seam){ .at = pos } : none;
        if (!i)
            first = last = p;
        if (p.pid == TABLES && table < 0)
            table = p.count;
        if (!i || p.pid != first.pid || !p.data)
            continue;
        if (is_seam(&s, &last, &p, table)) {
            s.at = pos;
            return s;
        }
        table = -1;
        starts -= p.starts;
        if (!starts)
            return none;
        last = p;
    }
    return stride ? (seam){ .at = pos, .stuffed = last.stuffed, .starts = true, .tables = true }
                  : none;
}

/* Whether the packet in v->pkt follows the last one by its time, so that none is between them. */
static bool follows(const media_video *v)
{
    const AVPacket *pkt = v->pkt;
    return pkt->dts != AV_NOPTS_VALUE && v->dts != AV_NOPTS_VALUE && pkt->dts > v->dts &&
           pkt->dts - v->dts <= pkt->duration + pkt->duration / 2;
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

/* Formats that mark or drop a packet whose end is missing at the end of the file. */
static const char *const marking[] = { "mpegts", "mov,", "matroska", "avi" };

int media_join_end(bool *cut, media_video *v, vc_err *err)
{
    bool whole = !media_end_known(v);
    int rc = 0;

    for (size_t i = 0; i < sizeof marking / sizeof *marking; i++)
        whole |= !strncmp(v->fmt->iformat->name, marking[i], strlen(marking[i]));
    if (!whole)
        rc = media_end_find(&whole, v, v->io->size, err);
    *cut = !rc && !whole;
    return rc;
}

int media_join_check(media_video *v, vc_err *err)
{
    AVPacket *pkt = v->pkt;
    const bool ts = !strcmp(v->fmt->iformat->name, "mpegts");
    const bool cut = pkt->flags & AV_PKT_FLAG_CORRUPT;
    const bool known = media_end_known(v);
    seam s = { .at = -1 };
    int rc = 0;

    if (ts && (cut || known))
        s = seam_after(v->io, pkt->pos, cut ? MAX_STARTS : 1);
    if (!known && !s.leaps)
        s = (seam){ .at = -1 };
    bool joined = s.starts && s.stuffed;
    if (known && s.starts && !s.stuffed && s.tables)
        rc = find_end(&joined, v, s.at, err);
    joined &= s.leaps || !cut;
    v->broken = v->join && pkt->pos >= v->join && !follows(v);
    if (v->join && pkt->pos >= v->join)
        v->join = 0;
    v->dts = pkt->dts;
    if (joined) {
        pkt->flags &= ~AV_PKT_FLAG_CORRUPT;
        v->join = s.leaps ? s.at : v->join;
    } else if ((pkt->pos >= 0 && pkt->pos < v->leap) || (!cut && s.at >= 0)) {
        pkt->flags |= AV_PKT_FLAG_CORRUPT;
    } else {
        v->leap = s.at > 0 ? s.at : 0;
    }
    return rc;
}
