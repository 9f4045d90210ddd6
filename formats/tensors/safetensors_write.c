/* safetensors_write.c - writes safetensors files; see safetensors.h */
#include "formats/tensors/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "common/base/buf.h"
#include "common/base/utf8.h"
#include "common/os/file.h"
#include "common/os/temp.h"
#include "formats/tensors/sums.h"

/* The seal's place in the header before the seal is computed. */
#define UNSEALED "\"" VF_SEAL "\":\"00000000000000000000000000000000\""

/* Returns the type's rank in the order of the data. Data is sorted by the reference's order of
 * types, from the last to the first, then by name, so that every tensor is aligned to its
 * element. */
static int rank_of(vc_dtype t)
{
    static const int rank[VC_FILE_DTYPES] = {
        [VC_BOOL] = 0, [VC_U8] = 1, [VC_I8] = 2, [VC_F8E5M2] = 3, [VC_F8E4M3] = 4, [VC_I16] = 5,
        [VC_F16] = 6, [VC_BF16] = 7, [VC_I32] = 8, [VC_F32] = 9, [VC_F64] = 10, [VC_I64] = 11,
    };
    return rank[t];
}

static int by_layout(const void *pa, const void *pb)
{
    const vf_view *a = *(const vf_view *const *)pa, *b = *(const vf_view *const *)pb;
    int ra = rank_of(a->dtype), rb = rank_of(b->dtype);
    return ra != rb ? (ra < rb) - (ra > rb) : strcmp(a->name, b->name);
}

static int by_name(const void *pa, const void *pb)
{
    return strcmp((*(const vf_view *const *)pa)->name, (*(const vf_view *const *)pb)->name);
}

static bool utf8(const char *s)
{
    size_t n = strlen(s);
    return vc_utf8_prefix(s, n) == n;
}

static int check_view(const vf_view *v, vc_err *err)
{
    if (!v->name || !strcmp(v->name, "__metadata__") || !utf8(v->name))
        return vc_fail(err, VC_EINVAL, "a tensor's name is not allowed");
    if (v->dtype < 0 || v->dtype >= VC_FILE_DTYPES || v->nd < 0 || v->nd > VF_MAX_DIMS)
        return vc_fail(err, VC_EINVAL, "tensor %s: type or number of dimensions is not allowed",
                       v->name);

    size_t bytes = vc_dtype_size(v->dtype);
    for (int i = 0; i < v->nd; i++)
        if (v->dim[i] < 0 || __builtin_mul_overflow(bytes, (size_t)v->dim[i], &bytes))
            return vc_fail(err, VC_EINVAL, "tensor %s: the shape is negative or too large",
                           v->name);
    if (bytes != v->bytes)
        return vc_fail(err, VC_EINVAL, "tensor %s: shape needs %zu bytes, given %zu", v->name,
                       bytes, v->bytes);
    return 0;
}

/* Checks the tensors and sets *out to pointers to them in the order of their data. */
static int order_views(const vf_view ***out, const vf_view *tensors, int n, vc_err *err)
{
    const vf_view **order = malloc(((size_t)n + 1) * sizeof *order);
    if (!order)
        return vc_fail(err, VC_ENOMEM, "out of memory for %d tensors", n);

    int rc = 0;
    for (int i = 0; i < n && !rc; i++) {
        order[i] = &tensors[i];
        rc = check_view(order[i], err);
    }
    if (!rc)
        qsort(order, (size_t)n, sizeof *order, by_name);
    for (int i = 1; i < n && !rc; i++)
        if (!by_name(&order[i - 1], &order[i]))
            rc = vc_fail(err, VC_EINVAL, "tensor %s is given twice", order[i]->name);
    if (rc) {
        free(order);
        return rc;
    }
    qsort(order, (size_t)n, sizeof *order, by_layout);
    *out = order;
    return 0;
}

static int check_meta(const vf_meta *meta, int n, bool with_xxh3, vc_err *err)
{
    for (int i = 0; i < n; i++) {
        bool twice = with_xxh3 && !strcmp(meta[i].key, "xxh3");
        for (int j = 0; j < i; j++)
            twice |= !strcmp(meta[i].key, meta[j].key);
        if (twice || !utf8(meta[i].key) || !utf8(meta[i].value))
            return vc_fail(err, VC_EINVAL, "__metadata__: %.100s: %s", meta[i].key,
                           twice ? "given twice" : "not UTF-8");
    }
    return 0;
}

static void put_pair(vc_buf *b, bool first, const char *key, const char *value)
{
    vc_buf_str(b, first ? "" : ",");
    vc_buf_json(b, key, strlen(key));
    vc_buf_str(b, ":");
    vc_buf_json(b, value, strlen(value));
}

