/* containers.c - files of tensors as dictionaries. See containers.h */
#include "formats/peers/containers.h"

#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/tensors/npz.h"

/* Makes the dictionary of a safetensors file, which borrows from it. */
static int dict_of(exchange_file *f, vc_err *err)
{
    const size_t n = (size_t)vf_safetensors_count(f->st);
    vf_pt_value *v = f->own = calloc(2 * n + 1, sizeof *v);
    const vf_pt_value **item = v ? malloc((2 * n + 1) * sizeof *item) : NULL;
    if (!item)
        return vc_no_memory(err);
    for (size_t i = 0; i < n; i++) {
        const vf_view *t = vf_safetensors_at(f->st, (int)i);
        item[2 * i] = &v[1 + 2 * i];
        item[2 * i + 1] = &v[2 + 2 * i];
        v[1 + 2 * i] = (vf_pt_value){ .kind = VF_PT_STR, .s = t->name, .n = strlen(t->name) };
        v[2 + 2 * i] = (vf_pt_value){ .kind = VF_PT_TENSOR, .tensor = t };
    }
    v[0] = (vf_pt_value){ .kind = VF_PT_DICT, .item = item, .n = n };
    f->root = v;
    return 0;
}

int exchange_file_open(exchange_file *f, const char *path, vc_err *err)
{
    const char *dot = strrchr(path, '.');
    *f = (exchange_file){ .root = NULL };
    if (dot && !strcmp(dot, ".safetensors")) {
        int rc = vf_safetensors_open(&f->st, path, err);
        return rc ? rc : dict_of(f, err);
    }
    int rc = dot && !strcmp(dot, ".npz") ? vf_npz_open(&f->pt, path, err)
                                         : vf_pt_open(&f->pt, path, err);
    f->root = rc ? NULL : vf_pt_root(f->pt);
    return rc;
}

void exchange_file_close(exchange_file *f)
{
    if (f->own)
        free(f->own->item);
    free(f->own);
    vf_safetensors_close(f->st);
    vf_pt_close(f->pt);
    *f = (exchange_file){ .root = NULL };
}

int exchange_pair_open(exchange_file f[2], char *a, char *b, vc_err *err)
{
    f[0] = f[1] = (exchange_file){ .root = NULL };
    int rc = a && b ? exchange_file_open(&f[0], a, err) : vc_no_memory(err);
    if (!rc)
        rc = exchange_file_open(&f[1], b, err);
    free(a);
    free(b);
    return rc;
}

void exchange_pair_close(exchange_file f[2])
{
    exchange_file_close(&f[0]);
    exchange_file_close(&f[1]);
}

int exchange_write_safetensors(const char *dir, const char *name, const exchange_dict *d,
                               const vf_meta *meta, int n_meta, vc_err *err)
{
    vf_view v[EXCHANGE_DICT];
    uint8_t *data;
    size_t size;
    for (size_t i = 0; i < d->n; i++) {
        v[i] = d->view[i];
        v[i].name = d->key[i].s;
    }
    int rc = vf_safetensors_pack(&data, &size, v, (int)d->n, meta, n_meta, 0, err);
    if (rc)
        return rc;
    rc = exchange_write(dir, name, data, size, err);
    free(data);
    return rc;
}
