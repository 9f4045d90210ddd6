/* tar_write.c - exports a dataset as WebDataset's tar files, which tar.c describes. */
#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/os/file.h"
#include "formats/dataset/parts.h"
#include "formats/peers/caches/tar.h"
#include "formats/peers/exchange_parts.h"

typedef struct taring {
    exchange *x;
    struct archive *a;
    int fd, n;                               /* n: tars begun so far */
    uint32_t samples;                        /* samples in this tar */
    int64_t bytes;                           /* bytes in this tar */
    char stem[24];
} taring;

static int end_tar(taring *t, vc_err *err)
{
    int rc = 0;
    char name[40];
    if (!t->a)
        return 0;
    if (archive_write_close(t->a))
        rc = vc_fail(err, VC_EIO, "shard-%06d.tar: %s: %s", t->n - 1,
                     archive_error_string(t->a), strerror(archive_errno(t->a)));
    archive_write_free(t->a);
    t->a = NULL;
    if (close(t->fd) && !rc)
        rc = vc_fail_errno(err, TAR_NAME, t->n - 1);
    snprintf(name, sizeof name, TAR_NAME, t->n - 1);
    vf_json_add_int(t->x->files, name, t->samples);
    return rc;
}

static int begin_tar(taring *t, vc_err *err)
{
    char *path = vc_format("%s/" TAR_NAME, t->x->dir, t->n);
    t->fd = path ? open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666) : -1;
    int rc = t->fd < 0 ? vc_fail_errno(err, "%s", path ? path : "tar") : 0;
    free(path);
    if (rc)
        return rc;
    t->n++;
    t->bytes = 0;
    t->samples = 0;
    if (!(t->a = archive_write_new())) {
        close(t->fd);
        return vc_no_memory(err);
    }
    if (archive_write_set_format_ustar(t->a) || archive_write_open_fd(t->a, t->fd))
        return vc_fail(err, VC_EIO, "shard-%06d.tar: %s: %s", t->n - 1,
                     archive_error_string(t->a), strerror(archive_errno(t->a)));
    return 0;
}

static int put_member(taring *t, const char *ending, const void *data, size_t n, vc_err *err)
{
    char name[96];
    struct archive_entry *e = archive_entry_new();
    if (!e)
        return vc_no_memory(err);
    snprintf(name, sizeof name, "%s.%s", t->stem, ending);
    archive_entry_set_pathname(e, name);
    archive_entry_set_filetype(e, AE_IFREG);
    archive_entry_set_perm(e, 0644);
    archive_entry_set_size(e, (la_int64_t)n);
    archive_entry_set_mtime(e, 0, 0);
    int bad = archive_write_header(t->a, e);
    archive_entry_free(e);
    if (!bad && n && archive_write_data(t->a, data, n) != (la_ssize_t)n)
        bad = ARCHIVE_FATAL;
    if (!bad)
        bad = archive_write_finish_entry(t->a);
    t->bytes += (int64_t)n + 512;
    return bad ? vc_fail(err, VC_EIO, "shard-%06d.tar: %s: %s: %s", t->n - 1, name,
                         archive_error_string(t->a), strerror(archive_errno(t->a))) : 0;
}

static int put_value(void *arg, const vf_ref *ref, const char *role, vc_err *err)
{
    taring *t = arg;
    const void *data;
    size_t n;
    char ending[64];
    snprintf(ending, sizeof ending, "%s.safetensors", role);
    int rc = vf_dataset_bytes(t->x->d, ref->text, ref->key, &data, &n, err);
    return rc ? rc : put_member(t, ending, data, n, err);
}

static int put_sample(taring *t, uint32_t i, vc_err *err)
{
    cJSON *record;
    const void *jpeg;
    size_t n;
    int rc = vf_dataset_sample(t->x->d, i, &record, err);
    if (!rc)
        rc = exchange_stem(t->stem, record, err);
    char *line = rc ? NULL : vf_json_line(record);
    if (!rc && !line)
        rc = vc_no_memory(err);
    if (!rc)
        rc = put_member(t, "json", line, strlen(line), err);
    if (!rc)
        rc = exchange_refs(record, put_value, t, err);
    int found = rc ? rc : vf_dataset_thumb(t->x->d, i, &jpeg, &n, err);
    if (!rc && found != VC_ENOENT)
        rc = found ? found : put_member(t, "jpg", jpeg, n, err);
    free(line);
    cJSON_Delete(record);
    return rc;
}

int exchange_tar_write(exchange *x, vc_err *err)
{
    taring t = { .x = x };
    uint32_t n = vf_dataset_count(x->d);
    x->files = cJSON_CreateObject();
    int rc = x->files ? exchange_write_frame(x, err) : vc_no_memory(err);
    vc_progress_begin(x->v->progress, "exporting", "samples", n);
    for (uint32_t i = 0; !rc && i < n; i++) {
        if (t.a && t.bytes >= x->v->o->shard_size)
            rc = end_tar(&t, err);
        if (!rc && !t.a)
            rc = begin_tar(&t, err);
        if (!rc)
            rc = exchange_of_sample(x, i, put_sample(&t, i, err), err);
        t.samples += !rc;
        if (!rc)
            rc = exchange_stopped(err);
        vc_progress_at(x->v->progress, i + 1u, NULL);
    }
    vc_progress_end(x->v->progress);
    int ended = end_tar(&t, rc ? NULL : err);
    return rc ? rc : ended;
}
