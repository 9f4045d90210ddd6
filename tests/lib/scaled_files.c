/* scaled_files.c - see scaled_files.h */
#include "tests/lib/scaled_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "tests/lib/ok.h"

enum { MOST = 2048, BLOCKS = 2 };

const scaled_form scaled_forms[] = {
    { "scale_weight", "scale_input", VC_F8E4M3, 0, false, false },
    { "scale_weight", NULL, VC_F8E5M2, 1, false, false },
    { "weight_scale", "input_scale", VC_F8E4M3, 1, true, false },
    { "scale_weight", NULL, VC_F8E4M3, 2, true, false },
    { "scale_weight", NULL, VC_F8E4M3, 3, true, true },
    { 0 }
};

/* A file while it is made: views, and the memory that they hold. */
typedef struct making { vf_view v[MOST]; void *held[2 * MOST]; int n, n_held; } making;

static void *room(making *m, size_t bytes)
{
    void *p = m->held[m->n_held++] = calloc(1, bytes + 1);
    assert_true(p && m->n_held < 2 * MOST);
    return p;
}

static void add(making *m, const char *name, vc_dtype type, int nd, const int64_t *dim,
                const void *data)
{
    vf_view *v = &m->v[m->n++];
    assert_true(m->n < MOST);
    *v = (vf_view){ .name = name, .dtype = type, .nd = nd, .data = data };
    if (nd)
        memcpy(v->dim, dim, sizeof *dim * (size_t)nd);
    v->bytes = (size_t)vf_view_count(v) * vc_dtype_size(type);
}

static char *beside(making *m, const vf_view *v, const char *end)
{
    const size_t n = strlen(v->name) - strlen("weight");
    char *name = m->held[m->n_held++] = vc_format("%.*s%s", (int)n, v->name, end);
    assert_non_null(name);
    return name;
}

/* Adds a weight to both files: as codes and scales, and as their products. */
static void add_weight(making *fp8, making *plain, const vf_view *v, const scaled_form *f)
{
    const int64_t rows = v->dim[0], columns = v->dim[1], blocks = f->blocks ? BLOCKS : 1;
    const int64_t n = rows * columns, scales = f->rows ? rows * blocks : 1;
    float *w = room(plain, sizeof *w * (size_t)n), *s = room(fp8, sizeof *s * (size_t)scales);
    uint8_t *code = room(fp8, (size_t)n);
    vc_to_f32(w, v->data, v->dtype, (size_t)n);
    for (int64_t i = 0; i < scales; i++)
        s[i] = 0.003f + 0.0001f * (float)(i % 29);
    for (int k = 0; k < 2; k++)                             /* to codes, and back */
        for (int64_t i = 0; i < n; i++) {
            const int64_t row = i / columns, block = i % columns / (columns / blocks);
            const float by = s[f->rows ? row * blocks + block : 0];
            float x = w[i] / by;
            if (!k)
                vc_from_f32(code + i, f->type, &x, 1);
            vc_to_f32(&x, code + i, f->type, 1);
            if (k)
                w[i] = x * by;
        }
    const int64_t dim[3] = { f->rows ? rows : 1, blocks, 1 };
    add(plain, v->name, VC_F32, 2, v->dim, w);
    add(fp8, v->name, f->type, 2, v->dim, code);
    add(fp8, beside(fp8, v, f->end), VC_F32, f->nd, dim, s);
    if (f->input)
        add(fp8, beside(fp8, v, f->input), VC_F32, 0, NULL, s);
}

bool scaled_is_linear(const vf_view *v)
{
    const size_t n = strlen(v->name);
    return v->nd == 2 && n > 7 && !strcmp(v->name + n - 7, ".weight") && v->dim[1] % BLOCKS == 0;
}

static void write_file(making *m, const char *path)
{
    vc_err err = { 0 };
    assert_ok(vf_safetensors_write(path, m->v, m->n, NULL, 0, &err), &err);
    while (m->n_held)
        free(m->held[--m->n_held]);
    free(m);
}

void scaled_files_write(const vf_view *v, int n, const scaled_form *f, const char *fp8,
                        const char *plain)
{
    making *codes = calloc(1, sizeof *codes), *products = calloc(1, sizeof *products);
    assert_true(codes && products);
    for (int i = 0; i < n; i++) {
        if (scaled_is_linear(&v[i])) {
            add_weight(codes, products, &v[i], f);
            continue;
        }
        add(codes, v[i].name, v[i].dtype, v[i].nd, v[i].dim, v[i].data);
        add(products, v[i].name, v[i].dtype, v[i].nd, v[i].dim, v[i].data);
    }
    add(codes, "scaled_fp8", f->type, 1, (int64_t[]){ 0 }, "");
    write_file(codes, fp8);
    write_file(products, plain);
}
