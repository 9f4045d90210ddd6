/* media_clip.h - clips for tests whose every frame carries its number.
 *
 * A frame is 128x64: above, 16 blocks of 16x16, one bit of the number each (white is 1), the last
 * ones being zero; below, four squares of 32x32: red, green, blue, white. */
#ifndef TESTS_PRECOMPUTE_MEDIA_CLIP_H
#define TESTS_PRECOMPUTE_MEDIA_CLIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CLIP_H = 64, CLIP_W = 128, CLIP_BYTES = CLIP_H * CLIP_W * 3 };
enum { CLIP_FRAMES = 120, CLIP_FPS = 25 };

extern const uint8_t clip_colours[4][3];

void clip_frame(uint8_t *rgb, int number);
/* The number in a frame of any size but this shape; -1 if a bit is neither black nor white. */
int clip_number(const uint8_t *rgb, int h, int w);
/* Mean colour of square 0..3, its middle, of a frame [h, w, 3] in stored orientation. */
void clip_square(double mean[3], const uint8_t *rgb, int h, int w, int square);

/* A test group's folder, of its own under TMPDIR or /tmp; with numbers.mp4 (CLIP_FRAMES frames) in
 * it; removed with all in it. */
extern char clip_dir[256];
int clip_setup(void **state);
int clip_setup_numbers(void **state);
int clip_teardown(void **state);
const char *clip_path(const char *name);              /* in clip_dir; until the next call */

bool clip_have_ffmpeg(void);
bool clip_have_encoder(const char *name);
/* ffmpeg -i dir/numbers.mp4 ARGS dir/OUT; fails the test if ffmpeg fails. */
void clip_ffmpeg(const char *dir, const char *args, const char *out);

/* A whole file; freed by the caller. */
uint8_t *clip_load(const char *path, size_t *size);
void clip_save(const char *path, const void *data, size_t size);

#endif
