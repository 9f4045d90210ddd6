/* t5_model.c - opens the goldens' T5 models: see t5_model.h */
#include "tests/precompute/text/t5_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "formats/tensors/model.h"
#include "precompute/tokenizer/tokenizer.h"
#include "tests/lib/ok.h"

/* ---- the tokenizer's double: a prompt lists its ids; 1 ends a prompt, 0 is padding ---- */

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

int tokenizer_open_with(tokenizer **out, const char *dir, const char *const *added, vc_err *err)
{
    (void)added;
    return tokenizer_open(out, dir, err);
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

int tokenizer_chat(const tokenizer *t, const char *text, int max_length, int64_t *ids,
                   int64_t *mask, int *n, vc_err *err)
{
    return tokenizer_prompt(t, text, max_length, ids, mask, n, err);
}

/* No prompt of T5 has a text that stands behind it, whose ids these would be. */
int tokenizer_ids(const tokenizer *t, const char *text, size_t bytes, int64_t **ids, size_t *n,
                  vc_err *err)
{
    (void)t;
    (void)bytes;
    *ids = NULL;
    *n = 0;
    return vc_fail(err, VC_EUSAGE, "%s: this tokenizer has no ids of a part of a prompt", text);
}

int64_t tokenizer_pad(const tokenizer *t)
{
    (void)t;
    return 0;
}

tokenizer_side tokenizer_padding_side(const tokenizer *t)
{
    (void)t;
    return TOKENIZER_RIGHT;
}

/* ---- models ---- */

/* The golden was made with a quarter of the stored query weights: see scripts/golden/t5.py. */
static void quarter_queries(const char *from, const char *to)
{
    vf_model *m;
    vf_view t[TF_TENSORS];
    float x[TT_WIDTH * TT_WIDTH], *q[TF_TENSORS] = { 0 };
    vc_err err = { 0 };

    assert_ok(vf_model_open(&m, from, &err), &err);
    for (int i = 0; i < vf_model_count(m); i++) {
        t[i] = *vf_model_at(m, i);
        if (!strstr(t[i].name, ".q.weight"))
            continue;
        size_t n = (size_t)vf_view_count(&t[i]);
        vc_to_f32(x, t[i].data, t[i].dtype, n);
        for (size_t k = 0; k < n; k++)
            x[k] *= 0.25f;
        t[i].data = q[i] = malloc(t[i].bytes);
        vc_from_f32(q[i], t[i].dtype, x, n);
    }
    assert_ok(vf_safetensors_write(to, t, vf_model_count(m), NULL, 0, &err), &err);
    for (int i = 0; i < TF_TENSORS; i++)
        free(q[i]);
    vf_model_close(m);
}

tf_fixture tt_open(const char *name, vc_dtype stored)
{
    tf_fixture f = tf_open(name, stored);
    char *file = vc_path_join(f.dir, "diffusion_pytorch_model.safetensors");
    quarter_queries(f.dir, file);
    free(file);
    return f;
}

encoder_opts tt_opts(const char *dir, vc_dtype dtype)
{
    return (encoder_opts){ .dir = dir, .tokenizer = "double", .text = { .max_length = 40 },
                           .dtype = dtype, .device = golden_device(), .threads = 1 };
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

/* The error of m's states for the golden's `ids`, compared with all tokens of its `want`. */
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
    assert_ok(t5_encode(m, &(text_ids){ id, (int)dim[0], 0, 0 }, 1, states, &err), &err);
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

/* Checks the code and the message of a failed open. */
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
