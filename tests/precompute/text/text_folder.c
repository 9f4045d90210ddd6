/* text_folder.c - writes the models of goldens as folders: see text_folder.h */
#include "tests/precompute/text/text_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/families.h"
#include "common/os/file.h"
#include "formats/json/json.h"
#include "formats/tensors/model.h"
#include "tests/lib/ok.h"

tf_fixture tf_open(const char *name, vc_dtype stored)
{
    tf_fixture f = { .gold = golden_open(name) };
    snprintf(f.dir, sizeof f.dir, "%s", golden_tmp(name));
    golden_model(f.gold, f.dir, stored);
    return f;
}

void tf_close(tf_fixture *f)
{
    vc_err err;
    assert_ok(vc_remove_tree(f->dir, &err), &err);
    vf_safetensors_close(f->gold);
}

bool tf_poison(vf_view *v, const void *name)
{
    static float row[TF_ROW];
    if (strcmp(v->name, name))
        return true;
    assert_true(v->dtype == VC_F32 && vf_view_count(v) <= TF_ROW);
    for (int i = 0; i < TF_ROW; i++)
        row[i] = strtof("nan", NULL);
    v->data = row;
    return true;
}

bool tf_below(vf_view *v, const void *prefix)
{
    static char name[TF_TENSORS][80];
    static int next;

    next = (next + 1) % TF_TENSORS;
    snprintf(name[next], sizeof *name, "%s%s", (const char *)prefix, v->name);
    v->name = name[next];
    return true;
}

bool tf_without(vf_view *v, const void *name)
{
    return strcmp(v->name, name) != 0;
}

void tf_put_text(const char *dir, const char *name, const char *text)
{
    char *path = vc_path_join(dir, name);
    vc_err err = { 0 };
    assert_ok(vc_file_write(path, text, strlen(text), &err), &err);
    free(path);
}

/* Writes tensor i into shard i % shards of dir, and the index; one shard is one whole file. */
static void write_shards(const char *dir, const vf_view *t, int n, int shards)
{
    vc_err err = { 0 };
    cJSON *index = cJSON_CreateObject(), *map = cJSON_AddObjectToObject(index, "weight_map");

    for (int s = 0; s < shards; s++) {
        vf_view mine[TF_TENSORS];
        int k = 0;
        char *name = shards == 1 ? vc_format("model.safetensors")
                                 : vc_format("model-%05d-of-%05d.safetensors", s + 1, shards);
        char *path = vc_path_join(dir, name);
        for (int i = s; i < n; i += shards) {
            cJSON_AddStringToObject(map, t[i].name, name);
            mine[k++] = t[i];
        }
        assert_ok(vf_safetensors_write(path, mine, k, NULL, 0, &err), &err);
        free(path);
        free(name);
    }
    char *text = vf_json_line(index);
    if (shards > 1)
        tf_put_text(dir, "model.safetensors.index.json", text);
    free(text);
    cJSON_Delete(index);
}

void tf_write(const tf_fixture *f, const char *dir, const char *config, tf_edit *edit,
                        const void *arg, int shards, const vf_view *more, int n_more)
{
    vf_model *m;
    vf_view t[TF_TENSORS];
    vc_err err = { 0 };
    int n = 0;

    assert_ok(vc_mkdirs(dir, &err) || vf_model_open(&m, f->dir, &err), &err);
    for (int i = 0; i < vf_model_count(m); i++) {
        t[n] = *vf_model_at(m, i);
        n += !edit || edit(&t[n], arg);
    }
    for (int i = 0; i < n_more; i++)
        t[n++] = more[i];
    write_shards(dir, t, n, shards);
    tf_put_text(dir, "config.json", config ? config : vf_safetensors_meta(f->gold, "config"));
    vf_model_close(m);
}

char *tf_changed(const tf_fixture *f, const char *field, const char *value)
{
    cJSON *o = golden_json(f->gold, "config"), *v;
    vc_err err = { 0 };
    cJSON_DeleteItemFromObjectCaseSensitive(o, field);
    if (value) {
        assert_ok(vf_json_parse(&v, value, strlen(value), &err), &err);
        cJSON_AddItemToObject(o, field, v);
    }
    char *line = vf_json_line(o);
    cJSON_Delete(o);
    return line;
}

void tf_put_config(const tf_fixture *f, const char *text)
{
    tf_put_text(f->dir, "config.json", text);
}

text_rule tf_pipeline_rule(const char *family, const char *pipeline, int slot)
{
    const vc_family *f = vc_family_find(family);
    const vc_pipeline *p = pipeline ? vc_family_pipeline(f, pipeline) : NULL;
    const vc_text *t = &vc_family_texts(f, p)[slot];

    assert_true(!pipeline || p);
    text_rule rule = { .max_length = t->max_length, .template = t->template, .crop = t->crop,
                        .lead = t->lead, .tail = t->tail, .chat = t->chat, .without = t->without,
                        .skip = t->skip, .taps_inner = t->taps_inner,
                        .unnormed = t->unnormed, .clean = t->clean, .uncleaned = t->uncleaned,
                        .masked = t->masked, .unpadded = t->unpadded,
                        .padding = t->padding, .blank = t->blank, .quoted = t->quoted,
                        .pooled_only = t->pooled_only };
    memcpy(rule.taps, t->taps, sizeof rule.taps);
    return rule;
}

text_rule tf_rule(const char *family, int slot)
{
    return tf_pipeline_rule(family, NULL, slot);
}

void tf_put_tokenizer(const tf_fixture *f, const char *pad)
{
    const char *chat = vf_safetensors_meta(f->gold, "chat_template");
    const char *alone = vf_safetensors_meta(f->gold, "tokenizer_config");
    cJSON *config = cJSON_CreateObject();

    cJSON_AddStringToObject(config, "pad_token", pad);
    if (chat)
        cJSON_AddStringToObject(config, "chat_template", chat);
    char *text = vf_json_line(config);
    if (!alone)
        tf_put_text(f->dir, "tokenizer.json", vf_safetensors_meta(f->gold, "tokenizer"));
    tf_put_text(f->dir, "tokenizer_config.json", alone ? alone : text);
    free(text);
    cJSON_Delete(config);
}

encoder_opts tf_alone(const char *dir, vc_dtype type)
{
    return (encoder_opts){ .dir = dir, .dtype = type, .device = golden_device(), .threads = 1 };
}

encoder_opts tf_options(const tf_fixture *f, const char *family, int slot, vc_dtype type)
{
    return (encoder_opts){ .dir = f->dir, .tokenizer = f->dir, .text = tf_rule(family, slot),
                           .dtype = type, .device = golden_device(), .threads = 1 };
}
