/* test_lora_forms.c - LoRA files in every naming in use, on the tiny models of all families: each
 * weight becomes W + scale B A. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "formats/tensors/model.h"
#include "tests/lib/golden.h"
#include "tests/lib/ok.h"
#include "train/models/dit.h"
#include "train/models/flux.h"
#include "train/models/hunyuan/hunyuan.h"
#include "train/lora/lora.h"
#include "train/models/ltx/ltx.h"
#include "train/models/wan/wan.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))
enum { MOST = 400, RANK = 3 };
#define ALPHA 1.5f

static const struct model { const vtrain_family *family; const char *golden; } models[] = {
    { &vtrain_cogvideox, "cogvideox-2b" }, { &vtrain_hunyuan, "hunyuan" }, { &vtrain_ltx, "ltx" },
    { &vtrain_wan, "wan" },                { &vtrain_qwen, "qwen" },
    { &vtrain_wan_vace, "wan-vace" },      { &vtrain_flux, "flux-dev" },
};

/* `theirs`: modules have the names of the family's first authors, where it has a table; `peer`:
 * those of the other table. */
static const struct naming {
    const char *prefix, *a, *b;
    bool flat, theirs, peer, alpha;
    const char *transformer;                 /* NULL: "transformer" */
    const char *from;                        /* the first row of the other table that is used;
                                              * modules without a row are left out; NULL: the first
                                              * of all, and other modules have our names */
} namings[] = {
#define PEFT ".lora_A.weight", ".lora_B.weight"
#define NAMED ".lora_A.default.weight", ".lora_B.default.weight"
#define KOHYA ".lora_down.weight", ".lora_up.weight"
    { "transformer.", PEFT, .flat = false },  /* diffusers */
    { "transformer.", KOHYA, .alpha = true },
    { "transformer.", ".lora_A", ".lora_B", .flat = false },
    { "transformer.", ".lora.down.weight", ".lora.up.weight", .flat = false },
    { "", PEFT, .flat = false },  /* VideoX-Fun */
    { "base_model.model.", PEFT, .flat = false },  /* PEFT */
    { "base_model.model.", NAMED, .flat = false },
    { "transformer.base_model.model.", PEFT, .flat = false },
    { "", NAMED, .theirs = true },  /* DiffSynth-Studio */
    { "pipe.dit.", NAMED, .theirs = true, .peer = true },
    { "pipe.vace.", NAMED, .theirs = true },
    { "module.", PEFT, .flat = false },
    { "_orig_mod.", PEFT, .flat = false },
    { "dit.", PEFT, .theirs = true },
    { "unet.", PEFT, .flat = false },
    { "unet.base_model.model.", PEFT, .flat = false },
    { "diffusion_model.", PEFT, .theirs = true },  /* diffusion-pipe */
    { "diffusion_model.", KOHYA, .theirs = true, .alpha = true },  /* ComfyUI */
    { "diffusion_model.", KOHYA, .theirs = true, .peer = true, .alpha = true },
    { "model.diffusion_model.", PEFT, .theirs = true },
    { "lora_unet_", KOHYA, .flat = true, .theirs = true, .alpha = true },  /* musubi-tuner, kohya */
    { "lora_unet__", KOHYA, .flat = true, .theirs = true, .alpha = true },  /* VideoX-Fun */
    { "lora_unet__", KOHYA, .flat = true, .alpha = true },
    { "lora_transformer_", KOHYA, .flat = true, .alpha = true },  /* OneTrainer */
    { "lora_transformer_", KOHYA, .flat = true, .theirs = true, .alpha = true },
    { "lycoris_", KOHYA, .flat = true, .alpha = true },  /* SimpleTuner */
    { "transformer_2.", PEFT, .transformer = "transformer_2" },
    { "transformer_2.", KOHYA, .theirs = true, .alpha = true, .transformer = "transformer_2" },
    { "pipe.dit2.", NAMED, .theirs = true, .transformer = "transformer_2" },
};

/* XLabs' layers of attention's processors. */
static const struct naming processors = {
    "", ".down.weight", ".up.weight", .peer = true, .from = "double_blocks.#.processor.qkv_lora1"
};

