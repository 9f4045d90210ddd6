/* resume.c - finds the checkpoint that a run continues from, reads it, and keeps the run's folder
 * to one line of descent. */
#include "train/vtrain/resume.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/os/file.h"
#include "formats/report/settings.h"
#include "train/optim/groups.h"
#include "train/output/aside.h"
#include "train/output/ckpt.h"
#include "train/parallel/state.h"
#include "train/settings/settings.h"
#include "train/vtrain/save.h"

/* Fails if checkpoint and run train different numbers of parameters: a parameter that one of them
 * does not train would lose its state, or have none. */
static int check_trained(const vtrain *t, const vf_safetensors *file, vc_err *err)
{
    static const char prefix[] = "master/";
    bool lora = t->cfg.training_type == VTRAIN_LORA;
    int own = 0, held = 0;
    for (int i = 0; i < vt_params_count(t->params); i++)
        own += vt_params_at(t->params, i)->trained;
    for (int i = 0; i < vf_safetensors_count(file); i++)
        held += !strncmp(vf_safetensors_at(file, i)->name, prefix, sizeof prefix - 1);
    if (own == held)
        return 0;
    return vc_fail(err, VC_EMISMATCH, "the checkpoint has the state of %d parameters, but this run "
                   "trains %d: continue with the same %s", held, own,
                   lora ? "--target_name" : "--trainable_modules");
}

/* Reports that the average of --use_ema begins with the weights of the checkpoint, which has
 * none. */
static void begin_average(vtrain *t)
{
    t->optim.average_from = t->from.state.step;
    vc_say(t->ui, "--use_ema: the average begins after step %lld, since the checkpoint has none",
           (long long)t->optim.average_from);
}

/* Sets the numbers of the optimiser's run to those of trainer.json. */
static int read_numbers(vtrain *t, vc_err *err)
{
    const vt_opt_run *run = vt_optimizers[t->cfg.optimizer].run;
    double *number = vtrain_opt_numbers(t->optim.state);
    for (int i = 0; run && i < VT_OPT_NUMBERS && run->number[i]; i++) {
        const cJSON *x = cJSON_GetObjectItemCaseSensitive(t->from.state.numbers, run->number[i]);
        if (!x)
            return vc_fail(err, VC_EFORMAT, "trainer.json: optimizer: the number \"%s\" of "
                           "--optimizer %s is missing", run->number[i],
                           vt_optimizers[t->cfg.optimizer].name);
        number[i] = x->valuedouble;
    }
    return 0;
}

static int read_optimizer(vtrain *t, const char *dir, vc_err *err)
{
    char *path = vc_path_join(dir, "optimizer.safetensors");
    if (!path)
        return vc_no_memory(err);
    vf_safetensors *file;
    bool averages = false;
    int rc = vf_safetensors_open(&file, path, err);
    if (!rc) {
        rc = check_trained(t, file, err);
        if (!rc)
            rc = vtrain_opt_read(t->optim.state, file, &averages, err);
        if (!rc && t->cfg.use_ema && !averages)
            begin_average(t);
        vc_context(err, rc, "%s", path);
    }
    vf_safetensors_close(file);
    free(path);
    return rc;
}

/* Settings that have to be those of the checkpoint, because its state depends on them. */
static const char *const state_of[] = {
    "optimizer", "adapter", "rank", "network_alpha", "rank_pattern", "alpha_pattern",
    "lokr_factor", "lokr_full_matrix", "lokr_decompose_both", "boundary_type", "param_groups",
    "no_decay", NULL
};
/* Settings that may change when a run resumes: those that do not affect training, and those whose
 * change other messages report. A change of any other setting is a warning. */
