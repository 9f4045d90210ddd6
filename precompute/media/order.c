/* order.c - whether the times of a stream's packets are those of its pictures (see internal.h)
 *
 * Recorders and muxers that know no B-frames give a packet its decoding time as the time of its
 * picture. Sorted by such times the pictures lie in decoding order. The headers of the pictures
 * show it: H.264, HEVC and VVC number pictures in the order of display; in MPEG-1, 2 and 4 and VC-1
 * a B-picture is shown before the last picture that is none, and pictures of other types are shown
 * in decoding order. */
#include <libavcodec/avcodec.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "precompute/media/internal.h"

typedef enum headers { OF_NUMBERS, OF_TYPES, UNKNOWN_HEADERS } headers;

static const struct {
    enum AVCodecID id;
    headers are;
} codecs[] = {
    { AV_CODEC_ID_H264, OF_NUMBERS },      { AV_CODEC_ID_HEVC, OF_NUMBERS },
    { AV_CODEC_ID_VVC, OF_NUMBERS },       { AV_CODEC_ID_MPEG1VIDEO, OF_TYPES },
    { AV_CODEC_ID_MPEG2VIDEO, OF_TYPES },  { AV_CODEC_ID_MPEG4, OF_TYPES },
    { AV_CODEC_ID_VC1, OF_TYPES },
};

enum { NO_NUMBER = INT_MIN };

typedef struct seen {
    int64_t pts, place;                     /* by its packet; by its header */
} seen;

struct media_order {
    AVCodecContext *dec;                    /* not opened: the parser's memory */
    AVCodecParserContext *parser;
    headers are;
    bool can_reorder;                       /* the decoder keeps pictures back */
    bool told;                              /* some header was understood */
    bool differs;                           /* from the order of the times */
    bool packed;                            /* some packet has two pictures */
    int64_t base;                           /* where the numbers begin, or the last reference's */
    int64_t between;                        /* B-pictures after the last reference */
    seen recent[MEDIA_REORDER];
    uint64_t n;
};

static headers headers_of(enum AVCodecID id)
{
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++)
        if (codecs[i].id == id)
            return codecs[i].are;
    return UNKNOWN_HEADERS;
}

int media_order_open(media_order **out, const media_video *v, vc_err *err)
{
    const AVCodecParameters *par = v->fmt->streams[v->stream]->codecpar;
    const AVCodecDescriptor *is = avcodec_descriptor_get(par->codec_id);
    media_order *o = *out = calloc(1, sizeof *o);

    if (!o || !(o->dec = avcodec_alloc_context3(NULL)) ||
        avcodec_parameters_to_context(o->dec, par) < 0) {
        media_order_close(o);
        *out = NULL;
        return vc_no_memory(err);
    }
    o->dec->log_level_offset = AV_LOG_TRACE;        /* of damage the decoder speaks */
    o->can_reorder = is && is->props & AV_CODEC_PROP_REORDER && v->dec->has_b_frames > 0;
    o->are = headers_of(par->codec_id);
    if (o->are != UNKNOWN_HEADERS && (o->parser = av_parser_init(par->codec_id)))
        o->parser->flags |= PARSER_FLAG_COMPLETE_FRAMES;
    return 0;
}

void media_order_close(media_order *o)
{
    if (!o)
        return;
    av_parser_close(o->parser);
    avcodec_free_context(&o->dec);
    free(o);
}

/* AVI files of DivX hold a P- and a B-picture in one packet, and an empty picture in the next. */
static bool has_two_pictures(const AVPacket *pkt)
{
    static const uint8_t vop[] = { 0, 0, 1, 0xb6 };
    const uint8_t *end = pkt->data + pkt->size;
    const uint8_t *first = memmem(pkt->data, (size_t)pkt->size, vop, sizeof vop);

    return first && memmem(first + sizeof vop, (size_t)(end - first) - sizeof vop, vop, sizeof vop);
}

/* Numbers begin anew at a key picture of number 0. */
static int64_t place_by_number(media_order *o, const AVPacket *pkt)
{
    const int64_t number = o->parser->output_picture_number;

    if (!number && pkt->flags & AV_PKT_FLAG_KEY)
        o->base += INT64_C(1) << 33;
    return o->base + number;
}

static int64_t place_by_type(media_order *o)
{
    enum { ROOM = 1 << 16 };

    if (o->parser->pict_type == AV_PICTURE_TYPE_B)
        return o->base - ROOM + ++o->between % ROOM;
    o->between = 0;
    return o->base += ROOM;
}

static void compare(media_order *o, seen now)
{
    const int64_t n = o->n < MEDIA_REORDER ? (int64_t)o->n : MEDIA_REORDER;

    for (int64_t i = 0; i < n; i++)
        o->differs |= now.place != o->recent[i].place &&
                      (now.place > o->recent[i].place) != (now.pts > o->recent[i].pts);
    o->recent[o->n++ % MEDIA_REORDER] = now;
}

void media_order_see(media_order *o, const AVPacket *pkt, bool shown)
{
    uint8_t *data;
    int size;

    if (o->dec->codec_id == AV_CODEC_ID_MPEG4)
        o->packed |= has_two_pictures(pkt);
    if (!o->parser)
        return;
    o->parser->pict_type = AV_PICTURE_TYPE_NONE;
    o->parser->output_picture_number = NO_NUMBER;
    av_parser_parse2(o->parser, o->dec, &data, &size, pkt->data, pkt->size, pkt->pts, pkt->dts,
                     pkt->pos);
    if (o->are == OF_NUMBERS ? o->parser->output_picture_number == NO_NUMBER
                             : o->parser->pict_type == AV_PICTURE_TYPE_NONE)
        return;
    o->told = true;
    const int64_t place = o->are == OF_NUMBERS ? place_by_number(o, pkt) : place_by_type(o);
    if (shown)
        compare(o, (seen){ pkt->pts, place });
}

bool media_order_packed(const media_order *o)
{
    return o->packed;
}

bool media_order_differs(const media_order *o, bool ascends)
{
    return o->differs || o->packed || (!o->told && o->can_reorder && ascends);
}
