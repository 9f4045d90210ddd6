/* like.c - see like.h. The values were read in these files, at the commit of the day named:
 *
 *   videox-fun      aigc-apps/VideoX-Fun 804a425, 2026-05-12: scripts/cogvideox_fun/train.py and
 *                   train_lora.py (arguments), videox_fun/data/dataset_image_video.py
 *                   (text_drop_ratio), scripts/wan2.1/train.py and scripts/hunyuanvideo/train.py
 *                   (the weighting of a flow, its table of levels, the cutoff of its loss)
 *   finetrainers    a-r-r-o-w/finetrainers f476c37, 2025-06-04: finetrainers/args.py (arguments),
 *                   finetrainers/trainer/sft_trainer/config.py (LoRA) and
 *                   finetrainers/processors/text.py
 *   diffsynth       modelscope/DiffSynth-Studio fed7b18f, 2026-08-20: in diffsynth/diffusion/
 *                   parsers.py, runner.py (AdamW and ConstantLR as PyTorch has them: a
 *                   third of the rate in the first five steps; nothing is clipped),
 *                   training_module.py (alpha is the rank), flow_match.py (the weights of a
 *                   flow and its table of levels)
 *   musubi          kohya-ss/musubi-tuner 30c658c, 2026-06-24: src/musubi_tuner/training/
 *                   parser_common.py and trainer_base.py (AdamW as PyTorch has it),
 *                   networks/lora.py (rank 4), dataset/config_utils.py
 *   diffusion-pipe  tdrussell/diffusion-pipe 8f83dbf, 2026-08-20: train.py (AdamW as PyTorch
 *                   has it), models/base.py, utils/dataset.py, models/cosmos_predict2.py (times)
 *   ttt-video       test-time-training/ttt-video-dit 6c316a7, 2025-05: ttt/infra/config_manager.py
 *                   (arguments) and optimizers.py (AdamW, the schedules and their warm-up),
 *                   ttt/models/cogvideo/model.py (times) and utils.py (the sampler)
 *
 * PyTorch's AdamW has betas 0.9 and 0.999, eps 1e-8 and decay 0.01. The tables have no settings
 * that a trainer requires (rank and rate of diffusion-pipe, frames of diffusion-pipe and musubi) or
 * takes from the model's configuration (the shift of videox-fun). */
#include "common/cli/like.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"

enum { TTT_VIDEO = 5 };      /* column of the tables */

#define LORA "a LoRA's"
#define FLOW "a flow's"

const vc_like vc_vtrain_like[] = {
    { "learning_rate", { "1e-4", "1e-4", "1e-4", "2e-6", NULL, "1e-4" }, NULL },
    { "lr_scheduler",
      { "constant", "constant", "piecewise_constant", "constant", "constant", "linear" }, NULL },
    { "lr_step_rules", { NULL, NULL, "0.333333:5,1", NULL, NULL, NULL }, NULL },
    { "lr_warmup_steps", { "500", "500", "0", "0", "0", "50" }, NULL },
    { "adam_beta1", { "0.9", "0.9", "0.9", "0.9", "0.9", "0.9" }, NULL },
    { "adam_beta2", { "0.999", "0.95", "0.999", "0.999", "0.999", "0.95" }, NULL },
    { "adam_weight_decay", { "1e-2", "1e-4", "1e-2", "1e-2", "1e-2", "1e-4" }, NULL },
    { "adam_epsilon", { "1e-8", "1e-8", "1e-8", "1e-8", "1e-8", "1e-8" }, NULL },
    { "max_grad_norm", { "1", "1", "0", "1", "1", "0.1" }, NULL },
    { "caption_dropout_p", { "0.1", "0", "0", "0", "0", "0" }, NULL },
    { "lr_warmup_from", { [TTT_VIDEO] = "1" }, NULL },
    { "no_decay", { [TTT_VIDEO] = "bias,norm,b1,b2" }, NULL },
    { "uniform_sampling", { [TTT_VIDEO] = "true" }, NULL },
    { "guidance_schedule", { [TTT_VIDEO] = "cosine_time" }, NULL },
    { "rank", { "128", "64", "32", "4", NULL }, LORA },
    { "network_alpha", { "64", "64", NULL, "1", NULL }, LORA },
    { "weighting_scheme", { "uniform", "uniform", "bell", "uniform", "logit_normal" }, FLOW },
    { "flow_levels", { "1000", "1000", "1000", "1000", "0" }, FLOW },
    { "logit_mean", { "0", "0", NULL, "0", "0" }, FLOW },
    { "logit_std", { "1", "1", NULL, "1", "1" }, FLOW },
    { "mode_scale", { "1.29", "1.29", NULL, "1.29", NULL }, FLOW },
    { "flow_shift", { NULL, "1", NULL, "1", "1" }, FLOW },
    { "loss_cutoff", { "50", NULL, NULL, NULL, NULL }, FLOW },
    { 0 }
};

