/* test_media.c - videos: the number of each frame, seeking, geometry, colour, damaged files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "precompute/media/internal.h"
#include "precompute/media/media.h"
#include "precompute/media/write.h"
#include "tests/lib/ok.h"
#include "tests/precompute/media/media_clip.h"

static media *must_open(const char *path, media_info *info)
{
    media *m;
    vc_err err = { 0 };
    assert_ok(media_open(&m, path, info, &err), &err);
    return m;
}

static media_fit whole(const media_info *info)
{
    return (media_fit){ .rh = info->h, .rw = info->w, .h = info->h, .w = info->w };
}

/* ---- numbers of frames ---- */

typedef struct stream_case {
    const char *name, *file, *encoder, *args;
    int frames, first, drop;        /* source frames n with n % drop == drop - 1 are dropped */
    bool vfr;
} stream_case;

static const stream_case streams[] = {
    { "h264, closed groups", "a.mp4", "libx264", "-c:v libx264 -crf 12 -g 12 -bf 3", 120, 0, 0, 0 },
    { "h264, open groups", "b.mp4", "libx264",
      "-c:v libx264 -crf 12 -x264-params open-gop=1:keyint=24:min-keyint=24:bframes=3",
      120, 0, 0, 0 },
    { "h264, open groups in ts", "c.ts", "libx264",
      "-c:v libx264 -crf 12 -x264-params open-gop=1:keyint=24:min-keyint=24:bframes=3",
      120, 0, 0, 0 },
    { "h264, open groups in mkv", "d.mkv", "libx264",
      "-c:v libx264 -crf 12 -x264-params open-gop=1:keyint=24:min-keyint=24:bframes=3",
      120, 0, 0, 0 },
    { "h264, intra refresh", "e.mp4", "libx264",
      "-c:v libx264 -crf 12 -x264-params intra-refresh=1:keyint=20", 120, 0, 0, 0 },
    { "h264, intra refresh in ts", "e.ts", "libx264",
      "-c:v libx264 -crf 12 -x264-params intra-refresh=1:keyint=20", 120, 0, 0, 0 },
    { "h264, interlaced", "f.mp4", "libx264",
      "-c:v libx264 -crf 12 -g 12 -flags +ildct+ilme", 120, 0, 0, 0 },
    { "h264, fragments", "g.mp4", "libx264",
      "-c:v libx264 -crf 12 -g 12 -movflags frag_keyframe+empty_moov", 120, 0, 0, 0 },
    { "h264, no container", "h.h264", "libx264", "-c:v libx264 -crf 12 -g 12 -bf 3", 120, 0, 0, 0 },
    { "h264 in flv", "i.flv", "libx264", "-c:v libx264 -crf 12 -g 12", 120, 0, 0, 0 },
    { "h264, edit list", "j.mp4", "libx264", "-ss 1.4 -i a.mp4 -map 1 -c copy", 85, 35, 0, 0 },
    { "h264, late start", "k.mkv", "libx264",
      "-c:v libx264 -crf 12 -g 12 -output_ts_offset 7", 120, 0, 0, 0 },
    { "h264, late start in ts", "l.ts", "libx264", "-c:v libx264 -crf 12 -g 12 -output_ts_offset 7",
      120, 0, 0, 0 },
    { "h264, uneven times", "m.mp4", "libx264",
      "-vf 'select=lt(mod(n\\,5)\\,4)' -fps_mode vfr -c:v libx264 -crf 12 -g 24", 96, 0, 5, 1 },
    { "hevc, open groups", "n.mp4", "libx265",
      "-c:v libx265 -x265-params log-level=none:crf=12:keyint=24:open-gop=1:bframes=3",
      120, 0, 0, 0 },
    { "vp9, hidden frames", "o.webm", "libvpx-vp9",
      "-c:v libvpx-vp9 -crf 12 -b:v 0 -g 30 -auto-alt-ref 1 -lag-in-frames 16 -cpu-used 8",
      120, 0, 0, 0 },
    { "vp8, hidden frames", "p.webm", "libvpx",
      "-c:v libvpx -crf 4 -b:v 4M -g 30 -auto-alt-ref 1 -lag-in-frames 16 -cpu-used 8",
      120, 0, 0, 0 },
    { "av1", "q.mp4", "libaom-av1",
      "-frames:v 60 -c:v libaom-av1 -crf 20 -g 20 -cpu-used 8", 60, 0, 0, 0 },
    { "mpeg4 in avi", "r.avi", "mpeg4", "-c:v mpeg4 -q:v 2 -g 15", 120, 0, 0, 0 },
    { "mpeg4 with B frames in avi", "s.avi", "mpeg4",
      "-c:v mpeg4 -q:v 2 -g 15 -bf 2", 120, 0, 0, 0 },
    { "mpeg4 with B frames in mp4", "t.mp4", "mpeg4",
      "-c:v mpeg4 -q:v 2 -g 15 -bf 2", 120, 0, 0, 0 },
    { "mpeg2, programme stream", "u.mpg", "mpeg2video",
      "-c:v mpeg2video -q:v 2 -g 15 -bf 2", 120, 0, 0,
      0 },
    { "mpeg2, transport stream", "v.ts", "mpeg2video",
      "-c:v mpeg2video -q:v 2 -g 15 -bf 2", 120, 0, 0,
      0 },
    { "mjpeg", "w.mov", "mjpeg", "-c:v mjpeg -q:v 2 -pix_fmt yuvj420p", 120, 0, 0, 0 },
    { "ffv1", "x.mkv", "ffv1", "-c:v ffv1 -g 10", 120, 0, 0, 0 },
    { "prores", "y.mov", "prores_ks", "-c:v prores_ks -profile:v 3", 120, 0, 0, 0 },
    { "gif", "z.gif", "gif", "", 120, 0, 0, 0 },
    { "apng", "z.apng", "apng", "-c:v apng -f apng", 120, 0, 0, 0 },
    { "two streams", "two.mkv", "libx264",
      "-map 0 -map 0 -c:v libx264 -crf 12 -g 12 -filter:v:1 trim=end_frame=20,scale=64:32",
      120, 0, 0, 0 },
};

