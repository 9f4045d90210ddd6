/* summary.c - reports captions, memory and time at the end of a run, and writes its page; see
 * summary.h */
#include "train/vtrain/summary.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/memory/replay.h"
#include "common/os/file.h"
#include "train/models/controlnet.h"
#include "train/output/report.h"
#include "train/parallel/dist.h"

void vtrain_report_graphs(const vtrain *t)
{
    const char *off = t->output.trace ? "a trace is written"
                      : t->cfg.gradient_checkpointing_offload ? "blocks' inputs are offloaded"
                      : vt_replay_off(t->g);
    if (off)
        vc_say(t->ui, "graphs: off: %s", off);
    else
        vc_say(t->ui, "graphs: on: repeated micro-batches of one shape are captured and replayed");
}

static void report_memory(const vtrain *t)
{
    char real[32], predicted[32];
    if (!t->plan.predicted || !t->memory.peak)
        return;
    const double off = 100 * ((double)t->memory.peak / (double)t->plan.predicted - 1);
    vc_say(t->ui, "memory: peak %s, which is %.1f%% %s than the %s that were predicted",
           vc_human_bytes(real, (double)t->memory.peak), fabs(off), off < 0 ? "less" : "more",
           vc_human_bytes(predicted, (double)t->plan.predicted));
}

static void report_captions(const vtrain *t)
{
    if (t->at.rows && t->cfg.caption_dropout_p > 0)
        vc_say(t->ui, "captions: %.2f%% dropped, %.4g%% expected",
               100 * (double)t->at.dropped / (double)t->at.rows, 100 * t->cfg.caption_dropout_p);
}

/* Reports a line for each op: the time of its kernels in all steps, samples and evaluations. */
static void report_ops(const vtrain *t, double steps)
{
    const vt_op_time *row;
    double sum = 0;
    int n = vt_profile_rows(t->g, &row);
    for (int i = 0; i < n; i++)
        sum += row[i].seconds;
    vc_say(t->ui, "%-28s %9s %10s %9s %7s", "op", "calls", "ms a step", "GFLOP/s", "share");
    for (int i = 0; i < n; i++) {
        char name[40], rate[16] = "";
        snprintf(name, sizeof name, "%s%s", *row[i].op ? row[i].op : "other",
                 row[i].grad ? ", gradient" : "");
        if (row[i].flops > 0)
            snprintf(rate, sizeof rate, "%.1f", row[i].flops / row[i].seconds / 1e9);
        vc_say(t->ui, "%-28s %9lld %10.2f %9s %6.1f%%", name, (long long)row[i].calls,
               1e3 * row[i].seconds / steps, rate, 100 * row[i].seconds / sum);
    }
}

static void report_conditions(const vtrain *t, const vtrain_counts *c)
{
    const unsigned roles = vtrain_data_roles(t->data), references = VC_ROLES_REFERENCE;
    const unsigned long long rows = c->rows;

    if (roles & ~references && rows)
        vc_say(t->ui, "conditions: %.2f%% of %llu became zeros", 100 * (double)c->zeroed /
               (double)rows, rows);
    if (roles & references && c->paired)
        vc_say(t->ui, "references: %.2f%% of %llu left out, %.4g%% expected",
               100 * (double)c->alone / (double)c->paired, (unsigned long long)c->paired,
               100 * t->cfg.reference_dropout_p);
}

static void report_profile(const vtrain *t, const vtrain_counts *c)
{
    double steps = (double)(t->at.step - c->begun);
    double work = t->time.forward + t->time.backward;
    if (!t->cfg.profile || steps <= 0)
        return;
    vc_say(t->ui, "profile, ms a step: data wait %.2f, forward %.2f, backward %.2f, sums over "
           "ranks %.2f after it, update %.2f; in all: checkpoints %.2f s, samples %.2f s; "
           "%.1f GFLOP/s in forward and backward",
           1e3 * t->time.wait / steps, 1e3 * t->time.forward / steps,
           1e3 * t->time.backward / steps, 1e3 * vtrain_dist_waited(t->ranks.dist) / steps,
           1e3 * t->time.update / steps, t->time.save, t->time.sample,
           work > 0 ? t->plan.flops * steps / work / 1e9 : 0);
    if (!vt_host_memory(t->g))
        vc_say(t->ui, "profile: after the first step the device waited for data %lld times, %.2f "
               "ms a step", (long long)c->waits, 1e3 * c->wait_s / steps);
    report_ops(t, steps);
}

/* Names what the run made, and what of a checkpoint opens it. */
static void say_result(const vtrain *t, const char *best, const char *next)
{
    const vtrain_config *c = &t->cfg;
    const bool lora = c->training_type == VTRAIN_LORA, net = vtrain_trains_controlnet(t);
    vc_say(t->ui, "result: %s/checkpoint-%lld/%s%s%s%s%s; report: %s/report.html", c->output_dir,
           (long long)t->at.step, lora ? "pytorch_lora_weights.safetensors"
                                  : net ? "" : vtrain_transformer_name(t),
           lora && net ? " and " : "", net ? vtrain_controlnet_name(t->model.controlnet) : "",
           best ? "; the best: " : "", best ? best : "", c->output_dir);
    if (next)
        vc_say(t->ui, "%s", next);
    else if (lora)
        vc_say(t->ui, "next: diffusers' %s opens the folder%s",
               t->model.family->lora_reader ? t->model.family->lora_reader : "load_lora_weights",
               c->export_comfyui ? ", ComfyUI its lora_comfyui.safetensors" : "");
    else if (net)
        vc_say(t->ui, "next: %s opens %s", vtrain_controlnet_reader(t->model.controlnet),
               vtrain_controlnet_name(t->model.controlnet));
    else if (c->model && c->export_pipeline)
        vc_say(t->ui, "next: diffusers' Pipeline.from_pretrained opens the folder of the "
               "checkpoint");
    else
        vc_say(t->ui, "next: with more steps, --resume_from_checkpoint latest trains further; "
               "--validation_steps N makes samples");
}

void vtrain_report_result(const vtrain *t)
{
    const vtrain_config *c = &t->cfg;
    char *samples = vc_format("%s/validation", c->output_dir);
    char *best = vc_format("%s/" VTRAIN_BEST, c->output_dir);
    char *next = samples && vc_file_exists(samples) ? vf_next_decode(c->output_dir, c->model)
                                                    : NULL;
    say_result(t, c->keep_best && best && vc_file_exists(best) ? best : NULL, next);
    free(samples);
    free(best);
    free(next);
}

void vtrain_report_summary(const vtrain *t, const vtrain_counts *c)
{
    report_captions(t);
    report_conditions(t, c);
    report_memory(t);
    report_profile(t, c);
}

int vtrain_write_report(const vtrain *t, bool live, vc_err *err)
{
    const vtrain_report r = {
        .title = t->cfg.output_dir,
        .page = {
            .model = t->output.about_model, .data = t->output.about_data,
            .settings = t->output.settings, .predicted_bytes = t->plan.predicted,
            .peak_bytes = t->memory.peak, .steps = t->plan.steps, .live = live,
            .samples = vtrain_data_samples(t->data) - vtrain_data_held_out(t->data),
        },
    };
    return vtrain_report_write(&r, t->cfg.output_dir, err);
}
