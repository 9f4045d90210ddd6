/* first.c - see first.h */
#include "tests/lib/first.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "formats/json/json.h"
#include "formats/tensors/pt.h"
#include "tests/lib/golden.h"
#include "tests/lib/ok.h"

enum { MOST = 512 };

static int read_dims(int64_t dim[VF_MAX_DIMS], const cJSON *list)
{
    int n = cJSON_GetArraySize(list);
    for (int i = 0; i < n; i++)
        dim[i] = (int64_t)cJSON_GetArrayItem(list, i)->valuedouble;
    return n;
}

/* The values of one of their tensors: those of ours, one after the other. */
static float *values(const cJSON *ours, const cJSON *weights, int64_t n)
{
    float *x = calloc((size_t)n + 1, sizeof *x);
    const cJSON *name;
    int64_t at = 0;
    cJSON_ArrayForEach(name, ours) {
        int64_t dim[VF_MAX_DIMS], count = 1;
        int nd = read_dims(dim, cJSON_GetObjectItemCaseSensitive(weights, name->valuestring));
        for (int i = 0; i < nd; i++)
            count *= dim[i];
        for (int64_t i = 0; i < count; i++)
            x[at++] = golden_fill(name->valuestring, nd, dim, i);
    }
    return x;
}

static void save_pt(const char *path, const vf_view *v, int n)
{
    vf_pt_value key[MOST], value[MOST], root = { .kind = VF_PT_DICT, .n = (size_t)n };
    const vf_pt_value *item[2 * MOST];
    vc_err err = { 0 };
    size_t size;
    char *bytes;
    for (int i = 0; i < n; i++) {
        key[i] = (vf_pt_value){ .kind = VF_PT_STR, .s = v[i].name, .n = strlen(v[i].name) };
        value[i] = (vf_pt_value){ .kind = VF_PT_TENSOR, .tensor = &v[i] };
        item[2 * i] = &key[i];
        item[2 * i + 1] = &value[i];
    }
    root.item = item;
    assert_ok(vf_pt_pack(&bytes, &size, &root, &err), &err);
    assert_ok(vc_file_write(path, bytes, size, &err), &err);
    free(bytes);
}

void first_write(const vf_safetensors *golden, const char *path)
{
    cJSON *theirs = golden_json(golden, "theirs"), *weights = golden_json(golden, "weights");
    const vf_meta meta = { "config", vf_safetensors_meta(golden, "their_config") };
    vf_view v[MOST];
    vc_err err = { 0 };
    const cJSON *t;
    int n = 0;
    cJSON_ArrayForEach(t, theirs) {
        assert_true(n < MOST);
        v[n] = (vf_view){ .name = t->string, .dtype = VC_F32 };
        v[n].nd = read_dims(v[n].dim, cJSON_GetObjectItemCaseSensitive(t, "shape"));
        int64_t count = vf_view_count(&v[n]);
        v[n].bytes = (size_t)count * 4;
        v[n].data = values(cJSON_GetObjectItemCaseSensitive(t, "ours"), weights, count);
        n++;
    }
    if (!strcmp(vc_path_ext(path), ".pth"))
        save_pt(path, v, n);
    else
        assert_ok(vf_safetensors_write(path, v, n, &meta, meta.value ? 1 : 0, &err), &err);
    for (int i = 0; i < n; i++)
        free((void *)v[i].data);
    cJSON_Delete(theirs);
    cJSON_Delete(weights);
}
