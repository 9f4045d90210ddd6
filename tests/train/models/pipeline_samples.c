/* pipeline_samples.c - datasets with a golden's prompt, and samples; see pipeline_samples.h */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "formats/json/json.h"
#include "tests/lib/golden.h"
#include "tests/lib/ok.h"
#include "tests/lib/train_run.h"
#include "tests/train/models/pipeline_samples.h"

int pipeline_models_make(void **state, const char *const *names)
{
    static char dir[256];
    toy_dir_make(dir);
    for (; *names; names++) {
        vf_safetensors *f = golden_open(*names);
        char *path = vc_path_join(dir, *names);
        golden_model(f, path, VC_BF16);
        vf_safetensors_close(f);
        free(path);
    }
    *state = dir;
    return 0;
}

static vf_key put(vf_writer *w, const vf_view *v, int n, bool text)
{
    uint8_t *st;
    size_t size;
    vc_err err = { 0 };
    assert_ok(vf_safetensors_pack(&st, &size, v, n, NULL, 0, 1, &err), &err);
    const vf_key key = vf_hash(st, size);
    assert_ok(text ? vf_writer_put_text(w, key, st, size, &err)
                   : vf_writer_put_latent(w, key, st, size, &err), &err);
    free(st);
    return key;
}

static vf_view named(const vf_safetensors *gold, const char *from, const char *name)
{
    vf_view v;
    vc_err err = { 0 };
    assert_ok(vf_safetensors_get(gold, from, &v, &err), &err);
    v.name = name;
    return v;
}

/* Adds the keys of a golden's prompt for all text encoders, those of encoder i with the tensors
 * TEXT_i and POOLED_i where the golden has these. An encoder whose states are read may have a
 * pooled vector too, which the transformer does not read. */
static void put_prompt(vf_writer *w, const toy *t, const vf_safetensors *gold, cJSON *record,
                       const char *field, const char *text, const char *pooled)
{
    vf_view v[2] = { named(gold, text, "prompt_embeds") };
    int n = vf_safetensors_get(gold, pooled, &v[1], NULL) ? 1 : 2;
    char hex[VF_KEY_HEX];
    cJSON *keys = cJSON_AddArrayToObject(record, field);
    v[1].name = "pooled";
    for (int i = 0; i < t->encoders; i++) {
        int first = t->pooled_only >> i & 1;
        char *own = vc_format("%s_%d", text, i + 1);
        char *its_pooled = vc_format("%s_%d", pooled, i + 1);
        vf_view its;
        if (!vf_safetensors_get(gold, own, &its, NULL)) {
            v[0] = named(gold, own, "prompt_embeds");
            n = 1;
        }
        if (!vf_safetensors_get(gold, its_pooled, &its, NULL)) {
            v[1] = named(gold, its_pooled, "pooled");
            n = 2;
        }
        free(its_pooled);
        cJSON_AddItemToArray(keys, cJSON_CreateString(vf_key_hex(hex, put(w, v + first, n - first,
                                                                          true))));
        free(own);
    }
}

/* Puts the golden's tensor `from` as `name`, if the golden has the tensor, and adds its key as
 * `from`. */
static void put_condition(vf_writer *w, const vf_safetensors *gold, const char *from,
                          const char *name, cJSON *to)
{
    char hex[VF_KEY_HEX];
    vf_view v;
    if (vf_safetensors_get(gold, from, &v, NULL))
        return;
    v.name = name;
    cJSON_AddStringToObject(to, from, vf_key_hex(hex, put(w, &v, 1, false)));
}

void pipeline_set_make(toy t, const vf_safetensors *gold, int frames)
{
    vf_writer *w = toy_open(&t, 0, true);
    vc_err err = { 0 };
    cJSON *o = cJSON_CreateObject(), *conditions = cJSON_AddObjectToObject(o, "conditions");
    for (int i = 0; i < t.n; i++)
        toy_put(w, &t, &t.sample[i]);
    cJSON_AddStringToObject(o, "prompt", "a disc");
    put_prompt(w, &t, gold, o, "keys", "text", "pooled");
    put_prompt(w, &t, gold, o, "negative_keys", "negative_text", "negative_pooled");
    put_condition(w, gold, "image", "mean", o);
    put_condition(w, gold, "video", "mean", conditions);
    put_condition(w, gold, "reactive", "mean", conditions);
    put_condition(w, gold, "control", "mean", conditions);
    put_condition(w, gold, "mask", "mask", conditions);
    put_condition(w, gold, "vision", "image_embeds", conditions);
    put_condition(w, gold, "start", "mean", conditions);
    put_condition(w, gold, "last", "mean", conditions);
    for (int k = 0; k < VC_REFERENCES; k++)
        put_condition(w, gold, vc_roles[VC_ROLE_REFERENCE + k].name, "mean", conditions);
    cJSON_AddNumberToObject(o, "num_frames", frames);
    cJSON_AddNumberToObject(o, "seed", atoi(vf_safetensors_meta(gold, "seed")));
    assert_ok(vf_writer_put_validation(w, 0, o, &err), &err);
    cJSON_Delete(o);
    toy_finish(w);
}

