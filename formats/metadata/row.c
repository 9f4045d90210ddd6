/* row.c - reads the columns of one row into its fields; see metadata.h.
 *
 * A function that fails with VC_ENOMEM ends the whole reading; another code makes the row bad, with
 * the reason in `why`. Fields that were read before stay, so that a bad row still has its path. */
#include "formats/metadata/parts.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/buf.h"
#include "common/os/file.h"
#include "formats/columnar/columnar.h"
#include "formats/json/json.h"

/* ---- the medium ---- */

static const struct {
    const char *column;
    vf_type type;
    bool by_name;                      /* the file's ending gives the type, not `type` above */
} media[] = {
    { "file_path", VF_TYPE_UNKNOWN, false },
    { "video", VF_TYPE_VIDEO, false },
    { "image", VF_TYPE_IMAGE, false },
    { "media_path", VF_TYPE_UNKNOWN, true },
    { "file_name", VF_TYPE_UNKNOWN, true },
};
/* Columns for rows that have none of `media`, in upper or lower case; the first five have the names
 * of `media`. */
static const struct {
    const char *column;
    vf_type type;
} other_media[] = {
    { "file_path", VF_TYPE_UNKNOWN }, { "video", VF_TYPE_VIDEO }, { "image", VF_TYPE_IMAGE },
    { "media_path", VF_TYPE_UNKNOWN }, { "file_name", VF_TYPE_UNKNOWN },
    { "video_path", VF_TYPE_VIDEO }, { "image_path", VF_TYPE_IMAGE }, { "mp4", VF_TYPE_VIDEO },
    { "path", VF_TYPE_UNKNOWN },
};
enum { N_MEDIA = sizeof media / sizeof *media,
       N_OTHER_MEDIA = sizeof other_media / sizeof *other_media };

/* Whether --data_file_keys names the column as one of media: it names those of reference pictures
 * too. */
static bool is_key(const vf_metadata_opts *opts, const char *column)
{
    const char *references = opts->reference_column;
    return metadata_listed(opts->file_keys, column) && !metadata_listed(references, column) &&
           (references || !metadata_is_reference(column));
}

bool metadata_is_medium(const vf_metadata_opts *opts, const char *column)
{
    if (opts->image_column)
        return !strcmp(opts->image_column, column);
    for (int i = 0; i < N_MEDIA; i++)
        if (!strcmp(media[i].column, column))
            return true;
    for (int i = 0; i < N_OTHER_MEDIA; i++)
        if (!strcasecmp(other_media[i].column, column))
            return true;
    return is_key(opts, column);
}

static bool no_value(const cJSON *v)
{
    return !v || cJSON_IsNull(v) || (cJSON_IsString(v) && !*v->valuestring);
}

static const cJSON *member(const cJSON *v, const char *name)
{
    return cJSON_IsObject(v) ? cJSON_GetObjectItemCaseSensitive(v, name) : NULL;
}

/* A medium of Hugging Face's datasets, {bytes, path}, is empty if it has neither. */
static bool empty(const cJSON *v)
{
    if (member(v, "bytes") || member(v, "path"))
        return no_value(member(v, "bytes")) && no_value(member(v, "path"));
    return no_value(v);
}

/* Returns the column that holds the row's medium, or NULL. */
static const cJSON *find_medium(const cJSON *o, const vf_metadata_opts *opts, vf_type *type,
                                bool *by_name)
{
    *type = VF_TYPE_UNKNOWN;
    *by_name = true;
    if (opts->image_column) {
        const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, opts->image_column);
        return empty(v) ? NULL : v;
    }
    for (int i = 0; i < N_MEDIA; i++) {
        const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, media[i].column);
        *type = media[i].type;
        *by_name = media[i].by_name;
        if (!empty(v))
            return v;
    }
    *by_name = true;
    for (const cJSON *v = o->child; v; v = v->next)
        if (!empty(v) && is_key(opts, v->string))
            return v;
    for (int i = 0; i < N_OTHER_MEDIA; i++) {
        const cJSON *v = cJSON_GetObjectItem(o, other_media[i].column);
        *type = other_media[i].type;
        *by_name = *type == VF_TYPE_UNKNOWN;
        if (!empty(v))
            return v;
    }
    return NULL;
}

