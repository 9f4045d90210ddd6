/* heif_boxes.c - the boxes of a HEIF file (see heif.h)
 *
 * A box is its size (4 bytes, big-endian, of all of it), its type (four letters) and its body; size
 * 1 means that 8 bytes of size follow the type, and 0 that the box ends with what holds it. A box
 * that is called full has 4 bytes of version and flags in front. The box "meta" is read as a whole;
 * its tables are searched for one item at a time. */
#include <stdlib.h>
#include <string.h>

#include "precompute/media/heif.h"

enum {
    /* no honest file has more; a hostile one is searched no longer */
    MAX_META = 64 << 20, MAX_DATA = 1 << 30, IN_FILE = 0, IN_IDAT = 1
};

uint64_t heif_take(heif_reader *r, size_t bytes)
{
    uint64_t v = 0;
    if (r->s.n < bytes) {
        r->ended = true;
        r->s.n = 0;
        return 0;
    }
    for (size_t i = 0; i < bytes; i++)
        v = v << 8 | r->s.p[i];
    r->s.p += bytes;
    r->s.n -= bytes;
    return v;
}

void heif_skip(heif_reader *r, size_t bytes)
{
    const size_t n = bytes < r->s.n ? bytes : r->s.n;
    r->ended |= n < bytes;
    r->s.p += n;
    r->s.n -= n;
}

heif_letters heif_letters_of(uint32_t type)
{
    heif_letters l = { { 0 } };
    for (int i = 0; i < 4; i++) {
        const int c = (int)(type >> (24 - 8 * i) & 255);
        l.s[i] = (char)(c > ' ' && c < 127 ? c : '?');
    }
    return l;
}

int heif_damaged(vc_err *err, const char *box)
{
    return vc_fail(err, VC_EFORMAT, "damaged HEIF: the box %s", box);
}

bool heif_next_box(heif_reader *r, uint32_t *type, heif_reader *body)
{
    const heif_span all = r->s;
    uint64_t size = heif_take32(r), head = 8;
    *type = heif_take32(r);
    if (size == 1) {
        size = heif_take(r, 8);
        head = 16;
    } else if (size == 0) {
        size = all.n;
    }
    if (r->ended || size < head || size > all.n)
        return false;
    *body = (heif_reader){ .s = { all.p + head, (size_t)(size - head) } };
    r->s = (heif_span){ all.p + size, all.n - (size_t)size };
    return true;
}

bool heif_find_box(heif_span in, uint32_t want, heif_reader *body)
{
    heif_reader r = { .s = in };
    uint32_t type;
    for (int i = 0; i < HEIF_MAX_BOXES && heif_next_box(&r, &type, body); i++)
        if (type == want)
            return true;
    return false;
}

bool heif_find_full(heif_span in, uint32_t want, heif_reader *body, int *version, uint32_t *flags)
{
    if (!heif_find_box(in, want, body))
        return false;
    uint32_t v = heif_take32(body);
    *version = (int)(v >> 24);
    *flags = v & 0xffffff;
    return !body->ended;
}

heif_span heif_meta(const heif_file *f)
{
    return (heif_span){ f->meta, f->n };
}

/* ---- the file ---- */

/* Finds the top box of a type. 1: it is found; its body is n bytes from *at on. */
static int find_top(media_io *io, uint32_t want, int64_t *at, uint64_t *n)
{
    int64_t pos = 0;
    for (int i = 0; i < HEIF_MAX_BOXES && pos < io->size; i++) {
        uint8_t head[16];
        heif_reader r = { .s = { head, 0 } };
        ssize_t got = media_io_at(io, head, sizeof head, pos);
        if (got < 8)
            return 0;
        r.s.n = (size_t)got;
        uint64_t size = heif_take32(&r);
        const uint32_t type = heif_take32(&r);
        const uint64_t left = (uint64_t)(io->size - pos);
        const int skip = size == 1 ? 16 : 8;
        size = size == 1 ? heif_take(&r, 8) : size == 0 ? left : size;
        if (r.ended || size < (uint64_t)skip || (size > left && type != want))
            return 0;
        *at = pos + skip;
        *n = (size < left ? size : left) - (uint64_t)skip;
        if (type == want)
            return 1;
        pos += (int64_t)size;
    }
    return 0;
}

static bool is_pictures(heif_span meta)
{
    heif_reader r;
    int version;
    uint32_t flags;
    return heif_find_full(meta, HEIF_TYPE('h', 'd', 'l', 'r'), &r, &version, &flags) &&
           (heif_take32(&r), heif_take32(&r)) == HEIF_TYPE('p', 'i', 'c', 't') && !r.ended;
}

