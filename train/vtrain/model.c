/* model.c - see model.h */
#include "train/vtrain/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/models/transformers.h"
#include "train/families/families.h"
#include "train/models/controlnet.h"
#include "train/models/weights.h"
#include "train/setup/experts.h"
#include "train/setup/load.h"

/* Takes the family of the transformer's class, with the layers of --ssm_layer if there are any. */
static int find_family(vtrain *t, const char *class_name, vc_err *err)
{
    const vtrain_config *c = &t->cfg;
    const char *path = vtrain_weights_path(t->model.weights);
    t->model.family = vtrain_family_of_class(class_name);
    if (!t->model.family)
        return vc_context(err, vf_transformer_refuse_class(class_name, err), "--%s: %s",
                          c->transformer ? "transformer" : "model", path);
    const vtrain_family *sound = vtrain_family_with_sound(t->model.family);
    if (c->with_audio && !sound)
        return vc_fail(err, VC_EUSAGE, "--with_audio: %s is a %s, which has no sound", path,
                       class_name);
    if (c->with_audio)
        t->model.family = sound;
    const vtrain_family *with = vtrain_family_with_ssm(t->model.family);
    if (c->ssm_layer && with)
        t->model.family = with;
    const struct { const char *flag; bool given; } flags[] = {
        { "ssm_layer", c->ssm_layer }, { "mini_batch_size", c->mini_batch_size },
        { "scan_checkpoint_group_size", c->scan_checkpoint_group_size },
        { "ttt_base_lr", c->ttt_base_lr > 0 }, { "ttt_eta_compat", c->ttt_eta_compat },
        { "adapter_method", c->adapter_method },
    };
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (flags[i].given && !t->model.family->ssm)
            return vc_fail(err, VC_EUSAGE, "--%s: %s is a %s, which has no TTT layers%s",
                           flags[i].flag, path, class_name,
                           with ? ": --ssm_layer adds them" : "");
    if (t->model.family->ssm && c->training_type == VTRAIN_LORA)
        return vc_fail(err, VC_EUSAGE, "--training_type lora: a LoRA trains no TTT layers: give "
                       "full-finetune with --adapter_method qkvo, which freezes most of the model");
    return 0;
}

static int open_ssm(vtrain *t, vc_err *err)
{
    const vtrain_config *c = &t->cfg;
    const vtrain_ssm want = { .layer = c->ssm_layer, .mini_batch = c->mini_batch_size,
                              .group = c->scan_checkpoint_group_size, .base_lr = c->ttt_base_lr,
                              .eta_compat = c->ttt_eta_compat };
    return t->model.family->ssm ? t->model.family->ssm(t->model.config, &want, err) : 0;
}

/* Whether the dataset's conditions are masked pictures: a new ControlNet is then for inpainting. */
static bool is_masked(const vtrain *t)
{
    return vtrain_data_mode(t->data) == VC_MODE_INPAINT;
}

/* Opens --controlnet, and lets the transformer have it beside itself. */
static int open_copied(vtrain *t, vc_err *err)
{
    const vtrain_config *c = &t->cfg;
    const vtrain_family *of = t->model.family->copied;
    if (!of)
        return vc_fail(err, VC_EUSAGE, "--controlnet: a ControlNet of copied blocks belongs to "
                       "FLUX.1 or Qwen-Image, and this is a %s: leave the flag out",
                       t->model.family->class_name);
    int rc = vtrain_controlnet_open(&t->model.controlnet, "controlnet", c->controlnet, err);
    const vtrain_controlnet_new new = {
        .blocks = { c->num_double_layers, c->num_single_layers }, .masked = is_masked(t),
        .kinds = c->num_mode,
    };
    return rc ? rc : vtrain_controlnet_copies(t->model.controlnet, t->model.config, of, &new, err);
}

