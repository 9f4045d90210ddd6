/* test_wan_samples.c - validation samples of Wan's models against diffusers' pipelines: with CLIP
 * states and without, between two pictures, of clips to edit (VACE) with references and without,
 * 5B's from a clean first frame, those of two transformers, SkyReels V2's of text and with
 * diffusion forcing, from a first frame, to a last one, from a clip, in blocks and in windows too,
 * and of text alone by Euler's method. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "tests/lib/golden.h"
#include "tests/lib/ok.h"
#include "tests/train/models/pipeline_samples.h"

enum { C = 4, C_5B = 48, F = 3, H = 4, W = 6, WIDTH = 32, MASKS = 4 };
enum { KNOWN = 1 << VC_ROLE_VIDEO | 1 << VC_ROLE_MASK, SEEN = KNOWN | 1 << VC_ROLE_VISION,
       EDITED = KNOWN | 1 << VC_ROLE_REACTIVE, PIXELS = 64 };

#define FILE_NAME "diffusion_pytorch_model.safetensors"

static const toy_sample clips[] = {
    { .number = 0, .f = F, .h = H, .w = W, .caption = { "a" } },
    { .number = 1, .f = F, .h = H, .w = W, .caption = { "b" } },
};
#define RATE "skyreels2-rate"
#define UNIPC "--flow_shift 3 --validation_sampler unipc "

static const struct model {
    const char *name;
    int channels, embeds;                    /* rows of CLIP states */
    unsigned roles;
    const char *flags;
    const char *transformer, *scheduler;     /* its golden, if not of this name; of --model */
} models[] = {
    { "wan-i2v", C, TOY_EMBEDS, SEEN, UNIPC, NULL, NULL },
    { "wan-flf2v", C, 2 * TOY_EMBEDS, SEEN, UNIPC, NULL, NULL },
    { "wan-a14b", C, 0, KNOWN, UNIPC "--boundary_type full", NULL, NULL },
    { "wan-two", C, 0, KNOWN, UNIPC "--timestep_boundary 0.9 --transformer_high ", NULL, NULL },
    { "wan-vace", C, 0, EDITED, UNIPC, NULL, NULL },
    { "wan-vace-plain", C, 0, EDITED, UNIPC, "wan-vace", NULL },
    { "wan-5b", C_5B, 0, 0, UNIPC "--first_frame_conditioning_p 1", NULL, NULL },
    { "skyreels2", C, 0, 0, UNIPC, NULL, NULL },
    { "skyreels2-i2v", C, TOY_EMBEDS, SEEN, UNIPC, NULL, NULL },
    { "skyreels2-rate", C, 0, 0, UNIPC, NULL, NULL },
    { "skyreels2-first", C, 0, 0, UNIPC "--first_frame_conditioning_p 1", RATE, NULL },
    { "skyreels2-async", C, 0, 0, UNIPC "--ar_step 2 --causal_block_size 2", RATE, NULL },
    { "skyreels2-async-first", C, 0, 0, UNIPC "--first_frame_conditioning_p 1 --ar_step 1 "
      "--addnoise_condition 20", RATE, NULL },
    { "skyreels2-long", C, 0, 0, UNIPC "--base_num_frames 13 --overlap_history 1 "
      "--addnoise_condition 30", "skyreels2", NULL },
    { "skyreels2-long-async", C, 0, 0, UNIPC "--base_num_frames 13 --overlap_history 5 "
      "--addnoise_condition 20 --ar_step 1 --causal_block_size 2", RATE, NULL },
    { "skyreels2-long-first", C, 0, 0, UNIPC "--base_num_frames 9 --overlap_history 1 "
      "--addnoise_condition 20 --first_frame_conditioning_p 1", RATE, NULL },
    { "skyreels2-last", C, 0, 0, UNIPC "--first_frame_conditioning_p 1 --ar_step 1", RATE, NULL },
    { "skyreels2-long-last", C, 0, 0, UNIPC "--base_num_frames 9 --overlap_history 1 "
      "--addnoise_condition 20 --first_frame_conditioning_p 1", "skyreels2", NULL },
    { "skyreels2-more", C, 0, 0, UNIPC, RATE, NULL },
    { "skyreels2-more-async", C, 0, 0, UNIPC "--ar_step 1 --causal_block_size 2 "
      "--addnoise_condition 20", RATE, NULL },
    { "skyreels2-more-long", C, 0, 0, UNIPC "--base_num_frames 13 --overlap_history 5 "
      "--addnoise_condition 30", "skyreels2", NULL },
    { "wan-euler", C, 0, 0, "", "wan",
      "{\"_class_name\":\"FlowMatchEulerDiscreteScheduler\",\"shift\":3}" },
};

