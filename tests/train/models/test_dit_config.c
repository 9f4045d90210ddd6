/* test_dit_config.c - a wrong config.json of a built-in transformer is refused; the names that
 * formats/models/transformers.h has of a class are those of its models' weights, no fewer and no
 * more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "formats/models/transformers.h"
#include "formats/models/parts.h"
#include "tests/lib/ok.h"
#include "train/families/families.h"
#include "train/models/dit.h"
#include "train/lora/names.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))

static cJSON *config_of(const char *text)
{
    cJSON *o;
    vc_err err = { 0 };
    assert_ok(vf_json_parse(&o, text, strlen(text), &err), &err);
    return o;
}

static const struct { const char *text, *says; } bad_configs[] = {
    { "{}", "in_channels" },
    { "{\"in_channels\":0}", "in_channels" },
    { "{\"in_channels\":2,\"patch_size\":2,\"num_layers\":1000000}", "num_layers" },
    { "{\"in_channels\":2,\"patch_size\":2,\"num_layers\":2,\"num_attention_heads\":2,"
      "\"attention_head_dim\":12,\"text_embed_dim\":6,\"rope_theta\":100}", "multiple of 8" },
    { "{\"in_channels\":2,\"patch_size\":2,\"num_layers\":2,\"num_attention_heads\":256,"
      "\"attention_head_dim\":256,\"text_embed_dim\":6,\"rope_theta\":100}", "at most" },
    { "{\"in_channels\":2,\"patch_size\":2,\"num_layers\":2,\"num_attention_heads\":2,"
      "\"attention_head_dim\":8,\"text_embed_dim\":6,\"rope_theta\":0}", "rope_theta" },
};

static void test_bad_configs(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(bad_configs); i++) {
        void *model;
        vc_err err = { 0 };
        cJSON *config = config_of(bad_configs[i].text);
        const vt_source src = { 0 };
        assert_true(vtrain_dit_open(&model, &vtrain_builtin, config, NULL, &src, &err) < 0);
        assert_null(model);
        assert_says(&err, bad_configs[i].says);
        cJSON_Delete(config);
    }
}

/* ---- names ---- */

/* Small models that together have all weights of their class. */
#define HEADS "\"num_attention_heads\":1,\"attention_head_dim\":"
#define COG HEADS "16,\"num_layers\":1,\"text_embed_dim\":8,\"time_embed_dim\":8," \
    "\"sample_height\":4,\"sample_width\":4,\"sample_frames\":1," \
    "\"use_rotary_positional_embeddings\":true"
