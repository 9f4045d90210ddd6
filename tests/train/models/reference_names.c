/* reference_names.c - the names of modules in LoRA files, and files of first authors; see
 * reference.h */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "tests/lib/ok.h"
#include "tests/train/models/reference.h"
#include "train/lora/lora.h"
#include "train/models/weights.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))

/* How programs write the factors of a module in the first authors' names: ComfyUI, musubi-tuner,
 * DiffSynth-Studio. */
static const struct { const char *prefix, *a, *b; bool flat; } namings[] = {
    { "diffusion_model.", ".lora_A.weight", ".lora_B.weight", false },
    { "lora_unet_", ".lora_down.weight", ".lora_up.weight", true },
    { "", ".lora_A.weight", ".lora_B.weight", false },
    { "", ".lora_A.default.weight", ".lora_B.default.weight", false },
    { "pipe.dit.", ".lora_A.default.weight", ".lora_B.default.weight", false },
};

static const char end[] = ".lora_A.weight";

/* The name of a golden's tensor `theirs/MODULE.lora_A.weight` in a naming, malloc'ed. */
static char *name_in(size_t naming, const char *theirs)
{
    const size_t n = strlen(theirs) - strlen("theirs/") - (sizeof end - 1);
    const bool a = strstr(theirs, end);
    char *name = vc_format("%s%.*s%s", namings[naming].prefix, (int)n, theirs + strlen("theirs/"),
                           a ? namings[naming].a : namings[naming].b);
    for (size_t i = 0; namings[naming].flat && i < strlen(namings[naming].prefix) + n; i++)
        name[i] = (char)(name[i] == '.' ? '_' : name[i]);
    return name;
}

/* Opens a file of the golden's factors in a naming. */
static vtrain_lora *open_theirs(const vtrain_family *family, const vf_safetensors *f,
                                size_t naming)
{
    enum { MOST = 128 };
    vf_view theirs[MOST];
    int n = 0;
    vc_err err = { 0 };
    for (int i = 0; i < vf_safetensors_count(f); i++) {
        const vf_view *v = vf_safetensors_at(f, i);
        if (strncmp(v->name, "theirs/", 7))
            continue;
        assert_true(n < MOST);
        theirs[n] = *v;
        theirs[n++].name = name_in(naming, v->name);
    }
    char *path = vc_path_join(golden_tmp("names"), "theirs.safetensors");
    assert_ok(vf_safetensors_write(path, theirs, n, NULL, 0, &err), &err);
    for (int i = 0; i < n; i++)
        free((void *)(uintptr_t)theirs[i].name);
    vtrain_lora *l;
    assert_ok(vtrain_lora_open(&l, path, &err), &err);
    vtrain_lora_rename(l, family->lora_names, family->peer_names);
    free(path);
    return l;
}

static void same_factors(vtrain_lora *l, const vf_safetensors *f, const char *module)
{
    static const char *const halves[2] = { "A", "B" };
    vtrain_lora_pair p;
    vc_err err = { 0 };
    if (vtrain_lora_get(l, module, &p, &err))
        fail_msg("%s: %s", module, err.text);
    for (int i = 0; i < 2; i++) {
        char *name = vc_format("ours/%s.lora_%s.weight", module, halves[i]);
        const vf_view *got = i ? &p.b : &p.a;
        vf_view v;
        assert_ok(vf_safetensors_get(f, name, &v, &err), &err);
        assert_int_equal(got->bytes, v.bytes);
        assert_memory_equal(got->data, v.data, v.bytes);
        free(name);
    }
}

void ref_check_names(const vtrain_family *family, const char *golden, int modules)
{
    vf_safetensors *f = golden_open(golden);
    for (size_t k = 0; k < COUNT(namings); k++) {
        vtrain_lora *l = open_theirs(family, f, k);
        int found = 0;
        vc_err err = { 0 };
        for (int i = 0; i < vf_safetensors_count(f); i++) {
            const char *name = vf_safetensors_at(f, i)->name, *at = strstr(name, end);
            if (strncmp(name, "ours/", 5) || !at)
                continue;
            char *module = strndup(name + 5, (size_t)(at - name) - 5);
            same_factors(l, f, module);
            free(module);
            found++;
        }
        assert_int_equal(found, modules);
        assert_ok(vtrain_lora_all_used(l, NULL, &err), &err);
        vtrain_lora_close(l);
    }
    vf_safetensors_close(f);
}

void ref_check_first(const vtrain_family *family, const char *golden, const ref_tolerance *tol)
{
    ref_model m;
    vtrain_weights *w;
    vc_err err = { 0 };
    ref_open_parts(&m, golden, VC_F32, VC_F32);
    char *file = vc_path_join(golden_tmp(golden), "diffusion_pytorch_model.safetensors");
    assert_ok(vtrain_weights_open(&w, NULL, "transformer", file, VC_DTYPE_NONE, &err), &err);
    assert_ok(vtrain_weights_family(w, family, &err), &err);
    const vt_source src = vtrain_weights_source(w, false);
    assert_ok(vtrain_dit_open(&m.model, family, vtrain_weights_config(w), m.params, &src, &err),
              &err);
    assert_ok(vtrain_weights_check(w, m.params, &err), &err);
    assert_int_equal(ref_check_case(&m, "base", tol), 0);
    ref_close(&m);
    vtrain_weights_close(w);
    free(file);
}

/* ---- tests of cmocka ---- */

void ref_test_refused(void **state)
{
    const ref_suite *s = *state;
    ref_check_refusals(s->family, s->variants[0].name, s->refused, s->n_refused);
}

void ref_test_still(void **state)
{
    const ref_suite *s = *state;
    ref_check_clip(s->family, s->variants[0].name, s->still);
}

void ref_test_names(void **state)
{
    const ref_suite *s = *state;
    ref_check_names(s->family, s->names, s->modules);
}

void ref_test_first(void **state)
{
    const ref_suite *s = *state;
    ref_check_first(s->family, s->first, &s->f32);
}
