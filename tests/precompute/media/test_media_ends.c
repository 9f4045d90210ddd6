/* test_media_ends.c - videos that are cut within a picture, at their end and at the join of two:
 * FFmpeg's decoder of HEVC reports nothing, others not all, and no wrong pixel is given. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "precompute/media/media.h"
#include "tests/lib/ok.h"
#include "tests/precompute/media/clip_fit.h"
#include "tests/precompute/media/media_clip.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

enum { PICTURES = 4, PACKET = 188, MOST = 2 * PICTURES };

#define X265 "-c:v libx265 -x265-params log-level=none:info=0:keyint=3:bframes=0:crf=8"

static const char *const encodings[] = {
    X265 ":wpp=0",
    X265 ":ctu=16:slices=2",
    X265 ":aud=1:repeat-headers=1 -pix_fmt yuv420p10le",
};

/* A still decoded picture each; NULL where the picture was refused. */
typedef struct pictures {
    uint8_t *rgb[MOST];
    int n;
} pictures;

static void pictures_free(pictures *p)
{
    for (int i = 0; i < MOST; i++)
        free(p->rgb[i]);
    *p = (pictures){ .n = 0 };
}

/* Where none can be decoded p stays empty. */
static void pictures_read(pictures *p, const char *file)
{
    const media_fit fit = { .rh = CLIP_H, .rw = CLIP_W, .h = CLIP_H, .w = CLIP_W };
    media *m;
    media_info info;
    vc_err err = { 0 };
    *p = (pictures){ .n = 0 };
    if (media_open(&m, clip_path(file), &info, &err))
        return;
    assert_true(info.frames <= MOST);
    p->n = (int)info.frames;
    for (int64_t i = 0; i < p->n; i++) {
        p->rgb[i] = malloc(CLIP_BYTES);
        assert_non_null(p->rgb[i]);
        if (media_read(m, p->rgb[i], &i, 1, &fit, NULL, &err)) {
            free(p->rgb[i]);
            p->rgb[i] = NULL;
        }
    }
    media_close(m);
}

/* Makes a file of some pictures and noise. */
static void make(const char *name, int from, int n, const char *args)
{
    char all[512];
    snprintf(all, sizeof all, "-vf trim=start_frame=%d,setpts=PTS-STARTPTS,noise=alls=60:allf=t "
             "-frames:v %d %s", from, n, args);
    clip_ffmpeg(clip_dir, all, name);
}

/* Checks that the pictures in `file` up to `n` are those of `whole`, or are refused. */
static void check(const char *file, const pictures *whole, int n, size_t at)
{
    pictures p;
    pictures_read(&p, file);
    for (int i = 0; i < p.n && i < n; i++)
        if (p.rgb[i] && (i >= whole->n || memcmp(p.rgb[i], whole->rgb[i], CLIP_BYTES)))
            fail_msg("%s, cut at %zu: picture %d of %d has wrong pixels", file, at, i, p.n);
    pictures_free(&p);
}

static void check_whole(const pictures *p, const char *file, int n)
{
    if (p->n != n)
        fail_msg("%s: %d pictures of %d", file, p->n, n);
    for (int i = 0; i < n; i++)
        if (!p->rgb[i])
            fail_msg("%s: picture %d is refused", file, i);
}

static void test_cut_at_end(void **state)
{
    static const struct { const char *name, *args; size_t step; } files[] = {
        { "whole.ts", "", PACKET }, { "whole.m2ts", "-mpegts_m2ts_mode 1", 192 },
        { "whole.hevc", "", 397 },   { "whole.nut", "", 431 },
        { "whole.mpg", "", 457 },   { "whole.mkv", "", 1011 },
        { "whole.mp4", "-movflags faststart", 1011 },
    };
    char args[256];

    (void)state;
    if (!clip_have_ffmpeg() || !clip_have_encoder("libx265"))
        skip();
    for (size_t i = 0; i < COUNT(encodings) * COUNT(files); i++) {
        const char *name = files[i % COUNT(files)].name;
        char cut[32];
        pictures whole;
        size_t n, step = files[i % COUNT(files)].step;
        snprintf(args, sizeof args, "%s %s", encodings[i / COUNT(files)],
                 files[i % COUNT(files)].args);
        make(name, 0, PICTURES, args);
        pictures_read(&whole, name);
        check_whole(&whole, name, PICTURES);
        uint8_t *p = clip_load(clip_path(name), &n);
        snprintf(cut, sizeof cut, "cut%s", strrchr(name, '.'));
        for (size_t at = n * 3 / 4 / step * step; at < n; at += step) {
            clip_save(clip_path(cut), p, at);
            check(cut, &whole, PICTURES, at);
        }
        free(p);
        pictures_free(&whole);
    }
}

