/* references.c - reads a row's reference pictures, which a model that edits pictures sees beside
 * the sample; see parts.h */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/json/json.h"
#include "formats/metadata/parts.h"

/* A column has one path, a list of paths or the text of such a list. With a number behind the name,
 * it has the picture of that place, from 0 on or from 1 on. The first one that a row has counts.
 * (DiffSynth-Studio, musubi-tuner, ai-toolkit, VideoX-Fun) */
static const char *const columns[] = {
    "edit_image", "kontext_images", "reference_image_path", "control_path", "control_image_path",
    "source_file_path", "vace_reference_image", "object_file_path",
};
enum { COLUMNS = sizeof columns / sizeof *columns, MOST_NUMBERED = 16 };

void vf_row_free_references(vf_row *r)
{
    for (int i = 0; i < r->n_references; i++) {
        free(r->references[i].path);
        free(r->references[i].file);
    }
    free(r->references);
    free(r->references_from);
    r->references = NULL;
    r->references_from = NULL;
    r->n_references = 0;
}

static bool is_path(const cJSON *v)
{
    return cJSON_IsString(v) && *v->valuestring;
}

static int add(vf_row *r, const char *path, const char *dir, vc_err *why)
{
    vf_side *more = realloc(r->references, ((size_t)r->n_references + 1) * sizeof *more);
    if (!more)
        return vc_no_memory(why);
    r->references = more;
    vf_side *s = &more[r->n_references++];
    *s = (vf_side){ .path = strdup(path) };
    return s->path ? metadata_find_file(&s->file, dir, path, why) : vc_no_memory(why);
}

/* Adds the pictures of a value; *bad: the value has another form. */
static int add_all(vf_row *r, const cJSON *v, const char *dir, bool *bad, vc_err *why)
{
    int rc = 0;

    if (is_path(v))
        return add(r, v->valuestring, dir, why);
    *bad = !cJSON_IsArray(v);
    for (const cJSON *x = *bad ? NULL : v->child; x && !rc; x = x->next) {
        *bad |= !is_path(x);
        if (is_path(x))
            rc = add(r, x->valuestring, dir, why);
    }
    return rc;
}

static bool is_absent(const cJSON *v)
{
    return !v || cJSON_IsNull(v) || (cJSON_IsString(v) && !*v->valuestring) ||
           (cJSON_IsArray(v) && !v->child);
}

/* Cells of CSV files have lists as their JSON. */
static int add_column(vf_row *r, const cJSON *v, const char *dir, bool *bad, vc_err *why)
{
    cJSON *list = NULL;

    if (is_path(v) && *v->valuestring == '[' &&
        vf_json_parse(&list, v->valuestring, strlen(v->valuestring), NULL))
        list = NULL;
    const bool absent = is_absent(list ? list : v);
    int rc = absent ? 0 : add_all(r, list ? list : v, dir, bad, why);
    if (!rc && !absent && !r->references_from && !(r->references_from = strdup(v->string)))
        rc = vc_no_memory(why);
    cJSON_Delete(list);
    return rc;
}

/* The columns that the user names, divided by commas: each has a picture, or a list. */
static int add_named(vf_row *r, const cJSON *o, const char *names, const char *dir, bool *bad,
                     vc_err *why)
{
    int rc = 0;

    for (size_t n; *names && !rc && !*bad; names += n + (names[n] == ',')) {
        n = strcspn(names, ",");
        char *name = strndup(names, n);
        if (!name)
            return vc_no_memory(why);
        rc = add_column(r, cJSON_GetObjectItemCaseSensitive(o, name), dir, bad, why);
        free(name);
    }
    return rc;
}

/* Whether a column begins with a known name: most rows have none, and need no further search. */
static bool may_have_known(const cJSON *o)
{
    const cJSON *v;

    cJSON_ArrayForEach(v, o)
        for (int c = 0; c < COLUMNS; c++)
            if (v->string && !strncmp(v->string, columns[c], strlen(columns[c])))
                return true;
    return false;
}

static int add_known(vf_row *r, const cJSON *o, const char *dir, bool *bad, vc_err *why)
{
    int rc = 0;

    if (!may_have_known(o))
        return 0;
    for (int c = 0; c < COLUMNS && !rc && !r->n_references && !*bad; c++) {
        rc = add_column(r, cJSON_GetObjectItemCaseSensitive(o, columns[c]), dir, bad, why);
        for (int k = 0; k < MOST_NUMBERED && !rc && !*bad; k++) {
            char name[40];
            snprintf(name, sizeof name, "%s_%d", columns[c], k);
            rc = add_column(r, cJSON_GetObjectItemCaseSensitive(o, name), dir, bad, why);
        }
    }
    return rc;
}

bool metadata_is_reference(const char *column)
{
    for (int c = 0; c < COLUMNS; c++)
        if (!strcmp(columns[c], column))
            return true;
    return false;
}

int vf_row_read_references(vf_row *r, const cJSON *o, const char *column, const char *dir,
                           vc_err *why)
{
    bool bad = false;
    int rc = column ? add_named(r, o, column, dir, &bad, why) : add_known(r, o, dir, &bad, why);

    if (rc || bad) {
        char *from = r->references_from;
        r->references_from = NULL;
        vf_row_free_references(r);
        r->references_from = from;
    }
    if (bad && !rc)
        r->n_references = -1;
    return rc;
}
