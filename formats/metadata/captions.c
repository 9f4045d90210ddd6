/* captions.c - reads a row's captions from its columns and reports rows without a caption; see
 * metadata.h */
#include "formats/metadata/parts.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/buf.h"
#include "common/os/file.h"

enum { MAX_SEEN = 24 };

/* ---- columns ---- */

/* True for text, prompt, caption, captions and their numbered forms (text_2). */
static bool is_known(const char *column)
{
    static const char *const names[] = { "text", "prompt", "caption", "captions" };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n = strlen(names[i]);
        if (strncmp(column, names[i], n))
            continue;
        const char *p = column + n;
        if (!*p || (*p == '_' && p[1] && p[1 + strspn(p + 1, "0123456789")] == 0))
            return true;
    }
    return false;
}

static bool is_other(const char *column)
{
    static const char *const names[] = { "text", "prompt", "caption", "captions", "description",
                                         "caption_text", "cap" };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcasecmp(column, names[i]))
            return true;
    return false;
}

/* Names the column as a source: the first one, and every one that has a caption. */
static int say_column(vf_row *r, const char *column, bool given, vc_err *why)
{
    static const char and[] = " and ";
    char *was = r->caption_from;
    size_t n = was ? strlen(was) : 0, k = strlen(column);
    const bool named = n >= k && !strcmp(was + n - k, column) &&
                       (n == k || (n > k + 5 && !strncmp(was + n - k - 5, and, 5)));

    if (named || (was && !given))
        return 0;
    const bool alone = !was || !r->n_captions;
    r->caption_from = alone ? strdup(column) : vc_format("%s%s%s", was, and, column);
    free(was);
    return r->caption_from ? 0 : vc_no_memory(why);
}

static int add_caption(vf_row *r, const cJSON *v, const char *column, vc_err *why)
{
    if (!cJSON_IsString(v))
        return vc_fail(why, VC_EFORMAT, "%s: expected a string or a list of strings", column);
    int rc = say_column(r, column, *v->valuestring, why);
    if (rc || !*v->valuestring)
        return rc;
    return metadata_append(&r->captions, &r->n_captions, v->valuestring, strlen(v->valuestring),
                           why);
}

static int add_column(vf_row *r, const cJSON *v, vc_err *why)
{
    int rc = 0;

    if (cJSON_IsNull(v))
        return 0;
    if (!cJSON_IsArray(v))
        return add_caption(r, v, v->string, why);
    for (const cJSON *c = v->child; c && !rc; c = c->next)
        rc = add_caption(r, c, v->string, why);
    return rc;
}

/* The other columns count only where a row has none of the known ones: rows that were read before
 * the other columns were supported keep their captions. */
int metadata_read_captions(vf_row *r, const cJSON *o, const vf_metadata_opts *opts, vc_err *why)
{
    const char *own = opts->caption_columns;
    int rc = metadata_read_segments(r, o, opts, why);

    if (rc || r->segments)
        return rc;
    for (const cJSON *v = o->child; v && !rc; v = v->next)
        if (own ? metadata_listed(own, v->string) : is_known(v->string))
            rc = add_column(r, v, why);
    for (const cJSON *v = o->child; v && !rc && !own && !r->caption_from; v = v->next)
        if (is_other(v->string))
            rc = add_column(r, v, why);
    if (!rc && !r->n_captions)
        rc = metadata_append(&r->captions, &r->n_captions, "", 0, why);
    return rc;
}

/* ---- rows without a caption ---- */

/* Gives the row the caption of rows without one. */
static int take_default(metadata_list *l, vf_row *r, vc_err *err)
{
    const char *caption = l->opts->default_caption;
    char *text = strdup(caption);

    if (!text)
        return vc_no_memory(err);
    free(r->captions[0]);
    r->captions[0] = text;
    return metadata_say_from(r, "--default_caption", err);
}

int metadata_check_caption(metadata_list *l, vf_row *r, vc_err *err)
{
    if (r->bad)
        return 0;
    if (!r->caption_from && l->opts->default_caption) {
        int rc = take_default(l, r, err);
        if (rc)
            return rc;
    }
    l->captioned += r->caption_from != NULL;
    l->uncaptioned += !r->caption_from;
    if (r->caption_from || l->opts->allow_empty_captions)
        return 0;
    r->bad = vc_format("no caption: none of %.300s", l->known);
    return r->bad ? 0 : vc_no_memory(err);
}

int metadata_check_rows(metadata_list *l, vc_err *err)
{
    int rc = 0;

    for (int64_t i = 0; i < l->list.n && !rc; i++) {
        vf_row *r = &l->list.rows[i];
        if (!r->n_captions)
            rc = metadata_append(&r->captions, &r->n_captions, "", 0, err);
        if (!rc)
            rc = metadata_check_caption(l, r, err);
    }
    return rc;
}

void metadata_forget_seen(metadata_list *l)
{
    for (int i = 0; i < l->n_seen; i++)
        free(l->seen[i]);
    free(l->seen);
    l->seen = NULL;
    l->n_seen = 0;
}

int metadata_saw(metadata_list *l, const char *name, vc_err *err)
{
    for (int i = 0; i < l->n_seen; i++)
        if (!strcmp(l->seen[i], name))
            return 0;
    if (l->n_seen == MAX_SEEN)
        return 0;
    size_t n = strlen(name);
    return metadata_append(&l->seen, &l->n_seen, name, n, err);
}

/* Joins the names in l->seen; NULL: out of memory. */
static char *join_seen(const metadata_list *l)
{
    vc_buf found = { 0 };

    for (int i = 0; i < l->n_seen; i++)
        vc_buf_printf(&found, "%s%.40s", i ? ", " : "", l->seen[i]);
    return vc_buf_take(&found);
}

int metadata_no_media(const metadata_list *l, const char *path, vc_err *err)
{
    const metadata_ignored *reason = NULL;
    char *text = join_seen(l);

    for (const metadata_ignored *i = l->ignored; i < l->ignored + l->n_ignored; i++)
        if (i->why && (!reason || strcmp(i->what, reason->what) < 0))
            reason = i;
    int rc = vc_fail(err, VC_EFORMAT, "%s: no media files; found: %.400s%s%.40s%s%s", path,
                     text && *text ? text : "nothing", reason ? "; " : "",
                     reason ? reason->what : "", reason ? ": " : "", reason ? reason->why : "");

    free(text);
    return rc;
}

int metadata_need_captions(const metadata_list *l, vc_err *err)
{
    if (l->captioned || !l->uncaptioned || l->opts->allow_empty_captions)
        return 0;
    char *text = join_seen(l);
    int rc = vc_fail(err, VC_EFORMAT, "no row has a caption; found: %.400s; known: %.300s; "
                     "--caption_column names other columns, --allow_empty_captions takes the "
                     "empty caption", text && *text ? text : "nothing", l->known);
    free(text);
    return rc;
}
