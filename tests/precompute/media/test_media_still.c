/* test_media_still.c - stills are read right, and so are files that precompute/media/write.h
 * writes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <turbojpeg.h>

#include "precompute/media/media.h"
#include "precompute/media/write.h"
#include "tests/lib/ok.h"
#include "tests/precompute/media/media_clip.h"

/* A smooth picture without symmetry, different in each channel. */
static uint8_t *picture(int h, int w)
{
    uint8_t *rgb = malloc((size_t)h * (size_t)w * 3), *p = rgb;
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++, p += 3) {
            p[0] = (uint8_t)(20 + 200 * x / w);
            p[1] = (uint8_t)(230 - 180 * y / h);
            p[2] = (uint8_t)(60 + 120 * ((x + 2 * y) % (w + 2 * h)) / (w + 2 * h));
        }
    return rgb;
}

/* Reads a still in displayed orientation; NULL and *err where open or read refuses the file. */
static uint8_t *read_still(const char *path, media_info *info, vc_err *err)
{
    media *m;
    if (media_open(&m, path, info, err))
        return NULL;
    media_fit fit = { .rh = info->h, .rw = info->w, .h = info->h, .w = info->w };
    uint8_t *rgb = malloc((size_t)info->h * (size_t)info->w * 3);
    for (int again = 0; again < 2; again++)         /* a second read has equal pixels */
        if (media_read(m, rgb, (int64_t[]){ 0 }, 1, &fit, NULL, err)) {
            free(rgb);
            rgb = NULL;
            break;
        }
    if (rgb)
        assert_true(info->frames == 1 && !info->is_video && !media_times(m));
    media_close(m);
    return rgb;
}

static uint8_t *must_read(const char *path, media_info *info)
{
    vc_err err = { 0 };
    uint8_t *rgb = read_still(path, info, &err);
    assert_ok(!rgb, &err);
    return rgb;
}

static double worst(const uint8_t *a, const uint8_t *b, size_t n)
{
    int most = 0;
    for (size_t i = 0; i < n; i++)
        most = abs(a[i] - b[i]) > most ? abs(a[i] - b[i]) : most;
    return most;
}

static void test_png(void **state)
{
    (void)state;
    static const int sizes[][2] = { { 1, 1 }, { 7, 13 }, { 101, 67 }, { 2, 500 } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int h = sizes[i][0], w = sizes[i][1];
        media_info info;
        vc_err err = { 0 };
        uint8_t *rgb = picture(h, w);
        assert_ok(media_write_png(clip_path("a.png"), rgb, h, w, &err), &err);
        uint8_t *back = must_read(clip_path("a.png"), &info);
        assert_int_equal(info.h, h);
        assert_int_equal(info.w, w);
        assert_memory_equal(back, rgb, (size_t)h * (size_t)w * 3);
        free(rgb);
        free(back);
    }
}

/* The ffmpeg program makes stills of many pixel formats from one PNG; the tolerance of each is the
 * loss of its format. */