static const char *const may_change[] = {
    "latents", "follow", "verify_data", "training_type", "bake_scale", "export_kohya",
    "export_comfyui", "export_diffsynth", "export_pipeline", "max_train_steps", "num_train_epochs",
    "train_batch_size", "gradient_accumulation_steps", "seed", "device", "threads", "kernels",
    "deterministic", "workers", "gradient_checkpointing",
    "memory_limit", "gradient_checkpointing_offload", "blocks_to_swap", "low_vram", "profile",
    "offload_optimizer", "offload_optimizer_nvme_path", "offload_param", "offload_update",
    "parallel", "dp_degree", "dp_shards", "sp", "comm_timeout", "output_dir", "checkpointing_steps",
    "checkpointing_epochs", "checkpointing_limit", "keep_best", "resume_from_checkpoint",
    "eval_steps", "eval_epochs", "eval_at_first", "validation_steps", "validation_epochs",
    "sample_at_first", "unconditional_transformer",
    "num_inference_steps", "guidance_scale", "audio_guidance_scale", "guidance_schedule",
    "guidance_power", "guidance_rescale", "validation_sampler", "ar_step", "causal_block_size",
    "base_num_frames", "overlap_history", "addnoise_condition",
    "skip_guidance_layers", "skip_layer_guidance_scale", "skip_layer_guidance_start",
    "skip_layer_guidance_stop", "report_to", "trace_dir",
    "trace_steps", "dry_run", "quiet", "log_format", NULL
};

static bool listed(const char *const *list, const char *name)
{
    while (*list && strcmp(*list, name))
        list++;
    return *list;
}

#define NOT_GIVEN "not given"

/* A setting as text. Checkpoints written before a flag existed have the flag's default. */
static const char *setting(const vtrain_state *s, const vc_flag *f)
{
    const cJSON *text = cJSON_GetObjectItemCaseSensitive(s->settings, f->name);
    return text ? cJSON_GetStringValue(text) : f->value ? f->value : NOT_GIVEN;
}

static int check_settings(const vtrain *t, const vtrain_state *s, const vtrain_state *now,
                          vc_err *err)
{
    const vc_flag latents = { .name = "latents" };
    const char *before = setting(s, &latents), *here = setting(now, &latents);
    if (!vtrain_set_same_kinds(before, here))
        vc_warn(t->ui, "--latents has other priors or factors of the loss from here on: %s, in the "
                "checkpoint it was %s", here, before);
    for (const vc_flag *f = vtrain_program.flags; f->name; f++) {
        bool unused = !strncmp(f->name, "ema_", 4) && !t->cfg.use_ema;
        if (f->kind == VC_GROUP || unused || listed(may_change, f->name))
            continue;
        const char *had = setting(s, f), *has = setting(now, f);
        if (!strcmp(had, has))
            continue;
        if (!listed(state_of, f->name))
            vc_warn(t->ui, "--%s is %s from here on, in the checkpoint it was %s", f->name, has,
                    had);
        else if (!strcmp(had, NOT_GIVEN))
            return vc_fail(err, VC_EMISMATCH, "the checkpoint was trained without --%s: leave it "
                           "out to continue", f->name);
        else
            return vc_fail(err, VC_EMISMATCH, "the checkpoint was trained with --%s %s, but this "
                           "run has %s: continue with --%s %s", f->name, had, has, f->name, had);
    }
    return 0;
}

static int check_state(const vtrain *t, const vtrain_state *s, const vtrain_state *now,
                       vc_err *err)
{
    if (strcmp(s->family, now->family) || strcmp(s->training_type, now->training_type))
        return vc_fail(err, VC_EMISMATCH, "the checkpoint is of a %s of family %s, but this run is "
                       "a %s of %s", s->training_type, s->family, now->training_type,
                       now->family);
    int rc = check_settings(t, s, now, err);
    if (rc)
        return rc;
    if (s->seed != now->seed)
        vc_warn(t->ui, "--seed differs from the checkpoint's: the run continues, but with other "
                "samples and noise than it would have had");
    bool same = s->n_sets == now->n_sets;
    for (int i = 0; same && i < s->n_sets; i++)
        same = !strcmp(s->sets[i].root, now->sets[i].root);
    if (!same)
        vc_warn(t->ui, "the datasets differ from the checkpoint's: the run continues with other "
                "samples");
    return 0;
}

/* True if Slurm has started the job again, with the command that it was submitted with, and the
 * run's folder was made by that command. */
static bool is_requeued(const vtrain *t)
{
    static const char name[] = "resume_from_checkpoint";
    const char *restarts = getenv("SLURM_RESTART_COUNT");
    char *before = NULL;
    size_t n, m;
    if (!restarts || atoi(restarts) < 1 || vf_settings_read(&before, t->cfg.output_dir, NULL))
        return false;
    char *now = vc_flags_yaml(&vtrain_program, &t->cfg);
    const char *had = vf_setting(before, name, sizeof name - 1, &n);
    const char *has = vf_setting(now, name, sizeof name - 1, &m);
    bool same = n == m && n && !strncmp(had, has, n);
    free(before);
    free(now);
    return same;
}

