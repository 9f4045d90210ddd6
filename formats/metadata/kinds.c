/* kinds.c - the kinds of files in a folder or a tar, by the endings of their names; see parts.h.
 *
 * The files of a kind that can be read are rows of its type. A kind of type unknown is one that
 * people keep beside media; its text is the reason why it is ignored, and the remedy. */
#include "formats/metadata/parts.h"

#include <string.h>
#include <strings.h>

#include "common/os/file.h"

static const char packed[] = "packed: unpack it";

static const struct {
    const char *endings;               /* in lower case */
    vf_type type;
    const char *ignored;
} kinds[] = {
    { ".jpg .jpeg .jpe .jfif .jif .pjpeg .pjp", VF_TYPE_IMAGE, NULL },
    { ".png .webp .avif .jxl .bmp .dib .tif .tiff .tga .qoi", VF_TYPE_IMAGE, NULL },
    { ".heic .heif .hif", VF_TYPE_IMAGE, NULL },      /* HEVC, H.264 or AV1 inside */
    { ".jp2 .j2k .j2c .jpc .jpx .jpf", VF_TYPE_IMAGE, NULL },
    { ".ppm .pgm .pbm .pnm .pam", VF_TYPE_IMAGE, NULL },

    { ".mp4 .mov .qt .m4v .f4v .3gp .3g2 .mkv .mk3d .webm .avi .divx", VF_TYPE_VIDEO, NULL },
    { ".gif .apng", VF_TYPE_VIDEO, NULL },
    { ".mpg .mpeg .mpe .mpv .m1v .m2v .vob", VF_TYPE_VIDEO, NULL },
    { ".ts .mts .m2t .m2ts .trp .tod", VF_TYPE_VIDEO, NULL },
    { ".wmv .asf .wtv .flv .ogv .ogm .rm .rmvb .mxf .nut .dv", VF_TYPE_VIDEO, NULL },
    { ".y4m .ivf .obu .264 .h264 .avc .265 .h265 .hevc", VF_TYPE_VIDEO, NULL },

    { ".psd .xcf .svg .exr .hdr .dpx .jls .pcx .sgi .ico .dds", VF_TYPE_UNKNOWN,
      "this kind of picture is not read: save it as .png" },
    { ".dng .cr2 .cr3 .nef .arw .raf .orf .rw2", VF_TYPE_UNKNOWN,
      "a camera's raw picture is not read: save it as .png" },
    { ".mjpeg .mjpg", VF_TYPE_UNKNOWN,
      "pictures without times: ffmpeg -i IN -c copy OUT.mkv makes a video of them" },
    { ".gz .tgz .bz2 .xz .zst .zip .rar .7z", VF_TYPE_UNKNOWN, packed },
    { ".tar .csv .tsv .jsonl .parquet", VF_TYPE_UNKNOWN,
      "a list is read by itself: give the file instead of the folder" },
    { ".mp3 .wav .flac .m4a .aac .ogg", VF_TYPE_UNKNOWN, "sound" },
};

/* Returns the row for the ending of a file's name, or -1. */
static int find(const char *name)
{
    const char *ending = vc_path_ext(name);
    size_t n = strlen(ending);

    for (size_t i = 0; n && i < sizeof kinds / sizeof *kinds; i++)
        for (const char *p = kinds[i].endings; *p; p += strspn(p, " ")) {
            size_t len = strcspn(p, " ");
            if (len == n && !strncasecmp(p, ending, n))
                return (int)i;
            p += len;
        }
    return -1;
}

vf_type vf_type_of_name(const char *name)
{
    int i = find(name);
    return i < 0 ? VF_TYPE_UNKNOWN : kinds[i].type;
}

const char *metadata_why_ignored(const char *name)
{
    int i = find(name);
    return i < 0 ? NULL : kinds[i].ignored;
}

bool metadata_is_packed(const char *name)
{
    return metadata_why_ignored(name) == packed;
}

bool metadata_is_system(const char *name)
{
    static const char *const names[] = {
        "__MACOSX", "Icon\r",                                        /* macOS */
        "Thumbs.db", "ehthumbs.db", "desktop.ini", "$RECYCLE.BIN",   /* Windows */
        "System Volume Information",
        "@eaDir", "#recycle", "lost+found",                          /* NAS, ext4 */
    };

    if (*name == '.')
        return true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcasecmp(name, names[i]))
            return true;
    return false;
}