/* Looks the path up in videos/ beside the list: FastVideo's paths are relative to that folder. */
static int look_in_videos(vf_row *r, const char *dir, vc_err *why)
{
    char *below, *file;

    if (*r->path == '/' || vc_file_exists(r->file))
        return 0;
    if (!(below = vc_path_join("videos", r->path)))
        return vc_no_memory(why);
    file = vc_path_join(dir, below);
    free(below);
    if (!file)
        return vc_no_memory(why);
    if (vc_file_exists(file)) {
        char *other = r->file;
        r->file = file;
        file = other;
    }
    free(file);
    return 0;
}

static int no_medium(const cJSON *o, const vf_metadata_opts *opts, vc_err *why)
{
    vc_buf found = { 0 };

    for (const cJSON *v = o->child; v; v = v->next)
        vc_buf_printf(&found, "%s%.40s", v == o->child ? "" : ", ", v->string);
    char *text = vc_buf_take(&found);
    const char *has = text && *text ? text : "nothing";
    int rc = opts->image_column
             ? vc_fail(why, VC_EFORMAT, "no medium: the column %s of --image_column is not given; "
                       "found: %.300s", opts->image_column, has)
             : vc_fail(why, VC_EFORMAT, "no medium: none of " METADATA_MEDIA " is given; found: "
                       "%.300s; --data_file_keys names other columns", has);
    free(text);
    return rc;
}

/* Takes bytes of the list's own file as the medium; their name is the end of the path, if any. */
static int take_cell(vf_row *r, const char *column, const vf_cell *cell, const cJSON *name,
                     bool by_name, vc_err *why)
{
    const char *path = cJSON_IsString(name) ? name->valuestring : "", *base = vc_path_base(path);
    int rc = metadata_copy(&r->path, base, strlen(base), why);

    r->at = cell->at;
    r->size = cell->size;
    r->column = cell->column;
    if (!rc && cell->column < 0)
        rc = vc_fail(why, VC_EFORMAT, "%s: bytes in a compressed Arrow file are not read: "
                     VF_COLUMNAR_UNPACK, column);
    else if (!rc && !cell->size && !cell->column)
        rc = vc_fail(why, VC_EFORMAT, "%s: it has no bytes", column);
    if (rc)
        return rc;
    if (by_name)
        r->type = vf_type_of_name(path);
    return 0;
}

static int read_medium(vf_row *r, const cJSON *o, const cJSON **medium,
                       const vf_metadata_opts *opts, const char *dir, vc_err *why)
{
    bool by_name;
    const cJSON *v = *medium = find_medium(o, opts, &r->type, &by_name);

    if (!v)
        return no_medium(o, opts, why);
    const cJSON *bytes = cJSON_IsObject(v) ? member(v, "bytes") : v;
    const cJSON *name = cJSON_IsObject(v) ? member(v, "path") : v;
    vf_cell cell;
    if (vf_columnar_cell(bytes, &cell))
        return take_cell(r, v->string, &cell, name, by_name, why);
    if (cJSON_IsArray(v))
        return vc_fail(why, VC_EFORMAT, "%s: a list; a row has one medium", v->string);
    if (!cJSON_IsString(name) || (name != v && !no_value(bytes)))
        return vc_fail(why, VC_EFORMAT, "%s: expected a string", v->string);
    const char *path = name->valuestring, *base = vc_path_base(path);
    int rc = metadata_copy(&r->path, path, strlen(path), why);
    if (!rc)
        rc = metadata_find_file(&r->file, dir, path, why);
    if (rc)
        return rc;
    if (!strcasecmp(v->string, "path") && (rc = look_in_videos(r, dir, why)))
        return rc;
    if (strstr(path, "://"))
        return vc_fail(why, VC_EFORMAT, "%s: an address; media must be files", v->string);
    if (!*base || !strcmp(base, ".") || !strcmp(base, ".."))
        return vc_fail(why, VC_EFORMAT, "%s: names no file", v->string);
    if (by_name)
        r->type = vf_type_of_name(path);
    return 0;
}

