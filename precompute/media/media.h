/* media.h - frames of videos and stills, as they are meant to be shown.
 *
 * Videos, GIF, WebP, PNG, ... go through FFmpeg's best video stream, JPEG stills through TurboJPEG
 * (of several pictures in one JPEG or PNG file: the first), TIFF through libtiff, and of HEIC and
 * AVIF the boxes are read here. "Shown" means: rotation (display matrix, orientation of EXIF, TIFF,
 * HEIF) and, for videos, sample aspect are applied (by width), alpha is dropped (not blended, and
 * divided out where colours are multiplied by it), colour is converted by the stream's matrix and
 * range (untagged: BT.601 as FFmpeg's scaler assumes, limited range unless the format says full).
 * HDR is converted as if it were SDR, unless a read asks for a tone mapping. Frames that are
 * decoded but not shown do not count. Frames are numbered from 0 in presentation order, whatever
 * the first timestamp is; where a muxer gave packets their decoding times as times of presentation,
 * in the order in which the decoder returns the frames, and the sorted times are theirs.
 *
 * A file is damaged where a wanted frame is missing, concealed or flagged corrupt, was decoded
 * from such a frame, or a still ends early: such a frame is refused with its number (VC_EFORMAT);
 * good parts may be used.
 *
 * Nothing but the file itself is ever opened: formats that refer to other files or to the network
 * are refused. One handle belongs to one thread; handles are independent. The first one opened
 * silences FFmpeg's messages for the process; they become part of the errors reported here. */
#ifndef PRECOMPUTE_MEDIA_MEDIA_H
#define PRECOMPUTE_MEDIA_MEDIA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"
#include "formats/keys/part.h"

typedef struct media media;

/* Larger pictures and longer videos are refused: no honest file has them, and they need memory. */
#define MEDIA_MAX_PIXELS (INT64_C(1) << 28)
#define MEDIA_MAX_FRAMES (INT64_C(1) << 24)
#define MEDIA_FRAMES_FPS 25  /* as FFmpeg takes pictures */
#define MEDIA_MAX_FPS 1e6    /* what a record holds */

typedef struct media_info {
    int w, h;                /* as displayed: rotation and sample aspect applied */
    int coded_w, coded_h;    /* as stored */
    int64_t frames;          /* shown frames; 1 for a still */
    double fps;              /* average over the shown frames; 0 for a still */
    double duration;         /* seconds, first frame to the end of the last; 0 for a still */
    bool is_video;           /* more than one frame, or a video container */
    bool vfr;                /* frame distances differ by more than one tick of the time base */
    bool reordered;          /* the packets' times are not in the order of display */
    bool hdr;                /* the first frame has the transfer PQ (ST 2084) or HLG (STD-B67) */
    bool sound;              /* there is an audio stream (precompute/sound/read.h) */
    bool mirrored;           /* left to right, before the rotation (EXIF 2, 4, 5, 7) */
    int rotation;            /* clockwise degrees that were applied: 0, 90, 180, 270 */
    int stream_index;        /* FFmpeg's index; 0 for JPEG stills */
    char codec[24];
} media_info;

/* Opens and probes. A read that the system refuses is VC_EIO here and below, never damage. Frames
 * are counted by a pass over the packets; packets without timestamps, or with timestamps that
 * contradict the order of display, are decoded once to be counted. Otherwise nothing is decoded
 * beyond the first frame.
 * VC_EIO, VC_ENOENT: cannot open; VC_EFORMAT: no regular file, no video stream, no decoder,
 * damaged header, no frame that decodes. */
int media_open(media **out, const char *path, media_info *info, vc_err *err);
/* The same for a part of a file, or for a folder whose pictures, by the numbers in their names, are
 * the frames of a video at MEDIA_FRAMES_FPS. */
int media_open_part(media **out, const vf_part *part, media_info *info, vc_err *err);
void media_close(media *m);                         /* NULL is fine */
int media_fd(const media *m);                       /* the descriptor, borrowed */

/* *name: the way in which the pixels of a still are read, where older versions of this program
 * read other ones, so that their values are not to be reused. NULL: the pixels are the same, or the
 * file is none of these. Of a folder that of its first picture. The name lives for ever. Errors are
 * those of the system alone. */