/* Opens --blockwise_controlnet or --controlnet, and lets the transformer have it. */
static int open_controlnet(vtrain *t, vc_err *err)
{
    const char *path = t->cfg.blockwise_controlnet, *field = t->model.family->controlnet;
    if (t->cfg.controlnet)
        return open_copied(t, err);
    if (!path)
        return 0;
    if (!field)
        return vc_fail(err, VC_EUSAGE, "--blockwise_controlnet: a blockwise ControlNet belongs to "
                       "Qwen-Image, and this is a %s: leave the flag out",
                       t->model.family->class_name);
    int rc = vtrain_controlnet_open(&t->model.controlnet, "blockwise_controlnet", path, err);
    return rc ? rc : vtrain_controlnet_blockwise(t->model.controlnet, t->model.config, field,
                                                 is_masked(t), err);
}

/* Opens the weights of the transformer, or of one of two. */
static int open_weights(vtrain_weights **out, const vtrain *t, bool low, vc_err *err)
{
    const vtrain_config *c = &t->cfg;
    const char *half = t->model.boundary > 0 ? t->model.half[low] : c->transformer;
    vc_dtype held = c->training_type == VTRAIN_LORA ? c->transformer_dtype : VC_DTYPE_NONE;
    const char *name = low ? "transformer_2" : "transformer";
    int rc = vtrain_weights_open(out, c->model, name, half, held, err);
    for (int i = 0; !rc && i < c->preset_lora_path.n; i++) {
        const char *by = i < c->preset_lora_multiplier.n ? c->preset_lora_multiplier.item[i] : "1";
        char *path = vtrain_half_lora(t, c->preset_lora_path.item[i], low);
        rc = path ? vtrain_weights_fold(*out, path, strtod(by, NULL), name, err)
                  : vc_no_memory(err);
        free(path);
    }
    return rc;
}

/* Takes the names of the second transformer's tensors, and checks that it differs from the first in
 * its weights alone. */
static int check_low(const vtrain_model *m, vc_err *err)
{
    const cJSON *field, *other, *low;
    int rc = vtrain_weights_family(m->low_weights, m->family, err);
    if (rc)
        return rc;
    low = vtrain_weights_config(m->low_weights);          /* which the family's names may replace */
    cJSON_ArrayForEach(field, vtrain_weights_config(m->weights)) {
        other = cJSON_GetObjectItemCaseSensitive(low, field->string);
        if (field->string[0] != '_' && other && !cJSON_Compare(field, other, true))
            return vc_fail(err, VC_EMISMATCH, "%s and %s: their config.json have another %s: two "
                           "transformers of one model differ in their weights alone",
                           vtrain_weights_path(m->weights), vtrain_weights_path(m->low_weights),
                           field->string);
    }
    return 0;
}

int vtrain_open_config(vtrain *t, vc_err *err)
{
    const vtrain_config *c = &t->cfg;
    if (!c->model && !c->transformer) {
        t->model.family = vtrain_family_fresh();
        if (t->from.dir)
            vc_say(t->ui, "the built-in DiT of %s is trained further", t->from.dir);
        else
            vc_say(t->ui, "a new built-in DiT is trained from noise");
        return t->model.family->fresh(&t->model.config, &(vtrain_fresh){
            .channels = vtrain_data_norm(t->data)->channels,
            .text_width = vtrain_data_slot(t->data, 0)->width,
            .width = c->dit_width, .layers = c->dit_layers, .heads = c->dit_heads,
            .patch = c->dit_patch, .guidance = c->dit_guidance_embeds,
            .objective = c->objective == 1 + VTRAIN_V ? VTRAIN_V : VTRAIN_FLOW }, err);
    }
    const char *class_name;
    bool lora = c->training_type == VTRAIN_LORA;
    if (!lora && c->transformer_dtype != VC_DTYPE_NONE)
        vc_say(t->ui, "--transformer_dtype: has no effect: a full finetune begins with the file's "
               "values and trains them in f32");
    int rc = open_weights(&t->model.weights, t, c->boundary_type == VTRAIN_SIDE_LOW, err);
    if (!rc && vtrain_both(t))
        rc = open_weights(&t->model.low_weights, t, true, err);
    if (rc)
        return rc;
    for (int i = 0; i < c->preset_lora_path.n && !vtrain_both(t); i++)
        if (vtrain_weights_note(t->model.weights, i))
            vc_say(t->ui, "--preset_lora_path: %s", vtrain_weights_note(t->model.weights, i));
    const cJSON *config = vtrain_weights_config(t->model.weights);
    rc = vf_json_str(config, "_class_name", &class_name, err);
    if (rc)
        return vc_context(err, rc, "%s/config.json", vtrain_weights_path(t->model.weights));
    rc = find_family(t, class_name, err);
    if (!rc)
        rc = vtrain_weights_family(t->model.weights, t->model.family, err);
    if (!rc && t->model.low_weights)
        rc = check_low(&t->model, err);
    if (rc)
        return rc;
    t->model.config = cJSON_Duplicate(vtrain_weights_config(t->model.weights), true);
    if (!t->model.config)
        return vc_no_memory(err);
    rc = vtrain_settle_zero_cond(t, err);
    if (!rc)
        rc = open_controlnet(t, err);
    if (!rc)
        rc = open_ssm(t, err);
    return rc ? rc : vtrain_weights_pipeline(&t->model.pipeline, t->model.config, t->model.family,
                                             c->model, err);
}

