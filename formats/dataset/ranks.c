/* ranks.c - several writers of one dataset. See dataset.h and writer.h
 *
 * Each rank writes shards of its own. An open shard has a name with its rank. When the shard is
 * closed, it gets the next number and its place in the manifest, one rank at a time:
 *
 *     shard-open-00003.lmdb   is full: index, laid out anew, synced, hashed     (as a lone writer)
 *       manifest.lock         is taken
 *       manifest.json         is read: shards that others have closed meanwhile are loaded
 *       shard-00017.lmdb      the next number is claimed by making the file, then renamed over
 *       manifest.json         is replaced
 *       manifest.lock         is released
 *
 * Numbers therefore ascend in the order of closing, as a lone writer's do, and ranks communicate
 * only through the manifest. Where all ranks close their shards, after the texts and at the end,
 * the callers see to it that the ranks take their numbers in their order (vf_writer_seal). If a
 * file system shows an old manifest under the lock (NFS caches names for a while), the number after
 * its last shard is taken, and the manifest is read again.
 *
 * A kill leaves open shards behind, and at most one number that was claimed and not used. The next
 * run, with any number of ranks, adopts the open shards (resume.c). */
#include "formats/dataset/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/file.h"
#include "common/os/lock.h"
#include "common/os/progress.h"

enum { NAP = 100000, NAPS = 1200 };          /* microseconds; number of naps: two minutes */

/* ---- the locks ---- */

int vf_dataset_lock(int *lock, const char *path, vc_err *err)
{
    char *manifest = vc_path_join(path, VF_MANIFEST), *state = vc_path_join(path, VF_STATE);
    struct stat st;
    *lock = -1;
    int rc = manifest && state ? 0 : vc_no_memory(err);
    if (!rc && stat(manifest, &st))
        rc = errno == ENOENT
                 ? vc_fail(err, VC_ENOENT, "%s: no latent dataset (no %s)", path, VF_MANIFEST)
                 : vc_fail_errno(err, "%s", manifest);
    if (!rc)
        rc = vc_lock_file(lock, state, err);
    free(manifest);
    free(state);
    return rc;
}

/* The lock is tried as a writer would take it, because the ranks of one writer share it. */
bool vf_dataset_abandoned(const char *path)
{
    char *state = vc_path_join(path, VF_STATE);
    int lock = -1, shards;
    bool complete = false, free_lock;
    free_lock = state && vc_file_exists(state) && !vc_lock_file(&lock, state, NULL) &&
                !vc_lock_missing();
    if (free_lock)                           /* after it: a writer completes while it holds it */
        vf_dataset_progress(path, &shards, &complete, NULL);
    if (lock >= 0)
        close(lock);
    free(state);
    return free_lock && !complete;
}

int vf_writer_lock(vf_writer *w, const char *state, vc_err *err)
{
    int rc = vc_lock_file(&w->lock, state, err);
    if (w->rank == 0)
        return rc;
    if (!rc)
        return vc_fail(err, VC_EFAIL, "%s: a lock on this file system does not reach this process: "
                       "start one job a machine with --shard i/n and an --out of its own, and join "
                       "the parts with vlat merge", w->dir);
    if (rc != VC_EBUSY)
        return rc;
    w->lock = open(state, O_RDWR | O_CLOEXEC);
    return w->lock < 0 ? vc_fail_errno(err, "%s", state) : 0;
}

int vf_writer_share(vf_writer *w, vc_err *err)
{
    char *state = w->ranks > 1 ? vc_path_join(w->dir, VF_STATE) : NULL;
    int rc = w->ranks < 2 ? 0 : state ? vc_lock_open(w->lock, true, state, err) : vc_no_memory(err);
    free(state);
    return rc;
}

static int lock_manifest(const vf_writer *w, int *fd, vc_err *err)
{
    char *path = vc_path_join(w->dir, VF_MANIFEST_LOCK);
    *fd = -1;
    int rc = path ? vc_lock_patiently(fd, path, &w->patience, err) : vc_no_memory(err);
    free(path);
    return rc;
}

