/* pictured.c - see pictured.h */
#include "tests/precompute/text/pictured.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "tests/lib/ok.h"

void pictured_tokenizer(const char *dir, const char *json, const char *pad)
{
    char *config = vc_format("{\"pad_token\": \"%s\"}", pad);

    tf_put_text(dir, "tokenizer.json", json);
    tf_put_text(dir, "tokenizer_config.json", config);
    free(config);
}

void pictured_put(const tf_fixture *f, const char *dir, const char *pad)
{
    pictured_tokenizer(dir, vf_safetensors_meta(f->gold, "tokenizer"), pad);
    tf_put_text(dir, "preprocessor_config.json", vf_safetensors_meta(f->gold, "image_processor"));
}

tf_fixture pictured_open(const char *golden, const char *pad)
{
    tf_fixture f = tf_open(golden, VC_F32);

    pictured_put(&f, f.dir, pad);
    return f;
}

encoder_opts pictured_options(const char *dir, text_rule rule, vc_dtype type)
{
    return (encoder_opts){ .dir = dir, .tokenizer = dir, .image_processor = dir, .text = rule,
                           .dtype = type, .device = golden_device(), .threads = 1 };
}

vf_view pictured_view(const tf_fixture *f, const char *kind, int i)
{
    char name[32];
    vf_view v;
    vc_err err = { 0 };

    snprintf(name, sizeof name, "%s_%d", kind, i);
    assert_ok(vf_safetensors_get(f->gold, name, &v, &err), &err);
    return v;
}

text_picture pictured_picture(const tf_fixture *f, int i)
{
    const vf_view v = pictured_view(f, "picture", i);
    return (text_picture){ .key = vf_hash(&i, sizeof i), .h = (int)v.dim[0], .w = (int)v.dim[1],
                           .rgb = v.data };
}

void pictured_refused(const text_class *encoder, const encoder_opts *o, int rc, const char *says)
{
    vc_err err = { 0 };
    text_info info;
    text_enc *t;

    assert_fails(text_open(&t, encoder, o, &info, &err), rc, &err, says);
    assert_null(t);
}

void pictured_refused_with(const text_class *encoder, const tf_fixture *f, const encoder_opts *o,
                           const char *field, const char *value, int rc, const char *says)
{
    char *text = tf_changed(f, field, value);

    tf_put_config(f, text);
    free(text);
    pictured_refused(encoder, o, rc, says);
}

char *pictured_data(const char *name)
{
    const char *data = getenv("VLT_TEST_DATA");
    char *path = vc_format("%s/%s", data ? data : "", name);

    if (!data || !vc_file_exists(path)) {
        free(path);
        skip();
    }
    return path;
}
