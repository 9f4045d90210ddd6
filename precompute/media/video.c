/* video.c - opens and closes a stream: its index, and its first frame (see internal.h) */
#include <libavutil/dict.h>
#include <stdlib.h>
#include <string.h>

#include "precompute/media/internal.h"

/* Leading frames of the first key frame count from the first frame that can be decoded. */
static void drop_leading(media_video *v, int64_t first)
{
    int64_t begin = 0;
    while (begin < v->n && v->index[begin].pos != 0)
        begin++;
    if (first == 0 || first > begin || begin == v->n)
        return;
    v->n -= first;
    for (int64_t i = 0; i < v->n; i++) {
        v->index[i] = v->index[i + first];
        v->index[i].key -= v->index[i].key < first ? v->index[i].key : (uint32_t)first;
    }
    for (int i = 0; i < v->n_ahead; i++)
        v->ahead_number[i] -= first;
    v->out -= first;
    v->received -= first;
    v->key = v->start = 0;
    media_index_sort_stamps(v);
}

static int first_frame(media_video *v, vc_err *err)
{
    int64_t number;
    int rc = media_video_next(v, &number, err);
    if (rc < 0)
        return rc;
    if (rc == 0)
        return vc_fail(err, VC_EFORMAT, "no frame can be decoded%s%s",
                       *media_log_last() ? ": " : "", media_log_last());
    v->held = true;
    if (v->still)
        v->index[0].lost = media_frame_damaged(v->frame) || v->spoilt_key >= 0;
    else if (!v->counted)
        drop_leading(v, number);
    return 0;
}

/* Formats of single pictures. The frame count shows whether an animated format is a still. */
static bool is_still(const media_video *v)
{
    static const char *const brands[] = { "avif", "heic", "heix", "mif1" };
    const char *name = v->fmt->iformat->name;
    size_t len = strlen(name);
    if (len > 5 && (!strcmp(name + len - 5, "_pipe") || !strcmp(name, "image2pipe")))
        return true;
    if (v->n != 1)
        return false;
    if (!strcmp(name, "gif") || !strcmp(name, "apng") || !strncmp(name, "webp", 4) ||
        !strcmp(name, "jpegxl_anim"))
        return true;
    const AVDictionaryEntry *brand = av_dict_get(v->fmt->metadata, "major_brand", NULL, 0);
    for (size_t i = 0; brand && i < sizeof brands / sizeof *brands; i++)
        if (!strcmp(brand->value, brands[i]))
            return true;
    return false;
}

/* FFmpeg decodes a QOI picture that is cut short, as black from there on. */
static int check_qoi(media_video *v, vc_err *err)
{
    static const uint8_t end[8] = { 0, 0, 0, 0, 0, 0, 0, 1 };
    uint8_t last[sizeof end];

    if (strcmp(avcodec_get_name(v->dec->codec_id), "qoi"))
        return 0;
    if (v->io->size >= (int64_t)sizeof end
        && media_io_at(v->io, last, sizeof last, v->io->size - (int64_t)sizeof end)
               == (ssize_t)sizeof last
        && !memcmp(last, end, sizeof end))
        return 0;
    return vc_fail(err, VC_EFORMAT, "a QOI picture without its end marker: it is cut short");
}

int media_video_open(media_video *v, media_io *io, const char *path, vc_err *err)
{
    *v = (media_video){ .path = path, .io = io, .threads = 1, .pkt = av_packet_alloc(),
                        .frame = av_frame_alloc() };
    bool ok = v->pkt && v->frame;
    for (int i = 0; i < MEDIA_REORDER; i++)
        ok &= !!(v->ahead[i] = av_frame_alloc());
    if (!ok)
        return vc_no_memory(err);
    int rc = media_demux_open(v, err);
    if (rc)
        return rc;
    const AVStream *st = v->fmt->streams[v->stream];
    if (st->disposition & AV_DISPOSITION_ATTACHED_PIC)
        return vc_fail(err, VC_EFORMAT, "no video stream, only a cover picture");
    if (av_dict_get(st->metadata, "enc_key_id", NULL, 0))       /* as Matroska has it */
        return media_encrypted(err);
    v->time_base = st->time_base;
    rc = media_decoder_open(v, 1, err);
    if (!rc)
        rc = check_qoi(v, err);
    if (!rc)
        rc = is_still(v) ? media_index_still(v, err) : media_index_build(v, err);
    v->still = !rc && is_still(v);
    if (!rc)
        rc = media_video_rewind(v, err);
    return rc ? rc : first_frame(v, err);
}

void media_video_close(media_video *v)
{
    av_packet_free(&v->pkt);
    av_frame_free(&v->frame);
    for (int i = 0; i < MEDIA_REORDER; i++)
        av_frame_free(&v->ahead[i]);
    avcodec_free_context(&v->dec);
    avformat_close_input(&v->fmt);
    free(v->index);
    free(v->by_stamp);
    free(v->ends);
    v->ends = NULL;
    v->index = NULL;
    v->by_stamp = NULL;
}