/* A job that Slurm started again goes on where it stands, although its command names the
 * checkpoint that it once began with. */
static bool takes_latest(const vtrain *t)
{
    const char *which = t->cfg.resume_from_checkpoint;
    char *own = NULL;
    if (!strcmp(which, "latest"))
        return true;
    if (!is_requeued(t) || vtrain_ckpt_find(&own, t->cfg.output_dir, "latest", NULL) || !own)
        return false;
    vc_say(t->ui, "--resume_from_checkpoint %s: the job was started again, so it continues from "
           "its own latest checkpoint", which);
    free(own);
    return true;
}

/* Finds and reads the newest checkpoint that is whole on every machine. One rank of a machine
 * checks the files. Collective. */
static int find_latest(vtrain *t, vc_err *err)
{
    vtrain_state *s = &t->from.state;
    bool checks = vc_comm_local(t->comm) == 0;
    int64_t step = -1;
    int rc = checks ? vtrain_ckpt_read_latest(&t->from.dir, s, t->cfg.output_dir, t->ui, t->stop,
                                              err) : 0;
    if (t->from.dir)
        vtrain_ckpt_step(t->from.dir, &step);
    double least = checks ? (double)step : INFINITY;
    rc = vc_comm_agree(t->comm, rc, err);
    if (!rc)
        rc = vc_comm_reduce(t->comm, &least, 1, VC_COMM_MIN, err);
    if (rc || (checks && (double)step == least) || least < 0)
        return rc;
    char number[32];
    snprintf(number, sizeof number, "%.0f", least);
    vtrain_state_free(s);
    free(t->from.dir);
    rc = vtrain_ckpt_find(&t->from.dir, t->cfg.output_dir, number, err);
    return rc ? rc : vtrain_state_read(s, t->from.dir, err);
}

static int find_named(vtrain *t, vc_err *err)
{
    int rc = vtrain_ckpt_find(&t->from.dir, t->cfg.output_dir, t->cfg.resume_from_checkpoint, err);
    if (rc)
        return rc;
    rc = vc_comm_local(t->comm) ? vtrain_state_read(&t->from.state, t->from.dir, err)
         : vtrain_ckpt_read(&t->from.state, t->from.dir, t->ui, t->stop, err);
    return vc_context(err, rc, "%s", t->from.dir);
}

static int newest_step(int64_t *step, const vtrain *t, vc_err *err)
{
    int64_t *steps;
    int n, rc = vtrain_ckpt_steps(&steps, &n, t->cfg.output_dir, err);
    *step = !rc && n ? steps[n - 1] : -1;
    free(steps);
    return rc;
}

int vtrain_resume_find(vtrain *t, vc_err *err)
{
    vtrain_state *s = &t->from.state;
    int rc = vc_comm_agree(t->comm, newest_step(&t->from.newest, t, err), err);
    if (rc || !t->cfg.resume_from_checkpoint)
        return rc;
    rc = takes_latest(t) ? find_latest(t, err) : find_named(t, err);
    if (rc)
        return vc_context(err, rc, "--resume_from_checkpoint");
    if (!t->from.dir)
        vc_say(t->ui, "--resume_from_checkpoint latest: there is no checkpoint yet, so the run "
               "begins anew");
    t->samples.span = s->span;
    t->samples.n_spans = s->n_spans;
    s->span = NULL;
    s->n_spans = 0;
    return 0;
}

int vtrain_resume_check_again(const vtrain *t, vc_err *err)
{
    int64_t newest;
    int rc = newest_step(&newest, t, err);
    if (!rc && newest != t->from.newest)
        rc = vc_fail(err, VC_EBUSY, "--output_dir %s: another run wrote checkpoint-%lld while this "
                     "one began: start again", t->cfg.output_dir, (long long)newest);
    return rc;
}

/* True if the run continues from a checkpoint of its own folder. */
static bool continues_own(const vtrain *t)
{
    struct stat a, b;
    const char *base = vc_path_base(t->from.dir);
    char *dir = vc_format("%.*s.", (int)(base - t->from.dir), t->from.dir);
    bool own = dir && !stat(dir, &a) && !stat(t->cfg.output_dir, &b) && a.st_dev == b.st_dev &&
               a.st_ino == b.st_ino;
    free(dir);
    return own;
}

