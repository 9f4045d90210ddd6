/* generator_open.c - the fields and the weights of a vocoder's network: see generator.h */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/json/config.h"
#include "precompute/sound/generator.h"
#include "precompute/sound/generator_fields.h"

enum { MAX_WIDTH = 1 << 14, MAX_KERNEL = 64, MAX_FACTOR = 32, MAX_FILTER = 64, NAME = 128 };
#define EPS 1e-9                     /* beside the weight of sin^2 */
#define LAST_SLOPE 0.01f             /* of the last rectifier: PyTorch's default */

/* ---- config.json ---- */

static const vf_config_row rows[] = {
    VF_INT(gen_fields, in, "in_channels", 128, 1, MAX_WIDTH),
    VF_INT(gen_fields, hidden, "hidden_channels", 1024, 2, MAX_WIDTH),
    VF_INT(gen_fields, out, "out_channels", 2, 1, 2),
    VF_INTS(gen_fields, kernel, n_kernels, "upsample_kernel_sizes", 1, 1, MAX_KERNEL),
    VF_INTS(gen_fields, factor, n_factors, "upsample_factors", 1, 1, MAX_FACTOR),
    VF_INTS(gen_fields, stack_kernel, stacks, "resnet_kernel_sizes", 1, 1, MAX_KERNEL),
    VF_WORD(gen_fields, act, "act_fn", "leaky_relu", GEN_ACTS),
    VF_NUM(gen_fields, slope, "leaky_relu_negative_slope", 0.1, 0, 1),
    VF_FLAG(gen_fields, antialias, "antialias", false),
    VF_INT(gen_fields, ratio, "antialias_ratio", 2, 2, 2),
    VF_INT(gen_fields, filter, "antialias_kernel_size", 12, 2, MAX_FILTER),
    VF_WORD(gen_fields, last, "final_act_fn", "none", GEN_LASTS),
    VF_FLAG(gen_fields, final_bias, "final_bias", true),
    VF_INT(gen_fields, rate, "output_sampling_rate", 24000, 1000, 192000),
    { 0 }
};

/* A network has one list of dilations here, which all stacks share. */
static int read_dilations(gen_fields *f, const cJSON *lists, vc_err *err)
{
    const cJSON *first = cJSON_GetArrayItem(lists, 0), *list;

    f->n_dilated = cJSON_GetArraySize(lists);
    f->dilations = cJSON_GetArraySize(first);
    if (f->n_dilated != f->stacks || f->dilations < 1 || f->dilations > GEN_DILATIONS)
        return vc_fail(err, VC_EFORMAT, "resnet_dilations has %d lists, the first of %d numbers, "
                       "for %d resnet_kernel_sizes", f->n_dilated, f->dilations, f->stacks);
    cJSON_ArrayForEach(list, lists) {
        if (cJSON_GetArraySize(list) != f->dilations || !cJSON_Compare(list, first, true))
            return vc_fail(err, VC_EFORMAT, "resnet_dilations: lists that differ are not "
                           "supported");
        for (int i = 0; i < f->dilations; i++) {
            const cJSON *n = cJSON_GetArrayItem(list, i);
            if (!cJSON_IsNumber(n) || n->valueint < 1 || n->valueint >= GEN_MAX_DILATION)
                return vc_fail(err, VC_EFORMAT, "resnet_dilations: entry %d is not in 1..%d", i,
                               GEN_MAX_DILATION - 1);
            f->dilation[i] = n->valueint;
        }
    }
    return 0;
}

