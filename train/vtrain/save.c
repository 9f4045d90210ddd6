/* save.c - writes a checkpoint: exported weights, optimizer.safetensors, trainer.json. */
#include "train/vtrain/save.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "common/os/file.h"
#include "common/os/map.h"
#include "formats/tensors/values.h"
#include "train/families/families.h"
#include "train/lora/lora.h"
#include "train/models/controlnet.h"
#include "train/models/weights.h"
#include "train/output/ckpt.h"
#include "train/output/export.h"
#include "train/parallel/state.h"
#include "train/samples/spans.h"
#include "train/setup/base.h"
#include "train/setup/experts.h"

#define PLAIN "plain"                          /* folder of the weights that are no average */

/* ---- exported weights ---- */

static const vtrain_span *span_of(const vtrain *t)
{
    return vtrain_span_of(&t->samples, t->at.micro);
}

static const char *root_of(const vtrain *t, int i) { return span_of(t)->part[i].root; }
static const char *plan_of(const vtrain *t, int i) { return vtrain_data_plan(t->data, i); }

/* Lists the hashes that `of` returns for all datasets, "-" for NULL, blank-separated, malloc'ed. */
static char *hashes_of(const vtrain *t, const char *(*of)(const vtrain *t, int i))
{
    char *text = strdup("");
    for (int i = 0; text && i < vtrain_data_sets(t->data); i++) {
        const char *hash = of(t, i);
        char *more = vc_format("%s%s%s", text, i ? " " : "", hash ? hash : "-");
        free(text);
        text = more;
    }
    return text;
}

/* Writes a LoRA to dir; of two transformers that of the i-th, whose file in diffusers' layout is in
 * a folder of its own if it is the second. */
static int write_lora(const vtrain *t, int i, const char *dir, vf_sums *sums, vc_err *err)
{
    static const char *const suffixes[VTRAIN_HALVES] = { "_high_noise", "_low_noise" };
    char *folder = vtrain_half_path(dir, i);
    char *roots = hashes_of(t, root_of), *plans = hashes_of(t, plan_of);
    const vtrain_naming *kohya = !t->cfg.export_kohya ? NULL
                                 : t->model.family->kohya ? t->model.family->kohya : &vtrain_kohya;
    vtrain_export_lora_opts o = {
        .rank = t->cfg.rank, .alpha = t->cfg.network_alpha, .bake = t->cfg.bake_scale,
        .kohya = kohya, .comfyui = t->cfg.export_comfyui,
        .diffsynth = t->cfg.export_diffsynth, .data = roots, .plan = plans, .sums = sums,
        .more = dir, .model = i,
        .transformer = i ? "transformer_2"
                       : t->model.boundary > 0 ? vtrain_transformer_name(t) : NULL,
        .renames = t->model.family->lora_names, .suffix = vtrain_both(t) ? suffixes[i] : NULL,
    };
    o.target = vtrain_targets_names(t->lora.targets, &o.n_targets);
    int rc = roots && plans && folder ? 0 : vc_no_memory(err);
    if (!rc && i)
        rc = vc_mkdirs(folder, err);
    if (!rc)
        rc = vtrain_export_lora(folder, t->params, &o, err);
    free(folder);
    free(roots);
    free(plans);
    return rc;
}

/* Copies the scheduler's file into the checkpoint, so that a run can take the checkpoint as its
 * --model. */
static int write_scheduler(const vtrain *t, const char *dir, vf_sums *sums, vc_err *err)
{
    enum { MOST = 1 << 20 };
    if (!t->model.scheduler.path)
        return 0;
    char *folder = vc_path_join(dir, "scheduler"), *text = NULL;
    char *path = vc_format("%s/scheduler/scheduler_config.json", dir);
    size_t n;
    int rc = folder && path ? 0 : vc_no_memory(err);
    if (!rc)
        rc = vc_mkdirs(folder, err);
    if (!rc)
        rc = vc_file_read(&text, &n, t->model.scheduler.path, MOST, err);
    if (!rc)
        rc = vf_sums_put(sums, path, text, n, err);
    free(text);
    free(folder);
    free(path);
    return rc;
}

static int write_full(const vtrain *t, const char *dir, vf_sums *sums, vc_err *err)
{
    char *folder = vc_path_join(dir, vtrain_transformer_name(t));
    if (!folder)
        return vc_no_memory(err);
    int rc = vtrain_export_full(folder, t->params, t->model.weights, t->model.config,
                                VTRAIN_SHARD_BYTES, sums, err);
    free(folder);
    return rc;
}