static void test_formats(void **state)
{
    (void)state;
    static const struct { const char *encoder, *args, *file; int tolerance; } rows[] = {
        { "png", "-pix_fmt rgba", "f.png", 0 },       { "png", "-pix_fmt rgb48be", "f.png", 1 },
        { "png", "-pix_fmt rgba64be", "f.png", 1 },   { "png", "-pix_fmt gray", "f.png", 255 },
        { "png", "-pix_fmt ya8", "f.png", 255 },      { "png", "-pix_fmt gray16be", "f.png", 255 },
        { "png", "-pix_fmt monob", "f.png", 255 },    { "bmp", "", "f.bmp", 0 },
        { "tiff", "", "f.tiff", 0 },                  { "ppm", "", "f.ppm", 0 },
        { "ppm", "-pix_fmt rgb48be", "f.ppm", 1 },    { "pam", "", "f.pam", 0 },
        { "pam", "-pix_fmt rgba", "f.PAM", 0 },       { "targa", "", "f.tga", 0 },
        { "targa", "-rle 0", "f.TGA", 0 },            { "targa", "-pix_fmt bgra", "f.tga", 0 },
        { "targa", "-f image2", "f.bin", -1 },        { "qoi", "", "f.qoi", 0 },
        { "jpeg2000", "-pred 1 -pix_fmt rgb24", "f.jp2", 0 },
        { "jpeg2000", "-f image2 -pred 1 -pix_fmt rgb24", "f.jpf", 0 },
        { "mjpeg", "-f image2 -q:v 1 -pix_fmt yuvj444p", "f.jfif", 8 },
        { "png", "-f image2", "f.tga", 0 },           { "libwebp", "-lossless 1", "f.webp", 0 },
        { "libwebp", "-quality 95", "f.webp", 12 },   { "gif", "", "f.gif", 100 },
    };
    if (!clip_have_ffmpeg())
        skip();
    enum { H = 61, W = 83 };
    uint8_t *rgb = picture(H, W);
    assert_int_equal(media_write_png(clip_path("f0.png"), rgb, H, W, NULL), 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char cmd[1024];
        media_info info;
        vc_err err = { 0 };
        if (!clip_have_encoder(rows[i].encoder)) {
            print_message("%s: skipped, since ffmpeg lacks the encoder\n", rows[i].encoder);
            continue;
        }
        snprintf(cmd, sizeof cmd, "cd '%s' && ffmpeg -nostdin -v error -y -i f0.png -frames:v 1 "
                 "-sws_flags accurate_rnd+full_chroma_int -c:v %s %s %s", clip_dir, rows[i].encoder,
                 rows[i].args, rows[i].file);
        assert_int_equal(system(cmd), 0);
        uint8_t *back = read_still(clip_path(rows[i].file), &info, &err);
        if (rows[i].tolerance < 0) {                /* a format that is refused */
            assert_null(back);
            continue;
        }
        if (!back)
            fail_msg("%s %s: %s", rows[i].file, rows[i].args, err.text);
        assert_true(info.h == H && info.w == W);
        if (worst(rgb, back, H * W * 3) > rows[i].tolerance)
            fail_msg("%s %s: off by %g", rows[i].file, rows[i].args, worst(rgb, back, H * W * 3));
        free(back);
    }
    free(rgb);
}

/* Makes the still OUT of the still IN with the ffmpeg program. */
static void convert(const char *in, const char *args, const char *out)
{
    char cmd[1024];
    snprintf(cmd, sizeof cmd, "cd '%s' && ffmpeg -nostdin -v error -y -i %s -frames:v 1 %s %s",
             clip_dir, in, args, out);
    assert_int_equal(system(cmd), 0);
}

/* FFmpeg decodes a QOI picture that is cut short without an error. */
static void test_qoi_damage(void **state)
{
    (void)state;
    if (!clip_have_encoder("qoi"))
        skip();
    size_t n;
    media_info info;
    uint8_t *rgb = picture(61, 83);
    assert_int_equal(media_write_png(clip_path("f0.png"), rgb, 61, 83, NULL), 0);
    free(rgb);
    convert("f0.png", "", "f.qoi");
    uint8_t *data = clip_load(clip_path("f.qoi"), &n);
    free(must_read(clip_path("f.qoi"), &info));
    for (size_t cut = n - 1; cut > 20; cut -= cut / 3) {
        vc_err err = { 0 };
        clip_save(clip_path("cut.qoi"), data, cut);
        assert_null(read_still(clip_path("cut.qoi"), &info, &err));
        assert_says(&err, "cut short");
    }
    free(data);
}

/* Grays of 16 bits, and with alpha, have the full range in every format: no level moves by more
 * than the rounding. */