int media_reading(const char **name, const vf_part *part, vc_err *err);

/* *has: the alpha of a still is not opaque everywhere, or the frames of a video have alpha. What
 * cannot be read has none: reading it says why. VC_EFORMAT: such a still is black wherever it is
 * not transparent, so that its shape is in the alpha alone and weighs nothing, or its alpha is not
 * read. */
int media_alpha(const vf_part *part, bool *has, vc_err *err);

/* Lets the decoder use n threads (1 when not called). The same pixels for any n. */
int media_set_threads(media *m, int n, vc_err *err);

/* NVDEC, the video decoder of an NVIDIA GPU, through FFmpeg. One serves any number of handles, on
 * any threads, and is closed after them. */
typedef struct media_gpu media_gpu;

/* VC_EUSAGE: FFmpeg was built without NVDEC, or there is no driver or no such GPU; the message says
 * which. */
int media_gpu_open(media_gpu **out, int index, vc_err *err);
void media_gpu_close(media_gpu *gpu);               /* NULL is fine */
uint64_t media_gpu_frames(const media_gpu *gpu);    /* frames that gpu decoded; NULL: 0 */

/* Lets media_read take a video's frames from gpu, for H.264, HEVC, VP9 and AV1: their standards fix
 * every bit, so the pixels are the same. The software decoder reads frames that the GPU cannot
 * decode or reports as damaged; but a GPU conceals most damage silently, and then no frame is
 * refused. */
void media_use_gpu(media *m, media_gpu *gpu);

/* How HDR frames become SDR: the curve that brings linear light into 0..1, by the names and with
 * the parameters of FFmpeg's filter tonemap. NONE converts values as if they were SDR, which looks
 * washed out. Frames of SDR are the same with each of them. */
typedef enum media_tonemap {
    MEDIA_TONEMAP_NONE, MEDIA_TONEMAP_CLIP, MEDIA_TONEMAP_REINHARD, MEDIA_TONEMAP_MOBIUS,
    MEDIA_TONEMAP_HABLE, MEDIA_TONEMAPS
} media_tonemap;
extern const char *const media_tonemap_names[MEDIA_TONEMAPS];

/* How a shown frame becomes pixels: the whole frame is resized to (rh, rw), and (h, w) is cut at
 * (top, left). The four fields from load_h serve --sampling peer, which follows VideoX-Fun. */
typedef struct media_fit {
    int rh, rw, top, left, h, w;
    bool flip;               /* mirrored left to right after the cut */
    int load_h, load_w;      /* resized to this before, bilinear and in 8 bits (resize.h); 0: not */
    bool exact;              /* f32 values 0..255, not rounded */
    bool black;              /* the cut may leave (rh, rw) below or to the right: 0 there */
    bool alpha;              /* colours are multiplied by the alpha of a frame that has one */
    media_tonemap tonemap;
} media_fit;

/* Reads a still as it is stored, without its EXIF orientation, and fills *info again. Does nothing
 * for a video. */
void media_as_stored(media *m, media_info *info);

/* Decodes frames index[0..n-1] (ascending, equal ones allowed) into dst u8 (fit.exact: f32) [n,
 * fit.h, fit.w, 3] RGB, each resized once from the decoded frame to its target (resize.h) and
 * rounded to 8 bits once. Seeks to the last key frame before index[0] where the container allows
 * seeking, and decodes no further than needed. Memory: a few decoded frames, whatever the clip's
 * length. Only the pixels of the cut are resized. stop, if not NULL, is polled between packets:
 * nonzero gives VC_ESTOP. VC_EINVAL: an index or a fit out of range. dst is undefined on
 * failure. May be called again with other indices; frames after those of the last call cost no
 * seek. */
int media_read(media *m, void *dst, const int64_t *index, int n, const media_fit *fit,
               const atomic_int *stop, vc_err *err);

/* Presentation times in seconds, from the first shown frame, of frames 0..frames-1: pts[0] = 0.
 * Borrowed, valid until close; NULL for a still. */
const double *media_times(const media *m);

#endif
