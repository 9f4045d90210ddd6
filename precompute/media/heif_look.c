/* heif_look.c - the properties of an item: how it is turned, cut and coloured (see heif.h) */
#include <string.h>

#include "precompute/media/heif.h"

enum { MAX_PROPERTIES = 1 << 10, MAX_ASSOCIATED = 32 };

/* ---- properties ---- */

static bool property_box(const heif_file *f, unsigned index, uint32_t *type, heif_reader *body)
{
    heif_reader iprp, r;
    if (!index || !heif_find_box(heif_meta(f), HEIF_TYPE('i', 'p', 'r', 'p'), &iprp) ||
        !heif_find_box(iprp.s, HEIF_TYPE('i', 'p', 'c', 'o'), &r))
        return false;
    for (unsigned i = 1; i <= MAX_PROPERTIES && heif_next_box(&r, type, body); i++)
        if (i == index)
            return true;
    return false;
}

/* The associations of an item; an ipma box may come more than once. */
typedef struct associations {
    heif_reader r;
    unsigned left;
    bool wide;              /* 15 bits of index, else 7 */
} associations;

static bool find_in_ipma(heif_reader r, uint32_t item, associations *a)
{
    const uint32_t head = heif_take32(&r);
    const uint32_t entries = heif_take32(&r);
    for (uint32_t i = 0; i < entries && i < HEIF_MAX_ITEMS && !r.ended; i++) {
        const uint32_t id = (uint32_t)heif_take(&r, head >> 24 ? 4 : 2);
        const unsigned n = (unsigned)heif_take(&r, 1);
        const size_t bytes = head & 1 ? 2 : 1;
        if (id == item && n <= MAX_ASSOCIATED && !r.ended) {
            *a = (associations){ .r = r, .left = n, .wide = bytes == 2 };
            return true;
        }
        heif_skip(&r, n * bytes);
    }
    return false;
}

static void find_associations(const heif_file *f, uint32_t item, associations *a)
{
    heif_reader iprp, r, body;
    uint32_t type;
    *a = (associations){ 0 };
    if (!heif_find_box(heif_meta(f), HEIF_TYPE('i', 'p', 'r', 'p'), &iprp))
        return;
    r = iprp;
    for (int i = 0; i < HEIF_MAX_BOXES && heif_next_box(&r, &type, &body); i++)
        if (type == HEIF_TYPE('i', 'p', 'm', 'a') && find_in_ipma(body, item, a))
            return;
}

static bool next_property(const heif_file *f, associations *a, uint32_t *type, heif_reader *body,
                          bool *essential)
{
    while (a->left) {
        const unsigned top = a->wide ? 0x8000 : 0x80;
        const unsigned bits = (unsigned)heif_take(&a->r, a->wide ? 2 : 1);
        a->left--;
        *essential = bits & top;
        if (a->r.ended)
            return false;
        if (property_box(f, bits & (top - 1), type, body))
            return true;
    }
    return false;
}

/* A fraction of clap. */
typedef struct fraction {
    int64_t above, below;
} fraction;

static fraction take_fraction(heif_reader *r)
{
    const uint32_t above = heif_take32(r), below = heif_take32(r);
    r->ended |= !below;
    return (fraction){ (int32_t)above, below ? below : 1 };
}

/* Where a window of n begins whose middle lies `off` behind the middle of `all`. */
static int64_t begin_of(int64_t all, int64_t n, fraction off)
{
    const int64_t twice = (all - n) * off.below + 2 * off.above;
    return twice < 0 ? -1 : twice / (2 * off.below);
}

/* The window of a clean aperture: its size, and how far its middle lies from the picture's. */
static int crop(heif_properties *p, heif_reader r, vc_err *err)
{
    const bool t = p->orient.transpose;
    const int64_t h0 = t ? p->crop_w : p->crop_h, w0 = t ? p->crop_h : p->crop_w;
    const fraction width = take_fraction(&r), height = take_fraction(&r);
    const fraction dx = take_fraction(&r), dy = take_fraction(&r);
    const int64_t w = width.above / width.below, h = height.above / height.below;
    const int64_t x = begin_of(w0, w, dx), y = begin_of(h0, h, dy);
    if (r.ended || w < 1 || h < 1 || x < 0 || y < 0 || x + w > w0 || y + h > h0)
        return heif_damaged(err, "clap: its window lies outside of the picture");
    const int64_t sx = t ? y : x, sy = t ? x : y, sw = t ? h : w, sh = t ? w : h;
    p->crop_x += (int)(p->orient.flip_x ? p->crop_w - sx - sw : sx);
    p->crop_y += (int)(p->orient.flip_y ? p->crop_h - sy - sh : sy);
    p->crop_w = (int)sw;
    p->crop_h = (int)sh;
    p->turned = p->cut = true;
    return 0;
}

/* What is shown is turned by r after what o does. */
static media_orient then(media_orient o, media_orient r)
{
    return (media_orient){
        .transpose = o.transpose ^ r.transpose,
        .flip_y = o.flip_y ^ (o.transpose ? r.flip_x : r.flip_y),
        .flip_x = o.flip_x ^ (o.transpose ? r.flip_y : r.flip_x),
    };
}