static void test_gray(void **state)
{
    (void)state;
    static const struct { const char *encoder, *args, *file; bool anew; } rows[] = {
        { "pgm", "-pix_fmt gray16be", "g.pgm", true },
        { "pgm", "-pix_fmt gray", "g.pgm", false },
        { "jpeg2000", "-pix_fmt gray16le -pred 1", "g.jp2", true },
        { "jpeg2000", "-pix_fmt gray -pred 1", "g.jp2", false },
        { "png", "-pix_fmt gray16be", "g.png", false },
        { "png", "-pix_fmt ya8", "g.png", false },
    };
    if (!clip_have_ffmpeg())
        skip();
    enum { H = 16, W = 256 };
    uint8_t *rgb = malloc(H * W * 3);
    for (int i = 0; i < H * W; i++)
        memset(rgb + i * 3, i % W, 3);
    assert_int_equal(media_write_png(clip_path("g0.png"), rgb, H, W, NULL), 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char cmd[1024];
        media_info info;
        if (!clip_have_encoder(rows[i].encoder))
            continue;
        snprintf(cmd, sizeof cmd, "cd '%s' && ffmpeg -nostdin -v error -y -i g0.png -frames:v 1 "
                 "-vf scale=out_range=pc -c:v %s %s %s", clip_dir, rows[i].encoder, rows[i].args,
                 rows[i].file);
        assert_int_equal(system(cmd), 0);
        const char *path = clip_path(rows[i].file), *name;
        vc_err err = { 0 };
        assert_ok(media_reading(&name, &(vf_part){ .name = path, .file = path }, &err), &err);
        uint8_t *back = must_read(path, &info);
        if (worst(rgb, back, H * W * 3) > 2)
            fail_msg("%s: off by %g", rows[i].args, worst(rgb, back, H * W * 3));
        if (!name == rows[i].anew)
            fail_msg("%s %s: its key is wrong", rows[i].file, rows[i].args);
        free(back);
    }
    free(rgb);
}

/* ---- EXIF ---- */

/* A TIFF structure with two entries, of which the second is the orientation; big or little
 * endian. */
static size_t exif_block(uint8_t *p, int orientation, bool big)
{
    static const uint8_t little_form[] = {
        'I', 'I', 42, 0, 8, 0, 0, 0, 2, 0, 0x0f, 1, 2, 0, 1, 0, 0, 0, 'x', 0, 0, 0,
        0x12, 1, 3, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    };
    static const uint8_t big_form[] = {
        'M', 'M', 0, 42, 0, 0, 0, 8, 0, 2, 1, 0x0f, 0, 2, 0, 0, 0, 1, 'x', 0, 0, 0,
        1, 0x12, 0, 3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0,
    };
    memcpy(p, big ? big_form : little_form, sizeof big_form);
    p[big ? 31 : 30] = (uint8_t)orientation;
    return sizeof big_form;
}

/* A copy of p with the n bytes `more` inserted at `at`, malloc'ed. */
static uint8_t *insert(const uint8_t *p, size_t *size, size_t at, const uint8_t *more, size_t n)
{
    uint8_t *out = malloc(*size + n);
    memcpy(out, p, at);
    memcpy(out + at, more, n);
    memcpy(out + at + n, p + at, *size - at);
    *size += n;
    return out;
}

static uint32_t png_crc(const uint8_t *p, size_t n)
{
    uint32_t c = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        c ^= p[i];
        for (int k = 0; k < 8; k++)
            c = c & 1 ? 0xedb88320u ^ c >> 1 : c >> 1;
    }
    return ~c;
}

static void put32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (24 - 8 * i));
}

static void jpeg_with_exif(const char *path, const uint8_t *jpeg, size_t n, int orientation,
                           bool big)
{
    uint8_t app1[64] = { 0xff, 0xe1, 0, 0, 'E', 'x', 'i', 'f', 0, 0 };
    size_t len = 10 + exif_block(app1 + 10, orientation, big);
    app1[3] = (uint8_t)(len - 2);
    uint8_t *p = insert(jpeg, &n, 2, app1, len);
    clip_save(path, p, n);
    free(p);
}

static void png_with_exif(const char *path, const uint8_t *png, size_t n, int orientation, bool big)
{
    uint8_t chunk[64];
    size_t len = exif_block(chunk + 8, orientation, big);
    put32(chunk, (uint32_t)len);
    memcpy(chunk + 4, "eXIf", 4);
    put32(chunk + 8 + len, png_crc(chunk + 4, len + 4));
    uint8_t *p = insert(png, &n, 8 + 25, chunk, len + 12);     /* after IHDR */
    clip_save(path, p, n);
    free(p);
}

/* The stored place of the displayed pixel (y, x), by the EXIF standard's table of orientations. */
static void stored_place(int exif, int h, int w, int y, int x, int *sy, int *sx)
{
    int bottom = h - 1, right = w - 1;
    *sy = exif == 3 || exif == 4 ? bottom - y : y;
    *sx = exif == 2 || exif == 3 ? right - x : x;
    if (exif >= 5) {
        *sy = exif == 6 || exif == 7 ? bottom - x : x;
        *sx = exif == 7 || exif == 8 ? right - y : y;
    }
}