static int find_primary(heif_file *f, vc_err *err)
{
    heif_reader r;
    int version;
    uint32_t flags;
    if (!heif_find_full(heif_meta(f), HEIF_TYPE('p', 'i', 't', 'm'), &r, &version, &flags))
        return heif_damaged(err, "pitm, which names the picture");
    f->primary = (uint32_t)heif_take(&r, version ? 4 : 2);
    return r.ended ? heif_damaged(err, "pitm") : 0;
}

static int read_meta(heif_file *f, media_io *io, int64_t at, uint64_t n, vc_err *err)
{
    if (n < 4 || n > MAX_META)
        return vc_fail(err, VC_EFORMAT, "damaged HEIF: the box meta has %llu bytes",
                       (unsigned long long)n);
    f->meta = malloc((size_t)n);
    if (!f->meta)
        return vc_no_memory(err);
    f->n = (size_t)n;
    if (media_io_at(io, f->meta, f->n, at) != (ssize_t)f->n)
        return vc_fail(err, VC_EFORMAT, "damaged HEIF: the box meta is cut");
    memmove(f->meta, f->meta + 4, f->n -= 4);       /* its version and flags */
    return 0;
}

int heif_open(heif_file *f, media_io *io, vc_err *err)
{
    uint8_t head[8];
    int64_t at;
    uint64_t n;
    *f = (heif_file){ .io = io };
    if (media_io_at(io, head, 8, 0) != 8 || memcmp(head + 4, "ftyp", 4) ||
        find_top(io, HEIF_TYPE('m', 'o', 'o', 'v'), &at, &n) ||
        !find_top(io, HEIF_TYPE('m', 'e', 't', 'a'), &at, &n))
        return MEDIA_NOT_MINE;
    int rc = read_meta(f, io, at, n, err);
    if (!rc && !is_pictures(heif_meta(f)))
        return MEDIA_NOT_MINE;
    return rc ? rc : find_primary(f, err);
}

void heif_close(heif_file *f)
{
    free(f->meta);
    f->meta = NULL;
}

/* ---- items ---- */

int heif_type(const heif_file *f, uint32_t item, uint32_t *type, vc_err *err)
{
    heif_reader r, body;
    int version;
    uint32_t flags, box;
    if (!heif_find_full(heif_meta(f), HEIF_TYPE('i', 'i', 'n', 'f'), &r, &version, &flags))
        return heif_damaged(err, "iinf, the list of items");
    heif_take(&r, version ? 4 : 2);
    for (int i = 0; i < HEIF_MAX_ITEMS && heif_next_box(&r, &box, &body); i++) {
        const uint32_t v = heif_take32(&body) >> 24;
        if (box != HEIF_TYPE('i', 'n', 'f', 'e') || v < 2)
            continue;
        const uint32_t id = (uint32_t)heif_take(&body, v == 2 ? 2 : 4);
        heif_take(&body, 2);
        *type = heif_take32(&body);
        if (id == item && !body.ended)
            return 0;
    }
    return vc_fail(err, VC_EFORMAT, "damaged HEIF: no item %u", item);
}

/* The place of an item's bytes: r stands at its extents. */
typedef struct place {
    heif_reader r;
    int method;
    uint64_t base;
    unsigned extents;
    size_t index_size, offset_size, length_size;
} place;

static void take_extent(place *l, uint64_t *offset, uint64_t *length)
{
    heif_take(&l->r, l->index_size);
    *offset = heif_take(&l->r, l->offset_size);
    *length = heif_take(&l->r, l->length_size);
}

static int find_place(const heif_file *f, uint32_t item, place *l, vc_err *err)
{
    int version;
    uint32_t flags;
    if (!heif_find_full(heif_meta(f), HEIF_TYPE('i', 'l', 'o', 'c'), &l->r, &version, &flags))
        return heif_damaged(err, "iloc, the places of items");
    const unsigned sizes = (unsigned)heif_take(&l->r, 2);
    const size_t base_size = sizes >> 4 & 15;
    l->offset_size = sizes >> 12;
    l->length_size = sizes >> 8 & 15;
    l->index_size = version ? sizes & 15 : 0;
    if (l->offset_size > 8 || l->length_size > 8 || base_size > 8 || l->index_size > 8)
        return heif_damaged(err, "iloc");
    const uint64_t items = heif_take(&l->r, version < 2 ? 2 : 4);
    for (uint64_t i = 0; i < items && i < HEIF_MAX_ITEMS && !l->r.ended; i++) {
        const uint32_t id = (uint32_t)heif_take(&l->r, version < 2 ? 2 : 4);
        l->method = version ? (int)heif_take(&l->r, 2) & 15 : IN_FILE;
        const bool elsewhere = heif_take(&l->r, 2) != 0;
        l->base = heif_take(&l->r, base_size);
        l->extents = (unsigned)heif_take(&l->r, 2);
        if (id == item && !l->r.ended)
            return elsewhere ? vc_fail(err, VC_EFORMAT, "HEIF whose pictures are in another file")
                             : 0;
        heif_skip(&l->r, l->extents * (l->index_size + l->offset_size + l->length_size));
    }
    return vc_fail(err, VC_EFORMAT, "damaged HEIF: item %u has no place", item);
}

