/* test_media_order.c - files whose packets have decoding times in place of times of presentation,
 * and joined streams: frames come in the order of display, as decoders return them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "precompute/media/internal.h"
#include "precompute/media/media.h"
#include "tests/lib/ok.h"
#include "tests/precompute/media/clip_fit.h"
#include "tests/precompute/media/media_clip.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* The files with right times, made first. */
static const struct { const char *file, *encoder, *args; } sources[] = {
    { "h264.mp4", "libx264", "-c:v libx264 -crf 12 -g 24 -bf 3 -x264-params b-pyramid=normal" },
    { "open.mp4", "libx264",
      "-c:v libx264 -crf 12 -x264-params open-gop=1:keyint=24:min-keyint=24:bframes=3" },
    { "deep.mp4", "libx264", "-c:v libx264 -crf 12 -g 500 -bf 8 -b_strategy 0" },
    { "hevc.mp4", "libx265",
      "-c:v libx265 -x265-params log-level=none:crf=12:keyint=24:open-gop=1:bframes=4" },
    { "mpeg4.avi", "mpeg4", "-c:v mpeg4 -q:v 2 -g 15 -bf 2" },
    { "one.avi", "mpeg4", "-c:v mpeg4 -q:v 2 -g 15 -bf 1 -b_strategy 0" },
    { "mpeg2.mp4", "mpeg2video", "-c:v mpeg2video -q:v 2 -g 15 -bf 2" },
    { "none.mp4", "libx264", "-c:v libx264 -crf 12 -g 24 -bf 0" },
    { "open.mkv", "libx264", "-i open.mp4 -map 1 -c copy" },
    { "open.ts", "libx264", "-i open.mp4 -map 1 -c copy" },
    { "h264.flv", "libx264", "-i h264.mp4 -map 1 -c copy" },
    { "hevc.mkv", "libx265", "-i hevc.mp4 -map 1 -c copy" },
};

/* Times in decoding order, 25 a second, in the ticks of the container, which is the source's too:
 * FFmpeg 9 takes ticks of the input, older ones those of the output. */
#define DECODED(ticks) "-map 1 -c copy -bsf:v setts=ts=N*" #ticks

typedef struct order_case {
    const char *file, *args;        /* args follow ffmpeg -i numbers.mp4 */
    int first;                      /* number of the first frame */
    bool reordered;
} order_case;

static const order_case files[] = {
    { "a.mp4", "-i h264.mp4 " DECODED(512), 0, true },
    { "b.mkv", "-i open.mkv " DECODED(40), 0, true },
    { "c.ts", "-i open.ts " DECODED(3600), 0, true },
    { "d.flv", "-i h264.flv " DECODED(40), 0, true },
    { "e.mov", "-i deep.mp4 " DECODED(512), 0, true },
    { "f.mp4", "-i hevc.mp4 " DECODED(512), 0, true },
    { "g.mkv", "-i hevc.mkv " DECODED(40), 0, true },
    { "h.mp4", "-i mpeg4.avi -map 1 -c copy", 0, true },
    { "i.mp4", "-i mpeg2.mp4 " DECODED(512), 0, true },
    { "j.mp4", "-i none.mp4 " DECODED(512), 0, false },
    /* some of the times alone are wrong */
    { "k.mkv", "-i h264.mp4 -map 1 -c copy -bsf:v 'setts=pts=if(lt(N\\,40)\\,DTS+81\\,PTS)'", 0,
      true },
    { "l.mp4", "-i h264.mp4 -map 1 -c copy", 0, false },
    { "m.mkv", "-ss 1.4 -i open.mp4 -map 1 -c copy", 24, false },
};

static int setup(void **state)
{
    clip_setup_numbers(state);
    for (size_t i = 0; clip_have_ffmpeg() && i < COUNT(sources); i++)
        if (clip_have_encoder(sources[i].encoder))
            clip_ffmpeg(clip_dir, sources[i].args, sources[i].file);
    return 0;
}

