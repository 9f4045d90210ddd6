/* kohya_write.c - exports the cache that kohya.c describes. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/peers/exchange_parts.h"
#include "formats/peers/tensors.h"
#include "formats/tensors/npz.h"

#define LATENTS "_flux.npz"
#define TEXTS "_flux_te.npz"

static int write_npz(const exchange *x, const char *stem, const char *ending,
                     const exchange_dict *d, vc_err *err)
{
    const vf_pt_value v = exchange_dict_value(d);
    char *name = vc_format("%s%s", stem, ending), *data = NULL;
    size_t size;
    int rc = name ? vf_npz_pack(&data, &size, &v, err) : vc_no_memory(err);
    if (!rc)
        rc = exchange_write(x->dir, name, data, size, err);
    free(data);
    free(name);
    return rc;
}

/* Fills the source's width and height, which name the file, or the cut's if they are not known. */
static void source_size(const exchange_sample *s, const int ratio[3], int64_t size[2])
{
    const cJSON *source = cJSON_GetObjectItemCaseSensitive(s->record, "source");
    double w = vlat_num(source, "w"), h = vlat_num(source, "h");
    bool known = w >= 1 && h >= 1 && w < 1 << 24 && h < 1 << 24;
    size[0] = known ? (int64_t)w : s->mean.dim[3] * ratio[2];
    size[1] = known ? (int64_t)h : s->mean.dim[2] * ratio[1];
}

static int write_latents(const exchange *x, const char *stem, const exchange_sample *s,
                         vc_err *err)
{
    static const char *const keys[] = { "latents", "original_size", "crop_ltrb" };
    const int64_t c = s->mean.dim[0], h = s->mean.dim[2], w = s->mean.dim[3];
    int64_t size[2], cut[4] = { 0, 0, w * x->family->ratio[2], h * x->family->ratio[1] };
    char key[3][64], ending[64];
    float *f = NULL;
    exchange_dict d = { .n = 0 };
    if (s->mean.dim[1] != 1)
        return vc_fail(err, VC_EMISMATCH, "%" PRId64 " frames: %s has stills", s->mean.dim[1],
                       x->family->name);
    source_size(s, x->family->ratio, size);
    for (int i = 0; i < 3; i++)
        snprintf(key[i], sizeof *key, "%s_%" PRId64 "x%" PRId64, keys[i], h, w);
    snprintf(ending, sizeof ending, "_%04" PRId64 "x%04" PRId64 LATENTS, size[0], size[1]);
    int rc = exchange_latent_f32(x, s, &f, err);
    exchange_dict_view(&d, key[0], (vf_view){ .dtype = VC_F32, .nd = 3, .dim = { c, h, w } }, f);
    exchange_dict_view(&d, key[1], (vf_view){ .dtype = VC_I64, .nd = 1, .dim = { 2 } }, size);
    exchange_dict_view(&d, key[2], (vf_view){ .dtype = VC_I64, .nd = 1, .dim = { 4 } }, cut);
    if (!rc)
        rc = write_npz(x, stem, ending, &d, err);
    free(f);
    return rc;
}

/* Adds the places of the text's n tokens, which are zeros, and their mask, which is not applied. */
static int add_tokens(exchange_dict *d, int64_t n, vc_err *err)
{
    static const uint8_t no = 0;
    float *ids = exchange_dict_alloc(d, (size_t)n * 3 * sizeof *ids);
    int64_t *mask = exchange_dict_alloc(d, (size_t)n * sizeof *mask);
    if (!ids || !mask)
        return vc_no_memory(err);
    for (int64_t i = 0; i < n; i++)
        mask[i] = 1;
    exchange_dict_view(d, "txt_ids", (vf_view){ .dtype = VC_F32, .nd = 2, .dim = { n, 3 } }, ids);
    exchange_dict_view(d, "t5_attn_mask", (vf_view){ .dtype = VC_I64, .nd = 1, .dim = { n } },
                       mask);
    exchange_dict_view(d, "apply_t5_attn_mask", (vf_view){ .dtype = VC_BOOL }, &no);
    return 0;
}

static int write_texts(const exchange *x, const char *stem, const exchange_sample *s, vc_err *err)
{
    const vf_view *t5 = &s->text[1].embeds;
    vf_view pooled = s->text[0].pooled;
    exchange_dict d = { .n = 0 };
    if (s->n_text != 2 || !t5->data || !pooled.data)
        return vc_fail(err, VC_EMISMATCH, "embeddings of two text encoders expected");
    pooled.dim[0] = vf_view_count(&pooled);
    pooled.nd = 1;
    int rc = exchange_add_tensor(&d, "l_pooled", pooled, VC_F32, 0, err);
    if (!rc)
        rc = exchange_add_tensor(&d, "t5_out", *t5, VC_F32, 0, err);
    if (!rc)
        rc = add_tokens(&d, t5->dim[0], err);
    if (!rc)
        rc = write_npz(x, stem, TEXTS, &d, err);
    exchange_dict_free(&d);
    return rc;
}

/* Writes the caption, of which sd-scripts reads the first line, without blanks around it. */
static int write_caption(const exchange *x, const char *stem, const exchange_sample *s, vc_err *err)
{
    const char *c = s->caption;
    size_t n = strlen(c);
    if (strpbrk(c, "\r\n") || (n && (strchr(" \t", c[0]) || strchr(" \t", c[n - 1]))))
        return vc_fail(err, VC_EMISMATCH, "the caption \"%.100s\" has line breaks or blanks around "
                       "it, which sd-scripts would leave out: vlat select leaves the sample out",
                       c);
    char *name = vc_format("%s.txt", stem);
    int rc = name ? exchange_write(x->dir, name, c, n, err) : vc_no_memory(err);
    free(name);
    return rc;
}

static int write_sample(exchange *x, const exchange_sample *s, void *arg, vc_err *err)
{
    char *stem = exchange_name(arg, s, err);
    int rc = stem ? write_latents(x, stem, s, err) : VC_ENOMEM;
    if (!rc)
        rc = write_texts(x, stem, s, err);
    if (!rc)
        rc = write_caption(x, stem, s, err);
    free(stem);
    return rc;
}

int exchange_kohya_write(exchange *x, vc_err *err)
{
    vf_keymap names = { 0 };
    int rc = exchange_each(x, write_sample, &names, err);
    vf_keymap_free(&names);
    return rc;
}