/* Writes the files beside a full finetune's transformer. */
static int write_beside(const vtrain *t, const char *dir, vf_sums *sums, vc_err *err)
{
    bool linked = true;
    int rc = write_scheduler(t, dir, sums, err);
    if (!rc && t->cfg.export_pipeline && t->cfg.model)
        rc = vc_context(err, vtrain_export_pipeline(dir, t->cfg.model, sums, &linked, err),
                        "--export_pipeline");
    if (!linked)
        vc_warn(t->ui, "--export_pipeline: the file system of %s has no links: from_pretrained "
                "opens a checkpoint once the other components of %s are copied into it",
                t->cfg.output_dir, t->cfg.model);
    return rc;
}

/* ---- state ---- */

static int add_state(void *arg, const char *prefix, const vt_param *p, vt_tensor *x, vc_err *err)
{
    return vf_views_add(arg, prefix, p->name, "", x, x->dtype, 1, err);
}

static void rest(void *arg, const vt_tensor *x)
{
    vtrain_opt_rest(arg, x);
}

static int write_optimizer(vtrain *t, const char *dir, vf_sums *sums, vc_err *err)
{
    vf_views s;
    int rc = vf_views_open(&s, t->g, (2 + VT_OPT_STATES) * vt_params_count(t->params), err);
    s.written = rest;
    s.written_arg = t->optim.state;
    if (!rc)
        rc = vtrain_opt_each(t->optim.state, add_state, &s, err);
    if (!rc)
        rc = vf_views_write(&s, dir, "optimizer.safetensors", NULL, 0, false, sums, err);
    vf_views_close(&s);
    return rc;
}

/* Makes an object of the settings' "name: value" lines. */
static cJSON *settings_object(const char *yaml)
{
    cJSON *o = cJSON_CreateObject();
    for (const char *line = yaml; o && *line; line += strcspn(line, "\n"), line += *line == '\n') {
        size_t n = strcspn(line, "\n"), name = strcspn(line, ":\n");
        if (name == 0 || name + 2 > n || line[0] == ' ' || line[0] == '-')
            continue;
        char *key = strndup(line, name), *value = strndup(line + name + 2, n - name - 2);
        if (key && value)
            cJSON_AddStringToObject(o, key, value);
        free(key);
        free(value);
    }
    return o;
}

/* Makes an object of the numbers of the optimiser's run; *out is NULL where it has none. */
static int numbers_object(cJSON **out, const vtrain *t, vc_err *err)
{
    const vt_opt_run *run = vt_optimizers[t->cfg.optimizer].run;
    const double *number = vtrain_opt_numbers(t->optim.state);
    *out = run && run->number[0] ? cJSON_CreateObject() : NULL;
    for (int i = 0; run && i < VT_OPT_NUMBERS && run->number[i]; i++)
        if (!cJSON_AddNumberToObject(*out, run->number[i], number[i]))
            return vc_no_memory(err);
    return 0;
}

int vtrain_state_of(const vtrain *t, vtrain_state *s, vc_err *err)
{
    const vtrain_span *now = span_of(t);
    *s = (vtrain_state){
        .step = t->at.step, .micro = t->at.micro, .seed = (uint64_t)t->cfg.seed,
        .batch = t->cfg.train_batch_size, .accumulation = t->cfg.gradient_accumulation_steps,
        .ranks = vtrain_dp_groups(t), .micro_rows = now->batch,
        .family = (char *)vtrain_family_name(t->model.family),
        .training_type = t->cfg.training_type == VTRAIN_LORA ? "lora" : "full-finetune",
        .backend = (char *)vt_describe(t->g), .rows = t->at.rows, .dropped = t->at.dropped,
        .halves = vtrain_both(t), .updates = { t->optim.updates[0], t->optim.updates[1] },
        .average_from = t->cfg.use_ema ? t->optim.average_from : 0, .planned = t->plan.steps,
        .n_sets = now->n_parts, .settings = settings_object(t->output.settings),
        .sources = t->compared.sources,
        .epochs = fmax(vtrain_epoch(t), 0), .span = t->samples.span,
        .n_spans = (int)(now - t->samples.span) + 1, .counted = t->at.epoch.spans > 0,
        .step_epoch = (int64_t)t->at.epoch.before, .evaluated = isfinite(t->at.eval_loss),
        .eval_loss = t->at.eval_loss,
    };
    s->sets = calloc((size_t)s->n_sets, sizeof *s->sets);
    if (!s->sets || !s->settings)
        return vc_no_memory(err);
    int rc = numbers_object(&s->numbers, t, err);
    if (rc)
        return rc;
    for (int i = 0; i < s->n_sets; i++)
        s->sets[i] = (vtrain_ckpt_set){ (char *)vf_dataset_path(vtrain_data_set(t->data, i)),
                                        now->part[i].root, now->part[i].samples,
                                        (char *)vtrain_data_plan(t->data, i) };
    return 0;
}

