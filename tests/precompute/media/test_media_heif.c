/* test_media_heif.c - HEIC and AVIF stills are turned, cut and joined as their boxes say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "precompute/media/media.h"
#include "precompute/media/write.h"
#include "tests/lib/ok.h"
#include "tests/precompute/media/heif_file.h"
#include "tests/precompute/media/media_clip.h"

enum { H = 64, W = 96 };

typedef struct picture {
    uint8_t *rgb;
    int h, w;
} picture;

static const struct codec { const char *type, *encoder, *config, *brand; } codecs[] = {
    { "av01", "libaom-av1", "av1C", "avif" },
    { "hvc1", "libx265", "hvcC", "heic" },
};
enum { CODECS = 2 };
static heif_coded coded[CODECS];            /* W x H; without a sample: ffmpeg lacks the encoder */

static picture smooth(int h, int w)
{
    picture p = { malloc((size_t)h * (size_t)w * 3), h, w };
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++) {
            uint8_t *px = p.rgb + (y * w + x) * 3;
            px[0] = (uint8_t)(30 + 180 * x / w);
            px[1] = (uint8_t)(220 - 170 * y / h);
            px[2] = (uint8_t)(60 + 100 * (x + y) / (w + h));
        }
    return p;
}

/* ---- what is expected ---- */

static picture turned(picture p, int quarters)      /* anticlockwise */
{
    for (; quarters; quarters--) {
        picture to = { malloc((size_t)p.h * (size_t)p.w * 3), p.w, p.h };
        for (int y = 0; y < to.h; y++)
            for (int x = 0; x < to.w; x++)
                memcpy(to.rgb + (y * to.w + x) * 3, p.rgb + (x * p.w + p.w - 1 - y) * 3, 3);
        free(p.rgb);
        p = to;
    }
    return p;
}

static picture mirrored(picture p, int axis)        /* 0: top and bottom change places */
{
    picture to = { malloc((size_t)p.h * (size_t)p.w * 3), p.h, p.w };
    for (int y = 0; y < p.h; y++)
        for (int x = 0; x < p.w; x++) {
            const int sy = axis ? y : p.h - 1 - y, sx = axis ? p.w - 1 - x : x;
            memcpy(to.rgb + (y * p.w + x) * 3, p.rgb + (sy * p.w + sx) * 3, 3);
        }
    free(p.rgb);
    return to;
}

static picture cut(picture p, int y0, int x0, int h, int w)
{
    picture to = { malloc((size_t)h * (size_t)w * 3), h, w };
    for (int y = 0; y < h; y++)
        memcpy(to.rgb + y * w * 3, p.rgb + ((y0 + y) * p.w + x0) * 3, (size_t)w * 3);
    free(p.rgb);
    return to;
}

/* ---- reading ---- */

static picture read_file(const char *path, bool as_stored, vc_err *err)
{
    media *m;
    media_info info;
    picture p = { 0 };
    if (media_open(&m, path, &info, err))
        return p;
    if (as_stored)
        media_as_stored(m, &info);
    media_fit fit = { .rh = info.h, .rw = info.w, .h = info.h, .w = info.w };
    p = (picture){ malloc((size_t)info.h * (size_t)info.w * 3), info.h, info.w };
    for (int again = 0; again < 2; again++)
        if (media_read(m, p.rgb, (int64_t[]){ 0 }, 1, &fit, NULL, err)) {
            free(p.rgb);
            p.rgb = NULL;
            break;
        }
    assert_true(info.frames == 1 && !info.is_video);
    media_close(m);
    return p;
}

static void save(const char *path, heif_bytes b)
{
    FILE *f = fopen(path, "wb");
    assert_true(f && fwrite(b.p, 1, b.n, f) == b.n);
    assert_int_equal(fclose(f), 0);
}

static void free_items(heif_item *items, int n)
{
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < HEIF_PROPERTIES; k++)
            free(items[i].property[k].p);
        if (items[i].part[0])
            free(items[i].data.p);
    }
}

