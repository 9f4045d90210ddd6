#include "train/models/dit.h"

#include <string.h>

static const vtrain_family *const families[] = { &vtrain_builtin, &vtrain_cogvideox, NULL };

const vtrain_family *const *vtrain_families(void)
{
    return families;
}

vt_tensor *vtrain_forward(const vtrain_family *f, vt_ctx *g, void *model, vtrain_in *in)
{
    f->prepare(g, model, in);
    return f->forward(g, model, in);
}

const vtrain_family *vtrain_family_of_class(const char *class_name)
{
    for (const vtrain_family *const *f = families; *f; f++)
        if (!strcmp((*f)->class_name, class_name)) return *f;
    return NULL;
}
