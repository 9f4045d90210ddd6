/* masks.c - see masks.h */
#include "precompute/media/masks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

enum { MAX_NUMBER = 1 << 24 };               /* the largest position in an edited plan */

/* The odds of a kind for clips and for stills, and its count of numbers; -n: any multiple of n. */
static const struct {
    const char *name;
    double clip, still;
    int numbers;
} kinds[MASK_KINDS] = {
    [MASK_BLOCK] = { "block", 0.05, 0.20, 4 },
    [MASK_ALL] = { "all", 0.20, 0.70, 0 },
    [MASK_KEEP_HEAD] = { "keep_head", 0.20, 0, 1 },
    [MASK_KEEP_ENDS] = { "keep_ends", 0.20, 0, 1 },
    [MASK_BLOCK_IN_TIME] = { "block_in_time", 0.05, 0, 6 },
    [MASK_NOISE] = { "noise", 0.05, 0, 1 },
    [MASK_SMALL_BOXES] = { "small_boxes", 0.05, 0, -5 },
    [MASK_ELLIPSE] = { "ellipse", 0.10, 0.05, 5 },
    [MASK_CIRCLE] = { "circle", 0.05, 0.05, 4 },
    [MASK_WHOLE_FRAMES] = { "whole_frames", 0.05, 0, -1 },
    [MASK_FILE] = { "file", 0, 0, 0 },
};

static double odds(mask_kind k, int f)
{
    return f > 1 ? kinds[k].clip : kinds[k].still;
}

/* ---- drawing ---- */

static mask_kind draw_kind(int f, vc_draws *d)
{
    double u = vc_draw_unit(d), sum = 0;
    mask_kind last = MASK_ALL;

    for (int k = 0; k < MASK_KINDS; k++) {
        if (odds((mask_kind)k, f) <= 0)
            continue;
        last = (mask_kind)k;
        sum += odds(last, f);
        if (u < sum)
            break;
    }
    return last;
}

/* Uniform in lo..hi-1; an empty range is lo alone. */
static int32_t between(vc_draws *d, int lo, int hi)
{
    return (int32_t)(lo + (hi > lo + 1 ? (int)vc_draw_int(d, (uint32_t)(hi - lo)) : 0));
}

static int at_least(int x, int least)
{
    return x > least ? x : least;
}

static void draw_block(mask *m, vc_draws *d)
{
    m->v[m->n++] = between(d, 0, m->w);
    m->v[m->n++] = between(d, 0, m->h);
    m->v[m->n++] = between(d, at_least(m->w / 4, 1), 3 * (m->w / 4));
    m->v[m->n++] = between(d, at_least(m->h / 4, 1), 3 * (m->h / 4));
}

static void draw_round(mask *m, int radii, bool all_frames, vc_draws *d)
{
    int side = m->h < m->w ? m->h : m->w;

    m->v[m->n++] = between(d, 0, m->w);
    m->v[m->n++] = between(d, 0, m->h);
    for (int i = 0; i < radii; i++)
        m->v[m->n++] = between(d, at_least(side / 8, 1), side / 4);
    m->v[m->n++] = all_frames ? m->f : 1;
}

/* Draws distinct frames: the first places of a Fisher-Yates shuffle. order: [f] */
static void draw_boxes(mask *m, int32_t *order, vc_draws *d)
{
    int count = between(d, 1, m->f / 2 + 1);

    for (int i = 0; i < m->f; i++)
        order[i] = i;
    for (int i = 0; i < count; i++) {
        int j = between(d, i, m->f);
        int32_t t = order[j];
        order[j] = order[i];
        order[i] = t;
    }
    for (int i = 0; i < count; i++) {
        int bh = between(d, 1, m->h / 4 + 1), bw = between(d, 1, m->w / 4 + 1);
        m->v[m->n++] = order[i];
        m->v[m->n++] = bh;
        m->v[m->n++] = bw;
        m->v[m->n++] = between(d, 0, m->h - bh + 1);
        m->v[m->n++] = between(d, 0, m->w - bw + 1);
    }
}