/* ---- shards that other ranks have closed ---- */

static int take_in(vf_writer *w, const vf_shard_info *s, vc_err *err)
{
    int rc = vf_manifest_add(&w->manifest, s, err);
    return rc ? rc : vf_writer_load(w, s->file, s->text, s->number, s->bytes, err);
}

static int catch_up(vf_writer *w, vc_err *err)
{
    vf_manifest now;
    int rc = vf_manifest_read(&now, w->dir, err);
    if (rc)
        return rc;
    for (int i = w->manifest.n_shards; i < now.n_shards && !rc; i++)
        rc = take_in(w, &now.shard[i], err);
    vf_manifest_free(&now);
    return rc;
}

int vf_writer_shards(const vf_writer *w)
{
    return w->manifest.n_shards;
}

int vf_writer_catch_up(vf_writer *w, int shards, vc_err *err)
{
    int rc = 0;
    for (int naps = 0; !rc && w->manifest.n_shards < shards; naps++) {
        if (naps == NAPS)
            return vc_fail(err, VC_EIO, "%s: other ranks have closed %d shards, but %s as this "
                           "machine sees it names %d: use a file system that shows new files to "
                           "all machines", w->dir, shards, VF_MANIFEST, w->manifest.n_shards);
        if (naps)
            usleep(NAP);
        rc = catch_up(w, err);
    }
    return rc;
}

/* ---- numbers of closed shards ---- */

static unsigned next_number(const vf_writer *w, bool text)
{
    int last = w->manifest.last[text];
    return last ? w->manifest.shard[last - 1].number + 1 : 0;
}

/* Claims the next number by making its file, which no other rank can make then. */
static int claim(vf_writer *w, vf_shard_info *s, char **path, vc_err *err)
{
    for (int naps = 0;; naps++) {
        int rc = catch_up(w, err);
        if (rc)
            return rc;
        s->number = next_number(w, s->text);
        if (s->number > VF_MAX_SHARD)
            return vf_writer_too_many(w, err);
        free(*path);
        *path = vc_path_join(w->dir, vf_shard_name(s->file, s->text, s->number));
        if (!*path)
            return vc_no_memory(err);
        int fd = open(*path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0)
            return close(fd) ? vc_fail_errno(err, "%s", *path) : 0;
        if (errno != EEXIST || naps == NAPS || *vc_stop_flag())
            return vc_fail_errno(err, "%s", *path);
        usleep(NAP);
    }
}

int vf_writer_publish(vf_writer *w, vf_half *h, vf_shard_info *s, vc_err *err)
{
    char file[VF_OPEN_NAME];
    char *from = vc_path_join(w->dir, vf_writer_half_name(w, h, file)), *to = NULL;
    int lock = -1;
    int rc = from ? lock_manifest(w, &lock, err) : vc_no_memory(err);
    if (!rc)
        rc = claim(w, s, &to, err);
    if (!rc && rename(from, to))
        rc = vc_fail_errno(err, "%s", from);
    if (!rc)
        rc = vc_sync_dir(w->dir, err);
    for (uint32_t i = w->noted_from; i < w->noted_to && !rc && !s->text; i++)
        if (w->slot[i].shard == VF_NO_NUMBER)
            w->slot[i].shard = s->number;
    if (!s->text)
        w->noted_from = w->noted_to = 0;
    if (!rc)
        rc = vf_manifest_add(&w->manifest, s, err);
    if (!rc)
        rc = vf_writer_manifest(w, false, err);
    if (lock >= 0)
        close(lock);
    free(from);
    free(to);
    return rc;
}

int vf_writer_complete(vf_writer *w, vc_err *err)
{
    char *path = vc_path_join(w->dir, VF_MANIFEST_LOCK);
    int rc = path ? vf_writer_manifest(w, true, err) : vc_no_memory(err);
    if (!rc && unlink(path) && errno != ENOENT)
        rc = vc_fail_errno(err, "%s", path);
    free(path);
    return rc;
}
