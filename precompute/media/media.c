/* media.c - see media.h; internal.h lists the files and their subjects */
#include "precompute/media/media.h"

#include <errno.h>
#include <fcntl.h>
#include <libavutil/display.h>
#include <libavutil/dovi_meta.h>
#include <libavutil/pixdesc.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "precompute/media/internal.h"

static void set_orient(media *m, media_orient o)
{
    static const int degrees[2][2][2] = {           /* [transpose][flip_y][flip_x] */
        { { 0, 0 }, { 180, 180 } },
        { { 270, 270 }, { 90, 90 } },
    };
    m->orient = o;
    m->info.rotation = degrees[o.transpose][o.flip_y][o.flip_x];
    m->info.mirrored = o.transpose ^ o.flip_y ^ o.flip_x;
}

/* The container's data of a kind, or NULL. */
static const void *container_data(const media_video *v, enum AVPacketSideDataType kind, size_t size)
{
#if LIBAVCODEC_VERSION_INT >= AV_VERSION_INT(60, 31, 100)
    const AVCodecParameters *par = v->fmt->streams[v->stream]->codecpar;
    const AVPacketSideData *sd = av_packet_side_data_get(par->coded_side_data,
                                                         par->nb_coded_side_data, kind);
    return sd && sd->size >= size ? sd->data : NULL;
#else
    size_t has;
    const uint8_t *data = av_stream_get_side_data(v->fmt->streams[v->stream], kind, &has);
    return data && has >= size ? data : NULL;
#endif
}

static const void *frame_data(const AVFrame *f, enum AVFrameSideDataType kind, size_t size)
{
    const AVFrameSideData *d = av_frame_get_side_data(f, kind);
    return d && d->size >= size ? d->data : NULL;
}

/* The container's data of a kind, else those of the bitstream in the first frame, else NULL. */
static const void *side_data(const media_video *v, enum AVPacketSideDataType kind,
                             enum AVFrameSideDataType in_frame, size_t size)
{
    const void *data = container_data(v, kind, size);
    return data ? data : frame_data(v->frame, in_frame, size);
}

/* Dolby Vision's profile 5, and the profiles 10 (AV1) and 20 (MV-HEVC) without a compatible base
 * layer, hold IPT-PQ-c2 colours whatever the stream's tags say: as YCbCr they are green and
 * purple. The base layers of the other profiles are HDR10, HLG or SDR. */
static int check_dolby(const media_video *v, vc_err *err)
{
    const AVDOVIDecoderConfigurationRecord *d = container_data(v, AV_PKT_DATA_DOVI_CONF, sizeof *d);
    if (!d || (d->dv_profile != 5 && d->dv_profile != 10 && d->dv_profile != 20) ||
        (d->dv_profile != 5 && d->dv_bl_signal_compatibility_id))
        return 0;
    return vc_fail(err, VC_EFORMAT, "Dolby Vision of profile %d has IPT-PQ-c2 colours, which are "
                   "not decoded here: convert the file with ffmpeg -i IN -vf libplacebo="
                   "apply_dolbyvision=1:colorspace=bt709:color_primaries=bt709:color_trc=bt709:"
                   "range=tv:format=yuv420p OUT", d->dv_profile);
}

/* Of the container, or of an EXIF block that FFmpeg understood. */
static const int32_t *display_matrix(const media_video *v)
{
    return side_data(v, AV_PKT_DATA_DISPLAYMATRIX, AV_FRAME_DATA_DISPLAYMATRIX,
                     9 * sizeof(int32_t));
}

/* The peak is one of the file: a frame after a seek may lack the data that the first one has. */
static void set_hdr(media *m)
{
    const media_video *v = &m->video;
    const AVContentLightMetadata *light = side_data(
        v, AV_PKT_DATA_CONTENT_LIGHT_LEVEL, AV_FRAME_DATA_CONTENT_LIGHT_LEVEL, sizeof *light);
    const AVMasteringDisplayMetadata *display = side_data(
        v, AV_PKT_DATA_MASTERING_DISPLAY_METADATA, AV_FRAME_DATA_MASTERING_DISPLAY_METADATA,
        sizeof *display);

    m->info.hdr = media_tone_is_hdr(v->frame);
    m->pixels.peak = media_tone_peak(v->frame, light, display);
}

static void set_still_hdr(media *m)
{
    const AVFrame *f = m->still.first;
    const AVContentLightMetadata *light = frame_data(f, AV_FRAME_DATA_CONTENT_LIGHT_LEVEL,
                                                     sizeof *light);
    const AVMasteringDisplayMetadata *display =
        frame_data(f, AV_FRAME_DATA_MASTERING_DISPLAY_METADATA, sizeof *display);

    m->info.hdr = media_tone_is_hdr(f);
    m->pixels.peak = media_tone_peak(f, light, display);
}

