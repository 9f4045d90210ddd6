/* ckpt.c - writes, replaces, prunes and finds checkpoint folders; see ckpt.h */
#include "train/output/ckpt.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/file.h"

#define PREFIX "checkpoint-"
#define STATE "trainer.json"                   /* present in each complete checkpoint */

/* ---- names ---- */

static char *folder(const char *out, int64_t step, const char *suffix)
{
    char name[64];
    snprintf(name, sizeof name, PREFIX "%" PRId64 "%s", step, suffix);
    return vc_path_join(out, name);
}

/* Parses a step written with digits only, without sign or leading zeros. */
static bool parse_step(const char *s, size_t n, int64_t *step)
{
    if (!n || n > 18 || (s[0] == '0' && n > 1))
        return false;
    *step = 0;
    for (size_t i = 0; i < n; i++) {
        if (s[i] < '0' || s[i] > '9')
            return false;
        *step = 10 * *step + (s[i] - '0');
    }
    return true;
}

/* Parses "checkpoint-500" if suffix is "", "checkpoint-500.tmp" if it is ".tmp". */
static bool parse_name(const char *name, const char *suffix, int64_t *step)
{
    size_t n = strlen(name), prefix = strlen(PREFIX), tail = strlen(suffix);
    return n > prefix + tail && !strncmp(name, PREFIX, prefix) &&
           !strcmp(name + n - tail, suffix) && parse_step(name + prefix, n - prefix - tail, step);
}

static bool is_complete(const char *path)
{
    return vc_file_exists_in(path, STATE);
}

/* Lists the steps of the folders below out whose names end in suffix, ascending; none if out does
 * not exist. */
static int list_steps(const char *out, const char *suffix, bool complete, int64_t **steps, int *n,
                      vc_err *err)
{
    *steps = NULL;
    *n = 0;
    DIR *d = opendir(out);
    if (!d)
        return errno == ENOENT ? 0 : vc_fail_errno(err, "%s", out);

    int rc = 0, room = 0;
    for (struct dirent *e; (e = vc_dir_next(d, out, &rc, err));) {
        int64_t step;
        if (!parse_name(e->d_name, suffix, &step))
            continue;
        char *path = vc_path_join(out, e->d_name);
        bool take = path && (!complete || is_complete(path));
        free(path);
        if (!take)
            continue;
        if (*n == room) {
            room = room ? 2 * room : 64;
            int64_t *more = realloc(*steps, (size_t)room * sizeof *more);
            if (!more) {
                rc = vc_fail(err, VC_ENOMEM, "%s: out of memory", out);
                break;
            }
            *steps = more;
        }
        int at = (*n)++;
        for (; at && (*steps)[at - 1] > step; at--)
            (*steps)[at] = (*steps)[at - 1];
        (*steps)[at] = step;
    }
    closedir(d);
    return rc;
}

/* ---- writing ---- */

/* Removes folders with the suffix that killed runs and failed removals left. With `put_back`, a
 * folder gets its checkpoint's name back if no checkpoint has the name. A folder that cannot be
 * removed now, such as one being read over a network, is removed with a later checkpoint. */
static void remove_leftovers(const char *out, const char *suffix, bool put_back)
{
    int64_t *steps;
    int n;
    if (!list_steps(out, suffix, false, &steps, &n, NULL))
        for (int i = 0; i < n; i++) {
            char *left = folder(out, steps[i], suffix), *path = folder(out, steps[i], "");
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
    char *path = folder(out, step, ".tmp");
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
    char *path = folder(out, step, ""), *tmp = folder(out, step, ".tmp");
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
    if (!list_steps(out, "", true, &steps, &n, NULL)) {
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
    char *tmp = folder(out, step, ".tmp"), *path = folder(out, step, ""),
         *old = folder(out, step, ".old");
    int rc = tmp && path && old ? 0 : vc_fail(err, VC_ENOMEM, "%s: out of memory", out);

    if (!rc && !is_complete(tmp))
        rc = vc_fail(err, VC_EINVAL, "%s: " STATE " is missing", tmp);
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
    char *tmp = folder(out, step, ".tmp");
    if (tmp)
        vc_remove_tree(tmp, NULL);
    free(tmp);
}

/* ---- finding ---- */

int vtrain_ckpt_steps(int64_t **steps, int *n, const char *out, vc_err *err)
{
    return list_steps(out, "", false, steps, n, err);
}

char *vtrain_ckpt_name(int64_t step)
{
    return vc_format(PREFIX "%" PRId64, step);
}

bool vtrain_ckpt_step(const char *dir, int64_t *step)
{
    return parse_name(vc_path_base(dir), "", step);
}

int vtrain_ckpt_before(char **path, const char *out, int64_t *step, vc_err *err)
{
    int64_t *steps;
    int n, rc = list_steps(out, "", true, &steps, &n, err);
    *path = NULL;
    while (!rc && n && steps[n - 1] >= *step)
        n--;
    if (!rc && n) {
        *step = steps[n - 1];
        *path = folder(out, *step, "");
        if (!*path)
            rc = vc_fail(err, VC_ENOMEM, "%s: out of memory", out);
    }
    free(steps);
    return rc;
}

/* Owns path: moves it to *found if path is a complete checkpoint, else frees it. */
static bool take_complete(char **found, char *path)
{
    if (path && is_complete(path)) {
        *found = path;
        return true;
    }
    free(path);
    return false;
}

int vtrain_ckpt_find(char **path, const char *out, const char *which, vc_err *err)
{
    int64_t step = INT64_MAX;
    *path = NULL;
    if (!strcmp(which, "latest"))
        return vtrain_ckpt_before(path, out, &step, err);

    if (parse_step(which, strlen(which), &step)) {
        if (take_complete(path, folder(out, step, "")))
            return 0;
        return vc_fail(err, VC_ENOENT, "no complete %s/" PREFIX "%" PRId64, out, step);
    }
    size_t n = strlen(which);
    while (n > 1 && which[n - 1] == '/')
        n--;
    bool temporary = n > 4 && !strncmp(which + n - 4, ".tmp", 4);
    if (!temporary && (take_complete(path, vc_format("%.*s", (int)n, which)) ||
                       take_complete(path, vc_format("%s/%.*s", out, (int)n, which))))
        return 0;
    return vc_fail(err, VC_ENOENT, "%s is no complete checkpoint: neither \"latest\", nor a step, "
                   "nor a folder with " STATE, which);
}
