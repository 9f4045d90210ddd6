/* test_two_transformers.c - a model folder with two transformers, and a boundary between their
 * noise levels: a run trains the right transformer on the right levels, and writes the right
 * files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "formats/tensors/safetensors.h"
#include "tests/lib/train_dataset.h"
#include "tests/lib/train_run.h"
#include "tests/lib/two_models.h"

#define BOUNDARY TWO_BOUNDARY

/* Checks that the levels of all traced steps lie below the boundary (low) or above, and differ. */
static void levels_are(const char *dir, const char *trace, int steps, bool low)
{
    float least = 2, most = -1;
    for (int step = 1; step <= steps; step++) {
        char *path = vc_format("%s/%s/step-%06d-mb-00-rank-00.safetensors", dir, trace, step);
        vf_safetensors *f;
        vf_view v;
        vc_err err = { 0 };
        if (vf_safetensors_open(&f, path, &err) || vf_safetensors_get(f, "sigmas", &v, &err))
            fail_msg("%s", err.text);
        for (int64_t i = 0; i < vf_view_count(&v); i++) {
            float s = ((const float *)v.data)[i];
            least = s < least ? s : least;
            most = s > most ? s : most;
        }
        vf_safetensors_close(f);
        free(path);
    }
    assert_true(least < most);
    if (low)
        assert_true(least > 0 && (double)most < BOUNDARY);
    else
        assert_true((double)least >= (double)(float)BOUNDARY && most <= 1);
}

/* range: the same of a list of levels with shift 5, as DiffSynth-Studio's users give one. */
static const struct { const char *type, *folder, *other, *range; } part[] = {
    { "high", "transformer", "transformer_2", "--max_timestep_boundary 0.769" },
    { "low", "transformer_2", "transformer", "--min_timestep_boundary 0.769" },
};

/* Whether all tensors of both files are equal, except for zeros that a rate of 1e-30 changed. */
static bool same_weights(const char *a, const char *b)
{
    vf_safetensors *f, *g;
    bool same = true;
    vc_err err = { 0 };
    if (vf_safetensors_open(&f, a, &err) || vf_safetensors_open(&g, b, &err))
        fail_msg("%s", err.text);
    for (int i = 0; i < vf_safetensors_count(f); i++) {
        const vf_view *x = vf_safetensors_at(f, i);
        vf_view y;
        if (vf_safetensors_get(g, x->name, &y, &err))
            fail_msg("%s", err.text);
        for (int64_t k = 0; k < vf_view_count(x); k++) {
            float d = ((const float *)x->data)[k] - ((const float *)y.data)[k];
            same = same && d < 1e-20f && d > -1e-20f;
        }
    }
    vf_safetensors_close(f);
    vf_safetensors_close(g);
    return same;
}

/* With a rate that changes nothing, the checkpoint has the first weights of the run under their own
 * name, and the other transformer beside them, so that both transformers can be trained further. */
static void full_finetune(void **state)
{
    const char *dir = *state;
    for (int i = 0; i < 2; i++) {
        char *args = vc_format("--model %s/two --training_type full-finetune --boundary_type %s "
                               "--learning_rate 1e-30 --max_train_steps 8 --trace_steps 8 "
                               "--trace_dir %s/trace-%s", dir, part[i].type, dir, part[i].type);
        char *out = vc_format("full-%s", part[i].type);
        char *trace = vc_format("trace-%s", part[i].type);
        run_ok(dir, out, args);
        levels_are(dir, trace, 8, i);
        for (int k = 0; k < 2; k++) {
            const char *folder = k ? part[i].other : part[i].folder;
            char *made = vc_format("%s/%s/checkpoint-8/%s/" TWO_FILE, dir, out, folder);
            char *had = vc_format("%s/two/%s/" TWO_FILE, dir, folder);
            assert_true(same_weights(made, had));
            free(made);
            free(had);
        }
        char *again = vc_format("--model %s/%s/checkpoint-8 --training_type full-finetune "
                                "%s --max_train_steps 1", dir, out, part[1 - i].range);
        char *then = vc_format("then-%s", part[i].type);
        run_ok(dir, then, again);
        size_t n;
        char *config = vc_path_join(then, "config.yaml"), *yaml = two_text(dir, config, &n);
        char *type = vc_format("boundary_type: %s", part[1 - i].type);
        assert_non_null(strstr(yaml, type));
        free(type);
        free(yaml);
        free(config);
        char *page = vc_path_join(out, "report.html"), *html = two_text(dir, page, &n);
        char *says = vc_format("full finetune of %s:", part[i].folder);
        assert_non_null(strstr(html, says));
        free(says);
        free(html);
        free(page);
        free(then);
        free(again);
        free(trace);
        free(out);
        free(args);
    }
}

