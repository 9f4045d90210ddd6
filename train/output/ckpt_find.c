/* ckpt_find.c - the names of checkpoint folders, and those of a run's folder; see ckpt.h */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "train/output/ckpt_parts.h"

#define PREFIX "checkpoint-"
#define STATE VTRAIN_STATE_FILE

/* ---- names ---- */

char *vtrain_ckpt_folder(const char *out, int64_t step, const char *suffix)
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

bool vtrain_ckpt_is_complete(const char *path)
{
    return vc_file_exists_in(path, STATE);
}

int vtrain_ckpt_list(const char *out, const char *suffix, bool complete, int64_t **steps, int *n,
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
        bool take = path && (!complete || vtrain_ckpt_is_complete(path));
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

char *vtrain_ckpt_name(int64_t step)
{
    return vc_format(PREFIX "%" PRId64, step);
}

bool vtrain_ckpt_step(const char *dir, int64_t *step)
{
    return parse_name(vc_path_base(dir), "", step);
}

/* ---- finding ---- */

int vtrain_ckpt_steps(int64_t **steps, int *n, const char *out, vc_err *err)
{
    return vtrain_ckpt_list(out, "", false, steps, n, err);
}

int vtrain_ckpt_before(char **path, const char *out, int64_t *step, vc_err *err)
{
    int64_t *steps;
    int n, rc = vtrain_ckpt_list(out, "", true, &steps, &n, err);
    *path = NULL;
    while (!rc && n && steps[n - 1] >= *step)
        n--;
    if (!rc && n) {
        *step = steps[n - 1];
        *path = vtrain_ckpt_folder(out, *step, "");
        if (!*path)
            rc = vc_fail(err, VC_ENOMEM, "%s: out of memory", out);
    }
    free(steps);
    return rc;
}

/* Owns path: moves it to *found if path is a complete checkpoint, else frees it. */
static bool take_complete(char **found, char *path)
{
    if (path && vtrain_ckpt_is_complete(path)) {
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
        if (take_complete(path, vtrain_ckpt_folder(out, step, "")))
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
