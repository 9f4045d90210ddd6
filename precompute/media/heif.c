/* heif.c - HEIC and AVIF stills (see internal.h, heif.h)
 *
 * FFmpeg's demuxer differs between versions: in 5.1 it opens no HEIC, no grid of tiles, and ignores
 * how a picture is to be turned; later ones may give single tiles. So the boxes are read here, and
 * FFmpeg decodes each coded item alone. The turns of irot and imir are the picture's orientation;
 * an EXIF block repeats them and is not read. */
#include "precompute/media/heif.h"

#include <libavutil/imgutils.h>
#include <libavutil/pixdesc.h>
#include <stdlib.h>
#include <string.h>

enum { NO_SIZE = 1 << 28 };      /* where properties are wanted that depend on none */

typedef struct media_heif {
    heif_file file;
    heif_properties look;   /* of the picture that is shown */
    uint32_t *tile;         /* [rows, columns] the coded items */
    int rows, columns;
    int w, h;               /* of all tiles together, before the crop */
    AVFrame *first;         /* the first tile */
    enum AVCodecID codec;   /* of the tiles */
} media_heif;

static const struct { uint32_t type; enum AVCodecID codec; const char *name; } codecs[] = {
    { HEIF_TYPE('a', 'v', '0', '1'), AV_CODEC_ID_AV1, "AV1" },
    { HEIF_TYPE('h', 'v', 'c', '1'), AV_CODEC_ID_HEVC, "HEVC" },
    { HEIF_TYPE('a', 'v', 'c', '1'), AV_CODEC_ID_H264, "H.264" },
};

/* ---- one coded item ---- */

static int find_codec(const heif_file *f, uint32_t item, enum AVCodecID *codec, vc_err *err)
{
    uint32_t type = 0;
    int rc = heif_type(f, item, &type, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++)
        if (codecs[i].type == type) {
            *codec = codecs[i].codec;
            return 0;
        }
    return vc_fail(err, VC_EFORMAT, "HEIF whose picture is of the kind %s, which is not read: save "
                   "it as PNG or JPEG", heif_letters_of(type).s);
}

static int decoder_open(AVCodecContext **dec, enum AVCodecID codec, heif_span config, vc_err *err)
{
    const AVCodec *c = avcodec_find_decoder(codec);
    if (!c)
        return vc_fail(err, VC_EFORMAT, "this FFmpeg has no decoder for %s",
                       avcodec_get_name(codec));
    *dec = avcodec_alloc_context3(c);
    uint8_t *extra = av_mallocz(config.n + AV_INPUT_BUFFER_PADDING_SIZE);
    if (!*dec || !extra) {
        av_free(extra);
        return vc_no_memory(err);
    }
    if (config.n)
        memcpy(extra, config.p, config.n);
    (*dec)->extradata = extra;
    (*dec)->extradata_size = (int)config.n;
    (*dec)->thread_count = 1;
    (*dec)->max_pixels = MEDIA_MAX_PIXELS;
    (*dec)->err_recognition |= AV_EF_CRCCHECK;
    int r = avcodec_open2(*dec, c, NULL);
    return r < 0 ? media_av_fail(err, r, "the %s decoder does not start", c->name) : 0;
}

static int decode_packet(AVCodecContext *dec, AVFrame *f, uint8_t *data, size_t n, vc_err *err)
{
    AVPacket *pkt = av_packet_alloc();
    if (!pkt)
        return vc_no_memory(err);
    pkt->data = data;
    pkt->size = (int)n;
    pkt->flags = AV_PKT_FLAG_KEY;
    int r = avcodec_send_packet(dec, pkt);
    if (r >= 0)
        r = avcodec_send_packet(dec, NULL);
    if (r >= 0)
        r = avcodec_receive_frame(dec, f);
    av_packet_free(&pkt);
    if (r < 0 || media_frame_damaged(f))
        return media_av_fail(err, r < 0 ? r : AVERROR_INVALIDDATA, "the picture is damaged");
    return 0;
}