/* A LoRA names its transformer, and is refused for the other. */
static void lora(void **state)
{
    const char *dir = *state;
    vc_err err = { 0 };
    for (int i = 0; i < 2; i++) {
        char *args = vc_format("--model %s/two --rank 2 --boundary_type %s --target_name to_q "
                               "--max_train_steps 1", dir, part[i].type);
        char *out = vc_format("lora-%s", part[i].type);
        run_ok(dir, out, args);
        char *path = vc_format("%s/%s/checkpoint-1/pytorch_lora_weights.safetensors", dir, out);
        vf_safetensors *f;
        assert_int_equal(vf_safetensors_open(&f, path, &err), 0);
        assert_string_equal(vf_safetensors_meta(f, "vlt_transformer"), part[i].folder);
        vf_safetensors_close(f);
        static const char *const flags[] = { "lora_checkpoint", "preset_lora_path" };
        for (int k = 0; k < 4; k++) {
            bool same = k / 2;
            char *more = vc_format("--model %s/two --rank 2 --boundary_type %s --target_name to_q "
                                   "--max_train_steps 1 --%s %s", dir,
                                   part[same ? i : 1 - i].type, flags[k % 2], path);
            char *name = vc_format("more-%d-%d", i, k);
            int rc = run(dir, name, more, &err);
            assert_int_equal(rc, same ? 0 : VC_EMISMATCH);
            if (rc && (!strstr(err.text, part[i].folder) || !strstr(err.text, flags[k % 2])))
                fail_msg("%s", err.text);
            free(name);
            free(more);
        }
        char *resume = vc_format("--model %s/two --rank 2 --boundary_type %s --target_name to_q "
                                 "--max_train_steps 2 --allow_mismatch "
                                 "--resume_from_checkpoint latest", dir, part[1 - i].type);
        assert_int_equal(run(dir, out, resume, &err), VC_EMISMATCH);
        assert_non_null(strstr(err.text, "--boundary_type"));
        free(resume);
        free(path);
        free(out);
        free(args);
    }
}

static const struct { const char *args, *says; } wrong[] = {
    { "--model %s/two", "has two transformers (boundary_ratio 0.6): give high" },
    { "--model %s/two --boundary_type both --training_type full-finetune", "trains LoRAs" },
    { "--model %s/two --boundary_type both --optimizer adamw --lora_checkpoint none",
      "lora_check" },
    { "--transformer %s/two/transformer_2 --boundary_type high", "for low noise, as its name" },
    { "--boundary_type high --transformer %s/two/transformer_2/" TWO_FILE, "give --boundary_type "
      "low" },
    { "--boundary_type low --transformer %s/two/transformer", "for high noise, as its name" },
    { "--boundary_type both --transformer %s/two/transformer", "other with --transformer_high" },
    { "--boundary_type both --model %s/high/checkpoint-2", "no boundary_ratio" },
    { "--transformer_high %s/two/transformer", "the other transformer is missing" },
    { "--model %s/two --transformer_high two/none", "no such file" },
    { "--model %s/two --boundary_type full", "has two transformers" },
    { "--model %s/two --boundary_type middle", "--boundary_type" },
    { "--model %s/high/checkpoint-2 --boundary_type high", "no boundary_ratio" },
    { "--boundary_type low", "no boundary_ratio" },
    { "--model %s/two --boundary_type low --validation_steps 1", "needs both transformers" },
    { "--model %s/two --max_timestep_boundary 0.417", "one side of 0.875, but the model's "
      "boundary_ratio is 0.6" },
    { "--model %s/two --max_timestep_boundary 0.77 --min_timestep_boundary 0.5", "on one side" },
    { "--model %s/two --max_timestep_boundary 0.77 --boundary_type low", "the other "
      "--boundary_type" },
    { "--max_timestep_boundary 0.5 --min_timestep_boundary 0.5", "a part begins below its end" },
    { "--model %s/two --boundary_type low --min_timestep 600", "--boundary_type low trains the "
      "levels below 600 alone" },
    { "--model %s/two --boundary_type high --max_t 0.5", "--boundary_type high trains the levels "
      "from 600 alone" },
    { "--min_timestep 500 --max_timestep 500", "a range begins below its end" },
    { "--min_t 0.2 --max_timestep 600", "--min_t and --max_t: give these or --min_timestep" },
    { "--model %s/ends --boundary_type low", "boundary_ratio: 1" },
    { "--model %s/alone --boundary_type low", "transformer_2 has no config.json" },
};

static void odd_runs_are_refused(void **state)
{
    const char *dir = *state;
    two_put(dir, "ends/model_index.json", "{\"boundary_ratio\":1}", 20);
    two_put(dir, "alone/model_index.json", "{\"boundary_ratio\":0.5}", 22);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        vc_err err = { 0 };
        char args[600];
        const char *at = strstr(wrong[i].args, "%s");
        snprintf(args, sizeof args, "%.*s%s%s --max_train_steps 1",
                 at ? (int)(at - wrong[i].args) : 0, wrong[i].args, at ? dir : "",
                 at ? at + 2 : wrong[i].args);
        if (!run(dir, "wrong", args, &err))
            fail_msg("taken: %s", args);
        if (!strstr(err.text, wrong[i].says))
            fail_msg("%s: %s", args, err.text);
    }
    assert_false(run_exists(dir, "wrong/metrics.jsonl"));
}

static int setup(void **state)
{
    int rc = run_dir_setup(state);
    if (!rc)
        two_make(*state);
    return rc;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_finetune), cmocka_unit_test(lora),
        cmocka_unit_test(odd_runs_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, toy_dir_teardown);
}
