/* load.c - gives the model its weights, and shows the progress of a load that copies or converts
 * them; weights that stay mapped from their file take no time. Refuses to begin from noise where
 * nobody asked for this. */
#include "train/setup/load.h"

#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "common/os/progress.h"
#include "formats/tensors/component.h"
#include "train/families/families.h"
#include "train/models/controlnet.h"
#include "train/models/weights.h"
#include "train/output/export.h"
#include "train/samples/samples.h"

#define MB 1e6
#define SHOWN (100 * MB)         /* a smaller load takes about a second or less */

int vtrain_check_fresh(const vtrain *t, bool asked, vc_err *err)
{
    const char *own = vtrain_family_name(vtrain_family_fresh()), *is = vtrain_data_family(t->data);
    if (t->cfg.model || t->cfg.transformer || asked || !strcmp(own, is))
        return 0;
    vf_made made;
    vf_dataset_made(&made, vf_dataset_path(vtrain_data_set(t->data, 0)));
    int rc = vc_fail(err, VC_EUSAGE, "no --model: --latents %s holds latents of %s: add --model "
                     "%s, %s; --model %s trains a new built-in DiT from noise instead",
                     t->cfg.latents.item[0], *is ? is : "an unknown family",
                     made.model ? made.model : "DIR",
                     made.model ? "with which vprep made them" : "the folder of the model", own);
    vf_made_free(&made);
    return rc;
}

/* True if weights of blocks are to be swapped; reports flags that have no effect. */
static bool swaps(const vtrain *t)
{
    const char *flag = t->cfg.low_vram ? "low_vram" : "blocks_to_swap";
    if (!t->cfg.low_vram && !t->cfg.blocks_to_swap)
        return false;
    if (t->cfg.training_type != VTRAIN_LORA && !t->model.controlnet)
        vc_say(t->ui, "--%s: has no effect: only frozen weights are swapped, and a full finetune "
               "has none", flag);
    else if (vt_host_memory(t->g))
        vc_say(t->ui, "--%s: has no effect on the CPU, where frozen weights stay mapped from their "
               "file", flag);
    else
        return true;
    return false;
}

/* Shows the progress of a large load, and ends the load at a signal. */
static int loaded(void *arg, size_t bytes, vc_err *err)
{
    vtrain *t = arg;
    double all = vtrain_weights_file_bytes(t->model.weights) +
                 vtrain_weights_file_bytes(t->model.low_weights);
    if (t->model.loaded == 0 && all >= SHOWN)
        vc_progress_begin(t->ui, "loading weights", "MB", (uint64_t)(all / MB));
    t->model.loaded += (double)bytes;
    vc_progress_at(t->ui, (uint64_t)(t->model.loaded / MB), NULL);
    return *t->stop ? vc_fail(err, VC_ESTOP, "stopped while weights were loaded") : 0;
}

/* Loads the second of two transformers, as the first was loaded. */
static int load_low(vtrain *t, const vt_source *first, vc_err *err)
{
    vtrain_model *m = &t->model;
    vt_source src = vtrain_weights_source(m->low_weights, t->cfg.dry_run);
    src.seed = first->seed;
    vt_params_model(t->params, 1);
    int rc = vtrain_dit_open(&m->both[1], m->family, m->config, t->params, &src, err);
    if (!rc)
        rc = vtrain_weights_check(m->low_weights, t->params, err);
    vt_params_model(t->params, 0);
    return vc_context(err, rc, "%s", vtrain_weights_path(m->low_weights));
}

/* Finds the component that runs with the model: that of its flag, of the transformer's file, or of
 * the model. */
static int find_beside(char **path, const vtrain *t, const char *name, vc_err *err)
{
    const vtrain_config *c = &t->cfg;
    const char *const places[] = { c->connectors, c->transformer, c->model };
    int rc = 0;
    *path = NULL;
    for (size_t i = 0; !rc && !*path && i < sizeof places / sizeof *places; i++)
        if (places[i] && !vc_file_exists_in(places[i], "config.json"))
            rc = vf_component_find(path, places[i], name, err);
    if (!rc && !*path && c->connectors && !(*path = strdup(c->connectors)))
        rc = vc_no_memory(err);
    return rc || *path ? rc : vc_fail(err, VC_EUSAGE, "--model%s%s has no folder %s: give the "
                                      "folder of the whole pipeline, or --%s",
                                      c->model ? " " : "", c->model ? c->model : "", name, name);
}

