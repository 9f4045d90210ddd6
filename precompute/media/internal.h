/* internal.h - declarations that the files of this folder and their tests share.
 *
 *   media.c   the handle: opening by kind, orientation and aspect of shown frames, reading
 *   frames.c  the pictures of a folder, in order: media.c reads them as a video
 *   still.c   stills that are not read through FFmpeg's demuxers: one row for each kind
 *   jpeg.c    JPEG by TurboJPEG
 *   tiff.c    TIFF by libtiff: which files are read; tiff_pixels.c: their samples to RGBA
 *   heif.c    HEIC and AVIF: the boxes (heif_boxes.c) say which coded pictures make the shown one
 *   exif.c    EXIF orientation of JPEG, PNG, WebP
 *   io.c      the one file that FFmpeg can read; FFmpeg's messages and error codes
 *   index.c   the shown frames of a stream and their times
 *   order.c   whether the times of packets are those of their pictures
 *   join.c    where transport streams were joined
 *   ends.c    whether data of a picture is missing at its end
 *   stamps.c  frames by their stamps
 *   decode.c  packets to frames: seeking, matching, damage
 *   video.c   opening a stream: its index and its first frame
 *   gpu.c     frames from a GPU's decoder, as the software decoder makes them
 *   pixels.c  a decoded frame to resized, oriented RGB
 *   yuv.c     planar YUV to RGB, the common case of such a frame
 *   tonemap.c HDR frames to 8-bit RGB of BT.709 */
#ifndef PRECOMPUTE_MEDIA_INTERNAL_H
#define PRECOMPUTE_MEDIA_INTERNAL_H

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/mastering_display_metadata.h>
#include <libswscale/swscale.h>
#include <stddef.h>

#include "precompute/media/media.h"
#include "precompute/media/resize.h"

/* ---- orientation: stored pixel (sy, sx) of shown pixel (y, x) ---- */
/* (sy, sx) = transpose ? (x, y) : (y, x); then each is counted from the far side if flipped. */
typedef struct media_orient {
    bool transpose, flip_y, flip_x;
} media_orient;

/* exif: 1..8; other numbers count as 1. */
media_orient media_orient_exif(int exif);
/* matrix: FFmpeg's display matrix; the nearest quarter turn. */
media_orient media_orient_matrix(const int32_t matrix[9]);

/* ---- exif.c ---- */
/* Orientation 1..8 in a TIFF structure (an EXIF block without its "Exif\0\0"); 0 if it has none. */
int media_exif_tiff(const uint8_t *p, size_t n);
/* ---- io.c ---- */
typedef struct media_io {
    int fd;
    int failed;             /* errno of a failed read, after which no byte is the file's */
    int64_t from;           /* offset of the part in the file */
    int64_t size, pos;
    uint8_t *bytes;         /* the size bytes of a value in a Parquet file; NULL: they are in fd */
    AVIOContext *avio;
} media_io;

/* Opens a regular file (a FIFO would block), or a part of it. io must not move: avio points at it.
 * The caller closes io after a failure too. */
int media_io_open(media_io *io, const char *path, vc_err *err);
int media_io_open_part(media_io *io, const vf_part *part, vc_err *err);
void media_io_close(media_io *io);
/* A second place of reading in `of`, which stays open longer. The caller ends it after a failure
 * too. */
