/* plan.c - predicts steps, memory and work before a run, and prints the plan. */
#include "train/plan/plan.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "common/os/streams.h"
#include "train/diffusion/loss.h"
#include "common/adapters/adapter.h"
#include "train/families/families.h"
#include "train/lora/lora.h"
#include "train/optim/groups.h"
#include "train/parallel/state.h"
#include "train/plan/loss_line.h"
#include "train/plan/memory.h"
#include "train/samples/spans.h"
#include "train/steps/distill.h"

enum { MOST_NAMES = 24 };                   /* of modules in the plan */
#define MOST_MICROS ((uint64_t)1 << 32)     /* of a run: draws number them in 32 bits */

/* ---- the plan's lines ---- */

/* Appends text to *all, both malloc'ed; *all becomes NULL when out of memory. */
static void append(char **all, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void append(char **all, const char *fmt, ...)
{
    va_list ap;
    char *more = NULL;
    va_start(ap, fmt);
    int n = *all ? vasprintf(&more, fmt, ap) : -1;
    va_end(ap);
    char *text = n < 0 ? NULL : vc_format("%s%s", *all, more);
    if (n >= 0)
        free(more);
    free(*all);
    *all = text;
}

/* The line of a LoRA: how much of the model it adapts, and the names of its modules in their
 * blocks, in a form that --target_name takes. */
static char *text_lora(const vtrain *t)
{
    char trained[32];
    int n;
    const char *const *name = vtrain_targets_names(t->lora.targets, &n);
    const char *title = vt_adapters[t->cfg.adapter].title;
    char *text = !t->lora.most_rank
                     ? vc_format("%s: whole matrices, ", title)
                     : vc_format("%s: %s %lld, ", title, t->lora.ranks ? "ranks up to" : "rank",
                                 (long long)t->lora.most_rank);
    if (t->lora.alphas && t->lora.most_rank)
        append(&text, "alphas of %s, ", t->cfg.alpha_pattern.n ? "modules" : "the file");
    else if (t->lora.most_rank)
        append(&text, "alpha %g, ", t->cfg.network_alpha);
    append(&text, "%d of the model's %d linears (%.0f %%)", t->lora.linears, t->lora.of_linears,
           100.0 * t->lora.linears / t->lora.of_linears);
    if (t->lora.convs)
        append(&text, " and %d of %d convolutions", t->lora.convs, t->lora.of_convs);
    if (t->lora.blocks && t->lora.blocks < t->lora.of_blocks)
        append(&text, " in %d of %d blocks", t->lora.blocks, t->lora.of_blocks);
    append(&text, ", %s parameters: ",
           vc_human_count(trained, (uint64_t)vt_params_bytes(t->params).trained));
    for (int i = 0; i < n && i < MOST_NAMES; i++)
        append(&text, "%s%s", i ? "," : "", name[i]);
    if (n > MOST_NAMES)
        append(&text, " and %d more names", n - MOST_NAMES);
    return text;
}

/* The lines of the model: its family and its parameters, and its LoRA. Its sizes are in
 * config.json. */
static char *text_model(const vtrain *t)
{
    char trained[32], frozen[32];
    vt_param_bytes b = vt_params_bytes(t->params);
    const char *of = vtrain_both(t) ? "transformer and transformer_2"
                     : t->model.boundary > 0 ? vtrain_transformer_name(t) : NULL;
    char *text = vc_format("%s, %s%s%s: %s parameters trained, %s frozen",
                           vtrain_family_name(t->model.family),
                           t->cfg.training_type == VTRAIN_LORA ? "LoRA" : "full finetune",
                           of ? " of " : "", of ? of : "",
                           vc_human_count(trained, (uint64_t)b.trained),
                           vc_human_count(frozen, (uint64_t)b.frozen));
    char *lora = t->lora.targets ? text_lora(t) : NULL;
    if (t->lora.targets)
        append(&text, "\n%s", lora ? lora : "");
    free(lora);
    return text;
}

static char *text_data(const vtrain *t)
{
    char n[32], held[32];
    uint32_t groups = vtrain_data_groups(t->data);
    char *text = vc_format("%s sample%s, %s of them held out, %u bucket%s",
                           vc_human_count(n, vtrain_data_samples(t->data)),
                           vc_s((double)vtrain_data_samples(t->data)),
                           vc_human_count(held, vtrain_data_held_out(t->data)), groups,
                           vc_s(groups));
    for (uint32_t i = 0; text && i < groups; i++) {
        const vtrain_group *g = vtrain_data_group(t->data, i);
        char pad[64] = "";
        if (g->padded > g->f)
            snprintf(pad, sizeof pad, " (%d latent frames with %s in front)", g->padded,
                     g->own.size[0][0] ? "references" : "copies");
        char *more = vc_format("%s\n  %s%s: %s sample%s, %llu in an epoch, %u tokens each", text,
                               g->name, pad, vc_human_count(n, g->samples), vc_s(g->samples),
                               (unsigned long long)g->repeats, g->tokens);
        free(text);
        text = more;
    }
    for (int i = 0; i < vtrain_data_sets(t->data); i++) {
        const char *path = vf_dataset_path(vtrain_data_set(t->data, i));
        double loss;
        const vtrain_set_kind *kind = vtrain_data_kind(t->data, i, &loss);
        if (kind->name)
            append(&text, "\n  %s: %s, and its loss counts %g times", path, kind->about,
                   loss);
        for (int k = 0; k < 2; k++)
            if ((kind = vtrain_data_marked(t->data, i, k, &loss)))
                append(&text, "\n  %s has samples that vprep marked as %s: %s, and their loss "
                       "counts %g times", path, kind->name, kind->about, loss);
    }
    return text;
}

char *vtrain_plan_text(const vtrain *t, vtrain_plan_part part)
{
    return part == VTRAIN_TEXT_MODEL ? text_model(t) : text_data(t);
}

static void print_line(FILE *out, const char *line)
{
    vc_print(out, line, 0);
    fputc('\n', out);
}

/* Writes a line of the plan: the result of a dry run, and a message of any other run. */
__attribute__((format(printf, 2, 3))) static void say(const vtrain *t, const char *fmt, ...)
{
    char line[1024];
    va_list ap;
    if (!vtrain_leads(t))
        return;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    if (t->cfg.dry_run)
        print_line(t->out, line);
    else
        vc_say(t->ui, "%s", line);
}

/* Writes the lines of text, which it frees, with `head` before the first. */
static void say_lines(const vtrain *t, const char *head, char *text)
{
    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n"));)
        say(t, "%s%s", line == text ? head : "", line);
    free(text);
}

static void say_steps(const vtrain *t)
{
    char ranks[32] = "", word[32];
    int n = vtrain_dp_groups(t);
    double epoch_steps = (double)t->plan.epoch_batches / (double)vtrain_micros(t);
    if (n > 1)
        snprintf(ranks, sizeof ranks, " x %d %s", n, t->cfg.sp > 1 ? "groups" : "ranks");
    if (t->cfg.sp > 1)
        say(t, "parallel: %s, %d %s of %lld ranks that share the tokens of each sample",
            vtrain_plan_word(t, "parallel", word, sizeof word), n, n > 1 ? "groups" : "group",
            (long long)t->cfg.sp);
    say(t, "steps: %lld, %.4g an epoch, so %.4g epoch%s; batch %lld x accumulation %lld%s; "
        "%.3g GFLOP a step", (long long)t->plan.steps, epoch_steps,
        (double)t->plan.steps / epoch_steps, vc_s((double)t->plan.steps / epoch_steps),
        (long long)t->cfg.train_batch_size,
        (long long)t->cfg.gradient_accumulation_steps, ranks, t->plan.flops / 1e9);
}

static const char *but_attention(const vtrain_recompute *r)
{
    return r->how == VT_KEEP_ATTENTION ? ", but for attention" : "";
}

/* Writes the recomputed blocks of each bucket, where the buckets differ. */
static void say_recompute(const vtrain *t)
{
    for (uint32_t i = 0; i < vtrain_data_groups(t->data); i++) {
        const vtrain_recompute *r = &t->plan.recompute[i];
        say(t, "memory: bucket %s: %d of %d blocks recomputed in backward%s",
            vtrain_data_group(t->data, i)->name, r->blocks, t->plan.blocks,
            r->blocks ? but_attention(r) : "");
    }
}

/* What --offload_optimizer cpu has in the host's memory. */
static void say_host(const vtrain *t)
{
    char bytes[32];
    const size_t states = vtrain_opt_hosted(t->optim.state);
    const size_t copies = vtrain_opt_copies(t->optim.state);
    if (states)
        say(t, "memory: %s of optimiser state are in the host's memory, and are %s",
            vc_human_bytes(bytes, (double)states), copies ? "updated there"
            : "copied to the device for each update");
    if (copies)
        say(t, "memory: %s of the weights' copies are in the host's memory, which it updates",
            vc_human_bytes(bytes, (double)copies));
    if (t->optim.host_grads)
        say(t, "memory: %s of gradients are in the host's memory, and go there block by block in "
            "backward", vc_human_bytes(bytes, (double)t->optim.host_grads));
}

static void say_memory(const vtrain *t)
{
    char all[32], standing[32], pool[32], mapped[32];
    vt_param_bytes b = vt_params_bytes(t->params);
    vt_params *beside = t->model.unconditional.params;
    const size_t in_files = b.mapped + (beside ? vt_params_bytes(beside).mapped : 0);
    const vtrain_recompute *first = t->plan.recompute;
    bool some = false, whole = true;           /* whole: all blocks of all buckets, in one way */
    for (uint32_t i = 0; i < vtrain_data_groups(t->data); i++) {
        some |= first[i].blocks > 0;
        whole &= first[i].blocks == t->plan.blocks && first[i].how == first->how;
    }
    say(t, "memory: peak %s predicted: %s weights, optimiser and loader, %s activations "
        "of bucket %s%s%s", vc_human_bytes(all, (double)t->plan.predicted),
        vc_human_bytes(standing, (double)t->plan.standing),
        vc_human_bytes(pool, (double)t->plan.pool),
        vtrain_data_group(t->data, t->plan.largest)->name,
        some && whole ? ", blocks recomputed in backward" : "",
        some && whole ? but_attention(first) : "");
    if (some && !whole)
        say_recompute(t);
    if (t->plan.offloaded)
        say(t, "memory: %s of blocks' inputs are offloaded to host memory until backward",
            vc_human_bytes(mapped, (double)t->plan.offloaded));
    vc_err lacks;
    if (t->cfg.dry_run && vtrain_opt_check(t->optim.state, &lacks))
        vc_warn(t->ui, "--offload_optimizer %s: %s", t->cfg.offload_optimizer, lacks.text);
    if (vtrain_opt_spilled(t->optim.state))
        say(t, "memory: %s of optimiser state are in a file in %s, beyond the peak: each step "
            "reads and writes them", vc_human_bytes(mapped,
            (double)vtrain_opt_spilled(t->optim.state)), strcmp(t->cfg.offload_optimizer, "disk")
            ? t->cfg.offload_optimizer : t->cfg.output_dir);
    say_host(t);
    if (b.on_host)
        say(t, "memory: %s of frozen weights, of the first %d blocks, stay on the host and are "
            "copied when their block is reached", vc_human_bytes(mapped, (double)b.on_host),
            t->plan.swapped);
    if (in_files)
        say(t, "memory: %s of frozen weights stay mapped from their file%s, beyond the peak",
            vc_human_bytes(mapped, (double)in_files), beside ? "s" : "");
}

/* Micro-batches of the run up to the end of its epochs. */
static uint64_t micros_of_epochs(const vtrain *t, vtrain_order *o)
{
    const vtrain_span *s = &t->samples.span[t->samples.n_spans - 1];
    double left = (double)t->cfg.num_train_epochs - s->done, whole = floor(left);
    if (left <= 0)
        return s->micro;
    uint64_t n = vtrain_order_count(o, (uint64_t)whole, MOST_MICROS);
    return s->micro + n + (uint64_t)ceil((left - whole) * (double)t->plan.epoch_batches);
}

/* Counts the steps that are left until the run's epochs are done, and adds those done. */
static int64_t steps_by_epochs(const vtrain *t, vtrain_order *o)
{
    uint64_t end = micros_of_epochs(t, o), per_step = (uint64_t)vtrain_micros(t);
    uint64_t left = end > t->at.micro ? end - t->at.micro : 0;
    return t->at.step + (int64_t)((left + per_step - 1) / per_step);
}

int vtrain_plan_steps(vtrain *t, vc_err *err)
{
    const vtrain_order_plan plan = vtrain_order_now(&t->samples);
    vtrain_order *o;
    int rc = vtrain_order_open(&o, t->data, &plan, err);
    if (rc)
        return rc;
    t->plan.rest_batches = plan.done ? vtrain_order_count(o, 1, MOST_MICROS) : 0;
    t->plan.epoch_batches = plan.done ? vtrain_order_count(o, 2, MOST_MICROS) - t->plan.rest_batches
                                      : vtrain_order_count(o, 1, MOST_MICROS);
    t->plan.spans = t->samples.n_spans;
    t->plan.steps = t->cfg.max_train_steps ? t->cfg.max_train_steps : INT64_MAX;
    if (t->cfg.num_train_epochs > 0) {
        int64_t by_epochs = steps_by_epochs(t, o);
        t->plan.steps = by_epochs < t->plan.steps ? by_epochs : t->plan.steps;
    }
    vtrain_order_close(o);
    double micros = (double)t->at.micro +
                    (double)(t->plan.steps - t->at.step) * (double)vtrain_micros(t);
    if (micros > (double)(MOST_MICROS - 1))
        return vc_fail(err, VC_EUSAGE, "%lld steps of %lld micro-batches: a run has at most 2^32",
                       (long long)t->plan.steps, (long long)vtrain_micros(t));
    return 0;
}

/* Warns of two transformers of which one gets no level. */
static void warn_idle(const vtrain *t)
{
    const uint32_t tokens = vtrain_data_group(t->data, 0)->tokens;
    if (t->distill.steps)
        return;
    double high = vtrain_both(t) ? vtrain_share_high(t->objective, (int64_t)tokens) : 0.5;
    if (high <= 0 || high >= 1)
        vc_warn(t->ui, "--boundary_type both: no level %s %g is drawn, so that %s stays as it is",
                high <= 0 ? "from" : "below", t->model.boundary,
                high <= 0 ? "transformer" : "transformer_2");
}

static void say_loss(const vtrain *t)
{
    char *line = vtrain_loss_line(t);
    warn_idle(t);
    say(t, "loss: %s", line ? line : "out of memory");
    free(line);
}

static void say_groups(const vtrain *t)
{
    const vtrain_groups *groups = t->optim.groups;
    for (int i = 1; i < vtrain_groups_count(groups); i++) {
        const vtrain_rate *r = vtrain_group_rate(groups, i);
        say(t, "group %s: %lld values, rate %g, %s to %g, weight decay %g",
            vtrain_group_pattern(groups, i), (long long)vtrain_group_values(groups, i), r->rate,
            vtrain_schedule_name(r->how), r->end, vtrain_group_decay(groups, i));
    }
}

/* "every 100 steps and every 2 epochs"; "": never. */
static void often(char *text, size_t size, int64_t steps, int64_t epochs)
{
    int n = 0;
    *text = '\0';
    if (steps == 1)
        n = snprintf(text, size, "every step");
    else if (steps)
        n = snprintf(text, size, "every %lld steps", (long long)steps);
    if (epochs == 1)
        snprintf(text + n, size - (size_t)n, "%severy epoch", n ? " and " : "");
    else if (epochs)
        snprintf(text + n, size - (size_t)n, "%severy %lld epochs", n ? " and " : "",
                 (long long)epochs);
}

/* Says when checkpoints are written and which are kept, and what a LoRA drops. */
static void say_rest(const vtrain *t)
{
    const vtrain_config *c = &t->cfg;
    char text[96], kept[48] = "", best[48] = "";
    often(text, sizeof text, c->checkpointing_steps, c->checkpointing_epochs);
    if (c->checkpointing_limit)
        snprintf(kept, sizeof kept, ", the newest %lld kept", (long long)c->checkpointing_limit);
    if (c->keep_best)
        snprintf(best, sizeof best, ", and the best %lld", (long long)c->keep_best);
    say(t, "checkpoints: %s%s%s", text, kept, best);
    if (c->lora_dropout + c->network_dropout + c->rank_dropout + c->module_dropout > 0)
        say(t, "%s: drops %g of inputs, %g of values, %g of %s, %g of modules",
            vt_adapters[c->adapter].title, c->lora_dropout, c->network_dropout, c->rank_dropout,
            vt_adapters[c->adapter].shares ? "outputs" : "ranks", c->module_dropout);
}

/* Warns of a LoRA that is larger than its model, and of repeats that the run does not come to. */
static void warn_sizes(const vtrain *t)
{
    char a[32], b[32];
    const vt_param_bytes n = vt_params_bytes(t->params);
    double most = 0;
    if (t->cfg.training_type == VTRAIN_LORA && n.trained > n.frozen && n.frozen > 0)
        vc_warn(t->ui, "the LoRA has %s parameters, the model %s: a smaller --rank, or "
                "--training_type full-finetune, trains fewer",
                vc_human_count(a, (uint64_t)n.trained), vc_human_count(b, (uint64_t)n.frozen));
    for (uint32_t i = 0; i < vtrain_data_groups(t->data); i++) {
        const vtrain_group *g = vtrain_data_group(t->data, i);
        most = fmax(most, g->samples ? (double)g->repeats / (double)g->samples : 0);
    }
    if (most > 1 && most > (double)t->plan.steps)
        vc_warn(t->ui, "an epoch has each sample %.4g times, and the run %lld step%s: it ends "
                "within the first epoch, with or without repeats", most, (long long)t->plan.steps,
                vc_s((double)t->plan.steps));
}

static void say_training(const vtrain *t)
{
    const vtrain_config *c = &t->cfg;
    const vtrain_rate rate = vtrain_rate_of(c, t->plan.steps);
    const long long warmup = vtrain_rate_warmup(&rate);
    char optimiser[32], schedule[32], rules[128] = "", end[32] = "", clip[64] = "not clipped";
    char betas[64] = "", eps[32] = "";
    const char *numbers = vt_optimizers[c->optimizer].flags;
    if (c->max_grad_norm > 0)
        snprintf(clip, sizeof clip, "clipped to norm %g", c->max_grad_norm);
    const vtrain_schedule how = (vtrain_schedule)c->lr_scheduler;
    if (vtrain_schedule_is(how, VTRAIN_HAS_RULES) && c->lr_step_rules)
        snprintf(rules, sizeof rules, " %.100s", c->lr_step_rules);
    if (vtrain_schedule_is(how, VTRAIN_HAS_CYCLES))
        snprintf(rules, sizeof rules, " of %lld cycles", (long long)c->lr_num_cycles);
    if (vtrain_schedule_is(how, VTRAIN_HAS_POWER))
        snprintf(rules, sizeof rules, " of power %g", c->lr_power);
    if (c->lr_end > 0)
        snprintf(end, sizeof end, " to %g", c->lr_end);
    if (strstr(numbers, "adam_beta1"))
        snprintf(betas, sizeof betas, ", betas %g and %g", c->adam_beta1, c->adam_beta2);
    if (strstr(numbers, "adam_epsilon"))
        snprintf(eps, sizeof eps, ", eps %g", c->adam_epsilon);
    say(t, "optimiser: %s%s%s, weight decay %g, gradients %s",
        vtrain_plan_word(t, "optimizer", optimiser, sizeof optimiser), betas, eps,
        c->adam_weight_decay, clip);
    say(t, "schedule: rate %g, %s%s%s, %lld step%s of warm-up", c->learning_rate,
        vtrain_plan_word(t, "lr_scheduler", schedule, sizeof schedule), rules, end,
        warmup, vc_s((double)warmup));
    if (warmup > t->plan.steps)
        vc_warn(t->ui, "--lr_warmup_steps %lld: the run has %lld step%s, so that the rate never "
                "reaches %g: give fewer", warmup, (long long)t->plan.steps,
                vc_s((double)t->plan.steps), c->learning_rate);
    warn_sizes(t);
    say_groups(t);
    say(t, "captions: dropped with probability %g", c->caption_dropout_p);
    if (vtrain_data_roles(t->data) & VC_ROLES_REFERENCE)
        say(t, "references: dropped with probability %g", c->reference_dropout_p);
    else if (c->reference_dropout_p > 0)
        vc_warn(t->ui, "--reference_dropout_p: has no effect: the samples have no reference "
                "pictures that this transformer takes");
    const vtrain_fit fit = vtrain_fit_of(t);
    if (t->model.guidance)
        say(t, "guidance: an input, %g in training (--embedded_guidance), %g in samples",
            c->embedded_guidance,
            fit.two_prompts ? c->embedded_guidance : c->guidance_scale);
    if (c->true_cfg_scale > 1)
        say(t, "samples: guided by the negative prompt with %g too", c->true_cfg_scale);
    say_rest(t);
    if (c->with_audio)
        say(t, "sound: trained beside the video; the loss is %g times the video's and %g times "
            "the sound's", c->video_loss_weight, c->audio_loss_weight);
    if (c->first_frame_conditioning_p > 0)
        say(t, "first frames: clean in clips with probability %g", c->first_frame_conditioning_p);
    if (c->diffusion_forcing)
        say(t, "levels of frames: %s (--diffusion_forcing), %lld frame%s together",
            c->diffusion_forcing > 1 ? "increasing" : "independent",
            (long long)c->diffusion_forcing_block, vc_s((double)c->diffusion_forcing_block));
    say_loss(t);
}

static void say_validation(const vtrain *t)
{
    const vtrain_config *c = &t->cfg;
    char text[96];
    vtrain_prompt p = { 0 };
    uint32_t n = vtrain_data_prompts(t->data);
    if (!vtrain_makes_samples(c))
        return;
    bool own = n && vtrain_data_prompt(t->data, 0, &p, NULL) == 0 && !p.from_training;
    vtrain_prompt_free(&p);
    often(text, sizeof text, c->validation_steps, c->validation_epochs);
    say(t, "validation: %u %s %s%s", n,
        own ? "stored prompts" : "captions of training samples, since no prompts are stored,",
        c->sample_at_first ? *text ? "before step 1 and " : "before step 1" : "", text);
}

int vtrain_plan_again(vtrain *t, vc_err *err)
{
    if (t->plan.spans == t->samples.n_spans)
        return 0;
    int rc = vtrain_plan_steps(t, err);
    if (!rc)
        rc = vtrain_memory_plan(t, err);
    free(t->output.about_data);
    t->output.about_data = rc ? NULL : text_data(t);
    if (!rc && !t->output.about_data)
        rc = vc_no_memory(err);
    return vc_context(err, rc, "dry step");
}

int vtrain_plan_memory(vtrain *t, vc_err *err)
{
    int rc = vtrain_memory_plan(t, err);
    if (!rc)
        rc = vtrain_memory_place(t, err);
    if (rc)
        return rc;
    say_lines(t, "model: ", text_model(t));
    say_lines(t, "data: ", text_data(t));
    say(t, "device: %s", vt_describe(t->g));
    say_steps(t);
    if (t->cfg.dry_run)
        say_training(t);
    say_memory(t);
    rc = vtrain_memory_check(t, err);
    if (rc)
        return rc;
    say_validation(t);
    if (t->cfg.dry_run)
        return vc_std_flush(t->out, err);
    fflush(t->out);                          /* the plan stands before the steps, in a file too */
    return 0;
}