static int number_at(const char *file, media *m, const media_info *info, int64_t i)
{
    media_fit fit = { .rh = info->h, .rw = info->w, .h = info->h, .w = info->w };
    uint8_t *rgb = malloc((size_t)fit.h * (size_t)fit.w * 3);
    vc_err err = { 0 };
    if (media_read(m, rgb, &i, 1, &fit, NULL, &err))
        fail_msg("%s: frame %lld: %s", file, (long long)i, err.text);
    int number = clip_number(rgb, fit.h, fit.w);
    free(rgb);
    return number;
}

/* Checks that frame i shows i + first: from the first to the last, and by jumps. */
static void check_order(const char *file, int first, int frames, bool reordered)
{
    static const int steps[] = { 1, -29 };
    vc_err err = { 0 };
    for (size_t s = 0; s < COUNT(steps); s++) {
        media *m;
        media_info info;
        assert_ok(media_open(&m, clip_path(file), &info, &err), &err);
        if (info.frames != frames || info.reordered != reordered)
            fail_msg("%s: %lld frames, reordered %d", file, (long long)info.frames, info.reordered);
        for (int64_t k = 0, i = s ? frames * 2 / 3 : 0; k < (s ? 12 : frames);
             k++, i = (i + frames + steps[s]) % frames) {
            int number = number_at(file, m, &info, i);
            if (number != i + first)
                fail_msg("%s: frame %lld shows %d", file, (long long)i, number);
        }
        const double *t = media_times(m);
        for (int i = 1; i < frames; i++)
            if (t[i] <= t[i - 1])
                fail_msg("%s: frame %d at %g s, after %g s", file, i, t[i], t[i - 1]);
        media_close(m);
    }
}

static void test_order(void **state)
{
    (void)state;
    if (!clip_have_ffmpeg() || !clip_have_encoder("libx264") || !clip_have_encoder("libx265"))
        skip();
    for (size_t i = 0; i < COUNT(files); i++) {
        clip_ffmpeg(clip_dir, files[i].args, files[i].file);
        check_order(files[i].file, files[i].first, CLIP_FRAMES - files[i].first,
                    files[i].reordered);
    }
}

static void test_times(void **state)
{
    (void)state;
    static const char *const even[] = { "a.mp4", "b.mkv", "h.mp4", "i.mp4" };
    if (!clip_have_ffmpeg() || !clip_have_encoder("libx264") || !clip_have_encoder("libx265"))
        skip();
    for (size_t k = 0; k < COUNT(even); k++) {
        media *m;
        media_info info;
        vc_err err = { 0 };
        assert_ok(media_open(&m, clip_path(even[k]), &info, &err), &err);
        if (fabs(info.fps - CLIP_FPS) > 1e-6 || info.vfr || fabs(info.duration - 4.8) > 2e-3)
            fail_msg("%s: %g a second, vfr %d, %g s", even[k], info.fps, info.vfr, info.duration);
        for (int i = 0; i < CLIP_FRAMES; i++)
            assert_true(fabs(media_times(m)[i] - (double)i / CLIP_FPS) < 1.5e-3);
        media_close(m);
    }
}

/* A seek begins at the key frame, although the file was decoded to number its frames. */
static void test_seek(void **state)
{
    (void)state;
    static const char *const closed[] = { "a.mp4", "d.flv" };
    if (!clip_have_ffmpeg() || !clip_have_encoder("libx264") || !clip_have_encoder("libx265"))
        skip();
    for (size_t i = 0; i < COUNT(closed); i++) {
        media_io io;
        media_video v;
        vc_err err = { 0 };
        int64_t number;
        assert_int_equal(media_io_open(&io, clip_path(closed[i]), &err), 0);
        assert_ok(media_video_open(&v, &io, closed[i], &err), &err);
        assert_false(v.counted);
        assert_int_equal(media_video_seek(&v, 77, &err), 0);
        assert_int_equal(v.start, 72);
        assert_int_equal(media_video_next(&v, &number, &err), 1);
        assert_int_equal(number, 72);
        media_video_close(&v);
        media_io_close(&io);
    }
}

/* ---- two pictures in a packet, as DivX wrote AVI files ---- */

/* The type of a packet's picture: 0 I, 1 P, 2 B. */
static int vop_type(const AVPacket *pkt)
{
    for (int i = 0; i + 4 < pkt->size; i++)
        if (!memcmp(pkt->data + i, "\0\0\1\xb6", 4))
            return pkt->data[i + 4] >> 6;
    return -1;
}

