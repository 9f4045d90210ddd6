/* tfevents.c - see tfevents.h. Field numbers are those of TensorFlow's event.proto and
 * summary.proto. */
#include "formats/report/tfevents.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/os/file.h"

enum { FLUSH_AT = 64 << 10 };

/* field number << 3 | wire type (0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes) */
enum {
    EVENT_WALL_TIME = 1 << 3 | 1, EVENT_STEP = 2 << 3 | 0, EVENT_FILE_VERSION = 3 << 3 | 2,
    EVENT_SUMMARY = 5 << 3 | 2, EVENT_SESSION_LOG = 7 << 3 | 2,
    SUMMARY_VALUE = 1 << 3 | 2, VALUE_TAG = 1 << 3 | 2, VALUE_SIMPLE = 2 << 3 | 5,
    SESSION_STATUS = 1 << 3 | 0, SESSION_START = 1
};

static const char prefix[] = "events.out.tfevents.";

struct vf_tfevents {
    int fd;
    char *path;
    vc_buf out;                  /* records that are not written yet */
};

uint32_t vf_crc32c(const void *data, size_t n)
{
    const uint8_t *p = data;
    uint32_t c = ~0u;

    /* bit by bit, as a record has only about 60 bytes */
    for (size_t i = 0; i < n; i++) {
        c ^= p[i];
        for (int k = 0; k < 8; k++)
            c = c >> 1 ^ (c & 1 ? 0x82f63b78u : 0);
    }
    return ~c;
}

/* ---- encoding ---- */

static void put_le(vc_buf *b, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        vc_buf_add(b, &(uint8_t){ (uint8_t)(v >> 8 * i) }, 1);
}

static void put_varint(vc_buf *b, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        put_le(b, (v & 0x7f) | 0x80, 1);
    put_le(b, v, 1);
}

static void put_bytes(vc_buf *b, int field, const void *p, size_t n)
{
    put_varint(b, (uint64_t)field);
    put_varint(b, n);
    vc_buf_add(b, p, n);
}

/* Adds the bytes of m to b as a field, and frees them. */
static void put_message(vc_buf *b, int field, vc_buf *m)
{
    put_bytes(b, field, m->data, m->n);
    b->failed |= m->failed;
    vc_buf_free(m);
}

static void put_event_head(vc_buf *b, int64_t step)
{
    struct timespec now;
    uint64_t bits;

    clock_gettime(CLOCK_REALTIME, &now);
    double seconds = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    memcpy(&bits, &seconds, sizeof bits);
    put_varint(b, EVENT_WALL_TIME);
    put_le(b, bits, 8);
    put_varint(b, EVENT_STEP);
    put_varint(b, (uint64_t)step);
}

static void put_crc(vc_buf *b, const void *p, size_t n)
{
    uint32_t c = vf_crc32c(p, n);
    put_le(b, (uint32_t)((c >> 15 | c << 17) + 0xa282ead8u), 4);
}

/* Frames an event as a record, adds the record to the output as a whole or not at all, and frees
 * the event. */
static int put_record(vf_tfevents *t, vc_buf *event, vc_err *err)
{
    vc_buf *b = &t->out;
    size_t n = event->n, before = b->n;

    if (!event->failed && vc_buf_room(b, n + 16)) {
        put_le(b, n, 8);
        put_crc(b, b->data + before, 8);
        vc_buf_add(b, event->data, n);
        put_crc(b, event->data, n);
    }
    bool failed = event->failed || b->failed;
    vc_buf_free(event);
    b->failed = false;
    return failed ? vc_fail(err, VC_ENOMEM, "%s: out of memory", t->path) : 0;
}

/* ---- the file ---- */

/* A number above those of the event files in dir, so that the new file sorts last. */
static int64_t next_number(const char *dir)
{
    int64_t number = (int64_t)time(NULL);
    DIR *d = opendir(dir);

    for (struct dirent *e; d && (e = readdir(d));) {
        if (strncmp(e->d_name, prefix, sizeof prefix - 1))
            continue;
        int64_t n = strtoll(e->d_name + sizeof prefix - 1, NULL, 10);
        if (n >= number && n < 9999999999)
            number = n + 1;
    }
    if (d)
        closedir(d);
    return number;
}

static int make_file(vf_tfevents *t, const char *dir, vc_err *err)
{
    t->path = vc_format("%s/%s%010" PRId64 ".vlt", dir, prefix, next_number(dir));
    if (!t->path)
        return vc_fail(err, VC_ENOMEM, "%s: out of memory", dir);
    t->fd = open(t->path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
    return t->fd < 0 ? vc_fail_errno(err, "%s", t->path) : 0;
}

static int put_start(vf_tfevents *t, int64_t first_step, vc_err *err)
{
    vc_buf event = { 0 }, session = { 0 };

    put_event_head(&event, 0);
    put_bytes(&event, EVENT_FILE_VERSION, "brain.Event:2", 13);
    int rc = put_record(t, &event, err);
    if (rc)
        return rc;
    put_event_head(&event, first_step);
    put_varint(&session, SESSION_STATUS);
    put_varint(&session, SESSION_START);
    put_message(&event, EVENT_SESSION_LOG, &session);
    return put_record(t, &event, err);
}

int vf_tfevents_open(vf_tfevents **out, const char *dir, int64_t first_step, vc_err *err)
{
    *out = NULL;
    vf_tfevents *t = calloc(1, sizeof *t);
    if (!t)
        return vc_fail(err, VC_ENOMEM, "%s: out of memory", dir);

    t->fd = -1;
    int rc = vc_mkdirs(dir, err);
    if (!rc)
        rc = make_file(t, dir, err);
    if (!rc)
        rc = put_start(t, first_step, err);
    if (!rc)
        rc = vf_tfevents_flush(t, err);
    if (rc) {
        vc_buf_free(&t->out);
        vf_tfevents_close(t, NULL);
        return rc;
    }
    *out = t;
    return 0;
}

int vf_tfevents_scalar(vf_tfevents *t, int64_t step, const char *tag, float value, vc_err *err)
{
    vc_buf event = { 0 }, summary = { 0 }, v = { 0 };
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    put_bytes(&v, VALUE_TAG, tag, strlen(tag));
    put_varint(&v, VALUE_SIMPLE);
    put_le(&v, bits, 4);
    put_message(&summary, SUMMARY_VALUE, &v);
    put_event_head(&event, step);
    put_message(&event, EVENT_SUMMARY, &summary);
    int rc = put_record(t, &event, err);
    return rc || t->out.n < FLUSH_AT ? rc : vf_tfevents_flush(t, err);
}

int vf_tfevents_flush(vf_tfevents *t, vc_err *err)
{
    while (t->out.n) {
        ssize_t w = write(t->fd, t->out.data, t->out.n);
        if (w < 0 && errno != EINTR)
            return vc_fail_errno(err, "%s", t->path);
        if (w > 0) {
            memmove(t->out.data, t->out.data + w, t->out.n - (size_t)w);
            t->out.n -= (size_t)w;
        }
    }
    return 0;
}

int vf_tfevents_close(vf_tfevents *t, vc_err *err)
{
    if (!t)
        return 0;
    int rc = vf_tfevents_flush(t, err);
    if (t->fd >= 0 && close(t->fd) && !rc)
        rc = vc_fail_errno(err, "%s", t->path);
    vc_buf_free(&t->out);
    free(t->path);
    free(t);
    return rc;
}
