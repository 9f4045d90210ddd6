/* io.c - one file and nothing else (see internal.h)
 *
 * A hostile playlist or movie may name other files or addresses. FFmpeg cannot open any: it reads
 * through our descriptor, its own protocols and its function that opens files are switched off,
 * and only formats that carry their own data are probed. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <libavutil/opt.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/file.h"
#include "formats/columnar/columnar.h"
#include "precompute/media/internal.h"

static const char demuxers[] =
    "mov,matroska,avi,gif,apng,flv,mpegts,mpeg,mpegvideo,asf,ogg,mxf,nut,ivf,obu,av1,h261,h263,"
    "h264,hevc,vvc,m4v,vc1,vc1test,mjpeg,mjpeg_2000,yuv4mpegpipe,dv,rm,wtv,dirac,dnxhd,cavsvideo,"
    "avs2,avs3,evc,"
    "bmp_pipe,j2k_pipe,jpeg_pipe,jpegls_pipe,jpegxl_pipe,jpegxl_anim,pam_pipe,pbm_pipe,pgm_pipe,"
    "png_pipe,ppm_pipe,qoi_pipe,tiff_pipe,webp_pipe,webp,webp_anim,image2pipe";

/* FFmpeg's message hook is per process and has no handle, but a message comes on the thread that
 * called the library, and handles stay on one thread. So the last line is kept per thread; lines of
 * the decoder's own threads are lost. */
static _Thread_local char log_line[256];
static _Thread_local unsigned log_broken;

static void keep_message(void *obj, int level, const char *fmt, va_list ap)
{
    (void)obj;
    if (level > AV_LOG_ERROR)
        return;
    char line[sizeof log_line];
    vsnprintf(line, sizeof line, fmt, ap);
    line[strcspn(line, "\r\n")] = 0;
    log_broken += strstr(line, "error while decoding MB") != NULL;
    if (*line)
        memcpy(log_line, line, sizeof line);
    if (level <= AV_LOG_PANIC)
        fprintf(stderr, "%s\n", line);      /* FFmpeg calls abort() next */
}

static void install_hook(void)
{
    av_log_set_callback(keep_message);
}

const char *media_log_last(void)
{
    return log_line;
}

unsigned media_log_broken(void)
{
    return log_broken;
}

void media_log_clear(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install_hook);
    log_line[0] = 0;
}

int media_av_fail(vc_err *err, int av, const char *fmt, ...)
{
    int code = av == AVERROR(ENOMEM) ? VC_ENOMEM : VC_EFORMAT;
    char what[512], text[AV_ERROR_MAX_STRING_SIZE];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    if (av == AVERROR(ENOMEM) || !*log_line)
        return vc_fail(err, code, "%s: %s", what, av_make_error_string(text, sizeof text, av));
    return vc_fail(err, code, "%s: %s", what, log_line);
}

ssize_t media_io_at(media_io *io, void *buf, size_t n, int64_t at)
{
    int64_t left = at < io->size ? io->size - at : 0;
    ssize_t r;
    if (io->bytes) {
        r = n < (uint64_t)left ? (ssize_t)n : (ssize_t)left;
        memcpy(buf, io->bytes + (left ? at : 0), (size_t)r);
        return r;
    }
    do
        r = pread(io->fd, buf, n < (uint64_t)left ? n : (size_t)left, io->from + at);
    while (r < 0 && errno == EINTR);
    if (r < 0)
        io->failed = errno;
    return r;
}

static int io_read(void *opaque, uint8_t *buf, int n)
{
    media_io *io = opaque;
    ssize_t r = media_io_at(io, buf, (size_t)n, io->pos);
    if (r <= 0)
        return r ? AVERROR(io->failed) : AVERROR_EOF;
    io->pos += r;
    return (int)r;
}

static int64_t io_seek(void *opaque, int64_t offset, int whence)
{
    media_io *io = opaque;
    whence &= ~AVSEEK_FORCE;
    int64_t base = whence == SEEK_CUR ? io->pos : whence == SEEK_END ? io->size : 0, to;
    if (whence == AVSEEK_SIZE)
        return io->size;
    if (__builtin_add_overflow(base, offset, &to) || to < 0)
        return AVERROR(EINVAL);
    return io->pos = to;
}

int media_io_open(media_io *io, const char *path, vc_err *err)
{
    return media_io_open_part(io, &(vf_part){ .name = path, .file = path }, err);
}

/* Reads a value of a Parquet file; the file stays open, as its identity is the value's. */
static int read_value(media_io *io, const vf_part *part, vc_err *err)
{
    size_t n;
    int rc = vf_columnar_value(part->values, part, &io->bytes, &n, err);

    io->size = (int64_t)n;
    return rc || n ? rc : vc_fail(err, VC_EFORMAT, "the value is empty");
}

/* Sets the place of the part's bytes in the file of `whole` bytes. */
static int find_part(media_io *io, const vf_part *part, int64_t whole, vc_err *err)
{
    if (part->column)
        return read_value(io, part, err);
    if (part->at > whole || part->size > whole - part->at)
        return vc_fail(err, VC_EFORMAT, "cut short: the file around it has changed");
    io->from = part->at;
    io->size = part->size ? part->size : whole;
    return 0;
}

