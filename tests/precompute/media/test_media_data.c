/* test_media_data.c - real files in the folder VLT_TEST_DATA are read like the values in its
 * reference.json, which other builds of FFmpeg and Pillow made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>
#include <cmocka.h>
#include <libavutil/crc.h>
#include <libavutil/imgutils.h>
#include <libavutil/pixdesc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "precompute/media/internal.h"
#include "precompute/media/media.h"
#include "tests/lib/ok.h"

static const char *data;            /* VLT_TEST_DATA; NULL: not set */
static cJSON *reference;

static int setup(void **state)
{
    (void)state;
    data = getenv("VLT_TEST_DATA");
    if (!data)
        return 0;
    char *path = vc_path_join(data, "reference.json"), *text;
    size_t n;
    vc_err err = { 0 };
    if (vc_file_read(&text, &n, path, (size_t)1 << 26, &err)) {
        print_message("%s\n", err.text);
        return -1;
    }
    reference = cJSON_ParseWithLength(text, n);
    free(text);
    free(path);
    return reference ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    cJSON_Delete(reference);
    return 0;
}

static const char *in_folder(const char *folder, const char *name)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s/%s/%s", data, folder, name);
    return path;
}

static double number(const cJSON *o, const char *key)
{
    const cJSON *v = cJSON_GetObjectItem(o, key);
    return cJSON_IsNumber(v) ? v->valuedouble : NAN;
}

/* ---- decoded planes ---- */

/* zlib's crc32 of the bytes before, whose sum is crc, and of p */
static uint32_t crc_more(uint32_t crc, const uint8_t *p, size_t n)
{
    return ~av_crc(av_crc_get_table(AV_CRC_32_IEEE_LE), ~crc, p, n);
}

static uint32_t crc_frame(uint32_t crc, const AVFrame *f)
{
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(f->format);
    for (int plane = 0; plane < av_pix_fmt_count_planes(f->format); plane++) {
        bool chroma = plane == 1 || plane == 2;
        int h = chroma ? AV_CEIL_RSHIFT(f->height, d->log2_chroma_h) : f->height;
        int n = av_image_get_linesize(f->format, f->width, plane);
        for (int y = 0; y < h; y++)
            crc = crc_more(crc, f->data[plane] + (ptrdiff_t)y * f->linesize[plane], (size_t)n);
    }
    return crc;
}

/* Checks that the decoder below media.h has the same planes as the reference, bit for bit. */
static void check_planes(const char *name, const char *path, const cJSON *want)
{
    media_io io;
    media_video v;
    vc_err err = { 0 };
    int64_t at, frames = 0;
    uint32_t all = 0, first = 0, last = 0;
    int rc;
    if (media_io_open(&io, path, &err) || media_video_open(&v, &io, path, &err))
        fail_msg("%s: %s", name, err.text);
    assert_false(v.counted);            /* packets gave the number of frames, hidden ones too */
    while ((rc = media_video_next(&v, &at, &err)) == 1) {
        if (at != frames)
            fail_msg("%s: frame %lld was read as number %lld", name, (long long)at,
                     (long long)frames);
        last = crc_frame(0, v.frame);
        const uint8_t bytes[] = { (uint8_t)last, (uint8_t)(last >> 8), (uint8_t)(last >> 16),
                                  (uint8_t)(last >> 24) };
        all = crc_more(all, bytes, sizeof bytes);
        first = frames++ ? first : last;
    }
    assert_int_equal(rc, 0);
    if (first != (uint32_t)number(cJSON_GetObjectItem(want, "first"), "crc32_native") ||
        last != (uint32_t)number(cJSON_GetObjectItem(want, "last"), "crc32_native") ||
        all != (uint32_t)number(want, "all_frames_native_crc_chain"))
        fail_msg("%s: planes differ: %u %u %u", name, first, last, all);
    media_video_close(&v);
    media_io_close(&io);
}

/* ---- displayed pictures ---- */

static void mean_rgb(double mean[3], const uint8_t *rgb, size_t n)
{
    mean[0] = mean[1] = mean[2] = 0;
    for (size_t i = 0; i < n; i++)
        for (int c = 0; c < 3; c++)
            mean[c] += rgb[i * 3 + (size_t)c] / (double)n;
}

static void expect_mean(const char *name, const uint8_t *rgb, size_t n, const cJSON *want,
                        double tolerance)
{
    double mean[3];
    mean_rgb(mean, rgb, n);
    for (int c = 0; c < 3; c++)
        if (!(fabs(mean[c] - cJSON_GetArrayItem(want, c)->valuedouble) <= tolerance))
            fail_msg("%s: mean %g %g %g, should be %g %g %g", name, mean[0], mean[1], mean[2],
                     cJSON_GetArrayItem(want, 0)->valuedouble,
                     cJSON_GetArrayItem(want, 1)->valuedouble,
                     cJSON_GetArrayItem(want, 2)->valuedouble);
}