static int read_type(vf_row *r, const cJSON *o, vc_err *why)
{
    const char *type = "";
    int rc = vf_json_str_opt(o, "type", &type, why);

    if (rc || !*type)
        return rc;
    if (strcmp(type, "image") && strcmp(type, "video"))
        return vc_fail(why, VC_EFORMAT, "type: expected image or video, found %.40s", type);
    r->type = *type == 'i' ? VF_TYPE_IMAGE : VF_TYPE_VIDEO;
    return 0;
}

/* ---- tags ---- */

static int add_tag(vf_row *r, const char *s, size_t n, vc_err *why)
{
    while (n && isspace((unsigned char)*s))
        s++, n--;
    while (n && isspace((unsigned char)s[n - 1]))
        n--;
    return n ? metadata_append(&r->tags, &r->n_tags, s, n, why) : 0;
}

static int read_tags(vf_row *r, const cJSON *o, vc_err *why)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, "tags");
    int rc = 0;

    if (empty(v))
        return 0;
    if (cJSON_IsString(v)) {
        for (const char *p = v->valuestring; !rc; p++) {
            size_t n = strcspn(p, ",");
            rc = add_tag(r, p, n, why);
            p += n;
            if (!*p)
                break;
        }
        return rc;
    }
    if (!cJSON_IsArray(v))
        return vc_fail(why, VC_EFORMAT, "tags: expected a string or a list of strings");
    for (const cJSON *t = v->child; t && !rc; t = t->next)
        rc = cJSON_IsString(t) ? add_tag(r, t->valuestring, strlen(t->valuestring), why)
                               : vc_fail(why, VC_EFORMAT, "tags: expected strings");
    return rc;
}

/* ---- numbers ---- */

/* Reads a decimal number. */
static bool to_decimal(const char *s, double *x)
{
    char *end = NULL;

    if (strspn(s, "0123456789+-.eE ") != strlen(s))
        return false;
    *x = strtod(s, &end);
    return end != s && !end[strspn(end, " ")];
}

/* Reads a number, or a string with a decimal number (CSV has only strings). */
static bool to_number(const cJSON *v, double *x)
{

    if (cJSON_IsNumber(v)) {
        *x = v->valuedouble;
    } else if (cJSON_IsString(v)) {
        if (!to_decimal(v->valuestring, x))
            return false;
    } else {
        return false;
    }
    return isfinite(*x);
}

/* Reads a rate, which may be a fraction as FFmpeg prints it: 30000/1001. */
static bool to_rate(const cJSON *v, double *x)
{
    char part[2][32];
    double over;

    if (!cJSON_IsString(v) || !strchr(v->valuestring, '/'))
        return to_number(v, x);
    if (sscanf(v->valuestring, "%31[^/]/%31[^/]", part[0], part[1]) != 2 ||
        !to_decimal(part[0], x) || !to_decimal(part[1], &over))
        return false;
    *x /= over;
    return isfinite(*x);
}

/* The file's own facts, of which a wrong value is no fault of the row: files are probed, and under
 * --trust_metadata a row without all of the facts is probed too. */