/* Copies a part of the file, or of the box idat. to NULL: only checks it. */
static bool copy_extent(const heif_file *f, int method, uint8_t *to, uint64_t at, uint64_t n)
{
    heif_reader idat = { 0 };
    if (method == IN_IDAT && !heif_find_box(heif_meta(f), HEIF_TYPE('i', 'd', 'a', 't'), &idat))
        return false;
    const uint64_t size = method == IN_IDAT ? idat.s.n : (uint64_t)f->io->size;
    if (at > size || n > size - at)
        return false;
    if (to && method == IN_IDAT)
        memcpy(to, idat.s.p + at, (size_t)n);
    else if (to)
        return media_io_at(f->io, to, (size_t)n, (int64_t)at) == (ssize_t)n;
    return true;
}

/* The size of an item, or its bytes. */
static int walk_extents(const heif_file *f, place l, uint8_t *to, uint64_t *n)
{
    *n = 0;
    for (unsigned i = 0; i < l.extents; i++) {
        uint64_t offset, length, at;
        take_extent(&l, &offset, &length);
        if (l.r.ended || __builtin_add_overflow(l.base, offset, &at))
            return -1;
        if (!l.length_size && !length && l.method == IN_FILE && at < (uint64_t)f->io->size)
            length = (uint64_t)f->io->size - at;
        if (!copy_extent(f, l.method, to ? to + *n : NULL, at, length) ||
            (*n += length) > (uint64_t)f->io->size || *n > MAX_DATA)
            return -1;
    }
    return 0;
}

int heif_data(const heif_file *f, uint32_t item, size_t room, uint8_t **data, size_t *n,
              vc_err *err)
{
    place l = { 0 };
    uint64_t size;
    *data = NULL;
    int rc = find_place(f, item, &l, err);
    if (rc)
        return rc;
    if (l.method > IN_IDAT)
        return vc_fail(err, VC_EFORMAT, "HEIF whose items have construction method %d", l.method);
    if (walk_extents(f, l, NULL, &size) || !size)
        return vc_fail(err, VC_EFORMAT, "damaged HEIF: item %u lies outside of the file", item);
    *data = calloc(1, (size_t)size + room);
    if (!*data)
        return vc_fail(err, VC_ENOMEM, "out of memory for %zu bytes", (size_t)size);
    *n = (size_t)size;
    if (walk_extents(f, l, *data, &size)) {
        free(*data);
        *data = NULL;
        return vc_fail(err, VC_EFORMAT, "damaged HEIF: item %u cannot be read", item);
    }
    return 0;
}

/* ---- references ---- */

bool heif_references_open(heif_references *f, const heif_file *file)
{
    uint32_t flags;
    *f = (heif_references){ .left = HEIF_MAX_ITEMS };
    return heif_find_full(heif_meta(file), HEIF_TYPE('i', 'r', 'e', 'f'), &f->iref, &f->version,
                          &flags);
}

bool heif_references_next(heif_references *f, uint32_t type)
{
    uint32_t is;
    heif_reader r;
    while (f->left-- > 0 && heif_next_box(&f->iref, &is, &r)) {
        if (is != type)
            continue;
        f->to = r;
        f->from = heif_reference(f);
        f->n = (unsigned)heif_take(&f->to, 2);
        return !f->to.ended;
    }
    return false;
}

uint32_t heif_reference(heif_references *f)
{
    return (uint32_t)heif_take(&f->to, f->version ? 4 : 2);
}

int heif_sources(const heif_file *f, uint32_t item, uint32_t source[HEIF_MAX_TILES], int *n,
                 vc_err *err)
{
    heif_references all;
    *n = 0;
    if (heif_references_open(&all, f))
        while (heif_references_next(&all, HEIF_TYPE('d', 'i', 'm', 'g')))
            if (all.from == item) {
                for (unsigned i = 0; i < all.n && *n < HEIF_MAX_TILES; i++)
                    source[(*n)++] = heif_reference(&all);
                return all.to.ended ? heif_damaged(err, "iref") : 0;
            }
    return vc_fail(err, VC_EFORMAT, "damaged HEIF: item %u has no parts", item);
}
