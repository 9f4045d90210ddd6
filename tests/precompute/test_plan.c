/* test_plan.c - a replayed plan makes the samples of the first run, and 10,000 damaged plans cause
 * no crash. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "precompute/vprep/plan_lines.h"
#include "tests/lib/mutate.h"

/* The lines that vprep writes for the two rows of fuzz_plan.c. */
static const char seed[] =
    "{\"sample\":0,\"id\":\"1111111111111111\",\"variant\":0,\"path\":\"a.mp4\",\"type\":\"video\","
    "\"captions\":[\"a cat\"],\"source\":{\"w\":640,\"h\":360,\"frames\":100,\"fps\":25,"
    "\"rotation\":0},"
    "\"draws\":[{\"purpose\":\"start\",\"range\":[0,83],\"pick\":3}],\"key\":\"0.57\","
    "\"target\":[96,160],"
    "\"resize\":[96,170],\"crop\":[0,5],\"flip\":false,\"frames\":[3,7,11,15,19],\"fps\":6.25,"
    "\"upscale\":1,"
    "\"latent\":[2,12,20],\"tokens\":120,\"status\":\"ok\"}\n"
    "{\"sample\":1,\"id\":\"2222222222222222\",\"variant\":0,\"path\":\"b.png\",\"type\":\"image\","
    "\"captions\":[\"a cat\"],\"source\":{\"w\":300,\"h\":500,\"frames\":1,\"fps\":0,"
    "\"rotation\":0}"
    ","
    "\"draws\":[],\"key\":\"1.67\",\"target\":[160,96],\"resize\":[160,96],\"crop\":[0,0],"
    "\"flip\":false,"
    "\"frames\":[0],\"fps\":0,\"upscale\":1,\"latent\":[1,20,12],\"tokens\":60,\"status\":\"ok\"}"
    "\n";

static void mutated_plans(void **state)
{
    (void)state;
    assert_int_equal(LLVMFuzzerTestOneInput((const uint8_t *)seed, sizeof seed - 1), 0);
    mutate_run(seed, sizeof seed - 1, 1, 10000, LLVMFuzzerTestOneInput);
}

/* Edits that break a rule are refused, and the message names the rule. */
static const struct {
    const char *from, *to, *says;
} edits[] = {
    { "\"target\":[96,160]", "\"target\":[96,161]",
      "target: 96 161: sides must be multiples of 16" },
    { "\"crop\":[0,5]", "\"crop\":[0,11]", "crop: 0 11" },
    { "\"frames\":[3,7,11,15,19]", "\"frames\":[3,7,11,15]", "frames: 4 of them" },
    { "\"frames\":[3,7,11,15,19]", "\"frames\":[3,7,11,15,100]", "frames: entry 4" },
    { "\"frames\":[3,7,11,15,19]", "\"frames\":[3,7,6,15,19]", "frames: entry 2" },
    { "\"resize\":[96,170]", "\"resize\":[96]", "resize: expected two integers" },
    { "\"id\":\"1111111111111111\"", "\"id\":\"3333333333333333\"", "not in the metadata" },
    { "\"sample\":0,", "\"sample\":-1,", "out of range" },
    { "\"range\":[0,83],\"pick\":3", "\"options\":{\"a\":\"1\"},\"pick\":3",
      "draws: expected objects, whose options are lists" },
    { "{\"purpose\":\"start\",\"range\":[0,83],\"pick\":3}", "[{\"options\":1}]",
      "draws: expected objects" },
    { "\"draws\":[{\"purpose\":\"start\",\"range\":[0,83],\"pick\":3}]", "\"draws\":{\"a\":1}",
      "draws: expected a list" },
};

static void edited_plans(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        const char *at = strstr(seed, edits[i].from);
        assert_non_null(at);
        char *text = vc_format("%.*s%s%s", (int)(at - seed), seed, edits[i].to,
                               at + strlen(edits[i].from));
        char path[] = "/tmp/vlt-plan-XXXXXX";
        int fd = mkstemp(path);
        vc_err err = { 0 };
        assert_true(fd >= 0);
        assert_int_equal(vc_file_write(path, text, strlen(text), &err), 0);

        vf_row rows[2] = { { .id = 0x1111111111111111, .path = (char *)"a" },
                           { .id = 0x2222222222222222, .path = (char *)"b" } };
        vprep_source sources[2] = { { .ok = true, .is_video = true, .frames = 100 },
                                    { .ok = true, .frames = 1 } };
        vprep p = { .list = { .meta = { .rows = rows, .n = 2 }, .sources = sources } };
        p.c.plan = path;
        vb_rules_default(&p.rules, vc_family_find("builtin"));
        assert_int_not_equal(plan_replay(&p, &err), 0);
        if (!strstr(err.text, edits[i].says) || !strstr(err.text, "line 1"))
            fail_msg("edit %zu: \"%s\" does not say \"%s\"", i, err.text, edits[i].says);
        vc_map_close(&p.plan.file);
        free(p.plan.items);
        free(text);
        close(fd);
        unlink(path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mutated_plans),
        cmocka_unit_test(edited_plans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
