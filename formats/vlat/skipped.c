/* skipped.c - the skipped inputs of a dataset, from its errors.jsonl. See vlat.h */
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "common/os/lines.h"
#include "common/os/map.h"
#include "formats/vlat/vlat.h"

enum { MAX_LINE = 4 << 20 };                 /* bytes */

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

static int read_lines(const vc_map *m, vlat_skipped *s, vlat_row *row, void *arg, vc_err *err)
{
    vc_lines l = vc_lines_of(m->data, m->size, MAX_LINE);
    const char *line;
    size_t n;
    int rc;
    while (!(rc = vc_lines_next(&l, &line, &n, err)) && line) {
        cJSON *o;
        if (vf_json_parse(&o, line, n, NULL))
            continue;                        /* a kill cut this line */
        s->n++;
        count_stage(s, vlat_str(o, "stage"));
        rc = row(arg, o, err);
        cJSON_Delete(o);
        if (rc)
            break;
    }
    return rc;
}

int vlat_read_skipped(const char *path, vlat_skipped *s, vlat_row *row, void *arg, vc_err *err)
{
    char *file = vc_path_join(path, "errors.jsonl");
    vc_map m = { 0 };
    const bool none = file && !vc_file_exists(file);
    int rc = none ? 0 : file ? vc_map_open(&m, file, err) : vc_no_memory(err);
    *s = (vlat_skipped){ 0 };
    if (!rc)
        rc = vc_context(err, read_lines(&m, s, row, arg, err), "%s", file ? file : path);
    vc_map_close(&m);
    free(file);
    return rc;
}