static const struct { const char *class, *config; } models[] = {
    { "CogVideoXTransformer3DModel", "{" COG ",\"use_learned_positional_embeddings\":true}" },
    { "CogVideoXTransformer3DModel", "{" COG ",\"patch_size_t\":2,\"ofs_embed_dim\":8}" },
    { "HunyuanVideoTransformer3DModel", "{" HEADS "8,\"num_layers\":1,\"num_single_layers\":1,"
      "\"num_refiner_layers\":1,\"text_embed_dim\":8,\"pooled_projection_dim\":8,"
      "\"rope_axes_dim\":[4,2,2]}" },
    { "HunyuanVideo15Transformer3DModel", "{" HEADS "8,\"num_layers\":1,"
      "\"num_refiner_layers\":1,\"text_embed_dim\":8,\"text_embed_2_dim\":8,"
      "\"image_embed_dim\":8,\"rope_axes_dim\":[4,2,2],\"use_meanflow\":true}" },
    { "LTXVideoTransformer3DModel", "{" HEADS "8,\"num_layers\":1,\"cross_attention_dim\":8,"
      "\"caption_channels\":8}" },
    { "WanTransformer3DModel", "{" HEADS "8,\"num_layers\":1,\"ffn_dim\":8,\"in_channels\":36,"
      "\"text_dim\":8,\"image_dim\":8,\"added_kv_proj_dim\":8,\"pos_embed_seq_len\":2}" },
    { "SkyReelsV2Transformer3DModel", "{" HEADS "8,\"num_layers\":1,\"ffn_dim\":8,"
      "\"in_channels\":36,\"text_dim\":8,\"image_dim\":8,\"added_kv_proj_dim\":8,"
      "\"pos_embed_seq_len\":2,\"inject_sample_info\":true}" },
    { "WanVACETransformer3DModel", "{" HEADS "8,\"num_layers\":1,\"ffn_dim\":8,\"text_dim\":8,"
      "\"vace_layers\":[0]}" },
    { "QwenImageTransformer2DModel", "{" HEADS "8,\"num_layers\":1,\"joint_attention_dim\":8,"
      "\"axes_dims_rope\":[4,2,2]}" },
    { "ZImageTransformer2DModel", "{\"dim\":8,\"n_heads\":1,\"n_kv_heads\":1,\"n_layers\":1,"
      "\"n_refiner_layers\":1,\"cap_feat_dim\":8,\"axes_dims\":[4,2,2]}" },
    { "Ideogram4Transformer2DModel", "{" HEADS "8,\"num_layers\":1,\"intermediate_size\":8,"
      "\"adaln_dim\":8,\"llm_features_dim\":8,\"mrope_section\":[2,1,1]}" },
    { "Krea2Transformer2DModel", "{" HEADS "8,\"num_layers\":1,\"num_key_value_heads\":1,"
      "\"intermediate_size\":8,\"text_hidden_dim\":8,\"num_text_layers\":1,"
      "\"text_num_attention_heads\":1,\"text_num_key_value_heads\":1,"
      "\"text_intermediate_size\":8,\"num_layerwise_text_blocks\":1,"
      "\"num_refiner_text_blocks\":1,\"axes_dims_rope\":[4,2,2]}" },
    { "ErnieImageTransformer2DModel", "{\"hidden_size\":8,\"num_attention_heads\":1,"
      "\"num_layers\":1,\"ffn_hidden_size\":8,\"text_in_dim\":16,"
      "\"rope_axes_dim\":[4,2,2]}" },
    { "Kandinsky5Transformer3DModel", "{\"in_text_dim\":8,\"in_text_dim2\":8,\"time_dim\":8,"
      "\"model_dim\":8,\"ff_dim\":8,\"num_text_blocks\":1,\"num_visual_blocks\":1,"
      "\"axes_dims\":[4,2,2]}" },
    { "CosmosTransformer3DModel", "{" HEADS "16,\"num_layers\":1,\"text_embed_dim\":8,"
      "\"adaln_lora_dim\":8,\"max_size\":[2,4,4],\"rope_scale\":[1,4,4]}" },
    { "Flux2Transformer2DModel", "{" HEADS "8,\"num_layers\":1,\"num_single_layers\":1,"
      "\"joint_attention_dim\":8,\"axes_dims_rope\":[2,2,2,2]}" },
    { "ChromaTransformer2DModel", "{" HEADS "8,\"num_layers\":1,\"num_single_layers\":1,"
      "\"joint_attention_dim\":8,\"approximator_hidden_dim\":8,\"axes_dims_rope\":[4,2,2]}" },
    { "SD3Transformer2DModel", "{" HEADS "8,\"num_layers\":2,\"caption_projection_dim\":8,"
      "\"joint_attention_dim\":8,\"pooled_projection_dim\":8,\"pos_embed_max_size\":2,"
      "\"qk_norm\":\"rms_norm\",\"dual_attention_layers\":[0]}" },
    { "FluxTransformer2DModel", "{" HEADS "8,\"num_layers\":1,\"num_single_layers\":1,"
      "\"joint_attention_dim\":8,\"pooled_projection_dim\":8,\"guidance_embeds\":true,"
      "\"axes_dims_rope\":[4,2,2]}" },
};

/* In files alone: the model does not use these. */
static const char *const spare[] = { "blocks.0.attn2.norm_added_q", "__index_timestep_zero__" };
/* Modules whose names the first authors and diffusers share, so that no row renames them. */
static const struct { const char *class, *name; } shared[] = {
    { "WanModel", "patch_embedding" }, { "SkyReelsV2Model", "patch_embedding" },
    { "SkyReelsV2Model", "fps_embedding" }, { "VaceWanModel", "patch_embedding" },
    { "VaceWanModel", "vace_patch_embedding" },
};

typedef struct names {
    char *name[512];                         /* with 0 for each number, without .weight and .bias */
    int n;
} names;

static void add_name(names *to, const char *name)
{
    const size_t n = strlen(name);
    size_t end = n;
    if (n > 7 && !strcmp(name + n - 7, ".weight"))
        end = n - 7;
    else if (n > 5 && !strcmp(name + n - 5, ".bias"))
        end = n - 5;
    char *copy = strndup(name, end);
    assert_non_null(copy);
    for (char *c = strchr(copy, '#'); c; c = strchr(c, '#'))
        *c = '0';
    assert_true((size_t)to->n < COUNT(to->name));
    to->name[to->n++] = copy;
}

