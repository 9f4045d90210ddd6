/* pull_part.c - vlat pull --where and --shards: a part of a dataset elsewhere becomes a new one.
 *
 * The shards are sparse here, whose blocks come when the reader needs them: indexes and
 * records to find the samples, then the values of those that are wanted. A shard's hash cannot be
 * compared so, but the copy compares each record and each value with its own. All of them are parts
 * of one file, which has no name once it is open: any number of shards needs one descriptor, and
 * nothing is left after a kill. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/os/file.h"
#include "formats/dataset/expr.h"
#include "formats/dataset/parts.h"
#include "formats/vlat/transfer.h"

enum { BLOCK = 32 << 10,                     /* bytes that come at once, at least */
       ALIGN = 64 << 10 };                   /* a shard begins at a multiple: no page is larger */

typedef struct sparse {
    const vf_shard_info *info;
    uint64_t at;                             /* its first byte in the part's file */
    uint8_t *here;                           /* [blocks] the block is in the file */
} sparse;

typedef struct part {
    const vlat *v;
    vlat_place *source;
    vlat_limits limits;
    vf_manifest manifest;
    char *dir;                               /* of the manifest, until the dataset is open */
    int fd;                                  /* the file of all shards, or -1 */
    sparse *file;                            /* [n_shards] */
    pthread_mutex_t lock;                    /* one request at a time */
    uint64_t came;
} part;

typedef struct landing {
    part *p;
    uint64_t base, at;                       /* of the shard in the part's file; in the shard */
} landing;

static int land(void *arg, const void *data, size_t n, vc_err *err)
{
    landing *l = arg;
    for (size_t done = 0; done < n;) {
        ssize_t k = pwrite(l->p->fd, (const char *)data + done, n - done,
                           (off_t)(l->base + l->at + done));
        if (k < 0 && errno != EINTR)
            return vc_fail_errno(err, "%s", l->p->v->o->out);
        done += k > 0 ? (size_t)k : 0;
    }
    l->at += n;
    l->p->came += n;
    return 0;
}

/* Requests bytes [at, end) of a file until all are there. */
static int request(part *p, const sparse *f, uint64_t at, uint64_t end, vc_err *err)
{
    landing l = { .p = p, .base = f->at, .at = at };
    vlat_tries tries = vlat_tries_of(p->source, at);
    bool again;
    int rc;
    do {
        vc_err e = { 0 };
        rc = p->source->kind->get(p->source, f->info->file, l.at, end - l.at,
                                  &(vlat_sink){ land, &l }, &again, &e);
        if (!rc && l.at < end)
            rc = vc_fail(&e, VC_EFORMAT, "%s/%s ends at byte %" PRIu64 " of %" PRId64,
                         p->source->shown, f->info->file, l.at, f->info->bytes);
        if (rc && err)
            *err = e;
    } while (rc && again && vlat_try_again(&tries, l.at));
    return rc == VC_ENOENT ? VC_EIO : rc;    /* a reader takes VC_ENOENT for a missing key */
}

/* Brings the blocks of [at, at+n) that are missing, each run of them with one request. */
static int need_blocks(part *p, sparse *f, uint64_t at, uint64_t n, vc_err *err)
{
    uint64_t end = (at + n + BLOCK - 1) / BLOCK, bytes = (uint64_t)f->info->bytes;
    int rc = 0;
    for (uint64_t i = at / BLOCK; !rc && i < end;) {
        uint64_t last = i;
        while (last < end && !f->here[last])
            last++;
        if (last > i)
            rc = request(p, f, i * BLOCK, last * BLOCK < bytes ? last * BLOCK : bytes, err);
        if (!rc)
            memset(f->here + i, 1, (size_t)(last - i));
        i = last > i ? last : i + 1;
    }
    return rc;
}

/* Names come from the same manifest. */
static sparse *file_of(const part *p, const char *name)
{
    int i = 0;
    while (strcmp(p->file[i].info->file, name))
        i++;
    return &p->file[i];
}

static int need(void *arg, const char *name, uint64_t at, uint64_t n, vc_err *err)
{
    part *p = arg;
    pthread_mutex_lock(&p->lock);
    int rc = need_blocks(p, file_of(p, name), at, n, err);
    pthread_mutex_unlock(&p->lock);
    return rc;
}

static int map(void *arg, const char *name, vc_map *m, vc_err *err)
{
    const part *p = arg;
    const sparse *f = file_of(p, name);
    return vc_map_part(m, p->fd, f->at, (size_t)f->info->bytes, name, err);
}