/* Opens the component that runs with the model. */
static int load_beside(vtrain *t, vc_err *err)
{
    const char *name = t->model.family->beside;
    char *path;
    cJSON *config = NULL;
    double bytes = 0;
    int rc = find_beside(&path, t, name, err);
    if (!rc)
        rc = vf_component_config(&config, path, name, NULL, err);
    if (!rc)
        rc = vf_model_files(&t->model.beside_files, &bytes, path, err);
    if (!rc)
        rc = vf_component_open(&t->model.beside, path, name, err);
    if (!rc)
        rc = vc_context(err, t->model.family->open_beside(t->model.dit, t->g, config,
                                                          t->model.beside, err), "%s", path);
    cJSON_Delete(config);
    free(path);
    return rc;
}

/* Fails before the first step where the result could not be written. */
static int check_kept(const vtrain *t, vc_err *err)
{
    vf_view *v;
    int n, rc = vtrain_weights_kept(&v, &n, t->model.weights, t->params, err);
    if (!rc && n)
        vc_say(t->ui, "%d tensors of %s are not trained, and are written as they are: first %s", n,
               vtrain_weights_path(t->model.weights), v[0].name);
    free(v);
    return rc;
}

int vtrain_load_model(vtrain *t, vc_err *err)
{
    vt_source src = { .seed = (uint64_t)t->cfg.seed, .on_host = swaps(t) };
    bool on_host = src.on_host;
    if (on_host && vtrain_both(t))
        return vc_fail(err, VC_EUSAGE, "--boundary_type both: blocks of two transformers cannot be "
                       "swapped yet: leave out --blocks_to_swap and --low_vram, or train the "
                       "transformers in two runs, with high and with low");
    if (t->model.weights) {
        src = vtrain_weights_source(t->model.weights, t->cfg.dry_run);
        src.seed = (uint64_t)t->cfg.seed;
        src.on_host = on_host;
    }
    if (t->model.controlnet)
        src = vtrain_controlnet_source(t->model.controlnet, &src);
    const bool whole = t->cfg.training_type == VTRAIN_FULL && !t->model.controlnet;
    int rc = vt_params_open(&t->params, t->g, err);
    if (!rc)
        vt_params_watch(t->params, loaded, t);
    if (!rc && whole && t->cfg.export_pipeline && t->cfg.model)
        rc = vc_context(err, vtrain_export_pipeline(NULL, t->cfg.model, NULL, NULL, err),
                        "--export_pipeline");
    if (!rc)
        rc = vtrain_dit_open(&t->model.dit, t->model.family, t->model.config, t->params, &src, err);
    t->model.both[0] = vtrain_both(t) ? t->model.dit : NULL;
    if (!rc && t->model.weights)
        rc = vtrain_weights_check(t->model.weights, t->params, err);
    if (!rc && t->model.weights && whole)
        rc = check_kept(t, err);
    if (!rc && t->model.controlnet)
        rc = vtrain_controlnet_check(t->model.controlnet, t->params, err);
    if (rc && t->model.weights)
        return vc_context(err, rc, "%s", vtrain_weights_path(t->model.weights));
    if (!rc && vtrain_both(t))
        rc = load_low(t, &src, err);
    if (!rc && t->model.family->beside)
        rc = load_beside(t, err);
    return rc ? rc : vtrain_fit_data(t, err);
}

int vtrain_settle_zero_cond(vtrain *t, vc_err *err)
{
    static const char field[] = "zero_cond_t";
    const char *path = vtrain_weights_path(t->model.weights), *version = t->cfg.model_version;
    const bool qwen = !strcmp(t->model.family->class_name, "QwenImageTransformer2DModel");
    const bool known = cJSON_HasObjectItem(t->model.config, field);
    enum { YES, NO, AUTO };
    const vc_family *f = vc_family_of_transformer(t->model.family->class_name);
    const bool named = version && !strcmp(version, "edit-2511");
    const bool asked = t->cfg.zero_cond_t != AUTO || named;
    const bool on = asked ? t->cfg.zero_cond_t == YES || (named && t->cfg.zero_cond_t != NO)
                          : !known && strstr(path, "2511") &&
                            !vc_file_exists_in(path, "config.json");

    if (version && f && !vc_family_version(f, version))
        return vc_fail(err, VC_EUSAGE, "--model_version %s: is no version of %s, which %s is: "
                       "leave it out", version, f->name, path);
    if (!qwen || (!asked && !on))
        return 0;
    if (!asked)
        vc_say(t->ui, "%s has no config.json and the name of Qwen-Image-Edit-2511: --zero_cond_t "
               "holds; --no_zero_cond_t trains it as 2509", path);
    cJSON_DeleteItemFromObject(t->model.config, field);
    return cJSON_AddBoolToObject(t->model.config, field, on) ? 0 : vc_no_memory(err);
}
