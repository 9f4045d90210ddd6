/* test_condition_keys.c - the fields that keys of conditions depend on, frames that are masked, and
 * pixel noise. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "precompute/encode/conditions.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static vprep_source source = { .ok = true, .w = 64, .h = 64, .frames = 9, .hash = { { 1, 2, 3 } } };
static vf_row row = { .row = 1, .id = 77 };

static vprep run_of(int mode)
{
    vprep p = { .list = { .meta = { .rows = &row, .n = 1 }, .sources = &source } };
    p.c.train_mode = mode;
    p.c.noise_variants = 2;
    p.c.latent_store = STORE_MOMENTS;
    p.c.dtype = VC_F16;
    p.encoders.family.is = vc_families();
    p.encoders.vae.ratio[0] = 4;
    p.encoders.vae.ratio[1] = p.encoders.vae.ratio[2] = 8;
    return p;
}

static vprep_clip clip_of(int64_t *frames)
{
    vprep_clip c = { .frames = frames };
    c.choice = (vb_choice){ .frames = 9, .target_h = 32, .target_w = 32, .resize_h = 32,
                            .resize_w = 32,
                            .latent_f = 3, .latent_h = 4, .latent_w = 4 };
    c.mask = (mask){ .kind = MASK_ALL, .f = 9, .h = 32, .w = 32 };
    return c;
}

static bool same(vf_key a, vf_key b)
{
    return !memcmp(&a, &b, sizeof a);
}

/* A reference that keeps its size has the key of a still of the file; one that is resized has
 * another filter than stills, and another key than older versions gave it. */
static void keys_of_references(void **state)
{
    int64_t first = 0;
    prep_beside beside = { .w = 64, .h = 64, .frames = 1, .hash = { { 1, 2, 3 } } };
    vprep p = run_of(VC_MODE_EDIT);
    vprep_item it = { 0 };

    (void)state;
    source.references = &beside;
    p.encoders.family.is = vc_family_find("flux");
    for (int side = 32; side <= 64; side += 32) {
        vprep_clip still = { .frames = &first };
        p.c.reference_size = side;
        vprep_reference_size(&p, &beside, NULL, &still.choice);
        assert_int_equal(still.choice.target_h, side);
        assert_int_equal(still.choice.lanczos, side != 64);
        still.choice.lanczos = false;
        const vf_key key = vprep_value_key(&p, &it, &still, VC_ROLE_REFERENCE);
        assert_true(same(key, vprep_prompt_key(&p, beside.hash, &still, VC_ROLE_REFERENCE)) ==
                    (side == 64));
        assert_true(same(key, vprep_latent_key(&p, &it, &still)) == (side == 64));
    }
    source.references = NULL;
}

