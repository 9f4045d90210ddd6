/* identity.c - see identity.h */
#include "precompute/run/identity.h"

#include <string.h>
#include <sys/stat.h>

#include "common/os/progress.h"

static prep_identity identity(const struct stat *st)
{
    return (prep_identity){ st->st_size, st->st_mtim.tv_sec, st->st_mtim.tv_nsec,
                            st->st_ctim.tv_sec, st->st_ctim.tv_nsec, st->st_ino };
}

int prep_identity_of(prep_identity *is, const char *path, const char *name, vc_err *err)
{
    struct stat st;

    if (stat(path, &st))
        return vc_fail_errno(err, "%s", name);
    *is = identity(&st);
    return 0;
}

bool prep_identity_same(const prep_identity *a, const prep_identity *b)
{
    return a->size == b->size && a->mtime_s == b->mtime_s && a->mtime_ns == b->mtime_ns &&
           a->ctime_s == b->ctime_s && a->ctime_ns == b->ctime_ns && a->inode == b->inode;
}

int prep_identity_check(prep_identity *is, vf_key hash, int fd, const char *path, vc_err *err)
{
    struct stat st;
    prep_identity now;
    vf_key k;

    if (fstat(fd, &st))
        return vc_fail_errno(err, "%s", path);
    now = identity(&st);
    if (prep_identity_same(is, &now))
        return 0;
    int rc = prep_identity_of(is, path, path, err);
    if (!rc) rc = vf_hash_file(&k, path, vc_stop_flag(), err);
    if (!rc && memcmp(&k, &hash, sizeof k))
        rc = vc_fail(err, VC_EIO, "%s: changed while this ran: the same command takes it as it is then",
                     path);
    return rc ? rc : 1;
}
