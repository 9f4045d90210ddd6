/* sheet.c - see sheet.h */
#include "precompute/vdecode/sheet.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "precompute/media/write.h"

enum { STRIP_FRAMES = 4, GAP = 4, COLUMNS = 2, BACKGROUND = 32 };

typedef struct canvas {
    uint8_t *rgb;
    int h, w;
} canvas;

typedef struct item {
    canvas strip;
    bool begins;                     /* it is the first of a row */
} item;
struct sheet {
    item item[SHEET_MOST];
    int n;
    bool begins, rows;               /* the next strip begins a row; any does */
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
        free(s->item[i].strip.rgb);
    free(s);
}

void sheet_add(sheet *s, strip *one)
{
    if (s->n == SHEET_MOST || !one->rgb)
        return;
    s->item[s->n++] = (item){ { one->rgb, one->h, one->w }, s->begins };
    s->begins = false;
    one->rgb = NULL;
}

void sheet_row(sheet *s)
{
    s->begins = s->rows = true;
}

int sheet_count(const sheet *s)
{
    return s ? s->n : 0;
}

int sheet_copy(sheet *s, const sheet *from, int i, vc_err *err)
{
    const canvas *c = &from->item[i].strip;
    const size_t n = (size_t)c->h * (size_t)c->w * 3;
    strip copy = { .rgb = malloc(n), .h = c->h, .w = c->w };
    if (!copy.rgb)
        return vc_fail(err, VC_ENOMEM, "out of memory for a picture of %dx%d", c->w, c->h);
    memcpy(copy.rgb, c->rgb, n);
    sheet_add(s, &copy);
    strip_free(&copy);
    return 0;
}

/* The rows and columns of a page, each as large as its largest strip. */
typedef struct grid {
    int rows, columns;
    int h[SHEET_MOST], w[SHEET_MOST];
    int row[SHEET_MOST], column[SHEET_MOST];     /* of strip i */
} grid;

static void lay_out(grid *g, const sheet *s)
{
    *g = (grid){ .rows = 0 };
    for (int i = 0, r = -1, c = 0; i < s->n; i++) {
        const bool begins = s->rows ? s->item[i].begins || !i : i % COLUMNS == 0;
        const canvas *one = &s->item[i].strip;
        r += begins;
        c = begins ? 0 : c + 1;
        g->row[i] = r;
        g->column[i] = c;
        g->h[r] = one->h > g->h[r] ? one->h : g->h[r];
        g->w[c] = one->w > g->w[c] ? one->w : g->w[c];
        g->rows = r + 1;
        g->columns = c >= g->columns ? c + 1 : g->columns;
    }
}

/* The place of item i of a row of sizes, where those before it end. */
static int place_of(const int *size, int i)
{
    int at = 2 * GAP;
    for (int k = 0; k < i; k++)
        at += size[k] + 2 * GAP;
    return at;
}

int sheet_write(const sheet *s, const char *path, vc_err *err)
{
    grid *g = s->n ? malloc(sizeof *g) : NULL;
    canvas c = { 0 };
    if (!s->n)
        return vc_fail(err, VC_EINVAL, "%s: no pictures for a contact sheet", path);
    if (!g)
        return vc_fail(err, VC_ENOMEM, "out of memory for a contact sheet");
    lay_out(g, s);
    int rc = canvas_make(&c, place_of(g->h, g->rows), place_of(g->w, g->columns), err);
    for (int i = 0; !rc && i < s->n; i++) {
        const canvas *one = &s->item[i].strip;
        paste(&c, place_of(g->h, g->row[i]), place_of(g->w, g->column[i]), one->rgb, one->h,
              one->w);
    }
    if (!rc)
        rc = media_write_png(path, c.rgb, c.h, c.w, err);
    free(c.rgb);
    free(g);
    return rc;
}
