/* hints.c - reads the hints of a dataset; see dataset.h */
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/dataset/parts.h"

struct vf_hints {
    vf_lmdb *m;
    vf_tree t;
};

vf_hints *vf_hints_open(const char *path)
{
    vf_hints *h = calloc(1, sizeof *h);
    char *state = vc_path_join(path, VF_STATE);
    if (h && (!state || vf_lmdb_open(&h->m, state, NULL) ||
              vf_lmdb_tree(h->m, "hint", &h->t, NULL))) {
        vf_hints_close(h);
        h = NULL;
    }
    free(state);
    return h;
}

void vf_hints_close(vf_hints *h)
{
    if (!h)
        return;
    vf_lmdb_close(h->m);
    free(h);
}

vf_key vf_hint_sum(vf_key name, const void *value, size_t n)
{
    return vf_hash2(name.b, sizeof name.b, value, n);
}

int vf_hints_get(const vf_hints *h, const char *name, void *value, size_t n)
{
    vf_key k = vf_hash(name, strlen(name)), sum;
    vf_bytes v;
    if (!h || vf_lmdb_get(h->m, &h->t, k.b, sizeof k.b, &v, NULL) || v.size != n + sizeof sum.b)
        return VC_ENOENT;
    sum = vf_hint_sum(k, v.data, n);
    if (memcmp(v.data + n, sum.b, sizeof sum.b))
        return VC_ENOENT;
    if (n)
        memcpy(value, v.data, n);
    return 0;
}
