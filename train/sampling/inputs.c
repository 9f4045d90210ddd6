/* inputs.c - see inputs.h */
#include "train/sampling/inputs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/os/file.h"

enum { MOST = VC_ROLES + VTRAIN_ASIDES, NUMBERS = 2 };

/* The latents of a role, if the prompt has some that a VAE decodes. */
static bool view_of(vf_view *v, const vtrain *t, const vtrain_prompt *p, vc_role role, int frames)
{
    const vc_role_row *row = &vc_roles[role];
    const int k = vc_role_reference(role);
    if (!p->cond[role] || row->kind != VC_VALUE_MOMENTS)
        return false;
    const int64_t channels = vtrain_data_norm(t->data)->channels, f = row->clip ? frames : 1;
    const int64_t h = k < 0 ? p->h : p->own.size[k][0], w = k < 0 ? p->w : p->own.size[k][1];
    *v = (vf_view){ .name = row->name, .dtype = VC_F32, .nd = 4, .data = p->cond[role],
                    .dim = { channels, f, h, w },
                    .bytes = (size_t)(channels * f * h * w) * sizeof(float) };
    return true;
}

static int find_views(vf_view view[MOST], const vtrain *t, const vtrain_prompt *p, unsigned roles,
                      int frames)
{
    int n = 0;
    for (int role = 0; role < VC_ROLES; role++)
        n += roles & 1u << role && view_of(&view[n], t, p, (vc_role)role, frames);
    for (int i = 0; i < VTRAIN_ASIDES; i++) {
        const int64_t *dim = p->aside[i].dim;
        if (p->aside[i].x)
            view[n++] = (vf_view){ .name = vtrain_aside_names[i], .dtype = VC_F32, .nd = 4,
                                   .data = p->aside[i].x,
                                   .dim = { dim[0], dim[1], dim[2], dim[3] },
                                   .bytes = (size_t)(dim[0] * dim[1] * dim[2] * dim[3]) *
                                            sizeof(float) };
    }
    return n;
}

static int write_views(const char *path, const vf_view *view, int n, const vtrain_prompt *p,
                       vc_err *err)
{
    char frames[16], fps[32];
    vf_meta meta[1 + NUMBERS] = { { "prompt", p->text }, { "frames", frames }, { "fps", fps } };
    snprintf(frames, sizeof frames, "%d", p->frames);
    snprintf(fps, sizeof fps, "%.6g", p->fps);
    return vf_safetensors_write(path, view, n, meta, p->fps > 0 ? 3 : 2, err);
}

int vtrain_inputs_write(const vtrain *t, uint32_t i, const vtrain_prompt *p, unsigned roles,
                        int frames, vc_err *err)
{
    vf_view view[MOST];
    const int n = find_views(view, t, p, roles, frames);
    char *dir = vc_format("%s/validation/inputs", t->cfg.output_dir);
    char *path = dir ? vc_format("%s/%03u.safetensors", dir, i) : NULL;
    int rc = path ? 0 : vc_no_memory(err);
    if (!rc && n)
        rc = vc_mkdirs(dir, err);
    if (!rc && n)
        rc = write_views(path, view, n, p, err);
    else if (!rc && unlink(path) && errno != ENOENT && errno != ENOTDIR)
        rc = vc_fail_errno(err, "%s", path);
    free(path);
    free(dir);
    return rc;
}