static bool has_name(const names *in, const char *name)
{
    int i = 0;
    while (i < in->n && strcmp(in->name[i], name))
        i++;
    return i < in->n;
}

static void free_names(names *of)
{
    for (int i = 0; i < of->n; i++)
        free(of->name[i]);
    of->n = 0;
}

/* Adds the names that a pattern of the table describes. */
static void expand(names *to, const char *begin, const char *pattern)
{
    const char *open = strchr(pattern, '{'), *close = open ? strchr(open, '}') : NULL;
    if (!open) {
        char *name = vc_format("%s%s", begin, pattern);
        add_name(to, name);
        free(name);
        return;
    }
    for (const char *word = open + 1; word < close; word += strcspn(word, ",}") + 1) {
        char *more = vc_format("%s%.*s%.*s", begin, (int)(open - pattern), pattern,
                               (int)strcspn(word, ",}"), word);
        expand(to, more, close + 1);
        free(more);
    }
}

static void add_weights(names *to, const vtrain_family *f, const char *text)
{
    vt_ctx *g;
    vt_params *p;
    void *model;
    vc_err err = { 0 };
    cJSON *config = config_of(text);
    assert_ok(vt_open(&g, &(vt_options){ .threads = 1 }, &err), &err);
    assert_ok(vt_params_open(&p, g, &err), &err);
    assert_ok(vtrain_dit_open(&model, f, config, p, &(vt_source){ 0 }, &err), &err);
    for (int i = 0; i < vt_params_count(p); i++)
        add_name(to, vt_params_at(p, i)->name);
    vtrain_dit_close(model);
    vt_params_close(p);
    vt_close(g);
    cJSON_Delete(config);
}

/* The class's own weights, or those that its files of first authors have. */
static void weights_of(names *to, const char *class)
{
    const vtrain_family *f = vtrain_family_of_class(class);
    assert_non_null(f);
    for (size_t i = 0; i < COUNT(models); i++)
        if (!strcmp(models[i].class, class))
            add_weights(to, f, models[i].config);
    const bool first = !to->n;
    const vtrain_rename *rows[] = { f->first_names ? f->first_names : f->lora_names,
                                    f->packed_names };
    for (size_t i = 0; first && i < COUNT(rows); i++)
        for (const vtrain_rename *r = rows[i]; r && r->theirs; r++)
            add_name(to, r->theirs);
    for (size_t i = 0; i < COUNT(shared); i++)
        if (!strcmp(class, shared[i].class))
            add_name(to, shared[i].name);
}

static bool is_spare(const char *name)
{
    for (size_t i = 0; i < sizeof spare / sizeof *spare; i++)
        if (!strcmp(name, spare[i]))
            return true;
    return false;
}

static void test_names(void **state)
{
    (void)state;
    for (const vf_transformer_kind *k = vf_transformer_kinds; k->class; k++) {
        names weights = { .n = 0 }, known = { .n = 0 };
        if (!k->names)
            continue;
        weights_of(&weights, k->class);
        assert_true(weights.n > 0);
        for (const char *const *p = k->names; *p; p++)
            expand(&known, "", *p);
        for (int i = 0; i < weights.n; i++)
            if (!vf_transformer_has(k->class, weights.name[i]))
                fail_msg("%s: %s is refused", k->class, weights.name[i]);
        for (int i = 0; i < known.n; i++)
            if (!has_name(&weights, known.name[i]) && !is_spare(known.name[i]))
                fail_msg("%s: no model has %s", k->class, known.name[i]);
        free_names(&weights);
        free_names(&known);
    }
    assert_true(vf_transformer_has("WanModel", "blocks.12.self_attn.q.bias"));
    assert_false(vf_transformer_has("WanModel", "blocks.x.self_attn.q.bias"));
    assert_false(vf_transformer_has("WanModel", "blocks.1.self_attn.q.weights"));
    assert_false(vf_transformer_has("WanModel", "blocks.1.self_attn."));
    assert_false(vf_transformer_has("NoModel", "blocks.1.self_attn.q.bias"));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_bad_configs),
                                        cmocka_unit_test(test_names) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