static void check_exif(const char *path, const uint8_t *stored, int h, int w, int orientation)
{
    media_info info;
    uint8_t *shown = must_read(path, &info);
    assert_int_equal(info.h, orientation >= 5 ? w : h);
    assert_int_equal(info.w, orientation >= 5 ? h : w);
    for (int y = 0; y < info.h; y++)
        for (int x = 0; x < info.w; x++) {
            int sy, sx;
            stored_place(orientation, h, w, y, x, &sy, &sx);
            if (memcmp(shown + (y * info.w + x) * 3, stored + (sy * w + sx) * 3, 3))
                fail_msg("%s: orientation %d: pixel %d,%d", path, orientation, y, x);
        }
    free(shown);
}

static void test_exif(void **state)
{
    (void)state;
    enum { H = 24, W = 40 };
    uint8_t *rgb = picture(H, W), *jpeg;
    size_t n, png_n;
    media_info info;
    assert_int_equal(media_jpeg(&jpeg, &n, rgb, H, W, 95, NULL), 0);
    clip_save(clip_path("e.jpg"), jpeg, n);
    uint8_t *decoded = must_read(clip_path("e.jpg"), &info);
    assert_int_equal(media_write_png(clip_path("e.png"), rgb, H, W, NULL), 0);
    uint8_t *png = clip_load(clip_path("e.png"), &png_n);
    for (int o = 0; o <= 9; o++)
        for (int big = 0; big < 2; big++) {
            int valid = o >= 1 && o <= 8 ? o : 1;
            jpeg_with_exif(clip_path("e.jpg"), jpeg, n, o, big);
            check_exif(clip_path("e.jpg"), decoded, H, W, valid);
            png_with_exif(clip_path("e.png"), png, png_n, o, big);
            check_exif(clip_path("e.png"), rgb, H, W, valid);
        }
    free(rgb);
    free(jpeg);
    free(decoded);
    free(png);
}

/* ---- JPEG ---- */

static void save_jpeg(const char *path, const uint8_t *pixels, int h, int w, int format,
                      int subsampling, int flags)
{
    uint8_t *buf = NULL;
    unsigned long n = 0;
    tjhandle tj = tjInitCompress();
    assert_int_equal(tjCompress2(tj, pixels, w, 0, h, format, &buf, &n, subsampling, 98, flags), 0);
    clip_save(path, buf, n);
    tjFree(buf);
    tjDestroy(tj);
}

static void test_jpeg_kinds(void **state)
{
    (void)state;
    enum { H = 47, W = 61 };
    static const struct { int subsampling, flags, tolerance; } rows[] = {
        { TJSAMP_444, 0, 4 }, { TJSAMP_420, 0, 12 }, { TJSAMP_422, 0, 12 }, { TJSAMP_440, 0, 12 },
        { TJSAMP_411, 0, 20 }, { TJSAMP_420, TJFLAG_PROGRESSIVE, 12 },
    };
    media_info info;
    uint8_t *rgb = picture(H, W), *cmyk = malloc(H * W * 4);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        save_jpeg(clip_path("k.jpg"), rgb, H, W, TJPF_RGB, rows[i].subsampling, rows[i].flags);
        uint8_t *back = must_read(clip_path("k.jpg"), &info);
        if (worst(rgb, back, H * W * 3) > rows[i].tolerance)
            fail_msg("row %zu: off by %g", i, worst(rgb, back, H * W * 3));
        free(back);
    }
    for (int i = 0; i < H * W; i++) {               /* inverted; half of the ink is black */
        for (int c = 0; c < 3; c++)
            cmyk[i * 4 + c] = rgb[i * 3 + c];
        cmyk[i * 4 + 3] = 128;
        for (int c = 0; c < 3; c++)
            rgb[i * 3 + c] = (uint8_t)((rgb[i * 3 + c] * 128 + 127) / 255);
    }
    save_jpeg(clip_path("cmyk.jpg"), cmyk, H, W, TJPF_CMYK, TJSAMP_444, 0);
    uint8_t *back = must_read(clip_path("cmyk.jpg"), &info);
    assert_true(worst(rgb, back, H * W * 3) <= 4);
    free(back);

    save_jpeg(clip_path("gray.jpg"), rgb, H, W, TJPF_RGB, TJSAMP_GRAY, 0);
    back = must_read(clip_path("gray.jpg"), &info);
    for (int i = 0; i < H * W; i++)
        assert_true(back[i * 3] == back[i * 3 + 1] && back[i * 3] == back[i * 3 + 2]);
    free(back);
    free(rgb);
    free(cmyk);
}

