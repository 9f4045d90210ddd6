/* tar.c - imports WebDataset's tar files, in which members of one stem are a sample; tar_write.c
 * exports them.
 *
 *     manifest.json  validation.jsonl  texts/KEY.safetensors (the prompts')  shard-000000.tar ...
 *     in a tar:  000000000042-000.json  .latent.safetensors  .text.0.0.safetensors  .jpg
 *
 * See exchange.h */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/dataset/parts.h"
#include "formats/peers/caches/tar.h"
#include "formats/peers/exchange_parts.h"

enum { TAR_RECORD = 10240 };                /* a tar is padded with zeros to a multiple of this */

typedef struct member {
    char *ending;                            /* name after the stem's dot */
    uint8_t *data;
    size_t size;
} member;

typedef struct group {                       /* one sample's members */
    exchange *x;
    char stem[64];
    member m[64];
    int n;
    size_t bytes;
} group;

static void clear(group *g)
{
    for (int i = 0; i < g->n; i++) {
        free(g->m[i].ending);
        free(g->m[i].data);
    }
    g->n = 0;
    g->bytes = 0;
}

static const member *find(const group *g, const char *ending)
{
    for (int i = 0; i < g->n; i++)
        if (!strcmp(g->m[i].ending, ending))
            return &g->m[i];
    return NULL;
}

static int take_value(void *arg, const vf_ref *ref, const char *role, vc_err *err)
{
    const group *g = arg;
    char ending[64];
    snprintf(ending, sizeof ending, "%s.safetensors", role);
    const member *m = find(g, ending);
    if (exchange_has_value(g->x, ref))
        return 0;
    return m ? exchange_put_value(g->x, ref, m->data, m->size, err)
             : vc_fail(err, VC_ENOENT, "%s: missing", ending);
}

static int take_sample(group *g, vc_err *err)
{
    const member *json = find(g, "json"), *jpeg = find(g, "jpg");
    cJSON *record = NULL;
    int rc = 0;
    if (!g->n)
        return 0;
    if (!json || json->size > VF_MAX_RECORD)
        rc = vc_fail(err, VC_EFORMAT, "no record of it: only what vlat export wrote is read");
    if (!rc)
        rc = vf_json_parse(&record, (const char *)json->data, json->size, err);
    if (!rc)
        rc = exchange_refs(record, take_value, g, err);
    if (!rc)
        rc = exchange_put_record(g->x, record, jpeg ? jpeg->data : NULL, jpeg ? jpeg->size : 0,
                                 err);
    cJSON_Delete(record);
    rc = vc_context(err, rc, "%s", g->stem);
    clear(g);
    return rc;
}

static int take_member(group *g, struct archive *a, struct archive_entry *e, size_t file_size,
                       vc_err *err)
{
    const char *path = archive_entry_pathname(e), *dot = path ? strchr(path, '.') : NULL;
    int64_t size = archive_entry_size(e);
    int rc = 0;
    if (archive_entry_filetype(e) != AE_IFREG)
        return 0;
    if (!dot || dot == path || (size_t)(dot - path) >= sizeof g->stem || strlen(dot) > 100)
        return vc_fail(err, VC_EFORMAT, "%.100s: STEM.json, STEM.latent.safetensors, ... expected",
                       path ? path : "?");
    if (strncmp(g->stem, path, (size_t)(dot - path)) || g->stem[dot - path]) {
        rc = take_sample(g, err);
        snprintf(g->stem, sizeof g->stem, "%.*s", (int)(dot - path), path);
    }
    if (!rc && (size < 0 ||
                (uint64_t)size > file_size - (g->bytes < file_size ? g->bytes : file_size)))
        rc = vc_fail(err, VC_EFORMAT, "%.100s: larger than its tar", path);
    if (!rc && g->n == sizeof g->m / sizeof *g->m)
        rc = vc_fail(err, VC_EFORMAT, "%s: more than %d members", g->stem, g->n);
    if (rc)
        return rc;
    member *m = &g->m[g->n++];
    *m = (member){ strdup(dot + 1), malloc((size_t)size + 1), (size_t)size };
    if (!m->ending || !m->data)
        return vc_fail(err, VC_ENOMEM, "out of memory for %lld bytes", (long long)size);
    g->bytes += m->size;
    size_t got = 0;
    la_ssize_t n = 1;
    while (got < m->size && (n = archive_read_data(a, m->data + got, m->size - got)) > 0)
        got += (size_t)n;
    return got == m->size ? 0 : vc_fail(err, VC_EFORMAT, "%.100s: cut short", path);
}

/* Checks that the file ends, apart from padding, at the tar's end-of-archive mark, `at` bytes from
 * its beginning. */
