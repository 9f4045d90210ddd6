/* scales.c - see scales.h */
#include "formats/tensors/scales.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "common/tensor/packing.h"
#include "formats/json/json.h"
#include "formats/tensors/model_parts.h"
#include "formats/tensors/values.h"

/* ---- other quantisations ---- */

#define REMEDY "give them in bf16, f16, f32 or fp8; vtrain's --transformer_dtype fp8, int8 or " \
    "nf4 packs them"

static int refuse(const char *name, const char *how, vc_err *err)
{
    return vc_fail(err, VC_EMISMATCH, "tensor %.120s: the weights are quantised in a way that is "
                   "not read (%s): " REMEDY, name, how);
}

/* The first row that fits names the program. */
static const struct { const char *sign, *how; } others[] = {
    { "*.quant_state.bitsandbytes__fp4", "bitsandbytes, fp4" },
    { "*.absmax", "bitsandbytes, 4 bits" }, { "*.quant_map", "bitsandbytes, 4 bits" },
    { "*.nested_absmax", "bitsandbytes, 4 bits" }, { "*.quant_state.*", "bitsandbytes" },
    { "*.SCB", "bitsandbytes, int8" }, { "*.weight_format", "bitsandbytes, int8" },
    { "*.wscales", "nunchaku's SVDQuant" }, { "*.wtscale", "nunchaku's SVDQuant" },
    { "*.wcscales", "nunchaku's SVDQuant" }, { "*.smooth_factor*", "nunchaku's SVDQuant" },
    { "*.smooth*", "nunchaku's SVDQuant" }, { "*.proj_down", "nunchaku's SVDQuant" },
    { "*.qzeros", "GPTQ or AWQ" }, { "*.g_idx", "GPTQ" }, { "*.qweight", "GPTQ or AWQ" },
    { "*.weight_scale_2", "nvfp4" }, { "*.weight_packed", "compressed-tensors" },
    { "*.weight_zero_point", "compressed-tensors" },
    { "*.weight_scale_inv", "fp8 with weight_scale_inv, in squares of 128" },
    { "*.weight_codebook", "a codebook" }, { "*._data", "optimum-quanto" },
    { "*._scale", "optimum-quanto" },
};

static int check_name(const vf_model *m, const char *name, vc_err *err)
{
    vf_view v;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (fnmatch(others[i].sign, name, 0))
            continue;
        /* nunchaku's files have qweight beside wscales. */
        char *beside = vc_format("%.*swscales", (int)(strrchr(name, '.') - name) + 1, name);
        if (!beside)
            return vc_no_memory(err);
        bool nunchaku = !vf_model_get(m, beside, &v, NULL);
        free(beside);
        return refuse(name, nunchaku ? "nunchaku's SVDQuant" : others[i].how, err);
    }
    return 0;
}

/* Checks the format that ComfyUI gives for a module: bytes of JSON, or an object of the header. */
static int check_format(const cJSON *o, const char *name, vc_err *err)
{
    const char *format = "";
    int rc = vf_json_str(o, "format", &format, err);
    if (rc)
        return vc_context(err, rc, "%.120s", name);
    return !strncmp(format, "float8_", 7) || !strcmp(format, "int8_tensorwise") ? 0
         : vc_fail(err, VC_EMISMATCH, "%.120s: %.60s: the weights are quantised in a way that is "
                   "not read: " REMEDY, name, format);
}

static int check_comfy(const vf_view *v, vc_err *err)
{
    cJSON *o = NULL;
    int rc = vf_json_parse(&o, v->data, v->bytes, err);
    if (!rc)
        rc = check_format(o, v->name, err);
    else
        vc_context(err, rc, "%s", v->name);
    cJSON_Delete(o);
    return rc;
}

static int check_metadata(const vf_model *m, vc_err *err)
{
    int rc = 0;
    for (int i = 0; !rc && i < m->n_shards; i++) {
        const char *text = vf_safetensors_meta(m->shard[i], "_quantization_metadata");
        cJSON *o = NULL;
        if (!text || vf_json_parse(&o, text, strlen(text), NULL))
            continue;
        const cJSON *layers = cJSON_GetObjectItemCaseSensitive(o, "layers");
        for (const cJSON *l = layers ? layers->child : NULL; !rc && l; l = l->next)
            if (cJSON_IsObject(l))
                rc = check_format(l, l->string, err);
        cJSON_Delete(o);
    }
    return rc;
}

/* ---- scales ---- */

typedef enum { WEIGHT, SCALE, LEFT_OUT } kind;