static int source_number(const stream_case *c, int64_t i)
{
    return c->first + (int)(c->drop ? i / (c->drop - 1) * c->drop + i % (c->drop - 1) : i);
}

static void expect_frames(const stream_case *c, media *m, const media_info *info,
                          const int64_t *index, int n)
{
    media_fit fit = whole(info);
    size_t bytes = (size_t)fit.h * (size_t)fit.w * 3;
    uint8_t *rgb = malloc(bytes * (size_t)n);
    vc_err err = { 0 };
    if (media_read(m, rgb, index, n, &fit, NULL, &err))
        fail_msg("%s: %s", c->name, err.text);
    for (int i = 0; i < n; i++) {
        int number = clip_number(rgb + bytes * (size_t)i, fit.h, fit.w);
        if (number != source_number(c, index[i]))
            fail_msg("%s: frame %lld shows %d, should show %d", c->name, (long long)index[i],
                     number, source_number(c, index[i]));
    }
    free(rgb);
}

static void check_stream(const stream_case *c)
{
    media_info info;
    media *m = must_open(clip_path(c->file), &info);
    if (info.frames != c->frames || info.vfr != c->vfr || !info.is_video)
        fail_msg("%s: %lld frames, vfr %d, video %d", c->name, (long long)info.frames, info.vfr,
                 info.is_video);
    const double *times = media_times(m);
    double base = (double)source_number(c, 0) / CLIP_FPS;
    for (int i = 0; i < c->frames; i++)
        if (fabs(times[i] + base - (double)source_number(c, i) / CLIP_FPS) > 0.0015)
            fail_msg("%s: frame %d at %g s", c->name, i, times[i]);

    int64_t n = info.frames;
    const int64_t jumps[][4] = {
        { 0, 1, 2, 3 }, { n - 1, n - 1, n - 1, n - 1 }, { 23, 24, 25, 26 }, { 30, 30, 31, 59 },
        { 47, 48, 49, 50 }, { 1, 20, 40, 58 }, { 13, 13, 13, 14 }, { 0, 0, n / 2, n - 2 },
    };
    for (size_t i = 0; i < sizeof jumps / sizeof *jumps; i++)
        expect_frames(c, m, &info, jumps[i], 4);
    media_close(m);

    int64_t *all = malloc((size_t)n * sizeof *all);
    for (int64_t i = 0; i < n; i++)
        all[i] = i;
    m = must_open(clip_path(c->file), &info);
    if (c->frames > 100)
        expect_frames(c, m, &info, (int64_t[]){ 77, 78 }, 2);
    expect_frames(c, m, &info, all, (int)n);
    media_close(m);
    free(all);
}

