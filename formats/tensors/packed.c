/* packed.c - weights that bitsandbytes stored in four or eight bits; see scales.h */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/json/json.h"
#include "formats/tensors/model_parts.h"
#include "formats/tensors/scales.h"
#include "formats/tensors/values.h"

#define NF4_STATE ".quant_state.bitsandbytes__nf4"
#define REMEDY "give the weights in bf16, and vtrain --transformer_dtype nf4 or int8"

static bool ends_with(const char *name, const char *end)
{
    const size_t n = strlen(name), m = strlen(end);
    return n > m && !strcmp(name + n - m, end);
}

/* Sets *v to the tensor NAME + end, where `stem` characters of `of` are NAME. */
static int beside(const vf_view **v, const vf_model *m, const char *of, size_t stem,
                  const char *end, vc_err *err)
{
    char *name = vc_format("%.*s%s", (int)stem, of, end);
    if (!name)
        return vc_no_memory(err);
    *v = vf_model_find(m->tensor, m->n, name);
    int rc = *v ? 0 : vc_fail(err, VC_EFORMAT, "%s: the file has no %s", of, name);
    free(name);
    return rc;
}

static int is_shaped(const vf_view *v, vc_dtype type, int64_t count, vc_err *err)
{
    if (v->dtype == type && vf_view_count(v) == count)
        return 0;
    return vc_fail(err, VC_EFORMAT, "%s: %lld numbers of %s, %lld of %s were expected", v->name,
                   (long long)vf_view_count(v), vc_dtype_name(v->dtype), (long long)count,
                   vc_dtype_name(type));
}

/* Memory for the n scales of a weight, which the model owns. */
static float *make(vf_model *m, int64_t n, vc_err *err)
{
    float **more = realloc(m->made, ((size_t)m->n_made + 1) * sizeof *more);
    float *f = more ? malloc((size_t)n * sizeof *f) : NULL;
    if (more)
        m->made = more;
    if (!f) {
        vc_no_memory(err);
        return NULL;
    }
    m->made[m->n_made++] = f;
    return f;
}

/* ---- four bits ---- */

/* What a file's JSON says of a weight. */
typedef struct nf4_state {
    int64_t out, in, block, nested_block;
    double nested_offset;
    bool nested;
} nf4_state;

static int parse_state(nf4_state *s, const cJSON *o, vc_err *err)
{
    const cJSON *shape;
    const char *type;
    int rc = vf_json_str(o, "quant_type", &type, err);
    if (!rc)
        rc = vf_json_arr(o, "shape", &shape, err);
    if (!rc)
        rc = vf_json_int(o, "blocksize", &s->block, err);
    if (!rc)
        rc = vf_json_int_opt(o, "nested_blocksize", &s->nested_block, err);
    if (!rc)
        rc = vf_json_num_opt(o, "nested_offset", &s->nested_offset, err);
    if (rc)
        return rc;
    s->nested = s->nested_block > 0;
    const double out = cJSON_GetNumberValue(cJSON_GetArrayItem(shape, 0));
    const double in = cJSON_GetNumberValue(cJSON_GetArrayItem(shape, 1));
    if (strcmp(type, "nf4") || cJSON_GetArraySize(shape) != 2 || !(out >= 1 && out < 0x1p30) ||
        !(in >= 1 && in < 0x1p30) || s->block < 2)
        return vc_fail(err, VC_EFORMAT, "no nf4 weight of two axes: " REMEDY);
    s->out = (int64_t)out;
    s->in = (int64_t)in;
    if (s->block % 2 || s->in % s->block)
        return vc_fail(err, VC_EMISMATCH, "rows of %lld numbers do not consist of blocks of %lld: "
                       REMEDY, (long long)s->in, (long long)s->block);
    return 0;
}

static int read_state(nf4_state *s, const vf_view *v, vc_err *err)
{
    cJSON *o = NULL;
    *s = (nf4_state){ 0 };
    int rc = vf_json_parse(&o, v->data, v->bytes, err);
    if (!rc)
        rc = parse_state(s, o, err);
    cJSON_Delete(o);
    return rc;
}

/* The 16 numbers of the codes must be those of nf4. */
static int check_table(const vf_model *m, const char *of, size_t stem, vc_err *err)
{
    const vf_view *v;
    float table[16];
    int rc = beside(&v, m, of, stem, ".quant_map", err);
    if (!rc)
        rc = is_shaped(v, VC_F32, 16, err);
    if (rc)
        return rc;
    vf_view_f32(table, v, 0, 16);
    for (int i = 0; i < 16; i++)
        if (!(fabsf(table[i] - vc_nf4[i]) < 1e-6f))
            return vc_fail(err, VC_EMISMATCH, "%s: number %d is %g, and nf4's is %g: " REMEDY,
                           v->name, i, (double)table[i], (double)vc_nf4[i]);
    return 0;
}

/* Scales that were themselves stored in eight bits: a code stands for a number of a table, which is
 * multiplied by that of its block, and an offset is added (QLoRA's double quantisation). */