static void keys_follow_values(void **state)
{
    int64_t frames[9] = { 3, 4, 5, 6, 7, 8, 9, 10, 11 };
    int32_t head[1] = { 2 };
    vprep p = run_of(PREP_I2V), q;
    vprep_item it = { 0 };
    vprep_clip a = clip_of(frames), b = a;

    (void)state;
    /* An image condition has the key of the still of the first frame. */
    b.choice.frames = 1;
    assert_true(same(vprep_value_key(&p, &it, &a, VC_ROLE_IMAGE), vprep_latent_key(&p, &it, &b)));
    assert_false(same(vprep_value_key(&p, &it, &a, VC_ROLE_IMAGE), vprep_latent_key(&p, &it, &a)));
    q = p;
    q.c.train_mode = PREP_INPAINT;           /* the mode changes no key of a clip */
    assert_true(same(vprep_latent_key(&p, &it, &a), vprep_latent_key(&q, &it, &a)));
    q = p;
    q.c.noise_variants = 3;
    assert_false(same(vprep_value_key(&p, &it, &a, VC_ROLE_IMAGE_NOISED),
                      vprep_value_key(&q, &it, &a, VC_ROLE_IMAGE_NOISED)));
    assert_true(same(vprep_value_key(&p, &it, &a, VC_ROLE_IMAGE),
                     vprep_value_key(&q, &it, &a, VC_ROLE_IMAGE)));
    q = p;
    q.c.seed = 5;
    assert_false(same(vprep_value_key(&p, &it, &a, VC_ROLE_IMAGE_NOISED),
                      vprep_value_key(&q, &it, &a, VC_ROLE_IMAGE_NOISED)));
    q = p;
    q.encoders.vae_part.opts.tiling = true;
    for (int v = VC_ROLE_CLIP; v < VC_ROLE_MASK; v++)
        assert_false(same(vprep_value_key(&p, &it, &a, v), vprep_value_key(&q, &it, &a, v)));

    /* A tone mapping is in the keys of pictures, and not in those of the files beside the
     * source. */
    b = a;
    b.tonemap = MEDIA_TONEMAP_HABLE;
    for (int v = VC_ROLE_CLIP; v <= VC_ROLE_IMAGE_NOISED; v++)
        assert_false(same(vprep_value_key(&p, &it, &a, v), vprep_value_key(&p, &it, &b, v)));
    assert_false(same(vprep_picture_key(&p, &it, &a), vprep_picture_key(&p, &it, &b)));
    assert_true(same(vprep_value_key(&p, &it, &a, VC_ROLE_CONTROL),
                     vprep_value_key(&p, &it, &b, VC_ROLE_CONTROL)));
    assert_true(same(vprep_value_key(&p, &it, &a, VC_ROLE_LOSS_MASK),
                     vprep_value_key(&p, &it, &b, VC_ROLE_LOSS_MASK)));

    /* The key of a masked video depends on the mask, and on the source where it is visible. */
    b = clip_of(frames);
    b.mask = (mask){ .kind = MASK_KEEP_HEAD, .f = 9, .h = 32, .w = 32, .n = 1, .v = head };
    vf_key mask_2 = vprep_value_key(&p, &it, &b, VC_ROLE_MASK),
        video_2 = vprep_value_key(&p, &it, &b, VC_ROLE_VIDEO);
    vf_key video_all = (a.mask_all = true, vprep_value_key(&p, &it, &a, VC_ROLE_VIDEO));
    head[0] = 3;
    assert_false(same(mask_2, vprep_value_key(&p, &it, &b, VC_ROLE_MASK)));
    assert_false(same(video_2, vprep_value_key(&p, &it, &b, VC_ROLE_VIDEO)));
    head[0] = 2;
    source.hash.b[5] ^= 1;
    assert_true(same(mask_2, vprep_value_key(&p, &it, &b, VC_ROLE_MASK)));
    assert_false(same(video_2, vprep_value_key(&p, &it, &b, VC_ROLE_VIDEO)));
    assert_true(same(video_all, vprep_value_key(&p, &it, &a, VC_ROLE_VIDEO)));
    source.hash.b[5] ^= 1;
    assert_int_equal(vprep_value_frames(&p, NULL, &a, VC_ROLE_VIDEO), 0);
    assert_int_equal(vprep_value_frames(&p, NULL, &b, VC_ROLE_VIDEO), 9);
    assert_int_equal(vprep_value_frames(&p, NULL, &b, VC_ROLE_IMAGE_NOISED), 1);
}

/* A reordered file has other keys, so that values of frames in another order are not reused; and a
 * file beside the source has the keys of its own frames. */
static void orders_and_times(void **state)
{
    int64_t frames[9] = { 3, 4, 5, 6, 7, 8, 9, 10, 11 };
    vprep p = run_of(PREP_NORMAL);
    vprep_item it = { 0 };
    vprep_clip c = clip_of(frames);
    prep_beside *control = &source.beside[VF_CONTROL];
    const vf_key clip = vprep_latent_key(&p, &it, &c),
                 beside = vprep_value_key(&p, &it, &c, VC_ROLE_CONTROL),
                 picture = vprep_picture_key(&p, &it, &c);

    (void)state;
    source.reordered = true;
    assert_false(same(clip, vprep_latent_key(&p, &it, &c)));
    assert_false(same(picture, vprep_picture_key(&p, &it, &c)));
    assert_true(same(beside, vprep_value_key(&p, &it, &c, VC_ROLE_CONTROL)));
    source.reordered = false;
    control->reordered = true;
    assert_true(same(clip, vprep_latent_key(&p, &it, &c)));
    assert_false(same(beside, vprep_value_key(&p, &it, &c, VC_ROLE_CONTROL)));
    control->reordered = false;
    source.fps = 30;
    *control = (prep_beside){ .by_time = true, .frames = 5, .fps = 15 };
    assert_false(same(beside, vprep_value_key(&p, &it, &c, VC_ROLE_CONTROL)));
    *control = (prep_beside){ 0 };
    assert_true(same(beside, vprep_value_key(&p, &it, &c, VC_ROLE_CONTROL)));
}

