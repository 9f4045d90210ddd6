/* test_media_tonemap.c - HDR frames become the pixels that BT.2100, ST 2084 and the curves define
 * in f64, and those of FFmpeg's filters; Dolby Vision is read if its base layer has such
 * colours. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <libavutil/dovi_meta.h>
#include <libavutil/pixdesc.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "precompute/media/internal.h"
#include "tests/lib/ok.h"
#include "tests/precompute/media/media_clip.h"

enum { W = 64, H = 48, PIXELS = W * H, METHODS = MEDIA_TONEMAPS };

/* ---- the definitions ---- */

/* ST 2084, equation 4.1: a signal to light, 1 being 100 cd/m2. */
static double pq(double e)
{
    const double m1 = 2610 / 16384., m2 = 2523 / 4096. * 128;
    const double c1 = 3424 / 4096., c2 = 2413 / 4096. * 32, c3 = 2392 / 4096. * 32;
    double p = pow(fmax(e, 0), 1 / m2);
    return pow(fmax(p - c1, 0) / (c2 - c3 * p), 1 / m1) * 100;
}

/* BT.2100, table 5: the inverse of HLG's OETF. */
static double hlg(double e)
{
    const double a = 0.17883277, b = 1 - 4 * a, c = 0.5 - a * log(4 * a);
    e = fmax(e, 0);
    return e <= 0.5 ? e * e / 3 : (exp((e - c) / a) + b) / 12;
}

/* A signal of BT.2020 to linear light of BT.2020: of HLG with the OOTF, gamma 1.2, of a display of
 * 1000 cd/m2. */
static void to_light(double v[3], int transfer)
{
    for (int c = 0; c < 3; c++)
        v[c] = transfer == AVCOL_TRC_SMPTE2084 ? pq(v[c]) : hlg(v[c]);
    if (transfer == AVCOL_TRC_SMPTE2084)
        return;
    double scene = 0.2627 * v[0] + 0.6780 * v[1] + 0.0593 * v[2];
    for (int c = 0; c < 3; c++)
        v[c] *= 10 * pow(scene, 0.2);
}

/* BT.2087, annex 2: linear light of BT.2020 to that of BT.709. */
static void to_709(double v[3])
{
    static const double m[3][3] = {
        { 1.660491, -0.587641, -0.072850 },
        { -0.124550, 1.132900, -0.008349 },
        { -0.018151, -0.100579, 1.118730 },
    };
    const double in[3] = { v[0], v[1], v[2] };
    for (int c = 0; c < 3; c++)
        v[c] = m[c][0] * in[0] + m[c][1] * in[1] + m[c][2] * in[2];
}

static double film(double x)
{
    return (x * (0.15 * x + 0.05) + 0.004) / (x * (0.15 * x + 0.5) + 0.06) - 0.02 / 0.3;
}

static double curve(double x, media_tonemap method, double peak)
{
    /* the fraction (p x + q) / (x + r) with the value k and the slope 1 at k, and 1 at the peak */
    const double k = 0.3, r = (k * k - 2 * k * peak + peak) / (peak - 1);
    const double p = k + (k + r), q = k * (k + r) - p * k;
    switch (method) {
    case MEDIA_TONEMAP_REINHARD: return x / (1 + x) / (peak / (1 + peak));
    case MEDIA_TONEMAP_MOBIUS: return x <= k ? x : (p * x + q) / (x + r);
    case MEDIA_TONEMAP_HABLE: return film(x) / film(peak);
    default: return fmin(x, 1);
    }
}

static void expected(double v[3], int transfer, media_tonemap method, double peak)
{
    to_light(v, transfer);
    to_709(v);
    double most = fmax(fmax(fmax(v[0], v[1]), v[2]), 1e-6);
    double scale = curve(most, method, peak) / most;
    for (int c = 0; c < 3; c++)
        v[c] = pow(fmin(fmax(v[c] * scale, 0), 1), 1 / 2.4) * 255;
}

/* ---- frames ---- */

/* The signal of a pixel: greys, and colours of all hues at each brightness. */
static void signal_of(double v[3], int y, int x)
{
    double level = x / (W - 1.), hue = y * 6. / H;
    for (int c = 0; c < 3; c++)
        v[c] = y < 8 ? level : level * (0.35 + 0.65 * fmin(fmax(fabs(fmod(hue + 2 * c, 6) - 3) - 1,
                                                                0), 1));
}

