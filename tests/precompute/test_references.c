/* test_references.c - a reference picture has the pixels that the image processors of diffusers'
 * pipelines make of it (scripts/golden/references.py), byte by byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "buckets/references.h"
#include "common/os/file.h"
#include "precompute/encode/clip_frames.h"
#include "precompute/media/write.h"
#include "tests/lib/golden.h"
#include "tests/lib/ok.h"
#include "tests/lib/tmp_dir.h"

enum { SIDE = 48, KIND = 0, H = 1, W = 2, TO_H = 3, TO_W = 4 };

static uint8_t *bytes_of(const vf_safetensors *f, const char *what, int i)
{
    char name[40];
    vf_view v;
    vc_err err = { 0 };
    snprintf(name, sizeof name, "%s_%d", what, i);
    assert_ok(vf_safetensors_get(f, name, &v, &err), &err);
    uint8_t *b = malloc(v.bytes);
    memcpy(b, v.data, v.bytes);
    return b;
}

/* Reads the picture in the size that the family's rule gives it, and compares every byte. */
static void compare(const char *dir, const uint8_t *rgb, const uint8_t *want, const int of[5])
{
    const vb_reference_rule rule = { .family = vc_family_find(of[KIND] ? "flux2" : "qwen-image"),
                                     .side = SIDE };
    char *file = vc_path_join(dir, "picture.png");
    int64_t first = 0;
    vf_side reference = { .path = file, .file = file };
    prep_beside beside = { .w = of[W], .h = of[H], .frames = 1 };
    vf_row row = { .path = file, .file = file, .references = &reference, .n_references = 1 };
    vprep_source source = { .references = &beside, .n_references = 1, .w = of[W], .h = of[H] };
    vprep p = { .list = { .meta = { .rows = &row, .n = 1 }, .sources = &source } };
    vprep_item item = { 0 };
    vprep_clip clip = { .frames = &first };
    prep_frames f;
    const uint8_t *have;
    vc_err err = { 0 };

    assert_ok(media_write_png(file, rgb, of[H], of[W], &err), &err);
    assert_ok(prep_identity_of(&beside.is, file, file, &err), &err);
    assert_ok(vf_hash_file(&beside.hash, file, NULL, &err), &err);
    vb_reference(&clip.choice, &rule, of[W], of[H]);
    assert_int_equal(clip.choice.target_h, of[TO_H]);
    assert_int_equal(clip.choice.target_w, of[TO_W]);
    assert_ok(prep_frames_open(&f, &p, &item, &clip, VF_REFERENCE, 1, &err), &err);
    assert_ok(prep_frames_at(&f, 0, &have, &err), &err);
    assert_memory_equal(have, want, (size_t)(3 * of[TO_H] * of[TO_W]));
    prep_frames_close(&f);
    free(file);
}

static void as_the_pipelines(void **state)
{
    vf_safetensors *f = golden_open("references");
    cJSON *kinds = golden_json(f, "kinds");
    char dir[256];
    vc_err err = { 0 };
    (void)state;
    assert_int_equal(tmp_dir_make(dir), 0);
    for (int i = 0; i < cJSON_GetArraySize(kinds); i++) {
        int of[5];
        uint8_t *rgb = bytes_of(f, "picture", i), *want = bytes_of(f, "pixels", i);
        for (int k = 0; k < 5; k++)
            of[k] = cJSON_GetArrayItem(cJSON_GetArrayItem(kinds, i), k)->valueint;
        compare(dir, rgb, want, of);
        free(rgb);
        free(want);
    }
    assert_ok(vc_remove_tree(dir, &err), &err);
    cJSON_Delete(kinds);
    vf_safetensors_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(as_the_pipelines) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