/* Changes the field `keyed`, on which a key may depend. */
static void change(unsigned keyed, vprep *p, vprep_clip *c)
{
    static int32_t other[1] = { 3 };
    switch (keyed) {
    case VC_KEYED_MASK: c->mask.v = other; break;
    case VC_KEYED_NOISE: p->encoders.mask_noise = !p->encoders.mask_noise; break;
    case VC_KEYED_PIXELS: c->choice.top = 8; break;
    case VC_KEYED_VARIANTS: p->c.noise_variants = 7; break;
    case VC_KEYED_DRAWS: p->c.seed = 5; break;
    case VC_KEYED_ENCODING: p->encoders.vae_part.opts.tiling = true; break;
    case VC_KEYED_GRID: p->encoders.vae.ratio[1] = 16; break;
    case VC_KEYED_VISION: p->encoders.vision.fingerprint.b[3] ^= 1; break;
    default: fail_msg("%u is not a field of a key", keyed);
    }
}

/* A key changes exactly if a field of its recipe changes. */
static void check_key(const vprep *p, vc_role role)
{
    int64_t frames[9] = { 3, 4, 5, 6, 7, 8, 9, 10, 11 };
    int32_t head[1] = { 2 };
    const vprep_item it = { 0 };
    vprep_clip a = clip_of(frames);
    a.mask = (mask){ .kind = MASK_KEEP_HEAD, .f = 9, .h = 32, .w = 32, .n = 1, .v = head };

    for (unsigned keyed = 1; keyed <= VC_KEYED_VISION; keyed *= 2) {
        vprep q = *p;
        vprep_clip b = a;
        const bool depends = vc_roles[role].recipe.keyed & keyed;
        change(keyed, &q, &b);
        if (same(vprep_value_key(p, &it, &a, role), vprep_value_key(&q, &it, &b, role)) == depends)
            fail_msg("role %d: the key %s field %u", role,
                     depends ? "does not depend on" : "depends on", keyed);
    }
    for (int other = 0; other < VC_ROLES; other++)
        if (other != (int)role && vc_roles[other].recipe.tag && !vc_roles[other].own_size &&
            same(vprep_value_key(p, &it, &a, role), vprep_value_key(p, &it, &a, (vc_role)other)))
            fail_msg("roles %d and %d have the same key", role, other);
}

/* The key and the value of every role follow from its row in the table. */
static void each_role_follows_its_row(void **state)
{
    (void)state;
    for (int mode = 0; mode < VC_MODES; mode++) {
        vprep p = run_of(mode);
        p.encoders.mask_noise = true;
        p.encoders.sees = true;
        for (int r = 0; r < VC_ROLES; r++) {
            const vc_role_row *role = &vc_roles[r];
            bool made = role->modes & 1u << mode && r != VC_ROLE_CONTROL &&
                        role->recipe.pixels != VC_PIXELS_LOSS_MASK && !role->own_size &&
                        !role->sound;
            assert_int_equal(!!(vprep_values(&p, &row) & VC_ROLE_BIT(r)), made);
            assert_int_equal(!!(vprep_prompt_roles(&p) & VC_ROLE_BIT(r)), made && role->what);
            row.beside[VF_FILLED].path = r == VC_ROLE_REACTIVE ? (char *)"clip" : NULL;
            if (role->recipe.tag && !role->own_size)
                check_key(&p, (vc_role)r);
            row.beside[VF_FILLED].path = NULL;
        }
    }
}

/* The key of a reference follows from its file and its own size: not from the sample, nor from its
 * clip. A family has so many as its row says, of those that the row has. */
