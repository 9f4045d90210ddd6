/* families.c - the table of transformers that vtrain can train; see families.h */
#include "train/families/families.h"

#include <string.h>

#include "common/families.h"

static const vtrain_family *const families[] = {
    &vtrain_builtin, &vtrain_cogvideox, &vtrain_flux, &vtrain_flux2, &vtrain_hunyuan,
    &vtrain_hunyuan15, &vtrain_ltx, &vtrain_ltx2, &vtrain_ltx2_sound, &vtrain_wan,
    &vtrain_wan_vace, &vtrain_skyreels2, &vtrain_qwen, &vtrain_zimage, &vtrain_krea2,
    &vtrain_chroma, &vtrain_sd3, &vtrain_ttt, &vtrain_ernie_image, &vtrain_ideogram4,
    &vtrain_kandinsky5, &vtrain_cosmos2, NULL
};

/* Of two rows of a class, the first is without sound. */
const vtrain_family *vtrain_family_of_class(const char *class_name)
{
    for (const vtrain_family *const *f = families; *f; f++)
        if (!strcmp((*f)->class_name, class_name) ||
            ((*f)->first_class && !strcmp((*f)->first_class, class_name)))
            return *f;
    return NULL;
}

const vtrain_family *vtrain_family_with_ssm(const vtrain_family *family)
{
    const vtrain_family *const *f = families;
    while (*f && (*f)->without_ssm != family)
        f++;
    return *f;
}

const vtrain_family *vtrain_family_with_sound(const vtrain_family *family)
{
    const vtrain_family *const *f = families;
    while (*f && (*f)->without_sound != family)
        f++;
    return *f;
}

const vtrain_family *vtrain_family_fresh(void)
{
    const vtrain_family *const *f = families;
    while (!(*f)->fresh)
        f++;
    return *f;
}

const char *vtrain_family_name(const vtrain_family *f)
{
    const vc_family *is = vc_family_of_transformer(f->class_name);
    return is ? is->name : f->class_name;
}
