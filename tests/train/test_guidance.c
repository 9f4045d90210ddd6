/* test_guidance.c - whole runs of a built-in transformer with guidance as an input, and the frame
 * rates that its forward gets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "formats/tensors/safetensors.h"
#include "tests/lib/ok.h"
#include "tests/lib/train_dataset.h"
#include "tests/lib/train_run.h"

#define TINY "--dit_width 32 --dit_layers 1 --dit_heads 2 --max_train_steps 2 "
#define GUIDED TINY "--dit_guidance_embeds "

static void check_trace(const char *dir, float guidance)
{
    char *path = vc_format("%s/trace/step-000001-mb-00-rank-00.safetensors", dir);
    vf_safetensors *f;
    vf_view g, fps, grad;
    vc_err err = { 0 };
    assert_ok(vf_safetensors_open(&f, path, &err) ||
              vf_safetensors_get(f, "guidance", &g, &err) ||
              vf_safetensors_get(f, "fps", &fps, &err) ||
              vf_safetensors_get(f, "grad/guidance_embed.linear_1.weight", &grad, &err), &err);
    assert_true(g.nd == 1 && g.dim[0] == 2 && fps.nd == 1 && fps.dim[0] == 2);
    for (int row = 0; row < 2; row++) {
        float rate = ((const float *)fps.data)[row];
        assert_true(((const float *)g.data)[row] == guidance);
        assert_true(rate >= (float)toy_fps(0) && rate <= (float)toy_fps(5));
    }
    vf_safetensors_close(f);
    free(path);
}

/* Training, a resumed run and samples use the guidance of the run's flags. */
static void test_run(void **state)
{
    const char *dir = *state;
    char *args = vc_format(GUIDED "--embedded_guidance 3 --trace_dir %s/trace "
                           "--validation_steps 2 --num_inference_steps 2 --guidance_scale 4", dir);
    run_ok(dir, "one", args);
    free(args);
    check_trace(dir, 3);
    char *config = vc_format("%s/one/checkpoint-2/transformer/config.json", dir), *text;
    size_t size;
    vc_err err = { 0 };
    assert_ok(vc_file_read(&text, &size, config, 4096, &err), &err);
    assert_non_null(strstr(text, "guidance_embeds"));
    free(text);
    free(config);

    run_ok(dir, "other", GUIDED "--embedded_guidance 3 --validation_steps 2 "
                         "--num_inference_steps 2 --guidance_scale 1");
    assert_true(run_same_file(dir, "one/checkpoint-2/optimizer.safetensors",
                              "other/checkpoint-2/optimizer.safetensors"));
    assert_false(run_same_file(dir, "one/validation/step-2/000.safetensors",
                               "other/validation/step-2/000.safetensors"));

    run_ok(dir, "whole", GUIDED "--embedded_guidance 3 --max_train_steps 4");
    run_ok(dir, "one", GUIDED "--embedded_guidance 3 --max_train_steps 4 "
                       "--resume_from_checkpoint latest");
    assert_true(run_same_file(dir, "one/checkpoint-4/optimizer.safetensors",
                              "whole/checkpoint-4/optimizer.safetensors"));

    /* The config.json of its checkpoint says that guidance is an input. */
    args = vc_format("--transformer %s/one/checkpoint-4/transformer --training_type full-finetune "
                     "--max_train_steps 1 --embedded_guidance 2", dir);
    run_ok(dir, "tuned", args);
    free(args);
}

static void test_refused(void **state)
{
    const char *dir = *state;
    vc_err err = { 0 };
    assert_int_equal(run(dir, "plain", TINY "--embedded_guidance 3", &err), VC_EUSAGE);
    assert_says(&err, "--embedded_guidance: this VltTransformer3DModel does not take guidance");
    assert_false(run_exists(dir, "plain/checkpoint-2"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_run), cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, run_dir_setup, toy_dir_teardown);
}