static void draw_numbers(mask *m, int32_t *order, bool all_frames, vc_draws *d)
{
    switch (m->kind) {
    case MASK_BLOCK:
        draw_block(m, d);
        break;
    case MASK_KEEP_HEAD:
    case MASK_KEEP_ENDS:
        m->v[m->n++] = between(d, 1, 5);
        break;
    case MASK_BLOCK_IN_TIME:
        draw_block(m, d);
        m->v[m->n++] = between(d, 0, m->f / 2);
        m->v[m->n++] = between(d, m->f / 2, m->f);
        break;
    case MASK_NOISE:
        m->v[m->n++] = between(d, 0, INT32_MAX);
        break;
    case MASK_SMALL_BOXES:
        draw_boxes(m, order, d);
        break;
    case MASK_ELLIPSE:
        draw_round(m, 2, all_frames, d);
        break;
    case MASK_CIRCLE:
        draw_round(m, 1, all_frames, d);
        break;
    case MASK_WHOLE_FRAMES:
        for (int t = 0; t < m->f; t++)
            if (vc_draw_unit(d) > 0.5)
                m->v[m->n++] = t;
        break;
    case MASK_ALL:
    case MASK_FILE:
    case MASK_KINDS:
        break;
    }
}

int mask_draw(mask *m, int f, int h, int w, bool all_frames, vc_draws *kind, vc_draws *numbers,
              vc_err *err)
{
    *m = (mask){ .kind = draw_kind(f, kind), .f = f, .h = h, .w = w };

    /* room for the longest list, boxes in f/2 frames, and behind the list for the shuffle */
    size_t room = 5 * ((size_t)f / 2 + 1) + 8;
    m->v = malloc((room + (size_t)f) * sizeof *m->v);
    if (!m->v)
        return vc_fail(err, VC_ENOMEM, "out of memory for a mask of %d frames", f);
    draw_numbers(m, m->v + room, all_frames, numbers);
    return 0;
}

/* Keeps entries of `step` numbers whose frame, the first number, is below f. */
static void keep_frames(mask *m, int step, int f)
{
    int n = 0;

    for (int i = 0; i < m->n; i += step)
        if (m->v[i] < f) {
            memmove(m->v + n, m->v + i, (size_t)step * sizeof *m->v);
            n += step;
        }
    m->n = n;
}

/* Frames c to end-1: to the last one, or everything in them. */
static void cut_ends(mask *m, int f)
{
    int c = m->v[0], end = m->f - c;

    if (end <= c)
        return;
    if (end >= f) {
        m->kind = MASK_KEEP_HEAD;
        return;
    }
    const int32_t v[6] = { m->w / 2, m->h / 2, 2 * m->w + 2, 2 * m->h + 2, c, end };
    m->kind = MASK_BLOCK_IN_TIME;
    memcpy(m->v, v, sizeof v);
    m->n = 6;
}

void mask_cut(mask *m, int f)
{
    if (f >= m->f)
        return;
    if (m->kind == MASK_KEEP_ENDS)
        cut_ends(m, f);
    else if (m->kind == MASK_SMALL_BOXES)
        keep_frames(m, 5, f);
    else if (m->kind == MASK_WHOLE_FRAMES)
        keep_frames(m, 1, f);
    m->f = f;
}

int mask_keep(mask *m, int f, int h, int w, bool ends, vc_err *err)
{
    *m = (mask){ .kind = ends && f > 1 ? MASK_KEEP_ENDS : MASK_KEEP_HEAD, .f = f, .h = h, .w = w,
                 .n = 1, .v = malloc(sizeof *m->v) };
    if (!m->v)
        return vc_fail(err, VC_ENOMEM, "out of memory for a mask");
    m->v[0] = 1;
    return 0;
}

void mask_free(mask *m)
{
    free(m->v);
    free(m->pixels);
    *m = (mask){ 0 };
}

/* ---- plan lines ---- */

