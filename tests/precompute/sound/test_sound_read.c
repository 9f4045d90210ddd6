/* test_sound_read.c - the sound of a span: tones that are known at each sample come back at their
 * place whatever the container, the codec, the rate, the layout and the time of the stream's begin;
 * silence stands elsewhere; damage is refused; rates change as in torchaudio. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "precompute/sound/read.h"
#include "precompute/media/write.h"
#include "tests/lib/golden.h"
#include "tests/lib/ok.h"
#include "tests/precompute/media/media_clip.h"

enum { RATE = 16000 };
#define TWO_PI (2 * 3.14159265358979323846)

/* 440 Hz from 1 s to 2 s, 880 Hz from 3 s to 3.5 s. */
#define TONES "0.4*between(t\\,1\\,2)*sin(440*2*PI*t)+0.4*between(t\\,3\\,3.5)*sin(880*2*PI*t)"

static double tone(double t)
{
    return t >= 1 && t <= 2 ? 0.4 * sin(440 * TWO_PI * t)
           : t >= 3 && t <= 3.5 ? 0.4 * sin(880 * TWO_PI * t) : 0;
}

typedef struct row {
    const char *out, *source, *args, *encoder;
    double shift;                    /* seconds by which the sound comes later */
    double left, right;              /* gains */
    double end;                      /* of the sound, before the shift */
    double far;                      /* the most rms of the difference */
} row;

#define MONO "-f lavfi -i \"aevalsrc=" TONES ":s=48000:d=4.8\""
#define STEREO(rate) "-f lavfi -i \"aevalsrc=" TONES "|0.5*(" TONES "):s=" #rate ":d=4.8\""
#define SIX "-f lavfi -i \"aevalsrc=0|0|" TONES "|0|0|0:c=5.1:s=48000:d=4.8\""

/* A sample too late or too early is an rms of 0.03 here; codecs that lose something have as much as
 * they were seen to lose, and less than that. */
static const row rows[] = {
    { "s16.mov", STEREO(48000), "-c:a pcm_s16le", "", 0, 1, 0.5, 9, 3e-3 },
    { "s16_16k.mov", STEREO(16000), "-c:a pcm_s16le", "", 0, 1, 0.5, 9, 1e-4 },
    { "s24be.mov", STEREO(44100), "-c:a pcm_s24be", "", 0, 1, 0.5, 9, 3e-3 },
    { "f32.mkv", STEREO(96000), "-c:a pcm_f32le", "", 0, 1, 0.5, 9, 3e-3 },
    { "f64.mkv", STEREO(11025), "-c:a pcm_f64le", "", 0, 1, 0.5, 9, 4e-3 },
    { "u8.avi", STEREO(22050), "-c:a pcm_u8", "", 0, 1, 0.5, 9, 5e-3 },
    { "mono.mov", MONO, "-c:a pcm_s16le", "", 0, 1, 1, 9, 3e-3 },
    { "flac.mkv", STEREO(44100), "-c:a flac", "", 0, 1, 0.5, 9, 3e-3 },
    { "aac.mp4", STEREO(48000), "-c:a aac -b:a 192k", "", 0, 1, 0.5, 9, 1e-2 },
    { "aac.ts", STEREO(44100), "-c:a aac -b:a 192k", "", 0, 1, 0.5, 9, 1e-2 },
    { "mp2.mpg", STEREO(44100), "-c:v mpeg2video -c:a mp2 -b:a 256k", "mp2", 0, 1, 0.5, 9, 1e-2 },
    { "mp3.mp4", STEREO(44100), "-c:a libmp3lame -b:a 192k", "libmp3lame", 0, 1, 0.5, 9, 1e-2 },
    /* Opus has 6.5 ms before the sound, 7 in Matroska's stamps: 0.5 ms are an rms of 0.3 */
    { "opus.mkv", STEREO(48000), "-c:a libopus -b:a 192k", "libopus", 0, 1, 0.5, 9, 0.2 },
    { "vorbis.mkv", STEREO(48000), "-c:a libvorbis -q:a 8", "libvorbis", 0, 1, 0.5, 9, 2e-2 },
    { "late.mkv", "-itsoffset 0.7 " STEREO(48000), "-c:a flac", "", 0.7, 1, 0.5, 9, 3e-3 },
    /* edit lists of MP4 have ms before FFmpeg 9: 1024 priming samples are 32 of them here */
    { "late.mp4", "-itsoffset 0.7 " STEREO(32000), "-c:a aac -b:a 192k", "", 0.7, 1, 0.5, 9, 1e-2 },
    { "early.mp4", "-itsoffset -0.5 " STEREO(48000), "-c:a aac -b:a 192k", "", -0.5, 1, 0.5, 9,
      1e-2 },
    { "later_both.ts", STEREO(48000), "-c:a aac -b:a 192k -output_ts_offset 10", "", 0, 1, 0.5, 9,
      1e-2 },
    { "short.mov", "-f lavfi -i \"aevalsrc=" TONES "|0.5*(" TONES "):s=48000:d=1.5\"",
      "-c:a pcm_s16le", "", 0, 1, 0.5, 1.5, 3e-3 },
    { "long.mov", "-f lavfi -i \"aevalsrc=" TONES "|0.5*(" TONES "):s=48000:d=9\"",
      "-c:a pcm_s16le", "", 0, 1, 0.5, 9, 3e-3 },
};