static float value(size_t i) { return sinf((float)(i % 1013) * 0.7f); }

/* A LoRA's file while it is made. */
typedef struct making {
    vf_view v[MOST];
    char *name[MOST];
    float *held[MOST];
    int n;
} making;

static void add(making *m, const struct naming *how, const char *module, const char *end, int nd,
                int64_t rows, int64_t columns)
{
    vf_view *v = &m->v[m->n];
    assert_true(m->n < MOST);
    char *name = m->name[m->n] = vc_format("%s%s%s", how->prefix, module, end);
    const size_t n = nd ? (size_t)(rows * columns) : 1, path = strlen(how->prefix) + strlen(module);
    float *f = m->held[m->n++] = malloc(sizeof *f * n);
    for (size_t i = 0; how->flat && i < path; i++)
        if (name[i] == '.')
            name[i] = '_';
    for (size_t i = 0; i < n; i++)
        f[i] = nd ? value(i + (size_t)m->n) : ALPHA;
    *v = (vf_view){ .name = name, .dtype = VC_F32, .nd = nd, .dim = { rows, columns }, .data = f,
                    .bytes = sizeof *f * n };
}

static int64_t rows_of(const vf_model *file, const char *module, int64_t *in)
{
    char *name = vc_format("%s.weight", module);
    vf_view v;
    const bool found = !vf_model_get(file, name, &v, NULL) && v.nd == 2;
    free(name);
    if (found)
        *in = v.dim[1];
    return found ? v.dim[0] : 0;
}

/* Adds the pair of a module, or, when called for the first of the modules that are fused with it,
 * of their row. */
static void add_module(making *m, const struct naming *how, const vtrain_rename *table,
                       const vf_model *file, const char *module)
{
    vtrain_renamed r = { 0 };
    vc_err err = { 0 };
    int64_t in = 0, rows = rows_of(file, module, &in);
    assert_ok(vtrain_rename_find(&r, table, module, &err), &err);
    if (!r.part && (r.row || !how->from)) {
        for (int i = 1; i < r.parts; i++) {
            char *other = vtrain_rename_sibling(&r, i);
            rows += rows_of(file, other, &in);
            free(other);
        }
        const char *name = r.row ? r.theirs : module;
        add(m, how, name, how->a, 2, RANK, in);
        add(m, how, name, how->b, 2, rows, RANK);
        if (how->alpha)
            add(m, how, name, ".alpha", 0, 1, 1);
    }
    free(r.theirs);
}

static char *module_of(const vf_view *v)
{
    const size_t n = strlen(v->name);
    return v->nd == 2 && strstr(v->name, "blocks.") && n > 7 && !strcmp(v->name + n - 7, ".weight")
               ? strndup(v->name, n - 7) : NULL;
}

static const vf_view *made(const making *m, const struct naming *how, const char *module,
                           const char *end)
{
    char *name = vc_format("%s%s%s", how->prefix, module, end);
    for (size_t i = 0; how->flat && i < strlen(how->prefix) + strlen(module); i++)
        if (name[i] == '.')
            name[i] = '_';
    for (int i = 0; i < m->n; i++)
        if (!strcmp(m->name[i], name)) {
            free(name);
            return &m->v[i];
        }
    fail_msg("%s was not made", name);
    return NULL;
}

/* Compares a merged weight with W + scale B A. */
static void check_weight(const making *m, const struct naming *how, const vtrain_rename *table,
                         const vf_view *w, const vt_host *got, const char *module)
{
    vtrain_renamed r = { 0 };
    vc_err err = { 0 };
    const int64_t out = w->dim[0], in = w->dim[1];
    assert_ok(vtrain_rename_find(&r, table, module, &err), &err);
    const char *name = r.row ? r.theirs : module;
    if (!r.row && how->from) {
        assert_ptr_equal(got->data, w->data);
        return;
    }
    const float *a = made(m, how, name, how->a)->data, *b;
    const vf_view *up = made(m, how, name, how->b);
    int64_t first = 0, rows = out;
    if (r.row)
        assert_true(vtrain_rename_rows(&r, up->dim[0], &first, &rows));
    assert_int_equal(rows, out);
    b = (const float *)up->data + first * RANK;
    float *want = malloc(sizeof *want * (size_t)(out * in));
    memcpy(want, w->data, sizeof *want * (size_t)(out * in));
    vtrain_lora_merge(want, out, in, a, b, RANK, how->alpha ? (double)ALPHA / RANK : 1);
    if (memcmp(want, got->data, sizeof *want * (size_t)(out * in)))
        fail_msg("%s%s: another weight", how->prefix, module);
    free(want);
    free(r.theirs);
}

