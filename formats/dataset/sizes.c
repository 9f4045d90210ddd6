/* sizes.c - the sizes that the texts of a dataset have, from the nodes of the trees alone. See
 * dataset.h */
#include <stdlib.h>
#include <string.h>

#include "formats/dataset/read.h"

/* Leaves of all trees that are worth reading: of 1.6 million texts, or of 130,000 that are short
 * enough to lie in the leaves themselves. Five seconds on a slow disk. */
enum { MAX_LEAVES = 1 << 16 };

typedef struct sizes {
    vf_text_size *item;                      /* [VF_MAX_SIZES + 1], the greatest first */
    size_t n;
} sizes;

static bool has_texts(const shard *s) { return s->info->text && s->m; }

/* Adds a size, unless the list has it. The list is short: texts of equal lengths have one size. */
static void add(sizes *l, size_t bytes, vf_key key)
{
    size_t lo = 0, hi = l->n;
    while (lo < hi) {
        const size_t middle = (lo + hi) / 2;
        if (l->item[middle].bytes > bytes)
            lo = middle + 1;
        else
            hi = middle;
    }
    if (lo < l->n && l->item[lo].bytes == bytes)
        return;
    memmove(l->item + lo + 1, l->item + lo, (l->n - lo) * sizeof *l->item);
    l->item[lo] = (vf_text_size){ bytes, key };
    l->n++;
}

static int walk(const shard *s, sizes *l, vc_err *err)
{
    vf_lmdb_cursor c;
    vf_bytes key;
    size_t bytes;
    vf_key k;
    int rc = 0;

    vf_lmdb_scattered(s->m, true);           /* else the values around each page are read too */
    vf_lmdb_start(&c, s->m, &s->values);
    c.ahead = true;
    while (l->n <= VF_MAX_SIZES && (rc = vf_lmdb_next_size(&c, &key, &bytes, err)) > 0)
        if (vf_key_parse_n(&k, (const char *)key.data, key.size))
            add(l, bytes, k);
    vf_lmdb_scattered(s->m, false);
    vf_lmdb_release(s->m);
    return rc > 0 ? 0 : vc_context(err, rc, "%s", s->info->file);
}

int vf_dataset_text_sizes(const vf_dataset *d, vf_text_size **list, size_t *n, vc_err *err)
{
    sizes l = { .item = malloc((VF_MAX_SIZES + 1) * sizeof *l.item) };
    int rc = l.item ? 0 : vc_no_memory(err);

    uint64_t leaves = 0;

    *list = NULL;
    *n = 0;
    for (int i = 0; i < d->n_shards && leaves <= MAX_LEAVES; i++)
        leaves += has_texts(&d->shard[i]) ? d->shard[i].values.leaves : 0;
    for (int i = 0; !rc && i < d->n_shards && leaves <= MAX_LEAVES; i++)
        if (has_texts(&d->shard[i]))
            rc = walk(&d->shard[i], &l, err);
    if (rc) {
        free(l.item);
        return vf_mendable(d, rc, err);
    }
    *list = l.item;
    *n = l.n > VF_MAX_SIZES ? 0 : l.n;
    return 0;
}
