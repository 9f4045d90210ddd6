/* run.c - runs the training: opens all parts in order, runs the steps, and closes the parts. */
#include "train/vtrain/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "common/os/file.h"
#include "common/os/heap.h"
#include "common/os/lock.h"
#include "common/os/threads.h"
#include "train/families/families.h"
#include "train/lora/lora.h"
#include "train/lora/patterns.h"
#include "train/models/controlnet.h"
#include "train/models/weights.h"
#include "train/optim/groups.h"
#include "train/output/ckpt.h"
#include "train/parallel/dist.h"
#include "train/parallel/sequence.h"
#include "train/parallel/state.h"
#include "train/plan/memory.h"
#include "train/plan/plan.h"
#include "train/samples/samples.h"
#include "train/sampling/sample.h"
#include "train/settings/settings.h"
#include "train/setup/base.h"
#include "train/setup/encoders.h"
#include "train/setup/experts.h"
#include "train/setup/load.h"
#include "train/setup/offload.h"
#include "train/setup/sources.h"
#include "train/setup/trained.h"
#include "train/setup/unconditional.h"
#include "train/steps/distill.h"
#include "train/steps/forcing.h"
#include "train/steps/trace.h"
#include "train/vtrain/model.h"
#include "train/vtrain/resume.h"
#include "train/vtrain/save.h"

/* ---- the device ---- */

/* Number of threads for kernels; 0: one for each core that this process may use. */
static int threads_of(const vtrain *t)
{
    int ranks = vc_comm_locals(t->comm);
    if (t->cfg.threads || ranks == 1 || getenv("OMP_NUM_THREADS"))
        return (int)t->cfg.threads;
    return vc_fair_cores(ranks);
}

static int open_device(vtrain *t, vc_err *err)
{
    static const char *const kernels[] = { NULL, "plain", "avx2", "avx512", "avx512_bf16",
                                          "amx" };
    const vt_options o = {
        .device = t->cfg.device, .index = vc_comm_local(t->comm), .threads = threads_of(t),
        .compute = t->cfg.mixed_precision == VTRAIN_PRECISION_BF16 ? VC_BF16 : VC_F32,
        .kernels = kernels[t->cfg.kernels], .repeatable = t->cfg.deterministic,
        .sizes_only = t->cfg.dry_run, .int8_activations = t->cfg.int8_activations,
    };
    const bool offload = t->cfg.gradient_checkpointing_offload;
    int rc = vt_open(&t->g, &o, err);
    if (!rc && offload)
        rc = vt_offload_open(t->g, err);
    if (!rc && offload && vt_host_memory(t->g))
        vc_say(t->ui, "--gradient_checkpointing_offload: has no effect on the CPU, where blocks' "
               "inputs are in host memory anyway");
    if (!rc && t->cfg.int8_activations && !vt_host_memory(t->g))
        vc_say(t->ui, "--int8_activations: has no effect on a GPU, whose products unpack the "
               "codes");
    return rc == VC_EINVAL ? VC_EUSAGE : rc;
}

/* ---- training ---- */

static int open_objective(vtrain *t, vc_err *err)
{
    const vtrain_config *c = &t->cfg;
    const vtrain_objective_opts o = {
        .kind = (vtrain_kind)(c->objective - 1), .density = (vtrain_density)c->weighting_scheme,
        .logit_mean = c->logit_mean, .logit_std = c->logit_std, .mode_scale = c->mode_scale,
        .shift = c->flow_shift, .by_tokens = t->model.scheduler.by_tokens, .grid = c->flow_levels,
        .clean = c->precondition_outputs, .terminal = c->flow_terminal,
        .least = c->min_timestep, .most = c->max_timestep,
        .keep_shape = c->preserve_distribution_shape,
        .list_from = t->model.boundary > 0 ? 0 : c->min_timestep_boundary,
        .list_to = t->model.boundary > 0 ? 0 : c->max_timestep_boundary,
        .draw_least = c->min_noising_strength, .draw_most = c->max_noising_strength,
        .boundary = vtrain_both(t) ? 0 : t->model.boundary,
        .low = c->boundary_type == VTRAIN_SIDE_LOW,
        .divide = vtrain_both(t) ? t->model.boundary : 0,
        .stratified = c->uniform_sampling, .micros = vtrain_micros(t),
        .beta_start = t->model.scheduler.beta_start, .beta_end = t->model.scheduler.beta_end,
        .snr_shift = t->model.scheduler.snr_shift, .zero_snr = t->model.scheduler.zero_snr,
    };
    int rc = vtrain_objective_open(&t->objective, &o, err);
    return rc == VC_EINVAL ? VC_EUSAGE : rc;
}