static int reader_open(media_io *io, vc_err *err)
{
    enum { BUFFER = 1 << 16 };
    uint8_t *buf = av_malloc(BUFFER);
    if (buf)
        io->avio = avio_alloc_context(buf, BUFFER, 0, io, io_read, NULL, io_seek);
    if (!io->avio) {
        av_free(buf);
        return vc_no_memory(err);
    }
    return 0;
}

static void reader_close(media_io *io)
{
    if (io->avio)
        av_freep(&io->avio->buffer);
    avio_context_free(&io->avio);
}

int media_io_open_part(media_io *io, const vf_part *part, vc_err *err)
{
    media_log_clear();

    *io = (media_io){ .fd = open(part->file, O_RDONLY | O_CLOEXEC | O_NONBLOCK) };
    struct stat st;
    if (io->fd < 0 || fstat(io->fd, &st)) {
        io->failed = errno;
        return vc_fail_errno(err, "cannot open");
    }
    if (!S_ISREG(st.st_mode))
        return vc_fail(err, VC_EFORMAT, "not a regular file");
    if (!st.st_size)
        return vc_fail(err, VC_EFORMAT, "the file is empty");
    int rc = find_part(io, part, st.st_size, err);
    return rc ? rc : reader_open(io, err);
}

int media_io_share(media_io *io, const media_io *of, vc_err *err)
{
    *io = *of;
    io->pos = 0;
    io->avio = NULL;
    return reader_open(io, err);
}

void media_io_unshare(media_io *io)
{
    reader_close(io);
}

void media_io_close(media_io *io)
{
    reader_close(io);
    if (io->fd >= 0)
        close(io->fd);
    io->fd = -1;
    free(io->bytes);
    io->bytes = NULL;
}

static int refuse_open(AVFormatContext *s, AVIOContext **pb, const char *url, int flags,
                       AVDictionary **options)
{
    (void)s, (void)url, (void)flags, (void)options;
    *pb = NULL;
    return AVERROR(EPERM);
}

/* ---- kinds that FFmpeg does not know by their content ---- */

/* The header of a Truevision file has no signature. */
static bool is_tga(const uint8_t *p, size_t n)
{
    enum { HEADER = 18, RLE = 8 };
    if (n < HEADER || p[1] > 1)
        return false;
    int type = p[2] & ~RLE, depth = p[16], w = p[12] | p[13] << 8, h = p[14] | p[15] << 8;
    return type >= 1 && type <= 3 && (type == 1) == p[1] && w && h
           && (depth == 8 || depth == 15 || depth == 16 || depth == 24 || depth == 32);
}

static bool is_pam(const uint8_t *p, size_t n)
{
    return n >= 3 && !memcmp(p, "P7\n", 3);
}

static const struct {
    const char *ending;
    bool (*is)(const uint8_t *p, size_t n);
    enum AVCodecID codec;
} kinds_by_name[] = {
    { ".tga", is_tga, AV_CODEC_ID_TARGA },
    { ".pam", is_pam, AV_CODEC_ID_PAM },
};

/* Returns the codec of a file of a kind without a signature, by its name and its first bytes. */
static enum AVCodecID codec_by_name(media_io *io, const char *path)
{
    uint8_t head[18];
    ssize_t n = media_io_at(io, head, sizeof head, 0);

    for (size_t i = 0; n > 0 && i < sizeof kinds_by_name / sizeof *kinds_by_name; i++)
        if (!strcasecmp(vc_path_ext(path), kinds_by_name[i].ending)
            && kinds_by_name[i].is(head, (size_t)n))
            return kinds_by_name[i].codec;
    return AV_CODEC_ID_NONE;
}

/* FFmpeg takes a name such as %03d.png or a{1}.png for the pattern of many names, so it gets the
 * ending alone, which some formats are known by. */
static void plain_name(char name[32], const char *path)
{
    const char *dot = vc_path_ext(path);
    bool plain = true;

    for (size_t i = 1; *dot && plain && dot[i]; i++)
        plain = i < 16 && isalnum((unsigned char)dot[i]);
    snprintf(name, 32, "media%s", plain ? dot : "");
}

int media_io_demux(AVFormatContext **fmt, media_io *io, const char *path, vc_err *err)
{
    char name[32];

    plain_name(name, path);
    avio_seek(io->avio, 0, SEEK_SET);
    *fmt = avformat_alloc_context();
    if (!*fmt)
        return vc_no_memory(err);
    (*fmt)->pb = io->avio;
    (*fmt)->io_open = refuse_open;
    (*fmt)->video_codec_id = codec_by_name(io, path);
    bool whole = (*fmt)->video_codec_id != AV_CODEC_ID_NONE;   /* the file is one packet */

    AVDictionary *opts = NULL;
    av_dict_set(&opts, "format_whitelist", demuxers, 0);
    av_dict_set(&opts, "protocol_whitelist", "none", 0);
    int r = avformat_open_input(fmt, name, whole ? av_find_input_format("image2pipe") : NULL,
                                &opts);                        /* frees *fmt on failure */
    av_dict_free(&opts);
    if (r < 0 && strstr(log_line, "whitelist"))
        return vc_fail(err, VC_EFORMAT, "a kind of file that is not supported: no video or "
                       "picture, or a list of other files");
    if (r < 0)
        return media_av_fail(err, r, "no video or picture that FFmpeg can read");
    return 0;
}