/* Sample aspect widens or narrows the picture; an aspect that no camera has shows a damaged
 * header. */
static int shown_width(const media_video *v, int w)
{
    AVRational a = av_guess_sample_aspect_ratio(v->fmt, v->fmt->streams[v->stream], v->frame);
    double ratio = a.num > 0 && a.den > 0 ? av_q2d(a) : 1;
    if (v->still || ratio < 1 / 20. || ratio > 20 || w * ratio > (double)MEDIA_MAX_PIXELS)
        return w;
    return (int)fmax(1, floor(w * ratio + 0.5));
}

static void set_size(media *m, int coded_w, int coded_h, int shown_w)
{
    bool t = m->orient.transpose;
    m->info.coded_w = coded_w;
    m->info.coded_h = coded_h;
    m->info.w = t ? coded_h : shown_w;
    m->info.h = t ? shown_w : coded_h;
}

/* fps: the container's rate if the frames' times agree with it to the rounding of their ticks. */
static void set_rate(media *m)
{
    const media_video *v = &m->video;
    media_info *info = &m->info;
    AVRational nominal = v->fmt->streams[v->stream]->avg_frame_rate;
    double rate = nominal.num > 0 && nominal.den > 0 ? av_q2d(nominal) : 0;
    double tick = av_q2d(v->time_base);
    double span = m->times[v->n - 1];
    int64_t shortest = INT64_MAX, longest = 0;
    for (int64_t i = 1; i < v->n; i++) {
        int64_t d = v->index[i].pts - v->index[i - 1].pts;
        shortest = d < shortest ? d : shortest;
        longest = d > longest ? d : longest;
    }
    info->vfr = v->n > 1 && longest - shortest > 1;
    double steps = (double)(v->n - 1);
    info->fps = rate;
    if (v->n > 1 && (!rate || fabs(steps / rate - span) > 2 * fmax(tick, 1e-3)))
        info->fps = steps / span;
    double last = (double)v->last_duration * tick;
    info->duration = span + (last > 0 ? last : info->fps > 0 ? 1 / info->fps : 0);
}

static int set_times(media *m, vc_err *err)
{
    const media_video *v = &m->video;
    double tick = av_q2d(v->time_base);
    m->times = malloc((size_t)v->n * sizeof *m->times);
    if (!m->times)
        return vc_fail(err, VC_ENOMEM, "out of memory for %lld frames", (long long)v->n);
    for (int64_t i = 0; i < v->n; i++)
        m->times[i] = ((double)v->index[i].pts - (double)v->index[0].pts) * tick;
    return 0;
}

static int open_video(media *m, vc_err *err)
{
    media_video *v = &m->video;
    int rc = media_video_open(v, &m->io, m->path, err);
    if (rc && rc != VC_ENOMEM && media_is_animated_webp(&m->io))
        return vc_fail(err, VC_EFORMAT, "an animated WebP, which this FFmpeg cannot decode");
    if (!rc)
        rc = check_dolby(v, err);
    if (rc)
        return rc;

    const int32_t *matrix = display_matrix(v);
    set_orient(m, matrix ? media_orient_matrix(matrix)
                         : media_orient_exif(media_exif_file(&m->io)));
    set_size(m, v->frame->width, v->frame->height, shown_width(v, v->frame->width));
    set_hdr(m);
    m->info.frames = v->n;
    m->info.stream_index = v->stream;
    m->info.is_video = !v->still;
    for (unsigned i = 0; !v->still && i < v->fmt->nb_streams; i++)
        m->info.sound |= v->fmt->streams[i]->codecpar->codec_type == AVMEDIA_TYPE_AUDIO;
    m->info.reordered = v->reordered;
    snprintf(m->info.codec, sizeof m->info.codec, "%s", avcodec_get_name(v->dec->codec_id));
    if (v->still)
        return 0;
    rc = set_times(m, err);
    if (!rc)
        set_rate(m);
    if (!rc && !(m->info.fps >= 0 && m->info.fps <= MEDIA_MAX_FPS && isfinite(m->info.duration)))
        rc = vc_fail(err, VC_EFORMAT, "%g frames a second in %g seconds: no clock of a video",
                     m->info.fps, m->info.duration);
    return rc;
}

/* A read that the system refused is no damage, whatever FFmpeg reports of the remaining bytes. */
static int own_word(const media *m, int rc, vc_err *err)
{
    if (!m->io.failed || rc == VC_ESTOP)
        return rc;
    errno = m->io.failed;
    return vc_fail_errno(err, m->io.fd < 0 ? "cannot open" : "cannot read");
}