/* Checks that the model's blocks can share a sequence among --sp ranks. */
static int check_shared(const vtrain *t, vc_err *err)
{
    long long sp = t->cfg.sp;
    const vtrain_fit fit = vtrain_fit_of(t);
    if (sp == 1 || (fit.heads && fit.heads % sp == 0))
        return 0;
    if (!fit.heads)
        return vc_fail(err, VC_EUSAGE, "--sp %lld: ranks cannot share the samples of family %s "
                       "yet: leave the flag out, and for less memory give --parallel fsdp, "
                       "--gradient_checkpointing or smaller buckets", sp,
                       vtrain_family_name(t->model.family));
    return vc_fail(err, VC_EUSAGE, "--sp %lld: the transformer has %lld attention heads, which do "
                   "not divide into %lld equal parts: give a divisor of %lld", sp,
                   (long long)fit.heads, sp, (long long)fit.heads);
}

static int open_groups(vtrain *t, vc_err *err)
{
    const vtrain_config *c = &t->cfg;
    const vtrain_groups_opts o = {
        .groups = &c->param_groups, .no_decay = c->no_decay, .rate = vtrain_rate_of(c, 0),
        .decay = c->adam_weight_decay,
    };
    return vtrain_groups_open(&t->optim.groups, &o, t->params, err);
}

/* Refuses what the optimiser does not go together with. */
static int check_optimiser(const vtrain *t, vc_err *err)
{
    const vt_optimizer_row *row = &vt_optimizers[t->cfg.optimizer];
    if (row->run && row->run->number[0] && vtrain_both(t))
        return vc_fail(err, VC_EUSAGE, "--optimizer %s: its numbers are of one transformer, but "
                       "this run trains two: give --boundary_type high, then low, or another "
                       "--optimizer", row->name);
    return 0;
}

static int open_optimiser(vtrain *t, vc_err *err)
{
    vtrain_opt_opts o = { .how = (vt_optimizer)t->cfg.optimizer, .average = t->cfg.use_ema,
                          .beta1 = t->cfg.adam_beta1, .dry = t->cfg.dry_run };
    int rc = vtrain_offload_where(&o.folder, &o.host, t, err);
    o.threads = threads_of(t);
    if (!rc)
        rc = vtrain_offload_update(&o.update, t, err);
    if (!rc && vtrain_offloads_grads(t))
        rc = vtrain_offload_grads(t, err);
    if (rc)
        return rc;
    rc = vtrain_opt_open(&t->optim.state, t->cfg.dp_shards > 1 ? t->ranks.dist : NULL, t->g,
                         t->params, &o, err);
    if (rc == VC_EFULL || (rc && o.folder))
        vc_context(err, rc, "--offload_optimizer %s", t->cfg.offload_optimizer);
    return rc;
}

/* Opens the ranks' exchange of tokens and gradients, the optimiser's state and the objective; reads
 * the checkpoint's state. Collective. */
static int open_training(vtrain *t, vc_err *err)
{
    int rc = vtrain_distill_open(t, err);
    if (!rc)
        rc = vtrain_forcing_check(t, err);
    if (rc)
        return rc;
    const vtrain_dist_opts o = {
        .wire = t->cfg.reduce_dtype ? VC_BF16 : VC_F32, .shards = (int)t->cfg.dp_shards,
        .micros = t->cfg.gradient_accumulation_steps, .walks = t->distill.steps,
        .values = t->cfg.parallel == VTRAIN_FSDP && t->cfg.dp_shards > 1,
        .how = (vt_optimizer)t->cfg.optimizer,
        .patience = (double)t->cfg.comm_timeout,
    };
    rc = check_shared(t, err);
    if (!rc)
        rc = check_optimiser(t, err);
    if (!rc)
        rc = open_groups(t, err);
    if (!rc)
        rc = vtrain_sequence_open(&t->ranks.sequence, t->comm, t->g, (int)t->cfg.sp, o.patience,
                                  err);
    if (!rc)
        rc = vtrain_dist_open(&t->ranks.dist, t->comm, t->g, t->params, &o, err);
    if (!rc)
        rc = open_optimiser(t, err);
    if (!rc)
        rc = open_objective(t, err);
    if (!rc && t->from.dir)
        rc = vtrain_resume(t, err);
    return rc ? rc : vtrain_dist_split(t->ranks.dist, err);
}

