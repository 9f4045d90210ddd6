/* musubi_sound.c - the sound of LTX-2's clips in the cache of musubi-tuner's fork for it, which
 * musubi.c describes:
 *
 *     STEM_FIRST-FRAMES_WxH_ltx2_audio.safetensors      audio_latents_TxBINSxC_TYPE [C,T,BINS],
 *                                                       audio_lengths_int32, the frames that are no
 *                                                       padding; target_fps in the metadata
 *
 * The type in the name is that of the run, and may be another than that of the values. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "formats/peers/caches/musubi.h"
#include "formats/peers/sound.h"

#define LATENTS "audio_latents_"
#define LENGTHS "audio_lengths_int32"

static bool is_type(const char *s)
{
    static const char *const words[] = { "bf16", "fp16", "fp32", "bfloat16", "float16",
                                         "float32" };
    size_t i = 0;
    while (i < sizeof words / sizeof *words && strcmp(words[i], s))
        i++;
    return i < sizeof words / sizeof *words;
}

static int take_latents(exchange_item *m, const vf_view *v, vc_err *err)
{
    char name[80];
    if (v->nd != 3)
        return vc_fail(err, VC_EFORMAT, "%s: [C,T,bins] expected", v->name);
    const int n = snprintf(name, sizeof name, LATENTS "%" PRId64 "x%" PRId64 "x%" PRId64 "_",
                           v->dim[1], v->dim[2], v->dim[0]);
    if (strncmp(v->name, name, (size_t)n) || !is_type(v->name + n))
        return vc_fail(err, VC_EFORMAT, "tensor \"%.60s\": the name %sTYPE, of its sizes, "
                       "expected: the file is damaged", v->name, name);
    m->sound = (vf_view){ v->name, v->dtype, 4, { v->dim[0], v->dim[1], 1, v->dim[2] }, v->data,
                          v->bytes };
    return 0;
}

static int take_length(exchange_item *m, const vf_view *v, vc_err *err)
{
    float f = 0;
    if (vf_view_count(v) == 1)
        vc_to_f32(&f, v->data, v->dtype, 1);
    if (!(f >= 1 && f <= UINT16_MAX))
        return vc_fail(err, VC_EFORMAT, LENGTHS ": %g", (double)f);
    m->sound_frames = (int64_t)f;
    return 0;
}

int musubi_take_sound(exchange_item *m, exchange *x, const vf_safetensors *st, vc_err *err)
{
    static const char *const masks[] = { "audio_loss_mask", "audio_cond_mask" };
    const char *fps = vf_safetensors_meta(st, "target_fps");
    int rc = 0;
    for (int i = 0; !rc && i < vf_safetensors_count(st); i++) {
        const vf_view *v = vf_safetensors_at(st, i);
        if (!strncmp(v->name, LATENTS, strlen(LATENTS)))
            rc = take_latents(m, v, err);
        else if (!strcmp(v->name, LENGTHS))
            rc = take_length(m, v, err);
        else if (!strcmp(v->name, masks[0]) || !strcmp(v->name, masks[1]))
            x->no_conditions++;
        else
            rc = vc_fail(err, VC_EFORMAT, "tensor \"%.60s\": unknown", v->name);
    }
    if (!rc && (!m->sound.data || m->sound_frames > m->sound.dim[1]))
        rc = vc_fail(err, VC_EFORMAT, m->sound.data ? LENGTHS ": more than there are"
                                                    : LATENTS "...: missing");
    if (!rc && fps) {
        char *end;
        m->fps = strtod(fps, &end);
        if (*end || !(m->fps > 0 && m->fps < 1e6))
            rc = vc_fail(err, VC_EFORMAT, "__metadata__: target_fps: \"%.20s\"", fps);
    }
    return rc;
}

int musubi_write_sound(exchange *x, const exchange_sample *s, const char *full, const char *name,
                       vc_err *err)
{
    exchange_dict d = { .n = 0 };
    char of[80], fps[40];
    vf_view v;
    float *f;
    int rc = exchange_sound_of(x, s, &f, &v, err);
    if (rc || !f)
        return rc;
    const int32_t length = (int32_t)v.dim[1];
    const vf_view flat = { .dtype = VC_F32, .nd = 3, .dim = { v.dim[0], v.dim[1], v.dim[3] } };
    snprintf(of, sizeof of, LATENTS "%" PRId64 "x%" PRId64 "x%" PRId64 "_fp32", v.dim[1],
             v.dim[3], v.dim[0]);
    snprintf(fps, sizeof fps, "%.9g", vlat_num(s->record, "fps"));
    exchange_dict_view(&d, of, flat, f);
    exchange_dict_view(&d, LENGTHS, (vf_view){ .dtype = VC_I32, .nd = 0 }, &length);
    const vf_meta meta[] = { { "architecture", full }, { "format_version", "1.0.1" },
                             { "target_fps", fps } };
    rc = exchange_write_safetensors(x->dir, name, &d, meta, 3, err);
    exchange_dict_free(&d);
    free(f);
    return rc;
}
