/* prompt_lines.c - see prompt_lines.h */
#include "precompute/run/prompt_lines.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/utf8.h"
#include "common/os/file.h"

enum { MAX_BYTES = 64 << 20 };
static const char BLANKS[] = " \t\r\v\f";

/* Options, the columns that they are, and their names in .json and .toml where these differ. A
 * weight of guidance has two: that of the negative prompt, and that of models which take it as an
 * input; a model has one of the two. */
static const struct option {
    const char *name, *column, *key[2];
} options[] = {
    { "w", "width", { 0 } }, { "h", "height", { 0 } }, { "d", "seed", { 0 } },
    { "f", "num_frames", { "frame_count" } }, { "s", "num_inference_steps", { "sample_steps" } },
    { "l", "cfg", { "cfg_scale", "scale" } }, { "g", "embedded", { 0 } },
    { "n", "negative_prompt", { 0 } }, { "i", "image_path", { 0 } },
    { "ei", "last_image_path", { "end_image_path" } },
    { "cn", "control_file_path", { "control_video_path" } },
    { "ci", "edit_image", { "control_image_path" } },
};
enum { OPTIONS = sizeof options / sizeof *options };

/* Keys whose values are the run's here. */
static const char *const others[] = {
    "discrete_flow_shift", "flow_shift", "sample_sampler", "one_frame", "cfg_trunc_ratio",
    "renorm_cfg", "additional_network_multiplier",
};

/* Makes a list of the column's value. */
static cJSON *make_list(cJSON *row, const char *column)
{
    cJSON *value = cJSON_DetachItemFromObjectCaseSensitive(row, column);
    cJSON *list = cJSON_CreateArray();
    if (!list || !cJSON_AddItemToObject(row, column, list)) {
        cJSON_Delete(list);
        cJSON_Delete(value);
        return NULL;
    }
    cJSON_AddItemToArray(list, value);
    return list;
}

/* Adds an option's value; several of "ci" are a list, and of others the last one counts. */
static int add_option(cJSON *row, const char *column, const char *value, vc_err *err)
{
    cJSON *had = cJSON_GetObjectItemCaseSensitive(row, column);
    if (had && !strcmp(column, "edit_image")) {
        cJSON *text = cJSON_CreateString(value);
        cJSON *list = !text || cJSON_IsArray(had) ? had : make_list(row, column);
        if (text && list && cJSON_AddItemToArray(list, text))
            return 0;
        cJSON_Delete(text);
        return vc_no_memory(err);
    }
    cJSON_DeleteItemFromObjectCaseSensitive(row, column);
    return cJSON_AddStringToObject(row, column, value) ? 0 : vc_no_memory(err);
}

static char *trim(char *s)
{
    s += strspn(s, BLANKS);
    for (size_t n = strlen(s); n && strchr(BLANKS, s[n - 1]); n--)
        s[n - 1] = '\0';
    return s;
}

static int take_option(cJSON *row, char *text, vc_err *err)
{
    char *value = text + strcspn(text, BLANKS);
    if (*value)
        *value++ = '\0';
    value = trim(value);
    for (size_t i = 0; i < OPTIONS; i++)
        if (!strcasecmp(options[i].name, text))
            return *value ? add_option(row, options[i].column, value, err)
                          : vc_fail(err, VC_EFORMAT, "--%s: no value behind it", text);
    return vc_fail(err, VC_EFORMAT, "--%.40s: options of a prompt are --w, --h, --f, --d (seed), "
                   "--s (steps), --g, --l (guidance), --n (negative prompt), --i, --ei, --cn and "
                   "--ci (files): the flags of vtrain give the rest", text);
}

static bool is_one(const cJSON *weight)
{
    return cJSON_IsString(weight) ? strtod(weight->valuestring, NULL) == 1
                                  : cJSON_IsNumber(weight) && weight->valuedouble == 1;
}

/* Makes one guidance_scale of the two: a weight of 1 is no guidance. */
static int take_guidance(cJSON *row, vc_err *err)
{
    cJSON *cfg = cJSON_DetachItemFromObjectCaseSensitive(row, "cfg");
    cJSON *embedded = cJSON_DetachItemFromObjectCaseSensitive(row, "embedded");
    const bool both = cfg && embedded && !is_one(cfg) && !is_one(embedded);
    cJSON *one = cfg && !(embedded && is_one(cfg)) ? cfg : embedded;
    cJSON *other = one == cfg ? embedded : cfg;
    const bool added = !both && one && cJSON_AddItemToObject(row, "guidance_scale", one);
    cJSON_Delete(other);
    if (!added)
        cJSON_Delete(one);
    if (!both && one && !added)
        return vc_no_memory(err);
    return both ? vc_fail(err, VC_EFORMAT, "--g and --l: a prompt has one guidance_scale: leave "
                          "one out (vtrain --true_cfg_scale is --l of models that take --g)") : 0;
}