static picture read_items(const struct codec *c, heif_item *items, int n, bool as_stored,
                          vc_err *err)
{
    heif_bytes b = heif_file_of(c->brand, items, n);
    save(clip_path("a.heif"), b);
    free(b.p);
    return read_file(clip_path("a.heif"), as_stored, err);
}

static void check_same(picture got, picture want, int tolerance, const char *what, vc_err *err)
{
    if (!got.rgb)
        fail_msg("%s: %s", what, err->text);
    if (got.h != want.h || got.w != want.w)
        fail_msg("%s: %dx%d, not %dx%d", what, got.w, got.h, want.w, want.h);
    for (int i = 0; i < want.h * want.w * 3; i++)
        if (abs(got.rgb[i] - want.rgb[i]) > tolerance)
            fail_msg("%s: pixel %d,%d is off by %d", what, i / 3 / want.w, i / 3 % want.w,
                     got.rgb[i] - want.rgb[i]);
    free(got.rgb);
    free(want.rgb);
}

static const char *reading(void)
{
    const char *path = clip_path("a.heif"), *name;
    vc_err err = { 0 };
    assert_ok(media_reading(&name, &(vf_part){ .name = path, .file = path }, &err), &err);
    return name;
}

static heif_item item_of(int codec)
{
    heif_item it = { .type = codecs[codec].type, .data = coded[codec].sample };
    heif_describe(&it, &coded[codec], W, H);
    return it;
}

/* ---- tests ---- */

/* Every turn with every mirror, in both orders; an EXIF block says something else. */
static void test_orientation(void **state)
{
    (void)state;
    static uint8_t exif[] = { 0, 0, 0, 0, 'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0,
                              0x12, 1, 3, 0, 1, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0 };
    for (int c = 0; c < CODECS; c++)
        for (int k = 0; coded[c].sample.p && k < 4 * 3 * 2; k++) {
            const uint8_t turn = k & 3, axis = (uint8_t)(k >> 2) % 3;
            const bool mirror_first = k >= 12;
            vc_err err = { 0 };
            char what[64];
            heif_item items[2] = { item_of(c), { .type = "Exif" } };
            items[1].data = (heif_bytes){ exif, sizeof exif, 0 };
            if (mirror_first && axis)
                heif_add(&items[0], "imir", &(uint8_t){ axis - 1 }, 1);
            heif_add(&items[0], "irot", &turn, 1);
            if (!mirror_first && axis)
                heif_add(&items[0], "imir", &(uint8_t){ axis - 1 }, 1);

            picture want = smooth(H, W);
            if (mirror_first && axis)
                want = mirrored(want, axis - 1);
            want = turned(want, turn);
            if (!mirror_first && axis)
                want = mirrored(want, axis - 1);
            snprintf(what, sizeof what, "%s: irot %d, imir %d, %s", codecs[c].type, turn, axis - 1,
                     mirror_first ? "mirror first" : "turn first");
            check_same(read_items(&codecs[c], items, 2, false, &err), want, 8, what, &err);
            check_same(read_items(&codecs[c], items, 2, true, &err), smooth(H, W), 8, what, &err);
            assert_non_null(reading());
            free_items(items, 1);
        }
}

/* The key of an AVIF that was always read right is the old one. */
static void test_plain(void **state)
{
    (void)state;
    for (int c = 0; c < CODECS; c++) {
        vc_err err = { 0 };
        if (!coded[c].sample.p)
            continue;
        heif_item it = item_of(c);
        check_same(read_items(&codecs[c], &it, 1, false, &err), smooth(H, W), 8, codecs[c].type,
                   &err);
        assert_true(!reading() == !c);
        free_items(&it, 1);
    }
}

static void put_clap(heif_item *it, int w, int h, int dx, int dy)
{
    heif_bytes b = { 0 };
    const int v[4] = { w, h, dx, dy };
    for (int i = 0; i < 4; i++) {
        heif_put_int(&b, (uint32_t)v[i], 4);
        heif_put_int(&b, 1, 4);
    }
    heif_add(it, "clap", b.p, b.n);
    free(b.p);
}

