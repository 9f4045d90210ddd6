/* heif_file.c - see heif_file.h */
#include "tests/precompute/media/heif_file.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/precompute/media/media_clip.h"

void heif_put(heif_bytes *b, const void *p, size_t n)
{
    while (b->n + n > b->room) {
        b->room = b->room ? 2 * b->room : 256;
        b->p = realloc(b->p, b->room);
    }
    if (n)
        memcpy(b->p + b->n, p, n);
    b->n += n;
}

void heif_put_int(heif_bytes *b, uint64_t v, int bytes)
{
    for (int i = bytes - 1; i >= 0; i--)
        heif_put(b, &(uint8_t){ (uint8_t)(v >> 8 * i) }, 1);
}

size_t heif_begin(heif_bytes *b, const char *type)
{
    const size_t at = b->n;
    heif_put_int(b, 0, 4);
    heif_put(b, type, 4);
    return at;
}

void heif_end(heif_bytes *b, size_t place)
{
    const size_t n = b->n - place;
    for (int i = 0; i < 4; i++)
        b->p[place + (size_t)i] = (uint8_t)(n >> (24 - 8 * i));
}

static size_t begin_full(heif_bytes *b, const char *type, uint32_t version_flags)
{
    const size_t at = heif_begin(b, type);
    heif_put_int(b, version_flags, 4);
    return at;
}

void heif_add(heif_item *it, const char *type, const void *body, size_t n)
{
    int i = 0;
    while (it->property[i].n)
        i++;
    const size_t at = heif_begin(&it->property[i], type);
    heif_put(&it->property[i], body, n);
    heif_end(&it->property[i], at);
}

void heif_describe(heif_item *it, const heif_coded *c, int w, int h)
{
    heif_bytes size = { 0 };
    heif_put_int(&size, 0, 4);
    heif_put_int(&size, (uint64_t)w, 4);
    heif_put_int(&size, (uint64_t)h, 4);
    it->property[0] = (heif_bytes){ 0 };
    if (c)
        heif_put(&it->property[0], c->config.p, c->config.n);
    heif_add(it, "ispe", size.p, size.n);
    free(size.p);
}

/* The box of a type that a file has, wherever it lies. */
static heif_bytes find(const uint8_t *p, size_t n, const char *type)
{
    heif_bytes b = { 0 };
    for (size_t i = 4; i + 4 < n; i++)
        if (!memcmp(p + i, type, 4)) {
            size_t size = (size_t)p[i - 4] << 24 | (size_t)p[i - 3] << 16 | (size_t)p[i - 2] << 8 |
                          p[i - 1];
            heif_put(&b, p + i - 4, size);
            return b;
        }
    fail_msg("no box %s", type);
    return b;
}

heif_coded heif_code(const char *png, const char *encoder, const char *config)
{
    const bool av1 = !strcmp(encoder, "libaom-av1");
    char cmd[1024];
    size_t n;
    snprintf(cmd, sizeof cmd, "ffmpeg -nostdin -v error -y -i '%s' -frames:v 1 -c:v %s %s "
             "-vf scale=out_range=pc:out_color_matrix=bt709:flags=accurate_rnd,format=yuv420p,"
             "setparams=range=pc:colorspace=bt709 -f mp4 '%s'", png, encoder,
             av1 ? "-crf 4 -cpu-used 8" : "-x265-params lossless=1:log-level=0 -tag:v hvc1",
             clip_path("coded.mp4"));
    assert_int_equal(system(cmd), 0);
    uint8_t *p = clip_load(clip_path("coded.mp4"), &n);
    heif_coded c = { .config = find(p, n, config), .sample = find(p, n, "mdat") };
    c.sample.n -= 8;
    memmove(c.sample.p, c.sample.p + 8, c.sample.n);
    free(p);
    return c;
}

/* ---- the file ---- */

static void put_references(heif_bytes *b, const heif_item *items, int n)
{
    const size_t iref = begin_full(b, "iref", 0);
    for (int i = 0; i < n; i++) {
        int parts = 0;
        while (parts < HEIF_PARTS && items[i].part[parts])
            parts++;
        if (!parts && !items[i].of)
            continue;
        const size_t box = heif_begin(b, items[i].of ? "auxl" : "dimg");
        heif_put_int(b, (uint64_t)i + 1, 2);
        heif_put_int(b, items[i].of ? 1 : (uint64_t)parts, 2);
        if (items[i].of)
            heif_put_int(b, (uint64_t)items[i].of, 2);
        for (int k = 0; k < parts && !items[i].of; k++)
            heif_put_int(b, (uint64_t)items[i].part[k], 2);
        heif_end(b, box);
    }
    heif_end(b, iref);
}