static void put_metadata(vc_buf *b, const vf_meta *meta, int n, const char *xxh3)
{
    vc_buf_str(b, "\"__metadata__\":{");
    for (int i = 0; i < n; i++)
        put_pair(b, i == 0, meta[i].key, meta[i].value);
    if (xxh3)
        put_pair(b, n == 0, "xxh3", xxh3);
    vc_buf_str(b, "}");
}

static void put_tensor(vc_buf *b, const vf_view *v, size_t from)
{
    vc_buf_json(b, v->name, strlen(v->name));
    vc_buf_printf(b, ":{\"dtype\":\"%s\",\"shape\":[", vc_dtype_st_name(v->dtype));
    for (int i = 0; i < v->nd; i++)
        vc_buf_printf(b, "%s%" PRId64, i ? "," : "", v->dim[i]);
    vc_buf_printf(b, "],\"data_offsets\":[%zu,%zu]}", from, from + v->bytes);
}

/* Writes length and header, padded with blanks so that the data begins at a multiple of 8. */
static int put_header(vc_buf *b, const vf_view **order, int n, const vf_meta *meta, int n_meta,
                      const char *xxh3, vc_err *err)
{
    size_t at = 0;
    vc_buf_add(b, "\0\0\0\0\0\0\0\0{", 9);
    if (n_meta || xxh3)
        put_metadata(b, meta, n_meta, xxh3);
    for (int i = 0; i < n; i++) {
        if (i || n_meta || xxh3)
            vc_buf_str(b, ",");
        put_tensor(b, order[i], at);
        if (__builtin_add_overflow(at, order[i]->bytes, &at))
            return vc_fail(err, VC_EINVAL, "tensors too large");
    }
    vc_buf_str(b, "}");
    while (b->n % 8 && !b->failed)
        vc_buf_str(b, " ");
    if (b->failed)
        return vc_fail(err, VC_ENOMEM, "out of memory for a header of %d tensors", n);
    for (int i = 0; i < 8; i++)
        b->data[i] = (char)((uint64_t)(b->n - 8) >> 8 * i);
    return 0;
}

static void hash_data(char hex[VF_KEY_HEX], const vf_view **order, int n)
{
    vf_hasher h;
    vf_hasher_plain(&h);
    for (int i = 0; i < n; i++)
        vf_hasher_add(&h, order[i]->data, order[i]->bytes);
    vf_key_hex(hex, vf_hasher_end(&h));
}

int vf_safetensors_pack(uint8_t **out, size_t *size, const vf_view *tensors, int n,
                        const vf_meta *meta, int n_meta, int with_xxh3, vc_err *err)
{
    const vf_view **order = NULL;
    vc_buf b = { 0 };
    char hex[VF_KEY_HEX];
    *out = NULL;
    *size = 0;
    int rc = order_views(&order, tensors, n, err);
    if (!rc)
        rc = check_meta(meta, n_meta, with_xxh3, err);
    if (!rc && with_xxh3)
        hash_data(hex, order, n);
    if (!rc)
        rc = put_header(&b, order, n, meta, n_meta, with_xxh3 ? hex : NULL, err);
    for (int i = 0; i < n && !rc; i++)
        vc_buf_add(&b, order[i]->data, order[i]->bytes);
    if (!rc && b.failed)
        rc = vc_fail(err, VC_ENOMEM, "out of memory for %d tensors", n);
    free(order);
    if (rc) {
        vc_buf_free(&b);
        return rc;
    }
    *size = b.n;
    *out = (uint8_t *)vc_buf_take(&b);
    return *out ? 0 : vc_fail(err, VC_ENOMEM, "out of memory for %zu bytes", *size);
}

/* ---- writing to a file ---- */

enum { PIECE = 1 << 20 };                         /* bytes hashed and written while in the cache */

/* A file that is being written. */
typedef struct stream {
    const vf_view **order, *tensors;
    int n;
    const vf_feed *feed;
    vf_sums *sums;                                /* or NULL */
    vc_buf header;
    int fd;                                       /* -1: the bytes are only hashed */
    uint64_t bytes;
    bool hashed;                                  /* with `hash`, that of the file */
    vf_hasher hash;
    XXH3_state_t *tensor;                         /* hash of a tensor; or NULL */
} stream;

static int write_all(int fd, const void *data, size_t n)
{
    const char *p = data;
    while (n) {
        ssize_t w = write(fd, p, n);
        if (w < 0 && errno != EINTR)
            return -1;
        if (w > 0) {
            p += w;
            n -= (size_t)w;
        }
    }
    return 0;
}

static int put(stream *s, const void *data, size_t n, XXH3_state_t *tensor, vc_err *err)
{
    s->bytes += n;
    for (const char *p = data; n;) {
        size_t piece = n < PIECE ? n : PIECE;
        if (s->hashed)
            vf_hasher_add(&s->hash, p, piece);
        if (tensor)
            XXH3_64bits_update(tensor, p, piece);
        if (s->fd >= 0 && write_all(s->fd, p, piece)) {
            int rc = errno == EFAULT ? vc_map_touch(p, piece, err) : 0;
            return rc ? rc : vc_fail_errno(err, "cannot write");
        }
        p += piece;
        n -= piece;
    }
    return 0;
}

