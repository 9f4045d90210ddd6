/* options.c - the flags of vtrain, and the checks of their values */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/cli/foreign.h"
#include "common/cli/hub.h"
#include "common/cli/kinds.h"
#include "common/cli/like.h"
#include "common/os/file.h"
#include "formats/tensors/origins.h"
#include "common/adapters/adapter.h"
#include "train/diffusion/loss.h"
#include "train/optim/rate.h"
#include "train/settings/rows.h"
#include "train/settings/settings.h"

/* Choices that vtrain_check replaces by one of the choices that the run knows. */
enum { REPORT_TENSORBOARD, REPORT_NONE };
enum { ADAPTER_SFT };                         /* the first choice of --adapter_method: all */
/* Choices whose words are the names of tables. */
#define OPTIMIZERS (vt_optimizer_words + 1)
#define ADAPTERS (vt_adapter_words + 1)
#define ADAPTERS_HELP vt_adapter_help
#define SCHEDULES (vtrain_schedule_words + 1)
#define OPTIMIZERS_HELP vt_optimizer_help

static const vc_flag flags[] = {
#include "common/cli/vtrain_flags.def"
    { 0 }
};

const vc_program vtrain_program = {
    .name = "vtrain",
    .synopsis = "vtrain --latents DATASET [--model DIR] --output_dir OUT [flags]",
    .about = "Trains a video transformer from a latent dataset: a LoRA or the whole model. It "
             "loads no encoder and no decoder.",
    .flags = flags, .partner = vc_vprep_flags, .foreign = vc_peers, .renamed = vc_renamed_flags,
    .version = vt_built_for,
    .alone = "status",
    .first = "latents model output_dir training_type rank max_train_steps train_batch_size "
             "learning_rate gradient_checkpointing resume_from_checkpoint dry_run status",
};

/* ---- checks of the flags ---- */

/* Takes a component that DiffSynth-Studio's flags name; vtrain reads no encoder. */
static int take_origin(void *arg, const char *slot, const char *path, vc_err *err)
{
    static const struct { const char *folder, *type; } types[] = {
        { "high_noise_model", "high" }, { "low_noise_model", "low" }
    };
    int rc = 0;
    if (!strcmp(slot, "model") || strstr(slot, "controlnet"))
        return vc_flags_prefer(arg, slot, path, err);
    if (strncmp(slot, "transformer", 11))
        return 0;
    if (vc_flags_decided(arg, "transformer") && !vc_flags_given(arg, "transformer"))
        return vc_fail(err, VC_EUSAGE, "%s is a second transformer: leave one out, or give both "
                       "with --transformer LOW --transformer_high HIGH", path);
    for (int i = 0; !rc && i < 2; i++)
        if (!strcmp(vc_path_base(path), types[i].folder))
            rc = vc_flags_prefer(arg, "boundary_type", types[i].type, err);
    return rc ? rc : vc_flags_prefer(arg, "transformer", path, err);
}

/* TTT layers, which start from noise, are trained themselves. */
static void check_ssm(vtrain_config *c, vc_flags *set)
{
    const bool adapter = c->adapter_method != ADAPTER_SFT;
    const char *flag = c->ssm_layer ? "ssm_layer" : "adapter_method";
    if (!c->ssm_layer && !adapter)
        return;
    if (!c->model && !c->transformer)
        vc_flags_wrong(set, "--%s: TTT layers belong to CogVideoX: give --model or --transformer",
                       flag);
    if (vc_flags_given(set, "training_type") && c->training_type == VTRAIN_LORA)
        vc_flags_wrong(set, "--%s: a LoRA trains no TTT layers: give --training_type "
                       "full-finetune with --adapter_method qkvo, which freezes most of the model",
                       flag);
    if (adapter && c->trainable_modules)
        vc_flags_wrong(set, "--adapter_method: stands for a list of --trainable_modules: give one "
                       "of them");
    c->training_type = VTRAIN_FULL;
}

/* A kind of ControlNets: its flag, which is also its word of --trainable_models. */
typedef struct control_net { const char *flag, *path; } control_net;

