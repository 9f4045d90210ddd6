/* test_lora_targets.c - targets match the same modules as in peft. The golden is `lora`. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "formats/json/json.h"
#include "tests/lib/golden.h"
#include "tests/lib/ok.h"
#include "train/models/lora.h"

/* The golden lists the modules that peft matches for each value; an empty list is an error in
 * peft. */
static void targets_equal_peft(void **state)
{
    (void)state;
    vf_safetensors *golden = golden_open("lora");
    cJSON *all = golden_json(golden, "modules"), *cases = golden_json(golden, "targets");
    const char *modules[256] = { 0 };
    int n = 0;
    for (const cJSON *m = all->child; m; m = m->next)
        modules[n++] = m->valuestring;
    for (const cJSON *c = cases->child; c; c = c->next) {
        vtrain_targets *t;
        char *note;
        vc_err err = { 0 };
        int rc = vtrain_targets_open(&t, c->string, modules, (const char *const[]){ NULL }, NULL,
                                     &note, &err);
        if ((rc == 0) != (c->child != NULL))
            fail_msg("%s: %s", c->string, rc ? err.text : "taken");
        for (int i = 0; !rc && i < n; i++) {
            bool want = false;
            for (const cJSON *m = c->child; m; m = m->next)
                want |= !strcmp(m->valuestring, modules[i]);
            if (vtrain_targets_match(t, modules[i]) != want)
                fail_msg("\"%s\" and %s: peft says %s", c->string, modules[i], want ? "yes" : "no");
        }
        free(note);
        vtrain_targets_close(t);
    }
    assert_true(cJSON_GetArraySize(cases) >= 30);
    cJSON_Delete(all);
    cJSON_Delete(cases);
    vf_safetensors_close(golden);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(targets_equal_peft) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
