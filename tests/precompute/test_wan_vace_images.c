/* test_wan_vace_images.c - the values of a clip to edit for Wan VACE, against diffusers' pipeline
 * (scripts/golden/wan_vace_samples.py): the two parts of the clip that a moving mask divides, the
 * mask's numbers for each pixel, and references of other shapes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "precompute/encode/encode.h"
#include "precompute/media/write.h"
#include "tests/lib/golden.h"
#include "tests/lib/ok.h"
#include "tests/lib/tmp_dir.h"

enum { F = 9, H = 32, W = 48, LF = 3, LH = 4, LW = 6, C = 4, MASKS = 64, FRAME = H * W * 3,
       AREA = LH * LW, REFERENCES = 2 };
#define EDITED (VC_ROLE_BIT(VC_ROLE_VIDEO) | VC_ROLE_BIT(VC_ROLE_REACTIVE) | \
                VC_ROLE_BIT(VC_ROLE_MASK))

/* Sums in another order; and, of references, half a level of 255 that a resized pixel is rounded
 * by, which the autoencoder passes on. */
#define CLIP_ERROR 1e-5
#define PICTURE_ERROR 1e-2

static vf_row row;
static vprep_source source;
static prep_beside pictures[REFERENCES];
static vf_side sides[REFERENCES];

static vprep run_of(char *vae_dir)
{
    vprep p = { .list = { .meta = { .rows = &row, .n = 1 }, .sources = &source } };
    prep_encoders *e = &p.encoders;
    vae *v;
    vc_err err = { 0 };

    p.c.train_mode = VC_MODE_VACE;
    p.c.latent_store = STORE_MODE;
    p.c.dtype = VC_F32;
    e->family = (prep_family){ .is = vc_family_find("wan-vace"), .vae = &vae_wan,
                               .from_files = true };
    e->vae_part.opts = (encoder_opts){ .dir = vae_dir, .device = "cpu", .dtype = VC_F32 };
    assert_ok(vae_wan.open(&v, &e->vae_part.opts, &e->vae, &err), &err);
    vae_wan.close(v);
    return p;
}

/* Writes the golden's pictures to files, as the row's references. */
static void put_pictures(const char *dir, const vf_safetensors *gold)
{
    for (int k = 0; k < REFERENCES; k++) {
        char name[40];
        vf_view v;
        vc_err err = { 0 };
        snprintf(name, sizeof name, "picture_%d", k + 1);
        assert_ok(vf_safetensors_get(gold, name, &v, &err), &err);
        char *file = vc_path_join(dir, k ? "b.png" : "a.png");
        assert_ok(media_write_png(file, v.data, (int)v.dim[0], (int)v.dim[1], &err), &err);
        sides[k] = (vf_side){ .path = file, .file = file };
        pictures[k] = (prep_beside){ .w = (int)v.dim[1], .h = (int)v.dim[0], .frames = 1 };
        assert_ok(prep_identity_of(&pictures[k].is, file, file, &err), &err);
        assert_ok(vf_hash_file(&pictures[k].hash, file, NULL, &err), &err);
    }
    row = (vf_row){ .path = "", .file = "", .references = sides, .n_references = REFERENCES,
                    .beside[VF_FILLED].path = "clip" };
    source = (vprep_source){ .references = pictures, .n_references = REFERENCES };
}

static prep_job *job_of(const vprep *p, const vprep_item *it, const vf_safetensors *gold,
                        bool masked)
{
    prep_job *j = calloc(1, sizeof *j);
    vf_view video, masks;
    vc_err err = { 0 };

    prep_job_begin(j, it);
    j->clip.choice = (vb_choice){ .frames = F, .target_h = H, .target_w = W, .latent_f = LF,
                                  .latent_h = LH, .latent_w = LW };
    j->clip.mask = (mask){ .kind = masked ? MASK_FILE : MASK_ALL, .f = F, .h = H, .w = W };
    j->clip.mask_all = !masked;
    j->need = EDITED;
    assert_ok(vf_safetensors_get(gold, "video", &video, &err), &err);
    assert_ok(vf_safetensors_get(gold, "masks", &masks, &err), &err);
    j->filled = (prep_frames){ .n = F, .count = F, .bytes = FRAME, .range = malloc(F * FRAME) };
    memcpy(j->filled.range, video.data, F * FRAME);
    if (masked) {
        j->clip.mask.n_pixels = F;
        j->clip.mask.pixels = malloc(F * H * W);
        for (size_t i = 0; i < F * H * W; i++)
            j->clip.mask.pixels[i] = ((const uint8_t *)masks.data)[i] > 127;
        j->need |= VC_ROLE_BIT(VC_ROLE_REFERENCE) | VC_ROLE_BIT(VC_ROLE_REFERENCE + 1);
    }
    for (int r = 0; r < VC_ROLES; r++)
        j->key[r].b[0] = (uint8_t)(r + 1);
    assert_ok(prep_job_references(p, j, &err), &err);
    return j;
}