static void check(const struct model *model, const struct naming *how)
{
    vf_safetensors *golden = golden_open(model->golden);
    const char *dir = golden_tmp(model->golden);
    const vtrain_rename *table = how->peer && model->family->peer_names ? model->family->peer_names
                               : how->theirs ? model->family->lora_names : NULL;
    while (how->from && strcmp(table->theirs, how->from))
        table++;
    making *m = calloc(1, sizeof *m);
    vf_model *file;
    vtrain_lora *l;
    vc_err err = { 0 };
    golden_model(golden, dir, VC_F32);
    assert_ok(vf_model_open(&file, dir, &err), &err);
    for (int i = 0; i < vf_model_count(file); i++) {
        char *module = module_of(vf_model_at(file, i));
        if (module)
            add_module(m, how, table, file, module);
        free(module);
    }
    char *path = vc_path_join(golden_tmp("forms"), "x.safetensors");
    assert_ok(vf_safetensors_write(path, m->v, m->n, NULL, 0, &err), &err);
    if (vtrain_lora_open(&l, path, &err))
        fail_msg("%s, %s: %s", model->golden, how->prefix, err.text);
    vtrain_lora_rename(l, model->family->lora_names, model->family->peer_names);
    assert_ok(vtrain_lora_check_of(l, how->transformer ? how->transformer : "transformer", &err),
              &err);
    const vt_source base = vf_model_source(file), src = vtrain_lora_source(l, &base, false);
    for (int i = 0; i < vf_model_count(file); i++) {
        const vf_view *w = vf_model_at(file, i);
        vt_host got;
        char *module = module_of(w);
        assert_ok(src.get(src.arg, w->name, &got, &err), &err);
        if (module)
            check_weight(m, how, table, w, &got, module);
        else
            assert_ptr_equal(got.data, w->data);
        free(module);
    }
    if (vtrain_lora_all_used(l, NULL, &err))
        fail_msg("%s, %s: %s", model->golden, how->prefix, err.text);
    vtrain_lora_close(l);
    vf_model_close(file);
    vf_safetensors_close(golden);
    for (int i = 0; i < m->n; i++) {
        free(m->name[i]);
        free(m->held[i]);
    }
    free(m);
    free(path);
}

static void test_namings(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(models); i++)
        for (size_t k = 0; k < COUNT(namings); k++)
            check(&models[i], &namings[k]);
    check(&models[COUNT(models) - 1], &processors);
}

/* ---- two transformers in a file ---- */

static void test_halves(void **state)
{
    static const float one[2] = { 1, 2 }, two[2] = { 3, 4 };
    const vf_view v[] = {
        { "transformer.a.lora_A.weight", VC_F32, 2, { 1, 2 }, one, 8 },
        { "transformer.a.lora_B.weight", VC_F32, 2, { 2, 1 }, one, 8 },
        { "transformer_2.a.lora_A.weight", VC_F32, 2, { 1, 2 }, two, 8 },
        { "transformer_2.a.lora_B.weight", VC_F32, 2, { 2, 1 }, two, 8 },
    };
    char *path = vc_path_join(golden_tmp("halves"), "x.safetensors");
    vtrain_lora *l;
    vtrain_lora_pair p;
    vc_err err = { 0 };
    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *of = i ? "transformer_2" : "transformer";
        assert_ok(vf_safetensors_write(path, v, 4, NULL, 0, &err) ||
                  vtrain_lora_open(&l, path, &err) || vtrain_lora_check_of(l, of, &err) ||
                  vtrain_lora_get(l, "a", &p, &err), &err);
        assert_memory_equal(p.a.data, i ? two : one, 8);
        assert_non_null(strstr(vtrain_lora_note(l), of));
        assert_ok(vtrain_lora_all_used(l, NULL, &err), &err);
        vtrain_lora_close(l);
    }
    assert_ok(vf_safetensors_write(path, v + 2, 2, NULL, 0, &err) ||
              vtrain_lora_open(&l, path, &err), &err);
    assert_fails(vtrain_lora_check_of(l, "transformer", &err), VC_EMISMATCH, &err,
                 "has modules of transformer_2 alone");
    vtrain_lora_close(l);
    free(path);
}

