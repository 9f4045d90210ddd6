/* spill.c - see spill.h */
#include "precompute/vae/spill.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/os/file.h"

struct vae_spill {
    char *memory;                    /* NULL: the bytes are in the file */
    char *name;                      /* that the file had */
    int fd;                          /* -1: there is no file */
};

static int open_file(vae_spill *s, const char *beside, vc_err *err)
{
    s->name = vc_format("%s.tmp-XXXXXX", beside);
    if (!s->name)
        return vc_no_memory(err);
    s->fd = mkstemp(s->name);
    if (s->fd < 0 || unlink(s->name))
        return vc_fail_errno(err, "%s", s->name);
    return 0;
}

int vae_spill_open(vae_spill **out, const char *beside, size_t size, vc_err *err)
{
    vae_spill *s = calloc(1, sizeof *s);
    int rc = 0;

    *out = NULL;
    if (!s)
        return vc_no_memory(err);
    s->fd = -1;
    if (beside)
        rc = open_file(s, beside, err);
    else if (!(s->memory = malloc(size + 1)))
        rc = vc_fail(err, VC_ENOMEM, "out of memory for %zu bytes of tiles", size);
    if (rc) {
        vae_spill_close(s);
        return rc;
    }
    *out = s;
    return 0;
}

void vae_spill_close(vae_spill *s)
{
    if (!s)
        return;
    if (s->fd >= 0)
        close(s->fd);
    free(s->name);
    free(s->memory);
    free(s);
}

int vae_spill_put(vae_spill *s, size_t at, const void *data, size_t n, vc_err *err)
{
    if (s->memory) {
        memcpy(s->memory + at, data, n);
        return 0;
    }
    for (const char *p = data; n; ) {
        ssize_t k = pwrite(s->fd, p, n, (off_t)at);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return vc_fail_errno(err, "%s: tiles are put aside", s->name);
        p += k, at += (size_t)k, n -= (size_t)k;
    }
    return 0;
}

int vae_spill_get(const vae_spill *s, size_t at, void *data, size_t n, vc_err *err)
{
    if (s->memory) {
        memcpy(data, s->memory + at, n);
        return 0;
    }
    for (char *p = data; n; ) {
        ssize_t k = pread(s->fd, p, n, (off_t)at);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return vc_fail_errno(err, "%s: tiles are read again", s->name);
        if (k == 0)
            return vc_fail(err, VC_EIO, "%s: the tiles that were put aside are cut short", s->name);
        p += k, at += (size_t)k, n -= (size_t)k;
    }
    return 0;
}