/* Lays the shards out in one file and opens it; it loses its name at once. */
static int make_file(part *p, vc_err *err)
{
    uint64_t end = 0;
    char *path = vc_path_join(p->dir, "shards");
    p->file = calloc((size_t)p->manifest.n_shards + 1, sizeof *p->file);
    int rc = path && p->file ? 0 : vc_no_memory(err);
    for (int i = 0; !rc && i < p->manifest.n_shards; i++) {
        sparse *f = &p->file[i];
        *f = (sparse){ .info = &p->manifest.shard[i], .at = end };
        f->here = calloc((size_t)(f->info->bytes / BLOCK) + 1, 1);
        rc = f->here ? 0 : vc_no_memory(err);
        end += ((uint64_t)f->info->bytes + ALIGN - 1) / ALIGN * ALIGN;
    }
    if (!rc && (p->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) >= 0)
        unlink(path);
    if (!rc && (p->fd < 0 || ftruncate(p->fd, (off_t)end)))
        rc = vc_fail_errno(err, "%s", p->dir);
    free(path);
    return rc;
}

/* Makes the folder with the manifest, and the file of the shards. */
static int make_files(part *p, vc_err *err)
{
    char *text = NULL;
    size_t n;
    int rc = vlat_fetch_text(p->source, VF_MANIFEST, VF_MAX_LIST, &text, &n, err);
    if (!rc)
        rc = vf_manifest_parse(&p->manifest, text, n, p->source->shown, err);
    char *dir = vc_format("%s.pull-XXXXXX", p->v->o->out);
    char *path = NULL;
    if (!rc && !dir)
        rc = vc_no_memory(err);
    if (!rc && !mkdtemp(dir))
        rc = vc_fail_errno(err, "%s", p->v->o->out);
    if (!rc) {
        p->dir = dir;
        dir = NULL;
        path = vc_path_join(p->dir, VF_MANIFEST);
        rc = path ? vc_file_write(path, text, n, err) : vc_no_memory(err);
    }
    if (!rc)
        rc = make_file(p, err);
    free(dir);
    free(path);
    free(text);
    return rc;
}

/* Removes the folder, which needs no descriptor: there may be none left. */
static int remove_folder(part *p, vc_err *err)
{
    char *path = p->dir ? vc_path_join(p->dir, VF_MANIFEST) : NULL;
    int rc = p->dir && !path ? vc_no_memory(err) : 0;
    if (path && unlink(path) && errno != ENOENT)
        rc = vc_fail_errno(err, "%s", path);
    if (p->dir && !rc && rmdir(p->dir))
        rc = vc_fail_errno(err, "%s", p->dir);
    free(path);
    return rc;
}

/* Puts a name that the user knows in the place of the folder's, which is gone. */
static void rename_folder(const part *p, const char *name, vc_err *err)
{
    char *at;
    size_t n = p->dir ? strlen(p->dir) : 0;
    while (n && err && (at = strstr(err->text, p->dir))) {
        char *text = vc_format("%.*s%s%s", (int)(at - err->text), err->text, name, at + n);
        if (!text)
            return;
        snprintf(err->text, sizeof err->text, "%s", text);
        free(text);
    }
}

static void close_part(part *p)
{
    for (int i = 0; p->file && i < p->manifest.n_shards; i++)
        free(p->file[i].here);
    if (p->fd >= 0)
        close(p->fd);
    free(p->file);
    free(p->dir);
    vf_manifest_free(&p->manifest);
    vlat_place_close(p->source);
}

int vlat_pull_part(const vlat *v, vc_err *err)
{
    part p = { .v = v, .fd = -1, .lock = PTHREAD_MUTEX_INITIALIZER,
               .limits = vlat_limits_of(v) };
    const vf_fetch fetch = { map, need, &p };
    vf_expr *e;
    vf_dataset *d = NULL;
    char a[32];
    int rc = vlat_condition(v->o->where, &e, err);
    if (!rc)
        rc = vlat_place_open(&p.source, v->path, &p.limits, err);
    if (!rc)
        rc = make_files(&p, err);
    if (rc)
        rename_folder(&p, v->o->out, err);
    if (!rc && (rc = vf_dataset_open_fetched(&d, p.dir, p.source->shown, &fetch, err)))
        rename_folder(&p, p.source->shown, err);
    int left = remove_folder(&p, rc ? NULL : err);
    rc = rc ? rc : left;
    if (!rc)
        rc = vlat_copy_where(v, d, v->o->where, e, v->o->shards, err);
    if (!rc)
        vc_say(v->progress, "%s came from %s", vc_human_bytes(a, (double)p.came),
               p.source->shown);
    vf_dataset_close(d);
    vf_expr_close(e);
    close_part(&p);
    return rc;
}
