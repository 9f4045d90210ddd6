/* media_clip.c - makes clips of numbered frames: see media_clip.h */
#include "tests/precompute/media/media_clip.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "precompute/media/write.h"
#include "tests/lib/ok.h"
#include "tests/lib/tmp_dir.h"

const uint8_t clip_colours[4][3] = {
    { 200, 40, 50 }, { 40, 180, 60 }, { 50, 60, 210 }, { 235, 235, 235 },
};

void clip_frame(uint8_t *rgb, int number)
{
    for (int y = 0; y < CLIP_H; y++)
        for (int x = 0; x < CLIP_W; x++, rgb += 3) {
            int bit = y / 16 * 8 + x / 16;
            if (y < 32)
                memset(rgb, number >> bit & 1 ? 215 : 40, 3);
            else
                memcpy(rgb, clip_colours[x / 32], 3);
        }
}

static double mean_of(const uint8_t *rgb, int w, int y0, int y1, int x0, int x1, int channel)
{
    double sum = 0;
    for (int y = y0; y < y1; y++)
        for (int x = x0; x < x1; x++)
            sum += rgb[((size_t)y * (size_t)w + (size_t)x) * 3 + (size_t)channel];
    return sum / ((y1 - y0) * (x1 - x0));
}

int clip_number(const uint8_t *rgb, int h, int w)
{
    int number = 0;
    for (int bit = 0; bit < 16; bit++) {
        int y = bit / 8 * h / 4, x = bit % 8 * w / 8;
        double v = mean_of(rgb, w, y + h / 12, y + h / 6, x + w / 24, x + w / 12, 1);
        if (v > 80 && v < 170)
            return -1;
        number |= (v > 128) << bit;
    }
    return number;
}

void clip_square(double mean[3], const uint8_t *rgb, int h, int w, int square)
{
    int x = square * w / 4;
    for (int c = 0; c < 3; c++)
        mean[c] = mean_of(rgb, w, h / 2 + h / 6, h / 2 + h / 3, x + w / 12, x + w / 6, c);
}

char clip_dir[256];

int clip_setup(void **state)
{
    (void)state;
    assert_int_equal(tmp_dir_make(clip_dir), 0);
    return 0;
}

int clip_teardown(void **state)
{
    (void)state;
    vc_err err = { 0 };
    assert_ok(vc_remove_tree(clip_dir, &err), &err);
    return 0;
}

const char *clip_path(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", clip_dir, name);
    return path;
}

int clip_setup_numbers(void **state)
{
    clip_setup(state);
    vc_err err = { 0 };
    uint8_t *rgb = malloc((size_t)CLIP_FRAMES * CLIP_BYTES);
    assert_non_null(rgb);
    for (int i = 0; i < CLIP_FRAMES; i++)
        clip_frame(rgb + (size_t)i * CLIP_BYTES, i);
    assert_ok(media_write_mp4(clip_path("numbers.mp4"), rgb, CLIP_FRAMES, CLIP_H, CLIP_W, CLIP_FPS,
              &err), &err);
    free(rgb);
    return 0;
}

/* ffmpeg's list of encoders, empty without ffmpeg. A start of ffmpeg takes a tenth of a second. */
static const char *encoders(void)
{
    static char list[1 << 16];
    static bool asked;
    if (!asked) {
        FILE *f = popen("ffmpeg -v error -encoders 2>/dev/null", "r");
        assert_non_null(f);
        list[fread(list, 1, sizeof list - 1, f)] = 0;
        pclose(f);
        asked = true;
    }
    return list;
}

bool clip_have_ffmpeg(void)
{
    return *encoders();
}

bool clip_have_encoder(const char *name)
{
    char word[256];
    snprintf(word, sizeof word, " %s ", name);
    return strstr(encoders(), word) != NULL;
}

void clip_ffmpeg(const char *dir, const char *args, const char *out)
{
    char cmd[2048];
    snprintf(cmd, sizeof cmd,
             "cd '%s' && ffmpeg -nostdin -v error -y -i numbers.mp4 %s '%s' 2>log.txt", dir, args,
             out);
    if (system(cmd))
        fail_msg("%s", cmd);
}

uint8_t *clip_load(const char *path, size_t *size)
{
    char *data;
    vc_err err = { 0 };
    assert_ok(vc_file_read(&data, size, path, (size_t)1 << 30, &err), &err);
    return (uint8_t *)data;
}

void clip_save(const char *path, const void *data, size_t size)
{
    vc_err err = { 0 };
    assert_ok(vc_file_write(path, data, size, &err), &err);
}
