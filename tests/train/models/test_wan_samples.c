/* test_wan_samples.c - validation samples of Wan's image-to-video models against diffusers'
 * pipeline: with CLIP states and without, between two pictures, and 5B's from a clean first
 * frame. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "tests/lib/golden.h"
#include "tests/lib/ok.h"
#include "tests/train/models/pipeline_samples.h"

enum { C = 4, C_5B = 48, F = 3, H = 4, W = 6, WIDTH = 32, MASKS = 4 };
enum { KNOWN = 1 << VC_ROLE_VIDEO | 1 << VC_ROLE_MASK, SEEN = KNOWN | 1 << VC_ROLE_VISION };

static const toy_sample clips[] = {
    { .number = 0, .f = F, .h = H, .w = W, .caption = { "a" } },
    { .number = 1, .f = F, .h = H, .w = W, .caption = { "b" } },
};
static const struct model {
    const char *name;
    int channels, embeds;                    /* rows of CLIP states */
    unsigned roles;
    const char *flags;
} models[] = {
    { "wan-i2v", C, TOY_EMBEDS, SEEN, "" }, { "wan-flf2v", C, 2 * TOY_EMBEDS, SEEN, "" },
    { "wan-a14b", C, 0, KNOWN, "" }, { "wan-5b", C_5B, 0, 0, "--first_frame_conditioning_p 1" },
};

static void check(const char *dir, const struct model *m)
{
    char *name = vc_format("samples-%s", m->name), *set = vc_format("set-%s", m->name);
    char *path = vc_path_join(dir, set), *to = vc_path_join(dir, m->name), *more;
    char *out = vc_format("%s/out-%s-%s/validation/step-1/000.safetensors", dir, set, m->name);
    vf_safetensors *gold = golden_open(name), *model = golden_open(m->name);
    const toy t = { .path = path, .sample = clips, .n = 2, .channels = m->channels, .width = WIDTH,
                    .per_channel = true, .train_mode = m->roles ? "i2v" : "normal",
                    .conditions = m->roles, .mask_channels = MASKS, .embeds = m->embeds };
    vc_err err = { 0 };

    golden_model(model, to, VC_BF16);
    pipeline_set_make(t, gold, 4 * F - 3);
    more = vc_format("--validation_steps 1 --num_inference_steps %s --flow_shift 3 "
                     "--validation_sampler unipc %s",
                     vf_safetensors_meta(gold, "steps"), m->flags);
    assert_ok(pipeline_run(dir, set, m->name, more, &err), &err);
    vf_safetensors_close(pipeline_sample_check(out, gold));
    vf_safetensors_close(model);
    vf_safetensors_close(gold);
    free(name);
    free(set);
    free(path);
    free(to);
    free(out);
    free(more);
}

static void samples_are_the_pipeline(void **state)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        check(*state, &models[i]);
}

static int make(void **state)
{
    static char dir[256];
    toy_dir_make(dir);
    *state = dir;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(samples_are_the_pipeline) };
    return cmocka_run_group_tests(tests, make, toy_dir_teardown);
}
