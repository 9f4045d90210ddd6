/* sheet.h - strips of a clip's frames, and contact sheets of many samples. */
#ifndef PRECOMPUTE_VDECODE_SHEET_H
#define PRECOMPUTE_VDECODE_SHEET_H

#include <stdint.h>

#include "common/base/err.h"

/* A still, or up to four frames of a clip, from first to last, in a row. */
typedef struct strip {
    int n;                           /* frames of the clip */
    int side;                        /* the longer side of a frame, at most; 0: any */
    uint8_t *rgb;                    /* [h,w,3]; NULL: no frame was put */
    int h, w;
} strip;
/* Puts frame t of the clip, rgb [h,w,3], into a strip that has it; other frames are left out. The
 * frames come in their order. */
int strip_put(strip *s, int t, const uint8_t *rgb, int h, int w, vc_err *err);
void strip_free(strip *s);           /* an all-zero one is fine */

/* Collects strips of frames of SHEET_SIDE, and puts them on a page: two columns, or, if rows were
 * begun, each row with all of its strips. At most SHEET_MOST are kept; further ones are left
 * out. */
enum { SHEET_SIDE = 160, SHEET_MOST = 200 };
typedef struct sheet sheet;
int sheet_open(sheet **out, vc_err *err);
void sheet_close(sheet *s);          /* NULL is fine */
void sheet_add(sheet *s, strip *one);          /* takes the strip's pixels */
void sheet_row(sheet *s);                       /* the next strip begins a row */
int sheet_count(const sheet *s);                /* of strips; 0 of NULL */
/* Adds a copy of strip i of another sheet. */
int sheet_copy(sheet *s, const sheet *from, int i, vc_err *err);
int sheet_write(const sheet *s, const char *path, vc_err *err);

#endif
