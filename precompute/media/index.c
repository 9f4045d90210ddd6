/* index.c - the shown frames of a stream and their times (see internal.h)
 *
 * A packet is one shown frame, unless the container or the codec's header marks the packet as not
 * shown. Their timestamps, sorted, number the frames. Where timestamps are
 * missing or not unique the frames are counted by decoding once, without keeping any. */
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

static int by_time(const void *a, const void *b)
{
    const media_entry *x = a, *y = b;
    return x->pts != y->pts ? (x->pts > y->pts) - (x->pts < y->pts)
                            : (x->pos > y->pos) - (x->pos < y->pos);
}

/* Limits times so that sums and differences cannot overflow. */
static bool is_time(int64_t pts)
{
    return pts > -(INT64_C(1) << 61) && pts < INT64_C(1) << 61;
}

/* Sorts the entries by time; false if two have the same time, or one has none. */
static bool sort_index(media_video *v)
{
    if (v->n)
        qsort(v->index, (size_t)v->n, sizeof *v->index, by_time);
    uint32_t key = 0;
    for (int64_t i = 0; i < v->n; i++) {
        media_entry *e = &v->index[i];
        if (!is_time(e->pts) || (i && e->pts == e[-1].pts))
            return false;
        if (e->is_key)
            key = (uint32_t)i;
        e->key = key;
        for (int k = 1; k <= MEDIA_REORDER && i + k < v->n; k++)
            if (e[k].pos < e->pos)
                e->wait = (uint8_t)k;
    }
    return true;
}

/* Adds packet number pos, in v->pkt, if the packet is a shown frame. *lost: packets between the
 * last key frame and this packet are missing or cut. *timed becomes false if there is no
 * timestamp. */
static int add_packet(media_video *v, uint32_t pos, bool *lost, bool *timed, vc_err *err)
{
    const AVPacket *pkt = v->pkt;
    bool is_key = pkt->flags & AV_PKT_FLAG_KEY, cut = pkt->flags & AV_PKT_FLAG_CORRUPT;
    if (pos == 0) {
        v->first_pts = pkt->pts;
        v->first_size = pkt->size;
    }
    *lost = (*lost && !is_key) || cut;
    if (!packet_shown(v->dec->codec_id, pkt))
        return 0;
    *timed &= pkt->pts != AV_NOPTS_VALUE;
    if (!v->n || pkt->pts >= v->last_pts) {
        v->last_pts = pkt->pts;
        v->last_duration = pkt->duration;
    }
    return append(v, (media_entry){ .pts = pkt->pts, .pos = pos, .is_key = is_key, .lost = *lost },
                  err);
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

/* Reads all packets once. *usable: their timestamps number the frames. */
static int read_packets(media_video *v, bool *usable, vc_err *err)
{
    int64_t bytes = 0, most = 8 * (v->io->size + (1 << 20)), dts = AV_NOPTS_VALUE;
    bool lost = false, gap = false, cut = false, timed = true;
    int rc;

    *usable = false;
    for (uint32_t pos = 0; timed && (rc = media_video_packet(v, &gap, err)) == 1; pos++) {
        lost |= gap;
        cut = v->pkt->flags & AV_PKT_FLAG_CORRUPT;
        dts = v->pkt->dts;
        bytes += v->pkt->size;
        if (bytes > most)
            return vc_fail(err, VC_EFORMAT, "its packets overlap: together 8 times the file");
        rc = add_packet(v, pos, &lost, &timed, err);
        if (rc)
            return rc;
    }
    if (timed && rc < 0)
        return rc;
    *usable = timed && sort_index(v);
    if (*usable && (gap || cut || more_promised(v, dts)))
        drop_after(v, dts);
    return 0;
}

/* Frames shown before a damaged frame may refer to the damaged one, within the decoder's
 * reordering. */
static void spoil_back(media_video *v)
{
    for (int64_t i = v->n - 1; i >= 0 && i >= v->n - v->dec->has_b_frames; i--)
        v->index[i].lost = true;
}

/* Numbers frames by decoding all of them, one at a time. Frames between a damaged frame and the
 * next key frame count as damaged too. */
static int count_frames(media_video *v, vc_err *err)
{
    v->n = 0;
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
            spoil_back(v);
        rc = append(v, (media_entry){ .pts = f->best_effort_timestamp, .lost = spoilt }, err);
    }
    if (rc < 0)
        return rc;

    /* without times that ascend, frames have the nominal rate */
    bool ascend = v->n > 0;
    for (int64_t i = 0; i < v->n && ascend; i++)
        ascend = is_time(v->index[i].pts) && (!i || v->index[i].pts > v->index[i - 1].pts);
    AVRational rate = av_guess_frame_rate(v->fmt, v->fmt->streams[v->stream], NULL);
    if (rate.num <= 0 || rate.den <= 0)
        rate = (AVRational){ 25, 1 };
    if (!ascend)
        v->time_base = av_inv_q(rate);
    for (int64_t i = 0; i < v->n && !ascend; i++)
        v->index[i].pts = i;
    return 0;
}

int64_t media_index_find(const media_video *v, int64_t pts)
{
    int64_t lo = 0, hi = v->n;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (v->index[mid].pts < pts)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < v->n && v->index[lo].pts == pts ? lo : -1;
}

int media_index_still(media_video *v, vc_err *err)
{
    v->counted = true;
    return append(v, (media_entry){ .is_key = true }, err);
}

int media_index_build(media_video *v, vc_err *err)
{
    bool usable = false;
    int rc = read_packets(v, &usable, err);
    if (!rc && !usable)
        rc = count_frames(v, err);
    if (!rc && !v->n)
        rc = vc_fail(err, VC_EFORMAT, "no frame can be decoded%s%s", *media_log_last() ? ": " : "",
                     media_log_last());
    return rc;
}