/* ---- the run's folder ---- */

/* Fails if the folder holds a dataset, or a run that this run does not resume. */
static int check_output(const vtrain *t, vc_err *err)
{
    char *dir;
    if (vf_dataset_there(t->cfg.output_dir))
        return vc_fail(err, VC_EUSAGE, "--output_dir %s is a dataset: give another folder",
                       t->cfg.output_dir);
    if (t->cfg.resume_from_checkpoint)
        return 0;
    int rc = vtrain_ckpt_find(&dir, t->cfg.output_dir, "latest", err);
    if (!rc && dir)
        rc = vc_fail(err, VC_EUSAGE, "--output_dir %s holds a run already (%s): continue the run "
                     "with --resume_from_checkpoint latest, or give another folder",
                     t->cfg.output_dir, vc_path_base(dir));
    free(dir);
    return rc;
}

static int open_output(vtrain *t, vc_err *err)
{
    const char *out = t->cfg.output_dir;
    int rc = vc_mkdirs(out, err);
    char *path = vc_path_join(out, "config.yaml"), *lock = vc_path_join(out, ".lock");
    if (!rc && (!path || !lock))
        rc = vc_no_memory(err);
    if (!rc)
        rc = vc_lock_file(&t->output.lock, lock, err);
    vc_lock_say_missing(t->ui);
    if (!rc)
        rc = check_output(t, err);
    if (!rc)
        rc = vtrain_resume_check_again(t, err);
    if (!rc)
        vtrain_ckpt_clean(out);
    if (!rc)
        rc = vtrain_resume_set_aside(t, err);
    if (!rc)
        rc = vc_file_write(path, t->output.settings, strlen(t->output.settings), err);
    free(path);
    free(lock);
    if (!rc)
        rc = vtrain_metrics_open(&t->output.metrics, out, t->at.step, t->cfg.report_to == 0, err);
    return rc;
}

/* ---- the whole run ---- */

/* Keeps the plan's lines for report.html. */
static int describe(vtrain *t, vc_err *err)
{
    t->output.about_model = vtrain_plan_text(t, VTRAIN_TEXT_MODEL);
    t->output.about_data = vtrain_plan_text(t, VTRAIN_TEXT_DATA);
    return t->output.about_model && t->output.about_data ? 0 : vc_no_memory(err);
}

/* Makes the YAML of the settings, in which --model builtin keeps its name. */
static int describe_settings(vtrain *t, bool builtin, vc_err *err)
{
    char name[16];
    vtrain_config c = t->cfg;
    snprintf(name, sizeof name, "%s", vtrain_family_name(vtrain_family_fresh()));
    if (builtin)
        c.model = name;
    t->output.settings = vc_flags_yaml(&vtrain_program, &c);
    return t->output.settings ? 0 : vc_no_memory(err);
}

/* What says that every clip begins with a clean frame (vtrain_model.begins): musubi-tuner's --task
 * of Kandinsky 5, or else the pipeline. */
static const char *begins_by(int task, const vc_pipeline *p)
{
    if (task == VTRAIN_TASK_K5_LITE_I2V || task == VTRAIN_TASK_K5_PRO_I2V)
        return "--task";
    const bool other = task >= VTRAIN_TASK_K5 ||
                       (task >= VTRAIN_TASK_DISTILL && task <= VTRAIN_TASK_DISTILL_TRAIN);
    return p && p->begins && !other ? p->class : NULL;
}

