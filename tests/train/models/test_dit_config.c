/* test_dit_config.c - a wrong config.json of a built-in transformer is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/ok.h"
#include "train/models/dit.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_bad_configs) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