/* Settings of a --controlnet that the run has not, or not in this way. A run's own file of flags
 * gives all of them, with their defaults. */
static void check_copied(const vtrain_config *c, vc_flags *set)
{
    enum { NEW = 4 };                         /* the default */
    const struct { const char *flag; int64_t n; } sizes[] = {
        { "num_double_layers", c->num_double_layers }, { "num_single_layers", c->num_single_layers }
    };
    const bool begins = c->controlnet && !strcmp(c->controlnet, "new");
    for (int i = 0; i < 2; i++)
        if (sizes[i].n != NEW && !begins)
            vc_flags_wrong(set, "--%s: is a size of a new ControlNet: give --trainable_models "
                           "controlnet --controlnet new, or leave it out", sizes[i].flag);
    if (c->num_mode && !begins)
        vc_flags_wrong(set, "--num_mode: is a size of a new ControlNet-Union: give "
                       "--trainable_models controlnet --controlnet new, or leave it out");
    if (c->controlnet_mode && !c->controlnet)
        vc_flags_wrong(set, "--controlnet_mode: is the kind of a ControlNet-Union's pictures: give "
                       "one by --controlnet, or leave it out");
    else if (c->controlnet_mode && vc_kind_of(c->controlnet_mode) == VC_NO_KIND)
        vc_flags_wrong(set, "--controlnet_mode %s: is no kind: give a number from 0 on, or canny, "
                       "tile, depth, blur, pose, gray or lq", c->controlnet_mode);
    if (c->controlnet_conditioning_scale != 1 && !c->controlnet)
        vc_flags_wrong(set, "--controlnet_conditioning_scale: is for samples with a --controlnet: "
                       "give one, or leave it out");
    if (c->controlnet && c->blockwise_controlnet)
        vc_flags_wrong(set, "--controlnet: is a second ControlNet beside --blockwise_controlnet: "
                       "leave one out");
}

/* control: --trainable_models names the ControlNet; lora: --training_type lora was given, so that a
 * LoRA is trained beside it. */
static void check_control(const vtrain_config *c, vc_flags *set, const control_net *n, bool control,
                          bool lora)
{
    const bool adapts = c->rank_pattern.n || c->target_name || c->lora_checkpoint;
    const bool full = c->training_type == VTRAIN_FULL || c->trainable_modules ||
                      (c->trainable_models && !control);
    if (control && !n->path)
        vc_flags_wrong(set, "--trainable_models %s: give --%s FILE, or --%s new to begin one",
                       n->flag, n->flag, n->flag);
    if (control && (c->trainable_modules || (adapts && !lora)))
        vc_flags_wrong(set, "--trainable_models %s: trains the ControlNet alone: give "
                       "--training_type lora to train a LoRA of the transformer too", n->flag);
    if (n->path && full && !control)
        vc_flags_wrong(set, "--%s: is trained with --trainable_models %s, or stays frozen beside a "
                       "LoRA, but this is a full finetune of the transformer", n->flag, n->flag);
}

