/* text.c - opening datasets and printing text, for all verbs. See vlat.h. */
#include "formats/vlat/vlat.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/utf8.h"
#include "common/os/streams.h"

int vlat_open(const vlat *v, vf_dataset **d, vc_err *err)
{
    int rc = vf_dataset_open(d, v->path, true, err);
    if (!rc && !cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(vf_dataset_manifest(*d), "complete")))
        vc_warn(v->progress, "%s is not finished: only its closed shards are shown", v->path);
    return rc;
}

void vlat_print(FILE *f, const char *text, int max)
{
    vc_print(f, text, max);
}

const char *vlat_str(const cJSON *o, const char *field)
{
    const char *s = "";
    vf_json_str_opt(o, field, &s, NULL);
    return s;
}

const char *vlat_input(const cJSON *record, const char *role)
{
    static const char *const columns[][2] = { { "control", "control_file_path" },
                                              { "image", "input_image" } };
    const cJSON *extra = cJSON_GetObjectItemCaseSensitive(record, "extra");
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(record, "references");
    int n, end = 0;
    if (sscanf(role, "reference_%2d%n", &n, &end) == 1 && n > 0 && end && !role[end])
        return vlat_str(cJSON_GetArrayItem(list, n - 1), "path");
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        if (!strcmp(role, columns[i][0]))
            return vlat_str(extra, columns[i][1]);
    return "";
}

double vlat_num(const cJSON *o, const char *field)
{
    double v = 0;
    vf_json_num_opt(o, field, &v, NULL);
    return v;
}

static void add_family(char buf[VLAT_FAMILIES], const char *name)
{
    size_t at = strlen(buf);
    snprintf(buf + at, VLAT_FAMILIES - at, "%s%.60s", at ? ", " : "", name);
}

const char *vlat_families(char buf[VLAT_FAMILIES], const cJSON *manifest)
{
    const cJSON *all = cJSON_GetObjectItemCaseSensitive(manifest, "families"), *f;
    buf[0] = 0;
    cJSON_ArrayForEach(f, all)
        if (cJSON_IsString(f))
            add_family(buf, f->valuestring);
    if (!*buf)
        add_family(buf, vlat_str(manifest, "family"));
    return buf;
}

const char *vlat_caption(const cJSON *record)
{
    const cJSON *captions = cJSON_GetObjectItemCaseSensitive(record, "captions");
    return cJSON_IsArray(captions) ? vlat_str(captions->child, "text") : "";
}

char *vlat_size(char buf[64], const cJSON *record)
{
    const cJSON *target = cJSON_GetObjectItemCaseSensitive(record, "target");
    double h = cJSON_GetNumberValue(cJSON_GetArrayItem(target, 0));
    double w = cJSON_GetNumberValue(cJSON_GetArrayItem(target, 1));
    if (w >= 1 && h >= 1)                        /* false for NaN */
        snprintf(buf, 64, "%.0fx%.0f", w, h);
    else
        strcpy(buf, "?");
    return buf;
}

char *vlat_dims(char buf[64], const cJSON *array)
{
    const cJSON *o;
    int at = 0;
    buf[0] = 0;
    cJSON_ArrayForEach(o, array)
        if (at < 50)
            at += snprintf(buf + at, (size_t)(64 - at), "%s%.0f", at ? "x" : "",
                           cJSON_GetNumberValue(o));
    return buf;
}

double vlat_seconds(const vf_dataset *d)
{
    double s = 0;
    for (uint32_t i = 0; i < vf_dataset_count(d); i++) {
        const vf_entry *e = vf_dataset_entry(d, i);
        if (e->flags & VF_ENTRY_VIDEO && e->fps > 0)
            s += e->frames / (double)e->fps;
    }
    return s;
}

void vlat_say_next(const vlat *v, const char *path)
{
    char *next = vf_next_train(path);
    if (next)
        vc_say(v->progress, "%s", next);
    free(next);
}

/* Prints JSON with \u escapes for characters that could control a terminal: the same value. */
static void put_escaped(FILE *f, const char *json)
{
    uint32_t c;
    for (size_t n; (n = vc_utf8(json, &c)); json += n)
        if (vc_utf8_plain(c))
            fwrite(json, 1, n, f);
        else
            fprintf(f, "\\u%04x", (unsigned)c);
}

int vlat_print_json(FILE *f, const cJSON *record, vc_err *err)
{
    char *line = vf_json_line(record);
    if (!line)
        return vc_no_memory(err);
    put_escaped(f, line);
    fputc('\n', f);
    free(line);
    return 0;
}
