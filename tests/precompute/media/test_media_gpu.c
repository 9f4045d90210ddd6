/* test_media_gpu.c - frames from a GPU's decoder: the order of samples, the choice of streams that
 * a GPU decodes, and pixels equal to the software decoder's. The tests run on a fake GPU: the
 * software decoder makes its frames, which are fetched in a GPU's formats. test_nvdec alone needs a
 * real GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <libavutil/film_grain_params.h>
#include <libavutil/hwcontext.h>
#include <libavutil/pixdesc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "precompute/media/internal.h"
#include "tests/lib/ok.h"
#include "tests/precompute/media/media_clip.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))

/* ---- the order of samples ---- */

static AVFrame *new_frame(enum AVPixelFormat format, int w, int h)
{
    AVFrame *f = av_frame_alloc();
    assert_non_null(f);
    f->format = format;
    f->width = w;
    f->height = h;
    assert_int_equal(av_frame_get_buffer(f, 64), 0);
    for (int p = 0; p < 4 && f->data[p]; p++)      /* shows a read beyond a row */
        memset(f->data[p], 0xa5, (size_t)f->linesize[p]);
    return f;
}

/* The address of sample (y, x) of component c. */
static uint8_t *place(const AVFrame *f, int c, int y, int x)
{
    const AVComponentDescriptor *d = &av_pix_fmt_desc_get(f->format)->comp[c];
    return f->data[d->plane] + (ptrdiff_t)y * f->linesize[d->plane] + x * d->step + d->offset;
}

static bool is_wide(const AVFrame *f)
{
    const AVComponentDescriptor *d = &av_pix_fmt_desc_get(f->format)->comp[0];
    return d->depth + d->shift > 8;
}

static unsigned get(const AVFrame *f, int c, int y, int x)
{
    uint16_t v = 0;
    memcpy(&v, place(f, c, y, x), is_wide(f) ? 2 : 1);
    return is_wide(f) ? v : *place(f, c, y, x);
}

static void put(AVFrame *f, int c, int y, int x, unsigned v)
{
    const uint16_t wide = (uint16_t)v;
    const uint8_t narrow = (uint8_t)v;
    memcpy(place(f, c, y, x), is_wide(f) ? (const void *)&wide : &narrow, is_wide(f) ? 2 : 1);
}

static void chroma_size(const AVFrame *f, int c, int *w, int *h)
{
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(f->format);
    *w = c ? AV_CEIL_RSHIFT(f->width, d->log2_chroma_w) : f->width;
    *h = c ? AV_CEIL_RSHIFT(f->height, d->log2_chroma_h) : f->height;
}

/* The planar frame in a GPU's format, with samples in the upper bits of their bytes. */
static AVFrame *as_on_gpu(const AVFrame *planar, enum AVPixelFormat format)
{
    AVFrame *f = new_frame(format, planar->width, planar->height);
    int shift = is_wide(f) ? 16 - av_pix_fmt_desc_get(planar->format)->comp[0].depth : 0, w, h;
    for (int c = 0; c < 3; c++) {
        chroma_size(planar, c, &w, &h);
        for (int y = 0; y < h; y++)
            for (int x = 0; x < w; x++)
                put(f, c, y, x, get(planar, c, y, x) << shift);
    }
    return f;
}

typedef struct layout { enum AVPixelFormat gpu, planar; } layout;
static const layout layouts[] = {
    { AV_PIX_FMT_NV12, AV_PIX_FMT_YUV420P }, { AV_PIX_FMT_NV12, AV_PIX_FMT_YUVJ420P },
    { AV_PIX_FMT_NV21, AV_PIX_FMT_YUV420P }, { AV_PIX_FMT_NV16, AV_PIX_FMT_YUV422P },
    { AV_PIX_FMT_NV24, AV_PIX_FMT_YUV444P }, { AV_PIX_FMT_YUV444P, AV_PIX_FMT_YUVJ444P },
    { AV_PIX_FMT_P010LE, AV_PIX_FMT_YUV420P10LE }, { AV_PIX_FMT_P016LE, AV_PIX_FMT_YUV420P10LE },
    { AV_PIX_FMT_P016LE, AV_PIX_FMT_YUV420P12LE }, { AV_PIX_FMT_P016LE, AV_PIX_FMT_YUV420P16LE },
    { AV_PIX_FMT_P210LE, AV_PIX_FMT_YUV422P10LE }, { AV_PIX_FMT_P216LE, AV_PIX_FMT_YUV422P12LE },
    { AV_PIX_FMT_P410LE, AV_PIX_FMT_YUV444P10LE },
    { AV_PIX_FMT_YUV444P16LE, AV_PIX_FMT_YUV444P10LE },
    { AV_PIX_FMT_YUV444P16LE, AV_PIX_FMT_YUV444P12LE },
};