static void references(void **state)
{
    int64_t frames[9] = { 3, 4, 5, 6, 7, 8, 9, 10, 11 };
    prep_beside pictures[2] = { { .w = 300, .h = 200, .hash = { { 5 } }, .frames = 1 },
                                { .w = 300, .h = 200, .hash = { { 6 } }, .frames = 1 } };
    vf_side sides[2] = { { "a.png", "a.png", NULL }, { "b.png", "b.png", NULL } };
    vprep p = run_of(VC_MODE_EDIT);
    vc_family two = *vc_family_find("flux");
    vprep_clip a = clip_of(frames), b = a;
    const vprep_item it = { 0 }, other = { .variant = 3 };
    const vc_role first = VC_ROLE_REFERENCE, second = VC_ROLE_REFERENCE + 1;
    vb_choice size;

    (void)state;
    row.references = sides;
    row.n_references = 2;
    source.references = pictures;
    source.n_references = 2;
    assert_int_equal(vprep_values(&p, &row), VC_ROLE_BIT(VC_ROLE_CLIP));
    p.encoders.family.is = &two;
    assert_int_equal(vprep_values(&p, &row), VC_ROLE_BIT(VC_ROLE_CLIP) | VC_ROLE_BIT(first));
    two.references.most = 2;
    assert_int_equal(vprep_values(&p, &row), VC_ROLE_BIT(VC_ROLE_CLIP) | VC_ROLE_BIT(first) |
                                                 VC_ROLE_BIT(second));
    vprep_reference_size(&p, &pictures[0], NULL, &size);
    assert_int_equal(size.target_h, 832);
    assert_int_equal(size.target_w, 1248);
    const vf_key key = vprep_value_key(&p, &it, &a, first);
    b.choice.target_h = 64;
    p.c.latent_store = STORE_SAMPLE;
    const vf_key drawn = vprep_value_key(&p, &it, &a, first);
    assert_true(same(drawn, vprep_value_key(&p, &other, &b, first)));
    p.c.latent_store = STORE_MOMENTS;
    assert_true(same(key, vprep_value_key(&p, &it, &b, first)));
    assert_false(same(key, vprep_value_key(&p, &it, &a, second)));
    pictures[1].hash = pictures[0].hash;
    assert_true(same(key, vprep_value_key(&p, &it, &a, second)));
    p.c.reference_size = 256;
    assert_false(same(key, vprep_value_key(&p, &it, &a, first)));
    row = (vf_row){ .row = 1, .id = 77 };
    source.references = NULL;
    source.n_references = 0;
}

/* Image-to-video of a family with masked_frames has a masked clip and its mask, which are other
 * values than those of families with black pixels and masks of one channel. */
static void masked_frames(void **state)
{
    int64_t frames[9] = { 3, 4, 5, 6, 7, 8, 9, 10, 11 };
    int32_t head[1] = { 1 };
    const unsigned known = VC_ROLE_BIT(VC_ROLE_VIDEO) | VC_ROLE_BIT(VC_ROLE_MASK);
    const vprep_item it = { 0 };
    vprep p = run_of(VC_MODE_I2V), q = run_of(VC_MODE_INPAINT), ends;
    vprep_clip a = clip_of(frames);
    a.mask = (mask){ .kind = MASK_KEEP_HEAD, .f = 9, .h = 32, .w = 32, .n = 1, .v = head };
    (void)state;

    p.encoders.family.is = vc_family_find("wan2.1");
    q.encoders.family.is = vc_family_find("cogvideox");
    assert_int_equal(vprep_values(&p, &row), VC_ROLE_BIT(VC_ROLE_CLIP) | known);
    assert_int_equal(vprep_prompt_roles(&p), known);
    for (int v = VC_ROLE_VIDEO; v <= VC_ROLE_MASK; v++)
        assert_false(same(vprep_value_key(&p, &it, &a, v), vprep_value_key(&q, &it, &a, v)));
    assert_float_equal(vprep_mask_fill(&p), 0, 0);
    assert_float_equal(vprep_mask_fill(&q), -1, 0);
    assert_int_equal(vprep_mask_channels(&p), p.encoders.vae.ratio[0]);
    assert_int_equal(vprep_mask_channels(&q), 1);

    ends = p;                                /* of a Fun-Control model */
    ends.c.train_mode = VC_MODE_CONTROL;
    assert_int_equal(vprep_prompt_roles(&ends), VC_ROLE_BIT(VC_ROLE_CONTROL));
    ends.c.train_mode = VC_MODE_CONTROL_REF;
    assert_int_equal(vprep_prompt_roles(&ends),
                     VC_ROLE_BIT(VC_ROLE_CONTROL) | VC_ROLE_BIT(VC_ROLE_IMAGE));
    p.encoders.sees = true;
    assert_int_equal(vprep_prompt_roles(&p), known | VC_ROLE_BIT(VC_ROLE_VISION));
    assert_int_equal(vprep_value_frames(&p, NULL, &a, VC_ROLE_VISION), 1);
    ends = p;
    ends.encoders.ends = true;
    assert_int_equal(vprep_value_frames(&ends, NULL, &a, VC_ROLE_VISION), 9);
    assert_false(same(vprep_value_key(&p, &it, &a, VC_ROLE_VISION),
                      vprep_value_key(&ends, &it, &a, VC_ROLE_VISION)));
}