static void write_packet(AVFormatContext *to, const void *data, int size, int flags, int number)
{
    AVPacket *pkt = av_packet_alloc();
    assert_int_equal(av_new_packet(pkt, size), 0);
    memcpy(pkt->data, data, (size_t)size);
    pkt->pts = pkt->dts = av_rescale_q(number, (AVRational){ 1, CLIP_FPS },
                                       to->streams[0]->time_base);
    pkt->duration = av_rescale_q(1, (AVRational){ 1, CLIP_FPS }, to->streams[0]->time_base);
    pkt->flags = flags;
    assert_int_equal(av_write_frame(to, pkt), 0);
    av_packet_free(&pkt);
}

/* Writes the packets of `from`, in which a B-picture follows each other picture: the two in one
 * packet, and then a picture that is not coded. The mark of DivX stands before the first one. */
static void pack(AVFormatContext *from, AVFormatContext *to)
{
    static const char mark[] = "\0\0\1\xb2" "DivX503b1393p";
    static const uint8_t empty[] = { 0, 0, 1, 0xb6, 0x50, 0x5f };
    AVPacket *pkt = av_packet_alloc(), *next = av_packet_alloc(), *swap;
    int more = av_read_frame(from, pkt), number = 0;
    while (more >= 0) {
        uint8_t both[1 << 16];
        int size = pkt->size, flags = pkt->flags;
        assert_true(size < 1 << 15);
        memcpy(both, pkt->data, (size_t)size);
        if (!number) {
            uint8_t *user = memmem(both, (size_t)size, "\0\0\1\xb2", 4);
            assert_non_null(user);
            memset(user + 4, 'x', 1);
            size_t at = (size_t)(user - both);
            uint8_t *end = memmem(user + 4, (size_t)size - at - 4, "\0\0\1", 3);
            size_t rest = (size_t)(both + size - end);
            memmove(user + sizeof mark - 1, end, rest);
            memcpy(user, mark, sizeof mark - 1);
            size = (int)(at + sizeof mark - 1 + rest);
        }
        more = av_read_frame(from, next);
        bool two = more >= 0 && vop_type(next) == 2;
        if (two) {
            assert_true(next->size < 1 << 15);
            memcpy(both + size, next->data, (size_t)next->size);
            size += next->size;
        }
        write_packet(to, both, size, flags, number++);
        if (two) {
            write_packet(to, empty, sizeof empty, 0, number++);
            av_packet_unref(next);
            more = av_read_frame(from, next);
        }
        swap = pkt;
        pkt = next;
        next = swap;
        av_packet_unref(next);
    }
    av_packet_free(&pkt);
    av_packet_free(&next);
}

static void make_packed(const char *name)
{
    AVFormatContext *from = NULL, *to;
    assert_int_equal(avformat_open_input(&from, clip_path("one.avi"), NULL, NULL), 0);
    assert_true(avformat_find_stream_info(from, NULL) >= 0);
    assert_true(avformat_alloc_output_context2(&to, NULL, NULL, name) >= 0);
    AVStream *st = avformat_new_stream(to, NULL);
    avcodec_parameters_copy(st->codecpar, from->streams[0]->codecpar);
    st->codecpar->codec_tag = 0;
    st->time_base = (AVRational){ 1, CLIP_FPS };
    assert_int_equal(avio_open(&to->pb, clip_path(name), AVIO_FLAG_WRITE), 0);
    assert_true(avformat_write_header(to, NULL) >= 0);
    pack(from, to);
    assert_int_equal(av_write_trailer(to), 0);
    avio_closep(&to->pb);
    avformat_free_context(to);
    avformat_close_input(&from);
}

static void test_packed(void **state)
{
    (void)state;
    if (!clip_have_ffmpeg() || !clip_have_encoder("mpeg4"))
        skip();
    make_packed("packed.avi");
    check_order("packed.avi", 0, CLIP_FRAMES, false);
    make_packed("packed.mp4");
    check_order("packed.mp4", 0, CLIP_FRAMES, true);
}

/* ---- damaged files ---- */

