/* test_loss_mask.c - the weights of the loss that a picture or a clip gives equal weights computed
 * by hand. */
#include <setjmp.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <tiffio.h>

#include "common/os/file.h"
#include "precompute/encode/loss_mask.h"
#include "tests/lib/ok.h"
#include "tests/lib/tmp_dir.h"

enum { K = 4, R = 8 };

/* Sets the pixel (t, y, x) of an RGB clip to the grey g. */
static void paint(uint8_t *rgb, int h, int w, int t, int y, int x, uint8_t g)
{
    memset(rgb + 3 * (((size_t)t * (size_t)h + (size_t)y) * (size_t)w + (size_t)x), g, 3);
}

static void test_weights(void **state)
{
    enum { F = 5, H = 16, W = 24 };
    static uint8_t rgb[F * H * W * 3];
    float out[2 * 2 * 3];
    (void)state;
    paint(rgb, H, W, 0, 0, 0, 255);                      /* frame 0 is a latent frame of its own */
    for (int t = 1; t < F; t++)
        for (int i = 0; i < R * R; i++)
            paint(rgb, H, W, t, 8 + i / R, 16 + i % R, t < 3 ? 255 : 51);
    prep_frames f = { .n = F, .count = F, .bytes = H * W * 3, .range = rgb };
    vc_err err = { 0 };
    assert_ok(vprep_loss_weights(out, &f, H, W, K, R, &err), &err);
    for (int i = 0; i < 12; i++) {
        float want = i == 0 ? 1.0f / (R * R) : i == 11 ? (1 + 1 + 0.2f + 0.2f) / 4 : 0;
        assert_true(out[i] >= want - 1e-6f && out[i] <= want + 1e-6f);
    }
}

