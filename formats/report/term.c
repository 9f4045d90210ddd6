/* term.c - see term.h */
#include "formats/report/term.h"

#include <stdlib.h>
#include <string.h>

#define COUNT(a) (sizeof (a) / sizeof *(a))

/* ---- which terminal ---- */

/* A variable that begins with `text` (any value: NULL) tells what can be shown; the first row that
 * fits counts. */
static const struct { const char *name, *text; vf_term how; } terminals[] = {
    { "KITTY_WINDOW_ID", NULL, VF_TERM_KITTY }, { "TERM", "xterm-kitty", VF_TERM_KITTY },
    { "TERM", "xterm-ghostty", VF_TERM_KITTY }, { "TERM", "foot", VF_TERM_SIXEL },
    { "TERM", "mlterm", VF_TERM_SIXEL }, { "TERM", "yaft", VF_TERM_SIXEL },
    { "TERM_PROGRAM", "WezTerm", VF_TERM_SIXEL }, { "TERM_PROGRAM", "iTerm", VF_TERM_SIXEL },
    { "TERM_PROGRAM", "mintty", VF_TERM_SIXEL }, { "COLORTERM", "truecolor", VF_TERM_BLOCKS },
    { "COLORTERM", "24bit", VF_TERM_BLOCKS },
};

static bool starts(const char *s, const char *text)
{
    return s && (!text || !strncmp(s, text, strlen(text)));
}

vf_term vf_term_of(char *(*env)(const char *name))
{
    bool inside = env("TMUX") || starts(env("TERM"), "screen") || starts(env("TERM"), "tmux");

    for (size_t i = 0; i < COUNT(terminals); i++)
        if (starts(env(terminals[i].name), terminals[i].text) &&
            (!inside || terminals[i].how == VF_TERM_BLOCKS))
            return terminals[i].how;
    return VF_TERM_NONE;
}

int vf_term_columns(char *(*env)(const char *name))
{
    const char *text = env("COLUMNS");
    long n = text ? strtol(text, NULL, 10) : 0;
    return n >= 10 && n <= 1000 ? (int)n : 80;
}

/* ---- kitty: the pixels in base64, in pieces ---- */

static void draw_kitty(vc_buf *b, const uint8_t *rgb, int w, int h)
{
    enum { PIECE = 3072 };                   /* bytes: 4096 characters, as many as may be */
    size_t n = 3 * (size_t)w * (size_t)h;

    for (size_t at = 0; at < n; at += PIECE) {
        size_t some = n - at < PIECE ? n - at : PIECE;
        if (at == 0)
            vc_buf_printf(b, "\033_Ga=T,f=24,s=%d,v=%d,m=%d;", w, h, some < n);
        else
            vc_buf_printf(b, "\033_Gm=%d;", at + some < n);
        vc_buf_base64(b, rgb + at, some);
        vc_buf_str(b, "\033\\");
    }
    vc_buf_str(b, "\n");
}

/* ---- sixels: bands of six lines, colour after colour ---- */

enum { LEVELS = 6, COLOURS = LEVELS * LEVELS * LEVELS, BAND = 6 };

/* Place in the cube of 6 x 6 x 6, after an ordered dither. */
static int colour_of(const uint8_t *p, int x, int y)
{
    static const uint8_t bayer[4][4] = {
        { 0, 8, 2, 10 }, { 12, 4, 14, 6 }, { 3, 11, 1, 9 }, { 15, 7, 13, 5 },
    };
    int colour = 0;
    for (int c = 0; c < 3; c++)              /* 51 between two levels */
        colour = colour * LEVELS + (p[c] * 16 + bayer[y % 4][x % 4] * 51) / (51 * 16);
    return colour;
}

static void put_run(vc_buf *b, int n, int bits)
{
    char c = (char)('?' + bits);
    if (n > 3)
        vc_buf_printf(b, "!%d%c", n, c);
    else
        while (n-- > 0)
            vc_buf_add(b, &c, 1);
}

