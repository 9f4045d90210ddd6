/* gpu.c - NVDEC through FFmpeg (see internal.h)
 *
 * FFmpeg's own parsers feed the GPU, and FFmpeg loads the driver itself: nothing of CUDA is linked.
 * A picture that may differ from the software decoder's is an error here, after which media_read
 * uses the software decoder. */
#include <dlfcn.h>
#include <libavutil/hwcontext.h>
#include <libavutil/pixdesc.h>
#include <stdlib.h>

#include "precompute/media/internal.h"

#define NVCUVID "libnvcuvid.so.1"

/* Standards that fix every bit of a picture. GPUs decode MPEG-1, 2 and 4 and VC-1 too, but most of
 * these leave the rounding of the inverse transform to the decoder. */
static const enum AVCodecID exact[] = { AV_CODEC_ID_H264, AV_CODEC_ID_HEVC, AV_CODEC_ID_VP9,
                                        AV_CODEC_ID_AV1 };

static bool has_cuda(const AVCodec *codec)
{
    const AVCodecHWConfig *hw;
    for (int i = 0; (hw = avcodec_get_hw_config(codec, i)); i++)
        if (hw->device_type == AV_HWDEVICE_TYPE_CUDA &&
            hw->methods & AV_CODEC_HW_CONFIG_METHOD_HW_DEVICE_CTX)
            return true;
    return false;
}

/* Decoders with the capability are the driver's parsers under FFmpeg's interface (h264_cuvid). */
const AVCodec *media_gpu_codec(enum AVCodecID id)
{
    bool known = false;
    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++)
        known |= exact[i] == id;

    const AVCodec *codec;
    for (void *at = NULL; known && (codec = av_codec_iterate(&at));)
        if (codec->id == id && av_codec_is_decoder(codec) && has_cuda(codec) &&
            !(codec->capabilities & AV_CODEC_CAP_HARDWARE))
            return codec;
    return NULL;
}

/* ---- the device ---- */

static bool built_with_cuda(void)
{
    enum AVHWDeviceType t = AV_HWDEVICE_TYPE_NONE;
    while ((t = av_hwdevice_iterate_types(t)) != AV_HWDEVICE_TYPE_NONE)
        if (t == AV_HWDEVICE_TYPE_CUDA)
            return true;
    return false;
}

static int device_open(media_gpu *g, int index, vc_err *err)
{
    char number[16], text[AV_ERROR_MAX_STRING_SIZE];

    if (!built_with_cuda())
        return vc_fail(err, VC_EUSAGE, "this FFmpeg (%s) was built without CUDA: take one "
                       "that has it, or --video_decoder cpu", av_version_info());
    snprintf(number, sizeof number, "%d", index);
    media_log_clear();
    int r = av_hwdevice_ctx_create(&g->device, AV_HWDEVICE_TYPE_CUDA, number, NULL, 0);
    if (r < 0)
        return vc_fail(err, VC_EUSAGE, "FFmpeg cannot open GPU %d: %s: it needs an NVIDIA GPU and "
                       "its driver; or take --video_decoder cpu", index, *media_log_last() ?
                       media_log_last() : av_make_error_string(text, sizeof text, r));
    /* else FFmpeg would fail at each clip, and the CPU would decode silently */
    g->library = dlopen(NVCUVID, RTLD_LAZY | RTLD_LOCAL);
    if (!g->library)
        return vc_fail(err, VC_EUSAGE, "%s: it comes with the driver (into a container with "
                       "NVIDIA_DRIVER_CAPABILITIES=compute,video); or take --video_decoder cpu",
                       dlerror());
    return 0;
}

int media_gpu_open(media_gpu **out, int index, vc_err *err)
{
    media_gpu *g = *out = calloc(1, sizeof *g);
    if (!g)
        return vc_no_memory(err);
    g->format = AV_PIX_FMT_CUDA;
    g->fetch = av_hwframe_transfer_data;
    int rc = device_open(g, index, err);
    if (rc) {
        media_gpu_close(g);
        *out = NULL;
    }
    return rc;
}

void media_gpu_close(media_gpu *g)
{
    if (!g)
        return;
    av_buffer_unref(&g->device);
    if (g->library)
        dlclose(g->library);
    free(g);
}

uint64_t media_gpu_frames(const media_gpu *g)
{
    return g ? __atomic_load_n(&g->frames, __ATOMIC_RELAXED) : 0;
}

/* ---- a decoder ---- */

/* FFmpeg calls again, without the GPU's format, where the GPU refuses the stream. A stream that
 * changes its own format continues in memory, since frames of both formats may be in flight. */
static enum AVPixelFormat pick_format(AVCodecContext *dec, const enum AVPixelFormat *offered)
{
    media_video *v = dec->opaque;
    bool changed = v->planar != AV_PIX_FMT_NONE && v->planar != dec->sw_pix_fmt;

    for (const enum AVPixelFormat *f = offered; *f != AV_PIX_FMT_NONE && !changed; f++)
        if (*f == v->gpu->format) {
            v->planar = dec->sw_pix_fmt;
            return *f;
        }
    while (*offered != AV_PIX_FMT_NONE &&
           av_pix_fmt_desc_get(*offered)->flags & AV_PIX_FMT_FLAG_HWACCEL)
        offered++;
    return *offered;
}