static void make(const row *r)
{
    char args[1024];
    snprintf(args, sizeof args, "%s -map 0:v -map 1:a -c:v copy %s", r->source, r->args);
    clip_ffmpeg(clip_dir, args, r->out);
}

static float *read_span(const char *path, double begin, double seconds, int channels, bool *has)
{
    media *m;
    media_info info;
    vc_err err = { 0 };
    const sound_span span = { begin, llround(seconds * RATE), RATE, channels };
    float *x = malloc((size_t)span.n * (size_t)channels * sizeof *x);

    assert_non_null(x);
    assert_ok(media_open(&m, path, &info, &err), &err);
    assert_ok(sound_read(m, &span, x, has, NULL, &err), &err);
    media_close(m);
    return x;
}

static double rms_from_tone(const float *x, const row *r, double begin, double gain, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const double t = begin + (double)i / RATE - r->shift;
        const double want = t <= r->end ? gain * tone(t) : 0;
        sum += (x[i] - want) * (x[i] - want);
    }
    return sqrt(sum / (double)n);
}

static void tones_are_at_their_place(void **state)
{
    static const double begins[] = { 0, 1.28, 2.6 };
    int failed = 0;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const row *r = &rows[i];
        if (*r->encoder && !clip_have_encoder(r->encoder)) {
            print_message("%s: no encoder %s\n", r->out, r->encoder);
            continue;
        }
        make(r);
        for (int k = 0; k < 3; k++) {
            bool has;
            const int64_t n = (int64_t)(1.9 * RATE);
            float *x = read_span(clip_path(r->out), begins[k], 1.9, 2, &has);
            const double left = rms_from_tone(x, r, begins[k], r->left, n);
            const double right = rms_from_tone(x + n, r, begins[k], r->right, n);
            if (left > r->far || right > r->far || has != (begins[k] < r->end + r->shift)) {
                print_message("%s from %g s: rms %.2g and %.2g, at most %.2g; has %d\n", r->out,
                              begins[k], left, right, r->far, has);
                failed++;
            }
            free(x);
        }
    }
    assert_int_equal(failed, 0);
}

/* A centre channel comes from both sides alike. */
static void six_channels_are_mixed(void **state)
{
    const row r = { "six.mkv", SIX, "-c:a flac", "", 0, 1, 1, 9, 3e-3 };
    const int64_t n = 2 * RATE;
    bool has;
    (void)state;
    make(&r);
    float *x = read_span(clip_path(r.out), 0.5, 2, 2, &has);
    double most = 0;
    for (int64_t i = 0; i < n; i++) {
        assert_float_equal(x[i], x[n + i], 1e-6);
        most = fmax(most, fabs((double)x[i]));
    }
    assert_true(has && most > 0.05 && most < 0.4);
    assert_true(rms_from_tone(x, &r, 0.5, most / 0.4, n) < 3e-3);
    free(x);
    x = read_span(clip_path("s16.mov"), 0.5, 2, 1, &has);
    assert_true(rms_from_tone(x, &r, 0.5, 0.75, n) < 3e-3);      /* the mean of 1 and 0.5 */
    free(x);
}

static void silence_without_sound(void **state)
{
    static const char *const names[] = { "numbers.mp4", "one.png", "s16.mov" };
    (void)state;
    clip_ffmpeg(clip_dir, "-frames:v 1", "one.png");
    for (int i = 0; i < 3; i++) {
        bool has = true;
        float *x = read_span(clip_path(names[i]), i < 2 ? 0 : 60, 0.5, 2, &has);
        assert_false(has);
        for (int k = 0; k < RATE; k++)
            assert_true(x[k] == 0);
        free(x);
    }
}

/* A wrong byte in the second half of a file whose pictures are a few bytes: where it hits a FLAC
 * frame, the frame is refused, and what was played before it is not. */
static void damage_is_refused(void **state)
{
    const sound_span span = { 0, 4 * RATE, RATE, 2 }, before = { 0, RATE / 2, RATE, 2 };
    float *x = malloc(8 * RATE * sizeof *x);
    media_info info;
    size_t size;
    bool has;
    int refused = 0;
    (void)state;
    clip_ffmpeg(clip_dir, "-f lavfi -i color=s=16x16:r=2:d=4.8 " STEREO(48000)
                " -map 1:v -map 2:a -c:v mpeg4 -c:a flac", "flaw.mkv");
    uint8_t *data = clip_load(clip_path("flaw.mkv"), &size);
    for (int i = 0; i < 8; i++) {
        const size_t at = size * (size_t)(10 + i) / 20;
        media *m;
        vc_err err = { 0 };
        data[at] ^= 0x55;
        clip_save(clip_path("flaw2.mkv"), data, size);
        data[at] ^= 0x55;
        assert_ok(media_open(&m, clip_path("flaw2.mkv"), &info, &err), &err);
        if (sound_read(m, &span, x, &has, NULL, &err)) {
            assert_non_null(strstr(err.text, "sound: damaged at "));
            assert_non_null(strstr(err.text, "--with_audio"));
            refused++;
        }
        assert_ok(sound_read(m, &before, x, &has, NULL, &err), &err);
        media_close(m);
    }
    assert_true(refused >= 4);
    free(data);
    free(x);
}