static int decode_item(const heif_file *f, uint32_t item, AVFrame *frame, vc_err *err)
{
    enum AVCodecID codec = AV_CODEC_ID_NONE;
    heif_properties p = { 0 };
    AVCodecContext *dec = NULL;
    uint8_t *data = NULL;
    size_t n = 0;
    media_log_clear();
    int rc = find_codec(f, item, &codec, err);
    if (!rc)
        rc = heif_find_properties(f, item, NO_SIZE, NO_SIZE, &p, err);
    if (!rc)
        rc = heif_data(f, item, AV_INPUT_BUFFER_PADDING_SIZE, &data, &n, err);
    if (!rc)
        rc = decoder_open(&dec, codec, p.config, err);
    if (!rc)
        rc = decode_packet(dec, frame, data, n, err);
    avcodec_free_context(&dec);
    free(data);
    return rc;
}

/* ---- the picture ---- */

/* Version, flags (1: sizes of 4 bytes, else 2), rows - 1, columns - 1, width, height. */
static int read_grid(media_heif *m, uint32_t item, vc_err *err)
{
    uint8_t *p = NULL;
    size_t n = 0;
    int rc = heif_data(&m->file, item, 4, &p, &n, err);
    if (rc)
        return rc;
    const size_t bytes = n > 1 && p[1] & 1 ? 4 : 2;
    uint32_t size[2] = { 0 };
    if (n >= 4 + 2 * bytes) {
        for (size_t i = 0; i < 2 * bytes; i++)
            size[i / bytes] = size[i / bytes] << 8 | p[4 + i];
        m->rows = p[2] + 1;
        m->columns = p[3] + 1;
    }
    free(p);
    if (!size[0] || !size[1] || (uint64_t)size[0] * size[1] > MEDIA_MAX_PIXELS)
        return vc_fail(err, VC_EFORMAT, "damaged HEIF: a grid of %ux%u pixels", size[0], size[1]);
    m->w = (int)size[0];
    m->h = (int)size[1];
    return 0;
}

static int find_tiles(media_heif *m, uint32_t item, bool grid, vc_err *err)
{
    int n = 1, rc = 0;
    m->rows = m->columns = 1;
    if (!(m->tile = calloc(HEIF_MAX_TILES, sizeof *m->tile)))
        return vc_no_memory(err);
    m->tile[0] = item;
    if (grid)
        rc = read_grid(m, item, err);
    if (!rc && grid)
        rc = heif_sources(&m->file, item, m->tile, &n, err);
    if (!rc && n != m->rows * m->columns)
        rc = vc_fail(err, VC_EFORMAT, "damaged HEIF: a grid of %d x %d has %d tiles", m->columns,
                     m->rows, n);
    return rc;
}

/* Turns of a tile would come before those of the grid: no writer makes them. */
static int check_tile(const media_heif *m, int i, vc_err *err)
{
    heif_properties p = { 0 };
    int rc = heif_find_properties(&m->file, m->tile[i], NO_SIZE, NO_SIZE, &p, err);
    if (!rc && p.turned)
        rc = vc_fail(err, VC_EFORMAT, "HEIF whose tiles are turned, which is not read: save the "
                     "picture as PNG or JPEG");
    return rc;
}

/* An item "iden" is another one, which is turned once more. *grid: the item that is left is a
 * grid. Turns are those of the innermost item first. */
static int find_item(media_heif *m, uint32_t chain[], int *n, bool *grid, vc_err *err)
{
    enum { MAX_CHAIN = 4 };
    uint32_t type = 0, source[HEIF_MAX_TILES];
    int sources = 0;
    chain[0] = m->file.primary;
    for (*n = 1;; (*n)++) {
        int rc = heif_type(&m->file, chain[*n - 1], &type, err);
        if (rc || type != HEIF_TYPE('i', 'd', 'e', 'n')) {
            *grid = type == HEIF_TYPE('g', 'r', 'i', 'd');
            return rc;
        }
        rc = heif_sources(&m->file, chain[*n - 1], source, &sources, err);
        if (rc || sources != 1 || *n == MAX_CHAIN)
            return rc ? rc : vc_fail(err, VC_EFORMAT, "damaged HEIF: item %u", chain[*n - 1]);
        chain[*n] = source[0];
    }
}

/* Cuts are measured in the size that the boxes have. Some writers code less than that, without what
 * is cut. */
static int check_cut(media_heif *m, vc_err *err)
{
    heif_properties *p = &m->look;
    if (!p->cut) {
        p->crop_x = p->crop_y = 0;
        p->crop_w = m->w;
        p->crop_h = m->h;
    }
    if (p->crop_x + p->crop_w <= m->w && p->crop_y + p->crop_h <= m->h)
        return 0;
    return vc_fail(err, VC_EFORMAT, "damaged HEIF: a cut of %dx%d at %d,%d from %dx%d pixels",
                   p->crop_w, p->crop_h, p->crop_x, p->crop_y, m->w, m->h);
}

