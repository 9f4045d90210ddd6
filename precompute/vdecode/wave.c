/* wave.c - see wave.h */
#include "precompute/vdecode/wave.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t ink[3] = { 0x0b, 0x62, 0xb8 };        /* on white, which dark pages invert */

/* The row of a value, which is never outside of the picture. */
static int row_of(float x)
{
    const float at = (1 - x) / 2 * WAVE_HEIGHT;
    return at >= WAVE_HEIGHT ? WAVE_HEIGHT - 1 : at > 0 ? (int)at : 0;
}

/* The least and the greatest value of samples from .. end - 1, of all channels. */
static void reach(const media_wave *w, int64_t from, int64_t end, float *least, float *most)
{
    *least = INFINITY;
    *most = -INFINITY;
    for (int c = 0; c < w->channels; c++)
        for (int64_t i = from; i < end; i++) {
            *least = fminf(*least, w->x[c * w->n + i]);
            *most = fmaxf(*most, w->x[c * w->n + i]);
        }
}

void wave_draw(uint8_t *rgb, const media_wave *w)
{
    memset(rgb, 0xff, (size_t)WAVE_HEIGHT * WAVE_WIDTH * 3);
    for (int x = 0; x < WAVE_WIDTH && w->n > 0; x++) {
        const int64_t from = w->n * x / WAVE_WIDTH, end = w->n * (x + 1) / WAVE_WIDTH;
        float least, most;
        reach(w, from, end > from ? end : from + 1, &least, &most);
        for (int y = row_of(most); y <= row_of(least); y++)
            memcpy(rgb + (y * WAVE_WIDTH + x) * 3, ink, sizeof ink);
    }
}

int wave_write(const char *path, const media_wave *w, vc_err *err)
{
    uint8_t *rgb = malloc((size_t)WAVE_HEIGHT * WAVE_WIDTH * 3);
    if (!rgb)
        return vc_no_memory(err);
    wave_draw(rgb, w);
    const int rc = media_write_png(path, rgb, WAVE_HEIGHT, WAVE_WIDTH, err);
    free(rgb);
    return rc;
}