static void spans_are_checked(void **state)
{
    static const sound_span bad[] = { { 0, 0, RATE, 2 }, { 0, 1, 0, 2 }, { 0, 1, RATE, 3 },
                                      { NAN, 1, RATE, 2 }, { 0, 1, RATE, 0 } };
    media *m;
    media_info info;
    float x[8];
    bool has;
    vc_err err = { 0 };
    (void)state;
    assert_ok(media_open(&m, clip_path("numbers.mp4"), &info, &err), &err);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(sound_read(m, &bad[i], x, &has, NULL, &err), VC_EINVAL);
    media_close(m);
}

/* The sound of a written clip is heard at its place when it is read again: AAC's loss and its
 * priming samples move nothing. */
static void written_sound_is_heard(void **state)
{
    enum { OUT = 24000, FRAMES = 90 };
    static const int sizes[] = { 64, 128 };
    const row r = { "written.mp4", "", "", "", 0, 1, 0.5, 3.6, 2e-2 };
    const int64_t n = (int64_t)(3.6 * OUT), back = (int64_t)(3.55 * RATE);
    media_wave wave = { malloc((size_t)(2 * n) * sizeof(float)), n, OUT, 2 };
    uint8_t *rgb = calloc((size_t)(sizes[0] * sizes[1]), 3);
    media_mp4 *m;
    bool has;
    vc_err err = { 0 };
    (void)state;
    for (int64_t i = 0; i < n; i++) {
        wave.x[i] = (float)tone((double)i / OUT);
        wave.x[n + i] = 0.5f * wave.x[i];
    }
    assert_ok(media_mp4_open(&m, clip_path(r.out), sizes[0], sizes[1], 25, &wave, &err), &err);
    for (int i = 0; i < FRAMES; i++)
        assert_ok(media_mp4_put(m, rgb, &err), &err);
    assert_ok(media_mp4_close(m, 0, &err), &err);
    float *x = read_span(clip_path(r.out), 0, 3.55, 2, &has);
    assert_true(has);
    assert_true(rms_from_tone(x, &r, 0, 1, back) < r.far);
    assert_true(rms_from_tone(x + back, &r, 0, 0.5, back) < r.far);
    free(x);
    wave.n = 0;
    assert_int_equal(media_mp4_open(&m, clip_path("no.mp4"), 64, 64, 25, &wave, &err), VC_EINVAL);
    assert_null(m);
    free(wave.x);
    free(rgb);
}

/* torchaudio computed in f64 here, so that f32 values differ by their rounding alone: its weights
 * and sums have some 40 terms. */
static void rates_change_as_in_torchaudio(void **state)
{
    static const int from[] = { 44100, 48000, 22050, 8000, 16000, 11025 };
    static const int to[] = { 16000, 24000, 48000 };
    vf_safetensors *g = golden_open("sound");
    (void)state;
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 3; k++) {
            char name[32];
            int64_t n[8], want_n[8];
            vc_err err = { 0 };
            snprintf(name, sizeof name, "x.%d", from[i]);
            float *x = golden_values(g, name, n);
            snprintf(name, sizeof name, "y.%d.%d", from[i], to[k]);
            float *want = golden_values(g, name, want_n), *y = malloc((size_t)want_n[0] * 4);
            assert_ok(sound_resample(y, want_n[0], x, n[0], 0, from[i], to[k], &err), &err);
            if (golden_error(y, want, want_n[0]) > 1e-6)
                fail_msg("%s: %g", name, golden_error(y, want, want_n[0]));
            free(x);
            free(want);
            free(y);
        }
    vf_safetensors_close(g);
}

int main(void)
{
    const struct CMUnitTest always[] = { cmocka_unit_test(rates_change_as_in_torchaudio) };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tones_are_at_their_place), cmocka_unit_test(six_channels_are_mixed),
        cmocka_unit_test(silence_without_sound), cmocka_unit_test(damage_is_refused),
        cmocka_unit_test(spans_are_checked), cmocka_unit_test(written_sound_is_heard),
    };
    int failed = cmocka_run_group_tests_name("rates", always, NULL, NULL);
    if (clip_have_ffmpeg())
        failed += cmocka_run_group_tests_name("spans", tests, clip_setup_numbers, clip_teardown);
    else
        printf("SKIPPED: no ffmpeg\n");
    return failed;
}