int vtrain_resume_set_aside(const vtrain *t, vc_err *err)
{
    char *name;
    int64_t step = t->from.dir && continues_own(t) ? t->at.step : -1;
    int rc = vtrain_set_aside(&name, t->cfg.output_dir, step, err);
    if (!rc && name)
        vc_say(t->ui, "the run continues after step %lld: what %s holds of an abandoned branch was "
               "moved to %s/%s", (long long)t->at.step, t->cfg.output_dir, t->cfg.output_dir, name);
    free(name);
    return rc;
}

/* ---- the schedule ---- */

/* Steps that the checkpoint's run was to have, 0 if this is not known. Checkpoints of earlier
 * versions record the flags alone. */
static int64_t planned_before(const vtrain_state *s)
{
    const cJSON *steps = cJSON_GetObjectItemCaseSensitive(s->settings, "max_train_steps");
    const cJSON *epochs = cJSON_GetObjectItemCaseSensitive(s->settings, "num_train_epochs");
    if (s->planned || !steps || (epochs && atoll(cJSON_GetStringValue(epochs)) > 0))
        return s->planned;
    int64_t n = atoll(cJSON_GetStringValue(steps));
    return n > 0 ? n : 0;
}

/* True if the rates of two lengths are further apart than a rounded number of steps explains. */
static bool differ(const vtrain_rate *a, const vtrain_rate *b, int64_t step)
{
    return fabs(vtrain_rate_factor(a, step) - vtrain_rate_factor(b, step)) > 0.01;
}

/* Warns of a group whose rate differs at `step`, or before the shorter schedule's end. */
static bool warn_of_rate(const vtrain *t, const char *pattern, const vtrain_rate *had,
                         const vtrain_rate *has)
{
    int64_t step = t->at.step, end = had->steps < has->steps ? had->steps : has->steps;
    char keep[96] = "";
    if (!differ(had, has, step) && end > step)
        step = end;
    if (!differ(had, has, step))
        return false;
    if (had->steps > t->at.step)
        snprintf(keep, sizeof keep, "; --max_train_steps %lld%s keeps it", (long long)had->steps,
                 t->cfg.num_train_epochs && had->steps > has->steps ? " without --num_train_epochs"
                                                                    : "");
    vc_warn(t->ui, "--%s %s spans %lld steps from here on, in the checkpoint %lld: the rate after "
            "step %lld is %g instead of %g%s", pattern ? "param_groups" : "lr_scheduler",
            pattern ? pattern : vtrain_schedule_name(has->how), (long long)has->steps,
            (long long)had->steps, (long long)step, has->rate * vtrain_rate_factor(has, step),
            had->rate * vtrain_rate_factor(had, step), keep);
    return true;
}

void vtrain_resume_compare_length(const vtrain *t)
{
    const vtrain_groups *groups = t->optim.groups;
    int64_t before = t->from.dir ? planned_before(&t->from.state) : 0;
    bool warned = !before || before == t->plan.steps || t->plan.steps <= t->at.step;
    for (int i = 0; !warned && i < vtrain_groups_count(groups); i++) {
        vtrain_rate had = *vtrain_group_rate(groups, i), has = had;
        had.steps = before;
        has.steps = t->plan.steps;
        warned = warn_of_rate(t, vtrain_group_pattern(groups, i), &had, &has);
    }
}

/* ---- the state ---- */

int vtrain_resume(vtrain *t, vc_err *err)
{
    const vtrain_state *s = &t->from.state;
    vtrain_state now = { 0 };
    t->at.micro = s->micro;
    t->optim.average_from = s->average_from;
    for (int i = 0; i < VTRAIN_HALVES; i++)
        t->optim.updates[i] = s->updates[i];
    int rc = vtrain_state_of(t, &now, err);
    if (!rc)
        rc = check_state(t, s, &now, err);
    if (!rc)
        rc = read_optimizer(t, t->from.dir, err);
    if (!rc)
        rc = read_numbers(t, err);
    if (!rc) {
        t->at.step = s->step;
        t->at.rows = s->rows;
        t->at.dropped = s->dropped;
        vc_say(t->ui, "resumes after step %lld from %s", (long long)t->at.step, t->from.dir);
    }
    free(now.sets);
    cJSON_Delete(now.settings);
    cJSON_Delete(now.numbers);
    return vc_context(err, rc, "--resume_from_checkpoint: %s", t->from.dir);
}