/* Takes the family's schedule where the model's file is none of its levels', and reports the shift
 * where there is no file. */
static void default_schedule(vtrain *t)
{
    const vtrain_by_tokens *b = &t->model.scheduler.by_tokens;
    char shift[96];
    t->model.scheduler.shift = t->model.family->flow_shift;
    if (t->model.family->schedule)
        t->model.family->schedule(t->model.config, &t->model.scheduler);
    if (b->on)
        snprintf(shift, sizeof shift, "by tokens, e^%.4g at %lld and e^%.4g at %lld", b->base,
                 (long long)b->base_len, b->max, (long long)b->max_len);
    else
        snprintf(shift, sizeof shift, "%g", t->model.scheduler.shift);
    if (t->model.weights && t->cfg.flow_shift == 0 && !t->model.scheduler.path)
        vc_say(t->ui, "no scheduler/scheduler_config.json below --model: noise levels have the "
               "shift that %s was trained with (%s): give --scheduler or --flow_shift for another",
               vtrain_family_name(t->model.family), shift);
}

/* Reads the scheduler's file, which records the noise schedule that the model was trained with.
 * Without the file a v-prediction model may have had another schedule: this is a warning. */
static int open_scheduler(vtrain *t, vc_err *err)
{
    const vtrain_config *c = &t->cfg;
    int rc = vtrain_scheduler_read(&t->model.scheduler, c->model, c->scheduler, err);
    if (!rc)
        rc = vtrain_scheduler_check(&t->model.scheduler, t->model.pipeline, err);
    if (rc)
        return vc_context(err, rc, c->scheduler ? "--scheduler" : "--model");
    if (!t->model.scheduler.path && t->model.family->objective == VTRAIN_V)
        vc_warn(t->ui, "no scheduler/scheduler_config.json below --model: the noise schedule has "
                "zero terminal SNR and snr_shift_scale 1 (CogVideoX-2B needs 3): give --scheduler "
                "if the model was trained with another");
    const bool own = t->model.family->own_levels && !c->scheduler;
    if ((own || !t->model.scheduler.path) && t->model.family->objective == VTRAIN_FLOW)
        default_schedule(t);
    return 0;
}

/* Takes the objective of a built-in model from its config.json, where the first run recorded the
 * prediction type; another --objective is an error. */
static int check_objective(vtrain *t, vc_err *err)
{
    const char *kind = NULL;
    int rc = vf_json_str_opt(t->model.config, "prediction_type", &kind, err);
    if (rc || !kind || !t->model.family->fresh)
        return rc;
    int objective = 1 + (strcmp(kind, "v") ? VTRAIN_FLOW : VTRAIN_V);
    if (t->cfg.objective && t->cfg.objective != objective)
        return vc_fail(err, VC_EUSAGE, "--objective: this transformer predicts \"%s\" "
                       "(prediction_type in its config.json)", kind);
    t->cfg.objective = objective;
    return 0;
}

int vtrain_open_schedule(vtrain *t, vc_err *err)
{
    int rc = open_scheduler(t, err);
    return rc ? rc : check_objective(t, err);
}
