/* annotations.c - reads ttt-video's annotations, an object with an object for each segment: see
 * metadata.h */
#include "formats/metadata/parts.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/os/file.h"
#include "formats/json/json.h"
#include "formats/json/table.h"
#include "formats/keys/keymap.h"

enum { MAX_LIST = 1 << 30 };

/* Columns of a segment, and those of a row in which a clip's segments have them. */
static const char *const from[] = { "text", "scene_start", "scene_end" };
static const char *const to[] = { "text_chunks", "scene_start", "scene_end" };

int metadata_is_annotations(bool *is, const char *path, vc_err *err)
{
    vf_table_form form = VF_TABLE_OTHER;
    int rc = strcasecmp(vc_path_ext(path), ".json") ? 0 : vf_table_look(&form, path, err);

    *is = !rc && form == VF_TABLE_OBJECT;
    return rc;
}

/* Adds a segment to the row of its clip. */
static int add_segment(cJSON *row, const cJSON *segment, vc_err *err)
{
    for (int i = 0; i < 3; i++) {
        const cJSON *v = cJSON_GetObjectItemCaseSensitive(segment, from[i]);
        cJSON *list = cJSON_GetObjectItemCaseSensitive(row, to[i]);
        if (!list)
            list = cJSON_AddArrayToObject(row, to[i]);
        if (!list || !cJSON_AddItemToArray(list, v ? cJSON_Duplicate(v, true)
                                                 : i ? cJSON_CreateFalse() : cJSON_CreateNull()))
            return vc_no_memory(err);
    }
    return 0;
}

/* Finds or makes the row of the segment's clip in the list of rows. */
static int row_of(cJSON **row, cJSON *rows, vf_keymap *places, const cJSON *segment, vc_err *err)
{
    const cJSON *mp4 = cJSON_GetObjectItemCaseSensitive(segment, "mp4");
    uint64_t at;

    if (!cJSON_IsString(mp4))
        return vc_fail(err, VC_EFORMAT, "%.80s: expected an array of rows, or ttt-video's object "
                       "of segments with mp4 and text (one row a line is a .jsonl file)",
                       segment->string ? segment->string : "?");
    const vf_key key = vf_hash(mp4->valuestring, strlen(mp4->valuestring));
    if (vf_keymap_get(places, key, &at)) {
        *row = (cJSON *)(uintptr_t)at;
        return 0;
    }
    *row = cJSON_CreateObject();
    if (!*row || !cJSON_AddStringToObject(*row, "mp4", mp4->valuestring)) {
        cJSON_Delete(*row);
        return vc_no_memory(err);
    }
    cJSON_AddItemToArray(rows, *row);
    return vf_keymap_put(places, key, (uint64_t)(uintptr_t)*row, err);
}

static int collect(cJSON *rows, const cJSON *all, vc_err *err)
{
    vf_keymap places = { 0 };
    cJSON *row = NULL;
    int rc = 0;

    for (const cJSON *v = all->child; v && !rc; v = v->next) {
        rc = row_of(&row, rows, &places, v, err);
        if (!rc)
            rc = add_segment(row, v, err);
    }
    vf_keymap_free(&places);
    return rc;
}

int metadata_read_annotations(metadata_list *l, const char *path, vc_err *err)
{
    cJSON *all = NULL, *rows = cJSON_CreateArray();
    int rc = rows ? vf_json_read(&all, path, MAX_LIST, err) : vc_no_memory(err);

    if (!rc)
        rc = vc_context(err, collect(rows, all, err), "%s", path);
    for (const cJSON *v = rows ? rows->child : NULL; v && !rc; v = v->next)
        rc = metadata_take_row(l, l->list.n + 1, v, NULL, err);
    cJSON_Delete(rows);
    cJSON_Delete(all);
    return rc;
}