static void put(AVFrame *f, int plane, int y, int x, double v)
{
    uint8_t *row = f->data[plane] + (ptrdiff_t)y * f->linesize[plane];
    ((uint16_t *)(void *)row)[x] = (uint16_t)(v + 0.5);
}

static AVFrame *new_frame(int format, int w, int h, int transfer)
{
    AVFrame *f = av_frame_alloc();
    assert_non_null(f);
    f->format = format;
    f->width = w;
    f->height = h;
    f->colorspace = AVCOL_SPC_BT2020_NCL;
    f->color_primaries = AVCOL_PRI_BT2020;
    f->color_trc = transfer;
    f->color_range = AVCOL_RANGE_MPEG;
    assert_int_equal(av_frame_get_buffer(f, 0), 0);
    return f;
}

/* Writes the signal as 10-bit YUV 4:4:4; *v [PIXELS] is the signal that the codes have. */
static AVFrame *make_frame(int transfer, double (*v)[3])
{
    const double kr = 0.2627, kb = 0.0593, kg = 1 - kr - kb;
    AVFrame *f = new_frame(AV_PIX_FMT_YUV444P10LE, W, H, transfer);
    for (int i = 0; i < PIXELS; i++) {
        double s[3];
        signal_of(s, i / W, i % W);
        double luma = kr * s[0] + kg * s[1] + kb * s[2];
        const double code[3] = { 64 + 876 * luma, 512 + 896 * (s[2] - luma) / (2 * (1 - kb)),
                                 512 + 896 * (s[0] - luma) / (2 * (1 - kr)) };
        double has[3];
        for (int p = 0; p < 3; p++) {
            put(f, p, i / W, i % W, code[p]);
            has[p] = floor(code[p] + 0.5);
        }
        double l = (has[0] - 64) / 876, cb = (has[1] - 512) / 896, cr = (has[2] - 512) / 896;
        v[i][0] = l + 2 * (1 - kr) * cr;
        v[i][2] = l + 2 * (1 - kb) * cb;
        v[i][1] = (l - kr * v[i][0] - kb * v[i][2]) / kg;
    }
    return f;
}

static int convert(uint8_t *rgb, const AVFrame *f, media_tonemap method, double peak, vc_err *err)
{
    media_pixels p = { .peak = peak };
    const media_fit fit = { .rh = f->height, .rw = f->width, .h = f->height, .w = f->width,
                            .tonemap = method };
    int rc = media_pixels_frame(&p, rgb, f, (media_orient){ 0 }, &fit, err);
    media_pixels_close(&p);
    return rc;
}

/* ---- the tests ---- */

/* Tolerance: half a step for the rounding, and for f32 as much as 0.1 where a component is the
 * small difference of large ones; near black the gamma's slope makes that one step. */
static void test_exact(void **state)
{
    (void)state;
    static const struct { int transfer; double peak; } rows[] = {
        { AVCOL_TRC_SMPTE2084, 10 }, { AVCOL_TRC_SMPTE2084, 40 }, { AVCOL_TRC_ARIB_STD_B67, 10 },
    };
    static double v[PIXELS][3];
    static uint8_t rgb[PIXELS][3];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        AVFrame *f = make_frame(rows[i].transfer, v);
        for (int m = MEDIA_TONEMAP_CLIP; m < METHODS; m++) {
            vc_err err = { 0 };
            assert_ok(convert(rgb[0], f, (media_tonemap)m, rows[i].peak, &err), &err);
            for (int k = 0; k < PIXELS; k++) {
                double want[3] = { v[k][0], v[k][1], v[k][2] };
                expected(want, rows[i].transfer, (media_tonemap)m, rows[i].peak);
                for (int c = 0; c < 3; c++)
                    if (fabs(rgb[k][c] - want[c]) > (want[c] < 4 ? 1.5 : 0.6))
                        fail_msg("row %zu, %s: (%d,%d,%d) is %d, should be %g", i,
                                 media_tonemap_names[m], k / W, k % W, c, rgb[k][c], want[c]);
            }
        }
        av_frame_free(&f);
    }
}