static void test_streams(void **state)
{
    (void)state;
    if (!clip_have_ffmpeg())
        skip();
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) {
        const stream_case *c = &streams[i];
        if (!clip_have_encoder(c->encoder)) {
            print_message("%s: skipped, since ffmpeg lacks the encoder %s\n", c->name, c->encoder);
            continue;
        }
        clip_ffmpeg(clip_dir, c->args, c->file);
        check_stream(c);
    }
}

/* With two passes, VP8 makes hidden reference frames, in packets of their own. */
static void test_hidden(void **state)
{
    (void)state;
    if (!clip_have_ffmpeg() || !clip_have_encoder("libvpx"))
        skip();
    static const char options[] = "-c:v libvpx -b:v 300k -g 60 -auto-alt-ref 1 -lag-in-frames 25 "
                                  "-arnr-strength 5 -arnr-maxframes 7";
    static const stream_case c = { "vp8, two passes", "hidden.webm", "libvpx", "", 120, 0, 0, 0 };
    char args[256];
    snprintf(args, sizeof args, "%s -pass 1 -f null", options);
    clip_ffmpeg(clip_dir, args, "/dev/null");
    snprintf(args, sizeof args, "%s -pass 2", options);
    clip_ffmpeg(clip_dir, args, c.file);
    check_stream(&c);

    media_io io;
    media_video v;
    vc_err err = { 0 };
    uint32_t last = 0;
    assert_int_equal(media_io_open(&io, clip_path(c.file), &err), 0);
    assert_int_equal(media_video_open(&v, &io, c.file, &err), 0);
    for (int64_t i = 0; i < v.n; i++)
        last = v.index[i].pos > last ? v.index[i].pos : last;
    assert_false(v.counted);                        /* the packets gave the number of frames */
    assert_true(last >= CLIP_FRAMES);               /* some packets are hidden frames */
    media_video_close(&v);
    media_io_close(&io);
}

/* A seek begins to decode at the frame's own key frame, or continues from the decoder's position
 * where that is nearer. */
static void test_seeks(void **state)
{
    (void)state;
    if (!clip_have_ffmpeg() || !clip_have_encoder("libx264"))
        skip();
    static const char *const files[] = { "seek.mp4", "seek.mkv", "seek.ts", "seek.flv" };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        clip_ffmpeg(clip_dir, "-c:v libx264 -g 12 -bf 2", files[i]);
        media_io io;
        media_video v;
        vc_err err = { 0 };
        int64_t number;
        assert_int_equal(media_io_open(&io, clip_path(files[i]), &err), 0);
        assert_int_equal(media_video_open(&v, &io, files[i], &err), 0);
        assert_int_equal(media_video_seek(&v, 77, &err), 0);
        assert_int_equal(v.start, 72);
        assert_int_equal(media_video_next(&v, &number, &err), 1);
        assert_int_equal(number, 72);
        assert_int_equal(media_video_seek(&v, 75, &err), 0);     /* forward, without a seek */
        assert_int_equal(media_video_next(&v, &number, &err), 1);
        assert_int_equal(number, 73);
        assert_int_equal(media_video_seek(&v, 40, &err), 0);     /* backward */
        assert_int_equal(v.start, 36);
        assert_int_equal(media_video_seek(&v, 5, &err), 0);
        assert_int_equal(v.start, 0);
        media_video_close(&v);
        media_io_close(&io);
    }
}

