/* sheet.c - see sheet.h */
#include "precompute/vdecode/sheet.h"

#include <stdlib.h>
#include <string.h>

#include "precompute/media/write.h"

enum { STRIP_FRAMES = 4, GAP = 4, COLUMNS = 2, BACKGROUND = 32 };

typedef struct canvas {
    uint8_t *rgb;
    int h, w;
} canvas;

struct sheet {
    canvas strip[SHEET_MOST];
    int n;
};

static int canvas_make(canvas *c, int h, int w, vc_err *err)
{
    *c = (canvas){ malloc((size_t)h * (size_t)w * 3), h, w };
    if (!c->rgb)
        return vc_fail(err, VC_ENOMEM, "out of memory for a picture of %dx%d", w, h);
    memset(c->rgb, BACKGROUND, (size_t)h * (size_t)w * 3);
    return 0;
}

static void paste(canvas *c, int top, int left, const uint8_t *rgb, int h, int w)
{
    for (int y = 0; y < h; y++)
        memcpy(c->rgb + ((size_t)(top + y) * (size_t)c->w + (size_t)left) * 3,
               rgb + (size_t)y * (size_t)w * 3, (size_t)w * 3);
}

/* The frames of a strip, the longer side of each at most `side` (0: not shrunk). */
static int make_strip(canvas *c, const picture *p, int side, vc_err *err)
{
    int n = p->n < STRIP_FRAMES ? p->n : STRIP_FRAMES, rc = 0;
    size_t frame = (size_t)p->h * (size_t)p->w * 3;

    *c = (canvas){ 0 };
    for (int i = 0; !rc && i < n; i++) {
        const uint8_t *rgb = p->rgb + (n > 1 ? (size_t)(i * (p->n - 1) / (n - 1)) : 0) * frame;
        uint8_t *small = NULL;
        int h = p->h, w = p->w;
        if (side)
            rc = media_shrink(&small, &h, &w, rgb, p->h, p->w, side, err);
        if (!rc && i == 0)
            rc = canvas_make(c, h, n * w + (n - 1) * GAP, err);
        if (!rc)
            paste(c, 0, i * (w + GAP), side ? small : rgb, h, w);
        free(small);
    }
    return rc;
}

int sheet_strip(const char *path, const picture *p, vc_err *err)
{
    canvas c;
    int rc = make_strip(&c, p, 0, err);
    if (!rc)
        rc = media_write_png(path, c.rgb, c.h, c.w, err);
    free(c.rgb);
    return rc;
}

int sheet_open(sheet **out, vc_err *err)
{
    *out = calloc(1, sizeof **out);
    return *out ? 0 : vc_fail(err, VC_ENOMEM, "out of memory for a contact sheet");
}

void sheet_close(sheet *s)
{
    for (int i = 0; s && i < s->n; i++)
        free(s->strip[i].rgb);
    free(s);
}

int sheet_add(sheet *s, const picture *p, vc_err *err)
{
    if (s->n == SHEET_MOST)
        return 0;
    int rc = make_strip(&s->strip[s->n], p, SHEET_SIDE, err);
    if (rc)
        free(s->strip[s->n].rgb);
    else
        s->n++;
    return rc;
}

/* Height of row r and width of column k, those of the largest strip. */
static int row_height(const sheet *s, int r)
{
    int h = 0;
    for (int i = r * COLUMNS; i < s->n && i < (r + 1) * COLUMNS; i++)
        h = s->strip[i].h > h ? s->strip[i].h : h;
    return h;
}

static int column_width(const sheet *s, int k)
{
    int w = 0;
    for (int i = k; i < s->n; i += COLUMNS)
        w = s->strip[i].w > w ? s->strip[i].w : w;
    return w;
}

int sheet_write(const sheet *s, const char *path, vc_err *err)
{
    int rows = (s->n + COLUMNS - 1) / COLUMNS, h = 2 * GAP, w = 2 * GAP;
    canvas c;

    if (!s->n)
        return vc_fail(err, VC_EINVAL, "%s: no pictures for a contact sheet", path);
    for (int r = 0; r < rows; r++)
        h += row_height(s, r) + 2 * GAP;
    for (int k = 0; k < COLUMNS; k++)
        w += column_width(s, k) + 2 * GAP;

    int rc = canvas_make(&c, h, w, err), top = 2 * GAP;
    for (int r = 0; !rc && r < rows; r++) {
        int left = 2 * GAP;
        for (int k = 0; k < COLUMNS && r * COLUMNS + k < s->n; k++) {
            const canvas *strip = &s->strip[r * COLUMNS + k];
            paste(&c, top, left, strip->rgb, strip->h, strip->w);
            left += column_width(s, k) + 2 * GAP;
        }
        top += row_height(s, r) + 2 * GAP;
    }
    if (!rc)
        rc = media_write_png(path, c.rgb, h, w, err);
    free(c.rgb);
    return rc;
}