const vc_like vc_vprep_like[] = {
    { "enable_bucket", { "false", NULL, NULL, NULL, NULL }, NULL },
    { "video_sample_n_frames", { "17", NULL, "81", NULL, NULL }, NULL },
    { "video_sample_stride", { "4", NULL, "1", "1", "1" }, NULL },
    { "start_rule", { NULL, NULL, "first", "first", "first" }, NULL },
    { 0 }
};

/* Values that depend on the model's family. diffsynth's mu of 0.8 is a shift of e^0.8. */
static const struct {
    const char *like;                      /* a name of VC_LIKE_ALLOWED */
    const char *family, *flag;
    double value;
} of_family[] = {
    { "diffsynth", "wan2.1", "flow_shift", 5 },
    { "diffsynth", "flux", "flow_shift", 3 },
    { "diffsynth", "qwen-image", "flow_shift", 2.2255409 },
    { "diffsynth", "qwen-image", "flow_terminal", 0.02 },
};

/* Names that only one trainer uses. Our own flags have them as aliases or not at all. */
static const struct {
    const char *name, *signs;
} peers[VC_LIKE_PEERS] = {
    { "videox-fun", "train_data_meta vae_mini_batch use_peft_lora keep_all_node_same_token_length "
                    "enable_text_encoder_in_dataloader auto_tile_batch_size" },
    { "finetrainers", "flow_weighting_scheme flow_logit_mean flow_logit_std flow_mode_scale "
                      "enable_precomputation precomputation_items precomputation_once "
                      "precomputation_reuse precomputation_dir validation_dataset_file "
                      "dataset_shuffle_buffer_size attn_provider_training" },
    { "diffsynth", "dataset_metadata_path dataset_base_path lora_base_model remove_prefix_in_ckpt "
                   "lora_target_modules preset_lora_model use_gradient_checkpointing "
                   "use_gradient_checkpointing_offload dataset_num_workers "
                   "model_id_with_origin_paths model_paths" },
    { "musubi", "max_data_loader_n_workers gradient_checkpointing_cpu_offload sdpa "
                "persistent_data_loader_workers dynamo_backend dataset_config network_module "
                "network_dim network_args discrete_flow_shift fp8_base fp8_scaled "
                "text_cache_dtype video_directory target_frames frame_extraction source_fps" },
    { "diffusion-pipe", "micro_batch_size_per_gpu optimizer.type adapter.type model.type "
                        "pipeline_stages steps_per_print partition_method caching_batch_size "
                        "video_clip_mode reentrant_activation_checkpointing directory ar_buckets "
                        "num_ar_buckets checkpoint_every_n_minutes optimizer.betas" },
    { "ttt-video", "job.exp_name job.config_file model.ssm_layer model.mini_batch_size "
                   "model.video_length optimizer.lr_ssm optimizer.lr_ssm_schedule "
                   "optimizer.gradient_clipping_norm training.adapter_method "
                   "training.warmup_steps training.steps checkpoint.init_state_dir "
                   "parallelism.dp_replicate parallelism.dp_sharding" },
};

/* Whether two texts are the same value: 1e-2 and 0.01. */
static bool same_value(const char *a, const char *b)
{
    char *end_a, *end_b;
    double x = strtod(a, &end_a), y = strtod(b, &end_b);
    if (!strcmp(a, b))
        return true;
    return end_a > a && end_b > b && !*end_a && !*end_b && fabs(x - y) <= 1e-12 * fabs(x);
}

/* The trainer's value of a flag that was not given, or NULL. ours: our default. */
static const char *left_out(const vc_flags *set, const vc_like *row, int like, char *ours,
                            size_t size)
{
    if (!row->value[like - 1] || vc_flags_given(set, row->flag))
        return NULL;
    vc_flags_default(set, row->flag, ours, size);
    return row->value[like - 1];
}

