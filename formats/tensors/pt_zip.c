/* pt_zip.c - finds the members of a .pt or .npz file by the zip's central directory; see
 * pt_parts.h.
 *
 * torch.save and np.savez store their members uncompressed, so that a member is a range of the
 * file's bytes. The offsets of files beyond 4 GiB are in the fields that zip64 adds. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "formats/tensors/pt_parts.h"

enum { MAX_MEMBERS = 1 << 20 };
enum { END = 22, END64 = 56, LOCATOR = 20, ENTRY = 46, LOCAL = 30 };     /* bytes of records */

typedef struct zip {
    const uint8_t *data;
    size_t size, left;                       /* left: bytes that the members not found yet may have
                                              * together, so that no file makes the reader hang */
} zip;

static uint64_t number(const uint8_t *p, int bytes)
{
    uint64_t x = 0;
    for (int i = bytes; i-- > 0;)
        x = x << 8 | p[i];
    return x;
}

/* The record of `bytes` bytes at `at`, which begins with PK and these two bytes; NULL: the file has
 * no such record there. */
static const uint8_t *record(const zip *z, uint64_t at, size_t bytes, const char *mark)
{
    if (at > z->size || z->size - at < bytes)
        return NULL;
    const uint8_t *p = z->data + at;
    return memcmp(p, "PK", 2) || memcmp(p + 2, mark, 2) ? NULL : p;
}

/* Finds the directory: its offset and its number of entries. A comment may follow the record at the
 * end of the file. */
static bool find_directory(const zip *z, uint64_t *at, uint64_t *entries)
{
    const uint8_t *end = NULL, *more = NULL;
    for (size_t back = END; !end && back <= z->size && back < END + 65536; back++)
        end = record(z, z->size - back, END, "\5\6");
    if (!end)
        return false;
    *entries = number(end + 10, 2);
    *at = number(end + 16, 4);
    size_t before = (size_t)(end - z->data);
    if (before >= LOCATOR)
        more = record(z, before - LOCATOR, LOCATOR, "\6\7");
    if (more && (more = record(z, number(more + 8, 8), END64, "\6\6"))) {
        *entries = number(more + 32, 8);
        *at = number(more + 48, 8);
    }
    return true;
}

typedef struct entry {
    const uint8_t *name;
    size_t name_size;
    uint64_t size, packed, at;               /* bytes of the content, of the content as it is
                                              * stored, and the offset of the local record */
    uint32_t crc;
    int method;
} entry;

/* Reads the 64-bit fields that stand in for fields of 32 bits whose bits are all set. */
static void read_extra(entry *e, const uint8_t *p, size_t n)
{
    uint64_t *const field[] = { &e->size, &e->packed, &e->at };
    while (n >= 4 && number(p + 2, 2) <= n - 4) {
        size_t size = (size_t)number(p + 2, 2), from = 4;
        for (int i = 0; number(p, 2) == 1 && i < 3; i++)
            if (*field[i] == UINT32_MAX && from + 8 <= size + 4) {
                *field[i] = number(p + from, 8);
                from += 8;
            }
        p += size + 4;
        n -= size + 4;
    }
}

/* Reads the entry at *at and moves *at behind it. */
static bool read_entry(entry *e, const zip *z, uint64_t *at)
{
    const uint8_t *p = record(z, *at, ENTRY, "\1\2");
    if (!p)
        return false;
    size_t name = (size_t)number(p + 28, 2), extra = (size_t)number(p + 30, 2);
    size_t all = ENTRY + name + extra + (size_t)number(p + 32, 2);
    if (z->size - *at < all)
        return false;
    *e = (entry){ .name = p + ENTRY, .name_size = name, .method = (int)number(p + 10, 2),
                  .crc = (uint32_t)number(p + 16, 4), .packed = number(p + 20, 4),
                  .size = number(p + 24, 4), .at = number(p + 42, 4) };
    read_extra(e, p + ENTRY + name, extra);
    *at += all;
    return true;
}

/* CRC-32 of IEEE 802.3, which zip has. */
static uint32_t crc_of(const uint8_t *data, size_t n)
{
    uint32_t table[256], crc = ~0u;
    for (uint32_t i = 0; i < 256; i++) {
        table[i] = i;
        for (int k = 0; k < 8; k++)
            table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xedb88320u : 0);
    }
    for (size_t i = 0; i < n; i++)
        crc = crc >> 8 ^ table[(crc ^ data[i]) & 255];
    return ~crc;
}

static int add_member(vf_pt *p, const entry *e, const uint8_t *data, vc_err *err)
{
    const uint8_t *slash = memchr(e->name, '/', e->name_size);
    if (!slash && !p->numpy)
        return 0;                            /* the entry is no member that PyTorch writes */
    if (p->n_members == MAX_MEMBERS)
        return vc_fail(err, VC_EFORMAT, "more than %d members", MAX_MEMBERS);
    if (!(p->n_members & (p->n_members - 1))) {
        size_t room = p->n_members ? 2 * p->n_members : 1;
        vf_pt_member *more = realloc(p->member, room * sizeof *more);
        if (!more)
            return vc_no_memory(err);
        p->member = more;
    }
    size_t folder = p->numpy ? 0 : (size_t)(slash + 1 - e->name);
    char *name = strndup((const char *)e->name + folder, e->name_size - folder);
    if (!name)
        return vc_no_memory(err);
    p->member[p->n_members++] = (vf_pt_member){ name, data, (size_t)e->size };
    return 0;
}

/* Finds the content of an entry behind its local record, whose extra field has a length of its
 * own, and adds the member. */
static int take(vf_pt *p, zip *z, const entry *e, bool check, vc_err *err)
{
    const char *name = (const char *)e->name;
    int n = e->name_size < 100 ? (int)e->name_size : 100;
    const uint8_t *local = record(z, e->at, LOCAL, "\3\4");
    if (e->method || e->packed != e->size)
        return vc_fail(err, VC_EFORMAT, "%.*s: compressed, but %s compresses nothing", n, name,
                       p->numpy ? "np.savez" : "PyTorch");
    uint64_t from = local ? e->at + LOCAL + number(local + 26, 2) + number(local + 28, 2) : 0;
    if (!local || from > z->size || z->size - from < e->size || e->size > z->left)
        return vc_fail(err, VC_EFORMAT, "%.*s: cut short", n, name);
    z->left -= (size_t)e->size;
    if (check && crc_of(z->data + from, (size_t)e->size) != e->crc)
        return vc_fail(err, VC_EFORMAT, "%.*s: its checksum differs: the file is damaged", n,
                       name);
    return add_member(p, e, z->data + from, err);
}

int vf_pt_zip(vf_pt *p, const void *data, size_t size, bool check, vc_err *err)
{
    zip z = { data, size, size };
    uint64_t at, entries;
    int rc = 0;
    if (size < 4 || memcmp(data, "PK\3\4", 4))
        return vc_fail(err, VC_EFORMAT, "%s", p->numpy ? "no zip of np.savez" :
                       "no zip of torch.save: if PyTorch before 1.6 wrote the file, load and save "
                       "the file with a newer PyTorch");
    if (!find_directory(&z, &at, &entries))
        return vc_fail(err, VC_EFORMAT, "the zip has no directory: cut short");
    for (uint64_t i = 0; !rc && i < entries; i++) {
        entry e;
        rc = read_entry(&e, &z, &at) ? take(p, &z, &e, check, err)
                                     : vc_fail(err, VC_EFORMAT, "entry %llu of the zip's "
                                               "directory is damaged", (unsigned long long)i);
    }
    return rc;
}
