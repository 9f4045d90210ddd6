/* causvid.c - exports and imports the LMDB of CausVid and Self-Forcing: one environment, one shape.
 *
 *     latents_shape "N F C H W"   latents_0_data  f16, row-major
 *     prompts_shape "N"           prompts_0_data  UTF-8
 *
 * The LMDB has no text embeddings. Our own walker (lmdb_read.h) reads it, liblmdb writes it. See
 * exchange.h */
#include <inttypes.h>
#include <lmdb.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/lmdb/lmdb_read.h"
#include "formats/peers/exchange_parts.h"

enum { BATCH = 64 };                         /* samples in a transaction */

typedef struct exporting {
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi dbi;
    int64_t dim[4];                          /* F C H W */
    uint32_t n;
} exporting;

static int lmdb_result(int rc, const char *what, vc_err *err)
{
    return !rc ? 0 : vc_fail(err, rc == MDB_MAP_FULL || rc == 28 ? VC_EFULL : VC_EIO,
                             "data.mdb: %s: %s", what, mdb_strerror(rc));
}

static int begin(exporting *e, vc_err *err)
{
    int rc = lmdb_result(mdb_txn_begin(e->env, NULL, 0, &e->txn), "begin", err);
    if (!rc && (rc = lmdb_result(mdb_dbi_open(e->txn, NULL, 0, &e->dbi), "open", err))) {
        mdb_txn_abort(e->txn);
        e->txn = NULL;
    }
    return rc;
}

static int commit(exporting *e, vc_err *err)
{
    MDB_txn *txn = e->txn;
    e->txn = NULL;
    return txn ? lmdb_result(mdb_txn_commit(txn), "commit", err) : 0;
}

static int put(exporting *e, const char *key, const void *data, size_t n, vc_err *err)
{
    MDB_val k = { strlen(key), (void *)key }, v = { n, (void *)data };
    int rc = e->txn ? 0 : begin(e, err);
    return rc ? rc : lmdb_result(mdb_put(e->txn, e->dbi, &k, &v, 0), key, err);
}

static int same_shape(exporting *e, const exchange_sample *s, vc_err *err)
{
    const int64_t dim[4] = { s->mean.dim[1], s->mean.dim[0], s->mean.dim[2], s->mean.dim[3] };
    if (!e->n)
        memcpy(e->dim, dim, sizeof dim);
    if (memcmp(e->dim, dim, sizeof dim))
        return vc_fail(err, VC_EMISMATCH,
                       "latent %" PRId64 "x%" PRId64 "x%" PRId64 ", others are %" PRId64
                       "x%" PRId64 "x%" PRId64 ": this format has one shape: vlat split --by "
                       "bucket first", dim[0], dim[2], dim[3], e->dim[0], e->dim[2], e->dim[3]);
    return 0;
}

static int write_sample(exchange *x, const exchange_sample *s, void *arg, vc_err *err)
{
    exporting *e = arg;
    size_t n = (size_t)vf_view_count(&s->mean);
    char key[40];
    float *f = NULL;
    uint16_t *half = malloc(2 * n), *swapped = malloc(2 * n);
    int rc = half && swapped ? same_shape(e, s, err) : vc_no_memory(err);
    if (!rc)
        rc = exchange_latent_f32(x, s, &f, err);
    vf_view v = { NULL, VC_F32, 1, { (int64_t)n }, f, 4 * n };
    if (!rc)
        rc = exchange_convert(half, VC_F16, &v, 0, n, err);
    if (!rc) {
        exchange_swap(swapped, half, (size_t)e->dim[1], (size_t)e->dim[0],
                      (size_t)(e->dim[2] * e->dim[3]), 2);
        snprintf(key, sizeof key, "latents_%" PRIu32 "_data", e->n);
        rc = put(e, key, swapped, 2 * n, err);
    }
    snprintf(key, sizeof key, "prompts_%" PRIu32 "_data", e->n);
    if (!rc)
        rc = put(e, key, s->caption, strlen(s->caption), err);
    e->n += !rc;
    if (!rc && e->n % BATCH == 0)
        rc = commit(e, err);
    free(f);
    free(half);
    free(swapped);
    return rc;
}

static int write_shapes(exporting *e, vc_err *err)
{
    char text[128];
    snprintf(text, sizeof text, "%" PRIu32 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64, e->n,
             e->dim[0], e->dim[1], e->dim[2], e->dim[3]);
    int rc = put(e, "latents_shape", text, strlen(text), err);
    snprintf(text, sizeof text, "%" PRIu32, e->n);
    if (!rc)
        rc = put(e, "prompts_shape", text, strlen(text), err);
    return rc ? rc : commit(e, err);
}

/* Returns a map size with room for all values; the file is sparse, so that the size costs
 * nothing. */
static size_t map_size(const exchange *x)
{
    size_t all = 64 << 20;
    for (uint32_t i = 0; i < vf_dataset_count(x->d); i++) {
        const vf_entry *e = vf_dataset_entry(x->d, i);
        all += (size_t)e->f * e->h * e->w * (size_t)x->norm.channels * 2 + (64 << 10);
    }
    return all;
}

