/* unconditional.c - see unconditional.h */
#include "train/setup/unconditional.h"

#include <stdlib.h>
#include <string.h>

#include "formats/tensors/component.h"
#include "train/models/weights.h"

/* Finds the component's folder or file: *path, malloc'ed, or NULL where there is none. */
static int find(char **path, const vtrain *t, vc_err *err)
{
    const vtrain_config *c = &t->cfg;
    *path = NULL;
    if (c->unconditional_transformer) {
        *path = strdup(c->unconditional_transformer);
        return *path ? 0 : vc_no_memory(err);
    }
    return c->model ? vf_component_find(path, c->model, t->model.family->unconditional, err) : 0;
}

static int bind(vtrain *t, vtrain_unconditional *u, vc_err *err)
{
    const char *class = NULL;
    vtrain_fit own, fit = vtrain_fit_of(t);
    const cJSON *config = vtrain_weights_config(u->weights);
    int rc = vf_json_str(config, "_class_name", &class, err);
    if (!rc && strcmp(class, t->model.family->class_name))
        rc = vc_fail(err, VC_EMISMATCH, "its config.json has the _class_name %s, not %s", class,
                     t->model.family->class_name);
    if (!rc)
        rc = vtrain_weights_family(u->weights, t->model.family, err);
    if (!rc)
        rc = vt_params_open(&u->params, t->g, err);
    if (rc)
        return rc;
    const vt_source src = vtrain_weights_source(u->weights, t->cfg.dry_run);
    rc = vtrain_dit_open(&u->dit, t->model.family, vtrain_weights_config(u->weights), u->params,
                         &src, err);
    if (!rc)
        rc = vtrain_weights_check(u->weights, u->params, err);
    if (rc)
        return rc;
    t->model.family->fit(u->dit, &own);
    if (own.channels == fit.channels && own.text_width[0] == fit.text_width[0])
        return 0;
    return vc_fail(err, VC_EMISMATCH, "it takes latents of %d channels and texts %lld wide, but "
                   "the transformer %d and %lld: give the one of the same model", own.channels,
                   (long long)own.text_width[0], fit.channels, (long long)fit.text_width[0]);
}

int vtrain_unconditional_open(vtrain *t, vc_err *err)
{
    const vtrain_config *c = &t->cfg;
    const char *name = t->model.family->unconditional;
    vtrain_unconditional *u = &t->model.unconditional;
    char *path;
    if (c->unconditional_transformer && !name)
        return vc_fail(err, VC_EUSAGE, "--unconditional_transformer: a %s has none: leave the flag "
                       "out", t->model.family->class_name);
    if (!name || !vtrain_makes_samples(c) || !vtrain_data_prompts(t->data))
        return 0;
    int rc = find(&path, t, err);
    if (!rc && !path)
        vc_warn(t->ui, "no %s is found: samples are guided by the prediction for the negative "
                "prompt, and differ from those of the pipeline: give --unconditional_transformer",
                name);
    if (rc || !path)
        return rc;
    const vc_dtype held = c->training_type == VTRAIN_LORA ? c->transformer_dtype : VC_DTYPE_NONE;
    rc = vtrain_weights_open(&u->weights, NULL, name, path, held, err);
    if (!rc)
        rc = bind(t, u, err);
    free(path);
    return vc_context(err, rc, "--unconditional_transformer: %s",
                      u->weights ? vtrain_weights_path(u->weights) : name);
}

void vtrain_unconditional_close(vtrain *t)
{
    vtrain_unconditional *u = &t->model.unconditional;
    vtrain_dit_close(u->dit);
    vt_params_close(u->params);
    vtrain_weights_close(u->weights);
    *u = (vtrain_unconditional){ 0 };
}