static void read_facts(vf_row *r, const cJSON *o)
{
    static const struct {
        const char *column;
        double most;
    } facts[] = { { "width", 1 << 20 }, { "height", 1 << 20 }, { "frames", INT32_MAX } };
    int64_t *const to[] = { &r->width, &r->height, &r->frames };
    double x;

    for (int i = 0; i < 3; i++)
        if (to_number(cJSON_GetObjectItemCaseSensitive(o, facts[i].column), &x) && x >= 1 &&
            x <= facts[i].most && x == trunc(x))
            *to[i] = (int64_t)x;
    if (to_rate(cJSON_GetObjectItemCaseSensitive(o, "fps"), &x) && x >= 0.001 && x <= 10000)
        r->fps = x;
}

static int read_weight(vf_row *r, const cJSON *o, vc_err *why)
{
    const double most = 1e4;
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, "weight");
    double x;

    if (empty(v))
        return 0;
    if (!to_number(v, &x))
        return vc_fail(why, VC_EFORMAT, "weight: expected a number");
    if (!(x >= 0 && x <= most))
        return vc_fail(why, VC_EFORMAT, "weight: %g is not within 0..%g", x, most);
    r->weight = x;
    return 0;
}

/* ---- further inputs ---- */

static int add_extra(vf_row *r, const cJSON *v, vc_err *why)
{
    vf_extra *more = realloc(r->extra, ((size_t)r->n_extra + 1) * sizeof *more);

    if (!more)
        return vc_no_memory(why);
    r->extra = more;
    vf_extra *x = &more[r->n_extra++];
    x->column = strdup(v->string);
    x->value = cJSON_IsString(v) ? strdup(v->valuestring) : vf_json_line(v);
    return x->column && x->value ? 0 : vc_no_memory(why);
}

const char *const vf_beside_columns[VF_BESIDE] = {
    "loss_mask_path", "control_file_path", "mask_file_path", "flux_fill_image", "edit_image",
    "edit_image, picture 2", "edit_image, picture 3", "edit_image, picture 4"
};

/* Other names of the columns. */
static const struct { vf_beside which; const char *column; } beside_names[] = {
    { VF_CONTROL, "control_video" }, { VF_CONTROL, "blockwise_controlnet_image" },
    { VF_CONTROL, "controlnet_image" }, { VF_CONTROL, "conditioning_image" },
    { VF_MASK, "flux_fill_mask" }, { VF_MASK, "vace_video_mask" }, { VF_FILLED, "vace_video" },
    { VF_MASK, "blockwise_controlnet_inpaint_mask" }, { VF_MASK, "controlnet_inpaint_mask" },
};
enum { BESIDE_NAMES = sizeof beside_names / sizeof *beside_names };

/* Whether the mask is that of a ControlNet's picture, which then is what the mask covers. */
static bool masks_control(const vf_row *r, const cJSON *o)
{
    static const char *const columns[] = { "blockwise_controlnet_inpaint_mask",
                                           "controlnet_inpaint_mask" };
    bool has = false;
    for (int i = 0; i < 2; i++) {
        const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, columns[i]);
        has |= cJSON_IsString(v) && *v->valuestring;
    }
    return has && r->beside[VF_CONTROL].path && !r->beside[VF_FILLED].path;
}

static int read_beside(vf_row *r, vf_beside which, const char *column, const cJSON *o,
                       const char *dir, vc_err *why)
{
    const char *path = "";
    int rc = vf_json_str_opt(o, column, &path, why);

    if (rc && which == VF_CONTROL)               /* a mode that needs it asks for it */
        return 0;
    if (rc || !*path)
        return rc;
    r->beside[which].column = column;
    rc = metadata_copy(&r->beside[which].path, path, strlen(path), why);
    return rc ? rc : metadata_find_file(&r->beside[which].file, dir, path, why);
}

