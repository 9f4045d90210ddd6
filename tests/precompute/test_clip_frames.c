/* test_clip_frames.c - the frames of a clip that is read in ranges are those that it has, in any
 * order, and all come from the file that was hashed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "precompute/encode/clip_frames.h"
#include "precompute/media/write.h"
#include "tests/lib/ok.h"
#include "tests/lib/tmp_dir.h"

/* Frame i of the clip is frame (i + 1) / 2 of the source: each range begins with the source's frame
 * that ended the last one. */
enum { N = 300, SOURCE = N / 2 + 1, H = 32, W = 48, BYTES = H * W * 3 };

typedef struct bench {
    char dir[256], *file;
    int64_t frames[N];
    vf_row row;
    vprep_source source;
    vprep p;
    vprep_item item;
    vprep_clip clip;
} bench;

/* Writes a clip whose frames have a shade each, brighter by `step`. */
static void write_clip(const char *path, int n, int fps, int shade, int step)
{
    static uint8_t rgb[SOURCE][BYTES];
    vc_err err = { 0 };

    for (int i = 0; i < n; i++)
        memset(rgb[i], shade + step * i, BYTES);
    assert_ok(media_write_mp4(path, rgb[0], n, H, W, fps, &err), &err);
}

static void write_source(const char *path, int shade)
{
    write_clip(path, SOURCE, 16, shade, 1);
}

static void make_bench(bench *b)
{
    vc_err err = { 0 };

    *b = (bench){ .clip.choice = { .frames = N, .resize_h = H, .resize_w = W, .target_h = H,
                                   .target_w = W } };
    assert_int_equal(tmp_dir_make(b->dir), 0);
    b->file = vc_path_join(b->dir, "long.mp4");
    write_source(b->file, 40);
    b->row = (vf_row){ .path = b->file, .file = b->file };
    assert_ok(prep_identity_of(&b->source.is, b->file, b->file, &err), &err);
    assert_ok(vf_hash_file(&b->source.hash, b->file, NULL, &err), &err);
    b->p.list = (prep_list){ .meta = { .rows = &b->row, .n = 1 }, .sources = &b->source };
    for (int i = 0; i < N; i++)
        b->frames[i] = (i + 1) / 2;
    b->clip.frames = b->frames;
}

static void close_bench(bench *b, prep_frames *f, uint8_t *all)
{
    vc_err err = { 0 };

    prep_frames_close(f);
    free(all);
    assert_ok(vc_remove_tree(b->dir, &err), &err);
    free(b->file);
}

/* All frames of the clip, read at once. */
static uint8_t *read_all(const bench *b)
{
    const media_fit fit = { .rh = H, .rw = W, .h = H, .w = W };
    uint8_t *all = malloc(N * BYTES);
    media *m;
    vc_err err = { 0 };

    assert_ok(media_open(&m, b->file, NULL, &err), &err);
    assert_ok(media_read(m, all, b->frames, N, &fit, NULL, &err), &err);
    media_close(m);
    return all;
}

/* Makes the bench, opens the first n frames of its clip, and returns all frames of the clip. */
static uint8_t *open_bench(bench *b, prep_frames *f, int n, bool ahead)
{
    vc_err err = { 0 };

    make_bench(b);
    assert_ok(prep_frames_open(f, &b->p, &b->item, &b->clip, VF_BESIDE, n, &err), &err);
    f->ahead = ahead;
    return read_all(b);
}

static void is_frame(prep_frames *f, int t, const uint8_t *all)
{
    const uint8_t *have;
    vc_err err = { 0 };

    assert_ok(prep_frames_at(f, t, &have, &err), &err);
    if (memcmp(have, all + (size_t)t * BYTES, BYTES))
        fail_msg("frame %d has %d, not %d", t, *have, all[(size_t)t * BYTES]);
    assert_between(f->count, 1, PREP_RANGE);
}