static const struct { const char *end; kind is; } ends[] = {
    { ".scale_weight", SCALE }, { ".weight_scale", SCALE }, { ".scale_input", LEFT_OUT },
    { ".input_scale", LEFT_OUT }, { ".comfy_quant", LEFT_OUT }, { "scaled_fp8", LEFT_OUT },
};

static kind kind_of(const char *name, size_t *stem)
{
    const size_t n = strlen(name);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t e = strlen(ends[i].end);
        *stem = n - e;
        if (n >= e && !strcmp(name + n - e, ends[i].end) &&
            (*ends[i].end == '.' || n == e || name[n - e - 1] == '.'))
            return ends[i].is;
    }
    return WEIGHT;
}

/* Sets how the numbers of a scale belong to the values of a weight. */
static bool fits(int64_t scales[2], const vf_view *scale, const vf_view *weight)
{
    const int64_t n = vf_view_count(scale), rows = weight->nd ? weight->dim[0] : 1;
    int64_t row = 1, first = scale->nd ? scale->dim[0] : 1;
    for (int i = 1; i < weight->nd; i++)
        row *= weight->dim[i];
    scales[0] = n == 1 ? 1 : rows;
    scales[1] = n == 1 ? 1 : rows > 0 ? n / rows : 0;
    return n == 1 || (first == rows && rows > 0 && n % rows == 0 && scales[1] > 0 &&
                      row % scales[1] == 0);
}

static int check_scale(const vf_view *scale, const char *weight, const vf_model *m, vc_err *err)
{
    char have[VT_SHAPE_TEXT], want[VT_SHAPE_TEXT];
    int64_t scales[2];
    vf_view w;
    if (vf_model_get(m, weight, &w, NULL))
        return vc_fail(err, VC_EFORMAT, "%s: the file has no %s", scale->name, weight);
    if (scale->dtype > VC_F64 || scale->dtype == VC_F8E4M3 || scale->dtype == VC_F8E5M2)
        return refuse(scale->name, scale->dtype == VC_U8 ? "mxfp8, scales are exponents"
                                                         : "scales are no plain numbers", err);
    if (w.dtype > VC_F64 && !vt_is_code(w.dtype))
        return refuse(weight, "packed", err);
    vt_shape_text(have, scale->nd, scale->dim);
    vt_shape_text(want, w.nd, w.dim);
    if (!fits(scales, scale, &w))
        return vc_fail(err, VC_EFORMAT, "%s: %s numbers do not fit a weight of %s", scale->name,
                       have, want);
    return vf_view_finite(scale, err);
}

int vf_model_add_scale(vf_model *m, const vf_view *v, size_t stem, vc_err *err)
{
    char **more = realloc(m->name, ((size_t)m->n_names + 1) * sizeof *more);
    if (!more)
        return vc_no_memory(err);
    m->name = more;
    char *name = m->name[m->n_names] = vc_format("%.*s.weight", (int)stem, v->name);
    if (!name)
        return vc_no_memory(err);
    m->n_names++;
    m->scale[m->n_scales] = *v;
    m->scale[m->n_scales++].name = name;
    return check_scale(v, name, m, err);
}

int vf_model_take_scales(vf_model *m, vc_err *err)
{
    int rc = check_metadata(m, err), kept = 0;
    size_t stem;
    for (int i = 0; !rc && i < m->n; i++)
        rc = check_name(m, m->tensor[i].name, err);
    for (int i = 0; !rc && i < m->n; i++) {
        const vf_view *v = &m->tensor[i];
        const kind is = kind_of(v->name, &stem);
        if (is == SCALE)
            rc = vf_model_add_scale(m, v, stem, err);
        else if (is == LEFT_OUT && !fnmatch("*.comfy_quant", v->name, 0))
            rc = check_comfy(v, err);
    }
    for (int i = 0; !rc && i < m->n; i++)
        if (kind_of(m->tensor[i].name, &stem) == WEIGHT)
            m->tensor[kept++] = m->tensor[i];
    m->n = rc ? m->n : kept;
    return rc ? rc : vf_model_sort_scales(m, err);
}

void vf_model_scale(vt_host *v, const vf_model *m, const char *name)
{
    vf_view weight = { .nd = v->nd };
    const vf_view *s = vf_model_find(m->scale, m->n_scales, name);
    if (!s)
        return;
    memcpy(weight.dim, v->dim, sizeof weight.dim);
    if (!fits(v->scales, s, &weight))
        return;
    v->scale = s->data;
    v->scale_type = s->dtype;
}
