/* shorthand.c - flags that stand for other flags: vtrain_take_shorthand of settings.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cli/inputs.h"
#include "common/os/file.h"
#include "train/families/families.h"
#include "train/settings/settings.h"

/* The job's name becomes part of the run's folder, so that config.yaml needs no name. */
static int take_job(vtrain_config *c, vc_flags *set, vc_err *err)
{
    const char *name = c->job_name;
    if (!name || !c->output_dir)
        return 0;
    if (!*name || strchr(name, '/') || !strcmp(name, ".") || !strcmp(name, "..")) {
        vc_flags_wrong(set, "--job_name \"%s\": the name of a folder is expected, without /", name);
        return 0;
    }
    if (vf_dataset_there(c->output_dir))
        vc_flags_wrong(set, "--output_dir %s is a dataset: give another folder", c->output_dir);
    char *dir = vc_path_join(c->output_dir, name);
    int rc = dir ? vc_flags_replace(set, "output_dir", dir, err) : vc_no_memory(err);
    free(dir);
    c->job_name = NULL;
    return rc ? rc : vc_flags_prefer(set, "resume_from_checkpoint", "latest", err);
}

/* Refuses a folder that PyTorch wrote from several processes: its tensors are in parts. */
static int refuse_dcp(const char *dir, vc_err *err)
{
    if (!vc_file_exists_in(dir, ".metadata"))
        return 0;
    return vc_fail(err, VC_EUSAGE, "--init_state_dir %s: a folder of torch.distributed.checkpoint, "
                   "as ttt-video writes it, is not read. Make one file of it (python -m "
                   "torch.distributed.checkpoint.format_utils dcp_to_torch %s FILE), save its "
                   "tensors by the names of a full finetune here, as "
                   "diffusion_pytorch_model.safetensors beside a config.json, and give that folder "
                   "as --transformer", dir, dir);
}

/* Finds the transformer of a checkpoint, or of the latest checkpoint of a run. */
static int find_transformer(char **path, const char *dir, vc_err *err)
{
    char *of_run = NULL, *config;
    *path = NULL;
    int rc = refuse_dcp(dir, err);
    if (rc)
        return rc;
    *path = vc_path_join(dir, "transformer");
    if (!*path)
        return vc_no_memory(err);
    if (vc_file_exists(*path))
        return 0;
    free(*path);
    *path = NULL;
    rc = vtrain_ckpt_find(&of_run, dir, "latest", err);
    if (!rc && of_run && !(*path = vc_path_join(of_run, "transformer")))
        rc = vc_no_memory(err);
    free(of_run);
    config = *path ? vc_path_join(*path, "config.json") : NULL;
    if (!rc && (!config || !vc_file_exists(config)))
        rc = vc_fail(err, VC_EUSAGE, "--init_state_dir %s: neither this folder nor its latest "
                     "checkpoint has a transformer/: give the checkpoint of a full finetune, or "
                     "its run's folder", dir);
    free(config);
    return rc;
}

static int take_init(vtrain_config *c, vc_flags *set, vc_err *err)
{
    char *path = NULL;
    if (!c->init_state_dir)
        return 0;
    if (vc_flags_given(set, "transformer"))
        vc_flags_wrong(set, "--init_state_dir: --transformer gives the initial weights already: "
                       "leave one of the two flags out");
    int rc = find_transformer(&path, c->init_state_dir, err);
    if (!rc)
        rc = vc_flags_prefer(set, "transformer", path, err);
    free(path);
    c->init_state_dir = NULL;
    return vc_flags_catch(set, rc, err);
}

static int take_ssm(vtrain_config *c, vc_flags *set, vc_err *err)
{
    char text[96];
    if (!(c->lr_ssm > 0))
        return 0;
    if (c->param_groups.n)
        vc_flags_wrong(set, "--lr_ssm: --param_groups gives groups already: leave one of the two "
                       "flags out");
    snprintf(text, sizeof text, "ttt|ssm:lr=%.9g,schedule=%s", c->lr_ssm,
             c->lr_ssm_schedule ? "cosine" : "linear");
    c->lr_ssm = 0;
    c->lr_ssm_schedule = 0;
    return vc_flags_prefer(set, "param_groups", text, err);
}

/* --lr_warmup_ratio is a --lr_warmup_steps below 1. */
static int take_warmup(vtrain_config *c, vc_flags *set, vc_err *err)
{
    char text[32];
    if (!(c->lr_warmup_ratio > 0))
        return 0;
    if (vc_flags_given(set, "lr_warmup_steps"))
        vc_flags_wrong(set, "--lr_warmup_ratio: --lr_warmup_steps gives the warm-up already: leave "
                       "one of the two flags out");
    snprintf(text, sizeof text, "%.17g", c->lr_warmup_ratio);
    c->lr_warmup_ratio = 0;
    return vc_flags_prefer(set, "lr_warmup_steps", text, err);
}

/* The built-in model has no folder, so that its name stands for no --model. */
static void take_builtin(vtrain_config *c, vc_flags *set)
{
    if (!c->model || strcmp(c->model, vtrain_family_name(vtrain_family_fresh())))
        return;
    if (c->transformer)
        vc_flags_wrong(set, "--model %s: the built-in DiT starts from noise, and --transformer "
                       "gives weights: leave one of the two flags out", c->model);
    c->model = NULL;
}

/* Without input_image, DiffSynth gives a model of control clips no first frame, and it drops
 * nothing. */
static int take_inputs(const vtrain_config *c, vc_flags *set, vc_err *err)
{
    const char *list = c->extra_inputs;
    vc_inputs_refuse(set, list);
    int rc = vc_inputs_have(list, VC_INPUT_SOUND) ? vc_flags_prefer(set, "with_audio", "true", err)
                                                  : 0;
    if (rc || !vc_inputs_have(list, VC_INPUT_CONTROL))
        return rc;
    const char *dropped = vc_inputs_have(list, VC_INPUT_FIRST) ? "0" : "1";
    rc = vc_flags_prefer(set, "image_dropout_p", dropped, err);
    return rc ? rc : vc_flags_prefer(set, "control_dropout_p", "0", err);
}

/* In ttt-video and Finetrainers, ranks that share a copy of the state split the weights too. */
static int take_sharding(const vtrain_config *c, vc_flags *set, vc_err *err)
{
    return c->dp_shards > 1 ? vc_flags_prefer(set, "parallel", "fsdp", err) : 0;
}

int vtrain_take_shorthand(vtrain_config *c, vc_flags *set, vc_err *err)
{
    int rc = take_job(c, set, err);
    if (!rc)
        rc = take_init(c, set, err);
    if (!rc)
        rc = take_ssm(c, set, err);
    if (!rc)
        rc = take_warmup(c, set, err);
    if (!rc)
        rc = vtrain_take_network_args(c, set, err);
    if (!rc)
        rc = take_inputs(c, set, err);
    if (!rc)
        take_builtin(c, set);
    return rc ? rc : take_sharding(c, set, err);
}
