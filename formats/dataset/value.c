/* value.c - the names of a value's tensors. See dataset.h */
#include <string.h>

#include "formats/dataset/dataset.h"

/* The tensors of each kind of value (docs/format.md). */
static const struct kind {
    bool text, alone;                        /* alone: there may be `second` without `first` */
    const char *first, *second;
} kinds[] = {
    { false, false, "mean", "logvar" }, { false, false, "sample", NULL },
    { false, false, "mask", NULL }, { false, false, "image_embeds", NULL },
    { true, true, "prompt_embeds", "pooled" },
};

static bool has(const vf_safetensors *st, const char *name)
{
    vf_view v;
    return name && !vf_safetensors_get(st, name, &v, NULL);
}

static bool is_of(const struct kind *k, const char *name)
{
    return k && (!strcmp(name, k->first) || (k->second && !strcmp(name, k->second)));
}

int vf_value_names(bool text, const vf_safetensors *st, vc_err *err)
{
    const struct kind *k = NULL;
    for (size_t i = 0; !k && i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].text == text && (has(st, kinds[i].first) || has(st, kinds[i].second)))
            k = &kinds[i];
    for (int i = 0; i < vf_safetensors_count(st); i++) {
        const char *name = vf_safetensors_at(st, i)->name;
        if (!is_of(k, name))
            return vc_fail(err, VC_EFORMAT, "tensor \"%.60s\": no such tensor belongs to a value "
                           "of %s", name, text ? "texts" : "latents");
    }
    if (!k || (!k->alone && !has(st, k->first)))
        return vc_fail(err, VC_EFORMAT, "no tensor \"%s\"",
                       k ? k->first : text ? "prompt_embeds" : "mean");
    return 0;
}
