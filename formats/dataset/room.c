/* room.c - keeps a dataset out of a folder of other files. See dataset.h */
#include "formats/dataset/parts.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/os/file.h"
#include "formats/json/json.h"

enum { SHOWN = 3, MAX_MANIFEST = 1 << 30 };

/* True for files that a dataset's programs leave beside the writer's, and for those of a job that
 * writes its log into the folder. */
static bool is_beside(const char *name)
{
    static const char *const begins[] = {
        "plan.jsonl", "errors.jsonl", "vprep.yaml", "report.html", "repair.", "pull"
    };
    static const char *const endings[] = { ".log", ".out", ".err", ".yaml", ".yml", ".toml",
                                           ".sh", ".sbatch" };

    if (*name == '.')
        return true;
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (!strncmp(name, begins[i], strlen(begins[i])))
            return true;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (!strcmp(vc_path_ext(name), endings[i]))
            return true;
    return false;
}

/* True if the manifest is another program's file of this name. A damaged one is a dataset's. */
static bool is_foreign_manifest(const char *dir)
{
    char *path = vc_path_join(dir, VF_MANIFEST);
    cJSON *o = NULL;
    bool foreign = path && !vf_json_read(&o, path, MAX_MANIFEST, NULL)
                   && !cJSON_HasObjectItem(o, "format") && !cJSON_HasObjectItem(o, "shards");
    cJSON_Delete(o);
    free(path);
    return foreign;
}

typedef struct strangers {
    vc_buf names;                      /* the first ones */
    long n;
    bool dataset;                      /* shards or a manifest are there */
} strangers;

static int look(strangers *s, const char *path, DIR *d, vc_err *err)
{
    bool manifest = is_foreign_manifest(path);
    int rc = 0;
    for (struct dirent *e; (e = vc_dir_next(d, path, &rc, err));) {
        bool foreign = !strcmp(e->d_name, VF_MANIFEST) && manifest;
        s->dataset |= vf_is_writers(e->d_name) && !foreign;
        if ((!foreign && vf_is_writers(e->d_name)) || is_beside(e->d_name))
            continue;
        if (s->n++ < SHOWN)
            vc_buf_printf(&s->names, "%s%.80s", s->n > 1 ? ", " : "", e->d_name);
    }
    return rc;
}

/* Fills *s; a folder that cannot be opened has no files, and the writer reports it. */
static int look_in(strangers *s, const char *path, vc_err *err)
{
    DIR *d = opendir(path);
    int rc = d ? look(s, path, d, err) : 0;
    if (d)
        closedir(d);
    return rc;
}

bool vf_dataset_there(const char *path)
{
    strangers s = { 0 };
    int rc = look_in(&s, path, NULL);
    vc_buf_free(&s.names);
    return !rc && s.dataset;
}

/* Cuts the last name off a path that is not there. */
static int up(char *p)
{
    char *slash = strrchr(p, '/');
    while (slash && slash > p && !slash[1]) {
        *slash = '\0';
        slash = strrchr(p, '/');
    }
    if (!slash)
        strcpy(p, strcmp(p, ".") ? "." : "/");
    else
        slash[slash == p] = '\0';
    return VC_ENOENT;
}

/* Finds out whether the folder, or the nearest one above it that is there, takes files. */
static int check_place(const char *path, vc_err *err)
{
    char *p = strdup(path);
    struct stat st;
    int rc = p ? VC_ENOENT : vc_no_memory(err);

    while (rc == VC_ENOENT) {
        if (!stat(p, &st))
            rc = !S_ISDIR(st.st_mode)
                     ? vc_fail(err, VC_EUSAGE, "%s is no folder: give another place", p)
                 : access(p, W_OK | X_OK)
                     ? vc_fail(err, VC_EIO, "cannot write into the folder %s (%s): give another "
                               "place", p, strerror(errno))
                     : 0;
        else if (!lstat(p, &st))
            rc = vc_fail(err, VC_EUSAGE, "%s is a link that leads nowhere: give another place", p);
        else if (errno != ENOENT && errno != ENOTDIR)
            rc = vc_fail_errno(err, "%s", p);
        else
            rc = up(p);
    }
    free(p);
    return rc;
}

int vf_writer_room(const char *path, vc_err *err)
{
    strangers s = { 0 };
    int rc = check_place(path, err);
    rc = rc ? rc : look_in(&s, path, err);
    char *names = vc_buf_take(&s.names);
    if (!rc && s.n && !s.dataset)
        rc = vc_fail(err, VC_EUSAGE, "%s holds no dataset, but other files (%s%s): give a new or "
                     "an empty folder", path, names ? names : "", s.n > SHOWN ? ", ..." : "");
    free(names);
    return rc;
}
