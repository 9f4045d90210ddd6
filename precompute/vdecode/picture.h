/* picture.h - the files of one latent, which are written while it is decoded. */
#ifndef PRECOMPUTE_VDECODE_PICTURE_H
#define PRECOMPUTE_VDECODE_PICTURE_H

#include <stdbool.h>

#include "precompute/media/write.h"
#include "precompute/vdecode/sheet.h"

/* Formats: PICTURE_AUTO is PNG for a still, MP4 and a PNG of a few frames for a clip. */
enum { PICTURE_AUTO, PICTURE_PNG, PICTURE_JPG, PICTURE_MP4 };

/* The caller fills the first fields; the others are 0 at first. */
typedef struct picture {
    const char *stem;                /* path of the files without their endings; borrowed */
    int format;
    bool on_sheet;                   /* a strip for a contact sheet is made too */
    int skip, n;                     /* n frames are written, after `skip` that are left out */
    int h, w;
    double fps;
    const media_wave *sound;         /* of an MP4, beside which is a picture of its wave; borrowed;
                                      * NULL: none */

    media_mp4 *mp4;
    strip strip, small;              /* small: for the sheet */
} picture;

int picture_begin(picture *p, vc_err *err);
/* The `take` of vae_output; arg is a picture. */
int picture_take(void *arg, const uint8_t *rgb, int first, int n, vc_err *err);
/* Ends the files, unless rc is an error of the frames, and puts the strip on the sheet, if there is
 * one. Returns rc, or the first error. Called after a failed picture_begin too. */
int picture_end(picture *p, sheet *s, int rc, vc_err *err);

#endif