/* Every truncated file is refused. Stray bytes between headers are not damage, and hide no damage
 * after them. */
static void test_damage(void **state)
{
    (void)state;
    static const char *const files[] = { "d.jpg", "d.png", "dp.jpg" };
    enum { H = 60, W = 80 };
    uint8_t *rgb = picture(H, W);
    media_info info;
    for (int i = 0; i < H * W * 3; i++)             /* noise: every byte of data matters */
        rgb[i] = (uint8_t)(rgb[i] ^ (i * 7919 >> 7 & 31));
    assert_int_equal(media_write_png(clip_path("d.png"), rgb, H, W, NULL), 0);
    assert_int_equal(media_write_jpeg(clip_path("d.jpg"), rgb, H, W, 90, NULL), 0);
    save_jpeg(clip_path("dp.jpg"), rgb, H, W, TJPF_RGB, TJSAMP_420, TJFLAG_PROGRESSIVE);
    for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
        size_t n;
        uint8_t *p = clip_load(clip_path(files[k]), &n);
        /* The last chunk of a PNG, 12 bytes, holds no data. */
        for (size_t cut = 1; cut < n - 12; cut += n / 60) {
            vc_err err = { 0 };
            clip_save(clip_path("cut"), p, cut);
            if (read_still(clip_path("cut"), &info, &err) || err.code != VC_EFORMAT)
                fail_msg("%s cut to %zu of %zu bytes: %s", files[k], cut, n, err.text);
        }
        free(p);
    }
    size_t n;
    uint8_t *p = clip_load(clip_path("d.jpg"), &n);
    uint8_t *junk = insert(p, &n, 20, (const uint8_t *)"junk", 4);     /* after JFIF's header */
    clip_save(clip_path("junk.jpg"), junk, n);
    free(must_read(clip_path("junk.jpg"), &info));
    vc_err err = { 0 };
    for (size_t i = n / 2; i < n / 2 + 40; i++)     /* no Huffman code has all bits set */
        junk[i] = i & 1 ? 0 : 0xff;
    junk[n / 2 + 40] = junk[n / 2 - 1] = 0;
    clip_save(clip_path("junk.jpg"), junk, n);
    if (read_still(clip_path("junk.jpg"), &info, &err))
        fail_msg("damage after junk is not found");
    free(p);
    free(junk);
    free(rgb);
}

/* ---- written files ---- */