/* The last picture of a whole file is given, wherever it is looked for. */
static void test_whole_at_end(void **state)
{
    static const struct { const char *encoder, *args, *files[8]; } codecs[] = {
        { "libx264", "-c:v libx264 -bf 2",
          { "a.asf", "a.flv", "a.h264", "a.mpg", "a.mxf", "a.nut", "a.ts" } },
        { "libx264", "-c:v libx264 -flags +ilme+ildct -x264-params tff=1", { "a.h264", "a.asf" } },
        { "mpeg2video", "-c:v mpeg2video -bf 2", { "a.asf", "a.m2v", "a.mpg", "a.mxf", "a.ts" } },
        { "mpeg1video", "-c:v mpeg1video -bf 2", { "a.m1v", "a.mpg" } },
        { "mpeg4", "-c:v mpeg4 -bf 2", { "a.asf", "a.m4v", "a.nut" } },
    };

    (void)state;
    if (!clip_have_ffmpeg())
        skip();
    for (size_t i = 0; i < COUNT(codecs); i++)
        for (size_t k = 0; clip_have_encoder(codecs[i].encoder) && codecs[i].files[k]; k++) {
            pictures p;
            make(codecs[i].files[k], 0, PICTURES, codecs[i].args);
            pictures_read(&p, codecs[i].files[k]);
            check_whole(&p, codecs[i].files[k], PICTURES);
            pictures_free(&p);
        }
}

static bool is_video(const uint8_t *packet)
{
    return ((packet[1] & 0x1f) << 8 | packet[2]) == 0x100 && packet[3] & 0x10;
}

/* Cuts the first of two files behind each packet of its last picture, also where the count of the
 * second file's packets continues that of the first one. */
static void check_joins(const char *args, int n)
{
    size_t size, more;
    pictures whole;
    int counts = 0;
    make("first.ts", 0, n, args);
    make("second.ts", n, PICTURES, args);
    pictures_read(&whole, "first.ts");
    check_whole(&whole, "first.ts", n);
    uint8_t *p = clip_load(clip_path("first.ts"), &size);
    uint8_t *q = clip_load(clip_path("second.ts"), &more);
    uint8_t *all = malloc(size + more);
    size_t at = size - PACKET;
    assert_non_null(all);
    while (!is_video(p + at))
        at -= PACKET;
    while (!is_video(p + at) || !(p[at + 1] & 0x40)) {
        at -= PACKET;
        if (!is_video(p + at))
            continue;
        counts |= 1 << (p[at + 3] & 15);
        memcpy(all, p, at + PACKET);
        memcpy(all + at + PACKET, q, more);
        clip_save(clip_path("joined.ts"), all, at + PACKET + more);
        check("joined.ts", &whole, n, at + PACKET);
    }
    if (counts != 0xffff)
        fail_msg("the last picture has too few packets to see all counts: %x", counts);
    free(all);
    free(q);
    free(p);
    pictures_free(&whole);
}

static void test_cut_before_join(void **state)
{
    (void)state;
    if (!clip_have_ffmpeg() || !clip_have_encoder("libx265"))
        skip();
    for (size_t i = 0; i < COUNT(encodings); i++) {
        check_joins(encodings[i], 1);       /* FFmpeg marks no picture in front of the first one */
        check_joins(encodings[i], PICTURES);
    }
}

/* The last picture of the first file fills its last packet. Without its last bytes it is refused,
 * or still the same; whole it is given. */
static void check_bytes(const char *args, int n)
{
    enum { MOST_BYTES = 8 };
    pictures whole, p;

    make("first.ts", 0, n, args);
    make("second.ts", n, PICTURES, args);
    pictures_read(&whole, "first.ts");
    check_whole(&whole, "first.ts", n);
    for (size_t bytes = 0; bytes <= MOST_BYTES; bytes++) {
        clip_fit_last("first.ts", PACKET, 0, bytes, "fit.ts");
        clip_join("fit.ts", "second.ts", "joined.ts");
        check("joined.ts", &whole, n, bytes);
    }
    clip_fit_last("first.ts", PACKET, 0, 0, "fit.ts");
    clip_join("fit.ts", "second.ts", "joined.ts");
    pictures_read(&p, "joined.ts");
    check_whole(&p, "joined.ts", n + PICTURES);
    pictures_free(&p);
    pictures_free(&whole);
}

