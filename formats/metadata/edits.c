/* edits.c - see edits.h */
#include "formats/metadata/edits.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "common/os/lines.h"
#include "formats/json/json.h"
#include "formats/keys/keymap.h"
#include "formats/metadata/parts.h"

enum { MAX_FILE = 256 << 20, MAX_LINE = 16 << 20, MAX_CAPTIONS = 1000 };

typedef struct edit {
    uint64_t id;
    bool exclude, used;
    char **captions;                   /* NULL: as they are */
    int n;
} edit;

typedef struct edits {
    edit *item;
    int64_t n;
    vf_keymap of_id;                   /* place in item */
} edits;

static void free_captions(char **captions, int n)
{
    for (int i = 0; i < n; i++)
        free(captions[i]);
    free(captions);
}

static void edits_free(edits *e)
{
    for (int64_t i = 0; i < e->n; i++)
        free_captions(e->item[i].captions, e->item[i].n);
    free(e->item);
    vf_keymap_free(&e->of_id);
}

/* ---- the file ---- */

static int parse_captions(edit *e, const cJSON *list, vc_err *err)
{
    const cJSON *text;
    const int n = cJSON_GetArraySize(list);
    if (!cJSON_IsArray(list) || n < 1 || n > MAX_CAPTIONS)
        return vc_fail(err, VC_EFORMAT, "captions: a list of 1 to %d strings expected",
                       MAX_CAPTIONS);
    e->captions = calloc((size_t)n, sizeof *e->captions);
    if (!e->captions)
        return vc_no_memory(err);
    cJSON_ArrayForEach(text, list) {
        if (!cJSON_IsString(text))
            return vc_fail(err, VC_EFORMAT, "captions: a list of strings expected");
        if (!(e->captions[e->n] = strdup(text->valuestring)))
            return vc_no_memory(err);
        e->n++;
    }
    return 0;
}

static int parse_edit(edit *e, const cJSON *o, vc_err *err)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(o, "captions");
    const cJSON *exclude = cJSON_GetObjectItemCaseSensitive(o, "exclude");
    int rc = vf_json_id(&e->id, o, err);
    if (rc)
        return rc;
    if (exclude && !cJSON_IsBool(exclude))
        return vc_fail(err, VC_EFORMAT, "exclude: true or false expected");
    if (!exclude && !list)
        return vc_fail(err, VC_EFORMAT, "exclude or captions expected");
    e->exclude = cJSON_IsTrue(exclude);
    return list ? parse_captions(e, list, err) : 0;
}

static vf_key key_of(uint64_t id)
{
    return vf_hash(&id, sizeof id);
}

/* Takes the captions of *e. */
static int keep_edit(edits *all, edit *e, vc_err *err)
{
    uint64_t at;
    if (vf_keymap_get(&all->of_id, key_of(e->id), &at)) {
        free_captions(all->item[at].captions, all->item[at].n);
        all->item[at] = *e;
        return 0;
    }
    edit *more = realloc(all->item, ((size_t)all->n + 1) * sizeof *more);
    if (!more) {
        free_captions(e->captions, e->n);
        return vc_no_memory(err);
    }
    all->item = more;
    all->item[all->n++] = *e;
    return vf_keymap_put(&all->of_id, key_of(e->id), (uint64_t)all->n - 1, err);
}

static int read_line(edits *all, const char *line, size_t n, vc_err *err)
{
    cJSON *o;
    edit e = { 0 };
    int rc = vf_json_parse_line(&o, line, n, err);
    if (!rc)
        rc = parse_edit(&e, o, err);
    cJSON_Delete(o);
    if (!rc)
        return keep_edit(all, &e, err);
    free_captions(e.captions, e.n);
    return rc;
}

static int read_file(edits *all, const char *path, vc_err *err)
{
    char *text;
    size_t size, n;
    const char *line;
    int rc = vc_file_read(&text, &size, path, MAX_FILE, err);
    if (rc)
        return rc;
    vc_lines l = vc_lines_of(text, size, MAX_LINE);
    while (!(rc = vc_lines_next(&l, &line, &n, err)) && line)
        if (n && (rc = vc_context(err, read_line(all, line, n, err), "line %" PRId64, l.number)))
            break;
    free(text);
    return vc_context(err, rc, "%s", path);
}

/* ---- the list ---- */

static void set_captions(vf_row *r, edit *e)
{
    char **captions = r->captions;
    const int n = r->n_captions;
    r->captions = e->captions;
    r->n_captions = e->n;
    char *from = strdup("--edits");
    if (from) {
        free(r->caption_from);
        r->caption_from = from;
    }
    e->captions = captions;            /* the old ones are freed with the edit */
    e->n = n;
}

/* The number of captions of a clip's segments stays, as each belongs to one. */
static int check_segments(const vf_metadata *m, const edits *all, vc_err *err)
{
    for (int64_t i = 0; i < m->n; i++) {
        const vf_row *r = &m->rows[i];
        uint64_t at;
        if (!r->segments || !vf_keymap_get(&all->of_id, key_of(r->id), &at))
            continue;
        const edit *e = &all->item[at];
        if (e->captions && !e->exclude && e->n != r->n_captions)
            return vc_fail(err, VC_EFORMAT, "%s: %d captions, but the clip has %d segments",
                           r->path, e->n, r->n_captions);
    }
    return 0;
}

static void apply(vf_metadata *m, edits *all, vf_edits_done *done)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < m->n; i++) {
        vf_row row = m->rows[i];
        uint64_t at;
        edit *e = vf_keymap_get(&all->of_id, key_of(row.id), &at) ? &all->item[at] : NULL;
        if (e)
            e->used = true;
        if (e && e->exclude) {
            metadata_free_row(&row);
            done->excluded++;
            continue;
        }
        if (e && e->captions && !row.bad) {
            set_captions(&row, e);
            done->captioned++;
        }
        m->rows[kept++] = row;
    }
    m->n = kept;
    for (int64_t i = 0; i < all->n; i++)
        done->unused += !all->item[i].used;
}

int vf_metadata_edit(vf_metadata *m, const char *path, vf_edits_done *done, vc_err *err)
{
    edits all = { 0 };
    *done = (vf_edits_done){ 0 };
    int rc = read_file(&all, path, err);
    if (!rc && !all.n)
        rc = vc_fail(err, VC_EFORMAT, "%s: no edit: is it cut short, or another file?", path);
    if (!rc)
        rc = vc_context(err, check_segments(m, &all, err), "%s", path);
    if (!rc)
        apply(m, &all, done);
    edits_free(&all);
    return rc;
}
