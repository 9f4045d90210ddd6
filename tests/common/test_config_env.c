/* test_config_env.c - SimpleTuner's config.env: values as a shell reads them, flags of the table,
 * and lines that are refused, since nothing is run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/cli/config_env.h"
#include "tests/lib/ok.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))

/* A text, and its settings as "key=value" lines, in their order. */
static const struct { const char *text, *keys; } good[] = {
    { "", "" },
    { "# a comment\n\n   \nexport MODEL_TYPE='lora'\n", "model_type=lora\n" },
    { "MODEL_FAMILY=\"flux2\"   # \"z_image\" too\n", "model_family=flux2\n" },
    { "\texport   LEARNING_RATE=8e-7#x\r\n", "learning_rate=8e-7#x\n" },
    { "VALIDATION_PROMPT=a 'red # \"b\"'\\ c  # not this\n",
      "validation_prompt=a red # \"b\" c\n" },
    { "VALIDATION_PROMPT=\"a \\\"b\\\" \\$5 \\x\"\n", "validation_prompt=a \"b\" $5 \\x\n" },
    { "RESOLUTION=64\nMINIMUM_RESOLUTION=$RESOLUTION\nOUTPUT_DIR=\"out/${RESOLUTION}px\"\n",
      "resolution=64\nminimum_image_size=64\noutput_dir=out/64px\n" },
    { "OUTPUT_DIR='$HOME'\n", "output_dir=$HOME\n" },
    { "OUTPUT_DIR=$VLT_TEST_ENV/x\n", "output_dir=of the environment/x\n" },
    { "OUTPUT_DIR=cost$ of $5\n", "output_dir=cost$ of $5\n" },
    { "LR_SCHEDULE=constant\nLR_SCHEDULE=linear\n", "lr_scheduler=linear\n" },
    { "USE_EMA=false\nUSE_DORA=False\nLORA_TYPE=\nUSE_GRADIENT_CHECKPOINTING=True\n",
      "gradient_checkpointing=true\n" },
    { "USE_BITFIT=true\n", "layer_freeze_strategy=bitfit\n" },
    { "SDNQ_GROUP_SIZE=4\nVALIDATION_SEED=1\nMODEL_TYPE_X=1\nlearning_rate=2\n",
      "sdnq_group_size=4\nvalidation_seed=1\nenv.MODEL_TYPE_X=1\nenv.learning_rate=2\n" },
    { "TRAINER_EXTRA_ARGS=\"${TRAINER_EXTRA_ARGS} --lora_rank=4 --x  --lora_alpha 2\"\n"
      "TRAINER_EXTRA_ARGS+=\" --learning_rate -1\"\nLEARNING_RATE=3\n",
      "learning_rate=-1\nlora_rank=4\nx=true\nlora_alpha=2\n" },
    { "TRAINER_EXTRA_ARGS=\"\"\nMODEL_TYPE=full", "model_type=full\n" },
    { "A=\"\"\nA+=b\nOUTPUT_DIR=$A\n", "env.A=b\noutput_dir=b\n" },
};
/* A text, and what its error has. */
static const struct { const char *text, *says; } bad[] = {
    { "\nif true; then\n",
      "line 2: \"if true; then\" is no NAME=value: nothing of the file is run" },
    { "source x.env\n", "leave such lines out" },
    { "export MODEL_TYPE\n", "line 1: \"MODEL_TYPE\" is no NAME=value" },
    { "=x\n", "is no NAME=value" },
    { "2A=x\n", "is no NAME=value" },
    { "LR_WARMUP_STEPS=$((MAX_NUM_STEPS / 10))\n", "line 1: a command's output, or an expression: "
      "nothing of the file is run: write its value" },
    { "A=1\nOUTPUT_DIR=`rm -r x`\n", "line 2: a command's output" },
    { "OUTPUT_DIR=\"$(date)\"\n", "write its value" },
    { "OUTPUT_DIR=\"`date`\"\n", "write its value" },
    { "OUTPUT_DIR=${A:-x}\n", "line 1: of ${...} a name alone is read" },
    { "OUTPUT_DIR=${A\n", "a name alone is read" },
    { "OUTPUT_DIR=$VLT_TEST_NONE\n", "line 1: $VLT_TEST_NONE has no value, neither in a line "
      "before nor in the environment: write it" },
    { "OUTPUT_DIR=\"a\nb\"\n", "line 1: the quote \" is not closed in its line" },
    { "OUTPUT_DIR='a\n", "the quote ' is not closed" },
    { "OUTPUT_DIR=a\\\nb\n", "line 1: a value that goes on in the next line" },
    { "A=1\nTRAINER_EXTRA_ARGS='--x=1 word'\n", "line 2: TRAINER_EXTRA_ARGS: \"word\": a flag is "
      "expected" },
};

static void check_good(const char *text, const char *keys)
{
    char have[2000] = "";
    yaml_document_t doc;
    vc_err err = { 0 };
    if (vc_env_document(&doc, text, strlen(text), &err))
        fail_msg("%s: %s", text, err.text);
    const yaml_node_t *root = yaml_document_get_root_node(&doc);
    for (yaml_node_pair_t *p = root->data.mapping.pairs.start; p < root->data.mapping.pairs.top;
         p++) {
        const yaml_node_t *key = yaml_document_get_node(&doc, p->key);
        const yaml_node_t *value = yaml_document_get_node(&doc, p->value);
        size_t n = strlen(have);
        snprintf(have + n, sizeof have - n, "%s=%s\n", (const char *)key->data.scalar.value,
                 (const char *)value->data.scalar.value);
    }
    yaml_document_delete(&doc);
    if (strcmp(have, keys))
        fail_msg("%s: %s, not %s", text, have, keys);
}

static void test_good(void **state)
{
    (void)state;
    setenv("VLT_TEST_ENV", "of the environment", 1);
    unsetenv("VLT_TEST_NONE");
    for (size_t i = 0; i < COUNT(good); i++)
        check_good(good[i].text, good[i].keys);
}

static void test_bad(void **state)
{
    yaml_document_t doc;
    vc_err err = { 0 };
    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_fails(vc_env_document(&doc, bad[i].text, strlen(bad[i].text), &err), VC_EUSAGE, &err,
                     bad[i].says);
    assert_fails(vc_env_document(&doc, "A=b\0c\n", 6, &err), VC_EUSAGE, &err, "line 1: a NUL");
}

/* A long file and a long value end in an error, not in the memory of the machine. */
static void test_limits(void **state)
{
    enum { BYTES = 200000 };
    yaml_document_t doc;
    vc_err err = { 0 };
    (void)state;
    char *text = malloc(BYTES + 1);
    memset(text, 'x', BYTES);
    memcpy(text, "A=", 2);
    assert_fails(vc_env_document(&doc, text, BYTES, &err), VC_EUSAGE, &err,
                 "more than 65536 bytes");
    size_t n = 0;
    for (int i = 0; i < 1001; i++)
        n += (size_t)sprintf(text + n, "A%d=x\n", i);
    assert_fails(vc_env_document(&doc, text, n, &err), VC_EUSAGE, &err, "more than 1000 names");
    free(text);
}

static void test_names(void **state)
{
    (void)state;
    assert_true(vc_env_is("config.env") && vc_env_is("a/b.ENV") && vc_env_is(".env"));
    assert_false(vc_env_is("config.env.json") || vc_env_is("env"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good), cmocka_unit_test(test_bad), cmocka_unit_test(test_limits),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
