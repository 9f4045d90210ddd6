/* save.c - writes and reads a checkpoint: exported weights, optimizer.safetensors, trainer.json. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "common/os/file.h"
#include "common/os/map.h"
#include "formats/tensors/values.h"
#include "train/base.h"
#include "train/models/lora.h"
#include "train/models/weights.h"
#include "train/output/ckpt.h"
#include "train/output/export.h"
#include "train/parallel/zero.h"

/* ---- exported weights ---- */

static const char *root_of(const vtrain *t, int i) { return vtrain_span_now(t)->part[i].root; }
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

static int write_lora(const vtrain *t, const char *dir, vf_sums *sums, vc_err *err)
{
    char *roots = hashes_of(t, root_of), *plans = hashes_of(t, plan_of);
    const vtrain_naming *kohya = !t->cfg.export_kohya ? NULL
                                 : t->family->kohya ? t->family->kohya : &vtrain_kohya;
    vtrain_export_lora_opts o = {
        .rank = t->cfg.rank, .alpha = t->cfg.network_alpha, .bake = t->cfg.bake_scale,
        .kohya = kohya, .comfyui = t->cfg.export_comfyui, .data = roots,
        .plan = plans, .sums = sums, .transformer = t->boundary ? vtrain_transformer_name(t) : NULL,
        .renames = t->family->lora_names,
    };
    o.target = vtrain_targets_names(t->targets, &o.n_targets);
    int rc = roots && plans ? vtrain_export_lora(dir, t->params, &o, err)
                            : vc_no_memory(err);
    free(roots);
    free(plans);
    return rc;
}

/* Copies the scheduler's file into the checkpoint, so that a run can take the checkpoint as its
 * --model. */
static int write_scheduler(const vtrain *t, const char *dir, vf_sums *sums, vc_err *err)
{
    enum { MOST = 1 << 20 };
    if (!t->scheduler.path)
        return 0;
    char *folder = vc_path_join(dir, "scheduler"), *text = NULL;
    char *path = vc_format("%s/scheduler/scheduler_config.json", dir);
    size_t n;
    int rc = folder && path ? 0 : vc_no_memory(err);
    if (!rc)
        rc = vc_mkdirs(folder, err);
    if (!rc)
        rc = vc_file_read(&text, &n, t->scheduler.path, MOST, err);
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
    int rc = vtrain_export_full(folder, t->params, t->weights, t->model_config, VTRAIN_SHARD_BYTES,
                                sums, err);
    free(folder);
    if (!rc)
        rc = write_scheduler(t, dir, sums, err);
    if (!rc && t->cfg.export_pipeline && t->cfg.model)
        rc = vc_context(err, vtrain_export_pipeline(dir, t->cfg.model, sums, err),
                        "--export_pipeline");
    return rc;
}

/* ---- state ---- */

/* Calls f with each of the trained parameters' tensors that is whole on this rank, and with the
 * prefix of its name in the file. */
typedef int (*state_fn)(void *arg, const char *prefix, const vt_param *p, vt_tensor *t,
                        vc_err *err);
static int each_state(vtrain *t, state_fn f, void *arg, vc_err *err)
{
    int rc = 0, k = 0;
    for (int i = 0; !rc && i < vt_params_count(t->params); i++) {
        const vt_param *p = vt_params_at(t->params, i);
        if (!p->trained)
            continue;
        rc = f(arg, "master/", p, p->t, err);
        if (!rc && t->adam.m)
            rc = f(arg, "m/", p, t->adam.m[k], err);
        if (!rc && t->adam.v)
            rc = f(arg, "v/", p, t->adam.v[k], err);
        if (!rc && t->adam.peak && t->adam.peak[k])
            rc = f(arg, "peak/", p, t->adam.peak[k], err);
        if (!rc && t->ema)
            rc = f(arg, "ema/", p, t->ema[k], err);
        k++;
    }
    return rc;
}

static int add_state(void *arg, const char *prefix, const vt_param *p, vt_tensor *x, vc_err *err)
{
    return vf_views_add(arg, prefix, p->name, "", x, x->dtype, 1, err);
}