static int check(const gen_fields *f, vc_err *err)
{
    if (f->n_kernels != f->n_factors)
        return vc_fail(err, VC_EFORMAT, "upsample_kernel_sizes has %d entries for %d "
                       "upsample_factors", f->n_kernels, f->n_factors);
    for (int i = 0; i < f->n_factors; i++)
        if (f->kernel[i] < f->factor[i] || (f->kernel[i] - f->factor[i]) % 2)
            return vc_fail(err, VC_EFORMAT, "upsample_kernel_sizes: %d for a factor of %d; it must "
                           "exceed the factor by an even number", f->kernel[i], f->factor[i]);
    if (f->hidden % (1 << f->n_factors))
        return vc_fail(err, VC_EFORMAT, "hidden_channels: %d cannot be halved %d times", f->hidden,
                       f->n_factors);
    if (f->filter % 2)
        return vc_fail(err, VC_EFORMAT, "antialias_kernel_size: %d is odd", f->filter);
    for (int i = 0; i < f->stacks; i++)
        if (f->stack_kernel[i] % 2 == 0)
            return vc_fail(err, VC_EFORMAT, "resnet_kernel_sizes: %d is even",
                           f->stack_kernel[i]);
    return 0;
}

/* The fields of the object whose names begin with the prefix, without the prefix. */
static cJSON *without_prefix(const cJSON *config, const char *prefix)
{
    cJSON *own = cJSON_CreateObject(), *copy;
    const cJSON *field;

    cJSON_ArrayForEach(field, config)
        if (!strncmp(field->string, prefix, strlen(prefix)) &&
            (copy = cJSON_Duplicate(field, true)))
            cJSON_AddItemToObject(own, field->string + strlen(prefix), copy);
    return own;
}

int gen_read(gen_fields *f, const cJSON *config, const char *prefix, vc_err *err)
{
    cJSON *own = without_prefix(config, prefix);
    int rc = own ? 0 : vc_no_memory(err);

    memset(f, 0, sizeof *f);
    if (!rc)
        rc = vf_config_read(f, rows, own, err);
    if (!rc)
        rc = read_dilations(f, cJSON_GetObjectItem(own, "resnet_dilations"), err);
    if (!rc)
        rc = check(f, err);
    cJSON_Delete(own);
    return *prefix ? vc_context(err, rc, "%s", prefix) : rc;
}

/* ---- weights ---- */

void gen_weights_close(gen_weights *w)
{
    for (int i = 0; i < w->n; i++)
        vt_param_free(w->g, w->own[i]);
    free(w->own);
    free(w->used);
}

float *gen_weights_read(gen_weights *w, const char *name, int nd, const int64_t *dim)
{
    vf_view v;
    float *x = NULL;
    bool same = true;

    if (!w->rc)
        w->rc = vf_model_get(w->file, name, &v, w->err);
    if (w->rc)
        return NULL;
    for (int i = 0; i < nd; i++)
        same &= i < v.nd && v.dim[i] == dim[i];
    if (v.nd != nd || !same || v.dtype > VC_F16) {
        char have[VT_SHAPE_TEXT], want[VT_SHAPE_TEXT];
        vt_shape_text(have, v.nd, v.dim);
        vt_shape_text(want, nd, dim);
        w->rc = vc_fail(w->err, VC_EMISMATCH, "tensor %s is %s %s; it must be %s", name,
                        vc_dtype_name(v.dtype), have, want);
        return NULL;
    }
    for (int i = 0; i < vf_model_count(w->file); i++)
        if (!strcmp(vf_model_at(w->file, i)->name, name))
            w->used[i] = true;
    x = malloc((size_t)vf_view_count(&v) * sizeof *x);
    if (x)
        vc_to_f32(x, v.data, v.dtype, (size_t)vf_view_count(&v));
    else
        w->rc = vc_no_memory(w->err);
    return x;
}

/* Makes a parameter of values, which are freed. */
static vt_tensor *keep(gen_weights *w, float *x, int nd, const int64_t *dim)
{
    if (!w->rc && w->n == w->room) {
        vt_tensor **more = realloc(w->own, (size_t)(w->room * 2 + 64) * sizeof *more);
        w->rc = more ? 0 : vc_no_memory(w->err);
        if (more) {
            w->own = more;
            w->room = w->room * 2 + 64;
        }
    }
    vt_tensor *t = w->rc ? NULL : vt_param_new(w->g, VC_F32, nd, dim, x, VC_F32, false, w->err);
    if (t)
        w->own[w->n++] = t;
    else if (!w->rc)
        w->rc = VC_ENOMEM;
    free(x);
    return t;
}