/* SDR is the same with every curve, and HDR without one is converted as if it were SDR. */
static void test_other_frames(void **state)
{
    (void)state;
    static double v[PIXELS][3];
    static uint8_t a[PIXELS][3], b[PIXELS][3];
    vc_err err = { 0 };
    AVFrame *f = make_frame(AVCOL_TRC_BT709, v);
    assert_ok(convert(a[0], f, MEDIA_TONEMAP_NONE, 0, &err), &err);
    for (int m = MEDIA_TONEMAP_CLIP; m < METHODS; m++) {
        assert_ok(convert(b[0], f, (media_tonemap)m, 10, &err), &err);
        assert_memory_equal(a, b, sizeof a);
    }
    f->color_trc = AVCOL_TRC_SMPTE2084;
    assert_ok(convert(b[0], f, MEDIA_TONEMAP_NONE, 10, &err), &err);
    assert_memory_equal(a, b, sizeof a);
    assert_ok(convert(b[0], f, MEDIA_TONEMAP_HABLE, 10, &err), &err);
    assert_memory_not_equal(a, b, sizeof a);
    av_frame_free(&f);
}

static void fill(AVFrame *f, const int code[3])
{
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(f->format);
    for (int p = 0; p < 3; p++)
        for (int y = 0; y < (p ? AV_CEIL_RSHIFT(f->height, d->log2_chroma_h) : f->height); y++)
            for (int x = 0; x < (p ? AV_CEIL_RSHIFT(f->width, d->log2_chroma_w) : f->width); x++)
                put(f, p, y, x, code[p]);
}

/* A frame of one colour keeps it to its edges, in every layout and at odd sizes. */
static void test_layouts(void **state)
{
    (void)state;
    static const struct { int format, code[3]; } rows[] = {
        { AV_PIX_FMT_YUV420P10LE, { 500, 450, 600 } },
        { AV_PIX_FMT_YUV422P10LE, { 500, 450, 600 } },
        { AV_PIX_FMT_YUV444P12LE, { 2000, 1800, 2400 } },
        { AV_PIX_FMT_YUVA444P12LE, { 2000, 1800, 2400 } },
        { AV_PIX_FMT_GBRP10LE, { 463, 376, 657 } },             /* the same colour as G, B, R */
    };
    static uint8_t rgb[61 * 37 * 3], first[3];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int odd = 0; odd < 2; odd++) {
            vc_err err = { 0 };
            int w = odd ? 61 : 60, h = odd ? 37 : 36;
            AVFrame *f = new_frame(rows[i].format, w, h, AVCOL_TRC_SMPTE2084);
            fill(f, rows[i].code);
            assert_ok(convert(rgb, f, MEDIA_TONEMAP_HABLE, 10, &err), &err);
            if (!i && !odd)
                memcpy(first, rgb, 3);
            for (int k = 0; k < w * h; k++)
                for (int c = 0; c < 3; c++)
                    if (abs(rgb[3 * k + c] - first[c]) > (rows[i].format == AV_PIX_FMT_GBRP10LE))
                        fail_msg("row %zu, %dx%d: pixel %d is %d %d %d, the first row's %d %d %d",
                                 i, w, h, k, rgb[3 * k], rgb[3 * k + 1], rgb[3 * k + 2], first[0],
                                 first[1], first[2]);
            av_frame_free(&f);
        }
}

static void test_refused(void **state)
{
    (void)state;
    static uint8_t rgb[PIXELS * 3];
    vc_err err = { 0 };
    AVFrame *f = new_frame(AV_PIX_FMT_RGB48LE, W, H, AVCOL_TRC_SMPTE2084);
    assert_fails(convert(rgb, f, MEDIA_TONEMAP_HABLE, 10, &err), VC_EFORMAT, &err,
                 "no tone mapping from the pixel format rgb48le; --tonemap none");
    av_frame_free(&f);
    f = new_frame(AV_PIX_FMT_YUV420P10LE, W, H, AVCOL_TRC_SMPTE2084);
    f->color_primaries = AVCOL_PRI_RESERVED;
    assert_fails(convert(rgb, f, MEDIA_TONEMAP_HABLE, 10, &err), VC_EFORMAT, &err,
                 "no tone mapping of its colours: ");
    av_frame_free(&f);
}

