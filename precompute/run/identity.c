/* identity.c - see identity.h */
#include "precompute/run/identity.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/os/progress.h"
#include "formats/columnar/columnar.h"
#include "precompute/media/internal.h"

static prep_identity identity(const struct stat *st)
{
    return (prep_identity){ st->st_size, st->st_mtim.tv_sec, st->st_mtim.tv_nsec,
                            st->st_ctim.tv_sec, st->st_ctim.tv_nsec, st->st_ino };
}

static void later(int64_t *s, int64_t *ns, const struct timespec *t)
{
    if (t->tv_sec > *s || (t->tv_sec == *s && t->tv_nsec > *ns)) {
        *s = t->tv_sec;
        *ns = t->tv_nsec;
    }
}

/* The identity of a folder of frames: the sum of the frames' sizes, and the latest times of the
 * folder and of its frames. Older versions read frames in bytewise order and remembered the hash of
 * that order. Where it is another one, the identity differs from theirs, so that the hash is made
 * again. */
static int add_frames(prep_identity *is, const char *folder, vc_err *err)
{
    struct stat st;
    media_frames f;
    int rc = media_frames_list(&f, folder, err);

    is->size = 0;
    if (f.reordered)
        is->inode = ~is->inode;
    for (int i = 0; i < f.n && !rc; i++) {
        if (stat(f.path[i], &st)) {
            rc = vc_fail_errno(err, "%s", f.path[i]);
            break;
        }
        is->size += st.st_size;
        later(&is->mtime_s, &is->mtime_ns, &st.st_mtim);
        later(&is->ctime_s, &is->ctime_ns, &st.st_ctim);
    }
    media_frames_free(&f);
    return rc;
}

int prep_identity_of(prep_identity *is, const char *path, const char *name, vc_err *err)
{
    struct stat st;

    if (stat(path, &st))
        return vc_fail_errno(err, "%s", name);
    *is = identity(&st);
    return S_ISDIR(st.st_mode) ? vc_context(err, add_frames(is, path, err), "%s", name) : 0;
}

/* A value in a Parquet file. */
static int hash_value(vf_key *k, const vf_part *part, vc_err *err)
{
    uint8_t *bytes;
    size_t n;
    int rc = vf_columnar_value(part->values, part, &bytes, &n, err);

    *k = vf_hash(bytes, n);
    free(bytes);
    return rc;
}

/* The hash of a medium's bytes and, where older versions saw other pixels in them, of the way in
 * which they are read. */
static int hash_one(vf_key *k, const vf_part *part, vc_err *err)
{
    const char *reading = NULL;
    vf_hasher h;
    int rc = part->column ? vc_context(err, hash_value(k, part, err), "%s", part->name)
                          : vf_hash_part(k, part, vc_stop_flag(), err);

    if (!rc)
        rc = media_reading(&reading, part, err);
    if (rc || !reading)
        return rc;
    vf_hasher_begin(&h, "read");
    vf_hasher_bytes(&h, "file", k, sizeof *k);
    vf_hasher_str(&h, "reading", reading);
    *k = vf_hasher_end(&h);
    return 0;
}

int prep_hash(vf_key *k, const vf_part *part, vc_err *err)
{
    struct stat st;
    media_frames f;
    vf_hasher h;

    if (!vf_part_is_file(part) || stat(part->file, &st) || !S_ISDIR(st.st_mode))
        return hash_one(k, part, err);
    int rc = vc_context(err, media_frames_list(&f, part->file, err), "%s", part->name);
    vf_hasher_begin(&h, "frames");
    for (int i = 0; i < f.n && !rc; i++) {
        rc = hash_one(k, &(vf_part){ .name = f.path[i], .file = f.path[i] }, err);
        vf_hasher_bytes(&h, "frame", k, sizeof *k);
    }
    *k = vf_hasher_end(&h);
    media_frames_free(&f);
    return rc;
}

vf_key prep_shown(vf_key hash, bool reordered)
{
    vf_hasher h;

    if (!reordered)
        return hash;
    vf_hasher_begin(&h, "reordered");
    vf_hasher_bytes(&h, "file", hash.b, sizeof hash.b);
    return vf_hasher_end(&h);
}

bool prep_identity_same(const prep_identity *a, const prep_identity *b)
{
    return a->size == b->size && a->mtime_s == b->mtime_s && a->mtime_ns == b->mtime_ns &&
           a->ctime_s == b->ctime_s && a->ctime_ns == b->ctime_ns && a->inode == b->inode;
}

int prep_identity_check(prep_identity *is, vf_key hash, int fd, const vf_part *part, vc_err *err)
{
    const char *path = part->name;
    struct stat st;
    prep_identity now;
    vf_key k;

    if (fstat(fd, &st))
        return vc_fail_errno(err, "%s", path);
    now = identity(&st);
    int rc = S_ISDIR(st.st_mode) ? prep_identity_of(&now, part->file, path, err) : 0;
    if (!rc && prep_identity_same(is, &now))
        return 0;
    if (!rc)
        rc = prep_identity_of(&now, part->file, path, err);
    if (!rc)
        rc = prep_hash(&k, part, err);
    if (!rc && memcmp(&k, &hash, sizeof k))
        rc = vc_fail(err, VC_EIO, "%s: changed while this ran: run the same command again", path);
    if (rc)
        return rc;
    *is = now;
    return 1;
}
