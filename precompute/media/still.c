/* still.c - stills that are not read through FFmpeg's demuxers (see internal.h) */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "precompute/media/internal.h"

static const media_still_kind *const kinds[] = { &media_still_jpeg, &media_still_tiff,
                                                &media_still_heif };

int media_still_open(media_still *s, media_io *io, vc_err *err)
{
    *s = (media_still){ 0 };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        s->kind = kinds[i];
        int rc = s->kind->open(s, io, err);
        if (rc != MEDIA_NOT_MINE && !io->failed)
            return rc;
        media_still_close(s);
        if (io->failed)
            return rc < 0 ? rc : vc_fail(err, VC_EIO, "cannot read");
    }
    return 0;
}

int media_still_decode(media_still *s, AVFrame *f, vc_err *err)
{
    return s->kind->decode(s, f, err);
}

void media_still_close(media_still *s)
{
    if (s->kind)
        s->kind->close(s);
    *s = (media_still){ 0 };
}

/* Whether the file may be a gray picture of more than 8 bits, or with alpha, whose reader in FFmpeg
 * does not say its range: PGM, PAM, or JPEG 2000. A codestream of the latter has the number of
 * components at byte 40, and the bits of the first, less one, at byte 42. */
static bool is_wide_gray(media_io *io)
{
    uint8_t p[4096];
    unsigned most = 0;
    ssize_t n = media_io_at(io, p, sizeof p - 1, 0);
    if (n < 64)
        return false;
    p[n] = 0;
    if (!memcmp(p, "P5", 2) && isspace(p[2]))
        return sscanf((char *)p + 2, "%*u %*u %u", &most) != 1 || most > 255;
    if (!memcmp(p, "P7", 2) && isspace(p[2]))
        return true;
    if (memcmp(p + 4, "jP  ", 4) && memcmp(p, "\xff\x4f\xff\x51", 4))
        return false;
    const uint8_t *j = memmem(p, (size_t)n, "\xff\x4f\xff\x51", 4);
    return !j || j + 43 > p + n ||
           (j[40] == 0 && (j[41] == 2 || (j[41] == 1 && (j[42] & 0x7f) > 7)));
}

/* Sets *name if io is a still that is read anew. What is damaged is read in no way. */
static int find_reading(const char **name, media_io *io, vc_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !*name; i++) {
        media_still s = { .kind = kinds[i] };
        if (!s.kind->revised)
            continue;
        rc = s.kind->open(&s, io, err);
        *name = rc ? NULL : s.anew;
        s.kind->close(&s);
        if (io->failed || rc == VC_ENOMEM)
            return rc < 0 ? rc : vc_fail(err, VC_EIO, "cannot read");
    }
    if (!*name && is_wide_gray(io))
        *name = "full range";
    return 0;
}

static int reading_of_folder(const char **name, const char *folder, vc_err *err)
{
    media_frames f;
    int rc = media_frames_list(&f, folder, err);
    if (!rc)
        rc = media_reading(name, &(vf_part){ .name = f.path[0], .file = f.path[0] }, err);
    media_frames_free(&f);
    return rc;
}

int media_reading(const char **name, const vf_part *part, vc_err *err)
{
    media_io io;
    struct stat st;

    *name = NULL;
    if (vf_part_is_file(part) && !stat(part->file, &st) && S_ISDIR(st.st_mode))
        return reading_of_folder(name, part->file, err);
    int rc = media_io_open_part(&io, part, err);
    if (!rc)
        rc = find_reading(name, &io, err);
    const int failed = io.failed;
    media_io_close(&io);
    if (!failed && rc != VC_ENOMEM)
        return 0;
    errno = failed;
    return vc_context(err, failed ? vc_fail_errno(err, "cannot read") : rc, "%s", part->name);
}