static void test_peak(void **state)
{
    (void)state;
    const AVContentLightMetadata none = { 0 }, bright = { .MaxCLL = 4000 }, dark = { .MaxCLL = 30 };
    const AVMasteringDisplayMetadata display = { .has_luminance = 1, .max_luminance = { 2000, 1 } };
    AVFrame *f = new_frame(AV_PIX_FMT_YUV420P10LE, 16, 16, AVCOL_TRC_SMPTE2084);

    assert_true(media_tone_peak(f, NULL, NULL) == 10);
    assert_true(media_tone_peak(f, &bright, &display) == 40);
    assert_true(media_tone_peak(f, &none, &display) == 20);
    assert_true(media_tone_peak(f, &dark, NULL) == 1);
    f->color_trc = AVCOL_TRC_ARIB_STD_B67;
    assert_true(media_tone_peak(f, &bright, &display) == 10);
    av_frame_free(&f);
}

/* ---- files ---- */

/* A filter tags the frames: ffmpeg 9 ignores options of the output such as -color_trc. */
static const char tags[] = "color_primaries=bt2020:colorspace=bt2020nc:range=tv";

/* Makes hdr.mkv of the tagged transfer and reads its third frame. */
static void read_clip(uint8_t *rgb, const char *transfer, const char *codec, media_tonemap method)
{
    char args[512];
    const media_fit fit = { .rh = CLIP_H, .rw = CLIP_W, .h = CLIP_H, .w = CLIP_W,
                            .tonemap = method };
    const int64_t frame = 2;
    media_info info;
    media *m;
    vc_err err = { 0 };
    snprintf(args, sizeof args,
             "-frames:v 4 -vf format=yuv444p10le,setparams=color_trc=%s:%s -c:v %s", transfer, tags,
             codec);
    clip_ffmpeg(clip_dir, args, "hdr.mkv");
    assert_ok(media_open(&m, clip_path("hdr.mkv"), &info, &err), &err);
    assert_true(info.hdr);
    assert_ok(media_read(m, rgb, &frame, 1, &fit, NULL, &err), &err);
    media_close(m);
}

/* The same clip by FFmpeg's filters: equal but for a step of rounding. */
static void test_filters(void **state)
{
    (void)state;
    static const char *const transfers[] = { "smpte2084", "arib-std-b67" };
    static uint8_t ours[CLIP_BYTES];
    if (!clip_have_ffmpeg() || system("ffmpeg -v error -filters 2>/dev/null | grep -q ' zscale '"))
        skip();
    for (int i = 0; i < 2; i++)
        for (int m = MEDIA_TONEMAP_CLIP; m < METHODS; m++) {
            char args[512];
            size_t size;
            read_clip(ours, transfers[i], "ffv1", (media_tonemap)m);
            snprintf(args, sizeof args,
                     "-i hdr.mkv -map 1 -vf zscale=t=linear:npl=100:agamma=0,format=gbrpf32le,"
                     "zscale=p=bt709,tonemap=%s:desat=0:peak=10,"
                     "zscale=t=bt709:m=gbr:r=full:agamma=0,format=gbrp,format=rgb24 -f rawvideo",
                     media_tonemap_names[m]);
            clip_ffmpeg(clip_dir, args, "theirs.rgb");
            uint8_t *theirs = clip_load(clip_path("theirs.rgb"), &size);
            assert_int_equal(size, 4 * CLIP_BYTES);
            for (int k = 0; k < CLIP_BYTES; k++)
                if (abs(ours[k] - theirs[2 * CLIP_BYTES + k]) > 1)
                    fail_msg("%s, %s: byte %d is %d, FFmpeg has %d", transfers[i],
                             media_tonemap_names[m], k, ours[k], theirs[2 * CLIP_BYTES + k]);
            free(theirs);
        }
}

/* The brightest pixel that the bitstream names sets the curve's peak. */
static void test_metadata(void **state)
{
    (void)state;
    static uint8_t usual[CLIP_BYTES], bright[CLIP_BYTES];
    if (!clip_have_ffmpeg() || !clip_have_encoder("libx265"))
        skip();
    static const char codec[] = "libx265 -x265-params log-level=error:lossless=1";
    char with[256];
    read_clip(usual, "smpte2084", codec, MEDIA_TONEMAP_HABLE);
    snprintf(with, sizeof with, "%s:hdr10=1:max-cll=4000,400", codec);
    read_clip(bright, "smpte2084", with, MEDIA_TONEMAP_HABLE);
    int darker = 0;
    for (int k = 0; k < CLIP_BYTES; k++) {
        assert_true(bright[k] <= usual[k]);
        darker += bright[k] < usual[k];
    }
    assert_true(darker > CLIP_BYTES / 2);
}

