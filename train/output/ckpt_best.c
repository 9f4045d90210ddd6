/* ckpt_best.c - finds the checkpoints of least held-out loss, and links the best; see ckpt.h */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/file.h"
#include "train/output/ckpt.h"

/* Reads the loss of a checkpoint; false: it has none, or is not complete. */
static bool read_loss(double *loss, const char *out, int64_t step)
{
    vtrain_state s = { 0 };
    char *name = vtrain_ckpt_name(step), *dir = name ? vc_path_join(out, name) : NULL;
    bool has = dir && !vtrain_state_read(&s, dir, NULL) && s.evaluated;
    *loss = s.eval_loss;
    vtrain_state_free(&s);
    free(name);
    free(dir);
    return has;
}

int vtrain_ckpt_best(vtrain_ckpt_loss **best, int *n, const char *out, int64_t most, vc_err *err)
{
    int64_t *steps = NULL;
    int all = 0;
    *best = NULL;
    *n = 0;
    int rc = most > 0 ? vtrain_ckpt_steps(&steps, &all, out, err) : 0;
    vtrain_ckpt_loss *list = calloc((size_t)all + 1, sizeof *list);
    if (!rc && !list)
        rc = vc_no_memory(err);
    for (int i = 0; !rc && i < all; i++) {
        vtrain_ckpt_loss l = { .step = steps[i] };
        if (!read_loss(&l.loss, out, l.step))
            continue;
        int at = (*n)++;
        for (; at && list[at - 1].loss > l.loss; at--)
            list[at] = list[at - 1];
        list[at] = l;
    }
    if (*n > most)
        *n = (int)most;
    free(steps);
    if (rc) {
        free(list);
        *n = 0;
        return rc;
    }
    *best = list;
    return 0;
}

/* Puts a link to `target` in the place of another link, atomically. */
static int put_link(const char *out, const char *target, vc_err *err)
{
    struct stat st;
    char *path = vc_path_join(out, VTRAIN_BEST), *fresh = vc_path_join(out, VTRAIN_BEST ".tmp");
    int rc = path && fresh ? 0 : vc_no_memory(err);
    if (!rc && !lstat(path, &st) && !S_ISLNK(st.st_mode))
        rc = vc_fail(err, VC_EINVAL, "%s is no link: move it away", path);
    if (!rc && unlink(fresh) && errno != ENOENT)
        rc = vc_fail_errno(err, "%s", fresh);
    if (!rc && (symlink(target, fresh) || rename(fresh, path)))
        rc = vc_fail_errno(err, "%s: a link to %s", path, target);
    free(path);
    free(fresh);
    return rc ? rc : vc_sync_dir(out, err);
}

/* The step that the link leads to; -1: there is no link to a checkpoint. */
static int64_t linked(const char *out)
{
    char target[64] = "";
    int64_t step;
    char *path = vc_path_join(out, VTRAIN_BEST);
    ssize_t n = path ? readlink(path, target, sizeof target - 1) : -1;
    free(path);
    return n > 0 && vtrain_ckpt_step(target, &step) ? step : -1;
}

/* Removes a link to a checkpoint that is there no more. */
static void drop_link(const char *out)
{
    struct stat st;
    char *path = vc_path_join(out, VTRAIN_BEST);
    if (path && linked(out) >= 0 && stat(path, &st) && errno == ENOENT)
        unlink(path);
    free(path);
}

int vtrain_ckpt_link_best(vtrain_ckpt_loss *best, bool *changed, const char *out, int64_t most,
                          vc_err *err)
{
    vtrain_ckpt_loss *list;
    int n, rc = vtrain_ckpt_best(&list, &n, out, most, err);
    *changed = false;
    if (rc)
        return rc;
    if (n) {
        *best = list[0];
        *changed = linked(out) != best->step;
    }
    char *name = n ? vtrain_ckpt_name(best->step) : NULL;
    if (*changed)
        rc = name ? put_link(out, name, err) : vc_no_memory(err);
    free(name);
    free(list);
    drop_link(out);
    return rc;
}
