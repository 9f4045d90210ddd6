/* aside.c - moves an abandoned branch aside; see aside.h */
#include "train/output/aside.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "train/output/ckpt.h"
#include "train/output/metrics.h"

/* Makes a new folder below out with the first name that is free. */
static int make_folder(char **name, const char *out, int64_t step, vc_err *err)
{
    for (int i = 1;; i++) {
        char base[64], number[16] = "";
        snprintf(base, sizeof base, "abandoned-after-step-%" PRId64, step);
        if (i > 1)
            snprintf(number, sizeof number, "-%d", i);
        *name = vc_format("%s%s", step < 0 ? "abandoned-run" : base, number);
        char *path = *name ? vc_path_join(out, *name) : NULL;
        if (!path)
            return vc_no_memory(err);
        bool taken = vc_file_exists(path);
        int rc = taken ? 0 : vc_mkdirs(path, err);
        free(path);
        if (!taken)
            return rc;
        free(*name);
        *name = NULL;
    }
}

/* Moves out/BELOW/ENTRY to out/NAME/BELOW/ENTRY; below is "" for an entry of out itself. */
static int move(const char *out, const char *name, const char *below, const char *entry,
                vc_err *err)
{
    char *from = vc_format("%s/%s/%s", out, below, entry);
    char *folder = vc_format("%s/%s/%s", out, name, below);
    char *to = folder ? vc_path_join(folder, entry) : NULL;
    int rc = from && to ? vc_mkdirs(folder, err) : vc_no_memory(err);
    if (!rc && rename(from, to))
        rc = vc_fail_errno(err, "%s: moving it to %s", from, to);
    free(from);
    free(folder);
    free(to);
    return rc;
}

static bool is_later_sample(const char *entry, int64_t step)
{
    int64_t of;
    int end = 0;
    return sscanf(entry, "step-%" SCNd64 "%n", &of, &end) == 1 && !entry[end] && of > step;
}

/* Moves the later folders of out/validation. Renaming changes the folder that is being read, so the
 * loop begins again after each. */
static int move_samples(const char *out, const char *name, int64_t step, vc_err *err)
{
    char *path = vc_path_join(out, "validation");
    int rc = path ? 0 : vc_no_memory(err);
    for (bool found = true; !rc && found;) {
        DIR *d = opendir(path);
        if (!d) {
            rc = errno == ENOENT ? 0 : vc_fail_errno(err, "%s", path);
            break;
        }
        struct dirent *e;
        while ((e = vc_dir_next(d, path, &rc, err)) && !is_later_sample(e->d_name, step))
            ;
        found = e;
        if (e)
            rc = move(out, name, "validation", e->d_name, err);
        closedir(d);
    }
    free(path);
    return rc;
}

static int move_metrics(const char *out, const char *name, int64_t step, vc_err *err)
{
    char *to = vc_format("%s/%s/metrics.jsonl", out, name);
    int rc = to ? vtrain_metrics_split(out, step, to, err) : vc_no_memory(err);
    free(to);
    return rc;
}

static int move_checkpoints(const char *out, const char *name, const int64_t *later, int n,
                            vc_err *err)
{
    int rc = 0;
    for (int i = 0; !rc && i < n; i++) {
        char *entry = vtrain_ckpt_name(later[i]);
        rc = entry ? move(out, name, "", entry, err) : vc_no_memory(err);
        free(entry);
    }
    return rc ? rc : vc_sync_dir(out, err);
}

int vtrain_set_aside(char **name, const char *out, int64_t step, vc_err *err)
{
    int64_t *steps;
    int n, first = 0;
    *name = NULL;
    int rc = vtrain_ckpt_steps(&steps, &n, out, err);
    while (!rc && first < n && steps[first] <= step)
        first++;
    if (!rc && first < n) {
        rc = make_folder(name, out, step, err);
        if (!rc)
            rc = move_metrics(out, *name, step, err);
        if (!rc)
            rc = move_samples(out, *name, step, err);
        if (!rc)
            rc = move_checkpoints(out, *name, steps + first, n - first, err);
    }
    free(steps);
    return rc;
}
