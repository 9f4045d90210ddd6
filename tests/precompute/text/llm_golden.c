/* llm_golden.c - see llm_golden.h */
#include "tests/precompute/text/llm_golden.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/ok.h"

encoder_opts lg_options(const char *dir, int skip, vc_dtype type)
{
    return (encoder_opts){ .dir = dir, .text = { .skip = skip }, .dtype = type,
                           .device = golden_device(), .threads = 1 };
}

llm *lg_open(const char *dir, const llm_kind *kind, int skip, vc_dtype type)
{
    encoder_opts o = lg_options(dir, skip, type);
    vc_err err = { 0 };
    vf_key k;
    llm *m;
    assert_ok(llm_open(&m, kind, &o, &k, &err), &err);
    return m;
}

void lg_refused(const char *dir, const llm_kind *kind, int skip, int rc, const char *says)
{
    encoder_opts o = lg_options(dir, skip, VC_F32);
    vc_err err = { 0 };
    vf_key k;
    llm *m = (llm *)&o;

    int have = llm_open(&m, kind, &o, &k, &err);
    assert_null(m);
    if (have != rc || !strstr(err.text, says))
        fail_msg("%s: %d, not %d; \"%s\" is missing from: %s", dir, have, rc, says, err.text);
}

int lg_ids(const vf_safetensors *gold, const char *name, int64_t id[LG_MOST])
{
    vf_view v;
    vc_err err = { 0 };
    assert_ok(vf_safetensors_get(gold, name, &v, &err), &err);
    memcpy(id, v.data, v.bytes);
    return (int)v.dim[0];
}

double lg_error(llm *m, const vf_safetensors *gold, const char *ids, const char *want)
{
    float states[LG_MOST * LG_WIDTH];
    int64_t id[LG_MOST], dim[8];
    vc_err err = { 0 };
    int n = lg_ids(gold, ids, id);

    float *w = golden_values(gold, want, dim);
    assert_true(dim[0] == n && dim[1] == LG_WIDTH && llm_width(m) == LG_WIDTH);
    assert_ok(llm_encode(m, &(text_ids){ id, n, 0, 0 }, 1, states, &err), &err);
    double e = golden_error(states, w, (int64_t)n * LG_WIDTH);
    free(w);
    return e;
}