static int export_causvid(exchange *x, vc_err *err)
{
    exporting e = { .n = 0 };
    int rc = lmdb_result(mdb_env_create(&e.env), "create", err);
    if (rc)
        return rc;
    rc = lmdb_result(mdb_env_set_mapsize(e.env, map_size(x)), "map", err);
    if (!rc)
        rc = lmdb_result(mdb_env_open(e.env, x->dir, MDB_NOLOCK, 0644), "open", err);
    if (!rc)
        rc = exchange_each(x, write_sample, &e, err);
    if (!rc)
        rc = write_shapes(&e, err);
    if (e.txn)
        mdb_txn_abort(e.txn);
    mdb_env_close(e.env);
    return rc;
}

/* ---- import ---- */

typedef struct importing {
    exchange *x;
    vf_lmdb *m;
    vf_tree tree;
    int64_t n, dim[4];
} importing;

static int read_shape(importing *m, vc_err *err)
{
    static const char key[] = "latents_shape";
    vf_bytes v;
    char text[128], *at = text;
    int64_t d[6] = { 0 };
    int n = 0, rc = vf_lmdb_get(m->m, &m->tree, key, sizeof key - 1, &v, err);
    if (rc)
        return vc_context(err, rc, "%s", key);
    if (v.size >= sizeof text)
        return vc_fail(err, VC_EFORMAT, "%s: %zu bytes", key, v.size);
    memcpy(text, v.data, v.size);
    text[v.size] = 0;
    while (n < 6) {
        char *end;
        d[n] = strtoll(at, &end, 10);
        if (end == at)
            break;
        if (d[n] < 1 || d[n] > (n ? UINT16_MAX : UINT32_MAX))
            return vc_fail(err, VC_EFORMAT, "%s: %.60s", key, text);
        n++;
        at = end;
    }
    if (n != 5)
        return vc_fail(err, VC_EFORMAT,
                       "%s \"%.60s\": N F C H W expected (trajectories of several steps "
                       "are not read)", key, text);
    m->n = d[0];
    memcpy(m->dim, d + 1, sizeof m->dim);
    return 0;
}

static int read_sample(importing *m, int64_t i, vc_err *err)
{
    vf_bytes latent, prompt = { NULL, 0 };
    const int64_t *d = m->dim;
    size_t n = (size_t)(d[0] * d[1]) * (size_t)(d[2] * d[3]);
    char key[48], path[32];
    snprintf(key, sizeof key, "prompts_%" PRId64 "_data", i);
    vf_lmdb_get(m->m, &m->tree, key, strlen(key), &prompt, NULL);
    snprintf(key, sizeof key, "latents_%" PRId64 "_data", i);
    int rc = vf_lmdb_get(m->m, &m->tree, key, strlen(key), &latent, err);
    if (!rc && latent.size / 2 != n)
        rc = vc_fail(err, VC_EFORMAT, "%zu bytes, %zu expected", latent.size, 2 * n);
    if (rc)
        return vc_context(err, rc, "%s", key);
    char *caption = prompt.data ? strndup((const char *)prompt.data, prompt.size) : strdup("");
    void *swapped = malloc(2 * n);
    if (!caption || !swapped)
        rc = vc_no_memory(err);
    if (!rc) {
        exchange_swap(swapped, latent.data, (size_t)d[0], (size_t)d[1], (size_t)(d[2] * d[3]), 2);
        snprintf(path, sizeof path, "latents_%" PRId64, i);
        const exchange_item item = { .path = path, .caption = caption,
                                  .mean = { "mean", VC_F16, 4, { d[1], d[0], d[2], d[3] }, swapped,
                                            2 * n } };
        rc = exchange_put(m->x, &item, err);
    }
    free(caption);
    free(swapped);
    return rc;
}

static int import_causvid(exchange *x, vc_err *err)
{
    importing m = { .x = x };
    char *path = vc_path_join(x->dir, "data.mdb");
    int rc = path ? vf_lmdb_open(&m.m, path, err) : vc_no_memory(err);
    if (!rc)
        rc = vf_lmdb_tree(m.m, NULL, &m.tree, err);
    if (!rc)
        rc = read_shape(&m, err);
    vc_progress_begin(x->v->progress, "importing", "samples", (uint64_t)m.n);
    for (int64_t i = 0; !rc && i < m.n; i++)
        rc = exchange_skip(x, read_sample(&m, i, err), err);
    rc = vc_context(err, rc, "%s", path ? path : x->dir);
    vf_lmdb_close(m.m);
    free(path);
    return rc;
}

static const char *const only_wan[] = { "wan2.1", NULL };

const exchange_format exchange_causvid = {
    "causvid", "CausVid", "one shape, f16; one caption, no text embeddings",
    only_wan, sizeof *only_wan, "wan2.1", true, false,
    export_causvid, import_causvid, NULL
};