static void test_layouts(void **state)
{
    static const int sizes[][2] = { { 1, 1 }, { 2, 2 }, { 61, 37 }, { 64, 48 }, { 131, 3 } };
    uint32_t seed = 1;
    int w, h;
    (void)state;
    for (size_t i = 0; i < COUNT(layouts) * COUNT(sizes); i++) {
        const layout *l = &layouts[i / COUNT(sizes)];
        const int *size = sizes[i % COUNT(sizes)];
        const int depth = av_pix_fmt_desc_get(l->planar)->comp[0].depth;
        AVFrame *want = new_frame(l->planar, size[0], size[1]), *got = av_frame_alloc();
        for (int c = 0; c < 3; c++) {
            chroma_size(want, c, &w, &h);
            for (int y = 0; y < h; y++)
                for (int x = 0; x < w; x++) {
                    seed = seed * 1664525 + 1013904223;
                    put(want, c, y, x, seed >> (32 - depth));
                }
        }
        AVFrame *from = as_on_gpu(want, l->gpu);
        from->pts = 77;
        from->colorspace = AVCOL_SPC_BT709;
        assert_int_equal(media_planar(got, from, l->planar), 0);
        assert_int_equal(got->format, l->planar);
        assert_int_equal(got->pts, 77);
        assert_int_equal(got->colorspace, AVCOL_SPC_BT709);
        for (int c = 0; c < 3; c++) {
            chroma_size(want, c, &w, &h);
            for (int y = 0; y < h; y++)
                for (int x = 0; x < w; x++)
                    if (get(got, c, y, x) != get(want, c, y, x))
                        fail_msg("%s to %s, %dx%d: component %d at %d,%d: %u, not %u",
                                 av_get_pix_fmt_name(l->gpu), av_get_pix_fmt_name(l->planar),
                                 size[0], size[1], c, y, x, get(got, c, y, x), get(want, c, y, x));
        }
        av_frame_free(&from);
        av_frame_free(&want);
        av_frame_free(&got);
    }
}

/* Frames written by hand: NV12 has pairs of U and V, and the low bits of P010 and P016 are 0. */
static void test_bytes(void **state)
{
    (void)state;
    AVFrame *nv = new_frame(AV_PIX_FMT_NV12, 4, 2), *out = av_frame_alloc();
    memcpy(nv->data[1], (uint8_t[]){ 1, 2, 3, 4 }, 4);
    assert_int_equal(media_planar(out, nv, AV_PIX_FMT_YUV420P), 0);
    assert_memory_equal(out->data[1], ((uint8_t[]){ 1, 3 }), 2);
    assert_memory_equal(out->data[2], ((uint8_t[]){ 2, 4 }), 2);
    av_frame_free(&nv);

    static const layout rows[] = { { AV_PIX_FMT_P010LE, AV_PIX_FMT_YUV420P10LE },
                                   { AV_PIX_FMT_P016LE, AV_PIX_FMT_YUV420P12LE } };
    for (int i = 0; i < 2; i++) {
        AVFrame *p = new_frame(rows[i].gpu, 2, 2);
        memcpy(p->data[0], (uint16_t[]){ 0xabc0, 0xffc0 }, 4);
        av_frame_unref(out);
        assert_int_equal(media_planar(out, p, rows[i].planar), 0);
        assert_memory_equal(out->data[0], (i ? (uint16_t[]){ 0xabc, 0xffc }
                                             : (uint16_t[]){ 0x2af, 0x3ff }), 4);
        av_frame_free(&p);
    }
    av_frame_free(&out);
}

