/* index.c - the shown frames of a stream and their times (see internal.h)
 *
 * A packet is one shown frame, unless the container or the codec's header marks the packet as not
 * shown. Their timestamps, sorted, number the frames. Where timestamps are missing or not unique
 * the frames are counted by decoding once, without keeping any. Where timestamps are not in the
 * order of display (order.c) the decoder's order, found in the same way, numbers the frames, and
 * the frames have the sorted timestamps as their times; where they begin anew the frames are
 * counted. */
#include <stdlib.h>
#include <string.h>

#include "precompute/media/internal.h"

/* VP9 uncompressed header, section 6.2: frame_marker(2), profile(2, and 1 more for profile 3),
 * show_existing_frame, frame_type, show_frame. */
static bool vp9_frame_shown(uint8_t b)
{
    bool profile3 = (b & 0x30) == 0x30;
    int existing = profile3 ? b >> 2 & 1 : b >> 3 & 1, shown = profile3 ? b & 1 : b >> 1 & 1;
    return existing || shown;
}

/* VP9 annex B: a superframe ends in an index, framed by a marker byte, of its frames' sizes. */
static bool vp9_shown(const uint8_t *p, size_t n)
{
    uint8_t marker = p[n - 1];
    size_t frames = (marker & 7) + 1u, bytes = (marker >> 3 & 3) + 1u, index = 2 + bytes * frames;
    if ((marker & 0xe0) != 0xc0 || n < index || p[n - index] != marker)
        return vp9_frame_shown(p[0]);
    const uint8_t *size = p + n - index + 1;
    for (size_t at = 0; frames--; size += bytes) {
        if (at < n - index && vp9_frame_shown(p[at]))
            return true;
        for (size_t i = 0; i < bytes; i++)
            at += (size_t)size[i] << (8 * i);
    }
    return false;
}

static bool packet_shown(enum AVCodecID codec, const AVPacket *pkt)
{
    if (pkt->flags & AV_PKT_FLAG_DISCARD)
        return false;
    if (codec == AV_CODEC_ID_VP9)
        return vp9_shown(pkt->data, (size_t)pkt->size);
    if (codec == AV_CODEC_ID_VP8)
        return pkt->data[0] >> 4 & 1;               /* RFC 6386, 9.1: show_frame */
    return true;
}

static int append(media_video *v, media_entry e, vc_err *err)
{
    if (v->n == MEDIA_MAX_FRAMES)
        return vc_fail(err, VC_EFORMAT, "more than %lld frames", (long long)MEDIA_MAX_FRAMES);
    if (v->n == v->room) {
        int64_t room = v->room ? v->room * 2 : 256;
        media_entry *p = realloc(v->index, (size_t)room * sizeof *p);
        if (!p)
            return vc_fail(err, VC_ENOMEM, "out of memory for %lld frames", (long long)room);
        v->index = p;
        v->room = room;
    }
    v->index[v->n++] = e;
    return 0;
}

static int by_stamp(const void *a, const void *b)
{
    const media_entry *x = a, *y = b;
    return (x->stamp > y->stamp) - (x->stamp < y->stamp);
}

/* Limits times so that sums and differences cannot overflow. */
static bool is_time(int64_t pts)
{
    return pts > -(INT64_C(1) << 61) && pts < INT64_C(1) << 61;
}

/* Sorts the entries by stamp; false if two have the same stamp, or one has none. */
static bool sort_index(media_video *v)
{
    if (v->n)
        qsort(v->index, (size_t)v->n, sizeof *v->index, by_stamp);
    for (int64_t i = 0; i < v->n; i++) {
        const media_entry *e = &v->index[i];
        if (!is_time(e->stamp) || (i && e->stamp == e[-1].stamp))
            return false;
    }
    return true;
}

/* Sets the key frames and the waits of entries in order of display. */
static void link_index(media_video *v)
{
    uint32_t key = 0;
    for (int64_t i = 0; i < v->n; i++) {
        media_entry *e = &v->index[i];
        if (e->is_key)
            key = (uint32_t)i;
        e->key = key;
        e->wait = 0;
        for (int k = 1; k <= MEDIA_REORDER && i + k < v->n; k++)
            if (e[k].pos < e->pos)
                e->wait = (uint8_t)k;
    }
}

/* A pass over the packets. */
typedef struct pass {
    bool lost;                      /* packets since the last key frame are missing or cut */
    int64_t lost_before;            /* its leading frames refer to missing packets: its time */
    bool timed;                     /* each shown frame has a timestamp, */
    bool ascends;                   /* later than the one before, in decoding order */
    bool ends_early;                /* packets after the last one are missing */
    bool cut;                       /* so is the end of the last one */
    uint32_t last;                  /* its number */
    bool joined;                    /* at a key frame the times of decoding begin anew */
    int64_t dts;                    /* of the last packet */
    media_order *order;
} pass;

/* Adds packet number pos, in v->pkt, if the packet is a shown frame. gap: packets before it are
 * missing. */