static int check_end(exchange *x, const char *path, const vc_map *m, int64_t at, vc_err *err)
{
    static const char zeros[1024];
    bool marked = m->size >= sizeof zeros && m->size % 512 == 0
                  && !memcmp(m->data + m->size - sizeof zeros, zeros, sizeof zeros);
    if (!marked)
        return exchange_lack(x, err, "%s: cut short: it has no end-of-archive mark", path);
    if ((int64_t)m->size - at > TAR_RECORD)
        return exchange_lack(x, err,
                             "%s: it ends in the middle: %" PRId64 " bytes lie behind zeros at %"
                             PRId64,
                             path, (int64_t)m->size - at, at);
    return 0;
}

static int import_tar(group *g, const char *path, vc_err *err)
{
    vc_map map;
    int rc = vc_map_open(&map, path, err), got = 0;
    if (rc)
        return rc;
    struct archive *a = archive_read_new();
    struct archive_entry *e = archive_entry_new2(a);
    /* libarchive does not check its allocations for an entry and for the callback's data. */
    if (!a || !e || archive_read_support_format_tar(a) || archive_read_set_callback_data(a, NULL) ||
        archive_read_open_memory(a, map.data, map.size))
        rc = map.size ? vc_fail(err, VC_ENOMEM, "out of memory for libarchive")
                      : vc_fail(err, VC_EFORMAT, "an empty file is no tar");
    while (!rc && !(got = archive_read_next_header2(a, e)))
        rc = take_member(g, a, e, map.size, err);
    if (!rc && got != ARCHIVE_EOF)
        rc = vc_fail(err, archive_errno(a) == ENOMEM ? VC_ENOMEM : VC_EFORMAT, "%s",
                     archive_error_string(a) ? archive_error_string(a) : "damaged tar");
    if (!rc)
        rc = take_sample(g, err);
    if (!rc)
        rc = check_end(g->x, path, &map, archive_filter_bytes(a, 0), err);
    archive_entry_free(e);
    archive_read_free(a);
    vc_map_close(&map);
    return vc_context(err, rc, "%s", path);
}

/* Returns the number in "shard-000007.tar", or -1 for another name. */
static int64_t number_of(const char *name)
{
    int64_t n = -1;
    int end = 0;
    return sscanf(name, "shard-%9" SCNd64 ".tar%n", &n, &end) == 1 && end && !name[end] ? n : -1;
}

/* Checks that the tars' numbers have no holes, and that all tars of the note are there. */
static int check_names(exchange *x, const vc_list *tars, vc_err *err)
{
    const cJSON *f;
    int rc = 0, own = 0;
    for (int i = 0; !rc && i < tars->n; i++) {
        int64_t n = number_of(tars->item[i]);
        if (n > own)
            rc = exchange_lack(x, err, "%s/" TAR_NAME " is missing: there is %s", x->dir, own,
                               tars->item[i]);
        own = n < 0 ? own : (int)n + 1;
    }
    cJSON_ArrayForEach(f, x->files) {
        bool there = false;
        for (int i = 0; !there && i < tars->n; i++)
            there = !strcmp(tars->item[i], f->string);
        if (!rc && !there)
            rc = exchange_lack(x, err, "%s/%s is missing, with %.0f samples", x->dir, f->string,
                               cJSON_GetNumberValue(f));
    }
    return rc;
}

/* Imports a tar and checks that it has as many samples as the note lists for this tar. */
static int take_tar(group *g, const char *name, vc_err *err)
{
    exchange *x = g->x;
    uint32_t before = x->sink->records;
    double said = cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(x->files, name));
    char *path = vc_path_join(x->dir, name);
    int rc = path ? import_tar(g, path, err) : vc_no_memory(err);
    rc = exchange_skip(x, rc, err);
    clear(g);
    if (!rc && x->sink->records - before < said)     /* false where nothing is said */
        rc = exchange_lack(x, err, "%s: %" PRIu32 " of %.0f samples", path,
                           x->sink->records - before, said);
    free(path);
    return rc;
}

static int import_tars(exchange *x, vc_err *err)
{
    group g = { .x = x };
    vc_list tars;
    int rc = exchange_list(&tars, x->dir, ".tar", err);
    if (rc)
        return rc;
    if (!tars.n)
        rc = vc_fail(err, VC_ENOENT, "%s: no .tar in it", x->dir);
    if (!rc)
        rc = check_names(x, &tars, err);
    if (!rc)
        rc = exchange_read_frame(x, err);
    for (int i = 0; !rc && i < tars.n; i++)
        rc = take_tar(&g, tars.item[i], err);
    exchange_list_free(&tars);
    return rc;
}

const exchange_format exchange_webdataset = {
    "webdataset", "WebDataset", "the whole dataset in tar files",
    NULL, 0, NULL, false, true,
    exchange_tar_write, import_tars, NULL
};