static void test_threads(void **state)
{
    (void)state;
    media_info info;
    const int64_t index[] = { 3, 50, 51, 119 };
    size_t bytes = CLIP_BYTES * 4;
    uint8_t *one = malloc(bytes), *four = malloc(bytes);
    for (int threads = 1; threads <= 4; threads += 3) {
        vc_err err = { 0 };
        media *m = must_open(clip_path("numbers.mp4"), &info);
        media_fit fit = whole(&info);
        assert_int_equal(media_set_threads(m, threads, &err), 0);
        assert_ok(media_read(m, threads == 1 ? one : four, index, 4, &fit, NULL, &err), &err);
        assert_int_equal(media_set_threads(m, 0, &err), VC_EINVAL);
        media_close(m);
    }
    assert_memory_equal(one, four, bytes);
    free(one);
    free(four);
}

/* ---- geometry ---- */

/* Sets the display matrix in every track header of an MP4. */
static void patch_matrix(const char *path, const int m[4])
{
    size_t n;
    uint8_t *p = clip_load(path, &n);
    for (size_t i = 0; i + 80 < n; i++)
        if (!memcmp(p + i, "tkhd", 4))
            for (int k = 0; k < 4; k++) {
                static const int at[] = { 0, 1, 3, 4 };
                uint32_t v = (uint32_t)m[k] << 16;
                for (int b = 0; b < 4; b++)
                    p[i + 44 + (size_t)at[k] * 4 + (size_t)b] = (uint8_t)(v >> (24 - 8 * b));
            }
    clip_save(path, p, n);
    free(p);
}

/* The stored place of the displayed pixel (y, x), by the EXIF standard's table of orientations. */
static void stored_place(int exif, int h, int w, int y, int x, int *sy, int *sx)
{
    int bottom = h - 1, right = w - 1;
    switch (exif) {
    case 2: *sy = y; *sx = right - x; break;
    case 3: *sy = bottom - y; *sx = right - x; break;
    case 4: *sy = bottom - y; *sx = x; break;
    case 5: *sy = x; *sx = y; break;
    case 6: *sy = bottom - x; *sx = y; break;
    case 7: *sy = bottom - x; *sx = right - y; break;
    case 8: *sy = x; *sx = right - y; break;
    default: *sy = y; *sx = x;
    }
}

typedef struct rotation_case {
    int matrix[4], exif, rotation;
    bool mirrored;
} rotation_case;

static const rotation_case rotations[] = {
    { { 1, 0, 0, 1 }, 1, 0, false },     { { -1, 0, 0, 1 }, 2, 0, true },
    { { -1, 0, 0, -1 }, 3, 180, false }, { { 1, 0, 0, -1 }, 4, 180, true },
    { { 0, 1, 1, 0 }, 5, 270, true },    { { 0, 1, -1, 0 }, 6, 90, false },
    { { 0, -1, -1, 0 }, 7, 90, true },   { { 0, -1, 1, 0 }, 8, 270, false },
};

static uint8_t *read_one(const char *path, int64_t frame, const media_fit *fit, media_info *info)
{
    media *m = must_open(path, info);
    media_fit all = whole(info);
    fit = fit ? fit : &all;
    vc_err err = { 0 };
    uint8_t *rgb = malloc((size_t)fit->h * (size_t)fit->w * 3);
    assert_ok(media_read(m, rgb, &frame, 1, fit, NULL, &err), &err);
    media_close(m);
    return rgb;
}