static int take(vc_flags *set, int like, const vc_like *rows, vc_like_fits *fits,
                const void *options, vc_err *err)
{
    char ours[64];
    const char *theirs;
    int rc = 0, said = 0;

    for (const vc_like *row = rows; !rc && row->flag; row++) {
        if (!(theirs = left_out(set, row, like, ours, sizeof ours)))
            continue;
        if (fits && !fits(options, row->flag))
            continue;
        rc = vc_flags_prefer(set, row->flag, theirs, err);
        if (rc || same_value(ours, theirs))
            continue;
        if (!said++)
            vc_flags_say(set, "--like %s: %-22s %-28s %s", peers[like - 1].name, "flag", "ours",
                         "theirs, taken");
        vc_flags_say(set, "--like %s: %-22s %-28s %s%s%s%s", peers[like - 1].name, row->flag, ours,
                     theirs, row->only ? " (" : "", row->only ? row->only : "",
                     row->only ? ")" : "");
    }
    return rc;
}

void vc_like_take_family(vc_flags *set, int like, const char *family, const char *flag,
                         double *value)
{
    for (size_t i = 0; i < sizeof of_family / sizeof *of_family; i++) {
        if (!like || strcmp(of_family[i].like, peers[like - 1].name) ||
            strcmp(of_family[i].family, family) || strcmp(of_family[i].flag, flag) ||
            vc_flags_given(set, flag))
            continue;
        *value = of_family[i].value;
        vc_flags_say(set, "--like %s: %-22s %.8g (%s)", peers[like - 1].name, flag, *value, family);
    }
}

/* Counts the names that were typed; first becomes one of them. */
static int signs_of(const vc_flags *set, const char *signs, char *first, size_t size)
{
    int n = 0;

    for (const char *s = signs; *s;) {
        char name[64];
        size_t len = strcspn(s, " ");
        snprintf(name, sizeof name, "%.*s", (int)len, s);
        if (vc_flags_typed(set, name) && !n++)
            snprintf(first, size, "%s", name);
        s += len + (s[len] == ' ');
    }
    return n;
}

/* The trainer of which the command has the most names, or VC_LIKE_NONE. */
static int typed_like(const vc_flags *set, char *sign, size_t size)
{
    int best = VC_LIKE_NONE, most = 0;
    bool tie = false;

    for (int i = 0; i < VC_LIKE_PEERS; i++) {
        char first[64] = "";
        int n = signs_of(set, peers[i].signs, first, sizeof first);
        tie = n > most ? false : tie || (n && n == most);
        if (n <= most)
            continue;
        most = n;
        best = i + 1;
        snprintf(sign, size, "%s", first);
    }
    return tie ? VC_LIKE_NONE : best;
}

static int hint(vc_flags *set, const vc_like *rows, vc_like_fits *fits, const void *options,
                vc_err *err)
{
    char sign[64], ours[64], *all = NULL;
    const char *theirs;
    int like = typed_like(set, sign, sizeof sign);

    for (const vc_like *row = rows; like && row->flag; row++) {
        if (!(theirs = left_out(set, row, like, ours, sizeof ours)) || same_value(ours, theirs))
            continue;
        if ((row->only && !strcmp(row->only, FLOW)) || (fits && !fits(options, row->flag)))
            continue;
        char *more = vc_format("%s%s%s %s (here %s)", all ? all : "", all ? ", " : "", row->flag,
                               theirs, ours);
        free(all);
        if (!(all = more))
            return vc_no_memory(err);
    }
    char *text = !all ? NULL : vc_format("--%s is a flag of %s, whose defaults differ: "
                                         "%s; --like %s uses them", sign, peers[like - 1].name,
                                         all, peers[like - 1].name);
    if (text && vc_flags_wrong_line(set, 0))       /* notes are not shown beside errors */
        vc_flags_wrong(set, "%s", text);
    else if (text)
        vc_flags_say(set, "%s", text);
    int rc = all && !text ? vc_no_memory(err) : 0;
    free(text);
    free(all);
    return rc;
}

int vc_like_take(vc_flags *set, int like, const vc_like *rows, vc_like_fits *fits,
                 const void *options, vc_err *err)
{
    if (like != VC_LIKE_NONE)
        return take(set, like, rows, fits, options, err);
    return vc_flags_given(set, "like") ? 0 : hint(set, rows, fits, options, err);
}