static void test_bytes_before_join(void **state)
{
    static const struct { const char *encoder, *args; } files[] = {
        { "libx265", X265 ":wpp=0" },
        { "libx265", X265 ":ctu=16:slices=2" },
        { "libx265", X265 ":ctu=16:slices=4" },
        { "libx265", X265 ":aud=1:repeat-headers=1 -pix_fmt yuv420p10le" },
        { "libx264", "-c:v libx264 -crf 8 -g 3 -bf 0" },
        { "libx264", "-c:v libx264 -crf 8 -g 12 -bf 2" },
        { "libx264", "-c:v libx264 -crf 8 -g 3 -bf 0 -x264-params slices=4" },
        { "libx264", "-c:v libx264 -crf 8 -g 3 -bf 0 -coder 0" },
        { "mpeg2video", "-c:v mpeg2video -q:v 4 -g 12 -bf 0" },
        { "mpeg2video", "-c:v mpeg2video -q:v 4 -g 12 -bf 2" },
        { "mpeg1video", "-c:v mpeg1video -q:v 4 -g 12 -bf 2" },
        { "mpeg4", "-c:v mpeg4 -q:v 4 -g 12 -bf 2" },
    };

    (void)state;
    if (!clip_have_ffmpeg())
        skip();
    for (size_t i = 0; i < COUNT(files); i++)
        if (clip_have_encoder(files[i].encoder)) {
            check_bytes(files[i].args, 1);
            check_bytes(files[i].args, 2);
            check_bytes(files[i].args, PICTURES);
        }
}

/* Pictures of other key frames than the damaged one's are what they are without damage. FFmpeg's
 * decoder of H.264 keeps coefficients of CAVLC behind an error. */
#define CAVLC "-c:v libx264 -crf 8 -g 2 -bf 0 -coder 0 -x264-params scenecut=0"

static void test_joined_behind_error(void **state)
{
    pictures second, p;

    (void)state;
    if (!clip_have_ffmpeg() || !clip_have_encoder("libx264"))
        skip();
    make("first.ts", 0, 1, CAVLC);
    make("second.ts", 1, PICTURES, CAVLC);
    pictures_read(&second, "second.ts");
    check_whole(&second, "second.ts", PICTURES);
    for (size_t less = 1; less < 9; less++) {
        clip_fit_last("first.ts", PACKET, less, 0, "fit.ts");
        clip_join("fit.ts", "second.ts", "joined.ts");
        pictures_read(&p, "joined.ts");
        if (p.n != 1 + PICTURES)
            fail_msg("%zu packets less: %d pictures", less, p.n);
        for (int i = 0; i < PICTURES; i++)
            if (!p.rgb[1 + i] || memcmp(p.rgb[1 + i], second.rgb[i], CLIP_BYTES))
                fail_msg("%zu packets less: picture %d of the second file", less, i);
        pictures_free(&p);
    }
    pictures_free(&second);
}

/* Two pictures are damaged, and two follow from the next key frame on. */
static void test_behind_error(void **state)
{
    enum { STEP = 173, DAMAGE = 24, NEXT = 2 };
    pictures whole, p;
    size_t n;

    (void)state;
    if (!clip_have_ffmpeg() || !clip_have_encoder("libx264"))
        skip();
    make("whole.mp4", 0, PICTURES, CAVLC);
    pictures_read(&whole, "whole.mp4");
    check_whole(&whole, "whole.mp4", PICTURES);
    uint8_t *data = clip_load(clip_path("whole.mp4"), &n), keep[DAMAGE];
    for (size_t at = n / 8; at < n * 2 / 5; at += STEP) {
        memcpy(keep, data + at, DAMAGE);
        memset(data + at, 0x55, DAMAGE);
        clip_save(clip_path("damaged.mp4"), data, n);
        memcpy(data + at, keep, DAMAGE);
        pictures_read(&p, "damaged.mp4");
        assert_int_equal(p.n, PICTURES);
        for (int i = NEXT; i < PICTURES; i++)
            if (!p.rgb[i] || memcmp(p.rgb[i], whole.rgb[i], CLIP_BYTES))
                fail_msg("damage at %zu of %zu: picture %d", at, n, i);
        pictures_free(&p);
    }
    free(data);
    pictures_free(&whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_at_end), cmocka_unit_test(test_whole_at_end),
        cmocka_unit_test(test_cut_before_join),
        cmocka_unit_test(test_bytes_before_join),
        cmocka_unit_test(test_joined_behind_error), cmocka_unit_test(test_behind_error),
    };
    return cmocka_run_group_tests(tests, clip_setup_numbers, clip_teardown);
}