/* A window, before and after a turn. dx, dy: from the middle to the window's middle. */
static void test_crop(void **state)
{
    (void)state;
    const uint8_t turn = 1;
    for (int c = 0; c < CODECS; c++) {
        vc_err err = { 0 };
        if (!coded[c].sample.p)
            continue;
        heif_item it = item_of(c);
        put_clap(&it, 40, 20, 10, -8);
        heif_add(&it, "irot", &turn, 1);
        check_same(read_items(&codecs[c], &it, 1, false, &err),
                   turned(cut(smooth(H, W), 14, 38, 20, 40), turn), 8, "cut, then turned", &err);
        assert_non_null(reading());
        free_items(&it, 1);

        it = item_of(c);
        heif_add(&it, "irot", &turn, 1);
        put_clap(&it, 20, 40, 10, -8);
        check_same(read_items(&codecs[c], &it, 1, false, &err),
                   cut(turned(smooth(H, W), turn), 20, 32, 40, 20), 8, "turned, then cut", &err);
        free_items(&it, 1);

        it = item_of(c);
        put_clap(&it, 90, 20, 10, 0);
        picture p = read_items(&codecs[c], &it, 1, false, &err);
        assert_true(!p.rgb && err.code == VC_EFORMAT && strstr(err.text, "outside"));
        free_items(&it, 1);
    }
}

/* A grid of 2 x 2 tiles with its turn; the picture is smaller than the tiles. */
static void make_grid(int c, heif_item items[5], int h, int w)
{
    memset(items, 0, 5 * sizeof *items);
    items[0] = (heif_item){ .type = "grid", .part = { 2, 3, 4, 5 } };
    heif_put_int(&items[0].data, 0, 2);
    heif_put_int(&items[0].data, 0x0101, 2);
    heif_put_int(&items[0].data, (uint64_t)w, 2);
    heif_put_int(&items[0].data, (uint64_t)h, 2);
    heif_describe(&items[0], NULL, w, h);
    for (int i = 1; i < 5; i++)
        items[i] = item_of(c);
}

static picture four(int h, int w)
{
    picture one = smooth(H, W), to = { malloc((size_t)h * (size_t)w * 3), h, w };
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            memcpy(to.rgb + (y * w + x) * 3, one.rgb + (y % H * W + x % W) * 3, 3);
    free(one.rgb);
    return to;
}

static void test_grid(void **state)
{
    (void)state;
    const uint8_t turn = 3;
    for (int c = 0; c < CODECS; c++) {
        vc_err err = { 0 };
        heif_item items[5];
        if (!coded[c].sample.p)
            continue;
        make_grid(c, items, 2 * H - 9, 2 * W - 21);
        heif_add(&items[0], "irot", &turn, 1);
        picture got = read_items(&codecs[c], items, 5, false, &err);
        assert_ok(!got.rgb, &err);
        got = turned(got, 4 - turn);
        picture want = four(2 * H - 9, 2 * W - 21);
        for (int y = 0; y < want.h; y++)            /* colours of neighbours mix at the seams */
            for (int x = 0; x < want.w; x++)
                if (abs(y - H) < 3 || abs(x - W) < 3)
                    memcpy(want.rgb + (y * want.w + x) * 3, got.rgb + (y * got.w + x) * 3, 3);
        check_same(got, want, 8, "grid", &err);
        free_items(items, 5);

        static const struct { int h, w, first, parts; const char *why; } wrong[] = {
            { 2 * H + 1, 2 * W, 2, 4, "do not make" }, { H, 2 * W, 2, 4, "do not make" },
            { 2 * H, 2 * W, 2, 3, "has 3 tiles" },     { 2 * H, 2 * W, 1, 4, "grid" },
            { 2 * H, 2 * W, 9, 4, "no item 9" },
        };
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
            make_grid(c, items, wrong[i].h, wrong[i].w);
            items[0].part[0] = wrong[i].first;
            if (wrong[i].parts == 3)
                items[0].part[3] = 0;
            picture p = read_items(&codecs[c], items, 5, false, &err);
            if (p.rgb || err.code != VC_EFORMAT || !strstr(err.text, wrong[i].why))
                fail_msg("row %zu: %s", i, p.rgb ? "is read" : err.text);
            free_items(items, 5);
        }
    }
}