/* Film grain is exported instead of added: a GPU's grain may differ, or be missing. */
int media_gpu_use(media_video *v, AVCodecContext *dec)
{
    dec->opaque = v;
    dec->get_format = pick_format;
    dec->export_side_data |= AV_CODEC_EXPORT_DATA_FILM_GRAIN;
    if (!v->gpu->device)
        return 0;
    dec->hw_device_ctx = av_buffer_ref(v->gpu->device);
    return dec->hw_device_ctx ? 0 : AVERROR(ENOMEM);
}

/* ---- frames ---- */

/* Whether s differs from d in the order of samples only: the same chroma, and samples that fill
 * their bytes from the top. */
static bool can_be_planar(const AVPixFmtDescriptor *s, const AVPixFmtDescriptor *d)
{
    if (!s || !d || s->nb_components != 3 || d->nb_components != 3 ||
        (s->flags | d->flags) & (AV_PIX_FMT_FLAG_BE | AV_PIX_FMT_FLAG_HWACCEL |
                                 AV_PIX_FMT_FLAG_RGB | AV_PIX_FMT_FLAG_FLOAT) ||
        s->log2_chroma_w != d->log2_chroma_w || s->log2_chroma_h != d->log2_chroma_h)
        return false;
    for (int c = 0; c < 3; c++) {
        const AVComponentDescriptor *a = &s->comp[c], *b = &d->comp[c];
        int bytes = b->depth > 8 ? 2 : 1;
        if (b->plane != c || b->step != bytes || b->offset || b->shift ||
            a->depth + a->shift != 8 * bytes || a->depth < b->depth)
            return false;
    }
    return true;
}

/* step: from sample to sample, in samples. */
static inline __attribute__((always_inline)) void take(uint8_t *restrict dst,
                                                       const uint8_t *restrict src, int n,
                                                       int step, bool wide, int shift)
{
    uint16_t *restrict to = (void *)dst;
    const uint16_t *restrict from = (const void *)src;
    for (int i = 0; i < n; i++)
        if (wide)
            to[i] = (uint16_t)(from[i * step] >> shift);
        else
            dst[i] = src[i * step];
}

static void take_row(uint8_t *dst, const uint8_t *src, int n, int step, bool wide, int shift)
{
    if (step == 1)
        wide ? take(dst, src, n, 1, true, shift) : take(dst, src, n, 1, false, 0);
    else if (step == 2)
        wide ? take(dst, src, n, 2, true, shift) : take(dst, src, n, 2, false, 0);
    else
        wide ? take(dst, src, n, step, true, shift) : take(dst, src, n, step, false, 0);
}

int media_planar(AVFrame *dst, const AVFrame *src, enum AVPixelFormat format)
{
    enum { ALIGN = 64 };
    const AVPixFmtDescriptor *s = av_pix_fmt_desc_get(src->format);
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(format);
    if (!can_be_planar(s, d))
        return AVERROR(EINVAL);

    dst->format = format;
    dst->width = src->width;
    dst->height = src->height;
    int r = av_frame_get_buffer(dst, ALIGN);
    if (r >= 0)
        r = av_frame_copy_props(dst, src);
    for (int c = 0; r >= 0 && c < 3; c++) {
        const AVComponentDescriptor *from = &s->comp[c], *to = &d->comp[c];
        int w = c ? AV_CEIL_RSHIFT(src->width, d->log2_chroma_w) : src->width;
        int h = c ? AV_CEIL_RSHIFT(src->height, d->log2_chroma_h) : src->height;
        for (int y = 0; y < h; y++)
            take_row(dst->data[c] + (ptrdiff_t)y * dst->linesize[c],
                     src->data[from->plane] + (ptrdiff_t)y * src->linesize[from->plane] +
                         from->offset,
                     w, from->step / to->step, to->step == 2, 8 * to->step - to->depth);
    }
    return r;
}

/* A frame of another size than the decoder's is cropped at its left or top, which FFmpeg does
 * not do on a GPU, or was decoded before the stream changed. */
int media_gpu_fetch(media_video *v, vc_err *err)
{
    AVFrame *f = v->frame;
    if (!v->gpu)
        return 0;
    if (av_frame_get_side_data(f, AV_FRAME_DATA_FILM_GRAIN_PARAMS))
        return vc_fail(err, VC_EFORMAT, "the GPU does not add film grain");
    if (f->format != v->gpu->format)
        return 0;
    if (f->width != v->dec->width || f->height != v->dec->height)
        return vc_fail(err, VC_EFORMAT, "%dx%d pixels on the GPU, %dx%d in the stream", f->width,
                       f->height, v->dec->width, v->dec->height);

    AVFrame *got = av_frame_alloc(), *planar = av_frame_alloc();
    int r = got && planar ? v->gpu->fetch(got, f, 0) : AVERROR(ENOMEM);
    if (r >= 0)
        r = av_frame_copy_props(got, f);
    if (r >= 0)
        r = media_planar(planar, got, v->planar);
    if (r >= 0) {
        av_frame_unref(f);
        av_frame_move_ref(f, planar);
        __atomic_fetch_add(&v->gpu->frames, 1, __ATOMIC_RELAXED);
    }
    av_frame_free(&got);
    av_frame_free(&planar);
    return r < 0 ? media_av_fail(err, r, "a frame cannot be copied from the GPU") : 0;
}
