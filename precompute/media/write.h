/* write.h - RGB pictures and clips into files.
 *
 * Pixels are u8 [h, w, 3], packed. Files are replaced whole: a reader sees the old file or the
 * new one. Functions keep no state: any thread, any number at a time.
 * VC_EINVAL: no pixels, a side above MEDIA_WRITE_MAX_SIDE, a rate that is not positive.
 * Other failures: VC_ENOMEM, and VC_EIO, VC_ENOENT, VC_EFULL from writing. */
#ifndef PRECOMPUTE_MEDIA_WRITE_H
#define PRECOMPUTE_MEDIA_WRITE_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

#define MEDIA_WRITE_MAX_SIDE 16384

int media_write_png(const char *path, const uint8_t *rgb, int h, int w, vc_err *err);
/* quality: 1 to 100. Chroma is halved below 90, kept whole from there on. */
int media_write_jpeg(const char *path, const uint8_t *rgb, int h, int w, int quality, vc_err *err);

/* A clip of frames [h, w, 3] at fps frames a second: H.264 if this FFmpeg has an encoder for it,
 * else MPEG-4 part 2; yuv420p, BT.709, limited range, tagged so; header in front. Odd sides get one
 * more line, the last one repeated. Memory: the frames that the encoder looks ahead, whatever the
 * clip's length. One thread at a time. */
typedef struct media_mp4 media_mp4;
/* Sound beside a clip: x f32 [channels,n] in -1..1 (what exceeds that is clipped), 1 or 2 channels.
 * It is written as AAC, from the first frame on. */
typedef struct media_wave {
    float *x;
    int64_t n;
    int rate, channels;
} media_wave;
/* sound: borrowed until media_mp4_close; NULL: the clip has none. */
int media_mp4_open(media_mp4 **out, const char *path, int h, int w, double fps,
                   const media_wave *sound, vc_err *err);
int media_mp4_put(media_mp4 *m, const uint8_t *rgb, vc_err *err);     /* the next frame */
/* rc: of the clip so far. If rc is 0 the file gets its name, else it is removed. Returns rc, or the
 * first error of closing. m is freed; with NULL, returns rc. */
int media_mp4_close(media_mp4 *m, int rc, vc_err *err);
/* The same for a clip rgb [n, h, w, 3] that is in memory. */
int media_write_mp4(const char *path, const uint8_t *rgb, int n, int h, int w, double fps,
                    vc_err *err);

/* A JPEG in memory. The caller frees *jpeg with free(); NULL on failure. */
int media_jpeg(uint8_t **jpeg, size_t *size, const uint8_t *rgb, int h, int w, int quality,
               vc_err *err);

/* The picture with its longer side at most `side`, the shape kept (a smaller one is copied).
 * The caller frees *small with free(); NULL on failure. */
int media_shrink(uint8_t **small, int *small_h, int *small_w, const uint8_t *rgb, int h, int w,
                 int side, vc_err *err);

#endif