static void test_rotation(void **state)
{
    (void)state;
    media_info info;
    uint8_t *plain = read_one(clip_path("numbers.mp4"), 100, NULL, &info);
    for (size_t i = 0; i < sizeof rotations / sizeof *rotations; i++) {
        const rotation_case *t = &rotations[i];
        patch_matrix(clip_path("numbers.mp4"), t->matrix);
        uint8_t *rotated = read_one(clip_path("numbers.mp4"), 100, NULL, &info);
        bool sideways = t->exif >= 5;
        if (info.rotation != t->rotation || info.mirrored != t->mirrored ||
            info.w != (sideways ? CLIP_H : CLIP_W) || info.h != (sideways ? CLIP_W : CLIP_H))
            fail_msg("orientation %d: rotation %d, mirrored %d, %dx%d", t->exif, info.rotation,
                     info.mirrored, info.w, info.h);
        for (int y = 0; y < info.h; y++)
            for (int x = 0; x < info.w; x++) {
                int sy, sx;
                stored_place(t->exif, CLIP_H, CLIP_W, y, x, &sy, &sx);
                if (memcmp(rotated + (y * info.w + x) * 3, plain + (sy * CLIP_W + sx) * 3, 3))
                    fail_msg("orientation %d: pixel %d,%d", t->exif, y, x);
            }
        free(rotated);
    }
    patch_matrix(clip_path("numbers.mp4"), rotations[0].matrix);
    free(plain);
}

/* A resize, a cut and a flip of a rotated video equal those of the displayed picture. */
static void test_fit(void **state)
{
    (void)state;
    static const media_fit fits[] = {
        { 40, 80, 3, 7, 31, 60, .flip = false }, { 40, 80, 3, 7, 31, 60, .flip = true },
        { 100, 50, 20, 0, 64, 50, .flip = true }, { 64, 128, 0, 0, 64, 128, .flip = true },
    };
    for (size_t t = 0; t < sizeof rotations / sizeof *rotations; t++)
        for (size_t k = 0; k < sizeof fits / sizeof *fits; k++) {
            const media_fit *f = &fits[k];
            media_info info;
            patch_matrix(clip_path("numbers.mp4"), rotations[t].matrix);
            uint8_t *shown = read_one(clip_path("numbers.mp4"), 42, NULL, &info);
            uint8_t *got = read_one(clip_path("numbers.mp4"), 42, f, &info);
            uint8_t *want = malloc((size_t)f->h * (size_t)f->w * 3);
            resize *r;
            assert_int_equal(resize_open(&r, info.h, info.w, f->rh, f->rw, f->top, f->left, f->h,
                                         f->w, NULL), 0);
            resize_run(r, want, shown, info.w * 3);
            resize_close(r);
            for (int i = 0; i < f->h * f->w * 3; i++) {
                int y = i / (f->w * 3), x = i / 3 % f->w;
                int at = (y * f->w + (f->flip ? f->w - 1 - x : x)) * 3 + i % 3;
                if (abs(got[i] - want[at]) > 1)    /* a mirrored tie may round the other way */
                    fail_msg("orientation %d, fit %zu: %d,%d", rotations[t].exif, k, y, x);
            }
            free(shown);
            free(got);
            free(want);
        }
    patch_matrix(clip_path("numbers.mp4"), rotations[0].matrix);
}

static void test_sample_aspect(void **state)
{
    (void)state;
    static const struct { const char *args; int w; } rows[] = {
        { "-vf setsar=2/1", 256 }, { "-vf setsar=12/11", 140 }, { "-vf setsar=1/2", 64 },
        { "-vf setsar=1/1", 128 }, { "-vf setsar=300/1", 128 },
    };
    if (!clip_have_ffmpeg())
        skip();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        media_info info;
        char args[128];
        snprintf(args, sizeof args, "%s -c:v ffv1 -frames:v 3", rows[i].args);
        clip_ffmpeg(clip_dir, args, "sar.mkv");
        uint8_t *rgb = read_one(clip_path("sar.mkv"), 2, NULL, &info);
        if (info.w != rows[i].w || info.h != CLIP_H || info.coded_w != CLIP_W)
            fail_msg("%s: %dx%d", rows[i].args, info.w, info.h);
        assert_int_equal(clip_number(rgb, info.h, info.w), 2);
        free(rgb);
    }
}

/* ---- colour ---- */