static void test_layouts_refused(void **state)
{
    static const layout rows[] = {
        { AV_PIX_FMT_NV12, AV_PIX_FMT_YUV422P }, { AV_PIX_FMT_NV12, AV_PIX_FMT_NV12 },
        { AV_PIX_FMT_P010LE, AV_PIX_FMT_YUV420P }, { AV_PIX_FMT_P010LE, AV_PIX_FMT_YUV420P12LE },
        { AV_PIX_FMT_YUV420P10LE, AV_PIX_FMT_YUV420P10LE },
        { AV_PIX_FMT_GRAY8, AV_PIX_FMT_YUV420P }, { AV_PIX_FMT_NV12, AV_PIX_FMT_NONE },
        { AV_PIX_FMT_RGB24, AV_PIX_FMT_YUV444P },
        { AV_PIX_FMT_P010BE, AV_PIX_FMT_YUV420P10LE },
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        AVFrame *from = new_frame(rows[i].gpu, 8, 8), *to = av_frame_alloc();
        if (media_planar(to, from, rows[i].planar) != AVERROR(EINVAL))
            fail_msg("row %zu was accepted", i);
        av_frame_free(&from);
        av_frame_free(&to);
    }
}

/* ---- streams that a GPU decodes ---- */

static bool ffmpeg_has_cuda(void)
{
    for (enum AVHWDeviceType t = AV_HWDEVICE_TYPE_NONE; (t = av_hwdevice_iterate_types(t));)
        if (t == AV_HWDEVICE_TYPE_CUDA)
            return true;
    return false;
}

static void test_codecs(void **state)
{
    static const enum AVCodecID never[] = {
        AV_CODEC_ID_MPEG1VIDEO, AV_CODEC_ID_MPEG2VIDEO, AV_CODEC_ID_MPEG4, AV_CODEC_ID_VC1,
        AV_CODEC_ID_MJPEG, AV_CODEC_ID_NONE };
    static const enum AVCodecID exact[] = { AV_CODEC_ID_H264, AV_CODEC_ID_HEVC, AV_CODEC_ID_VP9,
                                            AV_CODEC_ID_AV1 };
    (void)state;
    for (size_t i = 0; i < COUNT(never); i++)
        assert_null(media_gpu_codec(never[i]));
    if (!ffmpeg_has_cuda())
        skip();
    for (size_t i = 0; i < COUNT(exact); i++) {
        const AVCodec *codec = media_gpu_codec(exact[i]);
        assert_non_null(codec);
        assert_int_equal(codec->id, exact[i]);
        assert_null(strstr(codec->name, "cuvid"));
        assert_string_equal(codec->name, avcodec_get_name(exact[i]));    /* FFmpeg's own decoder */
    }
}

/* The GPU's format is picked among the formats that a decoder offers. */
static void test_formats(void **state)
{
    media_gpu g = { .format = AV_PIX_FMT_CUDA };
    media_video v = { .gpu = &g, .planar = AV_PIX_FMT_NONE };
    AVCodecContext *dec = avcodec_alloc_context3(NULL);
    const enum AVPixelFormat both[] = { AV_PIX_FMT_VAAPI, AV_PIX_FMT_CUDA, AV_PIX_FMT_YUV420P,
                                        AV_PIX_FMT_NONE };
    const enum AVPixelFormat without[] = { AV_PIX_FMT_VAAPI, AV_PIX_FMT_YUV420P, AV_PIX_FMT_NONE };
    (void)state;
    assert_int_equal(media_gpu_use(&v, dec), 0);
    dec->sw_pix_fmt = AV_PIX_FMT_YUV420P;
    assert_int_equal(dec->get_format(dec, without), AV_PIX_FMT_YUV420P);
    assert_int_equal(v.planar, AV_PIX_FMT_NONE);
    assert_int_equal(dec->get_format(dec, both), AV_PIX_FMT_CUDA);
    assert_int_equal(v.planar, AV_PIX_FMT_YUV420P);
    assert_int_equal(dec->get_format(dec, both), AV_PIX_FMT_CUDA);
    dec->sw_pix_fmt = AV_PIX_FMT_YUV420P10LE;              /* the stream changes */
    assert_int_equal(dec->get_format(dec, both), AV_PIX_FMT_YUV420P);
    assert_int_equal(dec->get_format(dec, both + 3), AV_PIX_FMT_NONE);
    avcodec_free_context(&dec);
}

static const char no_gpu_says[] = "--video_decoder cpu";

static void test_no_gpu(void **state)
{
    media_gpu *g = NULL;
    vc_err err = { 0 };
    (void)state;
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    int rc = media_gpu_open(&g, 4000, &err);                /* no machine has 4001 GPUs */
    unsetenv("CUDA_VISIBLE_DEVICES");
    assert_int_equal(rc, VC_EUSAGE);
    assert_null(g);
    if (!strstr(err.text, no_gpu_says) || (ffmpeg_has_cuda() && !strstr(err.text, "GPU 4000")))
        fail_msg("%s", err.text);
    media_gpu_close(NULL);
}