/* Checks that each frame of a file that was cut is right, or refused. Returns the right ones. */
static int count_right(const char *file)
{
    media *m;
    media_info info;
    vc_err err = { 0 };
    if (media_open(&m, clip_path(file), &info, &err))
        return 0;
    media_fit fit = { .rh = info.h, .rw = info.w, .h = info.h, .w = info.w };
    uint8_t *rgb = malloc((size_t)fit.h * (size_t)fit.w * 3);
    int right = 0;
    for (int64_t i = 0; i < info.frames; i++) {
        if (media_read(m, rgb, &i, 1, &fit, NULL, &err))
            continue;
        if (clip_number(rgb, fit.h, fit.w) != i)
            fail_msg("%s: frame %lld shows %d", file, (long long)i,
                     clip_number(rgb, fit.h, fit.w));
        right++;
    }
    free(rgb);
    media_close(m);
    return right;
}

static void test_cut(void **state)
{
    (void)state;
    if (!clip_have_ffmpeg() || !clip_have_encoder("libx264"))
        skip();
    clip_ffmpeg(clip_dir, "-i h264.mp4 " DECODED(512) " -movflags faststart", "whole.mp4");
    size_t n;
    uint8_t *p = clip_load(clip_path("whole.mp4"), &n);
    int last = 0;
    for (size_t i = 4; i <= 16; i += 2) {
        clip_save(clip_path("cut.mp4"), p, n * i / 16);
        int right = count_right("cut.mp4");
        if (right < last)
            fail_msg("%zu/16: %d right frames, fewer than in a shorter file", i, right);
        last = right;
    }
    assert_int_equal(last, CLIP_FRAMES);
    free(p);
}

/* ---- transport streams one after the other ---- */

static const struct { const char *encoder, *args, *b; bool reordered; } joins[] = {
    { "libx264", "-c:v libx264 -crf 12 -g 24 -bf 3", "", false },
    { "mpeg2video", "-c:v mpeg2video -q:v 2 -g 15 -bf 2", "", false },
    { "libx265", "-c:v libx265 -x265-params log-level=none:crf=12:keyint=24:bframes=3", "", false },
    /* in packets of 192 bytes */
    { "libx264", "-c:v libx264 -crf 12 -g 24 -bf 3 -mpegts_m2ts_mode 1", "", false },
    /* times that go on, times that leap, and times between those of the first file */
    { "libx264", "-c:v libx264 -crf 12 -g 24 -bf 3", "-output_ts_offset 2.4", false },
    { "libx264", "-c:v libx264 -crf 12 -g 24 -bf 3", "-output_ts_offset 60", false },
    { "libx264", "-c:v libx264 -crf 12 -g 24 -bf 3", "-muxdelay 0 -output_ts_offset 1.22",
      true },
};

static void test_joined(void **state)
{
    (void)state;
    if (!clip_have_ffmpeg())
        skip();
    for (size_t i = 0; i < COUNT(joins); i++) {
        char args[256];
        if (!clip_have_encoder(joins[i].encoder))
            continue;
        snprintf(args, sizeof args, "-frames:v 60 %s", joins[i].args);
        clip_ffmpeg(clip_dir, args, "first.ts");
        snprintf(args, sizeof args, "-vf trim=start_frame=60,setpts=PTS-STARTPTS %s %s",
                 joins[i].args, joins[i].b);
        clip_ffmpeg(clip_dir, args, "second.ts");
        clip_join("first.ts", "second.ts", "joined.ts");
        check_order("joined.ts", 0, CLIP_FRAMES, joins[i].reordered);
    }
}

static const struct { const char *encoder, *args; } fits[] = {
    { "libx264", "-c:v libx264 -crf 4 -g 24 -bf 3" },
    { "libx264", "-c:v libx264 -crf 4 -g 24 -bf 0 -coder 0 -mpegts_m2ts_mode 1" },
    { "libx264", "-c:v libx264 -crf 4 -g 24 -bf 0 -x264-params slices=4" },
    { "mpeg2video", "-c:v mpeg2video -q:v 1 -g 15 -bf 2" },
    { "mpeg4", "-c:v mpeg4 -q:v 1 -g 15 -bf 0" },
    /* whose decoder does not report missing ends */
    { "libx265", "-c:v libx265 -x265-params log-level=none:crf=5:keyint=24:bframes=0" },
    { "libx265", "-c:v libx265 -x265-params log-level=none:crf=5:keyint=24:bframes=0:slices=2 "
      "-mpegts_m2ts_mode 1" },
    { "libx265", "-c:v libx265 -x265-params log-level=none:crf=5:keyint=24:bframes=3" },
};