/* fresh: no model is named, so that the built-in DiT is trained. */
static void check_type(vtrain_config *c, vc_flags *set, bool fresh)
{
    bool lora_said = vc_flags_given(set, "training_type") && c->training_type == VTRAIN_LORA;
    vtrain_take_adapter(c, set);
    check_ssm(c, set);
    const control_net nets[] = { { "blockwise_controlnet", c->blockwise_controlnet },
                                 { "controlnet", c->controlnet } };
    bool control = false;
    check_copied(c, set);
    for (int i = 0; i < 2; i++) {
        const bool this = c->trainable_models && !strcmp(c->trainable_models, nets[i].flag);
        check_control(c, set, &nets[i], this, lora_said);
        control |= this;
    }
    static char vace[] = VTRAIN_VACE_PART;
    const bool blocks = c->trainable_models && !strcmp(c->trainable_models, "vace");
    if (blocks && c->trainable_modules)
        vc_flags_wrong(set, "--trainable_models vace: stands for --trainable_modules %s: give one "
                       "of them", vace);
    else if (blocks)
        c->trainable_modules = vace;
    if (c->trainable_models && strcmp(c->trainable_models, "dit") && !control && !blocks)
        vc_flags_wrong(set, "--trainable_models \"%s\": dit, controlnet, Wan's vace and "
                       "Qwen-Image's blockwise_controlnet are possible here: %s",
                       c->trainable_models, vc_only_transformer);
    else if (c->trainable_models && lora_said && !control)
        vc_flags_wrong(set, "--trainable_models: dit means a full finetune, but --training_type "
                       "says lora");
    else if (lora_said && fresh)
        vc_flags_wrong(set, "--training_type: a LoRA needs a trained transformer: give --model or "
                       "--transformer (the built-in DiT starts from noise)");
    bool parts = c->trainable_modules && !vc_flags_given(set, "training_type");   /* VideoX-Fun */
    if ((c->trainable_models && !lora_said) || parts || (fresh && !lora_said))
        c->training_type = VTRAIN_FULL;
    if (c->training_type == VTRAIN_LORA && c->trainable_modules)
        vc_flags_wrong(set, "--trainable_modules: belongs to --training_type full-finetune; a "
                       "LoRA's modules are --target_name");
    const struct { const char *flag; bool there; } lora[] = {
        { "adapter", c->adapter != VT_ADAPTER_LORA },
        { "rank_pattern", c->rank_pattern.n > 0 }, { "alpha_pattern", c->alpha_pattern.n > 0 },
        { "target_name", c->target_name }, { "lora_checkpoint", c->lora_checkpoint },
        { "rank", c->rank != 64 },
        { "network_alpha", c->network_alpha != 0 && c->network_alpha != (double)c->rank },
        { "lora_dropout", c->lora_dropout > 0 }, { "network_dropout", c->network_dropout > 0 },
        { "rank_dropout", c->rank_dropout > 0 }, { "module_dropout", c->module_dropout > 0 },
        { "rank_dropout_scale", c->rank_dropout_scale },
    };
    for (size_t i = 0; c->training_type == VTRAIN_FULL && i < sizeof lora / sizeof *lora; i++)
        if (lora[i].there)
            vc_flags_wrong(set, "--%s: belongs to --training_type lora, but this is a full "
                           "finetune%s", lora[i].flag,
                           fresh ? " of the built-in DiT: give --model"
                           : parts ? ", which --trainable_modules means: give --training_type lora "
                           "and --target_name for a LoRA" : "");
}

/* Ranks that share a sample have parts of its tokens, whose draws are counted in the whole. */
static void check_dropout(const vtrain_config *c, vc_flags *set)
{
    const char *flag = c->lora_dropout > 0 ? "lora_dropout"
                       : c->network_dropout > 0 ? "network_dropout" : NULL;
    if (c->sp > 1 && flag)
        vc_flags_wrong(set, "--%s: values are not dropped yet where ranks share the tokens of a "
                       "sample (--sp): give --rank_dropout or --module_dropout, or leave --sp out",
                       flag);
}

/* Names that vprep refuses are refused here too. */
static void check_version(const vtrain_config *c, vc_flags *set)
{
    vc_err e;
    if (c->model_version)
        vc_flags_catch(set, vc_family_version_check(c->model_version, &e), &e);
}

static void check_files(const vtrain_config *c, vc_flags *set)
{
    const struct { const char *flag, *path; } paths[] = {
        { "model", c->model }, { "transformer", c->transformer }, { "scheduler", c->scheduler },
        { "transformer_high", c->transformer_high }, { "connectors", c->connectors },
        { "unconditional_transformer", c->unconditional_transformer },
        { "lora_checkpoint", c->lora_checkpoint },
    };
    vc_err e;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (paths[i].path && !vc_file_exists(paths[i].path))
            vc_flags_catch(set, vc_hub_missing(paths[i].flag, paths[i].path, &e), &e);
    for (int i = 0; i < c->preset_lora_path.n; i++)
        if (!vc_file_exists(c->preset_lora_path.item[i]))
            vc_flags_catch(set, vc_hub_missing("preset_lora_path", c->preset_lora_path.item[i],
                                               &e), &e);
    for (int i = 0; i < c->latents.n; i++)
        if (strchr(c->latents.item[i], ',') && !vc_file_exists(c->latents.item[i]))
            vc_flags_wrong(set, "--latents %s: a comma divides nothing here: write the flag again "
                           "for each dataset, --latents A --latents B", c->latents.item[i]);
}