static void put_properties(heif_bytes *b, const heif_item *items, int n)
{
    const size_t iprp = heif_begin(b, "iprp"), ipco = heif_begin(b, "ipco");
    for (int i = 0; i < n; i++)
        for (int k = 0; k < HEIF_PROPERTIES; k++)
            heif_put(b, items[i].property[k].p, items[i].property[k].n);
    heif_end(b, ipco);
    const size_t ipma = begin_full(b, "ipma", 0);
    heif_put_int(b, (uint64_t)n, 4);
    for (int i = 0, index = 1; i < n; i++) {
        int count = 0;
        while (count < HEIF_PROPERTIES && items[i].property[count].n)
            count++;
        heif_put_int(b, (uint64_t)i + 1, 2);
        heif_put_int(b, (uint64_t)count, 1);
        for (int k = 0; k < count; k++)
            heif_put_int(b, 0x80u | (unsigned)index++, 1);
    }
    heif_end(b, ipma);
    heif_end(b, iprp);
}

/* Items that are made of others lie in the box idat, the others behind the box mdat's head. */
static void put_places(heif_bytes *b, const heif_item *items, int n, size_t mdat)
{
    const size_t iloc = begin_full(b, "iloc", 1u << 24);
    size_t at[2] = { mdat, 0 };
    heif_put_int(b, 0x4400, 2);
    heif_put_int(b, (uint64_t)n, 2);
    for (int i = 0; i < n; i++) {
        const int in_idat = items[i].part[0] != 0;
        heif_put_int(b, (uint64_t)i + 1, 2);
        heif_put_int(b, (uint64_t)in_idat, 2);
        heif_put_int(b, 0, 2);
        heif_put_int(b, 1, 2);
        heif_put_int(b, at[in_idat], 4);
        heif_put_int(b, items[i].data.n, 4);
        at[in_idat] += items[i].data.n;
    }
    heif_end(b, iloc);
}

static void put_meta(heif_bytes *b, const heif_item *items, int n, size_t mdat)
{
    const size_t meta = begin_full(b, "meta", 0), hdlr = begin_full(b, "hdlr", 0);
    heif_put(b, "\0\0\0\0pict\0\0\0\0\0\0\0\0\0\0\0\0", 21);
    heif_end(b, hdlr);
    const size_t pitm = begin_full(b, "pitm", 0);
    heif_put_int(b, 1, 2);
    heif_end(b, pitm);
    const size_t iinf = begin_full(b, "iinf", 0);
    heif_put_int(b, (uint64_t)n, 2);
    for (int i = 0; i < n; i++) {
        const size_t infe = begin_full(b, "infe", 2u << 24);
        heif_put_int(b, (uint64_t)i + 1, 2);
        heif_put_int(b, 0, 2);
        heif_put(b, items[i].type, 4);
        heif_put_int(b, 0, 1);
        heif_end(b, infe);
    }
    heif_end(b, iinf);
    put_places(b, items, n, mdat);
    put_references(b, items, n);
    put_properties(b, items, n);
    const size_t idat = heif_begin(b, "idat");
    for (int i = 0; i < n; i++)
        if (items[i].part[0])
            heif_put(b, items[i].data.p, items[i].data.n);
    heif_end(b, idat);
    heif_end(b, meta);
}

heif_bytes heif_file_of(const char *brand, const heif_item *items, int n)
{
    heif_bytes b = { 0 };
    size_t mdat = 0;
    for (int pass = 0; pass < 2; pass++) {          /* the second one knows where mdat begins */
        b.n = 0;
        const size_t ftyp = heif_begin(&b, "ftyp");
        heif_put(&b, brand, 4);
        heif_put_int(&b, 0, 4);
        heif_put(&b, "mif1", 4);
        heif_put(&b, brand, 4);
        heif_end(&b, ftyp);
        put_meta(&b, items, n, mdat);
        const size_t box = heif_begin(&b, "mdat");
        mdat = b.n;
        for (int i = 0; i < n; i++)
            if (!items[i].part[0])
                heif_put(&b, items[i].data.p, items[i].data.n);
        heif_end(&b, box);
    }
    return b;
}
