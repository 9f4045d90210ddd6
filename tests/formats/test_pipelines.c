/* test_pipelines.c - each of diffusers' pipelines (tests/golden/pipelines.json) is a family's or
 * has a row among the others, and each of these rows takes a class. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/families.h"
#include "common/os/file.h"
#include "formats/json/json.h"
#include "formats/models/pipelines.h"
#include "tests/lib/ok.h"

static bool is_known(const char *class)
{
    bool known = false;
    for (const vc_family *f = vc_families(); !known && f->name; f++)
        known = vc_family_pipeline(f, class) != NULL;
    return known;
}

static void diffusers_classes(void **state)
{
    cJSON *o;
    const cJSON *name;
    vc_err err = { 0 };
    int known = 0, others = 0;

    (void)state;
    char *dir = vc_path_join(getenv("VLT_SOURCE"), "tests/golden");
    assert_ok(vf_json_read_in_opt(&o, dir, "pipelines.json", 1 << 20, &err), &err);
    assert_non_null(o);
    free(dir);
    cJSON_ArrayForEach(name, cJSON_GetObjectItemCaseSensitive(o, "pipelines")) {
        const bool here = is_known(name->valuestring);
        if (!here && !vf_other_pipeline_of(name->valuestring))
            fail_msg("%s has neither a family nor a row of pipelines.c", name->valuestring);
        known += here;
        others += !here;
    }
    assert_true(known > 25 && others > 200);
    cJSON_Delete(o);
}

/* A row's class is first matched by itself, so that each row counts, and a row has one reason. */
static void rows(void **state)
{
    (void)state;
    for (const vf_other_pipeline *p = vf_other_pipelines; p->class; p++) {
        char class[80];
        snprintf(class, sizeof class, "%s", p->class + (*p->class == '*'));
        for (char *c = class; (c = strpbrk(c, "*?"));)
            *c = 'I';
        if (vf_other_pipeline_of(class) != p)
            fail_msg("%s: an earlier row takes it", p->class);
        assert_non_null(p->model);
        assert_true((p->reads != NULL) + (p->same != NULL) + (p->is != NULL) <= 1);
        if (p->same) {
            snprintf(class, sizeof class, "%.*s", (int)strcspn(p->same, " "), p->same);
            assert_true(is_known(class));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(diffusers_classes),
                                        cmocka_unit_test(rows) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
