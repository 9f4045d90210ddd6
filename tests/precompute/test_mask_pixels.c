/* test_mask_pixels.c - masks with a number for each pixel have the numbers of FluxFillPipeline
 * (scripts/golden/flux.py); a plan's line has no mask of a file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "precompute/media/masks.h"
#include "tests/lib/golden.h"

enum { SIDE = 8 };

/* Row b of pixels [B,h,w] makes row b of cond.mask [B,64,1,h/8,w/8]. */
static void check_case(const vf_safetensors *f, const char *name)
{
    char tensor[40];
    int64_t dim[8], of[8];

    snprintf(tensor, sizeof tensor, "%s/pixels", name);
    float *pixels = golden_values(f, tensor, dim);
    snprintf(tensor, sizeof tensor, "%s/cond.mask", name);
    float *want = golden_values(f, tensor, of);
    const size_t area = (size_t)(dim[1] * dim[2]);
    float *got = malloc(area * sizeof *got);
    uint8_t *scratch = malloc(area);
    assert_true(got && scratch);
    assert_int_equal(of[1], SIDE * SIDE);
    for (int64_t b = 0; b < dim[0]; b++) {
        mask m = { .kind = MASK_FILE, .f = 1, .h = (int)dim[1], .w = (int)dim[2],
                   .pixels = malloc(area) };
        assert_non_null(m.pixels);
        for (size_t i = 0; i < area; i++)
            m.pixels[i] = pixels[(size_t)b * area + i] > 0;
        mask_pixels(got, &m, 1, SIDE, scratch);
        assert_memory_equal(got, want + (size_t)b * area, area * sizeof *got);
        assert_false(mask_is_all(&m));
        mask_free(&m);
    }
    free(pixels);
    free(want);
    free(got);
    free(scratch);
}

static void test_pixels(void **state)
{
    vf_safetensors *f = golden_open("flux-fill");
    (void)state;
    check_case(f, "base");
    check_case(f, "tall");
    vf_safetensors_close(f);
}

static void test_plan(void **state)
{
    cJSON *line = cJSON_Parse("{\"purpose\":\"mask\",\"pick\":\"file\",\"numbers\":[]}");
    mask m;
    vc_err err = { 0 };
    (void)state;
    assert_int_equal(mask_parse(&m, line, 1, SIDE, SIDE, &err), VC_EINVAL);
    assert_non_null(strstr(err.text, "no kind \"file\""));
    cJSON_Delete(line);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_pixels),
                                        cmocka_unit_test(test_plan) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