static int open_run(vtrain *t, vc_flags *set, vc_err *err)
{
    const bool builtin = !t->cfg.model && vc_flags_given(set, "model");
    int rc = vtrain_check_ranks(&t->cfg, vc_comm_size(t->comm), err);
    if (!rc)
        rc = check_output(t, err);
    rc = vc_comm_agree(t->comm, rc, err);
    if (!rc)
        rc = vc_comm_agree(t->comm, vtrain_resume_find(t, err), err);
    if (!rc)
        rc = vtrain_samples_open(t, err);
    t->memory.base = vtrain_private_bytes();
    t->memory.heap = (int64_t)vc_heap_used();
    if (!rc)
        rc = vtrain_check_fresh(t, builtin, err);
    if (!rc)
        rc = vtrain_experts_choose(t, set, err);
    if (!rc)
        rc = vtrain_open_config(t, err);
    if (!rc)
        rc = vtrain_encoders_open(t, err);
    if (!rc)
        rc = vtrain_open_schedule(t, err);
    int reported = 0;
    while (vc_flags_note(set, reported))
        reported++;
    if (!rc)
        rc = vtrain_take_like_family(t, set, err);
    if (!rc)
        rc = vtrain_resolve(&t->cfg, set, t->model.family, &t->model.scheduler,
                            vtrain_data_mode(t->data), err);
    if (!rc && !t->from.dir)                   /* a run that continues has had the hint */
        rc = vtrain_hint_like(&t->cfg, t, set, err);
    t->validation.own_guidance = vc_flags_given(set, "guidance_scale");
    t->model.begins_as_set = vc_flags_decided(set, "first_frame_conditioning_p");
    t->model.begins = t->model.begins_as_set ? NULL : begins_by(t->cfg.task, t->model.pipeline);
    if (!rc)
        rc = vtrain_divide(t, err);
    for (; vc_flags_note(set, reported); reported++)
        vc_say(t->ui, "%s", vc_flags_note(set, reported));
    if (!rc)
        rc = open_device(t, err);
    if (!rc)
        rc = vtrain_load_model(t, err);
    if (!rc)
        rc = vtrain_adopt_lora(t, set, err);
    if (rc)
        return rc;
    rc = vtrain_unconditional_open(t, err);
    if (!rc)
        rc = describe_settings(t, builtin, err);
    if (rc)
        return rc;
    rc = vtrain_select_trained(t, err);
    vc_progress_end(t->ui);                    /* of loading */
    if (!rc)
        rc = vtrain_base_open(t, err);
    if (!rc)
        rc = vtrain_sources_open(t, err);
    if (!rc)
        vtrain_memory_opened(t);
    return rc;
}

/* Fails if ranks read different datasets, settings or checkpoints: their gradients would not fit
 * together. */
static int same_everywhere(const vtrain *t, vc_err *err)
{
    int ranks = vc_comm_size(t->comm);
    const char *settings = t->output.settings;
    uint64_t *all = calloc((size_t)ranks, sizeof *all);
    uint64_t sum = XXH3_64bits(settings, strlen(settings));
    int rc = all ? 0 : vc_no_memory(err);
    for (int i = 0; i < vtrain_data_sets(t->data); i++) {
        const char *root = vtrain_data_root(t->data, i);
        sum = XXH3_64bits_withSeed(root, strlen(root), sum + (uint64_t)t->at.step);
    }
    rc = vc_comm_agree(t->comm, rc, err);
    if (!rc)
        rc = vc_comm_gather(t->comm, all, &sum, sizeof sum, err);
    for (int i = 1; !rc && i < ranks; i++)
        if (all[i] != all[0])
            rc = vc_fail(err, VC_EMISMATCH, "rank %d has another dataset, other settings or "
                         "another checkpoint than rank 0: all ranks need the same files under the "
                         "same paths", i);
    free(all);
    return rc;
}

/* Where a rank is lost, MPI may still write to the memory of calls that did not end: all of it
 * stays until the process ends, which vc_comm_close brings about. */
