/* controlnet.c - see controlnet.h */
#include "train/models/controlnet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/tensors/model.h"

enum { NAME = 192 };

struct vtrain_controlnet {
    vf_model *file;                           /* NULL: it is new */
    vt_source base;                           /* of the transformer's weights */
};

bool vtrain_controlnet_has(const char *name)
{
    return strstr(name, VTRAIN_CONTROL_PART) != NULL;
}

/* Writes a parameter's name in the file; it is of a ControlNet. */
static void name_in_file(char out[NAME], const char *name)
{
    const char *part = strstr(name, VTRAIN_CONTROL_PART) + strlen(VTRAIN_CONTROL_PART);
    const char *blocks = strchr(name, '.');   /* ".7." between the blocks' prefix and the part */
    if (part == name + strlen(VTRAIN_CONTROL_PART))
        snprintf(out, NAME, "%s", part);
    else
        snprintf(out, NAME, "controlnet_blocks%.*s%s",
                 (int)(part - strlen(VTRAIN_CONTROL_PART) - blocks), blocks, part);
}

int vtrain_controlnet_open(vtrain_controlnet **out, const char *path, vc_err *err)
{
    vtrain_controlnet *c = *out = calloc(1, sizeof *c);
    int rc = c ? 0 : vc_no_memory(err);
    if (!rc && strcmp(path, "new"))
        rc = vf_model_open(&c->file, path, err);
    if (rc) {
        vtrain_controlnet_close(c);
        *out = NULL;
    }
    return vc_context(err, rc, "--blockwise_controlnet");
}

void vtrain_controlnet_close(vtrain_controlnet *c)
{
    if (c)
        vf_model_close(c->file);
    free(c);
}

static int get(void *arg, const char *name, vt_host *view, vc_err *err)
{
    const vtrain_controlnet *c = arg;
    char theirs[NAME];
    if (!vtrain_controlnet_has(name))
        return c->base.get(c->base.arg, name, view, err);
    name_in_file(theirs, name);
    const vt_source file = vf_model_source(c->file);
    return vc_context(err, file.get(file.arg, theirs, view, err), "--blockwise_controlnet");
}

/* All weights of a new ControlNet begin with the values of their tables. */
static bool lacks(const void *arg, const char *name)
{
    const vtrain_controlnet *c = arg;
    return vtrain_controlnet_has(name) ? !c->file
                                       : c->base.lacks && c->base.lacks(c->base.lacks_arg, name);
}

vt_source vtrain_controlnet_source(vtrain_controlnet *c, const vt_source *base)
{
    vt_source src = *base;
    c->base = *base;
    src.get = get;
    src.arg = c;
    src.lacks = lacks;
    src.lacks_arg = c;
    return src;
}

int vtrain_controlnet_check(const vtrain_controlnet *c, vt_params *p, vc_err *err)
{
    int has = 0, all = c->file ? vf_model_count(c->file) : 0;
    for (int i = 0; i < vt_params_count(p); i++)
        has += vtrain_controlnet_has(vt_params_at(p, i)->name);
    if (!all || has == all)
        return 0;
    return vc_fail(err, VC_EMISMATCH, "--blockwise_controlnet: the file has %d tensors, a "
                   "ControlNet of this transformer has %d: it belongs to a transformer of another "
                   "number of blocks", all, has);
}

static vc_dtype type_of(const vtrain_controlnet *c, const char *name)
{
    vf_view v;
    return c->file && !vf_model_get(c->file, name, &v, NULL) ? v.dtype : VC_F32;
}

int vtrain_controlnet_write(const vtrain_controlnet *c, const char *dir, vt_params *p,
                            vf_sums *sums, vc_err *err)
{
    const vf_meta meta = { "format", "pt" };
    vf_views v;
    int rc = vf_views_open(&v, vt_params_context(p), vt_params_count(p), err);
    for (int i = 0; !rc && i < vt_params_count(p); i++) {
        const vt_param *x = vt_params_at(p, i);
        char name[NAME];
        if (!vtrain_controlnet_has(x->name))
            continue;
        name_in_file(name, x->name);
        rc = vf_views_add(&v, "", name, "", x->t, type_of(c, name), 1, err);
    }
    if (!rc)
        rc = vf_views_write(&v, dir, VTRAIN_CONTROL_FILE, &meta, 1, false, sums, err);
    vf_views_close(&v);
    return rc;
}
