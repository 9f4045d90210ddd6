/* media_clip.h - makes clips for tests, in which every frame shows its number.
 *
 * A frame is 128x64. Its upper half has 16 blocks of 16x16, each of which is one bit of the number
 * (white is 1) and the last ones are zero; its lower half has four squares of 32x32: red, green,
 * blue, white. */
#ifndef TESTS_PRECOMPUTE_MEDIA_CLIP_H
#define TESTS_PRECOMPUTE_MEDIA_CLIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CLIP_H = 64, CLIP_W = 128, CLIP_BYTES = CLIP_H * CLIP_W * 3 };
enum { CLIP_FRAMES = 120, CLIP_FPS = 25 };

extern const uint8_t clip_colours[4][3];

void clip_frame(uint8_t *rgb, int number);
/* The number in a frame, which may be scaled; -1 where a bit is neither black nor white. */
int clip_number(const uint8_t *rgb, int h, int w);
/* The mean colour in the middle of square 0..3 of a frame [h, w, 3] in stored orientation. */
void clip_square(double mean[3], const uint8_t *rgb, int h, int w, int square);

/* The folder of a test group, under TMPDIR or /tmp, in which setup makes numbers.mp4 (CLIP_FRAMES
 * frames); teardown removes the folder. */
extern char clip_dir[256];
int clip_setup(void **state);
int clip_setup_numbers(void **state);
int clip_teardown(void **state);
const char *clip_path(const char *name);              /* in clip_dir; valid until the next call */

bool clip_have_ffmpeg(void);
bool clip_have_encoder(const char *name);
/* Runs ffmpeg -i dir/numbers.mp4 ARGS dir/OUT; an error of ffmpeg fails the test. */
void clip_ffmpeg(const char *dir, const char *args, const char *out);

/* Reads a whole file; the caller frees the bytes. */
uint8_t *clip_load(const char *path, size_t *size);
/* Writes a whole file. */
void clip_save(const char *path, const void *data, size_t size);

#endif