static void test_refused(void **state)
{
    (void)state;
    const char *path = clip_path("a.heif");
    const vf_part part = { .name = path, .file = path };
    for (int c = 0; c < CODECS; c++) {
        vc_err err = { 0 };
        bool alpha;
        if (!coded[c].sample.p)
            continue;
        heif_item items[2] = { item_of(c), item_of(c) };
        heif_add(&items[0], "zzzz", "", 1);
        picture p = read_items(&codecs[c], items, 1, false, &err);
        assert_true(!p.rgb && strstr(err.text, "the property zzzz"));
        free_items(items, 1);

        items[0] = item_of(c);
        items[0].type = "iovl";
        p = read_items(&codecs[c], items, 1, false, &err);
        assert_true(!p.rgb && strstr(err.text, "of the kind iovl"));
        items[0].type = codecs[c].type;

        items[1].of = 1;                            /* alpha: dropped; as a mask it is refused */
        heif_add(&items[1], "auxC", "\0\0\0\0urn:mpeg:mpegB:cicp:systems:auxiliary:alpha", 48);
        check_same(read_items(&codecs[c], items, 2, false, &err), smooth(H, W), 8, "alpha", &err);
        assert_fails(media_alpha(&part, &alpha, &err), VC_EFORMAT, &err, "its alpha is not read");
        free_items(items, 2);
    }
}

/* No file, however damaged or cut, crashes; each is opened or refused with a reason. */
static void test_damage(void **state)
{
    (void)state;
    const char *path = clip_path("a.heif");
    const vf_part part = { .name = path, .file = path };
    media *m;
    for (int c = 0; c < CODECS; c++) {
        heif_item items[5];
        if (!coded[c].sample.p)
            continue;
        make_grid(c, items, 2 * H, 2 * W);
        heif_bytes b = heif_file_of(codecs[c].brand, items, 5);
        size_t mdat = b.n - 4 * coded[c].sample.n;
        for (size_t at = 8; at < mdat; at += 3) {
            const uint8_t was = b.p[at];
            vc_err err = { 0 };
            b.p[at] = (uint8_t)(at & 1 ? 0xff : was + 1);
            save(clip_path("a.heif"), b);
            assert_true(!media_open_part(&m, &part, NULL, &err) || err.code);
            media_close(m);
            b.p[at] = was;
        }
        for (size_t cut_at = 1; cut_at < b.n; cut_at += b.n / 20 + 1) {
            vc_err err = { 0 };
            save(clip_path("a.heif"), (heif_bytes){ b.p, cut_at, 0 });
            picture p = read_file(clip_path("a.heif"), false, &err);
            if (p.rgb)
                fail_msg("%s cut to %zu of %zu bytes is read", codecs[c].type, cut_at, b.n);
        }
        free(b.p);
        free_items(items, 5);
    }
}

static int setup(void **state)
{
    if (clip_setup(state))
        return -1;
    picture p = smooth(H, W);
    vc_err err = { 0 };
    assert_ok(media_write_png(clip_path("s.png"), p.rgb, H, W, &err), &err);
    free(p.rgb);
    for (int c = 0; c < CODECS; c++)
        if (clip_have_ffmpeg() && clip_have_encoder(codecs[c].encoder)) {
            char png[300];
            snprintf(png, sizeof png, "%s", clip_path("s.png"));
            coded[c] = heif_code(png, codecs[c].encoder, codecs[c].config);
        } else {
            print_message("skipped, since ffmpeg lacks %s\n", codecs[c].encoder);
        }
    return 0;
}

static int teardown(void **state)
{
    for (int c = 0; c < CODECS; c++) {
        free(coded[c].config.p);
        free(coded[c].sample.p);
    }
    return clip_teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),   cmocka_unit_test(test_orientation),
        cmocka_unit_test(test_crop),    cmocka_unit_test(test_grid),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_damage),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