static uint8_t *read_one(media *m, const media_info *info, int64_t i, vc_err *err)
{
    media_fit fit = { .rh = info->h, .rw = info->w, .h = info->h, .w = info->w };
    uint8_t *rgb = malloc((size_t)info->h * (size_t)info->w * 3);
    if (media_read(m, rgb, &i, 1, &fit, NULL, err)) {
        free(rgb);
        return NULL;
    }
    return rgb;
}

static void check_info(const char *name, const media_info *info, const cJSON *want)
{
    int rotation = (int)fmax(0, -number(want, "rotation"));       /* fmax makes 0 of NAN */
    const cJSON *aspect = cJSON_GetObjectItem(want, "sample_aspect_ratio");
    double num = 1, den = 1;
    if (cJSON_IsString(aspect))
        sscanf(aspect->valuestring, "%lf:%lf", &num, &den);
    int w = (int)floor(info->coded_w * num / den + 0.5), h = info->coded_h;
    if (info->coded_w != number(want, "width") || info->coded_h != number(want, "height") ||
        info->rotation != rotation || info->w != (rotation % 180 ? h : w) ||
        info->h != (rotation % 180 ? w : h) || info->mirrored)
        fail_msg("%s: %dx%d, stored %dx%d, rotation %d", name, info->w, info->h, info->coded_w,
                 info->coded_h, info->rotation);
    if (info->frames != number(want, "frames") ||
        info->stream_index != number(want, "stream_index"))
        fail_msg("%s: %lld frames, stream %d", name, (long long)info->frames, info->stream_index);
    if (!info->is_video || strcmp(info->codec, cJSON_GetObjectItem(want, "codec")->valuestring))
        fail_msg("%s: video %d, codec %s", name, info->is_video, info->codec);
}

static void check_times(const char *name, const media *m, const cJSON *want)
{
    double num, den;
    const cJSON *pts = cJSON_GetObjectItem(want, "pts"), *p;
    sscanf(cJSON_GetObjectItem(want, "time_base")->valuestring, "%lf/%lf", &num, &den);
    int i = 0;
    cJSON_ArrayForEach(p, pts) {
        double t = (p->valuedouble - pts->child->valuedouble) * num / den;
        if (fabs(media_times(m)[i] - t) > 1e-6)
            fail_msg("%s: frame %d at %g s, should be %g", name, i, media_times(m)[i], t);
        i++;
    }
}

static void test_videos(void **state)
{
    (void)state;
    if (!data)
        skip();
    const cJSON *want;
    cJSON_ArrayForEach(want, cJSON_GetObjectItem(reference, "videos")) {
        const char *name = want->string, *path = in_folder("videos", name);
        const cJSON *cli = cJSON_GetObjectItem(want, "cli");
        const cJSON *means = cJSON_GetObjectItem(cli, "mean_rgb");
        media *m;
        media_info info;
        vc_err err = { 0 };
        assert_ok(media_open(&m, path, &info, &err), &err);
        check_info(name, &info, want);
        check_times(name, m, want);
        /* The last frame, the first and the middle one need two seeks. */
        const int64_t at[] = { info.frames - 1, 0, info.frames / 2 };
        for (int i = 0; i < 3; i++) {
            uint8_t *rgb = read_one(m, &info, at[i], &err);
            assert_ok(!rgb, &err);
            expect_mean(name, rgb, (size_t)info.h * (size_t)info.w,
                        cJSON_GetArrayItem(means, (int)at[i]), 1);
            free(rgb);
        }
        media_close(m);
        if (cJSON_IsTrue(cJSON_GetObjectItem(cli, "native_crc_agrees")))
            check_planes(name, path, want);
    }
}