static const char *name_of(char text[NAME], const char *below, const char *name)
{
    snprintf(text, NAME, "%s%s", below, name);
    return text;
}

static void bind_conv(gen_weights *w, gen_conv *c, int out, int in, int kernel, int dilation,
                      bool bias, const char *name)
{
    const int64_t dim[] = { out, in, kernel }, to[] = { out, in, 1, kernel, 1 };
    char text[NAME];

    c->kernel = kernel;
    c->dilation = dilation;
    c->w = keep(w, gen_weights_read(w, name_of(text, name, ".weight"), 3, dim), 5, to);
    if (bias)
        c->b = keep(w, gen_weights_read(w, name_of(text, name, ".bias"), 1, dim), 1, dim);
}

/* Cuts a transposed convolution [C,K,k] into its phases. Sample `factor` i + r of the result has
 * w[j] x[i - m], j = factor m + r + pad, so that phase r sees the samples i - m with 0 <= j < k. */
static void bind_up(gen_weights *w, gen_step *p, int out, int in, int kernel, int factor,
                    const char *name)
{
    const int pad = (kernel - factor) / 2, before = (kernel - 1 - pad) / factor;
    const int after = (pad + factor - 1) / factor, taps = before + after + 1;
    const int64_t dim[] = { in, out, kernel }, to[] = { (int64_t)factor * out, in, 1, taps, 1 };
    char text[NAME];
    float *x = gen_weights_read(w, name_of(text, name, ".weight"), 3, dim);
    float *b = gen_weights_read(w, name_of(text, name, ".bias"), 1, dim + 1);
    float *y = calloc((size_t)(to[0] * to[1]) * (size_t)taps, sizeof *y);
    float *bias = malloc((size_t)to[0] * sizeof *bias);

    if (!w->rc && (!y || !bias))
        w->rc = vc_no_memory(w->err);
    for (int r = 0; !w->rc && r < factor; r++)
        for (int k = 0; k < out; k++) {
            bias[r * out + k] = b[k];
            for (int c = 0; c < in; c++)
                for (int m = -after; m <= before; m++) {
                    const int j = factor * m + r + pad;
                    if (j >= 0 && j < kernel)
                        y[(((size_t)r * (size_t)out + (size_t)k) * (size_t)in + (size_t)c) *
                          (size_t)taps + (size_t)(before - m)] =
                            x[((size_t)c * (size_t)out + (size_t)k) * (size_t)kernel + (size_t)j];
                }
        }
    free(x);
    free(b);
    p->factor = factor;
    p->before = before;
    p->after = after;
    p->up = (gen_conv){ .kernel = taps, .dilation = 1 };
    p->up.w = keep(w, y, 5, to);
    p->up.b = keep(w, bias, 1, to);
}

/* The phases of the filter that multiplies the samples: w[s][h + m] weighs the sample m behind, for
 * place s between two samples. Both sides have as many taps. */
static vt_tensor *bind_filter_up(gen_weights *w, int ratio, int k, const char *name)
{
    const int shift = (k - ratio) / 2, half = (k - 1) / ratio;
    const int64_t dim[] = { 1, 1, k }, to[] = { ratio, 1, 1, 2 * half + 1, 1 };
    float *x = gen_weights_read(w, name, 3, dim);
    float *y = calloc((size_t)(ratio * (2 * half + 1)), sizeof *y);

    if (!w->rc && !y)
        w->rc = vc_no_memory(w->err);
    for (int s = 0; !w->rc && s < ratio; s++)
        for (int m = -half; m <= half; m++) {
            const int j = s + shift - m * ratio;
            if (j >= 0 && j < k)
                y[s * (2 * half + 1) + half + m] = (float)ratio * x[j];
        }
    free(x);
    return keep(w, y, 5, to);
}