/* Makes two files, of which the first has 49 pictures. */
static void make_two(const char *args)
{
    char all[256];
    snprintf(all, sizeof all, "-vf noise=alls=30:allf=t -frames:v 49 %s", args);
    clip_ffmpeg(clip_dir, all, "first.ts");
    snprintf(all, sizeof all, "-vf trim=start_frame=49,setpts=PTS-STARTPTS %s", args);
    clip_ffmpeg(clip_dir, all, "second.ts");
}

/* Joins them, the first without its last `less` packets. */
static void join_fitting(const char *args, size_t less)
{
    clip_fit_last("first.ts", strstr(args, "m2ts") ? 192 : 188, less, 0, "fit.ts");
    clip_join("fit.ts", "second.ts", "joined.ts");
}

/* A picture that fills its last packet ends there, if its decoder finds it complete. */
static void test_fits_before_join(void **state)
{
    (void)state;
    if (!clip_have_ffmpeg())
        skip();
    for (size_t i = 0; i < COUNT(fits); i++)
        if (clip_have_encoder(fits[i].encoder)) {
            make_two(fits[i].args);
            join_fitting(fits[i].args, 0);
            check_order("joined.ts", 0, CLIP_FRAMES, false);
        }
}

/* A picture whose end is missing is refused, at a join too. */
static void test_cut_before_join(void **state)
{
    uint8_t rgb[CLIP_BYTES];
    const int64_t cut = 48, last = CLIP_FRAMES - 1;
    const media_fit fit = { .rh = CLIP_H, .rw = CLIP_W, .h = CLIP_H, .w = CLIP_W };
    (void)state;
    if (!clip_have_ffmpeg())
        skip();
    for (size_t i = 0; i < 4 * COUNT(fits); i++) {
        const char *args = fits[i / 4].args;
        media *m;
        media_info info;
        vc_err err = { 0 };
        if (!clip_have_encoder(fits[i / 4].encoder) || strstr(args, "bf 3") ||
            strstr(args, "bf 2") || strstr(args, "bframes=3"))
            continue;                            /* frame 48 is the last packet's without them */
        if (i % 4 == 0)
            make_two(args);
        join_fitting(args, i % 4 + 1);
        assert_ok(media_open(&m, clip_path("joined.ts"), &info, &err), &err);
        assert_int_equal(info.frames, CLIP_FRAMES);
        media_set_threads(m, i % 2 ? 4 : 1, &err);
        assert_fails(media_read(m, rgb, &cut, 1, &fit, NULL, &err), VC_EFORMAT, &err,
                     "frame 48 is damaged");
        assert_int_equal(number_at("joined.ts", m, &info, last), last);
        media_close(m);
    }
}

static void test_encrypted(void **state)
{
    media *m;
    media_info info;
    vc_err err = { 0 };
    (void)state;
    if (!clip_have_ffmpeg() || !clip_have_encoder("libx264"))
        skip();
    clip_ffmpeg(clip_dir, "-c:v libx264 -encryption_scheme cenc-aes-ctr "
                "-encryption_key 00112233445566778899aabbccddeeff "
                "-encryption_kid 0123456789abcdef0123456789abcdef", "encrypted.mp4");
    assert_fails(media_open(&m, clip_path("encrypted.mp4"), &info, &err), VC_EFORMAT, &err,
                 "the video is encrypted");
    assert_null(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order), cmocka_unit_test(test_times), cmocka_unit_test(test_seek),
        cmocka_unit_test(test_packed), cmocka_unit_test(test_cut), cmocka_unit_test(test_joined),
        cmocka_unit_test(test_fits_before_join), cmocka_unit_test(test_cut_before_join),
        cmocka_unit_test(test_encrypted),
    };
    return cmocka_run_group_tests(tests, setup, clip_teardown);
}
