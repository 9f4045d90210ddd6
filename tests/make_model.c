/* make_model.c - a tiny CogVideoX folder from the goldens' models, for tests of programs:
 * `make_model DIR PIPELINE CHANNELS` with the pipeline's class and the transformer's in_channels. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "tests/golden.h"

static const char *root, *pipeline, *channels;

static void put(const char *name, const char *text)
{
    char *path = vc_path_join(root, name);
    vc_err err;
    if (vc_file_write(path, text, strlen(text), &err))
        fail_msg("%s", err.text);
    free(path);
}

static void component(const char *name, const char *golden)
{
    char *dir = vc_path_join(root, name);
    vf_safetensors *f = golden_open(golden);
    golden_model(f, dir, VC_F32);
    vf_safetensors_close(f);
    free(dir);
}

/* Letters, and 64 pieces in all as the tiny T5 has. */
static void tokenizer(void)
{
    char text[4096];
    int n = snprintf(text, sizeof text, "{\"version\":\"1.0\",\"model\":{\"type\":\"Unigram\",\"unk_id\":2,"
                     "\"vocab\":[[\"<pad>\",0],[\"</s>\",0],[\"<unk>\",0]");
    for (int i = 0; i < 26; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, ",[\"%c\",-%d.5]", 'a' + i, 3 + i);
    snprintf(text + n, sizeof text - (size_t)n, "]},\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":["
             "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},{\"SpecialToken\":{\"id\":\"</s>\",\"type_id\":0}}],"
             "\"pair\":[],\"special_tokens\":{\"</s>\":{\"id\":\"</s>\",\"ids\":[1],\"tokens\":[\"</s>\"]}}}}");
    put("tokenizer/tokenizer.json", text);
    put("tokenizer/tokenizer_config.json", "{\"pad_token\":\"<pad>\",\"eos_token\":\"</s>\"}");
}

static void make(void **state)
{
    char *text = vc_format("%s/tokenizer", root), *transformer = vc_format("%s/transformer", root);
    vc_err err;

    (void)state;
    assert_int_equal(vc_mkdirs(text, &err), 0);
    assert_int_equal(vc_mkdirs(transformer, &err), 0);
    free(text);
    free(transformer);
    component("vae", "vae_cogvideox");
    component("text_encoder", "t5");
    tokenizer();
    text = vc_format("{\"_class_name\":\"%s\"}", pipeline);
    put("model_index.json", text);
    free(text);
    text = vc_format("{\"_class_name\":\"CogVideoXTransformer3DModel\",\"max_text_seq_length\":12,"
                     "\"in_channels\":%s,\"patch_size_t\":null,\"add_noise_in_inpaint_model\":true}", channels);
    put("transformer/config.json", text);
    free(text);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(make) };

    if (argc != 4) {
        fprintf(stderr, "usage: make_model DIR PIPELINE CHANNELS\n");
        return 2;
    }
    root = argv[1];
    pipeline = argv[2];
    channels = argv[3];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