static void close_run(vtrain *t)
{
    vtrain_trace_close(t->output.trace);
    vtrain_metrics_close(t->output.metrics);
    if (t->output.lock >= 0)
        close(t->output.lock);
    vtrain_loader_close(t->loader);
    if (vc_comm_lost(t->comm, NULL)) {
        vtrain_encoders_close(t->compared.encoders);
        return;
    }
    vtrain_objective_close(t->objective);
    vtrain_opt_close(t->optim.state);
    vtrain_dist_close(t->ranks.dist);
    vtrain_sequence_close(t->ranks.sequence);
    vtrain_targets_close(t->lora.targets);
    for (int i = 0; i < 2; i++)
        vtrain_patterns_close(t->lora.patterns[i]);
    vtrain_lora_close(t->lora.file);
    free(t->lora.names);
    vtrain_groups_close(t->optim.groups);
    vtrain_dit_close(vtrain_both(t) ? t->model.both[0] : t->model.dit);
    vtrain_dit_close(t->model.both[1]);
    vtrain_unconditional_close(t);
    vt_params_close(t->params);
    vt_close(t->g);
    vtrain_base_close(t->compared.base);
    vtrain_encoders_close(t->compared.encoders);
    vtrain_weights_close(t->model.weights);
    vtrain_weights_close(t->model.low_weights);
    vf_model_close(t->model.beside);
    vtrain_controlnet_close(t->model.controlnet);
    cJSON_Delete(t->model.config);
    cJSON_Delete(t->compared.sources);
    vtrain_data_close(t->data);
    vtrain_spans_free(t->samples.span, t->samples.n_spans);
    vtrain_state_free(&t->from.state);
    free(t->from.dir);
    free(t->samples.shards);
    free(t->samples.done);
    vtrain_scheduler_free(&t->model.scheduler);
    free(t->plan.recompute);
    free(t->plan.group_flops);
    free(t->output.settings);
    free(t->output.about_model);
    free(t->output.about_data);
}

static int open_steps(vtrain *t, vc_err *err)
{
    int rc = open_training(t, err);
    if (!rc)
        rc = vtrain_plan_steps(t, err);
    if (!rc)
        vtrain_resume_compare_length(t);
    if (!rc)
        rc = vtrain_samples_begin(t, t->at.micro, err);
    if (!rc)
        rc = vtrain_epochs_begin(t, err);
    uint64_t own = t->at.micro * (uint64_t)vtrain_parts(t) + (uint64_t)vtrain_dp_group(t);
    return rc ? rc : vtrain_start_loader(t, own, err);
}

static int begin_output(vtrain *t, vc_err *err)
{
    int rc = vtrain_leads(t) ? open_output(t, err) : 0;
    if (!rc)
        rc = vtrain_encoders_begin(t, err);
    if (!rc && vtrain_leads(t)) {
        vtrain_save_best(t);                   /* of what a resumed run goes on from */
        vtrain_save_foresee(t);
    }
    if (!rc && t->cfg.trace_dir)
        rc = vtrain_trace_open(&t->output.trace, t->cfg.trace_dir, vc_comm_rank(t->comm), err);
    return rc;
}

/* Ranks agree on the result before each collective call, so that all ranks make the call or none
 * does. */
int vtrain_run(const vtrain_config *c, vc_flags *set, vc_comm *comm, FILE *out,
               vc_progress *ui, const atomic_int *stop, vc_err *err)
{
    vtrain t = { .cfg = *c, .comm = comm, .ui = ui, .stop = stop, .out = out, .output.lock = -1 };
    int rc = vc_comm_agree(comm, vc_maps_check(open_run(&t, set, err), err), err);
    if (!rc)
        rc = open_steps(&t, err);
    rc = vc_comm_agree(comm, rc, err);
    if (!rc)
        rc = same_everywhere(&t, err);
    if (!rc)
        rc = vtrain_plan_memory(&t, err);
    if (!rc && vtrain_makes_samples(c))
        rc = vtrain_validate_check(&t, err);
    if (!rc)
        rc = describe(&t, err);
    if (!rc && !c->dry_run)
        rc = begin_output(&t, err);
    rc = vc_comm_agree(comm, rc, err);
    if (!rc && !c->dry_run)
        rc = vtrain_loop(&t, err);
    close_run(&t);
    return rc;
}