/* Makes DIR/wan-two of DIR/wan-a14b: a transformer that predicts the opposite. */
static void make_opposite(const char *dir)
{
    char *from = vc_path_join(dir, "wan-a14b"), *to = vc_path_join(dir, "wan-two");
    char *copy = vc_format("cp -r %s %s", from, to);
    char *in = vc_path_join(from, FILE_NAME), *out = vc_path_join(to, FILE_NAME);
    vf_safetensors *f;
    vc_err err = { 0 };
    assert_int_equal(system(copy), 0);
    assert_ok(vf_safetensors_open(&f, in, &err), &err);
    int n = vf_safetensors_count(f);
    vf_view *v = calloc((size_t)n, sizeof *v);
    char *turned[2] = { NULL, NULL };
    for (int i = 0, k = 0; i < n; i++) {
        v[i] = *vf_safetensors_at(f, i);
        if (strncmp(v[i].name, "proj_out.", 9))
            continue;
        assert_int_equal(v[i].dtype, VC_BF16);
        turned[k] = malloc(v[i].bytes);
        memcpy(turned[k], v[i].data, v[i].bytes);
        for (size_t b = 1; b < v[i].bytes; b += 2)
            turned[k][b] = (char)(turned[k][b] ^ 0x80);      /* the sign */
        v[i].data = turned[k++];
    }
    assert_non_null(turned[1]);
    assert_ok(vf_safetensors_write(out, v, n, NULL, 0, &err), &err);
    vf_safetensors_close(f);
    free(turned[0]);
    free(turned[1]);
    free(v);
    free(in);
    free(out);
    free(copy);
    free(from);
    free(to);
}

static void check(const char *dir, const struct model *m)
{
    bool two = !strcmp(m->name, "wan-two");
    char *name = vc_format("samples-%s", m->name), *set = vc_format("set-%s", m->name);
    const char *transformer = m->transformer ? m->transformer : m->name;
    char *path = vc_path_join(dir, set), *to = vc_path_join(dir, transformer), *more;
    char *out = vc_format("%s/out-%s-%s/validation/step-1/000.safetensors", dir, set, transformer);
    char *folder = m->scheduler ? pipeline_folder(dir, "WanPipeline", m->scheduler) : NULL;
    vf_safetensors *gold = golden_open(name);
    vf_safetensors *model = golden_open(two ? "wan-a14b" : transformer);
    const toy t = { .path = path, .sample = clips, .n = 2, .channels = m->channels, .width = WIDTH,
                    .per_channel = true,
                    .train_mode = m->roles == EDITED ? "vace" : m->roles ? "i2v" : "normal",
                    .conditions = m->roles, .embeds = m->embeds,
                    .mask_channels = m->roles == EDITED ? PIXELS : MASKS };
    vc_err err = { 0 };
    if (two)
        make_opposite(dir);
    else
        golden_model(model, to, VC_BF16);
    vf_view latents;
    assert_ok(vf_safetensors_get(gold, "latents", &latents, &err), &err);
    pipeline_set_make(t, gold, 4 * (int)latents.dim[1] - 3);
    more = vc_format("--validation_steps 1 --num_inference_steps %s %s%s %s%s%s",
                     vf_safetensors_meta(gold, "steps"), folder ? "--model " : "",
                     folder ? folder : "", m->flags, two ? dir : "", two ? "/wan-a14b" : "");
    assert_ok(pipeline_run(dir, set, transformer, more, &err), &err);
    vf_safetensors_close(pipeline_sample_check(out, gold));
    vf_safetensors_close(model);
    vf_safetensors_close(gold);
    free(folder);
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
