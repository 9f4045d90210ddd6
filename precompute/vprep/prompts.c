/* prompts.c - the list of validation prompts; see prompts.h */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/columnar/columnar.h"
#include "formats/json/table.h"
#include "precompute/encode/prompt_clips.h"
#include "precompute/encode/prompt_images.h"
#include "precompute/run/prompt_lines.h"
#include "precompute/vprep/segments.h"

enum { MAX_PROMPTS = 10000 };

/* Columns that are numbers in every format, in the bounds that vtrain accepts. */
static const struct number {
    const char *name;
    bool whole;
    double least, most;
} numbers[] = {
    { "height", true, 0, 65536 }, { "width", true, 0, 65536 }, { "num_frames", true, 0, 65536 },
    { "overlap_history", true, 0, 65536 }, { "frame_rate", false, 0, 1e6 },
    { "fps", false, 0, 1e6 },
    { "num_inference_steps", true, 0, 1000 }, { "guidance_scale", false, 0, 100 },
    { "seed", true, -1, 9007199254740992 },
};
static const char *const prompt_columns[] = { "prompt", "caption", "text", NULL };
/* Fields of the record that vprep fills, which the list must not have. */
static const char *const own_columns[] = { "keys", "negative_keys", "conditions", "segments",
                                           "text_chunks", "negative_segments", NULL };
static const char *const image_columns[] = { "image_path", "image", "input_image",
                                             "flux_fill_image", NULL };
static const char *const mask_columns[] = { "mask_file_path", "flux_fill_mask",
                                            "blockwise_controlnet_inpaint_mask",
                                            "controlnet_inpaint_mask", NULL };

static bool listed(const char *const *list, const char *name)
{
    while (*list && strcmp(*list, name))
        list++;
    return *list != NULL;
}

static const struct number *number_column(const char *name)
{
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!strcmp(numbers[i].name, name))
            return &numbers[i];
    return NULL;
}

/* Adds a number, or a text that is one; an empty field of a CSV adds nothing. */
static int add_number(cJSON *clean, const struct number *k, const cJSON *f, int64_t row,
                      vc_err *err)
{
    char *end = NULL;
    bool text = cJSON_IsString(f);

    if (cJSON_IsNull(f) || (text && !*f->valuestring))
        return 0;
    double x = cJSON_IsNumber(f) ? f->valuedouble : text ? strtod(f->valuestring, &end) : NAN;
    if (!isfinite(x) || (text && (end == f->valuestring || *end)))
        return vc_fail(err, VC_EFORMAT, "row %lld: %s: \"%.40s\" is no number", (long long)row,
                       k->name, text ? f->valuestring : "?");
    if (x < k->least || x > k->most || (k->whole && x != floor(x)))
        return vc_fail(err, VC_EFORMAT, "row %lld: %s: %.16g is no %s in %.16g..%.16g",
                       (long long)row, k->name, x, k->whole ? "whole number" : "number", k->least,
                       k->most);
    cJSON_AddNumberToObject(clean, k->name, x);
    return 0;
}

/* Adds the texts of segments as a list, and joined, a line each, as the text that people see. */
static int add_texts(cJSON *clean, const char *list, const char *text, const cJSON *chunks,
                     vc_err *err)
{
    char *all = NULL;
    const cJSON *c;

    cJSON_ArrayForEach(c, chunks) {
        char *more = all ? vc_format("%s\n%s", all, c->valuestring) : strdup(c->valuestring);
        free(all);
        all = more;
        if (!all)
            return vc_no_memory(err);
    }
    cJSON_AddStringToObject(clean, text, all);
    free(all);
    cJSON_AddItemToObject(clean, list, cJSON_Duplicate(chunks, true));
    return 0;
}

static bool are_texts(const cJSON *chunks)
{
    const cJSON *c;
    bool texts = cJSON_IsArray(chunks);

    cJSON_ArrayForEach(c, chunks)
        texts = texts && cJSON_IsString(c);
    return texts;
}

/* Adds the captions of segments in the fields of a sample's record, and the frames of as many
 * segments. */