static int add_packet(media_video *v, uint32_t pos, bool gap, pass *p, vc_err *err)
{
    const AVPacket *pkt = v->pkt;
    bool is_key = pkt->flags & AV_PKT_FLAG_KEY, cut = pkt->flags & AV_PKT_FLAG_CORRUPT;
    if (pos == 0) {
        v->first_pts = pkt->pts;
        v->first_size = pkt->size;
    }
    p->lost = ((p->lost || gap) && !is_key) || cut;
    if (is_key)
        p->lost_before = gap ? pkt->pts : INT64_MIN;
    const bool shown = packet_shown(v->dec->codec_id, pkt);
    if (shown)
        p->timed &= pkt->pts != AV_NOPTS_VALUE;
    if (p->timed)
        media_order_see(p->order, pkt, shown);
    if (!shown)
        return 0;
    p->ascends &= !v->n || pkt->pts > v->last_pts;
    if (!v->n || pkt->pts >= v->last_pts) {
        v->last_pts = pkt->pts;
        v->last_duration = pkt->duration;
    }
    return append(v, (media_entry){ .pts = pkt->pts, .stamp = pkt->pts, .pos = pos,
                                    .is_key = is_key,
                                    .lost = p->lost || pkt->pts < p->lost_before }, err);
}

/* MP4 lists its packets in front: whether the list has more packets than the file. */
static bool more_promised(const media_video *v, int64_t dts)
{
    AVStream *st = v->fmt->streams[v->stream];
    int n = avformat_index_get_entries_count(st);
    const AVIndexEntry *last = n > 0 ? avformat_index_get_entry(st, n - 1) : NULL;
    return last && !strncmp(v->fmt->iformat->name, "mov,", 4) && last->timestamp > dts;
}

/* A file that ends early lacks frames that would be shown before some frames of the file. The first
 * missing packet has a later decoding time than the last packet, and a frame is never shown before
 * its decoding time, so frames up to the last packet's decoding time are complete. */
static void drop_after(media_video *v, int64_t dts)
{
    while (is_time(dts) && v->n > 0 && v->index[v->n - 1].pts > dts) {
        v->n--;
        v->last_duration = 0;
    }
}

/* Reads all packets once. *usable: their timestamps number the frames, at least in some order. */
static int read_packets(media_video *v, pass *p, bool *usable, vc_err *err)
{
    int64_t bytes = 0, most = 8 * (v->io->size + (1 << 20));
    bool gap = false, cut = false;
    int rc;

    *usable = false;
    for (uint32_t pos = 0; p->timed && (rc = media_video_packet(v, &gap, err)) == 1; pos++) {
        cut = v->pkt->flags & AV_PKT_FLAG_CORRUPT;
        p->last = pos;
        p->joined |= v->pkt->flags & AV_PKT_FLAG_KEY && is_time(p->dts) && v->pkt->dts < p->dts;
        p->dts = v->pkt->dts;
        bytes += v->pkt->size;
        if (bytes > most)
            return vc_fail(err, VC_EFORMAT, "its packets overlap: together 8 times the file");
        rc = add_packet(v, pos, gap || v->broken, p, err);
        if (rc)
            return rc;
    }
    if (p->timed && rc < 0)
        return rc;
    *usable = p->timed && sort_index(v);
    rc = media_join_end(&p->cut, v, err);
    p->ends_early = gap || cut || p->cut || more_promised(v, p->dts);
    if (*usable)
        link_index(v);
    return rc;
}

/* Frames shown before a damaged frame may refer to the damaged one, within the decoder's
 * reordering. */
static void spoil_back(media_video *v, int n)
{
    for (int64_t i = v->n - 1; i >= 0 && i >= v->n - n; i--)
        v->index[i].lost = true;
}

/* The last packet lacks its end, so its frame is damaged. Of counted frames that is one of the
 * last, since the decoder moves a frame by has_b_frames places at most. */
static void spoil_last(media_video *v, const pass *p)
{
    for (int64_t i = 0; i < v->n && !v->counted; i++)
        v->index[i].lost |= v->index[i].pos == p->last;
    if (v->counted)
        spoil_back(v, v->dec->has_b_frames + 1);
}

/* Numbers frames by decoding all of them, one at a time. Frames between a damaged frame and the
 * next key frame count as damaged too. *sure: the decoder returned so many before the end of the
 * packets, so no missing packet comes before them. */
static int decode_frames(media_video *v, int64_t *sure, vc_err *err)
{
    v->n = *sure = 0;
    v->counted = true;
    v->spoilt_key = -1;
    int rc = media_video_rewind(v, err);
    bool spoilt = false;
    for (int64_t number; !rc && (rc = media_video_next(v, &number, err)) == 1;) {
        const AVFrame *f = v->frame;
        bool intra = f->pict_type == AV_PICTURE_TYPE_I;
        bool damaged = media_frame_damaged(f) || v->spoilt_key >= 0;
        spoilt = damaged || (spoilt && !intra);
        v->spoilt_key = -1;
        if (damaged)
            spoil_back(v, v->dec->has_b_frames);
        rc = append(v, (media_entry){ .pts = f->best_effort_timestamp, .stamp = f->pts,
                                      .lost = spoilt }, err);
        *sure = v->eof ? *sure : v->n;
    }
    return rc < 0 ? rc : 0;
}

