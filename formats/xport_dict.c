/* xport_dict.c - a dictionary for a .pt file. See xport_pt.h */
#include <string.h>

#include "formats/xport_pt.h"

vf_pt_value *xport_dict_add(xport_dict *d, const char *key, vf_pt_kind kind)
{
    size_t i = d->n++;
    d->key[i] = (vf_pt_value){ .kind = VF_PT_STR, .s = key, .n = strlen(key) };
    d->value[i] = (vf_pt_value){ .kind = kind, .tensor = &d->view[i] };
    d->item[2 * i] = &d->key[i];
    d->item[2 * i + 1] = &d->value[i];
    return &d->value[i];
}

void xport_dict_tensor(xport_dict *d, const char *key, vf_view v)
{
    xport_dict_add(d, key, VF_PT_TENSOR);
    d->view[d->n - 1] = v;
}

vf_pt_value xport_dict_value(const xport_dict *d)
{
    return (vf_pt_value){ .kind = VF_PT_DICT, .item = (const vf_pt_value **)d->item, .n = d->n };
}
