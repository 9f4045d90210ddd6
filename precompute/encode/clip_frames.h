/* clip_frames.h - the frames of a clip: those that it has of its source, or of a file beside the
 * source, a loss mask or a control clip, in the same size, crop and flip.
 *
 * A range of at most PREP_RANGE frames is in memory. The next range is read where a frame behind
 * the range is wanted, and one frame alone where any other frame is. With `ahead` the next range is
 * read in a thread of its own, from the first look at a range on, and two ranges are in memory. The
 * file is open as long as it has frames behind the ranges, and is checked after each read: all
 * ranges have bytes of the file that was hashed. One thread at a time calls. */
#ifndef PRECOMPUTE_ENCODE_CLIP_FRAMES_H
#define PRECOMPUTE_ENCODE_CLIP_FRAMES_H

#include <pthread.h>

#include "precompute/run/vprep.h"

enum { PREP_RANGE = 128 };

/* The next range, while a thread reads it. All but `runs` is the thread's until it is joined. */
typedef struct prep_ahead {
    pthread_t thread;
    bool runs;
    uint8_t *range;
    int first, rc;
    double seconds;                  /* that the thread took */
    vc_err err;
} prep_ahead;

/* An all-zero one has no frames, and may be closed. */
typedef struct prep_frames {
    int n;                           /* 1: a still, whose frame stands for all of a clip's */
    bool exact;                      /* f32 values 0..255; else u8 */
    size_t bytes;                    /* of a frame [h,w,3] */
    uint8_t *range;                  /* the frames first..first+count-1 */
    int first, count;
    bool ahead;                      /* set by the caller: the next range is read in a thread */
    bool failed;                     /* a frame could not be read */
    double seconds;                  /* that threads read ahead */

    /* where frames that are not in memory come from; p NULL: all are in memory */
    const vprep *p;
    const vprep_item *item;
    const vprep_clip *clip;
    vf_beside which;                 /* VF_BESIDE: the source itself */
    prep_identity is;                /* of the file that was read last */
    media *m;                        /* NULL: closed */
    bool still;                      /* the file beside the source has one frame */
    prep_ahead next;
} prep_frames;

/* media_read of n frames of a picture or clip of h x w pixels, resized by Pillow's filter where
 * c->lanczos, or of one picture in a white frame where c->framed, else as media_read
 * does. */
int prep_read(media *m, uint8_t *rgb, const int64_t *index, int n, const media_fit *fit,
              const vb_choice *c, int h, int w, vc_err *err);
/* Reads the first range of the first n frames; n 0: of none. The item, the clip and f's place are
 * borrowed until prep_frames_close, which the caller calls after a failure too. Thread-safe.
 * VC_EMISMATCH: a file beside the source has another shape, or fewer frames. Its errors begin with
 * the row's column; other errors are those of media_open and media_read. */
int prep_frames_open(prep_frames *f, const vprep *p, const vprep_item *it, const vprep_clip *clip,
                     vf_beside which, int n, vc_err *err);
/* *frame: frame t, which lasts until the next call. */
int prep_frames_at(prep_frames *f, int t, const uint8_t **frame, vc_err *err);
/* Writes frame t to x as the autoencoder reads it, f32 in -1..1. */
int prep_frames_values(prep_frames *f, int t, float *x, vc_err *err);
/* *rgb: frame t as malloc'ed bytes, rounded where it is exact; NULL after a failure. */
int prep_frames_rgb(prep_frames *f, int t, uint8_t **rgb, vc_err *err);
/* The bytes of pixels that are in memory for n frames of the choice, at most, with `ahead`. */
size_t prep_frames_room(const vprep *p, const vb_choice *c, int n);
/* Keeps `failed` and `seconds`. */
void prep_frames_close(prep_frames *f);

#endif