static int write_trainer(const vtrain *t, const char *dir, vf_sums *sums, vc_err *err)
{
    vtrain_state s;
    int rc = vtrain_state_of(t, &s, err);
    if (!rc)
        rc = vtrain_base_id_get(&s.base, t, err);
    if (!rc)
        rc = vtrain_state_write(&s, dir, sums, err);
    free(s.sets);
    cJSON_Delete(s.settings);
    cJSON_Delete(s.numbers);
    return rc;
}

static int write_present(const vtrain *t, const char *dir, vf_sums *sums, vc_err *err)
{
    int rc = 0;
    if (vtrain_trains_controlnet(t))
        rc = vtrain_controlnet_write(t->model.controlnet, dir, t->params, sums, err);
    if (!rc && t->cfg.training_type != VTRAIN_LORA)
        return t->model.controlnet ? 0 : write_full(t, dir, sums, err);
    if (!rc)
        rc = write_lora(t, 0, dir, sums, err);
    return rc || !vtrain_both(t) ? rc : write_lora(t, 1, dir, sums, err);
}

/* Exports the weights as they are to PLAIN, beside their average. */
static int write_plain(const vtrain *t, const char *dir, vf_sums *sums, vc_err *err)
{
    char *folder = vc_path_join(dir, PLAIN);
    int rc = folder ? vc_mkdirs(folder, err) : vc_no_memory(err);
    if (!rc)
        rc = write_present(t, folder, sums, err);
    free(folder);
    return rc;
}

/* Exports the weights: with --use_ema their average, and the plain weights beside it. */
static int write_weights(vtrain *t, const char *dir, vf_sums *sums, vc_err *err)
{
    int rc = vtrain_opt_show(t->optim.state, err);
    if (!rc)
        rc = write_present(t, dir, sums, err);
    vtrain_opt_hide(t->optim.state);
    if (!rc && vtrain_opt_has_plain(t->optim.state))
        rc = write_plain(t, dir, sums, err);
    const bool alone = t->cfg.training_type == VTRAIN_LORA || t->model.controlnet;
    return rc || alone ? rc : write_beside(t, dir, sums, err);
}

static int write_files(vtrain *t, const char *dir, vc_err *err)
{
    vf_sums *sums;
    int rc = vf_sums_open(&sums, dir, err);
    if (!rc)
        rc = write_optimizer(t, dir, sums, err);
    if (!rc)
        rc = write_weights(t, dir, sums, err);
    if (!rc)
        rc = write_trainer(t, dir, sums, err);
    if (!rc)
        rc = vf_sums_write(sums, err);
    vf_sums_close(sums);
    return rc;
}

/* ---- room ---- */

enum { PER_TENSOR = 512, PER_FILE = 64 << 10 };      /* of headers, checksums and trainer.json */

static int add_bytes(void *arg, const char *prefix, const vt_param *p, vt_tensor *x, vc_err *err)
{
    (void)prefix, (void)p, (void)err;
    *(int64_t *)arg += vt_count(x) * (int64_t)vc_dtype_size(x->dtype) + PER_TENSOR;
    return 0;
}

/* Bytes of a checkpoint, while the whole state is on this rank. */
static int64_t checkpoint_bytes(vtrain *t)
{
    bool lora = t->cfg.training_type == VTRAIN_LORA;
    const vtrain_config *c = &t->cfg;
    int64_t all = 2 * PER_FILE;
    int64_t files = lora ? 1 + c->export_kohya + c->export_comfyui + c->export_diffsynth : 1;
    if (vtrain_opt_has_plain(t->optim.state))
        files *= 2;
    vtrain_opt_each(t->optim.state, add_bytes, &all, NULL);
    for (int i = 0; i < vt_params_count(t->params); i++) {
        const vt_param *p = vt_params_at(t->params, i);
        vc_dtype type = lora ? VC_F32
                        : t->model.weights ? vtrain_weights_type(t->model.weights, p->name)
                        : p->t->dtype;
        if (lora && p->role == VT_P_BASE)
            continue;
        all += files * (vt_count(p->t) * (int64_t)vc_dtype_size(type) + PER_TENSOR);
    }
    return all;
}