/* exp of a tensor of logarithms; inverse: 1 / (exp + EPS). */
static vt_tensor *bind_exp(gen_weights *w, int width, bool inverse, const char *name)
{
    const int64_t dim[] = { width };
    float *x = gen_weights_read(w, name, 1, dim);

    for (int i = 0; x && i < width; i++)
        x[i] = (float)(inverse ? 1 / (exp((double)x[i]) + EPS) : exp((double)x[i]));
    return keep(w, x, 1, dim);
}

static void bind_act(gen_weights *w, const gen_fields *f, gen_act *a, int width, int act,
                     bool antialias, const char *name)
{
    const int64_t down[] = { 1, 1, f->filter }, to[] = { 1, 1, 1, f->filter, 1 };
    const char *inner = antialias ? ".act" : "";
    char text[NAME];

    a->slope = (float)f->slope;
    if (act != GEN_LEAKY) {
        snprintf(text, sizeof text, "%s%s.alpha", name, inner);
        a->a = bind_exp(w, width, false, text);
        snprintf(text, sizeof text, "%s%s.%s", name, inner, act == GEN_SNAKE ? "alpha" : "beta");
        a->b = bind_exp(w, width, true, text);
    }
    if (!antialias)
        return;
    a->up = bind_filter_up(w, f->ratio, f->filter, name_of(text, name, ".upsample.filter"));
    a->down = keep(w, gen_weights_read(w, name_of(text, name, ".downsample.filter"), 3, down), 5,
                   to);
}

static void bind_stack(gen_weights *w, const gen_fields *f, gen_stack *k, int width, int kernel,
                       const char *name)
{
    char text[NAME];

    for (int i = 0; i < f->dilations; i++) {
        snprintf(text, sizeof text, "%s.acts1.%d", name, i);
        bind_act(w, f, &k->act1[i], width, f->act, f->antialias, text);
        snprintf(text, sizeof text, "%s.acts2.%d", name, i);
        bind_act(w, f, &k->act2[i], width, f->act, f->antialias, text);
        snprintf(text, sizeof text, "%s.convs1.%d", name, i);
        bind_conv(w, &k->conv1[i], width, width, kernel, f->dilation[i], true, text);
        snprintf(text, sizeof text, "%s.convs2.%d", name, i);
        bind_conv(w, &k->conv2[i], width, width, kernel, 1, true, text);
    }
}

void gen_bind(generator *m, gen_weights *w, const char *below)
{
    enum { ENDS = 7 };               /* the kernel of the first and the last convolution */
    const gen_fields *f = &m->f;
    int width = f->hidden;
    char name[64];

    snprintf(name, sizeof name, "%sconv_in", below);
    bind_conv(w, &m->conv_in, f->hidden, f->in, ENDS, 1, true, name);
    for (int i = 0; i < f->n_factors; i++, width /= 2) {
        gen_step *p = &m->step[i];
        snprintf(name, sizeof name, "%supsamplers.%d", below, i);
        bind_up(w, p, width / 2, width, f->kernel[i], f->factor[i], name);
        for (int k = 0; k < f->stacks; k++) {
            snprintf(name, sizeof name, "%sresnets.%d", below, i * f->stacks + k);
            bind_stack(w, f, &p->stack[k], width / 2, f->stack_kernel[k], name);
        }
    }
    snprintf(name, sizeof name, "%sact_out", below);
    const int last = f->act == GEN_LEAKY ? GEN_LEAKY : GEN_SNAKEBETA;
    bind_act(w, f, &m->act_out, width, last, last != GEN_LEAKY, name);
    if (last == GEN_LEAKY)
        m->act_out.slope = LAST_SLOPE;
    snprintf(name, sizeof name, "%sconv_out", below);
    bind_conv(w, &m->conv_out, f->out, width, ENDS, 1, f->final_bias, name);
}
