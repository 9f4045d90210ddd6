/* video.h - layers of causal video autoencoders, on [1,T,H,W,C] and without gradients.
 *
 * A clip goes through in chunks of frames. Each causal convolution carries the last frames of its
 * input to the next chunk. The first chunk has the rows and columns of all, so room for these
 * frames is made with it: for a list of residual blocks before the first of them runs, so that
 * memory which lives as long as the clip fills holes and leaves none.
 *
 * Layers give the tensors that they have read back: a residual block has three activations in
 * memory. */
#ifndef COMMON_NN_VIDEO_H
#define COMMON_NN_VIDEO_H

#include "common/tensor/ops.h"
#include "common/tensor/weights.h"

/* w [K,C,kt,kh,kw], or [K,C,kh,kw] for a convolution of each frame alone; b [K] */
typedef struct nn_video_conv {
    vt_tensor *w, *b;
    vt_tensor *carried;              /* [1,F,H,W,C] from the chunk before, until the step ends */
} nn_video_conv;

/* A group norm with w, b [C]. In spatial form (Zheng et al. 2022) its result is scaled and
 * shifted by pointwise convolutions of the latent, whose weights are then set. groups 0: an RMS
 * norm of each place's channels instead, with C numbers w of any shape. */
typedef struct nn_video_norm {
    vt_tensor *w, *b;
    int groups;
    float eps;
    nn_video_conv scale, shift;
} nn_video_norm;

typedef struct nn_video_resnet {
    nn_video_norm norm1, norm2;
    nn_video_conv conv1, conv2;
    nn_video_conv shortcut;          /* pointwise; w NULL: the block is as wide as its input */
} nn_video_resnet;

/* The place in a clip that the network has reached. */
typedef struct nn_video {
    vt_ctx *g;
    bool first, last;                /* of the clip's chunks; a short clip is one chunk */
    int frames;                      /* latent frames of the clip, of all its chunks */
    bool edge;                       /* copies of its border stand around a frame, else zeros */
    bool blank;                      /* zeros stand before a clip, else copies of its first frame */
    int ended;                       /* of the last chunk: its runs before this one (centred.h) */
    vt_tensor *z;                    /* the chunk's latent, which spatial norms read, or NULL */
} nn_video;

/* Rows for vt_params_bind: a convolution with kernel 3x3x3 (cube), 1x1x1 (point), 3x3 (plane), 1x1
 * (pixel) or 3x1x1 (time), a norm's own w and b (affine), and an RMS norm's w [C,1,1,1] (gamma). Of
 * sizes, -1 stands for the output channels, -2 for the input channels. */
enum { NN_VIDEO_OUT = -1, NN_VIDEO_IN = -2 };
extern const vt_weight nn_video_cube[], nn_video_point[], nn_video_plane[], nn_video_pixel[],
                       nn_video_time[], nn_video_affine[], nn_video_gamma[];

/* Convolves x into a result as large as x. Copies of the clip's first frame or zeros stand before
 * x, and copies of its border or zeros around each frame. The function makes room for the frames
 * that c carries. With a plane for c, each frame is convolved alone among zeros. */
vt_tensor *nn_video_causal(const nn_video *n, nn_video_conv *c, vt_tensor *x);
/* Does the same in steps of t, h, w. If t is two, the first chunk has an odd number of frames, and
 * every other chunk has an even one. */
vt_tensor *nn_video_causal_steps(const nn_video *n, nn_video_conv *c, vt_tensor *x,
                                 const int step[3]);
vt_tensor *nn_video_pointwise(const nn_video *n, const nn_video_conv *c, vt_tensor *x);
/* Returns silu(norm(x)). */
vt_tensor *nn_video_norm_silu(const nn_video *n, const nn_video_norm *norm, vt_tensor *x);
/* Returns conv(silu(norm(x))), the end of a network, as nn_video_causal does. x was made in the
 * scope s, which it ends: memory is given back as soon as its values are read. */
vt_tensor *nn_video_head(const nn_video *n, const nn_video_norm *norm, nn_video_conv *conv,
                         vt_tensor *x, vt_scope s);
/* Makes room for the frames that `count` blocks carry; x has their input's rows and columns. A
 * network's first blocks want the room before their input is made. */
void nn_video_make_room(const nn_video *n, nn_video_resnet *r, int count, const vt_tensor *x);
/* Runs `count` residual blocks that have room, each x + conv2(silu(norm2(conv1(silu(norm1(x))))).
 * x was made in the scope s, so that its memory is given back once the first block has read x. */
vt_tensor *nn_video_resnets(const nn_video *n, nn_video_resnet *r, int count, vt_tensor *x,
                            vt_scope s);
/* Halves rows and columns: pads zeros on the right and below, then c [K,C,3,3] goes in steps of
 * two. With `time` means of neighbouring frames come first; an odd count leaves frame 0 alone. */
vt_tensor *nn_video_down(const nn_video *n, const nn_video_conv *c, vt_tensor *x, bool time);
/* Doubles rows and columns, then c [K,C,3,3] follows. With `time` each frame comes twice as well;
 * an odd count leaves frame 0 alone. */
vt_tensor *nn_video_up(const nn_video *n, const nn_video_conv *c, vt_tensor *x, bool time);
/* Halves the frames after a clip's first, which stays as it is: c [K,C,3,1,1] makes one frame of
 * three, the last of which is also the first of the next three. The first chunk has an odd number
 * of frames, and every other chunk has an even one. */
vt_tensor *nn_video_halve_frames(const nn_video *n, nn_video_conv *c, vt_tensor *x);
/* Doubles the frames after a clip's first, which is a chunk of its own and stays as it is: from a
 * frame and the two before it, c [2C,C,3,1,1] makes the channels of two frames. It sees zeros in
 * place of the clip's first frame. */
vt_tensor *nn_video_double_frames(const nn_video *n, nn_video_conv *c, vt_tensor *x);

#endif