/* True if a part of --fp8_models, a name or a path, is of a model that vtrain does not load. */
static bool is_encoder(const char *part, size_t n)
{
    static const char *const names[] = { "text_encoder", "t5", "clip", "vae", "tokenizer",
                                         "encoder", "llm", "qwen2", "qwen_2" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (size_t k = 0; k + strlen(names[i]) <= n; k++)
            if (!strncasecmp(part + k, names[i], strlen(names[i])))
                return true;
    return false;
}

static void check_fp8(vtrain_config *c, vc_flags *set)
{
    bool transformer = false;
    size_t n;
    for (const char *s = c->fp8_models; s && *s; s += n + strspn(s + n, ", ")) {
        n = strcspn(s, ", ");
        transformer = transformer || (n && !is_encoder(s, n));
    }
    if (c->fp8_models && !transformer)
        vc_flags_say(set, "--fp8_models %s: vtrain loads no such model; the flag has no effect",
                     c->fp8_models);
    if (!transformer)
        return;
    if (c->transformer_dtype != VC_F8E4M3 && c->transformer_dtype != VC_DTYPE_NONE)
        vc_flags_wrong(set, "--fp8_models: means --transformer_dtype fp8, but --transformer_dtype "
                       "gives another type");
    c->transformer_dtype = VC_F8E4M3;
}

static void check_int8(const vtrain_config *c, vc_flags *set)
{
    if (c->int8_activations && c->training_type != VTRAIN_LORA)
        vc_flags_wrong(set, "--int8_activations: is for a LoRA, whose base is frozen; leave it out "
                       "of a full finetune");
    else if (c->int8_activations && c->transformer_dtype != VC_I8)
        vc_flags_wrong(set, "--int8_activations: multiplies weights of int8; add "
                       "--transformer_dtype int8");
}

/* As sd-scripts: files without a multiplier have 1. */
static void check_presets(const vtrain_config *c, vc_flags *set)
{
    for (int i = 0; i < c->preset_lora_multiplier.n; i++) {
        char *end;
        const char *text = c->preset_lora_multiplier.item[i];
        const double x = strtod(text, &end);
        if (!*text || *end || !isfinite(x) || x == 0)
            vc_flags_wrong(set, "--preset_lora_multiplier %s: a number other than 0 is expected, "
                           "one for each file of --preset_lora_path", text);
    }
    if (c->preset_lora_multiplier.n > c->preset_lora_path.n)
        vc_flags_wrong(set, "--preset_lora_multiplier: %d numbers, but --preset_lora_path has %d "
                       "files: give one for each", c->preset_lora_multiplier.n,
                       c->preset_lora_path.n);
}

static void check_model(vtrain_config *c, vc_flags *set, bool fresh)
{
    bool sized = c->dit_width != 192 || c->dit_layers != 4 || c->dit_heads != 3 ||
                 c->dit_patch != 2;
    if (!fresh && sized)
        vc_flags_wrong(set, "--dit_width, --dit_layers, --dit_heads and --dit_patch size a new "
                       "built-in DiT; the sizes of a --model are in its config.json");
    check_fp8(c, set);
    check_int8(c, set);
    if (fresh && c->transformer_high)
        vc_flags_wrong(set, "--transformer_high: the other transformer is missing: give it with "
                       "--transformer, or both with --model; to train the one for high noise "
                       "alone, give --transformer %s --boundary_type high", c->transformer_high);
    check_presets(c, set);
    if (c->preset_lora_path.n && fresh)
        vc_flags_wrong(set, "--preset_lora_path: there are no weights to fold it into: give "
                       "--model or --transformer");
}

static void check_skipped(const vtrain_config *c, vc_flags *set)
{
    const struct { const char *name; double value, usual; } of[] = {
        { "scale", c->skip_layer_guidance_scale, 2.8 },
        { "start", c->skip_layer_guidance_start, 0.01 },
        { "stop", c->skip_layer_guidance_stop, 0.2 },
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if (!c->skip_guidance_layers && of[i].value != of[i].usual)
            vc_flags_wrong(set, "--skip_layer_guidance_%s: give --skip_guidance_layers too, the "
                           "blocks that are left out", of[i].name);
}

static void check_memory(vtrain_config *c, vc_flags *set)
{
    vtrain_take_offload(c, set);
    if (c->gradient_checkpointing_offload && c->gradient_checkpointing == VTRAIN_REMAT_NONE)
        vc_flags_wrong(set, "--gradient_checkpointing_offload: --gradient_checkpointing says none");
    if (c->gradient_checkpointing_offload && c->gradient_checkpointing == VTRAIN_REMAT_AUTO)
        c->gradient_checkpointing = VTRAIN_REMAT_BLOCK;
    if (c->low_vram && c->blocks_to_swap)
        vc_flags_wrong(set, "--low_vram: finds the number of blocks itself: leave --blocks_to_swap "
                       "out");
    if (c->low_vram)
        vc_flags_say(set, "--low_vram: vtrain loads no encoders anyway; blocks are recomputed in "
                     "backward, and on a GPU as many of a LoRA's frozen blocks as necessary stay "
                     "on the host");
    if (c->low_vram && !vc_flags_given(set, "gradient_checkpointing"))
        c->gradient_checkpointing = VTRAIN_REMAT_BLOCK;
}

int vtrain_check(vtrain_config *c, vc_flags *set, vc_err *err)
{
    int rc = vf_origins(c->model_paths, c->model_id_with_origin_paths, take_origin, set, err);
    bool missing = rc == VC_EUSAGE;            /* a model is named, but its files are not here */
    rc = vc_flags_catch(set, rc, err);
    if (!rc)
        rc = vtrain_take_shorthand(c, set, err);
    if (rc)
        return rc;
    rc = vtrain_take_launcher(c, set, err);
    if (!rc)
        rc = vc_hub_take(set, &vtrain_program, c, err);
    if (rc)
        return rc;
    bool fresh = !c->model && !c->transformer && !missing;
    check_type(c, set, fresh);
    rc = vtrain_take_like(c, set, err);
    if (rc)
        return rc;
    check_dropout(c, set);
    vtrain_check_adapter(c, set);
    check_files(c, set);
    check_version(c, set);
    check_model(c, set, fresh);
    vtrain_check_times(c, set);
    if (c->follow && c->num_train_epochs)
        vc_flags_wrong(set, "--follow: the steps of --num_train_epochs cannot be counted while the "
                       "dataset grows: give --max_train_steps");
    rc = vtrain_take_optimiser(c, flags, set, err);
    if (rc)
        return rc;
    if (c->motion_sub_loss_ratio != 0.25 && !c->motion_sub_loss)
        vc_flags_wrong(set, "--motion_sub_loss_ratio: give --motion_sub_loss too");
    if (!c->with_audio && (c->video_loss_weight != 1 || c->audio_loss_weight != 1))
        vc_flags_wrong(set, "--%s_loss_weight: give --with_audio too",
                       c->video_loss_weight != 1 ? "video" : "audio");
    check_skipped(c, set);
    check_memory(c, set);
    if (c->report_to > REPORT_NONE) {
        vc_flags_say(set, "--report_to: vtrain writes TensorBoard event files, to tensorboard/ in "
                     "the run's folder; wandb and others can read these files");
        c->report_to = REPORT_TENSORBOARD;
    }
    vtrain_take_ranges(c, set);
    vtrain_check_distill(c, set);
    rc = vtrain_take_levels(c, set, err);
    if (rc)
        return rc;
    vtrain_take_loss(c, set);
    if (c->workers == 0)
        c->workers = 1;
    if (vc_flags_wrong_line(set, 0))
        rc = vtrain_hint_like(c, NULL, set, err);
    return rc ? rc : vc_flags_verdict(set, err);
}
