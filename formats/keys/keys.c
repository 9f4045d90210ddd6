/* keys.c - content keys: 128-bit hashes of bytes, files and lists of named fields. See keys.h */
#include "formats/keys/keys.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#define XXH_STATIC_LINKING_ONLY                  /* allows a hash state on the stack */
#include <xxhash.h>

enum { BLOCK = 128 << 10 };          /* bytes per read of a file; they stay in a core's cache */

static vf_key key_of(XXH128_hash_t h)
{
    XXH128_canonical_t c;
    vf_key k;
    XXH128_canonicalFromHash(&c, h);
    memcpy(k.b, c.digest, sizeof k.b);
    return k;
}

char *vf_key_hex(char buf[VF_KEY_HEX], vf_key k)
{
    static const char digit[] = "0123456789abcdef";
    for (int i = 0; i < 16; i++) {
        buf[2 * i] = digit[k.b[i] >> 4];
        buf[2 * i + 1] = digit[k.b[i] & 15];
    }
    buf[32] = 0;
    return buf;
}

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool vf_key_parse_n(vf_key *k, const char *hex, size_t n)
{
    *k = (vf_key){ { 0 } };
    if (n != 32)
        return false;
    for (size_t i = 0; i < 16; i++) {
        int hi = digit_value(hex[2 * i]), lo = digit_value(hex[2 * i + 1]);
        if (hi < 0 || lo < 0)
            return false;
        k->b[i] = (uint8_t)(hi << 4 | lo);
    }
    return true;
}

bool vf_key_parse(vf_key *k, const char *hex)
{
    return vf_key_parse_n(k, hex, strnlen(hex, 33));
}

vf_key vf_hash(const void *data, size_t n)
{
    return key_of(XXH3_128bits(n ? data : "", n));
}

vf_key vf_hash2(const void *a, size_t na, const void *b, size_t nb)
{
    uint8_t joined[1024];
    if (na <= sizeof joined && nb <= sizeof joined - na) {   /* a state costs more than a copy */
        if (na)
            memcpy(joined, a, na);
        if (nb)
            memcpy(joined + na, b, nb);
        return vf_hash(joined, na + nb);
    }
    XXH3_state_t s;
    XXH3_128bits_reset(&s);
    if (na)
        XXH3_128bits_update(&s, a, na);
    if (nb)
        XXH3_128bits_update(&s, b, nb);
    return key_of(XXH3_128bits_digest(&s));
}

/* ---- lists of fields ---- */

_Static_assert(sizeof(XXH3_state_t) <= sizeof((vf_hasher *)0)->state,
               "vf_hasher.state is too small");

static XXH3_state_t *state_of(vf_hasher *h)
{
    return (XXH3_state_t *)(void *)h->state;
}

void vf_hasher_begin(vf_hasher *h, const char *kind)
{
    XXH3_128bits_reset(state_of(h));
    XXH3_128bits_update(state_of(h), kind, strlen(kind) + 1);
}

void vf_hasher_bytes(vf_hasher *h, const char *field, const void *p, size_t n)
{
    uint8_t size[8];
    for (int i = 0; i < 8; i++)
        size[i] = (uint8_t)((uint64_t)n >> 8 * i);
    XXH3_128bits_update(state_of(h), field, strlen(field) + 1);
    XXH3_128bits_update(state_of(h), size, sizeof size);
    if (n)
        XXH3_128bits_update(state_of(h), p, n);
}

void vf_hasher_str(vf_hasher *h, const char *field, const char *s)
{
    vf_hasher_bytes(h, field, s, strlen(s));
}

void vf_hasher_int(vf_hasher *h, const char *field, int64_t v)
{
    uint8_t b[8];
    for (int i = 0; i < 8; i++)
        b[i] = (uint8_t)((uint64_t)v >> 8 * i);
    vf_hasher_bytes(h, field, b, sizeof b);
}

vf_key vf_hasher_end(vf_hasher *h)
{
    return key_of(XXH3_128bits_digest(state_of(h)));
}

void vf_hasher_plain(vf_hasher *h)
{
    XXH3_128bits_reset(state_of(h));
}

void vf_hasher_add(vf_hasher *h, const void *p, size_t n)
{
    if (n)
        XXH3_128bits_update(state_of(h), p, n);
}

/* ---- files ---- */

static int hash_blocks(XXH3_state_t *s, int fd, uint8_t *buf, const char *path, int64_t size,
                       const atomic_int *stop, vc_err *err)
{
    int64_t left = size ? size : INT64_MAX;

    while (left > 0) {
        if (stop && *stop)
            return vc_fail(err, VC_ESTOP, "%s: stopped", path);
        ssize_t n = read(fd, buf, left < BLOCK ? (size_t)left : BLOCK);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return vc_fail_errno(err, "%s", path);
        if (n == 0 && size)
            return vc_fail(err, VC_EFORMAT, "%s: ends %" PRId64 " bytes too early", path, left);
        if (n == 0)
            return 0;
        XXH3_128bits_update(s, buf, (size_t)n);
        left -= n;
    }
    return 0;
}

int vf_hash_file(vf_key *k, const char *path, const atomic_int *stop, vc_err *err)
{
    return vf_hash_part(k, &(vf_part){ .name = path, .file = path }, stop, err);
}

int vf_hash_part(vf_key *k, const vf_part *part, const atomic_int *stop, vc_err *err)
{
    const char *path = part->name;
    *k = (vf_key){ { 0 } };

    /* With O_NONBLOCK a FIFO named in hostile metadata cannot hang open(). */
    int fd = open(part->file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return vc_fail_errno(err, "%s", path);

    struct stat st;
    int rc = 0;
    XXH3_state_t *s = XXH3_createState();
    uint8_t *buf = malloc(BLOCK);
    if (!s || !buf)
        rc = vc_fail(err, VC_ENOMEM, "%s: out of memory", path);
    else if (fstat(fd, &st))
        rc = vc_fail_errno(err, "%s", path);
    else if (!S_ISREG(st.st_mode))
        rc = vc_fail(err, VC_EFORMAT, "%s: not a regular file", path);
    else if (part->at && lseek(fd, part->at, SEEK_SET) < 0)
        rc = vc_fail_errno(err, "%s", path);
    if (!rc) {
        posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
        XXH3_128bits_reset(s);
        rc = hash_blocks(s, fd, buf, path, part->size, stop, err);
    }
    if (!rc)
        *k = key_of(XXH3_128bits_digest(s));
    free(buf);
    XXH3_freeState(s);
    close(fd);
    return rc;
}
