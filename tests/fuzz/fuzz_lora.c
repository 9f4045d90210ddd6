/* fuzz_lora.c - any bytes are a LoRA file, of any trainer's layout, which is folded into small
 * weights and asked for its pairs: an error with a message, or values in the file's memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz_file.h"
#include "tests/lib/mutate.h"
#include "train/lora/parts.h"
#include "train/models/flux.h"

enum { SIDE = 64 };
static int64_t rows, columns;                /* of the base's weights */

/* The base has all weights, of the sides that the file's module wants if these are small. */
static int get(void *arg, const char *name, vt_host *h, vc_err *err)
{
    static float values[SIDE * SIDE];
    (void)arg, (void)err;
    const bool matrix = strlen(name) > 7 && !strcmp(name + strlen(name) - 7, ".weight");
    *h = (vt_host){ .dtype = VC_F32, .nd = matrix ? 2 : 1, .data = values };
    h->dim[0] = rows;
    if (matrix)
        h->dim[1] = columns;
    return 0;
}

static int64_t side(const vf_view *v, int k)
{
    return v && v->nd > k && v->dim[k] >= 1 && v->dim[k] <= SIDE ? v->dim[k] : 8;
}

static void touch(const vf_view *v)
{
    mutate_touch(v->data, v->bytes);
}

static void ask(vtrain_lora *l, vt_source *merged, const char *module)
{
    static const char *const ends[] = { "weight", "bias" };
    vtrain_lora_pair p;
    vt_adapter_size size = { .factor = -1 };
    vt_host h;
    char name[512];
    vc_err err = { 0 };

    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "%s.%s", module, ends[i]);
        err = (vc_err){ 0 };
        if (!merged->get(merged->arg, name, &h, &err))
            mutate_touch(h.data, (size_t)(h.dim[0] * (h.nd == 2 ? h.dim[1] : 1)) *
                                 vc_dtype_size(h.dtype));
        else if (!*err.text)
            abort();                         /* a failure without a message */
    }
    if (!vtrain_lora_get(l, module, &p, NULL)) {
        touch(&p.a);
        touch(&p.b);
        if (p.scaled)
            touch(&p.magnitude);
    }
    vtrain_lora_size(l, module, &size, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const ours[] = { "transformer_blocks.0.attn.to_k",
                                        "single_transformer_blocks.0.proj_mlp" };
    const vt_source base = { .get = get };
    vtrain_lora *l;
    vc_err err = { 0 };

    int rc = vtrain_lora_open(&l, fuzz_file("a.safetensors", data, size), &err);
    if (rc && (!*err.text || err.code != rc || l))
        abort();
    if (rc)
        return 0;
    vtrain_lora_rename(l, flux_names, flux_diffsynth_names);
    vt_source merged = vtrain_lora_source(l, &base, false);
    for (int i = 0; i < l->n && i < 16; i++) {
        rows = side(l->entry[i].b, 0);
        columns = side(l->entry[i].a, 1);
        ask(l, &merged, l->entry[i].module);
    }
    rows = columns = 8;
    for (int i = 0; i < 2; i++)
        ask(l, &merged, ours[i]);
    vtrain_lora_hash(l);
    vtrain_lora_all_used(l, NULL, NULL);
    vtrain_lora_close(l);
    return 0;
}