/* A family that trains on first frames as they are stores none with noise. */
static void clean_images(void **state)
{
    vprep p = run_of(VC_MODE_I2V);
    (void)state;
    p.encoders.family.is = vc_family_find("hunyuanvideo");
    assert_int_equal(vprep_values(&p, &row),
                     VC_ROLE_BIT(VC_ROLE_CLIP) | VC_ROLE_BIT(VC_ROLE_IMAGE));
}

static void masked_pixels_are_black(void **state)
{
    enum { AREA = 32 * 32 };
    static float x[9 * AREA * 3];
    static uint8_t scratch[AREA];
    int64_t frames[9] = { 0 };
    int32_t head[1] = { 4 };
    vprep_clip c = clip_of(frames);

    (void)state;
    c.mask = (mask){ .kind = MASK_KEEP_HEAD, .f = 9, .h = 32, .w = 32, .n = 1, .v = head };
    for (size_t i = 0; i < COUNT(x); i++)
        x[i] = 0.25f;
    for (int t = 0; t < 9; t++)
        vprep_apply_mask(x + t * AREA * 3, &c.mask, t, true, -1, scratch);
    for (size_t i = 0; i < COUNT(x); i++)
        if (fabsf(x[i] - (i < (size_t)4 * AREA * 3 ? 0.25f : -1.0f)) > 0)
            fail_msg("pixel %zu is %g", i, (double)x[i]);
}

/* Draw k makes x + sigma n with a sigma of its own; the normals n follow the block of random
 * numbers from which sigma was drawn. */
static void pixel_noise(void **state)
{
    enum { N = 30000 };
    static float x[N];
    vprep p = run_of(PREP_I2V);
    vprep_item it = { .variant = 3 };
    double last = 0;

    (void)state;
    for (uint32_t k = 0; k < 3; k++) {
        uint32_t w[4], key[2] = { 0, 0 }, ctr[4] = { k << 28, 77, 0, 3 * 256 + VC_DRAW_COND_NOISE };
        float z[4];
        double sum = 0, sq = 0;
        vc_philox(key, ctr, w);
        vc_normal4(w, z);
        double sigma = exp(-3 + 0.5 * (double)z[0]);
        vprep_normals s = vprep_normals_of(&p, &it, VC_DRAW_COND_NOISE, k);
        for (int i = 0; i < N; i++)
            x[i] = i % 2 ? -1.0f : 0.5f;
        vprep_pixel_noise(x, N, vprep_noise_sigma(&s), true, &s);
        ctr[0]++;
        vc_philox(key, ctr, w);
        vc_normal4(w, z);
        assert_true(fabs((double)x[0] - (0.5 + sigma * (double)z[0])) < 1e-6);
        assert_true(fabs((double)x[2] - (0.5 + sigma * (double)z[2])) < 1e-6);
        for (int i = 0; i < N; i += 2) {
            assert_true(x[i + 1] <= -1.0f && x[i + 1] >= -1.0f);     /* masked pixels stay black */
            sum += (double)x[i] - 0.5;
            sq += ((double)x[i] - 0.5) * ((double)x[i] - 0.5);
        }
        assert_true(fabs(sum / (N / 2)) < 5 * sigma / sqrt(N / 2));
        assert_true(fabs(sqrt(sq / (N / 2)) / sigma - 1) < 0.03);    /* 5 / sqrt(2 * 15000) */
        assert_true(fabs(sigma - last) > 1e-9);
        last = sigma;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_of_references), cmocka_unit_test(keys_follow_values),
        cmocka_unit_test(orders_and_times),
        cmocka_unit_test(each_role_follows_its_row),
        cmocka_unit_test(clean_images), cmocka_unit_test(references),
        cmocka_unit_test(masked_frames),
        cmocka_unit_test(masked_pixels_are_black), cmocka_unit_test(pixel_noise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