int media_io_share(media_io *io, const media_io *of, vc_err *err);
void media_io_unshare(media_io *io);
/* pread that notes its failure. */
ssize_t media_io_at(media_io *io, void *buf, size_t n, int64_t at);
/* A format context that can read io and nothing else. *fmt is NULL on failure. */
int media_io_demux(AVFormatContext **fmt, media_io *io, const char *path, vc_err *err);
/* vc_fail with ": " and FFmpeg's last message on this thread, or the text of the code av. */
int media_av_fail(vc_err *err, int av, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* FFmpeg's last error message on this thread since the last clear, or "". media_log_clear comes
 * before the first use of FFmpeg, since it installs the hook that keeps messages instead of
 * printing them. */
const char *media_log_last(void);
void media_log_clear(void);
/* How many macroblocks of H.264 ended with an error on this thread. */
unsigned media_log_broken(void);

/* ---- exif.c, of a file ---- */
/* Orientation of a PNG or WebP file. 0 if there is none, or io is of another kind. */
int media_exif_file(media_io *io);
/* Whether io is an animated WebP, which not every FFmpeg decodes. */
bool media_is_animated_webp(media_io *io);

/* ---- frames.c ---- */
typedef struct media_frames {
    char **path;            /* in the order of the numbers in their names: 1.png, 2.png, 10.png */
    int n;
    bool reordered;         /* the bytewise order of the names is another one */
} media_frames;

/* Lists the pictures of a folder; after a failure the list is empty. VC_EFORMAT: there is none, or
 * two have the same number, as 1.png and 01.png have. */
int media_frames_list(media_frames *f, const char *folder, vc_err *err);
void media_frames_free(media_frames *f);

/* ---- still.c, jpeg.c, tiff.c, heif.c ---- */
typedef struct media_still_kind media_still_kind;

typedef struct media_jpeg_file {
    uint8_t *data;          /* the file without stray bytes between headers */
    size_t size;
    int w, h, exif;
    bool cmyk;
} media_jpeg_file;

/* A still of a kind that has a reader of its own; one of the pointers to its state is set. */
typedef struct media_still {
    const media_still_kind *kind;       /* NULL: FFmpeg's demuxers read the file */
    int w, h;               /* as stored */
    media_orient orient;
    char codec[24];
    const char *anew;       /* how media_reading names it; NULL: as it always was read */
    media_jpeg_file *jpeg;
    struct media_tiff *tiff;
    struct media_heif *heif;
    AVFrame *first;         /* borrowed: what shows whether the picture is HDR; or NULL */
    bool alpha_beside;      /* it has alpha, which decode does not give */
} media_still;

enum { MEDIA_NOT_MINE = 1 };

struct media_still_kind {
    bool revised;           /* older versions saw other pixels in some of these files */
    /* Fills w, h, orient, codec, anew and the state. MEDIA_NOT_MINE: the file is of another kind,
     * or of a form of this kind that only FFmpeg knows. The caller closes s after a failure too. */
    int (*open)(media_still *s, media_io *io, vc_err *err);
    /* Makes the picture, as stored, in the empty frame f. VC_EFORMAT if any part of it is missing
     * or damaged. May be called again. */
    int (*decode)(media_still *s, AVFrame *f, vc_err *err);
    void (*close)(media_still *s);
};
extern const media_still_kind media_still_jpeg, media_still_tiff, media_still_heif;

/* s->kind stays NULL if the file is no still that has a reader here. io must not move. */
int media_still_open(media_still *s, media_io *io, vc_err *err);
int media_still_decode(media_still *s, AVFrame *f, vc_err *err);
void media_still_close(media_still *s);             /* an all-zero one is fine */
/* pixels.c: allocates the pixels of f. */
int media_still_frame(AVFrame *f, enum AVPixelFormat format, int w, int h, vc_err *err);
/* Whether a warning of libjpeg means damage to the picture. */
bool media_jpeg_lost(const char *warning);

/* ---- index.c, stamps.c, decode.c, video.c ---- */
typedef struct media_entry {
    int64_t pts;            /* when it is shown, in the stream's time base */
    int64_t stamp;          /* of its packet: pts, unless the video is reordered */
    uint32_t pos;           /* place of its packet among the stream's packets, in decoding order */
    uint32_t key;           /* number of the frame where decoding has to begin to see this one */
    uint8_t wait;           /* its number + wait: the last frame shown later but decoded before */
    bool is_key;
    bool lost;              /* known from the container: cut packets, or missing ones */
    bool bad;               /* found while decoding: an error in it or in a reference */
} media_entry;

/* The most places by which a decoder moves a frame from decoding order. */
enum { MEDIA_REORDER = 16 };

typedef struct media_video {
    const char *path;       /* borrowed */
    media_io *io;           /* borrowed */
    AVFormatContext *fmt;
    AVCodecContext *dec;
    media_gpu *gpu;         /* borrowed; NULL: dec decodes on the CPU */
    enum AVPixelFormat planar;          /* of frames from gpu, once they are in memory */
    int stream, threads;
    AVRational time_base;
    AVPacket *pkt;
    AVFrame *frame;

    /* shown frames in presentation order */
    media_entry *index;
    int64_t n, room;
    int64_t last_pts, last_duration;    /* of the last one; 0 ticks: unknown */
    bool counted;           /* without timestamps, frames are counted from 0 */
    bool reordered;         /* the packets' times are not in the order of display */
    uint32_t *by_stamp;     /* numbers of frames, sorted by stamp; NULL: 0, 1, 2, ... */
    bool still;             /* there is one frame */
    int64_t first_pts;      /* of the stream's first packet, */
    int first_size;         /* 0 if not read: the proof of a rewind */

    /* the position of decoding */
    bool have_pkt;          /* pkt is read and not yet sent */
    int64_t join;           /* place of the next packet in another stream; 0: none is known */
    int64_t leap;           /* place of the first packet behind missing ones; 0: none is known */
    struct media_end { int64_t at; bool whole; } *ends;     /* what media_end_find found */
    int n_ends;
    bool broken;            /* pkt is the first after a join, and does not go on from the last */
    int64_t dts;            /* of the last packet read */
    bool held;              /* frame number `out` is in frame and will be returned once more */
    bool unsound;           /* dec keeps what may change later pictures, */
    bool renewing;          /* and is drained, to be replaced in front of pkt */
    bool eof;               /* the decoder is being drained, */
    bool ended;             /* is empty */
    AVFrame *ahead[MEDIA_REORDER];  /* decoded, held until their references are checked */
    int64_t ahead_number[MEDIA_REORDER];
    int n_ahead;
    int64_t received;       /* the last frame that came from the decoder */
    bool no_seek;           /* a seek failed: decoding begins at the start */
    int64_t out;            /* the last frame returned, -1: none since the start */
    int64_t start;          /* the key frame where decoding began */
    int64_t key;            /* the last key frame sent */
    int64_t sent;           /* the frame of the last packet sent, -1 if it is none */
    uint32_t pos;           /* of the last packet sent */
    const atomic_int *stop;
    int64_t spoilt_key;     /* the last damage noted, so that it is noted once */
    uint32_t spoilt_pos;
} media_video;

/* Opens, counts the frames and decodes the first, which stays in v->frame. */
int media_video_open(media_video *v, media_io *io, const char *path, vc_err *err);
void media_video_close(media_video *v);             /* an all-zero one is fine */
int media_video_threads(media_video *v, int threads, vc_err *err);
/* Continues with a decoder on gpu, if there is one for the stream and frames have unique times. */
void media_video_gpu(media_video *v, media_gpu *gpu);
/* Continues on the CPU, and forgets damage that was found before. */
int media_video_cpu(media_video *v, vc_err *err);
/* Seeks to the best start for frame number `want`, unless decoding from here reaches it sooner. */
int media_video_seek(media_video *v, int64_t want, vc_err *err);
int media_video_rewind(media_video *v, vc_err *err);
/* decode.c, for video.c: open the demuxer, and a decoder; fail as encrypted data does. */
int media_demux_open(media_video *v, vc_err *err);
int media_decoder_open(media_video *v, int threads, vc_err *err);
int media_encrypted(vc_err *err);
/* The next frame, in v->frame. 1: *number is its number. 0: the end. Its references have been
 * checked, so the `bad` of its entry is final. */
int media_video_next(media_video *v, int64_t *number, vc_err *err);
/* The stream's next packet, in v->pkt. 1: a packet. 0: the end. *gap: earlier packets were
 * lost. */
int media_video_packet(media_video *v, bool *gap, vc_err *err);
/* Whether the frame, or one of its references, was concealed. */
static inline bool media_frame_damaged(const AVFrame *frame)
{
    return frame->decode_error_flags || frame->flags & AV_FRAME_FLAG_CORRUPT;
}
/* Fills v->index; with the one entry of a still. */
int media_index_build(media_video *v, vc_err *err);
int media_index_still(media_video *v, vc_err *err);
/* The entry whose packet has this timestamp, or -1. */
int64_t media_index_find(const media_video *v, int64_t stamp);
/* Sorts v->by_stamp, if it is there, after entries were moved. */
void media_index_sort_stamps(media_video *v);

/* ---- order.c ---- */
typedef struct media_order media_order;

int media_order_open(media_order **out, const media_video *v, vc_err *err);
/* Every packet in decoding order, with the times that packets of shown frames have. */
void media_order_see(media_order *o, const AVPacket *pkt, bool shown);
/* Whether the decoder may return the frames in another order than that of their packets' times, or
 * not one of each packet. ascends: these times ascend in decoding order. */
bool media_order_differs(const media_order *o, bool ascends);
/* Whether a packet has two pictures, so that other packets have none. */
bool media_order_packed(const media_order *o);
void media_order_close(media_order *o);             /* NULL is fine */

/* ---- join.c ---- */
/* Looks at v->pkt, which was read: where streams were joined no picture is damaged, but packets
 * before the join may be missing (v->broken). Where packets are missing, FFmpeg may have marked the
 * picture before the one that lacks them: both count as damaged. */
int media_join_check(media_video *v, vc_err *err);
/* *cut: the file ends within its last picture, and neither FFmpeg nor media_join_check tells. */
int media_join_end(bool *cut, media_video *v, vc_err *err);

/* ---- ends.c ---- */
/* Whether media_end_find knows the codec. */
bool media_end_known(const media_video *v);
/* end: the place in the file of the next packet behind the data of a picture of such a codec.
 * *whole: nothing is missing at the end of that data. */
int media_end_find(bool *whole, media_video *v, int64_t end, vc_err *err);

/* ---- gpu.c ---- */
struct media_gpu {
    AVBufferRef *device;
    void *library;          /* NVDEC's, opened to check the driver */
    enum AVPixelFormat format;          /* of frames in the GPU's memory */
    int (*fetch)(AVFrame *dst, const AVFrame *src, int flags);  /* av_hwframe_transfer_data */
    uint64_t frames;        /* atomic */
};

/* FFmpeg's decoder that can use NVDEC; NULL if there is none, or the codec's standard leaves bits
 * of the picture open. */
const AVCodec *media_gpu_codec(enum AVCodecID id);
/* Makes dec, which is not yet open, decode on v->gpu. 0 or FFmpeg's code. */
int media_gpu_use(media_video *v, AVCodecContext *dec);
/* Copies v->frame, if it lies on v->gpu, into memory in the software decoder's format. An error:
 * the frame may differ from the software decoder's. */
int media_gpu_fetch(media_video *v, vc_err *err);
/* src (NV12, P010, P016, NV24, ...: samples of 8 bits, or of 16 with the lowest bits empty) in the
 * planar format of as much chroma, into the empty frame dst. 0 or FFmpeg's code. */
int media_planar(AVFrame *dst, const AVFrame *src, enum AVPixelFormat format);

/* ---- yuv.c ---- */
typedef struct media_yuv media_yuv;

/* Whether the frame is planar YUV of 8 to 16 bits, 4:2:0, 4:2:2 or 4:4:4 (alpha is left alone). */
bool media_yuv_can(const AVFrame *frame);
/* For frames like this one: size, format, matrix. Closing NULL is fine. */
int media_yuv_open(media_yuv **out, const AVFrame *frame, bool full_range, vc_err *err);
/* Row y: r, g, b [w], whole numbers: rounded to the nearest, clamped to 0..255. */
void media_yuv_row(media_yuv *c, const AVFrame *frame, int y, float *r, float *g, float *b);
void media_yuv_close(media_yuv *c);

/* ---- tonemap.c ---- */
typedef struct media_tone media_tone;

bool media_tone_is_hdr(const AVFrame *frame);
/* The brightest light of an HDR file, where 1 is the white of SDR: of PQ the brightest pixel, else
 * the brightest light of the display it was made on, as the file has them (each may be NULL), else
 * 1000 cd/m2. */
double media_tone_peak(const AVFrame *frame, const AVContentLightMetadata *light,
                       const AVMasteringDisplayMetadata *display);
/* For HDR frames like this one. VC_EFORMAT: its pixel format or colours have no tone mapping. */
int media_tone_open(media_tone **out, const AVFrame *frame, bool full_range, media_tonemap method,
                    double peak, vc_err *err);
/* Converts a whole frame to rgb, h rows of `stride` bytes. */
int media_tone_run(media_tone *t, uint8_t *rgb, int stride, const AVFrame *frame, vc_err *err);
void media_tone_close(media_tone *t);               /* NULL is fine */

/* ---- pixels.c ---- */
/* The facts of a frame on which its conversion to RGB depends. */
typedef struct media_look {
    int w, h, format, space, range, transfer, primaries, chroma;
    int tonemap;                        /* of HDR frames the media_tonemap that is asked for */
    int alpha;                          /* of frames with alpha: it is asked for (media_fit) */
} media_look;

typedef struct media_pixels {
    media_yuv *yuv;                     /* one of these three */
    struct SwsContext *sws;
    media_tone *tone;
    media_look look;                    /* of the frames they are for */
    double peak;                        /* of the file (media_tone_peak); media_open sets it */
    uint8_t *rgb;                       /* [look.h, stride]: of sws and of tone */
    int stride;
    resize *plan;                       /* from (h, w) to cut, both as stored */
    int h, w;
    media_fit fit;
    uint8_t *cut;                       /* the result before rotation, where one is needed */
    uint8_t *loaded;                    /* [load_h, load_w, 3], as stored */
    size_t loaded_room;
} media_pixels;

/* Writes one stored picture, rotated by o, to dst [fit.h, fit.w, 3]. */
int media_pixels_frame(media_pixels *p, void *dst, const AVFrame *frame, media_orient o,
                       const media_fit *fit, vc_err *err);
int media_pixels_rgb(media_pixels *p, void *dst, const uint8_t *rgb, int h, int w, int stride,
                     media_orient o, const media_fit *fit, vc_err *err);
size_t media_pixel_bytes(const media_fit *fit);     /* of one pixel in dst */
/* *opaque: no pixel of the frame is transparent. *black: each pixel is transparent or black. */
int media_pixels_alpha(const AVFrame *frame, bool *opaque, bool *black, vc_err *err);
bool media_pixels_has_alpha(const AVFrame *frame);
void media_pixels_close(media_pixels *p);

/* ---- media.c ---- */
struct media {
    char *path;
    media_io io;
    media_still still;      /* open if it has a kind, else video */
    media_video video;
    media_orient orient;
    media_pixels pixels;
    media_info info;
    double *times;
    media_frames frames;    /* n > 0: a folder is open, and no file */
};

#endif
