/* join.c - where transport streams were joined (see internal.h)
 *
 * The packets of a stream are counted, modulo 16. Where the count leaps, FFmpeg marks the picture
 * before as damaged, since its end may be lost. At a join (`cat a.ts b.ts`) nothing is lost: the
 * last packet of a picture is filled up with stuffing, and the next packet begins a picture. A
 * picture that fills its last packet has no stuffing. Its end may as well be lost, so it counts only
 * where the tables of another file follow, and only for a decoder that finds missing ends. */
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

int64_t media_leap_after(media_io *io, int64_t pos, bool finds_ends, bool *joined)
{
    const int stride = pos < 0 ? 0 : stride_at(io, pos);
    ts_packet first = { 0 }, last = { 0 }, p;
    bool tables = false;                        /* since the stream's last packet */
    int starts = 0;

    *joined = false;
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
            *joined = p.starts && (last.stuffed || (tables && finds_ends));
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