static int add_segments(cJSON *clean, const cJSON *chunks, int64_t row, vc_err *err)
{
    const int n = cJSON_GetArraySize(chunks), frames = n * VPREP_SEGMENT_FRAMES + 1;
    const cJSON *given;

    if (!are_texts(chunks) || n < 1 || n > VF_MAX_SEGMENTS)
        return vc_fail(err, VC_EFORMAT, "row %lld: text_chunks: expected a list of 1 to %d strings",
                       (long long)row, VF_MAX_SEGMENTS);
    int rc = add_texts(clean, "segments", "prompt", chunks, err);
    if (rc)
        return rc;
    cJSON_AddNumberToObject(clean, "text_chunks", n);
    given = cJSON_GetObjectItemCaseSensitive(clean, "num_frames");
    if (!given)
        cJSON_AddNumberToObject(clean, "num_frames", frames);
    else if (given->valuedouble != frames)
        return vc_fail(err, VC_EFORMAT, "row %lld: num_frames: %.16g, but the %d captions of "
                       "text_chunks are %d frames: leave num_frames out", (long long)row,
                       given->valuedouble, n, frames);
    return 0;
}

/* Adds a negative prompt: one text, of all segments, or a list with a text for each of the n
 * segments (0: the prompt has none). */
static int add_negative(cJSON *clean, const cJSON *negative, int n, int64_t row, vc_err *err)
{
    const int has = cJSON_GetArraySize(negative);

    if (cJSON_IsString(negative) && !*negative->valuestring)
        return 0;                                /* an empty field of a table */
    if (cJSON_IsString(negative) || cJSON_IsNull(negative)) {
        cJSON_AddItemToObject(clean, negative->string, cJSON_Duplicate(negative, true));
        return 0;
    }
    if (!are_texts(negative))
        return vc_fail(err, VC_EFORMAT, "row %lld: negative_prompt: expected a text, or a list of "
                       "strings, one for each segment of text_chunks", (long long)row);
    if (!n || has != n)
        return vc_fail(err, VC_EFORMAT, "row %lld: negative_prompt: a list of %d texts, but the "
                       "prompt has %d segments (text_chunks): give one text for all, or a text "
                       "for each segment", (long long)row, has, n);
    return add_texts(clean, "negative_segments", "negative_prompt", negative, err);
}

static int refuse_bytes(const char *column, int64_t row, vc_err *err)
{
    return vc_fail(err, VC_EFORMAT, "row %lld: %s: bytes in a column are not read here: "
                   VF_COLUMNAR_UNPACK, (long long)row, column);
}

/* Adds the path of a row's column under the name of the first one of its kind. */
static void add_path(cJSON *clean, const char *name, const cJSON *f)
{
    if (cJSON_IsString(f) && *f->valuestring && !cJSON_HasObjectItem(clean, name))
        cJSON_AddStringToObject(clean, name, f->valuestring);
}

/* A row's caption becomes "prompt", its first frame "image_path", its mask "mask_file_path", and
 * texts of numbers numbers. */
static int add_named(vprep_prompts *v, const cJSON *o, int64_t row, vc_err *err)
{
    const cJSON *chunks = cJSON_GetObjectItemCaseSensitive(o, "text_chunks");
    const char *prompt = NULL;
    int rc = 0;

    if (cJSON_IsNull(chunks) || (cJSON_IsString(chunks) && !*chunks->valuestring))
        chunks = NULL;                           /* an empty field of a table */
    for (int i = 0; !prompt && prompt_columns[i]; i++) {
        const cJSON *s = cJSON_GetObjectItemCaseSensitive(o, prompt_columns[i]);
        prompt = cJSON_IsString(s) ? s->valuestring : NULL;
    }
    if (!prompt && !chunks)
        return vc_fail(err, VC_EFORMAT, "row %lld: no prompt (a column prompt, caption or text, or "
                       "text_chunks)", (long long)row);
    cJSON *clean = cJSON_CreateObject();
    if (!chunks)
        cJSON_AddStringToObject(clean, "prompt", prompt);
    for (const cJSON *f = o->child; !rc && f; f = f->next) {
        if (listed(prompt_columns, f->string) || listed(own_columns, f->string))
            continue;
        if (vf_columnar_has_cell(f)) {
            rc = listed(image_columns, f->string) || listed(mask_columns, f->string)
                 ? refuse_bytes(f->string, row, err) : 0;
            continue;
        }
        const struct number *k = number_column(f->string);
        if (k)
            rc = add_number(clean, k, f, row, err);
        else if (!strcmp(f->string, "negative_prompt"))
            rc = add_negative(clean, f, cJSON_GetArraySize(chunks), row, err);
        else if (listed(image_columns, f->string)) {
            add_path(clean, image_columns[0], f);
        } else if (listed(mask_columns, f->string)) {
            add_path(clean, mask_columns[0], f);
        } else if (!cJSON_IsString(f) || *f->valuestring) {
            cJSON_AddItemToObject(clean, f->string, cJSON_Duplicate(f, true));
        }
    }
    if (!rc && chunks)
        rc = add_segments(clean, chunks, row, err);
    if (rc) {
        cJSON_Delete(clean);
        return rc;
    }

    cJSON **grown = realloc(v->row, ((size_t)v->n + 1) * sizeof *grown);
    if (!grown || v->n == MAX_PROMPTS) {
        v->row = grown ? grown : v->row;
        cJSON_Delete(clean);
        return vc_fail(err, VC_EINVAL, "row %lld: more than %d prompts", (long long)row,
                       MAX_PROMPTS);
    }
    v->row = grown;
    v->row[v->n++] = clean;
    return 0;
}

