/* segments.c - reads the captions of a clip's segments, and the flags of scenes; see metadata.h */
#include "formats/metadata/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"

static const char chunks[] = "text_chunks";
static const char *const scene_columns[2] = { "scene_start", "scene_end" };

/* ---- captions ---- */

static int add_segment(vf_row *r, const cJSON *v, const char *column, vc_err *why)
{
    if (!cJSON_IsString(v))
        return vc_fail(why, VC_EFORMAT, "%s: expected a list of strings, one for each segment of "
                       "the clip", column);
    r->segments++;
    return metadata_append(&r->captions, &r->n_captions, v->valuestring, strlen(v->valuestring),
                           why);
}

static int add_list(vf_row *r, const cJSON *list, vc_err *why)
{
    int n = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0, rc = 0;

    if (n < 1 || n > VF_MAX_SEGMENTS)
        return vc_fail(why, VC_EFORMAT, "%s: expected a list of 1 to %d strings, one for each "
                       "segment of the clip", chunks, VF_MAX_SEGMENTS);
    for (const cJSON *v = list->child; v && !rc; v = v->next)
        rc = add_segment(r, v, chunks, why);
    return rc;
}

/* Reads text_0, text_1, ..., as many as the row has. */
static int add_numbered(vf_row *r, const cJSON *o, vc_err *why)
{
    char column[24] = "text_0";
    const cJSON *v;
    int rc = 0;

    while (!rc && (v = cJSON_GetObjectItemCaseSensitive(o, column)) && !cJSON_IsNull(v)) {
        if (r->segments == VF_MAX_SEGMENTS)
            return vc_fail(why, VC_EFORMAT, "%s: more than %d segments", column, VF_MAX_SEGMENTS);
        rc = add_segment(r, v, column, why);
        snprintf(column, sizeof column, "text_%d", r->segments);
    }
    if (!rc && !r->segments)
        rc = vc_fail(why, VC_EFORMAT, "%s: missing, but the row has scene_start or scene_end: "
                     "expected text_0, text_1, ..., or the list %s", column, chunks);
    return rc;
}

/* ---- scenes ---- */

/* Reads the flag of segment i: of the only segment a boolean, else the element of a list. */
static int read_flag(const cJSON *flags, const char *column, int i, int n, bool *flag, vc_err *why)
{
    const cJSON *v = n == 1 && cJSON_IsBool(flags) ? flags : cJSON_GetArrayItem(flags, i);

    *flag = false;
    if (!flags || cJSON_IsNull(flags))
        return 0;
    if (v != flags && cJSON_GetArraySize(flags) != n)
        return vc_fail(why, VC_EFORMAT, "%s: %d values for %d segments: expected a list of one "
                       "boolean for each segment", column, cJSON_GetArraySize(flags), n);
    if (!cJSON_IsBool(v))
        return vc_fail(why, VC_EFORMAT, "%s: expected booleans", column);
    *flag = cJSON_IsTrue(v);
    return 0;
}

/* Adds the scene tokens to the captions of segments that begin or end a scene. */
static int mark_scenes(vf_row *r, const cJSON *const flags[2], vc_err *why)
{
    for (int i = 0; i < r->segments; i++) {
        bool is[2];
        for (int k = 0; k < 2; k++) {
            int rc = read_flag(flags[k], scene_columns[k], i, r->segments, &is[k], why);
            if (rc)
                return rc;
        }
        char *marked = vc_format("%s%s%s", is[0] ? VF_SCENE_START : "", r->captions[i],
                                 is[1] ? VF_SCENE_END : "");
        if (!marked)
            return vc_no_memory(why);
        free(r->captions[i]);
        r->captions[i] = marked;
    }
    return 0;
}

static int say_from(vf_row *r, const char *column, vc_err *why)
{
    r->caption_from = strdup(column);
    return r->caption_from ? 0 : vc_no_memory(why);
}

int metadata_read_segments(vf_row *r, const cJSON *o, const vf_metadata_opts *opts, vc_err *why)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(o, chunks);
    const cJSON *text = cJSON_GetObjectItemCaseSensitive(o, "text"), *flags[2];
    int rc;

    for (int k = 0; k < 2; k++)
        flags[k] = cJSON_GetObjectItemCaseSensitive(o, scene_columns[k]);
    const bool listed = list && !cJSON_IsNull(list), scenes = flags[0] || flags[1];
    if ((!listed && !scenes) || (opts->caption_columns &&
                                 !metadata_listed(opts->caption_columns, chunks)))
        return 0;
    if (listed)
        rc = add_list(r, list, why);
    else if (cJSON_IsString(text))
        rc = add_segment(r, text, "text", why);
    else
        rc = add_numbered(r, o, why);
    if (!rc)
        rc = mark_scenes(r, flags, why);
    return rc ? rc : say_from(r, listed ? chunks : cJSON_IsString(text) ? "text" : "text_0", why);
}