/* The properties of the picture: of the item itself, then of those derived from it. Colours of a
 * grid may be those of its tiles. */
static int find_look(media_heif *m, const uint32_t chain[], int n, vc_err *err)
{
    heif_properties tile = { 0 };
    int w = m->w, h = m->h;
    int rc = heif_find_properties(&m->file, m->tile[0], NO_SIZE, NO_SIZE, &tile, err);
    m->look = (heif_properties){
        .has_colour = tile.has_colour, .primaries = tile.primaries, .transfer = tile.transfer,
        .matrix = tile.matrix, .full_range = tile.full_range,
    };
    if (!rc)
        heif_size(&m->file, chain[n - 1], &w, &h, NULL);
    for (int i = n - 1; !rc && i >= 0; i--)
        rc = heif_find_properties(&m->file, chain[i], w, h, &m->look, err);
    return rc ? rc : check_cut(m, err);
}

static int open_picture(media_heif *m, vc_err *err)
{
    uint32_t chain[4];
    int n;
    bool grid;
    int rc = find_item(m, chain, &n, &grid, err);
    if (!rc)
        rc = find_tiles(m, chain[n - 1], grid, err);
    if (!rc && !(m->first = av_frame_alloc()))
        rc = vc_no_memory(err);
    if (!rc && grid)
        rc = check_tile(m, 0, err);
    if (!rc)
        rc = decode_item(&m->file, m->tile[0], m->first, err);
    if (!rc && !grid) {
        m->w = m->first->width;
        m->h = m->first->height;
    }
    return rc ? rc : find_look(m, chain, n, err);
}

/* ---- the frame ---- */

/* Copies tile (row, column) to its place; the last ones may be wider than what is left. */
static int place_tile(const media_heif *m, AVFrame *to, const AVFrame *tile, int row, int column,
                      vc_err *err)
{
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(to->format);
    const int tw = m->first->width, th = m->first->height, x = column * tw, y = row * th;
    const int left_w = m->w - x, left_h = m->h - y;
    const int w = left_w < tw ? left_w : tw, h = left_h < th ? left_h : th;
    if (tile->format != to->format || tile->width != tw || tile->height != th || w < 1 || h < 1)
        return vc_fail(err, VC_EFORMAT, "damaged HEIF: tile %d,%d has %dx%d pixels (%s)", row,
                       column, tile->width, tile->height, av_get_pix_fmt_name(tile->format));
    for (int p = 0; p < 4 && tile->data[p]; p++) {
        const int sy = p == 1 || p == 2 ? d->log2_chroma_h : 0;
        const int bytes = av_image_get_linesize(to->format, w, p);
        uint8_t *dst = to->data[p] + (ptrdiff_t)(y >> sy) * to->linesize[p] +
                       av_image_get_linesize(to->format, x, p);
        av_image_copy_plane(dst, to->linesize[p], tile->data[p], tile->linesize[p], bytes,
                            -(-h >> sy));
    }
    return 0;
}

static int check_grid(const media_heif *m, vc_err *err)
{
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(m->first->format);
    const int tw = m->first->width, th = m->first->height;
    if ((int64_t)tw * m->columns < m->w || (int64_t)th * m->rows < m->h ||
        (int64_t)tw * (m->columns - 1) >= m->w || (int64_t)th * (m->rows - 1) >= m->h)
        return vc_fail(err, VC_EFORMAT, "damaged HEIF: %d x %d tiles of %dx%d do not make %dx%d "
                       "pixels", m->columns, m->rows, tw, th, m->w, m->h);
    if ((m->columns > 1 && tw & ((1 << d->log2_chroma_w) - 1)) ||
        (m->rows > 1 && th & ((1 << d->log2_chroma_h) - 1)))
        return vc_fail(err, VC_EFORMAT, "damaged HEIF: tiles of %dx%d, whose colours do not meet",
                       tw, th);
    return 0;
}