/* ---- the same pixels ---- */

typedef struct stream {
    const char *name, *file, *encoder, *args;
    layout layout;                       /* of the stream's frames */
    bool on_gpu;                         /* the fake GPU can decode the stream */
} stream;

#define FRAMES_OF(size) "-frames:v 60 -vf scale=" size ",noise=alls=20:allf=t "
#define PICTURE FRAMES_OF("162:102")
static const stream streams[] = {
    { "h264", "a.mp4", "libx264", FRAMES_OF("322:182") "-c:v libx264 -g 24 -bf 3 -pix_fmt yuv420p",
      { AV_PIX_FMT_NV12, AV_PIX_FMT_YUV420P }, true },
    { "h264, full range", "b.mkv", "libx264", PICTURE "-c:v libx264 -g 24 -pix_fmt yuvj420p",
      { AV_PIX_FMT_NV12, AV_PIX_FMT_YUVJ420P }, true },
    { "h264, open groups in ts", "c.ts", "libx264",
      PICTURE "-c:v libx264 -x264-params open-gop=1:keyint=24:bframes=3 -pix_fmt yuv420p",
      { AV_PIX_FMT_NV12, AV_PIX_FMT_YUV420P }, true },
    { "h264 4:4:4", "d.mp4", "libx264", PICTURE "-c:v libx264 -g 24 -pix_fmt yuv444p",
      { AV_PIX_FMT_YUV444P, AV_PIX_FMT_YUV444P }, true },
    { "h264, interlaced", "e.mp4", "libx264",
      "-frames:v 60 -vf scale=162:104 -c:v libx264 -g 24 -flags +ildct+ilme -pix_fmt yuv420p",
      { AV_PIX_FMT_NV12, AV_PIX_FMT_YUV420P }, true },
    { "hevc, 10 bits", "f.mp4", "libx265",
      PICTURE "-c:v libx265 -x265-params log-level=none:keyint=24 -pix_fmt yuv420p10le",
      { AV_PIX_FMT_P010LE, AV_PIX_FMT_YUV420P10LE }, true },
    { "hevc, 12 bits", "g.mp4", "libx265",
      PICTURE "-c:v libx265 -x265-params log-level=none:keyint=24 -pix_fmt yuv420p12le",
      { AV_PIX_FMT_P016LE, AV_PIX_FMT_YUV420P12LE }, true },
    { "hevc 4:4:4, 10 bits", "h.mp4", "libx265",
      PICTURE "-c:v libx265 -x265-params log-level=none:keyint=24 -pix_fmt yuv444p10le",
      { AV_PIX_FMT_YUV444P16LE, AV_PIX_FMT_YUV444P10LE }, true },
    { "vp9", "i.webm", "libvpx-vp9",
      PICTURE "-c:v libvpx-vp9 -b:v 1M -g 24 -auto-alt-ref 1 -lag-in-frames 16 -cpu-used 8",
      { AV_PIX_FMT_NV12, AV_PIX_FMT_YUV420P }, true },
    /* FFmpeg's own av1 decoder works on GPUs only. */
    { "av1", "j.mp4", "libaom-av1", PICTURE "-c:v libaom-av1 -crf 30 -g 24 -cpu-used 8",
      { AV_PIX_FMT_NV12, AV_PIX_FMT_YUV420P }, false },
    { "mpeg4", "k.mp4", "mpeg4", PICTURE "-c:v mpeg4 -q:v 3 -g 12",
      { AV_PIX_FMT_NV12, AV_PIX_FMT_YUV420P }, false },
    { "h264, no times", "l.h264", "libx264", PICTURE "-c:v libx264 -g 24 -pix_fmt yuv420p",
      { AV_PIX_FMT_NV12, AV_PIX_FMT_YUV420P }, false },
};

static struct {                          /* the fake GPU */
    layout layout;
    int fetched;
    int fail_at, damaged_from;           /* numbers of fetches; 0: never */
} fake;