/* One colour of a band whose colours are in place[BAND][w]. */
static void put_colour(vc_buf *b, const uint8_t *place, int w, int lines, int colour)
{
    int run = 0, before = 0;
    vc_buf_printf(b, "#%d", colour);
    for (int x = 0; x < w; x++) {
        int bits = 0;
        for (int y = 0; y < lines; y++)
            bits |= (place[y * w + x] == colour) << y;
        if (bits != before) {
            put_run(b, run, before);
            run = 0;
        }
        before = bits;
        run++;
    }
    if (before)
        put_run(b, run, before);
}

static void draw_sixel(vc_buf *b, const uint8_t *rgb, int w, int h)
{
    uint8_t *place = malloc(BAND * (size_t)w);

    b->failed |= !place;
    vc_buf_printf(b, "\033Pq\"1;1;%d;%d", w, h);
    for (int i = 0; i < COLOURS; i++)        /* in percent */
        vc_buf_printf(b, "#%d;2;%d;%d;%d", i, i / 36 * 20, i / 6 % 6 * 20, i % 6 * 20);
    for (int top = 0; place && top < h; top += BAND) {
        int lines = h - top < BAND ? h - top : BAND;
        bool used[COLOURS] = { false };
        for (int i = 0; i < lines * w; i++) {
            int x = i % w, y = top + i / w;
            place[i] = (uint8_t)colour_of(rgb + 3 * ((size_t)y * (size_t)w + (size_t)x), x, y);
            used[place[i]] = true;
        }
        for (int c = 0; c < COLOURS; c++)
            if (used[c]) {
                put_colour(b, place, w, lines, c);
                vc_buf_str(b, "$");
            }
        vc_buf_str(b, "-");
    }
    vc_buf_str(b, "\033\\\n");
    free(place);
}

/* ---- half blocks: the upper half in the foreground's colour, the lower in the other ---- */

/* Mean of the pixels that fall into cell x, y of a grid of cw x ch. */
static void mean_of(uint8_t mean[3], const uint8_t *rgb, int w, int h, int x, int y, int cw, int ch)
{
    int x0 = (int)((int64_t)x * w / cw), x1 = (int)(((int64_t)x + 1) * w / cw);
    int y0 = (int)((int64_t)y * h / ch), y1 = (int)(((int64_t)y + 1) * h / ch);
    uint64_t sum[3] = { 0 }, n = (uint64_t)(x1 - x0) * (uint64_t)(y1 - y0);

    for (int i = y0; i < y1; i++)
        for (int k = x0; k < x1; k++)
            for (int c = 0; c < 3; c++)
                sum[c] += rgb[3 * ((size_t)i * (size_t)w + (size_t)k) + (size_t)c];
    for (int c = 0; c < 3; c++)
        mean[c] = (uint8_t)((sum[c] + n / 2) / n);
}

static void draw_blocks(vc_buf *b, const uint8_t *rgb, int w, int h, int columns)
{
    enum { MOST = 48 };                      /* pixels high: half a screen */
    int cw = w < columns ? w : columns, ch = (int)(((int64_t)h * cw + w / 2) / w);

    if (ch > MOST) {
        ch = MOST;
        cw = (int)(((int64_t)w * ch + h / 2) / h);
    }
    ch = ch < 1 ? 1 : ch;
    cw = cw < 1 ? 1 : cw;
    for (int y = 0; y < ch; y += 2) {
        for (int x = 0; x < cw; x++) {
            uint8_t up[3], low[3];
            mean_of(up, rgb, w, h, x, y, cw, ch);
            vc_buf_printf(b, "\033[38;2;%d;%d;%d", up[0], up[1], up[2]);
            if (y + 1 < ch) {
                mean_of(low, rgb, w, h, x, y + 1, cw, ch);
                vc_buf_printf(b, ";48;2;%d;%d;%d", low[0], low[1], low[2]);
            }
            vc_buf_str(b, "m\xe2\x96\x80");
        }
        vc_buf_str(b, "\033[0m\n");
    }
}

void vf_term_draw(vc_buf *b, vf_term how, const uint8_t *rgb, int w, int h, int columns)
{
    if (how == VF_TERM_KITTY)
        draw_kitty(b, rgb, w, h);
    else if (how == VF_TERM_SIXEL)
        draw_sixel(b, rgb, w, h);
    else if (how == VF_TERM_BLOCKS)
        draw_blocks(b, rgb, w, h, columns);
}