/* Refuses bytes in a column that names a further input: they are read as the medium alone. */
static int refuse_bytes(const cJSON *o, const cJSON *medium, const vf_metadata_opts *opts,
                        vc_err *why)
{
    for (const cJSON *v = o->child; v; v = v->next)
        if (v != medium && vf_columnar_has_cell(v)
            && (metadata_listed("loss_mask_path,control_file_path,control_video,mask_file_path,"
                                "blockwise_controlnet_image,controlnet_image,"
                                "conditioning_image,blockwise_controlnet_inpaint_mask,"
                                "controlnet_inpaint_mask,"
                                "flux_fill_mask,flux_fill_image,vace_video,vace_video_mask,"
                                "input_image", v->string)
                || metadata_listed(opts->file_keys, v->string)
                || metadata_listed(opts->extra_inputs, v->string)))
            return vc_fail(why, VC_EFORMAT, "%s: bytes in a column are read as the medium alone: "
                           VF_COLUMNAR_UNPACK, v->string);
    return 0;
}

static int read_extra(vf_row *r, const cJSON *o, const cJSON *medium,
                      const vf_metadata_opts *opts, const char *dir, vc_err *why)
{
    int rc = refuse_bytes(o, medium, opts, why);

    for (int i = 0; !rc && i < VF_COLUMNS; i++)
        rc = read_beside(r, (vf_beside)i, vf_beside_columns[i], o, dir, why);
    for (int i = 0; !rc && i < BESIDE_NAMES; i++)
        if (!r->beside[beside_names[i].which].path)
            rc = read_beside(r, beside_names[i].which, beside_names[i].column, o, dir, why);
    if (!rc && masks_control(r, o)) {
        r->beside[VF_FILLED] = r->beside[VF_CONTROL];
        r->beside[VF_CONTROL] = (vf_side){ NULL, NULL, NULL };
    }
    if (!rc && r->beside[VF_FILLED].file && !strcmp(r->beside[VF_FILLED].file, r->file)) {
        free(r->beside[VF_FILLED].path);
        free(r->beside[VF_FILLED].file);
        r->beside[VF_FILLED] = (vf_side){ NULL, NULL, NULL };
    }
    if (!rc)
        rc = vf_row_read_references(r, o, opts->reference_column, dir, why);
    for (const cJSON *v = o->child; v && !rc; v = v->next)
        if (v != medium && !empty(v)
            && (metadata_listed("control_file_path,input_image", v->string)
                || metadata_listed(opts->file_keys, v->string)
                || metadata_listed(opts->extra_inputs, v->string)))
            rc = add_extra(r, v, why);
    return rc;
}

static int read_columns(vf_row *r, const cJSON *o, const vf_metadata_opts *opts, const char *dir,
                        vc_err *why)
{
    const cJSON *medium;
    int rc = read_medium(r, o, &medium, opts, dir, why);

    if (!rc)
        rc = read_type(r, o, why);
    if (!rc)
        rc = metadata_read_captions(r, o, opts, why);
    read_facts(r, o);
    if (!rc)
        rc = read_weight(r, o, why);
    if (!rc)
        rc = read_tags(r, o, why);
    if (!rc)
        rc = read_extra(r, o, medium, opts, dir, why);
    return rc;
}

int metadata_read_row(vf_row *r, const cJSON *o, const char *bad, const vf_metadata_opts *opts,
                      const char *dir, vc_err *err)
{
    vc_err why = { 0 };
    int rc = o ? read_columns(r, o, opts, dir, &why) : vc_fail(&why, VC_EFORMAT, "%s", bad);

    if (rc && rc != VC_ENOMEM) {
        r->bad = strdup(why.text);
        rc = r->bad ? 0 : VC_ENOMEM;
    }
    if (!rc && !r->path)
        rc = metadata_copy(&r->path, "", 0, &why);
    if (!rc && !r->file)
        rc = metadata_copy(&r->file, "", 0, &why);
    if (!rc && !r->n_captions)
        rc = metadata_append(&r->captions, &r->n_captions, "", 0, &why);
    return rc ? vc_fail(err, VC_ENOMEM, "row %lld: out of memory", (long long)r->row) : 0;
}
