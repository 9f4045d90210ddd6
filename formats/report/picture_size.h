/* picture_size.h - the size in pixels at which a browser shows a PNG, JPEG or MP4 file, read from
 * the file's headers, so that a page can leave room for the picture before it is loaded.
 *
 * A clip's size is that of its first track that has one, turned as the track's matrix says. A
 * JPEG's Exif orientation is not read. The files may be damaged or hostile: reading ends after a
 * bounded number of parts. */
#ifndef FORMATS_REPORT_PICTURE_SIZE_H
#define FORMATS_REPORT_PICTURE_SIZE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct vf_picture_size {
    int w, h;                            /* 1 to 65535; both 0: unknown */
} vf_picture_size;

/* Returns the size of a file of n bytes at data; 0, 0 if its headers do not say it. */
vf_picture_size vf_picture_size_of(const void *data, size_t n);
/* The same of an open regular file, which may change while it is read. */
vf_picture_size vf_picture_size_of_file(int fd);

#endif