static int write_optimizer(vtrain *t, const char *dir, vf_sums *sums, vc_err *err)
{
    vf_views s;
    int rc = vf_views_open(&s, t->g, 5 * vt_params_count(t->params), err);
    if (!rc)
        rc = each_state(t, add_state, &s, err);
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

/* Fills in the content of trainer.json. The caller frees s->sets and s->settings; the other
 * strings are borrowed from t. */
static int make_state(const vtrain *t, vtrain_state *s, vc_err *err)
{
    const vtrain_span *now = vtrain_span_now(t);
    *s = (vtrain_state){
        .step = t->step, .micro = t->micro, .seed = (uint64_t)t->cfg.seed,
        .batch = t->cfg.train_batch_size, .accumulation = t->cfg.gradient_accumulation_steps,
        .ranks = vtrain_dp_groups(t), .family = (char *)vtrain_family_name(t->family),
        .training_type = t->cfg.training_type == VTRAIN_LORA ? "lora" : "full-finetune",
        .backend = (char *)vt_describe(t->g), .rows = t->rows, .dropped = t->dropped,
        .n_sets = now->n_parts, .settings = settings_object(t->settings),
        .epoch = (uint64_t)fmax(vtrain_epoch(t), 0), .span = t->span,
        .n_spans = (int)(now - t->span) + 1,
    };
    s->sets = calloc((size_t)s->n_sets, sizeof *s->sets);
    if (!s->sets || !s->settings)
        return vc_no_memory(err);
    for (int i = 0; i < s->n_sets; i++)
        s->sets[i] = (vtrain_ckpt_set){ (char *)vf_dataset_path(vtrain_data_set(t->data, i)),
                                        now->part[i].root, now->part[i].samples,
                                        (char *)vtrain_data_plan(t->data, i) };
    return 0;
}

static int write_trainer(const vtrain *t, const char *dir, vf_sums *sums, vc_err *err)
{
    vtrain_state s;
    int rc = make_state(t, &s, err);
    if (!rc)
        rc = vtrain_base_id_get(&s.base, t, err);
    if (!rc)
        rc = vtrain_state_write(&s, dir, sums, err);
    free(s.sets);
    cJSON_Delete(s.settings);
    return rc;
}

/* Exports the weights: with --use_ema their average. */
static int write_weights(vtrain *t, const char *dir, vf_sums *sums, vc_err *err)
{
    if (t->ema)
        vt_ema_swap(t->ema, t->params);
    int rc = t->cfg.training_type == VTRAIN_LORA ? write_lora(t, dir, sums, err)
                                                 : write_full(t, dir, sums, err);
    if (t->ema)
        vt_ema_swap(t->ema, t->params);
    return rc;
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
    int64_t all = 2 * PER_FILE, files = lora && t->cfg.export_kohya ? 2 : 1;
    each_state(t, add_bytes, &all, NULL);
    for (int i = 0; i < vt_params_count(t->params); i++) {
        const vt_param *p = vt_params_at(t->params, i);
        vc_dtype type = lora ? VC_F32 : t->weights ? vtrain_weights_type(t->weights, p->name)
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
    if (statvfs(t->cfg.output_dir, &fs))
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
    if (!t->zero && check_room(t, &why))
        vc_warn(t->ui, "%s", why.text);
}

/* Adds to an error the space that a checkpoint needs and the last whole checkpoint. */
static int explain(vtrain *t, int rc, const vc_err *why, vc_err *err)
{
    char *last = NULL;
    int64_t before = t->step;
    vc_err full = *why;
    if (rc == VC_EFULL && !strstr(why->text, "a checkpoint needs"))
        no_room(checkpoint_bytes(t), free_bytes(t), why->text, &full);
    vtrain_ckpt_before(&last, t->cfg.output_dir, &before, NULL);
    vc_fail(err, rc, "checkpoint of step %lld: %s; %s%s", (long long)t->step, full.text,
            last ? "continue later with --resume_from_checkpoint latest: the last whole checkpoint "
                   "is " : "there is no whole checkpoint yet", last ? last : "");
    free(last);
    return rc;
}

int vtrain_save(vtrain *t, vc_err *err)
{
    char *dir = NULL;
    vc_err why = { 0 };
    int rc = check_room(t, &why);
    if (!rc)
        rc = vtrain_ckpt_begin(&dir, t->cfg.output_dir, t->step, &why);
    if (!rc)
        rc = write_files(t, dir, &why);
    if (!rc)
        rc = vtrain_ckpt_commit(t->cfg.output_dir, t->step, t->cfg.checkpointing_limit, &why);
    free(dir);
    if (!rc)
        return 0;
    vtrain_ckpt_abort(t->cfg.output_dir, t->step);
    return explain(t, rc, &why, err);
}

/* ---- resuming ---- */

typedef struct stored {
    vt_ctx *g;
    vf_safetensors *file;
} stored;

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

static int set_state(void *arg, const char *prefix, const vt_param *p, vt_tensor *x, vc_err *err)
{
    const stored *s = arg;
    char *name = vc_format("%s%s", prefix, p->name);
    if (!name)
        return vc_no_memory(err);
    vf_view v;
    int rc = vf_safetensors_get(s->file, name, &v, err);
    if (!rc)
        rc = vf_values_set(s->g, x, &v, err);
    free(name);
    return rc;
}

static int read_optimizer(vtrain *t, const char *dir, vc_err *err)
{
    char *path = vc_path_join(dir, "optimizer.safetensors");
    if (!path)
        return vc_no_memory(err);
    stored s = { .g = t->g };
    int rc = vf_safetensors_open(&s.file, path, err);
    if (!rc) {
        rc = check_trained(t, s.file, err);
        if (!rc)
            rc = each_state(t, set_state, &s, err);
        if (!rc && t->zero)
            rc = vtrain_zero_read(t->zero, s.file, err);
        vc_context(err, rc, "%s", path);
    }
    vf_safetensors_close(s.file);
    free(path);
    return rc;
}

/* Settings that have to be those of the checkpoint, because its state depends on them. */
static const char *const state_of[] = {
    "optimizer", "rank", "network_alpha", "boundary_type", "param_groups", "no_decay", NULL
};
/* Settings that may change when a run resumes: those that do not affect training, and those whose
 * change other messages report. A change of any other setting is a warning. */
static const char *const may_change[] = {
    "latents", "follow", "verify_data", "training_type", "bake_scale", "export_kohya",
    "export_comfyui", "export_pipeline", "max_train_steps", "num_train_epochs",
    "train_batch_size", "gradient_accumulation_steps", "seed", "device", "threads", "kernels",
    "deterministic", "workers", "gradient_checkpointing",
    "memory_limit", "gradient_checkpointing_offload", "blocks_to_swap", "low_vram", "profile",
    "parallel", "dp_degree", "dp_shards", "sp", "nccl_timeout", "output_dir", "checkpointing_steps",
    "checkpointing_limit", "resume_from_checkpoint", "eval_steps", "validation_steps",
    "num_inference_steps", "guidance_scale", "guidance_schedule", "guidance_power",
    "validation_sampler", "report_to", "trace_dir",
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
    for (const vc_flag *f = vtrain_program.flags; f->name; f++) {
        if (f->kind == VC_GROUP || listed(may_change, f->name))
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
    const char *differs = s->seed != now->seed ? "seed" : s->batch != now->batch
                        ? "train_batch_size"
                        : s->accumulation * s->ranks != now->accumulation * now->ranks
                        ? "gradient_accumulation_steps times ranks" : NULL;
    if (differs)
        vc_warn(t->ui, "--%s differs from the checkpoint's: the run continues, but with other "
                "samples than it would have had", differs);
    bool same = s->n_sets == now->n_sets;
    for (int i = 0; same && i < s->n_sets; i++)
        same = !strcmp(s->sets[i].root, now->sets[i].root);
    if (!same)
        vc_warn(t->ui, "the datasets differ from the checkpoint's: the run continues with other "
                "samples");
    return 0;
}

int vtrain_resume_find(vtrain *t, vc_err *err)
{
    vtrain_state *s = &t->from;
    if (!t->cfg.resume_from_checkpoint)
        return 0;
    int rc = vtrain_ckpt_find(&t->from_dir, t->cfg.output_dir, t->cfg.resume_from_checkpoint, err);
    if (rc)
        return vc_context(err, rc, "--resume_from_checkpoint");
    if (!t->from_dir) {
        vc_say(t->ui, "--resume_from_checkpoint latest: there is no checkpoint yet, so the run "
               "begins anew");
        return 0;
    }
    /* One rank of a machine checks the files; vc_comm_agree then shares the result. */
    if (vc_comm_local(t->comm) == 0)
        rc = vtrain_ckpt_read(s, t->from_dir, t->ui, t->stop, err);
    else
        rc = vtrain_state_read(s, t->from_dir, err);
    t->span = s->span;
    t->n_spans = s->n_spans;
    s->span = NULL;
    s->n_spans = 0;
    return vc_context(err, rc, "--resume_from_checkpoint: %s", t->from_dir);
}

int vtrain_resume(vtrain *t, vc_err *err)
{
    const vtrain_state *s = &t->from;
    vtrain_state now = { 0 };
    t->micro = s->micro;
    int rc = make_state(t, &now, err);
    if (!rc)
        rc = check_state(t, s, &now, err);
    if (!rc)
        rc = read_optimizer(t, t->from_dir, err);
    if (!rc) {
        t->step = s->step;
        t->rows = s->rows;
        t->dropped = s->dropped;
        vc_say(t->ui, "resumes after step %lld from %s", (long long)t->step, t->from_dir);
    }
    free(now.sets);
    cJSON_Delete(now.settings);
    return vc_context(err, rc, "--resume_from_checkpoint: %s", t->from_dir);
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
    return vc_comm_agree(t->comm, rc, err);
}