/* ---- changes of layers that are folded in, and not trained ---- */

/* Forms of changes; alpha 0: there is none. A LoKr's first factor is 2 x 2. */
static const struct {
    const char *parts[4];
    int rank;                                /* of a factor that is a product; 0: it is whole */
    bool kron, whole;
    float alpha;
} changes[] = {
    { { ".diff" }, 0, false, true, 0 },
    { { ".lokr_w1", ".lokr_w2" }, 0, true, false, 1e10f },
    { { ".lokr_w1", ".lokr_w2_a", ".lokr_w2_b" }, 3, true, false, 1.5f },
    { { ".hada_w1_a", ".hada_w1_b", ".hada_w2_a", ".hada_w2_b" }, 3, false, false, 6 },
    { { ".hada_w1_a", ".hada_w1_b", ".hada_w2_a", ".hada_w2_b" }, 2, false, false, 0 },
};

static double product(int64_t o, int64_t i, int64_t in, int rank, size_t shift)
{
    double sum = 0;
    for (int k = 0; k < rank; k++)
        sum += (double)value((size_t)(o * rank + k) + shift) *
               (double)value((size_t)(k * in + i) + shift + 7);
    return sum;
}

/* The change at (o, i) of out x in. */
static double change_of(size_t c, int64_t o, int64_t i, int64_t out, int64_t in)
{
    const int rank = changes[c].rank;
    const double scale = rank && changes[c].alpha > 0 ? (double)changes[c].alpha / rank : 1;
    if (changes[c].whole)
        return (double)value((size_t)(o * in + i));
    if (!changes[c].kron)
        return scale * product(o, i, in, rank, 0) * product(o, i, in, rank, 14);
    const int64_t rows = out / 2, columns = in / 2;
    const double one = (double)value((size_t)(o / rows * 2 + i / columns));
    o %= rows;
    i %= columns;
    return scale * one * (rank ? product(o, i, columns, rank, 7)
                               : (double)value((size_t)(o * columns + i) + 7));
}

static int add_part(vf_view *v, const char *module, const char *end, int64_t rows, int64_t columns,
                    size_t shift)
{
    float *f = malloc(sizeof *f * (size_t)(rows * columns));
    for (int64_t i = 0; i < rows * columns; i++)
        f[i] = value((size_t)i + shift);
    *v = (vf_view){ .name = vc_format("diffusion_model.%s%s", module, end), .dtype = VC_F32,
                    .nd = columns > 1 ? 2 : 1, .dim = { rows, columns }, .data = f,
                    .bytes = sizeof *f * (size_t)(rows * columns) };
    return 1;
}

static void free_parts(vf_view *v, int n)
{
    while (n--) {
        free((void *)(uintptr_t)v[n].name);
        free((void *)(uintptr_t)v[n].data);
    }
}

static int add_change(vf_view *v, size_t c, const char *module, int64_t out, int64_t in)
{
    const int rank = changes[c].rank;
    int n = 0;
    for (int k = 0; k < 4 && changes[c].parts[k]; k++) {
        const char *end = changes[c].parts[k];
        const bool first = strstr(end, "w1"), b = strstr(end, "_b");
        const bool factor = strstr(end, "_a") || b, kron = changes[c].kron;
        int64_t rows = kron ? first ? 2 : out / 2 : out, columns = kron ? first ? 2 : in / 2 : in;
        if (factor && b)
            rows = rank;
        else if (factor)
            columns = rank;
        n += add_part(v + n, module, end, rows, columns,
                      (kron ? first ? 0 : 7 : first || !factor ? 0 : 14) + (b ? 7 : 0));
    }
    if (changes[c].alpha > 0) {
        n += add_part(v + n, module, ".alpha", 1, 1, 0);
        *(float *)(uintptr_t)v[n - 1].data = changes[c].alpha;
    }
    return n;
}

