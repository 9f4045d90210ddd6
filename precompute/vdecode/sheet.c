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

int strip_put(strip *s, int t, const uint8_t *rgb, int h, int w, vc_err *err)
{
    const int n = s->n < STRIP_FRAMES ? s->n : STRIP_FRAMES;
    uint8_t *small = NULL;
    int i = 0, rc = 0;

    while (i < n && (n > 1 ? i * (s->n - 1) / (n - 1) : 0) != t)
        i++;
    if (i == n)
        return 0;
    if (s->side)
        rc = media_shrink(&small, &h, &w, rgb, h, w, s->side, err);
    canvas c = { s->rgb, s->h, s->w };
    if (!rc && !c.rgb)
        rc = canvas_make(&c, h, n * w + (n - 1) * GAP, err);
    if (!rc) {
        paste(&c, 0, i * (w + GAP), s->side ? small : rgb, h, w);
        s->rgb = c.rgb;
        s->h = c.h;
        s->w = c.w;
    }
    free(small);
    return rc;
}

void strip_free(strip *s)
{
    free(s->rgb);
    *s = (strip){ 0 };
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

void sheet_add(sheet *s, strip *one)
{
    if (s->n == SHEET_MOST || !one->rgb)
        return;
    s->strip[s->n++] = (canvas){ one->rgb, one->h, one->w };
    one->rgb = NULL;
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
            const canvas *one = &s->strip[r * COLUMNS + k];
            paste(&c, top, left, one->rgb, one->h, one->w);
            left += column_width(s, k) + 2 * GAP;
        }
        top += row_height(s, r) + 2 * GAP;
    }
    if (!rc)
        rc = media_write_png(path, c.rgb, h, w, err);
    free(c.rgb);
    return rc;
}