cJSON *mask_json(const mask *m)
{
    /* stills lack this kind: the mask was drawn for a clip that was cut to one frame */
    const int f = odds(m->kind, m->f) > 0 ? m->f : 2;
    cJSON *o = cJSON_CreateObject(), *options = cJSON_CreateArray(), *pick, *purpose;
    cJSON *numbers = m->n ? cJSON_CreateIntArray(m->v, m->n) : cJSON_CreateArray();

    purpose = cJSON_AddStringToObject(o, "purpose", "mask");
    for (int k = 0; options && k < MASK_KINDS; k++)
        if (odds((mask_kind)k, f) > 0)
            cJSON_AddItemToArray(options, cJSON_CreateString(kinds[k].name));
    cJSON_AddItemToObject(o, "options", options);
    pick = cJSON_AddStringToObject(o, "pick", kinds[m->kind].name);
    cJSON_AddItemToObject(o, "numbers", numbers);
    if (!o || !options || !numbers || !purpose || !pick) {
        cJSON_Delete(o);
        return NULL;
    }
    return o;
}

static int parse_numbers(mask *m, const cJSON *list, vc_err *err)
{
    const cJSON *x;
    int n = cJSON_GetArraySize(list), want = kinds[m->kind].numbers;
    const char *name = kinds[m->kind].name;

    if (want >= 0 ? n != want : n % -want)
        return vc_fail(err, VC_EINVAL, "draws: mask %s: %d numbers; it has %s%d", name, n,
                       want < 0 ? "any multiple of " : "", abs(want));
    m->v = malloc(((size_t)n + 1) * sizeof *m->v);
    if (!m->v)
        return vc_fail(err, VC_ENOMEM, "out of memory for a mask of %d numbers", n);
    int32_t most = m->kind == MASK_NOISE ? INT32_MAX : MAX_NUMBER;
    cJSON_ArrayForEach(x, list)
    {
        double v = cJSON_IsNumber(x) ? x->valuedouble : -1;
        if (v != floor(v) || v < 0 || v > most)
            return vc_fail(err, VC_EINVAL, "draws: mask %s: number %d: an integer from 0 to %d "
                           "expected", name, m->n, (int)most);
        m->v[m->n++] = (int32_t)v;
    }
    return 0;
}

int mask_parse(mask *m, const cJSON *draw, int f, int h, int w, vc_err *err)
{
    const char *pick;
    const cJSON *numbers;
    int k = 0, rc = vf_json_str(draw, "pick", &pick, err);

    *m = (mask){ .f = f, .h = h, .w = w };
    if (!rc)
        rc = vf_json_arr(draw, "numbers", &numbers, err);
    if (rc)
        return vc_context(err, VC_EFORMAT, "draws: mask");
    while (k < MASK_KINDS && strcmp(kinds[k].name, pick))
        k++;
    if (k == MASK_KINDS || k == MASK_FILE)
        return vc_fail(err, VC_EINVAL, "draws: mask: no kind \"%.40s\"", pick);
    m->kind = (mask_kind)k;
    rc = parse_numbers(m, numbers, err);
    if (rc)
        mask_free(m);
    return rc;
}

/* ---- pixels ---- */

/* Masks rows y0..y1-1 and columns x0..x1-1, as far as they lie in the picture. */
static void fill(const mask *m, uint8_t *out, int y0, int y1, int x0, int x1)
{
    y0 = at_least(y0, 0);
    x0 = at_least(x0, 0);
    y1 = y1 < m->h ? y1 : m->h;
    x1 = x1 < m->w ? x1 : m->w;
    for (int y = y0; y < y1 && x0 < x1; y++)
        memset(out + (size_t)y * (size_t)m->w + x0, 1, (size_t)(x1 - x0));
}

static void fill_block(const mask *m, uint8_t *out)
{
    int cx = m->v[0], cy = m->v[1], bw = m->v[2], bh = m->v[3];
    fill(m, out, cy - bh / 2, cy + bh / 2, cx - bw / 2, cx + bw / 2);
}

static void fill_noise(const mask *m, int t, uint8_t *out)
{
    const uint32_t key[2] = { (uint32_t)m->v[0], 0 };
    size_t area = (size_t)m->h * (size_t)m->w;

    for (size_t i = 0; i < area; i += 128) {
        uint32_t ctr[4] = { (uint32_t)(i / 128), (uint32_t)t, 0, VC_DRAW_MASK }, bits[4];
        vc_philox(key, ctr, bits);
        for (size_t j = 0; j < 128 && i + j < area; j++)
            out[i + j] = bits[j / 32] >> j % 32 & 1;
    }
}

