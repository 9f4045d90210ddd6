/* ckpt.c - writes, replaces and prunes checkpoint folders; see ckpt.h */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/file.h"
#include "train/output/ckpt_parts.h"

/* Removes folders with the suffix that killed runs and failed removals left. With `put_back`, a
 * folder gets its checkpoint's name back if no checkpoint has the name. A folder that cannot be
 * removed now, such as one being read over a network, is removed with a later checkpoint. */
static void remove_leftovers(const char *out, const char *suffix, bool put_back)
{
    int64_t *steps;
    int n;
    if (!vtrain_ckpt_list(out, suffix, false, &steps, &n, NULL))
        for (int i = 0; i < n; i++) {
            char *left = vtrain_ckpt_folder(out, steps[i], suffix);
            char *path = vtrain_ckpt_folder(out, steps[i], "");
            if (left && path && !(put_back && !vc_file_exists(path) && !rename(left, path)))
                vc_remove_tree(left, NULL);
            free(left);
            free(path);
        }
    free(steps);
}

void vtrain_ckpt_clean(const char *out)
{
    remove_leftovers(out, ".tmp", false);
    remove_leftovers(out, ".old", true);
}

int vtrain_ckpt_begin(char **dir, const char *out, int64_t step, vc_err *err)
{
    *dir = NULL;
    vtrain_ckpt_clean(out);
    char *path = vtrain_ckpt_folder(out, step, ".tmp");
    if (!path)
        return vc_fail(err, VC_ENOMEM, "%s: out of memory", out);
    int rc = vc_remove_tree(path, err);
    if (!rc)
        rc = vc_mkdirs(path, err);
    if (rc) {
        free(path);
        return rc;
    }
    *dir = path;
    return 0;
}

static int sync_tree(const char *path, vc_err *err)
{
    DIR *d = opendir(path);
    if (!d)
        return vc_fail_errno(err, "%s", path);

    int rc = 0;
    for (struct dirent *e; (e = vc_dir_next(d, path, &rc, err));) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        struct stat st;
        char *p = vc_path_join(path, e->d_name);
        int fd = -1;
        if (!p)
            rc = vc_fail(err, VC_ENOMEM, "%s: out of memory", path);
        else if (lstat(p, &st))
            rc = vc_fail_errno(err, "%s", p);
        else if (S_ISDIR(st.st_mode))
            rc = sync_tree(p, err);
        else if (S_ISREG(st.st_mode) &&
                 ((fd = open(p, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)) < 0 || fsync(fd)))
            rc = vc_fail_errno(err, "%s", p);
        if (fd >= 0)
            close(fd);
        free(p);
    }
    closedir(d);
    return rc ? rc : vc_sync_dir(path, err);
}

/* Renames tmp to path, and an existing path to old. Where the filesystem can exchange two names the
 * replacement is atomic; else there is a moment in which only old is complete. */
static int put_in_place(const char *tmp, const char *path, const char *old, vc_err *err)
{
    if (!rename(tmp, path))
        return 0;
    if (errno != ENOTEMPTY && errno != EEXIST)
        return vc_fail_errno(err, "%s", path);
    if (!renameat2(AT_FDCWD, tmp, AT_FDCWD, path, RENAME_EXCHANGE))
        return rename(tmp, old) ? vc_fail_errno(err, "%s", old) : 0;
    if (rename(path, old) || rename(tmp, path))
        return vc_fail_errno(err, "%s", path);
    return 0;
}

/* Renames the folder before removing its files, so that a half-removed checkpoint has no
 * checkpoint's name. */
static bool remove_step(const char *out, int64_t step)
{
    char *path = vtrain_ckpt_folder(out, step, ""), *tmp = vtrain_ckpt_folder(out, step, ".tmp");
    bool gone = path && tmp && !rename(path, tmp);
    if (gone)
        vc_remove_tree(tmp, NULL);
    free(path);
    free(tmp);
    return gone;
}

static bool is_best(const vtrain_ckpt_loss *list, int n, int64_t step)
{
    while (n && list[n - 1].step != step)
        n--;
    return n;
}

void vtrain_ckpt_prune(const char *out, int64_t step, int64_t limit, int64_t best)
{
    int64_t *steps;
    vtrain_ckpt_loss *list = NULL;
    int n, left, n_best;
    if (limit <= 0 || vtrain_ckpt_best(&list, &n_best, out, best, NULL))
        return;
    if (!vtrain_ckpt_list(out, "", true, &steps, &n, NULL)) {
        left = n;
        for (int i = 0; i < n && left > limit; i++)
            if (is_best(list, n_best, steps[i]) ||
                (steps[i] != step && remove_step(out, steps[i])))
                left--;
        free(steps);
    }
    free(list);
}

int vtrain_ckpt_commit(const char *out, int64_t step, int64_t limit, int64_t best, vc_err *err)
{
    char *tmp = vtrain_ckpt_folder(out, step, ".tmp"), *path = vtrain_ckpt_folder(out, step, ""),
         *old = vtrain_ckpt_folder(out, step, ".old");
    int rc = tmp && path && old ? 0 : vc_fail(err, VC_ENOMEM, "%s: out of memory", out);
    if (!rc && !vtrain_ckpt_is_complete(tmp))
        rc = vc_fail(err, VC_EINVAL, "%s: " VTRAIN_STATE_FILE " is missing", tmp);
    if (!rc)
        rc = sync_tree(tmp, err);
    if (!rc)
        rc = vc_remove_tree(old, err);
    if (!rc)
        rc = put_in_place(tmp, path, old, err);
    if (!rc)
        rc = vc_sync_dir(out, err);
    if (!rc) {
        vc_remove_tree(old, NULL);
        vtrain_ckpt_prune(out, step, limit, best);
    }
    free(tmp);
    free(path);
    free(old);
    return rc;
}

void vtrain_ckpt_abort(const char *out, int64_t step)
{
    char *tmp = vtrain_ckpt_folder(out, step, ".tmp");
    if (tmp)
        vc_remove_tree(tmp, NULL);
    free(tmp);
}