static void read_colour(heif_properties *p, heif_reader r)
{
    if (heif_take32(&r) != HEIF_TYPE('n', 'c', 'l', 'x'))
        return;                                     /* an ICC profile */
    p->primaries = (uint16_t)heif_take(&r, 2);
    p->transfer = (uint16_t)heif_take(&r, 2);
    p->matrix = (uint16_t)heif_take(&r, 2);
    p->full_range = heif_take(&r, 1) >> 7;
    p->has_colour = !r.ended;
}

static void turn(heif_properties *p, int exif)
{
    p->orient = then(p->orient, media_orient_exif(exif));
    p->turned = true;
}

/* A property of which nothing is to be done; of layers all are decoded, as operating point 0. */
static bool is_harmless(uint32_t type, heif_reader r)
{
    switch (type) {
    case HEIF_TYPE('i', 's', 'p', 'e'):
    case HEIF_TYPE('p', 'i', 'x', 'i'):
    case HEIF_TYPE('p', 'a', 's', 'p'):
    case HEIF_TYPE('a', 'u', 'x', 'C'):
        return true;
    case HEIF_TYPE('a', '1', 'o', 'p'):
        return heif_take(&r, 1) == 0 && !r.ended;
    case HEIF_TYPE('l', 's', 'e', 'l'):
        return heif_take(&r, 2) == 0xffff;
    default:
        return false;
    }
}

static int apply(heif_properties *p, uint32_t type, heif_reader r, bool essential, vc_err *err)
{
    static const int turns[4] = { 1, 8, 3, 6 };     /* anticlockwise, as EXIF's orientations */
    switch (type) {
    case HEIF_TYPE('a', 'v', '1', 'C'):
    case HEIF_TYPE('h', 'v', 'c', 'C'):
    case HEIF_TYPE('a', 'v', 'c', 'C'):
        p->config = r.s;
        return 0;
    case HEIF_TYPE('i', 'r', 'o', 't'):
        turn(p, turns[heif_take(&r, 1) & 3]);
        return 0;
    case HEIF_TYPE('i', 'm', 'i', 'r'):             /* 0: top and bottom change places */
        turn(p, heif_take(&r, 1) & 1 ? 2 : 4);
        return 0;
    case HEIF_TYPE('c', 'l', 'a', 'p'):
        return crop(p, r, err);
    case HEIF_TYPE('c', 'o', 'l', 'r'):
        read_colour(p, r);
        return 0;
    }
    if (!essential || is_harmless(type, r))
        return 0;
    return vc_fail(err, VC_EFORMAT, "HEIF whose picture has the property %s, which is not known "
                   "here: save it as PNG or JPEG", heif_letters_of(type).s);
}

int heif_find_properties(const heif_file *f, uint32_t item, int w, int h, heif_properties *p,
                         vc_err *err)
{
    associations a;
    uint32_t type;
    heif_reader body;
    bool essential;
    int rc = 0;
    if (!p->crop_w) {
        p->crop_w = w;
        p->crop_h = h;
    }
    find_associations(f, item, &a);
    while (!rc && next_property(f, &a, &type, &body, &essential))
        rc = apply(p, type, body, essential, err);
    return rc;
}

int heif_size(const heif_file *f, uint32_t item, int *w, int *h, vc_err *err)
{
    associations a;
    uint32_t type;
    heif_reader r;
    bool essential;
    find_associations(f, item, &a);
    while (next_property(f, &a, &type, &r, &essential)) {
        if (type != HEIF_TYPE('i', 's', 'p', 'e'))
            continue;
        heif_take32(&r);
        const uint32_t width = heif_take32(&r), height = heif_take32(&r);
        if (r.ended || !width || !height)
            return heif_damaged(err, "ispe");
        if ((uint64_t)width * height > MEDIA_MAX_PIXELS)
            return vc_fail(err, VC_EFORMAT, "%ux%u pixels, more than the %lld allowed", width,
                           height, (long long)MEDIA_MAX_PIXELS);
        *w = (int)width;
        *h = (int)height;
        return 0;
    }
    return vc_fail(err, VC_EFORMAT, "damaged HEIF: item %u has no size", item);
}

/* ---- alpha ---- */

static bool is_alpha(const heif_file *f, uint32_t item)
{
    static const char *const names[] = { "urn:mpeg:mpegB:cicp:systems:auxiliary:alpha",
                                         "urn:mpeg:hevc:2015:auxid:1" };
    associations a;
    uint32_t type;
    heif_reader r;
    bool essential;
    find_associations(f, item, &a);
    while (next_property(f, &a, &type, &r, &essential)) {
        heif_take32(&r);
        for (size_t i = 0; type == HEIF_TYPE('a', 'u', 'x', 'C') && i < 2; i++)
            if (r.s.n > strlen(names[i]) && !memcmp(r.s.p, names[i], strlen(names[i]) + 1))
                return true;
    }
    return false;
}

bool heif_has_alpha(const heif_file *f)
{
    heif_references all;
    if (heif_references_open(&all, f))              /* an auxiliary picture belongs to one item */
        while (heif_references_next(&all, HEIF_TYPE('a', 'u', 'x', 'l')))
            if (heif_reference(&all) == f->primary && is_alpha(f, all.from))
                return true;
    return false;
}