/* Computes in f32 as the reference does: a circle compares squares, an ellipse quotients. */
static void fill_round(const mask *m, uint8_t *out, bool circle)
{
    float rx = (float)m->v[2], ry = (float)m->v[circle ? 2 : 3];

    for (int y = 0; y < m->h; y++)
        for (int x = 0; x < m->w; x++) {
            float dy = (float)(y - m->v[1]), dx = (float)(x - m->v[0]);
            bool in = circle ? dy * dy + dx * dx < rx * rx
                             : dy * dy / (ry * ry) + dx * dx / (rx * rx) < 1.0f;
            out[(size_t)y * (size_t)m->w + (size_t)x] = in;
        }
}

void mask_frame(const mask *m, int t, uint8_t *out)
{
    const int32_t *v = m->v;
    const size_t area = (size_t)m->h * (size_t)m->w;
    bool whole = false;

    memset(out, 0, area);
    switch (m->kind) {
    case MASK_BLOCK:
        fill_block(m, out);
        break;
    case MASK_ALL:
        whole = true;
        break;
    case MASK_KEEP_HEAD:
        whole = t >= v[0];
        break;
    case MASK_KEEP_ENDS:
        whole = t >= v[0] && t < m->f - v[0];
        break;
    case MASK_BLOCK_IN_TIME:
        if (t >= v[4] && t < v[5])
            fill_block(m, out);
        break;
    case MASK_NOISE:
        fill_noise(m, t, out);
        break;
    case MASK_SMALL_BOXES:
        for (; v < m->v + m->n; v += 5)
            if (v[0] == t)
                fill(m, out, v[3], v[3] + v[1], v[4], v[4] + v[2]);
        break;
    case MASK_ELLIPSE:
        if (t < v[4])
            fill_round(m, out, false);
        break;
    case MASK_CIRCLE:
        if (t < v[3])
            fill_round(m, out, true);
        break;
    case MASK_WHOLE_FRAMES:
        for (int i = 0; i < m->n; i++)
            whole |= v[i] == t;
        break;
    case MASK_FILE:
        if (m->pixels)
            memcpy(out, m->pixels + (m->n_pixels > 1 ? (size_t)t : 0) * area, area);
        break;
    case MASK_KINDS:
        break;
    }
    if (whole)
        memset(out, 1, (size_t)m->h * (size_t)m->w);
}

static bool covers(const mask *m, int y0, int y1, int x0, int x1)
{
    return y0 <= 0 && x0 <= 0 && y1 >= m->h && x1 >= m->w;
}

static bool block_covers(const mask *m)
{
    int cx = m->v[0], cy = m->v[1], bw = m->v[2], bh = m->v[3];
    return covers(m, cy - bh / 2, cy + bh / 2, cx - bw / 2, cx + bw / 2);
}

/* Whether one entry of a list of (frame, ...) covers each frame. */
static bool every_frame(const mask *m, int step)
{
    for (int t = 0; t < m->f; t++) {
        bool found = false;
        for (const int32_t *v = m->v; v < m->v + m->n && !found; v += step)
            found = v[0] == t && (step == 1 || covers(m, v[3], v[3] + v[1], v[4], v[4] + v[2]));
        if (!found)
            return false;
    }
    return true;
}

/* The shapes are convex, so a shape with all corners has every pixel. */
static bool round_covers(const mask *m, bool circle)
{
    double rx = m->v[2], ry = m->v[circle ? 2 : 3];
    double dx = m->v[0] > m->w - 1 - m->v[0] ? m->v[0] : m->w - 1 - m->v[0];
    double dy = m->v[1] > m->h - 1 - m->v[1] ? m->v[1] : m->h - 1 - m->v[1];

    return m->v[circle ? 3 : 4] >= m->f &&
           dy * dy * rx * rx + dx * dx * ry * ry < rx * rx * ry * ry;
}