/* Compares a value's frames with those of the golden's channels from `first` on, whose frame 0 is
 * frame `at` there. */
static void compare(const vprep *p, const prep_job *j, vc_role role, const float *want, int frames,
                    int first, int at, double most)
{
    const bool is_mask = vc_roles[role].kind == VC_VALUE_MASK;
    vf_safetensors *st;
    vc_err err = { 0 };
    int64_t dim[8];

    assert_non_null(j->value[role]);
    assert_ok(vf_safetensors_parse(&st, j->value[role], j->value_bytes[role], &err), &err);
    float *x = golden_values(st, is_mask ? "mask" : "mean", dim);
    const int f = vc_roles[role].clip ? LF : 1;
    assert_memory_equal(dim, ((int64_t[]){ is_mask ? MASKS : C, f, LH, LW }), 4 * sizeof *dim);
    for (int c = 0; c < dim[0]; c++) {
        float *of = x + c * f * AREA;
        for (int i = 0; i < f * AREA && !is_mask; i++)
            of[i] = (float)((of[i] - p->encoders.vae.mean[c]) / p->encoders.vae.std[c]);
        const double e = golden_error(of, want + ((first + c) * frames + at) * AREA, f * AREA);
        if (!(e <= most))
            fail_msg("%s, channel %d: %g", vc_roles[role].name, c, e);
    }
    free(x);
    vf_safetensors_close(st);
}

static void check(const char *vae_dir, const vf_safetensors *gold, bool masked)
{
    const int front = masked ? REFERENCES : 0, frames = front + LF;
    const vprep_item it = { 0 };
    vprep p = run_of((char *)vae_dir);
    prep_encoder *e;
    int64_t dim[8];
    uint64_t n;
    vc_err err = { 0 };
    prep_job *j = job_of(&p, &it, gold, masked);
    float *want = golden_values(gold, masked ? "condition" : "whole", dim);
    float *masks = golden_values(gold, masked ? "mask" : "whole_mask", dim);

    assert_ok(prep_encoder_open(&e, &p, j->need, &err), &err);
    assert_ok(prep_encode(e, j, &n, &err), &err);
    compare(&p, j, VC_ROLE_VIDEO, want, frames, 0, front, CLIP_ERROR);
    compare(&p, j, VC_ROLE_REACTIVE, want, frames, C, front, CLIP_ERROR);
    compare(&p, j, VC_ROLE_MASK, masks, frames, 0, front, 0);
    for (int k = 0; k < front; k++)
        compare(&p, j, (vc_role)(VC_ROLE_REFERENCE + k), want, frames, 0, front - 1 - k,
                PICTURE_ERROR);
    prep_encoder_close(e);
    prep_job_free(j);
    free(want);
    free(masks);
}

static void equal_to_the_pipeline(void **state)
{
    vf_safetensors *gold = golden_open("wan-vace-conditions"), *f = golden_open("vae_wan");
    const char *vae_dir = golden_tmp("vae_wan");
    char dir[256];
    vc_err err = { 0 };
    (void)state;
    assert_int_equal(tmp_dir_make(dir), 0);
    golden_model(f, vae_dir, VC_F32);
    put_pictures(dir, gold);
    check(vae_dir, gold, true);
    check(vae_dir, gold, false);
    assert_ok(vc_remove_tree(dir, &err), &err);
    for (int k = 0; k < REFERENCES; k++)
        free(sides[k].file);
    vf_safetensors_close(f);
    vf_safetensors_close(gold);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(equal_to_the_pipeline) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
