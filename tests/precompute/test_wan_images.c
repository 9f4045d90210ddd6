/* test_wan_images.c - the values of a clip for Wan's image-to-video models, against diffusers'
 * pipeline (scripts/golden/wan_images.py): the masked clip, its mask, and the states of
 * the vision model, of models that know the first frame or the last as well. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "precompute/encode/encode.h"
#include "tests/lib/golden.h"
#include "tests/lib/ok.h"

enum { F = 9, H = 64, W = 96, LF = 3, LH = 8, LW = 12, C = 4, MASKS = 4, FRAME = H * W * 3,
       PLANE = LF * LH * LW };

static vf_row row;
static vprep_source source;

/* A component from a golden; its folder, malloc'ed. */
static char *component(const char *golden)
{
    char *dir = strdup(golden_tmp(golden));
    vf_safetensors *f = golden_open(golden);
    golden_model(f, dir, VC_F32);
    vf_safetensors_close(f);
    return dir;
}

static char *processor(const vf_safetensors *gold)
{
    char *dir = strdup(golden_tmp("processor"));
    char *path = vc_path_join(dir, "preprocessor_config.json");
    const char *text = vf_safetensors_meta(gold, "image_processor");
    vc_err err = { 0 };
    assert_ok(vc_file_write(path, text, strlen(text), &err), &err);
    free(path);
    return dir;
}

static vprep run_of(bool ends, char *vae_dir, char *vision_dir, char *processor_dir)
{
    vprep p = { .list = { .meta = { .rows = &row, .n = 1 }, .sources = &source } };
    prep_encoders *e = &p.encoders;
    vae *v;
    vision_enc *eye;
    vc_err err = { 0 };

    p.c.train_mode = PREP_I2V;
    p.c.latent_store = STORE_MODE;
    p.c.dtype = VC_F32;
    e->family = (prep_family){ .is = vc_family_find("wan2.1"), .vae = &vae_wan,
                               .vision = &vision_clip, .from_files = true };
    e->sees = true;
    e->ends = ends;
    e->vae_part.opts = (encoder_opts){ .dir = vae_dir, .device = "cpu", .dtype = VC_F32 };
    e->vision_part.opts = (encoder_opts){ .dir = vision_dir, .image_processor = processor_dir,
                                          .device = "cpu", .dtype = VC_F32 };
    assert_ok(vae_wan.open(&v, &e->vae_part.opts, &e->vae, &err), &err);
    vae_wan.close(v);
    assert_ok(vision_clip.open(&eye, &e->vision_part.opts, &e->vision, &err), &err);
    vision_clip.close(eye);
    return p;
}

/* A job of a clip that begins with one picture and ends with the other. */
static prep_job *job_of(const vprep *p, const vf_safetensors *gold)
{
    static const char *const names[2] = { "first", "last" };
    prep_job *j = calloc(1, sizeof *j);
    vb_choice *c = &j->clip.choice;
    vc_err err = { 0 };

    prep_job_begin(j, NULL);
    *c = (vb_choice){ .frames = F, .target_h = H, .target_w = W, .latent_f = LF, .latent_h = LH,
                      .latent_w = LW };
    assert_ok(mask_keep(&j->clip.mask, F, H, W, p->encoders.ends, &err), &err);
    j->pixels = (prep_frames){ .n = F, .count = F, .bytes = FRAME, .range = malloc(F * FRAME) };
    memset(j->pixels.range, 77, F * FRAME);
    for (int i = 0; i < 2; i++) {
        vf_view v;
        assert_ok(vf_safetensors_get(gold, names[i], &v, &err), &err);
        assert_int_equal(v.bytes, FRAME);
        memcpy(j->pixels.range + (size_t)i * (F - 1) * FRAME, v.data, FRAME);
    }
    for (int r = 0; r < VC_ROLES; r++)
        j->key[r].b[0] = (uint8_t)(r + 1);
    j->need = vprep_prompt_roles(p);
    return j;
}

static float *stored(const prep_job *j, vc_role role, const char *name, int64_t dim[8])
{
    vf_safetensors *st;
    vc_err err = { 0 };
    assert_non_null(j->value[role]);
    assert_ok(vf_safetensors_parse(&st, j->value[role], j->value_bytes[role], &err), &err);
    float *x = golden_values(st, name, dim);
    vf_safetensors_close(st);
    return x;
}

static void check(const vprep *p, const prep_job *j, const vf_safetensors *gold, const char *name)
{
    int64_t dim[8], want_dim[8];
    char *condition = vc_format("condition.%s", name), *embeds = vc_format("embeds.%s", name);
    float *want = golden_values(gold, condition, want_dim), *x;

    assert_memory_equal(want_dim, ((int64_t[]){ MASKS + C, LF, LH, LW }), 4 * sizeof *dim);
    x = stored(j, VC_ROLE_MASK, "mask", dim);
    assert_memory_equal(dim, ((int64_t[]){ MASKS, LF, LH, LW }), 4 * sizeof *dim);
    assert_memory_equal(x, want, MASKS * PLANE * sizeof *x);
    free(x);

    x = stored(j, VC_ROLE_VIDEO, "mean", dim);
    for (int i = 0; i < C * PLANE; i++) {
        const int c = i / PLANE;
        x[i] = (float)((x[i] - p->encoders.vae.mean[c]) / p->encoders.vae.std[c]);
    }
    double e = golden_error(x, want + MASKS * PLANE, C * PLANE);
    if (!(e <= 1e-5))
        fail_msg("%s: the latents differ by %g", name, e);
    free(x);
    free(want);

    want = golden_values(gold, embeds, want_dim);
    x = stored(j, VC_ROLE_VISION, "image_embeds", dim);
    assert_memory_equal(dim, want_dim, 2 * sizeof *dim);
    e = golden_error(x, want, dim[0] * dim[1]);
    if (!(e <= 1e-5))
        fail_msg("%s: the states differ by %g", name, e);
    free(x);
    free(want);
    free(condition);
    free(embeds);
}

static void equal_to_the_pipeline(void **state)
{
    vf_safetensors *gold = golden_open("wan-vision");
    char *vae_dir = component("vae_wan"), *vision_dir = component("wan-vision");
    char *processor_dir = processor(gold);
    (void)state;
    for (int ends = 0; ends < 2; ends++) {
        vprep p = run_of(ends, vae_dir, vision_dir, processor_dir);
        prep_encoder *e;
        uint64_t n;
        vc_err err = { 0 };
        prep_job *j = job_of(&p, gold);
        assert_ok(prep_encoder_open(&e, &p, j->need, &err), &err);
        assert_ok(prep_encode(e, j, &n, &err), &err);
        assert_int_equal(n, 3);
        check(&p, j, gold, ends ? "flf2v" : "i2v");
        prep_encoder_close(e);
        prep_job_free(j);
    }
    vf_safetensors_close(gold);
    free(vae_dir);
    free(vision_dir);
    free(processor_dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(equal_to_the_pipeline) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