/* Without times that ascend, frames have the nominal rate. */
static void nominal_times(media_video *v)
{
    bool ascend = v->n > 0;
    for (int64_t i = 0; i < v->n && ascend; i++)
        ascend = is_time(v->index[i].pts) && (!i || v->index[i].pts > v->index[i - 1].pts);
    AVRational rate = av_guess_frame_rate(v->fmt, v->fmt->streams[v->stream], NULL);
    if (rate.num <= 0 || rate.den <= 0)
        rate = (AVRational){ 25, 1 };
    if (!ascend) {
        v->time_base = av_inv_q(rate);
        v->last_duration = 0;
    }
    for (int64_t i = 0; i < v->n && !ascend; i++)
        v->index[i].pts = i;
}

static int count_frames(media_video *v, vc_err *err)
{
    int64_t sure;
    int rc = decode_frames(v, &sure, err);
    if (!rc)
        nominal_times(v);
    return rc;
}

/* ---- times that are not in the order of display ---- */

static bool stamps_ascend(const media_video *v)
{
    for (int64_t i = 1; i < v->n; i++)
        if (v->index[i].stamp <= v->index[i - 1].stamp)
            return false;
    return true;
}

static const media_entry *packet_of(const media_entry *e, const media_entry *packet, int64_t n)
{
    return bsearch(e, packet, (size_t)n, sizeof *packet, by_stamp);
}

/* Whether each frame has the stamp of a packet, and no other frame has it. */
static bool have_packets(const media_video *v, const media_entry *packet, int64_t n)
{
    for (int64_t i = 0; i < v->n; i++) {
        const media_entry *e = &v->index[v->by_stamp[i]];
        if (!packet_of(e, packet, n) || (i && e->stamp == v->index[v->by_stamp[i - 1]].stamp))
            return false;
    }
    return true;
}

/* Numbers the frames in the decoder's order: each has the place of its packet, and the sorted
 * stamps are their times. Frames that have no packet of their own stay counted. Where the file ends
 * early, the decoder's last frames may have lost frames before them. */
static int number_as_decoded(media_video *v, const pass *p, const media_entry *packet, int64_t n,
                             int64_t sure, vc_err *err)
{
    v->reordered = true;
    v->by_stamp = malloc(((size_t)v->n + 1) * sizeof *v->by_stamp);
    if (!v->by_stamp)
        return vc_fail(err, VC_ENOMEM, "out of memory for %lld frames", (long long)v->n);
    media_index_sort_stamps(v);
    if (!have_packets(v, packet, n)) {
        nominal_times(v);
        return 0;
    }
    v->counted = false;
    for (int64_t i = 0; i < v->n; i++)
        v->index[i] = *packet_of(&v->index[i], packet, n);
    for (int64_t i = 0; i < v->n; i++)
        v->index[i].pts = v->index[v->by_stamp[i]].stamp;
    if (p->ends_early && v->n > sure) {
        v->n = sure;
        v->last_duration = 0;
        media_index_sort_stamps(v);
    }
    link_index(v);
    return 0;
}

/* Decodes the file once. Where the times prove to be in the order of display, the index stays. */
static int order_frames(media_video *v, const pass *p, vc_err *err)
{
    media_entry *packet = v->index;
    const int64_t n = v->n, room = v->room;
    int64_t sure;

    v->index = NULL;
    v->room = 0;
    int rc = decode_frames(v, &sure, err);
    if (!rc && (!v->n || (stamps_ascend(v) && !media_order_packed(p->order)))) {
        media_entry *decoded = v->index;
        v->index = packet;
        v->n = n;
        v->room = room;
        v->counted = false;
        packet = decoded;
    } else if (!rc) {
        rc = number_as_decoded(v, p, packet, n, sure, err);
    }
    free(packet);
    return rc;
}

int media_index_still(media_video *v, vc_err *err)
{
    v->counted = true;
    return append(v, (media_entry){ .is_key = true }, err);
}

int media_index_build(media_video *v, vc_err *err)
{
    pass p = { .timed = true, .ascends = true, .dts = AV_NOPTS_VALUE, .lost_before = INT64_MIN };
    bool usable = false;
    int rc = media_order_open(&p.order, v, err);
    if (!rc)
        rc = read_packets(v, &p, &usable, err);
    v->reordered = !rc && usable && p.joined && media_order_differs(p.order, p.ascends);
    if (!rc && (!usable || v->reordered))
        rc = count_frames(v, err);
    else if (!rc && media_order_differs(p.order, p.ascends))
        rc = order_frames(v, &p, err);
    if (!rc && usable && !v->reordered && p.ends_early)
        drop_after(v, p.dts);
    if (!rc && p.cut)
        spoil_last(v, &p);
    media_order_close(p.order);
    if (!rc && !v->n)
        rc = vc_fail(err, VC_EFORMAT, "no frame can be decoded%s%s", *media_log_last() ? ": " : "",
                     media_log_last());
    return rc;
}
