/* gc.c - vlat gc, and the exchange of folders that repair uses too.
 *
 * The new dataset is made beside the old one, complete; then the two folders are exchanged in one
 * step, and files that do not belong to the dataset are moved into the new folder. All of this
 * happens under the dataset's lock, which is on a file in the folder: the lock of the new folder is
 * taken before the exchange, so that no other process finds the dataset unlocked. After a kill the
 * next gc finds one of these states:
 *
 *     NAME old   NAME.gc a part of the new dataset    NAME.gc is removed, gc starts anew
 *     NAME new   NAME.gc the old dataset or a rest    other files in it move to NAME, NAME.gc is
 *                                                     removed */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/file.h"
#include "common/os/lock.h"
#include "formats/dataset/parts.h"
#include "formats/vlat/vlat.h"

/* ---- names ---- */

int vlat_folder(char **folder, const char *path, vc_err *err)
{
    const char *base = vc_path_base(path);
    struct stat st;
    bool other = !strcmp(base, ".") || !strcmp(base, "..") ||
                 (!lstat(path, &st) && S_ISLNK(st.st_mode));
    *folder = other ? realpath(path, NULL) : strdup(path);
    return *folder ? 0 : vc_fail_errno(err, "%s", path);
}

/* Files that vprep wrote beside the shards, and its hints about the sources. */
static const char *const carried[] = { "plan.jsonl", "errors.jsonl", "vprep.yaml", VF_STATE, NULL };

/* Whether the name is one of these, or of a temporary file for one. */
static bool is_own(const char *name)
{
    for (const char *const *f = carried; *f; f++) {
        size_t n = strlen(*f);
        if (!strncmp(*f, name, n) && (!name[n] || !strncmp(name + n, ".tmp", 4)))
            return true;
    }
    return vf_is_writers(name);
}

/* ---- files that move to the new folder ---- */

int vlat_carry_files(const char *from, const char *to, vc_err *err)
{
    int rc = 0;
    for (const char *const *f = carried; !rc && *f; f++) {
        char *a = vc_path_join(from, *f), *b = vc_path_join(to, *f);
        vc_map m = { 0 };
        if (!a || !b)
            rc = vc_no_memory(err);
        else if (!(rc = vc_map_open(&m, a, err)))
            rc = vc_file_write(b, m.data, m.size, err);
        else if (rc == VC_ENOENT)
            rc = 0;
        vc_map_close(&m);
        free(a);
        free(b);
    }
    return rc;
}

/* Calls fn for each name in the folder, and ends with the first failure. */
static int each_name(const char *folder, int (*fn)(const char *folder, const char *name,
                                                   const void *arg, vc_err *err),
                     const void *arg, vc_err *err)
{
    DIR *d = opendir(folder);
    int rc = d ? 0 : vc_fail_errno(err, "%s", folder);
    for (struct dirent *e; (e = vc_dir_next(d, folder, &rc, err));)
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
            rc = fn(folder, e->d_name, arg, err);
    if (d)
        closedir(d);
    return rc;
}

static int move_other(const char *from, const char *name, const void *to, vc_err *err)
{
    enum { TRIES = 1000 };
    char *a = vc_path_join(from, name), *b = is_own(name) ? NULL : vc_path_join(to, name);
    int rc = a && (b || is_own(name)) ? 0 : vc_no_memory(err);
    for (int i = 1; !rc && b && renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_NOREPLACE); i++) {
        if (errno != EEXIST || i == TRIES)
            rc = vc_fail_errno(err, "%s cannot become %s", a, b);
        free(b);
        b = vc_format("%s/%s.%d", (const char *)to, name, i);
        if (!rc && !b)
            rc = vc_no_memory(err);
    }
    free(a);
    free(b);
    return rc;
}

int vlat_move_others(const char *from, const char *to, vc_err *err)
{
    return each_name(from, move_other, to, err);
}

/* ---- exchange and removal ---- */

static int sync_parent(const char *path, vc_err *err)
{
    char *dir = vc_format("%.*s", (int)(vc_path_base(path) - path), path);
    int rc = dir ? vc_sync_dir(*dir ? dir : ".", err) : vc_no_memory(err);
    free(dir);
    return rc;
}

int vlat_exchange(const char *path, const char *made, int *lock, vc_err *err)
{
    char *state = vc_path_join(made, VF_STATE);
    int rc = state ? vc_lock_file(lock, state, err) : vc_no_memory(err);
    if (!rc && renameat2(AT_FDCWD, made, AT_FDCWD, path, RENAME_EXCHANGE))
        rc = vc_fail(err, VC_EIO, "%s: its file system cannot exchange two folders (%s): the "
                     "new dataset is in %s; move it into place by hand", path, strerror(errno),
                     made);
    free(state);
    return rc ? rc : sync_parent(path, err);
}

