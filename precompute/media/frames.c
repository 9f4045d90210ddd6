/* frames.c - a folder of pictures as a video, as in musubi's video_path; see internal.h. Each
 * picture is opened as a still. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/metadata/metadata.h"
#include "precompute/media/internal.h"

static int is_picture(const struct dirent *e)
{
    return *e->d_name != '.' && vf_type_of_name(e->d_name) == VF_TYPE_IMAGE;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

int media_frames_list(media_frames *f, const char *folder, vc_err *err)
{
    struct dirent **name = NULL;
    int n = scandir(folder, &name, is_picture, by_name), rc = 0;

    *f = (media_frames){ 0 };
    if (n < 0)
        return vc_fail_errno(err, "cannot open");
    if (!(f->path = calloc((size_t)n + 1, sizeof *f->path)))
        rc = vc_no_memory(err);
    for (int i = 0; i < n; i++) {
        if (!rc && !(f->path[f->n++] = vc_path_join(folder, name[i]->d_name)))
            rc = vc_no_memory(err);
        free(name[i]);
    }
    free(name);
    if (!rc && !n)
        rc = vc_fail(err, VC_EFORMAT, "a folder without pictures: a video may be a file, or a "
                     "folder of its frames");
    if (rc)
        media_frames_free(f);
    return rc;
}

void media_frames_free(media_frames *f)
{
    for (int i = 0; i < f->n; i++)
        free(f->path[i]);
    free(f->path);
    *f = (media_frames){ 0 };
}

int media_frames_open(media_frames *f, const char *folder, media_info *info, vc_err *err)
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

static int read_one(const media_frames *f, int64_t i, void *dst, const media_info *as,
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

int media_frames_read(const media_frames *f, uint8_t *dst, const int64_t *index, int n,
                      const media_info *as, const media_fit *fit, const atomic_int *stop,
                      vc_err *err)
{
    size_t bytes = (size_t)fit->h * (size_t)fit->w * media_pixel_bytes(fit);
    int rc = 0;

    for (int i = 0; i < n && !rc; i++, dst += bytes)
        if (i && index[i] == index[i - 1])
            memcpy(dst, dst - bytes, bytes);
        else
            rc = read_one(f, index[i], dst, as, fit, stop, err);
    return rc;
}
