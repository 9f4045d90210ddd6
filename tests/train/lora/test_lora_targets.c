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
#include "train/lora/lora.h"

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

/* An expression that tries too many ways to divide a path is refused, not taken for no match. */
static void test_endless(void **state)
{
    static const char *const modules[] = {
        "transformer_blocks.0.attn1.to_q.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "proj_out", NULL
    };
    static const char *const values[] = { "((\\w+)+\\.?)+!|proj_out", "(a|aa|.)+!|proj_out" };
    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        vtrain_targets *t;
        char *note;
        vc_err err = { 0 };
        assert_fails(vtrain_targets_open(&t, values[i], modules, (const char *const[]){ NULL },
                                         NULL, &note, &err), VC_EUSAGE, &err,
                     "more than 10000000 steps");
        assert_non_null(strstr(err.text, "--target_name"));
    }
}

/* ---- the value for a list of modules ---- */

/* Names in blocks where these are exact; else an expression, in which numbers of blocks are any
 * number, or those that are chosen. */
static void test_value_of_list(void **state)
{
    static const char *const modules[] = {
        "proj_out", "a.0.to_q", "a.0.to_k", "a.0.ff.proj_out", "a.1.to_q", "a.1.to_k",
        "a.1.ff.proj_out", "a.12.to_q", "b.0.to_q", NULL
    };
    static const struct { const char *chosen, *value; } rows[] = {
        { "124578", "to_q,to_k" }, { "25", "to_k" }, { "36", "ff.proj_out" },
        { "0", "(proj_out)" }, { "1478", "to_q" }, { "147", "(a\\.[0-9]+\\.to_q)" },
        { "14", "(a\\.(0|1)\\.to_q)" }, { "7", "(a\\.(12)\\.to_q)" },
        { "02", "(proj_out|a\\.(0)\\.to_k)" }, { "012345678", "proj_out,to_q,to_k,ff.proj_out" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *chosen[10] = { NULL };
        char *value, *note;
        vtrain_targets *t;
        vc_err err = { 0 };
        for (int k = 0; rows[i].chosen[k]; k++)
            chosen[k] = modules[rows[i].chosen[k] - '0'];
        assert_ok(vtrain_targets_of(&value, modules, chosen, &err), &err);
        assert_string_equal(value, rows[i].value);
        const char *const none[] = { NULL };
        assert_ok(vtrain_targets_open(&t, value, modules, none, NULL, &note, &err), &err);
        for (int k = 0; modules[k]; k++)
            assert_int_equal(vtrain_targets_match(t, modules[k]),
                             strchr(rows[i].chosen, '0' + k) != NULL);
        vtrain_targets_close(t);
        free(value);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_value_of_list),
        cmocka_unit_test(targets_equal_peft), cmocka_unit_test(test_endless) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