static int remove_name(const char *folder, const char *name, const void *but, vc_err *err)
{
    char *path = vc_path_join(folder, name);
    int rc = path ? 0 : vc_no_memory(err);
    if (!rc && strcmp(name, but))
        rc = vc_remove_tree(path, err);
    free(path);
    return rc;
}

/* Whether `made` is a folder, not a link, and has a manifest. */
static int is_dataset(bool *is, const char *made, vc_err *err)
{
    struct stat st;
    char *manifest = vc_path_join(made, VF_MANIFEST);
    int rc = manifest ? 0 : vc_no_memory(err);
    *is = !rc && !lstat(made, &st) && S_ISDIR(st.st_mode) && !stat(manifest, &st);
    if (!rc && !*is && lstat(made, &st) && errno != ENOENT)
        rc = vc_fail_errno(err, "%s", made);
    free(manifest);
    return rc;
}

/* Removes the manifest last: by it the next run knows that the folder is a leftover dataset. */
int vlat_remove_left(const char *made, const char *path, vc_err *err)
{
    bool left;
    int rc = is_dataset(&left, made, err);
    if (rc || !left)
        return rc;
    rc = vlat_move_others(made, path, err);
    if (!rc)
        rc = each_name(made, remove_name, VF_MANIFEST, err);
    return rc ? rc : vc_remove_tree(made, err);
}

/* ---- gc ---- */

static int64_t bytes_of(const vf_dataset *d)
{
    const cJSON *s;
    double sum = 0;
    cJSON_ArrayForEach(s, cJSON_GetObjectItemCaseSensitive(vf_dataset_manifest(d), "shards"))
        sum += vlat_num(s, "bytes");
    return (int64_t)sum;
}

static int compact(const vlat *v, vf_dataset *d, const char *made, int64_t *left, vc_err *err)
{
    vf_dataset *now;
    int rc = vlat_copy_part(v, d, NULL, 0, made, err);
    if (!rc)
        rc = vlat_carry_files(vf_dataset_path(d), made, err);
    if (!rc)
        rc = vf_dataset_open(&now, made, false, err);
    if (rc)
        return rc;
    *left = bytes_of(now);
    if (strcmp(vlat_str(vf_dataset_manifest(now), "root"),
               vlat_str(vf_dataset_manifest(d), "root")))
        rc = vc_fail(err, VC_EFAIL, "%s: the copy has another root: nothing was changed", made);
    vf_dataset_close(now);
    return rc;
}

/* The caller holds the dataset's lock. */
static int collect(const vlat *v, const char *path, const char *made, vc_err *err)
{
    char a[32], b[32];
    int64_t before, left = 0;
    int lock = -1;
    vf_dataset *d;
    int rc = vlat_remove_left(made, path, err);
    if (!rc)
        rc = vf_dataset_open(&d, path, false, err);
    if (rc)
        return rc;
    before = bytes_of(d);
    rc = compact(v, d, made, &left, err);
    if (!rc)
        rc = vlat_exchange(path, made, &lock, err);
    if (!rc)
        rc = vlat_remove_left(made, path, err);
    if (!rc)
        fprintf(v->out, "%s of %s freed\n", vc_human_bytes(a, (double)(before - left)),
                vc_human_bytes(b, (double)before));
    vf_dataset_close(d);
    if (lock >= 0)
        close(lock);
    return rc;
}

/* Says what gc would free. The dataset is read as it is, so no lock is needed. */
static int foretell(const vlat *v, vc_err *err)
{
    char a[32], b[32];
    vf_dataset *d;
    vf_unused u;
    int rc = vlat_open(v, &d, err);
    if (!rc)
        rc = vf_dataset_unused(d, &u, err);
    if (!rc)
        fprintf(v->out, "%s of %s would be freed: of %" PRIu64 " latents and %" PRIu64 " texts "
                "that no sample refers to, and %" PRIu64 " older records\n",
                vc_human_bytes(a, (double)u.bytes), vc_human_bytes(b, (double)bytes_of(d)),
                u.latents, u.texts, u.records);
    vf_dataset_close(d);
    return rc;
}

int vlat_gc(const vlat *v, vc_err *err)
{
    if (v->o->dry_run)
        return foretell(v, err);
    char *path = NULL, *made = NULL;
    int lock = -1, rc = vlat_folder(&path, v->path, err);
    if (!rc && !(made = vc_format("%s.gc", path)))
        rc = vc_no_memory(err);
    if (!rc)
        rc = vf_dataset_lock(&lock, path, err);
    if (!rc)
        rc = collect(v, path, made, err);
    if (lock >= 0)
        close(lock);
    free(path);
    free(made);
    return rc;
}