static void test_colour(void **state)
{
    (void)state;
    static const char *const matrices[][2] = {
        { "bt709", "bt709" },   { "bt601", "smpte170m" },     { "bt601", "bt470bg" },
        { "bt601", "unknown" }, { "smpte240m", "smpte240m" }, { "bt2020", "bt2020nc" },
    };
    static const char *const formats[] = { "yuv420p", "yuv444p", "yuv420p10le", "yuv422p12le" };
    if (!clip_have_ffmpeg() || !clip_have_encoder("ffv1"))
        skip();
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++)
        for (int full = 0; full < 2; full++)
            for (size_t k = 0; k < sizeof formats / sizeof *formats; k++) {
                char args[512];
                media_info info;
                snprintf(args, sizeof args,
                         "-vf scale=out_color_matrix=%s:out_range=%s:flags=accurate_rnd,format=%s,"
                         "setparams=colorspace=%s:range=%s -c:v ffv1 -frames:v 1",
                         matrices[i][0], full ? "pc" : "tv", formats[k], matrices[i][1],
                         full ? "pc" : "tv");
                clip_ffmpeg(clip_dir, args, "colour.mkv");
                uint8_t *rgb = read_one(clip_path("colour.mkv"), 0, NULL, &info);
                for (int s = 0; s < 4; s++) {
                    double mean[3];
                    clip_square(mean, rgb, info.h, info.w, s);
                    for (int c = 0; c < 3; c++)     /* conversion and codec were lossy */
                        if (fabs(mean[c] - clip_colours[s][c]) > 3)
                            fail_msg("%s: square %d is %g %g %g", args, s, mean[0], mean[1],
                                     mean[2]);
                }
                free(rgb);
            }
}

/* ---- damaged and hostile files ---- */

/* Checks that each frame of a damaged file is right, or is refused with its number. Returns the
 * number of right frames. */
static int count_right(const char *path)
{
    media *m;
    media_info info;
    vc_err err = { 0 };
    int right = 0;
    if (media_open(&m, path, &info, &err)) {
        assert_says(&err, path);
        return 0;
    }
    media_fit fit = whole(&info);
    uint8_t *rgb = malloc((size_t)fit.h * (size_t)fit.w * 3);
    for (int64_t i = 0; i < info.frames; i++) {
        int rc = media_read(m, rgb, &i, 1, &fit, NULL, &err);
        char frame[64];
        snprintf(frame, sizeof frame, "frame %lld", (long long)i);
        if (rc && (rc != VC_EFORMAT || !strstr(err.text, frame)))
            fail_msg("%s: frame %lld: %s", path, (long long)i, err.text);
        if (!rc && clip_number(rgb, fit.h, fit.w) != i)
            fail_msg("%s: frame %lld shows %d", path, (long long)i, clip_number(rgb, fit.h, fit.w));
        right += !rc;
    }
    free(rgb);
    media_close(m);
    return right;
}

static void test_cut(void **state)
{
    (void)state;
    size_t n;
    uint8_t *p = clip_load(clip_path("numbers.mp4"), &n);
    int last = 0;
    for (int i = 0; i <= 24; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/cut%d.mp4", clip_dir, i);
        clip_save(path, p, n * (size_t)i / 24);
        int right = count_right(path);
        if (right < last)
            fail_msg("%s: %d right frames, fewer than in a shorter file", path, right);
        last = right;
    }
    assert_int_equal(last, CLIP_FRAMES);
    free(p);
}

static void test_hole(void **state)
{
    (void)state;
    if (!clip_have_ffmpeg() || !clip_have_encoder("libx264"))
        skip();
    clip_ffmpeg(clip_dir, "-c:v libx264 -crf 12 -g 12 -bf 2 -movflags faststart", "whole.mp4");
    size_t n;
    uint8_t *p = clip_load(clip_path("whole.mp4"), &n);
    memset(p + n / 2, 0xa5, 200);
    clip_save(clip_path("hole.mp4"), p, n);
    int right = count_right(clip_path("hole.mp4"));
    /* The hole damages one or two of 10 groups. */
    if (right >= CLIP_FRAMES || right < CLIP_FRAMES - 24)
        fail_msg("%d frames of %d are right", right, CLIP_FRAMES);
    free(p);
}