/* Bytes free for this user in the run's folder; INT64_MAX: not known. */
static int64_t free_bytes(const vtrain *t)
{
    struct statvfs fs;
    if (statvfs(t->cfg.output_dir, &fs) || !fs.f_blocks)     /* some of FUSE tell nothing */
        return INT64_MAX;
    return (int64_t)(fs.f_bavail * fs.f_frsize);
}

static int no_room(int64_t needed, int64_t is_free, const char *where, vc_err *err)
{
    char a[32], b[32];
    return vc_fail(err, VC_EFULL, "%s: a checkpoint needs %s (%lld bytes), but only %s (%lld "
                   "bytes) are free: make room, or give a lower --checkpointing_limit", where,
                   vc_human_bytes(a, (double)needed), (long long)needed,
                   vc_human_bytes(b, (double)is_free), (long long)is_free);
}

static int check_room(vtrain *t, vc_err *err)
{
    int64_t needed = checkpoint_bytes(t), is_free = free_bytes(t);
    return needed <= is_free ? 0 : no_room(needed, is_free, t->cfg.output_dir, err);
}

void vtrain_save_foresee(vtrain *t)
{
    vc_err why;
    if (t->cfg.use_ema)
        vc_say(t->ui, "--use_ema: checkpoints and samples have the average of the weights; the "
               "plain weights are in " PLAIN "/ of each checkpoint");
    if (vtrain_opt_is_whole(t->optim.state) && check_room(t, &why))
        vc_warn(t->ui, "%s", why.text);
}

/* Adds to an error the space that a checkpoint needs and the last whole checkpoint. */
static int explain(vtrain *t, int rc, const vc_err *why, vc_err *err)
{
    char *last = NULL;
    int64_t before = t->at.step;
    vc_err full = *why;
    int64_t needed = checkpoint_bytes(t), is_free = free_bytes(t);
    if (rc == VC_EFULL && needed > is_free && !strstr(why->text, "a checkpoint needs"))
        no_room(needed, is_free, why->text, &full);
    vtrain_ckpt_before(&last, t->cfg.output_dir, &before, NULL);
    vc_fail(err, rc, "checkpoint of step %lld: %s%s; %s%s", (long long)t->at.step, full.text,
            rc == VC_ENUMERIC ? ": the last update spoiled it, and a lower --learning_rate or "
                                "--max_grad_norm may help" : "",
            last ? "continue later with --resume_from_checkpoint latest: the last whole checkpoint "
                   "is " : "there is no whole checkpoint yet", last ? last : "");
    free(last);
    return rc;
}

void vtrain_save_best(const vtrain *t)
{
    vc_err why = { 0 };
    vtrain_ckpt_loss best;
    bool changed;
    if (vtrain_ckpt_link_best(&best, &changed, t->cfg.output_dir, t->cfg.keep_best, &why))
        vc_warn(t->ui, "--keep_best: %s", why.text);
    else if (changed)
        vc_say(t->ui, "best: %s/" VTRAIN_BEST " is checkpoint-%lld, whose held-out loss is %.5f",
               t->cfg.output_dir, (long long)best.step, best.loss);
}

int vtrain_save(vtrain *t, vc_err *err)
{
    char *dir = NULL;
    vc_err why = { 0 };
    int rc = check_room(t, &why);
    if (!rc)
        rc = vtrain_ckpt_begin(&dir, t->cfg.output_dir, t->at.step, &why);
    if (!rc)
        rc = write_files(t, dir, &why);
    if (!rc)
        rc = vtrain_ckpt_commit(t->cfg.output_dir, t->at.step, t->cfg.checkpointing_limit,
                                t->cfg.keep_best, &why);
    free(dir);
    if (!rc)
        vtrain_save_best(t);
    if (!rc)
        return 0;
    vtrain_ckpt_abort(t->cfg.output_dir, t->at.step);
    return explain(t, rc, &why, err);
}

/* ---- after a file was torn ---- */

int vtrain_check_weights(const vtrain *t, vc_err *err)
{
    int rc = 0;
    for (int i = 0; !rc && i < vt_params_count(t->params); i++) {
        const vt_param *p = vt_params_at(t->params, i);
        bool saved = p->trained || t->cfg.training_type != VTRAIN_LORA;
        if (saved && vt_host_memory(t->g))
            rc = vc_map_check(p->t->data, (size_t)vt_count(p->t) * vc_dtype_size(p->t->dtype), err);
    }
    if (!rc)
        rc = vtrain_opt_check(t->optim.state, err);
    return vc_comm_agree(t->comm, rc, err);
}
