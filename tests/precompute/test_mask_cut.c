/* test_mask_cut.c - a mask that is cut with its clip keeps the mask of each remaining frame. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "precompute/media/masks.h"
#include "tests/lib/ok.h"

enum { H = 16, W = 24, MOST = 21 };

static void frames_of(const mask *m, int n, uint8_t *px)
{
    for (int t = 0; t < n; t++)
        mask_frame(m, t, px + t * H * W);
}

/* Whether a plan line of the mask is read as the same mask. */
static bool survives_plan(const mask *m)
{
    uint8_t a[MOST * H * W], b[MOST * H * W];
    cJSON *line = mask_json(m);
    const char *pick = cJSON_GetStringValue(cJSON_GetObjectItem(line, "pick"));
    bool listed = false;
    const cJSON *o;
    mask n;
    vc_err err;

    cJSON_ArrayForEach(o, cJSON_GetObjectItem(line, "options"))
        listed |= !strcmp(o->valuestring, pick);
    assert_ok(mask_parse(&n, line, m->f, H, W, &err), &err);
    frames_of(m, m->f, a);
    frames_of(&n, m->f, b);
    bool same = listed && !memcmp(a, b, (size_t)m->f * H * W) && mask_is_all(m) == mask_is_all(&n);
    mask_free(&n);
    cJSON_Delete(line);
    return same;
}

static void test_cut(void **state)
{
    (void)state;
    static uint8_t before[MOST * H * W], after[MOST * H * W];
    int seen[MASK_KINDS] = { 0 }, became[MASK_KINDS] = { 0 };

    for (uint64_t id = 0; id < 4000; id++) {
        vc_draws kind = vc_draws_of(1, id, 0, 5), numbers = vc_draws_of(1, id, 0, 6);
        vc_draws d = vc_draws_of(1, id, 0, 0);
        int loaded = 1 + (int)vc_draw_int(&d, MOST), f = 1 + (int)vc_draw_int(&d, (uint32_t)loaded);
        mask m;
        vc_err err;
        assert_int_equal(mask_draw(&m, loaded, H, W, id % 2, &kind, &numbers, &err), 0);
        mask_kind drawn = m.kind;
        frames_of(&m, f, before);
        mask_cut(&m, f);
        frames_of(&m, f, after);
        if (m.f != f || memcmp(before, after, (size_t)f * H * W))
            fail_msg("id %llu: kind %d, %d of %d frames", (unsigned long long)id, drawn, f, loaded);
        assert_true(survives_plan(&m));
        seen[drawn]++;
        became[m.kind] += m.kind != drawn;
        mask_free(&m);
    }
    for (int k = 0; k < MASK_KINDS; k++)
        assert_true(k == MASK_FILE ? !seen[k] : seen[k] > 0);
    assert_true(became[MASK_KEEP_HEAD] > 0 && became[MASK_BLOCK_IN_TIME] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