static void read_any_order(bool ahead)
{
    bench b;
    prep_frames f;
    vc_err err = { 0 };
    uint8_t *all = open_bench(&b, &f, N, ahead), *rgb;

    assert_int_equal(f.count, PREP_RANGE);
    for (int t = 0; t < N; t++) {
        is_frame(&f, t, all);
        assert_int_equal(f.first, t / PREP_RANGE * PREP_RANGE);
        assert_int_equal(f.next.runs, ahead && f.first + f.count < N);
    }
    assert_int_equal(f.seconds > 0, ahead);
    assert_null(f.m);                                /* nothing is behind the last range */
    for (int t = 0; t < N; t++)                      /* a second pass */
        is_frame(&f, t, all);
    for (int t = N - 1; t >= 0; t -= 41)             /* backwards */
        is_frame(&f, t, all);
    assert_ok(prep_frames_rgb(&f, 7, &rgb, &err), &err);
    assert_memory_equal(rgb, all + 7 * BYTES, BYTES);
    free(rgb);
    float x[BYTES];
    assert_ok(prep_frames_values(&f, 200, x, &err), &err);
    for (int i = 0; i < BYTES; i++)
        assert_true(x[i] == (float)all[200 * BYTES + i] / 127.5f - 1.0f);
    is_frame(&f, 11, all);
    is_frame(&f, 12, all);
    assert_int_equal(f.next.runs, ahead);
    is_frame(&f, 5, all);                            /* not of the range that is read ahead */
    assert_int_equal(f.count, 1);
    is_frame(&f, 6, all);                            /* closed while the next range is read */
    assert_int_equal(f.next.runs, ahead);
    close_bench(&b, &f, all);
}

static void any_order(void **state)
{
    (void)state;
    read_any_order(false);
}

static void any_order_ahead(void **state)
{
    (void)state;
    read_any_order(true);
}

/* A failure ahead is that of the range's first frame, not of the frames before it. */
static void failed_ahead(void **state)
{
    bench b;
    prep_frames f;
    const uint8_t *rgb;
    vc_err err = { 0 };
    uint8_t *all = open_bench(&b, &f, N, true);

    (void)state;
    write_source(b.file, 41);
    for (int t = 0; t < PREP_RANGE; t++)
        is_frame(&f, t, all);
    assert_true(f.next.runs && !f.failed);
    assert_fails(prep_frames_at(&f, PREP_RANGE, &rgb, &err), VC_EIO, &err,
                 "changed while this ran");
    assert_true(f.failed && !rgb);
    assert_fails(prep_frames_at(&f, PREP_RANGE, &rgb, &err), VC_EIO, &err,
                 "changed while this ran");          /* none of the range is in memory */
    close_bench(&b, &f, all);
}

/* A clip that fits into a range leaves no file open. */
static void short_clips(void **state)
{
    bench b;
    prep_frames f;
    vc_err err = { 0 };
    uint8_t *all = open_bench(&b, &f, 0, false);

    (void)state;
    for (int n = 0; n <= PREP_RANGE; n += PREP_RANGE / 2) {
        assert_ok(prep_frames_open(&f, &b.p, &b.item, &b.clip, VF_BESIDE, n, &err), &err);
        assert_int_equal(f.count, n);
        assert_null(f.m);
        prep_frames_close(&f);
    }
    assert_int_equal(prep_frames_room(&b.p, &b.clip.choice, N), 2 * PREP_RANGE * BYTES);
    close_bench(&b, &f, all);
}

/* Replaces the file by one with the same bytes, then by one with others, which is refused. */
static void changed_files(void **state)
{
    bench b;
    prep_frames f;
    const uint8_t *rgb;
    vc_err err = { 0 };
    uint8_t *all = open_bench(&b, &f, N, false);

    (void)state;
    is_frame(&f, PREP_RANGE - 1, all);
    write_source(b.file, 40);
    is_frame(&f, PREP_RANGE, all);
    write_source(b.file, 41);
    is_frame(&f, PREP_RANGE + 1, all);               /* of the range that was read before */
    assert_false(f.failed);
    assert_fails(prep_frames_at(&f, 0, &rgb, &err), VC_EIO, &err, "changed while this ran");
    assert_true(f.failed && !rgb && !f.m);
    close_bench(&b, &f, all);
    assert_true(f.failed);                           /* the stage that failed is known afterwards */
}

/* ---- files beside the source ---- */

