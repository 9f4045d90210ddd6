/* rows.c - adds rows to a list, and frees them; see metadata.h and parts.h */
#include "formats/metadata/parts.h"

#include <stdlib.h>

#include "common/base/buf.h"
#include "formats/columnar/columnar.h"

vf_part vf_row_part(const vf_row *r)
{
    return (vf_part){ .name = r->size || r->column ? r->path : r->file, .file = r->file,
                      .at = r->at, .size = r->size, .column = r->column, .values = r->values };
}

const vf_side *vf_row_side(const vf_row *r, vf_beside which)
{
    const int k = (int)which - VF_REFERENCE;
    if (k < 0)
        return r->beside[which].path ? &r->beside[which] : NULL;
    return k < r->n_references ? &r->references[k] : NULL;
}

const char *vf_row_column(const vf_row *r, vf_beside which)
{
    if (which >= VF_REFERENCE)
        return r->references_from ? r->references_from : vf_beside_columns[which];
    return r->beside[which].column ? r->beside[which].column : vf_beside_columns[which];
}

void metadata_free_row(vf_row *r)
{
    free(r->path);
    free(r->file);
    for (int i = 0; i < r->n_captions; i++)
        free(r->captions[i]);
    for (int i = 0; i < r->n_captions && r->preserved; i++)
        free(r->preserved[i]);
    free(r->captions);
    free(r->preserved);
    free(r->caption_from);
    for (int i = 0; i < r->n_tags; i++)
        free(r->tags[i]);
    free(r->tags);
    for (int i = 0; i < VF_COLUMNS; i++) {
        free(r->beside[i].path);
        free(r->beside[i].file);
    }
    vf_row_free_references(r);
    for (int i = 0; i < r->n_extra; i++) {
        free(r->extra[i].column);
        free(r->extra[i].value);
    }
    free(r->extra);
    free(r->bad);
}

void vf_metadata_free(vf_metadata *m)
{
    for (int64_t i = 0; i < m->n; i++)
        metadata_free_row(&m->rows[i]);
    free(m->rows);
    free(m->ignored);
    free(m->lists);
    vf_columnar_close(m->values);
    *m = (vf_metadata){ 0 };
}

int metadata_add(metadata_list *l, int64_t number, vf_row **row, vc_err *err)
{
    vf_metadata *m = &l->list;

    if (m->n == l->cap) {
        int64_t cap = l->cap ? l->cap + l->cap / 2 : 64;
        vf_row *more = realloc(m->rows, (size_t)cap * sizeof *more);
        if (!more)
            return vc_fail(err, VC_ENOMEM, "out of memory for %lld rows", (long long)cap);
        m->rows = more;
        l->cap = cap;
    }
    *row = &m->rows[m->n++];
    **row = (vf_row){ .row = number, .weight = 1 };
    return 0;
}

void metadata_begin_list(metadata_list *l)
{
    vf_metadata_free(&l->list);
    l->cap = 0;
    metadata_forget_seen(l);
    metadata_forget_ignored(l);
    l->dir = l->opts->data_dir ? l->opts->data_dir : l->dir;
    l->listed = true;
}

int metadata_check_header(void *arg, char *const *column, int n, vc_err *err)
{
    metadata_list *l = arg;
    vc_buf found = { 0 };

    for (int i = 0; i < n; i++)
        if (metadata_is_medium(l->opts, column[i]))
            return 0;
    for (int i = 0; i < n; i++)
        vc_buf_printf(&found, "%s%.40s", i ? ", " : "", column[i]);
    char *text = vc_buf_take(&found);
    int rc = vc_fail(err, VC_EFORMAT, "header: no column names the media; found: %.400s; known: "
                     METADATA_MEDIA, text ? text : "?");
    free(text);
    return rc;
}

int metadata_take_row(void *arg, int64_t number, const cJSON *o, const char *bad, vc_err *err)
{
    metadata_list *l = arg;
    vf_row *r = NULL;

    int rc = metadata_add(l, number, &r, err);
    if (!rc)
        rc = metadata_read_row(r, o, bad, l->opts, l->dir, err);
    if (!rc)
        rc = metadata_check_caption(l, r, err);
    for (const cJSON *v = o && !r->caption_from ? o->child : NULL; v && !rc; v = v->next)
        rc = metadata_saw(l, v->string, err);
    return rc;
}
