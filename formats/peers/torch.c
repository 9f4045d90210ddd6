/* torch.c - reads and writes the dictionaries of .pt files. See torch.h */
#include "formats/peers/torch.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"

/* ---- export ---- */

void *exchange_dict_alloc(exchange_dict *d, size_t n)
{
    void *p = d->n_own < sizeof d->own / sizeof *d->own ? calloc(n + 1, 1) : NULL;
    if (p)
        d->own[d->n_own++] = p;
    return p;
}

void exchange_dict_free(exchange_dict *d)
{
    for (size_t i = 0; i < d->n_own; i++)
        free(d->own[i]);
    d->n_own = 0;
}

vf_pt_value *exchange_dict_add(exchange_dict *d, const char *key, vf_pt_kind kind)
{
    size_t i = d->n++;
    d->key[i] = (vf_pt_value){ .kind = VF_PT_STR, .s = key, .n = strlen(key) };
    d->value[i] = (vf_pt_value){ .kind = kind, .tensor = &d->view[i] };
    d->item[2 * i] = &d->key[i];
    d->item[2 * i + 1] = &d->value[i];
    return &d->value[i];
}

void exchange_dict_tensor(exchange_dict *d, const char *key, vf_view v)
{
    exchange_dict_add(d, key, VF_PT_TENSOR);
    d->view[d->n - 1] = v;
}

void exchange_dict_view(exchange_dict *d, const char *key, vf_view v, const void *data)
{
    v.data = data;
    v.bytes = (size_t)vf_view_count(&v) * vc_dtype_size(v.dtype);
    exchange_dict_tensor(d, key, v);
}

vf_pt_value exchange_dict_value(const exchange_dict *d)
{
    return (vf_pt_value){ .kind = VF_PT_DICT, .item = (const vf_pt_value **)d->item, .n = d->n };
}

int exchange_write_pt(const char *dir, const char *name, const vf_pt_value *v, vc_err *err)
{
    char *data;
    size_t n;
    int rc = vf_pt_pack(&data, &n, v, err);
    if (rc)
        return rc;
    rc = exchange_write(dir, name, data, n, err);
    free(data);
    return rc;
}

/* ---- import ---- */

int exchange_open_tensor(vf_pt **p, const char *dir, const char *name, int nd, vf_view *v,
                         vc_err *err)
{
    if (strlen(name) > 4000)
        return vc_fail(err, VC_EFORMAT, "\"%.100s...\": a path of %zu bytes", name, strlen(name));
    char *path = vc_path_join(dir, name);
    int rc = path ? vf_pt_open(p, path, err) : vc_no_memory(err);
    if (!rc) {
        const vf_pt_value *root = vf_pt_root(*p);
        if (root->kind != VF_PT_TENSOR || root->tensor->nd != nd)
            rc = vc_fail(err, VC_EFORMAT, "%s: a tensor of %d dimensions expected", path, nd);
        else
            *v = *root->tensor;
    }
    free(path);
    return rc;
}

int exchange_unbatched(const vf_pt_value *d, const char *key, int nd, vf_view *v, vc_err *err)
{
    int rc = vf_pt_tensor(d, key, v, err);
    if (rc)
        return rc;
    if (v->nd != nd + 1 || v->dim[0] != 1)
        return vc_fail(err, VC_EFORMAT, "%s: %d dimensions with a batch of 1 expected", key,
                       nd + 1);
    memmove(v->dim, v->dim + 1, (size_t)nd * sizeof *v->dim);
    v->nd = nd;
    return 0;
}

void exchange_drop_frames(vf_view *v)
{
    v->nd = 3;
    v->dim[1] = v->dim[2];
    v->dim[2] = v->dim[3];
}

void exchange_add_frames(vf_view *v)
{
    v->nd = 4;
    v->dim[3] = v->dim[2];
    v->dim[2] = v->dim[1];
    v->dim[1] = 1;
}

int64_t exchange_int(const vf_pt_value *d, const char *key, int64_t otherwise)
{
    const vf_pt_value *v = vf_pt_get(d, key);
    return v && v->kind == VF_PT_INT ? v->i : otherwise;
}

static int by_number(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Returns the number in PREFIX<number>ENDING, or -1 for another name. */
static int64_t number_of(const char *name, const char *prefix, const char *ending)
{
    size_t k = strlen(prefix);
    char *end;
    if (strncmp(name, prefix, k) || name[k] < '0' || name[k] > '9' || strlen(name) > k + 24)
        return -1;
    int64_t v = strtoll(name + k, &end, 10);
    return strcmp(end, ending) ? -1 : v;
}

int exchange_numbers(int64_t **out, int *n, const char *dir, const char *prefix, const char *ending,
                     vc_err *err)
{
    vc_list files;
    *n = 0;
    *out = NULL;
    int rc = exchange_list(&files, dir, ending, err);
    if (rc)
        return rc;
    int64_t *list = *out = malloc(((size_t)files.n + 1) * sizeof *list);
    if (!list)
        rc = vc_no_memory(err);
    for (int i = 0; !rc && i < files.n; i++)
        if ((list[*n] = number_of(files.item[i], prefix, ending)) >= 0)
            ++*n;
    exchange_list_free(&files);
    if (*n)
        qsort(list, (size_t)*n, sizeof *list, by_number);
    return rc;
}

int exchange_check_numbers(exchange *x, const int64_t *list, int n, const char *dir,
                           const char *prefix, const char *ending, vc_err *err)
{
    for (int i = 0; i < n; i++)
        if (list[i] != i)
            return exchange_lack(x, err,
                                 "%s/%s%d%s is missing: the numbers there go up to %" PRId64, dir,
                                 prefix, i, ending, list[n - 1]);
    return 0;
}