/* A control clip of half the rate has the source's frame i under number i / 2. */
static void half_rate(void **state)
{
    enum { HALF = SOURCE / 2 + 1 };
    bench b;
    prep_frames f;
    const uint8_t *rgb;
    vc_err err = { 0 };
    prep_beside *control = &b.source.beside[VF_CONTROL];

    (void)state;
    make_bench(&b);
    b.row.beside[VF_CONTROL].path = b.row.beside[VF_CONTROL].file = b.file;
    write_clip(b.file, HALF, 8, 40, 2);
    assert_ok(prep_identity_of(&control->is, b.file, b.file, &err), &err);
    assert_ok(vf_hash_file(&control->hash, b.file, NULL, &err), &err);
    b.source.w = W;
    b.source.h = H;
    b.source.frames = SOURCE;
    b.source.fps = 16;
    control->frames = HALF;
    control->fps = 8;
    assert_fails(prep_frames_open(&f, &b.p, &b.item, &b.clip, VF_CONTROL, N, &err), VC_EMISMATCH,
                 &err, "76 frames, but the clip has the source's frame 150");
    prep_frames_close(&f);

    control->by_time = prep_beside_by_time(&b.source, control);
    assert_true(control->by_time);
    assert_ok(prep_frames_open(&f, &b.p, &b.item, &b.clip, VF_CONTROL, N, &err), &err);
    for (int t = 0; t < N; t++) {
        const int want = 40 + (int)b.frames[t] / 2 * 2;
        assert_ok(prep_frames_at(&f, t, &rgb, &err), &err);
        if (abs(*rgb - want) > 1)
            fail_msg("frame %d has %d, not %d", t, *rgb, want);
    }
    close_bench(&b, &f, NULL);
}

/* Which rates and lengths are taken by time, and which frame frame i is. */
static void by_time(void **state)
{
    static const struct {
        int64_t frames, other, i, want;
        double fps, other_fps;
        bool by_time;
    } rows[] = {
        { 300, 150, 200, 100, 30, 15, true },       { 300, 150, 299, 149, 30, 15, true },
        { 300, 150, 201, 100, 30, 15, true },       { 300, 600, 100, 200, 30, 60, true },
        { 300, 160, 15, 8, 30, 16, true },          { 300, 161, 299, 159, 30, 16, true },
        { 240, 300, 100, 125, 24, 30, true },       { 240, 300, 3, 4, 24, 30, true },
        { 300, 148, 299, 147, 30, 15, true },       /* the last frame stands */
        { 300, 300, 77, 77, 30, 16, false },        /* each frame has its own */
        { 300, 290, 77, 77, 30, 30, false },        { 3000, 2999, 77, 77, 30, 30.001, false },
        { 300, 81, 77, 77, 30, 16, false },         /* a part of the source */
        { 300, 1, 77, 77, 30, 0, false },           { 1, 150, 0, 0, 0, 15, false },
    };

    (void)state;
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        vprep_source s = { .frames = rows[k].frames, .fps = rows[k].fps };
        prep_beside *b = &s.beside[VF_CONTROL];
        b->frames = rows[k].other;
        b->fps = rows[k].other_fps;
        b->by_time = prep_beside_by_time(&s, b);
        int64_t have = prep_beside_frame(&s, VF_CONTROL, rows[k].i);
        if (b->by_time != rows[k].by_time || have != rows[k].want)
            fail_msg("row %zu: by time %d, frame %lld", k, b->by_time, (long long)have);
    }
}

/* Times of variable rate, and rounded ones. */
static void by_uneven_times(void **state)
{
    double times[4] = { 0, 0.1, 0.5, 0.6 };
    double rounded[8] = { 0, .033, .067, .1, .133, .167, .2, .233 };
    vprep_source s = { .frames = 8, .fps = 30, .times = rounded };
    prep_beside *b = &s.beside[VF_LOSS_MASK];

    (void)state;
    *b = (prep_beside){ .frames = 4, .fps = 15, .by_time = true };
    for (int i = 0; i < 8; i++)
        assert_int_equal(prep_beside_frame(&s, VF_LOSS_MASK, i), i / 2);
    s = (vprep_source){ .frames = 7, .fps = 10 };
    *b = (prep_beside){ .frames = 4, .fps = 5, .by_time = true, .times = times };
    static const int want[7] = { 0, 1, 1, 1, 2, 2, 3 };
    for (int i = 0; i < 7; i++)
        assert_int_equal(prep_beside_frame(&s, VF_LOSS_MASK, i), want[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_order), cmocka_unit_test(any_order_ahead),
        cmocka_unit_test(failed_ahead), cmocka_unit_test(short_clips),
        cmocka_unit_test(changed_files), cmocka_unit_test(half_rate),
        cmocka_unit_test(by_time), cmocka_unit_test(by_uneven_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
