/* sheet.h - pictures side by side: a clip's frames in a strip, many samples in one contact sheet. */
#ifndef PRECOMPUTE_VDECODE_SHEET_H
#define PRECOMPUTE_VDECODE_SHEET_H

#include <stdint.h>

#include "common/base/err.h"

typedef struct picture {             /* a decoded latent */
    uint8_t *rgb;                    /* [n,h,w,3] */
    int n, h, w;
    double fps;
} picture;

/* A still as it is; of a clip up to four frames from first to last, side by side. */
int sheet_strip(const char *path, const picture *p, vc_err *err);

/* Collects a strip per picture, shrunk to a row of at most SHEET_SIDE high, and puts two columns of strips on
 * a page. At most SHEET_MOST are kept; what is more is left out. */
enum { SHEET_SIDE = 160, SHEET_MOST = 200 };
typedef struct sheet sheet;
int sheet_open(sheet **out, vc_err *err);
void sheet_close(sheet *s);          /* NULL is fine */
int sheet_add(sheet *s, const picture *p, vc_err *err);
int sheet_write(const sheet *s, const char *path, vc_err *err);

#endif