int pipeline_run(const char *dir, const char *set, const char *model, const char *more,
                 vc_err *err)
{
    char *args = vc_format("--latents %s/%s --transformer %s/%s --output_dir %s/out-%s-%s "
                           "--training_type lora --rank 1 --learning_rate 1e-20 "
                           "--max_train_steps 1 --mixed_precision no --threads 1 --workers 1 "
                           "--train_batch_size 1 %s",
                           dir, set, dir, model, dir, set, model, more);
    int rc = run_bare(args, err);
    free(args);
    return rc;
}

char *pipeline_folder(const char *dir, const char *class, const char *scheduler)
{
    char *model = vc_path_join(dir, class), *folder = vc_path_join(model, "scheduler");
    char *config = vc_path_join(folder, "scheduler_config.json");
    char *index = vc_path_join(model, "model_index.json");
    char *text = vc_format("{\"_class_name\":\"%s\"}", class);
    OK(vc_mkdirs(folder, &err));
    OK(vc_file_write(config, scheduler, strlen(scheduler), &err));
    OK(vc_file_write(index, text, strlen(text), &err));
    free(folder);
    free(config);
    free(index);
    free(text);
    return model;
}

vf_safetensors *pipeline_sample_check(const char *path, const vf_safetensors *gold)
{
    vf_safetensors *f;
    vc_err err = { 0 };
    vf_view v, want = named(gold, "latents", "latents");
    assert_ok(vf_safetensors_open(&f, path, &err), &err);
    assert_ok(vf_safetensors_get(f, "latents", &v, &err), &err);
    assert_int_equal(v.nd, want.nd);
    assert_memory_equal(v.dim, want.dim, sizeof *v.dim * (size_t)v.nd);
    double e = golden_error(v.data, want.data, vf_view_count(&v));
    print_message("%s: %.2g\n", path, e);
    if (!(e <= 5e-5))
        fail_msg("%s: %g", path, e);
    assert_true(atof(vf_safetensors_meta(f, "guidance_scale")) ==
                atof(vf_safetensors_meta(gold, "guidance")));
    return f;
}

void pipeline_goldens_check(const char *dir, toy (*toy_of)(const char *path), const char *model,
                            const char *const *goldens)
{
    for (; *goldens; goldens++) {
        char *path = vc_path_join(dir, *goldens);
        char *out = vc_format("%s/out-%s-%s/validation/step-1/000.safetensors", dir, *goldens,
                              model);
        vf_safetensors *gold = golden_open(*goldens);
        vc_err err = { 0 };
        pipeline_set_make(toy_of(path), gold, 1);
        const char *flags = vf_safetensors_meta(gold, "flags");
        char *more = vc_format("--validation_steps 1 --num_inference_steps %s --guidance_scale %s "
                               "%s", vf_safetensors_meta(gold, "steps"),
                               vf_safetensors_meta(gold, "guidance"), flags ? flags : "");
        assert_ok(pipeline_run(dir, *goldens, model, more, &err), &err);
        vf_safetensors_close(pipeline_sample_check(out, gold));
        vf_safetensors_close(gold);
        free(path);
        free(out);
        free(more);
    }
}

void pipeline_defaults_check(const char *dir, toy (*toy_of)(const char *path), const char *model,
                             const char *golden, const char *steps, const char *guidance)
{
    vc_err err = { 0 };
    vf_safetensors *gold = golden_open(golden);
    char *path = vc_path_join(dir, "plain");
    char *name = vc_format("out-plain-%s/validation/step-1/000.safetensors", model);
    pipeline_set_make(toy_of(path), gold, 1);
    assert_ok(pipeline_run(dir, "plain", model, "--validation_steps 1", &err), &err);
    vf_safetensors *f = run_open(dir, name);
    assert_string_equal(vf_safetensors_meta(f, "num_inference_steps"), steps);
    assert_string_equal(vf_safetensors_meta(f, "guidance_scale"), guidance);
    vf_safetensors_close(f);
    vf_safetensors_close(gold);
    free(path);
    free(name);
}