/* FFmpeg reports a header with absurd sizes as lack of memory, and lack of memory sometimes as
 * invalid data. So each failure is tried once more. If FFmpeg reports lack of memory twice while
 * memory can be allocated, the header is damaged. */
static bool may_be_memory(const media *m, int rc)
{
    return (rc == VC_ENOMEM || rc == VC_EFORMAT) && !m->io.failed;
}

static int recheck_memory(int rc, vc_err *err)
{
    enum { PLENTY = 64 << 20 };
    void *volatile p = malloc(PLENTY);
    free(p);
    return p ? vc_fail(err, VC_EFORMAT, "its headers need more memory than there is") : rc;
}

static int open_any(media *m, const vf_part *part, vc_err *err)
{
    m->path = strdup(part->name);
    if (!m->path)
        return vc_no_memory(err);
    int rc = media_io_open_part(&m->io, part, err);
    if (!rc)
        rc = media_still_open(&m->still, &m->io, err);
    if (rc || !m->still.kind)
        return rc ? rc : open_video(m, err);

    set_orient(m, m->still.orient);
    set_size(m, m->still.w, m->still.h, m->still.w);
    if (m->still.first)
        set_still_hdr(m);
    m->info.frames = 1;
    memcpy(m->info.codec, m->still.codec, sizeof m->info.codec);
    return 0;
}

/* *again: memory may be the cause of the failure. */
static int open_once(media **out, const vf_part *part, bool *again, vc_err *err)
{
    *again = false;
    media *m = *out = calloc(1, sizeof *m);
    if (!m)
        return vc_no_memory(err);
    m->io.fd = -1;
    int rc = own_word(m, open_any(m, part, err), err);
    if (rc) {
        *again = may_be_memory(m, rc);
        media_close(m);
        *out = NULL;
    }
    return rc;
}

static int open_file(media **out, const vf_part *part, media_info *info, vc_err *err)
{
    bool again;
    int rc = open_once(out, part, &again, err);
    if (again)
        rc = open_once(out, part, &again, err);
    if (again && rc == VC_ENOMEM)
        rc = recheck_memory(rc, err);
    if (!rc && info)
        *info = (*out)->info;
    return vc_context(err, rc, "%s", part->name);
}

int media_open(media **out, const char *path, media_info *info, vc_err *err)
{
    const vf_part whole = { .name = path, .file = path };
    return open_file(out, &whole, info, err);
}

/* *info: the facts of the video that the pictures make. */
static int open_frames(media_frames *f, const char *folder, media_info *info, vc_err *err)
{
    media *first = NULL;
    int rc = media_frames_list(f, folder, err);

    if (!rc)
        rc = media_open(&first, f->path[0], info, err);
    media_close(first);
    if (rc)
        return rc;
    info->frames = f->n;
    info->fps = MEDIA_FRAMES_FPS;
    info->duration = f->n / (double)MEDIA_FRAMES_FPS;
    info->is_video = true;
    return 0;
}

