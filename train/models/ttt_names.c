/* ttt_names.c - see ttt.h */
#include "train/models/ttt.h"

#include "formats/json/config.h"

#define BLOCK "transformer_blocks.#."
#define LAYER "dit.layers.#."
#define SEQ LAYER "seq_modeling_block."

const vtrain_rename ttt_names[] = {
    { "patch_embed.proj", .ours = { "dit.patch_embedding.vid_proj" } },
    { "patch_embed.text_proj", .ours = { "dit.patch_embedding.text_proj" } },
    { "time_embedding.linear_1", .ours = { "dit.time_embed.0" } },
    { "time_embedding.linear_2", .ours = { "dit.time_embed.2" } },
    { "norm_final", .ours = { "dit.transformer_norm" } },
    { "norm_out.linear", .ours = { "dit.final_layer.adaLN_modulation.1" } },
    { "norm_out.norm", .ours = { "dit.final_layer.norm" } },
    { "proj_out", .ours = { "dit.final_layer.linear" } },
    { BLOCK "norm1.linear", .ours = { LAYER "pre_seq_adaLN_modulation.1" } },
    { BLOCK "norm1.norm", .ours = { LAYER "pre_seq_layernorm" } },
    { BLOCK "attn1.norm_q", .ours = { SEQ "q_norm" } },
    { BLOCK "attn1.norm_k", .ours = { SEQ "k_norm" } },
    { BLOCK "attn1.to_q", .ours = { SEQ "q" } },
    { BLOCK "attn1.to_k", .ours = { SEQ "k" } },
    { BLOCK "attn1.to_v", .ours = { SEQ "v" } },
    { BLOCK "attn1.to_out.0", .ours = { SEQ "o" } },
    { BLOCK "norm2.linear", .ours = { LAYER "pre_mlp_adaLN_modulation.1" } },
    { BLOCK "norm2.norm", .ours = { LAYER "pre_mlp_layernorm" } },
    { BLOCK "ff.net.0.proj", .ours = { LAYER "mlp.layer1" } },
    { BLOCK "ff.net.2", .ours = { LAYER "mlp.layer2" } },
    { 0 }
};

static const char *const layers[] = { [TTT_LINEAR] = "ttt_linear", [TTT_MLP] = "ttt_mlp" };
/* The values that the released models were trained with. */
static const struct { double base_lr; int64_t mini_batch; } usual[] = {
    [TTT_LINEAR] = { 1.0, 16 }, [TTT_MLP] = { 0.1, 64 },
};

static const vf_config_row rows[] = {
    VF_WORD(ttt_config, layer, "ssm_layer", "ttt_mlp", "ttt_linear|ttt_mlp"),
    VF_INT(ttt_config, mini_batch, "mini_batch_size", 0, 1, 4096),
    VF_INT(ttt_config, group, "scan_checkpoint_group_size", 16, 0, 65536),
    VF_NUM(ttt_config, base_lr, "ttt_base_lr", 0, VF_ABOVE_0, 1e6),
    VF_FLAG(ttt_config, compat, "ttt_eta_compat", false),
    { 0 }
};

int ttt_config_read(ttt_config *c, const cJSON *o, vc_err *err)
{
    int rc = vf_config_read(c, rows, o, err);
    if (rc)
        return rc;
    if (!c->mini_batch)
        c->mini_batch = usual[c->layer].mini_batch;
    if (c->base_lr == 0)
        c->base_lr = usual[c->layer].base_lr;
    return 0;
}

/* Sets a field of o to x, which is consumed. */
static bool put(cJSON *o, const char *name, cJSON *x)
{
    cJSON_DeleteItemFromObject(o, name);
    return x && cJSON_AddItemToObject(o, name, x);
}

/* All settings are written, also those that are the usual ones, so that a checkpoint says what it
 * was trained with. */
int ttt_config_set(cJSON *config, const vtrain_ssm *want, vc_err *err)
{
    ttt_config c = { 0 };
    bool named = cJSON_HasObjectItem(config, "ssm_layer"), ok = true;
    if (!named && want->layer)
        ok = put(config, "ssm_layer", cJSON_CreateString(layers[want->layer - 1]));
    int rc = ok ? ttt_config_read(&c, config, err) : vc_no_memory(err);
    if (rc)
        return rc;
    if (want->layer && want->layer - 1 != c.layer)
        return vc_fail(err, VC_EUSAGE, "--ssm_layer: %s, but the transformer has %s layers "
                       "(ssm_layer in its config.json): leave the flag out, or begin with a "
                       "CogVideoX transformer", layers[want->layer - 1], layers[c.layer]);
    const struct { const char *name; double value, given; } numbers[] = {
        { "mini_batch_size", (double)c.mini_batch, (double)want->mini_batch },
        { "scan_checkpoint_group_size", (double)c.group, (double)want->group },
        { "ttt_base_lr", c.base_lr, want->base_lr },
    };
    for (size_t i = 0; ok && i < sizeof numbers / sizeof *numbers; i++)
        ok = put(config, numbers[i].name, cJSON_CreateNumber(numbers[i].given > 0
                                                             ? numbers[i].given
                                                             : numbers[i].value));
    ok = ok && put(config, "ssm_layer", cJSON_CreateString(layers[c.layer])) &&
         put(config, "ttt_eta_compat", cJSON_CreateBool(c.compat || want->eta_compat));
    return ok ? 0 : vc_no_memory(err);
}

int ttt_convert(cJSON **config, const cJSON *theirs, const vt_source *src, vc_err *err)
{
    (void)src;
    cJSON *o = *config = cJSON_Duplicate(theirs, true);
    /* CogVideoX has 1e-5 in all norms but those of queries and keys. */
    bool ok = o && put(o, "_class_name", cJSON_CreateString(TTT_CLASS)) &&
              put(o, "norm_eps", cJSON_CreateNumber(1e-6));
    if (ok)
        return 0;
    cJSON_Delete(o);
    *config = NULL;
    return vc_no_memory(err);
}