static void refuse(const char *name, int code, const char *why)
{
    media *m = (media *)(uintptr_t)1;
    vc_err err = { 0 };
    const char *path = *name == '/' ? name : clip_path(name);
    int rc = media_open(&m, path, NULL, &err);
    if (rc != code || m || strncmp(err.text, path, strlen(path)) || !strstr(err.text, why))
        fail_msg("%s: code %d, %s", name, rc, err.text);
}

static void test_refusals(void **state)
{
    (void)state;
    assert_int_equal(mkfifo(clip_path("fifo"), 0600), 0);
    clip_save(clip_path("empty"), "", 0);
    clip_save(clip_path("text.mp4"), "no video at all, but some words\n", 32);
    refuse("absent.mp4", VC_ENOENT, "cannot open");
    refuse("fifo", VC_EFORMAT, "regular");
    refuse(clip_dir, VC_EFORMAT, "regular");
    refuse("empty", VC_EFORMAT, "empty");
    refuse("text.mp4", VC_EFORMAT, "");

    /* Files in these formats make a reader open other files. */
    static const char *const lists[] = {
        "ffconcat version 1.0\nfile numbers.mp4\n",
        "#EXTM3U\n#EXT-X-TARGETDURATION:5\n#EXTINF:5,\nnumbers.mp4\n#EXT-X-ENDLIST\n",
        "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nm=video 5004 RTP/AVP 96\n",
        "<?xml version=\"1.0\"?><MPD xmlns=\"urn:mpeg:dash:schema:mpd:2011\"></MPD>",
    };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        clip_save(clip_path("list.mp4"), lists[i], strlen(lists[i]));
        refuse("list.mp4", VC_EFORMAT, "");
    }
}

static void test_arguments(void **state)
{
    (void)state;
    static const int64_t bad[][2] = { { 0, CLIP_FRAMES }, { -1, 0 }, { 5, 4 } };
    static const media_fit fits[] = {
        { 64, 128, 0, 1, 64, 128, .flip = false }, { 0, 128, 0, 0, 1, 1, .flip = false },
        { 64, 128, 60, 0, 5, 5, .flip = true },
    };
    media_info info;
    media *m = must_open(clip_path("numbers.mp4"), &info);
    media_fit fit = whole(&info);
    uint8_t *rgb = malloc(2 * CLIP_BYTES);
    vc_err err = { 0 };
    atomic_int stop = 1;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(media_read(m, rgb, bad[i], 2, &fit, NULL, &err), VC_EINVAL);
    for (size_t i = 0; i < sizeof fits / sizeof *fits; i++)
        assert_int_equal(media_read(m, rgb, (int64_t[]){ 0 }, 1, &fits[i], NULL, &err), VC_EINVAL);
    assert_int_equal(media_read(m, rgb, (int64_t[]){ 0 }, 1, &fit, &stop, &err), VC_ESTOP);
    stop = 0;
    assert_int_equal(media_read(m, rgb, (int64_t[]){ 4, 9 }, 2, &fit, &stop, &err), 0);
    assert_int_equal(clip_number(rgb, CLIP_H, CLIP_W), 4);
    assert_int_equal(clip_number(rgb + CLIP_BYTES, CLIP_H, CLIP_W), 9);
    assert_int_equal(media_read(m, rgb, NULL, 0, &fit, NULL, &err), 0);
    free(rgb);
    media_close(m);
    media_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streams),   cmocka_unit_test(test_hidden),
        cmocka_unit_test(test_seeks),
        cmocka_unit_test(test_threads),   cmocka_unit_test(test_rotation),
        cmocka_unit_test(test_fit),       cmocka_unit_test(test_sample_aspect),
        cmocka_unit_test(test_colour),    cmocka_unit_test(test_cut),
        cmocka_unit_test(test_hole),      cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_arguments),
    };
    return cmocka_run_group_tests(tests, clip_setup_numbers, clip_teardown);
}