static int take_line(char *line, int64_t number, const vf_table_sink *sink, vc_err *err)
{
    cJSON *row = cJSON_CreateObject();
    char *next = strstr(line, " --");
    int rc = row ? 0 : vc_no_memory(err);
    if (next) {
        *next = '\0';
        next += 3;
    }
    if (!rc && !cJSON_AddStringToObject(row, "prompt", trim(line)))
        rc = vc_no_memory(err);
    while (!rc && next) {
        char *option = next;
        next = strstr(option, " --");
        if (next) {
            *next = '\0';
            next += 3;
        }
        rc = take_option(row, option, err);
    }
    if (!rc)
        rc = take_guidance(row, err);
    if (!rc)
        rc = sink->row(sink->arg, number, row, NULL, err);
    cJSON_Delete(row);
    return rc;
}

int vprep_prompt_line(const char *line, int64_t number, const vf_table_sink *sink, vc_err *err)
{
    char *own = strdup(line);
    int rc = own ? take_line(trim(own), number, sink, err) : vc_no_memory(err);
    free(own);
    return rc;
}

/* ---- names in .json and .toml ---- */

static const char *column_of(const char *key)
{
    for (size_t i = 0; i < OPTIONS; i++)
        for (int k = 0; k < 2; k++)
            if (options[i].key[k] && !strcmp(options[i].key[k], key))
                return options[i].column;
    return NULL;
}

static int rename_item(cJSON *row, const char *from, const char *to, vc_err *err)
{
    if (cJSON_GetObjectItemCaseSensitive(row, from) && cJSON_GetObjectItemCaseSensitive(row, to))
        return vc_fail(err, VC_EFORMAT, "%s: the row has %s too: leave one out", from, to);
    cJSON *item = cJSON_DetachItemFromObjectCaseSensitive(row, from);
    if (!item || cJSON_AddItemToObject(row, to, item))
        return 0;
    cJSON_Delete(item);
    return vc_no_memory(err);
}

/* Of a row's field: the programs, too, take it as one that is not there. */
static bool is_blank(const cJSON *f)
{
    return cJSON_IsNull(f) || (cJSON_IsString(f) && !*f->valuestring);
}

static bool is_other(const char *key)
{
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!strcmp(others[i], key))
            return true;
    return false;
}

int vprep_prompt_names(cJSON *row, vc_err *err)
{
    int rc = 0;
    bool named = false;
    for (cJSON *f = row->child, *next; !rc && f; f = next) {
        const char *column = column_of(f->string);
        const bool other = is_other(f->string);
        next = f->next;
        if (is_blank(f) && (column || other || !strcmp(f->string, "guidance_scale"))) {
            cJSON_Delete(cJSON_DetachItemViaPointer(row, f));
            continue;
        }
        named = named || (column && !strcmp(column, "cfg"));
        if (other)
            rc = vc_fail(err, VC_EFORMAT, "%s: all prompts of a run have the same: leave it out, "
                         "and see the flags of vtrain", f->string);
        else if (column)
            rc = rename_item(row, f->string, column, err);
    }
    if (rc || !named)
        return rc;
    rc = rename_item(row, "guidance_scale", "embedded", err);
    return rc ? rc : take_guidance(row, err);
}

static int take_all(char *all, size_t n, const vf_table_sink *sink, vc_err *err)
{
    int64_t number = 0, line = 0;
    for (size_t at = n >= 3 && !memcmp(all, "\xef\xbb\xbf", 3) ? 3 : 0; at < n;) {
        char *from = all + at, *end = memchr(from, '\n', n - at);
        const size_t length = end ? (size_t)(end - from) : n - at;
        at += length + 1;
        from[length] = '\0';
        line++;
        int rc = vc_utf8_check(from, length, err);
        char *text = rc ? NULL : trim(from);
        if (text && *text && *text != '#')
            rc = take_line(text, ++number, sink, err);
        if (rc)
            return vc_context(err, rc, "line %lld", (long long)line);
    }
    return number ? 0 : vc_fail(err, VC_EFORMAT, "no prompts: one is expected a line");
}

int vprep_prompt_lines(const char *path, const vf_table_sink *sink, vc_err *err)
{
    char *all = NULL;
    size_t n = 0;
    int rc = vc_file_read(&all, &n, path, MAX_BYTES, err);
    if (!rc)
        rc = vc_utf16_check(all, n < 4 ? n : 4, err);
    if (!rc)
        rc = take_all(all, n, sink, err);
    free(all);
    return vc_context(err, rc, "%s", path);
}