static int put_view(stream *s, int i, vc_err *err)
{
    const vf_view *v = s->order[i];
    const void *data = v->data;
    XXH3_state_t *tensor = s->sums && s->fd >= 0 ? s->tensor : NULL;
    int rc = s->feed ? s->feed->get(s->feed->arg, (int)(v - s->tensors), &data, err) : 0;
    if (!rc && tensor)
        XXH3_64bits_reset(tensor);
    if (!rc)
        rc = put(s, data, v->bytes, tensor, err);
    if (!rc && tensor)
        vf_sums_tensor(s->sums, v->name, XXH3_64bits_digest(tensor));
    return rc;
}

/* Writes or hashes header and data, in the file's order. */
static int put_all(stream *s, vc_err *err)
{
    s->bytes = 0;
    if (s->hashed)
        vf_hasher_plain(&s->hash);
    int rc = put(s, s->header.data, s->header.n, NULL, err);
    for (int i = 0; i < s->n && !rc; i++)
        rc = put_view(s, i, err);
    return rc;
}

/* Hashes the file with zeros in the seal's place and replaces the zeros by that sum. */
static int seal(stream *s, vc_err *err)
{
    char hex[VF_KEY_HEX], *at = memmem(s->header.data, s->header.n, UNSEALED, sizeof UNSEALED - 1);
    s->fd = -1;
    int rc = put_all(s, err);
    if (!rc)
        memcpy(at + sizeof UNSEALED - 1 - 33, vf_key_hex(hex, vf_hasher_end(&s->hash)), 32);
    return rc;
}

/* Writes a temporary file beside path and renames it, so that path is never half written. */
static int replace_file(const char *path, stream *s, vc_err *err)
{
    int fd;
    char *tmp, *dir = vc_format("%.*s", (int)(vc_path_base(path) - path), path);
    int rc = dir ? vc_temp_open(&fd, &tmp, path, err) : vc_no_memory(err);
    if (rc) {
        free(dir);
        return rc;
    }

    s->fd = fd;
    rc = put_all(s, err);
    if (!rc && fsync(fd))
        rc = vc_fail_errno(err, "cannot write");
    rc = vc_maps_check(rc, err);
    if (!rc && rename(tmp, path))
        rc = vc_fail_errno(err, "cannot rename");
    if (rc)
        unlink(tmp);
    if (close(fd) && !rc)
        rc = vc_fail_errno(err, "cannot write");
    if (!rc)
        rc = vc_sync_dir(*dir ? dir : ".", err);
    free(tmp);
    free(dir);
    return rc;
}

int vf_safetensors_write(const char *path, const vf_view *tensors, int n, const vf_meta *meta,
                         int n_meta, vc_err *err)
{
    return vf_safetensors_stream(path, tensors, n, meta, n_meta, NULL, false, NULL, err);
}

/* Writes the header with the seal's place as the last entry of __metadata__. */
static int put_sealed(stream *s, const vf_meta *meta, int n, vc_err *err)
{
    vf_meta *more = calloc((size_t)n + 1, sizeof *more);
    if (!more)
        return vc_no_memory(err);
    for (int i = 0; i < n; i++)
        more[i] = meta[i];
    more[n] = (vf_meta){ VF_SEAL, "00000000000000000000000000000000" };
    int rc = check_meta(more, n + 1, false, err);
    if (!rc)
        rc = put_header(&s->header, s->order, s->n, more, n + 1, NULL, err);
    free(more);
    return rc;
}

int vf_safetensors_stream(const char *path, const vf_view *tensors, int n, const vf_meta *meta,
                          int n_meta, const vf_feed *feed, bool sealed, vf_sums *sums, vc_err *err)
{
    stream s = { .tensors = tensors, .n = n, .feed = feed, .sums = sums, .fd = -1 };
    int rc = order_views(&s.order, tensors, n, err);
    if (!rc && (sealed || sums)) {
        s.hashed = true;
        s.tensor = XXH3_createState();
        if (!s.tensor)
            rc = vc_no_memory(err);
    }
    if (!rc && sealed)
        rc = put_sealed(&s, meta, n_meta, err);
    else if (!rc && !(rc = check_meta(meta, n_meta, false, err)))
        rc = put_header(&s.header, s.order, n, meta, n_meta, NULL, err);
    if (!rc && sealed)
        rc = seal(&s, err);
    if (!rc && sums)
        vf_sums_begin(sums, path);
    if (!rc)
        rc = replace_file(path, &s, err);
    if (!rc && sums)
        vf_sums_end(sums, s.bytes, vf_hasher_end(&s.hash));
    free(s.order);
    vc_buf_free(&s.header);
    XXH3_freeState(s.tensor);
    return vc_context(err, rc, "%s", path);
}