bool mask_is_all(const mask *m)
{
    switch (m->kind) {
    case MASK_ALL:
        return true;
    case MASK_KEEP_HEAD:
    case MASK_KEEP_ENDS:
        return m->v[0] == 0;
    case MASK_BLOCK:
        return block_covers(m);
    case MASK_BLOCK_IN_TIME:
        return m->v[4] == 0 && m->v[5] >= m->f && block_covers(m);
    case MASK_SMALL_BOXES:
        return m->n / 5 >= m->f && every_frame(m, 5);
    case MASK_WHOLE_FRAMES:
        return m->n >= m->f && every_frame(m, 1);
    case MASK_ELLIPSE:
    case MASK_CIRCLE:
        return round_covers(m, m->kind == MASK_CIRCLE);
    case MASK_NOISE:                         /* has the probability 2^-256 at the least size */
    case MASK_FILE:                          /* its pixels are not read yet */
    case MASK_KINDS:
        break;
    }
    return false;
}

/* ---- the latent grid ---- */

/* out += known pixels of one frame among the four (fewer, counted twice, for odd r) that each
 * place averages. */
static void count_known(float *out, const uint8_t *frame, int h, int w, int r)
{
    int first = (r - 1) / 2, second = r / 2;

    for (int y = 0; y < h / r; y++)
        for (int x = 0; x < w / r; x++) {
            const uint8_t *a = frame + (size_t)(y * r + first) * (size_t)w + (size_t)x * (size_t)r;
            const uint8_t *b = frame + (size_t)(y * r + second) * (size_t)w + (size_t)x * (size_t)r;
            *out++ += (float)(4 - a[first] - a[second] - b[first] - b[second]);
        }
}

void mask_to_grid(float *out, const mask *m, int k, int r, uint8_t *scratch)
{
    int lf = (m->f - 1) / k + 1;
    size_t grid = (size_t)(m->h / r) * (size_t)(m->w / r);

    for (int i = 0; i < lf; i++, out += grid) {
        /* frame 0 for the first, else the middle ones of frames (i-1)k+1 .. ik */
        int a = i ? (i - 1) * k + 1 + (k - 1) / 2 : 0, b = i ? (i - 1) * k + 1 + k / 2 : 0;
        for (size_t j = 0; j < grid; j++)
            out[j] = 0;
        mask_frame(m, a, scratch);
        count_known(out, scratch, m->h, m->w, r);
        if (b != a)
            mask_frame(m, b, scratch);
        count_known(out, scratch, m->h, m->w, r);
        for (size_t j = 0; j < grid; j++)
            out[j] /= 8.0f;
    }
}

void mask_fold(float *out, const mask *m, int k, int r, uint8_t *scratch)
{
    const int lf = (m->f - 1) / k + 1;
    const size_t grid = (size_t)(m->h / r) * (size_t)(m->w / r);

    for (int j = 0; j < k; j++)
        for (int i = 0; i < lf; i++, out += grid) {
            memset(out, 0, grid * sizeof *out);
            mask_frame(m, i ? (i - 1) * k + 1 + j : 0, scratch);
            count_known(out, scratch, m->h, m->w, r);
            for (size_t at = 0; at < grid; at++)
                out[at] /= 4.0f;
        }
}

/* "nearest-exact" of PyTorch: out of n frames, latent frame i of lf has this one. */
static int nearest(int i, int lf, int n)
{
    return (2 * i + 1) * n / (2 * lf);
}

void mask_pixels(float *out, const mask *m, int k, int r, uint8_t *scratch)
{
    const int lf = (m->f - 1) / k + 1;
    const size_t grid = (size_t)(m->h / r) * (size_t)(m->w / r);

    for (int i = 0; i < lf; i++) {
        mask_frame(m, nearest(i, lf, m->f), scratch);
        for (int c = 0; c < r * r; c++) {
            float *to = out + ((size_t)c * (size_t)lf + (size_t)i) * grid;
            for (int y = c / r; y < m->h; y += r)
                for (int x = c % r; x < m->w; x += r)
                    *to++ = (float)scratch[(size_t)y * (size_t)m->w + (size_t)x];
        }
    }
}
