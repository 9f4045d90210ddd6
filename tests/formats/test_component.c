/* test_component.c - config.json of single files of FLUX.2, Z-Image, Qwen3, Mistral 3 and Gemma 3:
 * the sizes of tensors by diffusers' and by the first authors' names, and a config.json beside the
 * file, which comes before them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "formats/tensors/component.h"
#include "tests/lib/ok.h"
#include "tests/lib/tmp_dir.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))
enum { MOST = 12, LARGEST = 1 << 16 };

#define T(text, axes, ...) { .name = text, .nd = axes, .dim = { __VA_ARGS__ } }
#define FLUX2 \
    T("double_stream_modulation_img.linear.weight", 2, 16, 2), T("x_embedder.weight", 2, 256, 4), \
    T("context_embedder.weight", 2, 2, 6), T("transformer_blocks.0.attn.to_q.weight", 1, 1), \
    T("transformer_blocks.1.attn.to_q.weight", 1, 1), \
    T("single_transformer_blocks.0.attn.to_out.weight", 1, 1)
#define FLUX2_SIZES \
    "\"num_attention_heads\":2,\"in_channels\":4,\"joint_attention_dim\":6,\"num_layers\":2," \
    "\"num_single_layers\":1}"
#define ZIMAGE(embedder) \
    T("x_pad_token", 2, 1, 384), T(embedder, 2, 384, 16), T("cap_embedder.0.weight", 1, 10)
#define ZIMAGE_SIZES \
    "{\"_class_name\":\"ZImageTransformer2DModel\",\"dim\":384,\"n_heads\":3,\"n_layers\":2," \
    "\"n_refiner_layers\":1,\"in_channels\":4,\"cap_feat_dim\":10}"
#define DECODER(model) \
    T(model "embed_tokens.weight", 2, 20, 16), T(model "layers.0.mlp.gate_proj.weight", 1, 24), \
    T(model "layers.0.self_attn.q_proj.weight", 1, 256), \
    T(model "layers.1.self_attn.q_proj.weight", 1, 256), \
    T(model "layers.0.self_attn.k_proj.weight", 1, 128)
#define DECODER_SIZES \
    "\"hidden_size\":16,\"vocab_size\":20,\"intermediate_size\":24,\"num_attention_heads\":2," \
    "\"num_key_value_heads\":1,\"num_hidden_layers\":2"
#define MISTRAL \
    "{\"model_type\":\"mistral3\",\"hidden_act\":\"silu\",\"rms_norm_eps\":1e-5,\"head_dim\":128," \
    "\"rope_theta\":1000000000," DECODER_SIZES
#define MERGER "multi_modal_projector.patch_merger.merging_layer.weight"
#define LEVEL(name, a, b) \
    T("encoder.down." name ".block.0.conv1.weight", 1, a), \
    T("decoder.up." name ".block.0.conv1.weight", 1, b)

static const struct { vf_view v[MOST]; const char *config; } rows[] = {
    { { FLUX2 }, "{\"guidance_embeds\":false,\"_class_name\":\"Flux2Transformer2DModel\","
      FLUX2_SIZES },
    { { FLUX2, T("time_guidance_embed.guidance_embedder.linear_1.weight", 2, 2, 2) },
      "{\"guidance_embeds\":true,\"_class_name\":\"Flux2Transformer2DModel\"," FLUX2_SIZES },
    { { ZIMAGE("all_x_embedder.2-1.weight"), T("layers.0.attention.to_q.weight", 1, 1),
        T("layers.1.attention.to_q.weight", 1, 1),
        T("noise_refiner.0.attention.to_q.weight", 1, 1) }, ZIMAGE_SIZES },
    { { ZIMAGE("x_embedder.weight"), T("layers.0.attention.qkv.weight", 1, 3),
        T("layers.1.attention.qkv.weight", 1, 3),
        T("noise_refiner.0.attention.qkv.weight", 1, 3) }, ZIMAGE_SIZES },
    { { DECODER("model."), T("model.layers.0.self_attn.q_norm.weight", 1, 128) },
      "{\"model_type\":\"qwen3\",\"hidden_act\":\"silu\",\"rms_norm_eps\":1e-6,\"head_dim\":128,"
      "\"rope_theta\":1000000," DECODER_SIZES "}" },
    { { DECODER("model.") }, "{\"model_type\":\"llama\",\"hidden_act\":\"silu\","
      "\"rms_norm_eps\":1e-5,\"rope_theta\":500000," DECODER_SIZES "}" },
    { { DECODER("model."), T("tekken_model", 1, 9) }, MISTRAL ",\"final_norm\":false}" },
    { { DECODER("language_model.model."), T(MERGER, 2, 2, 8) }, MISTRAL "}" },
    { { DECODER("model.language_model."), T("model." MERGER, 2, 2, 8) }, MISTRAL "}" },
    { { T("single_stream_modulation.lin.weight", 2, 6, 2), T("txt_in.weight", 2, 2, 6) },
      "{\"_class_name\":\"Flux2\",\"model_type\":\"klein\",\"joint_attention_dim\":6}" },
    { { T("single_stream_modulation.lin.weight", 2, 6, 2), T("txt_in.weight", 2, 2, 9),
        T("guidance_in.in_layer.weight", 2, 2, 2) },
      "{\"_class_name\":\"Flux2\",\"model_type\":\"dev\",\"joint_attention_dim\":9}" },
    { { T("model.embed_tokens.weight", 2, 20, 16), T("model.layers.0.mlp.gate_proj.weight", 1, 24),
        T("model.layers.0.self_attn.q_proj.weight", 1, 32),
        T("model.layers.1.self_attn.q_proj.weight", 1, 32),
        T("model.layers.0.self_attn.k_proj.weight", 1, 16),
        T("model.layers.0.self_attn.q_norm.weight", 1, 8),
        T("model.layers.0.pre_feedforward_layernorm.weight", 1, 16), T("spiece_model", 1, 9) },
      "{\"model_type\":\"gemma3_text\",\"hidden_activation\":\"gelu_pytorch_tanh\","
      "\"rms_norm_eps\":1e-6,\"query_pre_attn_scalar\":256,\"sliding_window\":1024,"
      "\"rope_theta\":1000000,\"rope_local_base_freq\":10000,"
      "\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":8},\"hidden_size\":16,"
      "\"vocab_size\":20,\"intermediate_size\":24,\"head_dim\":8,\"num_attention_heads\":4,"
      "\"num_key_value_heads\":2,\"num_hidden_layers\":2}" },
    { { LEVEL("0", 4, 2), LEVEL("1", 6, 3), LEVEL("2", 8, 5), LEVEL("3", 8, 7),
        T("bn.running_mean", 1, 8), T("decoder.conv_in.weight", 2, 3, 2),
        T("encoder.down.0.block.0.norm1.weight", 1, 4) },
      "{\"norm_num_groups\":32,\"sample_size\":1024,\"_class_name\":\"AutoencoderKLFlux2\","
      "\"block_out_channels\":[4,6,8,8],\"layers_per_block\":1,\"latent_channels\":2,"
      "\"decoder_block_out_channels\":[2,3,5,7]}" },
};

static char *write_file(const char *dir, const vf_view *tensors)
{
    static const float data[LARGEST];
    vf_view v[MOST];
    vc_err err = { 0 };
    char *path = vc_path_join(dir, "x.safetensors");
    int n = 0;

    for (; n < MOST && tensors[n].name; n++) {
        v[n] = tensors[n];
        v[n].dtype = VC_F32;
        v[n].data = data;
        v[n].bytes = (size_t)vf_view_count(&v[n]) * sizeof *data;
        assert_true(v[n].bytes <= sizeof data);
    }
    assert_ok(vf_safetensors_write(path, v, n, NULL, 0, &err), &err);
    return path;
}

static void check_config(const char *path, const char *want)
{
    vc_err err = { 0 };
    cJSON *have, *o = cJSON_Parse(want);

    assert_non_null(o);
    assert_ok(vf_component_config(&have, path, NULL, NULL, &err), &err);
    if (!cJSON_Compare(have, o, true))
        fail_msg("%s is expected, not %s", want, cJSON_PrintUnformatted(have));
    cJSON_Delete(have);
    cJSON_Delete(o);
}

static void sizes(void **state)
{
    for (size_t i = 0; i < COUNT(rows); i++) {
        char *path = write_file(*state, rows[i].v);
        check_config(path, rows[i].config);
        free(path);
    }
}

/* Files with diffusers' names may be those of a folder. */
static void beside(void **state)
{
    static const char config[] = "{\"_class_name\":\"Flux2Transformer2DModel\",\"a\":1}";
    vc_err err = { 0 };
    char *path = write_file(*state, rows[0].v), *file = vc_path_join(*state, "config.json");

    assert_ok(vc_file_write(file, config, strlen(config), &err), &err);
    check_config(path, config);
    free(path);
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sizes, tmp_dir_setup, tmp_dir_teardown),
        cmocka_unit_test_setup_teardown(beside, tmp_dir_setup, tmp_dir_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