static int fake_fetch(AVFrame *dst, const AVFrame *src, int flags)
{
    (void)flags;
    if (++fake.fetched == fake.fail_at)
        return AVERROR_EXTERNAL;
    if (fake.damaged_from && fake.fetched >= fake.damaged_from)
        ((AVFrame *)src)->flags |= AV_FRAME_FLAG_CORRUPT;
    AVFrame *f = as_on_gpu(src, fake.layout.gpu);
    av_frame_move_ref(dst, f);
    av_frame_free(&f);
    return 0;
}

static media_gpu fake_gpu(layout l)
{
    fake.layout = l;
    fake.fetched = fake.fail_at = fake.damaged_from = 0;
    return (media_gpu){ .format = l.planar, .fetch = fake_fetch };
}

enum { READ = 7 };

/* Reads some frames twice, in another order; the caller frees the pixels. */
static uint8_t *read_some(const char *path, media_gpu *gpu, size_t *bytes)
{
    static const int64_t first[READ] = { 30, 31, 31, 40, 50, 58, 59 };
    static const int64_t second[READ] = { 0, 1, 2, 3, 25, 26, 33 };
    media *m;
    media_info info;
    vc_err err = { 0 };
    assert_ok(media_open(&m, path, &info, &err), &err);
    media_use_gpu(m, gpu);
    media_fit fit = { .rh = info.h, .rw = info.w, .h = info.h, .w = info.w };
    size_t n = (size_t)READ * (size_t)info.h * (size_t)info.w * 3;
    uint8_t *rgb = malloc(2 * n);
    assert_non_null(rgb);
    assert_ok(media_read(m, rgb, first, READ, &fit, NULL, &err) ||
              media_read(m, rgb + n, second, READ, &fit, NULL, &err), &err);
    media_close(m);
    *bytes = 2 * n;
    return rgb;
}

static void same_pixels(const stream *s, media_gpu *gpu)
{
    size_t n, m;
    uint8_t *want = read_some(clip_path(s->file), NULL, &n);
    uint8_t *got = read_some(clip_path(s->file), gpu, &m);
    assert_int_equal(n, m);
    for (size_t i = 0; i < n; i++)
        if (want[i] != got[i])
            fail_msg("%s: byte %zu of %zu: %d, not %d", s->name, i, n, got[i], want[i]);
    free(want);
    free(got);
}

static bool have_stream(const stream *s)
{
    if (!clip_have_ffmpeg() || !clip_have_encoder(s->encoder)) {
        print_message("%s: skipped, since ffmpeg lacks the encoder\n", s->name);
        return false;
    }
    if (access(clip_path(s->file), R_OK))               /* else another test has made it */
        clip_ffmpeg(clip_dir, s->args, s->file);
    return true;
}

static void test_fake(void **state)
{
    (void)state;
    if (!ffmpeg_has_cuda())
        skip();
    for (size_t i = 0; i < COUNT(streams); i++) {
        if (!have_stream(&streams[i]))
            continue;
        media_gpu g = fake_gpu(streams[i].layout);
        same_pixels(&streams[i], &g);
        if ((media_gpu_frames(&g) > 0) != streams[i].on_gpu ||
            (int)media_gpu_frames(&g) != fake.fetched)
            fail_msg("%s: the GPU decoded %d frames", streams[i].name, fake.fetched);
    }
}

/* The software decoder reads a stream that the GPU refuses, or fails to continue. */
static void test_refused(void **state)
{
    (void)state;
    if (!ffmpeg_has_cuda() || !have_stream(&streams[0]))
        skip();
    media_gpu g = fake_gpu((layout){ AV_PIX_FMT_P010LE, AV_PIX_FMT_CUDA });
    same_pixels(&streams[0], &g);
    assert_int_equal(fake.fetched, 0);

    g = fake_gpu(streams[0].layout);
    fake.fail_at = 5;
    same_pixels(&streams[0], &g);
    assert_int_equal(fake.fetched, 5);                      /* the GPU is not used again */

    g = fake_gpu(streams[0].layout);
    fake.damaged_from = 1;
    same_pixels(&streams[0], &g);

    g = fake_gpu((layout){ AV_PIX_FMT_NV16, AV_PIX_FMT_YUV420P });
    fake.fail_at = 1;
    same_pixels(&streams[0], &g);
    assert_int_equal(media_gpu_frames(&g), 0);
}

/* A frame that the GPU reports as damaged and the software decoder reads is good, also where
 * decoding began at the start. */