static int join_tiles(media_heif *m, AVFrame *f, vc_err *err)
{
    AVFrame *tile = av_frame_alloc();
    int rc = tile ? check_grid(m, err) : vc_no_memory(err);
    if (!rc)
        rc = media_still_frame(f, m->first->format, m->w, m->h, err);
    if (!rc && av_frame_copy_props(f, m->first) < 0)
        rc = vc_no_memory(err);
    for (int i = 0; !rc && i < m->rows * m->columns; i++) {
        av_frame_unref(tile);
        rc = check_tile(m, i, err);
        if (!rc)
            rc = decode_item(&m->file, m->tile[i], tile, err);
        if (!rc)
            rc = place_tile(m, f, tile, i / m->columns, i % m->columns, err);
    }
    av_frame_free(&tile);
    return rc;
}

/* What the coded picture says of its colours goes before the box colr: the two differ in files of
 * some cameras, whose coded pictures are right. HEVC that says nothing has the range of the box
 * too, AV1 always says its own. Returns whether the box was needed. */
static bool set_colour(const media_heif *m, AVFrame *f)
{
    const heif_properties *p = &m->look;
    const bool silent = f->color_primaries == AVCOL_PRI_UNSPECIFIED &&
                        f->color_trc == AVCOL_TRC_UNSPECIFIED &&
                        f->colorspace == AVCOL_SPC_UNSPECIFIED;
    const AVFrame was = *f;
    if (!p->has_colour)
        return false;
    if (was.color_primaries == AVCOL_PRI_UNSPECIFIED)
        f->color_primaries = (enum AVColorPrimaries)p->primaries;
    if (was.color_trc == AVCOL_TRC_UNSPECIFIED)
        f->color_trc = (enum AVColorTransferCharacteristic)p->transfer;
    if (was.colorspace == AVCOL_SPC_UNSPECIFIED)
        f->colorspace = (enum AVColorSpace)p->matrix;
    if (silent && m->codec != AV_CODEC_ID_AV1 && was.color_range != AVCOL_RANGE_JPEG)
        f->color_range = p->full_range ? AVCOL_RANGE_JPEG : AVCOL_RANGE_MPEG;
    return was.color_primaries != f->color_primaries || was.color_trc != f->color_trc ||
           was.colorspace != f->colorspace || was.color_range != f->color_range;
}

static int heif_decode(media_still *s, AVFrame *f, vc_err *err)
{
    media_heif *m = s->heif;
    const heif_properties *p = &m->look;
    int rc = 0;
    if (m->rows * m->columns > 1 || m->w != m->first->width || m->h != m->first->height)
        rc = join_tiles(m, f, err);
    else if (av_frame_ref(f, m->first) < 0)
        rc = vc_no_memory(err);
    if (rc)
        return rc;
    set_colour(m, f);
    f->crop_left = (size_t)p->crop_x;
    f->crop_top = (size_t)p->crop_y;
    f->crop_right = (size_t)(m->w - p->crop_x - p->crop_w);
    f->crop_bottom = (size_t)(m->h - p->crop_y - p->crop_h);
    int r = av_frame_apply_cropping(f, AV_FRAME_CROP_UNALIGNED);
    return r < 0 ? media_av_fail(err, r, "the picture cannot be cut") : 0;
}

/* ---- the kind ---- */

static int still_open(media_still *s, media_io *io, vc_err *err)
{
    media_heif *m = s->heif = calloc(1, sizeof *m);
    if (!m)
        return vc_no_memory(err);
    int rc = heif_open(&m->file, io, err);
    if (!rc)
        rc = open_picture(m, err);
    if (!rc)
        rc = find_codec(&m->file, m->tile[0], &m->codec, err);
    if (rc)
        return rc;
    const bool tiles = m->rows * m->columns > 1;
    const bool coloured = set_colour(m, m->first);
    s->w = m->look.crop_w;
    s->h = m->look.crop_h;
    s->orient = m->look.orient;
    s->first = m->first;
    s->alpha_beside = heif_has_alpha(&m->file);
    s->anew = m->look.turned || coloured || tiles || m->codec != AV_CODEC_ID_AV1 ? "boxes" : NULL;
    snprintf(s->codec, sizeof s->codec, "%s", avcodec_get_name(m->codec));
    return 0;
}

static void still_close(media_still *s)
{
    if (!s->heif)
        return;
    av_frame_free(&s->heif->first);
    free(s->heif->tile);
    heif_close(&s->heif->file);
    free(s->heif);
    s->heif = NULL;
}

const media_still_kind media_still_heif = { true, still_open, heif_decode, still_close };