/* ---- Dolby Vision ---- */

static void *new_dolby(AVStream *st)
{
    const size_t size = sizeof(AVDOVIDecoderConfigurationRecord);
#if LIBAVCODEC_VERSION_INT >= AV_VERSION_INT(60, 31, 100)
    AVPacketSideData *sd = av_packet_side_data_new(
        &st->codecpar->coded_side_data, &st->codecpar->nb_coded_side_data, AV_PKT_DATA_DOVI_CONF,
        size, 0);
    return sd ? sd->data : NULL;
#else
    return av_stream_new_side_data(st, AV_PKT_DATA_DOVI_CONF, size);
#endif
}

/* Copies the packets of numbers.mp4 to dolby.mp4, with a Dolby Vision record. */
static void make_dolby(int profile, int compatible)
{
    AVFormatContext *in = NULL, *out = NULL;
    AVPacket *pkt = av_packet_alloc();
    assert_int_equal(avformat_open_input(&in, clip_path("numbers.mp4"), NULL, NULL), 0);
    assert_true(avformat_find_stream_info(in, NULL) >= 0);
    assert_true(avformat_alloc_output_context2(&out, NULL, "mp4", clip_path("dolby.mp4")) >= 0);
    out->strict_std_compliance = FF_COMPLIANCE_UNOFFICIAL;
    AVStream *st = avformat_new_stream(out, NULL);
    assert_int_equal(avcodec_parameters_copy(st->codecpar, in->streams[0]->codecpar), 0);
    st->time_base = in->streams[0]->time_base;
    AVDOVIDecoderConfigurationRecord *d = new_dolby(st);
    assert_non_null(d);
    *d = (AVDOVIDecoderConfigurationRecord){
        .dv_version_major = 1, .dv_profile = (uint8_t)profile, .dv_level = 1,
        .rpu_present_flag = 1, .bl_present_flag = 1,
        .dv_bl_signal_compatibility_id = (uint8_t)compatible,
    };
    assert_true(avio_open(&out->pb, clip_path("dolby.mp4"), AVIO_FLAG_WRITE) >= 0);
    assert_true(avformat_write_header(out, NULL) >= 0);
    while (av_read_frame(in, pkt) >= 0) {
        av_packet_rescale_ts(pkt, in->streams[0]->time_base, st->time_base);
        pkt->stream_index = 0;
        assert_int_equal(av_interleaved_write_frame(out, pkt), 0);
    }
    assert_int_equal(av_write_trailer(out), 0);
    avio_closep(&out->pb);
    avformat_free_context(out);
    avformat_close_input(&in);
    av_packet_free(&pkt);
}

/* Profiles whose base layer is HDR10 (1), SDR (2), HLG (4) or a Blu-ray's (6) are read; those in
 * IPT-PQ-c2 (0) are refused. */
static void test_dolby(void **state)
{
    (void)state;
    static const struct { int profile, compatible; bool refused; } rows[] = {
        { 5, 0, true }, { 10, 0, true }, { 20, 0, true }, { 7, 6, false }, { 8, 1, false },
        { 8, 2, false }, { 8, 4, false }, { 10, 1, false }, { 10, 4, false }, { 9, 2, false },
        { 4, 2, false },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char name[64];
        media_info info;
        media *m;
        vc_err err = { 0 };
        make_dolby(rows[i].profile, rows[i].compatible);
        int rc = media_open(&m, clip_path("dolby.mp4"), &info, &err);
        if (!rows[i].refused) {
            assert_ok(rc, &err);
            assert_int_equal(info.frames, CLIP_FRAMES);
            media_close(m);
            continue;
        }
        snprintf(name, sizeof name, "Dolby Vision of profile %d has", rows[i].profile);
        assert_int_equal(rc, VC_EFORMAT);
        assert_non_null(strstr(err.text, "dolby.mp4: "));
        assert_non_null(strstr(err.text, name));
        assert_non_null(strstr(err.text, "apply_dolbyvision"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact),   cmocka_unit_test(test_other_frames),
        cmocka_unit_test(test_layouts), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_peak),    cmocka_unit_test(test_filters),
        cmocka_unit_test(test_metadata), cmocka_unit_test(test_dolby),
    };
    return cmocka_run_group_tests(tests, clip_setup_numbers, clip_teardown);
}