static void test_false_alarm(void **state)
{
    static const int64_t index[] = { 0, 3 };
    uint8_t rgb[2][16 * 16 * 3];
    media *m;
    vc_err err = { 0 };
    (void)state;
    if (!ffmpeg_has_cuda() || !have_stream(&streams[0]))
        skip();
    media_gpu g = fake_gpu(streams[0].layout);
    fake.damaged_from = 1;
    assert_ok(media_open(&m, clip_path(streams[0].file), NULL, &err), &err);
    media_use_gpu(m, &g);
    media_fit fit = { .rh = 16, .rw = 16, .h = 16, .w = 16 };
    assert_ok(media_read(m, rgb, index, 2, &fit, NULL, &err), &err);
    assert_true(fake.fetched);
    media_close(m);
}

/* Damage that a GPU finds is reported with the software decoder's message. */
static void test_damage(void **state)
{
    enum { FRAMES = 60 };
    size_t n;
    int64_t all[FRAMES];
    char text[2][sizeof (vc_err){ 0 }.text];
    (void)state;
    if (!ffmpeg_has_cuda() || !have_stream(&streams[0]))
        skip();
    uint8_t *file = clip_load(clip_path(streams[0].file), &n);
    memset(file + n / 2, 0x5a, n / 8);
    clip_save(clip_path("damaged.mp4"), file, n);
    free(file);
    for (int i = 0; i < FRAMES; i++)
        all[i] = i;
    for (int i = 0; i < 2; i++) {
        media_gpu g = fake_gpu(streams[0].layout);
        fake.fail_at = 3;
        media *m;
        media_info info;
        vc_err err = { 0 };
        assert_ok(media_open(&m, clip_path("damaged.mp4"), &info, &err), &err);
        if (i)
            media_use_gpu(m, &g);
        media_fit fit = { .rh = 16, .rw = 16, .h = 16, .w = 16 };
        uint8_t rgb[FRAMES * 16 * 16 * 3];
        assert_int_equal(media_read(m, rgb, all, FRAMES, &fit, NULL, &err), VC_EFORMAT);
        memcpy(text[i], err.text, sizeof text[i]);
        assert_int_equal(fake.fetched, i ? 3 : 0);
        media_close(m);
    }
    assert_string_equal(text[1], text[0]);
}

/* Frames that a GPU may decode to other pixels are refused. */
static void test_frames_refused(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        media_gpu g = fake_gpu((layout){ AV_PIX_FMT_NV12, AV_PIX_FMT_YUV420P });
        media_video v = { .gpu = &g, .planar = AV_PIX_FMT_YUV420P,
                          .frame = new_frame(AV_PIX_FMT_YUV420P, 32, 16),
                          .dec = avcodec_alloc_context3(NULL) };
        vc_err err = { 0 };
        v.dec->width = i == 1 ? 30 : 32;                    /* cropped on the left */
        v.dec->height = 16;
        if (i == 2)
            assert_non_null(av_film_grain_params_create_side_data(v.frame));
        int rc = media_gpu_fetch(&v, &err);
        if (rc != (i ? VC_EFORMAT : 0) || (i && !strstr(err.text, i == 1 ? "30x16" : "film grain")))
            fail_msg("%d: %d %s", i, rc, err.text);
        assert_int_equal(fake.fetched, !i);
        av_frame_free(&v.frame);
        avcodec_free_context(&v.dec);
    }
}

/* NVDEC decodes every stream that it supports to the same pixels. */
static void test_nvdec(void **state)
{
    media_gpu *g;
    vc_err err = { 0 };
    (void)state;
    if (media_gpu_open(&g, 0, &err)) {
        print_message("%s\n", err.text);
        skip();
    }
    for (size_t i = 0; i < COUNT(streams); i++) {
        uint64_t before = media_gpu_frames(g);
        if (!have_stream(&streams[i]))
            continue;
        same_pixels(&streams[i], g);
        print_message("%s: NVDEC decoded %llu frames to the same pixels\n", streams[i].name,
                      (unsigned long long)(media_gpu_frames(g) - before));
        assert_true(i || media_gpu_frames(g));
    }
    media_gpu_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_layouts_refused),
        cmocka_unit_test(test_codecs),
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_no_gpu),
        cmocka_unit_test(test_fake),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_false_alarm),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_frames_refused),
        cmocka_unit_test(test_nvdec),
    };
    cmocka_set_test_filter(getenv("VLT_TEST"));
    return cmocka_run_group_tests(tests, clip_setup_numbers, clip_teardown);
}