static void test_shrink(void **state)
{
    (void)state;
    static const int rows[][5] = { /* h, w, side, h, w */
        { 100, 200, 50, 25, 50 }, { 201, 99, 64, 64, 32 }, { 10, 20, 50, 10, 20 },
        { 1, 999, 9, 1, 9 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const int *r = rows[i];
        uint8_t *rgb = picture(r[0], r[1]), *small;
        int h, w;
        assert_int_equal(media_shrink(&small, &h, &w, rgb, r[0], r[1], r[2], NULL), 0);
        assert_int_equal(h, r[3]);
        assert_int_equal(w, r[4]);
        if (h == r[0] && w == r[1])
            assert_memory_equal(small, rgb, (size_t)h * (size_t)w * 3);
        free(rgb);
        free(small);
    }
}

static int count_files(void)
{
    int n = 0;
    DIR *d = opendir(clip_dir);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static void test_mp4(void **state)
{
    (void)state;
    static const struct { int n, h, w; double fps, tolerance; } rows[] = {
        { 9, 48, 64, 25, 4 },     { 5, 33, 47, 24000 / 1001., 4 }, { 1, 16, 16, 8, 4 },
        { 3, 31, 64, 59.94, 4 },  { 4, 2, 2, 0.5, 60 },        /* one chroma sample in all */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int n = rows[i].n, h = rows[i].h, w = rows[i].w;
        size_t bytes = (size_t)h * (size_t)w * 3;
        uint8_t *one = picture(h, w), *rgb = malloc(bytes * (size_t)n);
        for (int k = 0; k < n; k++)
            memcpy(rgb + bytes * (size_t)k, one, bytes);
        vc_err err = { 0 };
        if (media_write_mp4(clip_path("m.mp4"), rgb, n, h, w, rows[i].fps, &err))
            fail_msg("row %zu: %s", i, err.text);
        media *m;
        media_info info;
        if (media_open(&m, clip_path("m.mp4"), &info, &err))
            fail_msg("row %zu: %s", i, err.text);
        if (info.frames != n || info.h != h + (h & 1) || info.w != w + (w & 1) || !info.is_video ||
            fabs(info.fps - rows[i].fps) > 1e-3 || info.vfr)
            fail_msg("row %zu: %lld frames of %dx%d at %g", i, (long long)info.frames, info.w,
                     info.h, info.fps);
        media_fit fit = { .rh = info.h, .rw = info.w, .h = h, .w = w };
        uint8_t *back = malloc(bytes);
        assert_int_equal(media_read(m, back, (int64_t[]){ n - 1 }, 1, &fit, NULL, &err), 0);
        double sum = 0;
        for (size_t k = 0; k < bytes; k++)
            sum += abs(back[k] - one[k]);
        if (sum / (double)bytes > rows[i].tolerance)
            fail_msg("row %zu: off by %g on average", i, sum / (double)bytes);
        media_close(m);
        free(one);
        free(rgb);
        free(back);
    }
}

/* A name is that of one file, even if FFmpeg would take it for the pattern of many. */
static void test_names(void **state)
{
    (void)state;
    static const char *const names[] = { "%03d.png", "%d.png", "100%.png", "a{1,2}.png", "a*.png",
                                         "what?.png", "%*.png", "[1].png", "a.b%03d", "%03d" };
    uint8_t *rgb = picture(16, 24);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        media *m;
        media_info info;
        vc_err err = { 0 };
        assert_ok(media_write_png(clip_path(names[i]), rgb, 16, 24, &err), &err);
        assert_ok(media_open(&m, clip_path(names[i]), &info, &err), &err);
        if (info.is_video || info.frames != 1 || info.w != 24)
            fail_msg("%s: %lld frames, %d wide", names[i], (long long)info.frames, info.w);
        media_close(m);
    }
    free(rgb);
}

/* A failed write names the file and leaves no file. */
static void test_write_errors(void **state)
{
    (void)state;
    uint8_t *rgb = picture(16, 16), *jpeg = rgb;
    size_t size;
    vc_err err = { 0 };
    int before = count_files();
    assert_fails(media_write_mp4(clip_path("no/a.mp4"), rgb, 1, 16, 16, 25, &err), VC_ENOENT, &err,
                 "no/a.mp4");
    assert_int_equal(media_write_png(clip_path("no/a.png"), rgb, 16, 16, &err), VC_ENOENT);
    assert_int_equal(media_write_mp4(clip_path("a.mp4"), rgb, 0, 16, 16, 25, &err), VC_EINVAL);
    assert_int_equal(media_write_mp4(clip_path("a.mp4"), rgb, 1, 16, 16, NAN, &err), VC_EINVAL);
    assert_int_equal(media_write_mp4(clip_path("a.mp4"), rgb, 1, 16, -1, 25, &err), VC_EINVAL);
    assert_int_equal(media_write_png(clip_path("a.png"), rgb, 0, 16, &err), VC_EINVAL);
    assert_int_equal(media_jpeg(&jpeg, &size, rgb, 16, 16, 0, &err), VC_EINVAL);
    assert_null(jpeg);
    assert_int_equal(count_files(), before);
    free(rgb);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_png),        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_gray),
        cmocka_unit_test(test_exif),       cmocka_unit_test(test_jpeg_kinds),
        cmocka_unit_test(test_damage),     cmocka_unit_test(test_shrink),
        cmocka_unit_test(test_qoi_damage),
        cmocka_unit_test(test_mp4),        cmocka_unit_test(test_write_errors),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, clip_setup, clip_teardown);
}
