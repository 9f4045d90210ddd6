/* pipeline_samples.c - datasets with a golden's prompt, and samples; see pipeline_samples.h */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "formats/json/json.h"
#include "tests/lib/golden.h"
#include "tests/lib/ok.h"
#include "tests/train/models/pipeline_samples.h"

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

/* Adds the keys of a golden's prompt for all text encoders. An encoder whose states are read has a
 * pooled vector too, which the transformer does not read. */
static void put_prompt(vf_writer *w, const toy *t, const vf_safetensors *gold, cJSON *record,
                       const char *field, const char *text, const char *pooled)
{
    const vf_view v[2] = { named(gold, text, "prompt_embeds"), named(gold, pooled, "pooled") };
    char hex[VF_KEY_HEX];
    cJSON *keys = cJSON_AddArrayToObject(record, field);
    for (int i = 0; i < t->encoders; i++) {
        int first = t->pooled_only >> i & 1;
        cJSON_AddItemToArray(keys, cJSON_CreateString(vf_key_hex(hex, put(w, v + first, 2 - first,
                                                                          true))));
    }
}

void pipeline_set_make(toy t, const vf_safetensors *gold, int frames)
{
    vf_writer *w = toy_open(&t, 0, true);
    vf_view image;
    char hex[VF_KEY_HEX];
    vc_err err = { 0 };
    cJSON *o = cJSON_CreateObject();

    for (int i = 0; i < t.n; i++)
        toy_put(w, &t, &t.sample[i]);
    cJSON_AddStringToObject(o, "prompt", "a disc");
    put_prompt(w, &t, gold, o, "keys", "text", "pooled");
    put_prompt(w, &t, gold, o, "negative_keys", "negative_text", "negative_pooled");
    if (vf_safetensors_get(gold, "image", &image, NULL) == 0) {
        image.name = "mean";
        cJSON_AddStringToObject(o, "image", vf_key_hex(hex, put(w, &image, 1, false)));
    }
    cJSON_AddNumberToObject(o, "num_frames", frames);
    cJSON_AddNumberToObject(o, "seed", atoi(vf_safetensors_meta(gold, "seed")));
    assert_ok(vf_writer_put_validation(w, 0, o, &err), &err);
    cJSON_Delete(o);
    toy_finish(w);
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
