/* prompt_lines.c - see prompt_lines.h */
#include "precompute/run/prompt_lines.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/utf8.h"
#include "common/os/file.h"

enum { MAX_BYTES = 64 << 20 };
static const char BLANKS[] = " \t\r\v\f";

/* Options and the columns that they are. A weight of guidance has two: that of the negative prompt,
 * and that of models which take it as an input; a model has one of the two. */
static const struct option {
    const char *name, *column;
} options[] = {
    { "w", "width" }, { "h", "height" }, { "f", "num_frames" }, { "d", "seed" },
    { "s", "num_inference_steps" }, { "l", "cfg" }, { "g", "embedded" },
    { "n", "negative_prompt" }, { "i", "image_path" }, { "ei", "last_image_path" },
    { "cn", "control_file_path" }, { "ci", "edit_image" },
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
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (!strcasecmp(options[i].name, text))
            return *value ? add_option(row, options[i].column, value, err)
                          : vc_fail(err, VC_EFORMAT, "--%s: no value behind it", text);
    return vc_fail(err, VC_EFORMAT, "--%.40s: options of a prompt are --w, --h, --f, --d (seed), "
                   "--s (steps), --g, --l (guidance), --n (negative prompt), --i, --ei, --cn and "
                   "--ci (files): the flags of vtrain give the rest", text);
}

/* Makes one guidance_scale of the two: a weight of 1 is no guidance. */
static int take_guidance(cJSON *row, vc_err *err)
{
    cJSON *cfg = cJSON_DetachItemFromObjectCaseSensitive(row, "cfg");
    cJSON *embedded = cJSON_DetachItemFromObjectCaseSensitive(row, "embedded");
    const bool no_cfg = cfg && strtod(cfg->valuestring, NULL) == 1;
    const bool no_embedded = embedded && strtod(embedded->valuestring, NULL) == 1;
    const bool both = cfg && embedded && !no_cfg && !no_embedded;
    cJSON **one = cfg && !(embedded && no_cfg) ? &cfg : &embedded;
    int rc = both || !*one ? 0 : add_option(row, "guidance_scale", (*one)->valuestring, err);
    cJSON_Delete(cfg);
    cJSON_Delete(embedded);
    if (rc)
        return rc;
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