/* Writes a picture in the PGM format, a header and bytes. */
static char *write_pgm(const char *dir, const char *name, int w, int h, const uint8_t *grey)
{
    char *path = vc_path_join(dir, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fprintf(f, "P5\n%d %d\n255\n", w, h);
    assert_int_equal(fwrite(grey, 1, (size_t)w * (size_t)h, f), w * h);
    fclose(f);
    return path;
}

/* Columns 8 to 23 are cut out of a source of 32x16; its mask is white in columns 8 to 15. */
static void test_cut(void **state)
{
    enum { W = 32, H = 16 };
    uint8_t grey[W * H];
    for (int i = 0; i < W * H; i++)
        grey[i] = i % W >= 8 && i % W < 16 ? 255 : 0;
    vf_row row = { .beside = { [VF_LOSS_MASK] = { (char *)"m.pgm",
                                                 write_pgm(*state, "m.pgm", W, H, grey) } } };
    const char *file = row.beside[VF_LOSS_MASK].file;
    vprep_source source = { .w = W, .h = H };
    vprep p = { .list = { .meta = { .rows = &row, .n = 1 }, .sources = &source },
                .encoders.vae.ratio = { K, R, R } };
    vprep_item it = { 0 };
    int64_t frames[5] = { 3, 4, 5, 6, 7 };               /* a picture is the mask of all frames */
    vprep_clip clip = { .frames = frames, .choice = { .frames = 5, .resize_h = H, .resize_w = W,
                        .left = 8, .target_h = H, .target_w = 16, .latent_f = 2, .latent_h = 2,
                        .latent_w = 2 } };
    static const struct { bool flip; float want[2]; } cases[] = {
        { false, { 1, 0 } }, { true, { 0, 1 } },
    };
    vc_err err = { 0 };
    float *w;
    assert_int_equal(prep_identity_of(&source.beside[VF_LOSS_MASK].is, file, "m.pgm", &err), 0);
    assert_int_equal(vf_hash_file(&source.beside[VF_LOSS_MASK].hash, file, NULL, &err), 0);
    for (size_t i = 0; i < 2; i++) {
        clip.choice.flip = cases[i].flip;
        assert_ok(vprep_loss_mask(&p, &it, &clip, &w, &err), &err);
        for (int k = 0; k < 8; k++)
            assert_true(w[k] == cases[i].want[k % 2]);
        free(w);
    }

    source.w = 40;                                       /* another aspect ratio */
    assert_int_equal(vprep_loss_mask(&p, &it, &clip, &w, &err), VC_EMISMATCH);
    assert_string_equal(err.text, "loss_mask_path m.pgm: 32x16, but the source is 40x16: a loss "
                        "mask covers the whole picture, so it has its shape");
    free(w);
    source.w = 64;                                       /* within one pixel of the mask's aspect */
    source.h = 33;
    assert_int_equal(vprep_loss_mask(&p, &it, &clip, &w, &err), 0);
    free(w);
    /* The file has other bytes than when it was hashed. */
    grey[0] = 128;
    free(write_pgm(*state, "m.pgm", W, H, grey));
    assert_fails(vprep_loss_mask(&p, &it, &clip, &w, &err), VC_EIO, &err, "changed while this ran");
    free(w);
    free(row.beside[VF_LOSS_MASK].file);
}

/* Writes a TIFF of 16x16 with alpha: red, green, blue are `colour`, or half of it in the lower
 * half; columns 8 to 15 have `alpha`, the others are opaque. */
static char *write_tiff(const char *dir, const char *name, int colour, int alpha)
{
    char *path = vc_path_join(dir, name);
    TIFF *t = TIFFOpen(path, "w");
    assert_non_null(t);
    TIFFSetField(t, TIFFTAG_IMAGEWIDTH, 16);
    TIFFSetField(t, TIFFTAG_IMAGELENGTH, 16);
    TIFFSetField(t, TIFFTAG_BITSPERSAMPLE, 8);
    TIFFSetField(t, TIFFTAG_SAMPLESPERPIXEL, 4);
    TIFFSetField(t, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_RGB);
    TIFFSetField(t, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG);
    TIFFSetField(t, TIFFTAG_EXTRASAMPLES, 1, (uint16_t[]){ EXTRASAMPLE_UNASSALPHA });
    for (int y = 0; y < 16; y++) {
        const int c = y < 8 ? colour : colour / 2;
        uint8_t row[16][4];
        for (int x = 0; x < 16; x++) {
            memset(row[x], c, 3);
            row[x][3] = (uint8_t)(x < 8 ? 255 : alpha);
        }
        assert_int_equal(TIFFWriteScanline(t, row, (uint32_t)y, 0), 1);
    }
    TIFFClose(t);
    return path;
}

/* Alpha weighs too; a mask that has its shape there alone, and is black, is refused. */
static void test_alpha(void **state)
{
    static const struct { int colour, alpha; bool has, refused; float want[4]; } rows[] = {
        { 255, 255, false, false, { 1, 1, 127 / 255.f, 127 / 255.f } },
        { 255, 0, true, false, { 1, 0, 127 / 255.f, 0 } },
        { 255, 102, true, false, { 1, 102 / 255.f, 127 / 255.f, 51 / 255.f } },
        { 0, 0, true, true, { 0 } },
        { 0, 255, false, false, { 0 } },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *file = write_tiff(*state, "a.tif", rows[i].colour, rows[i].alpha);
        const vf_part part = { .name = "a.tif", .file = file };
        vf_row row = { .beside = { [VF_LOSS_MASK] = { (char *)"a.tif", file } } };
        vprep_source source = { .w = 16, .h = 16 };
        vprep p = { .list = { .meta = { .rows = &row, .n = 1 }, .sources = &source },
                    .encoders.vae.ratio = { K, R, R } };
        vprep_item it = { 0 };
        int64_t frame = 0;
        vprep_clip clip = { .frames = &frame, .choice = { .frames = 1, .resize_h = 16,
                            .resize_w = 16, .target_h = 16, .target_w = 16, .latent_f = 1,
                            .latent_h = 2, .latent_w = 2 } };
        bool has;
        float *w;
        vc_err err = { 0 };
        int rc = media_alpha(&part, &has, &err);
        if (rows[i].refused)
            assert_fails(rc, VC_EFORMAT, &err, "black wherever it is not transparent");
        else
            assert_ok(rc, &err);
        assert_int_equal(has, rows[i].has);
        assert_int_equal(prep_identity_of(&source.beside[VF_LOSS_MASK].is, file, "a", &err), 0);
        assert_ok(prep_hash(&source.beside[VF_LOSS_MASK].hash, &part, &err), &err);
        assert_ok(vprep_loss_mask(&p, &it, &clip, &w, &err), &err);
        for (int k = 0; k < 4; k++)
            assert_true(fabsf(w[k] - rows[i].want[k]) < 0.004f);
        free(w);
        free(file);
    }
}

static int setup(void **state)
{
    static char dir[256];
    *state = dir;
    return tmp_dir_make(dir);
}

static int teardown(void **state)
{
    return vc_remove_tree(*state, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights), cmocka_unit_test(test_cut),
        cmocka_unit_test(test_alpha),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