static vtrain_lora *open_changes(const vf_view *v, int n)
{
    char *path = vc_path_join(golden_tmp("changes"), "x.safetensors");
    vtrain_lora *l = NULL;
    vc_err err = { 0 };
    assert_ok(vf_safetensors_write(path, v, n, NULL, 0, &err) || vtrain_lora_open(&l, path, &err),
              &err);
    vtrain_lora_rename(l, vtrain_hunyuan.lora_names, vtrain_hunyuan.peer_names);
    free(path);
    return l;
}

/* The modules k of a fused layer, a single one, a norm's weight and a bias. */
static void test_changes(void **state)
{
    static const struct { const char *theirs, *ours; int parts, part; bool swapped; } layers[] = {
        { "double_blocks.0.img_attn_qkv", "transformer_blocks.0.attn.to_k", 3, 1, false },
        { "double_blocks.0.img_mlp.fc1", "transformer_blocks.0.ff.net.0.proj", 1, 0, false },
        { "final_layer.adaLN_modulation.1", "norm_out.linear", 1, 0, true },
    };
    vf_safetensors *golden = golden_open("hunyuan");
    vf_model *file;
    vc_err err = { 0 };
    (void)state;
    golden_model(golden, golden_tmp("hunyuan"), VC_F32);
    assert_ok(vf_model_open(&file, golden_tmp("hunyuan"), &err), &err);
    const vt_source base = vf_model_source(file);
    for (size_t i = 0; i < COUNT(layers) * COUNT(changes); i++) {
        const size_t c = i / COUNT(layers), k = i % COUNT(layers);
        int64_t in = 0, out = rows_of(file, layers[k].ours, &in);
        char *name = vc_format("%s.weight", layers[k].ours);
        vf_view v[8], w;
        vt_host got;
        const int n = add_change(v, c, layers[k].theirs, out * layers[k].parts, in);
        vtrain_lora *l = open_changes(v, n);
        vt_source src = vtrain_lora_source(l, &base, false);
        assert_ok(src.get(src.arg, name, &got, &err) || vf_model_get(file, name, &w, &err), &err);
        for (int64_t x = 0; x < out * in; x++) {
            const int64_t row = layers[k].swapped ? (x / in + out / 2) % out
                                                  : x / in + out * layers[k].part;
            const double add = change_of(c, row, x % in, out * layers[k].parts, in);
            const float want = (float)((double)((const float *)w.data)[x] + add);
            if (!(fabsf(((const float *)got.data)[x] - want) <= 2e-6f * (1 + fabsf(want))))
                fail_msg("%s of %s", changes[c].parts[0], layers[k].ours);
        }
        vtrain_lora_pair p;
        assert_fails(vtrain_lora_get(l, layers[k].ours, &p, &err), VC_EFORMAT, &err,
                     "is not trained here");
        vtrain_lora_close(l);
        free_parts(v, n);
        free(name);
    }
    vf_model_close(file);
    vf_safetensors_close(golden);
}

/* The first authors' shift and scale of the last norm are in the other order. */
static void test_swapped(void **state)
{
    vf_view v[2];
    vtrain_lora_pair p;
    vc_err err = { 0 };
    (void)state;
    add_part(&v[0], "final_layer.adaLN_modulation.1", ".lora_A.weight", 2, 4, 0);
    add_part(&v[1], "final_layer.adaLN_modulation.1", ".lora_B.weight", 6, 2, 3);
    vtrain_lora *l = open_changes(v, 2);
    assert_ok(vtrain_lora_get(l, "norm_out.linear", &p, &err), &err);
    for (int i = 0; i < 12; i++)
        assert_true(((const float *)p.b.data)[i] == ((const float *)v[1].data)[(i + 6) % 12]);
    assert_ok(vtrain_lora_all_used(l, NULL, &err), &err);
    vtrain_lora_close(l);
    free_parts(v, 2);
}

