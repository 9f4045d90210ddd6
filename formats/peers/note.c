/* note.c - writes and reads an export's note, and reports samples of the note that an import lacks.
 * See exchange.h */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/peers/exchange_parts.h"

enum { NOTE_MAX = 64 << 20 };

int exchange_write_note(const exchange *x, const char *dir, const char *name,
                        uint32_t samples, vc_err *err)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "format", x->format);
    vf_json_add_int(o, "samples", samples);
    cJSON_AddStringToObject(o, "root", vlat_str(x->manifest, "root"));
    if (x->files)
        cJSON_AddItemReferenceToObject(o, "files", x->files);
    char *text = o && cJSON_GetArraySize(o) == 3 + (x->files != NULL) ? vf_json_line(o) : NULL;
    int rc = text ? exchange_write(dir, name, text, strlen(text), err)
                  : vc_no_memory(err);
    free(text);
    cJSON_Delete(o);
    return rc;
}

static int take_note(exchange *x, const cJSON *o, vc_err *err)
{
    const char *format = "", *root = "";
    int rc = vf_json_str(o, "format", &format, err);
    if (rc || strcmp(format, x->format))
        return rc;
    rc = vf_json_int(o, "samples", &x->samples, err);
    if (!rc)
        rc = vf_json_str(o, "root", &root, err);
    const cJSON *files = cJSON_GetObjectItemCaseSensitive(o, "files");
    x->root = strdup(root);
    x->files = files ? cJSON_Duplicate(files, true) : NULL;
    if (!rc && (!x->root || (files && !x->files)))
        rc = vc_no_memory(err);
    return rc;
}

int exchange_read_note(exchange *x, vc_err *err)
{
    cJSON *o;
    char *dir = x->note_dir ? vc_path_join(x->dir, x->note_dir) : strdup(x->dir);
    x->samples = -1;
    if (!dir)
        return vc_no_memory(err);
    int rc = vf_json_read_in_opt(&o, dir, EXCHANGE_NOTE, NOTE_MAX, err);
    if (!rc && o)
        rc = vc_context(err, take_note(x, o, err), "%s/%s", dir, EXCHANGE_NOTE);
    cJSON_Delete(o);
    free(dir);
    return rc;
}

int exchange_lack(exchange *x, vc_err *err, const char *fmt, ...)
{
    vc_err why = { 0 };
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why.text, sizeof why.text, fmt, ap);
    va_end(ap);
    if (!x->v->o->allow_partial)
        return vc_fail(err, VC_EMISMATCH, "%s (--allow_partial takes what is there)", why.text);
    vc_warn(x->v->progress, "%s", why.text);
    x->lacks++;
    return 0;
}

/* Skips a sample that cannot be read. A sink without a writer means that the dataset could not be
 * begun, which ends the import. */
int exchange_skip(exchange *x, int rc, vc_err *err)
{
    bool damage = rc == VC_ENOENT || rc == VC_EFORMAT || rc == VC_ENUMERIC;
    if (!damage || !x->v->o->allow_partial || (x->sink && !x->sink->w))
        return rc;
    return exchange_lack(x, NULL, "left out: %s", err ? err->text : "a sample");
}

int exchange_check_note(exchange *x, vc_err *err)
{
    uint32_t have = x->sink ? x->sink->records : 0;
    if (x->samples < 0 || have >= x->samples)
        return 0;
    return exchange_lack(x, err,
                         "%s: %" PRIu32 " of the %" PRId64 " samples that " EXCHANGE_NOTE " says "
                         "were exported: files are missing, or a list was cut", x->dir, have,
                         x->samples);
}