static void test_images(void **state)
{
    (void)state;
    if (!data)
        skip();
    const cJSON *want;
    cJSON_ArrayForEach(want, cJSON_GetObjectItem(reference, "images")) {
        const char *name = want->string;
        bool jpeg = !strcmp(cJSON_GetObjectItem(want, "format")->valuestring, "JPEG");
        const cJSON *pillow = cJSON_GetObjectItem(want, "pillow_rgb_mean"),
                    *pyav = cJSON_GetObjectItem(cJSON_GetObjectItem(want, "pyav"), "mean_rgb"),
                    *size = cJSON_GetObjectItem(want, "oriented_size");
        media *m;
        media_info info;
        vc_err err = { 0 };
        if (media_open(&m, in_folder("images", name), &info, &err)) {
            if (number(want, "frames") == 1 || !strstr(err.text, "animated WebP"))
                fail_msg("%s", err.text);
            continue;
        }
        if (info.w != cJSON_GetArrayItem(size, 0)->valuedouble ||
            info.h != cJSON_GetArrayItem(size, 1)->valuedouble || info.is_video ||
            info.frames != 1)
            fail_msg("%s: %dx%d, video %d", name, info.w, info.h, info.is_video);
        uint8_t *rgb = read_one(m, &info, 0, &err);
        assert_ok(!rgb, &err);
        size_t n = (size_t)info.h * (size_t)info.w;
        /* Pillow has this JPEG decoder; in other formats Pillow rounds 16 bits and chroma
         * otherwise. */
        if (jpeg)
            expect_mean(name, rgb, n, pillow, 0.01);
        else
            expect_mean(name, rgb, n, pyav, 2);
        if (jpeg && !info.rotation && !info.mirrored &&
            crc_more(0, rgb, n * 3) != (uint32_t)number(want, "pillow_rgb_crc32"))
            print_message("%s: pixels differ from Pillow's within the tolerance\n", name);
        free(rgb);
        media_close(m);
    }
}

/* ---- broken files ---- */

typedef struct broken_case {
    const char *file;
    int least, most;        /* number of good frames; 0, 0: refused at open or at the first */
    const char *intact;     /* the intact file, which has the right frames */
} broken_case;

static const broken_case broken[] = {
    { "corrupted.mp4", 28, 49, NULL },      { "invalid-bitstream.webm", 0, 0, NULL },
    { "test_case_1185230.mp4", 0, 0, NULL }, { "invalid_userdata.mp4", 0, 0, NULL },
    { "annex-b.mp4", 4, 6, NULL },          { "video_with_failing_audio.mp4", 280, 280, NULL },
    { "truncated_jpeg.jpg", 0, 0, NULL },   { "truncated_image.png", 0, 0, NULL },
    { "broken_data_stream.png", 0, 0, NULL }, { "broken.png", 0, 0, NULL },
    { "png_decompression_dos.png", 1, 1, NULL }, { "no-hdlr.avif", 0, 0, NULL },
    { "cut_tail.mp4", 0, 0, NULL },         { "cut_half.webm", 120, 122, "videos/frog.webm" },
    { "bitflips.mp4", 1, 80, "videos/inpaint_video.mp4" }, { "cut_half.jpg", 0, 0, NULL },
    { "cut_third.webp", 0, 0, NULL },       { "empty.mp4", 0, 0, NULL },
    { "text_named.mp4", 0, 0, NULL },       { "jpeg_named.mp4", 1, 1, "images/butterfly.jpg" },
};

static int count_good(const broken_case *c, media *m, const media_info *info)
{
    media *intact = NULL;
    media_info intact_info = { 0 };
    vc_err err = { 0 };
    int good = 0;
    assert_ok(c->intact && media_open(&intact, in_folder(".", c->intact), &intact_info, &err),
              &err);
    for (int64_t i = 0; i < info->frames; i++) {
        uint8_t *rgb = read_one(m, info, i, &err);
        char frame[64];
        snprintf(frame, sizeof frame, "frame %lld", (long long)i);
        if (!rgb && (!strstr(err.text, c->file) || (info->frames > 1 && !strstr(err.text, frame))))
            fail_msg("%s: frame %lld: %s", c->file, (long long)i, err.text);
        if (rgb && intact) {
            uint8_t *same = read_one(intact, &intact_info, i, &err);
            if (!same || memcmp(rgb, same, (size_t)info->h * (size_t)info->w * 3))
                fail_msg("%s: frame %lld is damaged but was not refused", c->file, (long long)i);
            free(same);
        }
        good += !!rgb;
        free(rgb);
    }
    media_close(intact);
    return good;
}

static void test_broken(void **state)
{
    (void)state;
    if (!data)
        skip();
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        const broken_case *c = &broken[i];
        const char *path = in_folder("broken", c->file);
        media *m;
        media_info info;
        vc_err err = { 0 };
        int good = 0;
        if (!media_open(&m, path, &info, &err))
            good = count_good(c, m, &info);
        else if (strncmp(err.text, path, strlen(path)) || err.code != VC_EFORMAT)
            fail_msg("%s: code %d, %s", c->file, err.code, err.text);
        media_close(m);
        if (good < c->least || good > c->most)
            fail_msg("%s: %d good frames, expected %d to %d: %s", c->file, good, c->least, c->most,
                     err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_videos),
        cmocka_unit_test(test_images),
        cmocka_unit_test(test_broken),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