/* What extracted files add to norms, biases and tables. */
static void test_vectors(void **state)
{
    static const struct { const char *tensor, *module, *end; } rows[] = {
        { "transformer_blocks.0.attn.norm_q.weight", "double_blocks.0.img_attn_q_norm", ".diff" },
        { "transformer_blocks.0.attn.to_v.bias", "double_blocks.0.img_attn_qkv", ".diff_b" },
        { "proj_out.bias", "final_layer.linear", ".diff_b" },
    };
    vf_safetensors *golden = golden_open("hunyuan");
    vf_model *file;
    vf_view v[COUNT(rows)], w;
    vc_err err = { 0 };
    (void)state;
    golden_model(golden, golden_tmp("hunyuan"), VC_F32);
    assert_ok(vf_model_open(&file, golden_tmp("hunyuan"), &err), &err);
    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_ok(vf_model_get(file, rows[i].tensor, &w, &err), &err);
        add_part(&v[i], rows[i].module, rows[i].end, w.dim[0] * (i == 1 ? 3 : 1), 1, i);
    }
    vtrain_lora *l = open_changes(v, COUNT(rows));
    const vt_source base = vf_model_source(file), src = vtrain_lora_source(l, &base, false);
    for (size_t i = 0; i < COUNT(rows); i++) {
        vt_host got;
        assert_ok(src.get(src.arg, rows[i].tensor, &got, &err), &err);
        assert_ok(vf_model_get(file, rows[i].tensor, &w, &err), &err);
        for (int64_t k = 0; k < w.dim[0]; k++) {
            const size_t at = (size_t)(k + (i == 1 ? 2 * w.dim[0] : 0)) + i;
            assert_true(((const float *)got.data)[k] ==
                        (float)((double)((const float *)w.data)[k] + (double)value(at)));
        }
    }
    assert_ok(vtrain_lora_all_used(l, NULL, &err), &err);
    vtrain_lora_close(l);
    vf_model_close(file);
    vf_safetensors_close(golden);
    free_parts(v, COUNT(rows));
}

/* ---- other adapters ---- */

static const struct { const char *tensor, *says; } refused[] = {
    { "lora_te1_text_model_encoder_layers_0_mlp_fc1.lora_down.weight", "is of a text encoder" },
    { "lora_te_x.alpha", "is of a text encoder" },
    { "text_encoder.text_model.encoder.layers.0.mlp.fc1.lora_A.weight", "is of a text encoder" },
    { "text_encoders.t5xxl.x.lora_up.weight", "is of a text encoder" },
    { "lora_unet_a.magnitude", "a DoRA" },
    { "model.diffusion_model.a.lokr_t2", "a LoKr with a core" },
    { "lycoris_a.hada_t1", "a LoHa with a core" },
    { "img_in.lora_B.bias", "a change of a bias" },
    { "diffusion_model.img_in.reshape_weight", "another shape" },
    { "lora_unet_a.oft_blocks", "an OFT" },
    { "lora_unet_a.lora_mid.weight", "a middle convolution" },
    { "bundle_emb.x.t5_out", "an embedding" },
    { "transformer.layers.0.attention.query_key_value.matrix_A.0", "SAT" },
    { "model.diffusion_model.blocks.0.weight", "is not part of a LoRA" },
    { "module.a.weight", "is not part of a LoRA" },
};

static void test_refused(void **state)
{
    char *path = vc_path_join(golden_tmp("refused"), "x.safetensors");
    (void)state;
    for (size_t i = 0; i < COUNT(refused); i++) {
        static const float one[4] = { 1, 1, 1, 1 };
        const vf_view v = { refused[i].tensor, VC_F32, 2, { 2, 2 }, one, sizeof one };
        vtrain_lora *l;
        vc_err err = { 0 };
        assert_ok(vf_safetensors_write(path, &v, 1, NULL, 0, &err), &err);
        assert_fails(vtrain_lora_open(&l, path, &err), VC_EFORMAT, &err, refused[i].says);
        assert_says(&err, refused[i].tensor);
    }
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_namings), cmocka_unit_test(test_halves),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_changes),
        cmocka_unit_test(test_vectors), cmocka_unit_test(test_swapped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
