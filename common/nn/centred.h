/* centred.h - convolutions that read one frame before and one after each frame, on [1,T,H,W,C] and
 * without gradients: a clip goes through a network of them in chunks of frames.
 *
 * A convolution returns a frame as soon as it has the frame after it, so each one is a frame late,
 * and the first calls of a network return no frames (NULL). At the end of the clip a convolution
 * reads a copy of its last frame. To bound memory there too, the convolutions end a few at a time:
 * the network runs for the last chunk, in which the first ones end, and then some more times, with
 * NULL for its input. So all frames equal those of one pass over the whole clip, and memory is that
 * of a chunk.
 *
 * A causal convolution reads two frames before each frame and is never late. */
#ifndef COMMON_NN_CENTRED_H
#define COMMON_NN_CENTRED_H

#include "common/nn/video.h"

/* One run of a network over a chunk. */
typedef struct nn_centred {
    const nn_video *n;
    bool causal;
    bool reflect;                    /* the rows and columns around a frame mirror it, else zeros */
    const int *end;                  /* of each convolution, in the order in which they run: the
                                      * n->ended of the run in which it ends. It never falls, and
                                      * is 0 for the first one */
    int convs;                       /* convolutions that have run */
} nn_centred;

/* Frames that wait for a late convolution; the chunk `first` empties them. */
typedef struct nn_waiting {
    vt_tensor *frames;               /* [1,F,H,W,C] until the step ends */
    int64_t count;                   /* of the frames that are filled, at most F */
} nn_waiting;

/* Convolves x, or NULL for no frames, by c [K,C,3,3,3] with rows and columns as many as those of x.
 * VC_EINVAL: a frame of one row or column cannot be mirrored. */
vt_tensor *nn_centred_conv(nn_centred *p, nn_video_conv *c, vt_tensor *x);

/* Adds x to the frames that wait, and returns as many of them as y has frames, oldest first. y was
 * made from x by convolutions, at most `most` of them. x and y may be NULL for no frames. */
vt_tensor *nn_centred_wait(const nn_centred *p, nn_waiting *w, vt_tensor *x, const vt_tensor *y,
                           int most);

#endif
