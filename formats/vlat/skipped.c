/* skipped.c - the skipped inputs of a dataset, from its errors.jsonl. See vlat.h */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/file.h"
#include "formats/vlat/vlat.h"

static const int64_t MAX_SKIPPED = INT64_C(4) << 30;     /* bytes */

static void count_stage(vlat_skipped *s, const char *name)
{
    int i = 0;
    while (i < s->stages && strncmp(s->stage[i].name, name, sizeof s->stage[i].name - 1))
        i++;
    if (i == VLAT_STAGES)
        return;
    if (i == s->stages)
        snprintf(s->stage[s->stages++].name, sizeof s->stage[i].name, "%s", name);
    s->stage[i].n++;
}

static int read_lines(FILE *f, vlat_skipped *s, vlat_row *row, void *arg, vc_err *err)
{
    char *line = NULL;
    size_t cap = 0;
    int rc = 0;
    for (ssize_t n; !rc && (n = getline(&line, &cap, f)) > 0;) {
        cJSON *o;
        if (vf_json_parse(&o, line, (size_t)n, NULL))
            continue;                        /* a kill cut this line */
        s->n++;
        count_stage(s, vlat_str(o, "stage"));
        rc = row(arg, o, err);
        cJSON_Delete(o);
    }
    if (!rc && ferror(f))
        rc = vc_fail_errno(err, "errors.jsonl");
    free(line);
    return rc;
}

int vlat_read_skipped(const char *path, vlat_skipped *s, vlat_row *row, void *arg, vc_err *err)
{
    char *file = vc_path_join(path, "errors.jsonl");
    struct stat st;
    FILE *f = NULL;
    const bool none = file && !vc_file_exists(file);
    int fd = -1, rc = none ? 0 : file ? vc_file_open(&fd, &st, file, err) : vc_no_memory(err);
    *s = (vlat_skipped){ 0 };
    if (!rc && !none && st.st_size > MAX_SKIPPED)
        rc = vc_fail(err, VC_EFORMAT, "%s: %lld bytes: no list of skipped inputs", file,
                     (long long)st.st_size);
    if (!rc && !none && !(f = fdopen(fd, "r")))
        rc = vc_fail_errno(err, "%s", file);
    if (f)
        rc = vc_context(err, read_lines(f, s, row, arg, err), "%s", path);
    if (f)
        fclose(f);
    else if (fd >= 0)
        close(fd);
    free(file);
    return rc;
}