static int unpack_scales(float *to, const nf4_state *s, int64_t n, const vf_view *codes,
                         const vf_model *m, const char *of, size_t stem, vc_err *err)
{
    const int64_t blocks = (n + s->nested_block - 1) / s->nested_block;
    const vf_view *table, *by;
    float numbers[256];
    int rc = is_shaped(codes, VC_U8, n, err);
    if (!rc)
        rc = beside(&table, m, of, stem, ".nested_quant_map", err);
    if (!rc)
        rc = beside(&by, m, of, stem, ".nested_absmax", err);
    if (!rc)
        rc = is_shaped(table, VC_F32, 256, err);
    if (!rc)
        rc = is_shaped(by, VC_F32, blocks, err);
    if (rc)
        return rc;
    vf_view_f32(numbers, table, 0, 256);
    for (int64_t i = 0; i < n; i++) {
        float most;
        vf_view_f32(&most, by, (uint64_t)(i / s->nested_block), 1);
        to[i] = numbers[((const uint8_t *)codes->data)[i]] * most + (float)s->nested_offset;
    }
    return 0;
}

static int take_nf4(vf_model *m, const char *of, const vf_view *state, vf_view *scale,
                    vc_err *err)
{
    const size_t stem = strlen(of) - strlen(NF4_STATE);
    const vf_view *codes, *absmax;
    nf4_state s;
    int rc = vc_context(err, read_state(&s, state, err), "%s", of);
    if (!rc)
        rc = beside(&codes, m, of, stem, "", err);
    if (!rc)
        rc = beside(&absmax, m, of, stem, ".absmax", err);
    if (!rc)
        rc = is_shaped(codes, VC_U8, s.out * s.in / 2, err);
    if (!rc)
        rc = check_table(m, of, stem, err);
    if (rc)
        return rc;
    const int64_t n = s.out * s.in / s.block;
    float *f = make(m, n, err);
    if (!f)
        return VC_ENOMEM;
    rc = s.nested ? unpack_scales(f, &s, n, absmax, m, of, stem, err)
                  : is_shaped(absmax, VC_F32, n, err);
    if (!rc && !s.nested)
        vf_view_f32(f, absmax, 0, (uint64_t)n);
    *scale = (vf_view){ .name = absmax->name, .dtype = VC_F32, .nd = 2,
                        .dim = { s.out, s.in / s.block }, .data = f,
                        .bytes = (size_t)n * sizeof *f };
    vf_view *w = &m->tensor[codes - m->tensor];
    w->dtype = VC_NF4;
    w->nd = 2;
    w->dim[0] = s.out;
    w->dim[1] = s.in;
    return rc;
}

/* ---- eight bits ---- */

/* A weight's rows are their codes times SCB / 127. */
static int take_int8(vf_model *m, const char *of, const vf_view *scb, vf_view *scale, vc_err *err)
{
    const vf_view *w;
    int rc = beside(&w, m, of, strlen(of) - strlen("SCB"), "weight", err);
    if (!rc && (w->dtype != VC_I8 || w->nd != 2))
        rc = vc_fail(err, VC_EFORMAT, "%s: no int8 weight of two axes belongs to it", of);
    if (!rc)
        rc = is_shaped(scb, VC_F32, w->dim[0], err);
    if (rc)
        return rc;
    float *f = make(m, w->dim[0], err);
    if (!f)
        return VC_ENOMEM;
    vf_view_f32(f, scb, 0, (uint64_t)w->dim[0]);
    for (int64_t i = 0; i < w->dim[0]; i++)
        f[i] /= 127;
    *scale = (vf_view){ .name = scb->name, .dtype = VC_F32, .nd = 1, .dim = { w->dim[0] },
                        .data = f, .bytes = (size_t)w->dim[0] * sizeof *f };
    return 0;
}

/* bitsandbytes stores the order of an int8 weight's elements; 0 are rows. */
static int check_order(const vf_view *v, vc_err *err)
{
    return v->dtype == VC_U8 && vf_view_count(v) == 1 && !*(const uint8_t *)v->data ? 0
         : vc_fail(err, VC_EMISMATCH, "%s: the int8 weight is not stored by rows: " REMEDY,
                   v->name);
}

/* ---- all ---- */

static bool is_part(const char *name)
{
    static const char *const ends[] = {
        ".weight.absmax", ".weight.quant_map", ".weight.nested_absmax",
        ".weight.nested_quant_map", (".weight" NF4_STATE), ".SCB", ".weight_format",
    };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (ends_with(name, ends[i]))
            return true;
    return false;
}

int vf_model_take_packed(vf_model *m, vc_err *err)
{
    int rc = 0, kept = 0, packed = 0;
    m->scale = malloc(((size_t)m->n + 1) * sizeof *m->scale);
    if (!m->scale)
        return vc_no_memory(err);
    for (int i = 0; !rc && i < m->n; i++) {
        const vf_view v = m->tensor[i];
        vf_view scale;
        size_t stem = 0;
        if (ends_with(v.name, ".weight" NF4_STATE)) {
            stem = strlen(v.name) - strlen(".weight" NF4_STATE);
            rc = take_nf4(m, v.name, &v, &scale, err);
        } else if (ends_with(v.name, ".SCB")) {
            stem = strlen(v.name) - strlen(".SCB");
            rc = take_int8(m, v.name, &v, &scale, err);
        } else if (ends_with(v.name, ".weight_format")) {
            rc = check_order(&v, err);
        }
        packed += stem > 0;
        if (!rc && stem)
            rc = vf_model_add_scale(m, &scale, stem, err);
    }
    for (int i = 0; !rc && packed && i < m->n; i++)
        if (!is_part(m->tensor[i].name))
            m->tensor[kept++] = m->tensor[i];
    if (!rc && packed)
        m->n = kept;
    return rc;
}