static int open_folder(media *m, const char *folder, vc_err *err)
{
    if ((m->io.fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        return vc_fail_errno(err, "cannot open");
    int rc = open_frames(&m->frames, folder, &m->info, err);
    if (rc)
        return rc;
    m->times = malloc((size_t)m->frames.n * sizeof *m->times);
    if (!m->times)
        return vc_no_memory(err);
    for (int i = 0; i < m->frames.n; i++)
        m->times[i] = (double)i / MEDIA_FRAMES_FPS;
    return 0;
}

int media_open_part(media **out, const vf_part *part, media_info *info, vc_err *err)
{
    struct stat st;
    if (!vf_part_is_file(part) || stat(part->file, &st) || !S_ISDIR(st.st_mode))
        return open_file(out, part, info, err);
    media *m = *out = calloc(1, sizeof *m);
    if (!m || !(m->path = strdup(part->name))) {
        free(m);
        *out = NULL;
        return vc_no_memory(err);
    }
    int rc = open_folder(m, part->file, err);
    if (rc) {
        media_close(m);
        *out = NULL;
    } else if (info) {
        *info = m->info;
    }
    return vc_context(err, rc, "%s", part->name);
}

void media_close(media *m)
{
    if (!m)
        return;
    media_pixels_close(&m->pixels);
    media_video_close(&m->video);
    media_still_close(&m->still);
    media_io_close(&m->io);
    media_frames_free(&m->frames);
    free(m->times);
    free(m->path);
    free(m);
}

int media_set_threads(media *m, int n, vc_err *err)
{
    if (n < 1)
        return vc_fail(err, VC_EINVAL, "%s: %d decoder threads", m->path, n);
    if (m->still.kind || m->frames.n)
        return 0;
    int rc = media_video_threads(&m->video, n, err);
    return vc_context(err, rc, "%s", m->path);
}

void media_use_gpu(media *m, media_gpu *gpu)
{
    if (!m->still.kind && !m->frames.n)
        media_video_gpu(&m->video, gpu);
}

void media_as_stored(media *m, media_info *info)
{
    if (m->info.is_video)
        return;
    if (m->orient.transpose) {
        int w = m->info.w;
        m->info.w = m->info.h;
        m->info.h = w;
    }
    set_orient(m, (media_orient){ 0 });
    *info = m->info;
}

const double *media_times(const media *m)
{
    return m->times;
}

static int read_still(media *m, void *dst, const media_fit *fit, vc_err *err)
{
    AVFrame *f = av_frame_alloc();
    if (!f)
        return vc_no_memory(err);
    int rc = media_still_decode(&m->still, f, err);
    if (!rc && f->format == AV_PIX_FMT_RGB24)
        rc = media_pixels_rgb(&m->pixels, dst, f->data[0], f->height, f->width, f->linesize[0],
                              m->orient, fit, err);
    else if (!rc)
        rc = media_pixels_frame(&m->pixels, dst, f, m->orient, fit, err);
    av_frame_free(&f);
    return rc;
}

/* FFmpeg's readers of some pictures (PGM, JPEG 2000) do not say that their grays have the full
 * range, as all stills have; its scaler would take those of 16 bits, or with alpha, for video. */
static void assume_range(const media_video *v)
{
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(v->frame->format);
    if (v->still && d && d->nb_components <= 2 && v->frame->color_range == AVCOL_RANGE_UNSPECIFIED)
        v->frame->color_range = AVCOL_RANGE_JPEG;
}

static int refuse(const media_video *v, const char *what, int64_t frame, vc_err *err)
{
    const char *why = media_log_last();
    if (v->still)
        return vc_fail(err, VC_EFORMAT, "the picture is damaged%s%s", *why ? ": " : "", why);
    return vc_fail(err, VC_EFORMAT, "frame %lld is %s%s%s", (long long)frame, what,
                   *why ? ": " : "", why);
}

/* Decodes on from the decoder's position. done[i]: dst holds frame index[i]. */
static int read_pass(media *m, uint8_t *dst, const int64_t *index, int n, const media_fit *fit,
                     bool *done, vc_err *err)
{
    media_video *v = &m->video;
    size_t bytes = (size_t)fit->h * (size_t)fit->w * media_pixel_bytes(fit);
    for (int first = 0; first < n;) {
        int64_t number;
        int rc = media_video_next(v, &number, err);
        if (rc < 0)
            return rc;
        if (rc == 0 || number > index[first] + MEDIA_REORDER)
            return refuse(v, "missing", index[first], err);
        for (int i = first; i < n && index[i] <= number; i++) {
            if (index[i] != number || done[i])
                continue;
            if (v->index[number].bad || v->index[number].lost)
                return refuse(v, "damaged", number, err);
            done[i] = true;
            assume_range(v);
            if (i > first && index[i - 1] == number)
                memcpy(dst + (size_t)i * bytes, dst + (size_t)(i - 1) * bytes, bytes);
            else if ((rc = media_pixels_frame(&m->pixels, dst + (size_t)i * bytes, v->frame,
                                              m->orient, fit, err)))
                return vc_context(err, rc, "frame %lld", (long long)number);
        }
        while (first < n && done[first])
            first++;
    }
    v->held = true;                                 /* the next read may begin with this frame */
    return 0;
}

static int read_video(media *m, uint8_t *dst, const int64_t *index, int n, const media_fit *fit,
                      vc_err *err)
{
    media_video *v = &m->video;
    bool *done = calloc((size_t)n, sizeof *done);
    if (!done)
        return vc_fail(err, VC_ENOMEM, "out of memory for %d frames", n);
    int rc = media_video_seek(v, index[0], err);
    if (!rc)
        rc = read_pass(m, dst, index, n, fit, done, err);
    if (rc == VC_EFORMAT && v->start > 0 && !v->gpu) {
        /* a container may mark wrong frames as keys; decoding from the start is right */
        for (int64_t i = v->start; i < v->n; i++)
            v->index[i].bad = false;
        memset(done, 0, (size_t)n * sizeof *done);
        media_log_clear();
        rc = media_video_rewind(v, err);
        if (!rc)
            rc = read_pass(m, dst, index, n, fit, done, err);
        v->no_seek = !rc;
    }
    free(done);
    return rc;
}

/* ---- a folder of pictures ---- */

static int read_picture(const media_frames *f, int64_t i, void *dst, const media_info *as,
                    const media_fit *fit, const atomic_int *stop, vc_err *err)
{
    const int64_t only = 0;
    media *m;
    media_info info;
    int rc = media_open(&m, f->path[i], &info, err);

    if (rc)
        return rc;
    if (info.w != as->w || info.h != as->h)
        rc = vc_fail(err, VC_EFORMAT, "%s: %dx%d, and the first frame is %dx%d", f->path[i], info.w,
                     info.h, as->w, as->h);
    if (!rc)
        rc = media_read(m, dst, &only, 1, fit, stop, err);
    media_close(m);
    return rc;
}

/* As media_read; each frame must have the size in *as. */
static int read_frames(const media_frames *f, uint8_t *dst, const int64_t *index, int n,
                       const media_info *as, const media_fit *fit, const atomic_int *stop,
                       vc_err *err)
{
    size_t bytes = (size_t)fit->h * (size_t)fit->w * media_pixel_bytes(fit);
    int rc = 0;

    for (int i = 0; i < n && !rc; i++, dst += bytes)
        if (i && index[i] == index[i - 1])
            memcpy(dst, dst - bytes, bytes);
        else
            rc = read_picture(f, index[i], dst, as, fit, stop, err);
    return rc;
}

int media_read(media *m, void *dst, const int64_t *index, int n, const media_fit *fit,
               const atomic_int *stop, vc_err *err)
{
    for (int i = 0; i < n; i++)
        if (index[i] < (i ? index[i - 1] : 0) || index[i] >= m->info.frames)
            return vc_fail(err, VC_EINVAL, "%s: frame %lld, number %d of the list: frames ascend "
                           "within 0 to %lld", m->path, (long long)index[i], i,
                           (long long)m->info.frames - 1);
    if (n < 1)
        return 0;
    if (stop && *stop)
        return vc_fail(err, VC_ESTOP, "%s: stopped", m->path);
    if (m->frames.n)
        return vc_context(err, read_frames(&m->frames, dst, index, n, &m->info, fit, stop,
                                                 err), "%s", m->path);
    media_log_clear();
    m->video.stop = stop;
    int rc = m->still.kind ? read_still(m, dst, fit, err)
                           : read_video(m, dst, index, n, fit, err);
    if (rc && rc != VC_ESTOP && m->video.gpu) {     /* the software decoder decides */
        media_log_clear();
        rc = media_video_cpu(&m->video, err);
        if (!rc)
            rc = read_video(m, dst, index, n, fit, err);
    }
    if (!m->still.kind && may_be_memory(m, rc)) {
        m->video.out = INT64_MAX;                   /* the next read seeks anew */
        rc = read_video(m, dst, index, n, fit, err);
        rc = rc == VC_ENOMEM ? recheck_memory(rc, err) : rc;
    }
    m->video.stop = NULL;
    return vc_context(err, own_word(m, rc, err), "%s", m->path);
}

static int find_alpha(media *m, bool *has, bool *black, vc_err *err)
{
    bool opaque = true;
    int rc = 0;

    *black = false;
    if (m->still.kind) {
        AVFrame *f = av_frame_alloc();
        rc = f ? media_still_decode(&m->still, f, err) : vc_no_memory(err);
        if (!rc)
            rc = media_pixels_alpha(f, &opaque, black, err);
        av_frame_free(&f);
    } else if (m->video.still) {
        rc = media_pixels_alpha(m->video.frame, &opaque, black, err);
    } else if (!m->frames.n) {
        opaque = !media_pixels_has_alpha(m->video.frame);
    }
    *has = !rc && !opaque;
    return rc;
}

int media_alpha(const vf_part *part, bool *has, vc_err *err)
{
    media *m;
    bool black = false;

    *has = false;
    if (media_open_part(&m, part, NULL, NULL))
        return 0;
    int rc = find_alpha(m, has, &black, err);
    const bool beside = m->still.alpha_beside;
    media_close(m);
    if (rc)
        return rc == VC_ENOMEM ? rc : 0;
    if (beside)
        return vc_fail(err, VC_EFORMAT, "%s: its alpha is not read: save the mask as PNG",
                       part->name);
    if (*has && black)
        return vc_fail(err, VC_EFORMAT, "%s: it is black wherever it is not transparent, so that "
                       "nothing would count in the loss: what counts is white and opaque",
                       part->name);
    return 0;
}

int media_fd(const media *m)
{
    return m->io.fd;
}
