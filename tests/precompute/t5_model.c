/* t5_model.c - see t5_model.h */
#include "tests/precompute/t5_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "formats/json/json.h"
#include "formats/tensors/model.h"
#include "precompute/tokenizer/tokenizer.h"
#include "tests/lib/ok.h"

/* ---- the tokenizer's double: a prompt is numbers, the end is 1, padding 0 ---- */

struct tokenizer { int64_t end; };

int tokenizer_open(tokenizer **out, const char *dir, vc_err *err)
{
    *out = NULL;
    if (strcmp(dir, "double"))
        return vc_fail(err, VC_ENOENT, "%s: no tokenizer", dir);
    *out = calloc(1, sizeof **out);
    (*out)->end = 1;
    return 0;
}

void tokenizer_close(tokenizer *t) { free(t); }

vf_key tokenizer_fingerprint(const tokenizer *t) { return vf_hash(t, sizeof *t); }

int tokenizer_prompt(const tokenizer *t, const char *text, int max_length, int64_t *ids,
                     int64_t *mask, int *n, vc_err *err)
{
    char *end;

    (void)err;
    *n = 0;
    for (long id; *n < max_length - 1 && (id = strtol(text, &end, 10), end != text); text = end)
        ids[(*n)++] = id;
    ids[(*n)++] = t->end;
    for (int i = 0; i < max_length; i++) {
        mask[i] = i < *n;
        ids[i] = mask[i] ? ids[i] : 0;
    }
    return 0;
}

/* ---- models ---- */

/* The golden's queries are a quarter of what fill() gives: see scripts/golden/t5.py. */
static void quarter_queries(const char *from, const char *to)
{
    vf_model *m;
    vf_view t[TT_TENSORS];
    float x[TT_WIDTH * TT_WIDTH], *q[TT_TENSORS] = { 0 };
    vc_err err = { 0 };

    assert_ok(vf_model_open(&m, from, &err), &err);
    for (int i = 0; i < vf_model_count(m); i++) {
        t[i] = *vf_model_at(m, i);
        if (!strstr(t[i].name, ".q.weight")) continue;
        size_t n = (size_t)vf_view_count(&t[i]);
        vc_to_f32(x, t[i].data, t[i].dtype, n);
        for (size_t k = 0; k < n; k++)
            x[k] *= 0.25f;
        t[i].data = q[i] = malloc(t[i].bytes);
        vc_from_f32(q[i], t[i].dtype, x, n);
    }
    assert_ok(vf_safetensors_write(to, t, vf_model_count(m), NULL, 0, &err), &err);
    for (int i = 0; i < TT_TENSORS; i++)
        free(q[i]);
    vf_model_close(m);
}

tt_fixture tt_open(const char *name, vc_dtype stored)
{
    tt_fixture f = { .gold = golden_open(name) };
    snprintf(f.dir, sizeof f.dir, "%s", golden_tmp(name));
    golden_model(f.gold, f.dir, stored);
    char *file = vc_path_join(f.dir, "diffusion_pytorch_model.safetensors");
    quarter_queries(f.dir, file);
    free(file);
    return f;
}

void tt_close(tt_fixture *f)
{
    vc_err err;
    assert_ok(vc_remove_tree(f->dir, &err), &err);
    vf_safetensors_close(f->gold);
}

encoder_opts tt_opts(const char *dir, vc_dtype dtype)
{
    return (encoder_opts){ .dir = dir, .tokenizer = "double", .text = { .max_length = 40 }, .dtype = dtype,
                           .device = golden_device(), .threads = 1 };
}

t5 *tt_model(const char *dir, const char *type, vc_dtype dtype)
{
    encoder_opts o = tt_opts(dir, dtype);
    vc_err err = { 0 };
    vf_key k;
    t5 *m;
    assert_ok(t5_open(&m, &o, type, &k, &err), &err);
    return m;
}

/* Error of the states of the golden's `ids` against its `want`, of as many tokens as want has. */
double tt_error(t5 *m, const vf_safetensors *gold, const char *ids, const char *want)
{
    float states[TT_MOST * TT_WIDTH];
    int64_t dim[8];
    vf_view v;
    vc_err err = { 0 };

    float *w = golden_values(gold, want, dim);
    assert_int_equal(vf_safetensors_get(gold, ids, &v, &err), 0);
    int64_t id[TT_MOST];
    memcpy(id, v.data, v.bytes);
    assert_ok(t5_encode(m, id, (int)dim[0], states, &err), &err);
    double e = golden_error(states, w, dim[0] * dim[1]);
    free(w);
    return e;
}

double tt_error_in(const char *dir, const vf_safetensors *gold, vc_dtype dtype)
{
    t5 *m = tt_model(dir, "t5", dtype);
    double e = tt_error(m, gold, "ids_40", "states_40");
    t5_close(m);
    return e;
}

/* What opening says. */
void tt_refused(const char *dir, const char *type, int rc, const char *says)
{
    encoder_opts o = tt_opts(dir, VC_F32);
    vc_err err = { 0 };
    vf_key k;
    t5 *m = (t5 *)&o;

    int have = t5_open(&m, &o, type, &k, &err);
    assert_null(m);
    if (have != rc || !strstr(err.text, says))
        fail_msg("%s: %d, not %d; \"%s\" is missing from: %s", dir, have, rc, says, err.text);
}

/* ---- forms of checkpoints ---- */

void tt_put_text(const char *dir, const char *name, const char *text)
{
    char *path = vc_path_join(dir, name);
    vc_err err = { 0 };
    assert_ok(vc_file_write(path, text, strlen(text), &err), &err);
    free(path);
}

/* Writes tensor i into shard i % shards of dir, with their index; one shard: a whole file. */
static void write_shards(const char *dir, const vf_view *t, int n, int shards)
{
    vc_err err = { 0 };
    cJSON *index = cJSON_CreateObject(), *map = cJSON_AddObjectToObject(index, "weight_map");

    for (int s = 0; s < shards; s++) {
        vf_view mine[TT_TENSORS];
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
    if (shards > 1) tt_put_text(dir, "model.safetensors.index.json", text);
    free(text);
    cJSON_Delete(index);
}

/* f's tensors through edit, and n_more, into a new folder. config NULL: the golden's. */
void tt_write(const tt_fixture *f, const char *dir, const char *config, tt_edit *edit,
                        const void *arg, int shards, const vf_view *more, int n_more)
{
    vf_model *m;
    vf_view t[TT_TENSORS];
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
    tt_put_text(dir, "config.json", config ? config : vf_safetensors_meta(f->gold, "config"));
    vf_model_close(m);
}

/* The golden's config with a field replaced (value NULL: removed), or added. */
char *tt_changed(const tt_fixture *f, const char *field, const char *value)
{
    const char *text = vf_safetensors_meta(f->gold, "config");
    cJSON *o, *v;
    vc_err err = { 0 };
    assert_ok(vf_json_parse(&o, text, strlen(text), &err), &err);
    cJSON_DeleteItemFromObjectCaseSensitive(o, field);
    if (value) {
        assert_ok(vf_json_parse(&v, value, strlen(value), &err), &err);
        cJSON_AddItemToObject(o, field, v);
    }
    char *line = vf_json_line(o);
    cJSON_Delete(o);
    return line;
}

void tt_put_config(const tt_fixture *f, const char *text)
{
    tt_put_text(f->dir, "config.json", text);
}
