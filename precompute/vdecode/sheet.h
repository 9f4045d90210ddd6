/* sheet.h - strips of a clip's frames, and contact sheets of many samples. */
#ifndef PRECOMPUTE_VDECODE_SHEET_H
#define PRECOMPUTE_VDECODE_SHEET_H

#include <stdint.h>

#include "common/base/err.h"

typedef struct picture {             /* a decoded latent */
    uint8_t *rgb;                    /* [n,h,w,3] */
    int n, h, w;
    double fps;
} picture;

/* Writes a still, or up to four frames of a clip, from first to last, in a row. */
int sheet_strip(const char *path, const picture *p, vc_err *err);

/* Collects a strip of each picture, at most SHEET_SIDE high, and puts two columns of strips on a
 * page. At most SHEET_MOST are kept; further pictures are left out. */
enum { SHEET_SIDE = 160, SHEET_MOST = 200 };
typedef struct sheet sheet;
int sheet_open(sheet **out, vc_err *err);
void sheet_close(sheet *s);          /* NULL is fine */
int sheet_add(sheet *s, const picture *p, vc_err *err);
int sheet_write(const sheet *s, const char *path, vc_err *err);

#endif