/* Adds a row, whose columns may have other programs' names. */
static int add_row(vprep_prompts *v, const cJSON *o, int64_t row, vc_err *err)
{
    cJSON *named = cJSON_Duplicate(o, true);
    int rc = named ? vprep_prompt_names(named, err) : vc_no_memory(err);
    if (rc)
        vc_context(err, rc, "row %lld", (long long)row);
    else
        rc = add_named(v, named, row, err);
    cJSON_Delete(named);
    return rc;
}

static int table_row(void *arg, int64_t number, const cJSON *o, const char *bad, vc_err *err)
{
    if (bad)
        return vc_fail(err, VC_EFORMAT, "row %lld: %s", (long long)number, bad);
    return add_row(arg, o, number, err);
}

/* Finetrainers' format: an object that has the rows in `data`. */
static int read_wrapped(vprep_prompts *v, const cJSON *o, vc_err *err)
{
    const cJSON *rows, *row;
    int64_t number = 0;
    int rc = vf_json_arr(o, "data", &rows, err);

    if (rc)
        return rc;
    cJSON_ArrayForEach(row, rows)
    {
        number++;
        rc = cJSON_IsObject(row) ? add_row(v, row, number, err)
                                 : vc_fail(err, VC_EFORMAT, "row %lld: expected an object",
                                           (long long)number);
        if (rc)
            return rc;
    }
    return 0;
}

/* musubi-tuner's list: of rows, and of lines as in a .txt. */
static int read_lines(vprep_prompts *v, const cJSON *list, vc_err *err)
{
    const vf_table_sink sink = { .row = table_row, .arg = v };
    const cJSON *item;
    int64_t number = 0;
    int rc = 0;

    cJSON_ArrayForEach(item, list) {
        number++;
        rc = cJSON_IsString(item)   ? vprep_prompt_line(item->valuestring, number, &sink, err)
             : cJSON_IsObject(item) ? add_row(v, item, number, err)
                                    : vc_fail(err, VC_EFORMAT, "row %lld: expected an object or a "
                                              "prompt", (long long)number);
        if (rc)
            return rc;
    }
    return 0;
}

static bool has_line(const cJSON *list)
{
    const cJSON *item;

    cJSON_ArrayForEach(item, list)
        if (cJSON_IsString(item))
            return true;
    return false;
}

static int read_list(vprep_prompts *v, const char *path, vc_err *err)
{
    if (vf_columnar_named(path))
        return vf_columnar_read(path, &(vf_columnar_sink){ .row = table_row, .arg = v }, err);
    const vf_table_sink sink = { .row = table_row, .arg = v };
    const char *ext = vc_path_ext(path);
    return !strcasecmp(ext, ".txt")    ? vprep_prompt_lines(path, &sink, err)
           : !strcasecmp(ext, ".toml") ? vprep_prompt_toml(path, &sink, err)
                                       : vf_table_read(path, &sink, err);
}

int vprep_prompts_read(vprep_prompts *v, const char *path, vc_err *err)
{
    *v = (vprep_prompts){ 0 };

    cJSON *o = NULL;
    bool json = !strcasecmp(vc_path_ext(path), ".json");
    int rc = json ? vf_json_read(&o, path, 64 << 20, err) : 0;
    if (!rc)
        rc = cJSON_IsObject(o) ? read_wrapped(v, o, err)
             : has_line(o)     ? read_lines(v, o, err)
                               : read_list(v, path, err);
    if (!rc && !v->n)
        rc = vc_fail(err, VC_EFORMAT, "no prompts: leave the flag out, or give a list with a row");
    cJSON_Delete(o);
    if (rc)
        vprep_prompts_free(v);
    return vc_context(err, rc, "--validation_prompts %s", path);
}

void vprep_prompts_free(vprep_prompts *v)
{
    vprep_prompt_clips_free(v);
    vprep_prompt_images_free(v);
    for (int i = 0; i < v->n; i++)
        cJSON_Delete(v->row[i]);
    free(v->row);
    *v = (vprep_prompts){ 0 };
}
